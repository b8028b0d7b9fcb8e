"""The runs of this computer on a page, as they go.

What `veilsum status` reads is looked at again and again, and what has changed is sent
to whoever has the page open (server-sent events). Nobody's queue grows: a page that
comes, or reads slowly, is sent how things stand then. Nothing is read beside statuses,
consortium files and, for a report, what `veilsum report` takes; a run is found by what
it is called in the list, and no part of an address is ever a path.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from veilsum.consortium.addresses import Address, is_any_address, is_loopback_address
from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import runs_of_agreement
from veilsum.errors import InvalidInputError, VeilsumError, install_advice, printable
from veilsum.files.consortiums import read_agreement
from veilsum.files.output import write_files
from veilsum.files.permissions import why_file_is_open_to_others
from veilsum.files.safe_read import read_file_contents
from veilsum.graphs.layout import layout_of_graph
from veilsum.page import NOTHING_FROM_OUTSIDE
from veilsum.party.run_status import (
    STAGES,
    RunStatus,
    read_run_status,
    run_status_advice,
    run_status_files,
    run_status_seconds,
)
from veilsum.protocol.losing import withheld_words
from veilsum.web.pages import (
    PageBounds,
    PageServer,
    Receive,
    Scope,
    Send,
    WebGuard,
    listening_page_socket,
    static_page_files,
    web_server_names,
)

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise InvalidInputError(
        f"pages in a browser need further packages: {install_advice('web')}",
        code="missing-extra",
    ) from error

MakeReport: TypeAlias = Callable[[Path, Sequence[Path]], bytes]

USUAL = "127.0.0.1:8471"
TOKEN_FILE, TOKEN_BYTES = "page.token", 16
# A browser has six connections with a server: the rest is for pages and reports.
MOST_STREAMS = 4
# Seconds between two looks, twenty times what one takes at least; and between two signs
# of life.
LOOK_SECONDS, AT_LEAST, BEAT_SECONDS = 1.0, 20.0, 10.0
# What is shown: runs, the last ones that moved; looks at each; lines of the log, and
# letters of one.
MOST_RUNS, MOST_SAMPLES, MOST_LINES, MOST_LETTERS = 200, 1200, 300, 500
# Consortium files whose network is remembered, and reports; links that are drawn.
MOST_NETWORKS, MOST_REPORTS, MOST_LINKS = 256, 8, 4_000
PAGE_FILES = (
    *("static/live.html", "static/live.js", "static/live.css"),
    *("vendor/uplot.js", "vendor/uplot.css"),
)
ANYWHERE = (
    "a page is for this computer only, at an address such as 127.0.0.1:8471, found "
    "{}; --page-open lets others reach it: whoever has the printed address then sees "
    "all runs, reasons and reports, and so does whoever is on the way, for it is "
    "plain HTTP"
)


def live_page_address(text: str, *, opened: bool) -> Address:
    """Return where the page is to be; refuse what others reach, unless that is meant.

    >>> str(live_page_address("127.0.0.1:8471", opened=False))
    '127.0.0.1:8471'
    """
    address = Address.of(text)
    if is_any_address(address.host):
        raise InvalidInputError(
            f"a page needs the address under which browsers know it, found {text!r}: "
            "give the one that they are to open",
            code="page-address-missing",
        )
    if not opened and not is_loopback_address(address.host):
        raise InvalidInputError(ANYWHERE.format(repr(text)), code="page-address-open")
    return address


def live_page_token(folder: Path) -> str:
    """Return the token of a folder's page, made if needed.

    It is kept, so that a page that is open goes on when the program has been restarted.
    """
    path = folder / TOKEN_FILE
    if not path.exists():
        made = secrets.token_hex(TOKEN_BYTES)
        write_files(folder, {TOKEN_FILE: f"{made}\n".encode()}, private=True)
    if (why := why_file_is_open_to_others(path, path.stat())) is not None:
        raise InvalidInputError(
            f"others could open the page in your place: {why}",
            code="token-file-exposed",
        )
    token = (
        read_file_contents(path, 1000, InvalidInputError)
        .decode("ascii", "replace")
        .strip()
    )
    if not re.fullmatch(rf"[0-9a-f]{{{2 * TOKEN_BYTES}}}", token):
        raise InvalidInputError(
            f"{path} holds no token of a page: remove it, and a new one is made",
            code="not-a-token",
        )
    return token


class LogLines(logging.Handler):
    """Keeps the last lines of a log, as its formatter writes them, with numbers."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._lines: deque[tuple[int, str]] = deque(maxlen=MOST_LINES)
        self._last = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; called with the handler's lock."""
        self._last += 1
        text = printable(self.format(record).strip())[:MOST_LETTERS]
        self._lines.append((self._last, text))

    def after(self, number: int) -> tuple[int, list[str]]:
        """Return the lines after one, and the number of the last."""
        self.acquire()
        try:
            return self._last, [text for k, text in self._lines if k > number]
        finally:
            self.release()


