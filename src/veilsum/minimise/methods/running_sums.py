"""Tracking over links that lose messages: tell the sum of all that was ever passed on.

A tracker's mass that is lost biases the answer for good. So a party tells s, the sum
of its trackers from the start, and whoever hears it later than wanted gets all that
was missed at once:

    told:  x - a y  and  s
    x+ = P[ sum_j r_ij (x_j - a y_j) ]
    t+ = sum_j c_ij s_j,   y+ = (t+ - t) + (g(x+) - g(x)),   s+ = s + y+

where every neighbour counts with what was last heard of it. If nothing is lost, y is
the tracker of gradient tracking, mixed before the change is added. Whoever drives it
keeps the last message of every link.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import (
    EVERY_FAULT,
    Message,
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    SteppedMethod,
    Weighting,
)
from veilsum.minimise.methods.certificate import check_method_mixing_rate
from veilsum.minimise.methods.one_way import OneWayMixing
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class RunningSumState:
    """Where a party is, and what has passed through it.

    Attributes:
        x: x(k).
        tracker: y(k).
        passed_on: s(k), all trackers so far added up.
        taken_in: t(k), all that was taken in so far.
        iteration: k.
    """

    x: Vectors
    tracker: Vectors
    passed_on: Vectors
    taken_in: Vectors
    iteration: int = 0


@dataclass(frozen=True)
class RunningSums(SteppedMethod):
    """The method; its step is a."""

    name: ClassVar[str] = "running-sums"
    traits: ClassVar[MethodTraits] = MethodTraits(
        nonconvex=True,
        directed=True,
        symmetric=False,
        vectors=2,
        bears=EVERY_FAULT,
    )

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method with a step that does well in trials."""
        bounds, mixing = given.need_bounds(cls.name), OneWayMixing.of(given.topology)
        rate = min(max(mixing.rates(1)), 1.0 - 1e-9)
        directed = given.topology.directed
        usual = running_sums_step(rate, bounds.smooth, directed=directed) / mixing.gain
        step = given.step or usual
        # Where mixing is what is slow, moves shrink several times slower than it mixes.
        patience = max(2.0 / (step * bounds.mean_convex), 10.0 / (1.0 - rate))
        return MethodOnGraph(method=cls(given.domain, step), patience=patience)

    def begin(self, start: Vectors, cost: EffectiveCost) -> RunningSumState:
        x = self.domain.project(start)
        slope = cost.gradient(x)
        return RunningSumState(x, slope, slope, np.zeros_like(x))

    def unheard(self, start: Vectors) -> Message:
        """Return what stands for a neighbour never heard: it passed nothing on yet."""
        x = self.domain.project(start)
        return np.concatenate([x, np.zeros_like(x)], axis=-1)

    def outgoing(self, state: RunningSumState) -> Message:
        return np.concatenate([self.aim(state), state.passed_on], axis=-1)

    def parts(self, state: RunningSumState) -> tuple[Weighting, ...]:
        return ("row", "column")

    def advance(
        self, state: RunningSumState, mixed: Message, cost: EffectiveCost
    ) -> RunningSumState:
        """Return the next iterate from the last that was heard of every neighbour."""
        pulled, taken_in = np.split(mixed, 2, axis=-1)
        x = self.domain.project(pulled)
        arrived = taken_in - state.taken_in
        tracker = arrived + cost.gradient_change(x, state.x)
        passed_on = state.passed_on + tracker
        return RunningSumState(x, tracker, passed_on, taken_in, state.iteration + 1)

    def aim(self, state: RunningSumState) -> Vectors:
        return state.x - self.step * state.tracker


def running_sums_step(rate: float, smooth: float, *, directed: bool = False) -> float:
    """Return sqrt(1 - rho) / L, a step that does well where costs are convex; no proof.

    On graphs that mix slowly larger and smaller steps both take longer. Where links are
    one-way it is 2 (1 - rho)^1.5 / L at most, since rings diverge beyond; divide it by
    the gain n u'v of their weights.
    """
    check_method_mixing_rate(rate)
    usual = sqrt(1.0 - rate)
    if directed:
        usual = min(usual, 2.0 * (1.0 - rate) ** 1.5)
    return usual / smooth
