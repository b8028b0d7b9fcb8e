"""Hypothesis strategies: connected graphs, coalitions, coefficients, pairs (A, B).

Coefficients are small multiples of 1/8, so that every sum of them is exact in float64
and a test that needs equal sums gets equal sums.
"""

from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veilsum.core.connectivity import components
from veilsum.core.topology import Topology

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
    extra = draw(st.sets(st.sampled_from(others), max_size=2 * n)) if others else set()
    links = [*tree, *sorted(extra)]
    edges = draw(_arcs(links)) if directed else links
    weights = draw(_weights(len(edges))) if weighted else None
    return Topology.from_edges(
        edges, parties=range(n), weights=weights, directed=directed
    )


@st.composite
def _arcs(draw, links):
    """Each link becomes one arc, the opposite arc, or both."""
    arcs = []
    for i, j in links:
        choices = [[(i, j)], [(j, i)], [(i, j), (j, i)]]
        arcs += draw(st.sampled_from(choices))
    return arcs


def _weights(size):
    positive = st.floats(0.1, 10.0, allow_subnormal=False)
    return st.lists(positive, min_size=size, max_size=size)


@st.composite
def any_topologies(draw, **options):
    """A connected graph of any kind: plain, weighted, directed, or both."""
    kind = {"weighted": draw(st.booleans()), "directed": draw(st.booleans())}
    return draw(connected_topologies(**options, **kind))


@st.composite
def coalitions(draw, topology, *, min_honest=0):
    """Some parties by name, with at least `min_honest` left out."""
    most = topology.n_agents - min_honest
    chosen = draw(st.sets(st.sampled_from(topology.parties), max_size=most))
    return tuple(sorted(chosen))


def eighths(shape, *, most=64):
    """Arrays of multiples of 1/8 no larger than most/8."""
    return hnp.arrays(np.int64, shape, elements=st.integers(-most, most)).map(
        lambda whole: whole / 8.0
    )


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
    a = draw(eighths((topology.n_agents, width)))
    b = a.copy()
    honest = topology.without(topology.indices(corrupted))
    for part in components(honest):
        rows = sorted(topology.indices(honest.names(part)))
        b[rows] += draw(zero_sum_rows(len(rows), width))
    return a, b


@st.composite
def settings_of_the_theorem(draw, *, width=1, min_honest=2, **options):
    """(topology, C, A, B) that Definition 2 compares; G[H] may be in pieces."""
    topology = draw(any_topologies(**options))
    least = min(min_honest, topology.n_agents)
    corrupted = draw(coalitions(topology, min_honest=least))
    a, b = draw(fair_pairs(topology, corrupted, width=width))
    return topology, corrupted, a, b
