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

# The one key that is not the state's.
DIGEST = "digest"


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
    try:
        # Opened here: numpy would leave a file that is none of its own open.
        with path.open("rb") as stream:
            found = np.load(stream, allow_pickle=False)
            held = {name: found[name] for name in getattr(found, "files", ())}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InvalidInputError(
            f"{path} is no checkpoint that can be read: {error}; name another file, or "
            "remove it to begin anew"
        ) from None
    if str(held.pop(DIGEST, "")) != digest:
        raise InvalidInputError(
            f"{path} is the checkpoint of another run, whose graph, targets, seed, "
            "method or step differ; name another file, or remove it to begin anew"
        )
    return held
