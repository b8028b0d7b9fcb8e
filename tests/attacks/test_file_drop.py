"""Whoever carries letters: reads all of them, edits, exchanges, replays, forges.

Each attempt has a twin that succeeds where what stands in its way is taken out.
"""

import asyncio
import itertools
import logging
import os
import shutil
import stat
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from net.drops import THREE, Folders, Office
from net.village import Village
from refusals import refused
from veilsum.errors import StoreError
from veilsum.net import drop as module
from veilsum.net.drop import (
    KEY,
    SUITE,
    DropEnvelope,
    DropLetter,
    FirstLetter,
    sign_drop_letter,
    split_drop_letter,
)
from veilsum.net.identity import PartyKeys, new_identity
from veilsum.party.replay import plan_to_replay
from veilsum.protocol.messages import Share
from veilsum.sums.kinds import resolve_agreed_question

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SECRET = [[17.28125, -3.59375], [-61.40625, 44.03125], [8.71875, 29.65625]]


class Watched(Folders):
    """A run whose letters are all kept by who carries them, and what was in them."""

    def __init__(self, place, targets=SECRET):
        cost = {"kind": "squared-distance", "targets": targets}
        super().__init__(place, {**THREE, "cost": cost})
        self.carried, self.frames, self.kept = {}, [], []
        self.records = dict.fromkeys(self.names, self.witness)

    def witness(self, what, detail, _):
        if what == "send":
            self.frames.append(detail)
        if what == "persist" and detail.value is not None:
            self.kept.append(detail)

    def all_visit(self, times):
        for _ in range(times):
            for name in self.names:
                if name not in self.found:
                    self.visit(name)
            self.carry_all()

    def carry_all(self):
        for name in self.names:
            for path in self.files(name):
                self.carried[path.name] = path.read_bytes()
        super().carry_all()

    def plan(self):
        return plan_to_replay(self.consortium, resolve_agreed_question(self.consortium))

    def secrets(self):
        """Bytes of every share, key of a share, masked vector and coefficient."""
        codec = self.plan().codec
        found = {np.array(row).tobytes() for row in SECRET}
        for one in self.kept:
            if one.key.startswith(("sent/", "got/", "masked/")):
                message = codec.decode(one.value)
                found.add(message.numbers.tobytes())
                if isinstance(message, Share):
                    found.add(message.key)
        return found

    def shown(self):
        everything = b"".join(self.carried.values())
        return {one for one in self.secrets() if one in everything}


class Unsealed:
    """Seals nothing."""

    @staticmethod
    def encrypt(plain, _key, _info=None):
        return plain

    decrypt = encrypt


@pytest.fixture
def office(tmp_path):
    return Office(tmp_path / "office")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that is over, and a copy of a party's file of it in the middle."""
    found = Watched(tmp_path_factory.mktemp("whole"))
    found.all_visit(2)
    state = found.state("a")
    logged = state.with_name(f"{state.name}-wal")
    found.early = state.read_bytes()
    found.early += logged.read_bytes() if logged.exists() else b""
    found.rounds()
    return found


def test_no_letter_shows_a_share_or_a_number(whole):
    assert len(whole.carried) > 30
    assert len(whole.secrets()) > 9
    assert not whole.shown()
    assert not any(frame in b"".join(whole.carried.values()) for frame in shares(whole))


def shares(whole):
    codec = whole.plan().codec
    return [one for one in whole.frames if isinstance(codec.decode(one), Share)]


def test_the_search_finds_them_where_nothing_is_sealed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SUITE", Unsealed)
    found = Watched(tmp_path)
    found.all_visit(5)
    assert len(found.shown()) >= 9  # three shares and their keys at least
    assert any(frame in b"".join(found.carried.values()) for frame in shares(found))


def opened(letters, secret):
    """How many letters open with a key."""
    count = 0
    for raw in letters:
        envelope, _, _ = split_drop_letter(raw)
        try:
            SUITE.decrypt(envelope.body, secret, envelope.info)
        except (InvalidTag, ValueError):
            continue
        count += 1
    return count


