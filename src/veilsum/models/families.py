"""The families of generalised linear models: a law of the response and a link each.

mu = E y, eta = link(mu) = x b + offset. A family says what a row contributes at an eta,
as one function of the row whose bits are the same on every machine: elementwise IEEE
operations and `numbers.elementary`, in forms that keep their digits where mu is next to
an edge or to the response. With the unit deviance d and the dispersion phi,
log-likelihood = saturated - sum(w d) / (2 phi); `saturated` depends on responses,
weights and phi alone, and it is a sum over rows that is needed once.

It says too, from agreed ranges alone, how large each of these can get (`RowBounds`), so
that all parties know in advance in what units and bits they are summed. A log link has
no such limit by itself: there a mean may be at most 2^10 times the largest response
that was agreed on, and a row beyond is outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf, pi, sqrt
from typing import ClassVar

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.elementary import (
    STIRLING,
    exp,
    expit,
    expm1,
    log,
    log1p,
    log1p_gap,
    log_expit,
    log_gamma,
    log_ndtr,
    mills,
    ndtr,
    ndtri,
    normal_density,
    stirling_rest,
)
from veilsum.numbers.units import UnitMeasure

# How far a mean may be beyond the responses that were agreed on.
BEYOND = 2.0**10
# No eta is farther from 0 where a link sets no narrower limit.
FAR = 2.0**20
# What Pearson's term of one row counts for at most, where it estimates nothing.
CEILING = 2.0**40
# Chances below this are as good as none, where they are divided by.
LEAST_CHANCE = 1e-200
# The largest hazard, at which no row is observed without the event, and the largest
# whose exponential is a number.
LARGEST_HAZARD, LARGEST_EXPONENT = 2.0**20, 2.0**9
# And a gamma law's shape, whose logarithm is summed.
LARGEST_SHAPE = 1e300
# Differences of a function whose slope is wanted: at this distance, and at twice it.
STEP = 1e-3
# Standard deviations within which nearly all predictors are.
NEARLY_ALL = 3.0
_LOG_2_PI = float(log(2.0 * np.pi))


@dataclass(frozen=True)
class RowTerms:
    """Contributions of rows at their etas, before weights.

    Attributes:
        pull: (y - mu) d mu / d eta / variance: the slope of the log-likelihood in eta.
        curvature: the observed information in eta.
        deviance: d(y, mu), twice the loss of log-likelihood against mu = y.
        pearson: (y - mu)^2 / variance.
    """

    pull: FloatArray
    curvature: FloatArray
    deviance: FloatArray
    pearson: FloatArray


@dataclass(frozen=True)
class RowBounds:
    """Bounds that no row exceeds, from agreed ranges; weights are left out.

    Attributes:
        low: rows with a smaller eta are outside.
        high: rows with a larger eta are outside.
        margin: required distance of a row from both, so that the next points, which are
            near, need no new check.
        root: bound on the square root of an information.
        pull: bound on a score, and on information times a working response.
        saturated: bound on a log-likelihood at mu = y, weights included.
        expected: bound on an expected information.
        usual_root: typical size of a root.
        usual_pull: typical size of a score.
    """

    low: float
    high: float
    margin: float
    root: float
    pull: float
    deviance: float
    pearson: float
    saturated: float
    expected: float = inf
    usual_root: float = 1.0
    usual_pull: float = 1.0


@dataclass(frozen=True)
class RowRanges:
    """The agreed ranges of a row's numbers: what limits follow from."""

    low: float
    high: float
    unit: float
    weight: float
    offset: float

    @classmethod
    def of(
        cls,
        response: UnitMeasure,
        weights: UnitMeasure | None,
        offset: UnitMeasure | None,
    ) -> RowRanges:
        return cls(
            response.low,
            response.high,
            float(response.unit),
            1.0 if weights is None else weights.high,
            0.0 if offset is None else max(abs(offset.low), abs(offset.high)),
        )


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
    """Distribution of a response and its link; a subclass per family.

    Attributes:
        estimates_dispersion: False where the law fixes phi = 1.
        closes: whether standard errors or the log-likelihood may need one more sum at
            the end: the expected information, or `saturated` at the estimated phi.
        levels: all possible responses, where they are few.
        limbs: number of limbs of the root of a row's information.
        has_digits: whether rounds may be as coarse as agreed digits allow. An inverse
            Gaussian search needs a start near the responses (20 sums instead of 14
            without it), and all such starts are in agreed units.
        slope: the canonical parameter is slope * eta, and responses enter the first sum
            alone. It is 0 if the link is not canonical, and if least squares or a
            start near the responses fit the family.
        constants: sums over responses, besides those of w y, that results need once:
            `saturated`, `peak`.
        cumulants_are_means: whether a row's cumulant is its mean.
        largest_slope: the largest observed information of a row; infinite if it has
            none. With a canonical link it is the slope of the mean.
        largest_bend: largest derivative of that slope in eta, with a canonical link.
        exponential: whether weights of rows are in proportion to exp(eta), so that long
            steps of a search are halved.
        endless: description, for an error, of data in which a coefficient grows without
            end; empty where that cannot happen.
        fitted_by: the strategy of a fit: "least squares", "newton" or "choice".
        grows_with_offset: whether a row counts in proportion to exp(offset).
        ratio: meaning of exp(coefficient), in words; empty where it has none.
    """

    name: ClassVar[str]
    estimates_dispersion: ClassVar[bool] = False
    closes: ClassVar[bool] = False
    positive: ClassVar[bool] = False
    levels: ClassVar[tuple[float, ...]] = ()
    limbs: ClassVar[int] = 3
    has_digits: ClassVar[bool] = False
    slope: ClassVar[float] = 0.0
    constants: ClassVar[tuple[str, ...]] = ()
    cumulants_are_means: ClassVar[bool] = False
    largest_slope: ClassVar[float] = inf
    largest_bend: ClassVar[float] = inf
    exponential: ClassVar[bool] = False
    endless: ClassVar[str] = ""
    fitted_by: ClassVar[str] = "newton"
    grows_with_offset: ClassVar[bool] = False
    estimates_alpha: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    ratio: ClassVar[str] = ""

    @property
    def drift(self) -> tuple[float, float] | None:
        """Return (s, c) where c + s g >= 0 grows by a factor of e^|u| at most.

        Here g is the mean with a canonical link, and else minus the slope of a row's
        log-likelihood; u is a change of its eta. None where there are no such numbers.
        """
        return None

    @property
    def is_choice(self) -> bool:
        return self.fitted_by == "choice"

    @property
    def label(self) -> str:
        return self.name

    def n_coefficients(self, n_columns: int, n_levels: int) -> int:
        return n_columns

    def link(self, mu: FloatArray) -> FloatArray:
        raise NotImplementedError

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        raise NotImplementedError

    def mean_slope(self, eta: FloatArray) -> FloatArray:
        """Return d mu / d eta, to about twelve digits, whatever the link is."""

        def difference(step: float) -> FloatArray:
            return self.inverse_link(eta + step) - self.inverse_link(eta - step)

        return (8.0 * difference(STEP) - difference(2.0 * STEP)) / (12.0 * STEP)

    def mean_ends(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, ...]:
        """Return the interval of means for one of etas; a link may fall."""
        ends = self.inverse_link(low), self.inverse_link(high)
        return np.minimum(*ends), np.maximum(*ends)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        """Return the information and the working response at a mean near the response.

        The weighted least squares fit of these is where a search sets out.
        """
        raise NotImplementedError

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        raise NotImplementedError

    def expected(self, eta: FloatArray) -> FloatArray:
        raise NotImplementedError

    def tilt(self, mean: float, spread: float) -> tuple[float, float]:
        """Return how to go on from Newton's step away from the null model.

        It is what leads to the answer for normal columns, if it can be known.

        Args:
            mean: of the responses.
            spread: the variance of predictors after the step.

        Returns:
            A factor for the slopes, and a number to be added to the intercept.
        """
        return 1.0, 0.0

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return each row's log-likelihood at mu = y."""
        raise NotImplementedError

    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return b: with a canonical link, y * slope * eta - b is a log-likelihood."""
        raise NotImplementedError

    def natural(self, eta: FloatArray) -> tuple[float, float, float]:
        """Return the canonical parameter t at an eta, its slope there, and b.

        y t - b is a log-likelihood.
        """
        return self.slope * eta.item(), self.slope, self.cumulant(eta).item()

    def peak(self, response: PerRow) -> PerRow:
        """Return y t - b at mu = y, from which deviances are measured."""
        raise NotImplementedError

    def limits(self, agreed: RowRanges) -> RowBounds:
        raise NotImplementedError

    def weight_slope(self, agreed: RowRanges) -> float:
        """Return the slope of log information in eta: at most this near an answer."""
        return 1.0

    def log_likelihood(self, sums: LikelihoodSums) -> float:
        if sums.dispersion == 0.0:
            return np.inf
        return sums.saturated - sums.deviance / (2.0 * sums.dispersion)

    def check(self, response: PerRow) -> None:
        """Refuse a response that the law never yields."""
        raise NotImplementedError

    def check_mean(self, mean: float) -> None:
        """Refuse responses whose mean shows that they are all at an edge."""


class GaussianFamily(Family):
    """Normal law, eta = mu: least squares as a family."""

    name = "gaussian"
    estimates_dispersion = True
    fitted_by = "least squares"

    def link(self, mu: FloatArray) -> FloatArray:
        return mu

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return eta

    def mean_slope(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(eta)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        return np.ones_like(response), response

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        away = response - eta
        return RowTerms(away, np.ones_like(eta), away * away, away * away)

    def expected(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(eta)

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return log(w) / 2; the rest is known without the rows."""
        return log(weights) / 2.0

    def limits(self, agreed: RowRanges) -> RowBounds:
        most = max(abs(agreed.low), abs(agreed.high), agreed.unit)
        cap = BEYOND * most
        return RowBounds(
            low=-cap,
            high=cap,
            margin=cap / 2.0,
            root=1.0,
            pull=cap + most + agreed.offset,
            deviance=(cap + most) * (cap + most),
            pearson=(cap + most) * (cap + most),
            saturated=400.0,
            usual_pull=most / 16.0,
        )

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
    levels: ClassVar[tuple[float, ...]] = (0.0, 1.0)
    limbs = 2  # the root is at most 1/2
    has_digits = True
    slope = 1.0
    largest_slope = 0.25
    largest_bend = 1.0 / (6.0 * sqrt(3.0))
    endless = "separation: it tells responses 0 from 1 without fail"
    ratio = "an odds ratio"

    def link(self, mu: FloatArray) -> FloatArray:
        return log(mu) - log1p(-mu)

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return expit(eta)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        size = float(log(3.0)) + 4.0 / 3.0
        return (
            np.full_like(response, 3.0 / 16.0),
            np.where(response > 0.5, size, -size),
        )

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        """Return them by the smaller of mu and 1 - mu, which has all its digits."""
        far, happened = np.abs(eta), response > 0.5
        odds = exp(-far)
        larger = 1.0 / (1.0 + odds)
        smaller = odds * larger
        expected = happened == (eta >= 0.0)
        missed = np.where(expected, smaller, larger)
        loss = log1p(odds) + np.where(expected, 0.0, far)
        with np.errstate(divide="ignore", over="ignore"):
            pearson = np.minimum(np.where(expected, odds, 1.0 / odds), CEILING)
        return RowTerms(
            np.where(happened, missed, -missed), smaller * larger, 2.0 * loss, pearson
        )

    def expected(self, eta: FloatArray) -> FloatArray:
        odds = exp(-np.abs(eta))
        larger = 1.0 / (1.0 + odds)
        return odds * larger * larger

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        return np.zeros_like(response)

    def tilt(self, mean: float, spread: float) -> tuple[float, float]:
        """Return the way to Fisher's linear discriminant."""
        explained = min(mean * (1.0 - mean) * spread, 0.9)
        factor = 1.0 / (1.0 - explained)
        return factor, (mean - 0.5) * factor * spread

    def cumulant(self, eta: FloatArray) -> FloatArray:
        """Return log(1 + exp(eta))."""
        return log1p(exp(-np.abs(eta))) + np.maximum(eta, 0.0)

    def limits(self, agreed: RowRanges) -> RowBounds:
        return RowBounds(
            low=-FAR,
            high=FAR,
            margin=FAR / 2.0,
            root=0.5,
            pull=1.0 + agreed.offset / 4.0,
            deviance=2.0 * FAR + 2.0,
            pearson=CEILING,
            saturated=1.0,
        )

    def check(self, response: PerRow) -> None:
        if not ((response == 0.0) | (response == 1.0)).all():
            raise InvalidInputError(
                f"the response of a {self.name} regression must be 0 or 1 in every "
                "row; write k of m successes as two rows with the weights k and m - k",
                code="response-not-binary",
            )

    def check_mean(self, mean: float) -> None:
        if not 0.0 < mean < 1.0:
            raise InvalidInputError(
                f"the response is {mean:.0f} in every row of every party, and "
                f"a {self.name} regression needs both 0 and 1",
                code="response-constant",
            )


