"""Generalised linear models from sums: what parties add up in each round.

The first round needs no coefficients: each row starts at a mean near its own response,
and the weighted least squares fit of these starts is where Newton's method sets out.
Every later round evaluates at a public point, which is the p coefficients and, last,
the intercept of the null model, whose deviance is found along the way. Some families
close with one more sum, at the answer.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from veilsum.costs.bases import svec
from veilsum.errors import InvalidInputError
from veilsum.models.family import Family
from veilsum.models.glm_sums import Request
from veilsum.models.rows import Gram, PerRow, Rows, Sums, gram, sum_over_blocks
from veilsum.numbers.arrays import Vector


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
    score, information, numbers = _contributions(family, rows, eta)
    more = [*numbers, family.outside(eta), *_null_sums(family, rows, point[-1:])]
    slope = rows.design.T @ score
    return gram(rows.design, information), np.concatenate([slope, more])


def _closing_of_block(family: Family, point: Vector, rows: Rows) -> tuple[Gram, Sums]:
    mu = family.inverse_link(rows.shift(rows.design @ point[:-1]))
    expected = rows.weigh(family.slope(mu) * family.leverage(mu))
    weights = rows.weigh(np.ones(rows.n_rows))
    saturated = family.saturated(rows.response, weights, float(point[-1]))
    return gram(rows.design, expected), np.array([saturated.sum()])


def _contributions(
    family: Family, rows: Rows, eta: PerRow
) -> tuple[PerRow, PerRow, tuple[float, float]]:
    """Return the rows' scores and information, and the sums of d and of Pearson's."""
    mu = family.inverse_link(eta)
    residual = rows.response - mu
    score = rows.weigh(residual * family.leverage(mu))
    information = rows.weigh(family.curvature(rows.response, mu))
    deviance = rows.weigh(family.unit_deviance(rows.response, mu)).sum()
    pearson = rows.weigh(residual**2 / family.variance(mu)).sum()
    return score, information, (float(deviance), float(pearson))


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
