"""A record of an audit, to keep: what was audited, how, with what, what came out.

Everything in it is public or made up: the agreed graph and masks, digests of files,
seeds, counts. Whoever has the same file and the same versions repeats it to the last
byte; what a clock said is copied, for no clock says it twice.
"""

from __future__ import annotations

import json
import platform
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import canonical_agreement_json
from veilsum.errors import InvalidInputError
from veilsum.files.output import as_strict_json
from veilsum.files.safe_read import read_file_contents
from veilsum.net.identity import (
    Identity,
    certificate_fingerprint,
    certificate_name,
    certificate_public_key,
)
from veilsum.showing import Renderable, Rendering, counted_words

FORMAT = "veilsum audit 1"
# A signature under an audit is for that, and for no other use of the key.
CONTEXT = b"veilsum audit\0"
MOST_BYTES = 64 << 20
# What differs between machines, and is copied when an audit is repeated: short texts.
COPIED = ("made_with", "clock")
MOST_LETTERS = 1_000
SIGNED = ("party", "certificate", "signature")
# What may be asked of an audit, in words, and whether something is that. A record says
# what its replay is to do, and may be anybody's.
ASKED: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "coalitions": (
        "a text of at most 10,000 letters",
        lambda one: isinstance(one, str) and len(one) <= 10_000,
    ),
    "executions": (
        "a whole number from 1 to 10,000,000,000",
        lambda one: one is None or (type(one) is int and 1 <= one <= 10**10),
    ),
    "depth": (
        "quick, standard or deep",
        lambda one: one in ("quick", "standard", "deep"),
    ),
    "distance": (
        "a number above 0",
        lambda one: (
            one is None or (type(one) in (int, float) and isfinite(one) and one > 0)
        ),
    ),
    "seed": (
        "a whole number from 0 to 2^63 - 1",
        lambda one: type(one) is int and 0 <= one < 2**63,
    ),
}
# What is there if the file has several questions, and only then.
OF_STUDIES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "question": (
        "the name of a question, of at most 100 letters",
        lambda one: isinstance(one, str) and len(one) <= 100,
    )
}
# What is not as expected is shown in part: it may be as long or deep as a file can be.
SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlong = 200


@dataclass(frozen=True, repr=False)
class AuditRecord(Renderable):
    """One audit as JSON has it, signed or not."""

    content: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        audit: Mapping[str, Any],
        *,
        asked: Mapping[str, Any],
        agreed: Mapping[str, Any],
        clock: Sequence[str],
    ) -> AuditRecord:
        """Return the record of an audit.

        Args:
            audit: what came out, as plain values.
            asked: what was asked of it, by `ASKED`; of a study the question too.
            agreed: what was audited: digest of its file, graph, masks.
            clock: what a clock said, which no replay repeats.
        """
        keys = [key for key in (*ASKED, *OF_STUDIES) if key in {*asked, *ASKED}]
        return cls(
            {
                "format": FORMAT,
                "made_with": audit_environment(),
                "asked": {key: asked[key] for key in keys},
                "agreed": agreed,
                "audit": audit,
                "clock": list(clock),
            }
        )

    def showing(self) -> Rendering:
        """Return the verdict that it has; what a file says is not believed by that."""
        found, agreed = self.content["audit"], self.content["agreed"]
        signed = self.content.get("party")
        return Rendering(
            str(found["verdict"]),
            [
                "Record of an audit of "
                f"{counted_words(len(agreed['parties']), 'party')} "
                f"under {agreed['law']} masks: {found['executions']} executions, "
                f"{counted_words(len(found['outcomes']), 'attack')}, seed "
                f"{found['seed']}; "
                f"{'not signed' if signed is None else f'signed by {signed}'}"
            ],
            {"What it says of itself": [f"agreed on: {agreed['file']}"]},
        )

    @property
    def asked(self) -> dict[str, Any]:
        """Options that the audit was asked with."""
        return dict(self.content["asked"])

    @property
    def unsigned(self) -> dict[str, Any]:
        """All entries but the signature."""
        return {key: one for key, one in self.content.items() if key not in SIGNED}

    def signed_by(self, identity: Identity) -> AuditRecord:
        """Return it with a signature of all that it says."""
        own = {"party": identity.name, "certificate": identity.certificate}
        content = {**self.unsigned, **own}
        signature = identity.sign(CONTEXT + canonical_agreement_json(content))
        return AuditRecord({**content, "signature": signature.hex()})

    @property
    def is_signed(self) -> bool:
        """Whether the key of its certificate signed all of it, in the party's name."""
        from cryptography.exceptions import InvalidSignature

        content = dict(self.content)
        signature = content.pop("signature", None)
        certificate = content.get("certificate")
        if not isinstance(signature, str) or not isinstance(certificate, str):
            return False
        try:
            certificate_public_key(certificate).verify(
                bytes.fromhex(signature), CONTEXT + canonical_agreement_json(content)
            )
            return certificate_name(certificate) == content.get("party")
        except (InvalidSignature, ValueError):
            return False

    def signed_words(self, members: Mapping[str, str]) -> tuple[bool, str]:
        """Say who signed it, and whether that can be relied on.

        `members` are certificates by name, of those whom others know.
        """
        if not any(key in self.content for key in SIGNED):
            return True, "the record is not signed"
        if not self.is_signed:
            return False, "the record's signature does not hold: it is nobody's word"
        party, certificate = self.content["party"], self.content["certificate"]
        print_of = certificate_fingerprint(certificate)
        if party in members and certificate_fingerprint(members[party]) != print_of:
            return False, (
                f"the record is signed in the name of {party}, but not with the "
                "certificate that the file has for this party"
            )
        known = "the file's" if party in members else "a certificate that calls itself"
        return True, f"the record is signed by {known} {party} ({print_of})"

    def repeated(self, again: AuditRecord) -> AuditRecord:
        """Return a repetition, with what only this one can say copied into it.

        A signature is of everything, and not copied to anything else.
        """
        copied = {key: self.content[key] for key in COPIED}
        found = AuditRecord({**again.content, **copied})
        if found.content != self.unsigned:
            return found
        signed = {key: self.content[key] for key in SIGNED if key in self.content}
        return AuditRecord({**found.content, **signed})

    def difference(self, other: AuditRecord) -> str | None:
        """Return where two records first say something else; None if nowhere.

        Who signed is no part of what they say.
        """
        return _audit_record_difference(self.unsigned, other.unsigned, "")

    def to_json(self) -> str:
        """Return the text of the record's file."""
        return as_strict_json(self.content) + "\n"