class OtherLink(Binomial):
    """y is 0 or 1, and the link is not the canonical one: what such links share."""

    limbs = 3
    closes = True
    slope = 0.0
    largest_slope = inf
    largest_bend = inf
    ratio = ""

    def natural(self, eta: FloatArray) -> tuple[float, float, float]:
        mean = self.inverse_link(eta)
        # d mu / d eta over the variance, by the expected information.
        slope = np.sqrt(self.expected(eta) / (mean * (1.0 - mean)))
        return Binomial.link(self, mean).item(), slope.item(), -log1p(-mean).item()

    def limits(self, agreed: RowRanges) -> RowBounds:
        raise NotImplementedError

    def expected(self, eta: FloatArray) -> FloatArray:
        """Return (d mu / d eta)^2 / (mu (1 - mu))."""
        raise NotImplementedError


class Probit(OtherLink):
    """y is 0 or 1, eta = Phi^-1(mu) of the normal law."""

    name = "probit"
    largest_slope = 1.0
    # So far from 0 no eta of use is: 1 - mu is below 10^-200000.
    _FAR: ClassVar[float] = 2.0**10

    def link(self, mu: FloatArray) -> FloatArray:
        return ndtri(mu)

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return ndtr(eta)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        start = float(ndtri(0.75))
        slope = float(normal_density(start))
        size = start + 0.25 / slope
        information = slope * slope * (16.0 / 3.0)
        return (
            np.full_like(response, information),
            np.where(response > 0.5, size, -size),
        )

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        """Return them by the eta towards what happened, whose tail has its digits."""
        happened = response > 0.5
        towards = np.where(happened, eta, -eta)
        # phi / Phi, and how far it is above -towards: next to nothing far below 0.
        below, over = np.maximum(-towards, 0.0), np.maximum(towards, 0.0)
        ratio = np.where(
            towards < 0.0, 1.0 / mills(below), normal_density(over) / ndtr(over)
        )
        inverse = 1.0 / np.maximum(below, 64.0)
        small = inverse * inverse
        series = 1.0 - small * (2.0 - small * (10.0 - small * (74.0 - 706.0 * small)))
        above = np.where(below > 64.0, inverse * series, ratio + towards)
        missed = ndtr(-towards) / np.maximum(ndtr(towards), LEAST_CHANCE)
        return RowTerms(
            np.where(happened, ratio, -ratio),
            np.maximum(ratio * above, 0.0),
            -2.0 * log_ndtr(towards),
            np.minimum(missed, CEILING),
        )

    def expected(self, eta: FloatArray) -> FloatArray:
        far = np.abs(eta)
        return normal_density(far) / (mills(far) * ndtr(far))

    def tilt(self, mean: float, spread: float) -> tuple[float, float]:
        """Return what undoes how means average over predictors."""
        factor = 1.0 / sqrt(1.0 - min(spread, 0.9))
        return factor, (factor - 1.0) * float(ndtri(mean))

    def weight_slope(self, agreed: RowRanges) -> float:
        return 2.0

    def limits(self, agreed: RowRanges) -> RowBounds:
        far = self._FAR
        return RowBounds(
            low=-far,
            high=far,
            margin=far / 2.0,
            root=1.0,
            pull=far + 2.0 + agreed.offset,
            deviance=far * far + 32.0,
            pearson=CEILING,
            saturated=1.0,
            expected=2.0 / pi,
        )


