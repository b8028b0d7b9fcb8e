"""How far the cycles of a network keep integer masks from looking Gaussian.

Each of the s draws on a link is discrete Gaussian on Z: P(y) ~ exp(-y^2 / (2 S^2)), S
the link's own. With L the Laplacian of weights s S^2 and d = A - B in steps of the
grid, real shares have KL = d' L^+ d / 2; the difference that integers make is bounded.

The s draws of a link add up to c with P(c) ~ exp(-c^2 / (2 s S^2)) h(c), where h = 1
for s = 1, h(c) = sum_r exp(-(r - c/2)^2 / S^2) for s = 2. The c with masks v are the
electrical flow of v plus what is orthogonal to it: integer cycles, displaced by some
t(v). Hence P(v) ~ exp(-v' L^+ v / 2) R(v), R a Gaussian sum over those cycles, weighted
by h. Let Z be k fundamental cycles, G = Z diag(1 / S^2) Z'. By Poisson summation h, and
R but for its weights, are up to a constant

    h = sum_{w in Z} exp(-pi^2 S^2 w^2) cos(..)
    R = sum_{w in Z^k} exp(-2 pi^2 s w' G^-1 w) cos(..)

and within 1 -+ eta, eta the sum over w != 0 without cosines. In KL the term linear in v
is exactly 0, since E[v] = 0 by symmetry; so |KL - d' L^+ d / 2| is at most the sum of
log((1 + eta) / (1 - eta)) over every link's h and R. Either of these bounds R's eta:

    dominated  G <= diag(g), g_i = (|Z| diag(1 / S^2) |Z|' x)_i / x_i, for any x > 0:
               1 + eta <= prod (1 + q_i) / (1 - q_i), q_i = exp(-2 pi^2 s / g_i)
    packed     w' G^-1 w >= w_i^2 / G_ii >= m = 1 / max G_ii, so the w are apart and at
               most (2j + 3)^k <= 5^jk of them are nearer to 0 than (j + 1) sqrt(m):
               eta <= sum_{j > 0} 5^jk exp(-2 pi^2 s m j^2)

With x = 1 the g_i are Gershgorin's row sums; x = sqrt(G_ii) makes every g_i <= trace G,
and replacing x by g x lowers the largest one.
"""

from __future__ import annotations

from math import acosh, atanh, exp, expm1, floor, inf, pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from veilsum.graphs.connectivity import components
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray, Sparse
from veilsum.numbers.shapes import Float

# Taken off every exponent: more than rounding adds to sums of a million terms.
SAFE = 1.0 - 1e-9
# Links on all fundamental cycles together; more would not fit a laptop's memory.
MOST_CYCLE_LINKS = 2e7
AVERAGING_ROUNDS = 6
# Costs and spreads beyond these change no bound; their products stay in float64.
LEAST_COST, GREATEST_SPREAD = 1e-30, 1e100
# Rounded up.
LOG_5 = 1.6094379125

PerLink = Float[FloatArray, " e"]
PerCycle = Float[FloatArray, " k"]
Indices = Array[np.int64]


def fundamental_excess(topology: Topology, spread: PerLink) -> float:
    """Return the bound in nats per coefficient; in pieces, that of all together."""
    forest = spanning_forest(topology)
    if forest.depth[topology.edges[forest.rest]].sum() > MOST_CYCLE_LINKS:
        return any_excess(topology, spread, topology.n_parties)
    cycles, cost = fundamental_cycles(topology, forest), relative_costs(spread)
    reach = _reach(topology, spread)
    dominated = _theta(reach / dominating(cycles, cost))
    packed = _packed(reach, float((cycles @ cost).max(initial=0.0)), len(forest.rest))
    return _gap(np.array([min(dominated, packed)])) + _link_excess(topology, spread)


def any_excess(topology: Topology, spread: PerLink, longest: int) -> float:
    """Return a bound in nats per coefficient for the graph and every induced one.

    Fewer parties have no more independent cycles and no other links; a cycle of at most
    `longest` links costs no more than the dearest ones.
    """
    n_cycles = topology.n_edges - topology.n_parties + len(components(topology))
    dearest = np.sort(relative_costs(spread))[::-1][:longest].sum()
    eta = _packed(_reach(topology, spread), float(dearest), n_cycles)
    return _gap(np.array([eta])) + _link_excess(topology, spread)


def longest_cycle(topology: Topology, mu2: float | None = None) -> int:
    """Return how long a fundamental cycle of an induced graph is at most.

    A cycle visits a party once. If the induced graph has this mu2 or more, two parties
    further than D apart have p(L)_uv = 0 for every p of degree D; with p(0) = 1 that
    needs |p| >= 1 / (n - 1) somewhere on [mu2, largest], and Chebyshev's p is the
    smallest. A cycle follows two shortest paths from the root, and one more link.

    >>> complete = Topology.family("complete:100")
    >>> longest_cycle(complete), longest_cycle(complete, mu2=98.0)
    (100, 9)
    """
    n = topology.n_parties
    if mu2 is None or n < 3 or mu2 <= 0:
        return n
    largest = 2.0 * float(topology.laplacian.diagonal().max())
    low = SAFE * min(mu2, largest / 2.0)
    # acosh((largest + low) / (largest - low)), exact also where low is tiny.
    per_step = 2.0 * atanh(sqrt(low / largest))
    return int(min(n, 2.0 * floor(acosh(n - 1.0) / per_step / SAFE) + 3.0))


