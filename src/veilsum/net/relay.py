"""A relay: joins two outbound connections of one run into a stream of bytes.

Members call it, show a token and pseudonyms, and wait. When both of a pair are there it
tells them so, and from then on passes on what either sends, frame by frame. What it
carries is TLS between the members: it holds no key, keeps nothing, and knows
pseudonyms, addresses, times and sizes.

Everything is bounded before work is done: callers that have shown nothing yet (the
oldest of a busy address goes first), connections in all, by token and run, bytes on
their way, bytes a second, how long somebody waits, is silent or stays. Each token has
its share of the connections, whatever run names its holders choose: one consortium
cannot use up the relay of another.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from veilsum.consortium.addresses import Address
from veilsum.errors import InvalidInputError
from veilsum.net.entrance import (
    caller_address,
    open_connection_limit,
    shrink_tls_buffers,
)
from veilsum.net.handshake import ConnectionLimits
from veilsum.net.refusals import ConnectionRefusalLog, caller_origin
from veilsum.net.relay_tokens import (
    JOINED,
    MOST_FRAME,
    RELAY_PATH,
    RelayPass,
    relay_admits,
)
from veilsum.net.sockets import (
    AnsweredSocket,
    ConnectionClosed,
    SocketDoor,
    broadcast,
    socket_connection_failure,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

LOG = logging.getLogger("veilsum.net")
# Seconds between two looks at everybody, and to take leave of a relay that ends.
LOOK, LAST_WORDS = 1.0, 2.0
# Callers at a time that ask for numbers.
NUMBERS_CALLERS = 16
# Why a relay ends a connection: codes of the close frame.
GOING, RESTART, BREACH = 1001, 1012, 1008
LEFT, REPLACED, LATE = 4100, 4101, 4102


@dataclass(frozen=True, kw_only=True)
class RelayLimits:
    """Bounds of one relay: counts, bytes, seconds.

    Attributes:
        connections: of members in all; a link has two.
        per_token: of members with one token; by default an equal share of
            `connections`.
        strangers: callers at a time that have not shown a token.
        open_timeout: seconds for TLS and the request.
        silence: seconds without a sign of life; members send one every ten.
        wait: seconds for the other end to come; a member may call again.
        longest: seconds that a connection may last.
        per_second: bytes that one end may send in a second.
        total: bytes that one connection may send in all.
        buffer: bytes that wait for an end that reads slowly before the other waits.
    """

    connections: int = 4096
    per_token: int | None = None
    per_run: int = 2048
    strangers: int = 512
    open_timeout: float = 10.0
    silence: float = 45.0
    wait: float = 3600.0
    longest: float = 7 * 86400.0
    per_second: int = 1 << 25
    total: int = 1 << 40
    buffer: int = 1 << 17

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not value > 0:
                raise InvalidInputError(
                    f"a limit must be above 0, found {name} = {value}",
                    code="limit-not-positive",
                )


def websocket_frame(data: bytes) -> bytes:
    """Return a whole binary frame as a server sends it (RFC 6455, 5.2).

    The same as `websockets` writes, in a tenth of the time: a relay does little else.
    """
    size = len(data)
    if size < 126:
        return bytes((0x82, size)) + data
    if size < 1 << 16:
        return b"\x82\x7e" + size.to_bytes(2, "big") + data
    return b"\x82\x7f" + size.to_bytes(8, "big") + data


class RelayHalf(AnsweredSocket):
    """One member's connection: half of a link, once the other is there.

    Attributes:
        place: of whose token, which run and which pair.
        since: when it was admitted.
        sent: bytes that it has sent in all.
        now: bytes that it has sent since the last look.
    """

    shown: RelayPass | None = None
    place: tuple[str, str, frozenset[str]] | None = None
    other: RelayHalf | None = None
    since = 0.0
    sent, now, most = 0, 0, 0
    _slowed, _stopped, _sent_away = False, False, False

    def carry(self, data: bytes) -> None:
        other = self.other
        if other is None:
            if not self._sent_away:
                self.dismiss(BREACH, "nobody is there yet")
            return
        self.sent += len(data)
        self.now += len(data)
        if other.is_open:
            other.transport.write(websocket_frame(data))
        if other.paused or self.now > self.most:
            self.slow(self.now > self.most)

    def slow(self, is_fast: bool) -> None:  # noqa: FBT001 - one flag
        """Read again or not, as the other end takes it and the second has room."""
        self._slowed = is_fast
        stop = is_fast or (self.other is not None and self.other.paused)
        if stop is self._stopped or self._sent_away or self.transport.is_closing():
            return
        self._stopped = stop
        (self.transport.pause_reading if stop else self.transport.resume_reading)()

    def resume_writing(self) -> None:
        """Let the other end send again."""
        super().resume_writing()
        if self.other is not None:
            self.other.slow(self.other._slowed)  # noqa: SLF001 - its twin

    def look(self) -> None:
        """Begin a new second."""
        self.now = 0
        if self._slowed:
            self.slow(False)  # noqa: FBT003 - one flag

    def dismiss(self, code: int, why: str) -> None:
        """End it in good order; at once if it does not go."""
        self._sent_away = True
        if self._stopped:  # it cannot go while nobody listens to it
            self._stopped = False
            self.transport.resume_reading()
        if self.is_open:
            self.protocol.send_close(code, why)
            self.send_data()
        self.loop.call_later(self.close_timeout or 0.0, self.transport.abort)


class RelayServer(SocketDoor):
    """Where members call to meet others.

    Args:
        admitted: SHA-256 of the tokens that admit, hexadecimal.
        limits: bounds of everything.
        context: how to speak TLS; None behind a reverse proxy that does.
    """

    made = RelayHalf

    def __init__(
        self,
        admitted: Collection[str],
        limits: RelayLimits,
        context: ssl.SSLContext | None = None,
    ) -> None:
        inner = ConnectionLimits(
            max_frame=MOST_FRAME,
            write_bytes=limits.buffer,
            strangers=limits.strangers,
            open_timeout=limits.open_timeout,
            close_timeout=10.0,  # for the last frames of a link
        )
        super().__init__(context, inner, self._turned_away)
        self._admitted = tuple(dict.fromkeys(admitted))
        self._bounds = self._affordable(limits)
        self._rooms: dict[tuple[str, str, frozenset[str]], dict[str, RelayHalf]] = {}
        share = self._bounds.connections // max(1, len(self._admitted))
        self._per_token = self._bounds.per_token or max(1, share)
        self._tokens: Counter[str] = Counter()
        self._runs: Counter[tuple[str, str]] = Counter()
        self._halves: set[RelayHalf] = set()
        self._log = ConnectionRefusalLog(inner)
        self._metrics: _NumbersDoor | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._draining = False
        self._emptied = asyncio.Event()
        self._gone = 0
        self.counts: Counter[str] = Counter()

    @staticmethod
    def _affordable(limits: RelayLimits) -> RelayLimits:
        """Return limits with no more connections than the system allows files."""
        most = open_connection_limit() // 2
        if limits.connections <= most:
            return limits
        reason = (
            f"the system's limit on open files (ulimit -n) allows {most} connections, "
            f"not {limits.connections}"
        )
        LOG.warning("fewer connections", extra={"reason": reason})
        return replace(limits, connections=most)

    # Opening and closing

    async def start(self, address: Address, metrics: Address | None = None) -> None:
        """Listen; members' connections are served until `stop`."""
        shrink_tls_buffers()
        # Members say that they live: no task for each that asks them.
        backlog = min(1024, open_connection_limit() // 8)
        await self.open(address, self._serve, ping_interval=None, backlog=backlog)
        if metrics is not None:
            self._metrics = _NumbersDoor(self)
            await self._metrics.open(metrics, _relay_serves_nobody)
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        LOG.info("listening", extra={"address": str(address)})

    async def stop(self, grace: float) -> None:
        """Take nobody any more, let links go on for so long, then end them."""
        assert self._server is not None
        self._draining = True
        await self._stop_accepting()
        self._server.server.close()  # the port is free for the next relay at once
        for half in self._halves:
            if half.other is None:
                half.dismiss(RESTART, "the relay restarts")
        if self.n_links:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), grace)
        for half in self._halves:
            half.dismiss(RESTART, "the relay restarts")
        if self._server.handler_tasks:
            await asyncio.wait(self._server.handler_tasks, timeout=LAST_WORDS)
        for half in self._halves:
            half.transport.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        if self._metrics is not None:
            await self._metrics.close()
        await self.close()

    # Callers

    def turn_away(self, plain: asyncio.Transport) -> None:
        """Hang up on a caller because there are too many; count it, and log nothing."""
        self.counts["refused_crowded"] += 1
        plain.abort()

    def _turned_away(self, address: str, error: BaseException) -> None:
        self.counts["refused_tls"] += 1
        self._note(address, socket_connection_failure(error))

    def _note(self, address: str, why: str) -> None:
        source = caller_origin(address.rpartition(":")[0])
        self._log.note(source, "caller refused", address=address, reason=why)

    def asked(self, connection: ServerConnection, request: Request) -> Response | None:
        """Admit a member, or say why not."""
        assert isinstance(connection, RelayHalf)
        found = self._refusal(connection, request)
        if found is None:
            return None
        status, words = found
        self.counts[f"refused_{status.value}"] += 1
        self._note(caller_address(connection.transport), words)
        return connection.respond(status, f"{words}\n")

    def _refusal(
        self, half: RelayHalf, request: Request
    ) -> tuple[HTTPStatus, str] | None:
        bounds, headers = self._bounds, request.headers
        if not request.path.endswith(RELAY_PATH):
            return HTTPStatus.NOT_FOUND, "nothing is here"
        digest = relay_admits(
            _single_relay_header(headers, "Authorization"), self._admitted
        )
        if digest is None:
            return HTTPStatus.UNAUTHORIZED, "no token that is admitted"
        shown = RelayPass.of(partial(_single_relay_header, headers))
        if shown is None:
            return HTTPStatus.BAD_REQUEST, "no pass"
        place = (digest, shown.run, frozenset((shown.me, shown.to)))
        room = self._rooms.get(place, {})
        if self._draining or len(self._halves) >= bounds.connections:
            return HTTPStatus.SERVICE_UNAVAILABLE, "no room"
        if self._tokens[digest] >= self._per_token:
            return HTTPStatus.TOO_MANY_REQUESTS, "no room for more of this token"
        if self._runs[digest, shown.run] >= bounds.per_run:
            return HTTPStatus.TOO_MANY_REQUESTS, "no room for more of this run"
        if shown.look and shown.me in room:
            return HTTPStatus.CONFLICT, "it is there already"
        half.shown, half.place = shown, place
        return None

    # Members

    async def _serve(self, connection: AnsweredSocket) -> None:
        """Seat a member, and keep it until it ends."""
        half = connection
        assert isinstance(half, RelayHalf)
        assert half.shown is not None
        half.known()
        half.since, half.most = half.loop.time(), self._bounds.per_second
        half.take = half.carry
        self._seat(half)
        try:
            await half.recv()
            half.dismiss(BREACH, "a text, or a frame in pieces")
            await half.connection_lost_waiter
        except ConnectionClosed:
            pass
        finally:
            self._leave(half)

    def _seat(self, half: RelayHalf) -> None:
        assert half.shown is not None
        assert half.place is not None
        shown = half.shown
        room = self._rooms.setdefault(half.place, {})
        before = room.get(shown.me)
        if before is not None:
            # It calls anew because it is gone there: its other end calls anew, too.
            self._part(before)
            before.dismiss(REPLACED, "a newer connection took its place")
        room[shown.me] = half
        self._halves.add(half)
        self._tokens[half.place[0]] += 1
        self._runs[half.place[:2]] += 1
        self.counts["admitted"] += 1
        other = room.get(shown.to)
        if other is not None:
            half.other, other.other = other, half
            self.counts["joined"] += 1
            broadcast((other, half), JOINED)

    def _part(self, half: RelayHalf) -> None:
        """Take a member out of its room, and send its other end away to come again."""
        other, half.other = half.other, None
        for one in (half, other):
            if one is None or one.place is None or one.shown is None:
                continue
            room = self._rooms.get(one.place, {})
            if room.get(one.shown.me) is one:
                del room[one.shown.me]
            # An empty room stays for whoever is about to be seated in it.
        if other is not None:
            other.other = None
            other.dismiss(LEFT, "the other end has left")

    def _leave(self, half: RelayHalf) -> None:
        assert half.place is not None
        self._part(half)
        self._halves.discard(half)
        self._gone += half.sent
        if not self.n_links:
            self._emptied.set()
        self._tokens[half.place[0]] -= 1
        run = half.place[:2]
        self._runs[run] -= 1
        if not self._runs[run]:
            del self._runs[run]
        if not self._rooms.get(half.place, True):
            del self._rooms[half.place]

    async def _sweep(self) -> None:
        """See to it that nobody is silent, waits or stays for too long."""
        loop, bounds = asyncio.get_running_loop(), self._bounds
        while True:
            await asyncio.sleep(LOOK)
            now = loop.time()
            for half in tuple(self._halves):
                half.look()
                # Who may not send shows no sign of life.
                stopped = half.transport.is_closing() or half._stopped  # noqa: SLF001
                if now - half.heard_at > bounds.silence and not stopped:
                    half.transport.abort()
                elif half.other is None and now - half.since > bounds.wait:
                    half.dismiss(LATE, "the other end has not come")
                elif now - half.since > bounds.longest or half.sent > bounds.total:
                    half.dismiss(GOING, "a link ends here, and may begin anew")

    # Numbers

    @property
    def n_links(self) -> int:
        return sum(half.other is not None for half in self._halves) // 2

    def metrics(self) -> str:
        """Return numbers for whoever watches over the relay; of nobody in particular.

        In the text format of Prometheus.
        """
        links = self.n_links
        gauges = {
            "connections": len(self._halves),
            "links": links,
            "waiting": len(self._halves) - 2 * links,
            "strangers": self.n_callers,
            "runs": len(self._runs),
        }
        carried = self._gone + sum(half.sent for half in self._halves)
        totals = dict(sorted({**self.counts, "carried_bytes": carried}.items()))
        lines = [f"veilsum_relay_{name} {value}" for name, value in gauges.items()]
        lines += [
            f"veilsum_relay_{name}_total {totals[name]}" for name in sorted(totals)
        ]
        return "\n".join([*lines, ""])


class _NumbersDoor(SocketDoor):
    """Where numbers of a relay are asked for."""

    def __init__(self, relay: RelayServer) -> None:
        limits = ConnectionLimits(strangers=NUMBERS_CALLERS)
        super().__init__(None, limits, lambda *_: None)
        self._relay = relay

    def asked(self, connection: ServerConnection, request: Request) -> Response:
        if request.path == "/metrics":
            return connection.respond(HTTPStatus.OK, self._relay.metrics())
        return connection.respond(HTTPStatus.NOT_FOUND, "")


async def _relay_serves_nobody(connection: AnsweredSocket) -> None:
    """Serve none: where numbers are told there are no WebSockets."""


def _single_relay_header(headers: Any, name: str) -> str:
    """Return the one header of a name; of several, none."""
    found = headers.get_all(name)
    return found[0] if len(found) == 1 else ""
