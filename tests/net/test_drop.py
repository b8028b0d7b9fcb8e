"""Letters in folders: whatever happens to files, frames arrive in order and once."""

import asyncio
import itertools
import os
import shutil

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from net.drops import NAMES, THREE, Folders, Office
from veilsum.errors import (
    PeerProtocolError,
    StoreError,
    WaitingError,
)
from veilsum.net import drop as module
from veilsum.net.drop import (
    KEY,
    MAGIC,
    SUFFIX,
    Drop,
    DropFolder,
    Envelope,
    FirstLetter,
    signed,
    split,
)
from veilsum.net.identity import PartyKeys
from veilsum.net.links import Network
from veilsum.net.receipt import verify_receipts
from veilsum.net.runner import Links
from veilsum.protocol.messages import Status

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def office(tmp_path_factory):
    return Office(tmp_path_factory.getbasetemp() / "office")


def test_both_ways_are_what_a_runner_uses():
    assert issubclass(Network, Links)
    assert issubclass(Drop, Links)


def test_frames_arrive_in_order(office):
    office.meet()
    frames = [b"%d" % k for k in range(5)]
    office.visit("a", [("b", one) for one in frames])
    office.carry()
    office.visit("b")
    assert office.once("b") == [("a", one) for one in frames]
    assert not office.heard["c"]


def test_before_it_knows_a_key_a_party_sends_nothing_but_its_first_letter(office):
    office.visit("a", [("b", b"a secret share")])
    (first,) = [p for p in office.files("a") if "-to-b-" in p.name]
    envelope, _, _ = split(first.read_bytes())
    letter = msgspec.msgpack.decode(envelope.body, type=FirstLetter)
    assert envelope.number == 0
    assert letter.frames == ()
    assert b"secret" not in first.read_bytes()


def test_a_letter_says_which_have_arrived_and_those_are_removed(office):
    office.meet()
    office.visit("a", [("b", b"one")])
    assert len(office.files("a")) == 2 + 1 + 2  # b's and c's first letters among them
    office.carry("a")
    office.visit("b", [("a", b"two")])
    office.carry("b")
    office.visit("a")
    own = [p.name for p in office.files("a") if p.name.startswith("a-to-b")]
    assert own == []
    assert not [k for k in office.stores["a"].entries if k.startswith("drop/out/b")]


def test_a_lost_letter_is_named_and_written_again_the_same(office):
    office.meet()
    office.visit("a", [("b", b"one")])
    (lost,) = [p for p in office.files("a") if "-to-b-0001" in p.name]
    before = lost.read_bytes()
    lost.unlink()
    office.visit("a")
    assert lost.read_bytes() == before
    office.visit("a", [("b", b"two")])
    later = office.name("a", "b", 2)
    shutil.copy(office.folder("a") / later, office.folder("b") / later)
    said = office.visit("b")
    assert f"{lost.name} is missing, and a later letter is here" in said
    assert not office.heard["b"]
    office.carry("a")
    office.visit("b")
    assert office.once("b") == [("a", b"one"), ("a", b"two")]


def test_what_is_waited_for_is_named(office):
    said = office.visit("a")
    assert f"from b: its next letter is {office.name('b', 'a', 0)}" in said
    assert f"from c: its next letter is {office.name('c', 'a', 0)}" in said
    assert str(office.folder("a")) in said


def test_names_of_files_mean_nothing(office):
    office.meet()
    for k in range(3):
        office.visit("a", [("b", b"%d" % k)])
    office.carry("a")
    letters = [p for p in office.files("b") if p.name.startswith("a-to-b")]
    names = [f"{k}.bin" for k in range(len(letters))]
    for path, name in zip(reversed(letters), names, strict=True):
        path.rename(path.with_name(name))
    office.visit("b")
    assert office.once("b") == [("a", b"0"), ("a", b"1"), ("a", b"2")]


def test_a_frame_is_sent_once(office):
    office.meet()
    office.visit("a", [("b", b"one")])
    count = len(office.files("a"))
    office.visit("a", [("b", b"one")])
    assert len(office.files("a")) == count


