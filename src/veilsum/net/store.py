"""Persistent state of a party in a run: one SQLite file that outlives its process.

The file belongs to one party and, from the first share on, to one plan and one
consortium file. It belongs to one process at a time: SQLite's own lock on it is held
from opening to closing and vanishes with the process, so there is no lock file that a
killed one could leave behind. Nothing else in the process may open the file meanwhile:
POSIX drops a process's locks on a file when it closes it once.

Everything in it is sealed with a key that only this party can derive: shares with one
bit changed would still be shares, and every party would sign the wrong answer that
comes of them. An old copy of all its files is sealed as well; only other parties can
notice that it is old.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import uniform
from time import sleep
from typing import Any, Self

from veilsum.consortium.consortium import canonical_agreement_json
from veilsum.errors import StoreError, printable
from veilsum.files.sqlite import (
    OpenSqliteFile,
    SqliteFileKind,
    check_sqlite_seal,
    connect_to_sqlite_file,
    create_sqlite_file,
    inspect_sqlite_file,
    sync_file_to_disk,
)
from veilsum.net.handshake import sections_unlike_peer
from veilsum.numbers.arrays import listed_names
from veilsum.protocol.effects import Persist

STORE = SqliteFileKind(
    noun="run's store",
    holds="secrets",
    application=0x7665696D,  # a ledger's and one: neither is taken for the other
    version=4,
    schema=(
        "CREATE TABLE owner (plan BLOB NOT NULL, party TEXT NOT NULL)",
        "CREATE TABLE entry (key TEXT PRIMARY KEY, value BLOB NOT NULL)",
    ),
    error=StoreError,
    undone="written",
    busy="this run is already running: another process has its file open; let it "
    "finish, or end it first",
    if_damaged="put a sound copy of it back; without one this party cannot go on "
    "with this run, and a new one has to begin",
    patience=0.5,  # another process either looks for a moment or stays
    page=16384,  # the state of an iterative method is up to a megabyte
    # It is written at each event, and other parties notice an older state.
    syncs_head=False,
)

# The key that says which consortium file it was.
AGREED = "agreed"
# What ties a run to its data and its file: shares that were drawn, or its end.
BEGUN = ("input/", "closed")
WHAT_TO_DO = (
    "put that one back to go on with it, or give this run another path with --state"
)
# How often to try for the lock, and the most seconds between two tries.
ATTEMPTS = 10
LONGEST_PAUSE = 0.1

_PUT = (
    "INSERT INTO entry VALUES (?, ?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_ERASE = "DELETE FROM entry WHERE key = ?"
# SQLite keeps anything in any column, and one text in two rows as another type.
_ODD = (
    "SELECT 1 FROM entry WHERE typeof(key) || typeof(value) != 'textblob' "
    "UNION SELECT 1 FROM owner WHERE typeof(plan) || typeof(party) != 'blobtext'"
)
_PUT_ASIDE = "UPDATE entry SET key = ? || key WHERE key NOT GLOB 'aside/*'"
_TAKE_BACK = "UPDATE entry SET key = substr(key, ?) WHERE key GLOB ?"


class NetworkRunStore(OpenSqliteFile):
    """One party's state of one run, under keys."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        plan: bytes,
        party: str,
        key: bytes,
        agreed: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the store of this plan and party, made if it is not there yet.

        The digests of the consortium file are remembered. As long as no shares
        were drawn, another plan or another file may take the place of the first.

        Args:
            path: the file.
            plan: digest of the plan.
            party: name of the party.
            key: key that seals the store; derived from the party's own.
            agreed: digests of the plan's consortium file, see `Consortium.digests`.

        Raises:
            StoreError: it is another's, damaged, open to other users, or held by a
                process that still runs.
        """

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO owner VALUES (?, ?)", (plan, party))

        if not path.exists():
            create_sqlite_file(path, STORE, fill, key)
        wanted = _RunStoreOwner(
            plan, party, None if agreed is None else canonical_agreement_json(agreed)
        )
        with inspect_sqlite_file(path, STORE, owner=None) as connection:
            _check_run_store_owner(path, connection, wanted, key)
        store = cls(path, STORE, _hold_run_store_alone(path), key)
        with ExitStack() as undo:
            undo.callback(store.close)
            # Whoever looks at a killed process's log shares an index; no longer.
            path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
            store._live().execute("PRAGMA secure_delete = ON")
            store._turn_to(wanted)
            undo.pop_all()
        return store

    def _turn_to(self, wanted: _RunStoreOwner) -> None:
        """Belong to this plan and file, unless the run has begun with them already.

        Before the lock was had another process may have changed it: it is looked at
        again. What another plan has left is put aside, and taken back should that plan
        return: the others remember how this party joined, and refuse a second way.
        """
        with self.transaction():
            live = self._live()
            found = _check_run_store_owner(self.path, live, wanted, self._owner)
            if found.begun or found == wanted:
                return
            if found.plan != wanted.plan:
                live.execute(_PUT_ASIDE, (found.aside,))
                start = len(wanted.aside) + 1
                live.execute(_TAKE_BACK, (start, f"{wanted.aside}*"))
                live.execute("UPDATE owner SET plan = ?", (wanted.plan,))
            if wanted.agreed is not None:
                live.execute(_PUT, (AGREED, wanted.agreed))

    def read(self) -> dict[str, bytes]:
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
                    self._live().execute(_ERASE, (one.key,))
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
                self._live().execute(_ERASE, (key,))
        with self._lock, STORE.sentences(self.path):
            self._empty_log()
            self._live().execute("VACUUM")
            self._empty_log()

    def _empty_log(self) -> None:
        self._live().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        with suppress(FileNotFoundError):  # somebody has deleted it: nothing is left
            sync_file_to_disk(self.path.with_name(f"{self.path.name}-wal"))


def _hold_run_store_alone(path: Path) -> sqlite3.Connection:
    """Return a connection that keeps all others out for as long as it is open.

    Two that begin at the same instant refuse each other: both try again, not at once.
    """
    for _ in range(ATTEMPTS):
        with suppress(StoreError):
            return connect_to_sqlite_file(path, STORE, alone=True)
        sleep(uniform(0.0, LONGEST_PAUSE))  # noqa: S311 - a pause
    return connect_to_sqlite_file(path, STORE, alone=True)


@dataclass(frozen=True)
class _RunStoreOwner:
    """Plan and party that a store belongs to.

    Attributes:
        plan: the plan's digest.
        party: the party whose run it is.
        agreed: digests of the consortium file and its sections, if they are known.
        begun: whether the store is tied to plan and file.
    """

    plan: bytes
    party: str
    agreed: bytes | None
    begun: bool = field(default=False, compare=False)

    @property
    def aside(self) -> str:
        """Prefix of this plan's keys while another plan uses the store."""
        return f"aside/{self.plan.hex()}/"

    @property
    def sections(self) -> dict[str, str]:
        try:
            return dict(json.loads(self.agreed or b"{}")["sections"])
        except (KeyError, TypeError, ValueError):  # nothing, or nothing to be read
            return {}