@dataclass(frozen=True, eq=False)
class SeenRun:
    """A status as it was last seen.

    Attributes:
        shown: what the page is told, but for samples.
        version: of the look that found it so.
        samples: (version, sample) of the last looks that found something else.
    """

    status: RunStatus
    shown: dict[str, Any]
    version: int
    samples: tuple[tuple[int, list[Any]], ...]


@dataclass(frozen=True, eq=False)
class LiveLook:
    """Snapshot of the watched runs; immutable, since another thread reads it.

    Attributes:
        version: number of snapshots that differed from the one before.
        runs: runs by name.
        left_out: number of files that are not shown.
    """

    version: int = 0
    runs: Mapping[str, SeenRun] = field(default_factory=dict)
    left_out: int = 0

    def since(self, version: int) -> dict[str, Any]:
        """Return what has changed since a look; since 0, everything."""
        runs = [
            {
                **one.shown,
                "samples": [new for number, new in one.samples if number > version],
            }
            for one in self.runs.values()
            if one.version > version
        ]
        return {
            "whole": version == 0,
            "runs": runs,
            "here": list(self.runs),
            "left_out": self.left_out,
        }


class RunWatch:
    """Looks at the statuses of a folder, and knows what has changed since when."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.found = LiveLook()
        self._folder, self.clock = folder, clock
        self._read: dict[Path, tuple[object, RunStatus | None]] = {}
        self._networks: OrderedDict[str, dict[str, Any] | None] = OrderedDict()

    def look(self) -> bool:
        """Look once; say whether anything has changed."""
        before, now = self.found, self.clock()
        version = before.version + 1
        self._read = {one: self._reading(one) for one in run_status_files(self._folder)}
        there = {
            (
                hashlib.sha256(
                    str(path).encode("utf-8", "surrogateescape")
                ).hexdigest()[:16]
            ): status
            for path, (_, status) in self._read.items()
            if status is not None
        }
        latest = sorted(there, key=lambda name: there[name].moved, reverse=True)
        runs = {
            name: self._seen(name, there[name], now, version)
            for name in latest[:MOST_RUNS]
        }
        found = LiveLook(version, runs, len(self._read) - len(runs))
        changed = (
            before.version == 0
            or runs.keys() != before.runs.keys()
            or found.left_out != before.left_out
            or any(one.version == version for one in runs.values())
        )
        if changed:
            self.found = found
        return changed

    def _reading(self, path: Path) -> tuple[object, RunStatus | None]:
        """Read a file if it is another one; leave out what others may have written."""
        try:
            entry = path.stat()
            looks = (entry.st_mtime_ns, entry.st_size, entry.st_ino, entry.st_mode)
            if path in self._read and self._read[path][0] == looks:
                return self._read[path]
            if why_file_is_open_to_others(path, entry) is None:
                return looks, read_run_status(path)
        except (OSError, InvalidInputError):
            return None, None
        return looks, None

    def _seen(self, name: str, status: RunStatus, now: float, version: int) -> SeenRun:
        before, shown = (
            self.found.runs.get(name),
            _live_run_for_web_page(name, status, now),
        )
        if before is not None and before.shown == shown:
            return before
        sample = [now, status.round, status.sent, shown["state"], status.phase]
        old = () if before is None else before.samples[1 - MOST_SAMPLES :]
        return SeenRun(status, shown, version, (*old, (version, sample)))

    def network(self, consortium: str) -> dict[str, Any] | None:
        """Return what to draw of a run by its file's digest; None if that is gone."""
        seen = [one.status for one in self.found.runs.values()]
        files = {one.file for one in seen if one.consortium == consortium and one.file}
        for file in sorted(files):
            if (known := f"{consortium} {file}") not in self._networks:
                self._networks[known] = _live_graph_for_web_page(consortium, Path(file))
                while len(self._networks) > MOST_NETWORKS:
                    self._networks.popitem(last=False)
            if (found := self._networks[known]) is not None:
                return found
        return None


