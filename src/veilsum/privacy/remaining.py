"""Values of mu2 without a coalition: eigenvalues, quick verdicts, bounds.

A verdict "clear" is a proof that mu2 stays above a level, at a fraction of the cost of
the eigenvalue itself. The bound on a whole family of coalitions D + S is

    mu2(G - D - S) >= lambda_min on 1-perp of L_{G-D} - diag(c),

c_i the most that S, chosen among the candidates, can take from party i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray, Matrix
from veilsum.numbers.shapes import Bool, Float, Int

Sets = Int[Array[np.int64], "b t"]
Values = Float[FloatArray, " b"]
Verdicts = Bool[Array[np.bool_], " b"]

# Matrix entries held at once by a batch of coalitions: 4 MB, about a core's cache.
BATCH_ENTRIES = 500_000
# Above this size matrices are taken one by one.
BATCH_PARTIES = 200


def mu2_without_coalitions(adjacency: Matrix, sets: Sets) -> Values:
    """Return mu2 of what is left after each set, by batched dense eigenvalues."""
    laplacians = laplacians_without_coalitions(adjacency, sets)
    if laplacians.shape[1] <= BATCH_PARTIES:
        return np.asarray(np.linalg.eigvalsh(laplacians)[:, 1])
    # One eigenvalue of a large matrix costs half of all of them.
    select = {"eigvals_only": True, "subset_by_index": [1, 1]}
    return np.array([scipy.linalg.eigh(one, **select)[0] for one in laplacians])


def laplacians_without_coalitions(
    adjacency: Matrix, sets: Sets
) -> Float[FloatArray, "b h h"]:
    """Return the Laplacians of G - C, one for each set C."""
    n = len(adjacency)
    kept = np.ones((len(sets), n), dtype=np.bool_)
    np.put_along_axis(kept, sets, values=False, axis=1)
    rows = np.nonzero(kept)[1].reshape(len(sets), n - sets.shape[1])
    left = adjacency[rows[:, :, None], rows[:, None, :]]
    laplacians = -left
    diagonal = np.arange(rows.shape[1])
    laplacians[:, diagonal, diagonal] = left.sum(axis=2)
    return laplacians


def clear_coalitions_directly(adjacency: Matrix, sets: Sets, level: float) -> Verdicts:
    """Return which sets provably leave mu2 > level: L - level I is positive on 1-perp.

    Cholesky costs a fraction of the eigenvalues; the ones are lifted out of the way.
    """
    shifted = laplacians_without_coalitions(adjacency, sets)
    h = shifted.shape[1]
    shifted += 2.0 * adjacency.sum(axis=1).max() / h
    diagonal = np.arange(h)
    shifted[:, diagonal, diagonal] -= level
    return _remaining_mu2_is_above(shifted)


def _remaining_mu2_is_above(matrices: Float[FloatArray, "b h h"]) -> Verdicts:
    """Return which matrices have a Cholesky factor; halve a batch until it is known."""
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.zeros(1, dtype=np.bool_)
        middle = len(matrices) // 2
        return np.concatenate(
            [
                _remaining_mu2_is_above(matrices[:middle]),
                _remaining_mu2_is_above(matrices[middle:]),
            ]
        )
    return np.ones(len(matrices), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class EdgeTest:
    """The same verdict from small matrices, for large sparse graphs.

    Removing C removes its edges B B': L' = L - B B'. With K = L - level I, inertia of
    [[K, B], [B', I]] gives neg(K - BB') = neg(K) + neg(I - B' K^-1 B). K has one
    negative eigenvalue (level < mu2(G)); L' should have 1 + t, the zeros of the honest
    part and of t lone parties. So the small matrix must have exactly t.
    """

    topology: Topology
    level: float
    inverse: Matrix = field(init=False, repr=False)
    incident: list[Array[np.int64]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = self.topology.n_parties
        shifted = self.topology.laplacian.toarray() - self.level * np.eye(n)
        object.__setattr__(self, "inverse", np.linalg.inv(shifted))
        ends = self.topology.edges
        rows = [np.flatnonzero((ends == v).any(axis=1)) for v in range(n)]
        object.__setattr__(self, "incident", rows)

    def clear(self, sets: Sets) -> Verdicts:
        """Return which sets provably leave mu2 > level."""
        groups: dict[int, list[int]] = {}
        edges = [np.unique(np.concatenate([self.incident[v] for v in s])) for s in sets]
        for row, touched in enumerate(edges):
            groups.setdefault(len(touched), []).append(row)
        verdicts = np.zeros(len(sets), dtype=np.bool_)
        for rows in groups.values():
            chosen = np.array([edges[row] for row in rows])
            negative = (np.linalg.eigvalsh(self._small(chosen)) < 0).sum(axis=1)
            verdicts[rows] = negative == sets.shape[1]
        return verdicts

    def _small(self, chosen: Int[Array[np.int64], "b k"]) -> FloatArray:
        i, j = np.moveaxis(self.topology.edges[chosen], -1, 0)
        root = np.sqrt(self.topology.weights[chosen])

        def block(a: Array[np.int64], b: Array[np.int64]) -> FloatArray:
            return self.inverse[a[:, :, None], b[:, None, :]]

        product = block(i, i) - block(i, j) - block(j, i) + block(j, j)
        product *= root[:, :, None] * root[:, None, :]
        return np.eye(chosen.shape[1]) - product


def mu2_bound_of_coalitions(
    adjacency: Matrix, gone: Sequence[int], candidates: Array[np.int64], more: int
) -> float:
    """Return a lower bound on mu2 after losing `gone` and any `more` candidates."""
    (laplacian,) = laplacians_without_coalitions(
        adjacency, np.array([gone], dtype=np.int64)
    )
    kept = np.setdiff1d(np.arange(len(adjacency)), gone)
    weights = np.sort(adjacency[np.ix_(kept, candidates)], axis=1)
    laplacian -= np.diag(
        weights[:, -more:].sum(axis=1) if more else np.zeros(len(kept))
    )
    h = len(kept)
    laplacian += 4.0 * adjacency.sum(axis=1).max() / h
    return float(np.linalg.eigvalsh(laplacian)[0])


def mu2_values_without_coalitions(
    adjacency: Matrix, sets: Sequence[tuple[int, ...]]
) -> Values:
    """Return mu2 after each of several coalitions, a cacheful at a time."""
    array = np.array(sets, dtype=np.int64).reshape(len(sets), -1)
    parts = pieces_of_coalition_sets(array, len(adjacency) - array.shape[1])
    return np.concatenate([mu2_without_coalitions(adjacency, piece) for piece in parts])


def pieces_of_coalition_sets(sets: Sets, height: int) -> Iterator[Sets]:
    """Cut coalitions into batches whose matrices stay in cache."""
    step = max(64, BATCH_ENTRIES // height**2)
    for low in range(0, len(sets), step):
        yield sets[low : low + step]
