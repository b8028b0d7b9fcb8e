"""How far a long run has come, on disk: whole or absent, and only of the same run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from veilsum.errors import InvalidInputError, OutputError
from veilsum.files.contents import not_arrays

# The one key that is not the state's, and the one that every state has.
DIGEST, ITERATION = "digest", "iteration"


def write_checkpoint(path: Path, digest: str, state: Mapping[str, Any]) -> None:
    """Write a state's arrays and numbers beside the file, then move them there at once.

    Args:
        path: where to; what was there is replaced.
        digest: of all that decides what the run computes.
        state: by name.
    """
    staged = path.with_name(f".veilsum-{secrets.token_hex(8)}")
    try:
        with staged.open("xb") as stream:
            held: dict[str, Any] = {DIGEST: np.array(digest), **state}
            np.savez(stream, **held)
            # What is moved there must have arrived there, should the machine stop.
            stream.flush()
            os.fsync(stream.fileno())
        staged.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        staged.unlink(missing_ok=True)


def read_checkpoint(path: Path, digest: str) -> dict[str, Any] | None:
    """Return the state in a file; None if there is none. Another run's is refused."""
    return _read(path, digest, None)


def check_checkpoint(path: Path, digest: str, iterations: int) -> None:
    """Refuse another run's file, or one that is further than is asked for.

    Asked before long work: no more than two numbers are read.
    """
    held = _read(path, digest, {DIGEST, ITERATION})
    if held is not None:
        check_reached(path, int(held[ITERATION]), iterations)


def check_reached(path: Path, reached: int, iterations: int) -> None:
    """Refuse a file that is further than is asked for: nobody can go back."""
    if reached > iterations:
        raise InvalidInputError(
            f"{path} has {reached:,} iterations already, and {iterations:,} are asked "
            "for: ask for as many or more, or name another file"
        )


def _read(path: Path, digest: str, names: set[str] | None) -> dict[str, Any] | None:
    """Return what a file holds under these names, or all of it."""
    try:
        # Opened here: numpy would leave a file that is none of its own open.
        with path.open("rb") as stream:
            found = np.load(stream, allow_pickle=False)
            there = set(getattr(found, "files", ()))
            held = {name: found[name] for name in there if not names or name in names}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        why = not_arrays(error)
    else:
        why = "" if there >= {DIGEST, ITERATION} else "it holds something else"
    if why:
        raise InvalidInputError(
            f"{path} is no checkpoint that can be read: {why}; name another file, or "
            "remove it to begin anew"
        )
    if str(held.pop(DIGEST)) != digest:
        raise InvalidInputError(
            f"{path} is the checkpoint of another run, whose graph, targets, seed, "
            "method or step differ; name another file, or remove it to begin anew"
        )
    return held
