"""Projected gradient tracking: the costs may be non-convex if their sum is not.

    x+ = P[ W (x - a y) ]
    y+ = W ( y + (g(x+) - g(x)) ),   y(0) = g(x(0))

y_i follows the average gradient, whose sum masks do not change. The second line needs
the first one's result, so an iteration is two rounds of one vector each. With W a
Chebyshev polynomial of the mixing weights and enough rounds, a = 1 / L_bar is proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import (
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    SteppedMethod,
)
from veilsum.minimise.methods.certificate import certified_rounds
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class TrackingState:
    """x and y; between the two rounds of an iteration x has moved and y has not.

    Attributes:
        x: x(k).
        tracker: y(k), or what is about to be mixed into it.
        moved: whether the next round is the tracker's.
        iteration: k.
    """

    x: Vectors
    tracker: Vectors
    moved: bool = False
    iteration: int = 0


@dataclass(frozen=True)
class GradientTracking(SteppedMethod):
    """The method; its step is a; 1 / L_bar with certified rounds of mixing."""

    name: ClassVar[str] = "gradient-tracking"
    traits: ClassVar[MethodTraits] = MethodTraits(
        domain=True,
        nonconvex=True,
        bears=frozenset({"changing", "quantise"}),
        traceable=True,
    )
    rounds_per_iteration: ClassVar[int] = 2

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method with the step and the rounds that are certified."""
        bounds = given.need_bounds(cls.name)
        step = given.step or 1.0 / bounds.mean_smooth
        return MethodOnGraph(
            method=cls(given.domain, step),
            patience=2.0 / (step * bounds.mean_convex),
            rounds=given.rounds
            or certified_rounds(given.rate, bounds, constrained=given.constrained),
        )

    def begin(self, start: Vectors, cost: EffectiveCost) -> TrackingState:
        x = self.domain.project(start)
        return TrackingState(x, cost.gradient(x))

    def outgoing(self, state: TrackingState) -> Vectors:
        return state.tracker if state.moved else self.aim(state)

    def advance(
        self, state: TrackingState, mixed: Vectors, cost: EffectiveCost
    ) -> TrackingState:
        if state.moved:
            return TrackingState(state.x, mixed, iteration=state.iteration + 1)
        x = self.domain.project(mixed)
        # The difference first: it is small and exact, y and g are neither.
        tracker = state.tracker + cost.gradient_change(x, state.x)
        return TrackingState(x, tracker, moved=True, iteration=state.iteration)

    def aim(self, state: TrackingState) -> Vectors:
        return state.x - self.step * state.tracker
