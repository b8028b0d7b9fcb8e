"""Vertex-transitive graphs: every party looks like every other.

On such a graph any coalition can be moved so that it holds party 0, so only those need
to be searched.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array

# Finding symmetries is hard in general: beyond this size, and after so many looks for
# each party, the search is not worth it.
MOST_PARTIES, LOOKS_PER_PARTY = 128, 40
# Odd, and its bits look random: sums of its multiples seldom fall together.
_MIX = np.uint64(0x9E3779B97F4A7C15)

Colours: TypeAlias = Array[np.uint64]


def is_vertex_transitive(topology: Topology) -> bool:
    """Return whether some symmetry takes party 0 to every other party.

    False may also mean "not looked for" or "not found in time": on large or unevenly
    weighted graphs, and on those made to be hard.

    >>> is_vertex_transitive(Topology.family("petersen"))
    True
    """
    n = topology.n_parties
    if n > MOST_PARTIES or np.unique(topology.weights).size > 1:
        return False
    if not _graph_looks_alike(topology):
        return False
    return _GraphSymmetries(topology).reach_everybody()


def _graph_looks_alike(topology: Topology) -> bool:
    """Return whether closed walks of every short length are as many at all parties."""
    adjacency = topology.adjacency.toarray()
    power = adjacency
    for _ in range(5):
        power = power @ adjacency
        if np.ptp(np.diag(power)) > 0:
            return False
    return bool(np.ptp(topology.degrees) == 0)


class _GraphSymmetries:
    """Looks for symmetries of a graph, and gives up after a bounded number of looks.

    Parties have colours, which whoever has the same kinds of neighbours shares. One
    party is made special on either side, and colours are refined until they tell all
    parties apart, which spells a map, or differ, which says that there is none.
    """

    def __init__(self, topology: Topology) -> None:
        self.linked = (topology.adjacency.toarray() != 0).astype(np.uint64)
        self.looks = LOOKS_PER_PARTY * topology.n_parties

    def reach_everybody(self) -> bool:
        n = len(self.linked)
        found = []
        # The graphs that are mostly asked about come with one: everybody moves on by 1.
        turn = np.roll(np.arange(n), -1)
        if self._is_symmetry(turn):
            found.append(turn)
        while len(reached := _orbit_of_graph_symmetries(found)) < n:
            target = min(set(range(n)) - reached)
            plain = np.zeros(n, dtype=np.uint64)
            move = self._move(plain, plain, 0, target)
            if move is None:
                return False
            found.append(move)
        return True

    def _move(
        self, ours: Colours, theirs: Colours, one: int, other: int
    ) -> Array[np.int64] | None:
        self.looks -= 1
        if self.looks < 0:
            return None
        ours, theirs = ours.copy(), theirs.copy()
        ours[one] = theirs[other] = len(ours)
        kinds = 0
        while True:
            pair = [self._finer(ours), self._finer(theirs)]
            names, shared = np.unique(np.concatenate(pair), return_inverse=True)
            ours, theirs = np.split(shared.astype(np.uint64), 2)
            if not np.array_equal(np.sort(ours), np.sort(theirs)):
                return None
            if len(names) == kinds:
                break
            kinds = len(names)
        if kinds == len(ours):
            move = np.argsort(theirs)[np.argsort(np.argsort(ours))]
            return move if self._is_symmetry(move) else None
        many = np.flatnonzero(np.bincount(ours.astype(np.int64)) > 1)[0]
        first = int(np.flatnonzero(ours == many)[0])
        for choice in np.flatnonzero(theirs == many).tolist():
            found = self._move(ours, theirs, first, choice)
            if found is not None or self.looks < 0:
                return found
        return None

    def _finer(self, colours: Colours) -> Colours:
        mixed = (colours + np.uint64(1)) * _MIX
        mixed ^= mixed >> np.uint64(29)
        return self.linked @ (mixed * _MIX) * _MIX + mixed

    def _is_symmetry(self, move: Array[np.int64]) -> bool:
        return np.array_equal(self.linked[np.ix_(move, move)], self.linked)


def _orbit_of_graph_symmetries(moves: list[Array[np.int64]]) -> set[int]:
    reached, new = {0}, [0]
    while new:
        party = new.pop()
        there = {int(move[party]) for move in moves} - reached
        reached |= there
        new += there
    return reached
