"""The value of a factor in every row; only these few lines evaluate a formula."""

from __future__ import annotations

from typing import Any

from veilsum.tables.derived import DerivedColumn
from veilsum.tables.formula.syntax import FUNCTIONS, Derived, Named, Node, formula_text
from veilsum.tables.frames import Frame


def _formula_power_values(base: Any, exponent: int) -> Any:
    """Return a power as a product: from the highest bit down, square and multiply."""
    found = base
    for bit in f"{exponent:b}"[1:]:
        found = found * found * base if bit == "1" else found * found
    return found


def evaluate(node: Node, frame: Frame) -> Any:
    """Return what a factor is in every row; this is all that is ever evaluated."""
    match node:
        case Named(name=name):
            return frame[name].to_numpy()
        case Derived(column=column, place=place):
            return _derived(column, place, frame)
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
            assert column.exponent is not None
            return _formula_power_values(values, column.exponent)
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
