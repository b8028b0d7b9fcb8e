"""A party takes part in a study: asked once, then question after question.

What holds for one question must hold for all of them together, so everything is
checked before anything is sent: each question by itself on the party's table, and then
all that are left in one transaction of its ledger. Then each is a run as any other. A
party that is done with one question, however that ended, goes on to the next, and
whoever waits for it at the one before learns that from its hello.

How far it is stands in `study.json`, for its owner alone.

`prepare_party` is the way in for one run and for a study: it reads, checks and resolves
everything before anything is sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from veilsum.consortium.consortium import Consortium
from veilsum.consortium.study import AgreedStudy
from veilsum.errors import (
    BudgetError,
    InvalidInputError,
    LedgerError,
    NotReadyError,
    OutputError,
    StoreError,
    VeilsumError,
    WaitingError,
)
from veilsum.files.ledger import Ledger, LedgerRequest
from veilsum.files.output import as_strict_json, prepare_output_folder, write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.locale import phrase
from veilsum.net.amendment import Agreement, check_amendment
from veilsum.net.identity import Identity
from veilsum.net.trust import check_certified_identity
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.numbers.secrets import Secret, hide_secrets_in_errors
from veilsum.party.checks import (
    ASKED_BEFORE,
    AtHomeError,
    HomeDriver,
    files_asked_before,
    ledger_people_lines,
)
from veilsum.party.consent import Consent
from veilsum.party.inputs import (
    PartyTableInput,
    count_party_refusals,
    party_contribution,
)
from veilsum.party.networked import Looping
from veilsum.party.own_rules import OwnRules
from veilsum.party.run import (
    ConsentError,
    Consenting,
    Joined,
    PartyInputs,
    PreparedRun,
    connection_consent_lines,
    keep_consortium_file,
    prepare_party_run,
    run_state_file,
)
from veilsum.party.run_status import FILLED_BYTES, Listener, RunEvent
from veilsum.party.short_page import ConsentPart, Standing
from veilsum.party.study_page import consent_pages_of_questions, consent_to_study
from veilsum.reading import Section, Text, read_section
from veilsum.showing import Renderable, Rendering, ShownTable
from veilsum.sums.running import any_epoch_charged
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.rules import DisclosureError

_say = partial(phrase, "consent")
STATUS = "study.json"
MOST_BYTES = 1 << 20

# How far a question is: not over, over with a result, over without one, not taken part
# in since something refused, not taken part in since its owner said so.
Stage: TypeAlias = Literal["open", "finished", "failed", "refused", "left out"]


class QuestionStatus(Section, frozen=True, kw_only=True):
    """Progress of one question for a party.

    Attributes:
        reason: reason for having no result, for the party's owner only.
        when: time of its end.
    """

    name: Text
    run: Text
    stage: Stage = "open"
    reason: Text = ""
    when: Text = ""


class StudyStatus(Section, frozen=True, kw_only=True):
    """Progress of a study for one party: the content of `study.json`.

    Attributes:
        run: name of the study.
        study: digest of its edition.
    """

    run: Text
    study: Text
    title: Text
    party: Text
    questions: tuple[dict[str, Any], ...]

    @property
    def stages(self) -> dict[str, QuestionStatus]:
        """Each question's, by name."""
        found = [read_section(one, QuestionStatus, STATUS) for one in self.questions]
        return {one.name: one for one in found}

    @property
    def good(self) -> bool:
        """Whether there is a result of every question."""
        return all(one.stage == "finished" for one in self.stages.values())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return all(one.stage != "open" for one in self.stages.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.given(),
            "questions": [one.given() for one in self.stages.values()],
            "good": self.good,
            "over": self.is_over,
        }

    def with_stage(self, name: str, **changes: str) -> StudyStatus:
        """Return the same with one question further."""
        rows = [
            {**one.given(), **(changes if one.name == name else {})}
            for one in self.stages.values()
        ]
        return StudyStatus(**{**self.given(), "questions": tuple(rows)})

    def write(self, folder: Path) -> None:
        """Keep it, for its owner alone; nobody reads a reason off its length."""
        rows = [one.given() for one in self.stages.values()]
        content = as_strict_json({**self.given(), "questions": rows}).encode() + b"\n"
        filled = content + b"\n" * (-len(content) % FILLED_BYTES)
        write_files(folder, {STATUS: filled}, private=True)


