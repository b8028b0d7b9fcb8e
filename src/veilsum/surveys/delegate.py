"""A delegate's duties, and what it must not forget to keep them.

A guest is hidden as long as delegates keep six duties (DESIGN 12, and the guide on
surveys). Each of them stands here as a check of its own, made before any number leaves:

1. *One set.* For one survey a delegate adds up one set of submissions, ever. It writes
   the set down, on disk, before anything that was made of its shares leaves: two sets
   that differ by one guest would show that guest. And not before all members have
   shown that they hold the same set, so that a mistake of the host can be mended.
2. *Inside its own mask.* What shares add up to is a party's private input of an
   ordinary sum, and goes nowhere else.
3. *Nothing carried over.* A key is made for one survey and is bound to the first that
   uses it; afterwards it is erased, and with it every share. The set stays known.
4. *Nothing replayed.* Every submission is checked again: survey, guest, number and
   digests are in its signature and in every seal, and nothing may be there twice. Which
   cells are filled is in both as well, and is counted again: what is released follows.
5. *One number.* The set has one submission of each guest; `is_submission_resent` and
   `guest_submission` see to it that a correction shares nothing with what it corrects.
6. *No invented guests.* Guests count as those of the member that invited them, and a
   delegate knows whom it invited. Under every coalition of `tolerate` members enough
   guests must be left, in this survey and in what follows from this and all earlier
   ones together, of the sets and of every cell that is asked for again.

The store is one SQLite file of one member, for all surveys that it ever answers: a new
one for each would know of no earlier survey. It is readable by its owner only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, compress
from math import comb
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec
import numpy as np

from veilsum.errors import BudgetError, InvalidInputError, StoreError, printable
from veilsum.files.sqlite import (
    OpenSqliteFile,
    SqliteFileKind,
    connect_to_sqlite_file,
    create_sqlite_file,
    inspect_sqlite_file,
)
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret
from veilsum.privacy.spans import parties_given_away_by_sums
from veilsum.surveys.submission import (
    SurveySubmission,
    X25519PrivateKey,
    new_invitation_code,
    open_sealed_share,
    survey_guest_key,
)
from veilsum.surveys.survey_set import SurveySet, closed_survey_set
from veilsum.surveys.terms import (
    KEY_BYTES,
    SurveyTerms,
    Words,
    check_guest_name,
    guests_who_filled,
)

SURVEYS = SqliteFileKind(
    noun="store of surveys",
    holds="keys",
    application=0x7665696E,  # a run's store and one
    version=3,
    schema=(
        "CREATE TABLE key (public BLOB PRIMARY KEY, private BLOB, survey TEXT)",
        "CREATE TABLE closed (survey TEXT PRIMARY KEY, digest TEXT NOT NULL, "
        "guests TEXT NOT NULL, persons TEXT NOT NULL)",
        "CREATE TABLE invited (survey BLOB NOT NULL REFERENCES key, key BLOB NOT NULL, "
        "name TEXT NOT NULL, PRIMARY KEY (survey, key))",
        "CREATE TABLE cell (survey TEXT NOT NULL REFERENCES closed, "
        "title TEXT NOT NULL, in_row TEXT NOT NULL, in_column TEXT NOT NULL, "
        "filled BLOB NOT NULL, PRIMARY KEY (survey, in_row, in_column))",
    ),
    error=StoreError,
    undone="written",
    if_damaged="put its newest sound copy in its place, and answer no survey that was "
    "closed since that was made: nothing there knows which set it was",
    patience=30.0,  # transactions take milliseconds
    if_older="it is left as it is, and is not read as an empty one. End its surveys "
    "with the version that wrote it; a new store does not know which guests were added "
    "up with this one, so be a delegate of no survey that asks any of them again",
)
# What a backup has of a store: all that was added up by then, and no key. It is another
# kind of file, so that nobody takes it for a store that knows everything.
COPIED = replace(
    SURVEYS,
    noun="copy of a store of surveys",
    holds="names of guests",
    application=0x7665696F,
)
# A member's name, and a digest of the key in its certificate.
Inviter: TypeAlias = tuple[str, str]
# What its survey, its row and its column are called: the same three ask for the same
# number again, where a year in one of them asks for another.
Cell: TypeAlias = tuple[str, str, str]
# The key that was made for a survey, and a guest's key and name.
Invitation: TypeAlias = tuple[bytes, bytes, str]
# Coalitions that are tried, at most; more members than that do not run a survey.
MOST_COALITIONS = 2_000
# Cells that are named when they are refused.
MOST_NAMED = 20
UNKNOWN = (
    " (of a survey that was added up before it was kept who filled what, every guest "
    "counts as having filled every cell)"
)


@dataclass(frozen=True)
class AnsweredSurvey:
    """A survey that this delegate has given its shares to.

    Attributes:
        set: digest of the one set that was added.
        guests: whose submissions those were, with who invited each.
        persons: by member, a digest of the key in its certificate of then.
        cells: those whose totals were asked for, and who filled each: a bit for each of
            `guests`, in their order. None if that was not written down: then each of
            these guests counts as having filled every cell there is.
    """

    survey: str
    set: str
    guests: dict[str, str]
    persons: dict[str, str] = field(default_factory=dict)
    cells: dict[Cell, bytes] | None = None

    @cached_property
    def invited(self) -> dict[str, Inviter]:
        """Guests, with name and key of who invited each."""
        return {
            guest: (member, self.persons.get(member, member))
            for guest, member in self.guests.items()
        }

    @property
    def cell_rows(self) -> list[tuple[str, str, str, str, bytes]]:
        """Rows of the store's table of cells."""
        return [(self.survey, *cell, who) for cell, who in (self.cells or {}).items()]

    def filled(self, cell: Cell) -> dict[str, Inviter]:
        """Guests in the total of a cell; empty if that total was not requested."""
        if self.cells is None:
            return self.invited
        if (kept := self.cells.get(cell)) is None:
            return {}
        bits = np.unpackbits(np.frombuffer(kept, dtype=np.uint8))
        return dict(compress(self.invited.items(), bits.tolist()))


