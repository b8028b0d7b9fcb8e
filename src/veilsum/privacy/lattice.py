"""Proved excess leakage of integer masks over the Gaussian formula; usually zero.

Each of the s draws on a link is discrete Gaussian on Z: P(y) ~ exp(-y^2 / (2 S^2)), S
the link's own. With L the Laplacian of weights s S^2 and d = A - B in steps of the
grid, real shares have KL = d' L^+ d / 2. Two proofs bound what integers add to it.

**Cycles.** Masks are flows up to cycles, and the sums over cycles are nearly constant
once S is large: what is left falls like exp(-S^2).

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

**Flows.** Moving the draws by an integer flow costs little more than by a real one:
what is left falls like 1 / S^2, also where S is small.

A view is computed from the draws, so moving the s draws of every link by integers y
that add up to a flow of d = A - B costs at least KL (data processing); it costs the sum
of y^2 / (2 S^2) over the draws, S the link's own deviation. With L the Laplacian of
weights s S^2, the electrical flow f of d for conductances S^2, 1/s of it on each draw,
would cost d' L^+ d / 2, as real shares do.

All flows of d between that one rounded down and rounded up form a polytope. Its corners
are integral (incidence matrices are totally unimodular, also with each link s times),
and it is a mean of corners. In this mean an entry that lies p above an integer is
rounded up with weight p: its square grows by p (1 - p) <= 1/4, whatever the other
entries do and whatever their S. So some corner costs at most the sum of 1 / (8 S^2)
over the draws more. The search below finds the cheapest y for one d.

**Success.** A KL divergence alone bounds a guesser by Pinsker's inequality, a quarter
more than a normal law of the same divergence allows. Masks on a lattice are very nearly
a normal law that somebody rounded, and rounding helps no guesser.

Let 0 < t < 1, X normal with covariance (1 - t) L on the vectors whose sum is zero, and
given X let Y be whole and zero-sum, drawn with weights exp(-(y - X)' L^+ (y - X) / 2t).
These weights add up to a constant within 1 -+ eta: by Poisson summation over the dual
lattice, whole potentials w up to a common one. w' L w is the sum over links of
s S^2 (w_i - w_j)^2, and on a spanning tree the differences are free whole numbers:

    1 + eta <= prod over the tree (1 + q) / (1 - q),    q = exp(-2 pi^2 t s S^2)

But for them Y has the law exp(-y' L^+ y / 2), as two normal laws add up to one; so the
masks v have a law that is P(Y = v) times what lies between two numbers of ratio exp(F),
F = log((1 + eta) / (1 - eta)) + the excess by cycles. Two such laws are within tanh(F /
4) of each other in total variation, p coefficients within tanh(p F / 4). Moving X by a
whole d moves Y by d, so guessing from Y is no easier than guessing from X, where KL is
that of real shares divided by 1 - t. Together, for p coefficients that differ,

    TV <= erf(sqrt(KL / (1 - t)) / 2) + 2 tanh(p F / 4)

for every t. With S >= 2^10 a t of a few millionths leaves F nothing. A coefficient that
differs moves two parties by a step g or more, so p <= D^2 / (2 g^2). Where coefficients
have steps of their own, the coarsest counts: with finer ones more of them may differ,
by 1 / g^2, and F is less, by exp(-1 / g^2).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import (
    acosh,
    atanh,
    erf,
    exp,
    expm1,
    floor,
    frexp,
    fsum,
    inf,
    ldexp,
    log,
    log1p,
    pi,
    sqrt,
    tanh,
)
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, InvalidPairError
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.masks.fixed_point import FixedPointGrid, IntegerArray
from veilsum.masks.laws import check_mask_sigma
from veilsum.numbers.arrays import (
    Array,
    FloatArray,
    Sparse,
    as_float_rows,
    as_float_vector,
    listed_names,
)
from veilsum.numbers.limbs import as_python_integers
from veilsum.numbers.shapes import Float, Shaped
from veilsum.privacy.conversions import check_divergence
from veilsum.privacy.divergence import DivergenceCircuit, check_divergence_agreement

# A larger flow has no exact neighbours in float64 once it was computed with.
LARGEST_FLOW = 2.0**40
# An excess below this part of KL is not worth looking for a better flow, and what the
# flow would add could not be told from rounding.
NEGLIGIBLE = 1e-12
# Where deviations are further apart, a flow in float64 is not certain enough.
MOST_UNEQUAL = 1e3

PerLink = Float[FloatArray, " e"]
WholeRows = Shaped[IntegerArray, "n p"]

# Taken off every exponent: more than rounding adds to sums of a million terms.
SAFE = 1.0 - 1e-9
# Links on all fundamental cycles together; more would not fit a laptop's memory.
MOST_CYCLE_LINKS = 2e7
AVERAGING_ROUNDS = 6
# Costs and deviations beyond these change no bound; their products stay in float64.
LEAST_COST, GREATEST_DEVIATION = 1e-30, 1e100
# Rounded up.
LOG_5 = 1.6094379125
# p F is made about exp(-spare): the more, the larger is t. The better one is taken.
SPARES = (20.0, 60.0)
PerCycle = Float[FloatArray, " k"]
Indices = Array[np.int64]
Rows = Float[FloatArray, "n p"]
LinkRows = Float[FloatArray, "e p"]
Shift = Shaped[IntegerArray, " n"]
Flow = Shaped[IntegerArray, " e"]


@dataclass(frozen=True, slots=True)
class LatticeDivergence:
    """A proved bound on KL: `continuous`, what real shares have, plus `excess`."""

    bound: float
    continuous: float
    excess: float


def lattice_divergence(
    topology: GraphLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    sigma: ArrayLike,
    bits: int,
    corrupted: Iterable[Hashable] = (),
) -> LatticeDivergence:
    """Return a bound on the KL divergence between C's views under A and under B.

    Rows of A and B are parties, in the data's units; they are rounded to multiples of
    2^-bits, and it is the rounded ones whose honest sums must agree. Infinite if G[H],
    which is G without `corrupted`, is in pieces and some piece's sum differs.

    >>> triangle = Topology.family("complete:3")
    >>> found = lattice_divergence(triangle, [1, 2, 3], [2, 1, 3], sigma=1.0, bits=10)
    >>> round(found.bound, 12), found.excess
    (0.166666666667, 0.0)
    """
    topology = Topology.of(topology)
    colluders, grid = topology.indices(corrupted), FixedPointGrid(bits)
    shift = _lattice_shift(topology, a, b, grid, colluders)
    scale = np.broadcast_to(check_mask_sigma(sigma), shift.shape[1:])
    graph = topology.without(colluders)
    if any(shift[list(part)].sum(axis=0).any() for part in graph_components(graph)):
        return LatticeDivergence(inf, inf, 0.0)
    found = [
        lattice_divergence_by_flow(
            graph, shift[:, scale == one], _lattice_link_deviations(graph, grid, one)
        )
        for one in np.unique(scale).tolist()
    ]
    return _total_lattice_divergence(found)


def lattice_divergence_by_flow(
    topology: Topology, shift: ArrayLike, deviations: ArrayLike
) -> LatticeDivergence:
    """Return a bound on KL for d = `shift`, whole grid steps that cancel in each piece.

    The better one of the cheapest integer flow and of the formula with
    `lattice_excess_by_cycles`.
    """
    deviation, rows = (
        _lattice_mask_deviations(topology, deviations),
        _lattice_rows(topology, shift),
    )
    for part in graph_components(topology):
        if rows[list(part)].sum(axis=0).any():
            names = listed_names(topology.names(part))
            raise InvalidPairError(
                f"the shift must add up to zero over {names}", code="shift-not-zero"
            )
    rows = rows[:, (rows != 0).any(axis=0)]
    sizes, least = np.abs(rows).max(axis=0, initial=0), deviation.min(initial=inf)
    flows = electrical_flow_of_shift(
        topology, (rows / sizes).astype(np.float64), deviation / least
    )
    excess = lattice_excess_by_cycles(topology, deviation)
    columns = zip(rows.T, sizes, flows.T, strict=True)
    return _total_lattice_divergence(
        [_lattice_column_bound(topology, deviation, excess, *each) for each in columns]
    )


@dataclass(frozen=True, slots=True)
class LatticeSmoothness:
    """Closeness of lattice masks to a rounded normal law; see **Success** above.

    It holds for a graph and for every connected graph that remains without some
    parties.

    Attributes:
        reach: 2 pi^2 s S^2 for the least S.
        n_parties: strict upper bound on the links of a spanning tree.
        cycles: the excess per coefficient by cycles.
    """

    reach: float
    n_parties: int
    cycles: float

    def variation(self, divergence: float, moved: float, *, spare: float) -> float:
        """Return a bound on TV; at most so many coefficients differ."""
        exponent = spare + log(max(moved, 1.0) * self.n_parties)
        part = exponent / (SAFE * self.reach)
        if not 0.0 < part < SAFE:
            return 1.0
        tilts = _lattice_cycle_tilts(np.array([exponent]))
        eta = expm1((self.n_parties - 1) * log1p(float(tilts[0])))
        if not eta < 1.0:
            return 1.0
        uneven = max(moved, 1.0) * (self.cycles + 2.0 * atanh(eta))
        rounded = erf(sqrt(divergence / (1.0 - part)) / 2.0)
        return rounded + 2.0 * tanh(uneven / 4.0)


def smoothness_of_masks(
    topology: Topology, deviations: ArrayLike, *, mu2: float | None = None
) -> LatticeSmoothness:
    """Return the smoothness of masks; `mu2` as for `worst_lattice_excess`."""
    deviation = _lattice_mask_deviations(topology, deviations)
    cycles = lattice_excess_for_any_coalition(
        topology, deviation, longest_lattice_cycle(topology, mu2)
    )
    return LatticeSmoothness(
        _lattice_cycle_reach(topology, deviation), topology.n_parties, cycles
    )


def lattice_success(
    divergence: float, *, smooth: LatticeSmoothness | None = None, moved: float = inf
) -> float:
    """Return a bound on the best guesser's chance of telling A from B at equal odds.

    (1 + TV) / 2 with TV by Pinsker, or Bretagnolle and Huber: true for every law. With
    `smooth` also by the normal law, if at most `moved` coefficients differ.

    >>> lattice_success(0.02), round(lattice_success(2.0), 6), lattice_success(inf)
    (0.55, 0.964937, 1.0)
    >>> petersen = smoothness_of_masks(Topology.family("petersen"), 2**10)
    >>> round(lattice_success(0.02, smooth=petersen, moved=1e6), 6)
    0.539828
    """
    told = check_divergence(divergence)
    variation = min(sqrt(told / 2.0), sqrt(-expm1(-told)))
    if smooth is not None:
        found = (smooth.variation(told, moved, spare=spare) for spare in SPARES)
        variation = min(variation, *found)
    return (1.0 + variation) / 2.0


def most_moved_coefficients(distance: float, grid_step: float) -> float:
    """Return how many coefficients of A and B differ at most, D^2 / (2 g^2).

    >>> most_moved_coefficients(1.0, 0.5)
    2.0
    """
    try:
        return 0.5 * (distance / grid_step) ** 2
    except OverflowError:
        return inf


def lattice_epsilon_excess(excess: float, grid_step: float) -> float:
    """Return what an excess per coefficient adds to epsilon, excess / (2 g^2).

    Columns of A - B that are not 0 are integers times g that cancel: their squares add
    up to 2 g^2 or more. So KL <= (epsilon + this) ||A - B||^2.

    >>> lattice_epsilon_excess(2.0**-70, 2.0**-30)
    0.00048828125
    """
    if not 0 < grid_step < inf:
        raise InvalidInputError(
            f"a grid's step must be positive, found {grid_step}",
            code="step-not-positive",
        )
    fraction, exponent = frexp(grid_step)
    try:
        return ldexp(check_divergence(excess) / (2.0 * fraction**2), -2 * exponent)
    except OverflowError:
        return inf


def lattice_excess(topology: Topology, deviations: ArrayLike) -> float:
    """Return the least proved excess per coefficient; `deviations`: S, link by link.

    >>> lattice_excess(Topology.family("petersen"), 1024)
    0.0
    """
    return min(
        lattice_excess_by_cycles(topology, deviations),
        lattice_excess_by_flows(topology, deviations),
    )


def worst_lattice_excess(
    topology: Topology,
    deviations: ArrayLike,
    tolerate: int,
    *,
    mu2: float | None = None,
) -> float:
    """Return an excess that holds for what every coalition of so many leaves over.

    Give `mu2` where every honest graph is known to have one at least so large: cycles
    are then known to be short, and fewer steps of the grid suffice.
    """
    if tolerate < 0:
        raise InvalidInputError(
            f"tolerate must not be negative, found {tolerate}", code="tolerate-negative"
        )
    if tolerate == 0:
        return lattice_excess(topology, deviations)
    deviation = _lattice_mask_deviations(topology, deviations)
    by_cycles = lattice_excess_for_any_coalition(
        topology, deviation, longest_lattice_cycle(topology, mu2)
    )
    return min(by_cycles, lattice_excess_by_flows(topology, deviation))


def lattice_excess_by_flows(topology: Topology, deviations: ArrayLike) -> float:
    """Return the excess per coefficient by flows, the sum of 1 / (8 S^2) over draws.

    >>> lattice_excess_by_flows(Topology.family("ring:4"), 4)
    0.0625
    """
    deviation = _lattice_mask_deviations(topology, deviations)
    least, draws = float(deviation.min(initial=inf)), topology.shares_per_edge
    if least == deviation.max(initial=least):
        # Rounded once, as `fsum` rounds, without a Python number for each link.
        return draws * float(Fraction(0.125 / least / least) * len(deviation))
    return draws * fsum((0.125 / deviation / deviation).tolist())


def lattice_excess_by_cycles(topology: Topology, deviations: ArrayLike) -> float:
    """Return the excess per coefficient by cycles; it falls like exp(-S^2).

    In pieces, their excesses together. Infinite where the proof needs more deviation.

    >>> ring = Topology.family("ring:4")
    >>> lattice_excess_by_cycles(ring, 0.3), lattice_excess_by_cycles(ring, 4) < 1e-60
    (inf, True)
    """
    return fundamental_lattice_excess(
        topology, _lattice_mask_deviations(topology, deviations)
    )


def _lattice_mask_deviations(topology: Topology, deviations: ArrayLike) -> PerLink:
    array = as_float_vector(deviations, dim=topology.n_edges, what="deviations")
    if not ((array > 1e-100) & (array < 1e150)).all():
        raise InvalidInputError(
            "deviations must be positive, and their squares within float64; they are "
            "standard deviations in steps of the grid",
            code="deviation-not-positive",
        )
    return array


def _lattice_link_deviations(
    topology: Topology, grid: FixedPointGrid, sigma: float
) -> list[int]:
    deviation = {w: grid.deviation(sigma, w) for w in set(topology.weights.tolist())}
    return [deviation[w] for w in topology.weights.tolist()]


def _lattice_shift(
    topology: Topology,
    a: ArrayLike,
    b: ArrayLike,
    grid: FixedPointGrid,
    corrupted: frozenset[int],
) -> WholeRows:
    """Return A - B on H in grid steps; refuse what Definition 2 does not compare."""
    rows_a = as_float_rows(a, n_parties=topology.n_parties, what="A")
    rows_b = as_float_rows(b, n_parties=topology.n_parties, what="B")
    if rows_a.shape != rows_b.shape:
        raise InvalidPairError(
            f"A and B differ in shape: {rows_a.shape} and {rows_b.shape}",
            code="shapes-differ",
        )
    check_divergence_agreement(topology, rows_a, rows_b, corrupted)
    whole_a, whole_b = (as_python_integers(grid.quantise(x)) for x in (rows_a, rows_b))
    honest = [i for i in range(topology.n_parties) if i not in corrupted]
    shift = (whole_a - whole_b)[honest]
    steps = max((abs(gap) for gap in shift.sum(axis=0)), default=0)
    if steps:
        raise InvalidPairError(
            "A and B must have the same quantised sum over the honest parties, which "
            f"every view reveals; the quantised sums differ by {steps} steps of "
            f"2^{-grid.bits}",
            code="quantised-sums-differ",
        )
    return shift


def _lattice_rows(topology: Topology, shift: ArrayLike) -> WholeRows:
    """Return whole numbers as Python integers, one row per party."""
    array = np.array(shift, dtype=object)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != topology.n_parties:
        raise InvalidInputError(
            f"the shift must have one row for each of {topology.n_parties} parties, "
            f"found shape {array.shape}",
            code="wrong-shape",
        )
    if not all(isinstance(x, int | np.integer) for x in rows.ravel()):
        raise InvalidInputError(
            "the shift must be whole numbers of grid steps", code="shift-not-whole"
        )
    return as_python_integers(rows)


def _total_lattice_divergence(parts: list[LatticeDivergence]) -> LatticeDivergence:
    continuous = fsum(part.continuous for part in parts)
    excess = fsum(part.excess for part in parts)
    return LatticeDivergence(continuous + excess, continuous, excess)


def _lattice_column_bound(
    topology: Topology,
    deviation: PerLink,
    excess: float,
    shift: Shift,
    size: int,
    flow: PerLink,
) -> LatticeDivergence:
    """Return the better bound for one coefficient; its flow is in units of `size`."""
    least, draws = float(deviation.min()), topology.shares_per_edge
    if deviation.max() > MOST_UNEQUAL * least:
        cost = _electrical_flow_cost(topology, deviation / least, shift, size)
    else:
        cost = fsum(((flow * (least / deviation)) ** 2).tolist())
    continuous = cost * (size / least) * (size / least) / (2 * draws)
    excess = min(excess, lattice_excess_by_flows(topology, deviation))
    exact = size * float(np.abs(flow).max()) < LARGEST_FLOW
    if exact and excess > NEGLIGIBLE * continuous:
        cheapest = cheapest_flow_cost(topology, shift, deviation, size * flow)
        excess = min(excess, max(cheapest - continuous, 0.0))
    return LatticeDivergence(continuous + excess, continuous, excess)


def _electrical_flow_cost(
    topology: Topology, deviation: PerLink, shift: Shift, size: int
) -> float:
    """Return the cost of the electrical flow in units of `size`, with a proof."""
    told = 0.0
    for part in graph_components(topology):
        here = topology.induced(part)
        inside = np.isin(topology.edges, part).all(axis=1)
        piece = Topology(here.parties, here.edges, deviation[inside] ** 2)
        currents = [Fraction(shift[i], size) for i in part]
        told += DivergenceCircuit.of(piece).power(currents) if len(part) > 1 else 0.0
    return told


def fundamental_lattice_excess(topology: Topology, deviation: PerLink) -> float:
    """Return the bound in nats per coefficient; in pieces, that of all together."""
    # Every cycle has three links at least, and a forest this large takes long to make.
    if 3 * (topology.n_edges - topology.n_parties) > MOST_CYCLE_LINKS:
        return lattice_excess_for_any_coalition(topology, deviation, topology.n_parties)
    forest = spanning_forest(topology)
    if forest.depth[topology.edges[forest.rest]].sum() > MOST_CYCLE_LINKS:
        return lattice_excess_for_any_coalition(topology, deviation, topology.n_parties)
    cycles, cost = (
        fundamental_cycles(topology, forest),
        relative_lattice_flow_costs(deviation),
    )
    reach = _lattice_cycle_reach(topology, deviation)
    dominated = _lattice_theta_bound(reach / dominating_cycle_costs(cycles, cost))
    packed = _lattice_packed_bound(
        reach, float((cycles @ cost).max(initial=0.0)), len(forest.rest)
    )
    return _lattice_divergence_gap(
        np.array([min(dominated, packed)])
    ) + _lattice_link_excess(topology, deviation)


def lattice_excess_for_any_coalition(
    topology: Topology, deviation: PerLink, longest: int
) -> float:
    """Return a bound in nats per coefficient for the graph and every induced one.

    Fewer parties have no more independent cycles and no other links; a cycle of at most
    `longest` links costs no more than the dearest ones.
    """
    n_cycles = topology.n_edges - topology.n_parties + len(graph_components(topology))
    dearest = np.sort(relative_lattice_flow_costs(deviation))[::-1][:longest].sum()
    eta = _lattice_packed_bound(
        _lattice_cycle_reach(topology, deviation), float(dearest), n_cycles
    )
    return _lattice_divergence_gap(np.array([eta])) + _lattice_link_excess(
        topology, deviation
    )


def longest_lattice_cycle(topology: Topology, mu2: float | None = None) -> int:
    """Return how long a fundamental cycle of an induced graph is at most.

    A cycle visits a party once. If the induced graph has this mu2 or more, two parties
    further than D apart have p(L)_uv = 0 for every p of degree D; with p(0) = 1 that
    needs |p| >= 1 / (n - 1) somewhere on [mu2, largest], and Chebyshev's p is the
    smallest. A cycle follows two shortest paths from the root, and one more link.

    >>> complete = Topology.family("complete:100")
    >>> longest_lattice_cycle(complete), longest_lattice_cycle(complete, mu2=98.0)
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


