"""Noise that does not cancel, exchanged values, effective resistance."""

from fractions import Fraction
from itertools import combinations
from math import inf

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from golden import directed_cycle, rgg12, weighted_ring
from later import Later
from refusals import refused
from strategies import any_topologies, few, settings_of_the_theorem, sigmas
from veilsum.errors import InvalidInputError, InvalidPairError
from veilsum.graphs.topology import Topology
from veilsum.privacy.divergence import (
    effective_resistance,
    kl_divergence,
    swap_divergence,
)

sympy = Later("sympy")

PETERSEN = Topology.family("petersen")
taus = st.floats(0.05, 20.0)

# Graph, corrupted, sigma^2, tau^2 as rationals; A - B with any sum.
EXACT = [
    (Topology.family("complete:3"), [], 1, 1, [1, 0, 0]),
    (Topology.family("complete:3"), ["2"], 1, 4, [1, 2, 0]),
    (Topology.family("path:4"), ["1"], 2, Fraction(1, 4), [3, 0, 1, -2]),
    (Topology.family("ring:6"), ["0"], Fraction(1, 4), 9, [0, 1, 2, 3, -5, 1]),
    (PETERSEN, ["0", "1"], 1, 1, [0, 0, 1, -1, 2, 0, 0, 3, 1, -1]),
    (weighted_ring(), [], 1, Fraction(1, 9), [1, 2, 0, -1]),
    (directed_cycle(), [], 1, 2, [1, 1, 0]),
]


def exact_divergence(topology, corrupted, sigma2, tau2, shift):
    """d' (s sigma^2 L_H + tau^2 I)^-1 d / 2 as a rational number."""
    kept = sorted(set(range(topology.n_parties)) - topology.indices(corrupted))
    laplacian = topology.induced(kept).laplacian.toarray()
    rational = sympy.Matrix(
        laplacian.shape[0],
        laplacian.shape[1],
        lambda i, j: sympy.nsimplify(float(laplacian[i, j])),
    )
    size = topology.shares_per_edge * sympy.Rational(sigma2)
    covariance = size * rational + sympy.Rational(tau2) * sympy.eye(len(kept))
    d = sympy.Matrix([shift[i] for i in kept])
    return (d.T * covariance.LUsolve(d))[0] / 2


@pytest.mark.parametrize(("topology", "corrupted", "sigma2", "tau2", "shift"), EXACT)
def test_own_noise_gives_the_exact_rational(topology, corrupted, sigma2, tau2, shift):
    expected = exact_divergence(topology, corrupted, sigma2, tau2, shift)
    found = kl_divergence(
        topology,
        shift,
        [0] * len(shift),
        sigma=float(sigma2) ** 0.5,
        tau=float(tau2) ** 0.5,
        corrupted=corrupted,
    )
    assert isinstance(expected, sympy.Rational)
    assert found == pytest.approx(float(expected), rel=1e-12)


@given(settings_of_the_theorem(), sigmas)
def test_function_sharing_is_the_limit_of_vanishing_noise(setting, sigma):
    topology, corrupted, a, b = setting
    limit = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    near = kl_divergence(
        topology, a, b, sigma=sigma, corrupted=corrupted, tau=1e-7 * sigma
    )
    assert near == pytest.approx(limit, rel=1e-8, abs=1e-12)


@given(settings_of_the_theorem(), sigmas, taus, st.floats(1.01, 10.0))
def test_more_noise_of_one_s_own_tells_less(setting, sigma, tau, more):
    topology, corrupted, a, b = setting
    a = np.array(a)
    honest = sorted(set(range(topology.n_parties)) - topology.indices(corrupted))
    assume(honest)
    a[honest[0]] += 1.0  # sums may differ
    little, much = (
        kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted, tau=t)
        for t in (tau, more * tau)
    )
    assert 0 < much < little


@given(settings_of_the_theorem(), sigmas, taus)
def test_own_noise_never_tells_more_than_function_sharing_alone(setting, sigma, tau):
    topology, corrupted, a, b = setting
    alone = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    both = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted, tau=tau)
    assert both <= alone * (1 + 1e-12)


@given(any_topologies(min_agents=3), sigmas, taus, st.integers(0, 2**32 - 1))
@few
def test_own_noise_is_the_quadratic_form_per_column(topology, sigma, tau, seed):
    """Per-column sigma and tau, weighted and directed, against a plain solve."""
    draw = np.random.default_rng(seed)
    d = draw.normal(size=(topology.n_parties, 2))
    deviation, own = np.array([sigma, 2 * sigma]), np.array([tau, tau / 3])
    expected = 0.0
    for k in range(2):
        covariance = topology.shares_per_edge * deviation[
            k
        ] ** 2 * topology.laplacian.toarray() + own[k] ** 2 * np.eye(topology.n_parties)
        expected += d[:, k] @ np.linalg.solve(covariance, d[:, k]) / 2
    found = kl_divergence(topology, d, 0 * d, sigma=deviation, tau=own)
    assert found == pytest.approx(expected, rel=1e-7)


