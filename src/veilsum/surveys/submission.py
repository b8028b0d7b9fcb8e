"""Submission of a guest, sent in one visit: a masked vector and sealed mask shares.

A guest draws one vector of uniform shares for each delegate and subtracts their sum
from its own numbers modulo 2^64: the difference is uniform, and may be public. Each
share is sealed by HPKE (RFC 9180) to one delegate's key of this survey. HPKE's `info`,
from which its key is derived, contains the survey, delegate, guest, number and the
digests of the masked vector and of the bits of filled cells: a sealed share under
another name does not open. (Associated data would bind the same; cryptography's HPKE
has none.) The guest signs everything with a key derived from its invitation, whose
public half is in the roster.

The bits of filled cells are public: a guest that could hide them could also lie about
them, and cause the release of a total that is a single other guest's number.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import numpy as np

from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    install_advice,
    printable,
)
from veilsum.surveys.terms import (
    GuestTable,
    SurveyTerms,
    Words,
    check_filled_cells,
    guest_table_of,
)

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey as X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
except ImportError:
    raise MissingExtraError(
        "surveys need the package cryptography, version 47 or later: "
        f"{install_advice('secure')}",
        code="missing-extra",
    ) from None

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
# What a sealed share has beyond the share: HPKE's own key, and the tag.
SEAL_BYTES = 32 + 16
WORD_BYTES = 8
SIGNATURE_BYTES = 64
# Nobody corrects a table as often.
MOST_NUMBERS = 1_000_000

# An invitation's letters: none that look like another, as Crockford chose them.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
SECRET_LETTERS, CHECK_LETTERS, GROUP = 26, 2, 4
_READ_AS = str.maketrans("OIL", "011", " -\t\r\n")
_CODE = re.compile(f"[{ALPHABET}]{{{SECRET_LETTERS + CHECK_LETTERS}}}")


# Invitations


def new_invitation_code() -> str:
    """Return a new invitation: 130 random bits, with letters that find typing errors.

    >>> len(new_invitation_code())
    34
    """
    return _shown_guest_code(
        "".join(secrets.choice(ALPHABET) for _ in range(SECRET_LETTERS))
    )


def read_invitation_code(text: str) -> str:
    """Return an invitation in its one spelling, however it was typed.

    Small letters, spaces and dashes do not matter; O is read as 0, I and L as 1.

    Raises:
        InvalidInputError: it is none, or has a typing error. What was typed is not
            repeated: it is a secret.
    """
    letters = text[:200].upper().translate(_READ_AS)
    if not _CODE.fullmatch(letters):
        raise InvalidInputError(
            f"an invitation has {SECRET_LETTERS + CHECK_LETTERS} letters and digits, "
            f"in groups of {GROUP}, and no U; this has {len(letters)}: type it as it "
            "was sent",
            code="malformed-invitation",
        )
    secret = letters[:SECRET_LETTERS]
    found = _shown_guest_code(secret)
    if not found.replace("-", "").endswith(letters[SECRET_LETTERS:]):
        raise InvalidInputError(
            "the invitation has a typing error: compare it with what was sent, letter "
            "by letter",
            code="mistyped-invitation",
        )
    return found


def survey_guest_key(code: str) -> Ed25519PrivateKey:
    secret = read_invitation_code(code).replace("-", "")[:SECRET_LETTERS]
    seed = hashlib.sha256(b"veilsum invitation 1\n" + secret.encode()).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def _shown_guest_code(secret: str) -> str:
    """Return the whole code for its secret letters, in groups."""
    digest = hashlib.sha256(b"veilsum code 1\n" + secret.encode()).digest()
    first = int.from_bytes(digest[:2], "big") >> 6  # ten bits
    letters = secret + ALPHABET[first >> 5] + ALPHABET[first & 31]
    return "-".join(
        letters[start : start + GROUP] for start in range(0, len(letters), GROUP)
    )


# Submissions


@dataclass(frozen=True)
class SurveySubmission:
    """Submission of one guest, which may be public.

    Attributes:
        guest: name of the sender in the roster.
        number: 1, and one more for each correction.
        filled: one bit for each cell, set if it has a number; see `GuestTable`.
        masked: the guest's words minus all shares, little-endian.
        sealed: one share for each delegate, in the survey's order.
        signature: signature of the statement by the guest's key.
    """

    survey: str
    guest: str
    number: int
    filled: bytes
    masked: bytes
    sealed: tuple[bytes, ...]
    signature: bytes

    def statement(self, delegates: Sequence[str]) -> bytes:
        """Return what is signed; `delegates` are their names in the survey's order."""
        lines = [
            "veilsum submission 2",
            self.survey,
            self.guest,
            str(self.number),
            submission_sha256(self.filled),
            submission_sha256(self.masked),
            *(
                f"{name} {submission_sha256(one)}"
                for name, one in zip(delegates, self.sealed, strict=True)
            ),
        ]
        return ("\n".join(lines) + "\n").encode()

    def digest(self, delegates: Sequence[str]) -> str:
        return submission_sha256(self.statement(delegates))

    def to_json(self) -> str:
        found = _WrittenSubmission(
            survey=self.survey,
            guest=self.guest,
            number=self.number,
            filled=self.filled.hex(),
            masked=_submission_text(self.masked),
            sealed=tuple(map(_submission_text, self.sealed)),
            signature=_submission_text(self.signature),
        )
        return msgspec.json.encode(found).decode()

    @property
    def words(self) -> Words:
        return survey_cell_words(self.masked)


