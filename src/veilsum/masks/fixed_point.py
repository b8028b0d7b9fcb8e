"""Numbers on a grid: private coefficients become whole multiples of a step g.

On the grid, masks are integers, sums are exact, and the bits of a masked number say
nothing about how its private part was rounded. Quantising rounds to the nearest point
and discards the rest: what is discarded is never sent, so nothing has to hide it.

Without a unit g is 2^-q. With one, such as a cent, numbers are rounded to whole units,
so that equal sums of cents are equal, and g is a 2^-q of the unit: masks may be finer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, floor, inf, isfinite, isqrt, log2, sqrt
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError, RangeError
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.shapes import Shaped
from veilsum.numbers.units import FLOAT_BITS

# int64, uint64 (residues modulo 2^64), or Python integers where 64 bits are too few.
IntegerArray: TypeAlias = Array[Any]
Integers: TypeAlias = Shaped[IntegerArray, "*batch p"]

# No finer grid is chosen without being asked for: float64 input has no more digits.
FINEST_BITS = 50
# Nor a coarser one: rounding would be noticed. Wider integers are used instead.
COARSEST_BITS = 30
# A share must span this many grid points for the Gaussian formulas to hold, 2^10 of
# them where real parties depend on it.
LEAST_DEVIATION = 4
DEPLOYED_DEVIATION_BITS = 10
GREATEST_DEVIATION_BITS = 100
# Magnitudes stay below 2^62: the difference of two still fits 64 bits.
WORD_BITS = 62
# A mask beyond 2^6 standard deviations has chance exp(-2048): it never happens.
SURE_BITS = 6


@dataclass(frozen=True)
class FixedPointGrid:
    """The multiples of 2^-bits, or of 2^-bits of a unit.

    Attributes:
        bits: q.
        unit: what numbers are rounded to whole ones of; without one, the step itself.

    >>> FixedPointGrid(2).quantise(np.array([0.3, -1.0])).tolist()
    [1, -4]
    >>> cents = FixedPointGrid(2, unit=Fraction(1, 100))
    >>> cents.quantise(np.array([0.07, 0.071])).tolist()
    [28, 28]
    """

    bits: int
    unit: Fraction | None = None

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, int):
            raise InvalidInputError(
                f"a grid is given by a whole number of bits, found {self.bits!r}",
                code="bits-not-whole",
            )
        least = -100 if self.unit is None else 0
        if not least <= self.bits <= 200:
            below = "" if self.unit is None else " below the unit"
            raise InvalidInputError(
                f"a grid has between {least} and 200 bits{below}, found {self.bits}",
                code="bits-out-of-range",
            )

    @cached_property
    def exact_step(self) -> Fraction:
        """g, the distance of neighbouring points."""
        return (self.unit or 1) * Fraction(2) ** -self.bits

    @property
    def step(self) -> float:
        return float(self.exact_step)

    @property
    def rounding(self) -> Fraction:
        """Distance of the points to which private numbers are rounded."""
        return self.exact_step if self.unit is None else self.unit

    @property
    def words(self) -> str:
        if self.unit is None:
            return f"2^{-self.bits}"
        return f"{self.unit}" + (f" * 2^{-self.bits}" if self.bits else "")

    def deviation(self, sigma: float, weight: float = 1.0) -> int:
        """Return sigma sqrt(weight) in grid steps, rounded up to a whole number.

        Rounded up exactly: noise is never less than what was asked for.
        """
        steps = _grid_steps_of_deviation(self.exact_step, sigma, weight)
        self._check_deviation(sigma * sqrt(weight), steps)
        return steps

    def _check_deviation(self, sigma: float, steps: int) -> None:
        if steps < LEAST_DEVIATION:
            enough = grid_bits_of_deviation(
                sigma / float(self.unit or 1), LEAST_DEVIATION
            )
            raise InvalidInputError(
                f"sigma must span at least {LEAST_DEVIATION} steps of the grid, but "
                f"{sigma:.4g} spans {steps} of {self.words}: use a grid of {enough} "
                "bits or more, or a larger sigma",
                code="grid-too-coarse",
            )
        spare = (steps - 1).bit_length() - GREATEST_DEVIATION_BITS
        if spare > 0:
            raise InvalidInputError(
                f"sigma = {sigma:.4g} spans more than 2^{GREATEST_DEVIATION_BITS} "
                f"steps of {self.words}, by {spare} bits: use a grid of "
                f"{self.bits - spare} bits or fewer, or a smaller sigma",
                code="grid-too-fine",
            )

    def quantise(self, values: Array[Any]) -> Integers:
        """Return each value's nearest grid point, ties to even, as Python would.

        Python integers are whole numbers of the unit, or of steps, already.
        """
        if values.dtype == object:
            return values if self.unit is None else self._fine(values)
        if not np.isfinite(values).all():
            raise InvalidInputError(
                "only finite numbers have a place on the grid", code="not-finite"
            )
        if self.unit is not None:
            power = _power_of_grid_unit(self.unit)
            if power is None:
                return self._fine(_whole_counts_on_mask_grid(values, self.unit))
            return self._fine(FixedPointGrid(-power).quantise(values))
        # Scaling by a power of two is exact, so the only rounding is this one.
        with np.errstate(over="ignore", under="ignore"):
            points = np.rint(np.ldexp(values, self.bits))
        if not np.isfinite(points).all():
            raise InvalidInputError(
                f"a value is too large for a grid of {self.bits} bits",
                code="value-too-large",
            )
        if (np.abs(points) < 2.0**WORD_BITS).all():
            return points.astype(np.int64)
        return as_python_integers(points)

    def _fine(self, counts: Array[Any]) -> Integers:
        """Return whole numbers of units in steps."""
        if (
            counts.dtype != object
            and (np.abs(counts) < 2.0 ** (WORD_BITS - self.bits)).all()
        ):
            return counts.astype(np.int64) << np.int64(self.bits)
        return as_python_integers(counts) << self.bits

    def reals(self, values: Array[Any]) -> FloatArray:
        """Return values as they are, and Python integers as what they stand for."""
        if values.dtype != object:
            return values
        return (self if self.unit is None else FixedPointGrid(0, self.unit)).to_floats(
            values
        )

    def to_floats(self, integers: Integers) -> FloatArray:
        # A power of two, so exact; `ldexp` is the same and takes ten times as long.
        found = integers.astype(np.float64) * 2.0**-self.bits
        if self.unit is None:
            return found
        top, bottom = float(self.unit.numerator), float(self.unit.denominator)
        return np.asarray(found * top / bottom)


def _power_of_grid_unit(unit: Fraction) -> int | None:
    top, bottom = unit.numerator, unit.denominator
    if top & (top - 1) or bottom & (bottom - 1):
        return None
    return top.bit_length() - bottom.bit_length()


def _whole_counts_on_mask_grid(values: FloatArray, unit: Fraction) -> Integers:
    """Return each value's nearest whole number of units: a function of it alone."""
    top, bottom = float(unit.numerator), float(unit.denominator)
    with np.errstate(over="ignore", invalid="ignore"):
        counts = np.rint(values * bottom / top)
    # Written so that nan is among them: infinity over infinity.
    large = ~(np.abs(counts) < 2.0 ** (FLOAT_BITS - 1))
    if not large.any():
        return counts
    found = np.empty(values.shape, dtype=object)
    for place in np.ndindex(values.shape):
        value = float(values[place])
        found[place] = (
            round(Fraction(value) / unit) if large[place] else int(counts[place])
        )
    return found


