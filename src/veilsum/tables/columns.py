"""One column that all parties agree on, and the check of one party's values.

A check goes over the values as an array, and leaves an array: numbers as float64 with
nan where there is none, each rounded once to the column's unit; dates as days since an
agreed one; categories as their place in the schema with -1 for none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, isfinite
from numbers import Integral, Real
from re import Pattern
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np

from veilsum.errors import InvalidInputError, is_seen, printable
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import Array, FloatArray, listed_names, nearest_name
from veilsum.numbers.shapes import Bool, Int
from veilsum.numbers.units import BITS, Measure, inferred_measure, power_unit, unit_of
from veilsum.tables.frames import Series, load_pandas

Kind = Literal["number", "integer", "date", "category"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Nature = Literal["numbers", "whole numbers", "true or false", "text", "dates", "empty"]

Codes: TypeAlias = Int[Array[np.int64], " n"]
Flags: TypeAlias = Bool[Array[np.bool_], " n"]

# From here on float64 skips whole numbers.
LARGEST_WHOLE = 2.0**53
# An end of a range that nobody agreed on is so many units away.
_OPEN = 2 ** (BITS - 1)

# Bounds on what a file may name.
LONGEST_NAME = 200
MOST_LEVELS = 10_000
# A name stands in formulas, and before the brackets of a coefficient such as sex[T.2].
# A level may have brackets, as in (60, 70], and an apostrophe inside a word.
_QUOTES = '`"\u2018\u201a-\u201f\u2039\u203a\u00ab\u00bb\u0060\u00b4'
NOT_IN_NAMES = re.compile(rf"[{_QUOTES}'\u2019\\\[\]]")
NOT_IN_LEVELS = re.compile(
    rf"[{_QUOTES}\\]|(?<![^\W\d_])['\u2019]|['\u2019](?![^\W\d_])"
)

# Letters of other alphabets that a reader takes for these.
_LATIN = str.maketrans(
    "аеорсухіјѕԁһӏԛԝьАВЕКМНОРСТУХІЈЅԌ" + "ονιΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",  # noqa: RUF001
    "aeopcyxijsdhlqwbABEKMHOPCTYXIJSG" + "oviABEZHIKMNOPTYX",
)

_WORDS: dict[str, Nature] = {
    **dict.fromkeys(("integer",), "whole numbers"),
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), "numbers"),
    **dict.fromkeys(("boolean",), "true or false"),
    **dict.fromkeys(("empty",), "empty"),
    **dict.fromkeys(("date", "datetime", "datetime64", "timedelta"), "dates"),
}
# What is counted in whole numbers only.
_WHOLE = ("integer", "date")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_LIKE = re.compile(
    r"(?:[0-9]{4}([-./])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-./])[0-9]{1,2}\2[0-9]{4})"
    r"(?:[T ].*)?"
)
_DAYS = re.compile(r"(?:([0-9]{1,5}) )?days?")
_BITS_OF_RANGE = re.compile(r"([0-9]{1,3}) bits?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


class SchemaError(InvalidInputError):
    """One party's table is not what the schema says; shown to this party only.

    The message may quote a value or a number of rows: it is never sent, and where it
    may be logged `plain` says the rule only.

    Attributes:
        party: whose table it is.
        column: the column, or the term of a formula; None if it is about rows.
        rule: what was broken, in one word.
    """

    def __init__(
        self,
        party: str,
        column: str | None,
        rule: str,
        message: str,
        *,
        code: str = "",
    ) -> None:
        plain = f"refused by the schema: {rule}"
        super().__init__(f"{party}: {message}", plain=plain, code=code)
        self.party = party
        self.column = column
        self.rule = rule


@dataclass(frozen=True)
class Column:
    """One column of the tables: its name, and what values it may hold.

    Attributes:
        name: the column's name, the same at every party.
        kind: `number`, `integer`, `date` or `category`.
        minimum: the least number allowed; None for no bound. Of dates it is written as
            one, such as "1990-01-31", and kept as days since `since`.
        maximum: the largest number allowed; None for no bound.
        categories: the values of a category, as text; the first one is the reference.
        unit: what is counted of a number; it may be written as 1, 0.01, "1/8",
            "2 decimals", or "40 bits" of the range. Integers have 1, dates a day.
        since: the date that is day 0, such as "2000-01-01"; dates only.
    """

    name: str
    kind: Kind
    minimum: float | None = None
    maximum: float | None = None
    categories: tuple[str, ...] = ()
    unit: Fraction | None = None
    since: str | None = None

    def __post_init__(self) -> None:
        _check_text("the name of a column", self.name, NOT_IN_NAMES)
        if not self.name:
            raise InvalidInputError("a column needs a name", code="missing-name")
        if self.kind not in KINDS:
            raise InvalidInputError(
                f"column {self.name!r} has the kind {self.kind!r}; "
                f"choose from {', '.join(KINDS)}",
                code="unknown-kind",
            )
        self._set("since", self._since())
        self._set("minimum", self._bound("minimum"))
        self._set("maximum", self._bound("maximum"))
        self._set("categories", tuple(category_level(one) for one in self.categories))
        self._check_categories() if self.is_category else self._check_range()
        self._set("unit", self._unit())
        if self.is_measured:
            _ = self.measure  # a range that is too wide for its unit is refused here

    @property
    def is_category(self) -> bool:
        """Whether the values are categories, not numbers."""
        return self.kind == "category"

    @property
    def range(self) -> str:
        """The range in words."""
        if self.maximum is None:
            return f"{self.shown(self.minimum)} or more"
        if self.minimum is None:
            return f"{self.shown(self.maximum)} or less"
        return f"{self.shown(self.minimum)} to {self.shown(self.maximum)}"

    def shown(self, value: float | None) -> str:
        """Return one of the column's numbers as people write it."""
        if self.since is None or value is None:
            return f"{value:g}"
        return str(self.written(value))

    def written(self, value: float) -> float | str:
        """Return a number, or the date that so many days are."""
        if self.since is None:
            return value
        return date.fromordinal(_day_zero(self.since) + int(value)).isoformat()

    @property
    def has_range(self) -> bool:
        """Whether both ends were agreed on."""
        return self.minimum is not None and self.maximum is not None

    @property
    def is_measured(self) -> bool:
        """Whether it was said how the column's numbers are counted."""
        return not self.is_category and (
            self.kind in _WHOLE or self.unit is not None or self.has_range
        )

    @cached_property
    def measure(self) -> Measure:
        """How the column's numbers are counted: it follows from the agreement alone.

        Without a unit, integers and dates count in 1, and other numbers in a power of
        two that leaves 40 bits of the range. An end that was not agreed on is 2^39
        units away.

        Raises:
            InvalidInputError: the column is a category, or has neither unit nor range.
        """
        if self.is_category:
            raise InvalidInputError(
                f"column {self.name!r} is a category, not a number",
                code="not-a-number-column",
            )
        unit = Fraction(1) if self.kind in _WHOLE else None
        unit = self.unit or unit
        low, high = self.minimum, self.maximum
        try:
            if low is not None and high is not None:
                made = Measure.of(low, high, unit)
                unit_of(made.unit)
                return made
            if unit is None:
                raise InvalidInputError(
                    "nobody said in what its numbers are counted: agree on a unit, "
                    "such as unit = 0.01 for two decimals, or on minimum and maximum",
                    code="unit-missing",
                )
            least = None if low is None else floor(Fraction(low) / unit)
            most = None if high is None else ceil(Fraction(high) / unit)
            if least is None:
                least = min(most or 0, 0) - _OPEN
            if most is None:
                most = max(least, 0) + _OPEN
            return Measure(unit, least, most)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"column {self.name!r}: {error}", code=error.code
            ) from None

    @property
    def words(self) -> str:
        """What the column may hold, for a screen."""
        if self.is_category:
            return f"one of {listed_names(self.categories)}"
        some = self.minimum is not None or self.maximum is not None
        held = f"{self.kind}, {self.range}" if some else self.kind
        if not self.is_measured:
            return held
        chosen = self.unit is None and self.kind == "number"
        why = f" ({BITS} bits of its range)" if chosen else ""
        return f"{held}, counted in {self.unit_words}{why}"

    @property
    def unit_words(self) -> str:
        """What is counted, for a screen."""
        unit = self.measure.unit
        if self.since is None:
            return column_unit_words(unit)
        days = "days" if unit == 1 else f"{column_unit_words(unit)} days"
        return f"{days} since {self.since}"

    def to_table(self) -> dict[str, Any]:
        """Return the column as a plain table, without what it does not have."""
        table: dict[str, Any] = {"kind": self.kind}
        if self.since is not None:
            table["since"] = self.since
        if self.minimum is not None:
            table["minimum"] = self.written(self.minimum)
        if self.maximum is not None:
            table["maximum"] = self.written(self.maximum)
        if self.unit is not None:
            table["unit"] = str(self.unit)
        if self.is_category:
            table["categories"] = list(self.categories)
        return table

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def _bound(self, field: str) -> float | None:
        value = getattr(self, field)
        if value is None:
            return None
        if self.is_category:
            raise InvalidInputError(
                f"column {self.name!r} is a category and has no {field}; "
                "list its categories instead",
                code="bound-of-category",
            )
        if self.since is not None:
            return self._days(field, value)
        if (
            isinstance(value, bool)
            or not isinstance(value, Real)
            or not isfinite(value)
        ):
            raise InvalidInputError(
                f"column {self.name!r}: {field} must be a finite number, "
                f"found {value!r}",
                code="bound-not-finite",
            )
        return float(value) + 0.0  # the same text for 0 and -0

    def _days(self, field: str, value: Any) -> float:
        """Return an end of a range of dates as days; days are what it is kept as."""
        zero = _day_zero(str(self.since))
        try:
            whole = isinstance(value, Real) and float(value).is_integer()
            day = zero + int(value) if whole else column_day(value)
            return float(date.fromordinal(day).toordinal() - zero)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError(
                f"column {self.name!r} holds dates, and {field} must be one, such as "
                f'"2020-12-31", found {value!r}',
                code="bound-not-date",
            ) from None

    def _since(self) -> str | None:
        given: Any = self.since
        if self.kind != "date":
            if given is not None:
                raise InvalidInputError(
                    f"column {self.name!r} has since = {given!r}, and its kind is "
                    f'{self.kind!r}; for dates write kind = "date"',
                    code="since-without-dates",
                )
            return None
        try:
            return date.fromordinal(column_day(given)).isoformat()
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"column {self.name!r} holds dates, which are counted as days since "
                'one that all agree on, such as since = "2000-01-01"; found '
                f"{'none' if given is None else repr(given)}",
                code="since-missing",
            ) from None

    def _unit(self) -> Fraction | None:
        given: Any = self.unit
        if given is None:
            return None
        if self.kind == "date" and isinstance(given, str):
            days = _DAYS.fullmatch(given.strip())
            given = int(days[1] or 1) if days else given
        if self.is_category:
            raise InvalidInputError(
                f"column {self.name!r} is a category and has no unit; leave it out",
                code="unit-of-category",
            )
        if isinstance(given, str) and (bits := _BITS_OF_RANGE.fullmatch(given.strip())):
            low, high = self.minimum, self.maximum
            if low is None or high is None or low == high:
                raise InvalidInputError(
                    f"column {self.name!r}: unit = {given!r} is a share of its range; "
                    "agree on minimum and maximum too, the one below the other",
                    code="share-without-range",
                )
            given = power_unit(Fraction(high) - Fraction(low), int(bits[1]))
        unit = unit_of(
            given,
            what=f"column {self.name!r}: unit",
            more=', or "40 bits" of its range',
        )
        if self.kind == "date" and unit.denominator > 1:
            raise InvalidInputError(
                f"column {self.name!r} holds dates, which are counted in whole days, "
                f'found unit = {given!r}; leave it out, or write one such as "7 days"',
                code="unit-not-days",
            )
        if self.kind == "integer" and unit.denominator > 1:
            raise InvalidInputError(
                f"column {self.name!r} holds whole numbers, and its unit must be one, "
                f'found {given!r}; leave it out, or agree on kind = "number"',
                code="unit-not-whole",
            )
        return unit

    def _check_range(self) -> None:
        if self.categories:
            raise InvalidInputError(
                f"column {self.name!r} has categories, and its kind is {self.kind!r}; "
                'for categories write kind = "category"',
                code="categories-without-kind",
            )
        low, high = self.minimum, self.maximum
        if low is not None and high is not None and low > high:
            raise InvalidInputError(
                f"column {self.name!r}: the minimum {self.shown(low)} is above "
                f"the maximum {self.shown(high)}",
                code="bounds-exchanged",
            )

    def _check_categories(self) -> None:
        if len(self.categories) > MOST_LEVELS:
            raise InvalidInputError(
                f"column {self.name!r} has {len(self.categories):,} categories; at "
                f"most {MOST_LEVELS:,} are allowed: group them",
                code="too-many-categories",
            )
        for one in self.categories:
            _check_text(f"a category of column {self.name!r}", one, NOT_IN_LEVELS)
        if not self.categories:
            raise InvalidInputError(
                f"column {self.name!r} is a category and needs its categories, such as "
                'categories = ["no", "yes"]',
                code="categories-missing",
            )
        if len(set(self.categories)) < len(self.categories):
            raise InvalidInputError(
                f"column {self.name!r} lists a category twice: "
                f"{listed_names(self.categories)}; 1, 1.0 and the text 1 are the same",
                code="duplicate-category",
            )
        if pair := column_names_alike(self.categories):
            raise InvalidInputError(
                f"column {self.name!r} lists two categories that look the same, "
                f"{pair[0]!a} and {pair[1]!a}; rename one",
                code="categories-look-same",
            )


