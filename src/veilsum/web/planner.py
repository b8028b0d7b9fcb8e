"""The planner page: draw a network, and see at once what it withstands.

The mathematics is done by processes that are kept warm (`planning`). A page that has
drawn something else meanwhile hangs up, and what still works for it is ended soon: a
search that nobody waits for takes no time from the next one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from veilsum.consortium.addresses import Address
from veilsum.errors import InvalidInputError
from veilsum.scale import ONE_THREAD
from veilsum.web.pages import (
    Application,
    PageBounds,
    PageServer,
    WebGuard,
    listening_page_socket,
    static_page_files,
    web_server_names,
)
from veilsum.web.planning import (
    ASKED,
    MOST_FILE,
    MOST_LINKS,
    MOST_PARTIES,
)

FILES = (
    "static/planner.html",
    "static/planner.js",
    "static/planner_words.js",
    "static/planner.css",
    "vendor/cytoscape.js",
)
# A hand that drags asks at every move; a file is written as JSON, with its escapes.
PLANNER_BOUNDS = PageBounds(body=3 * MOST_FILE, burst=600.0, per_second=150.0)
# Bytes of a drawn network: names of 64 bytes, and links.
MOST_QUESTION = 1 << 18
# One for the network as it is, one for its repair.
PROCESSES = 2
# Seconds for an answer; and what a page that hung up is still worth: about as long as
# another process takes to start.
PATIENCE, GRACE = 20.0, 0.5


class LeftError(Exception):
    """The client has disconnected."""


class PlannerProcesses:
    """Processes that answer questions; one that takes too long is replaced.

    Args:
        patience: seconds for an answer.
        grace: seconds for an answer that nobody waits for.
    """

    def __init__(self, *, patience: float = PATIENCE, grace: float = GRACE) -> None:
        self._patience, self._grace = patience, grace
        self._idle: asyncio.Queue[Process] = asyncio.LifoQueue()
        self._starting: set[asyncio.Task[None]] = set()
        self._all: set[Process] = set()

    async def __aenter__(self) -> PlannerProcesses:
        for _ in range(PROCESSES):
            self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*map(_end_planner_process, self._all))

    def _start(self) -> None:
        task = asyncio.create_task(self._started())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _started(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "veilsum.web.planning",
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, **ONE_THREAD},
            limit=1 << 24,
        )
        self._all.add(process)
        assert process.stdout is not None
        if await process.stdout.readline() == b"ready\n":
            self._idle.put_nowait(process)

    async def ask(
        self, what: str, body: bytes, left: asyncio.Future[Any]
    ) -> dict[str, Any]:
        """Return the answer to a question.

        Args:
            what: one of `ASKED`.
            body: JSON.
            left: done as soon as nobody waits for the answer any more.

        Raises:
            LeftError: nobody did.
            TimeoutError: it took too long.
        """
        process = await self._idle.get()
        if left.done():
            self._idle.put_nowait(process)
            raise LeftError
        answer = asyncio.ensure_future(_ask_planner_process(process, what, body))
        await asyncio.wait(
            {answer, left},
            timeout=self._patience,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not answer.done() and left.done():
            await asyncio.wait({answer}, timeout=self._grace)
        if answer.done() and answer.exception() is None and answer.result():
            self._idle.put_nowait(process)
            if left.done():
                raise LeftError
            found: dict[str, Any] = msgspec.json.decode(answer.result())
            return found
        answer.cancel()
        self._all.discard(process)
        await _end_planner_process(process)
        self._start()
        if left.done():
            raise LeftError
        raise TimeoutError


async def _ask_planner_process(process: Process, what: str, body: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    # A line is a question: JSON has no line breaks but between its words.
    process.stdin.write(what.encode() + b" " + body.replace(b"\n", b" ") + b"\n")
    await process.stdin.drain()
    return await process.stdout.readline()


async def _end_planner_process(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def planner_app(
    processes: PlannerProcesses, start: Mapping[str, Any] | None = None
) -> Application:
    """Return the page and what it asks for, without a guard.

    Args:
        processes: which answer.
        start: what the page shows first; see `planner.js`.
    """
    found = static_page_files(*FILES)
    sizes = {"parties": MOST_PARTIES, "links": MOST_LINKS, "file": MOST_FILE}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "planner.html")
        if name not in found:
            return Response("there is no such page\n", 404, media_type="text/plain")
        content, kind = found[name]
        return Response(content, headers={"Content-Type": kind})

    async def first(_: Request) -> Response:
        return JSONResponse({**(start or {}), "most": sizes})

    async def answer(request: Request) -> Response:
        what = request.url.path.rsplit("/", 1)[1]
        body = await request.body()
        if what != "file" and len(body) > MOST_QUESTION:
            return _refused_planner_request(
                413, f"at most {MOST_QUESTION:,} bytes are taken"
            )
        left = asyncio.ensure_future(_planner_request_hung_up(request))
        try:
            found = await processes.ask(what, body, left)
        except LeftError:
            return Response(status_code=499)  # nobody reads it
        except TimeoutError:
            return _refused_planner_request(
                503,
                "this takes too long for a page: draw fewer parties or links, tolerate "
                "fewer, or use veilsum plan and veilsum doctor",
            )
        finally:
            left.cancel()
        return JSONResponse(found)  # what is wrong with a drawing is an answer too

    routes = [
        *(Route(f"/{what}", answer, methods=["POST"]) for what in ASKED),
        Route("/start", first),
        Route("/", page),
        Route("/{name}", page),
    ]
    return Starlette(routes=routes)


def _refused_planner_request(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status_code=status)


async def _planner_request_hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def planner_address(text: str) -> Address:
    """Return an address of this computer that no other one reaches; refuse all else.

    >>> str(planner_address("127.0.0.1:8472"))
    '127.0.0.1:8472'
    """
    address = Address.of(text)
    with suppress(ValueError):
        if ip_address(address.host).is_loopback:
            return address
    raise InvalidInputError(
        "the planner page is for this computer only, at an address such as "
        f"127.0.0.1:8472 or [::1]:8472, found {text!r}",
        code="address-not-local",
    )


async def serve_planner(
    address: Address,
    *,
    opened: Callable[[str], None],
    start: Mapping[str, Any] | None = None,
    over: asyncio.Event | None = None,
    processes: PlannerProcesses | None = None,
) -> None:
    """Serve the page on this computer until `over`, or a signal to stop.

    Args:
        address: where, on loopback; a port of 0 is any that is free.
        opened: is told the address to open, with its token.
        start: what the page shows first.
        over: set by whoever wants it to end; None: signals do.
        processes: which answer.
    """
    listener = listening_page_socket(address)
    own = Address(address.host, listener.getsockname()[1])
    token = secrets.token_urlsafe(24)
    async with processes or PlannerProcesses() as answering:
        guard = WebGuard(
            planner_app(answering, start),
            web_server_names(own),
            bounds=PLANNER_BOUNDS,
            token=token,
        )
        server = PageServer(guard, listener, bounds=PLANNER_BOUNDS)
        if over is None:
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(
                    number,
                    lambda *_, end=over: loop.call_soon_threadsafe(end.set),
                )
        serving = asyncio.create_task(server.serve())
        opened(f"http://{web_server_names(own)[0]}/?token={token}")
        await over.wait()
        server.stop()
        await serving
