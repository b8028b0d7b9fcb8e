"""The doctor's repairs hold, by networkx; "fewest" is true, by brute force."""

import json
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import assume, given, settings, strategies as st

from refusals import refused
from strategies import few
from veilsum.errors import InvalidGraphError, InvalidInputError
from veilsum.graphs.augmentation import (
    augment_graph,
    graph_blocks,
    links_to_two_connected,
    missing_links_bound,
)
from veilsum.graphs.connectivity import cut_parties, smallest_cuts
from veilsum.graphs.topology import Topology
from veilsum.privacy import diagnosis
from veilsum.privacy.diagnosis import examine
from veilsum.privacy.worst_case import worst_mu2

KARATE = Topology.family("karate")


@st.composite
def graphs(draw, *, most=12):
    """Any graph with a link, in pieces or not, as networkx knows it."""
    n = draw(st.integers(3, most))
    pairs = list(combinations(range(n), 2))
    chosen = draw(st.sets(st.sampled_from(pairs), min_size=1, max_size=3 * n))
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(chosen)
    return graph


def topology_of(graph):
    return Topology.from_edges(graph.edges, parties=graph.nodes)


def mended(graph, links):
    longer = graph.copy()
    longer.add_edges_from((int(a), int(b)) for a, b in links)
    return longer


def fewest_by_hand(graph, k, most):
    """The least number of links up to `most`, trying all; None if there is none."""
    absent = list(nx.non_edges(graph))
    for size in range(most + 1):
        for links in combinations(absent, size):
            longer = mended(graph, links)
            enough = min(degree for _, degree in longer.degree) >= k
            if enough and nx.node_connectivity(longer) >= k:
                return size
    return None


# --- repairs ---------------------------------------------------------------------


@settings(max_examples=40)  # networkx takes long to count what is left
@given(graphs(), st.integers(0, 3))
def test_every_repair_holds(graph, t):
    assume(t < len(graph) - 1)
    found = examine(topology_of(graph), tolerate=t)
    kappa = nx.node_connectivity(graph)
    assert found.vertex_connectivity == kappa
    assert found.safe == (kappa > t)
    assert nx.node_connectivity(mended(graph, found.links_to_add)) > t
    assert all(not graph.has_edge(int(a), int(b)) for a, b in found.links_to_add)
    assert bool(found.links_to_add) == (not found.safe)
    assert bool(found.cuts) == (not found.safe)
    assert 0 <= found.gap <= len(found.links_to_add)


@few
@given(graphs(most=7), st.integers(1, 4))
def test_fewest_means_fewest(graph, k):
    assume(k < len(graph))
    found = augment_graph(topology_of(graph), connectivity=k)
    least = fewest_by_hand(graph, k, min(len(found.links) - 1, 3))
    assert least is None or len(found.links) - found.gap <= least < len(found.links)
    if found.gap == 0:
        assert least is None


@few
@given(graphs(most=7), st.integers(1, 4))
def test_the_lower_bound_is_one(graph, k):
    assume(k < len(graph))
    least = fewest_by_hand(graph, k, 3)
    bound = missing_links_bound(topology_of(graph), k)
    assert least is None or bound <= least


@settings(max_examples=100)
@given(graphs(most=30))
def test_two_connectivity_takes_as_many_links_as_the_formula_says(graph):
    links = links_to_two_connected(topology_of(graph))
    assert len(links) == graph_blocks(graph).missing_links
    assert nx.is_biconnected(mended(graph, links))


@pytest.mark.parametrize(("t", "links"), [(0, 0), (1, 2), (2, 7)])
def test_the_karate_club_needs_few_links(t, links):
    """Found by an independent greedy search: 2 for connectivity 2, 7 for 3."""
    found = examine(KARATE, tolerate=t)
    assert len(found.links_to_add) <= links
    assert found.gap == 0


def test_a_path_closes_to_a_ring():
    found = examine(Topology.family("path:6"), tolerate=1)
    assert found.links_to_add == (("0", "5"),)


def test_a_star_needs_all_its_leaves_joined():
    """Its hub leaves n - 1 pieces, which n - 2 links join."""
    found = examine(Topology.family("star:9"), tolerate=1)
    assert (len(found.links_to_add), found.gap) == (7, 0)
    assert found.cuts[0].parties == ("0",)
    assert len(found.cuts[0].pieces) == 8


def test_pieces_are_joined_and_reported():
    apart = Topology.from_edges([("a", "b"), ("c", "d"), ("d", "e")])
    found = examine(apart, tolerate=0)
    assert found.cuts[0].parties == ()
    assert found.cuts[0].pieces == (("a", "b"), ("c", "d", "e"))
    assert (len(found.links_to_add), found.gap) == (1, 0)
    with_one = examine(apart, tolerate=1)
    assert [cut.parties for cut in with_one.cuts] == [(), ("d",)]
    assert len(with_one.links_to_add) == 2


