"""Planted leaks change how shares come about, and nothing that is promised."""

import numpy as np

from cases import each
from scenes import LAWS, PETERSEN, RING, rate_of, scene_of
from veilsum.audit import (
    cut,
    float_bits,
    neighbour,
    repeated,
    reused,
    weak_randomness,
)
from veilsum.audit.attack import AttackPlayer, clopper_pearson, sound_shares_for_attack
from veilsum.audit.planted import (
    PLANTED,
    bystander_of_attack,
    hub_to_attack,
    leaf_to_attack,
)
from veilsum.graphs.topology import Topology

ARCS = Topology.from_edges([(0, 1), (1, 0), (1, 2), (2, 3), (3, 0)], directed=True)


AIMS = {
    "cut": cut.aim,
    "hidden cut": cut.aim_cut_attack_deeper,
    "one honest party": cut.aim_at_one,
    "neighbour": neighbour.aim,
    "repeated runs": repeated.aim,
    "reused masks": reused.aim,
    "float bits": float_bits.aim,
    "private start": neighbour.aim_at_starts,
    "private step": neighbour.aim_at_steps,
    "weak randomness": weak_randomness.aim,
}


@each("topology", [PETERSEN, ARCS])
@each("name", PLANTED)
@each("law", LAWS)
def test_a_leak_draws_other_shares_of_the_same_kind(law, name, topology):
    scene, leak = scene_of(law, topology), PLANTED[name]
    if not leak.fits(scene):
        return
    altered = leak(scene)
    sound, spoilt = scene.batch(2**70, 4), altered.batch(2**70, 4)
    assert spoilt.shares.values.shape == sound.shares.values.shape
    assert spoilt.shares.values.dtype == altered.law.dtype
    assert sound.shares.values.tobytes() != spoilt.shares.values.tobytes()
    assert altered.topology == topology
    assert set(leak.coalition(topology)) < set(topology.parties)
    # Masks of planted leaks still add up to zero: a result would not show them.
    total = altered.law.wrap(spoilt.masks.sum(axis=0))
    assert np.abs(total.astype(np.float64)).max() < 1e-9


def test_promises_stay():
    scene = scene_of("lattice")
    for name, leak in PLANTED.items():
        altered = leak(scene)
        assert altered.width == scene.width
        assert (altered.law is scene.law) == (name != "floats")
        assert leak.found_by


@each("name", PLANTED)
@each("law", LAWS)
def test_every_leak_is_found_by_all_who_must(law, name):
    scene, leak = scene_of(law, RING), PLANTED[name]
    if not leak.fits(scene):
        return
    altered, coalition = leak(scene), leak.coalition(RING)
    assert set(leak.found_by) <= {*AIMS, "few seeds"}
    for attack in set(leak.found_by) & set(AIMS):
        player = AIMS[attack](altered, coalition)
        assert player.attack == attack
        right, trials = rate_of(player, 600)
        assert clopper_pearson(right, trials, 1e-6)[0] > player.promised


@each("law", LAWS)
def test_no_attack_finds_anything_in_a_sound_scene(law):
    """Some fifty outcomes, each wrong at most once in a million times."""
    scene = scene_of(law, RING)
    for coalition in ("", "0", "01", "02", "012", "0123"):
        for attack, aim in AIMS.items():
            player = aim(scene, [*coalition])
            if player is None:
                continue
            assert player.attack == attack
            assert isinstance(player, AttackPlayer)
            right, trials = rate_of(player, 100)
            low, high = clopper_pearson(right, trials, 1e-6)
            # The law of float64 is for simulation only, and this is why.
            leaks = (law, attack) == ("gaussian", "float bits")
            assert (low > player.promised) == leaks
            if player.promised == 1.0:
                assert high == 1.0


def test_what_fits_where():
    assert not PLANTED["a tenth of sigma"].fits(scene_of("uniform"))
    assert not PLANTED["a star only"].fits(scene_of(topology=Topology.family("star:5")))
    pair = Topology.from_edges([("a", "b")])
    assert not PLANTED["one share sent twice"].fits(scene_of(topology=pair))


def test_the_places_of_leaks():
    path = Topology.family("path:4")
    assert hub_to_attack(path) == 1
    assert leaf_to_attack(path) == (0, 1)
    assert bystander_of_attack(path) == ("0",)


def test_a_star_keeps_the_hubs_edges_only():
    scene = scene_of(topology=PETERSEN)
    values = PLANTED["a star only"](scene).batch(1, 2).shares.values
    sound = sound_shares_for_attack(PETERSEN, scene.law, 1, 2 * scene.width).values
    at_hub = (PETERSEN.edges == hub_to_attack(PETERSEN)).any(axis=1)
    assert np.array_equal(values[at_hub], sound[at_hub])
    assert not values[~at_hub].any()
