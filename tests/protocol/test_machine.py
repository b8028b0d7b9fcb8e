"""One machine by itself: what it refuses, in which order it acts, how it is called."""

import struct
from functools import partial

import msgspec
import numpy as np
import pytest

import refusals
from machines import Stopped, join_frame, keys_of, picture, sealed, stopped_at
from phase_diagram import phase_diagram
from veilsum.drivers.loopback import loopback_identities
from veilsum.errors import LocalProtocolError, PeerProtocolError
from veilsum.masks.laws import Masks
from veilsum.minimise.rounds import rounds_done
from veilsum.protocol import phases
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Abort, Accuse, Emission, Persist, Send
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import (
    MESSAGES,
    Agreed,
    Confirm,
    Deposit,
    Down,
    Join,
    Lost,
    Masked,
    Quit,
    Ready,
    Record,
    Result,
    Round,
    Share,
    Status,
    Up,
)
from veilsum.protocol.plan import ProtocolPlan, ProtocolPolicy
from veilsum.protocol.work import SumWork, request_digest
from worlds import FreshStreams, Setting, least_squares

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SETTING = Setting("complete:4")
ASKED = request_digest("coefficients")
DGD = Setting("complete:4", work="nids")
TREE = Setting("complete:4", spread="tree")
OPEN = [phase for phase in Machine.table if phase != phases.ITERATING]


def at(phase, setting=SETTING):
    """A world whose party 1 has just reached a phase."""
    return stopped_at(setting, "1", phase)


def codec_of(world):
    return world.plan.codec


def refusal(world, message, *, sender="0", party="1"):
    """Give a party a message that it must refuse; return its words."""
    frame = message if isinstance(message, bytes) else codec_of(world).encode(message)
    machine = world.nodes[party].machine
    before = picture(machine)
    with pytest.raises(PeerProtocolError) as caught:
        machine.receive(sender, frame)
    assert picture(machine) == before
    assert repr(caught.value.party) in str(caught.value)
    return caught.value


def proven(world, message, *, sender="0", party="1"):
    """Give a party what proves together with an earlier record; return the proof."""
    machine = world.nodes[party].machine
    effects = machine.receive(sender, codec_of(world).encode(message))
    (accusation,) = (one for one in effects if isinstance(one, Accuse))
    assert accusation.party == message.party
    found = machine._book.evidence[message.party]
    assert Persist(f"evidence/{message.party}", found.pack()) in effects
    assert not machine.receive(sender, codec_of(world).encode(message)), "once"
    return found, effects


def vector(world, size=None, fill=0):
    return np.full(
        world.plan.size if size is None else size, fill, world.plan.law.dtype
    )


def share(world, numbers, epoch=0, lost=()):
    return Share(epoch, lost, b"k" * 32, numbers)


# Bad input from others


def test_a_share_of_the_wrong_dimension_is_refused():
    world = at("sharing")
    error = refusal(world, share(world, vector(world, 2)))
    assert error.party == "0"
    assert "3 numbers of type int64" in str(error)
    assert "2 of type int64" in str(error)


@pytest.mark.parametrize("kind", [Up, Down])
def test_a_subtree_of_the_wrong_dimension_is_refused(kind):
    world = at("summing", TREE)
    assert "3 numbers" in str(refusal(world, kind(0, vector(world, 1))))


def test_masked_numbers_of_the_wrong_dimension_are_refused():
    world = at("committing")
    masked = Masked(party="0", epoch=0, nonce=bytes(64), numbers=vector(world, 1))
    assert "3 numbers" in str(refusal(world, sealed(world, masked)))
    assert "3 numbers" in str(refusal(world, Deposit(sealed(world, masked))))


def test_masked_numbers_of_the_wrong_kind_are_refused():
    world = at("committing")
    masked = Masked(party="0", epoch=0, nonce=bytes(64), numbers=np.zeros(3))
    assert "type int64" in str(refusal(world, sealed(world, masked)))


