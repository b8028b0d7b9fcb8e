"""The registry of questions: built in, from other distributions, or added by a program.

A question is known by the heading of its section in a file. Its module is imported when
a file first uses the heading, so that no command loads the questions it does not ask.
Other distributions add a question by an entry point in the group `veilsum.questions`,
whose name is the heading and whose object is the kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Self

import msgspec

from veilsum.distributions import entry_points
from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.reading import Section

GROUP = "veilsum.questions"


class QuestionSpec(Section, frozen=True, kw_only=True):
    """The section of a question: its keys are the arguments of its Python function.

    Attributes:
        heading: name of the section.
        on_tables: whether the parties' tables have an agreed schema.
    """

    heading: ClassVar[str]
    on_tables: ClassVar[bool] = True

    def asked(self) -> dict[str, Any]:
        """Return the arguments of the Python function."""
        return self.given()


@dataclass(frozen=True)
class RegisteredQuestion:
    """A question of this program.

    Attributes:
        command: the command that runs it.
        home: "module:name" of its kind.
    """

    command: str
    home: str

    def load(self) -> Any:
        module, _, name = self.home.partition(":")
        return getattr(import_module(module), name)


# In the order in which messages list them.
BUILT_IN: dict[str, RegisteredQuestion] = {
    "cost": RegisteredQuestion("solve", "veilsum.minimise.kind:KIND"),
    "model": RegisteredQuestion("fit", "veilsum.questions.regression.kind:KIND"),
    "statistics": RegisteredQuestion("stats", "veilsum.questions.statistics.kind:KIND"),
    "survival": RegisteredQuestion("survival", "veilsum.questions.survival:KIND"),
    "cox": RegisteredQuestion("cox", "veilsum.questions.cox.kind:KIND"),
    "mixed": RegisteredQuestion("mixed", "veilsum.questions.mixed:KIND"),
    "meta": RegisteredQuestion("meta", "veilsum.questions.meta:KIND"),
    "evaluate": RegisteredQuestion("evaluate", "veilsum.questions.evaluate.kind:KIND"),
    "dispatch": RegisteredQuestion("dispatch", "veilsum.questions.dispatch:KIND"),
    "survey": RegisteredQuestion("collect", "veilsum.surveys.kind:KIND"),
}
_added: dict[str, Any] = {}


@contextmanager
def registered(kind: Any) -> Iterator[None]:
    """Add a question for the time of a `with` block, as an entry point would."""
    heading = kind.spec.heading
    if heading in question_section_headings():
        raise InvalidInputError(
            f"there is a question [{heading}] already", code="duplicate-question-kind"
        )
    _added[heading] = kind
    try:
        yield
    finally:
        del _added[heading]
        _extend_with_question_sections.cache_clear()


@cache
def _question_kinds_from_others() -> dict[str, Any]:
    """Return the entry points of other distributions, which replace nothing.

    Raises:
        InvalidInputError: two distributions offer one heading.
    """
    found: dict[str, Any] = {}
    for one in entry_points(GROUP):
        if found.setdefault(one.name, one).value != one.value:
            raise InvalidInputError(
                f"two installed distributions offer a question [{one.name}] "
                f"({found[one.name].value} and {one.value}): uninstall one of them",
                code="duplicate-question-kind",
            )
    return {name: one for name, one in found.items() if name not in BUILT_IN}


def question_section_headings() -> tuple[str, ...]:
    return (*BUILT_IN, *_question_kinds_from_others(), *_added)


def command_of_question_heading(heading: str) -> str:
    return BUILT_IN[heading].command if heading in BUILT_IN else heading


def kind_of_question_heading(heading: str) -> Any:
    """Return the kind of question with this heading; its module is loaded."""
    if heading in BUILT_IN:
        return BUILT_IN[heading].load()
    if heading in _added:
        return _added[heading]
    kind = _question_kinds_from_others()[heading].load()
    if kind.spec.heading != heading:
        raise InvalidScenarioError(
            f"the entry point {heading!r} of {GROUP} has a question with the heading "
            f"{kind.spec.heading!r}: its distribution must give both one name",
            code="entry-point-name-differs",
        )
    return kind


class QuestionFile(Section, frozen=True, kw_only=True):
    """A file that may have the section of a question beside its own sections."""

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return its own sections and the headings of all questions."""
        own = cls.__struct_fields__
        return (*own, *(one for one in question_section_headings() if one not in own))

    @classmethod
    def for_keys(cls, keys: Any) -> type[Self]:
        """Return this file with a field for each question among its keys."""
        own = cls.__struct_fields__
        # Most files need nothing from other distributions: these are looked up last.
        known = (
            question_section_headings()
            if {*keys} - {*own, *BUILT_IN}
            else (*BUILT_IN, *_added)
        )
        return _extend_with_question_sections(
            cls, tuple(one for one in known if one in keys and one not in own)
        )

    @property
    def asked(self) -> QuestionSpec | None:
        """The question of the file, other than the minimum of costs."""
        fields = (getattr(self, name) for name in type(self).__struct_fields__)
        return next((one for one in fields if isinstance(one, QuestionSpec)), None)


@cache
def _extend_with_question_sections(base: Any, questions: tuple[str, ...]) -> Any:
    if not questions:
        return base
    fields = [
        (one, kind_of_question_heading(one).spec | None, None) for one in questions
    ]
    return msgspec.defstruct(
        base.__name__,
        fields,
        bases=(base,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        module=base.__module__,
    )
