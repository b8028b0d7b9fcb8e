"""Arrays of numbers in files that somebody else may have written: .npy and .npz.

A file says in its own head how large its arrays are, and may lie: whoever reads one
looks at the head first, and no more is read, unpacked or mapped than was agreed to.
Nothing is ever unpickled.
"""

from __future__ import annotations

import os
import tokenize
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy

from veilsum.errors import InvalidInputError
from veilsum.files.safe_read import open_ordinary_file
from veilsum.numbers.arrays import Array

# Bytes that are unpacked at once.
PIECE = 1 << 24
_HEADS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# All that packed files raise which are none, or broken, or locked.
BROKEN = (
    *(BadZipFile, EOFError, KeyError, LookupError, NotImplementedError),
    *(OSError, OverflowError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(tokenize.TokenError, zlib.error),
)


@dataclass(frozen=True, slots=True)
class ArrayHead:
    """Header of an array in a file.

    Attributes:
        dtype: type of the entries; never objects.
        by_columns: whether the first axis varies fastest (Fortran order).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool

    @classmethod
    def of(cls, stream: IO[bytes]) -> ArrayHead:
        """Return what a stream begins with; its numbers come next."""
        version = npy.read_magic(stream)
        if version not in _HEADS:
            raise ValueError(f"it is of version {version}, expected 1.0 or 2.0")
        shape, by_columns, dtype = _HEADS[version](stream)
        if dtype.hasobject:
            raise ValueError("it has Python objects in it, expected numbers")
        if any(one < 0 for one in shape) or not dtype.itemsize:
            raise ValueError(f"no array has the shape {shape} of {dtype}")
        return cls(shape, dtype, by_columns)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.itemsize


def mapped_array(path: Path, kind: type[InvalidInputError]) -> Array[Any]:
    """Return the array of a .npy file, which stays on disk until it is looked at.

    Args:
        path: where it is.
        kind: what to raise, about whatever is none.
    """
    with (
        _explain_broken_array_file(path, kind),
        open_ordinary_file(path, kind) as stream,
    ):
        head, offset = ArrayHead.of(stream), stream.tell()
        follow = os.fstat(stream.fileno()).st_size - offset
        if head.bytes > follow:
            raise ValueError(
                f"its head promises {head.bytes:,} bytes of numbers, and "
                f"{follow:,} follow"
            )
        if not head.bytes:
            return np.empty(head.shape, head.dtype)
        order: Any = "F" if head.by_columns else "C"
        return np.memmap(stream, head.dtype, "r", offset, head.shape, order)


@contextmanager
def packed_arrays(path: Path, kind: type[InvalidInputError]) -> Iterator[PackedArrays]:
    """Open the arrays of a .npz file, none of which is read yet.

    Args:
        path: where it is.
        kind: what to raise, about whatever is none.
    """
    with (
        _explain_broken_array_file(path, kind),
        open_ordinary_file(path, kind) as stream,
        ZipFile(stream) as packed,
    ):
        yield PackedArrays(packed)


@contextmanager
def _explain_broken_array_file(
    path: Path, kind: type[InvalidInputError]
) -> Iterator[None]:
    try:
        yield
    except InvalidInputError:
        raise
    except BROKEN as error:
        raise kind(
            f"{path} holds no arrays that can be read: {error}",
            code="unreadable-arrays",
        ) from None


@dataclass(frozen=True)
class PackedArrays:
    """The arrays of an open .npz file."""

    packed: ZipFile

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(one.removesuffix(".npy") for one in self.packed.namelist())

    def head(self, name: str) -> ArrayHead:
        """Return what the file says of an array, without reading it."""
        with self.packed.open(f"{name}.npy") as stream:
            return ArrayHead.of(stream)

    def read(self, name: str, expected: ArrayHead) -> Array[Any]:
        """Return an array whose head was looked at; another one there is refused."""
        with self.packed.open(f"{name}.npy") as stream:
            if (found := ArrayHead.of(stream)) != expected:
                raise ValueError(f"{name} is {found}, expected {expected}")
            flat = np.empty(found.size, found.dtype)
            room = flat.view(np.uint8) if found.bytes else np.empty(0, np.uint8)
            at = 0
            while at < room.size:
                piece = stream.read(min(PIECE, room.size - at))
                if not piece:
                    raise ValueError(f"{name} ends before its last number")
                room[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
                at += len(piece)
            # And with it all is compared with its checksum.
            if stream.read(1):
                raise ValueError(f"{name} goes on after its last number")
        return flat.reshape(found.shape, order="F" if found.by_columns else "C")
