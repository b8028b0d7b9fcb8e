"""A party that comes back repeats the rounds since its state was written last."""

import heapq
from dataclasses import replace
from itertools import islice

import msgspec
import pytest

from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.errors import LedgerError
from veilsum.minimise.rounds import MethodSchedules
from veilsum.protocol import plan
from veilsum.protocol.effects import Send
from veilsum.protocol.messages import Round
from veilsum.protocol.plan import ProtocolPolicy
from veilsum.protocol.recovery import RecoveredRun
from veilsum.protocol.work import SumWork
from worlds import Setting, least_squares, replayed

SETTING = Setting("ring:8", work="nids")
CHECKPOINT = 32


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """States are written more often, so that short runs have several writings."""
    monkeypatch.setattr(plan, "CHECKPOINT_ROUNDS", CHECKPOINT)


def test_long_messages_are_written_more_often():
    sizes = {1: 32, 1000: 32, 4096: 32, 8192: 16, 131072: 1, 10**7: 1}
    made = Setting("complete:4").plan()
    for size, rounds in sizes.items():
        found = replace(made, round_size=size).checkpoint
        assert found == rounds


def said(world):
    """Every round's frame, by party and number, as often as it was sent."""
    codec, found = world.plan.codec, {}
    for event in world.history:
        if event.what == "send":
            message = codec.decode(event.detail)
            if isinstance(message, Round):
                found.setdefault((event.party, message.index), []).append(event.detail)
    return found


def effects_until_round(index):
    """How many effects party 3 carries out before it says a round."""
    world, count = SETTING.world().run(), 0
    codec = world.plan.codec
    for event in world.history:
        if event.party != "3" or event.what in {"boot", "receive"}:
            continue
        if event.what == "send":
            message = codec.decode(event.detail)
            if isinstance(message, Round) and message.index == index:
                return count
        count += 1
    raise AssertionError(f"there is no round {index}")


@pytest.mark.parametrize("index", [0, 1, CHECKPOINT - 1, CHECKPOINT, CHECKPOINT + 5])
def test_repeated_rounds_are_the_same_bits_and_the_run_ends_alike(index):
    after = effects_until_round(index) + 1
    world = replayed(SETTING, Faults(crashes=(Crash("3", after=after, back=2.0),)))
    assert len(world.finished) == 8
    rounds = said(world)
    again = [frames for (who, _), frames in rounds.items() if who == "3"]
    assert any(len(frames) > 2 for frames in again)  # two neighbours hear each once
    assert all(len(set(frames)) == 1 for frames in rounds.values())


def test_neighbours_that_die_together_catch_up_from_different_places():
    """One died just after its state was written, the other just before."""
    after = effects_until_round(CHECKPOINT)
    crashes = (
        Crash("3", after=after + 2, back=1.0),
        Crash("4", after=after - 4, back=1.5),
    )
    world = replayed(SETTING, Faults(crashes=crashes))
    assert len(world.finished) == 8
    assert all(len(set(frames)) == 1 for frames in said(world).values())


def test_everybody_dies_and_comes_back():
    after = effects_until_round(CHECKPOINT)
    crashes = tuple(
        Crash(str(k), after=after - 8 + 3 * k, back=1.0 + k / 8) for k in range(8)
    )
    world = replayed(SETTING, Faults(crashes=crashes))
    assert len(world.finished) == 8
    assert max(index for _, index in said(world)) > CHECKPOINT


@pytest.mark.parametrize("seed", range(6))
def test_a_lost_round_is_asked_for_again_though_later_ones_came(seed):
    """A neighbour may be a round ahead; nobody can stand in, so it must be resent."""
    policy = ProtocolPolicy(stand_in=False)
    setting = Setting("ring:5", work="nids", policy=policy, seed=seed)
    world = replayed(setting, Faults(loss=0.05, delay=(0.001, 0.02)))
    assert len(world.finished) == 5


def test_a_meeting_is_waited_for_once():
    policy = ProtocolPolicy(deadline=5.0, meeting=50.0, patience=4, drop=False)
    setting = Setting("complete:4", policy=policy)
    world = setting.world(Faults(crashes=(Crash("3", after=1, back=None),))).run()
    assert {abort.reason for abort in world.aborted.values()} == {"timeout"}
    assert "'3'" in world.aborted["0"].detail or "3" in world.aborted["0"].detail
    assert 50.0 <= world.time < 60.0


def test_a_party_whose_ledger_refuses_is_named_and_not_waited_for():
    def refuse(name, charge, sums):
        if name == "2":
            raise LedgerError("there is no budget left")

    setting = Setting("complete:4", policy=ProtocolPolicy(drop=False))
    world = setting.world()
    world.charge = refuse
    with pytest.raises(LedgerError):
        world.run()
    machine = world.nodes["2"].machine
    assert machine is not None
    for effect in machine.stop("ledger", "there is no budget left"):
        if isinstance(effect, Send):
            world._transmit("2", effect)
    began = world.time
    while world._queue and len(world.aborted) < 3:
        world.time, _, action = heapq.heappop(world._queue)
        action()
    assert world.time - began < 5.0
    assert all("'2' left: refused" in one.detail for one in world.aborted.values())


def test_a_method_ends_after_the_agreed_iterations():
    plan = replace(SETTING.plan(), tolerance=100.0)
    usual = SETTING._rounds(plan)
    settings = replace(usual.schedules.settings, iterations=5, tolerance=None)
    rounds = replace(usual, schedules=MethodSchedules(settings, usual.schedules.facts))
    works = {
        name: SumWork(SETTING.private(name), least_squares, rounds)
        for name in plan.parties
    }
    world = LoopbackWorld(plan, works, SETTING.streams()).run()
    assert sorted(world.finished) == sorted(plan.parties)
    for node in world.nodes.values():
        assert node.machine._iteration._state.inner.iteration == 5


def test_rounds_of_every_slot_come_back_from_the_disk():
    frames = {index: b"round %d" % index for index in range(96)}
    slots = [dict(islice(frames.items(), k, k + 32)) for k in (0, 32, 64)]
    written = {f"said/{k}": msgspec.msgpack.encode(one) for k, one in enumerate(slots)}
    stored = RecoveredRun(SETTING.plan(), {"rounds": b"state", **written})
    assert stored.rounds() == (b"state", frames)
