"""Is the model any good? Known coefficients on rows of several parties, from sums.

    result = evaluate("ill ~ age + bmi", tables, family="logistic",
                      coefficients=fit.coefficients)
    print(result.summary())

Coefficients are public, and so each row has a prediction at home. What is summed are
counts by agreed bins of it, and a few sums of errors; see `models/evaluation`. Whoever
writes the file chooses coefficients and edges: the prediction is a column that may be
aimed, and every party looks at it as at any other, beside the columns it is made of.

With folds instead of coefficients it is a cross-validation. Of least squares: what a
fit sums, for each fold by itself. Of other families: the rounds of a fit without each
fold, all of them side by side, and then how far it is from the rows of that fold; see
`models/refits`. Sums without a fold and sums of it tell each other, so that both are
tables of their own: each party's part of either keeps to the rules of a fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import isfinite
from typing import Any, ClassVar, Unpack

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.fitting import LEFT_OUT, NewtonRecipe, suspicion
from veilsum.locale import WITHOUT_FOLD
from veilsum.models import glm, least_squares
from veilsum.models.evaluation import (
    CHANCE_BITS,
    MOST_FOLDS,
    Bounded,
    Concordance,
    Discrimination,
    Errors,
    ErrorSums,
    Fitting,
    Places,
    Predictor,
    bin_labels,
    edges_of,
    errors_of_fold,
    folds_of,
    joined_errors,
    link_name,
    link_of,
    places_of,
    sums_by_bin,
)
from veilsum.models.families import Binomial, Gaussian, QuasiBinomial
from veilsum.models.glm import GlmFit, Request
from veilsum.models.least_squares import Counting, LeastSquaresFit
from veilsum.models.periods import Periods
from veilsum.models.plausible import check_total
from veilsum.models.refits import (
    Losses,
    MeanLoss,
    Refits,
    Refitting,
    Stage,
    explained,
)
from veilsum.models.rows import ONES, PerRow, RowMeasures, Rows
from veilsum.numbers.arrays import Array, Vector, listed
from veilsum.numbers.layout import Layout, Statistic, array, number as scalar
from veilsum.numbers.units import Counts, Integers, sum_bits
from veilsum.questions.regression import Brought, FormulaJob, Model, inferred_schema
from veilsum.questions.timed import TimedJob, TimedRows, response_formula
from veilsum.showing import Block, Showing, Table, number
from veilsum.sums.presence import Group, Look, are_few
from veilsum.sums.recipes import (
    ManyRounds,
    OneRound,
    Sums,
    SumsOnly,
    by_value,
)
from veilsum.sums.releases import Foreseen, Release, ReleaseLimit
from veilsum.sums.table_job import SchemaJob, TableResult, put
from veilsum.sums.terms import Options
from veilsum.tables.asked import Question
from veilsum.tables.formula.reader import read_surv
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import MORE_SUMS, AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema

# Bins of a chance where nobody has said others.
TENTHS = tuple(k / 10 for k in range(1, 10))
# What is asked for: the rest follows from the agreement.
BINS = "counts by bin"
FOLDS = "statistics of each fold"
ERRORS = "sums of errors"
# Unit of predicted chances and their squared errors.
CHANCE = Fraction(1, 2**CHANCE_BITS)


@dataclass(frozen=True, eq=False, repr=False)
class Predicted(Brought):
    """One party's table, its rows, and what is predicted of each.

    Attributes:
        predictor: linear, of each row.
        mean: what it stands for.
        places: the bin that each row is in; 0 where there are none.
    """

    predictor: PerRow
    mean: PerRow
    places: Places


@dataclass(frozen=True)
class PredictedBins:
    """The bins that predictions are in."""

    labels: tuple[str, ...]
    name: ClassVar[str] = "bins of the prediction"

    @property
    def places(self) -> tuple[str, ...]:
        """Each by its ends."""
        return self.labels

    def count(self, look: Look) -> Array[Any]:
        """Count rows in each."""
        return np.bincount(look(self), minlength=len(self.labels))


@dataclass(frozen=True)
class PredictingJob(SchemaJob[Predicted]):
    """Known coefficients on tables with an agreed schema.

    Attributes:
        base: a regression with this formula: its rows and its rules are used.
        known: the coefficients.
    """

    base: FormulaJob
    known: Predictor

    def pooled(self, own: Mapping[str, Any]) -> dict[str, float]:
        """Return what one owner of all rows finds, without bins."""
        return _pooled(self, list(own.values()))

    @property
    def schema(self) -> Schema:
        """What tables were agreed to look like, as far as it matters here."""
        return self.base.schema

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.base.numbers_in_a_row

    @property
    def groups(self) -> tuple[Group, ...]:
        """Levels, cells and values that few parties might hold."""
        return self.base.groups

    @property
    def words(self) -> str:
        """What is asked, for the ledger and for what parties compare."""
        names = zip(self.base.formula.columns, self.known.coefficients, strict=True)
        numbers = ", ".join(f"{name} {one!r}" for name, one in names)
        return f"how well {self.base.formula.text} is predicted by {numbers}"

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {
            "evaluate": self.words,
            "model": self.base.model.terms,
            "formula": self.base.formula.text,
            "codings": self.base.formula.codings,
            "schema": self.schema.to_table(),
        }

    def _question(self, **more: Any) -> Question:
        names = self.base.formula.columns
        return Question(
            schema=self.asked_about,
            predicted=self.base.formula.text,
            family=link_name(self.known.family),
            coefficients=dict(zip(names, self.known.coefficients, strict=True)),
            **more,
        )

    @property
    def is_coarse(self) -> bool:
        """Whether few values of each column are all there is to a prediction.

        Who has which of these is asked before all else: that all rows of a party have
        one prediction is then no matter of this party alone.
        """
        names = set(self.base.formula.variables) - {self.base.formula.response}
        columns = [self.schema.column(name) for name in names if name in self.schema]
        few = (one.is_category or are_few(one.measure) for one in columns)
        return all(few) or self.known.ends[0] == self.known.ends[1]

    def look(self, own: Predicted, at: Any) -> Array[Any]:
        """Return a party's column of its table or design, or the bins of its rows."""
        return own.places if isinstance(at, PredictedBins) else self.base.look(own, at)

    def n_rows(self, own: Predicted) -> int:
        """Return how many rows a party has to give."""
        return own.rows.n_rows

    def check(self, party: str, own: Predicted) -> None:
        """Refuse rows that go beyond ranges."""
        self.base.check(party, own)

    def bring(self, table: CheckedTable) -> Predicted:
        """Return a party's table, its rows, and what is predicted of each."""
        rows = self.base.rows(table)
        predictor = self.known.predictors(rows)
        mean = self.known.means(predictor)
        return Predicted(table, rows, predictor, mean, self.places(mean))

    def places(self, mean: PerRow) -> Places:
        """Return the bin of each row: there is one."""
        return np.zeros(len(mean), dtype=np.int64)


# Yes or no


