"""A run's store: durable, whole, its owner's alone, and wiped when the run is over."""

import copy
import os
import pickle
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

import veilsum.net.store as store_module
from refusals import refused
from veilsum.consortium.consortium import consortium_from
from veilsum.consortium.pem import pem_of_der
from veilsum.errors import SecretError, StoreError
from veilsum.files.ledger import open_ledger
from veilsum.files.sqlite import connect_to_sqlite_file, inspect_sqlite_file
from veilsum.net.store import STORE, NetworkRunStore
from veilsum.privacy.accountant import Budget
from veilsum.protocol.effects import Persist

PLAN, OTHER_PLAN = bytes(range(32)), bytes(32)
ENDINGS = ("", "-wal", "-shm", "-head")
KEY = b"k"

posix = pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.run"


def opening(path, **owner):
    return NetworkRunStore.open(path, **{"key": KEY, **owner})


@contextmanager
def opened(path, plan=PLAN, **owner):
    owner = {"party": "a", **owner}
    with closing(opening(path, plan=plan, **owner)) as store:
        yield store


def write(store, **values):
    store.write([Persist(key, value) for key, value in values.items()])


def filled(path, **values):
    """A store that holds something, closed; its bytes."""
    with opened(path) as store:
        write(store, **(values or {"self": b"number", "record/1": bytes(9000)}))
    return path.read_bytes()


def content(path):
    """Every byte of the files of a store."""
    files = [Path(f"{path}{ending}") for ending in ENDINGS]
    return b"".join(file.read_bytes() for file in files if file.exists())


def names(path):
    return sorted(found.name for found in path.parent.iterdir())


# What is written is there


def test_a_new_store_is_empty_and_one_that_was_written_to_is_not(path):
    with opened(path) as store:
        assert store.read() == {}
        write(store, one=b"1", two=b"")
        write(store, one=b"changed", three=bytes(100_000))
        write(store, two=None, never=None)
        store.write([])
        assert store.read() == {"one": b"changed", "three": bytes(100_000)}
    with opened(path) as store:
        assert store.read() == {"one": b"changed", "three": bytes(100_000)}
    assert names(path) == ["a.run"]


KEYS = st.sampled_from(["self", "sent/0/b", "grüße", "", "\0"])
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=5000))))


@given(BATCHES)
@settings(max_examples=30, deadline=None)
def test_a_store_is_a_dictionary(tmp_path_factory, batches):
    path, expected = tmp_path_factory.mktemp("store") / "a.run", {}
    with opened(path) as store:
        for batch in batches:
            store.write([Persist(key, value) for key, value in batch])
            for key, value in batch:
                expected.pop(key, None)
                expected |= {} if value is None else {key: value}
            assert store.read() == expected
    with opened(path) as store:
        assert store.read() == expected


def test_every_commit_waits_for_the_disk(path):
    with opened(path) as store:
        found = {
            name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete")
        }
    assert found == {"journal_mode": b"wal", "synchronous": 2, "secure_delete": 1}


WRITER = """
import sys
from pathlib import Path
from veilsum.protocol.effects import Persist
from veilsum.net.store import NetworkRunStore

how = {"plan": bytes(range(32)), "party": "a", "key": b"k"}
store = NetworkRunStore.open(Path(sys.argv[1]), **how)
for number in range(int(sys.argv[2]), 100_000):
    value = number.to_bytes(8, "big") * 500
    store.write([Persist(key, value) for key in ("left", f"n/{number % 7}", "right")])
    print(number, flush=True)
"""


def child(code, *words, **more):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **more,
        text=True,
    )


def kill(process):
    """End a process at once; return what it had still said."""
    process.send_signal(signal.SIGKILL)
    said = [line.strip() for line in process.stdout if line.endswith("\n")]
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return said


def number_in(store, key):
    return int.from_bytes(store.read()[key][:8], "big")


@posix
def test_every_acknowledged_write_survives_a_kill_and_none_is_halved(path):
    """Killed again and again, in the middle of writes of three values each."""
    last = -1
    for lines in (1, 30, 200):
        process = child(WRITER, path, last + 1)
        said = [process.stdout.readline() for _ in range(lines)]
        last = int([*said, *kill(process)][-1])
        with opened(path) as store:
            kept = store.read()
            found = number_in(store, "left")
            # At most the one write that was under way is there without a word of it.
            assert found in (last, last + 1)
            last = found
            expected = found.to_bytes(8, "big") * 500
            assert kept["left"] == kept["right"] == kept[f"n/{found % 7}"] == expected
        assert names(path) == ["a.run"]


