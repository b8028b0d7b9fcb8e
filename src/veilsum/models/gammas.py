"""The gamma family, with the logarithm or the inverse as its link."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from veilsum.errors import InvalidInputError
from veilsum.models.family import EDGE, LogLink
from veilsum.models.rows import PerRow

# From here on the first terms of Stirling's series leave an error below 1e-13.
STIRLING = 100.0


class Gamma(LogLink):
    """Positive responses with variance phi mu^2, eta = log mu."""

    name = "gamma"
    estimates_dispersion = True
    closes = True

    def variance(self, mu: PerRow) -> PerRow:
        """Return mu^2."""
        return mu**2

    def leverage(self, mu: PerRow) -> PerRow:
        """Return 1 / mu."""
        return 1.0 / mu

    def curvature(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return y / mu."""
        return response / mu

    def unit_deviance(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return 2 (y / mu - 1 - log(y / mu))."""
        ratio = response / mu
        return 2.0 * (ratio - 1.0 - np.log(ratio))

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return k log k - k - log Gamma(k) - log y with the shape k = w / phi."""
        return _peak(weights / dispersion) - np.log(response)

    def check(self, response: PerRow) -> None:
        """Refuse zero and below."""
        if not (response > 0.0).all():
            raise InvalidInputError(
                "the response of a gamma regression must be above 0 in every row"
            )


class GammaInverseLink(Gamma):
    """The gamma law with its canonical link, eta = 1 / mu."""

    name = "gamma with inverse link"

    def link(self, mu: PerRow) -> PerRow:
        """Return 1 / mu."""
        return 1.0 / mu

    def inverse_link(self, eta: PerRow) -> PerRow:
        """Return 1 / eta."""
        return 1.0 / np.clip(eta, np.exp(-EDGE), np.exp(EDGE))

    def outside(self, eta: PerRow) -> int:
        """Return how many rows would have a mean below zero or beyond 1e13."""
        return int(np.count_nonzero(eta < np.exp(-EDGE)))

    def slope(self, mu: PerRow) -> PerRow:
        """Return -mu^2."""
        return -(mu**2)

    def leverage(self, mu: PerRow) -> PerRow:
        """Return -1."""
        return -np.ones_like(mu)

    def curvature(self, response: PerRow, mu: PerRow) -> PerRow:  # noqa: ARG002
        """Return mu^2."""
        return mu**2


def _peak(shape: PerRow) -> PerRow:
    """Return k log k - k - log Gamma(k), where k is large by Stirling's series."""
    # All three terms are large for a large k, and next to nothing is left of them.
    large = np.maximum(shape, STIRLING)
    series = np.log(large / (2.0 * np.pi)) / 2.0 - 1.0 / (12.0 * large)
    small = np.minimum(shape, STIRLING)
    plain = small * (np.log(small) - 1.0) - gammaln(small)
    return np.where(shape > STIRLING, series + 1.0 / (360.0 * large**3), plain)
