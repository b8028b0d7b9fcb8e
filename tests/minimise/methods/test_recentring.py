"""Recentring: the sum untouched, Chebyshev's polynomial, small whatever sigma was."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy.special import eval_chebyt

from cases import each
from strategies import connected_topologies, few, seeds
from veilsum.graphs.mixing import mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise.methods.recentring import (
    chebyshev_factors_of_mixing,
    next_recentring_flow,
    recentre,
    recentring_edge_weights,
    recentring_rounds,
)
from veilsum.numbers.limbs import (
    as_python_integers,
    limbs_from_integers,
    limbs_to_integers,
)

mixings = st.sampled_from(["metropolis", "lazy-metropolis", "max-degree"])


def integers(topology, seed, *, most, size=2):
    """Random rows of numbers up to `most`, as Python integers."""
    unit = np.random.default_rng(seed).uniform(-1.0, 1.0, (topology.n_parties, size))
    return as_python_integers(np.rint(unit * most))


def recentred(topology, weights, start, rounds):
    """What rounds make of Python integers, in limbs."""
    return limbs_to_integers(
        recentre(topology, weights, limbs_from_integers(start, 4), rounds=rounds)
    )


@given(connected_topologies(), mixings, seeds, st.integers(0, 40), st.integers(0, 30))
def test_the_sum_is_conserved_to_the_last_unit(topology, mixing, seed, digits, rounds):
    weights = mixing_weights(topology, mixing)
    start = integers(topology, seed, most=10.0**digits)
    end = recentred(topology, weights, start, rounds)
    assert end.sum(axis=0).tolist() == start.sum(axis=0).tolist()


@given(connected_topologies(), mixings, seeds, st.integers(0, 18), st.integers(0, 20))
def test_64_bits_do_what_limbs_do(topology, mixing, seed, digits, rounds):
    weights = mixing_weights(topology, mixing)
    wide = integers(topology, seed, most=10.0**digits)
    narrow = recentre(topology, weights, wide.astype(np.int64), rounds=rounds)
    assert narrow.dtype == np.int64
    assert narrow.tolist() == recentred(topology, weights, wide, rounds).tolist()


def test_the_masked_rows_themselves_are_left_alone():
    ring = Topology.family("ring:5")
    whole = integers(ring, 0, most=1e6)
    for start in (whole.astype(np.int64), limbs_from_integers(whole, 4)):
        before = start.tobytes()
        recentre(ring, mixing_weights(ring, "metropolis"), start, rounds=3)
        assert start.tobytes() == before


@given(connected_topologies(min_agents=3), mixings, seeds, st.integers(0, 25))
def test_rounds_apply_chebyshev_s_polynomial(topology, mixing, seed, rounds):
    """y_k = p(W) y_0 with p(x) = T_k(x / rho) / T_k(1 / rho), by eigenvectors.

    Rounding moves every flow by at most half a unit in every round, and momentum may
    carry that on for as many rounds: 1e9 is far above all of it.
    """
    weights = mixing_weights(topology, mixing)
    rho = mixing_rate(weights)
    assume(rho > 1e-3)
    start = integers(topology, seed, most=1e9).astype(float)
    values, vectors = np.linalg.eigh(weights.toarray())
    scale = eval_chebyt(rounds, values / rho) / eval_chebyt(rounds, 1.0 / rho)
    expected = vectors @ (scale[:, None] * (vectors.T @ start))
    found = recentre(topology, weights, start.astype(np.int64), rounds=rounds)
    units = 2.0 * (1 + rounds) ** 2 * topology.degrees.max()
    np.testing.assert_allclose(found.astype(float), expected, atol=units, rtol=1e-9)


@each("spec", ["petersen", "ring:9", "complete:6", "path:5"])
@each("sigma", [1.0, 1e3, 1e6, 1e9, 1e12])
def test_masks_end_up_small_whatever_sigma_was(spec, sigma):
    """A residual of 1 was asked for, as a typical size; seed 0 stays below 2."""
    topology = Topology.family(spec)
    weights = mixing_weights(topology, "metropolis")
    law = Masks("lattice", sigma=sigma, grid=40).on(topology)
    masks = draw_mask_shares(topology, law, ShareStreams(0), size=3).masks()
    rounds = recentring_rounds(topology, weights, sigma=sigma, size=3, residual=1.0)
    left = law.decode(recentre(topology, weights, masks, rounds=rounds))
    assert np.abs(left).max() < 2.0


@given(
    connected_topologies(min_agents=3), mixings, st.floats(-3, 12), st.integers(1, 9)
)
def test_as_many_rounds_as_the_formula_says_are_enough(topology, mixing, digits, size):
    """cosh(K acosh(1 / rho)) >= sigma sqrt(2 d p n) / residual, and not for K - 1."""
    weights, sigma = mixing_weights(topology, mixing), 10.0**digits
    rounds = recentring_rounds(topology, weights, sigma=sigma, size=size, residual=0.5)
    rho = mixing_rate(weights)
    if rho < 1e-9:
        assert rounds == 1
        return
    links = topology.degrees.max()
    wanted = max(1.5, sigma * np.sqrt(2 * links * size * topology.n_parties) / 0.5)
    shrink = [np.cosh(k * np.arccosh(1 / rho)) for k in (rounds - 1, rounds)]
    assert shrink[1] >= wanted * (1 - 1e-9)
    assert shrink[0] <= wanted * (1 + 1e-9)


def test_one_round_of_perfect_mixing_is_enough():
    complete = Topology.family("complete:4")
    weights = mixing_weights(complete, "metropolis")
    start = as_python_integers(np.array([[4.0e20], [0.0], [0.0], [0.0]]))
    assert recentring_rounds(complete, weights, sigma=1e9, size=1, residual=1.0) == 1
    found = recentred(complete, weights, start, 1)
    assert found.ravel().tolist() == [10**20] * 4


# --- Both ends of a link -----------------------------------------------------------

flows = st.floats(-1e15, 1e15).map(np.rint)


@given(flows, flows, st.floats(0.01, 1.0), st.floats(1.0, 2.0))
def test_the_flow_is_odd(flow, difference, weight, omega):
    """What one end computes is the negative of what the other end does."""
    along = np.array([weight])
    here = next_recentring_flow(
        np.array([[flow]]), np.array([[difference]]), along, omega
    )
    there = next_recentring_flow(
        np.array([[-flow]]), np.array([[-difference]]), along, omega
    )
    assert here.tolist() == (-there).tolist()


@few
@given(connected_topologies(max_agents=6), seeds, st.integers(1, 12))
def test_parties_that_each_keep_their_own_flows_agree(topology, seed, rounds):
    """Every party has y_i, and for each neighbour its own F_ij: nothing is shared."""
    weights = mixing_weights(topology, "metropolis")
    dense, start = weights.toarray(), integers(topology, seed, most=1e25, size=1)
    y = [int(row[0]) for row in start]
    near = [np.flatnonzero(topology.adjacency.toarray()[i]) for i in range(len(y))]
    flow = {(i, int(j)): 0.0 for i in range(len(y)) for j in near[i]}
    for omega in chebyshev_factors_of_mixing(mixing_rate(weights), rounds):
        flow = {
            (i, j): float(
                next_recentring_flow(
                    np.array([[old]]),
                    np.array([[float(y[j] - y[i])]]),
                    np.array([dense[i, j]]),
                    omega,
                )[0, 0]
            )
            for (i, j), old in flow.items()
        }
        assert all(flow[i, j] == -flow[j, i] for i, j in flow)
        gains = [sum(int(flow[i, int(j)]) for j in near[i]) for i in range(len(y))]
        y = [a + b for a, b in zip(y, gains, strict=True)]
    found = recentred(topology, weights, start, rounds)
    assert found.ravel().tolist() == y


def test_weights_are_read_link_by_link():
    star = Topology.family("star:4")
    weights = mixing_weights(star, "metropolis")
    assert recentring_edge_weights(star, weights).tolist() == [0.25] * 3


def test_factors_are_those_of_the_recursion():
    """om_1 = 1, om_2 = 1 / (1 - 1/8), om_3 = 1 / (1 - om_2 / 16) for rho = 1/2."""
    assert list(chebyshev_factors_of_mixing(0.5, 0)) == []
    expected = [1.0, 8 / 7, 14 / 13]
    assert list(chebyshev_factors_of_mixing(0.5, 3)) == pytest.approx(
        expected, rel=1e-15
    )
