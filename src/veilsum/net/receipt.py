"""Receipts: what each party signs about a run that it took part in.

A receipt holds what everybody may know: who took part, under which plan, which digest
the released result has, what was promised. It holds nothing private and no hash of it.
The result's digest is keyed by what only members hold: a count of few digits could be
found by trying them all, by anybody who is shown a receipt.
What several parties' receipts prove together is said finding by finding.
"""

from __future__ import annotations

import hmac
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from math import isclose
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from veilsum.consortium.consortium import (
    Consortium,
    canonical_agreement_json,
    check_member_name,
)
from veilsum.consortium.pem import der_of_pem
from veilsum.errors import InvalidInputError
from veilsum.files.output import as_strict_json
from veilsum.files.safe_read import read_file_contents
from veilsum.locale import (
    released_sum_phrase,
    statistics_in_locale_words,
    values_without_locale_words,
)
from veilsum.net.identity import (
    Identity,
    certificate_fingerprint,
    certificate_name,
    certificate_public_key,
)
from veilsum.numbers.arrays import FloatArray, is_real_number, listed_names
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Numbers
from veilsum.showing import Renderable, Rendering, ShownTable, counted_words

FORMAT = "veilsum receipt 3"
_VERSIONED = re.compile("veilsum (receipt|evidence) [0-9]{1,4}")
# A signature under a receipt is for that, and for no other use of the key.
CONTEXT = b"veilsum receipt\0"
# What a receipt has only where there is something to say.
OPTIONAL = frozenset({"evidence", "sums"})
# Results whose files do not hold the answer that was signed, by a key they have.
DERIVED = {"price": "a [dispatch]", "covariance": "a [statistics]"}

T = TypeVar("T")

# No receipt nests its lists and tables so deep.
DEEPEST = 32
SEAL_DIGITS = 128
MOST_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, repr=False)
class Receipt(Renderable):
    """One party's word about one run.

    Attributes:
        run: the run's name.
        plan: digest of everything the parties' machines had agreed on, hexadecimal.
        consortium: digest of the consortium file.
        consent: digest of the page that its owner agreed to, of the part of it that
            says the same to all members.
        party: who signs.
        certificate: with what key, PEM.
        parties: who took part to the end.
        lost: who was lost on the way.
        epochs: those that were committed.
        confirmed: neighbours with whom every one of these epochs was confirmed.
        result: keyed digest of the released result, see `keyed_receipt_digest`.
        sums: keyed digest of all sums that everybody knows, see `receipt_sums_digest`;
            a receipt of a run without any does not have the field.
        released: every released sum: its round, its parties (or that it is over
            guests), and the number of its numbers by statistic.
        guarantee: what was promised.
        started: when, UTC, by this party's clock.
        finished: when.
        version: of veilsum.
        evidence: digests of what it can show of others that contradicted themselves;
            a receipt without any does not have the field.
        signature: of all this, hexadecimal.
    """

    run: str
    plan: str
    consortium: str
    consent: str
    party: str
    certificate: str
    parties: tuple[str, ...]
    lost: tuple[str, ...]
    epochs: tuple[int, ...]
    confirmed: tuple[str, ...]
    result: str
    released: tuple[Mapping[str, Any], ...]
    guarantee: Mapping[str, Any]
    started: str
    finished: str
    version: str
    evidence: tuple[str, ...] = ()
    sums: str = ""
    signature: str

    def to_json(self) -> str:
        """Return the receipt as a file holds it."""
        return as_strict_json(self._content()) + "\n"

    def _content(self) -> dict[str, Any]:
        found = {"format": FORMAT, **asdict(self)}
        return {key: found[key] for key in found if key not in OPTIONAL or found[key]}

    def showing(self) -> Rendering:
        """Return who says what of which run; `is_signed` is another question."""
        lost = f"; lost: {', '.join(self.lost)}" if self.lost else ""
        return Rendering(
            f"Receipt of {self.party} for the run {self.run}",
            [
                (
                    f"took part to the end: {', '.join(self.parties)}{lost}",
                    f"{counted_words(len(self.epochs), 'epoch')} committed, confirmed "
                    "with "
                    f"{', '.join(self.confirmed) or 'nobody'}",
                    f"from {self.started} to {self.finished}, by its own clock; "
                    f"veilsum {self.version}",
                )
            ],
            {
                "Released": [*map(released_line_of_receipt, self.released)],
                "Digests": [
                    f"plan {self.plan}",
                    f"consortium {self.consortium}",
                    f"consent {self.consent}",
                    f"result {self.result}",
                    *(f"evidence {one}" for one in self.evidence),
                ],
            },
        )

    @property
    def is_signed(self) -> bool:
        """Whether the key of its certificate signed all of it."""
        from cryptography.exceptions import InvalidSignature

        content = self._content()
        signature = bytes.fromhex(content.pop("signature"))
        try:
            certificate_public_key(self.certificate).verify(
                signature, _receipt_bytes_to_sign(content)
            )
        except InvalidSignature:
            return False
        return True


