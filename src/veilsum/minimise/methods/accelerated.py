"""Accelerated gradient tracking: Nesterov's steps on the tracked average gradient.

    x+ = P[ W (q - s / L_bar) ]
    q+ = x+ + b (x+ - x),   b = (1 - t) / (1 + t),   t = sqrt(mu_bar / L_bar)
    s+ = W ( s + (g(q+) - g(q)) ),   s(0) = g(q(0))

W is a Chebyshev polynomial of the mixing weights. As with gradient tracking, single
costs may be non-convex, and an iteration is two exchanges. Gradients are taken at q,
which may lie outside X: L must hold there too (Ye, Luo, Zhou and Zhang 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import (
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    Weighting,
    check_method_step,
)
from veilsum.minimise.methods.certificate import certified_accelerated_rounds
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class AcceleratedState:
    """x, q and s; between the two rounds x and q have moved and s has not.

    Attributes:
        x: x(k).
        ahead: q(k).
        tracker: s(k), or what is about to be mixed into it.
        moved: whether the next round is the tracker's.
        iteration: k.
    """

    x: Vectors
    ahead: Vectors
    tracker: Vectors
    moved: bool = False
    iteration: int = 0


@dataclass(frozen=True)
class AcceleratedTracking:
    """The method.

    Attributes:
        domain: X, public and the same for all.
        mean_smooth: L_bar of the average cost.
        mean_convex: mu_bar of the average cost.
    """

    name: ClassVar[str] = "accelerated"
    traits: ClassVar[MethodTraits] = MethodTraits(
        domain=True,
        nonconvex=True,
        bears=frozenset({"quantise"}),
        accelerates=True,
        traceable=True,
    )
    rounds_per_iteration: ClassVar[int] = 2

    domain: Domain
    mean_smooth: float
    mean_convex: float

    def __post_init__(self) -> None:
        check_method_step(
            self.name, 1.0 / self.mean_smooth if self.mean_smooth else 0.0
        )
        if not 0 < self.mean_convex <= self.mean_smooth:
            raise InvalidInputError(
                "accelerated needs a strongly convex average cost, with mean_convex "
                f"above zero and at most mean_smooth = {self.mean_smooth}, found "
                f"{self.mean_convex}; use nids or dgd where there is no such bound",
                code="not-strongly-convex",
            )

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method with the rounds that are certified."""
        bounds = given.need_bounds(cls.name)
        if given.step is not None:
            raise InvalidInputError(
                "accelerated takes steps of 1 / mean_smooth: leave step out, or use "
                "gradient-tracking",
                code="step-not-accepted",
            )
        return MethodOnGraph(
            method=cls(given.domain, bounds.mean_smooth, bounds.mean_convex),
            patience=4.0 * sqrt(bounds.condition),
            rounds=given.rounds or certified_accelerated_rounds(given.rate, bounds),
        )

    @cached_property
    def momentum(self) -> float:
        """b, how far beyond the estimate the next gradient is taken."""
        t = sqrt(self.mean_convex / self.mean_smooth)
        return (1.0 - t) / (1.0 + t)

    def begin(self, start: Vectors, cost: EffectiveCost) -> AcceleratedState:
        x = self.domain.project(start)
        return AcceleratedState(x, x, cost.gradient(x))

    def outgoing(self, state: AcceleratedState) -> Vectors:
        """Return q - s / L_bar, or the tracker in the second round."""
        return state.tracker if state.moved else self.aim(state)

    def parts(self, state: AcceleratedState) -> tuple[Weighting, ...]:
        return ("symmetric",)

    def advance(
        self, state: AcceleratedState, mixed: Vectors, cost: EffectiveCost
    ) -> AcceleratedState:
        if state.moved:
            return AcceleratedState(
                state.x, state.ahead, mixed, iteration=state.iteration + 1
            )
        x = self.domain.project(mixed)
        ahead = x + self.momentum * (x - state.x)
        tracker = state.tracker + cost.gradient_change(ahead, state.ahead)
        return AcceleratedState(
            x, ahead, tracker, moved=True, iteration=state.iteration
        )

    def aim(self, state: AcceleratedState) -> Vectors:
        return state.ahead - state.tracker / self.mean_smooth
