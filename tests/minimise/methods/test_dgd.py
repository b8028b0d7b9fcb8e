import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import connected_topologies, few, finite_arrays
from veils import sloping, veil
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.dgd import Dgd, DgdState


def line_by_line(weights, gradients, start, *, low, high, scale, power, steps):
    """The recursion as the theory states it, in plain Python numbers."""
    n, m = len(start), len(start[0])
    x = [[min(max(value, low), high) for value in row] for row in start]
    for k in range(steps):
        step = scale / (k + 1) ** power
        mixed = [
            [sum(weights[i][j] * x[j][c] for j in range(n)) for c in range(m)]
            for i in range(n)
        ]
        x = []
        for i in range(n):
            slope = gradients[i](mixed[i])
            moved = [v - step * g for v, g in zip(mixed[i], slope, strict=True)]
            x.append([min(max(value, low), high) for value in moved])
    return x


@few
@given(
    st.data(),
    connected_topologies(max_agents=6),
    st.floats(0.05, 2.0),
    st.floats(0.51, 1.0),
)
def test_dgd_is_the_recursion_of_the_theory(data, topology, scale, power):
    """v = Wx, then x+ = P(v - a_k grad(v)), a_k = scale / (k + 1)^power."""
    n = topology.n_parties
    targets = data.draw(finite_arrays((n, 2), most=3.0))
    start = data.draw(finite_arrays((n, 2), most=8.0))
    weights = mixing_weights(topology, "metropolis")
    effective = veil([Cost.squared_distance(t) for t in targets], np.zeros((n, 2)))
    method = Dgd(Box(-2.0, 2.5, dim=2), scale=scale, power=power)
    state = method.begin(start, effective)
    for _ in range(12):
        mixed = weights @ method.outgoing(state)
        state = method.advance(state, mixed, effective)
    expected = line_by_line(
        weights.toarray().tolist(),
        [
            lambda v, t=t: [2 * (a - b) for a, b in zip(v, t, strict=True)]
            for t in targets
        ],
        start.tolist(),
        low=-2.0,
        high=2.5,
        scale=scale,
        power=power,
        steps=12,
    )
    assert state.iteration == 12
    np.testing.assert_allclose(state.x, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "domain", [Box(-1.0, 1.0, dim=2), Ball(0.0, 1.0, dim=2), Simplex(2)], ids=repr
)
@few
@given(data=st.data())
def test_one_agent_and_all_agents_take_the_same_step(domain, data):
    n = 3
    theta = data.draw(finite_arrays((n, 2)))
    mixed = data.draw(finite_arrays((n, 2)))
    start = data.draw(finite_arrays((n, 2)))
    effective = veil([Cost.squared_distance(row) for row in theta], np.zeros((n, 2)))
    method = Dgd(domain, scale=0.7)
    together = method.begin(start, effective)
    after = method.advance(together, mixed, effective)
    for i in range(n):
        alone = EffectiveCost(
            effective.basis, effective.coefficients[i], effective.remainder
        )
        state = method.begin(start[i], alone)
        np.testing.assert_array_equal(state.x, together.x[i])
        state = method.advance(state, mixed[i], alone)
        np.testing.assert_allclose(state.x, after.x[i], atol=1e-14)


def test_the_gradient_is_taken_at_the_mixed_point_and_not_at_the_agent_s_own():
    seen = []

    def gradient(x):
        seen.append(x.copy())
        return np.zeros_like(x)

    method = Dgd(Box(-9.0, 9.0, dim=1))
    method.advance(DgdState(np.array([5.0])), np.array([2.0]), sloping(gradient, 1))
    assert [x.tolist() for x in seen] == [[2.0]]


def test_a_step_changes_neither_the_state_nor_what_was_heard():
    method = Dgd(Box(-9.0, 9.0, dim=2))
    cost = sloping(lambda x: 0.5 * x, 2)
    state = method.begin(np.ones((2, 2)), cost)
    mixed = np.full((2, 2), 3.0)
    after = method.advance(state, mixed, cost)
    assert state.x.tolist() == np.ones((2, 2)).tolist()
    assert state.iteration == 0
    assert mixed.tolist() == np.full((2, 2), 3.0).tolist()
    assert after.iteration == 1


