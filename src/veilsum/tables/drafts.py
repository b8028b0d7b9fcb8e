"""A schema drafted from one's own table, to be edited, merged and agreed on.

A draft is passed on, so it is made of what says little: the columns' names and kinds,
how many decimals their numbers have, ranges rounded outward, and levels that enough
rows have. No number and no date of the table is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from math import floor, log10
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.units import few_decimals_unit
from veilsum.tables.cleaning import column_value_counts
from veilsum.tables.columns import (
    Column,
    column_day,
    column_holds_dates,
    column_levels,
    column_nature,
    float_values_of_column,
)
from veilsum.tables.dictionaries import dictionary_lines
from veilsum.tables.frames import Frame, Series, as_frame
from veilsum.tables.rules import MINIMUM_ROWS
from veilsum.tables.schema import Schema

# Day 0 of every drafted date: it says nothing of the table.
SINCE = "2000-01-01"
# No end of a range is nearer to 0 than so many units: small counts would be told.
LEAST_UNITS = 10
# Texts with more different ones are hardly a category.
MOST_LEVELS = 40
# Rows that a listed level has at least.
LEAST_ROWS = MINIMUM_ROWS
TELLS = (
    "the columns' names, and which hold numbers, dates or texts",
    "how many decimals a column's numbers have, and whether some are below 0",
    "of each column the next of 1, 2, 5, 10, 20, 50 ... beyond its largest number",
    "of dates the decades of the first and the last",
    f"levels of categories that {LEAST_ROWS} rows or more of this table have",
    f"which columns are empty, which hold more than {MOST_LEVELS} different texts, and "
    f"which of the others have no level with {LEAST_ROWS} rows",
)
CHECK = (
    "each column means the same at every party, in the same unit",
    "ranges: those that any party may have, and as narrow as all can agree on; a "
    "column of 0 and 1 has maximum = 1",
    "units: the last digit that means something; without one, 40 bits of the range",
    "categories: all levels that any party may have, the reference first; numbers that "
    'are codes, such as 1 and 2 for the sexes, are kind = "category" too',
    "other spellings and words for missing values: recode and missing of a column",
    "columns that no question needs, record numbers above all: leave them out",
    "missing, minimum_rows and maximum_rows: they are not read off this table",
)


@dataclass(frozen=True)
class DictionaryDraft:
    """A drafted dictionary.

    Attributes:
        columns: by name; None if the column must be written by hand.
        remarks: by name, advice to the owner of the table.
        tells: facts about the table that readers of the draft learn.
    """

    columns: dict[str, Column | None]
    remarks: dict[str, str]
    tells: tuple[str, ...] = TELLS

    @property
    def schema(self) -> Schema:
        """The drafted columns.

        Raises:
            InvalidInputError: nothing could be drafted.
        """
        found = (one for one in self.columns.values() if one is not None)
        return Schema(tuple(found), missing="drop")

    @property
    def toml(self) -> str:
        return "\n".join((*self._lines(), ""))

    def _lines(self) -> Iterator[str]:
        yield "# A draft. Check with the others before you agree:"
        yield from (f"# - {line}" for line in CHECK)
        yield "# Readers learn about the table that it was made from:"
        yield from (f"# - {line}" for line in self.tells)
        yield '\n[schema]\nmissing = "drop"\nminimum_rows = 5\n'
        yield from dictionary_lines(self.columns, self.remarks)


def draft_dictionary(frame: Any) -> DictionaryDraft:
    """Return a dictionary for tables like this one, without a single person's value.

    Args:
        frame: a table as `as_frame` takes it.
    """
    table: Frame = as_frame(frame)
    columns: dict[str, Column | None] = {}
    remarks: dict[str, str] = {}
    for name in table.columns:
        try:
            columns[name], remark = drafted_column(name, table[name])
        except InvalidInputError as error:
            columns[name], remark = None, str(error)
        if remark:
            remarks[name] = remark
    return DictionaryDraft(columns, remarks)


def drafted_column(
    name: str, values: Series, *, least_rows: int = LEAST_ROWS
) -> tuple[Column | None, str]:
    """Return what a column is drafted as, and a remark.

    Args:
        name: of the column.
        values: of the table.
        least_rows: number of rows that a listed level has at least.
    """
    Column(name, "number")  # a name that no schema may have is refused here
    nature = column_nature(values)
    if nature == "empty":
        return None, "there is no value of it in this table: write what it holds"
    if column_holds_dates(values):
        try:
            return drafted_dates(name, values), ""
        except (TypeError, ValueError):
            return None, "a day that is none, such as 2001-02-30, or a time of day"
    if nature in {"numbers", "whole numbers"}:
        numbers = float_values_of_column(values.dropna())
        finite = numbers[np.isfinite(numbers)]
        return _draft_number_column(name, finite, whole=nature == "whole numbers")
    if len(column_levels(values)) > MOST_LEVELS:
        return None, "many different texts: a name or a remark? then leave it out"
    rows = column_value_counts(values.dropna().astype(object).to_numpy())
    listed = sorted(level for level, n in rows.items() if n >= least_rows)
    if not listed:
        return None, f"no level has {least_rows} rows in this table: list the levels"
    return Column(name, "category", categories=tuple(listed)), (
        f"levels with fewer than {least_rows} rows are not listed: add all parties'"
    )


def _draft_number_column(
    name: str, numbers: FloatArray, *, whole: bool
) -> tuple[Column, str]:
    decimals = Fraction(1) if whole else few_decimals_unit(numbers)
    unit = decimals or Fraction(1, 10**6)
    below = numbers.size and float(numbers.min()) < 0
    column = Column(
        name,
        "integer" if whole else "number",
        minimum=-round_range_outward(-float(numbers.min()), unit) if below else 0,
        maximum=round_range_outward(max(float(numbers.max(initial=0.0)), 0.0), unit),
        unit=None if whole else decimals,
    )
    return column, "" if decimals else "no few decimals: agree on a unit"


def round_range_outward(number: float, unit: Fraction) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50 ... beyond a number, 10 units at least.

    >>> round_range_outward(37.7, Fraction(1, 10)), round_range_outward(3, Fraction(1))
    (50.0, 10.0)
    """
    least = max(Fraction(number), LEAST_UNITS * unit)
    power = Fraction(10) ** floor(log10(least))
    for step in (Fraction(1, 10), 1, 2, 5, 10, 20):
        end = step * power
        # A range of ten units is large enough for smaller numbers.
        if end > number and end >= least:
            try:
                return float(end)
            except OverflowError:
                raise InvalidInputError(
                    "its numbers are too large for a range", code="range-too-large"
                ) from None
    raise AssertionError("one of these is larger")


def drafted_dates(name: str, values: Series) -> Column:
    """Return a column of dates over the decades of its values."""
    days = [column_day(one) for one in values.dropna().drop_duplicates()]
    first, last = (date.fromordinal(one) for one in (min(days), max(days)))
    start, end = first.year // 10 * 10, last.year // 10 * 10 + 9
    if first == date(max(start, 1), 1, 1):  # an end is no date of the table
        start -= 10
    if last == date(end, 12, 31):
        end += 10
    least: Any = f"{max(start, 1):04}-01-01"
    most: Any = f"{min(end, 9999):04}-12-31"
    return Column(name, "date", least, most, since=SINCE)
