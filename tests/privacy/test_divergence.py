from math import inf

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from cases import each
from refusals import refused
from strategies import (
    any_topologies,
    coalitions,
    fair_pairs,
    few,
    settings_of_the_theorem,
    sigmas,
    zero_sum_rows,
)
from veilsum.errors import InvalidInputError, InvalidPairError
from veilsum.graphs.connectivity import graph_components, is_connected
from veilsum.graphs.topology import Topology
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.guarantee import guarantee

K3 = Topology.family("complete:3")


@given(settings_of_the_theorem(width=2), sigmas)
def test_the_divergence_is_the_quadratic_form_of_the_pseudo_inverse(setting, sigma):
    """tr(D' L_H^+ D) / (2 s sigma^2), L_H^+ from the eigenvectors of the whole L_H."""
    topology, corrupted, a, b = setting
    honest = sorted(set(range(topology.n_parties)) - topology.indices(corrupted))
    graph = topology.induced(honest)
    inverse = np.linalg.pinv(graph.laplacian.toarray(), rcond=1e-10, hermitian=True)
    d = (a - b)[honest]
    expected = np.trace(d.T @ inverse @ d) / (2 * graph.shares_per_edge * sigma**2)
    found = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)


@few
@given(settings_of_the_theorem(), sigmas)
def test_the_divergence_is_symmetric(setting, sigma):
    topology, corrupted, a, b = setting
    forth = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    back = kl_divergence(topology, b, a, sigma=sigma, corrupted=corrupted)
    assert forth == pytest.approx(back, rel=1e-12)


@few
@given(settings_of_the_theorem(), sigmas)
def test_the_divergence_of_equals_is_zero_and_of_others_positive(setting, sigma):
    topology, corrupted, a, b = setting
    assert kl_divergence(topology, a, a, sigma=sigma, corrupted=corrupted) == 0.0
    found = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    assert (found > 0) == (not np.array_equal(a, b))


@few
@given(settings_of_the_theorem(width=2), sigmas)
def test_the_divergence_adds_over_coefficients(setting, sigma):
    topology, corrupted, a, b = setting
    whole = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    parts = [
        kl_divergence(topology, a[:, k], b[:, k], sigma=sigma, corrupted=corrupted)
        for k in range(2)
    ]
    assert whole == pytest.approx(sum(parts), rel=1e-10, abs=1e-12)


@few
@given(settings_of_the_theorem(), sigmas, st.floats(0.1, 10.0))
def test_the_divergence_falls_with_the_square_of_sigma(setting, sigma, factor):
    topology, corrupted, a, b = setting
    one = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    other = kl_divergence(topology, a, b, sigma=factor * sigma, corrupted=corrupted)
    assert other * factor**2 == pytest.approx(one, rel=1e-10, abs=1e-12)


@few
@given(settings_of_the_theorem(width=2), sigmas, sigmas)
def test_one_sigma_per_coefficient_weighs_each_by_its_own(setting, first, second):
    topology, corrupted, a, b = setting
    found = kl_divergence(topology, a, b, sigma=[first, second], corrupted=corrupted)
    parts = [
        kl_divergence(topology, a[:, k], b[:, k], sigma=s, corrupted=corrupted)
        for k, s in enumerate((first, second))
    ]
    assert found == pytest.approx(sum(parts), rel=1e-10, abs=1e-12)


@few
@given(settings_of_the_theorem(width=2), sigmas)
def test_the_divergence_never_exceeds_the_theorem_s_bound(setting, sigma):
    topology, corrupted, a, b = setting
    promise = guarantee(topology, sigma=sigma, corrupted=corrupted)
    assume(promise.status == "private")
    found = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    bound = promise.epsilon * ((a - b) ** 2).sum()
    assert found <= bound * (1 + 1e-9)


@few
@given(settings_of_the_theorem(), sigmas)
def test_in_pieces_each_component_s_own_bound_holds(setting, sigma):
    topology, corrupted, a, b = setting
    promise = guarantee(topology, sigma=sigma, corrupted=corrupted)
    bound = 0.0
    for part in promise.components:
        rows = sorted(topology.indices(part.parties))
        if part.epsilon is not None:
            bound += part.epsilon * ((a - b)[rows] ** 2).sum()
    found = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    assert found <= bound * (1 + 1e-9)


