"""A survey that guests' pages are tested with: keys of everybody, and a small host.

The host keeps what arrives and answers as the page expects of one; that it checks
nothing is on purpose: tests read what arrived with the package's own reader.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from browser import CHROMIUM, FLAGS, Seen
from surveys import MEMBERS, opened
from veilsum.agreement.survey import SurveyTerms
from veilsum.guests.submission import ALPHABET, guest_key, read_submission
from veilsum.web.guest_page import PACKAGE, SERVED, page_survey, served_page
from veilsum.web.pages import HEADERS, KINDS

N_GUESTS = 12


def code_of(name: str) -> str:
    """An invitation that is the same each time."""
    digest = sha256(f"code {name}".encode()).digest()
    secret = "".join(ALPHABET[byte % 32] for byte in digest[:26])
    check = int.from_bytes(sha256(b"veilsum code 1\n" + secret.encode()).digest()[:2])
    whole = secret + ALPHABET[check >> 11] + ALPHABET[(check >> 6) % 32]
    return "-".join(whole[at : at + 4] for at in range(0, 28, 4))


def asked(**survey: Any) -> SurveyTerms:
    """A survey whose guests have codes."""
    guests = [
        {
            "name": name,
            "key": guest_key(code_of(name)).public_key().public_bytes_raw().hex(),
            "invited_by": MEMBERS[at % len(MEMBERS)],
        }
        for at, name in enumerate(f"Firm {k + 1}" for k in range(N_GUESTS))
    ]
    return opened(guest=guests, **survey)


def large(cells: int) -> SurveyTerms:
    """One with so many cells, ten in a row."""
    return asked(
        rows=[f"row {k}" for k in range(cells // 10)],
        columns=[f"column {k}" for k in range(10)],
    )


@dataclass
class Host:
    """A host that takes everything.

    Attributes:
        terms: the survey.
        kept: what arrived, by guest, byte for byte and in order.
        answers: statuses with texts that it gives to posts instead, one each.
        embedded: whether the page has the survey in it, or asks for it.
        nothing: the status that says that nothing has arrived from a guest.
    """

    terms: SurveyTerms
    address: str = ""
    kept: dict[str, list[bytes]] = field(default_factory=dict)
    answers: list[tuple[int, str]] = field(default_factory=list)
    embedded: bool = True
    nothing: int = 204

    def newest(self, guest: str) -> dict[str, Any] | None:
        if guest not in self.kept:
            return None
        found = [read_submission(one, self.terms) for one in self.kept[guest]]
        last = max(found, key=lambda one: one.number)
        return {"number": last.number, "digest": last.digest(self.terms.names)}

    def get(self, path: str) -> tuple[int, bytes, str]:
        if path == "/":
            text = served_page(page_survey(self.terms) if self.embedded else "null")
            if not self.embedded:
                text = text.replace(">null<", "><")
            return 200, text.encode(), KINDS["html"]
        if path == "/survey.json":
            return 200, page_survey(self.terms).encode(), "application/json"
        if path[1:] in SERVED:
            content = PACKAGE.joinpath(path[1:]).read_bytes()
            return 200, content, KINDS[path.rsplit(".", 1)[1]]
        keys = {guest.key.hex(): guest.name for guest in self.terms.guests}
        found = self.newest(keys.get(path.removeprefix("/submissions/"), ""))
        if found is None:
            return self.nothing, b"", "text/plain"
        return 200, json.dumps(found).encode(), "application/json"

    def post(self, content: bytes) -> tuple[int, bytes, str]:
        if self.answers:
            status, text = self.answers.pop(0)
            return status, text.encode(), "text/plain"
        found = read_submission(content, self.terms)
        kept = self.kept.setdefault(found.guest, [])
        digest = found.digest(self.terms.names)
        for one in kept:
            earlier = read_submission(one, self.terms)
            other = earlier.digest(self.terms.names) != digest
            if earlier.number == found.number and other:
                return 409, b"this number has arrived with other contents", "text/plain"
        kept.append(content)
        answer = {"number": found.number, "digest": digest}
        return 200, json.dumps(answer).encode(), "application/json"


@contextmanager
def hosting(terms: SurveyTerms, **more: Any) -> Iterator[Host]:
    """Serve a survey at a loopback address, with the headers of every page."""
    host = Host(terms, **more)

    class Answers(BaseHTTPRequestHandler):
        def answer(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            for name, value in {**HEADERS, "Content-Type": kind}.items():
                self.send_header(name, value)
            if self.headers.get("Origin") == "null":  # a page that was saved as a file
                self.send_header("Access-Control-Allow-Origin", "null")
                self.send_header("Access-Control-Allow-Headers", "content-type")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.answer(*host.get(self.path))

        def do_OPTIONS(self) -> None:
            self.answer(204, b"", "text/plain")

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            self.answer(*host.post(self.rfile.read(size)))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    host.address = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def chromium() -> Iterator[Any]:
    """One browser for many pages; skip the tests where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to open the page with")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def visited(browser: Any, address: str, host: str = "", **options: Any) -> Seen:
    """Open a page in a context of its own, which may speak to one host alone."""
    options = {"locale": "en-GB", "viewport": {"width": 1280, "height": 900}, **options}
    context = browser.new_context(**options)
    return tab(context, address, host or address)


def tab(context: Any, address: str, host: str) -> Seen:
    """Open one more tab of the same browser window."""
    seen = Seen(context.new_page())

    def answer(route: Any) -> None:
        if route.request.url.startswith((host, "file:", "data:", "blob:")):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    seen.page.route("**/*", answer)
    seen.page.set_default_timeout(10_000)
    seen.page.on(
        "console",
        lambda said: seen.errors.append(said.text) if said.type == "error" else 0,
    )
    seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
    seen.page.goto(address)
    return seen
