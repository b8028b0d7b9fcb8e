"""WebSockets under TLS, as the package `websockets` makes them, with four additions.

A handshake that fails on the answering side is reported, which asyncio does not do. A
connection knows when it last heard anything, and can hand frames over as they come.
And the package's own log is silent: at its most talkative level it would show what is
in the frames.

Beside them: why a connection failed, as one clause for a person, and the proxy that the
environment names, by host and port, never by the credentials its address may hold.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from http import HTTPStatus
from socket import socket
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from veilsum.consortium.addresses import Address, is_loopback_address
from veilsum.errors import MissingExtraError, install_advice
from veilsum.net.entrance import (
    ConnectionEntrance,
    EnteringConnection,
    Refused,
    caller_address,
    open_connection_limit,
)
from veilsum.net.handshake import PATH, ConnectionLimits

# The proxies of the environment for a call under TLS; the first that there is counts.
_KINDS = ("wss", "socks", "https")


class ProxyHitch(Enum):
    """Faults of a proxy.

    Attributes:
        words: template of the error, with {proxy}, {there} (the party dialled) and
            {why}.
        advice: template of the remedy, with the same fields and {name} (the party
            dialled), {host} (its host) and {start} (the command it has to run).
    """

    NO_ADDRESS = (
        "HTTPS_PROXY holds no address of a proxy, on the way to {there}",
        "write it as http://HOST:PORT, or as http://USER:PASSWORD@HOST:PORT with "
        "special characters as %XX",
    )
    UNREACHED = (
        "the proxy {proxy} cannot be reached on the way to {there}: {why}",
        "look whether HTTPS_PROXY is right; if it is, ask IT why this machine does not "
        "reach {proxy}; if {host} needs no proxy, name it in NO_PROXY",
    )
    SILENT = (
        "the proxy {proxy} gave no answer in time, on the way to {there}",
        "ask IT whether this machine reaches {proxy}, and whether the proxy reaches "
        "{there}; ask {name} to {start} now",
    )
    NO_TLS = (
        "TLS with the proxy {proxy} failed, on the way to {there}",
        "if the proxy is an HTTP one, write http:// before {proxy} in HTTPS_PROXY; if "
        "not, ask IT for a proxy whose certificate this machine knows",
    )
    NO_HTTP = (
        "the proxy {proxy} does not speak as an HTTP proxy does, on the way to {there}",
        "look whether HTTPS_PROXY is right; ask IT for the address of the HTTP proxy",
    )
    SOCKS = (
        "the proxy {proxy} on the way to {there} is a SOCKS proxy: these need the "
        "package python-socks",
        "pip install python-socks, or name an HTTP proxy in HTTPS_PROXY, or name "
        "{host} in NO_PROXY if it needs no proxy",
    )
    NOT_PASSED_ON = (
        "the proxy {proxy} did not reach {there} ({why})",
        "ask {name} to {start} now; if it does, ask IT to let the proxy reach {there}",
    )
    NO_CREDENTIALS = (
        "the proxy {proxy} wants credentials on the way to {there} ({why}): they go "
        "into its address in HTTPS_PROXY",
        "ask IT for credentials, and set HTTPS_PROXY=http://USER:PASSWORD@{proxy}",
    )
    FORBIDDEN = (
        "the proxy {proxy} did not let this party through to {there} ({why})",
        "ask IT to let the proxy pass CONNECT to {there}",
    )

    def __init__(self, words: str, advice: str) -> None:
        self.words, self.advice = words, advice


# What the answers to CONNECT mean that are not simply a no.
_BY_STATUS = {
    407: ProxyHitch.NO_CREDENTIALS,
    502: ProxyHitch.NOT_PASSED_ON,
    503: ProxyHitch.NOT_PASSED_ON,
    504: ProxyHitch.NOT_PASSED_ON,
}


class ProxyError(Exception):
    """A call that got no further than the proxy; its text says why."""

    def __init__(
        self, hitch: ProxyHitch, there: Address, *, proxy: str, why: str
    ) -> None:
        self._hitch = hitch
        self._facts = {
            "there": str(there),
            "host": there.host,
            "proxy": ""
            if hitch is ProxyHitch.NO_ADDRESS
            else _proxy_host_and_port(proxy),
            "why": why,
        }
        super().__init__(hitch.words.format(**self._facts))

    def advice(self, name: str, start: str) -> str:
        """Say what to do: who the call was for, and what that party is to do."""
        return self._hitch.advice.format(name=name, start=start, **self._facts)


def proxy_for_address(address: Address) -> str | None:
    if is_loopback_address(address.host) or proxy_bypass(
        f"{address.host}:{address.port}"
    ):
        return None
    found = getproxies()
    kind = next((kind for kind in _KINDS if kind in found), None)
    if kind == "socks" and found[kind].startswith("http://"):
        return "socks5h://" + found[kind].removeprefix("http://")
    return None if kind is None else found[kind]


def _proxy_host_and_port(proxy: str) -> str:
    """Return host and port of a proxy's address that is a good one."""
    found = urlsplit(proxy)
    port = found.port or (443 if found.scheme == "https" else 80)
    return str(Address(found.hostname or "", port))


