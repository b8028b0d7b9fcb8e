"""Dictionaries: schemas as TOML text, and several of them merged into one.

A merged dictionary fits every table that one of its parts fits: ranges widen, levels
unite, and units become fine enough for all. It does not depend on the order in which
parts are merged. A column on which parts contradict each other is left out and named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from math import gcd, lcm
from typing import Any

from veilsum.errors import InvalidInputError, printable
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.tables.columns import Column, Kind, day_zero_of_column
from veilsum.tables.derived import DerivedColumn
from veilsum.tables.schema import Missing, Schema

MOST_MERGED = 1000


def dictionary_toml(
    schema: Schema, heads: Sequence[str] = (), notes: Mapping[str, str] = {}
) -> str:
    """Return a schema as the text of a dictionary.

    Args:
        schema: what is written.
        heads: lines of a comment before it.
        notes: comments by column.
    """
    lines = [f"# {printable(line)}" for line in heads]
    lines += ["[schema]", f'missing = "{schema.missing}"']
    lines.append(f"minimum_rows = {schema.minimum_rows}")
    if schema.maximum_rows is not None:
        lines.append(f"maximum_rows = {schema.maximum_rows}")
    if schema.complete:
        names = [one.name for one in schema.complete]
        lines.append(f"complete = {_dictionary_toml_value(names)}")
    columns: dict[str, Column | DerivedColumn | None] = {
        **{one.name: one for one in schema.columns},
        **schema.derived_by_name,
    }
    return "\n".join([*lines, "", *dictionary_lines(columns, notes), ""])


def dictionary_lines(
    columns: Mapping[str, Column | DerivedColumn | None], notes: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of [schema.columns]; a column without content is commented."""
    yield "[schema.columns]"
    for name, column in columns.items():
        note = " ".join(printable(notes.get(name, "")).split())
        after = f"  # {note}" if note else ""
        if column is None:
            yield f"# {printable(_dictionary_toml_key(name))} = {{ }}{after}"
        else:
            yield f"{dictionary_column_line(column)}{after}"


def dictionary_column_line(column: Column | DerivedColumn) -> str:
    """Return the line of [schema.columns] that describes a column.

    >>> dictionary_column_line(Column("age", "number", 0, 120, unit=Fraction(1, 2)))
    'age = { kind = "number", minimum = 0, maximum = 120, unit = 0.5 }'
    """
    table = column.to_table()
    if column.unit is not None:
        table["unit"] = _dictionary_unit(column.unit)
    entries = ", ".join(
        f"{key} = {_dictionary_toml_value(value)}" for key, value in table.items()
    )
    return f"{_dictionary_toml_key(column.name)} = {{ {entries} }}"


def _dictionary_unit(unit: Fraction) -> Any:
    if unit.denominator == 1:
        return unit.numerator
    shown = float(unit)
    if unit.denominator <= 10**4 and Fraction(repr(shown)) == unit:
        return shown
    places = len(str(unit.denominator)) - 1
    if unit == Fraction(1, 10**places):
        return f"{places} decimals"
    return str(unit)


def _dictionary_toml_key(name: str) -> str:
    return (
        name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _dictionary_toml_value(name)
    )


def _dictionary_toml_value(value: Any) -> str:
    """Return a value as TOML has it; JSON's texts and numbers are TOML's too."""
    if isinstance(value, dict):
        entries = (
            f"{_dictionary_toml_value(key)} = {_dictionary_toml_value(one)}"
            for key, one in value.items()
        )
        return f"{{ {', '.join(entries)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_dictionary_toml_value, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


# Merging


@dataclass(frozen=True)
class DictionaryConflict:
    """A column that several dictionaries do not have in common.

    Attributes:
        reason: what they contradict each other about.
        line: a line of [schema.columns] that would settle it; "" for none.
    """

    reason: str
    line: str


@dataclass(frozen=True)
class MergedDictionary:
    """One dictionary of several.

    Attributes:
        schema: the columns that all parts have in common.
        conflicts: by name, columns that were left out.
        notes: by name, remarks on columns that are there.
    """

    schema: Schema
    conflicts: Mapping[str, DictionaryConflict]
    notes: Mapping[str, str]

    @property
    def toml(self) -> str:
        return self.toml_with(())

    def toml_with(self, tells: Sequence[str]) -> str:
        """Return the dictionary as text, with what its readers learn about a table."""
        heads = ["Merged. Every table that fits one of its parts fits it."]
        if tells:
            heads.append("Readers learn about the tables that it was made from:")
            heads += (f"- {line}" for line in tells)
        for name, one in self.conflicts.items():
            heads.append(f"left out: {name}: {one.reason}")
            if one.line:
                heads.append(f"  {one.line}")
        return dictionary_toml(self.schema, heads, self.notes)


