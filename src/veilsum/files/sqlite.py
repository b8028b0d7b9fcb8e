"""SQLite files of this package: created whole, sealed, every commit durable.

A file of another kind, or a damaged one, is refused and not touched.

Seal: each file has one row in the table `head`: a random salt, the number of commits
and a keyed hash over that number and every row of every table. Temporary triggers keep
the hash up to date, so that a commit costs as much as the rows it changes. A file is
checked as a whole when it is opened.

Head: SQLite ends a write-ahead log at the first frame whose checksum is wrong. One
changed bit there would undo every commit from that frame on, and leave an older state
whose seal is intact. So number and seal of each commit are also written to NAME-head,
outside the log, before the commit is acknowledged. A file that has fewer commits than
its head says is damaged. The head disappears with the log when the last process closes
the file. Neither helps against a person who puts back all files of an earlier day.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NoReturn, Self, TypeAlias, cast

from veilsum.errors import SecretError, VeilsumError
from veilsum.files.permissions import why_file_is_open_to_others
from veilsum.numbers.secrets import Secret

# Whatever was made with words: a trigger would change what is written, unseen.
_MADE = "SELECT sql FROM sqlite_master WHERE sql NOTNULL ORDER BY rowid"

# Files that SQLite, and the head, leave beside a file while it is in use.
BESIDE = ("-wal", "-shm", "-journal", "-head")
_HEAD = (
    "CREATE TABLE head (salt BLOB NOT NULL, number INTEGER NOT NULL, "
    "seal BLOB NOT NULL)"
)
SALT_BYTES = 32
SEAL_BYTES = 32
MODULUS = 1 << (8 * SEAL_BYTES)
# The outer head is a ring of records: of two processes that commit one after the other
# and write in the opposite order, neither overwrites the record of the other.
NUMBER_BYTES = 8
RECORD_BYTES = NUMBER_BYTES + SEAL_BYTES
RECORDS = 16

Access = Literal["ro", "rw"]
Fill: TypeAlias = Callable[[sqlite3.Connection], None]
# Type and bytes of each cell of a row, in turn.
Cells: TypeAlias = Sequence[Any]


@dataclass(frozen=True)
class SqliteFileKind:
    """Purpose of a kind of file, its format, and the wording of its errors.

    Attributes:
        noun: name of the kind of file, for people.
        holds: the private content.
        application: application id in the header, which identifies the kind.
        schema: the statements that create its tables.
        error: class of the error if the file cannot be used.
        undone: participle of the action that a failure prevented, for error texts.
        busy: error text when another process holds the file; by default SQLite's.
        if_damaged: advice to the owner of a damaged file.
        patience: seconds to wait for another process.
        if_older: advice to the owner of a file of an earlier format.
        page: page size in bytes, the least that is written; long entries are written
            faster in longer pages.
        syncs_head: whether a commit also waits until the head is on disk. Otherwise a
            power cut may lose the head of the last seconds, and with it the detection
            of a bit that changes in the log then; the end of a process loses nothing.
    """

    noun: str
    holds: str
    application: int
    version: int
    schema: tuple[str, ...]
    error: type[VeilsumError]
    undone: str
    if_damaged: str
    patience: float
    busy: str = ""
    if_older: str = ""
    page: int = 4096
    syncs_head: bool = True

    @property
    def statements(self) -> tuple[str, ...]:
        return (*self.schema, _HEAD)

    def damaged(self, path: Path, how: str, *, code: str) -> VeilsumError:
        """Return the error for a file that is not as it was written."""
        # The empty log is that of the connection that has noticed the damage.
        beside = [
            one.name
            for one in files_beside(path)
            if one.stat().st_size and not one.name.endswith("-shm")
        ]
        return self.error(
            f"{path} is damaged ({how}) and is left as it is: {self.if_damaged}"
            + (
                f". Move {' and '.join(beside)} away together with it" if beside else ""
            ),
            code=code,
        )

    @contextmanager
    def sentences(self, path: Path) -> Iterator[None]:
        """Turn what SQLite says into a sentence about the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if self.busy and _name_of_sqlite_error(error).startswith("SQLITE_BUSY"):
                raise self.error(f"{path}: {self.busy}", code="file-in-use") from None
            raise self.error(
                f"cannot use {path}, nothing was {self.undone}: {error}",
                code="cannot-use-file",
            ) from None
        except UnicodeDecodeError:  # words of SQLite about the damage, with the damage
            raise self.damaged(
                path, "it has text that is not UTF-8", code="not-utf8"
            ) from None
        except sqlite3.DatabaseError as error:
            if _name_of_sqlite_error(error) == "SQLITE_NOTADB":
                raise self.error(
                    f"{path} is not a {self.noun}, or its beginning is damaged; it is "
                    "left as it is: give another path, or put a sound copy in its "
                    "place",
                    code="wrong-file-kind",
                ) from None
            raise self.damaged(path, str(error), code="database-damaged") from None


