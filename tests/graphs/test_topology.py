import dataclasses
from itertools import pairwise

import jaxtyping
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

import veilsum as vs
from refusals import refused
from strategies import any_topologies, coalitions, connected_topologies, few
from veilsum.errors import InvalidGraphError
from veilsum.graphs.connectivity import is_connected
from veilsum.graphs.topology import Topology


def test_parties_are_named_in_the_order_their_edges_mention_them():
    found = Topology.from_edges([("cem", "ann"), ("ann", "bob")])
    assert found.parties == ("cem", "ann", "bob")


def test_any_hashable_may_name_a_party():
    names = [7, (0, 1), frozenset({3}), "ann", 2.5]
    found = Topology.from_edges(list(pairwise(names)))
    assert found.parties == tuple(str(name) for name in names)
    assert found.neighbours((0, 1)) == ("7", str(frozenset({3})))


def test_given_parties_fix_the_order_and_may_be_isolated():
    found = Topology.from_edges([(2, 0)], parties=[0, 1, 2])
    assert found.parties == ("0", "1", "2")
    assert found.neighbours(1) == ()
    assert not is_connected(found)


def test_an_undirected_edge_is_stored_once_with_the_smaller_index_first():
    found = Topology.from_edges([(1, 0), (0, 1), (2, 1)], parties=[0, 1, 2])
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert found.weights.tolist() == [1.0, 1.0]
    assert found.shares_per_edge == 2


def test_weights_of_an_edge_listed_twice_add():
    found = Topology.from_edges(
        [(1, 2), (0, 1), (1, 0)], parties=[0, 1, 2], weights=[5.0, 1.0, 2.5]
    )
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert found.weights.tolist() == [3.5, 5.0]


def test_opposite_arcs_stay_apart_and_their_noise_adds():
    found = Topology.from_edges([(0, 1), (1, 0), (1, 2)], directed=True)
    assert found.edges.tolist() == [[0, 1], [1, 0], [1, 2]]
    assert found.shares_per_edge == 1
    assert found.adjacency.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert found.degrees.tolist() == [1.0, 2.0, 1.0]


def test_a_networkx_graph_keeps_its_nodes_edges_and_isolated_nodes():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    graph.add_node("d")
    found = Topology.from_networkx(graph)
    assert found.parties == ("a", "b", "c", "d")
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert not found.directed


def test_wherever_a_graph_is_taken_one_of_networkx_will_do():
    graph = nx.petersen_graph()
    ours = Topology.from_networkx(graph)
    costs = [vs.minimise.Cost.squared_distance([float(k)]) for k in range(10)]
    held = {str(k): k for k in range(10)}
    more = {"domain": vs.minimise.Box(-20, 20, dim=1), "sigma": 1.0, "seed": 3}
    calls = {
        "solve": lambda g: vs.solve(
            costs, topology=g, corrupted=(), **more
        ).minimiser.tolist(),
        "guarantee": lambda g: vs.guarantee(g, sigma=1.0, corrupted=["0"]).to_dict(),
        "worst_case": lambda g: vs.worst_case(g, sigma=1.0, tolerate=1).to_dict(),
        "examine": lambda g: vs.privacy.examine(g, tolerate=1).vertex_connectivity,
        "plan": lambda g: vs.plan(tolerate=1, epsilon=0.1, graph=g).best.sigma,
        "mu2": vs.graphs.algebraic_connectivity,
        "kappa": vs.graphs.vertex_connectivity,
        "mixing": lambda g: (
            vs.graphs.mixing_weights(g, "metropolis").toarray().tolist()
        ),
        "sum": lambda g: vs.sum(held, topology=g, seed=1).guarantee.to_dict(),
        "resistance": lambda g: vs.privacy.effective_resistance(g, "0", "1"),
    }
    for name, call in calls.items():
        assert call(graph) == call(ours), name


def test_what_is_no_graph_is_refused_with_what_would_do(monkeypatch):
    # Where shapes and types are checked, the checker would refuse the list first.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with refused("not-a-topology"):
        vs.graphs.algebraic_connectivity([("a", "b")])


def test_a_networkx_edge_attribute_becomes_the_weight():
    graph = nx.Graph()
    graph.add_edge("a", "b", noise=4)
    graph.add_edge("b", "c", noise=0.5)
    found = Topology.from_networkx(graph, weight="noise")
    assert found.weights.tolist() == [4.0, 0.5]
    assert Topology.from_networkx(graph).weights.tolist() == [1.0, 1.0]


def test_parallel_edges_of_a_multigraph_add_their_weights():
    graph = nx.MultiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    found = Topology.from_networkx(graph)
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert found.weights.tolist() == [2.0, 1.0]