def read_study_status(folder: Path) -> StudyStatus:
    """Return how far the study in a folder is.

    Raises:
        InvalidInputError: there is none.
    """
    path = folder / STATUS
    if not path.exists():
        raise InvalidInputError(
            f"there is no {STATUS} in {folder}: give the folder that veilsum join had "
            "with --out",
            code="no-status",
        )
    try:
        table = json.loads(read_file_contents(path, MOST_BYTES, InvalidInputError))
    except ValueError:
        raise InvalidInputError(
            f"{path} is no JSON, and not what join wrote", code="not-json"
        ) from None
    found = read_section(table, StudyStatus, str(path))
    _ = found.stages  # refuses what no question can be
    return found


def begun_study_status(folder: Path, study: AgreedStudy, party: str) -> StudyStatus:
    """Return how far a party is with a study; refuse the folder of another one.

    A later edition goes on where the earlier one was: its new questions are open. So
    does a study with other certificates, to which every member has agreed: what was
    over before is over.
    """
    fresh = StudyStatus(
        run=study.run,
        study=study.digest.hex(),
        title=study.title,
        party=party,
        questions=tuple(
            {"name": name, "run": one.run} for name, one in study.questions.items()
        ),
    )
    if not (folder / STATUS).exists():
        return fresh
    old = read_study_status(folder)
    follows = old.study in [one.digest for one in study.editions] or (
        study.former != "" and old.stages.keys() <= study.questions.keys()
    )
    if (old.run, old.party) != (study.run, party) or not follows:
        raise OutputError(
            f"{folder / STATUS} is about the study {old.run} of {old.party} in the "
            f"edition {old.study[:16]}, and this file is no later edition of that, and "
            "does not amend it; it is left as it is, and nothing was sent: give "
            "another folder with --out, or the file that was agreed to",
            code="status-of-other-study",
        )
    known = {name: one for name, one in old.stages.items() if one.stage != "open"}
    rows = [known.get(name, one).given() for name, one in fresh.stages.items()]
    return StudyStatus(**{**fresh.given(), "questions": tuple(rows)})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StudyAtHome(Secret):
    """Results of a party's own checks of the open questions of a study.

    Attributes:
        wanted: requests to its ledger, by question that passes.
        begun: questions that its ledger has already reserved.
        refused: reasons by question that does not pass, for the owner only.
        left_out: questions that the owner does not want.
    """

    wanted: Mapping[str, LedgerRequest]
    begun: tuple[str, ...]
    refused: Mapping[str, str]
    left_out: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        passed = [*self.wanted, *self.begun]
        return (
            *(
                _say("checks.refused", rule=name, why=why)
                for name, why in self.refused.items()
            ),
            *(f"- {name}: left out, as you said" for name in self.left_out),
            *(_say("checks.passed", rule=name) for name in passed),
            *((TOGETHER,) if len(passed) > 1 else ()),
        )


TOGETHER = (
    "all that passed were held against your table and your ledger together, too, and "
    "pass"
)


@hide_secrets_in_errors()
def study_at_home(
    study: AgreedStudy,
    part: PartyTableInput,
    party: str,
    ledger: Ledger,
    *,
    asked: Collection[str],
    without: Collection[str] = (),
    refused: Mapping[str, str] | None = None,
) -> StudyAtHome:
    """Hold the open questions of a study against a party's table; nothing is sent.

    Args:
        study: what is asked.
        part: the party's table.
        party: whose it is.
        ledger: its ledger.
        asked: the questions that are open.
        without: those of them that its owner does not want.
        refused: those that are refused whatever the table is, and why.

    Raises:
        BudgetError: the ledger has no room for all that pass.
        DisclosureError: some of them single rows out together.
    """
    odd = [name for name in without if name not in study.questions]
    if odd:
        raise InvalidInputError(
            f"there is no question {odd[0]!r}; "
            f"{nearest_name(odd[0], study.questions)}the "
            f"study has {', '.join(study.questions)}",
            code="unknown-question",
        )
    wanted, begun, no = dict[str, LedgerRequest](), list[str](), dict(refused or {})
    wished = [name for name in asked if name not in without and name not in no]
    for name in wished:
        one = study.questions[name]
        if ledger.history().of_run(one.run) is not None:
            begun.append(name)
            continue
        try:
            replace(part, consortium=one).job(
                party,
                driver=HomeDriver(party),
                ledgers={party: ledger},
                new_data=part.new_data,
            ).run()
        except AtHomeError as home:
            wanted[name] = home.wanted(party)
        except InvalidInputError as error:
            no[name] = str(error)
    if wanted:
        # To stay away from all of them is to stay away from the first.
        first = study.questions[next(iter(wanted))]
        source = FingerprintSource(part.table, ())
        with count_party_refusals(first, source, ledger, new_data=part.new_data):
            _check_study_ledger(ledger, wanted)
    return StudyAtHome(
        wanted=wanted,
        begun=tuple(begun),
        refused=no,
        left_out=tuple(name for name in asked if name in without),
    )