def test_a_write_that_fails_half_way_has_not_happened(path):
    with opened(path) as store:
        write(store, first=b"old", second=b"old")
        store._connection.execute("PRAGMA max_page_count = 10")
        with refused("cannot-use-file", StoreError):
            write(store, first=b"new", second=None, third=bytes(200_000))
        assert store.read() == {"first": b"old", "second": b"old"}
        write(store, first=b"newer")
        assert store.read()["first"] == b"newer"


# A full disk

FILLER = """
import resource, sys
from pathlib import Path
from veilsum.protocol.effects import Persist
from veilsum.errors import StoreError
from veilsum.net.store import NetworkRunStore

how = {"plan": bytes(range(32)), "party": "a", "key": b"k"}
store = NetworkRunStore.open(Path(sys.argv[1]), **how)
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
number = 0
try:
    while number < 200:
        value = number.to_bytes(8, "big") * 500
        store.write([Persist(f"{side}/{number}", value) for side in ("left", "right")])
        number += 1
except StoreError as error:
    print(error)
kept = store.read()
assert len(kept) == 2 * number, (len(kept), number)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    store.write([Persist("later", b"room again")])
store.close()
print(number)
"""


def fill_up(path, limit=0):
    """Write until the disk is full; what it said, and how many were acknowledged."""
    process = child(FILLER, path, limit)
    *said, number = process.communicate()[0].splitlines()
    assert process.returncode == 0
    return said, int(number)


@posix
def test_a_full_disk_stops_before_anything_half_written(path):
    """The limit on a file's size stands in for a disk: the write fails for real."""
    said, number = fill_up(path, 1_200_000)
    assert len(said) == 1
    assert said[0].startswith(f"cannot use {path}, nothing was written: ")
    assert 10 < number < 200
    with opened(path) as store:
        kept = store.read()
    assert kept.pop("later") == b"room again"
    assert len(kept) == 2 * number
    assert number_in_last(kept) == number - 1


def number_in_last(kept):
    return max(int.from_bytes(value[:8], "big") for value in kept.values())


