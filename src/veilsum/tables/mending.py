"""All problems of a table with a dictionary, and lines that would mend them.

A line changes the dictionary, not the table. It is tried on the table before it is
proposed. Lines may hold values of the table: they are for its owner, who decides which
of them the others should see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.units import few_decimals_unit
from veilsum.tables.cleaning import clean_column, recoded_column_values
from veilsum.tables.columns import (
    Column,
    ColumnProblem,
    category_level_of_cell,
    column_levels,
    number_of_word,
)
from veilsum.tables.dictionaries import dictionary_column_line
from veilsum.tables.drafts import drafted_column, drafted_dates, round_range_outward
from veilsum.tables.frames import Frame, Series, as_frame, load_pandas
from veilsum.tables.schema import Schema

# Words of one column that are proposed to mean that there is no value.
MOST_NEW_WORDS = 20
# Numbers that tables have in place of a missing value, if they are out of range.
_CODE = re.compile(r"-?(?:9+|8+|7+)(?:\.0)?")


@dataclass(frozen=True)
class ColumnReport:
    """Problems of one column, and a line that would mend all of them.

    Attributes:
        name: of the column; "" for the table as a whole.
        problems: differences from the dictionary.
        line: the line of the dictionary that would mend them; of a column that nothing
            mends a comment, which leaves the column out; "" for none.
    """

    name: str
    problems: tuple[ColumnProblem, ...]
    line: str


@dataclass(frozen=True)
class TableReport:
    """Differences between a table and a dictionary, for the table's owner.

    Attributes:
        columns: reports of columns with problems, then that of the table.
        mended: the dictionary with all corrections; None if these do not suffice.
    """

    columns: tuple[ColumnReport, ...]
    mended: Schema | None

    @property
    def good(self) -> bool:
        return not self.columns

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "good": self.good,
            "columns": [
                {
                    "name": one.name or None,
                    "problems": [
                        {
                            "rule": problem.rule,
                            "code": problem.code,
                            "text": problem.message,
                            "values": [list(pair) for pair in problem.values],
                            "n_values": problem.n_values,
                        }
                        for problem in one.problems
                    ],
                    "line": one.line or None,
                }
                for one in self.columns
            ],
        }


def table_report(
    schema: Schema, frame: Any, more: tuple[ColumnProblem, ...] = ()
) -> TableReport:
    """Return all problems of a table with a schema, and lines that would mend them.

    Args:
        schema: what was agreed, or is to be.
        frame: a table as `as_frame` takes it.
        more: problems that were found when the table was read.
    """
    table: Frame = as_frame(frame)
    read = {(one.column, one.code) for one in more}
    found = [
        *more,
        *(
            one
            for one in schema.problems(table)
            # Texts that are no dates were found by the reader, with the form.
            if not (one.code == "not-dates" and (one.column, "malformed-date") in read)
        ),
    ]
    by_column: dict[str, list[ColumnProblem]] = {}
    for problem in found:
        rows = problem.rule in {"missing", "minimum_rows", "maximum_rows"}
        by_column.setdefault("" if rows else problem.column or "", []).append(problem)
    of_rows = by_column.pop("", [])
    columns = {one.name: one for one in schema.columns}
    reports = []
    for name, problems in by_column.items():
        mended = None
        if name in table:
            mended = mended_column(columns[name], table[name])
            # A date in another form than the file's own may look like one.
            unread = [v for one in more if one.column == name for v, _ in one.values]
            if mended is not None and not {*unread} <= {*mended.missing}:
                mended = None
        if mended is None:
            line = f"# {dictionary_column_line(columns.pop(name))}"
        else:
            columns[name], line = mended, dictionary_column_line(mended)
        reports.append(ColumnReport(name, tuple(problems), line))
    if not columns:
        return TableReport(_mended_schema_with_rows(reports, of_rows, ""), None)
    changed = schema.with_columns([*columns.values()])
    of_rows = [*changed.problems(table)]
    lines = _mended_schema_row_lines(changed, table)
    mended_schema = replace(changed, **lines)
    if mended_schema.problems(table):
        return TableReport(_mended_schema_with_rows(reports, of_rows, ""), None)
    text = "\n".join(
        f"{key} = {value!r}".replace("'", '"') for key, value in lines.items()
    )
    return TableReport(_mended_schema_with_rows(reports, of_rows, text), mended_schema)


def _mended_schema_with_rows(
    reports: list[ColumnReport], problems: list[ColumnProblem], line: str
) -> tuple[ColumnReport, ...]:
    if not problems and not line:
        return tuple(reports)
    return (*reports, ColumnReport("", tuple(problems), line))


def _mended_schema_row_lines(schema: Schema, table: Frame) -> dict[str, Any]:
    """Return keys of [schema] that let the table's rows pass."""
    lines: dict[str, Any] = {}
    for _ in range(3):
        for problem in replace(schema, **lines).problems(table):
            complete = int(np.count_nonzero(schema.complete_rows(table)))
            if problem.rule == "missing":
                lines["missing"] = "drop"
            elif problem.rule == "minimum_rows" and complete:
                lines["minimum_rows"] = complete
            elif problem.rule == "maximum_rows":
                lines["maximum_rows"] = complete
    return lines


