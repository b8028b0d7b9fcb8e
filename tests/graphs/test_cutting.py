"""Graphs cut into parts: halos counted beside a plain loop, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.graphs.cutting import (
    PIECE,
    CutParts,
    _cut_graph_by_order,
    cut_graph_into_parts,
    even_ends_of_graph_parts,
)
from veilsum.graphs.families import build_part_of_graph
from veilsum.graphs.topology import Topology


def counted(links, order, ends):
    """How many others each part hears, by sets."""
    near, found = links.toarray() != 0, []
    for first, last in pairwise(ends):
        own = set(order[first:last])
        heard = {j for i in own for j in np.flatnonzero(near[i]).tolist()}
        found.append(len(heard - own))
    return found


@given(st.integers(2, 25), st.integers(1, 6), st.integers(0, 10**6))
def test_the_halo_is_what_a_plain_loop_counts(n, parts, seed):
    stream = np.random.default_rng(seed)
    links = sparse.csr_array(stream.random((n, n)) < 0.2).astype(float)
    order = stream.permutation(n).astype(np.int64)
    ends = even_ends_of_graph_parts(n, min(parts, n))
    found = _cut_graph_by_order("own order", links, order, ends)
    assert found.halo.tolist() == counted(links, order.tolist(), ends.tolist())
    assert found.share == found.halo.sum() / n


@given(st.integers(1, 10**7), st.integers(1, 300))
def test_parts_are_even_and_together_everything(n, parts):
    parts = min(parts, n)
    sizes = np.diff(even_ends_of_graph_parts(n, parts))
    assert sizes.sum() == n
    assert sizes.min() >= 1
    spread = sizes.max() - sizes.min()
    assert spread <= 1 or (spread < 2 * PIECE and n >= 64 * PIECE * parts)


def test_the_best_order_is_taken():
    """A path whose parties have no order is cut as one in order would be."""
    line = Topology.family("path:600").adjacency
    mixed = np.random.default_rng(0).permutation(600)
    assert cut_graph_into_parts(line, 4).by == "own order"
    assert cut_graph_into_parts(line, 4).halo.tolist() == [1, 2, 2, 1]
    found = cut_graph_into_parts(line[mixed][:, mixed], 4)
    assert found.by in {"nearness", "metis"}
    assert found.halo.sum() == 6
    assert sorted(found.order.tolist()) == list(range(600))


def test_those_with_costs_of_their_own_stay_in_order():
    line = Topology.family("path:600").adjacency
    mixed = np.random.default_rng(0).permutation(600)
    assert cut_graph_into_parts(line[mixed][:, mixed], 4, in_order=True).order is None


def test_metis_finds_parts_where_orders_do_not():
    """Two rings, numbered in turn around each: halves are one ring each."""
    pytest.importorskip("pymetis")
    ring = Topology.family("ring:300").adjacency
    both = sparse.csr_array(sparse.block_diag([ring, ring]))
    mixed = np.random.default_rng(1).permutation(600)
    found = cut_graph_into_parts(both[mixed][:, mixed], 2)
    assert found.halo.sum() <= 4
    assert np.diff(found.ends).min() >= 290


@pytest.mark.parametrize("parts", [2, 4])
def test_a_graph_that_mixes_fast_is_refused_with_the_number(parts):
    found = cut_graph_into_parts(
        Topology.family("regular:400:6:seed=0").adjacency, parts
    )
    heard = f"{found.halo.sum():,} \\({found.share:.0%}"
    with pytest.raises(InvalidInputError, match=heard) as caught:
        found.check()
    assert "numba" in str(caught.value)
    cut_graph_into_parts(Topology.family("grid:30x30").adjacency, parts).check()


def test_half_the_graph_is_the_most():
    ends = np.array([0, 4, 8])
    at, over = np.array([2, 2]), np.array([2, 3])
    CutParts(order=None, ends=ends, halo=at, by="own order").check()
    with refused("halo-too-large", mentions=("62",)):
        CutParts(order=None, ends=ends, halo=over, by="own order").check()


@pytest.mark.parametrize("parts", [0, 11])
def test_there_are_no_more_parts_than_parties(parts):
    with refused("parts-out-of-range", mentions=("1", "10")):
        even_ends_of_graph_parts(10, parts)


@given(
    st.sampled_from(["geometric:180:5", "geometric:40:9", "grid:9x14", "grid:30x2"])
    | st.sampled_from(["ring:50", "cycles:60:4", "petersen", "geometric:90:1"]),
    st.integers(1, 7),
    st.integers(0, 6),
)
def test_some_parties_links_are_those_of_the_whole_graph(spec, parts, part):
    part %= parts

    def own(n):
        return slice(*even_ends_of_graph_parts(n, parts)[part : part + 2].tolist())

    whole = Topology.family(spec)
    found = build_part_of_graph(spec, own)
    assert found.n_parties == whole.n_parties
    here = [
        [i, j]
        for i, j in whole.edges.tolist()
        if {i, j} & set(range(whole.n_parties)[own(whole.n_parties)])
    ]
    assert found.ends.tolist() == here