def test_who_steals_a_party_s_files_afterwards_reads_no_letter(whole):
    found, early = whole, whole.early
    letters = list(found.carried.values())
    to_a = [raw for raw in letters if split_drop_letter(raw)[0].receiver == "a"]
    late = b"".join(
        path.read_bytes()
        for path in found.folder("a").rglob("*")
        if path.is_file() and "letters" not in path.parts
    )

    def tried(content):
        """Every 32 bytes of a file may be the key: those around its name are."""
        at = content.find(KEY.encode())
        near = range(at, at + 64) if at >= 0 else range(0, len(content) - 32, 997)
        return max(
            opened(to_a, X25519PrivateKey.from_private_bytes(content[k : k + 32]))
            for k in near
        )

    assert KEY.encode() not in late
    assert tried(late) == 0
    # The twin: with the run's file, while it went on, every letter to this party.
    assert KEY.encode() in early
    assert tried(early) == len(to_a) - 2  # all but the two that are not sealed


def first_letter(office, sender, receiver, key, sign):
    """A first letter of somebody, with another key in it."""
    raw = (office.folder(receiver) / office.name(sender, receiver, 0)).read_bytes()
    envelope, _, _ = split_drop_letter(raw)
    letter = msgspec.msgpack.decode(envelope.body, type=FirstLetter)
    body = msgspec.msgpack.encode(msgspec.structs.replace(letter, key=key))
    return sign_drop_letter(msgspec.structs.replace(envelope, body=body), sign)


def in_the_middle(office, tmp_path):
    """A carrier that puts its own key into b's first letter; what it then reads."""
    own = X25519PrivateKey.generate()
    stranger = new_identity("b", tmp_path / "stranger")
    for name in "abc":
        office.visit(name)
    office.carry()
    path = office.folder("a") / office.name("b", "a", 0)
    public = own.public_key().public_bytes_raw()
    path.write_bytes(first_letter(office, "b", "a", public, stranger.sign))
    said = office.visit("a", [("b", b"a share")])
    read = []
    for raw in [p.read_bytes() for p in office.files("a")]:
        envelope, _, _ = split_drop_letter(raw)
        try:
            plain = SUITE.decrypt(envelope.body, own, envelope.info)
        except (InvalidTag, ValueError):
            continue
        read += msgspec.msgpack.decode(plain, type=DropLetter).frames
    return said, read


def test_nobody_puts_a_key_of_its_own_in_the_middle(office, tmp_path):
    said, read = in_the_middle(office, tmp_path)
    assert "b did not sign it as it is" in said
    assert read == []


def test_without_signatures_it_would(office, tmp_path, monkeypatch):
    monkeypatch.setattr(PartyKeys, "verify", lambda *_: True)
    _, read = in_the_middle(office, tmp_path)
    assert read == [b"a share"]


def passed_off(office):
    """A member that hands another's letter on as its own; what the receiver hears."""
    office.meet()
    office.visit("a", [("b", b"of a")])
    envelope, _, _ = split_drop_letter(
        (office.folder("a") / office.name("a", "b", 1)).read_bytes()
    )
    mine = msgspec.structs.replace(envelope, sender="c")
    keys = PartyKeys(office.village.identities["c"], office.agreed.certificates)
    office.visit("c")
    path = office.folder("b") / office.name("c", "b", 1)
    path.write_bytes(sign_drop_letter(mine, keys.sign))
    return office.visit("b"), office.once("b")


def test_no_member_passes_a_letter_of_another_off_as_its_own(office):
    said, heard = passed_off(office)
    assert "it does not open with this party's key" in said
    assert heard == []


def test_it_would_if_a_seal_were_not_bound_to_both_ends(office, monkeypatch):
    monkeypatch.setattr(DropEnvelope, "info", b"")
    _, heard = passed_off(office)
    assert heard == [("c", b"of a")]


def test_no_member_opens_what_is_for_another(office):
    office.meet()
    office.visit("a", [("b", b"of a")])
    raw = (office.folder("a") / office.name("a", "b", 1)).read_bytes()
    keys = {
        name: X25519PrivateKey.from_private_bytes(office.stores[name].entries[KEY])
        for name in "abc"
    }
    assert [opened([raw], keys[name]) for name in "abc"] == [0, 1, 0]


def test_no_bit_of_a_letter_can_be_changed(office):
    office.meet()
    office.visit("a", [("b", b"of a")])
    name = office.name("a", "b", 1)
    raw = (office.folder("a") / name).read_bytes()
    made = office.drop("b")
    taken = []
    for at in range(0, len(raw), 3):
        changed = bytearray(raw)
        changed[at] ^= 1 << at % 8
        (office.folder("b") / name).write_bytes(changed)
        made._known.clear()
        taken += [
            one
            for one in made._look()
            if one.about is not None and one.about.number == 1
        ]
    assert not taken
    (office.folder("b") / name).write_bytes(raw)
    assert [one for one in made._look() if one.name == name and one.about]


