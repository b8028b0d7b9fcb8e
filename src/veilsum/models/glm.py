"""Generalised linear models from sums: what parties add up, and the fit at the end.

The first round needs no coefficients: each row starts at a mean near its own response,
and the weighted least squares fit of these starts is where Newton's method sets out.
Every later round evaluates at a public point, which is the p coefficients and, last,
the intercept of the null model, whose deviance is found along the way. Some families
close with one more sum, at the answer. `newton` leads from one round to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from veilsum.costs.bases import smat, svec
from veilsum.errors import InvalidInputError
from veilsum.models.families import Family, LikelihoodSums
from veilsum.models.inference import Inference
from veilsum.models.rows import Gram, Rows, Sums, gram, sum_over_blocks
from veilsum.models.systems import System, check_rows, uncertainty
from veilsum.numbers.arrays import FloatArray, Vector

# Beside the svec of a matrix and a vector with one number for each column.
N_FIRST = 5
N_ROUND = 6


@dataclass(frozen=True)
class FirstStatistics:
    """The sums of the first round.

    Attributes:
        information: X'VX with the working weights V of the starting means.
        cross: X'Vz with the working responses z, offsets taken off.
        n_rows: the number of rows.
        weight_sum: the sum of the weights; of ones without weights.
        response_sum: the sum of w y.
        offset_sum: the sum of w times the offset.
        saturated: the log-likelihood at mu = y; 0 in a family that closes.
    """

    information: Gram
    cross: Vector
    n_rows: float
    weight_sum: float
    response_sum: float
    offset_sum: float
    saturated: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + p + 5."""
        return n_columns * (n_columns + 1) // 2 + n_columns + N_FIRST

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> FirstStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        matrix, cross, numbers = _split(vector, n_columns, cls.size(n_columns))
        return cls(matrix, cross, *numbers.tolist())


@dataclass(frozen=True)
class RoundStatistics:
    """The sums of a later round, at the point that all parties know.

    Attributes:
        information: X'VX, the observed information times the dispersion.
        score: the slope of the log-likelihood times the dispersion.
        deviance: the sum of w d(y, mu).
        pearson: the sum of w (y - mu)^2 / variance.
        outside: rows whose eta no mean has; all else takes them at the edge.
        null_score: the score of the null model.
        null_information: its information.
        null_deviance: its deviance.
    """

    information: Gram
    score: Vector
    deviance: float
    pearson: float
    outside: float
    null_score: float
    null_information: float
    null_deviance: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + p + 6."""
        return n_columns * (n_columns + 1) // 2 + n_columns + N_ROUND

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> RoundStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        matrix, score, numbers = _split(vector, n_columns, cls.size(n_columns))
        return cls(matrix, score, *numbers.tolist())


@dataclass(frozen=True)
class ClosingStatistics:
    """The sums of the closing round, at the answer.

    Attributes:
        information: Fisher's expected information times the dispersion.
        saturated: the log-likelihood at mu = y.
    """

    information: Gram
    saturated: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + 1."""
        return n_columns * (n_columns + 1) // 2 + 1

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> ClosingStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        _check_size(vector, n_columns, cls.size(n_columns))
        return cls(smat(vector[:-1], n_columns), float(vector[-1]))


def _check_size(vector: Sums, n_columns: int, expected: int) -> None:
    if vector.shape != (expected,):
        raise InvalidInputError(
            f"{n_columns} columns have {expected} statistics in this round, "
            f"found shape {vector.shape}"
        )


def _split(
    vector: Sums, n_columns: int, expected: int
) -> tuple[Gram, Vector, FloatArray]:
    _check_size(vector, n_columns, expected)
    triangle = n_columns * (n_columns + 1) // 2
    matrix, along, numbers = np.split(vector, [triangle, triangle + n_columns])
    return smat(matrix, n_columns), along, numbers


Stage = Literal["first", "round", "closing"]


def statistics_size(stage: Stage, n_columns: int) -> int:
    """Return how many numbers a party is asked for."""
    sizes = {
        "first": FirstStatistics.size,
        "round": RoundStatistics.size,
        "closing": ClosingStatistics.size,
    }
    return sizes[stage](n_columns)