# What OpenSSL found about a certificate, by its number.
_CERTIFICATE = {
    9: "its certificate is not valid yet: is a clock wrong?",
    10: "its certificate has expired",
    18: "its certificate is not a member's",
    19: "its certificate is not a member's",
    20: "its certificate is not a member's",
    21: "its certificate is not a member's",
}
# What OpenSSL says about a handshake, by a part of the name it gives.
_HANDSHAKE = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate",
    "ALERT_CERTIFICATE_EXPIRED": "it says that this party's certificate has expired",
    "ALERT_UNKNOWN_CA": "it does not know this party's certificate",
    "ALERT_CERTIFICATE": "it does not accept this party's certificate",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "VERSION_TOO_LOW": "it does not speak TLS 1.3",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "NOT_TLS": "it does not speak TLS",
}
HUNG_UP = "it hung up before the connection was made; its log says why"
_SYSTEM = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no way to that host",
    errno.ENETUNREACH: "no way to that network",
    errno.ETIMEDOUT: "no answer in time",
}


def socket_call_failure(error: BaseException, place: str) -> str:
    """Say why a call to a place failed, and whether that was on the way there."""
    if isinstance(error, ProxyError):
        return str(error)
    return f"{socket_connection_failure(error)} at {place}"


def socket_connection_failure(error: BaseException) -> str:
    """Say why a call or a handshake failed; nothing that the other end chose."""
    if isinstance(error, ssl.SSLCertVerificationError):
        found = error.verify_code
        return _CERTIFICATE.get(found, f"its certificate is no good (code {found})")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        for part, words in _HANDSHAKE.items():
            if part in reason:
                return words
        return f"TLS failed ({reason.lower().replace('_', ' ') or 'no reason given'})"
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "no answer in time"
    if isinstance(error, ConnectionResetError | BrokenPipeError | EOFError):
        return HUNG_UP
    return _socket_system_error_words(error)


def _socket_system_error_words(error: BaseException) -> str:
    """Say what the operating system or the library said, without what was received."""
    if not isinstance(error, OSError):
        return f"what answers is no party of a run ({type(error).__name__})"
    for one in getattr(error, "exceptions", ()):  # several addresses of one host
        return socket_connection_failure(one)
    number = _socket_error_number(error)
    if type(error).__name__ == "gaierror":
        return "no such host"
    return _SYSTEM.get(number, (error.strerror or str(error)).lower())


def _socket_error_number(error: OSError) -> int:
    """Return the system's number; of several addresses of one host, the first's."""
    if error.errno is not None:
        return error.errno
    # What asyncio raises for several has their numbers in its text only.
    found = re.search(r"\[Errno (\d+)\]", str(error))
    return 0 if found is None else int(found[1])


