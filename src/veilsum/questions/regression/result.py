"""Results of a regression: coefficients, tests, predictions and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.comparisons import (
    Fit,
    TestOfFit,
    f_test_of_models,
    likelihood_ratio_of_models,
    score_test_of_models,
)
from veilsum.fits.fitted import Fitted, fits_in_order, fitted_table_rows
from veilsum.fits.fitting import FitStrategy
from veilsum.fits.formula_job import FormulaJob
from veilsum.fits.model import FitModel, FitRowsJob
from veilsum.fits.wrappers import ScoreFitRecipe
from veilsum.locale import limit_phrase
from veilsum.models.choices import (
    ChoiceFit,
    ChoiceModel,
)
from veilsum.models.glm import GlmFit
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.numbers.arrays import FloatArray, listed_names
from veilsum.questions.regression.predictions import (
    Interval,
    MarginalMeans,
    ReferenceGrid,
    Scale,
    predicted_means,
    regression_marginal_means,
)
from veilsum.questions.regression.summary import (
    regression_ratio_name,
    regression_ratio_rows,
    summary_html,
    summary_text,
)
from veilsum.showing import Rendering, ShownBothWays
from veilsum.sums.recipes import Sums
from veilsum.sums.running import finite_or_none
from veilsum.tables.formula import (
    new_column_numbers,
)
from veilsum.tables.frames import Frame, as_frame, load_pandas


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitResult(Fitted[LeastSquaresFit | GlmFit]):
    """A fit of all parties' rows, and what they released for it.

    Attributes:
        job: what was fitted, with its formula unless it was to arrays.
    """

    compared_with: ClassVar[str] = "the pooled fit"

    job: FormulaJob | FitRowsJob

    @property
    def compared_by(self) -> str:  # type: ignore[override]
        """Algorithm of the pooled fit, in words."""
        return self.model.strategy.compared_by

    @property
    def model(self) -> FitModel:
        """Fitted model."""
        return self.job.model

    def ratio_name(self) -> str:
        """Return the name of exp(coefficient); refuse where it is not a ratio."""
        return regression_ratio_name(self.fit).partition(" (")[0].partition(" ")[2]

    def is_intercept(self, name: str) -> bool:
        """Say so of intercepts of each level, and of thresholds between two as well."""
        if not isinstance(self.model.family, ChoiceModel):
            return super().is_intercept(name)
        return super().is_intercept(name.rpartition(": ")[2]) or "|" in name

    @property
    def further_limits(self) -> tuple[str, ...]:
        """Facts that the rules about rows do not hide."""
        words = self.model.weighed_by
        more = () if words is None else (limit_phrase("weighed", by=words),)
        return (*super().further_limits, *more)

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: the last number of the fit's sum."""
        strategy, sums = self._fitting
        return strategy.left_out(sums)

    @property
    def response_mean(self) -> float:
        """Mean response of a fit in rounds, from its first sum."""
        strategy, sums = self._fitting
        return strategy.response_mean(sums)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.fit.n_rows

    nobs = count

    @property
    def df_resid(self) -> float:
        """Rows less coefficients in effect."""
        return self.fit.residual_degrees

    @property
    def df_model(self) -> float:
        """Coefficients in effect; intercepts and thresholds are not counted."""
        intercepts = max(len(self.model.levels) - 1, 1)
        return self.fit.model_degrees - intercepts * (self.model.intercept is not None)

    @property
    def llf(self) -> float:
        """The log-likelihood."""
        return self.fit.log_likelihood

    @property
    def aic(self) -> float:
        """-2 llf + 2 coefficients."""
        return self.fit.aic

    @property
    def bic(self) -> float:
        """-2 llf + log(nobs) coefficients."""
        return self.fit.bic

    @property
    def scale(self) -> float:
        """The residual variance of least squares, or the dispersion."""
        return self.fit.scale

    @property
    def rsquared(self) -> float:
        """Explained fraction of the response's squares, in least squares."""
        return self._least_squares("rsquared").r_squared

    @property
    def rsquared_adj(self) -> float:
        """The same, adjusted for the number of columns."""
        return self._least_squares("rsquared_adj").adjusted_r_squared

    def _least_squares(self, what: str) -> LeastSquaresFit:
        if not isinstance(self.fit, LeastSquaresFit):
            raise InvalidInputError(
                f"{what} is for least squares, found {self.model.family.name}: see "
                "deviance and null_deviance of .fit",
                code="only-least-squares",
            )
        return self.fit

    def ratios(self, level: float = 0.95) -> Frame:
        """Return exp of coefficients, such as odds ratios, with their intervals."""
        rows = regression_ratio_rows(self.fit, level)
        return load_pandas().DataFrame(rows).set_index("name")

    def compare_lr(self, other: FitResult) -> TestOfFit:
        """Return the likelihood-ratio test of two nested fits, in any order."""
        return likelihood_ratio_of_models(*self._nested(other))

    def compare_f(self, other: FitResult) -> TestOfFit:
        """Return the F test of two nested fits with an estimated dispersion."""
        return f_test_of_models(*self._nested(other))

    def compare_score(self, other: FitResult) -> TestOfFit:
        """Return the score test of two nested least squares fits."""
        return score_test_of_models(*self._nested(other))

    def score_test(self, columns: Sequence[str] | None = None) -> TestOfFit:
        """Return the score test of the columns that `further` named, as R's Rao.

        Args:
            columns: some of them, by name; all by default.
        """
        recipe, sums = self.inner
        if not isinstance(recipe, ScoreFitRecipe):
            raise InvalidInputError(
                "a score test is of columns beside the fit, and takes one more sum: "
                'fit with further="..."',
                code="score-test-unavailable",
            )
        for one in columns or ():
            if one not in self.model.tested:
                raise InvalidInputError(
                    f"{one!r} is not among the columns that are tested: "
                    f"{listed_names(self.model.tested)}",
                    code="unknown-tested-column",
                )
        return recipe.test(sums, columns)

    @property
    def _fitting(self) -> tuple[FitStrategy, Sums]:
        """The strategy of the fit itself, and its sums; one for errors may follow."""
        recipe, sums = self.inner
        return recipe.fitting, sums

    def _nested(self, other: FitResult) -> tuple[Fit, Fit]:
        """Return the larger fit and the smaller; refuse what cannot be compared."""
        large, small = fits_in_order(self, other)
        return large.fit, small.fit

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that have coefficients."""
        return self.model.slopes

    def rows_of_fit(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what tells which rows a fit is of, and by which law, by its name.

        The first sum's part about some columns is one of rows alone, to the last
        digit, whatever other columns there are.
        """
        strategy, sums = self._fitting
        job, columns = self.job, None
        if isinstance(job, FormulaJob):
            columns = job.weights, job.offset
        return {
            "response": self.model.response,
            "family": self.model.terms["family"],
            "ridge": self.model.ridge,
            "weights and offset": columns,
            "parties": self.released.members,
            "numbers of rows": self.fit.n_rows,
            "intercepts": self.model.intercept is not None,
            "sums over rows": strategy.about_rows(sums, names, self.columns),
        }

    def predict(
        self,
        new_data: Any,
        *,
        interval: Interval | None = None,
        level: float = 0.95,
        scale: Scale = "response",
    ) -> Any:
        """Return the mean of new rows; with an interval a table by statsmodels' names.

        Of a choice among levels it is the chance of each of them.

        Args:
            new_data: a table with the columns on the formula's right side, and the
                offset's; its levels are checked. Of a fit of arrays, a design.
            interval: "confidence" for the mean, "prediction" for a new response.
            level: of the interval.
            scale: "response", or "link" for the sum over columns.
        """
        offset: Any = 0.0
        pandas = load_pandas()
        if isinstance(self.job, FitRowsJob):
            design = np.asarray(new_data, dtype=np.float64)
            if design.ndim != 2 or design.shape[1] != len(self.model.names):
                raise InvalidInputError(
                    f"a fit of arrays predicts for {len(self.model.names)} columns, "
                    f"found shape {design.shape}",
                    code="wrong-shape",
                )
            if self.model.measures.offset is not None:
                raise InvalidInputError(
                    "a fit of arrays with offsets predicts nothing by itself: add "
                    "offsets to design @ coefficients, and take the inverse link",
                    code="offset-not-known",
                )
            index = pandas.RangeIndex(len(design))
        else:
            frame = as_frame(new_data)
            design = self.job.formula.design_at(frame)[:, self.model.fitted]
            index = frame.index
            if (name := self.job.offset) is not None:
                offset = new_column_numbers(frame, name)
        fit, variance = self.fit, None
        if isinstance(fit, ChoiceFit):
            if interval is not None or scale != "response":
                raise InvalidInputError(
                    "the chances of levels come without an interval, and on their own "
                    f"scale, found interval = {interval!r} and scale = {scale!r}: "
                    "leave both out",
                    code="interval-of-choice",
                )
            assert self.model.intercept is not None
            return _predicted_level_chances(fit, design, self.model.intercept, index)
        weighted = self.model.measures.weights is not None
        if isinstance(fit, LeastSquaresFit) and fit.errors == "model" and not weighted:
            variance = fit.residual_variance
        found = predicted_means(
            fit,
            design,
            self.model.family,
            offset=offset,
            scale=scale,
            interval=interval,
            level=level,
            variance=variance,
        )
        if interval is None:
            return pandas.Series(found["mean"], index=index, name="mean")
        return pandas.DataFrame(found, index=index)

    def marginal_means(
        self,
        term: str,
        *,
        at: Mapping[str, Any] | None = None,
        level: float = 0.95,
        scale: Scale = "response",
    ) -> MarginalMeans:
        """Return the mean at each level of a category, all else alike.

        Numbers are at their means where these follow from released sums, that is of
        least squares with an intercept, and else at values that are given; levels of
        other categories count alike, as in R's emmeans.

        Args:
            term: such as "C(sex)".
            at: values of other columns, by name.
            level: of the intervals.
            scale: "response", or "link" for the sum over columns.
        """
        if isinstance(self.job, FitRowsJob):
            raise InvalidInputError(
                "marginal means are those of a category in a formula, and this fit is "
                "of arrays: use predict",
                code="marginal-means-unavailable",
            )
        if self.model.tested:
            raise InvalidInputError(
                "marginal means are those of a fit without further columns: fit "
                "without further",
                code="marginal-means-unavailable",
            )
        if self.model.levels:
            raise InvalidInputError(
                "a choice among levels has no mean: use predict for the chance of each",
                code="marginal-means-unavailable",
            )
        strategy, sums = self._fitting
        found = strategy.column_means(sums)
        means = {} if found is None else dict(zip(self.columns, found, strict=True))
        grid = ReferenceGrid.of(self.job.formula, term, at, means)
        notes = ("The offset is 0.",) if self.job.offset is not None else ()
        return regression_marginal_means(
            self.fit, self.model.family, grid, scale=scale, level=level, notes=notes
        )

    def summary(self, *, level: float = 0.95, exponentiate: bool = False) -> str:
        """Return the table that goes into a paper."""
        return self.answered(level, exponentiate=exponentiate).text()

    def answered(self, level: float = 0.95, *, exponentiate: bool = False) -> Rendering:
        """Return the same, to be seen."""
        asked = {"level": level, "exponentiate": exponentiate, **self._labels()}
        text, html = (make(self.fit, **asked) for make in (summary_text, summary_html))
        return Rendering("", [ShownBothWays(text, html)])

    def _labels(self) -> dict[str, Any]:
        sums = len(self.released.sums)
        notes = [
            f"Released to every party: {sums} {'sum' if sums == 1 else 'sums'} of "
            f"{self.recipe.size} numbers over all parties.",
            *self._fitting[0].notes(self.fit),
        ]
        if self.model.weighed_by is not None:
            notes.append(
                f"Rows are weighted by {self.model.weighed_by}; errors take its "
                "coefficients as they are."
            )
        if self.dropped:
            notes.append(f"{self.dropped} rows with missing values were left out.")
        return {
            "title": f"Pooled {self.model.family.name} regression"
            f"{self.model.within} under masks",
            "response": self.model.response,
            "n_parties": len(self.released.members),
            "law": self.terms.law.name,
            "notes": notes,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: those of every run, and the table."""
        fit, levels = self.fit, dict[str, Any]()
        if isinstance(fit, ChoiceFit):
            counted = zip(fit.levels, fit.level_counts, strict=True)
            levels = {"levels": dict(counted)}
        return {
            **super().to_dict(),
            "table": fitted_table_rows(fit),
            "n_rows": fit.n_rows,
            "dropped": self.dropped,
            "rounding_bound": (
                fit.rounding_bound.tolist()
                if isinstance(fit, LeastSquaresFit)
                else None
            ),
            "log_likelihood": finite_or_none(fit.log_likelihood),
            "aic": finite_or_none(fit.aic),
            "bic": finite_or_none(fit.bic),
            "residual_degrees": fit.residual_degrees,
            "errors": fit.errors,
            "t_degrees": fit.t_degrees,
            "cov_params": fit.covariance.tolist(),
            "score_test": self.score_test().to_dict() if self.model.tested else None,
            "theta": getattr(fit, "theta", None),
            "theta_error": getattr(fit, "theta_error", None),
            **levels,
        }


def _predicted_level_chances(
    fit: ChoiceFit, design: FloatArray, ones: int, index: Any
) -> Frame:
    family = fit.family
    assert isinstance(family, ChoiceModel)
    shape = len(fit.levels) - 1, design.shape[1]
    lines = family.spread(fit.coefficients, shape, ones)
    found = family.probabilities(np.asarray(design, np.float64) @ lines.T)
    return load_pandas().DataFrame(found, index=index, columns=list(fit.levels))
