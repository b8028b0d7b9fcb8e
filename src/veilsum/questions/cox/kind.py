"""Cox regressions: the section [cox]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.questions.cox import cox, cox_job
from veilsum.questions.cox.binned import BinnedCoxJob
from veilsum.questions.cox.stratified import CoxJob
from veilsum.reading import Flag, Text
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.wording import PageRoom, quoted_for_release


class CoxSpec(QuestionSpec, frozen=True, kw_only=True):
    """A Cox regression, with a baseline for each party or over agreed times."""

    heading = "cox"

    formula: Text = ""
    ties: Annotated[str, Meta(extra={"choices": ("efron", "breslow")})] | None = None
    times: (
        Annotated[
            tuple[int | float, ...],
            Meta(description="a list of numbers, such as [100, 200]"),
        ]
        | None
    ) = None
    strata: Annotated[str, Meta(extra={"choices": ("party", "none")})] | None = None
    check: Flag | None = None


class CoxKind(TableKind[CoxSpec, CoxJob | BinnedCoxJob]):
    spec = CoxSpec
    make_job = staticmethod(cox_job)
    function = staticmethod(cox)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        question, job = self.parts(asked)
        yield "question: one Cox regression over all members' rows"
        yield f"formula, as written: {quoted_for_release(question.formula)}"
        yield (
            f"time: the column {quoted_for_release(job.time)}; event: the column "
            + quoted_for_release(job.base.formula.response)
        )
        if isinstance(job, CoxJob):
            yield (
                "baseline: one for each member; rows are compared within each member's "
                "table only, and no baseline becomes known"
            )
            yield f"ties: {job.ties}"
        else:
            bins = room.names("bins of time", job.periods.labels)
            yield f"baseline: one for all members, constant in each bin of time: {bins}"
            yield f"events after {job.periods.edges[-1]:g} are not seen"
            checked = "columns times the number of the bin, in a last round"
            yield f"hazards are checked: {checked if job.with_check else 'no'}"
        names = [quoted_for_release(name) for name in job.names]
        yield (
            f"design, that is the formula multiplied out: {len(names)} columns: "
            f"{room.names('columns of the design', names)}"
        )


KIND = CoxKind()