def test_an_answer_of_the_wrong_dimension_is_refused():
    world = at("agreeing")
    result = Result(party="0", epoch=0, numbers=np.zeros(2))
    assert "3 numbers" in str(refusal(world, sealed(world, result)))


def test_a_round_of_the_wrong_dimension_is_refused():
    world = at("iterating", DGD)
    assert "3 numbers" in str(refusal(world, Round(0, 0, vector(world, 2))))


def test_a_round_far_ahead_is_refused():
    world = at("iterating", DGD)
    far = DGD.plan().checkpoint + 9
    assert f"is at round {far}" in str(refusal(world, Round(0, far, np.zeros(4))))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    """No honest codec writes them, so the bytes are put in by hand."""
    world = at("sharing", Setting("complete:4", "gaussian"))
    frame = codec_of(world).encode(share(world, np.array([1.0, 2.0, 3.0])))
    poisoned = frame[:-8] + struct.pack("<d", bad)
    assert "finite" in str(refusal(world, poisoned))


@pytest.mark.parametrize("phase", OPEN)
def test_an_unknown_sender_is_refused(phase):
    world = at(phase)
    message = Confirm(0, bytes(32))
    assert "'mallory'" in str(refusal(world, message, sender="mallory"))


def test_a_party_of_the_plan_that_is_no_neighbour_is_refused():
    world = stopped_at(Setting("ring:4"), "1", "sharing")
    error = refusal(world, Confirm(0, bytes(32)), sender="3")
    assert "is not a neighbour of '1'" in str(error)


def test_a_record_of_a_stranger_is_refused_and_its_bearer_named():
    world = at("greeting")
    stranger = Quit(party="mallory", epoch=0, reason="stopped", signature=bytes(64))
    error = refusal(world, stranger)
    assert error.party == "0"
    assert "'mallory', who is not in the plan" in str(error)


def test_a_party_leaves_once_in_whatever_epoch():
    world = at("committing")
    first, *more = (
        sealed(world, Quit(party="2", epoch=epoch, reason="stopped"))
        for epoch in (0, 1, 10**9)
    )
    world.nodes["1"].machine.receive("0", codec_of(world).encode(first))
    for again in more:
        error = refusal(world, again)
        assert error.party == "2"
        assert "has left already" in str(error)


def test_who_gives_up_says_first_whose_fault_it_is():
    """Everybody waits for 3: it is no news that it is not there, but that 2 left is."""
    world = stopped_at(
        Setting("ring:4", policy=ProtocolPolicy(drop=False)), "1", "greeting"
    )
    world.nodes["1"].machine.receive("2", join_frame(world, "2"))
    quit_ = sealed(world, Quit(party="2", epoch=0, reason="stale"))
    frame = codec_of(world).encode(quit_)
    effects = world.nodes["1"].machine.receive("2", frame)
    sent = [one for one in effects if isinstance(one, Send)]
    assert sent[0] == Send("0", frame)
    own = codec_of(world).decode(sent[-1].frame)
    assert (own.party, own.reason) == ("1", "peer")
    (abort,) = (one for one in effects if isinstance(one, Abort))
    assert abort.detail == "'2' left: stale; this party was greeting"


def test_a_plan_that_differs_is_refused_and_both_parties_named():
    world = at("greeting")
    other = Join(party="0", epoch=1, incarnation=bytes(16), plan=b"p" * 32)
    words = str(refusal(world, sealed(world, other)))
    assert "'0' has the plan 7070707070707070" in words
    assert f"'1' has {world.plan.digest.hex()[:16]}" in words


def test_a_world_of_two_plans_ends_without_an_answer():
    """Everybody meets everybody: the odd one out is found by all."""
    plan = SETTING.plan()
    odd = ProtocolPlan(
        terms=b"another",
        topology=plan.topology,
        law=plan.law,
        size=plan.size,
        answer_size=plan.answer_size,
    )

    def make(plan, me, **given):
        return Machine(odd if me == "3" else plan, me, **given)

    world = SETTING.world(make=make).run()
    assert all(finish.parties == ("0", "1", "2") for finish in world.finished.values())
    assert world.finished.keys() <= {"0", "1", "2"}
    assert "3" in world.complaints
    refused = [e.detail for e in world.history if e.what == "refuse"]
    assert any("has the plan" in one for one in refused)


