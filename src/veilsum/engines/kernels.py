"""Iterations as machine code: whole runs of a few coordinates in one call.

Where an iteration treats every coordinate alike and by itself, a few of them are a
problem of their own: a panel, agent by agent in one flat array, with a row of zeros
after the last one. It stays in cache through all its iterations, and panels need not
wait for each other. Import this where numba is installed only.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any

import numba
import numpy as np

from veilsum.engines.lanes import added_up, fetch, load, spread, store, within

# Indices without a sign need no test for being counted from the end.
u = np.uint64


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled at its first call, kept on disk, free of the GIL."""
    compile_it = numba.njit(cache=True, nogil=True, fastmath={"contract"})
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
    """Return the message of one slot, with its weight."""
    return weighed(load(told, u(heard[slot]) * u(len(row)), row), weight, slot)


@kernel
def chunk_sum(
    slot: Any, heard: Any, weight: Any, told: Any, ahead: Any, slots: Any, row: Any
) -> Any:
    """Return the sum over the slots of one chunk: two sums, so that fewer wait."""
    announce(slot, heard, told, ahead, slots, row)
    even, odd = spread(0.0, row), spread(0.0, row)
    for k in range(0, len(slots), 2):
        even = even + heard_in(slot + u(k), heard, weight, told, row)
        if k + 1 < len(slots):
            odd = odd + heard_in(slot + u(k + 1), heard, weight, told, row)
    return even + odd


@kernel
def slot_sum(
    agent: Any,
    start: Any,
    heard: Any,
    weight: Any,
    told: Any,
    ahead: Any,
    slots: Any,
    row: Any,
) -> Any:
    """Return the sum over all of an agent's slots."""
    chunk = u(len(slots))
    if start is None:
        return chunk_sum(agent * chunk, heard, weight, told, ahead, slots, row)
    total = spread(0.0, row)
    for k in range(u(start[agent]), u(start[agent + u(1)])):
        part = chunk_sum(k * chunk, heard, weight, told, ahead, slots, row)
        total = total + part
    return total


@kernel
def heard_by(agent: Any, told: Any, graph: Any) -> Any:
    """Return sum_j w_ij told_j as lanes.

    `graph` is the links, how many slots to look ahead or None, and a row of zeros.
    """
    links, ahead, row = graph
    start, heard, weight, own, common, slots = links
    total = slot_sum(agent, start, heard, weight, told, ahead, slots, row)
    mine = load(told, agent * u(len(row)), row) * own[agent]
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
    """Carry out one iteration per step size; return the panel that x is left in."""
    links, _, row = graph
    width, n = u(len(row)), u(links[3].size)
    low, high = load(box[0], u(0), row), load(box[1], u(0), row)
    for size in sizes:
        for agent in range(n):
            here = agent * width
            mixed = heard_by(agent, x, graph)
            mine, slope = load(x, here, row), load(slopes, here, row)
            new = moved(mixed, slope, mine, own_point, size, curve)
            store(other, here, within(new, low, high))
        x, other = other, x
    return x


@kernel
def mix_more(now: Any, before: Any, factors: Any, graph: Any) -> Any:
    """Carry out all rounds but the last; return y_(K-1) and y_(K-2)."""
    links, _, row = graph
    width, n = u(len(row)), u(links[3].size)
    for k in range(len(factors) - 1):
        omega = factors[k]
        for agent in range(n):
            here = agent * width
            mixed = heard_by(agent, now, graph)
            if k > 0:
                past = load(before, here, row)
                mixed = past + (mixed - past) * omega
            store(before, here, mixed)
        now, before = before, now
    return now, before


@kernel
def last_mixed(agent: Any, now: Any, before: Any, factors: Any, graph: Any) -> Any:
    """Return what the last round leaves an agent."""
    mixed = heard_by(agent, now, graph)
    if factors is None:
        return mixed
    row = graph[2]
    past = load(before, agent * u(len(row)), row)
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
    for agent in range(n):
        here = agent * width
        store(told_x, here, load(x, here, row) - load(y, here, row) * step)
    for _ in range(count):
        now, before = told_x, past
        if factors is not None:
            now, before = mix_more(told_x, past, factors, graph)
        for agent in range(n):
            here = agent * width
            mixed = last_mixed(agent, now, before, factors, graph)
            new = within(mixed, low, high)
            # The difference first: it is small and exact.
            change = (new - load(x, here, row)) * curve
            store(told_y, here, load(y, here, row) + change)
            store(x, here, new)
        now, before = told_y, past
        if factors is not None:
            now, before = mix_more(told_y, past, factors, graph)
        for agent in range(n):
            here = agent * width
            mixed = last_mixed(agent, now, before, factors, graph)
            store(y, here, mixed)
            store(told_x, here, load(x, here, row) - mixed * step)


@kernel
def cut_out(rows: Any, first: Any, last: Any, width: Any, panel: Any) -> Any:
    """Copy columns of all rows into a panel."""
    for agent in range(rows.shape[0]):
        for column in range(first, last):
            panel[agent * width + column - first] = rows[agent, column]


@kernel
def put_back(panel: Any, first: Any, last: Any, width: Any, rows: Any) -> Any:
    """Copy a panel into the columns that it stands for."""
    for agent in range(rows.shape[0]):
        for column in range(first, last):
            rows[agent, column] = panel[agent * width + column - first]


