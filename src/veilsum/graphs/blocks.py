"""Blocks of a graph, and the fewest links that leave it without a cut party.

A block is a largest part that no single party can cut. Blocks meet in cut parties and
form a forest; its leaves (pendants) hang on one cut party, and a block that is a whole
component is isolated. With d the most pieces that the loss of one party leaves, p
pendants and q isolated blocks, a graph that is not 2-connected needs exactly

    max(d - 1, ceil(p / 2) + q)

further links (Eswaran and Tarjan 1976): some link between two leaves always lowers
this number by one, until it is zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import networkx as nx

from veilsum.graphs.topology import Topology

Link = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The leaves of the block forest and what holds them together.

    Attributes:
        pieces: for every cut party, how many pieces its loss leaves.
        pendants: the inner parties of each block that hangs on one cut party.
        isolated: the blocks, or lone parties, that are a component by themselves.
        components: how many components there are.
    """

    pieces: dict[int, int]
    pendants: tuple[frozenset[int], ...]
    isolated: tuple[frozenset[int], ...]
    components: int

    @property
    def missing_links(self) -> int:
        """The fewest links that make the graph 2-connected."""
        if self.components == 1 and not self.pieces:
            return 0
        most = max(self.pieces.values(), default=self.components)
        leaves = (len(self.pendants) + 1) // 2 + len(self.isolated)
        return max(most - 1, leaves)


def cut_parties(topology: Topology) -> tuple[int, ...]:
    """Return every party whose loss leaves its component in pieces.

    >>> cut_parties(Topology.family("path:4"))
    (1, 2)
    """
    return tuple(sorted(nx.articulation_points(topology.to_networkx())))


def links_to_two_connected(topology: Topology) -> tuple[Link, ...]:
    """Return the fewest links that leave no cut party; at least three parties.

    >>> links_to_two_connected(Topology.family("path:4"))
    ((0, 3),)
    """
    graph = topology.to_networkx()
    links: list[Link] = []
    found = blocks(graph)
    while found.missing_links > 0:
        link = _best_link(graph, found)
        graph.add_edge(*link)
        links.append(link)
        found = blocks(graph)
    return tuple(links)


def blocks(graph: Any) -> Blocks:
    """Return the block structure of a networkx graph."""
    found = [frozenset(block) for block in nx.biconnected_components(graph)]
    count = Counter(v for block in found for v in block)
    cuts = {v for v, blocks_of_v in count.items() if blocks_of_v > 1}
    components = nx.number_connected_components(graph)
    lone = tuple(frozenset({v}) for v in graph if v not in count)
    return Blocks(
        pieces={v: count[v] + components - 1 for v in sorted(cuts)},
        pendants=tuple(block - cuts for block in found if len(block & cuts) == 1),
        isolated=(*(block for block in found if not block & cuts), *lone),
        components=components,
    )


def _best_link(graph: Any, found: Blocks) -> Link:
    """Return the first link between leaves that lowers the number of missing ones."""
    for link in _leaf_pairs(graph, found):
        graph.add_edge(*link)
        left = blocks(graph).missing_links
        graph.remove_edge(*link)
        if left < found.missing_links:
            return link
    raise AssertionError("some pair of leaves lowers the number of missing links")


def _leaf_pairs(graph: Any, found: Blocks) -> Iterator[Link]:
    """Yield pairs of leaves, those across the worst cut party first."""
    ends = _ordered_ends(graph, found)
    half = len(ends) // 2
    likely = [(ends[k], ends[k + half]) for k in range(half)]
    for a, b in (*likely, *combinations(ends, 2)):
        yield min(a, b), max(a, b)


def _ordered_ends(graph: Any, found: Blocks) -> list[int]:
    """Return one party of each leaf, piece by piece of what the worst cut leaves."""
    worst = [max(found.pieces, key=found.pieces.__getitem__)] if found.pieces else []
    rest = graph.subgraph(v for v in graph if v not in worst)
    piece = {v: k for k, part in enumerate(nx.connected_components(rest)) for v in part}
    leaves = (*found.pendants, *found.isolated)
    ends = [min(leaf, key=lambda v: (graph.degree(v), v)) for leaf in leaves]
    size = Counter(piece[v] for v in ends)
    return sorted(ends, key=lambda v: (-size[piece[v]], piece[v], v))
