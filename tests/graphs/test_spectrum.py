"""mu2 with a certificate: from below, whatever the solver believed."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.stats import norm

from veilsum.graphs import spectrum
from veilsum.graphs.connectivity import algebraic_connectivity, graph_components
from veilsum.graphs.spectrum import (
    certified_mu2,
    filter_certifies_mu2,
    inertia_bound_on_mu2,
    rayleigh_bound_on_mu2,
)
from veilsum.graphs.topology import Topology

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def geometric(n, seed=0):
    """Points in a square joined when close, about ten neighbours each."""
    points = np.random.default_rng(seed).random((n, 2))
    pairs = cKDTree(points).query_pairs(
        np.sqrt(10 / (np.pi * n)), output_type="ndarray"
    )
    whole = Topology.from_edges(pairs.tolist())
    return whole.induced(max(graph_components(whole), key=len))


CASES = {
    "expander": lambda: Topology.family("regular:300:6:seed=1"),
    "hypercube": lambda: Topology.family("hypercube:8"),
    "barbell": lambda: Topology.family("barbell:40:40"),
    "grid": lambda: Topology.family("grid:20x20"),
    "path": lambda: Topology.family("path:200"),
    "geometric": lambda: geometric(400),
    "complete": lambda: Topology.family("complete:100"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_road_proves_a_bound_below_the_dense_value(monkeypatch, name):
    topology = CASES[name]()
    exact = algebraic_connectivity(topology)
    monkeypatch.setattr(spectrum, "DENSE_PARTIES", 10)
    found = certified_mu2(topology, stream=np.random.default_rng(1))
    assert found.certificate in {"inertia", "probabilistic"}
    assert found.lower <= exact * (1 + 1e-9)
    assert found.lower >= 0.85 * exact
    assert found.upper >= exact * (1 - 1e-9)


def test_small_graphs_are_exact():
    found = certified_mu2(Topology.family("petersen"))
    assert found.certificate == "exact"
    assert found.lower == found.upper == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_no_certificate_is_given_above_mu2(name):
    """Each proof is asked for a bound that is false, by 1 % and by half."""
    topology = CASES[name]()
    laplacian = topology.laplacian
    exact = algebraic_connectivity(topology)
    top = 2 * laplacian.diagonal().max()
    stream = np.random.default_rng(2)
    for factor in (1.01, 1.5):
        claim = min(factor * exact, 0.9 * top)
        assert inertia_bound_on_mu2(laplacian, claim) is None
        high = claim * 1.01
        assert not filter_certifies_mu2(laplacian, claim, high, top, stream)


def test_a_ritz_pair_at_the_wrong_eigenvalue_is_not_believed():
    """Barbell 5+5 has an exact eigenvector at 5 while mu2 is .298.

    theta - residual would say 5; a certificate must not.
    """
    topology = Topology.family("barbell:5:5")
    vector = np.zeros(10)
    vector[0], vector[1] = 1.0, -1.0
    assert rayleigh_bound_on_mu2(topology.laplacian, vector) == pytest.approx(5.0)
    residual = topology.laplacian @ vector - 5.0 * vector
    assert np.abs(residual).max() < 1e-12
    assert inertia_bound_on_mu2(topology.laplacian, 4.9) is None
    assert inertia_bound_on_mu2(topology.laplacian, 0.29) == pytest.approx(
        0.29, rel=1e-9
    )


def test_a_bad_estimate_gives_no_bound_or_a_true_one(monkeypatch):
    """A solver that returns some other eigenvector misleads nobody."""
    topology = geometric(400)
    exact = algebraic_connectivity(topology)
    wrong = np.random.default_rng(3).standard_normal(topology.n_parties)
    monkeypatch.setattr(spectrum, "DENSE_PARTIES", 10)
    monkeypatch.setattr(spectrum, "_fiedler_by_factor", lambda _: wrong)
    monkeypatch.setattr(spectrum, "_fiedler_by_products", lambda _: wrong)
    monkeypatch.setattr(spectrum, "_low_eigenvector_of_laplacian", lambda *_: wrong)
    found = certified_mu2(topology, stream=np.random.default_rng(4))
    assert found.lower is None or found.lower <= exact


def test_an_estimate_is_refined_only_where_a_near_bound_can_be_proved(monkeypatch):
    """Twenty times the work for the last digits is lost on a bound a tenth away."""
    topology, refined = Topology.family("cycles:2000:6"), []
    plain = spectrum._fiedler_by_products

    def counted(laplacian):
        refined.append(laplacian.shape)
        return plain(laplacian)

    monkeypatch.setattr(spectrum, "_fiedler_by_products", counted)
    rough = certified_mu2(topology, work=60 * 14_000)
    assert refined == []
    near = certified_mu2(topology, work=400 * 14_000)
    assert len(refined) == 1
    exact = algebraic_connectivity(topology)
    assert 0.85 * exact < rough.lower <= exact <= rough.upper < 1.03 * exact
    assert 0.985 * exact < near.lower <= exact <= near.upper * (1 + 1e-12)


def test_failures_of_all_certificates_behind_one_answer_stay_below_1e_9():
    """P(|g| < tau)^b per try, with scipy's normal law, times every try there may be."""
    chance = (
        2 * norm.cdf(spectrum._smallest_part_of_spectrum_probes()) - 1
    ) ** spectrum.PROBES
    assert 3 * len(spectrum.GAPS) * chance < 1e-9


