"""What a party keeps and signs has the precision of what was released, and no more.

Two dealings of the same numbers among the others, the same masks: whatever a party has
on its disk, signs, and prints must be the same bytes.
"""

import json
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from veilsum.drivers.loopback import Loopback
from veilsum.jobs.sums import mean
from veilsum.jobs.sums import sum as masked_sum

PARTIES = ("a", "b", "c", "d", "e")
LAWS = {
    "one word": {"largest": 1e6},
    "two words": {"largest": 1e20},
    "three words": {"largest": 1e30},
    "lattice": {"law": "lattice", "sigma": 1e6, "largest": 1e6},
    "wide lattice": {"law": "lattice", "sigma": 1e16, "largest": 1e20},
}


@dataclass(frozen=True, kw_only=True)
class Watched(Loopback):
    """Keeps the worlds that it has run."""

    worlds: list = field(default_factory=list)

    def world(self, assignment):
        self.worlds.append(super().world(assignment))
        return self.worlds[-1]


def dealt(cents):
    return {n: np.array(one) / 100.0 for n, one in zip(PARTIES, cents, strict=True)}


# Party a has the same in both; the others have the same together.
FIRST = dealt([[7, -1], [10, 20], [30, 0], [7, 7], [-4, 1]])
OTHER = dealt([[7, -1], [43, 0], [0, 28], [0, 0], [0, 0]])


@pytest.mark.parametrize("job", [masked_sum, mean])
@pytest.mark.parametrize("spread", ["flooding", "tree"])
@pytest.mark.parametrize("options", LAWS.values(), ids=LAWS)
def test_what_a_party_keeps_does_not_tell_who_gave_what(job, spread, options):
    found, disks = [], []
    for data in (FIRST, OTHER):
        driver = Watched(seed=5)
        found.append(
            job(data, unit=0.01, driver=driver, spread=spread, run="r", **options)
        )
        (world,) = driver.worlds
        disks.append(world.nodes["a"].disk)
        end = world.finished["a"]
        assert end.result.tobytes() == found[-1].released.answer.tobytes()
    assert disks[0].keys() == disks[1].keys() >= {"finished", "result", "answer/0"}
    assert [key for key in disks[0] if disks[0][key] != disks[1][key]] == []
    assert not [key for key in disks[0] if key.startswith(("sent/", "got/"))]
    texts = [json.dumps(one.to_dict(), sort_keys=True) for one in found]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("options", LAWS.values(), ids=LAWS)
def test_a_kept_total_is_the_whole_number_that_everybody_knows(options):
    driver = Watched(seed=5)
    found = masked_sum(FIRST, unit=0.01, driver=driver, **options)
    (world,) = driver.worlds
    kept = world.plan.codec.decode(world.nodes["a"].disk["answer/0"])
    law = world.plan.law
    assert law.decode(kept.numbers).tolist() == [50, 27]
    half = 1 << (8 * law.number_bytes - 1)
    signed = [int(one) - 2 * half * (int(one) >= half) for one in kept.numbers]
    assert signed == [50, 27], "reduced: nothing of how it came about"
    exact = [float(Fraction(one, 100)) for one in (50, 27)]
    assert found.value.tolist() == found.released.answer.tolist() == exact
