"""The iteration itself: all agents as rows, in blocks that stay in cache.

Given what was heard, agents are independent of each other, so blocks of rows can be
stepped one after the other or by several threads, with the same bits either way.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from veilsum.core.arrays import AgentPoints, FloatArray, Sparse
from veilsum.core.effective import EffectiveCost
from veilsum.core.methods.dgd import Dgd, DgdState

Progress = Callable[[int], None]

FLOAT_BYTES = 8
# A block of rows this large stays in cache through one step, and is worth a thread.
BLOCK_BYTES = 1024 * 1024
# Below this many agents a dense product is faster than a sparse one.
DENSE_AGENTS = 100
# The trace holds at most this many bytes of estimates.
TRACE_BYTES = 64 * 1024 * 1024
TIMES_PER_DECADE = 40


def iterate(
    method: Dgd,
    weights: Sparse,
    effective: EffectiveCost,
    start: AgentPoints,
    *,
    times: Int[NDArray[np.int64], " times"],
    progress: Progress | None = None,
) -> Float[FloatArray, "times n m"]:
    """Run a method on effective costs; return the estimates at the wanted times."""
    state = method.init(start)
    kept = np.empty((len(times), *start.shape))
    stride = max(1, int(times[-1]) // 200)
    row = 0
    with _engine(weights, effective, start.shape[1]) as engine:
        for iteration in range(int(times[-1]) + 1):
            if iteration == times[row]:
                kept[row] = method.outgoing(state)
                row += 1
            if row == len(times):
                break
            state = engine.advance(method, state)
            done = state.iteration
            if progress is not None and (done % stride == 0 or done == times[-1]):
                progress(done)
    return kept


@dataclass(frozen=True, eq=False)
class _Block:
    """Some agents: their rows of W and their effective costs."""

    rows: slice
    weights: Any
    effective: EffectiveCost


@dataclass(frozen=True, eq=False)
class _Engine:
    """Steps every agent: given what was heard, agents are independent of each other."""

    blocks: list[_Block]
    map: Callable[[Callable[[_Block], None], list[_Block]], Iterable[None]]

    def advance(self, method: Dgd, state: DgdState) -> DgdState:
        """Return the state of all agents after one more iteration."""
        heard = method.outgoing(state)
        if len(self.blocks) == 1:
            only = self.blocks[0]
            return method.step(state, only.weights @ heard, only.effective.gradient)
        x = np.empty_like(heard)

        def step(block: _Block) -> None:
            here = DgdState(heard[block.rows], state.iteration)
            mixed = block.weights @ heard
            x[block.rows] = method.step(here, mixed, block.effective.gradient).x

        deque(self.map(step, self.blocks), maxlen=0)
        return DgdState(x, state.iteration + 1)


@contextmanager
def _engine(weights: Sparse, effective: EffectiveCost, dim: int) -> Iterator[_Engine]:
    """Yield an engine, with threads where they pay and would not run user code."""
    blocks = _blocks(weights, effective, dim)
    if len(blocks) == 1 or effective.remainder.kind == "local":
        yield _Engine(blocks, map)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield _Engine(blocks, pool.map)


def _blocks(weights: Sparse, effective: EffectiveCost, dim: int) -> list[_Block]:
    """Cut the agents into blocks whose rows stay in cache during one step."""
    n = weights.shape[0]
    if n <= DENSE_AGENTS:
        return [_Block(slice(0, n), weights.toarray(), effective)]
    height = max(1, BLOCK_BYTES // (FLOAT_BYTES * dim))
    slices = [slice(low, min(low + height, n)) for low in range(0, n, height)]
    return [_Block(s, weights[s], effective.rows(s)) for s in slices]


def record_times(
    iterations: int, bytes_per_time: int
) -> Int[NDArray[np.int64], " times"]:
    """Return 0, then logarithmically spaced iterations, then the last one."""
    decades = np.log10(iterations) + 1
    count = int(min(TIMES_PER_DECADE * decades, TRACE_BYTES // bytes_per_time))
    spaced = np.geomspace(1, iterations, max(count, 1))
    return np.unique(np.concatenate([[0], spaced.round(), [iterations]])).astype(
        np.int64
    )
