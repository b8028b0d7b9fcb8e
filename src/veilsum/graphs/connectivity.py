"""Connectivity of a graph: components, disjoint paths, cuts, mu2.

Whether a graph is connected is decided by search, never by an eigenvalue's tolerance.
Directed graphs count by their links: privacy needs weak connectivity only.

Vertex connectivity is a matter of vertex-disjoint paths, found by augmentation. Every
vertex v is split into 2v (in) and 2v + 1 (out), joined by an arc of capacity 1; a link
u - v becomes the arcs out(u) -> in(v) and out(v) -> in(u). Arcs come in pairs, a and
its reverse, so pushing a unit is two assignments. By Menger's theorem the largest flow
between two non-adjacent vertices is their smallest separating set. A neighbour of both
is in every such set, so it is counted and left out before anything is searched.

Small graphs are searched without machine code, whose loading would take longer than the
search: sets of parties are the bits of integers there.

A graph may come from an untrusted file: the work is counted, and a search that takes
too long is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import scipy

from veilsum.errors import InvalidGraphError, NumericalError
from veilsum.graphs.links import graph_pieces_joined
from veilsum.graphs.topology import GraphLike, NumberedParties, Topology
from veilsum.numbers.arrays import Array
from veilsum.numbers.compiled import compiled_or_plain

Integers = Array[np.int64]

# Below this many arcs the search is over before numba would be imported.
COMPILE_ARCS = 4000
# Arcs that one search may look at, all its pairs together: some seconds, compiled.
MOST_WORK = 2e9
# Graphs with no more links are remembered, with what was found.
REMEMBERED_EDGES = 10_000
# Up to this many parties kappa itself is found as fast as whether it is above a bound.
FEW_PARTIES = 64


class LongSearchError(InvalidGraphError):
    """A graph holds together in so many ways that counting them takes too long."""


def graph_components(topology: Topology) -> tuple[Sequence[int], ...]:
    """Return the connected components as indices, in order of first member.

    A range of very many that are all joined, else tuples.

    >>> graph_components(Topology.from_edges([(0, 1), (2, 3)]))
    ((0, 1), (2, 3))
    """
    if topology.n_parties == 0:
        return ()
    if _is_small_graph(topology):
        return tuple(
            map(
                _vertices_of_bit_set,
                _components_as_bit_sets(neighbour_sets_of_graph(topology)),
            )
        )
    if isinstance(topology.parties, NumberedParties):
        # The roots alone: lists of members would be larger than the graph.
        root = np.empty(topology.n_parties, dtype=np.int32)
        (compiled_or_plain(graph_pieces_joined) or graph_pieces_joined)(
            topology.edges, root
        )
        if not root.any():
            return (range(topology.n_parties),)
    count, label = scipy.sparse.csgraph.connected_components(
        topology.adjacency, directed=False
    )
    members = [tuple(np.flatnonzero(label == k).tolist()) for k in range(count)]
    return tuple(sorted(members))


def _is_small_graph(topology: Topology) -> bool:
    """Whether sets of parties as bits of integers take less time than arrays."""
    # As many arcs as its split network has.
    return 2 * (topology.n_parties + 2 * topology.n_edges) < COMPILE_ARCS


def _vertices_of_bit_set(bits: int) -> tuple[int, ...]:
    found = []
    while bits:
        last = bits & -bits
        found.append(last.bit_length() - 1)
        bits ^= last
    return tuple(found)


def _components_as_bit_sets(near: list[int]) -> Iterator[int]:
    """Yield the connected components as sets, in order of first member."""
    left = (1 << len(near)) - 1
    while left:
        part, fresh = 0, left & -left
        while fresh:
            part |= fresh
            reached = 0
            for here in _vertices_of_bit_set(fresh):
                reached |= near[here]
            fresh = reached & ~part
        yield part
        left &= ~part


def is_connected(topology: Topology) -> bool:
    return len(graph_components(topology)) == 1


def algebraic_connectivity(topology: GraphLike) -> float:
    """Return mu2, the second smallest eigenvalue of the Laplacian; 0 if disconnected.

    Dense and exact to rounding: O(n^3) time, n^2 memory.

    >>> round(algebraic_connectivity(Topology.family("petersen")), 12)
    2.0
    """
    topology = Topology.of(topology)
    if topology.n_parties < 2:
        raise InvalidGraphError(
            "mu2 needs at least two parties", code="too-few-parties"
        )
    if not is_connected(topology):
        return 0.0
    dense = topology.laplacian.toarray()
    found = float(
        scipy.linalg.eigh(dense, eigvals_only=True, subset_by_index=[1, 1])[0]
    )
    # An overstated mu2 would be an epsilon that promises too much, so what rounding can
    # have added is taken off wherever it is more than the last digits.
    margin = float(4 * len(dense) * np.finfo(float).eps * np.abs(dense).max())
    if found <= 2 * margin:
        raise NumericalError(
            f"mu2 drowns in rounding error: it is {found:.3g} beside entries of "
            f"{np.abs(dense).max():.3g}; bring the edge weights closer together",
            code="rounding-error",
        )
    return found if margin <= 1e-12 * found else found - margin


def vertex_connectivity(topology: GraphLike, *, at_most: int | None = None) -> int:
    """Return kappa, the least number of parties whose loss disconnects the rest.

    A complete graph has no such set; its kappa is n - 1 by convention. With `at_most`
    the answer is min(kappa, at_most), found as soon as it is sure.

    >>> vertex_connectivity(Topology.family("ring:6"))
    2
    """
    return _vertex_connectivity_of_graph(Topology.of(topology), at_most)


# One graph is asked about by whoever makes a plan, a promise, a page and a receipt.
@lru_cache(maxsize=64)
def _vertex_connectivity_of_graph(topology: Topology, at_most: int | None) -> int:
    n = topology.n_parties
    if not topology.directed and topology.n_edges == n * (n - 1) // 2:
        return n - 1 if at_most is None else min(n - 1, at_most)
    if at_most is not None and n <= FEW_PARTIES:
        return min(_vertex_connectivity_of_graph(topology, None), at_most)
    if topology.n_edges > REMEMBERED_EDGES:
        return _weakest_pair_in_graph(topology, at_most=at_most).paths
    edges = topology.edges.astype(np.int64).tobytes()
    return _fewest_paths(n, edges, at_most, directed=topology.directed)


@lru_cache(maxsize=32)
def _fewest_paths(n: int, edges: bytes, at_most: int | None, *, directed: bool) -> int:
    """Return kappa; plan, promise and page of a run all ask it of the same graph."""
    pairs = np.frombuffer(edges, dtype=np.int64).reshape(-1, 2)
    names = tuple(map(str, range(n)))
    plain = Topology(names, pairs, np.ones(len(pairs)), directed=directed)
    return _weakest_pair_in_graph(plain, at_most=at_most).paths


def minimum_vertex_cut(
    topology: Topology, *, size: int | None = None
) -> tuple[int, ...] | None:
    """Return a smallest vertex cut, or None for a complete graph, which has none.

    Whoever knows its size, kappa, has it sooner.

    >>> minimum_vertex_cut(Topology.family("star:5"))
    (0,)
    """
    if not is_connected(topology):
        return ()
    found = _weakest_pair_in_graph(topology, at_most=None, known=size)
    if found.pair is not None:
        return _PathFlows(topology).separator(*found.pair)
    lonely = int(np.argmin(topology.degrees))
    if topology.degrees[lonely] == topology.n_parties - 1:
        return None
    # No pair does better than cutting off a party of least degree.
    return tuple(sorted(topology.adjacency[[lonely]].indices.tolist()))


def smallest_cuts(topology: Topology, *, most: int) -> tuple[tuple[int, ...], ...]:
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
    found = dict.fromkeys(
        islice(_smallest_cut_candidates(topology, len(first)), 4 * most)
    )
    return tuple(dict.fromkeys([*found, first]))[:most]


def cut_parties(topology: Topology) -> tuple[int, ...]:
    """Return every party whose loss leaves its component in pieces.

    >>> cut_parties(Topology.family("path:4"))
    (1, 2)
    """
    import networkx as nx  # not before it is needed: it takes long to load

    return tuple(sorted(nx.articulation_points(topology.to_networkx())))


def _smallest_cut_candidates(
    topology: Topology, size: int
) -> Iterator[tuple[int, ...]]:
    """Yield smallest cuts, some of them repeatedly: first those that isolate one."""
    adjacency = topology.adjacency
    for v in np.flatnonzero(topology.degrees == size).tolist():
        yield tuple(sorted(adjacency[[v]].indices.tolist()))
    flows = _PathFlows(topology)
    for u, v, common in chain(*flows.telling_pairs()):
        if flows.paths(u, v, common, most=size + 1) == size:
            yield flows.separator(u, v)
            yield flows.separator(v, u)


class _FewestDisjointPaths(NamedTuple):
    """The fewest disjoint paths found, and a pair that has so few."""

    paths: int
    pair: tuple[int, int] | None


def _weakest_pair_in_graph(
    topology: Topology, *, at_most: int | None, known: int | None = None
) -> _FewestDisjointPaths:
    """Search the pairs that suffice for the fewest disjoint paths.

    The first pair that has so few is returned; who knows how many need not go on.
    """
    if not is_connected(topology):
        return _FewestDisjointPaths(0, None)
    if at_most is not None and 0 < at_most * topology.n_parties < topology.n_edges:
        topology = connectivity_certificate(topology, at_most)
    flows = _PathFlows(topology)
    least = flows.least_degree
    best = _FewestDisjointPaths(least if at_most is None else min(least, at_most), None)
    # Neighbours first: they are more likely to show a cut.
    across, around = flows.telling_pairs()
    for u, v, common in chain(around, across):
        if best.paths == known:
            break
        paths = flows.paths(u, v, common, most=best.paths)
        if paths < best.paths:
            best = _FewestDisjointPaths(paths, (u, v))
    return best


def connectivity_certificate(topology: Topology, paths: int) -> Topology:
    """Return at most `paths` links a party that tell whether so many paths join all.

    Parties are taken in turn, each time one with most links to those taken before, and
    of these links the first few are kept. Any two parties are joined by as many
    disjoint paths as before, as far as `paths` (Nagamochi and Ibaraki 1992; for
    vertex-disjoint paths Frank, Ibaraki and Nagamochi 1993).
    """
    linked, n = topology.adjacency, topology.n_parties
    reached = np.zeros(n, dtype=np.int64)
    taken = np.zeros(n, dtype=np.bool_)
    kept: list[Integers] = []
    for _ in range(n):
        here = int(np.argmax(np.where(taken, -1, reached)))
        taken[here] = True
        near = linked.indices[linked.indptr[here] : linked.indptr[here + 1]]
        near = near[~taken[near]]
        few = near[reached[near] < paths]
        kept.append(np.column_stack([np.full(len(few), here), few]).astype(np.int64))
        reached[near] += 1
    edges = np.sort(np.concatenate(kept), axis=1)
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    return Topology(topology.parties, edges, np.ones(len(edges)))


# Two parties without a link, and how many neighbours they share.
Pair = tuple[int, int, int]


def _telling_pairs_of_graph(
    topology: Topology,
) -> tuple[Iterator[Pair], Iterator[Pair]]:
    """Return pairs without a link, some of them parted by a smallest cut.

    Take a party v of least degree. A smallest cut either misses v, and then separates v
    from a party that is not its neighbour; or holds v, and then separates two of v's
    neighbours (Esfahanian and Hakimi 1984). Pairs of the first kind and of the second.
    """
    linked = topology.adjacency.astype(np.bool_).astype(np.int64)
    v = int(np.argmin(topology.degrees))
    near = np.sort(linked[[v]].indices)
    common = (linked @ linked[[v]].T).toarray()[:, 0]
    beside = np.setdiff1d(np.arange(topology.n_parties), [*near, v])
    across = ((v, w, int(common[w])) for w in beside.tolist())

    def around() -> Iterator[Pair]:
        rows = linked[near]
        for place, x in enumerate(near.tolist()):
            shared = (rows @ linked[[x]].T).toarray()[:, 0]
            apart = linked[[x]].toarray()[0, near] == 0
            for other in np.flatnonzero(apart[place + 1 :]) + place + 1:
                yield x, int(near[other]), int(shared[other])

    return across, around()


def _few_telling_pairs(near: list[int]) -> tuple[Iterator[Pair], Iterator[Pair]]:
    v = min(range(len(near)), key=lambda one: near[one].bit_count())
    beside = _vertices_of_bit_set((1 << len(near)) - 1 & ~near[v] & ~(1 << v))
    across = ((v, w, (near[v] & near[w]).bit_count()) for w in beside)
    around = (
        (x, y, (near[x] & near[y]).bit_count())
        for x in _vertices_of_bit_set(near[v])
        for y in _vertices_of_bit_set(near[v] & ~near[x])
        if y > x
    )
    return across, around


class _PathFlows:
    """Counts paths between many pairs of one graph, and what that costs."""

    def __init__(self, topology: Topology) -> None:
        self._topology, self.work = topology, 0.0
        self._near = (
            neighbour_sets_of_graph(topology) if _is_small_graph(topology) else None
        )

    @cached_property
    def _graph(self) -> SplitGraph:
        return split_graph(self._topology)

    @property
    def least_degree(self) -> int:
        if self._near is None:
            return int(self._topology.degrees.min())
        return min(one.bit_count() for one in self._near)

    def telling_pairs(self) -> tuple[Iterator[Pair], Iterator[Pair]]:
        """Return pairs without a link, some of them parted by a smallest cut."""
        if self._near is None:
            return _telling_pairs_of_graph(self._topology)
        return _few_telling_pairs(self._near)

    def paths(self, u: int, v: int, common: int, *, most: int) -> int:
        if common >= most:
            return most
        if self._near is None:
            found, searches = disjoint_paths(self._graph, u, v, most=most)
        else:
            found, searches = paths_among_graph_neighbours(self._near, u, v, most=most)
        parties, links = self._topology.n_parties, self._topology.n_edges
        self.work += 4 * searches * (parties + 2 * links)
        if self.work > MOST_WORK:
            raise LongSearchError(
                f"a graph of {parties:,} parties and as many links as "
                "this one has too many paths to count: "
                "whether a few parties can separate the others was not found out; use "
                "fewer links, or a smaller tolerate",
                code="search-too-long",
            )
        return found

    def separator(self, u: int, v: int) -> tuple[int, ...]:
        """Return the smallest set between two parties that is nearest to the first."""
        if self._near is None:
            return smallest_vertex_separator(self._graph, u, v)
        *_, cut = _paths_and_cut(self._near, u, v, len(self._near))
        return _vertices_of_bit_set(cut)


class SplitGraph(NamedTuple):
    """The split network in compressed rows: arcs leaving each half vertex."""

    start: Integers  # (2n + 1,) where each half vertex's arcs begin
    head: Integers  # where an arc leads
    reverse: Integers  # its partner
    capacity: Integers  # 1 through a vertex, n along a link, 0 on a partner
    through: Integers  # (n,) each vertex's own arc


def split_graph(topology: Topology) -> SplitGraph:
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
        place[:n].copy(),
    )


def push_paths_through_graph(
    start: Any,
    head: Any,
    reverse: Any,
    residual: Any,
    source: int,
    sink: int,
    most: int,
) -> tuple[int, int]:
    """Push up to `most` units from source to sink; return how many, and the searches.

    Compiled by numba. One breadth-first search says how far each half vertex is, and
    as many shortest paths as there are get a unit each (Dinic); through vertices of
    capacity 1 about 2 sqrt(n) searches do (Even and Tarjan 1975). What is left in
    `residual` is the state after the last unit.
    """
    halves = len(start) - 1
    level = np.empty(halves, dtype=np.int64)
    place = np.empty(halves, dtype=np.int64)
    queue = np.empty(halves, dtype=np.int64)
    path = np.empty(halves, dtype=np.int64)
    pushed = searches = 0
    while pushed < most:
        searches += 1
        level[:] = -1
        level[source] = 0
        queue[0] = source
        first, last = 0, 1
        while first < last and level[sink] < 0:
            here = queue[first]
            first += 1
            for arc in range(start[here], start[here + 1]):
                there = head[arc]
                if residual[arc] > 0 and level[there] < 0:
                    level[there] = level[here] + 1
                    queue[last] = there
                    last += 1
        if level[sink] < 0:
            break
        place[:] = start[:-1]
        here, length = source, 0
        while pushed < most:
            if here == sink:
                for step in range(length):
                    arc = path[step]
                    residual[arc] -= 1
                    residual[reverse[arc]] += 1
                pushed += 1
                here, length = source, 0
                continue
            arc = place[here]
            while arc < start[here + 1] and (
                residual[arc] == 0 or level[head[arc]] != level[here] + 1
            ):
                arc += 1
            place[here] = arc
            if arc < start[here + 1]:
                path[length] = arc
                length += 1
                here = head[arc]
            elif length == 0:
                break
            else:  # nothing leads on from here: back, and past the arc that led here
                length -= 1
                here = head[reverse[path[length]]]
                place[here] += 1
    return pushed, searches


def disjoint_paths(graph: SplitGraph, u: int, v: int, *, most: int) -> tuple[int, int]:
    residual = graph.capacity.copy()
    shared = np.intersect1d(_graph_neighbours(graph, u), _graph_neighbours(graph, v))
    residual[graph.through[shared]] = 0
    if len(shared) >= most:
        return most, 0
    found, searches = _push_flow_through_graph(
        graph, residual, u, v, most - len(shared)
    )
    return len(shared) + found, searches


def _graph_neighbours(graph: SplitGraph, u: int) -> Integers:
    arcs = slice(graph.start[2 * u + 1], graph.start[2 * u + 2])
    heads = graph.head[arcs] // 2
    return heads[heads != u]


def smallest_vertex_separator(graph: SplitGraph, u: int, v: int) -> tuple[int, ...]:
    """Return a smallest set of vertices that separates two non-adjacent ones.

    After the largest flow these are the vertices entered but not left by residual arcs.
    """
    residual = graph.capacity.copy()
    _push_flow_through_graph(graph, residual, u, v, len(graph.start))
    reached = np.zeros(len(graph.start) - 1, dtype=np.bool_)
    reached[2 * u + 1] = True
    waiting = [2 * u + 1]
    while waiting:
        here = waiting.pop()
        arcs = slice(graph.start[here], graph.start[here + 1])
        open_heads = graph.head[arcs][residual[arcs] > 0]
        fresh = open_heads[~reached[open_heads]]
        reached[fresh] = True
        waiting.extend(fresh.tolist())
    entered, left = reached[0::2], reached[1::2]
    return tuple(np.flatnonzero(entered & ~left).tolist())


def _push_flow_through_graph(
    graph: SplitGraph, residual: Integers, u: int, v: int, most: int
) -> tuple[int, int]:
    network: tuple[Any, ...] = (graph.start, graph.head, graph.reverse, residual)
    small = len(graph.head) < COMPILE_ARCS
    push: Any = None if small else compiled_or_plain(push_paths_through_graph)
    if push is None:  # interpreted, Python's own integers take less time than numpy's
        push, network = push_paths_through_graph, tuple(map(memoryview, network))
    found, searches = push(*network, 2 * u + 1, 2 * v, most)
    return int(found), int(searches)


def neighbour_sets_of_graph(topology: Topology) -> list[int]:
    near = [0] * topology.n_parties
    for i, j in topology.edges.tolist():
        near[i] |= 1 << j
        near[j] |= 1 << i
    return near


def paths_among_graph_neighbours(
    near: list[int], u: int, v: int, *, most: int
) -> tuple[int, int]:
    """Count as `disjoint_paths` does, on sets of neighbours, a path for each search.

    A search leaves party after party. Where it comes to one that is on a path, that
    path is given up from there, and the search goes on where it came from: with the
    party before. So all that has to be kept of paths is who comes before whom.
    """
    found, searches, _ = _paths_and_cut(near, u, v, most)
    return found, searches


def _paths_and_cut(near: list[int], u: int, v: int, most: int) -> tuple[int, int, int]:
    """Return also whom the last search entered and could not leave, if it was in vain.

    These separate the two, and are the ones nearest to u, whatever the paths are.
    """
    shared = near[u] & near[v]
    count = shared.bit_count()
    before: dict[int, int] = {}
    taken = 0  # whoever is on a path
    for searches in range(most - count):
        entered = shared | 1 << u
        left, queue = 1 << u, [u]
        came: dict[int, tuple[int, int]] = {}  # by party left: from whom, through whom
        for here in queue:
            if near[here] >> v & 1:
                break
            fresh = (near[here] | 1 << here & taken) & ~entered
            if last := fresh & near[v] & ~taken:
                there = last.bit_length() - 1
                came[there] = here, there
                here = there
                break
            entered |= fresh
            while fresh:
                there = fresh.bit_length() - 1
                fresh ^= 1 << there
                onward = before.get(there, there)
                if not left >> onward & 1:
                    left |= 1 << onward
                    came[onward] = here, there
                    queue.append(onward)
        else:
            return count + searches, searches + 1, entered & ~left
        while here != u:
            here, there = came[here]
            if there == here:  # it was on a path, and is not on the new ones
                del before[there]
                taken ^= 1 << there
            else:
                before[there] = here
                taken |= 1 << there
    return most, max(most - count, 0), 0
