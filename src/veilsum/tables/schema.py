"""Agreed schema of the parties' tables, and the check of one table.

A schema is written before anybody looks at data, as TOML:

    [schema]
    missing = "drop"
    minimum_rows = 5
    maximum_rows = 200

    [schema.columns]
    age = { kind = "number", minimum = 0, maximum = 120, unit = 1 }
    seen = { kind = "date", since = "2000-01-01", maximum = "2026-12-31" }
    sex = { kind = "category", categories = ["1", "2"] }
    age_2 = { of = "age", as = "power", exponent = 2 }
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args

import numpy as np
from msgspec import Meta

from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import Array, FloatArray, listed_names, nearest_name
from veilsum.numbers.secrets import Secret
from veilsum.reading import (
    Section,
    Table,
    Text,
    Whole,
    missing_key_error as missing_key,
    read_section,
)
from veilsum.tables.cleaning import (
    clean_column,
    column_gaps,
    recoded_column_values,
    recoded_values_words,
)
from veilsum.tables.columns import (
    Codes,
    Column,
    ColumnProblem,
    Flags,
    Nature,
    SchemaError,
    column_day,
    column_levels,
    column_names_alike,
    column_nature_or_dates,
    looks_like_dates,
    measured_column,
)
from veilsum.tables.derived import DerivedColumn, derived_lines, is_derived_line
from veilsum.tables.frames import Frame, Series, as_frame, load_pandas
from veilsum.tables.rules import MINIMUM_ROWS, Rules, how_table_rows_are_agreed

__all__ = ["CheckedTable", "Column", "Schema", "SchemaError"]

Missing = Literal["refuse", "drop"]
MOST_COLUMNS, MOST_ROWS = 10_000, 10**9
MISSING: tuple[Missing, ...] = get_args(Missing)

# Day 0 of dates that nobody agreed about, in a simulation.
SINCE = "1970-01-01"

Values = FloatArray | Codes


AnyList = Annotated[tuple[Any, ...], Meta(description="a list")]


class ColumnSection(Section, frozen=True, kw_only=True):
    """One line of [schema.columns]; the column itself knows what fits together."""

    kind: Annotated[Any, Meta(description="number, integer, date or category")]
    minimum: Any = None
    maximum: Any = None
    unit: Any = None
    since: Any = None
    categories: AnyList | None = None
    cuts: AnyList | None = None
    law: AnyList | None = None
    recode: (
        Annotated[
            dict[str, Any],
            Meta(description='a table of values and what each means, { "F" = "f" }'),
        ]
        | None
    ) = None
    missing: AnyList | None = None


COLUMNS_EXPECTED = "a section [schema.columns] with one line per column"
Columns = Annotated[dict[str, Any], Meta(description=COLUMNS_EXPECTED)]
COMPLETE_EXPECTED = 'a list of names of columns, such as ["age", "sex"]'


class SchemaSection(Section, frozen=True, kw_only=True):
    """The [schema] of a file.

    A scenario may name a dictionary in place of everything else; reading the scenario
    puts the content of the dictionary there.
    """

    dictionary: Text | None = None
    columns: Columns | None = None
    missing: Any = None
    complete: Annotated[
        list[Any] | dict[str, Any] | None, Meta(description=COMPLETE_EXPECTED)
    ] = None
    minimum_rows: Whole | None = None
    maximum_rows: Whole | None = None

    @classmethod
    def has_required(cls) -> bool:
        """Say that an empty heading is refused: columns or a dictionary are needed."""
        return True

    @property
    def schema(self) -> Schema:
        if self.dictionary is not None:
            raise InvalidScenarioError(
                f"[schema] names the dictionary {self.dictionary!r}, and this file has "
                "to hold its content: veilsum consortium new writes it there",
                code="dictionary-not-resolved",
            )
        if self.columns is None:
            raise missing_key("[schema]", "columns", COLUMNS_EXPECTED)
        rest = {key: value for key, value in self.given().items() if key != "columns"}
        if isinstance(self.complete, dict):
            rest["complete"] = tuple(
                _schema_column(*line) for line in self.complete.items()
            )
        derived: Any = {
            name: line for name, line in self.columns.items() if is_derived_line(line)
        }
        plain = tuple(
            _schema_column(name, line)
            for name, line in self.columns.items()
            if name not in derived
        )
        return Schema(plain, derived=derived, **rest)


def _schema_column(name: str, line: object) -> Column:
    where = f"[schema.columns] {name}"
    if not isinstance(line, Mapping):
        raise InvalidInputError(
            f'{where} must be a table, such as {{ kind = "number" }}, found {line!r}',
            code="column-not-table",
        )
    return Column(name, **read_section(line, ColumnSection, where).given())


@dataclass(frozen=True)
class Schema:
    """The columns of every party's table, and which tables may take part.

    The columns are kept in the order of their names, so that two files that list them
    differently are the same agreement.

    Attributes:
        columns: what each column may hold.
        derived: columns that follow from these, row by row, for formulas; a mapping of
            names and lines such as `{"log_cost": {"of": "cost", "as": "log"}}` is
            accepted.
        missing: `refuse` a table with missing values, or `drop` rows that have one.
        complete: columns that every row needs. Rows with a missing value in one of
            them are excluded from all questions, which then use the same rows. Names
            are accepted.
        minimum_rows: a table with fewer rows is not used at all.
        maximum_rows: a table with more rows is refused; None for no bound.
    """

    columns: tuple[Column, ...]
    missing: Missing = "refuse"
    minimum_rows: int = MINIMUM_ROWS
    maximum_rows: int | None = None
    derived: tuple[DerivedColumn, ...] = ()
    complete: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.columns, key=lambda column: column.name))
        object.__setattr__(self, "columns", ordered)
        _check_schema_columns(self.names)
        lines = derived_lines(self.derived)
        if lines:
            _check_schema_columns(sorted([*self.names, *lines]))
        made = (
            DerivedColumn.from_line(name, lines[name], self._by_name)
            for name in sorted(lines)
        )
        object.__setattr__(self, "derived", tuple(made))
        object.__setattr__(self, "complete", self._resolved_complete())
        if self.missing not in MISSING:
            raise InvalidInputError(
                f"the schema's missing is {self.missing!r}; choose from "
                f"{' and '.join(MISSING)}",
                code="unknown-missing",
            )
        _check_schema_rows("minimum_rows", self.minimum_rows, least=1)
        if self.maximum_rows is not None:
            _check_schema_rows(
                "maximum_rows", self.maximum_rows, least=self.minimum_rows
            )

    def rules(self, others: Rules) -> Rules:
        """Return rules with what is agreed here about row counts."""
        return replace(
            others, minimum_rows=self.minimum_rows, maximum_rows=self.maximum_rows
        )

    @classmethod
    def from_table(cls, table: Table) -> Schema:
        """Return the schema in a `[schema]` section, or in a file with only that."""
        section = table["schema"] if set(table) == {"schema"} else table
        return read_section(section, SchemaSection, "[schema]").schema

    @classmethod
    def inferred(
        cls,
        frames: Mapping[str, Frame],
        columns: Sequence[str] | None = None,
        *,
        missing: Missing = "drop",
        minimum_rows: int | None = None,
    ) -> Schema:
        """Return a schema that fits these tables: for simulations only.

        Here one computer holds all tables. A real consortium cannot look at them all,
        and writes its schema down instead. Columns of numbers get the range and the
        decimals that all values together have, whoever has which; other columns become
        categories with every value that occurs in some table.

        Args:
            frames: every party's table.
            columns: the columns to keep; without them, those of the first table.
            missing: what to do about missing values.
            minimum_rows: the fewest rows a table may have; by default as few as one of
                these has, but no fewer than 5.
        """
        tables = {party: as_frame(frame) for party, frame in frames.items()}
        if not tables:
            raise InvalidInputError(
                "a schema is inferred from one table or more", code="no-tables"
            )
        made = _infer_schema_columns(tables, columns)
        if minimum_rows is None:
            names = [one.name for one in made]
            whole = [_n_complete_table_rows(frame, names) for frame in tables.values()]
            minimum_rows = max(MINIMUM_ROWS, min(whole))
        largest = max(len(frame) for frame in tables.values())
        return cls(
            made,
            missing=missing,
            minimum_rows=minimum_rows,
            maximum_rows=max(largest, minimum_rows),
        )

    def measured(self, frames: Mapping[str, Frame]) -> Schema:
        """Return the schema with units and ranges for all numbers: simulations only.

        What was agreed on stays; the rest is read off all tables together.
        """
        made = tuple(
            one
            if one.is_category or one.is_measured
            else measured_column(
                one,
                [
                    recoded_column_values(one, f[one.name])[0]
                    for f in frames.values()
                    if one.name in f
                ],
            )
            for one in self.columns
        )
        return replace(self, columns=made)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def names_with_complete(self) -> tuple[str, ...]:
        """The names of the columns, and of those that every row needs."""
        return tuple(sorted({*self.names, *(one.name for one in self.complete)}))

    @property
    def categorical(self) -> tuple[str, ...]:
        """The names of the columns that hold categories."""
        return tuple(one.name for one in self.columns if one.is_category)

    @property
    def dates(self) -> tuple[str, ...]:
        """The names of the columns that hold dates."""
        return tuple(one.name for one in self.columns if one.kind == "date")

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def with_derived(self, lines: Mapping[str, Any]) -> Schema:
        """Return the schema with further derived columns.

        Args:
            lines: by name, as in `[schema.columns]`.
        """
        known, lines = derived_lines(self.derived), derived_lines(lines)
        twice = [name for name in lines if known.get(name, lines[name]) != lines[name]]
        if twice:
            raise InvalidInputError(
                f"the schema derives {twice[0]!r} in another way; choose another name",
                code="duplicate-column",
            )
        derived: Any = {**known, **lines}
        return replace(self, derived=derived)

    def only(self, names: Collection[str | None]) -> Schema:
        """Return the schema with some columns, and columns that these derive from."""
        derived = tuple(one for one in self.derived if one.name in names)
        needed = {*names, *(one.source.name for one in derived)}
        columns = tuple(one for one in self.columns if one.name in needed)
        return replace(self, columns=columns, derived=derived)

    def with_columns(self, columns: Sequence[Column]) -> Schema:
        """Return the schema with other plain columns; the rest derives of them."""
        names = {one.name for one in columns}
        derived = tuple(one for one in self.derived if one.source.name in names)
        return replace(self, columns=tuple(columns), derived=derived)

    @cached_property
    def derived_by_name(self) -> dict[str, DerivedColumn]:
        """The derived columns by their names."""
        return {one.name: one for one in self.derived}

    def column(self, name: str) -> Column:
        """Return the column of this name."""
        if name in self.derived_by_name:
            raise InvalidInputError(
                f"{name!r} is a derived column, which stands among the terms of a "
                "model only; here a plain column of the tables is needed",
                code="derived-column-misplaced",
            )
        if name not in self:
            raise InvalidInputError(
                f"the schema has no column {name!r}; {nearest_name(name, self.names)}"
                f"its columns are {listed_names(self.names)}",
                code="unknown-column",
            )
        return self._by_name[name]

    def to_table(self) -> dict[str, Any]:
        """Return the schema as a plain table: the same for the same agreement."""
        table: dict[str, Any] = {
            "missing": self.missing,
            "minimum_rows": self.minimum_rows,
        }
        if self.maximum_rows is not None:
            table["maximum_rows"] = self.maximum_rows
        if self.complete and all(one.name in self for one in self.complete):
            table["complete"] = [one.name for one in self.complete]
        elif self.complete:
            table["complete"] = {one.name: one.to_table() for one in self.complete}
        table["columns"] = {column.name: column.to_table() for column in self.columns}
        table["columns"] |= derived_lines(self.derived)
        return table

    @property
    def digest(self) -> str:
        """SHA-256 of the content, the same in every file of the same agreement.

        It does not cover `complete`, which each study chooses.
        """
        table = replace(self, complete=()).to_table()
        text = json.dumps(table, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(b"veilsum dictionary\0" + text.encode()).hexdigest()

    def check(self, party: str, frame: Any) -> CheckedTable:
        """Return one party's table, checked and cleaned.

        Args:
            party: whose table it is; errors name it.
            frame: a table as `as_frame` takes it. More columns do not matter.

        Raises:
            SchemaError: the table is not what the schema says.
        """
        table = as_frame(frame)
        values: dict[str, Values] = {}
        n_rounded: dict[str, int] = {}
        n_recoded: dict[str, Mapping[str, int]] = {}
        problems: list[ColumnProblem] = []
        unusable: InvalidInputError | None = None
        for one in self.columns:
            if one.name not in table:
                problems.append(_absent_column_problem(one.name, list(table.columns)))
                continue
            try:
                found = clean_column(one, table[one.name])
            except InvalidInputError as error:  # a column without a unit
                unusable = unusable or error
                continue
            values[one.name] = found.values
            problems += found.problems
            if found.n_rounded:
                n_rounded[one.name] = found.n_rounded
            if found.recoded:
                n_recoded[one.name] = found.recoded
        if unusable is not None and not problems:
            raise unusable
        gaps = {name: _gaps_in_column(column) for name, column in values.items()}
        others: list[Flags] = []
        for one in self.complete:
            if one.name in gaps:
                others.append(gaps[one.name])
            elif one.name in table:
                others.append(column_gaps(one, table[one.name]))
                gaps[one.name] = others[-1]
            else:
                problems.append(_absent_column_problem(one.name, list(table.columns)))
        none = np.zeros(len(table), dtype=np.bool_)
        lost = reduce(np.logical_or, gaps.values(), none)
        n_dropped = int(np.count_nonzero(lost))
        problems += self._row_problems(gaps, len(table), n_dropped)
        if problems:
            raise SchemaError.from_problems(party, problems)
        left_out: dict[str, Values] = {}
        gapped = None
        if n_dropped:
            gapped = lost & ~reduce(np.logical_or, others, none)
            left_out = {name: column[gapped] for name, column in values.items()}
            values = {name: column[~lost] for name, column in values.items()}
        return CheckedTable(
            *(party, self, self._frame(values), n_dropped, n_rounded, n_recoded),
            kept=~lost if n_dropped else None,
            gapped=gapped,
            left_out=left_out,
        )

    def problems(self, frame: Any) -> tuple[ColumnProblem, ...]:
        """Return all differences between a table and the schema, for its owner."""
        try:
            self.check("", frame)
        except SchemaError as error:
            return error.problems
        return ()

    def changes(
        self, frame: Any
    ) -> tuple[dict[str, int], dict[str, Mapping[str, int]]]:
        """Return which values of a table are rounded, and which are recoded, by column.

        For the table's owner to see before it takes part: columns that are not there,
        or do not fit, are left out here and refused by `check`.
        """
        table = as_frame(frame)
        rounded: dict[str, int] = {}
        recoded: dict[str, Mapping[str, int]] = {}
        for one in self.columns:
            measured = one.is_category or one.is_measured
            if not measured or one.name not in table:
                continue
            found = clean_column(one, table[one.name])
            if found.problems:
                continue
            if found.n_rounded:
                rounded[one.name] = found.n_rounded
            if found.recoded:
                recoded[one.name] = found.recoded
        return rounded, recoded

    def complete_rows(self, frame: Any) -> Flags:
        """Return which rows of a table have no missing value after recoding.

        Columns that are not there are passed over.
        """
        table = as_frame(frame)
        whole = np.ones(len(table), dtype=np.bool_)
        for one in (*self.columns, *self.complete):
            if one.name in table:
                whole &= ~column_gaps(one, table[one.name])
        return whole

    def refused(self, rows: Mapping[str, int]) -> tuple[str, ...]:
        """Return the parties whose number of rows is below the minimum."""
        return tuple(party for party, n in rows.items() if n < self.minimum_rows)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def _resolved_complete(self) -> tuple[Column, ...]:
        """Return the columns that every row needs, in the order of their names."""
        given: Any = self.complete
        listed = not isinstance(given, str) and isinstance(given, Sequence)
        if not listed or not all(isinstance(one, str | Column) for one in given):
            raise InvalidInputError(
                f"the schema's complete must be {COMPLETE_EXPECTED}, found {given!r}",
                code="names-not-list",
            )
        named = {one if isinstance(one, str) else one.name: one for one in given}
        return tuple(
            self.column(name) if isinstance(one, str) else one
            for name, one in sorted(named.items())
        )

    def _row_problems(
        self, gaps: Mapping[str, Flags], n_rows: int, n_dropped: int
    ) -> Iterator[ColumnProblem]:
        """Yield problems with missing values and with the number of rows."""
        if self.missing == "refuse" and n_dropped:
            worst = max(gaps, key=lambda name: int(np.count_nonzero(gaps[name])))
            yield ColumnProblem(
                *(worst, "missing"),
                f"the table has {_schema_row_words(n_dropped)} with missing values "
                f"({np.count_nonzero(gaps[worst])} in column {worst!r}), the schema "
                'wants none; fill them in, or agree on missing = "drop" (in Python '
                'vs.Schema(..., missing="drop"))',
                "missing-values",
            )
            n_dropped = 0
        left = n_rows - n_dropped
        found = f"{_schema_row_words(left)} to use"
        if n_dropped:
            found = f"{found} ({n_dropped} dropped for missing values)"
        if left < self.minimum_rows:
            yield ColumnProblem(
                *(None, "minimum_rows"),
                f"the table has {found}, the schema wants at least "
                f"{self.minimum_rows}, so that sums do not show single rows; collect "
                f"more rows, or agree on {how_table_rows_are_agreed(left)}. Not "
                "sent.",
                "too-few-rows",
            )
        if self.maximum_rows is not None and left > self.maximum_rows:
            yield ColumnProblem(
                *(None, "maximum_rows"),
                f"the table has {found}, the schema wants at most "
                f"{self.maximum_rows}; take fewer rows, or agree on [schema] "
                f"maximum_rows = {left}",
                "too-many-rows",
            )

    def _frame(self, values: Mapping[str, Values]) -> Frame:
        pandas = load_pandas()
        made = {
            column.name: pandas.Categorical.from_codes(
                values[column.name], categories=list(column.categories)
            )
            if column.is_category
            else values[column.name]
            for column in self.columns
        }
        # The arrays are nobody else's: a copy would only cost another pass.
        return pandas.DataFrame(made, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class CheckedTable(Secret):
    """One party's rows, as the schema wants them.

    Attributes:
        party: whose rows they are.
        frame: the schema's columns: numbers as float64, the others as categories.
        n_dropped: how many rows were left out because of missing values.
        n_rounded: by column, how many values were not whole numbers of its unit and
            were rounded, where there were any; for the owner only.
        n_recoded: by column, how many rows had each agreed value that is recoded or
            means that there is none; for the owner only.
        kept: which rows of the table are here; None for all.
        gapped: rows with missing values in this question's columns only, and not in
            those that every row needs; None if no row is left out.
        left_out: their columns, with nan, or -1 of a category, for a missing value.
    """

    party: str
    schema: Schema
    frame: Frame
    n_dropped: int
    n_rounded: Mapping[str, int] = field(default_factory=dict)
    n_recoded: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    kept: Flags | None = None
    gapped: Flags | None = None
    left_out: Mapping[str, Values] = field(default_factory=dict)
    _codes: dict[str, Codes] = field(default_factory=dict, init=False)

    @property
    def n_rows(self) -> int:
        return len(self.frame)

    def sharing(self, columns: Mapping[str, PerRow]) -> CheckedTable:
        """Return the table with some columns in memory that holds the same numbers."""
        parts = {name: self.frame[name].array for name in self.frame.columns}
        frame = load_pandas().DataFrame(parts | dict(columns), copy=False)
        return replace(self, frame=frame)

    def only(self, rows: Array[Any]) -> CheckedTable:
        """Return some of its rows, and none that was left out."""
        frame = self.frame.iloc[rows]
        return replace(
            self, frame=frame, n_dropped=0, kept=None, gapped=None, left_out={}
        )

    @property
    def n_gapped(self) -> int:
        """The number of rows with missing values in this question's columns only."""
        return 0 if self.gapped is None else int(np.count_nonzero(self.gapped))

    def missing(self, column: str) -> Flags:
        """Return which of the rows that were left out lack a column."""
        return (
            _gaps_in_column(self.left_out[column])
            if self.left_out
            else np.zeros(0, np.bool_)
        )

    def numbers(self, column: str) -> PerRow:
        """Return a column of numbers; a category is refused."""
        if self.schema.column(column).is_category:
            raise InvalidInputError(
                f"column {column!r} is a category in the schema, and numbers are "
                'needed here; choose another column, or agree on kind = "number"',
                code="not-a-number-column",
            )
        return np.ascontiguousarray(self.frame[column].to_numpy(), dtype=np.float64)

    def look(self, column: str) -> Array[Any]:
        """Return a column of numbers, or the codes of a category's levels."""
        if not self.schema.column(column).is_category:
            return self.numbers(column)
        if column not in self._codes:
            self._codes[column] = np.asarray(self.frame[column].cat.codes.to_numpy())
        return self._codes[column]

    def whole(self, column: str) -> Array[Any]:
        """Return a column of all rows, incomplete ones last; nan or -1 is missing."""
        if not self.left_out:
            return self.look(column)
        return np.concatenate([self.look(column), self.left_out[column]])

    def present(self, columns: Sequence[str]) -> Flags:
        """Return which of all rows, incomplete ones last, have these columns."""
        gaps = (self.missing(one) for one in columns)
        lacking = reduce(np.logical_or, gaps, np.zeros(self.n_gapped, np.bool_))
        return np.concatenate([np.ones(self.n_rows, np.bool_), ~lacking])


