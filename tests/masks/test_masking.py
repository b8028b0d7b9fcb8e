from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import any_topologies, few, seeds, sigmas
from veilsum.graphs.topology import Topology
from veilsum.masks import masking
from veilsum.masks.laws import GaussianMasks, Masks, NoMasks, check_mask_sigma
from veilsum.masks.masking import MaskShares, ShareStreams, draw_mask_shares, draw_masks
from veilsum.numbers.limbs import limbs_from_integers, limbs_to_integers
from veilsum.numbers.units import UnitCounts

UNIT = GaussianMasks(check_mask_sigma(1.0))


def by_hand(topology, values):
    """u_i = sum over i's links of sent minus received, one share at a time."""
    kind = object if values.dtype == object else float
    masks = np.full((topology.n_parties, values.shape[-1]), 0, dtype=kind)
    for (i, j), shares in zip(topology.edges.tolist(), values, strict=True):
        ways = [(i, j), (j, i)][: topology.shares_per_edge]
        for (sender, receiver), share in zip(ways, shares, strict=True):
            masks[sender] += share
            masks[receiver] -= share
    return masks


def test_the_sign_of_a_mask_is_sent_minus_received():
    """K3 with r = [[0,1,2],[3,0,4],[5,6,0]]: Eq. i_vn gives u = (-5, 0, 5)."""
    r = [[0, 1, 2], [3, 0, 4], [5, 6, 0]]
    triangle = Topology.family("complete:3")
    values = [[[r[i][j]], [r[j][i]]] for i, j in triangle.edges.tolist()]
    masks = MaskShares(triangle, np.array(values, dtype=float)).masks()
    assert masks.ravel().tolist() == [-5.0, 0.0, 5.0]


def test_the_mask_on_an_arc_is_added_by_its_sender_only():
    cycle = Topology.from_edges([(0, 1), (1, 2), (2, 0)], directed=True)
    shares = MaskShares(cycle, np.array([[[1.0]], [[10.0]], [[100.0]]]))
    assert shares.masks().ravel().tolist() == [1 - 100, 10 - 1, 100 - 10]


def test_edge_noise_is_the_difference_of_an_edge_s_two_shares():
    pair = Topology.family("complete:2")
    shares = MaskShares(pair, np.array([[[5.0, 1.0], [2.0, 7.0]]]))
    assert shares.edge_noise().tolist() == [[3.0, -6.0]]


@given(any_topologies(), seeds, st.integers(1, 3))
def test_masks_are_sent_minus_received_on_every_graph(topology, seed, size):
    shares = draw_mask_shares(topology, UNIT, ShareStreams(seed), size=size)
    expected = by_hand(topology, shares.values)
    np.testing.assert_allclose(shares.masks(), expected, atol=1e-12)


@given(any_topologies(), seeds, st.sampled_from([np.int64, np.uint64]))
def test_masks_of_words_are_those_of_longer_integers_but_for_the_carry(
    topology, seed, kind
):
    shape = (topology.n_edges, topology.shares_per_edge, 2)
    ends = np.iinfo(kind)
    words = np.random.default_rng(seed).integers(
        ends.min, ends.max, size=shape, dtype=kind, endpoint=True
    )
    found = MaskShares(topology, words).masks()
    longer = limbs_to_integers(
        MaskShares(topology, limbs_from_integers(words, 2)).masks()
    )
    assert found.dtype == kind
    assert not ((found.astype(object) - longer) % 2**ends.bits).any()
    assert longer.tolist() == by_hand(topology, words.astype(object)).tolist()


def test_a_share_is_the_first_draw_of_its_own_stream():
    """The contract between drivers: key (root, epoch, i, j), sigma times normals."""
    topology, streams = Topology.family("path:3"), ShareStreams(11)
    law = GaussianMasks(check_mask_sigma(2.0))
    shares = draw_mask_shares(topology, law, streams, size=4, epoch=5)
    for (i, j), (sent, received) in zip(topology.edges, shares.values, strict=True):
        forth = streams.stream(epoch=5, sender=int(i), receiver=int(j))
        back = streams.stream(epoch=5, sender=int(j), receiver=int(i))
        np.testing.assert_array_equal(sent, 2.0 * forth.normals(4))
        np.testing.assert_array_equal(received, 2.0 * back.normals(4))


