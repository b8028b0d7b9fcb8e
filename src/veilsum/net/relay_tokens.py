"""Credentials for a relay: a token, and pseudonyms of the run and of two parties.

A token is 256 random bits made for a relay. Members and the relay's host hold it or its
SHA-256. It entitles its bearer to use the relay, and to nothing else. Pseudonyms are
SHA-256 of the token, the run's name and a party's. The run's name has 128 random bits
that no relay gets, so that names cannot be found by trial.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from veilsum.consortium.addresses import ConsortiumRelays
from veilsum.errors import NotReadyError
from veilsum.files.output import write_new
from veilsum.files.permissions import why_file_is_open_to_others
from veilsum.files.safe_read import read_file_contents

if TYPE_CHECKING:
    from veilsum.consortium.consortium import Consortium

# Where a relay is asked, below whatever path it has among other things.
RELAY_PATH = "/veilsum/relay"
# What it says, as a text, when the other end is there; then it carries bytes.
JOINED = "joined"
# Bytes of one frame that are taken, there and from there.
MOST_FRAME = 1 << 17
# By which others know a token that is not in a file.
VARIABLE = "VEILSUM_RELAY_TOKEN"
TOKEN_FILE = "relay.token"  # noqa: S105 - a file's name
_TOKEN = re.compile(r"[0-9a-f]{64}")
_PSEUDONYM = re.compile(r"[0-9a-f]{32}")
_HEADERS = ("Veilsum-Run", "Veilsum-From", "Veilsum-To")
_LOOK = "Veilsum-Look"
_MOST_BYTES = 1 << 10


@dataclass(frozen=True)
class RelayPass:
    """Request to a relay to connect two parties.

    Attributes:
        me: pseudonym of the caller.
        to: pseudonym of the party to connect to.
        look: whether this only tests the relay, without replacing a connection.
    """

    run: str
    me: str
    to: str
    look: bool = False

    @classmethod
    def between(
        cls, agreed: Consortium, token: str, me: str, to: str, *, look: bool = False
    ) -> RelayPass:
        """Return a member's pass to meet another one."""
        of_run = [agreed.run]
        return cls(
            relay_pseudonym(token, of_run),
            relay_pseudonym(token, [*of_run, me]),
            relay_pseudonym(token, [*of_run, to]),
            look,
        )

    def headers(self, token: str) -> dict[str, str]:
        shown = dict(zip(_HEADERS, (self.run, self.me, self.to), strict=True))
        looking = {_LOOK: "1"} if self.look else {}
        return {"Authorization": f"Bearer {token}", **shown, **looking}

    @classmethod
    def of(cls, header: Callable[[str], str]) -> RelayPass | None:
        """Return the pass that was shown in headers; None if it is none."""
        run, me, to = map(header, _HEADERS)
        good = all(map(_PSEUDONYM.fullmatch, (run, me, to))) and me != to
        return cls(run, me, to, header(_LOOK) == "1") if good else None


def relay_pseudonym(token: str, names: Collection[str]) -> str:
    """Return how a relay knows a run, or a party in it."""
    # Neither a token nor a name has a zero byte in it.
    said = "\0".join(("veilsum relay", token, *names))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def token_digest(token: str) -> str:
    """Return what files and relays know a token by."""
    return hashlib.sha256(f"veilsum relay token\0{token}".encode()).hexdigest()


def relay_admits(header: str, digests: Collection[str]) -> str | None:
    """Return the digest of the token in a header if it is one of these."""
    kind, _, token = header.partition(" ")
    if kind != "Bearer" or not _TOKEN.fullmatch(token):
        return None
    found = token_digest(token)
    # All are compared, and each in the same time, wherever it differs.
    same = [one for one in digests if hmac.compare_digest(one, found)]
    return same[0] if same else None


def new_token(path: Path) -> str:
    """Write a new token to a file of its owner's only; return its digest."""
    token = secrets.token_hex(32)
    advice = "members may have copies; choose another name"
    write_new(path, f"{token}\n".encode(), advice=advice, mode=0o600)
    return token_digest(token)


def read_token(path: Path) -> str:
    """Return the token in a file; refuse one that others may read."""
    text = read_file_contents(path, _MOST_BYTES, NotReadyError).decode(
        "ascii", "replace"
    )
    if (why := why_file_is_open_to_others(path, path.stat())) is not None:
        raise NotReadyError(
            f"{why}; it holds a relay's token", code="token-file-exposed"
        )
    return _check_relay_token(text, str(path))


def _check_relay_token(text: str, where: str) -> str:
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise NotReadyError(
            f"{where} holds no relay's token, which is 64 hexadecimal digits: ask the "
            "organiser for the file that veilsum relay token made",
            code="not-a-token",
        )
    return token


def own_token(relays: ConsortiumRelays, given: Path | None, folder: Path) -> str | None:
    """Return a member's token: of a file, of the environment, or beside its key.

    None if there is none: links that need no relay do without.

    Raises:
        NotReadyError: there is one, and it is not the one in the consortium file.
    """
    beside = folder / TOKEN_FILE
    if given is not None:
        token, where = read_token(given), str(given)
    elif VARIABLE in os.environ:
        token, where = _check_relay_token(os.environ[VARIABLE], VARIABLE), VARIABLE
    elif beside.exists():
        token, where = read_token(beside), str(beside)
    else:
        return None
    if not hmac.compare_digest(token_digest(token), relays.token):
        raise NotReadyError(
            f"{where} holds another token than the one that the consortium file has "
            "the SHA-256 of: ask the organiser for that one",
            code="other-token",
        )
    return token
