"""Floats rule alternatives out for certain; whole numbers never do."""

import numpy as np
import pytest

from cases import each
from scenes import LAWS, PETERSEN, RING, TRIANGLE, coins, rate_of, scene_of
from veilsum.audit import float_bits
from veilsum.audit.attack import AttackPlayer, Scene
from veilsum.audit.planted import PLANTED
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.privacy.float_leak import float_excluded, mask_floats_of_leak

LEAK = PLANTED["floats"]
ARCS = Topology.from_edges([(2, 0), (2, 1), (1, 0)], directed=True)
EXACT = [law for law in LAWS if law != "gaussian"]


@each("law", EXACT)
@each("topology", [TRIANGLE, PETERSEN, ARCS])
def test_whole_numbers_rule_nothing_out(law, topology):
    player = float_bits.aim(scene_of(law, topology), LEAK.coalition(topology))
    assert isinstance(player, AttackPlayer)
    assert rate_of(player, 200)[0] == 0


@each("law", EXACT)
@each("topology", [TRIANGLE, PETERSEN, ARCS])
def test_planted_floats_are_found(law, topology):
    scene = LEAK(scene_of(law, topology))
    player = float_bits.aim(scene, LEAK.coalition(topology))
    right, trials = rate_of(player, 200)
    assert right > 0.2 * trials


@each(("sigma", "rate"), [(1.0, 0.711), (1e3, 0.648), (1e6, 0.644)])
def test_the_rates_of_decimals(sigma, rate):
    """PRIVACY 2.1: [.1, .2, .3] on a triangle; a standard error is 0.007."""
    scene = scene_of("gaussian", TRIANGLE, width=1, sigma=sigma)
    player = float_bits.aim(scene, ["2"])
    first = np.zeros(4000, dtype=np.int64)
    sight = scene.batch(3, 4000).sight(["2"], player.held[first, 0])
    assert player.play(sight, first).mean() == pytest.approx(rate, abs=0.03)


@each("topology", [TRIANGLE, PETERSEN, ARCS])
def test_the_truth_is_never_ruled_out(topology):
    scene = scene_of("gaussian", topology, sigma=1e3)
    player = float_bits.aim(scene, LEAK.coalition(topology))
    worlds = coins(2000)
    sight = scene.batch(5, 2000).sight(player.coalition, player.held[worlds, 0])
    # Asked about the true world instead of the other one.
    assert not player.play(sight, 1 - worlds).any()


def test_two_parties_with_one_edge():
    scene = scene_of(topology=RING)
    assert float_bits.aim(scene, ["0"]) is None
    assert float_bits.aim(scene, ["0", "2", "3"]) is None
    assert float_bits.aim(scene, ["0", "1", "2"]).pair == (3, 4)


@pytest.mark.parametrize("sigma", [1.0, 1e3])
def test_the_command_s_attack_rules_out_the_same_runs(sigma):
    """`veilsum attack float` shows three parties; an audit has any graph."""
    law = Masks("gaussian", sigma).on(TRIANGLE)
    scene = Scene(topology=TRIANGLE, law=law, width=1)
    batch, player = scene.batch(5, 2_000), float_bits.aim(scene, ("2",))
    sight = batch.sight(("2",), player.held[0, 0])
    found = player.play(sight, np.zeros(2_000, dtype=np.int64))
    views = mask_floats_of_leak(
        np.moveaxis(batch.shares.values, -1, 0), (0.1, 0.2, 0.3)
    )
    assert found.tolist() == float_excluded(views, 0.2, 0.1).tolist()
    assert 0 < found.sum() < 2_000