def test_letters_of_another_run_are_none_of_this(office):
    """The same parties, keys and names: only the run is another."""
    office.meet()
    office.visit("a", [("b", b"of this run")])
    other = office.village.consortium(run="test-" + "1" * 32)
    letters = [p.read_bytes() for p in office.files("a")]
    fresh = Office(office.place.with_name("another"))
    fresh.agreed = other
    fresh.meet()
    for k, raw in enumerate(letters):
        (fresh.folder("b") / f"{k}.letter").write_bytes(raw)
    fresh.visit("b")
    assert fresh.heard["b"] == []
    # Renaming the run in it breaks the signature.
    letter = office.folder("a") / office.name("a", "b", 1)
    envelope, signature, _ = split_drop_letter(letter.read_bytes())
    moved = msgspec.structs.replace(envelope, run=other.run)
    raw = sign_drop_letter(moved, lambda _: signature)
    (fresh.folder("b") / "moved.letter").write_bytes(raw)
    assert "did not sign it as it is" in fresh.visit("b")
    assert fresh.heard["b"] == []


def test_a_letter_for_another_and_one_s_own_change_nothing(office):
    office.meet()
    office.visit("a", [("b", b"for b"), ("c", b"for c")])
    office.visit("b", [("a", b"for a")])
    for name in "abc":
        for path in office.files(name):
            for other in "abc":
                to = office.folder(other) / f"{name}-{path.name}"
                if not to.exists():
                    shutil.copy(path, to)
    for name in "abc":
        office.visit(name)
    assert office.once("b") == [("a", b"for b")]
    assert office.once("c") == [("a", b"for c")]
    assert office.once("a") == [("b", b"for a")]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "masks"), [(1, 0), (2, 1)])
def test_an_old_run_file_shows_nothing_twice(before, masks, tmp_path):
    """Put back before its shares were drawn, or after, its own letters taken away."""
    found = Watched(tmp_path)
    found.all_visit(before)
    old = found.state("a").read_bytes()
    found.all_visit(5 - before)
    shown = {one.value for one in found.kept if one.key.startswith("masked/")}
    assert len(shown) == 3
    decode = found.plan().codec.decode
    vectors = {decode(one).numbers.tobytes() for one in shown}
    found.state("a").write_bytes(old)
    (found.folder("a") / "a.ledger").unlink()  # which would have refused by itself
    for path in found.files("a"):
        if path.name.startswith("a-to-"):
            path.unlink()
    found.kept.clear()
    for _ in range(2):
        with refused("stale-run-file", StoreError):
            found.visit("a")
        found.carry_all()
    # With its old shares it masks the same numbers again, and writes them to nobody.
    again = {one.value for one in found.kept if one.key.startswith("masked/")}
    assert len(again) == masks
    assert {decode(one).numbers.tobytes() for one in again} <= vectors
    own = [p.name for p in found.files("a") if p.name.startswith("a-to-")]
    assert all("-0000-" in name or "-0001-" in name for name in own)


@pytest.mark.slow
def test_sizes_tell_nothing_of_the_numbers(whole, tmp_path):
    """Other numbers, and other chance: every letter is as long as it was."""
    other = Watched(tmp_path, [[0.0, 0.0], [1e-3, -90.0], [77.7, 1.0]])
    other.rounds()

    def sizes(run):
        return {name[:-15]: len(raw) for name, raw in run.carried.items()}

    assert sizes(other) == sizes(whole)


# Files that are not what they were a moment ago


class Swapping:
    """Puts a pipe in the place of a file between the look at it and its opening."""

    def __init__(self, path, patch):
        self.path, self.stat = path, Path.stat
        patch.setattr(Path, "stat", lambda *given, **how: self(*given, **how))

    def __call__(self, path, **how):
        found = self.stat(path, **how)
        if path == self.path and stat.S_ISREG(found.st_mode):
            path.unlink()
            os.mkfifo(path)
        return found


def test_a_pipe_in_the_place_of_a_letter_holds_nobody_up(office, monkeypatch):
    """Whoever writes into the folder is faster than the party that reads.

    To open a pipe to which nobody writes takes for ever: this test would.
    """
    office.meet()
    office.visit("a", [("b", b"one")])
    office.carry("a")
    with monkeypatch.context() as patch:
        Swapping(office.folder("b") / office.name("a", "b", 1), patch)
        said = office.visit("b")
    assert f"its next letter is {office.name('a', 'b', 1)}" in said
    assert not office.heard["b"]
    (office.folder("b") / office.name("a", "b", 1)).unlink()
    office.carry("a")
    office.visit("b")
    assert office.once("b") == [("a", b"one")]


