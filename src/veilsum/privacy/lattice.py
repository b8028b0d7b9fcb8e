"""What integer masks tell beyond the Gaussian formula: proved, and usually nothing.

Each of the s draws on a link is discrete Gaussian on Z: P(y) ~ exp(-y^2 / (2 S^2)), S
the link's own. With L the Laplacian of weights s S^2 and d = A - B in steps of the
grid, real shares have KL = d' L^+ d / 2. Two proofs bound what integers add to it.

Cycles. Masks are flows up to cycles, and the sums over cycles are nearly constant once
S is large: `cycle_lattice` has the proof. What is left falls like exp(-S^2).

Flows. Moving the draws by an integer flow costs little more than by a real one:
`integer_flows` has the proof. What is left falls like 1 / S^2, also where S is small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from math import expm1, frexp, fsum, inf, ldexp, sqrt

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, InvalidPairError
from veilsum.graphs.connectivity import components
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.numbers.arrays import FloatArray, as_rows, as_vector, listed
from veilsum.numbers.fixed_point import Grid, IntegerArray, as_python_integers
from veilsum.numbers.laws import check_sigma
from veilsum.numbers.shapes import Float, Shaped
from veilsum.privacy.conversions import check_divergence
from veilsum.privacy.cycle_lattice import any_excess, fundamental_excess, longest_cycle
from veilsum.privacy.integer_flows import Shift, cheapest_flow_cost, electrical_flow

# A larger flow has no exact neighbours in float64 once it was computed with.
LARGEST_FLOW = 2.0**40
# An excess below this part of KL is not worth looking for a better flow, and what the
# flow would add could not be told from rounding.
NEGLIGIBLE = 1e-12

PerLink = Float[FloatArray, " e"]
WholeRows = Shaped[IntegerArray, "n p"]


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
    2^-bits, and it is the rounded ones whose honest sums must agree. Infinite if G[H]
    is in pieces and some piece's sum differs.

    >>> triangle = Topology.family("complete:3")
    >>> found = lattice_divergence(triangle, [1, 2, 3], [2, 1, 3], sigma=1.0, bits=10)
    >>> round(found.bound, 12), found.excess
    (0.166666666667, 0.0)
    """
    topology = Topology.of(topology)
    colluders, grid = topology.indices(corrupted), Grid(bits)
    shift = _quantised_shift(topology, a, b, grid, colluders)
    scale = np.broadcast_to(check_sigma(sigma), shift.shape[1:])
    graph = topology.without(colluders)
    if any(shift[list(part)].sum(axis=0).any() for part in components(graph)):
        return LatticeDivergence(inf, inf, 0.0)
    found = [
        flow_divergence(graph, shift[:, scale == one], _link_spreads(graph, grid, one))
        for one in np.unique(scale).tolist()
    ]
    return _total(found)


def flow_divergence(
    topology: Topology, shift: ArrayLike, spreads: ArrayLike
) -> LatticeDivergence:
    """Return a bound on KL for d = `shift`, whole grid steps that cancel in each piece.

    The better one of the cheapest integer flow and of the formula with `cycle_excess`.
    """
    spread, rows = _spreads(topology, spreads), _whole_rows(topology, shift)
    for part in components(topology):
        if rows[list(part)].sum(axis=0).any():
            names = listed(topology.names(part))
            raise InvalidPairError(f"the shift must add up to zero over {names}")
    rows = rows[:, (rows != 0).any(axis=0)]
    sizes, least = np.abs(rows).max(axis=0, initial=0), spread.min(initial=inf)
    flows = electrical_flow(topology, (rows / sizes).astype(np.float64), spread / least)
    excess = cycle_excess(topology, spread)
    columns = zip(rows.T, sizes, flows.T, strict=True)
    return _total([_column_bound(topology, spread, excess, *each) for each in columns])


def lattice_success(divergence: float) -> float:
    """Return a bound on the best guesser's chance of telling A from B at equal odds.

    (1 + TV) / 2 with TV by Pinsker, or Bretagnolle and Huber: true for every law.

    >>> lattice_success(0.02), round(lattice_success(2.0), 6), lattice_success(inf)
    (0.55, 0.964937, 1.0)
    """
    told = check_divergence(divergence)
    return (1.0 + min(sqrt(told / 2.0), sqrt(-expm1(-told)))) / 2.0


def epsilon_excess(excess: float, grid_step: float) -> float:
    """Return what an excess per coefficient adds to epsilon, excess / (2 g^2).

    Columns of A - B that are not 0 are integers times g that cancel: their squares add
    up to 2 g^2 or more. So KL <= (epsilon + this) ||A - B||^2.

    >>> epsilon_excess(2.0**-70, 2.0**-30)
    0.00048828125
    """
    if not 0 < grid_step < inf:
        raise InvalidInputError(f"a grid's step must be positive, found {grid_step}")
    fraction, exponent = frexp(grid_step)
    try:
        return ldexp(check_divergence(excess) / (2.0 * fraction**2), -2 * exponent)
    except OverflowError:
        return inf


def lattice_excess(topology: Topology, spreads: ArrayLike) -> float:
    """Return the least proved excess per coefficient; `spreads` holds S, link by link.

    >>> lattice_excess(Topology.family("petersen"), 1024)
    0.0
    """
    return min(cycle_excess(topology, spreads), flow_excess(topology, spreads))


