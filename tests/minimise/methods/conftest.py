"""The problem iterations are counted on: fifty parties' least squares, masked.

Data, graphs and shares are drawn with fixed seeds, so that counts repeat.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice

import networkx as nx
import numpy as np
import pytest

from method_states import iterations_of_method
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.certificate import Bounds
from veilsum.minimise.methods.recentring import recentre, recentring_rounds
from veilsum.numbers.arrays import frozen_array
from veilsum.numbers.limbs import (
    as_python_integers,
    limbs_from_integers,
    limbs_to_integers,
)

N, DIM, ROWS = 50, 5, 10
GRID = 2.0**-50


@dataclass(frozen=True, eq=False)
class Curvatures:
    """The remainder x'P_i x / 2, for one party or for all of them row by row."""

    matrices: np.ndarray
    kind: str = field(default="local", init=False)

    def gradient(self, x):
        return np.einsum("...ij,...j->...i", self.matrices, x)

    def rows(self, which):
        return Curvatures(self.matrices[which])


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Fifty parties with ten rows each; x* is theirs together."""

    matrices: np.ndarray
    vectors: np.ndarray

    @cached_property
    def solution(self):
        return np.linalg.solve(self.matrices.sum(axis=0), self.vectors.sum(axis=0))

    @cached_property
    def bounds(self):
        mean = np.linalg.eigvalsh(self.matrices.mean(axis=0))
        largest = np.linalg.eigvalsh(self.matrices).max()
        return Bounds(
            smooth=float(largest),
            mean_smooth=float(mean[-1]),
            mean_convex=float(mean[0]),
        )

    def effective(self, linear):
        """The costs x'P_i x / 2 + linear_i x."""
        return EffectiveCost(
            Affine(DIM), frozen_array(linear), Curvatures(self.matrices)
        )

    def masked(self, graph, sigma):
        return self.effective(masks(graph, sigma) - self.vectors)

    def recentred(self, graph, sigma):
        """Costs whose masked integers were drawn together, and how many rounds."""
        if sigma == 0:
            return self.masked(graph, sigma), 0
        topology, weights = Topology.from_networkx(graph), best(graph)
        rounds = recentring_rounds(
            topology, weights, sigma=sigma, size=DIM, residual=1.0
        )
        own = as_python_integers(np.rint(-self.vectors / GRID))
        masked = limbs_from_integers(own + whole_masks(graph, sigma), 2)
        drawn = limbs_to_integers(recentre(topology, weights, masked, rounds=rounds))
        return self.effective(drawn.astype(float) * GRID), rounds

    def error(self, x):
        return np.linalg.norm(x - self.solution, axis=-1).max()

    def states(self, method, weights, cost, most):
        """The start, and the states after each of so many iterations."""
        same = dict.fromkeys(("symmetric", "row", "column"), weights.toarray())
        return islice(
            iterations_of_method(method, same, cost, np.zeros((N, DIM))), most + 1
        )

    def count(self, method, weights, cost, *, tolerance=1e-8, most=20_000):
        """How many iterations until all are within the tolerance; None if never."""
        for state in self.states(method, weights, cost, most):
            if self.error(state.x) <= tolerance:
                return state.iteration
        return None


@lru_cache
def graph_called(name):
    return {
        "ring": lambda: nx.cycle_graph(N),
        "random": lambda: nx.gnp_random_graph(N, 0.15, seed=0),
        "regular": lambda: nx.random_regular_graph(6, N, seed=1),
    }[name]()


def masks(graph, sigma):
    """What every party's shares add up to, drawn link by link."""
    total = np.zeros((N, DIM))
    for i, j, sent, received in shares(graph, sigma):
        total[i] += sent - received
        total[j] -= sent - received
    return total


def whole_masks(graph, sigma):
    """The same in whole units of the grid, which add up to exactly zero."""
    total = as_python_integers(np.zeros((N, DIM)))
    for i, j, sent, received in shares(graph, sigma):
        units = [as_python_integers(np.rint(r / GRID)) for r in (sent, received)]
        total[i] += units[0] - units[1]
        total[j] -= units[0] - units[1]
    return total


def shares(graph, sigma):
    rng = np.random.default_rng(11)
    for i, j in graph.edges:
        yield i, j, *(sigma * rng.standard_normal((2, DIM)))


def metropolis(graph):
    return mixing_weights(Topology.from_networkx(graph), "metropolis")


def lazy(graph):
    return mixing_weights(Topology.from_networkx(graph), "lazy-metropolis")


def best(graph):
    return mixing_weights(Topology.from_networkx(graph), "best-constant")


@dataclass(frozen=True, eq=False)
class Network:
    """A graph and the weights that go with it."""

    name: str

    @property
    def graph(self):
        return graph_called(self.name)

    @cached_property
    def metropolis(self):
        return metropolis(self.graph)

    @cached_property
    def lazy(self):
        return lazy(self.graph)

    @cached_property
    def best(self):
        return best(self.graph)

    @cached_property
    def best_rate(self):
        return mixing_rate(self.best)


@pytest.fixture(scope="session")
def problem():
    rng = np.random.default_rng(3)
    truth = rng.standard_normal(DIM)
    matrices, vectors = [], []
    for _ in range(N):
        design = rng.standard_normal((ROWS, DIM)) * np.logspace(0.0, -0.5, DIM)
        response = design @ truth + 0.5 * rng.standard_normal(ROWS)
        matrices.append(design.T @ design / ROWS)
        vectors.append(design.T @ response / ROWS)
    return LeastSquares(np.array(matrices), np.array(vectors))


@pytest.fixture(scope="session")
def network():
    """Return a network by name: ring, random or regular."""
    return lru_cache(Network)
