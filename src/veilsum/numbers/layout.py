"""The numbers of one masked sum: which statistic is where, in which unit, how wide.

A `NumberLayout` is the only description of a sum. Units, sizes, bits, the list of
released numbers, packing and unpacking follow from it.

>>> gram = layout_symmetric("gram", (Fraction(1, 10),) * 2, 90)
>>> moments = NumberLayout((layout_number("rows"), gram))
>>> moments.size, moments.released
(4, {'rows': 1, 'gram': 3})
>>> total = moments.pack(rows=7, gram=np.array([[4, 5], [5, 6]], dtype=object))
>>> total.tolist()
[7, 4, 5, 6]
>>> moments.unpack(total)["gram"].tolist()
[[4, 5], [5, 6]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, log2, prod
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array
from veilsum.numbers.units import (
    Integers,
    UnitCounts,
    UnitMeasure,
    square_of_triangle,
    sum_bits,
    triangle_of_matrix,
    units_of_products,
)

ONE = Fraction(1)
# Bits of a count of rows, its sign included.
COUNT_BITS = sum_bits([1])
# Key of numbers that are always 0: they make all sums of a question equally long.
PADDING = ""


def union_of_columns(*columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return all of several sets of columns, sorted; None if one is not known."""
    if None in columns:
        return None
    return tuple(sorted({name for few in columns for name in few or ()}))


@dataclass(frozen=True)
class RowRange:
    """Public knowledge of one row's contribution to a number.

    Attributes:
        low: the least contribution, in units; None if it has no public bound.
        high: the largest contribution.
        columns: names of the table's columns that it depends on; None if not known.
        most: the largest total of all rows; None if the number of rows decides. A count
            of parties is at most the number of parties.
    """

    low: int | None = None
    high: int | None = None
    columns: tuple[str, ...] | None = None
    most: int | None = None

    def __mul__(self, other: RowRange) -> RowRange:
        """Return the range of the product of two contributions."""
        columns = union_of_columns(self.columns, other.columns)
        some, others = (self.low, self.high), (other.low, other.high)
        ends = [a * b for a in some for b in others if not (a is None or b is None)]
        if len(ends) < len(some) * len(others):
            return RowRange(columns=columns)
        return RowRange(min(ends), max(ends), columns)

    def squared(self) -> RowRange:
        """Return the range of the contribution's square."""
        found = self * self
        if found.low is None or self.low is None or self.low >= 0:
            return found
        return replace(found, low=max(found.low, 0))

    def scaled(self, low: Fraction, high: Fraction) -> RowRange:
        """Return the range of the contribution times a number between two ends."""
        assert self.low is not None
        assert self.high is not None
        ends = [one * by for one in (self.low, self.high) for by in (low, high)]
        return replace(self, low=floor(min(ends)), high=ceil(max(ends)))

    def bits(self, rows: int, width: int) -> float:
        """Return log2 of the number of values that a total over rows can have.

        Args:
            rows: largest number of rows in the total.
            width: bits of the total, its sign included; the bound where the
                contribution has none.
        """
        if self.most is not None:
            return min(log2(self.most + 1), float(width))
        if self.low is None or self.high is None:
            return float(width)
        return min(log2(rows * (self.high - self.low) + 1), float(width))


# Contribution of a row to a count of rows.
COUNTED = RowRange(0, 1)


def count_range_of_columns(*columns: str) -> RowRange:
    """Return the range of a count of rows that depends on these columns."""
    return RowRange(0, 1, tuple(sorted(columns)))


def centred_range_of_measure(measure: UnitMeasure) -> RowRange:
    """Return the range of a measured column, its centre subtracted."""
    low, high = measure.least - measure.centre, measure.most - measure.centre
    return RowRange(low, high, measure.columns)


def range_within_bits(bits: int, columns: tuple[str, ...] | None = None) -> RowRange:
    """Return the range of numbers with an absolute value of at most 2^bits."""
    return RowRange(-(1 << bits), 1 << bits, columns)


