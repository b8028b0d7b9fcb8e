"""Masks on curvatures too: single costs are no longer convex, their average is."""

import numpy as np
import pytest

from veilsum.minimise.costs.bases import Quadratic, quadratic_coefficients
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import NoRemainder
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.certificate import (
    Bounds,
    certified_accelerated_rounds,
    certified_rounds,
)
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids, nids_step
from veilsum.minimise.methods.registry import (
    MethodNeeds,
    choose_method,
    method_objection,
)
from veilsum.numbers.arrays import frozen_array

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SIGMAS = (0.0, 1.0, 10.0, 1e2, 1e3, 1e4)
# How many rounds are certified on the random graph, one for each sigma.
CERTIFIED = (5, 7, 10, 13, 16, 19)


def wholly_masked(problem, graph, sigma):
    """Costs with every coefficient masked, and their bounds."""
    pairs = zip(problem.matrices, -problem.vectors, strict=True)
    theta = np.array([quadratic_coefficients(p, q) for p, q in pairs])
    rng = np.random.default_rng(11)
    # A share of svec(P), whose entries off the diagonal are P's times sqrt 2.
    i, j = np.triu_indices(5)
    scale = np.concatenate([np.where(i == j, 1.0, 0.5**0.5), [1.0] * 5, [0.0]])
    for i, j in graph.edges:
        sent, received = sigma * scale * rng.standard_normal((2, theta.shape[1]))
        theta[i] += sent - received
        theta[j] -= sent - received
    spectrum = np.linalg.eigvalsh(Quadratic(5).matrices(theta))
    known = problem.bounds
    bounds = Bounds(
        smooth=float(np.abs(spectrum).max()),
        mean_smooth=known.mean_smooth,
        mean_convex=known.mean_convex,
    )
    cost = EffectiveCost(Quadratic(5), frozen_array(theta), NoRemainder())
    return cost, bounds, spectrum[:, 0]


@pytest.mark.parametrize(("sigma", "expected"), [*zip(SIGMAS, CERTIFIED, strict=True)])
def test_certified_tracking_converges_though_no_cost_is_convex(
    sigma, expected, problem, network
):
    net = network("random")
    cost, bounds, least = wholly_masked(problem, net.graph, sigma)
    assert sigma == 0 or (least < 0).sum() == 50
    rounds = certified_rounds(net.best_rate, bounds, constrained=False)
    assert rounds == pytest.approx(expected, abs=1)
    inner = GradientTracking(WholeSpace(5), 1.0 / bounds.mean_smooth)
    method = Chebyshev(inner, net.best_rate, rounds)
    found = problem.count(method, net.best, cost, tolerance=1e-7, most=400)
    # To 1e-7: at 1e4 rounding in the masks themselves is about 1e-8.
    assert found < 200


@pytest.mark.parametrize("sigma", SIGMAS)
def test_certified_acceleration_does_too(sigma, problem, network):
    net = network("random")
    cost, bounds, _ = wholly_masked(problem, net.graph, sigma)
    rounds = certified_accelerated_rounds(net.best_rate, bounds)
    inner = AcceleratedTracking(WholeSpace(5), bounds.mean_smooth, bounds.mean_convex)
    method = Chebyshev(inner, net.best_rate, rounds)
    found = problem.count(method, net.best, cost, tolerance=1e-7, most=400)
    assert found < 80


@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
def test_nids_diverges_on_them_and_it_is_refused(problem, network):
    net = network("random")
    cost, bounds, _ = wholly_masked(problem, net.graph, 1.0)
    method = Nids(WholeSpace(5), nids_step(bounds.smooth))
    *_, last = problem.states(method, net.metropolis, cost, 2000)
    assert not problem.error(last.x) < 1e3
    assert "convex by itself" in method_objection(
        Nids, MethodNeeds(convex_locals=False)
    )
    assert choose_method(MethodNeeds(convex_locals=False)) is GradientTracking
