"""Chances of an event, counted by agreed bins of the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import isfinite
from types import ModuleType
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.fitting import NewtonFitRecipe
from veilsum.fits.model import FitModel
from veilsum.models import glm
from veilsum.models.evaluation import (
    CHANCE_BITS,
    BinBoundedNumber,
    CalibrationOfModel,
    Discrimination,
    Places,
    bins_of_values,
    predictor_bin_edges,
    predictor_bin_labels,
    sums_by_bin,
)
from veilsum.models.families import Binomial, QuasiBinomial
from veilsum.models.glm import GlmFit, GlmRequest
from veilsum.models.plausible import check_plausible_total
from veilsum.models.rows import ONES, PerRow, RowMeasures, Rows
from veilsum.numbers.arrays import Vector
from veilsum.numbers.layout import (
    NumberLayout,
    layout_array,
    layout_number as scalar,
    range_within_bits,
)
from veilsum.numbers.units import Integers, UnitCounts, sum_bits
from veilsum.questions.evaluate.common import (
    BINS,
    EvaluatedRows,
    EvaluateJob,
    EvaluationResult,
    RowBins,
    agreed_evaluate_terms,
    evaluated_responses,
    evaluation_bounds_in_words,
    plain_evaluation_bounds,
)
from veilsum.showing import Rendering, ShownTable, shown_number
from veilsum.sums.presence import PresenceGroup
from veilsum.sums.recipes import SumRecipe, Sums, row_counts_by_cell
from veilsum.sums.releases import PossibleRound, SumRelease, SumReleaseLimit
from veilsum.sums.running import plain_result_values
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import TableRulesAtHome

# Bins of a chance where nobody has said others.
TENTHS = tuple(k / 10 for k in range(1, 10))
# Unit of predicted chances and their squared errors.
CHANCE = Fraction(1, 2**CHANCE_BITS)


@dataclass(frozen=True, eq=False)
class EvaluateBinsRecipe(SumRecipe):
    """One sum of counts by bin; then, if asked for, a fit of linear predictors.

    Attributes:
        words: what is asked, for the ledger.
        refit: the regression of responses on linear predictors.
        limit: how many numbers may be released.
    """

    words: str
    n_bins: int
    refit: NewtonFitRecipe | None
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        """Rows and predictions by bin, squared errors, and rows left out."""
        n, bits = self.n_bins, sum_bits([CHANCE_BITS + 1])
        chance = range_within_bits(CHANCE_BITS + 1)
        return NumberLayout(
            (
                layout_array("bin_events", n),
                layout_array("bin_non_events", n),
                layout_array("bin_predictions", n, CHANCE, bits, chance),
                scalar("squared_errors", CHANCE, bits, chance),
                scalar("left_out"),
            )
        )

    @cached_property
    def counts(self) -> UnitCounts:
        """Units of the first sum; beyond its numbers, those of the fit."""
        own = self.layout.counts
        if self.refit is None:
            return own
        fit = self.refit.counts
        units = (*own.units, *fit.units[self.layout.size :])
        return UnitCounts(units, max(own.bits, fit.bits))

    def parts(self, sums: Sums) -> dict[str, Any]:
        return self.layout.unpack(sums[0][: self.layout.size])

    @property
    def answer_size(self) -> int:
        return self.layout.size + 2 * (self.refit is not None)

    @property
    def most_numbers(self) -> int:
        further = 0 if self.refit is None else self.refit.most_numbers
        return self.layout.size + further

    @property
    def most_rounds(self) -> int:
        return 1 + (0 if self.refit is None else self.refit.most_rounds)

    def _further(self, sums: Sums) -> Sums:
        assert self.refit is not None
        return [one[: self.refit.size] for one in sums[1:]]

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        parts = self.parts(sums)
        return row_counts_by_cell((parts["bin_events"], parts["bin_non_events"]))

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
            check_plausible_total(f"predictions in bin {k}", int(one), 0, most)
        check_plausible_total("squared errors", parts["squared_errors"], 0, rows.sum())

    def request(self, sums: Sums) -> str | GlmRequest | None:
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

    def release(self, sums: Sums) -> SumRelease:
        if not sums:
            return SumRelease.from_layout(self.words, self.layout)
        assert self.refit is not None
        return self.refit.release(self._further(sums))

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """Counts by bin first, then what the fit shows."""
        if self.refit is None:
            return (PossibleRound.from_layout("only", self.layout),)
        start, *others = self.refit.foreseen
        start = replace(start, when="predictors")
        return (PossibleRound.from_layout("first", self.layout), start, *others)


@dataclass(frozen=True)
class EvaluateBinsJob(EvaluateJob):
    """Chances of an event, by agreed bins.

    Attributes:
        calibrated: whether responses are fitted to linear predictors as well.
    """

    follows = (
        "the curve of true against false positives and the area below it, sensitivity "
        "and specificity at each edge, the calibration curve, Brier's score, and tests"
    )

    edges: tuple[float, ...] = TENTHS
    calibrated: bool = True

    def __post_init__(self) -> None:
        _ = self.thresholds
        if self.base.formula.response_is_shaped:
            raise InvalidInputError(
                "the response must be a column, and none of those that it is predicted "
                f"from, found {self.base.formula.text}",
                code="response-predicts-itself",
            )
        if self.calibrated and self.known.ends[0] == self.known.ends[1]:
            raise InvalidInputError(
                "all rows have one prediction, so that nothing can be fitted to it: "
                "give calibration = false, or other coefficients",
                code="constant-prediction",
            )

    @cached_property
    def thresholds(self) -> Vector:
        return predictor_bin_edges(self.edges, 0.0, 1.0)

    @cached_property
    def bins(self) -> RowBins:
        return RowBins("bins of the prediction", predictor_bin_labels(self.thresholds))

    @cached_property
    def refit(self) -> FitModel | None:
        """Responses on linear predictors: 0 and 1 where a model is calibrated."""
        if not self.calibrated:
            return None
        family, own = self.known.family, self.base.model.measures
        return FitModel(
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
        more = ", and refitted" if self.calibrated else ""
        return f"{super().words}, in bins at {list(self.edges)}{more}"

    @property
    def agreed(self) -> dict[str, Any]:
        return agreed_evaluate_terms(
            self,
            self.base.formula.text,
            edges=self.edges,
            calibration=self.calibrated,
        )

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        return (*super().groups, self.bins)

    def places(self, mean: PerRow) -> Places:
        return bins_of_values(self.thresholds, mean)

    def recipe(self, limit: SumReleaseLimit | None = None) -> EvaluateBinsRecipe:
        alone = EvaluateBinsRecipe(self.words, len(self.edges) + 1, None, limit)
        if self.refit is None:
            return alone
        room = limit and replace(limit, before=limit.before + alone.size)
        return replace(
            alone, refit=NewtonFitRecipe(self.refit.newton, self.words, room)
        )

    def check_at_home(self, home: TableRulesAtHome, own: EvaluatedRows) -> None:
        """Refuse a table of which a bin, or the prediction, would point at few rows.

        Bins are looked at with and without the event together: whoever asks chooses
        what is predicted, but not what happened to a row. The sum of predictions in a
        bin is one of a number in a group, and is looked at as such.
        """
        self.base.check_at_home(home, own)
        labels = self.bins.places
        home.bins("the prediction", self.bins.count(lambda _: own.places), labels)
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

    def answer(self, own: EvaluatedRows, request: str | GlmRequest) -> Integers:
        recipe = self.recipe()
        if isinstance(request, GlmRequest):
            assert self.refit is not None
            line = np.column_stack([np.ones(len(own.mean)), own.predictor])
            rows = Rows(line, own.rows.response)
            found = glm.glm_statistics(self.refit.newton.scales, rows, request)
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

    def pooled(self, own: Mapping[str, EvaluatedRows]) -> dict[str, float]:
        """Return the area and Brier's score of all rows, without bins."""
        mean = np.concatenate([one.mean for one in own.values()])
        response = evaluated_responses(own)
        _, ranks, times = np.unique(mean, return_inverse=True, return_counts=True)
        middle = np.cumsum(times) - (times - 1) / 2.0
        yes = response > 0.5
        n_yes, n_no = yes.sum(), (~yes).sum()
        above = middle[ranks[yes]].sum() - n_yes * (n_yes + 1) / 2.0
        area = float(above / (n_yes * n_no)) if n_yes and n_no else float("nan")
        return {"auc": area, "brier": float(np.mean((response - mean) ** 2))}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ChanceEvaluation(EvaluationResult):
    """Quality of predicted chances of an event.

    Attributes:
        job: job of the evaluation.
    """

    job: EvaluateBinsJob

    @cached_property
    def found(self) -> Discrimination:
        """Counts of all parties' rows by bin, and what follows from them."""
        recipe, sums = self.inner
        return recipe.found(sums, self.job.thresholds)

    @cached_property
    def refit(self) -> GlmFit | None:
        """The regression of responses on linear predictors, if it was asked for."""
        recipe, sums = self.inner
        return recipe.fit(sums)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.found.n_rows

    @property
    def auc(self) -> BinBoundedNumber:
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

    def hosmer_lemeshow(self, *, fitted: bool = False) -> CalibrationOfModel:
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

    def answered(self, level: float = 0.95) -> Rendering:
        """Return all of it, to be seen."""
        found, test = self.found, self.hosmer_lemeshow()
        lines = [
            *evaluation_bounds_in_words("area under the ROC curve", self.auc, level),
            f"Brier's score: {found.brier:.4f}, scaled {found.scaled_brier:.4f}",
            f"events: {found.n_events} observed, {found.expected:.1f} expected",
            f"Hosmer-Lemeshow: chi2 = {test.statistic:.4g}, df = {test.degrees}, "
            f"p = {test.p:.3g}",
        ]
        if self.refit is not None:
            errors = self.refit.standard_errors.tolist()
            pairs = zip(self.refit.coefficients.tolist(), errors, strict=True)
            first, second = (
                f"{shown_number(one)} (standard error {shown_number(error)})"
                for one, error in pairs
            )
            lines.append(f"calibration: intercept {first}, slope {second}")
        tenths = [
            [name, rows, events, *(f"{one:.4f}" for one in rest)]
            for name, rows, events, *rest in (
                line.values() for line in found.calibration(level)
            )
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
        return Rendering(
            self.formula,
            [
                tuple(lines),
                ShownTable(heads, tenths, align="<>>>>>>"),
                ShownTable(above, edges, align=">>>>>"),
                note,
                self.rows_sentence,
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        test = self.hosmer_lemeshow()
        return {
            **super().to_dict(),
            "edges": list(self.job.edges),
            "auc": plain_evaluation_bounds(self.auc),
            "events": self.found.events.tolist(),
            "others": self.found.others.tolist(),
            "thresholds": [*map(plain_result_values, self.found.thresholds())],
            "calibration": self.found.calibration(),
            "hosmer_lemeshow": plain_result_values(test._asdict()),
            "calibration_errors": None
            if self.refit is None
            else self.refit.standard_errors.tolist(),
        }

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the ROC curve and the calibration."""
        usual = "How well chances are predicted"
        caption = figures.job_caption(self, self.count)
        return evaluation_figure(
            figures, self, figures.chosen_title(title, usual), caption
        )


def evaluation_figure(
    figures: ModuleType, result: ChanceEvaluation, title: str = "", caption: str = ""
) -> Any:
    """Return the ROC curve, and below it what was predicted and what happened."""
    figure, (upper, lower) = figures.figure_panels(
        3.1, 3.1, title=title, caption=caption
    )
    false, true = result.found.roc()
    # Between two edges the curve may be anywhere in the box that they span.
    for a, b in pairwise(zip(false.tolist(), true.tolist(), strict=True)):
        sides = [a[0], b[0]], [a[1], a[1]], [b[1], b[1]]
        upper.fill_between(*sides, color=figures.BLUE, alpha=0.15, linewidth=0)
    upper.plot(false, true, color=figures.BLUE, marker="o", ms=4)
    area = result.auc
    words = f"area {area.value:.3f}\nbins allow {area.least:.3f} to {area.largest:.3f}"
    upper.text(
        0.98, 0.04, words, ha="right", fontsize=figures.SMALL, color=figures.BLUE
    )
    upper.set(xlabel="1 - specificity", ylabel="sensitivity")
    lines = result.found.calibration()
    places = [one["predicted"] for one in lines]
    heights = [one["observed"] for one in lines]
    ends = [
        [one["observed"] - one["low"] for one in lines],
        [one["high"] - one["observed"] for one in lines],
    ]
    lower.errorbar(
        places, heights, yerr=ends, color=figures.ORANGE, marker="o", ms=4, lw=1.2
    )
    words = f"Brier {result.brier:.3f}"
    if result.slope is not None:
        words = f"slope {result.slope[1]:.3f}\nintercept {result.slope[0]:.3f}\n{words}"
    lower.text(
        0.98, 0.04, words, ha="right", fontsize=figures.SMALL, color=figures.ORANGE
    )
    lower.set(xlabel="predicted", ylabel="observed, 95 % by Wilson")
    for axis in (upper, lower):
        axis.plot(
            [0.0, 1.0], [0.0, 1.0], color=figures.GREY, linestyle=":", linewidth=1.0
        )
        axis.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axis.grid(visible=True, alpha=0.3)
    return figure
