"""What a party keeps and signs has the precision of what was released, and no more.

Two dealings of the same numbers among the others, the same masks: whatever a party has
on its disk, signs, and prints must be the same bytes.
"""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd

from cases import each
from veilsum.drivers.loopback import Loopback
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.questions.regression import fit
from veilsum.questions.statistics import statistics
from veilsum.questions.sums import mean, sum as masked_sum
from veilsum.tables.columns import Column
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

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


@each("job", [masked_sum, mean])
@each("spread", ["flooding", "tree"])
@each("options", LAWS.values(), ids=LAWS)
def test_what_a_party_keeps_does_not_tell_who_gave_what(job, spread, options):
    asked = partial(job, unit=0.01, spread=spread, **options)
    first, other = kept_by_a(asked, FIRST), kept_by_a(asked, OTHER)
    assert first == other
    assert first.keys() >= {"finished", "result", "answer/0"}


def kept_by_a(job, data):
    """Everything on the disk of `a`, and the result as it is written down."""
    driver = Watched(seed=5)
    found = job(data, driver=driver, run="r")
    (world,) = driver.worlds
    disk = world.nodes["a"].disk
    end = world.finished["a"]
    assert end.result.tobytes() == found.released.answer.tobytes()
    assert not [key for key in disk if key.startswith(("sent/", "got/", "prepared/"))]
    # Others' Ready have commitments: hashes of vectors with nonces that are not kept.
    kept = {key: one for key, one in disk.items() if not key.startswith("commit/")}
    assert len(kept) < len(disk)
    theirs = world.plan.codec.decode(world.nodes["b"].disk["masked/0"])
    assert not [one for one in disk.values() if one and theirs.nonce in one]
    # Influence of rows is in the result of a simulation alone.
    plain = {key: one for key, one in found.to_dict().items() if key != "influence"}
    return {**kept, "written": json.dumps(plain, sort_keys=True)}


SCHEMA = Schema(
    (
        Column("age", "integer", 18, 95),
        Column("bmi", "number", 10, 80, unit=0.1),
        Column("smoker", "integer", 0, 1),
        Column("ward", "category", categories=("north", "south")),
    ),
    minimum_rows=1,
)
ON_TABLES = {"schema": SCHEMA, "rules": Rules.none(), "compare": False}
JOBS = {
    "least squares": partial(fit, "bmi ~ age + C(ward)", **ON_TABLES),
    "logistic": partial(fit, "smoker ~ age", family="logistic", **ON_TABLES),
    "statistics": partial(
        statistics,
        columns=["age", "bmi"],
        histograms={"bmi": [10.0, 25.0, 80.0]},
        tables=[("ward",)],
        **ON_TABLES,
    ),
}


def rows_of(seed, n=60):
    chance = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": chance.integers(18, 96, n),
            "bmi": np.round(chance.uniform(15.0, 40.0, n), 1),
            "smoker": chance.integers(0, 2, n),
            "ward": np.array(["north", "south"])[chance.integers(0, 2, n)],
        }
    )


@each("law", [{}, {"law": "lattice", "sigma": 1e9}], ids=str)
@each("job", JOBS.values(), ids=JOBS)
def test_what_a_party_keeps_of_tables_does_not_tell_who_has_which_row(job, law):
    rows, own = rows_of(0), np.arange(12)
    others = 12 + np.random.default_rng(1).permutation(48)
    hands = {
        "even": np.split(np.arange(12, 60), 4),
        "other": np.split(others, [5, 12, 40]),
    }

    def kept(hand, rows):
        dealt_rows = dict(zip(PARTIES, (own, *hands[hand]), strict=True))
        tables = {party: rows.iloc[places] for party, places in dealt_rows.items()}
        return kept_by_a(partial(job, **law), tables)

    first = kept("even", rows)
    assert kept("other", rows) == first
    assert first.keys() >= {"finished", "result", "answer/0"}
    # The twin: one of the others is a year older, and a tenth heavier.
    rows.loc[59, ["age", "bmi"]] += [1, 0.1]
    changed = kept("other", rows)
    assert {"answer/0", "finished", "written"} <= {
        key for key in first if changed.get(key) != first[key]
    }


@each("options", LAWS.values(), ids=LAWS)
def test_a_kept_total_is_the_whole_number_that_everybody_knows(options):
    driver = Watched(seed=5)
    found = masked_sum(FIRST, unit=0.01, driver=driver, **options)
    (world,) = driver.worlds
    kept = world.plan.codec.decode(world.nodes["a"].disk["answer/0"])
    law = world.plan.law
    assert law.decode(kept.numbers).tolist() == [50, 27]
    half = 1 << (8 * law.number_bytes - 1)
    whole = limbs_to_integers(kept.numbers).tolist()
    signed = [one - 2 * half * (one >= half) for one in whole]
    assert signed == [50, 27], "reduced: nothing of how it came about"
    exact = [float(Fraction(one, 100)) for one in (50, 27)]
    assert found.value.tolist() == found.released.answer.tolist() == exact
