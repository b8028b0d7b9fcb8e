"""Runs that are disturbed in every way keep the rules, and end with a right answer.

A schedule is a seed. When one fails, the message holds the two values that replay it.
"""

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest

from cases import each
from rules import broken_rules
from veilsum.drivers.faults import ClockJump, Crash, Faults, Partition
from veilsum.protocol.plan import ProtocolPolicy
from worlds import SUMS, Setting, effects_of, effects_until, replayed

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

GRAPHS = ("complete:5", "ring:5", "wheel:5", "grid:2x3", "circulant:6:1,2", "star:4")
KINDS = [
    kind
    for kind in product(
        ("lattice", "uniform", "gaussian"),
        ("one-shot", "nids", "sums"),
        ("flooding", "tree"),
    )
    if kind[:2] != ("uniform", "nids")  # residues cannot be drawn together
]
SMALL = [Setting("ring:4", *kind) for kind in KINDS]
by_kind = pytest.mark.parametrize(
    "setting", SMALL, ids=lambda s: f"{s.law}, {s.work}, {s.spread}"
)

# Schedules are checked in parcels, so that workers can share them.
PARCEL = 25


def schedule(seed):
    """A graph, a law, a work, a way to spread and a script of faults."""
    chance = Random(f"schedule {seed}")
    graph, kind = chance.choice(GRAPHS), chance.choice(KINDS)
    setting = Setting(graph, *kind, seed=seed, fresh=chance.random() < 0.7)
    return setting, Faults.drawn(seed, setting.parties)


def check_parcel(first):
    for seed in range(first, first + PARCEL):
        replayed(*schedule(seed))


@pytest.mark.parametrize("first", range(0, 50, PARCEL))
def test_the_rules_hold_on_random_schedules(first):
    check_parcel(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, PARCEL))
def test_the_rules_hold_on_many_random_schedules(first):
    check_parcel(first)


@each("seed", range(5))
def test_a_seed_repeats_the_whole_history(seed):
    setting, faults = schedule(seed)
    one, two = (setting.world(faults).run() for _ in range(2))
    assert [story(event) for event in one.history] == [
        story(event) for event in two.history
    ]


def story(event):
    detail = event.detail
    known = detail if isinstance(detail, bytes | str | float) else type(detail).__name__
    return event.time, event.party, event.what, event.peer, known


# Nothing goes wrong


@each("graph", [*GRAPHS, "petersen", "complete:2", "path:6"])
@each("spread", ["flooding", "tree"])
def test_an_undisturbed_run_ends_with_the_right_answer(graph, spread):
    setting = Setting(graph, spread=spread)
    world = replayed(setting, Faults())
    assert world.finished.keys() == set(setting.parties)
    assert not world.complaints
    for finish in world.finished.values():
        assert finish.parties == setting.parties
        assert finish.signatures.keys() == set(setting.parties)
        assert np.abs(finish.result - setting.answer()).max() < 1e-6


@by_kind
def test_every_kind_of_run_ends_undisturbed(setting):
    world = replayed(setting, Faults())
    assert world.finished.keys() == set(setting.parties)
    epochs = SUMS if setting.work == "sums" else 1
    for node in world.nodes.values():
        assert len(node.charged) == epochs


def test_parties_end_with_one_answer():
    world = replayed(Setting("ring:5", "gaussian"), Faults())
    answers = {finish.result.tobytes() for finish in world.finished.values()}
    assert len(answers) == 1


# One fault at a time


HARMLESS = {
    "delay": Faults(delay=(2.0, 2.0)),
    "loss": Faults(loss=0.3),
    "duplication": Faults(duplicate=0.7),
    "reordering": Faults(delay=(0.01, 3.0)),
    "partition": Faults(partitions=(Partition(0.03, 20.0, frozenset({"0", "1"})),)),
    "clock set forward": Faults(jumps=(ClockJump("1", 0.04, 20.0),)),
    "clock set back": Faults(jumps=(ClockJump("1", 0.04, -20.0),)),
}