@dataclass(frozen=True, eq=False)
class BinsRecipe(SumsOnly):
    """One sum of counts by bin; then, if asked for, a fit of linear predictors.

    Attributes:
        words: what is asked, for the ledger.
        n_bins: how many bins there are.
        refit: the regression of responses on linear predictors.
        limit: how many numbers may be released.
    """

    words: str
    n_bins: int
    refit: NewtonRecipe | None
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Rows and predictions by bin, squared errors, and rows left out."""
        n, bits = self.n_bins, sum_bits([CHANCE_BITS + 1])
        return Layout(
            (
                array("bin_events", n),
                array("bin_non_events", n),
                array("bin_predictions", n, CHANCE, bits),
                scalar("squared_errors", CHANCE, bits),
                scalar("left_out"),
            )
        )

    @cached_property
    def counts(self) -> Counts:
        """Units of the first sum; beyond its numbers, those of the fit."""
        found = self.layout.counts
        if self.refit is None:
            return found
        further = self.refit.counts
        more = further.units[self.layout.size :]
        return Counts((*found.units, *more), max(found.bits, further.bits))

    def parts(self, sums: Sums) -> dict[str, Any]:
        """Return the statistics of the first sum by key."""
        return self.layout.unpack(sums[0][: self.layout.size])

    @property
    def answer_size(self) -> int:
        """Those of the first sum, and two coefficients."""
        return self.layout.size + 2 * (self.refit is not None)

    @property
    def most_numbers(self) -> int:
        """Those of all sums that there is room for."""
        further = 0 if self.refit is None else self.refit.most_numbers
        return self.layout.size + further

    @property
    def most_rounds(self) -> int:
        """One more than the fit has."""
        return 1 + (0 if self.refit is None else self.refit.most_rounds)

    def _further(self, sums: Sums) -> Sums:
        assert self.refit is not None
        return [one[: self.refit.size] for one in sums[1:]]

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return rows of each bin, with the event and without, and all of them."""
        parts = self.parts(sums)
        cells = [*map(int, parts["bin_events"]), *map(int, parts["bin_non_events"])]
        found = {f"rows in cell {k}": n for k, n in enumerate(cells, start=1)}
        return found | {"rows": sum(cells)}

    def check_sum(self, sums: Sums) -> None:
        """Refuse counts, sums of predictions, or a sum of the fit, if impossible."""
        if len(sums) > 1:
            assert self.refit is not None
            self.refit.check_sum(self._further(sums))
            return
        super().check_sum(sums)
        parts, chance = self.parts(sums), 1 << CHANCE_BITS
        rows = (parts["bin_events"] + parts["bin_non_events"]).astype(object) * chance
        pairs = zip(parts["bin_predictions"], rows, strict=True)
        for k, (one, most) in enumerate(pairs, start=1):
            check_total(f"predictions in bin {k}", int(one), 0, most)
        check_total("squared errors", parts["squared_errors"], 0, rows.sum())

    def request(self, sums: Sums) -> str | Request | None:
        """Ask for counts, and then what the fit asks."""
        if not sums:
            if self.limit is not None:
                self.limit.check(self.layout.size)
            if self.refit is not None:
                self.refit.request(())
            return BINS
        return None if self.refit is None else self.refit.request(self._further(sums))

    def answer(self, sums: Sums) -> Vector:
        """Return the first total in float64, and the two coefficients."""
        found = self.layout.counts.values(sums[0][: self.layout.size])
        if self.refit is None:
            return found
        return np.append(found, self.refit.answer(self._further(sums)))

    def found(self, sums: Sums, edges: Vector) -> Discrimination:
        """Return what the first total says."""
        parts = self.parts(sums)
        return Discrimination(
            edges,
            parts["bin_events"].astype(np.int64),
            parts["bin_non_events"].astype(np.int64),
            (parts["bin_predictions"] * CHANCE).astype(np.float64),
            float(parts["squared_errors"] * CHANCE),
        )

    def fit(self, sums: Sums) -> GlmFit | None:
        """Return the regression on linear predictors, if there was one."""
        return None if self.refit is None else self.refit.fit(self._further(sums))

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows."""
        if not sums:
            return Release(self.words, self.layout.released)
        assert self.refit is not None
        return self.refit.release(self._further(sums))

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """Counts by bin first, then what the fit shows."""
        shown = self.layout.released
        if self.refit is None:
            return (Foreseen("only", shown),)
        start, *others = self.refit.foreseen
        start = replace(start, when="predictors")
        return (Foreseen("first", shown), start, *others)


@dataclass(frozen=True)
class BinsJob(PredictingJob):
    """Chances of an event, by agreed bins.

    Attributes:
        edges: of the bins.
        calibrated: whether responses are fitted to linear predictors as well.
    """

    follows = (
        "the curve of true against false positives and the area below it, sensitivity "
        "and specificity at each edge, the calibration curve, Brier's score, and tests"
    )

    edges: tuple[float, ...] = TENTHS
    calibrated: bool = True

    def __post_init__(self) -> None:
        edges_of(self.edges, 0.0, 1.0)
        if self.base.formula.response_is_shaped:
            raise InvalidInputError(
                "the response must be a column, and none of those that it is predicted "
                f"from, found {self.base.formula.text}"
            )
        if self.calibrated and self.known.ends[0] == self.known.ends[1]:
            raise InvalidInputError(
                "all rows have one prediction, so that nothing can be fitted to it: "
                "give calibration = false, or other coefficients"
            )

    @property
    def thresholds(self) -> Vector:
        """The edges."""
        return np.array(self.edges)

    @cached_property
    def refit(self) -> Model | None:
        """Responses on linear predictors: 0 and 1 where a model is calibrated."""
        if not self.calibrated:
            return None
        family, own = self.known.family, self.base.model.measures
        return Model(
            response=self.base.formula.response,
            names=("Intercept", "linear predictor"),
            intercept=0,
            # The coefficients are alike, and only errors would differ.
            family=Binomial() if isinstance(family, QuasiBinomial) else family,
            measures=RowMeasures.of(
                (ONES, self.known.predictor_measure),
                own.response,
                intercept=0,
                row_bits=own.row_bits,
            ),
            variables=2,
        )

    @property
    def words(self) -> str:
        """What is asked, with the edges."""
        more = ", and refitted" if self.calibrated else ""
        return f"{super().words}, in bins at {list(self.edges)}{more}"

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return self._question(edges=self.edges)

    @property
    def groups(self) -> tuple[Group, ...]:
        """What the formula's columns have, and the bins of the prediction."""
        return (*super().groups, PredictedBins(bin_labels(self.thresholds)))

    def places(self, mean: PerRow) -> Places:
        """Return the bin of each row."""
        return places_of(self.thresholds, mean)

    def recipe(self, limit: ReleaseLimit | None = None) -> BinsRecipe:
        """Return what parties do: one sum, and those of a fit."""
        n_bins, refit = len(self.edges) + 1, None
        if self.refit is not None:
            plain = BinsRecipe(self.words, n_bins, None).size
            room = (
                None if limit is None else replace(limit, before=limit.before + plain)
            )
            refit = NewtonRecipe(self.refit.newton, self.words, room)
        return BinsRecipe(self.words, n_bins, refit, limit)

    def check_at_home(self, home: AtHome, own: Predicted) -> None:
        """Refuse a table of which a bin, or the prediction, would point at few rows.

        Bins are looked at with and without the event together: whoever asks chooses
        what is predicted, but not what happened to a row. The sum of predictions in a
        bin is one of a number in a group, and is looked at as such.
        """
        self.base.check_at_home(home, own)
        labels = bin_labels(self.thresholds)
        home.bins(
            "the prediction", np.bincount(own.places, minlength=len(labels)), labels
        )
        apart = self.edges[-1] - self.edges[0]
        home.column(
            "the prediction",
            own.mean,
            two_valued=lambda: self.is_coarse,
            agreed=lambda: 0.0 if self.is_coarse else apart,
        )
        ones = np.ones(len(own.mean))
        beyond = [own.places >= k for k in range(1, len(labels))]
        design = np.column_stack([ones, *beyond, own.mean])
        names = ["1", *(f"a prediction of {one}" for one in labels[1:])]
        names.append("the prediction")
        home.design(Rows(design, own.rows.response), names, intercept=0)
        pair = np.column_stack([ones, own.mean])
        for k in np.unique(own.places):
            here = own.places == k
            rows = Rows(pair[here], own.rows.response[here])
            what = f"the prediction where it is {labels[k]}"
            home.design(rows, ["1", what], intercept=0)
        if self.refit is not None:
            line = np.column_stack([ones, own.predictor])
            rows = Rows(line, own.rows.response)
            home.design(rows, self.refit.names, intercept=0)

    def answer(self, own: Predicted, request: str | Request) -> Integers:
        """Return what one party gives."""
        recipe = self.recipe()
        if isinstance(request, Request):
            assert self.refit is not None
            line = np.column_stack([np.ones(len(own.mean)), own.predictor])
            rows = Rows(line, own.rows.response)
            found = glm.statistics(self.refit.newton.scales, rows, request)
        else:
            n, happened = recipe.n_bins, self.known.responses(own.rows) > 0.5
            away = np.where(happened, 1.0, 0.0) - own.mean
            none = np.zeros_like(own.places)
            predictions = sums_by_bin(own.mean, CHANCE_BITS, own.places, n)
            found = recipe.layout.pack(
                bin_events=np.bincount(own.places[happened], minlength=n),
                bin_non_events=np.bincount(own.places[~happened], minlength=n),
                bin_predictions=np.array(predictions, dtype=object),
                squared_errors=sums_by_bin(away * away, CHANCE_BITS, none, 1)[0],
                left_out=own.table.n_dropped,
            )
        return np.append(found, np.zeros(recipe.size - len(found), dtype=object))


