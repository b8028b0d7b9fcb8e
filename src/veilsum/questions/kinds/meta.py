"""Meta-analyses: the section [meta]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.questions.kinds.regression import design_line
from veilsum.reading import Text, Whole
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.running import JobResult
from veilsum.sums.table_job import SchemaJob
from veilsum.sums.wording import PageRoom, exact, quoted
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema

if TYPE_CHECKING:
    from veilsum.questions.meta import MetaJob

Ends: TypeAlias = Annotated[
    tuple[float, float], Meta(description="the least and the largest")
]


class MetaSpec(QuestionSpec, frozen=True, kw_only=True):
    """A coefficient that every party fits to its own rows, pooled."""

    heading = "meta"

    formula: Text = ""
    coefficient: Text = ""
    family: Text | None = None
    effects: Ends | None = None
    errors: Ends | None = None
    bits: Whole | None = None


class MetaKind(TableKind):
    """Meta-analyses."""

    spec = MetaSpec
    unused_rules = ("dominance",)

    def job(self, spec: MetaSpec, schema: Schema) -> SchemaJob[Any]:
        """Return the question to tables with a schema."""
        from veilsum.questions.meta import MetaJob

        return MetaJob.of(schema, **spec.asked())

    def run(self, spec: MetaSpec, data: Mapping[str, Frame], **how: Any) -> JobResult:
        """Return the result for some parties' tables."""
        from veilsum.questions.meta import meta

        return meta(data=data, **spec.asked(), **how)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield the question in words."""
        job = cast("MetaJob", asked.job)
        (question,) = asked.consortium.questions
        assert isinstance(question, MetaSpec)
        model, ranges = job.base.model, job.agreed_ranges
        yield (
            "question: one coefficient, which each member fits to its own rows, pooled "
            "over all members (a meta-analysis)"
        )
        yield f"formula, as written: {quoted(question.formula)}"
        yield f"response: {quoted(model.response)}; family: {model.family.name}"
        yield f"coefficient: that of {quoted(job.coefficient)}"
        for what, (low, high) in (
            ("estimates", ranges.effects),
            ("standard errors", ranges.errors),
        ):
            yield f"agreed range of members' {what}: {exact(low)} to {exact(high)}"
        yield design_line(job.base, room)


KIND = MetaKind()
