"""What the masks promise to those who take part, be it everybody or who is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from veilsum.graphs.topology import Topology
from veilsum.numbers.laws import Law, grid_bits
from veilsum.privacy.guarantee import Guarantee, guarantee
from veilsum.privacy.worst_case import MOST_WORK, worst_case

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
    """What holds among whichever parties go through with it; worked out once each.

    Attributes:
        tolerate: it holds against every coalition of so many.
        corrupted: or against this one, where a simulation names it.
    """

    topology: Topology
    law: Law
    tolerate: int
    corrupted: tuple[str, ...] | None = None
    _known: dict[tuple[str, ...], Guarantee] = field(default_factory=dict)

    def __call__(self, members: tuple[str, ...]) -> Guarantee:
        """Return what holds among some of the parties.

        Whoever was lost has taken its links along, and hides nobody any more.
        """
        if members not in self._known:
            self._known[members] = self._among(members)
        return self._known[members]

    def _among(self, members: tuple[str, ...]) -> Guarantee:
        topology, law = self.topology, self.law
        everybody = len(members) == topology.n_parties
        left = topology.induced(topology.indices(members))
        sigma, grid = getattr(law, "sigma", None), grid_bits(law)
        if self.corrupted is not None:
            named = [name for name in self.corrupted if name in members]
            graph = topology if everybody else left
            return guarantee(
                graph, sigma=sigma, law=law.name, grid=grid, corrupted=named
            )
        # Others wait for a party that looks at who is left.
        work = MOST_WORK if everybody else MOST_WORK / 4
        return worst_case(
            left,
            tolerate=self.tolerate,
            law=law.name,
            sigma=sigma,
            grid=grid,
            # Uniform masks hide the same on every connected graph: no search is needed.
            most_work=1.0 if law.name == "uniform" else work,
        )


def foreseen(promise: Guarantee, *, drop: bool, caveats: Sequence[str]) -> Guarantee:
    """Return a promise as it is made before a run, when anybody may yet be lost."""
    more = (*caveats, MAY_SHRINK) if drop else tuple(caveats)
    return replace(promise, limits=(*promise.limits, *more))
