"""A model's formula, checked against the schema before anybody has data.

The design's columns follow from the formula and the schema alone, so that they mean
the same at every party. That rules out functions that look at the rows first.

A formula may come out of a file that somebody else wrote, so nothing of it is ever run
as code. It is read once, here, into a small tree of frozen values; only that tree is
evaluated, by a few lines below. formulaic knows the numbers that contrasts code
categories by, under names of our own: no text of a file reaches it.

How far a term can go, and what it is counted in, follows from the schema as well
(`Extent`); its value in a row is the same on every machine.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import chain, product, zip_longest
from math import comb, floor, gcd, inf, isfinite, prod
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np

from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    is_seen,
    printable,
)
from veilsum.models.rows import PerRow
from veilsum.numbers import elementary
from veilsum.numbers.arrays import Array, FloatArray, listed, nearest
from veilsum.numbers.units import BITS, BLOCK_ROWS, Measure, unit_of
from veilsum.tables.columns import Column, SchemaError, day_of
from veilsum.tables.frames import Frame, as_frame, load_pandas, needed
from veilsum.tables.schema import CheckedTable, Schema

# How many levels a response may have that is a category.
Levels: TypeAlias = Literal["two", "several", "any"]

# Bounds on what a formula may ask for; each is checked before the work is done.
LONGEST_FORMULA = 10_000
LONGEST_NUMBER = 40
LARGEST_POWER = 5
DEEPEST_NESTING = 20
MOST_OPERATIONS = 100
MOST_CATEGORIES_IN_A_TERM = 6
MOST_FACTORS_IN_A_TERM = 20
# A design of p columns has p (p + 1) / 2 sums: half a million.
MOST_TERMS = MOST_DESIGN_COLUMNS = 1_000

# Each works on one row at a time: nothing is learned from the others. None is the C
# library's, whose last bits are another machine's choice.
FUNCTIONS: Mapping[str, Any] = {
    "log": elementary.log,
    "log1p": elementary.log1p,
    "log10": elementary.log10,
    "exp": elementary.exp,
    "expm1": elementary.expm1,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
# These learn a centre, knots or an order from the rows they are given.
STATEFUL = (
    *("center", "scale", "standardize", "poly", "lag", "hashed"),
    *("bs", "cs", "cr", "cc", "ns", "te"),
)
# A contrast depends on the list of categories only, and that is the schema's. Each is a
# class of formulaic, with its options as they are written and as the class has them.
_HELMERT = ("HelmertContrasts", {"reverse": "reverse", "scale": "scale"})
_DIFF = ("DiffContrasts", {"backward": "backward"})
CONTRASTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Treatment": ("TreatmentContrasts", {"reference": "base"}),
    "Sum": ("SumContrasts", {}),
    "Helmert": _HELMERT,
    "Diff": _DIFF,
    "Poly": ("PolyContrasts", {}),
    "contr.treatment": ("TreatmentContrasts", {"base": "base"}),
    "contr.SAS": ("SASContrasts", {"base": "base"}),
    "contr.sum": ("SumContrasts", {}),
    "contr.helmert": _HELMERT,
    "contr.diff": _DIFF,
    "contr.poly": ("PolyContrasts", {}),
}


def _power(base: Any, exponent: Any) -> Any:
    """Return a power, in every row; a whole one up to 64 is a product."""
    if np.ndim(base) == np.ndim(exponent) == 0:
        return base**exponent
    if np.ndim(exponent) or exponent not in range(1, _MOST_FACTORS + 1):
        return elementary.power(base, exponent)
    # From the highest bit down: square, and multiply where the bit is set.
    found = base
    for bit in f"{int(exponent):b}"[1:]:
        found = found * found * base if bit == "1" else found * found
    return found


# Whose rows they are that somebody makes up, to predict for.
NEW = "the new data"
# Powers above this are no products any more.
_MOST_FACTORS = 64
_SIGNS: Mapping[str, Any] = {"+": operator.pos, "-": operator.neg}
# What is true is 1, and what is not is 0.
_COMPARED: Mapping[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
_JOINED: Mapping[str, Any] = {"&": np.minimum, "|": np.maximum}
_ARITHMETIC: Mapping[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": _power,
    **_JOINED,
    **{
        sign: lambda left, right, compare=compare: 1.0 * compare(left, right)
        for sign, compare in _COMPARED.items()
    },
}
# How tightly each binds, as in Python: a sign stands between a product and a power.
_BINDING = {
    **dict.fromkeys(_COMPARED, 1),
    **dict(zip("|&+-*/", (2, 3, 4, 4, 5, 5), strict=True)),
    "sign": 6,
    "**": 7,
}


@dataclass(frozen=True)
class Named:
    """A column; `quoted` if its name stood in backticks inside an expression."""

    name: str
    quoted: bool = False


@dataclass(frozen=True)
class Number:
    """A number that was written into the formula."""

    value: float


@dataclass(frozen=True)
class Level:
    """A category's level, in quotes, that the category is compared with."""

    value: str


@dataclass(frozen=True)
class Signed:
    """Plus or minus something."""

    sign: str
    inner: Node


