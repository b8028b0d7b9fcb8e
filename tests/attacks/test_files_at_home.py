"""Files that a party keeps, changed or made up by somebody who has no key.

A backup that is none, a run's file with a program in it, and a mode that two threads
spoil for each other. Each attempt has a twin that succeeds on what was there before.
"""

import io
import os
import sqlite3
import tarfile
from contextlib import closing

import pytest

from ledgers import run
from refusals import refused
from veilsum.errors import BudgetError, LedgerError, StoreError
from veilsum.files.ledger import open_ledger, read_ledger
from veilsum.files.output import write_files
from veilsum.net.identity import new_identity
from veilsum.net.store import NetworkRunStore
from veilsum.party.backup import (
    CHECKSUMS,
    _party_backup_checksums,
    make_backup,
    restore_backup,
    resume_party_ledger,
)
from veilsum.privacy.accountant import Budget
from veilsum.protocol.effects import Persist

OWNER = {"plan": bytes(32), "party": "a", "key": b"k"}


# A backup


def archive(*, name="a.key", content=b"x", layout=tarfile.PAX_FORMAT, headers=None):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=layout) as made:
        entry = tarfile.TarInfo(name)
        entry.size, entry.pax_headers = len(content), headers or {}
        made.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


HOLES = {
    "GNU.sparse.major": "1",
    "GNU.sparse.minor": "0",
    "GNU.sparse.name": "a.key",
    "GNU.sparse.realsize": "5000000",
}


def backwards(raw):
    """A header that says that its file has less than no bytes."""
    header = bytearray(raw[:512])
    header[124:136] = (-1024).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header) + raw[512:]


HOSTILE = {
    "holes": archive(content=b"1\n0\n1\n".ljust(512, b"\0") + b"x", headers=HOLES),
    "an odd hole": archive(headers={**HOLES, "GNU.sparse.realsize": "many"}),
    "a zero byte": archive(headers={"path": "a\0b.key"}),
    "backwards": backwards(archive(layout=tarfile.GNU_FORMAT)),
    "cut": archive(content=bytes(5000), layout=tarfile.GNU_FORMAT)[:2048],
    "orders to a terminal": archive(name="\x1b[2Ja.key", layout=tarfile.GNU_FORMAT),
    "another folder": archive(name="..\\a.key", layout=tarfile.GNU_FORMAT),
    "two lines": archive(name="a\nb.key", layout=tarfile.GNU_FORMAT),
    "nobody": archive(name=".key", layout=tarfile.GNU_FORMAT),
    "no key": archive(name="veilsum.toml", layout=tarfile.GNU_FORMAT),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_a_hostile_backup_is_put_back(tmp_path, raw):
    (tmp_path / "evil").write_bytes(raw)
    with refused("not-a-backup") as caught:
        restore_backup(tmp_path / "evil", tmp_path / "here")
    assert str(caught.value).isprintable()
    assert {path.name for path in tmp_path.iterdir()} == {"evil"}


def test_a_reader_of_any_archive_would_unpack_the_holes():
    """The twin: ten kilobytes that are five million bytes in memory."""
    raw = HOSTILE["holes"]
    with tarfile.open(fileobj=io.BytesIO(raw)) as found:
        (entry,) = found
        assert entry.isfile()
        assert len(found.extractfile(entry).read()) == 5_000_000 > 400 * len(raw)


def test_a_name_in_any_letters_comes_back(tmp_path):
    name = "h\u00f4pital \u0416-3"
    new_identity(name, tmp_path / "keys")
    make_backup(tmp_path / "keys", name, tmp_path / "b")
    found = restore_backup(tmp_path / "b", tmp_path / "back")
    assert found == (f"{name}.key", f"{name}.crt")


def exchanged(backup, ledger):
    """The same backup, with a ledger in it that does not know that it is a copy."""
    with tarfile.open(backup) as before:
        files = {one.name: before.extractfile(one).read() for one in before}
    del files[CHECKSUMS]
    files["a.ledger"] = ledger
    files[CHECKSUMS] = _party_backup_checksums(files)
    with tarfile.open(backup, "w", format=tarfile.GNU_FORMAT) as made:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))