def test_a_directed_networkx_graph_stays_directed():
    found = Topology.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 0)]))
    assert found.directed
    assert found.edges.tolist() == [[0, 1], [1, 2], [2, 0]]


def test_a_missing_edge_attribute_is_named_with_its_edge():
    graph = nx.Graph()
    graph.add_edge("a", "b", noise=4)
    graph.add_edge("b", "c")
    with refused("missing-edge-attribute", InvalidGraphError, mentions=("noise",)):
        Topology.from_networkx(graph, weight="noise")


def test_self_loops_are_refused_by_name():
    with refused("self-loops", InvalidGraphError):
        Topology.from_edges([("ann", "bob"), ("bob", "bob")])
    graph = nx.cycle_graph(3)
    graph.add_edge(1, 1)
    with refused("self-loops", InvalidGraphError, mentions=("1",)):
        Topology.from_networkx(graph)


def test_edges_with_unknown_parties_are_refused_by_name():
    with refused("unknown-party", InvalidGraphError):
        Topology.from_edges([("ann", "eve"), ("dee", "bob")], parties=["ann", "bob"])


@pytest.mark.parametrize("parties", [None, [], ["ann", "bob"]])
def test_a_graph_without_edges_is_refused(parties):
    with refused("no-links", InvalidGraphError):
        Topology.from_edges([], parties=parties)


def test_a_single_party_is_refused_by_name():
    with refused("too-few-parties", InvalidGraphError, mentions=("ann",)):
        Topology.from_edges([], parties=["ann"])


def test_two_parties_of_one_name_are_refused():
    with refused("duplicate-party", InvalidGraphError, mentions=("1",)):
        Topology.from_edges([(1, 2)], parties=[1, "1", 2])


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0]])
def test_a_wrong_number_of_weights_is_refused(weights):
    with refused("weights-not-per-edge", InvalidGraphError, mentions=("2",)):
        Topology.from_edges([(0, 1), (1, 2)], weights=weights)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_a_weight_that_is_no_variance_is_refused(weight):
    with refused("weights-not-positive", InvalidGraphError):
        Topology.from_edges([(0, 1), (1, 2)], weights=[1.0, weight])


def test_an_unknown_party_is_refused_with_the_nearest_name():
    topology = Topology.from_edges([("london", "paris"), ("paris", "rome")])
    with refused("unknown-party", mentions=("pariss", "paris")):
        topology.index("pariss")
    with refused("unknown-party"):
        topology.indices(["london", "zzz"])


def test_text_where_a_collection_of_names_is_meant_is_refused():
    with refused("names-not-collection", mentions=("01",)):
        Topology.family("ring:4").indices("01")


def test_parties_are_found_by_the_name_they_were_given():
    topology = Topology.from_edges([(10, "b"), ("b", (1, 2))])
    assert topology.index(10) == 0
    assert topology.indices(["b", (1, 2)]) == frozenset({1, 2})
    assert topology.names([2, 0]) == ("10", "(1, 2)")


def test_the_incidence_is_plus_one_at_the_first_end_and_minus_one_at_the_second():
    triangle = Topology.family("complete:3")
    assert triangle.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    expected = [[1, 1, 0], [-1, 0, 1], [0, -1, -1]]
    assert triangle.incidence.toarray().tolist() == expected


@given(any_topologies())
def test_the_laplacian_is_incidence_times_weights_times_incidence(topology):
    theta = topology.incidence.toarray()
    expected = theta @ np.diag(topology.weights) @ theta.T
    np.testing.assert_allclose(topology.laplacian.toarray(), expected, atol=1e-12)


@few
@given(connected_topologies(weighted=True))
def test_the_laplacian_is_the_one_networkx_computes(topology):
    graph = nx.Graph()
    graph.add_nodes_from(range(topology.n_parties))
    for (i, j), weight in zip(topology.edges.tolist(), topology.weights, strict=True):
        graph.add_edge(i, j, weight=weight)
    expected = nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(topology.laplacian.toarray(), expected, atol=1e-12)


@given(any_topologies())
def test_neighbours_and_degrees_count_links_whatever_their_direction(topology):
    graph = nx.Graph(topology.edges.tolist())
    for i, party in enumerate(topology.parties):
        expected = topology.names(graph.neighbors(i))
        assert topology.neighbours(party) == expected
        assert topology.degrees[i] == len(expected)


