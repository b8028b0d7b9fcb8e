"""How far a term can go in the agreed ranges, and its values as exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, gcd, inf, isfinite
from typing import Any, NoReturn

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers import elementary
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.units import Measure
from veilsum.tables.derived import DOMAINS, DerivedColumn
from veilsum.tables.formula.syntax import (
    COMPARED,
    FUNCTIONS,
    JOINED,
    SIGNS,
    Applied,
    Chosen,
    Derived,
    Level,
    Named,
    Node,
    Number,
    Operation,
    Signed,
    formula_text,
    is_formula_condition,
    short_formula_text,
)
from veilsum.tables.formula.values import (
    ARITHMETIC,
    MOST_FACTORS,
    evaluate,
    values_by_condition,
)
from veilsum.tables.schema import CheckedTable, Schema

# What one operation of float64 is off by, of its result; and a function, at most.
_ROUNDING = 2.0**-53
_FUNCTION_ROUNDING = Fraction(1, 2**45)
# Numbers of a formula that are longer are rounded outwards, units forgotten.
_LONGEST = 500
_LARGEST_TERM = Fraction(2) ** 1000


@dataclass(frozen=True)
class Extent:
    """What a term can be in any row that the schema admits.

    Attributes:
        low: its least value.
        high: its largest.
        unit: all its values are whole numbers of it; None if there is no such unit.
        slack: how much further off its ends float64 may compute it to be.
        own: the measure of a column that stands by itself.
    """

    low: Fraction
    high: Fraction
    unit: Fraction | None
    slack: float = 0.0
    own: Measure | None = None

    @property
    def largest(self) -> Fraction:
        """What no value is beyond, whatever its sign."""
        return max(abs(self.low), abs(self.high))

    @property
    def words(self) -> str:
        return f"from {float(self.low):g} to {float(self.high):g}"

    def measure(self, bits: int) -> Measure:
        """Return how the term is counted, in so many bits of its range."""
        if self.own is not None:
            return self.own
        span = self.high - self.low
        if self.unit is not None and span <= self.unit * 2**bits:
            return Measure.of(self.low, self.high, self.unit or Fraction(1))
        slack = Fraction(self.slack)
        return Measure.of(self.low - slack, self.high + slack, bits=bits)

    def needs_exact(self, bits: int) -> bool:
        """Say whether float64 might not find the right count."""
        if self.unit is None or self.own is not None:
            return False
        found = self.measure(bits)
        return found.wide or self.slack > found.unit / 4

    def times(self, other: Extent) -> Extent:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        unit = None
        if self.unit is not None and other.unit is not None:
            unit = self.unit * other.unit
        mine, others = float(self.largest), float(other.largest)
        slack = self.slack * others + other.slack * mine + self.slack * other.slack
        return _settled(min(ends), max(ends), unit, slack)

    def plus(self, other: Extent) -> Extent:
        unit = None
        if self.unit is not None and other.unit is not None:
            unit = _common(self.unit, other.unit)
        low, high = self.low + other.low, self.high + other.high
        return _settled(low, high, unit, self.slack + other.slack)

    def or_else(self, other: Extent, doubt: float) -> Extent:
        """Return this or the other's, as a comparison has it that may be in doubt."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        if self.unit is None or other.unit is None:
            return _settled(low, high, None, max(self.slack, other.slack))
        off = float(high - low) if doubt else 0.0
        unit = _common(self.unit, other.unit)
        return _settled(low, high, unit, max(self.slack, other.slack) + off)

    def negated(self) -> Extent:
        return Extent(-self.high, -self.low, self.unit, self.slack)

    def absolute(self) -> Extent:
        """Return the size's, without its sign."""
        least = max(self.low, -self.high, Fraction(0))
        return Extent(least, self.largest, self.unit, self.slack)

    def inverse(self) -> Extent:
        ends = (1 / self.low, 1 / self.high)
        # A constant is divided by as exactly as it is multiplied with.
        unit = abs(1 / self.low) if self.low == self.high else None
        least = float(min(abs(self.low), abs(self.high)))
        slack = self.slack / least / (least - self.slack) if self.slack < least else inf
        return _settled(min(ends), max(ends), unit, slack)

    def power(self, times: int) -> Extent:
        """Return a whole power's, 0 or more."""
        ends = (self.low**times, self.high**times)
        low, high = min(ends), max(ends)
        if times % 2 == 0 and self.low < 0 < self.high:
            low = Fraction(0)
        unit = None
        if self.unit is not None and times <= MOST_FACTORS:
            unit = self.unit**times
        if max(abs(low), abs(high)) > _LARGEST_TERM:
            raise _TooLargeError
        largest = float(self.largest) + self.slack
        # What the base is off, and what every product rounds.
        off = self.slack + largest * _ROUNDING
        slack = times * off * largest ** max(times - 1, 0)
        return _settled(low, high, unit, slack)


