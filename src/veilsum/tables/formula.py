"""A model's formula, checked against the schema before anybody has data.

The design's columns follow from the formula and the schema alone, so that they mean
the same at every party. That rules out functions that look at the rows first.

A formula may come out of a file that somebody else wrote, so nothing of it is ever run
as code. It is read once, here, into a small tree of frozen values; only that tree is
evaluated, by a few lines below. formulaic codes the categories and multiplies the
columns out, and is given numbers under names of our own: no text of a file reaches it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import comb, prod
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError, MissingExtraError
from veilsum.models.rows import Design, PerRow
from veilsum.numbers.arrays import listed
from veilsum.tables.columns import Column, SchemaError
from veilsum.tables.frames import Frame, load_pandas, needed
from veilsum.tables.schema import CheckedTable, Schema

# Bounds on what a formula may ask for; each is checked before the work is done.
LONGEST_FORMULA = 10_000
LONGEST_NUMBER = 40
LARGEST_POWER = 5
DEEPEST_NESTING = 20
MOST_OPERATIONS = 100
MOST_CATEGORIES_IN_A_TERM = 6
MOST_FACTORS_IN_A_TERM = 20
MOST_TERMS = MOST_DESIGN_COLUMNS = 5_000

# Each works on one row at a time: nothing is learned from the others.
FUNCTIONS: Mapping[str, Any] = {
    **{name: getattr(np, name) for name in ("log", "log1p", "log10", "exp", "expm1")},
    **{name: getattr(np, name) for name in ("sqrt", "abs")},
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

_SIGNS: Mapping[str, Any] = {"+": operator.pos, "-": operator.neg}
_ARITHMETIC: Mapping[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
# How tightly each binds, as in Python: a sign stands between a product and a power.
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "sign": 3, "**": 4}


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
class Signed:
    """Plus or minus something."""

    sign: str
    inner: Node


@dataclass(frozen=True)
class Operation:
    """Two things with an arithmetic sign between them."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Applied:
    """A function of one argument; `I` is the one that changes nothing."""

    function: str
    inner: Node


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


Node: TypeAlias = Named | Number | Signed | Operation | Applied | Coded
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
    or a category with two levels, which becomes 0 for the first and 1 for the second.
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
    def of(cls, text: str, schema: Schema) -> ModelFormula:
        """Return the formula, checked; no data are needed.

        Raises:
            InvalidInputError: it cannot be read, names a column the schema does not
                have, or uses a function that would differ from party to party.
            MissingExtraError: formulaic is not installed.
        """
        read = read_formula(text)
        for node, code in read.written:
            _Check(code, schema).factor(node)
        response = _response(read, schema)
        variables = _variables(read)
        _check_size(text, read.right, schema)
        example = _example(schema, variables)
        try:
            with np.errstate(all="ignore"):
                evaluate(response, example)
                made = _Expansion.of(read.right, schema, example)
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

    def design(self, table: CheckedTable) -> tuple[Design, PerRow]:
        """Return one party's design, one row per row of its table, and response.

        Raises:
            SchemaError: a term is not a finite number in some row.
        """
        self._check_table(table)
        with np.errstate(all="ignore"):
            design = self._right.matrix(table.frame)
        _check_finite(table, design, self.columns)
        return design, self._responses(table)

    def numeric(self, table: CheckedTable, column: str) -> PerRow:
        """Return a column of numbers, such as weights or an offset."""
        self._check_table(table)
        return table.numbers(column)

    def _responses(self, table: CheckedTable) -> PerRow:
        if self.response_is_category:
            codes: PerRow = table.frame[self.response].cat.codes.to_numpy(np.float64)
            return codes
        with np.errstate(all="ignore"):
            values = evaluate(self._left, table.frame)
        _check_finite(table, values[:, np.newaxis], (self.response,))
        return np.ascontiguousarray(values, dtype=np.float64)

    @property
    def response_is_category(self) -> bool:
        """Whether the response is a category with two levels."""
        left = self._left
        return isinstance(left, Named) and self.schema.column(left.name).is_category

    def _check_table(self, table: CheckedTable) -> None:
        if table.schema != self.schema:
            raise InvalidInputError(
                "the table was checked against another schema than the formula's; "
                "check it again with the formula's schema"
            )


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
    |(?P<sign>\*\*|%in%|[-+*/^:~|(){}\[\],=.])
    |(?P<other>\S)""",
    re.VERBOSE,
)
# Inside an expression these are no names, unless they stand in backticks.
_NO_COLUMN = re.compile(r"\.|\A(?:True|False|None)\Z")
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_END = _Token("end", "", -1, -1)


def read_formula(text: str) -> ReadFormula:
    """Return a formula's terms; this is the only place that looks at its text.

    Raises:
        InvalidInputError: it is not a formula, or asks for more than the bounds allow.
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"a formula is a text such as 'y ~ age + C(sex)', found {text!r}"
        )
    if len(text) > LONGEST_FORMULA:
        raise InvalidInputError(
            f"a formula has at most {LONGEST_FORMULA:,} characters, found "
            f"{len(text):,}; fit fewer terms at a time"
        )
    if "\\" in text:
        raise InvalidInputError(
            f"the formula {_short(text)} has a backslash; leave it out"
        )
    return _Reader(text).formula()


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
            if token.text != "1":
                self._unreadable("a number other than 0 and 1 is not a term")
            self.place += 1
            return {frozenset(): INTERCEPT}
        if not self._took("("):
            node = self._factor()
            self.written.append((node, self.code))
            return {frozenset({node}): (node,)}
        self._deeper()
        terms = self._sum({})
        self.depth -= 1
        if not self._took(")"):
            self._unexpected()
        return terms

    # Factors: a column, a function or arithmetic on columns, a category

    def _factor(self) -> Node:
        token = self._next()
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

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(f"the term {_short(self.code)} {why}")

    def _refuse_expression(self) -> NoReturn:
        self._refuse(
            "cannot be used: it holds more than arithmetic on columns and functions; a "
            "column's name that has a dot in it, or a space, is written in backticks"
        )

    def _refuse_function(self, name: str) -> NoReturn:
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
            f"{{({next(names, 'age')} - 60) / 10}}. Functions are C, I, "
            f"{', '.join(FUNCTIONS)}"
        )


