"""Masks of very many parties, drawn in pieces, against the ordinary road."""

from pathlib import Path

import numpy as np
import pytest

from veilsum.graphs.topology import Topology
from veilsum.masks import masking
from veilsum.masks.discrete_gaussian import strips_of_discrete_gaussian
from veilsum.masks.laws import Masks
from veilsum.masks.masking import (
    CounterStreams,
    draw_mask_shares,
    exact_totals_of_masked_rows,
    masks_in_pieces,
)

GRAPH = Topology.family("cycles:400:6")


@pytest.mark.parametrize(
    ("sigma", "grid", "size"), [(1.0, 30, 4), (3.0, 2, 4), (5.0, 0, 1), (2.0, 48, 9)]
)
def test_pieces_are_the_ordinary_masks_bit_for_bit(monkeypatch, sigma, grid, size):
    monkeypatch.setattr(masking, "PIECE", 100)
    law = Masks("lattice", sigma, grid).on(GRAPH)
    streams = CounterStreams(7)
    found = masks_in_pieces(GRAPH, law, streams, size=size, epoch=3)
    wanted = draw_mask_shares(GRAPH, law, streams, size=size, epoch=3).masks()
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)
    assert exact_totals_of_masked_rows(found) == [0] * size


def test_links_are_left_undone_and_done_by_the_ordinary_road():
    law = Masks("lattice", 1.0, 30).on(GRAPH)
    drawing = masking._MaskDrawing.of(GRAPH, law, CounterStreams(7), 4, 0)
    undone = np.zeros(GRAPH.n_edges, dtype=bool)
    noise = np.empty((GRAPH.n_edges, 4), dtype=np.int64)
    masking.compiled_or_plain(masking.draw_masks_of_links)(
        GRAPH.edges, *drawing.fixed, noise, undone
    )
    # A tail is proposed once in 4096 times, and a link has about nine proposals.
    assert 0 < undone.sum() < 20


@pytest.mark.parametrize(
    "masks", [Masks("gaussian", 1.0), Masks("uniform"), Masks("lattice", (1.0, 2.0), 9)]
)
def test_other_laws_are_drawn_one_by_one(masks):
    graph = Topology.family("cycles:12:4")
    law = masks.on(graph)
    found = masks_in_pieces(graph, law, CounterStreams(1), size=2)
    wanted = draw_mask_shares(graph, law, CounterStreams(1), size=2).masks()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_weights_of_links_and_arcs_are_heeded():
    edges, weights = [(0, 1), (1, 2), (2, 0)], [1.0, 4.0, 9.0]
    for directed in (False, True):
        graph = Topology.from_edges(edges, weights=weights, directed=directed)
        law = Masks("lattice", 1.0, 20).on(graph)
        found = masks_in_pieces(graph, law, CounterStreams(1), size=3)
        wanted = draw_mask_shares(graph, law, CounterStreams(1), size=3).masks()
        np.testing.assert_array_equal(found, wanted)


def test_streams_differ_by_root_epoch_and_direction():
    def words(root=0, epoch=0, sender=1, receiver=2):
        stream = CounterStreams(root).stream(
            epoch=epoch, sender=sender, receiver=receiver
        )
        return stream.words(8).tolist()

    first = words()
    others = [
        words(root=1),
        words(epoch=1),
        words(sender=2, receiver=1),
        words(0, 0, 3),
    ]
    assert words() == first
    assert len({tuple(one) for one in [first, *others]}) == 5
    # No two of these streams may share a part: positions are whole coordinates apart.
    assert len({word for one in [first, *others] for word in one}) == 40


@pytest.mark.statistical
def test_the_law_of_what_pieces_draw():
    # chi^2 over 14,400 values of variance 2 S^2 d; 5 standard errors: 1 in 3.5 million.
    graph = Topology.family("cycles:3600:6")
    law = Masks("lattice", 1.0, 10).on(graph)
    masks = masks_in_pieces(graph, law, CounterStreams(5), size=4)
    variance = (masks / 1024.0).var()
    assert abs(variance / 12.0 - 1.0) < 5.0 * np.sqrt(2.0 / masks.size) * 1.2


def test_exact_totals_do_not_wrap():
    numbers = np.array([[2**62, -5], [2**62, -(2**62)], [2**62, -(2**62)]])
    assert exact_totals_of_masked_rows(numbers) == [3 * 2**62, -5 - 2**63]


def test_a_batch_is_as_large_as_the_sampler_s():
    assert strips_of_discrete_gaussian(1 << 20).small
    assert masking.count_gaussian_proposals(4) == 12


def test_counters_are_for_simulations_only():
    """Whoever has the root has every share: no real party's module names them."""
    source = Path(masking.__file__).parents[1]
    homes = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if "CounterStreams" in path.read_text()
    }
    assert {"masks/masking.py", "minimise/large_graphs.py"} <= homes
    real = {"protocol", "party", "net", "surveys"}
    assert not {one.split("/")[0] for one in homes} & real