@pytest.mark.parametrize(("epoch", "when"), [(5, "future"), (10**9, "future")])
def test_a_future_epoch_is_refused(epoch, when):
    world = at("sharing")
    for message in (share(world, vector(world), epoch), Confirm(epoch, bytes(32))):
        words = str(refusal(world, message))
        assert f"the {when} epoch {epoch}; now is 0" in words


@pytest.mark.parametrize("epoch", [10, 10**9])
def test_a_vote_further_ahead_than_the_next_sum_is_refused(epoch):
    world = at("committing")
    ready = Ready(party="0", epoch=epoch, lost=(), request=ASKED, commitment=bytes(32))
    assert f"future epoch {epoch}" in str(refusal(world, sealed(world, ready)))


def test_a_past_epoch_is_refused():
    """After the first of three sums, nothing of its epoch is heard any more."""
    world = stopped_at(Setting("complete:4", work="sums"), "1", "agreeing")
    machine = world.nodes["1"].machine
    assert machine.epoch == 15
    for message in (
        share(world, vector(world), 6),
        Confirm(6, bytes(32)),
        sealed(
            world,
            Ready(party="0", epoch=6, lost=("2",), request=ASKED, commitment=bytes(32)),
        ),
    ):
        assert "past epoch 6; now is 15" in str(refusal(world, message))


def test_a_second_start_of_a_party_is_refused_and_named():
    world = at("sharing")
    start, plan = b"t" * 16, world.plan.digest
    twin = Join(party="0", epoch=Join.number(start), incarnation=start, plan=plan)
    joined = world.nodes["1"].machine._book.joins["0"]
    found, effects = proven(world, sealed(world, twin))
    assert found.words.startswith("'0' started anew: two processes go by this name")
    # A lost disk leads to the same: it is no lie, and ends nothing.
    assert world.nodes["1"].machine.accused == {}
    assert not any(isinstance(one, Send | Abort) for one in effects)
    assert world.nodes["1"].machine._book.joins["0"] is joined
    odd = Join(party="0", epoch=77, incarnation=start, plan=plan)
    assert "not its start's" in str(refusal(world, sealed(world, odd)))


def test_a_machine_for_a_stranger_is_not_made():
    world = SETTING.world()
    with refusals.refused("unknown-party"):
        make_machine(world.plan, "mallory")


def test_an_oversized_message_is_refused_before_it_is_read():
    world = at("sharing")
    most = world.plan.codec.max_frame
    assert f"to {most} bytes" in str(refusal(world, bytes(most + 1)))
    large = Codec(10**6).encode(share(world, vector(world, 1000)))
    assert "at most 4 numbers" in str(refusal(world, large))


def test_a_forged_record_is_blamed_on_its_bearer():
    world = at("committing")
    forged = Ready(
        party="2",
        epoch=0,
        lost=(),
        request=ASKED,
        commitment=bytes(32),
        signature=bytes(64),
    )
    error = refusal(world, forged)
    assert error.party == "0"
    assert "'2' did not sign" in str(error)


def test_a_second_record_is_blamed_on_its_author_only_if_he_signed_it():
    world = at("agreeing")
    codec = codec_of(world)
    second = Ready(party="2", epoch=0, lost=(), request=bytes(32), commitment=bytes(32))
    machine = world.nodes["1"].machine
    assert ("Ready", 0, "2") in machine._book
    forged = msgspec.structs.replace(second, signature=bytes(64))
    assert refusal(world, codec.encode(forged)).party == "0"
    found, _ = proven(world, sealed(world, second))
    assert "'2' signed two different Ready records of epoch 0" in found.words
    assert machine.accused.keys() == {"0", "2"}


