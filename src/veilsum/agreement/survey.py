"""What a consortium's [survey] says: a table of cells, who may fill it, who adds it up.

A guest fills the table in one visit. Every member of the consortium is a delegate: it
gets one share of every guest's numbers, sealed to a key that it made for this survey.
The roster names guests by their public keys, with the member that vouches for each.

The open file has no `set`; its digest is the survey's name in everything that a guest
signs or seals. The closed file is the same with `set`, the digest of which submissions
are added: members greet each other with the whole file's digest, and so with the set.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property

from veilsum.agreement.consortium import Consortium, canonical
from veilsum.agreement.pem import der_of
from veilsum.agreement.sections import SurveySection
from veilsum.errors import InvalidScenarioError, is_seen, printable
from veilsum.numbers.arrays import listed, nearest
from veilsum.numbers.units import unit_of
from veilsum.reading import Section, Text, about, read

KEY_BYTES = 32
NAME_LETTERS = 100
TITLE_LETTERS = 200
# More than anybody fills in, or invites; counted before work is done.
MOST_WORDS, MOST_GUESTS = 100_000, 10_000
# Totals of all guests stay below, so that nothing wraps around modulo 2^64.
TOTAL_BITS = 62
# What a file may say; where it says nothing, the second.
MINIMUM_GUESTS = 5
_COUNTS: dict[str, tuple[int, int, int]] = {
    "minimum_honest": (2, 3, 1000),
    "minimum_guests": (3, MINIMUM_GUESTS, MOST_GUESTS),
    "tolerate_guests": (0, 0, MOST_GUESTS),
}
_HEX = re.compile(r"[0-9a-f]{64}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@dataclass(frozen=True)
class Guest:
    """Somebody who is invited to fill the table, once.

    Attributes:
        name: how the roster calls it.
        key: its Ed25519 public key, made of its invitation.
        invited_by: the member that vouches for it.
    """

    name: str
    key: bytes
    invited_by: str


class GuestEntry(Section, frozen=True, kw_only=True):
    """One of the file's [[survey.guest]]."""

    name: Text
    key: Text
    invited_by: Text


@dataclass(frozen=True, kw_only=True)
class SurveyTerms:
    """A survey as all members agreed on it. Build it with `survey_terms`.

    Attributes:
        digest: of the open file, hexadecimal; the survey's name.
        title: shown to guests.
        unit: every cell is a whole number of it.
        rows: of the table, from the top.
        columns: from the left.
        low: the least that one guest's cell may be, as it was written.
        high: the largest.
        minimum_honest: how many honest others hide a guest.
        minimum_guests: how many must have filled a cell whose total is shown.
        tolerate: how many members may collude, whoever they are.
        tolerate_guests: how many guests may collude with them, whoever invited them.
        closes: the day that guests are told, as 2026-12-01; "" for none.
        guests: the roster.
        delegates: every member with its X25519 public key for this survey.
        set: digest of which submissions are added; None as long as the survey is open.
        persons: every member with a digest of the key in its certificate: who it is,
            under whatever name.
    """

    digest: str
    title: str
    unit: Fraction
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    low: int | float
    high: int | float
    minimum_honest: int
    minimum_guests: int
    tolerate: int
    tolerate_guests: int
    closes: str
    guests: tuple[Guest, ...]
    delegates: tuple[tuple[str, bytes], ...]
    set: str | None = None
    persons: tuple[tuple[str, str], ...] = ()

    @property
    def n_cells(self) -> int:
        """How many cells the table has; they are counted row by row."""
        return len(self.rows) * len(self.columns)

    @property
    def n_words(self) -> int:
        """How long a vector is: whether each cell is given, then each value."""
        return 2 * self.n_cells

    @property
    def least(self) -> int:
        """The least count of units in one guest's cell."""
        return int(_exact(self.low) / self.unit)

    @property
    def most(self) -> int:
        """The largest."""
        return int(_exact(self.high) / self.unit)

    @property
    def names(self) -> tuple[str, ...]:
        """The delegates' names, in the order of the shares."""
        return tuple(name for name, _ in self.delegates)

    @cached_property
    def roster(self) -> dict[str, Guest]:
        """Guests by name, in the roster's order."""
        return {guest.name: guest for guest in self.guests}

    def honest(self, guests: Iterable[str]) -> int:
        """Return how many of these are surely honest, under the worst coalition.

        A coalition of `tolerate` members has the guests that they invited: at worst
        those of the members that invited most. `tolerate_guests` more may be anybody.
        """
        invited = Counter(self.roster[name].invited_by for name in guests)
        lost = sum(count for _, count in invited.most_common(self.tolerate))
        return max(0, invited.total() - lost - self.tolerate_guests)

    def enough(self, guests: Iterable[str] | None = None) -> int:
        """Return how many must fill a cell so that, surely, enough honest ones did.

        Guests of a coalition may all fill a cell that one other filled: who counts
        heads there shows that one. So as many are needed as the worst coalition has,
        and `minimum_honest` + 1 more.

        Args:
            guests: those of the set; None for all that are invited, which is stricter.
        """
        names = [*self.roster] if guests is None else [*guests]
        lost = len(names) - self.honest(names)
        return max(self.minimum_guests, lost + self.minimum_honest + 1)

    def refusal(self, guests: Collection[str]) -> str | None:
        """Say why the numbers of exactly these guests may not be added, if so."""
        needed, found = self.minimum_honest + 1, self.honest(guests)
        if found >= needed:
            return None
        return (
            f"of these {len(guests)} guests {found} are surely honest if any "
            f"{self.tolerate} of the members collude, with the guests they invited and "
            f"{self.tolerate_guests} others; {needed} are needed "
            f"(minimum_honest = {self.minimum_honest} others for each guest): invite "
            "more, by more members"
        )


