"""Shares are counted beside their law: sound ones pass, and spoilt ones do not."""

from fractions import Fraction

import numpy as np
import pytest

import veilsum as vs
from cases import each
from veilsum.audit import share_law
from veilsum.audit.attack import Scene
from veilsum.audit.planted import PlantedShares
from veilsum.audit.share_law import attack_system_shares, play
from veilsum.masks.laws import Masks
from veilsum.masks.masking import SystemStreams
from veilsum.numbers.units import UnitCounts

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

RING = vs.Topology.from_edges(
    [("a", "b"), ("b", "c"), ("c", "a")], weights=[1.0, 2.0, 0.5]
)
COUNTS = UnitCounts(units=(Fraction(1, 2), Fraction(1, 100)), bits=90)
LAWS = {
    "gaussian": Masks("gaussian", 1.0).on(RING),
    "gaussian, two sigmas": Masks("gaussian", [1.0, 30.0]).on(RING),
    "lattice": Masks("lattice", 1.0, 20).on(RING),
    "coarse lattice": Masks("lattice", 20.0, 0).on(RING),
    "uniform": Masks("uniform", unit=0.01).on(RING),
    "uniform counts": Masks("uniform").for_sums(RING, COUNTS),
    "lattice counts": Masks("lattice", 1e25).for_sums(RING, COUNTS),
}
HOW = {"seed": 3, "trials": 600}


def scene(law):
    return Scene(topology=RING, law=LAWS[law], width=2)


@each("law", LAWS)
def test_sound_shares_are_as_agreed(law):
    found = play(scene(law), (), **HOW)
    assert found.successes == 0
    assert found.trials > 30
    assert not found.exceeds()


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["lattice", "coarse lattice", "uniform"])
def test_a_test_is_wrong_as_often_as_its_threshold_says(law, monkeypatch):
    """Counts are near enough to chi^2 out to one in 1,000: 3 times as many never."""
    monkeypatch.setattr(share_law, "THRESHOLD", 1e-3)
    both = [play(scene(law), (), seed=seed, trials=600) for seed in range(8)]
    many = sum(one.trials for one in both)
    assert sum(one.successes for one in both) <= 3 + 3e-3 * many


def no_tails(topology, values):
    width = 2.5 * np.sqrt(topology.weights)[:, None, None] * 2.0**20
    values[:] = np.clip(values, -width, width)


def related(topology, values):
    values[1, 0] = values[0, 0] + 1


def turned_round(topology, values):
    values[2, 1] = -values[0, 0]


def even(topology, values):
    values[:] &= ~np.ones((), dtype=values.dtype)


def weaker_second(topology, values):
    values[..., values.shape[-1] // 2 :] = values[..., values.shape[-1] // 2 :] * 3 // 4


def below_three_quarters(topology, values):
    most = np.uint64(3 << 62)
    values[:] = np.where(values < most, values, values - most)


@each(
    ("law", "spoil"),
    [
        ("lattice", no_tails),
        ("lattice", weaker_second),
        ("uniform", related),
        ("uniform", turned_round),
        ("uniform", even),
        ("uniform", below_three_quarters),
    ],
)
def test_spoilt_ones_are_not(law, spoil):
    sound = scene(law)
    spoilt = Scene(
        topology=RING, law=sound.law, width=2, draw=PlantedShares(sound.draw, spoil)
    )
    # A tail is found where some numbers are expected in it.
    trials = 5_000 if spoil is no_tails else 600
    found = play(spoilt, (), seed=3, trials=trials)
    assert found.successes
    assert found.exceeds(0.05 / 100)


def test_what_real_parties_draw_is_looked_at_too(monkeypatch):
    assert attack_system_shares(scene("lattice"), (), **HOW).successes == 0
    assert attack_system_shares(scene("gaussian"), (), **HOW) is None
    one = SystemStreams().stream(epoch=0, sender=0, receiver=1)._key
    stream = type(SystemStreams().stream(epoch=0, sender=0, receiver=1))
    monkeypatch.setattr(stream, "from_os", classmethod(lambda cls: cls(one)))
    assert attack_system_shares(scene("uniform"), (), **HOW).exceeds(1e-6)


def test_without_masks_there_is_nothing_to_count():
    none = Scene(topology=RING, law=Masks("none").on(RING), width=2)
    assert play(none, (), **HOW) is None
