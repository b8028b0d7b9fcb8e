"""One column that all parties agree on: its kind, its range or levels, its unit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, floor, isfinite
from numbers import Integral, Real
from re import Pattern
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from veilsum.errors import InvalidInputError, is_seen, printable
from veilsum.numbers.arrays import Array, FloatArray, listed_names
from veilsum.numbers.shapes import Bool, Int
from veilsum.numbers.units import (
    BITS,
    UnitMeasure,
    inferred_unit_measure,
    numeric_unit_of,
    power_of_two_unit,
)
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
MOST_CUTS, MOST_WORDS = 1_000, 1_000
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

NATURES: dict[str, Nature] = {
    **dict.fromkeys(("integer",), "whole numbers"),
    **dict.fromkeys(("floating", "mixed-integer-float", "decimal"), "numbers"),
    **dict.fromkeys(("boolean",), "true or false"),
    **dict.fromkeys(("empty",), "empty"),
    **dict.fromkeys(("date", "datetime", "datetime64", "timedelta"), "dates"),
}
# What of a column can be counted.
COUNTED = {"numbers", "whole numbers", "empty"}
# What is counted in whole numbers only.
WHOLE_KINDS = ("integer", "date")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_LIKE = re.compile(
    r"(?:[0-9]{4}([-./])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-./])[0-9]{1,2}\2[0-9]{4})"
    r"(?:[T ].*)?"
)
_DAYS = re.compile(r"(?:([0-9]{1,5}) )?days?")
# Rows among which a first text is looked for.
_HEAD = 100
_BITS_OF_RANGE = re.compile(r"([0-9]{1,3}) bits?")


@dataclass(frozen=True)
class ColumnProblem:
    """A difference between a table and the schema, for the table's owner only.

    Attributes:
        column: name of the column; None if it is about rows.
        rule: rule of the schema, in one word.
        message: a sentence with the offending values.
        code: stable name of the problem; see `VeilsumError`.
        values: offending values as text with their numbers of rows, most frequent
            first, and at most `MOST_VALUES` of them.
        n_values: number of different offending values.
    """

    column: str | None
    rule: str
    message: str
    code: str
    values: tuple[tuple[str, int], ...] = ()
    n_values: int = 0


# Offending values of one problem that are kept.
MOST_VALUES = 100
# Problems of one table that a message lists.
MOST_PROBLEMS = 50


class SchemaError(InvalidInputError):
    """One party's table is not what the schema says; shown to this party only.

    The message may quote a value or a number of rows: it is never sent, and where it
    may be logged `plain` says the rule only.

    Attributes:
        party: whose table it is.
        column: the column, or the term of a formula; None if it is about rows. Of
            several problems the first one's, here and below.
        rule: what was broken, in one word.
        problems: all problems of the table with the schema.
    """

    def __init__(
        self,
        party: str,
        column: str | None,
        rule: str,
        message: str,
        *,
        code: str = "",
        problems: tuple[ColumnProblem, ...] = (),
    ) -> None:
        plain = f"refused by the schema: {rule}"
        before = f"{party}: " if party else ""
        super().__init__(f"{before}{message}", plain=plain, code=code)
        self.party = party
        self.column = column
        self.rule = rule
        self.problems = problems or (ColumnProblem(column, rule, message, code),)

    @classmethod
    def from_problems(
        cls, party: str, problems: Sequence[ColumnProblem]
    ) -> SchemaError:
        """Return one error about all problems of a table."""
        first = problems[0]
        message = first.message
        if len(problems) > 1:
            listed = [
                f"({place}) {one.message}"
                for place, one in enumerate(problems[:MOST_PROBLEMS], start=1)
            ]
            if left := len(problems) - len(listed):
                listed.append(f"and {left} more")
            message = f"the table has {len(problems)} problems: {'. '.join(listed)}"
        return cls(
            *(party, first.column, first.rule, message),
            code=first.code,
            problems=tuple(problems),
        )


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
        cuts: cut points in rising order, within the range. A value on a cut point
            belongs to the interval above it.
        law: public share of rows in each interval between minimum, cut points and
            maximum, or in each category; from a census or a textbook, never from the
            tables. Empty for equally likely values.
        recode: pairs of a value as tables write it and the value that it means; a
            mapping is accepted. Values that the column may have cannot be recoded.
        missing: values that mean that there is none, such as -9 or "unknown"; none of
            them is a value that the column may have.
    """

    name: str
    kind: Kind
    minimum: float | None = None
    maximum: float | None = None
    categories: tuple[str, ...] = ()
    unit: Fraction | None = None
    since: str | None = None
    cuts: tuple[float, ...] = ()
    law: tuple[float, ...] = ()
    recode: tuple[tuple[str, str | float], ...] = ()
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_plain_text("the name of a column", self.name, NOT_IN_NAMES)
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
        self._set(
            "categories", tuple(category_level_of_cell(one) for one in self.categories)
        )
        self._check_categories() if self.is_category else self._check_range()
        self._set("unit", self._unit())
        if self.is_measured:
            _ = self.measure  # a range that is too wide for its unit is refused here
        self._set("cuts", self._cut_points())
        self._set("law", self._checked_law())
        self._set("missing", self._missing_words())
        self._set("recode", self._recodings())

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
        return date.fromordinal(day_zero_of_column(self.since) + int(value)).isoformat()

    @property
    def has_range(self) -> bool:
        """Whether both ends were agreed on."""
        return self.minimum is not None and self.maximum is not None

    @property
    def is_measured(self) -> bool:
        """Whether it was said how the column's numbers are counted."""
        return not self.is_category and (
            self.kind in WHOLE_KINDS or self.unit is not None or self.has_range
        )

    @cached_property
    def measure(self) -> UnitMeasure:
        """Unit and bounds of the column's counts, from the agreement alone.

        The default unit is 1 for integers and dates, and for other numbers a power of
        two that leaves 40 bits of the range. A bound that was not agreed on is 2^39
        units away.

        Raises:
            InvalidInputError: the column is a category, or has neither unit nor range.
        """
        if self.is_category:
            raise InvalidInputError(
                f"column {self.name!r} is a category, not a number",
                code="not-a-number-column",
            )
        unit = Fraction(1) if self.kind in WHOLE_KINDS else None
        unit = self.unit or unit
        low, high = self.minimum, self.maximum
        try:
            if low is not None and high is not None:
                made = UnitMeasure.of(low, high, unit)
                numeric_unit_of(made.unit)
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
            return UnitMeasure(unit, least, most)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"column {self.name!r}: {error}", code=error.code
            ) from None

    @property
    def words(self) -> str:
        """Description of the column's allowed values, for a screen."""
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
        """Description of the column's unit, for a screen."""
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
        if self.cuts:
            table["cuts"] = [self.written(cut) for cut in self.cuts]
        if self.law:
            table["law"] = list(self.law)
        if self.recode:
            table["recode"] = dict(self.recode)
        if self.missing:
            table["missing"] = list(self.missing)
        return table

    @property
    def has_words(self) -> bool:
        """Whether some values of a table are recoded or mean that there is none."""
        return bool(self.recode or self.missing)

    @property
    def recoded_numbers(self) -> tuple[str, ...]:
        """The recoded values that are numbers or dates."""
        return tuple(one for one, _ in self.recode if _is_number_or_date(one))

    @cached_property
    def law_bins(self) -> tuple[tuple[float, int], ...]:
        """Share and number of admissible values of each interval of the law."""
        if self.is_category:
            return tuple((share, 1) for share in self.law)
        unit, least, most = self.measure.unit, self.measure.least, self.measure.most
        inner = [ceil(Fraction(cut) / unit) for cut in self.cuts]
        ends = [least, *(min(max(one, least), most + 1) for one in inner), most + 1]
        counts = (high - low for low, high in pairwise(ends))
        return tuple(zip(self.law, counts, strict=True))

    def admits(self, word: str) -> bool:
        """Say whether a value in this spelling is one that the column may have."""
        if self.is_category:
            return word in self.categories
        if self.kind == "date":
            try:
                number = float(column_day(word) - day_zero_of_column(str(self.since)))
            except (TypeError, ValueError):
                return False
        else:
            try:
                number = number_of_word(word)
            except ValueError:
                return False
            if not isfinite(number):
                return False
            if self.kind == "integer" and not number.is_integer():
                return False
        low, high = self.minimum, self.maximum
        return (low is None or low <= number) and (high is None or number <= high)

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
        zero = day_zero_of_column(str(self.since))
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
            given = power_of_two_unit(Fraction(high) - Fraction(low), int(bits[1]))
        unit = numeric_unit_of(
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

    def _cut_points(self) -> tuple[float, ...]:
        if not self.cuts:
            return ()
        if self.is_category:
            raise InvalidInputError(
                f"column {self.name!r} is a category and has no cuts; leave them out",
                code="cuts-of-category",
            )
        _check_column_entry_count(self.name, "cuts", self.cuts, MOST_CUTS)
        found = tuple(self.number_written("cuts", cut) for cut in self.cuts)
        low, high = self.minimum, self.maximum
        inside = all(
            (low is None or low < cut) and (high is None or cut <= high)
            for cut in found
        )
        if not inside or any(a >= b for a, b in pairwise(found)):
            shown = listed_names([self.shown(cut) for cut in found])
            raise InvalidInputError(
                f"column {self.name!r}: cuts must rise, above the minimum and up to "
                f"the maximum, found {shown}",
                code="cuts-not-rising",
            )
        return found

    def _checked_law(self) -> tuple[float, ...]:
        if not self.law:
            return ()
        bins = len(self.categories) if self.is_category else len(self.cuts) + 1
        of = "category" if self.is_category else "interval between cut points"
        numbers = all(
            isinstance(share, Real) and not isinstance(share, bool)
            for share in self.law
        )
        if not numbers or len(self.law) != bins:
            raise InvalidInputError(
                f"column {self.name!r}: law needs a share for each {of}, {bins} "
                f"numbers, found {len(self.law)} entries",
                code="law-of-wrong-length",
            )
        shares = tuple(float(share) for share in self.law)
        if not all(isfinite(one) and one >= 0 for one in shares) or not sum(shares) > 0:
            raise InvalidInputError(
                f"column {self.name!r}: shares of a law must not be negative, and one "
                f"must be above 0, found {listed_names([f'{s:g}' for s in shares])}",
                code="share-negative",
            )
        if not (self.is_category or self.has_range):
            raise InvalidInputError(
                f"column {self.name!r} has a law, and its shares need a range: agree "
                "on minimum and maximum",
                code="law-without-range",
            )
        self._set("law", shares)
        if any(share > 0 and not count for share, count in self.law_bins):
            raise InvalidInputError(
                f"column {self.name!r}: law has a share for an interval without a "
                "value in whole numbers of the unit; merge it with the next one",
                code="bin-without-value",
            )
        return shares

    def _missing_words(self) -> tuple[str, ...]:
        _check_column_entry_count(self.name, "missing", self.missing, MOST_WORDS)
        words = tuple(dict.fromkeys(map(self._word, self.missing)))
        for word in words:
            if self.admits(word):
                raise InvalidInputError(
                    f"column {self.name!r}: {word!r} cannot mean a missing value, "
                    f"since {self._admitting}",
                    code="missing-word-admitted",
                )
        return tuple(sorted(words))

    def _recodings(self) -> tuple[tuple[str, str | float], ...]:
        given: Any = self.recode
        pairs = [*given.items()] if isinstance(given, Mapping) else [*given]
        _check_column_entry_count(self.name, "recode", pairs, MOST_WORDS)
        found: dict[str, str | float] = {}
        for value, meaning in pairs:
            word = self._word(value)
            if self.admits(word):
                raise InvalidInputError(
                    f"column {self.name!r}: {word!r} cannot be recoded, since "
                    f"{self._admitting}",
                    code="recoded-value-admitted",
                )
            target = self._target(meaning)
            if word in self.missing or found.get(word, target) != target:
                raise InvalidInputError(
                    f"column {self.name!r}: {word!r} has two meanings; leave one out",
                    code="recoded-twice",
                )
            found[word] = target
        return tuple(sorted(found.items()))

    @property
    def _admitting(self) -> str:
        if self.is_category:
            return "it is one of the categories"
        some = self.minimum is not None or self.maximum is not None
        return (
            f"it is within the range of {self.range}; agree on a narrower range"
            if some
            else "every number is allowed; agree on a minimum and a maximum"
        )

    def _word(self, value: Any) -> str:
        """Return a value of a table in the spelling in which values are compared."""
        if type(value) is date:
            value = value.isoformat()
        if not isinstance(value, str | Real) or isinstance(value, bool):
            raise InvalidInputError(
                f"column {self.name!r}: values in recode and missing are texts or "
                f"numbers, found {value!r}",
                code="malformed-word",
            )
        word = category_level_of_cell(value)
        if len(word) > LONGEST_NAME or (word and not is_seen(word)):
            shown = printable(repr(word[:60]))
            raise InvalidInputError(
                f"column {self.name!r}: values in recode and missing have at most "
                f"{LONGEST_NAME} characters, all of which can be seen, found {shown}",
                code="malformed-word",
            )
        if self.kind in {"number", "integer"}:
            try:
                return category_level_of_cell(number_of_word(word))
            except ValueError:
                return word
        return word

    def _target(self, value: Any) -> str | float:
        try:
            target: str | float = (
                category_level_of_cell(value)
                if self.is_category
                else self.written(self.number_written("recode", value))
            )
            inside = self.admits(category_level_of_cell(target))
        except ValueError:  # of dates, too
            inside = False
        if not inside:
            raise InvalidInputError(
                f"column {self.name!r}: {printable(repr(value))} is not a value that "
                f"it may have, and nothing can be recoded to it: it is {self.words}",
                code="recoded-to-nothing",
            )
        return target

    def number_written(self, field: str, value: Any) -> float:
        """Return a number of the file, or the days that a date is."""
        if self.since is not None:
            return self._days(field, value)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidInputError(
                f"column {self.name!r}: {field} must be numbers, found {value!r}",
                code="not-a-number",
            )
        return float(value) + 0.0

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
            check_plain_text(f"a category of column {self.name!r}", one, NOT_IN_LEVELS)
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


def _check_column_entry_count(name: str, key: str, entries: Any, most: int) -> None:
    """Refuse what is not a list, and a long one before work is done."""
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise InvalidInputError(
            f"column {name!r}: {key} must be a list, found {entries!r}",
            code="not-a-list",
        )
    if len(entries) > most:
        raise InvalidInputError(
            f"column {name!r}: {key} has {len(entries):,} entries; at most {most:,} "
            "are allowed",
            code="too-many-entries",
        )


_PLAIN_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf)\s*"
)