ALL_OR_NONE = (
    "All questions of a study are allowed together, or none, and nothing was sent: "
    "leave one out with --without NAME"
)


def _check_study_ledger(ledger: Ledger, wanted: Mapping[str, LedgerRequest]) -> None:
    try:
        ledger.check_all(wanted)
    except DisclosureError as error:
        raise DisclosureError(
            error.rule, f"{error}. {ALL_OR_NONE}", code=error.code
        ) from None
    except BudgetError as error:
        raise BudgetError(f"{error}. {ALL_OR_NONE}", code=error.code) from None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JoinedStudy(Renderable):
    """Outcome of a study for a party.

    Attributes:
        status: progress of each question, with the reason for having no result.
        answers: answers by question, for questions that have a result. Answers of
            questions that were over before are included if requested again.
    """

    status: StudyStatus
    answers: Mapping[str, Joined]

    def showing(self) -> Rendering:
        """Return how far each question is; its answer is in `answers`."""
        rows = [(one.name, one.stage) for one in self.status.stages.values()]
        many = len(self.answers)
        return Rendering(
            f"Study {self.status.run}: {many} of {len(rows)} questions have a result",
            [ShownTable(("question", "stage"), rows)],
        )


# Told how each question went, when it is over.
Told: TypeAlias = Callable[[QuestionStatus, Joined | None], None]


