"""How a member shows the host of a survey that it is one: it signs something fresh.

The host gives a challenge to everybody who asks, and remembers none: each has chance in
it, when it ends, and a code by which the host knows its own. So nobody who asks often
pushes out a member's. A member signs a challenge with the key of its certificate, and
with it run, host and file: what another host was shown serves nowhere else. The host
then remembers it until it ends, for it serves once. Nothing that is public, and nothing
that was said before, opens anything.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable

from veilsum.consortium.consortium import Consortium, canonical
from veilsum.errors import InvalidInputError
from veilsum.net.identity import Identity, is_signature, public_key

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


class MemberDoor:
    """What lets members in, and nobody else.

    Args:
        consortium: whose members.
        clock: seconds, which only go forward.
    """

    def __init__(
        self, consortium: Consortium, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._clock, self._start = consortium.run, clock, clock()
        self._keys = [public_key(one) for one in consortium.certificates.values()]
        self._secret = secrets.token_bytes(32)
        self._used: dict[str, float] = {}

    def challenge(self) -> str:
        """Return something that was never signed, hexadecimal."""
        end = int(self._now() + LIFE)
        content = secrets.token_bytes(_CHANCE) + end.to_bytes(_END, "big")
        return (content + self._code(content)).hex()

    def admits(self, shown: str, *, host: str, file: str) -> bool:
        """Say whether a member has signed a challenge for this, for the first time.

        Args:
            shown: the header that came.
            host: the name under which the caller asked, one of this host's.
            file: what it asked for.
        """
        parts = _SHOWN.fullmatch(shown)
        if parts is None:
            return False
        challenge, signature = parts.groups()
        end = self._end(bytes.fromhex(challenge))
        if end <= self._now() or challenge in self._used:
            return False
        said = _statement(self._run, host, file, challenge)
        # By all keys, whosever it is: how long it takes says nothing of who asks.
        signed = [
            is_signature(key, said, bytes.fromhex(signature)) for key in self._keys
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


def proof(identity: Identity, run: str, *, host: str, file: str, challenge: str) -> str:
    """Return the header by which a member gets a file, once.

    Args:
        identity: the member's.
        run: of the survey's file.
        host: the name under which it asks, with the port where the address has one.
        file: what it asks for.
        challenge: what the host gave it.
    """
    if not re.fullmatch(rf"[0-9a-f]{{{CHALLENGE_DIGITS}}}", challenge):
        raise InvalidInputError(
            f"{host} gave no challenge to sign: it is not the page of a survey, or "
            "its host has another version of veilsum"
        )
    signature = identity.sign(_statement(run, host, file, challenge))
    return f"{SCHEME} {challenge} {signature.hex()}"


def _statement(run: str, host: str, file: str, challenge: str) -> bytes:
    """Return what is signed."""
    said = {"run": run, "host": host, "file": file, "challenge": challenge}
    return CONTEXT + canonical(said)
