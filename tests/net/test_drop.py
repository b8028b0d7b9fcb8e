"""Letters in folders: whatever happens to files, frames arrive in order and once."""

import asyncio
import itertools
import json
import os
import shutil
import time
import tomllib
from contextlib import suppress
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from histories import POINTS
from later import Later
from net.drops import NAMES, THREE, Folders, Office
from net.runs import data_files
from refusals import refused
from rules import broken_rules
from veilsum.drivers.driver import GivenUpError
from veilsum.drivers.loopback import LoopbackEvent, LoopbackWorld
from veilsum.errors import (
    BudgetError,
    PeerProtocolError,
    StoreError,
    WaitingError,
)
from veilsum.masks.masking import SystemStreams
from veilsum.minimise.party_cost import PartyCost
from veilsum.net import drop as module
from veilsum.net.drop import (
    KEY,
    MAGIC,
    SUFFIX,
    DropEnvelope,
    DropFolder,
    FirstLetter,
    NetworkFileDrop,
    sign_drop_letter,
    split_drop_letter,
)
from veilsum.net.identity import PartyKeys
from veilsum.net.links import SocketNetwork
from veilsum.net.receipt import verify_receipts
from veilsum.net.runner import NeighbourLinks
from veilsum.net.store import NetworkRunStore
from veilsum.party import local
from veilsum.party.networked import NetworkedParty
from veilsum.party.processes import party_process_context
from veilsum.protocol.messages import Status
from veilsum.sums.recipes import SumPartyWork

api = Later("statsmodels.api")

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def office(tmp_path_factory):
    return Office(tmp_path_factory.getbasetemp() / "office")


def test_both_ways_are_what_a_runner_uses():
    assert issubclass(SocketNetwork, NeighbourLinks)
    assert issubclass(NetworkFileDrop, NeighbourLinks)


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
    envelope, _, _ = split_drop_letter(first.read_bytes())
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


def test_who_stays_is_told_once_what_is_missing(office, caplog, monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY", 0.001)
    office.meet()
    for k in range(2):
        office.visit("a", [("b", b"%d" % k)])
    later = office.name("a", "b", 2)
    shutil.copy(office.folder("a") / later, office.folder("b") / later)
    made = office.drop("b", folder=DropFolder(office.folder("b")))

    async def run():
        await made.open()
        ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.02, ended.set_result, None)
        await made.until(ended)

    asyncio.run(run())
    told = [one.reason for one in caplog.records if "missing" in one.getMessage()]
    missing = office.name("a", "b", 1)
    assert told == [f"{missing} is missing, and a later letter is here"]
    assert missing in made.condition("a")


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
    with refused("too-many-files", StoreError, mentions=("5",)):
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


def test_all_may_have_one_folder(office):
    shared = DropFolder(office.folder("a"), once=True)
    for name in NAMES:
        office.visit(name, folder=shared)
    for name in NAMES:
        frames = [(one, b"from %s" % name.encode()) for one in office.others(name)]
        office.visit(name, frames, folder=shared)
    for name in NAMES:
        office.visit(name, folder=shared)
        others = [one for one in NAMES if one != name]
        assert sorted(office.once(name)) == [
            (o, b"from %s" % o.encode()) for o in others
        ]


def test_refused_files_do_not_fill_the_log(office, caplog):
    office.meet()
    made = office.drop("b")
    for k in range(30):
        (office.folder("b") / f"{k}{SUFFIX}").write_bytes(b"%d" % k)
    made._look()
    assert len(caplog.records) == 5


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
    with refused("stale-run-file", StoreError):
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
    with refused("stale-run-file", StoreError):
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
    made = DropEnvelope(
        run or office.agreed.run,
        office.drop(sender)._digest,
        sender,
        receiver,
        number,
        body,
    )
    return sign_drop_letter(made, keys.sign)


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31)], ids=["0", "1"])
def test_a_key_that_serves_nobody_is_refused(office, key):
    office.meet()
    envelope, _, _ = split_drop_letter(
        (office.folder("b") / office.name("a", "b", 0)).read_bytes()
    )
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
    office.visit("a")
    office.carry("a")
    assert "not taken" not in office.visit("b")