def test_a_repair_keeps_names_and_weights():
    weighted = Topology.from_edges([("a", "b"), ("b", "c")], weights=[2.0, 3.0])
    found = examine(weighted, tolerate=1)
    assert found.links_to_add == (("a", "c"),)
    assert found.repaired.weights.tolist() == [2.0, 1.0, 3.0]


@pytest.mark.slow
def test_a_gap_is_stated_where_the_fewest_are_not_known():
    graph = nx.convert_node_labels_to_integers(nx.les_miserables_graph())
    found = augment_graph(topology_of(graph), connectivity=3)
    bound = missing_links_bound(topology_of(graph), 3)
    assert bound <= len(found.links) - found.gap
    assert nx.node_connectivity(mended(graph, found.links)) >= 3


# --- cuts ------------------------------------------------------------------------


@few
@given(graphs())
def test_every_cut_party_is_named_when_one_may_collude(graph):
    found = examine(topology_of(graph), tolerate=1)
    named = {cut.parties[0] for cut in found.cuts if cut.parties}
    assert named == {str(v) for v in nx.articulation_points(graph)}


@few
@given(graphs(), st.integers(0, 3))
def test_cuts_cut(graph, t):
    assume(t < len(graph) - 1)
    for cut in examine(topology_of(graph), tolerate=t).cuts:
        left = graph.copy()
        left.remove_nodes_from(map(int, cut.parties))
        pieces = {frozenset(map(str, part)) for part in nx.connected_components(left)}
        assert len(pieces) >= 2
        assert {frozenset(piece) for piece in cut.pieces} == pieces


def test_several_cuts_of_two_are_shown():
    found = examine(Topology.family("ring:6"), tolerate=2)
    assert len(found.cuts) >= 5
    assert all(len(cut.parties) == 2 for cut in found.cuts)


def test_a_complete_graph_has_no_cut():
    complete = Topology.family("complete:5")
    assert smallest_cuts(complete, most=5) == ()
    assert cut_parties(complete) == ()
    found = examine(complete, tolerate=3)
    assert (found.safe, found.vertex_connectivity) == (True, 4)
    assert found.helpful_links == ()


# --- advice ----------------------------------------------------------------------


@few
@given(graphs(most=9), st.integers(0, 3))
def test_links_tried_together_are_worth_what_each_is_alone(graph, t):
    t = min(t, len(graph) - 2)
    topology = examine(topology_of(graph), tolerate=t).repaired
    pairs = nx.non_edges(topology.to_networkx())
    absent = sorted((min(pair), max(pair)) for pair in pairs)[:6]
    together = diagnosis._worst_with_each(topology, t, absent)
    alone = [diagnosis._worst_coalition_with_link(topology, t, link) for link in absent]
    assert [*together] == pytest.approx(alone, rel=1e-9)


@few
@given(graphs(most=9), st.integers(0, 2))
def test_helpful_links_do_what_they_promise(graph, t):
    assume(t < len(graph) - 1)
    found = examine(topology_of(graph), tolerate=t)
    before = worst_mu2(found.repaired, tolerate=t)
    for helpful in found.helpful_links:
        longer = mended(graph, [*found.links_to_add, helpful.link])
        after = worst_mu2(topology_of(longer), tolerate=t)
        assert helpful.epsilon_ratio < 1
        assert helpful.epsilon_ratio == pytest.approx(before.upper / after.upper)
        assert not graph.has_edge(*map(int, helpful.link))
    ratios = [round(helpful.epsilon_ratio, 9) for helpful in found.helpful_links]
    assert ratios == sorted(ratios)


def test_the_best_link_of_a_barbell_joins_its_bells():
    found = examine(Topology.family("barbell:5:5"), tolerate=0)
    a, b = found.helpful_links[0].link
    assert int(a) < 5 <= int(b)
    assert found.helpful_links[0].epsilon_ratio < 0.6


def test_a_large_network_gets_no_further_advice():
    assert examine(Topology.family("path:260"), tolerate=0).helpful_links == ()


def test_a_directed_network_counts_by_its_links():
    arcs = Topology.from_edges([(0, 1), (1, 2), (3, 2)], directed=True)
    found = examine(arcs, tolerate=1)
    assert found.links_to_add == (("0", "3"),)
    assert found.repaired.directed


def test_it_is_plain_json():
    found = examine(Topology.family("star:5"), tolerate=1).to_dict()
    assert json.loads(json.dumps(found)) == found


# --- refusals --------------------------------------------------------------------


@pytest.mark.parametrize("t", [-1, 4, 7])
def test_a_senseless_number_of_colluders_is_refused(t):
    with pytest.raises(InvalidInputError, match="tolerate"):
        examine(Topology.family("ring:5"), tolerate=t)


def test_few_parties_cannot_be_very_connected():
    with refused("connectivity-impossible", InvalidGraphError, mentions=("3",)):
        augment_graph(Topology.family("ring:4"), connectivity=4)