try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.asyncio.connection import Connection
    from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
    from websockets.exceptions import (
        ConnectionClosed,
        InvalidProxyMessage,
        InvalidProxyStatus,
        ProxyError as NotThrough,
        WebSocketException,
    )
    from websockets.frames import BINARY, PING
    from websockets.protocol import State
except ImportError:
    raise MissingExtraError(
        f"parties on a network need the package websockets: {install_advice('net')}",
        code="missing-extra",
    ) from None

if TYPE_CHECKING:
    from websockets.http11 import Request, Response

__all__ = [
    "UNANSWERED",
    "AnsweredSocket",
    "ConnectionClosed",
    "DialledSocket",
    "SocketDoor",
    "SocketWire",
    "broadcast",
    "caller_address",
    "dial_peer",
    "peer_certificate",
]

# Not among the loggers that a program can set the level of.
_SILENT = logging.Logger("websockets", logging.CRITICAL + 1)

# What a call may end with, besides an answer: bad proxies and odd host names, too.
_FAILED = (OSError, EOFError, ImportError, ValueError, WebSocketException)
UNANSWERED = (*_FAILED, ProxyError)

# What is wrong with a proxy, by what a call ends with; the first that fits.
_HITCHES: tuple[tuple[type[BaseException], ProxyHitch], ...] = (
    (ImportError, ProxyHitch.SOCKS),
    (InvalidProxyMessage, ProxyHitch.NO_HTTP),
    (NotThrough, ProxyHitch.NOT_PASSED_ON),
    (ssl.SSLError, ProxyHitch.NO_TLS),
    (TimeoutError, ProxyHitch.SILENT),
    (OSError, ProxyHitch.UNREACHED),
    (EOFError, ProxyHitch.UNREACHED),
)

# Pings that are answered while nothing of it is read; an honest end sends a few.
MOST_UNREAD = 1000


