"""Terms of a survey, from [survey]: its table of cells, its guests and its delegates.

A guest fills the table in one visit. Every member of the consortium is a delegate: it
gets one share of every guest's numbers, sealed to a key that it made for this survey.
The roster names guests by their public keys, with the member that vouches for each.

The open file has no `set`; its digest is the survey's name in everything that a guest
signs or seals. The closed file is the same with `set`, the digest of the submissions to
add, and with the number of guests that filled each cell: the whole file's digest in
members' hellos covers both.

All members see which cells a guest filled, and nobody sees the numbers. So the released
cells are fixed before anything is added, and no guest can count for more than one.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import inf
from typing import Annotated, Any, TypeAlias

import numpy as np
from msgspec import Meta

from veilsum.consortium.consortium import Consortium, canonical_agreement_json
from veilsum.consortium.costs import Unit
from veilsum.consortium.kinds import QuestionSpec
from veilsum.consortium.pem import der_of_pem
from veilsum.errors import (
    InvalidInputError,
    InvalidScenarioError,
    RangeError,
    is_seen,
    printable,
)
from veilsum.numbers.arrays import Array, is_real_number, listed_names, nearest_name
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import UInt, UInt64
from veilsum.numbers.units import numeric_unit_of
from veilsum.reading import (
    Names,
    Section,
    Text,
    Whole,
    about_read_section,
    read_section,
)
from veilsum.sums.kinds import question_kind_of

KEY_BYTES = 32
# Signs with which a formula of a spreadsheet begins, the minus of typography included.
FORMULA_SIGNS = ("=", "+", "-", "@", "\u2212")
NAME_LETTERS = 100
TITLE_LETTERS = 200
# More than anybody fills in, or invites; counted before work is done.
MOST_CELLS, MOST_GUESTS = 50_000, 10_000
# Pairs of cells whose guests are compared, and pairs that are named.
MOST_COMPARED, MOST_NEAR = 200_000, 100
# Totals of all guests stay below, so that nothing wraps around modulo 2^64.
TOTAL_BITS = 62
# What a file may say; where it says nothing, the second.
MINIMUM_GUESTS = 5
_COUNTS: dict[str, tuple[int, int, int]] = {
    "minimum_honest": (2, 3, 1000),
    "minimum_guests": (3, MINIMUM_GUESTS, MOST_GUESTS),
    "tolerate_guests": (0, 0, MOST_GUESTS),
}
# What the closed file has beside the open one.
_CLOSING = ("set", "filled", "near", "more_near")
_HEX = re.compile(r"[0-9a-f]{64}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)

# A number modulo 2^64 for each cell, row by row.
Words: TypeAlias = UInt64[Array[np.uint64], " cells"]


@dataclass(frozen=True)
class SurveyGuest:
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


@dataclass(frozen=True)
class SurveyTally:
    """Numbers of a set's guests that filled each cell, by inviting delegate.

    Everybody who has the submissions can count this; no party has to be trusted for it.

    Attributes:
        invited: number of guests of the set that each delegate has invited.
        filled: for each delegate, the number of these that filled each cell.
        near: pairs of released cells, of one row or column, whose guests differ by few.
        more_near: whether there may be more such pairs: not all were compared or named.
    """

    invited: tuple[int, ...]
    filled: tuple[tuple[int, ...], ...]
    near: tuple[tuple[int, int], ...] = ()
    more_near: bool = False

    @property
    def guests(self) -> int:
        return sum(self.invited)

    @cached_property
    def given(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*self.filled, strict=True)))


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
        delegates: every member with its X25519 public key for this survey.
        set: digest of which submissions are added; None as long as the survey is open.
        tally: how many guests of the set filled what; None as long as it is open.
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
    guests: tuple[SurveyGuest, ...]
    delegates: tuple[tuple[str, bytes], ...]
    set: str | None = None
    tally: SurveyTally | None = None
    persons: tuple[tuple[str, str], ...] = ()

    @property
    def n_cells(self) -> int:
        """Number of cells in the table; cells are numbered row by row."""
        return len(self.rows) * len(self.columns)

    @property
    def least(self) -> int:
        """The least count of units in one guest's cell."""
        return int(_exact_survey_number(self.low) / self.unit)

    @property
    def most(self) -> int:
        return int(_exact_survey_number(self.high) / self.unit)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.delegates)

    @cached_property
    def roster(self) -> dict[str, SurveyGuest]:
        """Guests by name, in the roster's order."""
        return {guest.name: guest for guest in self.guests}

    def left(self, invited: Iterable[int], colluding: int | None = None) -> int:
        """Return how many guests are surely honest, of so many by each member.

        A coalition of members has the guests that they invited: at worst those of the
        members that invited most. `tolerate_guests` more may be anybody.

        Args:
            invited: how many each member has invited, of those that are counted.
            colluding: how many members collude; `tolerate` of them, if it is not said.
        """
        lost = self.tolerate if colluding is None else colluding
        others = sorted(invited, reverse=True)[lost:]
        return max(0, sum(others) - self.tolerate_guests)

    def honest(self, guests: Iterable[str], colluding: int | None = None) -> int:
        """Return how many of these are surely honest, under the worst coalition."""
        invited = Counter(self.roster[name].invited_by for name in guests)
        return self.left(invited.values(), colluding)

    def is_released(self, filled: Sequence[int]) -> bool:
        """Say whether a cell's total is asked for.

        `minimum_guests` have filled it, whoever they are; and for every coalition of
        `tolerate` members, those of them whom others invited, less `tolerate_guests`,
        are more than `minimum_honest`: who left it empty hides nobody there.

        Args:
            filled: of the guests that each member has invited, how many filled it.
        """
        enough = sum(filled) >= self.minimum_guests
        return enough and self.left(filled) > self.minimum_honest

    @cached_property
    def released(self) -> tuple[int, ...]:
        """The cells of a closed survey whose totals are asked for."""
        assert self.tally is not None
        by_cell = zip(*self.tally.filled, strict=True)
        return tuple(k for k, one in enumerate(by_cell) if self.is_released(one))

    @cached_property
    def may_follow(self) -> tuple[int, ...]:
        """Cells that were filled and have no total, but that may follow from others.

        Two cells or more of their row, or of their column, are released: if one of
        these is the total of the line, the others leave what too few have given.
        """
        assert self.tally is not None
        shape = len(self.rows), len(self.columns)
        shown = np.zeros(self.n_cells, dtype=bool)
        shown[list(self.released)] = True
        table = shown.reshape(shape)
        two = (table.sum(1, keepdims=True) > 1) | (table.sum(0, keepdims=True) > 1)
        filled = np.array(self.tally.given).reshape(shape) > 0
        return tuple(np.flatnonzero(two & filled & ~table).tolist())

    def label(self, cell: int) -> str:
        row, column = divmod(cell, len(self.columns))
        return f"{self.rows[row]} x {self.columns[column]}"

    def refusal(self, guests: Collection[str]) -> str | None:
        """Say why the numbers of exactly these guests may not be added, if so."""
        invited = Counter(self.roster[name].invited_by for name in guests)
        return self._too_few([*invited.values()])

    def closed_refusal(self) -> str | None:
        """Say why nothing may be asked of a closed survey, if so."""
        assert self.tally is not None
        why = self._too_few(self.tally.invited)
        if why is None and not self.released:
            why = (
                f"no cell was filled by {self.minimum_guests} guests of whom, if any "
                f"{self.tolerate} of the members collude, {self.minimum_honest + 1} "
                "are surely honest, so that no total could be asked for: wait for more"
            )
        return why

    def _too_few(self, invited: Sequence[int]) -> str | None:
        needed, found = self.minimum_honest + 1, self.left(invited)
        if found >= needed:
            return None
        return (
            f"of these {sum(invited)} guests {found} are surely honest if any "
            f"{self.tolerate} of the members collude, with the guests they invited and "
            f"{self.tolerate_guests} others; {needed} are needed "
            f"(minimum_honest = {self.minimum_honest} others for each guest): invite "
            "more, by more members"
        )