@few
@given(any_topologies(), seeds, st.randoms(use_true_random=False))
def test_no_share_depends_on_who_drew_first(topology, seed, random):
    order = list(range(topology.n_edges))
    random.shuffle(order)
    shuffled = Topology(
        topology.parties,
        topology.edges[order],
        topology.weights[order],
        directed=topology.directed,
    )
    streams = ShareStreams(seed)
    straight = draw_mask_shares(topology, UNIT, streams, size=2)
    mixed = draw_mask_shares(shuffled, UNIT, streams, size=2)
    np.testing.assert_array_equal(mixed.values, straight.values[order])


@few
@given(seeds, st.integers(0, 3), st.integers(0, 5), st.integers(0, 5))
def test_each_key_has_its_own_stream(root, epoch, sender, receiver):
    def first(**key):
        return ShareStreams(key.pop("root")).stream(**key).normals(1)[0]

    key = {"root": root, "epoch": epoch, "sender": sender, "receiver": receiver}
    assert first(**key) == first(**key)
    for part in key:
        assert first(**{**key, part: key[part] + 1}) != first(**key)
    if sender != receiver:
        swapped = {**key, "sender": receiver, "receiver": sender}
        assert first(**swapped) != first(**key)


def test_a_long_root_and_a_short_one_share_no_stream():
    """A 128-bit root is several machine words: none of them may pass for an epoch."""
    low, high = 5, 7
    long = ShareStreams(low + high * 2**32).stream(epoch=1, sender=2, receiver=3)
    short = ShareStreams(low).stream(epoch=high, sender=1, receiver=2)
    assert long.normals(1)[0] != short.normals(1)[0]


def test_a_seed_repeats_the_shares_bit_for_bit():
    topology = Topology.family("petersen")
    one, two = (
        draw_mask_shares(topology, UNIT, ShareStreams.from_seed(3), size=2).values
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)


def test_without_a_seed_the_shares_are_fresh():
    topology = Topology.family("complete:3")
    one, two = (
        draw_mask_shares(topology, UNIT, ShareStreams.from_seed(None), size=1).values
        for _ in range(2)
    )
    assert not np.isin(one, two).any()


def test_epochs_have_different_shares():
    topology, streams = Topology.family("ring:4"), ShareStreams(0)
    one = draw_mask_shares(topology, UNIT, streams, size=2, epoch=0).values
    two = draw_mask_shares(topology, UNIT, streams, size=2, epoch=1).values
    assert not np.isin(one, two).any()


@few
@given(any_topologies(), seeds, sigmas)
def test_an_edge_s_weight_scales_the_variance_of_its_shares(topology, seed, sigma):
    law = GaussianMasks(check_mask_sigma(sigma))
    plain = Topology(
        topology.parties,
        topology.edges,
        np.ones(topology.n_edges),
        directed=topology.directed,
    )
    unit = draw_mask_shares(plain, law, ShareStreams(seed), size=2).values
    heavy = draw_mask_shares(topology, law, ShareStreams(seed), size=2).values
    expected = unit**2 * topology.weights[:, None, None]
    np.testing.assert_allclose(heavy**2, expected, rtol=1e-12)


def test_sigma_may_differ_between_coefficients():
    topology, streams = Topology.family("ring:4"), ShareStreams(0)
    law = GaussianMasks(check_mask_sigma([1.0, 1000.0]))
    unit = draw_mask_shares(topology, UNIT, streams, size=2).values
    found = draw_mask_shares(topology, law, streams, size=2).values
    np.testing.assert_array_equal(found, unit * [1.0, 1000.0])


