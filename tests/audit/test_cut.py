"""A part that no share leaves is named exactly; all other parts are not."""

import numpy as np

from cases import each
from scenes import LAWS, PETERSEN, RING, rate_of, scene_of
from veilsum.audit import cut
from veilsum.audit.attack import AttackPlayer, Outcome
from veilsum.audit.planted import PLANTED
from veilsum.graphs.topology import Topology

BARBELL = Topology.from_edges(
    [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (4, 6)]
)
# Petersen's first party has these neighbours (THEORY 2): without them it is alone.
AROUND = ["1", "4", "5"]
LEAKS = [name for name, leak in PLANTED.items() if "hidden cut" in leak.found_by]


@each("law", LAWS)
@each(
    ("topology", "coalition", "part"),
    [(BARBELL, ["3"], (0, 1, 2)), (PETERSEN, AROUND, (0,)), (RING, ["0", "2"], (1,))],
)
def test_a_cut_names_the_sum_of_a_part(law, topology, coalition, part):
    player = cut.aim(scene_of(law, topology), coalition)
    assert isinstance(player, AttackPlayer)
    assert (player.attack, player.parts, player.promised) == ("cut", (part,), 1.0)
    right, trials = rate_of(player, 60)
    assert right == trials


def test_the_sum_of_a_part_has_nine_digits():
    """PRIVACY 3b: barbell, sigma = 1e3, to rounding error."""
    scene = scene_of("gaussian", BARBELL, width=1, sigma=1e3)
    player = cut.aim(scene, ["3"])
    values = np.array([[0.1], [0.7], [-2.5], [9.0], [1.0], [1.0], [1.0]])
    sight = scene.batch(1, 50).sight(["3"], values)
    rows = [sight.honest.index(i) for i in player.parts[0]]
    assert abs(sight.stripped[rows].sum(axis=0) + 1.7).max() < 1e-9


@each("law", LAWS)
@each("topology", [PETERSEN, BARBELL])
def test_sound_masks_hide_every_other_part(law, topology):
    scene = scene_of(law, topology, width=1)
    assert cut.aim(scene, ["0"]) is None
    player = cut.aim_cut_attack_deeper(scene, ["0"])
    assert player.attack == "hidden cut"
    right, trials = rate_of(player, 300)
    assert right == 0
    # Had it been right once, that would have been found.
    found = Outcome(
        attack="",
        coalition=(),
        about="",
        trials=trials,
        successes=1,
        promised=player.promised,
    )
    assert found.exceeds(0.01)


@each("law", ["gaussian", "uniform"])
@each("leak", LEAKS)
@each("topology", [PETERSEN, BARBELL])
def test_planted_cuts_are_found_in_every_trial(law, leak, topology):
    scene = scene_of(law, topology)
    player = cut.aim_cut_attack_deeper(scene, PLANTED[leak].coalition(topology))
    right, trials = rate_of(player, 60, scene=PLANTED[leak](scene))
    assert right == trials


def test_which_parts_are_tried():
    path = Topology.family("path:4")
    player = cut.aim_cut_attack_deeper(scene_of(topology=path), [])
    singles = {(i,) for i in range(4)}
    assert {*player.parts} == singles | {(0, 1), (2, 3), (1, 2, 3), (0, 1, 2)}
    # The middle of a cut path: those left are alone, and nothing deeper is promised.
    assert cut.aim_cut_attack_deeper(scene_of(topology=path), ["1", "2"]) is None
    assert cut.aim(scene_of(topology=path), ["1", "2"]).parts == ((0,),)
    assert (
        "2 parts"
        in cut.aim_cut_attack_deeper(scene_of(topology=path), ["0", "1"]).about
    )


@each("law", LAWS)
def test_one_honest_party_has_no_secrets(law):
    scene = scene_of(law)
    player = cut.aim_at_one(scene, [str(i) for i in range(9)])
    assert isinstance(player, AttackPlayer)
    assert (player.attack, player.about) == ("one honest party", "what 9 holds")
    right, trials = rate_of(player, 60)
    assert right == trials
    # The twin: with a second one nothing is named.
    assert cut.aim_at_one(scene, [str(i) for i in range(8)]) is None
    two = cut.LonePartyAttack(scene, tuple("01234568"), ((9,),), 1.0)
    assert rate_of(two, 200)[0] == 0