class SurveySpec(QuestionSpec, frozen=True, kw_only=True):
    """A table of cells that guests fill in one visit each; see `SurveyTerms`."""

    heading = "survey"
    on_tables = False

    title: Text
    unit: Unit
    rows: Names
    columns: Names
    range: Annotated[
        tuple[int | float, int | float],
        Meta(description="the least and the largest of one guest's cell"),
    ]
    minimum_honest: Whole | None = None
    minimum_guests: Whole | None = None
    tolerate_guests: Whole | None = None
    closes: Text | None = None
    set: Text | None = None
    guest: (
        Annotated[
            tuple[dict[str, Any], ...],
            Meta(description="a list, one [[survey.guest]] for each that is invited"),
        ]
        | None
    ) = None
    delegates: (
        Annotated[
            dict[str, str],
            Meta(description="a table with one key for each member"),
        ]
        | None
    ) = None
    filled: (
        Annotated[
            dict[str, tuple[int, ...]],
            Meta(description="a table with whole numbers for each member"),
        ]
        | None
    ) = None
    near: (
        Annotated[
            tuple[tuple[int, int], ...], Meta(description="a list of pairs of cells")
        ]
        | None
    ) = None
    more_near: bool | None = None


def survey_terms(consortium: Consortium) -> SurveyTerms:
    """Return what a consortium's survey says; refuse all that is odd or incomplete.

    Raises:
        InvalidScenarioError: the file has no [survey], or one that nobody can answer.
    """
    said: Any = consortium.question
    if not question_kind_of(said).has_guests:
        raise InvalidScenarioError(
            f"the consortium file has no [survey], but a [{said.heading}]",
            code="missing-section",
        )
    members = [member.name for member in consortium.members]
    _check_survey_labels(said.rows, "[survey] rows")
    _check_survey_labels(said.columns, "[survey] columns")
    cells = len(said.rows) * len(said.columns)
    if cells > MOST_CELLS:
        raise InvalidScenarioError(
            f"[survey] has {cells:,} cells, and {MOST_CELLS:,} are the most",
            code="too-many-cells",
        )
    with about_read_section("survey"):
        unit = numeric_unit_of(said.unit)
    if 10 ** unit.denominator.bit_length() % unit.denominator:
        raise InvalidScenarioError(
            "[survey] unit must be a decimal number such as 0.01, which people can "
            f"type, found {unit}",
            code="unit-not-decimal",
        )
    found = SurveyTerms(
        digest=_open_survey_digest(consortium),
        title=_check_survey_title(said.title),
        unit=unit,
        rows=said.rows,
        columns=said.columns,
        low=said.range[0],
        high=said.range[1],
        minimum_honest=_survey_count_setting(said, "minimum_honest"),
        minimum_guests=_survey_count_setting(said, "minimum_guests"),
        tolerate=consortium.rules.policy.tolerate,
        tolerate_guests=_survey_count_setting(said, "tolerate_guests"),
        closes=_check_survey_day(said.closes),
        guests=_survey_roster(said.guest or (), members),
        delegates=_survey_delegates(said.delegates or {}, members),
        persons=tuple(
            (one.name, _person_of_survey_certificate(one.certificate))
            for one in consortium.members
        ),
    )
    _check_survey_range(found)
    least = found.minimum_honest + found.tolerate_guests + 1
    if found.minimum_guests < least:
        raise InvalidScenarioError(
            f"[survey] minimum_guests must be at least {least}, minimum_honest + "
            f"tolerate_guests + 1, found {found.minimum_guests}: of fewer guests in a "
            "cell, each would be hidden by fewer others than agreed",
            code="minimum-guests-too-small",
        )
    if found.tolerate >= len(members):
        raise InvalidScenarioError(
            f"[policy] tolerate is {found.tolerate} of {len(members)} members: one "
            "honest delegate at least must hold a share that the others do not see",
            code="tolerate-out-of-range",
        )
    if (why := found.refusal([*found.roster])) is not None:
        raise InvalidScenarioError(
            f"[survey] even if all guests come: {why}", code="guarantee-not-met"
        )
    return _closed_survey_terms(found, said)