@few
@given(st.data(), any_topologies(), sigmas)
def test_the_bound_is_attained_along_the_fiedler_vector(data, topology, sigma):
    corrupted = data.draw(coalitions(topology, min_honest=2))
    honest = topology.without(topology.indices(corrupted))
    assume(is_connected(honest))
    _, vectors = np.linalg.eigh(honest.laplacian.toarray())
    rows = sorted(topology.indices(honest.parties))
    a = np.zeros(topology.n_parties)
    a[rows] = vectors[:, 1] - vectors[:, 1].mean()
    found = kl_divergence(
        topology, a, np.zeros_like(a), sigma=sigma, corrupted=corrupted
    )
    promise = guarantee(topology, sigma=sigma, corrupted=corrupted)
    assert found == pytest.approx(promise.epsilon * (a @ a), rel=1e-7)


@few
@given(st.data(), any_topologies(min_agents=3), sigmas)
def test_a_larger_coalition_tells_a_fixed_pair_apart_at_least_as_well(
    data, topology, sigma
):
    """Removing honest links raises effective resistance (Rayleigh's principle)."""
    larger = data.draw(coalitions(topology, min_honest=2))
    smaller = data.draw(st.sets(st.sampled_from(larger))) if larger else set()
    a, b = data.draw(fair_pairs(topology, larger))
    few = kl_divergence(topology, a, b, sigma=sigma, corrupted=smaller)
    many = kl_divergence(topology, a, b, sigma=sigma, corrupted=larger)
    assert few <= many * (1 + 1e-9) + 1e-12


@few
@given(st.data(), any_topologies(), sigmas, st.integers(1, 8))
def test_a_swap_costs_the_effective_resistance(data, topology, sigma, gap):
    """KL = d^2 R_eff(i, j) / (2 s sigma^2), R_eff from grounding one end."""
    i, j = data.draw(
        st.lists(
            st.integers(0, topology.n_parties - 1), min_size=2, max_size=2, unique=True
        )
    )
    a = np.zeros(topology.n_parties)
    a[i] = gap
    b = np.zeros(topology.n_parties)
    b[j] = gap
    kept = [k for k in range(topology.n_parties) if k != j]
    grounded = topology.laplacian.toarray()[np.ix_(kept, kept)]
    resistance = np.linalg.inv(grounded)[kept.index(i), kept.index(i)]
    expected = gap**2 * resistance / (2 * topology.shares_per_edge * sigma**2)
    found = kl_divergence(topology, a, b, sigma=sigma)
    assert found == pytest.approx(expected, rel=1e-9)


# Most coalitions leave one piece.
@settings(few, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data(), any_topologies(min_agents=3), sigmas)
def test_a_component_whose_sum_differs_is_told_apart_for_certain(data, topology, sigma):
    corrupted = data.draw(coalitions(topology, min_honest=2))
    honest = topology.without(topology.indices(corrupted))
    parts = graph_components(honest)
    assume(len(parts) > 1)
    a, b = data.draw(fair_pairs(topology, corrupted))
    one, other = (topology.index(honest.parties[part[0]]) for part in parts[:2])
    b[one] += 1.0
    b[other] -= 1.0
    found = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    assert found == inf


def test_component_sums_that_agree_leave_a_finite_divergence():
    """Two pairs apart: each pair has L^+ = [[1, -1], [-1, 1]] / 4."""
    pairs = Topology.from_edges([(0, 1), (2, 3)])
    found = kl_divergence(pairs, [1, 2, 3, 5], [2, 1, 5, 3], sigma=1.0)
    assert found == pytest.approx((2 / 2 + 8 / 2) / 4, rel=1e-12)


def test_the_answer_does_not_depend_on_the_size_of_what_both_have_in_common():
    base = np.array([1e9, -3e9, 2e9])
    a, b = base + np.array([1.0, 2.0, 3.0]), base + np.array([2.0, 1.0, 3.0])
    assert kl_divergence(K3, a, b, sigma=1.0) == pytest.approx(2 / 3 / 4, rel=1e-12)


def test_a_difference_of_corrupted_parties_is_refused_by_name():
    with refused("corrupted-differ", InvalidPairError, mentions=("1,", "2")):
        kl_divergence(K3, [1, 2, 3], [1, 3, 2], sigma=1.0, corrupted=["1", "2"])


def test_different_sums_over_the_honest_are_refused_with_the_gap():
    with refused("sums-differ", InvalidPairError, mentions=("2",)):
        kl_divergence(K3, [1, 2, 3], [3, 2, 3], sigma=1.0, corrupted=["2"])


def test_a_sum_that_differs_by_one_is_refused_next_to_numbers_of_any_size():
    """1 next to 1e12 is no rounding error: float64 tells these sums apart easily."""
    with refused("sums-differ", InvalidPairError):
        kl_divergence(K3, [1e12, 0.0, 0.0], [1e12, 1.0, 0.0], sigma=1.0)


