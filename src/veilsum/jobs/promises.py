"""What the masks promise to those who take part, be it everybody or who is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from veilsum.graphs.topology import Topology
from veilsum.numbers.laws import Masks
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.worst_case import MOST_WORK, against_any

# What holds for these parties if they go through with a run by themselves.
Promise: TypeAlias = Callable[[tuple[str, ...]], Guarantee]

MAY_SHRINK = (
    "drop = true: the others may go on without a party that is lost before anything is "
    "shown; what holds then is worked out for those who are left, and may be less"
)
NOBODY_CURIOUS = (
    "tolerate = 0: a party that looks at what it has received is not covered, only "
    "whoever stands outside"
)


@dataclass(frozen=True)
class Promises:
    """What holds among whichever parties go through with it; worked out once each."""

    topology: Topology
    masks: Masks
    tolerate: int
    _known: dict[tuple[str, ...], Guarantee] = field(default_factory=dict)

    def __call__(self, members: tuple[str, ...]) -> Guarantee:
        """Return what holds among some of the parties."""
        if members not in self._known:
            self._known[members] = promise_among(
                members, self.topology, self.masks, tolerate=self.tolerate
            )
        return self._known[members]


def promise_among(
    members: tuple[str, ...], topology: Topology, masks: Masks, *, tolerate: int
) -> Guarantee:
    """Return what holds among some of the parties against every tolerated coalition.

    Whoever was lost has taken its links along, and hides nobody any more.
    """
    everybody = len(members) == topology.n_parties
    # Others wait for a party that looks at who is left.
    work = MOST_WORK if everybody else MOST_WORK / 4
    return against_any(
        topology.induced(topology.indices(members)),
        masks,
        tolerate=tolerate,
        # What shows nothing but sums is the same on every connected graph: no search.
        most_work=1.0 if masks.kind.sums_only else work,
    )


def foreseen(promise: Guarantee, *, drop: bool, caveats: Sequence[str]) -> Guarantee:
    """Return a promise as it is made before a run, when anybody may yet be lost."""
    more = (*caveats, MAY_SHRINK) if drop else tuple(caveats)
    return replace(promise, limits=(*promise.limits, *more))
