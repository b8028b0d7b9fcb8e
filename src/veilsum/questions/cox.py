"""Cox regressions of several parties, each with rows of its own.

    result = cox("Surv(days, died) ~ age + C(sex)", {"north": frame, "south": other})
    print(result.summary())

Every party has a baseline hazard of its own, as with `strata(site)`: then the score and
the information are sums over parties, and the fit is exact. With agreed `times` there
is one baseline for all, constant between two of them; see `cox_bins`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.fitting import LEFT_OUT
from veilsum.models.cox import (
    AtRisk,
    CoxFit,
    CoxSearch,
    CoxState,
    Ties,
    hazard_met,
    statistics,
    unstratified,
)
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Array, Vector, listed
from veilsum.numbers.layout import Layout
from veilsum.numbers.units import Integers
from veilsum.questions.cox_bins import BinnedCoxJob, BinnedCoxResult
from veilsum.questions.regression import inferred_schema
from veilsum.questions.timed import (
    HazardResult,
    TimedJob,
    TimedRows,
    hazard_tables,
    response_formula,
)
from veilsum.showing import Both, Showing, counted, number
from veilsum.sums.presence import Varying
from veilsum.sums.recipes import ManyRounds, Sums
from veilsum.sums.releases import BY_PARTY, Foreseen, Release, ReleaseLimit
from veilsum.sums.table_job import is_simulated, put
from veilsum.sums.terms import Options
from veilsum.tables.asked import Question
from veilsum.tables.formula.reader import read_surv
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import MORE_SUMS, AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema

Strata = Literal["party", "none"]


@dataclass(frozen=True)
class CoxRequest:
    """Where parties evaluate next.

    Attributes:
        first: whether rows and events are counted as well.
        point: the coefficients, of columns counted in their units.
    """

    first: bool
    point: Vector


@dataclass(frozen=True, eq=False)
class CoxRecipe(ManyRounds[CoxState]):
    """A Cox regression with a baseline for each party: one sum for each round.

    The last number of each sum counts rows that were left out, in the first of them.
    """

    wording: ClassVar[tuple[str, str, str]] = BY_PARTY

    search: CoxSearch
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """The first sum; later ones have 0 for rows, events and rows left out."""
        return self.search.scales.layout + LEFT_OUT

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the number of rows, which the first sum has."""
        if len(sums) > 1:
            return {}
        return {"rows": self.layout.unpack(sums[0])["rows"]}

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return len(self.search.names)

    @property
    def most(self) -> int:
        """How many rounds Newton's search takes at most."""
        return self.search.max_rounds

    def asked(self, state: CoxState, sums: Sums) -> CoxRequest:
        """Return what is asked at Newton's next point."""
        return CoxRequest(not sums, self.search.propose(state))

    def unfinished(self, state: CoxState) -> str:
        """Return what to say of a fit for which no room is left."""
        told = (
            f"the fit has not converged in {self.most_rounds} sums, and more than "
            f"that there is no room for: scale the columns, leave some out, or "
            f"{MORE_SUMS}"
        )
        if endless := self.search.endless_columns(state):
            told = (
                f"the coefficient of {listed(endless)} seems to grow without end, "
                "which takes many rounds to be sure of: leave the column out, or merge "
                f"categories. And {told}"
            )
        return told

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> CoxFit:
        """Return the fit of all parties' rows."""
        return self.search.fit(self.state(sums))

    def _shown(self, *, first: bool) -> dict[str, int]:
        return (self.layout if first else self.search.scales.terms).released

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and where it is evaluated."""
        point = self.search.propose(self.state(sums)).tolist()
        design = self.search.scales.design
        real = (float(one / of.unit) for one, of in zip(point, design, strict=True))
        return Release(self.what, self._shown(first=not sums), tuple(real))

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What the first round shows, at coefficients of 0, and every further one."""
        found = (
            Foreseen("first", self._shown(first=True)),
            Foreseen(
                "tries",
                self._shown(first=False),
                0,
                self.most_rounds - 1,
            ),
        )
        return tuple(one for one in found if one.most > 0)


@dataclass(frozen=True, eq=False, repr=False)
class CoxRows(TimedRows):
    """One party's rows in their one order as well."""

    at_risk: AtRisk