@dataclass(frozen=True, eq=False, repr=False)
class SqliteSealing(Secret):
    """Makes the seal of a file: a keyed hash of its rows, in any order.

        seal = F("head", n) + sum over rows of F(table, row)   modulo 2^256

    where n is the number of commits and F is HMAC-SHA256. It is MSet-Add-Hash of Clarke
    et al. (2003) with n as the nonce: without the key no row can be changed, removed,
    added or exchanged. The sum follows a change of one row without the others.

    Attributes:
        key: from the owner's key and the salt of the file.
    """

    key: bytes

    @classmethod
    def derive(cls, kind: SqliteFileKind, owner: bytes, salt: bytes) -> Self:
        """Return the sealing of one file of this kind and format.

        With an empty `owner` anybody who can read the file can seal it: that finds
        damage, and no forgery.
        """
        what = f"veilsum {kind.application} {kind.version}\0".encode()
        return cls(hmac.digest(owner, what + salt, "sha256"))

    def hash_row(self, table: str, cells: Cells) -> int:
        """Return the part of a row in the sum; `cells` are its types and bytes."""
        parts = [table.encode()]
        for kind, content in zip(cells[::2], cells[1::2], strict=True):
            content = content or b""
            parts += [
                kind.encode() if isinstance(kind, str) else kind,
                len(content).to_bytes(8, "big"),
                content,
            ]
        return self._hash(b"\0".join(parts))

    def hash_number(self, number: int) -> int:
        """Return the part of the number of commits in the sum."""
        return self._hash(b"head\0%d" % number)

    def seal(self, number: int, rows: int) -> bytes:
        """Return the seal after so many commits, with this sum over the rows."""
        total = (self.hash_number(number) + rows) % MODULUS
        return total.to_bytes(SEAL_BYTES, "big")

    def sum_rows(self, number: int, seal: bytes) -> int:
        return (int.from_bytes(seal, "big") - self.hash_number(number)) % MODULUS

    def _hash(self, content: bytes) -> int:
        return int.from_bytes(hmac.digest(self.key, content, "sha256"), "big")


