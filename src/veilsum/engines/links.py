"""Mixing weights as compiled loops read them: who is heard, in slots, with what weight.

An agent's neighbours fill chunks of a few slots each, so that loops over a chunk have
a length known beforehand; slots left over name a row of zeros after the last agent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from veilsum.numbers.arrays import Array, Sparse
from veilsum.numbers.shapes import Float, Int, UInt

Order = Int[Array[np.int64], " n"]

# Longer chunks leave too many slots empty, or take too many registers.
LONGEST_CHUNK = 8
# What an agent's next chunk costs beside its slots, in slots: a loop's end.
CHUNK_COST = 2
# Agents in one cache are near each other in any order.
REORDER_AGENTS = 4096
# How many agents ahead loops look, to have what these hear fetched; there are slots for
# them after the last agent's.
AGENTS_AHEAD = 10
SLOTS_AFTER = (AGENTS_AHEAD + 1) * LONGEST_CHUNK


class Links(NamedTuple):
    """Who hears whom, as `heard_by` reads it.

    Attributes:
        start: agent i's chunks are those from start[i] to start[i + 1]; None if every
            agent has one.
        heard: who is heard, slot by slot.
        weight: of each slot; None if all links have the same.
        own: w_ii.
        common: the weight of every link, where it is the same.
        slots: a tuple as long as a chunk.
    """

    start: UInt[Array[Any], " n1"] | None
    heard: UInt[Array[Any], " slots"]
    weight: Float[Array[Any], " slots"] | None
    own: Float[Array[Any], " n"]
    common: Any
    slots: tuple[int, ...]


def links_of(weights: Sparse, precision: str) -> Links:
    """Return the slots of n x n weights."""
    plain = sparse.coo_array(weights)
    apart = (plain.row != plain.col) & (plain.data != 0)
    row, column, data = plain.row[apart], plain.col[apart], plain.data[apart]
    n = weights.shape[0]
    degrees = np.bincount(row, minlength=n)
    chunk = chunk_for(degrees)
    start = np.concatenate([[0], np.cumsum(-(-degrees // chunk))])
    places = _places(row, degrees, start * chunk)
    heard = np.full(start[-1] * chunk + SLOTS_AFTER, n)
    heard[places] = column
    alike = data.size == 0 or bool((data == data[0]).all())
    weight = None if alike else np.zeros(len(heard), precision)
    if weight is not None:
        weight[places] = data
    common = data[0] if alike and data.size else 0.0
    one_each = bool((degrees > 0).all() and (degrees <= chunk).all())
    return Links(
        None if one_each else start.astype(np.uint32),
        heard.astype(np.uint16 if n < 2**16 else np.uint32),
        weight,
        weights.diagonal().astype(precision),
        np.dtype(precision).type(common),
        (0,) * chunk,
    )


def chunk_for(degrees: Int[Array[Any], " n"]) -> int:
    """Return the length of chunks that costs least.

    >>> chunk_for(np.array([6, 6, 6])), chunk_for(np.array([2, 2, 2, 2]))
    (6, 2)
    """
    lengths = range(1, LONGEST_CHUNK + 1)
    cost = {size: (-(-degrees // size)).sum() * (size + CHUNK_COST) for size in lengths}
    return min(lengths, key=lambda size: (cost[size], -size))


def near_order(weights: Sparse) -> Order | None:
    """Return agents such that neighbours come soon after each other, in large graphs.

    Rows of neighbours are then more often in cache when they are read. None where all
    rows are in cache in any order.
    """
    if weights.shape[0] < REORDER_AGENTS:
        return None
    found = csgraph.reverse_cuthill_mckee(sparse.csr_array(weights))
    return np.asarray(found, dtype=np.int64)


def reordered(weights: Sparse, order: Order) -> Sparse:
    """Return weights with agents in another order."""
    return sparse.csr_array(weights)[order][:, order]


def _places(
    row: Int[Array[Any], " links"],
    degrees: Int[Array[Any], " n"],
    start: Int[Array[Any], " n1"],
) -> Int[Array[Any], " links"]:
    """Return the slot of every link, links of an agent one after the other."""
    by_row = np.argsort(row, kind="stable")
    before = np.cumsum(degrees) - degrees
    rank = np.empty_like(by_row)
    rank[by_row] = np.arange(len(row)) - np.repeat(before, degrees)
    return start[row] + rank