class _WrittenSubmission(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A submission as its line has it."""

    survey: str
    guest: str
    number: Annotated[int, msgspec.Meta(ge=1, le=MOST_NUMBERS)]
    filled: str
    masked: str
    sealed: tuple[str, ...]
    signature: str


_DECODER = msgspec.json.Decoder(_WrittenSubmission)


def longest_submission(survey: SurveyTerms) -> int:
    """Return how many bytes a submission may have; longer ones are not looked at."""
    vector = survey.n_cells * WORD_BYTES
    sizes = [vector, SIGNATURE_BYTES]
    sizes += [vector + SEAL_BYTES] * len(survey.delegates)
    # Texts may have every letter of a name escaped, and a little space between.
    encoded = sum(4 * (size // 3 + 1) + 16 for size in sizes)
    return encoded + survey.n_cells // 4 + 4096


def read_submission(text: str | bytes, survey: SurveyTerms) -> SurveySubmission:
    """Return what a guest sent, if it is whole and the guest's own.

    Whether each share opens is for its delegate to see.

    Raises:
        InvalidInputError: it is no submission to this survey by somebody in its roster.
    """
    most = longest_submission(survey)
    if len(text) > most:
        raise InvalidInputError(
            f"a submission to this survey has {most:,} bytes at most, found "
            f"{len(text):,}",
            code="submission-too-large",
        )
    try:
        said = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInputError(
            f"this is no submission to a survey: {printable(str(error))[:200]}",
            code="not-a-submission",
        ) from None
    found = SurveySubmission(
        survey=said.survey,
        guest=said.guest,
        number=said.number,
        filled=_submission_hex_bytes(said.filled),
        masked=_submission_bytes(said.masked, "masked"),
        sealed=tuple(_submission_bytes(one, "sealed") for one in said.sealed),
        signature=_submission_bytes(said.signature, "signature"),
    )
    check_submission(found, survey)
    return found


def check_submission(found: SurveySubmission, survey: SurveyTerms) -> None:
    """Refuse a submission that is not whole, or not its guest's own for this survey."""
    if found.survey != survey.digest:
        raise InvalidInputError(
            "the submission is to another survey: open the page of this one again",
            code="other-survey",
        )
    guest = survey.roster.get(found.guest)
    if guest is None:
        raise InvalidInputError(
            f"{printable(repr(found.guest))[:200]} is not in the roster of this survey",
            code="guest-not-in-roster",
        )
    if not 1 <= found.number <= MOST_NUMBERS:
        raise InvalidInputError(
            f"{guest.name!r}: number must be from 1 on", code="number-not-positive"
        )
    check_filled_cells(survey, found.filled)
    vector = survey.n_cells * WORD_BYTES
    if len(found.masked) != vector:
        raise InvalidInputError(
            f"{guest.name!r}: the masked vector has {len(found.masked):,} bytes, and "
            f"the survey's {survey.n_cells:,} cells have {vector:,}",
            code="wrong-length",
        )
    if len(found.sealed) != len(survey.delegates):
        raise InvalidInputError(
            f"{guest.name!r}: {len(found.sealed)} sealed shares for "
            f"{len(survey.delegates)} delegates",
            code="share-count-differs",
        )
    if any(len(one) != vector + SEAL_BYTES for one in found.sealed):
        raise InvalidInputError(
            f"{guest.name!r}: each sealed share must have {vector + SEAL_BYTES:,} "
            "bytes",
            code="wrong-length",
        )
    if len(set(found.sealed)) < len(found.sealed):
        raise InvalidInputError(
            f"{guest.name!r}: two delegates got one sealed share",
            code="share-used-twice",
        )
    statement = found.statement(survey.names)
    try:
        Ed25519PublicKey.from_public_bytes(guest.key).verify(found.signature, statement)
    except (InvalidSignature, ValueError):
        raise InvalidInputError(
            f"{guest.name!r}: the signature is not that of the key in the roster",
            code="bad-signature",
        ) from None


def make_submission(
    survey: SurveyTerms,
    guest: str,
    key: Ed25519PrivateKey,
    table: GuestTable,
    number: int,
    draw: Callable[[int], bytes] | None = None,
) -> SurveySubmission:
    """Return a guest's submission; every share is drawn anew, whatever came before.

    Args:
        survey: as its file says.
        guest: its name.
        key: of its invitation.
        table: what it gives.
        number: of the submission.
        draw: so many bytes of chance, the operating system's; an audit, whose guests
            are nobody, has its own.
    """
    filled, words = table.filled, table.words
    drawn = draw or secrets.token_bytes
    shares = [drawn(words.nbytes) for _ in survey.delegates]
    masked = masked_survey_bytes(words, shares)
    sealed = tuple(
        _seal_survey_share(
            share,
            public,
            sealed_share_info(survey.digest, name, guest, number, filled, masked),
        )
        for share, (name, public) in zip(shares, survey.delegates, strict=True)
    )
    unsigned = SurveySubmission(
        survey.digest, guest, number, filled, masked, sealed, b""
    )
    return replace(unsigned, signature=key.sign(unsigned.statement(survey.names)))


def open_sealed_share(
    survey: SurveyTerms, found: SurveySubmission, delegate: str, key: X25519PrivateKey
) -> Words:
    """Return the share that a guest sealed for a delegate.

    Raises:
        InvalidInputError: it was sealed for another delegate, survey, guest, number,
            masked vector or choice of cells, or was changed.
    """
    sealed = found.sealed[survey.names.index(delegate)]
    info = sealed_share_info(
        survey.digest, delegate, found.guest, found.number, found.filled, found.masked
    )
    try:
        share = SUITE.decrypt(sealed, key, info)
    except (InvalidTag, ValueError):
        raise InvalidInputError(
            f"the share of {found.guest!r}, number {found.number}, does not open for "
            f"{delegate!r}: it was sealed for something else, or changed; close the "
            "survey without it",
            code="share-not-opened",
        ) from None
    if len(share) != survey.n_cells * WORD_BYTES:
        raise InvalidInputError(
            f"the share of {found.guest!r} has the wrong length: close without it",
            code="wrong-length",
        )
    return survey_cell_words(share)


def masked_survey_bytes(words: Words, shares: Sequence[bytes]) -> bytes:
    """Return words without all shares, modulo 2^64."""
    left = words.copy()
    for share in shares:
        left -= survey_cell_words(share)  # wraps around, as it should
    return left.astype("<u8").tobytes()


def survey_cell_words(content: bytes) -> Words:
    return np.frombuffer(content, dtype="<u8").astype(np.uint64)


def submission_sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sealed_share_info(
    survey: str, delegate: str, guest: str, number: int, filled: bytes, masked: bytes
) -> bytes:
    """Return what a sealed share is bound to."""
    digests = [submission_sha256(filled), submission_sha256(masked)]
    bound = ["veilsum guest 2", survey, delegate, guest, str(number), *digests]
    return "\n".join(bound).encode()


def _seal_survey_share(share: bytes, public: bytes, info: bytes) -> bytes:
    try:
        key = X25519PublicKey.from_public_bytes(public)
        return SUITE.encrypt(share, key, info)
    except ValueError:
        raise InvalidInputError(
            "nothing can be sealed to a delegate's key: the survey's file is odd, and "
            "nothing was sent",
            code="unusable-delegate-key",
        ) from None


def _submission_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _submission_bytes(text: Any, what: str) -> bytes:
    """Return what base64 stands for, in its one spelling."""
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        found = None
    if found is None or _submission_text(found) != text:
        raise InvalidInputError(
            f"the submission's {what} is not written in base64", code="not-base64"
        )
    return found


def _submission_hex_bytes(text: str) -> bytes:
    """Return which cells are filled, from its one spelling."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if found.hex() != text:
        raise InvalidInputError(
            "the submission's filled is not written in hexadecimal digits",
            code="not-hexadecimal",
        )
    return found


def guest_submission(
    survey: SurveyTerms,
    code: str,
    cells: Sequence[Sequence[float | None]],
    number: int = 1,
) -> SurveySubmission:
    """Return what a guest sends: its table masked, with a sealed share a delegate.

    Which cells are left empty is not masked: all members see that.

    Args:
        survey: as its file says.
        code: the guest's invitation.
        cells: row by row; None where a cell is left empty.
        number: 1, and one more for each correction. What is sent again because nobody
            answered is the same submission: keep it, and do not make another.

    Raises:
        InvalidInputError: the code or a cell cannot be used; nothing was made.
    """
    if survey.set is not None:
        raise InvalidInputError(
            "the survey is closed: nothing is taken any more", code="survey-closed"
        )
    key = survey_guest_key(code)
    public = key.public_key().public_bytes_raw()
    name = next((one.name for one in survey.guests if one.key == public), None)
    if name is None:
        raise InvalidInputError(
            "the invitation is to another survey, or has a typing error",
            code="other-survey",
        )
    return make_submission(survey, name, key, guest_table_of(survey, cells), number)
