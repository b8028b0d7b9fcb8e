"""Iterations until every party is within 1e-8 of the minimiser, for masks of any size.

Fifty parties' least squares on three graphs. Counts are for Metropolis weights (EXTRA:
lazy ones) without recentring, and for the fastest constant weights with it.
"""

from math import ceil, log, sqrt

import numpy as np
import pytest

from veilsum.minimise.costs.domains import WholeSpace
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

EVERYWHERE = WholeSpace(5)
SIGMAS = (0.0, 1.0, 1e3, 1e6)
GRAPHS = ("ring", "random", "regular")

# By method and graph, one count for each sigma.
PLAIN = {
    "extra": {
        "ring": (6248, 6040, 9171, 12098),
        "random": (314, 349, 460, 583),
        "regular": (299, 308, 419, 542),
    },
    "nids": {
        "ring": (2444, 2368, 3595, 4737),
        "random": (363, 361, 454, 597),
        "regular": (364, 367, 471, 614),
    },
    "nids, long steps": {
        "ring": (4686, 4525, 6866, 9047),
        "random": (181, 194, 263, 331),
        "regular": (182, 189, 250, 320),
    },
}
# Recentred: message rounds in all for NIDS, iterations for tracking.
NIDS_ROUNDS = {
    "ring": (1068, 1119, 1174, 1283),
    "random": (181, 190, 199, 208),
    "regular": (184, 189, 197, 204),
}
TRACKING, ACCELERATED = 152, 51
CERTIFIED = {"ring": 26, "random": 5, "regular": 4}
USUAL = {"ring": 23, "random": 4, "regular": 3}
RECENTRING = {"ring": (33, 88, 143), "random": (7, 16, 25), "regular": (6, 14, 22)}
MIXED_IN = {"ring": 6, "random": 1, "regular": 1}


def plain(name, problem, network):
    """A method without recentring, and the weights it is counted with."""
    smooth = problem.bounds.smooth
    if name == "extra":
        step = extra_step(smooth, least_eigenvalue_of_mixing(network.lazy))
        return Extra(EVERYWHERE, step), network.lazy
    share = 1.9 if "long" in name else 1.0
    return Nids(EVERYWHERE, nids_step(smooth, share=share)), network.metropolis


def slow_on_rings(*values):
    """Rings take thousands of iterations: those cases only run with the long tests."""
    marks = [pytest.mark.slow] if "ring" in values else []
    return pytest.param(*values, marks=marks)


@pytest.mark.parametrize(
    ("graph", "name"), [slow_on_rings(g, name) for g in GRAPHS for name in PLAIN]
)
def test_primal_dual_methods_take_as_many_iterations_as_expected(
    graph, name, problem, network
):
    net = network(graph)
    method, weights = plain(name, problem, net)
    found = [
        problem.count(method, weights, problem.masked(net.graph, sigma))
        for sigma in SIGMAS
    ]
    assert found == pytest.approx(PLAIN[name][graph], rel=0.05)


@pytest.mark.parametrize("graph", GRAPHS)
def test_recentred_nids_takes_as_many_rounds_as_expected(graph, problem, network):
    net, rounds = network(graph), MIXED_IN[graph]
    step = nids_step(problem.bounds.smooth, share=1.9)
    method = Chebyshev(Nids(EVERYWHERE, step), net.best_rate, rounds)
    found = []
    for sigma in SIGMAS:
        cost, before = problem.recentred(net.graph, sigma)
        found.append(before + rounds * problem.count(method, net.best, cost))
    assert found == pytest.approx(NIDS_ROUNDS[graph], rel=0.06)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_rounds_of_recentring_are_as_expected(graph, problem, network):
    found = [problem.recentred(network(graph).graph, s)[1] for s in SIGMAS[1:]]
    assert tuple(found) == RECENTRING[graph]


@pytest.mark.parametrize("graph", GRAPHS)
def test_certified_tracking_does_not_depend_on_the_graph_or_on_sigma(
    graph, problem, network
):
    net, bounds = network(graph), problem.bounds
    rounds = certified_rounds(net.best_rate, bounds, constrained=False)
    assert rounds == CERTIFIED[graph]
    inner = GradientTracking(EVERYWHERE, 1.0 / bounds.mean_smooth)
    method = Chebyshev(inner, net.best_rate, rounds)
    found = [
        problem.count(method, net.best, problem.recentred(net.graph, sigma)[0])
        for sigma in SIGMAS
    ]
    assert found == pytest.approx([TRACKING] * 4, rel=0.02)


