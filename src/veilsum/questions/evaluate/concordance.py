"""Whether rows with a higher predicted risk end sooner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.timed import TimedFitJob, TimedRows
from veilsum.models.evaluation import (
    BinBoundedNumber,
    Concordance,
    ModelPredictor,
    Places,
    bins_of_values,
    predictor_bin_edges,
    predictor_bin_labels,
)
from veilsum.models.families import Binomial
from veilsum.models.periods import BaselinePeriods
from veilsum.models.rows import PerRow, Rows
from veilsum.numbers.arrays import Array
from veilsum.numbers.units import Integers
from veilsum.questions.evaluate.common import (
    BINS,
    EvaluationResult,
    RowBins,
    agreed_evaluate_terms,
    evaluated_responses,
    evaluation_bounds_in_words,
    plain_evaluation_bounds,
)
from veilsum.showing import Rendering, ShownTable
from veilsum.sums.presence import PresenceGroup
from veilsum.sums.recipes import EndsRecipe, Sums
from veilsum.sums.releases import SumReleaseLimit
from veilsum.tables.asked import TableQuestion
from veilsum.tables.rules import TableRulesAtHome
from veilsum.tables.schema import CheckedTable


@dataclass(frozen=True, eq=False, repr=False)
class RiskRows(TimedRows):
    """One party's timed rows, when each ends, and the bin of its risk."""

    ends: Places
    places: Places


class ConcordanceRecipe(EndsRecipe):
    """One sum: events and other ends by interval of time and bin of risk."""

    keys = ("risk_events", "risk_censored", "risk_later")
    later_axis = 1
    asked = BINS

    def found(self, sums: Sums) -> Concordance:
        events, censored, later = self.ends(sums)
        events = np.vstack([events, np.zeros_like(later)])
        return Concordance(events, np.vstack([censored, later]))


