"""A TCP proxy that is as bad as a network can be, on command.

It forwards bytes between callers and one target. `up` is the way from caller to
target, `down` the way back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from random import Random

from veilsum.consortium.consortium import Address

HOST = "127.0.0.1"
CHUNK = 1 << 16


class Proxy:
    """Forwards to a target; `delay`, `cut`, `stall` and `heal` make trouble.

    Attributes:
        delay: seconds every byte is on its way.
        batch: seconds, drawn up to this for each connection and way, for which bytes
            are collected before they go on together.
        chunk: bytes taken at a time.
        pause: seconds between two of these, for a slow reader.
        calls: how many connections have been made.
        carried: bytes forwarded, by way.
    """

    def __init__(self, target=None, *, port=0, batch=0.0, draws=None):
        self.target, self._port = target, port
        self.batch, self._draws = batch, draws or Random(0)
        self.delay, self.pause, self.chunk = 0.0, 0.0, CHUNK
        self.calls, self.carried = 0, {"up": 0, "down": 0}
        self.seen = {"up": bytearray(), "down": bytearray()}
        self._flows = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._pairs, self._tasks = set(), set()
        self.heal()

    async def open(self):
        self._server = await asyncio.start_server(self._called, HOST, self._port)
        self.address = Address(HOST, self._server.sockets[0].getsockname()[1])

    async def close(self):
        self._server.close()
        self.cut()
        self.heal()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0.01)  # what was broken off is closed a moment later

    def cut(self):
        """Break every connection, without a word."""
        for pair in list(self._pairs):
            for writer in pair:
                writer.transport.abort()

    def stall(self, *ways):
        """Stop forwarding, and close nothing: the ends look alive to each other."""
        for way in ways or ("up", "down"):
            self._flows[way].clear()

    def heal(self):
        for flow in self._flows.values():
            flow.set()

    def _called(self, reader, writer):
        self.calls += 1
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader, writer):
        pair = (writer,)
        try:
            far = await asyncio.open_connection(HOST, self.target)
            pair = (writer, far[1])
            self._pairs.add(pair)
            for one in (reader, far[0]):
                one._limit = self.chunk  # what is not carried yet is left to its sender
            await self._forward(
                self._pump(reader, far[1], "up"), self._pump(far[0], writer, "down")
            )
        except OSError:
            pass
        finally:
            self._pairs.discard(pair)
            for one in pair:
                one.transport.abort()

    async def _forward(self, *pumps):
        """Carry both ways until one of them ends."""
        tasks = [asyncio.ensure_future(pump) for pump in pumps]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, reader, writer, way):
        loop, late = asyncio.get_running_loop(), deque()
        batch = self._draws.uniform(0, self.batch)

        def deliver():
            data = b"".join(late) if batch else late.popleft()
            if batch:
                late.clear()
            if not writer.transport.is_closing():
                writer.write(data)

        while data := await reader.read(self.chunk):
            await self._flows[way].wait()
            self.carried[way] += len(data)
            self.seen[way] += data
            late.append(data)
            if batch:
                if len(late) == 1:
                    loop.call_later(batch, deliver)
            elif self.delay:
                loop.call_later(self.delay, deliver)
            else:
                deliver()
                await writer.drain()
            await asyncio.sleep(self.pause)


@asynccontextmanager
async def proxies(*targets):
    """Open a proxy for each target port; None if it is not known yet."""
    made = [Proxy(target) for target in targets]
    try:
        for one in made:
            await one.open()
        yield made
    finally:
        for one in made:
            await one.close()
