"""Claims that no test made until a mutant had shown it (`tests/mutation`)."""

from itertools import combinations

import numpy as np
import pytest

from refusals import refused
from veilsum.errors import InvalidGraphError, NumericalError
from veilsum.graphs import augmentation, layout
from veilsum.graphs.links import (
    circle_graph_links,
    fill_adjacency_rows,
    geometric_graph_links,
    line_graph_links,
    plane_graph_links,
)
from veilsum.graphs.symmetry import is_vertex_transitive
from veilsum.graphs.topology import Topology


def test_only_the_links_of_some_parties_count_towards_the_most():
    last = plane_graph_links(1000, 1000, only=lambda n: slice(n - 100, n), most=200)
    assert len(last.ends) < 400
    with refused("too-many-links", InvalidGraphError, mentions=("199",)):
        plane_graph_links(1000, 1000, only=lambda n: slice(n - 100, n), most=199)


@pytest.mark.parametrize(
    "make", [line_graph_links, lambda n, most: circle_graph_links(n, [1, 2], most=most)]
)
def test_more_links_than_the_most_are_refused(make):
    with refused("too-many-links", InvalidGraphError, mentions=("50",)):
        make(1000, most=50)


def test_parties_that_are_near_have_near_numbers():
    """With 26 rows of cells links reach into the next: over 2 in 26 of all numbers."""
    ends = geometric_graph_links(2000, 6).ends.astype(int)
    assert np.median(np.abs(ends[:, 0] - ends[:, 1])) < 2000 * 2 / 26


@pytest.mark.parametrize("spec", ["star:6", "wheel:7", "grid:3x3"])
def test_a_drawing_leaves_no_stress_to_take_away(spec):
    """Of sum w (|x_i - x_j| - d)^2 with w = d^-2 no derivative is left."""
    topology = Topology.family(spec)
    names = topology.parties
    hops = np.array([[topology.hops(a)[b] for b in names] for a in names], float)
    start = np.random.default_rng(3).standard_normal((len(names), 2))
    _, places = layout._settle_graph_layout(hops, start)
    gaps = places[:, None] - places[None]
    apart = np.linalg.norm(gaps, axis=2) + np.eye(len(names))
    weights = (hops + np.eye(len(names))) ** -2.0 - np.eye(len(names))
    slope = (weights * (1 - hops / apart))[:, :, None] * gaps
    assert np.abs(slope.sum(axis=1)).max() < 1e-2


def test_weights_break_a_symmetry_that_closed_walks_of_six_steps_do_not_miss():
    """Heavy links on a ring of 7 and a ring of 8 within the complete graph of 15.

    Walks of up to six steps do not tell the rings apart, and no symmetry exchanges
    parties of rings of different lengths.
    """
    heavy = {(k, (k + 1) % 7) for k in range(7)}
    heavy |= {(7 + k, 7 + (k + 1) % 8) for k in range(8)}
    links = list(combinations(range(15), 2))
    weights = [2.0 if {(a, b), (b, a)} & heavy else 1.0 for a, b in links]
    assert is_vertex_transitive(Topology.from_edges(links, weights=[2.0] * 105))
    assert not is_vertex_transitive(Topology.from_edges(links, weights=weights))


def test_rows_are_filled_as_scipy_fills_them():
    topology = Topology.family("grid:3x4")
    ends = np.sort(topology.edges, axis=1)
    ends = ends[np.lexsort(ends.T[::-1])]
    start = np.zeros(topology.n_parties + 1, dtype=np.int64)
    near = np.empty(2 * len(ends), dtype=np.int64)
    fill_adjacency_rows(ends, start, near)
    exact = topology.adjacency.tocsr()
    exact.sort_indices()
    assert start.tolist() == exact.indptr.tolist()
    assert near.tolist() == exact.indices.tolist()


def test_a_repair_that_falls_short_is_never_returned(monkeypatch):
    monkeypatch.setattr(augmentation, "vertex_connectivity", lambda *_, **__: 1)
    with pytest.raises(NumericalError):
        augmentation.augment_graph(Topology.family("star:5"), connectivity=2)


@pytest.mark.parametrize("many", [5, 100])
def test_progress_of_a_repair_ends_at_its_total(many, monkeypatch):
    """Above `MANY_PARTIES` there is one attempt, below it there are several."""
    monkeypatch.setattr(augmentation, "MANY_PARTIES", many)
    stages = []

    def opening(label, total):
        stages.append((label, total, []))
        return stages[-1][2].append

    augmentation.augment_graph(
        Topology.family("ring:8"), connectivity=3, progress=opening
    )
    ((_, total, done),) = (stage for stage in stages if stage[0] == "links to add")
    assert total > 0
    assert done == sorted(done)
    assert done[-1] == total


@pytest.mark.parametrize("weight", [0.0, -0.5, np.inf, np.nan])
def test_a_link_without_noise_is_refused(weight):
    with refused("weights-not-positive", InvalidGraphError):
        Topology.from_edges([(0, 1), (1, 2)], weights=[1.0, weight])
