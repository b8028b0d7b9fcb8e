"""Symmetric systems A x = b of regressions, solved from exact totals.

A holds Python integers or fractions, so its rank is a fact and no matter of rounding.
Solutions are enclosed in balls of python-flint, at a precision that is raised until
every ball has one nearest float64: the answer is correctly rounded, and so the same on
every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, TypeAlias, TypeVar

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpz_mat, nmod_mat

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.rows import Gram
from veilsum.numbers.arrays import Array, Vector, as_float_vector, listed_names

Exact: TypeAlias = int | Fraction

# Precisions of balls that are tried one after the other, until all is pinned down.
PRECISIONS = tuple(192 * 2**k for k in range(8))
UNDETERMINED = "totals of such wide numbers do not determine the answer to any digit"
# A covariance that is smaller than this beside its variances is 0.
NO_COVARIANCE = 2.0**-100
# A determinant that is not 0 modulo a prime is not 0.
PRIME = 2**63 - 25


@dataclass(frozen=True, eq=False)
class InformationSystem:
    """A regular symmetric A = I + diag(ridge), kept as whole numbers over one number.

    Attributes:
        matrix: A times the denominator.
        denominator: of all entries.
        ridge: what was added to the diagonal.
    """

    matrix: fmpz_mat
    denominator: int
    ridge: tuple[Fraction, ...]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        matrix: Array[Any],
        *,
        names: Sequence[str],
        ridge: Sequence[Exact] | None = None,
        intercept: tuple[int, Sequence[Exact]] | None = None,
    ) -> InformationSystem:
        """Return the system; a singular matrix names its columns.

        Args:
            matrix: I, symmetric, of Python integers or fractions.
            names: of the columns.
            ridge: is added to the diagonal.
            intercept: its place, and what it is in real columns: a factor for each
                coefficient, up to a common one. It may be part of a dependency of real
                columns that none of centred ones shows.
        """
        n = len(names)
        penalty = (
            tuple(map(Fraction, ridge)) if ridge is not None else (Fraction(0),) * n
        )
        table = np.array(matrix, dtype=object)
        if any(penalty):
            table[np.diag_indices(n)] += np.array(penalty, dtype=object)
        empty = [name for k, name in enumerate(names) if not table[k, k] > 0]
        if empty:
            raise InvalidInputError(
                "a column with nothing but zeros has no coefficient: leave out "
                f"{listed_names(empty)}",
                code="zero-column",
            )
        numbers, denominator = over_common_denominator(table.ravel().tolist())
        whole = fmpz_mat(n, n, numbers)
        if not is_regular_system_matrix(whole):
            null, dimension = nmod_mat(whole, PRIME).nullspace()
            parts = [[int(one) for one in part] for part in null.tolist()]
            if intercept is not None:
                place, factors = intercept
                by = over_common_denominator(factors)[0]
                columns = zip(*parts, strict=True)
                parts[place] = [
                    sum(one * part for one, part in zip(by, column, strict=True))
                    % PRIME
                    for column in columns
                ]
            culprits = [
                name for name, part in zip(names, parts, strict=True) if any(part)
            ]
            raise dependent_model_columns(culprits, dimension)
        return cls(whole, denominator, penalty, tuple(names))

    def entry(self, row: int, column: int) -> Fraction:
        return Fraction(int(self.matrix[row, column]), self.denominator)

    def diagonal(self) -> list[Fraction]:
        return [self.entry(k, k) for k in range(len(self.names))]

    def form(self, direction: Vector) -> Fraction:
        numbers, bottom = over_common_denominator(
            [Fraction(one) for one in direction.tolist()]
        )
        along = fmpz_mat(len(numbers), 1, numbers)
        found = (along.transpose() * self.matrix * along)[0, 0]
        return Fraction(int(found), self.denominator * bottom * bottom)

    def balls(self, right: Sequence[Exact]) -> list[arb]:
        """Return A^-1 b in balls, at the precision of flint's context."""
        numbers, denominator = over_common_denominator(right)
        column = arb_mat(fmpz_mat(len(numbers), 1, numbers))
        scale = arb(self.denominator) / denominator
        found = arb_mat(self.matrix).solve(column, algorithm="lu")
        return [one * scale for one in found.entries()]

    def exact(self, right: Sequence[Exact]) -> list[fmpq]:
        """Return A^-1 b in fractions, ten times the work of balls."""
        numbers, denominator = over_common_denominator(right)
        scale = fmpq(self.denominator, denominator)
        found = self.matrix.solve(fmpz_mat(len(numbers), 1, numbers))
        return [one * scale for one in found.entries()]

    def solve(self, right: Sequence[Exact]) -> Vector:
        return nearest_float_solution(
            lambda: self.balls(right), lambda: self.exact(right)
        )

    @cached_property
    def _inverses(self) -> dict[int, arb_mat]:
        return {}

    def inverse_balls(self) -> arb_mat:
        # Kept, since several answers ask for it at the same precision.
        precision = ctx.prec
        if precision not in self._inverses:
            self._inverses[precision] = arb_mat(self.matrix).inv() * self.denominator
        return self._inverses[precision]

    def covariance_balls(self) -> arb_mat:
        """Return A^-1 I A^-1 in balls; without a ridge this is A^-1."""
        inverse = self.inverse_balls()
        if not any(self.ridge):
            return inverse
        # A^-1 (A - ridge) A^-1
        n, penalty = (
            len(self.names),
            [arb(system_number_as_fmpq(one)) for one in self.ridge],
        )
        pairs = zip(penalty * n, inverse.transpose().entries(), strict=True)
        biased = arb_mat(n, n, [one * entry for one, entry in pairs]).transpose()
        return inverse - inverse.transpose() * biased

    def inverse(self) -> Gram:
        return nearest_float_covariances(self.inverse_balls)

    @cached_property
    def degrees(self) -> float:
        """trace(A^-1 I), the coefficients in effect: p without a ridge."""
        if not any(self.ridge):
            return float(len(self.names))

        def balls() -> list[arb]:
            inverse = self.inverse_balls()
            taken = [
                arb(system_number_as_fmpq(one)) * inverse[k, k]
                for k, one in enumerate(self.ridge)
            ]
            return [arb(len(self.names)) - sum(taken, arb(0))]

        return float(nearest_float_solution(balls)[0])

    @cached_property
    def scaled_inverse(self) -> Gram:
        """The inverse of A scaled to a unit diagonal, its least eigenvalue included."""
        roots = np.sqrt(self._diagonal)
        return np.asarray(self.inverse() * np.outer(roots, roots))

    @property
    def _diagonal(self) -> Vector:
        entries = [self.matrix[k, k] for k in range(len(self.names))]
        return np.array([int(one) / self.denominator for one in entries])

    @property
    def condition(self) -> float:
        """The greatest over the least eigenvalue of A scaled to a unit diagonal.

        For information: solving loses nothing, whatever it is.
        """
        n, roots = len(self.names), np.sqrt(self._diagonal)
        entries = [int(one) / self.denominator for one in self.matrix.entries()]
        scaled = np.array(entries).reshape(n, n) / np.outer(roots, roots)
        # The inverse has all digits of the least eigenvalue, and float64 of A has not.
        least = 1.0 / np.linalg.eigvalsh(self.scaled_inverse)[-1]
        return float(np.linalg.eigvalsh(scaled)[-1] / least)