def relative_lattice_flow_costs(deviation: PerLink) -> PerLink:
    """Return 1 / S^2 of each link in units of the dearest one's, rounded up."""
    return np.maximum((deviation.min(initial=inf) / deviation) ** 2, LEAST_COST)


def dominating_cycle_costs(cycles: Sparse, cost: PerLink) -> PerCycle:
    """Return g with Z diag(cost) Z' <= diag(g), from |Z|."""
    x = np.sqrt(cycles @ cost)
    bound: PerCycle = x
    for _ in range(AVERAGING_ROUNDS):
        y = cycles @ (cost * (cycles.T @ x))
        bound, x = y / x, y / y.max(initial=0.0)
    return bound


class LatticeForest(NamedTuple):
    """A tree in every piece; the parent of all roots is the index n."""

    parent: Indices
    depth: Indices
    via: Indices  # the link to the parent, -1 at a root
    rest: Indices  # the links on no tree: each closes one cycle


def spanning_forest(topology: Topology) -> LatticeForest:
    """Return breadth-first trees from the best connected parties: short cycles."""
    order, parent = _breadth_first_lattice_forest(topology)
    depth, above = [0] * (topology.n_parties + 1), parent.tolist()
    for node in order[1:].tolist():
        depth[node] = depth[above[node]] + 1
    via, links = np.full(topology.n_parties, -1), np.arange(topology.n_edges)
    i, j = topology.edges.T
    up, down = parent[i] == j, parent[j] == i
    # Of two opposite arcs one is overwritten here, and closes a cycle.
    via[i[up]] = links[up]
    via[j[down]] = links[down]
    return LatticeForest(parent, np.array(depth), via, np.setdiff1d(links, via))