class Cloglog(OtherLink):
    """y is 0 or 1, eta = log(-log(1 - mu)): a hazard exp(eta) until it happens.

    Rows with the event may have any hazard. Beyond `LARGEST_HAZARD` the loss of a row
    without the event rises in proportion to eta. Such a row adds 2^21 to the deviance
    or more, so no answer has one, and the search can come back from there.
    """

    name = "cloglog"
    exponential = True
    ratio = "a ratio of hazards"

    @property
    def drift(self) -> tuple[float, float]:
        """Return 1 + h without the event, and 1 - q with it, q = h / (exp(h) - 1)."""
        return 1.0, 1.0

    def link(self, mu: FloatArray) -> FloatArray:
        return log(-log1p(-mu))

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return -expm1(-self._hazard(eta))

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        means = np.array([0.25, 0.75])
        start = self.link(means)
        # d mu / d eta = (1 - mu) exp(eta).
        slope = (1.0 - means) * exp(start)
        information = slope * slope * (16.0 / 3.0)
        target = start + (np.array([0.0, 1.0]) - means) / slope
        which = (response > 0.5).astype(np.intp)
        return information[which], target[which]

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        """Return them by the hazard h = exp(eta): 1 - mu is exp(-h)."""
        happened = response > 0.5
        hazard = self._hazard(eta)
        # As float64 goes the hazard may be 0; its logarithm is eta.
        none, often = hazard < LEAST_CHANCE, hazard > 0.5
        held = np.where(none, 1.0, np.minimum(hazard, LARGEST_EXPONENT))
        odds = np.where(none, LEAST_CHANCE, expm1(held))
        share = np.where(none, 1.0, held / odds)
        seldom = log(-expm1(-np.where(often, 1.0, held)))
        loss = -np.where(often, log1p(-exp(-held)), np.where(none, eta, seldom))
        rarely = 1.0 / odds
        beyond = np.maximum(eta - float(log(LARGEST_HAZARD)), 0.0)
        return RowTerms(
            np.where(happened, share, -hazard),
            np.where(
                happened, np.maximum(share * (hazard + (share - 1.0)), 0.0), hazard
            ),
            2.0 * np.where(happened, loss, hazard * (1.0 + beyond)),
            np.minimum(np.where(happened, rarely, odds), CEILING),
        )

    def expected(self, eta: FloatArray) -> FloatArray:
        hazard = np.clip(self._hazard(eta), LEAST_CHANCE, LARGEST_EXPONENT)
        return hazard * (hazard / expm1(hazard))

    def weight_slope(self, agreed: RowRanges) -> float:
        return 2.0

    def limits(self, agreed: RowRanges) -> RowBounds:
        most = LARGEST_HAZARD
        return RowBounds(
            low=-FAR,
            high=FAR,
            margin=FAR / 2.0,
            root=sqrt(most),
            pull=most + 4.0 + agreed.offset,
            deviance=2.0 * FAR * most,
            pearson=CEILING,
            saturated=1.0,
            expected=0.65,
        )

    def _hazard(self, eta: FloatArray) -> FloatArray:
        return exp(np.minimum(eta, float(log(LARGEST_HAZARD))))