def prepare_study(
    study: AgreedStudy, identity: Identity, inputs: PartyInputs
) -> PreparedPartyStudy:
    """Read, check and resolve all that a study needs; send nothing."""
    check_certified_identity(identity, study.first.certificates)
    own = inputs.rules_of(identity)
    part = party_contribution(
        study.first, data=inputs.data, cost=inputs.cost, **inputs.how
    )
    assert isinstance(part, PartyTableInput)
    pages = consent_pages_of_questions(study)
    beside = identity.key_file.parent
    return PreparedPartyStudy(
        study=study,
        identity=identity,
        part=part,
        own=own,
        pages=pages,
        page=consent_to_study(study, pages),
        out=inputs.out or beside / f"{identity.name}-{study.run[-8:]}.study",
        inputs=inputs,
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PreparedPartyStudy(Secret):
    """A study that a party is ready for; nothing was sent yet.

    Attributes:
        pages: the shared half of the page of each question.
        page: the shared half of the page of all questions.
        out: a folder for everything that is kept, with one for each question.
        inputs: everything else that the party chose.
    """

    study: AgreedStudy
    identity: Identity
    part: PartyTableInput
    own: OwnRules
    pages: Mapping[str, Consent]
    page: Consent
    out: Path
    inputs: PartyInputs

    @hide_secrets_in_errors()
    def run(
        self,
        consent: Consenting,
        *,
        on_event: Listener | None = None,
        looping: Looping = asyncio.run,
        tell: Told | None = None,
    ) -> JoinedStudy:
        """Take part in every question that is open; return how each of them went.

        Through files that are carried, where it is not to wait for more, it does what
        can be done in each of them.

        Args:
            consent: called with the page before anything is sent; False, or anything
                it raises, stays away. It is not called where all open questions were
                agreed to before.
            on_event: called with every event of each question's run.
            looping: runs the network's coroutine of each to its end.
            tell: called with each question that is over.

        Raises:
            ConsentError: nobody has agreed; nothing was sent.
            BudgetError: the ledger has no room for all questions; nothing was sent.
            DisclosureError: some of them single rows out together; nothing was sent.
            WaitingError: some cannot go on before files of others come.
        """
        with self.inputs.open_ledger(self.identity, self.study.first) as ledger:
            if self.part.chosen is None:
                # All questions of a study are asked of one cut.
                questions = [*self.study.questions.values()]
                part = self.part.on_cut(ledger, self.identity.name, questions)
                inputs = replace(self.inputs, ledger=ledger)
                ready = replace(self, part=part, inputs=inputs)
                return ready.run(consent, on_event=on_event, looping=looping, tell=tell)
            joining = partial(self._joined, ledger, on_event)
            status = begun_study_status(
                prepare_output_folder(self.out), self.study, self.identity.name
            )
            self._give_back_former(ledger)
            left = [name for name, one in status.stages.items() if one.stage == "open"]
            ruled = {
                name: "; ".join(found)
                for name in left
                if (
                    found := self.own.refusals(
                        self.study.questions[name], alone=self.inputs.alone
                    )
                )
            }
            home = study_at_home(
                self.study,
                self.part,
                self.identity.name,
                ledger,
                asked=left,
                without=self.inputs.without,
                refused=ruled,
            )
            if home.wanted:
                standing = Standing(looked=True, refusals=home.refused, of=len(left))
                own = self._own(home, ledger)
                page = replace(self.page, own=own, standing=standing)
                if consent(page) is not True:
                    why = "this party did not agree to the study, and nothing was sent"
                    raise ConsentError(why, page, code="consent-declined")
                page.write(self.out)
                ledger.reserve_all(home.wanted)
            status.write(self.out)
            answers = self._found_before(status, joining)
            waits: dict[str, WaitingError] = {}
            for name in left:
                try:
                    stage, reason, joined = self._question(
                        name, home, ruled, ledger, partial(joining, looping=looping)
                    )
                except WaitingError as error:
                    waits[name] = error
                    continue
                when = datetime.now(UTC).isoformat(timespec="seconds")
                status = status.with_stage(name, stage=stage, reason=reason, when=when)
                status.write(self.out)
                if joined is not None:
                    answers[name] = joined
                if tell is not None:
                    tell(status.stages[name], joined)
        if waits:
            raise _study_waits(waits)
        return JoinedStudy(
            status=status,
            answers={one: answers[one] for one in status.stages if one in answers},
        )

    def _own(self, home: StudyAtHome, ledger: Ledger) -> tuple[ConsentPart, ...]:
        """Return what the page says to its owner alone: all of it was checked."""
        part = self.part
        away = [*home.refused, *home.left_out]
        names = listed_names(away, most=len(away))
        said = (_say("checks.staying_away", names=names),) if away else ()
        before = tuple(
            line
            for name in home.wanted
            for line in files_asked_before(self.study.questions[name], ledger)
        )
        numbers = sum(one.reservation.numbers for one in home.wanted.values())
        known = len(ledger.history().releases)
        books = (
            _say("ledger.kept_for_study", file=ledger.path, n=known),
            *ledger_people_lines(
                ledger, ledger.data(FingerprintSource(part.table, ())).data
            ),
            _say("ledger.study", numbers=numbers),
        )
        agreed, name, inputs = self.study.first, self.identity.name, self.inputs
        near = ", ".join(agreed.topology.neighbours(name))
        place = [
            _say("place.in_every_question", name=name, near=near),
            *connection_consent_lines(agreed, name, inputs.drop),
        ]
        never_sent = _say("data.never_sent")
        cut_lines = () if part.chosen is None else part.chosen.lines
        if inputs.transcript is not None:
            place.append(_say("place.transcripts", file=inputs.transcript.name))
        return (
            ConsentPart("your_place", tuple(place)),
            *([ConsentPart(ASKED_BEFORE, before)] if before else []),
            ConsentPart(
                "your_data", (part.words, *part.changes, never_sent, *cut_lines)
            ),
            ConsentPart("your_checks", (*home.lines, *said)),
            ConsentPart("your_rules", self.own.lines),
            ConsentPart("your_ledger", books),
        )

    def _question(
        self,
        name: str,
        home: StudyAtHome,
        ruled: Mapping[str, str],
        ledger: Ledger,
        joining: Callable[..., Joined],
    ) -> tuple[Stage, str, Joined | None]:
        """Return how one question went: other questions do not depend on it."""
        agreed = self.study.questions[name]
        if name in home.left_out or name in ruled:
            _give_back_study_reservation(ledger, agreed.run)
            stage: Stage = "left out" if name in home.left_out else "refused"
            return stage, ruled.get(name, "left out by its owner"), None
        if name in home.refused:
            # Once more, so that its ledger keeps count of what it refuses.
            part = replace(self.part, consortium=agreed)
            with suppress(InvalidInputError, AtHomeError):
                part.run(HomeDriver(self.identity.name), ledger)
            return "refused", home.refused[name], None
        met: list[RunEvent] = []
        try:
            # Its page was a part of the study's, which was agreed to.
            return "finished", "", joining(name, met, lambda _: True)
        except (StoreError, LedgerError, OutputError, NotReadyError):
            raise  # this computer's own trouble, which the next would have as well
        except WaitingError:
            raise  # it goes on when others' files have come
        except VeilsumError as error:
            if met:
                return "failed", str(error), None
            _give_back_study_reservation(ledger, agreed.run)
            return "refused", str(error), None

    def _joined(
        self,
        ledger: Ledger,
        on_event: Listener | None,
        name: str,
        met: list[RunEvent],
        consent: Consenting,
        looping: Looping,
    ) -> Joined:
        """Take part in one question; what happens in it once it has begun is noted."""
        agreed, folder, kept = self.study.questions[name], self.out / name, None
        file = keep_consortium_file(folder, agreed)
        if self.inputs.transcript is not None:
            kept = prepare_output_folder(self.inputs.transcript) / f"{name}.transcript"

        def listen(event: RunEvent) -> None:
            if event.what != "agreed":
                met.append(event)
            if on_event is not None:
                on_event(replace(event, question=name))

        inputs = replace(
            self.inputs,
            data=self.part.table,
            how={},
            rules=self.own,
            ledger=ledger,
            transcript=kept,
            file=file,
            out=folder,
        )
        return prepare_party_run(
            agreed,
            self.identity,
            inputs,
            page=self.pages[name],
            later=self.study.after(name),
        ).run(consent, on_event=listen, looping=looping)

    def _found_before(
        self, status: StudyStatus, joining: Callable[..., Joined]
    ) -> dict[str, Joined]:
        """Return what questions found that were over before; nobody is met for that.

        Through files it writes letters again that somebody may have lost.
        """
        found: dict[str, Joined] = {}
        if not self.inputs.again and self.inputs.drop is None:
            return found
        for name, one in status.stages.items():
            over = one.stage in ("finished", "failed")
            ours = one.run == self.study.questions[name].run  # else of what it amends
            if over and ours and run_state_file(self.identity, one.run).exists():
                with suppress(VeilsumError):  # it has failed, or its data are others
                    found[name] = joining(
                        name,
                        [],
                        _refuse_question_that_is_over,
                        looping=_refuse_question_that_is_over,
                    )
        return found

    def _give_back_former(self, ledger: Ledger) -> None:
        """Free what was reserved for runs that other certificates put an end to."""
        if not (self.out / STATUS).exists():
            return
        runs = {one.run for one in self.study.questions.values()}
        for one in read_study_status(self.out).stages.values():
            if one.stage == "open" and one.run not in runs:
                _give_back_study_reservation(ledger, one.run)


def _give_back_study_reservation(ledger: Ledger, run: str) -> None:
    """Free what a question has reserved of which nothing masked has left."""
    if not any_epoch_charged(ledger, run):
        ledger.settle(run)


def _refuse_question_that_is_over(
    asked: Consent | Coroutine[Any, Any, Any],
) -> NoReturn:
    """Neither ask nor meet anybody about a question that is over."""
    if not isinstance(asked, Consent):
        asked.close()
    raise StoreError(
        "this question is over, and its run's file does not know it",
        code="run-file-stale",
    )


def _study_waits(waits: Mapping[str, WaitingError]) -> WaitingError:
    """Say of each question what it waits for; the first and last line are all's."""
    said = {name: str(one).split("\n  ") for name, one in waits.items()}
    rows = [f"{name}: {row}" for name, rows in said.items() for row in rows[1:-1]]
    first = next(iter(said.values()))
    names = dict.fromkeys(who for one in waits.values() for who in one.names)
    return WaitingError(
        "\n  ".join([first[0], *rows, first[-1]]),
        tuple(names),
        answers={k: one.answers[""] for k, one in waits.items() if one.answers},
        code="waiting-for-files",
    )


def prepare_party(
    agreed: Agreement, identity: Identity, inputs: PartyInputs
) -> PreparedRun | PreparedPartyStudy:
    """Return a run, or a study, that a party is ready for; nothing is sent.

    Args:
        agreed: the consortium file, or a study's, as it was read.
        identity: of the party.
        inputs: the party's own side, with the path of the file.

    Raises:
        InvalidInputError: this party cannot take part with these inputs.
    """
    if agreed.former:
        if inputs.file is None:
            raise InvalidInputError(
                "this consortium amends an earlier one, and whether its members said "
                "yes to that stands beside its file: give the file's path",
                code="path-needed",
            )
        check_amendment(inputs.file, agreed)
    if isinstance(agreed, Consortium):
        if inputs.without:
            raise InvalidInputError(
                "--without only applies to studies; this file asks a single question",
                code="option-for-studies",
            )
        return prepare_party_run(agreed, identity, inputs)
    if inputs.state is not None:
        raise InvalidInputError(
            "--state names the file of one run, and a study has one for each "
            "question, beside the key: leave --state out",
            code="option-not-for-studies",
        )
    return prepare_study(agreed, identity, inputs)
