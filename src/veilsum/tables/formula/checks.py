"""Checks of a formula against the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from math import prod
from typing import Literal, NoReturn, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import FloatArray, listed_names
from veilsum.numbers.units import BITS
from veilsum.tables.columns import Column, SchemaError
from veilsum.tables.formula.syntax import (
    CONTRASTS,
    MOST_DESIGN_COLUMNS,
    Coded,
    Derived,
    Named,
    Node,
    Option,
    ReadFormula,
    Term,
    columns_named_in,
    formula_text,
    short_formula_text,
)
from veilsum.tables.schema import CheckedTable, Schema

MOST_CATEGORIES_IN_A_TERM = 6
# How many levels a response may have that is a category.
Levels: TypeAlias = Literal["two", "several", "any"]


@dataclass(frozen=True)
class FormulaFactorCheck:
    """The rules for one factor: what it may do with the schema's columns."""

    code: str
    schema: Schema

    def factor(self, node: Node) -> None:
        """Refuse a factor that does not fit the schema."""
        if isinstance(node, Coded):
            self._coded(node)
        elif isinstance(node, Named) and node.name not in self.schema.derived_by_name:
            self._column(node)

    def _column(self, node: Named) -> Column:
        if node.name not in self.schema and node.name.lower() == "intercept":
            raise InvalidInputError(
                f"the schema has no column {node.name!r}; for a model without an "
                "intercept write '- 1'",
                code="unknown-column",
            )
        return self.schema.column(node.name)

    def _coded(self, node: Coded) -> None:
        column = self._column(node.column)
        if not column.is_category:
            if column.has_range and column.measure.most - column.measure.least <= 1:
                self._refuse(
                    f"makes categories of {column.name!r}, which the schema has as a "
                    f"number from {column.range}: 0 and 1 need no C(...), write "
                    f"{column.name} by itself"
                )
            self._refuse(
                f"makes categories of {column.name!r}, which the schema has as "
                f"{column.kind}: parties would not have the same list of them; agree "
                'on kind = "category" with its categories'
            )
        if node.contrast is None:
            return
        options = formula_contrast_options(node)
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
            f"{column.name!r}; its categories are {listed_names(quoted)}"
            + (", in quotes" if option.written in column.categories else "")
        )

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(
            f"the term {short_formula_text(self.code)} {why}", code="term-refused"
        )


def formula_contrast_options(node: Coded) -> dict[str, Option] | None:
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


def with_derived(terms: Iterable[Term], schema: Schema) -> tuple[Term, ...]:
    """Return terms in which derived columns stand by the numbers that they make."""
    found: list[Term] = []
    for term in terms:
        choices = (_numbers_of(node, schema) for node in term)
        found += product(*choices)
    return tuple(found)


def _numbers_of(node: Node, schema: Schema) -> tuple[Node, ...]:
    column = schema.derived_by_name.get(node.name) if isinstance(node, Named) else None
    if column is None:
        return (node,)
    return tuple(Derived(column, place) for place in range(column.width))


def formula_response(read: ReadFormula, schema: Schema, allowed: Levels) -> Node:
    """Return what is on the left; refuse what is no response."""
    if len(read.left) != 1 or len(read.left[0]) > 1:
        terms = [":".join(map(formula_text, term)) or "1" for term in read.left]
        raise InvalidInputError(
            "the left side must be one response, found "
            f"{listed_names(terms) or 'none'}",
            code="not-one-response",
        )
    (node,) = read.left[0] or (None,)
    if node is None or isinstance(node, Coded):
        raise InvalidInputError(
            "the left side must be a column, found "
            f"{'1' if node is None else formula_text(node)}",
            code="response-not-column",
        )
    if read.left[0] in read.right:
        raise InvalidInputError(
            f"{formula_text(node)!r} stands on both sides; the response explains "
            "itself",
            code="response-on-both-sides",
        )
    levels = formula_factor_levels(node, schema)
    if allowed == "two" and levels and len(levels) != 2:
        raise InvalidInputError(
            f"the response {formula_text(node)!r} is a category with {len(levels)} "
            "levels; a "
            "response is a number, or a category with two levels. Of more levels, a "
            'fit has family = "multinomial", or "ordinal" if they are in an order',
            code="response-of-many-levels",
        )
    if allowed == "several" and len(levels) < 3:
        found = f"a category with {len(levels)} levels" if levels else "a number"
        way = (
            'for two levels, family = "logistic"'
            if levels
            else ("make it a category, with its levels in their order")
        )
        raise InvalidInputError(
            f"the response {formula_text(node)!r} is {found}, and a choice is among "
            "three "
            f"levels or more of a category: {way}",
            code="response-not-choice",
        )
    return node


