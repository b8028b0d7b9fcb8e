"""Independent pieces of work, spread over workers, the same however they are split.

A piece has a key, and its chance comes from a seed and that key alone: results do not
depend on how many workers there are, or on which of them did what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from functools import partial
from hashlib import blake2b
from multiprocessing import get_context
from signal import SIG_IGN, SIGINT, signal
from socket import create_connection
from threading import Lock
from typing import Any, TypeVar

from veilsum.errors import InvalidInputError, installing

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


# How often a piece is begun again whose worker ended without a word.
RETRIES = 3


def workers_on(where: str) -> Executor:
    """Return who does the work: processes of this computer, or a cluster of Ray's.

    Args:
        where: `processes:N` for N of this computer; `threads:N` for N of this process;
            `ray:N` for a cluster of N workers that is started here and ends with this;
            `ray:HOST:PORT` for one that this computer is part of, and
            `ray://HOST:PORT` for one that it is a client of.

    Raises:
        InvalidInputError: it is none of these, or cannot be reached.
    """
    kind, _, rest = where.partition(":")
    count = int(rest) if rest.isascii() and rest.isdigit() and len(rest) < 6 else 0
    if kind == "processes" and count:
        return Processes(count)
    if kind == "threads" and count:
        return ThreadPoolExecutor(count)
    if kind == "ray" and rest:
        return RayWorkers(where if rest.startswith("//") else rest, count)
    raise InvalidInputError(
        "work is done on processes:N, threads:N, ray:N, ray:HOST:PORT or "
        f"ray://HOST:PORT, found {where!r}"
    )


class Processes(Executor):
    """Processes that start as new programs, with nothing of this one's memory.

    What a worker was about when it ended without a word (killed, out of memory) is done
    again by others. Ctrl-C is for whoever waits for them: a terminal tells all
    processes, and each of these would die over its work with a page of its own.
    """

    def __init__(self, count: int) -> None:
        self._count, self._lock, self._closed = count, Lock(), False
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._count,
            mp_context=get_context("spawn"),
            initializer=signal,
            initargs=(SIGINT, SIG_IGN),
        )

    def submit(
        self, fn: Callable[..., Found], /, *args: Any, **kwargs: Any
    ) -> Future[Found]:
        """Begin one piece."""
        told: Future[Found] = Future()
        self._begin(told, partial(fn, *args, **kwargs), RETRIES)
        return told

    def _begin(
        self, told: Future[Found], work: Callable[[], Found], again: int
    ) -> None:
        with self._lock:
            pool = self._pool
            try:
                begun = pool.submit(work)
            except BrokenExecutor:  # it broke over another piece, just before
                pool = self._renewed(pool)
                begun = pool.submit(work)

        def ended(one: Future[Found]) -> None:
            if one.cancelled() or told.cancelled():
                told.cancel()
                return
            error = one.exception()
            if isinstance(error, BrokenExecutor) and again and not self._closed:
                with self._lock:
                    self._renewed(pool)
                self._begin(told, work, again - 1)
            elif error is not None:
                told.set_exception(error)
            elif told.set_running_or_notify_cancel():
                told.set_result(one.result())

        begun.add_done_callback(ended)

    def _renewed(self, broken: ProcessPoolExecutor) -> ProcessPoolExecutor:
        """Return new processes, once for all pieces that the old ones left."""
        if self._pool is broken:
            broken.shutdown(wait=False, cancel_futures=True)
            self._pool = self._started()
        return self._pool

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the library
        """End them."""
        self._closed = True
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)


class RayWorkers(Executor):
    """Workers of a Ray cluster: they need this package, and whatever the work imports.

    Ray does a piece again whose worker ended without a word.
    """

    def __init__(self, address: str, count: int = 0) -> None:
        try:
            import ray
        except ImportError:
            raise InvalidInputError(
                f"a Ray cluster needs Ray: {installing('ray')}"
            ) from None
        where: dict[str, Any] = {"address": address}
        if count:
            where = {"num_cpus": count, "include_dashboard": False}
        else:
            _check_answers(address)  # Ray itself would try for minutes
        try:
            # Of its own: another part of this program may have a cluster already.
            self._context = ray.init(
                **where, log_to_driver=False, logging_level="ERROR"
            )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            first = str(error).strip().splitlines()[0]
            raise InvalidInputError(
                f"the Ray cluster at {address} cannot be reached: {first}"
            ) from None
        self._ray, self._address = ray, address
        self._begin = ray.remote(max_retries=RETRIES)(_carry_out).remote

    def submit(
        self, fn: Callable[..., Found], /, *args: Any, **kwargs: Any
    ) -> Future[Found]:
        """Begin one piece."""
        told: Future[Found] = Future()
        try:
            begun = self._begin(partial(fn, *args, **kwargs)).future()
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            told.set_exception(self._gone(error))
            return told

        def ended(one: Future[Found]) -> None:
            error = one.exception()
            if told.cancelled() or not told.set_running_or_notify_cancel():
                return
            if error is None:
                told.set_result(one.result())
            else:
                told.set_exception(self._named(error))

        begun.add_done_callback(ended)
        return told

    def _named(self, error: BaseException) -> BaseException:
        """Return what the work raised itself, or that the cluster is gone."""
        if isinstance(error, self._ray.exceptions.RayTaskError):
            cause: BaseException = error.cause
            return cause
        return self._gone(error)

    def _gone(self, error: BaseException) -> BrokenExecutor:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return BrokenExecutor(f"the Ray cluster at {self._address} is gone: {lines[0]}")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the library
        """Leave the cluster; one that was started here ends."""
        del wait, cancel_futures
        self._context.disconnect()


def _check_answers(address: str) -> None:
    """Refuse the address of a cluster that nobody answers at."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the Ray cluster at {address} cannot be reached: {error}"
        ) from None


def _carry_out(work: Callable[[], Found]) -> Found:
    return work()