ONES = Extent(Fraction(1), Fraction(1), Fraction(1))
INDICATOR = Extent(Fraction(0), Fraction(1), Fraction(1))


class _TooLargeError(Exception):
    """A term may be beyond what float64 has."""


def _settled(
    low: Fraction, high: Fraction, unit: Fraction | None, slack: float
) -> Extent:
    """Return an extent of numbers that stay short, and one rounding more."""
    largest = max(abs(low), abs(high))
    if largest > _LARGEST_TERM or not isfinite(slack):
        raise _TooLargeError
    slack += float(largest) * _ROUNDING
    if unit is not None and max(_length(unit), _length(low), _length(high)) > _LONGEST:
        unit = None
    if unit is None:
        low, high = _rounded_down(low), -_rounded_down(-high)
    return Extent(low, high, unit, slack)


def _length(number: Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _rounded_down(number: Fraction) -> Fraction:
    """Return a short number that is not above this one, and hardly below."""
    if _length(number) <= _LONGEST:
        return number
    size = number.numerator.bit_length() - number.denominator.bit_length()
    step = Fraction(2) ** (max(size, -1100) - 120)
    return floor(number / step) * step


def _common(one: Fraction, other: Fraction) -> Fraction:
    """Return the largest unit of which both are whole numbers."""
    bottom = one.denominator * other.denominator
    top = gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(top, bottom)


def factor_extent(node: Node, schema: Schema) -> Extent:
    """Return how far a factor can go, from its columns' measures alone.

    Raises:
        InvalidInputError: somewhere in the agreed ranges it has no value.
    """
    try:
        return _extent(node, schema)
    except (_TooLargeError, OverflowError):
        raise InvalidInputError(
            f"the term {short_formula_text(formula_text(node))} can be beyond 1e300 in "
            "the agreed ranges; "
            "agree on narrower ones, or write another term",
            code="term-too-large",
        ) from None


def _extent(node: Node, schema: Schema) -> Extent:
    match node:
        case Named(name=name):
            found = schema.column(name).measure
            unit, least, most = found.unit, found.least, found.most
            made = _settled(least * unit, most * unit, unit, 0.0)
            return Extent(made.low, made.high, unit, made.slack, own=found)
        case Derived(column=column, place=place):
            return _derived_extent(node, column, place, schema)
        case Number(value=value):
            if not isfinite(value):
                raise _TooLargeError
            number = _fraction(node)
            return _settled(number, number, abs(number), 0.0)
        case Signed(sign=sign, inner=inner):
            found_inner = _extent(inner, schema)
            return found_inner.negated() if sign == "-" else found_inner
        case Operation(sign="**"):
            return _power_extent(node, schema)
        case Operation(sign=sign, left=left, right=right) if is_formula_condition(node):
            if isinstance(right, Level):
                return INDICATOR
            first, second = _extent(left, schema), _extent(right, schema)
            # Where float64 may decide a comparison wrongly, fractions do.
            slack = float(_settles(left, right, (first.unit, second.unit)))
            if sign in JOINED:
                slack = max(first.slack, second.slack)
            return replace(INDICATOR, slack=slack)
        case Chosen(condition=condition, yes=yes, no=no):
            doubt = _extent(condition, schema).slack
            return _extent(yes, schema).or_else(_extent(no, schema), doubt)
        case Operation(sign=sign, left=left, right=right):
            first, second = _extent(left, schema), _extent(right, schema)
            if sign in "+-":
                return first.plus(second if sign == "+" else second.negated())
            if sign == "*":
                return first.times(second)
            if second.low <= 0 <= second.high:
                _refuse_range(
                    *(node, f"divides by {formula_text(right)!r}", second, "may be 0"),
                    "a minimum above 0, or a maximum below",
                )
            return first.times(second.inverse())
        case Applied(function=function, inner=inner):
            name = function.removeprefix("np.")
            found_inner = _extent(inner, schema)
            if name == "I":
                return found_inner
            if name == "abs":
                return found_inner.absolute()
            return _function_extent(name, found_inner, node)
    raise TypeError(f"{formula_text(node)} is a category")


def _derived_extent(
    node: Derived, column: DerivedColumn, place: int, schema: Schema
) -> Extent:
    """Return the extent of one number of a derived column."""
    if column.form in {"intervals", "level"}:
        return INDICATOR
    inner = replace(_extent(Named(column.source.name), schema), own=None)
    match column.form:
        case "power":
            assert column.exponent is not None
            return inner.power(column.exponent)
        case "scale":
            assert column.unit is not None
            unit = 1 / column.unit
            return inner.times(_settled(unit, unit, unit, 0.0))
        case "natural spline" if place == 0:
            return inner
        case "natural spline":
            # A bend never falls.
            low, high = (
                column.smooth(place, inner.low),
                column.smooth(place, inner.high),
            )
            return _settled(low, high, None, column.slack(place, inner.low, inner.high))
        case "b-spline":
            slack = column.slack(place, inner.low, inner.high)
            return _settled(Fraction(0), Fraction(1), None, slack)
    return _function_extent(column.form, inner, node)


def _function_extent(name: str, inner: Extent, node: Applied | Derived) -> Extent:
    """Return the extent of a function that only grows."""
    low, high = inner.low - Fraction(inner.slack), inner.high + Fraction(inner.slack)
    of = node.column.source.name if isinstance(node, Derived) else node.inner
    if name in DOMAINS:
        edge, included = DOMAINS[name]
        if inner.low < edge or (inner.low == edge and not included):
            _refuse_range(
                *(
                    node,
                    f"takes {name} of {of if isinstance(of, str) else formula_text(of)!r}",
                    inner,
                ),
                f"may be {'below' if included else 'as low as'} {edge}",
                f"a minimum {'of' if included else 'above'} {edge}",
            )
        # Where float64 may err beyond the edge, rows will tell.
        if low < edge or (low == edge and not included):
            low = inner.low
    ends = FUNCTIONS[name](np.array([float(low), float(high)]))
    return _enclosed(ends)


def _enclosed(values: FloatArray) -> Extent:
    """Return what encloses values that functions gave, and their rounding."""
    if not np.isfinite(values).all():
        raise _TooLargeError
    low, high = Fraction(float(values.min())), Fraction(float(values.max()))
    low -= abs(low) * _FUNCTION_ROUNDING
    high += abs(high) * _FUNCTION_ROUNDING
    return _settled(low, high, None, 0.0)


def _power_extent(node: Operation, schema: Schema) -> Extent:
    base = _extent(node.left, schema)
    constant = _constant(node.right)
    if constant is not None and isfinite(constant.value):
        times = _fraction(constant)
        if times.denominator == 1 and abs(times) <= 1000:
            if times >= 0:
                return base.power(int(times))
            if base.low <= 0 <= base.high:
                _refuse_range(
                    *(
                        node,
                        f"divides by {formula_text(node.left)!r}",
                        base,
                        "may be 0",
                    ),
                    "a minimum above 0, or a maximum below",
                )
            return base.power(int(-times)).inverse()
    exponent = _extent(node.right, schema)
    if base.low < 0 or (base.low == 0 and exponent.low <= 0):
        _refuse_range(
            *(node, f"takes a power of {formula_text(node.left)!r}", base),
            *("may be 0 or below", "a minimum above 0"),
        )
    corners = [
        (max(a, Fraction(0)), b)
        for a in (base.low - Fraction(base.slack), base.high + Fraction(base.slack))
        for b in (
            exponent.low - Fraction(exponent.slack),
            exponent.high + Fraction(exponent.slack),
        )
    ]
    if base.low > 0:
        corners = [(a or base.low, b) for a, b in corners]
    ends = [[float(value) for value in pair] for pair in corners]
    return _enclosed(elementary.power(*np.array(ends).T))


def _constant(node: Node) -> Number | None:
    """Return a number that was written, perhaps with signs before it."""
    if isinstance(node, Signed) and (inner := _constant(node.inner)) is not None:
        return Number(-inner.value) if node.sign == "-" else inner
    return node if isinstance(node, Number) else None


def _refuse_range(
    node: Node, does: str, inner: Extent, problem: str, mend: str
) -> NoReturn:
    raise InvalidInputError(
        f"the term {short_formula_text(formula_text(node))} {does}, which is "
        f"{inner.words} in the agreed "
        f"ranges and {problem}; agree on {mend}, or use another term",
        code="term-range-undefined",
    )


def exact_factor_values(node: Node, table: CheckedTable) -> Any:
    """Return what arithmetic on columns is in every row, as fractions.

    What is not arithmetic has no unit, and does not come here.
    """
    match node:
        case Named(name=name):
            measure = table.schema.column(name).measure
            counts = measure.counts(table.numbers(name)).tolist()
            made = np.empty(len(counts), dtype=object)
            made[:] = [int(one) * measure.unit for one in counts]
            return made
        case Derived(column=column) if column.form in ("intervals", "level"):
            return np.asarray(evaluate(node, table.frame), dtype=np.int64)
        case Derived(column=column):
            exact = exact_factor_values(Named(column.source.name), table)
            if column.exponent is not None:
                return exact**column.exponent
            return exact if column.unit is None else exact / column.unit
        case Number():
            return _fraction(node)
        case Chosen(condition=condition, yes=yes, no=no):
            return values_by_condition(
                *(exact_factor_values(part, table) for part in (condition, yes, no))
            )
        case Operation(sign=sign, left=left, right=right) if sign in COMPARED:
            units = (
                []
                if isinstance(right, Level)
                else [_extent(side, table.schema).unit for side in (left, right)]
            )
            if not _settles(left, right, units):
                return np.asarray(evaluate(node, table.frame), dtype=np.int64)
            found = COMPARED[sign](
                exact_factor_values(left, table), exact_factor_values(right, table)
            )
            return np.asarray(found, dtype=np.int64)
        case Signed(sign=sign, inner=inner):
            return SIGNS[sign](exact_factor_values(inner, table))
        case Operation(sign="**", left=left, right=right):
            times = _constant(right)
            assert times is not None
            return exact_factor_values(left, table) ** int(times.value)
        case Operation(sign=sign, left=left, right=right):
            return ARITHMETIC[sign](
                exact_factor_values(left, table), exact_factor_values(right, table)
            )
        case Applied(function="abs" | "np.abs", inner=inner):
            return np.abs(exact_factor_values(inner, table))
        case Applied(inner=inner):
            return exact_factor_values(inner, table)
    raise TypeError(f"{formula_text(node)} is a category")


def _settles(left: Node, right: Node, units: Sequence[Fraction | None]) -> bool:
    """Say whether fractions settle a comparison, which float64 may get wrong.

    Columns and constants are compared as they are written, to the last digit, and what
    functions make has no unit: for these float64 does.
    """
    computed = any(
        not isinstance(one, Named) and _constant(one) is None for one in (left, right)
    )
    return computed and len(units) == 2 and None not in units


def _fraction(node: Number) -> Fraction:
    """Return a number as it was written: 0.1 is a tenth."""
    return Fraction(repr(node.value))
