"""Means, variances and covariances from one sum, or from two.

    first = Moments.unpack(total, k)               # total of moments_of(table)
    again = Moments.unpack(total, k, first.mean)   # of moments_of(table, first.mean)

Squares about zero lose what numbers have in common: with a mean of 1e9 and a scatter of
1 the squares agree in 18 digits, float64 has 16, and nothing is left of the variance.
Squares about the mean lose nothing, but the mean has to be known first, and becomes
public. So a second pass with the first one's mean as the centre mends it;
`Moments.condition` says whether one is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from veilsum.costs.bases import smat, svec
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.rows import Gram, Sums, gram
from veilsum.numbers.arrays import FloatArray, Vector, as_vector

# A scatter below this much of the squares is their rounding: the column is constant, or
# its variance was lost with at most four digits left of it.
CONSTANT = 1e-12

# Equal numbers added one by one round the same way; short blocks keep that below 1e-13.
BLOCK_ROWS = 2**14


@dataclass(frozen=True)
class Moments:
    """What rows of k columns add up to, about a centre known to all.

    Attributes:
        centre: what was taken off every row.
        rows: the number of rows, as it was summed.
        shifted: the sums of the columns less the centre.
        cross: the sums of products of columns less the centre.
    """

    centre: Vector
    rows: float
    shifted: Vector
    cross: Gram

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: 1 + k + k (k + 1) / 2."""
        return 1 + n_columns + n_columns * (n_columns + 1) // 2

    @classmethod
    def unpack(
        cls, total: Sums, n_columns: int, centre: ArrayLike | None = None
    ) -> Moments:
        """Return the moments in a total; the centre must be the one all parties used.

        Raises:
            InvalidInputError: the total is not that of so many columns.
            NumericalError: the total holds nan or inf.
        """
        expected = cls.size(n_columns)
        if total.shape != (expected,):
            raise InvalidInputError(
                f"{n_columns} columns have {expected} moments, "
                f"found shape {total.shape}"
            )
        if not np.isfinite(total).all():
            raise NumericalError("a total holds nan or inf: the sum went wrong")
        rows, shifted, triangle = np.split(total, [1, 1 + n_columns])
        about = _centre(centre, n_columns)
        return cls(about, rows.item(), shifted, smat(triangle, n_columns))

    @property
    def count(self) -> int:
        """The number of rows."""
        return round(self.rows)

    @property
    def sum(self) -> Vector:
        """The columns' sums."""
        return self.shifted + self.count * self.centre

    @property
    def mean(self) -> Vector:
        """The columns' means; nan without any rows."""
        if self.count < 1:
            return np.full_like(self.centre, np.nan)
        return self.centre + self.shifted / self.count

    @property
    def variance(self) -> Vector:
        """The columns' variances over n - 1; nan below two rows, 0 of a constant."""
        return np.diag(self.covariance).copy()

    @property
    def standard_deviation(self) -> Vector:
        """The roots of the variances."""
        return np.sqrt(self.variance)

    @property
    def covariance(self) -> Gram:
        """The columns' covariances over n - 1; nan below two rows."""
        if self.count < 2:
            return np.full_like(self.cross, np.nan)
        return self._scatter / (self.count - 1)

    @property
    def correlation(self) -> Gram:
        """Pearson's correlations; nan for a constant column and below two rows."""
        if self.count < 2:
            return np.full_like(self.cross, np.nan)
        lengths = np.sqrt(np.diag(self._scatter))
        lengths[lengths == 0.0] = np.nan
        cosines = np.clip(self._scatter / np.outer(lengths, lengths), -1.0, 1.0)
        np.fill_diagonal(cosines, np.where(np.isnan(lengths), np.nan, 1.0))
        return cosines

    @property
    def condition(self) -> Vector:
        """Squares about the centre over squares about the mean, column by column.

        About log10(1e16 / condition) digits of a variance are right: all of them near
        1, none at inf, where the column is constant or its variance was lost.
        """
        squares, scatter = np.diag(self.cross), np.diag(self._scatter)
        lost = np.where(squares > 0.0, np.inf, 1.0)
        return np.divide(squares, scatter, out=lost, where=scatter > 0.0)

    @cached_property
    def _scatter(self) -> Gram:
        """The sums of products about the mean; what is rounding is exactly zero."""
        common = np.outer(self.shifted, self.shifted) / max(self.count, 1)
        scatter = self.cross - common
        constant = np.diag(scatter) <= CONSTANT * np.diag(self.cross)
        scatter[constant, :] = 0.0
        scatter[:, constant] = 0.0
        return scatter


def moments_of(table: ArrayLike, centre: ArrayLike | None = None) -> Sums:
    """Return one party's vector: its row count, sums and svec of cross products.

    Args:
        table: one row per observation, one column per quantity.
        centre: one public number for each column, the same for all parties; zeros if
            none are given.

    Raises:
        InvalidInputError: not a table, or numbers that cannot be added up.
    """
    numbers = _table(table)
    n_columns = numbers.shape[1]
    about = _centre(centre, n_columns)
    sums, cross = np.zeros(n_columns), np.zeros((n_columns, n_columns))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(numbers), BLOCK_ROWS):
            # Column after column: numpy then adds in pairs and rounds less.
            block = np.subtract(numbers[start : start + BLOCK_ROWS], about, order="F")
            sums, cross = sums + block.sum(axis=0), cross + gram(block, None)
    vector = np.concatenate([[float(len(numbers))], sums, svec(cross)])
    if not np.isfinite(vector).all():
        raise InvalidInputError(
            "a table must hold finite numbers whose squares can be added up, found "
            "nan, inf or numbers beyond 1e150: leave out rows with missing values"
        )
    return vector


def _table(values: ArrayLike) -> FloatArray:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"a table must hold numbers: {error}") from None
    if table.ndim != 2 or table.shape[1] == 0:
        raise InvalidInputError(
            "expected a table of rows with at least one column, "
            f"found shape {table.shape}"
        )
    return table


def _centre(centre: ArrayLike | None, n_columns: int) -> Vector:
    if centre is None:
        return np.zeros(n_columns)
    return as_vector(centre, dim=n_columns, what="the centre")