class QuasiBinomial(Binomial):
    """Shares of successes, from 0 to 1, whose variance is phi mu (1 - mu) / w."""

    name = "quasi-binomial"
    estimates_dispersion = True
    levels = ()
    constants = ("peak",)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        """Return both at a mean half way between the share and 1/2."""
        mu = 0.25 + 0.5 * response
        information = mu * (1.0 - mu)
        return information, self.link(mu) + (response - mu) / information

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        rare, usual = exp(-np.abs(eta)), 1.0 / (1.0 + exp(-np.abs(eta)))
        smaller = rare * usual
        # y - mu by the smaller of mu and 1 - mu, which has all its digits.
        away = np.where(eta < 0.0, response - smaller, smaller - (1.0 - response))
        variance = smaller * usual
        loss = _share_loss_of_family(response, eta) + _share_loss_of_family(
            1.0 - response, -eta
        )
        pearson = np.minimum(away / np.maximum(variance, LEAST_CHANCE) * away, CEILING)
        return RowTerms(away, variance, 2.0 * np.maximum(loss, 0.0), pearson)

    def peak(self, response: PerRow) -> PerRow:
        return _family_times_log(response) + _family_times_log(1.0 - response)

    def log_likelihood(self, sums: LikelihoodSums) -> float:
        return np.nan

    def check(self, response: PerRow) -> None:
        if not ((response >= 0.0) & (response <= 1.0)).all():
            raise InvalidInputError(
                "the response of a quasi-binomial regression must be a share from 0 to "
                "1 in every row; give the number of trials as weights",
                code="response-not-share",
            )