def relative_costs(spread: PerLink) -> PerLink:
    """Return 1 / S^2 of each link in units of the dearest one's, rounded up."""
    return np.maximum((spread.min(initial=inf) / spread) ** 2, LEAST_COST)


def dominating(cycles: Sparse, cost: PerLink) -> PerCycle:
    """Return g with Z diag(cost) Z' <= diag(g), from |Z|."""
    x = np.sqrt(cycles @ cost)
    bound: PerCycle = x
    for _ in range(AVERAGING_ROUNDS):
        y = cycles @ (cost * (cycles.T @ x))
        bound, x = y / x, y / y.max(initial=0.0)
    return bound


class Forest(NamedTuple):
    """A tree in every piece; the parent of all roots is the index n."""

    parent: Indices
    depth: Indices
    via: Indices  # the link to the parent, -1 at a root
    rest: Indices  # the links on no tree: each closes one cycle


def spanning_forest(topology: Topology) -> Forest:
    """Return breadth-first trees from the best connected parties: short cycles."""
    order, parent = _breadth_first(topology)
    depth, above = [0] * (topology.n_parties + 1), parent.tolist()
    for node in order[1:].tolist():
        depth[node] = depth[above[node]] + 1
    via, links = np.full(topology.n_parties, -1), np.arange(topology.n_edges)
    i, j = topology.edges.T
    up, down = parent[i] == j, parent[j] == i
    # Of two opposite arcs one is overwritten here, and closes a cycle.
    via[i[up]] = links[up]
    via[j[down]] = links[down]
    return Forest(parent, np.array(depth), via, np.setdiff1d(links, via))


def _breadth_first(topology: Topology) -> tuple[Indices, Indices]:
    """Return every party and its parent, all pieces hanging from an index n."""
    n, (i, j) = topology.n_parties, topology.edges.T
    degree = topology.degrees
    roots = [max(part, key=lambda v: degree[v]) for part in components(topology)]
    heads = np.concatenate([i, roots]).astype(np.int64)
    tails = np.concatenate([j, np.full(len(roots), n)])
    entries = (np.ones(len(heads)), (heads, tails))
    joined = sparse.csr_array(entries, shape=(n + 1, n + 1))
    order, parent = csgraph.breadth_first_order(joined, n, directed=False)
    return order.astype(np.int64), parent.astype(np.int64)


def fundamental_cycles(topology: Topology, forest: Forest) -> Sparse:
    """Return |Z|: for each link off the forest, the links on its cycle.

    >>> triangle = Topology.family("complete:3")
    >>> fundamental_cycles(triangle, spanning_forest(triangle)).toarray().tolist()
    [[1.0, 1.0, 1.0]]
    """
    row, (i, j) = np.arange(len(forest.rest)), topology.edges[forest.rest].T
    rows, links = [row], [forest.rest]
    while len(row):
        # The deeper end climbs until both ends meet.
        lower = forest.depth[i] >= forest.depth[j]
        i, j = np.where(lower, i, j), np.where(lower, j, i)
        rows.append(row)
        links.append(forest.via[i])
        i = forest.parent[i]
        apart = i != j
        row, i, j = row[apart], i[apart], j[apart]
    places = (np.concatenate(rows), np.concatenate(links))
    shape = (len(forest.rest), topology.n_edges)
    return sparse.csr_array((np.ones(len(places[0])), places), shape=shape)


def _reach(topology: Topology, spread: PerLink) -> float:
    """Return 2 pi^2 s S^2 for the least S."""
    least = float(spread.min(initial=GREATEST_SPREAD))
    return 2.0 * pi**2 * topology.shares_per_edge * least**2


def _tilts(exponents: PerCycle) -> PerCycle:
    """Return 2 q / (1 - q) >= sum over w != 0 of q^(w^2), q = exp(-exponent)."""
    safe = SAFE * exponents
    return 2.0 * np.exp(-safe) / -np.expm1(-safe)


def _theta(exponents: PerCycle) -> float:
    """Return the dominated bound on eta; what is above 1 is of no use."""
    return expm1(min(float(np.log1p(_tilts(exponents)).sum()), 1.0))


def _packed(reach: float, longest: float, n_cycles: int) -> float:
    """Return the packed bound on eta, a geometric series as j^2 >= j."""
    if n_cycles == 0:
        return 0.0
    exponent = SAFE * reach / longest - n_cycles * LOG_5
    return exp(-exponent) / -expm1(-exponent) if exponent > 0 else inf


def _link_excess(topology: Topology, spread: PerLink) -> float:
    """Return what two draws on one link add, all links together."""
    if topology.shares_per_edge == 1:
        return 0.0
    return _gap(_tilts(pi**2 * np.minimum(spread, GREATEST_SPREAD) ** 2))


def _gap(eta: PerCycle) -> float:
    """Return the sum of log((1 + eta) / (1 - eta))."""
    return inf if (eta >= 1.0).any() else 2.0 * float(np.arctanh(eta).sum())