def _breadth_first_lattice_forest(topology: Topology) -> tuple[Indices, Indices]:
    """Return every party and its parent, all pieces hanging from an index n."""
    n, (i, j) = topology.n_parties, topology.edges.T
    degree = topology.degrees
    roots = [max(part, key=lambda v: degree[v]) for part in graph_components(topology)]
    heads = np.concatenate([i, roots]).astype(np.int64)
    tails = np.concatenate([j, np.full(len(roots), n)])
    entries = (np.ones(len(heads)), (heads, tails))
    joined = scipy.sparse.csr_array(entries, shape=(n + 1, n + 1))
    order, parent = scipy.sparse.csgraph.breadth_first_order(joined, n, directed=False)
    return order.astype(np.int64), parent.astype(np.int64)


def fundamental_cycles(topology: Topology, forest: LatticeForest) -> Sparse:
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
    return scipy.sparse.csr_array((np.ones(len(places[0])), places), shape=shape)


def _lattice_cycle_reach(topology: Topology, deviation: PerLink) -> float:
    """Return 2 pi^2 s S^2 for the least S."""
    least = float(deviation.min(initial=GREATEST_DEVIATION))
    return 2.0 * pi**2 * topology.shares_per_edge * least**2


def _lattice_cycle_tilts(exponents: PerCycle) -> PerCycle:
    """Return 2 q / (1 - q) >= sum over w != 0 of q^(w^2), q = exp(-exponent)."""
    safe = SAFE * exponents
    return 2.0 * np.exp(-safe) / -np.expm1(-safe)