def run_store_has_begun(keys: Iterable[str]) -> bool:
    """Say whether a run with these entries is tied to its data and its file."""
    return any(key.startswith(BEGUN) for key in keys)


def _owner_of_run_store(path: Path, connection: sqlite3.Connection) -> _RunStoreOwner:
    if connection.execute(_ODD).fetchone() is not None:
        raise STORE.damaged(
            path, "what it holds is of another type", code="record-of-wrong-type"
        )
    rows = connection.execute("SELECT plan, party FROM owner").fetchall()
    if len(rows) != 1:
        raise STORE.damaged(path, "it does not say whose it is", code="owner-missing")
    keys = {
        key.decode(errors="replace")
        for (key,) in connection.execute("SELECT key FROM entry")
    }
    agreed = connection.execute(
        "SELECT value FROM entry WHERE key = ?", (AGREED,)
    ).fetchone()
    plan, party = rows[0]
    return _RunStoreOwner(
        plan=plan,
        party=party.decode(errors="replace"),
        agreed=None if agreed is None else agreed[0],
        begun=run_store_has_begun(keys),
    )


def _check_run_store_owner(
    path: Path, connection: sqlite3.Connection, wanted: _RunStoreOwner, key: bytes
) -> _RunStoreOwner:
    """Return whose the store is; refuse one that cannot become the wanted owner's."""
    found = _owner_of_run_store(path, connection)
    if found.party != wanted.party:
        raise StoreError(
            f"{path} is the store of {printable(found.party)!r}, not of "
            f"{wanted.party!r}, or is damaged: every party has its own; give another "
            "path, or put a sound copy back",
            code="store-of-other-party",
        )
    of_other_file = found.begun and not (
        None in (found.agreed, wanted.agreed) or found.agreed == wanted.agreed
    )
    damaged = ""
    try:
        check_sqlite_seal(path, STORE, connection, key)
    except StoreError:
        if not of_other_file:
            raise
        damaged = ", or is damaged, since this party's key did not seal it"
    if of_other_file:
        sections = listed_names(sections_unlike_peer(found.sections, wanted.sections))
        raise StoreError(
            f"{path} belongs to a run that began with another consortium file, which "
            f"differs from this one in {sections}{damaged}: {WHAT_TO_DO}",
            code="store-of-other-run",
        )
    if found.begun and found.plan != wanted.plan:
        raise StoreError(
            f"{path} belongs to the plan {found.plan.hex()[:16]}, this run has the "
            f"plan {wanted.plan.hex()[:16]}: it began with another consortium file or "
            f"version of veilsum; {WHAT_TO_DO}",
            code="store-of-other-run",
        )
    return found
