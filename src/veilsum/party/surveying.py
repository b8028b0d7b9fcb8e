"""Local tasks of members in a survey: parts, invitations, letters, published results.

A member makes a key for one survey and codes for the guests it vouches for. The public
data of these are its *part*, a file signed with the member's identity. All parts and a
plan make the survey's file. The codes stay with the member, and go to the guests.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from veilsum.consortium.consortium import Consortium, canonical_agreement_json
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.consortiums import draft_consortium
from veilsum.files.output import as_strict_json
from veilsum.files.safe_read import read_file_contents
from veilsum.files.scenarios import read_scenario_file
from veilsum.locale import catalogue
from veilsum.net.identity import (
    Identity,
    certificate_public_key,
    is_signature_by_identity,
)
from veilsum.net.receipt import (
    Receipt,
    check_receipt_fields,
    read_receipt,
    read_signed_file_as,
    verify_receipts,
)
from veilsum.net.trust import check_certified_identity
from veilsum.numbers.arrays import listed_names
from veilsum.party.replay import (
    SUMS,
    agreed_findings,
    read_plain_result,
    read_sums_to_replay,
    replay_released_sums,
    result_findings,
)
from veilsum.sums.kinds import question_kind_of
from veilsum.surveys.delegate import SurveyDelegateStore
from veilsum.surveys.question import SurveyResult, survey_number_in_full
from veilsum.surveys.submission import survey_guest_key
from veilsum.surveys.survey_set import SurveySet, submissions_digest
from veilsum.surveys.terms import (
    MOST_GUESTS,
    SurveyTerms,
    check_guest_name,
    survey_terms,
)

FORMAT = "veilsum survey part 1"
RESULT_FORMAT = "veilsum survey result 1"
MOST_BYTES = 8 << 20
CODES = ("guest", "code")
FIELDS = {
    "member": (lambda value: isinstance(value, str), "a text"),
    "key": (lambda value: isinstance(value, str), "a text"),
    "guests": (
        lambda value: (
            isinstance(value, dict)
            and all(isinstance(key, str) for key in value.values())
        ),
        "a table of guests and their keys",
    ),
    "signature": (lambda value: isinstance(value, str), "a text"),
}


@dataclass(frozen=True)
class SurveyPart:
    """Contribution of one member to a survey's file.

    Attributes:
        key: X25519 public key that it made for this survey, hexadecimal.
        guests: guests it vouches for, and their Ed25519 public keys, hexadecimal.
        signature: signature of all this by the member's identity, hexadecimal.
    """

    member: str
    key: str
    guests: Mapping[str, str]
    signature: str

    def to_json(self) -> str:
        return as_strict_json({**self.content, "signature": self.signature})

    @property
    def content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "member": self.member,
            "key": self.key,
            "guests": dict(self.guests),
        }

    @property
    def signed(self) -> bytes:
        return b"veilsum survey part\0" + canonical_agreement_json(self.content)

    def check(self, certificate: str) -> None:
        """Refuse a part that its member has not signed."""
        try:
            signature = bytes.fromhex(self.signature)
        except ValueError:
            signature = b""
        if not is_signature_by_identity(
            certificate_public_key(certificate), self.signed, signature
        ):
            raise InvalidInputError(
                f"the part of {self.member!r} is not signed with the key of its "
                "certificate: have it sent again",
                code="bad-signature",
            )


def read_survey_part(path: Path) -> SurveyPart:
    def made(table: Any) -> SurveyPart:
        return SurveyPart(**check_receipt_fields(table, FORMAT, FIELDS))

    return read_signed_file_as(path, "a part of a survey", made)


def read_guest_names(path: Path) -> tuple[str, ...]:
    """Return the guests in a file, one a line."""
    try:
        text = read_file_contents(path, MOST_BYTES, InvalidInputError).decode(
            "utf-8-sig"
        )
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"{path} is no text in UTF-8: save it so", code="not-utf8"
        ) from None
    found = [" ".join(line.split()) for line in text.splitlines()]
    names = tuple(check_guest_name(name) for name in found if name)
    if len(names) > MOST_GUESTS:
        raise InvalidInputError(
            f"{path} names more than {MOST_GUESTS:,} guests", code="too-many-guests"
        )
    if len(set(names)) < len(names):
        raise InvalidInputError(
            f"{path} names somebody twice: invite everybody once",
            code="duplicate-guest",
        )
    return names


def make_survey_part(
    identity: Identity, store: SurveyDelegateStore, names: Sequence[str]
) -> tuple[SurveyPart, dict[str, str]]:
    """Return a member's part of a new survey, and its guests' codes."""
    key = store.new_key()
    codes = {name: store.invite(name, key) for name in names}
    unsigned = SurveyPart(
        member=identity.name,
        key=key.hex(),
        guests={name: _public_key_of_guest_code(code) for name, code in codes.items()},
        signature="",
    )
    signature = identity.sign(unsigned.signed).hex()
    return SurveyPart(unsigned.member, unsigned.key, unsigned.guests, signature), codes


def draft_survey(
    plan: Path, parts: Iterable[SurveyPart], **known: Any
) -> tuple[Consortium, SurveyTerms, tuple[str, ...]]:
    """Return the survey that a plan and its members' parts make, and what is left out.

    Args:
        plan: a scenario file with [survey], without guests and delegates.
        parts: of every member.
        **known: certificates, addresses and organiser, as for `draft_consortium`.

    Raises:
        InvalidInputError: a part is missing, unsigned, or there twice.
    """
    file = read_scenario_file(plan)
    section: Any = file.asked
    if section is None or not question_kind_of(section).has_guests:
        raise InvalidScenarioError(
            f"{plan} has no [survey]: say its title, unit, rows, columns and range",
            code="missing-section",
        )
    if section.guest or section.delegates or section.set:
        raise InvalidScenarioError(
            f"{plan}: guests, delegates and set of a [survey] come from members' parts "
            "and from closing it: leave them out",
            code="survey-keys-reserved",
        )
    given = tuple(parts)
    members = [one.member for one in given]
    if len(set(members)) < len(members):
        raise InvalidInputError(
            "there are two parts of one member: give the one that it sent last",
            code="duplicate-part",
        )
    rows = tuple(
        {"name": name, "key": key, "invited_by": one.member}
        for one in given
        for name, key in one.guests.items()
    )
    asked = structs.replace(
        section, guest=rows, delegates={one.member: one.key for one in given}
    )
    drafted, left_out = draft_consortium(
        plan, file=structs.replace(file, survey=asked), **known
    )
    if not isinstance(drafted, Consortium):
        raise InvalidScenarioError(
            f"{plan}: a survey is no question of a study", code="survey-in-study"
        )
    terms = survey_terms(drafted)
    certificates = drafted.certificates
    for one in given:
        one.check(certificates[one.member])
    return drafted, terms, left_out


def invitation_codes_file(codes: Mapping[str, str]) -> bytes:
    """Return codes as a table, which is for the member's eyes and each guest's."""
    return _guest_codes_csv(CODES, codes.items())


def read_invitation_codes(path: Path) -> dict[str, str]:
    """Return the codes in a file that `invitation_codes_file` made."""
    text = read_file_contents(path, MOST_BYTES, InvalidInputError).decode(
        "utf-8-sig", "replace"
    )
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    if not rows or tuple(rows[0]) != CODES or any(len(row) != 2 for row in rows):
        raise InvalidInputError(
            f"{path} is no table of codes: expected the columns {', '.join(CODES)}, as "
            "veilsum collect delegate writes them",
            code="not-a-code-table",
        )
    return dict(rows[1:])


def check_survey(
    consortium: Consortium, identity: Identity, store: SurveyDelegateStore
) -> SurveyTerms:
    """Return what an open survey says, if its file is true about this member.

    To be made before a guest is invited: seals that were made to a key of somebody
    else's cannot be called back.

    Raises:
        InvalidInputError: certificate, key or guests are not as the member made them.
    """
    check_certified_identity(identity, consortium.certificates)
    terms = survey_terms(consortium)
    store.check_file(terms, identity.name)
    return terms


def survey_member_letters(
    terms: SurveyTerms,
    member: str,
    codes: Mapping[str, str],
    *,
    page: str,
    page_hash: str,
    language: str = "en",
) -> bytes:
    """Return a table with a letter to each guest of a member.

    Raises:
        InvalidInputError: the survey's roster has other guests of this member than it
            invited, or other keys.
    """
    invited = {one.name: one.key for one in terms.guests if one.invited_by == member}
    made = {
        name: bytes.fromhex(_public_key_of_guest_code(code))
        for name, code in codes.items()
    }
    if odd := sorted(
        name
        for name in invited.keys() | made.keys()
        if invited.get(name) != made.get(name)
    ):
        raise InvalidInputError(
            f"the survey's file and these codes differ about {listed_names(odd[:5])}: "
            "whom "
            f"{member!r} vouches for was changed on the way; send nothing, and speak "
            "with whoever wrote the file",
            code="codes-changed",
        )
    words = catalogue(language, "survey")["letter"]
    # Against whom the proof is.
    who = words["members" if terms.tolerate else "outsiders"]
    who = who.format(tolerate=terms.tolerate)
    if terms.tolerate_guests:
        who = words["with_guests"].format(members=who, guests=terms.tolerate_guests)
    said = {
        "title": terms.title,
        "page": page,
        "closes": words["closes"].format(day=terms.closes) if terms.closes else "",
        "who": who,
        "least": terms.minimum_honest + 1,
        "empty": words["zero" if terms.least <= 0 <= terms.most else "no_zero"],
        "member": member,
        "members": ", ".join(terms.names),
        "others": ", ".join(name for name in terms.names if name != member),
        "hash": page_hash,
        "digest": terms.digest,
    }
    rows = (
        (name, code, words["text"].format(guest=name, code=code, **said))
        for name, code in codes.items()
    )
    return _guest_codes_csv((*CODES, "letter"), rows)


def published_survey_run(
    closed: Consortium, taken: SurveySet, run: Path, receipts: Sequence[Receipt]
) -> dict[str, Any]:
    """Return what guests may read of a run, worked out again from what was signed.

    Args:
        closed: the survey as delegates joined it.
        taken: its set.
        run: what one of them has of the run, the folder of `veilsum join --out`.
        receipts: of all others, too.

    Raises:
        InvalidInputError: somebody's receipt is missing, or something that was signed
            does not hold.
    """
    own = read_receipt(run / "receipt.json")
    signed = [*{one.party: one for one in (*receipts, own)}.values()]
    names = [member.name for member in closed.members]
    if missing := [name for name in names if name not in {one.party for one in signed}]:
        raise InvalidInputError(
            f"there is no receipt of {listed_names(missing)}: guests are shown what "
            "every "
            "delegate has signed; give it with --receipt",
            code="missing-receipt",
        )
    sums, plain = (
        read_sums_to_replay(run / SUMS),
        read_plain_result(run / "result.json"),
    )
    verdict = verify_receipts(signed, closed)
    findings = [
        *verdict.findings,
        *agreed_findings(signed, closed),
        *result_findings(signed, closed, result=plain, sums=sums),
    ]
    if wrong := [one for one in findings if not one.good]:
        raise InvalidInputError(
            f"the result is not what was signed: {wrong[0].check}: {wrong[0].detail}",
            code="result-not-signed",
        )
    found = replay_released_sums(closed, sums=sums, members=tuple(names))
    assert isinstance(found, SurveyResult)
    survey, width = found.survey, len(found.survey.columns)
    if taken.digest != survey.set:
        raise InvalidInputError(
            "the run was of another set than this host's", code="other-set"
        )
    totals = [
        None if one is None else survey_number_in_full(one * survey.unit)
        for one in found.counts
    ]
    return {
        "format": RESULT_FORMAT,
        "survey": survey.digest,
        "set": survey.set,
        "title": survey.title,
        "unit": str(survey.unit),
        "rows": list(survey.rows),
        "columns": list(survey.columns),
        "guests": found.guests,
        "invited": found.invited,
        "given": found.given.tolist(),
        "near": [list(pair) for pair in found.near],
        "more_near": found.more_near,
        "may_follow": list(found.may_follow),
        "totals": [totals[k : k + width] for k in range(0, len(totals), width)],
        "beyond": list(found.beyond),
        "promise": found.guarantee.sentence,
        "submissions": list(taken.submissions),
        "submissions_sha256": submissions_digest(taken.submissions),
        "receipts": [json.loads(one.to_json()) for one in signed],
    }


def _public_key_of_guest_code(code: str) -> str:
    return survey_guest_key(code).public_key().public_bytes_raw().hex()


def _guest_codes_csv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    made = io.StringIO(newline="")
    # Some spreadsheets split at semicolons or tabs: quoted, a cell stays one.
    writer = csv.writer(made, quoting=csv.QUOTE_ALL)
    writer.writerow(columns)
    writer.writerows(rows)
    return made.getvalue().encode()
