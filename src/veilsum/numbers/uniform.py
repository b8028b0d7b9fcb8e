"""Uniform masks: a masked number alone says nothing, and only sums can be read.

A residue has one word of 64 bits, or three of them. One word is what a sum of declared
range needs; three hold anything float64 statistics come to, from 2^-96 to 2^94, so that
nobody has to guess a range. Their numbers are Python integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from veilsum.errors import InvalidInputError, RangeError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, as_floats
from veilsum.numbers.fixed_point import (
    WORD_BITS,
    Grid,
    as_python_integers,
    check_range,
    check_sum_fits,
    summing_bits,
)
from veilsum.numbers.shapes import Shaped
from veilsum.numbers.streams import Stream

Numbers = Shaped[Array[Any], " p"]
NumberRows = Shaped[Array[Any], "*batch p"]

WIDE_WORDS = 3
WIDE_GRID = 96


@dataclass(frozen=True)
class UniformMasks:
    """Uniform residues modulo 2^64, or 2^192: a masked number alone says nothing.

    Sums of masked numbers are exact as long as the true sum fits, which is checked from
    the number of parties and the declared range.

    Attributes:
        grid: what a residue counts.
        n_parties: how many numbers are summed.
        largest: the declared range of one party's numbers.
        words: 64-bit words of a residue.
        whole: whether values are integers, and their sums are to be so.
    """

    grid: Grid
    n_parties: int
    largest: float | None = None
    words: int = 1
    whole: bool = False
    name: Literal["uniform"] = field(default="uniform", init=False)

    def __post_init__(self) -> None:
        check_sum_fits(
            bits=self.grid.bits - self._more,
            n_parties=self.n_parties,
            largest=self.largest,
        )

    @classmethod
    def on(
        cls,
        topology: Topology,
        *,
        bits: int | None = None,
        largest: float | None = None,
    ) -> UniformMasks:
        """Return the law for a network; without `bits` the finest grid that fits."""
        n = topology.n_parties
        reach = None if largest is None else checked_largest(largest)
        chosen = summing_bits(n_parties=n, largest=reach) if bits is None else bits
        return cls(Grid(chosen), n, reach)

    @classmethod
    def wide(cls, topology: Topology, *, largest: float | None = None) -> UniformMasks:
        """Return the law that needs no range: three words, a grid of 2^-96."""
        reach = None if largest is None else checked_largest(largest)
        return cls(Grid(WIDE_GRID), topology.n_parties, reach, words=WIDE_WORDS)

    @classmethod
    def integers(
        cls, topology: Topology, *, wide: bool = False, largest: float | None = None
    ) -> UniformMasks:
        """Return the law for sums of integers, exact to the last unit."""
        n, reach = topology.n_parties, None
        if largest is not None:
            reach = checked_largest(largest)
            wide = wide or n * reach > 2.0**WORD_BITS
        return cls(Grid(0), n, reach, words=WIDE_WORDS if wide else 1, whole=True)

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint64, or Python integers."""
        return np.dtype(np.uint64 if self.words == 1 else object)

    @property
    def number_bytes(self) -> int:
        """Eight for each word."""
        return 8 * self.words

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return random words; there is no more or less of noise to weigh."""
        del weight
        words = stream.words(self.words * size)
        if self.words == 1:
            return words
        parts = [as_python_integers(part) for part in words.reshape(self.words, size)]
        shifts = range(0, 64 * self.words, 64)
        joined = [part << shift for part, shift in zip(parts, shifts, strict=True)]
        return self.wrap(np.sum(joined, axis=0))

    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return each coefficient's nearest grid point as a residue."""
        whole = self._whole(values) if self.whole else None
        self._check_range(values, labels)
        points = self.grid.quantise(values) if whole is None else whole
        if self.words == 1:
            return points.astype(np.int64).view(np.uint64)
        return as_python_integers(points) if points.dtype != object else points

    def decode(self, numbers: NumberRows) -> NumberRows:
        """Return a sum of all parties' numbers, masks having cancelled."""
        if self.words == 1:
            signed = np.ascontiguousarray(numbers).view(np.int64)
        else:
            signed = self.wrap(numbers)
        return signed if self.whole else self.grid.to_floats(signed)

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return the residues; 64-bit words wrap around by themselves.

        Unreduced, a sum of residues would show how it came about.
        """
        if self.words == 1:
            return numbers
        half = 1 << (64 * self.words - 1)
        return np.asarray((numbers + half) % (2 * half) - half)

    def _check_range(self, values: NumberRows, labels: Sequence[str] | None) -> None:
        try:
            check_range(values.astype(np.float64), self._reach(), labels)
        except OverflowError:
            raise RangeError("an integer is beyond 1e308: leave it out") from None
        except RangeError as error:
            if self.largest is not None:
                raise
            # No wider range can be declared than what the words hold.
            way_out = "scale it" if not self.whole else "sum with wide = True"
            if self.whole and self.words > 1:
                way_out = "leave it out"
            told = (
                f"{text.partition('; correct the value')[0]}; correct the value, or "
                f"{way_out}"
                for text in (str(error), error.plain)
            )
            raise RangeError(next(told), plain=next(told)) from None

    @property
    def _more(self) -> int:
        """How many bits there are beyond the first word."""
        return 64 * (self.words - 1)

    def _reach(self) -> float:
        fits = 2.0 ** (WORD_BITS + self._more - self.grid.bits) / self.n_parties
        return fits if self.largest is None else min(self.largest, fits)

    @staticmethod
    def _whole(values: NumberRows) -> NumberRows:
        """Return integers as they are; refuse what would be rounded."""
        if values.dtype.kind == "u":
            return as_python_integers(values)
        exact = values.dtype.kind == "i" or (
            values.dtype == object
            and all(isinstance(one, int) for one in values.ravel())
        )
        if not exact:
            raise InvalidInputError(
                f"a sum of integers takes integers, found numbers of type "
                f"{values.dtype}; convert them, or sum reals"
            )
        return values


def checked_largest(largest: float) -> float:
    """Return a declared range, which must be positive."""
    value = float(as_floats(largest, what="the range of coefficients"))
    if not value > 0:
        raise InvalidInputError(
            f"the range of coefficients must be positive, found {largest}"
        )
    return value