def test_a_process_that_ends_forgets_nothing_that_was_heard(office):
    office.meet()
    office.visit("a", [("b", b"one")])
    office.carry("a")
    office.visit("b")
    office.heard["b"].clear()
    for path in office.files("b"):
        path.unlink()
    office.visit("b")
    assert office.once("b") == [("a", b"one")]


def test_a_letter_that_was_kept_and_not_put_out_is_put_out(office, monkeypatch):
    office.meet()
    monkeypatch.setattr(DropFolder, "put", lambda *_: None)
    office.visit("a", [("b", b"one")])
    assert not list(office.folder("a").glob("a-to-b-0001*"))
    monkeypatch.undo()
    office.visit("a")
    office.carry("a")
    office.visit("b")
    assert office.once("b") == [("a", b"one")]


def test_a_letter_that_is_not_whole_yet_is_waited_for(office):
    office.meet()
    office.visit("a", [("b", b"one")])
    name = office.name("a", "b", 1)
    raw = (office.folder("a") / name).read_bytes()
    for size in (0, 1, len(MAGIC), len(MAGIC) + 70, len(raw) - 1):
        (office.folder("b") / name).write_bytes(raw[:size])
        said = office.visit("b")
        assert f"not taken: {name}: " in said
        assert "not whole yet" in said
    assert not office.heard["b"]
    (office.folder("b") / name).write_bytes(raw)
    assert "not taken" not in office.visit("b")
    assert office.once("b") == [("a", b"one")]


def test_what_is_being_written_is_not_looked_at(office):
    office.meet()
    office.visit("a", [("b", b"one")])
    name = office.name("a", "b", 1)
    shutil.copy(office.folder("a") / name, office.folder("b") / f".{name}.part")
    assert "not taken" not in office.visit("b")
    assert not office.heard["b"]


def test_other_files_in_the_folder_are_left_alone(office):
    office.meet()
    (office.folder("b") / "notes.txt").write_text("buy milk")
    (office.folder("b") / "deep").mkdir()
    os.mkfifo(office.folder("b") / f"pipe{SUFFIX}")
    (office.folder("b") / f"link{SUFFIX}").symlink_to("/dev/zero")
    said = office.visit("b")
    assert "not taken" not in said
    assert (office.folder("b") / "notes.txt").read_text() == "buy milk"


def test_files_are_bounded_before_they_are_read(office, monkeypatch):
    office.meet()
    path = office.folder("b") / f"huge{SUFFIX}"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # takes no room on the disk
    said = office.visit("b")
    assert f"huge{SUFFIX}: it has 1,099,511,627,776 bytes" in said
    monkeypatch.setattr(module, "MOST_FILES", 5)
    for k in range(6):
        (office.folder("b") / f"{k}.txt").touch()
    with pytest.raises(StoreError, match="more than 5 files: take out"):
        asyncio.run(office.drop("b").open())


def test_many_frames_are_several_letters(office, monkeypatch):
    monkeypatch.setattr(module, "FULL", 100)
    office.meet()
    frames = [bytes([k]) * 60 for k in range(5)] + [b"x" * 250]
    office.visit("a", [("b", one) for one in frames])
    assert len([p for p in office.files("a") if p.name.startswith("a-to-b-")]) == 7
    office.carry("a")
    office.visit("b")
    assert office.once("b") == [("a", one) for one in frames]


def test_a_goodbye_arrives(office):
    office.meet()
    made = office.drop("a")

    async def end():
        await made.open()
        with pytest.raises(WaitingError):
            await made.until(asyncio.get_running_loop().create_future())
        made.say_bye()
        await made.drain(1.0)
        await made.drain(1.0)  # and is said once

    asyncio.run(end())
    assert office.left["a"] == {"b", "c"}  # nobody need be waited for
    assert len([p for p in office.files("a") if p.name.startswith("a-to-b-")]) == 2
    office.carry("a")
    said = office.visit("b")
    assert office.left["b"] == {"a"}
    assert "from a" not in said