def test_a_second_share_that_differs_is_refused():
    world = at("committing")
    machine = world.nodes["1"].machine
    first = machine._epoch.got["0"]
    assert machine.receive("0", codec_of(world).encode(first)) == [], "the twin"
    for other in ({"key": b"k" * 32}, {"numbers": first.numbers + 1}):
        second = msgspec.structs.replace(first, **other)
        words = str(refusal(world, second))
        assert "two different shares for epoch 0" in words


def test_a_share_for_another_set_of_parties_is_refused():
    world = at("sharing")
    words = str(refusal(world, share(world, vector(world), lost=("3",))))
    assert "goes on without 3, '1' without nobody" in words


def test_a_confirmation_of_other_shares_is_refused():
    world = at("committing")
    assert "confirms other shares" in str(refusal(world, Confirm(0, bytes(32))))


def test_a_deposit_of_another_party_is_refused():
    world = at("committing")
    masked = sealed(
        world, Masked(party="2", epoch=0, nonce=bytes(64), numbers=vector(world))
    )
    assert "deposits for '2'" in str(refusal(world, Deposit(masked)))


def test_rounds_and_trees_that_the_plan_has_not_are_refused():
    world = at("summing")
    assert "the plan has none" in str(refusal(world, Round(0, 0, vector(world))))
    assert "the plan has none" in str(refusal(world, Up(0, vector(world))))


def test_a_party_that_was_ready_cannot_give_the_epoch_up():
    world = at("committing")
    machine = world.nodes["1"].machine
    machine.receive(
        "0",
        codec_of(world).encode(
            sealed(
                world,
                Ready(party="0", epoch=0, lost=(), request=ASKED, commitment=bytes(32)),
            )
        ),
    )
    joined = machine._book.joins["0"].incarnation
    lost = Lost(party="0", epoch=0, incarnation=joined, lost=("3",))
    found, effects = proven(world, sealed(world, lost))
    assert "'0' signed Ready and Lost of epoch 0" in found.words
    assert machine.lost == ()
    assert [one.reason for one in effects if isinstance(one, Abort)] == ["proof"]


OTHER_START = b"n" * 16
SAID = {
    "Lost": ("sharing", partial(Lost, epoch=0, lost=("3",))),
    "Ready": (
        "agreeing",
        partial(Ready, epoch=0, lost=(), request=bytes(32), commitment=bytes(32)),
    ),
    "Masked": (
        "agreeing",
        lambda **by: Masked(
            epoch=0, nonce=bytes(64), numbers=np.zeros(3, np.int64), **by
        ),
    ),
    "Agreed": ("agreeing", partial(Agreed, epoch=0, digest=bytes(32))),
}


@pytest.mark.parametrize(("phase", "said"), SAID.values(), ids=SAID)
def test_only_the_start_that_joined_is_heard_and_no_other_makes_it_a_liar(phase, said):
    world = at(phase)
    machine = world.nodes["1"].machine
    before = machine._book.ids()
    other = sealed(world, said(party="0", incarnation=OTHER_START))
    found, effects = proven(world, other)
    assert found.words.startswith("'0' started anew")
    assert machine.accused == {}
    assert not any(isinstance(one, Send | Abort) for one in effects)
    assert (machine._book.ids(), machine.lost) == (before, ())


@pytest.mark.parametrize("kind", ["Ready", "Masked"])
def test_what_the_start_that_joined_says_twice_is_proof_after_another_start_too(kind):
    """The twin; and no liar can hide behind a second start of its own."""
    phase, said = SAID[kind]
    world = at(phase)
    machine = world.nodes["1"].machine
    proven(world, sealed(world, said(party="2", incarnation=OTHER_START)))
    assert ("Ready", 0, "2") in machine._book
    found, effects = proven(world, sealed(world, said(party="2")))
    assert f"'2' signed two different {kind} records of epoch 0" in found.words
    assert machine.accused.keys() == {"2"}
    assert any(isinstance(one, Send) for one in effects)


