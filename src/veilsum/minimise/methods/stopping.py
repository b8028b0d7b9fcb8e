"""When to stop: all parties at the same iteration, without anybody who counts.

Now and then each party looks at how far it moved in the last iteration, its estimate
and its aim. The largest of these numbers travels along with the messages: everybody
tells the largest it has heard of. After as many rounds as the graph is wide everybody
knows it, and all draw the same conclusion. Costs have no part in it: their values would
show constants that no mask covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import scipy

from veilsum.graphs.topology import Topology
from veilsum.minimise.methods.base import Fault
from veilsum.minimise.methods.one_way import one_way_hearing_matrix
from veilsum.numbers.arrays import FloatArray, Sparse, Vectors
from veilsum.numbers.shapes import Float

# Iterations between two looks, if the graph is not wider.
LOOK_EVERY = 10
# Up to this many parties the graph's width is computed, beyond it is bounded.
EXACT_PARTIES = 400

# Faults under which nobody can tell when a word has reached everybody.
UNSURE: frozenset[Fault] = frozenset({"loss", "delay", "stragglers", "changing"})

Moves = Float[FloatArray, "*batch"]


@dataclass(frozen=True)
class StoppingRule:
    """The rule, the same for all.

    Attributes:
        tolerance: how far estimates may be from the answer.
        patience: how many times its last move an estimate may be from the answer.
        lag: iterations until a look is known to everybody.
    """

    tolerance: float
    patience: float
    every: int
    lag: int

    @classmethod
    def on(
        cls,
        topology: Topology,
        *,
        tolerance: float,
        patience: float,
        rounds_per_iteration: int,
    ) -> StoppingRule:
        """Return the rule for a graph and for a method that talks so often."""
        lag = ceil(rounds_to_reach_everybody(topology) / rounds_per_iteration)
        return cls(tolerance, patience, max(LOOK_EVERY, lag), lag)

    def looks_at(self, iteration: int) -> bool:
        return iteration > 0 and iteration % self.every == 0

    def decides_at(self, iteration: int) -> bool:
        return iteration > self.lag and self.looks_at(iteration - self.lag)

    def residual(self, x: Vectors, before: Vectors) -> Moves:
        """Return how far from the answer a move of this size may leave a party."""
        return np.asarray(self.patience * np.linalg.norm(x - before, axis=-1))

    def is_enough(self, largest: float) -> bool:
        return largest <= self.tolerance


def rounds_to_reach_everybody(topology: Topology) -> int:
    """Return how many rounds any word takes to reach everybody, or a few more."""
    links = one_way_hearing_matrix(topology)
    if topology.n_parties <= EXACT_PARTIES:
        return _farthest_from_stopping_source(links, None)
    return _farthest_from_stopping_source(links, [0]) + _farthest_from_stopping_source(
        scipy.sparse.csr_array(links.T), [0]
    )


def _farthest_from_stopping_source(links: Sparse, sources: list[int] | None) -> int:
    steps = scipy.sparse.csgraph.shortest_path(links, unweighted=True, indices=sources)
    return int(steps.max())
