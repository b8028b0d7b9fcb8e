"""Submissions received by a host: one SQLite file, with each submission whole.

A submission counts once it is on disk, and only then does its guest get a confirmation.
Sending the same submission again gives the same answer; a correction has the next
number. After the survey is closed, by this process or another, none is accepted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from veilsum.errors import InvalidInputError, StoreError
from veilsum.files.sqlite import (
    OpenSqliteFile,
    SqliteFileKind,
    connect_to_sqlite_file,
    create_sqlite_file,
    inspect_sqlite_file,
)
from veilsum.numbers.arrays import listed_names
from veilsum.surveys.submission import (
    SurveySubmission,
    read_submission,
    submission_sha256,
)
from veilsum.surveys.survey_set import (
    SurveySet,
    is_submission_resent,
    newest_submissions,
    survey_set_of,
)
from veilsum.surveys.terms import SurveyTerms, survey_tally_of

COLLECTION = SqliteFileKind(
    noun="survey's collection",
    holds="what guests sent",
    application=0x76656963,
    version=2,
    schema=(
        "CREATE TABLE survey (digest TEXT NOT NULL, closed INTEGER NOT NULL)",
        "CREATE TABLE submission (guest TEXT NOT NULL, number INTEGER NOT NULL, "
        "digest TEXT NOT NULL, line BLOB NOT NULL, PRIMARY KEY (guest, number))",
        "CREATE TABLE part (digest TEXT PRIMARY KEY)",
    ),
    error=StoreError,
    undone="taken",
    if_damaged="put a sound copy of it back, or ask guests to send again what they "
    "have kept",
    patience=10.0,  # whoever closes the survey, and another guest, take a moment
)
# Submissions of one guest: corrections cost room, and nobody needs as many.
MOST_SUBMISSIONS = 20
_NEWEST = "JOIN (SELECT guest, MAX(number) AS number FROM submission GROUP BY guest)"
_NEWEST += " USING (guest, number)"


class ClosedError(InvalidInputError):
    """The survey is closed: nothing is taken any more."""


class OutOfTurnError(InvalidInputError):
    """Another submission is here under this number, or another number is due.

    Attributes:
        newest: number and digest of the guest's newest one.
    """

    def __init__(self, message: str, newest: GuestArrival, *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.newest = newest


@dataclass(frozen=True)
class GuestArrival:
    """Newest submission of a guest at the host.

    Attributes:
        guest: the guest's name in the roster.
        number: number of the submission; 0 for none.
        digest: digest of the submission, hexadecimal; "" for none.
    """

    survey: str
    guest: str
    number: int
    digest: str


class SurveyGuestCollection(OpenSqliteFile):
    def __init__(self, path: Path, survey: SurveyTerms) -> None:
        super().__init__(path, COLLECTION, connect_to_sqlite_file(path, COLLECTION))
        self._survey = survey

    @classmethod
    def open(cls, path: Path, survey: SurveyTerms) -> Self:
        """Return the collection of this survey, made if it is not there yet.

        Raises:
            StoreError: it is another survey's, damaged, or open to other users.
        """

        def fill(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO survey VALUES (?, 0)", (survey.digest,))

        if not path.exists():
            create_sqlite_file(path, COLLECTION, fill)
        with inspect_sqlite_file(path, COLLECTION) as connection:
            found = connection.execute("SELECT digest FROM survey").fetchall()
            if found != [(survey.digest.encode(),)]:
                raise StoreError(
                    f"{path} holds what guests sent for another survey: choose another "
                    "folder",
                    code="folder-of-other-survey",
                )
        return cls(path, survey)

    def take(self, line: bytes) -> tuple[GuestArrival, bool]:
        """Take what a guest sent; return what is here now, and whether it is new.

        Raises:
            ClosedError: the survey is closed.
            OutOfTurnError: the number is taken, or not the next one.
            InvalidInputError: it is no whole submission to this survey by one of its
                guests.
            StoreError: the disk did not take it, and nothing of it is kept.
        """
        survey = self._survey
        new = read_submission(line, survey)
        receipt = GuestArrival(
            survey.digest, new.guest, new.number, new.digest(survey.names)
        )
        with self.transaction():
            if self.is_gone:
                raise StoreError(
                    f"{self.path} was removed or exchanged while it was open, and what "
                    "is written now would be lost: put it back",
                    code="file-replaced",
                )
            kept = self._kept("WHERE guest = ?", new.guest)
            if self._is_closed() and new not in kept:
                raise ClosedError(
                    "the survey is closed: nothing is taken any more",
                    code="survey-closed",
                )
            try:
                if is_submission_resent(kept, new):
                    return receipt, False
            except InvalidInputError as error:
                raise OutOfTurnError(
                    str(error), self._newest(new.guest), code=error.code
                ) from None
            if len(kept) >= MOST_SUBMISSIONS:
                raise OutOfTurnError(
                    f"{MOST_SUBMISSIONS} submissions of one guest are the most: "
                    "nothing can be corrected any more; speak with whoever invited you",
                    self._newest(new.guest),
                    code="too-many-submissions",
                )
            self._put(new, receipt.digest)
        return receipt, True

    def newest(self, guest: str) -> GuestArrival:
        """Return what is here of a guest, without contents."""
        with self.transaction("BEGIN"):
            return self._newest(guest)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is taken any more."""
        with self.transaction("BEGIN"):
            return self._is_closed()

    def came(self) -> tuple[str, ...]:
        """Return who has sent something, in the roster's order."""
        with self.transaction("BEGIN"):
            rows = self._live().execute("SELECT DISTINCT guest FROM submission")
            here = {guest.decode() for (guest,) in rows}
        return tuple(name for name in self._survey.roster if name in here)

    def progress(self) -> dict[str, Any]:
        """Return how many have come of how many, and who vouches for them.

        No contents, and no names: a host that looks at a screen with others beside it
        shows nobody.
        """
        survey, here = self._survey, self._filled()
        members: dict[str, list[int]] = {}
        for guest in survey.guests:
            both = members.setdefault(guest.invited_by, [0, 0])
            both[0] += guest.name in here
            both[1] += 1
        return {
            "survey": survey.digest,
            "title": survey.title,
            "came": len(here),
            "invited": len(survey.guests),
            "by_member": members,
            "closed": self.is_closed,
            "missing": replace(
                survey, tally=survey_tally_of(survey, here)
            ).closed_refusal(),
        }

    def close_survey(
        self, without: Collection[str] = ()
    ) -> tuple[SurveySet, tuple[SurveySubmission, ...]]:
        """Take nothing any more; return which submissions are added, and those.

        A second time, the same comes out. With `without`, guests are left out: shares
        of theirs do not open.

        Raises:
            InvalidInputError: too few have come, or have filled any cell, and the
                survey stays open; or somebody is left out who has sent nothing.
        """
        survey = self._survey
        with self.transaction():
            last = newest_submissions(survey, self._kept(_NEWEST))
            here = {one.guest for one in last}
            if absent := [name for name in without if name not in here]:
                raise InvalidInputError(
                    f"{listed_names(absent)} cannot be left out: nothing came from "
                    "there",
                    code="not-a-submission",
                )
            used = tuple(one for one in last if one.guest not in without)
            found = survey_set_of(survey, used)
            why = replace(survey, tally=found.tally).closed_refusal()
            if why is not None:
                raise InvalidInputError(
                    f"the survey cannot be closed: {why}", code="cannot-close"
                )
            self._live().execute("UPDATE survey SET closed = 1")
        return found, used

    def _filled(self) -> dict[str, bytes]:
        """Return which cells each guest has filled last; all was checked when taken."""
        with self.transaction("BEGIN"):
            rows = self._live().execute(f"SELECT guest, line FROM submission {_NEWEST}")  # noqa: S608 - ours
            return {
                guest.decode(): bytes.fromhex(json.loads(line)["filled"])
                for guest, line in rows
            }

    def _is_closed(self) -> bool:
        (found,) = self._live().execute("SELECT closed FROM survey").fetchone()
        return bool(found)

    def _newest(self, guest: str) -> GuestArrival:
        row = self._live().execute(
            "SELECT number, digest FROM submission WHERE guest = ? "
            "ORDER BY number DESC LIMIT 1",
            (guest,),
        )
        number, digest = row.fetchone() or (0, b"")
        return GuestArrival(self._survey.digest, guest, number, digest.decode())

    def _kept(self, which: str, *values: str) -> list[SurveySubmission]:
        """Return submissions, checked again: a disk may have changed them."""
        rows = self._live().execute(f"SELECT line FROM submission {which}", values)  # noqa: S608 - ours
        return [read_submission(line, self._survey) for (line,) in rows]

    def _put(self, new: SurveySubmission, digest: str) -> None:
        live = self._live()
        try:
            live.executemany(
                "INSERT INTO part VALUES (?)",
                ((submission_sha256(part),) for part in (new.masked, *new.sealed)),
            )
        except sqlite3.IntegrityError:
            # One of these would keep the whole survey from being closed.
            raise InvalidInputError(
                f"{new.guest!r}: something of another submission is in this one: every "
                "share is drawn anew, and sealed anew",
                code="submission-repeats-shares",
            ) from None
        live.execute(
            "INSERT INTO submission VALUES (?, ?, ?, ?)",
            (new.guest, new.number, digest, new.to_json().encode()),
        )
