from itertools import combinations
from math import cos, pi

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given

from cases import each
from refusals import refused
from strategies import any_topologies, connected_topologies, few
from veilsum.errors import InvalidGraphError, VeilsumError
from veilsum.graphs.connectivity import (
    algebraic_connectivity,
    graph_components,
    is_connected,
    minimum_vertex_cut,
    vertex_connectivity,
)
from veilsum.graphs.topology import Topology


def path_mu2(n):
    """mu2(P_n) = 2 - 2 cos(pi / n) (Fiedler 1973)."""
    return 2 - 2 * cos(pi / n)


def ring_mu2(n):
    """mu2(C_n) = 2 - 2 cos(2 pi / n) (Fiedler 1973)."""
    return 2 - 2 * cos(2 * pi / n)


CLOSED_FORMS = {
    **{f"path:{n}": path_mu2(n) for n in (2, 3, 5, 9)},
    **{f"ring:{n}": ring_mu2(n) for n in (3, 4, 7, 12)},
    **{f"complete:{n}": float(n) for n in (2, 3, 5, 11)},
    **{f"star:{n}": 1.0 for n in (3, 5, 10)},
    **{f"hypercube:{d}": 2.0 for d in (1, 2, 3, 5)},
    # A product's spectrum is all sums: mu2 is the smaller of the factors'.
    **{f"grid:{r}x{c}": path_mu2(max(r, c)) for r, c in ((2, 3), (4, 4), (5, 2))},
    # A hub joined to a ring adds 1 to each nonzero eigenvalue of the ring.
    **{f"wheel:{n}": 1 + ring_mu2(n - 1) for n in (5, 6, 9)},
}


@each("spec", CLOSED_FORMS)
def test_mu2_is_its_closed_form(spec):
    found = algebraic_connectivity(Topology.family(spec))
    assert found == pytest.approx(CLOSED_FORMS[spec], rel=1e-12)


@given(any_topologies())
def test_mu2_is_the_second_smallest_of_all_eigenvalues(topology):
    spectrum = np.linalg.eigvalsh(topology.laplacian.toarray())
    found = algebraic_connectivity(topology)
    assert found == pytest.approx(spectrum[1], rel=1e-9, abs=1e-12)


@few
@given(connected_topologies())
def test_mu2_is_what_networkx_computes(topology):
    spectrum = nx.laplacian_spectrum(topology.to_networkx())
    assert algebraic_connectivity(topology) == pytest.approx(spectrum[1], abs=1e-9)


def test_mu2_of_a_weighted_ring_is_its_exact_value():
    """Weights 1, 4, 1, 4 around C4 give the eigenvalues 0, 2, 8, 10."""
    ring = Topology.from_edges(
        [(0, 1), (1, 2), (2, 3), (3, 0)], weights=[1.0, 4.0, 1.0, 4.0]
    )
    assert algebraic_connectivity(ring) == pytest.approx(2.0, rel=1e-12)


def test_mu2_of_a_disconnected_graph_is_exactly_zero():
    assert algebraic_connectivity(Topology.from_edges([(0, 1), (2, 3)])) == 0.0


def test_mu2_of_a_single_party_is_refused():
    alone = Topology.family("complete:3").induced([1])
    with refused("too-few-parties", InvalidGraphError):
        algebraic_connectivity(alone)


def test_a_weak_link_is_a_link_however_small_its_eigenvalue():
    """Connectedness is decided by search: mu2 is about 1e-11 here."""
    weak = Topology.from_edges([(0, 1), (1, 2), (2, 3)], weights=[1.0, 1e-11, 1.0])
    assert is_connected(weak)
    assert algebraic_connectivity(weak) > 0


def test_mu2_is_never_overstated_when_noise_weights_differ_wildly():
    """Two pairs glued by 1e17 and joined by weight 1 have mu2 -> 1 from below.

    An overstated mu2 is an epsilon that promises more than the theorem does; to say
    that the arithmetic fails is an answer.
    """
    glued = Topology.from_edges([(0, 1), (1, 2), (2, 3)], weights=[1e17, 1.0, 1e17])
    try:
        found = algebraic_connectivity(glued)
    except VeilsumError:
        return
    assert found <= 1.0 + 1e-9


def test_components_come_in_order_of_their_first_member():
    topology = Topology.from_edges([(3, 1), (4, 0)], parties=range(6))
    assert graph_components(topology) == ((0, 4), (1, 3), (2,), (5,))


def test_an_empty_graph_has_no_components_and_is_not_connected():
    empty = Topology.family("complete:3").without({0, 1, 2})
    assert graph_components(empty) == ()
    assert not is_connected(empty)


@few
@given(any_topologies(min_agents=3))
def test_components_after_a_loss_are_networkx_s(topology):
    left = topology.without({0})
    expected = nx.connected_components(left.to_networkx())
    assert graph_components(left) == tuple(
        sorted(tuple(sorted(part)) for part in expected)
    )


def test_a_directed_graph_is_connected_when_its_links_are():
    converging = Topology.from_edges([(0, 1), (2, 1)], directed=True)
    assert is_connected(converging)


@each(
    ("spec", "kappa"),
    [
        ("path:5", 1),
        ("ring:6", 2),
        ("complete:5", 4),  # n - 1 by convention
        ("star:5", 1),
        ("hypercube:4", 4),
        ("grid:4x4", 2),
        ("wheel:6", 3),
        ("petersen", 3),
        ("barbell:5:5", 1),
        ("circulant:16:4,7", 4),
    ],
)
def test_vertex_connectivity_is_its_known_value(spec, kappa):
    assert vertex_connectivity(Topology.family(spec)) == kappa


def test_a_disconnected_graph_has_vertex_connectivity_zero_and_an_empty_cut():
    pieces = Topology.from_edges([(0, 1), (2, 3)])
    assert vertex_connectivity(pieces) == 0
    assert minimum_vertex_cut(pieces) == ()


@pytest.mark.parametrize("n", [2, 3, 6])
def test_a_complete_graph_has_no_vertex_cut(n):
    assert minimum_vertex_cut(Topology.family(f"complete:{n}")) is None


def test_the_only_way_between_two_crowds_is_the_cut():
    """Two complete graphs on four, joined through one party of degree two."""
    crowds = [*combinations(range(4), 2), *combinations(range(5, 9), 2)]
    topology = Topology.from_edges([*crowds, (3, 4), (4, 5)])
    cut = minimum_vertex_cut(topology)
    assert vertex_connectivity(topology) == 1
    assert len(cut) == 1
    assert len(graph_components(topology.without(cut))) == 2


@given(any_topologies())
def test_a_minimum_cut_disconnects_and_has_kappa_members(topology):
    cut = minimum_vertex_cut(topology)
    assume(cut is not None)
    assert len(cut) == vertex_connectivity(topology)
    assert len(graph_components(topology.without(cut))) >= 2