def test_nothing_is_taken_of_a_start_that_has_not_joined():
    world = at("greeting")
    machine = world.nodes["1"].machine
    assert "2" not in machine._book.joins
    quit_ = sealed(world, Quit(party="2", epoch=0, reason="stopped"))
    assert "has not joined" in str(refusal(world, quit_))
    machine.receive("2", join_frame(world, "2"))
    machine.receive("2", codec_of(world).encode(quit_))
    assert machine._book.has_left("2"), "the twin"


def test_nobody_can_lose_itself_or_a_stranger():
    world = at("sharing")
    joined = world.nodes["1"].machine._book.joins["0"].incarnation
    for whom in ("0", "mallory"):
        lost = Lost(party="0", epoch=0, incarnation=joined, lost=(whom,))
        assert "itself or a stranger" in str(refusal(world, sealed(world, lost)))


@pytest.mark.parametrize("phase", ["summing", "agreeing"])
def test_nobody_is_dropped_after_the_commit(phase):
    world = at(phase)
    joined = world.nodes["1"].machine._book.joins["0"].incarnation
    lost = Lost(party="0", epoch=0, incarnation=joined, lost=("3",))
    world.nodes["1"].machine._book.forget(Ready, "0")
    words = str(refusal(world, sealed(world, lost)))
    assert "drops a party after the commit, which nobody may" in words


# Bad input of one's own


def make_machine(plan, me="0", private=None, keys=None):
    private = np.zeros(plan.size) if private is None else private
    return Machine(
        plan,
        me,
        keys=keys or loopback_identities(plan.parties, 0)("0", 1),
        streams=FreshStreams(0),
        work=SumWork(private, least_squares),
    )


def started_again(world, work=None):
    """Return a machine of party 1 with its keys, and nothing else of what it was."""
    return Machine(
        world.plan,
        "1",
        keys=keys_of(world, "1"),
        streams=FreshStreams(1),
        work=work or world.works["1"],
    )


def frames(machine, effects):
    sent = [effect.frame for effect in effects if isinstance(effect, Send)]
    return [machine.plan.codec.decode(frame) for frame in sent]


@pytest.mark.parametrize(
    "private",
    [np.zeros(2), np.full(3, 1e9), np.full(3, np.nan), np.array([0.0, 0.0, np.inf])],
    ids=["dimension", "range", "nan", "inf"],
)
def test_a_wrong_input_of_ones_own_ends_with_one_word_to_the_others(private):
    topology = SETTING.topology
    law = Masks("lattice", sigma=1.0, grid=24, largest=10.0).on(topology)
    plan = ProtocolPlan(terms=b"", topology=topology, law=law, size=3, answer_size=3)
    machine = make_machine(plan, private=private)
    effects = machine.start()
    abort = effects[-1]
    assert isinstance(abort, Abort)
    assert abort.reason == "input"
    join, quit_ = (one for one in frames(machine, effects)[::3])
    assert isinstance(join, Join)
    assert (type(quit_), quit_.reason) == (Quit, "refused")
    assert len(frames(machine, effects)) == 6


def test_changed_data_under_old_masks_are_refused():
    setting = Setting("complete:4")
    world = at("committing")
    disk = dict(world.nodes["1"].disk)
    work = SumWork(setting.private("1") + 1, least_squares)
    machine = started_again(world, work)
    effects = machine.resume(disk)
    assert isinstance(effects[-1], Abort)
    assert effects[-1].reason == "input"
    assert "the data have changed" in effects[-1].detail


@pytest.mark.parametrize("key", ["record/Ready/0", "masked/0"])
def test_a_record_on_the_disk_that_nobody_signed_is_refused(key):
    """A signature is the one thing on it that others will look at too."""
    world = at("summing")
    disk = dict(world.nodes["1"].disk)

    effects = started_again(world).resume(disk)
    assert not isinstance(effects[-1], Abort), "the twin: as it was"
    record = world.plan.codec.decode(disk[key])
    forged = msgspec.structs.replace(record, signature=bytes(64))
    disk[key] = world.plan.codec.encode(forged)
    abort = started_again(world).resume(disk)[-1]
    assert isinstance(abort, Abort)
    assert (abort.reason, "did not sign" in abort.detail) == ("input", True)


