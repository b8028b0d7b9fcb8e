"""Means, variances and covariances from one exact sum of whole numbers.

    moments = Moments.unpack(total, measures)   # total of moments_of(table, measures)

Numbers are counted in units that all parties agreed on, the middle of the agreed range
taken off, and counts, their sums and the sums of their products are integers. What is
asked of them is computed in fractions and rounded once: a mean of 1e9 with a scatter of
1 loses nothing, and a constant column has a variance of exactly 0. `MarginalMoments`
are what is left without products of two columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.models.plausible import check_plausible_matrix, check_plausible_sums
from veilsum.models.rows import Gram
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.layout import (
    NumberLayout,
    centred_range_of_measure,
    count_range_of_columns,
    layout_number,
    layout_symmetric,
    layout_vector,
)
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.units import (
    FLOAT_BITS,
    GramSum,
    Integers,
    UnitMeasure,
    sum_bits,
)

# Rows that are counted at a time.
BLOCK_ROWS = 2**14
# Bits of a limb, of two of which a count is made where they suffice.
_LIMB = 20


@dataclass(frozen=True)
class MarginalMoments:
    """Sums of rows, column by column; each column may have rows of its own.

    Attributes:
        measures: unit and range of each column; centres are taken off.
        rows: the number of rows of each column.
        shifted: the sums of the columns' counts.
        squares: the sums of their squares.
    """

    measures: tuple[UnitMeasure, ...]
    rows: tuple[int, ...]
    shifted: Integers
    squares: Integers

    def __add__(self, other: MarginalMoments) -> MarginalMoments:
        return MarginalMoments(
            self.measures,
            tuple(a + b for a, b in zip(self.rows, other.rows, strict=True)),
            self.shifted + other.shifted,
            self.squares + other.squares,
        )

    def check(self, names: Sequence[str], where: str = "") -> None:
        """Refuse sums, and sums of squares, that no rows of these ranges have."""
        for name, (of, count, shifted, squares) in zip(names, self._each, strict=True):
            label = f"{name}{where}"
            check_plausible_sums(label, shifted, count, of)
            both = np.array([[count, shifted], [shifted, squares]], dtype=object)
            labels = f"rows{where}", label
            check_plausible_matrix("squares", both, labels, (1, of.reach), count)

    @property
    def _each(self) -> list[tuple[UnitMeasure, int, int, int]]:
        sums = self.shifted.tolist(), self.squares.tolist()
        return list(zip(self.measures, self.rows, *sums, strict=True))

    @property
    def sum(self) -> Vector:
        return np.array(
            [float((s + n * m.centre) * m.unit) for m, n, s, _ in self._each]
        )

    @cached_property
    def means(self) -> tuple[Fraction, ...]:
        return tuple(
            (Fraction(s, n) + m.centre) * m.unit if n else Fraction(0)
            for m, n, s, _ in self._each
        )

    @property
    def mean(self) -> Vector:
        pairs = zip(self.rows, self.means, strict=True)
        return np.array([float(mean) if n else np.nan for n, mean in pairs])

    @cached_property
    def scatters(self) -> tuple[Fraction, ...]:
        """The sums of squares about the columns' means, exact; 0 without rows."""
        return tuple(
            Fraction(n * q - s**2, n) * m.unit**2 if n else Fraction(0)
            for m, n, s, q in self._each
        )

    @property
    def variance(self) -> Vector:
        """The columns' variances over n - 1; nan below two rows, 0 of a constant."""
        pairs = zip(self.rows, self.scatters, strict=True)
        return np.array([float(one / (n - 1)) if n > 1 else np.nan for n, one in pairs])

    @property
    def standard_deviation(self) -> Vector:
        return np.array(
            [
                float(exact_square_root(Fraction(n * q - s**2, n * (n - 1))) * m.unit)
                if n > 1
                else np.nan
                for m, n, s, q in self._each
            ],
            dtype=np.float64,
        )


