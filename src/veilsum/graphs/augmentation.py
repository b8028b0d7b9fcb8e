"""Links to add until a graph is k-connected, and how far from the fewest they may be.

For k = 1 and k = 2 the fewest are known. Beyond that, links are added across smallest
cuts, superfluous ones are taken back, and the number is compared with a lower bound:

    a set X that does not see everybody needs min(k, n - |X|) neighbours, so over
    disjoint sets at least half the sum of what they lack (a link ends in two of them);
    whatever is left of G after k - 1 parties must be joined: pieces - 1 links.

On small graphs a search closes what is left of the gap.

For k = 2 a block is a largest part that no single party can cut. Blocks meet in cut
parties and form a forest; its leaves (pendants) hang on one cut party, and a block that
is a whole component is isolated. With d the most pieces that the loss of one party
leaves, p pendants and q isolated blocks, a graph that is not 2-connected needs exactly

    max(d - 1, ceil(p / 2) + q)

further links (Eswaran and Tarjan 1976): some link between two leaves always lowers
this number by one, until it is zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from typing import Any

import networkx as nx
import numpy as np
import scipy

from veilsum.errors import InvalidGraphError, NumericalError
from veilsum.graphs.connectivity import (
    graph_components,
    minimum_vertex_cut,
    smallest_cuts,
    vertex_connectivity,
)
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import frozen_array
from veilsum.progress import Advance, Opening, silent_progress

Link = tuple[int, int]

# Work of the search for fewer links: branches times parties.
MOST_BRANCHES = 10_000
# Orders in which cuts are closed, the first by rule, the others by lot.
ATTEMPTS = 5
# Smallest cuts that the lower bound looks at.
MOST_CUTS = 10
# Beyond this many parties one attempt has to do.
MANY_PARTIES = 200


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Links that make a graph k-connected; at most `gap` of them could be saved."""

    links: tuple[Link, ...]
    gap: int


def augment_graph(
    topology: Topology, *, connectivity: int, progress: Opening = silent_progress
) -> Augmentation:
    """Return links that raise kappa to `connectivity`, few of them, and the gap.

    >>> augment_graph(Topology.family("star:5"), connectivity=2)
    Augmentation(links=((1, 3), (1, 2), (2, 4)), gap=0)
    """
    n = topology.n_parties
    if connectivity >= n:
        raise InvalidGraphError(
            f"{n} parties can be at most {n - 1}-connected, by linking all with all; "
            f"found a wish for {connectivity}: add parties or ask for less",
            code="connectivity-impossible",
        )
    found = _augment_to_connectivity(topology, connectivity, progress)
    after = graph_with_links(topology, found.links)
    if vertex_connectivity(after, at_most=connectivity) < connectivity:
        raise NumericalError(
            "the repaired graph is not as connected as it should be", code="internal"
        )
    return found


def graph_with_links(topology: Topology, links: Iterable[Link]) -> Topology:
    new = np.array(list(links), dtype=np.int64).reshape(-1, 2)
    edges = np.vstack([topology.edges, new])
    weights = np.concatenate([topology.weights, np.ones(len(new))])
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    return Topology(
        topology.parties,
        edges[order],
        frozen_array(weights[order]),
        directed=topology.directed,
    )


def missing_links_bound(topology: Topology, connectivity: int) -> int:
    """Return a number of links without which the graph cannot be k-connected."""
    found = smallest_cuts(topology, most=MOST_CUTS)
    cuts = [cut for cut in found if len(cut) < connectivity]
    pieces = {cut: _graph_pieces_without_cut(topology, cut) for cut in cuts}
    singles = [frozenset({v}) for v in range(topology.n_parties)]
    parts = [*singles, *(frozenset(part) for cut in cuts for part in pieces[cut])]
    joins = max((len(pieces[cut]) - 1 for cut in cuts), default=0)
    return max(
        joins, (_lack_of_links_by_graph_parts(topology, parts, connectivity) + 1) // 2
    )


def _augment_to_connectivity(
    topology: Topology, connectivity: int, progress: Opening
) -> Augmentation:
    if vertex_connectivity(topology, at_most=connectivity) >= connectivity:
        return Augmentation((), 0)
    if connectivity == 1:
        # Each component is linked to the next one.
        return Augmentation(
            tuple(pairwise(part[0] for part in graph_components(topology))), 0
        )
    if connectivity == 2:
        return Augmentation(links_to_two_connected(topology, progress), 0)
    bound = missing_links_bound(topology, connectivity)
    links = _best_augmentation_attempt(topology, connectivity, bound, progress)
    if len(links) > bound:
        return _AugmentationSearch(topology, connectivity, progress).close(links, bound)
    return Augmentation(links, 0)


