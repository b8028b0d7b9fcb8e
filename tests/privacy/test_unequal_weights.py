"""Divergences with weights many powers of ten apart, against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import connected_topologies, few
from veilsum.errors import InvalidGraphError, InvalidPairError
from veilsum.graphs.topology import Topology
from veilsum.privacy.divergence import (
    CERTAIN,
    DegenerateGaussian,
    effective_resistance,
    kl_divergence,
    swap_divergence,
)
from veilsum.privacy.lattice import lattice_divergence

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def rational(x):
    exact = Fraction(x)
    return fmpq(exact.numerator, exact.denominator)


def exact_laplacian(topology):
    n = topology.n_parties
    found = fmpq_mat(n, n)
    for (i, j), weight in zip(
        topology.edges.tolist(), topology.weights.tolist(), strict=True
    ):
        w = rational(weight)
        for row, column, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            found[row, column] += sign * w
    return found


def exact_power(matrix, currents):
    """d' M^-1 d; a Laplacian is taken without its first party."""
    column = fmpq_mat(len(currents), 1, currents)
    solved = matrix.solve(column)
    return sum((column[i, 0] * solved[i, 0] for i in range(len(currents))), fmpq(0))


def without_the_first(matrix):
    n = matrix.nrows()
    entries = [matrix[i, j] for i in range(1, n) for j in range(1, n)]
    return fmpq_mat(n - 1, n - 1, entries)


def exact_kl(topology, a, b, *, sigma=1.0, tau=0.0):
    d = [rational(x) - rational(y) for x, y in zip(a, b, strict=True)]
    laplacian, s2 = exact_laplacian(topology), rational(sigma) * rational(sigma)
    if tau:
        noise = laplacian * (s2 * topology.shares_per_edge)
        for i in range(topology.n_parties):
            noise[i, i] += rational(tau) * rational(tau)
        return as_float(exact_power(noise, d) / 2)
    power = exact_power(without_the_first(laplacian), d[1:])
    return as_float(power / s2 / (2 * topology.shares_per_edge))


def as_float(x):
    return float(Fraction(int(x.p), int(x.q)))


def path(*weights):
    links = [(i, i + 1) for i in range(len(weights))]
    return Topology.from_edges(links, weights=list(weights))


@each("ratio", [1e-3, 1e-9, 1e-12, 1e-15, 1e-16, 1e-25, 1e-40])
@each("b", [[3, 2, 1, 4], [2, 1, 3, 4], [1, 2, 4, 3]])
def test_a_weak_link_between_two_pairs(ratio, b):
    """At a ratio of 1e-15 the first was once 6 % off, without a word."""
    topology, a = path(1.0, ratio, 1.0), [1, 2, 3, 4]
    expected = exact_kl(topology, a, b)
    assert kl_divergence(topology, a, b, sigma=1.0) == pytest.approx(expected, rel=1e-9)


def test_a_party_that_hangs_on_two_weak_links():
    """Rounding of the others' currents must not flow through them."""
    links = [(0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (2, 4), (2, 5), (3, 4), (4, 5)]
    weights = [1e-30, 1.7154379e-30, *[1.0] * 7]
    topology = Topology.from_edges(links, parties=range(6), weights=weights)
    for a, b in (
        ([0] * 6, [0, 0, 0, 0, 1, -1]),
        ([1, 2, 3, 4, 5, 6], [2, 1, 3, 4, 6, 5]),
    ):
        expected = exact_kl(topology, a, b)
        found = kl_divergence(topology, a, b, sigma=1.0)
        assert found == pytest.approx(expected, rel=CERTAIN)


@st.composite
def unequal(draw):
    """A connected graph whose weights span up to thirty powers of ten."""
    plain = draw(connected_topologies(min_agents=2, max_agents=8))
    span = draw(st.sampled_from([1.0, 8.0, 16.0, 30.0]))
    places = st.floats(0.0, 1.0, allow_subnormal=False)
    powers = [-span * draw(places) for _ in range(plain.n_edges)]
    weights = [draw(st.integers(1, 9)) * 10.0**power for power in powers]
    return Topology(plain.parties, plain.edges, np.array(weights))


@st.composite
def unequal_pairs(draw):
    topology = draw(unequal())
    n = topology.n_parties
    numbers = st.integers(-1000, 1000)
    a, b = ([draw(numbers) for _ in range(n)] for _ in range(2))
    b[-1] = sum(a) - sum(b[:-1])
    return topology, a, b


@few
@given(unequal_pairs(), st.floats(1e-3, 1e3))
def test_every_divergence_is_right_or_refused(pair, sigma):
    topology, a, b = pair
    expected = exact_kl(topology, a, b, sigma=sigma)
    assert kl_divergence(topology, a, b, sigma=sigma) == pytest.approx(
        expected, rel=2 * CERTAIN
    )


@few
@given(unequal_pairs(), st.floats(-12.0, 3.0))
def test_with_noise_of_one_s_own_too(pair, power):
    topology, a, b = pair
    b[0] += 1
    tau = 10.0**power
    found = kl_divergence(topology, a, b, sigma=1.0, tau=tau)
    expected = exact_kl(topology, a, b, tau=tau)
    assert found == pytest.approx(expected, rel=2 * CERTAIN)


@few
@given(unequal())
def test_resistances_between_all_parties(topology):
    for party in topology.parties[1:]:
        currents = [fmpq(0)] * (topology.n_parties - 1)
        currents[topology.index(party) - 1] = fmpq(1)
        expected = as_float(
            exact_power(without_the_first(exact_laplacian(topology)), currents)
        )
        first = topology.parties[0]
        assert effective_resistance(topology, first, party) == pytest.approx(
            expected, rel=2 * CERTAIN
        )
        swapped = swap_divergence(topology, first, party, gap=2.0, sigma=1.0)
        assert swapped == pytest.approx(expected, rel=2 * CERTAIN)


def test_a_potential_behind_thin_links_is_certain_too():
    """The power says nothing of it."""
    links, weights = (
        [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)],
        [1e-30, 1e-30, 1e-15, 1, 1],
    )
    law = DegenerateGaussian(Topology.from_edges(links, weights=weights), 2.0)
    found = law.apply_pinv(np.array([0.0, 0.0, -1.0, 1.0]))
    np.testing.assert_allclose(found, [0.75, -0.25, -1.25, 0.75], rtol=1e-8)


