"""Mixing over links that may be one-way: R and C, and how fast they bring agreement.

Rows of R add up to one, columns of C do. Repeated mixing with R ends in u'x for all,
repeated mixing with C in shares v_i of the sum. Disagreement is measured where mixing
shrinks it in every round: by sum u_i |x_i|^2 for estimates and by sum |y_i|^2 / v_i for
trackers. As with symmetric weights, an iteration of tracking multiplies three errors by
a 3 x 3 matrix M at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from veilsum.errors import InvalidGraphError
from veilsum.graphs.topology import Topology
from veilsum.minimise.methods.certificate import Bounds, Square
from veilsum.numbers.arrays import FloatArray, Matrix, Sparse, Vector
from veilsum.numbers.shapes import Float

Shares = Float[FloatArray, " n"]


def one_way_row_weights(topology: Topology) -> Sparse:
    """Return R: a receiver gives itself and all it hears equal weights.

    >>> arcs = Topology.from_edges([(0, 1), (1, 2), (2, 0), (0, 2)], directed=True)
    >>> one_way_row_weights(arcs).toarray()[2].round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    heard = one_way_hearing_matrix(topology)
    return scipy.sparse.csr_array(
        scipy.sparse.diags_array(1.0 / heard.sum(axis=1)) @ heard
    )


def one_way_column_weights(topology: Topology) -> Sparse:
    """Return C: a sender gives itself and all that hear it equal shares."""
    heard = one_way_hearing_matrix(topology)
    return scipy.sparse.csr_array(
        heard @ scipy.sparse.diags_array(1.0 / heard.sum(axis=0))
    )


def one_way_hearing_matrix(topology: Topology) -> Sparse:
    """Return who hears whom, and everyone itself: row i, column j if j tells i."""
    sender, receiver = topology.edges.T
    ones, shape = np.ones(len(sender)), (topology.n_parties, topology.n_parties)
    arcs = scipy.sparse.csr_array((ones, (receiver, sender)), shape=shape)
    both = arcs if topology.directed else arcs + arcs.T
    return scipy.sparse.csr_array(both + scipy.sparse.eye_array(topology.n_parties))


@dataclass(frozen=True, eq=False)
class OneWayMixing:
    """R and C of a graph, and where repeated mixing with them ends.

    Attributes:
        row: R.
        column: C.
        left: u, with u'R = u' and sum one.
        right: v, with Cv = v and sum one.
    """

    row: Matrix
    column: Matrix
    left: Shares
    right: Shares

    @classmethod
    def of(cls, topology: Topology) -> OneWayMixing:
        """Return the mixing of a graph in which everybody can be heard by everybody."""
        heard = one_way_hearing_matrix(topology)
        pieces, _ = scipy.sparse.csgraph.connected_components(
            heard, connection="strong"
        )
        if pieces > 1:
            raise InvalidGraphError(
                "over one-way links everybody must be able to reach everybody, and "
                f"this graph falls into {pieces} parts that do not reach each other "
                "both ways; add links back",
                code="not-strongly-connected",
            )
        row = one_way_row_weights(topology).toarray()
        column = one_way_column_weights(topology).toarray()
        return cls(
            row,
            column,
            _stationary_mixing_vector(row.T),
            _stationary_mixing_vector(column),
        )

    @property
    def gain(self) -> float:
        """Factor n u'v on the step with which parties follow the average gradient."""
        return float(len(self.left) * (self.left @ self.right))

    def rates(self, rounds: int) -> tuple[float, float]:
        """Return what this many rounds leave of disagreement, for R and for C."""
        here, there = np.sqrt(self.left), 1.0 / np.sqrt(self.right)
        row = np.linalg.matrix_power(self.row, rounds) - self.left
        column = np.linalg.matrix_power(self.column, rounds) - self.right[:, None]
        return _weighted_norm_of_mixing(row, here), _weighted_norm_of_mixing(
            column, there
        )

    def matrix(self, bounds: Bounds, step: float, rounds: int) -> Square:
        """Return M, by which an iteration on the whole space multiplies errors at most.

        They are |u'x - x*| and the disagreement of estimates and of trackers; the step
        is at most 2 / (mu_bar + L_bar) over the gain.
        """
        u, v, n = self.left, self.right, len(self.left)
        on_row, on_column = self.rates(rounds)
        eta, pull = step * self.gain, step * n
        # The average of gradients at x_i is this far from the gradient at u'x.
        astray = bounds.smooth * np.sqrt((1.0 / u).sum()) / n
        uneven_u = np.sqrt(v @ (u - u @ v) ** 2)
        uneven_v = pull * np.sqrt(u @ (v - u @ v) ** 2)
        whole_v = pull * np.sqrt(u @ v**2)
        mine = step * np.sqrt((u * v).max())
        top = bounds.mean_smooth
        change = bounds.smooth * np.sqrt((1.0 / (u * v)).max())
        far = [1.0 - eta * bounds.mean_convex, eta * astray, step * uneven_u]
        agree = np.array([uneven_v * top, 1.0 + uneven_v * astray, mine])
        moved = np.array([whole_v * top, 1.0 + on_row + whole_v * astray, mine])
        track = change * moved + np.array([0.0, 0.0, 1.0])
        return np.array([far, on_row * agree, on_column * track])


def _stationary_mixing_vector(columns: Matrix) -> Vector:
    """Return the v >= 0 of sum one with Cv = v, for columns that add up to one."""
    n = len(columns)
    system = np.vstack([columns - np.eye(n), np.ones((1, n))])
    target = np.zeros(n + 1)
    target[-1] = 1.0
    return np.asarray(np.linalg.lstsq(system, target, rcond=None)[0], dtype=np.float64)


def _weighted_norm_of_mixing(matrix: Matrix, scale: Shares) -> float:
    """Return ||D A D^-1||_2."""
    return float(np.linalg.norm(scale[:, None] * matrix / scale, 2))
