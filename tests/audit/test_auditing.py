"""An audit finds what is there, says what it could miss, and checks itself."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import veilsum as vs
from audit.questions import named
from cases import each
from refusals import refused
from veilsum.audit import auditing, real_parties
from veilsum.audit.attack import Outcome, Scene, play_on_batch
from veilsum.audit.auditing import Audit, audit, audit_executions, coalitions_of
from veilsum.audit.planted import PLANTED
from veilsum.graphs.connectivity import graph_components
from veilsum.masks.laws import Masks
from veilsum.scale.pieces import map_pieces

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FIVE = vs.Topology.family("complete:5")
PETERSEN = vs.Topology.family("petersen")
MASKS = {
    "gaussian": Masks("gaussian", 1.0),
    "lattice": Masks("lattice", 1.0, 20),
    "uniform": Masks("uniform"),
}


# One law object for all: tables of seeds are made once.
@cache
def scene(graph=FIVE, masks=None, width=3):
    masks = masks or MASKS["lattice"]
    return Scene(topology=graph, law=masks.on(graph), width=width)


def counted(executions, depth="quick", **found):
    """Return an audit that counted so many executions, and found nothing else."""
    return Audit(
        seed=0,
        depth=depth,
        distance=1.0,
        executions=executions,
        asked=executions,
        **{"outcomes": (), "controls": (), "curves": (), **found},
    )


@pytest.mark.statistical
def test_sound_masks_are_not_accused_and_controls_hold():
    """False alarm at most once in 20 audits of other seeds; this one is fixed."""
    found = audit(scene(), [("0", "1"), ("4",)], executions=4_000, seed=3)
    assert found.findings == ()
    assert found.broken == ()
    assert found.exit_code == 0
    names = {one.attack for one in found.outcomes}
    assert {"likelihood ratio", "learned likelihood ratio", "hidden cut"} <= names
    planted = {one.name for one in found.controls if "planted" in one.name}
    fitting = sum(leak.fits(scene()) for leak in PLANTED.values())
    assert len(planted) == 1 + fitting  # and one of a single number
    assert "would have been found with 90% probability" in found.verdict
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))


def test_a_finding_that_chance_may_make_says_so_and_a_plain_one_does_not():
    def by(successes):
        one = Outcome(
            attack="guess",
            coalition=("4",),
            about="two inputs",
            trials=10_000,
            successes=successes,
            promised=0.5,
        )
        return counted(400, outcomes=(one,))

    assert by(5_050).exit_code == 0
    assert by(5_110).exit_code == 1
    assert "another --seed" in by(5_110).verdict
    assert by(5_400).exit_code == 1
    assert "another --seed" not in by(5_400).verdict


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", ["a tenth of sigma", "a star only", "masks used again"]
)
def test_planted_leaks_are_findings_of_an_audit(name):
    leak = PLANTED[name]
    spoilt = leak(scene(PETERSEN))
    group = leak.coalition(PETERSEN)
    found = audit(spoilt, [group], executions=2_000, seed=3)
    assert found.findings
    assert found.exit_code in {1, 3}


SOUND = {
    "gaussian": (Masks("gaussian", 1.0), 1),
    "lattice": (Masks("lattice", 1.0, 20), 2),
    "uniform": (Masks("uniform", unit=0.01), 2),
}


@cache
def sound(law):
    """Four to six parties that do as they promise; or a question put to five."""
    if law == "a question":
        return auditing.scene_of_audit(named("a cost"))
    masks, width = SOUND[law]
    graph = vs.Topology.family({1: "complete:4", 2: "ring:6"}[width])
    return scene(graph, masks, width)


def accused(law, seed, depth):
    asked = sound(law)
    group = asked.topology.parties[:1]
    found = audit(asked, [group], executions=500, depth=depth, seed=seed)
    assert found.broken == ()
    return found.exit_code != 0


@pytest.mark.statistical
def test_of_20_sound_audits_no_more_are_accused_than_is_stated(monkeypatch):
    """Each is at most 5 % of the time: more than 5 of 20 three times in 10,000."""
    monkeypatch.setattr(auditing, "PLANTED", {})
    laws = [*SOUND, "a question"]
    assert sum(accused(laws[k % 4], k, "quick") for k in range(20)) <= 5


@pytest.mark.slow
@pytest.mark.statistical
def test_of_200_sound_audits_no_more_are_accused_than_is_stated():
    """Each is at most 5 % of the time: more than 21 of 200 once in 1,000.

    Whole ones, with all controls, none of which may fail; one after another of a law,
    since its table of seeds is made once.
    """
    laws = [*SOUND, "a question"]
    found = [
        accused(laws[k // 50], k, "standard" if k % 2 else "quick") for k in range(200)
    ]
    assert sum(found) <= 21


def test_the_same_seed_gives_the_same_audit_however_it_is_spread():
    from concurrent.futures import ThreadPoolExecutor

    options = {"executions": 500, "depth": "quick", "seed": 5}
    first = audit(scene(), [("0",)], **options)
    with ThreadPoolExecutor(3) as pool:
        second = audit(scene(), [("0",)], on=pool, **options)
    assert first.to_dict() == second.to_dict()
    other = audit(scene(), [("0",)], **{**options, "seed": 6})
    assert other.to_dict() != first.to_dict()


@each("law", MASKS)
def test_guessers_who_share_what_they_see_guess_as_each_alone(law):
    """On the coalition's own view of each world, and on noise that is moved."""
    here, groups = scene(masks=MASKS[law]), [("0", "1"), ("4",), ()]
    players = auditing._likelihood_guessers(here, groups, 1.0, 3)
    shared = auditing.AuditPlaying(here, tuple(players), 500)("some", 9)
    worlds = auditing.coins_for_worlds(
        auditing.seed_of_piece(9, "some, which world"), 500
    )
    alone = [play_on_batch(here.batch(9, 500), one, worlds) for one in players]
    assert shared.counts.tolist() == [list(one) for one in alone]


