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
import os
import secrets
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NoReturn, TypeVar

from veilsum.core.secrets import Secret
from veilsum.errors import LedgerError, SecretError

# "veil" in the file's header: other programs' SQLite files are told from ours.
APPLICATION_ID = 0x7665696C
VERSION = 1
KEY_BYTES = 32
# How long a writer waits for another process: transactions take milliseconds.
PATIENCE_SECONDS = 30.0

_SCHEMA = (
    "CREATE TABLE secret (key BLOB NOT NULL)",
    "CREATE TABLE journal (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
    "body TEXT NOT NULL, seal BLOB NOT NULL UNIQUE)",
)
_TABLES = "SELECT sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
_NEW = "SELECT kind, body, seal FROM journal ORDER BY id LIMIT -1 OFFSET ?"
_ADD = "INSERT INTO journal (kind, body, seal) VALUES (?, ?, ?)"

Record = tuple[str, dict[str, Any]]
Access = Literal["ro", "rw"]
Entry = TypeVar("Entry")


class Journal(Secret):
    """An open journal. `transaction` gives the right to `append`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = connection
        self._lock = RLock()
        self._process = os.getpid()
        self._count = 0
        self._seal = b""

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Hold the file: all that is appended inside is written, or nothing is."""
        with self._lock, _sentences(self.path):
            connection = self._live()
            connection.execute(begin)
            try:
                yield
                connection.execute("COMMIT")
            finally:
                # Still open only if something went wrong: then nothing happened.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def news(self, read: Callable[[str, Any], Entry]) -> list[Entry]:
        """Return what `read` makes of the records not seen so far, seals checked.

        Nothing counts as seen unless all of it could be read.
        """
        found, count, seal = [], self._count, self._seal
        for row in self._live().execute(_NEW, (count,)):
            if not self._follows(seal, row):
                raise _damaged(self.path, f"record {count + 1} was changed")
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
        with self._lock, _sentences(self.path):
            return self._hash("fingerprint", parts).hex()

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} holds a key and is never pickled or copied; "
            "open its file again instead"
        )

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LedgerError(f"{self.path} is closed: open it again")
        # SQLite's locks do not survive a fork; going on would damage the file.
        if self._process != os.getpid():
            raise LedgerError(
                f"{self.path} was opened by another process: open it again in this one"
            )
        return self._connection

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
    """Make a journal that holds some records; leave a file that is there alone.

    It is made beside its place, readable by its owner only, and linked into place
    when it is complete: there is never half a journal.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".veilsum-")
        os.close(handle)
        try:
            _fill(Path(name), first)
            os.link(name, path)
        finally:
            Path(name).unlink()
        _sync_folder(path.parent)
    except FileExistsError:
        pass
    except OSError as error:
        raise LedgerError(f"cannot create {path}: {error.strerror}") from None


def open_journal(path: Path, read: Callable[[str, Any], Entry]) -> Journal:
    """Return a journal for reading and writing; every record could be read."""
    read_journal(path, read)
    return Journal(path, _connect(path, "rw"))


def read_journal(path: Path, read: Callable[[str, Any], Entry]) -> list[Entry]:
    """Return all records of a sound journal; raise before anything is written.

    SQLite writes to a file that has a journal of its own left over. Then it is opened
    for reading only, until it has been found to be ours and sound.
    """
    found = _found(path)
    access: Access = "ro" if _leftovers(path) else "rw"
    with _sentences(path), closing(_connect(path, access)) as connection:
        connection.execute("PRAGMA query_only = ON")
        _check_identity(path, connection)
        _check_mode(path, found.st_mode)
        # SQLite takes a last page that is cut off as if it ended in zeros. With a
        # journal of its own beside it, SQLite may yet restore that page.
        if access == "rw" and found.st_size % _pragma(connection, "page_size"):
            raise _damaged(path, "its end is missing")
        _check_integrity(path, connection)
        journal = Journal(path, connection)
        with journal.transaction("BEGIN"):
            return journal.news(read)


def _leftovers(path: Path) -> bool:
    names = (f"{path.name}{ending}" for ending in ("-wal", "-journal"))
    return any(path.with_name(name).exists() for name in names)


def _found(path: Path) -> os.stat_result:
    """Return what is at the path; refuse all but a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise LedgerError(f"there is no ledger {path}: it does not exist") from None
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise LedgerError(f"{path} is not a file: give the path of a ledger file")
    return found


def _check_mode(path: Path, mode: int) -> None:
    """Refuse a key that lies open; only POSIX says who may read a file."""
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise LedgerError(
            f"{path} is open to other users (mode {stat.S_IMODE(mode):04o}) and holds "
            f"a key: run chmod 600 {path}"
        )


def _check_identity(path: Path, connection: sqlite3.Connection) -> None:
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise LedgerError(
            f"{path} is not a veilsum ledger; it is left as it is: give another path"
        )
    version = _pragma(connection, "user_version")
    if version != VERSION:
        raise LedgerError(
            f"{path} is a ledger of format {version}, this veilsum reads format "
            f"{VERSION}: use the version that wrote it or a newer one"
        )


def _check_integrity(path: Path, connection: sqlite3.Connection) -> None:
    found = _pragma(connection, "integrity_check")
    if found != "ok":
        raise _damaged(path, str(found).splitlines()[0])
    tables = connection.execute(_TABLES).fetchall()
    if tables != [(statement.encode(),) for statement in _SCHEMA]:
        raise _damaged(path, "its tables are not a ledger's")
    if connection.execute("SELECT count(*) FROM secret").fetchone() != (1,):
        raise _damaged(path, "its key is missing")


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    found = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found.decode() if isinstance(found, bytes) else found


def _damaged(path: Path, how: str) -> LedgerError:
    return LedgerError(
        f"{path} is damaged ({how}) and is left as it is: put a sound copy in its "
        "place; with a new ledger everything spent so far would be forgotten"
    )


def _fill(path: Path, first: Iterable[Record]) -> None:
    with _sentences(path), closing(_connect(path, "rw")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        journal = Journal(path, connection)
        with journal.transaction():
            for statement in _SCHEMA:
                connection.execute(statement)
            key = secrets.token_bytes(KEY_BYTES)
            connection.execute("INSERT INTO secret VALUES (?)", (key,))
            journal.append(first)


def _connect(path: Path, access: Access) -> sqlite3.Connection:
    with _sentences(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={access}",
            uri=True,
            timeout=PATIENCE_SECONDS,
            isolation_level=None,  # transactions are written out, never implied
            check_same_thread=False,  # a lock keeps threads apart
        )
        # Damaged text need not be UTF-8: it is decoded after its seal is checked.
        connection.text_factory = bytes
        # Every commit waits for the disk; on macOS for the platter, too.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        return connection


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where a folder can be synchronised."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn what SQLite says into a sentence about the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerError(f"cannot use {path}, nothing was recorded: {error}") from None
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB":
            raise LedgerError(
                f"{path} is not a ledger, or its beginning is damaged; it is left as "
                "it is: give another path, or put a sound copy in its place"
            ) from None
        raise _damaged(path, str(error)) from None
