"""Bounds on integer masks, against view laws summed term by term."""

from itertools import combinations, product
from math import ceil, erf, exp, inf, log, pi, sqrt
from typing import NamedTuple

import mpmath
import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import optimize

from cases import each
from refusals import refused
from strategies import any_topologies, coalitions, connected_topologies, few
from veilsum.errors import InvalidInputError, InvalidPairError
from veilsum.graphs.connectivity import algebraic_connectivity, is_connected
from veilsum.graphs.topology import Topology
from veilsum.privacy import lattice
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.lattice import (
    cheapest_flow_cost,
    lattice_divergence,
    lattice_divergence_by_flow,
    lattice_epsilon_excess,
    lattice_excess,
    lattice_excess_by_cycles,
    lattice_excess_by_flows,
    lattice_success,
    most_moved_coefficients,
    smoothness_of_masks,
    worst_lattice_excess,
)

K3 = Topology.family("complete:3")
ARCS = {
    "triangle": [(0, 1), (1, 2), (2, 0)],
    "ring of 4": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "K4 less a link": [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)],
    "path": [(0, 1), (1, 2), (2, 3)],
    "star": [(0, 1), (0, 2), (0, 3)],
    "opposite arcs": [(0, 1), (1, 0), (1, 2)],
}


def graph(name, *, draws):
    return Topology.from_edges(ARCS[name], parties=None, directed=draws == 1)


def deviation_list(topology, deviations):
    return np.broadcast_to(np.asarray(deviations, dtype=float), (topology.n_edges,))


def draw_law(deviation, reach):
    y = np.arange(-reach, reach + 1)
    weight = np.exp(-(y**2) / (2.0 * deviation**2))
    return weight / weight.sum()


