"""What a family of generalised linear models is: a law of the response and a link.

mu = E y, eta = link(mu) = x b + offset. A family is a handful of formulas in mu; all
that a fit needs of a row follows from them. With the unit deviance d and the dispersion
phi, log-likelihood = saturated - sum(w d) / (2 phi); `saturated` depends on responses,
weights and phi alone, and it is a sum over rows that is needed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

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
