"""Shares that no sound generator draws are found, and sound ones are not suspected."""

from dataclasses import replace

import numpy as np
import pytest

from cases import each
from scenes import LAWS, RING, rate_of, scene_of
from veilsum.audit import weak_randomness
from veilsum.audit.attack import AttackPlayer
from veilsum.audit.planted import PLANTED, FewSeeds
from veilsum.audit.weak_randomness import attack_small_roots, repeated_share_rows

LEAKS = [name for name, leak in PLANTED.items() if "weak randomness" in leak.found_by]


def coalition_of(leak, scene):
    return PLANTED[leak].coalition(scene.topology)


@each("law", LAWS)
@each("width", [1, 20])
def test_sound_shares_are_never_suspected(law, width):
    player = weak_randomness.aim(scene_of(law, width=width), ["0", "1"])
    assert isinstance(player, AttackPlayer)
    assert rate_of(player, 150)[0] == 0


@each("law", ["gaussian", "lattice"])
@each("leak", LEAKS)
def test_planted_leaks_are_found_in_every_trial(law, leak):
    scene = scene_of(law, width=5)
    player = weak_randomness.aim(scene, coalition_of(leak, scene))
    right, trials = rate_of(player, 200, scene=PLANTED[leak](scene))
    assert right == trials


def test_a_share_in_two_trials_is_found_in_both():
    rows = np.random.default_rng(0).integers(-9, 10, size=(3, 50, 40))
    rows[1, 4], rows[1, 5] = -1, -2
    rows[2, 30] = rows[0, 7]
    for kind in (np.int64, np.float64, object):
        found = repeated_share_rows(rows.astype(kind))
        assert np.argwhere(found).tolist() == [[0, 7], [2, 30]]


def test_an_unchanging_bit_is_found():
    scene = scene_of("uniform", width=64)
    batch = scene.batch(3, 10)
    sight = batch.sight(["0"], np.zeros((10, 64), dtype=np.uint64))
    player = weak_randomness.aim(scene, ["0"])
    sight.known_shares[1, 0, 4] |= np.uint64(2**50)
    hits = player.play(sight, np.zeros(10, dtype=np.int64))
    assert np.flatnonzero(hits).tolist() == [4]


def test_who_knows_no_share_does_not_look():
    scene = scene_of()
    assert weak_randomness.aim(scene, []) is None
    assert attack_small_roots(scene, [], seed=1) is None
    everybody = scene.topology.parties
    assert attack_small_roots(scene, everybody, seed=1) is None


@each("law", LAWS)
def test_few_seeds_tell_everything(law):
    scene = scene_of(law, RING, width=2)
    weak = replace(scene, draw=FewSeeds(scene.draw, bits=6))
    found = attack_small_roots(weak, ["2"], seed=1, trials=6, bits=6)
    assert found.rate == 1.0
    assert found.exceeds()
    sound = attack_small_roots(scene, ["2"], seed=1, trials=6, bits=6)
    assert sound.rate == 0.0
    assert not sound.exceeds()


@pytest.mark.slow
def test_sixteen_bits_are_few():
    scene = scene_of("uniform", RING, width=2)
    leak = PLANTED["a seed of 16 bits"]
    weak, coalition = leak(scene), leak.coalition(RING)
    assert attack_small_roots(weak, coalition, seed=1, trials=3).rate == 1.0
    assert attack_small_roots(scene, coalition, seed=1, trials=3).rate == 0.0
