"""Cox regressions with one baseline for all parties, constant between agreed times.

Each row is cut into pieces at the agreed times, at home, and the pieces are a Poisson
regression with the logarithm of their exposure as offset; see `models/periods`. Rows
stand alone: who has which of them changes no sum. Rules at home are about rows, never
about pieces, of which one person has many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, cast

import numpy as np
import scipy

from veilsum.errors import InvalidInputError, naming_party_in_error
from veilsum.fits.comparisons import TestOfFit, likelihood_ratio_of_models
from veilsum.fits.fitted import fits_in_order
from veilsum.fits.fitting import LEFT_OUT, NewtonFitRecipe, sums_about_fit_columns
from veilsum.fits.model import FitModel
from veilsum.fits.timed import TimedFitJob, TimedRows
from veilsum.fits.wrappers import score_statistic_of_fit
from veilsum.models import glm
from veilsum.models.families import Poisson
from veilsum.models.glm import FirstStatistics, GlmFit, GlmRequest
from veilsum.models.inference import Inference
from veilsum.models.newton import Newton
from veilsum.models.periods import BaselinePeriods
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.models.weights import note_weights_of_people
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.layout import NumberLayout, layout_array, layout_padding
from veilsum.numbers.units import Integers, UnitMeasure
from veilsum.questions.cox.hazards import HazardResult, hazard_tables
from veilsum.showing import Block, Cell, Rendering, ShownTable, shown_number
from veilsum.sums.presence import Look, PresenceGroup
from veilsum.sums.recipes import SumRecipe, Sums
from veilsum.sums.releases import REBUILT, PossibleRound, SumRelease, SumReleaseLimit
from veilsum.tables.asked import TableQuestion
from veilsum.tables.frames import as_frame, load_pandas
from veilsum.tables.rules import TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema

FLAG = UnitMeasure(Fraction(1), 0, 1)
# The last number of a sum.
ROWS = NumberLayout((layout_array("rows_before_cuts", ()),))


@dataclass(frozen=True)
class BinnedRequest:
    """Next request to the parties.

    Attributes:
        check: whether columns times the number of the bin are included.
        inner: request about the pieces.
    """

    check: bool
    inner: GlmRequest


@dataclass(frozen=True, eq=False)
class BinnedCoxRecipe(SumRecipe):
    """A Poisson regression of pieces, and one more sum if hazards are checked.

    Attributes:
        wide: with each column times the number of the bin beside the others; None if
            hazards are not checked.
    """

    left_open = (REBUILT,)

    base: NewtonFitRecipe
    wide: Newton | None = None

    @property
    def limit(self) -> SumReleaseLimit | None:
        return self.base.limit

    @cached_property
    def layout(self) -> NumberLayout:
        if self.wide is None:
            return self.base.layout + ROWS
        return self.wide.scales.positions + NumberLayout((layout_padding(1),)) + ROWS

    @cached_property
    def first(self) -> NumberLayout:
        """The first sum of the regression, and rows before they are cut."""
        base = self.base.newton.scales.layout("first") + LEFT_OUT
        return base.padded(self.layout.size - ROWS.size) + ROWS

    @cached_property
    def checked(self) -> NumberLayout:
        """The sum that checks hazards; empty if they are not checked."""
        if self.wide is None:
            return NumberLayout(())
        matrix, score, *unused = self.wide.scales.layout("score").statistics
        matrix = replace(matrix, key="binned_information")
        return NumberLayout((matrix, replace(score, key="binned_score"), *unused))

    @property
    def answer_size(self) -> int:
        return self.base.answer_size

    @property
    def most_rounds(self) -> int:
        """One more than the regression has, if hazards are checked."""
        return self.base.most_rounds + (self.wide is not None)

    @property
    def most_numbers(self) -> int:
        return self.base.most_numbers + ROWS.size + sum(self.checked.released.values())

    def _parts(self, sums: Sums) -> tuple[Sums, Array[Any] | None]:
        """Return the regression's own sums, and that of the check if it is there."""
        own = [one[: self.base.size] for one in sums]
        if self.wide is None or not sums or self.base.request(own[:-1]) is not None:
            return own, None
        return own[:-1], sums[-1]

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the number of rows before cuts, which the first sum has."""
        if len(sums) > 1:
            return {}
        return {"rows": self.unpack_first(sums)["rows_before_cuts"]}

    def check_sum(self, sums: Sums) -> None:
        """Refuse a sum of the regression, or of the check, that is impossible."""
        super().check_sum(sums)
        own, check = self._parts(sums)
        if check is None:
            self.base.state(own)  # which checks it
        else:
            assert self.wide is not None
            numbers, pieces = check[: self.checked.size], self.base.fit(own).n_rows
            self.wide.scales.check_score(numbers, pieces, self.wide.labels)

    def request(self, sums: Sums) -> BinnedRequest | None:
        own, check = self._parts(sums)
        if check is not None:
            return None
        asked = self.base.request(own)
        if asked is not None:
            return BinnedRequest(check=False, inner=asked)
        if self.wide is None:
            return None
        # Where the last round was: no row is outside there, as everybody knows.
        last = cast("GlmRequest", self.base.request(own[:-1])).point
        nothing = np.zeros(self._more(self.wide))
        point = np.concatenate([last[:-1], nothing, last[-1:]])
        return BinnedRequest(check=True, inner=GlmRequest("score", point))

    def answer(self, sums: Sums) -> Vector:
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> GlmFit:
        return self.base.fit(self._parts(sums)[0])

    def unpack_first(self, sums: Sums) -> dict[str, Any]:
        return self.first.unpack(sums[0])

    def first_statistics(self, sums: Sums) -> FirstStatistics:
        return self.base.first(self._parts(sums)[0])

    def hazard_statistic(self, sums: Sums, places: Sequence[int]) -> float:
        """Return the score statistic of some of the further columns."""
        found = self._parts(sums)[1]
        assert self.wide is not None
        assert found is not None
        chosen = [*range(self.answer_size), *places]
        return score_statistic_of_fit(self.wide, found[: self.checked.size], chosen)

    def release(self, sums: Sums) -> SumRelease:
        own, _ = self._parts(sums)
        if own and self.base.request(own) is None:
            before = self.base.release(own[:-1])
            nothing = (0.0,) * (0 if self.wide is None else self._more(self.wide))
            point = (*before.point[:-1], *nothing, before.point[-1])
            return SumRelease.from_layout(before.job, self.checked, point)
        found = self.base.release(own)
        if sums:
            return found
        return SumRelease.from_layout(found.job, self.first, found.point)

    def _more(self, wide: Newton) -> int:
        return wide.n_columns - self.answer_size

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        first, *others = self.base.foreseen
        first = PossibleRound.from_layout(first.when, self.first)
        if self.wide is None:
            return (first, *others)
        last = PossibleRound.from_layout("hazards", self.checked, 0, 1)
        return (first, *others, last)


@dataclass(frozen=True)
class EndBins:
    """The bins in which rows end, with the event or without, and beyond the last."""

    periods: BaselinePeriods
    time: str
    event: str

    @property
    def name(self) -> str:
        return f"ends of {self.time} by {self.event}"

    @property
    def places(self) -> tuple[str, ...]:
        """Each bin without an event, then with one."""
        plain = [*self.periods.labels, f"beyond {self.periods.edges[-1]:g}"]
        return (*plain, *(f"{one} with an event" for one in self.periods.labels))

    def count(self, look: Look) -> Array[Any]:
        bins, events = cox_row_ends(self.periods, look(self.time), look(self.event))
        return np.bincount(bins + events * (self.periods.n_bins + 1))[
            : len(self.places)
        ] + np.zeros(len(self.places), dtype=np.int64)


def cox_row_ends(
    periods: BaselinePeriods, time: FloatArray, event: Array[Any]
) -> tuple[Array[Any], Array[Any]]:
    """Return where rows end, and whether with an event; beyond the last none is."""
    bins = periods.places(time)
    return bins, ((event == 1) & (bins < periods.n_bins)).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class CutRows(TimedRows):
    """One party's rows, their pieces, and the row of each piece."""

    pieces: Rows
    bins: Array[Any]
    people: Array[Any]