class LogLink(Family):
    """eta = log mu."""

    has_digits = True
    grows_with_offset = True
    ratio = "a ratio of means"

    def link(self, mu: FloatArray) -> FloatArray:
        return log(mu)

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return exp(eta)

    def tilt(self, mean: float, spread: float) -> tuple[float, float]:
        """Return the way back to the mean: exp makes means of scatter."""
        return 1.0, -spread / 2.0


class Poisson(LogLink):
    """Counts with variance mu, eta = log mu."""

    name = "poisson"
    slope = 1.0
    cumulants_are_means = True
    constants: ClassVar[tuple[str, ...]] = ("saturated", "peak")
    exponential = True
    endless = "for some of its values every count is 0"
    ratio = "a rate ratio (a risk ratio where the response is 0 or 1)"

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        mu = response + 0.1
        return mu, log(mu) - 0.1 / mu

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        """Return them; log(y / mu) is log y - eta, however small mu is."""
        mu = exp(eta)
        away = response - mu
        pearson = _pearson_residual_of_family(response, mu, away)
        return RowTerms(
            away, mu, 2.0 * _counted_loss_of_family(response, mu, eta), pearson
        )

    def expected(self, eta: FloatArray) -> FloatArray:
        return exp(eta)

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        return weights * _log_peak_of_counts(response)

    @property
    def drift(self) -> tuple[float, float]:
        """Return the mean."""
        return 1.0, 0.0

    def cumulant(self, eta: FloatArray) -> FloatArray:
        return exp(eta)

    def peak(self, response: PerRow) -> PerRow:
        return _family_times_log(response) - response

    def limits(self, agreed: RowRanges) -> RowBounds:
        most = max(agreed.high, 1.0)
        cap = BEYOND * most
        logarithms = max(3.0, float(log(most + 0.1)))
        return RowBounds(
            low=-FAR,
            high=float(log(cap)),
            margin=1.0,
            root=sqrt(cap),
            pull=max(cap, (most + 0.1) * (logarithms + agreed.offset) + 0.1),
            deviance=2.0 * (most * (logarithms + FAR) + cap),
            pearson=CEILING * most,
            saturated=agreed.weight * (logarithms + 3.0),
        )

    def check(self, response: PerRow) -> None:
        if not ((response >= 0.0) & (response == np.floor(response))).all():
            raise InvalidInputError(
                f"the response of a {self.name} regression must be a count, 0, 1, 2 "
                "and so on, in every row; for rates give the exposure's log as offset",
                code="response-not-count",
            )

    def check_mean(self, mean: float) -> None:
        if not mean > 0.0:
            raise InvalidInputError(
                "the response is 0 in every row of every party",
                code="response-constant",
            )


class QuasiPoisson(Poisson):
    """Counts or rates with variance phi mu, phi estimated; eta = log mu."""

    name = "quasi-poisson"
    estimates_dispersion = True
    constants = ("peak",)

    def log_likelihood(self, sums: LikelihoodSums) -> float:
        return np.nan

    def check(self, response: PerRow) -> None:
        if not (response >= 0.0).all():
            raise InvalidInputError(
                "the response of a quasi-poisson regression must not be below 0 in any "
                "row",
                code="response-negative",
            )