def survey_terms(consortium: Consortium) -> SurveyTerms:
    """Return what a consortium's survey says; refuse all that is odd or incomplete.

    Raises:
        InvalidScenarioError: the file has no [survey], or one that nobody can answer.
    """
    (said,) = consortium.questions
    if not isinstance(said, SurveySection):
        raise InvalidScenarioError(
            f"the consortium file has no [survey], but a [{said.heading}]"
        )
    members = [member.name for member in consortium.members]
    _check_labels(said.rows, "[survey] rows")
    _check_labels(said.columns, "[survey] columns")
    cells = len(said.rows) * len(said.columns)
    if 2 * cells > MOST_WORDS:
        raise InvalidScenarioError(
            f"[survey] has {cells:,} cells, and {MOST_WORDS // 2:,} are the most"
        )
    with about("survey"):
        unit = unit_of(said.unit)
    if 10 ** unit.denominator.bit_length() % unit.denominator:
        raise InvalidScenarioError(
            "[survey] unit must be a decimal number such as 0.01, which people can "
            f"type, found {unit}"
        )
    counts = {key: _count(said, key) for key in _COUNTS}
    found = SurveyTerms(
        digest=_open_digest(consortium),
        title=_checked_title(said.title),
        unit=unit,
        rows=said.rows,
        columns=said.columns,
        low=said.range[0],
        high=said.range[1],
        tolerate=consortium.rules.policy.tolerate,
        closes=_checked_day(said.closes),
        guests=_roster(said.guest or (), members),
        delegates=_delegates(said.delegates or {}, members),
        set=None if said.set is None else _checked_hex(said.set, "[survey] set"),
        persons=tuple(
            (one.name, _person(one.certificate)) for one in consortium.members
        ),
        **counts,
    )
    _check_range(found)
    least = found.minimum_honest + found.tolerate_guests + 1
    if found.minimum_guests < least:
        raise InvalidScenarioError(
            f"[survey] minimum_guests must be at least {least}, minimum_honest + "
            f"tolerate_guests + 1, found {found.minimum_guests}: of fewer guests in a "
            "cell, each would be hidden by fewer others than agreed"
        )
    if found.tolerate >= len(members):
        raise InvalidScenarioError(
            f"[policy] tolerate is {found.tolerate} of {len(members)} members: one "
            "honest delegate at least must hold a share that the others do not see"
        )
    if (why := found.refusal([*found.roster])) is not None:
        raise InvalidScenarioError(f"[survey] even if all guests come: {why}")
    return found


def check_guest_name(name: str) -> str:
    """Return a guest's name, which is shown, signed and sealed; refuse an odd one."""
    return _checked_label(name, "the name of a guest")


def _person(certificate: str) -> str:
    """Return what a certificate has in common with all others of the same key."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    shown = der_of(certificate)
    # What is no certificate is told from others as it is; no run begins with it.
    with suppress(ValueError):
        key = x509.load_der_x509_certificate(shown).public_key()
        shown = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(shown).hexdigest()


def _open_digest(consortium: Consortium) -> str:
    """Return the digest that the file has, or had, without `set`."""
    table = json.loads(consortium.written)
    table["survey"].pop("set", None)
    written = canonical(table)
    return hashlib.sha256(b"veilsum consortium\0" + written).hexdigest()


def _exact(number: int | float) -> Fraction:
    """Return a number as it was written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _check_range(terms: SurveyTerms) -> None:
    ends = [_exact(end) / terms.unit for end in (terms.low, terms.high)]
    if any(end.denominator != 1 for end in ends) or ends[0] > ends[1]:
        raise InvalidScenarioError(
            "[survey] range must be the least and the largest of one guest's cell, "
            f"whole numbers of the unit {terms.unit}, found {terms.low} and "
            f"{terms.high}"
        )
    largest = max(abs(end) for end in ends)
    if largest * max(1, len(terms.guests)) >= 2**TOTAL_BITS:
        raise InvalidScenarioError(
            f"[survey] range is too wide: {len(terms.guests):,} guests with the "
            f"largest number each have a total beyond 2^{TOTAL_BITS} units; narrow the "
            "range, or take a larger unit"
        )


