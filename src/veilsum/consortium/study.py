"""A study: several questions to the same members about the same tables, in one file.

Each question is a run of its own, with a `Consortium` that says everything about it: so
masks, plans, stores, results and receipts of two questions have nothing in common, and
what is proved of one run holds for each. Members, graph, masks, schema and policy are
said once, for all questions. They cannot be said for one: whoever sees which of several
questions a party stays away from must not learn how its numbers lie to several bounds.

A study may grow. Each question carries the digest of the edition that it came with, so
that those who meet about it hold the same edition; the file of a later edition has all
that the earlier ones had, unchanged, and names their digests, which follow from it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta

from veilsum.consortium.consortium import (
    MOST_MEMBERS,
    Consortium,
    ConsortiumFile,
    canonical_agreement_json,
    check_agreed_run_name,
    check_consortium_format,
    check_former_agreement_digest,
    consortium_from,
    consortium_member_from_row,
    plain_agreement_value,
    row_of_consortium_member,
)
from veilsum.consortium.kinds import kind_of_question_heading, question_section_headings
from veilsum.consortium.sections import COST_ONLY
from veilsum.errors import InvalidScenarioError, printable
from veilsum.numbers.arrays import listed_names
from veilsum.reading import Section, Table, Text, Whole, check_read_keys, read_section
from veilsum.showing import Renderable, Rendering, ShownItems, counted_words

# More than a page of consent has room for; before work is done.
MOST_QUESTIONS, NAME_LETTERS = 30, 40
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# What is said once, for all questions.
SHARED = tuple(
    name
    for name in ConsortiumFile.__struct_fields__
    if name not in ("format", "run", "study", "former", "cost", *COST_ONLY)
)
_KNOWN = ("format", "run", *SHARED, "question", "earlier", "former")


class StudyHead(Section, frozen=True, kw_only=True):
    """Keys of a study's file; all others are read by each question's consortium.

    Attributes:
        question: the questions, in order.
        former: digest of the study that it amends; see `AgreedStudy`.
    """

    run: Text
    members: Annotated[
        tuple[Any, ...],
        Meta(description="a list, one [[members]] entry for each party"),
    ]
    title: Text = ""
    organiser: Text = ""
    question: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="a list, one [[question]] for each question"),
    ]
    earlier: Annotated[
        tuple[dict[str, Any], ...],
        Meta(description="a list, one [[earlier]] for each edition before this one"),
    ] = ()
    former: Text = ""


_HEAD = StudyHead.__struct_fields__


class StudyEdition(Section, frozen=True, kw_only=True):
    """A study as it was at one time.

    Attributes:
        questions: how many it had, from the first on.
        digest: SHA-256 of its file.
    """

    questions: Whole
    digest: Text


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AgreedStudy(Renderable):
    """Study agreed on by its members. Build it with `study_from`, which checks it.

    Attributes:
        run: the unique name of the study.
        title: subject of the study, in the organiser's words.
        organiser: the member that wrote the file, according to the file itself.
        questions: the questions, each as its own consortium, by name and in order.
        editions: all editions; this one is the last.
        former: digest of the study of which this one changes certificates alone,
            hexadecimal; "" for none.
        written: the whole file in its canonical form.
    """

    run: str
    title: str
    organiser: str
    questions: Mapping[str, Consortium]
    editions: tuple[StudyEdition, ...]
    former: str = ""
    written: bytes = field(repr=False)

    def showing(self) -> Rendering:
        """Return the questions, and who is asked; certificates stay in the file."""
        asked = [
            f"{name}: {one.question.heading}" for name, one in self.questions.items()
        ]
        names = ", ".join(self.certificates)
        return Rendering(
            f"Study {self.run}, edition {len(self.editions)}",
            [
                *([self.title] if self.title else []),
                f"{counted_words(len(self.certificates), 'member')}: {names}",
                ShownItems("Questions:", asked),
            ],
            {"SHA-256": [self.editions[-1].digest]},
        )

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything here."""
        return bytes.fromhex(self.editions[-1].digest)

    @property
    def first(self) -> Consortium:
        """The first question: members, graph, masks, schema and rules are all's."""
        return next(iter(self.questions.values()))

    @property
    def certificates(self) -> Mapping[str, str]:
        """Every member's, in every question."""
        return self.first.certificates

    @property
    def new(self) -> tuple[str, ...]:
        """The questions that came with this edition."""
        before = 0 if len(self.editions) == 1 else self.editions[-2].questions
        return tuple(self.questions)[before:]

    def after(self, name: str) -> frozenset[str]:
        """Return the runs of all questions after one."""
        names = tuple(self.questions)
        later = names[names.index(name) + 1 :]
        return frozenset(self.questions[one].run for one in later)

    def grown(self, questions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the table of the next edition, with more questions."""
        found = self.to_table()
        return {
            **found,
            "question": [*found["question"], *questions],
            "earlier": [one.given() for one in self.editions],
        }

    def to_table(self) -> dict[str, Any]:
        """Return everything as plain values, as the file has it."""
        found = json.loads(self.written)
        return {name: found[name] for name in _KNOWN if name in found}


def is_study(table: Table) -> bool:
    return "question" in table


def runs_of_agreement(agreed: Consortium | AgreedStudy) -> tuple[Consortium, ...]:
    """Return what a file agrees on, run by run; members and rules are one in all."""
    if isinstance(agreed, Consortium):
        return (agreed,)
    return tuple(agreed.questions.values())


def study_from(table: Table) -> AgreedStudy:
    """Return the study that a parsed file describes; refuse all that is odd."""
    where = "the study file"
    for heading in question_section_headings():
        if heading in table:
            raise InvalidScenarioError(
                f"[{heading}] stands beside [[question]]: a study asks by its "
                f"questions only; write it as [question.{heading}], under a "
                "[[question]] with a name",
                code="section-beside-questions",
            )
    check_read_keys(table, _KNOWN, where)
    check_consortium_format(table)
    said = {
        key: plain_agreement_value(value, key)
        for key, value in table.items()
        if key != "members"
    }
    own = {key: value for key, value in said.items() if key in _HEAD}
    members = {"members": table["members"]} if "members" in table else {}
    file = read_section({**own, **members}, StudyHead, where)
    for what, found, most in (
        ("members", file.members, MOST_MEMBERS),
        ("questions", file.question, MOST_QUESTIONS),
        ("editions", file.earlier, MOST_QUESTIONS),
    ):
        if len(found) > most:
            raise InvalidScenarioError(
                f"a study has {most} {what} at most, found {len(found)}",
                code="too-many-questions",
            )
    check_agreed_run_name(file.run)
    said["members"] = [
        row_of_consortium_member(consortium_member_from_row(row))
        for row in file.members
    ]
    asked = _questions_of_study_rows(file.question)
    editions = _parse_study_editions(said, file)
    questions: dict[str, Consortium] = {}
    for place, (name, question) in enumerate(asked.items()):
        edition = next(one for one in editions if place < one.questions)
        content = {
            "format": said["format"],
            "run": run_of_study_question(edition.digest, name),
            "study": edition.digest,
            **{key: said[key] for key in SHARED if key in said},
            **question,
        }
        try:
            questions[name] = consortium_from(content)
        except InvalidScenarioError as error:
            raise InvalidScenarioError(
                f"question {name!r}: {error}", code=error.code
            ) from None
    return AgreedStudy(
        run=file.run,
        title=file.title,
        organiser=file.organiser,
        questions=questions,
        editions=editions,
        former=check_former_agreement_digest(file.former),
        written=canonical_agreement_json(said),
    )


def run_of_study_question(edition: str, name: str) -> str:
    """Return the run of a question: no other edition, study or question has it."""
    found = canonical_agreement_json([edition, name])
    digest = hashlib.sha256(b"veilsum question of a study\0" + found).hexdigest()
    return f"{name}-{digest[:32]}"


def _study_question_is_on_tables(heading: str) -> bool:
    """Say whether a question is about one table, which every member brings."""
    return heading in question_section_headings() and bool(
        kind_of_question_heading(heading).spec.on_tables
    )


def _questions_of_study_rows(
    rows: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return by name what each question asks; refuse what is none, or comes twice."""
    if not rows:
        raise InvalidScenarioError(
            "a study has at least one [[question]], found none", code="no-question"
        )
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = row.get("name")
        if (
            not isinstance(name, str)
            or not _NAME.fullmatch(name)
            or len(name) > NAME_LETTERS
        ):
            raise InvalidScenarioError(
                "every [[question]] has a name of small letters, digits and, between "
                f"them, dashes, {NAME_LETTERS} letters at most, such as "
                f"blood-pressure; found {printable(repr(name))[:200]}",
                code="malformed-question-name",
            )
        if name in found:
            raise InvalidScenarioError(
                f"two questions are called {name!r}: give each its own name",
                code="duplicate-question",
            )
        question = {key: value for key, value in row.items() if key != "name"}
        if len(question) != 1 or not all(map(_study_question_is_on_tables, question)):
            known = filter(_study_question_is_on_tables, question_section_headings())
            choices = ", ".join(f"[question.{one}]" for one in known)
            raise InvalidScenarioError(
                f"question {name!r} must have exactly one of {choices}, found "
                f"{listed_names(list(question)) or 'none'}: a study asks about one "
                "table of "
                "every member, under one [schema] and one [policy] for all questions",
                code="not-one-task",
            )
        for other, before in found.items():
            if before == question:
                raise InvalidScenarioError(
                    f"the questions {other!r} and {name!r} ask the same: a second "
                    "answer would only cost; leave one out",
                    code="same-question-twice",
                )
        found[name] = question
    return found


def _parse_study_editions(
    said: Mapping[str, Any], file: StudyHead
) -> tuple[StudyEdition, ...]:
    """Return all editions; refuse a file that changes what was agreed before."""
    earlier = tuple(
        read_section(row, StudyEdition, "[[earlier]]") for row in file.earlier
    )
    counts = [one.questions for one in earlier] + [len(file.question)]
    if counts[0] < 1 or any(b <= a for a, b in pairwise(counts)):
        raise InvalidScenarioError(
            "every edition of a study has more questions than the one before, found "
            f"{', '.join(map(str, counts))}",
            code="editions-not-growing",
        )
    found = []
    for place, count in enumerate(counts):
        content = {
            **{key: value for key, value in said.items() if key != "earlier"},
            "question": said["question"][:count],
            **({"earlier": said["earlier"][:place]} if place else {}),
        }
        written = b"veilsum study\0" + canonical_agreement_json(content)
        found.append(
            StudyEdition(questions=count, digest=hashlib.sha256(written).hexdigest())
        )
    for named, made in zip(earlier, found, strict=False):
        if named.digest != made.digest:
            raise InvalidScenarioError(
                f"the edition with {named.questions} questions had the digest "
                f"{printable(named.digest)[:64]}, and without the questions that came "
                f"later this file has {made.digest}: what was agreed before was "
                "changed; a later edition adds questions, and a study with other "
                "members, graph, masks, schema or policy is a new one",
                code="edition-digest-differs",
            )
    return tuple(found)
