"""Integer flows near the electrical one: what moving discrete Gaussian draws costs.

A view is computed from the draws, so moving the s draws of every link by integers y
that add up to a flow of d = A - B costs at least KL (data processing); it costs the sum
of y^2 / (2 S^2) over the draws, S the link's own spread. With L the Laplacian of
weights s S^2, the electrical flow f of d for conductances S^2, 1/s of it on each draw,
would cost d' L^+ d / 2, as real shares do.

All flows of d between that one rounded down and rounded up form a polytope. Its corners
are integral (incidence matrices are totally unimodular, also with each link s times),
and it is a mean of corners. In this mean an entry that lies p above an integer is
rounded up with weight p: its square grows by p (1 - p) <= 1/4, whatever the other
entries do and whatever their S. So some corner costs at most the sum of 1 / (8 S^2)
over the draws more. The search below finds the cheapest y for one d.
"""

from __future__ import annotations

from math import fsum, inf

import numpy as np
import scipy
from scipy import sparse
from scipy.sparse import linalg

from veilsum.graphs.connectivity import components
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.fixed_point import IntegerArray, as_python_integers
from veilsum.numbers.shapes import Float, Shaped

PerLink = Float[FloatArray, " e"]
Rows = Float[FloatArray, "n p"]
LinkRows = Float[FloatArray, "e p"]
Shift = Shaped[IntegerArray, " n"]
Flow = Shaped[IntegerArray, " e"]


def electrical_flow(topology: Topology, shift: Rows, spread: PerLink) -> LinkRows:
    """Return the flow of each column that minimises the sum of (f / S)^2.

    Each piece's column must add up to zero.
    """
    grounded = [part[0] for part in components(topology)]
    free = np.setdiff1d(np.arange(topology.n_parties), grounded)
    potential = np.zeros(shift.shape)
    tension = sparse.diags_array(spread) @ topology.incidence.T
    if shift.size and free.size:
        laplacian = sparse.csc_array((tension.T @ tension)[free][:, free])
        solver = linalg.splu(laplacian, permc_spec="MMD_AT_PLUS_A")
        potential[free] = solver.solve(shift[free])
    return spread[:, None] * (tension @ potential)


def cheapest_flow_cost(
    topology: Topology, shift: Shift, spread: PerLink, electrical: PerLink
) -> float:
    """Return the least cost of an integer flow, infinite if none was found.

    Costs are convex, so a flow that no unit step improves is a cheapest one; the first
    step leads from the electrical flow, rounded, to a flow.
    """
    flow, best = as_python_integers(np.rint(electrical)), inf
    while (moved := _unit_step(topology, shift, spread, flow)) is not None:
        charges = _charges(topology, moved).astype(np.float64) / spread / spread
        cost = fsum(charges.tolist()) / (2 * topology.shares_per_edge)
        if cost >= best:
            break
        flow, best = moved, cost
    return best


def _unit_step(
    topology: Topology, shift: Shift, spread: PerLink, flow: Flow
) -> Flow | None:
    """Return the cheapest flow of the shift that is nowhere 2 away from this one."""
    here, theta = _charges(topology, flow), topology.incidence
    # Subtracted as integers: squares of large flows do not fit a float.
    steps = [_charges(topology, flow + way) - here for way in (1, -1)]
    relative = (spread.min() / spread) ** 2
    prices = np.concatenate([step.astype(np.float64) * relative for step in steps])
    missing = (shift - _divergence(topology, flow)).astype(np.float64)
    both = sparse.hstack([theta, -theta])
    found = scipy.optimize.linprog(
        prices, A_eq=both, b_eq=missing, bounds=(0, 1), method="highs-ds"
    )
    if found.x is None:
        return None
    up, down = as_python_integers(np.rint(found.x)).reshape(2, -1)
    moved: Flow = flow + up - down
    # The solver works in floats; what it found is only believed if it is a flow.
    return moved if (_divergence(topology, moved) == shift).all() else None


def _charges(topology: Topology, flow: Flow) -> Flow:
    """Return s times the sum of y^2 over a link's draws, which share its flow."""
    return flow * flow + (topology.shares_per_edge - 1) * (flow % 2)


def _divergence(topology: Topology, flow: Flow) -> Shift:
    """Return Theta f, exactly."""
    out = as_python_integers(np.zeros(topology.n_parties))
    np.add.at(out, topology.edges[:, 0], flow)
    np.subtract.at(out, topology.edges[:, 1], flow)
    return out
