"""Graphs made as arrays of links, against networkx and against small graphs."""

import json
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from scipy.sparse import csgraph

import refusals
from veilsum import memory
from veilsum.errors import InvalidGraphError, MemoryShortError
from veilsum.graphs import families, links, mixing, spectrum, topology
from veilsum.graphs.connectivity import (
    graph_components,
    is_connected,
)
from veilsum.graphs.families import build_graph_family
from veilsum.graphs.topology import NumberedParties, Topology
from veilsum.privacy.guarantee import guarantee


def pairs(graph):
    plain = nx.convert_node_labels_to_integers(graph)
    return sorted({tuple(sorted(edge)) for edge in plain.edges if edge[0] != edge[1]})


def told(made):
    assert made.ends.dtype == np.int32
    return [tuple(edge) for edge in made.ends.tolist()]


def check_plain(made):
    """Assert that links are in order, each once, without loops, and connect."""
    ends = made.ends
    assert (ends[:, 0] < ends[:, 1]).all()
    keys = ends[:, 0].astype(np.int64) * made.n_parties + ends[:, 1]
    assert (np.diff(keys) > 0).all()
    graph = sparse.coo_array((np.ones(len(ends)), ends.T), (made.n_parties,) * 2)
    assert csgraph.connected_components(graph, directed=False)[0] == 1


@given(st.integers(2, 40), st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_a_circle_is_networkx_s(n, offsets):
    if all(one % n == 0 for one in offsets):
        return
    assert told(links.circle_graph_links(n, offsets)) == pairs(
        nx.circulant_graph(n, offsets)
    )


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_plane_is_networkx_s(rows, columns):
    if rows * columns > 1:
        wanted = pairs(nx.grid_2d_graph(rows, columns))
        assert told(links.plane_graph_links(rows, columns)) == wanted


@given(st.integers(2, 50))
def test_a_line_is_networkx_s(n):
    assert told(links.line_graph_links(n)) == pairs(nx.path_graph(n))


def test_pieces_change_nothing(monkeypatch):
    whole = [
        links.circle_graph_links(50, [1, 7, 25]),
        links.cycle_graph_links(60, 6),
        links.geometric_graph_links(60, 5),
    ]
    monkeypatch.setattr(links, "PIECE", 7)
    split = [
        links.circle_graph_links(50, [1, 7, 25]),
        links.cycle_graph_links(60, 6),
        links.geometric_graph_links(60, 5),
    ]
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_array_equal(one.ends, other.ends)


@given(st.integers(4, 300), st.integers(2, 9), st.integers(0, 5))
@settings(deadline=None)
def test_cycles_are_regular_and_connected(n, degree, seed):
    if 2 * degree > n or n * degree % 2:
        with pytest.raises(ValueError, match="links each"):
            links.cycle_graph_links(n, degree, seed)
        return
    made = links.cycle_graph_links(n, degree, seed)
    check_plain(made)
    assert (np.bincount(made.ends.ravel(), minlength=n) == degree).all()


def around(walk):
    """Return the links of a closed walk."""
    return {tuple(sorted(pair)) for pair in pairwise([*walk, walk[0]])}


def test_walks_without_a_common_link_are_united_as_they_are():
    n, apart = 60, 0
    for seed in range(20):
        stream = np.random.default_rng((n, 4, seed))
        one, other = (around(stream.permutation(n).tolist()) for _ in range(2))
        if not one & other:
            apart += 1
            assert set(told(links.cycle_graph_links(n, 4, seed))) == one | other
    assert apart > 0


@given(st.integers(2, 200), st.integers(1, 12), st.integers(0, 5))
@settings(deadline=None, max_examples=40)
def test_a_geometric_graph_links_who_is_near(n, degree, seed):
    if degree >= n:
        return
    made = links.geometric_graph_links(n, degree, seed)
    check_plain(made)
    # The same places, in the same order, by comparing everybody with everybody.
    stream = np.random.default_rng((n, degree, seed))
    places = stream.random((n, 2))
    reach = min(1.0, np.sqrt(degree / (np.pi * n)))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    near = np.count_nonzero(np.triu(apart <= reach, 1))
    plain = [edge for edge in told(made) if edge[1] != edge[0] + 1]
    assert near - (n - 1) <= len(plain) <= near <= len(made.ends)


def test_seeds_differ_and_repeat():
    one, same, other = (
        links.cycle_graph_links(100, 6, seed).ends for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "spec", ["ring:{}", "path:{}", "circulant:{}:1,5", "regular:{}:4", "cycles:{}:3"]
)
def test_families_of_many_are_numbered(spec):
    many = Topology.family(spec.format(families.MANY_PARTIES + 2))
    assert isinstance(many.parties, NumberedParties)
    assert many.edges.dtype == np.int32
    assert many.n_parties == families.MANY_PARTIES + 2
    few = Topology.family(spec.format(20))
    assert few.parties == tuple(map(str, range(20)))
    assert few.edges.dtype == np.int64


def test_a_large_grid_is_counted_by_its_cells():
    assert isinstance(build_graph_family("grid:400x300"), links.LinkArray)
    assert not isinstance(build_graph_family("grid:4x3"), links.LinkArray)


def numbered(spec="cycles:300:6"):
    small = Topology.family(spec)
    return small, Topology.numbered(small.n_parties, small.edges)


def test_a_numbered_graph_is_the_same_graph():
    small, large = numbered()
    assert large == small
    assert hash(large) == hash(small)
    assert large.neighbours("7") == small.neighbours("7")
    assert large.index("299") == 299
    assert str(large) == str(small)
    for wrong in ("300", "-1", "07", "7.0", "x"):
        with refusals.refused("unknown-party"):
            large.index(wrong)


def test_what_is_left_of_a_numbered_graph_keeps_its_names():
    small, large = numbered()
    few, many = (one.without([0, 5, 299]) for one in (small, large))
    assert many == few
    assert isinstance(many.parties, NumberedParties)
    assert many.index("7") == few.index("7") == 5
    assert "5" not in many.parties
    again = many.without([0])
    assert again == few.without([0])


def test_compiled_matrices_are_those_of_sparse_products(monkeypatch):
    stream = np.random.default_rng(0)
    small, _ = numbered()
    uneven = Topology.from_edges(
        [tuple(edge) for edge in small.edges.tolist()],
        weights=(stream.random(small.n_edges) + 0.5).tolist(),
    )
    for graph in (small, uneven, Topology.family("geometric:200:5")):
        plain = Topology(graph.parties, graph.edges, graph.weights)
        wanted = [plain.laplacian, mixing.metropolis_weights(plain), plain.adjacency]
        with monkeypatch.context() as patch:
            patch.setattr(topology, "MANY_LINKS", 0)
            fresh = Topology(graph.parties, graph.edges, graph.weights)
            found = [fresh.laplacian, mixing.metropolis_weights(fresh), fresh.adjacency]
            start, near = fresh.pattern
        np.testing.assert_array_equal(start, wanted[2].indptr)
        np.testing.assert_array_equal(near, wanted[2].indices)
        # Sums of a row may be added up in another order.
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-14)


