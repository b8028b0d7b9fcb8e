"""Results on disk: all of them or none, each file whole or absent."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any, BinaryIO

from veilsum.errors import OutputError


def as_strict_json(data: Any) -> str:
    """Return strict JSON: nan and infinity are errors, never bare words."""
    return json.dumps(data, indent=2, allow_nan=False)


def prepare_output_folder(folder: Path) -> Path:
    """Return the folder, made if needed; refuse one that cannot be written.

    Called before long work, so that nothing is computed in vain.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write into {folder}: {error.strerror}; choose another folder",
            code="cannot-write",
        ) from None
    return folder


def write_files(
    folder: Path, files: Mapping[str, bytes], *, private: bool = False
) -> list[Path]:
    """Write files side by side, then move each into place at once.

    A private file is one that only its owner may read.
    """
    written: list[tuple[Path, Path]] = []
    try:
        for name, content in files.items():
            put = methodcaller("write", content)
            written.append(
                (write_staged_file(folder, put, private=private), folder / name)
            )
        for staged, final in written:
            staged.replace(final)
    except OSError as error:
        raise OutputError(
            f"cannot write into {folder}: {error.strerror}", code="cannot-write"
        ) from None
    finally:
        for staged, _ in written:  # whatever has not come to its place
            staged.unlink(missing_ok=True)
    return [final for _, final in written]


def write_new(path: Path, content: bytes, *, advice: str, mode: int = 0o666) -> None:
    """Write a file that must not exist yet; a failure leaves no part of it.

    Args:
        path: of the new file.
        content: its bytes.
        advice: reason why a file of this name is not replaced, and what to do.
        mode: access rights from before the first byte on, less the process's umask;
            0o600 for a secret.

    Raises:
        OutputError: the file exists (code `file-exists`), or cannot be written
            (`cannot-write`).
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags, mode)
    except FileExistsError:
        raise OutputError(
            f"{path} exists already: {advice}", code="file-exists"
        ) from None
    except OSError as error:
        raise _cannot_write(path, error) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {path}: {error.strerror}", code="cannot-write")


def write_staged_file(
    folder: Path, put: Callable[[BinaryIO], object], *, private: bool = False
) -> Path:
    """Write a file under a name of its own, to be moved into place; return it."""
    staged = folder / f".veilsum-{secrets.token_hex(8)}"
    # A result has the mode that the user's files have. The system knows it: who asks
    # for a process's umask sets it, for all of its threads.
    mode = 0o600 if private else 0o666
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(staged, flags, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            put(stream)
    except BaseException:
        staged.unlink(missing_ok=True)
        raise
    return staged
