"""Cox regressions of several parties, each with rows of its own.

    result = cox("Surv(days, died) ~ age + C(sex)", {"north": frame, "south": other})
    print(result.summary())

Every party has a baseline hazard of its own, as with `strata(site)`: then the score and
the information are sums over parties, and the fit is exact. With agreed `times` there
is one baseline for all, constant between two of them; see `binned`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.formula_job import inferred_fit_schema
from veilsum.fits.timed import timed_fit_response_formula
from veilsum.models.cox import (
    Ties,
    baseline_not_stratified,
)
from veilsum.questions.cox.binned import BinnedCoxJob, BinnedCoxResult
from veilsum.questions.cox.stratified import CoxJob, CoxResult
from veilsum.sums.table_job import is_simulated_sum, run_on_frames
from veilsum.sums.terms import SumOptions
from veilsum.tables.formula.reader import read_surv_formula
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

Strata = Literal["party", "none"]
AnyCoxJob = CoxJob | BinnedCoxJob
AnyCoxResult = CoxResult | BinnedCoxResult


def cox_job(
    schema: Schema,
    *,
    formula: str,
    ties: Ties | None = None,
    times: Sequence[float] | None = None,
    strata: Strata | None = None,
    check: bool = False,
) -> AnyCoxJob:
    """Return a Cox regression as a file asks for it; refuse a formula beside it.

    Raises:
        InvalidInputError: it is not had exactly, or keys contradict each other.
    """
    if strata not in (None, "party", "none"):
        raise InvalidInputError(
            f'strata must be "party" or "none", found {strata!r}: to compare rows '
            "within groups of a column, ask for each group by itself",
            code="unknown-strata",
        )
    if times is not None:
        if strata == "party":
            raise InvalidInputError(
                "with times there is one baseline for all parties, and strata = "
                '"party" asks for one each: leave one of them out',
                code="times-with-strata",
            )
        if ties is not None:
            raise InvalidInputError(
                "ties are no matter of a baseline over agreed times: leave ties out",
                code="ties-with-times",
            )
        return BinnedCoxJob.of(formula, schema, times=tuple(times), with_check=check)
    if check:
        raise InvalidInputError(
            "check compares coefficients between agreed times: give times = [...] too",
            code="check-without-times",
        )
    job = CoxJob.of(formula, schema, ties="efron" if ties is None else ties)
    if strata == "none":
        raise baseline_not_stratified(
            len(job.names),
            rows=3 * schema.minimum_rows,
            columns=len(job.schema.columns),
        )
    _ = job.search.scales.layout
    return job


def cox(
    formula: str,
    data: Mapping[str, Any],
    *,
    ties: Ties | None = None,
    times: Sequence[float] | None = None,
    strata: Strata | None = None,
    check: bool = False,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> AnyCoxResult:
    """Return a Cox regression of several parties' tables; only sums leave a party.

    Args:
        formula: such as "Surv(days, died) ~ age + C(sex)".
        data: each party's table: pandas, polars, or a mapping of columns.
        ties: efron, the default, or breslow.
        times: where one baseline for all parties may change; without them each party
            has a baseline of its own, as in R's strata(site).
        strata: "party", the default without times; "none" for one baseline, which
            needs times.
        check: with times, whether to test that hazards are proportional.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to fit without masks as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    read = read_surv_formula(formula)

    def job_of(agreed: Schema) -> AnyCoxJob:
        if is_simulated_sum(options) and strata == "none" and times is None:
            raise _too_many(CoxJob.of(formula, agreed), data)
        return cox_job(
            agreed, formula=formula, ties=ties, times=times, strata=strata, check=check
        )

    made: Callable[..., AnyCoxResult] = CoxResult if times is None else BinnedCoxResult
    return run_on_frames(
        job_of,
        data,
        made,
        inferred=lambda frames: inferred_fit_schema(
            timed_fit_response_formula(read),
            (read.time,),
            frames,
            minimum_rows,
            derived=options.get("derived"),
        ),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


def _too_many(job: CoxJob, data: Mapping[str, Any]) -> InvalidInputError:
    """Return why one baseline is not had exactly, with the numbers of these tables."""
    free = replace(job.schema, minimum_rows=1, maximum_rows=None)
    parts = [free.check(party, as_frame(table)) for party, table in data.items()]
    event = job.base.formula.response
    times = [one.numbers(job.time)[one.look(event) == 1] for one in parts]
    return baseline_not_stratified(
        len(job.names),
        rows=sum(one.n_rows for one in parts),
        columns=len(job.schema.columns),
        times=len(np.unique(np.concatenate(times))),
    )
