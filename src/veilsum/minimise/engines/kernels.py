"""Iterations as machine code. Import this where numba is installed only.

Panels come first: a few coordinates of all parties, party by party in one flat array,
with a row of zeros after the last one. Loops over four numbers are what numba cannot
do well: it turns them into scalar code, or guards them with tests that cost more than
the loop. So a row of a panel is a `KernelLanes` value, a vector of the processor's, and
what is heard soon is fetched before it is needed. Ordinary loops over neighbours and
columns took 1.6 times as long for 10,000 parties of 100 coordinates and 3 times as long
for 100,000 of 10, and with the prefetch alone 2 times.

Parties with a matrix each follow, in ordinary loops.
"""

# ruff: noqa: ARG001 - numba calls these by position

from __future__ import annotations

import operator
from collections.abc import Callable
from inspect import unwrap
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model

# Lanes: rows of a few numbers in vector registers.


def built(function: Callable[..., Any]) -> Any:
    """Return a function that numba calls for the types and the machine code."""
    return intrinsic(function)


class KernelLanes(types.Type):
    """The type of `width` numbers side by side."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Lanes({dtype}, {width})")


@register_model(KernelLanes)
class LanesModel(models.PrimitiveModel):
    """A vector of the processor's, or as many as it takes."""

    def __init__(self, manager: Any, lanes: Any) -> None:
        number = manager.lookup(lanes.dtype).get_value_type()
        vector = ir.VectorType(number, lanes.width)
        super().__init__(manager, lanes, vector)  # type: ignore[no-untyped-call]


def _lanes_like(row: Any) -> KernelLanes:
    """Return the type of lanes as wide as a tuple: its length is known to numba."""
    return KernelLanes(row.dtype, row.count)


def _kernel_array_address(
    context: Any, builder: Any, signature: Any, args: Any, kind: Any
) -> Any:
    """Return the address of args[0][args[1]] as that of another kind of value."""
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())


def _fill_kernel_lanes(builder: Any, number: Any, vector: Any) -> Any:
    lane, order = ir.IntType(32), ir.VectorType(ir.IntType(32), vector.count)
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), number, ir.Constant(lane, 0)
    )
    return builder.shuffle_vector(first, first, ir.Constant(order, None))


def _choose_kernel_lanes(builder: Any, which: str, left: Any, right: Any) -> Any:
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
        place = _kernel_array_address(context, builder, signature, args, vector)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return _lanes_like(row)(array, index, row), build