@posix
def test_with_room_enough_nothing_is_refused(path):
    assert fill_up(path, 1 << 30) == ([], 200)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 KiB, where the machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    try:
        made = subprocess.run(words, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        made = False
    if not made:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full_is_named(small_disk):
    path = small_disk / "a.run"
    said, number = fill_up(path)
    assert said == [f"cannot use {path}, nothing was written: database or disk is full"]
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    with opened(path) as store:
        kept = store.read()
        assert len(kept) == 2 * number
        with refused("cannot-use-file", StoreError):
            write(store, more=bytes(5_000_000))
        assert store.read() == kept


def test_a_store_that_cannot_be_made_says_why(tmp_path):
    with refused("cannot-write", StoreError):
        opening(tmp_path / "nowhere" / "a.run", plan=PLAN, party="a")


# Whose it is


def test_another_partys_store_is_refused_by_name(path):
    before = filled(path)
    with refused("store-of-other-party", StoreError, mentions=("a", "b")):
        opening(path, plan=PLAN, party="b")
    assert path.read_bytes() == before


@pytest.mark.parametrize("sign", ["input/0", "closed"])
def test_another_plans_store_is_refused_and_both_plans_are_named(path, sign):
    before = filled(path, **{"self": b"number", sign: b""})
    words = "the plan 0001020304050607, this run has the plan 0000000000000000"
    with pytest.raises(StoreError, match=words):
        opening(path, plan=OTHER_PLAN, party="a")
    assert path.read_bytes() == before
    with opened(path) as store:  # its own plan and party are admitted
        assert store.read()["self"] == b"number"


def of_run(store):
    """What the run that has the store now kept in it."""
    kept = store.read()
    return {k: v for k, v in kept.items() if not k.startswith(("aside/", "agreed"))}


PLANS = st.sampled_from([PLAN, OTHER_PLAN, b"\1" * 32])
KEPT = st.sampled_from(["self", "record/Join/0", "bye/b"])
TURNS = st.lists(st.tuples(PLANS, KEPT), max_size=6)


@given(TURNS)
@settings(max_examples=15, deadline=None)
def test_until_shares_are_drawn_every_plan_finds_what_it_left(tmp_path_factory, turns):
    """Others may remember how a party joined: it must not come back as another."""
    path, expected = tmp_path_factory.mktemp("store") / "a.run", {}
    for number, (plan, key) in enumerate(turns):
        with opened(path, plan=plan) as store:
            mine = expected.setdefault(plan, {})
            assert of_run(store) == mine
            mine[key] = bytes([number])
            write(store, **{key: mine[key]})


def test_what_was_put_aside_is_wiped_with_the_rest(path):
    filled(path, self=MARK)
    with opened(path, plan=OTHER_PLAN) as store:
        assert pieces(path) > 0
        store.wipe(["agreed"])
    assert pieces(path) == 0


def test_a_store_that_another_process_turned_meanwhile_is_refused(path, monkeypatch):
    """Between the look at it and the lock, that one has drawn shares."""
    filled(path)
    take = store_module._hold_run_store_alone

    def late(path):
        monkeypatch.setattr(store_module, "_hold_run_store_alone", take)
        with opened(path, plan=OTHER_PLAN) as store:
            write(store, **{"input/0": b""})
        return take(path)

    monkeypatch.setattr(store_module, "_hold_run_store_alone", late)
    with refused("store-of-other-run", StoreError, mentions=("0000000000000000",)):
        opening(path, plan=PLAN, party="a")
    with opened(path, plan=OTHER_PLAN) as store:  # and the lock is free again
        assert of_run(store) == {"input/0": b""}


TABLE = {
    "format": 1,
    "run": "test-" + "0" * 32,
    "members": [
        {"name": name, "certificate": pem_of_der(name.encode()), "address": f"{name}:1"}
        for name in "ab"
    ],
    "graph": {"edges": [["a", "b"]]},
    "masks": {"law": "uniform"},
    "dispatch": {"prices": [0, 1]},
}
FILE = consortium_from({**TABLE, "title": "one"}).digests
OTHER_FILE = consortium_from({**TABLE, "title": "two", "policy": {}}).digests


@pytest.mark.parametrize("plan", [PLAN, OTHER_PLAN], ids=["same plan", "other plan"])
@pytest.mark.parametrize("sign", ["input/0", "closed"])
def test_a_run_goes_on_with_the_file_that_it_began_with(path, sign, plan):
    with opened(path, agreed=FILE) as store:
        write(store, **{sign: b""})
        store.wipe(["agreed", sign])
    before = path.read_bytes()
    words = r"differs from this one in policy, title: put that .* --state"
    with pytest.raises(StoreError, match=words):
        opening(path, plan=plan, party="a", agreed=OTHER_FILE)
    assert path.read_bytes() == before
    with opened(path, agreed=FILE) as store:
        assert of_run(store) == {sign: b""}


def test_until_shares_are_drawn_the_file_may_be_mended(path):
    with opened(path, agreed=FILE) as store:
        write(store, self=b"number")
    with opened(path, agreed=OTHER_FILE) as store:
        assert of_run(store) == {"self": b"number"}
        write(store, **{"input/0": b""})
    with refused("store-of-other-run", StoreError):
        opening(path, plan=PLAN, party="a", agreed=FILE)


HOLDER = """
import sys
from pathlib import Path
from veilsum.protocol.effects import Persist
from veilsum.net.store import NetworkRunStore

how = {"plan": bytes(range(32)), "party": "a", "key": b"k"}
store = NetworkRunStore.open(Path(sys.argv[1]), **how)
if sys.argv[2] == "write":
    store.write([Persist("held", b"by the first")])
print("inside", flush=True)
sys.stdin.readline()
"""


@posix
@pytest.mark.parametrize("deed", ["write", "look"])
def test_a_run_is_one_process_at_a_time_until_that_is_killed(path, deed):
    filled(path, held=b"by nobody")
    process = child(HOLDER, path, deed)
    assert process.stdout.readline() == "inside\n"
    # A party that it is not for is sent away as well.
    for party in ("a", "b"):
        with refused("file-in-use", StoreError, mentions=(path,)):
            opening(path, plan=PLAN, party=party)
    kill(process)
    with opened(path) as store:
        held = b"by the first" if deed == "write" else b"by nobody"
        assert store.read() == {"held": held}


@posix
def test_without_the_lock_two_processes_would_share_a_run(path):
    """The twin: what SQLite does by itself keeps nobody out."""
    code = HOLDER.replace(
        "store = ",
        "import veilsum.net.store as module\n"
        "plain = module.connect_to_sqlite_file\n"
        "module.connect_to_sqlite_file = lambda path, kind, alone: plain(path, kind)\n"
        "store = ",
    )
    processes = []
    for _ in range(2):  # one after the other: both would create the file at once
        processes.append(child(code, path, "write"))
        said = processes[-1].stdout.readline()
        if said != "inside\n":
            break
    for process in processes:
        process.communicate("go\n")
    assert (len(processes), said) == (2, "inside\n")


def test_a_second_opening_in_one_process_is_refused_too(path):
    with opened(path) as store:
        with refused("file-in-use", StoreError):
            opening(path, plan=PLAN, party="a")
        write(store, still=b"here")
    with opened(path) as store:
        assert store.read() == {"still": b"here"}


@posix
def test_a_lock_that_another_process_holds_for_a_moment_is_waited_for(
    path, monkeypatch
):
    filled(path)
    other = connect_to_sqlite_file(path, STORE, alone=True)
    other.execute("BEGIN IMMEDIATE")
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            other.close()

    monkeypatch.setattr(store_module, "sleep", pause)
    with closing(store_module._hold_run_store_alone(path)) as connection:
        assert connection.execute("SELECT party FROM owner").fetchone() == (b"a",)
    assert len(pauses) == 3
    assert all(0 <= seconds <= 0.1 for seconds in pauses)


@posix
def test_of_two_processes_that_begin_together_one_is_admitted(path):
    code = HOLDER.replace("store = ", "print('ready', flush=True)\ninput()\nstore = ")
    pipe = subprocess.PIPE
    processes = [child(code, path, "write", stderr=pipe) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    admitted = [process.stdout.readline() for process in processes]
    errors = [process.communicate()[1] for process in processes]
    assert sorted(admitted) == ["", "inside\n"]
    assert "already running" in errors[admitted.index("")]
    assert errors[admitted.index("inside\n")] == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_must_open_the_store_itself(path, monkeypatch):
    with opened(path) as store:
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: -1)
            with refused("opened-elsewhere", StoreError):
                store.read()
        assert store.read() == {}


def test_a_closed_store_says_so(path):
    with opened(path) as store:
        pass
    store.close()
    for use in (store.read, store.wipe, lambda: write(store, one=b"1")):
        with refused("file-closed", StoreError):
            use()


# Files that are not a sound store


def foreign(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.commit()


def edited(statement):
    def edit(path):
        filled(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(statement)

    return edit


def flipped(place):
    def flip(path):
        damaged = bytearray(filled(path))
        damaged[place : place + 64] = bytes(b ^ 0xFF for b in damaged[place:][:64])
        path.write_bytes(damaged)

    return flip


UNSOUND = {
    "text": (lambda path: path.write_text("a,b\n" * 900), "is not a run's store, or"),
    "empty": (Path.touch, "is not a veilsum run's store"),
    "another application's": (foreign, "is not a veilsum run's store"),
    "a ledger": (
        lambda path: open_ledger(path, create=Budget()).close(),
        "is not a veilsum run's store",
    ),
    "newer": (
        edited(f"PRAGMA user_version = {STORE.version + 1}"),
        r"of format 5, or its beginning is damaged \(this veilsum reads format 4\): ",
    ),
    "older": (
        edited("PRAGMA user_version = 3"),
        r"of format 3, .* reads format 4\): use the version of veilsum that wrote it",
    ),
    "without its header": (flipped(0), "its beginning is damaged"),
    "with a damaged page": (flipped(STORE.page), "is damaged"),
    "cut": (lambda path: path.write_bytes(filled(path)[:-99]), "its end is missing"),
    "with a table more": (edited("CREATE TABLE more (a)"), "its tables are not"),
    "nobody's": (edited("DELETE FROM owner"), "it does not say whose it is"),
}


@pytest.mark.parametrize(("spoil", "words"), UNSOUND.values(), ids=UNSOUND)
def test_what_is_not_a_sound_store_is_refused_and_left_as_it_is(path, spoil, words):
    spoil(path)
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=words) as caught:
        opening(path, plan=PLAN, party="a")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@posix
def test_another_partys_log_is_left_as_it_is(path):
    """SQLite would move it into the file, where nobody could tell the two apart."""
    process = child(HOLDER, path, "write")
    assert process.stdout.readline() == "inside\n"
    kill(process)
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    log = path.with_name(f"{path.name}-wal")
    assert len(before[log]) > 0
    for party, key in (("b", KEY), ("a", b"other")):
        with pytest.raises(StoreError):
            opening(path, plan=PLAN, party=party, key=key)
        assert (path.read_bytes(), log.read_bytes()) == (before[path], before[log])
    with opened(path) as store:
        assert store.read()


# One bit: SQLite has no checksum of what it keeps

CHANGES = {
    "a value": "UPDATE entry SET value = ? WHERE key = 'got/0/b'",
    "another entry's value": "UPDATE entry SET value = (SELECT value FROM entry WHERE "
    "key = 'sent/0/b') WHERE key = 'got/0/b' AND ? NOTNULL",
    "two values exchanged": "UPDATE entry SET value = CASE key WHEN 'got/0/b' THEN "
    "CAST('other' AS BLOB) ELSE CAST('share' AS BLOB) END WHERE key GLOB '*/0/b' "
    "AND ? NOTNULL",
    "one entry less": "DELETE FROM entry WHERE ? NOTNULL",
    "one entry more": "INSERT INTO entry VALUES ('got/0/c', ?)",
    "another name": "UPDATE entry SET key = key || 'x' WHERE ? NOTNULL",
    "another file": "UPDATE entry SET value = ? WHERE key = 'agreed'",
    "another plan": "UPDATE owner SET plan = ?",
    "another number of commits": "UPDATE head SET number = number - 1 WHERE ? NOTNULL",
    "another salt": "UPDATE head SET salt = ?",
    "another seal": "UPDATE head SET seal = ?",
}


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES)
def test_no_change_of_a_store_goes_unnoticed(path, statement):
    with opened(path, agreed=FILE) as store:
        write(store, **{"got/0/b": b"share", "sent/0/b": b"other"})
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement, (b"sharf",)).rowcount
    with refused("seal-broken", StoreError):
        opening(path, plan=PLAN, party="a", agreed=FILE)


