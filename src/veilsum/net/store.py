"""What a party must not forget during a run: one SQLite file that outlives its process.

The file belongs to one party and one plan, and to one process at a time: SQLite's own
lock on it is held from opening to closing and vanishes with the process, so there is no
lock file that a killed one could leave behind. Nothing else in the process may open the
file meanwhile: POSIX drops a process's locks on a file when it closes it once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from random import uniform
from time import sleep
from typing import Self

from veilsum.agent.effects import Persist
from veilsum.errors import StoreError
from veilsum.files.sqlite import Kind, OpenFile, connect, create, inspected, sync

STORE = Kind(
    noun="run's store",
    holds="secrets",
    application=0x7665696D,  # a ledger's and one: neither is taken for the other
    version=1,
    schema=(
        "CREATE TABLE owner (plan BLOB NOT NULL, party TEXT NOT NULL)",
        "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL)",
    ),
    error=StoreError,
    undone="written",
    busy="this run is already running: another process has its file open; let it "
    "finish, or end it first",
    if_damaged="this party cannot go on with this run; begin a new one",
    patience=0.5,  # another process either looks for a moment or stays
    page=16384,  # the state of an iterative method is up to a megabyte
)

# How often to try for the lock, and the most seconds between two tries.
ATTEMPTS = 10
LONGEST_PAUSE = 0.1

_PUT = (
    "INSERT INTO entry VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


class RunStore(OpenFile):
    """One party's state of one run, under keys."""

    @classmethod
    def open(cls, path: Path, *, plan: bytes, party: str) -> Self:
        """Return the store of this plan and party, made if it is not there yet.

        Raises:
            StoreError: it is another's, damaged, open to other users, or held by a
                process that still runs.
        """

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO owner VALUES (?, ?)", (plan, party))

        if not path.exists():
            create(path, STORE, fill)
        with inspected(path, STORE) as connection:
            _check_owner(path, connection, plan, party)
        store = cls(path, STORE, _held(path))
        # Whoever looks at a killed process's log shares an index; no longer.
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        store._live().execute("PRAGMA secure_delete = ON")
        store._live().execute("PRAGMA temp_store = MEMORY")
        return store

    def read(self) -> dict[str, bytes]:
        """Return everything that is kept."""
        with self._lock, STORE.sentences(self.path):
            rows = self._live().execute("SELECT key, value FROM entry ORDER BY rowid")
            return {key.decode(): value for key, value in rows}

    def write(self, writes: Sequence[Persist]) -> None:
        """Keep or erase, all of it or nothing; it is on disk when this returns.

        Raises:
            StoreError: it is not, for instance because the disk is full.
        """
        if not writes:
            return
        with self.transaction():
            for one in writes:
                if one.value is None:
                    self._erase(one.key)
                else:
                    self._live().execute(_PUT, (one.key, one.value))

    def wipe(self, keep: Collection[str] = ()) -> None:
        """Erase all other keys, so that no byte of theirs is left in the files.

        Deleted rows are overwritten, but SQLite leaves copies where it moved a row
        to another page, and in its log: so the file is also written anew, and the
        log cut to nothing.
        """
        with self.transaction():
            for key in self.read().keys() - set(keep):
                self._erase(key)
        with self._lock, STORE.sentences(self.path):
            self._empty_log()
            self._live().execute("VACUUM")
            self._empty_log()

    def _erase(self, key: str) -> None:
        self._live().execute("DELETE FROM entry WHERE key = ?", (key,))

    def _empty_log(self) -> None:
        self._live().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        sync(self.path.with_name(f"{self.path.name}-wal"))


def _held(path: Path) -> sqlite3.Connection:
    """Return a connection that keeps all others out for as long as it is open.

    Two that begin at the same instant refuse each other: both try again, not at once.
    """
    for _ in range(ATTEMPTS):
        with suppress(StoreError):
            return connect(path, STORE, alone=True)
        sleep(uniform(0.0, LONGEST_PAUSE))
    return connect(path, STORE, alone=True)


def _check_owner(
    path: Path, connection: sqlite3.Connection, plan: bytes, party: str
) -> None:
    rows = connection.execute("SELECT plan, party FROM owner").fetchall()
    if len(rows) != 1:
        raise STORE.damaged(path, "it does not say whose it is")
    found_plan, found_party = rows[0][0], rows[0][1].decode(errors="replace")
    if found_party != party:
        raise StoreError(
            f"{path} is the store of {found_party!r}, not of {party!r}: every party "
            "has its own; give another path"
        )
    if found_plan != plan:
        raise StoreError(
            f"{path} belongs to the plan {found_plan.hex()[:16]}, this run has the "
            f"plan {plan.hex()[:16]}: the consortium file was changed after the run "
            "began, or is another one; put it back, or give another path"
        )
