"""Survival curves: the section [survival]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, cast

from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.running import JobResult
from veilsum.sums.table_job import SchemaJob
from veilsum.sums.wording import PageRoom, exact, quoted
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema

if TYPE_CHECKING:
    from veilsum.questions.survival import SurvivalJob


class SurvivalSpec(QuestionSpec, frozen=True, kw_only=True):
    """Kaplan-Meier curves and the log-rank test, on agreed times."""

    heading = "survival"

    formula: Annotated[
        str, Meta(description='a text such as "Surv(time, event) ~ C(sex)"')
    ]
    times: Annotated[
        tuple[int | float, ...], Meta(description="a list of times, such as [90, 180]")
    ]


class SurvivalKind(TableKind):
    """Survival curves."""

    spec = SurvivalSpec
    unused_rules = ("residual_rows", "maximum_columns", "dominance", "maximum_leverage")

    def job(self, spec: SurvivalSpec, schema: Schema) -> SchemaJob[Any]:
        """Return the question to tables with a schema."""
        from veilsum.questions.survival import SurvivalJob

        return SurvivalJob.of(schema, **spec.asked())

    def run(
        self, spec: SurvivalSpec, data: Mapping[str, Frame], **how: Any
    ) -> JobResult:
        """Return the result for some parties' tables."""
        from veilsum.questions.survival import survival

        return survival(data=data, **spec.asked(), **how)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield the question in words."""
        job = cast("SurvivalJob", asked.job)
        (question,) = asked.consortium.questions
        assert isinstance(question, SurvivalSpec)
        time, event = quoted(job.formula.time), quoted(job.formula.event)
        yield (
            "question: how long all members' rows go on until an event (Kaplan-Meier "
            "curves and the log-rank test)"
        )
        yield f"formula, as written: {quoted(question.formula)}"
        column = job.schema.column(job.formula.event)
        seen = quoted(column.categories[1]) if column.is_category else "1"
        yield f"a row ends at its {time}; the event was seen where {event} is {seen}"
        if job.group is not None:
            yield f"counted for each level of {quoted(job.group)} by itself"
        times = [exact(one) for one in job.grid.times.tolist()]
        ends = [f"above {a} up to {b}" for a, b in pairwise(times)]
        listed = room.names("intervals", [f"from 0 to {times[0]}", *ends])
        yield f"intervals: {len(times)}, each with its last time: {listed}"
        yield f"rows that go on after {times[-1]} are counted by themselves"
        yield (
            "rules about combinations and bins are about all rows of a group that end "
            "in "
            "an interval, with the event or without: of these, one alone may have it"
        )

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> dict[str, Any]:
        """Return the survival curves."""
        return {"survival": draw.survival_figure(result, title, **shown)}


KIND = SurvivalKind()
