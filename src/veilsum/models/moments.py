"""Means, variances and covariances from one exact sum of whole numbers.

    moments = Moments.unpack(total, measures)   # total of moments_of(table, measures)

Numbers are counted in units that all parties agreed on, the middle of the agreed range
taken off, and counts, their sums and the sums of their products are integers. What is
asked of them is computed in fractions and rounded once: a mean of 1e9 with a scatter of
1 loses nothing, and a constant column has a variance of exactly 0. `Marginals` are what
is left without products of two columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.models.plausible import check_matrix, check_sums
from veilsum.models.rows import Gram
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.fixed_point import as_python_integers
from veilsum.numbers.units import (
    FLOAT_BITS,
    ROW_BITS,
    Counts,
    GramSum,
    Integers,
    Measure,
    products,
    square,
    sum_bits,
    triangle,
)

# Rows that are counted at a time.
BLOCK_ROWS = 2**14


@dataclass(frozen=True)
class Marginals:
    """What rows add up to, column by column.

    Attributes:
        measures: how each column is counted; centres are taken off.
        count: the number of rows.
        shifted: the sums of the columns' counts.
        squares: the sums of their squares.
    """

    measures: tuple[Measure, ...]
    count: int
    shifted: Integers
    squares: Integers

    def __add__(self, other: Marginals) -> Marginals:
        """Return what the rows of both add up to."""
        return Marginals(
            self.measures,
            self.count + other.count,
            self.shifted + other.shifted,
            self.squares + other.squares,
        )

    def check(self, names: Sequence[str], where: str = "") -> None:
        """Refuse sums, and sums of squares, that no rows of these ranges have.

        Args:
            names: of the columns.
            where: the group of the rows, for the error.
        """
        columns = zip(names, self.measures, self.shifted, self.squares, strict=True)
        for name, of, shifted, squares in columns:
            label = f"{name}{where}"
            check_sums(label, int(shifted), self.count, of)
            both = np.array([[self.count, shifted], [shifted, squares]], dtype=object)
            labels = f"rows{where}", label
            check_matrix("squares", both, labels, (1, of.reach), self.count)

    @property
    def sum(self) -> Vector:
        """The columns' sums."""
        pairs = zip(self.measures, self.shifted.tolist(), strict=True)
        return np.array([float((s + self.count * m.centre) * m.unit) for m, s in pairs])

    @property
    def means(self) -> tuple[Fraction, ...]:
        """The columns' means, exact; there must be rows."""
        pairs = zip(self.measures, self.shifted.tolist(), strict=True)
        return tuple((Fraction(s, self.count) + m.centre) * m.unit for m, s in pairs)

    @property
    def mean(self) -> Vector:
        """The columns' means; nan without any rows."""
        if self.count < 1:
            return np.full(len(self.measures), np.nan)
        return np.array([float(one) for one in self.means])

    @property
    def scatters(self) -> tuple[Fraction, ...]:
        """The sums of squares about the columns' means, exact; there must be rows."""
        pairs = zip(self.measures, self._spread.tolist(), strict=True)
        return tuple(Fraction(int(s), self.count) * m.unit**2 for m, s in pairs)

    @property
    def variance(self) -> Vector:
        """The columns' variances over n - 1; nan below two rows, 0 of a constant."""
        if self.count < 2:
            return np.full(len(self.measures), np.nan)
        return np.array([float(one / (self.count - 1)) for one in self.scatters])

    @property
    def standard_deviation(self) -> Vector:
        """The roots of the variances."""
        if self.count < 2:
            return np.full(len(self.measures), np.nan)
        degrees = self.count * (self.count - 1)
        return np.array(
            [
                root(Fraction(int(scatter), degrees)) * one.unit
                for one, scatter in zip(self.measures, self._spread, strict=True)
            ],
            dtype=np.float64,
        )

    @cached_property
    def _spread(self) -> Integers:
        """The sums of squares about the mean, in counts, times the number of rows."""
        found: Integers = self.count * self.squares - self.shifted**2
        return found


