"""Derived columns: a plain column of the tables, transformed row by row.

They stand in the dictionary, so that everybody sees them before any question:

    [schema.columns]
    cost = { kind = "number", minimum = 1, maximum = 100000, unit = 0.01 }
    age = { kind = "integer", minimum = 0, maximum = 120, cuts = [30, 40, 50, 60, 70] }
    log_cost = { of = "cost", as = "log" }
    age_2 = { of = "age", as = "power", exponent = 2 }
    age_spline = { of = "age", as = "natural spline", knots = [30, 50, 70] }

The list of forms is closed. Knots and ends of intervals are cut points of the column.
The author of a dictionary chooses these, so they can lie beside a single person: checks
at each party and its ledger look at the columns that are made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray, listed_names, nearest_name
from veilsum.numbers.units import numeric_unit_of
from veilsum.reading import check_read_keys
from veilsum.tables.columns import MOST_CUTS, NOT_IN_NAMES, Column, check_plain_text

Form: TypeAlias = Literal[
    "log",
    "log1p",
    "log10",
    "sqrt",
    "power",
    "scale",
    "intervals",
    "level",
    "natural spline",
    "b-spline",
]
FORMS: tuple[Form, ...] = get_args(Form)
LARGEST_EXPONENT = 10
MOST_DERIVED = 10_000
# Keys of a line beside `of` and `as`, by form.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "power": ("exponent",),
    "scale": ("unit",),
    "intervals": ("cuts",),
    "level": ("level",),
    "natural spline": ("knots",),
    "b-spline": ("knots",),
}
# From where on a function has values, and whether it has one there.
DOMAINS: Mapping[str, tuple[int, bool]] = {
    "log": (0, False),
    "log10": (0, False),
    "log1p": (-1, False),
    "sqrt": (0, True),
}
_DEGREE = 3
_ROUNDING = 2.0**-53


@dataclass(frozen=True)
class DerivedColumn:
    """A column that follows from one plain column, row by row.

    Most forms make one number of a row. Splines and intervals make several; a formula
    has all of them under the one name.

    Attributes:
        name: its name in formulas.
        source: the plain column.
        form: one of `FORMS`; `as` in a dictionary.
        exponent: of a power, 2 to 10.
        unit: of a scaled column, such as 10 for decades of age.
        level: of an indicator of one level of a category.
        points: knots of a spline, or ends of intervals; cut points of the column.
    """

    name: str
    source: Column
    form: Form
    exponent: int | None = None
    unit: Fraction | None = None
    level: str | None = None
    points: tuple[float, ...] = ()

    @classmethod
    def from_line(
        cls, name: str, line: object, columns: Mapping[str, Column]
    ) -> DerivedColumn:
        """Return the derived column that a line of a dictionary describes.

        Args:
            name: its name.
            line: keys `of`, `as`, and those of the form.
            columns: plain columns by name.

        Raises:
            InvalidInputError: the form is unknown, or does not fit the plain column.
        """
        where = f"[schema.columns] {name}"
        example = f'{name} = {{ of = "cost", as = "log" }}'
        if not isinstance(line, Mapping):
            raise InvalidInputError(
                f"{where} must be a table, such as {example}, found {line!r}",
                code="column-not-table",
            )
        check_plain_text("the name of a column", name, NOT_IN_NAMES)
        form, of = line.get("as"), line.get("of")
        if form not in FORMS:
            near = nearest_name(form, FORMS) if isinstance(form, str) else ""
            raise InvalidInputError(
                f"{where} has as = {form!r}; {near}a derived column is one of "
                f"{', '.join(FORMS)}, such as {example}",
                code="unknown-form",
            )
        check_read_keys(line, ("of", "as", *_KEYS.get(form, ())), where)
        if not isinstance(of, str) or of not in columns:
            near = nearest_name(of, [*columns]) if isinstance(of, str) else ""
            raise InvalidInputError(
                f"{where} is derived of {of!r}, which is not a plain column of the "
                f"dictionary; {near}derived columns are made of plain columns only: "
                f"{listed_names([*columns])}",
                code="derived-of-nothing",
            )
        source = columns[of]
        if source.is_category is not (form == "level"):
            raise InvalidInputError(
                f"{where} has as = {form!r} of {of!r}, which is of kind "
                f"{source.kind!r}; only as = 'level' is of a category",
                code="derived-of-wrong-kind",
            )
        make = _Line(where, source, line)
        make.check_domain(form)
        (key,) = _KEYS.get(form, ("",))
        return cls(
            *(name, source, form),
            exponent=make.exponent() if key == "exponent" else None,
            unit=make.unit() if key == "unit" else None,
            level=make.level() if key == "level" else None,
            points=make.points(key, form) if key in {"cuts", "knots"} else (),
        )

    def to_table(self) -> dict[str, Any]:
        """Return the line of the dictionary as a plain table."""
        table: dict[str, Any] = {"of": self.source.name, "as": self.form}
        if self.exponent is not None:
            table["exponent"] = self.exponent
        if self.unit is not None:
            table["unit"] = str(self.unit)
        if self.level is not None:
            table["level"] = self.level
        if self.points:
            key = "cuts" if self.form == "intervals" else "knots"
            table[key] = [self.source.written(one) for one in self.points]
        return table

    @property
    def width(self) -> int:
        """Number of numbers that it makes of a row."""
        if self.form == "natural spline":
            return len(self.points) - 1
        if self.form == "b-spline":
            return len(self.points) + _DEGREE
        return len(self.points) or 1

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of these numbers, such as `age_spline[1]`."""
        if self.form == "intervals":
            ends = [_shown(self.source.written(one)) for one in self.points]
            between = [f"{low} to {high}" for low, high in pairwise(ends)]
            return tuple(
                f"{self.name}[{one}]" for one in (*between, f"{ends[-1]} or more")
            )
        if self.width == 1:
            return (self.name,)
        return tuple(f"{self.name}[{place}]" for place in range(1, self.width + 1))

    def smooth(self, place: int, values: Any) -> Any:
        """Return one number of a spline, of an array of numbers or of a fraction.

        A natural spline has the column itself first, then bends: 0 below a knot, and
        linear beyond the last one.
        """
        if self.form == "b-spline":
            return self._bump(place + 1, values)
        if place == 0:
            return values
        number = Fraction if isinstance(values, Fraction) else float
        knots = [number(one) for one in self.points]
        bend, before, last = knots[place - 1], knots[-2], knots[-1]
        bends = (
            _cube(values - bend)
            - _cube(values - before) * ((last - bend) / (last - before))
            + _cube(values - last) * ((before - bend) / (last - before))
        )
        return bends / ((last - knots[0]) * (last - knots[0]))

    def slack(self, place: int, low: Fraction, high: Fraction) -> float:
        """Return how far off float64 may compute a number of a spline in a range."""
        if self.form == "b-spline":
            return 64.0 * _ROUNDING
        if place == 0:
            return 0.0
        bend, before, last = self.points[place - 1], *self.points[-2:]
        most = max(float(high), last) - min(float(low), bend)
        size = 1.0 + (last - bend) / (last - before) + (before - bend) / (last - before)
        return 32.0 * _ROUNDING * size * most**3 / (last - self.points[0]) ** 2

    def _bump(self, place: int, values: FloatArray) -> FloatArray:
        """Return a cubic B-spline by its place, by the recursion of Cox and de Boor."""
        low, high = self.source.minimum, self.source.maximum
        assert low is not None
        assert high is not None
        knots = np.array([low] * 4 + [*self.points] + [high] * 4)
        span = np.searchsorted(knots, values, side="right") - 1
        span = np.clip(span, _DEGREE, _DEGREE + len(self.points))
        # The four B-splines that are not 0 between two knots, degree after degree.
        parts = [np.ones(len(values))]
        for degree in range(1, _DEGREE + 1):
            carried, made = np.zeros(len(values)), []
            for k, part in enumerate(parts):
                right, left = knots[span + k + 1], knots[span + k + 1 - degree]
                share = part / (right - left)
                made.append(carried + (right - values) * share)
                carried = (values - left) * share
            parts = [*made, carried]
        found = np.zeros(len(values))
        for k, part in enumerate(parts):
            found = np.where(span - _DEGREE + k == place, part, found)
        return found


