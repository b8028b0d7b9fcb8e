"""Kinds of questions: one value holds everything the program needs to know of one.

Files, Python functions, commands, consent pages, ledgers, audits, reports and real
parties ask the kind, and know nothing of any question by name. `TableKind` has defaults
for questions to tables with an agreed schema; a new one overrides a few methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast

from veilsum.consortium import kinds
from veilsum.consortium.consortium import Consortium, Question
from veilsum.consortium.kinds import QuestionSpec, command_of_question_heading
from veilsum.consortium.sections import PolicySection
from veilsum.errors import InvalidInputError
from veilsum.locale import phrase
from veilsum.masks.laws import Masks
from veilsum.numbers.units import UnitCounts
from veilsum.reading import about_read_section
from veilsum.sums.recipes import Recipe, SumContribution
from veilsum.sums.running import SumJobResult
from veilsum.sums.table_job import (
    SchemaTableJob,
    TableJobResult,
    check_table_job_width,
    resolve_table_job_question,
    run_on_frames,
)
from veilsum.sums.terms import SumOptions, SumTerms
from veilsum.sums.wording import PageRoom
from veilsum.tables.frames import Frame
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

if TYPE_CHECKING:
    import numpy as np

Input = Literal["table", "cost", "folder"]
# The question of a file as it was read, and the question to tables made of it.
Q = TypeVar("Q")
J = TypeVar("J", bound=SchemaTableJob[Any])


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """The question of a consortium, as its file alone decides it.

    Attributes:
        terms: how parties sum.
        rules: the rules about tables, for a question to tables.
        job: the question to tables, if it is one.
    """

    consortium: Consortium
    recipe: Recipe
    terms: SumTerms
    rules: Rules | None = None
    job: SchemaTableJob[Any] | None = None

    @property
    def question(self) -> Any:
        """The section of the question in the file."""
        return self.consortium.question

    @property
    def parties(self) -> Sequence[str]:
        return self.consortium.topology.parties

    @property
    def title(self) -> str:
        return self.consortium.title

    @property
    def max_colluders(self) -> int | None:
        """The number of parties that may collude, as the file has it."""
        return self.consortium.rules.policy.tolerate


class QuestionKind(ABC, Generic[Q]):
    """A kind of question.

    Attributes:
        spec: the section of a file.
        input: what a party brings.
        has_guests: whether its numbers are those of people who are no members.
        needs_all_members: whether the sums need every member, so that nobody may be
            dropped.
        unused_rules: rules about tables that never matter for it.
        counts_rows: whether it releases counts of rows by level, bin or time, which
            only `minimum_count` limits.
        level_sums: whether it releases sums over the rows of each level, which with
            `site_terms` may be those of one member.
        multiplied: kinds of groups of members, as in `CountedGroup`, whose columns are
            multiplied with each other in a sum; None for all but `varying`.
        command: words and options of its command, as `locale/en/commands.toml` has them
            for the questions that are built in.
    """

    spec: ClassVar[type[QuestionSpec]]
    input: ClassVar[Input] = "table"
    has_guests: ClassVar[bool] = False
    needs_all_members: ClassVar[bool] = False
    unused_rules: ClassVar[tuple[str, ...]] = ()
    counts_rows: ClassVar[bool] = False
    level_sums: ClassVar[bool] = False
    multiplied: ClassVar[frozenset[str] | None] = None
    command: ClassVar[Mapping[str, Any]] = {}

    def section(self, consortium: Consortium) -> Q:
        """Return the question of a consortium, which is of this kind."""
        return cast("Q", consortium.question)

    @abstractmethod
    def plan(self, consortium: Consortium) -> Asked:
        """Return what the question of a consortium comes to, without any data.

        Raises:
            InvalidInputError: nobody could take part in it.
        """

    def check(self, asked: Asked) -> None:
        """Refuse a question that every member would refuse."""
        asked.recipe.request(())

    def run(self, spec: Any, data: Mapping[str, Frame], **how: Any) -> SumJobResult:
        """Return the result for some parties' tables.

        Args:
            spec: the section.
            data: by party, the tables that are here.
            how: `schema`, `rules`, `compare`, and the fields of `SumOptions`.

        Raises:
            InvalidInputError: parties bring no tables to this kind of question.
        """
        heading = self.spec.heading
        raise InvalidInputError(
            f"[{heading}] is not a question to tables: use veilsum "
            f"{command_of_question_heading(heading)}",
            code="not-on-tables",
        )

    def run_without_data(self, asked: Asked) -> SumJobResult:
        """Return the result of sums that the driver of the terms knows already."""
        consortium = asked.consortium
        options = {**agreed_sum_options(consortium), "driver": asked.terms.driver}
        return self.run(
            self.section(consortium),
            {},
            schema=consortium.schema,
            rules=consortium.rules.rules,
            compare=False,
            **options,
        )

    def job(self, spec: Any, schema: Schema) -> SchemaTableJob[Any] | None:
        """Return the question to tables with a schema; None for other questions."""
        return None

    def rounded(self, spec: Any, table: Frame) -> dict[str, int]:
        """Return by column how many of a party's values the agreed unit rounds."""
        return {}

    def rules_in_force(self, consortium: Consortium) -> dict[str, float | bool]:
        """Return the rules of a consortium that can be stricter or weaker, by name."""
        policy, schema = consortium.rules.policy, consortium.schema
        rules = {} if schema is None else asdict(schema.rules(consortium.rules.rules))
        return {
            "tolerate": policy.tolerate,
            "minimum_honest": policy.minimum_honest,
            "drop": policy.drop,
            **rules,
        }

    # The page that a member agrees to

    @abstractmethod
    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield the question in words."""

    def warnings(self, asked: Asked) -> Iterator[str]:
        """Yield what a member must not miss."""
        yield from ()

    def summands(self, asked: Asked) -> str:
        """Return the nouns for "one sum over all ..."."""
        key = "known.over_members" if asked.rules is None else "known.over_rows"
        return phrase("consent", key)

    def consequences(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield totals that people would recognise among the sums."""
        yield from ()

    def who(self, asked: Asked) -> Iterator[str]:
        """Yield the lines on inference, where they differ from other questions."""
        yield from ()

    def rule_lines(self, asked: Asked) -> tuple[str, ...]:
        """Return the head of the list of rules, and lines at its end."""
        key = "rules.head_without_tables" if asked.rules is None else "rules.head"
        return (phrase("consent", key),)

    def limits(self, asked: Asked) -> Iterator[str]:
        """Yield what is not protected beside what holds for all questions."""
        yield from ()

    # Data that is nobody's, for audits

    def made_up(
        self, consortium: Consortium, chance: np.random.Generator, spread: float
    ) -> Any:
        """Return one party's data; None where a schema says what they look like."""

    def contribution(self, recipe: Any, data: Any) -> SumContribution:
        """Return what one party adds, for questions that are not about a schema."""
        raise NotImplementedError

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> Mapping[str, Any]:
        """Return by name the figures that its command writes beside the result.

        Args:
            draw: the module of figures.
            result: the result.
            title: the title of the run.
            shown: the options of the command that say how the result is shown.
        """
        return {}


