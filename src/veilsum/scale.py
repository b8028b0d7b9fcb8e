"""Independent pieces of work, spread over processes, the same however they are split.

A piece has a key, and its chance comes from a seed and that key alone: results do not
depend on how many workers there are, or on which of them did what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from hashlib import blake2b
from typing import TypeVar

Key = TypeVar("Key", str, int)
Found = TypeVar("Found")

# Pieces that wait for a worker: enough to keep all busy, few enough to stop at once.
WAITING = 4


def seed_of(seed: int, key: str | int) -> int:
    """Return the 128-bit seed of one piece: a hash of the whole's seed and its key."""
    return int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=16).digest())


def map_pieces(
    work: Callable[[Key, int], Found],
    keys: Iterable[Key],
    *,
    seed: int,
    on: Executor | None = None,
    ahead: int = WAITING,
) -> Iterator[Found]:
    """Yield work(key, its seed) for each key, in the keys' order.

    Args:
        work: a function that workers can import; it is given the key and its seed.
        keys: of the pieces, each only once.
        seed: of the whole.
        on: who does the work, this process if nobody is named.
        ahead: pieces that are begun before the first of them is asked for. Memory does
            not grow with the number of keys.
    """
    if on is None:
        for key in keys:
            yield work(key, seed_of(seed, key))
        return
    begun: deque[Future[Found]] = deque()
    try:
        for key in keys:
            begun.append(on.submit(work, key, seed_of(seed, key)))
            if len(begun) > ahead:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for one in begun:
            one.cancel()


def processes(count: int) -> ProcessPoolExecutor:
    """Return workers that start as new programs, with nothing of this one's memory.

    Ctrl-C is for whoever waits for them: a terminal tells all processes, and each of
    these would die over its work with a page of its own.
    """
    from multiprocessing import get_context
    from signal import SIG_IGN, SIGINT, signal

    return ProcessPoolExecutor(
        count,
        mp_context=get_context("spawn"),
        initializer=signal,
        initargs=(SIGINT, SIG_IGN),
    )
