"""Hypothesis strategies: connected graphs, coalitions, coefficients, pairs (A, B).

Coefficients are small multiples of 1/8, so that every sum of them is exact in float64
and a test that needs equal sums gets equal sums.
"""

from itertools import combinations, compress
from math import prod

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.extra import numpy as hnp

from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology

# For properties that run once per kind of cost, domain or basis, or that are slow.
few = settings(max_examples=25)

seeds = st.integers(0, 2**32 - 1)
sigmas = st.floats(0.05, 20.0, allow_subnormal=False)


@st.composite
def connected_topologies(
    draw, *, min_agents=2, max_agents=10, weighted=False, directed=False
):
    """A random tree plus random further links; arcs point either or both ways."""
    n = draw(st.integers(min_agents, max_agents))
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    others = [pair for pair in combinations(range(n), 2) if pair not in tree]
    links = [*tree, *draw(_subsets(others))]
    edges = draw(_arcs(links)) if directed else links
    weights = draw(_weights(len(edges))) if weighted else None
    return Topology.from_edges(
        edges, parties=range(n), weights=weights, directed=directed
    )


def _digits(count, base):
    """`count` digits of one drawn number: many small choices at the price of one."""
    return st.integers(0, base**count - 1).map(
        lambda number: [number // base**k % base for k in range(count)]
    )


def _subsets(items):
    return _digits(len(items), 2).map(lambda bits: list(compress(items, bits)))


def _arcs(links):
    """Each link becomes one arc, the opposite arc, or both."""

    def directions(choices):
        ways = zip(choices, links, strict=True)
        return [
            arc
            for choice, (i, j) in ways
            for arc in ([(i, j)], [(j, i)], [(i, j), (j, i)])[choice]
        ]

    return _digits(len(links), 3).map(directions)


def _weights(size):
    """Positive variances from 1/8 to 8."""
    return _digits(size, 64).map(lambda eighths: [(1 + k) / 8.0 for k in eighths])


@st.composite
def any_topologies(draw, **options):
    """A connected graph of any kind: plain, weighted, directed, or both."""
    kind = {"weighted": draw(st.booleans()), "directed": draw(st.booleans())}
    return draw(connected_topologies(**options, **kind))


@st.composite
def coalitions(draw, topology, *, min_honest=0):
    """Some parties by name, with at least `min_honest` left out."""
    most = topology.n_parties - min_honest
    return tuple(draw(_subsets(topology.parties))[:most])


def eighths(shape, *, most=64):
    """Arrays of multiples of 1/8 no larger than most/8."""

    def array(digits):
        # 0, 1, 2, 3, 4 stand for 0, -1, 1, -2, 2: simplest first.
        whole = [(k + 1) // 2 * (1 if k % 2 == 0 else -1) for k in digits]
        return np.array(whole, dtype=np.float64).reshape(shape) / 8.0

    return _digits(prod(shape), 2 * most + 1).map(array)


def finite_arrays(shape, *, most=10.0):
    """Float64 arrays with entries in [-most, most]."""
    entries = st.floats(-most, most, allow_subnormal=False)
    return hnp.arrays(np.float64, shape, elements=entries)


@st.composite
def zero_sum_rows(draw, n, width):
    """(n, width) multiples of 1/8 whose columns add up to exactly zero."""
    rows = draw(eighths((n, width)))
    rows[-1] -= rows.sum(axis=0)
    return rows


@st.composite
def fair_pairs(draw, topology, corrupted, *, width=1):
    """(A, B), equal on C and with equal sums over every component of G[H]."""
    a = draw(eighths((topology.n_parties, width)))
    b = a.copy()
    honest = topology.without(topology.indices(corrupted))
    for part in graph_components(honest):
        rows = sorted(topology.indices(honest.names(part)))
        b[rows] += draw(zero_sum_rows(len(rows), width))
    return a, b


@st.composite
def settings_of_the_theorem(draw, *, width=1, min_honest=2, **options):
    """(topology, C, A, B) that Definition 2 compares; G[H] may be in pieces."""
    topology = draw(any_topologies(**options))
    least = min(min_honest, topology.n_parties)
    corrupted = draw(coalitions(topology, min_honest=least))
    a, b = draw(fair_pairs(topology, corrupted, width=width))
    return topology, corrupted, a, b
