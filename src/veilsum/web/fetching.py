"""What a delegate fetches from the host of a survey, and checks before it is used."""

from __future__ import annotations

import ssl
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from veilsum.consortium.addresses import is_loopback
from veilsum.consortium.consortium import Consortium
from veilsum.errors import InvalidInputError, WaitingError
from veilsum.files.consortiums import MOST_BYTES, read_consortium
from veilsum.files.contents import contents
from veilsum.files.output import prepare_folder, write_files
from veilsum.net.identity import Identity
from veilsum.net.trust import check_identity
from veilsum.party.own_survey import STORE
from veilsum.surveys.delegate import DelegateStore
from veilsum.surveys.submission import longest_line
from veilsum.surveys.survey_set import SurveySet, closed_set, read_submissions
from veilsum.surveys.terms import SurveyTerms, survey_terms
from veilsum.web.membership import CHALLENGE_DIGITS, proof

CLOSED, SENT, RESULT = "closed.toml", "submissions.jsonl", "result.json"
CHALLENGE = "challenge"
# Seconds without a byte, after which a host counts as away.
PATIENCE = 60.0


class _Stay(HTTPRedirectHandler):
    """Go nowhere else: a delegate asks the host that it was told."""

    def redirect_request(self, *_: Any) -> None:
        return None


def page_address(text: str) -> str:
    """Return the address of a survey's page, without a slash at its end.

    >>> page_address("https://survey.example.org/")
    'https://survey.example.org'
    """
    try:
        found = urlsplit(text)
        host, _ = found.hostname, found.port
    except ValueError:
        host = None
    if (
        host is None
        or found.scheme not in ("http", "https")
        or found.path.strip("/")
        or found.query
        or found.fragment
        or "@" in found.netloc
    ):
        raise InvalidInputError(
            "the address of a survey's page is such as https://survey.example.org, "
            f"without anything behind it, found {text!r}"
        )
    if found.scheme == "http" and not is_loopback(host):
        raise InvalidInputError(
            f"{text}: browsers seal nothing on a page without TLS, but on the computer "
            "itself: give an address that begins with https"
        )
    return f"{found.scheme}://{found.netloc.lower()}"


def read_closed(terms: SurveyTerms, folder: Path) -> SurveySet:
    """Return the set of a closed survey, whose submissions are in a folder."""
    most = (longest_line(terms) + 1) * len(terms.guests)
    sent = contents(folder / SENT, most, InvalidInputError)
    return closed_set(terms, read_submissions(sent, terms))


def fetch_closed(
    consortium: Consortium,
    page: str,
    folder: Path,
    *,
    identity: Identity,
    ca: Path | None = None,
) -> SurveySet:
    """Fetch a closed survey and its submissions into a folder; return the set.

    Args:
        consortium: the open survey, this member's own copy.
        page: its address.
        folder: where both files go.
        identity: the member's; it signs that it asks.
        ca: certificates to trust in place of the system's, PEM.

    Raises:
        InvalidInputError: the host cannot be reached, or has something else; or the
            folder holds another survey's files, or what was added of this one.
        WaitingError: the survey is still open.
    """
    address, terms = page_address(page), survey_terms(consortium)
    check_identity(identity, consortium.certificates)
    _check_place(folder, terms)
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    opener = build_opener(_Stay, HTTPSHandler(context=context))

    def ask(name: str, most: int, **shown: str) -> bytes:
        headers = {"User-Agent": "veilsum", **shown}
        asked = Request(f"{address}/{name}", headers=headers)  # noqa: S310 - http or https, see page_address
        try:
            with opener.open(asked, timeout=PATIENCE) as answer:
                found = bytes(answer.read(most + 1))
        except (OSError, HTTPException) as error:
            status = getattr(error, "code", None)
            if status == 404 and shown:
                raise WaitingError(
                    f"{address} has no {name} yet: the survey is still open, or its "
                    "files are elsewhere"
                ) from None
            if status == 403 and shown:
                raise InvalidInputError(
                    f"{address} does not take {identity.name!r} for a member of its "
                    "survey: ask the host whether it serves the same file as this one"
                ) from None
            raise InvalidInputError(f"cannot fetch {address}/{name}: {error}") from None
        if len(found) > most:
            raise InvalidInputError(
                f"{address}/{name} has more than {most:,} bytes, the most that this "
                "survey's can have"
            )
        return found

    def get(name: str, most: int) -> bytes:
        shown = proof(
            identity,
            consortium.run,
            host=urlsplit(address).netloc,
            file=name,
            challenge=ask(CHALLENGE, CHALLENGE_DIGITS).decode("ascii", "replace"),
        )
        return ask(name, most, Authorization=shown)

    closed = get(CLOSED, MOST_BYTES)
    with TemporaryDirectory() as place:
        written = Path(place) / CLOSED
        written.write_bytes(closed)
        agreed = survey_terms(read_consortium(written))
    if agreed.digest != terms.digest:
        raise InvalidInputError(
            f"{address} closed another survey ({agreed.digest[:16]}) than this "
            f"file's ({terms.digest[:16]}): use nothing of it, and ask the host"
        )
    sent = get(SENT, (longest_line(terms) + 1) * len(terms.guests))
    found = closed_set(agreed, read_submissions(sent, agreed))
    _check_added(folder, found)
    # They say by name who came, and which cells each guest left empty.
    write_files(prepare_folder(folder), {CLOSED: closed, SENT: sent}, private=True)
    return found


def _check_added(folder: Path, found: SurveySet) -> None:
    """Refuse another set than the one that this member has added up already."""
    if not (folder / STORE).exists():
        return
    with closing(DelegateStore.open(folder / STORE)) as store:
        added = {one.survey: one.set for one in store.answered()}
    known = added.get(found.survey, found.digest)
    if known != found.digest:
        raise InvalidInputError(
            f"the host has closed this survey again, with another set "
            f"({found.digest[:16]}) than the one that was added up here "
            f"({known[:16]}): its files are left as they are; ask the host why"
        )


def _check_place(folder: Path, terms: SurveyTerms) -> None:
    """Refuse a folder whose files are not this survey's, closed earlier perhaps."""
    there = [folder / name for name in (CLOSED, SENT) if (folder / name).exists()]
    known = None
    if folder / CLOSED in there:
        with suppress(InvalidInputError):  # something else altogether
            known = survey_terms(read_consortium(folder / CLOSED)).digest
    if there and known != terms.digest:
        raise InvalidInputError(
            f"{there[0]} is there already, and is of another survey: it is left as it "
            "is; move it away first"
        )
