"""Whole numbers of public units: rounding belongs to a row, never to a party.

A total of numbers that each party rounded for itself carries every party's rounding
errors, and names its givers. So every private number becomes, where it enters, a whole
number of a public unit (`UnitMeasure.whole`), what a row contributes is whole too, and
sums over rows are exact (`GramSum`, `CrossSum`, `total_of_counts`): they do not depend
on who has which row, on the order of rows, on blocks or on threads.

Whole numbers travel in float64 arrays as long as they are below 2^53, where float64
has every one of them, and beyond that as Python integers. A product of matrices is left
to the processor in limbs of 20 bits: no sum of products over a block reaches 2^53, so
it is exact in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise, product, repeat
from math import ceil, floor, isfinite, log2
from operator import is_
from typing import Any, TypeAlias, TypeVar

import numpy as np

from veilsum.errors import InvalidInputError, RangeError
from veilsum.numbers.arrays import Array, FloatArray, is_real_number
from veilsum.numbers.compiled import compiled_or_plain
from veilsum.numbers.limbs import ends_of_whole_numbers, narrow_wide_integers
from veilsum.numbers.shapes import Shaped

T = TypeVar("T")
# Python integers, one for each statistic.
Integers: TypeAlias = Array[Any]
# Whole numbers, one row of them for each row of a table: float64, or Python integers.
WholeRows: TypeAlias = Shaped[Array[Any], "n k"]
WholeColumn: TypeAlias = Shaped[Array[Any], " n"]

# What a column without a declared unit keeps of its range.
BITS = 40
# Float64 has every whole number up to twice this power; wider ones are Python's.
FLOAT_BITS = 52
MOST_BITS = 400
MOST_DECIMALS = 12
# Rows of all parties, where nobody agreed on fewer.
ROW_BITS = 40
# Sums of products of two columns: those of 1,413 columns.
MOST_PRODUCTS = 10**6

LIMB_BITS = 20
# A lower limb is at most 2^19 and the highest 2^20: products of two of them, and of two
# sums of two, stay below 2^42 and, over so many rows, below 2^53. Shorter blocks stay
# in a core's own cache.
BLOCK_ROWS = 2048
_LIMB = 2.0**LIMB_BITS
# Float64 has every whole number up to here.
_EXACT = 2 ** (FLOAT_BITS + 1)
# Bounded, since whoever wrote it may be a stranger: 1e999999999 would never be read.
_UNIT = re.compile(
    r"(?P<decimals>[0-9]{1,3}) decimals?"
    r"|(?P<number>[0-9]{1,125}(/[0-9]{1,125})?|[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,3})?)",
    re.ASCII,
)
# Totals of so many blocks stay below 2^63.
_BLOCKS = 512


def numeric_unit_of(given: object, *, what: str = "unit", more: str = "") -> Fraction:
    """Return a unit as it was written: 1, 0.01, "1/8" or "2 decimals".

    A float stands for the shortest decimal that is this float: 0.01 is a hundredth.

    >>> numeric_unit_of(0.01), numeric_unit_of("1/8"), numeric_unit_of("2 decimals")
    (Fraction(1, 100), Fraction(1, 8), Fraction(1, 100))
    """
    ways = f'a number above 0, "1/8" or "2 decimals"{more}'
    wanted = f"{what} must be {ways}, found {given!r}"
    try:
        if isinstance(given, Fraction):
            unit = given
        elif isinstance(given, str) and (read := _UNIT.fullmatch(given.strip())):
            decimals = read["decimals"]
            written = read["number"]
            unit = Fraction(1, 10 ** int(decimals)) if decimals else Fraction(written)
        elif is_real_number(given) and isfinite(given):
            unit = (
                Fraction(repr(float(given)))
                if given != int(given)
                else Fraction(int(given))
            )
        else:
            raise InvalidInputError(wanted, code="malformed-unit")
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InvalidInputError(wanted, code="malformed-unit") from None
    if not unit > 0:
        raise InvalidInputError(wanted, code="malformed-unit")
    if not -MOST_BITS <= log2(unit.numerator) - log2(unit.denominator) <= MOST_BITS:
        raise InvalidInputError(
            f"{what} must be between 2^-{MOST_BITS} and 2^{MOST_BITS}, found {given!r}",
            code="unit-out-of-range",
        )
    return unit


@dataclass(frozen=True)
class UnitMeasure:
    """One private number of a row, as all parties agree to count it.

    Attributes:
        unit: what is counted.
        least: the least count that may occur.
        most: the largest.
        centre: a public count that is taken off, so that fewer bits are needed.
        made: whether the unit was made of the range, and so rounds values.
        columns: names of the table's columns that the number is computed from; None
            if they are not known.

    >>> cents = UnitMeasure(Fraction(1, 100), 0, 100_000)
    >>> cents.whole(np.array([0.07, 1.0])).tolist()
    [7.0, 100.0]
    """

    unit: Fraction
    least: int
    most: int
    centre: int = 0
    made: bool = False
    columns: tuple[str, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.unit > 0 or self.least > self.most:
            raise InvalidInputError(
                f"a measure counts from a least to a most, in a unit above 0, found "
                f"{self.least} to {self.most} in {self.unit}",
                code="malformed-measure",
            )
        if self.bits > MOST_BITS:
            raise InvalidInputError(
                f"a range of {self.low:.6g} to {self.high:.6g} has 2^{self.bits} of "
                f"the unit {self.unit}, and at most 2^{MOST_BITS} can be summed: agree "
                "on a coarser unit, or a narrower range",
                code="range-too-wide",
            )

    @classmethod
    def of(
        cls,
        low: Fraction | float,
        high: Fraction | float,
        unit: Fraction | None = None,
        *,
        bits: int = BITS,
    ) -> UnitMeasure:
        """Return the measure of a range; without a unit it keeps so many bits of it.

        >>> UnitMeasure.of(0, 100).unit
        Fraction(1, 8589934592)
        """
        bottom, top = Fraction(low), Fraction(high)
        made = unit is None
        if unit is None:
            unit = power_of_two_unit(top - bottom or abs(top) or Fraction(1), bits)
            largest = max(abs(bottom), abs(top))
            if bits <= FLOAT_BITS and largest:
                # Far from 0 float64 has not got so many bits of the range.
                unit = max(unit, power_of_two_unit(largest, FLOAT_BITS + 1))
        return cls(unit, floor(bottom / unit), ceil(top / unit), made=made)

    @property
    def low(self) -> float:
        return float(self.least * self.unit)

    @property
    def high(self) -> float:
        return float(self.most * self.unit)

    @property
    def reach(self) -> int:
        """Largest absolute count after subtracting `centre`."""
        return max(self.most - self.centre, self.centre - self.least)

    @property
    def bits(self) -> int:
        """The least b with no count beyond 2^b, the centre taken off."""
        return bits_of_reach(self.reach)

    @property
    def limbs(self) -> int:
        return limbs_of_bits(self.bits)

    @property
    def rounds(self) -> bool:
        """Whether values may differ from what is counted, by half a unit at most.

        A power of two with so many counts is taken to be made of the range, whoever
        made it; other units were declared, and values are taken to be whole.
        """
        top, bottom = self.unit.numerator, self.unit.denominator
        power = top & (top - 1) == 0 and bottom & (bottom - 1) == 0
        counts = max(self.most - self.least, abs(self.least), abs(self.most))
        return self.made or (power and counts.bit_length() >= BITS - 1)

    @property
    def wide(self) -> bool:
        """Whether float64 does not have all counts."""
        return max(abs(self.least), abs(self.most)) > 2 ** (FLOAT_BITS + 1)

    def centred(self) -> UnitMeasure:
        """Return the measure with the middle of its range taken off."""
        return replace(self, centre=(self.least + self.most) // 2)

    def counts(self, values: Array[Any]) -> Array[Any]:
        """Return each value's nearest count, ties to even; the centre is not taken off.

        One division and one rounding for each value: the same bits on every machine.

        Raises:
            RangeError: a value is beyond the range; the owner alone is shown it.
        """
        if self.wide:
            found = _exact_unit_counts(values, self.unit)
        else:
            top, bottom = float(self.unit.numerator), float(self.unit.denominator)
            # Fractions of a design with a wide column, too, as `RowMeasures` has them.
            near = np.asarray(values, dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                found = np.rint(near * bottom / top)
        # Written so that nan is refused too.
        beyond = ~((found >= self.least) & (found <= self.most))
        if beyond.any():
            strange = float(np.asarray(values, dtype=np.float64)[beyond].ravel()[0])
            limits = f"the agreed range of {self.low:.6g} to {self.high:.6g}"
            raise RangeError(
                f"{np.count_nonzero(beyond)} values are outside {limits}, the first is "
                f"{strange:.6g}; correct them, or agree on another range",
                plain=f"values are outside {limits}; agree on another range",
                code="value-out-of-range",
            )
        return found

    def has(self, values: Array[Any]) -> bool:
        try:
            self.counts(values)
        except InvalidInputError:
            return False
        return True

    def whole(self, values: Array[Any]) -> Array[Any]:
        """Return each value's count with the centre taken off."""
        found = self.counts(values)
        return found - self.centre if self.centre else found

    def rounded(self, values: FloatArray) -> FloatArray:
        """Return each value's nearest whole number of units, as float64."""
        found = self.counts(values)
        if self.wide:
            back = [float(one * self.unit) for one in found.ravel().tolist()]
            return np.array(back).reshape(found.shape)
        top, bottom = float(self.unit.numerator), float(self.unit.denominator)
        return np.asarray(found * top / bottom)

    def n_broken(self, values: FloatArray) -> int:
        """Return how many values are not whole numbers of the unit, as float64 goes."""
        return int(np.count_nonzero(self.rounded(values) != values))


