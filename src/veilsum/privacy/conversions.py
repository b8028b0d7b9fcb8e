"""One divergence, every reading of it: success, error rates, other divergences.

With Gaussian shares a view under A and under B is one Gaussian in two places, so the
KL divergence fixes the best test between them. Everything follows from

    mu_G = sqrt(2 KL),

the distance of the two places in standard deviations. All formulas are exact for a
pair; with epsilon ||A - B||^2 for KL they are bounds for all pairs at that distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, isinf, pi, sqrt

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.showing import Renderable, Rendering, ShownTable

# exp(-z^2 / 2) is zero in float64 from here on.
NO_TAIL = 39.0
# Below this mu_G the two terms of delta agree in many digits: integrate instead.
NEAR = 1.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
# exp(709) is about the largest float64.
LARGEST_EXPONENT = 709.0


@dataclass(frozen=True, slots=True, repr=False)
class Leakage(Renderable):
    """Information leakage for one KL divergence, in every unit.

    >>> told = Leakage(0.25)
    >>> round(told.attacker_success, 5), round(told.total_variation, 5)
    (0.63816, 0.27633)
    """

    divergence: float

    def __post_init__(self) -> None:
        check_divergence(self.divergence)

    def showing(self) -> Rendering:
        """Return what the best guesser reaches, and the same in other units."""
        return Rendering(
            f"The best guesser is right {100 * self.attacker_success:.2f}% of the time "
            "(a coin: 50%)",
            [
                ShownTable(
                    ("unit", "value"),
                    [
                        ("KL divergence", self.divergence),
                        ("total variation", self.total_variation),
                        ("area under the ROC curve", self.auc),
                        ("mu of Gaussian differential privacy", self.gaussian_mu),
                        ("squared Hellinger distance", self.hellinger2),
                        ("chi-squared divergence", self.chi2),
                    ],
                    align="<.",
                )
            ],
        )

    @property
    def gaussian_mu(self) -> float:
        """The mu of Gaussian differential privacy."""
        return gaussian_mu_of_divergence(self.divergence)

    @property
    def attacker_success(self) -> float:
        """The best guesser's chance at equal odds."""
        return attacker_success(self.divergence)

    @property
    def total_variation(self) -> float:
        """The most by which an event's probability differs."""
        return total_variation_of_divergence(self.divergence)

    @property
    def auc(self) -> float:
        """The area under the best test's ROC curve."""
        return auc_of_divergence(self.divergence)

    @property
    def hellinger2(self) -> float:
        """The squared Hellinger distance."""
        return hellinger2_of_divergence(self.divergence)

    @property
    def chi2(self) -> float:
        """The chi-squared divergence; infinite where float64 ends."""
        return chi2_of_divergence(self.divergence)

    def renyi(self, order: float) -> float:
        """Return the Renyi divergence of an order."""
        return renyi_of_divergence(self.divergence, order=order)

    def power(self, level: float) -> float:
        """Return the best test's hit rate at a false-alarm rate."""
        return power_of_best_test(self.divergence, level=level)

    def dp_delta(self, dp_epsilon: float) -> float:
        """Return differential privacy's delta at a dp_epsilon."""
        return dp_delta(self.divergence, dp_epsilon=dp_epsilon)

    def dp_epsilon(self, delta: float) -> float:
        """Return differential privacy's epsilon at a delta."""
        return dp_epsilon(self.divergence, delta=delta)


def check_divergence(divergence: float) -> float:
    """Return a KL divergence; refuse a negative one and nan."""
    if not divergence >= 0:
        raise InvalidInputError(
            f"a divergence is not negative, found {divergence}",
            code="divergence-negative",
        )
    return float(divergence)


def gaussian_mu_of_divergence(divergence: float) -> float:
    """Return mu_G = sqrt(2 KL): A and B are this many standard deviations apart.

    >>> gaussian_mu_of_divergence(0.5)
    1.0
    """
    return sqrt(2.0 * check_divergence(divergence))


def renyi_of_divergence(divergence: float, *, order: float) -> float:
    """Return the Renyi divergence D_a = a KL; so KL is also the rho of zCDP.

    >>> renyi_of_divergence(0.25, order=2.0)
    0.5
    """
    if not 0 < order < inf:
        raise InvalidInputError(
            f"a Renyi order must be positive and finite, found {order}",
            code="order-not-positive",
        )
    return order * check_divergence(divergence)


def attacker_success(divergence: float) -> float:
    """Return the best guesser's chance of telling A from B at equal odds.

    Phi(sqrt(KL / 2)), exact for Gaussian shares.

    >>> round(attacker_success(0.25), 5)
    0.63816
    """
    return float(scipy.special.ndtr(sqrt(check_divergence(divergence) / 2.0)))


def divergence_for_success(success: float) -> float:
    """Return the KL at which the best guesser succeeds so often, 2 Phi^-1(p)^2.

    >>> round(divergence_for_success(0.6381631950841185), 9)
    0.25
    """
    if not 0.5 < success < 1:
        raise InvalidInputError(
            "an attacker's success must be above 0.5, which a coin reaches, and below "
            f"1, which needs no masks; found {success}",
            code="success-out-of-range",
        )
    return 2.0 * float(scipy.special.ndtri(success)) ** 2