def test_with_a_new_consortium_file_everybody_begins_anew(office):
    """Before shares are drawn the organiser may send another one for the same run."""
    old = office.village.consortium(title="with a mistake")
    for _ in range(2):
        for name in NAMES:
            other = office.others(name)[0]
            office.visit(name, [(other, b"early")], consortium=old)
        office.carry()
    for name in NAMES:
        office.heard[name].clear()
    for _ in range(3):
        for name in NAMES:
            other = office.others(name)[0]
            office.visit(name, [(other, b"of %s" % name.encode())])
        office.carry()
    assert office.once("a") == [("b", b"of b"), ("c", b"of c")]
    assert office.once("b") == [("a", b"of a")]


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
            shutil.copy(path, path.with_name(f"copy {next(count)}{SUFFIX}"))
        elif hand == "rename":
            path.rename(path.with_name(f"{next(count)}.x"))
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
COLUMNS = {
    "x": {"kind": "number", "minimum": -100, "maximum": 100, "unit": 0.25},
    "y": {"kind": "number", "minimum": -100, "maximum": 100, "unit": 0.25},
}
TABLES = {
    name: pd.DataFrame(
        np.rint(np.random.default_rng(k).uniform(-90, 90, (60, 2)) * 4) / 4,
        columns=["x", "y"],
    )
    for k, name in enumerate(NAMES)
}
POOLED = pd.concat(TABLES.values())
ABOUT_TABLES = {
    "title": "three wards",
    "schema": {"minimum_rows": 50, "columns": COLUMNS},
    "policy": {"tolerate": 0},
}


def about_tables(folder, **section):
    return Folders(folder, data_files({**ABOUT_TABLES, **section}, TABLES, folder))


def test_a_run_through_folders(tmp_path):
    folders = Folders(tmp_path, THREE)
    # Keys, shares, commitments, masked numbers; answer, signatures, and their sight.
    assert folders.rounds() == 7
    for one in folders.found.values():
        np.testing.assert_allclose(one.answer, MEAN, atol=1e-9)
    assert verify_receipts(folders.receipts(), folders.consortium).good
    stored = folders.state("a").read_bytes()
    assert KEY.encode() not in stored
    assert b"drop/in/" not in stored
    # Over as it is, it writes what somebody may lack: the last letters again.
    for path in folders.files("a"):
        path.unlink()
    assert folders.visit("a")
    assert folders.found["a"].released.end.was_over
    assert [p.name for p in folders.files("a") if p.name.startswith("a-to-b")]


class Refusing(NetworkedParty):
    """A party whose ledger refuses at the last moment."""

    def _runner(self, *given):
        made = super()._runner(*given)

        def refuse(*_):
            raise BudgetError("no")

        made.charge = refuse
        return made


@pytest.mark.slow
def test_who_leaves_tells_the_others_in_a_letter(tmp_path):
    folders = Folders(tmp_path, THREE)
    ended = {}
    for _ in range(12):
        for name in sorted(set(folders.names) - ended.keys()):
            folders.kind = Refusing if name == "b" else NetworkedParty
            try:
                folders.visit(name)
            except GivenUpError as error:
                ended[name] = str(error)
        folders.carry_all()
    assert ended.keys() == {"a", "b", "c"}
    assert "'b' left: refused" in ended["a"]
    assert "'b' left: refused" in ended["c"]


