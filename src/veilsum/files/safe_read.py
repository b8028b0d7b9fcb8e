"""Reading of files that somebody else may have written, or named.

Only an ordinary file is read, and no more of it than the size that was checked: a pipe
would block forever, and a device such as /dev/zero has no end.
"""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO

from veilsum.errors import InvalidInputError

_READING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_file_contents(
    path: Path, most_bytes: int, kind: type[InvalidInputError]
) -> bytes:
    """Return what is in a file.

    Args:
        path: where it is.
        most_bytes: more are refused before one is read.
        kind: what to raise, about whatever cannot be read.
    """
    with open_ordinary_file(path, kind, most_bytes) as stream:
        try:
            return stream.read(most_bytes)
        except OSError as error:
            raise kind(
                f"cannot read {path}: {error.strerror}", code="cannot-read"
            ) from None


def open_ordinary_file(
    path: Path, kind: type[InvalidInputError], most_bytes: int | None = None
) -> BinaryIO:
    """Open a file that is an ordinary one.

    Args:
        path: where it is.
        kind: what to raise, about whatever cannot be read.
        most_bytes: more are refused; None where whoever reads it counts.
    """
    try:
        # Opening a device may do something.
        _check_file_size_and_kind(path, path.stat(), kind, most_bytes)
        # Somebody may have put a pipe there since: that is not waited for.
        stream = os.fdopen(os.open(path, _READING), "rb")
        try:
            _check_file_size_and_kind(path, os.fstat(stream.fileno()), kind, most_bytes)
        except BaseException:
            stream.close()
            raise
        return stream
    except OSError as error:
        raise kind(
            f"cannot read {path}: {error.strerror}", code="cannot-read"
        ) from None
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        # A name with a zero byte in it, which no file has.
        raise kind(f"cannot read {str(path)!r}: {error}", code="cannot-read") from None


def _check_file_size_and_kind(
    path: Path,
    found: os.stat_result,
    kind: type[InvalidInputError],
    most_bytes: int | None,
) -> None:
    """Refuse what is no ordinary file, or too long."""
    if not S_ISREG(found.st_mode):
        what = "a folder" if S_ISDIR(found.st_mode) else "a device or a pipe"
        raise kind(
            f"cannot read {path}: expected an ordinary file, found {what}",
            code="not-a-file",
        )
    if most_bytes is not None and found.st_size > most_bytes:
        raise kind(
            f"{path} has {found.st_size:,} bytes, and {most_bytes:,} are the most for "
            "a file of this kind: keep data in tables of their own",
            code="file-too-large",
        )
