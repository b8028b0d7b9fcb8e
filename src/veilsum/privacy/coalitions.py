"""Which t parties, colluding, leave the honest graph weakest.

m_t(G) = min over |C| = t of mu2(G - C); by Lemma A smaller coalitions do no worse. An
attack is found by greed and exchange; a search then proves that nothing is below it,
set by set, skipping whole families that a bound already clears.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, islice
from math import comb

import numpy as np
import scipy

from veilsum.graphs.connectivity import LongSearchError, vertex_connectivity
from veilsum.graphs.symmetry import is_vertex_transitive
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, Matrix, Vector
from veilsum.privacy.remaining import (
    BATCH_ENTRIES,
    EdgeTest,
    Sets,
    Verdicts,
    clear_coalitions_directly,
    laplacians_without_coalitions,
    mu2_bound_of_coalitions,
    mu2_values_without_coalitions,
    pieces_of_coalition_sets,
)
from veilsum.progress import Report
from veilsum.scale.pieces import map_pieces

# How far below the attack a coalition must reach to count, relative to the largest
# degree: far above rounding, far below anything that matters.
SLACK = 1e-11
# Values this near to each other, relatively, are one value of a symmetric graph.
ALIKE = 1e-9
# The attack tries every party of a small graph, and the best-looking of a large one.
TRY_ALL = 64
TRY_BEST = 3
# A family this small is cleared set by set; bounding it would cost as much.
SMALL_FAMILY = 500
# What a coalition costs even in a small graph, and what attacks may cost in all, both
# in multiplications: about a minute. A file says how large the graph and t are.
LEAST_PER_SET, MOST_PER_ATTACK = 2e5, 5e11
# No test is quicker than a tenth of one for thirty parties, however few are left.
LEAST_PER_TEST = 0.1
# Pieces of coalitions that are looked at together, so that whoever shares the work has
# enough to do before all of it is waited for.
PIECES = 32
# Bounding stops at a depth where, after so many tries, few families were skipped.
PATIENCE, PAYS = 30, 0.1


@dataclass(frozen=True, slots=True)
class CoalitionBracket:
    """lower <= m_t <= upper, the upper attained by a coalition.

    `interrupted` says that a person stopped the search.
    """

    lower: float
    upper: float
    coalition: tuple[int, ...]
    exact: bool
    interrupted: bool = False


def attack_mu2_by_coalition(adjacency: Matrix, size: int) -> tuple[int, ...]:
    """Return a coalition that leaves mu2 low: greedy starts, then single exchanges.

    Where that would take too much work, the best found by then.
    """
    if size == 0:
        return ()
    work = _CoalitionWork(len(adjacency), MOST_PER_ATTACK)
    starts = [
        _greedy_coalition(adjacency, size, work),
        around_the_weakest(adjacency, size),
    ]
    found = [one for one in starts if one is not None]
    if size > 1:  # of one party, all exchanges have been tried by the first start
        found = [_exchange_coalition_members(adjacency, one, work) for one in found]
    return found[
        _first_least_coalition(mu2_values_without_coalitions(adjacency, found))
    ]


@dataclass(slots=True)
class _CoalitionWork:
    parties: int
    left: float

    def allows(self, sets: int, gone: int) -> bool:
        """Charge for one more party beside each of so many sets, if there is enough."""
        others = self.parties - gone
        tries = others if others <= TRY_ALL else 1 + TRY_BEST
        self.left -= sets * tries * (others**3 + LEAST_PER_SET)
        return self.left >= 0


def _greedy_coalition(
    adjacency: Matrix, size: int, work: _CoalitionWork
) -> tuple[int, ...] | None:
    """Take one party after the other, each the worst loss at its turn."""
    chosen: tuple[int, ...] = ()
    for _ in range(size):
        if not work.allows(1, len(chosen)):
            return None
        tries = [
            _coalition_with_member(chosen, v)
            for v in _promising_coalition_members(adjacency, chosen)
        ]
        chosen = tries[
            _first_least_coalition(mu2_values_without_coalitions(adjacency, tries))
        ]
    return chosen


def around_the_weakest(adjacency: Matrix, size: int) -> tuple[int, ...]:
    """Take the strongest links away from a party of least degree."""
    weakest = int(np.argmin(adjacency.sum(axis=1)))
    nearest = np.argsort(-adjacency[weakest], kind="stable")
    picked = [int(v) for v in nearest if v != weakest][:size]
    return tuple(sorted(picked))


def _exchange_coalition_members(
    adjacency: Matrix, start: tuple[int, ...], work: _CoalitionWork
) -> tuple[int, ...]:
    """Swap one member for one outsider while that lowers mu2."""
    best, value = start, float(mu2_values_without_coalitions(adjacency, [start])[0])
    while work.allows(len(best), len(best) - 1):
        tries = [
            _coalition_with_member(rest, v)
            for rest in combinations(best, len(best) - 1)
            for v in _promising_coalition_members(adjacency, rest)
        ]
        values = mu2_values_without_coalitions(adjacency, tries)
        if values.min() >= value * (1 - ALIKE):
            return best
        least = _first_least_coalition(values)
        best, value = tries[least], float(values[least])
    return best


def _first_least_coalition(values: Vector) -> int:
    """Return the place of the least value; of equal ones but for rounding, the first.

    So that every party names the same coalition, whatever its machine's rounding is.
    """
    least = values.min()
    return int(np.flatnonzero(values <= least + ALIKE * abs(least))[0])


def _coalition_with_member(members: tuple[int, ...], other: int) -> tuple[int, ...]:
    return tuple(sorted((*members, other)))


def _promising_coalition_members(adjacency: Matrix, gone: tuple[int, ...]) -> list[int]:
    """Return the parties worth trying next: all of a few, the best-looking of many.

    Looks are Rayleigh quotients: with x the Fiedler vector of G - D,
    mu2(G - D - v) <= (mu2 - sum_j w_vj (x_j - x_v)^2) / (1 - x_v^2 h / (h - 1)).
    """
    others = [v for v in range(len(adjacency)) if v not in gone]
    if len(others) <= TRY_ALL:
        return others
    (laplacian,) = laplacians_without_coalitions(
        adjacency, np.array([gone], dtype=np.int64)
    )
    (mu2,), vectors = scipy.linalg.eigh(laplacian, subset_by_index=[1, 1])
    x = vectors[:, 0]
    left = adjacency[np.ix_(others, others)]
    lost = (left * (x[:, None] - x[None, :]) ** 2).sum(axis=1)
    h = len(others)
    score = (mu2 - lost) / (1.0 - x**2 * h / (h - 1))
    return [others[k] for k in np.argsort(score)[:TRY_BEST]]


@dataclass(eq=False)
class CoalitionSearch:
    """Proves that no coalition is below the attack, or finds one that is.

    The state is what an interrupt leaves behind: the best coalition so far, and how
    many first members have been dealt with.
    """

    topology: Topology
    size: int
    most_work: float
    progress: Report | None = None
    on: Executor | None = None
    best: tuple[int, ...] = ()
    value: float = np.inf
    work: float = 0.0
    done: int = 0
    _edge_test: EdgeTest | None = None
    _bounded: dict[int, tuple[int, int]] = field(default_factory=dict)
    _waiting: list[Sets] = field(default_factory=list)

    def run(self) -> CoalitionBracket:
        """Return the exact minimum, or the best bracket when stopped early."""
        self.adjacency = self.topology.adjacency.toarray()
        self._offer(attack_mu2_by_coalition(self.adjacency, self.size))
        firsts = range(1 if self._symmetric() else self.topology.n_parties)
        try:
            for first in firsts if self.size else ():
                self._clear_family((first,))
                if first == firsts[-1] or self._batch_is_full():
                    self._clear_waiting()
                    self.done = first + 1
                    if self.progress is not None:
                        self.progress(self.done, len(firsts))
        except _OutOfWorkError:
            return self._open_bracket()
        except KeyboardInterrupt:
            return replace(self._open_bracket(), interrupted=True)
        return CoalitionBracket(self.value, self.value, self.best, exact=True)

    def _symmetric(self) -> bool:
        """Symmetries are worth looking for where they save more than they cost."""
        many = comb(self.topology.n_parties, self.size) > SMALL_FAMILY
        return self.size > 1 and many and is_vertex_transitive(self.topology)

    def _offer(self, coalition: tuple[int, ...]) -> None:
        value = float(mu2_values_without_coalitions(self.adjacency, [coalition])[0])
        if value < self._level:
            self.best = coalition  # not for a mere difference in rounding
        if value < self.value:
            self.value, self._edge_test = value, None

    @property
    def _level(self) -> float:
        """Value below which a coalition is worse than the best so far."""
        return self.value - SLACK * float(self.adjacency.sum(axis=1).max())

    def _clear_family(self, members: tuple[int, ...]) -> None:
        """Deal with every coalition that starts with these members, in index order."""
        later = range(members[-1] + 1, self.topology.n_parties)
        more = self.size - len(members)
        if self._not_worth_bounding(len(later), more):
            for sets in _completions_of_coalition(members, later, more, self._batch):
                self._waiting.append(sets)
                if self._batch_is_full():
                    self._clear_waiting()
        elif not self._pruned(members, np.array(later), more):
            for following in later:
                self._clear_family((*members, following))

    def _not_worth_bounding(self, later: int, more: int) -> bool:
        """Whether a family is small, or bounding families like it has not paid."""
        tried, pruned = self._bounded.get(more, (0, 0))
        useless = tried >= PATIENCE and pruned < PAYS * tried
        return more < 2 or useless or comb(later, more) <= SMALL_FAMILY

    def _pruned(
        self, members: tuple[int, ...], later: Array[np.int64], more: int
    ) -> bool:
        self._spend(3.0 * self._cost(self.topology.n_parties - len(members)))
        cleared = (
            mu2_bound_of_coalitions(self.adjacency, members, later, more) > self.value
        )
        tried, pruned = self._bounded.get(more, (0, 0))
        self._bounded[more] = (tried + 1, pruned + cleared)
        return cleared

    @property
    def _batch(self) -> int:
        """Number of coalitions held and evaluated together.

        At most as many as the work limit allows, or as many as stay in cache.
        """
        piece = -(-BATCH_ENTRIES // (self.topology.n_parties - self.size) ** 2)
        left = int((self.most_work - self.work) / self._test_cost)
        return max(piece, min(PIECES * piece, left))

    def _batch_is_full(self) -> bool:
        return sum(map(len, self._waiting)) >= self._batch

    def _clear_waiting(self) -> None:
        """Clear sets by a cheap test; look closely at those it does not clear."""
        if not self._waiting:
            return
        sets = np.concatenate(self._waiting)
        self._waiting.clear()
        parts = list(
            pieces_of_coalition_sets(sets, self.topology.n_parties - self.size)
        )
        for piece, cleared in zip(parts, self._verdicts(parts), strict=True):
            self._spend(len(piece) * self._test_cost)
            for coalition in piece[~cleared].tolist():
                self._offer(tuple(coalition))

    def _verdicts(self, parts: list[Array[np.int64]]) -> Iterator[Verdicts]:
        """Yield which sets of each piece are cleared, at the level of that time."""
        if self.on is None:
            yield from map(self._test, parts)
            return
        level = self._level
        work = CoalitionClearing(
            self.topology, level, tuple(parts), edges=self._prefers_edges
        )
        shared = map_pieces(work, range(len(parts)), seed=0, on=self.on)
        for piece, cleared in zip(parts, shared, strict=True):
            # Found since, a worse coalition asks for another test: the one that it
            # would have been had nobody shared the work.
            yield cleared if self._level == level else self._test(piece)

    def _test(self, sets: Sets) -> Verdicts:
        if not self._prefers_edges:
            return clear_coalitions_directly(self.adjacency, sets, self._level)
        if self._edge_test is None:
            self._edge_test = EdgeTest(self.topology, self._level)
        return self._edge_test.clear(sets)

    @property
    def _prefers_edges(self) -> bool:
        """Whether C's edges are so few that their matrix is much the smaller one."""
        touched = self.size * float(self.topology.degrees.max())
        return 4 * touched < self.topology.n_parties - self.size

    @staticmethod
    def _cost(height: int) -> float:
        """The work of one dense matrix, in units of one for thirty parties."""
        return (height / 30.0) ** 3

    @property
    def _test_cost(self) -> float:
        if self._prefers_edges:
            small = self._cost(self.size * int(self.topology.degrees.max()))
            return 1.0 + 2.5 * small
        return max(self._cost(self.topology.n_parties - self.size), LEAST_PER_TEST)

    def _spend(self, work: float) -> None:
        self.work += work
        if self.work > self.most_work:
            raise _OutOfWorkError

    def _open_bracket(self) -> CoalitionBracket:
        """Return what is known when the first `done` members have been dealt with."""
        left = np.arange(self.done, self.topology.n_parties)
        lower = fiedler_bound_after_coalition(self.topology, self.size)
        if len(left) >= self.size:
            lower = max(
                lower, mu2_bound_of_coalitions(self.adjacency, [], left, self.size)
            )
        return CoalitionBracket(
            min(lower, self.value), self.value, self.best, exact=False
        )


