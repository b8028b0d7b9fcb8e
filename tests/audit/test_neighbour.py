"""A neighbour names plain coefficients exactly, and masked ones as they are: masked."""

import numpy as np
import pytest

import veilsum as vs
from cases import each
from scenes import PETERSEN, RING, rate_of, scene_of
from veilsum.audit import neighbour
from veilsum.audit.attack import AttackPlayer, Scene
from veilsum.audit.neighbour import attack_solves_start, first_attacked_round
from veilsum.masks.laws import Masks
from veilsum.minimise.costs.remainders import SquaredNorm

REAL = ["gaussian", "lattice", "coarse lattice"]


def plain(topology=PETERSEN, width=3):
    return Scene(topology=topology, law=Masks("none").on(topology), width=width)


@pytest.mark.parametrize("topology", [PETERSEN, RING])
def test_plain_gradients_are_named(topology):
    player = neighbour.aim(plain(topology), ["0"])
    assert isinstance(player, AttackPlayer)
    assert player.promised == 1.0
    right, trials = rate_of(player, 100)
    assert right == trials


@each("law", REAL)
def test_masked_ones_are_not(law):
    player = neighbour.aim(scene_of(law, width=1), ["0", "1"])
    assert rate_of(player, 1000)[0] == 0


def test_what_is_named_is_what_everybody_has():
    """alpha~ itself, to nine digits of sigma."""
    effective = np.random.default_rng(1).normal(scale=1e3, size=(4, 7, 3))
    start = np.array([1.0, -2.0, 0.5])
    assert (
        np.abs(
            attack_solves_start(start, first_attacked_round(start, effective))
            - effective
        ).max()
        < 1e-9
    )


ALPHA = np.array([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25], [2.0, 2.0]])


def heard_in_a_run(law, **masks):
    """Return a run of dgd, and what party 0 heard first and after a round."""
    settings = vs.minimise.Settings(
        method="dgd", iterations=2, history=1, recentre=False, engine="numpy"
    )
    run = vs.solve(
        [vs.minimise.Cost.affine(row, remainder=SquaredNorm(1.0)) for row in ALPHA],
        topology=vs.Topology.family("complete:4"),
        corrupted=(),
        domain=vs.minimise.Box(-1e9, 1e9, dim=2),
        law=law,
        seed=4,
        settings=settings,
        **masks,
    )
    view = run.view(["0"])
    assert view.heard == ("0", "1", "2", "3")
    return run, view.estimates[0], view.estimates[1]


def test_a_run_of_the_package_without_masks_is_named():
    _, first, second = heard_in_a_run("none")
    named = attack_solves_start(first[0], second)
    assert np.abs(named - ALPHA).max() < 1e-9
    assert np.abs(first - first[0]).max() == 0.0


@pytest.mark.parametrize("law", ["gaussian", "lattice"])
def test_a_run_of_the_package_with_masks_names_effective_costs(law):
    run, first, second = heard_in_a_run(law, sigma=10.0)
    named = attack_solves_start(first[0], second)
    assert np.abs(named - run.effective.coefficients).max() < 1e-9
    assert np.abs(named - ALPHA).min() > 1e-3
    # Where they start says nothing: one public point for all.
    assert np.abs(first - first[0]).max() == 0.0


@each("law", REAL)
@each("aim", [neighbour.aim_at_starts, neighbour.aim_at_steps])
def test_public_starts_and_steps_name_nothing(law, aim):
    player = aim(scene_of(law), ["0", "1"])
    assert isinstance(player, AttackPlayer)
    assert rate_of(player, 1000)[0] == 0


def own_minimum(private, effective, start):
    """Say first where the private cost is least."""
    return -private / 2.0


def own_step(private, effective, start):
    """Go a part of that way, the less the larger the private coefficients are."""
    part = 1.0 / (1.0 + np.abs(private).max(axis=-1, keepdims=True))
    return start + part * (first_attacked_round(start, effective) - start)


@each("law", REAL)
@each(
    ("aim", "habit"),
    [(neighbour.aim_at_starts, own_minimum), (neighbour.aim_at_steps, own_step)],
)
def test_private_ones_are_named(law, aim, habit):
    right, trials = rate_of(aim(scene_of(law), ["0", "1"], habit=habit), 200)
    assert right == trials


def test_who_hears_nothing():
    assert neighbour.aim(scene_of(), []) is None
    assert neighbour.aim(scene_of("uniform"), ["0"]) is None
    # Both neighbours of party 0 collude: it is alone, and a matter of `cut`.
    assert neighbour.aim(scene_of(topology=RING), ["1", "4"]).heard == (2, 3)
    assert neighbour.aim_at_starts(plain(), ["0"]) is None
    assert neighbour.aim_at_steps(plain(), ["0"]) is None
