"""Section III-B: every degree is masked, and single costs lose their convexity."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies import connected_topologies, fair_pairs, few, seeds
from veils import veil
from veilsum.consortium.scenario import Settings
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.solve import solve
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.guarantee import guarantee

RING = Topology.family("ring:5")
UNIT = GaussianMasks(check_mask_sigma(1.0))
# h_i(x) = (x - c_i)^4 / 4 + (x - c_i)^2 / 2 up to a constant.
CENTRES = np.array([-1.0, -0.5, 0.0, 0.5, 1.5])
QUARTICS = [Cost.polynomial([-(c**3) - c, 1.5 * c**2 + 0.5, -c, 0.25]) for c in CENTRES]


def second_derivative(theta, x):
    """c_2, c_3, c_4 of (c_1, ..., c_4): 2 c_2 + 6 c_3 x + 12 c_4 x^2."""
    return 2 * theta[..., 1:2] + 6 * theta[..., 2:3] * x + 12 * theta[..., 3:4] * x**2


@few
@given(st.data(), connected_topologies(max_agents=6), seeds, st.integers(1, 5))
def test_the_sum_keeps_every_degree(data, topology, seed, degree):
    n = topology.n_parties
    rows = data.draw(
        st.lists(
            st.lists(st.integers(-8, 8), min_size=degree, max_size=degree),
            min_size=n,
            max_size=n,
        )
    )
    costs = [Cost.polynomial(np.array(row, dtype=float)) for row in rows]
    shares = draw_mask_shares(topology, UNIT, ShareStreams(seed), size=degree)
    effective = veil(costs, shares.masks())
    total = effective.coefficients.sum(axis=0)
    np.testing.assert_allclose(total, np.sum(rows, axis=0), atol=1e-12)
    assert (effective.coefficients != np.array(rows)).all()


def test_masks_make_single_costs_concave_somewhere_and_keep_the_sum_convex():
    shares = draw_mask_shares(RING, UNIT, ShareStreams(2), size=4)
    effective = veil(QUARTICS, shares.masks()).coefficients
    x = np.linspace(-2.0, 2.0, 401)
    private = np.array([cost.coefficients for cost in QUARTICS])
    assert second_derivative(private, x).min() > 0
    bends = second_derivative(effective, x)
    assert (bends.min(axis=1) < 0).sum() >= 2
    assert bends.sum(axis=0).min() > 0
    np.testing.assert_allclose(
        bends.sum(axis=0), second_derivative(private, x).sum(axis=0), atol=1e-10
    )


def pooled_minimiser():
    """The real root of sum (x - c)^3 + (x - c), from the companion matrix."""
    powers = [(CENTRES**k).sum() for k in range(4)]
    roots = np.roots([5.0, -3 * powers[1], 3 * powers[2] + 5.0, -powers[3] - powers[1]])
    return float(roots[np.argmin(abs(roots.imag))].real)


def test_dgd_minimises_a_convex_sum_of_masked_costs_that_are_not_convex():
    """The error is below 1e-3 long before 1e5 iterations, and it falls like 1 / k."""
    early, late = (
        solve(
            QUARTICS,
            topology=RING,
            corrupted=(),
            domain=Box(-2.0, 2.0, dim=1),
            sigma=1.0,
            seed=1,
            settings=Settings(iterations=iterations, step=0.5),
        )
        for iterations in (500, 5000)
    )
    x = np.linspace(-2.0, 2.0, 401)
    bends = second_derivative(late.effective.coefficients, x)
    assert (bends.min(axis=1) < 0).sum() >= 2
    assert late.reference[0] == pytest.approx(pooled_minimiser(), abs=1e-9)
    assert late.max_error < 1e-3
    assert late.max_error < 0.2 * early.max_error


@few
@given(st.data(), connected_topologies(max_agents=6), st.floats(0.1, 10.0))
def test_each_degree_has_the_theorem_s_epsilon_of_its_own(data, topology, sigma):
    """A and B that differ in one degree only: KL <= epsilon ||A^(l) - B^(l)||^2."""
    promise = guarantee(topology, sigma=sigma)
    a, b = data.draw(fair_pairs(topology, (), width=4))
    degree = data.draw(st.integers(0, 3))
    other = a.copy()
    other[:, degree] = b[:, degree]
    found = kl_divergence(topology, a, other, sigma=sigma)
    size = ((a - other) ** 2).sum()
    assert found <= promise.epsilon * size * (1 + 1e-9)


@few
@given(st.data(), connected_topologies(max_agents=6))
def test_degrees_with_their_own_sigma_add_up(data, topology):
    """Shares of different degrees are independent: the joint divergence is the sum."""
    sigmas = [1.0, 0.5, 2.0, 4.0]
    a, b = data.draw(fair_pairs(topology, (), width=4))
    joint = kl_divergence(topology, a, b, sigma=sigmas)
    parts = [
        kl_divergence(topology, a[:, k], b[:, k], sigma=sigma)
        for k, sigma in enumerate(sigmas)
    ]
    assert joint == pytest.approx(sum(parts), rel=1e-10, abs=1e-12)
    weakest = guarantee(topology, sigma=sigmas).epsilon
    assert joint <= weakest * ((a - b) ** 2).sum() * (1 + 1e-9)
