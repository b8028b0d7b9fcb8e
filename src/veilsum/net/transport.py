"""A party's connections with its neighbours: one WebSocket per edge, mutual TLS 1.3.

Whoever the consortium says calls, and calls again when a connection breaks; should it
not come, the other end calls as well. Both ends say hello before anything else, and
what they say must fit the certificates. Nothing here can be told to do without TLS.

Frames may be lost whenever a connection breaks. The protocol above asks for what it
lacks, so that nothing is kept for somebody who is not there.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from veilsum.errors import InvalidInputError
from veilsum.net.hello import BYE, PROTOCOL, Close, Hello
from veilsum.net.limits import Limits
from veilsum.net.meeting import Meetings
from veilsum.net.peer import Backoff, Peer
from veilsum.net.reasons import call_failure, failure
from veilsum.net.refusals import LOG, Refusals
from veilsum.net.sockets import UNANSWERED, Answered, Door, dial
from veilsum.net.trust import check_member, client_context, server_context
from veilsum.numbers.secrets import Secret

if TYPE_CHECKING:
    from veilsum.agreement.consortium import Address, Consortium
    from veilsum.net.identity import Identity

Hear = Callable[[str, bytes], None]
Tell = Callable[[str], None]

DEFAULT_LIMITS = Limits()


class Network(Secret):
    """The way to all neighbours of one party, in one run.

    `open` first, `close` last. `hear`, `met` and `left` are called in the event loop.

    Args:
        identity: this party's key and certificate.
        consortium: who else there is.
        plan: the digest of the plan.
        hear: takes a neighbour's frame; raises PeerProtocolError to be rid of it.
        met: told whenever a connection with a neighbour is up.
        left: told when a neighbour says that it has finished.
        limits: sizes and waits.
        listen: where to listen, if it is not where the others call.
        clock: the time of day.
    """

    def __init__(
        self,
        identity: Identity,
        consortium: Consortium,
        *,
        plan: bytes,
        hear: Hear,
        met: Tell,
        left: Tell,
        limits: Limits = DEFAULT_LIMITS,
        listen: Address | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_member(identity, consortium.certificates)
        self._identity, self._consortium, self._limits = identity, consortium, limits
        self._listen = listen or consortium.member(identity.name).address
        self._refusals = Refusals(limits)
        neighbours = consortium.topology.neighbours(identity.name)
        self._peers = {name: self._peer(name) for name in neighbours}
        self._meetings = Meetings(
            own=own_hello(identity.name, consortium, plan),
            peers=self._peers,
            certificates=consortium.certificates,
            limits=limits,
            refusals=self._refusals,
            clock=clock,
            hear=hear,
            met=met,
            left=left,
        )
        self._door: Door | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.unsent: Counter[str] = Counter()

    def _peer(self, name: str) -> Peer:
        agreed, me = self._consortium, self._identity.name
        address = agreed.member(name).address
        return Peer(name, address, designated=agreed.dials(me, name))

    # Opening and closing

    async def open(self) -> None:
        """Listen where the others call, and begin to call those who wait for it.

        Raises:
            InvalidInputError: the address cannot be listened at.
        """
        if self._listen is not None:
            await self._open_door(self._listen)
        certificates = self._consortium.certificates
        call = partial(self._call, client_context(self._identity, certificates))
        for peer in self._peers.values():
            if peer.address is not None:
                self._start(self._keep_calling(peer, partial(call, peer, peer.address)))

    async def _open_door(self, address: Address) -> None:
        context = server_context(self._identity, self._consortium.certificates)
        door = Door(context, self._limits, self._turned_away)
        try:
            await door.open(address, self._answer)
        except OSError as error:
            raise cannot_listen(address, error) from None
        self._door = door
        LOG.info("listening", extra={"address": str(address)})

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that this party listens at."""
        return () if self._door is None else self._door.ports

    async def close(self) -> None:
        """End all connections; nothing of this network is left afterwards."""
        self._closing = True
        links = [peer.link for peer in self._peers.values() if peer.link is not None]
        parting = [link.close(Close.GOING, "this party has left") for link in links]
        if self._door is not None:
            parting.append(self._door.close())
        await asyncio.gather(*parting)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Sending

    def send(self, to: str, frame: bytes) -> None:
        """Send a frame, or drop and count it if there is no way or no room."""
        link = self._peers[to].link
        if link is None or not link.send(frame):
            self.unsent[to] += 1

    def say_bye(self) -> None:
        """Tell every neighbour, now or when it comes, that this party has finished."""
        self._meetings.finished = True
        for peer in self._peers.values():
            if peer.link is not None:
                peer.link.send(BYE)

    async def drain(self, seconds: float) -> None:
        """Wait until nothing waits for a neighbour who reads slowly, at most so long.

        What the connections themselves still hold is sent before they close.
        """
        links = [peer.link for peer in self._peers.values() if peer.link is not None]
        writers = [link.writer for link in links if link.writer is not None]
        if writers:
            await asyncio.wait(writers, timeout=seconds)

    @property
    def pending(self) -> int:
        """Bytes that wait for neighbours who read slowly."""
        links = [peer.link for peer in self._peers.values()]
        return sum(link.pending for link in links if link is not None and link.alive)

    # Saying how things are

    def condition(self, name: str) -> str:
        """Say in one clause how things are with a neighbour."""
        return self._peers[name].condition()

    def differences(self) -> Mapping[str, tuple[str, ...]]:
        """Return who holds another consortium file or plan, and where they differ."""
        peers = self._peers.values()
        return {peer.name: peer.sections for peer in peers if peer.sections}

    # Calling and answering

    async def _keep_calling(
        self, peer: Peer, call: Callable[[], Coroutine[Any, Any, float]]
    ) -> None:
        """Call a neighbour whenever there is no connection with it."""
        backoff = Backoff(self._limits)
        while not self._closing:
            await peer.lonely(0 if peer.designated else self._limits.fallback)
            lasted = await call()
            if peer.yielded:
                return
            if lasted >= self._limits.settled:
                backoff.settled()
            await asyncio.sleep(backoff.slow() if peer.refused else backoff.next())

    async def _call(
        self, context: ssl.SSLContext, peer: Peer, address: Address
    ) -> float:
        """Call once, and serve the connection to its end; say how long that was."""
        try:
            connection = await dial(address, context, self._limits)
        except UNANSWERED as error:
            why = call_failure(error, str(address))
            if why != peer.trouble:
                LOG.info("call failed", extra={"party": peer.name, "reason": why})
            peer.fail(why, refused=isinstance(error, ssl.SSLError))
            return 0.0
        try:
            return await self._meetings.hold(connection, peer)
        finally:
            connection.transport.abort()

    async def _answer(self, connection: Answered) -> None:
        """Serve a connection that somebody else made."""
        await self._meetings.hold(connection, None)

    def _turned_away(self, address: str, error: BaseException) -> None:
        """Note a caller that did not get through TLS: nobody knows its name."""
        about = {"address": address, "reason": failure(error)}
        self._refusals.note(address.rpartition(":")[0], "caller refused", **about)


def own_hello(name: str, agreed: Consortium, plan: bytes) -> Hello:
    """Return what a party says, but for whom and when; no plan: it only looks."""
    return Hello(
        protocol=PROTOCOL,
        name=name,
        to=name,
        run=agreed.run,
        plan=plan.hex(),
        consortium=agreed.digest.hex(),
        sections=agreed.section_digests,
        time=0.0,
        version=version("veilsum"),
    )


def cannot_listen(address: Address, error: OSError) -> InvalidInputError:
    """Return why an address cannot be listened at, and what to do."""
    anywhere = "[::]" if ":" in address.host else "0.0.0.0"
    fixes = {
        errno.EADDRINUSE: "another program listens there: end it, or listen elsewhere "
        "with --listen and have the port forwarded",
        errno.EADDRNOTAVAIL: "this machine has no such address: say where to listen "
        f"instead, such as --listen {anywhere}:{address.port}",
        errno.EACCES: "this user may not listen at that port: listen at one above 1023 "
        "with --listen and have the port forwarded",
    }
    why = "no such host" if error.errno is None or error.errno < 0 else error.strerror
    fix = fixes.get(error.errno or 0, f"{why}: say where to listen with --listen")
    return InvalidInputError(f"cannot listen at {address}: {fix}")