def _union(*parts: Terms) -> Terms:
    made: Terms = {}
    for part in parts:
        for key, term in part.items():
            made.setdefault(key, term)
    return made


def _plain(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _short(text: str) -> str:
    """Return a text for a sentence: quoted, nothing in it that a screen obeys."""
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


# What a tree says, and what it is worth


def named_in(node: Node) -> Iterator[str]:
    """Yield the columns in a factor."""
    match node:
        case Named(name=name):
            yield name
        case Coded(column=column):
            yield column.name
        case Signed(inner=inner) | Applied(inner=inner):
            yield from named_in(inner)
        case Operation(left=left, right=right):
            yield from named_in(left)
            yield from named_in(right)


def shown(node: Node, binding: int = 0) -> str:
    """Return a factor as text, spaced as Python spaces it."""
    match node:
        case Named(name=name, quoted=quoted):
            return f"`{name}`" if quoted else name
        case Number(value=value):
            return repr(value).replace("inf", "1e309")
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
        case Signed(sign=sign, inner=inner):
            return _SIGNS[sign](evaluate(inner, frame))
        case Operation(sign=sign, left=left, right=right):
            return _ARITHMETIC[sign](evaluate(left, frame), evaluate(right, frame))
        case Applied(function="I", inner=inner):
            return evaluate(inner, frame)
        case Applied(function=function, inner=inner):
            return FUNCTIONS[function.removeprefix("np.")](evaluate(inner, frame))
    raise TypeError(f"{shown(node)} is a category")


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
                        f"itself or as C({node.name})"
                    )
            case Signed(inner=inner) | Applied(inner=inner):
                self._numbers(inner)
            case Operation(sign=sign, left=left, right=right):
                self._numbers(left)
                self._numbers(right)
                # A power of constants can be a number without end.
                if sign == "**" and not any(named_in(node)):
                    self._refuse("has a power of constants; write the number out")

    def _coded(self, node: Coded) -> None:
        column = self._column(node.column)
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