def test_who_only_looked_before_would_wait_for_ever(tmp_path, monkeypatch):
    """The twin: the same pipe, opened as files usually are."""
    path = tmp_path / "letter"
    path.write_bytes(b"x")
    Swapping(path, monkeypatch)
    assert stat.S_ISREG(path.stat().st_mode)
    opened = threading.Event()

    def read():
        with path.open("rb"):
            opened.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert not opened.wait(0.1)
    os.close(os.open(path, os.O_WRONLY))  # somebody writes after all
    thread.join()


def test_a_folder_that_grows_while_it_is_read_is_refused(office, monkeypatch):
    """Somebody adds files faster than they are looked at: there is an end to it."""
    office.meet()

    class Endless:
        def __enter__(self):
            return (entry for _ in itertools.count() for entry in self.some)

        def __exit__(self, *_):
            pass

        some = tuple(os.scandir(office.folder("b")))

    monkeypatch.setattr(module.os, "scandir", lambda _: Endless())
    with refused("too-many-files", StoreError, mentions=("10,000",)):
        office.drop("b")._look()


@pytest.mark.parametrize("name", [b"x\nletter taken", b"\xff\xfe", b"\x1b[2J"])
def test_the_name_of_a_letter_forges_no_line(name, office, caplog):
    """A carrier renames letters: names are shown, on one line, wherever they are."""
    caplog.set_level(logging.INFO, logger="veilsum.net")
    office.meet()
    office.visit("a", [("b", b"one")])
    raw = (office.folder("a") / office.name("a", "b", 1)).read_bytes()
    path = office.folder("b") / os.fsdecode(name + b".letter")
    path.write_bytes(raw[:-1])
    bad = office.visit("b")
    path.write_bytes(raw)
    office.visit("b")
    assert office.once("b") == [("a", b"one")]
    # Its own letter, which an old copy of its state does not know, has that name, too.
    office.stores["a"] = type(office.stores["a"])()
    own = office.folder("a") / office.name("a", "b", 1)
    own.rename(own.with_name(path.name))
    with pytest.raises(StoreError) as old:
        asyncio.run(office.drop("a").open())
    told = [bad, str(old.value)] + [getattr(one, "file", "") for one in caplog.records]
    assert len([one for one in told if "?" in one]) >= 4
    for one in told:
        assert one.replace("\n  ", "").isprintable()


def test_what_was_said_of_files_that_are_gone_is_forgotten(office):
    """A carrier that brings ever new files fills neither memory nor log."""
    office.meet()
    made = office.drop("b")
    for k in range(50):
        path = office.folder("b") / f"{k}.letter"
        path.write_bytes(b"nothing")
        made._look()
        assert [*made._told] == [path.name]
        path.unlink()
    made._look()
    assert not made._told


@pytest.mark.parametrize("days", [-4000, 4000])
def test_the_times_of_files_mean_nothing(days, office):
    """A carrier's clock is wrong by years, or it sets times as it likes."""
    office.meet()
    for k in range(3):
        office.visit("a", [("b", b"%d" % k)])
    office.carry("a")
    for k, path in enumerate(office.files("b")):
        moment = max(1.0, time.time() + (days - k) * 86400)
        os.utime(path, (moment, moment))
    office.visit("b")
    assert office.once("b") == [("a", b"%d" % k) for k in range(3)]


def test_letters_that_would_have_one_name_are_refused(tmp_path):
    """One folder for all: of a to b-to-c and of a-to-b to c only one letter stays."""
    pairs = [("a", "b-to-c"), ("a-to-b", "c")]
    assert (
        len({module.letter_file_name("run-" + "0" * 8, *pair, 1) for pair in pairs})
        == 1
    )
    names = ("a", "b-to-c", "a-to-b", "c")
    village = Village(tmp_path, names)
    with refused("letter-names-clash"):
        module._check_drop_letter_names(village.consortium())
    # The twin: the same members, none of whom writes to two that read alike.
    village = Village(tmp_path / "twin", ("a", "b-to-c", "a-to-d", "c"))
    module._check_drop_letter_names(village.consortium())