def _live_run_for_web_page(name: str, one: RunStatus, now: float) -> dict[str, Any]:
    """Return what the page is told of a run: all of it is in its status."""
    silent = one.is_silent(now)
    goes_on = one.state == "running" and not silent
    return {
        "id": name,
        "run": one.run,
        "party": one.party,
        "consortium": one.consortium,
        "state": "silent" if silent else one.state,
        "phase": one.phase,
        "words": STAGES.get(one.phase, "") if goes_on else "",
        "epoch": one.epoch,
        "round": one.round,
        "sent": one.sent,
        "waiting": one.waiting,
        "withheld": withheld_words(one.withheld) if one.withheld else "",
        "lost": one.lost,
        "links": one.links,
        "moved": run_status_seconds(one.moved),
        "deadline": one.deadline,
        # The page itself counts the seconds of a run that waits.
        "advice": "" if goes_on and one.waiting else run_status_advice(one, now),
        "report": one.state == "done" and _live_run_is_reported(one),
    }


def _live_run_is_reported(one: RunStatus) -> bool:
    files = (Path(one.out) / name for name in ("receipt.json", "study.json"))
    return one.out != "" and any(file.exists() for file in files)


def _live_graph_for_web_page(digest: str, file: Path) -> dict[str, Any] | None:
    """Return a run's title, parties, places and links, from its consortium file."""
    agreed = _live_agreement(digest, file)
    if agreed is None:
        return None
    edges = agreed.topology.edges
    places = layout_of_graph(agreed.topology)
    return {
        "title": agreed.title,
        "parties": list(agreed.topology.parties),
        "places": [[round(x, 4), round(y, 4)] for x, y in places.tolist()],
        "links": edges.tolist() if len(edges) <= MOST_LINKS else [],
        "n_links": len(edges),
    }


def _live_agreement(digest: str, file: Path) -> Consortium | None:
    """Return what a file agrees on, if it is the one that a status is about."""
    with suppress(VeilsumError, OSError):
        found = read_agreement(file)
        runs = runs_of_agreement(found)
        if found.digest.hex() == digest:
            return runs[0]
        return next((one for one in runs if one.digest.hex() == digest), None)
    return None


class _LiveEventStream(StreamingResponse):
    """Server-sent events, until the reader leaves."""

    def __init__(self, told: AsyncIterator[str], over: Callable[[], None]) -> None:
        super().__init__(told, media_type="text/event-stream")
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()