@dataclass(frozen=True)
class NegativeBinomial(Poisson):
    """Counts with variance mu + alpha mu^2, alpha known; eta = log mu."""

    alpha: float

    name = "negative-binomial"
    closes = True
    slope = 0.0
    cumulants_are_means = False
    exponential = False  # weights are at most 1 / alpha

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < np.inf:
            raise InvalidInputError(
                f"alpha of a negative binomial law must be above 0, found {self.alpha}",
                code="alpha-not-positive",
            )

    @property
    def label(self) -> str:
        return f"{self.name} (alpha {self.alpha:g})"

    @property
    def drift(self) -> tuple[float, float]:
        """Return (y + 1/alpha) / (1 + alpha mu)."""
        return -1.0, self._size

    def natural(self, eta: FloatArray) -> tuple[float, float, float]:
        scaled = self.alpha * exp(eta)
        share, cumulant = 1.0 / (1.0 + scaled), self._size * log1p(scaled)
        return (eta + log(share)).item(), share.item(), cumulant.item()

    def peak(self, response: PerRow) -> PerRow:
        """Return y log(y / (1 + alpha y)) - log(1 + alpha y) / alpha."""
        more = (response + self._size) * log1p(self.alpha * response)
        return _family_times_log(response) - more

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        mu, start = super().first(response)
        return mu / (1.0 + self.alpha * mu), start

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        """Return them; as alpha falls they become those of a Poisson law."""
        mu = exp(eta)
        share = 1.0 / (1.0 + self.alpha * mu)
        away = response - mu
        # Half the deviance is y log(y / mu) - (y + 1/alpha) log((1 + alpha y) share):
        # Poisson's, less what is of the order of alpha, and neither cancels.
        scaled = 1.0 + self.alpha * response
        gap = log1p_gap(self.alpha * (mu - response) / scaled)
        loss = _counted_loss_of_family(response, mu, eta) - scaled * (self._size * gap)
        none = self._size * log1p(self.alpha * mu)
        return RowTerms(
            away * share,
            mu * share * scaled * share,
            2.0 * np.where(response > 0.0, np.maximum(loss, 0.0), none),
            _pearson_residual_of_family(response, mu, away) * share,
        )

    @property
    def _size(self) -> float:
        return min(1.0 / self.alpha, 1e300)

    def expected(self, eta: FloatArray) -> FloatArray:
        mu = exp(eta)
        return mu / (1.0 + self.alpha * mu)

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return w times the log of the law's probability of y at mu = y."""
        # Gamma(y + n) / Gamma(n) alpha^y, n = 1 / alpha, is a product of 1 + k alpha,
        # k < y: the first few factors as they are, all later ones by Stirling's series,
        # where what is large cancels with (1 + alpha y)^(y + n).
        few = response < self._few
        small, large = np.where(few, response, 0.0), np.where(few, self._few, response)
        ways = np.zeros_like(response)
        for k in range(self._few):
            ways += np.where(small > k, log1p(k * self.alpha), 0.0)
        scaled = log1p(self.alpha * small)
        ways += small - small * scaled - self._size * scaled
        later = self._start - log1p(self.alpha * large) / 2.0
        later += stirling_rest(large + self._size)
        return weights * (_log_peak_of_counts(response) + np.where(few, ways, later))

    @cached_property
    def _few(self) -> int:
        return max(0, ceil(STIRLING - self._size))

    @cached_property
    def _start(self) -> float:
        """The term without y: log(n) / 2 - rest(n), by way of n + few."""
        size, few = self._size, self._few
        later = np.array(size + few)
        found = -float(stirling_rest(later))
        if few:
            found += sum(float(log1p(k * self.alpha)) for k in range(few)) + few
            found -= (size + few - 0.5) * float(log1p(few * self.alpha))
        return found

    def limits(self, agreed: RowRanges) -> RowBounds:
        # Information is at most a Poisson law's: mu (1 + alpha y) / (1 + alpha mu)^2 is
        # largest at mu = 1 / alpha or at the cap, and below the cap at both.
        plain = super().limits(agreed)
        most = max(agreed.high, 1.0)
        wide = float(log1p(self.alpha * most)) + float(log1p(self.alpha))
        more = agreed.weight * (2.0 * wide + 10.0)
        cap = plain.root * plain.root
        return replace(
            plain,
            saturated=plain.saturated + more,
            expected=cap / (1.0 + self.alpha * cap),
        )


# What is estimated of the law of counts: theta = 1 / alpha, within these.
LEAST_THETA, MOST_THETA = 1e-4, 1e6


class NegativeBinomialEstimated(NegativeBinomial):
    """The same law with an alpha that is estimated: that of the field is a trial.

    Limits hold for every trial, so that all rounds are summed in the same units.
    """

    estimates_alpha = True
    has_digits = False

    def limits(self, agreed: RowRanges) -> RowBounds:
        found = super().limits(agreed)
        most = max(agreed.high, 1.0)
        wide = float(log1p(most / LEAST_THETA)) + float(log1p(1.0 / LEAST_THETA))
        usual = Poisson.limits(self, agreed)
        return replace(
            found,
            # No trial has 1.001 times the information of a Poisson law.
            root=sqrt(1.001 * BEYOND * most),
            saturated=usual.saturated + agreed.weight * (2.0 * wide + 10.0),
            expected=inf,
        )