def check_number_of_parts(number: int) -> None:
    """Refuse to read and merge none, or too many."""
    if not 1 <= number <= MOST_MERGED:
        raise InvalidInputError(
            f"1 to {MOST_MERGED:,} dictionaries are merged, found {number:,}",
            code="too-many-dictionaries",
        )


def merge_dictionaries(parts: Mapping[str, Schema]) -> MergedDictionary:
    """Return one schema that fits every table that one of these fits.

    Args:
        parts: schemas by name, such as the file of each.

    Raises:
        InvalidInputError: no column is left.
    """
    check_number_of_parts(len(parts))
    names = sorted({name for one in parts.values() for name in one.names})
    columns: list[Column] = []
    conflicts: dict[str, DictionaryConflict] = {}
    notes: dict[str, str] = {}
    for name in names:
        found = {part: one.column(name) for part, one in parts.items() if name in one}
        each = [*found.values()]
        try:
            column = _join_dictionary_columns(each)
        except InvalidInputError as error:
            conflicts[name] = DictionaryConflict(
                str(error), _settling_dictionary_line(each)
            )
            continue
        if len(found) < len(parts):
            conflicts[name] = _column_not_in_every_dictionary(name, column, parts)
            continue
        columns.append(column)
        if not column.law and any(one.law for one in each):
            notes[name] = "no law: the parts have different laws, ranges or categories"
    if not columns:
        why = "; ".join(f"{name}: {one.reason}" for name, one in conflicts.items())
        raise InvalidInputError(
            f"the dictionaries have no column in common: {why[:2000]}",
            code="nothing-in-common",
        )
    most = [one.maximum_rows for one in parts.values()]
    limited = [one for one in most if one is not None]
    missing: Missing = (
        "drop" if any(one.missing == "drop" for one in parts.values()) else "refuse"
    )
    complete = {one.name for part in parts.values() for one in part.complete}
    schema = Schema(
        tuple(columns),
        missing=missing,
        minimum_rows=min(one.minimum_rows for one in parts.values()),
        maximum_rows=max(limited) if len(limited) == len(most) else None,
        complete=tuple(one for one in columns if one.name in complete),
    )
    derived, further = _joined_derived(schema, parts)
    return MergedDictionary(
        replace(schema, derived=derived), conflicts | further, notes
    )


def _joined_derived(
    schema: Schema, parts: Mapping[str, Schema]
) -> tuple[Any, dict[str, DictionaryConflict]]:
    """Return lines of derived columns, and those that contradict something.

    One part is enough: tables do not have them.
    """
    each: dict[str, list[DerivedColumn]] = {}
    for one in (one for part in parts.values() for one in part.derived):
        each.setdefault(one.name, []).append(one)
    derived: dict[str, Any] = {}
    conflicts: dict[str, DictionaryConflict] = {}
    for name, found in sorted(each.items()):
        lines = sorted({dictionary_column_line(one) for one in found})
        try:
            if len(lines) > 1:
                raise InvalidInputError(
                    "it is derived in several ways; choose one", code="lines-differ"
                )
            made = schema.with_derived({name: found[0].to_table()})
            if any(name in one for one in parts.values()):
                raise InvalidInputError(
                    "it is a plain column elsewhere; rename it", code="lines-differ"
                )
        except InvalidInputError as error:
            conflicts[name] = DictionaryConflict(str(error), lines[0])
        else:
            derived[name] = made.derived_by_name[name].to_table()
    return derived, conflicts


def _column_not_in_every_dictionary(
    name: str, column: Column, parts: Mapping[str, Schema]
) -> DictionaryConflict:
    lacking = [part for part, one in parts.items() if name not in one]
    others = [other for other in parts[lacking[0]].names if other != name]
    return DictionaryConflict(
        f"it is not in {listed_names(lacking)}; {nearest_name(name, others)}if all "
        "tables have it, write this line",
        dictionary_column_line(column),
    )


def _join_dictionary_columns(parts: Sequence[Column]) -> Column:
    """Return a column that admits all that one of these admits.

    Raises:
        InvalidInputError: there is none; nor is there with more parts.
    """
    first, kind = parts[0], _join_dictionary_kinds(parts)
    if kind == "category":
        made = replace(
            first,
            categories=_join_dictionary_levels(parts),
            law=_join_dictionary_laws(parts),
            **_merge_dictionary_words(parts),
        )
        _check_same_numbers(made)
        return made
    since, moved = None, parts
    if kind == "date":
        since = min(str(one.since) for one in parts)
        moved = [_move_column_day_zero(one, since) for one in parts]
    low = [one.minimum for one in moved]
    high = [one.maximum for one in moved]
    made = Column(
        first.name,
        kind,
        None if None in low else min(one for one in low if one is not None),
        None if None in high else max(one for one in high if one is not None),
        unit=_join_dictionary_units(parts, kind),
        since=since,
        cuts=tuple(sorted({cut for one in moved for cut in one.cuts})),
        law=_join_dictionary_laws(moved),
        **_merge_dictionary_words(parts),
    )
    if not made.is_measured:
        raise InvalidInputError(
            "it has neither a unit nor a range that all parts have; agree on a unit",
            code="unit-missing",
        )
    return made


