from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import assume, given, strategies as st

from refusals import refused
from strategies import any_topologies, few
from veilsum.graphs import connectivity
from veilsum.graphs.connectivity import (
    LongSearchError,
    connectivity_certificate,
    disjoint_paths,
    graph_components,
    neighbour_sets_of_graph,
    paths_among_graph_neighbours,
    smallest_vertex_separator,
    split_graph,
    vertex_connectivity,
)
from veilsum.graphs.topology import Topology
from veilsum.privacy.worst_case import worst_mu2


def counted(topology, u, v, most):
    """How many disjoint paths join two parties, to `most`: by both roads."""
    found, _ = disjoint_paths(split_graph(topology), u, v, most=most)
    small, searches = paths_among_graph_neighbours(
        neighbour_sets_of_graph(topology), u, v, most=most
    )
    assert small == found
    assert searches <= found + 1
    return found


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
    assert counted(topology, u, v, topology.n_parties) == expected


@few
@given(st.data(), any_topologies(min_agents=3), st.integers(0, 4))
def test_counting_stops_at_the_number_asked_for(data, topology, most):
    u, v = unlinked_pair(data, topology)
    everything = counted(topology, u, v, topology.n_parties)
    assert counted(topology, u, v, most) == min(everything, most)


def test_a_path_gives_way_to_two():
    # The shortest path, a-b-c-z, is found first and parted: the two are a-x-y-c-z and
    # a-b-v-w-z.
    links = ["ab", "bc", "cz", "ax", "xy", "yc", "bv", "vw", "wz"]
    topology = Topology.from_edges([tuple(link) for link in links])
    ends = topology.index("a"), topology.index("z")
    assert counted(topology, *ends, most=9) == 2


def test_who_is_left_out_of_a_path_is_free_for_another():
    # First a-b-c-d-z; then 1 leads to d and b to 2, without c: left for 3 and 4.
    shortest = ["ab", "bc", "cd", "dz"]
    around = [("a", 3, "d", 1), ("b", 3, "z", 2), ("a", 9, "c", 3), ("c", 9, "z", 4)]
    links = [tuple(link) for link in shortest]
    for start, steps, end, name in around:
        way = [start, *(f"{name}.{k}" for k in range(steps)), end]
        links += pairwise(way)
    topology = Topology.from_edges(links)
    ends = topology.index("a"), topology.index("z")
    assert counted(topology, *ends, most=9) == 3


@given(st.data(), any_topologies(min_agents=3))
def test_a_separator_separates_and_is_as_small_as_menger_says(data, topology):
    u, v = unlinked_pair(data, topology)
    cut = smallest_vertex_separator(split_graph(topology), u, v)
    assert len(cut) == counted(topology, u, v, topology.n_parties)
    assert not {u, v} & set(cut)
    left = topology.without(cut)
    homes = [set(left.names(part)) for part in graph_components(left)]
    ends = set(topology.names([u])), set(topology.names([v]))
    assert not any(ends[0] <= home and ends[1] <= home for home in homes)


@given(st.data(), any_topologies(min_agents=3))
def test_sets_of_bits_and_arrays_find_the_same(data, topology):
    """Components, pairs in their order, and the separator nearest to the first."""
    flows = connectivity._PathFlows(topology)
    near = neighbour_sets_of_graph(topology)
    assert flows._near == near, "small"
    found = [
        connectivity._vertices_of_bit_set(part)
        for part in connectivity._components_as_bit_sets(near)
    ]
    graph = topology.to_networkx()
    assert found == sorted(tuple(sorted(one)) for one in nx.connected_components(graph))
    assert flows.least_degree == topology.degrees.min()
    pairs = [[*some] for some in flows.telling_pairs()]
    assert pairs == [[*some] for some in connectivity._telling_pairs_of_graph(topology)]
    u, v = unlinked_pair(data, topology)
    assert flows.separator(u, v) == smallest_vertex_separator(
        split_graph(topology), u, v
    )


@few
@given(any_topologies(min_agents=3))
def test_who_knows_the_size_of_a_cut_finds_the_same(topology):
    kappa = vertex_connectivity(topology)
    known = connectivity.minimum_vertex_cut(topology, size=kappa)
    assert known == connectivity.minimum_vertex_cut(topology)


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


@few
@given(any_topologies(), st.integers(1, 4))
def test_few_links_tell_how_many_paths_there_are(topology, paths):
    found = connectivity_certificate(topology, paths)
    assert found.n_edges <= paths * topology.n_parties
    assert (topology.adjacency.toarray() != 0)[found.adjacency.toarray() != 0].all()
    kappas = (nx.node_connectivity(one.to_networkx()) for one in (topology, found))
    assert len({min(kappa, paths) for kappa in kappas}) == 1


def test_a_dense_graph_is_counted_within_its_work(monkeypatch):
    # 200 links a party, and a cut among them is no larger than 200: two minutes, once.
    dense = Topology.family(f"circulant:300:{','.join(map(str, range(1, 101)))}")
    spent = []
    paths = connectivity._PathFlows.paths
    monkeypatch.setattr(
        connectivity._PathFlows,
        "paths",
        lambda self, *a, **k: (paths(self, *a, **k), spent.append(self.work))[0],
    )
    assert vertex_connectivity(dense, at_most=10) == 10
    assert spent[-1] < 1e7
    monkeypatch.setattr(connectivity, "MOST_WORK", 1e7)
    with refused("search-too-long", LongSearchError):
        vertex_connectivity(dense)
    assert spent[-1] < 1e7  # the last pair that was counted
    # Where only so many colluders are asked about, the answer is there all the same.
    assert worst_mu2(dense, tolerate=0).lower > 0
