"""SQLite files of this package: made whole, checked before use, every commit durable.

A file of another kind, or a damaged one, is refused and not touched.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NoReturn, TypeAlias

from veilsum.errors import SecretError, VeilsumError
from veilsum.files.owners import why_open
from veilsum.numbers.secrets import Secret

# Whatever was made with words: a trigger would change what is written, unseen.
_MADE = "SELECT sql FROM sqlite_master WHERE sql NOTNULL ORDER BY rowid"

Access = Literal["ro", "rw"]
Fill: TypeAlias = Callable[[sqlite3.Connection], None]


@dataclass(frozen=True)
class Kind:
    """What a file is for, and how to speak about it.

    Attributes:
        noun: what a person calls it.
        holds: the private thing in it.
        application: its id in the header, by which it is told from others' files.
        version: of its format.
        schema: the statements that make its tables.
        error: what is raised when it cannot be used.
        undone: what a failure has left undone.
        busy: what to say when another process holds it, if not what SQLite says.
        if_damaged: what the owner can do then.
        patience: seconds to wait for another process.
        if_older: what the owner can do with a file of an earlier format.
        page: bytes that are written at least; long entries are written faster in
            longer pages.
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

    def damaged(self, path: Path, how: str) -> VeilsumError:
        """Return the error for a file that is not as it was written."""
        return self.error(
            f"{path} is damaged ({how}) and is left as it is: {self.if_damaged}"
        )

    @contextmanager
    def sentences(self, path: Path) -> Iterator[None]:
        """Turn what SQLite says into a sentence about the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if self.busy and _name_of(error).startswith("SQLITE_BUSY"):
                raise self.error(f"{path}: {self.busy}") from None
            raise self.error(
                f"cannot use {path}, nothing was {self.undone}: {error}"
            ) from None
        except UnicodeDecodeError:  # words of SQLite about the damage, with the damage
            raise self.damaged(path, "it has text that is not UTF-8") from None
        except sqlite3.DatabaseError as error:
            if _name_of(error) == "SQLITE_NOTADB":
                raise self.error(
                    f"{path} is not a {self.noun}, or its beginning is damaged; it is "
                    "left as it is: give another path, or put a sound copy in its place"
                ) from None
            raise self.damaged(path, str(error)) from None


class OpenFile(Secret):
    """An open file, for the threads of one process; `transaction` to use it."""

    def __init__(self, path: Path, kind: Kind, connection: sqlite3.Connection) -> None:
        self.path = path
        self._kind = kind
        self._connection: sqlite3.Connection | None = connection
        self._lock = RLock()
        self._process = os.getpid()
        self._place = _place(path)

    @property
    def is_gone(self) -> bool:
        """Whether somebody has deleted the file, or put another in its place.

        What is open goes on, and is lost when it is closed.
        """
        return _place(self.path) != self._place

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Hold the file: all that is written inside is on disk after it, or nothing."""
        with (
            self._lock,
            self._kind.sentences(self.path),
            transaction(self._live(), begin),
        ):
            yield

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SecretError(
            f"a {type(self).__name__} holds {self._kind.holds} and is never pickled or "
            "copied; open its file again instead"
        )

    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._kind.error(f"{self.path} is closed: open it again")
        # SQLite's locks do not survive a fork; going on would damage the file.
        if self._process != os.getpid():
            raise self._kind.error(
                f"{self.path} was opened by another process: open it again in this one"
            )
        return self._connection


def _place(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one at the same path."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit what is done inside, all or nothing."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # Still open only if something went wrong: then nothing happened.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def create(path: Path, kind: Kind, fill: Fill) -> None:
    """Make a file that holds what `fill` writes; leave one that is there alone.

    It is made beside its place, readable by its owner only, and linked into place
    when it is complete: there is never half a file.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".veilsum-")
        os.close(handle)
        try:
            with kind.sentences(path), closing(connect(Path(name), kind)) as connection:
                _fill(connection, kind, fill)
            os.link(name, path)
        finally:
            for ending in ("", "-wal", "-shm", "-journal"):
                Path(f"{name}{ending}").unlink(missing_ok=True)
        sync(path.parent)
    except FileExistsError:
        pass
    except OSError as error:
        raise kind.error(f"cannot create {path}: {error.strerror}") from None


def _fill(connection: sqlite3.Connection, kind: Kind, fill: Fill) -> None:
    connection.execute(f"PRAGMA page_size = {kind.page}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA application_id = {kind.application}")
    connection.execute(f"PRAGMA user_version = {kind.version}")
    with transaction(connection, "BEGIN IMMEDIATE"):
        for statement in kind.schema:
            connection.execute(statement)
        fill(connection)


def connect(
    path: Path, kind: Kind, access: Access = "rw", *, alone: bool = False
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
def inspected(path: Path, kind: Kind) -> Iterator[sqlite3.Connection]:
    """Open a sound file to read it; raise before anything is written.

    SQLite writes to a file that has a journal of its own left over. Then it is opened
    for reading only, until it has been found to be ours and sound.
    """
    found = _found(path, kind)
    access: Access = "ro" if _leftovers(path) else "rw"
    with kind.sentences(path), closing(connect(path, kind, access)) as connection:
        connection.execute("PRAGMA query_only = ON")
        _check_identity(path, kind, connection)
        if (why := why_open(path, found)) is not None:
            raise kind.error(f"a {kind.noun} holds {kind.holds}, and {why}")
        # SQLite takes a last page that is cut off as if it ended in zeros. With a
        # journal of its own beside it, SQLite may yet restore that page.
        if access == "rw" and found.st_size % _pragma(connection, "page_size"):
            raise kind.damaged(path, "its end is missing")
        _check_integrity(path, kind, connection)
        yield connection


def sync(path: Path) -> None:
    """Make a name in a folder, or a file's length, durable where that can be asked."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _leftovers(path: Path) -> bool:
    names = (f"{path.name}{ending}" for ending in ("-wal", "-journal"))
    return any(path.with_name(name).exists() for name in names)


def _found(path: Path, kind: Kind) -> os.stat_result:
    """Return what is at the path; refuse all but a file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise kind.error(f"there is no {kind.noun} {path}: it does not exist") from None
    except OSError as error:
        raise kind.error(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise kind.error(f"{path} is not a file: give the path of a {kind.noun} file")
    return found


def _check_identity(path: Path, kind: Kind, connection: sqlite3.Connection) -> None:
    if _pragma(connection, "application_id") != kind.application:
        raise kind.error(
            f"{path} is not a veilsum {kind.noun}; it is left as it is: "
            "give another path"
        )
    version = _pragma(connection, "user_version")
    if version != kind.version:
        newer = version > kind.version
        advice = "use the version of veilsum that wrote it"
        advice += " or a newer one" if newer else ""
        raise kind.error(
            f"{path} is a {kind.noun} of format {version}, this veilsum reads format "
            f"{kind.version}: {advice if newer else kind.if_older or advice}"
        )


def _check_integrity(path: Path, kind: Kind, connection: sqlite3.Connection) -> None:
    found = _pragma(connection, "integrity_check")
    if found != "ok":
        raise kind.damaged(path, str(found).splitlines()[0])
    tables = connection.execute(_MADE).fetchall()
    if tables != [(statement.encode(),) for statement in kind.schema]:
        raise kind.damaged(path, f"its tables are not those of a {kind.noun}")


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    found = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found.decode() if isinstance(found, bytes) else found


def _name_of(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")