def make_receipt(identity: Identity, **fields: Any) -> Receipt:
    """Return a receipt of an identity's party, signed.

    Args:
        identity: who signs; its name and certificate go in.
        fields: all others of a `Receipt`; lines and words for people may be among
            them, of which only the facts are signed.
    """
    own = {"party": identity.name, "certificate": identity.certificate}
    released = [getattr(line, "facts", line) for line in fields["released"]]
    signed = {
        "released": released,
        "guarantee": values_without_locale_words(fields["guarantee"]),
    }
    content = {"format": FORMAT, **fields, **signed, **own}
    signature = identity.sign(_receipt_bytes_to_sign(content)).hex()
    return receipt_from(
        json.loads(canonical_agreement_json({**content, "signature": signature}))
    )


def read_receipt(path: str | Path) -> Receipt:
    """Return the receipt in a file; whether it is true is another question."""
    return read_signed_file_as(Path(path), "a receipt", receipt_from)


def read_result_beside_receipt(path: Path) -> ResultFile:
    """Return what a result file says that receipts speak of too."""
    return read_signed_file_as(
        path, "a result to compare with receipts", result_for_receipts
    )


def read_signed_file_as(path: Path, what: str, made: Callable[[Any], T]) -> T:
    """Return what is made of a file's JSON; refuse, in a sentence, what is not that."""
    found = read_file_contents(path, MOST_BYTES, InvalidInputError)
    try:
        return made(_parse_receipt_json(found.decode()))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} is not {what}: {error}", code="wrong-file-kind"
        ) from None


@dataclass(frozen=True)
class ResultFile:
    """The part of a party's result file that receipts can confirm.

    Attributes:
        digest: digest of its answer, as in a receipt.
    """

    digest: str
    guarantee: Mapping[str, Any]


def result_for_receipts(table: Any) -> ResultFile:
    """Return what plain values say of a result; refuse what cannot be compared."""
    if not isinstance(table, dict) or not isinstance(table.get("guarantee"), dict):
        raise InvalidInputError(
            "expected the JSON that veilsum join writes to result.json",
            code="not-a-result",
        )
    for key, kind in DERIVED.items():
        if key in table:
            raise InvalidInputError(
                f"it is of {kind}, and such a file holds what follows from the signed "
                "numbers, not these themselves; compare the parties' files with each "
                "other",
                code="derived-file",
            )
    answer = table.get("minimiser")
    if not _is_list_in_receipt(_is_number_in_receipt)(answer):
        raise InvalidInputError(
            "its minimiser must be a list of numbers", code="malformed-minimiser"
        )
    if not _is_hex_in_receipt(SEAL_DIGITS)(table.get("seal")):
        raise InvalidInputError(
            f"its seal must be {SEAL_DIGITS} hexadecimal digits, as veilsum join "
            "writes",
            code="malformed-seal",
        )
    numbers = np.array(answer, dtype=np.float64)
    digest = keyed_receipt_digest(numbers, bytes.fromhex(table["seal"]))
    return ResultFile(digest, table["guarantee"])