@dataclass(frozen=True)
class Operation:
    """Two things with a sign of arithmetic or comparison between them, or `&`, `|`."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Applied:
    """A function of one argument; `I` is the one that changes nothing."""

    function: str
    inner: Node


@dataclass(frozen=True)
class Chosen:
    """`where(condition, yes, no)`: one thing in some rows, another in the rest."""

    condition: Node
    yes: Node
    no: Node


class Option(NamedTuple):
    """An option of a contrast: a level in quotes, True or False; the rest is wrong."""

    key: str | None
    value: str | bool | None
    written: str


@dataclass(frozen=True)
class Coded:
    """`C(...)`: a category, and how it is coded."""

    column: Named
    contrast: str | None = None
    options: tuple[Option, ...] | None = None
    keyword: bool = False


Node: TypeAlias = Named | Number | Level | Signed | Operation | Applied | Chosen | Coded
Term: TypeAlias = tuple[Node, ...]
# A term is known by its factors in any order, and keeps the order it was written in.
Terms: TypeAlias = dict[frozenset[Node], Term]
INTERCEPT: Term = ()


@dataclass(frozen=True)
class ReadFormula:
    """A formula's two sides, read and multiplied out; no schema is needed for that.

    Attributes:
        left: the terms of the response.
        right: the terms of the design, lower interactions first.
        written: each factor that stands anywhere in the text, with its own text.
    """

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    written: tuple[tuple[Node, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the text names, each once."""
        nodes = (node for node, _ in self.written)
        return tuple(dict.fromkeys(name for node in nodes for name in named_in(node)))

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that the text has in C(...)."""
        coded = (node for node, _ in self.written if isinstance(node, Coded))
        return tuple(dict.fromkeys(node.column.name for node in coded))


@dataclass(frozen=True)
class ModelFormula:
    """A regression's formula together with the schema it is about.

    On the left stands one response: a column of numbers, a stateless function of some,
    or a category with two levels, which becomes 0 for the first and 1 for the second;
    with more levels it is a choice, and these are 0, 1, 2 and so on.
    On the right stand terms: columns, `C(...)` with a contrast, arithmetic in `{...}`
    or `I(...)`, the functions in `FUNCTIONS`, also as `np.log`, and interactions. A
    category is coded by the schema's list, with or without `C`.

    Attributes:
        text: the formula as it was written.
        schema: what the tables look like.
        response: the left side.
        variables: the schema's columns that a table needs for this formula.
        columns: the design's columns, in order.
        intercept: where the intercept is among them; None if there is none.
    """

    text: str
    schema: Schema = field(repr=False)
    response: str
    variables: tuple[str, ...]
    columns: tuple[str, ...]
    intercept: int | None
    _left: Node = field(repr=False, compare=False)
    _right: _Expansion = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, schema: Schema, *, levels: Levels = "two") -> ModelFormula:
        """Return the formula, checked; no data are needed.

        Args:
            text: the formula.
            schema: what the tables look like.
            levels: of a category that is the response: two, which may be a number as
                well; several, which must be a category; or any.

        Raises:
            InvalidInputError: it cannot be read, names a column the schema does not
                have, or uses a function that would differ from party to party.
            MissingExtraError: a contrast other than treatment's is there, and formulaic
                is not installed.
        """
        read = read_formula(text)
        for node, code in read.written:
            _Check(code, schema).factor(node)
        response = _response(read, schema, levels)
        variables = _variables(read)
        _check_size(text, read.right, schema)
        example = _example(schema, variables)
        try:
            with np.errstate(all="ignore"):
                for node in {response, *(one for term in read.right for one in term)}:
                    if not _levels(node, schema):
                        evaluate(node, example)
                made = _Expansion.of(read.right, schema)
        except MissingExtraError:
            raise
        except Exception as error:  # whatever a contrast or a constant may do
            raise InvalidInputError(
                f"the formula {_short(text)} cannot be used: "
                f"{(str(error).splitlines() or [type(error).__name__])[0]}"
            ) from None
        columns = made.columns
        _check_design(text, columns)
        return cls(
            *(text, schema, shown(response), variables, columns),
            intercept=made.intercept,
            _left=response,
            _right=made,
        )

    def measures(self, bits: int = BITS) -> tuple[Measure, ...]:
        """Return how each of the design's columns is counted, from the schema alone.

        A column that stands by itself has its own measure. What is computed has the
        unit that follows from its columns' units as far as it fits so many bits, and
        else a power of two that leaves so many bits of the range it can have.

        Raises:
            InvalidInputError: in the agreed ranges a term may be without a value.
        """
        _check_bits(bits)
        found = tuple(one.measure(bits) for one in self._extents)
        for name, one in zip(self.columns, found, strict=True):
            unit_of(one.unit, what=f"the unit of {name!r}")
        return found

    def response_measure(self, bits: int = BITS) -> Measure:
        """Return how the response is counted, from the schema alone."""
        _check_bits(bits)
        found = self._response_extent.measure(bits)
        unit_of(found.unit, what=f"the unit of {self.response!r}")
        return found

    @property
    def made_of(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """For each of the design's columns its categories, and its numbers as text."""
        right, found = self._right, []
        for pieces in right.pieces:
            factors = [one.factor for one in pieces]
            coded = [k for k in factors if right.levels[k]]
            found.append(
                (
                    tuple(next(named_in(right.factors[k])) for k in coded),
                    tuple(shown(right.factors[k]) for k in factors if k not in coded),
                )
            )
        return tuple(found)

    @property
    def codings(self) -> dict[str, list[str]]:
        """How categories are coded that are coded by other numbers than 0 and 1.

        By factor: the unit that these are rounded to, and a digest of all of them. It
        belongs to what parties compare.
        """
        return self._right.codings

    def design(
        self, table: CheckedTable, bits: int = BITS
    ) -> tuple[Array[Any], Array[Any]]:
        """Return one party's design, one row per row of its table, and response.

        Numbers are float64. With more bits than these have, whatever is computed
        from columns by arithmetic is exact, and a design that has it one of fractions.

        Raises:
            SchemaError: a term is not a finite number in some row.
        """
        self._check_table(table)
        design = self._evaluated(table)
        return self._refined(table, design, bits), self._responses(table, bits)

    @property
    def predictors(self) -> tuple[str, ...]:
        """The schema's columns that the right side names, in the schema's order."""
        named = {name for node in self._right.factors for name in named_in(node)}
        return tuple(name for name in self.schema.names if name in named)

    def design_at(self, frame: Any) -> Array[Any]:
        """Return the design of rows that need no response, such as ones to predict.

        Levels are those of the schema. Numbers may be any: ranges and units are about
        tables that are summed.

        Raises:
            SchemaError: a column is missing, or a level is none of the schema's.
        """
        rows, made = as_frame(frame), {}
        for column in map(self.schema.column, self.predictors):
            if column.is_category:
                checked = Schema((column,), minimum_rows=1).check(NEW, rows)
                made[column.name] = checked.frame[column.name].array
            else:
                made[column.name] = new_numbers(rows, column.name)
        filled = load_pandas().DataFrame(made, index=range(len(rows)))
        return self._evaluated(CheckedTable(NEW, self.schema, filled, 0))

    def _evaluated(self, table: CheckedTable) -> Array[Any]:
        with np.errstate(all="ignore"):
            design = self._right.matrix(table.frame, self._numbers(table))
        _check_finite(table, design, self.columns)
        return design

    def _numbers(self, table: CheckedTable) -> list[Array[Any] | None]:
        """Return the values of the factors on the right; None for a category."""
        right = self._right
        return [
            None if levels else np.asarray(evaluate(node, table.frame), np.float64)
            for node, levels in zip(right.factors, right.levels, strict=True)
        ]

    def _refined(self, table: CheckedTable, design: Array[Any], bits: int) -> Any:
        """Return the design with those columns exact that float64 would get wrong."""
        wide = self._exact_places(bits)
        if not wide:
            return design
        right = self._right
        values = [
            None if levels else exact(node, table)
            for node, levels in zip(right.factors, right.levels, strict=True)
        ]
        made = design.astype(object) if any(wide.values()) else design
        for place, column in right.parts(wide, table.frame, values):
            made[:, place] = column
        return made

    def _exact_places(self, bits: int) -> dict[int, bool]:
        """Return the columns that float64 would get wrong, and whether each is wide."""
        try:
            extents = self._extents
        except InvalidInputError:
            return {}  # in a simulation, whose ranges need not show that all is well
        return {
            place: extent.measure(bits).wide
            for place, extent in enumerate(extents)
            if extent.needs_exact(bits)
        }

    def unchanged(self, bits: int = BITS) -> dict[str, int]:
        """Return the schema's columns that the design has as they are, by place."""
        right, wide = self._right, self._exact_places(bits)
        names: dict[str, int] = {}
        if any(wide.values()):  # the design is one of fractions
            return names
        for place, pieces in enumerate(right.pieces):
            if len(pieces) == 1 and not right.levels[pieces[0].factor]:
                node = right.factors[pieces[0].factor]
                if isinstance(node, Named) and place not in wide:
                    names[node.name] = place
        return names

    def summed_with(self, table: CheckedTable) -> Iterator[tuple[str, Array[Any]]]:
        """Yield each number on the right with the flags that multiply it in sums.

        Sums hold the products of any two columns of the design, and of each with the
        response. With `b ~ a * cost` they hold cost, a cost, b cost and a b cost: the
        flags of cost are 1, a, b and a b, a column each. Numbers of two values are
        flags themselves, and are left out. Numbers that stand alone in their terms
        have the same flags, which are yielded once.
        """
        if not table.n_rows:
            return
        right, numbers = self._right, self._numbers(table)
        design = dict(right.parts(range(len(right.pieces)), table.frame, numbers))
        flags = {(k, 0): _flag(one, table.n_rows) for k, one in design.items()}
        response = self._responses(table, BITS)
        levels = np.unique(response[:_HEAD])
        if levels.size <= 2 or self.response_is_category:
            levels = np.unique(response)
        if levels.size == 2 or self.response_is_category:
            flags |= {(-1, k): response == one for k, one in enumerate(levels[1:])}
        left, done = {*named_in(self._left)}, set[tuple[tuple[int, int], ...]]()
        for place, node in enumerate(right.factors):
            uses = [[one.factor for one in few].count(place) for few in right.pieces]
            uses.append(not left.isdisjoint(named_in(node)))  # of the response, at -1
            others = tuple(
                k for k, one in flags.items() if one is not None and not uses[k[0]]
            )
            terms = [k for k, count in enumerate(uses[:-1]) if count == 1]
            alone = all(len(right.pieces[k]) == 1 for k in terms)
            # Without the response these are columns of the design, which is checked.
            known = alone and (others in done or all(k >= 0 for k, _ in others))
            number = numbers[place]
            if number is None or not terms or known:
                continue
            if _flag(number, table.n_rows) is not None:
                continue
            if alone:
                done.add(others)
            ones = [*numbers[:place], np.ones(table.n_rows), *numbers[place + 1 :]]
            rest = (one for _, one in right.parts(terms, table.frame, ones))
            found = _both(
                [_flag(one, table.n_rows) for one in rest], [flags[k] for k in others]
            )
            if len(found) > 1:
                yield shown(node), np.column_stack(found)

    def parts(self, table: CheckedTable) -> Iterator[tuple[Node, Any]]:
        """Yield every part of the response and of the design's terms, with its values.

        A category has codes. What only is the argument of a function, and follows from
        one column without another function, is no part: the function's value is.
        """
        frame, seen = table.frame, set[Node]()
        for node in (self._left, *self._right.factors):
            if _levels(node, self.schema):
                seen.add(node)
                yield node, frame[next(named_in(node))].cat.codes.to_numpy()
                continue
            with np.errstate(all="ignore"):
                for part, values in _parts(node, frame):
                    if part not in seen:
                        seen.add(part)
                        yield part, values

    def is_two_valued(self, node: Node) -> bool:
        """Say whether a part has two values at most, by the schema alone."""
        try:
            extent = extent_of(node, self.schema)
        except InvalidInputError:
            return False
        return extent.unit is not None and extent.high - extent.low <= extent.unit

    def span(self, node: Node) -> float:
        """Return how far apart a part's values may be; 0 if the schema cannot tell."""
        try:
            extent = extent_of(node, self.schema)
        except InvalidInputError:
            return 0.0
        return float(extent.high - extent.low)

    @property
    def crossed(self) -> tuple[tuple[Node, ...], ...]:
        """The factors that are multiplied in the design's columns, each set once."""
        sets = (tuple(one.factor for one in pieces) for pieces in self._right.pieces)
        return tuple(
            tuple(self._right.factors[k] for k in places)
            for places in dict.fromkeys(sets)
            if places
        )

    @property
    def by_variables(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        """The design's columns that are made of some variables, and of no others.

        For every set of variables that makes a column.
        """
        factors = self._right.factors
        made = [
            frozenset(name for one in pieces for name in named_in(factors[one.factor]))
            for pieces in self._right.pieces
        ]
        return {
            tuple(sorted(few)): tuple(k for k, own in enumerate(made) if own <= few)
            for few in dict.fromkeys(made)
        }

    @property
    def response_is_shaped(self) -> bool:
        """Whether the response is more than a column, or on the right as well."""
        left, right = self._left, self._right.factors
        named = {name for node in right for name in named_in(node)}
        return not isinstance(left, Named) or left.name in named

    def addends(self, table: CheckedTable) -> Array[Any] | None:
        """Return what is added up in terms, a column each; None if nothing is.

        A sum hides its addends from whoever looks at it, and not from whoever takes off
        what is known of them.
        """
        nodes = (self._left, *self._right.factors)
        each = [[*_addends(one)] for one in nodes if not _levels(one, self.schema)]
        if all(len(found) < 2 for found in each):
            return None
        with np.errstate(all="ignore"):
            distinct = dict.fromkeys(node for found in each for node in found)
            columns = [evaluate(node, table.frame) for node in distinct]
        return np.nan_to_num(np.stack(columns, axis=1).astype(np.float64))

    def numeric(self, table: CheckedTable, column: str) -> PerRow:
        """Return a column of numbers, such as weights or an offset."""
        self._check_table(table)
        return table.numbers(column)

    def _responses(self, table: CheckedTable, bits: int) -> Array[Any]:
        if self.response_is_category:
            codes: PerRow = table.frame[self.response].cat.codes.to_numpy(np.float64)
            return codes
        with np.errstate(all="ignore"):
            values = evaluate(self._left, table.frame)
        _check_finite(table, values[:, np.newaxis], (self.response,))
        values = np.ascontiguousarray(values, dtype=np.float64)
        try:
            extent = self._response_extent
        except InvalidInputError:
            return values
        if not extent.needs_exact(bits):
            return values
        precise: Array[Any] = exact(self._left, table)
        return precise if extent.measure(bits).wide else precise.astype(np.float64)

    @cached_property
    def _extents(self) -> tuple[Extent, ...]:
        right = self._right
        factors = [
            None if levels else extent_of(node, self.schema)
            for node, levels in zip(right.factors, right.levels, strict=True)
        ]
        found = []
        for pieces in right.pieces:
            each = [piece.extent(factors) for piece in pieces]
            found.append(reduce(Extent.times, each) if each else ONES)
        return tuple(found)

    @cached_property
    def _response_extent(self) -> Extent:
        if self.response_is_category:
            return replace(INDICATOR, high=Fraction(len(self.response_levels) - 1))
        return extent_of(self._left, self.schema)

    @property
    def response_levels(self) -> tuple[str, ...]:
        """The levels of a response that is a category; none of a number."""
        return _levels(self._left, self.schema)

    @property
    def response_is_category(self) -> bool:
        """Whether the response is a category."""
        left = self._left
        return isinstance(left, Named) and self.schema.column(left.name).is_category

    def _check_table(self, table: CheckedTable) -> None:
        if table.schema != self.schema:
            raise InvalidInputError(
                "the table was checked against another schema than the formula's; "
                "check it again with the formula's schema"
            )


def new_numbers(frame: Frame, name: str) -> PerRow:
    """Return a column of numbers that are predicted for: any, as long as it has all."""
    if name not in frame.columns:
        raise SchemaError(
            *(NEW, name, "column"),
            f"there is no column {name!r}, which a prediction needs; "
            f"{nearest(name, list(frame.columns))}add it",
        )
    try:
        found = np.asarray(frame[name].to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        found = np.full(len(frame), np.nan)
    if not np.isfinite(found).all():
        raise SchemaError(
            *(NEW, name, "number"),
            f"the column {name!r} must have a finite number in every row: fill in "
            "what is missing, and write numbers with a decimal point",
        )
    return found


# Reading


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


# What is none of these is a token of its own, and nothing in the grammar takes it; nor
# what only begins like a number. No character is looked at twice: hence all the `++`.
_TOKENS = re.compile(
    r"""(?P<name>[^\W\d][\w.]*)
    |(?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w.]))
    |(?P<wrong>\.?[0-9][\w.]*+)
    |`(?P<quoted>[^`]*)`
    |'(?P<single>[^'\\]*)'|"(?P<double>[^"\\]*)"
    |(?P<sign>\*\*|%in%|[<>=!]=|[-+*/^:~|&<>(){}\[\],=.])
    |(?P<other>\S)""",
    re.VERBOSE,
)
# Inside an expression these are no names, unless they stand in backticks.
_NO_COLUMN = re.compile(r"\.|\A(?:True|False|None)\Z")
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_END = _Token("end", "", -1, -1)
_TILDE = ("sign", "~")


def read_formula(text: str) -> ReadFormula:
    """Return a formula's terms; this is the only place that looks at its text.

    Raises:
        InvalidInputError: it is not a formula, or asks for more than the bounds allow.
    """
    _check_text(text)
    return _Reader(text).formula()


class SurvivalFormula(NamedTuple):
    """`Surv(time, event) ~ ...`: two columns, and the right side as it was written."""

    time: str
    event: str
    right: str

    @property
    def of_time(self) -> str:
        """The same right side below the time alone, as `read_formula` takes it."""
        return f"`{self.time}` ~ {self.right}"

    @property
    def of_event(self) -> str:
        """The same right side below the event alone."""
        return f"`{self.event}` ~ {self.right}"


def read_surv(text: str) -> SurvivalFormula:
    """Return the parts of a formula whose left side is `Surv(time, event)`.

    Time and event are columns, with backticks where a name needs them. What stands on
    the right is not looked at, but that it is there and has no `Surv` in it.

    >>> read_surv("Surv(days, died) ~ age + C(sex)")
    SurvivalFormula(time='days', event='died', right='age + C(sex)')

    Raises:
        InvalidInputError: it is not such a formula.
    """
    _check_text(text)
    return _Reader(text).survival()


def _check_text(text: object) -> None:
    """Refuse what is too long for a formula, or has what cannot be seen in it."""
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a formula is a text such as 'y ~ age + C(sex)', found {text!r}"
        )
    if len(text) > LONGEST_FORMULA:
        raise InvalidInputError(
            f"a formula has at most {LONGEST_FORMULA:,} characters, found "
            f"{len(text):,}; fit fewer terms at a time"
        )
    if not is_seen(re.sub(r"[\n\r\t]", " ", text)):
        raise InvalidInputError(
            f"the formula {_short(text)} has a character that cannot be seen; write it "
            "again by hand"
        )
    if "\\" in text:
        raise InvalidInputError(
            f"the formula {_short(text)} has a backslash; leave it out"
        )


class _Reader:
    """Reads one formula from left to right, and multiplies its terms out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [
            _Token(str(one.lastgroup), one[str(one.lastgroup)], *one.span())
            for one in _TOKENS.finditer(text)
        ]
        self.place = 0
        # Where the factor ends that is being read, and its own text for refusals.
        self.stop = len(self.tokens)
        self.code = ""
        self.depth = self.operations = self.made = 0
        self.written: list[tuple[Node, str]] = []

    def formula(self) -> ReadFormula:
        """Return both sides."""
        if not self.tokens or self._sign() == "~":
            self._refuse_sides()
        left = self._sum({})
        if not self._took("~"):
            self._refuse_sides()
        # The intercept is there unless the right side takes it away.
        right: Terms = {frozenset(): INTERCEPT}
        if self._next() is not _END:
            right = self._sum(right)
        if self._sign() == "|":
            self._refuse_sides()
        if self._next() is not _END:
            self._unexpected()
        by_degree = sorted(right.values(), key=len)
        return ReadFormula(tuple(left.values()), tuple(by_degree), tuple(self.written))

    def survival(self) -> SurvivalFormula:
        """Return the columns in `Surv(time, event)`, and the text of the other side."""
        sides = [one for one, token in enumerate(self.tokens) if token[:2] == _TILDE]
        first = self._next()
        if len(sides) != 1 or first.text != "Surv" or self._sign(1) != "(":
            self._refuse_survival("has no such left side")
        if first.end != self._next(1).start:
            self._refuse_survival("has a space after Surv")
        after, last = sides[0] + 1, self._closing(1)
        if after == len(self.tokens):
            self._refuse_survival("has nothing on the right; 1 stands for all rows")
        if any(token[:2] == ("name", "Surv") for token in self.tokens[after:]):
            self._refuse_survival("has Surv on the right, and it stands on the left")
        if last + 2 != after:
            self._refuse_survival("has more than Surv on the left")
        inside = self.tokens[2:last]
        if any(token.kind in {"single", "double"} for token in inside):
            self._refuse_survival(
                "has a name in quotes; columns have none, or backticks"
            )
        columns, commas = inside[::2], inside[1::2]
        whole = len(columns) == len(commas) + 1
        if not whole or any(token[:2] != ("sign", ",") for token in commas):
            self._refuse_survival(
                "has more than columns in Surv; compute a column first, such as one "
                "that is 1 where the event was seen and 0 elsewhere"
            )
        if len(columns) == 3:
            self._refuse_survival(
                "has three columns in Surv; rows that enter late, or end within an "
                "interval, are not known here"
            )
        if len(columns) != 2 or any(
            one.kind not in {"name", "quoted"} or not one.text.strip()
            for one in columns
        ):
            self._refuse_survival("has something else than two columns in Surv")
        time, event = (one.text for one in columns)
        if time == event:
            self._refuse_survival("has one column for both time and event")
        return SurvivalFormula(
            time, event, self.text[self.tokens[after].start :].strip()
        )

    # Terms: sums, products and powers of factors, as R and formulaic have them.

    def _sum(self, terms: Terms) -> Terms:
        """Return these terms with those added and taken away that are written here."""
        minus = self._minus()
        while True:
            if self._next()[:2] == ("number", "0"):  # 0 is short for -1
                self.place += 1
                minus = not minus
                found: Terms = {frozenset(): INTERCEPT}
            else:
                found = self._product()
            for key, term in found.items():  # in place: there may be thousands
                if minus:
                    terms.pop(key, None)
                else:
                    terms.setdefault(key, term)
            self._check_terms(len(terms))
            if self._sign() not in _SIGNS:
                return terms
            minus = self._minus()

    def _minus(self) -> bool:
        """Return whether the signs that stand here, if any, mean minus together."""
        minus = False
        while self._sign() in _SIGNS:
            minus ^= self._sign() == "-"
            self.place += 1
        return minus

    def _product(self) -> Terms:
        left = self._interaction()
        while True:
            if self._took("*"):
                right = self._interaction()
                left = _union(left, right, self._times(left, right))
            elif self._took("/"):
                left = self._within(left, self._interaction())
            elif self._took("%in%"):
                left = self._within(self._interaction(), left)
            else:
                return left

    def _within(self, parents: Terms, nested: Terms) -> Terms:
        common = tuple(dict.fromkeys(one for term in parents.values() for one in term))
        self._check_factors(common)
        whole = {frozenset(common): common}
        return _union(parents, self._times(whole, nested))

    def _interaction(self) -> Terms:
        left = self._power()
        while self._took(":"):
            left = self._times(left, self._power())
        return left

    def _power(self) -> Terms:
        base = self._group()
        while self._sign() in {"**", "^"}:
            self.place += 1
            token = self._next()
            if token.kind != "number" or not token.text.isdigit() or token.text == "0":
                self._unreadable("the power of terms is a whole number, 1 or more")
            self.place += 1
            if len(token.text) > 1 or int(token.text) > LARGEST_POWER:
                raise InvalidInputError(
                    f"a power of terms is at most {LARGEST_POWER}, found "
                    f"{token.text[:9]}; for the power of a number write {{x ** 8}}"
                )
            power = int(token.text)
            # Products of several of them, each once: no more than there are subsets.
            self._check_terms(sum(comb(len(base), k) for k in range(1, power + 1)))
            made = base
            for _ in range(power - 1):
                made = self._times(made, base)
            base = made
        return base

    def _times(self, left: Terms, right: Terms) -> Terms:
        if INTERCEPT in (*left.values(), *right.values()):
            self._refuse_multiple()
        # What is made and falls together again is work all the same, and a product of
        # long terms more than one of two factors.
        self.made += len(right) * sum(map(len, left.values()))
        self.made += len(left) * sum(map(len, right.values()))
        self._check_terms(self.made // 40)
        made: Terms = {}
        for one in left.values():
            for other in right.values():
                term = tuple(dict.fromkeys((*one, *other)))
                self._check_factors(term)
                made.setdefault(frozenset(term), term)
        return made

    def _check_terms(self, number: int) -> None:
        if number > MOST_TERMS:
            raise InvalidInputError(
                f"the formula {_short(self.text)} would be multiplied out to up to "
                f"{number:,} terms, and as many columns of the design or more; at most "
                f"{MOST_TERMS:,} are allowed: leave out interactions, or powers"
            )

    def _check_factors(self, term: Term) -> None:
        if len(term) > MOST_FACTORS_IN_A_TERM:
            raise InvalidInputError(
                f"the formula {_short(self.text)} multiplies more than "
                f"{MOST_FACTORS_IN_A_TERM} factors in one term; leave some out, or "
                "compute the column first"
            )

    def _group(self) -> Terms:
        """Return the terms in parentheses, or one factor as a term."""
        token = self._next()
        if token.kind == "number":
            before = self._sign(-1) if self.place else ""
            if {before, self._sign(1)} & {*"*/:^", "**", "%in%"}:
                self._refuse_multiple()
            if self._sign(1) in _COMPARED:
                self.place += 1
                self._unexpected()
            if token.text != "1":
                self._unreadable("a number other than 0 and 1 is not a term")
            self.place += 1
            return {frozenset(): INTERCEPT}
        last = self._condition_end() if self._sign() == "(" else None
        if self._sign() != "(" or last is not None:
            node = self._factor(last)
            self.written.append((node, self.code))
            return {frozenset({node}): (node,)}
        self.place += 1
        self._deeper()
        terms = self._sum({})
        self.depth -= 1
        if not self._took(")"):
            self._unexpected()
        return terms

    def _condition_end(self) -> int | None:
        """Return where the comparisons in brackets end that begin here, if they do."""
        last = self._closing(self.place)
        depth, inside = 0, []
        for token in self.tokens[self.place : last + 1]:
            sign = token.text if token.kind == "sign" else ""
            depth -= sign in _CLOSING.values()
            if depth == 1 and sign:
                inside.append(sign)
            depth += sign in _CLOSING
        joined = self._joined(last)
        bars = "|" in inside and "(" in inside  # (1 | site) is something else
        if not ({*inside} & {*_COMPARED, "&"} or bars or joined):
            return None
        while joined:
            last = self._closing(last + 2)
            joined = self._joined(last)
        return last

    def _joined(self, last: int) -> bool:
        """Say whether a bracket that ends there is joined with another by & or |."""
        signs = [t.text for t in self.tokens[last + 1 : last + 3] if t.kind == "sign"]
        return len(signs) == 2 and signs[0] in _JOINED and signs[1] == "("

    # Factors: a column, a function or arithmetic on columns, a category

    def _factor(self, end: int | None = None) -> Node:
        """Return the factor that begins here; `end` is where comparisons do."""
        token = self._next()
        if end is not None:
            self.code = self.text[token.start : self.tokens[end].end]
            self.operations, self.stop = 0, end + 1
            node = self._expression()
            if self.place < self.stop:
                self._refuse_expression()
            self.stop = len(self.tokens)
            return node
        call = token.kind == "name" and self._sign(1) == "("
        self.code = self.text[token.start : token.end]
        if token.kind in {"name", "quoted"} and not call:
            self.place += 1
            return Named(token.text)
        if token.text == ".":
            raise InvalidInputError("write the columns out; '.' does not say which")
        if not call and self._sign() != "{":
            self._unexpected()
        last = self._closing(self.place + call)
        if call:
            if token.end != self._next(1).start:
                self._unreadable(f"there is a space after {token.text}")
            self.code = self.text[token.start : self.tokens[last].end]
        else:
            self.place += 1
            self.code = self.text[token.end : self.tokens[last].start].strip()
        self.operations, self.stop = 0, last + call
        coded = self._next().text == "C" and self._sign(1) == "("
        node = self._coded() if coded else self._expression()
        if self.place < self.stop:
            self._refuse_expression()
        self.place, self.stop = last + 1, len(self.tokens)
        return Named(node.name) if isinstance(node, Named) else node

    def _closing(self, opening: int) -> int:
        """Return where the bracket is closed that is opened here."""
        expected = []
        for place, token in enumerate(self.tokens[opening:], opening):
            if token.kind == "sign" and token.text in _CLOSING:
                expected.append(_CLOSING[token.text])
            elif token.kind == "sign" and token.text in _CLOSING.values():
                if expected.pop() != token.text:
                    break
                if not expected:
                    return place
        return self._unreadable("a bracket is not closed")

    def _expression(self) -> Node:
        node = self._either()
        if self._sign() in _COMPARED:
            sign = self._take().text
            other = self._either()
            if self._sign() in _COMPARED:
                self._refuse(
                    "compares more than two things; write (18 < age) & (age < 60)"
                )
            if isinstance(node, Level):  # a level stands behind its category
                turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
                node, other, sign = other, node, turned.get(sign, sign)
            node = self._operation(node, sign, other)
        return node

    def _either(self) -> Node:
        node = self._both()
        while self._sign() == "|":
            node = self._joining(node, self._take().text, self._both())
        return node

    def _both(self) -> Node:
        node = self._added()
        while self._sign() == "&":
            node = self._joining(node, self._take().text, self._added())
        return node

    def _joining(self, left: Node, sign: str, right: Node) -> Node:
        if not (is_condition(left) and is_condition(right)):
            self._refuse(
                f"joins something else than comparisons by {sign}; each stands in "
                'brackets, such as (age > 60) & (sex == "f")'
            )
        return self._operation(left, sign, right)

    def _added(self) -> Node:
        node = self._scaled()
        while self._sign() in {"+", "-"}:
            node = self._operation(node, self._take().text, self._scaled())
        return node

    def _scaled(self) -> Node:
        node = self._signed()
        while self._sign() in {"*", "/"}:
            node = self._operation(node, self._take().text, self._signed())
        return node

    def _signed(self) -> Node:
        # Whatever is nested comes through here.
        self._deeper()
        if self._sign() in _SIGNS:
            node: Node = Signed(self._take().text, self._signed())
        else:
            node = self._atom()
            if self._took("**"):
                node = self._operation(node, "**", self._signed())
        self.depth -= 1
        return node

    def _operation(self, left: Node, sign: str, right: Node) -> Node:
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            self._refuse(
                f"has more than {MOST_OPERATIONS} operations; compute the column first"
            )
        return Operation(sign, left, right)

    def _atom(self) -> Node:
        token = self._next()
        if token.kind == "name" and self._sign(1) == "(":
            return self._applied()
        self.place += 1
        if token.kind == "number":
            return self._number(token.text)
        if token.kind == "quoted":
            return Named(token.text, quoted=True)
        if token.kind in {"single", "double"}:
            return Level(token.text)
        if token.kind == "name" and not _NO_COLUMN.search(token.text):
            return Named(token.text)
        if token[:2] == ("sign", "("):
            node = self._expression()
            if self._took(")"):
                return node
        return self._refuse_expression()

    def _number(self, text: str) -> Number:
        if len(text) > LONGEST_NUMBER:
            self._refuse(f"has a number of more than {LONGEST_NUMBER} characters")
        return Number(int(text) if text.isdigit() else float(text))

    def _applied(self) -> Node:
        name = self._next().text
        if name == "C":
            self._refuse("has C(...) inside; a category cannot be computed with")
        if name in {"where", "np.where"}:
            return self._where()
        if name != "I" and name.removeprefix("np.") not in FUNCTIONS:
            self._refuse_function(name)
        self.place += 2
        if self._sign() != ")" and self._sign(1) != "=":
            node = self._expression()
            if self._took(")"):
                return Applied(name, node)
            if self._sign() != ",":
                self._refuse_expression()
        return self._refuse(
            f"gives {name} more than one argument, a named one, or none"
        )

    def _where(self) -> Node:
        self.place += 2
        parts = [self._expression()]
        while self._took(","):
            parts.append(self._expression())
        if len(parts) != 3 or not is_condition(parts[0]) or not self._took(")"):
            self._refuse(
                "cannot be used: where takes a comparison and two things to choose "
                "from, such as where(bmi > 30, 1, 0)"
            )
        return Chosen(*parts)

    def _coded(self) -> Node:
        self.place += 2
        first = self._take()
        known = first.kind == "quoted" or (
            first.kind == "name" and "." not in first.text
        )
        if not known or self._sign() not in {",", ")"}:
            self._refuse("must name a column inside C(...), and nothing else")
        column = Named(first.text, quoted=first.kind == "quoted")
        if self._took(")"):
            return Coded(column)
        self.place += 1
        other = "has options of C other than a contrast; levels are the schema's"
        keyword = self._sign(1) == "="
        if keyword:
            if self._next().text != "contrasts":
                self._refuse(other)
            self.place += 2
        contrast = self._take().text
        options = self._options() if self._took("(") else None
        if contrast not in CONTRASTS or self._sign() not in {",", ")"}:
            self._refuse(
                f"has an unknown contrast; contrasts are {', '.join(CONTRASTS)}"
            )
        if not self._took(")"):
            self._refuse(other)
        return Coded(column, contrast, options, keyword)

    def _options(self) -> tuple[Option, ...]:
        options: list[Option] = []
        while not self._took(")"):
            key = None
            if self._sign(1) == "=":
                key = self._take().text
                self.place += 1
            token = self._take()
            if token.kind in {"single", "double"}:
                options.append(Option(key, token.text, repr(token.text)))
            else:
                value = {"True": True, "False": False}.get(token.text)
                options.append(Option(key, value, _plain(token.text)))
            if not self._took(",") and self._sign() != ")":
                break  # the caller finds no end
        return tuple(options)

    # Where the reader stands, and what it says

    def _next(self, ahead: int = 0) -> _Token:
        place = self.place + ahead
        return self.tokens[place] if place < self.stop else _END

    def _sign(self, ahead: int = 0) -> str:
        token = self._next(ahead)
        return token.text if token.kind == "sign" else ""

    def _take(self) -> _Token:
        token = self._next()
        self.place += 1
        return token

    def _took(self, sign: str) -> bool:
        found = self._sign() == sign
        self.place += found
        return found

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise InvalidInputError(
                f"the formula {_short(self.text)} nests more than {DEEPEST_NESTING} "
                "brackets, signs or powers; compute the column first"
            )

    def _refuse_multiple(self) -> NoReturn:
        raise InvalidInputError(
            f"the formula {_short(self.text)} multiplies a term by a number; write it "
            "in braces, such as {2 * age}"
        )

    def _unexpected(self) -> NoReturn:
        if self._sign() == "|":
            self._unreadable(
                "(1 | site) is no term here: coefficients that differ between parties "
                'are asked for by [mixed], random = ["1"], and effects of parties are '
                "taken off a gaussian fit by [model] absorb = true"
            )
        if self._sign() == "=" or self._sign() in {*_COMPARED, "&"}:
            self._unreadable(
                f"{self._sign()} is not expected where it stands; a comparison is "
                "written in brackets, such as (age > 60), and two of them as "
                '(age > 60) & (sex == "f")'
            )
        found = _short(self._next().text) if self._next() is not _END else "the end"
        self._unreadable(f"{found} is not expected where it stands")

    def _unreadable(self, why: str) -> NoReturn:
        raise InvalidInputError(
            f"the formula {_short(self.text)} cannot be read: {why}"
        )

    def _refuse_sides(self) -> NoReturn:
        raise InvalidInputError(
            f"the formula {_short(self.text)} must have one left and one right side, "
            "such as 'y ~ age + C(sex)'"
        )

    def _refuse_survival(self, found: str) -> NoReturn:
        raise InvalidInputError(
            "the formula must be one such as 'Surv(time, event) ~ C(sex)', with a "
            "column of times and one that is 1 where the event was seen; found "
            f"{_short(self.text)}, which {found}"
        )

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(f"the term {_short(self.code)} {why}")

    def _refuse_expression(self) -> NoReturn:
        self._refuse(
            "cannot be used: it holds more than arithmetic on columns and functions; a "
            "column's name that has a dot in it, or a space, is written in backticks"
        )

    def _refuse_function(self, name: str) -> NoReturn:
        if name == "Surv":
            self._refuse(
                "is about times until an event, which are no response of a [model]: "
                "ask for a regression of them with [cox], for curves with [survival]"
            )
        rest = self.tokens[self.place : self.stop]
        if any(token[:2] == ("sign", ".") for token in rest):
            self._refuse_expression()
        if "." in name and not name.startswith("np."):
            self._refuse(
                "cannot be read: it calls something with a dot in it; a column's name "
                "that has one is written in backticks"
            )
        what = f"{name} is not known here, and might look at each party's own rows"
        if name in STATEFUL:
            what = f"{name} would learn its constants from each party's own rows"
        names = (
            _plain(token.text)
            for token, after in zip(rest, [*rest[1:], _END], strict=True)
            if token.kind == "quoted" or (token.kind == "name" and after.text != "(")
        )
        self._refuse(
            f"cannot be used: {what}, and the column would not mean the same "
            "everywhere; put the constants into the formula, such as "
            f"{{({next(names, 'age')} - 60) / 10}}, round ones or those that veilsum "
            f"stats finds for all parties together; real parties have to allow "
            "constants in their veilsum.toml. Functions are C, I, where, "
            f"{', '.join(FUNCTIONS)}"
        )


def _union(*parts: Terms) -> Terms:
    made: Terms = {}
    for part in parts:
        for key, term in part.items():
            made.setdefault(key, term)
    return made


def _plain(text: str) -> str:
    return printable(text)


def _short(text: str) -> str:
    """Return a text for a sentence: quoted, nothing in it that a screen obeys."""
    return printable(repr(text if len(text) <= 200 else f"{text[:200]}..."))


# What a tree says, and what it is worth


def is_condition(node: Node) -> bool:
    """Say whether a factor is true or not in a row, which is 1 or 0."""
    return isinstance(node, Operation) and node.sign in {*_COMPARED, *_JOINED}


def named_in(node: Node) -> Iterator[str]:
    """Yield the columns in a factor."""
    match node:
        case Chosen(condition=condition, yes=yes, no=no):
            for part in (condition, yes, no):
                yield from named_in(part)
        case Named(name=name):
            yield name
        case Coded(column=column):
            yield column.name
        case Signed(inner=inner) | Applied(inner=inner):
            yield from named_in(inner)
        case Operation(left=left, right=right):
            yield from named_in(left)
            yield from named_in(right)


def constants_in(text: str) -> tuple[str, ...]:
    """Return the factors of a formula by which its author can aim at one person.

    These are comparisons of numbers, numbers written into an expression, and
    expressions that use a column twice, of which a number can be made: `(x + x) / x` is
    2. Squares, cubes and the level of a category point at nobody.

    >>> constants_in("(age >= 50) ~ {cost * 2} + log(bmi) + I(age**2)")
    ('age >= 50', 'cost * 2')
    >>> constants_in('Surv(days, died) ~ (sex == "f") + {weight / height**2}')
    ()
    """
    if text.lstrip().startswith("Surv("):
        text = read_surv(text).of_time
    aimed = (code for node, code in read_formula(text).written if _aims(node))
    return tuple(dict.fromkeys(_OUTER_BRACKETS.sub(r"\1", one) for one in aimed))


_OUTER_BRACKETS = re.compile(r"^\(([^()]*)\)$")
_WHOLE_POWERS = (2, 3)


def _aims(node: Node) -> bool:
    """Say whether a factor has a constant, or could be one."""
    steps = [*_steps(node)]
    columns = [one.name for one in steps if isinstance(one, Named)]
    return len({*columns}) < len(columns) or any(
        isinstance(one, Number)
        or (isinstance(one, Operation) and one.sign in _COMPARED)
        for one in steps
    )


def _steps(node: Node) -> Iterator[Node]:
    """Yield all parts of a factor but comparisons with a level, and a square's 2."""
    if isinstance(node, Operation) and isinstance(node.right, Level):
        return
    yield node
    match node:
        case Signed(inner=inner) | Applied(inner=inner):
            parts: tuple[Node, ...] = (inner,)
        case Chosen(condition=condition, yes=yes, no=no):
            parts = condition, yes, no
        case Operation(sign="**", left=left, right=Number(value=value)) if (
            value in _WHOLE_POWERS and not any(map(_is_power, _steps(left)))
        ):
            parts = (left,)
        case Operation(left=left, right=right):
            parts = left, right
        case _:
            parts = ()
    for part in parts:
        yield from _steps(part)


def _is_power(node: Node) -> bool:
    return isinstance(node, Operation) and node.sign == "**"


def shown(node: Node, binding: int = 0) -> str:
    """Return a factor as text, spaced as Python spaces it."""
    match node:
        case Named(name=name, quoted=quoted):
            return f"`{name}`" if quoted else name
        case Number(value=value):
            return repr(value).replace("inf", "1e309")
        case Level(value=value):
            return f'"{value}"'
        case Chosen(condition=condition, yes=yes, no=no):
            return f"where({shown(condition)}, {shown(yes)}, {shown(no)})"
        case Signed(sign=sign, inner=inner):
            own, text = _BINDING["sign"], f"{sign}{shown(inner, _BINDING['sign'])}"
        case Operation(sign=sign, left=left, right=right):
            own = _BINDING[sign]
            first, second = (own + 1, own) if sign == "**" else (own, own + 1)
            text = f"{shown(left, first)} {sign} {shown(right, second)}"
        case Applied(function=function, inner=inner):
            return f"{function}({shown(inner)})"
        case Coded():
            return _shown_coded(node)
    return f"({text})" if own < binding else text


def _shown_coded(node: Coded) -> str:
    if node.contrast is None:
        return f"C({shown(node.column)})"
    made = f"{'contrasts=' if node.keyword else ''}{node.contrast}"
    if node.options is not None:
        each = (f"{key}={text}" if key else text for key, _, text in node.options)
        made = f"{made}({', '.join(each)})"
    return f"C({shown(node.column)}, {made})"


def evaluate(node: Node, frame: Frame) -> Any:
    """Return what a factor is in every row; this is all that is ever evaluated."""
    match node:
        case Named(name=name):
            return frame[name].to_numpy()
        case Number(value=value):
            return value
        case Chosen(condition=condition, yes=yes, no=no):
            parts = (evaluate(part, frame) for part in (condition, yes, no))
            return _chosen(*parts)
        case Operation(sign="==" | "!=" as sign, left=left, right=Level(value=value)):
            held = frame[next(named_in(left))].array
            (code,) = held.categories.get_indexer([value])
            return 1.0 * _COMPARED[sign](held.codes, code)
        case Signed(sign=sign, inner=inner):
            return _SIGNS[sign](evaluate(inner, frame))
        case Operation(sign=sign, left=left, right=right):
            return _ARITHMETIC[sign](evaluate(left, frame), evaluate(right, frame))
        case Applied(function="I", inner=inner):
            return evaluate(inner, frame)
        case Applied(function=function, inner=inner):
            return FUNCTIONS[function.removeprefix("np.")](evaluate(inner, frame))
    raise TypeError(f"{shown(node)} is a category")


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    return np.where(np.asarray(condition, dtype=bool), yes, no)


def _parts(node: Node, frame: Frame) -> Generator[tuple[Node, Any], None, Any]:
    """Yield the parts of a factor that name a column, with their values; return its."""
    match node:
        case Chosen(condition=condition, yes=yes, no=no):
            # What is chosen from is seen in some rows only, and whole by nobody.
            true = yield from _parts(condition, frame)
            other = []
            for part in (yes, no):
                if _is_simple(part):
                    other.append(evaluate(part, frame))
                else:
                    other.append((yield from _parts(part, frame)))
            values = _chosen(true, *other)
        case Operation(sign=sign, left=left, right=right) if sign in _COMPARED and (
            isinstance(right, Level) or (_is_simple(left) and _is_simple(right))
        ):
            values = evaluate(node, frame)
        case Signed(sign=sign, inner=inner):
            values = _SIGNS[sign]((yield from _parts(inner, frame)))
        case Operation(sign=sign, left=left, right=right):
            first = yield from _parts(left, frame)
            values = _ARITHMETIC[sign](first, (yield from _parts(right, frame)))
        case Applied(function=function, inner=inner) if not _is_simple(inner):
            values = yield from _parts(inner, frame)
            if function != "I":
                values = FUNCTIONS[function.removeprefix("np.")](values)
        case _:
            values = evaluate(node, frame)
    if any(named_in(node)):
        yield node, values
    return values


def _addends(node: Node) -> Iterator[Node]:
    """Yield what is added up in a factor, without constants before it."""
    match node:
        case Signed(inner=inner) | Applied(function="I", inner=inner):
            yield from _addends(inner)
        case Operation(sign="+" | "-", left=left, right=right):
            yield from _addends(left)
            yield from _addends(right)
        case Operation(sign="*", left=left, right=right) if not any(named_in(left)):
            yield from _addends(right)
        case Operation(sign="*" | "/", left=left, right=right) if not any(
            named_in(right)
        ):
            yield from _addends(left)
        case _ if any(named_in(node)):
            yield node


def _is_simple(node: Node) -> bool:
    """Say whether one column stands in it, once, with constants around it."""
    match node:
        case Signed(inner=inner):
            return _is_simple(inner)
        case Operation(sign="**") | Applied() | Chosen():
            return False
        case Operation() if is_condition(node):
            return False
        case Operation(left=left, right=right):
            named = len([*named_in(node)])
            return named == 1 and all(
                _is_simple(one) for one in (left, right) if any(named_in(one))
            )
    return True


def exact(node: Node, table: CheckedTable) -> Any:
    """Return what arithmetic on columns is in every row, as fractions.

    What is not arithmetic has no unit, and does not come here.
    """
    match node:
        case Named(name=name):
            measure = table.schema.column(name).measure
            counts = measure.counts(table.numbers(name)).tolist()
            made = np.empty(len(counts), dtype=object)
            made[:] = [int(one) * measure.unit for one in counts]
            return made
        case Number():
            return _fraction(node)
        case Chosen(condition=condition, yes=yes, no=no):
            return _chosen(*(exact(part, table) for part in (condition, yes, no)))
        case Operation(sign=sign, left=left, right=right) if sign in _COMPARED:
            units = (
                []
                if isinstance(right, Level)
                else [_extent(side, table.schema).unit for side in (left, right)]
            )
            if not _settles(left, right, units):
                return np.asarray(evaluate(node, table.frame), dtype=np.int64)
            found = _COMPARED[sign](exact(left, table), exact(right, table))
            return np.asarray(found, dtype=np.int64)
        case Signed(sign=sign, inner=inner):
            return _SIGNS[sign](exact(inner, table))
        case Operation(sign="**", left=left, right=right):
            times = _constant(right)
            assert times is not None
            return exact(left, table) ** int(times.value)
        case Operation(sign=sign, left=left, right=right):
            return _ARITHMETIC[sign](exact(left, table), exact(right, table))
        case Applied(function="abs" | "np.abs", inner=inner):
            return np.abs(exact(inner, table))
        case Applied(inner=inner):
            return exact(inner, table)
    raise TypeError(f"{shown(node)} is a category")


def _settles(left: Node, right: Node, units: Sequence[Fraction | None]) -> bool:
    """Say whether fractions settle a comparison, which float64 may get wrong.

    Columns and constants are compared as they are written, to the last digit, and what
    functions make has no unit: for these float64 does.
    """
    computed = any(
        not isinstance(one, Named) and _constant(one) is None for one in (left, right)
    )
    return computed and len(units) == 2 and None not in units


def _fraction(node: Number) -> Fraction:
    """Return a number as it was written: 0.1 is a tenth."""
    return Fraction(repr(node.value))


# Checks against the schema


@dataclass(frozen=True)
class _Check:
    """The rules for one factor: what it may do with the schema's columns."""

    code: str
    schema: Schema

    def factor(self, node: Node) -> None:
        if isinstance(node, Named):
            self._column(node)
        elif isinstance(node, Coded):
            self._coded(node)
        else:
            self._numbers(node)
            if not any(named_in(node)):
                self._refuse("names no column")

    def _column(self, node: Named) -> Column:
        if node.name not in self.schema and node.name.lower() == "intercept":
            raise InvalidInputError(
                f"the schema has no column {node.name!r}; for a model without an "
                "intercept write '- 1'"
            )
        return self.schema.column(node.name)

    def _numbers(self, node: Node) -> None:
        match node:
            case Named():
                if self._column(node).is_category:
                    self._refuse(
                        f"computes with {node.name!r}, which is a category; use it by "
                        f"itself or as C({node.name}), or compare it with a level in "
                        f'quotes, such as {node.name} == "{_first(node, self.schema)}"'
                    )
            case Level(value=value):
                self._refuse(
                    f"has the text {_short(value)} where a number belongs; a level of "
                    'a category is compared by == or !=, such as sex == "f"'
                )
            case Chosen(condition=condition, yes=yes, no=no):
                for part in (condition, yes, no):
                    self._numbers(part)
            case Operation(sign=sign, left=Named() as named, right=Level(value=value)):
                self._compared(self._column(named), sign, value)
            case Signed(inner=inner) | Applied(inner=inner):
                self._numbers(inner)
            case Operation(sign=sign, left=left, right=right):
                self._numbers(left)
                self._numbers(right)
                # A power of constants can be a number without end.
                if sign == "**" and not any(named_in(node)):
                    self._refuse("has a power of constants; write the number out")

    def _compared(self, column: Column, sign: str, value: str) -> None:
        if column.since is not None:
            self._refuse(
                f"has the date {column.name!r} and a text; in a formula a date is the "
                f"number of days since {column.since}, {_days(column, value)}"
            )
        if not column.is_category:
            self._refuse(
                f"compares {column.name!r} with a text, and the schema has it as "
                f"{column.kind}; leave out the quotes"
            )
        if sign not in {"==", "!="}:
            self._refuse(
                f"compares the category {column.name!r} by {sign}; categories have no "
                "order here, only == and !="
            )
        if value not in column.categories:
            quoted = [f'"{one}"' for one in column.categories]
            self._refuse(
                f"compares {column.name!r} with {_short(value)}, which is not one of "
                f"its categories; these are {listed(quoted)}"
            )

    def _coded(self, node: Coded) -> None:
        column = self._column(node.column)
        if not column.is_category and column.has_range and _is_two_valued(column):
            self._refuse(
                f"makes categories of {column.name!r}, which the schema has as a "
                f"number from {column.range}: 0 and 1 need no C(...), write "
                f"{column.name} by itself"
            )
        if not column.is_category:
            self._refuse(
                f"makes categories of {column.name!r}, which the schema has as "
                f"{column.kind}: parties would not have the same list of them; agree "
                'on kind = "category" with its categories'
            )
        if node.contrast is None:
            return
        options = _bound(node)
        if options is None:
            takes = ", ".join(CONTRASTS[node.contrast][1]) or "none"
            self._refuse(
                f"cannot be used: {node.contrast} does not take these options; its "
                f"options are: {takes}"
            )
        for name, option in options.items():
            if name == "base":
                self._level(option, column)
            elif not isinstance(option.value, bool):
                self._refuse(f"cannot be used: {option.written} must be True or False")

    def _level(self, option: Option, column: Column) -> None:
        if isinstance(option.value, str) and option.value in column.categories:
            return
        quoted = [f"'{one}'" for one in column.categories]
        self._refuse(
            f"has a contrast with {option.written}, which is not a category of "
            f"{column.name!r}; its categories are {listed(quoted)}"
            + (", in quotes" if option.written in column.categories else "")
        )

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(f"the term {_short(self.code)} {why}")


def _days(column: Column, value: str) -> str:
    try:
        number = day_of(value) - day_of(column.since)
    except ValueError:
        return "without quotes"
    return f"and {value} is {number}"


def _first(node: Named, schema: Schema) -> str:
    return schema.column(node.name).categories[0]


def _is_two_valued(column: Column) -> bool:
    return column.measure.most - column.measure.least <= 1


def _bound(node: Coded) -> dict[str, Option] | None:
    """Return a contrast's options as its class has them; None if it does not."""
    known = CONTRASTS[node.contrast][1] if node.contrast else {}
    made: dict[str, Option] = {}
    for option, name in zip_longest(node.options or (), known):
        if option is None:
            break
        key = option.key or name
        if key not in known or known[key] in made:
            return None
        made[known[key]] = option
    return made


def _response(read: ReadFormula, schema: Schema, allowed: Levels) -> Node:
    """Return what is on the left; refuse what is no response."""
    if len(read.left) != 1 or len(read.left[0]) > 1:
        terms = [":".join(map(shown, term)) or "1" for term in read.left]
        raise InvalidInputError(
            f"the left side must be one response, found {listed(terms) or 'none'}"
        )
    node = read.left[0][0] if read.left[0] else Number(1)
    if isinstance(node, Number | Coded):
        raise InvalidInputError(
            f"the left side must be a column or a function of one, found {shown(node)}"
        )
    if read.left[0] in read.right:
        raise InvalidInputError(
            f"{shown(node)!r} stands on both sides; the response explains itself"
        )
    levels = _levels(node, schema)
    if allowed == "two" and levels and len(levels) != 2:
        raise InvalidInputError(
            f"the response {shown(node)!r} is a category with {len(levels)} levels; a "
            "response is a number, or a category with two levels. Of more levels, a "
            'fit has family = "multinomial", or "ordinal" if they are in an order'
        )
    if allowed == "several" and len(levels) < 3:
        found = f"a category with {len(levels)} levels" if levels else "a number"
        way = (
            'for two levels, family = "logistic"'
            if levels
            else ("make it a category, with its levels in their order")
        )
        raise InvalidInputError(
            f"the response {shown(node)!r} is {found}, and a choice is among three "
            f"levels or more of a category: {way}"
        )
    return node


def _levels(node: Node, schema: Schema) -> tuple[str, ...]:
    """Return a factor's categories; none if it is a number."""
    if isinstance(node, Coded):
        node = node.column
    return schema.column(node.name).categories if isinstance(node, Named) else ()


def _variables(read: ReadFormula) -> tuple[str, ...]:
    """Return the columns that the terms need, each once, in the formula's order."""
    factors = [node for term in (*read.left, *read.right) for node in term]
    found = dict.fromkeys(name for node in factors for name in named_in(node))
    called = {part for node in factors for part in _called(node)}
    clash = [name for name in found if name in called]
    if clash:
        raise InvalidInputError(
            f"column {clash[0]!r} has the name of a function; rename the column to use "
            "it in a formula"
        )
    return tuple(found)


def _called(node: Node) -> Iterator[str]:
    """Yield the functions in a factor."""
    match node:
        case Applied(function=function, inner=inner):
            yield from function.split(".")
            yield from _called(inner)
        case Signed(inner=inner):
            yield from _called(inner)
        case Chosen(condition=condition, yes=yes, no=no):
            yield "where"
            for part in (condition, yes, no):
                yield from _called(part)
        case Operation(left=left, right=right):
            yield from _called(left)
            yield from _called(right)
        case Coded(contrast=contrast):
            yield from ("C", *(contrast or "").split("."))


def _check_size(text: str, terms: Iterable[Term], schema: Schema) -> None:
    """Refuse a design that is too wide, before there is one."""
    columns = 0
    for term in terms:
        sizes = [len(found) for node in term if (found := _levels(node, schema))]
        if len(sizes) > MOST_CATEGORIES_IN_A_TERM:
            raise InvalidInputError(
                f"a term of the formula {_short(text)} multiplies {len(sizes)} "
                f"categories; at most {MOST_CATEGORIES_IN_A_TERM} are allowed"
            )
        # A category with one level has a column, and takes part in the coding.
        columns += prod(max(size, 2) for size in sizes)
    if columns > MOST_DESIGN_COLUMNS:
        raise InvalidInputError(
            f"the formula {_short(text)} would give up to {columns:,} columns of the "
            f"design; at most {MOST_DESIGN_COLUMNS:,} are allowed: leave out "
            "interactions, or agree on fewer categories"
        )


def _example(schema: Schema, names: Iterable[str]) -> Frame:
    """Return rows that no party holds: they show what the columns will be called."""
    pandas = load_pandas()
    made = {}
    for column in (schema.column(name) for name in names):
        made[column.name] = np.ones(2)
        if column.is_category:
            levels = list(column.categories)
            codes = pandas.Categorical.from_codes([0, 0], categories=levels)
            made[column.name] = codes
    return pandas.DataFrame(made)


# How far a term can go

# What one operation of float64 is off by, of its result; and a function, at most.
_ROUNDING = 2.0**-53
_FUNCTION_ROUNDING = Fraction(1, 2**45)
# Numbers of a formula that are longer are rounded outwards, units forgotten.
_LONGEST = 500
_LARGEST_TERM = Fraction(2) ** 1000
# From where on a function has values, and whether also there.
_DOMAINS: Mapping[str, tuple[int, bool]] = {
    "log": (0, False),
    "log10": (0, False),
    "log1p": (-1, False),
    "sqrt": (0, True),
}


@dataclass(frozen=True)
class Extent:
    """What a term can be in any row that the schema admits.

    Attributes:
        low: its least value.
        high: its largest.
        unit: all its values are whole numbers of it; None if there is no such unit.
        slack: how much further off its ends float64 may compute it to be.
        own: the measure of a column that stands by itself.
    """

    low: Fraction
    high: Fraction
    unit: Fraction | None
    slack: float = 0.0
    own: Measure | None = None

    @property
    def largest(self) -> Fraction:
        """What no value is beyond, whatever its sign."""
        return max(abs(self.low), abs(self.high))

    @property
    def words(self) -> str:
        """The range, for a sentence."""
        return f"from {float(self.low):g} to {float(self.high):g}"

    def measure(self, bits: int) -> Measure:
        """Return how the term is counted, in so many bits of its range."""
        if self.own is not None:
            return self.own
        span = self.high - self.low
        if self.unit is not None and span <= self.unit * 2**bits:
            return Measure.of(self.low, self.high, self.unit or Fraction(1))
        slack = Fraction(self.slack)
        return Measure.of(self.low - slack, self.high + slack, bits=bits)

    def needs_exact(self, bits: int) -> bool:
        """Say whether float64 might not find the right count."""
        if self.unit is None or self.own is not None:
            return False
        found = self.measure(bits)
        return found.wide or self.slack > found.unit / 4

    def times(self, other: Extent) -> Extent:
        """Return the product's."""
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        unit = None
        if self.unit is not None and other.unit is not None:
            unit = self.unit * other.unit
        mine, others = float(self.largest), float(other.largest)
        slack = self.slack * others + other.slack * mine + self.slack * other.slack
        return _settled(min(ends), max(ends), unit, slack)

    def plus(self, other: Extent) -> Extent:
        """Return the sum's."""
        unit = None
        if self.unit is not None and other.unit is not None:
            unit = _common(self.unit, other.unit)
        low, high = self.low + other.low, self.high + other.high
        return _settled(low, high, unit, self.slack + other.slack)

    def or_else(self, other: Extent, doubt: float) -> Extent:
        """Return this or the other's, as a comparison has it that may be in doubt."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        if self.unit is None or other.unit is None:
            return _settled(low, high, None, max(self.slack, other.slack))
        off = float(high - low) if doubt else 0.0
        unit = _common(self.unit, other.unit)
        return _settled(low, high, unit, max(self.slack, other.slack) + off)

    def negated(self) -> Extent:
        """Return minus this."""
        return Extent(-self.high, -self.low, self.unit, self.slack)

    def absolute(self) -> Extent:
        """Return the size's, without its sign."""
        least = max(self.low, -self.high, Fraction(0))
        return Extent(least, self.largest, self.unit, self.slack)

    def inverse(self) -> Extent:
        """Return one over this, which is not 0."""
        ends = (1 / self.low, 1 / self.high)
        # A constant is divided by as exactly as it is multiplied with.
        unit = abs(1 / self.low) if self.low == self.high else None
        least = float(min(abs(self.low), abs(self.high)))
        slack = self.slack / least / (least - self.slack) if self.slack < least else inf
        return _settled(min(ends), max(ends), unit, slack)

    def power(self, times: int) -> Extent:
        """Return a whole power's, 0 or more."""
        ends = (self.low**times, self.high**times)
        low, high = min(ends), max(ends)
        if times % 2 == 0 and self.low < 0 < self.high:
            low = Fraction(0)
        unit = None
        if self.unit is not None and times <= _MOST_FACTORS:
            unit = self.unit**times
        if max(abs(low), abs(high)) > _LARGEST_TERM:
            raise _TooLargeError
        largest = float(self.largest) + self.slack
        # What the base is off, and what every product rounds.
        off = self.slack + largest * _ROUNDING
        slack = times * off * largest ** max(times - 1, 0)
        return _settled(low, high, unit, slack)


ONES = Extent(Fraction(1), Fraction(1), Fraction(1))
INDICATOR = Extent(Fraction(0), Fraction(1), Fraction(1))


class _TooLargeError(Exception):
    """A term may be beyond what float64 has."""


def _settled(
    low: Fraction, high: Fraction, unit: Fraction | None, slack: float
) -> Extent:
    """Return an extent of numbers that stay short, and one rounding more."""
    largest = max(abs(low), abs(high))
    if largest > _LARGEST_TERM or not isfinite(slack):
        raise _TooLargeError
    slack += float(largest) * _ROUNDING
    if unit is not None and max(_length(unit), _length(low), _length(high)) > _LONGEST:
        unit = None
    if unit is None:
        low, high = _rounded_down(low), -_rounded_down(-high)
    return Extent(low, high, unit, slack)


def _length(number: Fraction) -> int:
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _rounded_down(number: Fraction) -> Fraction:
    """Return a short number that is not above this one, and hardly below."""
    if _length(number) <= _LONGEST:
        return number
    size = number.numerator.bit_length() - number.denominator.bit_length()
    step = Fraction(2) ** (max(size, -1100) - 120)
    return floor(number / step) * step


def _common(one: Fraction, other: Fraction) -> Fraction:
    """Return the largest unit of which both are whole numbers."""
    bottom = one.denominator * other.denominator
    top = gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(top, bottom)


def extent_of(node: Node, schema: Schema) -> Extent:
    """Return how far a factor can go, from its columns' measures alone.

    Raises:
        InvalidInputError: somewhere in the agreed ranges it has no value.
    """
    try:
        return _extent(node, schema)
    except (_TooLargeError, OverflowError):
        raise InvalidInputError(
            f"the term {_short(shown(node))} can be beyond 1e300 in the agreed ranges; "
            "agree on narrower ones, or write another term"
        ) from None


def _extent(node: Node, schema: Schema) -> Extent:
    match node:
        case Named(name=name):
            found = schema.column(name).measure
            unit, least, most = found.unit, found.least, found.most
            made = _settled(least * unit, most * unit, unit, 0.0)
            return Extent(made.low, made.high, unit, made.slack, own=found)
        case Number(value=value):
            if not isfinite(value):
                raise _TooLargeError
            number = _fraction(node)
            return _settled(number, number, abs(number), 0.0)
        case Signed(sign=sign, inner=inner):
            found_inner = _extent(inner, schema)
            return found_inner.negated() if sign == "-" else found_inner
        case Operation(sign="**"):
            return _power_extent(node, schema)
        case Operation(sign=sign, left=left, right=right) if is_condition(node):
            if isinstance(right, Level):
                return INDICATOR
            first, second = _extent(left, schema), _extent(right, schema)
            # Where float64 may decide a comparison wrongly, fractions do.
            slack = float(_settles(left, right, (first.unit, second.unit)))
            if sign in _JOINED:
                slack = max(first.slack, second.slack)
            return replace(INDICATOR, slack=slack)
        case Chosen(condition=condition, yes=yes, no=no):
            doubt = _extent(condition, schema).slack
            return _extent(yes, schema).or_else(_extent(no, schema), doubt)
        case Operation(sign=sign, left=left, right=right):
            first, second = _extent(left, schema), _extent(right, schema)
            if sign in "+-":
                return first.plus(second if sign == "+" else second.negated())
            if sign == "*":
                return first.times(second)
            if second.low <= 0 <= second.high:
                _refuse_range(
                    *(node, f"divides by {shown(right)!r}", second, "may be 0"),
                    "a minimum above 0, or a maximum below",
                )
            return first.times(second.inverse())
        case Applied(function=function, inner=inner):
            name = function.removeprefix("np.")
            found_inner = _extent(inner, schema)
            if name == "I":
                return found_inner
            if name == "abs":
                return found_inner.absolute()
            return _function_extent(name, found_inner, node)
    raise TypeError(f"{shown(node)} is a category")


def _function_extent(name: str, inner: Extent, node: Applied) -> Extent:
    """Return the extent of a function that only grows."""
    low, high = inner.low - Fraction(inner.slack), inner.high + Fraction(inner.slack)
    if name in _DOMAINS:
        edge, included = _DOMAINS[name]
        if inner.low < edge or (inner.low == edge and not included):
            _refuse_range(
                *(node, f"takes {name} of {shown(node.inner)!r}", inner),
                f"may be {'below' if included else 'as low as'} {edge}",
                f"a minimum {'of' if included else 'above'} {edge}",
            )
        # Where float64 may err beyond the edge, rows will tell.
        if low < edge or (low == edge and not included):
            low = inner.low
    ends = FUNCTIONS[name](np.array([float(low), float(high)]))
    return _enclosed(ends)


def _enclosed(values: FloatArray) -> Extent:
    """Return what encloses values that functions gave, and their rounding."""
    if not np.isfinite(values).all():
        raise _TooLargeError
    low, high = Fraction(float(values.min())), Fraction(float(values.max()))
    low -= abs(low) * _FUNCTION_ROUNDING
    high += abs(high) * _FUNCTION_ROUNDING
    return _settled(low, high, None, 0.0)


def _power_extent(node: Operation, schema: Schema) -> Extent:
    base = _extent(node.left, schema)
    constant = _constant(node.right)
    if constant is not None and isfinite(constant.value):
        times = _fraction(constant)
        if times.denominator == 1 and abs(times) <= 1000:
            if times >= 0:
                return base.power(int(times))
            if base.low <= 0 <= base.high:
                _refuse_range(
                    *(node, f"divides by {shown(node.left)!r}", base, "may be 0"),
                    "a minimum above 0, or a maximum below",
                )
            return base.power(int(-times)).inverse()
    exponent = _extent(node.right, schema)
    if base.low < 0 or (base.low == 0 and exponent.low <= 0):
        _refuse_range(
            *(node, f"takes a power of {shown(node.left)!r}", base),
            *("may be 0 or below", "a minimum above 0"),
        )
    corners = [
        (max(a, Fraction(0)), b)
        for a in (base.low - Fraction(base.slack), base.high + Fraction(base.slack))
        for b in (
            exponent.low - Fraction(exponent.slack),
            exponent.high + Fraction(exponent.slack),
        )
    ]
    if base.low > 0:
        corners = [(a or base.low, b) for a, b in corners]
    ends = [[float(value) for value in pair] for pair in corners]
    return _enclosed(elementary.power(*np.array(ends).T))


def _constant(node: Node) -> Number | None:
    """Return a number that was written, perhaps with signs before it."""
    if isinstance(node, Signed) and (inner := _constant(node.inner)) is not None:
        return Number(-inner.value) if node.sign == "-" else inner
    return node if isinstance(node, Number) else None


def _refuse_range(
    node: Node, does: str, inner: Extent, problem: str, mend: str
) -> NoReturn:
    raise InvalidInputError(
        f"the term {_short(shown(node))} {does}, which is {inner.words} in the agreed "
        f"ranges and {problem}; agree on {mend}, or use another term"
    )


def _check_bits(bits: object) -> None:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 8 <= bits <= 200:
        raise InvalidInputError(
            f"bits must be a whole number from 8 to 200, found {bits!r}; {BITS} do for "
            "nearly everything"
        )


# The design


# What codes of categories are rounded to where they are not whole.
_CODE_UNIT = Fraction(1, 2**40)


@dataclass(frozen=True, eq=False)
class _Piece:
    """One factor of one of the design's columns.

    Attributes:
        factor: its place.
        level: of a category: it is 1 in this level, and 0 in all others.
        codes: or it has one of these numbers in each level.
        unit: what they are whole numbers of.
    """

    factor: int
    level: int | None = None
    codes: FloatArray | None = None
    unit: Fraction = Fraction(1)

    def extent(self, factors: Sequence[Extent | None]) -> Extent:
        """Return how far it can go."""
        if self.codes is not None:
            low, high = Fraction(self.codes.min()), Fraction(self.codes.max())
            return Extent(low, high, self.unit)
        found = factors[self.factor]
        return INDICATOR if found is None else found

    def values(self, numbers: Sequence[Array[Any] | None], places: Any) -> Array[Any]:
        """Return what it is in every row; `places` finds a factor's levels there."""
        if self.level is None and self.codes is None:
            found = numbers[self.factor]
            assert found is not None
            return found
        levels = places(self.factor)
        exactly = any(one is not None and one.dtype == object for one in numbers)
        if self.codes is None:
            return np.asarray(levels == self.level, np.int64 if exactly else np.float64)
        if not exactly:
            return np.asarray(self.codes[levels])
        return np.array([Fraction(one) for one in self.codes.tolist()])[levels]


# In so many rows nearly every column of more than two values shows three of them.
_HEAD = 100


def _flag(column: Array[Any], n_rows: int) -> Array[Any] | None:
    """Return where a column of two values has the larger one; None for any other."""
    values = np.broadcast_to(column, n_rows)
    if np.unique(values[:_HEAD]).size > 2:
        return None
    low, high = values.min(), values.max()
    if not ((values == low) | (values == high)).all():
        return None
    return np.asarray(values == high)


def _both(
    some: Iterable[Array[Any] | None], others: Iterable[Array[Any] | None]
) -> list[Array[Any]]:
    """Return where one of some flags and one of the others are, each place once.

    At most as many as a design has columns.
    """
    left, right = ([one for one in few if one is not None] for few in (some, others))
    if not left or not right:
        return []
    # Levels of one category share no row: most pairs need not be looked at.
    shared = np.array(left, np.float32) @ np.array(right, np.float32).T
    found: dict[bytes, Array[Any]] = {}
    for k, j in np.argwhere(shared > 0.0).tolist():
        both = left[k] & right[j]
        found[both.tobytes()] = both
        if len(found) == MOST_DESIGN_COLUMNS:
            break
    return [*found.values()]


# As many float64 as a line of a processor's cache has.
_COLUMNS_AT_A_TIME = 8


@dataclass(frozen=True)
class _Expansion:
    """The right side multiplied out.

    Attributes:
        factors: what is evaluated, in order.
        levels: the categories of each factor, none for a number.
        pieces: what is multiplied for each of the design's columns; nothing for ones.
        columns: the names that people know them by.
        intercept: where the intercept is among them.
        codings: of categories that are coded by other numbers than 0 and 1.
    """

    factors: tuple[Node, ...]
    levels: tuple[tuple[str, ...], ...]
    pieces: tuple[tuple[_Piece, ...], ...]
    columns: tuple[str, ...]
    intercept: int | None
    codings: dict[str, list[str]]

    @classmethod
    def of(cls, terms: Sequence[Term], schema: Schema) -> _Expansion:
        factors = tuple(dict.fromkeys(node for term in terms for node in term))
        places = {node: place for place, node in enumerate(factors)}
        levels = tuple(_levels(node, schema) for node in factors)
        coded = _Coded(factors, levels)
        pieces: list[tuple[_Piece, ...]] = []
        columns: list[str] = []
        intercept = None
        spanned: set[frozenset[_Scoped]] = set()
        for term in terms:
            if not term:
                intercept = len(pieces)
            # All levels of a category span its contrast and ones: with it and without.
            ways = [
                [(_Scoped(k, reduced=True),), ()]
                if levels[k]
                else [(_Scoped(k, reduced=False),)]
                for k in (places[node] for node in term)
            ]
            span = [tuple(chain(*each)) for each in product(*ways)]
            new = [one for one in span if frozenset(one) not in spanned]
            spanned.update(map(frozenset, new))
            for scoped in _simplified(new):
                choices = [coded.pieces(one) for one in scoped]
                # As formulaic does it: the first factor changes fastest.
                for each in product(*reversed(choices)):
                    pieces.append(tuple(piece for piece, _ in each[::-1]))
                    columns.append(":".join(name for _, name in each[::-1]))
        names = tuple(name or "Intercept" for name in columns)
        return cls(factors, levels, tuple(pieces), names, intercept, coded.codings)

    def matrix(self, frame: Frame, numbers: Sequence[Array[Any] | None]) -> Array[Any]:
        """Return the design of a table, one row per row; numbers are by factor."""
        design = np.empty((len(frame), len(self.pieces)))
        # A few columns and some rows at a time: numbers of one column lie far apart in
        # the design, and what is written must stay near.
        for first in range(0, len(self.pieces), _COLUMNS_AT_A_TIME):
            places = range(len(self.pieces))[first : first + _COLUMNS_AT_A_TIME]
            few = [*self.parts(places, frame, numbers)]
            for start in range(0, len(design), BLOCK_ROWS):
                piece = slice(start, start + BLOCK_ROWS)
                for place, column in few:
                    design[piece, place] = column[piece] if np.ndim(column) else column
        return design

    def parts(
        self,
        places: Iterable[int],
        frame: Frame,
        numbers: Sequence[Array[Any] | None],
    ) -> Iterator[tuple[int, Any]]:
        """Yield some of the design's columns, each multiplied from left to right."""

        @cache
        def levels(factor: int) -> Array[Any]:
            return frame[next(named_in(self.factors[factor]))].cat.codes.to_numpy()

        for place in places:
            each = [piece.values(numbers, levels) for piece in self.pieces[place]]
            yield place, reduce(operator.mul, each) if each else 1.0


class _Scoped(NamedTuple):
    """A factor by its place; `reduced` if it is a category's contrast alone."""

    place: int
    reduced: bool


# What is multiplied, in the order it was written in.
_Product: TypeAlias = tuple[_Scoped, ...]


def _simplified(span: Iterable[_Product]) -> list[_Product]:
    """Return the fewest products that span the same, in the order formulaic has.

    Something, and the same times a contrast, is that times all levels of the category.
    """
    found: list[_Product] = []
    for one in sorted(span, key=len):
        for old in found:
            more = set(one) - set(old)
            if len(old) == len(one) - 1 and len(more) == 1 and min(more).reduced:
                whole = tuple(
                    each._replace(reduced=False) if each in more else each
                    for each in one
                )
                found = _simplified([*(x for x in found if x != old), whole])
                break
        else:
            found.append(one)
    return found


class _Coded:
    """How categories are coded, as numbers that are the same everywhere."""

    def __init__(
        self, factors: Sequence[Node], levels: Sequence[tuple[str, ...]]
    ) -> None:
        self.codings: dict[str, list[str]] = {}
        self._factors, self._levels = factors, levels
        self._known: dict[_Scoped, list[tuple[_Piece, str]]] = {}

    def pieces(self, scoped: _Scoped) -> list[tuple[_Piece, str]]:
        """Return what a factor is multiplied as, column after column, with names."""
        if scoped not in self._known:
            self._known[scoped] = list(self._made(scoped))
        return self._known[scoped]

    def _made(self, scoped: _Scoped) -> Iterator[tuple[_Piece, str]]:
        place, reduced = scoped
        node, levels = self._factors[place], self._levels[place]
        known = shown(node)
        if not levels:
            yield _Piece(place), known
            return
        if reduced and len(levels) == 1:
            return
        base = _reference(node, levels) if reduced else None
        if not reduced or base is not None:
            mark = "T." if reduced else ""
            for number, level in enumerate(levels):
                if number != base:
                    yield _Piece(place, level=number), f"{known}[{mark}{level}]"
            return
        contrasts = needed(
            "formulaic.transforms.contrasts", extra="data", what="contrasts"
        )
        assert isinstance(node, Coded)
        options = {name: each.value for name, each in (_bound(node) or {}).items()}
        contrast = getattr(contrasts, CONTRASTS[str(node.contrast)][0])(**options)
        ours = {f"l{number}": level for number, level in enumerate(levels)}
        fields = contrast.get_coding_column_names([*ours], reduced_rank=True)
        form = contrast.get_factor_format([*ours], reduced_rank=True)
        names = [form.format(name=known, field=ours.get(one, one)) for one in fields]
        matrix = contrast.get_coding_matrix([*ours], reduced_rank=True).to_numpy(float)
        # formulaic's last bits may be another machine's: what is fine is rounded.
        whole = np.abs(matrix - np.rint(matrix)).max(initial=0.0) < 1e-9
        unit = Fraction(1) if whole else _CODE_UNIT
        counts = np.rint(matrix / float(unit))
        written = repr(counts.astype(np.int64).tolist()).encode()
        self.codings[known] = [str(unit), hashlib.sha256(written).hexdigest()]
        for codes, name in zip((counts * float(unit)).T, names, strict=True):
            yield _Piece(place, codes=codes.copy(), unit=unit), name


def _reference(node: Node, levels: tuple[str, ...]) -> int | None:
    """Return the number of the level that others are compared with.

    None for a contrast that does not code its levels by 0 and 1.
    """
    if not isinstance(node, Coded) or node.contrast is None:
        return 0
    usual = {"TreatmentContrasts": 0, "SASContrasts": len(levels) - 1}
    base = (_bound(node) or {}).get("base")
    number = usual.get(CONTRASTS[node.contrast][0])
    return number if base is None else levels.index(str(base.value))


def _check_design(text: str, columns: Sequence[str]) -> None:
    if not columns:
        raise InvalidInputError(
            f"the formula {_short(text)} has nothing on its right side; write 1 for an "
            "intercept alone"
        )
    if len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"the formula {_short(text)} gives two columns of the design the same "
            f"name: {listed(sorted(columns))}; rename a column or a category"
        )


def _check_finite(
    table: CheckedTable, values: FloatArray, names: Sequence[str]
) -> None:
    if np.isfinite(values).all():
        return
    broken = np.count_nonzero(~np.isfinite(values), axis=0)
    place = int(np.flatnonzero(broken)[0])
    raise SchemaError(
        *(table.party, names[place], "finite"),
        f"the term {names[place]!r} is not a finite number in {broken[place]} of "
        f"{table.n_rows} rows, as the logarithm of 0 is not; correct these rows, agree "
        "on a minimum in the schema, or use another function",
    )
