"""The entrance of every server: callers are counted and timed before TLS begins.

A connection counts from its first packet until it is known or over. Beyond the limit,
the address with the most connections loses its oldest one that is still waited for:
silent strangers make room for others, and one address cannot keep another out.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from veilsum.errors import InvalidInputError
from veilsum.net.refusals import caller_origin, cap_network_logs

# Files that a program has open besides its connections.
OWN_FILES = 128
# Bytes that asyncio keeps for every connection under TLS; its default is 256 kB.
TLS_BYTES = 1 << 13
# Forward secrecy and authenticated encryption: nothing in CBC mode.
AEAD = "ECDHE+AESGCM:ECDHE+CHACHA20"

Refused = Callable[[str, BaseException], None]


def shrink_tls_buffers() -> None:
    """Have TLS connections of this process keep small buffers, for very many of them.

    Large transfers take longer then.
    """
    sslproto.SSLProtocol.max_size = TLS_BYTES


def open_connection_limit() -> int:
    """Return how many connections the system's limit on open files allows."""
    try:
        import resource
    except ImportError:  # not every system counts them
        return 1 << 20
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return 1 << 20
    return int(max(most - OWN_FILES, most // 2))


def tls_for_any_caller(certificate: str | Path, key: str | Path) -> ssl.SSLContext:
    """Return how to speak TLS with callers that show no certificate.

    Args:
        certificate: file of the server's certificate with its chain, PEM.
        key: file of its key, PEM.

    Raises:
        InvalidInputError: the files do not serve.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(AEAD)  # of TLS 1.2; all of TLS 1.3 are
    context.num_tickets = 0  # callers come seldom; tickets are kept for each
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"cannot use {certificate} with {key}: {error.strerror or error}",
            code="unusable-certificate",
        ) from None
    return context


def caller_address(transport: asyncio.BaseTransport) -> str:
    """Return the address at the other end, for the log."""
    found = transport.get_extra_info("peername")
    if not found:
        return "unknown"
    host, port = found[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class EnteringConnection(asyncio.Protocol if TYPE_CHECKING else object):  # type: ignore[misc]
    """A protocol that begins once its entrance has secured the connection.

    It is a mixin: the protocol behind it follows among the bases.
    """

    entrance: ConnectionEntrance
    _begun, _early = False, b""

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller has yet to send something."""
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter with a bare connection, and begin nothing else."""
        plain = cast(asyncio.Transport, transport)
        plain.pause_reading()
        self.entrance.enter(self, plain)

    def begin(self, transport: asyncio.Transport) -> None:
        """Start the protocol, with the bytes that came right after TLS."""
        self._begun = True
        super().connection_made(transport)
        early, self._early = self._early, b""
        if early:
            super().data_received(early)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes that come before the protocol begins."""
        if self._begun:
            super().data_received(data)
        else:
            self._early += data

    def eof_received(self) -> None:
        if self._begun:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the entrance, and end if anything began."""
        self.entrance.leave(self)
        if self._begun:
            super().connection_lost(exc)


class ConnectionEntrance:
    """Counts and times callers, and secures their connections.

    Args:
        context: how to speak TLS; None: not at all.
        most: callers at a time that are counted.
        timeout: seconds for TLS.
        parting: seconds for TLS to end in good order.
        refused: called with the address and the reason where a caller is turned away.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        *,
        most: int,
        timeout: float,
        parting: float,
        refused: Refused,
    ) -> None:
        self._context, self._most, self._refused = context, most, refused
        self._timeout, self._parting = timeout, parting
        # Connections by origin, the oldest first.
        self._callers: dict[str, dict[EnteringConnection, asyncio.Transport]] = {}
        self._origins: dict[EnteringConnection, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        cap_network_logs("asyncio")

    @property
    def n_callers(self) -> int:
        return len(self._origins)

    def enter(self, connection: EnteringConnection, plain: asyncio.Transport) -> None:
        """Count a caller, and secure its connection."""
        if self._closed:  # it was accepted just before that
            plain.abort()
            return
        peer = plain.get_extra_info("peername")
        source = caller_origin(str(peer[0])) if peer else ""
        self._callers.setdefault(source, {})[connection] = plain
        self._origins[connection] = source
        if len(self._origins) > self._most:
            self._make_room()
        if connection in self._origins:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._secure(connection, plain))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def leave(self, connection: EnteringConnection) -> bool:
        """Count a caller no longer; return whether it was counted."""
        source = self._origins.pop(connection, None)
        if source is None:
            return False
        callers = self._callers[source]
        del callers[connection]
        if not callers:
            del self._callers[source]
        return True

    def turn_away(self, plain: asyncio.Transport) -> None:
        """Hang up on a caller because there are too many."""
        self._refused(
            caller_address(plain), ConnectionError("too many callers at a time")
        )
        plain.abort()

    def _make_room(self) -> None:
        """Hang up on the oldest caller of the busiest origin that is waited for."""
        for callers in sorted(self._callers.values(), key=len, reverse=True):
            for connection, plain in callers.items():
                if connection.is_waited_for:
                    self.leave(connection)
                    self.turn_away(plain)
                    return

    async def _secure(
        self, connection: EnteringConnection, plain: asyncio.Transport
    ) -> None:
        if plain.is_closing():
            self.leave(connection)
            return
        if self._context is None:
            connection.begin(plain)
            plain.resume_reading()
            return
        try:
            secure = await asyncio.get_running_loop().start_tls(
                plain,
                connection,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._timeout,
                ssl_shutdown_timeout=self._parting,
            )
        except OSError as error:
            if self.leave(connection):
                self._refused(caller_address(plain), error)
            return
        if secure is None or secure.is_closing():
            self.leave(connection)
            return
        connection.begin(secure)

    async def shut(self) -> None:
        """Let nobody in, and hang up on callers that are waited for."""
        self._closed = True
        for callers in self._callers.values():
            for connection, plain in callers.items():
                if connection.is_waited_for:
                    plain.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