def test_who_comes_back_has_everybodys_votes_of_the_sum_before():
    """A neighbour may be one sum behind, and asks for them."""

    class Halted(Machine):
        def receive(self, sender, frame):
            if self.me == "1" and len(self._sums.totals) == 2:
                raise Stopped
            return super().receive(sender, frame)

    def votes(machine):
        return {one for one in machine._book.ids() if one[0] == "Ready"}

    world = Setting("complete:4", work="sums").world(make=Halted)
    with pytest.raises(Stopped):
        world.run()
    before = world.nodes["1"].machine
    machine = started_again(world)
    machine.resume(dict(world.nodes["1"].disk))
    assert {epoch for _, epoch, _ in votes(before)} >= {0, world.plan.epochs_per_sum}
    assert votes(machine) == votes(before)


# Calls out of order


def test_calls_before_the_start_are_refused():
    machine = make_machine(SETTING.plan())
    for call in (
        lambda: machine.receive("1", b""),
        lambda: machine.expire("resend"),
        lambda: machine.stop("stopped"),
    ):
        before = picture(machine)
        with refusals.refused("not-started", LocalProtocolError):
            call()
        assert picture(machine) == before


def test_a_machine_starts_once():
    machine = make_machine(SETTING.plan())
    machine.start()
    before = picture(machine)
    for call in (machine.start, lambda: machine.resume({})):
        with refusals.refused("already-started", LocalProtocolError):
            call()
    with refusals.refused("already-started", LocalProtocolError):
        machine.resume({"record/Join/0": b""})
    assert picture(machine) == before


def test_a_party_leaves_for_a_known_reason_only():
    machine = make_machine(SETTING.plan())
    machine.start()
    before = picture(machine)
    with refusals.refused("unknown-leave-reason", LocalProtocolError):
        machine.stop("bored")
    assert picture(machine) == before
    effects = machine.stop("ledger", "no budget left")
    assert isinstance(effects[-1], Abort)
    assert machine.stop("stopped") == []
    assert machine.phase == "aborted"


def test_a_timer_that_no_longer_counts_does_nothing():
    machine = make_machine(SETTING.plan())
    machine.start()
    before = picture(machine)
    assert machine.expire("deadline/0") == []
    assert machine.expire("unheard of") == []
    assert picture(machine) == before


def test_who_has_signed_and_comes_back_to_nobody_gives_up():
    """The answer it signed was somebody else's: its own disk does not have it."""
    world = SETTING.world().run()
    disk = {k: v for k, v in world.nodes["1"].disk.items() if k != "finished"}
    assert "record/Agreed/0" in disk
    machine = started_again(world)
    effects = machine.resume(disk)
    assert machine.phase == "agreeing"
    for _ in range(world.plan.policy.patience):
        effects = machine.expire(effects[-1].name)
    assert effects[-1] == Abort("timeout", "waited for 0, 2, 3 while agreeing")


# The order of effects


@pytest.mark.parametrize(
    "setting", [SETTING, DGD, TREE, Setting("complete:4", work="sums", spread="tree")]
)
def test_what_a_send_depends_on_is_on_disk_before_it(setting):
    """Records, shares and masked numbers are written before they leave.

    A round's numbers follow from a state that was: at most so many rounds earlier.
    """
    world = setting.world().run()
    codec = codec_of(world)
    for name in setting.parties:
        written, charged, rounds = set(), set(), None
        for event in (one for one in world.history if one.party == name):
            if event.what == "persist":
                written.add(event.detail.value)
                if event.detail.key == "rounds":
                    rounds = rounds_done(event.detail.value)
            elif event.what == "charge":
                charged.add(event.detail.epoch)
            elif event.what == "send":
                message = codec.decode(event.detail)
                check_written(message, event, written, charged)
                if isinstance(message, Round):
                    assert 0 <= message.index - rounds < world.plan.checkpoint


