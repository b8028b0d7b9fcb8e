"""Mixing weights W: symmetric, W 1 = 1, w_ij != 0 only between neighbours.

`rho` is the factor by which one round of mixing shrinks disagreement at least,
rho(W) = ||W - 11'/n||_2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from veilsum.errors import InvalidGraphError, InvalidInputError, NumericalError
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import Sparse, nearest_name

# Up to this many parties eigenvalues are found by a dense solve.
DENSE_PARTIES = 1500


def metropolis_weights(topology: Topology) -> Sparse:
    """Return w_ij = 1 / (1 + max(d_i, d_j)): needs the two ends' degrees only."""
    i, j = _links_for_mixing_weights(topology)
    degrees = topology.degrees
    return _weights_from_graph_links(
        topology, 1.0 / (1.0 + np.maximum(degrees[i], degrees[j]))
    )


def lazy_metropolis(topology: Topology) -> Sparse:
    """Return (I + W) / 2 of the Metropolis weights: positive semidefinite."""
    half = 0.5 * scipy.sparse.eye_array(topology.n_parties)
    return scipy.sparse.csr_array(half + 0.5 * metropolis_weights(topology))


def max_degree_weights(topology: Topology) -> Sparse:
    """Return I - L / (1 + d_max)."""
    return _weights_from_graph_links(topology, 1.0 / (1.0 + topology.degrees.max()))


def best_constant_weights(topology: Topology) -> Sparse:
    """Return I - 2 / (mu2 + mu_n) L, the fastest weights that are all equal."""
    _links_for_mixing_weights(topology)
    # Mixing averages neighbours alike: noise weights play no part in it.
    laplacian = topology.incidence @ topology.incidence.T
    spectrum = scipy.linalg.eigh(laplacian.toarray(), eigvals_only=True)
    return _weights_from_graph_links(topology, 2.0 / (spectrum[1] + spectrum[-1]))


MIXING: dict[str, Callable[[Topology], Sparse]] = {
    "metropolis": metropolis_weights,
    "lazy-metropolis": lazy_metropolis,
    "max-degree": max_degree_weights,
    "best-constant": best_constant_weights,
}


def mixing_weights(topology: GraphLike, name: str) -> Sparse:
    """Return the weights with which neighbours average, by their name.

    >>> mixing_weights(Topology.family("path:2"), "metropolis").toarray().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    topology = Topology.of(topology)
    if name not in MIXING:
        raise InvalidInputError(
            f"no mixing weights are called {name!r}; "
            f"{nearest_name(name, MIXING)}choose "
            f"from {', '.join(MIXING)}",
            code="unknown-weights",
        )
    return MIXING[name](topology)


def mixing_rate(weights: Sparse) -> float:
    """Return rho(W) = ||W - 11'/n||_2 of symmetric weights.

    By a dense solve for few parties, by Lanczos' method to full precision for many.
    """
    n = weights.shape[0]
    if n <= DENSE_PARTIES:
        deviation = weights.toarray() - np.full((n, n), 1.0 / n)
        return float(np.abs(scipy.linalg.eigh(deviation, eigvals_only=True)).max())
    deviation = scipy.sparse.linalg.LinearOperator(
        (n, n), matvec=lambda x: weights @ x - x.mean(), dtype=np.float64
    )
    # A fixed start: everybody has to find the same number.
    start = np.cos(np.arange(n))
    try:
        found = scipy.sparse.linalg.eigsh(
            deviation, k=1, v0=start, return_eigenvectors=False, maxiter=20 * n
        )
    except scipy.sparse.linalg.ArpackNoConvergence:
        raise NumericalError(
            f"how fast this graph of {n:,} parties mixes could not be found: use one "
            "with more links, or method dgd or one-shot, which do not ask",
            code="mixing-rate-unknown",
        ) from None
    return float(abs(found[0]))


def _links_for_mixing_weights(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    if topology.directed:
        raise InvalidGraphError(
            "symmetric mixing weights need an undirected graph; this one has arcs",
            code="directed-graph",
        )
    i, j = topology.edges.T
    return i, j


def _weights_from_graph_links(topology: Topology, link: np.ndarray | float) -> Sparse:
    """Return I - Theta diag(w) Theta' for weights w of the links."""
    _links_for_mixing_weights(topology)
    weight = np.broadcast_to(link, (topology.n_edges,))
    if (found := topology.balanced(weight, total=1.0)) is not None:
        return found
    theta = topology.incidence
    scale = scipy.sparse.diags_array(weight)
    identity = scipy.sparse.eye_array(topology.n_parties)
    return scipy.sparse.csr_array(identity - theta @ scale @ theta.T)