def number_of_word(word: str) -> float:
    """Return the number that a text is.

    >>> number_of_word(" -9.0")
    -9.0

    Raises:
        ValueError: it is not a number with a decimal point.
    """
    if not _PLAIN_NUMBER.fullmatch(word):
        raise ValueError("not a number")
    return float(word)


def text_looks_like_date(text: str) -> bool:
    return bool(_DATE_LIKE.fullmatch(text.strip()))


def _is_number_or_date(word: str) -> bool:
    return bool(_PLAIN_NUMBER.fullmatch(word)) or text_looks_like_date(word)


def check_plain_text(what: str, text: object, forbidden: Pattern[str]) -> None:
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
    elif not unicodedata.is_normalized("NFC", text) or _column_text_is_stacked(text):
        why = "has letters or accents that Unicode writes in another way (NFC)"
    elif _column_text_is_mixed(text):
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


def _column_text_is_stacked(text: str) -> bool:
    """Say whether marks stand on nothing, or on each other: they cover other lines."""
    marks = "".join("m" if unicodedata.combining(one) else "-" for one in text)
    return marks.startswith("m") or "mmm" in marks


def _column_text_is_mixed(text: str) -> bool:
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


def category_level_of_cell(value: Any) -> str:
    """Return a category as text: 1, 1.0 and "1" are one category.

    >>> [category_level_of_cell(one) for one in (1, 1.0, "1", 2.5, True)]
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
    return NATURES.get(api.infer_dtype(values, skipna=True), "text")


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


def day_zero_of_column(since: str) -> int:
    return date.fromisoformat(since).toordinal()


def column_nature_or_dates(values: Series) -> Nature:
    """Return the nature of a column, which is "dates" of texts that are dates."""
    found = column_nature(values)
    category = isinstance(values.dtype, load_pandas().CategoricalDtype)
    return (
        "dates"
        if found == "text" and not category and _all_column_texts_are(values, _ISO)
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
    return _all_column_texts_are(values, _DATE_LIKE)


def _all_column_texts_are(values: Series, pattern: re.Pattern[str]) -> bool:
    """Return whether all texts of a column match; mostly the first one decides."""
    head = values.iloc[:_HEAD].dropna()
    if len(head) and not pattern.fullmatch(category_level_of_cell(head.iloc[0])):
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
    held = [
        float_values_of_column(one) for one in parts if column_nature(one) in COUNTED
    ]
    pooled = np.concatenate([*held, np.zeros(0)])
    pooled = pooled[np.isfinite(pooled)]
    low, high = column.minimum, column.maximum
    if low is None:
        low = float(pooled.min()) if pooled.size else high or 0.0
    if high is None:
        high = max(float(pooled.max()), low) if pooled.size else low
    unit = column.unit
    if unit is None and column.kind == "number":
        unit = inferred_unit_measure(np.append(pooled, [low, high])).unit
    return replace(column, minimum=min(low, high), maximum=high, unit=unit)


def column_levels(values: Series) -> set[str]:
    codes, levels = level_codes_of_column(values)
    if not isinstance(values.dtype, load_pandas().CategoricalDtype):
        return set(levels)  # all of them occur
    rows = np.bincount(codes[codes >= 0], minlength=len(levels))
    return {levels[code] for code in np.flatnonzero(rows)}


def float_values_of_column(values: Series) -> FloatArray:
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiu":
        return np.array(values.to_numpy(), dtype=np.float64)
    gaps = values.isna().to_numpy(dtype=bool)
    numbers = np.full(len(values), np.nan)
    numbers[~gaps] = values[~gaps].to_numpy(dtype=np.float64)
    return numbers


def level_codes_of_column(values: Series) -> tuple[Codes, list[str]]:
    """Return codes and the text of each, -1 for a missing value."""
    pandas = load_pandas()
    if isinstance(values.dtype, pandas.CategoricalDtype):
        codes, seen = values.cat.codes.to_numpy(), values.cat.categories
        return codes.astype(np.int64), [category_level_of_cell(one) for one in seen]
    if pandas.api.types.is_object_dtype(values.dtype):
        found = pandas.api.types.infer_dtype(values, skipna=True)
        if found != "string" and NATURES.get(found, "text") == "text":
            # Mixed values as text first: to a hash, True and 1 are the same.
            values = values.map(category_level_of_cell, na_action="ignore")
    codes, seen = pandas.factorize(values)
    return codes.astype(np.int64), [category_level_of_cell(one) for one in seen]