# Numbers


@dataclass(frozen=True, eq=False)
class ErrorsRecipe(OneRound):
    """One sum of responses, predictions and errors.

    Attributes:
        what: is asked, for the ledger.
        sums_of: in what units.
        limit: how many numbers may be released.
    """

    what: str
    sums_of: ErrorSums
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Responses, predictions and errors, rows, and rows left out."""
        return self.sums_of.layout + Layout((scalar("left_out"),))

    @property
    def asked(self) -> str:
        """What parties compare."""
        return ERRORS

    def errors(self, sums: Sums) -> Errors:
        """Return what the total says."""
        return self.sums_of.errors(self.layout.unpack(sums[0]))

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the number of rows."""
        return {"rows": self.layout.unpack(sums[0])["rows"]}

    def check_sum(self, sums: Sums) -> None:
        """Refuse sums, and sums of squares, that are impossible."""
        super().check_sum(sums)
        self.sums_of.check(self.layout.unpack(sums[0]))


@dataclass(frozen=True)
class ErrorsJob(PredictingJob):
    """Numbers, and how far predictions are from them."""

    follows = (
        "the part of the response's squares that is predicted, the mean squared and "
        "absolute error, and the line of responses on predictions"
    )

    @cached_property
    def sums_of(self) -> ErrorSums:
        """In what units errors are summed."""
        return ErrorSums(self.known)

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return self._question()

    def recipe(self, limit: ReleaseLimit | None = None) -> ErrorsRecipe:
        """Return what parties do: one sum."""
        return ErrorsRecipe(self.words, self.sums_of, limit)

    def check_at_home(self, home: AtHome, own: Predicted) -> None:
        """Refuse a table of which predictions, or errors, would point at few rows.

        Squared errors follow from what a fit of the formula sums; absolute ones do not,
        and are one more column that whoever asks has made, of responses too.
        """
        self.base.check_at_home(home, own)
        home.column("the prediction", own.mean, two_valued=lambda: self.is_coarse)
        response = np.asarray(own.rows.response, dtype=np.float64)
        away = np.abs(response - own.mean)
        design = np.column_stack([np.ones(len(away)), own.mean, away])
        names = ["1", "the prediction", "the absolute error"]
        home.design(Rows(design, response), names, intercept=0, shaped=True)

    def answer(self, own: Predicted, request: str) -> Integers:
        """Return what one party gives."""
        del request
        found = self.sums_of.vector(self.known.responses(own.rows), own.mean)
        return np.append(found, own.table.n_dropped)


# How long rows go on


@dataclass(frozen=True, eq=False, repr=False)
class RiskRows(TimedRows):
    """One party's timed rows, when each ends, and the bin of its risk."""

    ends: Places
    places: Places


@dataclass(frozen=True)
class RiskCells:
    """Intervals in which rows end, crossed with bins of their risk."""

    labels: tuple[str, ...]
    name: ClassVar[str] = "cells of time x risk"

    @property
    def places(self) -> tuple[str, ...]:
        """Each by its ends."""
        return self.labels

    def count(self, look: Look) -> Array[Any]:
        """Count rows in each."""
        return np.bincount(look(self), minlength=len(self.labels))


@dataclass(frozen=True, eq=False)
class ConcordanceRecipe(OneRound):
    """One sum: events and other ends by interval of time and bin of risk.

    Attributes:
        what: is asked, for the ledger.
        n_times: how many intervals there are, but for what goes on.
        n_bins: how many bins of risk.
        limit: how many numbers may be released.
    """

    what: str
    n_times: int
    n_bins: int
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Events and other ends by interval and bin, later ends, rows left out."""
        cells = self.n_times, self.n_bins
        return Layout(
            (
                array("risk_events", cells),
                array("risk_censored", cells),
                array("risk_later", self.n_bins),
                scalar("left_out"),
            )
        )

    @property
    def asked(self) -> str:
        """What parties compare."""
        return BINS

    def found(self, sums: Sums) -> Concordance:
        """Return what the total says."""
        parts = self.layout.unpack(sums[0])
        none = np.zeros(self.n_bins, dtype=np.int64)
        return Concordance(
            np.vstack([parts["risk_events"], none]).astype(np.int64),
            np.vstack([parts["risk_censored"], parts["risk_later"]]).astype(np.int64),
        )

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return rows in each interval and bin, and all of them."""
        parts = self.layout.unpack(sums[0])
        del parts["left_out"]
        cells = [int(one) for part in parts.values() for one in part.flat]
        found = {f"rows in cell {k}": n for k, n in enumerate(cells, start=1)}
        return found | {"rows": sum(cells)}