class Gamma(LogLink):
    """Positive responses with variance phi mu^2, eta = log mu."""

    name = "gamma"
    estimates_dispersion = True
    closes = True
    positive = True
    constants: ClassVar[tuple[str, ...]] = ("saturated", "peak")

    @property
    def drift(self) -> tuple[float, float] | None:
        """Return y / mu."""
        return -1.0, 1.0

    def natural(self, eta: FloatArray) -> tuple[float, float, float]:
        slope = exp(-eta).item()
        return -slope, slope, eta.item()

    def peak(self, response: PerRow) -> PerRow:
        return -1.0 - log(response)

    def weight_slope(self, agreed: RowRanges) -> float:
        return 0.0

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        return np.ones_like(response), log(response)

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        ratio = response * exp(-eta)
        above = ratio - 1.0
        return RowTerms(above, ratio, 2.0 * _ratio_loss_of_family(ratio), above * above)

    def expected(self, eta: FloatArray) -> FloatArray:
        return np.ones_like(eta)

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return k log k - k - log Gamma(k) - log y with the shape k = w / phi."""
        # Nobody may fail to answer: a perfect fit has next to no dispersion.
        with np.errstate(over="ignore"):
            shape = np.minimum(weights / dispersion, LARGEST_SHAPE)
        return _log_peak_of_family(shape) - log(response)

    def limits(self, agreed: RowRanges) -> RowBounds:
        least, most = _positive_range_of_response(agreed)
        ratio = BEYOND * (most / least)
        logarithms = max(abs(float(log(least))), abs(float(log(most))))
        return RowBounds(
            low=float(log(least / BEYOND)),
            high=float(log(BEYOND * most)),
            margin=1.0,
            root=sqrt(ratio),
            pull=max(ratio, logarithms + agreed.offset),
            deviance=4.0 * ratio,
            pearson=ratio * ratio,
            saturated=3000.0 + logarithms,
            expected=1.0,
        )

    def check(self, response: PerRow) -> None:
        if not (response > 0.0).all():
            raise InvalidInputError(
                "the response of a gamma regression must be above 0 in every row, and "
                "more than half of the unit in which it is counted",
                code="response-not-positive",
            )


class GammaInverseLink(Gamma):
    """The gamma law with its canonical link, eta = 1 / mu."""

    name = "gamma-inverse"
    slope = -1.0
    ratio = ""

    @property
    def drift(self) -> None:
        """Return None: near 0 an eta changes its mean by any factor."""

    def natural(self, eta: FloatArray) -> tuple[float, float, float]:
        return Family.natural(self, eta)

    def link(self, mu: FloatArray) -> FloatArray:
        return 1.0 / mu

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return 1.0 / eta

    def mean_slope(self, eta: FloatArray) -> FloatArray:
        return -1.0 / (eta * eta)

    def mean_ends(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, ...]:
        """Return the interval of means, without an end where no eta is above 0."""
        with np.errstate(divide="ignore"):
            return 1.0 / high, np.where(low > 0.0, 1.0 / low, np.inf)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        return response * response, 1.0 / response

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        mu, ratio = 1.0 / eta, response * eta
        above = ratio - 1.0
        return RowTerms(
            mu - response, mu * mu, 2.0 * _ratio_loss_of_family(ratio), above * above
        )

    def expected(self, eta: FloatArray) -> FloatArray:
        return 1.0 / (eta * eta)

    def tilt(self, mean: float, spread: float) -> tuple[float, float]:
        """Return so much of the step that most rows keep a mean."""
        most = 1.0 / (mean * NEARLY_ALL)
        return 1.0 if spread <= most * most else most / sqrt(spread), 0.0

    def cumulant(self, eta: FloatArray) -> FloatArray:
        return -log(eta)

    def weight_slope(self, agreed: RowRanges) -> float:
        return 2.0 * agreed.high

    def limits(self, agreed: RowRanges) -> RowBounds:
        least, most = _positive_range_of_response(agreed)
        cap, low = BEYOND * most, 1.0 / (BEYOND * most)
        log_scale = super().limits(agreed)
        return RowBounds(
            low=low,
            high=BEYOND / least,
            margin=low,
            root=cap,
            pull=max(cap, most + most * most * agreed.offset),
            deviance=log_scale.deviance,
            pearson=log_scale.pearson,
            saturated=log_scale.saturated,
            usual_root=max(least, most / 16.0),
            usual_pull=max(least, most / 16.0),
        )


class InverseGaussian(Family):
    """Positive responses with variance phi mu^3 and the canonical link, eta = 1 / mu^2.

    Its tails are longer than those of a gamma law.
    """

    name = "inverse-gaussian"
    estimates_dispersion = True
    closes = True
    positive = True

    def link(self, mu: FloatArray) -> FloatArray:
        return 1.0 / (mu * mu)

    def inverse_link(self, eta: FloatArray) -> FloatArray:
        return 1.0 / np.sqrt(eta)

    def first(self, response: PerRow) -> tuple[PerRow, PerRow]:
        square = response * response
        return square * response / 4.0, 1.0 / square

    def terms(self, response: PerRow, eta: FloatArray) -> RowTerms:
        mu = 1.0 / np.sqrt(eta)
        away = response - mu
        above = away * eta * away  # (y - mu)^2 / mu^2
        return RowTerms(-away / 2.0, mu / eta / 4.0, above / response, above / mu)

    def expected(self, eta: FloatArray) -> FloatArray:
        return 1.0 / (4.0 * eta * np.sqrt(eta))

    def saturated(self, response: PerRow, weights: PerRow, dispersion: float) -> PerRow:
        """Return -log(2 pi phi y^3 / w) / 2."""
        # Nobody may fail to answer: a perfect fit has next to no dispersion.
        scaled = log(weights) - float(log(max(dispersion, 1e-300))) - _LOG_2_PI
        return (scaled - 3.0 * log(response)) / 2.0

    def limits(self, agreed: RowRanges) -> RowBounds:
        least, most = _positive_range_of_response(agreed, self.name)
        smallest, largest = least / BEYOND, BEYOND * most
        low = 1.0 / (largest * largest)
        far = largest / smallest * (largest / smallest)
        usual = max(least, most / 16.0)
        logarithms = max(abs(float(log(least))), abs(float(log(most))))
        return RowBounds(
            low=low,
            high=1.0 / (smallest * smallest),
            margin=low,
            root=sqrt(largest) * largest / 2.0,
            pull=max(largest, most + most * most * most * agreed.offset),
            deviance=far / least,
            pearson=far / smallest,
            saturated=3000.0 + 2.0 * logarithms,
            usual_root=sqrt(usual) * usual / 2.0,
            usual_pull=usual,
        )

    def check(self, response: PerRow) -> None:
        if not (response > 0.0).all():
            raise InvalidInputError(
                f"the response of an {self.name} regression must be above 0 in every "
                "row, and more than half of the unit in which it is counted",
                code="response-not-positive",
            )


def _positive_range_of_response(
    agreed: RowRanges, name: str = "gamma"
) -> tuple[float, float]:
    if not agreed.high > 0.0:
        raise InvalidInputError(
            f"the response was agreed to be at most {agreed.high:g}, and regressions "
            f"with a law such as {name} need responses above 0: agree on another range",
            code="response-range-not-positive",
        )
    return min(max(agreed.low, agreed.unit), agreed.high), agreed.high


def _ratio_loss_of_family(ratio: PerRow) -> PerRow:
    near = ratio > 0.5
    close = log1p_gap(np.where(near, ratio - 1.0, 0.0))
    return np.where(near, close, (ratio - 1.0) - log(ratio))


def _family_times_log(values: PerRow) -> PerRow:
    return values * log(np.where(values > 0.0, values, 1.0))


def _share_loss_of_family(share: PerRow, eta: FloatArray) -> PerRow:
    some = share > 0.0
    held = np.where(some, share, 1.0)
    return np.where(some, held * (log(held) - log_expit(eta)), 0.0)


def _pearson_residual_of_family(
    response: PerRow, mu: FloatArray, away: PerRow
) -> PerRow:
    """Return (y - mu)^2 / mu up to a ceiling; mu may be 0 as float64 goes."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = away / mu * away
    most = CEILING * np.maximum(response, 1.0)
    return np.where(response > 0.0, np.minimum(found, most), mu)


