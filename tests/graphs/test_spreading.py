"""Masked vectors reach everybody: trees span, sums are sums, messages are counted."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import connected_topologies, few, seeds
from veilsum.errors import InvalidGraphError
from veilsum.graphs.spreading import (
    choose_spread,
    flooding_rounds,
    spanning_tree,
    spanning_tree_sum,
    spreading_cost,
)
from veilsum.graphs.topology import Topology


def graph_of(topology):
    return nx.Graph(topology.edges.tolist())


# --- Trees -------------------------------------------------------------------------


@given(connected_topologies(), st.data())
def test_the_tree_spans_the_graph_and_is_as_shallow_as_its_root_allows(topology, data):
    root = data.draw(st.integers(0, topology.n_parties - 1))
    tree, graph = spanning_tree(topology, root), graph_of(topology)
    assert tree.parents[root] == root
    links = [(i, p) for i, p in enumerate(tree.parents) if i != root]
    assert all(graph.has_edge(*link) for link in links)
    assert nx.is_tree(nx.Graph(links))
    assert sorted(tree.order) == list(range(topology.n_parties))
    assert tree.depth == nx.eccentricity(graph, root)


@given(connected_topologies())
def test_parents_come_before_their_children_and_know_them(topology):
    tree = spanning_tree(topology)
    place = {party: k for k, party in enumerate(tree.order)}
    assert all(place[tree.parents[i]] < place[i] for i in tree.order[1:])
    children = [child for party in tree.order for child in tree.children(party)]
    assert sorted(children) == sorted(tree.order[1:])
    for party in tree.order:
        assert all(tree.parents[child] == party for child in tree.children(party))


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object, np.float64])
@few
@given(topology=connected_topologies(), seed=seeds)
def test_the_sum_along_the_tree_is_the_sum(kind, topology, seed):
    """Of 64-bit numbers modulo 2^64, as masks are; floats here are whole numbers."""
    limit = 2**40 if kind is np.float64 else 2**62
    rows = np.random.default_rng(seed).integers(0, limit, (topology.n_parties, 3))
    rows = rows.astype(kind)
    before = rows.tolist()
    found = spanning_tree_sum(rows, spanning_tree(topology))
    assert found.tolist() == rows.sum(axis=0).tolist()
    assert rows.tolist() == before, "nobody's own vector is changed"


def test_pieces_have_no_tree_and_cannot_be_flooded():
    pieces = Topology.from_edges([(0, 1), (2, 3)])
    with refused("graph-disconnected", InvalidGraphError):
        spanning_tree(pieces)
    with refused("graph-disconnected", InvalidGraphError):
        flooding_rounds(pieces)


# --- Costs -------------------------------------------------------------------------


def flood(graph):
    """(round in which the last party hears the last vector, messages), by simulation.

    Whoever hears a vector for the first time passes it to all neighbours but the one
    it came from; of several that bring it at once, the first counts.
    """
    last, messages = 0, 0
    for source in graph:
        heard, sending, rounds = {source}, [(source, None)], 0
        while sending:
            rounds += 1
            arriving = [
                (near, party)
                for party, came_from in sending
                for near in graph[party]
                if near != came_from
            ]
            messages += len(arriving)
            sending = []
            for party, sender in arriving:
                if party not in heard:
                    heard.add(party)
                    sending.append((party, sender))
                    last = max(last, rounds)
    return last, messages


@given(connected_topologies(max_agents=8))
def test_flooding_costs_what_a_simulation_counts(topology):
    assert spreading_cost(topology, "flooding") == flood(graph_of(topology))


@given(connected_topologies())
def test_a_tree_carries_one_vector_up_and_one_down_each_of_its_links(topology):
    rounds, vectors = spreading_cost(topology, "tree")
    assert vectors == 2 * (topology.n_parties - 1)
    assert rounds == 2 * nx.eccentricity(graph_of(topology), 0)


def test_flooding_is_followed_in_blocks_of_sources(monkeypatch):
    monkeypatch.setattr("veilsum.graphs.spreading._BLOCK", 3)
    assert flooding_rounds(Topology.family("path:10")) == 9
    assert flooding_rounds(Topology.family("petersen")) == 2


# --- Which way ---------------------------------------------------------------------


def test_a_tree_is_chosen_past_a_megabyte_on_a_link():
    assert choose_spread("auto", n_parties=100, vector_bytes=10_000) == "flooding"
    assert choose_spread("auto", n_parties=100, vector_bytes=10_008) == "tree"


@pytest.mark.parametrize("way", ["flooding", "tree"])
@pytest.mark.parametrize("size", [8, 10**9])
def test_a_way_that_was_asked_for_is_taken(way, size):
    assert choose_spread(way, n_parties=10, vector_bytes=size) == way


def test_an_unknown_way_is_refused():
    with refused("unknown-spread", mentions=("gossip",)):
        choose_spread("gossip", n_parties=2, vector_bytes=8)