def test_a_changed_sum_is_told_by_tau_alone():
    """All parties move by 1: every mask cancels, and n / (2 tau^2) is left."""
    ones = [1.0] * 10
    for sigma in (0.1, 100.0):
        found = kl_divergence(PETERSEN, ones, [0] * 10, sigma=sigma, tau=2.0)
        assert found == pytest.approx(10 / 8)


def test_without_own_noise_a_changed_sum_is_refused():
    with refused("sums-differ", InvalidPairError):
        kl_divergence(PETERSEN, [1.0] * 10, [0.0] * 10, sigma=1.0, tau=0.0)


def test_a_coalition_knows_its_own_coefficients_whatever_tau_is():
    a, b = [1.0, 0, 0], [0.0, 0, 0]
    triangle = Topology.family("complete:3")
    with refused("corrupted-differ", InvalidPairError, mentions=("0",)):
        kl_divergence(triangle, a, b, sigma=1.0, tau=1.0, corrupted=["0"])


def test_a_lone_party_is_hidden_by_its_own_noise():
    path = Topology.family("path:3")
    found = kl_divergence(
        path, [3.0, 0, 0], [0.0, 0, 0], sigma=1.0, tau=2.0, corrupted=["1"]
    )
    assert found == pytest.approx(9 / 8)


@pytest.mark.parametrize("tau", [-1.0, np.nan, inf, [1.0, 0.0], [1.0, 1.0, 1.0], "x"])
def test_a_tau_that_makes_no_sense_is_refused(tau):
    rows = np.zeros((10, 2))
    with pytest.raises(InvalidInputError, match="tau must be"):
        kl_divergence(PETERSEN, rows, rows, sigma=1.0, tau=tau)


# --- exchanged values ------------------------------------------------------------


@given(any_topologies(min_agents=3), sigmas, st.data())
def test_an_exchange_is_the_divergence_of_the_exchanged_pair(topology, sigma, data):
    first, second = data.draw(
        st.lists(st.sampled_from(topology.parties), min_size=2, max_size=2, unique=True)
    )
    rest = sorted(set(topology.parties) - {first, second})
    corrupted = data.draw(st.sets(st.sampled_from(rest), max_size=2))
    values = np.arange(2.0 * topology.n_parties).reshape(-1, 2) ** 2
    i, j = topology.index(first), topology.index(second)
    other = values.copy()
    other[[i, j]] = values[[j, i]]
    deviation = np.array([sigma, 3 * sigma])
    expected = kl_divergence(
        topology, values, other, sigma=deviation, corrupted=corrupted
    )
    gap = values[i] - values[j]
    found = swap_divergence(
        topology, first, second, gap=gap, sigma=deviation, corrupted=corrupted
    )
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("topology", [PETERSEN, rgg12(), weighted_ring()], ids=str)
def test_resistance_is_what_networkx_computes(topology):
    graph = nx.Graph()
    for (i, j), weight in zip(topology.edges.tolist(), topology.weights, strict=True):
        graph.add_edge(i, j, weight=weight)
    for i, j in combinations(range(topology.n_parties), 2):
        expected = nx.resistance_distance(
            graph, i, j, weight="weight", invert_weight=False
        )
        found = effective_resistance(topology, *topology.names([i, j]))
        assert found == pytest.approx(expected, rel=1e-9)


def test_resistance_in_closed_form():
    """Petersen: 3/5 between neighbours, 4/5 otherwise; a ring of n: k (n - k) / n."""
    near, far = (effective_resistance(PETERSEN, "0", other) for other in "12")
    assert (near, far) == pytest.approx((0.6, 0.8))
    ring = Topology.family("ring:7")
    assert effective_resistance(ring, "0", "3") == pytest.approx(3 * 4 / 7)
    assert effective_resistance(ring, "2", "2") == 0.0


def test_a_cut_between_the_two_tells_an_exchange_for_certain():
    ring = Topology.family("ring:6")
    keys = {"corrupted": ["0", "3"], "sigma": 1.0}
    assert swap_divergence(ring, "1", "4", gap=1.0, **keys) == inf
    assert swap_divergence(ring, "1", "4", gap=0.0, **keys) == 0.0
    assert swap_divergence(ring, "1", "2", gap=1.0, **keys) == pytest.approx(1 / 4)


def test_the_petersen_pair_of_one_exchange():
    """The resistance of 2 and 3 in Petersen without 0 and 1 as an exact rational."""
    left = PETERSEN.without([0, 1])
    laplacian = sympy.Matrix(left.laplacian.toarray().astype(int).tolist())
    i, j = left.index("2"), left.index("3")
    grounded = laplacian.copy()
    grounded.row_del(j)
    grounded.col_del(j)
    at = i if i < j else i - 1
    expected = grounded.inv()[at, at]
    found = effective_resistance(PETERSEN, "2", "3", corrupted=["0", "1"])
    assert found == pytest.approx(float(expected), rel=1e-12)


def test_exchanging_with_a_colluder_is_refused():
    with refused("party-corrupted", InvalidPairError, mentions=("0",)):
        swap_divergence(PETERSEN, "0", "1", gap=1.0, sigma=1.0, corrupted=["0"])
