"""How far apart two alternatives look: the exact KL divergence of a coalition's views.

For Gaussian shares everything a coalition sees under A or under B is one Gaussian,
shifted; `conversions` says what one such number means. With s shares on each edge and
noise tau of each party's own, which does not cancel,

    Cov = s sigma^2 L_H + tau^2 I,    KL = d' Cov^-1 d / 2,    d = A - B on H.

tau = 0 is Function Sharing: the answer is exact and only inputs of equal honest sum
can be compared. tau > 0 hides the sum as well, and makes the answer inexact.

All masks together are N+(0, c L), the degenerate Gaussian on the zero-sum subspace (the
paper's Lemma 1). Its density is with respect to Lebesgue measure on 1-perp, of
dimension n - 1. The pseudo-inverse is applied by a Cholesky solve of L + 11'/n, which
agrees with L^+ there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, pi
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from veilsum.errors import InvalidGraphError, InvalidInputError, InvalidPairError
from veilsum.graphs.connectivity import components, is_connected
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import FloatArray, PartyRows, as_floats, listed
from veilsum.numbers.laws import check_sigma
from veilsum.numbers.shapes import Float

# Two sums are equal when they differ by rounding error of what was added up: for each
# term half a unit in the last place, several times over since A and B were rounded too.
SUM_TOLERANCE = 8 * 2.0**-53

PerColumn = Float[FloatArray, " p"]

# A point is on the zero-sum subspace when its sum is rounding error of its size.
ZERO_SUM_TOLERANCE = 1e-9

Points = Float[FloatArray, "*batch n"]


def kl_divergence(
    topology: GraphLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    sigma: ArrayLike,
    corrupted: Iterable[Hashable] = (),
    tau: ArrayLike = 0.0,
) -> float:
    """Return the exact KL divergence between C's views under A and under B.

    sum_k d_k' L_H^+ d_k / (4 sigma_k^2) with d = A - B on the honest parties. Rows of
    A and B are parties (a flat list means one coefficient each); `sigma` is one number
    or one per column. A pair that breaks Definition 2 is refused. If G[H] is
    disconnected and some component's sum differs, the answer is infinite.

    With `tau` every party adds noise N(0, tau^2) of its own to what it publishes. It
    does not cancel: the answer is no longer exact, sums may differ between A and B, and
    the divergence is sum_k d_k' (2 sigma_k^2 L_H + tau_k^2 I)^-1 d_k / 2. Runs with
    fresh noise add their divergences.

    >>> triangle = Topology.family("complete:3")
    >>> kl_divergence(triangle, [1, 2, 3], [2, 1, 3], sigma=1.0, corrupted=["2"])
    0.25
    >>> kl_divergence(triangle, [1, 2, 3], [1, 3, 3], sigma=1.0, tau=1.0)
    0.21428571428571427
    """
    topology = Topology.of(topology)
    colluders = topology.indices(corrupted)
    rows_a, rows_b = _rows(topology, a, "A"), _rows(topology, b, "B")
    if rows_a.shape != rows_b.shape:
        raise InvalidPairError(
            f"A and B differ in shape: {rows_a.shape} and {rows_b.shape}"
        )
    sigmas, own = _per_column(sigma, rows_a), _own_noise(tau, rows_a)
    _check_agreement(topology, rows_a, rows_b, colluders)
    honest = [i for i in range(topology.n_parties) if i not in colluders]
    graph, shift = topology.induced(honest), (rows_a - rows_b)[honest]
    if own.any():
        parts = (
            _noisy_divergence(graph.induced(part), shift[list(part)], sigmas, own)
            for part in components(graph)
        )
        return float(sum(parts))
    check_pair(topology, rows_a, rows_b, colluders)
    scale = (abs(rows_a) + abs(rows_b))[honest]
    pieces = (
        _component_divergence(graph, part, shift, scale, sigmas)
        for part in components(graph)
    )
    return float(sum(pieces))


def swap_divergence(
    topology: GraphLike,
    first: Hashable,
    second: Hashable,
    *,
    gap: ArrayLike,
    sigma: ArrayLike,
    corrupted: Iterable[Hashable] = (),
) -> float:
    """Return the KL divergence of exchanging the values of two honest parties.

    gap^2 R / (4 sigma^2), R the effective resistance between them in G[H]; `gap` is how
    far their values are apart, one number or one per coefficient. Infinite where the
    coalition separates the two.

    >>> petersen = Topology.family("petersen")
    >>> round(swap_divergence(petersen, "0", "1", gap=1.0, sigma=1.0), 12)
    0.15
    """
    topology = Topology.of(topology)
    resistance = effective_resistance(topology, first, second, corrupted=corrupted)
    gaps = np.atleast_1d(as_floats(gap, what="the gap"))
    sigmas = _per_column(sigma, gaps[None, :])
    if not gaps.any():
        return 0.0
    size = float(((gaps / sigmas) ** 2).sum())
    return size * resistance / (2.0 * topology.shares_per_edge)


def effective_resistance(
    topology: GraphLike,
    first: Hashable,
    second: Hashable,
    *,
    corrupted: Iterable[Hashable] = (),
) -> float:
    """Return R = (e_i - e_j)' L_H^+ (e_i - e_j), each edge conducting its weight.

    Infinite where the two are in different pieces of G[H].

    >>> ring = Topology.family("ring:4")
    >>> round(effective_resistance(ring, "0", "1"), 12)
    0.75
    """
    topology = Topology.of(topology)
    colluders = topology.indices(corrupted)
    ends = topology.indices([first, second])
    if ends & colluders:
        raise InvalidPairError(
            f"{listed(topology.names(ends & colluders))} is corrupted and knows its "
            "own value; choose two honest parties"
        )
    graph = topology.without(colluders)
    i, j = graph.index(first), graph.index(second)
    (part,) = (part for part in components(graph) if i in part)
    if j not in part:
        return inf
    return _resistance(graph.induced(part), part.index(i), part.index(j))


def check_pair(
    topology: Topology, a: PartyRows, b: PartyRows, corrupted: frozenset[int]
) -> None:
    """Refuse a pair that Definition 2 does not compare, naming what it breaks."""
    _check_agreement(topology, a, b, corrupted)
    honest = [i for i in range(topology.n_parties) if i not in corrupted]
    if not _sums_agree(a[honest] - b[honest], abs(a[honest]) + abs(b[honest])):
        gap = np.abs((a[honest] - b[honest]).sum(axis=0)).max()
        raise InvalidPairError(
            "A and B must have the same sum over the honest parties, which every view "
            f"reveals; the sums differ by {gap:.6g}"
        )


def _check_agreement(
    topology: Topology, a: PartyRows, b: PartyRows, corrupted: frozenset[int]
) -> None:
    """Refuse alternatives that the coalition tells apart by its own coefficients."""
    moved = [i for i in corrupted if not np.array_equal(a[i], b[i])]
    if moved:
        raise InvalidPairError(
            "A and B must agree on every corrupted party, which knows its own "
            f"coefficients; they differ on {listed(topology.names(moved))}"
        )


def _rows(topology: Topology, values: ArrayLike, name: str) -> PartyRows:
    array = as_floats(values, what=name)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != topology.n_parties:
        raise InvalidPairError(
            f"{name} must have one row for each of {topology.n_parties} parties, "
            f"found shape {array.shape}"
        )
    return rows


def _per_column(sigma: ArrayLike, rows: PartyRows) -> PerColumn:
    array, width = check_sigma(sigma), rows.shape[1]
    if array.shape not in {(), (width,)}:
        raise InvalidInputError(
            f"sigma must be one number or {width}, one for each coefficient, "
            f"found {array.size}"
        )
    return np.broadcast_to(array, (width,))


def _own_noise(tau: ArrayLike, rows: PartyRows) -> PerColumn:
    array, width = as_floats(tau, what="tau"), rows.shape[1]
    if array.shape not in {(), (width,)}:
        raise InvalidInputError(
            f"tau must be one number or {width}, one for each coefficient, "
            f"found {array.size}"
        )
    if not ((array > 0).all() or (array == 0).all()):
        raise InvalidInputError(
            "tau must be positive, or zero for every coefficient: a coefficient "
            f"without it has its exact sum released; found {array}"
        )
    return np.broadcast_to(array, (width,))


def _sums_agree(shift: PartyRows, scale: PartyRows) -> bool:
    total, terms = np.abs(shift.sum(axis=0)), len(shift) + 2
    return bool((total <= SUM_TOLERANCE * terms * scale.sum(axis=0)).all())


def _component_divergence(
    graph: Topology,
    part: tuple[int, ...],
    shift: PartyRows,
    scale: PartyRows,
    sigma: PerColumn,
) -> float:
    """Return one component's part: infinite when its sum tells A from B."""
    here = list(part)
    if not _sums_agree(shift[here], scale[here]):
        return inf
    if len(part) == 1:
        return 0.0
    unit = DegenerateGaussian(graph.induced(here), float(graph.shares_per_edge))
    # Projecting removes the sum's rounding error, which L^+ must not see.
    centred = shift[here] - shift[here].mean(axis=0)
    return float((unit.kl_divergence(centred.T) / sigma**2).sum())


