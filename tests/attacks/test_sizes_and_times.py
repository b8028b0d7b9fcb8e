"""Whoever carries frames and cannot read them: what sizes, counts and times say.

A relay, a network and a carrier of letters see how long every frame is, from whom to
whom it goes and when. Here the same is asked of tables of very different sizes, with
very different values: every frame of every link is as long, and goes at the same moment
of a clock that stands still while parties compute. How long they compute does depend on
their rows, and no clock here shows it: see `veilsum.audit.timing`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from attacks.catalogue import KINDS, dealt, even, n_honest
from attacks.watching import LAWS
from cases import each
from veilsum.audit.noninterference import InterferenceDriver
from veilsum.drivers.faults import Faults
from veilsum.masks.laws import Masks
from veilsum.numbers.limbs import is_wide_integer_type, limbs_to_integers
from veilsum.protocol.messages import Masked
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def frames(world):
    """All that can be seen of every link: when, from whom to whom, how long."""
    sent = (one for one in world.history if one.what == "send")
    return [(one.time, one.party, one.peer, len(one.detail)) for one in sent]


def seen(name, rows, dealing, law="uniform", **options):
    kind, driver = KINDS[name], InterferenceDriver(seed=1)
    held = kind.deal(dealing, rows)
    kind.run(held, driver=driver, run="same", **LAWS[law], **options)
    (world,) = driver.worlds
    return frames(world), [len(table) for table in held.values()]


def uneven(rows):
    """Nearly all rows are one party's."""
    n = n_honest(rows)
    return dealt(rows, np.arange(n)[::-1], [60, n - 60])


@each("law", LAWS)
@each("name", ["statistics", "least squares"])
def test_every_frame_is_as_long_and_as_early_whoever_has_how_many_rows(name, law):
    small, large = KINDS[name].rows(0, 300), KINDS[name].rows(9, 1500)
    first, sizes = seen(name, small, even(small), law)
    second, others = seen(name, large, uneven(large), law)
    assert max(others) > 10 * max(sizes)
    assert len(first) > 50
    assert first == second


def test_one_number_more_shows():
    """The twin: another question has other frames; how much is asked is no secret."""
    rows = KINDS["statistics"].rows(0, 300)
    first, _ = seen("statistics", rows, even(rows))
    second, _ = seen("histograms and tables", rows, even(rows))
    assert first != second
    assert {one[:3] for one in first} == {one[:3] for one in second}


def test_how_many_rounds_a_fit_takes_shows():
    """It follows from sums that all members know, and whoever counts frames does not.

    The tables are as long; one of them is harder to fit.
    """
    rows, lengths = KINDS["logistic"].rows(0, 300), []
    for every in (3, 8):  # one response of so many is turned round
        odd = np.arange(len(rows)) % every == 0
        harder = rows.assign(smoker=((rows["age"] > 45) != odd).astype(int))
        lengths.append(len(seen("logistic", harder, even(harder))[0]))
    assert lengths[0] < lengths[1]


@dataclass(frozen=True)
class Wide(Setting):
    """Numbers on a fine grid under large masks: more than eight bytes each."""

    scale: float = 1.0

    def mask_law(self, topology):
        return Masks("lattice", sigma=2.0**30, grid=50).on(topology)

    def private(self, party):
        return super().private(party) * self.scale


def test_lengths_do_not_depend_on_how_large_wide_numbers_are():
    lengths = []
    for scale in (1.0, 2.0**60):
        world = Wide(scale=scale).world().run()
        assert is_wide_integer_type(world.plan.law.dtype)
        lengths.append(sum(one[3] for one in frames(world)))
    assert lengths[0] == lengths[1]


def test_where_numbers_take_as_many_bytes_as_they_need_lengths_say_how_many():
    """The twin: without zero limbs it is seen how large masked numbers are."""
    lengths = []
    for scale in (1.0, 2.0**60):
        world = Wide(scale=scale).world().run()
        numbers = [
            limbs_to_integers(message.numbers)
            for event in world.history
            if event.what == "send"
            and (message := world.plan.codec.decode(event.detail))
            and isinstance(message, Masked)
        ]
        lengths.append(sum(int(n).bit_length() for row in numbers for n in row))
    assert lengths[0] < lengths[1]


def test_the_clock_of_this_test_moves():
    """The twin of equal times: a frame that is sent later is seen to be."""
    quick = Setting().world(Faults(delay=(0.1, 0.1))).run()
    late = Setting().world(Faults(delay=(0.1, 0.2))).run()
    assert {one[0] for one in frames(quick)} != {one[0] for one in frames(late)}
