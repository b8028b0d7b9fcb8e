"""Two inputs are told apart as often as promised, by every coalition and law."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

import veilsum as vs
from cases import each
from veilsum.audit.attack import Outcome, Scene, play_on_batch
from veilsum.audit.likelihood import (
    LikelihoodRatio,
    aim,
    covariance_of_attacked_noise,
    distance_for_attack_success,
    guesser_from_observations,
)
from veilsum.audit.made_up import attack_numbers_as_floats
from veilsum.masks.laws import Masks
from veilsum.numbers.units import UnitCounts
from veilsum.privacy.divergence import kl_divergence

GRAPHS = {
    "triangle": "complete:3",
    "five": "complete:5",
    "ring": "ring:6",
    "petersen": "petersen",
    "wheel": nx.wheel_graph(7),
    "cube": nx.hypercube_graph(3),
    "grid": nx.grid_2d_graph(3, 3),
    "random": nx.random_regular_graph(4, 12, seed=3),
    "barbell": nx.barbell_graph(4, 1),
    "bipartite": nx.complete_bipartite_graph(3, 4),
}


def topology(name):
    graph = GRAPHS[name]
    if isinstance(graph, str):
        return vs.Topology.family(graph)
    return vs.Topology.of(nx.convert_node_labels_to_integers(graph))


def coins(count, seed=0):
    return np.random.default_rng(seed).integers(2, size=count)


def counted(scene, player, executions, seed=1):
    trials, right = play_on_batch(
        scene.batch(seed, executions), player, coins(executions, seed + 1)
    )
    return Outcome(
        attack=player.attack,
        coalition=player.coalition,
        about=player.about,
        trials=trials,
        successes=right,
        promised=player.promised,
    )


@pytest.mark.statistical
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_measured_is_what_is_promised(name):
    """90 cases; each is outside its interval by chance once in 1e5 runs of them."""
    graph = topology(name)
    for k, coalition in enumerate([(), graph.parties[:1], graph.parties[-1:]]):
        for sigma in (0.3, 1.0, 25.0):
            scene = Scene(
                topology=graph, law=Masks("gaussian", sigma).on(graph), width=2
            )
            player = aim(
                scene, coalition, distance_for_attack_success(scene, coalition, 0.65)
            )
            found = counted(scene, player, 4_000, seed=7 + k)
            assert found.promised == pytest.approx(0.65, abs=1e-9)
            assert not found.exceeds(1e-7)
            assert found.interval(1e-7)[1] >= found.promised


@pytest.mark.statistical
def test_the_paper_s_example_is_told_apart_in_63_8_percent():
    """False alarm once in a million: 4 s.e. of 100,000 runs are 0.6 %."""
    triangle = vs.Topology.family("complete:3")
    scene = Scene(topology=triangle, law=Masks("gaussian", 1.0).on(triangle), width=1)
    held = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [1.0], [3.0]])
    player = aim(scene, ["2"], np.sqrt(2.0))
    player = LikelihoodRatio(**{**vars(player), "held": np.stack(held)[:, None]})
    if player.form[0, 0] < 0:  # an eigenvector has no sign of its own
        player = LikelihoodRatio(**{**vars(player), "form": -player.form})
    found = counted(scene, player, 100_000)
    assert found.promised == pytest.approx(0.638163, abs=1e-6)
    assert found.rate == pytest.approx(0.638163, abs=0.0076)


@each("name", ["petersen", "grid", "wheel"])
def test_the_pair_has_the_divergence_that_is_promised(name):
    graph = topology(name)
    scene = Scene(topology=graph, law=Masks("gaussian", 2.0).on(graph), width=3)
    coalition = graph.parties[:1]
    player = aim(scene, coalition, 1.5)
    a, b = player.held[:, 0]
    exact = kl_divergence(graph, a, b, sigma=2.0, corrupted=coalition)
    promise = vs.guarantee(graph, sigma=2.0, corrupted=coalition, distance=1.5)
    assert exact == pytest.approx(promise.epsilon * 1.5**2, rel=1e-9)
    assert player.promised == pytest.approx(promise.attacker_success, rel=1e-9)
    assert a.sum(axis=0) == pytest.approx(b.sum(axis=0), abs=1e-12)
    assert np.array_equal(a[0], b[0])  # the coalition's own


FIVE = vs.Topology.family("complete:5")
WHOLE = {
    "lattice": Masks("lattice", 1.0, 20).on(FIVE),
    "uniform": Masks("uniform").on(FIVE),
    "counts": Masks("uniform").for_sums(FIVE, UnitCounts((Fraction(1, 100),) * 4, 60)),
    "long counts": Masks("uniform").for_sums(
        FIVE, UnitCounts((Fraction(1, 100),) * 4, 100)
    ),
    "units": Masks("lattice", 100.0).for_sums(
        FIVE, UnitCounts((Fraction(1, 100), Fraction(1, 10)) * 2, 60)
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_keep_their_promise(name):
    """Five cases, each a false alarm once in 1e6."""
    scene = Scene(topology=FIVE, law=WHOLE[name], width=4)
    coalition = ("0", "1")
    player = aim(scene, coalition, distance_for_attack_success(scene, coalition, 0.6))
    zero, one = player.held[:, 0]
    assert np.array_equal(scene.law.wrap((one - zero).sum(axis=0)), one[0] * 0)
    found = counted(scene, player, 1_000)
    assert found.promised == pytest.approx(
        0.5 if "un" in name and name != "units" else 0.6, abs=1e-3
    )
    assert not found.exceeds(1e-6)
    assert found.interval(1e-6)[1] >= found.promised


@pytest.mark.statistical
@pytest.mark.parametrize("graph", ["petersen", "grid"])
def test_who_has_learned_does_no_better_on_a_sound_run(graph):
    """Each a false alarm once in 1e6."""
    graph = topology(graph)
    scene = Scene(topology=graph, law=Masks("gaussian", 1.0).on(graph), width=4)
    coalition = graph.parties[:1]
    player = aim(scene, coalition, distance_for_attack_success(scene, coalition, 0.7))
    moments = covariance_of_attacked_noise(
        scene, scene.batch(5, 4_000).noise(player.coalition)
    )
    rest = [i for i in range(graph.n_parties) if i != 0]
    exact = 2.0 * graph.induced(rest).laplacian.toarray()
    assert moments == pytest.approx(exact, abs=0.5)
    doubting = guesser_from_observations(scene, coalition, 1.0, moments)
    assert not counted(scene, doubting, 4_000).exceeds(1e-6)


def test_who_has_learned_finds_a_link_that_is_not_there():
    graph = vs.Topology.family("ring:6")
    path = vs.Topology.of(nx.relabel_nodes(nx.path_graph(6), str))
    masks = Masks("gaussian", 1.0)

    def without_a_link(_topology, law, root, size, epoch):
        shares = Scene(topology=graph, law=law, width=1).draw(
            graph, law, root, size, epoch
        )
        shares.values[0] = 0.0
        return shares

    assert graph.parties == path.parties
    scene = Scene(topology=graph, law=masks.on(graph), width=2, draw=without_a_link)
    moments = covariance_of_attacked_noise(scene, scene.batch(5, 2_000).noise(()))
    found = counted(
        scene,
        guesser_from_observations(
            scene, (), distance_for_attack_success(scene, (), 0.6), moments
        ),
        4_000,
    )
    assert found.exceeds(1e-6)


def test_nobody_guesses_about_one_party():
    star = vs.Topology.family("star:4")
    scene = Scene(topology=star, law=Masks("gaussian", 1.0).on(star), width=1)
    hub = next(p for p in star.parties if len(star.neighbours(p)) == 3)
    assert aim(scene, [hub], 1.0) is None


def test_differences_of_numbers_are_real_ones():
    law = WHOLE["units"]
    scene = Scene(topology=FIVE, law=law, width=4)
    some = np.array([[100, 10, 1, 1]], dtype=np.int64)
    assert attack_numbers_as_floats(scene, some).tolist() == [[1.0, 1.0, 0.01, 0.1]]