class OpenSqliteFile(Secret):
    """An open file, for the threads of one process; `transaction` to use it.

    `owner` is the key of the file's owner, if the file is sealed with one.
    """

    def __init__(
        self,
        path: Path,
        kind: SqliteFileKind,
        connection: sqlite3.Connection,
        owner: bytes = b"",
    ) -> None:
        self.path = path
        self._kind = kind
        self._connection: sqlite3.Connection | None = connection
        self._lock = RLock()
        self._process = os.getpid()
        self._place = _sqlite_file_identity(path)
        self._owner = owner
        # The sealing, once this process writes, and changes of the sum since BEGIN.
        self._sealing: SqliteSealing | None = None
        self._changes: list[int] = []

    @property
    def is_gone(self) -> bool:
        """Whether somebody has deleted the file, or put another in its place.

        What is open goes on, and is lost when it is closed.
        """
        return _sqlite_file_identity(self.path) != self._place

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Hold the file: all that is written inside is on disk after it, or nothing."""
        with self._lock, self._kind.sentences(self.path):
            live = self._live()
            if self._sealing is None and begin == "BEGIN IMMEDIATE":
                self._sealing = self._watch(live)
            self._changes.clear()
            record = b""
            with sqlite_transaction(live, begin):
                yield
                if self._changes:
                    record = self._reseal(live)
            # Another file may be in its place by now, with a head of its own.
            if record and not self.is_gone:
                self._write_head(record)

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
                # SQLite removes the log when all of it is in the file.
                if (
                    not self.is_gone
                    and not (self.path.with_name(f"{self.path.name}-wal")).exists()
                ):
                    _sqlite_seal_head_of(self.path).unlink(missing_ok=True)
            self._connection = None

    def _watch(self, live: sqlite3.Connection) -> SqliteSealing:
        """Have every change of a row change the sum that is sealed at the end."""
        (salt,) = live.execute("SELECT salt FROM head").fetchone()
        sealing = SqliteSealing.derive(self._kind, self._owner, salt)

        def note(sign: int, table: str, *cells: Any) -> None:
            self._changes.append(sign * sealing.hash_row(table, cells))

        live.create_function("seal_row", -1, note)
        live.execute("PRAGMA temp_store = MEMORY")
        for table, columns in tables_of_sqlite_schema(self._kind.schema).items():
            old = f"SELECT seal_row(-1, '{table}', {sqlite_cells(columns, 'OLD.')});"
            new = f"SELECT seal_row(1, '{table}', {sqlite_cells(columns, 'NEW.')});"
            for event, words in {
                "INSERT": new,
                "DELETE": old,
                "UPDATE": f"{old} {new}",
            }.items():
                live.execute(
                    f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} "
                    f"ON main.{table} BEGIN {words} END"
                )
        return sealing

    def _reseal(self, live: sqlite3.Connection) -> bytes:
        """Seal the file as it is now; return the record for the head."""
        assert self._sealing is not None
        number, seal = live.execute("SELECT number, seal FROM head").fetchone()
        rows = self._sealing.sum_rows(number, seal) + sum(self._changes)
        seal = self._sealing.seal(number + 1, rows)
        live.execute("UPDATE head SET number = ?, seal = ?", (number + 1, seal))
        return cast(int, number + 1).to_bytes(NUMBER_BYTES, "big") + seal

    def _write_head(self, record: bytes) -> None:
        """Write a commit down outside the log; only then is it acknowledged."""
        path = _sqlite_seal_head_of(self.path)
        number = int.from_bytes(record[:NUMBER_BYTES], "big")
        try:
            is_new = not path.exists()
            # Links are not followed: the file would be written wherever they lead.
            how = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(path, how, 0o600)
            try:
                os.lseek(handle, number % RECORDS * RECORD_BYTES, os.SEEK_SET)
                os.write(handle, record)
                if self._kind.syncs_head:
                    getattr(os, "fdatasync", os.fsync)(handle)
            finally:
                os.close(handle)
            if is_new and self._kind.syncs_head:
                sync_file_to_disk(path.parent)
        except OSError as error:
            raise self._kind.error(
                f"cannot write {path}: {error.strerror}. Nothing may be sent that "
                f"depends on {self.path}",
                code="cannot-write",
            ) from None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} holds {self._kind.holds} and is never pickled or "
            "copied; open its file again instead",
            code="not-copyable",
        )

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._kind.error(
                f"{self.path} is closed: open it again", code="file-closed"
            )
        # SQLite's locks do not survive a fork; going on would damage the file.
        if self._process != os.getpid():
            raise self._kind.error(
                f"{self.path} was opened by another process: open it again in this one",
                code="opened-elsewhere",
            )
        return self._connection


def _sqlite_file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one at the same path."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def sqlite_transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit what is done inside, all or nothing."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # Still open only if something went wrong: then nothing happened.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def create_sqlite_file(
    path: Path, kind: SqliteFileKind, fill: Fill, owner: bytes = b""
) -> None:
    """Make a file that holds what `fill` writes; leave one that is there alone.

    It is made beside its place, readable by its owner only, and linked into place
    when it is complete: there is never half a file.
    """
    # SQLite would take the log of a file that was removed for one of the new file.
    if (left := files_beside(path)) and not path.exists():
        raise kind.error(
            f"{path} is missing, and {left[0].name} of it is still there: put "
            f"{path.name} back, or move {' and '.join(one.name for one in left)} away",
            code="file-partly-missing",
        )
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".veilsum-")
        os.close(handle)
        try:
            with (
                kind.sentences(path),
                closing(connect_to_sqlite_file(Path(name), kind)) as connection,
            ):
                _fill_sqlite_file(connection, kind, fill, owner)
            os.link(name, path)
        finally:
            for one in (*files_beside(Path(name)), Path(name)):
                one.unlink()
        sync_file_to_disk(path.parent)
    except FileExistsError:
        pass
    except OSError as error:
        raise kind.error(
            f"cannot create {path}: {error.strerror}", code="cannot-write"
        ) from None


def _fill_sqlite_file(
    connection: sqlite3.Connection, kind: SqliteFileKind, fill: Fill, owner: bytes
) -> None:
    connection.execute(f"PRAGMA page_size = {kind.page}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA application_id = {kind.application}")
    connection.execute(f"PRAGMA user_version = {kind.version}")
    with sqlite_transaction(connection, "BEGIN IMMEDIATE"):
        for statement in kind.statements:
            connection.execute(statement)
        fill(connection)
        salt = secrets.token_bytes(SALT_BYTES)
        sealing = SqliteSealing.derive(kind, owner, salt)
        seal = sealing.seal(1, sum_of_rows(connection, kind, sealing))
        connection.execute("INSERT INTO head VALUES (?, 1, ?)", (salt, seal))


def connect_to_sqlite_file(
    path: Path, kind: SqliteFileKind, access: Access = "rw", *, alone: bool = False
) -> sqlite3.Connection:
    """Return a connection whose commits wait for the disk.

    With `alone`, it takes a lock at once and holds it until it is closed. It does not
    wait for it: two that wait hold each other up.
    """
    with kind.sentences(path), ExitStack() as undo:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={access}",
            uri=True,
            timeout=0.0 if alone else kind.patience,
            isolation_level=None,  # transactions are written out, never implied
            check_same_thread=False,  # a lock keeps threads apart
        )
        undo.callback(connection.close)
        # Damaged text need not be UTF-8: it is decoded after it has been checked.
        connection.text_factory = bytes
        if alone:
            # Before the first access: then no index is shared, nor a file made for it.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # Every commit waits for the disk; on macOS for the platter, too.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        undo.pop_all()
        return connection


@contextmanager
def inspect_sqlite_file(
    path: Path, kind: SqliteFileKind, owner: bytes | None = b""
) -> Iterator[sqlite3.Connection]:
    """Open a sound file to read it; raise before anything is written.

    SQLite writes to a file that has a journal of its own left over. Then it is opened
    for reading only, until it has been found to be ours and sound. With None for
    `owner` the caller calls `check_sqlite_seal` itself.
    """
    found = _stat_sqlite_file(path, kind)
    access: Access = (
        "ro"
        if (any(Path(f"{path}{ending}").exists() for ending in ("-wal", "-journal")))
        else "rw"
    )
    with (
        kind.sentences(path),
        closing(connect_to_sqlite_file(path, kind, access)) as connection,
    ):
        connection.execute("PRAGMA query_only = ON")
        _check_sqlite_file_identity(path, kind, connection)
        if (why := why_file_is_open_to_others(path, found)) is not None:
            raise kind.error(
                f"a {kind.noun} holds {kind.holds}, and {why}", code="holds-secrets"
            )
        # SQLite takes a last page that is cut off as if it ended in zeros. With a
        # journal of its own beside it, SQLite may yet restore that page.
        if access == "rw" and found.st_size % _sqlite_pragma(connection, "page_size"):
            raise kind.damaged(path, "its end is missing", code="end-missing")
        _check_sqlite_integrity(path, kind, connection)
        if owner is not None:
            check_sqlite_seal(path, kind, connection, owner)
        yield connection


def check_sqlite_seal(
    path: Path, kind: SqliteFileKind, connection: sqlite3.Connection, owner: bytes
) -> None:
    """Refuse a file with a changed row, or with fewer commits than its head has."""
    with ExitStack() as stack:
        # Before the file: another process may commit meanwhile.
        outside = _read_sqlite_seal_head(path, kind)
        if not connection.in_transaction:
            stack.enter_context(sqlite_transaction(connection, "BEGIN"))
        rows = connection.execute("SELECT salt, number, seal FROM head").fetchall()
        if len(rows) != 1 or [type(cell) for cell in rows[0]] != [bytes, int, bytes]:
            raise kind.damaged(path, "its head is missing", code="head-missing")
        salt, number, seal = rows[0]
        if (newest := max(outside, default=0)) > number:
            raise kind.damaged(
                path,
                f"it ends with commit {number}, and {_sqlite_seal_head_of(path).name} "
                "has seen "
                f"{newest}: a part of it or of its log was changed or removed",
                code="records-missing",
            )
        sealing = SqliteSealing.derive(kind, owner, salt)
        total = sum_of_rows(connection, kind, sealing)
        if not hmac.compare_digest(sealing.seal(number, total), seal):
            other = ", or written with another key" if owner else ""
            raise kind.damaged(
                path, f"its seal is broken: it was changed{other}", code="seal-broken"
            )
        if outside.get(number, seal) != seal:
            raise kind.damaged(
                path,
                f"{_sqlite_seal_head_of(path).name} has another seal",
                code="seal-differs",
            )


def sum_of_rows(
    connection: sqlite3.Connection, kind: SqliteFileKind, sealing: SqliteSealing
) -> int:
    """Return the sum over all rows of all tables, which the seal stands for."""
    return sum(
        sealing.hash_row(table, row)
        for table, columns in tables_of_sqlite_schema(kind.schema).items()
        for row in connection.execute(f"SELECT {sqlite_cells(columns)} FROM {table}")  # noqa: S608 - ours
    )


@cache
def tables_of_sqlite_schema(schema: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    asked = "SELECT name FROM pragma_table_info(?)"
    with closing(sqlite3.connect(":memory:")) as empty:
        for statement in schema:
            empty.execute(statement)
        tables = empty.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            table: tuple(name for (name,) in empty.execute(asked, (table,)))
            for (table,) in tables.fetchall()
        }


def sqlite_cells(columns: Iterable[str], row: str = "") -> str:
    """Return how SQL asks for the cells of a row: the type and the bytes of each."""
    return ", ".join(
        f"typeof({row}{name}), CAST({row}{name} AS BLOB)" for name in columns
    )


def files_beside(path: Path) -> list[Path]:
    """Return the files that belong to a file while it is in use, if they exist."""
    found = (path.with_name(f"{path.name}{ending}") for ending in BESIDE)
    return [one for one in found if one.exists()]


def _sqlite_seal_head_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-head")


def _read_sqlite_seal_head(path: Path, kind: SqliteFileKind) -> dict[int, bytes]:
    """Return the seals of the last commits by their numbers; empty without a head."""
    try:
        with _sqlite_seal_head_of(path).open("rb") as file:
            content = file.read(RECORDS * RECORD_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise kind.error(
            f"cannot read {_sqlite_seal_head_of(path)}: {error.strerror}",
            code="cannot-read",
        ) from None
    if len(content) > RECORDS * RECORD_BYTES or len(content) % RECORD_BYTES:
        raise kind.damaged(
            path,
            f"{_sqlite_seal_head_of(path).name} has an odd length",
            code="odd-head-length",
        )
    records = (
        content[at : at + RECORD_BYTES] for at in range(0, len(content), RECORD_BYTES)
    )
    return {
        int.from_bytes(one[:NUMBER_BYTES], "big"): one[NUMBER_BYTES:]
        for one in records
        if any(one)
    }


def sync_file_to_disk(path: Path) -> None:
    """Make a name in a folder, or a file's length, durable where that can be asked."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _stat_sqlite_file(path: Path, kind: SqliteFileKind) -> os.stat_result:
    """Return what is at the path; refuse all but a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise kind.error(
            f"there is no {kind.noun} {path}: it does not exist", code="no-such-file"
        ) from None
    except OSError as error:
        raise kind.error(
            f"cannot read {path}: {error.strerror}", code="cannot-read"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise kind.error(
            f"{path} is not a file: give the path of a {kind.noun} file",
            code="not-a-file",
        )
    return found


def _check_sqlite_file_identity(
    path: Path, kind: SqliteFileKind, connection: sqlite3.Connection
) -> None:
    if _sqlite_pragma(connection, "application_id") != kind.application:
        raise kind.error(
            f"{path} is not a veilsum {kind.noun}, or its beginning is damaged; it is "
            "left as it is: give another path, or put a sound copy in its place",
            code="wrong-file-kind",
        )
    version = _sqlite_pragma(connection, "user_version")
    if version != kind.version:
        newer = version > kind.version
        advice = "use the version of veilsum that wrote it"
        advice += " or a newer one" if newer else ""
        raise kind.error(
            f"{path} is a {kind.noun} of format {version}, or its beginning is damaged "
            f"(this veilsum reads format {kind.version}): "
            f"{advice if newer else kind.if_older or advice}",
            code="wrong-format",
        )


def _check_sqlite_integrity(
    path: Path, kind: SqliteFileKind, connection: sqlite3.Connection
) -> None:
    found = _sqlite_pragma(connection, "integrity_check")
    if found != "ok":
        raise kind.damaged(path, str(found).splitlines()[0], code="database-damaged")
    tables = connection.execute(_MADE).fetchall()
    if tables != [(statement.encode(),) for statement in kind.statements]:
        raise kind.damaged(
            path, f"its tables are not those of a {kind.noun}", code="wrong-tables"
        )


def _sqlite_pragma(connection: sqlite3.Connection, name: str) -> Any:
    found = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found.decode() if isinstance(found, bytes) else found


def _name_of_sqlite_error(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")
