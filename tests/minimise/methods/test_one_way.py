"""Push-Pull over one-way links: certified rounds, and a bound on every iteration."""

from itertools import islice

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from method_states import iterations_of_method
from refusals import refused
from strategies import connected_topologies, few, seeds
from veilsum.errors import InvalidGraphError
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Quadratic, quadratic_coefficients
from veilsum.minimise.costs.domains import WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import NoRemainder
from veilsum.minimise.methods.base import mix_method_messages
from veilsum.minimise.methods.certificate import Bounds, certificate_spectral_radius
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.one_way import OneWayMixing
from veilsum.minimise.methods.push_pull import PushPull, certified_push_pull

DIM = 2


def one_way(name, n=50):
    graphs = {
        "random": lambda: nx.gnp_random_graph(n, 0.15, seed=4, directed=True),
        "ring": lambda: nx.cycle_graph(n, create_using=nx.DiGraph),
    }
    return Topology.from_networkx(graphs[name]())


def strongly_connected(topology):
    arcs = nx.DiGraph(topology.edges.tolist())
    return len(arcs) == topology.n_parties and nx.is_strongly_connected(arcs)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("name", ["random", pytest.param("ring", id="a one-way ring")])
@pytest.mark.parametrize("sigma", [0.0, 1e3])
def test_certified_push_pull_is_as_fast_as_central_descent(
    name, sigma, problem, network
):
    """152 iterations, as over symmetric links; masks come from another graph."""
    mixing = OneWayMixing.of(one_way(name))
    step, rounds = certified_push_pull(mixing, problem.bounds)
    # Plain rounds are powers of the weights: multiplied out once, for speed.
    weights = {
        "row": np.linalg.matrix_power(mixing.row, rounds),
        "column": np.linalg.matrix_power(mixing.column, rounds),
    }
    cost, _ = problem.recentred(network("random").graph, sigma)
    states = iterations_of_method(
        PushPull(WholeSpace(5), step), weights, cost, np.zeros((50, 5))
    )
    found = next(s for s in islice(states, 400) if problem.error(s.x) < 1e-8)
    assert found.iteration == pytest.approx(152, rel=0.03)


def test_one_round_with_such_a_step_is_too_few_on_a_ring(problem, network):
    mixing = OneWayMixing.of(one_way("ring"))
    step, rounds = certified_push_pull(mixing, problem.bounds)
    assert rounds > 100
    weights = {"row": mixing.row, "column": mixing.column}
    cost = problem.masked(network("random").graph, 0.0)
    states = iterations_of_method(
        PushPull(WholeSpace(5), step), weights, cost, np.zeros((50, 5))
    )
    *_, last = islice(states, 150)
    assert problem.error(last.x) > 1e3


@few
@given(
    topology=connected_topologies(min_agents=3, max_agents=6, directed=True),
    seed=seeds,
    rounds=st.integers(1, 8),
    share=st.floats(0.05, 1.0),
)
def test_the_matrix_bounds_every_iteration(topology, seed, rounds, share):
    assume(strongly_connected(topology))
    n, rng = topology.n_parties, np.random.default_rng(seed)
    bend = rng.normal(0.0, 1.0, (n, DIM, DIM))
    bend = bend + bend.transpose(0, 2, 1)
    matrices = bend - bend.mean(axis=0) + np.diag([0.5, 2.0])
    vectors = rng.normal(0.0, 2.0, (n, DIM))
    pairs = zip(matrices, vectors, strict=True)
    theta = np.array([quadratic_coefficients(p, q) for p, q in pairs])
    cost = EffectiveCost(Quadratic(DIM), theta, NoRemainder())
    largest = float(np.abs(np.linalg.eigvalsh(matrices)).max())
    bounds = Bounds(smooth=max(largest, 2.0), mean_smooth=2.0, mean_convex=0.5)
    best = np.linalg.solve(matrices.mean(axis=0), -vectors.mean(axis=0))

    mixing = OneWayMixing.of(topology)
    u, v = mixing.left, mixing.right
    step = share * 2.0 / 2.5 / mixing.gain
    method = Chebyshev(PushPull(WholeSpace(DIM), step), 0.0, rounds)
    weights = {"row": mixing.row, "column": mixing.column}

    def errors(state):
        apart = state.x - u @ state.x
        uneven = state.tracker - np.outer(v, state.tracker.sum(axis=0))
        return np.array(
            [
                np.linalg.norm(u @ state.x - best),
                np.sqrt((u[:, None] * apart**2).sum()),
                np.sqrt((uneven**2 / v[:, None]).sum()),
            ]
        )

    matrix = mixing.matrix(bounds, step, rounds)
    state = method.begin(rng.normal(0.0, 1.0, (n, DIM)), cost)
    for _ in range(5):
        before = errors(state.inner)
        for _ in range(method.rounds_per_iteration):
            told, parts = method.outgoing(state), method.parts(state)
            state = method.advance(
                state, mix_method_messages(weights, parts, told), cost
            )
        after = errors(state.inner)
        assert (after <= (1 + 1e-9) * matrix @ before + 1e-9).all()


@few
@given(connected_topologies(min_agents=2, max_agents=7, directed=True))
def test_repeated_mixing_ends_where_it_is_said_to(topology):
    assume(strongly_connected(topology))
    mixing = OneWayMixing.of(topology)
    # A lazy power: even a graph with long one-way rings has settled by then.
    row, column = (
        np.linalg.matrix_power(each, 2**14) for each in (mixing.row, mixing.column)
    )
    n = topology.n_parties
    np.testing.assert_allclose(row, np.tile(mixing.left, (n, 1)), atol=1e-9)
    np.testing.assert_allclose(column, np.tile(mixing.right, (n, 1)).T, atol=1e-9)
    assert mixing.gain == pytest.approx(n * mixing.left @ mixing.right)
    assert all(np.diff([mixing.rates(k)[0] for k in (1, 2, 4, 8)]) <= 1e-12)
    assert max(mixing.rates(1)) < 1.0


def test_rounds_are_the_fewest(problem):
    mixing, bounds = OneWayMixing.of(one_way("random")), problem.bounds
    step, rounds = certified_push_pull(mixing, bounds)
    target = 1.0 - 0.5 / bounds.condition
    radii = [
        certificate_spectral_radius(mixing.matrix(bounds, step, k))
        for k in (rounds - 1, rounds)
    ]
    assert radii[1] <= target < radii[0]


def test_links_both_ways_are_a_special_case():
    """On a ring both ends divide alike: u = v = 1/n, and the gain is one."""
    mixing = OneWayMixing.of(Topology.family("ring:6"))
    np.testing.assert_allclose(mixing.left, 1 / 6, atol=1e-12)
    np.testing.assert_allclose(mixing.right, 1 / 6, atol=1e-12)
    assert mixing.gain == pytest.approx(1.0)
    assert mixing.rates(1) == pytest.approx([2 / 3, 2 / 3])


def test_somebody_who_is_never_heard_is_refused():
    arcs = Topology.from_edges([(0, 1), (1, 2), (2, 1)], directed=True)
    with refused("not-strongly-connected", InvalidGraphError, mentions=("2",)):
        OneWayMixing.of(arcs)