# Tables that guests fill


@dataclass(frozen=True, eq=False, repr=False)
class GuestTable(Secret):
    """One guest's numbers.

    Attributes:
        filled: which cells have one: a bit each, row by row, the most significant of a
            byte first; bits beyond the last cell are 0. All members see it.
        words: each as a count of units modulo 2^64, 0 where there is none. Nobody does.
    """

    filled: bytes
    words: Words


def guest_table_of(
    survey: SurveyTerms, cells: Sequence[Sequence[float | None]]
) -> GuestTable:
    """Return a table as it is sent: which cells are filled, and what is masked.

    Args:
        survey: whose table it is.
        cells: row by row; None where a cell is left empty.

    Raises:
        RangeError: a cell has something else than a number that is asked for.
    """
    if len(cells) != len(survey.rows) or any(
        len(row) != len(survey.columns) for row in cells
    ):
        raise InvalidInputError(
            f"the table must have {len(survey.rows)} rows of {len(survey.columns)} "
            "cells, as the survey has",
            code="table-not-of-survey",
        )
    flat = [cell for row in cells for cell in row]
    units = [
        0 if cell is None else _units_of_survey_cell(survey, cell, place) % 2**64
        for place, cell in enumerate(flat)
    ]
    filled = np.packbits([cell is not None for cell in flat]).tobytes()
    return GuestTable(filled, np.array(units, dtype=np.uint64))