@dataclass(frozen=True)
class LayoutStatistic:
    """Consecutive numbers of a sum with one meaning.

    Attributes:
        key: name in catalogues, plans and receipts.
        shape: of the array of these numbers; () for a single number.
        units: one for each number that travels.
        bits: width of every total, its sign included.
        symmetric: the array is a symmetric matrix; its lower triangle travels.
        modulus: width of the released residue; None if totals are released whole.
        ranges: of one row's contribution to each number. Empty if nothing is known
            about them.
        residues: released bits of each number; 0 for those that are released as
            `modulus` says. Empty if that is all of them.
    """

    key: str
    shape: tuple[int, ...]
    units: tuple[Fraction, ...]
    bits: int
    symmetric: bool = False
    modulus: int | None = None
    ranges: tuple[RowRange, ...] = field(default=(), compare=False, repr=False)
    residues: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.ranges and len(self.ranges) != self.size:
            raise InvalidInputError(
                f"{self.key!r} needs {self.size} ranges, found {len(self.ranges)}",
                code="wrong-range-count",
            )

    def row_ranges(self) -> list[RowRange]:
        """Return the range of one row's contribution to each number that travels."""
        return [*self.ranges] or [RowRange()] * self.size

    @property
    def size(self) -> int:
        return len(self.units)

    def flatten(self, values: Any) -> Integers:
        """Return an array of this statistic as the Python integers that travel.

        Raises:
            InvalidInputError: the array has another shape, or other numbers.
        """
        whole = np.asarray(values)
        if whole.shape != self.shape or (whole.size and whole.dtype.kind not in "iuO"):
            raise InvalidInputError(
                f"{self.key!r} has whole numbers of shape {self.shape}, found "
                f"{whole.dtype} of shape {whole.shape}",
                code="layout-shape-differs",
            )
        return (triangle_of_matrix(whole) if self.symmetric else whole.ravel()).astype(
            object
        )

    def restore(self, numbers: Array[Any]) -> Any:
        """Return the array of the numbers that travelled; an int for a single one."""
        if self.shape == ():
            return int(numbers[0])
        if self.symmetric:
            return square_of_triangle(numbers, self.shape[0])
        return numbers.reshape(self.shape)


def layout_number(
    key: str,
    unit: Fraction = ONE,
    bits: int = COUNT_BITS,
    row_range: RowRange | None = None,
) -> LayoutStatistic:
    return layout_array(key, (), unit, bits, row_range)


def layout_array(
    key: str,
    shape: int | tuple[int, ...],
    unit: Fraction = ONE,
    bits: int = COUNT_BITS,
    row_range: RowRange | None = None,
) -> LayoutStatistic:
    """Return an array of numbers with one unit; by default counts of rows.

    Args:
        key: name of the statistic.
        shape: of the array.
        unit: of every number.
        bits: width of every total, its sign included.
        row_range: range of one row's contribution to every number. By default 0 to 1
            for counts of rows, and unbounded for other numbers.
    """
    whole = (shape,) if isinstance(shape, int) else shape
    if row_range is None and (unit, bits) == (ONE, COUNT_BITS):
        row_range = COUNTED
    size = prod(whole)
    ranges = () if row_range is None else (row_range,) * size
    return LayoutStatistic(key, whole, (unit,) * size, bits, ranges=ranges)


def layout_vector(
    key: str, units: Sequence[Fraction], bits: int, ranges: Sequence[RowRange] = ()
) -> LayoutStatistic:
    return LayoutStatistic(key, (len(units),), tuple(units), bits, ranges=tuple(ranges))


def layout_symmetric(
    key: str, units: Sequence[Fraction], bits: int, ranges: Sequence[RowRange] = ()
) -> LayoutStatistic:
    side, both = len(units), tuple(units_of_products(units))
    return LayoutStatistic(
        *(key, (side, side), both, bits),
        symmetric=True,
        ranges=ranges_of_products(ranges),
    )


def ranges_of_products(ranges: Sequence[RowRange]) -> tuple[RowRange, ...]:
    """Return ranges of the products of two columns: a lower triangle, row by row."""
    found = []
    for k, one in enumerate(ranges):
        found += [one * other for other in ranges[:k]]
        found.append(one.squared())
    return tuple(found)


def layout_padding(size: int) -> LayoutStatistic:
    """Return numbers that are always 0."""
    return LayoutStatistic(PADDING, (size,), (ONE,) * size, 1)