def dependent_model_columns(
    names: Sequence[str], dimension: int, *, ridge: bool = True
) -> InvalidInputError:
    return InvalidInputError(
        f"the columns {listed_names(names)} are linearly dependent, so their "
        "coefficients "
        f"are not determined: leave out {dimension} of them"
        + (" or use ridge" if ridge else ""),
        code="dependent-columns",
    )


def is_regular_system_matrix(matrix: fmpz_mat) -> bool:
    n = matrix.nrows()
    return nmod_mat(matrix, PRIME).rank() == n or matrix.rank() == n


def over_common_denominator(numbers: Sequence[Exact]) -> tuple[list[int], int]:
    bottom = lcm(*{one.denominator for one in numbers})
    if bottom == 1:
        return [int(one) for one in numbers], 1
    return [one.numerator * (bottom // one.denominator) for one in numbers], bottom


def system_number_as_fmpq(number: Exact) -> fmpq:
    return fmpq(number.numerator, number.denominator)


def system_rows_as_balls(lines: Sequence[Sequence[Exact]]) -> arb_mat:
    return arb_mat(
        [[arb(system_number_as_fmpq(one)) for one in line] for line in lines]
    )


# From balls to float64


def nearest_float_solution(
    balls: Callable[[], Sequence[arb]],
    exact: Callable[[], Sequence[fmpq]] | None = None,
) -> Vector:
    """Return the float64 nearest to what each ball encloses.

    Args:
        balls: is called at growing precision, until each has one nearest float64.
        exact: gives fractions where a number is 0, or between two float64, so that no
            precision is enough. Without it such a number is 0, or next to its middle.
    """

    def look() -> tuple[Sequence[arb], list[float | None]]:
        found = balls()
        return found, [_nearest_float_of_ball(one) for one in found]

    looked = None
    for precision in PRECISIONS if exact is None else PRECISIONS[:3]:
        looked = _solve_system_at_precision(precision, look)
        if looked is not None and None not in looked[1]:
            return np.array(looked[1], dtype=np.float64)
    if exact is not None:
        return np.array(
            [_coefficient_quotient(int(one.p), int(one.q)) for one in exact()]
        )
    if looked is None:
        raise NumericalError(UNDETERMINED, code="undetermined")
    return np.array(
        [0.0 if one.contains(0) else _float_of_ball_end(one.mid()) for one in looked[0]]
    )


def nearest_float_covariances(balls: Callable[[], arb_mat]) -> Gram:
    """Return the float64 nearest to each entry of covariances, known as balls.

    What is below `NO_COVARIANCE` beside its variances is 0.
    """

    def look() -> Gram | None:
        found = balls()
        n = found.nrows()
        variances = [_nearest_float_of_ball(found[k, k]) for k in range(n)]
        if None in variances:
            return None
        sizes = np.abs(np.array(variances, dtype=np.float64))
        least = NO_COVARIANCE * np.sqrt(sizes)
        matrix = np.empty((n, n))
        for i in range(n):
            for j in range(i + 1):
                number = _nearest_float_of_ball(found[i, j])
                if number is None:
                    largest = _float_of_ball_end(found[i, j].abs_upper())
                    if largest > least[i] * (least[j] / NO_COVARIANCE):
                        return None
                    number = 0.0
                matrix[i, j] = matrix[j, i] = number
        return matrix

    for precision in PRECISIONS:
        matrix = _solve_system_at_precision(precision, look)
        if matrix is not None:
            return matrix
    raise NumericalError(UNDETERMINED, code="undetermined")


Found = TypeVar("Found")


def _solve_system_at_precision(
    precision: int, look: Callable[[], Found]
) -> Found | None:
    with ctx.workprec(precision):
        try:
            return look()
        except ZeroDivisionError:
            return None


def _nearest_float_of_ball(ball: arb) -> float | None:
    if not ball.is_finite():
        return None
    low, high = _float_of_ball_end(ball.lower()), _float_of_ball_end(ball.upper())
    return low if low == high else None


def _float_of_ball_end(end: arb) -> float:
    mantissa, exponent = map(int, end.man_exp())
    if exponent >= 0:
        return _coefficient_quotient(mantissa << exponent, 1)
    return _coefficient_quotient(mantissa, 1 << -exponent)


def _coefficient_quotient(top: int, bottom: int) -> float:
    try:
        return top / bottom  # of integers: Python rounds it once
    except OverflowError:
        raise NumericalError(
            "a coefficient or its variance is beyond 1e308: give columns in other "
            "units",
            code="result-too-large",
        ) from None


# What regressions check


def ridge_penalties_of_model(
    ridge: float | Sequence[float] | Vector, *, n_columns: int, intercept: int | None
) -> Vector:
    """Return what each squared coefficient costs.

    One number is for every column but the intercept, which is free; a list has one
    number for each column, the intercept too.
    """
    penalty = as_float_vector(ridge, dim=n_columns, what="ridge").copy()
    if (penalty < 0.0).any():
        raise InvalidInputError(
            f"ridge must not be negative, found {penalty.min():g}",
            code="ridge-negative",
        )
    if np.ndim(ridge) == 0 and intercept is not None:
        penalty[intercept] = 0.0
    return penalty


def model_column_names(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...]:
    found = tuple(f"x{k}" for k in range(n_columns)) if names is None else tuple(names)
    if len(found) != n_columns or len(set(found)) != n_columns:
        raise InvalidInputError(
            f"{n_columns} columns need as many different names, found "
            f"{listed_names(found)}",
            code="names-not-different",
        )
    return found


def check_model_intercept(intercept: int | None, n_columns: int) -> None:
    if intercept is not None and not 0 <= intercept < n_columns:
        raise InvalidInputError(
            f"the intercept must be one of the columns 0 to {n_columns - 1}, "
            f"found {intercept}",
            code="intercept-out-of-range",
        )


def check_model_rows(n_rows: float, degrees: float) -> None:
    """Refuse as many coefficients in effect as rows: their scatter is unknown."""
    # Half a row: what is less is the rounding of a sum of whole rows.
    if n_rows - degrees < 0.5:
        raise InvalidInputError(
            f"{degrees:.4g} coefficients need more rows than that, found {n_rows:.0f}: "
            "use more rows, fewer columns, or a greater ridge",
            code="too-few-rows",
        )
