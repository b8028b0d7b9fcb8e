"""Recentring: masked numbers drawn to their average before phase II, sum kept exactly.

Every party replaces its masked coefficients by nearly the average of all of them, in
rounds of Chebyshev mixing. This only looks at masked numbers, so it costs no privacy,
and what phase II sees afterwards is small whatever sigma was.

Mixing moves integers along links: in each round

    F_ij <- round((om - 1) F_ij + om w_ij (y_j - y_i)),    y_i <- y_i + sum_j F_ij,

with a rounding that is odd, round(-a) = -round(a), so that F_ji = -F_ij and whatever
one end gains the other loses: the sum is conserved to the last unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import acosh, ceil, sqrt
from typing import Any

import numpy as np

from veilsum.graphs.mixing import mixing_rate
from veilsum.graphs.topology import Topology
from veilsum.masks.fixed_point import Integers
from veilsum.numbers.arrays import Array, FloatArray, Sparse
from veilsum.numbers.limbs import (
    add_wide_integers,
    as_python_integers,
    combine_wide_integers,
    is_wide_integer_type,
    limbs_from_integers,
    limbs_to_integers,
    subtract_wide_integers,
)
from veilsum.numbers.shapes import Float

# Differences of integers become float64 here; a product within float64 is enough, since
# each round starts from the exact integers again.
Flow = Float[FloatArray, "e p"]
EdgeWeights = Float[FloatArray, " e"]


def recentring_rounds(
    topology: Topology, weights: Sparse, *, sigma: float, size: int, residual: float
) -> int:
    """Return how many rounds leave masks of about `residual`, whatever was drawn.

    ceil(acosh(sigma sqrt(2 d p n) / residual) / acosh(1 / rho)).
    """
    rho = mixing_rate(weights)
    if rho < 1e-12:
        return 1
    variance = 2.0 * int(topology.degrees.max()) * size * topology.n_parties
    shrink = max(1.5, sigma * sqrt(variance) / residual)
    return ceil(acosh(shrink) / acosh(1.0 / rho))


def recentre(
    topology: Topology, weights: Sparse, masked: Integers, *, rounds: int
) -> Integers:
    """Return every party's integers after some rounds; their sum is untouched."""
    (i, j), along = topology.edges.T, recentring_edge_weights(topology, weights)
    flow = np.zeros((topology.n_edges, masked.shape[1]))
    y = masked
    for omega in chebyshev_factors_of_mixing(mixing_rate(weights), rounds):
        flow = next_recentring_flow(
            flow, recentred_differences(y[j], y[i]), along, omega
        )
        y = add_wide_integers(
            y,
            combine_wide_integers(
                topology.incidence, recentring_flow_as_integers(flow, y.dtype)
            ),
        )
    return y


def recentred_differences(one: Integers, other: Array[Any]) -> FloatArray:
    """Return one - other, each number rounded to float64."""
    return limbs_to_integers(subtract_wide_integers(one, other)).astype(np.float64)


def recentring_flow_as_integers(flow: Flow, kind: np.dtype[Any]) -> Integers:
    """Return whole numbers in float64 as int64, or as limbs."""
    if not is_wide_integer_type(kind):
        return flow.astype(kind)
    return limbs_from_integers(as_python_integers(flow), kind.itemsize // 8)


def next_recentring_flow(
    flow: Flow, difference: Flow, weights: EdgeWeights, omega: float
) -> Flow:
    """Return F_ij of the next round from y_j - y_i; odd in both arguments."""
    return np.rint((omega - 1.0) * flow + omega * (weights[:, None] * difference))


def chebyshev_factors_of_mixing(rho: float, rounds: int) -> Iterator[float]:
    """Yield om_1 = 1, om_2 = 1 / (1 - rho^2 / 2), om_k+1 = 1 / (1 - rho^2 om_k / 4)."""
    omega = 1.0
    for k in range(rounds):
        if k == 1:
            omega = 1.0 / (1.0 - rho * rho / 2.0)
        elif k > 1:
            omega = 1.0 / (1.0 - rho * rho * omega / 4.0)
        yield omega


def recentring_edge_weights(topology: Topology, weights: Sparse) -> EdgeWeights:
    """Return w_ij of every link, in the order of the links."""
    i, j = topology.edges.T
    return np.asarray(weights.tocsr()[i, j], dtype=np.float64).ravel()