def _units_of_survey_cell(survey: SurveyTerms, cell: float, place: int) -> int:
    """Return how many units a cell has; refuse another number, or part of a unit."""
    row, column = divmod(place, len(survey.columns))
    where = f"{survey.rows[row]}, {survey.columns[column]}"
    if not is_real_number(cell) or not -inf < cell < inf:
        raise RangeError(f"{where}: must be a number, or empty", code="not-a-number")
    # What was typed, 0.1, and not the float that is nearest to it.
    typed = Fraction(int(cell)) if cell == int(cell) else Fraction(repr(float(cell)))
    counts = typed / survey.unit
    if counts.denominator != 1:
        raise RangeError(
            f"{where}: {cell} is no whole number of {survey.unit}: round it",
            plain=f"{where}: is no whole number of {survey.unit}",
            code="off-grid",
        )
    if not survey.least <= counts <= survey.most:
        raise RangeError(
            f"{where}: must be from {survey.low} to {survey.high}",
            code="value-out-of-range",
        )
    return int(counts)


def check_filled_cells(survey: SurveyTerms, filled: bytes) -> None:
    """Refuse bits that do not say of each cell, and of nothing else, if it is filled.

    There is one way to write them: another one would be a second submission that says
    the same, or a place to hide something in.
    """
    size, spare = -(-survey.n_cells // 8), -survey.n_cells % 8
    if len(filled) != size:
        raise InvalidInputError(
            f"which of {survey.n_cells:,} cells are filled must have {size:,} bytes, "
            f"found {len(filled):,}",
            code="wrong-length",
        )
    if filled[-1] & ((1 << spare) - 1):
        raise InvalidInputError(
            f"which cells are filled says more than the survey has cells, which are "
            f"{survey.n_cells:,}",
            code="too-many-cells-filled",
        )


def _survey_cells_in(filled: bytes, n_cells: int) -> UInt[Array[np.uint8], " cells"]:
    return np.unpackbits(np.frombuffer(filled, dtype=np.uint8), count=n_cells)


# Who filled what


def survey_tally_of(survey: SurveyTerms, filled: Mapping[str, bytes]) -> SurveyTally:
    """Return how many filled what.

    Args:
        survey: open or closed.
        filled: of each guest of the set, which cells it filled, checked.
    """
    counts = np.zeros((len(survey.names), 1 + survey.n_cells), dtype=np.int64)
    for guest, bits in filled.items():
        row = counts[survey.names.index(survey.roster[guest].invited_by)]
        row[0] += 1
        row[1:] += _survey_cells_in(bits, survey.n_cells)
    found = SurveyTally(
        tuple(counts[:, 0].tolist()), tuple(map(tuple, counts[:, 1:].tolist()))
    )
    near, more = _nearly_same_survey_cells(replace(survey, tally=found), filled)
    return replace(found, near=near, more_near=more)


def guests_who_filled(
    survey: SurveyTerms, cells: Sequence[int], filled: Sequence[bytes]
) -> dict[int, bytes]:
    """Return who filled each of some cells: a bit for each guest, in their order.

    Args:
        survey: whose table it is.
        cells: that are asked about.
        filled: of each guest, which cells it filled, checked.
    """
    if not cells or not filled:
        return dict.fromkeys(cells, b"")
    chosen = list(cells)
    blocks = [
        np.packbits(
            [
                _survey_cells_in(bits, survey.n_cells)[chosen]
                for bits in filled[k : k + 8]
            ],
            axis=0,
        )
        for k in range(0, len(filled), 8)
    ]
    columns = np.vstack(blocks).T
    return {
        cell: column.tobytes() for cell, column in zip(chosen, columns, strict=True)
    }


def _nearly_same_survey_cells(
    survey: SurveyTerms, filled: Mapping[str, bytes]
) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Return released cells of one row or column that nearly the same guests filled.

    If a guest's number in the one follows from that in the other, as of a total and a
    part of it, the difference of both totals speaks of those who filled but one of
    them. They are few if some coalition knows all others. Cells that the same guests
    filled are compared as one, and are all named: first one pair of each two such
    groups, then the others. And say whether there may be more pairs than are named.
    """
    by_cell = guests_who_filled(survey, survey.released, [*filled.values()])
    who = {cell: int.from_bytes(bits, "big") for cell, bits in by_cell.items()}
    inviters = [survey.roster[name].invited_by for name in filled]
    invited = [
        int.from_bytes(np.packbits(np.array(inviters) == name).tobytes(), "big")
        for name in survey.names
    ]
    places = np.arange(survey.n_cells).reshape(len(survey.rows), -1)
    found: list[tuple[list[int], list[int]]] = []
    compared, more = 0, False
    for line in (*places.tolist(), *places.T.tolist()):
        alike: dict[int, list[int]] = {}
        for cell in filter(who.__contains__, line):
            alike.setdefault(who[cell], []).append(cell)
        ordered = sorted(alike.items(), key=lambda one: (one[0].bit_count(), one[1]))
        for (some, less), (others, fuller) in combinations(ordered, 2):
            compared += 1
            if more := compared > MOST_COMPARED or len(found) > MOST_NEAR:
                break
            apart = [((some ^ others) & mine).bit_count() for mine in invited]
            if _is_few_survey_guests(survey, apart):
                found.append((less, fuller))
        if more:
            break
    named = dict.fromkeys((less[0], fuller[0]) for less, fuller in found)
    for pair in (one for both in found for one in product(*both)):
        if len(named) > MOST_NEAR:
            break
        named[pair] = None
    return tuple(named)[:MOST_NEAR], more or len(named) > MOST_NEAR


def _is_few_survey_guests(survey: SurveyTerms, apart: Iterable[int]) -> bool:
    """Say whether of guests, so many by each member, a coalition leaves few and one."""
    most = sorted(filter(None, apart), reverse=True)
    # Whoever knows all of them learns nothing; so one member's are left at least.
    left = sum(most[survey.tolerate :] or most[-1:])
    return 1 <= left <= survey.minimum_honest + survey.tolerate_guests


def survey_closing_entries(
    survey: SurveyTerms, digest: str, tally: SurveyTally
) -> dict[str, object]:
    """Return what a closed file's [survey] has beside the open one's."""
    counted = zip(survey.names, tally.invited, tally.filled, strict=True)
    return {
        "set": digest,
        "filled": {name: [n, *cells] for name, n, cells in counted},
        "near": [list(pair) for pair in tally.near],
        "more_near": tally.more_near,
    }


def _closed_survey_terms(terms: SurveyTerms, said: SurveySpec) -> SurveyTerms:
    """Return terms with what a closed file has; refuse counts that cannot be."""
    if said.set is None:
        if any(one is not None for one in (said.filled, said.near, said.more_near)):
            raise InvalidScenarioError(
                "[survey] filled, near and more_near are counted when the survey is "
                "closed, and stand beside its set: take them out",
                code="closed-keys-early",
            )
        return terms
    digest, rows = _check_survey_hex(said.set, "[survey] set"), said.filled or {}
    roster = Counter(guest.invited_by for guest in terms.guests)
    counts = [rows.get(name, ()) for name in terms.names]
    if (
        len(rows) != len(counts)
        or any(len(one) != 1 + terms.n_cells for one in counts)
        or any(not 0 <= cell <= one[0] for one in counts for cell in one[1:])
        or any(one[0] > roster[name] for name, one in rows.items())
    ):
        raise InvalidScenarioError(
            "[survey.filled] must have for each member how many of its guests are in "
            "the set, and then how many of these filled each cell, as the host wrote "
            "it when it closed the survey: fetch the file again",
            code="malformed-filled",
        )
    tally = SurveyTally(
        tuple(one[0] for one in counts), tuple(tuple(one[1:]) for one in counts)
    )
    found = replace(terms, set=digest, tally=tally)
    near, shown = said.near or (), frozenset(found.released)
    if len(near) > MOST_NEAR or any(
        len({*pair} & shown) != 2 or len(pair) != 2 for pair in near
    ):
        raise InvalidScenarioError(
            f"[survey] near must be {MOST_NEAR} pairs of released cells at most: fetch "
            "the file again",
            code="malformed-near",
        )
    more = bool(said.more_near)
    return replace(found, tally=replace(tally, near=near, more_near=more))


def check_guest_name(name: str) -> str:
    """Return a guest's name, which is shown, signed and sealed; refuse an odd one.

    Names reach spreadsheets: in codes, letters, and whatever people paste. These take a
    full-width sign for the plain one.
    """
    checked = _check_survey_label(name, "the name of a guest")
    if unicodedata.normalize("NFKC", checked).lstrip()[:1] in FORMULA_SIGNS:
        raise InvalidScenarioError(
            f"{_shown_survey_text(name)}: a spreadsheet would take this name for a "
            "formula; begin "
            "it with a letter or a digit",
            code="name-is-formula",
        )
    return checked


def _person_of_survey_certificate(certificate: str) -> str:
    """Return what a certificate has in common with all others of the same key."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    shown = der_of_pem(certificate)
    # What is no certificate is told from others as it is; no run begins with it.
    with suppress(ValueError, x509.InvalidVersion, UnsupportedAlgorithm):
        key = x509.load_der_x509_certificate(shown).public_key()
        shown = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(shown).hexdigest()


def _open_survey_digest(consortium: Consortium) -> str:
    """Return the digest that the file has, or had, without `set`."""
    table = json.loads(consortium.written)
    for key in _CLOSING:
        table["survey"].pop(key, None)
    written = canonical_agreement_json(table)
    return hashlib.sha256(b"veilsum consortium\0" + written).hexdigest()


def _exact_survey_number(number: int | float) -> Fraction:
    """Return a number as it was written: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _check_survey_range(terms: SurveyTerms) -> None:
    ends = [_exact_survey_number(end) / terms.unit for end in (terms.low, terms.high)]
    if any(end.denominator != 1 for end in ends) or ends[0] > ends[1]:
        raise InvalidScenarioError(
            "[survey] range must be the least and the largest of one guest's cell, "
            f"whole numbers of the unit {terms.unit}, found {terms.low} and "
            f"{terms.high}",
            code="malformed-range",
        )
    largest = max(abs(end) for end in ends)
    if largest * max(1, len(terms.guests)) >= 2**TOTAL_BITS:
        raise InvalidScenarioError(
            f"[survey] range is too wide: {len(terms.guests):,} guests with the "
            f"largest number each have a total beyond 2^{TOTAL_BITS} units; narrow the "
            "range, or take a larger unit",
            code="range-too-wide",
        )


def _survey_roster(
    rows: Sequence[dict[str, object]], members: list[str]
) -> tuple[SurveyGuest, ...]:
    if len(rows) > MOST_GUESTS:
        raise InvalidScenarioError(
            f"a survey has {MOST_GUESTS:,} guests at most, found {len(rows):,}",
            code="too-many-guests",
        )
    found = []
    names: set[str] = set()
    keys: set[str] = set()
    for row in rows:
        entry = read_section(row, GuestEntry, "[[survey.guest]]")
        name = check_guest_name(entry.name)
        _check_survey_hex(entry.key, f"the key of guest {name!r}")
        if entry.invited_by not in members:
            raise InvalidScenarioError(
                f"guest {name!r} is invited by {printable(repr(entry.invited_by))}, "
                f"who is no member; {nearest_name(entry.invited_by, members)}members "
                "are "
                f"{listed_names(members)}",
                code="inviter-not-member",
            )
        # Two that look alike would be one for whoever reads the list.
        alike = unicodedata.normalize("NFKC", name).casefold()
        if alike in names or entry.key in keys:
            what = "name" if alike in names else "key"
            raise InvalidScenarioError(
                f"two guests have the {what} of {name!r}: invite everybody once",
                code="duplicate-guest",
            )
        names.add(alike)
        keys.add(entry.key)
        found.append(SurveyGuest(name, bytes.fromhex(entry.key), entry.invited_by))
    return tuple(found)


def _survey_delegates(
    keys: dict[str, str], members: list[str]
) -> tuple[tuple[str, bytes], ...]:
    for name in keys:
        if name not in members:
            raise InvalidScenarioError(
                f"[survey.delegates] names {printable(repr(name))}, who is no member; "
                f"{nearest_name(name, members)}members are {listed_names(members)}",
                code="delegate-not-member",
            )
    absent = [name for name in members if name not in keys]
    if absent:
        raise InvalidScenarioError(
            f"[survey.delegates] has no key of {listed_names(absent)}: every member "
            "makes "
            "one for this survey",
            code="delegate-key-missing",
        )
    if len(members) < 2:
        raise InvalidScenarioError(
            "a survey needs two members at least: one alone would see every guest's "
            "numbers",
            code="too-few-delegates",
        )
    if len(set(keys.values())) < len(keys):
        raise InvalidScenarioError(
            "[survey.delegates]: two members have one key; each makes its own",
            code="duplicate-delegate-key",
        )
    return tuple(
        (name, bytes.fromhex(_check_survey_hex(keys[name], f"the key of {name!r}")))
        for name in members
    )


def _survey_count_setting(said: SurveySpec, key: str) -> int:
    least, usual, most = _COUNTS[key]
    found = said.given().get(key, usual)
    if not least <= found <= most:
        raise InvalidScenarioError(
            f"[survey] {key} must be from {least} to {most:,}, found {found}",
            code="count-out-of-range",
        )
    return int(found)


def _check_survey_hex(text: str, what: str) -> str:
    if not _HEX.fullmatch(text):
        raise InvalidScenarioError(
            f"{what} must be 64 hexadecimal digits, in small letters, found "
            f"{_shown_survey_text(text)}",
            code="not-hexadecimal",
        )
    return text


def _check_survey_day(text: str | None) -> str:
    try:
        if text:
            date.fromisoformat(text if _DAY.fullmatch(text) else "")
    except ValueError:
        raise InvalidScenarioError(
            '[survey] closes must be a day such as "2026-12-01", found '
            f"{_shown_survey_text(text)}",
            code="malformed-day",
        ) from None
    return text or ""


def _check_survey_title(text: str) -> str:
    if not text or not is_seen(text) or len(text) > TITLE_LETTERS:
        raise InvalidScenarioError(
            f"[survey] title must be one line of at most {TITLE_LETTERS} letters that "
            f"can be seen, found {_shown_survey_text(text)}",
            code="malformed-title",
        )
    return text


def _check_survey_labels(labels: Sequence[str], what: str) -> None:
    if not labels:
        raise InvalidScenarioError(f"{what} must name one at least", code="no-labels")
    if len(labels) > MOST_CELLS:
        raise InvalidScenarioError(
            f"{what} has more than {MOST_CELLS:,} names", code="too-many-labels"
        )
    for label in labels:
        _check_survey_label(label, what)
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise InvalidScenarioError(
            f"{what} has {twice[0]!r} twice", code="duplicate-label"
        )


def _check_survey_label(text: str, what: str) -> str:
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
            f"{_shown_survey_text(text)}",
            code="malformed-label",
        )
    return text


def _shown_survey_text(text: str | None) -> str:
    return printable(repr(text))[:TITLE_LETTERS]