def test_sums_that_differ_by_rounding_error_are_equal():
    tenths = [0.1, 0.2, 0.3]
    found = kl_divergence(K3, tenths, [0.3, 0.1, 0.2], sigma=1.0)
    assert found == pytest.approx((0.04 + 0.01 + 0.01) / 12, rel=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "what"),
    [
        ([1, 2], [2, 1], "A must have one row for each of 3 parties"),
        ([1, 2, 3], [2, 1], "B must have one row for each of 3 parties"),
        ([[1, 2, 3]], [[2, 1, 3]], "A must have one row for each of 3"),
        ([[1, 1], [2, 2], [3, 3]], [2, 1, 3], "differ in shape"),
        ([1, 2, np.nan], [1, 2, 3], "A must be finite"),
        ([1, 2, 3], ["x", 2, 3], "B must be numbers"),
        (5.0, 5.0, "A must have one row"),
    ],
)
def test_pairs_that_are_no_two_sets_of_coefficients_are_refused(a, b, what):
    with pytest.raises(InvalidInputError, match=what):
        kl_divergence(K3, a, b, sigma=1.0)


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf])
def test_a_sigma_that_masks_nothing_is_refused(sigma):
    with refused("sigma-not-positive"):
        kl_divergence(K3, [1, 2, 3], [2, 1, 3], sigma=sigma)


def test_as_many_sigmas_as_coefficients_are_needed():
    with refused("wrong-shape", mentions=("1", "2")):
        kl_divergence(K3, [1, 2, 3], [2, 1, 3], sigma=[1.0, 2.0])


def test_corrupted_parties_that_do_not_exist_are_refused():
    with refused("unknown-party", mentions=("9",)):
        kl_divergence(K3, [1, 2, 3], [2, 1, 3], sigma=1.0, corrupted=["9"])


def test_one_honest_party_leaves_only_the_pair_of_equals():
    """|H| = 1: equal sums force A = B, and equals look alike."""
    same = [1.0, 2.0, 3.0]
    assert kl_divergence(K3, same, same, sigma=1.0, corrupted=["0", "1"]) == 0.0
    with refused("sums-differ", InvalidPairError):
        kl_divergence(K3, same, [1.0, 2.0, 4.0], sigma=1.0, corrupted=["0", "1"])


def test_nobody_honest_leaves_only_the_pair_of_equals():
    same = [1.0, 2.0, 3.0]
    found = kl_divergence(K3, same, same, sigma=1.0, corrupted=K3.parties)
    assert found == 0.0


@few
@given(st.data(), any_topologies(max_agents=6), sigmas)
def test_the_cholesky_solve_agrees_with_forty_digits(data, topology, sigma):
    shift = data.draw(zero_sum_rows(topology.n_parties, 1))[:, 0]
    with mpmath.workdps(40):
        reduced = mpmath.matrix(topology.laplacian.toarray()[:-1, :-1].tolist())
        d = mpmath.matrix(shift[:-1].tolist())
        form = (d.T * mpmath.lu_solve(reduced, d))[0]
        expected = form / (2 * topology.shares_per_edge * mpmath.mpf(sigma) ** 2)
    found = kl_divergence(topology, shift, np.zeros_like(shift), sigma=sigma)
    assert found == pytest.approx(float(expected), rel=1e-11, abs=1e-14)


@each(
    ("divergence", "accuracy"),
    [
        # Phi(mu_G / 2) with mu_G = sqrt(2 KL), six decimals, from normal tables.
        (0.0, 0.5),
        (0.0001, 0.502821),
        (0.01, 0.528186),
        (0.1, 0.588468),
        (0.25, 0.638163),
        (0.5, 0.691462),
        (1.0, 0.760250),
        (5.0, 0.943077),
        (inf, 1.0),
    ],
)
def test_the_attacker_s_success_is_the_known_conversion(divergence, accuracy):
    assert round(attacker_success(divergence), 6) == accuracy


@given(st.floats(0.0, 700.0))
def test_the_attacker_s_success_is_half_of_one_plus_total_variation(divergence):
    """TV = 2 Phi(mu_G / 2) - 1 = erf(mu_G / (2 sqrt 2)), to 30 digits."""
    with mpmath.workdps(30):
        mu = mpmath.sqrt(2 * mpmath.mpf(divergence))
        variation = mpmath.erf(mu / (2 * mpmath.sqrt(2)))
        expected = float((1 + variation) / 2)
    assert attacker_success(divergence) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("divergence", [-0.1, -inf, np.nan])
def test_a_negative_divergence_is_refused(divergence):
    with refused("divergence-negative"):
        attacker_success(float(divergence))
