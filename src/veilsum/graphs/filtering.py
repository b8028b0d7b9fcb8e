"""Products of a large Laplacian with eight vectors. Import this with numba only.

Eight numbers of float64 are what memory hands out at once. Which rows are needed is
known long before: they are asked for ahead, and then it takes a sixth of the time.
"""

# ruff: noqa: ARG001 - numba calls these by position

from __future__ import annotations

from inspect import unwrap
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# How many entries ahead rows are asked for.
AHEAD = 48
u = np.uint64


def _prefetch_graph_array(typingctx: Any, array: Any, index: Any) -> Any:
    """Tell the processor that array[index] will soon be read."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        kinds = [byte, flag, flag, flag]
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), kinds)
        )
        # To read, to be kept near, data.
        builder.call(hint, [place, *(ir.Constant(flag, one) for one in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, index), build


soon: Any = intrinsic(_prefetch_graph_array)


def _eight_at_once(
    first: Any,
    last: Any,
    start: Any,
    near: Any,
    data: Any,
    now: Any,
    before: Any,
    own: Any,
    others: Any,
    less: Any,
) -> Any:
    """Replace rows of `before` by own now - others L now - before - less; add them up.

    Arrays are flat. Written out: a loop over eight numbers takes four times as long.
    """
    at, bt, ct, dt, et, ft, gt, ht = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    a0, b0, c0, d0, e0, f0, g0, h0 = less
    # Indices without a sign need no test for being counted from the end.
    end = u(near.size - 1)
    for i in range(u(first), u(last)):
        a = b = c = d = e = f = g = h = 0.0
        for k in range(u(start[i]), u(start[i + u(1)])):
            soon(now, u(near[min(k + u(AHEAD), end)]) * u(8))
            w, j = data[k], u(near[k]) * u(8)
            a += w * now[j]
            b += w * now[j + u(1)]
            c += w * now[j + u(2)]
            d += w * now[j + u(3)]
            e += w * now[j + u(4)]
            f += w * now[j + u(5)]
            g += w * now[j + u(6)]
            h += w * now[j + u(7)]
        j = i * u(8)
        a = own * now[j] - others * a - before[j] - a0
        b = own * now[j + u(1)] - others * b - before[j + u(1)] - b0
        c = own * now[j + u(2)] - others * c - before[j + u(2)] - c0
        d = own * now[j + u(3)] - others * d - before[j + u(3)] - d0
        e = own * now[j + u(4)] - others * e - before[j + u(4)] - e0
        f = own * now[j + u(5)] - others * f - before[j + u(5)] - f0
        g = own * now[j + u(6)] - others * g - before[j + u(6)] - g0
        h = own * now[j + u(7)] - others * h - before[j + u(7)] - h0
        before[j] = a
        before[j + u(1)] = b
        before[j + u(2)] = c
        before[j + u(3)] = d
        before[j + u(4)] = e
        before[j + u(5)] = f
        before[j + u(6)] = g
        before[j + u(7)] = h
        at += a
        bt += b
        ct += c
        dt += d
        et += e
        ft += f
        gt += g
        ht += h
    return at, bt, ct, dt, et, ft, gt, ht


def _one_at_once(
    first: Any,
    last: Any,
    start: Any,
    near: Any,
    data: Any,
    now: Any,
    before: Any,
    own: Any,
    others: Any,
    less: Any,
) -> Any:
    """Do the same for one vector."""
    added = 0.0
    for i in range(u(first), u(last)):
        total = 0.0
        for k in range(u(start[i]), u(start[i + u(1)])):
            total += data[k] * now[u(near[k])]
        total = own * now[i] - others * total - before[i] - less[0]
        before[i] = total
        added += total
    return (added,)


# Unwrapped: a checker of types around them is not for machine code.
COMBINED = {
    count: numba.njit(cache=True, nogil=True)(unwrap(kernel))
    for count, kernel in ((8, _eight_at_once), (1, _one_at_once))
}
