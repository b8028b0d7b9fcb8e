"""How far apart two alternatives look: the exact KL divergence of a coalition's views.

For Gaussian shares everything a coalition sees under A or under B is one Gaussian,
shifted; `conversions` says what one such number means. With s shares on each edge and
noise tau of each party's own, which does not cancel,

    Cov = s sigma^2 L_H + tau^2 I,    KL = d' Cov^-1 d / 2,    d = A - B on H.

tau = 0 is Function Sharing: the answer is exact and only inputs of equal honest sum
can be compared. tau > 0 hides the sum as well, and makes the answer inexact.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, InvalidPairError
from veilsum.graphs.connectivity import components
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import AgentRows, FloatArray, as_floats, listed
from veilsum.numbers.laws import check_sigma
from veilsum.numbers.shapes import Float
from veilsum.privacy.gaussians import DegenerateGaussian

# Two sums are equal when they differ by rounding error of what was added up: for each
# term half a unit in the last place, several times over since A and B were rounded too.
SUM_TOLERANCE = 8 * 2.0**-53

PerColumn = Float[FloatArray, " p"]


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
    spread, own = _per_column(sigma, rows_a), _own_noise(tau, rows_a)
    _check_agreement(topology, rows_a, rows_b, colluders)
    honest = [i for i in range(topology.n_parties) if i not in colluders]
    graph, shift = topology.induced(honest), (rows_a - rows_b)[honest]
    if own.any():
        parts = (
            _noisy_divergence(graph.induced(part), shift[list(part)], spread, own)
            for part in components(graph)
        )
        return float(sum(parts))
    check_pair(topology, rows_a, rows_b, colluders)
    scale = (abs(rows_a) + abs(rows_b))[honest]
    pieces = (
        _component_divergence(graph, part, shift, scale, spread)
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
    spread = _per_column(sigma, gaps[None, :])
    if not gaps.any():
        return 0.0
    size = float(((gaps / spread) ** 2).sum())
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
    topology: Topology, a: AgentRows, b: AgentRows, corrupted: frozenset[int]
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
    topology: Topology, a: AgentRows, b: AgentRows, corrupted: frozenset[int]
) -> None:
    """Refuse alternatives that the coalition tells apart by its own coefficients."""
    moved = [i for i in corrupted if not np.array_equal(a[i], b[i])]
    if moved:
        raise InvalidPairError(
            "A and B must agree on every corrupted party, which knows its own "
            f"coefficients; they differ on {listed(topology.names(moved))}"
        )


def _rows(topology: Topology, values: ArrayLike, name: str) -> AgentRows:
    array = as_floats(values, what=name)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != topology.n_parties:
        raise InvalidPairError(
            f"{name} must have one row for each of {topology.n_parties} parties, "
            f"found shape {array.shape}"
        )
    return rows


def _per_column(sigma: ArrayLike, rows: AgentRows) -> PerColumn:
    array, width = check_sigma(sigma), rows.shape[1]
    if array.shape not in {(), (width,)}:
        raise InvalidInputError(
            f"sigma must be one number or {width}, one for each coefficient, "
            f"found {array.size}"
        )
    return np.broadcast_to(array, (width,))


def _own_noise(tau: ArrayLike, rows: AgentRows) -> PerColumn:
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


def _sums_agree(shift: AgentRows, scale: AgentRows) -> bool:
    total, terms = np.abs(shift.sum(axis=0)), len(shift) + 2
    return bool((total <= SUM_TOLERANCE * terms * scale.sum(axis=0)).all())


def _component_divergence(
    graph: Topology,
    part: tuple[int, ...],
    shift: AgentRows,
    scale: AgentRows,
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
    piece: Topology, shift: AgentRows, sigma: PerColumn, tau: PerColumn
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
