"""Where parties stand when a network is drawn: links are short, strangers far apart.

The stress sum over pairs of (||x_i - x_j|| - hops_ij)^2 / hops_ij^2 is lowered step by
step from places on a circle (de Leeuw's majorisation): no chance is in it, and the same
network always looks the same.
"""

from __future__ import annotations

import numpy as np
import scipy

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.shapes import Float

# Above so many parties a picture shows nothing of single links: a circle will do.
MOST_PLACED = 400
STEPS = 200


def layout_of_graph(topology: Topology) -> Float[FloatArray, "n 2"]:
    """Return a place for every party within the unit circle.

    >>> (layout_of_graph(Topology.family("ring:4")).round(6) + 0.0).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]
    """
    n = topology.n_parties
    best = _layout_on_circle(np.arange(n))
    if 3 < n <= MOST_PLACED:
        hops = scipy.sparse.csgraph.shortest_path(
            topology.adjacency, unweighted=True, directed=False
        )
        # Pieces that no link joins stand farther apart than the widest of them.
        reached = np.isfinite(hops)
        hops[~reached] = hops[reached].max() + 2.0
        starts = [best, _layout_on_circle(_walk_to_nearest_vertices(topology))]
        best = min(
            (_settle_graph_layout(hops, one) for one in starts), key=lambda one: one[0]
        )[1]
    best = best - best.mean(axis=0)
    widest = float(np.linalg.norm(best, axis=1).max())
    return np.asarray(best / (widest or 1.0))


def _layout_on_circle(order: Array[np.int64]) -> FloatArray:
    turns = np.empty(len(order))
    turns[order] = 2.0 * np.pi * np.arange(len(order)) / max(len(order), 1)
    return np.stack([np.sin(turns), np.cos(turns)], axis=1)


def _walk_to_nearest_vertices(topology: Topology) -> Array[np.int64]:
    """Return parties in the order in which a walk to the nearest new one finds them."""
    left, order = set(range(topology.n_parties)), [0]
    left.discard(0)
    while left:
        away = topology.hops(topology.parties[order[-1]])
        known = {topology.index(name): hops for name, hops in away.items()}
        order.append(min(left, key=lambda i: (known.get(i, len(known) + 1), i)))
        left.discard(order[-1])
    return np.array(order)


def _settle_graph_layout(
    hops: FloatArray, places: FloatArray
) -> tuple[float, FloatArray]:
    with np.errstate(divide="ignore"):
        weights = np.where(hops > 0.0, hops**-2.0, 0.0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    # From a circle of the right size, so that the first steps do not fold it up.
    places = places * hops.max() / 2.0
    for _ in range(STEPS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        ratio = np.divide(
            weights * hops, apart, out=np.zeros_like(hops), where=apart > 0
        )
        pull = np.diag(ratio.sum(axis=1)) - ratio
        moved = inverse @ (pull @ places)
        done = float(np.abs(moved - places).max()) < 1e-4
        places = moved
        if done:
            break
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    return float((weights * (apart - hops) ** 2).sum()), places
