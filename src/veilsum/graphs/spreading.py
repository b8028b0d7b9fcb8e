"""Delivery of masked vectors to all parties: by flooding, or summed along a tree.

Flooding sends each masked vector to each party, which the proof grants a coalition
anyway. Along a spanning tree a party forwards only the sum of its subtree's masked
vectors, and then the total comes back down: far fewer bytes for long vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import add_wide_integers
from veilsum.numbers.shapes import Shaped

Spread = Literal["flooding", "tree"]
SPREADS: tuple[str, ...] = ("auto", "flooding", "tree")

# Flooding sends every vector over every link; beyond this many bytes on one link a
# tree is used.
FLOODING_BYTES = 1_000_000

# So many vectors are followed at once, one bit each: memory grows with the links only.
_BLOCK = 1024


@dataclass(frozen=True)
class SpreadingTree:
    """A spanning tree by each party's parent; the root's is itself.

    `order` lists the parties from the root outwards.
    """

    root: int
    parents: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def depth(self) -> int:
        """The greatest number of links between the root and a party."""
        levels = [0] * len(self.parents)
        for party in self.order[1:]:
            levels[party] = levels[self.parents[party]] + 1
        return max(levels)

    def children(self, party: int) -> tuple[int, ...]:
        return tuple(
            child
            for child, parent in enumerate(self.parents)
            if parent == party and child != self.root
        )


def spanning_tree(topology: Topology, root: int = 0) -> SpreadingTree:
    """Return the breadth-first tree from a party: as shallow as its root allows."""
    order, parents = scipy.sparse.csgraph.breadth_first_order(
        topology.adjacency, root, directed=False
    )
    if len(order) < topology.n_parties:
        raise InvalidGraphError(
            "the graph is in pieces: no tree reaches every party",
            code="graph-disconnected",
        )
    parents[root] = root
    return SpreadingTree(root, tuple(parents.tolist()), tuple(order.tolist()))


def choose_spread(wanted: str, *, n_parties: int, vector_bytes: int) -> Spread:
    """Return the way asked for; `auto` floods unless that loads a link too much."""
    if wanted not in SPREADS:
        raise InvalidInputError(
            f"vectors spread by one of {', '.join(SPREADS)}, found {wanted!r}",
            code="unknown-spread",
        )
    if wanted == "auto":
        return "tree" if n_parties * vector_bytes > FLOODING_BYTES else "flooding"
    return "tree" if wanted == "tree" else "flooding"


def spanning_tree_sum(
    rows: Shaped[Array[np.generic], "n p"], tree: SpreadingTree
) -> Shaped[Array[np.generic], " p"]:
    """Return the total as the root learns it: every party adds up its subtree."""
    sums = rows.copy()
    for party in reversed(tree.order[1:]):
        parent = tree.parents[party]
        sums[parent] = add_wide_integers(sums[parent], sums[party])
    return np.asarray(sums[tree.root])


def spreading_cost(topology: Topology, spread: Spread) -> tuple[int, int]:
    """Return the rounds, and how many vectors cross links in them."""
    n, edges = topology.n_parties, topology.n_edges
    if spread == "tree":
        return 2 * spanning_tree(topology).depth, 2 * (n - 1)
    # Whoever hears a vector first passes it to all neighbours but the one it came from.
    return flooding_rounds(topology), n * (2 * edges - (n - 1))


def flooding_rounds(topology: Topology) -> int:
    """Return after how many rounds everybody has every vector: the graph's diameter."""
    n = topology.n_parties
    blocks = [np.arange(low, min(low + _BLOCK, n)) for low in range(0, n, _BLOCK)]
    return max(_flooding_rounds_from_vertex(topology, sources) for sources in blocks)


def _flooding_rounds_from_vertex(topology: Topology, sources: Array[np.int64]) -> int:
    near, starts = topology.adjacency.indices, topology.adjacency.indptr[:-1]
    has = np.zeros((topology.n_parties, len(sources)), dtype=np.bool_)
    has[sources, np.arange(len(sources))] = True
    everything = np.packbits(np.ones(len(sources), dtype=np.bool_))
    known, rounds = np.packbits(has, axis=1), 0
    while not (known == everything).all():
        heard = known | np.bitwise_or.reduceat(known[near], starts, axis=0)
        if (heard == known).all():
            raise InvalidGraphError(
                "the graph is in pieces: not everybody is reached",
                code="graph-disconnected",
            )
        known, rounds = heard, rounds + 1
    return rounds
