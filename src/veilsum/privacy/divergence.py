"""How far apart two alternatives look: exact KL divergence and what it means.

For Gaussian shares everything a coalition sees under A or under B is one Gaussian,
shifted; one number, the KL divergence, fixes every test's performance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf, sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr

from veilsum.core.arrays import AgentRows, FloatArray, as_floats, listed
from veilsum.core.connectivity import components
from veilsum.core.gaussians import DegenerateGaussian
from veilsum.core.masking import check_sigma
from veilsum.core.topology import Topology
from veilsum.errors import InvalidInputError, InvalidPairError

# Two sums are equal when they differ by rounding error of what was added up.
SUM_TOLERANCE = 1e-12


def kl_divergence(
    topology: Topology,
    a: ArrayLike,
    b: ArrayLike,
    *,
    sigma: ArrayLike,
    corrupted: Iterable[Hashable] = (),
) -> float:
    """Return the exact KL divergence between C's views under A and under B.

    sum_k d_k' L_H^+ d_k / (4 sigma_k^2) with d = A - B on the honest parties. Rows of
    A and B are parties (a flat list means one coefficient each); `sigma` is one number
    or one per column. A pair that breaks Definition 2 is refused. If G[H] is
    disconnected and some component's sum differs, the answer is infinite.

    >>> triangle = Topology.family("complete:3")
    >>> kl_divergence(triangle, [1, 2, 3], [2, 1, 3], sigma=1.0, corrupted=["2"])
    0.25
    """
    colluders = topology.indices(corrupted)
    rows_a, rows_b = _rows(topology, a, "A"), _rows(topology, b, "B")
    check_pair(topology, rows_a, rows_b, colluders)
    spread = _per_column(sigma, rows_a)
    honest = [i for i in range(topology.n_agents) if i not in colluders]
    shift, scale = ((rows_a - rows_b)[honest], (abs(rows_a) + abs(rows_b))[honest])
    graph = topology.induced(honest)
    return sum(
        _component_divergence(graph, part, shift, scale, spread)
        for part in components(graph)
    )


def check_pair(
    topology: Topology, a: AgentRows, b: AgentRows, corrupted: frozenset[int]
) -> None:
    """Refuse a pair that Definition 2 does not compare, naming what it breaks."""
    if a.shape != b.shape:
        raise InvalidPairError(f"A and B differ in shape: {a.shape} and {b.shape}")
    moved = [i for i in corrupted if not np.array_equal(a[i], b[i])]
    if moved:
        raise InvalidPairError(
            "A and B must agree on every corrupted party, which knows its own "
            f"coefficients; they differ on {listed(topology.names(moved))}"
        )
    honest = [i for i in range(topology.n_agents) if i not in corrupted]
    if not _sums_agree(a[honest] - b[honest], abs(a[honest]) + abs(b[honest])):
        gap = np.abs((a[honest] - b[honest]).sum(axis=0)).max()
        raise InvalidPairError(
            "A and B must have the same sum over the honest parties, which every view "
            f"reveals; the sums differ by {gap:.6g}"
        )


def attacker_success(divergence: float) -> float:
    """Return the best guesser's chance of telling A from B at equal odds.

    Phi(sqrt(KL / 2)), exact for Gaussian shares.

    >>> round(attacker_success(0.25), 5)
    0.63816
    """
    if not divergence >= 0:
        raise InvalidInputError(f"a divergence is not negative, found {divergence}")
    return float(ndtr(sqrt(divergence / 2.0)))


def _rows(topology: Topology, values: ArrayLike, name: str) -> AgentRows:
    array = as_floats(values, what=name)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != topology.n_agents:
        raise InvalidPairError(
            f"{name} must have one row for each of {topology.n_agents} parties, "
            f"found shape {array.shape}"
        )
    return rows


def _per_column(sigma: ArrayLike, rows: AgentRows) -> FloatArray:
    array, width = check_sigma(sigma), rows.shape[1]
    if array.shape not in {(), (width,)}:
        raise InvalidInputError(
            f"sigma must be one number or {width}, one for each coefficient, "
            f"found {array.size}"
        )
    return np.broadcast_to(array, (width,))


def _sums_agree(shift: AgentRows, scale: AgentRows) -> bool:
    total = np.abs(shift.sum(axis=0))
    return bool((total <= SUM_TOLERANCE * scale.sum(axis=0)).all())


def _component_divergence(
    graph: Topology,
    part: tuple[int, ...],
    shift: AgentRows,
    scale: AgentRows,
    sigma: Float[FloatArray, " p"],
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