@kernel
def mix_row(agent: Any, csr: Any, flat: Any, out: Any, columns: Any, row: Any) -> Any:
    """Put sum_j w_ij told_j into an agent's row of `out`, of any length."""
    start, heard, weight = csr
    slots = range(u(start[agent]), u(start[agent + u(1)]))
    width, here, at = u(len(row)), agent * columns, u(0)
    while at + width <= columns:
        total = spread(0.0, row)
        for slot in slots:
            message = load(flat, u(heard[slot]) * columns + at, row)
            total = total + message * weight[slot]
        store(out, here + at, total)
        at += width
    while at < columns:
        rest = flat.dtype.type(0)
        for slot in slots:
            rest += weight[slot] * flat[u(heard[slot]) * columns + at]
        out[here + at] = rest
        at += u(1)


@kernel
def mix_rows(first: Any, last: Any, csr: Any, told: Any, out: Any, row: Any) -> Any:
    """Mix for agents from one to another; `told` and `out` have a row for each."""
    flat, target, columns = told.ravel(), out.ravel(), u(told.shape[1])
    for agent in range(u(first), u(last)):
        mix_row(agent, csr, flat, target, columns, row)


@kernel
def mix_rounds(told: Any, spare: Any, factors: Any, csr: Any, row: Any) -> Any:
    """Return what K rounds leave of all rows; `told` and `spare` are used up."""
    now, before, after = told, spare[0], spare[1]
    n = u(csr[0].size - 1)
    columns = u(told.size) // n
    for k in range(len(factors)):
        for agent in range(n):
            mix_row(agent, csr, now, after, columns, row)
            for at in range(agent * columns, (agent + u(1)) * columns):
                if k > 0:
                    after[at] = before[at] + factors[k] * (after[at] - before[at])
        now, before, after = after, now, before
    return now


@kernel
def times_square(squares: Any, agent: Any, point: Any, out: Any, row: Any) -> Any:
    """Put a symmetric matrix times an agent's point into `out`, as two vectors to add.

    Of a matrix there are the blocks of 4 x 4 numbers on and right of the diagonal, and
    of a block on it only what lies on and right of it, with the diagonal halved.
    """
    straight, turned, columns = out[0], out[1], u(out.shape[1])
    flat, at, here = squares.ravel(), agent * u(squares.shape[1]), agent * columns
    for c in range(columns):
        straight[c] = 0
    for k in range(u(0), columns, u(4)):
        first, second = point[here + k], point[here + k + u(1)]
        third, fourth = point[here + k + u(2)], point[here + k + u(3)]
        total0, total1 = spread(0.0, row), spread(0.0, row)
        total2, total3 = spread(0.0, row), spread(0.0, row)
        for c in range(k, columns, u(4)):
            row0, row1 = load(flat, at, row), load(flat, at + u(4), row)
            row2, row3 = load(flat, at + u(8), row), load(flat, at + u(12), row)
            there = load(point, here + c, row)
            down = (row0 * first + row1 * second) + (row2 * third + row3 * fourth)
            store(straight, c, load(straight, c, row) + down)
            total0, total1 = total0 + row0 * there, total1 + row1 * there
            total2, total3 = total2 + row2 * there, total3 + row3 * there
            at += u(16)
        turned[k], turned[k + u(1)] = added_up(total0), added_up(total1)
        turned[k + u(2)], turned[k + u(3)] = added_up(total2), added_up(total3)


@kernel
def curved_dgd(
    x: Any,
    spare: Any,
    slopes: Any,
    squares: Any,
    own_point: Any,
    sizes: Any,
    box: Any,
    csr: Any,
    row: Any,
) -> Any:
    """Carry out one iteration per step size, on x itself, with a matrix per agent."""
    told, columns = spare[0], u(box[0].size)
    slope, once = np.zeros((2, box[0].size), x.dtype), np.ones(1, x.dtype)
    for size in sizes:
        told[:] = x
        mixed = mix_rounds(told, spare[1:], once, csr, row)
        for agent in range(u(squares.shape[0])):
            point = mixed if own_point is None else x
            times_square(squares, agent, point, slope, row)
            for c in range(columns):
                here = agent * columns + c
                value = slope[0, c] + slope[1, c] + slopes[here]
                value = mixed[here] - size * value
                value = box[0][c] if value < box[0][c] else value
                x[here] = box[1][c] if value > box[1][c] else value


@kernel
def curved_tracking(
    x: Any,
    y: Any,
    spare: Any,
    squares: Any,
    how: Any,
    factors: Any,
    box: Any,
    csr: Any,
    row: Any,
) -> Any:
    """Carry out iterations of gradient tracking with a matrix per agent.

    `how` is how many, and their step.
    """
    told, columns = spare[0], u(box[0].size)
    slope, moved = np.zeros((2, box[0].size), x.dtype), np.zeros_like(x)
    for _ in range(how[0]):
        for k in range(x.size):
            told[k] = x[k] - how[1] * y[k]
        mixed = mix_rounds(told, spare[1:], factors, csr, row)
        for agent in range(u(squares.shape[0])):
            first = agent * columns
            for c in range(columns):
                value = mixed[first + c]
                value = box[0][c] if value < box[0][c] else value
                value = box[1][c] if value > box[1][c] else value
                moved[first + c] = value - x[first + c]
                x[first + c] = value
            times_square(squares, agent, moved, slope, row)
            for c in range(columns):
                y[first + c] += slope[0, c] + slope[1, c]
        told[:] = y
        y[:] = mix_rounds(told, spare[1:], factors, csr, row)
