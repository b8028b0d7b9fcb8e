"""How well a graph holds together: components, cuts, algebraic connectivity.

Whether a graph is connected is decided by search, never by an eigenvalue's tolerance.
Directed graphs count by their links: privacy needs weak connectivity only.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy import linalg
from scipy.sparse import csgraph

from veilsum.core.topology import Topology
from veilsum.errors import InvalidGraphError


def components(topology: Topology) -> tuple[tuple[int, ...], ...]:
    """Return the connected components as index tuples, in order of first member.

    >>> components(Topology.from_edges([(0, 1), (2, 3)]))
    ((0, 1), (2, 3))
    """
    if topology.n_agents == 0:
        return ()
    count, label = csgraph.connected_components(topology.adjacency, directed=False)
    members = [tuple(np.flatnonzero(label == k).tolist()) for k in range(count)]
    return tuple(sorted(members))


def is_connected(topology: Topology) -> bool:
    """Return whether every party can reach every other."""
    return len(components(topology)) == 1


def algebraic_connectivity(topology: Topology) -> float:
    """Return mu2, the second smallest eigenvalue of the Laplacian; 0 if disconnected.

    Dense and exact to rounding: O(n^3) time, n^2 memory.

    >>> round(algebraic_connectivity(Topology.family("petersen")), 12)
    2.0
    """
    if topology.n_agents < 2:
        raise InvalidGraphError("mu2 needs at least two parties")
    if not is_connected(topology):
        return 0.0
    dense = topology.laplacian.toarray()
    return float(linalg.eigh(dense, eigvals_only=True, subset_by_index=[1, 1])[0])


def vertex_connectivity(topology: Topology) -> int:
    """Return kappa, the least number of parties whose loss disconnects the rest.

    A complete graph has no such set; its kappa is n - 1 by convention.

    >>> vertex_connectivity(Topology.family("ring:6"))
    2
    """
    return int(nx.node_connectivity(topology.to_networkx()))


def minimum_vertex_cut(topology: Topology) -> tuple[int, ...] | None:
    """Return a smallest vertex cut, or None for a complete graph, which has none.

    >>> minimum_vertex_cut(Topology.family("star:5"))
    (0,)
    """
    if not is_connected(topology):
        return ()
    graph, n = topology.to_networkx(), topology.n_agents
    if graph.number_of_edges() == n * (n - 1) // 2:
        return None
    return tuple(sorted(nx.minimum_node_cut(graph)))
