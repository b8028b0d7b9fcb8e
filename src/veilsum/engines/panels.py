"""All agents' rows cut into panels of a few columns, and threads that work on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from veilsum.numbers.arrays import Array
from veilsum.numbers.shapes import Float

T = TypeVar("T")

Rows: TypeAlias = Float[Array[Any], "n m"]
Numbers: TypeAlias = Float[Array[Any], " k"]

# Four numbers fill two vectors of most processors, and a panel of ten thousand agents
# stays in a core's own cache.
WIDE, NARROW = 4, 2
# What is read at once from memory; no row of a panel is spread over two of these.
LINE_BYTES = 64


@dataclass(frozen=True)
class Panel:
    """Some columns of all rows: agent by agent, and a row of zeros after the last one.

    Attributes:
        columns: which.
        width: how many there is room for.
    """

    columns: slice
    width: int

    def fill(self, numbers: Numbers, rows: Rows) -> None:
        """Copy these columns of the rows."""
        from veilsum.engines.kernels import cut_out

        cut_out(rows, self.columns.start, self.columns.stop, self.width, numbers)

    def put_back(self, numbers: Numbers, rows: Rows) -> None:
        """Copy these columns into the rows."""
        from veilsum.engines.kernels import put_back

        put_back(numbers, self.columns.start, self.columns.stop, self.width, rows)

    def rooms(self, count: int, agents: int, precision: str) -> list[Numbers]:
        """Return rooms for such panels, all zeros."""
        size = (agents + 1) * self.width
        return [room(size, precision) for _ in range(count)]


def panels(columns: int) -> list[Panel]:
    """Return panels for so many columns, wide ones unless threads would be idle.

    >>> [panel.width for panel in panels(90)][-2:]
    [4, 2]
    """
    width = WIDE if columns >= WIDE * threads() else NARROW
    found = [
        Panel(slice(low, min(low + width, columns)), width)
        for low in range(0, columns, width)
    ]
    last = found[-1].columns
    return [*found[:-1], Panel(last, min(width, -(-(last.stop - last.start) // 2) * 2))]


def room(size: int, precision: str) -> Numbers:
    """Return zeros that begin where a line of memory does."""
    dtype = np.dtype(precision)
    raw = np.zeros(size * dtype.itemsize + LINE_BYTES, np.uint8)
    first = -raw.ctypes.data % LINE_BYTES
    return raw[first : first + size * dtype.itemsize].view(dtype)


def threads() -> int:
    """Return how many cores there are to work on."""
    return os.cpu_count() or 1


def each(action: Callable[[T], object], items: Iterable[T], *, small: bool) -> None:
    """Do something with every item, by several threads unless it is soon done."""
    if small or threads() == 1:
        for item in items:
            action(item)
        return
    with ThreadPoolExecutor(threads()) as pool:
        # Through a list: an error in a thread is raised here.
        list(pool.map(action, items))


@dataclass(eq=False)
class Shift:
    """Pieces of work, in rows of which each must be done in order, by any thread.

    Attributes:
        action: does one piece of a row, by their numbers.
        weights: of a piece in each row.
        pieces: how many a row has.
    """

    action: Callable[[int, int], object]
    weights: Sequence[int]
    pieces: int
    _done: list[int] = field(init=False)
    _busy: set[int] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self._done = [0] * len(self.weights)

    def work(self, _: int) -> None:
        """Do pieces until none is left that could be begun."""
        while (row := self._take()) is not None:
            self.action(row, self._done[row])
            with self._lock:
                self._done[row] += 1
                self._busy.remove(row)

    def _take(self) -> int | None:
        """Return the row with most to do of those that nobody works on."""
        with self._lock:
            free = [row for row in range(len(self.weights)) if self._left(row)]
            row = max(free, key=self._left, default=None)
            if row is not None:
                self._busy.add(row)
            return row

    def _left(self, row: int) -> int:
        pieces = 0 if row in self._busy else self.pieces - self._done[row]
        return pieces * self.weights[row]