def total_variation_of_divergence(divergence: float) -> float:
    """Return TV = 2 Phi(mu_G / 2) - 1 = erf(sqrt(KL) / 2).

    >>> round(total_variation_of_divergence(0.25), 6)
    0.276326
    """
    return float(scipy.special.erf(sqrt(check_divergence(divergence)) / 2.0))


def auc_of_divergence(divergence: float) -> float:
    """Return the area under the best test's ROC curve, Phi(mu_G / sqrt 2).

    >>> round(auc_of_divergence(0.25), 6)
    0.691462
    """
    return float(scipy.special.ndtr(sqrt(check_divergence(divergence))))


def power_of_best_test(divergence: float, *, level: float) -> float:
    """Return the best test's hit rate at a false-alarm rate, Phi(mu_G - z_{1-level}).

    >>> round(power_of_best_test(0.5, level=0.05), 4)
    0.2595
    """
    if not 0 < level < 1:
        raise InvalidInputError(
            f"a test's level must be between 0 and 1, found {level}",
            code="level-out-of-range",
        )
    return float(
        scipy.special.ndtr(
            gaussian_mu_of_divergence(divergence) + scipy.special.ndtri(level)
        )
    )


def hellinger2_of_divergence(divergence: float) -> float:
    """Return the squared Hellinger distance, 1 - exp(-mu_G^2 / 8).

    >>> round(hellinger2_of_divergence(0.25), 6)
    0.060587
    """
    return -expm1(-check_divergence(divergence) / 4.0)


def chi2_of_divergence(divergence: float) -> float:
    """Return the chi-squared divergence, exp(mu_G^2) - 1; infinite past float64.

    >>> round(chi2_of_divergence(0.25), 6)
    0.648721
    """
    exponent = 2.0 * check_divergence(divergence)
    return expm1(exponent) if exponent < LARGEST_EXPONENT else inf


def dp_delta(divergence: float, *, dp_epsilon: float) -> float:
    """Return the least delta for which A and B are (dp_epsilon, delta)-close.

    Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu), mu = mu_G. It is about this pair: the
    sum is released exactly, so the protocol is not differentially private.

    >>> round(dp_delta(0.34375, dp_epsilon=1.0), 5)
    0.07149
    """
    if not dp_epsilon >= 0:
        raise InvalidInputError(
            f"dp_epsilon must not be negative, found {dp_epsilon}",
            code="epsilon-negative",
        )
    mu = gaussian_mu_of_divergence(divergence)
    if mu == 0 or isinf(dp_epsilon):
        return 0.0
    return 1.0 if isinf(mu) else _dp_delta_at(dp_epsilon / mu, mu)


def dp_epsilon(divergence: float, *, delta: float) -> float:
    """Return the least dp_epsilon for which A and B are (dp_epsilon, delta)-close.

    0 once delta reaches the total variation; infinite for an infinite divergence.

    >>> round(dp_epsilon(0.25, delta=1e-5), 4)
    2.9432
    """
    if not 0 < delta < 1:
        raise InvalidInputError(
            f"delta must be between 0 and 1, found {delta}", code="delta-out-of-range"
        )
    mu = gaussian_mu_of_divergence(divergence)
    if total_variation_of_divergence(divergence) <= delta:
        return 0.0
    if isinf(mu):
        return inf
    # delta(e) <= Phi(mu/2 - e/mu), which is delta at this e/mu: the root is below.
    most = mu / 2.0 - float(scipy.special.ndtri(delta))
    root = scipy.optimize.brentq(
        lambda x: _dp_delta_at(x, mu) / delta - 1.0, 0.0, most, xtol=1e-15
    )
    return mu * float(root)


def _dp_delta_at(ratio: float, mu: float) -> float:
    """Return delta at dp_epsilon = ratio * mu.

    With M the Mills ratio Phi(-z) / phi(z) and z = ratio - mu/2 the two terms share a
    factor: delta = phi(z) (M(z) - M(z + mu)). Nothing over- or underflows before delta.
    """
    z = ratio - mu / 2.0
    if z > NO_TAIL:
        return 0.0
    density = exp(-z * z / 2.0) / sqrt(2.0 * pi)
    if mu < NEAR:
        return density * _mills_ratio_drop(z, mu)
    if z > -1.0:
        return density * (_mills_ratio_of_normal(z) - _mills_ratio_of_normal(z + mu))
    return float(scipy.special.ndtr(-z)) - density * _mills_ratio_of_normal(z + mu)


def _mills_ratio_of_normal(z: float) -> float:
    return sqrt(pi / 2.0) * float(scipy.special.erfcx(z / sqrt(2.0)))


def _mills_ratio_drop(z: float, mu: float) -> float:
    """Return M(z) - M(z + mu) as the integral of -M' = 1 - x M(x), all positive."""
    x = z + mu * (_NODES + 1.0) / 2.0
    slope: FloatArray = 1.0 - x * sqrt(pi / 2.0) * scipy.special.erfcx(x / sqrt(2.0))
    return mu / 2.0 * float(_WEIGHTS @ slope)
