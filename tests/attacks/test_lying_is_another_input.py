"""Whatever a coalition does within one sum is an input of its own, no more.

With flooding, one set of members and one request, other shares than the law's and other
masked vectors than follow from them change the total as another input would, and that
input follows from what the coalition has sent and received. Along a tree it does not
hold: the root tells two parties two totals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from liars import lying
from machines import changed
from veilsum.masks.masking import MaskStreams
from veilsum.numbers.secrets import Secret
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Down, Masked, Share
from veilsum.protocol.phases import SHARING
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# Without the coalition the others are connected.
COALITIONS = {
    "complete:5": ("3", "4"),
    "ring:5": ("2", "3"),
    "wheel:6": ("3",),
    "grid:2x3": ("2", "5"),
}
words = st.integers(0, 2**64 - 1)


@dataclass(frozen=True, repr=False)
class AnyShares(MaskStreams, Secret):
    """Shares of a coalition's choice."""

    drawn: object
    size: int

    def share(self, law, size, weight=1.0, **where):
        del size, weight, where
        vector = [self.drawn.draw(words) for _ in range(self.size)]
        return np.array(vector, dtype=law.dtype)


def lying_machine(coalition, drawn, size):
    """Machines of which some draw any shares and mask any vector."""

    class Lies(Machine):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            if self.me in coalition:
                self._streams = AnyShares(drawn, size)

        def _declare_ready(self):
            if self.me in coalition:
                vector = [drawn.draw(words) for _ in range(size)]
                self._epoch.private = np.array(vector, dtype=self.plan.law.dtype)
            return super()._declare_ready()

        table = changed(SHARING, action=_declare_ready)

    return Lies


def input_of(world, coalition):
    """What the coalition's frames come to: its own input in units of the law.

    Shares from honest parties to the coalition, less those back, and its own vectors.
    """
    total = np.zeros(world.plan.size, dtype=object)
    seen = set()
    for event in world.history:
        if event.party not in coalition or event.what not in ("send", "receive"):
            continue
        message = world.plan.codec.decode(event.detail)
        own = isinstance(message, Masked) and message.party in coalition
        if own and message.party not in seen:
            seen.add(message.party)
            total += message.numbers.astype(object)
        across = isinstance(message, Share) and event.peer not in coalition
        edge = (event.party, event.peer, event.what)
        if across and edge not in seen:
            seen.add(edge)
            sign = 1 if event.what == "receive" else -1
            total += sign * message.numbers.astype(object)
    return total % 2**64


@pytest.mark.parametrize("graph", COALITIONS)
@settings(max_examples=10, deadline=None)
@given(drawn=st.data(), seed=st.integers(0, 1000))
def test_lying_in_a_sum_is_another_input(graph, drawn, seed):
    coalition = COALITIONS[graph]
    setting = Setting(graph, law="uniform", seed=seed)
    world = setting.world(make=lying_machine(coalition, drawn, setting.size)).run()
    law, honest = world.plan.law, [n for n in setting.parties if n not in coalition]
    assert set(world.finished) == set(setting.parties)
    others = sum(law.encode(setting.private(name)).astype(object) for name in honest)
    expected = (others + input_of(world, coalition)) % 2**64
    for name in honest:
        found = shown_total(world, name)
        assert [*found] == [*expected]


def shown_total(world, name):
    """The total of all masked vectors that a party holds."""
    shown = world.nodes[name].machine._book.of(Masked, 0)
    return sum(one.numbers.astype(object) for one in shown.values()) % 2**64


# Along a tree


def tells_two_totals(world, to, message):
    if isinstance(message, Down) and world.first("down"):
        message = Down(message.epoch, message.numbers + np.uint64(1 << 24))
    yield to, message


def test_along_a_tree_no_one_input_explains_what_two_parties_are_told():
    """The twin: the root, which is the liar, tells one child another total."""
    setting = Setting("complete:5", law="uniform", spread="tree")
    world = lying(setting, tells_two_totals, liar="0")
    delivered = {
        tuple(event.detail.total)
        for event in world.history
        if event.what == "deliver" and event.party != "0"
    }
    assert len(delivered) == 2