@dataclass(frozen=True)
class BinnedCoxJob(TimedFitJob[CutRows]):
    """A Cox regression with one baseline over agreed times.

    Attributes:
        times: at which the baseline may change; after the last nobody is followed.
    """

    follows = (
        "the coefficients, hazard ratios, the baseline hazard between agreed times, "
        "survival curves, their standard errors, and tests"
    )

    times: tuple[float, ...] = ()
    with_check: bool = False

    @classmethod
    def of(cls, text: str, schema: Schema, **more: Any) -> BinnedCoxJob:
        job = super().of(text, schema, **more)
        _ = job.periods
        if not job.names:
            raise InvalidInputError(
                "a Cox regression needs a column on the right of ~; without one ask "
                "for survival curves",
                code="no-columns-to-fit",
            )
        if job.with_check and job.periods.n_bins < 2:
            raise InvalidInputError(
                "check compares coefficients between bins: give two times or more",
                code="check-needs-bins",
            )
        return job

    @cached_property
    def periods(self) -> BaselinePeriods:
        return BaselinePeriods.of(self.times, self.time_measure)

    @cached_property
    def model(self) -> FitModel:
        """The regression of pieces: ones, bins but the first, and columns."""
        own, bins = self.measures, self.periods.labels[1:]
        return FitModel(
            response=self.base.formula.response,
            names=("Intercept", *bins, *self.names),
            intercept=0,
            family=Poisson(),
            measures=RowMeasures(
                (ONES, *(FLAG,) * len(bins), *own.design),
                FLAG,
                offset=self.periods.log_exposure,
                row_bits=own.row_bits,
            ),
            variables=len(self.schema.columns),
        )

    @cached_property
    def wide(self) -> FitModel | None:
        """The same with each column times the number of the bin, from 0."""
        if not self.with_check:
            return None
        model, most = self.model, self.periods.n_bins - 1
        more = tuple(
            UnitMeasure(
                one.unit,
                min(0, one.least * most),
                max(0, one.most * most),
                made=one.made,
            )
            for one in self.measures.design
        )
        design = (*model.measures.design, *more)
        return replace(
            model,
            names=(*model.names, *(f"{name} x bin" for name in self.names)),
            measures=replace(model.measures, design=design),
        )

    @property
    def n_columns(self) -> int:
        return len(self.names) + self.periods.n_bins

    @property
    def words(self) -> str:
        """Description of the statistic that the releases of all rounds belong to."""
        left = self.text.partition("~")[0].strip()
        return (
            f"Cox regression of {left} on {', '.join(self.names)}, with one baseline "
            f"over {', '.join(self.periods.labels)}"
        )

    @property
    def agreed(self) -> dict[str, Any]:
        return {
            "cox": {"times": self.times, "check": self.with_check},
            "formula": self.text,
            "codings": self.base.formula.codings,
            "measures": self.measures.terms,
            "schema": self.schema.to_table(),
        }

    @property
    def question(self) -> TableQuestion:
        edges = tuple(self.periods.edges.tolist())
        return TableQuestion(
            schema=self.asked_about,
            formula=self.base.formula.text,
            histograms={self.time: edges},
        )

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        ends = EndBins(self.periods, self.time, self.base.formula.response)
        return (*super().groups, ends)

    def recipe(self, limit: SumReleaseLimit | None = None) -> BinnedCoxRecipe:
        wide = None if self.wide is None else self.wide.newton
        if limit is not None:
            more = ROWS.size + (0 if wide is None else wide.scales.size)
            limit = replace(limit, before=limit.before + more)
        return BinnedCoxRecipe(
            NewtonFitRecipe(self.model.newton, self.words, limit), wide
        )

    def check(self, party: str, own: CutRows) -> None:
        """Refuse rows that go beyond ranges, or have no exposure."""
        super().check(party, own)
        with naming_party_in_error(party):
            self.periods.check(own.time)

    def check_at_home(self, home: TableRulesAtHome, own: CutRows) -> None:
        """Refuse a table of which rows few end in a bin, or bins point at few rows."""
        super().check_at_home(home, own)
        periods = self.periods
        bins, events = cox_row_ends(periods, own.time, own.event)
        for event, words in enumerate(("without the event", "with the event")):
            home.bins(f"{self.time}, rows {words}", np.bincount(bins[events == event]))
        at_risk = periods.exposures(own.time)[:, 1:] > 0.0
        ones = np.ones((len(at_risk), 1))
        design = np.hstack([ones, at_risk, self.without_ones(own).design])
        spent = np.minimum(own.time, periods.edges[-1])
        home.design(Rows(design, own.event, spent), self.model.names, intercept=0)

    def bring(self, table: CheckedTable) -> CutRows:
        own = self.timed_rows(table)
        found = self.periods.cut(own.time, own.event)
        flags = found.bin[:, None] == np.arange(1, self.periods.n_bins)
        columns = self.without_ones(own).design[found.row]
        design = np.hstack([np.ones((len(columns), 1)), flags, columns])
        pieces = Rows(design, found.event, offset=found.log_exposure)
        return CutRows(own.table, own.rows, own.time, pieces, found.bin, found.row)

    def answer(self, own: CutRows, request: BinnedRequest) -> Integers:
        pieces, model = own.pieces, self.model
        if request.check:
            assert self.wide is not None
            model, first = self.wide, self.periods.n_bins
            more = pieces.design[:, first:] * own.bins[:, None]
            pieces = replace(pieces, design=np.hstack([pieces.design, more]))
        with note_weights_of_people(own.people):
            found = glm.glm_statistics(model.newton.scales, pieces, request.inner)
        vector, places = np.full(self._first.size, 0, dtype=object), self._first.places
        vector[: len(found)] = found
        if not request.check:
            vector[places["left_out"]] = own.table.n_dropped
        if request.inner.stage == "first":
            vector[places["rows_before_cuts"]] = own.rows.n_rows
        return vector

    @cached_property
    def _first(self) -> NumberLayout:
        return self.recipe().first

    def pooled(self, own: Mapping[str, CutRows]) -> Vector:
        """Return the coefficients without masks, by the same rounds."""
        recipe, sums = replace(self, with_check=False).together(own)
        return recipe.answer(sums)