@dataclass(frozen=True)
class Moments(MarginalMoments):
    """Sums over rows of k columns, and of products of two columns.

    Attributes:
        cross: the sums of products of columns' counts.
    """

    cross: Integers

    @staticmethod
    def layout(measures: Sequence[UnitMeasure]) -> NumberLayout:
        """Return the layout of a sum: rows, sums and products of columns."""
        units = [one.unit for one in measures]
        widest = max((one.bits for one in measures), default=0)
        single, double = sum_bits([widest]), sum_bits([widest] * 2)
        ranges = [centred_range_of_measure(one) for one in measures]
        rows = layout_number(
            "rows", bits=sum_bits([0]), row_range=count_range_of_columns()
        )
        return NumberLayout(
            (
                rows,
                layout_vector("column_sums", units, single, ranges),
                layout_symmetric("column_products", units, double, ranges),
            )
        )

    @classmethod
    def unpack(cls, total: Integers, measures: Sequence[UnitMeasure]) -> Moments:
        """Return the moments in a total; the measures must be those all parties used.

        Raises:
            InvalidInputError: the total is not that of so many columns.
        """
        return cls.from_parts(cls.layout(measures).unpack(total), measures)

    @classmethod
    def from_parts(
        cls, parts: Mapping[str, Any], measures: Sequence[UnitMeasure]
    ) -> Moments:
        cross = parts["column_products"]
        rows = (parts["rows"],) * len(measures)
        return cls(tuple(measures), rows, parts["column_sums"], np.diag(cross), cross)

    @property
    def count(self) -> int:
        return self.rows[0]

    def check(self, names: Sequence[str], where: str = "") -> None:
        """Refuse sums, and sums of products, that no rows of these ranges have."""
        super().check(names, where)
        largest = [one.reach for one in self.measures]
        check_plausible_matrix("products", self.cross, names, largest, self.count)
        check_plausible_matrix(
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
            scatter = int(self._scatter[i, j])
            squares = self._scatter[i, i] * self._scatter[j, j]
            if squares > 0 and self.count > 1:
                size = float(exact_square_root(Fraction(scatter**2, int(squares))))
                found[i, j] = -size if scatter < 0 else size
        return found

    @cached_property
    def _scatter(self) -> Integers:
        """The sums of products about the mean, times the number of rows."""
        found: Integers = self.count * self.cross - np.outer(self.shifted, self.shifted)
        return found


def moments_of(table: ArrayLike, measures: Sequence[UnitMeasure]) -> Integers:
    """Return one party's vector: its row count, sums, and triangle of products.

    Args:
        table: one row per observation, one column per quantity.
        measures: how each column is counted, the same for all parties.

    Raises:
        InvalidInputError: not a table of these columns.
        RangeError: a number is beyond what was agreed, or none at all.
    """
    numbers = _moments_table(table)
    if numbers.shape[1] != len(measures):
        raise InvalidInputError(
            f"there are measures of {len(measures)} columns, and the table has "
            f"{numbers.shape[1]}",
            code="wrong-column-count",
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
    return Moments.layout(measures).pack(
        rows=gram[0, 0], column_sums=gram[0, 1:], column_products=gram[1:, 1:]
    )


def marginal_moments_of(
    values: ArrayLike, measure: UnitMeasure
) -> tuple[int, int, int]:
    """Return the number of some values, their sum and the sum of their squares.

    Sums are of counts. Integers of 64 bits are exact below 2^22 rows, each count being
    split in two limbs of 20 bits; others take the way of `moments_of`.
    """
    column = np.asarray(values, dtype=np.float64)
    if measure.bits > 2 * _LIMB or len(column) >= 1 << (62 - 2 * _LIMB):
        n, total, squares = moments_of(column[:, None], [measure]).tolist()
        return n, total, squares
    counts = measure.whole(column).astype(np.int64)
    high, low = counts >> _LIMB, counts & ((1 << _LIMB) - 1)
    squares = int(high @ high) << 2 * _LIMB
    squares += (int(high @ low) << _LIMB + 1) + int(low @ low)
    return len(counts), int(counts.sum()), squares


def exact_square_root(square: Fraction) -> Fraction:
    """Return the square root to 100 bits and more: a float64 of it is rounded once.

    >>> float(exact_square_root(Fraction(9, 4))), float(exact_square_root(Fraction(2)))
    (1.5, 1.4142135623730951)
    """
    top, bottom = square.numerator, square.denominator
    shift = max(0, 210 - top.bit_length() + bottom.bit_length())
    whole = isqrt((top << 2 * shift) // bottom)
    # What is cut off must not look like a tie.
    inexact = whole * whole * bottom != top << 2 * shift
    return Fraction(2 * whole + inexact, 2 << shift)


def _moments_table(values: ArrayLike) -> FloatArray:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"a table must hold numbers: {error}", code="not-numbers"
        ) from None
    if table.ndim != 2 or table.shape[1] == 0:
        raise InvalidInputError(
            "expected a table of rows with at least one column, "
            f"found shape {table.shape}",
            code="wrong-shape",
        )
    return table