def check_written(message, event, written, charged):
    own = getattr(message, "party", event.party) == event.party
    if isinstance(message, Share | Join | Ready | Lost | Quit | Result) and own:
        assert event.detail in written
    if isinstance(message, Masked) and own:
        assert event.detail in written
    if isinstance(message, Masked | Deposit | Round | Up | Down) and own:
        assert charged


def test_a_commit_is_written_and_charged_before_anything_masked_leaves():
    mine = [event for event in SETTING.world().run().history if event.party == "1"]
    charges = [place for place, e in enumerate(mine) if isinstance(e.detail, Emission)]
    assert len(charges) == 1
    before = mine[: charges[0]]
    keys = {e.detail.key for e in before if isinstance(e.detail, Persist)}
    assert {"commit/0", "masked/0"} <= keys
    assert not any(map(is_own_masked, before))
    assert any(map(is_own_masked, mine))


def is_own_masked(event):
    message = Codec(10).decode(event.detail) if event.what == "send" else None
    return isinstance(message, Masked) and message.party == event.party


def test_a_share_is_written_before_any_is_sent():
    world = SETTING.world().run()
    mine = [event for event in world.history if event.party == "1"]
    places = {"write": [], "send": []}
    for place, event in enumerate(mine):
        if isinstance(event.detail, Persist) and event.detail.key.startswith("sent/"):
            places["write"].append((event.detail.value is not None, place))
        elif event.what == "send" and isinstance(Codec(10).decode(event.detail), Share):
            places["send"].append(place)
    drawn = [place for present, place in places["write"] if present]
    assert max(drawn) < min(places["send"])
    erased = [place for present, place in places["write"] if not present]
    assert len(erased) == len(drawn) == 3


# The table of phases


def test_every_message_is_heard_in_every_open_phase_and_records_after_the_end():
    to_everybody = {Status, *(kind for kind in MESSAGES if issubclass(kind, Record))}
    assert Machine.hears.keys() == {*Machine.table, *phases.CLOSED}
    for phase in Machine.table:
        assert Machine.hears[phase].keys() == set(MESSAGES)
    for phase in phases.CLOSED:
        assert Machine.hears[phase].keys() == to_everybody


def test_every_phase_is_left_by_one_line_and_leads_to_known_ones():
    lines = Machine.table.values()
    known = {*Machine.table, *phases.CLOSED}
    assert [one.source for one in lines] == [*Machine.table]
    for one in lines:
        assert set(one.targets) <= known
    reached = {target for one in lines for target in one.targets}
    assert known - reached == {phases.GREETING, phases.ABORTED}


def test_the_diagram_shows_every_phase_and_every_step():
    drawn = phase_diagram(Machine.table.values())
    for phase in (*Machine.table, *phases.CLOSED):
        assert phase in drawn
    for one in Machine.table.values():
        for target in one.targets:
            assert f"{one.source} --> {target}: {one.waits_for}" in drawn


def test_machines_walk_the_table_and_nothing_else():
    """Undisturbed, the phases of a run are lines of the table."""
    lines = Machine.table.values()
    allowed = {(one.source, target) for one in lines for target in one.targets}
    walked = []

    class Walking(Machine):
        def _enter(self, phase):
            if self._started and self.phase != phase:
                walked.append((self.phase, phase))
            super()._enter(phase)

    for setting in (SETTING, DGD, TREE, Setting("complete:4", work="sums")):
        setting.world(make=Walking).run()
    assert set(walked) <= allowed
    assert allowed - set(walked) == set()


@pytest.mark.parametrize(
    ("own", "signs"), [(1.0, True), (1.0 + 1e-5, False), (np.nan, False)]
)
def test_only_an_answer_within_the_tolerance_is_signed(own, signs):
    """Whose own answer is nan has none, and signs nobody else's."""
    world = SETTING.world()
    for name, work in world.works.items():
        answer = np.full(3, own if name == "1" else 1.0)
        world.works[name] = SumWork(
            work.private, lambda _total, _parties, found=answer: found
        )
    world.run()
    machine = world.nodes["1"].machine
    assert (("Agreed", 0, "1") in machine._book) is signs
    assert (machine.phase == phases.FINISHED) is signs
