"""What is in a file that somebody else may have written, or named.

Only an ordinary file is read, and no more of it than the size that was looked at: a
pipe would wait forever, and a device such as /dev/zero has no end.
"""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from veilsum.errors import InvalidInputError


def contents(path: Path, most_bytes: int, kind: type[InvalidInputError]) -> bytes:
    """Return what is in a file.

    Args:
        path: where it is.
        most_bytes: more are refused before one is read.
        kind: what to raise, about whatever cannot be read.
    """
    try:
        found = path.stat()  # before it is opened: opening a pipe waits for a writer
        if not S_ISREG(found.st_mode):
            what = "a folder" if path.is_dir() else "a device or a pipe"
            raise kind(f"cannot read {path}: expected an ordinary file, found {what}")
        if found.st_size > most_bytes:
            raise kind(
                f"{path} has {found.st_size:,} bytes, and {most_bytes:,} are the most "
                "for a file of this kind: keep data in tables of their own"
            )
        with path.open("rb") as stream:
            return stream.read(most_bytes)
    except OSError as error:
        raise kind(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        # A name with a zero byte in it, which no file has.
        raise kind(f"cannot read {str(path)!r}: {error}") from None