def usual_rounds(rate, bounds):
    """A rule of thumb: often fewer rounds than are certified, and no proof.

    The least K with (1 - sqrt(1 - rho))^K <= 1 / (1 + (L / L_bar) sqrt(kappa)).
    """
    shrink = 1.0 + bounds.smooth / bounds.mean_smooth * sqrt(bounds.condition)
    return max(1, ceil(-log(shrink) / log(1.0 - sqrt(1.0 - rate))))


@pytest.mark.parametrize("graph", GRAPHS)
def test_acceleration_takes_a_third_of_it(graph, problem, network):
    net, bounds = network(graph), problem.bounds
    rounds = usual_rounds(net.best_rate, bounds)
    assert rounds == USUAL[graph]
    inner = AcceleratedTracking(EVERYWHERE, bounds.mean_smooth, bounds.mean_convex)
    method = Chebyshev(inner, net.best_rate, rounds)
    found = [
        problem.count(method, net.best, problem.recentred(net.graph, sigma)[0])
        for sigma in SIGMAS
    ]
    assert found == pytest.approx([ACCELERATED] * 4, abs=1)


@pytest.mark.parametrize("graph", GRAPHS)
def test_certified_acceleration_is_as_fast_in_more_rounds(graph, problem, network):
    net, bounds = network(graph), problem.bounds
    rounds = certified_accelerated_rounds(net.best_rate, bounds)
    assert USUAL[graph] < rounds <= 1.8 * USUAL[graph]
    inner = AcceleratedTracking(EVERYWHERE, bounds.mean_smooth, bounds.mean_convex)
    method = Chebyshev(inner, net.best_rate, rounds)
    cost = problem.recentred(net.graph, 1e3)[0]
    assert problem.count(method, net.best, cost) == pytest.approx(ACCELERATED, abs=1)


def test_methods_come_in_the_expected_order(problem, network):
    """On the random graph, without masks: acceleration first, short steps last."""
    net, bounds = network("random"), problem.bounds
    cost = problem.masked(net.graph, 0.0)
    tracking = Chebyshev(
        GradientTracking(EVERYWHERE, 1.0 / bounds.mean_smooth), net.best_rate, 5
    )
    fast = AcceleratedTracking(EVERYWHERE, bounds.mean_smooth, bounds.mean_convex)
    runs = [
        (Chebyshev(fast, net.best_rate, 4), net.best),
        (tracking, net.best),
        *(plain(name, problem, net) for name in ("nids, long steps", "extra", "nids")),
    ]
    found = [problem.count(method, weights, cost) for method, weights in runs]
    assert found == sorted(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("sigma", [1.0, 1e6, 1e9, 1e12])
def test_after_recentring_the_error_left_does_not_depend_on_sigma(
    sigma, problem, network
):
    net, bounds = network("random"), problem.bounds
    inner = GradientTracking(EVERYWHERE, 1.0 / bounds.mean_smooth)
    method = Chebyshev(inner, net.best_rate, 5)
    cost = problem.recentred(net.graph, sigma)[0]
    # Quantising moves the minimiser by 2^-51 / mu_bar at most; rounding does the rest.
    assert problem.count(method, net.best, cost, tolerance=1e-12, most=400)


@pytest.mark.slow
def test_large_masks_leave_no_drift_behind(problem, network):
    """Rounding fades with the mask: long after, the error is as small as ever."""
    net = network("ring")
    method, weights = plain("nids", problem, net)
    cost = problem.masked(net.graph, 1e6)
    assert problem.count(method, weights, cost, tolerance=1e-8) < 5000
    errors = [
        problem.error(state.x) for state in problem.states(method, weights, cost, 20000)
    ]
    assert max(errors[-5000:]) < 1e-8
    assert np.mean(errors[-1000:]) < 1.2 * np.mean(errors[-5000:-4000])
