"""NIDS: one vector per round, with steps that need not know the network.

    v  = 2 x - z - a g - d
    d+ = d + (v - W v) / 2
    z+ = x - a g - d+,   x+ = P[z+]

The dual d would end at minus the mask and carry rounding of that size into every later
iteration. So a g + d is kept as one vector c, which fades as d takes the mask up:

    v  = 2 x - z - c,   c' = c + (v - W v) / 2,   z+ = x - c',   x+ = P[z+],
    c+ = c' + a (g(x+) - g(x)),   c(0) = a g(0).

Any step below 2 / L will do, but every cost must be convex by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import (
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    SteppedMethod,
)
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class NidsState:
    """x(k), z(k) before projection, the correction c(k), and k."""

    x: Vectors
    unprojected: Vectors
    correction: Vectors
    iteration: int = 0


@dataclass(frozen=True)
class Nids(SteppedMethod):
    """The method; its step is a, below 2 / L."""

    name: ClassVar[str] = "nids"
    traits: ClassVar[MethodTraits] = MethodTraits(
        domain=True,
        winds_up=True,
        bounds="smooth",
        bears=frozenset({"quantise"}),
        traceable=True,
    )

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method with half the largest step that is proved."""
        step = given.step or nids_step(given.need_smooth(cls.name))
        return MethodOnGraph(
            method=cls(given.domain, step),
            patience=given.held_back(step),
            rounds=given.rounds or 1,
        )

    def begin(self, start: Vectors, cost: EffectiveCost) -> NidsState:
        x = self.domain.project(start)
        return NidsState(x, x, self.step * cost.gradient(x))

    def outgoing(self, state: NidsState) -> Vectors:
        return 2.0 * state.x - state.unprojected - state.correction

    def advance(
        self, state: NidsState, mixed: Vectors, cost: EffectiveCost
    ) -> NidsState:
        correction = state.correction + 0.5 * (self.outgoing(state) - mixed)
        unprojected = state.x - correction
        x = self.domain.project(unprojected)
        turned = self.step * cost.gradient_change(x, state.x)
        return NidsState(x, unprojected, correction + turned, state.iteration + 1)

    def aim(self, state: NidsState) -> Vectors:
        return self.outgoing(state)


def nids_step(lipschitz: float, *, share: float = 1.0) -> float:
    """Return share / L, the step of NIDS; share is below 2.

    On a graph that mixes badly a small share is faster, on others a large one.
    """
    if not 0 < share < 2:
        raise InvalidInputError(
            f"nids's step must be below 2 / L: share must lie in (0, 2), found {share}",
            code="share-out-of-range",
        )
    return share / lipschitz
