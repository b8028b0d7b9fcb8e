"""Cox regressions with a baseline hazard for each party, as with `strata(site)`.

The score and the information are sums over parties, and the fit is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from veilsum.fits.fitting import LEFT_OUT, FitInRounds
from veilsum.fits.timed import TimedFitJob, TimedRows
from veilsum.models.cox import (
    AtRisk,
    CoxFit,
    CoxSearch,
    CoxState,
    Ties,
    cox_hazard_met,
    statistics,
)
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.layout import NumberLayout
from veilsum.numbers.units import Integers
from veilsum.questions.cox.hazards import HazardResult, hazard_tables
from veilsum.showing import Rendering, ShownBothWays, counted_words, shown_number
from veilsum.sums.presence import PresenceVaryingColumns
from veilsum.sums.recipes import Sums
from veilsum.sums.releases import BY_PARTY, SumRelease, SumReleaseLimit
from veilsum.tables.asked import TableQuestion
from veilsum.tables.rules import TableRulesAtHome
from veilsum.tables.schema import CheckedTable


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
class CoxRecipe(FitInRounds[CoxState]):
    """A Cox regression with a baseline for each party: one sum for each round.

    The last number of each sum counts rows that were left out, in the first of them.
    """

    wording: ClassVar[tuple[str, str, str]] = BY_PARTY
    remedies = (
        "scale the columns, leave some out",
        "leave the column out, or merge categories",
    )
    least_tries = 0

    search: CoxSearch
    what: str
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        """The first sum; later ones have 0 for rows, events and rows left out."""
        return self.search.scales.layout + LEFT_OUT

    @property
    def first_layout(self) -> NumberLayout:
        return self.layout

    @property
    def answer_size(self) -> int:
        return len(self.search.names)

    @property
    def round_layout(self) -> NumberLayout:
        return self.search.scales.terms

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        if len(sums) > 1:
            return {}
        return {"rows": self.layout.unpack(sums[0])["rows"]}

    def asked(self, state: CoxState, sums: Sums) -> CoxRequest:
        return CoxRequest(not sums, self.search.propose(state))

    def release(self, sums: Sums) -> SumRelease:
        point = self.search.propose(self.state(sums)).tolist()
        design = self.search.scales.design
        real = (float(one / of.unit) for one, of in zip(point, design, strict=True))
        shown = self.round_layout if sums else self.first_layout
        return SumRelease.from_layout(self.what, shown, tuple(real))


@dataclass(frozen=True, eq=False, repr=False)
class CoxRows(TimedRows):
    """One party's rows in their one order as well."""

    at_risk: AtRisk


@dataclass(frozen=True)
class CoxJob(TimedFitJob[CoxRows]):
    """A Cox regression, each party a stratum.

    Attributes:
        ties: how tied events are taken.
    """

    follows = "the coefficients, hazard ratios, their standard errors, and tests"
    stratified = True

    ties: Ties = "efron"

    @cached_property
    def search(self) -> CoxSearch:
        return CoxSearch(self.measures, self.names, self.ties)

    @property
    def n_columns(self) -> int:
        return len(self.names)

    @property
    def words(self) -> str:
        """Description of the statistic that the releases of all rounds belong to."""
        left = self.text.partition("~")[0].strip()
        return (
            f"Cox regression ({self.ties}) of {left} on {', '.join(self.names)}, with "
            "a baseline for each party"
        )

    @property
    def agreed(self) -> dict[str, Any]:
        return {
            "cox": {"ties": self.ties},
            "formula": self.text,
            "codings": self.base.formula.codings,
            "measures": self.measures.terms,
            "schema": self.schema.to_table(),
        }

    @property
    def question(self) -> TableQuestion:
        return TableQuestion(
            schema=self.asked_about,
            formula=self.base.formula.text,
            columns=(self.time,),
        )

    def recipe(self, limit: SumReleaseLimit | None = None) -> CoxRecipe:
        return CoxRecipe(self.search, self.words, limit)

    def check_at_home(self, home: TableRulesAtHome, own: CoxRows) -> None:
        """Refuse what columns show, of those rows too that count: at risk at events.

        Whoever asks chooses which column is the time: rows before the first event have
        no part in any sum, and others as much as the hazard that they have met.
        """
        super().check_at_home(home, own)
        met = cox_hazard_met(own.time, own.event)
        there = met > 0.0
        if not there.any():  # nothing of this table is in any sum
            return
        home.at_risk(int(np.count_nonzero(there)))
        rows = Rows(own.rows.design[there], own.event[there], met[there])
        home.design(rows, self.base.formula.columns, intercept=self.ones)

    def look(self, own: CoxRows, at: Any) -> Array[Any]:
        """Return a column; rows that are at risk at no event have no part in a sum."""
        if isinstance(at, PresenceVaryingColumns):
            return self.base.vary(at, own, cox_hazard_met(own.time, own.event) > 0.0)
        return super().look(own, at)

    def bring(self, table: CheckedTable) -> CoxRows:
        own = self.timed_rows(table)
        measures = self.search.scales.measures
        at_risk = AtRisk.of(measures, own.time, self.without_ones(own), self.ties)
        return CoxRows(own.table, own.rows, own.time, at_risk)

    def answer(self, own: CoxRows, request: CoxRequest) -> Integers:
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

    def answered(self, level: float = 0.95) -> Rendering:
        """Return the table that goes into a paper, as R's summary of a coxph has it."""
        fit, members = self.fit, len(self.released.members)
        sums = len(self.inner[1])
        tests = (
            ("Likelihood ratio test", fit.likelihood_ratio_test),
            ("Wald test", fit.wald_test),
            ("Score (logrank) test", fit.score_test),
        )
        about = [
            f"Log partial likelihood = {shown_number(fit.log_likelihood, 7)}; with all "
            f"coefficients 0 {shown_number(fit.null_log_likelihood, 7)}",
            f"AIC                    = {shown_number(fit.aic, 7)}",
            *(
                f"{name:<23}= {shown_number(value)} on {fit.degrees} df, "
                f"p = {shown_number(fit.chance(value), 3)}"
                for name, value in tests
            ),
        ]
        return Rendering(
            f"Cox regression ({fit.ties}), a baseline for each of {members} parties",
            [
                (self.job.text, self.size_sentence),
                *hazard_tables(fit, level),
                ShownBothWays.letters("\n".join(about)),
                (
                    f"Released: {counted_words(sums, 'sum')} over all parties of "
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
