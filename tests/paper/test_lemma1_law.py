"""Lemma 1: on a connected graph U^k ~ N+(0, 2 sigma^2 L)."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from strategies import any_topologies, connected_topologies, few, seeds, sigmas
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.privacy.divergence import DegenerateGaussian


@given(any_topologies())
def test_the_covariance_of_the_masks_is_the_laplacian(topology):
    """U = Theta c with Cov(c) = s sigma^2 diag(w): Cov(U) = s sigma^2 L, exactly."""
    theta = topology.incidence.toarray()
    edge_variance = topology.shares_per_edge * np.diag(topology.weights)
    np.testing.assert_allclose(
        theta @ edge_variance @ theta.T,
        topology.shares_per_edge * topology.laplacian.toarray(),
        atol=1e-12,
    )


@few
@given(any_topologies(), seeds, sigmas)
def test_masks_are_incidence_times_edge_noise(topology, seed, sigma):
    law = GaussianMasks(check_mask_sigma(sigma))
    shares = draw_mask_shares(topology, law, ShareStreams(seed), size=2)
    expected = topology.incidence.toarray() @ shares.edge_noise()
    np.testing.assert_allclose(shares.masks(), expected, atol=1e-12 * sigma * 20)


@few
@given(connected_topologies())
def test_the_support_is_the_whole_zero_sum_subspace(topology):
    """rank Theta = n - 1 iff connected: masks fill 1-perp and nothing else."""
    theta = topology.incidence.toarray()
    assert np.linalg.matrix_rank(theta) == topology.n_parties - 1
    np.testing.assert_array_equal(theta.sum(axis=0), np.zeros(topology.n_edges))


def test_in_pieces_the_support_loses_a_dimension_per_piece():
    pieces = Topology.from_edges([(0, 1), (1, 2), (3, 4)])
    theta = pieces.incidence.toarray()
    assert np.linalg.matrix_rank(theta) == 5 - len(graph_components(pieces))


@few
@given(connected_topologies(), seeds, st.floats(0.1, 10.0))
def test_a_drawn_mask_has_the_density_the_lemma_states(topology, seed, sigma):
    """exp(-u' L^+ u / (4 sigma^2)) / sqrt(det*(4 pi sigma^2 L)), by eigenvectors."""
    law = GaussianMasks(check_mask_sigma(sigma))
    mask = draw_mask_shares(topology, law, ShareStreams(seed), size=1).masks()[:, 0]
    values, vectors = np.linalg.eigh(topology.laplacian.toarray())
    parts = vectors[:, 1:].T @ mask
    form = (parts**2 / values[1:]).sum() / (4 * sigma**2)
    volume = np.log(4 * np.pi * sigma**2 * values[1:]).sum()
    found = DegenerateGaussian(topology, 2 * sigma**2).log_density(mask)
    assert float(found) == pytest.approx(-form - volume / 2, rel=1e-8, abs=1e-8)


@pytest.mark.statistical
def test_whitened_masks_are_standard_normal():
    """Keyed shares on the Petersen graph: parts along eigenvectors over their s.d.

    9 x 4,000 numbers, root 0: Kolmogorov-Smirnov at 1e-4, and 36 correlations below
    5 standard errors (false-alarm rate 2e-5).
    """
    graph, size, sigma = Topology.family("petersen"), 4000, 1.5
    law = GaussianMasks(check_mask_sigma(sigma))
    masks = draw_mask_shares(graph, law, ShareStreams(0), size=size).masks()
    values, vectors = np.linalg.eigh(graph.laplacian.toarray())
    white = vectors[:, 1:].T @ masks / np.sqrt(2 * sigma**2 * values[1:, None])
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-4
    correlation = np.corrcoef(white) - np.eye(9)
    assert abs(correlation).max() < 5 / np.sqrt(size)


@pytest.mark.statistical
def test_coordinates_of_one_mask_are_independent():
    """U^k and U^l for k != l: 20,000 pairs over the keyed draws of one long vector.

    Root 1; three parties, each correlation below 5 standard errors: rate 2e-6.
    """
    law = GaussianMasks(check_mask_sigma(1.0))
    triangle = Topology.family("complete:3")
    masks = draw_mask_shares(triangle, law, ShareStreams(1), size=40_000).masks()
    for row in masks:
        pairs = row.reshape(-1, 2)
        found = np.corrcoef(pairs.T)[0, 1]
        assert abs(found) < 5 / np.sqrt(len(pairs))
