"""Uniform masks of one word and of three: exact sums, no trace of parts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilsum.errors import InvalidInputError, RangeError
from veilsum.graphs.topology import Topology
from veilsum.numbers.laws import Masks, UniformMasks
from veilsum.numbers.masking import ShareStreams, draw_shares
from veilsum.numbers.streams import SeededStream

RING = Topology.family("ring:4")
WIDE = UniformMasks.wide(RING)
HALF = 1 << 191

finite = st.floats(-1e26, 1e26)


def masked_total(law, rows, seed=0):
    """What parties would add up: their numbers with masks on."""
    shares = draw_shares(RING, law, ShareStreams(seed), size=rows.shape[1])
    masked = law.wrap(np.stack([law.encode(row) for row in rows]) + shares.masks())
    return law.decode(masked.sum(axis=0))


@given(st.lists(st.tuples(finite, finite, finite, finite), min_size=1, max_size=5))
def test_three_words_add_reals_of_any_size_exactly(columns):
    rows = np.array(columns).T
    exact = [
        sum(Fraction(round(Fraction(x) * 2**96), 2**96) for x in column)
        for column in columns
    ]
    assert masked_total(WIDE, rows).tolist() == [float(one) for one in exact]


def test_tiny_and_huge_numbers_are_in_one_vector():
    rows = np.array([[1e-20, 1e20, 3.0]] * 4)
    assert np.allclose(masked_total(WIDE, rows), [4e-20, 4e20, 12.0], rtol=1e-8, atol=0)


@given(
    st.lists(st.integers(-(2**59), 2**59), min_size=4, max_size=4),
    st.booleans(),
)
def test_integers_are_added_to_the_last_unit(values, wide):
    law = UniformMasks.integers(RING, wide=wide)
    rows = np.array(values)[:, None]
    total = masked_total(law, rows)
    assert total.tolist() == [sum(values)]
    assert all(type(one) is int for one in total.tolist())


def test_integers_beyond_64_bits_need_three_words():
    rows = np.array([[10**30]] * 4, dtype=object)
    wide = UniformMasks.integers(RING, wide=True)
    assert masked_total(wide, rows).tolist() == [4 * 10**30]
    with pytest.raises(RangeError, match="beyond the range"):
        UniformMasks.integers(RING).encode(rows[0])


def test_unsigned_integers_are_not_taken_for_negative_ones():
    law = UniformMasks.integers(RING)
    with pytest.raises(RangeError):
        law.encode(np.array([2**63 + 1], dtype=np.uint64))
    assert law.encode(np.array([7], dtype=np.uint64)).tolist() == [7]


@pytest.mark.parametrize("values", [np.array([0.5]), np.array(["a"], dtype=object)])
def test_a_sum_of_integers_takes_nothing_else(values):
    with pytest.raises(InvalidInputError, match="takes integers"):
        UniformMasks.integers(RING).encode(values)


def test_a_number_beyond_the_range_is_refused_and_not_clipped():
    with pytest.raises(RangeError, match="nothing is clipped"):
        WIDE.encode(np.array([1e29]))


@pytest.mark.statistical
def test_wide_shares_fill_their_range_evenly():
    """Kolmogorov-Smirnov at 1e-6 on each of three 64-bit parts, seed fixed."""
    from scipy.stats import kstest

    stream = SeededStream(np.random.default_rng(5))
    share = WIDE.draw(stream, 20_000)
    assert min(share) >= -HALF
    assert max(share) < HALF
    for shift in (0, 64, 128):
        part = [(int(one) >> shift & (2**64 - 1)) / 2**64 for one in share]
        assert kstest(part, "uniform").pvalue > 1e-6


def test_what_leaves_a_party_is_a_residue():
    """A sum of four residues that is not reduced would betray its size."""
    shares = draw_shares(RING, WIDE, ShareStreams(1), size=50)
    masks = shares.masks()
    assert max(map(abs, masks.ravel())) > HALF
    wrapped = WIDE.wrap(masks)
    assert all(-HALF <= one < HALF for one in wrapped.ravel())
    assert not ((wrapped - masks) % (2 * HALF)).any()


def test_views_are_equal_when_sums_are():
    """With masks shifted along a link, other inputs of equal sum look the same."""
    one = np.array([[1.5], [2.0], [0.0], [4.0]])
    other = one + np.array([[1e9], [-1e9], [0.0], [0.0]])
    shares = draw_shares(RING, WIDE, ShareStreams(2), size=1)
    shifted = draw_shares(RING, WIDE, ShareStreams(2), size=1)
    edge = RING.edges.tolist().index([0, 1])
    shifted.values[edge, 0] -= WIDE.encode(np.array([1e9]))
    same = [
        WIDE.wrap(np.stack([WIDE.encode(row) for row in rows]) + held.masks()).tolist()
        for rows, held in ((one, shares), (other, shifted))
    ]
    assert same[0] == same[1]


def test_the_range_follows_from_words_and_parties():
    assert WIDE.number_bytes == 24
    assert Masks("uniform").on(RING).number_bytes == 8
    with pytest.raises(InvalidInputError):
        UniformMasks(WIDE.grid, 4, largest=1e30, words=3)
