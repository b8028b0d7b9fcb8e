"""The language of formulas: what may stand in one, as frozen values.

A formula is a sum of terms, a term a product of factors, and a factor a small tree.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from veilsum.errors import printable
from veilsum.numbers import elementary
from veilsum.tables.derived import DerivedColumn

# A design of p columns has p (p + 1) / 2 sums: half a million.
MOST_DESIGN_COLUMNS = 1_000

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
SIGNS: Mapping[str, Any] = {"+": operator.pos, "-": operator.neg}
# What is true is 1, and what is not is 0.
COMPARED: Mapping[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
JOINED: Mapping[str, Any] = {"&": np.minimum, "|": np.maximum}
# How tightly each binds, as in Python: a sign stands between a product and a power.
_BINDING = {
    **dict.fromkeys(COMPARED, 1),
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


@dataclass(frozen=True)
class Derived:
    """One number of a derived column, by its place."""

    column: DerivedColumn
    place: int = 0


Node: TypeAlias = (
    Named | Number | Level | Signed | Operation | Applied | Chosen | Coded | Derived
)
Term: TypeAlias = tuple[Node, ...]
# A term is known by its factors in any order, and keeps the order it was written in.
Terms: TypeAlias = dict[frozenset[Node], Term]
INTERCEPT: Term = ()


@dataclass(frozen=True)
class ReadFormula:
    """A formula's two sides, read and multiplied out; no schema is needed for that.

    Attributes:
        right: the terms of the design, lower interactions first.
        written: each factor that stands anywhere in the text, with its own text.
    """

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    written: tuple[tuple[Node, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        nodes = (node for node, _ in self.written)
        return tuple(
            dict.fromkeys(name for node in nodes for name in columns_named_in(node))
        )

    @property
    def categories(self) -> tuple[str, ...]:
        """The columns that the text has in C(...)."""
        coded = (node for node, _ in self.written if isinstance(node, Coded))
        return tuple(dict.fromkeys(node.column.name for node in coded))


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


def is_formula_condition(node: Node) -> bool:
    """Say whether a factor is true or not in a row, which is 1 or 0."""
    return isinstance(node, Operation) and node.sign in {*COMPARED, *JOINED}


def formula_children(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node is made of, from left to right."""
    match node:
        case Signed(inner=inner) | Applied(inner=inner):
            return (inner,)
        case Operation(left=left, right=right):
            return left, right
        case Chosen(condition=condition, yes=yes, no=no):
            return condition, yes, no
        case Coded(column=column):
            return (column,)
    return ()


def walk_formula(node: Node) -> Iterator[Node]:
    yield node
    for part in formula_children(node):
        yield from walk_formula(part)


def columns_named_in(node: Node) -> Iterator[str]:
    """Yield the plain columns that a factor is made of."""
    for part in walk_formula(node):
        if isinstance(part, Named):
            yield part.name
        elif isinstance(part, Derived):
            yield part.column.source.name


def formula_text(node: Node, binding: int = 0) -> str:
    match node:
        case Named(name=name, quoted=quoted):
            return f"`{name}`" if quoted else name
        case Number(value=value):
            return repr(value).replace("inf", "1e309")
        case Level(value=value):
            return f'"{value}"'
        case Chosen(condition=condition, yes=yes, no=no):
            return (
                f"where({formula_text(condition)}, {formula_text(yes)}, "
                f"{formula_text(no)})"
            )
        case Signed(sign=sign, inner=inner):
            own, text = (
                _BINDING["sign"],
                f"{sign}{formula_text(inner, _BINDING['sign'])}",
            )
        case Operation(sign=sign, left=left, right=right):
            own = _BINDING[sign]
            first, second = (own + 1, own) if sign == "**" else (own, own + 1)
            text = f"{formula_text(left, first)} {sign} {formula_text(right, second)}"
        case Applied(function=function, inner=inner):
            return f"{function}({formula_text(inner)})"
        case Derived(column=derived, place=place):
            return derived.labels[place]
        case Coded(column=column, contrast=None):
            return f"C({formula_text(column)})"
        case Coded(column=column, contrast=contrast, options=options):
            made = f"{'contrasts=' if node.keyword else ''}{contrast}"
            if options is not None:
                each = (f"{key}={text}" if key else text for key, _, text in options)
                made = f"{made}({', '.join(each)})"
            return f"C({formula_text(column)}, {made})"
    return f"({text})" if own < binding else text


def short_formula_text(text: str) -> str:
    """Return a text for a sentence: quoted, nothing in it that a screen obeys."""
    return printable(repr(text if len(text) <= 200 else f"{text[:200]}..."))