class TableKind(QuestionKind[Q], Generic[Q, J]):
    """A kind of question to tables that have an agreed schema.

    A question in one file defines its `spec`, `make_job` and `result`, and describes
    itself.

    Attributes:
        make_job: makes the question of a schema and the keys of the section.
        function: the Python function, with the same keys; by default the result is
            made by `result`.
        result: makes the result, where there is no function.
    """

    make_job: ClassVar[Callable[..., SchemaTableJob[Any]]]
    function: ClassVar[Callable[..., SumJobResult] | None] = None
    result: ClassVar[type[TableJobResult]]

    def parts(self, asked: Asked) -> tuple[Q, J]:
        return self.section(asked.consortium), cast("J", asked.job)

    def job(self, spec: Any, schema: Schema) -> SchemaTableJob[Any]:
        return self.make_job(schema, **spec.asked())

    def run(self, spec: Any, data: Mapping[str, Frame], **how: Any) -> SumJobResult:
        if self.function is not None:
            return self.function(data=data, **spec.asked(), **how)
        schema, rules, compare = (
            how.pop(key) for key in ("schema", "rules", "compare")
        )

        def inferred(frames: Any) -> Schema:
            del frames
            raise InvalidInputError(
                f"a [{spec.heading}] needs a [schema]: write down what every table "
                "looks like",
                code="missing-section",
            )

        return run_on_frames(
            lambda agreed: self.job(spec, agreed),
            data,
            self.result,
            inferred=inferred,
            schema=schema,
            rules=rules,
            compare=compare,
            options=cast("SumOptions", how),
        )

    def plan(self, consortium: Consortium) -> Asked:
        """Return the rounds and terms that follow from schema, rules and graph."""
        spec: Any = consortium.question
        schema = consortium.schema
        assert schema is not None
        with about_read_section(spec.heading):
            job = agreed_sum_job(consortium)
        assert job is not None
        rules, tolerate = (
            schema.rules(consortium.rules.rules),
            consortium.rules.tolerate,
        )
        check_table_job_width(
            job,
            rules,
            consortium.topology.n_parties - (1 if tolerate is None else tolerate),
        )
        with about_read_section(spec.heading):
            found = resolve_table_job_question(
                job, rules, lambda counts: agreed_sum_terms(consortium, counts)
            )
        return Asked(
            consortium=consortium,
            recipe=found.recipe,
            terms=found.terms,
            rules=rules,
            job=job,
        )


