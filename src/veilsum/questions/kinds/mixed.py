"""Mixed models: the section [mixed]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from veilsum.consortium.kinds import QuestionSpec
from veilsum.questions.kinds.regression import design_line
from veilsum.reading import Names, Text, Whole
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.running import JobResult
from veilsum.sums.table_job import SchemaJob
from veilsum.sums.wording import PageRoom, quoted
from veilsum.tables.frames import Frame
from veilsum.tables.schema import Schema

if TYPE_CHECKING:
    from veilsum.questions.mixed import MixedJob


class MixedSpec(QuestionSpec, frozen=True, kw_only=True):
    """A regression with coefficients that differ between parties."""

    heading = "mixed"

    formula: Text = ""
    random: Names | None = None
    method: Text | None = None
    bits: Whole | None = None


class MixedKind(TableKind):
    """Mixed models."""

    spec = MixedSpec
    unused_rules = ("dominance",)

    def job(self, spec: MixedSpec, schema: Schema) -> SchemaJob[Any]:
        """Return the question to tables with a schema."""
        from veilsum.questions.mixed import MixedJob

        return MixedJob.of(schema, **spec.asked())

    def run(self, spec: MixedSpec, data: Mapping[str, Frame], **how: Any) -> JobResult:
        """Return the result for some parties' tables."""
        from veilsum.questions.mixed import mixed

        return mixed(data=data, **spec.asked(), **how)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        """Yield the question in words."""
        job = cast("MixedJob", asked.job)
        (question,) = asked.consortium.questions
        assert isinstance(question, MixedSpec)
        yield (
            "question: one mixed model over all members' rows: coefficients on "
            "average, "
            "and how much some of them differ between members"
        )
        yield f"formula, as written: {quoted(question.formula)}"
        yield f"response: {quoted(job.base.model.response)}"
        names = [
            "the intercept" if name == "1" else quoted(name) for name in job.random
        ]
        yield f"coefficients that differ between members: {', '.join(names)}"
        yield f"method: {job.method}"
        yield design_line(job.base, room)


KIND = MixedKind()
