"""Vertex-transitive graphs: every party looks like every other.

On such a graph any coalition can be moved so that it holds party 0, so only those need
to be searched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veilsum.graphs.topology import Topology

# Finding symmetries is hard in general; beyond this size the search is not worth it.
MOST_PARTIES = 128


def is_vertex_transitive(topology: Topology) -> bool:
    """Return whether some symmetry takes party 0 to every other party.

    False may also mean "not looked for": on large or unevenly weighted graphs.

    >>> is_vertex_transitive(Topology.family("petersen"))
    True
    """
    n = topology.n_parties
    if n > MOST_PARTIES or np.unique(topology.weights).size > 1:
        return False
    if not _looks_alike(topology):
        return False
    graph = topology.to_networkx()
    return all(_moves(graph, v) for v in range(1, n))


def _looks_alike(topology: Topology) -> bool:
    """Return whether closed walks of every short length are as many at all parties."""
    adjacency = topology.adjacency.toarray()
    power = adjacency
    for _ in range(5):
        power = power @ adjacency
        if np.ptp(np.diag(power)) > 0:
            return False
    return bool(np.ptp(topology.degrees) == 0)


def _moves(graph: Any, target: int) -> bool:
    """Return whether a symmetry of the graph takes party 0 to the target."""
    import networkx as nx

    here, there = graph.copy(), graph.copy()
    nx.set_node_attributes(here, {v: v == 0 for v in graph}, "root")
    nx.set_node_attributes(there, {v: v == target for v in graph}, "root")
    return nx.vf2pp_isomorphism(here, there, node_label="root") is not None