@dataclass(frozen=True, eq=False)
class CoalitionClearing:
    """A cheap test of many coalitions: called with the place of a piece of them."""

    topology: Topology
    level: float
    parts: tuple[Array[np.int64], ...]  # the last one is shorter
    edges: bool

    def __call__(self, key: int, seed: int) -> Verdicts:
        """Return which sets of one piece provably leave mu2 above the level."""
        del seed
        if self.edges:
            return _coalition_edge_test(self.topology, self.level).clear(
                self.parts[key]
            )
        adjacency = self.topology.adjacency.toarray()
        return clear_coalitions_directly(adjacency, self.parts[key], self.level)


@lru_cache(maxsize=1)
def _coalition_edge_test(topology: Topology, level: float) -> EdgeTest:
    """Return the test; whoever works for others is given the same graph many times."""
    return EdgeTest(topology, level)


def _completions_of_coalition(
    members: tuple[int, ...], later: range, more: int, most: int
) -> Iterator[Sets]:
    """Yield every coalition made of these members and `more` later ones.

    So many at a time: all of them may be more than any memory holds.
    """
    tails = combinations(later, more)
    while rows := list(islice(tails, most)):
        found = np.array(rows, dtype=np.int64).reshape(len(rows), more)
        heads = np.tile(np.array(members, dtype=np.int64), (len(rows), 1))
        yield np.hstack([heads, found])


class _OutOfWorkError(Exception):
    """The search has used up the work it was given."""


def fiedler_bound_after_coalition(topology: Topology, size: int) -> float:
    """Return Fiedler's 2 (kappa - t) (1 - cos(pi / (n - t))); 0 on weighted graphs."""
    if (topology.weights != 1).any():
        return 0.0
    try:
        spare = vertex_connectivity(topology) - size
    except LongSearchError:
        return 0.0
    return (
        2.0 * max(spare, 0) * (1.0 - float(np.cos(np.pi / (topology.n_parties - size))))
    )
