"""A survey's page: what guests open, and where they send what they have sealed.

Guests need nothing of it but its files and an answer to what they send. Whatever comes
is looked at as a whole, kept on disk as a whole or not at all, and never shown: the
host's own page says how many have come. Members fetch the closed survey from here, and
everybody the result.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from veilsum.consortium.addresses import Address, is_any_address, is_loopback_address
from veilsum.consortium.consortium import Consortium
from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    StoreError,
    install_advice,
)
from veilsum.locale import catalogue, catalogue_languages, number_with_language_signs
from veilsum.page import PageHtml, folded, notice, paragraph, table, tag
from veilsum.surveys.collection import (
    ClosedError,
    OutOfTurnError,
    SurveyGuestCollection,
)
from veilsum.surveys.submission import longest_submission, submission_sha256
from veilsum.surveys.survey_set import submissions_digest
from veilsum.surveys.terms import SurveyTerms, survey_terms
from veilsum.web.fetching import CHALLENGE, CLOSED, RESULT, SENT, WebMemberDoor
from veilsum.web.guest_page import (
    SERVED,
    guest_page_as_single_file,
    page_survey,
    served_page,
)
from veilsum.web.pages import (
    KINDS,
    Application,
    PageBounds,
    Receive,
    Scope,
    Send,
    WebGuard,
    static_page_files,
    web_server_names,
)

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import (
        FileResponse,
        JSONResponse,
        RedirectResponse,
        Response,
    )
    from starlette.routing import Route
except ImportError:
    raise MissingExtraError(
        f"pages in a browser need further packages: {install_advice('web')}",
        code="missing-extra",
    ) from None


def guest_signature_text(survey: str) -> bytes:
    """Return what a guest signs to be told what the host has from it."""
    return f"veilsum newest 1\n{survey}\n".encode()


# How the header Authorization begins in which a guest shows its signature.
GUEST_SCHEME = "Veilsum-Guest"
# What members may fetch from the host's folder, once it is there.
FETCHED = {CLOSED: "application/toml", SENT: "application/jsonl"}
TOTALS = "static/totals.css"
# The host's own page, which takes a token.
OWN = "/host"
# Bytes a second that a guest's line carries at least, and that bodies may fill at once.
SLOWEST, MOST_MEMORY = 20_000, 256 << 20


class SurveyWebHost:
    """The application behind a survey's page; see the module.

    Args:
        consortium: the open survey.
        collection: what guests have sent.
        folder: where the closed survey and its result will be.
        address: where it listens.
        public: the address that guests have, such as https://survey.example.org.
        token: opens the host's own page.
        bounds: what one caller may use; by default `survey_page_bounds` the survey.

    Attributes:
        page_hash: SHA-256 of the page as one file.
        own: where the host itself opens its own page.
    """

    def __init__(
        self,
        consortium: Consortium,
        collection: SurveyGuestCollection,
        folder: Path,
        *,
        address: Address,
        public: str,
        token: str,
        bounds: PageBounds | None = None,
    ) -> None:
        self._terms = terms = survey_terms(consortium)
        self._door = WebMemberDoor(consortium)
        self._collection, self._folder = collection, folder
        survey = page_survey(terms)
        self._files = {
            "": (served_page(survey).encode(), KINDS["html"]),
            "survey.json": (survey.encode(), "application/json"),
            **{
                one: found
                for one in (*SERVED, TOTALS)
                for found in static_page_files(one).values()
            },
        }
        self._single = guest_page_as_single_file(
            survey, f"{public}/submissions"
        ).encode()
        self._keys = {guest.key.hex(): guest.name for guest in terms.guests}
        self.page_hash = submission_sha256(self._single)
        self.bounds = bounds or survey_page_bounds(terms)
        self.own = Address("127.0.0.1", address.port)
        if not is_any_address(address.host):
            self.own = address
        self._guests = WebGuard(
            self._for_guests(),
            [*_web_host_names(self.own), urlsplit(public).netloc],
            bounds=self.bounds,
            open_to_files=["/submissions"],
        )
        # Under the public name there is no such page.
        self._own = WebGuard(
            Starlette(
                routes=[
                    Route(f"{OWN}/", self._show_progress),
                    Route(f"{OWN}/progress", self._tell_progress),
                ]
            ),
            _web_host_names(self.own),
            bounds=self.bounds,
            token=token,
        )
        self._is_proxied = urlsplit(public).netloc not in _web_host_names(address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_proxied:
            scope = _web_request_from_proxy(scope)
        path = str(scope.get("path", ""))
        app = self._own if path.startswith(f"{OWN}/") else self._guests
        await app(scope, receive, send)

    def _for_guests(self) -> Application:
        return Starlette(
            routes=[
                Route("/submissions", self._take, methods=["POST"]),
                Route("/submissions/{key}", self._tell_newest),
                Route("/page.html", self._give_single),
                Route(f"/{CHALLENGE}", self._challenge),
                Route("/result.json", self._give_result),
                Route("/result", self._show_result),
                Route("/{path:path}", self._give),
            ]
        )

    async def _take(self, request: Request) -> Response:
        line = await request.body()
        try:
            found, is_new = await run_in_threadpool(self._collection.take, line)
        except ClosedError as error:
            return _refused_web_submission(410, error)
        except OutOfTurnError as error:
            return _refused_web_submission(409, error, **asdict(error.newest))
        except InvalidInputError as error:
            return _refused_web_submission(400, error)
        except StoreError:
            # Which file it is, and why, is the host's affair.
            why = "the host cannot keep anything just now: send the same again later"
            return JSONResponse({"error": why}, status_code=507)
        return JSONResponse(asdict(found), status_code=201 if is_new else 200)

    async def _tell_newest(self, request: Request) -> Response:
        """Tell a guest, and nobody else, number and digest of what is here from it."""
        key = request.path_params["key"]
        name = self._keys.get(key)
        # In a header: proxies log addresses, and the proof serves for good.
        scheme, _, proof = request.headers.get("authorization", "").partition(" ")
        if name is None or scheme != GUEST_SCHEME or not self._is_of(key, proof):
            return JSONResponse({"error": "nobody has this key"}, status_code=404)
        found = await run_in_threadpool(self._collection.newest, name)
        if found.number == 0:
            return Response(status_code=204)
        return JSONResponse(asdict(found))

    def _is_of(self, key: str, proof: str) -> bool:
        """Say whether a guest signed that it asks; everybody knows its public key."""
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
                bytes.fromhex(proof), guest_signature_text(self._terms.digest)
            )
        except (InvalidSignature, ValueError):
            return False
        return True

    async def _give(self, request: Request) -> Response:
        """Give one of the page's files, or of those that members fetch; no other."""
        name = request.path_params["path"]
        if name == "" and (self._folder / RESULT).is_file():
            return RedirectResponse("/result", status_code=303)
        if name in self._files:
            content, kind = self._files[name]
            return Response(content, media_type=kind)
        if name in FETCHED:
            # Before anything is looked up: strangers are not told whether it is there.
            shown = request.headers.get("authorization", "")
            asked = request.headers["host"]  # one of this host's names: see Guard
            if not self._door.admits(shown, host=asked, file=name):
                return JSONResponse({"error": "this is for members"}, status_code=403)
            if (self._folder / name).is_file():
                return FileResponse(self._folder / name, media_type=FETCHED[name])
        return JSONResponse({"error": "there is no such page"}, status_code=404)

    async def _challenge(self, _: Request) -> Response:
        """Give something fresh, for a member to sign."""
        return Response(self._door.challenge(), media_type="text/plain")

    async def _give_single(self, _: Request) -> Response:
        return Response(
            self._single,
            media_type="text/html; charset=utf-8",
            headers={
                "Content-Disposition": 'attachment; filename="survey.html"',
                "X-Content-SHA256": self.page_hash,
            },
        )

    async def _give_result(self, _: Request) -> Response:
        if not (self._folder / RESULT).is_file():
            return JSONResponse({"error": "there is no result yet"}, status_code=404)
        return FileResponse(self._folder / RESULT, media_type="application/json")

    async def _show_result(self, request: Request) -> Response:
        """Show the totals, and the digests by which a guest finds its receipt."""
        if not (self._folder / RESULT).is_file():
            return JSONResponse({"error": "there is no result yet"}, status_code=404)
        found = json.loads((self._folder / RESULT).read_bytes())
        wanted = request.headers.get("accept-language", "")
        known = (one for one in catalogue_languages("survey") if wanted.startswith(one))
        language = next(known, "en")
        words = catalogue(language, "survey")["result"]

        def cell(total: str | None) -> str:
            return words["few"] if total is None else survey_decimal(total, language)

        rows = [
            [name, *map(cell, line)]
            for name, line in zip(found["rows"], found["totals"], strict=True)
        ]
        filled = [
            [name, *map(str, line)]
            for name, line in zip(found["rows"], found["given"], strict=True)
        ]
        columns = ["", *found["columns"]]
        beyond = [words["beyond"].format(cells=", ".join(found["beyond"]))]
        pair = words["pair"].format
        pairs = ", ".join(pair(less=less, more=more) for less, more in found["near"])
        near = [words["near"].format(pairs=pairs)]
        signed = ", ".join(one["party"] for one in found["receipts"])
        added = found["submissions"]
        body = tag(
            "main",
            tag("h1", found["title"]),
            paragraph(words["guests"].format(guests=found["guests"])),
            table(columns, rows, caption=words["totals"]),
            *(notice(one, bad=True) for one in beyond if found["beyond"]),
            *(notice(one) for one in near if found["near"]),
            table(columns, filled, caption=words["filled"]),
            tag("p", found["promise"], lang="en"),
            paragraph(words["signed"].format(members=signed)),
            paragraph(words["find"]),
            paragraph(words["same"], tag("code", submissions_digest(added))),
            folded(
                words["digests"],
                tag("ul", *(tag("li", tag("code", one)) for one in added)),
            ),
        )
        return _survey_web_page(found["title"], body, language)

    async def _tell_progress(self, _: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._collection.progress))

    async def _show_progress(self, _: Request) -> Response:
        found = await run_in_threadpool(self._collection.progress)
        state = "closed" if found["closed"] else "open"
        missing = "Enough have come to close it."
        if found["missing"]:
            missing = f"It cannot be closed yet: {found['missing']}."
        body = tag(
            "main",
            tag("h1", self._terms.title),
            paragraph(
                tag("strong", f"{found['came']} of {found['invited']}"),
                f" guests have come. The survey is {state}.",
            ),
            paragraph(missing),
            paragraph(tag("a", "Look again", href=f"{OWN}/")),
            table(
                ["invited by", "came", "invited"],
                [[name, *map(str, two)] for name, two in found["by_member"].items()],
                caption="Guests by the member that invited them",
            ),
            paragraph("SHA-256 of page.html: ", tag("code", self.page_hash)),
            paragraph("Survey: ", tag("code", self._terms.digest)),
        )
        return _survey_web_page(self._terms.title, body, "en")


