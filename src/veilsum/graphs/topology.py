"""Frozen graph of the links of parties, from which all else is computed.

Parties are strings outside and indices inside. An undirected edge is stored once, the
smaller index first, and carries two shares, r_ij and r_ji; a directed edge is an arc
and carries one. An edge's weight is the variance of its shares in units of sigma^2, so
that with L the weighted Laplacian Cov(U) = shares_per_edge * sigma^2 * L.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import scipy
from numpy.typing import ArrayLike

from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs.links import (
    LinkArray,
    fill_adjacency_rows,
    fill_balanced_adjacency_rows,
    graph_links_in_order,
)
from veilsum.numbers.arrays import (
    Array,
    EdgeList,
    FloatArray,
    Sparse,
    Vector,
    frozen_array,
    listed_names,
    nearest_name,
)
from veilsum.numbers.compiled import compiled_or_plain
from veilsum.showing import MOST_ROWS, Renderable, Rendering, ShownTable, counted_words

Edge = tuple[Hashable, Hashable]
Indices: TypeAlias = Array[Any]

# From so many links on rows of neighbours are filled by machine code.
MANY_LINKS = 200_000


@runtime_checkable
class NetworkxGraph(Protocol):
    nodes: Any
    edges: Any

    def is_directed(self) -> bool: ...

    def is_multigraph(self) -> bool: ...


@dataclass(frozen=True, eq=False, repr=False)
class Topology(Renderable):
    """A communication graph G: parties, edges, weights.

    Build one with `from_edges`, `from_networkx`, `family` or, of very many parties,
    `numbered`; the raw constructor takes indices and trusts them.

    Attributes:
        parties: the names, in index order; a tuple, or `NumberedParties` of very many.
        edges: (e, 2) sorted indices; undirected edges hold the smaller index first.
        weights: (e,) noise variance of each edge's shares relative to sigma^2.
        directed: whether an edge is an arc with one share instead of two.
    """

    parties: Sequence[str]
    edges: EdgeList
    weights: Vector
    directed: bool = field(default=False, kw_only=True)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Edge],
        *,
        parties: Iterable[Hashable] | None = None,
        weights: Sequence[float] | None = None,
        directed: bool = False,
    ) -> Topology:
        """Return the graph with these edges; party names may be any hashable.

        Without `parties` the names are taken from the edges in order of appearance.
        A link listed twice counts once; with `weights` its weights add.

        >>> Topology.from_edges([("ann", "bob"), ("bob", "cem")]).parties
        ('ann', 'bob', 'cem')
        """
        pairs = _edges_as_name_pairs(edges)
        names = _party_names_of_graph(pairs, parties)
        position = {name: i for i, name in enumerate(names)}
        unknown = sorted({name for pair in pairs for name in pair} - set(position))
        if unknown:
            raise InvalidGraphError(
                f"edges name unknown parties: {listed_names(unknown)}; add them to the "
                "parties",
                code="unknown-party",
            )
        rows = np.array([(position[a], position[b]) for a, b in pairs], dtype=np.int64)
        if not directed:
            rows = np.sort(rows, axis=1)
        noise = _edge_weights_of_graph(weights, len(rows))
        # Repeated edges are put together and sorted: equal graphs are equal values.
        links, which = np.unique(rows, axis=0, return_inverse=True)
        links.setflags(write=False)
        total: FloatArray = np.ones(len(links))
        if noise is not None:
            total = np.zeros(len(links))
            np.add.at(total, which.ravel(), noise)
        return cls(names, links, frozen_array(total), directed=directed)

    @classmethod
    def of(cls, graph: GraphLike) -> Topology:
        """Return a graph of ours or of networkx as a topology.

        Every function that takes a graph calls this first.
        """
        if isinstance(graph, Topology):
            return graph
        if isinstance(graph, NetworkxGraph):
            return cls.from_networkx(graph)
        raise InvalidInputError(
            f"the topology cannot be a {type(graph).__name__}: give "
            'Topology.family("ring:6"), or a graph of networkx',
            code="not-a-topology",
        )

    @classmethod
    def from_networkx(cls, graph: Any, *, weight: str | None = None) -> Topology:
        """Return the graph of a networkx object; `weight` names an edge attribute.

        Parallel edges of a multigraph are separate draws, so their weights add.
        """
        data = list(graph.edges(data=True))
        weights = None
        if weight is not None or graph.is_multigraph():
            weights = [_edge_weight_attribute(edge, weight) for edge in data]
        return cls.from_edges(
            [(a, b) for a, b, _ in data],
            parties=list(graph.nodes),
            weights=weights,
            directed=graph.is_directed(),
        )

    @classmethod
    def family(cls, spec: str, *, most_links: int | None = None) -> Topology:
        """Return a named graph, its parties called "0", "1", ...

        Where it would have more than `most_links`, none is made: for names that others
        wrote.

        >>> Topology.family("ring:4").neighbours("0")
        ('1', '3')
        """
        # Not before it is needed: networkx takes long to load, and 20 MB.
        from veilsum.graphs import families

        graph = families.build_graph_family(spec, most_links=most_links)
        if isinstance(graph, LinkArray):
            if not len(graph.ends):
                return cls.from_edges((), parties=range(graph.n_parties))
            many = graph.n_parties > families.MANY_PARTIES
            found = cls.numbered(graph.n_parties, graph.ends, sorted_already=True)
            return found if many else found.with_names()
        return cls.from_edges(graph.edges, parties=graph.nodes)

    @classmethod
    def numbered(
        cls, n_parties: int, ends: ArrayLike, *, sorted_already: bool = False
    ) -> Topology:
        """Return the graph of parties "0", "1", ... without an object for each of them.

        Args:
            n_parties: how many there are.
            ends: (e, 2) indices, kept in 32 bits; a file mapped into memory stays one
                where nothing has to be changed.
            sorted_already: whether every link stands once, smaller index first, all in
                order. Otherwise that is made so.

        >>> Topology.numbered(3, [[1, 0], [2, 1], [0, 1]]).edges.tolist()
        [[0, 1], [1, 2]]
        """
        links = np.asarray(ends)
        if not sorted_already:
            links = graph_links_in_order(n_parties, links)
        links = links.astype(np.int32, copy=False)
        if links.flags.writeable:  # a file may not be: then it is as it should be
            links.setflags(write=False)
        # One number stands for all of them, in eight bytes.
        alike = np.broadcast_to(np.float64(1.0), (len(links),))
        return cls(NumberedParties(range(n_parties)), links, alike)

    def with_names(self) -> Topology:
        """Return the same graph with a name for each party, as small ones have it."""
        edges = self.edges.astype(np.int64)
        edges.setflags(write=False)
        return replace(
            self,
            parties=tuple(self.parties),
            edges=edges,
            weights=frozen_array(self.weights.copy()),
        )

    @property
    def n_parties(self) -> int:
        """The number of parties, n."""
        return len(self.parties)

    @property
    def n_edges(self) -> int:
        """The number of edges, or of arcs if directed."""
        return len(self.edges)

    @property
    def shares_per_edge(self) -> int:
        """Number of independent vectors on one edge: two, or one on an arc."""
        return 1 if self.directed else 2

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {name: i for i, name in enumerate(self.parties)}

    @property
    def common_weight(self) -> float | None:
        """The weight of all links where it is one, else None."""
        if self.weights.strides == (0,) and self.n_edges:
            return float(self.weights[0])
        alike = self.n_edges > 0 and bool((self.weights == self.weights[0]).all())
        return float(self.weights[0]) if alike else None

    def index(self, party: Hashable) -> int:
        """Return the index of a party; an unknown name is refused with the nearest."""
        name = str(party)
        if isinstance(self.parties, NumberedParties):
            if (place := self.parties.place(name)) is not None:
                return place
        elif name in self._positions:
            return self._positions[name]
        raise InvalidInputError(
            f"unknown party {name!r}; {nearest_name(name, self.parties)}the parties "
            "are "
            f"{listed_names(self.parties)}",
            code="unknown-party",
        )

    def indices(self, parties: Iterable[Hashable]) -> frozenset[int]:
        """Return the indices of several parties."""
        if isinstance(parties, str):
            raise InvalidInputError(
                f"parties must be a collection of names, found the text {parties!r}; "
                f"write [{parties!r}]",
                code="names-not-collection",
            )
        return frozenset(self.index(party) for party in parties)

    def names(self, indices: Iterable[int]) -> tuple[str, ...]:
        """Return the names of some indices, in index order."""
        return tuple(self.parties[i] for i in sorted(indices))

    def names_of(self, part: Sequence[int]) -> Sequence[str]:
        """Return the names of a piece; of all parties without making one each."""
        return self.parties if len(part) == self.n_parties else self.names(part)

    def neighbours(self, party: Hashable) -> tuple[str, ...]:
        """Return N_i: every party that shares an edge with this one."""
        here = self.index(party)
        if isinstance(self.parties, NumberedParties):
            start, near = self.pattern
            return self.names(near[start[here] : start[here + 1]].tolist())
        return self._neighbours[here]

    @cached_property
    def _neighbours(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self.names(near) for near in self._adjacent)

    @cached_property
    def _adjacent(self) -> tuple[tuple[int, ...], ...]:
        """Every party's neighbours; an arc counts both ways."""
        found: list[set[int]] = [set() for _ in self.parties]
        for i, j in self.edges.tolist():
            found[i].add(j)
            found[j].add(i)
        return tuple(tuple(sorted(one)) for one in found)

    def hops(self, party: Hashable) -> Mapping[str, int]:
        """Return how many links away from a party everybody is that it can reach.

        >>> Topology.family("ring:4").hops("0")
        {'0': 0, '1': 1, '3': 1, '2': 2}
        """
        start = self.index(party)
        if start not in self._hops:
            found = {start: 0}
            for here in (reached := [start]):
                if len(found) == self.n_parties:
                    break
                fresh = [one for one in self._adjacent[here] if one not in found]
                found |= dict.fromkeys(fresh, found[here] + 1)
                reached += fresh
            self._hops[start] = {self.parties[i]: away for i, away in found.items()}
        return self._hops[start]

    @cached_property
    def _hops(self) -> dict[int, Mapping[str, int]]:
        return {}

    @cached_property
    def pattern(self) -> tuple[Indices, Indices]:
        """Adjacency in CSR form: row starts, and neighbours in order.

        Many links take one pass over them, in 32 bits: links are sorted, so every row
        is filled in order.
        """
        fill = (
            compiled_or_plain(fill_adjacency_rows)
            if self.n_edges > MANY_LINKS
            else None
        )
        if fill is None or self.directed:
            found = self.adjacency
            return found.indptr, found.indices
        ends = np.zeros(self.n_parties + 1, dtype=np.int32)
        if 2 * self.n_edges > np.iinfo(np.int32).max:
            ends = ends.astype(np.int64)
        near = np.empty(2 * self.n_edges, dtype=np.int32)
        fill(self.edges, ends, near)
        return ends, near

    @cached_property
    def adjacency(self) -> Sparse:
        """The symmetric weighted adjacency matrix (CSR); opposite arcs add."""
        n, (i, j) = self.n_parties, self.edges.T
        weight = self.common_weight if self.n_edges > MANY_LINKS else None
        if (
            weight is not None
            and not self.directed
            and compiled_or_plain(fill_adjacency_rows)
        ):
            start, near = self.pattern
            return scipy.sparse.csr_array(
                (np.full(len(near), weight), near, start), (n, n)
            )
        ends = np.concatenate([i, j]), np.concatenate([j, i])
        both = np.concatenate([self.weights, self.weights])
        return scipy.sparse.csr_array((both, ends), shape=(n, n))

    @cached_property
    def degrees(self) -> FloatArray:
        """The number of neighbours of every party."""
        return frozen_array(np.diff(self.pattern[0]).astype(np.float64))

    @cached_property
    def laplacian(self) -> Sparse:
        """The weighted Laplacian L = Theta diag(w) Theta' (CSR)."""
        return self.made_laplacian()

    def made_laplacian(self) -> Sparse:
        """Return the Laplacian without keeping it: of many parties it is large."""
        if (found := self.balanced(-self.weights, total=0.0)) is not None:
            return found
        total = np.asarray(self.adjacency.sum(axis=1)).ravel()
        return scipy.sparse.csr_array(scipy.sparse.diags_array(total) - self.adjacency)

    def balanced(self, weights: Vector, *, total: float) -> Sparse | None:
        """Return these weights at both ends of links (CSR), every row adding up.

        Only of many links, and by machine code: sparse matrices' own products take ten
        times the memory of what they give. None otherwise.
        """
        fill = (
            compiled_or_plain(fill_balanced_adjacency_rows)
            if self.n_edges > MANY_LINKS
            else None
        )
        if fill is None or self.directed:
            return None
        n = self.n_parties
        start = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.edges.ravel(), minlength=n) + 1, out=start[1:])
        if start[-1] <= np.iinfo(np.int32).max:
            start = start.astype(np.int32)
        near, data = np.empty(start[-1], dtype=np.int32), np.empty(start[-1])
        fill(self.edges, weights, total, start, near, data)
        return scipy.sparse.csr_array((data, near, start), (n, n))

    @cached_property
    def incidence(self) -> Sparse:
        """The oriented incidence Theta (n x e): +1 at the first end, -1 at the second.

        With c_e = r_ij - r_ji (an arc: r_ij) the masks are U = Theta c.
        """
        ones = np.ones(self.n_edges)
        column = np.arange(self.n_edges)
        shape = (self.n_parties, self.n_edges)
        plus = scipy.sparse.coo_array((ones, (self.edges[:, 0], column)), shape=shape)
        minus = scipy.sparse.coo_array((ones, (self.edges[:, 1], column)), shape=shape)
        return scipy.sparse.csr_array(plus - minus)

    def without(self, corrupted: Iterable[int]) -> Topology:
        """Return G_H: what is left when C and every edge touching C are removed."""
        gone = set(corrupted)
        if not gone:
            return self
        kept = np.ones(self.n_parties, dtype=bool)
        kept[[*gone]] = False
        return self._kept(np.flatnonzero(kept))

    def induced(self, indices: Iterable[int]) -> Topology:
        """Return the graph on some parties and the edges between them."""
        if isinstance(indices, range) and indices == range(self.n_parties):
            return self
        return self._kept(np.array(sorted(indices), dtype=np.int64))

    def _kept(self, kept: Array[np.int64]) -> Topology:
        position = np.full(self.n_parties, -1, dtype=self.edges.dtype)
        position[kept] = np.arange(len(kept))
        rows = position[self.edges]
        inside = (rows >= 0).all(axis=1)
        edges = rows[inside]
        edges.setflags(write=False)
        if isinstance(self.parties, NumberedParties):
            names: Sequence[str] = self.parties.at(kept)
        else:
            names = tuple(self.parties[i] for i in kept)
        weights = frozen_array(self.weights[inside])
        return Topology(names, edges, weights, directed=self.directed)

    def renamed(self, names: Iterable[Hashable]) -> Topology:
        """Return the same graph with other party names, in index order."""
        given = tuple(str(name) for name in names)
        if len(given) != self.n_parties or len(set(given)) != len(given):
            raise InvalidGraphError(
                f"expected {self.n_parties} different party names, found "
                f"{len(given)}: {listed_names(given)}",
                code="names-not-different",
            )
        return replace(self, parties=given)

    def to_networkx(self) -> Any:
        """Return an undirected networkx graph on indices, for its algorithms."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(range(self.n_parties))
        graph.add_edges_from(self.edges.tolist())
        return graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        edges = self.edges.astype(np.int64, copy=False)
        return (self.parties, edges.tobytes(), self.weights.tobytes(), self.directed)

    def showing(self) -> Rendering:
        """Return how many parties and links there are, and who has how many."""
        kind = "one-way link" if self.directed else "link"
        ends = np.bincount(self.edges.ravel(), minlength=self.n_parties)
        few, many = int(ends.min(initial=self.n_edges)), int(ends.max(initial=0))
        each = f"{few}" if few == many else f"{few} to {many}"
        few_names = self.parties[:MOST_ROWS]
        near = [[name, ", ".join(self.neighbours(name))] for name in few_names]
        return Rendering(
            f"Network of {counted_words(self.n_parties, 'party')}, "
            f"{counted_words(self.n_edges, kind)}, {each} of each party",
            folded={"Neighbours": [ShownTable(["party", "neighbours"], near)]},
        )


GraphLike: TypeAlias = Topology | NetworkxGraph


class NumberedParties(Sequence[str]):
    """The names "0", "1", ..., or some of them, each made when somebody asks for it.

    >>> three = NumberedParties(range(3))
    >>> three[-1], list(three), "7" in three
    ('2', ['0', '1', '2'], False)
    """

    def __init__(self, numbers: range | Array[Any]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...

    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(map(str, self.numbers[place]))
        return str(self.numbers[place])

    def __iter__(self) -> Iterator[str]:
        return map(str, self.numbers)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.place(name) is not None

    def place(self, name: str) -> int | None:
        if not (name.isascii() and name.isdigit() and len(name) <= 10):
            return None
        number = int(name)
        place = (
            min(number, len(self))
            if isinstance(self.numbers, range)
            else int(np.searchsorted(self.numbers, number))
        )
        return place if place < len(self) and self[place] == name else None

    def at(self, places: Array[Any]) -> NumberedParties:
        if isinstance(self.numbers, range):
            return NumberedParties(places.astype(np.int32, copy=False))
        return NumberedParties(self.numbers[places])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedParties):
            return np.array_equal(self.numbers, other.numbers)
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))  # that of the tuple it equals

    def __repr__(self) -> str:
        return f"<{len(self):,} names: {listed_names(self[:3])}, ...>"


def _edges_as_name_pairs(edges: Iterable[Edge]) -> list[tuple[str, str]]:
    """Return edges by name; refuse two parties that would share one.

    Names that Python holds equal, such as 1 and True, are one party.
    """
    names: dict[Hashable, str] = {}
    meant: dict[str, Hashable] = {}
    pairs = []
    for edge in edges:
        if len(edge) != 2:
            raise InvalidGraphError(
                f"an edge is a pair of parties, found {edge!r}", code="edge-not-pair"
            )
        for party in edge:
            name = names.setdefault(party, str(party))
            if meant.setdefault(name, party) != party:
                raise InvalidGraphError(
                    f"two parties have one name: {meant[name]!r} and {party!r}",
                    code="duplicate-party",
                )
        pairs.append((names[edge[0]], names[edge[1]]))
    return pairs


def _party_names_of_graph(
    pairs: Sequence[tuple[str, str]], parties: Iterable[Hashable] | None
) -> tuple[str, ...]:
    """Return the names in order; refuse loops, a lone party, two with one name."""
    if parties is None:
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
    else:
        names = [str(party) for party in parties]
    loops = [a for a, b in pairs if a == b]
    if loops:
        raise InvalidGraphError(
            f"found self-loops at {listed_names(loops)}; a party does not mask itself",
            code="self-loops",
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidGraphError(
            f"two parties have one name: {listed_names(twice)}; give each its own",
            code="duplicate-party",
        )
    if len(names) == 1:
        raise InvalidGraphError(
            f"found one party, {names[0]!r}; a sum of private costs needs at least two",
            code="too-few-parties",
        )
    if not pairs:
        raise InvalidGraphError(
            "found no edges; every party needs a neighbour to exchange shares with",
            code="no-links",
        )
    return tuple(names)


def _edge_weights_of_graph(
    weights: Sequence[float] | None, n_edges: int
) -> Vector | None:
    if weights is None:
        return None
    try:
        array = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidGraphError(
            "edge weights must be numbers", code="weights-not-numbers"
        ) from None
    if array.shape != (n_edges,):
        raise InvalidGraphError(
            f"expected one weight for each of {n_edges} edges, found {array.size}",
            code="weights-not-per-edge",
        )
    if not (np.isfinite(array) & (array > 0)).all():
        raise InvalidGraphError(
            "edge weights must be positive and finite: they are noise variances "
            "relative to sigma^2; leave an edge out instead of giving it weight 0",
            code="weights-not-positive",
        )
    return array


def _edge_weight_attribute(
    edge: tuple[Any, Any, Mapping[str, Any]], weight: str | None
) -> float:
    a, b, data = edge
    if weight is None:
        return 1.0
    if weight not in data:
        raise InvalidGraphError(
            f"edge {a} - {b} has no attribute {weight!r}", code="missing-edge-attribute"
        )
    try:
        return float(data[weight])
    except (TypeError, ValueError):
        raise InvalidGraphError(
            f"edge {a} - {b} has {weight} = {data[weight]!r}, which is not a number",
            code="weights-not-numbers",
        ) from None