def mended_column(column: Column, values: Series) -> Column | None:
    """Return a column that admits all of these values, or None if there is none."""
    for candidate in _column_mending_candidates(column, values):
        with suppress(InvalidInputError):
            made = candidate()
            if made is not None and not clean_column(made, values).problems:
                return made
    return None


def _column_mending_candidates(
    column: Column, values: Series
) -> Iterator[Callable[[], Column | None]]:
    """Yield ways to change a column, those that change little first."""
    if column.is_category:
        yield lambda: _mended_column_with_levels(column, values, recode=True)
        yield lambda: _mended_column_with_levels(column, values, recode=False)
    else:
        yield lambda: _mended_column_with_words(column, values, codes=True)
        yield lambda: _mended_column_with_words(column, values, codes=False)
    yield lambda: drafted_column(column.name, values, least_rows=1)[0]
    yield lambda: Column(
        column.name, "category", categories=tuple(sorted(column_levels(values)))
    )


def _mended_column_with_levels(
    column: Column, values: Series, *, recode: bool
) -> Column:
    """Return a category with further levels, or with other spellings of its own.

    A text that cannot be a level is proposed as a word for a missing value.
    """
    own: dict[str, set[str]] = {}
    for known in column.categories:
        for spelling in _column_level_spellings(known):
            own.setdefault(spelling, set()).add(known)
    recoded, levels = dict(column.recode), list[str]()
    missing = [*column.missing]
    plain, _ = recoded_column_values(column, values)
    for level in sorted(column_levels(plain)):
        if level in column.categories:
            continue
        alike = set().union(
            *(own.get(s, set()) for s in _column_level_spellings(level))
        )
        if recode and len(alike) == 1:
            recoded[level] = alike.pop()
        elif _text_can_be_column_level(level):
            levels.append(level)
        else:
            missing.append(level)
    law = () if levels else column.law
    return replace(
        column,
        categories=(*column.categories, *levels),
        law=law,
        recode=tuple(recoded.items()),
        missing=tuple(missing),
    )


def _text_can_be_column_level(text: str) -> bool:
    """Say whether a text can be a level: some characters are not allowed in one."""
    try:
        Column("x", "category", categories=(text,))
    except InvalidInputError:
        return False
    return True


def _column_level_spellings(level: str) -> set[str]:
    """Return the level without its capitals and extra spaces, and without zeros."""
    return {" ".join(level.split()).casefold(), level.lstrip("0") or "0"}


