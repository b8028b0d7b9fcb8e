"""Other families, fitted without each fold in rounds and tried on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from veilsum.fits.fitting import LEFT_OUT, fading_fit_columns
from veilsum.fits.formula_job import FormulaRows
from veilsum.locale import WITHOUT_FOLD
from veilsum.models.refits import (
    MeanLoss,
    RefitLosses,
    Refits,
    RefitsState,
    Stage,
    deviance_explained_by_refits,
)
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Vector, listed_names
from veilsum.numbers.layout import NumberLayout
from veilsum.numbers.units import Integers
from veilsum.questions.evaluate.common import EvaluationResult
from veilsum.questions.evaluate.folds import EvaluateFoldsJob, evaluated_rows_where
from veilsum.showing import Rendering, ShownTable, shown_number
from veilsum.sums.recipes import IterativeRecipe, Sums
from veilsum.sums.releases import PossibleRound, SumRelease, SumReleaseLimit
from veilsum.sums.running import plain_result_values
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import MORE_SUMS, TableRulesAtHome


@dataclass(frozen=True, eq=False)
class EvaluateRefitsRecipe(IterativeRecipe[RefitsState]):
    """Rounds of a fit without each fold, side by side, and then one on the folds.

    Attributes:
        what: is asked, for the ledger.
        limit: how many numbers may be released.
    """

    search: Refits
    what: str
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        return self.search.layout + LEFT_OUT

    @property
    def answer_size(self) -> int:
        """The coefficients without each fold, and three sums of it."""
        return self.search.n_folds * (self.search.newton.n_columns + 3)

    @property
    def most(self) -> int:
        """Most sums, including those for rows outside and the two about folds."""
        return 2 * self.search.newton.max_rounds + 2

    def unfinished(self, state: RefitsState) -> str:
        """Return what to say of searches for which no room is left."""
        told = (
            f"the fits without each fold have not all converged in {self.most_rounds} "
            "sums, and more than that there is no room for: use fewer folds or "
            f"columns, or {MORE_SUMS}"
        )
        for k, one in enumerate(state.fits, start=1):
            if fading := self.search.newton.fading_columns(one):
                return (
                    f"without fold {k} the coefficient of {listed_names(fading)} seems "
                    "to "
                    f"grow without end: leave the column out. And {told}"
                )
        return told

    def suspected(self, sums: Sums) -> str:
        """Return the columns whose information has faded without one of the folds."""
        newton, fits = self.search.newton, enumerate(self.state(sums).fits, start=1)
        found = (
            fading_fit_columns(newton, one, f"Without fold {k}: the") for k, one in fits
        )
        return next(filter(None, found), "")

    def losses(self, sums: Sums) -> tuple[RefitLosses, ...]:
        """Return how far each fit is from the fold that it was made without."""
        found = self.state(sums).losses
        assert found is not None
        return found

    def coefficients(self, sums: Sums) -> tuple[Vector, ...]:
        return self.search.coefficients(self.state(sums))

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients, and then deviances and squared errors by fold."""
        losses = [list(map(float, one[1:])) for one in self.losses(sums)]
        return np.concatenate([*self.coefficients(sums), *losses])

    def _shown(self, stage: Stage) -> dict[str, int]:
        k = self.search.n_folds
        if stage == "beyond":
            shown = {"fold_rows_outside": k}
        elif stage == "losses":
            shown = {"fold_deviances": 2 * k, "fold_squared_errors": k}
        else:
            each = self.search.newton.scales.layout(stage).released.items()
            shown = {WITHOUT_FOLD + key: k * count for key, count in each}
        return shown | {"left_out": 1}

    def release(self, sums: Sums) -> SumRelease:
        request = self.search.propose(self.state(sums))
        point = self.search.real_points(request)
        return SumRelease(self.what, self._shown(request.stage), point)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        most = self.most_rounds
        kinds: tuple[tuple[str, Stage, int, int], ...] = (
            ("first", "first", 1, 1),
            ("tries", "round", 1, most - 2),
            ("outside", "outside", 0, most - 3),
            ("beyond", "beyond", 0, 1),
            ("losses", "losses", 1, 1),
        )
        return tuple(
            PossibleRound(when, self._shown(stage), least, most)
            for when, stage, least, most in kinds
        )