def test_the_start_is_moved_into_the_domain():
    method = Dgd(Box(-1.0, 1.0, dim=2))
    cost = sloping(np.ones_like, 2)
    assert method.begin(np.array([5.0, -0.5]), cost).x.tolist() == [1.0, -0.5]


def test_neighbours_hear_the_estimate():
    state = DgdState(np.array([1.0, 2.0]), 7)
    method = Dgd(Box(-9.0, 9.0, dim=2))
    np.testing.assert_array_equal(method.outgoing(state), state.x)


@pytest.mark.parametrize(("scale", "power"), [(1.0, 1.0), (0.3, 0.75)])
def test_steps_shrink_as_the_theory_says(scale, power):
    """With gradient 1 and nothing else, the estimate falls by exactly a_k."""
    method = Dgd(Box(-1e6, 1e6, dim=1), scale=scale, power=power)
    cost = sloping(np.ones_like, 1)
    state = method.begin(np.zeros(1), cost)
    for k in range(5):
        following = method.advance(state, state.x, cost)
        fall = float(state.x[0] - following.x[0])
        assert fall == pytest.approx(scale / (k + 1) ** power, rel=1e-9)
        state = following


@each("power", [0.5, 0.0, -1.0, 1.0001, 2.0, np.nan])
def test_a_power_outside_the_theory_is_refused(power):
    with refused("power-out-of-range", mentions=("0.5", "1")):
        Dgd(Box(-1.0, 1.0, dim=1), power=power)


@each("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_step_scale_that_is_none_is_refused(scale):
    with refused("scale-not-positive"):
        Dgd(Box(-1.0, 1.0, dim=1), scale=scale)


@pytest.mark.parametrize(
    "domain", [WholeSpace(2), HalfSpaces([[1.0, 1.0]], [1.0])], ids=["all", "half"]
)
def test_an_unbounded_domain_is_refused_with_what_would_do(domain):
    with refused("domain-not-compact"):
        Dgd(domain)


# The other form: the gradient at a party's own point.


@few
@given(st.data(), connected_topologies(max_agents=6))
def test_at_its_own_point_it_is_the_recursion_of_the_theory(data, topology):
    n = topology.n_parties
    targets = data.draw(finite_arrays((n, 2), most=3.0))
    start = data.draw(finite_arrays((n, 2), most=2.0))
    weights = mixing_weights(topology, "metropolis")
    cost = veil([Cost.squared_distance(t) for t in targets], np.zeros((n, 2)))
    method = Dgd(Box(-2.0, 2.5, dim=2), 0.3, 0.75, gradient_at="own")
    state, x = method.begin(start, cost), np.clip(start, -2.0, 2.5)
    for k in range(12):
        state = method.advance(state, weights @ method.outgoing(state), cost)
        slope = 2.0 * (x - targets)
        x = np.clip(weights.toarray() @ x - 0.3 / (k + 1) ** 0.75 * slope, -2.0, 2.5)
    assert state.iteration == 12
    np.testing.assert_allclose(state.x, x, rtol=1e-10, atol=1e-10)


def test_the_gradient_is_taken_at_the_agent_s_own_point():
    seen = []

    def gradient(x):
        seen.append(x.copy())
        return np.zeros_like(x)

    method = Dgd(Box(-9.0, 9.0, dim=1), gradient_at="own")
    after = method.advance(
        DgdState(np.array([5.0])), np.array([2.0]), sloping(gradient, 1)
    )
    assert [x.tolist() for x in seen] == [[5.0]]
    assert after.x.tolist() == [2.0]


def test_both_forms_end_at_the_average():
    """Squared distances: the minimiser is the mean of the targets."""
    targets = np.array([[1.0], [2.0], [6.0], [-3.0]])
    ring = mixing_weights(Topology.family("ring:4"), "metropolis").toarray()
    cost = veil([Cost.squared_distance(t) for t in targets], np.zeros((4, 1)))
    for form in ("mixed", "own"):
        method = Dgd(Box(-9.0, 9.0, dim=1), scale=0.5, gradient_at=form)
        state = method.begin(np.zeros((4, 1)), cost)
        for _ in range(3000):
            state = method.advance(state, ring @ state.x, cost)
        np.testing.assert_allclose(state.x, 1.5, atol=5e-3)
