"""Links that lose messages: running sums arrive, plain tracking goes astray."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, strategies as st

from method_states import iterations_of_method
from strategies import connected_topologies, few, finite_arrays, seeds
from veils import veil
from veilsum.graphs.mixing import mixing_rate
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.engines.faulty import LastHeard
from veilsum.minimise.methods.base import mix_method_messages
from veilsum.minimise.methods.one_way import one_way_column_weights, one_way_row_weights
from veilsum.minimise.methods.running_sums import RunningSums, running_sums_step


@dataclass(frozen=True)
class NaiveTracking(RunningSums):
    """The same without sums: what is lost is lost, and what is old counts again."""

    def outgoing(self, state):
        ahead = state.x - self.step * state.tracker
        return np.concatenate([ahead, state.tracker], axis=-1)

    def advance(self, state, mixed, cost):
        pulled, pushed = np.split(mixed, 2, axis=-1)
        tracker = pushed + cost.gradient_change(pulled, state.x)
        return type(state)(pulled, tracker, tracker, pushed, state.iteration + 1)


def lossy_run(method, weights, cost, start, *, loss, seed, rounds):
    """Yield states; in each round every link loses its message with this chance."""
    rng = np.random.default_rng(seed)
    state = method.begin(start, cost)
    memory = LastHeard.of(weights, method.unheard(start))
    for _ in range(rounds):
        told = method.outgoing(state)
        memory = memory.hear(told, rng.random(len(memory.senders)) >= loss)
        mixed = memory.mixed(method.parts(state), told)
        state = method.advance(state, mixed, cost)
        yield state


def both_ways(weights):
    return {"row": weights, "column": weights}


def first_within(problem, states, tolerance=1e-8):
    return next((s.iteration for s in states if problem.error(s.x) <= tolerance), None)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(("loss", "expected"), [(0.1, 1261), (0.3, 1887), (0.5, 3701)])
def test_running_sums_converge_whatever_is_lost(loss, expected, problem, network):
    """With masks of 1000, to 1e-8; how fast depends on the step and on what is lost."""
    net = network("random")
    cost = problem.masked(net.graph, 1e3)
    states = lossy_run(
        RunningSums(WholeSpace(5), 0.2),
        both_ways(net.metropolis),
        cost,
        np.zeros((50, 5)),
        loss=loss,
        seed=0,
        rounds=6000,
    )
    assert first_within(problem, states) == pytest.approx(expected, rel=0.15)


@pytest.mark.usefixtures("unchecked_shapes")
def test_the_usual_step_does_as_well(problem, network):
    net = network("random")
    step = running_sums_step(mixing_rate(net.metropolis), problem.bounds.smooth)
    states = lossy_run(
        RunningSums(WholeSpace(5), step),
        both_ways(net.metropolis),
        problem.masked(net.graph, 1e3),
        np.zeros((50, 5)),
        loss=0.3,
        seed=1,
        rounds=3000,
    )
    assert first_within(problem, states) < 1900


@pytest.mark.usefixtures("unchecked_shapes")
def test_without_sums_lost_mass_biases_the_answer_for_good(problem, network):
    net = network("random")
    cost = problem.masked(net.graph, 1e3)
    arguments = (both_ways(net.metropolis), cost, np.zeros((50, 5)))
    naive = NaiveTracking(WholeSpace(5), 0.05)
    *_, last = lossy_run(naive, *arguments, loss=0.3, seed=0, rounds=5000)
    assert problem.error(last.x) > 1.0
    # It is the loss that does it: with none the same method arrives.
    states = lossy_run(naive, *arguments, loss=0.0, seed=0, rounds=5000)
    assert first_within(problem, states) is not None


def costs_of(targets):
    return veil([Cost.squared_distance(t) for t in targets], np.zeros_like(targets))


@few
@given(st.data(), connected_topologies(max_agents=6, directed=True), seeds)
def test_no_mass_is_ever_lost(data, topology, seed):
    """All trackers and all that is still under way add up to the sum of gradients."""
    n = topology.n_parties
    cost = costs_of(data.draw(finite_arrays((n, 2), most=3.0)))
    weights = {
        "row": one_way_row_weights(topology),
        "column": one_way_column_weights(topology),
    }
    method, start = RunningSums(WholeSpace(2), 0.05), np.zeros((n, 2))
    rng = np.random.default_rng(seed)
    state = method.begin(start, cost)
    memory = LastHeard.of(weights, method.unheard(start))
    for _ in range(15):
        told = method.outgoing(state)
        memory = memory.hear(told, rng.random(len(memory.senders)) >= 0.6)
        mixed = memory.mixed(method.parts(state), told)
        sent = told[:, 2:]
        state = method.advance(state, mixed, cost)
        late = sent[memory.senders] - memory.messages[:, 2:]
        waiting = (memory.gather["column"] @ late).sum(axis=0)
        total = cost.gradient(state.x).sum(axis=0)
        np.testing.assert_allclose(
            state.tracker.sum(axis=0) + waiting, total, rtol=1e-9, atol=1e-9
        )


@few
@given(st.data(), connected_topologies(max_agents=6, directed=True))
def test_where_nothing_is_lost_memory_changes_nothing(data, topology):
    n = topology.n_parties
    cost = costs_of(data.draw(finite_arrays((n, 2), most=3.0)))
    weights = {
        "row": one_way_row_weights(topology),
        "column": one_way_column_weights(topology),
    }
    method, start = RunningSums(WholeSpace(2), 0.05), np.ones((n, 2))
    *_, lossy = lossy_run(method, weights, cost, start, loss=0.0, seed=0, rounds=10)
    *_, plain = islice(iterations_of_method(method, weights, cost, start), 11)
    np.testing.assert_allclose(lossy.x, plain.x, rtol=1e-12, atol=1e-12)


@few
@given(st.data(), connected_topologies(max_agents=5, directed=True), seeds)
def test_memory_is_what_every_agent_keeps_by_itself(data, topology, seed):
    """Link by link in plain dictionaries, with lost messages."""
    n = topology.n_parties
    row = one_way_row_weights(topology).toarray()
    column = one_way_column_weights(topology).toarray()
    weights = {
        "row": one_way_row_weights(topology),
        "column": one_way_column_weights(topology),
    }
    first = data.draw(finite_arrays((n, 4)))
    memory = LastHeard.of(weights, first)
    last = {
        (i, j): first[j] for i in range(n) for j in range(n) if row[i, j] and i != j
    }
    receivers = memory.gather["row"].tocsc().indices
    rng = np.random.default_rng(seed)
    for _ in range(4):
        told = rng.normal(size=(n, 4))
        arrived = rng.random(len(memory.senders)) < 0.5
        memory = memory.hear(told, arrived)
        for i, j, came in zip(receivers, memory.senders, arrived, strict=True):
            if came:
                last[int(i), int(j)] = told[j]
        mixed = memory.mixed(("row", "column"), told)
        for i in range(n):
            near = [j for j in range(n) if (i, j) in last]
            heard = np.array([told[i], *(last[i, j] for j in near)])
            mine = {"row": row[i, [i, *near]], "column": column[i, [i, *near]]}
            alone = mix_method_messages(mine, ("row", "column"), heard)
            np.testing.assert_allclose(mixed[i], alone, rtol=1e-12, atol=1e-12)