def _roster(rows: Sequence[dict[str, object]], members: list[str]) -> tuple[Guest, ...]:
    if len(rows) > MOST_GUESTS:
        raise InvalidScenarioError(
            f"a survey has {MOST_GUESTS:,} guests at most, found {len(rows):,}"
        )
    found = []
    names: set[str] = set()
    keys: set[str] = set()
    for row in rows:
        entry = read(row, GuestEntry, "[[survey.guest]]")
        name = check_guest_name(entry.name)
        _checked_hex(entry.key, f"the key of guest {name!r}")
        if entry.invited_by not in members:
            raise InvalidScenarioError(
                f"guest {name!r} is invited by {printable(repr(entry.invited_by))}, "
                f"who is no member; {nearest(entry.invited_by, members)}members are "
                f"{listed(members)}"
            )
        # Two that look alike would be one for whoever reads the list.
        alike = unicodedata.normalize("NFKC", name).casefold()
        if alike in names or entry.key in keys:
            what = "name" if alike in names else "key"
            raise InvalidScenarioError(
                f"two guests have the {what} of {name!r}: invite everybody once"
            )
        names.add(alike)
        keys.add(entry.key)
        found.append(Guest(name, bytes.fromhex(entry.key), entry.invited_by))
    return tuple(found)


def _delegates(
    keys: dict[str, str], members: list[str]
) -> tuple[tuple[str, bytes], ...]:
    for name in keys:
        if name not in members:
            raise InvalidScenarioError(
                f"[survey.delegates] names {printable(repr(name))}, who is no member; "
                f"{nearest(name, members)}members are {listed(members)}"
            )
    absent = [name for name in members if name not in keys]
    if absent:
        raise InvalidScenarioError(
            f"[survey.delegates] has no key of {listed(absent)}: every member makes "
            "one for this survey"
        )
    if len(members) < 2:
        raise InvalidScenarioError(
            "a survey needs two members at least: one alone would see every guest's "
            "numbers"
        )
    if len(set(keys.values())) < len(keys):
        raise InvalidScenarioError(
            "[survey.delegates]: two members have one key; each makes its own"
        )
    return tuple(
        (name, bytes.fromhex(_checked_hex(keys[name], f"the key of {name!r}")))
        for name in members
    )


def _count(said: SurveySection, key: str) -> int:
    least, usual, most = _COUNTS[key]
    found = said.given().get(key, usual)
    if not least <= found <= most:
        raise InvalidScenarioError(
            f"[survey] {key} must be from {least} to {most:,}, found {found}"
        )
    return int(found)


def _checked_hex(text: str, what: str) -> str:
    if not _HEX.fullmatch(text):
        raise InvalidScenarioError(
            f"{what} must be 64 hexadecimal digits, in small letters, found "
            f"{_shown(text)}"
        )
    return text


def _checked_day(text: str | None) -> str:
    try:
        if text:
            date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise InvalidScenarioError(
            f'[survey] closes must be a day such as "2026-12-01", found {_shown(text)}'
        ) from None
    return text or ""


def _checked_title(text: str) -> str:
    if not text or not is_seen(text) or len(text) > TITLE_LETTERS:
        raise InvalidScenarioError(
            f"[survey] title must be one line of at most {TITLE_LETTERS} letters that "
            f"can be seen, found {_shown(text)}"
        )
    return text


def _check_labels(labels: Sequence[str], what: str) -> None:
    if not labels:
        raise InvalidScenarioError(f"{what} must name one at least")
    if len(labels) > MOST_WORDS // 2:
        raise InvalidScenarioError(f"{what} has more than {MOST_WORDS // 2:,} names")
    for label in labels:
        _checked_label(label, what)
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise InvalidScenarioError(f"{what} has {twice[0]!r} twice")


def _checked_label(text: str, what: str) -> str:
    """Return a name that has one spelling, and that a line can hold."""
    if (
        not 0 < len(text) <= NAME_LETTERS
        or not is_seen(text)
        or text != " ".join(text.split())
        or not unicodedata.is_normalized("NFC", text)
    ):
        raise InvalidScenarioError(
            f"{what} must have 1 to {NAME_LETTERS} letters that can be seen, in their "
            "composed form, with single spaces between words only, found "
            f"{_shown(text)}"
        )
    return text


def _shown(text: str | None) -> str:
    return printable(repr(text))[:TITLE_LETTERS]
