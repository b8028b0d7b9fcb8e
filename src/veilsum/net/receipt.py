"""Receipts: what each party signs about a run that it took part in.

A receipt holds what everybody may know: who took part, under which plan, which digest
the released result has, what was promised. It holds nothing private and no hash of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from veilsum.agreement.consortium import canonical, check_name
from veilsum.errors import InvalidInputError
from veilsum.files.output import as_json
from veilsum.net.identity import Identity, public_key
from veilsum.protocol.codec import Codec

FORMAT = "veilsum receipt 1"
# A signature under a receipt is for that, and for no other use of the key.
CONTEXT = b"veilsum receipt\0"
# Results whose files do not hold the answer that was signed, by a key they have.
DERIVED = {"price": "a [dispatch]", "covariance": "a [statistics]"}

T = TypeVar("T")

# No receipt nests its lists and tables so deep.
DEEPEST = 32


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """One party's word about one run.

    Attributes:
        run: the run's name.
        plan: digest of everything the parties' machines had agreed on, hexadecimal.
        consortium: digest of the consortium file.
        party: who signs.
        certificate: with what key, PEM.
        parties: who took part to the end.
        lost: who was lost on the way.
        epochs: those that were committed.
        confirmed: neighbours with whom every one of these epochs was confirmed.
        result: digest of the released result.
        released: what was released, in words.
        guarantee: what was promised.
        started: when, UTC, by this party's clock.
        finished: when.
        version: of veilsum.
        signature: of all this, hexadecimal.
    """

    run: str
    plan: str
    consortium: str
    party: str
    certificate: str
    parties: tuple[str, ...]
    lost: tuple[str, ...]
    epochs: tuple[int, ...]
    confirmed: tuple[str, ...]
    result: str
    released: tuple[str, ...]
    guarantee: Mapping[str, Any]
    started: str
    finished: str
    version: str
    signature: str

    def to_json(self) -> str:
        """Return the receipt as a file holds it."""
        return as_json({"format": FORMAT, **asdict(self)}) + "\n"

    @property
    def is_signed(self) -> bool:
        """Whether the key of its certificate signed all of it."""
        from cryptography.exceptions import InvalidSignature

        content = {"format": FORMAT, **asdict(self)}
        signature = bytes.fromhex(content.pop("signature"))
        try:
            public_key(self.certificate).verify(signature, _to_sign(content))
        except InvalidSignature:
            return False
        return True


def make_receipt(identity: Identity, **fields: Any) -> Receipt:
    """Return a receipt of an identity's party, signed.

    Args:
        identity: who signs; its name and certificate go in.
        fields: all others of a `Receipt`.
    """
    own = {"party": identity.name, "certificate": identity.certificate}
    content = {"format": FORMAT, **fields, **own}
    signature = identity.sign(_to_sign(content)).hex()
    return receipt_from(json.loads(canonical({**content, "signature": signature})))


def read_receipt(path: Path) -> Receipt:
    """Return the receipt in a file; whether it is true is another question."""
    return _read(path, "a receipt", receipt_from)


def read_result(path: Path) -> ResultFile:
    """Return what a result file says that receipts speak of too."""
    return _read(path, "a result to compare with receipts", result_from)


def _read(path: Path, what: str, made: Callable[[Any], T]) -> T:
    try:
        return made(_parsed(path.read_text("utf-8")))
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not {what}: {error}") from None


@dataclass(frozen=True)
class ResultFile:
    """What a party's result file says, as far as receipts can confirm it.

    Attributes:
        digest: of its answer, as a receipt has it.
        guarantee: what was promised.
    """

    digest: str
    guarantee: Mapping[str, Any]


def result_from(table: Any) -> ResultFile:
    """Return what plain values say of a result; refuse what cannot be compared."""
    if not isinstance(table, dict) or not isinstance(table.get("guarantee"), dict):
        raise InvalidInputError(
            "expected the JSON that veilsum join writes to result.json"
        )
    for key, kind in DERIVED.items():
        if key in table:
            raise InvalidInputError(
                f"it is of {kind}, and such a file holds what follows from the signed "
                "numbers, not these themselves; compare the parties' files with each "
                "other"
            )
    answer = table.get("minimiser")
    if not _is_list(_is_number)(answer):
        raise InvalidInputError("its minimiser must be a list of numbers")
    numbers = np.array(answer, dtype=np.float64)
    return ResultFile(Codec.digest(numbers).hex(), table["guarantee"])


def receipt_from(table: Any) -> Receipt:
    """Return the receipt that plain values describe; refuse all that is odd."""
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise InvalidInputError(f'expected JSON with the format "{FORMAT}"')
    content = {key: value for key, value in table.items() if key != "format"}
    if content.keys() != FIELDS.keys():
        odd = sorted(content.keys() ^ FIELDS.keys())
        raise InvalidInputError(
            f"expected exactly the fields of a receipt; missing or unknown: {odd}"
        )
    for key, (fits, words) in FIELDS.items():
        if not fits(content[key]):
            raise InvalidInputError(f"{key} must be {words}")
    public_key(content["certificate"])
    return Receipt(**{key: _frozen(value) for key, value in content.items()})


def _to_sign(content: Mapping[str, Any]) -> bytes:
    return CONTEXT + canonical(content)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _parsed(text: str) -> Any:
    """Return JSON's values; refuse what two readers could understand differently."""
    found = json.loads(text, object_pairs_hook=_once)
    canonical(found)  # no nan and no infinity anywhere
    if _depth(found) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return found


def _depth(value: Any) -> int:
    """Return how deep lists and tables are nested, one level after the other."""
    depth, level = 0, [value]
    while level:
        inside = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [part for one in inside if isinstance(one, list) for part in one]
        depth += 1
    return depth


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a key twice")
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    """Say whether a value is a number that float64 has room for."""
    return type(value) in {int, float} and abs(value) <= sys.float_info.max


def _is_list(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_hex(digits: int) -> Callable[[Any], bool]:
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")
    return lambda value: _is_text(value) and pattern.fullmatch(value) is not None


def _is_name(value: Any) -> bool:
    try:
        check_name(value)
    except InvalidInputError:
        return False
    return True


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).utcoffset() is not None
    except (TypeError, ValueError):
        return False


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_DIGEST = (_is_hex(64), "a digest of 64 hexadecimal digits")
_NAMES = (_is_list(_is_name), "a list of names")
_TIME = (_is_time, "a date and time with its zone, as 2030-01-31T12:00:00+00:00")
_TEXT = (_is_text, "a text")

# What each field may be, and how to say so.
FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "run": _TEXT,
    "plan": _DIGEST,
    "consortium": _DIGEST,
    "party": (_is_name, "a name"),
    "certificate": _TEXT,
    "parties": _NAMES,
    "lost": _NAMES,
    "epochs": (_is_list(_is_count), "a list of whole numbers"),
    "confirmed": _NAMES,
    "result": _DIGEST,
    "released": (_is_list(_is_text), "a list of texts"),
    "guarantee": (lambda value: isinstance(value, dict), "a table"),
    "started": _TIME,
    "finished": _TIME,
    "version": _TEXT,
    "signature": (_is_hex(128), "a signature of 128 hexadecimal digits"),
}