def keyed_receipt_digest(numbers: FloatArray, seal: bytes) -> str:
    """Return a result's digest as receipts have it, hexadecimal.

    The key is the signature of the party that proposed the result, which no receipt
    holds: members compare receipts and results, and others cannot try out guesses.
    """
    return hmac.digest(seal, Codec.digest(numbers), "sha256").hex()


def receipt_sums_digest(sums: Sequence[Numbers], seal: bytes) -> str:
    """Return the digest of all sums of a run as receipts have it, hexadecimal.

    Whatever a result file says beyond its answer follows from these.
    """
    content = b"".join(map(Codec.digest, sums))
    return hmac.digest(seal, b"veilsum sums\0" + content, "sha256").hex()


def receipt_from(table: Any) -> Receipt:
    """Return the receipt that plain values describe; refuse all that is odd."""
    content = check_receipt_fields(table, FORMAT, FIELDS, optional=OPTIONAL)
    certificate_public_key(content["certificate"])
    for key, value in content.items():
        content[key] = tuple(value) if isinstance(value, list) else value
    return Receipt(**content)


def check_receipt_format(table: Any, *kinds: str) -> None:
    """Refuse what is of none of these formats; name the version that it is of."""
    found = table.get("format") if isinstance(table, dict) else None
    if found in kinds:
        return
    wanted = " or ".join(f'"{kind}"' for kind in kinds)
    known = isinstance(found, str) and _VERSIONED.fullmatch(found)
    told = (
        f', found "{found}": read it with the version of veilsum that wrote it'
        if known
        else ""
    )
    raise InvalidInputError(
        f"expected JSON with the format {wanted}{told}", code="wrong-format"
    )


def check_receipt_fields(
    table: Any, kind: str, fields: Fields, *, optional: Set[str] = frozenset()
) -> dict[str, Any]:
    """Return the fields of a file of some format; refuse others, and odd values."""
    check_receipt_format(table, kind)
    content = {key: value for key, value in table.items() if key != "format"}
    if odd := sorted((content.keys() ^ fields.keys()) - (optional - content.keys())):
        raise InvalidInputError(
            f'expected exactly the fields of "{kind}"; missing or unknown: {odd}',
            code="wrong-fields",
        )
    for key, value in content.items():
        fits, words = fields[key]
        if not fits(value):
            raise InvalidInputError(f"{key} must be {words}", code="wrong-field-value")
    return content


def _receipt_bytes_to_sign(content: Mapping[str, Any]) -> bytes:
    return CONTEXT + canonical_agreement_json(content)


def _parse_receipt_json(text: str) -> Any:
    """Return JSON's values; refuse what two readers could understand differently."""
    found = json.loads(text, object_pairs_hook=_receipt_keys_once)
    canonical_agreement_json(found)  # no nan and no infinity anywhere
    if _receipt_json_depth(found) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return found


def _receipt_json_depth(value: Any) -> int:
    """Return how deep lists and tables are nested, one level after the other."""
    depth, level = 0, [value]
    while level:
        inside = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [part for one in inside if isinstance(one, list) for part in one]
        depth += 1
    return depth


def _receipt_keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a key twice")
    return found


def _is_text_in_receipt(value: Any) -> bool:
    return isinstance(value, str)


def _is_number_in_receipt(value: Any) -> bool:
    """Say whether a value is a number that float64 has room for."""
    return type(value) in {int, float} and abs(value) <= sys.float_info.max


