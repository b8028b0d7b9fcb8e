"""Sealed files: their head, their kind, and files that are left beside them."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledgers import run
from refusals import refused
from veilsum.errors import LedgerError, StoreError
from veilsum.files.ledger import LEDGER, copy_ledger, open_ledger, read_ledger
from veilsum.files.sqlite import RECORD_BYTES, RECORDS, SqliteSealing, files_beside
from veilsum.privacy.accountant import Budget
from veilsum.surveys.delegate import COPIED, SURVEYS, SurveyDelegateStore
from veilsum.surveys.store_copy import copy_store

posix = pytest.mark.skipif(os.name != "posix", reason="a matter of POSIX")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ledger"


def head_of(path):
    return path.with_name(f"{path.name}-head")


def as_left_by_a_kill(path, to):
    """Copy a ledger that is open, with all files beside it."""
    to.mkdir()
    for one in (path, *files_beside(path)):
        shutil.copy(one, to)
    return to / path.name


def test_a_head_is_there_while_the_log_is(path):
    with open_ledger(path, create=Budget()) as ledger:
        assert not head_of(path).exists(), "nothing was written"
        ledger.charge(run("one"))
        assert head_of(path).stat().st_mode & 0o777 == 0o600
        with open_ledger(path) as other:
            other.charge(run("two"))
        assert head_of(path).exists(), "another program has the file open"
        for number in range(2 * RECORDS):
            ledger.charge(run(f"more {number}"))
        assert head_of(path).stat().st_size == RECORDS * RECORD_BYTES
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_head_that_is_written_late_hides_no_later_one(path, tmp_path):
    """Two programs commit one after the other, and write their heads in reverse."""
    with open_ledger(path, create=Budget()) as ledger:
        late = []
        journal = ledger._journal
        journal._write_head = late.append
        ledger.charge(run("one"))
        with open_ledger(path) as other:
            other.charge(run("two"))
            del journal._write_head
            journal._write_head(*late)
            left = as_left_by_a_kill(path, tmp_path / "left")
    assert len(read_ledger(left).charges) == 2
    log = left.with_name(f"{left.name}-wal")
    changed = bytearray(log.read_bytes())
    changed[-1] ^= 1
    log.write_bytes(changed)
    with refused("records-missing", LedgerError, mentions=("2,", "3")):
        read_ledger(left)


def test_a_kill_between_a_commit_and_its_head_loses_nothing(path, tmp_path):
    """The head of the commit before is older than the file, and no sign of damage."""
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("one"))
        older = head_of(path).read_bytes()
        ledger.charge(run("two"))
        left = as_left_by_a_kill(path, tmp_path / "left")
    assert head_of(left).read_bytes() != older
    head_of(left).write_bytes(older)
    assert len(read_ledger(left).charges) == 2
    with open_ledger(left) as ledger:
        ledger.charge(run("three"))
    assert len(read_ledger(left).charges) == 3


def test_damage_names_the_files_that_go_with_it(path, tmp_path):
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("one"))
        left = as_left_by_a_kill(path, tmp_path / "left")
    log = left.with_name(f"{left.name}-wal")
    log.write_bytes(log.read_bytes()[:40])
    with pytest.raises(LedgerError) as caught:
        read_ledger(left)
    assert str(caught.value).endswith(
        "Move a.ledger-wal and a.ledger-head away together with it"
    )
    # What it says helps.
    for one in (left, *files_beside(left)):
        one.unlink()
    shutil.copy(path, left)
    assert len(read_ledger(left).charges) == 1


def test_the_log_of_a_file_that_was_removed_is_not_taken_for_a_new_ones(path, tmp_path):
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("one"))
        left = as_left_by_a_kill(path, tmp_path / "left")
    left.unlink()
    with refused("file-partly-missing", LedgerError):
        open_ledger(left, create=Budget())
    assert not left.exists()


@posix
def test_a_head_is_not_written_through_a_link(path, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"as it was")
    head_of(path).symlink_to(target)
    with refused("file-partly-missing", LedgerError):
        open_ledger(path, create=Budget())
    head_of(path).unlink()
    with open_ledger(path, create=Budget()) as ledger:
        head_of(path).symlink_to(target)
        with refused("cannot-write", LedgerError):
            ledger.charge(run("one"))
        head_of(path).unlink()
    assert target.read_bytes() == b"as it was"


def test_a_copy_does_not_become_a_store_by_one_bit(tmp_path):
    """The two kinds have the same tables, and ids that differ by one bit."""
    assert (SURVEYS.application ^ COPIED.application).bit_count() == 1
    SurveyDelegateStore.open(tmp_path / "store").close()
    copy_store(tmp_path / "store", tmp_path / "copy")
    for name, kind in (("copy", SURVEYS), ("store", COPIED)):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(f"PRAGMA application_id = {kind.application}")
        with refused("seal-broken", StoreError):
            SurveyDelegateStore.open(tmp_path / name)


def test_a_copy_of_a_ledger_has_a_seal_of_its_own(path, tmp_path):
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("one"))
        copy_ledger(path, tmp_path / "copy")
    assert read_ledger(tmp_path / "copy").copied is not None
    assert len(read_ledger(tmp_path / "copy").charges) == 1


def test_a_seal_is_of_types_and_places_too():
    sealing = SqliteSealing.derive(LEDGER, b"", bytes(32))
    rows = [
        ("a", ("text", b"x", "text", b"y")),
        ("b", ("text", b"x", "text", b"y")),
        ("a", ("blob", b"x", "text", b"y")),
        ("a", ("text", b"y", "text", b"x")),
        ("a", ("text", b"xtext", "text", b"y")),
        ("a", ("text", b"", "text", b"xy")),
        ("a", ("null", None, "text", b"xy")),
    ]
    assert len({sealing.hash_row(*row) for row in rows}) == len(rows)
    total = sealing.hash_row(*rows[0]) + sealing.hash_row(*rows[1])
    assert sealing.sum_rows(7, sealing.seal(7, total)) == total % (1 << 256)
    assert sealing.seal(7, total) != sealing.seal(8, total)


def test_a_transaction_that_changes_nothing_is_no_commit(path):
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("one"))
        before = head_of(path).read_bytes()
        ledger.charge(run("one"))  # the same epoch again costs nothing
        assert head_of(path).read_bytes() == before


def test_all_of_a_head_is_read_before_the_file(path, tmp_path):
    """A head with too many bytes is not one."""
    with open_ledger(path, create=Budget()) as ledger:
        ledger.charge(run("one"))
        left = as_left_by_a_kill(path, tmp_path / "left")
    for content in (bytes(RECORDS * RECORD_BYTES + 1), bytes(7)):
        head_of(left).write_bytes(content)
        with refused("odd-head-length", LedgerError):
            read_ledger(left)
    Path(head_of(left)).unlink()
    assert len(read_ledger(left).charges) == 1