def test_as_many_sigmas_as_coefficients_are_needed():
    law = GaussianMasks(check_mask_sigma([1.0, 2.0]))
    with refused("sigma-wrong-shape", mentions=("3", "2")):
        draw_mask_shares(Topology.family("ring:3"), law, ShareStreams(0), size=3)


@few
@given(any_topologies(), seeds)
def test_without_masks_every_share_is_zero(topology, seed):
    shares = draw_mask_shares(topology, NoMasks(), ShareStreams(seed), size=2)
    assert not shares.values.any()
    assert not shares.masks().any()


@each("sigma", [0.0, -1.0, np.nan, np.inf, -np.inf, [1.0, 0.0], [1.0, np.nan], []])
def test_a_sigma_that_masks_nothing_is_refused_and_no_masks_is_said_aloud(sigma):
    with refused("sigma-not-positive", mentions=("none",)):
        check_mask_sigma(sigma)
    with refused("sigma-not-positive"):
        GaussianMasks(np.asarray(sigma, dtype=float))


def test_a_refused_sigma_is_shown():
    with refused("sigma-not-positive"):
        check_mask_sigma(-2.5)


def test_a_negative_seed_is_refused():
    with refused("whole-out-of-range"):
        ShareStreams.from_seed(-1)


def test_laws_have_the_names_that_files_use():
    assert NoMasks().name == "none"
    assert UNIT.name == "gaussian"


@pytest.mark.statistical
@pytest.mark.parametrize("directed", [False, True])
def test_keyed_shares_are_independent_standard_normals(directed):
    """Kolmogorov-Smirnov and pairwise correlations over 12 keyed streams, seed 0.

    False-alarm rate 1e-4 for the former; 66 correlations at 5 standard errors are
    together below 1e-4.
    """
    from scipy import stats

    topology = Topology.from_edges(
        [(i, (i + 1) % 6) for i in range(6)] + [(i + 1, i) for i in range(5)] + [(0, 5)]
        if directed
        else [(i, (i + 1) % 6) for i in range(6)],
        directed=directed,
    )
    size = 4000
    values = draw_mask_shares(topology, UNIT, ShareStreams(0), size=size).values
    rows = values.reshape(-1, size)
    assert len(rows) == 12
    assert stats.kstest(rows.ravel(), "norm").pvalue > 1e-4
    correlation = np.corrcoef(rows) - np.eye(12)
    assert abs(correlation).max() < 5 / np.sqrt(size)


@pytest.mark.parametrize("bits", [40, 130])
@pytest.mark.parametrize("law", ["uniform", "lattice", "none"])
def test_masks_drawn_piece_by_piece_are_those_of_all_shares(law, bits, monkeypatch):
    graph = Topology.from_edges(
        [(i, j) for i in range(9) for j in range(i)],
        weights=[1.0 + k % 3 for k in range(36)],
    )
    counts = UnitCounts((Fraction(1, 4),) * 7, bits)
    masks = Masks(law, 2.0 ** (bits - 10) if law == "lattice" else None)
    made, streams = masks.for_sums(graph, counts), ShareStreams.from_seed(5)
    expected = draw_mask_shares(graph, made, streams, size=7, epoch=3).masks()
    for size in (1, 600, 5000):
        monkeypatch.setattr(masking, "PIECE_BYTES", size)
        found = draw_masks(graph, made, streams, size=7, epoch=3)
        assert found.dtype == expected.dtype
        assert (limbs_to_integers(found) == limbs_to_integers(expected)).all()


@pytest.mark.parametrize("root", [0, 2**32 - 1, 2**32, 2**64, 2**96 + 5, 2**128 - 1])
def test_a_stream_is_seeded_as_numpy_reads_five_integers(root):
    for sender in (0, 70_000, 2**32 + 1):
        stream = ShareStreams(root).stream(epoch=3, sender=sender, receiver=2)
        plain = np.random.default_rng((1, root, 3, sender, 2)).bit_generator
        assert (stream.words(5) == plain.random_raw(5)).all()
