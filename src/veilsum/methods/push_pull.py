"""Push-Pull: gradient tracking over links that may be one-way.

    x+ = P[ R (x - a y) ]                     each receiver divides what it hears
    y+ = C ( y + (g(x+) - g(x)) )             each sender divides what it tells

Rows of R add up to one, so estimates come to agree; columns of C do, so the sum of the
trackers is kept. In the end agents agree on u'x and hold shares v_i of the sum of the
gradients, u'R = u' and Cv = v, and move by a n u'v times the average gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from veilsum.graphs.topology import Topology
from veilsum.methods.exchange import Weighting
from veilsum.methods.gradient_tracking import GradientTracking, TrackingState
from veilsum.numbers.arrays import Sparse


@dataclass(frozen=True)
class PushPull(GradientTracking):
    """Gradient tracking with R for estimates and C for trackers."""

    def parts(self, state: TrackingState) -> tuple[Weighting, ...]:
        """Return the receivers' weights, or the senders' in the second round."""
        return ("column",) if state.moved else ("row",)


def row_weights(topology: Topology) -> Sparse:
    """Return R: a receiver gives itself and all it hears equal weights.

    >>> arcs = Topology.from_edges([(0, 1), (1, 2), (2, 0), (0, 2)], directed=True)
    >>> row_weights(arcs).toarray()[2].round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    heard = who_hears(topology)
    return sparse.csr_array(sparse.diags_array(1.0 / heard.sum(axis=1)) @ heard)


def column_weights(topology: Topology) -> Sparse:
    """Return C: a sender gives itself and all that hear it equal shares."""
    heard = who_hears(topology)
    return sparse.csr_array(heard @ sparse.diags_array(1.0 / heard.sum(axis=0)))


def who_hears(topology: Topology) -> Sparse:
    """Return who hears whom, and everyone itself: row i, column j if j tells i."""
    sender, receiver = topology.edges.T
    ones, shape = np.ones(len(sender)), (topology.n_parties, topology.n_parties)
    arcs = sparse.csr_array((ones, (receiver, sender)), shape=shape)
    both = arcs if topology.directed else arcs + arcs.T
    return sparse.csr_array(both + sparse.eye_array(topology.n_parties))