@dataclass(frozen=True)
class Request:
    """What all parties are asked for next: public numbers and what to do with them.

    Attributes:
        stage: which statistics.
        point: nothing at first; in a round the coefficients and the null model's
            intercept; when closing the coefficients and the dispersion.
    """

    stage: Stage
    point: Vector


def statistics(family: Family, rows: Rows, request: Request) -> Sums:
    """Return one party's answer to a request; the parties' answers are to be added."""
    match request.stage:
        case "first":
            return first_statistics(family, rows)
        case "round":
            return round_statistics(family, rows, request.point)
        case "closing":
            return closing_statistics(family, rows, request.point)


def first_statistics(family: Family, rows: Rows) -> Sums:
    """Return one party's vector for the first round; it checks the response."""
    family.check(rows.response)
    matrix, numbers = sum_over_blocks(rows, partial(_first_of_block, family))
    return np.concatenate([svec(matrix), numbers])


def round_statistics(family: Family, rows: Rows, point: Vector) -> Sums:
    """Return one party's vector at a point: p coefficients and the null intercept."""
    _check_point(point, rows.n_columns)
    matrix, numbers = sum_over_blocks(rows, partial(_round_of_block, family, point))
    p = rows.n_columns
    if numbers[p + 2] > 0.0:
        # Some row has no mean here: the point will be given up for that count alone,
        # and what was found at the edge could be beyond any range.
        matrix, numbers[: p + 2] = np.zeros_like(matrix), 0.0
    return np.concatenate([svec(matrix), numbers])


def closing_statistics(family: Family, rows: Rows, point: Vector) -> Sums:
    """Return one party's vector at the answer: p coefficients and the dispersion."""
    _check_point(point, rows.n_columns)
    matrix, numbers = sum_over_blocks(rows, partial(_closing_of_block, family, point))
    return np.concatenate([svec(matrix), numbers])


def _first_of_block(family: Family, rows: Rows) -> tuple[Gram, Sums]:
    mu = family.first_mean(rows.response)
    slope = family.slope(mu)
    working = rows.weigh(slope * family.leverage(mu))
    start = family.link(mu) + (rows.response - mu) / slope
    target = start if rows.offset is None else start - rows.offset
    weights = rows.weigh(np.ones(rows.n_rows))
    numbers = [
        rows.n_rows,
        weights.sum(),
        weights @ rows.response,
        0.0 if rows.offset is None else weights @ rows.offset,
        0.0 if family.closes else family.saturated(rows.response, weights, 1.0).sum(),
    ]
    cross = rows.design.T @ (working * target)
    return gram(rows.design, working), np.concatenate([cross, numbers])


def _round_of_block(family: Family, point: Vector, rows: Rows) -> tuple[Gram, Sums]:
    eta = rows.shift(rows.design @ point[:-1])
    mu = family.inverse_link(eta)
    residual = rows.response - mu
    information = rows.weigh(family.curvature(rows.response, mu))
    score = rows.design.T @ rows.weigh(residual * family.leverage(mu))
    numbers = [
        rows.weigh(family.unit_deviance(rows.response, mu)).sum(),
        rows.weigh(residual**2 / family.variance(mu)).sum(),
        family.outside(eta),
        *_null_sums(family, rows, point[-1:]),
    ]
    return gram(rows.design, information), np.concatenate([score, numbers])


def _closing_of_block(family: Family, point: Vector, rows: Rows) -> tuple[Gram, Sums]:
    mu = family.inverse_link(rows.shift(rows.design @ point[:-1]))
    expected = rows.weigh(family.slope(mu) * family.leverage(mu))
    weights = rows.weigh(np.ones(rows.n_rows))
    saturated = family.saturated(rows.response, weights, float(point[-1]))
    return gram(rows.design, expected), np.array([saturated.sum()])


