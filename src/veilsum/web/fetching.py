"""Files that a delegate fetches from the host of a survey, and their checks before use.

A member authenticates to the host by signing a fresh challenge. The host issues a
challenge for every request, and stores none: each contains random bits, its expiry and
a code by which the host recognises its own. So frequent requests cannot displace a
member's challenge. A member signs a challenge with the key of its certificate, together
with run, host and file: a signature for another host is not valid here. The host then
stores the used challenge until it expires, since each is valid once. Neither public
data nor replayed messages give access.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from veilsum.consortium.addresses import is_loopback_address
from veilsum.consortium.consortium import Consortium, canonical_agreement_json
from veilsum.errors import InvalidInputError, WaitingError
from veilsum.files.consortiums import MOST_BYTES, read_consortium
from veilsum.files.output import prepare_output_folder, write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.net.identity import (
    Identity,
    certificate_public_key,
    is_signature_by_identity,
)
from veilsum.net.trust import check_certified_identity
from veilsum.party.own_survey import STORE
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.submission import longest_submission
from veilsum.surveys.survey_set import SurveySet, closed_survey_set, read_submissions
from veilsum.surveys.terms import SurveyTerms, survey_terms

# What the key signs here is nothing that it signs elsewhere.
CONTEXT = b"veilsum survey fetch 1\0"
SCHEME = "Veilsum-Member"
# Seconds in which a challenge is answered.
LIFE = 60
# Used challenges that are remembered; only members can make it more.
MOST_USED = 10_000
_CHANCE, _END, _CODE = 32, 8, 32
CHALLENGE_DIGITS = 2 * (_CHANCE + _END + _CODE)
_SHOWN = re.compile(rf"{SCHEME} ([0-9a-f]{{{CHALLENGE_DIGITS}}}) ([0-9a-f]{{128}})")


class WebMemberDoor:
    """Access control that admits members only; `clock` returns monotonic seconds."""

    def __init__(
        self, consortium: Consortium, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._clock, self._start = consortium.run, clock, clock()
        self._keys = [
            certificate_public_key(one) for one in consortium.certificates.values()
        ]
        self._secret = secrets.token_bytes(32)
        self._used: dict[str, float] = {}

    def challenge(self) -> str:
        """Return something that was never signed, hexadecimal."""
        end = int(self._now() + LIFE)
        content = secrets.token_bytes(_CHANCE) + end.to_bytes(_END, "big")
        return (content + self._code(content)).hex()

    def admits(self, shown: str, *, host: str, file: str) -> bool:
        """Say whether a member has signed a challenge for this, for the first time.

        The header shown is for one file, and for one of this host's names, under which
        the caller asked.
        """
        parts = _SHOWN.fullmatch(shown)
        if parts is None:
            return False
        challenge, signature = parts.groups()
        end = self._end(bytes.fromhex(challenge))
        if end <= self._now() or challenge in self._used:
            return False
        said = _web_fetch_statement(self._run, host, file, challenge)
        # By all keys, whosever it is: how long it takes says nothing of who asks.
        signed = [
            is_signature_by_identity(key, said, bytes.fromhex(signature))
            for key in self._keys
        ]
        if not any(signed):
            return False
        now = self._now()
        self._used = {one: last for one, last in self._used.items() if last > now}
        if len(self._used) >= MOST_USED:
            return False
        self._used[challenge] = end
        return True

    def _now(self) -> float:
        # Since this began: how long the computer is up is nobody's affair.
        return self._clock() - self._start

    def _end(self, challenge: bytes) -> float:
        """Return when a challenge ends; at the beginning, if it is none of these."""
        content, code = challenge[:-_CODE], challenge[-_CODE:]
        if not hmac.compare_digest(code, self._code(content)):
            return 0.0
        return float(int.from_bytes(content[_CHANCE:], "big"))

    def _code(self, content: bytes) -> bytes:
        return hmac.digest(self._secret, content, hashlib.sha256)


def fetch_proof_header(
    identity: Identity, run: str, *, host: str, file: str, challenge: str
) -> str:
    """Return the header by which a member gets a file, once.

    The host's name has its port where the address has one.
    """
    if not re.fullmatch(rf"[0-9a-f]{{{CHALLENGE_DIGITS}}}", challenge):
        raise InvalidInputError(
            f"{host} gave no challenge to sign: it is not the page of a survey, or "
            "its host has another version of veilsum",
            code="not-a-survey-page",
        )
    signature = identity.sign(_web_fetch_statement(run, host, file, challenge))
    return f"{SCHEME} {challenge} {signature.hex()}"


def _web_fetch_statement(run: str, host: str, file: str, challenge: str) -> bytes:
    said = {"run": run, "host": host, "file": file, "challenge": challenge}
    return CONTEXT + canonical_agreement_json(said)


CLOSED, SENT, RESULT = "closed.toml", "submissions.jsonl", "result.json"
CHALLENGE = "challenge"
# Seconds without a byte, after which a host counts as away.
PATIENCE = 60.0


class _StayWithHost(HTTPRedirectHandler):
    """Go nowhere else: a delegate asks the host that it was told."""

    def redirect_request(self, *_: Any) -> None:
        return None


def survey_page_address(text: str) -> str:
    """Return the address of a survey's page, without a slash at its end.

    >>> survey_page_address("https://survey.example.org/")
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
            f"without anything behind it, found {text!r}",
            code="malformed-page-address",
        )
    if found.scheme == "http" and not is_loopback_address(host):
        raise InvalidInputError(
            f"{text}: browsers seal nothing on a page without TLS, but on the computer "
            "itself: give an address that begins with https",
            code="page-without-tls",
        )
    return f"{found.scheme}://{found.netloc.lower()}"