def rounded_values_words(counts: Mapping[str, int]) -> str:
    """Return what was rounded, in words for the owner of a table.

    >>> rounded_values_words({"age": 1, "bmi": 12})
    'rounded to whole numbers of the agreed units: 1 value of age, 12 of bmi'
    """
    parts = [f"{number} of {name}" for name, number in counts.items()]
    first = next(iter(counts.values()))
    parts[0] = parts[0].replace(" of", " value of" if first == 1 else " values of", 1)
    return f"rounded to whole numbers of the agreed units: {', '.join(parts)}"


def changed_values_lines(
    rounded: Mapping[str, int], recoded: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...]:
    """Return lines for the owner of a table about values that were changed."""
    lines = [rounded_values_words(rounded)] if rounded else []
    return (*lines, *([recoded_values_words(recoded)] if recoded else []))


def _n_complete_table_rows(frame: Frame, names: Sequence[str]) -> int:
    """Return the number of rows without a missing value, without a copy of them."""
    lost = np.zeros(len(frame), dtype=np.bool_)
    for values in (frame[name] for name in names):
        plain = isinstance(values.dtype, np.dtype) and values.dtype.kind == "f"
        lost |= np.isnan(values.to_numpy()) if plain else values.isna().to_numpy()
    return len(frame) - int(np.count_nonzero(lost))