def _null_sums(family: Family, rows: Rows, intercept: Vector) -> tuple[float, ...]:
    """Return the sums of the null model's scores, information and deviances."""
    # Without offsets all rows have one mean, which is worked out once.
    eta = intercept if rows.offset is None else intercept + rows.offset
    mu = np.broadcast_to(family.inverse_link(eta), rows.n_rows)
    each = (
        (rows.response - mu) * family.leverage(mu),
        family.curvature(rows.response, mu),
        family.unit_deviance(rows.response, mu),
    )
    return tuple(float(rows.weigh(values).sum()) for values in each)


def _check_point(point: Vector, n_columns: int) -> None:
    if point.shape != (n_columns + 1,):
        raise InvalidInputError(
            f"a point has {n_columns} coefficients and one number more, "
            f"found shape {point.shape}"
        )


@dataclass(frozen=True)
class GlmFit(Inference):
    """The fit of the pooled rows; one that did not converge does not exist.

    Where the dispersion is estimated the tests are Student's, as in R; else normal.

    Attributes:
        family: of the response.
        model_degrees: coefficients in effect: p, or less with a ridge.
        residual_degrees: rows less model degrees.
        deviance: of the fit.
        null_deviance: of a model with an intercept, and the offset, alone.
        pearson: the sum of w (y - mu)^2 / variance.
        dispersion: Pearson's sum over its degrees of freedom, or 1 if the law fixes it.
        log_likelihood: at that dispersion; the gaussian's is at deviance / n.
        n_rows: the number of rows.
        rounds: how many totals it took.
        condition: of the scaled information; log10(1e16 / condition) digits are right.
    """

    family: Family
    model_degrees: float
    residual_degrees: float
    deviance: float
    null_deviance: float
    pearson: float
    dispersion: float
    log_likelihood: float
    n_rows: int
    rounds: int
    condition: float

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 model degrees; the dispersion is not counted."""
        return 2.0 * (self.model_degrees - self.log_likelihood)


@dataclass(frozen=True)
class GlmOutcome:
    """What the rounds ended with.

    Attributes:
        first: the first total.
        sums: the last round's total.
        coefficients: the last step included.
        null_deviance: where the null model's search ended.
        rounds: how many totals it took.
    """

    first: FirstStatistics
    sums: RoundStatistics
    coefficients: Vector
    null_deviance: float
    rounds: int


def conclude(
    family: Family,
    outcome: GlmOutcome,
    closing: ClosingStatistics,
    *,
    names: tuple[str, ...],
    penalty: Vector,
) -> GlmFit:
    """Return the fit; standard errors are sqrt diag(phi A^-1 I A^-1)."""
    sums, n_rows = outcome.sums, outcome.first.n_rows
    system = System.of(closing.information + np.diag(penalty), names=names)
    covariance, _ = uncertainty(system, closing.information, penalty)
    degrees = effective_degrees(sums, penalty, names)
    dispersion = estimated_dispersion(family, sums.pearson, n_rows, degrees)
    likelihood = LikelihoodSums(sums.deviance, closing.saturated, n_rows, dispersion)
    return GlmFit(
        names=names,
        coefficients=outcome.coefficients,
        covariance=dispersion * covariance,
        t_degrees=n_rows - degrees if family.estimates_dispersion else None,
        family=family,
        model_degrees=degrees,
        residual_degrees=n_rows - degrees,
        deviance=sums.deviance,
        null_deviance=outcome.null_deviance,
        pearson=sums.pearson,
        dispersion=dispersion,
        log_likelihood=family.log_likelihood(likelihood),
        n_rows=round(n_rows),
        rounds=outcome.rounds,
        condition=system.condition,
    )


def effective_degrees(
    sums: RoundStatistics, penalty: Vector, names: tuple[str, ...]
) -> float:
    """Return trace((I + P)^-1 I), which is p without a ridge."""
    system = System.of(sums.information + np.diag(penalty), names=names)
    return uncertainty(system, sums.information, penalty)[1]


def estimated_dispersion(
    family: Family, pearson: float, n_rows: float, degrees: float
) -> float:
    """Return Pearson's estimate of phi, or the 1 of a law that fixes it."""
    if not family.estimates_dispersion:
        return 1.0
    check_rows(n_rows, degrees)
    return pearson / (n_rows - degrees)