def question_kind_of(question: Question | type[QuestionSpec]) -> QuestionKind[Any]:
    return cast("QuestionKind[Any]", kinds.kind_of_question_heading(question.heading))


def agreed_question_of(consortium: Consortium) -> tuple[Any, QuestionKind[Any]]:
    return consortium.question, question_kind_of(consortium.question)


def resolve_agreed_question(consortium: Consortium) -> Asked:
    """Return what a consortium's question comes to, from its file alone.

    Raises:
        InvalidInputError: nobody could take part in it.
    """
    _, kind = agreed_question_of(consortium)
    return kind.plan(consortium)


def check_agreed_file(consortium: Consortium) -> None:
    """Refuse a file that every member would refuse.

    Raises:
        InvalidInputError: the file has to be mended before it is passed on.
    """
    question, kind = agreed_question_of(consortium)
    asked = resolve_agreed_question(consortium)
    with about_read_section(question.heading):
        kind.check(asked)


@lru_cache(16)  # rules, page and receipt of a run all ask it of the same file
def agreed_sum_job(consortium: Consortium) -> SchemaTableJob[Any] | None:
    """Return the question to tables of a consortium; None for other questions.

    Raises:
        InvalidInputError: the question needs columns that the schema does not have.
    """
    question, kind = agreed_question_of(consortium)
    schema = consortium.schema
    return None if schema is None else kind.job(question, schema)


def sum_options_of_rules(rules: PolicySection, masks: Masks | None) -> SumOptions:
    chosen: dict[str, Any] = rules.summing
    if masks is not None:
        chosen |= {key: getattr(masks, key) for key in ("law", "sigma", "largest")}
    return cast("SumOptions", chosen)


def agreed_sum_options(consortium: Consortium) -> SumOptions:
    return cast(
        "SumOptions",
        {
            **sum_options_of_rules(consortium.rules, consortium.masks),
            "topology": consortium.topology,
            "run": consortium.run,
        },
    )


def agreed_sum_terms(consortium: Consortium, counts: UnitCounts) -> SumTerms:
    with about_read_section("policy"):
        return SumTerms.of(
            consortium.topology.parties,
            counts=counts,
            options=agreed_sum_options(consortium),
        )