@lru_cache(1024)  # a graph has few weights, and asks once for each of its links
def _grid_steps_of_deviation(step: Fraction, sigma: float, weight: float) -> int:
    return ceil_sqrt(Fraction(sigma) ** 2 * Fraction(weight) / step**2)


def ceil_sqrt(square: Fraction) -> int:
    root = isqrt(floor(square))
    return root if root * root == square else root + 1


def check_masked_range(
    values: FloatArray, largest: float | None, labels: Sequence[str] | None = None
) -> None:
    """Refuse a value beyond the range, instead of clipping it in silence.

    The message names the column and the magnitude; it is for the value's owner and is
    never sent to anybody.
    """
    limit = inf if largest is None else largest
    # Written so that nan is refused too.
    strange = np.flatnonzero(~((np.abs(values) <= limit) & np.isfinite(values)))
    if strange.size == 0:
        return
    size = abs(float(values.ravel()[strange[0]]))
    label = _masked_coefficient_label(
        int(strange[0]) % values.shape[-1], values.shape[-1], labels
    )
    if not isfinite(size):
        raise RangeError(
            f"{label} is {size}: only finite numbers can be masked", code="not-finite"
        )
    beyond = f"beyond the range of {limit:.6g}: nothing is clipped; correct the value,"
    raise RangeError(
        f"{label} has the magnitude {size:.3g}, {beyond} or declare a range of "
        f"2^{ceil(log2(size))} or more",
        plain=f"{label} is {beyond} or agree on a wider one ([masks] largest)",
        code="value-out-of-range",
    )