def _noisy_divergence(
    piece: Topology, shift: PartyRows, sigma: PerColumn, tau: PerColumn
) -> float:
    """Return a connected piece's part of d' (s sigma^2 L + tau^2 I)^-1 d / 2.

    The mean is split off by hand: only tau hides it, and small tau must not turn the
    rounding error of an eigenvector into a divergence.
    """
    mean = shift.mean(axis=0)
    values, vectors = np.linalg.eigh(piece.laplacian.toarray())
    along = vectors[:, 1:].T @ (shift - mean)
    noise = piece.shares_per_edge * values[1:, None] * sigma**2 + tau**2
    told_by_the_sum = len(shift) * (mean / tau) ** 2
    return 0.5 * float((along**2 / noise).sum() + told_by_the_sum.sum())


def _resistance(piece: Topology, i: int, j: int) -> float:
    if i == j:
        return 0.0
    apart = np.zeros(piece.n_parties)
    apart[i], apart[j] = 1.0, -1.0
    return float(DegenerateGaussian(piece, 1.0).squared_norm(apart))


@dataclass(frozen=True, eq=False)
class DegenerateGaussian:
    """The law of one coordinate of all masks: U^k ~ N+(0, c L), c = 2 sigma^2."""

    topology: Topology
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise InvalidInputError(
                f"the scale c must be positive and finite, found {self.scale}"
            )
        if not is_connected(self.topology):
            raise InvalidGraphError(
                "N+(0, cL) needs a connected graph; take its components one by one"
            )

    @cached_property
    def _factor(self) -> Any:
        """Return the Cholesky factor of L + 11'/n."""
        n = self.topology.n_parties
        shifted = self.topology.laplacian.toarray() + np.full((n, n), 1.0 / n)
        return linalg.cho_factor(shifted, lower=True)

    def sample(self, stream: np.random.Generator, size: int) -> Points:
        """Return `size` draws, (size, n): each is Theta times weighted edge noise."""
        noise = stream.standard_normal((self.topology.n_edges, size))
        noise *= np.sqrt(self.scale * self.topology.weights)[:, None]
        return np.asarray(self.topology.incidence @ noise).T

    def apply_pinv(self, points: Points) -> Points:
        """Return L^+ times each zero-sum point."""
        solved = linalg.cho_solve(self._factor, points.reshape(-1, points.shape[-1]).T)
        return solved.T.reshape(points.shape)

    def squared_norm(self, points: Points) -> FloatArray:
        """Return r' L^+ r / c for each zero-sum point r."""
        product = np.einsum("...n,...n->...", points, self.apply_pinv(points))
        return np.asarray(product / self.scale)

    def log_density(self, points: Points) -> FloatArray:
        """Return the log density on 1-perp; -inf for a point that is not zero-sum."""
        size = np.abs(points).sum(axis=-1)
        inside = np.abs(points.sum(axis=-1)) <= ZERO_SUM_TOLERANCE * size
        log_volume = (
            self._rank * log(2 * pi * self.scale) + self._log_pseudo_determinant
        )
        density = -0.5 * (log_volume + self.squared_norm(points))
        return np.where(inside, density, -np.inf)

    def kl_divergence(self, shift: Points) -> FloatArray:
        """Return the divergence between this law and itself moved by a zero-sum shift.

        d' L^+ d / (2 c); with c = 2 sigma^2 this is the paper's d' L^+ d / (4 sigma^2).
        """
        return np.asarray(0.5 * self.squared_norm(shift))

    @property
    def _rank(self) -> int:
        return self.topology.n_parties - 1

    @cached_property
    def _log_pseudo_determinant(self) -> float:
        """Return log(mu_2 ... mu_n): L + 11'/n has the same with one eigenvalue 1."""
        lower, _ = self._factor
        return 2.0 * float(np.log(np.diag(lower)).sum())