class LivePageView:
    """Answers whoever has the page open.

    Args:
        report: returns the page about a finished run; its arguments are the folder of
            the run and receipts of other members.
        lines: the log of this process, if it has one.
    """

    def __init__(
        self, watch: RunWatch, report: MakeReport, lines: LogLines | None = None
    ) -> None:
        self._watch, self._report_of, self._lines = watch, report, lines
        self._files = static_page_files(*PAGE_FILES)
        self._changed, self._over = asyncio.Event(), False
        self._streams = 0
        self._reports: OrderedDict[str, tuple[object, bytes]] = OrderedDict()
        self._reporting = asyncio.Lock()

    @property
    def app(self) -> Starlette:
        made = Starlette(
            routes=[
                Route("/", self._page),
                Route("/events", self._events),
                Route("/report/{name:str}", self._report),
                Route("/{name:str}", self._page),
            ]
        )
        made.router.redirect_slashes = False
        return made

    async def look(self) -> None:
        """Look until it is over, at most so often; wake up whoever waits."""
        logged = 0
        while not self._over:
            began = time.monotonic()
            changed = await asyncio.to_thread(self._watch.look)
            last = 0 if self._lines is None else self._lines.after(logged)[0]
            if changed or last != logged:
                logged = last
                self._wake()
            took = time.monotonic() - began
            await asyncio.sleep(max(LOOK_SECONDS, AT_LEAST * took))

    def close(self) -> None:
        """Send everybody home; called in the loop."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name", "live.html")
        if name not in self._files:
            return PlainTextResponse("there is no such page\n", 404)
        content, kind = self._files[name]
        return Response(content, media_type=kind)

    async def _events(self, request: Request) -> Response:
        del request
        if self._streams >= MOST_STREAMS:
            words = f"at most {MOST_STREAMS} windows have this page open: close one\n"
            return PlainTextResponse(words, 503, {"Retry-After": "5"})
        self._streams += 1
        return _LiveEventStream(self._told(), self._leave)

    def _leave(self) -> None:
        self._streams -= 1

    async def _told(self) -> AsyncIterator[str]:
        """Yield what has changed, whenever something has, and a sign of life."""
        version, line, sent = 0, 0, set[str]()
        yield "retry: 2000\n\n"
        while not self._over:
            changed, found = self._changed, self._watch.found
            told = {**found.since(version), "now": self._watch.clock()}
            version = found.version
            for digest in {one["consortium"] for one in told["runs"]} - sent:
                drawn = await asyncio.to_thread(self._watch.network, digest)
                told.setdefault("networks", {})[digest] = drawn
                sent.add(digest)
            if self._lines is not None:
                line, told["log"] = self._lines.after(line)
            yield f"data: {json.dumps(told)}\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), BEAT_SECONDS)

    async def _report(self, request: Request) -> Response:
        run = self._watch.found.runs.get(request.path_params["name"])
        if run is None or not run.shown["report"]:
            return PlainTextResponse("there is no report of that run here\n", 404)
        out = Path(run.status.out)
        others = [
            Path(one.status.out) / "receipt.json"
            for one in self._watch.found.runs.values()
            if one.status.consortium == run.status.consortium and one.shown["report"]
        ]
        async with self._reporting:  # one at a time: each takes a while
            try:
                content = await asyncio.to_thread(self._reported, out, others)
            except (VeilsumError, OSError) as error:
                why = error.plain if isinstance(error, VeilsumError) else error.strerror
                return PlainTextResponse(f"no report: {printable(why or '')}\n", 409)
        policy = f"{NOTHING_FROM_OUTSIDE}; form-action 'none'; base-uri 'none'; sandbox"
        headers = {"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"}
        return Response(content, media_type="text/html", headers=headers)

    def _reported(self, out: Path, others: list[Path]) -> bytes:
        """Return a report; one that was made of the same files is remembered."""
        others = [one for one in others if one.parent != out and one.exists()]
        made_of = [one.stat().st_mtime_ns for one in (*sorted(out.iterdir()), *others)]
        name = str(out)
        if name not in self._reports or self._reports[name][0] != made_of:
            self._reports[name] = made_of, self._report_of(out, others)
            while len(self._reports) > MOST_REPORTS:
                self._reports.popitem(last=False)
        return self._reports[name][1]


class LiveServer:
    """Shows the runs in a folder, from a thread of its own until it is closed."""

    def __init__(
        self,
        address: Address,
        folder: Path,
        report: MakeReport,
        lines: LogLines | None = None,
        *,
        bounds: PageBounds = PageBounds(),  # noqa: B008 - frozen
    ) -> None:
        self.token = live_page_token(folder)
        listener = listening_page_socket(address)
        self.address = Address(address.host, listener.getsockname()[1])
        watch = RunWatch(folder)
        watch.look()
        self.view = LivePageView(watch, report, lines)
        hosts = web_server_names(self.address)
        guard = WebGuard(self.view.app, hosts, bounds=bounds, token=self.token)
        self._server = PageServer(guard, listener, bounds=bounds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, name="veilsum-page", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://{self.address}/?token={self.token}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _serve(self) -> None:
        looking = asyncio.ensure_future(self.view.look())
        try:
            await self._server.serve()
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    def _stop(self) -> None:
        self.view.close()
        self._server.stop()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()