@dataclass(frozen=True)
class HazardTest:
    """A score test of coefficients that change with the number of the bin.

    Attributes:
        name: of the column, or of all together.
        statistic: chi-squared.
    """

    name: str
    statistic: float
    degrees: int

    @property
    def p_value(self) -> float:
        """The chance of at least so much if hazards are proportional."""
        return float(scipy.special.chdtrc(self.degrees, max(self.statistic, 0.0)))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BinnedCoxResult(HazardResult[GlmFit]):
    """A Cox regression of all parties' rows with one baseline over agreed times.

    Attributes:
        job: what was fitted.
    """

    job: BinnedCoxJob

    @property
    def _recipe(self) -> BinnedCoxRecipe:
        return cast("BinnedCoxRecipe", self.inner[0])

    @property
    def inference(self) -> Inference:
        """The coefficients of the formula's columns, and their covariance."""
        first = self.job.periods.n_bins
        return Inference(
            self.job.names,
            self.fit.coefficients[first:],
            self.fit.covariance[first:, first:],
            None,
        )

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: only this sum is known."""
        return int(self._recipe.unpack_first(self.inner[1])["left_out"])

    @property
    def n_rows(self) -> int:
        """The rows of all parties, before they are cut."""
        return int(self._recipe.unpack_first(self.inner[1])["rows_before_cuts"])

    count = n_rows

    @property
    def n_events(self) -> int:
        """Events up to the last agreed time."""
        return int(self._recipe.first_statistics(self.inner[1]).response_sum)

    @property
    def llf(self) -> float:
        """The log-likelihood of the Poisson regression, as R's glm has it."""
        return self.fit.log_likelihood

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the coefficients: the bins, and the formula's columns."""
        return self.job.model.names

    def compare_lr(self, other: BinnedCoxResult) -> TestOfFit:
        """Return the likelihood-ratio test of two nested fits, in any order.

        Both have the same agreed times: then each is a Poisson regression of the same
        pieces, and the difference of their log-likelihoods is that of the survival
        model with a baseline that is constant between these times.
        """
        large, small = fits_in_order(self, other)
        return likelihood_ratio_of_models(large.fit, small.fit)

    def rows_of_fit(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what tells which rows a fit is of, by its name."""
        counts, sums = self._recipe.base.counts, self.inner[1]
        return {
            "time and event": self.job.text.partition("~")[0].split(),
            "agreed times": self.job.times,
            "parties": self.released.members,
            "numbers of rows": (self.n_rows, self.fit.n_rows),
            "numbers of events": self.n_events,
            "sums over rows": (
                self._recipe.first_statistics(sums).offset_sum,
                sums_about_fit_columns(names, self.columns, counts, sums[0]),
            ),
        }

    @cached_property
    def _to_bins(self) -> FloatArray:
        """Map from coefficients to log hazards: the first bin's, and the steps."""
        n_bins = self.job.periods.n_bins
        found = np.zeros((n_bins, len(self.fit.names)))
        found[:, 0] = 1.0
        found[range(1, n_bins), range(1, n_bins)] = 1.0
        return found

    def baseline(self, level: float = 0.95) -> Any:
        """Return the hazard in each bin where all columns are 0, as a frame."""
        periods = self.job.periods
        value = self._to_bins @ self.fit.coefficients
        spread = self._to_bins @ self.fit.covariance @ self._to_bins.T
        reach = scipy.special.ndtri(0.5 + level / 2.0) * np.sqrt(np.diag(spread))
        made = {
            "from": periods.edges[:-1],
            "to": periods.edges[1:],
            "hazard": np.exp(value),
            "low": np.exp(value - reach),
            "high": np.exp(value + reach),
        }
        return load_pandas().DataFrame(made)

    def survival(
        self,
        covariates: Mapping[str, Any],
        times: Sequence[float] | None = None,
        *,
        level: float = 0.95,
    ) -> Any:
        """Return the predicted survival of a row with these covariates, as a frame.

        Args:
            covariates: one value for each column of the formula.
            times: from 0 to the last agreed one; by default all agreed ones.
            level: of the intervals, which are those of log(-log S).
        """
        row = self._row(covariates)
        periods = self.job.periods
        until: list[float] = periods.edges.tolist() if times is None else [*times]
        effects = self._to_bins.copy()
        effects[:, periods.n_bins :] = row
        hazards = np.exp(effects @ self.fit.coefficients)
        reach = float(scipy.special.ndtri(0.5 + level / 2.0))
        lines = []
        for one in until:
            met = periods.spent(one) * hazards
            total = float(met.sum())
            along = met @ effects / total if total else np.zeros(len(self.fit.names))
            error = sqrt(max(float(along @ self.fit.covariance @ along), 0.0))
            ends = total * np.exp(np.array([0.0, reach * error, -reach * error]))
            lines.append([one, *np.exp(-ends).tolist()])
        columns = ["time", "survival", "low", "high"]
        return load_pandas().DataFrame(lines, columns=columns)

    def _row(self, covariates: Mapping[str, Any]) -> Vector:
        schema, formula = self.job.schema, self.job.base.formula
        known = {*schema.names} - {self.job.time, formula.response}
        if set(covariates) != known:
            raise InvalidInputError(
                f"a curve needs one value for each of {', '.join(sorted(known))}, "
                f"found {', '.join(sorted(covariates)) or 'none'}",
                code="curve-length",
            )
        event = schema.column(formula.response)
        first = event.categories[0] if event.is_category else event.measure.low
        whole: dict[str, Any] = {
            self.job.time: schema.column(self.job.time).measure.high
        }
        whole |= {formula.response: first, **covariates}
        free = replace(schema, minimum_rows=1, maximum_rows=None)
        table = free.check("", as_frame({name: [one] for name, one in whole.items()}))
        design, _ = formula.design(replace(table, schema=schema))
        return np.asarray(np.delete(design[0], self.job.ones), dtype=np.float64)

    @cached_property
    def proportional(self) -> tuple[HazardTest, ...]:
        """Whether hazards are proportional: a score test for each column, and of all.

        Each is of the column times the number of the bin, beside all that is fitted.
        """
        wide = self.job.wide
        if wide is None:
            raise InvalidInputError(
                "hazards were not checked: ask for it with check = true",
                code="hazards-not-checked",
            )

        def test(name: str, places: Sequence[int]) -> HazardTest:
            statistic = self._recipe.hazard_statistic(self.inner[1], places)
            return HazardTest(name, statistic, len(places))

        more = range(len(self.fit.names), len(wide.names))
        each = [test(name, [k]) for name, k in zip(self.job.names, more, strict=True)]
        return (*each, test("all", more))

    def answered(self, level: float = 0.95) -> Rendering:
        """Return coefficients, hazard ratios and the baseline as tables."""
        members = len(self.released.members)
        title = f"Cox regression, one baseline over agreed times, {members} parties"
        return Rendering(title, [*self._blocks(level)])

    def _blocks(self, level: float) -> Iterator[Block]:
        fit = self.fit
        yield self.job.text, self.size_sentence
        yield from hazard_tables(self.inference, level)
        percent = f"{level:g}".removeprefix("0")
        rows = [
            [label, *(shown_number(one[key]) for key in ("hazard", "low", "high"))]
            for label, one in zip(
                self.job.periods.labels,
                self.baseline(level).to_dict("records"),
                strict=True,
            )
        ]
        head = [self.job.time, "hazard", f"lower {percent}", f"upper {percent}"]
        yield ShownTable(
            head, rows, "Baseline hazard, where all columns are 0:", "<..."
        )
        if self.job.with_check:
            title = "Proportional hazards, score tests of each column times bin:"
            tests: list[list[Cell]] = [
                [
                    one.name,
                    shown_number(one.statistic),
                    one.degrees,
                    shown_number(one.p_value, 3),
                ]
                for one in self.proportional
            ]
            yield ShownTable(["", "chisq", "df", "p"], tests, title, "<.>.")
        yield (
            f"Log-likelihood (Poisson) = {shown_number(fit.log_likelihood, 7)}, "
            f"AIC = {shown_number(fit.aic, 7)}",
            f"Released: {len(self.inner[1])} sums over all parties of "
            f"{self.recipe.size} numbers.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: those of every run, and the tables."""
        tests = self.proportional if self.job.with_check else ()
        return {
            **super().to_dict(),
            "n_rows": self.n_rows,
            "n_events": self.n_events,
            "dropped": self.dropped,
            "times": list(self.job.times),
            "baseline": self.baseline().to_dict("records"),
            "proportional": [{**vars(one), "p": one.p_value} for one in tests],
            "log_likelihood": self.fit.log_likelihood,
            "aic": self.fit.aic,
        }
