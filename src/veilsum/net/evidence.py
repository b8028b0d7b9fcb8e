"""Evidence: two records that one start of a party signed, for anybody to look at.

A file of its own holds both as they came, with whatever else it takes to check them. It
is believed for the two signatures in it, and for nothing that its writer says.

A signature is of a whole record. So records that are too long for a file that anybody
reads are left out together, and their digests say so: that proves nothing by itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from veilsum.consortium.consortium import Consortium, canonical_agreement_json
from veilsum.consortium.pem import der_of_pem
from veilsum.errors import InvalidInputError
from veilsum.files.output import as_strict_json
from veilsum.net.identity import certificate_name, certificate_public_key
from veilsum.net.receipt import (
    DIGEST,
    FORMAT,
    MOST_BYTES,
    NAME,
    TEXT,
    Fields,
    Receipt,
    check_receipt_fields,
    check_receipt_format,
    read_signed_file_as,
    receipt_from,
)
from veilsum.protocol.codec import Codec, MalformedMessageError
from veilsum.protocol.evidence import (
    Contradiction,
    record_bytes_to_sign,
    records_contradict,
)
from veilsum.protocol.messages import Record
from veilsum.showing import Renderable, Rendering

EVIDENCE = "veilsum evidence 3"


@dataclass(frozen=True, kw_only=True, repr=False)
class Evidence(Renderable):
    """Accusation that a party contradicted itself: two records that it signed.

    Attributes:
        run: the run's name.
        plan: digest of the plan that both records were signed for, hexadecimal.
        consortium: digest of the consortium file.
        party: the party that signed both records.
        certificate: the certificate of the signing key, PEM.
        records: both frames, in Base64; empty if they are too long.
        left_out: SHA-256 of both records if they are too long; otherwise not written.
    """

    run: str
    plan: str
    consortium: str
    party: str
    certificate: str
    records: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def showing(self) -> Rendering:
        """Return the party accused; `judge_signed_evidence` checks the accusation."""
        kept = "both records are in it" if self.records else "records were too long"
        return Rendering(
            f"Evidence about {self.party} in the run {self.run}: {kept}",
            ["Whether it proves anything, verify says."],
            {"Digests": [f"evidence {self.digest}", f"plan {self.plan}"]},
        )

    def to_json(self) -> str:
        """Return the evidence as a file holds it."""
        return as_strict_json(self._content()) + "\n"

    def _content(self) -> dict[str, Any]:
        found = {"format": EVIDENCE, **asdict(self)}
        return {key: found[key] for key in found if key != "left_out" or self.left_out}

    @property
    def digest(self) -> str:
        """SHA-256 of its canonical JSON, as receipts have it."""
        return hashlib.sha256(canonical_agreement_json(self._content())).hexdigest()


@dataclass(frozen=True)
class EvidenceJudgement:
    """Verdict on a piece of evidence.

    Attributes:
        proved: whether the party contradicted itself.
        words: one sentence: the contradiction, or the reason why nothing is proved.
    """

    proved: bool
    words: str


def make_evidence(
    found: Contradiction, consortium: Consortium, *, plan: bytes
) -> Evidence:
    """Return what a party holds against another one, for others to look at."""
    whole = Evidence(
        run=consortium.run,
        plan=plan.hex(),
        consortium=consortium.digest.hex(),
        party=found.party,
        certificate=consortium.certificates[found.party],
        records=tuple(base64.b64encode(frame).decode() for frame in found.frames),
    )
    if len(whole.to_json().encode()) <= MOST_BYTES:
        return whole
    return replace(whole, records=(), left_out=found.digests)


def read_signed_receipt_or_evidence(path: Path) -> Receipt | Evidence:
    """Return the receipt or the evidence in a file, whatever it is worth."""
    return read_signed_file_as(path, "a receipt or evidence", _signed_evidence_from)


def _signed_evidence_from(table: Any) -> Receipt | Evidence:
    check_receipt_format(table, FORMAT, EVIDENCE)
    return receipt_from(table) if table["format"] == FORMAT else evidence_from(table)


def evidence_from(table: Any) -> Evidence:
    """Return the evidence that plain values describe; refuse all that is odd."""
    content = check_receipt_fields(table, EVIDENCE, FIELDS, optional={"left_out"})
    certificate_public_key(content["certificate"])
    pairs = {key: tuple(content.get(key, ())) for key in ("records", "left_out")}
    if bool(pairs["records"]) == bool(pairs["left_out"]):
        raise InvalidInputError(
            "records must be two, or left out and none", code="records-not-two"
        )
    return Evidence(**{**content, **pairs})


def _is_pair_in_evidence(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, list) and len(value) == 2 and all(map(fits, value))
    )


def _is_base64_in_evidence(value: Any) -> bool:
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return False
    return base64.b64encode(raw).decode() == value


FIELDS: Fields = {
    "run": TEXT,
    "plan": DIGEST,
    "consortium": DIGEST,
    "party": NAME,
    "certificate": TEXT,
    "records": (
        lambda value: (
            value == [] or _is_pair_in_evidence(_is_base64_in_evidence)(value)
        ),
        "a list of two texts in Base64, or empty",
    ),
    "left_out": (_is_pair_in_evidence(DIGEST[0]), f"a list of two, each {DIGEST[1]}"),
}


def judge_signed_evidence(
    evidence: Evidence,
    consortium: Consortium | None = None,
    *,
    receipts: Sequence[Receipt] = (),
) -> EvidenceJudgement:
    """Say whether a party contradicted itself, or why that does not follow.

    Args:
        evidence: what somebody shows.
        consortium: whose certificates count; without it nothing says whose key it is.
        receipts: of the same run, if there are any.
    """
    try:
        _check_evidence_place(evidence, consortium, receipts)
        pair = _prove_contradiction(evidence)
    except InvalidInputError as error:
        words = f"it proves nothing against {evidence.party!r}: {error}"
        return EvidenceJudgement(proved=False, words=words)
    named = repr(evidence.party)
    who = named if consortium else f"whoever has the key that is in it for {named}"
    return EvidenceJudgement(
        proved=True,
        words=f"{who} contradicted itself, and both signatures prove it: in one start, "
        f"under the plan {evidence.plan[:16]}, it {pair.deed}, which no honest party "
        "does",
    )


def _check_evidence_place(
    evidence: Evidence, consortium: Consortium | None, receipts: Sequence[Receipt]
) -> None:
    """Refuse what is not about this consortium and these receipts."""
    if certificate_name(evidence.certificate) != evidence.party:
        raise InvalidInputError(
            "the certificate in it names somebody else",
            code="certificate-of-other-member",
        )
    if any(one.plan != evidence.plan for one in receipts):
        raise InvalidInputError(
            "it is of another plan than the receipts", code="other-plan"
        )
    if consortium is None:
        return
    known = consortium.certificates.get(evidence.party)
    if known is None or der_of_pem(known) != der_of_pem(evidence.certificate):
        raise InvalidInputError(
            "the certificate in it is not that of a member",
            code="certificate-of-other-member",
        )
    here = (consortium.run, consortium.digest.hex())
    if (evidence.run, evidence.consortium) != here:
        raise InvalidInputError(
            "it is of another run or consortium file", code="other-run"
        )


def _prove_contradiction(evidence: Evidence) -> Contradiction:
    """Return the two records as a contradiction; refuse a pair that is none."""
    if evidence.left_out:
        raise InvalidInputError(
            "its two records are not in it, for they are too long for a file of "
            f"{MOST_BYTES:,} bytes; whoever wrote it has them with what it kept of the "
            "run",
            code="records-too-long",
        )
    codec = Codec(MOST_BYTES // 8)
    frames = [base64.b64decode(one) for one in evidence.records]
    one, other = (_record_in_evidence(frame, evidence, codec) for frame in frames)
    digests = codec.content_digest(one), codec.content_digest(other)
    if digests[0] == digests[1]:
        raise InvalidInputError(
            "the two records are one and the same", code="records-identical"
        )
    pair = Contradiction.of((frames[0], frames[1]), codec)
    if pair.anew:
        raise InvalidInputError(
            "the records are of two starts, and whoever has lost its disk starts anew",
            code="records-of-two-starts",
        )
    plan = bytes.fromhex(evidence.plan)
    if not records_contradict(one, other, digests, plan, codec):
        raise InvalidInputError(
            "an honest party signs both records", code="nothing-contradictory"
        )
    if not pair.is_a_lie:
        raise InvalidInputError(
            "whoever goes on with an old copy leaves twice",
            code="nothing-contradictory",
        )
    return pair


def _record_in_evidence(frame: bytes, evidence: Evidence, codec: Codec) -> Record:
    """Return the record in a frame; refuse one that the party did not sign."""
    from cryptography.exceptions import InvalidSignature

    try:
        found = codec.decode(frame)
    except MalformedMessageError as error:
        raise InvalidInputError(
            f"a record cannot be read: {error}", code="unreadable-record"
        ) from None
    if not isinstance(found, Record):
        raise InvalidInputError(
            "it has a message in it that nobody signs", code="record-never-signed"
        )
    if found.party != evidence.party:
        raise InvalidInputError(
            f"a record is of {found.party!r}", code="record-of-other-kind"
        )
    content = record_bytes_to_sign(
        codec.content_digest(found), bytes.fromhex(evidence.plan)
    )
    try:
        certificate_public_key(evidence.certificate).verify(found.signature, content)
    except InvalidSignature:
        kind = type(found).__name__
        raise InvalidInputError(
            f"the signature under a {kind} is not of this party, plan and start",
            code="bad-signature",
        ) from None
    return found