def worst_excess(
    topology: Topology, spreads: ArrayLike, tolerate: int, *, mu2: float | None = None
) -> float:
    """Return an excess that holds for what every coalition of so many leaves over.

    Give `mu2` where every honest graph is known to have one at least so large: cycles
    are then known to be short, and fewer steps of the grid suffice.
    """
    if tolerate < 0:
        raise InvalidInputError(f"tolerate must not be negative, found {tolerate}")
    if tolerate == 0:
        return lattice_excess(topology, spreads)
    spread = _spreads(topology, spreads)
    by_cycles = any_excess(topology, spread, longest_cycle(topology, mu2))
    return min(by_cycles, flow_excess(topology, spread))


def flow_excess(topology: Topology, spreads: ArrayLike) -> float:
    """Return the excess per coefficient by flows, the sum of 1 / (8 S^2) over draws.

    >>> flow_excess(Topology.family("ring:4"), 4)
    0.0625
    """
    spread = _spreads(topology, spreads)
    return topology.shares_per_edge * fsum((0.125 / spread / spread).tolist())


def cycle_excess(topology: Topology, spreads: ArrayLike) -> float:
    """Return the excess per coefficient by cycles; it falls like exp(-S^2).

    In pieces, their excesses together. Infinite where the proof needs more spread.

    >>> ring = Topology.family("ring:4")
    >>> cycle_excess(ring, 0.3), cycle_excess(ring, 4) < 1e-60
    (inf, True)
    """
    return fundamental_excess(topology, _spreads(topology, spreads))


def _spreads(topology: Topology, spreads: ArrayLike) -> PerLink:
    array = as_vector(spreads, dim=topology.n_edges, what="spreads")
    if not ((array > 1e-100) & (array < 1e150)).all():
        raise InvalidInputError(
            "spreads must be positive, and their squares within float64; they are "
            "standard deviations in steps of the grid"
        )
    return array


def _link_spreads(topology: Topology, grid: Grid, sigma: float) -> list[int]:
    spread = {w: grid.spread(sigma, w) for w in set(topology.weights.tolist())}
    return [spread[w] for w in topology.weights.tolist()]


def _quantised_shift(
    topology: Topology,
    a: ArrayLike,
    b: ArrayLike,
    grid: Grid,
    corrupted: frozenset[int],
) -> WholeRows:
    """Return A - B on H in grid steps; refuse what Definition 2 does not compare."""
    rows_a = as_rows(a, n_parties=topology.n_parties, what="A")
    rows_b = as_rows(b, n_parties=topology.n_parties, what="B")
    if rows_a.shape != rows_b.shape:
        raise InvalidPairError(
            f"A and B differ in shape: {rows_a.shape} and {rows_b.shape}"
        )
    moved = [i for i in corrupted if not np.array_equal(rows_a[i], rows_b[i])]
    if moved:
        raise InvalidPairError(
            "A and B must agree on every corrupted party, which knows its own "
            f"coefficients; they differ on {listed(topology.names(moved))}"
        )
    whole_a, whole_b = (as_python_integers(grid.quantise(x)) for x in (rows_a, rows_b))
    honest = [i for i in range(topology.n_parties) if i not in corrupted]
    shift = (whole_a - whole_b)[honest]
    steps = max((abs(gap) for gap in shift.sum(axis=0)), default=0)
    if steps:
        raise InvalidPairError(
            "A and B must have the same quantised sum over the honest parties, which "
            f"every view reveals; the quantised sums differ by {steps} steps of "
            f"2^{-grid.bits}"
        )
    return shift


def _whole_rows(topology: Topology, shift: ArrayLike) -> WholeRows:
    """Return whole numbers as Python integers, one row per party."""
    array = np.array(shift, dtype=object)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != topology.n_parties:
        raise InvalidInputError(
            f"the shift must have one row for each of {topology.n_parties} parties, "
            f"found shape {array.shape}"
        )
    if not all(isinstance(x, int | np.integer) for x in rows.ravel()):
        raise InvalidInputError("the shift must be whole numbers of grid steps")
    return as_python_integers(rows)


def _total(parts: list[LatticeDivergence]) -> LatticeDivergence:
    continuous = fsum(part.continuous for part in parts)
    excess = fsum(part.excess for part in parts)
    return LatticeDivergence(continuous + excess, continuous, excess)


def _column_bound(
    topology: Topology,
    spread: PerLink,
    excess: float,
    shift: Shift,
    size: int,
    flow: PerLink,
) -> LatticeDivergence:
    """Return the better bound for one coefficient; its flow is in units of `size`."""
    least, draws = float(spread.min()), topology.shares_per_edge
    cost = fsum(((flow * (least / spread)) ** 2).tolist())
    continuous = cost * (size / least) * (size / least) / (2 * draws)
    excess = min(excess, flow_excess(topology, spread))
    exact = size * float(np.abs(flow).max()) < LARGEST_FLOW
    if exact and excess > NEGLIGIBLE * continuous:
        cheapest = cheapest_flow_cost(topology, shift, spread, size * flow)
        excess = min(excess, max(cheapest - continuous, 0.0))
    return LatticeDivergence(continuous + excess, continuous, excess)