def _lattice_theta_bound(exponents: PerCycle) -> float:
    """Return the dominated bound on eta; what is above 1 is of no use."""
    return expm1(min(float(np.log1p(_lattice_cycle_tilts(exponents)).sum()), 1.0))


def _lattice_packed_bound(reach: float, longest: float, n_cycles: int) -> float:
    """Return the packed bound on eta, a geometric series as j^2 >= j."""
    if n_cycles == 0:
        return 0.0
    exponent = SAFE * reach / longest - n_cycles * LOG_5
    return exp(-exponent) / -expm1(-exponent) if exponent > 0 else inf


def _lattice_link_excess(topology: Topology, deviation: PerLink) -> float:
    """Return what two draws on one link add, all links together."""
    if topology.shares_per_edge == 1:
        return 0.0
    return _lattice_divergence_gap(
        _lattice_cycle_tilts(pi**2 * np.minimum(deviation, GREATEST_DEVIATION) ** 2)
    )


def _lattice_divergence_gap(eta: PerCycle) -> float:
    """Return the sum of log((1 + eta) / (1 - eta))."""
    return inf if (eta >= 1.0).any() else 2.0 * float(np.arctanh(eta).sum())


def electrical_flow_of_shift(
    topology: Topology, shift: Rows, deviation: PerLink
) -> LinkRows:
    """Return the flow of each column that minimises the sum of (f / S)^2.

    Each piece's column must add up to zero.
    """
    grounded = [part[0] for part in graph_components(topology)]
    free = np.setdiff1d(np.arange(topology.n_parties), grounded)
    potential = np.zeros(shift.shape)
    tension = scipy.sparse.diags_array(deviation) @ topology.incidence.T
    if shift.size and free.size:
        laplacian = scipy.sparse.csc_array((tension.T @ tension)[free][:, free])
        try:
            solver = scipy.sparse.linalg.splu(laplacian, permc_spec="MMD_AT_PLUS_A")
            potential[free] = solver.solve(shift[free])
        except RuntimeError:  # singular to float64: a light link beside a heavy one
            potential = _lattice_flow_potentials(topology, shift, deviation)
    return deviation[:, None] * (tension @ potential)


