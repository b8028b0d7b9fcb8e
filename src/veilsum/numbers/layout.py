"""The numbers of one masked sum: which statistic is where, in which unit, how wide.

A `Layout` is the only description of a sum. Units, sizes, bits, the list of released
numbers, packing and unpacking follow from it.

>>> moments = Layout((number("rows"), symmetric("gram", (Fraction(1, 10),) * 2, 90)))
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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array
from veilsum.numbers.units import (
    Counts,
    Integers,
    products,
    square,
    sum_bits,
    triangle,
)

ONE = Fraction(1)
# Bits of a count of rows, its sign included.
COUNT_BITS = sum_bits([1])
# Key of numbers that are always 0: they make all sums of a question equally long.
PADDING = ""


@dataclass(frozen=True)
class Statistic:
    """Consecutive numbers of a sum with one meaning.

    Attributes:
        key: name in catalogues, plans and receipts.
        shape: of the array of these numbers; () for a single number.
        units: one for each number that travels.
        bits: width of every total, its sign included.
        symmetric: the array is a symmetric matrix; its lower triangle travels.
        modulus: width of the released residue; None if totals are released whole.
    """

    key: str
    shape: tuple[int, ...]
    units: tuple[Fraction, ...]
    bits: int
    symmetric: bool = False
    modulus: int | None = None

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
                f"{whole.dtype} of shape {whole.shape}"
            )
        return (triangle(whole) if self.symmetric else whole.ravel()).astype(object)

    def restore(self, numbers: Array[Any]) -> Any:
        """Return the array of the numbers that travelled; an int for a single one."""
        if self.shape == ():
            return int(numbers[0])
        if self.symmetric:
            return square(numbers, self.shape[0])
        return numbers.reshape(self.shape)


def number(key: str, unit: Fraction = ONE, bits: int = COUNT_BITS) -> Statistic:
    return Statistic(key, (), (unit,), bits)


def array(
    key: str,
    shape: int | tuple[int, ...],
    unit: Fraction = ONE,
    bits: int = COUNT_BITS,
) -> Statistic:
    whole = (shape,) if isinstance(shape, int) else shape
    return Statistic(key, whole, (unit,) * prod(whole), bits)


def vector(key: str, units: Sequence[Fraction], bits: int) -> Statistic:
    return Statistic(key, (len(units),), tuple(units), bits)


def symmetric(key: str, units: Sequence[Fraction], bits: int) -> Statistic:
    side = len(units)
    return Statistic(key, (side, side), tuple(products(units)), bits, symmetric=True)


def padding(size: int) -> Statistic:
    """Return numbers that are always 0."""
    return Statistic(PADDING, (size,), (ONE,) * size, 1)


@dataclass(frozen=True)
class Layout:
    """The statistics of one sum, in the order in which their numbers travel."""

    statistics: tuple[Statistic, ...]

    def __post_init__(self) -> None:
        keys = [each.key for each in self.statistics if each.key != PADDING]
        if len({*keys}) < len(keys):
            raise InvalidInputError(f"a layout has every key once, found {keys}")

    def __add__(self, other: Layout) -> Layout:
        return Layout((*self.statistics, *other.statistics))

    @cached_property
    def size(self) -> int:
        return sum(each.size for each in self.statistics)

    @cached_property
    def bits(self) -> int:
        return max((each.bits for each in self.statistics), default=1)

    @cached_property
    def counts(self) -> Counts:
        """Units, width and moduli, as masks and plans need them."""
        units = tuple(unit for each in self.statistics for unit in each.units)
        if all(each.modulus is None for each in self.statistics):
            return Counts(units, self.bits)
        whole = 64 * -(-self.bits // 64)
        fields = [(each.size, each.modulus or whole) for each in self.statistics]
        return Counts(units, self.bits, tuple(one for one in fields if one[0]))

    @cached_property
    def released(self) -> dict[str, int]:
        return {
            each.key: each.size
            for each in self.statistics
            if each.size and each.key != PADDING
        }

    @cached_property
    def places(self) -> dict[str, slice]:
        found, start = {}, 0
        for each in self.statistics:
            if each.key != PADDING:
                found[each.key] = slice(start, start + each.size)
            start += each.size
        return found

    def padded(self, size: int) -> Layout:
        """Return the layout with as much padding as a sum of this size needs."""
        return (
            replace(self, statistics=(*self.statistics, padding(size - self.size)))
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
                f"a sum of {[*self.places]} cannot be packed of {[*values]}"
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
                f"{total.shape}"
            )
        return {
            each.key: each.restore(total[self.places[each.key]])
            for each in self.statistics
            if each.key != PADDING
        }
