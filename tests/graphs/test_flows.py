import networkx as nx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strategies import any_topologies, few
from veilsum.graphs.connectivity import (
    components,
    disjoint_paths,
    separator,
    split_graph,
    vertex_connectivity,
)
from veilsum.graphs.topology import Topology


def unlinked_pair(data, topology):
    """Two parties without a link between them."""
    graph = topology.to_networkx()
    pairs = sorted(nx.non_edges(graph))
    assume(pairs)
    return data.draw(st.sampled_from(pairs))


@few
@given(st.data(), any_topologies(min_agents=3))
def test_disjoint_paths_number_what_networkx_counts(data, topology):
    u, v = unlinked_pair(data, topology)
    expected = nx.node_connectivity(topology.to_networkx(), u, v)
    found = disjoint_paths(split_graph(topology), u, v, most=topology.n_parties)
    assert found == expected


@few
@given(st.data(), any_topologies(min_agents=3), st.integers(0, 4))
def test_counting_stops_at_the_number_asked_for(data, topology, most):
    u, v = unlinked_pair(data, topology)
    graph = split_graph(topology)
    everything = disjoint_paths(graph, u, v, most=topology.n_parties)
    assert disjoint_paths(graph, u, v, most=most) == min(everything, most)


@given(st.data(), any_topologies(min_agents=3))
def test_a_separator_separates_and_is_as_small_as_menger_says(data, topology):
    u, v = unlinked_pair(data, topology)
    graph = split_graph(topology)
    cut = separator(graph, u, v)
    assert len(cut) == disjoint_paths(graph, u, v, most=topology.n_parties)
    assert not {u, v} & set(cut)
    left = topology.without(cut)
    homes = [set(left.names(part)) for part in components(left)]
    ends = set(topology.names([u])), set(topology.names([v]))
    assert not any(ends[0] <= home and ends[1] <= home for home in homes)


@given(any_topologies())
def test_vertex_connectivity_is_networkx_s(topology):
    expected = nx.node_connectivity(topology.to_networkx())
    assert vertex_connectivity(topology) == expected


@few
@given(any_topologies(), st.integers(0, 5))
def test_vertex_connectivity_may_stop_early(topology, most):
    found = vertex_connectivity(topology, at_most=most)
    assert found == min(vertex_connectivity(topology), most)


@pytest.mark.parametrize("spec", ["petersen", "hypercube:4", "grid:4x4", "karate"])
def test_vertex_connectivity_of_named_graphs_is_networkx_s(spec):
    topology = Topology.family(spec)
    expected = nx.node_connectivity(topology.to_networkx())
    assert vertex_connectivity(topology) == expected