def power_of_two_unit(span: Fraction | float, bits: int = BITS) -> Fraction:
    """Return the power of two of which a range of this length has at most 2^bits.

    >>> power_of_two_unit(100, 7)
    Fraction(1, 1)
    """
    length = Fraction(span)
    exponent = ceil(log2(length.numerator) - log2(length.denominator))
    # Logarithms round: a power too small is stepped over.
    while Fraction(2) ** exponent < length:
        exponent += 1
    return Fraction(2) ** (exponent - bits)


def decimal_unit_of_numbers(values: FloatArray) -> Fraction | None:
    """Return the largest power of ten of which all values are whole numbers, if any.

    For simulations, where one computer has all parties' values.

    >>> decimal_unit_of_numbers(np.array([0.25, 3.1]))
    Fraction(1, 100)
    """
    decimals = 0
    # Values that have few decimals have more of them too: what a block needed stays.
    for start in range(0, len(values), BLOCK_ROWS):
        block = values[start : start + BLOCK_ROWS]
        while True:
            scale = 10.0**decimals  # exact up to 10^22
            with np.errstate(over="ignore"):
                counts = np.rint(block * scale)
            if not (np.abs(counts) < 2.0**FLOAT_BITS).all():
                return None
            if (counts / scale == block).all():
                break
            decimals += 1
            if decimals > MOST_DECIMALS:
                return None
    return Fraction(1, 10**decimals)