def _is_list_in_receipt(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_hex_in_receipt(digits: int) -> Callable[[Any], bool]:
    pattern = re.compile(f"[0-9a-f]{{{digits}}}")
    return lambda value: (
        _is_text_in_receipt(value) and pattern.fullmatch(value) is not None
    )


def _is_name_in_receipt(value: Any) -> bool:
    try:
        check_member_name(value)
    except InvalidInputError:
        return False
    return True


def _is_time_in_receipt(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).utcoffset() is not None
    except (TypeError, ValueError):
        return False


def _is_count_in_receipt(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_release_in_receipt(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= RELEASE.keys():
        return False
    return all(RELEASE[key](part) for key, part in value.items())


def _are_statistics_in_receipt(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(map(_is_text_in_receipt, value))
        and all(map(_is_count_in_receipt, value.values()))
    )


def released_line_of_receipt(release: Mapping[str, Any]) -> str:
    """Return a released sum of a receipt, for people."""
    if "parties" in release and "statistics" in release and "round" in release:
        facts = release["round"], release["statistics"], release["parties"]
        return released_sum_phrase(*facts)
    if "guests" in release:
        words = statistics_in_locale_words(release.get("statistics", {}), "the sum")
        return (
            f"round {release.get('round')}, summed over all guests of the set: {words}"
        )
    return f"{release.get('key')} of {listed_names(release.get('parties') or ['all'])}"


# What a field may be, and how to say so.
Field: TypeAlias = tuple[Callable[[Any], bool], str]
Fields: TypeAlias = Mapping[str, Field]

DIGEST: Field = (_is_hex_in_receipt(64), "a digest of 64 hexadecimal digits")
NAME: Field = (_is_name_in_receipt, "a name")
TEXT: Field = (_is_text_in_receipt, "a text")
_NAMES = (_is_list_in_receipt(_is_name_in_receipt), "a list of names")
_TIME = (
    _is_time_in_receipt,
    "a date and time with its zone, as 2030-01-31T12:00:00+00:00",
)

# What a receipt may have about one released sum.
RELEASE: Mapping[str, Callable[[Any], bool]] = {
    "round": _is_count_in_receipt,
    "parties": _is_list_in_receipt(_is_name_in_receipt),
    "guests": lambda value: value is True,
    "statistics": _are_statistics_in_receipt,
    "key": _is_text_in_receipt,
}

FIELDS: Fields = {
    "run": TEXT,
    "plan": DIGEST,
    "consortium": DIGEST,
    "consent": DIGEST,
    "party": NAME,
    "certificate": TEXT,
    "parties": _NAMES,
    "lost": _NAMES,
    "epochs": (_is_list_in_receipt(_is_count_in_receipt), "a list of whole numbers"),
    "confirmed": _NAMES,
    "result": DIGEST,
    "released": (
        _is_list_in_receipt(_is_release_in_receipt),
        "a list of released sums",
    ),
    "guarantee": (lambda value: isinstance(value, dict), "a table"),
    "started": _TIME,
    "finished": _TIME,
    "version": TEXT,
    "evidence": (
        lambda value: (
            bool(value) and _is_list_in_receipt(_is_hex_in_receipt(64))(value)
        ),
        "a list of digests of 64 hexadecimal digits, and absent without any",
    ),
    "sums": DIGEST,
    "signature": (_is_hex_in_receipt(128), "a signature of 128 hexadecimal digits"),
}


# What all receipts of a run must say alike, and how to call it.
ALIKE = {
    "run": "the same run",
    "plan": "the same plan",
    "consortium": "the same consortium file",
    "parties": "the same parties",
    "lost": "the same parties lost",
    "epochs": "the same epochs",
    "result": "the same result",
    "released": "the same release",
    "guarantee": "the same guarantee",
    "sums": "the same sums",
}

# How far two machines' guarantees may be apart, each number by itself.
LAST_DIGITS = 1e-9

# What a guarantee says of the one coalition by which it is told.
ABOUT_THE_WORST = frozenset(
    {"corrupted", "honest", "components", "released", "worst_coalition"}
)

Edge = tuple[str, str]


@dataclass(frozen=True)
class ReceiptFinding:
    """One thing that was looked at.

    Attributes:
        check: what must hold.
        detail: who is concerned.
    """

    check: str
    good: bool
    detail: str


@dataclass(frozen=True, repr=False)
class Verdict(Renderable):
    """All findings about some receipts.

    Attributes:
        fingerprints: of each receipt's certificate, by party: without a consortium
            file only people can say whose they are.
    """

    findings: tuple[ReceiptFinding, ...]
    fingerprints: tuple[tuple[str, str], ...]

    @property
    def good(self) -> bool:
        """Whether everything holds."""
        return all(finding.good for finding in self.findings)

    def showing(self) -> Rendering:
        """Return whether everything holds, and each finding."""
        rows = [
            ("ok" if one.good else "NOT ok", one.check, one.detail)
            for one in self.findings
        ]
        words = "everything holds" if self.good else "NOT everything holds"
        prints = [f"{party}  {told}" for party, told in self.fingerprints]
        return Rendering(
            f"{counted_words(len(self.fingerprints), 'receipt')}: {words}",
            [ShownTable(("", "what must hold", "found"), rows)],
            {"Fingerprints of certificates": prints},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        prints = [{"party": p, "fingerprint": f} for p, f in self.fingerprints]
        findings = [asdict(finding) for finding in self.findings]
        return {"good": self.good, "findings": findings, "fingerprints": prints}


def verify_receipts(
    receipts: Sequence[Receipt],
    consortium: Consortium | None = None,
    *,
    result: ResultFile | None = None,
) -> Verdict:
    """Say what receipts prove; with a consortium file also that they are its members'.

    With a result file also that it is the result they speak of. A receipt whose
    signature is bad still takes part in the other findings.
    """
    if not receipts:
        raise InvalidInputError(
            "expected the receipts of a run, found none", code="no-receipts"
        )

    def each(check: str, holds: Callable[[Receipt], Any]) -> ReceiptFinding:
        return finding_for_each_receipt(
            check, receipts, (r.party for r in receipts if not holds(r))
        )

    findings = [
        each("signatures are good", lambda r: r.is_signed),
        each("certificates name their party", _is_own_receipt),
        *(
            []
            if consortium is None
            else _check_receipts_by_consortium(receipts, consortium)
        ),
        _check_receipts_once_each(receipts),
        *(_check_receipts_alike(receipts, field) for field in ALIKE),
        _check_receipts_agreed_to_page(receipts),
        each("an epoch was committed", lambda r: r.epochs),
        each(
            "runs started before they finished",
            lambda r: (
                datetime.fromisoformat(r.started) <= datetime.fromisoformat(r.finished)
            ),
        ),
        _check_receipt_members(receipts, consortium),
        _check_enough_receipts(receipts, consortium),
        each(
            "guarantees are about those who took part",
            lambda r: _parties_covered_by_receipt(r.guarantee) == sorted(r.parties),
        ),
        _check_missing_receipts(receipts, consortium),
        _check_receipt_edges(receipts, consortium),
        *(
            []
            if result is None
            else _check_result_as_signed_in_receipts(receipts, result)
        ),
    ]
    prints = tuple(
        (one.party, certificate_fingerprint(one.certificate)) for one in receipts
    )
    return Verdict(tuple(findings), prints)


def _receipt_finding(check: str, wrong: Sequence[str], right: str) -> ReceiptFinding:
    return ReceiptFinding(check, not wrong, listed_names(wrong) if wrong else right)


def finding_for_each_receipt(
    check: str, receipts: Sequence[Receipt], wrong: Iterable[str]
) -> ReceiptFinding:
    bad = sorted(wrong)
    return _receipt_finding(
        check, [f"not of {name}" for name in bad], _receipts_of_all_members(receipts)
    )


def _receipts_of_all_members(receipts: Sequence[Receipt]) -> str:
    return f"{len(receipts)} of {len(receipts)}"


def _is_own_receipt(receipt: Receipt) -> bool:
    try:
        return certificate_name(receipt.certificate) == receipt.party
    except InvalidInputError:
        return False


def _check_receipts_by_consortium(
    receipts: Sequence[Receipt], consortium: Consortium
) -> Iterator[ReceiptFinding]:
    """Yield what can be compared with the consortium file."""
    known = {name: der_of_pem(text) for name, text in consortium.certificates.items()}
    strangers = (
        r.party for r in receipts if known.get(r.party) != der_of_pem(r.certificate)
    )
    yield finding_for_each_receipt("certificates are the members'", receipts, strangers)
    here = (consortium.run, consortium.digest.hex())
    others = (r.party for r in receipts if (r.run, r.consortium) != here)
    yield finding_for_each_receipt(
        "run and consortium are the file's", receipts, others
    )


def _check_result_as_signed_in_receipts(
    receipts: Sequence[Receipt], result: ResultFile
) -> Iterator[ReceiptFinding]:
    """Yield what can be compared with a party's result file."""
    others = (one.party for one in receipts if one.result != result.digest)
    yield finding_for_each_receipt(
        "the file's minimiser is the signed one", receipts, others
    )
    told = values_without_locale_words(result.guarantee)
    to_the_word = any(receipts_agree(one.guarantee, told) for one in receipts)
    others = (
        one.party
        for one in receipts
        # A caveat that was taken out is in nobody's receipt either.
        if not (to_the_word and receipts_promise_alike(one.guarantee, told))
    )
    yield finding_for_each_receipt(
        "the file's guarantee is the signed one", receipts, others
    )


def _check_receipts_once_each(receipts: Sequence[Receipt]) -> ReceiptFinding:
    counts = Counter(one.party for one in receipts)
    wrong = [f"{name} has {count}" for name, count in counts.items() if count > 1]
    return _receipt_finding(
        "one receipt for each party", wrong, _receipts_of_all_members(receipts)
    )


def _check_receipts_alike(receipts: Sequence[Receipt], field: str) -> ReceiptFinding:
    """Return whether all say the same; if not, who stands against whom."""
    camps: list[tuple[Any, list[str]]] = []
    alike = receipts_promise_alike if field == "guarantee" else receipts_agree
    for one in receipts:
        value = getattr(one, field)
        if field == "sums" and not value:
            continue  # another program may not speak of them
        camp = next((names for said, names in camps if alike(said, value)), None)
        if camp is None:
            camps.append((value, [one.party]))
        else:
            camp.append(one.party)
    against = " against ".join(listed_names(names) for _, names in camps)
    return _receipt_finding(
        ALIKE[field], [against][: len(camps) - 1], _receipts_of_all_members(receipts)
    )


def _check_receipts_agreed_to_page(receipts: Sequence[Receipt]) -> ReceiptFinding:
    """Return whether all agreed to one page; each version has words of its own."""
    pages: dict[str, dict[str, list[str]]] = {}
    for one in receipts:
        camps = pages.setdefault(one.version, {})
        camps.setdefault(one.consent, []).append(one.party)
    wrong = [
        " against ".join(map(listed_names, camps.values()))
        for camps in pages.values()
        if len(camps) > 1
    ]
    check = "the same page was agreed to, by programs of one version"
    return _receipt_finding(check, wrong, _receipts_of_all_members(receipts))


def receipts_promise_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two guarantees promise the same.

    Their limits are sentences of the program that wrote them. What holds against every
    coalition of a size is told for one of the worst: of several any may be named.
    """
    private = one.get("status") == other.get("status") == "private"
    named = private and "worst_coalition" in one and "worst_coalition" in other
    left_out = {"limits", *(ABOUT_THE_WORST if named else ())}
    return receipts_agree(
        *({k: v for k, v in each.items() if k not in left_out} for each in (one, other))
    )


def receipts_agree(one: Any, other: Any) -> bool:
    """Say whether two parties say the same, each with its own machine's last digits.

    The order of names means nothing.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            receipts_agree(one[k], other[k]) for k in one
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        left, right = _sorted_names_of_receipt(one), _sorted_names_of_receipt(other)
        return len(left) == len(right) and all(map(receipts_agree, left, right))
    if is_real_number(one) and is_real_number(other) and one != other:
        if isinstance(one, int) and isinstance(other, int):
            return False
        try:
            return isclose(one, other, rel_tol=LAST_DIGITS)
        except OverflowError:  # whoever wrote it wants to be looked at
            return False
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _sorted_names_of_receipt(listed_: Sequence[Any]) -> Sequence[Any]:
    return sorted(listed_) if all(isinstance(x, str) for x in listed_) else listed_


def _check_receipt_members(
    receipts: Sequence[Receipt], consortium: Consortium | None
) -> ReceiptFinding:
    """Return whether everybody counts itself in, and who took part adds up."""
    everybody = None if consortium is None else sorted(consortium.certificates)
    wrong = []
    for one in receipts:
        counted = sorted((*one.parties, *one.lost))
        twice = len(set(counted)) != len(counted)
        if one.party not in one.parties or twice or counted != (everybody or counted):
            wrong.append(f"not those of {one.party}")
    return _receipt_finding(
        "parties and lost ones add up", wrong, _receipts_of_all_members(receipts)
    )


def _check_enough_receipts(
    receipts: Sequence[Receipt], consortium: Consortium | None
) -> ReceiptFinding:
    """Return whether those who took part may go on without those who were lost."""
    stories = {(frozenset(one.parties), frozenset(one.lost)) for one in receipts}
    reasons = (_why_receipts_do_not_suffice(*story, consortium) for story in stories)
    wrong = sorted({reason for reason in reasons if reason is not None})
    left, lost = (set(names) for names in (receipts[0].parties, receipts[0].lost))
    right = f"{len(left)} of {len(left | lost)}"
    return _receipt_finding("those who are left may go on", wrong, right)


def _why_receipts_do_not_suffice(
    left: frozenset[str], lost: frozenset[str], consortium: Consortium | None
) -> str | None:
    """Say by the file's own rule, or else by the least of all rules, why they may not.

    Without the file nobody knows whether the policy lets anybody be lost.
    """
    if consortium is not None:
        return consortium.refusal(left)
    everybody = left | lost
    if 2 * len(left) > len(everybody):
        return None
    names = listed_names(sorted(left)) or "nobody"
    return f"{names} of {len(everybody)} parties are not more than half"


def _parties_covered_by_receipt(promise: Mapping[str, Any]) -> list[str]:
    named = (promise.get(side) for side in ("corrupted", "honest"))
    lists = (names for names in named if isinstance(names, list))
    return sorted(str(name) for names in lists for name in names)


def _parties_lost_in_receipts(receipts: Sequence[Receipt]) -> set[str]:
    """Return who is lost in everybody's eyes."""
    return set.intersection(*(set(one.lost) for one in receipts))


def _check_missing_receipts(
    receipts: Sequence[Receipt], consortium: Consortium | None
) -> ReceiptFinding:
    named = {name for one in receipts for name in (*one.parties, *one.lost)}
    expected = named | set(() if consortium is None else consortium.certificates)
    absent = expected - {one.party for one in receipts}
    excused = absent & _parties_lost_in_receipts(receipts)
    wrong = [f"none of {name}" for name in sorted(absent - excused)]
    right = (
        f"none missing but of lost {listed_names(sorted(excused))}" if excused else ""
    )
    return _receipt_finding(
        "receipts of all parties", wrong, right or _receipts_of_all_members(receipts)
    )


def _check_receipt_edges(
    receipts: Sequence[Receipt], consortium: Consortium | None
) -> ReceiptFinding:
    """Return whether both ends confirm every edge between parties that took part.

    Without the file only those edges are known that somebody confirms; then everybody
    must have one at least.
    """
    lost = _parties_lost_in_receipts(receipts)
    said = {(one.party, other) for one in receipts for other in one.confirmed}
    said = {pair for pair in said if not lost & set(pair)}
    claimed = {_receipt_edge(*pair) for pair in said}
    if consortium is None:
        real = claimed
        idle = {one.party for one in receipts} - {name for e in real for name in e}
        wrong = [f"{name} confirms none" for name in sorted(idle)]
    else:
        real = {_receipt_edge(*e) for e in consortium.links if not lost & set(e)}
        wrong = [f"{a} - {b} is no edge" for a, b in sorted(claimed - real)]
    wrong += [
        f"{a} - {b} not by {a}"
        for edge in sorted(real)
        for a, b in (edge, edge[::-1])
        if (a, b) not in said
    ]
    right = f"{len(real)} of {len(real)}"
    return _receipt_finding("edges are confirmed by both ends", wrong, right)


def _receipt_edge(one: str, other: str) -> Edge:
    return (one, other) if one < other else (other, one)