def _graph_pieces_without_cut(
    topology: Topology, cut: Sequence[int]
) -> list[list[int]]:
    kept = [v for v in range(topology.n_parties) if v not in cut]
    parts = graph_components(topology.induced(kept))
    return sorted(([kept[k] for k in part] for part in parts), key=len)


def _lack_of_links_by_graph_parts(
    topology: Topology, parts: Sequence[frozenset[int]], connectivity: int
) -> int:
    """Return how many neighbours disjoint parts lack in all, the parts chosen well."""
    chosen: dict[frozenset[int], int] = {}
    rows = np.split(topology.adjacency.indices, topology.adjacency.indptr[1:-1])
    linked = [set(row.tolist()) for row in rows]
    for part in sorted(parts, key=len):
        near = set().union(*(linked[v] for v in part)) - part
        must = min(connectivity, topology.n_parties - len(part))
        lack = max(0, must - len(near))
        inside = [other for other in chosen if other & part]
        if lack > sum(chosen[other] for other in inside):
            for other in inside:
                del chosen[other]
            chosen[part] = lack
    return sum(chosen.values())


def _best_augmentation_attempt(
    topology: Topology, connectivity: int, bound: int, progress: Opening
) -> tuple[Link, ...]:
    """Close cuts in several orders and keep the fewest links."""
    attempts = 1 + (ATTEMPTS if topology.n_parties <= MANY_PARTIES else 0)
    # An attempt adds `bound` links or more, and then tries to do without each.
    advance = progress("links to add", attempts * 2 * bound)

    def attempt(k: int, stream: np.random.Generator | None) -> tuple[Link, ...]:
        def told(done: int) -> None:
            advance(k * 2 * bound + done)

        return _attempt_augmentation(topology, connectivity, stream, bound, told)

    stream = np.random.default_rng(0)
    best = attempt(0, None)
    for k in range(1, attempts):
        if len(best) == bound:
            break
        best = min(best, attempt(k, stream), key=len)
    advance(attempts * 2 * bound)
    return best