def _check_text(what: str, text: object, forbidden: Pattern[str]) -> None:
    """Refuse a name that could be taken for something else than a name.

    The text may come out of a file that somebody else wrote, and is shown on screens,
    in reports and among the columns of a design.
    """
    found = printable(repr(text if len(str(text)) <= 60 else f"{str(text)[:60]}..."))
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{what} must be a text, found {found}", code="not-text"
        )
    why = ""
    if len(text) > LONGEST_NAME:
        why = f"is longer than {LONGEST_NAME} characters"
    elif not is_seen(text):
        why = "has a character that cannot be seen, such as a line break or a tab"
    elif not unicodedata.is_normalized("NFC", text) or _is_stacked(text):
        why = "has letters or accents that Unicode writes in another way (NFC)"
    elif _is_mixed(text):
        why = "has letters of two alphabets in one word, which look like one"
    elif text != text.strip():
        why = "begins or ends with a space"
    elif odd := forbidden.search(text):
        why = f"has the character {odd.group()}"
    if why:
        raise InvalidInputError(
            f"{what} must be plain text without quotes, backticks, backslashes"
            f"{', brackets' if forbidden is NOT_IN_NAMES else ''} or spaces around it; "
            f"{found} {why}: rename it in the table and in the schema",
            code="not-plain-text",
        )


