"""The interface all iterative methods share: one party, all parties, pure steps."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from method_states import iterations_of_method
from refusals import refused
from strategies import connected_topologies, finite_arrays
from veils import veil
from veilsum.graphs.mixing import mixing_weights
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.accelerated import AcceleratedTracking
from veilsum.minimise.methods.base import mix_method_messages
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.methods.nids import Nids
from veilsum.minimise.methods.one_way import one_way_column_weights, one_way_row_weights
from veilsum.minimise.methods.push_pull import PushPull
from veilsum.minimise.methods.running_sums import RunningSums

METHODS = {
    "extra": lambda domain: Extra(domain, 0.2),
    "nids": lambda domain: Nids(domain, 0.3),
    "gradient-tracking": lambda domain: GradientTracking(domain, 0.1),
    "accelerated": lambda domain: AcceleratedTracking(domain, 8.0, 2.0),
    "push-pull": lambda domain: PushPull(domain, 0.1),
    "running-sums": lambda domain: RunningSums(domain, 0.1),
    "nids in 3 rounds": lambda domain: Chebyshev(Nids(domain, 0.3), 0.7, 3),
    "tracking in 2 rounds": lambda domain: Chebyshev(
        GradientTracking(domain, 0.1), 0.7, 2
    ),
}
# Each property runs once for every method.
fewer = settings(max_examples=10)
every_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)


def all_weights(topology):
    return {
        "symmetric": mixing_weights(topology, "metropolis"),
        "row": one_way_row_weights(topology),
        "column": one_way_column_weights(topology),
    }


def costs_of(targets):
    return veil([Cost.squared_distance(t) for t in targets], np.zeros_like(targets))


def alone(cost, i):
    return EffectiveCost(cost.basis, cost.coefficients[i], cost.remainder)


@every_method
@fewer
@given(data=st.data())
def test_one_agent_does_what_its_row_does_to_the_last_bit(make, data):
    """Given the same words from its neighbours, a party alone is a row of all."""
    topology = data.draw(connected_topologies(min_agents=3, max_agents=5))
    n = topology.n_parties
    cost = costs_of(data.draw(finite_arrays((n, 2), most=3.0)))
    start = data.draw(finite_arrays((n, 2), most=3.0))
    method, weights = make(Box(-2.0, 2.5, dim=2)), all_weights(topology)
    together = method.begin(start, cost)
    parties = [method.begin(start[i], alone(cost, i)) for i in range(n)]
    for _ in range(8):
        told, parts = method.outgoing(together), method.parts(together)
        mixed = mix_method_messages(weights, parts, told)
        for i, party in enumerate(parties):
            assert method.parts(party) == parts
            assert method.outgoing(party).tolist() == told[i].tolist()
            parties[i] = method.advance(party, mixed[i], alone(cost, i))
        together = method.advance(together, mixed, cost)
    assert [party.x.tolist() for party in parties] == together.x.tolist()
    assert {party.iteration for party in parties} == {together.iteration}


@every_method
@fewer
@given(data=st.data())
def test_agents_that_hear_their_neighbours_only_come_to_the_same(make, data):
    """Each sums up what it heard by itself, in the order of its own links."""
    topology = data.draw(connected_topologies(min_agents=3, max_agents=5))
    n = topology.n_parties
    cost = costs_of(data.draw(finite_arrays((n, 2), most=3.0)))
    start = np.zeros((n, 2))
    method, weights = make(WholeSpace(2)), all_weights(topology)
    dense = {name: each.toarray() for name, each in weights.items()}
    near = [np.flatnonzero(dense["row"][i]) for i in range(n)]
    parties = [method.begin(start[i], alone(cost, i)) for i in range(n)]
    for _ in range(4 * method.rounds_per_iteration):
        told = np.array([method.outgoing(party) for party in parties])
        for i, party in enumerate(parties):
            mine = {name: each[i, near[i]] for name, each in dense.items()}
            mixed = mix_method_messages(mine, method.parts(party), told[near[i]])
            parties[i] = method.advance(party, mixed, alone(cost, i))
    states = iterations_of_method(method, weights, cost, start)
    *_, together = islice(states, 5)
    found = np.array([party.x for party in parties])
    np.testing.assert_allclose(found, together.x, rtol=1e-13, atol=1e-13)


@every_method
def test_a_step_changes_neither_the_state_nor_what_was_heard(make):
    cost = costs_of(np.arange(6.0).reshape(3, 2))
    method = make(WholeSpace(2))
    state = method.begin(np.ones((3, 2)), cost)
    for _ in range(3):
        told = method.outgoing(state)
        mixed = 0.5 * told
        kept = [told.copy(), mixed.copy(), state.x.copy()]
        method.advance(state, mixed, cost)
        seen = [method.outgoing(state), mixed, state.x]
        for before, after in zip(kept, seen, strict=True):
            np.testing.assert_array_equal(before, after)
        state = method.advance(state, mixed, cost)


@every_method
def test_an_iteration_takes_as_many_rounds_as_the_method_says(make):
    cost = costs_of(np.arange(6.0).reshape(3, 2))
    method = make(WholeSpace(2))
    state = method.begin(np.zeros((3, 2)), cost)
    seen = []
    for _ in range(4 * method.rounds_per_iteration):
        state = method.advance(state, method.outgoing(state), cost)
        seen.append(state.iteration)
    assert seen[-1] == 4
    assert sorted(seen) == seen
    assert all(seen.count(k) == method.rounds_per_iteration for k in (1, 2, 3))


@every_method
def test_the_start_is_moved_into_the_domain(make):
    cost = costs_of(np.zeros((2, 2)))
    state = make(Box(-1.0, 1.0, dim=2)).begin(np.array([[5.0, -0.5], [-9, 0]]), cost)
    assert state.x.tolist() == [[1.0, -0.5], [-1.0, 0.0]]
    assert state.iteration == 0


@every_method
def test_a_message_has_parts_as_long_as_x(make):
    cost = costs_of(np.zeros((3, 2)))
    method = make(WholeSpace(2))
    state = method.begin(np.zeros((3, 2)), cost)
    for _ in range(3):
        told = method.outgoing(state)
        assert told.shape == (3, 2 * len(method.parts(state)))
        state = method.advance(state, told, cost)


@every_method
def test_where_all_agree_on_the_minimiser_nobody_moves(make):
    """Zero gradients at a common point: every method rests there."""
    cost = costs_of(np.tile([0.5, -1.25], (3, 1)))
    method, weights = make(WholeSpace(2)), np.full((3, 3), 1.0 / 3.0)
    same = dict.fromkeys(("symmetric", "row", "column"), weights)
    states = iterations_of_method(method, same, cost, np.tile([0.5, -1.25], (3, 1)))
    *_, last = islice(states, 20)
    np.testing.assert_allclose(last.x, np.tile([0.5, -1.25], (3, 1)), atol=1e-14)


def test_every_part_is_mixed_with_the_weights_it_names():
    row = np.array([[0.5, 0.5], [0.25, 0.75]])
    told = np.array([[1.0, 10.0], [3.0, 20.0]])
    mixed = mix_method_messages({"row": row, "column": row.T}, ("row", "column"), told)
    assert mixed.tolist() == [[2.0, 10.0], [2.5, 20.0]]


def test_parts_that_do_not_divide_the_message_are_an_error():
    with pytest.raises(ValueError, match="equal division"):
        mix_method_messages(
            {"row": np.eye(2), "column": np.eye(2)}, ("row", "column"), np.ones((2, 3))
        )


@each("step", [0.0, -1.0, np.nan, np.inf])
@each(
    "method",
    [Extra, Nids, GradientTracking, PushPull, RunningSums],
    ids=lambda method: method.__name__,
)
def test_a_step_that_is_none_is_refused(method, step):
    with refused("step-not-positive"):
        method(WholeSpace(1), step)
