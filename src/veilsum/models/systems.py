"""Symmetric systems A x = b of regressions: scaled, checked, then solved.

Columns in metres and in millions of euros give a matrix that looks singular and is not.
So A is scaled to a unit diagonal first, S = D A D with D = diag(A)^(-1/2), and both the
rank and the solution come from S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky

from veilsum.errors import InvalidInputError
from veilsum.models.rows import Gram
from veilsum.numbers.arrays import FloatArray, Vector, as_vector, listed

# Columns are dependent when an eigenvalue of S is at most this much of the greatest:
# then some column is a combination of others to 1e-6 of its size, and an answer from
# float64 sums would have four digits at best.
RANK_TOLERANCE = 1e-12

# A dependency names the columns that have at least this share in it. A category with
# one row in a million has a share of 1e-3; rounding stays below 1e-8.
SHARE = 1e-5


@dataclass(frozen=True)
class System:
    """A positive definite A with S = D A D factored as L L'.

    Attributes:
        scale: the diagonal of D.
        factor: L.
        condition: the greatest over the least eigenvalue of S. About
            log10(1e16 / condition) digits of a solution are right.
    """

    scale: Vector
    factor: Gram
    condition: float

    @classmethod
    def of(cls, matrix: Gram, *, names: Sequence[str]) -> System:
        """Return the factored system; a singular matrix names its columns."""
        diagonal = np.diag(matrix)
        sizes = zip(names, diagonal, strict=True)
        empty = [name for name, size in sizes if not size > 0]
        if empty:
            raise InvalidInputError(
                "a column with nothing but zeros has no coefficient: leave out "
                f"{listed(empty)}"
            )
        scale = 1.0 / np.sqrt(diagonal)
        scaled = matrix * np.outer(scale, scale)
        values, vectors = np.linalg.eigh(scaled)
        null = vectors[:, values <= RANK_TOLERANCE * values[-1]]
        if null.size:
            shares = zip(names, np.linalg.norm(null, axis=1), strict=True)
            found = [name for name, share in shares if share > SHARE]
            raise InvalidInputError(
                f"the columns {listed(found)} are linearly dependent, so their "
                f"coefficients are not determined: leave out {null.shape[1]} of them "
                "or use ridge"
            )
        return cls(scale, cholesky(scaled, lower=True), float(values[-1] / values[0]))

    def solve(self, right: FloatArray) -> FloatArray:
        """Return A^-1 b = D S^-1 D b for a vector or for the columns of a matrix."""
        scale = self.scale if right.ndim == 1 else self.scale[:, None]
        return scale * cho_solve((self.factor, True), scale * right)

    def inverse(self) -> Gram:
        """Return A^-1, exactly symmetric."""
        inverse = self.solve(np.eye(len(self.scale)))
        return (inverse + inverse.T) / 2.0


def uncertainty(
    system: System, information: Gram, penalty: Vector
) -> tuple[Gram, float]:
    """Return A^-1 I A^-1 and trace(A^-1 I); without a ridge these are I^-1 and p."""
    inverse = system.inverse()
    if not penalty.any():
        return inverse, float(len(penalty))
    hat = inverse @ information
    sandwich = hat @ inverse
    return (sandwich + sandwich.T) / 2.0, float(np.trace(hat))


def penalties(
    ridge: float | Sequence[float] | Vector, *, n_columns: int, intercept: int | None
) -> Vector:
    """Return what each squared coefficient costs.

    One number is for every column but the intercept, which is free; a list has one
    number for each column, the intercept too.
    """
    penalty = as_vector(ridge, dim=n_columns, what="ridge").copy()
    if (penalty < 0.0).any():
        raise InvalidInputError(f"ridge must not be negative, found {penalty.min():g}")
    if np.ndim(ridge) == 0 and intercept is not None:
        penalty[intercept] = 0.0
    return penalty


def column_names(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...]:
    """Return the names to use in answers: those given, or x0, x1 and so on."""
    found = tuple(f"x{k}" for k in range(n_columns)) if names is None else tuple(names)
    if len(found) != n_columns or len(set(found)) != n_columns:
        raise InvalidInputError(
            f"{n_columns} columns need as many different names, found {listed(found)}"
        )
    return found


def check_intercept(intercept: int | None, n_columns: int) -> None:
    """Refuse the place of an intercept that is no column."""
    if intercept is not None and not 0 <= intercept < n_columns:
        raise InvalidInputError(
            f"the intercept must be one of the columns 0 to {n_columns - 1}, "
            f"found {intercept}"
        )


def check_rows(n_rows: float, degrees: float) -> None:
    """Refuse as many coefficients in effect as rows: their scatter is unknown."""
    # Half a row: what is less is the rounding of a sum of whole rows.
    if n_rows - degrees < 0.5:
        raise InvalidInputError(
            f"{degrees:.4g} coefficients need more rows than that, found {n_rows:.0f}: "
            "use more rows, fewer columns, or a greater ridge"
        )