def _is_stacked(text: str) -> bool:
    """Say whether marks stand on nothing, or on each other: they cover other lines."""
    marks = "".join("m" if unicodedata.combining(one) else "-" for one in text)
    return marks.startswith("m") or "mmm" in marks


def _is_mixed(text: str) -> bool:
    """Say whether a word would be plain Latin, were it not for letters like it."""
    for word in re.findall(r"[^\W\d_]+", text):
        if not word.isascii() and word.translate(_LATIN).isascii():
            return any(letter.isascii() for letter in word)
    return False


def column_names_alike(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that look the same on a screen and are not, if there are any."""
    seen: dict[str, str] = {}
    for name in names:
        shape = unicodedata.normalize("NFKC", name).translate(_LATIN)
        if seen.setdefault(shape, name) != name:
            return seen[shape], name
    return None


def category_level(value: Any) -> str:
    """Return a category as text: 1, 1.0 and "1" are one category.

    >>> [category_level(one) for one in (1, 1.0, "1", 2.5, True)]
    ['1', '1', '1', '2.5', 'True']
    """
    if isinstance(value, bool | np.bool_ | str):
        return str(value)
    whole = isinstance(value, Integral) or (
        isinstance(value, Real) and float(value).is_integer()
    )
    return str(int(value)) if whole else str(value)


def column_nature(values: Series) -> Nature:
    """Return what a column holds, missing values aside."""
    api = load_pandas().api.types
    kind = values.dtype
    # Categories of numbers count as numbers to pandas; to us they are categories.
    if isinstance(kind, load_pandas().CategoricalDtype):
        return "text"
    if api.is_bool_dtype(kind):
        return "true or false"
    if api.is_integer_dtype(kind):
        return "whole numbers"
    if api.is_float_dtype(kind):
        return "numbers"
    return _WORDS.get(api.infer_dtype(values, skipna=True), "text")


def column_day(value: Any) -> int:
    """Return the number of a day, of a date or of its text as ISO 8601 has it.

    >>> column_day("2000-01-02") - column_day(date(2000, 1, 1))
    1

    Raises:
        ValueError: the text is another one, or there is a time of day.
        TypeError: it is neither a date nor a text.
    """
    if isinstance(value, datetime):  # pandas' own, too
        if value.time() != time():
            raise ValueError("a time of day")
        return value.toordinal()
    if isinstance(value, date):
        return value.toordinal()
    if not isinstance(value, str):
        raise TypeError("no date")
    if not _ISO.fullmatch(value):
        raise ValueError("no date as ISO 8601 has it")
    return date.fromisoformat(value).toordinal()


def _day_zero(since: str) -> int:
    return date.fromisoformat(since).toordinal()


def column_nature_or_dates(values: Series) -> Nature:
    """Return the nature of a column, which is "dates" of texts that are dates."""
    found = column_nature(values)
    category = isinstance(values.dtype, load_pandas().CategoricalDtype)
    return (
        "dates"
        if found == "text" and not category and _all_are(values, _ISO)
        else found
    )


def column_holds_dates(values: Series) -> bool:
    """Say whether a column holds dates and nothing else, missing values aside."""
    return column_nature_or_dates(values) == "dates"


def looks_like_dates(values: Series) -> bool:
    """Say whether texts of a column are dates in some way, perhaps with a time."""
    if column_nature(values) != "text" or isinstance(
        values.dtype, load_pandas().CategoricalDtype
    ):
        return False
    return _all_are(values, _DATE_LIKE)


def _all_are(values: Series, pattern: re.Pattern[str]) -> bool:
    """Return whether all texts of a column match; mostly the first one decides."""
    head = values.iloc[:_HEAD].dropna()
    if len(head) and not pattern.fullmatch(category_level(head.iloc[0])):
        return False
    return all(pattern.fullmatch(one) for one in column_levels(values))


def column_unit_words(unit: Fraction) -> str:
    """Return a unit as people write it.

    >>> [column_unit_words(Fraction(1, n)) for n in (1, 100, 8, 2**33)]
    ['1', '0.01', '1/8', '2^-33']
    """
    bottom = unit.denominator
    if bottom & (bottom - 1) == 0 and bottom > 2**10:
        power = f"2^-{bottom.bit_length() - 1}"
        return power if unit.numerator == 1 else f"{unit.numerator} * {power}"
    decimal = f"{float(unit):g}"
    plain = bottom % 10 == 0 or len(decimal) < len("0.125")
    return decimal if plain and Fraction(decimal) == unit else str(unit)


def measured_column(column: Column, parts: Iterable[Series]) -> Column:
    """Return the column as all parties' values would have it: for simulations only.

    What was not agreed on is read off the values, whoever has them: the range, and as
    a unit their decimals, or else a power of two.
    """
    held = [_floats(one) for one in parts if column_nature(one) in _COUNTED]
    pooled = np.concatenate([*held, np.zeros(0)])
    pooled = pooled[np.isfinite(pooled)]
    low, high = column.minimum, column.maximum
    if low is None:
        low = float(pooled.min()) if pooled.size else high or 0.0
    if high is None:
        high = max(float(pooled.max()), low) if pooled.size else low
    unit = column.unit
    if unit is None and column.kind == "number":
        unit = inferred_measure(np.append(pooled, [low, high])).unit
    return replace(column, minimum=min(low, high), maximum=high, unit=unit)


def clean_numbers(party: str, column: Column, values: Series) -> tuple[PerRow, int]:
    """Return a column of numbers, checked and rounded to the unit, as a new array.

    It has nan for none. The second is how many were not whole numbers of the unit.
    """
    if column.since is not None:
        numbers = _days_since(party, column, values)
    else:
        found = column_nature(values)
        if found not in _COUNTED:
            _refuse_type(party, column, values, found)
        numbers = _floats(values)
    gaps = None
    present = numbers
    # One pass each: nan and inf show up in the extremes.
    low, high = _extremes(numbers)
    if np.isnan(low):
        gaps = np.isnan(numbers)
        present = numbers[~gaps]
        low, high = _extremes(present)
    if not (isfinite(low) and isfinite(high)):
        _refuse_infinite(party, column, present)
    if column.kind == "integer":
        _check_whole(party, column, present, largest=max(-low, high))
    _check_range(party, column, present, low, high)
    if column.measure.unit == 1 and column.kind in _WHOLE:
        return numbers, 0
    rounded = column.measure.rounded(present)
    broken = int(np.count_nonzero(rounded != present))
    if gaps is None:
        return rounded, broken
    numbers[~gaps] = rounded
    return numbers, broken


def clean_categories(party: str, column: Column, values: Series) -> Codes:
    """Return a column's categories as places in the schema, with -1 for none."""
    if column_nature(values) in _COUNTED:
        _check_spelling(party, column)
    codes, levels = _factorised(values)
    place = {name: code for code, name in enumerate(column.categories)}
    table = np.array([place.get(name, -2) for name in levels] + [-1], dtype=np.int64)
    places = table[codes]  # -1 is the last entry
    if (places == -2).any():
        wrong = codes[places == -2]
        _refuse_category(party, column, levels[wrong[0]], len(wrong))
    return places


def _check_spelling(party: str, column: Column) -> None:
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
            raise SchemaError(
                *(party, column.name, "category"),
                f"column {column.name!r} holds numbers, and the categories "
                f'"{seen[number]}" and "{name}" are the same number to a computer; '
                f"read the file with text = [{column.name!r}]",
                code="categories-same-number",
            )
        seen[number] = name


def column_levels(values: Series) -> set[str]:
    codes, levels = _factorised(values)
    if not isinstance(values.dtype, load_pandas().CategoricalDtype):
        return set(levels)  # all of them occur
    return {levels[code] for code in np.unique(codes[codes >= 0])}


# What of a column can be counted.
_COUNTED = {"numbers", "whole numbers", "empty"}
# Rows among which a first text is looked for.
_HEAD = 100


def _floats(values: Series) -> FloatArray:
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiu":
        return np.array(values.to_numpy(), dtype=np.float64)
    gaps = values.isna().to_numpy(dtype=bool)
    numbers = np.full(len(values), np.nan)
    numbers[~gaps] = values[~gaps].to_numpy(dtype=np.float64)
    return numbers


def _days_since(party: str, column: Column, values: Series) -> FloatArray:
    """Return dates as days since the agreed one, each different date looked at once."""
    zero = _day_zero(str(column.since))
    plain = values.reset_index(drop=True)
    if isinstance(plain.dtype, load_pandas().CategoricalDtype):
        plain = plain.astype(object)
    codes, dates = load_pandas().factorize(plain)
    days = np.full(len(dates) + 1, np.nan)  # the last one is for the code -1
    for place, one in enumerate(dates):
        try:
            days[place] = column_day(one) - zero
        except (TypeError, ValueError):
            _refuse_date(party, column, one, int(np.count_nonzero(codes == place)))
    return days[codes]


def _refuse_date(party: str, column: Column, found: Any, rows: int) -> NoReturn:
    what = f'has "{printable(str(found))}" ({_count(rows, "row")})'
    mend = (
        "correct it, or if the file writes its dates in another way, read it with "
        'dates = "%d.%m.%Y" or as it has them (veilsum join: --dates)'
    )
    if isinstance(found, datetime):
        mend = "leave the time of day out"
    elif not isinstance(found, str):
        mend = (
            "turn the numbers into dates, or if they are days already agree on kind = "
            '"integer"'
        )
    raise SchemaError(
        *(party, column.name, "type"),
        f"column {column.name!r} {what}, the schema wants dates such as 2001-12-31; "
        f"{mend}",
        code="not-dates",
    )


def _extremes(numbers: FloatArray) -> tuple[float, float]:
    """Return the least and the largest; nan if there is one, zeros for no numbers."""
    if not len(numbers):
        return 0.0, 0.0
    return float(numbers.min()), float(numbers.max())


def _factorised(values: Series) -> tuple[Codes, list[str]]:
    """Return codes and the text of each, -1 for a missing value."""
    pandas = load_pandas()
    if isinstance(values.dtype, pandas.CategoricalDtype):
        codes, seen = values.cat.codes.to_numpy(), values.cat.categories
        return codes.astype(np.int64), [category_level(one) for one in seen]
    if pandas.api.types.is_object_dtype(values.dtype):
        found = pandas.api.types.infer_dtype(values, skipna=True)
        if found != "string" and _WORDS.get(found, "text") == "text":
            # Mixed values as text first: to a hash, True and 1 are the same.
            values = values.map(category_level, na_action="ignore")
    codes, seen = pandas.factorize(values)
    return codes.astype(np.int64), [category_level(one) for one in seen]


def _check_whole(
    party: str, column: Column, present: FloatArray, *, largest: float
) -> None:
    if largest > LARGEST_WHOLE:
        raise SchemaError(
            *(party, column.name, "whole"),
            f"column {column.name!r} has whole numbers beyond 2^53, which float64 does "
            "not hold exactly; scale the column, or make it a category",
            code="whole-too-large",
        )
    broken = int(np.count_nonzero(np.rint(present) != present))
    if broken:
        raise SchemaError(
            *(party, column.name, "whole"),
            f"column {column.name!r} has {_count(broken, 'number')} with a fraction, "
            'the schema wants whole numbers; correct them, or agree on kind = "number"',
            code="not-whole",
        )


def _check_range(
    party: str, column: Column, present: FloatArray, low: float, high: float
) -> None:
    measure = column.measure
    least = measure.low if column.minimum is None else column.minimum
    most = measure.high if column.maximum is None else column.maximum
    if not len(present) or (least <= low and high <= most):
        return
    outside = int(np.count_nonzero((present < least) | (present > most)))
    if (column.minimum is None and low < least) or (
        column.maximum is None and high > most
    ):
        raise SchemaError(
            *(party, column.name, "range"),
            f"column {column.name!r} has {_count(outside, 'value')} outside {least:g} "
            f"to {most:g}, which is as far as {column.unit_words} is counted "
            "without an agreed range; correct them, or agree on a minimum and maximum",
            code="beyond-unit",
        )
    raise SchemaError(
        *(party, column.name, "range"),
        f"column {column.name!r} has {_count(outside, 'value')} outside the agreed "
        f"range of {column.range}; correct them, or agree on another minimum and "
        "maximum",
        code="value-out-of-range",
    )


def _refuse_infinite(party: str, column: Column, present: FloatArray) -> NoReturn:
    found = _count(int(np.count_nonzero(np.isinf(present))), "infinite value")
    raise SchemaError(
        *(party, column.name, "finite"),
        f"column {column.name!r} has {found}, the schema wants finite numbers; correct "
        "them, or leave the cells empty",
        code="not-finite",
    )


def _refuse_type(party: str, column: Column, values: Series, found: Nature) -> NoReturn:
    what, advice = f"holds {found}", 'agree on kind = "category"'
    if found == "text":
        example = printable(_first_text(values))
        what, advice = f'is text (for example "{example}")', _advice(example)
    if found == "dates":
        advice = _DATE_ADVICE
    if found == "true or false":
        advice = f"turn them into 0 and 1, or {advice}"
    raise SchemaError(
        *(party, column.name, "type"),
        f"column {column.name!r} {what}, the schema wants numbers; {advice}",
        code="not-numbers",
    )


def _first_text(values: Series) -> str:
    """Return the first value that is not a number, or the first of all."""
    pandas = load_pandas()
    present = values.dropna().astype(object)
    spelt = present.map(str)
    odd = present[pandas.to_numeric(spelt, errors="coerce").isna()]
    return str((odd if len(odd) else present).iloc[0])


_DATE_ADVICE = (
    'agree on kind = "date" with since = "2000-01-01", which counts days since then, '
    "or turn the dates into numbers first, such as years"
)


def _advice(example: str) -> str:
    if _DATE_LIKE.fullmatch(example.strip()):
        return f"this looks like a date: {_DATE_ADVICE}"
    if _DECIMAL_COMMA.fullmatch(example.strip()):
        return (
            'a decimal comma? read the file again with decimal = "," (veilsum join: '
            "--decimal ,)"
        )
    try:
        float(example)
    except ValueError:
        return 'leave cells without a number empty, or agree on kind = "category"'
    return (
        "these are numbers stored as text: convert them, or read the file again with "
        'decimal = "."'
    )


def _refuse_category(party: str, column: Column, found: str, rows: int) -> NoReturn:
    bare = [one for one in column.categories if one.lstrip("0") == found.lstrip("0")]
    hint = nearest_name(found, column.categories)
    if bare:
        hint = f"leading zeros lost? read the file with text = [{column.name!r}]; "
    quoted = [f'"{one}"' for one in column.categories]
    raise SchemaError(
        *(party, column.name, "category"),
        f'column {column.name!r} has a category "{printable(found)}" ({rows} rows with '
        f"a category that is not agreed), the schema has {listed_names(quoted)}; {hint}"
        "correct it, or agree on categories with it",
        code="unknown-category",
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
