"""Generalised linear models from sums: what parties add up in each round.

The first round needs no coefficients: each row starts at a mean near its own response,
and the weighted least squares fit of these starts is where Newton's method sets out.
Every later round evaluates at a public point, which is the p coefficients and, last,
the intercept of the null model, whose deviance is found along the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from veilsum.core.arrays import Vector
from veilsum.core.bases import smat, svec
from veilsum.core.models.family import Family
from veilsum.core.models.rows import Gram, PerRow, Rows, gram, sum_over_blocks
from veilsum.errors import InvalidInputError

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
        saturated: the part of the log-likelihood that only the responses decide.
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
    def unpack(cls, vector: Vector, n_columns: int) -> FirstStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        matrix, cross, numbers = _split(vector, n_columns, cls.size(n_columns))
        return cls(matrix, cross, *numbers.tolist())


@dataclass(frozen=True)
class RoundStatistics:
    """The sums of a later round, at the point that all parties know.

    Attributes:
        information: X'VX, Fisher's information over the dispersion.
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
    def unpack(cls, vector: Vector, n_columns: int) -> RoundStatistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        matrix, score, numbers = _split(vector, n_columns, cls.size(n_columns))
        return cls(matrix, score, *numbers.tolist())


def first_statistics(family: Family, rows: Rows) -> Vector:
    """Return one party's vector for the first round; it checks the response."""
    family.check(rows.response)
    matrix, numbers = sum_over_blocks(rows, partial(_first_of_block, family))
    return np.concatenate([svec(matrix), numbers])


def round_statistics(family: Family, rows: Rows, point: Vector) -> Vector:
    """Return one party's vector at a point: p coefficients and the null intercept."""
    if point.shape != (rows.n_columns + 1,):
        raise InvalidInputError(
            f"a point has {rows.n_columns} coefficients and the null model's "
            f"intercept, found shape {point.shape}"
        )
    matrix, numbers = sum_over_blocks(rows, partial(_round_of_block, family, point))
    return np.concatenate([svec(matrix), numbers])


def _first_of_block(family: Family, rows: Rows) -> tuple[Gram, Vector]:
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
        family.saturated(rows.response, weights).sum(),
    ]
    cross = rows.design.T @ (working * target)
    return gram(rows.design, working), np.concatenate([cross, numbers])


def _round_of_block(
    family: Family, point: Vector, rows: Rows
) -> tuple[Gram, Vector]:
    eta = rows.shift(rows.design @ point[:-1])
    score, information, numbers = _contributions(family, rows, eta)
    null_eta = rows.shift(np.full(rows.n_rows, point[-1]))
    null_score, null_information, null_numbers = _contributions(family, rows, null_eta)
    more = [
        *numbers,
        family.outside(eta),
        null_score.sum(),
        null_information.sum(),
        null_numbers[0],
    ]
    slope = rows.design.T @ score
    return gram(rows.design, information), np.concatenate([slope, more])


def _contributions(
    family: Family, rows: Rows, eta: PerRow
) -> tuple[PerRow, PerRow, tuple[float, float]]:
    """Return the rows' scores and information, and the sums of d and of Pearson's."""
    mu = family.inverse_link(eta)
    leverage = family.leverage(mu)
    residual = rows.response - mu
    score = rows.weigh(residual * leverage)
    information = rows.weigh(family.slope(mu) * leverage)
    deviance = rows.weigh(family.unit_deviance(rows.response, mu)).sum()
    pearson = rows.weigh(residual**2 / family.variance(mu)).sum()
    return score, information, (float(deviance), float(pearson))


def _split(
    vector: Vector, n_columns: int, expected: int
) -> tuple[Gram, Vector, Vector]:
    if vector.shape != (expected,):
        raise InvalidInputError(
            f"{n_columns} columns have {expected} statistics in this round, "
            f"found shape {vector.shape}"
        )
    triangle = n_columns * (n_columns + 1) // 2
    matrix, along, numbers = np.split(vector, [triangle, triangle + n_columns])
    return smat(matrix, n_columns), along, numbers
