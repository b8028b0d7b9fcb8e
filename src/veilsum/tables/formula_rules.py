"""What may stand in a formula's terms: only what each row decides for itself.

Expressions are evaluated by formulaic; what is not on the lists here never gets there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import listed
from veilsum.tables.columns import Column, level
from veilsum.tables.schema import Schema

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
# A contrast depends on the list of categories only, and that is the schema's.
CONTRASTS = (
    *("Treatment", "Sum", "Helmert", "Diff", "Poly"),
    *(f"contr.{name}" for name in ("treatment", "SAS", "sum", "helmert", "diff")),
    "contr.poly",
)
RESERVED = frozenset({*FUNCTIONS, *CONTRASTS, "C", "I", "np", "contr"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|`([^`]*)`")


def named_column(name: str, schema: Schema) -> Column:
    """Return the schema's column that a formula names."""
    if name not in schema and name.lower() == "intercept":
        raise InvalidInputError(
            f"the schema has no column {name!r}; for a model without an intercept "
            "write '- 1'"
        )
    return schema.column(name)


def columns_in(code: str, schema: Schema) -> list[str]:
    """Return the columns in an expression; refuse what is not a row's own affair."""
    names: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return match.group()
        names[f"column_in_backticks_{len(names)}"] = match.group(1)
        return list(names)[-1]

    if "\\" in code:
        raise InvalidInputError(f"the term {code!r} has a backslash; leave it out")
    tree = ast.parse(_QUOTED.sub(hide, code), mode="eval").body
    return _Expression(code, names, schema).columns(tree)


@dataclass(frozen=True)
class _Expression:
    """The rules for one term: what may stand in it."""

    code: str
    names: Mapping[str, str]
    schema: Schema

    def columns(self, node: ast.expr) -> list[str]:
        """Return the columns in a whole term."""
        if isinstance(node, ast.Call) and _dotted(node.func) == "C":
            return [self._category(node)]
        if isinstance(node, ast.Name):
            return [self._name(node).name]
        found = self._numbers(node)
        if not found:
            raise InvalidInputError(f"the term {self.code!r} names no column")
        return found

    def _numbers(self, node: ast.expr) -> list[str]:
        match node:
            case ast.Constant(value=value) if type(value) in {int, float}:
                return []
            case ast.Name():
                return [self._number(node)]
            case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=inner):
                return self._numbers(inner)
            case ast.BinOp(op=op) if isinstance(op, _ARITHMETIC):
                return self._both(node.left, op, node.right)
            case ast.Call():
                return self._numbers(self._argument(node))
            case _:
                return self._refuse(
                    "holds more than arithmetic on columns and functions; a name with "
                    "a dot or a space in it is written in backticks"
                )

    def _both(self, left: ast.expr, op: ast.operator, right: ast.expr) -> list[str]:
        found = self._numbers(left) + self._numbers(right)
        # A power of constants can be a number without end.
        if isinstance(op, ast.Pow) and not found:
            self._refuse("has a power of constants; write the number out")
        return found

    def _name(self, node: ast.Name) -> Column:
        return named_column(self.names.get(node.id, node.id), self.schema)

    def _number(self, node: ast.Name) -> str:
        column = self._name(node)
        if column.is_category:
            self._refuse(
                f"computes with {column.name!r}, which is a category; use it by itself "
                f"or as C({column.name})"
            )
        return column.name

    def _argument(self, node: ast.Call) -> ast.expr:
        """Return what a function is applied to; refuse all but the known ones."""
        name = _dotted(node.func)
        bare = name.removeprefix("np.").removeprefix("numpy.")
        if name == "C":
            self._refuse("has C(...) inside; a category cannot be computed with")
        if name != "I" and (bare not in FUNCTIONS or name.startswith("numpy.")):
            self._refuse_function(name, node)
        if len(node.args) != 1 or node.keywords:
            self._refuse(f"gives {name} more than one argument, or a named one")
        return node.args[0]

    def _refuse_function(self, name: str, node: ast.Call) -> NoReturn:
        inner = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
        inner = [self.names.get(one, one) for one in inner]
        column = next((one for one in inner if one in self.schema), "age")
        if name in STATEFUL:
            what = f"{name} would learn its constants from each party's own rows"
        elif isinstance(node.func, ast.Attribute) and not name.startswith("np."):
            self._refuse(
                "calls something with a dot in it; a column's name that has one is "
                "written in backticks"
            )
        else:
            what = f"{name} is not known here, and might look at each party's own rows"
        raise InvalidInputError(
            f"the term {self.code!r} cannot be used: {what}, and the column would not "
            "mean the same everywhere; put the constants into the formula, such as "
            f"{{({column} - 60) / 10}}. Functions are C, I, {', '.join(FUNCTIONS)}"
        )

    def _category(self, node: ast.Call) -> str:
        options = {one.arg: one.value for one in node.keywords}
        first, *rest = node.args or [node]
        if not isinstance(first, ast.Name):
            self._refuse("must name a column inside C(...), and nothing else")
        column = self._name(first)
        if not column.is_category:
            self._refuse(
                f"makes categories of {column.name!r}, which the schema has as "
                f"{column.kind}: parties would not have the same list of them; agree "
                'on kind = "category" with its categories'
            )
        if set(options) - {"contrasts"} or len(rest) + len(options) > 1:
            self._refuse(
                "has options of C other than a contrast; levels are the schema's"
            )
        for contrast in [*rest, *options.values()]:
            self._check_contrast(contrast, column)
        return column.name

    def _check_contrast(self, node: ast.expr, column: Column) -> None:
        made = node if isinstance(node, ast.Call) else None
        name = _dotted(made.func if made else node)
        if name not in CONTRASTS:
            self._refuse(
                f"has an unknown contrast; contrasts are {', '.join(CONTRASTS)}"
            )
        given = [*made.args, *(one.value for one in made.keywords)] if made else []
        for one in given:
            self._check_option(one, column)

    def _check_option(self, node: ast.expr, column: Column) -> None:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool) or value in column.categories:
            return
        quoted = [f"'{one}'" for one in column.categories]
        near = level(value) in column.categories
        self._refuse(
            f"has a contrast with {ast.unparse(node)}, which is not a category of "
            f"{column.name!r}; its categories are {listed(quoted)}"
            + (", in quotes" if near else "")
        )

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidInputError(f"the term {self.code!r} {why}")


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node)
