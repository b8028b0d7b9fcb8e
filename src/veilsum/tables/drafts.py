"""A schema drafted from one's own table, to be edited and agreed on.

A draft is passed on, so it is made of what says little: the columns' names and kinds,
how many decimals their numbers have, and ranges that many tables would have. No value
of the table is in it; levels of categories are values, and are listed only if asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from math import floor, log10
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.units import few_decimals
from veilsum.tables.columns import (
    Column,
    column_day,
    column_holds_dates,
    column_levels,
    column_nature,
)
from veilsum.tables.frames import Frame, Series, as_frame

# Day 0 of every drafted date: it says nothing of the table.
SINCE = "2000-01-01"
# No end of a range is nearer to 0 than so many units: small counts would be told.
LEAST_UNITS = 10
# Texts with more different ones are hardly a category.
MOST_LEVELS = 40
TELLS = (
    "the columns' names, and which hold numbers, dates or texts",
    "how many decimals a column's numbers have, and whether some are below 0",
    "of each column the next of 1, 2, 5, 10, 20, 50 ... beyond its largest number",
    "of dates the decades of the first and the last",
    f"which columns are empty, and which hold more than {MOST_LEVELS} different texts",
)
TELLS_LEVELS = "every level of a category that occurs in this table"
CHECK = (
    "each column means the same at every party, in the same unit",
    "ranges: those that any party may have, and as narrow as all can agree on; a "
    "column of 0 and 1 has maximum = 1",
    "units: the last digit that means something; without one, 40 bits of the range",
    "categories: all levels that any party may have, the reference first; numbers that "
    'are codes, such as 1 and 2 for the sexes, are kind = "category" too',
    "columns that no question needs, record numbers above all: leave them out",
    "missing, minimum_rows and maximum_rows: they are not read off this table",
)


@dataclass(frozen=True)
class Draft:
    """A drafted schema.

    Attributes:
        columns: by name, what a line of [schema.columns] says; None if it must be
            written by hand.
        remarks: by name, what its owner should look at.
        tells: what the draft tells about the table to whoever reads it.
    """

    columns: dict[str, dict[str, Any] | None]
    remarks: dict[str, str]
    tells: tuple[str, ...]

    @property
    def toml(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield "# A draft. Check with the others before you agree:"
        yield from (f"# - {line}" for line in CHECK)
        yield "# Whoever reads it learns of the table it was made of:"
        yield from (f"# - {line}" for line in self.tells)
        yield '\n[schema]\nmissing = "drop"\nminimum_rows = 5\n\n[schema.columns]'
        for name, line in self.columns.items():
            remark = f"  # {self.remarks[name]}" if name in self.remarks else ""
            if line is None:
                yield f"# {_key(name)} = {{ }}{remark}"
                continue
            said = ", ".join(f"{key} = {_toml(value)}" for key, value in line.items())
            yield f"{_key(name)} = {{ {said} }}{remark}"


def draft_schema(frame: Any, *, levels: bool = False) -> Draft:
    """Return a schema for tables like this one, without a value of it.

    Args:
        frame: a table as `as_frame` takes it.
        levels: whether the levels of categories are listed: they are values.
    """
    table: Frame = as_frame(frame)
    columns: dict[str, dict[str, Any] | None] = {}
    remarks: dict[str, str] = {}
    for name in table.columns:
        values = table[name]
        try:
            line, remark = _line(name, values, levels=levels)
        except InvalidInputError as error:
            line, remark = None, str(error)
        columns[name] = line
        if remark:
            remarks[name] = " ".join(remark.split())
    tells = (*TELLS, TELLS_LEVELS) if levels else TELLS
    return Draft(columns, remarks, tells)


def _line(
    name: str, values: Series, *, levels: bool
) -> tuple[dict[str, Any] | None, str]:
    """Return what a column is drafted as, and a remark."""
    Column(name, "number")  # a name that no schema may have is said here
    found = column_nature(values)
    if found == "empty":
        return None, "there is no value of it in this table: say what it holds"
    if column_holds_dates(values):
        return _dates(values), ""
    if found in {"numbers", "whole numbers"}:
        numbers = values.dropna().to_numpy(dtype=np.float64)
        return _numbers(numbers[np.isfinite(numbers)], whole=found == "whole numbers")
    held = column_levels(values)
    if len(held) > MOST_LEVELS:
        return None, "many different texts: a name or a remark? then leave it out"
    if not levels:
        return {"kind": "category", "categories": []}, "list all levels"
    listed = tuple(sorted(held))
    Column(name, "category", categories=listed)
    return {"kind": "category", "categories": [*listed]}, "whose levels? all parties'"


def _numbers(numbers: FloatArray, *, whole: bool) -> tuple[dict[str, Any], str]:
    decimals = Fraction(1) if whole else few_decimals(numbers)
    unit = decimals or Fraction(1, 10**6)
    line: dict[str, Any] = {"kind": "integer" if whole else "number"}
    below = numbers.size and float(numbers.min()) < 0
    line["minimum"] = -_beyond(-float(numbers.min()), unit) if below else 0
    line["maximum"] = _beyond(max(float(numbers.max(initial=0.0)), 0.0), unit)
    if decimals is not None and not whole:
        places = len(str(decimals.denominator)) - 1
        line["unit"] = _number(decimals) if places < 5 else f"{places} decimals"
        return line, ""
    return line, "" if whole else "no few decimals: agree on a unit"


def _beyond(number: float, unit: Fraction) -> float | int:
    """Return the next of 1, 2, 5, 10, 20, 50 ... beyond a number, 10 units at least."""
    least = max(Fraction(number), LEAST_UNITS * unit)
    power = Fraction(10) ** floor(log10(least))
    for step in (Fraction(1, 10), 1, 2, 5, 10, 20):
        found = step * power
        # Ten units are there for whoever has fewer.
        if found > number and found >= least:
            return _number(found)
    raise AssertionError("one of these is larger")


def _number(value: Fraction) -> float | int:
    return int(value) if value.denominator == 1 else float(value)


def _dates(values: Series) -> dict[str, Any]:
    days = [column_day(one) for one in values.dropna().drop_duplicates()]
    first, last = (date.fromordinal(one) for one in (min(days), max(days)))
    start, end = first.year // 10 * 10, last.year // 10 * 10 + 9
    if first == date(start, 1, 1):  # an end is no date of the table
        start -= 10
    if last == date(end, 12, 31):
        end += 10
    return {
        "kind": "date",
        "since": SINCE,
        "minimum": f"{max(start, 1):04}-01-01",
        "maximum": f"{min(end, 9999):04}-12-31",
    }


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """Return a value as TOML has it; JSON's texts, numbers and lists are TOML's too."""
    return json.dumps(value, ensure_ascii=False)
