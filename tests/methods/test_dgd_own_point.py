"""DGD's other form: the gradient at an agent's own point."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strategies import connected_topologies, few, finite_arrays
from veils import sloping, veil
from veilsum.costs.cost import Cost
from veilsum.costs.domains import Box
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.methods.dgd import Dgd, DgdState
from veilsum.methods.dgd_own_point import DgdOwnPoint


@few
@given(st.data(), connected_topologies(max_agents=6))
def test_it_is_the_recursion_of_the_theory(data, topology):
    n = topology.n_parties
    targets = data.draw(finite_arrays((n, 2), most=3.0))
    start = data.draw(finite_arrays((n, 2), most=2.0))
    weights = mixing_weights(topology, "metropolis")
    cost = veil([Cost.squared_distance(t) for t in targets], np.zeros((n, 2)))
    method = DgdOwnPoint(Box(-2.0, 2.5, dim=2), scale=0.3, power=0.75)
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

    method = DgdOwnPoint(Box(-9.0, 9.0, dim=1))
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
    for form in (Dgd, DgdOwnPoint):
        method = form(Box(-9.0, 9.0, dim=1), scale=0.5)
        state = method.begin(np.zeros((4, 1)), cost)
        for _ in range(3000):
            state = method.advance(state, ring @ state.x, cost)
        np.testing.assert_allclose(state.x, 1.5, atol=5e-3)