def is_derived_line(line: object) -> bool:
    """Say whether a line of [schema.columns] describes a derived column."""
    return isinstance(line, Mapping) and ("of" in line or "as" in line)


def derived_lines(derived: Any) -> dict[str, Any]:
    """Return lines of derived columns by name, from themselves or from a mapping."""
    if isinstance(derived, tuple) and all(
        isinstance(one, DerivedColumn) for one in derived
    ):
        lines = {one.name: one.to_table() for one in derived}
    elif isinstance(derived, Mapping) and all(isinstance(one, str) for one in derived):
        lines = dict(derived)
    else:
        raise InvalidInputError(
            "derived columns are a table of names and lines, such as "
            f'{{"log_cost": {{"of": "cost", "as": "log"}}}}, found {derived!r}',
            code="derived-not-table",
        )
    if len(lines) > MOST_DERIVED:
        raise InvalidInputError(
            f"a schema has at most {MOST_DERIVED:,} derived columns, found "
            f"{len(lines):,}",
            code="too-many-columns",
        )
    return lines


def source_of_line(line: object) -> str | None:
    """Return the plain column that a line of a derived column names."""
    found = line.get("of") if isinstance(line, Mapping) else None
    return found if isinstance(found, str) else None


def cut_points(lines: Iterable[object], column: Column) -> Column:
    """Return a column with the knots of its derived columns among its cut points.

    Only for simulations: real parties agree on cut points.
    """
    cuts = set(column.cuts)
    for line in lines:
        if isinstance(line, Mapping) and source_of_line(line) == column.name:
            for key in ("cuts", "knots"):
                given = line.get(key) or ()
                if isinstance(given, Sequence) and not isinstance(given, str):
                    few = given[: MOST_CUTS + 1]
                    cuts.update(column.number_written(key, one) for one in few)
    return replace(column, cuts=tuple(sorted(cuts)))