class Careless:
    """A carrier that loses, doubles, renames, cuts and mixes up, now and then."""

    def __init__(self, folders, seed):
        self.folders, self.chance = folders, np.random.default_rng(seed)

    def __call__(self):
        folders = self.folders
        carried = [(n, p) for n in folders.names for p in folders.files(n)]
        self.chance.shuffle(carried)
        for name, path in carried:
            found = split_drop_letter(path.read_bytes())
            if found is None or found[0].sender != name:
                continue
            way = self.chance.choice(["well"] * 6 + ["lose", "double", "cut", "rename"])
            to, raw = folders.letters(found[0].receiver), path.read_bytes()
            if way == "lose":
                path.unlink()
            elif way == "cut":
                (to / path.name).write_bytes(raw[: len(raw) // 2])
            elif way == "rename":
                (to / f"{self.chance.integers(10**9)}").write_bytes(raw)
            else:
                (to / path.name).write_bytes(raw)
            if way == "double":
                (to / f"copy of {path.name}").write_bytes(raw)


@pytest.mark.slow
def test_least_squares_through_a_careless_carrier(tmp_path):
    folders = about_tables(tmp_path, model={"formula": "y ~ x"})
    folders.rounds(carry=Careless(folders, 5))
    design = np.column_stack([np.ones(len(POOLED)), POOLED["x"]])
    wanted, *_ = np.linalg.lstsq(design, POOLED["y"].to_numpy(), rcond=None)
    for one in folders.found.values():
        found = [*one.coefficients.values()]
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert verify_receipts(folders.receipts(), folders.consortium).good


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_statistics_through_careless_carriers(tmp_path, seed):
    folders = about_tables(tmp_path, statistics={"columns": ["x", "y"]})
    folders.rounds(carry=Careless(folders, seed))
    for one in folders.found.values():
        mean, variance = POOLED.mean().to_numpy(), POOLED.var().to_numpy()
        np.testing.assert_allclose(one.moments.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(one.moments.variance, variance, rtol=1e-12)


@pytest.mark.slow
def test_every_round_of_a_regression_is_a_sum_in_letters(tmp_path):
    rows = {
        name: one.assign(y=(one["y"] > one["x"] / 2 + 20).astype(int))
        for name, one in TABLES.items()
    }
    columns = {**COLUMNS, "y": {"kind": "integer", "minimum": 0, "maximum": 1}}
    table = {
        **ABOUT_TABLES,
        "schema": {"minimum_rows": 50, "columns": columns},
        "model": {"formula": "y ~ x", "family": "logistic"},
    }
    folders = Folders(tmp_path, data_files(table, rows, tmp_path))
    # Two visits for each of seven sums, and as many around them as for one.
    assert folders.rounds(60) == 19
    pooled = pd.concat(rows.values())
    design = np.column_stack([np.ones(len(pooled)), pooled["x"]])
    wanted = api.Logit(pooled["y"].to_numpy(), design).fit(disp=False)
    for one in folders.found.values():
        off = np.array([*one.coefficients.values()]) - wanted.params
        assert (np.abs(off) < 1e-4 * wanted.bse).all()  # as four digits promise


def command(folders, name, *words):
    return [*folders.seats[name].command, "--drop", "letters", *words]


class Processes:
    """Every party as a process of its own, started by the very command."""

    def __init__(self, folders):
        self.folders, self.running = folders, {}

    def start(self, name, *words):
        process = party_process_context().Process(
            target=local._run_local_party_process,
            args=(command(self.folders, name, *words), str(self.folders.folder(name))),
        )
        self.running[name] = process
        process.start()
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.join()


def results(folders):
    return [
        json.loads((folders.folder(name) / "out" / "result.json").read_text())
        for name in folders.names
    ]


@pytest.mark.slow
def test_processes_that_end_whenever_they_wait(tmp_path):
    """Nothing but files is between them, and whoever carries these moves them."""
    folders = Folders(tmp_path, THREE)
    over = set()
    with Processes(folders) as parties:
        for _ in range(20):
            for name in sorted(set(folders.names) - over):
                process = parties.start(name, "--once")
                process.join(120)
                assert process.exitcode in {0, 3}, folders.folder(name) / "log.jsonl"
                if process.exitcode == 0:
                    over.add(name)
            for name in folders.names:
                for path in folders.files(name):
                    to = path.name.split("-to-")[1].split("-")[0]
                    if to != name:
                        path.rename(folders.letters(to) / path.name)
            if len(over) == 3:
                break
    for one in results(folders):
        np.testing.assert_allclose(one["minimiser"], MEAN, atol=1e-9)


@pytest.mark.slow
def test_processes_that_wait_and_one_that_is_killed(tmp_path):
    folders = Folders(tmp_path, THREE)
    with Processes(folders) as parties:
        for name in folders.names:
            parties.start(name)
        killed = False
        for _ in range(1200):
            with suppress(FileNotFoundError):  # what has arrived is removed meanwhile
                folders.carry_all()
            if not killed and any("-0003-" in p.name for p in folders.files("b")):
                parties.running["b"].kill()
                parties.running["b"].join()
                parties.start("b")
                killed = True
            if not any(one.is_alive() for one in parties.running.values()):
                break
            time.sleep(0.1)
        codes = {name: one.exitcode for name, one in parties.running.items()}
    assert killed
    assert set(codes.values()) == {0}
    for one in results(folders):
        np.testing.assert_allclose(one["minimiser"], MEAN, atol=1e-9)


def test_a_run_that_began_one_way_goes_on_that_way(tmp_path):
    folders = Folders(tmp_path, THREE)
    driver = folders.driver("a")
    connected = replace(driver, consortium=folders.addressed, drop=None)
    with refused("way-changed", StoreError, mentions=("--drop",)):
        connected._check_way({"self": b"", KEY: b""})
    with refused("way-changed", StoreError, mentions=("--drop",)):
        driver._check_way({"self": b""})


def test_a_consortium_without_addresses_needs_a_folder(tmp_path):
    folders = Folders(tmp_path, THREE)
    assert folders.consortium.by_files
    with refused("no-addresses"):
        replace(folders.driver("a"), drop=None)


class Died(BaseException):
    """What ends a process at once, wherever it is."""


class Mortal:
    """Takes down what happens, and lets processes die at any writing or sending."""

    def __init__(self, folders, seed, monkeypatch):
        self.folders, self.chance = folders, np.random.default_rng(seed)
        self.history, self.left, self.deaths = [], 0, 0
        folders.records = {name: partial(self.note, name) for name in folders.names}
        for kind, name in ((NetworkRunStore, "write"), (DropFolder, "put")):
            monkeypatch.setattr(kind, name, self.dying(getattr(kind, name)))

    def note(self, party, what, detail, peer):
        if what == "persist":
            return  # that it is on the disk is known where it was written
        self.history.append(LoopbackEvent(len(self.history), party, what, detail, peer))
        if what in POINTS:
            self.step()

    def step(self):
        self.left -= 1
        if self.left == 0:
            self.deaths += 1
            raise Died

    def dying(self, act):
        """Die before, or after, something is on the disk."""

        def mortal(*given):
            self.step()
            act(*given)
            here, content = given
            if isinstance(here, NetworkRunStore):
                party, now = here.path.parent.name, len(self.history)
                self.history += [
                    LoopbackEvent(now, party, "persist", one) for one in content
                ]
            self.step()

        return mortal

    def visit(self, name):
        self.left = int(self.chance.integers(1, 100))
        with suppress(Died):
            self.folders.visit(name)

    def broken(self):
        owned = {
            name: PartyCost.of(
                self.folders.consortium,
                tomllib.loads((self.folders.folder(name) / "cost.toml").read_text()),
            )
            for name in self.folders.names
        }
        works = {
            name: SumPartyWork(one.recipe, one.recipe.contribution(name, one.cost))
            for name, one in owned.items()
        }
        world = LoopbackWorld(owned["a"].plan, works, SystemStreams())
        world.history = self.history
        for event in self.history:
            if event.what == "finish":
                world.finished[event.party] = event.detail
        return broken_rules(world)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_processes_that_die_anywhere_go_on_and_break_no_rule(
    seed, tmp_path, monkeypatch
):
    """No share drawn twice, nothing shown before the commit, masks that cancel."""
    folders = Folders(tmp_path, THREE)
    fate = Mortal(folders, seed, monkeypatch)
    for _ in range(12):
        for name in sorted(set(folders.names) - folders.found.keys()):
            fate.visit(name)
        folders.carry_all()
    fate.left = -1
    folders.rounds()
    assert fate.deaths > 10
    assert fate.broken() == []
    for one in folders.found.values():
        np.testing.assert_allclose(one.answer, MEAN, atol=1e-9)
