"""Numbers, and how far predictions are from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from veilsum.models.evaluation import ModelErrors, ModelErrorSums, join_model_errors
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.rows import Rows
from veilsum.numbers.layout import NumberLayout, layout_number as scalar
from veilsum.numbers.units import Integers
from veilsum.questions.evaluate.common import (
    EvaluatedRows,
    EvaluateJob,
    EvaluationResult,
    evaluated_responses,
    evaluated_shares,
)
from veilsum.showing import Block, Rendering, ShownTable, shown_number
from veilsum.sums.recipes import OneRoundRecipe, Sums
from veilsum.sums.releases import SumReleaseLimit
from veilsum.sums.running import plain_result_values
from veilsum.tables.rules import TableRulesAtHome

NAMES = {
    "r_squared": "R squared on these rows",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "bias": "mean of predictions less responses",
    "calibration_intercept": "intercept of responses on predictions",
    "calibration_slope": "slope of responses on predictions",
}


@dataclass(frozen=True, eq=False)
class ErrorsRecipe(OneRoundRecipe):
    """One sum of responses, predictions and errors.

    Attributes:
        what: is asked, for the ledger.
        sums_of: in what units.
        limit: how many numbers may be released.
    """

    asked = "sums of errors"

    what: str
    sums_of: ModelErrorSums
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        return self.sums_of.layout + NumberLayout((scalar("left_out"),))

    def errors(self, sums: Sums) -> ModelErrors:
        return self.sums_of.errors(self.layout.unpack(sums[0]))

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        return {"rows": self.layout.unpack(sums[0])["rows"]}

    def check_sum(self, sums: Sums) -> None:
        """Refuse sums, and sums of squares, that are impossible."""
        super().check_sum(sums)
        self.sums_of.check(self.layout.unpack(sums[0]))


@dataclass(frozen=True)
class EvaluateErrorsJob(EvaluateJob):
    """Numbers, and how far predictions are from them."""

    follows = (
        "the part of the response's squares that is predicted, the mean squared and "
        "absolute error, and the line of responses on predictions"
    )

    @cached_property
    def sums_of(self) -> ModelErrorSums:
        return ModelErrorSums(self.known)

    def recipe(self, limit: SumReleaseLimit | None = None) -> ErrorsRecipe:
        return ErrorsRecipe(self.words, self.sums_of, limit)

    def check_at_home(self, home: TableRulesAtHome, own: EvaluatedRows) -> None:
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

    def answer(self, own: EvaluatedRows, request: str) -> Integers:
        found = self.sums_of.vector(self.known.responses(own.rows), own.mean)
        return np.append(found, own.table.n_dropped)

    def pooled(self, own: Mapping[str, EvaluatedRows]) -> dict[str, float]:
        response = evaluated_responses(own)
        mean = np.concatenate([one.mean for one in own.values()])
        mae = float(np.mean(np.abs(response - mean)))
        return {**evaluated_shares(response, mean), "mae": mae}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NumberEvaluation(EvaluationResult):
    """Errors of predicted numbers against observed ones."""

    @cached_property
    def errors(self) -> ModelErrors:
        """Sums of errors, and what follows from them."""
        recipe, sums = self.inner
        return join_model_errors(self.folds) if self.folds else recipe.errors(sums)

    @cached_property
    def folds(self) -> tuple[ModelErrors, ...]:
        """The errors of each fold that has rows; nothing without folds."""
        recipe, sums = self.inner
        return () if isinstance(recipe, ErrorsRecipe) else recipe.errors(sums)

    @property
    def fit(self) -> LeastSquaresFit | None:
        """With folds, the fit of all rows together."""
        recipe, sums = self.inner
        return recipe.fits(sums)[0] if self.folds else None

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

    def answered(self) -> Rendering:
        """Return all of it, to be seen."""
        lines = [[NAMES[key], shown_number(one)] for key, one in self.values.items()]
        parts: list[Block] = [ShownTable(("", "value"), lines, align="<.")]
        if self.fit is not None:
            each: list[list[Any]] = [
                [
                    f"fold {k}",
                    one.n_rows,
                    shown_number(one.r_squared),
                    shown_number(one.rmse),
                ]
                for k, one in enumerate(self.folds, start=1)
            ]
            parts += [
                ShownTable(("", "rows", "R squared", "RMSE"), each, align="<>.."),
                "R squared of the fit of all rows is "
                f"{shown_number(self.fit.r_squared)}. "
                "Each fold is predicted by a fit of all others. Rows with equal "
                "predictors are in one fold.",
            ]
        return Rendering(self.formula, [*parts, self.rows_sentence])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        each = (
            {"rows": one.n_rows, "r_squared": one.r_squared, "rmse": one.rmse}
            for one in self.folds
        )
        return {**super().to_dict(), "folds": [*map(plain_result_values, each)]}

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the fit of predictions, or the error of each fold."""
        caption = figures.job_caption(self, self.count)
        if self.folds:
            values = {f"fold {k + 1}": one.rmse for k, one in enumerate(self.folds)}
            words = "root mean squared error, each fold by a fit of the others"
            return figures.values_figure(
                {**values, "all": self.errors.rmse},
                "root mean squared error",
                figures.chosen_title(title, words.capitalize()),
                f"R squared {self.errors.r_squared:.3f}. {caption}",
            )
        intercept, slope = self.errors.calibration
        values = {"R squared": self.errors.r_squared, "slope": slope}
        return figures.values_figure(
            values,
            "1 where predictions are perfect",
            figures.chosen_title(title, "How well numbers are predicted"),
            f"root mean squared error {self.errors.rmse:.4g}, bias "
            f"{self.errors.bias:.4g}, intercept {intercept:.4g}. {caption}",
        )