def _masked_coefficient_label(
    column: int, columns: int, labels: Sequence[str] | None
) -> str:
    return (
        f"coefficient {column + 1} of {columns}" if labels is None else labels[column]
    )


def grid_bits_of_deviation(sigma: float, steps: int) -> int:
    """Return the least q with sigma 2^q >= steps.

    >>> grid_bits_of_deviation(0.5, 2**10)
    11
    """
    return ceil(log2(steps) - log2(sigma))


def masks_fit_words(
    *, bits: int, sigma: float, links: int, largest: float = 0.0, n_parties: int = 1
) -> bool:
    """Say whether masked coefficients, and their sum, surely fit 62-bit integers."""
    reach = _greatest_masked_number(sigma, links, largest, n_parties)
    return log2(reach) + bits <= WORD_BITS


def fitting_mask_bits(
    *, sigma: float, links: int, largest: float = 0.0, n_parties: int = 1
) -> int:
    """Return q for a grid of 2^-q on which masked numbers and sums fit 62 bits.

    q + log2(sigma sqrt(2 links)) + 6 <= 62, the 6 for masks beyond one sigma; no finer
    than 2^-50 unless a share would then span fewer than 2^10 grid points.

    >>> fitting_mask_bits(sigma=1099.0, links=4)
    44
    """
    fitting = floor(
        WORD_BITS - log2(_greatest_masked_number(sigma, links, largest, n_parties))
    )
    finest = max(FINEST_BITS, grid_bits_of_deviation(sigma, 2**DEPLOYED_DEVIATION_BITS))
    return min(fitting, finest)


def _greatest_masked_number(
    sigma: float, links: int, largest: float, n_parties: int
) -> float:
    """Return what no masked coefficient and no sum of private ones exceeds."""
    mask = sigma * sqrt(2.0 * max(links, 1)) * 2.0**SURE_BITS
    return max(mask + largest, n_parties * largest)


def summing_mask_bits(*, n_parties: int, largest: float | None) -> int:
    """Return q such that a sum of all parties' numbers fits 62 bits.

    Numbers that are all small are given a finer grid: else they would round to zero.
    """
    if largest is None:
        return FINEST_BITS
    finest = FINEST_BITS + max(0, ceil(-log2(largest)))
    return min(finest, floor(WORD_BITS - log2(n_parties * largest)))


def check_sum_fits(
    *, bits: int, n_parties: int, largest: float | None, unit: Fraction | None = None
) -> None:
    """Refuse a sum that could wrap around modulo 2^64 and come out wrong."""
    if largest is None:
        return
    missing = ceil(log2(n_parties * largest / float(unit or 1))) + bits - WORD_BITS
    if missing > 0 and unit is not None:
        raise InvalidInputError(
            f"a sum of {n_parties} numbers up to {largest:.6g} in units of {unit} "
            f"needs {missing} bits more than there are: agree on a unit of "
            f"{float(unit) * 2.0**missing:.6g}, or a range of "
            f"{largest / 2.0**missing:.6g}",
            code="sum-too-large",
        )
    if missing > 0:
        raise InvalidInputError(
            f"a sum of {n_parties} numbers up to {largest:.6g} on a grid of {bits} "
            f"bits needs {missing} bits more than there are: use a grid of "
            f"{bits - missing} bits, or a range of {largest / 2.0**missing:.6g}",
            code="sum-too-large",
        )
