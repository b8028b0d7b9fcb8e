"""Guesses err as much as is predicted, and a little less than from the sum alone."""

import numpy as np
import pytest

from cases import each
from scenes import LAWS, PETERSEN, SUMS_ONLY, scene_of
from veilsum.audit import guesses
from veilsum.audit.planted import PLANTED
from veilsum.graphs.topology import Topology

# A hub and a ring of four: five parties, 3.2 neighbours each (PRIVACY 3c).
WHEEL = Topology.from_edges(
    [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (1, 4)]
)


def rms(errors):
    return float(np.sqrt((errors**2).mean()))


def predicted(aimed, name):
    return rms(aimed.deviations[name])


@pytest.mark.parametrize("law", ["gaussian", "lattice"])
def test_petersen_against_the_sum_only(law):
    """THEORY 7f: .8304 for a party with two links, against .9354; tau = sigma = 1."""
    aimed = guesses.aim(scene_of(law), ["0", "1"])
    deviations = aimed.deviations["posterior"]
    best = int(np.argmin(deviations))
    assert deviations[best] == pytest.approx(0.8304, abs=5e-5)
    assert aimed.deviations["sum only"][best] == pytest.approx(0.9354, abs=5e-5)
    found = aimed.errors(seed=3, trials=1000)
    for name, errors in found.items():
        # 3,000 errors: one standard error is 1.3 percent, and four are allowed.
        expected = aimed.deviations[name][best]
        assert rms(errors[best]) == pytest.approx(expected, rel=0.052)
    assert rms(found["posterior"]) < rms(found["sum only"])


@each(("runs", "theory"), [(1, 2.530), (100, 0.253), (1000, 0.080)])
def test_means_of_runs(runs, theory):
    """PRIVACY 3c: sqrt(2 sigma^2 tr L / (T h))."""
    aimed = guesses.aim(scene_of(topology=WHEEL, width=1), [], runs=runs)
    assert predicted(aimed, "most likely") == pytest.approx(theory, abs=5e-4)
    found = aimed.errors(seed=3, trials=200)["most likely"]
    assert rms(found) == pytest.approx(theory, rel=0.15)
    # The posterior is never worse, and near the most likely after many runs.
    assert predicted(aimed, "posterior") < min(theory, predicted(aimed, "sum only"))


@each("law", LAWS)
def test_as_often_right_as_predicted(law):
    aimed = guesses.aim(scene_of(law), ["0", "1"])
    outcomes = {
        one.attack: one
        for one in aimed.play(seed=5, trials=300 if law == "counts" else 1000)
    }
    sums_only = law in SUMS_ONLY
    names = {"sum only"} if sums_only else {"sum only", "most likely", "posterior"}
    assert {*outcomes} == names
    for one in outcomes.values():
        assert not one.exceeds(1e-4)
        assert one.interval(1e-4)[1] >= one.promised
        assert 0.1 < one.promised < 0.6


def test_a_party_alone_is_guessed_for_sure():
    for law in ("gaussian", "uniform"):
        aimed = guesses.aim(scene_of(law), ["1", "4", "5"])
        for one in aimed.play(seed=1, trials=50):
            assert (one.rate, one.promised) == (1.0, 1.0)
            assert one.about.startswith("what 0 holds")


def test_a_tenth_of_sigma_is_found():
    scene, leak = scene_of("lattice"), PLANTED["a tenth of sigma"]
    aimed = guesses.aim(leak(scene), leak.coalition(PETERSEN))
    outcomes = {one.attack: one for one in aimed.play(seed=1, trials=300)}
    assert outcomes["most likely"].rate > 0.7
    assert outcomes["most likely"].exceeds(1e-6)
    assert not outcomes["sum only"].exceeds(1e-4)


def test_nobody_is_left():
    assert guesses.aim(scene_of(), PETERSEN.parties) is None