class SocketWire(Connection):
    """Base of both ends of a connection.

    Attributes:
        heard_at: time of the last received data, by the event loop's clock.
        take: callback that gets whole binary frames at once, and must not raise;
            `recv` returns all others.
        relay: the relay used; empty for a direct connection.
    """

    heard_at, relay = 0.0, ""
    _unread = _waiting = 0
    take: Callable[[bytes], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether frames can still be sent."""
        return self.protocol.state is State.OPEN

    def process_event(self, event: Any) -> None:
        """Hand a frame over: to wake a task for it takes as long as most frames do."""
        opcode = getattr(event, "opcode", None)  # request and response have none
        if opcode is PING:
            # Each is answered. Who asks on and on and reads nothing fills the memory.
            self._unread = self._unread + 1 if self.paused else 0
            if self._unread > MOST_UNREAD:
                self.transport.abort()
        if self.take is None or opcode is not BINARY or not event.fin:
            super().process_event(event)
        else:
            self.take(bytes(event.data))

    def give(self, item: bytes | str) -> None:
        """Send a frame or a text before the event loop waits for anything else.

        What is sent in one turn of the loop is one piece of TLS and one call of the
        system: whoever passes records on sends many that are short.
        """
        if isinstance(item, str):
            self.protocol.send_text(item.encode())
        else:
            self.protocol.send_binary(item)
        if not self._waiting:
            self.loop.call_soon(self._give_now)
        self._waiting += len(item)

    def _give_now(self) -> None:
        if not self.transport.is_closing():
            self.send_data()

    def send_data(self) -> None:
        """Give all that waits to the network, in order."""
        self._waiting = 0
        writes = self.protocol.writes
        if len(writes) > 1 and all(writes):  # an empty one is the end
            writes[:] = [b"".join(writes)]
        super().send_data()

    @property
    def buffered(self) -> int:
        """Bytes that wait in this process for the network."""
        return self._waiting + self.transport.get_write_buffer_size()

    def known(self) -> None:
        """Note that the other end has said who it is."""


class DialledSocket(SocketWire, ClientConnection):
    """The end that made the call."""

    _secured = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the encrypted connection."""
        self._secured, self.heard_at = True, self.loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note the sign of life."""
        self.heard_at = self.loop.time()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep why it was lost: under TLS 1.3 a refusal comes after the handshake."""
        if not self._secured:  # behind a proxy it is there before TLS is
            return
        super().connection_lost(exc)
        if self.response is None:
            self.protocol.handshake_exc = exc or ConnectionResetError()


class AnsweredSocket(EnteringConnection, SocketWire, ServerConnection):
    """The end that was called."""

    def __init__(self, door: SocketDoor, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.entrance = door

    def begin(self, transport: asyncio.Transport) -> None:
        self.heard_at = self.loop.time()
        super().begin(transport)

    def data_received(self, data: bytes) -> None:
        """Note the sign of life."""
        self.heard_at = self.loop.time()
        super().data_received(data)

    def known(self) -> None:
        """Make room for another stranger at the door."""
        self.entrance.leave(self)


class SocketDoor(ConnectionEntrance):
    """Where others call: at most so many at a time that are not known yet."""

    made: type[AnsweredSocket] = AnsweredSocket

    def __init__(
        self, context: ssl.SSLContext | None, limits: ConnectionLimits, refused: Refused
    ) -> None:
        super().__init__(
            context,
            most=min(limits.strangers, open_connection_limit() // 4),
            timeout=limits.open_timeout,
            parting=limits.close_timeout,
            refused=refused,
        )
        self._limits = limits
        self._opening: asyncio.Future[Server] | None = None
        self._server: Server | None = None

    async def open(
        self,
        address: Address,
        handler: Callable[[AnsweredSocket], Awaitable[None]],
        **options: Any,
    ) -> None:
        """Listen, and give every WebSocket that comes about to the handler."""
        handle = cast(Callable[[ServerConnection], Awaitable[None]], handler)
        serving = serve(
            handle,
            address.host or None,
            address.port,
            create_connection=cast(type[ServerConnection], partial(self.made, self)),
            process_request=self.asked,
            server_header=None,
            open_timeout=self._limits.open_timeout,
            **{**_socket_options(self._limits), **options},
        )
        # asyncio forgets to close a socket where opening it is called off half-way.
        self._opening = asyncio.ensure_future(serving)
        self._server = await asyncio.shield(self._opening)

    def asked(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a request that is for no WebSocket here; None: there is one."""
        return refuse_other_paths(connection, request)

    @property
    def ports(self) -> tuple[int, ...]:
        sockets = () if self._server is None else self._server.sockets
        return tuple(one.getsockname()[1] for one in sockets)

    async def close(self) -> None:
        """Stop listening, and hang up on everybody."""
        self._closed = True
        if self._opening is not None:
            with suppress(OSError):
                self._server = await self._opening
        if self._server is not None:
            await self._stop_accepting()
            self._server.close()
        await self.shut()
        if self._server is not None:
            await self._server.wait_closed()

    async def _stop_accepting(self) -> None:
        """Take nobody any more, and let those in who have just been taken.

        asyncio forgets to close a connection that it accepts while a server closes.
        """
        assert self._server is not None
        with suppress(NotImplementedError):  # not every event loop has readers
            for one in self._server.sockets:
                asyncio.get_running_loop().remove_reader(one.fileno())
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class _StraightCall(connect):
    """A call that is not passed on to somebody else.

    Attributes:
        through: whether the proxy, if there is one, has let it through.
    """

    through = False

    def __init__(
        self, uri: str, kind: Callable[..., DialledSocket], **options: Any
    ) -> None:
        self._kind = kind
        made = cast(type[ClientConnection], self._made)
        super().__init__(uri, create_connection=made, **options)

    def _made(self, *args: Any, **options: Any) -> DialledSocket:
        self.through = True
        return self._kind(*args, **options)

    def process_redirect(self, exc: Exception) -> Exception:
        """Take a redirection as the refusal that it is."""
        return exc


D = TypeVar("D", bound=DialledSocket)


async def dial_peer(
    address: Address,
    context: ssl.SSLContext,
    limits: ConnectionLimits,
    *,
    over: socket | None = None,
) -> DialledSocket:
    """Call somebody; through the proxy of the environment, if it names one.

    Args:
        address: whom.
        context: how to speak TLS.
        limits: sizes and waits.
        over: a socket that is connected already; no proxy then.

    Raises:
        ProxyError: the call got no further than the proxy. Beyond it, or without one,
            the others of `UNANSWERED`.
    """
    given: dict[str, Any] = {} if over is None else {"sock": over}
    proxy = None if over is not None else proxy_for_address(address)
    uri = f"wss://{address}{PATH}"
    return await dial_websocket_uri(
        uri, address, limits, kind=DialledSocket, proxy=proxy, ssl=context, **given
    )


async def dial_websocket_uri(
    uri: str,
    address: Address,
    limits: ConnectionLimits,
    *,
    kind: Callable[..., D],
    proxy: str | None,
    **given: Any,
) -> D:
    """Call whoever answers at a URI, for a connection of some kind; see `dial_peer`."""
    options = {**_socket_options(limits), **given}
    call = _StraightCall(
        uri,
        kind,
        proxy=proxy,
        user_agent_header=None,
        open_timeout=limits.open_timeout,
        **options,
    )
    try:
        return cast(D, await call)
    except _FAILED as error:
        if proxy is None or call.through:
            raise
        raise _stopped_proxy_error(error, address, proxy) from None


def _stopped_proxy_error(
    error: BaseException, there: Address, proxy: str
) -> ProxyError:
    """Return why a call did not get past its proxy."""
    if isinstance(error, InvalidProxyStatus):
        status = error.response.status_code
        hitch, why = (_BY_STATUS.get(status, ProxyHitch.FORBIDDEN)), f"HTTP {status}"
    else:
        fitting = (hitch for kind, hitch in _HITCHES if isinstance(error, kind))
        hitch = next(fitting, ProxyHitch.NO_ADDRESS)
        why = (
            "SOCKS"
            if hitch is ProxyHitch.NOT_PASSED_ON
            else socket_connection_failure(error)
        )
    return ProxyError(hitch, there, proxy=proxy, why=why)


def _socket_options(limits: ConnectionLimits) -> dict[str, Any]:
    """Return what both ends have in common."""
    return {
        "compression": None,
        **websocket_protocol_options(limits),
        **socket_connection_pace(limits),
    }


def websocket_protocol_options(limits: ConnectionLimits) -> dict[str, Any]:
    """Return what a connection's protocol takes."""
    return {"max_size": limits.max_frame, "logger": _SILENT}


def socket_connection_pace(limits: ConnectionLimits) -> dict[str, Any]:
    """Return what a connection takes: how much, how often, for how long."""
    return {
        "max_queue": limits.inbox_frames,
        "write_limit": limits.write_bytes,
        "ping_interval": limits.ping_interval,
        # A pong may wait behind a long frame: `Link` looks for any sign of life.
        "ping_timeout": None,
        "close_timeout": limits.close_timeout,
    }


def refuse_other_paths(
    connection: ServerConnection, request: Request
) -> Response | None:
    """Answer who asks for anything but the one place where a party is called."""
    if request.path == PATH:
        return None
    return connection.respond(HTTPStatus.NOT_FOUND, "")


def peer_certificate(connection: SocketWire) -> bytes:
    """Return the certificate that the other end proved to hold."""
    tls = connection.transport.get_extra_info("ssl_object")
    return cast(bytes, tls.getpeercert(binary_form=True) or b"")