def view_law(topology, deviations, size, *, further):
    """P(Theta c = v) for all v, less the last party, on a torus too large to matter."""
    law = np.zeros((size,) * (topology.n_parties - 1))
    law[(0,) * law.ndim] = 1.0
    for (i, j), deviation in zip(topology.edges, deviations, strict=True):
        noise = draw_law(deviation, reach=ceil(9.5 * deviation) + further)
        if topology.shares_per_edge == 2:
            noise = np.convolve(noise, noise)
        moved = np.zeros_like(law)
        for c, chance in enumerate(noise, start=-(len(noise) // 2)):
            by = [c * (int(axis == i) - int(axis == j)) for axis in range(law.ndim)]
            moved += chance * np.roll(law, by, axis=tuple(range(law.ndim)))
        law = moved
    return law


def exact_kl(topology, shift, deviations):
    """sum_u P(u) log(P(u) / P(u + d)), by enumeration of all masks u that matter."""
    deviations = deviation_list(topology, deviations)
    degree = max(np.bincount(topology.edges.ravel())) * topology.shares_per_edge
    moved = sum(abs(x) for x in shift)
    most = 9.0 * deviations.max() * sqrt(degree) + moved
    law = view_law(topology, deviations, size=2 * ceil(most) + 3, further=moved)
    other = np.roll(law, [-x for x in shift[:-1]], axis=tuple(range(law.ndim)))
    told = law > 1e-22
    return float((law[told] * np.log(law[told] / other[told])).sum())


def formula(topology, shift, deviations):
    """d' L^+ d / 2 with weights s S^2, by the pseudo-inverse."""
    weights = topology.shares_per_edge * deviation_list(topology, deviations) ** 2
    theta = topology.incidence.toarray()
    inverse = np.linalg.pinv(theta @ np.diag(weights) @ theta.T, hermitian=True)
    return float(shift @ inverse @ shift) / 2.0


@st.composite
def shifts(draw, topology, *, most):
    ends = st.integers(-most, most)
    rows = [draw(ends) for _ in range(topology.n_parties - 1)]
    return [*rows, -sum(rows)]


@st.composite
def small_settings(draw, *, most=2):
    """A connected graph of up to 4 parties, a deviation for each link, and a shift."""
    topology = draw(any_topologies(min_agents=2, max_agents=4))
    assume(topology.n_edges <= 5)
    tenths = [draw(st.integers(3, 10)) for _ in range(topology.n_edges)]
    return topology, draw(shifts(topology, most=most)), [k / 10.0 for k in tenths]


@pytest.mark.parametrize(
    ("draws", "share", "exact"),
    [
        # The known divergences of d = (1, -1, 0); one draw stands for c = r_ij - r_ji.
        (1, 0.3 * sqrt(2), 2.3544),
        (1, 0.5 * sqrt(2), 0.67123),
        (1, 0.8 * sqrt(2), 0.260417),
        (2, 0.5, 0.7786),
        (2, 1.2, 0.115741),
    ],
)
def test_the_triangle_has_the_known_divergences(draws, share, exact):
    topology = graph("triangle", draws=draws)
    found = exact_kl(topology, [1, -1, 0], share)
    assert found == pytest.approx(exact, rel=5e-5)
    assert found <= lattice_divergence_by_flow(topology, [1, -1, 0], share).bound


def test_the_bounds_of_the_triangle_are_the_known_ones():
    topology = graph("triangle", draws=1)
    coarse = lattice_divergence_by_flow(topology, [1, -1, 0], 0.3 * sqrt(2))
    assert coarse.continuous == pytest.approx(1.8519, abs=5e-5)
    assert coarse.bound == pytest.approx(2.7778, abs=5e-5)
    finer = lattice_divergence_by_flow(topology, [1, -1, 0], 0.8 * sqrt(2))
    assert finer.bound == pytest.approx(0.2613, abs=5e-5)


@each("name", ARCS)
@each("draws", [1, 2])
@each("deviation", [0.35, 0.6, 0.9])
def test_every_bound_holds_on_every_small_graph(name, draws, deviation):
    topology = graph(name, draws=draws)
    last = [0] * (topology.n_parties - 3)
    for shift in ([1, -1, 0, *last], [2, -1, -1, *last], [-3, 1, 2, *last]):
        check_all_bounds(topology, shift, deviation)


@few
@given(small_settings())
def test_every_bound_holds_with_deviations_of_their_own(setting):
    check_all_bounds(*setting)


def check_all_bounds(topology, shift, deviations):
    exact, real = (
        exact_kl(topology, shift, deviations),
        formula(topology, shift, deviations),
    )
    slack = 1e-9 * (1 + exact)
    assert abs(exact - real) <= lattice_excess_by_cycles(topology, deviations) + slack
    assert exact <= real + lattice_excess_by_flows(topology, deviations) + slack
    assert exact <= real + lattice_excess(topology, deviations) + slack
    found = lattice_divergence_by_flow(topology, shift, deviations)
    assert exact <= found.bound + slack
    assert found.continuous == pytest.approx(real, rel=1e-9, abs=1e-12)
    assert found.bound == pytest.approx(found.continuous + found.excess)
    assert found.excess <= lattice_excess(topology, deviations) + slack


@pytest.mark.parametrize("name", ["path", "star"])
def test_on_a_tree_with_one_draw_the_formula_is_exact(name):
    topology = graph(name, draws=1)
    assert lattice_excess_by_cycles(topology, 0.3) == 0.0
    found = lattice_divergence_by_flow(topology, [3, -1, 0, -2], [0.4, 0.7, 0.9])
    assert found.excess == 0.0
    exact = exact_kl(topology, [3, -1, 0, -2], [0.4, 0.7, 0.9])
    assert found.bound == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("deviation", [0.5, 0.7, 1.0])
def test_one_link_with_two_draws_is_bounded_by_its_own_theta_function(deviation):
    """Even and odd c differ by theta_3 / theta_4 at q = exp(-pi^2 S^2)."""
    pair = Topology.from_edges([(0, 1)])
    nome = mpmath.exp(-(mpmath.pi**2) * deviation**2)
    ratio = mpmath.jtheta(3, 0, nome) / mpmath.jtheta(4, 0, nome)
    bound = lattice_excess_by_cycles(pair, deviation)
    assert float(mpmath.log(ratio)) <= bound
    assert bound <= 1.2 * float(mpmath.log(ratio))


def flow_price(topology, flow, deviations):
    """Each draw y costs y^2 / (2 S^2); two draws share a flow as evenly as can be."""
    total = 0.0
    for f, deviation in zip(flow, deviations, strict=True):
        parts = [f] if topology.directed else [f // 2, f - f // 2]
        total += sum(y * y for y in parts) / (2.0 * deviation**2)
    return total


@few
@given(small_settings(most=1))
def test_the_flow_is_the_cheapest_of_all_integer_flows(setting):
    topology, shift, deviations = setting
    theta = topology.incidence.toarray().astype(int)
    flows = np.indices((9,) * topology.n_edges).reshape(topology.n_edges, -1).T - 4
    flows = flows[(flows @ theta.T == shift).all(axis=1)]
    cheapest = min(flow_price(topology, f.tolist(), deviations) for f in flows)
    start = np.linalg.pinv(theta) @ shift
    column = np.array(shift, dtype=object)
    found = cheapest_flow_cost(topology, column, np.array(deviations), start)
    assert found == pytest.approx(cheapest, rel=1e-12)


class Answer(NamedTuple):
    x: object


@pytest.mark.parametrize("x", [None, np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])])
def test_a_solver_that_finds_no_flow_is_not_believed(monkeypatch, x):
    monkeypatch.setattr(optimize, "linprog", lambda *_, **__: Answer(x))
    assert lattice_divergence_by_flow(
        K3, [1, -1, 0], 0.3
    ).excess == lattice_excess_by_flows(K3, 0.3)


def signed_cycles(topology):
    """Z, its signs found by solving Theta z = 0 on each cycle's own links."""
    forest = lattice.spanning_forest(topology)
    where = lattice.fundamental_cycles(topology, forest).toarray()
    theta, rows = topology.incidence.toarray(), []
    for row in where:
        on = np.flatnonzero(row)
        _, values, vectors = np.linalg.svd(theta[:, on])
        assert (values[: len(on) - 1] > 1e-9).all(), "two cycles in one row"
        z = np.zeros(len(row))
        z[on] = vectors[-1] / abs(vectors[-1]).max()
        rows.append(z)
    return np.array(rows).reshape(-1, topology.n_edges), forest


@few
@given(any_topologies())
def test_fundamental_cycles_are_a_basis_of_all_integer_cycles(topology):
    """One cycle for each link off the forest, alone on that link."""
    z, forest = signed_cycles(topology)
    assert len(z) == topology.n_edges - topology.n_parties + 1
    assert np.allclose(abs(z), np.rint(abs(z)))
    assert np.allclose(topology.incidence @ z.T, 0.0)
    assert np.allclose(abs(z[:, forest.rest]), np.eye(len(z)))


@few
@given(any_topologies(min_agents=3), st.randoms(use_true_random=False))
def test_what_dominates_the_cycles_is_above_every_eigenvalue(topology, random):
    cost = np.array([random.uniform(0.01, 1.0) for _ in range(topology.n_edges)])
    z, forest = signed_cycles(topology)
    assume(len(z) > 0)
    gram = z @ np.diag(cost) @ z.T
    cycles = lattice.fundamental_cycles(topology, forest)
    found = lattice.dominating_cycle_costs(cycles, cost)
    assert found.max() >= np.linalg.eigvalsh(gram)[-1] * (1 - 1e-12)
    assert np.linalg.eigvalsh(np.diag(found) - gram)[0] >= -1e-9 * found.max()
    assert found.max() <= np.trace(gram) * (1 + 1e-12)


@each("name", ["triangle", "ring of 4", "K4 less a link"])
@each("deviation", [0.6, 0.8, 1.1, 1.6, 2.5])
def test_both_bounds_on_eta_are_above_the_sum_itself(name, deviation):
    topology = graph(name, draws=1)
    z, forest = signed_cycles(topology)
    inverse = np.linalg.inv(z @ z.T / deviation**2)
    points = np.array(list(product(range(-6, 7), repeat=len(z))))
    norms = np.einsum("ij,jk,ik->i", points, inverse, points)
    eta = np.exp(-2 * pi**2 * norms).sum() - 1.0
    cycles = lattice.fundamental_cycles(topology, forest)
    reach = 2 * pi**2 * deviation**2
    ones = np.ones(topology.n_edges)
    dominated = lattice._lattice_theta_bound(
        reach / lattice.dominating_cycle_costs(cycles, ones)
    )
    assert min(eta, 1.0) <= dominated + 1e-12
    assert (
        eta
        <= lattice._lattice_packed_bound(reach, (cycles @ ones).max(), len(z)) + 1e-12
    )


def test_the_packed_bound_is_the_sum_over_shells():
    """5^jk exp(-a j), j = 1, 2, ..: an independent sum; and none for too little."""
    a, k = 20.0, 3
    shells = sum(exp(j * (k * log(5.0) - a)) for j in range(1, 60))
    assert lattice._lattice_packed_bound(a, 1.0, k) == pytest.approx(shells, rel=1e-6)
    assert lattice._lattice_packed_bound(4.0, 1.0, k) == inf
    assert lattice._lattice_packed_bound(4.0, 0.0, 0) == 0.0


def test_long_rings_have_an_excess_that_can_be_seen():
    """One cycle of n links: 4 q, q = exp(-4 pi^2 S^2 / n)."""
    n = 25_000
    links = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    links = np.array(sorted(np.sort(links, axis=1).tolist()))
    ring = Topology(tuple(map(str, range(n))), links, np.ones(n))
    found = lattice_excess_by_cycles(ring, 2**9)
    expected = 4 * exp(-4 * pi**2 * 2**18 / n)
    assert expected <= found <= expected * (1 + 1e-5)
    assert lattice_excess(ring, 2**4) == lattice_excess_by_flows(ring, 2**4) < inf


def test_expanders_have_none():
    topology = Topology.from_networkx(nx.random_regular_graph(4, 20, seed=0))
    assert 0 < lattice_excess_by_cycles(topology, 4) <= 1e-20
    larger = Topology.from_networkx(nx.random_regular_graph(6, 3000, seed=0))
    assert lattice_excess_by_cycles(larger, 2**10) == 0.0
    assert worst_lattice_excess(larger, 2**10, 3, mu2=0.3) == 0.0


def test_where_cycles_are_too_many_to_list_the_coarse_bound_stands(monkeypatch):
    grid = Topology.from_networkx(nx.grid_2d_graph(4, 4))
    listed = lattice_excess_by_cycles(grid, 2.0)
    monkeypatch.setattr(lattice, "MOST_CYCLE_LINKS", 10)
    assert listed <= lattice_excess_by_cycles(grid, 2.0)
    assert lattice_excess_by_cycles(grid, 8.0) < 1e-3


@pytest.mark.parametrize(
    ("draws", "expected"), [(1, (1 + 1 / 4) / 8), (2, (1 + 1 / 4) / 4)]
)
def test_the_flow_excess_is_an_eighth_for_each_draw(draws, expected):
    path = Topology.from_edges([(0, 1), (1, 2)], directed=draws == 1)
    assert lattice_excess_by_flows(path, [1.0, 2.0]) == expected


@few
@given(
    connected_topologies(min_agents=3, max_agents=6),
    st.sampled_from([0.5, 1.0, 2.0, 4.0, 8.0]),
    st.integers(0, 2),
    st.data(),
)
def test_the_worst_excess_covers_what_every_coalition_leaves(
    topology, deviation, tolerate, data
):
    deviations = np.array(
        [deviation * data.draw(st.integers(1, 3)) for _ in range(topology.n_edges)]
    )
    worst = worst_lattice_excess(topology, deviations, tolerate)
    left, mu2s = [], []
    for size in range(tolerate + 1):
        for gone in combinations(range(topology.n_parties), size):
            honest = topology.without(gone)
            kept = ~np.isin(topology.edges, gone).any(axis=1)
            left.append((honest, lattice_excess(honest, deviations[kept])))
            if is_connected(honest) and honest.n_parties > 1:
                mu2s.append(algebraic_connectivity(honest))
    assert all(found <= worst * (1 + 1e-8) for _, found in left)
    if all(is_connected(honest) for honest, _ in left):
        sharper = worst_lattice_excess(topology, deviations, tolerate, mu2=min(mu2s))
        assert max(found for _, found in left) <= sharper * (1 + 1e-8)
        assert sharper <= worst


@few
@given(any_topologies(min_agents=3), st.data())
def test_mu2_bounds_the_longest_fundamental_cycle_of_what_is_left(topology, data):
    gone = data.draw(coalitions(topology, min_honest=2))
    honest = topology.without(topology.indices(gone))
    assume(is_connected(honest))
    forest = lattice.spanning_forest(honest)
    lengths = lattice.fundamental_cycles(honest, forest).sum(axis=1)
    mu2 = algebraic_connectivity(honest)
    most = lattice.longest_lattice_cycle(topology, mu2)
    assert max(lengths, default=0) <= most <= topology.n_parties
    assert lattice.longest_lattice_cycle(topology, 1e-300) == topology.n_parties
    assert lattice.longest_lattice_cycle(topology, 0.0) == topology.n_parties


def test_in_pieces_the_excesses_add():
    two = Topology.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    one = lattice_excess_by_cycles(K3, 0.9)
    assert 2 * one <= lattice_excess_by_cycles(two, 0.9) <= 2.01 * one
    assert lattice_excess_by_flows(two, 0.9) == pytest.approx(
        2 * lattice_excess_by_flows(K3, 0.9)
    )
    both = lattice_divergence_by_flow(two, [1, -1, 0, 0, 2, -2], 3.0)
    parts = [lattice_divergence_by_flow(K3, d, 3.0) for d in ([1, -1, 0], [0, 2, -2])]
    assert both.continuous == pytest.approx(sum(part.continuous for part in parts))


def test_columns_add_and_those_of_equals_are_free():
    one = lattice_divergence_by_flow(K3, [1, -1, 0], 0.5)
    three = lattice_divergence_by_flow(K3, [[1, 0, 1], [-1, 0, -1], [0, 0, 0]], 0.5)
    assert three.bound == pytest.approx(2 * one.bound)
    assert three.excess == pytest.approx(2 * one.excess)
    nothing = lattice_divergence_by_flow(K3, [0, 0, 0], 0.5)
    assert nothing.bound == nothing.continuous == nothing.excess == 0.0


def test_shifts_of_any_size_are_taken_exactly():
    """Past 2^40 no flow is searched for; past 2^63 the shift is Python's."""
    size = 2**90
    found = lattice_divergence_by_flow(K3, [[size], [-size], [0]], 0.5)
    assert found.continuous == pytest.approx(2 / 3 * float(size) ** 2 / (4 * 0.25))
    deviation = 2**100
    finer = lattice_divergence_by_flow(K3, [[size], [-size], [0]], [deviation] * 3)
    assert finer.bound == pytest.approx(2 / 3 / 4 * 2.0**-20, rel=1e-12)
    assert finer.excess == 0.0


def test_large_flows_are_searched_with_integer_prices():
    """Near 2^39 squares have no exact float; a unit more still has its price."""
    size = 2**38
    shift = np.array([3 * size, -3 * size, 0], dtype=object)
    near = np.array([2 * size + 1, size - 1, size - 1], dtype=object) * [1, 1, -1]
    found = lattice._lattice_unit_step(K3, shift, np.ones(3), near)
    assert found.tolist() == [2 * size, size, -size]


def test_next_to_a_huge_divergence_the_closed_form_is_the_excess():
    found = lattice_divergence_by_flow(K3, [2**30, -(2**30), 0], 0.3)
    assert found.excess == lattice_excess_by_flows(K3, 0.3)
    uneven = lattice_divergence_by_flow(K3, [2**45, -(2**45), 0], [2.0**45, 0.3, 0.3])
    assert uneven.excess == lattice_excess_by_flows(K3, [2.0**45, 0.3, 0.3])


def test_whole_arrays_of_int64_are_shifts_too():
    found = lattice_divergence_by_flow(K3, np.array([1, -1, 0]), np.array([4, 4, 4]))
    assert found.bound == pytest.approx(2 / 3 / 64)


@pytest.mark.parametrize(
    ("shift", "what"),
    [
        ([1, 0, 0], "add up to zero over 0, 1, 2"),
        ([1, -1], "one row for each of 3 parties"),
        ([[[1]], [[-1]], [[0]]], "one row for each of 3 parties"),
        ([0.5, -0.5, 0.0], "whole numbers"),
    ],
)
def test_shifts_that_are_none_are_refused(shift, what):
    with pytest.raises(InvalidInputError, match=what):
        lattice_divergence_by_flow(K3, shift, 4)


@pytest.mark.parametrize("deviations", [0, -1.0, [4, 4, 0], 1e200])
def test_deviations_that_mask_nothing_are_refused(deviations):
    with refused("deviation-not-positive"):
        lattice_excess(K3, deviations)


def test_as_many_deviations_as_links_are_needed():
    with refused("wrong-shape", mentions=("3",)):
        lattice_excess(K3, [4, 4])


def test_a_negative_number_of_colluders_is_refused():
    with refused("tolerate-negative"):
        worst_lattice_excess(K3, 4, -1)


def test_nobody_left_has_no_excess():
    nobody = K3.without(range(3))
    alone = K3.without([0, 1])
    for left in (nobody, alone):
        assert lattice_excess(left, 4) == 0.0
        shift = np.zeros((left.n_parties, 1), dtype=np.int64)
        assert lattice_divergence_by_flow(left, shift, 4).bound == 0.0


@few
@given(st.data(), any_topologies(min_agents=3, max_agents=6), st.sampled_from([1, 3]))
def test_on_a_fine_grid_the_bound_is_the_gaussian_formula(data, topology, sigma):
    """Integers in units of the data are on every grid; deviations are rounded up."""
    corrupted = data.draw(coalitions(topology, min_honest=2))
    honest = sorted(set(range(topology.n_parties)) - topology.indices(corrupted))
    a = np.zeros((topology.n_parties, 2))
    b = a.copy()
    b[honest[0]], b[honest[1]] = [2.0, -1.0], [-2.0, 1.0]
    found = lattice_divergence(
        topology, a, b, sigma=float(sigma), bits=30, corrupted=corrupted
    )
    expected = kl_divergence(topology, a, b, sigma=float(sigma), corrupted=corrupted)
    assert found.bound == pytest.approx(expected, rel=1e-7)
    assert found.bound <= expected * (1 + 1e-12) or expected == inf
    assert found.excess == 0.0


def test_each_coefficient_may_have_a_sigma_of_its_own():
    a, b = [[1, 1], [2, 2], [3, 3]], [[2, 2], [1, 1], [3, 3]]
    found = lattice_divergence(K3, a, b, sigma=[1.0, 2.0], bits=12)
    assert found.bound == pytest.approx((1 + 1 / 4) / 6)


def test_it_is_the_quantised_pair_that_counts():
    """0.25 and 0.75 are 0 and 2 halves, ties to even; 0.2 and 0.1 are both none."""
    a, b = [0.25, 0.75, 1.3], [0.75, 0.25, 1.3]
    found = lattice_divergence(K3, a, b, sigma=8, bits=1)
    assert found.continuous == pytest.approx(formula(K3, np.array([-2, 2, 0]), 16))
    same = lattice_divergence(K3, [0.2, 0.4, 1.0], [0.1, 0.5, 1.1], sigma=8, bits=1)
    assert same.bound == 0.0


def test_deviations_are_rounded_up_and_weigh_each_link():
    """4 sqrt(2) = 5.66 becomes 6, 4 sqrt(3) = 6.93 becomes 7: resistances in a row."""
    path = Topology.from_edges([(0, 1), (1, 2)], weights=[2.0, 3.0])
    found = lattice_divergence(path, [1, 0, 0], [0, 0, 1], sigma=1.0, bits=2)
    assert found.continuous == pytest.approx(4**2 * (1 / 36 + 1 / 49) / 4)


def test_a_pair_whose_quantised_sums_differ_is_refused():
    """0.3 + 0.3 = 0.6, but on the grid of 1/2 they are 1/2 + 1/2 and 1/2."""
    with refused("quantised-sums-differ", InvalidPairError, mentions=("1",)):
        lattice_divergence(K3, [0.3, 0.3, 0.0], [0.6, 0.0, 0.0], sigma=8, bits=1)


def test_a_pair_that_differs_on_the_coalition_is_refused():
    with refused("corrupted-differ", InvalidPairError, mentions=("1,", "2")):
        lattice_divergence(
            K3, [1, 2, 3], [1, 3, 2], sigma=1, bits=10, corrupted=["1", "2"]
        )


@pytest.mark.parametrize(
    ("a", "b", "what"),
    [
        ([1, 2], [2, 1], "A must have one row for each of 3 parties"),
        ([[1, 1], [2, 2], [3, 3]], [2, 1, 3], "differ in shape"),
        ([1, 2, np.nan], [1, 2, 3], "A must be finite"),
    ],
)
def test_pairs_that_are_no_coefficients_are_refused(a, b, what):
    with pytest.raises(InvalidInputError, match=what):
        lattice_divergence(K3, a, b, sigma=1.0, bits=10)


def test_a_piece_whose_sum_differs_is_told_apart_for_certain():
    pairs = Topology.from_edges([(0, 1), (2, 3)])
    found = lattice_divergence(pairs, [1, 2, 3, 4], [2, 2, 2, 4], sigma=1, bits=8)
    assert found.bound == found.continuous == inf
    fair = lattice_divergence(pairs, [1, 2, 3, 5], [2, 1, 5, 3], sigma=1, bits=8)
    assert fair.bound == pytest.approx((2 / 2 + 8 / 2) / 4)


def test_nobody_honest_leaves_only_the_pair_of_equals():
    same = [1.0, 2.0, 3.0]
    found = lattice_divergence(K3, same, same, sigma=1, bits=8, corrupted=K3.parties)
    assert found.bound == 0.0


@given(
    st.integers(1, 300),
    st.integers(-1000, 0),
    st.sampled_from([1.0, 0.75]),
    st.sampled_from([1.0, 0.625]),
)
def test_the_epsilon_of_an_excess_is_exact(bits, exponent, fraction, part):
    step, excess = fraction * 2.0**-bits, part * 2.0**exponent
    with mpmath.workdps(40):
        exact = mpmath.mpf(excess) / (2 * mpmath.mpf(step) ** 2)
        expected = float(exact) if exact < mpmath.mpf(2) ** 1023 else inf
    assert lattice_epsilon_excess(excess, step) == pytest.approx(expected, rel=1e-15)


def test_an_excess_that_is_nothing_stays_nothing_and_infinity_infinite():
    assert lattice_epsilon_excess(0.0, 2.0**-100) == 0.0
    assert lattice_epsilon_excess(inf, 2.0**-100) == inf
    assert lattice_epsilon_excess(1.0, 2.0**-600) == inf
    with refused("step-not-positive"):
        lattice_epsilon_excess(1.0, 0.0)
    with refused("divergence-negative"):
        lattice_epsilon_excess(-1.0, 1.0)


@few
@given(small_settings())
def test_the_guarantee_with_its_excess_covers_every_shift(setting):
    """KL <= (1 / (2 mu2) + excess / 2) ||d||^2, mu2 that of the weights s S^2."""
    topology, shift, deviations = setting
    weights = topology.shares_per_edge * np.array(deviations) ** 2
    theta = topology.incidence.toarray()
    mu2 = np.linalg.eigvalsh(theta @ np.diag(weights) @ theta.T)[1]
    excess = lattice_epsilon_excess(lattice_excess(topology, deviations), 1.0)
    size = sum(x * x for x in shift)
    exact = exact_kl(topology, shift, deviations)
    assert exact <= (1 / (2 * mu2) + excess) * size * (1 + 1e-9) + 1e-9


@few
@given(small_settings())
def test_no_guesser_succeeds_more_often_than_the_bound(setting):
    topology, shift, deviations = setting
    deviations = deviation_list(topology, deviations)
    law = view_law(topology, deviations, size=61, further=2)
    other = np.roll(law, [-x for x in shift[:-1]], axis=tuple(range(law.ndim)))
    success = (1.0 + abs(law - other).sum() / 2.0) / 2.0
    assert success <= lattice_success(exact_kl(topology, shift, deviations)) + 1e-9


def exact_variation(topology, shift, deviations):
    """TV between the masks and the masks moved by the shift, term by term."""
    deviations = deviation_list(topology, deviations)
    degree = max(np.bincount(topology.edges.ravel())) * topology.shares_per_edge
    moved = sum(abs(x) for x in shift)
    size = 2 * ceil(9.0 * deviations.max() * sqrt(degree) + moved) + 3
    law = view_law(topology, deviations, size=size, further=moved)
    other = np.roll(law, [-x for x in shift[:-1]], axis=tuple(range(law.ndim)))
    return abs(law - other).sum() / 2.0


# The path has four parties, and more masks than can be enumerated at wide deviations.
ROUNDED = [
    *product(["triangle"], [1, 2], [0.8, 1.3, 2.5, 4.0]),
    *product(["path"], [1, 2], [0.8, 1.3]),
    *product(["opposite arcs"], [1], [0.8, 1.3, 2.5, 4.0]),
]


@each(("name", "draws", "deviation"), ROUNDED)
@each("shift", [(1, -1, 0), (3, -1, -2), (7, 0, -7), (-9, 8, 1)])
def test_no_guesser_beats_a_rounded_normal_law(name, draws, deviation, shift):
    """The bound for every t against laws summed term by term."""
    topology = graph(name, draws=draws)
    shift = [*shift, *[0] * (topology.n_parties - 3)]
    told = exact_variation(topology, shift, deviation)
    real = formula(topology, shift, deviation)
    smooth = smoothness_of_masks(topology, deviation)
    for spare in (-3.0, -1.0, 0.5, 2.0, 5.0, 10.0, 20.0):
        assert told <= smooth.variation(real, 1.0, spare=spare) + 1e-9
    assert (1.0 + told) / 2.0 <= lattice_success(real, smooth=smooth, moved=1.0) + 1e-9


def test_on_a_fine_lattice_the_normal_law_is_the_truth():
    """The bound is the normal law's from above, and exact laws come to it."""
    topology, shift = graph("triangle", draws=2), [9, -4, -5]
    real = formula(topology, shift, 4.0)
    told = exact_variation(topology, shift, 4.0)
    assert told == pytest.approx(erf(sqrt(real) / 2.0), rel=0.01)
    smooth = smoothness_of_masks(topology, 4.0)
    best = min(smooth.variation(real, 1.0, spare=x) for x in (2.0, 5.0, 10.0))
    assert told < best < 1.05 * told


@few
@given(any_topologies(min_agents=2, max_agents=9), st.floats(1e-12, 30.0), st.data())
def test_with_a_thousand_steps_little_is_added_to_the_normal_law(
    topology, divergence, data
):
    """Whichever parties are left, and even if 2^100 coefficients differ."""
    smooth = smoothness_of_masks(topology, 2.0**10)
    moved = data.draw(st.sampled_from([1.0, 2.0**20, 2.0**100]))
    found = lattice_success(divergence, smooth=smooth, moved=moved)
    normal = attacker_success(divergence)
    assert normal <= found + 1e-15
    assert found <= normal + 1e-5 * (normal - 0.5) + 1e-15


def test_a_smooth_bound_is_never_worse_than_the_general_one():
    ring = Topology.family("ring:30")
    for deviation in (0.2, 1.0, 3.0, 50.0):
        smooth = smoothness_of_masks(ring, deviation)
        for divergence in (0.0, 1e-9, 0.1, 3.0, inf):
            for moved in (1.0, 1e300, inf):
                found = lattice_success(divergence, smooth=smooth, moved=moved)
                assert 0.5 <= found <= lattice_success(divergence)


def test_no_more_coefficients_differ_than_the_distance_has_room_for():
    """A column that differs moves two parties by a step or more."""
    assert most_moved_coefficients(sqrt(2) * 3, 3.0) == pytest.approx(1.0)
    assert most_moved_coefficients(1e200, 1e-100) == inf


@pytest.mark.parametrize(
    ("divergence", "success"),
    [(0.0, 0.5), (0.5, 0.75), (3.81, (1 + sqrt(1 - exp(-3.81))) / 2), (inf, 1.0)],
)
def test_the_success_bound_is_pinsker_then_bretagnolle_and_huber(divergence, success):
    assert lattice_success(divergence) == pytest.approx(success, rel=1e-15)


def test_no_success_bound_for_a_negative_divergence():
    with refused("divergence-negative"):
        lattice_success(-1.0)