def test_who_is_deaf_to_a_neighbour_hears_no_more_of_it(office):
    office.meet()
    office.visit("a", [("b", b"%d" % k) for k in range(3)])
    office.carry("a")
    told = []

    def hear(sender, frame):
        told.append(frame)
        raise PeerProtocolError(sender, "no")

    office.visit("b", hear=hear)
    assert told == [b"0"]


def status(office, **changes):
    given = {
        "incarnation": bytes(16),
        "echo": bytes(16),
        "epoch": 0,
        "records": (),
        "share": -1,
        "confirm": -1,
        "round": -1,
        "reply": True,
        **changes,
    }
    return office.plan().codec.encode(Status(**given))


def test_a_status_is_sent_when_it_has_changed_and_the_last_one_counts(office):
    office.meet()
    first, later = status(office), status(office, epoch=1)
    office.visit("a", [("b", first), ("b", later)])
    count = len(office.files("a"))
    office.visit("a", [("b", status(office, epoch=1, reply=False))])
    assert len(office.files("a")) == count
    office.carry("a")
    office.visit("b")
    assert office.once("b") == [("a", later)]


def test_two_who_always_tell_each_other_their_status_fall_silent(office):
    office.meet()
    for _ in range(6):
        for name in ("a", "b"):
            made = office.drop(name)
            made._met = lambda to, made=made: made.send(to, status(office))

            async def run(made=made):
                await made.open()
                await made.until(asyncio.get_running_loop().create_future())

            with pytest.raises(WaitingError):
                asyncio.run(run())
        office.carry()
    assert len([p for p in office.files("a") if p.name.startswith("a-to-b")]) <= 1


# An old copy of the run's file


def test_an_old_copy_is_found_out_by_ones_own_letters(office):
    office.meet()
    office.visit("a")
    old = dict(office.stores["a"].entries)
    office.visit("a", [("b", b"one")])
    office.stores["a"].entries = old
    with pytest.raises(StoreError, match=r"a-to-b-0001-.* is one: the file is an old"):
        asyncio.run(office.drop("a").open())


def test_an_old_copy_is_found_out_by_what_has_arrived(office):
    office.meet()
    office.visit("a")
    old = dict(office.stores["a"].entries)
    office.visit("a", [("b", b"one")])
    office.carry("a")
    office.visit("b", [("a", b"two")])
    for path in office.files("a"):
        path.unlink()
    office.stores["a"].entries = old
    office.carry("b")
    with pytest.raises(StoreError, match=r"b-to-a-0001-.* says that b took one"):
        office.visit("a")
    assert not office.heard["a"]
    assert [p.name for p in office.files("a") if "a-to-b-0001" in p.name] == []


def test_an_old_copy_is_found_out_by_the_others(office):
    office.meet()
    office.visit("a")
    old = dict(office.stores["a"].entries)
    office.visit("a", [("b", b"one")])
    office.carry("a")
    office.visit("b")
    for path in office.files("a"):
        path.unlink()
    office.stores["a"].entries = old
    office.visit("a", [("b", b"another")])
    name = office.name("a", "b", 1)
    shutil.copy(office.folder("a") / name, office.folder("b") / "second.letter")
    said = office.visit("b")
    assert "second.letter: a wrote another letter of this number" in said
    assert office.once("b") == [("a", b"one")]


# First letters


def forged(office, sender, receiver, number, body, signer=None, run=None):
    identity = office.village.identities[signer or sender]
    keys = PartyKeys(identity, office.agreed.certificates)
    made = Envelope(run or office.agreed.run, sender, receiver, number, body)
    return signed(made, keys.sign)


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31)], ids=["0", "1"])
def test_a_key_that_serves_nobody_is_refused(office, key):
    office.meet()
    envelope, _, _ = split((office.folder("b") / office.name("a", "b", 0)).read_bytes())
    letter = msgspec.msgpack.decode(envelope.body, type=FirstLetter)
    bad = msgspec.msgpack.encode(FirstLetter(letter.hello, key, ()))
    path = office.folder("b") / office.name("a", "b", 0)
    path.write_bytes(forged(office, "a", "b", 0, bad))
    assert "it holds no key to answer it with" in office.visit("b")


