"""An event loop whose clock stands still while somebody has something to do.

Tests of the network are about silence: a deadline, a new call, a sign of life. On a
busy machine seconds pass between two lines of code, and nobody was silent. Here only
waiting counts from which nothing comes: all parties of a test live in one loop, so when
nothing happens everybody waits. Deadlines keep their meaning, however slow the machine
is, and a test may have short ones.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from contextlib import contextmanager

# What a wait counts at most that something ended: the rest may be this machine's.
MOMENT = 0.01
# While threads work, the loop looks for their answers so often, and its clock creeps.
LOOK, CREEP = 0.005, 0.00025


class _Waits(selectors.DefaultSelector):
    """Counts the seconds in which nothing happened."""

    idle, working = 0.0, 0

    def select(self, timeout=None):
        if self.working:
            timeout = LOOK if timeout is None else min(timeout, LOOK)
        began = time.monotonic()
        found = super().select(timeout)
        waited = time.monotonic() - began
        if self.working:
            waited = min(waited, CREEP)
        elif found:
            waited = min(waited, MOMENT)
        # Whoever is woken up late has not waited for longer.
        self.idle += waited if timeout is None else min(waited, max(timeout, 0.0))
        return found


class IdleClock(asyncio.SelectorEventLoop):
    """Tells the seconds that it was idle for."""

    def __init__(self):
        self._waits = _Waits()
        super().__init__(self._waits)

    def time(self):
        return self._waits.idle

    @contextmanager
    def elsewhere(self):
        """Let somebody work in a thread: the loop waits for it, nobody is silent."""
        self._waits.working += 1
        try:
            yield
        finally:
            self._waits.working -= 1

    @contextmanager
    def back(self):
        """Let the one who works in a thread wait in this loop meanwhile."""
        self._waits.working -= 1
        try:
            yield
        finally:
            self._waits.working += 1

    async def getaddrinfo(self, *given, **options):
        with self.elsewhere():
            return await super().getaddrinfo(*given, **options)


def patiently(main, *, debug=None):
    """Run a coroutine to its end by an idle clock; return what it does."""
    with asyncio.Runner(loop_factory=IdleClock, debug=debug) as runner:
        return runner.run(main)
