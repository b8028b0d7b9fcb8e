"""Checkpoints of long runs on disk: whole or absent, and only of the same run.

A state has the estimates and a method's other arrays. Together with the seed, which is
easily guessed, they can reveal all private numbers. So only the owner may read the
file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from veilsum.errors import InvalidInputError, OutputError
from veilsum.files.arrays import PackedArrays, packed_arrays
from veilsum.files.output import write_staged_file
from veilsum.minimise.methods.base import MethodState
from veilsum.numbers.arrays import Array

S = TypeVar("S", bound=MethodState)

# The one key that is not the state's.
DIGEST = "digest"
# Rows that are hashed at once.
PIECE = 1 << 15
_INSTEAD = "name another file, or remove it to begin anew"


def checkpoint_fingerprint(settings: tuple[Any, ...], *arrays: Array[Any]) -> str:
    """Return a digest of what decides a run's numbers.

    With the versions of what computes them: another one may have other last digits, and
    a run would no longer be that of one without a break.
    """
    from veilsum import __version__

    versions = (__version__, np.__version__)
    found = blake2b(repr((versions, settings)).encode(), digest_size=16)
    for array in arrays:
        found.update(f"{array.dtype} {array.shape}".encode())
        for low in range(0, len(array), PIECE):
            found.update(np.ascontiguousarray(array[low : low + PIECE]).data)
    return found.hexdigest()


def write_checkpoint(path: Path, digest: str, state: MethodState) -> None:
    """Write a state beside the file, then move it there at once.

    An earlier state of the same run, by its digest, is replaced, and nothing else.
    """
    try:
        _check_owner(path, digest)
    except InvalidInputError as error:
        raise OutputError(
            f"somebody else writes there: {error}", code=error.code
        ) from None

    def put(stream: BinaryIO) -> None:
        held: dict[str, Any] = {
            DIGEST: np.array(digest),
            **_checkpoint_state_fields(state),
        }
        np.savez(stream, **held)
        # What is moved there must have arrived there, should the machine stop.
        stream.flush()
        os.fsync(stream.fileno())

    try:
        staged = write_staged_file(path.parent, put, private=True)
        try:
            staged.replace(path)
        finally:
            staged.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}", code="cannot-write"
        ) from None


def read_checkpoint(path: Path, digest: str, begun: S) -> S | None:
    """Return the state in a file; None if there is none.

    Args:
        path: where it would be.
        digest: of this run; another's state is refused.
        begun: the state that the run begins with: the one in the file has as many
            numbers of the same kind, or is refused before these are read.
    """
    if not _check_owner(path, digest):
        return None
    wanted = {
        name: np.asarray(one) for name, one in _checkpoint_state_fields(begun).items()
    }
    held = {}
    with packed_arrays(path, InvalidInputError) as found:
        alike = found.names - {DIGEST} == set(wanted)
        for name, one in wanted.items() if alike else ():
            head = found.head(name)
            alike &= head.shape == one.shape and head.dtype == one.dtype
            if alike:
                held[name] = found.read(name, head)
    if not alike or held["iteration"] < 0:
        raise InvalidInputError(
            f"{path} has no state of this method and these parties: {_INSTEAD}",
            code="other-checkpoint-state",
        )
    plain = {name: one if one.ndim else one.item() for name, one in held.items()}
    return type(begun)(**plain)


def check_reached(path: Path, reached: int, iterations: int) -> None:
    """Refuse a file that is further than is asked for: nobody can go back."""
    if reached > iterations:
        raise InvalidInputError(
            f"{path} has {reached:,} iterations already, and {iterations:,} are asked "
            "for: ask for as many or more, or name another file",
            code="already-further",
        )


def _check_owner(path: Path, digest: str) -> bool:
    """Say whether a checkpoint of this run is there; refuse anything else."""
    try:
        if not os.path.lexists(path):
            return False
        with packed_arrays(path, InvalidInputError) as found:
            theirs = _digest_in_checkpoint(found)
    except ValueError as error:  # with a zero byte in its name, too
        raise InvalidInputError(
            f"no checkpoint that can be read: {error}; {_INSTEAD}",
            code="not-a-checkpoint",
        ) from None
    if theirs != digest:
        raise InvalidInputError(
            f"{path} is the checkpoint of another run, whose graph, targets, seed, "
            f"method, step, engine or versions differ; {_INSTEAD}",
            code="checkpoint-of-other-run",
        )
    return True


def _digest_in_checkpoint(found: PackedArrays) -> str:
    head = found.head(DIGEST)
    if head.shape or head.dtype.kind != "U" or head.bytes > 1024:
        raise ValueError("it names no run")
    return str(found.read(DIGEST, head))


def _checkpoint_state_fields(state: Any) -> Mapping[str, Any]:
    return {one.name: getattr(state, one.name) for one in fields(state)}