def test_an_audit_whose_controls_fail_says_that_it_is_broken(monkeypatch):
    """An adversary that always says the same finds no leak, and must not pass."""
    monkeypatch.setattr(
        auditing, "PLANTED", {"nothing": replace(PLANTED["a star only"], alter=same)}
    )
    found = audit(scene(PETERSEN), [("0",)], executions=500, depth="quick", seed=1)
    assert [one.name for one in found.broken] == ["planted: nothing"]
    assert found.exit_code == 3
    assert "broken" in found.verdict


def same(scene):
    return scene


def test_a_guesser_that_is_wrong_on_purpose_breaks_the_audit(monkeypatch):
    right = auditing.LikelihoodRatio.scores
    monkeypatch.setattr(
        auditing.LikelihoodRatio, "scores", lambda self, left: -right(self, left)
    )
    found = audit(scene(), [("0",)], executions=500, depth="quick", distance=4.0)
    assert "reversed" in {one.name for one in found.broken}


def test_ctrl_c_keeps_what_there_is(monkeypatch):
    def interrupted(work, keys, **options):
        yield from map_pieces(work, keys[:2], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(auditing, "BATCH_NUMBERS", 6_000)
    monkeypatch.setattr(auditing, "map_pieces", interrupted)
    small = scene(width=1)
    player = auditing.aim(small, ("0",), 1.0)
    tally, done = auditing.play_attacks(small, [player], 10_000, seed=1, what="play")
    assert done == 2 * auditing.executions_per_batch(small)
    assert tally.counts[0, 0] == done


def test_memory_does_not_grow_with_executions():
    assert auditing.executions_per_batch(scene()) == auditing.executions_per_batch(
        scene()
    )
    arcs = 2 * FIVE.n_edges
    assert (
        auditing.executions_per_batch(scene(width=132)) * arcs * 132
        <= auditing.BATCH_NUMBERS
    )


def test_power_is_said_as_an_excess_of_divergence():
    outcome = Outcome(
        attack="likelihood ratio",
        coalition=("0",),
        about="two inputs",
        trials=100_000,
        successes=51_000,
        promised=0.51,
    )
    found = counted(100_000, outcomes=(outcome,) * 10)
    assert found.power.startswith("A divergence 2.59 times what is promised")


@each(("asked", "many"), [("all:2", 10), ("all:0", 1), ("0,1;4", 2), ("worst", 1)])
def test_coalitions_are_asked_for_by_a_word(asked, many):
    assert len(coalitions_of(FIVE, asked, 1)) == many


@each("asked", ["all:4", "all:x", "nobody"])
def test_other_words_are_refused(asked):
    with pytest.raises(vs.VeilsumError):
        coalitions_of(FIVE, asked, 1)


def test_too_many_coalitions_are_refused_before_work_is_done():
    big = vs.Topology.family("complete:40")
    with refused("too-many-coalitions", vs.InvalidInputError, mentions=("9,880",)):
        coalitions_of(big, "all:3", 1)
    with refused("too-many-coalitions", vs.InvalidInputError, mentions=("501",)):
        coalitions_of(big, ";".join(["0"] * 501), 1)
    assert coalitions_of(big, "1,0;0,1;0", 1) == [("0", "1"), ("0",)]


def test_a_distance_beyond_what_was_agreed_on_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(auditing, "PLANTED", {})
    asked = auditing.scene_of_audit(named("logistic"))
    assert audit(asked, [("ann",)], executions=20, depth="quick").executions == 20
    with refused("distance-too-large", vs.InvalidInputError):
        audit(asked, [("ann",)], executions=20, depth="quick", distance=1e30)


def test_too_few_executions_say_that_nothing_would_be_found(monkeypatch):
    monkeypatch.setattr(auditing, "PLANTED", {})
    found = audit(scene(), [("0",)], executions=4, depth="quick", seed=2)
    assert "so few executions that no excess" in found.power


def test_executions_are_counted():
    assert audit_executions(scene(), "standard") == 100_000
    with refused("executions-not-positive", vs.InvalidInputError, mentions=("1",)):
        audit_executions(scene(), "quick", 0)
    with refused("no-coalition", vs.InvalidInputError):
        audit(scene(), [])


def test_a_trade_off_is_the_exact_one_of_gaussian_masks():
    """Within four standard errors of 20,000 executions, at every threshold."""
    from scipy.special import ndtr, ndtri

    small = scene(masks=Masks("gaussian", 1.0), width=1)
    player = auditing.aim(
        small, ("0",), auditing.distance_for_attack_success(small, ("0",), 0.7)
    )
    tally, _ = auditing.play_attacks(small, [player], 20_000, seed=2, what="play")
    curve = auditing.AttackTradeOff(
        coalition=("0",),
        promised=player.promised,
        scores=tally.scores[0],
    )
    alarms, hits = curve.rates
    mu = np.sqrt(2.0 * curve.divergence)
    inside = (alarms > 0) & (alarms < 1)
    exact = ndtr(mu + ndtri(alarms[inside]))
    assert np.abs(hits[inside] - exact).max() < 4 * 0.5 / np.sqrt(10_000) * 2
    assert curve.area == pytest.approx(ndtr(mu / np.sqrt(2)), abs=0.015)
    # Phi(Phi^-1(1 - a) - mu) in numbers of its own: mu = 1, a = 5 %, 50 %.
    plain = replace(curve, promised=float(ndtr(0.5)))
    assert plain.least_misses(np.array([0.05, 0.5])) == pytest.approx(
        [0.740489, 0.158655], abs=1e-6
    )


def curve_of(really, *, promised=0.7, executions=40_000, gaussian=True):
    """Scores of two normal worlds that are so many deviations apart."""
    chance = np.random.default_rng(4)
    half = executions // 2
    scores = [
        auditing._binned_attack_scores(chance.standard_normal(half) + sign * really / 2)
        for sign in (-1, 1)
    ]
    return auditing.AttackTradeOff(
        coalition=("0",),
        promised=promised,
        scores=np.stack(scores),
        gaussian=gaussian,
    )


def test_smaller_errors_than_promised_are_found_and_the_promised_ones_are_not():
    mu = np.sqrt(2.0 * curve_of(0.0).divergence)
    for gaussian in (True, False):
        assert not curve_of(mu, gaussian=gaussian).crosses(0.05)
        assert curve_of(1.15 * mu, gaussian=gaussian).crosses(0.05)
    assert not curve_of(0.0, promised=0.5).crosses(0.05)
    assert curve_of(0.1, promised=0.5).crosses(0.05)
    assert not curve_of(9.0, promised=1.0).crosses(0.05)


def test_a_curve_is_crossed_where_even_odds_show_nothing():
    """A score that is sometimes sure: fewer false alarms at no fewer misses there."""
    sound = curve_of(1.0, promised=0.75)
    sure = sound.scores.copy()
    sure[0, 110:] = 0  # no false alarm beyond three deviations
    sure[1, 115] += 600
    sure[1, :80] = sure[1, :80] * 1.04
    spoilt = replace(sound, scores=sure)
    alarms, hits = spoilt.rates
    right = (1 - alarms[80] + hits[80]) / 2
    assert right < 0.75
    assert spoilt.crosses(0.05)
    assert not sound.crosses(0.05)
    found = counted(40_000, curves=(spoilt,))
    assert found.exit_code == 1
    assert "smaller errors than promised" in found.verdict
    assert found.to_dict()["crossed"] == [["0"]]


def test_points_are_those_of_the_counts():
    curve = curve_of(1.0)
    alarms, hits = curve.rates
    middle = curve.points[len(curve.points) // 2]
    assert middle["false_alarms"] == alarms[80]
    assert middle["misses"] == pytest.approx(1 - hits[80])
    assert [one["promised"] for one in curve.points] == pytest.approx(
        curve.least_misses(alarms[auditing.POINTS]).tolist()
    )
    assert len(curve.points) == 13


def test_the_worst_coalition_is_who_cuts_and_a_named_one_is_there_too():
    ring = vs.Topology.family("ring:6")
    (cut,) = coalitions_of(ring, "worst", 2)
    honest = [i for i in range(6) if str(i) not in cut]
    assert len(graph_components(ring.induced(honest))) == 2
    both = coalitions_of(FIVE, "worst", 1, named=("4", "2"))
    assert both == [both[0], ("2", "4")]
    assert coalitions_of(FIVE, "worst", 0, named=("2",)) == [(), ("2",)]
    assert coalitions_of(FIVE, "worst", 0) == [()]


def test_residues_are_audited_alike_whatever_they_count():
    """Units of 1 beside units of 2^-90: by their real sizes one would drown others."""
    from fractions import Fraction

    from veilsum.numbers.units import UnitCounts

    counts = UnitCounts((Fraction(1), Fraction(1, 2**90)), 152)
    law = Masks("uniform").for_sums(FIVE, counts)
    far = auditing.scene_of_one_word(Scene(topology=FIVE, law=law, width=2))
    player = auditing.aim(
        far, ("0",), auditing.distance_for_attack_success(far, ("0",), 0.6)
    )
    assert player.promised == 0.5
    tally, done = auditing.play_attacks(far, [player], 4_000, seed=1, what="play")
    # Four standard errors of as many coins.
    assert tally.counts[0, 1] / done == pytest.approx(0.5, abs=0.032)
    moved = player.held[1, 0] - player.held[0, 0]
    assert (moved != 0).any(axis=0).all()  # in both columns


def test_ctrl_c_among_further_attacks_keeps_them_and_names_the_rest(monkeypatch):
    masks = counted(10, "standard")
    monkeypatch.setattr(auditing, "audit", lambda *_args, **_options: masks)
    monkeypatch.setattr(auditing, "TRIALS", {"standard": 1})
    monkeypatch.setattr(auditing, "RUNS", {"standard": 1})
    monkeypatch.setattr(real_parties, "MOST_PARTIES", 0)  # which take long

    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    told = []
    asked = named("a cost")
    how = {"progress": lambda *one: told.append(one), "seed": 1}
    whole = auditing.audit_question(asked, scene(), [("ann",)], **how)
    names = {one.attack for one in whole.outcomes}
    assert {auditing.FRAMES, auditing.TAPPED} <= names  # frames are really compared
    total = told[-1][1]
    assert told == [(done, total) for done in range(1, total + 1)]
    monkeypatch.setattr(auditing, "interference_same_frames", interrupted)
    found = auditing.audit_question(asked, scene(), [("ann",)], **how)
    kept = {one.attack for one in found.outcomes}
    later = {auditing.unlisted.ATTACK, auditing.TAPPED, auditing.RESTARTED}
    later.add(auditing.FRAMES)
    assert kept == names - later
    stopped = [one for one in found.skipped if "stopped by hand" in one]
    assert stopped[0].startswith(auditing.FRAMES)
    assert stopped[-1].startswith("clocks")
    # Stopped while masks were played, nothing else is begun.
    monkeypatch.setattr(auditing, "audit", lambda *_a, **_o: replace(masks, asked=20))
    early = auditing.audit_question(asked, scene(), [("ann",)], **how)
    assert early.outcomes == ()
    assert len(early.skipped) >= len(stopped)
