import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import connected_topologies, few
from veilsum.errors import InvalidGraphError
from veilsum.graphs.mixing import MIXING, mixing_rate, mixing_weights
from veilsum.graphs.topology import Topology

# rho(W) to four decimals, computed independently with dense eigenvalues from the
# definitions: Metropolis, lazy Metropolis, max-degree, best constant.
RATES = {
    "ring:10": (0.8727, 0.9363, 0.8727, 0.8257),
    "star:10": (0.9000, 0.9500, 0.9000, 0.8182),
    "petersen": (0.5000, 0.7500, 0.5000, 0.4286),
    "hypercube:4": (0.6000, 0.8000, 0.6000, 0.6000),
    "grid:5x5": (0.9162, 0.9581, 0.9236, 0.8997),
    "regular:30:4:seed=0": (0.8229, 0.9114, 0.8229, 0.7794),
    "barbell:5:5": (0.9503, 0.9751, 0.9503, 0.9147),
}
NAMES = ("metropolis", "lazy-metropolis", "max-degree", "best-constant")
CASES = [
    (spec, name, rate)
    for spec, rates in RATES.items()
    for name, rate in zip(NAMES, rates, strict=True)
]


@each(("spec", "name", "rate"), CASES)
def test_mixing_rates_are_the_known_ones(spec, name, rate):
    weights = mixing_weights(Topology.family(spec), name)
    assert round(mixing_rate(weights), 4) == rate


def test_every_kind_of_weights_is_in_the_table():
    assert set(MIXING) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@few
@given(topology=connected_topologies(weighted=True))
def test_weights_are_symmetric_keep_the_mean_and_follow_the_links(name, topology):
    weights = mixing_weights(topology, name).toarray()
    np.testing.assert_allclose(weights, weights.T, atol=1e-14)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0, atol=1e-12)
    linked = topology.adjacency.toarray() > 0
    np.fill_diagonal(linked, val=True)
    assert not weights[~linked].any()


@pytest.mark.parametrize("name", ["metropolis", "lazy-metropolis", "max-degree"])
@few
@given(topology=connected_topologies())
def test_weights_that_dgd_may_use_are_doubly_stochastic(name, topology):
    """Nonnegative entries and a positive diagonal, as DGD's proof asks."""
    weights = mixing_weights(topology, name).toarray()
    assert weights.min() >= 0
    assert np.diag(weights).min() > 0


@pytest.mark.parametrize("name", NAMES)
@few
@given(topology=connected_topologies(weighted=True))
def test_one_round_on_a_connected_graph_shrinks_disagreement(name, topology):
    assert mixing_rate(mixing_weights(topology, name)) < 1.0


@few
@given(connected_topologies())
def test_metropolis_weights_are_their_formula(topology):
    weights = mixing_weights(topology, "metropolis").toarray()
    for i, j in topology.edges.tolist():
        larger = max(topology.degrees[i], topology.degrees[j])
        assert weights[i, j] == pytest.approx(1 / (1 + larger), rel=1e-14)


@few
@given(connected_topologies())
def test_lazy_weights_have_no_negative_eigenvalue(topology):
    weights = mixing_weights(topology, "lazy-metropolis").toarray()
    assert np.linalg.eigvalsh(weights).min() >= -1e-12


@few
@given(connected_topologies(), st.floats(0.001, 1.0))
def test_no_other_constant_mixes_faster_than_the_best(topology, other):
    best = mixing_rate(mixing_weights(topology, "best-constant"))
    theta = topology.incidence.toarray()
    deviation = np.eye(topology.n_parties) - other * theta @ theta.T
    deviation -= 1.0 / topology.n_parties
    assert best <= np.linalg.norm(deviation, ord=2) + 1e-12


@few
@given(connected_topologies(weighted=True))
def test_noise_weights_play_no_part_in_mixing(topology):
    plain = Topology(topology.parties, topology.edges, np.ones(topology.n_edges))
    for name in NAMES:
        ours = mixing_weights(topology, name).toarray()
        np.testing.assert_array_equal(ours, mixing_weights(plain, name).toarray())


def test_unknown_weights_are_refused_with_the_known_ones():
    with refused("unknown-weights", mentions=("metropolys",)) as caught:
        mixing_weights(Topology.family("ring:4"), "metropolys")
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_directed_graph_has_no_symmetric_weights(name):
    cycle = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    with refused("directed-graph", InvalidGraphError):
        mixing_weights(cycle, name)
