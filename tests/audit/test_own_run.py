"""What members find in transcripts of a run that took place."""

import numpy as np
import pytest

import veilsum as vs
from cases import each
from veilsum.audit.own_run import attack_findings, audit_shares_received
from veilsum.masks.laws import Masks
from veilsum.masks.masking import MaskShares, ShareStreams, draw_mask_shares
from veilsum.privacy.transcript import TranscriptDrawnEpoch, simulate_transcript

RING = vs.Topology.family("ring:5")
LAWS = {"uniform": Masks("uniform"), "lattice": Masks("lattice", 1e6, 20)}


def transcript(masks, spoil=None, coalition=("0", "1"), sums=3):
    law = masks.on(RING)
    values = np.stack([law.encode(np.arange(4.0) + k) for k in range(5)])
    epochs = []
    for epoch in range(sums):
        shares = draw_mask_shares(RING, law, ShareStreams(9), size=4, epoch=epoch)
        if spoil is not None:
            shares = MaskShares(RING, spoil(shares.values.copy()))
        epochs.append(TranscriptDrawnEpoch(epoch, values, shares))
    return simulate_transcript(law, epochs, corrupted=coalition)


@pytest.mark.parametrize("law", LAWS)
def test_sound_shares_are_none_of_chance_s_rarities(law):
    (found,) = audit_shares_received(transcript(LAWS[law]))
    assert found.successes == 0
    assert found.trials == 6  # two neighbours outside, in three sums
    assert not found.exceeds()


def zeros(values):
    return values * 0


def twice(values):
    return np.repeat(values[:1], len(values), axis=0)


@each("law", LAWS)
@each("spoil", [zeros, twice])
def test_shares_that_mask_nothing_are_found(law, spoil):
    (found,) = audit_shares_received(transcript(LAWS[law], spoil))
    assert found.exceeds(1e-6)


def test_so_few_numbers_that_chance_repeats_them_say_nothing():
    coarse = Masks("lattice", 4.0, 0)
    assert audit_shares_received(transcript(coarse)) == ()


def test_it_is_said_whose_sums_can_be_computed():
    (cut, alone) = attack_findings(transcript(LAWS["uniform"], coalition=("0", "2")))
    assert "can compute the numbers of 1 exactly, in each of 3 sums" in cut
    assert "can compute the sum of 3, 4 exactly" in alone