def few_decimals_unit(values: FloatArray) -> Fraction | None:
    """Return the decimal unit of all values if it leaves them 39 bits, else None."""
    found = decimal_unit_of_numbers(values)
    if found is None or not values.size:
        return None
    return found if np.abs(values).max() < float(found * 2 ** (BITS - 1)) else None


def inferred_unit_measure(values: FloatArray) -> UnitMeasure:
    """Return a measure for all parties' values, as only a simulation can.

    Decimals where all values have a few and their range fits 40 bits, however far it is
    from 0; else a power of two that leaves 40 bits.
    """
    if not values.size:
        return UnitMeasure(Fraction(1), 0, 0)
    low, high = float(values.min()), float(values.max())
    if not (isfinite(low) and isfinite(high)):
        raise InvalidInputError(
            "only finite numbers can be counted, found nan or inf", code="not-finite"
        )
    found = decimal_unit_of_numbers(values)
    if found is not None and high - low >= float(found * 2**BITS):
        found = None
    return UnitMeasure.of(Fraction(low), Fraction(high), found)


def _exact_unit_counts(values: Array[Any], unit: Fraction) -> Array[Any]:
    flat = np.asarray(values).ravel().tolist()
    counts = np.empty(len(flat), dtype=object)
    for place, value in enumerate(flat):
        if not isfinite(value):
            raise InvalidInputError(
                "only finite numbers can be counted", code="not-finite"
            )
        counts[place] = round(Fraction(value) / unit)
    return counts.reshape(np.shape(values))


