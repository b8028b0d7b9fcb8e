"""A delegate's part of a survey: a folder with its store and the guests' submissions.

Everything is checked at home, and every share is opened once, before anybody is asked
or told. The store writes down which set is added just before masked numbers leave, when
all members have shown that they hold the same file; and it erases the survey's key when
the answer is known, or can never be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from veilsum.consortium.consortium import Consortium
from veilsum.drivers.driver import Driver, DriverAssignment, DriverOutput, GivenUpError
from veilsum.errors import InvalidInputError
from veilsum.files.ledger import Ledger
from veilsum.files.safe_read import read_file_contents
from veilsum.locale import phrase
from veilsum.numbers.arrays import Array
from veilsum.numbers.secrets import Secret, hide_secrets_in_errors
from veilsum.protocol.effects import Emission
from veilsum.sums.kinds import resolve_agreed_question
from veilsum.surveys.delegate import SurveyDelegateStore, survey_masked_sums
from veilsum.surveys.question import SurveyRecipe, SurveyResult
from veilsum.surveys.submission import SurveySubmission, longest_submission
from veilsum.surveys.survey_set import SurveySet, closed_survey_set, read_submissions
from veilsum.surveys.terms import SurveyTerms, survey_terms
from veilsum.surveys.words import guest_names_in_words, guests_by_member

# What a delegate's folder holds: its own store, and what the host has handed out.
STORE, SUBMISSIONS = "surveys.store", "submissions.jsonl"


@dataclass(frozen=True, eq=False, repr=False)
class OwnSurveyDriver(Secret):
    """A driver that commits a delegate to a set before masked numbers leave it.

    By then all members hold the same file, and so the same set: a delegate that learns
    in time that others do not is not committed to any.

    Attributes:
        bind: writes the set down, before masked numbers leave.
        finish: erases the key, once the run has an answer, or can never have one.
    """

    inner: Driver
    bind: Callable[[], object]
    finish: Callable[[], object]

    @property
    def party(self) -> str | None:
        return self.inner.party

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Go through to the end; raise where the set cannot be written down."""

        def charge(party: str, emission: Emission, sums: Sequence[Array[Any]]) -> None:
            del party, emission, sums
            self.bind()

        try:
            released = self.inner.carry_out(replace(assignment, charge=charge))
        except GivenUpError as error:
            if error.end is not None and error.end.ending.abort.final:
                self.finish()
            raise
        self.finish()
        return released


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnSurvey(Secret):
    """A delegate's part.

    Attributes:
        folder: holds the files named above.
    """

    checks: ClassVar[tuple[str, str]] = ("submissions", "store")
    # No rule is about tables, for there is none.
    rules: ClassVar[None] = None

    consortium: Consortium
    folder: Path

    @cached_property
    def survey(self) -> SurveyTerms:
        return survey_terms(self.consortium)

    @cached_property
    def submissions(self) -> tuple[SurveySubmission, ...]:
        """Submissions from the host, each checked for completeness and signature."""
        survey, path = self.survey, self.folder / SUBMISSIONS
        if survey.set is None:
            raise InvalidInputError(
                "this survey is open: delegates join with the closed file, which the "
                "host writes when it closes it, and which names the set",
                code="survey-still-open",
            )
        most = (longest_submission(survey) + 1) * len(survey.guests)
        return read_submissions(
            read_file_contents(path, most, InvalidInputError), survey
        )

    @cached_property
    def set(self) -> SurveySet:
        """Which submissions are added: those that the closed file names."""
        return closed_survey_set(self.survey, self.submissions)

    @property
    def lines(self) -> Iterator[str]:
        """Description of the set's guests, for the reader's own half of the page."""
        survey, say = self.survey, partial(phrase, "consent")
        try:
            guests = self.set.guests
        except InvalidInputError:
            yield say("own_survey.unusable", folder=self.folder.name)
            return
        yield say("own_survey.set", folder=self.folder.name, set=self.set.digest)
        names, invited = guest_names_in_words(guests), len(survey.guests)
        yield say("own_survey.guests", guests=names, invited=invited)
        by_member = guests_by_member(survey, guests)
        yield say("own_survey.vouching", by_member=by_member)
        yield say(
            "own_survey.honest",
            tolerate=survey.tolerate,
            few=survey.honest(guests),
            needed=survey.minimum_honest + 1,
        )
        for size in range(survey.tolerate + 1, len(survey.names)):
            yield say("own_survey.beyond", size=size, few=survey.honest(guests, size))
        yield say("own_survey.one_share")
        yield say("own_survey.never_sent")

    @hide_secrets_in_errors()
    def run(self, driver: Driver, ledger: Ledger | None) -> SurveyResult:
        """Check everything, then take part; erase the key once nothing can come."""
        party, survey = driver.party, self.survey
        assert party is not None
        asked = resolve_agreed_question(self.consortium)
        assert isinstance(asked.recipe, SurveyRecipe)
        with closing(self._store()) as store:
            self._examine(store, party)

            own = asked.recipe.contribution(
                party,
                shares=lambda: store.add_up(survey, party, self.submissions),
                masked=survey_masked_sums(survey, self.submissions),
            )

            bound = OwnSurveyDriver(
                driver,
                bind=lambda: store.commit(survey, party, self.submissions),
                finish=lambda: store.finish(survey),
            )
            terms = replace(asked.terms, driver=bound)
            return asked.recipe.run({party: own}, terms)

    def _store(self) -> SurveyDelegateStore:
        path = self.folder / STORE
        if not path.exists():
            raise InvalidInputError(
                f"{self.folder} has no {STORE}, which holds the key that was made for "
                "this survey: give the folder in which veilsum collect delegate "
                "made it",
                code="survey-store-missing",
            )
        return SurveyDelegateStore.open(path)

    def _examine(self, store: SurveyDelegateStore, party: str) -> None:
        """Make every check at home; one that joins again is told how it ended."""
        known = (self.survey.digest, self.set.digest)
        over = known in {(one.survey, one.set) for one in store.answered()}
        try:
            store.examine(self.survey, party, self.submissions)
        except InvalidInputError:
            # Its key may be gone, for the answer is known: then nothing is opened.
            if not over:
                raise


def own_survey(consortium: Consortium, data: Any, cost: Any) -> OwnSurvey:
    """Return a delegate's part; refuse what is no folder."""
    if data is None or cost is not None or not isinstance(data, str | Path):
        raise InvalidInputError(
            "this consortium has a [survey]: a delegate gives the folder with its "
            f"{STORE} and the host's {SUBMISSIONS} with --data FOLDER, and nothing "
            "else",
            code="wrong-input-option",
        )
    folder = Path(data)
    if not folder.is_dir():
        raise InvalidInputError(
            f"{folder} is no folder; a delegate's folder holds {STORE} and "
            f"{SUBMISSIONS}",
            code="not-a-folder",
        )
    return OwnSurvey(consortium=consortium, folder=folder)