def _counted_loss_of_family(
    response: PerRow, mu: FloatArray, eta: FloatArray
) -> PerRow:
    some = response > 0.0
    count = np.where(some, response, 1.0)
    above = (mu - count) / count
    near = above > -0.5
    close = count * log1p_gap(np.where(near, above, 0.0))
    apart = count * (log(count) - eta) - (count - mu)
    return np.where(some, np.where(near, close, apart), mu)


def _log_peak_of_counts(response: PerRow) -> PerRow:
    """Return y log y - y - log y!, where y is large by Stirling's series."""
    # All three terms are large for a large y, and next to nothing is left of them.
    large = np.maximum(response, STIRLING)
    series = -(log(large) + _LOG_2_PI) / 2.0 - stirling_rest(large)
    small = np.clip(response, 1.0, STIRLING)
    plain = small * log(small) - small - log_gamma(small + 1.0)
    return np.where(
        response > STIRLING, series, np.where(response > 0.0, plain, -response)
    )


def _log_peak_of_family(shape: PerRow) -> PerRow:
    large = np.maximum(shape, STIRLING)
    series = (log(large) - _LOG_2_PI) / 2.0 - stirling_rest(large)
    small = np.minimum(shape, STIRLING)
    plain = small * (log(small) - 1.0) - log_gamma(small)
    return np.where(shape > STIRLING, series, plain)