# Sums over rows


def bits_of_reach(reach: int) -> int:
    """Return the least b with reach <= 2^b.

    >>> bits_of_reach(0), bits_of_reach(1), bits_of_reach(8), bits_of_reach(9)
    (0, 0, 3, 4)
    """
    return max(reach - 1, 0).bit_length()


def limbs_of_bits(bits: int) -> int:
    """Return how many limbs hold every whole number up to 2^bits, of either sign.

    >>> limbs_of_bits(20), limbs_of_bits(21), limbs_of_bits(40)
    (1, 2, 2)
    """
    return max(1, -(-bits // LIMB_BITS))


def split_into_limbs(
    whole: Array[Any], limbs: int, bits: int = LIMB_BITS
) -> list[Array[Any]]:
    """Return limbs, the lowest first: whole = sum limb_k 2^(bits k).

    All are at most 2^(bits - 1), but the last, which has what is left. They are
    float64; where that does not have all of them, Python integers stay what they are.
    """
    parts = []
    rest, base = whole, 2.0**bits
    for _ in range(limbs - 1):
        if rest.dtype == object:
            # Python's shift rounds down: half a limb more makes that the nearest.
            upper = (rest + (1 << bits - 1)) >> bits
            parts.append(rest - (upper << bits))
        else:
            upper = np.rint(rest * (1.0 / base))
            parts.append(rest - upper * base)
        rest = upper
    parts.append(rest)
    if bits > FLOAT_BITS and whole.dtype == object:
        return parts
    return [one.astype(np.float64, copy=False) for one in parts]


def _split_into_reused_limbs(room: FloatArray, rows: WholeRows) -> list[FloatArray]:
    """Return limbs as `split_into_limbs` does, in reused memory; the last is spare."""
    limbs = len(room) - 1
    if rows.dtype == object or limbs == 1:
        return split_into_limbs(rows, limbs)
    found = [one[: len(rows)] for one in room[:-1]]
    rest, spare = rows, room[-1, : len(rows)]
    quick = compiled_or_plain(_two_limbs_of_integers, rows.size) if limbs == 2 else None
    if quick is not None:
        quick(rows, np.empty((0, len(rows))), *found, spare)
        return found
    for lower, upper in pairwise(found):
        np.multiply(rest, 1.0 / _LIMB, out=upper)
        np.rint(upper, out=upper)
        np.subtract(rest, np.multiply(upper, _LIMB, out=spare), out=lower)
        rest = upper
    return found


def _two_limbs_of_integers(
    rows: Any, beside: Any, lower: Any, upper: Any, both: Any
) -> None:
    # All of it is exact, so that a compiler may do it in any order.
    n, p = rows.shape
    for i in range(n):
        for j in range(p):
            upper[i, j] = np.rint(rows[i, j] * 2.0**-20)
            lower[i, j] = rows[i, j] - upper[i, j] * 2.0**20
            both[i, j] = lower[i, j] + upper[i, j]
        for m in range(len(beside)):
            high = np.rint(beside[m, i] * 2.0**-20)
            low = beside[m, i] - high * 2.0**20
            upper[i, p + m], lower[i, p + m], both[i, p + m] = high, low, low + high


def _limbs_of_scaled(
    rows: Any, by: Any, factors: Any, lower: Any, upper: Any, both: Any
) -> None:
    # The same operations as by arrays, in the same order: the same bits.
    n, p = rows.shape
    for i in range(n):
        for j in range(p):
            whole = np.rint(rows[i, j] * by[i] * factors[j])
            upper[i, j] = np.rint(whole * 2.0**-20)
            lower[i, j] = whole - upper[i, j] * 2.0**20
            both[i, j] = lower[i, j] + upper[i, j]


class GramSum:
    """Adds up Z'Z over blocks of rows, exactly; with a column r also Z'r and r'r.

    One symmetric product of a sum of two limbs gives both mixed terms, at half the cost
    of the two: (H + L)'(H + L) = H'H + L'L + (H'L + L'H). The column r stands beside
    the others, in several pieces if it is wider than they are.

    Attributes:
        limbs: in how many limbs the widest column is held.
        right_limbs: in how many r is, if there is one.
    """

    def __init__(self, n_columns: int, limbs: int, right_limbs: int = 0) -> None:
        self.limbs = limbs
        self.right_limbs = right_limbs
        self._n = n_columns
        self._n_pieces = -(-right_limbs // limbs)
        width = n_columns + self._n_pieces
        self._pairs = [(j, k) for j in range(limbs) for k in range(j, limbs)]
        # Sums of products, by pairs of limbs; below 2^63 between two settlings.
        self._sums = np.zeros((len(self._pairs), width, width), dtype=np.int64)
        self._whole = np.full((width, width), 0, dtype=object)
        self._blocks = 0
        # Where blocks are split: memory that is new every time is slow.
        self._room = np.empty((limbs + 1, BLOCK_ROWS, width))
        self._beside = np.empty((BLOCK_ROWS, width))

    def add(self, rows: WholeRows, right: WholeColumn | None = None) -> None:
        for start in range(0, len(rows), BLOCK_ROWS):
            piece = slice(start, start + BLOCK_ROWS)
            self._add(rows[piece], None if right is None else right[piece])

    def add_scaled(self, rows: FloatArray, by: FloatArray, factors: FloatArray) -> None:
        """Add `BLOCK_ROWS` rows at most, each times a number, rounded to whole ones.

        Args:
            rows: of numbers.
            by: what each row is taken times.
            factors: what each column is then; powers of two.
        """
        quick = (
            compiled_or_plain(_limbs_of_scaled, rows.size) if self.limbs == 2 else None
        )
        if quick is None:
            scaled = np.multiply(rows, by[:, None], out=self._beside[: len(rows)])
            scaled *= factors
            self._add(np.rint(scaled, out=scaled), None)
            return
        limbs = [one[: len(rows)] for one in self._room]
        quick(rows, by, factors, *limbs)
        self._products(limbs)

    def _add(self, rows: WholeRows, right: WholeColumn | None) -> None:
        spare = self._room[-1, : len(rows)]
        quick = (
            None
            if self.limbs != 2 or rows.dtype == object
            else compiled_or_plain(_two_limbs_of_integers, rows.size)
        )
        pieces: list[Array[Any]] = []
        if right is not None:
            pieces = split_into_limbs(right, self._n_pieces, LIMB_BITS * self.limbs)
        if quick is None:
            limbs = _split_into_reused_limbs(self._room, self._joined(rows, pieces))
        else:  # in one pass, the sum of both limbs too
            limbs = [one[: len(rows)] for one in self._room[:-1]]
            beside = np.stack(pieces) if pieces else np.empty((0, len(rows)))
            quick(rows, beside, *limbs, spare)
            self._products([*limbs, spare])
            return
        for place, (j, k) in enumerate(self._pairs):
            both = limbs[j] if j == k else np.add(limbs[j], limbs[k], out=spare)
            self._sums[place] += (both.T @ both).astype(np.int64)
        self._settle_sometimes()

    def _products(self, limbs: Sequence[FloatArray]) -> None:
        """Add the products of two limbs and of their sum."""
        lower, upper, both = limbs
        for place, one in enumerate((lower, both, upper)):
            self._sums[place] += (one.T @ one).astype(np.int64)
        self._settle_sometimes()

    def _settle_sometimes(self) -> None:
        self._blocks += 1
        if self._blocks == _BLOCKS:
            self._settle()

    def _joined(self, rows: Array[Any], pieces: list[Array[Any]]) -> Array[Any]:
        if not pieces:
            return rows
        found = self._beside[: len(rows)]
        if any(one.dtype == object for one in (rows, *pieces)):
            found = np.empty(found.shape, dtype=object)
            rows, pieces = (
                as_whole_integers(rows),
                [as_whole_integers(one) for one in pieces],
            )
        found[:, : self._n] = rows
        for m, piece in enumerate(pieces):
            found[:, self._n + m] = piece
        return found

    def _settle(self) -> None:
        if not self._blocks:
            return
        sums = self._sums.astype(object)
        alone = [sums[place] for place, (j, k) in enumerate(self._pairs) if j == k]
        for part, (j, k) in zip(sums, self._pairs, strict=True):
            mixed = part if j == k else part - alone[j] - alone[k]
            self._whole += mixed << (LIMB_BITS * (j + k))
        self._sums[:] = 0
        self._blocks = 0

    @property
    def value(self) -> Integers:
        self._settle()
        return self._whole[: self._n, : self._n].copy()

    @property
    def cross(self) -> Integers:
        self._settle()
        pieces = self._whole[: self._n, self._n :].T
        return sum(
            (one << (self._shift * m) for m, one in enumerate(pieces)),
            np.full(self._n, 0, dtype=object),
        )

    @property
    def square(self) -> int:
        """The sum of squares of r so far."""
        self._settle()
        pieces = self._whole[self._n :, self._n :]
        places = product(range(self._n_pieces), repeat=2)
        return sum(int(pieces[j, k]) << (self._shift * (j + k)) for j, k in places)

    @property
    def _shift(self) -> int:
        return LIMB_BITS * self.limbs


def as_whole_integers(whole: Array[Any]) -> Array[Any]:
    return np.array([int(one) for one in whole.ravel().tolist()], dtype=object).reshape(
        whole.shape
    )


class CrossSum:
    """Adds up Z'r over blocks of rows, exactly; r is one whole number for each row."""

    def __init__(self, n_columns: int, limbs: int, right_limbs: int) -> None:
        self._whole = np.full(n_columns, 0, dtype=object)
        # Products of limbs; below 2^63 between two settlings.
        self._sums = np.zeros((limbs, right_limbs, n_columns), dtype=np.int64)
        self._blocks = 0
        self._room = np.empty((limbs + 1, BLOCK_ROWS, n_columns))

    def add(self, rows: WholeRows, right: WholeColumn) -> None:
        for start in range(0, len(rows), BLOCK_ROWS):
            piece = slice(start, start + BLOCK_ROWS)
            others = np.stack(split_into_limbs(right[piece], self._sums.shape[1]))
            for j, left in enumerate(_split_into_reused_limbs(self._room, rows[piece])):
                self._sums[j] += (others @ left).astype(np.int64)
            self._blocks += 1
            if self._blocks == _BLOCKS:
                self._settle()

    def _settle(self) -> None:
        for j, k in product(*map(range, self._sums.shape[:2])):
            self._whole += self._sums[j, k].astype(object) << (LIMB_BITS * (j + k))
        self._sums[:] = 0
        self._blocks = 0

    @property
    def value(self) -> Integers:
        """Z'r of all rows so far, as Python integers."""
        self._settle()
        return self._whole.copy()


def total_of_counts(whole: WholeColumn, bits: int) -> int:
    found = 0
    for start in range(0, len(whole), BLOCK_ROWS):
        parts = split_into_limbs(whole[start : start + BLOCK_ROWS], limbs_of_bits(bits))
        for place, limb in enumerate(parts):
            found += int(limb.sum()) << (LIMB_BITS * place)
    return found


def units_of_products(units: Sequence[Fraction]) -> list[Fraction]:
    """Return the units of all products of two columns: a lower triangle, row by row.

    Raises:
        InvalidInputError: there would be more than anybody sums.
    """
    n = len(units)
    if (size := n * (n + 1) // 2) > MOST_PRODUCTS:
        raise InvalidInputError(
            f"{n:,} columns have {size:,} products of two of them, and "
            f"{MOST_PRODUCTS:,} is the most that is summed: ask about fewer columns",
            code="too-many-columns",
        )
    # A table has many columns and few units, and fractions are slow to multiply.
    known = list(dict.fromkeys(units))
    found = [[a * b for b in known[: k + 1]] for k, a in enumerate(known)]
    place = {unit: k for k, unit in enumerate(known)}
    at = [place[unit] for unit in units]
    pairs = ((i, j) for k, i in enumerate(at) for j in at[: k + 1])
    return [found[i][j] if i > j else found[j][i] for i, j in pairs]


def triangle_of_matrix(matrix: Integers) -> Integers:
    return np.asarray(matrix[np.tril_indices(len(matrix))])


def square_of_triangle(numbers: Integers, n: int) -> Integers:
    matrix = np.empty((n, n), dtype=object)
    rows, columns = np.tril_indices(n)
    matrix[rows, columns] = numbers
    matrix[columns, rows] = numbers
    return matrix


# What a vector of totals counts


@dataclass(frozen=True)
class UnitCounts:
    """Units of the numbers of a vector, public before any data are read.

    Attributes:
        units: unit of each number.
        bits: bits that hold every total of all rows, its sign included.
        fields: consecutive numbers that are released modulo a power of two of their
            own: their count and the bits of that. Without any, all are released whole.
    """

    units: tuple[Fraction, ...]
    bits: int
    fields: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        in_fields = sum(count for count, _ in self.fields)
        if self.fields and in_fields != len(self.units):
            raise InvalidInputError(
                f"{in_fields} numbers are in fields, and {len(self.units)} have a unit",
                code="units-not-per-number",
            )

    @property
    def words(self) -> int:
        return max(1, -(-self.bits // 64))

    def of_places(self, places: Sequence[int]) -> UnitCounts:
        """Return what some of the numbers count, each as often as it is named."""
        units = tuple(self.units[place] for place in places)
        bits = [bits for count, bits in self.fields for _ in range(count)]
        alike = groupby(bits[place] for place in places) if bits else ()
        fields = tuple((len([*group]), one) for one, group in alike)
        return replace(self, units=units, fields=fields)

    @cached_property
    def runs(self) -> list[tuple[Fraction, int, int]]:
        """Stretches of numbers with one unit: the unit, their start and their end."""
        return runs_of_equal_objects(self.units)

    def values(self, numbers: Iterable[int]) -> FloatArray:
        given = numbers if isinstance(numbers, np.ndarray) else [*numbers]
        whole = np.asarray(given, dtype=object)
        if len(whole) != len(self.units):
            raise ValueError(f"{len(self.units)} units, and {len(whole)} numbers")
        parts = [_in_units(whole[start:stop], unit) for unit, start, stop in self.runs]
        return np.concatenate([np.empty(0), *parts])


def runs_of_equal_objects(objects: Sequence[T]) -> list[tuple[T, int, int]]:
    """Return stretches of one and the same object: it, their start and their end."""
    if not objects:
        return []
    if all(map(is_, objects, repeat(objects[0]))):
        return [(objects[0], 0, len(objects))]
    known = np.fromiter(map(id, objects), dtype=np.uint64, count=len(objects))
    starts = [0, *(np.flatnonzero(known[1:] != known[:-1]) + 1).tolist(), len(known)]
    return [(objects[start], start, stop) for start, stop in pairwise(starts)]


def _in_units(whole: Integers, unit: Fraction) -> FloatArray:
    top, bottom = unit.numerator, unit.denominator
    whole = narrow_wide_integers(whole)
    largest = max(map(abs, ends_of_whole_numbers(whole))) * top
    if max(largest, top, bottom) <= _EXACT:
        return np.asarray((whole * top) / float(bottom))
    # Python divides whole numbers with one rounding.
    return np.array([int(one) * top / bottom for one in whole.tolist()])


def sum_bits(bits: Sequence[int], row_bits: int = ROW_BITS) -> int:
    """Return in how many bits a sum over all rows of a product of such numbers fits.

    >>> sum_bits([39, 39])
    120
    """
    return sum(bits) + row_bits + 2