def _join_dictionary_kinds(parts: Sequence[Column]) -> Kind:
    kinds = {one.kind for one in parts}
    if len(kinds) == 1:
        return parts[0].kind
    if kinds <= {"number", "integer"}:
        return "number"
    raise InvalidInputError(
        f"it is of kind {' and '.join(sorted(kinds))}; agree on one kind",
        code="kinds-differ",
    )


def _join_dictionary_levels(parts: Sequence[Column]) -> tuple[str, ...]:
    each = {one.categories for one in parts}
    if len(each) == 1:
        return parts[0].categories
    return tuple(sorted(set().union(*each)))


def _join_dictionary_laws(parts: Sequence[Column]) -> tuple[float, ...]:
    """Return the law that all parts have about the same intervals or levels, if any."""
    about = {
        (one.law, one.cuts, one.minimum, one.maximum, one.categories) for one in parts
    }
    return parts[0].law if len(about) == 1 else ()


def _join_dictionary_units(parts: Sequence[Column], kind: Kind) -> Fraction | None:
    units = [one.unit for one in parts]
    same = len(set(units)) == 1 and len({one.since for one in parts}) == 1
    if same and len({one.kind for one in parts}) == 1:
        return units[0]
    whole = [
        Fraction(1) if unit is None and one.kind != "number" else unit
        for one, unit in zip(parts, units, strict=True)
    ]
    if None in whole:  # 40 bits of the range, whatever that is
        return None
    found = reduce(
        _common_unit_of_columns, [unit for unit in whole if unit is not None]
    )
    if kind == "date":
        zeros = [day_zero_of_column(str(one.since)) for one in parts]
        found = Fraction(gcd(int(found), *(zero - zeros[0] for zero in zeros)))
    return None if found == 1 and kind != "number" else found


def _common_unit_of_columns(one: Fraction, other: Fraction) -> Fraction:
    """Return the coarsest unit in whole numbers of which both units are."""
    bottom = lcm(one.denominator, other.denominator)
    return Fraction(gcd(int(one * bottom), int(other * bottom)), bottom)


def _move_column_day_zero(column: Column, since: str) -> Column:
    """Return a column of dates with another day 0."""
    if column.since == since:
        return column
    shift = day_zero_of_column(str(column.since)) - day_zero_of_column(since)

    def on(day: float | None) -> Any:
        return None if day is None else day + shift

    # Without a unit and words, which do not move.
    return Column(
        column.name,
        "date",
        on(column.minimum),
        on(column.maximum),
        since=since,
        cuts=tuple(on(cut) for cut in column.cuts),
        law=column.law,
    )


def _merge_dictionary_words(parts: Sequence[Column]) -> dict[str, Any]:
    recode: dict[str, str | float] = {}
    for word, meaning in (pair for one in parts for pair in one.recode):
        if recode.setdefault(word, meaning) != meaning:
            raise InvalidInputError(
                f"{word!r} is recoded to {recode[word]!r} and to {meaning!r}; agree on "
                "one meaning",
                code="recoded-twice",
            )
    missing = tuple(sorted({word for one in parts for word in one.missing}))
    return {"recode": recode, "missing": missing}


def _check_same_numbers(column: Column) -> None:
    """Refuse levels that are the same number: a table of numbers cannot have both."""
    seen: dict[float, str] = {}
    for level in column.categories:
        try:
            number = float(level)
        except ValueError:
            continue
        if seen.setdefault(number, level) != level:
            raise InvalidInputError(
                f"its categories {seen[number]!r} and {level!r} are the same number; "
                "agree on one spelling, and recode the other",
                code="categories-same-number",
            )


def _settling_dictionary_line(parts: Sequence[Column]) -> str:
    """Return a line that would settle a contradiction, "" if none was found."""
    ordered = sorted(parts, key=dictionary_column_line)
    for candidate in _dictionary_settlements(ordered):
        with suppress(InvalidInputError):
            return dictionary_column_line(_join_dictionary_columns(candidate))
    return ""


def _dictionary_settlements(parts: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """Yield changed parts that may agree, those with few changes first."""
    bare = [replace(one, recode=(), missing=()) for one in parts]
    yield bare
    numbers = [one for one in parts if not one.is_category]
    if len(numbers) == len(parts):
        coarse = max(
            (one.unit for one in parts if one.unit is not None),
            default=Fraction(1, 100),
        )
        with suppress(InvalidInputError):
            yield [replace(one, unit=coarse) for one in bare]
        with suppress(InvalidInputError):
            yield [replace(one, unit=None) for one in bare]
    for kind in ("category", "date", "number", "integer"):
        if chosen := [one for one in bare if one.kind == kind]:
            yield chosen
    for one in bare:
        yield [one]
