"""The language of formulas: what may stand in one, as frozen values.

A formula is a sum of terms, a term a product of factors, and a factor a small tree.
"""

from __future__ import annotations

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
    "sqrt": np.sqrt,
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
SIGNS = frozenset({"+", "-"})


@dataclass(frozen=True)
class Named:
    """A column; `quoted` if its name stood in backticks inside C(...)."""

    name: str
    quoted: bool = False


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


Node: TypeAlias = Named | Coded | Derived
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


def columns_named_in(node: Node) -> Iterator[str]:
    """Yield the plain column that a factor is made of."""
    match node:
        case Named(name=name) | Coded(column=Named(name=name)):
            yield name
        case Derived(column=column):
            yield column.source.name


def formula_text(node: Node) -> str:
    match node:
        case Named(name=name):
            return name
        case Derived(column=derived, place=place):
            return derived.labels[place]
        case Coded(column=column, contrast=None):
            return f"C({_in_call(column)})"
        case Coded(column=column, contrast=contrast, options=options):
            made = f"{'contrasts=' if node.keyword else ''}{contrast}"
            if options is not None:
                each = (f"{key}={text}" if key else text for key, _, text in options)
                made = f"{made}({', '.join(each)})"
            return f"C({_in_call(column)}, {made})"


def _in_call(column: Named) -> str:
    return f"`{column.name}`" if column.quoted else column.name


def short_formula_text(text: str) -> str:
    """Return a text for a sentence: quoted, nothing in it that a screen obeys."""
    return printable(repr(text if len(text) <= 200 else f"{text[:200]}..."))
