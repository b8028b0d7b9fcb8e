"""The minimiser of a known sum: short vectors by matrices, long ones without."""

import numpy as np
import pytest
import scipy.sparse.linalg

from refusals import refused
from veilsum.errors import NumericalError
from veilsum.minimise.costs import minimise as module
from veilsum.minimise.costs.domains import Ball, Box
from veilsum.minimise.costs.minimise import extreme_cost_curvatures, minimise


def bowl(diagonal, centre):
    return lambda x: diagonal * (x - centre)


def test_curvatures_are_the_ends_of_the_spectrum():
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    found = extreme_cost_curvatures(lambda x: matrix @ x, np.array([0.3, -0.7]))
    assert found == pytest.approx((1.0, 3.0), rel=1e-6)


@pytest.mark.parametrize("greatest", [1.0, 50.0])
def test_curvatures_of_long_vectors_are_found_without_a_matrix(greatest):
    diagonal = np.linspace(1.0, greatest, 1000)
    found = extreme_cost_curvatures(bowl(diagonal, np.zeros(1000)), np.full(1000, 0.5))
    assert found == pytest.approx((1.0, greatest), rel=1e-4)


@pytest.mark.parametrize("domain", [Box(-1.0, 2.0, dim=1500), Ball(0.0, 9e9, dim=1500)])
def test_long_vectors_are_minimised_coordinate_by_coordinate(domain):
    """A bowl with its axes along the coordinates: the centre, clipped."""
    stream = np.random.default_rng(0)
    diagonal, centre = stream.uniform(1.0, 3.0, 1500), stream.normal(0.0, 2.0, 1500)
    expected = np.clip(centre, -1.0, 2.0) if isinstance(domain, Box) else centre
    found = minimise(bowl(diagonal, centre), domain)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_both_roads_lead_to_one_minimiser(monkeypatch):
    gradient = bowl(np.array([1.0, 4.0, 2.0, 3.0]), np.array([0.5, -0.25, 3.0, 0.0]))
    short = minimise(gradient, Box(-1.0, 1.0, dim=4))
    monkeypatch.setattr(module, "DENSE", 2)
    long = minimise(gradient, Box(-1.0, 1.0, dim=4))
    np.testing.assert_allclose(long, short, atol=1e-14)


def test_a_curvature_that_does_not_settle_is_an_error_of_ours(monkeypatch):
    def fails(*arguments, **options):
        raise scipy.sparse.linalg.ArpackError(-9999)

    monkeypatch.setattr(scipy.sparse.linalg, "eigsh", fails)
    with refused("curvature-not-converged", NumericalError):
        extreme_cost_curvatures(bowl(np.ones(400), np.zeros(400)), np.zeros(400))
