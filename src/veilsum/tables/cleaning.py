"""One party's values of a column, checked and brought into the agreed form.

Values that the parties agreed to recode, or that mean that there is none, are replaced
first. Then numbers become float64 with nan where there is none, each rounded once to
the column's unit; dates become days since an agreed one; categories become their place
in the schema with -1 for none. All differences from the schema are collected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any

import numpy as np

from veilsum.errors import printable
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import FloatArray, listed_names, nearest_name
from veilsum.numbers.secrets import Secret
from veilsum.tables.columns import (
    COUNTED,
    LARGEST_WHOLE,
    MOST_VALUES,
    WHOLE_KINDS,
    Codes,
    Column,
    ColumnProblem,
    Flags,
    Nature,
    SchemaError,
    category_level_of_cell,
    column_day,
    column_nature,
    day_zero_of_column,
    float_values_of_column,
    level_codes_of_column,
    number_of_word,
    text_looks_like_date,
)
from veilsum.tables.frames import Series, load_pandas

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
# Offending values that a sentence shows, and letters of each.
_SHOWN_VALUES, _SHOWN_LETTERS = 5, 60


@dataclass(frozen=True, eq=False, repr=False)
class CleanColumn(Secret):
    """A column's values as the schema wants them, and what differs from it.

    Attributes:
        values: numbers or places of categories; 0 where a value is wrong.
        n_rounded: number of values that were not whole numbers of the unit.
        recoded: number of rows of each agreed value that was replaced.
        problems: differences from the schema.
    """

    values: FloatArray | Codes
    n_rounded: int = 0
    recoded: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[ColumnProblem, ...] = ()


def clean_column(column: Column, values: Series) -> CleanColumn:
    """Return a column's values in the agreed form, with all problems that they have."""
    values, recoded = recoded_column_values(column, values)
    problems: list[ColumnProblem] = []
    n_rounded = 0
    cleaned: FloatArray | Codes
    if column.is_category:
        cleaned = _clean_column_categories(column, values, problems)
    else:
        cleaned, n_rounded = _clean_column_numbers(column, values, problems)
    return CleanColumn(cleaned, n_rounded, recoded, tuple(problems))


def clean_numbers(party: str, column: Column, values: Series) -> tuple[PerRow, int]:
    """Return a column of numbers, checked and rounded to the unit, as a new array.

    It has nan for none. The second is how many were not whole numbers of the unit.

    Raises:
        SchemaError: the values are not what the schema says.
    """
    found = clean_column(column, values)
    if found.problems:
        raise SchemaError.from_problems(party, found.problems)
    return np.asarray(found.values, dtype=np.float64), found.n_rounded


def recoded_column_values(
    column: Column, values: Series
) -> tuple[Series, Mapping[str, int]]:
    """Return values after the agreed recodings, and the rows of each that occurred."""
    if not column.has_words:
        return values, {}
    dtype = values.dtype
    plain = isinstance(dtype, np.dtype) and dtype.kind in "fiu"
    if plain and not _occurs_in_column(column, values.to_numpy()):
        return values, {}
    codes, levels = level_codes_of_column(values.reset_index(drop=True))
    meanings = {**dict.fromkeys(column.missing), **dict(column.recode)}
    words = [_spelt_column_level(column, level) for level in levels]
    known = [place for place, word in enumerate(words) if word in meanings]
    if not known:
        return values, {}
    rows = np.bincount(codes[codes >= 0], minlength=len(levels))
    recoded: dict[str, int] = {}
    found = values.astype(object).to_numpy(copy=True)
    for place in known:
        if not rows[place]:  # of a category that is known and does not occur
            continue
        meaning = meanings[words[place]]
        found[codes == place] = np.nan if meaning is None else meaning
        recoded[words[place]] = recoded.get(words[place], 0) + int(rows[place])
    made = load_pandas().Series(found, name=values.name).infer_objects()
    return made, recoded


def column_gaps(column: Column, values: Series) -> Flags:
    """Return which values are missing after the agreed recodings."""
    found: Flags = recoded_column_values(column, values)[0].isna().to_numpy(dtype=bool)
    return found


def _occurs_in_column(column: Column, numbers: Any) -> bool:
    """Say whether numbers have an agreed value: mostly they have none."""
    for word in (*column.missing, *(one for one, _ in column.recode)):
        try:
            if (numbers == number_of_word(word)).any():
                return True
        except ValueError:
            continue
    return False


def _spelt_column_level(column: Column, level: str) -> str:
    """Return a level in the spelling in which agreed values are kept."""
    if column.kind not in {"number", "integer"}:
        return level
    try:
        return category_level_of_cell(number_of_word(level))
    except ValueError:
        return level


