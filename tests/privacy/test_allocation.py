"""Noise by link: known optima, certified values, and nothing left to gain."""

import json
import sys
from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import connected_topologies, few
from veilsum.errors import InvalidGraphError, MissingExtraError
from veilsum.graphs.topology import Topology
from veilsum.privacy import allocation
from veilsum.privacy.allocation import allocate_noise

RGG12 = Topology.from_edges(
    [
        *((0, 2), (0, 5), (0, 8), (0, 10), (0, 11), (1, 3), (1, 6), (1, 8), (1, 9)),
        *((2, 4), (2, 10), (2, 11), (3, 6), (3, 8), (3, 9), (4, 10), (4, 11)),
        *((5, 7), (5, 8), (5, 9), (7, 9), (8, 9), (8, 11), (10, 11)),
    ],
    parties=range(12),
)
BA20 = Topology.from_networkx(nx.barabasi_albert_graph(20, 2, seed=1))
GRID = Topology.family("grid:4x4")
PETERSEN = Topology.family("petersen")


def worst_by_hand(topology, weights, t):
    """min over |C| = t of mu2(L_w[H]), by nothing but numpy."""
    n = topology.n_parties
    laplacian = np.zeros((n, n))
    for (i, j), w in zip(topology.edges.tolist(), weights, strict=True):
        laplacian[i, j] -= w
        laplacian[j, i] -= w
    values = []
    for gone in combinations(range(n), t):
        left = np.delete(np.delete(laplacian, gone, 0), gone, 1)
        left[np.diag_indices(len(left))] = 0.0
        left -= np.diag(left.sum(axis=1))
        values.append(np.linalg.eigvalsh(left)[1])
    return min(values)


@each(
    ("topology", "t", "uniform", "optimal"),
    [
        (Topology.family("path:5"), 0, 0.3820, 0.4000),
        (Topology.family("barbell:5:5"), 0, 0.2984, 1.1351),
        (RGG12, 0, 0.5676, 1.0205),
        (RGG12, 1, 0.1933, 0.3875),
        (BA20, 0, 0.7927, 1.1743),
        (BA20, 1, 0.2394, 0.3955),
        (GRID, 0, 0.5858, 0.6000),
        (GRID, 1, 0.3706, 0.3906),
    ],
)
def test_known_optima(topology, t, uniform, optimal):
    """To four digits, from another solution of the same programme."""
    found = allocate_noise(topology, tolerate=t)
    assert found.mu2_uniform == pytest.approx(uniform, abs=1e-4)
    assert found.mu2 == pytest.approx(optimal, abs=1e-3)
    assert found.gain == pytest.approx(optimal / uniform, rel=5e-3)
    assert found.mu2 == pytest.approx(worst_by_hand(topology, found.weights, t))
    assert found.mu2 <= found.mu2_bound <= found.mu2 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("spec", "t"),
    [("ring:6", 0), ("petersen", 0), ("star:6", 0), ("petersen", 2), ("complete:6", 3)],
)
def test_equal_noise_is_best_where_all_links_are_alike(spec, t):
    """Average an optimum over the symmetries: concavity keeps it an optimum."""
    found = allocate_noise(Topology.family(spec), tolerate=t)
    assert found.weights == (1.0,) * len(found.links)
    assert found.gain == 1.0
    assert found.mu2_bound == pytest.approx(found.mu2, rel=1e-6)


def test_petersen_against_two():
    """mu2 is the least root of x^3 - 8x^2 + 17x - 8."""
    found = allocate_noise(PETERSEN, tolerate=2)
    assert found.mu2 == pytest.approx(min(np.roots([1, -8, 17, -8])), abs=1e-9)


@pytest.mark.parametrize("k", [3, 4, 5, 6, 8])
def test_a_path_has_a_closed_form(k):
    """w_j ~ j (k - j), mu2 = 12 / (k (k + 1)) for a budget of k - 1 (Fiedler)."""
    found = allocate_noise(Topology.family(f"path:{k}"))
    shape = np.array([j * (k - j) for j in range(1, k)], dtype=float)
    expected = shape * (k - 1) / shape.sum()
    np.testing.assert_allclose(found.weights, expected, atol=1e-4)
    assert found.mu2 == pytest.approx(12 / (k * (k + 1)), rel=1e-6)


@pytest.mark.parametrize(("topology", "t"), [(RGG12, 0), (RGG12, 1), (GRID, 1)])
def test_no_transfer_of_weight_between_two_links_gains_anything(topology, t):
    found = allocate_noise(topology, tolerate=t)
    weights = np.array(found.weights)
    for source, target in permutations(range(len(weights)), 2):
        moved = weights.copy()
        amount = min(1e-2, moved[source])
        moved[source] -= amount
        moved[target] += amount
        gained = worst_by_hand(topology, moved, t) - found.mu2
        assert gained <= 1e-6


@few
@given(connected_topologies(min_agents=3, max_agents=7), st.data())
def test_nothing_exceeds_the_bound_and_uniform_is_never_better(topology, data):
    found = allocate_noise(topology)
    parts = st.lists(st.floats(0.0, 1.0), min_size=topology.n_edges - 1)
    cuts = data.draw(parts.map(lambda p: sorted(p[: topology.n_edges - 1])))
    drawn = np.diff([0.0, *cuts, 1.0]) * topology.n_edges
    assert worst_by_hand(topology, drawn, 0) <= found.mu2_bound + 1e-9
    assert found.mu2 >= found.mu2_uniform
    assert sum(found.weights) == pytest.approx(topology.n_edges)
    assert min(found.weights) >= 0.0
    assert found.mu2 >= found.mu2_bound * (1 - 1e-5)


def test_unused_links_are_named_and_left_out_of_the_network():
    found = allocate_noise(RGG12)
    zero = [k for k, w in zip(found.links, found.weights, strict=True) if w == 0]
    assert list(found.unused) == zero
    assert {("1", "3"), ("2", "10")} <= set(zero)
    assert found.network.n_edges == RGG12.n_edges - len(zero)
    assert found.network.parties == RGG12.parties


def test_the_search_and_the_list_of_coalitions_agree(monkeypatch):
    listed = allocate_noise(RGG12, tolerate=1)
    monkeypatch.setattr(allocation, "MOST_LISTED", 0)
    searched = allocate_noise(RGG12, tolerate=1)
    assert searched.mu2 == pytest.approx(listed.mu2, rel=1e-5)


def test_dropping_idle_directions_does_not_change_the_answer(monkeypatch):
    monkeypatch.setattr(allocation, "MOST_ENTRIES", 100)
    assert allocate_noise(RGG12, tolerate=1).mu2 == pytest.approx(0.3875, abs=1e-3)


def test_it_is_plain_json():
    found = allocate_noise(Topology.family("path:3")).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["weights"][0] == {"link": ["0", "1"], "weight": 1.0}


def test_a_graph_that_can_be_cut_is_refused():
    with refused("graph-not-tolerant", InvalidGraphError):
        allocate_noise(Topology.family("path:5"), tolerate=1)
    with refused("tolerate-out-of-range", mentions=("1",)):
        allocate_noise(PETERSEN, tolerate=9)


def test_without_the_solver_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(MissingExtraError, match=r"\.\[plan\]"):
        allocate_noise(Topology.family("ring:4"))