def read_fetched_survey(terms: SurveyTerms, folder: Path) -> SurveySet:
    """Return the set of a closed survey, whose submissions are in a folder."""
    most = (longest_submission(terms) + 1) * len(terms.guests)
    sent = read_file_contents(folder / SENT, most, InvalidInputError)
    return closed_survey_set(terms, read_submissions(sent, terms))


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
    address, terms = survey_page_address(page), survey_terms(consortium)
    check_certified_identity(identity, consortium.certificates)
    _check_fetched_survey_folder(folder, terms)
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    opener = build_opener(_StayWithHost, HTTPSHandler(context=context))

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
                    "files are elsewhere",
                    code="survey-files-missing",
                ) from None
            if status == 403 and shown:
                raise InvalidInputError(
                    f"{address} does not take {identity.name!r} for a member of its "
                    "survey: ask the host whether it serves the same file as this one",
                    code="member-not-recognised",
                ) from None
            raise InvalidInputError(
                f"cannot fetch {address}/{name}: {error}", code="cannot-fetch"
            ) from None
        if len(found) > most:
            raise InvalidInputError(
                f"{address}/{name} has more than {most:,} bytes, the most that this "
                "survey's can have",
                code="answer-too-large",
            )
        return found

    def get(name: str, most: int) -> bytes:
        shown = fetch_proof_header(
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
            f"file's ({terms.digest[:16]}): use nothing of it, and ask the host",
            code="other-survey",
        )
    sent = get(SENT, (longest_submission(terms) + 1) * len(terms.guests))
    found = closed_survey_set(agreed, read_submissions(sent, agreed))
    _check_fetched_survey_set(folder, found)
    # They say by name who came, and which cells each guest left empty.
    write_files(
        prepare_output_folder(folder), {CLOSED: closed, SENT: sent}, private=True
    )
    return found


def _check_fetched_survey_set(folder: Path, found: SurveySet) -> None:
    """Refuse another set than the one that this member has added up already."""
    if not (folder / STORE).exists():
        return
    with closing(SurveyDelegateStore.open(folder / STORE)) as store:
        added = {one.survey: one.set for one in store.answered()}
    known = added.get(found.survey, found.digest)
    if known != found.digest:
        raise InvalidInputError(
            f"the host has closed this survey again, with another set "
            f"({found.digest[:16]}) than the one that was added up here "
            f"({known[:16]}): its files are left as they are; ask the host why",
            code="closed-again",
        )


def _check_fetched_survey_folder(folder: Path, terms: SurveyTerms) -> None:
    """Refuse a folder whose files are not this survey's, closed earlier perhaps."""
    there = [folder / name for name in (CLOSED, SENT) if (folder / name).exists()]
    known = None
    if folder / CLOSED in there:
        with suppress(InvalidInputError):  # something else altogether
            known = survey_terms(read_consortium(folder / CLOSED)).digest
    if there and known != terms.digest:
        raise InvalidInputError(
            f"{there[0]} is there already, and is of another survey: it is left as it "
            "is; move it away first",
            code="other-survey",
        )
