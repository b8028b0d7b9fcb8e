"""Server of all web pages of this package: one guard before each application.

A page may load resources from its own server only. Names in an address are looked up,
never opened as files. Other sites cannot act in the name of the page's owner: every
request that changes something must come from the page itself, as JSON. Sizes and times
are bounded before work is done.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, ClassVar
from urllib.parse import urlsplit

from veilsum.consortium.addresses import Address
from veilsum.errors import InvalidInputError, install_advice
from veilsum.net.entrance import (
    ConnectionEntrance,
    EnteringConnection,
    open_connection_limit,
    shrink_tls_buffers,
    tls_for_any_caller,
)
from veilsum.net.handshake import ConnectionLimits
from veilsum.net.refusals import ConnectionRefusalLog, caller_origin, cap_network_logs
from veilsum.net.sockets import socket_connection_failure

try:
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, RedirectResponse, Response
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise InvalidInputError(
        f"pages in a browser need further packages: {install_advice('web')}",
        code="missing-extra",
    ) from error

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
# Connections that are accepted in one turn of the event loop, and that wait for it.
ACCEPTED, WAITING = 64, 1024
# Seconds for TLS.
TLS_SECONDS = 10.0


@dataclass(frozen=True)
class PageBounds:
    """Limits on a caller's use of the server.

    Attributes:
        body: maximum bytes of a request.
        seconds: maximum time for a request to arrive whole.
        connections: maximum number of simultaneous connections of all callers together,
            counted from before TLS.
        burst: maximum requests of one address at once.
        per_second: maximum rate of requests of one address, in the long run.
        addresses: maximum number of callers whose requests are counted; the oldest is
            dropped first.
    """

    body: int = 1 << 16
    seconds: float = 20.0
    connections: int = 256
    burst: float = 60.0
    per_second: float = 20.0
    addresses: int = 10_000


class CallRates:
    """Counts requests by address: a bucket that fills as time goes by."""

    def __init__(
        self, bounds: PageBounds, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bounds, self._clock = bounds, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, caller: str) -> bool:
        """Count one request; say whether it is one too many."""
        now, bounds = self._clock(), self._bounds
        left, when = self._left.pop(caller, (bounds.burst, now))
        left = min(bounds.burst, left + bounds.per_second * (now - when))
        self._left[caller] = max(0.0, left - 1), now
        while len(self._left) > bounds.addresses:
            self._left.popitem(last=False)
        return left >= 1


class WebGuard:
    """Stands before an application; answers itself where it must not be asked.

    Args:
        hosts: names, with ports, under which this server is known; a page under another
            name that leads here reads nothing.
        token: whoever opens the page shows it once, in the address, and has a cookie
            from then on; None: anybody may come.
        open_to_files: paths that a page saved as a file may ask, with all below them.
    """

    def __init__(
        self,
        app: Application,
        hosts: Iterable[str],
        *,
        bounds: PageBounds = PageBounds(),  # noqa: B008 - frozen
        token: str | None = None,
        open_to_files: Iterable[str] = (),
    ) -> None:
        self._app, self._hosts, self._bounds = app, frozenset(hosts), bounds
        self._token, self._open = token, frozenset(open_to_files)
        self._rates = CallRates(bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        path = request.url.path
        from_file = request.headers.get("origin") == "null" and any(
            path == one or path.startswith(f"{one}/") for one in self._open
        )
        tell = partial(self._tell, send, from_file=from_file)
        answer = self._refused(request, from_file=from_file)
        if answer is None and from_file and request.method == "OPTIONS":
            answer = Response(status_code=204)
        if answer is None and not _web_request_only_reads(request):
            answer, receive = await self._read(receive)
        if answer is not None:
            await answer(scope, receive, tell)
            return
        await self._app(scope, receive, tell)

    def _refused(self, request: Request, *, from_file: bool) -> Response | None:
        caller = request.client.host if request.client else ""
        if not self._rates.takes(caller_origin(caller)):
            return _plain_web_response(
                429, "too many requests: wait a little", {"Retry-After": "1"}
            )
        if request.headers.get("host", "") not in self._hosts:
            return _plain_web_response(421, "this server is not known under that name")
        if self._token is not None:
            shown = request.query_params.get("token")
            if shown is not None and _web_request_only_reads(request):
                if not self._same(shown):
                    return _plain_web_response(
                        403, "open the address that the program printed"
                    )
                answer = RedirectResponse(request.url.path, status_code=303)
                secure = request.url.scheme == "https"
                name = _web_session_cookie(request)
                answer.set_cookie(
                    name, shown, httponly=True, samesite="strict", secure=secure
                )
                return answer
            if not self._same(request.cookies.get(_web_session_cookie(request), "")):
                return _plain_web_response(
                    403, "open the address that the program printed"
                )
        if from_file or _web_request_only_reads(request):
            return None
        if not self._is_own(request):
            return _plain_web_response(403, "only the page itself may ask for this")
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind != "application/json":
            return _plain_web_response(415, "expected application/json")
        return None

    def _same(self, shown: str) -> bool:
        assert self._token is not None
        return hmac.compare_digest(shown.encode(), self._token.encode())

    def _is_own(self, request: Request) -> bool:
        """Say whether a browser sent this from a page of this server."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        origin = urlsplit(request.headers.get("origin", ""))
        own = origin.scheme in ("http", "https") and origin.netloc in self._hosts
        return own and site == "same-origin"

    async def _read(self, receive: Receive) -> tuple[Response | None, Receive]:
        """Read a body whole, or say why not; return what gives it to the page."""
        pieces: list[bytes] = []
        try:
            async with asyncio.timeout(self._bounds.seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return _plain_web_response(
                            400, "the request ended half-way"
                        ), receive
                    pieces.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    if sum(map(len, pieces)) > self._bounds.body:
                        text = f"at most {self._bounds.body:,} bytes are taken"
                        return _plain_web_response(413, text), receive
        except TimeoutError:
            return _plain_web_response(408, "the request took too long"), receive
        whole, given = b"".join(pieces), False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": whole, "more_body": False}

        return None, again

    async def _tell(self, send: Send, message: Message, *, from_file: bool) -> None:
        if message["type"] == "http.response.start":
            own = dict(HEADERS)
            if from_file:
                own["Access-Control-Allow-Origin"] = "null"
                own["Access-Control-Allow-Headers"] = "authorization, content-type"
                own["Access-Control-Allow-Methods"] = "POST, GET"
                own["Cross-Origin-Resource-Policy"] = "cross-origin"
            said = {name.lower() for name, _ in message.get("headers", [])}
            more = [
                (name.lower().encode(), value.encode())
                for name, value in own.items()
                if name.lower().encode() not in said
            ]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)