@dataclass(frozen=True)
class Moments(Marginals):
    """What rows of k columns add up to, products of two columns too.

    Attributes:
        cross: the sums of products of columns' counts.
    """

    cross: Integers

    @staticmethod
    def size(n_columns: int) -> int:
        """Return the length of the vector: 1 + k + k (k + 1) / 2."""
        return 1 + n_columns + n_columns * (n_columns + 1) // 2

    @staticmethod
    def counts(measures: Sequence[Measure], row_bits: int = ROW_BITS) -> Counts:
        """Return what the vector's numbers count, and in how many bits they fit."""
        units = [one.unit for one in measures]
        widest = max((one.bits for one in measures), default=0)
        bits = sum_bits([widest, widest], row_bits)
        return Counts((Fraction(1), *units, *products(units)), bits)

    @classmethod
    def unpack(cls, total: Integers, measures: Sequence[Measure]) -> Moments:
        """Return the moments in a total; the measures must be those all parties used.

        Raises:
            InvalidInputError: the total is not that of so many columns.
        """
        n_columns = len(measures)
        expected = cls.size(n_columns)
        if total.shape != (expected,):
            raise InvalidInputError(
                f"{n_columns} columns have {expected} moments, "
                f"found shape {total.shape}"
            )
        rows, shifted, products = np.split(total, [1, 1 + n_columns])
        cross = square(products, n_columns)
        return cls(tuple(measures), int(rows.item()), shifted, np.diag(cross), cross)

    def check(self, names: Sequence[str], where: str = "") -> None:
        """Refuse sums, and sums of products, that no rows of these ranges have."""
        super().check(names, where)
        largest = [one.reach for one in self.measures]
        check_matrix("products", self.cross, names, largest, self.count)
        check_matrix(
            "products about the mean", self._scatter, names, largest, self.count**2
        )

    @property
    def covariance(self) -> Gram:
        """The columns' covariances over n - 1; nan below two rows."""
        if self.count < 2:
            return np.full(self.cross.shape, np.nan)
        degrees = self.count * (self.count - 1)
        return np.array(
            [
                [
                    float(Fraction(int(scatter), degrees) * one.unit * other.unit)
                    for other, scatter in zip(self.measures, row, strict=True)
                ]
                for one, row in zip(self.measures, self._scatter, strict=True)
            ]
        )

    @property
    def correlation(self) -> Gram:
        """Pearson's correlations; nan for a constant column and below two rows."""
        found = np.full(self.cross.shape, np.nan)
        for i, j in np.ndindex(found.shape):
            scatter, squares = (
                int(self._scatter[i, j]),
                self._spread[i] * self._spread[j],
            )
            if squares > 0 and self.count > 1:
                size = float(root(Fraction(scatter**2, int(squares))))
                found[i, j] = -size if scatter < 0 else size
        return found

    @cached_property
    def _scatter(self) -> Integers:
        """The sums of products about the mean, times the number of rows."""
        found: Integers = self.count * self.cross - np.outer(self.shifted, self.shifted)
        return found


def moments_of(table: ArrayLike, measures: Sequence[Measure]) -> Integers:
    """Return one party's vector: its row count, sums, and triangle of products.

    Args:
        table: one row per observation, one column per quantity.
        measures: how each column is counted, the same for all parties.

    Raises:
        InvalidInputError: not a table of these columns.
        RangeError: a number is beyond what was agreed, or none at all.
    """
    numbers = _table(table)
    if numbers.shape[1] != len(measures):
        raise InvalidInputError(
            f"there are measures of {len(measures)} columns, and the table has "
            f"{numbers.shape[1]}"
        )
    sums = GramSum(1 + len(measures), max(one.limbs for one in measures))
    wide = any(one.bits > FLOAT_BITS for one in measures)
    for start in range(0, len(numbers), BLOCK_ROWS):
        block = numbers[start : start + BLOCK_ROWS]
        # A column of ones: its products are the row count and the sums.
        counts = [one.whole(block[:, k]) for k, one in enumerate(measures)]
        columns = [np.ones(len(block)), *counts]
        how = as_python_integers if wide else np.float64
        sums.add(np.stack([np.asarray(how(one)) for one in columns], axis=1))
    gram = sums.value
    return np.concatenate([gram[0], triangle(gram[1:, 1:])])


def root(square: Fraction) -> Fraction:
    """Return the square root to 100 bits and more: a float64 of it is rounded once.

    >>> float(root(Fraction(9, 4))), float(root(Fraction(2)))
    (1.5, 1.4142135623730951)
    """
    top, bottom = square.numerator, square.denominator
    shift = max(0, 210 - top.bit_length() + bottom.bit_length())
    whole = isqrt((top << 2 * shift) // bottom)
    # What is cut off must not look like a tie.
    inexact = whole * whole * bottom != top << 2 * shift
    return Fraction(2 * whole + inexact, 2 << shift)


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