@given(place=st.integers(0, 8 * 299))
@settings(max_examples=40, deadline=None)
def test_one_bit_of_a_share_on_the_disk_is_missed(tmp_path_factory, place):
    """Nothing else finds it: to SQLite, and to the codec, the file is sound."""
    path = tmp_path_factory.mktemp("store") / "a.run"
    share = Random(place).randbytes(300)
    before = bytearray(filled(path, **{"got/0/b": share}))
    start = before.find(share)
    assert start > 0
    before[start + place // 8] ^= 1 << place % 8
    path.write_bytes(before)
    with inspect_sqlite_file(path, STORE, owner=None) as connection:
        found = connection.execute("SELECT value FROM entry").fetchone()[0]
        assert found != share, "the twin: without the seal it would be used"
    with refused("seal-broken", StoreError):
        opening(path, plan=PLAN, party="a")


def test_nobody_else_can_make_a_store_for_a_party(path):
    filled(path)
    for party, words in (("a", "another key"), ("b", "is the store of 'a'")):
        with pytest.raises(StoreError, match=words):
            opening(path, plan=PLAN, party=party, key=b"other")


@posix
def test_a_store_that_lies_open_is_refused(path):
    filled(path)
    path.chmod(0o644)
    with refused("holds-secrets", StoreError, mentions=("0644", "600")):
        opening(path, plan=PLAN, party="a")


def test_a_folder_is_not_a_store(tmp_path):
    with refused("not-a-file", StoreError):
        opening(tmp_path, plan=PLAN, party="a")


# Secrets


@posix
def test_nobody_else_may_read_any_of_its_files(path):
    process = child(f"import os; os.umask(0)\n{HOLDER}", path, "write")
    try:
        assert process.stdout.readline() == "inside\n"
        modes = {found.name: found.stat().st_mode for found in path.parent.iterdir()}
    finally:
        kill(process)
    assert {stat.S_IMODE(mode) for mode in modes.values()} == {0o600}
    # Nothing but these is there: SQLite needs no shared index, and we no lock file.
    assert sorted(modes) == ["a.run", "a.run-head", "a.run-wal"]
    before = os.umask(0)
    try:
        with opened(path):  # what looking at a killed one's log leaves is private too
            assert {f.stat().st_mode & 0o777 for f in path.parent.iterdir()} == {0o600}
    finally:
        os.umask(before)


# Every secret is made of pieces that begin with this, to be searched for.
MARK = b"private piece "
SIZES = (4, 12, 40, 200)


def live(store, seed):
    """Write, overwrite and erase secrets as a run does, and what may be kept."""
    chance = Random(seed)
    for step in range(400):
        writes = [
            Persist(f"k{chance.randint(0, 200)}", secret(chance))
            for _ in range(chance.randint(1, 4))
        ]
        if chance.random() < 0.3:
            writes.append(Persist(f"keep{step}", bytes(chance.randint(1, 6000))))
        store.write(writes)
    store.write([Persist("big", MARK * 1000)])


def secret(chance):
    if chance.random() < 0.3:
        return None
    size = chance.choice(SIZES)
    return b"".join(MARK + chance.randbytes(10) for _ in range(size))


def pieces(path):
    return content(path).count(MARK)


def public(store):
    return {k: value for k, value in store.read().items() if k.startswith("keep")}


@pytest.mark.parametrize("seed", range(4))
def test_no_byte_of_what_was_wiped_is_left(path, seed):
    with opened(path) as store:
        live(store, seed)
        kept = public(store)
        # The twin: before, the files hold secrets, also ones overwritten and erased.
        assert pieces(path) > b"".join(store.read().values()).count(MARK) > 1000
        store.wipe(kept)
        assert store.read() == kept
        assert pieces(path) == 0
        assert Path(f"{path}-wal").read_bytes() == b""
    assert pieces(path) == 0
    with opened(path) as store:
        assert store.read() == kept


@pytest.mark.parametrize("overwrites", [True, False])
def test_an_erased_entry_is_overwritten_by_every_build_of_sqlite(
    path, monkeypatch, overwrites
):
    """Some builds overwrite unless told otherwise, others do not.

    The twin: without the store's setting the bytes stay.
    """

    def connect(*words, **options):
        connection = sqlite_connect(*words, **options)
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    sqlite_connect = store_module.connect_to_sqlite_file
    monkeypatch.setattr(store_module, "connect_to_sqlite_file", connect)
    with opened(path) as store:
        if not overwrites:
            store._live().execute("PRAGMA secure_delete = OFF")
        write(store, secret=MARK)
        store.write([Persist("secret", None)])
        store._empty_log()
        assert pieces(path) == (0 if overwrites else 1)


def test_erasing_alone_would_leave_secrets_behind(tmp_path):
    """The twin: rows deleted securely, and the log emptied, but nothing more.

    SQLite has moved rows to other pages, and what they left there is not overwritten.
    """
    left = []
    for seed in range(4):
        path = tmp_path / f"{seed}.run"
        with opened(path) as store:
            live(store, seed)
            gone = sorted(store.read().keys() - public(store).keys())
            store.write([Persist(key, None) for key in gone])
            assert pieces(path) > 1000, "the log has not forgotten"
            store._empty_log()
        left.append(pieces(path))
    assert any(left)


def test_a_store_goes_on_after_it_was_wiped_and_wiping_twice_is_harmless(path):
    with opened(path) as store:
        write(store, secret=b"s" * 50, finished=b"yes")
        store.wipe({"finished", "never there"})
        store.wipe({"finished"})
        write(store, later=b"1")
    with opened(path) as store:
        assert store.read() == {"finished": b"yes", "later": b"1"}
        store.wipe()
        assert store.read() == {}


def test_a_store_that_was_never_written_to_can_be_wiped(path):
    with opened(path) as store:
        store.wipe()
        assert store.read() == {}


@posix
def test_a_killed_process_leaves_nothing_that_a_later_wipe_would_miss(path):
    process = child(HOLDER.replace("by the first", "k" * 64), path, "write")
    assert process.stdout.readline() == "inside\n"
    kill(process)
    assert b"k" * 64 in content(path)
    with opened(path) as store:
        store.wipe()
    assert b"k" * 64 not in content(path)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_store_is_never_pickled_or_copied(path, duplicate):
    with opened(path) as store:
        write(store, one=b"secret one")
        with refused("not-copyable", SecretError):
            duplicate(store)
        assert "secret one" not in f"{store!r} {vars(store)!r}"
