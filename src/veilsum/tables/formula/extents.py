"""Extents of terms within the agreed ranges, and their values as exact fractions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, isfinite
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.units import UnitMeasure
from veilsum.tables.derived import DOMAINS, DerivedColumn
from veilsum.tables.formula.syntax import (
    FUNCTIONS,
    Derived,
    Named,
    Node,
    formula_text,
    short_formula_text,
)
from veilsum.tables.formula.values import evaluate
from veilsum.tables.schema import CheckedTable, Schema

# What one operation of float64 is off by, of its result; and a function, at most.
_ROUNDING = 2.0**-53
_FUNCTION_ROUNDING = Fraction(1, 2**45)
# Longer numbers are rounded outwards, units forgotten.
_LONGEST = 500
_LARGEST_TERM = Fraction(2) ** 1000


@dataclass(frozen=True)
class FormulaExtent:
    """Range and unit of a term over all rows that the schema admits.

    Attributes:
        low: smallest value.
        high: largest value.
        unit: unit of which all values are whole multiples; None if there is none.
        slack: maximum distance beyond `low` and `high` of a float64 result.
        own: measure of the column, if the term is a single column.
    """

    low: Fraction
    high: Fraction
    unit: Fraction | None
    slack: float = 0.0
    own: UnitMeasure | None = None

    @property
    def largest(self) -> Fraction:
        """Largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def words(self) -> str:
        return f"from {float(self.low):g} to {float(self.high):g}"

    def measure(self, bits: int) -> UnitMeasure:
        """Return how the term is counted, in so many bits of its range."""
        if self.own is not None:
            return self.own
        span = self.high - self.low
        if self.unit is not None and span <= self.unit * 2**bits:
            return UnitMeasure.of(self.low, self.high, self.unit or Fraction(1))
        slack = Fraction(self.slack)
        return UnitMeasure.of(self.low - slack, self.high + slack, bits=bits)

    def needs_exact(self, bits: int) -> bool:
        """Say whether float64 might not find the right count."""
        if self.unit is None or self.own is not None:
            return False
        found = self.measure(bits)
        return found.wide or self.slack > found.unit / 4

    def times(self, other: FormulaExtent) -> FormulaExtent:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        unit = None
        if self.unit is not None and other.unit is not None:
            unit = self.unit * other.unit
        mine, others = float(self.largest), float(other.largest)
        slack = self.slack * others + other.slack * mine + self.slack * other.slack
        return _settled_formula_extent(min(ends), max(ends), unit, slack)

    def power(self, times: int) -> FormulaExtent:
        """Return a whole power's, 0 or more."""
        ends = (self.low**times, self.high**times)
        low, high = min(ends), max(ends)
        if times % 2 == 0 and self.low < 0 < self.high:
            low = Fraction(0)
        unit = None
        if self.unit is not None:
            unit = self.unit**times
        if max(abs(low), abs(high)) > _LARGEST_TERM:
            raise _TooLargeError
        largest = float(self.largest) + self.slack
        # What the base is off, and what every product rounds.
        off = self.slack + largest * _ROUNDING
        slack = times * off * largest ** max(times - 1, 0)
        return _settled_formula_extent(low, high, unit, slack)


ONES = FormulaExtent(Fraction(1), Fraction(1), Fraction(1))
INDICATOR = FormulaExtent(Fraction(0), Fraction(1), Fraction(1))


class _TooLargeError(Exception):
    """A term may be beyond what float64 has."""


def _settled_formula_extent(
    low: Fraction, high: Fraction, unit: Fraction | None, slack: float
) -> FormulaExtent:
    """Return an extent of numbers that stay short, and one rounding more."""
    largest = max(abs(low), abs(high))
    if largest > _LARGEST_TERM or not isfinite(slack):
        raise _TooLargeError
    slack += float(largest) * _ROUNDING
    if (
        unit is not None
        and max(
            _formula_number_length(unit),
            _formula_number_length(low),
            _formula_number_length(high),
        )
        > _LONGEST
    ):
        unit = None
    if unit is None:
        low, high = _round_extent_down(low), -_round_extent_down(-high)
    return FormulaExtent(low, high, unit, slack)


