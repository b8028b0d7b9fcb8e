"""Push-Pull: gradient tracking over links that may be one-way.

    x+ = P[ R (x - a y) ]                     each receiver divides what it hears
    y+ = C ( y + (g(x+) - g(x)) )             each sender divides what it tells

Rows of R add up to one, so estimates come to agree; columns of C do, so the sum of the
trackers is kept. In the end parties agree on u'x and hold shares v_i of the sum of the
gradients, u'R = u' and Cv = v, and move by a n u'v times the average gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilsum.minimise.methods.base import (
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    Weighting,
)
from veilsum.minimise.methods.certificate import (
    Bounds,
    certificate_spectral_radius,
    fewest_mixing_rounds,
)
from veilsum.minimise.methods.gradient_tracking import GradientTracking, TrackingState
from veilsum.minimise.methods.one_way import OneWayMixing


@dataclass(frozen=True)
class PushPull(GradientTracking):
    """Gradient tracking with R for estimates and C for trackers."""

    name: ClassVar[str] = "push-pull"
    traits: ClassVar[MethodTraits] = MethodTraits(
        nonconvex=True,
        directed=True,
        symmetric=False,
        bears=frozenset({"quantise"}),
        traceable=True,
    )

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method with the step and the plain rounds that are certified."""
        bounds, mixing = given.need_bounds(cls.name), OneWayMixing.of(given.topology)
        certified, rounds = certified_push_pull(mixing, bounds)
        step = given.step or certified
        return MethodOnGraph(
            method=cls(given.domain, step),
            patience=2.0 / (step * mixing.gain * bounds.mean_convex),
            rounds=given.rounds or rounds,
        )

    def parts(self, state: TrackingState) -> tuple[Weighting, ...]:
        return ("column",) if state.moved else ("row",)


def certified_push_pull(mixing: OneWayMixing, bounds: Bounds) -> tuple[float, int]:
    """Return a step and the fewest plain rounds with which Push-Pull is certified.

    The step is 1 / L_bar over the gain, and the spectral radius of M is then at most
    1 - 1 / (2 kappa). It speaks of the whole space, where no message is lost.
    """
    step = 1.0 / (bounds.mean_smooth * mixing.gain)
    target = 1.0 - 0.5 / bounds.condition

    def holds(rounds: int) -> bool:
        return (
            certificate_spectral_radius(mixing.matrix(bounds, step, rounds)) <= target
        )

    return step, fewest_mixing_rounds(holds)
