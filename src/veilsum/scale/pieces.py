"""Work in pieces: each has a key, and its chance comes from a seed and that key alone.

So results do not depend on how many workers there are, on which of them did what, or on
how many pieces went to one of them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from time import monotonic
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", str, int)
Found = TypeVar("Found")

# Sending a piece and its result takes about a millisecond: pieces that take less than
# so many seconds travel together, as many as take about so long.
WORTH_SENDING = 0.2
# Of pieces that travel together.
MOST_TOGETHER = 1024
# Bundles that each worker has: the one that it works at, and the next.
EACH = 2


def seed_of_piece(seed: int, key: str | int) -> int:
    """Return the 128-bit seed of one piece: a hash of the whole's seed and its key."""
    return int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=16).digest())


def map_pieces(
    work: Callable[[Key, int], Found],
    keys: Iterable[Key],
    *,
    seed: int,
    on: Executor | None = None,
    ahead: int | None = None,
) -> Iterator[Found]:
    """Yield work(key, its seed) for each key, in the keys' order.

    Whoever stops asking leaves nothing behind: what nobody has begun is never begun.

    Args:
        work: a function that workers can import; it is given the key and its seed.
        keys: of the pieces, each only once.
        seed: of the whole.
        on: who does the work, this process if nobody is named.
        ahead: pieces that are begun before the first of them is asked for, at most.
            Memory does not grow with the number of keys.
    """
    if on is None:
        for key in keys:
            yield work(key, seed_of_piece(seed, key))
        return
    left, bundle = iter(keys), PieceBundle(work, seed)
    begun: deque[tuple[int, Future[tuple[list[Found], float]]]] = deque()
    together, under_way = 1, 0
    # One of ours says how many there are; so does the library's, in its own way.
    workers: int = getattr(on, "count", getattr(on, "_max_workers", 1))
    try:
        while True:
            while len(begun) < EACH * workers:
                room = together if ahead is None else min(together, ahead - under_way)
                some = list(islice(left, max(room, 0)))
                if not some:
                    break
                begun.append((len(some), on.submit(bundle, some)))
                under_way += len(some)
            if not begun:
                return
            many, first = begun.popleft()
            found, seconds = first.result()
            under_way -= many
            fitting = int(WORTH_SENDING * many / max(seconds, 1e-9))
            together = max(1, min(fitting, 2 * together, MOST_TOGETHER))
            yield from found
    finally:
        for _, one in begun:
            one.cancel()


@dataclass(frozen=True, eq=False)
class PieceBundle(Generic[Key, Found]):
    """Pieces that one worker does one after the other, and how long they took."""

    work: Callable[[Key, int], Found]
    seed: int

    def __call__(self, keys: Sequence[Key]) -> tuple[list[Found], float]:
        began = monotonic()
        found: list[Any] = [
            self.work(key, seed_of_piece(self.seed, key)) for key in keys
        ]
        return found, monotonic() - began