def _web_session_cookie(request: Request) -> str:
    return (
        f"veilsum-{request.url.port}"  # browsers keep one jar for all ports of a host
    )


def _web_request_only_reads(request: Request) -> bool:
    return request.method in ("GET", "HEAD")


def _plain_web_response(
    status: int, text: str, headers: Mapping[str, str] | None = None
) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status_code=status, headers=headers)


def static_page_files(*names: str) -> dict[str, tuple[bytes, str]]:
    """Return files of this package by name, with their kinds: these and no others.

    Args:
        *names: such as "static/guest.js" or "vendor/hpke.js".
    """
    found = {}
    for name in names:
        place = files("veilsum.web").joinpath(*name.split("/"))
        kind = KINDS[name.rsplit(".", 1)[1]]
        found[name.rsplit("/", 1)[1]] = place.read_bytes(), kind
    return found


def web_server_names(address: Address, *more: str) -> list[str]:
    """Return the names of a server at an address, as browsers write them.

    >>> web_server_names(Address("127.0.0.1", 8470))
    ['127.0.0.1:8470', 'localhost:8470']
    """
    host = f"[{address.host}]" if ":" in address.host else address.host
    names = [f"{host}:{address.port}"]
    try:
        if ip_address(address.host).is_loopback:
            names.append(f"localhost:{address.port}")
    except ValueError:
        pass
    return [*names, *more]


def listening_page_socket(address: Address) -> socket.socket:
    """Return a socket that listens; a port of 0 is any that is free.

    Raises:
        InvalidInputError: nobody can listen there.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        found = socket.create_server((address.host, address.port), family=family)
        # What is accepted has it from here: an answer's second packet would otherwise
        # wait 40 ms for the first to be acknowledged. asyncio does it for its own only.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(
            f"cannot listen at {address}: {reason}; choose another port",
            code="cannot-listen",
        ) from None


class _TimedWebConnection(EnteringConnection, H11Protocol):
    """A connection that must ask in time; uvicorn itself would wait for ever."""

    patience: ClassVar[float]

    def begin(self, transport: asyncio.Transport) -> None:
        """Wait for the first request."""
        self._timer = self.loop.call_later(self.patience, self._look)
        self._unread = self._timer
        super().begin(transport)

    @property
    def is_waited_for(self) -> bool:
        """Whether the next request has not come, or not wholly."""
        now: Any = self.cycle
        return now is None or now.response_complete or now.more_body

    def on_response_complete(self) -> None:
        """Wait for another request, as for the first."""
        super().on_response_complete()
        self._timer.cancel()
        self._timer = self.loop.call_later(self.patience, self._look)

    def _look(self) -> None:
        if self.is_waited_for:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Wait for who does not read what it asked for, and for so long only."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.transport is not None:  # uvicorn's own, once TLS is there
            self._timer.cancel()
            self._unread.cancel()
        super().connection_lost(exc)


class PageServer:
    """Serves an application, until it is told to stop.

    Args:
        listener: what to listen at; it is closed at the end.
        tls: files of a certificate and its key; None: plain HTTP, which is for this
            computer, or for behind a proxy.
    """

    def __init__(
        self,
        app: Application,
        listener: socket.socket,
        *,
        bounds: PageBounds = PageBounds(),  # noqa: B008 - frozen
        tls: tuple[str, str] | None = None,
    ) -> None:
        context = None
        if tls is not None:
            context = tls_for_any_caller(*tls)
            shrink_tls_buffers()
        self._refusals = ConnectionRefusalLog(ConnectionLimits())
        self._entrance = ConnectionEntrance(
            context,
            most=min(bounds.connections, open_connection_limit() // 2),
            timeout=TLS_SECONDS,
            parting=2.0,
            refused=self._turned_away,
        )
        cap_network_logs("uvicorn.error")
        own = {"patience": bounds.seconds, "entrance": self._entrance}
        protocol = type("Timed", (_TimedWebConnection,), own)
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=1 << 15,
            backlog=ACCEPTED,
        )
        config.load()
        self._server, self._listener = uvicorn.Server(config), listener
        self._server.lifespan = config.lifespan_class(config)

    async def serve(self) -> None:
        """Answer until `stop`; signals are the program's own affair."""
        await self._server.startup(sockets=[self._listener])
        self._listener.listen(WAITING)  # asyncio takes one number for both
        await self._server.main_loop()
        await self._entrance.shut()
        await self._server.shutdown(sockets=[self._listener])

    def stop(self) -> None:
        """End soon: answers that are under way are given two seconds."""
        self._server.should_exit = True

    def _turned_away(self, address: str, error: BaseException) -> None:
        source = caller_origin(address.rpartition(":")[0])
        about = {"address": address, "reason": socket_connection_failure(error)}
        self._refusals.note(source, "caller refused", **about)
