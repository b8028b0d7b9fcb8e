"""Eq. sum_preserve: masks add up to zero, so the sum of costs is unchanged."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies import any_topologies, few, finite_arrays, seeds
from veils import veil
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, check_mask_sigma
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise.costs.cost import Cost

sigmas = st.floats(1e-3, 1e6, allow_subnormal=False)


@given(any_topologies(), sigmas, seeds)
def test_masks_sum_to_zero_on_every_graph(topology, sigma, seed):
    law = GaussianMasks(check_mask_sigma(sigma))
    shares = draw_mask_shares(topology, law, ShareStreams(seed), size=3)
    total = shares.masks().sum(axis=0)
    size = abs(shares.values).sum()
    np.testing.assert_allclose(total, 0.0, atol=1e-15 * size * topology.n_parties)


@few
@given(any_topologies(), seeds)
def test_no_honest_mask_is_zero(topology, seed):
    law = GaussianMasks(check_mask_sigma(1.0))
    masks = draw_mask_shares(topology, law, ShareStreams(seed), size=2).masks()
    assert (masks != 0).all()


def test_the_masks_of_whole_numbers_sum_to_exactly_zero():
    """K3, r = [[0,1,2],[3,0,4],[5,6,0]]: u = (-5, 0, 5) by hand."""
    r = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]])
    by_hand = r.sum(axis=1) - r.sum(axis=0)
    assert by_hand.tolist() == [-5.0, 0.0, 5.0]
    assert by_hand.sum() == 0.0


KINDS = {
    "affine": lambda row: Cost.affine(row[:2]),
    "squared distance": lambda row: Cost.squared_distance(row[:2]),
    "polynomial": lambda row: Cost.polynomial(row, dim=2),
    "quadratic": lambda row: Cost.quadratic(
        [[row[0], row[1]], [row[1], row[2]]], row[3:]
    ),
    "local": lambda row: Cost.from_gradient(lambda x: np.tanh(x - row[:2]), dim=2),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@few
@given(data=st.data(), topology=any_topologies(max_agents=6), seed=seeds)
def test_the_sum_of_gradients_is_the_same_at_every_point(make, data, topology, seed):
    """sum_i grad h~_i(x) = sum_i grad h_i(x): every minimiser is kept."""
    n = topology.n_parties
    costs = [make(row) for row in data.draw(finite_arrays((n, 5), most=3.0))]
    law = GaussianMasks(check_mask_sigma(10.0))
    shares = draw_mask_shares(
        topology, law, ShareStreams(seed), size=costs[0].basis.size
    )
    effective = veil(costs, shares.masks())
    x = data.draw(finite_arrays((2,), most=2.0))
    masked = effective.gradient(np.tile(x, (n, 1))).sum(axis=0)
    plain = sum(cost.gradient(x) for cost in costs)
    np.testing.assert_allclose(masked, plain, rtol=1e-9, atol=1e-9)


def test_a_mask_left_out_breaks_the_sum():
    """The test above can fail: drop one party's mask and the sum is off by it."""
    triangle = Topology.family("complete:3")
    law = GaussianMasks(check_mask_sigma(1.0))
    masks = draw_mask_shares(triangle, law, ShareStreams(0), size=1).masks()
    broken = masks.copy()
    broken[0] = 0.0
    np.testing.assert_allclose(broken.sum(axis=0), -masks[0], atol=1e-15)
    assert abs(masks[0, 0]) > 1e-3
