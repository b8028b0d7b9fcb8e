"""Where parties stand in a picture: the same place every time, linked ones near."""

from itertools import combinations

import numpy as np
import pytest

from veilsum.graphs.layout import MOST_PLACED, layout_of_graph
from veilsum.graphs.topology import Topology

FAMILY = Topology.family


def test_a_network_looks_the_same_every_time_and_nobody_stands_on_another():
    for family in ("ring:7", "regular:30:4", "barbell:4:2", "star:9", "complete:2"):
        places = layout_of_graph(FAMILY(family))
        np.testing.assert_array_equal(places, layout_of_graph(FAMILY(family)))
        assert np.linalg.norm(places, axis=1).max() == pytest.approx(1.0)
        apart = [np.linalg.norm(a - b) for a, b in combinations(places, 2)]
        assert min(apart) > 0.05


def test_parties_that_are_linked_stand_nearer_than_others():
    graph = FAMILY("barbell:5:2")
    places = layout_of_graph(graph)
    linked = {tuple(one) for one in graph.edges.tolist()}
    pairs = {
        one: np.linalg.norm(places[one[0]] - places[one[1]])
        for one in combinations(range(graph.n_parties), 2)
    }
    near = np.mean([d for one, d in pairs.items() if one in linked])
    far = np.mean([d for one, d in pairs.items() if one not in linked])
    assert near < far / 1.5


def test_pieces_that_no_link_joins_have_places_of_their_own():
    places = layout_of_graph(Topology.from_edges([("a", "b"), ("c", "d"), ("e", "f")]))
    apart = [np.linalg.norm(a - b) for a, b in combinations(places, 2)]
    assert min(apart) > 0.1


def test_many_parties_stand_on_a_circle():
    places = layout_of_graph(FAMILY(f"ring:{MOST_PLACED + 1}"))
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), 1.0)
