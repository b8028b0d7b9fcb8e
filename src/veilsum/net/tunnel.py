"""Connections over a relay: the same TLS and WebSocket as ever, in another's frames.

A member calls a relay and shows its pass. When the other end has done so too, the relay
carries bytes between the two, and `TunnelPassage` is what these bytes look like to
asyncio: a transport, on which the very TLS 1.3 with the members' certificates begins
    that a direct
connection has. The relay sees records of it, and no key.

Of the two ends the one that dials in the consortium is TLS's client, and of several
relays it decides which serves: the first over which the other end is there.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, cast

from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from veilsum.consortium.addresses import ConsortiumRelay, ConsortiumRelays
from veilsum.consortium.consortium import Consortium
from veilsum.net.entrance import AEAD
from veilsum.net.handshake import PATH, ConnectionLimits
from veilsum.net.relay_tokens import JOINED, MOST_FRAME, RELAY_PATH, RelayPass
from veilsum.net.sockets import (
    UNANSWERED,
    AnsweredSocket,
    DialledSocket,
    SocketDoor,
    dial_websocket_uri,
    proxy_for_address,
    refuse_other_paths,
    socket_call_failure,
    socket_connection_pace,
    websocket_protocol_options,
)
from veilsum.numbers.secrets import Secret

# Bytes in one frame to a relay.
CHUNK = 1 << 16
# Seconds in which a relay joins two that are there.
MOMENT = 1.0
# What a relay's answers mean that are not a yes.
_STATUS: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it does not admit this party's token",
    HTTPStatus.CONFLICT: "this party's own veilsum is there already",
    HTTPStatus.TOO_MANY_REQUESTS: "it has no room for more connections of this "
    "run, or of this token",
    HTTPStatus.SERVICE_UNAVAILABLE: "it has no room, or is about to restart",
    HTTPStatus.NOT_FOUND: "what answers there is no relay",
}


class RelayError(Exception):
    """A relay that did not lead to the other end; its text says why.

    Attributes:
        is_own: whether this party's own veilsum is there already.
    """

    def __init__(self, why: str, *, is_own: bool = False) -> None:
        super().__init__(why)
        self.is_own = is_own


UNJOINED = (*UNANSWERED, RelayError, ConnectionClosed)


class TunnelOuter(DialledSocket):
    """The connection with a relay.

    The stream within is there from the start: a relay's answer and the other member's
    first bytes may arrive together.
    """

    def __init__(self, relay: ConsortiumRelay, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stream = TunnelPassage(self, relay)
        self.take = self.stream.feed

    def pause_writing(self) -> None:
        """Have the one within wait as well."""
        super().pause_writing()
        self.stream.pause_writing()

    def resume_writing(self) -> None:
        """Let the one within go on."""
        super().resume_writing()
        self.stream.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the one within, too."""
        super().connection_lost(exc)
        self.stream.lost(exc)


class TunnelPassage(asyncio.Transport):
    """Byte stream through a relay, as a transport that TLS can start on.

    Attributes:
        ended: done when the connection with the relay is over.
    """

    _start_tls_compatible = True

    def __init__(self, outer: TunnelOuter, relay: ConsortiumRelay) -> None:
        super().__init__({"peername": (relay.address.host, relay.address.port)})
        self._outer, self.relay = outer, relay
        self.ended: asyncio.Future[None] = outer.loop.create_future()
        self._protocol: asyncio.BufferedProtocol | None = None
        self._held: list[bytes] = []
        self._error: Exception | None = None
        self._reads, self._closing = False, False

    # What comes from the relay

    def feed(self, data: bytes) -> None:
        """Hand bytes to TLS, or keep them and read no more until it wants them."""
        protocol = self._protocol
        if not self._reads or protocol is None:
            self._held.append(data)
            self._outer.transport.pause_reading()
            return
        rest = memoryview(data)
        while rest and not self._closing:
            room = memoryview(protocol.get_buffer(len(rest)))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]

    def lost(self, error: Exception | None) -> None:
        """Tell TLS that it is over."""
        self._closing = True
        if not self.ended.done():
            self.ended.set_result(None)
        if self._protocol is not None:
            self._protocol.connection_lost(error or self._error)

    def pause_writing(self) -> None:
        """Pass on that the relay takes no more for now."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that it does again."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    # What TLS asks of a transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.BufferedProtocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def pause_reading(self) -> None:
        """Read no more than what is on its way."""
        self._reads = False

    def resume_reading(self) -> None:
        """Hand over what was kept, and read on."""
        self._reads = True
        held, self._held = self._held, []
        for data in held:
            self.feed(data)
        if self._reads and not self._closing:
            self._outer.transport.resume_reading()

    def is_reading(self) -> bool:
        return self._reads and not self._closing

    def write(self, data: Any) -> None:
        """Send bytes to the relay, in frames of its size."""
        outer = self._outer
        if self._closing or not outer.is_open:
            return
        for start in range(0, len(data), CHUNK):
            outer.protocol.send_binary(data[start : start + CHUNK])
        outer.send_data()

    def get_write_buffer_size(self) -> int:
        return self._outer.buffered

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Leave them to the connection with the relay."""

    def can_write_eof(self) -> bool:
        """Say no: TLS has an end of its own."""
        return False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Send what waits, take leave of the relay, end."""
        if self._closing:
            return
        self._closing = True
        if self._outer.is_open:
            self._outer.protocol.send_close()
            self._outer.send_data()
        self._outer.transport.close()

    def abort(self) -> None:
        """End at once."""
        self._closing = True
        self._outer.transport.abort()

    def _force_close(self, error: Exception | None) -> None:
        """End at once, as asyncio's TLS has it of a transport that failed."""
        self._error = self._error or error
        self.abort()