def _mended_column_with_words(
    column: Column, values: Series, *, codes: bool
) -> Column | None:
    """Return a column of numbers or dates with words for missing values."""
    found = clean_column(column, values)
    words = list(column.missing)
    for problem in found.problems:
        if problem.rule in {"type", "finite"}:
            words += _words_of_column_problem(problem)
        elif codes and problem.rule == "range" and column.kind != "date":
            words += [one for one, _ in problem.values if _CODE.fullmatch(one)]
    if len(words) - len(column.missing) > MOST_NEW_WORDS:
        return None
    # Without a range every number is a value: the range comes first.
    left = _numbers_left_in_column(
        column, values, {_column_level_spelling(one) for one in words}
    )
    if left is None or not len(left):
        return None
    return _widen_column_range(column, left, tuple(words))


def _words_of_column_problem(problem: ColumnProblem) -> list[str]:
    if problem.n_values > len(problem.values):
        raise InvalidInputError("too many words", code="too-many-entries")
    return [one for one, _ in problem.values]


def _column_level_spelling(word: str) -> str:
    try:
        return category_level_of_cell(number_of_word(word))
    except ValueError:
        return word


def _numbers_left_in_column(
    column: Column, values: Series, words: set[str]
) -> FloatArray | None:
    """Return the numbers or days of a column that are none of these words."""
    plain, _ = recoded_column_values(column, values)
    cells = plain.dropna().astype(object)
    keys = cells.map(category_level_of_cell).map(
        lambda one: _column_level_spelling(one)
    )
    left = cells[~keys.isin([*words])]
    if column.kind == "date":
        found = clean_column(Column(column.name, "date", since=column.since), left)
        return None if found.problems else np.asarray(found.values, dtype=np.float64)
    if any(isinstance(one, str | bool) for one in left):
        return None
    return left.to_numpy(dtype=np.float64)


def _widen_column_range(
    column: Column, numbers: FloatArray, words: tuple[str, ...]
) -> Column:
    """Return a column whose range, rounded outward, and kind admit these numbers."""
    low, high = float(numbers.min()), float(numbers.max())
    kind, unit = column.kind, column.unit
    if kind == "integer" and (np.rint(numbers) != numbers).any():
        kind, unit = "number", few_decimals_unit(numbers)
    step = unit or Fraction(1)
    ends: dict[str, Any] = {"minimum": column.minimum, "maximum": column.maximum}
    if kind == "date":
        decades = drafted_dates(
            column.name, load_pandas().Series(_column_date_range(column, numbers))
        )
        if column.minimum is not None and low < column.minimum:
            ends["minimum"] = decades.to_table()["minimum"]
        if column.maximum is not None and high > column.maximum:
            ends["maximum"] = decades.to_table()["maximum"]
    else:
        beyond = any(
            one.code == "beyond-unit"
            for one in clean_column(
                replace(column, missing=(), recode=(), cuts=(), law=()),
                load_pandas().Series(numbers),
            ).problems
        )
        if beyond or (column.minimum is not None and low < column.minimum):
            ends["minimum"] = 0 if low >= 0 else -round_range_outward(-low, step)
        if beyond or (column.maximum is not None and high > column.maximum):
            ends["maximum"] = round_range_outward(max(high, 0.0), step)
    moved = (ends["minimum"], ends["maximum"]) != (column.minimum, column.maximum)
    return replace(
        column,
        kind=kind,
        unit=unit,
        **ends,
        law=() if moved else column.law,
        missing=tuple(dict.fromkeys(words)),
    )


def _column_date_range(column: Column, days: FloatArray) -> list[str]:
    return [str(column.written(day)) for day in (days.min(), days.max())]


def table_report_lines(report: TableReport) -> Iterator[str]:
    """Yield a report as lines for the owner of the table."""
    for one in report.columns:
        yield f"{one.name or 'rows'}:"
        yield from (f"  - {problem.message}" for problem in one.problems)
        where = "[schema]" if not one.name else "[schema.columns]"
        if one.line.startswith("# "):
            yield "  no line mends this column; without it in [schema.columns]:"
        elif one.line:
            yield f"  a line of {where} that mends it:"
        else:
            yield "  no line mends this: correct the table"
        yield from (f"    {line}" for line in one.line.splitlines())
