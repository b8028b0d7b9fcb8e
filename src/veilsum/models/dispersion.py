"""Counts whose scatter is estimated: coefficients and theta together, by rounds.

The variance of a count is mu + mu^2 / theta. Both are found at once, by Newton's method
in the coefficients and log theta, so that every sum serves both; alpha = 1 / theta. A
round shows what one at a fixed alpha does, and beside it how the log-likelihood changes
with log theta, at which rate that changes, how it does so with each coefficient, and
the log-likelihood at mu = y, which a trial of another theta changes too.

With y a count and S_m(y) = sum over k < y of (theta + k)^-m, a row has

    dl / dtheta        = S_1 - log(1 + mu / theta) + (mu - y) / (theta + mu)
    d2l / dtheta2      = -S_2 + mu / (theta (theta + mu)) + (y - mu) / (theta + mu)^2
    d2l / deta dtheta  = (y - mu) mu / (theta + mu)^2

Here they are by log theta, where none exceeds three times the larger of y and mu: what
rows contribute is bounded whatever theta is tried. Terms of S_m are added up one by one
until theta + k is 10; what follows is by Stirling's series, in elementwise operations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, sqrt
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError, LocalProtocolError
from veilsum.models import glm
from veilsum.models.families import (
    LEAST_THETA,
    MOST_THETA,
    NegativeBinomial,
    NegativeBinomialEstimated,
)
from veilsum.models.glm import (
    ClosingStatistics,
    GlmFit,
    GlmOutcome,
    GlmRequest,
    GlmRowTotals,
    RoundStatistics,
    glm_row_blocks,
)
from veilsum.models.newton import (
    Newton,
    NewtonClimb,
    NewtonClosing,
    NewtonDone,
    NewtonEvaluation,
    NewtonOpening,
    NewtonRunning,
    State,
    null_newton_evaluation,
    state_after_outside_asked,
)
from veilsum.models.rows import PerRow, Rows
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.elementary import exp, log1p
from veilsum.numbers.units import Integers

# From here on the series below leave less than rounding does.
SERIES = 10.0
# psi(x) = log x - 1/(2x) - x^-2 (these in x^-2), and its slope 1/x + 1/(2x^2) + x^-3
# (those): Bernoulli's numbers B_2k over 2k, and as they are.
_SLOPE = (
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
)
_VALUE = tuple(one / (2.0 * k) for k, one in enumerate(_SLOPE, start=1))
# A step of log theta is at most this long.
FARTHEST = 2.0


@dataclass(frozen=True)
class ScatterTerms:
    """Contributions of rows to the estimate of theta, before weights.

    Attributes:
        slope: derivative of the log-likelihood in log theta.
        curvature: its negated second derivative.
        cross: its negated mixed derivative in log theta and eta.
    """

    slope: FloatArray
    curvature: FloatArray
    cross: FloatArray


def dispersion_scatter_terms(
    response: PerRow, eta: FloatArray, theta: float
) -> ScatterTerms:
    """Return what counts contribute at their etas and a theta."""
    mu = exp(eta)
    once, twice = _reciprocals_of_dispersion(response, theta)
    both = theta + mu
    share, away = theta / both, response - mu
    slope = theta * once - theta * log1p(mu / theta) - share * away
    second = mu * share + share * share * away - theta * (theta * twice)
    return ScatterTerms(slope, -(second + slope), -(share * away) * (mu / both))


def _reciprocals_of_dispersion(counts: PerRow, theta: float) -> tuple[PerRow, PerRow]:
    """Return the sums over k below each count of 1 / (theta + k), and of squares."""
    few = max(0, ceil(SERIES - theta))
    once, twice = np.zeros_like(counts), np.zeros_like(counts)
    for k in range(few):
        part = np.where(counts > k, 1.0 / (theta + k), 0.0)
        once += part
        twice += part * part
    start = theta + few
    more = np.maximum(counts - few, 0.0)
    end = start + more
    once += log1p(more / start) + more / (2.0 * start * end)
    once += _asymptotic_gamma_series(_VALUE, start, 2) - _asymptotic_gamma_series(
        _VALUE, end, 2
    )
    twice += more / (start * end)
    twice += more * (start + end) / (2.0 * start * start * (end * end))
    twice += _asymptotic_gamma_series(_SLOPE, start, 3) - _asymptotic_gamma_series(
        _SLOPE, end, 3
    )
    return once, twice


def _asymptotic_gamma_series(numbers: tuple[float, ...], x: Any, power: int) -> Any:
    """Return x^-power (c_0 + c_1 x^-2 + ...)."""
    inverse = 1.0 / x
    square = inverse * inverse
    value = numbers[-1] + 0.0 * square
    for one in reversed(numbers[:-1]):
        value = value * square + one
    return value * square * inverse if power == 3 else value * square


@dataclass(frozen=True)
class ScatterStatistics(RoundStatistics):
    """The totals of a round, and what they say of theta.

    Attributes:
        cross: minus the derivative of the log-likelihood in log theta and coefficients.
        slope: in log theta.
        curvature: minus the second derivative in it.
        saturated: the log-likelihood at mu = y.
    """

    cross: tuple[Fraction, ...]
    slope: Fraction
    curvature: Fraction
    saturated: Fraction


@dataclass(frozen=True)
class DispersionEvaluation:
    """Totals at a trial of the coefficients and log theta.

    Attributes:
        model: the evaluation in the coefficients.
        sums: the totals.
    """

    model: NewtonEvaluation
    sums: ScatterStatistics

    @property
    def objective(self) -> Fraction:
        return self.sums.deviance - 2 * self.sums.saturated

    @property
    def dispersion(self) -> float:
        return 1.0

    @property
    def noise(self) -> float:
        """A change of the objective that means nothing, beside a part of it."""
        return 0.0

    def step(self) -> Vector:
        """Return Newton's step; where the likelihood bends up, one in log theta."""
        along = self.model.step()
        across = replace(self.model, score=self.sums.cross).step()
        pull = self.sums.slope - _exact_model_dot(self.sums.cross, along)
        left = self.sums.curvature - _exact_model_dot(self.sums.cross, across)
        by = float(pull / left) if left > 0 else (1.0 if pull > 0 else -1.0)
        by = min(max(by, -FARTHEST), FARTHEST)
        return np.append(along - across * by, by)

    def gain(self, step: Vector) -> Fraction:
        """Return the slope along a step: twice what it gains."""
        return self.model.gain(step[:-1]) + self.sums.slope * Fraction(float(step[-1]))

    def length(self, along: Vector) -> float:
        own = max(float(self.sums.curvature), 0.0) * float(along[-1]) ** 2
        return sqrt(self.model.length(along[:-1]) ** 2 + own)


