"""Uniform masks: views of inputs with equal sums cannot be told apart by a test."""

import numpy as np
import pytest
from scipy import stats

from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import MaskShares, ShareStreams, draw_mask_shares
from veilsum.privacy.transcript import TranscriptDrawnEpoch, simulate_transcript

RUNS = 4000
GRID = 40
# Four parties in a ring; party 3 is curious and knows two of the four links.
RING = Topology.family("ring:4")
# What the curious party compares; the honest sums are equal, its own value as well.
A = np.array([[1.0], [2.0], [3.0], [7.0]])
B = np.array([[-90.5], [96.25], [0.25], [7.0]])


def views(rows, *, seed, reuse=None):
    """Stripped residues of the honest parties, (runs, 3); `reuse` repeats one link.

    Coordinates are drawn independently, so that each of them is a run.
    """
    law = Masks("uniform", grid=GRID).on(RING)
    private = np.stack([law.encode(np.repeat(row, RUNS)) for row in rows])
    values = draw_mask_shares(RING, law, ShareStreams(seed), size=RUNS).values
    if reuse is not None:
        values[reuse] = draw_mask_shares(RING, law, ShareStreams(99), size=1).values[
            reuse
        ]
    drawn = TranscriptDrawnEpoch(0, private, MaskShares(RING, values))
    return simulate_transcript(law, [drawn], corrupted=["3"]).view().stripped.T


def bits_of(numbers):
    """How often each of the 64 bits is set, against how often it is not, (2, 64)."""
    ones = np.unpackbits(numbers.view(np.uint8).reshape(len(numbers), 8), axis=1).sum(0)
    return np.array([ones, len(numbers) - ones])


def p_values(under_a, under_b):
    """Two samples of residues compared: all bits, the distribution, pairs of parties.

    Sums and differences of two parties would show what single residues do not.
    """
    columns = [
        *zip(under_a.T, under_b.T, strict=True),
        (under_a[:, 0] - under_a[:, 1], under_b[:, 0] - under_b[:, 1]),
        (under_a[:, 0] + under_a[:, 1], under_b[:, 0] + under_b[:, 1]),
    ]
    for one, two in columns:
        one, two = np.ascontiguousarray(one), np.ascontiguousarray(two)
        yield stats.ks_2samp(one.astype(float), two.astype(float)).pvalue
        for ours, theirs in zip(bits_of(one).T, bits_of(two).T, strict=True):
            table = np.array([ours, theirs])
            # A column of zeros: a bit that never changes under either input.
            if (table.sum(axis=0) == 0).any():
                yield 1.0
            else:
                yield stats.chi2_contingency(table).pvalue


@pytest.mark.statistical
def test_views_of_two_inputs_with_equal_sums_look_the_same():
    """Seeds 0 and 1; 5 comparisons of 65 tests each at 1e-6.

    False-alarm rate below 3.3e-4 for all of them together.
    """
    p = list(p_values(views(A, seed=0), views(B, seed=1)))
    assert len(p) == 5 * 65
    assert min(p) > 1e-6


@pytest.mark.statistical
def test_views_look_different_when_one_mask_is_reused():
    """The same share on link 0-1 in every run: the same tests reject at once.

    The link 1-2 still hides parties 1 and 2; party 0 has no fresh mask left.
    """
    link = RING.edges.tolist().index([0, 1])
    under_a = views(A, seed=0, reuse=link)
    under_b = views(B, seed=1, reuse=link)
    assert min(p_values(under_a, under_b)) < 1e-100


def test_all_that_is_left_of_the_honest_is_their_sum():
    sums = [views(rows, seed=5)[:3].sum(axis=1) for rows in (A, B)]
    expected = 6 * 2**GRID
    assert [s.tolist() for s in sums] == [[expected] * 3] * 2
