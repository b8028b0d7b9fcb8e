"""Which network to build: graphs of a degree whose weakest honest part is strongest.

Graphs are compared by m_t(G) = min over |C| = t of mu2(G - C). Searching uses values
that can only be too high, cheap ones first, since a graph is dropped as soon as one
coalition is found that makes it worse than the best so far; what a search returns is
then rated exactly by `worst_mu2`. By Lemma A m_t(G) <= (n - t) mu2(G) / n, which ends
a list sorted by mu2.

A local search then exchanges links: a-b, c-d become a-c, b-d, so every party keeps its
number of links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import comb, gcd
from typing import TypeVar

import numpy as np
import scipy

from veilsum.graphs.connectivity import algebraic_connectivity
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray, Matrix
from veilsum.numbers.shapes import Float, Int
from veilsum.privacy.coalitions import around_the_weakest, attack_mu2_by_coalition
from veilsum.privacy.remaining import mu2_without_coalitions
from veilsum.progress import Opening, silent_progress
from veilsum.scale.pieces import map_pieces

Offsets = tuple[int, ...]
Item = TypeVar("Item")
OffsetSets = Int[Array[np.int64], "k h"]

# Offset sets listed in full; of more than these only a sample is looked at.
MOST_OFFSET_SETS = 20_000
SAMPLED_OFFSET_SETS = 4_000
# Coalitions few enough to try them all, each time a graph is looked at.
FEW_COALITIONS = 600
# Of a graph whose parties are all alike, only coalitions with party 0 are tried.
FEW_ROOTED_COALITIONS = 2_000
# Coalitions that spoilt recent graphs are tried first on the next one.
MEMORY = 16
RANDOM_GRAPHS = 20
# A value must be this much larger to count as better.
BETTER = 1.0 + 1e-9

# Close looks at exchanges that seem a new best, times n^2: each may take long.
CLOSE_LOOKS = 20_000
# Graphs that are looked at together, and exchanges between two looks around.
GROUP, LEG = 8, 25
# A swap may lose so much at first, relative to the best, to leave a dead end.
LEEWAY = 0.05


@dataclass(frozen=True, slots=True)
class CoalitionWeakness:
    """A coalition and the mu2 it leaves: an upper bound on m_t."""

    value: float
    coalition: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphSearchCandidate:
    """A graph to consider: its kind in words, its name if it has one, itself.

    `worst` is its worst coalition where the search has tried them all.
    """

    kind: str
    graph: str
    topology: Topology
    worst: CoalitionWeakness | None = None


def well_known_graph_candidates(n: int) -> Iterator[GraphSearchCandidate]:
    """Yield the well-known graphs on n parties, without repeating one."""
    yield _family_graph_candidate("complete", f"complete:{n}")
    if n >= 8 and n & (n - 1) == 0:
        yield _family_graph_candidate("hypercube", f"hypercube:{n.bit_length() - 1}")
    if n >= 5:
        yield _family_graph_candidate("wheel", f"wheel:{n}")
    if n >= 4:
        yield _family_graph_candidate("ring", f"ring:{n}")


def harary_graph_candidate(
    n: int, degree: int, *, tolerate: int
) -> GraphSearchCandidate:
    """Return the graph of fewest links for its connectivity, each to the nearest."""
    offsets = [*range(1, degree // 2 + 1), *_middle_circulant_offset(n, degree)]
    return _candidate_with_worst_coalition(
        _circulant_graph_candidate(n, tuple(offsets), kind="Harary"), tolerate
    )


def _family_graph_candidate(kind: str, spec: str) -> GraphSearchCandidate:
    return GraphSearchCandidate(kind, spec, Topology.family(spec))


def _circulant_graph_candidate(
    n: int, offsets: Offsets, *, kind: str = "circulant"
) -> GraphSearchCandidate:
    return _family_graph_candidate(kind, f"circulant:{n}:{','.join(map(str, offsets))}")


# --- circulant graphs -------------------------------------------------------------


def best_circulant_candidate(
    n: int,
    *,
    degree: int,
    tolerate: int,
    seed: int = 0,
    on: Executor | None = None,
    progress: Opening = silent_progress,
) -> GraphSearchCandidate | None:
    """Return the best circulant graph of a degree, None if all are disconnected."""
    best, value = None, 0.0
    memory: list[tuple[int, ...]] = []
    sets, mu2 = _circulant_offsets_by_mu2(
        n, _circulant_offset_sets(n, degree, seed), _middle_circulant_offset(n, degree)
    )
    tries = _graph_candidates_to_try(n)
    advance = progress("circulant graphs", tries)
    tried = 0
    for some in _group_graph_candidates(
        islice(_unlike_circulant_offsets(n, sets, mu2), tries)
    ):
        above = value * BETTER
        hopeful = [one for one, bound in some if (n - tolerate) / n * bound > above]
        work = GraphSearchCirculants(n, tuple(hopeful), tolerate, tuple(memory), above)
        ended = map_pieces(work, range(len(hopeful)), seed=seed, on=on)
        for offsets, found in zip(hopeful, ended, strict=True):
            if found.value > value * BETTER:
                best, value = _circulant_graph_candidate(n, offsets), found.value
            memory = [found.coalition, *memory][:MEMORY]
        tried += len(some)
        advance(tried)
        if len(hopeful) < len(some):
            break
    return None if best is None else _candidate_with_worst_coalition(best, tolerate)


@dataclass(frozen=True, eq=False)
class GraphSearchCirculants:
    """Some circulant graphs: called with the place of one, looks for its worst."""

    n: int
    sets: tuple[Offsets, ...]
    tolerate: int
    memory: tuple[tuple[int, ...], ...]
    above: float

    def __call__(self, key: int, seed: int) -> CoalitionWeakness:
        """Return a coalition as bad as any, or so bad that the graph is dropped."""
        del seed
        topology = _circulant_graph_candidate(self.n, self.sets[key]).topology
        return _worst_coalition_with_party_0(
            topology, self.tolerate, list(self.memory), above=self.above
        )


def _group_graph_candidates(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield what is looked at together: one first, then twice as many each time.

    What is found first is what later ones fall short of at a glance: a group that comes
    early, and is large, costs whole searches that one after the other would be spared.

    Groups are the same however many share the work, so what is found is, too.
    """
    size = 1
    while some := list(islice(items, size)):
        yield some
        size = min(2 * size, GROUP)