@dataclass(frozen=True)
class ConcordanceJob(TimedJob):
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
        edges_of(self.edges)
        _ = self.periods, self.known

    @cached_property
    def known(self) -> Predictor:
        """The coefficients; a baseline takes the intercept's place."""
        values, columns = dict(self.given), self.base.formula.columns
        if columns[self.ones] in values:
            raise InvalidInputError(
                f"a baseline takes the place of the {columns[self.ones]}: leave its "
                "coefficient out"
            )
        return Predictor.of(
            Binomial(),  # no link is taken: its predictors may be as far as any
            self.base.model.measures,
            names=columns,
            intercept=self.ones,
            coefficients={columns[self.ones]: 0.0, **values},
        )

    @cached_property
    def periods(self) -> Periods:
        """The intervals of time."""
        return Periods.of(self.times, self.time_measure)

    def pooled(self, own: Mapping[str, Any]) -> dict[str, float]:
        """Return what one owner of all rows finds, without bins."""
        return _pooled(self, list(own.values()))

    @property
    def words(self) -> str:
        """What is asked, for the ledger and for what parties compare."""
        numbers = ", ".join(f"{name} {one!r}" for name, one in self.given)
        return (
            f"how well {self.text} is predicted by {numbers}, in bins of risk at "
            f"{list(self.edges)} and of time at {list(self.times)}"
        )

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {
            "evaluate": self.words,
            "model": self.base.model.terms,
            "formula": self.text,
            "codings": self.base.formula.codings,
            "schema": self.schema.to_table(),
        }

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return Question(
            schema=self.asked_about,
            predicted=self.text,
            coefficients=dict(self.given),
            edges=self.edges,
            times=self.times,
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The cells, bins of risk changing fastest."""
        last = self.periods.edges[-1]
        times = (*self.periods.labels, f"beyond {last:g}")
        risks = bin_labels(np.array(self.edges))
        return tuple(" x ".join(one) for one in product(times, risks))

    @property
    def groups(self) -> tuple[Group, ...]:
        """What the columns have, and the cells of time and risk."""
        return (*super().groups, RiskCells(self.labels))

    def recipe(self, limit: ReleaseLimit | None = None) -> ConcordanceRecipe:
        """Return what parties do: one sum."""
        n_bins = len(self.edges) + 1
        return ConcordanceRecipe(self.words, self.periods.n_bins, n_bins, limit)

    def bring(self, table: CheckedTable) -> RiskRows:
        """Return a party's rows, when each ends, and the bin of its risk."""
        own = super().bring(table)
        places = places_of(np.array(self.edges), self.known.predictors(own.rows))
        ends = self.periods.places(own.time)
        return RiskRows(own.table, own.rows, own.time, ends, places)

    def look(self, own: TimedRows, at: Any) -> Array[Any]:
        """Return a party's column of its table or rows, or the cells of its rows."""
        if not isinstance(at, RiskCells):
            return super().look(own, at)
        assert isinstance(own, RiskRows)
        return own.ends * (len(self.edges) + 1) + own.places

    def check_at_home(self, home: AtHome, own: TimedRows) -> None:
        """Refuse a table of which a cell would point at few rows.

        Each is looked at with events and other ends together, as in survival.
        """
        super().check_at_home(home, own)
        assert isinstance(own, RiskRows)
        cells = RiskCells(self.labels)
        counts = cells.count(lambda at: self.look(own, at))
        home.bins(cells.name, counts, cells.labels)
        later = [own.ends >= k for k in range(1, self.periods.n_bins + 1)]
        higher = [own.places >= k for k in range(1, len(self.edges) + 1)]
        ones = np.ones(len(own.ends))
        names = ["1", *(f"a time beyond {one:g}" for one in self.periods.edges[1:])]
        names += [f"a risk from {one:g}" for one in self.edges]
        rows = Rows(np.column_stack([ones, *later, *higher]), own.event)
        home.design(rows, names, intercept=0)

    def answer(self, own: TimedRows, request: str) -> Integers:
        """Return what one party gives."""
        del request
        assert isinstance(own, RiskRows)
        times, n_bins = self.periods.n_bins, len(self.edges) + 1
        seen = (own.event > 0.5) & (own.ends < times)
        cells = own.ends * n_bins + own.places
        events, others = (
            np.bincount(cells[some], minlength=(times + 1) * n_bins).reshape(-1, n_bins)
            for some in (seen, ~seen)
        )
        return self.recipe().layout.pack(
            risk_events=events[:-1],
            risk_censored=others[:-1],
            risk_later=others[-1],
            left_out=own.table.n_dropped,
        )


# Folds


@dataclass(frozen=True)
class Fold:
    """Rows of a fold: what a group, or all rows, hold of them.

    Attributes:
        group: of the whole table; None for the folds themselves.
        place: which fold; how many there are, for the folds themselves.
    """

    group: Group | None
    place: int

    @property
    def name(self) -> str:
        """What they are."""
        if self.group is None:
            return "folds"
        return f"{self.group.name} in fold {self.place + 1}"

    @property
    def places(self) -> tuple[str, ...]:
        """What each is called."""
        if self.group is None:
            return tuple(f"fold {k}" for k in range(1, self.place + 1))
        return self.group.places

    def count(self, look: Look) -> Array[Any]:
        """Count the fold's rows in each."""
        folds = look(self)
        if self.group is None:
            return np.bincount(folds, minlength=self.place)
        here = folds == self.place
        return self.group.count(lambda at: look(at)[here])


@dataclass(frozen=True, eq=False)
class FoldsRecipe(OneRound):
    """One sum: what least squares sums, for each fold by itself; and rows left out.

    Attributes:
        model: what is fitted.
        n_folds: how many there are.
        what: is asked, for the ledger.
        limit: how many numbers may be released.
    """

    model: Model
    n_folds: int
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Sums of least squares for each fold, and rows left out."""
        each, n = Counting(self.model.measures).layout.counts, self.n_folds
        units, shape = each.units * n, (n, len(each.units))
        folds = Statistic("fold_sums", shape, units, each.bits)
        return Layout((folds, scalar("left_out")))

    @property
    def answer_size(self) -> int:
        """The coefficients without each fold."""
        return self.n_folds * len(self.model.names)

    @property
    def asked(self) -> str:
        """What parties compare."""
        return FOLDS

    def _parts(self, sums: Sums) -> Integers:
        found: Integers = self.layout.unpack(sums[0])["fold_sums"]
        return found

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return rows of each fold, and all of them."""
        rows = [int(one[-1]) for one in self._parts(sums)]
        found = {f"rows of fold {k}": n for k, n in enumerate(rows, start=1)}
        return found | {"rows": sum(rows)}

    @cached_property
    def _fits(self) -> dict[Hashable, tuple[LeastSquaresFit, ...]]:
        return {}

    def fits(self, sums: Sums) -> tuple[LeastSquaresFit, ...]:
        """Return the fit of all rows, and then without each fold."""
        key = by_value(sums)
        if key not in self._fits:
            parts = self._parts(sums)
            whole = sum(parts[1:], start=parts[0])
            model = self.model

            def fit(vector: Integers) -> LeastSquaresFit:
                return least_squares.fit(
                    vector,
                    model.measures,
                    names=model.names,
                    intercept=model.intercept,
                    ridge=model.ridge,
                )

            self._fits[key] = (fit(whole), *(fit(whole - one) for one in parts))
        return self._fits[key]

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients without each fold."""
        return np.concatenate([one.coefficients for one in self.fits(sums)[1:]])

    def errors(self, sums: Sums) -> tuple[Errors, ...]:
        """Return how well each fold is predicted by the rows of all others."""
        measures = self.model.measures
        pairs = zip(self._parts(sums), self.fits(sums)[1:], strict=True)
        return tuple(
            errors_of_fold(one, measures, fit.coefficients)
            for one, fit in pairs
            if one[-1]  # nothing is predicted in a fold without rows
        )


@dataclass(frozen=True)
class FoldsJob(SchemaJob[Brought]):
    """Least squares, fitted without each fold and tried on it.

    Attributes:
        base: the regression.
        n_folds: how many folds there are.
        split: a public number that deals rows to folds.
    """

    follows = (
        "the coefficients of all rows and without each fold, and how well each fold is "
        "predicted without its rows"
    )

    base: FormulaJob
    n_folds: int
    split: int

    def __post_init__(self) -> None:
        if not 2 <= self.n_folds <= MOST_FOLDS:
            raise InvalidInputError(
                f"folds must be from 2 to {MOST_FOLDS}, found {self.n_folds}"
            )
        if not 0 <= self.split < 2**32:
            raise InvalidInputError(
                f"split must be a whole number from 0 to 2^32 - 1, found {self.split}"
            )
        if self.base.formula.intercept is None:
            raise InvalidInputError(
                "folds need a formula with an intercept: leave out 0 + or - 1"
            )

    def pooled(self, own: Mapping[str, Any]) -> dict[str, float]:
        """Return what one owner of all rows finds, without bins."""
        return _pooled(self, list(own.values()))

    @property
    def schema(self) -> Schema:
        """What tables were agreed to look like, as far as it matters here."""
        return self.base.schema

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.base.numbers_in_a_row

    @property
    def n_columns(self) -> int:
        """How many columns all folds have together: each is a design of its own."""
        return self.n_folds * self.base.n_columns

    @property
    def words(self) -> str:
        """What is asked, for the ledger and for what parties compare."""
        return f"{self.base.model.words}, in {self.n_folds} folds dealt by {self.split}"

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {**self.base.agreed, "folds": self.n_folds, "split": self.split}

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return Question(
            schema=self.asked_about,
            formula=self.base.formula.text,
            folds=self.n_folds,
            split=self.split,
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """The folds, and in each of them what the formula's columns have."""
        within = product(self.base.groups, range(self.n_folds))
        return (Fold(None, self.n_folds), *(Fold(one, k) for one, k in within))

    def folds(self, own: Brought) -> Places:
        """Return the fold of each row of a party."""
        measures = self.base.model.measures
        return folds_of(measures, own.rows, self.n_folds, self.split)

    def look(self, own: Brought, at: Any) -> Array[Any]:
        """Return a party's column of its table or design, or the folds of its rows."""
        return self.folds(own) if isinstance(at, Fold) else self.base.look(own, at)

    def n_rows(self, own: Brought) -> int:
        """Return how many rows a party has to give."""
        return own.rows.n_rows

    def check(self, party: str, own: Brought) -> None:
        """Refuse rows that go beyond ranges."""
        self.base.check(party, own)

    def recipe(self, limit: ReleaseLimit | None = None) -> Any:
        """Return what parties do: one sum."""
        return FoldsRecipe(self.base.model, self.n_folds, self.words, limit)

    def parts(self, own: Brought) -> list[Rows]:
        """Return a party's rows of each fold."""
        folds = self.folds(own)
        return [_among(own.rows, folds == k) for k in range(self.n_folds)]

    def check_at_home(self, home: AtHome, own: Brought) -> None:
        """Refuse a table of which a fold, or the rest, would show too much.

        Sums of either follow from those of the other: each is a table. What varies in
        the whole table may rest on one row of a fold, the response too.
        """
        self.base.check_at_home(home, own)
        folds, model = self.folds(own), self.base.model
        home.bins("folds", np.bincount(folds, minlength=self.n_folds))
        formula = self.base.formula
        for k in np.unique(folds):
            for chosen, words in ((folds == k, "in"), (folds != k, "outside")):
                rows = _among(own.rows, chosen)
                if not rows.n_rows:
                    continue
                home.column(
                    f"{model.response} {words} fold {k + 1}",
                    rows.response,
                    two_valued=lambda: are_few(model.measures.response),
                )
                model.check_at_home(
                    home,
                    rows,
                    shaped=formula.response_is_shaped,
                    groups=formula.by_variables,
                )

    def bring(self, table: CheckedTable) -> Brought:
        """Return a party's table with the rows that the formula makes of it."""
        return self.base.bring(table)

    def answer(self, own: Brought, request: str) -> Integers:
        """Return what one party gives."""
        del request
        measures = self.base.model.measures
        parts = [least_squares.statistics(one, measures) for one in self.parts(own)]
        sums, left_out = np.array(parts, dtype=object), own.table.n_dropped
        return self.recipe().layout.pack(fold_sums=sums, left_out=left_out)


def _among(rows: Rows, chosen: Array[Any]) -> Rows:
    return Rows(rows.design[chosen], rows.response[chosen])


@dataclass(frozen=True, eq=False)
class RefitsRecipe(ManyRounds[Refitting]):
    """Rounds of a fit without each fold, side by side, and then one on the folds.

    Attributes:
        refits: what is fitted.
        what: is asked, for the ledger.
        limit: how many numbers may be released.
    """

    refits: Refits
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Positions that all rounds share."""
        return self.refits.layout + LEFT_OUT

    @property
    def answer_size(self) -> int:
        """The coefficients without each fold, and three sums of it."""
        return self.refits.n_folds * (self.refits.newton.n_columns + 3)

    @property
    def most(self) -> int:
        """Those too that ask for rows outside, and the two about folds."""
        return 2 * self.refits.newton.max_rounds + 2

    @property
    def search(self) -> Refits:
        """Where all fits are."""
        return self.refits

    def unfinished(self, state: Refitting) -> str:
        """Return what to say of searches for which no room is left."""
        told = (
            f"the fits without each fold have not all converged in {self.most_rounds} "
            "sums, and more than that there is no room for: use fewer folds or "
            f"columns, or {MORE_SUMS}"
        )
        for k, one in enumerate(state.fits, start=1):
            if fading := self.refits.newton.fading_columns(one):
                return (
                    f"without fold {k} the coefficient of {listed(fading)} seems to "
                    f"grow without end: leave the column out. And {told}"
                )
        return told

    def suspected(self, sums: Sums) -> str:
        """Return the columns whose information has faded without one of the folds."""
        newton, fits = self.refits.newton, enumerate(self.state(sums).fits, start=1)
        found = (suspicion(newton, one, f"Without fold {k}: the") for k, one in fits)
        return next(filter(None, found), "")

    def losses(self, sums: Sums) -> tuple[Losses, ...]:
        """Return how far each fit is from the fold that it was made without."""
        found = self.state(sums).losses
        assert found is not None
        return found

    def coefficients(self, sums: Sums) -> tuple[Vector, ...]:
        """Return those without each fold."""
        return self.refits.coefficients(self.state(sums))

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients, and then deviances and squared errors by fold."""
        losses = [list(map(float, one[1:])) for one in self.losses(sums)]
        return np.concatenate([*self.coefficients(sums), *losses])

    def _shown(self, stage: Stage) -> dict[str, int]:
        k = self.refits.n_folds
        if stage == "beyond":
            shown = {"fold_rows_outside": k}
        elif stage == "losses":
            shown = {
                "fold_deviances": 2 * k,
                "fold_squared_errors": k,
            }
        else:
            each = self.refits.newton.scales.layout(stage).released.items()
            shown = {WITHOUT_FOLD + key: k * count for key, count in each}
        return shown | {"left_out": 1}

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and where it is evaluated."""
        request = self.refits.propose(self.state(sums))
        point = self.refits.real_points(request)
        return Release(self.what, self._shown(request.stage), point)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What every kind of round shows."""
        most = self.most_rounds

        def rounds(when: str, stage: Stage, least: int, most: int) -> Foreseen:
            return Foreseen(when, self._shown(stage), least, most)

        return (
            rounds("first", "first", 1, 1),
            rounds("tries", "round", 1, most - 2),
            rounds("outside", "outside", 0, most - 3),
            rounds("beyond", "beyond", 0, 1),
            rounds("losses", "losses", 1, 1),
        )


class RefitsJob(FoldsJob):
    """Another family, fitted without each fold in rounds and tried on it."""

    follows = (
        "the coefficients without each fold, and how well each fold is predicted by "
        "them"
    )

    @cached_property
    def refits(self) -> Refits:
        """The fits, side by side."""
        return Refits(self.base.model.newton, self.n_folds)

    @property
    def is_chance(self) -> bool:
        """Whether responses are 0 and 1, and nothing in between."""
        return bool(self.base.family.levels)

    def check_at_home(self, home: AtHome, own: Brought) -> None:
        """Refuse as other folds do; and folds of what has no largest value at all.

        A fit without a fold may miss one of its rows by more than all others together,
        and the fold's deviance is that row's then. No table shows beforehand which.
        """
        home.bounded(self.base.model.response, bounded=self.is_chance)
        super().check_at_home(home, own)

    def recipe(self, limit: ReleaseLimit | None = None) -> RefitsRecipe:
        """Return what parties do: the rounds of all fits, and one more."""
        return RefitsRecipe(self.refits, self.words, limit)

    def answer(self, own: Brought, request: Any) -> Integers:
        """Return what one party gives."""
        found = self.refits.statistics(self.parts(own), request)
        return np.append(found, own.table.n_dropped)

    def pooled(self, own: Mapping[str, Brought]) -> dict[str, float]:
        """Return what one owner of all rows finds: a fit by itself without each fold.

        And losses row by row.
        """
        folds = np.concatenate([self.folds(one) for one in own.values()])
        design = np.concatenate([one.rows.design for one in own.values()])
        response = np.concatenate([one.rows.response for one in own.values()])
        rows, family = Rows(design, response), self.base.family
        eta, null = np.empty(len(folds)), np.empty(len(folds))
        for k in np.unique(folds):
            here, others = folds == k, _among(rows, folds != k)
            fitted = self.base.model.pooled({"": others})
            eta[here] = np.asarray(design[here], float) @ fitted
            mean = np.asarray(others.response, float).mean()
            null[here] = family.link(np.array([mean]))
        seen = np.asarray(response, float)
        deviance, bare = (family.terms(seen, one).deviance for one in (eta, null))
        squares = (seen - family.inverse_link(eta)) ** 2
        found = {"explained_deviance": float(1.0 - deviance.sum() / bare.sum())}
        if self.is_chance:
            losses = {"log_loss": deviance.mean() / 2.0, "brier": squares.mean()}
        else:
            losses = {"deviance": deviance.mean(), "rmse": np.sqrt(squares.mean())}
        return found | {name: float(one) for name, one in losses.items()}


AnyEvaluation = BinsJob | ErrorsJob | ConcordanceJob | FoldsJob


def evaluate_job(
    schema: Schema,
    *,
    formula: str,
    coefficients: Mapping[str, float] | None = None,
    family: str = "gaussian",
    edges: Sequence[float] | None = None,
    times: Sequence[float] | None = None,
    calibration: bool | None = None,
    folds: int | None = None,
    split: int | None = None,
) -> AnyEvaluation:
    """Return what is asked, as a file asks for it.

    Raises:
        InvalidInputError: coefficients do not fit the formula, or keys contradict each
            other.
    """
    given: dict[str, Any] = {
        "edges": edges,
        "times": times,
        "calibration": calibration,
        "folds": folds,
        "split": split,
    }

    def only(*known: str, of: str) -> None:
        beside = [key for key, one in given.items() if one is not None]
        if unused := [key for key in beside if key not in known]:
            raise InvalidInputError(f"{unused[0]} is no matter of {of}: leave it out")

    if folds is not None:
        only("folds", "split", of="a cross-validation")
        if coefficients is not None:
            raise InvalidInputError(
                "folds find coefficients, and coefficients are given too: leave one "
                "of them out"
            )
        base = FormulaJob.of(formula, schema, link_of(family))
        once = isinstance(base.family, Gaussian)
        dealt = 0 if split is None else split
        return (FoldsJob if once else RefitsJob)(base, folds, dealt)
    if not coefficients:
        raise InvalidInputError(
            "give the coefficients of the model that is evaluated, by column; or "
            "folds, to cross-validate a fit"
        )
    if formula.lstrip().startswith("Surv"):
        only("edges", "times", of="times to an event")
        return _concordance(formula, schema, coefficients, edges, times)
    kind = link_of(family)
    base = FormulaJob.of(formula, schema, kind)
    known = Predictor.of(
        kind,
        base.model.measures,
        names=base.formula.columns,
        intercept=base.formula.intercept,
        coefficients=coefficients,
    )
    if not isinstance(kind, Binomial):
        only(of=f"the {kind.name} family")
        return ErrorsJob(base, known)
    only("edges", "calibration", of="chances")
    return BinsJob(
        base,
        known,
        edges=TENTHS if edges is None else tuple(map(float, edges)),
        calibrated=calibration is not False,
    )


def _concordance(
    formula: str,
    schema: Schema,
    coefficients: Mapping[str, float],
    edges: Sequence[float] | None,
    times: Sequence[float] | None,
) -> ConcordanceJob:
    for what, one in (("edges", edges), ("times", times)):
        if not one:
            raise InvalidInputError(
                f"how long rows go on is counted in bins: give {what}, such as "
                + (
                    "[-1, 0, 1], of the linear predictor"
                    if what == "edges"
                    else "[365]"
                )
            )
    return ConcordanceJob.of(
        formula,
        schema,
        given=tuple((name, float(one)) for name, one in coefficients.items()),
        edges=tuple(map(float, edges or ())),
        times=tuple(map(float, times or ())),
    )


# What came out


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Judged(TableResult):
    """What is alike in all evaluations; the reference is by name, without bins."""

    compared_with: ClassVar[str] = "the pooled rows' own, without bins"
    compared_by: ClassVar[str] = ""  # said by the words

    @property
    def values(self) -> dict[str, float]:
        """What was found, by name."""
        raise NotImplementedError

    @property
    def max_error(self) -> float | None:
        """How far values are from the pooled rows' own; None if not compared."""
        if self.reference is None:
            return None
        found = self.values
        return max(abs(found[name] - one) for name, one in self.reference.items())

    @property
    def plain_reference(self) -> Any:
        """The reference for JSON."""
        return None if self.reference is None else dict(self.reference)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; null for what there is not."""
        return {
            **super().to_dict(),
            "count": self.count,
            "dropped": self.dropped,
            "values": _plain(self.values),
        }


def _plain(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers as JSON has them."""
    return {
        key: None if isinstance(one, float) and not isfinite(one) else one
        for key, one in line.items()
    }


def _bounds(name: str, found: Bounded, level: float) -> list[str]:
    """Return a number, what bins leave open, and what chance does, in words."""
    low, high = found.interval(level)
    return [
        f"{name}: {found.value:.4f} (standard error {found.standard_error:.4f}, "
        f"{level:.0%} interval {low:.4f} to {high:.4f})",
        f"between {found.least:.4f} and {found.largest:.4f} however rows lie within "
        "their bins",
    ]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChanceEvaluation(Judged):
    """How well chances of an event are predicted.

    Attributes:
        job: what was asked.
    """

    job: BinsJob

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: only this sum is known."""
        recipe, sums = self.inner
        assert isinstance(recipe, BinsRecipe)
        return int(recipe.parts(sums)["left_out"])

    @cached_property
    def found(self) -> Discrimination:
        """Counts of all parties' rows by bin, and what follows from them."""
        recipe, sums = self.inner
        assert isinstance(recipe, BinsRecipe)
        return recipe.found(sums, self.job.thresholds)

    @cached_property
    def refit(self) -> GlmFit | None:
        """The regression of responses on linear predictors, if it was asked for."""
        recipe, sums = self.inner
        assert isinstance(recipe, BinsRecipe)
        return recipe.fit(sums)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.found.n_rows

    @property
    def auc(self) -> Bounded:
        """The area under the curve, with bounds and standard error."""
        return self.found.auc

    @property
    def brier(self) -> float:
        """The mean squared error of chances, exact."""
        return self.found.brier

    @property
    def slope(self) -> tuple[float, float] | None:
        """Calibration intercept and slope: 0 and 1 where chances are right."""
        if self.refit is None:
            return None
        intercept, slope = self.refit.coefficients.tolist()
        return intercept, slope

    def hosmer_lemeshow(self, *, fitted: bool = False) -> Fitting:
        """Return the test over the bins; `fitted` if to these same rows."""
        return self.found.hosmer_lemeshow(fitted=fitted)

    @property
    def values(self) -> dict[str, float]:
        """The area, Brier's score, both of it scaled, and the calibration line."""
        found = {
            "auc": self.auc.value,
            "brier": self.brier,
            "scaled_brier": self.found.scaled_brier,
            "observed_over_expected": self.found.n_events / self.found.expected,
        }
        if self.slope is not None:
            found["calibration_intercept"], found["calibration_slope"] = self.slope
        return found

    def thresholds(self) -> Frame:
        """Return sensitivity, specificity and predictive values at each edge."""
        return load_pandas().DataFrame(self.found.thresholds())

    def calibration(self, level: float = 0.95) -> Frame:
        """Return predicted and observed shares by bin."""
        return load_pandas().DataFrame(self.found.calibration(level))

    def summary(self, level: float = 0.95) -> str:
        """Return all of it as plain text."""
        return self.answered(level).text()

    def answered(self, level: float = 0.95) -> Showing:
        """Return all of it, to be seen."""
        found, test = self.found, self.hosmer_lemeshow()
        lines = [
            *_bounds("area under the ROC curve", self.auc, level),
            f"Brier's score: {found.brier:.4f}, scaled {found.scaled_brier:.4f}",
            f"events: {found.n_events} observed, {found.expected:.1f} expected",
            f"Hosmer-Lemeshow: chi2 = {test.statistic:.4g}, df = {test.degrees}, "
            f"p = {test.p:.3g}",
        ]
        if self.refit is not None:
            errors = self.refit.standard_errors.tolist()
            pairs = zip(self.refit.coefficients.tolist(), errors, strict=True)
            first, second = (
                f"{number(one)} (standard error {number(error)})"
                for one, error in pairs
            )
            lines.append(f"calibration: intercept {first}, slope {second}")
        tenths = [
            [
                one["bin"],
                one["rows"],
                one["events"],
                *(f"{one[key]:.4f}" for key in ("predicted", "observed")),
                *(f"{one[key]:.4f}" for key in ("low", "high")),
            ]
            for one in found.calibration(level)
        ]
        heads = ("prediction", "rows", "events", "predicted", "observed", "low", "high")
        edges = [
            [
                f"{one['threshold']:g}",
                *(
                    f"{one[key]:.4f}" if isfinite(one[key]) else None
                    for key in ("sensitivity", "specificity", "ppv", "npv")
                ),
            ]
            for one in found.thresholds()
        ]
        above = ("threshold", "sensitivity", "specificity", "PPV", "NPV")
        note = (
            f"Intervals are {level:.0%}: of the area by DeLong for rows known by bin, "
            "of observed shares by Wilson. Hosmer and Lemeshow's test takes the "
            "coefficients as found elsewhere; from these same rows, it has two degrees "
            "less."
        )
        return Showing(
            self.job.base.formula.text,
            [
                tuple(lines),
                Table(heads, tenths, align="<>>>>>>"),
                Table(above, edges, align=">>>>>"),
                note,
                self.rows_sentence,
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        test = self.hosmer_lemeshow()
        return {
            **super().to_dict(),
            "formula": self.job.base.formula.text,
            "edges": list(self.job.edges),
            "auc": _bounded(self.auc),
            "events": self.found.events.tolist(),
            "others": self.found.others.tolist(),
            "thresholds": [_plain(one) for one in self.found.thresholds()],
            "calibration": self.found.calibration(),
            "hosmer_lemeshow": _plain(test._asdict()),
            "calibration_errors": None
            if self.refit is None
            else self.refit.standard_errors.tolist(),
        }


def _bounded(found: Bounded) -> dict[str, float | None]:
    low, high = found.interval()
    return _plain({**found._asdict(), "low": low, "high": high})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NumberEvaluation(Judged):
    """How far predicted numbers are from those that were seen.

    Attributes:
        job: what was asked.
    """

    job: ErrorsJob | FoldsJob

    @cached_property
    def errors(self) -> Errors:
        """Sums of errors, and what follows from them."""
        recipe, sums = self.inner
        return joined_errors(self.folds) if self.folds else recipe.errors(sums)

    @cached_property
    def folds(self) -> tuple[Errors, ...]:
        """The errors of each fold that has rows; nothing without folds."""
        recipe, sums = self.inner
        return recipe.errors(sums) if isinstance(recipe, FoldsRecipe) else ()

    @property
    def fit(self) -> LeastSquaresFit | None:
        """With folds, the fit of all rows together."""
        recipe, sums = self.inner
        return recipe.fits(sums)[0] if isinstance(recipe, FoldsRecipe) else None

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.errors.n_rows

    @property
    def values(self) -> dict[str, float]:
        """R squared, errors, bias and the line of responses on predictions."""
        found, (intercept, slope) = self.errors, self.errors.calibration
        return {
            "r_squared": found.r_squared,
            "rmse": found.rmse,
            **({} if found.mae is None else {"mae": found.mae}),
            "bias": found.bias,
            "calibration_intercept": intercept,
            "calibration_slope": slope,
        }

    def answered(self) -> Showing:
        """Return all of it, to be seen."""
        names = {
            "r_squared": "R squared on these rows",
            "rmse": "root mean squared error",
            "mae": "mean absolute error",
            "bias": "mean of predictions less responses",
            "calibration_intercept": "intercept of responses on predictions",
            "calibration_slope": "slope of responses on predictions",
        }
        lines = [[names[key], number(one)] for key, one in self.values.items()]
        parts: list[Block] = [Table(("", "value"), lines, align="<.")]
        if self.folds:
            each: list[list[Any]] = [
                [f"fold {k}", one.n_rows, number(one.r_squared), number(one.rmse)]
                for k, one in enumerate(self.folds, start=1)
            ]
            heads = ("", "rows", "R squared", "RMSE")
            parts.append(Table(heads, each, align="<>.."))
            assert self.fit is not None
            parts.append(
                f"R squared of the fit of all rows is {number(self.fit.r_squared)}. "
                "Each fold is predicted by a fit of all others. Rows with equal "
                "predictors are in one fold."
            )
        return Showing(self.job.base.formula.text, [*parts, self.rows_sentence])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "formula": self.job.base.formula.text,
            "folds": [
                _plain(
                    {"rows": one.n_rows, "r_squared": one.r_squared, "rmse": one.rmse}
                )
                for one in self.folds
            ],
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FoldsEvaluation(Judged):
    """How well a fit in rounds predicts rows that it was made without.

    Attributes:
        job: what was asked.
    """

    job: RefitsJob

    @cached_property
    def folds(self) -> tuple[Losses, ...]:
        """What was lost in each fold, by the fit without it."""
        recipe, sums = self.inner
        assert isinstance(recipe, RefitsRecipe)
        return recipe.losses(sums)

    @property
    def coefficients(self) -> Frame:
        """Those without each fold, a line for each."""
        recipe, sums = self.inner
        assert isinstance(recipe, RefitsRecipe)
        names = self.job.base.formula.columns
        return load_pandas().DataFrame(recipe.coefficients(sums), columns=names)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return sum(one.n_rows for one in self.folds)

    def _mean(self, sums: Sequence[Fraction]) -> MeanLoss:
        return MeanLoss.of([one.n_rows for one in self.folds], sums)

    @property
    def deviance(self) -> MeanLoss:
        """The mean deviance of a row, by the fit without its fold."""
        return self._mean([one.deviance for one in self.folds])

    @property
    def squared_error(self) -> MeanLoss:
        """The mean squared error: Brier's score, of 0 and 1."""
        return self._mean([one.squared for one in self.folds])

    @property
    def log_loss(self) -> MeanLoss | None:
        """The mean of -log(chance of what happened); None for numbers."""
        if not self.job.is_chance:
            return None
        return self._mean([one.deviance / 2 for one in self.folds])

    @property
    def explained_deviance(self) -> float:
        """How much of the deviance of fits with an intercept alone is gone."""
        return explained(self.folds)

    @property
    def values(self) -> dict[str, float]:
        """Log-loss and Brier's score of 0 and 1; else deviance and root error."""
        found = {"explained_deviance": self.explained_deviance}
        if self.log_loss is not None:
            losses = {"log_loss": self.log_loss, "brier": self.squared_error}
            return found | {name: one.value for name, one in losses.items()}
        rmse = float(np.sqrt(self.squared_error.value))
        return found | {"deviance": self.deviance.value, "rmse": rmse}

    @property
    def _told(self) -> dict[str, MeanLoss]:
        if self.log_loss is not None:
            return {"log-loss": self.log_loss, "Brier's score": self.squared_error}
        return {"deviance": self.deviance, "squared error": self.squared_error}

    def answered(self) -> Showing:
        """Return all of it, to be seen."""
        means: list[list[Any]] = [
            [name, number(one.value), number(one.standard_error)]
            for name, one in self._told.items()
        ]
        halves = 2 if self.job.is_chance else 1
        each: list[list[Any]] = [
            [
                f"fold {k}",
                one.n_rows,
                number(float(one.deviance / halves / one.n_rows)),
                number(float(one.squared / one.n_rows)),
            ]
            for k, one in enumerate(self.folds, start=1)
            if one.n_rows
        ]
        told = (
            f"{self.explained_deviance:.1%} of the deviance of fits with an intercept "
            "alone is explained. Each fold is predicted by a fit of all others; values "
            "are means over rows, and their errors follow from how folds differ. Rows "
            "with equal predictors are in one fold."
        )
        return Showing(
            f"{self.job.base.formula.text}, {self.job.base.family.name}",
            [
                Table(("", "mean", "std err"), means, align="<.."),
                Table(("", "rows", *self._told), each, align="<>.."),
                told,
                self.rows_sentence,
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        errors = {
            "deviance": self.deviance.standard_error,
            "squared_error": self.squared_error.standard_error,
        }
        return {
            **super().to_dict(),
            "formula": self.job.base.formula.text,
            "standard_errors": _plain(errors),
            "folds": [
                {
                    "rows": one.n_rows,
                    "deviance": float(one.deviance),
                    "null_deviance": float(one.null_deviance),
                    "squared_error": float(one.squared),
                }
                for one in self.folds
            ],
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConcordanceEvaluation(Judged):
    """Whether rows with a higher predicted risk end sooner.

    Attributes:
        job: what was asked.
    """

    job: ConcordanceJob

    @cached_property
    def found(self) -> Concordance:
        """Counts of all parties' rows by time and risk, and what follows."""
        recipe, sums = self.inner
        assert isinstance(recipe, ConcordanceRecipe)
        return recipe.found(sums)

    @property
    def concordance(self) -> Bounded:
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

    def answered(self, level: float = 0.95) -> Showing:
        """Return all of it, to be seen."""
        last = self.job.periods.edges[-1]
        risks = bin_labels(np.array(self.job.edges))
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
        return Showing(
            self.job.text,
            [
                tuple(_bounds("concordance", self.concordance, level)),
                Table(heads, lines, align="<>>"),
                note,
                self.rows_sentence,
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **super().to_dict(),
            "formula": self.job.text,
            "edges": list(self.job.edges),
            "times": list(self.job.times),
            "concordance": _bounded(self.concordance),
            "events": self.found.events[:-1].tolist(),
            "others": self.found.censored.tolist(),
        }


AnyEvaluationResult = (
    ChanceEvaluation | NumberEvaluation | FoldsEvaluation | ConcordanceEvaluation
)


def evaluate(
    formula: str,
    data: Mapping[str, Any],
    *,
    coefficients: Mapping[str, float] | None = None,
    family: str = "gaussian",
    edges: Sequence[float] | None = None,
    times: Sequence[float] | None = None,
    calibration: bool | None = None,
    folds: int | None = None,
    split: int | None = None,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> AnyEvaluationResult:
    """Return how well known coefficients predict several parties' rows.

    Args:
        formula: of the model, such as "ill ~ age + C(sex)" or "Surv(days, died) ~ age".
        data: each party's table: pandas, polars, or a mapping of columns.
        coefficients: by column of the design, as a fit has them.
        family: of the model, as for `fit`; times to an event have none.
        edges: of bins: of predicted chances, tenths by default; of the linear
            predictor, for times to an event.
        times: for times to an event, where intervals end; nobody is followed later.
        calibration: of chances, whether to fit responses to linear predictors too, as
            by default.
        folds: instead of coefficients, in how many folds to cross-validate a fit.
        split: a public number by which rows are dealt to folds.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to evaluate the pooled rows themselves as well, without bins,
            as only a simulation can.
        options: how to sum; see `Options`.
    """

    def inferred(frames: Mapping[str, Frame]) -> Schema:
        if not formula.lstrip().startswith("Surv"):
            return inferred_schema(formula, (), frames, minimum_rows)
        found = read_surv(formula)
        plain = response_formula(found)
        return inferred_schema(plain, (found.time,), frames, minimum_rows)

    def job_of(agreed: Schema) -> AnyEvaluation:
        return evaluate_job(
            agreed,
            formula=formula,
            coefficients=coefficients,
            family=family,
            edges=edges,
            times=times,
            calibration=calibration,
            folds=folds,
            split=split,
        )

    def made(*, job: AnyEvaluation, **known: Any) -> AnyEvaluationResult:
        if isinstance(job, BinsJob):
            return ChanceEvaluation(job=job, **known)
        if isinstance(job, ConcordanceJob):
            return ConcordanceEvaluation(job=job, **known)
        if isinstance(job, RefitsJob):
            return FoldsEvaluation(job=job, **known)
        return NumberEvaluation(job=job, **known)

    return put(
        job_of,
        data,
        made,
        inferred=inferred,
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


def _pooled(job: SchemaJob[Any], parts: Sequence[Any]) -> dict[str, float]:
    """Return what one owner of all rows would find, without bins."""
    response = np.concatenate([np.asarray(one.rows.response, float) for one in parts])
    if isinstance(job, FoldsJob):
        return _by_refitting(job, parts, response)
    if isinstance(job, ConcordanceJob):
        risk = np.concatenate([job.known.predictors(one.rows) for one in parts])
        time = np.concatenate([one.time for one in parts])
        return {"concordance": _harrell(time, response, risk, job.periods.edges[-1])}
    mean = np.concatenate([one.mean for one in parts])
    away = response - mean
    if isinstance(job, BinsJob):
        _, ranks, times = np.unique(mean, return_inverse=True, return_counts=True)
        middle = np.cumsum(times) - (times - 1) / 2.0
        yes = response > 0.5
        n_yes, n_no = yes.sum(), (~yes).sum()
        above = middle[ranks[yes]].sum() - n_yes * (n_yes + 1) / 2.0
        area = float(above / (n_yes * n_no)) if n_yes and n_no else float("nan")
        return {"auc": area, "brier": float(np.mean(away**2))}
    about = response - response.mean()
    return {
        "r_squared": float(1.0 - away @ away / (about @ about)),
        "rmse": float(np.sqrt(np.mean(away**2))),
        "mae": float(np.mean(np.abs(away))),
    }


def _by_refitting(
    job: FoldsJob, parts: Sequence[Brought], response: PerRow
) -> dict[str, float]:
    """Return the same of folds, by an orthogonal decomposition of each fit's rows."""
    design = np.concatenate([np.asarray(one.rows.design, float) for one in parts])
    folds = np.concatenate([job.folds(one) for one in parts])
    mean = np.empty(len(response))
    for k in np.unique(folds):
        here = folds == k
        found, *_ = np.linalg.lstsq(design[~here], response[~here], rcond=None)
        mean[here] = design[here] @ found
    away, about = response - mean, response - response.mean()
    return {
        "r_squared": float(1.0 - away @ away / (about @ about)),
        "rmse": float(np.sqrt(np.mean(away**2))),
    }


def _harrell(time: PerRow, event: PerRow, risk: PerRow, until: float) -> float:
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
