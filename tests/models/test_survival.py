"""Survival curves at their ends: nobody left, or nobody ever there."""

import numpy as np
import pytest

from veilsum.models.survival import SurvivalCurve


def curve(events, censored, later=0):
    return SurvivalCurve(
        times=np.arange(1.0, len(events) + 1),
        events=np.array(events),
        censored=np.array(censored),
        later=later,
    )


def test_a_curve_that_has_come_to_0_stays_there():
    assert curve([1, 1, 0], [0, 0, 0]).survival.tolist() == [0.5, 0.0, 0.0]


def test_a_curve_that_was_censored_at_its_end_is_unknown_from_there_on():
    found = curve([1, 0, 0], [0, 1, 0]).survival
    assert found.tolist()[:2] == [0.5, 0.5]
    assert np.isnan(found[2])


def test_with_rows_that_go_on_the_curve_is_known_to_its_end():
    found = curve([1, 0, 1], [0, 1, 0], later=1).survival
    assert found == pytest.approx([3 / 4, 3 / 4, 3 / 8])