@dataclass(frozen=True)
class NumberLayout:
    """The statistics of one sum, in the order in which their numbers travel."""

    statistics: tuple[LayoutStatistic, ...]

    def __post_init__(self) -> None:
        keys = [each.key for each in self.statistics if each.key != PADDING]
        if len({*keys}) < len(keys):
            raise InvalidInputError(
                f"a layout has every key once, found {keys}", code="duplicate-key"
            )

    def __add__(self, other: NumberLayout) -> NumberLayout:
        return NumberLayout((*self.statistics, *other.statistics))

    @cached_property
    def size(self) -> int:
        return sum(each.size for each in self.statistics)

    @cached_property
    def bits(self) -> int:
        """Width of the widest total, its sign included."""
        return max((each.bits for each in self.statistics), default=1)

    @cached_property
    def counts(self) -> UnitCounts:
        """Units, width and moduli, as masks and plans need them."""
        units = tuple(unit for each in self.statistics for unit in each.units)
        if all(each.modulus is None for each in self.statistics):
            return UnitCounts(units, self.bits)
        whole = 64 * -(-self.bits // 64)
        fields = [(each.size, each.modulus or whole) for each in self.statistics]
        return UnitCounts(units, self.bits, tuple(one for one in fields if one[0]))

    @cached_property
    def released(self) -> dict[str, int]:
        return {
            each.key: each.size
            for each in self.statistics
            if each.size and each.key != PADDING
        }

    def charges(self, rows: int) -> dict[tuple[str, ...] | None, float]:
        """Return the released bits by the columns that the numbers depend on.

        A total over rows has rows x (range of one row) + 1 values at most, and a total
        modulo 2^b has at most 2^b, whatever it carries. Numbers with unknown columns
        are under None.

        Args:
            rows: largest number of rows in the sum, rows left out included.
        """
        found: dict[tuple[str, ...] | None, float] = {}
        for each in self.statistics:
            if each.key == PADDING:
                continue
            width = each.bits if each.modulus is None else each.modulus
            residues = each.residues or (0,) * each.size
            for one, residue in zip(each.row_ranges(), residues, strict=True):
                bits = one.bits(rows, residue or width)
                found[one.columns] = found.get(one.columns, 0.0) + bits
        return found

    @cached_property
    def places(self) -> dict[str, slice]:
        found, start = {}, 0
        for each in self.statistics:
            if each.key != PADDING:
                found[each.key] = slice(start, start + each.size)
            start += each.size
        return found

    def with_residues(self, bits: Sequence[int]) -> NumberLayout:
        """Return the layout with the released bits of each number; 0 if it is whole."""
        found, start = [], 0
        for each in self.statistics:
            residues = tuple(bits[start : start + each.size])
            found.append(replace(each, residues=residues))
            start += each.size
        return NumberLayout(tuple(found))

    def padded(self, size: int) -> NumberLayout:
        """Return the layout with as much padding as a sum of this size needs."""
        return (
            replace(
                self, statistics=(*self.statistics, layout_padding(size - self.size))
            )
            if size > self.size
            else self
        )

    def pack(self, **values: Any) -> Integers:
        """Return one vector of all statistics, given by key.

        Raises:
            InvalidInputError: a statistic is missing, unknown or of another shape.
        """
        if values.keys() != self.places.keys():
            raise InvalidInputError(
                f"a sum of {[*self.places]} cannot be packed of {[*values]}",
                code="layout-keys-differ",
            )
        parts = [
            np.zeros(each.size, dtype=object)
            if each.key == PADDING
            else each.flatten(values[each.key])
            for each in self.statistics
        ]
        return np.concatenate([np.empty(0, dtype=object), *parts])

    def unpack(self, total: Array[Any]) -> dict[str, Any]:
        """Return every statistic of a total by key, in its shape.

        Raises:
            InvalidInputError: the total has another number of numbers.
        """
        if total.shape != (self.size,):
            raise InvalidInputError(
                f"a sum of {[*self.places]} has {self.size} numbers, found shape "
                f"{total.shape}",
                code="layout-size-differs",
            )
        return {
            each.key: each.restore(total[self.places[each.key]])
            for each in self.statistics
            if each.key != PADDING
        }