def _exact_model_dot(exact: tuple[Fraction, ...], by: Vector) -> Fraction:
    pairs = zip(exact, by.tolist(), strict=True)
    return sum((one * Fraction(other) for one, other in pairs), Fraction(0))


@dataclass(frozen=True)
class DispersedOutcome(GlmOutcome):
    """Outcome of the rounds, with theta and its standard error."""

    theta: float
    theta_error: float


@dataclass(frozen=True, kw_only=True)
class DispersedFit(GlmFit):
    """A fit of counts with the theta that was estimated beside it, as MASS has it.

    Errors of coefficients are those at a theta that is known, from the expected
    information: in large samples neither estimate says anything of the other's error.
    """

    theta: float
    theta_error: float

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 (model degrees + 1): theta counts."""
        return super().aic + 2.0

    @property
    def bic(self) -> float:
        """-2 log-likelihood + log(rows) (model degrees + 1)."""
        return super().bic + float(np.log(self.n_rows))


@dataclass(frozen=True)
class DispersedNewton(Newton):
    """Public terms of a fit that estimates theta, fixed before the first round."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(self.penalty):
            raise InvalidInputError(
                "a negative binomial fit that estimates alpha goes without a ridge: "
                "leave one of them out, or give alpha",
                code="alpha-with-ridge",
            )

    def at(self, theta: float) -> Newton:
        """Return the rounds of a fit whose theta is known; units are the same."""
        family = NegativeBinomialEstimated(1.0 / theta)
        return Newton(family, self.measures, self.names, self.intercept)

    def statistics(self, rows: Rows, request: GlmRequest) -> Integers:
        theta = float(request.point[-1]) if len(request.point) else 1.0
        scales = self.at(theta).scales
        inner = replace(request, point=request.point[:-1])
        found = glm.glm_statistics(scales, rows, inner)
        if request.stage != "round":
            return found
        totals = GlmRowTotals(scales)
        for block in glm_row_blocks(scales.measures, rows):
            eta = block.predictor(inner.point[:-1])
            terms = dispersion_scatter_terms(block.response, eta, theta)
            totals.pull(block, terms.cross)
            totals.number("deviance", block.weigh(terms.slope))
            totals.number("pearson", block.weigh(terms.curvature))
            ones = block.weigh(np.ones(len(eta)))
            saturated = scales.family.saturated(block.response, ones, 1.0)
            totals.number("saturated", saturated)
        more, places = totals.vector, scales.positions.places
        numbers = more[places["numbers"]]
        found[places["theta_score"]] = more[places["along"]]
        found[places["theta_slopes"]] = numbers[scales.theta_places]
        return found

    def _sums(self, state: NewtonRunning, total: Integers) -> ScatterStatistics:
        scales = self.scales
        found = scales.layout("round").unpack(total)
        # By coefficients of whole numbers, as a score is.
        pull = Fraction(2) ** -scales.pull
        slope, curvature, saturated = (
            int(one) * Fraction(2) ** -scales.numbers[place]
            for one, place in zip(
                found["theta_slopes"], scales.theta_places, strict=True
            )
        )
        return ScatterStatistics(
            **vars(scales.round(total)),
            cross=tuple(int(one) * pull for one in found["theta_score"]),
            slope=slope,
            curvature=curvature,
            saturated=saturated,
        )

    def propose(self, state: State) -> GlmRequest:
        match state:
            case NewtonRunning():
                trial = state.model.trial
                point = np.concatenate([trial[:-1], state.null.trial])
                inside = self.scales.surely_inside(point, state.anchor)
                theta = exp(trial[-1:])
                stage: glm.Stage = "round" if inside else "outside"
                return GlmRequest(stage, np.concatenate([point, theta]))
            case _:
                return super().propose(state)

    def advance(self, state: State, total: Integers) -> State:
        match state:
            case NewtonOpening():
                opened = self._open(self.scales.first(total))
                model = opened.model
                # Theta starts at 1.
                here, trial = np.append(model.here, 0.0), np.append(model.trial, 0.0)
                return replace(opened, model=replace(model, here=here, trial=trial))
            case NewtonRunning():
                request = self.propose(state)
                if request.stage == "outside":
                    outside = self.scales.outside(total)
                    return state_after_outside_asked(state, request.point[:-1], outside)
                return self._settled(self._stepped(state, self._sums(state, total)))
            case _:
                return super().advance(state, total)

    def _stepped(self, state: NewtonRunning, sums: ScatterStatistics) -> NewtonRunning:
        self.scales.check_round(sums, state.first, self.labels)
        system = self._system(sums.information)
        own = NewtonEvaluation(
            system, self.scales.columns, sums.score, sums.deviance, 1.0
        )
        found = DispersionEvaluation(own, sums)
        accepted = state.model.accepts(found)
        model = state.model.advance(found)
        if accepted:
            before = replace(state, model=_dispersion_of_columns(state.model))
            self._check_separation(before, system, _dispersion_of_columns(model))
        theta = float(exp(model.trial[-1]))
        if theta > MOST_THETA:
            raise InvalidInputError(
                "the counts scatter no more than those of a Poisson law, so there is "
                'no alpha above 0 to be estimated: use family = "poisson"',
                code="alpha-at-zero",
            )
        if theta < LEAST_THETA:
            raise InvalidInputError(
                f"alpha grows beyond {1.0 / LEAST_THETA:g}: the counts scatter more "
                "than a negative binomial law describes; leave out columns, or give "
                "alpha",
                code="alpha-unbounded",
            )
        null = null_newton_evaluation(sums, 1.0)
        return replace(
            state,
            rounds=state.rounds + 1,
            model=model,
            # Of another theta's deviance nothing says whether this one has risen.
            null=replace(state.null, objective=None).advance(null),
            sums=sums if accepted else state.sums,
        )

    def _settled(self, state: NewtonRunning) -> State:
        sums, step = state.sums, state.model.step
        over = state.model.settled and state.null.settled
        if sums is None or step is None or not over:
            if state.rounds < self.max_rounds:
                return state
            return self._settle(
                replace(state, model=_dispersion_of_columns(state.model))
            )
        assert isinstance(sums, ScatterStatistics)
        theta = float(exp(np.array(state.model.answer[-1])))
        bent = float(sums.curvature)
        if not bent > 0.0:
            raise InvalidInputError(
                "the likelihood does not say how exact theta is: give alpha",
                code="alpha-undetermined",
            )
        outcome = DispersedOutcome(
            first=state.first,
            sums=sums,
            here=state.model.here[:-1],
            step=step[:-1],
            null_deviance=state.null.objective or Fraction(0),
            rounds=state.rounds,
            theta=theta,
            theta_error=theta / sqrt(bent),
        )
        answer = state.model.answer[:-1]
        inside = self.scales.surely_inside(
            np.concatenate([answer, state.null.here]), state.anchor
        )
        at = answer if inside else state.model.here[:-1]
        return NewtonClosing(outcome, np.append(at, [1.0, theta]))

    def fit(self, state: State) -> DispersedFit:
        if not isinstance(state, NewtonDone):
            raise LocalProtocolError(
                "a fit was asked for before its rounds were over", code="fit-not-done"
            )
        outcome = state.outcome
        assert isinstance(outcome, DispersedOutcome)
        assert isinstance(outcome.sums, ScatterStatistics)
        # Deviance and the log-likelihood at mu = y are those of one theta.
        closing = ClosingStatistics(state.closing.information, outcome.sums.saturated)
        found = self.at(outcome.theta).fit(NewtonDone(outcome, closing))
        return DispersedFit(
            **{**vars(found), "family": NegativeBinomial(1.0 / outcome.theta)},
            theta=outcome.theta,
            theta_error=outcome.theta_error,
        )

    def real_point(self, request: GlmRequest) -> Vector:
        point = request.point
        if not len(point):
            return point
        return np.concatenate([self.scales.real(point[:-2]), point[-2:]])


def _dispersion_of_columns(climb: NewtonClimb) -> NewtonClimb:
    step = None if climb.step is None else climb.step[:-1]
    return replace(climb, here=climb.here[:-1], trial=climb.trial[:-1], step=step)
