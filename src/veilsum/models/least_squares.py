"""Least squares from sums: ordinary, weighted and ridge regression in one exchange.

The sums X'WX, X'Wy, y'Wy and four numbers say all about the rows that the pooled fit
needs, so parties add these up and every party solves the same small system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilsum.costs.bases import smat, svec
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.inference import Inference
from veilsum.models.rows import Gram, Rows, Sums, gram, sum_over_blocks
from veilsum.models.systems import (
    System,
    check_intercept,
    check_rows,
    column_names,
    penalties,
    uncertainty,
)
from veilsum.numbers.arrays import Vector

# Beside the svec of X'WX and X'Wy: y'Wy, sum of Wy, of weights, of their logs, rows.
N_NUMBERS = 5

# A residual sum of squares below this much of y'Wy is the rounding of a perfect fit.
PERFECT = 1e-14


@dataclass(frozen=True)
class Statistics:
    """What the rows of one party, or of all of them, add up to.

    Attributes:
        gram: X'WX.
        cross: X'Wy.
        square: y'Wy.
        response_sum: the sum of w y, for the scatter of y about its mean.
        weight_sum: the sum of the weights; of ones without weights.
        log_weight_sum: the sum of log w, a constant of the log-likelihood.
        n_rows: the number of rows.
    """

    gram: Gram
    cross: Vector
    square: float
    response_sum: float
    weight_sum: float
    log_weight_sum: float
    n_rows: float

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: p (p + 1) / 2 + p + 5."""
        return n_columns * (n_columns + 1) // 2 + n_columns + N_NUMBERS

    @classmethod
    def unpack(cls, vector: Sums, n_columns: int) -> Statistics:
        """Return the statistics in a vector laid out in the order of the fields."""
        expected = cls.size(n_columns)
        if vector.shape != (expected,):
            raise InvalidInputError(
                f"{n_columns} columns have {expected} statistics, "
                f"found shape {vector.shape}"
            )
        triangle = n_columns * (n_columns + 1) // 2
        matrix, cross, numbers = np.split(vector, [triangle, triangle + n_columns])
        return cls(smat(matrix, n_columns), cross, *numbers.tolist())


def statistics(rows: Rows) -> Sums:
    """Return one party's vector of statistics; the parties' vectors are to be added."""
    if rows.offset is not None:
        rows = Rows(rows.design, rows.response - rows.offset, rows.weights)
    matrix, numbers = sum_over_blocks(rows, _of_block)
    return np.concatenate([svec(matrix), numbers])


def _of_block(rows: Rows) -> tuple[Gram, Sums]:
    weighed = rows.weigh(rows.response)
    numbers = np.array(
        [
            weighed @ rows.response,
            weighed.sum(),
            rows.n_rows if rows.weights is None else rows.weights.sum(),
            0.0 if rows.weights is None else np.log(rows.weights).sum(),
            rows.n_rows,
        ]
    )
    cross = rows.design.T @ weighed
    return gram(rows.design, rows.weights), np.concatenate([cross, numbers])


@dataclass(frozen=True)
class LeastSquaresFit(Inference):
    """The fit of the pooled rows.

    Attributes:
        model_degrees: coefficients in effect: p, or the trace of a ridge's hat matrix.
        residual_degrees: rows less model degrees.
        residual_sum: the weighted sum of squared residuals.
        total_sum: of squares about the mean with an intercept, about zero without.
        has_intercept: whether a column is the intercept.
        log_weight_sum: the sum of log w.
        n_rows: the number of rows.
        condition: of the scaled system; log10(1e16 / condition) digits are right.
    """

    model_degrees: float
    residual_degrees: float
    residual_sum: float
    total_sum: float
    has_intercept: bool
    log_weight_sum: float
    n_rows: int
    condition: float

    @property
    def residual_variance(self) -> float:
        """The residual sum over its degrees of freedom, s^2."""
        return self.residual_sum / self.residual_degrees

    @property
    def r_squared(self) -> float:
        """1 - residual sum / total sum; nan for a response without any scatter."""
        if self.total_sum == 0.0:
            return np.nan
        return 1.0 - self.residual_sum / self.total_sum

    @property
    def adjusted_r_squared(self) -> float:
        """1 - s^2 over the variance of the response."""
        freedom = (self.n_rows - self.has_intercept) / self.residual_degrees
        return 1.0 - freedom * (1.0 - self.r_squared)

    @property
    def log_likelihood(self) -> float:
        """-n/2 (log(2 pi RSS / n) + 1) + sum(log w) / 2; inf for a perfect fit."""
        if self.residual_sum == 0.0:
            return np.inf
        scaled = 2.0 * np.pi * self.residual_sum / self.n_rows
        return float((self.log_weight_sum - self.n_rows * (np.log(scaled) + 1.0)) / 2.0)

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 model degrees."""
        return 2.0 * (self.model_degrees - self.log_likelihood)


def fit(
    total: Sums,
    n_columns: int,
    *,
    names: Sequence[str] | None = None,
    intercept: int | None = None,
    ridge: float | Sequence[float] | Vector = 0.0,
) -> LeastSquaresFit:
    """Return the least squares fit of all rows whose statistics were added up.

    It minimises sum_i w_i (y_i - x_i b)^2 + sum_j ridge_j b_j^2. The standard errors
    with a ridge are those of the biased estimate,
    s^2 A^-1 X'WX A^-1 with A = X'WX + diag(ridge).

    Args:
        total: the sum of the parties' statistics.
        n_columns: the number p of columns.
        names: of the columns, for the table and for errors.
        intercept: which column is all ones, if any.
        ridge: one number for every column but the intercept, or one for each column.

    Raises:
        InvalidInputError: too few rows, or dependent columns, which it names.
    """
    if not np.isfinite(total).all():
        raise NumericalError("a total holds nan or inf: the sum went wrong")
    sums, labels = Statistics.unpack(total, n_columns), column_names(names, n_columns)
    check_intercept(intercept, n_columns)
    penalty = penalties(ridge, n_columns=n_columns, intercept=intercept)
    if not penalty.any():
        check_rows(sums.n_rows, n_columns)
    system = System.of(sums.gram + np.diag(penalty), names=labels)
    coefficients = system.solve(sums.cross)
    covariance, degrees = uncertainty(system, sums.gram, penalty)
    check_rows(sums.n_rows, degrees)
    left = sums.n_rows - degrees
    residual = residual_sum(sums, coefficients)
    return LeastSquaresFit(
        names=labels,
        coefficients=coefficients,
        covariance=covariance * residual / left,
        t_degrees=left,
        model_degrees=degrees,
        residual_degrees=left,
        residual_sum=residual,
        total_sum=total_sum(sums, centred=intercept is not None),
        has_intercept=intercept is not None,
        log_weight_sum=sums.log_weight_sum,
        n_rows=round(sums.n_rows),
        condition=system.condition,
    )


def residual_sum(sums: Statistics, coefficients: Vector) -> float:
    """Return y'Wy - 2 b'X'Wy + b'X'WX b, at any b; exactly 0 for a perfect fit."""
    fitted = sums.gram @ coefficients - 2.0 * sums.cross
    residual = sums.square + float(coefficients @ fitted)
    return residual if residual > PERFECT * sums.square else 0.0


def total_sum(sums: Statistics, *, centred: bool) -> float:
    """Return the sum of w y^2, about the weighted mean if it is to be centred."""
    if not centred:
        return sums.square
    about = sums.square - sums.response_sum**2 / sums.weight_sum
    return about if about > PERFECT * sums.square else 0.0