def test_pieces_of_a_numbered_graph():
    ring = Topology.numbered(2000, links.circle_graph_links(2000, [1]).ends)
    assert graph_components(ring) == (range(2000),)
    two = ring.without([0, 1000])
    assert [len(part) for part in graph_components(two)] == [999, 999]
    assert not is_connected(two)


def test_the_guarantee_of_a_numbered_graph_is_the_same():
    small, large = numbered()
    for law, more in (("gaussian", {}), ("lattice", {"grid": 20})):
        asked = {"sigma": 2.0, "law": law, "corrupted": ["3"], **more}
        few, many = guarantee(small, **asked), guarantee(large, **asked)
        assert many.epsilon == few.epsilon
        assert many.released == few.released
        assert tuple(many.honest) == few.honest
        assert json.dumps(many.to_dict()) == json.dumps(few.to_dict())


def test_a_filter_by_machine_code_certifies_the_same(monkeypatch):
    large = Topology.numbered(2000, links.cycle_graph_links(2000, 6).ends)
    few = 1e6  # steps times entries
    plain = spectrum.certified_mu2(large, stream=np.random.default_rng(1), work=few)
    monkeypatch.setattr(spectrum, "MANY_PARTIES", 0)
    monkeypatch.setattr(spectrum, "COMPILED_PARTIES", 0)
    found = spectrum.certified_mu2(large, stream=np.random.default_rng(1), work=few)
    assert found.certificate == plain.certificate == "probabilistic"
    assert found.lower <= plain.upper
    assert plain.lower <= found.upper
    assert found.upper == pytest.approx(plain.upper, rel=0.02)


def test_links_from_elsewhere_are_put_in_order():
    made = links.cycle_graph_links(100, 4).ends
    stream = np.random.default_rng(0)
    mixed = stream.permutation(np.concatenate([made, made[:7, ::-1]]))
    graph = Topology.numbered(100, mixed)
    np.testing.assert_array_equal(graph.edges, made)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([[0, 1], [2, 2]], "self-loops at 2"),
        ([[0, 1], [2, 5]], "from 0 to 4"),
        ([[0, 1], [-1, 2]], "found -1"),
        ([[0.5, 1.0]], "whole numbers"),
        ([0, 1], "two columns"),
        (np.empty((0, 2), int), "no edges"),
    ],
)
def test_what_are_no_links_is_refused(ends, said):
    with pytest.raises(InvalidGraphError, match=said):
        Topology.numbered(5, ends)


def test_what_does_not_fit_is_refused_before_it_is_begun(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 3_000_000_000)
    said = r"100,000,000 parties and 300,000,000 links takes about 13.6 GB.* 3.0 GB"
    with pytest.raises(MemoryShortError, match=said):
        Topology.family("regular:100000000:6")
    with refusals.refused(
        "too-many-links", InvalidGraphError, mentions=("350,000,000",)
    ) as refused:
        Topology.family("regular:1000000000:6")
    assert "write it as" not in str(refused.value)  # it was written as it should be


def test_available_memory_heeds_the_group_s_limit(monkeypatch, tmp_path):
    info = tmp_path / "meminfo"
    info.write_text("MemTotal: 9000 kB\nMemAvailable: 5000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", info)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.available_memory() == 5_120_000
    (tmp_path / "memory.max").write_text("4000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert memory.available_memory() == 3_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_memory() == 5_120_000


@pytest.mark.slow
def test_a_million_parties():
    many = Topology.family("regular:1000000:6")
    assert (many.degrees == 6).all()
    assert is_connected(many)
    found = spectrum.certified_mu2(many, work=8e8)
    # Alon and Boppana's limit is 6 - 2 sqrt 5 = 1.528.
    assert found.certificate == "probabilistic"
    assert 1.0 < found.lower < 1.528 < found.upper < 1.6
