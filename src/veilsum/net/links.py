"""A party's connections with its neighbours: one WebSocket per edge, mutual TLS 1.3.

Whoever the consortium says calls, and calls again when a connection breaks; should it
not come, the other end calls as well. TLS has shown which member is at the other end.
Both say hello before anything else, and what they say must fit the certificates; then
the connection becomes the one with that neighbour, or is closed with the reason.
Nothing here can be told to do without TLS.

Frames may be lost whenever a connection breaks. The protocol above asks for what it
lacks, so that nothing is kept for somebody who is not there.

Read from the top: one connection (`NetworkLink`), the way to one neighbour
(`NetworkPeer`), one meeting, all of them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from random import uniform
from typing import TYPE_CHECKING, Any, TypeAlias

from veilsum import __version__
from veilsum.errors import NotReadyError, PeerProtocolError
from veilsum.net.entrance import caller_address
from veilsum.net.handshake import (
    BYE,
    DISAGREEMENTS,
    PROTOCOL,
    REFUSALS,
    ConnectionClose,
    ConnectionLimits,
    HandshakeRefusal,
    Hello,
    connection_close_reason,
    encode_hello,
    hello_to_peer,
    is_bye_frame,
    peer_clock_skew,
    read_hello,
    refusal_of_hello,
)
from veilsum.net.refusals import ConnectionRefusalLog, caller_origin
from veilsum.net.sockets import (
    UNANSWERED,
    AnsweredSocket,
    ConnectionClosed,
    SocketDoor,
    SocketWire,
    dial_peer,
    peer_certificate,
    socket_call_failure,
    socket_connection_failure,
)
from veilsum.net.trust import (
    certificate_owner,
    check_certified_member,
    tls_client_context,
    tls_server_context,
)
from veilsum.net.tunnel import (
    RelayTunnels,
    TunnelPassage,
    answer_through_relay,
    dial_through_relay,
)
from veilsum.numbers.secrets import Secret

if TYPE_CHECKING:
    from veilsum.consortium.addresses import Address
    from veilsum.consortium.consortium import Consortium
    from veilsum.net.identity import Identity


LOG = logging.getLogger("veilsum.net")
Take: TypeAlias = "Callable[[NetworkLink, bytes | str], None]"


class NetworkLink(Secret):
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
        self,
        name: str,
        connection: SocketWire,
        limits: ConnectionLimits,
        *,
        dialled: bool,
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
            connection.give(item)
            return True
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

    async def close(self, code: ConnectionClose, why: str) -> None:
        """End the connection, and tell the other end why."""
        self.ended = self.ended or why
        await self.connection.close(code, connection_close_reason(why))

    def replace(self) -> None:
        """Close the connection in favour of a newer one; nobody waits for it."""
        why = "a newer connection took its place"
        self.ended = self.ended or why
        self._replacing = self._loop.create_task(
            self.close(ConnectionClose.REPLACED, why)
        )

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
            self.ended = self.ended or connection_end_reason(error)


def connection_end_reason(error: ConnectionClosed) -> str:
    """Say how the other end ended a connection, if it did."""
    if error.rcvd is None:
        return "the connection broke"
    found = error.rcvd.code
    if found in {ConnectionClose.DONE, ConnectionClose.GOING}:
        return "it closed the connection"
    # The words are the other end's: they stay on one line.
    words = "".join(c if c.isprintable() else "?" for c in error.rcvd.reason)
    return f"it closed the connection ({found}: {words or 'no reason given'})"


class NetworkPeer:
    """A neighbour: where it is, the connection with it, or why there is none.

    Attributes:
        address: where to call it; None if it only calls.
        designated: whether this party is the one to call.
        link: the connection, while there is one.
        trouble: why there is none, for a person.
        refused: whether one of the two did not want the other.
        refusal: why it was last refused, or refused this party; kept until they meet.
        sections: where its file differs from this party's.
        finished: whether it has said so.
        skewed: whether its clock has been complained about.
        relayed: whether the last connection went over a relay.
        yielded: whether another process under this party's own name took over.
    """

    def __init__(self, name: str, address: Address | None, *, designated: bool) -> None:
        self.name, self.address, self.designated = name, address, designated
        self.link: NetworkLink | None = None
        self.trouble = "never called"
        self.refused, self.refusal = False, ""
        self.sections: tuple[str, ...] = ()
        self.finished, self.yielded, self.skewed = False, False, False
        self.relayed = False
        self.up, self._down = asyncio.Event(), asyncio.Event()
        self._down.set()

    def connect(self, link: NetworkLink) -> None:
        self.link, self.refused, self.sections = link, False, ()
        self.refusal, self.finished = "", False
        self.relayed = bool(link.connection.relay)
        self._down.clear()
        self.up.set()

    def disconnect(self, link: NetworkLink) -> bool:
        """Note that a connection is over; say whether it was the one."""
        if self.link is not link:
            return False
        self.link, self.trouble = None, link.ended
        self.up.clear()
        self._down.set()
        return True

    def fail(self, why: str, *, refused: bool, sections: tuple[str, ...] = ()) -> None:
        """Note why a call did not lead to a connection; one that stands is no news."""
        if self.link is None:
            self.trouble, self.refused = why, refused
            # Why, and what differed, is known until a good hello says otherwise.
            self.refusal = why if refused else self.refusal
            self.sections = sections or self.sections

    def condition(self) -> str:
        if self.link is not None:
            return "connected"
        if self.finished:
            return "not connected: it has finished"
        if self.refused:
            return f"refused: {self.trouble}"
        before = f"; before that it was refused: {self.refusal}" if self.refusal else ""
        return f"not connected: {self.trouble}{before}"

    async def lonely(self, seconds: float) -> None:
        """Wait until there has been no connection for so long."""
        while True:
            await self._down.wait()
            if seconds <= 0:
                return
            try:
                await asyncio.wait_for(self.up.wait(), seconds)
            except TimeoutError:
                return


class CallBackoff:
    """Randomised exponential backoff between calls."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits, self._tries = limits, 0

    def settled(self) -> None:
        """Begin anew, after a connection that was a good one."""
        self._tries = 0

    def next(self) -> float:
        """Return seconds, drawn from all up to twice the bound before."""
        most = self._limits.first_retry * 2 ** min(self._tries, 30)
        self._tries += 1
        return uniform(0, min(most, self._limits.longest_retry))  # noqa: S311 - a pause

    def slow(self) -> float:
        """Return seconds before a call that will not be welcome yet."""
        return self._limits.slow_retry * uniform(0.5, 1.5)  # noqa: S311 - a pause


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkMeetings(Secret):
    """Handler of a party's connections, from hello to end.

    Attributes:
        own: this party's hello, without receiver and time.
        peers: its neighbours by name.
        certificates: the certificates of all members.
        later: runs after this one in the same study.
        passed: called with the name of a neighbour that is already at one of these.
        finished: whether this party sends a goodbye on every new connection.
    """

    own: Hello
    peers: Mapping[str, NetworkPeer]
    certificates: Mapping[str, str]
    limits: ConnectionLimits
    refusals: ConnectionRefusalLog
    clock: Callable[[], float]
    hear: Callable[[str, bytes], None]
    met: Callable[[str], None]
    left: Callable[[str], None]
    later: Collection[str] = ()
    passed: Callable[[str], None] | None = None
    finished: bool = False

    async def hold(self, connection: SocketWire, called: NetworkPeer | None) -> float:
        """Say hello, then carry frames to the end; return how long that was.

        Args:
            connection: just made.
            called: whom this party has called, if it has.
        """
        name = certificate_owner(peer_certificate(connection), self.certificates)
        peer = self.peers.get(name or "")
        heard = await self._greet(connection, peer, called, f"{name!r}")
        if peer is None or isinstance(heard, HandshakeRefusal):
            assert isinstance(heard, HandshakeRefusal)
            await self._refuse(connection, called or peer, str(name), heard)
            return 0.0
        connection.known()
        link = NetworkLink(
            peer.name, connection, self.limits, dialled=called is not None
        )
        link.said_at = heard.time
        if not self._admits(peer, link):
            await link.close(ConnectionClose.SURPLUS, "there is a connection already")
            await link.gone()
            return 0.0
        await self._serve(peer, link)
        return asyncio.get_running_loop().time() - link.since

    # The hello

    async def _greet(
        self,
        connection: SocketWire,
        peer: NetworkPeer | None,
        called: NetworkPeer | None,
        name: str,
    ) -> Hello | HandshakeRefusal:
        """Say hello and return the neighbour's, unless something is wrong."""
        if called is not None and peer is not called:
            return HandshakeRefusal(
                ConnectionClose.CERTIFICATE, f"it has the certificate of {name}"
            )
        if peer is None:
            return HandshakeRefusal(ConnectionClose.STRANGER, f"{name} is no neighbour")
        own = hello_to_peer(self.own, to=peer.name, time=self.clock())
        heard = await exchange_hellos(connection, own, self.limits)
        if isinstance(heard, HandshakeRefusal):
            return heard
        return self._checked(
            peer, heard, hello_to_peer(own, to=peer.name, time=self.clock())
        )

    def _checked(
        self, peer: NetworkPeer, heard: Hello, own: Hello
    ) -> Hello | HandshakeRefusal:
        found = refusal_of_hello(heard, own, peer.name, self.limits)
        if found is not None:
            gone_on = found.code in DISAGREEMENTS and heard.run in self.later
            if gone_on and self.passed is not None:
                self.passed(peer.name)
            return found
        if abs(heard.time - own.time) > self.limits.clock_skew and not peer.skewed:
            peer.skewed = True
            about = {"party": peer.name, "reason": peer_clock_skew(heard, own)}
            LOG.warning("clocks differ", extra=about)
        return heard

    async def _refuse(
        self,
        connection: SocketWire,
        peer: NetworkPeer | None,
        name: str,
        found: HandshakeRefusal,
    ) -> None:
        """End a connection with a reason, noted under the name that TLS has shown."""
        address = caller_address(connection.transport)
        about = {"party": name, "address": address, "reason": found.reason}
        if found.code == ConnectionClose.DONE:
            LOG.info("looked at", extra=about)
        elif found.code == ConnectionClose.ELSEWHERE:
            LOG.info("elsewhere", extra=about)
        elif connection.is_open or found.code in REFUSALS:
            self.refusals.note(name, "connection refused", **about)
        if peer is not None:
            worse = found.code in REFUSALS
            peer.fail(found.reason, refused=worse, sections=found.sections)
        await connection.close(found.code, connection_close_reason(found.reason))

    # The connection

    def _admits(self, peer: NetworkPeer, link: NetworkLink) -> bool:
        """Say whether a connection takes the place of what there is.

        Calls can cross. Both ends keep the one made by the end that is to call, and of
        several of these the one whose hello was said last.
        """
        old = peer.link
        if old is None or not old.alive:
            return True
        if link.dialled != peer.designated:
            return False
        return old.dialled != peer.designated or link.said_at >= old.said_at

    async def _serve(self, peer: NetworkPeer, link: NetworkLink) -> None:
        """Make a connection the one with its neighbour, and read it to its end."""
        old = peer.link
        peer.connect(link)
        try:
            if old is not None:
                old.replace()
            about = {
                "party": peer.name,
                "address": caller_address(link.connection.transport),
            }
            over = {"relay": link.connection.relay} if link.connection.relay else {}
            LOG.info("connected", extra={**about, **over})
            if self.finished:
                link.send(BYE)
            self.met(peer.name)
            await link.read(self._take)
        except PeerProtocolError as error:
            about = {"party": peer.name, "reason": str(error)}
            self.refusals.note(peer.name, "frame refused", **about)
            why = str(error).removeprefix(f"{peer.name!r}: ")
            await link.close(
                ConnectionClose.FRAME, f"a frame that no honest party sends: {why}"
            )
        except Exception as error:
            # Not the neighbour's fault: whoever runs the event loop has to know.
            context = {"message": "cannot deal with a frame", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            await link.close(ConnectionClose.GOING, "this party cannot go on")
        finally:
            await link.gone()
            self._part(peer, link)

    def _take(self, link: NetworkLink, item: bytes | str) -> None:
        if isinstance(item, bytes):
            self.hear(link.name, item)
            return
        if not is_bye_frame(item):
            raise PeerProtocolError(
                link.name,
                "a text that is no control message",
                code="not-a-control-message",
            )
        if not link.said_bye:
            link.said_bye = self.peers[link.name].finished = True
            self.left(link.name)

    def _part(self, peer: NetworkPeer, link: NetworkLink) -> None:
        """Draw the conclusions from the end of a connection."""
        if not peer.disconnect(link):
            return
        LOG.info("disconnected", extra={"party": peer.name, "reason": link.ended})
        peer.refused = link.code in REFUSALS
        if link.code == ConnectionClose.REPLACED and link.dialled and peer.designated:
            peer.yielded = True
            me = self.own.name
            peer.fail(f"another process under the name {me!r} took over", refused=True)
            LOG.error("replaced", extra={"party": peer.name, "reason": peer.trouble})


async def exchange_hellos(
    connection: SocketWire, own: Hello, limits: ConnectionLimits
) -> Hello | HandshakeRefusal:
    """Say hello, and return what the other end says, or why that is no hello."""
    try:
        await connection.send(encode_hello(own))
        text = await asyncio.wait_for(connection.recv(), limits.hello_timeout)
    except TimeoutError:
        return HandshakeRefusal(ConnectionClose.LATE, "it said no hello in time")
    except ConnectionClosed as error:
        code = error.rcvd.code if error.rcvd is not None else ConnectionClose.LATE
        return HandshakeRefusal(code, connection_end_reason(error))
    return read_hello(text)


Hear = Callable[[str, bytes], None]
Tell = Callable[[str], None]

DEFAULT_LIMITS = ConnectionLimits()


class SocketNetwork(Secret):
    """The way to all neighbours of one party, in one run.

    `open` first, `close` last. `hear`, `met` and `left` are called in the event loop.

    Args:
        identity: this party's key and certificate.
        consortium: who else there is.
        plan: the digest of the plan.
        hear: takes a neighbour's frame; raises PeerProtocolError to be rid of it.
        met: told whenever a connection with a neighbour is up.
        left: told when a neighbour says that it has finished.
        later: runs that come after this one, of the same study.
        passed: told when a neighbour is at one of these.
        limits: sizes and waits.
        listen: where to listen, if it is not where the others call.
        token: what admits it to the consortium's relays; None: it does without.
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
        later: Collection[str] = (),
        passed: Tell | None = None,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        listen: Address | None = None,
        token: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_certified_member(identity, consortium.certificates)
        self._identity, self._consortium, self._limits = identity, consortium, limits
        self._listen = listen or consortium.member(identity.name).address
        self._refusals = ConnectionRefusalLog(limits)
        neighbours = consortium.topology.neighbours(identity.name)
        self._peers = {name: self._peer(name) for name in neighbours}
        self._meetings = NetworkMeetings(
            own=own_handshake_hello(identity.name, consortium, plan),
            peers=self._peers,
            certificates=consortium.certificates,
            limits=limits,
            refusals=self._refusals,
            clock=clock,
            hear=hear,
            met=met,
            left=left,
            later=later,
            passed=passed,
        )
        self._door: SocketDoor | None = None
        self._tunnels: RelayTunnels | None = None
        if token is not None and consortium.relays is not None:
            self._tunnels = RelayTunnels(
                agreed=consortium, me=identity.name, token=token, limits=limits
            )
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self.unsent: Counter[str] = Counter()

    def _peer(self, name: str) -> NetworkPeer:
        agreed, me = self._consortium, self._identity.name
        address = agreed.member(name).address
        return NetworkPeer(name, address, designated=agreed.dials(me, name))

    # Opening and closing

    async def open(self) -> None:
        """Listen where the others call, and begin to call those who wait for it.

        Raises:
            NotReadyError: the address cannot be listened at.
        """
        certificates = self._consortium.certificates
        answers = tls_server_context(self._identity, certificates)
        self._door = SocketDoor(answers, self._limits, self._turned_away)
        if self._listen is not None:
            try:
                await self._door.open(self._listen, self._answer)
            except OSError as error:
                raise connection_listening_refused(self._listen, error) from None
            LOG.info("listening", extra={"address": str(self._listen)})
        call = partial(self._reach, tls_client_context(self._identity, certificates))
        for peer in self._peers.values():
            if peer.address is not None or self._tunnels is not None:
                work = self._keep_calling(peer, partial(call, peer))
                task = asyncio.get_running_loop().create_task(work)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    @property
    def ports(self) -> tuple[int, ...]:
        return () if self._door is None else self._door.ports

    async def close(self) -> None:
        """End all connections; nothing of this network is left afterwards."""
        self._closing = True
        links = [peer.link for peer in self._peers.values() if peer.link is not None]
        parting = [
            link.close(ConnectionClose.GOING, "this party has left") for link in links
        ]
        if self._door is not None:
            parting.append(self._door.close())
        await asyncio.gather(*parting)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Sending

    def send(self, to: str, frame: bytes) -> None:
        """Send a frame, or drop and count it if there is no way or no room."""
        link = self._peers[to].link
        if link is None or not link.send(frame):
            self.unsent[to] += 1

    async def until(self, ended: asyncio.Future[None]) -> None:
        """Carry frames, which needs nobody's help, until a run is over."""
        await ended

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
        return self._peers[name].condition()

    def differences(self) -> Mapping[str, tuple[str, ...]]:
        """Return who holds another consortium file or plan, and where they differ."""
        peers = self._peers.values()
        return {peer.name: peer.sections for peer in peers if peer.sections}

    # Calling and answering

    async def _keep_calling(
        self, peer: NetworkPeer, call: Callable[[], Coroutine[Any, Any, float]]
    ) -> None:
        """Call a neighbour whenever there is no connection with it."""
        backoff = CallBackoff(self._limits)
        # Where no call can come, nobody waits for one.
        waits = not peer.designated and self._listen is not None
        while not self._closing:
            patient = waits and not peer.relayed
            await peer.lonely(self._limits.fallback if patient else 0)
            lasted = await call()
            if peer.yielded:
                return
            if lasted >= self._limits.settled:
                backoff.settled()
            await asyncio.sleep(backoff.slow() if peer.refused else backoff.next())

    async def _reach(self, context: ssl.SSLContext, peer: NetworkPeer) -> float:
        """Meet a neighbour once, directly or over a relay; say for how long.

        What served last is tried first.
        """
        ways: list[Callable[[], Coroutine[Any, Any, float | None]]] = []
        if peer.address is not None:
            ways.append(partial(self._call, context, peer, peer.address))
        if self._tunnels is not None:
            ways.append(partial(self._tunnel, self._tunnels, context, peer))
        for way in reversed(ways) if peer.relayed else ways:
            lasted = await way()
            if lasted is not None:
                return lasted
        return 0.0

    async def _call(
        self, context: ssl.SSLContext, peer: NetworkPeer, address: Address
    ) -> float | None:
        """Call once, and serve the connection to its end; say how long that was."""
        try:
            connection = await dial_peer(address, context, self._limits)
        except UNANSWERED as error:
            self._failed(peer, socket_call_failure(error, str(address)), error)
            return None
        return await self._hold(connection, peer)

    def _failed(self, peer: NetworkPeer, why: str, error: BaseException) -> None:
        if why != peer.trouble:
            LOG.info("call failed", extra={"party": peer.name, "reason": why})
        peer.fail(why, refused=isinstance(error, ssl.SSLError))

    async def _tunnel(
        self, tunnels: RelayTunnels, context: ssl.SSLContext, peer: NetworkPeer
    ) -> float | None:
        """The same over a relay: whoever dials is TLS's client there, too."""
        assert self._door is not None
        door, limits = self._door, self._limits

        async def hold(connection: AnsweredSocket) -> float:
            return await self._meetings.hold(connection, None)

        async def serve(stream: TunnelPassage) -> float:
            if not peer.designated:
                return await answer_through_relay(stream, door, limits, hold)
            try:
                connection = await dial_through_relay(stream, context, limits)
            except UNANSWERED as error:
                why = socket_call_failure(error, f"the other end of {stream.relay}")
                self._failed(peer, why, error)
                return 0.0
            return await self._hold(connection, peer)

        # Where a call may be answered yet, it only looks whether the other is there:
        # who waits to be called comes to the relay later, and for longer.
        direct = peer.address is not None or self._listen is not None
        eager = peer.designated and direct
        return await tunnels.meet(
            peer.name,
            serve,
            calls=peer.designated,
            wait=0.0 if eager else limits.relay_wait,
            elsewhere=peer.up,
            note=partial(self._noted, peer),
        )

    def _noted(self, peer: NetworkPeer, why: str) -> None:
        """Keep how it stands at a relay."""
        if why != peer.trouble and peer.link is None:
            LOG.info("not met yet", extra={"party": peer.name, "reason": why})
        peer.fail(why, refused=False)

    async def _hold(self, connection: SocketWire, peer: NetworkPeer) -> float:
        try:
            return await self._meetings.hold(connection, peer)
        finally:
            connection.transport.abort()

    async def _answer(self, connection: AnsweredSocket) -> None:
        """Serve a connection that somebody else made."""
        await self._meetings.hold(connection, None)

    def _turned_away(self, address: str, error: BaseException) -> None:
        """Note a caller that did not get through TLS: nobody knows its name."""
        about = {"address": address, "reason": socket_connection_failure(error)}
        source = caller_origin(address.rpartition(":")[0])
        self._refusals.note(source, "caller refused", **about)


def own_handshake_hello(name: str, agreed: Consortium, plan: bytes) -> Hello:
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
        version=__version__,
    )


def connection_listening_refused(address: Address, error: OSError) -> NotReadyError:
    """Return why an address cannot be listened at, and what to do."""
    anywhere = "[::]" if ":" in address.host else "0.0.0.0"  # noqa: S104 - words
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
    return NotReadyError(f"cannot listen at {address}: {fix}", code="cannot-listen")
