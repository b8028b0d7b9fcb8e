"""What parties hold in attacks is in the law's numbers, and luck is bounded."""

import numpy as np

from cases import each
from scenes import LAWS, PETERSEN, RING, SUMS_ONLY, scene_of
from veilsum.audit.made_up import (
    LUCK,
    attack_hits_exactly,
    attack_hits_nearly,
    attack_numbers_as_floats,
    best_chance,
    executions_per_trial,
    honest_pair_easiest_to_attack,
    honest_pieces_of_scene,
    made_up_holdings,
    made_up_numbers,
    most_likely_share_probability,
    step_of_scene,
)
from veilsum.graphs.topology import Topology
from veilsum.numbers.limbs import is_wide_integer_type


@each("law", LAWS)
def test_holdings_come_back_as_whole_steps(law):
    scene = scene_of(law)
    whole = made_up_holdings(scene)
    assert len(np.unique(whole, axis=0)) == len(whole)
    held = made_up_numbers(scene, whole)
    assert held.dtype == (
        object if is_wide_integer_type(scene.law.dtype) else scene.law.dtype
    )
    assert np.array_equal(
        attack_numbers_as_floats(scene, held) / step_of_scene(scene), whole
    )
    assert attack_hits_exactly(scene, held, held).all()
    other = made_up_numbers(scene, whole + np.eye(len(whole), 3, dtype=int))
    assert attack_hits_exactly(scene, other, held).tolist() == [False] * 3 + [True] * 7
    assert (
        attack_hits_nearly(
            scene,
            attack_numbers_as_floats(scene, other),
            attack_numbers_as_floats(scene, held),
        ).sum()
        == 7
    )


@each("law", LAWS)
def test_luck_is_rare(law):
    """No number of a share is met more often than said, and a trial has enough."""
    scene = scene_of(law, width=1)
    shares = scene.batch(1, 400).shares.values.ravel()
    _, counts = np.unique(shares, return_counts=True)
    bound = most_likely_share_probability(scene.law)
    # Of twelve thousand draws hardly ever four are the same by chance.
    assert counts.max() <= 3 + bound * shares.size
    for tries in (1, 1000):
        assert tries * bound ** executions_per_trial(scene, tries) <= LUCK * (1 + 1e-9)


def test_no_masks_need_no_luck():
    assert best_chance(scene_of(), ["0"], np.zeros((10, 3), dtype=int)) == 0.5


@each("law", LAWS)
def test_what_every_view_reveals_is_told_for_sure(law):
    scene = scene_of(law, RING, width=1)
    shift = np.array([[0], [1], [-1], [0], [0]])
    hidden = best_chance(scene, ["0"], shift)
    assert 0.5 <= hidden < 0.6
    assert (hidden == 0.5) == (law in SUMS_ONLY)
    # More colluders see no less, but for what proofs of different graphs give away; and
    # the sum of 1 and 2 is seen by all.
    assert best_chance(scene, ["0", "3"], shift) >= hidden - 1e-6
    assert best_chance(scene, ["0", "3"], np.abs(shift)) == 1.0
    # Party 1 knows what it holds itself.
    assert best_chance(scene, ["1"], shift) == 1.0


def test_places():
    path = Topology.family("path:5")
    assert honest_pair_easiest_to_attack(path, []) == (0, 4)
    assert honest_pair_easiest_to_attack(path, ["1", "3"]) is None
    assert honest_pieces_of_scene(path, ["2"]) == ((0, 1), (3, 4))
    first, second = honest_pair_easiest_to_attack(PETERSEN, ["0", "1"])
    assert {first, second} <= set(range(2, 10))