def _response(read: ReadFormula, schema: Schema) -> Node:
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
    if levels and len(levels) != 2:
        raise InvalidInputError(
            f"the response {shown(node)!r} is a category with {len(levels)} levels; a "
            "response is a number, or a category with two levels"
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
        levels = list(column.categories)
        codes = pandas.Categorical.from_codes([0, 0], categories=levels or [""])
        made[column.name] = codes if column.is_category else np.ones(2)
    return pandas.DataFrame(made)


# The design


# What formulaic calls factor 3, or level 7 of it with the letter of its contrast.
_OUR_NAME = re.compile(r"f([0-9]+)(?:\[([A-Z]\.)?l([0-9]+)\])?")
_ONE = "one"


@dataclass(frozen=True)
class _Expansion:
    """The right side multiplied out: numbers go into formulaic under our own names.

    Attributes:
        factors: what is evaluated, in order; the third is called f2.
        levels: the categories of each factor, none for a number; they are called l0 ...
        spec: formulaic's specification, with its columns fixed.
    """

    factors: tuple[Node, ...]
    levels: tuple[tuple[str, ...], ...]
    spec: Any

    @classmethod
    def of(cls, terms: Sequence[Term], schema: Schema, example: Frame) -> _Expansion:
        formulaic = needed("formulaic", extra="data", what="formulas")
        types = needed("formulaic.parser.types", extra="data", what="formulas")
        factors = tuple(dict.fromkeys(node for term in terms for node in term))
        places = {node: place for place, node in enumerate(factors)}
        # Factors are looked up by name; formulaic has no expression to evaluate.
        made = [
            types.Term(
                types.Factor(name, eval_method="lookup")
                for name in ([f"f{places[node]}" for node in term] or [_ONE])
            )
            for term in terms
        ]
        formula = formulaic.SimpleFormula(made, _ordering="none")
        options = {"na_action": "ignore", "output": "numpy", "ensure_full_rank": True}
        spec = formulaic.ModelSpec.from_spec(formula, **options)
        levels = tuple(_levels(node, schema) for node in factors)
        fixed = cls(factors, levels, spec).made(example).model_spec
        return cls(factors, levels, fixed)

    def matrix(self, frame: Frame) -> Design:
        """Return the design of a table, one row per row."""
        return np.ascontiguousarray(np.asarray(self.made(frame)), dtype=np.float64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The design's columns, by the names that people know."""
        return tuple(_OUR_NAME.sub(self._name, one) for one in self.spec.column_names)

    @property
    def intercept(self) -> int | None:
        """Where the intercept is among the columns."""
        place = 0
        for part in self.spec.structure:
            if part.term.factors[0].expr == _ONE:
                return place
            place += len(part.columns)
        return None

    def _name(self, match: re.Match[str]) -> str:
        place, letter, level_place = match.groups()
        name = shown(self.factors[int(place)])
        if level_place is None:
            return name
        return f"{name}[{letter or ''}{self.levels[int(place)][int(level_place)]}]"

    def made(self, frame: Frame) -> Any:
        """Return formulaic's matrix of a table."""
        pandas = load_pandas()
        contrasts = needed("formulaic.transforms.contrasts", extra="data", what="terms")
        types = needed("formulaic.materializers.types", extra="data", what="formulas")
        columns: dict[str, Any] = {}
        coded: dict[str, Any] = {_ONE: types.FactorValues(1, kind="constant")}
        for place, (node, levels) in enumerate(
            zip(self.factors, self.levels, strict=True)
        ):
            if not levels:
                columns[f"f{place}"] = evaluate(node, frame)
                continue
            ours = [f"l{number}" for number in range(len(levels))]
            column = frame[next(named_in(node))].cat.rename_categories(ours)
            if isinstance(node, Named):
                columns[f"f{place}"] = column
                continue
            coded[f"f{place}"] = contrasts.C(column, _contrast(node, levels, contrasts))
        table = pandas.DataFrame(columns, index=frame.index, copy=False)
        return self.spec.get_model_matrix(table, context=coded)


def _contrast(node: Node, levels: tuple[str, ...], contrasts: Any) -> Any:
    """Return formulaic's contrast, by the names that levels have there."""
    if not isinstance(node, Coded) or node.contrast is None:
        return None
    options = {
        name: f"l{levels.index(option.value)}"
        if isinstance(option.value, str)
        else option.value
        for name, option in (_bound(node) or {}).items()
    }
    return getattr(contrasts, CONTRASTS[node.contrast][0])(**options)


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


def _check_finite(table: CheckedTable, values: Design, names: Sequence[str]) -> None:
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