def _lattice_flow_potentials(
    topology: Topology, shift: Rows, deviation: PerLink
) -> Rows:
    """Return potentials by elimination without subtraction, right for all weights."""
    found = np.zeros(shift.shape)
    ends = zip(topology.edges.tolist(), deviation.tolist(), strict=True)
    links = [(i, j, Fraction(each) ** 2) for (i, j), each in ends]
    for part in graph_components(topology):
        place = {party: k for k, party in enumerate(part)}
        inner = [(place[i], place[j], each) for i, j, each in links if i in place]
        if inner:
            circuit = DivergenceCircuit(len(part), inner)
            columns = [circuit.potentials(each) for each in shift[list(part)].T]
            found[list(part)] = np.column_stack(columns)
    return found


def cheapest_flow_cost(
    topology: Topology, shift: Shift, deviation: PerLink, electrical: PerLink
) -> float:
    """Return the least cost of an integer flow, infinite if none was found.

    Costs are convex, so a flow that no unit step improves is a cheapest one; the first
    step leads from the electrical flow, rounded, to a flow.
    """
    flow, best = as_python_integers(np.rint(electrical)), inf
    while (moved := _lattice_unit_step(topology, shift, deviation, flow)) is not None:
        charges = (
            _lattice_flow_charges(topology, moved).astype(np.float64)
            / deviation
            / deviation
        )
        cost = fsum(charges.tolist()) / (2 * topology.shares_per_edge)
        if cost >= best:
            break
        flow, best = moved, cost
    return best