def _gaps_in_column(values: Values) -> Flags:
    return values < 0 if values.dtype.kind == "i" else np.isnan(values)


def _absent_column_problem(name: str, present: list[str]) -> ColumnProblem:
    return ColumnProblem(
        *(name, "column"),
        f"there is no column {name!r} in the table, the schema wants it; "
        f"{nearest_name(name, present)}rename a column, or agree on a schema "
        "without it",
        "missing-column",
    )


def _schema_row_words(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"


def _check_schema_columns(names: Sequence[str]) -> None:
    if not names:
        raise InvalidInputError("a schema needs one column or more", code="no-columns")
    if len(names) > MOST_COLUMNS:
        raise InvalidInputError(
            f"a schema has at most {MOST_COLUMNS:,} columns, found {len(names):,}; "
            "list those that the job uses",
            code="too-many-columns",
        )
    twice = [a for a, b in pairwise(names) if a == b]
    if twice:
        raise InvalidInputError(
            f"the schema has two columns named {twice[0]!r}", code="duplicate-column"
        )
    if pair := column_names_alike(names):
        raise InvalidInputError(
            f"the schema has two columns whose names look the same, {pair[0]!a} "
            f"and {pair[1]!a}; rename one",
            code="columns-look-same",
        )


def _check_schema_rows(key: str, value: Any, *, least: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole and least <= value <= MOST_ROWS):
        raise InvalidInputError(
            f"the schema's {key} must be a whole number, {MOST_ROWS:,} at most and "
            f"{least} or more, found {value!r}",
            code="row-limit-out-range",
        )


_NATURES: dict[Nature, str] = {
    "numbers": "numbers",
    "whole numbers": "numbers",
    "text": "categories",
    "true or false": "categories",
}


def _infer_schema_columns(
    frames: Mapping[str, Frame], names: Sequence[str] | None
) -> tuple[Column, ...]:
    """Return columns that fit every one of these tables, on one computer."""
    if isinstance(names, str):
        raise InvalidInputError(
            f"columns must be a list of names, such as [{names!r}], found {names!r}",
            code="columns-not-list",
        )
    chosen = list(next(iter(frames.values())).columns) if names is None else names
    return tuple(
        _infer_schema_column(name, _column_of_each_table(frames, name))
        for name in chosen
    )


def _column_of_each_table(frames: Mapping[str, Frame], name: str) -> dict[str, Series]:
    for party, frame in frames.items():
        if name not in frame.columns:
            present = list(frame.columns)
            raise InvalidInputError(
                f"the table of {party} has no column {name!r}; "
                f"{nearest_name(name, present)}its columns are "
                f"{listed_names(present)}; name the "
                "columns that all tables have with columns = [...]",
                code="missing-column",
            )
    return {party: frame[name] for party, frame in frames.items()}


def _infer_schema_column(name: str, parts: Mapping[str, Series]) -> Column:
    found = {party: column_nature_or_dates(values) for party, values in parts.items()}
    # A table without a single value in this column fits whatever the others have.
    found = {party: one for party, one in found.items() if one != "empty"}
    for party, values in parts.items():
        if found.get(party) == "text" and looks_like_dates(values):
            raise InvalidInputError(
                f"column {name!r} holds dates at {party} that are not written as "
                f'2001-12-31; read that file with dates = {{{name!r}: "%d.%m.%Y"}}, or '
                "as it has them",
                code="not-iso-dates",
            )
    kinds = {_NATURES.get(one, one) for one in found.values()}
    if kinds == {"categories"}:
        union = set().union(*(column_levels(values) for values in parts.values()))
        return Column(name, "category", categories=tuple(sorted(union)))
    if kinds == {"numbers"}:
        whole = set(found.values()) == {"whole numbers"}
        return measured_column(
            Column(name, "integer" if whole else "number"), parts.values()
        )
    if kinds == {"dates"}:
        each = [values.dropna().drop_duplicates() for values in parts.values()]
        days = [column_day(one) for values in each for one in values]
        low, high = (float(one - column_day(SINCE)) for one in (min(days), max(days)))
        return Column(name, "date", low, high, since=SINCE)
    raise InvalidInputError(_column_without_kind(name, found), code="kind-not-inferred")


def _column_without_kind(name: str, found: Mapping[str, str]) -> str:
    way_out = "leave it out with columns = [...], or write a schema"
    if not found:
        return f"column {name!r} is empty in every table; {way_out}"
    held: dict[str, str] = {}
    for party, one in found.items():
        held.setdefault(one, party)
    each = " and ".join(f"{one} at {party}" for one, party in held.items())
    comma = ""
    if "text" in held and {"numbers", "whole numbers"} & {*held}:
        who = held["text"]
        comma = f'a decimal comma at {who}? read that file with decimal = ","; '
    return f"column {name!r} holds {each}, which is no kind of column; {comma}{way_out}"
