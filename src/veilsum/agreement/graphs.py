"""The graph that a scenario's sections describe."""

from __future__ import annotations

from collections.abc import Callable

from veilsum.agreement.reading import Table, entries, names
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import listed

ReadGraph = Callable[[str, str | None], Topology]


def topology_of(graph: Table, parties: Table, read_graph: ReadGraph) -> Topology:
    """Return the graph that the sections describe."""
    sources = [key for key in ("family", "file", "edges") if key in graph]
    if len(sources) != 1:
        raise InvalidScenarioError(
            "[graph] needs exactly one of family, file and edges, "
            f"found {listed(sources) or 'none'}"
        )
    if "weight" in graph and "file" not in graph:
        raise InvalidScenarioError("[graph] weight names an attribute of a graph file")
    topology = _graph(graph, read_graph)
    if "names" not in parties:
        return topology
    given = names(parties["names"], "[parties] names")
    if "edges" not in graph:
        return topology.renamed(given)
    return Topology.from_edges(pairs_of(graph["edges"]), parties=given)


def _graph(graph: Table, read_graph: ReadGraph) -> Topology:
    if "family" in graph:
        return Topology.family(str(graph["family"]))
    if "file" in graph:
        return read_graph(str(graph["file"]), graph.get("weight"))
    return Topology.from_edges(pairs_of(graph["edges"]))


def pairs_of(edges: object) -> list[tuple[str, str]]:
    """Return links as pairs of names."""
    rows = [names(edge, "[graph] edges' entries") for edge in entries(edges)]
    if any(len(row) != 2 for row in rows):
        raise InvalidScenarioError(
            '[graph] edges must be pairs of names, such as [["a", "b"], ["b", "c"]]'
        )
    return [(a, b) for a, b in rows]