@dataclass(frozen=True)
class CoxJob(TimedJob):
    """A Cox regression, each party a stratum.

    Attributes:
        ties: how tied events are taken.
    """

    follows = "the coefficients, hazard ratios, their standard errors, and tests"
    stratified = True

    ties: Ties = "efron"

    @cached_property
    def search(self) -> CoxSearch:
        """What is fitted."""
        return CoxSearch(self.measures, self.names, self.ties)

    @property
    def n_columns(self) -> int:
        """How wide the design is."""
        return len(self.names)

    @property
    def words(self) -> str:
        """What is released belongs to this statistic, whatever the round."""
        left = self.text.partition("~")[0].strip()
        return (
            f"Cox regression ({self.ties}) of {left} on {', '.join(self.names)}, with "
            "a baseline for each party"
        )

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {
            "cox": self.words,
            "formula": self.text,
            "codings": self.base.formula.codings,
            "measures": self.measures.terms,
            "schema": self.schema.to_table(),
            "ties": self.ties,
        }

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return Question(
            schema=self.asked_about,
            formula=self.base.formula.text,
            columns=(self.time,),
        )

    def recipe(self, limit: ReleaseLimit | None = None) -> CoxRecipe:
        """Return what parties do to fit it."""
        return CoxRecipe(self.search, self.words, limit)

    def check_at_home(self, home: AtHome, own: TimedRows) -> None:
        """Refuse what columns show, of those rows too that count: at risk at events.

        Whoever asks chooses which column is the time: rows before the first event have
        no part in any sum, and others as much as the hazard that they have met.
        """
        super().check_at_home(home, own)
        met = hazard_met(own.time, own.event)
        there = met > 0.0
        if not there.any():  # nothing of this table is in any sum
            return
        home.at_risk(int(np.count_nonzero(there)))
        rows = Rows(own.rows.design[there], own.event[there], met[there])
        home.design(rows, self.base.formula.columns, intercept=self.ones)

    def look(self, own: TimedRows, at: Any) -> Array[Any]:
        """Return a column; rows that are at risk at no event have no part in a sum."""
        if isinstance(at, Varying):
            return self.base.vary(at, own, hazard_met(own.time, own.event) > 0.0)
        return super().look(own, at)

    def bring(self, table: CheckedTable) -> CoxRows:
        """Return a party's rows, sorted."""
        own = super().bring(table)
        measures = self.search.scales.measures
        at_risk = AtRisk.of(measures, own.time, self.without_ones(own), self.ties)
        return CoxRows(own.table, own.rows, own.time, at_risk)

    def answer(self, own: TimedRows, request: CoxRequest) -> Integers:
        """Return what one party gives."""
        assert isinstance(own, CoxRows)
        found = statistics(
            self.search.scales, own.at_risk, request.point, first=request.first
        )
        return np.append(found, own.table.n_dropped if request.first else 0)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CoxResult(HazardResult[CoxFit]):
    """A Cox regression of all parties' rows, each party a stratum.

    Attributes:
        job: what was fitted.
    """

    job: CoxJob

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.fit.n_rows

    @property
    def n_events(self) -> int:
        """Events that were seen."""
        return self.fit.n_events

    @property
    def llf(self) -> float:
        """The log partial likelihood."""
        return self.fit.log_likelihood

    def answered(self, level: float = 0.95) -> Showing:
        """Return the table that goes into a paper, as R's summary of a coxph has it."""
        fit, members = self.fit, len(self.released.members)
        sums = len(self.inner[1])
        tests = (
            ("Likelihood ratio test", fit.likelihood_ratio_test),
            ("Wald test", fit.wald_test),
            ("Score (logrank) test", fit.score_test),
        )
        about = [
            f"Log partial likelihood = {number(fit.log_likelihood, 7)}; with all "
            f"coefficients 0 {number(fit.null_log_likelihood, 7)}",
            f"AIC                    = {number(fit.aic, 7)}",
            *(
                f"{name:<23}= {number(value)} on {fit.degrees} df, "
                f"p = {number(fit.chance(value), 3)}"
                for name, value in tests
            ),
        ]
        return Showing(
            f"Cox regression ({fit.ties}), a baseline for each of {members} parties",
            [
                (self.job.text, self.size_sentence),
                *hazard_tables(fit, level),
                Both.letters("\n".join(about)),
                (
                    f"Released: {counted(sums, 'sum')} over all parties of "
                    f"{self.recipe.size} numbers.",
                    "Concordance and baselines take more sums, and are not known.",
                ),
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: those of every run, and the table."""
        fit = self.fit
        return {
            **super().to_dict(),
            "n_rows": fit.n_rows,
            "n_events": fit.n_events,
            "dropped": self.dropped,
            "ties": fit.ties,
            "log_likelihood": fit.log_likelihood,
            "null_log_likelihood": fit.null_log_likelihood,
            "aic": fit.aic,
            "tests": {
                name: {"statistic": one, "degrees": fit.degrees, "p": fit.chance(one)}
                for name, one in (
                    ("likelihood_ratio", fit.likelihood_ratio_test),
                    ("wald", fit.wald_test),
                    ("score", fit.score_test),
                )
            },
        }


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
            "within groups of a column, ask for each group by itself"
        )
    if times is not None:
        if strata == "party":
            raise InvalidInputError(
                "with times there is one baseline for all parties, and strata = "
                '"party" asks for one each: leave one of them out'
            )
        if ties is not None:
            raise InvalidInputError(
                "ties are no matter of a baseline over agreed times: leave ties out"
            )
        return BinnedCoxJob.of(formula, schema, times=tuple(times), with_check=check)
    if check:
        raise InvalidInputError(
            "check compares coefficients between agreed times: give times = [...] too"
        )
    job = CoxJob.of(formula, schema, ties="efron" if ties is None else ties)
    if strata == "none":
        raise unstratified(
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
    **options: Unpack[Options],
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
        options: how to sum; see `Options`.
    """
    read = read_surv(formula)

    def job_of(agreed: Schema) -> AnyCoxJob:
        if is_simulated(options) and strata == "none" and times is None:
            raise _too_many(CoxJob.of(formula, agreed), data)
        return cox_job(
            agreed, formula=formula, ties=ties, times=times, strata=strata, check=check
        )

    made: Callable[..., AnyCoxResult] = CoxResult if times is None else BinnedCoxResult
    return put(
        job_of,
        data,
        made,
        inferred=lambda frames: inferred_schema(
            response_formula(read), (read.time,), frames, minimum_rows
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
    return unstratified(
        len(job.names),
        rows=sum(one.n_rows for one in parts),
        columns=len(job.schema.columns),
        times=len(np.unique(np.concatenate(times))),
    )
