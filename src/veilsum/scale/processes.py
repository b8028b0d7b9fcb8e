"""Processes of this computer, for work that one of its processors would be long at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
)
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from queue import SimpleQueue
from signal import SIG_IGN, SIGINT, signal
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from veilsum.scale import ONE_THREAD

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Found = TypeVar("Found")

# How often a piece is begun again whose worker ended without a word.
RETRIES = 3
# What to do about a process that never came to work.
AS_IT_STARTED = (
    'ended as it started; a script needs if __name__ == "__main__": around what starts '
    "processes"
)
# Seconds for a worker that is told to go; then it is ended.
GRACE = 5.0


class WorkerProcesses(Executor):
    """Processes that start as new programs, with nothing of this one's memory.

    What a worker was about when it ended without a word (killed, out of memory) is done
    again. A function that is called many times travels to each worker once.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self._lock = Lock()
        self._minders: list[Thread] = []
        self._hands: set[_WorkerProcess] = set()
        self._killed = False

    def submit(
        self, fn: Callable[..., Found], /, *args: Any, **kwargs: Any
    ) -> Future[Found]:
        told: Future[Found] = Future()
        self._jobs.put((told, fn, args, kwargs))
        if len(self._minders) < self.count:
            self._minders.append(Thread(target=self._mind, daemon=True))
            self._minders[-1].start()
        return told

    def _mind(self) -> None:
        """Keep one worker busy, and another in its place if it ends."""
        hand: _WorkerProcess | None = None
        while (job := self._jobs.get()) is not None:
            told, fn, args, kwargs = job
            if not told.set_running_or_notify_cancel():
                continue
            for _ in range(1 + RETRIES):
                try:
                    hand = hand or self._hired()
                    ended, found = hand.ask(fn, args, kwargs)
                except (EOFError, OSError):
                    self._dismissed(hand)
                    hand = None
                    if self._killed:
                        break
                except Exception as error:
                    told.set_exception(error)
                    break
                else:
                    (told.set_result if ended else told.set_exception)(found)
                    break
            if not told.done():
                told.set_exception(
                    BrokenExecutor(
                        "a process ended without a word; if memory ran out, fewer of "
                        "them need less"
                    )
                )
        self._dismissed(hand)

    def _hired(self) -> _WorkerProcess:
        with self._lock:
            if self._killed:
                raise EOFError
            hand = _WorkerProcess()
            self._hands.add(hand)
        try:
            hand.wait_for()
        except BrokenExecutor:
            self._dismissed(hand)
            raise
        return hand

    def _dismissed(self, hand: _WorkerProcess | None) -> None:
        if hand is not None:
            hand.end()
            self._hands.discard(hand)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """End them; at once if something went wrong, or somebody pressed Ctrl-C."""
        del error, trace
        if kind is not None:
            self.kill()
        self.shutdown(wait=True)

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            for hand in list(self._hands):
                hand.process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in the library
        if cancel_futures or self._killed:
            while not self._jobs.empty():
                if (job := self._jobs.get()) is not None:
                    job[0].cancel()
        for _ in self._minders:
            self._jobs.put(None)
        for one in self._minders if wait else ():
            one.join()


class _WorkerProcess:
    """One process, and the line to it."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(
            target=_lend_worker_process, args=(other,), daemon=True
        )
        with set_for_children(ONE_THREAD):
            self.process.start()
        other.close()
        self._sent: Any = None

    def wait_for(self) -> None:
        """Return once it can work.

        Raises:
            BrokenExecutor: it ended before that, as it would again.
        """
        try:
            self.line.recv()
        except (EOFError, OSError):
            raise BrokenExecutor(f"a process {AS_IT_STARTED}") from None

    def ask(self, fn: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """Return whether a call came to an end, and what came of it."""
        self.line.send((None if fn is self._sent else fn, args, kwargs))
        self._sent = fn
        found: tuple[bool, Any] = self.line.recv()
        return found

    def end(self) -> None:
        """Let it go; end it if it does not."""
        with suppress(OSError):
            self.line.close()
        self.process.join(GRACE)
        self.process.kill()
        self.process.join()


def _lend_worker_process(line: Connection) -> None:
    """Work for whoever is at the other end of a line, until it is closed.

    Ctrl-C is for whoever waits: a terminal tells all processes, and each of these would
    die over its work with a page of its own.
    """
    signal(SIGINT, SIG_IGN)
    line.send("here")
    known: Callable[..., Any] = str
    # Closed, or whoever held the other end is gone.
    with suppress(EOFError, OSError):
        while True:
            fn, args, kwargs = line.recv()
            known = fn or known
            answer = worker_call_outcome(known, args, kwargs)
            try:
                line.send(answer)
            except OSError:
                raise
            except Exception as error:
                line.send((False, TypeError(f"the result cannot travel: {error}")))


def worker_call_outcome(
    fn: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[bool, Any]:
    """Return whether a call came to an end, and what came of it, or the error."""
    try:
        return True, fn(*args, **kwargs)
    except Exception as error:
        return False, error


@contextmanager
def set_for_children(settings: dict[str, str]) -> Iterator[None]:
    """Have processes that start now find these in their environment, if not others."""
    new = {key: one for key, one in settings.items() if key not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for key in new:
            os.environ.pop(key, None)
