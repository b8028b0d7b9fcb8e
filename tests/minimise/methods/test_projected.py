"""Domains whose border the minimiser touches, against scipy's own solvers."""

from itertools import islice

import numpy as np
import pytest
from scipy import optimize

from method_states import iterations_of_method
from veilsum.minimise.costs.domains import Ball, Box, Simplex
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.certificate import (
    certified_accelerated_rounds,
    certified_rounds,
)
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.extra import Extra, extra_step, least_eigenvalue_of_mixing
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids, nids_step

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

LOW, HIGH = np.array([-0.5, -9.0, 0.2, -9.0, -9.0]), np.array([0.7, 0.1, 9.0, 9.0, 9.0])


def tracking(domain, net, bounds):
    rounds = certified_rounds(net.best_rate, bounds, constrained=True)
    inner = GradientTracking(domain, 1.0 / bounds.mean_smooth)
    return Chebyshev(inner, net.best_rate, rounds), net.best


def accelerated(domain, net, bounds):
    rounds = certified_accelerated_rounds(net.best_rate, bounds)
    inner = AcceleratedTracking(domain, bounds.mean_smooth, bounds.mean_convex)
    return Chebyshev(inner, net.best_rate, rounds), net.best


def nids(domain, net, bounds):
    return Nids(domain, nids_step(bounds.smooth)), net.metropolis


def extra(domain, net, bounds):
    step = extra_step(bounds.smooth, least_eigenvalue_of_mixing(net.lazy))
    return Extra(domain, step), net.lazy


METHODS = {
    "gradient-tracking": tracking,
    "accelerated": accelerated,
    "nids": nids,
    "extra": extra,
}


def run(problem, net, make, domain, cost, most):
    method, weights = make(domain, net, problem.bounds)
    dense = {"symmetric": weights.toarray()}
    *_, last = islice(
        iterations_of_method(method, dense, cost, np.zeros((50, 5))), most
    )
    return last.x


@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("sigma", [0.0, 1e3])
def test_in_a_box_parties_end_where_bounded_least_squares_does(
    make, sigma, problem, network
):
    root = np.linalg.cholesky(problem.matrices.sum(axis=0)).T
    target = np.linalg.solve(root.T, problem.vectors.sum(axis=0))
    expected = optimize.lsq_linear(root, target, (LOW, HIGH), tol=1e-14).x
    touched = np.isclose(expected, LOW) | np.isclose(expected, HIGH)
    assert 0 < touched.sum() < 5
    net = network("random")
    cost, _ = problem.recentred(net.graph, sigma)
    found = run(problem, net, make, Box(LOW, HIGH, dim=5), cost, 600)
    np.testing.assert_allclose(found, np.tile(expected, (50, 1)), atol=1e-7)


@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize(
    ("domain", "constraint"),
    [
        (
            Ball(0.0, 0.5, dim=5),
            {"type": "ineq", "fun": lambda x: 0.25 - x @ x, "jac": lambda x: -2 * x},
        ),
        (Simplex(5), {"type": "eq", "fun": lambda x: x.sum() - 1.0}),
    ],
    ids=["ball", "simplex"],
)
def test_in_other_domains_they_end_where_slsqp_does(
    make, domain, constraint, problem, network
):
    mean, tilt = problem.matrices.mean(axis=0), problem.vectors.mean(axis=0)
    bounds = [(0.0, None)] * 5 if isinstance(domain, Simplex) else None
    expected = optimize.minimize(
        lambda x: 0.5 * x @ mean @ x - tilt @ x,
        np.full(5, 0.1),
        jac=lambda x: mean @ x - tilt,
        method="SLSQP",
        bounds=bounds,
        constraints=[constraint],
        options={"ftol": 1e-15, "maxiter": 1000},
    ).x
    net = network("random")
    # Projected, EXTRA is no longer linear.
    most = 2000 if make is extra else 600
    found = run(problem, net, make, domain, problem.masked(net.graph, 0.0), most)
    np.testing.assert_allclose(found, np.tile(expected, (50, 1)), atol=2e-6)


def test_tracking_stays_in_the_domain_and_needs_no_recentring(problem, network):
    """Masks a thousand times the box: estimates are feasible after every iteration."""
    net, box = network("random"), Box(LOW, HIGH, dim=5)
    method, weights = tracking(box, net, problem.bounds)
    states = iterations_of_method(
        method,
        {"symmetric": weights.toarray()},
        problem.masked(net.graph, 1e3),
        np.zeros((50, 5)),
    )
    for state in islice(states, 300):
        assert ((state.x >= LOW) & (state.x <= HIGH)).all()
    free, _ = problem.recentred(net.graph, 1e3)
    expected = run(problem, net, tracking, box, free, 600)
    np.testing.assert_allclose(state.x, expected, atol=1e-7)


def test_primal_dual_methods_crawl_in_a_box_until_masks_are_drawn_together(
    problem, network
):
    """The dual can only grow by the box's size in each iteration."""
    net, box = network("random"), Box(LOW, HIGH, dim=5)
    expected = run(problem, net, nids, box, problem.masked(net.graph, 0.0), 600)[0]
    for cost, arrived in [
        (problem.recentred(net.graph, 1e4)[0], True),
        (problem.masked(net.graph, 1e4), False),
    ]:
        found = run(problem, net, nids, box, cost, 600)
        assert (np.abs(found - expected).max() < 1e-6) == arrived