async def dial_through_relay(
    stream: TunnelPassage, context: ssl.SSLContext, limits: ConnectionLimits
) -> DialledSocket:
    """Call the member at the other end of a stream, as `dial` calls an address."""
    protocol = ClientProtocol(
        parse_uri(f"wss://member{PATH}"), **websocket_protocol_options(limits)
    )
    connection = DialledSocket(protocol, **socket_connection_pace(limits))
    connection.relay = str(stream.relay)
    try:
        async with asyncio.timeout(limits.open_timeout):
            secure = await asyncio.get_running_loop().start_tls(
                stream,
                connection,
                context,
                ssl_shutdown_timeout=limits.close_timeout,
            )
            if secure is None:
                raise ConnectionResetError
            connection.connection_made(secure)
            await connection.handshake(user_agent_header=None)
    except BaseException:
        stream.abort()
        raise
    connection.start_keepalive()
    return connection


Hold = Callable[[AnsweredSocket], Awaitable[float]]


@dataclass(eq=False)
class _TunnelDesk:
    """Stand-in for the server of an answered connection, where nothing listens."""

    limits: ConnectionLimits
    hold: Hold
    lasted: float = 0.0
    handler_tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def is_serving(self) -> bool:
        """Say yes: one connection is all there is."""
        return True

    async def handler(self, connection: AnsweredSocket) -> None:
        """Go on from TLS as a server does."""
        try:
            async with asyncio.timeout(self.limits.open_timeout):
                await connection.handshake(refuse_other_paths, None, None)
            if connection.is_open:
                connection.start_keepalive()
                self.lasted = await self.hold(connection)
        except TimeoutError:
            pass  # whoever says nothing is as good as nobody
        finally:
            connection.transport.abort()


async def answer_through_relay(
    stream: TunnelPassage, door: SocketDoor, limits: ConnectionLimits, hold: Hold
) -> float:
    """Answer the member at the other end of a stream, as a door answers callers.

    Return what `hold` did, once the connection is over; 0 if there was none.
    """
    desk = _TunnelDesk(limits, hold)
    protocol = ServerProtocol(**websocket_protocol_options(limits))
    connection = AnsweredSocket(
        door, protocol, cast(Any, desk), **socket_connection_pace(limits)
    )
    connection.relay = str(stream.relay)
    connection.connection_made(stream)
    try:
        await asyncio.shield(stream.ended)
        await asyncio.gather(*desk.handler_tasks, return_exceptions=True)
    finally:
        stream.abort()
        for task in desk.handler_tasks:
            task.cancel()
    return desk.lasted


Serve = Callable[[TunnelPassage], Awaitable[float]]