@few
@given(unequal_pairs())
def test_potentials_and_densities(pair):
    topology, a, b = pair
    law = DegenerateGaussian(topology, 2.0)
    shift = np.subtract(a, b).astype(float)
    matrix = without_the_first(exact_laplacian(topology))
    column = fmpq_mat(len(a) - 1, 1, [rational(x) for x in shift[1:]])
    solved = [0.0, *(as_float(matrix.solve(column)[i, 0]) for i in range(len(a) - 1))]
    centred = np.array(solved) - np.mean(solved)
    size = max(abs(np.array(solved)).max(), 1e-300)
    np.testing.assert_allclose(law.apply_pinv(shift), centred, rtol=0, atol=1e-8 * size)
    # log det*(2 pi c L) with det* = n times the determinant without one party.
    n, exact = len(a), matrix.det() * len(a)
    volume = (n - 1) * np.log(4 * np.pi) + np.log(as_float(exact))
    assert law.log_density(np.zeros(n)) == pytest.approx(-0.5 * volume, rel=1e-8)


def test_weights_of_one_size_cost_no_digits():
    """All of them tiny: only their ratios matter."""
    for size in (1e-200, 1e-15, 1.0, 1e200):
        ring = Topology.from_edges([(0, 1), (1, 2), (2, 0)], weights=[size] * 3)
        assert DegenerateGaussian(ring, 1.0).sound
        found = kl_divergence(ring, [1, 2, 3], [2, 1, 3], sigma=size**-0.5)
        assert found == pytest.approx(1 / 6, rel=1e-12)


def test_a_sum_that_is_equal_up_to_rounding_is_refused_where_that_matters():
    topology = path(1.0, 1e-30, 1.0)
    a, b = [0.1, 0.2, 0.3, 0.7], [0.15, 0.15, 0.3, 0.7]
    assert sum(map(Fraction, a)) != sum(map(Fraction, b))
    with refused("rounding-undecided", InvalidPairError):
        kl_divergence(topology, a, b, sigma=1.0)
    assert kl_divergence(path(1.0, 1.0, 1.0), a, b, sigma=1.0) == pytest.approx(
        0.000625
    )


def test_weights_too_far_apart_for_float64_are_refused():
    topology, a, b = path(1.0, 1e-300, 1.0), [1, 2, 3, 4], [4, 2, 3, 1]
    with refused("weights-too-uneven", InvalidGraphError):
        kl_divergence(topology, a, b, sigma=1.0)
    wide = path(1.0, 1e-100, 1.0)
    found = kl_divergence(wide, a, b, sigma=1.0)
    assert found == pytest.approx(exact_kl(wide, a, b), rel=1e-9)


@each("ratio", [1e-6, 1e-15, 1e-18, 1e-20])
@each("b", [[3, 2, 1, 4], [2, 1, 3, 4]])
def test_a_lattice_s_divergence_is_right_too(ratio, b):
    """Deviations are rounded up to whole steps, so it is no more than the formula's."""
    topology, a = path(1.0, ratio, 1.0), [1, 2, 3, 4]
    found = lattice_divergence(topology, a, b, sigma=1.0, bits=60)
    assert found.continuous == pytest.approx(exact_kl(topology, a, b), rel=1e-6)
    assert found.excess <= 1e-9 * found.continuous
