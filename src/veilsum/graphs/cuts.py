"""Smallest vertex cuts: whose loss takes a network apart, and several ways to do it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np

from veilsum.graphs.blocks import cut_parties
from veilsum.graphs.connectivity import minimum_vertex_cut
from veilsum.graphs.flows import disjoint_paths, separator, split_graph
from veilsum.graphs.topology import Topology

Cut = tuple[int, ...]


def smallest_cuts(topology: Topology, *, most: int) -> tuple[Cut, ...]:
    """Return smallest vertex cuts, at least one where there is one, up to `most`.

    Single cut parties are all returned, however many. A disconnected graph is cut by
    nobody: the empty set is its smallest cut. A complete graph has none.

    >>> smallest_cuts(Topology.family("ring:4"), most=5)
    ((1, 3), (0, 2))
    """
    first = minimum_vertex_cut(topology)
    if first is None:
        return ()
    if len(first) == 0:
        return (first,)
    if len(first) == 1:
        return tuple((v,) for v in cut_parties(topology))
    found = dict.fromkeys(islice(_candidates(topology, len(first)), 4 * most))
    return tuple(dict.fromkeys([*found, first]))[:most]


def _candidates(topology: Topology, size: int) -> Iterator[Cut]:
    """Yield smallest cuts, some of them repeatedly: first those that isolate one."""
    adjacency = topology.adjacency
    for v in np.flatnonzero(topology.degrees == size).tolist():
        yield tuple(sorted(adjacency[[v]].indices.tolist()))
    graph = split_graph(topology)
    for u, v in _apart(topology):
        if disjoint_paths(graph, u, v, most=size + 1) == size:
            yield separator(graph, u, v)
            yield separator(graph, v, u)


def _apart(topology: Topology) -> Iterator[tuple[int, int]]:
    """Yield pairs without a link; some smallest cut separates one of them."""
    weakest = int(np.argmin(topology.degrees))
    near = sorted(topology.adjacency[[weakest]].indices.tolist())
    linked = topology.adjacency
    far = [v for v in range(topology.n_parties) if v != weakest and v not in near]
    yield from ((weakest, v) for v in far)
    yield from ((x, y) for x, y in combinations(near, 2) if linked[x, y] == 0)