def test_another_consortium_file_is_named(office):
    other = office.village.consortium(title="another")
    office.visit("a", consortium=other)
    office.carry("a")
    assert "its consortium file differs in title" in office.visit("b")
    # Once it has the same file, its first letter is taken.
    office.stores["a"].entries.clear()
    for path in office.files("a"):
        path.unlink()
    office.visit("a")
    office.carry("a")
    assert "not taken" not in office.visit("b")


def test_who_began_anew_is_found_out(office):
    office.meet()
    for name in NAMES:
        office.visit(name)
    office.stores["a"].entries.clear()
    for path in office.files("a"):
        path.unlink()
    office.visit("a")
    office.carry("a")
    said = office.visit("b", [("a", b"one")])
    assert "a wrote another letter of this number" in said
    office.carry("b")
    assert "it was sealed to another one" in office.visit("a")
    assert not office.heard["a"]


# Whatever happens to the files

HANDS = ("carry", "lose", "double", "rename", "cut", "flip", "swap", "visit")


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    hands=st.lists(
        st.tuples(st.sampled_from(HANDS), st.integers(0, 10**6)), max_size=12
    )
)
def test_whatever_a_carrier_does_frames_arrive_in_order_or_are_named(hands, tmp_path):
    """Among letters that it carries well in the end."""
    office = Office(tmp_path / "office")
    count, sent = itertools.count(), {name: [] for name in NAMES}
    said = {name: [] for name in NAMES}
    office.meet()
    for hand, chance in hands:
        name, other = NAMES[chance % 3], NAMES[(chance + 1) % 3]
        files = office.files(name)
        path = files[chance % len(files)] if files else None
        if hand == "visit":
            frame = b"frame %d" % next(count)
            sent[other].append((name, frame))
            said[name].append((other, frame))
            office.visit(name, said[name])  # a machine repeats itself
        elif hand == "carry":
            office.carry(name)
        elif path is None:
            continue
        elif hand == "lose":
            path.unlink()
        elif hand == "double":
            shutil.copy(path, path.with_name(f"{chance}{SUFFIX}"))
        elif hand == "rename":
            path.rename(path.with_name(f"{chance}.x"))
        elif hand == "cut":
            path.write_bytes(path.read_bytes()[: chance % (path.stat().st_size + 1)])
        elif hand == "flip":
            raw = bytearray(path.read_bytes() or b"\0")
            raw[chance % len(raw)] ^= 1 << chance % 8
            path.write_bytes(raw)
        else:
            raw, last = path.read_bytes(), files[-1]
            path.write_bytes(last.read_bytes())
            last.write_bytes(raw)
    for name in NAMES:
        got = office.once(name)
        for sender in NAMES:
            wanted = [one for one in sent[name] if one[0] == sender]
            here = [one for one in got if one[0] == sender]
            assert here == wanted[: len(here)]
    # Carried well, nothing is missing any more: everybody writes it again.
    for name in NAMES:
        for path in office.folder(name).iterdir():
            path.unlink()
    for _ in range(3):
        for name in NAMES:
            office.visit(name, said[name])
        office.carry()
    for name in NAMES:
        assert sorted(office.once(name)) == sorted(sent[name])


# Whole runs


MEAN = np.mean(THREE["cost"]["targets"], axis=0)


def test_a_run_through_folders(tmp_path):
    village = Folders(tmp_path, THREE)
    rounds = village.rounds()
    for one in village.found.values():
        np.testing.assert_allclose(one.answer, MEAN, atol=1e-9)
    assert rounds <= 9
    assert verify_receipts(village.receipts(), village.consortium).good
    stored = village.state("a").read_bytes()
    assert KEY.encode() not in stored
    assert b"drop/in/" not in stored
    # Over as it is, it writes what somebody may lack: the last letters again.
    for path in village.files("a"):
        path.unlink()
    assert village.visit("a")
    assert village.drivers["a"].was_over
    assert [p.name for p in village.files("a") if p.name.startswith("a-to-b")]
