"""What is in a file that somebody else may have written, or named.

Only an ordinary file is read, and no more of it than the size that was looked at: a
pipe would wait forever, and a device such as /dev/zero has no end.
"""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from veilsum.errors import InvalidInputError

_READING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def contents(path: Path, most_bytes: int, kind: type[InvalidInputError]) -> bytes:
    """Return what is in a file.

    Args:
        path: where it is.
        most_bytes: more are refused before one is read.
        kind: what to raise, about whatever cannot be read.
    """
    try:
        _check(path, path.stat(), most_bytes, kind)  # opening a device may do something
        # Somebody may have put a pipe there since: that is not waited for.
        with os.fdopen(os.open(path, _READING), "rb") as stream:
            _check(path, os.fstat(stream.fileno()), most_bytes, kind)
            return stream.read(most_bytes)
    except OSError as error:
        raise kind(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        # A name with a zero byte in it, which no file has.
        raise kind(f"cannot read {str(path)!r}: {error}") from None


def not_arrays(error: Exception) -> str:
    """Say why numpy did not read a file; its own words advise to trust pickles.

    >>> not_arrays(KeyError("ends is not a file in the archive"))
    'it has no array of that name'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return "it has no array of that name"
    return "it is no file that numpy wrote, is not whole, or has Python objects in it"


def _check(
    path: Path, found: os.stat_result, most_bytes: int, kind: type[InvalidInputError]
) -> None:
    """Refuse what is no ordinary file, or too long."""
    if not S_ISREG(found.st_mode):
        what = "a folder" if S_ISDIR(found.st_mode) else "a device or a pipe"
        raise kind(f"cannot read {path}: expected an ordinary file, found {what}")
    if found.st_size > most_bytes:
        raise kind(
            f"{path} has {found.st_size:,} bytes, and {most_bytes:,} are the most for "
            "a file of this kind: keep data in tables of their own"
        )