class SurveyDelegateStore(OpenSqliteFile):
    """One member's keys, invitations and answered surveys; see the module."""

    # What was found to tell of nobody, last.
    _looked_at: tuple[Any, ...] | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the store in a file, which is made if it is not there yet.

        Raises:
            StoreError: it is another kind of file, damaged, or open to other users.
        """
        if not path.exists():
            create_sqlite_file(path, SURVEYS, lambda _: None)
        with inspect_sqlite_file(
            path, COPIED if is_delegate_store_copy(path) else SURVEYS
        ):
            pass
        if is_delegate_store_copy(path):
            raise StoreError(
                f"{path} was put back from a backup, and does not know which sets were "
                "added up since: nothing is added before veilsum backup resume",
                code="store-from-backup",
            )
        connection = connect_to_sqlite_file(path, SURVEYS)
        # What is erased is written over, in the file and in what precedes it.
        connection.execute("PRAGMA secure_delete = ON")
        return cls(path, SURVEYS, connection)

    # Before a survey

    def new_key(self) -> bytes:
        """Make a key for one survey; return its public half, for the survey's file."""
        made = X25519PrivateKey.generate()
        public = made.public_key().public_bytes_raw()
        with self.transaction():
            self._check_there()
            self._live().execute(
                "INSERT INTO key VALUES (?, ?, NULL)",
                (public, made.private_bytes_raw()),
            )
        return public

    def invite(self, name: str, survey: bytes) -> str:
        """Return a new guest's invitation; what is kept of it is its public key.

        Args:
            name: how the guest is called.
            survey: the key that was made for the one survey it is invited to.
        """
        code = new_invitation_code()
        self.vouch(name, survey_guest_key(code).public_key().public_bytes_raw(), survey)
        return code

    def vouch(self, name: str, key: bytes, survey: bytes) -> None:
        """Stand up for a guest whose key is known: it is who the name says.

        That is for one survey: a later one may name nobody that was not asked again,
        whose code others may have by then.
        """
        check_guest_name(name)
        if len(key) != KEY_BYTES:
            raise InvalidInputError(
                f"the key of {name!r} must have {KEY_BYTES} bytes", code="key-length"
            )
        with self.transaction():
            self._check_there()
            if self._one("SELECT 1 FROM key WHERE public = ?", survey) is None:
                raise InvalidInputError(
                    "the survey's key was not made by this store",
                    code="foreign-survey-key",
                )
            known = self._one("SELECT name FROM invited WHERE key = ?", key)
            if known is not None and known[0].decode() != name:
                raise InvalidInputError(
                    f"the key of {name!r} is that of {known[0].decode()!r}: invite "
                    "everybody with a code of their own",
                    code="duplicate-guest-key",
                )
            self._live().execute(
                "INSERT OR IGNORE INTO invited VALUES (?, ?, ?)", (survey, key, name)
            )

    # A survey

    def check_file(self, terms: SurveyTerms, me: str) -> None:
        """Refuse a survey's file that is not true about this member.

        Before any guest is invited with it: whoever wrote the file could have put a key
        of its own in a delegate's place, and would open what guests seal to it long
        before that delegate is asked to add anything.

        Raises:
            InvalidInputError: the key in the file was not made here, or serves another
                survey; or the roster has guests that this member did not invite to
                it, or lacks some that it did.
        """
        self._check_delegate(terms, me)
        with self.transaction("BEGIN"):
            self._key(terms, me)
            self._check_invited(terms, me)

    def examine(
        self, terms: SurveyTerms, me: str, submissions: Sequence[SurveySubmission]
    ) -> SurveySet:
        """Return the set, if this delegate may add it up; nothing is written yet.

        Every share is opened, so that one that does not open is found before anybody is
        bound to a set with it.

        Raises:
            InvalidInputError: something is not as agreed; the message says what.
            BudgetError: a second set, an invented guest, a key of another survey; or
                too few would hide a guest, in this survey or across all.
        """
        return self._examined(terms, me, submissions)[0]

    def add_up(
        self, terms: SurveyTerms, me: str, submissions: Sequence[SurveySubmission]
    ) -> Words:
        """Return this delegate's sum of shares of a set that passes `examine`.

        It is this party's private input of a sum, and goes nowhere else: nothing of
        it, not even masked, leaves before `commit`. Delegates meet in between, and who
        finds that another one has another set is bound to none.
        """
        return self._examined(terms, me, submissions)[1]

    def _examined(
        self, terms: SurveyTerms, me: str, submissions: Sequence[SurveySubmission]
    ) -> tuple[SurveySet, Words]:
        self._check_delegate(terms, me)
        found = closed_survey_set(terms, submissions)
        with self.transaction("BEGIN"):
            key = self._check_history(terms, me, found)
        return found, survey_share_sums(terms, submissions, key)

    def commit(
        self, terms: SurveyTerms, me: str, submissions: Sequence[SurveySubmission]
    ) -> DelegateKey:
        """Write down that this set is added, and return the key that opens its shares.

        It may be called again for the same set, after a restart. What the key opens is
        this party's private input of a sum, and goes nowhere else.

        Raises:
            InvalidInputError, BudgetError: as for `examine`.
            StoreError: it could not be written down, and nothing may leave.
        """
        found = self.examine(terms, me, submissions)
        with self.transaction():
            self._check_there()
            # Another process may have come first.
            key = self._check_history(terms, me, found)
            now = survey_to_answer(terms, found)
            self._live().execute(
                "INSERT OR IGNORE INTO closed VALUES (?, ?, ?, ?)",
                (now.survey, now.set, json.dumps(now.guests), json.dumps(now.persons)),
            )
            self._live().executemany(
                "INSERT OR IGNORE INTO cell VALUES (?, ?, ?, ?, ?)", now.cell_rows
            )
            self._live().execute(
                "UPDATE key SET survey = ? WHERE public = ?",
                (terms.digest, dict(terms.delegates)[me]),
            )
        return DelegateKey(me, key)

    def finish(self, terms: SurveyTerms) -> tuple[str, ...]:
        """Erase the key of a survey, when its answer is known or nobody waits for it.

        Return whose it was: the members whose keys of this survey this store has made.

        That this survey had this set stays known.

        Raises:
            StoreError: another program has the store open, and what it sees of it still
                has the key; to be called again.
        """
        found = []
        with self.transaction():
            for name, public in terms.delegates:
                # A key that was never used is bound by this, and used by no other.
                changed = self._live().execute(
                    "UPDATE key SET private = NULL, survey = ? WHERE public = ? "
                    "AND (survey IS NULL OR survey = ?)",
                    (terms.digest, public, terms.digest),
                )
                found += [name] * changed.rowcount
        with self._kind.sentences(self.path), self._lock:
            # The log in front of the file has the key as well: begin it anew, empty.
            asked = self._live().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            busy, *_ = asked.fetchone()
        if busy:
            raise StoreError(
                f"{self.path} is open in another program, and until that ends the "
                "survey's key can still be found on the disk: end it, and run this "
                "again, or veilsum collect erase",
                code="file-in-use",
            )
        return tuple(found)

    def answered(self) -> tuple[AnsweredSurvey, ...]:
        """Return every survey that this delegate has given its shares to."""
        with self.transaction("BEGIN"):
            return self._answered()

    # The duties

    def _check_history(
        self, terms: SurveyTerms, me: str, found: SurveySet
    ) -> X25519PrivateKey:
        """Return the key after every check against what is kept."""
        earlier = self._answered()
        self._check_one_set(terms, found, earlier)
        key = self._key(terms, me)
        self._check_invited(terms, me)
        self._check_count(terms, found)
        others = tuple(one for one in earlier if one.survey != terms.digest)
        # It takes a while, and is asked for several times in one run.
        if (asked := (terms, found, others)) != self._looked_at:
            self._check_span(terms, found, others)
            self._looked_at = asked
        return key

    def _check_delegate(self, terms: SurveyTerms, me: str) -> None:
        if me not in terms.names:
            raise InvalidInputError(
                f"{me!r} is no delegate of this survey", code="not-a-delegate"
            )

    def _check_one_set(
        self, terms: SurveyTerms, found: SurveySet, earlier: Sequence[AnsweredSurvey]
    ) -> None:
        for one in earlier:
            if one.survey == terms.digest and one.set != found.digest:
                raise BudgetError(
                    f"this survey was closed before with another set ({one.set[:16]}, "
                    f"now {found.digest[:16]}), and a delegate adds up one set of a "
                    "survey, ever: two sets show the guests they differ by",
                    code="other-set-added",
                )

    def _check_invited(self, terms: SurveyTerms, me: str) -> None:
        check_survey_roster(terms, me, self._invited())

    def _check_count(self, terms: SurveyTerms, found: SurveySet) -> None:
        if (why := terms.refusal(found.guests)) is not None:
            raise BudgetError(why, code="too-few-guests")

    def _check_span(
        self, terms: SurveyTerms, found: SurveySet, earlier: Sequence[AnsweredSurvey]
    ) -> None:
        """Refuse a set that tells of few guests beside all earlier surveys."""
        mine = survey_to_answer(terms, found)
        coalitions = _survey_coalitions(
            terms, [one.invited for one in (mine, *earlier)]
        )
        few = terms.minimum_honest + terms.tolerate_guests
        invited = [one.invited for one in earlier]
        if shown := _guests_shown_to_coalitions(mine.invited, invited, coalitions, few):
            raise BudgetError(
                f"beside earlier surveys this one would tell of {listed_names(shown)} "
                "alone: "
                f"sets of guests must differ by none, or by more than {few} that "
                "colluding members did not invite",
                code="guest-set-differs-little",
            )
        self._check_cells(mine, earlier, coalitions, few)

    def _check_cells(
        self,
        mine: AnsweredSurvey,
        others: Sequence[AnsweredSurvey],
        coalitions: Sequence[frozenset[Inviter]],
        few: int,
    ) -> None:
        """Refuse a cell whose total tells of few beside earlier ones of its name.

        Sets may differ by many, of whom one alone had filled the cell: whoever chooses
        the set sees who that is.
        """
        told: dict[tuple[bytes | None, ...], tuple[str, ...]] = {}
        odd: dict[str, tuple[str, ...]] = {}
        for cell, who in (mine.cells or {}).items():
            # Cells that the same guests filled, then and now, are looked at once.
            same = who, *((one.cells or {}).get(cell) for one in others)
            if same not in told:
                before = [one.filled(cell) for one in others]
                with _about_survey_cell(cell):
                    told[same] = _guests_shown_to_coalitions(
                        mine.filled(cell), before, coalitions, few
                    )
            if told[same]:
                odd[" x ".join(cell[1:])] = told[same]
        if odd:
            first, shown = next(iter(odd.items()))
            unknown = any(one.cells is None for one in others)
            raise BudgetError(
                f"beside earlier surveys the total of {first} would tell of "
                f"{listed_names(shown)} alone: who filled a cell that was asked for "
                "before "
                f"must differ by none, or by more than {few} that colluding members "
                f"did not invite. So it is in {listed_names([*odd], most=MOST_NAMED)}: "
                "ask "
                "again without these cells, or by coarser rows and columns; where the "
                "numbers are of another year, in a survey whose title says so"
                + (UNKNOWN if unknown else ""),
                code="cell-set-differs-little",
            )

    def _key(self, terms: SurveyTerms, me: str) -> X25519PrivateKey:
        """Return this delegate's key of this survey, and of no other."""
        public = dict(terms.delegates)[me]
        found = self._one("SELECT private, survey FROM key WHERE public = ?", public)
        if found is None:
            raise InvalidInputError(
                f"the key of {me!r} in the survey's file is not one that this store "
                "has made",
                code="foreign-survey-key",
            )
        private, survey = found
        with self._sound():
            made_for = None if survey is None else survey.decode()
            key = (
                None
                if private is None
                else X25519PrivateKey.from_private_bytes(private)
            )
        if made_for not in (None, terms.digest):
            raise BudgetError(
                "the delegate's key in this file was made for another survey "
                f"({printable(str(made_for))[:16]}): shares are not carried over; make "
                "a new one",
                code="key-of-other-survey",
            )
        if key is None:
            raise InvalidInputError(
                "this survey is over, and its key was erased: its shares cannot be "
                "opened again",
                code="survey-over",
            )
        return key

    # What is kept

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Refuse a store whose records are not as they were written."""
        try:
            yield
        except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
            raise SURVEYS.damaged(
                self.path, "a record cannot be read", code="record-damaged"
            ) from None

    def _answered(self) -> tuple[AnsweredSurvey, ...]:
        cells: dict[bytes, dict[Cell, bytes]] = {}
        names_in = msgspec.json.Decoder(dict[str, str]).decode
        with self._sound():
            for survey, *names, who in self._live().execute("SELECT * FROM cell"):
                title, row, column = (one.decode() for one in names)
                cells.setdefault(survey, {})[title, row, column] = memoryview(
                    who
                ).tobytes()
            rows = self._live().execute("SELECT * FROM closed")
            return tuple(
                AnsweredSurvey(
                    survey.decode(),
                    digest.decode(),
                    names_in(guests),
                    names_in(persons),
                    cells.get(survey),
                )
                for survey, digest, guests, persons in rows.fetchall()
            )

    def _invited(self) -> list[Invitation]:
        """Return all invitations that this store has ever made."""
        rows = self._live().execute("SELECT survey, key, name FROM invited")
        with self._sound():
            return [(survey, key, name.decode()) for survey, key, name in rows]

    def _one(self, asked: str, value: Any) -> Any:
        return self._live().execute(asked, (value,)).fetchone()

    def _check_there(self) -> None:
        if self.is_gone:
            raise StoreError(
                f"{self.path} was deleted or exchanged while it was open, and what is "
                "written now would be lost: put it back",
                code="file-replaced",
            )


def check_survey_roster(
    terms: SurveyTerms, me: str, invited: Iterable[Invitation]
) -> None:
    """Refuse a roster that is not true about the guests that a member invited.

    Args:
        terms: a survey, open or closed.
        me: the member.
        invited: all invitations that its store has ever made.

    Raises:
        BudgetError: a guest stands under a member that did not invite it: guests count
            as their inviter's, and hide nobody if that one colludes.
        InvalidInputError: a guest that the member invited is not there.
    """
    inviters = {key: name for name, key in terms.delegates}
    made: dict[bytes, dict[str | None, str]] = {}
    for survey, key, name in invited:
        made.setdefault(key, {})[inviters.get(survey)] = name
    for guest in terms.guests:
        known = made.get(guest.key, {})
        if guest.invited_by == me and known.get(me) != guest.name:
            raise BudgetError(
                f"the roster says that {me!r} invited {guest.name!r} to this "
                f"survey with the key {guest.key.hex()[:16]}, and it did not: "
                "whoever wrote the file may have invented that guest, or taken it "
                "from an earlier survey",
                code="foreign-invitation",
            )
        if known and guest.invited_by not in known:
            raise BudgetError(
                f"the roster says that {guest.invited_by!r} invited {guest.name!r}, "
                f"whose key {guest.key.hex()[:16]} was made by {me!r}: guests count as "
                "their inviter's; take no part, and speak with whoever wrote the file",
                code="guest-of-other-delegate",
            )
    there = {guest.key for guest in terms.guests}
    absent = [
        known[me] for key, known in made.items() if me in known and key not in there
    ]
    if absent:
        raise InvalidInputError(
            f"the roster lacks {listed_names(sorted(absent)[:5])}, whom {me!r} "
            "invited: "
            "speak with whoever wrote the file",
            code="guest-missing-in-roster",
        )


def is_delegate_store_copy(path: Path) -> bool:
    """Say whether a file calls itself the copy of a store, by its header."""
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False  # whoever opens it says why
    return head[68:] == COPIED.application.to_bytes(4, "big")


@contextmanager
def _about_survey_cell(cell: Cell) -> Iterator[None]:
    """Say of which cell it is that something cannot be found out."""
    try:
        yield
    except BudgetError as error:
        raise BudgetError(
            f"the total of {' x '.join(cell[1:])}: {error}", code=error.code
        ) from None


def _survey_coalitions(
    terms: SurveyTerms, invited: Sequence[Mapping[str, Inviter]]
) -> list[frozenset[Inviter]]:
    """Return who may collude, of all that have ever invited one of these guests."""
    people = _inviters_who_may_be_one_person(
        {who for one in invited for who in one.values()}
    )
    sizes = range(min(terms.tolerate, len(people)) + 1)
    if sum(comb(len(people), size) for size in sizes) > MOST_COALITIONS:
        raise BudgetError(
            f"{len(people)} members of whom any {terms.tolerate} may collude are "
            "more coalitions than can be looked at",
            code="too-many-coalitions",
        )
    return [
        frozenset[Inviter]().union(*chosen)
        for size in sizes
        for chosen in combinations(people, size)
    ]


def _guests_shown_to_coalitions(
    mine: Mapping[str, Inviter],
    others: Sequence[Mapping[str, Inviter]],
    coalitions: Sequence[frozenset[Inviter]],
    few: int,
) -> tuple[str, ...]:
    """Return a few guests of whom a coalition would learn; none if of nobody."""
    for coalition in coalitions:
        new, *old = (
            {name for name, who in one.items() if who not in coalition}
            for one in (mine, *others)
        )
        if shown := _newly_shown_survey_guests(new, old, few):
            return shown
    return ()


def _newly_shown_survey_guests(
    new: set[str], earlier: Sequence[set[str]], few: int
) -> tuple[str, ...]:
    """Return a few guests of whom a sum over a new set would tell; none if of nobody.

    What follows from earlier sets alone, under a weaker rule of then, is known already,
    and whatever this one adds to it is not. Numbers may be others than then, so this
    set is held beside each earlier one by itself as well.
    """
    if not new:
        return ()
    for one in (new, *(new ^ old for old in earlier)):
        if 1 <= len(one) <= few:
            return tuple(sorted(one))
    known = {frozenset(one) for one in earlier if one}
    # Of two sets nothing follows but what was looked at; nor of one that is known.
    if len(known) < 2 or new in known:
        return ()
    try:
        return (
            parties_given_away_by_sums([new], few, known=sorted(known, key=sorted))
            or ()
        )
    except BudgetError:
        raise BudgetError(
            f"who was in the sums of {len(known)} earlier surveys differs in too many "
            f"ways to make sure that no {few} guests or fewer are shown by adding and "
            "subtracting them: ask with a smaller tolerate_guests or minimum_honest, "
            "or other guests",
            code="history-too-large",
        ) from None


def survey_to_answer(terms: SurveyTerms, found: SurveySet) -> AnsweredSurvey:
    guests = {name: terms.roster[name].invited_by for name in found.guests}
    shown = replace(terms, tally=found.tally).released
    width = len(terms.columns)
    cells = {
        (terms.title, terms.rows[cell // width], terms.columns[cell % width]): who
        for cell, who in guests_who_filled(terms, shown, found.filled).items()
    }
    persons = dict(terms.persons)
    return AnsweredSurvey(terms.digest, found.digest, guests, persons, cells or None)


def _inviters_who_may_be_one_person(
    inviters: Collection[Inviter],
) -> list[frozenset[Inviter]]:
    """Return who may be one person, over years.

    A member may come back with a new key, under another name, or both in turn. All that
    have one name are one, as all that have one key, and as whoever is linked by these;
    each is tried, for a name may be somebody else's by now, or be taken to look so.
    """
    found = set()
    for name, key in inviters:
        named = frozenset(one for one in inviters if one[0] == name)
        keyed = frozenset(one for one in inviters if one[1] == key)
        linked = named | keyed
        while more := {
            one
            for one in inviters
            if one not in linked
            and any(one[0] == other[0] or one[1] == other[1] for other in linked)
        }:
            linked |= more
        # A key under one name alone is that name's, which may have been renewed.
        found |= {named, linked} if keyed <= named else {named, keyed, linked}
    return sorted(found, key=sorted)


@dataclass(frozen=True, eq=False, repr=False)
class DelegateKey(Secret):
    """Key to a delegate's shares of one survey, whose set is already recorded."""

    delegate: str
    key: X25519PrivateKey


def survey_share_sums(
    terms: SurveyTerms,
    submissions: Sequence[SurveySubmission],
    key: DelegateKey | X25519PrivateKey,
) -> Words:
    """Return what a delegate adds: its shares of all guests, modulo 2^64.

    Args:
        terms: of the survey.
        submissions: those of the set.
        key: from `SurveyDelegateStore.commit`.

    Raises:
        InvalidInputError: a share does not open; the message says whose.
    """
    secret = key.key if isinstance(key, DelegateKey) else key
    public = secret.public_key().public_bytes_raw()
    name = next((one for one, known in terms.delegates if known == public), None)
    if name is None:
        raise InvalidInputError(
            "the key is none of this survey's delegates'", code="not-a-delegate"
        )
    total = np.zeros(terms.n_cells, dtype=np.uint64)
    for one in submissions:
        total += open_sealed_share(
            terms, one, name, secret
        )  # wraps around, as it should
    return total


def survey_masked_sums(
    terms: SurveyTerms, submissions: Sequence[SurveySubmission]
) -> Words:
    """Return the sum of all masked vectors, modulo 2^64: everybody knows it."""
    total = np.zeros(terms.n_cells, dtype=np.uint64)
    for one in submissions:
        total += one.words
    return total