def _graph_candidates_to_try(n: int) -> int:
    """Return how many graphs to look at: eigenvalues of large ones take longer."""
    return max(3, min(200, 2_400 // n))


def _middle_circulant_offset(n: int, degree: int) -> Offsets:
    """Return the offset that gives one link only, for an odd degree."""
    return (n // 2,) if degree % 2 and n % 2 == 0 else ()


def _circulant_offset_sets(n: int, degree: int, seed: int) -> OffsetSets:
    """Return sets of offsets below n/2, each of which gives two links."""
    offsets, size = np.arange(1, (n + 1) // 2), degree // 2
    if comb(len(offsets), size) <= MOST_OFFSET_SETS:
        chosen = list(combinations(offsets.tolist(), size))
        return np.array(chosen, dtype=np.int64).reshape(len(chosen), size)
    stream = np.random.default_rng(seed)
    keys = stream.random((SAMPLED_OFFSET_SETS, len(offsets)))
    return np.sort(offsets[np.argsort(keys, axis=1)[:, :size]], axis=1)


def _circulant_offsets_by_mu2(
    n: int, sets: OffsetSets, middle: Offsets
) -> tuple[list[Offsets], list[float]]:
    """Return the offset sets and their mu2, the largest mu2 first.

    The k-th eigenvalue is the sum over offsets s of 2 - 2 cos(2 pi k s / n).
    """
    k = np.arange(1, n // 2 + 1)
    table = 2.0 - 2.0 * np.cos(2.0 * np.pi * np.outer(np.arange(n), k) / n)
    values = sum((table[column] for column in sets.T), np.zeros((len(sets), len(k))))
    for offset in middle:
        values = values + table[offset] / 2.0
    mu2 = values.min(axis=1)
    order = np.argsort(-mu2, kind="stable")
    chosen = [(*row, *middle) for row in sets[order].tolist()]
    return chosen, mu2[order].tolist()


def _unlike_circulant_offsets(
    n: int, sets: list[Offsets], mu2: list[float]
) -> Iterator[tuple[Offsets, float]]:
    """Yield offset sets, skipping those that a multiplier turns into an earlier one."""
    seen: set[Offsets] = set()
    units = [u for u in range(1, n // 2 + 1) if gcd(u, n) == 1]
    for offsets, value in zip(sets, mu2, strict=True):
        alike = min(_multiplied_circulant_offsets(offsets, u, n) for u in units)
        if alike not in seen:
            seen.add(alike)
            yield offsets, value


def _multiplied_circulant_offsets(offsets: Offsets, unit: int, n: int) -> Offsets:
    moved = (unit * offset % n for offset in offsets)
    return tuple(sorted(min(offset, n - offset) for offset in moved))


def _worst_coalition_with_party_0(
    topology: Topology, size: int, memory: list[tuple[int, ...]], *, above: float
) -> CoalitionWeakness:
    """Return the worst coalition of a graph whose parties are all alike.

    Any coalition can be moved to hold party 0, so those are all. What is not above
    `above` may be any coalition that bad; where there are too many, an attack decides.
    """
    adjacency, n = topology.adjacency.toarray(), topology.n_parties
    quick = least_of_coalitions(
        adjacency, [*memory, *suspect_coalitions(adjacency, size)], above=above
    )
    if quick.value <= above or size == 0:
        return quick
    if comb(n - 1, size - 1) > FEW_ROOTED_COALITIONS:
        return weakest_coalition(adjacency, size, above=above)
    rooted = [(0, *rest) for rest in combinations(range(1, n), size - 1)]
    return least_of_coalitions(adjacency, rooted, above=above)


def _candidate_with_worst_coalition(
    candidate: GraphSearchCandidate, size: int
) -> GraphSearchCandidate:
    """Add the worst coalition of a circulant graph, if all of them can be tried."""
    n = candidate.topology.n_parties
    if size and comb(n - 1, size - 1) > FEW_ROOTED_COALITIONS:
        return candidate
    worst = _worst_coalition_with_party_0(candidate.topology, size, [], above=-1.0)
    return replace(candidate, worst=worst)


# --- any graph --------------------------------------------------------------------


def weakest_coalition(
    adjacency: Matrix, size: int, *, above: float
) -> CoalitionWeakness:
    """Return a bad coalition; look further only while mu2 stays above a value."""
    found = least_of_coalitions(
        adjacency, suspect_coalitions(adjacency, size), above=above
    )
    if found.value <= above or size == 0:
        return found
    n = len(adjacency)
    if comb(n, size) <= FEW_COALITIONS:
        return least_of_coalitions(
            adjacency, list(combinations(range(n), size)), above=above
        )
    return least_of_coalitions(
        adjacency,
        [found.coalition, attack_mu2_by_coalition(adjacency, size)],
        above=above,
    )


def least_of_coalitions(
    adjacency: Matrix, sets: list[tuple[int, ...]], *, above: float
) -> CoalitionWeakness:
    """Return the worst of some coalitions, or the first bunch's that is bad enough."""
    best = CoalitionWeakness(np.inf, ())
    for low in range(0, len(sets), 64):
        bunch = sets[low : low + 64]
        values = mu2_without_coalitions(adjacency, np.array(bunch, dtype=np.int64))
        at = int(np.argmin(values))
        if values[at] < best.value:
            best = CoalitionWeakness(float(values[at]), bunch[at])
        if best.value <= above:
            break
    return best


def suspect_coalitions(adjacency: Matrix, size: int) -> list[tuple[int, ...]]:
    """Return two coalitions that are easily found and often bad."""
    return [
        around_the_weakest(adjacency, size),
        _least_missed_coalition(adjacency, size),
    ]


def _least_missed_coalition(adjacency: Matrix, size: int) -> tuple[int, ...]:
    """Take, one by one, the party whose loss the Fiedler vector minds least."""
    kept = list(range(len(adjacency)))
    for _ in range(size):
        left = adjacency[np.ix_(kept, kept)]
        del kept[int(np.argmin(_rayleigh_after_loss(left)))]
    return tuple(sorted(set(range(len(adjacency))) - set(kept)))


def _rayleigh_after_loss(adjacency: Matrix) -> Float[FloatArray, " n"]:
    """Return (mu2 - sum_j w_vj (x_j - x_v)^2) / (1 - x_v^2 h / (h - 1)) for each v."""
    h = len(adjacency)
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    # One eigenvector: numpy's solver of all of them takes up to thirty times as long.
    (mu2,), vectors = scipy.linalg.eigh(laplacian, subset_by_index=[1, 1])
    x = vectors[:, 0]
    lost = (adjacency * (x[:, None] - x[None, :]) ** 2).sum(axis=1)
    # A party that holds all of a vector's weight leaves nothing to compare.
    room = np.maximum(1.0 - x**2 * h / (h - 1), 1e-12)
    return np.asarray((mu2 - lost) / room)


def best_random_regular(
    n: int,
    *,
    degree: int,
    tolerate: int,
    seed: int = 0,
    on: Executor | None = None,
    progress: Opening = silent_progress,
) -> GraphSearchCandidate | None:
    """Return the best of some random regular graphs; None if there are none to draw.

    Dense ones are left out: drawing them takes long, and circulant graphs are as good.
    """
    degree -= n * degree % 2
    if not 3 <= degree <= n // 2:
        return None
    best, value = None, 0.0
    tries = min(RANDOM_GRAPHS, _graph_candidates_to_try(n))
    advance = progress("random regular graphs", tries)
    for some in _group_graph_candidates(iter(range(tries))):
        work = RandomRegular(n, degree, tolerate, seed, value * BETTER)
        ended = map_pieces(work, some, seed=seed, on=on)
        for tried, found in zip(some, ended, strict=True):
            if found > value * BETTER:
                best, value = tried, found
            advance(tried + 1)
    return None if best is None else _random_regular_candidate(n, degree, seed + best)


@dataclass(frozen=True, eq=False)
class RandomRegular:
    """Random regular graphs: called with the number of one, looks for its worst."""

    n: int
    degree: int
    tolerate: int
    seed: int
    above: float

    def __call__(self, key: int, seed: int) -> float:
        """Return what a coalition leaves of mu2, or what is low enough already."""
        del seed
        drawn = _random_regular_candidate(self.n, self.degree, self.seed + key).topology
        most = (self.n - self.tolerate) / self.n * algebraic_connectivity(drawn)
        if most <= self.above:
            return most
        adjacency = drawn.adjacency.toarray()
        return weakest_coalition(adjacency, self.tolerate, above=self.above).value


def _random_regular_candidate(n: int, degree: int, seed: int) -> GraphSearchCandidate:
    return _family_graph_candidate(
        "random regular", f"regular:{n}:{degree}:seed={seed}"
    )


def improved_by_swaps(
    starts: Sequence[Topology],
    *,
    degree: int,
    tolerate: int,
    seed: int = 0,
    on: Executor | None = None,
    progress: Opening = silent_progress,
    stopped: Callable[[], None] = lambda: None,
) -> GraphSearchCandidate | None:
    """Return a better graph within the degree, if a seeded local search finds one.

    Two links a-b, c-d become a-c, b-d. Losing a little is allowed at first, so that the
    search can leave a dead end; the best graph on the way counts. An interrupt ends
    the search, calls `stopped` and keeps that graph. From one start there is nothing to
    share: every step goes on from the last.
    """
    streams = (np.random.default_rng([seed, 1, k]) for k in range(len(starts)))
    searches = [
        _GraphSearchSwaps(start, degree, tolerate, own)
        for start, own in zip(starts, streams, strict=True)
    ]
    steps = max(50, 12_000 // starts[0].n_parties)
    advance = progress("exchanging links", steps)
    places = range(len(searches))
    try:
        for low in range(0, steps, LEG):
            leg = GraphSearchExchanges(
                tuple(searches), range(low, min(low + LEG, steps)), steps
            )
            shared = on if len(searches) > 1 else None
            searches = list(map_pieces(leg, places, seed=seed, on=shared))
            advance(min(low + LEG, steps))
    except KeyboardInterrupt:
        stopped()
    return max(searches, key=lambda search: search.best_value).result()


@dataclass(frozen=True, eq=False)
class GraphSearchExchanges:
    """Some steps of several searches: called with the place of one."""

    searches: tuple[_GraphSearchSwaps, ...]
    steps: range
    all_steps: int

    def __call__(self, key: int, seed: int) -> _GraphSearchSwaps:
        del seed
        search = self.searches[key]
        for step in self.steps:
            search.step(LEEWAY * (1.0 - step / self.all_steps))
        return search


class _GraphSearchSwaps:
    """The state of the local search: where it is, and the best it has seen."""

    def __init__(
        self, start: Topology, degree: int, size: int, stream: np.random.Generator
    ) -> None:
        self.start, self.size, self.stream = start, size, stream
        self.looks = CLOSE_LOOKS // start.n_parties**2 + 1
        # Links where the degree allows some: more links never weaken a graph.
        filled = start.adjacency.toarray()
        pairs = np.argwhere(np.triu(filled == 0, 1))
        for a, b in stream.permutation(pairs).tolist():
            if max(filled[a].sum(), filled[b].sum()) < degree:
                filled[a, b] = filled[b, a] = 1.0
        self.here = filled
        found = weakest_coalition(self.here, size, above=-1.0)
        self.value, self.memory = found.value, [found.coalition]
        self.best, self.best_value = self.here, found.value

    def step(self, leeway: float) -> None:
        """Try one exchange; keep it unless it loses more than the leeway."""
        other = _exchange_links_of_candidate(self.here, self.stream)
        if other is None or self.looks == 0:
            return
        least = self.value - leeway * self.best_value
        found = self._glance(other, least)
        if found.value > self.best_value * BETTER:
            # A glance may miss the worst; a new best has to stand a closer look.
            self.looks -= 1
            found = weakest_coalition(other, self.size, above=least)
            if found.coalition not in self.memory:
                self.memory = [found.coalition, *self.memory][:MEMORY]
        if found.value > least:
            self.here, self.value = other, found.value
            if found.value > self.best_value * BETTER:
                self.best, self.best_value = other, found.value

    def _glance(self, other: Matrix, least: float) -> CoalitionWeakness:
        """Return the worst of what spoilt graphs before and what is easily found."""
        found = least_of_coalitions(other, self.memory, above=least)
        if found.value <= least:
            return found
        return least_of_coalitions(
            other, [found.coalition, *suspect_coalitions(other, self.size)], above=0.0
        )

    def result(self) -> GraphSearchCandidate | None:
        """Return the best graph seen, with the parties' names; None for the start."""
        names, ends = self.start.parties, np.argwhere(np.triu(self.best))
        edges = [(names[a], names[b]) for a, b in ends.tolist()]
        found = Topology.from_edges(edges, parties=names)
        same = found == self.start
        return None if same else GraphSearchCandidate("edge swaps", "edges", found)


def _exchange_links_of_candidate(
    adjacency: Matrix, stream: np.random.Generator
) -> Matrix | None:
    """Return the graph with two links exchanged, None if the draw does not fit."""
    edges = np.argwhere(np.triu(adjacency))
    first, second = stream.integers(len(edges), size=2)
    (a, b), (c, d) = edges[first].tolist(), edges[second].tolist()
    if stream.random() < 0.5:
        c, d = d, c
    if len({a, b, c, d}) < 4 or adjacency[a, c] or adjacency[b, d]:
        return None
    other = adjacency.copy()
    for u, v, linked in ((a, b, 0.0), (c, d, 0.0), (a, c, 1.0), (b, d, 1.0)):
        other[u, v] = other[v, u] = linked
    return other