@given(st.data(), any_topologies())
def test_what_is_left_without_a_coalition_is_the_induced_subgraph(data, topology):
    corrupted = topology.indices(data.draw(coalitions(topology)))
    found = topology.without(corrupted)
    honest = [i for i in range(topology.n_parties) if i not in corrupted]
    assert found.parties == topology.names(honest)
    assert found.directed == topology.directed
    expected = {
        (topology.parties[i], topology.parties[j]): weight
        for (i, j), weight in zip(topology.edges, topology.weights, strict=True)
        if i not in corrupted and j not in corrupted
    }
    kept = {
        (found.parties[i], found.parties[j]): weight
        for (i, j), weight in zip(found.edges, found.weights, strict=True)
    }
    assert kept == expected


@few
@given(st.data(), any_topologies())
def test_removing_and_keeping_are_complements(data, topology):
    corrupted = topology.indices(data.draw(coalitions(topology)))
    honest = set(range(topology.n_parties)) - corrupted
    assert topology.without(corrupted) == topology.induced(honest)


def test_a_renamed_graph_keeps_its_links_and_its_noise():
    ring = Topology.from_edges([(0, 1), (1, 2), (2, 0)], weights=[1.0, 2.0, 3.0])
    found = ring.renamed(["ann", "bob", "cem"])
    assert found.parties == ("ann", "bob", "cem")
    np.testing.assert_array_equal(found.edges, ring.edges)
    np.testing.assert_array_equal(found.weights, ring.weights)


@pytest.mark.parametrize("names", [["ann", "bob"], ["ann", "bob", "ann"]])
def test_new_names_must_be_as_many_and_all_different(names):
    with refused("names-not-different", InvalidGraphError, mentions=("3",)):
        Topology.family("complete:3").renamed(names)


def test_nobody_left_is_an_empty_graph_and_not_an_error():
    empty = Topology.family("complete:3").without({0, 1, 2})
    assert (empty.n_parties, empty.n_edges) == (0, 0)


@pytest.mark.parametrize("part", [lambda g: g, lambda g: g.induced([0, 1, 2])])
def test_a_topology_cannot_be_changed(part):
    topology = part(Topology.family("ring:4"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        topology.directed = True
    with pytest.raises(ValueError, match="read-only"):
        topology.edges[0, 0] = 3
    with pytest.raises(ValueError, match="read-only"):
        topology.weights[0] = 3.0


def test_equal_graphs_are_equal_and_hash_alike_in_whatever_order_they_were_listed():
    edges, weights = [(0, 1), (1, 2), (2, 0)], [1.0, 2.0, 3.0]
    one = Topology.from_edges(edges, parties=range(3), weights=weights)
    other = Topology.from_edges(
        [(b, a) for a, b in edges[::-1]], parties=range(3), weights=weights[::-1]
    )
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    "other",
    [
        Topology.from_edges([(0, 1), (1, 2)], weights=[1.0, 2.0]),
        Topology.from_edges([(0, 1), (1, 2)], directed=True),
        Topology.from_edges([(0, 1), (1, 3)]),
        Topology.from_edges([(0, 1), (1, 2), (0, 2)]),
        "a graph",
    ],
)
def test_graphs_that_differ_in_anything_are_different(other):
    assert Topology.from_edges([(0, 1), (1, 2)]) != other


def test_a_topology_prints_its_size_and_kind():
    ring = Topology.family("ring:4")
    first, _, more = repr(ring).split("\n")
    assert first == "Network of 4 parties, 4 links, 2 of each party"
    assert more == "print() also shows: neighbours (4)"
    assert "0      1, 3" in str(ring)
    cycle = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    assert "Network of 3 parties, 3 one-way links, 2 of each party" in repr(cycle)


@few
@given(connected_topologies(weighted=True))
def test_a_graph_survives_the_way_through_networkx(topology):
    graph = nx.Graph()
    graph.add_nodes_from(topology.parties)
    for (i, j), weight in zip(topology.edges, topology.weights, strict=True):
        graph.add_edge(topology.parties[i], topology.parties[j], w=weight)
    found = Topology.from_networkx(graph, weight="w")
    assert found.parties == topology.parties
    np.testing.assert_array_equal(
        found.laplacian.toarray(), topology.laplacian.toarray()
    )


def test_to_networkx_forgets_direction_and_keeps_isolated_parties():
    topology = Topology.from_edges([(0, 1), (1, 0)], parties=range(3), directed=True)
    graph = topology.to_networkx()
    assert set(graph.nodes) == {0, 1, 2}
    assert [set(edge) for edge in graph.edges] == [{0, 1}]


@few
@given(any_topologies())
def test_hops_are_those_of_networkx(topology):
    graph = topology.to_networkx()
    for start, party in enumerate(topology.parties):
        there = nx.single_source_shortest_path_length(graph, start)
        assert topology.hops(party) == {
            topology.parties[i]: k for i, k in there.items()
        }
