"""How attacks are counted, and what a coalition is given to see."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import veilsum as vs
from cases import each
from refusals import refused
from veilsum.audit.attack import (
    Outcome,
    Scene,
    clopper_pearson,
    law_of_many_executions,
    least_success_found,
    successes_that_refute,
)
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.privacy.conversions import divergence_for_success
from veilsum.privacy.transcript import TranscriptDrawnEpoch, simulate_transcript

RING = vs.Topology.family("ring:5")
LAWS = [Masks("gaussian", 2.0), Masks("lattice", 2.0, 12), Masks("uniform")]


def outcome(successes, trials, promised):
    return Outcome(
        attack="some",
        coalition=("0",),
        about="anything",
        trials=trials,
        successes=successes,
        promised=promised,
    )


@given(st.integers(1, 400), st.data(), st.floats(1e-6, 0.2))
def test_bounds_are_clopper_and_pearson_s(trials, data, alarms):
    successes = data.draw(st.integers(0, trials))
    low, high = clopper_pearson(successes, trials, alarms)
    found = stats.binomtest(successes, trials).proportion_ci(1 - 2 * alarms, "exact")
    assert low == pytest.approx(found.low, abs=1e-12)
    assert high == pytest.approx(found.high, abs=1e-12)


@each(("runs", "ratio"), [(10**5, 2.6), (10**6, 1.42), (4 * 10**6, 1.2)])
def test_ten_coalitions_at_51_percent_need_millions_of_runs(runs, ratio):
    found = least_success_found(0.51, runs, 0.05 / 10)
    excess = divergence_for_success(found) / divergence_for_success(0.51)
    assert excess == pytest.approx(ratio, rel=0.005)


@given(st.integers(20, 300), st.floats(0.0, 0.8), st.floats(1e-4, 0.1))
def test_what_is_findable_is_found_nine_times_in_ten(trials, promised, alarms):
    enough = successes_that_refute(promised, trials, alarms)
    if enough is None:
        assert clopper_pearson(trials, trials, alarms)[0] <= promised
        return
    assert outcome(enough, trials, promised).exceeds(alarms)
    assert not outcome(enough - 1, trials, promised).exceeds(alarms)
    chance = least_success_found(promised, trials, alarms)
    assert stats.binom.sf(enough - 1, trials, chance) == pytest.approx(0.9, abs=1e-9)


def test_nothing_exceeds_certainty_and_one_success_exceeds_never():
    assert not outcome(10, 10, 1.0).exceeds()
    assert outcome(10, 10, 1.0).findable() is None
    # Two trials against a coin: even both of them right say nothing, and it is said.
    assert outcome(2, 2, 0.5).findable(0.01) is None
    assert outcome(1, 1000, 0.0).exceeds(1e-9)
    assert not outcome(0, 1000, 0.0).exceeds()
    assert outcome(0, 1000, 0.5).interval()[1] < 0.5


def test_a_line_of_the_table_is_at_the_given_rate_of_false_alarms():
    """10 of 10 refute 1/2 at 0.05 (0.5 ** 10 < 0.001), and nothing refutes it at 1e-4.

    All of 10 succeed 9 times in 10 at a chance of 0.9 ** (1 / 10) = 0.9895. Of the 9
    that are enough at 0.05, the binomial law has (1 - p) 10 p^9 + p^10 = 0.9 at 0.9455.
    """
    assert outcome(10, 10, 0.5).row()[3:] == ("100% !", "74.11% to 100%", "94.55%")
    assert outcome(10, 10, 0.5).row(0.002)[5] == "98.95%"
    *_, measured, interval, findable = outcome(10, 10, 0.5).row(1e-4)
    # Bounds of ten successes out of ten: alarms ** (1 / 10) and 1.
    assert (measured, interval) == ("100%", "39.81% to 100%")
    assert findable == "nothing"


@each(("successes", "trials"), [(1, 0), (-1, 5), (6, 5)])
def test_counts_are_counts(successes, trials):
    with refused("impossible-success-count", vs.InvalidInputError):
        outcome(successes, trials, 0.5)


@each("masks", LAWS, ids=lambda masks: masks.law)
@each("coalition", [(), ("0",), ("1", "3")])
def test_a_sight_is_the_view_of_the_same_run(masks, coalition):
    """One execution drawn from the same root is the simulator's own."""
    scene = Scene(topology=RING, law=masks.on(RING), width=3)
    values = np.stack([scene.law.encode(np.arange(3.0) + k) for k in range(5)])
    sight = scene.batch(7, 1).sight(coalition, values)
    shares = draw_mask_shares(RING, scene.law, ShareStreams(7), size=3)
    drawn = TranscriptDrawnEpoch(0, values, shares)
    view = simulate_transcript(scene.law, [drawn], corrupted=coalition).view()
    assert RING.names(sight.honest) == view.honest
    assert sight.coalition == view.corrupted
    assert np.array_equal(sight.effective[:, 0], view.effective)
    assert np.allclose(
        sight.stripped[:, 0].astype(float), view.stripped.astype(float), atol=1e-12
    )
    assert np.array_equal(sight.known_shares[:, :, 0], view.known_shares)


def test_executions_are_further_coefficients_column_by_column():
    law = Masks("gaussian", (1.0, 100.0)).on(RING)
    batch = Scene(topology=RING, law=law, width=2).batch(1, 4_000)
    deviations = batch.masks.std(axis=(0, 1))
    # 20,000 numbers each, of standard deviation 2 sigma: off by 5 % in one of 1e20.
    assert deviations == pytest.approx([2.0, 200.0], rel=0.05)
    assert batch.masks.shape == (5, 4_000, 2)
    assert law_of_many_executions(law, 2, 3).sigma.tolist() == [
        1.0,
        1.0,
        1.0,
        100.0,
        100.0,
        100.0,
    ]