def survey_decimal(number: str, language: str) -> str:
    """Return a decimal as people of a language write it.

    >>> survey_decimal("-1234567.25", "en"), survey_decimal("-1234567.25", "de")
    ('-1,234,567.25', '-1.234.567,25')
    """
    whole, point, rest = number.partition(".")
    found = re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", whole) + point + rest
    return number_with_language_signs(found, language)


def survey_page_bounds(terms: SurveyTerms) -> PageBounds:
    """Return what one guest of a survey may use: a large table takes its time."""
    body = longest_submission(terms)
    return PageBounds(
        body=body,
        seconds=20.0 + body / SLOWEST,
        connections=max(16, min(256, MOST_MEMORY // body)),
    )


def _survey_web_page(title: str, body: PageHtml, language: str) -> Response:
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        '<link rel="stylesheet" href="/static/guest.css">'
        f'<link rel="stylesheet" href="/{TOTALS}">'
    )
    page = (
        f'<!doctype html><html lang="{language}"><head>{head}'
        f"{tag('title', title)}</head><body>{body}</body></html>"
    )
    return Response(page, media_type=KINDS["html"])


def _web_host_names(address: Address) -> list[str]:
    """Return the names of an address; browsers leave out the usual ports."""
    found = web_server_names(address)
    if address.port in (80, 443):
        found += [name.rpartition(":")[0] for name in found]
    return found


def _refused_web_submission(
    status: int, error: InvalidInputError, **more: object
) -> Response:
    return JSONResponse({"error": str(error), **more}, status_code=status)


def _web_request_from_proxy(scope: Scope) -> Scope:
    """Return a request as the caller's own, whom a proxy on this computer names last.

    Otherwise everybody would be one caller, and one that asks too often keep all out.
    """
    client = scope.get("client")
    if not client or not is_loopback_address(client[0]):
        return scope
    named = [
        value for name, value in scope.get("headers", ()) if name == b"x-forwarded-for"
    ]
    last = b",".join(named).rpartition(b",")[2].strip().decode("ascii", "replace")
    try:
        return {**scope, "client": (str(ip_address(last)), client[1])}
    except ValueError:
        return scope
