"""Which submissions are added: one of each guest, the newest, as a whole or not at all.

The host keeps all that guests send. When it closes the survey, the set names guest,
number and digest of every submission that is added. Its digest goes into the closed
file, and how many guests filled each cell, which everybody counts again: all delegates
then add the same, or none of them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from veilsum.errors import InvalidInputError
from veilsum.surveys.submission import (
    SurveySubmission,
    check_submission,
    longest_submission,
    read_submission,
    submission_sha256,
)
from veilsum.surveys.terms import SurveyTally, SurveyTerms, survey_tally_of


@dataclass(frozen=True)
class SurveySet:
    """Which submissions of a survey are added.

    Attributes:
        entries: guest, number and digest of each, in the roster's order.
        tally: how many of these guests filled what.
        filled: for each of them, in this order, which cells it filled.
    """

    survey: str
    entries: tuple[tuple[str, int, str], ...]
    tally: SurveyTally
    filled: tuple[bytes, ...]

    @cached_property
    def digest(self) -> str:
        lines = "\n".join(
            f"{guest}\t{number}\t{digest}" for guest, number, digest in self.entries
        )
        return submission_sha256(f"veilsum set 1\n{self.survey}\n{lines}\n".encode())

    @property
    def guests(self) -> tuple[str, ...]:
        return tuple(guest for guest, _, _ in self.entries)

    @property
    def submissions(self) -> tuple[str, ...]:
        """Digests of all, in no order that tells whose they are: for everybody."""
        return tuple(sorted(digest for _, _, digest in self.entries))


def submissions_digest(submissions: Iterable[str]) -> str:
    """Return the SHA-256 of a list of digests, one a line, as a file of it has.

    >>> submissions_digest(["ab" * 32])[:16]
    '82a6564112bc3702'
    """
    return submission_sha256("".join(f"{one}\n" for one in submissions).encode())


def is_submission_resent(
    kept: Iterable[SurveySubmission], new: SurveySubmission
) -> bool:
    """Say whether a submission is here already, byte for byte; refuse an odd one.

    Args:
        kept: what this guest has sent so far, checked.
        new: what it sends now, checked.

    Raises:
        InvalidInputError: it is another one under a number that is taken, no correction
            of the newest, or has something of an earlier one in it: two vectors with
            one share between them would tell what was corrected.
    """
    mine = [one for one in kept if one.guest == new.guest]
    if new in mine:
        return True
    newest = max((one.number for one in mine), default=0)
    if new.number != newest + 1:
        raise InvalidInputError(
            f"{new.guest!r} has sent number {newest}, and another one than this under "
            f"{new.number}: what is sent again must be the same to the last byte, and "
            f"a correction has the number {newest + 1}"
            if new.number <= newest
            else f"{new.guest!r} has sent number {newest}: next comes {newest + 1}, "
            f"not {new.number}",
            code="resent-differently",
        )
    if any(
        (not {one.masked, *one.sealed}.isdisjoint({new.masked, *new.sealed}))
        for one in mine
    ):
        raise InvalidInputError(
            f"{new.guest!r}: a correction must have all shares drawn anew, and this "
            "has something of an earlier one in it",
            code="submission-repeats-shares",
        )
    return False


def newest_submissions(
    survey: SurveyTerms, submissions: Iterable[SurveySubmission]
) -> tuple[SurveySubmission, ...]:
    """Return the last submission of every guest, in the roster's order."""
    last: dict[str, SurveySubmission] = {}
    for one in submissions:
        if one.guest not in last or one.number > last[one.guest].number:
            last[one.guest] = one
    return tuple(last[name] for name in survey.roster if name in last)


def survey_set_of(
    survey: SurveyTerms, submissions: Sequence[SurveySubmission]
) -> SurveySet:
    """Return the set that these make; each of them is checked again.

    Raises:
        InvalidInputError: one is not whole or not its guest's own, a guest is there
            twice, or two have a masked vector or a sealed share in common.
    """
    by_guest: dict[str, SurveySubmission] = {}
    seen: set[bytes] = set()
    for one in submissions:
        check_submission(one, survey)
        if one.guest in by_guest:
            raise InvalidInputError(
                f"{one.guest!r} is in the set twice", code="duplicate-guest"
            )
        by_guest[one.guest] = one
        parts = {one.masked, *one.sealed}
        if not seen.isdisjoint(parts):
            raise InvalidInputError(
                f"what {one.guest!r} sent is in the set under another name, too",
                code="duplicate-submission",
            )
        seen |= parts
    added = [by_guest[name] for name in survey.roster if name in by_guest]
    entries = ((one.guest, one.number, one.digest(survey.names)) for one in added)
    tally = survey_tally_of(survey, {one.guest: one.filled for one in added})
    bits = tuple(one.filled for one in added)
    return SurveySet(survey.digest, tuple(entries), tally, bits)


def closed_survey_set(
    survey: SurveyTerms, submissions: Sequence[SurveySubmission]
) -> SurveySet:
    """Return the set of a closed survey; refuse other submissions than it names."""
    if survey.set is None:
        raise InvalidInputError(
            "the survey is still open: its file does not say which submissions are "
            "added",
            code="survey-still-open",
        )
    found = survey_set_of(survey, submissions)
    if found.digest != survey.set:
        raise InvalidInputError(
            f"these {len(submissions)} submissions are not those that the closed file "
            "names: fetch both again from the host",
            code="submissions-differ",
        )
    if found.tally != survey.tally:
        raise InvalidInputError(
            "the closed file counts other guests in a cell than have filled it, by "
            "what they signed: join nothing with it, and ask the host",
            code="filled-differs",
        )
    return found


def read_submissions(
    content: bytes, survey: SurveyTerms
) -> tuple[SurveySubmission, ...]:
    """Return the submissions in a file, one a line; more than guests are refused."""
    most = (longest_submission(survey) + 1) * len(survey.guests)
    if len(content) > most:
        raise InvalidInputError(
            f"submissions of {len(survey.guests):,} guests have {most:,} bytes at "
            f"most, found {len(content):,}",
            code="submissions-too-large",
        )
    lines = [line for line in content.split(b"\n") if line.strip()]
    if len(lines) > len(survey.guests):
        raise InvalidInputError(
            f"{len(lines):,} submissions of {len(survey.guests):,} guests: each is "
            "in the set once",
            code="submissions-differ",
        )
    return tuple(read_submission(line, survey) for line in lines)


def write_submissions(submissions: Iterable[SurveySubmission]) -> bytes:
    """Return the file that `read_submissions` reads."""
    return "".join(f"{one.to_json()}\n" for one in submissions).encode()