@dataclass(eq=False, repr=False, kw_only=True)
class RelayTunnels(Secret):
    """A member's ways over the relays of its consortium.

    Attributes:
        limits: sizes and waits.
    """

    agreed: Consortium
    me: str
    token: str
    limits: ConnectionLimits
    _spoilt: dict[str, set[ConsortiumRelay]] = field(
        default_factory=lambda: defaultdict(set)
    )

    @property
    def relays(self) -> ConsortiumRelays:
        assert self.agreed.relays is not None
        return self.agreed.relays

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return relay_context(self.relays)

    @property
    def places(self) -> tuple[ConsortiumRelay, ...]:
        return self.relays.places

    async def call(
        self, relay: ConsortiumRelay, other: str, *, look: bool = False
    ) -> TunnelOuter:
        """Return a connection with a relay, at which this member waits for another.

        Raises:
            RelayError: it does not want this member; or one of `UNANSWERED`.
        """
        shown = RelayPass.between(self.agreed, self.token, self.me, other, look=look)
        address = relay.address
        try:
            return await dial_websocket_uri(
                f"{relay}{RELAY_PATH}",
                address,
                self.limits,
                kind=partial(TunnelOuter, relay),
                proxy=proxy_for_address(address) if relay.secure else None,
                additional_headers=shown.headers(self.token),
                max_size=MOST_FRAME,
                **({"ssl": self._context} if relay.secure else {}),
            )
        except InvalidStatus as error:
            status = error.response.status_code
            why = _STATUS.get(status, f"it answers HTTP {status}")
            own = status == HTTPStatus.CONFLICT
            raise RelayError(why, is_own=own) from None

    async def join(
        self,
        relay: ConsortiumRelay,
        other: str,
        *,
        wait: float,
        look: bool = False,
        note: Callable[[str], None] = lambda _: None,
    ) -> TunnelPassage:
        """Return a stream of bytes from and to another member, once it is there.

        `note` is told that this member waits there.

        Raises:
            RelayError: it does not come within so many seconds; or one of `UNJOINED`.
        """
        outer = await self.call(relay, other, look=look)
        note(f"waits for it at the relay {relay}")
        try:
            async with asyncio.timeout(wait):
                text = await outer.recv()
            if text != JOINED:
                raise RelayError("what answers there is no relay")
        except TimeoutError:
            outer.transport.abort()
            raise RelayError(f"{other} has not come to it yet") from None
        except BaseException:
            outer.transport.abort()
            raise
        return outer.stream

    async def meet(
        self,
        other: str,
        serve: Serve,
        *,
        calls: bool,
        wait: float,
        elsewhere: asyncio.Event,
        note: Callable[[str], None],
    ) -> float | None:
        """Meet another member at a relay, and serve what comes of it to its end.

        Args:
            other: whom.
            serve: takes a stream; returns how long its connection lasted.
            calls: whether this member decides which relay serves.
            wait: seconds after which it is given up.
            elsewhere: set once the two are connected, however that came about.
            note: told why nothing has come of it yet.

        Returns:
            How long the best connection lasted; None if they did not meet.
        """
        places, spoilt = self.places, self._spoilt[other]
        if spoilt.issuperset(places):
            spoilt.clear()
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        waiting: set[asyncio.Task[float]] = set()

        async def one(relay: ConsortiumRelay) -> float:
            if calls and relay in spoilt:  # the others have a start
                await asyncio.sleep(10 * self.limits.first_retry)
            me = cast("asyncio.Task[float]", asyncio.current_task())
            while True:
                stream = await self._joined(relay, other, end, note)
                waiting.discard(me)
                for task in tuple(waiting) if calls else ():
                    task.cancel()
                lasted = await serve(stream)
                if calls or lasted or elsewhere.is_set() or loop.time() > end:
                    break
                # The other end has chosen another relay: should nothing come of that,
                # it will be back.
                waiting.add(me)
                await asyncio.sleep(self.limits.first_retry)
            good = lasted >= self.limits.settled
            (spoilt.discard if good else spoilt.add)(relay)
            return lasted

        tasks = {loop.create_task(one(relay)) for relay in places}
        waiting |= tasks
        up = loop.create_task(elsewhere.wait())
        try:
            left = set(tasks)
            while left and not up.done():
                await asyncio.wait({*left, up}, return_when=asyncio.FIRST_COMPLETED)
                left = {task for task in tasks if not task.done()}
            for task in tuple(waiting):
                task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            up.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(up, *tasks, return_exceptions=True)
        for error in found:
            if isinstance(error, Exception) and not isinstance(error, UNJOINED):
                raise error
        return max((one for one in found if isinstance(one, float)), default=None)

    async def _joined(
        self,
        relay: ConsortiumRelay,
        other: str,
        end: float,
        note: Callable[[str], None],
    ) -> TunnelPassage:
        """Wait at a relay, and come again if it fails, until the time is over."""
        loop, pause = asyncio.get_running_loop(), self.limits.first_retry
        while True:
            # However long the way there was, whoever waits there is met.
            left = max(end - loop.time(), MOMENT)
            try:
                return await self.join(relay, other, wait=left, note=note)
            except UNJOINED as error:
                note(relay_failure(relay, error))
                if loop.time() + pause > end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, self.limits.longest_retry)


def relay_failure(relay: ConsortiumRelay, error: BaseException) -> str:
    """Say why a relay led to nobody, in one clause."""
    if isinstance(error, RelayError):
        return f"the relay {relay}: {error}"
    if isinstance(error, ConnectionClosed):
        return f"the relay {relay} hung up"
    return f"the relay {relay}: {socket_call_failure(error, str(relay.address))}"


def relay_context(relays: ConsortiumRelays) -> ssl.SSLContext:
    """Return how to speak TLS with a relay: its own certificate, or the system's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(AEAD)
    if relays.certificate is None:
        context.load_default_certs()
    else:
        context.check_hostname = False
        # Also one that is no authority's, and that another has signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=relays.certificate)
    return context