def check_asked_of_audit(asked: Mapping[str, Any], where: str) -> None:
    """Refuse what no audit can be asked, before any work is done."""
    for key, (expected, holds) in {**ASKED, **OF_STUDIES}.items():
        if key in {*asked, *ASKED} and not holds(asked[key]):
            raise InvalidInputError(
                f"{where}: {key} must be {expected}, found {SHOWN.repr(asked[key])}",
                code="wrong-field-value",
            )


def read_audit_record(path: Path) -> AuditRecord:
    """Return the record in a file.

    Raises:
        InvalidInputError: it is none, or of another format, or not as it was written:
            what repeats it to the last byte has to have one spelling.
    """
    text = read_file_contents(path, MOST_BYTES, InvalidInputError)
    try:
        record = AuditRecord(json.loads(text))
        whole = (
            _audit_record_has_all(record.content) and record.to_json().encode() == text
        )
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise InvalidInputError(
            f"{path} is no record of an audit ({FORMAT}): expected the audit.json that "
            "veilsum audit --out writes, unchanged",
            code="not-an-audit-record",
        )
    check_asked_of_audit(record.asked, str(path))
    return record


def _audit_record_has_all(found: Any) -> bool:
    keys = {"made_with", "asked", "agreed", "audit", "clock"}
    return (
        isinstance(found, dict)
        and found.get("format") == FORMAT
        and keys <= found.keys() <= keys | {"format", *SIGNED}
        and isinstance(found["asked"], dict)
        and ASKED.keys() <= found["asked"].keys() <= {*ASKED, *OF_STUDIES}
        and isinstance(found["made_with"], dict)
        and found["made_with"].keys() == audit_environment().keys()
        and isinstance(found["clock"], list)
        and all(
            isinstance(one, str) and len(one) <= MOST_LETTERS
            for one in (*found["made_with"].values(), *found["clock"])
        )
    )


def audit_environment() -> dict[str, str]:
    """Return what could make a difference, beside the seed."""
    return {
        **{name: version(name) for name in ("veilsum", "numpy", "scipy")},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def _audit_record_difference(one: Any, other: Any, where: str) -> str | None:
    """Return where two values first differ; 1, 1.0 and true are different bytes."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                return f"{where}{SHOWN.repr(key)} is in one of them only"
            found = _audit_record_difference(one[key], other[key], f"{where}{key}/")
            if found is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            found = _audit_record_difference(a, b, f"{where}{k}/")
            if found is not None:
                return found
        return None
    if type(one) is type(other) and one == other:
        return None
    return f"{where.rstrip('/')}: {SHOWN.repr(one)} and {SHOWN.repr(other)}"
