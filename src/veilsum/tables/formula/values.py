"""The value of a factor in every row; only these few lines evaluate a formula."""

from __future__ import annotations

import operator
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np

from veilsum.numbers import elementary
from veilsum.tables.derived import DerivedColumn
from veilsum.tables.formula.syntax import (
    COMPARED,
    FUNCTIONS,
    JOINED,
    SIGNS,
    Applied,
    Chosen,
    Derived,
    Level,
    Named,
    Node,
    Number,
    Operation,
    Signed,
    columns_named_in,
    formula_text,
    is_formula_condition,
)
from veilsum.tables.frames import Frame

# Powers above this are no products any more.
MOST_FACTORS = 64


def _power(base: Any, exponent: Any) -> Any:
    """Return a power, in every row; a whole one up to 64 is a product."""
    if np.ndim(base) == np.ndim(exponent) == 0:
        return base**exponent
    if np.ndim(exponent) or exponent not in range(1, MOST_FACTORS + 1):
        return elementary.power(base, exponent)
    # From the highest bit down: square, and multiply where the bit is set.
    found = base
    for bit in f"{int(exponent):b}"[1:]:
        found = found * found * base if bit == "1" else found * found
    return found


ARITHMETIC: Mapping[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": _power,
    **JOINED,
    **{
        sign: lambda left, right, compare=compare: 1.0 * compare(left, right)
        for sign, compare in COMPARED.items()
    },
}


def evaluate(node: Node, frame: Frame) -> Any:
    """Return what a factor is in every row; this is all that is ever evaluated."""
    match node:
        case Named(name=name):
            return frame[name].to_numpy()
        case Derived(column=column, place=place):
            return _derived(column, place, frame)
        case Number(value=value):
            return value
        case Chosen(condition=condition, yes=yes, no=no):
            parts = (evaluate(part, frame) for part in (condition, yes, no))
            return values_by_condition(*parts)
        case Operation(sign="==" | "!=" as sign, left=left, right=Level(value=value)):
            held = frame[next(columns_named_in(left))].array
            (code,) = held.categories.get_indexer([value])
            return 1.0 * COMPARED[sign](held.codes, code)
        case Signed(sign=sign, inner=inner):
            return SIGNS[sign](evaluate(inner, frame))
        case Operation(sign=sign, left=left, right=right):
            return ARITHMETIC[sign](evaluate(left, frame), evaluate(right, frame))
        case Applied(function="I", inner=inner):
            return evaluate(inner, frame)
        case Applied(function=function, inner=inner):
            return FUNCTIONS[function.removeprefix("np.")](evaluate(inner, frame))
    raise TypeError(f"{formula_text(node)} is a category")


def _derived(column: DerivedColumn, place: int, frame: Frame) -> Any:
    """Return one number of a derived column in every row."""
    own = frame[column.source.name]
    if column.form == "level":
        code = column.source.categories.index(str(column.level))
        return 1.0 * (own.cat.codes.to_numpy() == code)
    values = own.to_numpy()
    match column.form:
        case "power":
            return _power(values, column.exponent)
        case "scale":
            assert column.unit is not None
            top, bottom = column.unit.as_integer_ratio()
            return values / top if bottom == 1 else values * bottom / top
        case "intervals":
            inside = values >= column.points[place]
            if place + 1 < len(column.points):
                inside &= values < column.points[place + 1]
            return 1.0 * inside
        case "natural spline" | "b-spline":
            return column.smooth(place, values)
    return FUNCTIONS[column.form](values)


def values_by_condition(condition: Any, yes: Any, no: Any) -> Any:
    """Return one value where a condition holds, and another elsewhere."""
    return np.where(np.asarray(condition, dtype=bool), yes, no)


def column_parts_of_factor(
    node: Node, frame: Frame
) -> Generator[tuple[Node, Any], None, Any]:
    """Yield the parts of a factor that name a column, with their values; return its."""
    match node:
        case Chosen(condition=condition, yes=yes, no=no):
            # What is chosen from is seen in some rows only, and whole by nobody.
            true = yield from column_parts_of_factor(condition, frame)
            other = []
            for part in (yes, no):
                if _is_simple(part):
                    other.append(evaluate(part, frame))
                else:
                    other.append((yield from column_parts_of_factor(part, frame)))
            values = values_by_condition(true, *other)
        case Operation(sign=sign, left=left, right=right) if sign in COMPARED and (
            isinstance(right, Level) or (_is_simple(left) and _is_simple(right))
        ):
            values = evaluate(node, frame)
        case Signed(sign=sign, inner=inner):
            values = SIGNS[sign]((yield from column_parts_of_factor(inner, frame)))
        case Operation(sign=sign, left=left, right=right):
            first = yield from column_parts_of_factor(left, frame)
            values = ARITHMETIC[sign](
                first, (yield from column_parts_of_factor(right, frame))
            )
        case Applied(function=function, inner=inner) if not _is_simple(inner):
            values = yield from column_parts_of_factor(inner, frame)
            if function != "I":
                values = FUNCTIONS[function.removeprefix("np.")](values)
        case _:
            values = evaluate(node, frame)
    if any(columns_named_in(node)):
        yield node, values
    return values


def factor_addends(node: Node) -> Iterator[Node]:
    """Yield what is added up in a factor, without constants before it."""
    match node:
        case Signed(inner=inner) | Applied(function="I", inner=inner):
            yield from factor_addends(inner)
        case Operation(sign="+" | "-", left=left, right=right):
            yield from factor_addends(left)
            yield from factor_addends(right)
        case Operation(sign="*", left=left, right=right) if not any(
            columns_named_in(left)
        ):
            yield from factor_addends(right)
        case Operation(sign="*" | "/", left=left, right=right) if not any(
            columns_named_in(right)
        ):
            yield from factor_addends(left)
        case _ if any(columns_named_in(node)):
            yield node


def _is_simple(node: Node) -> bool:
    """Say whether one column stands in it, once, with constants around it."""
    match node:
        case Signed(inner=inner):
            return _is_simple(inner)
        case Operation(sign="**") | Applied() | Chosen():
            return False
        case Operation() if is_formula_condition(node):
            return False
        case Operation(left=left, right=right):
            named = len([*columns_named_in(node)])
            return named == 1 and all(
                _is_simple(one) for one in (left, right) if any(columns_named_in(one))
            )
    return True
