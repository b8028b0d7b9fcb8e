"""How well a graph holds together: components, cuts, algebraic connectivity.

Whether a graph is connected is decided by search, never by an eigenvalue's tolerance.
Directed graphs count by their links: privacy needs weak connectivity only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csgraph

from veilsum.errors import InvalidGraphError, NumericalError
from veilsum.graphs.flows import disjoint_paths, separator, split_graph
from veilsum.graphs.topology import GraphLike, Topology


def components(topology: Topology) -> tuple[tuple[int, ...], ...]:
    """Return the connected components as index tuples, in order of first member.

    >>> components(Topology.from_edges([(0, 1), (2, 3)]))
    ((0, 1), (2, 3))
    """
    if topology.n_parties == 0:
        return ()
    count, label = csgraph.connected_components(topology.adjacency, directed=False)
    members = [tuple(np.flatnonzero(label == k).tolist()) for k in range(count)]
    return tuple(sorted(members))


def is_connected(topology: Topology) -> bool:
    """Return whether every party can reach every other."""
    return len(components(topology)) == 1


def algebraic_connectivity(topology: GraphLike) -> float:
    """Return mu2, the second smallest eigenvalue of the Laplacian; 0 if disconnected.

    Dense and exact to rounding: O(n^3) time, n^2 memory.

    >>> round(algebraic_connectivity(Topology.family("petersen")), 12)
    2.0
    """
    topology = Topology.of(topology)
    if topology.n_parties < 2:
        raise InvalidGraphError("mu2 needs at least two parties")
    if not is_connected(topology):
        return 0.0
    dense = topology.laplacian.toarray()
    found = float(linalg.eigh(dense, eigvals_only=True, subset_by_index=[1, 1])[0])
    # An overstated mu2 would be an epsilon that promises too much, so what rounding can
    # have added is taken off wherever it is more than the last digits.
    margin = float(4 * len(dense) * np.finfo(float).eps * np.abs(dense).max())
    if found <= 2 * margin:
        raise NumericalError(
            f"mu2 drowns in rounding error: it is {found:.3g} beside entries of "
            f"{np.abs(dense).max():.3g}; bring the edge weights closer together"
        )
    return found if margin <= 1e-12 * found else found - margin


def vertex_connectivity(topology: GraphLike, *, at_most: int | None = None) -> int:
    """Return kappa, the least number of parties whose loss disconnects the rest.

    A complete graph has no such set; its kappa is n - 1 by convention. With `at_most`
    the answer is min(kappa, at_most), found as soon as it is sure.

    >>> vertex_connectivity(Topology.family("ring:6"))
    2
    """
    topology = Topology.of(topology)
    n = topology.n_parties
    if not topology.directed and topology.n_edges == n * (n - 1) // 2:
        return n - 1 if at_most is None else min(n - 1, at_most)
    found = _weakest_pair(topology, at_most=at_most)
    return found.paths


def minimum_vertex_cut(topology: Topology) -> tuple[int, ...] | None:
    """Return a smallest vertex cut, or None for a complete graph, which has none.

    >>> minimum_vertex_cut(Topology.family("star:5"))
    (0,)
    """
    if not is_connected(topology):
        return ()
    found = _weakest_pair(topology, at_most=None)
    if found.pair is not None:
        return separator(split_graph(topology), *found.pair)
    lonely = int(np.argmin(topology.degrees))
    if topology.degrees[lonely] == topology.n_parties - 1:
        return None
    # No pair does better than cutting off a party of least degree.
    return tuple(sorted(topology.adjacency[[lonely]].indices.tolist()))


class _Weakest(NamedTuple):
    """The fewest disjoint paths found, and a pair that has so few."""

    paths: int
    pair: tuple[int, int] | None


def _weakest_pair(topology: Topology, *, at_most: int | None) -> _Weakest:
    """Search the pairs that suffice (Esfahanian and Hakimi 1984).

    Take a party v of least degree. A smallest cut either misses v, and then separates v
    from a party that is not its neighbour; or holds v, and then separates two of v's
    neighbours.
    """
    if not is_connected(topology):
        return _Weakest(0, None)
    least = int(topology.degrees.min())
    best = _Weakest(least if at_most is None else min(least, at_most), None)
    graph = split_graph(topology)
    for u, v in _telling_pairs(topology):
        paths = disjoint_paths(graph, u, v, most=best.paths)
        if paths < best.paths:
            best = _Weakest(paths, (u, v))
    return best


def _telling_pairs(topology: Topology) -> Iterator[tuple[int, int]]:
    """Yield the pairs among which a smallest cut shows, likely ones first."""
    adjacency = topology.adjacency
    v = int(np.argmin(topology.degrees))
    near = sorted(adjacency[[v]].indices.tolist())
    for x, y in combinations(near, 2):
        if adjacency[x, y] == 0:
            yield x, y
    for w in range(topology.n_parties):
        if w != v and w not in near:
            yield v, w