def test_no_ledger_is_put_back_that_allows_what_was_allowed_before(tmp_path):
    """Whoever keeps backups puts an old ledger, or an empty one, in the place of one.

    The twin: the very file that was put into it allows.
    """
    keys = tmp_path / "keys"
    new_identity("a", keys)
    open_ledger(keys / "a.ledger", create=Budget(epsilon=1.0)).close()
    fresh = (keys / "a.ledger").read_bytes()
    with open_ledger(keys / "a.ledger") as ledger:
        ledger.charge(run("first"))
    make_backup(keys, "a", tmp_path / "a.backup")
    exchanged(tmp_path / "a.backup", fresh)
    restore_backup(tmp_path / "a.backup", tmp_path / "back")
    assert [path.name[0] for path in (tmp_path / "back").iterdir()].count(".") == 0
    with (
        open_ledger(tmp_path / "back" / "a.ledger") as ledger,
        pytest.raises((BudgetError, LedgerError)),
    ):
        ledger.charge(run("again"))
    resume_party_ledger(tmp_path / "back" / "a.ledger", "I do not know")
    assert read_ledger(tmp_path / "back" / "a.ledger").copies
    write_files(tmp_path, {"twin.ledger": fresh}, private=True)
    with open_ledger(tmp_path / "twin.ledger") as ledger:
        ledger.charge(run("again"))


# A run's own file, and a ledger


def filled(path):
    with closing(NetworkRunStore.open(path, **OWNER)) as store:
        store.write([Persist("input/0", b"one"), Persist("answer/0", b"two")])
    return path


def edited(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


ODD = (
    "INSERT INTO entry VALUES (NULL, x'00')",
    "UPDATE entry SET value = 1.5",
    "UPDATE owner SET plan = 5",
    "UPDATE head SET number = '1'",
    "UPDATE head SET seal = 5",
    "INSERT INTO head SELECT * FROM head",
    # One text is two keys: SQLite erases one of them, and the other stays.
    "UPDATE entry SET key = CAST(key AS BLOB)",
    "INSERT INTO entry SELECT CAST(key AS BLOB), value FROM entry",
)
TRIGGER = "CREATE TRIGGER t AFTER {} BEGIN DELETE FROM {}; END"


@pytest.mark.parametrize(
    "statement", [*ODD, TRIGGER.format("INSERT ON entry", "entry")]
)
def test_a_run_s_file_with_anything_odd_in_it_is_refused(tmp_path, statement):
    path = filled(tmp_path / "a.run")
    edited(path, statement)
    with pytest.raises(StoreError, match="is damaged"):
        NetworkRunStore.open(path, **OWNER)


def test_a_trigger_that_forgets_what_became_known_is_found(tmp_path):
    """The twin: SQLite itself runs it, and says nothing."""
    path = tmp_path / "a.ledger"
    with open_ledger(path, create=Budget(epsilon=1.0)) as ledger:
        ledger.charge(run("first"))
    edited(path, TRIGGER.format("INSERT ON journal", "journal"))
    with refused("wrong-tables", LedgerError):
        open_ledger(path)
    edited(path, "INSERT INTO journal (kind, body) VALUES ('x', '{}')")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM journal").fetchone() == (0,)


# The mode of files, where a process has many threads


def old_way(meanwhile):
    """How the umask was asked for: it has to be set to be read."""
    before = os.umask(0)
    meanwhile()
    os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX")
def test_no_thread_spoils_the_mode_of_another_s_files(tmp_path, monkeypatch):
    before = os.umask(0o077)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", None)  # nobody asks
            (result,) = write_files(tmp_path, {"result.json": b"{}"})
        assert result.stat().st_mode & 0o777 == 0o600
        # The twin: two that ask at a time, and all later files are everybody's.
        mine = [os.umask(0)]
        old_way(lambda: os.umask(mine[0]))
        assert os.umask(0o077) == 0
    finally:
        os.umask(before)
