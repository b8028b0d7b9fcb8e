"""Better networks by exchanging links: a local search on m_t(G).

Two links a-b, c-d become a-c, b-d, so every party keeps its number of links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Matrix
from veilsum.privacy.graph_search import (
    BETTER,
    MEMORY,
    Candidate,
    Progress,
    Weakness,
    least_of,
    silent,
    suspects,
    weakest,
)

# Close looks at exchanges that seem a new best, times n^2: each may take long.
CLOSE_LOOKS = 20_000
# A swap may lose so much at first, relative to the best, to leave a dead end.
LEEWAY = 0.05


def improved_by_swaps(
    starts: Sequence[Topology],
    *,
    degree: int,
    tolerate: int,
    seed: int = 0,
    progress: Progress = silent,
    stopped: Callable[[], None] = lambda: None,
) -> Candidate | None:
    """Return a better graph within the degree, if a seeded local search finds one.

    Two links a-b, c-d become a-c, b-d. Losing a little is allowed at first, so that the
    search can leave a dead end; the best graph on the way counts. An interrupt ends
    the search, calls `stopped` and keeps that graph.
    """
    stream = np.random.default_rng([seed, 1])
    searches = [_Swaps(start, degree, tolerate, stream) for start in starts]
    steps = max(50, 12_000 // starts[0].n_parties)
    advance = progress("exchanging links", steps)
    try:
        for step in range(steps):
            for search in searches:
                search.step(LEEWAY * (1.0 - step / steps))
            advance(step + 1)
    except KeyboardInterrupt:
        stopped()
    return max(searches, key=lambda search: search.best_value).result()


class _Swaps:
    """The state of the local search: where it is, and the best it has seen."""

    def __init__(
        self, start: Topology, degree: int, size: int, stream: np.random.Generator
    ) -> None:
        self.start, self.size, self.stream = start, size, stream
        self.looks = CLOSE_LOOKS // start.n_parties**2 + 1
        self.here = _filled(start.adjacency.toarray(), degree, stream)
        found = weakest(self.here, size, above=-1.0)
        self.value, self.memory = found.value, [found.coalition]
        self.best, self.best_value = self.here, found.value

    def step(self, leeway: float) -> None:
        """Try one exchange; keep it unless it loses more than the leeway."""
        other = _exchanged(self.here, self.stream)
        if other is None or self.looks == 0:
            return
        least = self.value - leeway * self.best_value
        found = self._glance(other, least)
        if found.value > self.best_value * BETTER:
            # A glance may miss the worst; a new best has to stand a closer look.
            self.looks -= 1
            found = weakest(other, self.size, above=least)
            self._remember(found.coalition)
        if found.value > least:
            self._move(other, found.value)

    def _glance(self, other: Matrix, least: float) -> Weakness:
        """Return the worst of what spoilt graphs before and what is easily found."""
        found = least_of(other, self.memory, above=least)
        if found.value <= least:
            return found
        return least_of(
            other, [found.coalition, *suspects(other, self.size)], above=0.0
        )

    def _remember(self, coalition: tuple[int, ...]) -> None:
        if coalition not in self.memory:
            self.memory = [coalition, *self.memory][:MEMORY]

    def _move(self, other: Matrix, value: float) -> None:
        self.here, self.value = other, value
        if value > self.best_value * BETTER:
            self.best, self.best_value = other, value

    def result(self) -> Candidate | None:
        """Return the best graph seen, with the parties' names; None for the start."""
        names, ends = self.start.parties, np.argwhere(np.triu(self.best))
        edges = [(names[a], names[b]) for a, b in ends.tolist()]
        found = Topology.from_edges(edges, parties=names)
        same = found == self.start
        return None if same else Candidate("edge swaps", "edges", found)


def _filled(adjacency: Matrix, degree: int, stream: np.random.Generator) -> Matrix:
    """Add links where the degree allows some: more links never weaken a graph."""
    filled = adjacency.copy()
    pairs = np.argwhere(np.triu(filled == 0, 1))
    for a, b in stream.permutation(pairs).tolist():
        if max(filled[a].sum(), filled[b].sum()) < degree:
            filled[a, b] = filled[b, a] = 1.0
    return filled


def _exchanged(adjacency: Matrix, stream: np.random.Generator) -> Matrix | None:
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
