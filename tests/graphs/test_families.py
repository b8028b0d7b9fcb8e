from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from cases import each
from refusals import refused
from veilsum.errors import InvalidGraphError
from veilsum.graphs.connectivity import algebraic_connectivity, is_connected
from veilsum.graphs.families import FAMILIES
from veilsum.graphs.topology import Topology


def links(topology):
    return {frozenset(edge) for edge in topology.edges.tolist()}


def pairs(edges):
    return {frozenset(edge) for edge in edges}


def one_bit_apart(size):
    return [(i, j) for i, j in combinations(range(size), 2) if (i ^ j).bit_count() == 1]


def grid_edges(rows, columns):
    across = [
        (r * columns + c, r * columns + c + 1)
        for r in range(rows)
        for c in range(columns - 1)
    ]
    down = [
        (r * columns + c, (r + 1) * columns + c)
        for r in range(rows - 1)
        for c in range(columns)
    ]
    return across + down


def circulant_edges(n, offsets):
    return [(i, (i + offset) % n) for i in range(n) for offset in offsets]


def barbell_edges(a, b):
    left = list(combinations(range(a), 2))
    right = list(combinations(range(a, a + b), 2))
    return [*left, *right, (a - 1, a)]


PETERSEN = [
    *[(i, (i + 1) % 5) for i in range(5)],
    *[(i, i + 5) for i in range(5)],
    *[(5 + i, 5 + (i + 2) % 5) for i in range(5)],
]

# Each family's edges written out from its definition.
DEFINITIONS = {
    "complete:2": (2, [(0, 1)]),
    "complete:5": (5, list(combinations(range(5), 2))),
    "ring:6": (6, circulant_edges(6, [1])),
    "path:4": (4, [(0, 1), (1, 2), (2, 3)]),
    "star:5": (5, [(0, 1), (0, 2), (0, 3), (0, 4)]),
    "wheel:5": (5, [(0, i) for i in range(1, 5)] + [(1, 2), (2, 3), (3, 4), (4, 1)]),
    "petersen": (10, PETERSEN),
    "hypercube:4": (16, one_bit_apart(16)),
    "circulant:16:4,7": (16, circulant_edges(16, [4, 7])),
    "circulant:5:1": (5, circulant_edges(5, [1])),
    "grid:4x4": (16, grid_edges(4, 4)),
    "grid:2x5": (10, grid_edges(2, 5)),
    "barbell:5:5": (10, barbell_edges(5, 5)),
    "barbell:2:4": (6, barbell_edges(2, 4)),
    "barbell:1:1": (2, [(0, 1)]),
}


@each("spec", DEFINITIONS)
def test_a_family_is_the_graph_its_definition_says(spec):
    n, edges = DEFINITIONS[spec]
    found = Topology.family(spec)
    assert found.parties == tuple(str(i) for i in range(n))
    assert links(found) == pairs(edges)
    assert not found.directed
    assert np.array_equal(found.weights, np.ones(found.n_edges))


@pytest.mark.parametrize(
    ("spec", "mu2"),
    [
        ("barbell:5:5", 0.2984),  # dense eigenvalues by an independent program
        ("karate", 0.469),  # Zachary's karate club: published spectrum
        ("petersen", 2.0),  # strongly regular (10, 3, 0, 1): Laplacian 0, 2, 5
        ("circulant:16:4,7", 2.0),  # min over k of 4 - 2 cos(4kt) - 2 cos(7kt)
        ("grid:4x4", 0.5858),  # 2 - sqrt 2, the path on 4
        ("wheel:5", 3.0),  # 1 + mu2 of the ring on 4
    ],
)
def test_a_family_has_its_known_algebraic_connectivity(spec, mu2):
    found = algebraic_connectivity(Topology.family(spec))
    digits = 3 if spec == "karate" else 4
    assert round(found, digits) == mu2


def test_karate_has_zachary_s_34_members_and_78_friendships():
    found = Topology.family("karate")
    assert (found.n_parties, found.n_edges) == (34, 78)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_regular_graph_is_networkx_s_with_that_seed(seed):
    found = Topology.family(f"regular:18:4:seed={seed}")
    expected = nx.random_regular_graph(4, 18, seed=seed)
    assert links(found) == pairs(expected.edges)
    assert found.degrees.tolist() == [4.0] * 18


def test_a_regular_graph_without_a_seed_repeats_itself():
    assert Topology.family("regular:12:3") == Topology.family("regular:12:3:seed=0")
    assert Topology.family("regular:12:3") != Topology.family("regular:12:3:seed=1")


def test_every_family_appears_in_these_tests():
    drawn = {"karate", "regular", "cycles", "geometric"}
    tested = {spec.split(":")[0] for spec in DEFINITIONS} | drawn
    assert tested == set(FAMILIES)


@each("spec", [*DEFINITIONS, "karate", "regular:18:4:seed=3"])
def test_every_example_of_a_family_is_connected(spec):
    assert is_connected(Topology.family(spec))


@each(
    ("spec", "usage"),
    [
        ("complete", "complete:N"),
        ("complete:", "complete:N"),
        ("complete:five", "complete:N"),
        ("complete:-3", "complete:N"),
        ("complete:3:4", "complete:N"),
        ("ring:2.5", "ring:N"),
        ("star:0", "star:N"),
        ("petersen:10", "petersen"),
        ("karate:1", "karate"),
        ("circulant:16", "circulant:N:OFFSET,OFFSET"),
        ("circulant:16:4;7", "circulant:N:OFFSET,OFFSET"),
        ("regular:5:3", "regular:N:DEGREE"),  # an odd number of half-links
        ("regular:4:4", "regular:N:DEGREE"),
        ("regular:6:3:sed=2", "regular:N:DEGREE"),
        ("grid:4", "grid:ROWSxCOLUMNS"),
        ("grid:2x2x2", "grid:ROWSxCOLUMNS"),
        ("barbell:5", "barbell:N:M"),
        ("barbell:0:5", "barbell:N:M"),
        ("barbell:5:0", "barbell:N:M"),
    ],
)
def test_a_family_with_wrong_arguments_is_refused_with_its_usage(spec, usage):
    with refused("malformed-family", InvalidGraphError, mentions=(repr(spec), usage)):
        Topology.family(spec)


@pytest.mark.parametrize("spec", ["complete:1", "path:1", "star:1", "grid:1x1"])
def test_a_family_of_one_party_is_refused(spec):
    with refused("too-few-parties", InvalidGraphError, mentions=("0",)):
        Topology.family(spec)


@pytest.mark.parametrize("spec", ["complete:0", "hypercube:0", "regular:6:0"])
def test_a_family_without_edges_is_refused(spec):
    with refused("no-links", InvalidGraphError):
        Topology.family(spec)


def test_an_unknown_family_is_refused_with_the_nearest_and_all_the_others():
    with refused("unknown-family", InvalidGraphError, mentions=("petersen",)) as caught:
        Topology.family("peterson")
    for family in FAMILIES.values():
        assert family.usage in str(caught.value)