def _formula_number_length(number: Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _round_extent_down(number: Fraction) -> Fraction:
    """Return a short number that is not above this one, and hardly below."""
    if _formula_number_length(number) <= _LONGEST:
        return number
    size = number.numerator.bit_length() - number.denominator.bit_length()
    step = Fraction(2) ** (max(size, -1100) - 120)
    return floor(number / step) * step


def factor_extent(node: Node, schema: Schema) -> FormulaExtent:
    """Return how far a factor can go, from its columns' measures alone.

    Raises:
        InvalidInputError: somewhere in the agreed ranges it has no value.
    """
    try:
        return _formula_node_extent(node, schema)
    except (_TooLargeError, OverflowError):
        raise InvalidInputError(
            f"the term {short_formula_text(formula_text(node))} can be beyond 1e300 in "
            "the agreed ranges; agree on narrower ones, or use another term",
            code="term-too-large",
        ) from None


def _formula_node_extent(node: Node, schema: Schema) -> FormulaExtent:
    match node:
        case Named(name=name):
            found = schema.column(name).measure
            unit, least, most = found.unit, found.least, found.most
            made = _settled_formula_extent(least * unit, most * unit, unit, 0.0)
            return FormulaExtent(made.low, made.high, unit, made.slack, own=found)
        case Derived(column=column, place=place):
            return _derived_extent(node, column, place, schema)
    raise TypeError(f"{formula_text(node)} is a category")


def _derived_extent(
    node: Derived, column: DerivedColumn, place: int, schema: Schema
) -> FormulaExtent:
    """Return the extent of one number of a derived column."""
    if column.form in {"intervals", "level"}:
        return INDICATOR
    inner = replace(_formula_node_extent(Named(column.source.name), schema), own=None)
    match column.form:
        case "power":
            assert column.exponent is not None
            return inner.power(column.exponent)
        case "scale":
            assert column.unit is not None
            unit = 1 / column.unit
            return inner.times(_settled_formula_extent(unit, unit, unit, 0.0))
        case "natural spline" if place == 0:
            return inner
        case "natural spline":
            # A bend never falls.
            low, high = (
                column.smooth(place, inner.low),
                column.smooth(place, inner.high),
            )
            return _settled_formula_extent(
                low, high, None, column.slack(place, inner.low, inner.high)
            )
        case "b-spline":
            slack = column.slack(place, inner.low, inner.high)
            return _settled_formula_extent(Fraction(0), Fraction(1), None, slack)
    return _function_extent(column.form, inner, node)


def _function_extent(name: str, inner: FormulaExtent, node: Derived) -> FormulaExtent:
    """Return the extent of a function that only grows."""
    low, high = inner.low - Fraction(inner.slack), inner.high + Fraction(inner.slack)
    if name in DOMAINS:
        edge, included = DOMAINS[name]
        if inner.low < edge or (inner.low == edge and not included):
            raise InvalidInputError(
                f"the derived column {short_formula_text(formula_text(node))} takes "
                f"{name} of {node.column.source.name!r}, which is {inner.words} in the "
                f"agreed ranges and may be {'below' if included else 'as low as'} "
                f"{edge}; agree on a minimum {'of' if included else 'above'} {edge}, "
                "or on another form",
                code="term-range-undefined",
            )
        # Where float64 may err beyond the edge, rows will tell.
        if low < edge or (low == edge and not included):
            low = inner.low
    ends = FUNCTIONS[name](np.array([float(low), float(high)]))
    return _enclosing_formula_extent(ends)


def _enclosing_formula_extent(values: FloatArray) -> FormulaExtent:
    """Return what encloses values that functions gave, and their rounding."""
    if not np.isfinite(values).all():
        raise _TooLargeError
    low, high = Fraction(float(values.min())), Fraction(float(values.max()))
    low -= abs(low) * _FUNCTION_ROUNDING
    high += abs(high) * _FUNCTION_ROUNDING
    return _settled_formula_extent(low, high, None, 0.0)


def exact_factor_values(node: Node, table: CheckedTable) -> Any:
    """Return what a column of numbers is in every row, as fractions.

    What functions and splines make has no unit, and does not come here.
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
    raise TypeError(f"{formula_text(node)} is a category")