class EvaluateRefitsJob(EvaluateFoldsJob):
    """Another family, fitted without each fold in rounds and tried on it."""

    follows = (
        "the coefficients without each fold, and how well each fold is predicted by "
        "them"
    )

    @cached_property
    def refits(self) -> Refits:
        return Refits(self.base.model.newton, self.n_folds)

    @property
    def is_chance(self) -> bool:
        """Whether responses are 0 and 1, and nothing in between."""
        return bool(self.base.family.levels)

    def check_at_home(self, home: TableRulesAtHome, own: FormulaRows) -> None:
        """Refuse as other folds do; and folds of what has no largest value at all.

        A fit without a fold may miss one of its rows by more than all others together,
        and the fold's deviance is that row's then. No table shows beforehand which.
        """
        home.bounded(self.base.model.response, bounded=self.is_chance)
        super().check_at_home(home, own)

    def recipe(self, limit: SumReleaseLimit | None = None) -> EvaluateRefitsRecipe:
        return EvaluateRefitsRecipe(self.refits, self.words, limit)

    def answer(self, own: FormulaRows, request: Any) -> Integers:
        found = self.refits.statistics(self.parts(own), request)
        return np.append(found, own.table.n_dropped)

    def pooled(self, own: Mapping[str, FormulaRows]) -> dict[str, float]:
        """Return what one owner of all rows finds: a fit by itself without each fold.

        And losses row by row.
        """
        folds = np.concatenate([self.folds(one) for one in own.values()])
        design = np.concatenate([one.rows.design for one in own.values()])
        response = np.concatenate([one.rows.response for one in own.values()])
        rows, family = Rows(design, response), self.base.family
        eta, null = np.empty(len(folds)), np.empty(len(folds))
        for k in np.unique(folds):
            here, others = folds == k, evaluated_rows_where(rows, folds != k)
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FoldsEvaluation(EvaluationResult):
    """Quality of a fit in rounds on held-out rows.

    Attributes:
        job: job of the evaluation.
    """

    job: EvaluateRefitsJob

    @cached_property
    def folds(self) -> tuple[RefitLosses, ...]:
        """Losses in each fold, by the fit without it."""
        recipe, sums = self.inner
        return recipe.losses(sums)

    @property
    def coefficients(self) -> Frame:
        """Coefficients of the fit without each fold, one line per fold."""
        recipe, sums = self.inner
        names = self.job.base.formula.columns
        return load_pandas().DataFrame(recipe.coefficients(sums), columns=names)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return sum(one.n_rows for one in self.folds)

    def _mean(self, loss: Callable[[RefitLosses], Fraction]) -> MeanLoss:
        rows = [one.n_rows for one in self.folds]
        return MeanLoss.of(rows, [loss(one) for one in self.folds])

    @property
    def deviance(self) -> MeanLoss:
        """The mean deviance of a row, by the fit without its fold."""
        return self._mean(lambda one: one.deviance)

    @property
    def squared_error(self) -> MeanLoss:
        """The mean squared error: Brier's score, of 0 and 1."""
        return self._mean(lambda one: one.squared)

    @property
    def log_loss(self) -> MeanLoss | None:
        """The mean of -log(chance of what happened); None for numbers."""
        return self._mean(lambda one: one.deviance / 2) if self.job.is_chance else None

    @property
    def explained_deviance(self) -> float:
        """Fraction of the deviance of intercept-only fits that is explained."""
        return deviance_explained_by_refits(self.folds)

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

    def answered(self) -> Rendering:
        """Return all of it, to be seen."""
        means: list[list[Any]] = [
            [name, shown_number(one.value), shown_number(one.standard_error)]
            for name, one in self._told.items()
        ]
        halves = 2 if self.job.is_chance else 1
        each: list[list[Any]] = []
        for k, (n, deviance, _, squared) in enumerate(self.folds, start=1):
            if n:
                means_of_fold = deviance / halves / n, squared / n
                each.append(
                    [f"fold {k}", n, *(shown_number(float(x)) for x in means_of_fold)]
                )
        told = (
            f"{self.explained_deviance:.1%} of the deviance of fits with an intercept "
            "alone is explained. Each fold is predicted by a fit of all others; values "
            "are means over rows, and their errors follow from how folds differ. Rows "
            "with equal predictors are in one fold."
        )
        return Rendering(
            f"{self.formula}, {self.job.base.family.name}",
            [
                ShownTable(("", "mean", "std err"), means, align="<.."),
                ShownTable(("", "rows", *self._told), each, align="<>.."),
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
            "standard_errors": plain_result_values(errors),
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

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the mean deviance of each fold."""
        halves = 2 if self.job.is_chance else 1
        word = "log-loss" if self.job.is_chance else "deviance"
        values = {
            f"fold {k + 1}": float(one.deviance / halves / one.n_rows)
            for k, one in enumerate(self.folds)
            if one.n_rows
        }
        mean = self.log_loss or self.deviance
        return figures.values_figure(
            {**values, "all": mean.value},
            f"mean {word} of a row, by the fit without its fold",
            figures.chosen_title(
                title, f"{self.explained_deviance:.1%} of the deviance is explained"
            ),
            figures.job_caption(self, self.count),
            ends={
                "all": (
                    mean.value - mean.standard_error,
                    mean.value + mean.standard_error,
                )
            },
        )