@dataclass(frozen=True)
class EvaluateConcordanceJob(TimedFitJob[RiskRows]):
    """Whether rows with a higher predicted risk end sooner.

    Attributes:
        given: the coefficient of each column.
        edges: of bins of the linear predictor.
        times: that intervals end at; after the last nobody is followed.
    """

    follows = "Harrell's concordance with bounds for what bins leave open"

    given: tuple[tuple[str, float], ...] = ()
    edges: tuple[float, ...] = ()
    times: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        predictor_bin_edges(self.edges)
        _ = self.periods, self.known

    @cached_property
    def known(self) -> ModelPredictor:
        """The coefficients; a baseline takes the intercept's place."""
        values, columns = dict(self.given), self.base.formula.columns
        if columns[self.ones] in values:
            raise InvalidInputError(
                f"a baseline takes the place of the {columns[self.ones]}: leave its "
                "coefficient out",
                code="coefficient-of-intercept",
            )
        return ModelPredictor.of(
            Binomial(),  # no link is taken: its predictors may be as far as any
            self.base.model.measures,
            names=columns,
            intercept=self.ones,
            coefficients={columns[self.ones]: 0.0, **values},
        )

    @cached_property
    def periods(self) -> BaselinePeriods:
        return BaselinePeriods.of(self.times, self.time_measure)

    def pooled(self, own: Mapping[str, RiskRows]) -> dict[str, float]:
        """Return Harrell's concordance of all rows, without bins."""
        risk = np.concatenate([self.known.predictors(one.rows) for one in own.values()])
        time = np.concatenate([one.time for one in own.values()])
        last = self.periods.edges[-1]
        return {
            "concordance": _harrell_concordance(
                time, evaluated_responses(own), risk, last
            )
        }

    @property
    def words(self) -> str:
        numbers = ", ".join(f"{name} {one!r}" for name, one in self.given)
        return (
            f"how well {self.text} is predicted by {numbers}, in bins of risk at "
            f"{list(self.edges)} and of time at {list(self.times)}"
        )

    @property
    def agreed(self) -> dict[str, Any]:
        return agreed_evaluate_terms(
            self, self.text, edges=self.edges, times=self.times
        )

    @property
    def question(self) -> TableQuestion:
        return TableQuestion(
            schema=self.asked_about,
            predicted=self.text,
            coefficients=dict(self.given),
            edges=self.edges,
            times=self.times,
        )

    @cached_property
    def cells(self) -> RowBins:
        """Intervals in which rows end, crossed with bins of their risk."""
        last = self.periods.edges[-1]
        times = (*self.periods.labels, f"beyond {last:g}")
        risks = predictor_bin_labels(np.array(self.edges))
        crossed = tuple(" x ".join(one) for one in product(times, risks))
        return RowBins("cells of time x risk", crossed)

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        return (*super().groups, self.cells)

    def recipe(self, limit: SumReleaseLimit | None = None) -> ConcordanceRecipe:
        n_bins = len(self.edges) + 1
        return ConcordanceRecipe(self.words, self.periods.n_bins, n_bins, limit)

    def bring(self, table: CheckedTable) -> RiskRows:
        """Return a party's rows, when each ends, and the bin of its risk."""
        own = self.timed_rows(table)
        places = bins_of_values(np.array(self.edges), self.known.predictors(own.rows))
        ends = self.periods.places(own.time)
        return RiskRows(own.table, own.rows, own.time, ends, places)

    def look(self, own: RiskRows, at: Any) -> Array[Any]:
        """Return a party's column of its table or rows, or the cells of its rows."""
        if not isinstance(at, RowBins):
            return super().look(own, at)
        return own.ends * (len(self.edges) + 1) + own.places

    def check_at_home(self, home: TableRulesAtHome, own: RiskRows) -> None:
        """Refuse a table of which a cell would point at few rows.

        Each is looked at with events and other ends together, as in survival.
        """
        super().check_at_home(home, own)
        counts = self.cells.count(lambda at: self.look(own, at))
        home.bins(self.cells.name, counts, self.cells.places)
        later = [own.ends >= k for k in range(1, self.periods.n_bins + 1)]
        higher = [own.places >= k for k in range(1, len(self.edges) + 1)]
        ones = np.ones(len(own.ends))
        names = ["1", *(f"a time beyond {one:g}" for one in self.periods.edges[1:])]
        names += [f"a risk from {one:g}" for one in self.edges]
        rows = Rows(np.column_stack([ones, *later, *higher]), own.event)
        home.design(rows, names, intercept=0)

    def answer(self, own: RiskRows, request: str) -> Integers:
        times, n_bins = self.periods.n_bins, len(self.edges) + 1
        seen = (own.event > 0.5) & (own.ends < times)
        cells = own.ends * n_bins + own.places
        events, others = (
            np.bincount(cells[some], minlength=(times + 1) * n_bins).reshape(-1, n_bins)
            for some in (seen, ~seen)
        )
        ends = events[:-1], others[:-1], others[-1]
        return self.recipe().pack(*ends, left_out=own.table.n_dropped)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConcordanceEvaluation(EvaluationResult):
    """Whether rows with a higher predicted risk end sooner.

    Attributes:
        job: what was asked.
    """

    job: EvaluateConcordanceJob

    @cached_property
    def found(self) -> Concordance:
        """Counts of all parties' rows by time and risk, and what follows."""
        recipe, sums = self.inner
        return recipe.found(sums)

    @property
    def formula(self) -> str:
        """The formula of the model."""
        return self.job.text

    @property
    def concordance(self) -> BinBoundedNumber:
        """Harrell's, with bounds and standard error."""
        return self.found.index

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.found.n_rows

    @property
    def values(self) -> dict[str, float]:
        """Harrell's concordance."""
        return {"concordance": self.concordance.value}

    def summary(self, level: float = 0.95) -> str:
        """Return all of it as plain text."""
        return self.answered(level).text()

    def answered(self, level: float = 0.95) -> Rendering:
        """Return all of it, to be seen."""
        last = self.job.periods.edges[-1]
        risks = predictor_bin_labels(np.array(self.job.edges))
        rows = self.found.events + self.found.censored
        lines: list[list[Any]] = [
            [label, int(rows[:, k].sum()), int(self.found.events[:, k].sum())]
            for k, label in enumerate(risks)
        ]
        heads = ("linear predictor", "rows", f"events by {last:g}")
        note = (
            "Of two rows of which one surely ended first, how often the riskier one "
            f"did, up to {last:g}. The value takes rows as known by their bins: events "
            "of an interval come before its other ends, and ties of risk count half."
        )
        return Rendering(
            self.formula,
            [
                evaluation_bounds_in_words("concordance", self.concordance, level),
                ShownTable(heads, lines, align="<>>"),
                note,
                self.rows_sentence,
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "edges": list(self.job.edges),
            "times": list(self.job.times),
            "concordance": plain_evaluation_bounds(self.concordance),
            "events": self.found.events[:-1].tolist(),
            "others": self.found.censored.tolist(),
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the concordance with its interval."""
        found = self.concordance
        values = {"concordance": found.value}
        low, high = found.interval(0.95)
        return figures.values_figure(
            values,
            "0.5 by a coin, 1 at best",
            figures.chosen_title(
                title, f"Concordance {found.value:.3f}, 95 % {low:.3f} to {high:.3f}"
            ),
            f"between {found.least:.3f} and {found.largest:.3f} however rows lie "
            f"within their bins. {figures.job_caption(self, self.count)}",
            ends={"concordance": (low, high)},
        )


def _harrell_concordance(
    time: PerRow, event: PerRow, risk: PerRow, until: float
) -> float:
    """Return Harrell's concordance of rows up to a time, pair by pair."""
    seen = (event > 0.5) & (time <= until)
    good = same = pairs = 0
    for when, of in zip(time[seen].tolist(), risk[seen].tolist(), strict=True):
        # Whoever is censored at the very time of an event ends after it.
        later = (time > when) | ((time == when) & ~seen)
        pairs += int(later.sum())
        good += int((risk[later] < of).sum())
        same += int((risk[later] == of).sum())
    return (good + same / 2.0) / pairs if pairs else float("nan")