def _lattice_unit_step(
    topology: Topology, shift: Shift, deviation: PerLink, flow: Flow
) -> Flow | None:
    """Return the cheapest flow of the shift that is nowhere 2 away from this one."""
    here, theta = _lattice_flow_charges(topology, flow), topology.incidence
    # Subtracted as integers: squares of large flows do not fit a float.
    steps = [_lattice_flow_charges(topology, flow + way) - here for way in (1, -1)]
    relative = (deviation.min() / deviation) ** 2
    prices = np.concatenate([step.astype(np.float64) * relative for step in steps])
    missing = (shift - _lattice_flow_divergence(topology, flow)).astype(np.float64)
    both = scipy.sparse.hstack([theta, -theta])
    found = scipy.optimize.linprog(
        prices, A_eq=both, b_eq=missing, bounds=(0, 1), method="highs-ds"
    )
    if found.x is None:
        return None
    up, down = as_python_integers(np.rint(found.x)).reshape(2, -1)
    moved: Flow = flow + up - down
    # The solver works in floats; what it found is only believed if it is a flow.
    return moved if (_lattice_flow_divergence(topology, moved) == shift).all() else None


def _lattice_flow_charges(topology: Topology, flow: Flow) -> Flow:
    """Return s times the sum of y^2 over a link's draws, which share its flow."""
    return flow * flow + (topology.shares_per_edge - 1) * (flow % 2)


def _lattice_flow_divergence(topology: Topology, flow: Flow) -> Shift:
    """Return Theta f, exactly."""
    out = as_python_integers(np.zeros(topology.n_parties))
    np.add.at(out, topology.edges[:, 0], flow)
    np.subtract.at(out, topology.edges[:, 1], flow)
    return out
