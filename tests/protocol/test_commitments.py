"""Commit, then show: what Ready binds, what opens it, and who has not opened yet."""

import msgspec
import numpy as np
import pytest

from liars import lying, wrongs
from machines import stopped_at
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.loopback import loopback_identities
from veilsum.party.run_status import (
    EventFeed,
    RunStatus,
    run_status_advice,
    run_status_time,
)
from veilsum.protocol.book import RecordBook
from veilsum.protocol.codec import Codec
from veilsum.protocol.evidence import commitment_to_masked_vector, named_signed_record
from veilsum.protocol.messages import Deposit, Masked, Ready
from veilsum.protocol.phases import SUMMING
from worlds import Setting, effects_of, effects_until, replayed

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

PLAN = Setting().plan()
READY = Ready(
    party="a",
    epoch=7,
    incarnation=b"i" * 16,
    lost=("b",),
    request=b"r" * 32,
    commitment=bytes(32),
)
MASKED = Masked(
    party="a",
    epoch=7,
    incarnation=b"i" * 16,
    nonce=b"n" * 64,
    numbers=np.array([1, -2, 3]),
)


def of(ready=READY, masked=MASKED, plan=b"p" * 32):
    codec = PLAN.codec
    return commitment_to_masked_vector(ready, codec.content_digest(masked), plan, codec)


def test_it_covers_plan_author_start_epoch_losses_request_nonce_and_vector():
    changed = msgspec.structs.replace
    found = {
        of(),
        of(plan=b"q" * 32),
        of(changed(READY, party="c"), changed(MASKED, party="c")),
        of(changed(READY, incarnation=b"j" * 16)),
        of(changed(READY, epoch=8), changed(MASKED, epoch=8)),
        of(changed(READY, lost=("c",))),
        of(changed(READY, request=b"s" * 32)),
        of(masked=changed(MASKED, nonce=b"o" * 64)),
        of(masked=changed(MASKED, numbers=np.array([1, -2, 4]))),
    }
    assert len(found) == 9
    signed = changed(READY, commitment=b"c" * 32, signature=b"s" * 64)
    assert of(signed, changed(MASKED, signature=b"t" * 64)) == of()


def test_it_costs_a_hundred_bytes_of_a_party_and_sum():
    extra = 0
    for record, name in ((READY, "commitment"), (MASKED, "nonce")):
        frame = PLAN.codec.encode(record)
        header = msgspec.msgpack.decode(frame[7 : 7 + frame[3]])
        place = 1 + type(record).__struct_fields__.index(name)  # its kind comes first
        assert header.pop(place) == getattr(record, name)
        extra += frame[3] - len(msgspec.msgpack.encode(header))
    assert extra == 100


# A party that was ready goes on with the same commitment, or never opens it


def test_who_is_killed_between_commitment_and_opening_opens_the_same():
    """At every effect in between; the rules look at every vector that is shown."""
    setting = Setting("complete:3")
    undisturbed = list(effects_of(setting.world().run(), "1"))
    first, last = undisturbed.index("Ready"), undisturbed.index("Masked")
    for after in range(first - 2, last + 3):
        crash = Crash("1", after, back=0.5)
        world = replayed(setting, Faults(crashes=(crash,)))
        assert world.finished.keys() == set(setting.parties)
        shown = {
            event.detail
            for event in world.history
            if event.party == "1" and event.what == "send"
        }
        own = [world.plan.codec.decode(frame) for frame in shown]
        own = [one for one in own if getattr(one, "party", "") == "1"]
        assert len([one for one in own if isinstance(one, Ready)]) == 1
        assert len([one for one in own if isinstance(one, Masked)]) == 1


def test_the_vector_of_an_epoch_that_is_given_up_is_erased_and_never_shown():
    setting = Setting("ring:5")
    # Its neighbours miss its shares; those beyond them are ready.
    after = effects_until(setting, "2", "Share") - 1
    world = replayed(setting, Faults(crashes=(Crash("2", after, None),)))
    assert {one.parties for one in world.finished.values()} == {("0", "1", "3", "4")}
    writes = [e for e in world.history if e.what == "persist"]
    made = {(e.party, e.detail.key) for e in writes if e.detail.value is not None}
    prepared = {one for one in made if one[1].startswith("prepared/")}
    assert {name for name, key in prepared if key == "prepared/0"} == {"0", "4"}
    erased = {(e.party, e.detail.key) for e in writes if e.detail.value is None}
    assert prepared <= erased
    shown = {
        message.epoch
        for event in world.history
        if event.what == "send"
        and isinstance(message := world.plan.codec.decode(event.detail), Masked)
    }
    assert shown == {1}