def test_a_disconnected_large_graph_has_mu2_zero(monkeypatch):
    monkeypatch.setattr(spectrum, "DENSE_PARTIES", 10)
    two = Topology.from_edges(
        [(i, i + 1) for i in range(20)] + [(i, i + 1) for i in range(30, 50)]
    )
    assert certified_mu2(two) == spectrum.Mu2Bounds(0.0, 0.0, "exact")


def test_inertia_counts_eigenvalues_as_eigvalsh_does():
    stream = np.random.default_rng(5)
    topology = Topology.family("grid:6x6")
    values = np.linalg.eigvalsh(topology.laplacian.toarray())
    for shift in stream.uniform(0.01, 1.5, 40):
        below = int((values < shift).sum())
        proved = inertia_bound_on_mu2(sparse.csr_array(topology.laplacian), shift)
        assert (proved is not None) == (below == 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "certificate"),
    [
        (lambda: Topology.family("regular:100000:6:seed=1"), "probabilistic"),
        (lambda: geometric(100_000), "inertia"),
    ],
)
def test_a_hundred_thousand_parties_are_certified(make, certificate):
    found = certified_mu2(make())
    assert found.certificate == certificate
    assert 0.85 * found.upper <= found.lower <= found.upper


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_the_filter_is_chebyshev_s_polynomial_without_means(
    compiled, steps, monkeypatch
):
    """Against eigenvectors; the probes have means far from zero."""
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(spectrum, "COMPILED_PARTIES", 0)
    topology = Topology.family("regular:60:4:seed=2")
    values, vectors = np.linalg.eigh(topology.laplacian.toarray())
    probes = spectrum._aligned_spectrum_probes(60)
    probes[:] = np.random.default_rng(3).standard_normal(probes.shape) + 50.0
    low, top = 0.7, 8.0
    grown = np.polynomial.Chebyshev.basis(steps)((top + low - 2 * values) / (top - low))
    grown[0] = 0.0
    expected = vectors @ (grown[:, None] * (vectors.T @ probes))
    told = []
    found = spectrum._chebyshev_filter_of_laplacian(
        topology.laplacian, probes, low, top, steps, told.append
    )
    assert told == list(range(1, steps + 1))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert np.abs(found.mean(axis=0)).max() < 1e-12


@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("compiled", [True, False])
def test_vectors_of_many_parties_are_combined_as_the_formula_says(
    compiled, columns, monkeypatch
):
    """By machine code, and without numba by scipy."""
    monkeypatch.setattr(spectrum, "COMPILED_PARTIES", 0)
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(spectrum, "find_spec", lambda _: None)
        monkeypatch.setitem(sys.modules, "veilsum.graphs.filtering", None)
    laplacian = Topology.family("regular:60:4:seed=2").laplacian
    stream = np.random.default_rng(4)
    now, before = stream.standard_normal((2, 60, columns))
    less = stream.standard_normal(columns)
    expected = 0.7 * now - 0.3 * (laplacian.toarray() @ now) - before - less
    means = spectrum._combine_laplacian_terms(laplacian, now, before, (0.7, 0.3), less)
    np.testing.assert_allclose(before, expected, atol=1e-12)
    np.testing.assert_allclose(means, expected.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_taken_off_the_bound_of_inertia(seed):
    """The distance of P'LUP from L - sI, in exact arithmetic, is within the margin."""
    stream = np.random.default_rng(seed)
    edges = Topology.family("grid:5x8").edges
    weights = stream.uniform(0.1, 3.0, len(edges))
    adjacency = np.zeros((40, 40))
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = weights
    matrix = np.diag(adjacency.sum(axis=0)) - adjacency
    shift = 0.9 * np.linalg.eigvalsh(matrix)[1]
    bound = inertia_bound_on_mu2(sparse.csr_array(matrix), shift)

    shifted = sparse.csc_array(matrix - shift * np.eye(40))
    factor = spectrum._factor_laplacian(shifted)
    exact = np.vectorize(Fraction, otypes=[object])
    product = exact(factor.L.toarray()) @ exact(factor.U.toarray())
    back = product[np.ix_(factor.perm_r, factor.perm_c)]
    rounding = max(np.abs(back - exact(shifted.toarray())).sum(axis=1))
    # The diagonal of L - sI is rounded too, by half a unit in the last place.
    assert 0 < rounding <= Fraction(shift) - Fraction(bound)
    assert shift - bound < 1e-12
