"""The proposals of `discrete_gaussian`: strips, their entries, and exact bounds of exp.

The symbols S, w, W, K, c, N_k, f_k and the proof are in that module's docstring.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, nan, sqrt
from typing import Any, TypeAlias

import numpy as np

from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.shapes import Int64, Shaped

Integers: TypeAlias = Int64[Array[np.int64], " size"]
Draws: TypeAlias = Shaped[Array[Any], " size"]  # int64, or Python integers
LowWords: TypeAlias = Shaped[Array[np.uint64], "rows size"]

ENTRIES = 2**12
U_BITS = 51  # bits of U in a first word
TAIL_ROW = 16
MOST_INT64_SPREAD = 2**52

# Of a strip's w bits so many go into float64; what they leave out is below 2^-50 of it.
_TOP_BITS = 50
# Beyond these tail strips a weight is not kept in float64: decimal decides.
_TAIL_FLOATS = 8 * TAIL_ROW
_TABLE_BITS = 64
_TABLE_DIGITS = 40


@dataclass(frozen=True, eq=False)
class Strips:
    """The proposal of one spread: S, w, c and N_k."""

    spread: int
    shift: int
    unit: int
    counts: tuple[int, ...]

    @cached_property
    def small(self) -> bool:
        """Whether draws are int64."""
        return self.spread <= MOST_INT64_SPREAD

    @cached_property
    def n_words(self) -> int:
        """Words of a proposal: the first, and those that hold j."""
        return (2 if self.shift else 1) if self.small else 3

    @cached_property
    def entries(self) -> Integers:
        """The strip of every entry; the last entry is the tail's, K."""
        return np.repeat(np.arange(len(self.counts) + 1), [*self.counts, 1])

    @cached_property
    def weights(self) -> Vector:
        """The weights in float64, in units of 2^-51; nan stands for all beyond."""
        known = range(len(self.counts) + _TAIL_FLOATS)
        return np.array([*(float(self.weight(k) * 2**U_BITS) for k in known), nan])

    @cached_property
    def top_bits(self) -> int:
        """Bits of j in a position."""
        return min(self.shift, _TOP_BITS)

    @cached_property
    def slope(self) -> float:
        """What turns a position into |y| / (S sqrt 2)."""
        return 2.0 ** (self.shift - self.top_bits) / (self.spread * sqrt(2.0))

    def weight(self, strip: int) -> Fraction:
        """Return what multiplies e(y): c / N_k, on the tail 2^(G+5) c."""
        beyond = strip - len(self.counts)
        if beyond < 0:
            return Fraction(self.unit, self.counts[strip])
        return Fraction(self.unit << (5 + beyond // TAIL_ROW))

    def positions(self, strip: Integers, low: LowWords) -> Integers:
        """Return |y|, or for a large spread its leading bits."""
        if not self.shift:
            return strip
        # Far out on the tail of a large spread this wraps; there no weight is known.
        top = low[0] >> np.uint64(64 - self.top_bits)
        return (strip << self.top_bits) + top.view(np.int64)

    def chances(self, strip: Integers, position: Integers) -> Vector:
        """Return the probability of acceptance in float64, in units of 2^-51."""
        root = position * self.slope
        chance = np.exp(-root * root)
        chance *= self.weights.take(strip, mode="clip")
        return np.asarray(chance)

    def magnitudes(self, strip: Integers, low: LowWords) -> Draws:
        """Return |y| = k W + j as Python integers."""
        high, rest = low.astype(object)
        within = (high << 64) + rest >> (128 - self.shift)
        return (strip.astype(object) << self.shift) + within


@lru_cache(maxsize=64)
def strips_of(spread: int) -> Strips:
    """Return the proposal with the largest c whose entries fit."""
    shift = max(0, (spread >> 3).bit_length() - 1)
    tops = _strip_tops(spread, 1 << shift)
    unit = (ENTRIES - 1 << _TABLE_BITS) // sum(tops)
    while sum(counts := [_shifted_up(unit * top) for top in tops]) >= ENTRIES:
        unit -= 1
    # Entries that are left over go to a strip that can take more than it needs.
    counts[0] += ENTRIES - 1 - sum(counts)
    return Strips(spread, shift, unit, tuple(counts))


def _shifted_up(number: int) -> int:
    return -(-number >> _TABLE_BITS)


def _strip_tops(spread: int, width: int) -> list[int]:
    """Return upper bounds of f_0 ... f_(K-1) in units of 2^-64."""
    tops, strip = [], 0
    while (top := _strip_top(spread, width * strip)) << 17 > 1 << _TABLE_BITS:
        tops.append(top)
        strip += 1
    return tops


def _strip_top(spread: int, start: int) -> int:
    _, upper = exp_bounds(spread, start, _TABLE_DIGITS)
    return ceil(upper * 2**_TABLE_BITS)


def exp_bounds(spread: int, y: int, digits: int) -> tuple[Fraction, Fraction]:
    """Return two numbers around e(y) that agree to nearly `digits` digits."""
    if y == 0:
        return Fraction(1), Fraction(1)
    exact = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    above = exact.divide(Decimal(-(y**2)), Decimal(2 * spread**2))
    # `exp` is within half a unit of its last digit, whatever the rounding.
    lower = exact.next_minus(exact.exp(exact.next_minus(above)))
    upper = exact.next_plus(exact.exp(above))
    return Fraction(lower), Fraction(upper)