@built
def store(typingctx: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Put lanes at array[index] and what follows, in a flat array."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.args[2])
        place = _kernel_array_address(context, builder, signature, args, vector)
        builder.store(args[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, index, lanes), build


@built
def fetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Tell the processor that array[index] will soon be read."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag, byte = ir.IntType(32), ir.IntType(8)
        place = _kernel_array_address(context, builder, signature, args, byte)
        kinds = [place.type, flag, flag, flag]
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", (place.type,), ir.FunctionType(ir.VoidType(), kinds)
        )
        # To read, to be kept near, data.
        builder.call(hint, [place, *(ir.Constant(flag, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, index), build


@built
def filled(typingctx: Any, number: Any, row: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        plain = context.cast(builder, args[0], number, row.dtype)
        return _fill_kernel_lanes(builder, plain, vector)

    return _lanes_like(row)(number, row), build


@built
def within(typingctx: Any, lanes: Any, low: Any, high: Any) -> Any:
    """Return lanes moved between two others; nan stays nan."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value, least, most = args
        value = _choose_kernel_lanes(builder, "maximum", value, least)
        return _choose_kernel_lanes(builder, "minimum", value, most)

    return lanes(lanes, low, high), build


def _kernel_lane_arithmetic(name: str) -> Any:
    """Return the intrinsic that joins lanes with lanes or with one number."""

    @built
    def join(typingctx: Any, lanes: Any, other: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            left, right = args
            if not isinstance(other, KernelLanes):
                plain = context.cast(builder, right, other, lanes.dtype)
                right = _fill_kernel_lanes(builder, plain, left.type)
            return getattr(builder, name)(left, right)

        return lanes(lanes, other), build

    return join


def _overload_kernel_operator(operation: Any, name: str) -> None:
    """Let numba join lanes where Python's operator stands."""
    join = _kernel_lane_arithmetic(name)

    @overload(operation)
    def joined(left: Any, right: Any) -> Any:
        def of_lanes(left: Any, right: Any) -> Any:
            return join(left, right)

        # Unwrapped: a checker of types around it is not for machine code.
        return unwrap(of_lanes) if isinstance(left, KernelLanes) else None


_overload_kernel_operator(operator.add, "fadd")
_overload_kernel_operator(operator.sub, "fsub")
_overload_kernel_operator(operator.mul, "fmul")


# Panels

# Indices without a sign need no test for being counted from the end.
u = np.uint64


# What kernels may do to arithmetic: fuse a product with a sum.
FUSE, REORDER = {"contract"}, {"contract", "reassoc"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled at its first call, kept on disk, free of the GIL."""
    return _compile_kernel(function, FUSE)


def reordering(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose sums may be added up in any order."""
    return _compile_kernel(function, REORDER)


def _compile_kernel(function: Callable[..., Any], may: set[str]) -> Callable[..., Any]:
    compile_it = numba.njit(cache=True, nogil=True, fastmath=may)
    # Unwrapped: a checker of types around it is not for machine code.
    compiled: Callable[..., Any] = compile_it(unwrap(function))
    return compiled


@kernel
def weighed(message: Any, weight: Any, slot: Any) -> Any:
    """Return a message times its weight, unless all links share one."""
    if weight is None:
        return message
    return message * weight[slot]


@kernel
def shared(total: Any, weight: Any, common: Any) -> Any:
    """Return a sum times the weight that all links share, if they do."""
    if weight is None:
        return total * common
    return total


@kernel
def announce(slot: Any, heard: Any, told: Any, ahead: Any, slots: Any, row: Any) -> Any:
    """Have the processor fetch what is heard in slots further on."""
    if ahead is not None:
        for k in range(len(slots)):
            there = u(heard[slot + u(ahead) + u(k)])
            fetch(told, there * u(len(row)))


@kernel
def heard_in(slot: Any, heard: Any, weight: Any, told: Any, row: Any) -> Any:
    return weighed(load(told, u(heard[slot]) * u(len(row)), row), weight, slot)


@kernel
def chunk_sum(
    slot: Any, heard: Any, weight: Any, told: Any, ahead: Any, slots: Any, row: Any
) -> Any:
    """Return the sum over the slots of one chunk: two sums, so that fewer wait."""
    announce(slot, heard, told, ahead, slots, row)
    even, odd = filled(0.0, row), filled(0.0, row)
    for k in range(0, len(slots), 2):
        even = even + heard_in(slot + u(k), heard, weight, told, row)
        if k + 1 < len(slots):
            odd = odd + heard_in(slot + u(k + 1), heard, weight, told, row)
    return even + odd


@kernel
def slot_sum(
    party: Any,
    start: Any,
    heard: Any,
    weight: Any,
    told: Any,
    ahead: Any,
    slots: Any,
    row: Any,
) -> Any:
    chunk = u(len(slots))
    if start is None:
        return chunk_sum(party * chunk, heard, weight, told, ahead, slots, row)
    total = filled(0.0, row)
    for k in range(u(start[party]), u(start[party + u(1)])):
        part = chunk_sum(k * chunk, heard, weight, told, ahead, slots, row)
        total = total + part
    return total


@kernel
def heard_by(party: Any, told: Any, graph: Any) -> Any:
    """Return sum_j w_ij told_j as lanes.

    `graph` is the links, how many slots to look ahead or None, and a row of zeros.
    """
    links, ahead, row = graph
    start, heard, weight, own, common, slots = links
    total = slot_sum(party, start, heard, weight, told, ahead, slots, row)
    mine = load(told, party * u(len(row)), row) * own[party]
    return shared(total, weight, common) + mine


@kernel
def moved(
    mixed: Any, slopes: Any, x: Any, own_point: Any, size: Any, curve: Any
) -> Any:
    """Return mixed - size (curve point + slopes), the point being the mixed one or x.

    What need not wait for the neighbours' messages is apart from what must.
    """
    if own_point is None:
        return slopes * -size + mixed * (type(size)(1) - size * curve)
    return slopes * -size + x * -(size * curve) + mixed


@kernel
def dgd_part(
    first: Any,
    last: Any,
    x: Any,
    other: Any,
    slopes: Any,
    own_point: Any,
    curve: Any,
    size: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out one iteration for parties from one to another."""
    row = graph[2]
    width = u(len(row))
    low, high = load(box[0], u(0), row), load(box[1], u(0), row)
    for party in range(u(first), u(last)):
        here = party * width
        mixed = heard_by(party, x, graph)
        mine, slope = load(x, here, row), load(slopes, here, row)
        new = moved(mixed, slope, mine, own_point, size, curve)
        store(other, here, within(new, low, high))


@kernel
def dgd(
    x: Any,
    other: Any,
    slopes: Any,
    own_point: Any,
    curve: Any,
    sizes: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out one iteration per step size; return the panel that x is left in.

    The loop of `dgd_part` again: a call of it takes a seventh longer.
    """
    links, _, row = graph
    width, n = u(len(row)), u(links[3].size)
    low, high = load(box[0], u(0), row), load(box[1], u(0), row)
    for size in sizes:
        for party in range(n):
            here = party * width
            mixed = heard_by(party, x, graph)
            mine, slope = load(x, here, row), load(slopes, here, row)
            new = moved(mixed, slope, mine, own_point, size, curve)
            store(other, here, within(new, low, high))
        x, other = other, x
    return x


@kernel
def extra_part(
    first: Any,
    last: Any,
    x: Any,
    correction: Any,
    other: Any,
    step: Any,
    curve: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out one iteration of EXTRA for parties from one to another."""
    row = graph[2]
    width, half = u(len(row)), type(step)(0.5)
    low, high = load(box[0], u(0), row), load(box[1], u(0), row)
    for party in range(u(first), u(last)):
        here = party * width
        mixed = heard_by(party, x, graph)
        mine, past = load(x, here, row), load(correction, here, row)
        new = within(mixed - past, low, high)
        # Differences first: they are small and exact.
        more = (mine - mixed) * half + (new - mine) * (step * curve)
        store(correction, here, past + more)
        store(other, here, new)


@kernel
def extra(
    x: Any,
    correction: Any,
    other: Any,
    count: Any,
    step: Any,
    curve: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out so many iterations of EXTRA, on the correction itself."""
    n = u(graph[0][3].size)
    for _ in range(count):
        extra_part(u(0), n, x, correction, other, step, curve, box, graph)
        x, other = other, x


@kernel
def mix_more(now: Any, before: Any, factors: Any, graph: Any) -> Any:
    """Carry out all rounds but the last; return y_(K-1) and y_(K-2)."""
    links, _, row = graph
    width, n = u(len(row)), u(links[3].size)
    for k in range(len(factors) - 1):
        omega = factors[k]
        for party in range(n):
            here = party * width
            mixed = heard_by(party, now, graph)
            if k > 0:
                past = load(before, here, row)
                mixed = past + (mixed - past) * omega
            store(before, here, mixed)
        now, before = before, now
    return now, before


@kernel
def last_mixed(party: Any, now: Any, before: Any, factors: Any, graph: Any) -> Any:
    mixed = heard_by(party, now, graph)
    if factors is None:
        return mixed
    row = graph[2]
    past = load(before, party * u(len(row)), row)
    return past + (mixed - past) * factors[len(factors) - 1]


@kernel
def tracking(
    x: Any,
    y: Any,
    spare: Any,
    count: Any,
    step: Any,
    curve: Any,
    factors: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out iterations of gradient tracking, on x and y themselves.

    `spare` is three panels: what is told of x, what is told of y, and what was told.
    """
    told_x, told_y, past = spare
    links, _, row = graph
    width, n = u(len(row)), u(links[3].size)
    low, high = load(box[0], u(0), row), load(box[1], u(0), row)
    for party in range(n):
        here = party * width
        store(told_x, here, load(x, here, row) - load(y, here, row) * step)
    for _ in range(count):
        now, before = told_x, past
        if factors is not None:
            now, before = mix_more(told_x, past, factors, graph)
        for party in range(n):
            here = party * width
            mixed = last_mixed(party, now, before, factors, graph)
            new = within(mixed, low, high)
            # The difference first: it is small and exact.
            change = (new - load(x, here, row)) * curve
            store(told_y, here, load(y, here, row) + change)
            store(x, here, new)
        now, before = told_y, past
        if factors is not None:
            now, before = mix_more(told_y, past, factors, graph)
        for party in range(n):
            here = party * width
            mixed = last_mixed(party, now, before, factors, graph)
            store(y, here, mixed)
            store(told_x, here, load(x, here, row) - mixed * step)


# The same for parties from one to another, with one round of mixing


@kernel
def tracking_begun(
    first: Any, last: Any, x: Any, y: Any, told_x: Any, step: Any, graph: Any
) -> Any:
    """Put down what is told of x before the first iteration."""
    row = graph[2]
    for party in range(u(first), u(last)):
        here = party * u(len(row))
        store(told_x, here, load(x, here, row) - load(y, here, row) * step)


@kernel
def tracking_moved(
    first: Any,
    last: Any,
    x: Any,
    y: Any,
    told_x: Any,
    told_y: Any,
    curve: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Move x, and put down what is told of y."""
    row = graph[2]
    low, high = load(box[0], u(0), row), load(box[1], u(0), row)
    for party in range(u(first), u(last)):
        here = party * u(len(row))
        new = within(heard_by(party, told_x, graph), low, high)
        change = (new - load(x, here, row)) * curve
        store(told_y, here, load(y, here, row) + change)
        store(x, here, new)


@kernel
def tracking_turned(
    first: Any,
    last: Any,
    x: Any,
    y: Any,
    told_x: Any,
    told_y: Any,
    step: Any,
    graph: Any,
) -> Any:
    """Turn y, and put down what is told of x."""
    row = graph[2]
    for party in range(u(first), u(last)):
        here = party * u(len(row))
        mixed = heard_by(party, told_y, graph)
        store(y, here, mixed)
        store(told_x, here, load(x, here, row) - mixed * step)


# The graph as kernels want it


@kernel
def link_counts(csr: Any, counts: Any) -> Any:
    """Count who is heard beside oneself; return whether all have one weight, and it."""
    start, heard, weight = csr
    alike, common, some = True, 0.0, False
    for party in range(counts.size):
        for k in range(start[party], start[party + 1]):
            if heard[k] == party or weight[k] == 0:
                continue
            counts[party] += 1
            if not some:
                common, some = weight[k], True
            elif weight[k] != common:
                alike = False
    return alike, common


@kernel
def fill_slots(csr: Any, first: Any, chunk: Any, slots: Any, weights: Any) -> Any:
    """Put who is heard into each party's slots, in order, with weights if they differ.

    `first` is the first chunk of every party.
    """
    start, heard, weight = csr
    for party in range(first.size - 1):
        slot = np.int64(first[party]) * chunk
        for k in range(start[party], start[party + 1]):
            if heard[k] == party or weight[k] == 0:
                continue
            slots[slot] = heard[k]
            if weights is not None:
                weights[slot] = weight[k]
            slot += 1


@kernel
def link_lengths(csr: Any, place: Any) -> Any:
    start, heard, _ = csr
    total, links = 0.0, 0
    for party in range(start.size - 1):
        for k in range(start[party], start[party + 1]):
            away = abs(np.int64(place[party]) - np.int64(place[heard[k]]))
            total += away
            if away > 0:
                links += 1
    return total / max(1, links)


@kernel
def moved_rows(csr: Any, order: Any, place: Any, into: Any) -> Any:
    """Fill a matrix with parties in another order; row starts are there already."""
    start, heard, weight = csr
    new_start, new_heard, new_weight = into
    for party in range(order.size):
        k, here = new_start[party], order[party]
        for j in range(start[here], start[here + 1]):
            new_heard[k], new_weight[k] = place[heard[j]], weight[j]
            k += 1


# Rows of any length, in ordinary loops


@kernel
def mix_row(party: Any, csr: Any, told: Any, out: Any) -> Any:
    """Put sum_j w_ij told_j into a party's row of `out`: four neighbours at a time."""
    start, heard, weight = csr
    mixed, slot, last = out[party], start[party], start[party + 1]
    mixed[:] = 0
    while slot + 4 <= last:
        w, x = weight[slot], told[heard[slot]]
        w1, x1 = weight[slot + 1], told[heard[slot + 1]]
        w2, x2 = weight[slot + 2], told[heard[slot + 2]]
        w3, x3 = weight[slot + 3], told[heard[slot + 3]]
        for c in range(mixed.size):
            mixed[c] += (w * x[c] + w1 * x1[c]) + (w2 * x2[c] + w3 * x3[c])
        slot += 4
    while slot < last:
        w, x = weight[slot], told[heard[slot]]
        for c in range(mixed.size):
            mixed[c] += w * x[c]
        slot += 1


@kernel
def mix_rows(first: Any, last: Any, csr: Any, told: Any, out: Any) -> Any:
    for party in range(first, last):
        mix_row(party, csr, told, out)


@kernel
def mix_all_rows(graph: Any, told: Any, out: Any) -> Any:
    """Mix the rows of all parties; `graph` ends with the matrix if it is dense."""
    start, heard, weight, dense = graph
    if dense.size > 0:
        np.dot(dense, told, out)
    else:
        mix_rows(0, told.shape[0], (start, heard, weight), told, out)


@kernel
def mix_rounds(told: Any, spare: Any, factors: Any, graph: Any) -> Any:
    """Return what K rounds leave of all rows; `told` and `spare` are used up."""
    now, before, after = told, spare[0], spare[1]
    for k in range(len(factors)):
        mix_all_rows(graph, now, after)
        if k > 0:
            for party in range(told.shape[0]):
                past, mixed = before[party], after[party]
                for c in range(mixed.size):
                    mixed[c] = past[c] + factors[k] * (mixed[c] - past[c])
        now, before, after = after, now, before
    return now


# Terms of a sum may be added in any order: that is what fills vectors.
@reordering
def times_square(square: Any, point: Any, out: Any) -> Any:
    """Put a matrix times a point into `out`."""
    for r in range(out.size):
        row, total = square[r], out.dtype.type(0)
        for c in range(row.size):
            total += row[c] * point[c]
        out[r] = total


@kernel
def into_box(value: Any, box: Any, c: Any) -> Any:
    """Return a coordinate moved between its bounds; nan stays nan."""
    value = box[0][c] if value < box[0][c] else value
    return box[1][c] if value > box[1][c] else value


@kernel
def curved_dgd(
    x: Any,
    mixed: Any,
    slopes: Any,
    squares: Any,
    own_point: Any,
    sizes: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out one iteration per step size, on x itself, with a matrix per party."""
    slope = np.empty(x.shape[1], x.dtype)
    for size in sizes:
        mix_all_rows(graph, x, mixed)
        for party in range(x.shape[0]):
            point = mixed[party] if own_point is None else x[party]
            times_square(squares[party], point, slope)
            for c in range(slope.size):
                value = mixed[party, c] - size * (slope[c] + slopes[party, c])
                x[party, c] = into_box(value, box, c)


@kernel
def curved_tracking(
    x: Any,
    y: Any,
    spare: Any,
    squares: Any,
    how: Any,
    factors: Any,
    box: Any,
    graph: Any,
) -> Any:
    """Carry out iterations of gradient tracking with a matrix per party.

    `how` is how many, and their step.
    """
    told, moved = spare[0], np.empty(x.shape[1], x.dtype)
    slope = np.empty_like(moved)
    for _ in range(how[0]):
        for party in range(x.shape[0]):
            for c in range(moved.size):
                told[party, c] = x[party, c] - how[1] * y[party, c]
        mixed = mix_rounds(told, spare[1:], factors, graph)
        for party in range(x.shape[0]):
            for c in range(moved.size):
                value = into_box(mixed[party, c], box, c)
                # The difference first: it is small and exact.
                moved[c] = value - x[party, c]
                x[party, c] = value
            times_square(squares[party], moved, slope)
            for c in range(moved.size):
                y[party, c] += slope[c]
        told[:] = y
        y[:] = mix_rounds(told, spare[1:], factors, graph)
