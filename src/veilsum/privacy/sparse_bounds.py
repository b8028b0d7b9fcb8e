"""Bounds on the worst coalition of a large sparse graph, without trying them all.

Losing S costs each neighbour i of S the weight w_S(i); for x on the honest parties

    x' L_H x  >=  tau (mu2(G) |x|^2 - sum_i w_S(i) x_i^2) + (1 - tau) x' L_H x.

A party that lost links still has others, and a vector that is large there and small
around it has energy on them. Give every outside party o a share eta / c_o of its mass
for each of its c_o links to neighbours of S; a link then holds back
k(c) = a (eta/c) / (a + eta/c), a = 1 - tau, of x_i^2. If at every neighbour i

    eta + sum over its outside links of k(c_o)  >=  tau w_S(i),

then mu2(G - S) >= tau mu2(G) - eta. Unweighted graphs only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray

# How much of mu2(G) is carried over; the best of these is taken.
CARRIED = np.linspace(0.05, 1.0, 96)
HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Hurt:
    """A neighbour of S: how many links it lost, and the c_o of its outside links."""

    lost: int
    outside: tuple[int, ...]


def sparse_bound(topology: Topology, *, mu2: float, size: int) -> float:
    """Return a lower bound on mu2 after losing any `size` parties.

    For one or two parties of an unweighted graph; Fiedler's mu2 - size otherwise. Two
    parties without a common neighbour take at most one link from anybody; the others
    are looked at pair by pair.
    """
    plain = mu2 - size * float(topology.weights.max())
    if (topology.weights != 1).any() or size not in {1, 2}:
        return plain
    neighbours = _neighbours(topology)
    if size == 1:
        sets: Iterable[tuple[int, ...]] = ((v,) for v in range(len(neighbours)))
        return max(plain, _best_bound(_kinds(neighbours, sets), mu2))
    near = _best_bound(_kinds(neighbours, _meeting_pairs(neighbours)), mu2)
    return max(plain, min(mu2 - 1.0, near))


def _neighbours(topology: Topology) -> list[list[int]]:
    adjacency = topology.adjacency
    pairs = zip(adjacency.indptr[:-1], adjacency.indptr[1:], strict=True)
    return [adjacency.indices[low:high].tolist() for low, high in pairs]


def _meeting_pairs(neighbours: list[list[int]]) -> set[tuple[int, ...]]:
    """Return the pairs of parties that have a neighbour in common."""
    return {
        (min(u, v), max(u, v))
        for around in neighbours
        for u, v in combinations(around, 2)
    }


def _kinds(neighbours: list[list[int]], sets: Iterable[tuple[int, ...]]) -> set[Hurt]:
    """Return the different things that losing one of the sets does to a neighbour."""
    return {hurt for members in sets for hurt in _hurts(neighbours, members)}


def _hurts(neighbours: list[list[int]], members: tuple[int, ...]) -> Iterator[Hurt]:
    lost = Counter(i for s in members for i in neighbours[s] if i not in members)
    reached = Counter(
        o for i in lost for o in neighbours[i] if o not in lost and o not in members
    )
    for i, count in lost.items():
        outside = sorted(reached[o] for o in neighbours[i] if o in reached)
        yield Hurt(count, tuple(outside))


def _best_bound(kinds: set[Hurt], mu2: float) -> float:
    """Return the best of tau mu2 - eta, eta just enough for every kind of neighbour."""
    lost = np.array([hurt.lost for hurt in kinds])
    links = _links_by_crowding(kinds)
    best = max(tau * mu2 - _needed(lost, links, tau) for tau in CARRIED.tolist())
    return float(best)


def _links_by_crowding(kinds: set[Hurt]) -> FloatArray:
    """Return, for each kind, how many of its outside links have c_o = 1, 2, ..."""
    most = max((max(hurt.outside, default=1) for hurt in kinds), default=1)
    counts = [np.bincount(hurt.outside, minlength=most + 1)[1:] for hurt in kinds]
    return np.array(counts, dtype=np.float64)


def _needed(lost: Array[np.int64], links: FloatArray, tau: float) -> float:
    """Return the least eta that satisfies the condition everywhere, by halving.

    The condition only gets easier with eta, and eta = tau w_S(i) always satisfies it;
    the upper end of the last interval is returned, so the bound stays on the safe side.
    """
    a, crowding = 1.0 - tau, np.arange(1, links.shape[1] + 1)
    low, high = 0.0, tau * float(lost.max())
    for _ in range(HALVINGS):
        eta = 0.5 * (low + high)
        share = eta / crowding
        held = (links * (a * share / (a + share))).sum(axis=1)
        enough = bool((eta + held >= tau * lost).all())
        low, high = (low, eta) if enough else (eta, high)
    return high
