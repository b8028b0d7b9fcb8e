"""A survey that guests' pages are tested with: keys of everybody, and a small host.

The host stands behind the guard of every page. It keeps what arrives, byte for byte,
and can be told to answer oddly.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from surveys import MEMBERS, opened
from veilsum.consortium.consortium import Address
from veilsum.errors import InvalidInputError
from veilsum.surveys.submission import ALPHABET, read_submission, survey_guest_key
from veilsum.surveys.survey_set import is_submission_resent
from veilsum.surveys.terms import SurveyTerms
from veilsum.web.collecting import GUEST_SCHEME, guest_signature_text
from veilsum.web.guest_page import PACKAGE, SERVED, page_survey, served_page
from veilsum.web.pages import (
    KINDS,
    PageBounds,
    PageServer,
    WebGuard,
    listening_page_socket,
    web_server_names,
)

N_GUESTS = 12
BOUNDS = PageBounds(body=1 << 20, burst=1e6, per_second=1e6)


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
            "key": survey_guest_key(code_of(name))
            .public_key()
            .public_bytes_raw()
            .hex(),
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
        if not self.kept.get(guest):
            return None
        found = [read_submission(one, self.terms) for one in self.kept[guest]]
        last = max(found, key=lambda one: one.number)
        return {"number": last.number, "digest": last.digest(self.terms.names)}

    def get(self, path: str, shown: str = "") -> tuple[int, bytes, str]:
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
        key = path.removeprefix("/submissions/")
        proof = shown.removeprefix(f"{GUEST_SCHEME} ")
        found = None
        if key in keys:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
            public.verify(bytes.fromhex(proof), guest_signature_text(self.terms.digest))
            found = self.newest(keys[key])
        if found is None:
            return self.nothing, b"", "text/plain"
        return 200, json.dumps(found).encode(), "application/json"

    def post(self, content: bytes) -> tuple[int, bytes, str]:
        if self.answers:
            status, text = self.answers.pop(0)
            return status, text.encode(), "text/plain"
        found = read_submission(content, self.terms)
        kept = self.kept.setdefault(found.guest, [])
        try:
            is_submission_resent(
                [read_submission(one, self.terms) for one in kept], found
            )
        except InvalidInputError as error:
            newest = self.newest(found.guest) or {"number": 0, "digest": ""}
            answer = {"error": str(error), **newest}
            return 409, json.dumps(answer).encode(), "application/json"
        kept.append(content)
        answer = {"number": found.number, "digest": found.digest(self.terms.names)}
        return 200, json.dumps(answer).encode(), "application/json"


@contextmanager
def hosting(terms: SurveyTerms, **more: Any) -> Iterator[Host]:
    """Serve a survey at a loopback address, behind the guard of every page."""
    host = Host(terms, **more)

    async def answer(request: Request) -> Response:
        found = host.get(request.url.path, request.headers.get("authorization", ""))
        if request.method == "POST":
            found = host.post(await request.body())
        status, content, kind = found
        return Response(content, status_code=status, media_type=kind)

    listener = listening_page_socket(Address("127.0.0.1", 0))
    address = Address("127.0.0.1", listener.getsockname()[1])
    host.address = f"http://{address}/"
    app = WebGuard(
        Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])]),
        web_server_names(address),
        bounds=BOUNDS,
        open_to_files=["/submissions"],
    )
    server = PageServer(app, listener, bounds=BOUNDS)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield host
    finally:
        server.stop()
        thread.join()