def _attempt_augmentation(
    topology: Topology,
    connectivity: int,
    stream: np.random.Generator | None,
    bound: int,
    advance: Advance,
) -> tuple[Link, ...]:
    """Add links across smallest cuts, then take back what turned out superfluous."""
    links: list[Link] = []
    now = topology
    while (cut := _small_cut_of_graph(now, connectivity)) is not None:
        links.append(_link_across_graph_cut(now, cut, connectivity, stream))
        now = graph_with_links(topology, links)
        advance(min(len(links), bound))
    added = links.copy()
    for k, link in enumerate(added, start=1):
        fewer = [other for other in links if other != link]
        if _small_cut_of_graph(graph_with_links(topology, fewer), connectivity) is None:
            links = fewer
        advance(bound + k * bound // len(added))
    return tuple(links)


def _small_cut_of_graph(
    topology: Topology, connectivity: int
) -> tuple[int, ...] | None:
    kappa = vertex_connectivity(topology, at_most=connectivity)
    return None if kappa >= connectivity else minimum_vertex_cut(topology, size=kappa)


def _link_across_graph_cut(
    topology: Topology,
    cut: Sequence[int],
    connectivity: int,
    stream: np.random.Generator | None,
) -> Link:
    """Return a link between two pieces that parties with too few links need most.

    Among equals the far ends are linked: that closes other cuts on the way.
    """
    smallest, *others = _graph_pieces_without_cut(topology, cut)
    lack = np.maximum(connectivity - topology.degrees, 0)
    luck = np.zeros(len(lack)) if stream is None else stream.random(len(lack))
    u = max(smallest, key=lambda v: (lack[v], luck[v]))
    far = scipy.sparse.csgraph.dijkstra(topology.adjacency, indices=u, unweighted=True)
    across = [v for piece in others for v in piece]
    v = max(across, key=lambda v: (lack[v] > 0, far[v] + 2 * luck[v], lack[v]))
    return min(u, v), max(u, v)


@dataclass(eq=False)
class _AugmentationSearch:
    """Looks for fewer links: every solution has a link across every small cut.

    The number allowed grows from the lower bound, so the first success is the fewest;
    a level searched in vain raises the bound.
    """

    topology: Topology
    connectivity: int
    progress: Opening = silent_progress
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = MOST_BRANCHES // self.topology.n_parties
        self.advance = self.progress("ways with fewer links", self.left)

    def close(self, links: tuple[Link, ...], bound: int) -> Augmentation:
        for allowed in range(bound, len(links)):
            try:
                fewer = self._extend((), allowed, frozenset())
            except _OutOfBranchesError:
                return Augmentation(links, len(links) - allowed)
            if fewer is not None:
                return Augmentation(fewer, 0)
        return Augmentation(links, 0)

    def _extend(
        self, links: tuple[Link, ...], allowed: int, barred: frozenset[Link]
    ) -> tuple[Link, ...] | None:
        """Return a solution with up to `allowed` further links, none of them barred."""
        self.left -= 1
        if self.left < 0:
            raise _OutOfBranchesError
        self.advance(MOST_BRANCHES // self.topology.n_parties - self.left)
        now = graph_with_links(self.topology, links)
        cut = _small_cut_of_graph(now, self.connectivity)
        if cut is None:
            return links
        lack = np.maximum(self.connectivity - now.degrees, 0)
        if int(lack.sum()) > 2 * allowed or allowed == 0:
            return None
        pieces = combinations(_graph_pieces_without_cut(now, cut), 2)
        across = [(min(e), max(e)) for a, b in pieces for e in product(a, b)]
        # The links that are needed most come first.
        across.sort(key=lambda e: (-np.minimum(lack[list(e)], 1).sum(), e))
        for link in across:
            if link not in barred:
                found = self._extend((*links, link), allowed - 1, barred)
                if found is not None:
                    return found
                barred |= {link}
        return None


class _OutOfBranchesError(Exception):
    """The search has used up the branches it was given."""


@dataclass(frozen=True, slots=True)
class GraphBlocks:
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
        if self.components == 1 and not self.pieces:
            return 0
        most = max(self.pieces.values(), default=self.components)
        leaves = (len(self.pendants) + 1) // 2 + len(self.isolated)
        return max(most - 1, leaves)


def links_to_two_connected(
    topology: Topology, progress: Opening = silent_progress
) -> tuple[Link, ...]:
    """Return the fewest links that leave no cut party; at least three parties.

    >>> links_to_two_connected(Topology.family("path:4"))
    ((0, 3),)
    """
    graph = topology.to_networkx()
    links: list[Link] = []
    found = graph_blocks(graph)
    advance = progress("links to add", found.missing_links)
    while found.missing_links > 0:
        link = _best_link_of_graph_blocks(graph, found)
        graph.add_edge(*link)
        links.append(link)
        advance(len(links))
        found = graph_blocks(graph)
    return tuple(links)


def graph_blocks(graph: Any) -> GraphBlocks:
    found = [frozenset(block) for block in nx.biconnected_components(graph)]
    count = Counter(v for block in found for v in block)
    cuts = {v for v, blocks_of_v in count.items() if blocks_of_v > 1}
    components = nx.number_connected_components(graph)
    lone = tuple(frozenset({v}) for v in graph if v not in count)
    return GraphBlocks(
        pieces={v: count[v] + components - 1 for v in sorted(cuts)},
        pendants=tuple(block - cuts for block in found if len(block & cuts) == 1),
        isolated=(*(block for block in found if not block & cuts), *lone),
        components=components,
    )


def _best_link_of_graph_blocks(graph: Any, found: GraphBlocks) -> Link:
    """Return the first link between leaves that lowers the number of missing ones."""
    for link in _pairs_of_graph_leaves(graph, found):
        graph.add_edge(*link)
        left = graph_blocks(graph).missing_links
        graph.remove_edge(*link)
        if left < found.missing_links:
            return link
    raise AssertionError("some pair of leaves lowers the number of missing links")


def _pairs_of_graph_leaves(graph: Any, found: GraphBlocks) -> Iterator[Link]:
    """Yield pairs of leaves, those across the worst cut party first."""
    # One party of each leaf, piece by piece of what the worst cut leaves.
    worst = [max(found.pieces, key=found.pieces.__getitem__)] if found.pieces else []
    rest = graph.subgraph(v for v in graph if v not in worst)
    piece = {v: k for k, part in enumerate(nx.connected_components(rest)) for v in part}
    leaves = (*found.pendants, *found.isolated)
    ends = [min(leaf, key=lambda v: (graph.degree(v), v)) for leaf in leaves]
    size = Counter(piece[v] for v in ends)
    ends.sort(key=lambda v: (-size[piece[v]], piece[v], v))
    half = len(ends) // 2
    likely = [(ends[k], ends[k + half]) for k in range(half)]
    for a, b in (*likely, *combinations(ends, 2)):
        yield min(a, b), max(a, b)
