"""One connection with a neighbour: what waits for it, and whether it is alive."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from veilsum.net.hello import Close, close_reason
from veilsum.net.limits import Limits
from veilsum.net.sockets import ConnectionClosed, Wire, broadcast
from veilsum.numbers.secrets import Secret

Take: TypeAlias = "Callable[[Link, bytes | str], None]"


class Link(Secret):
    """A connection that is up.

    Frames go straight to the connection while it takes them. Then they wait here, up
    to a number of bytes, and one task gives them on as the other end reads.

    Attributes:
        name: who is at the other end.
        dialled: whether this party made the call.
        since: when it came up, by the event loop's clock.
        said_at: the time in the neighbour's hello.
        ended: why the connection is over, for a person; empty while it is not.
        code: of the close frame that the other end sent.
        writer: the task that passes on what waits, while something does.
    """

    def __init__(
        self, name: str, connection: Wire, limits: Limits, *, dialled: bool
    ) -> None:
        self.name, self.dialled = name, dialled
        self.connection, self._limits = connection, limits
        self._loop = asyncio.get_running_loop()
        self.since = self._loop.time()
        self.said_at, self.said_bye = 0.0, False
        self.ended, self.code = "", 0
        self._queue: deque[bytes | str] = deque()
        self._held = 0
        self.writer: asyncio.Task[None] | None = None
        self._replacing: asyncio.Task[None] | None = None
        self._watch = self._loop.call_later(limits.silence, self._look)

    @property
    def alive(self) -> bool:
        """Whether frames can still go this way."""
        connection = self.connection
        is_open = connection.is_open and not connection.transport.is_closing()
        return is_open and not self.ended

    @property
    def pending(self) -> int:
        """Bytes that the connection has not passed on yet."""
        return self._held + self.connection.buffered

    def send(self, item: bytes | str) -> bool:
        """Pass a frame or a text on, now or when there is room; say whether it was."""
        if not self.alive:
            return False
        connection, limits = self.connection, self._limits
        if not self._held and connection.buffered < limits.write_bytes:
            broadcast((connection,), item)
            return True
        return self._enqueue(item)

    def _enqueue(self, item: bytes | str) -> bool:
        # Whatever its size, one frame may always wait.
        if self._held and self._held + len(item) > self._limits.queue_bytes:
            return False
        self._queue.append(item)
        self._held += len(item)
        if self.writer is None:
            self.writer = self._loop.create_task(self._write())
        return True

    async def _write(self) -> None:
        """Give what waits to the connection, as fast as that takes it."""
        try:
            while self._queue:
                item = self._queue.popleft()
                await self.connection.send(item)
                self._held -= len(item)
        except ConnectionClosed:
            self._queue.clear()
            self._held = 0
        finally:
            self.writer = None

    def _look(self) -> None:
        """Cut a connection that has shown no sign of life."""
        left = self.connection.heard_at + self._limits.silence - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(left, self._look)
            return
        self.cut(f"nothing was heard of it for {self._limits.silence:g} s")

    def cut(self, why: str) -> None:
        """End the connection at once, without a word to the other end."""
        self.ended = self.ended or why
        self.connection.transport.abort()

    async def close(self, code: Close, why: str) -> None:
        """End the connection, and tell the other end why."""
        self.ended = self.ended or why
        await self.connection.close(code, close_reason(why))

    def replace(self) -> None:
        """Close the connection in favour of a newer one; nobody waits for it."""
        why = "a newer connection took its place"
        self.ended = self.ended or why
        self._replacing = self._loop.create_task(self.close(Close.REPLACED, why))

    async def gone(self) -> None:
        """Stop everything that belongs to a connection that has ended."""
        self._watch.cancel()
        if self.writer is not None:
            self.writer.cancel()
        tasks = [one for one in (self.writer, self._replacing) if one is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self, take: Take) -> None:
        """Hand over all that comes, until the connection ends.

        Frames may overtake texts, and messages in pieces. What `take` raises ends it.
        """
        failed: asyncio.Future[None] = self._loop.create_future()
        self.connection.take = partial(self._take_now, take, failed)
        rest = self._loop.create_task(self._read_rest(take))
        try:
            await asyncio.wait({rest, failed}, return_when=asyncio.FIRST_COMPLETED)
            await (failed if failed.done() else rest)
        finally:
            self.connection.take = None
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)

    def _take_now(self, take: Take, failed: asyncio.Future[None], frame: bytes) -> None:
        """Hand over a frame, unless it is over."""
        if self.ended or failed.done():
            return
        try:
            take(self, frame)
        except Exception as error:
            failed.set_exception(error)

    async def _read_rest(self, take: Take) -> None:
        """Hand over what does not come in one frame, and note the end."""
        receive = self.connection.recv
        try:
            while not self.ended:
                take(self, await receive())
        except ConnectionClosed as error:
            self.code = 0 if error.rcvd is None else error.rcvd.code
            self.ended = self.ended or last_words(error)


def last_words(error: ConnectionClosed) -> str:
    """Say how the other end ended a connection, if it did."""
    if error.rcvd is None:
        return "the connection broke"
    found = error.rcvd.code
    if found in {Close.DONE, Close.GOING}:
        return "it closed the connection"
    # The words are the other end's: they stay on one line.
    words = "".join(c if c.isprintable() else "?" for c in error.rcvd.reason)
    return f"it closed the connection ({found}: {words or 'no reason given'})"
