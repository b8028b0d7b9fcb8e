"""The families of generalised linear models: a law of the response and a link each.

mu = E y, eta = link(mu) = x b + offset. A family is a handful of formulas in mu; all
that a fit needs of a row follows from them. With the unit deviance d and the dispersion
phi, log-likelihood = saturated - sum(w d) / (2 phi); `saturated` depends on responses,
weights and phi alone, and it is a sum over rows that is needed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, gammaln, logit, xlogy

from veilsum.errors import InvalidInputError
from veilsum.models.rows import PerRow

# Fitted values stay within exp(-30) and exp(30), about 1e-13 and 1e13. Nearer to the
# edge a row has nothing to say that float64 sums could hold.
EDGE = 30.0


@dataclass(frozen=True)
class LikelihoodSums:
    """The sums that a log-likelihood needs.

    Attributes:
        deviance: the sum of w d(y, mu).
        saturated: the sum of what `Family.saturated` returns.
        n_rows: the number of rows.
        dispersion: phi, Pearson's estimate or 1.
    """

    deviance: float
    saturated: float
    n_rows: float
    dispersion: float


@dataclass(frozen=True)
class Family:
    """What a law and its link provide; a subclass per family.

    Attributes:
        name: in words.
        estimates_dispersion: False where the law fixes phi = 1.
        closes: whether standard errors or the log-likelihood need one more sum at the
            end: the expected information, or `saturated` at the estimated phi.
        endless: what the data look like when a coefficient grows without end, in the
            words of an error; empty where that cannot happen.
    """

    name: ClassVar[str]
    estimates_dispersion: ClassVar[bool] = False
    closes: ClassVar[bool] = False
    endless: ClassVar[str] = ""

    def link(self, mu: PerRow) -> PerRow:
        """Return eta."""
        raise NotImplementedError

    def inverse_link(self, eta: PerRow) -> PerRow:
        """Return mu, kept off the edges of its range."""
        raise NotImplementedError

    def outside(self, eta: PerRow) -> int:  # noqa: ARG002 - most links take any eta
        """Return how many rows have an eta that no mean of this family has."""
        return 0

    def slope(self, mu: PerRow) -> PerRow:
        """Return d mu / d eta."""
        raise NotImplementedError

    def variance(self, mu: PerRow) -> PerRow:
        """Return the variance of y over the dispersion."""
        raise NotImplementedError

    def leverage(self, mu: PerRow) -> PerRow:
        """Return slope / variance: a row's score is w (y - mu) times this."""
        raise NotImplementedError

    def curvature(self, response: PerRow, mu: PerRow) -> PerRow:  # noqa: ARG002
        """Return a row's observed information over w; here the link is canonical."""
        return self.slope(mu) * self.leverage(mu)

    def unit_deviance(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return d(y, mu): twice the loss of log-likelihood against mu = y."""
        raise NotImplementedError

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return each row's log-likelihood at mu = y."""
        raise NotImplementedError

    def log_likelihood(self, sums: LikelihoodSums) -> float:
        """Return the log-likelihood from sums over rows."""
        if sums.dispersion == 0.0:
            return np.inf
        return sums.saturated - sums.deviance / (2.0 * sums.dispersion)

    def first_mean(self, response: PerRow) -> PerRow:
        """Return a mean near each response, for the first round."""
        return response

    def check(self, response: PerRow) -> None:
        """Refuse a response that the law never yields."""
        raise NotImplementedError

    def check_mean(self, mean: float) -> None:
        """Refuse responses whose mean shows that they are all at an edge."""


class LogLink(Family):
    """eta = log mu."""

    def link(self, mu: PerRow) -> PerRow:
        """Return log mu."""
        return np.log(mu)

    def inverse_link(self, eta: PerRow) -> PerRow:
        """Return exp eta."""
        return np.exp(np.clip(eta, -EDGE, EDGE))

    def outside(self, eta: PerRow) -> int:
        """Return how many means are beyond 1e13, where sums lose all digits."""
        return int(np.count_nonzero(eta > EDGE))

    def slope(self, mu: PerRow) -> PerRow:
        """Return mu."""
        return mu


class Gaussian(Family):
    """Normal law, eta = mu: least squares as a family."""

    name = "gaussian"
    estimates_dispersion = True

    def link(self, mu: PerRow) -> PerRow:
        """Return mu."""
        return mu

    def inverse_link(self, eta: PerRow) -> PerRow:
        """Return eta."""
        return eta

    def slope(self, mu: PerRow) -> PerRow:
        """Return 1."""
        return np.ones_like(mu)

    variance = leverage = slope

    def unit_deviance(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return (y - mu)^2."""
        return (response - mu) ** 2

    def saturated(
        self,
        response: PerRow,  # noqa: ARG002
        weights: PerRow,
        dispersion: float,  # noqa: ARG002 - the log-likelihood profiles it out
    ) -> PerRow:
        """Return log(w) / 2; the rest is known without the rows."""
        return np.log(weights) / 2.0

    def log_likelihood(self, sums: LikelihoodSums) -> float:
        """Return saturated - n/2 (log(2 pi D / n) + 1): phi is D / n, as in OLS."""
        if sums.deviance == 0.0:
            return np.inf
        scaled = 2.0 * np.pi * sums.deviance / sums.n_rows
        return float(sums.saturated - sums.n_rows * (np.log(scaled) + 1.0) / 2.0)

    def check(self, response: PerRow) -> None:
        """Take every number."""


class Binomial(Family):
    """Logistic regression: y is 0 or 1, eta = log(mu / (1 - mu))."""

    name = "logistic"
    endless = "separation: it tells responses 0 from 1 without fail"

    def link(self, mu: PerRow) -> PerRow:
        """Return log(mu / (1 - mu))."""
        return np.asarray(logit(mu))

    def inverse_link(self, eta: PerRow) -> PerRow:
        """Return 1 / (1 + exp(-eta))."""
        return np.asarray(expit(np.clip(eta, -EDGE, EDGE)))

    def slope(self, mu: PerRow) -> PerRow:
        """Return mu (1 - mu)."""
        return mu * (1.0 - mu)

    variance = slope

    def leverage(self, mu: PerRow) -> PerRow:
        """Return 1: the link is the canonical one."""
        return np.ones_like(mu)

    def curvature(self, response: PerRow, mu: PerRow) -> PerRow:  # noqa: ARG002
        """Return mu (1 - mu)."""
        return self.slope(mu)

    def unit_deviance(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return -2 log of the probability of what happened."""
        return -2.0 * np.log(np.where(response > 0.5, mu, 1.0 - mu))

    def saturated(
        self,
        response: PerRow,
        weights: PerRow,  # noqa: ARG002
        dispersion: float,  # noqa: ARG002
    ) -> PerRow:
        """Return 0: a probability of one for what happened."""
        return np.zeros_like(response)

    def first_mean(self, response: PerRow) -> PerRow:
        """Return 1/4 or 3/4."""
        return (response + 0.5) / 2.0

    def check(self, response: PerRow) -> None:
        """Refuse all but 0 and 1."""
        if not ((response == 0.0) | (response == 1.0)).all():
            raise InvalidInputError(
                "the response of a logistic regression must be 0 or 1 in every row; "
                "write k of m successes as two rows with the weights k and m - k"
            )

    def check_mean(self, mean: float) -> None:
        """Refuse responses that are all 0 or all 1."""
        if not 0.0 < mean < 1.0:
            raise InvalidInputError(
                f"the response is {mean:.0f} in every row of every party: "
                "a logistic regression needs both 0 and 1"
            )


class Poisson(LogLink):
    """Counts with variance mu, eta = log mu."""

    name = "poisson"
    endless = "for some of its values every count is 0"

    def variance(self, mu: PerRow) -> PerRow:
        """Return mu."""
        return mu

    def leverage(self, mu: PerRow) -> PerRow:
        """Return 1: the link is the canonical one."""
        return np.ones_like(mu)

    def curvature(self, response: PerRow, mu: PerRow) -> PerRow:  # noqa: ARG002
        """Return mu."""
        return mu

    def unit_deviance(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return 2 (y log(y / mu) - (y - mu))."""
        return 2.0 * (xlogy(response, response / mu) - (response - mu))

    def saturated(
        self,
        response: PerRow,
        weights: PerRow,
        dispersion: float,  # noqa: ARG002
    ) -> PerRow:
        """Return w (y log y - y - log y!)."""
        return weights * (xlogy(response, response) - response - gammaln(response + 1))

    def first_mean(self, response: PerRow) -> PerRow:
        """Return y + 0.1, which has a logarithm."""
        return response + 0.1

    def check(self, response: PerRow) -> None:
        """Refuse what is no count."""
        if not ((response >= 0.0) & (response == np.floor(response))).all():
            raise InvalidInputError(
                f"the response of a {self.name} regression must be a count, 0, 1, 2 "
                "and so on, in every row; for rates give the exposure's log as offset"
            )

    def check_mean(self, mean: float) -> None:
        """Refuse counts that are all 0."""
        if not mean > 0.0:
            raise InvalidInputError("the response is 0 in every row of every party")


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """Counts with variance mu + alpha mu^2, alpha known; eta = log mu."""

    alpha: float

    name = "negative binomial"
    closes = True

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < np.inf:
            raise InvalidInputError(
                f"alpha of a negative binomial law must be above 0, found {self.alpha}"
            )

    def variance(self, mu: PerRow) -> PerRow:
        """Return mu + alpha mu^2."""
        return mu * (1.0 + self.alpha * mu)

    def leverage(self, mu: PerRow) -> PerRow:
        """Return 1 / (1 + alpha mu)."""
        return 1.0 / (1.0 + self.alpha * mu)

    def curvature(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return mu (1 + alpha y) / (1 + alpha mu)^2."""
        return mu * (1.0 + self.alpha * response) / (1.0 + self.alpha * mu) ** 2

    def unit_deviance(self, response: PerRow, mu: PerRow) -> PerRow:
        """Return 2 (y log(y/mu) - (y + 1/alpha) log((1 + alpha y)/(1 + alpha mu)))."""
        beyond = response + 1.0 / self.alpha
        share = np.log1p(self.alpha * response) - np.log1p(self.alpha * mu)
        return 2.0 * (xlogy(response, response / mu) - beyond * share)

    def saturated(
        self,
        response: PerRow,
        weights: PerRow,
        dispersion: float,  # noqa: ARG002
    ) -> PerRow:
        """Return w times the log of the law's probability of y at mu = y."""
        scaled, size = self.alpha * response, 1.0 / self.alpha
        chances = xlogy(response, scaled) - (response + size) * np.log1p(scaled)
        ways = gammaln(response + size) - gammaln(response + 1) - gammaln(size)
        return weights * (chances + ways)


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
