"""Rows of a few numbers that numba keeps in vector registers.

numba turns a loop over four numbers into scalar code, or guards it with tests that cost
more than the loop. A `Lanes` value is a vector of the processor's: it is loaded, added,
multiplied, bounded and stored as one. Import this where numba is installed only.
"""

# ruff: noqa: ARG001 - numba calls these by position

from __future__ import annotations

import operator
from collections.abc import Callable
from inspect import unwrap
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model


def built(function: Callable[..., Any]) -> Any:
    """Return a function that numba calls for the types and the machine code."""
    return intrinsic(function)


class Lanes(types.Type):
    """The type of `width` numbers side by side."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Lanes({dtype}, {width})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """A vector of the processor's, or as many as it takes."""

    def __init__(self, manager: Any, lanes: Any) -> None:
        number = manager.lookup(lanes.dtype).get_value_type()
        vector = ir.VectorType(number, lanes.width)
        super().__init__(manager, lanes, vector)  # type: ignore[no-untyped-call]


def _lanes_like(row: Any) -> Lanes:
    """Return the type of lanes as wide as a tuple: its length is known to numba."""
    return Lanes(row.dtype, row.count)


def _place(context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> Any:
    """Return the address of args[0][args[1]] as that of another kind of value."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())


def _spread(builder: Any, number: Any, vector: Any) -> Any:
    """Return a vector with one number in every lane."""
    lane, order = ir.IntType(32), ir.VectorType(ir.IntType(32), vector.count)
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), number, ir.Constant(lane, 0)
    )
    return builder.shuffle_vector(first, first, ir.Constant(order, None))


def _choose(builder: Any, which: str, left: Any, right: Any) -> Any:
    """Return the greater or the lesser lanes, nan where either is nan."""
    kind = left.type
    bits = 64 if kind.element == ir.DoubleType() else 32
    name = f"llvm.{which}.v{kind.count}f{bits}"
    known = builder.module.globals.get(name)
    chosen = ir.FunctionType(kind, [kind, kind])
    return builder.call(
        known or ir.Function(builder.module, chosen, name), [left, right]
    )


@built
def load(typingctx: Any, array: Any, index: Any, row: Any) -> Any:
    """Return array[index : index + len(row)], for a flat array."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        place = _place(context, builder, signature, args, vector)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return _lanes_like(row)(array, index, row), build


@built
def store(typingctx: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Put lanes at array[index] and what follows, in a flat array."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.args[2])
        place = _place(context, builder, signature, args, vector)
        builder.store(args[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, lanes), build


@built
def fetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Tell the processor that array[index] will soon be read."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag, byte = ir.IntType(32), ir.IntType(8)
        place = _place(context, builder, signature, args, byte)
        kinds = [place.type, flag, flag, flag]
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", (place.type,), ir.FunctionType(ir.VoidType(), kinds)
        )
        # To read, to be kept near, data.
        builder.call(hint, [place, *(ir.Constant(flag, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, index), build


@built
def spread(typingctx: Any, number: Any, row: Any) -> Any:
    """Return lanes that all hold one number."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        plain = context.cast(builder, args[0], number, row.dtype)
        return _spread(builder, plain, vector)

    return _lanes_like(row)(number, row), build


@built
def within(typingctx: Any, lanes: Any, low: Any, high: Any) -> Any:
    """Return lanes moved between two others; nan stays nan."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, least, most = args
        value = _choose(builder, "maximum", value, least)
        return _choose(builder, "minimum", value, most)

    return lanes(lanes, low, high), build


@built
def added_up(typingctx: Any, lanes: Any) -> Any:
    """Return the sum of all lanes."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = [
            builder.extract_element(args[0], ir.Constant(ir.IntType(32), k))
            for k in range(lanes.width)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = builder.fadd(total, part)
        return total

    return lanes.dtype(lanes), build


def _arithmetic(name: str) -> Any:
    """Return the intrinsic that joins lanes with lanes or with one number."""

    @built
    def join(typingctx: Any, lanes: Any, other: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            left, right = args
            if not isinstance(other, Lanes):
                plain = context.cast(builder, right, other, lanes.dtype)
                right = _spread(builder, plain, left.type)
            return getattr(builder, name)(left, right)

        return lanes(lanes, other), build

    return join


def _overload(operation: Any, name: str) -> None:
    """Let numba join lanes where Python's operator stands."""
    join = _arithmetic(name)

    @overload(operation)
    def joined(left: Any, right: Any) -> Any:
        def of_lanes(left: Any, right: Any) -> Any:
            return join(left, right)

        # Unwrapped: a checker of types around it is not for machine code.
        return unwrap(of_lanes) if isinstance(left, Lanes) else None


_overload(operator.add, "fadd")
_overload(operator.sub, "fsub")
_overload(operator.mul, "fmul")