# Every fault under every law, in every work and spread both ways; all pairs if slow.
FAULTED = [
    pytest.param(s, fault, marks=() if (k // 2 + k + f) % 2 else pytest.mark.slow)
    for k, s in enumerate(SMALL)
    for f, fault in enumerate(HARMLESS)
]


@pytest.mark.parametrize(
    ("setting", "fault"),
    FAULTED,
    ids=lambda x: x if isinstance(x, str) else f"{x.law}, {x.work}, {x.spread}",
)
def test_a_fault_shorter_than_the_deadline_changes_nothing(setting, fault):
    world = replayed(setting, HARMLESS[fault])
    assert world.finished.keys() == set(setting.parties)
    for finish in world.finished.values():
        assert finish.parties == setting.parties


def test_a_clock_set_forward_makes_timers_run_out_at_once():
    """The party loses the others' patience, and nothing else."""
    jump = ClockJump("1", 0.04, 1000.0)
    world = Setting("complete:5", seed=3).world(Faults(jumps=(jump,), loss=0.3))
    assert broken_rules(world.run()) == []
    after = [e for e in world.history if e.party == "1" and e.time == 0.04]
    assert any(event.what == "settimer" for event in after)


def check_crashes(setting, party):
    """A short absence, at every place where one can begin: the run ends as it would."""
    quiet = setting.world().run()
    expected = quiet.finished["0"].result
    for after in range(1, quiet.nodes[party].effects + 1):
        crash = Crash(party, after, back=0.5)
        world = replayed(setting, Faults(crashes=(crash,)))
        assert world.finished.keys() == set(setting.parties), crash
        for finish in world.finished.values():
            assert finish.parties == setting.parties
            assert np.abs(finish.result - expected).max() <= world.plan.tolerance


@pytest.mark.parametrize("spread", ["flooding", "tree"])
def test_a_crash_after_any_effect_and_a_restart_change_nothing(spread):
    check_crashes(Setting("complete:3", spread=spread), "1")


@pytest.mark.slow
@pytest.mark.parametrize("party", ["0", "1"])
@by_kind
def test_no_kind_of_run_is_changed_by_a_crash_and_a_restart(setting, party):
    check_crashes(setting, party)


@each("party", ["0", "2"])
@each("spread", ["flooding", "tree"])
def test_a_party_that_vanishes_before_all_have_its_shares_is_dropped(party, spread):
    setting = Setting("complete:5", spread=spread)
    others = tuple(sorted(set(setting.parties) - {party}))
    first = effects_until(setting, party, "Share")
    for after in {*range(1, first, 6), first + 2}:
        world = replayed(setting, Faults(crashes=(Crash(party, after, None),)))
        assert sorted(world.finished) == list(others)
        for finish in world.finished.values():
            assert finish.parties == others
            assert np.abs(finish.result - setting.answer(others)).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("work", ["one-shot", "nids", "sums"])
@pytest.mark.parametrize("spread", ["flooding", "tree"])
def test_a_party_may_vanish_anywhere_and_no_rule_is_broken(spread, work):
    setting = Setting("complete:5", work=work, spread=spread)
    for after in range(1, setting.world().run().nodes["2"].effects, 3):
        replayed(setting, Faults(crashes=(Crash("2", after, None),)))


def check_old_disks(setting, step):
    effects = setting.world().run().nodes["1"].effects
    for after, stale in product(range(3, effects, step), (1, 3, 10, 1000)):
        crash = Crash("1", after, back=1.0, stale=stale)
        replayed(setting, Faults(crashes=(crash,)))


def test_a_restart_from_an_old_disk_breaks_no_rule():
    check_old_disks(Setting("complete:3"), 8)


@pytest.mark.slow
@by_kind
def test_no_kind_of_run_is_broken_by_an_old_disk(setting):
    check_old_disks(setting, 3)


def test_a_disk_that_forgot_its_promise_is_found_out():
    """A party that was ready, and does not know it any more, leaves by itself."""
    setting = Setting("complete:5")
    ready = effects_until(setting, "2", "Ready")
    crash = Crash("2", ready + 3, back=1.0, stale=1000)
    world = replayed(setting, Faults(crashes=(crash,)))
    assert world.aborted["2"].reason == "stale"


def test_a_party_that_gave_up_an_epoch_and_crashed_never_is_ready_for_it():
    """The notice is on disk before it is sent; the restarted party goes by it."""
    setting = Setting("complete:5")
    share = effects_until(setting, "2", "Persist")
    gone = Crash("2", share, None)
    world = setting.world(Faults(crashes=(gone,))).run()
    for party in ("0", "1"):
        after = list(effects_of(world, party)).index("Lost")
        for more in range(4):
            back = Crash(party, after + more, back=1.0)
            replayed(setting, Faults(crashes=(gone, back)))


# How runs end that cannot go on


def test_only_the_greater_part_of_a_network_in_two_goes_on():
    cut = Partition(0.0, 1e9, frozenset({"0", "1"}))
    world = replayed(Setting("ring:5"), Faults(partitions=(cut,)))
    assert world.aborted.keys() == {"0", "1"}
    assert {one.reason for one in world.aborted.values()} == {"timeout"}
    assert {finish.parties for finish in world.finished.values()} == {("2", "3", "4")}


@pytest.mark.parametrize("work", ["one-shot", "nids"])
def test_neighbours_stand_in_for_a_party_that_vanished_after_its_deposit(work):
    setting = Setting("complete:5", work=work, spread="tree")
    deposits = list(effects_of(setting.world().run(), "2"))
    after = len(deposits) - deposits[::-1].index("Deposit")
    world = replayed(setting, Faults(crashes=(Crash("2", after, None),)))
    for name in set(setting.parties) - {"2"}:
        assert world.finished[name].parties == setting.parties
        assert "2" not in world.finished[name].signatures
        gap = np.abs(world.finished[name].result - setting.answer()).max()
        assert gap <= world.plan.tolerance


def test_a_policy_without_stand_ins_waits_and_then_gives_up():
    policy = ProtocolPolicy(stand_in=False)
    setting = Setting("complete:5", spread="tree", policy=policy)
    after = effects_until(setting, "2", "Emission")
    world = replayed(setting, Faults(crashes=(Crash("2", after, None),)))
    reasons = Counter(one.reason for one in world.aborted.values())
    assert reasons == {"timeout": 4}


def test_a_policy_without_drops_waits_and_then_gives_up():
    setting = Setting("complete:5", policy=ProtocolPolicy(drop=False))
    world = replayed(setting, Faults(crashes=(Crash("2", 1, None),)))
    assert {one.reason for one in world.aborted.values()} == {"timeout"}


@each("seed", [1353, 2287, 2556])
def test_schedules_that_once_failed_keep_the_rules(seed):
    """A disk lost after the end; a blank disk that gave up at once; a returned party
    that did not wait anew.
    """
    replayed(*schedule(seed))
