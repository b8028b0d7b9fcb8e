"""Changed data under the same masks shows the change; under fresh ones it is a coin."""

import numpy as np

from cases import each
from scenes import LAWS, PETERSEN, RING, SUMS_ONLY, rate_of, scene_of
from veilsum.audit import reused
from veilsum.audit.attack import AttackPlayer, clopper_pearson
from veilsum.audit.planted import PLANTED

LEAKS = [name for name, leak in PLANTED.items() if "reused masks" in leak.found_by]


@each("law", LAWS)
def test_fresh_masks_leave_a_coin(law):
    player = reused.aim(scene_of(law), ["0", "1"])
    assert isinstance(player, AttackPlayer)
    low, high = clopper_pearson(*rate_of(player, 800), 1e-4)
    assert low < 0.5 < high
    assert low < player.promised < 0.56
    if law in SUMS_ONLY:
        assert player.promised == 0.5


@each("law", LAWS)
@each("leak", LEAKS)
def test_reused_masks_show_every_change(law, leak):
    scene = scene_of(law)
    player = reused.aim(scene, PLANTED[leak].coalition(PETERSEN))
    right, trials = rate_of(player, 100, scene=PLANTED[leak](scene))
    assert right == trials


@each("law", LAWS)
def test_epochs_have_masks_of_their_own(law):
    scene = scene_of(law, RING)
    found = reused.attack_across_epochs(scene, ["0"], seed=3, trials=300)
    assert not found.exceeds(1e-4)
    assert found.interval(1e-4)[1] >= found.promised or found.promised > 0.5
    again = PLANTED["masks used again"](scene)
    assert reused.attack_across_epochs(again, ["0"], seed=3, trials=60).rate == 1.0


def test_the_change_is_recovered_to_nine_digits():
    """alpha~' - alpha~ = alpha' - alpha (PRIVACY 3c), in float64."""
    scene = PLANTED["masks used again"](scene_of("gaussian", sigma=1e3, width=1))
    values = np.random.default_rng(1).normal(size=(2, 10, 1))
    sight = scene.batch(5, 2).sight(["0"], values)
    change = sight.effective[:, 1] - sight.effective[:, 0]
    assert np.abs(change - (values[1] - values[0])[1:]).max() < 1e-9


def test_nobody_shares_masks():
    scene, coalition = scene_of(topology=RING), ["0", "1", "3"]
    assert reused.aim(scene, coalition) is None
    assert reused.attack_across_epochs(scene, coalition, seed=1) is None