def recoded_values_words(recoded: Mapping[str, Mapping[str, int]]) -> str:
    """Return the recoded values in words for the owner of a table.

    >>> recoded_values_words({"sex": {"F": 12}, "age": {"-9": 1, "unknown": 2}})
    'read as agreed: sex "F" (12 rows); age "unknown" (2 rows), "-9" (1 row)'
    """
    parts = [
        f"{name} "
        f"{value_counts_words([*column_value_counts(words).items()], len(words))}"
        for name, words in recoded.items()
    ]
    return f"read as agreed: {'; '.join(parts)}"


def value_counts_words(values: Sequence[tuple[str, int]], n_values: int) -> str:
    """Return values with their numbers of rows, a few of them.

    >>> value_counts_words([("470", 2), ("-1", 1)], 2)
    '"470" (2 rows), "-1" (1 row)'
    """
    shown = [
        f'"{_short_cell_text(one)}" ({_count_of_cells(n, "row")})' for one, n in values
    ]
    shown = shown[:_SHOWN_VALUES]
    left = n_values - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def _short_cell_text(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _SHOWN_LETTERS else f"{shown[:_SHOWN_LETTERS]}..."


def _column_problem(
    column: Column, rule: str, message: str, code: str, values: Any
) -> ColumnProblem:
    counts = column_value_counts(values)
    return ColumnProblem(
        *(column.name, rule, f"column {column.name!r} {message}", code),
        values=tuple([*counts.items()][:MOST_VALUES]),
        n_values=len(counts),
    )


def column_value_counts(values: Any) -> dict[str, int]:
    """Return different values as text with their numbers of rows, most frequent first.

    Args:
        values: an array, or a mapping of texts to numbers of rows.
    """
    if isinstance(values, Mapping):
        counts = dict(values)
    else:
        pandas = load_pandas()
        codes, levels = level_codes_of_column(pandas.Series(values))
        rows = np.bincount(codes, minlength=len(levels))
        counts = {}
        for level, n in zip(levels, rows.tolist(), strict=True):
            counts[level] = counts.get(level, 0) + n
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


# Numbers


def _clean_column_numbers(
    column: Column, values: Series, problems: list[ColumnProblem]
) -> tuple[FloatArray, int]:
    wrong: Flags | None = None
    if column.since is not None:
        numbers, wrong = _days_of_date_column(column, values, problems)
    else:
        nature = column_nature(values)
        if nature in COUNTED:
            numbers = float_values_of_column(values)
        else:
            numbers, wrong = _numbers_among_column_cells(
                column, values, nature, problems
            )
    gaps = None
    present = numbers
    # One pass each: nan and inf show up in the extremes.
    low, high = _extremes_of_column(numbers)
    if np.isnan(low):
        gaps = np.isnan(numbers)
        present = numbers[~gaps]
        low, high = _extremes_of_column(present)
    if not (isfinite(low) and isfinite(high)):
        infinite = np.isinf(present)
        problems.append(_infinite_column_values(column, present[infinite]))
        present = present[~infinite]
        low, high = _extremes_of_column(present)
    if column.kind == "integer":
        problems += _not_whole_column_problem(column, present, largest=max(-low, high))
    if column.is_measured or not problems:
        problems += _column_values_outside(column, present, low, high)
    if problems:
        missing = np.isnan(numbers) if wrong is None else np.isnan(numbers) & ~wrong
        return np.where(missing, np.nan, 0.0), 0
    if column.measure.unit == 1 and column.kind in WHOLE_KINDS:
        return numbers, 0
    rounded = column.measure.rounded(present)
    broken = int(np.count_nonzero(rounded != present))
    if gaps is None:
        return rounded, broken
    numbers[~gaps] = rounded
    return numbers, broken


def _numbers_among_column_cells(
    column: Column, values: Series, nature: Nature, problems: list[ColumnProblem]
) -> tuple[FloatArray, Flags]:
    """Return the numbers of a column, nan elsewhere, and where other values are."""
    cells = values.astype(object).to_numpy()
    gaps = values.isna().to_numpy(dtype=bool)
    right = np.zeros(len(cells), dtype=bool)
    # The numbers of categories are none here.
    if nature == "text" and not isinstance(
        values.dtype, load_pandas().CategoricalDtype
    ):
        right[:] = [
            isinstance(one, int | float | np.number) and not isinstance(one, bool)
            for one in cells
        ]
    right &= ~gaps
    wrong = ~(right | gaps)
    problems.append(_wrong_column_type_problem(column, cells[wrong], nature))
    numbers = np.full(len(cells), np.nan)
    numbers[right] = cells[right].astype(np.float64)
    return numbers, wrong


def _days_of_date_column(
    column: Column, values: Series, problems: list[ColumnProblem]
) -> tuple[FloatArray, Flags | None]:
    """Return dates as days since the agreed one, nan elsewhere, and what is no date.

    Each different date is looked at once.
    """
    zero = day_zero_of_column(str(column.since))
    plain = values.reset_index(drop=True)
    if isinstance(plain.dtype, load_pandas().CategoricalDtype):
        plain = plain.astype(object)
    codes, dates = load_pandas().factorize(plain)
    days = np.full(len(dates) + 1, np.nan)  # the last one is for the code -1
    places: list[int] = []
    for place, one in enumerate(dates):
        try:
            days[place] = column_day(one) - zero
        except (TypeError, ValueError):
            places.append(place)
    if not places:
        return days[codes], None
    rows = np.bincount(codes[codes >= 0], minlength=len(dates))
    counts: dict[str, int] = {}
    for place in places:
        text = category_level_of_cell(dates[place])
        counts[text] = counts.get(text, 0) + int(rows[place])
    problems.append(_wrong_dates_in_column(column, dates[places[0]], counts))
    return days[codes], np.isin(codes, places)


def _wrong_dates_in_column(
    column: Column, first: Any, counts: Mapping[str, int]
) -> ColumnProblem:
    mend = (
        "correct it, or if the file writes its dates in another way, read it with "
        'dates = "%d.%m.%Y" or as it has them (veilsum join: --dates)'
    )
    if isinstance(first, datetime):
        mend = "leave the time of day out"
    elif not isinstance(first, str):
        mend = (
            "turn the numbers into dates, or if they are days already agree on kind = "
            '"integer"'
        )
    shown = value_counts_words([*column_value_counts(counts).items()], len(counts))
    message = f"has {shown}, the schema wants dates such as 2001-12-31; {mend}"
    return _column_problem(column, "type", message, "not-dates", counts)


def _extremes_of_column(numbers: FloatArray) -> tuple[float, float]:
    """Return the least and the largest; nan if there is one, zeros for no numbers."""
    if not len(numbers):
        return 0.0, 0.0
    return float(numbers.min()), float(numbers.max())


def _not_whole_column_problem(
    column: Column, present: FloatArray, *, largest: float
) -> Iterator[ColumnProblem]:
    if largest > LARGEST_WHOLE:
        yield _column_problem(
            *(column, "whole"),
            "has whole numbers beyond 2^53, which float64 does not hold exactly; scale "
            "the column, or make it a category",
            "whole-too-large",
            present[np.abs(present) > LARGEST_WHOLE],
        )
    broken = present[np.rint(present) != present]
    if len(broken):
        yield _column_problem(
            *(column, "whole"),
            f"has {_count_of_cells(len(broken), 'number')} with a fraction, "
            f"{_shown_column_values(broken)}; "
            'the schema wants whole numbers; correct them, or agree on kind = "number"',
            "not-whole",
            broken,
        )


def _shown_column_values(values: Any) -> str:
    counts = column_value_counts(values)
    return value_counts_words([*counts.items()], len(counts))


def _column_values_outside(
    column: Column, present: FloatArray, low: float, high: float
) -> Iterator[ColumnProblem]:
    measure = column.measure
    least = measure.low if column.minimum is None else column.minimum
    most = measure.high if column.maximum is None else column.maximum
    if not len(present) or (least <= low and high <= most):
        return
    outside = present[(present < least) | (present > most)]
    counts: Any = outside
    if column.since is not None:
        counts = {
            column.shown(float(one)): int(np.count_nonzero(outside == one))
            for one in np.unique(outside)[: 10 * MOST_VALUES]
        }
    shown = _shown_column_values(counts)
    if (column.minimum is None and low < least) or (
        column.maximum is None and high > most
    ):
        yield _column_problem(
            *(column, "range"),
            f"has {_count_of_cells(len(outside), 'value')} outside {least:g} to "
            f"{most:g}, which "
            f"is as far as {column.unit_words} is counted without an agreed range: "
            f"{shown}; correct them, or agree on a minimum and maximum",
            "beyond-unit",
            counts,
        )
        return
    yield _column_problem(
        *(column, "range"),
        f"has {_count_of_cells(len(outside), 'value')} outside the agreed range of "
        f"{column.range}: {shown}; correct them, or agree on another minimum and "
        "maximum",
        "value-out-of-range",
        counts,
    )


def _infinite_column_values(column: Column, infinite: FloatArray) -> ColumnProblem:
    found = _count_of_cells(len(infinite), "infinite value")
    return _column_problem(
        *(column, "finite"),
        f"has {found}, the schema wants finite numbers; correct them, or leave the "
        "cells empty",
        "not-finite",
        infinite,
    )


def _wrong_column_type_problem(
    column: Column, wrong: Any, found: Nature
) -> ColumnProblem:
    what, advice = f"holds {found}", 'agree on kind = "category"'
    if found == "text":
        # Texts that are numbers are mentioned if there are no others.
        texts = [category_level_of_cell(one) for one in wrong]
        odd = next((one for one in texts if not _cell_is_number(one)), texts[0])
        what, advice = (
            f'is text (for example "{_short_cell_text(odd)}")',
            _cell_cleaning_advice(odd),
        )
    if found == "dates":
        advice = _DATE_ADVICE
    if found == "true or false":
        advice = f"turn them into 0 and 1, or {advice}"
    message = f"{what}, the schema wants numbers; {advice}"
    return _column_problem(column, "type", message, "not-numbers", wrong)


def _cell_is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_DATE_ADVICE = (
    'agree on kind = "date" with since = "2000-01-01", which counts days since then, '
    "or turn the dates into numbers first, such as years"
)


def _cell_cleaning_advice(example: str) -> str:
    if text_looks_like_date(example):
        return f"this looks like a date: {_DATE_ADVICE}"
    if _DECIMAL_COMMA.fullmatch(example.strip()):
        return (
            'a decimal comma? read the file again with decimal = "," (veilsum join: '
            "--decimal ,)"
        )
    if not _cell_is_number(example):
        return (
            "leave cells without a number empty, agree on missing = "
            f'["{_short_cell_text(example)}"] for this column, or on kind = "category"'
        )
    return (
        "these are numbers stored as text: convert them, or read the file again with "
        'decimal = "."'
    )


# Categories


def _clean_column_categories(
    column: Column, values: Series, problems: list[ColumnProblem]
) -> Codes:
    if column_nature(values) in COUNTED:
        problems += _same_numbers_as_column_levels(column)
    codes, levels = level_codes_of_column(values)
    place = {name: code for code, name in enumerate(column.categories)}
    table = np.array([place.get(name, -2) for name in levels] + [-1], dtype=np.int64)
    places = table[codes]  # -1 is the last entry
    wrong: Flags = places == -2
    if wrong.any():
        rows = np.bincount(codes[wrong], minlength=len(levels))
        counts: dict[str, int] = {}
        for code in np.flatnonzero(rows):
            name = levels[code]
            counts[name] = counts.get(name, 0) + int(rows[code])
        problems.append(_unknown_column_levels(column, counts))
        places = np.where(wrong, 0, places)
    return places


def _unknown_column_levels(column: Column, counts: Mapping[str, int]) -> ColumnProblem:
    ordered = column_value_counts(counts)
    first, rows = next(iter(ordered)), sum(ordered.values())
    bare = [one for one in column.categories if one.lstrip("0") == first.lstrip("0")]
    hint = nearest_name(first, column.categories)
    if bare:
        hint = f"leading zeros lost? read the file with text = [{column.name!r}]; "
    quoted = [f'"{one}"' for one in column.categories]
    shown = value_counts_words([*ordered.items()], len(ordered))
    return _column_problem(
        *(column, "category"),
        f"has categories that are not agreed, {shown}, {_count_of_cells(rows, 'row')} "
        "in all; "
        f"the schema has {listed_names(quoted)}; {hint}correct them, or agree on "
        "categories with them",
        "unknown-category",
        ordered,
    )


def _same_numbers_as_column_levels(column: Column) -> Iterator[ColumnProblem]:
    """Refuse numbers for categories that are written differently, but one number.

    Whether a file's column became numbers depends on what else is in it: 1.10 would be
    1.1 in one table and stay itself in another, and a row's category would not follow
    from the row alone.
    """
    seen: dict[float, str] = {}
    for name in column.categories:
        try:
            number = float(name)
        except ValueError:
            continue
        if number in seen:
            yield _column_problem(
                *(column, "category"),
                f'holds numbers, and the categories "{seen[number]}" and "{name}" are '
                "the same number to a computer; read the file with text = "
                f"[{column.name!r}]",
                "categories-same-number",
                {},
            )
            return
        seen[number] = name


def _count_of_cells(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
