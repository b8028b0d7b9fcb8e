"""Rounds of mixing with which tracking is provably as good as a central method.

Only public bounds enter. For gradient tracking with W_K in place of W let
e_o = sqrt(n) ||x_bar - x*||, e_x and e_y the disagreement of estimates and of trackers.
One iteration maps (e_o, e_x, e_y) to at most M times itself, M a 3 x 3 matrix of the
bounds, of the step and of rho_K = 1 / cosh(K acosh(1 / rho)): it converges linearly if
the spectral radius of M is below one. Single costs need not be convex.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from math import acosh, cosh, sqrt

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.shapes import Float

Square = Float[FloatArray, "s s"]

# No network takes as many rounds; beyond this the bounds or the rate are absurd.
MOST_ROUNDS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Public bounds on the effective costs on X.

    Attributes:
        smooth: L; every effective gradient is L-Lipschitz. Masks of the affine part do
            not change it, others do.
        mean_smooth: L_bar, the same bound for the average cost; masks do not change it.
        mean_convex: mu_bar; the average cost is mu_bar-strongly convex.
    """

    smooth: float
    mean_smooth: float
    mean_convex: float

    def __post_init__(self) -> None:
        ordered = 0 < self.mean_convex <= self.mean_smooth <= self.smooth < np.inf
        if not ordered:
            raise InvalidInputError(
                "bounds must satisfy 0 < mean_convex <= mean_smooth <= smooth: an "
                "average bends no more than the most bent cost, found "
                f"{self.mean_convex}, {self.mean_smooth} and {self.smooth}",
                code="bounds-inconsistent",
            )

    @property
    def condition(self) -> float:
        """The ratio kappa = L_bar / mu_bar of the average cost."""
        return self.mean_smooth / self.mean_convex


def contraction_of_mixing_rounds(rate: float, rounds: int) -> float:
    """Return rho_K = 1 / cosh(K acosh(1 / rho)), what K rounds leave of disagreement.

    >>> round(contraction_of_mixing_rounds(0.5, 2), 12)
    0.142857142857
    """
    check_method_mixing_rate(rate)
    if rate == 0:
        return 0.0
    exponent = rounds * acosh(1.0 / rate)
    return 1.0 / cosh(exponent) if exponent < 700 else 0.0


def tracking_certificate_matrix(
    bounds: Bounds, step: float, left: float, *, constrained: bool
) -> Square:
    """Return M of projected gradient tracking, or the smaller one without a domain.

    Args:
        bounds: L, L_bar, mu_bar.
        step: a, at most 2 / (mu_bar + L_bar).
        left: rho_K.
        constrained: whether X is less than the whole space.
    """
    a, r, lip = step, left, bounds.smooth
    shrink = 1.0 - a * bounds.mean_convex
    agree = [0.0, r, a * r]
    own = r + a * r * r * lip
    if constrained:
        track = [r * lip * (1.0 + shrink), r * lip * (1.0 + r + a * lip), own]
        return np.array([[shrink, a * lip + r, a * r], agree, track])
    track = [a * r * lip * bounds.mean_smooth, r * lip * (2.0 + a * lip), own]
    return np.array([[shrink, a * lip, 0.0], agree, track])


def accelerated_certificate_matrix(bounds: Bounds, left: float) -> Square:
    """Return the like matrix of accelerated tracking without a domain.

    Its first quantity is S = sqrt(2n (f(x_bar) - f* + mu_bar/2 ||v - x*||^2)), which an
    exact step of Nesterov's shrinks by sqrt(1 - t). As sqrt(2 (f - f*)) is Lipschitz
    with sqrt(L_bar), a gradient that is off by d adds at most sqrt(2 / L_bar) |d|, and
    d is at most L times the disagreement of q. The others are e_x, e_q and e_s, with
    ||q_bar - x*|| <= S / sqrt(mu_bar).
    """
    lip, top = bounds.smooth, bounds.mean_smooth
    t = sqrt(1.0 / bounds.condition)
    b = (1.0 - t) / (1.0 + t)
    unit = np.eye(4)
    far = sqrt(1.0 - t) * unit[0] + sqrt(2.0 / top) * lip * unit[2]
    agree = left * (unit[2] + unit[3] / top)
    ahead = (1.0 + b) * agree + b * unit[1]
    moved = ahead + unit[2] + (far + unit[0]) / sqrt(bounds.mean_convex)
    return np.array([far, agree, ahead, left * (unit[3] + lip * moved)])


def certificate_spectral_radius(matrix: Square) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def certified_rounds(rate: float, bounds: Bounds, *, constrained: bool) -> int:
    """Return the fewest K with which gradient tracking at a = 1 / L_bar is certified.

    The spectral radius of M is then at most 1 - 1 / (2 kappa): half the progress of
    central gradient descent, whatever the costs. K grows like log(L / L_bar).

    Args:
        rate: rho(W) of the mixing weights.
        bounds: L, L_bar, mu_bar.
        constrained: whether X is less than the whole space.
    """
    step, target = 1.0 / bounds.mean_smooth, 1.0 - 0.5 / bounds.condition

    def holds(rounds: int) -> bool:
        left = contraction_of_mixing_rounds(rate, rounds)
        matrix = tracking_certificate_matrix(
            bounds, step, left, constrained=constrained
        )
        return certificate_spectral_radius(matrix) <= target

    return fewest_mixing_rounds(holds)


def certified_accelerated_rounds(rate: float, bounds: Bounds) -> int:
    """Return the fewest K that certify accelerated tracking on the whole space.

    The spectral radius is then at most 1 - sqrt(mu_bar / L_bar) / 4, half of Nesterov's
    progress. With a domain there is no such proof, and the same K is the advice.
    """
    target = 1.0 - 0.25 / sqrt(bounds.condition)

    def holds(rounds: int) -> bool:
        matrix = accelerated_certificate_matrix(
            bounds, contraction_of_mixing_rounds(rate, rounds)
        )
        return certificate_spectral_radius(matrix) <= target

    return fewest_mixing_rounds(holds)


def check_method_mixing_rate(rate: float) -> None:
    """Refuse a mixing rate that no connected graph has."""
    if not 0 <= rate < 1:
        raise InvalidInputError(
            "the mixing rate must lie in [0, 1): at 1 some parties never hear of "
            f"others, found {rate}; check that the graph is connected",
            code="mixing-rate-out-range",
        )


def fewest_mixing_rounds(holds: Callable[[int], bool]) -> int:
    """Return the least K that will do, where more rounds are never worse."""
    most = 1
    while not holds(most):
        most *= 2
        if most > MOST_ROUNDS:
            raise InvalidInputError(
                f"no number of rounds up to {MOST_ROUNDS} is enough; use a graph with "
                "more links, or check the bounds on the costs",
                code="too-many-rounds-needed",
            )
    return 1 + bisect_left(range(1, most + 1), x=True, key=holds)
