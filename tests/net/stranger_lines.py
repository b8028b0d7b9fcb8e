"""A stranger's connections: TLS, WebSocket, hellos; one for each link.

Written from docs/reference/wire.md and from nothing else: no module of veilsum is
imported here. Only the designated end of a link calls, and of two calls the later
counts. A hello that is not as expected ends the stranger's part, for a test to see.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from contextlib import asynccontextmanager, suppress

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from net.stranger_wire import WireError

PATH = "/veilsum"
VERSION = "stranger 1"
# Seconds for a hello, and for the last frames before a connection is closed.
HELLO, LAST = 10.0, 1.0
# How a connection may end without anybody having done wrong, besides 1000 and 1001.
REPLACED = {4006, 4007}


class Lines:
    """The connections of a party.

    Attributes:
        party: is told of what comes up, arrives, and ends.
        key_file: its private key, with the certificate beside it.
    """

    def __init__(self, party, key_file):
        self.party, self.agreed, self.me = party, party.agreed, party.me
        self.files = (key_file.with_suffix(".crt"), key_file)
        pems = self.agreed.certificates.items()
        self.owners = {ssl.PEM_cert_to_DER_cert(pem): name for name, pem in pems}
        self.sockets = {}
        sizes = 32 * len(party.private.values)
        self.options = {
            "compression": None,
            "max_size": 7 + 2**20 + 2**10 * len(self.agreed.names) + sizes,
            "ping_interval": 10,
            "ping_timeout": 20,
            "open_timeout": 10,
        }

    @asynccontextmanager
    async def open(self):
        """Be there for callers, call others; at the end send what is left to send."""
        host, port = self.agreed.addresses[self.me].rsplit(":", 1)
        place = self.agreed.names.index
        callees = [name for name in self.party.near if place(self.me) < place(name)]
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        door = {"ssl": context, "process_request": _on_the_path, **self.options}
        async with (
            serve(self._answer, host, int(port), **door),
            _beside(self._repeat(), *map(self._call, callees)),
        ):
            try:
                yield
            finally:
                await self._send_the_rest()

    async def _send_the_rest(self):
        for queue in list(self.party.lines.values()):
            with suppress(TimeoutError):
                await asyncio.wait_for(queue.join(), LAST)

    async def _repeat(self):
        """Say what is held here, again and again."""
        while True:
            await asyncio.sleep(self.party.policy["resend"])
            for name in self.party.near:
                self.party.status(name, True)

    # Connecting

    def _context(self, side):
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.load_cert_chain(*self.files)
        context.load_verify_locations(cadata="".join(self.agreed.certificates.values()))
        if side == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
        return context

    async def _answer(self, socket):
        await self._watched(self._session(socket, self._shown(socket)))

    async def _call(self, name):
        await self._watched(self._calls(name))

    async def _watched(self, work):
        """Do some work; the party hears of what goes wrong in it."""
        try:
            await work
        except Exception as error:
            self.party.fail(error)

    async def _calls(self, name):
        """Call a neighbour until it answers, and again when a connection ends."""
        uri = f"wss://{self.agreed.addresses[name]}{PATH}"
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        bound, longest = 0.2, min(15.0, self.party.policy["deadline"] / 4)
        while True:
            with suppress(OSError, TimeoutError):
                async with connect(
                    uri, ssl=context, proxy=None, **self.options
                ) as socket:
                    if self._shown(socket) != name:
                        raise WireError(f"somebody else answers for {name}")
                    await self._session(socket, name)
            await asyncio.sleep(random.uniform(0, bound))
            bound = min(longest, 2 * bound)

    def _shown(self, socket):
        """Whose certificate the other end has shown."""
        found = socket.transport.get_extra_info("ssl_object")
        name = self.owners[found.getpeercert(binary_form=True)]
        if name not in self.party.near:
            raise WireError(f"{name} is no neighbour")
        return name

    # Speaking

    async def _session(self, socket, name):
        """Exchange hellos, then frames, until the connection ends."""
        try:
            await socket.send(self._hello(name))
            async with asyncio.timeout(HELLO):
                self._check(name, json.loads(await socket.recv())["hello"])
            await self._replace(socket, name)
            await self._exchange(socket, name)
        except ConnectionClosed as closed:
            code = None if closed.rcvd is None else closed.rcvd.code
            if code is not None and code >= 4000 and code not in REPLACED:
                raise WireError(f"{name} closed with {closed.rcvd}") from None

    async def _replace(self, socket, name):
        """Let a connection take the place of the one before it, if there is one."""
        before, self.sockets[name] = self.sockets.get(name), socket
        if before is not None:
            await before.close(4006, "a newer connection")

    async def _exchange(self, socket, name):
        queue = asyncio.Queue()
        try:
            async with _beside(_write(socket, queue)):
                self.party.up(name, queue)
                async for message in socket:
                    self.party.hear(name, message)
        finally:
            self.party.down(name, queue)
            _forget(queue)

    def _agreed(self):
        """What both ends of every link say alike."""
        return {
            "protocol": 5,
            "run": self.agreed["run"],
            "plan": self.party.plan.hex(),
            "consortium": self.agreed.digest,
            "sections": self.agreed.sections,
        }

    def _hello(self, name):
        own = {"name": self.me, "to": name, "time": time.time(), "version": VERSION}
        return json.dumps({"hello": {**self._agreed(), **own}})

    def _check(self, name, said):
        """Refuse a hello that is not the one a neighbour says."""
        expected = {**self._agreed(), "name": name, "to": self.me}
        wrong = [key for key, value in expected.items() if said[key] != value]
        if wrong or abs(said["time"] - time.time()) > 3600 or not said["version"]:
            raise WireError(f"a hello of {name}: {wrong} in {said}")


def _on_the_path(socket, request):
    return None if request.path == PATH else socket.respond(404, "")


async def _write(socket, queue):
    while True:
        message = await queue.get()
        try:
            await socket.send(message)
        finally:
            queue.task_done()


def _forget(queue):
    """Let nobody wait for what a connection that has ended did not send."""
    while not queue.empty():
        queue.get_nowait()
        queue.task_done()


@asynccontextmanager
async def _beside(*work):
    """Do some work beside a block, and end it with the block."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
