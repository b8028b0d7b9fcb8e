"""A list of records on disk that only grows, in one SQLite file.

What a transaction appends is on disk when it ends, whole or not at all, also when the
process is killed or two processes write at once. Every record is sealed: a keyed hash
binds it to all before it, so that a changed or missing one is found when the file is
opened. The key is random, made with the file, and never leaves it.

A file that is not such a list, or that is damaged, is refused and not touched.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from veilsum.errors import LedgerError
from veilsum.files.sqlite import Kind, OpenFile, connect, create, inspected

# "veil" in the file's header: other programs' SQLite files are told from ours.
APPLICATION_ID = 0x7665696C
VERSION = 1
KEY_BYTES = 32

LEDGER = Kind(
    noun="ledger",
    holds="a key",
    application=APPLICATION_ID,
    version=VERSION,
    schema=(
        "CREATE TABLE secret (key BLOB NOT NULL)",
        "CREATE TABLE journal (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
        "body TEXT NOT NULL, seal BLOB NOT NULL UNIQUE)",
    ),
    error=LedgerError,
    undone="recorded",
    if_damaged="put a sound copy in its place; with a new ledger everything spent so "
    "far would be forgotten",
    patience=30.0,  # transactions take milliseconds
)

_NEW = "SELECT kind, body, seal FROM journal ORDER BY id LIMIT -1 OFFSET ?"
_ADD = "INSERT INTO journal (kind, body, seal) VALUES (?, ?, ?)"

Record = tuple[str, dict[str, Any]]
Entry = TypeVar("Entry")


class Journal(OpenFile):
    """An open journal. `transaction` gives the right to `append`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, LEDGER, connection)
        self._count = 0
        self._seal = b""

    def news(self, read: Callable[[str, Any], Entry]) -> list[Entry]:
        """Return what `read` makes of the records not seen so far, seals checked.

        Nothing counts as seen unless all of it could be read.
        """
        found, count, seal = [], self._count, self._seal
        for row in self._live().execute(_NEW, (count,)):
            if not self._follows(seal, row):
                raise LEDGER.damaged(self.path, f"record {count + 1} was changed")
            kind, body, seal = row
            count += 1
            found.append(read(kind.decode(), json.loads(body)))
        self._count, self._seal = count, seal
        return found

    def append(self, records: Iterable[Record]) -> None:
        """Write records; inside a transaction and after `news`."""
        seal = self._seal
        for kind, content in records:
            body = json.dumps(content, sort_keys=True, allow_nan=False)
            seal = self._hash("record", [seal, kind.encode(), body.encode()])
            self._live().execute(_ADD, (kind, body, seal))

    def keyed_hash(self, *parts: bytes | memoryview) -> str:
        """Return HMAC-SHA256 of the parts, in order, under the file's key."""
        with self._lock, LEDGER.sentences(self.path):
            return self._hash("fingerprint", parts).hex()

    def _follows(self, before: bytes, row: tuple[Any, ...]) -> bool:
        """Say whether a row is what was written after the one with a given seal."""
        if not all(isinstance(cell, bytes) for cell in row):
            return False
        kind, body, seal = row
        expected = self._hash("record", [before, kind, body])
        return hmac.compare_digest(seal, expected)

    def _hash(self, purpose: str, parts: Iterable[bytes | memoryview]) -> bytes:
        # The key is read where it is used: no attribute holds it.
        row = self._live().execute("SELECT key FROM secret").fetchone()
        keyed = hmac.new(row[0], purpose.encode(), "sha256")
        for part in parts:
            # Lengths go in, so that parts cannot be cut up differently.
            keyed.update(len(part).to_bytes(8, "big"))
            keyed.update(part)
        return keyed.digest()


def create_journal(path: Path, first: Iterable[Record]) -> None:
    """Make a journal that holds some records; leave a file that is there alone."""

    def fill(connection: sqlite3.Connection) -> None:
        key = secrets.token_bytes(KEY_BYTES)
        connection.execute("INSERT INTO secret VALUES (?)", (key,))
        Journal(path, connection).append(first)

    create(path, LEDGER, fill)


def open_journal(path: Path, read: Callable[[str, Any], Entry]) -> Journal:
    """Return a journal for reading and writing; every record could be read."""
    read_journal(path, read)
    return Journal(path, connect(path, LEDGER))


def read_journal(path: Path, read: Callable[[str, Any], Entry]) -> list[Entry]:
    """Return all records of a sound journal; raise before anything is written."""
    with inspected(path, LEDGER) as connection:
        if connection.execute("SELECT count(*) FROM secret").fetchone() != (1,):
            raise LEDGER.damaged(path, "its key is missing")
        journal = Journal(path, connection)
        with journal.transaction("BEGIN"):
            return journal.news(read)