# Deposits


def deposits_another(world, to, message):
    if isinstance(message, Deposit):
        message = Deposit(world.moved(message.masked))
    yield to, message


def test_a_deposit_that_does_not_open_the_commitment_is_proof_against_its_author():
    setting = Setting("complete:5", spread="tree")
    world = lying(setting, deposits_another)
    assert wrongs(world, tells_two=True) == []
    assert {world.aborted[name].reason for name in world.others} == {"proof"}
    for machine in world.honest.values():
        assert "does not open the commitment in its Ready" in machine.accused["3"]


def deposits_unsigned(world, to, message):
    if isinstance(message, Deposit):
        moved = world.moved(message.masked)
        message = Deposit(msgspec.structs.replace(moved, signature=bytes(64)))
    yield to, message


def test_without_a_signature_it_is_refused_and_proves_nothing():
    """The twin: anybody could have made it up."""
    world = lying(Setting("complete:5", spread="tree"), deposits_unsigned)
    assert world.finished.keys() >= set(world.others)
    assert all(not one._book.proves("3") for one in world.honest.values())
    assert all("did not sign" in one.accused["3"] for one in world.honest.values())


# Withheld


def test_who_signed_ready_and_vanished_is_withheld_and_not_accused():
    setting = Setting("complete:5")
    after = effects_until(setting, "2", "Emission")
    world = replayed(setting, Faults(crashes=(Crash("2", after, None),)))
    for name in "0134":
        end, machine = world.aborted[name], world.nodes[name].machine
        assert end.reason == "timeout"
        assert "withheld by 2: Ready was signed" in end.detail
        assert "a crash or a slow connection looks the same" in end.detail
        assert machine.accused == {}


@pytest.mark.parametrize("phase", ["greeting", "sharing", "committing", "agreeing"])
def test_nobody_withholds_what_nobody_waits_for(phase):
    assert stopped_at(Setting(), "1", phase).nodes["1"].machine.withheld == ()


def test_along_a_tree_nobody_shows_a_vector_and_nobody_withholds_one():
    world = stopped_at(Setting(spread="tree"), "1", SUMMING)
    assert world.nodes["1"].machine.withheld == ()


def test_whoever_watches_is_told_after_a_while_and_once():
    machine = stopped_at(Setting(), "1", SUMMING).nodes["1"].machine
    missing = machine.withheld
    assert missing
    events = []
    telling = EventFeed("run", "1", events.append)
    telling.watch(machine)
    assert "withheld" not in [one.what for one in events]
    for _ in range(2):
        telling.note("ring", "resend", None)
        telling.watch(machine)
    (told,) = (one for one in events if one.what == "withheld")
    assert told.names == missing


def test_the_status_says_that_a_crash_looks_the_same():
    status = RunStatus(
        run="x",
        party="a",
        consortium="",
        state="running",
        phase=SUMMING,
        waiting=("b",),
        withheld=("b",),
        moved=run_status_time(90.0),
        seen=run_status_time(100.0),
        deadline=30.0,
    )
    words = run_status_advice(status, 100.0)
    assert words.startswith("has waited for 10 of 30 seconds")
    assert "withheld by b: Ready was signed and the masked vector has not" in words
    assert words.endswith("a crash or a slow connection looks the same")


def test_two_vectors_whose_names_collide_are_two_all_the_same(monkeypatch):
    """A name in a Status has half of a digest: 2^64 trials find two alike."""
    plain = Codec.content_digest

    def colliding(codec, record):
        return bytes(16) + plain(codec, record)[:16]

    monkeypatch.setattr(Codec, "content_digest", colliding)
    keys = loopback_identities(PLAN.parties, 1)
    author, other = PLAN.parties[:2]
    signer = RecordBook(PLAN, author, keys(author, 0), b"s" * 16)
    book = RecordBook(PLAN, other, keys(other, 0), b"t" * 16)
    size, kind = PLAN.size, PLAN.law.dtype
    first, second = (
        signer.sealed(
            Masked(
                party=author,
                epoch=0,
                nonce=b"n" * 64,
                numbers=np.full(size, k).astype(kind),
            )
        )
        for k in (1, 2)
    )
    book.add(first)
    digest = book.digest(second)
    assert named_signed_record(first, book.digest(first)) == named_signed_record(
        second, digest
    )
    assert book.is_new(second, digest, author)
    found = book.contradiction(second, PLAN.codec.encode(second), digest)
    assert found is not None
    assert found.is_a_lie
    assert not book.is_new(first, book.digest(first), author)
