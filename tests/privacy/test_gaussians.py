import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import linalg, stats

from refusals import refused
from strategies import any_topologies, few, finite_arrays, seeds, zero_sum_rows
from veilsum.errors import InvalidGraphError
from veilsum.graphs.topology import Topology
from veilsum.privacy.divergence import DegenerateGaussian

scales = st.floats(0.1, 10.0, allow_subnormal=False)


def zero_sum_basis(n):
    """An orthonormal basis of 1-perp, n x (n - 1)."""
    return linalg.null_space(np.ones((1, n)))


@few
@given(st.data(), any_topologies(), scales)
def test_the_density_is_a_normal_one_on_the_zero_sum_subspace(data, topology, scale):
    n = topology.n_parties
    points = data.draw(zero_sum_rows(n, 3)).T
    q = zero_sum_basis(n)
    covariance = q.T @ (scale * topology.laplacian.toarray()) @ q
    ordinary = stats.multivariate_normal(np.zeros(n - 1), covariance)
    found = DegenerateGaussian(topology, scale).log_density(points)
    expected = np.atleast_1d(ordinary.logpdf(points @ q))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_the_density_at_zero_is_the_paper_s_constant():
    """1 / sqrt(det*(2 pi c L)); K3 has mu = (0, 3, 3) and c = 2 sigma^2 = 2."""
    law = DegenerateGaussian(Topology.family("complete:3"), 2.0)
    expected = 1 / np.sqrt((2 * np.pi * 2.0) ** 2 * 3 * 3)
    found = np.exp(law.log_density(np.zeros(3)))
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_point_that_is_not_zero_sum_has_no_density():
    law = DegenerateGaussian(Topology.family("complete:3"), 2.0)
    points = np.array([[1.0, -1.0, 0.0], [1.0, -1.0, 1e-6], [1.0, 1.0, 1.0]])
    found = law.log_density(points)
    assert np.isfinite(found[0])
    assert found[1:].tolist() == [-np.inf, -np.inf]


@few
@given(any_topologies(), scales, seeds)
def test_every_sample_is_on_the_support(topology, scale, seed):
    law = DegenerateGaussian(topology, scale)
    points = law.sample(np.random.default_rng(seed), 5)
    assert points.shape == (5, topology.n_parties)
    np.testing.assert_allclose(points.sum(axis=1), 0, atol=1e-11)
    assert np.isfinite(law.log_density(points)).all()


@few
@given(st.data(), any_topologies(), scales)
def test_the_pseudo_inverse_is_the_one_of_the_eigenvectors(data, topology, scale):
    points = data.draw(zero_sum_rows(topology.n_parties, 2)).T
    values, vectors = np.linalg.eigh(topology.laplacian.toarray())
    inverse = vectors[:, 1:] @ np.diag(1 / values[1:]) @ vectors[:, 1:].T
    found = DegenerateGaussian(topology, scale).apply_pinv(points)
    np.testing.assert_allclose(found, points @ inverse, rtol=1e-8, atol=1e-8)


def exact_form(topology, shift):
    """d' L^+ d to 40 digits: ground the last party and solve the reduced system."""
    with mpmath.workdps(40):
        reduced = mpmath.matrix(topology.laplacian.toarray()[:-1, :-1].tolist())
        d = mpmath.matrix(shift[:-1].tolist())
        return float((d.T * mpmath.lu_solve(reduced, d))[0])


@given(st.data(), any_topologies(), scales)
def test_the_divergence_is_its_formula(data, topology, scale):
    shift = data.draw(zero_sum_rows(topology.n_parties, 1))[:, 0]
    found = DegenerateGaussian(topology, scale).kl_divergence(shift)
    expected = exact_form(topology, shift) / (2 * scale)
    assert float(found) == pytest.approx(expected, rel=1e-10, abs=1e-12)


@few
@given(st.data(), any_topologies(), scales)
def test_the_divergence_is_the_mean_log_ratio_of_densities(data, topology, scale):
    """E_A[log f_A - log f_B] is exact at the mean: the ratio is linear in the point."""
    shift = data.draw(zero_sum_rows(topology.n_parties, 1))[:, 0]
    law = DegenerateGaussian(topology, scale)
    mean_ratio = law.log_density(np.zeros_like(shift)) - law.log_density(-shift)
    assert float(mean_ratio) == pytest.approx(
        float(law.kl_divergence(shift)), rel=1e-9, abs=1e-9
    )


@few
@given(st.data(), any_topologies(), scales)
def test_rows_are_treated_one_by_one(data, topology, scale):
    points = data.draw(zero_sum_rows(topology.n_parties, 3)).T
    law = DegenerateGaussian(topology, scale)
    for function in (law.log_density, law.kl_divergence, law.squared_norm):
        alone = [float(function(point)) for point in points]
        np.testing.assert_allclose(function(points), alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_no_variance_is_refused(scale):
    with refused("scale-not-positive"):
        DegenerateGaussian(Topology.family("complete:3"), scale)


def test_a_disconnected_graph_is_refused_with_what_to_do():
    with refused("graph-disconnected", InvalidGraphError):
        DegenerateGaussian(Topology.from_edges([(0, 1), (2, 3)]), 1.0)


@few
@given(finite_arrays((2,), most=5.0), scales)
def test_two_parties_have_an_ordinary_normal_difference(point, scale):
    """On a single link u = (c, -c) with c ~ N(0, scale): distance along 1-perp."""
    law = DegenerateGaussian(Topology.family("complete:2"), scale)
    c = point[0]
    # The point (c, -c) lies at sqrt(2) c along the unit vector of 1-perp.
    expected = stats.norm(scale=np.sqrt(2 * scale)).logpdf(np.sqrt(2) * c)
    found = float(law.log_density(np.array([c, -c])))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.statistical
def test_samples_have_the_covariance_of_the_law():
    """200,000 draws, seed 1, every entry within 5 standard errors.

    Ten variances and covariances: false-alarm rate below 1e-5.
    """
    ring = Topology.from_edges(
        [(0, 1), (1, 2), (2, 3), (3, 0)], weights=[1.0, 4.0, 1.0, 0.25]
    )
    size = 200_000
    points = DegenerateGaussian(ring, 2.0).sample(np.random.default_rng(1), size)
    expected = 2.0 * ring.laplacian.toarray()
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / size)
    assert (abs(np.cov(points.T) - expected) <= 5 * error).all()
    assert (abs(points.mean(axis=0)) <= 5 * np.sqrt(variance / size)).all()