def formula_factor_levels(node: Node, schema: Schema) -> tuple[str, ...]:
    """Return a factor's categories; none if it is a number."""
    if isinstance(node, Coded):
        node = node.column
    if not isinstance(node, Named) or node.name in schema.derived_by_name:
        return ()
    return schema.column(node.name).categories


def formula_variables(read: ReadFormula) -> tuple[str, ...]:
    """Return the columns that the terms need, each once, in the formula's order."""
    factors = [node for term in (*read.left, *read.right) for node in term]
    found = dict.fromkeys(name for node in factors for name in columns_named_in(node))
    called = set[str]()
    for node in factors:
        if isinstance(node, Coded):
            called.update(("C", *(node.contrast or "").split(".")))
    clash = [name for name in found if name in called]
    if clash:
        raise InvalidInputError(
            f"column {clash[0]!r} has the name of a function; rename the column to use "
            "it in a formula",
            code="column-named-like-function",
        )
    return tuple(found)


def check_formula_size(text: str, terms: Iterable[Term], schema: Schema) -> None:
    """Refuse a design that is too wide, before there is one."""
    columns = 0
    for term in terms:
        sizes = [
            len(found)
            for node in term
            if (found := formula_factor_levels(node, schema))
        ]
        if len(sizes) > MOST_CATEGORIES_IN_A_TERM:
            raise InvalidInputError(
                f"a term of the formula {short_formula_text(text)} multiplies "
                f"{len(sizes)} "
                f"categories; at most {MOST_CATEGORIES_IN_A_TERM} are allowed",
                code="too-many-categories-multiplied",
            )
        # A category with one level has a column, and takes part in the coding.
        made = prod(len(_numbers_of(node, schema)) for node in term)
        columns += made * prod(max(size, 2) for size in sizes)
    if columns > MOST_DESIGN_COLUMNS:
        raise InvalidInputError(
            f"the formula {short_formula_text(text)} would give up to {columns:,} "
            "columns of the "
            f"design; at most {MOST_DESIGN_COLUMNS:,} are allowed: leave out "
            "interactions, or agree on fewer categories",
            code="design-too-large",
        )


def check_formula_bits(bits: object) -> None:
    """Refuse a precision that is not a number of bits from 8 to 200."""
    if isinstance(bits, bool) or not isinstance(bits, int) or not 8 <= bits <= 200:
        raise InvalidInputError(
            f"bits must be a whole number from 8 to 200, found {bits!r}; {BITS} do for "
            "nearly everything",
            code="bits-out-of-range",
        )


def check_design_names(text: str, columns: Sequence[str]) -> None:
    """Refuse a design without columns, or with two of one name."""
    if not columns:
        raise InvalidInputError(
            f"the formula {short_formula_text(text)} has nothing on its right side; "
            "write 1 for an "
            "intercept alone",
            code="empty-right-side",
        )
    if len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"the formula {short_formula_text(text)} gives two columns of the design "
            "the same "
            f"name: {listed_names(sorted(columns))}; rename a column or a category",
            code="duplicate-design-column",
        )


def check_finite_terms(
    table: CheckedTable, values: FloatArray, names: Sequence[str]
) -> None:
    """Refuse values that are not finite; the error names the term."""
    if np.isfinite(values).all():
        return
    broken = np.count_nonzero(~np.isfinite(values), axis=0)
    place = int(np.flatnonzero(broken)[0])
    raise SchemaError(
        *(table.party, names[place], "finite"),
        f"the term {names[place]!r} is not a finite number in {broken[place]} of "
        f"{table.n_rows} rows, as the logarithm of 0 is not; correct these rows, agree "
        "on a minimum in the schema, or use another function",
        code="term-not-finite",
    )
