"""Vertex-disjoint paths by augmentation: the kernels behind vertex connectivity.

Every vertex v is split into 2v (in) and 2v + 1 (out), joined by an arc of capacity 1;
a link u - v becomes the arcs out(u) -> in(v) and out(v) -> in(u). Arcs come in pairs,
a and its reverse, so pushing a unit is two assignments. By Menger's theorem the
largest flow between two non-adjacent vertices is their smallest separating set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array
from veilsum.numbers.compiled import compiled

Integers = Array[np.int64]

# Below this many arcs the search is over before numba would be imported.
COMPILE_ARCS = 1000


class SplitGraph(NamedTuple):
    """The split network in compressed rows: arcs leaving each half vertex."""

    start: Integers  # (2n + 1,) where each half vertex's arcs begin
    head: Integers  # where an arc leads
    reverse: Integers  # its partner
    capacity: Integers  # 1 through a vertex, n along a link, 0 on a partner


def split_graph(topology: Topology) -> SplitGraph:
    """Return the split network of a graph's links."""
    n = topology.n_parties
    adjacency = topology.adjacency
    i = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    j = adjacency.indices.astype(np.int64)
    tail = np.concatenate([2 * np.arange(n), 2 * i + 1])
    head = np.concatenate([2 * np.arange(n) + 1, 2 * j])
    count = len(tail)
    # Partners are stored after all forward arcs, then everything is sorted by tail.
    tails, heads = np.concatenate([tail, head]), np.concatenate([head, tail])
    order = np.argsort(tails, kind="stable")
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    partner = np.concatenate([np.arange(count, 2 * count), np.arange(count)])
    # Links carry any number of paths, so that a smallest cut is made of vertices.
    capacity = np.zeros(2 * count, dtype=np.int64)
    capacity[:n], capacity[n:count] = 1, n
    start = np.searchsorted(tails[order], np.arange(2 * n + 1))
    return SplitGraph(
        start.astype(np.int64),
        heads[order].astype(np.int64),
        place[partner[order]],
        capacity[order],
    )


def push_paths(
    start: Any,
    head: Any,
    reverse: Any,
    residual: Any,
    source: int,
    sink: int,
    most: int,
) -> int:
    """Push up to `most` units from source to sink; return how many went through.

    Compiled by numba: breadth-first search on residual arcs, one unit a path. What is
    left in `residual` is the state after the last unit.
    """
    halves = len(start) - 1
    parent = np.empty(halves, dtype=np.int64)
    seen = np.zeros(halves, dtype=np.int64)
    queue = np.empty(halves, dtype=np.int64)
    for unit in range(1, most + 1):
        first, last = 0, 1
        queue[0] = source
        seen[source] = unit
        while first < last and seen[sink] != unit:
            here = queue[first]
            first += 1
            for arc in range(start[here], start[here + 1]):
                there = head[arc]
                if residual[arc] > 0 and seen[there] != unit:
                    seen[there] = unit
                    parent[there] = arc
                    queue[last] = there
                    last += 1
        if seen[sink] != unit:
            return unit - 1
        there = sink
        while there != source:
            arc = parent[there]
            residual[arc] -= 1
            residual[reverse[arc]] += 1
            there = head[reverse[arc]]
    return most


def disjoint_paths(graph: SplitGraph, u: int, v: int, *, most: int) -> int:
    """Return how many vertex-disjoint paths join two vertices, counting to `most`."""
    return _push(graph, graph.capacity.copy(), u, v, most)


def separator(graph: SplitGraph, u: int, v: int) -> tuple[int, ...]:
    """Return a smallest set of vertices that separates two non-adjacent ones.

    After the largest flow these are the vertices entered but not left by residual arcs.
    """
    residual = graph.capacity.copy()
    _push(graph, residual, u, v, len(graph.start))
    reached = _reachable(graph, residual, 2 * u + 1)
    entered, left = reached[0::2], reached[1::2]
    return tuple(np.flatnonzero(entered & ~left).tolist())


def _push(graph: SplitGraph, residual: Integers, u: int, v: int, most: int) -> int:
    small = len(graph.head) < COMPILE_ARCS
    push = push_paths if small else compiled(push_paths) or push_paths
    network = (graph.start, graph.head, graph.reverse, residual)
    return int(push(*network, 2 * u + 1, 2 * v, most))


def _reachable(graph: SplitGraph, residual: Integers, source: int) -> Array[np.bool_]:
    reached = np.zeros(len(graph.start) - 1, dtype=np.bool_)
    reached[source] = True
    waiting = [source]
    while waiting:
        here = waiting.pop()
        arcs = slice(graph.start[here], graph.start[here + 1])
        open_heads = graph.head[arcs][residual[arcs] > 0]
        fresh = open_heads[~reached[open_heads]]
        reached[fresh] = True
        waiting.extend(fresh.tolist())
    return reached
