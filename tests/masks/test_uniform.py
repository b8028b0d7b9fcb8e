"""Uniform masks of one, two and three words: exact sums, no trace of parts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from veilsum.errors import NumericalError
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.masks.streams import SeededStream
from veilsum.numbers.limbs import (
    add_wide_integers,
    limbs_of,
    limbs_to_integers,
    subtract_wide_integers,
    total_of_wide_integers,
)
from veilsum.numbers.units import UnitCounts

RING = Topology.family("ring:4")


def counting(bits, size=1):
    return Masks("uniform").for_sums(RING, UnitCounts((Fraction(1),) * size, bits))


WIDE = counting(192)
HALF = 1 << 191


def masked_total(law, rows, seed=0):
    """What parties would add up: their numbers with masks on."""
    shares = draw_mask_shares(RING, law, ShareStreams(seed), size=rows.shape[1])
    encoded = np.stack([law.encode(row) for row in rows])
    return law.decode(
        total_of_wide_integers(law.wrap(add_wide_integers(encoded, shares.masks())))
    )


@given(
    st.lists(st.integers(-(2**59), 2**59), min_size=4, max_size=4),
    st.sampled_from([64, 128, 192]),
)
def test_integers_are_added_to_the_last_unit(values, bits):
    rows = np.array(values)[:, None]
    found = masked_total(counting(bits), rows)
    assert found.tolist() == [sum(values)]
    assert all(type(one) is int for one in found.tolist())


def test_integers_beyond_64_bits_need_more_words():
    rows = np.array([[10**30]] * 4, dtype=object)
    for law in (counting(128), WIDE):
        assert masked_total(law, rows).tolist() == [4 * 10**30]
    with refused("internal", NumericalError, mentions=("64",)):
        counting(64).encode(rows[0])


def test_tiny_and_huge_numbers_are_in_one_vector():
    row = np.array([1, 10**40, 3], dtype=object)
    found = masked_total(counting(192, 3), np.stack([row] * 4))
    assert found.tolist() == [4, 4 * 10**40, 12]


def test_unsigned_integers_are_not_taken_for_negative_ones():
    law = counting(64)
    with pytest.raises(NumericalError):
        law.encode(np.array([2**63 + 1], dtype=np.uint64))
    assert law.encode(np.array([7], dtype=np.uint64)).tolist() == [7]


@pytest.mark.parametrize("values", [np.array([0.5]), np.array(["a"], dtype=object)])
def test_a_sum_of_integers_takes_nothing_else(values):
    with refused("internal", NumericalError):
        counting(64).encode(values)


@pytest.mark.statistical
def test_wide_shares_fill_their_range_evenly():
    """Kolmogorov-Smirnov at 1e-6 on each of three 64-bit parts, seed fixed."""
    from scipy.stats import kstest

    stream = SeededStream(np.random.default_rng(5))
    share = limbs_of(WIDE.draw(stream, 20_000))
    assert share.shape == (20_000, 3)
    for part in share.T:
        assert kstest(part / 2.0**64, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("fields", [(), ((50, 130),)])
def test_what_leaves_a_party_is_a_residue(fields):
    """A sum of four residues that is not reduced would betray its size."""
    counts = UnitCounts((Fraction(1),) * 50, 192, fields)
    law = Masks("uniform").for_sums(RING, counts)
    half = 1 << 129 if fields else HALF
    shares = draw_mask_shares(RING, law, ShareStreams(1), size=50)
    noise = limbs_to_integers(shares.values)
    whole = noise[:, 0] - noise[:, 1]
    masks = whole[[0, 1]].sum(axis=0)
    assert max(map(abs, masks)) > half
    wrapped = law.wrap(masks)
    assert all(-half <= one < half for one in wrapped)
    assert not ((wrapped - masks) % (2 * half)).any()
    held = law.decode(law.wrap(shares.masks()))
    assert all(-half <= one < half for one in held.ravel())


def test_views_are_equal_when_sums_are():
    """With masks shifted along a link, other inputs of equal sum look the same."""
    one = np.array([[15], [20], [0], [40]], dtype=object)
    other = one + np.array([[10**50], [-(10**50)], [0], [0]], dtype=object)
    shares = draw_mask_shares(RING, WIDE, ShareStreams(2), size=1)
    shifted = draw_mask_shares(RING, WIDE, ShareStreams(2), size=1)
    edge = RING.edges.tolist().index([0, 1])
    move = WIDE.encode(np.array([10**50], dtype=object))
    shifted.values[edge, 0] = subtract_wide_integers(shifted.values[edge, 0], move)
    same = [
        add_wide_integers(
            np.stack([WIDE.encode(row) for row in rows]), held.masks()
        ).tobytes()
        for rows, held in ((one, shares), (other, shifted))
    ]
    assert same[0] == same[1]


def test_the_words_follow_from_what_was_agreed():
    assert [counting(bits).number_bytes for bits in (64, 65, 192)] == [8, 16, 24]
    assert Masks("uniform").on(RING).number_bytes == 8
    with refused("sum-too-large", mentions=("192",)):
        counting(193)