def _cube(values: Any) -> Any:
    if isinstance(values, Fraction):
        return max(values, Fraction(0)) ** 3
    above = np.maximum(values, 0.0)
    return above * above * above


def _shown(value: float | str) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return value


@dataclass(frozen=True)
class _Line:
    """The line of a derived column, read key by key."""

    where: str
    source: Column
    line: Mapping[str, Any]

    def exponent(self) -> int:
        found: Any = self.line.get("exponent")
        whole = isinstance(found, int) and not isinstance(found, bool)
        if not whole or not 2 <= found <= LARGEST_EXPONENT:
            raise InvalidInputError(
                f"{self.where} needs exponent, a whole number from 2 to "
                f"{LARGEST_EXPONENT}, found {found!r}",
                code="exponent-out-of-range",
            )
        return int(found)

    def unit(self) -> Fraction:
        if "unit" not in self.line:
            raise InvalidInputError(
                f"{self.where} needs unit: the column is divided by it, such as 10 for "
                "decades of age",
                code="derived-without-unit",
            )
        return numeric_unit_of(self.line["unit"], what=f"{self.where}: unit")

    def level(self) -> str:
        found = self.line.get("level")
        if found not in self.source.categories:
            raise InvalidInputError(
                f"{self.where} needs level, one of "
                f"{listed_names(self.source.categories)}, found {found!r}",
                code="unknown-level",
            )
        return str(found)

    def points(self, key: str, form: Form) -> tuple[float, ...]:
        """Return knots or ends of intervals, all of them cut points of the column."""
        name, cuts = self.source.name, self.source.cuts
        given = self.line.get(key)
        if isinstance(given, str) or not isinstance(given, Sequence | None):
            raise InvalidInputError(
                f"{self.where} {key} must be a list, found {given!r}", code="not-a-list"
            )
        listed = cuts if given is None else given[: MOST_CUTS + 1]
        found = tuple(self.source.number_written(key, one) for one in listed)
        shown = listed_names([_shown(self.source.written(one)) for one in cuts])
        beyond = [one for one in found if one not in cuts]
        if beyond or not cuts:
            other = _shown(self.source.written(beyond[0])) if beyond else "none"
            raise InvalidInputError(
                f"{self.where}: {key} are cut points of {name!r}, which has "
                f"{shown or 'none'}; found {other}: agree on [schema.columns] cuts of "
                f"{name!r} with all {key}",
                code="knot-no-cut-point",
            )
        least = 3 if form == "natural spline" else 1
        if len(found) < least or any(a >= b for a, b in pairwise(found)):
            raise InvalidInputError(
                f"{self.where}: {key} must rise, {least} of them or more, found "
                f"{listed_names([_shown(self.source.written(one)) for one in found])}",
                code="knots-not-rising",
            )
        most = self.source.maximum
        if form == "b-spline" and (
            not self.source.has_range or most is None or found[-1] >= most
        ):
            raise InvalidInputError(
                f"{self.where}: a b-spline ends where {name!r} does: agree on its "
                f"minimum and maximum, with {key} between them",
                code="spline-without-range",
            )
        return found

    def check_domain(self, form: Form) -> None:
        """Refuse a function that has no value somewhere in the agreed range."""
        least = self.source.minimum
        if form not in DOMAINS or least is None:
            return
        edge, included = DOMAINS[form]
        if least < edge or (least == edge and not included):
            raise InvalidInputError(
                f"{self.where} takes {form} of {self.source.name!r}, which may be as "
                f"low as {least:g}: agree on a minimum {'of' if included else 'above'} "
                f"{edge}, or on another form",
                code="term-range-undefined",
            )
