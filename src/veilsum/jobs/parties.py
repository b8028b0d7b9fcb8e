"""Parties by name, and what a party's ledger knows its table by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array
from veilsum.tables.frames import Frame

T = TypeVar("T")


def by_name(data: Mapping[Any, T]) -> dict[str, T]:
    """Return what each party has under its name; refuse two of one name."""
    if not isinstance(data, Mapping):
        raise InvalidInputError(
            "data must be a mapping of parties' names to what each has, found "
            f"{type(data).__name__}"
        )
    named = {str(party): held for party, held in data.items()}
    if len(named) < len(data):
        names = [str(party) for party in data]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"two parties are called {twice!r}: rename one of them")
    return named


def table_parts(frame: Frame) -> tuple[Array[Any], ...]:
    """Return a whole table as arrays: two questions about it are about one data set."""
    parts: list[Array[Any]] = []
    for name in sorted(map(str, frame.columns)):
        parts += [_bytes(name), _plain(frame[name])]
    return tuple(parts)


def _plain(column: Any) -> Array[Any]:
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return np.ascontiguousarray(values)
    return _bytes("\0".join(map(str, values.tolist())))


def _bytes(text: str) -> Array[Any]:
    return np.frombuffer(text.encode(), dtype=np.uint8)
