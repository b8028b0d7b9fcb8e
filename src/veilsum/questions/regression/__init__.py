"""Regressions of several parties, each with rows of its own, as one pooled fit.

    result = fit("y ~ age + C(sex)", {"north": frame, "south": other, ...})
    print(result.summary())

A `Model` is what is fitted, as all parties know it. Its recipe says what is summed in
each round, and what follows from the sums; a `FormulaJob` turns a table into rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.fits.choices import (
    ChoiceRecipe,
    chances,
    with_its_order,
)
from veilsum.fits.fitted import (
    Fitted,
    Interval,
    MarginalMeans,
    ReferenceGrid,
    Scale,
    marginal_means,
    predicted,
)
from veilsum.fits.fitting import (
    FittingRecipe,
    LeastSquaresRecipe,
    NewtonRecipe,
    RegressionRecipe,
    RobustRecipe,
)
from veilsum.fits.formula_job import FormulaJob, inferred_schema
from veilsum.fits.model import Model, family_of
from veilsum.fits.nested import in_order, sums_about
from veilsum.fits.score import ScoreRecipe
from veilsum.fits.summary import (
    ratio_rows,
    summary_html,
    summary_text,
    table_rows,
)
from veilsum.locale import limit
from veilsum.models.choices import (
    Choice,
    ChoiceFit,
)
from veilsum.models.dispersion import DispersedFit
from veilsum.models.families import (
    Family,
    Gaussian,
)
from veilsum.models.glm import GlmFit
from veilsum.models.hypotheses import (
    Fit,
    TestOfFit,
    f_test,
    likelihood_ratio,
    score_test,
)
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import errors_of
from veilsum.models.systems import check_intercept, column_names
from veilsum.numbers.arrays import Array, Vector, listed
from veilsum.numbers.units import BITS, Integers
from veilsum.showing import Both, Showing
from veilsum.sums.presence import Group
from veilsum.sums.recipes import Sums
from veilsum.sums.releases import ReleaseLimit
from veilsum.sums.table_job import SAME_ROUNDS, TableJob, ask, put
from veilsum.sums.terms import Options, Terms, by_name
from veilsum.tables.formula import (
    new_numbers,
)
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.propensity import Propensity
from veilsum.tables.rules import AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema


@dataclass(frozen=True)
class RowsJob(TableJob[Rows]):
    """A regression of arrays: nothing is known of a column but its numbers."""

    model: Model

    @property
    def n_columns(self) -> int:
        """How wide the design is."""
        return len(self.model.names)

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.model.numbers_in_a_row

    @property
    def groups(self) -> tuple[Group, ...]:
        """The values of columns that have few."""
        return self.model.groups

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {"model": self.model.terms}

    def check_parties(self, rules: Rules, terms: Terms) -> None:
        """Refuse what so few parties, or such masks, must not be asked for."""
        self.model.check_parties(rules, terms)

    def recipe(self, limit: ReleaseLimit | None = None) -> RegressionRecipe:
        """Return what parties do to fit it."""
        return self.model.recipe(limit)

    def n_rows(self, own: Rows) -> int:
        """Return how many rows a party has to give."""
        return own.n_rows

    def check(self, party: str, own: Rows) -> None:
        """Refuse rows that do not have what the model has, or go beyond ranges."""
        self.model.check(party, own)

    def check_at_home(self, home: AtHome, own: Rows) -> None:
        """Refuse columns that point at few rows, or at this party."""
        self.model.check_columns_at_home(home, own)

    def look(self, own: Rows, at: str | int) -> Array[Any]:
        """Return a column: of the design by its place."""
        return self.model.look(own, at)

    def answer(self, own: Rows, request: Any) -> Integers:
        """Return what one party gives."""
        return self.model.vector(own, 0, request)

    def pooled(self, own: Mapping[str, Rows]) -> Vector:
        """Return the coefficients as one owner of all rows would find them."""
        return self.model.pooled(own)


def formula_job(
    schema: Schema,
    *,
    formula: str,
    family: str = "gaussian",
    alpha: float | None = None,
    **given: Any,
) -> FormulaJob:
    """Return a regression as a file asks for it; refuse a formula beside the schema."""
    job = FormulaJob.of(formula, schema, family_of(family, alpha=alpha), **given)
    for column in (job.weights, job.offset):
        if isinstance(column, str):
            row = as_frame({column: [1.0]})
            CheckedTable("", schema, row, 0).numbers(column)
    return job


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitResult(Fitted[LeastSquaresFit | GlmFit]):
    """A fit of all parties' rows, and what they released for it.

    Attributes:
        job: what was fitted, with its formula unless it was to arrays.
    """

    compared_with: ClassVar[str] = "the pooled fit"

    job: FormulaJob | RowsJob

    @property
    def compared_by(self) -> str:  # type: ignore[override]
        """How the pooled fit was found; see `Model.pooled`."""
        if isinstance(self.model.family, Gaussian):
            return "least squares of all rows in one place, by another algorithm"
        return SAME_ROUNDS

    @property
    def model(self) -> Model:
        """What was fitted."""
        return self.job.model

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What the rules about rows leave open."""
        words = self.model.weighed_by
        more = () if words is None else (limit("weighed", by=words),)
        return (*super().further_limits, *more)

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: the last number of the fit's sum."""
        recipe, (first, *_) = self._fitting
        return int(first[recipe.size - 1])

    @property
    def response_mean(self) -> float:
        """Of a fit in rounds: the mean response, from its first sum."""
        recipe, sums = self._fitting
        if not isinstance(recipe, NewtonRecipe):
            raise InvalidInputError(
                "the mean response is known of a fit in rounds, found "
                f"{self.model.words}"
            )
        first = recipe.first(sums)
        return float(first.response_sum / first.weight_sum)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.fit.n_rows

    @property
    def nobs(self) -> int:
        """Rows of all parties."""
        return self.fit.n_rows

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
        fit = self.fit
        if isinstance(fit, LeastSquaresFit):
            return fit.residual_variance
        return fit.dispersion

    @property
    def rsquared(self) -> float:
        """Of least squares: the part of the response's squares that is explained."""
        return self._least_squares("rsquared").r_squared

    @property
    def rsquared_adj(self) -> float:
        """The same, adjusted for the number of columns."""
        return self._least_squares("rsquared_adj").adjusted_r_squared

    def _least_squares(self, what: str) -> LeastSquaresFit:
        if not isinstance(self.fit, LeastSquaresFit):
            raise InvalidInputError(
                f"{what} is for least squares, found {self.model.family.name}: see "
                "deviance and null_deviance of .fit"
            )
        return self.fit

    def ratios(self, level: float = 0.95) -> Frame:
        """Return exp of coefficients, such as odds ratios, with their intervals."""
        rows = ratio_rows(self.fit, level)
        return load_pandas().DataFrame(rows).set_index("name")

    def compare_lr(self, other: FitResult) -> TestOfFit:
        """Return the likelihood-ratio test of two nested fits, in any order."""
        return likelihood_ratio(*self._nested(other))

    def compare_f(self, other: FitResult) -> TestOfFit:
        """Return the F test of two nested fits with an estimated dispersion."""
        return f_test(*self._nested(other))

    def compare_score(self, other: FitResult) -> TestOfFit:
        """Return the score test of two nested least squares fits."""
        return score_test(*self._nested(other))

    def score_test(self, columns: Sequence[str] | None = None) -> TestOfFit:
        """Return the score test of the columns that `further` named, as R's Rao.

        Args:
            columns: some of them, by name; all by default.
        """
        recipe, sums = self.inner
        if not isinstance(recipe, ScoreRecipe):
            raise InvalidInputError(
                "a score test is of columns beside the fit, and takes one more sum: "
                'fit with further="..."'
            )
        for one in columns or ():
            if one not in self.model.tested:
                raise InvalidInputError(
                    f"{one!r} is not among the columns that are tested: "
                    f"{listed(self.model.tested)}"
                )
        return recipe.test(sums, columns)

    @property
    def _fitting(self) -> tuple[FittingRecipe, Sums]:
        """The recipe of the fit itself, and its sums; one for errors may follow."""
        recipe, sums = self.inner
        wrapped = isinstance(recipe, RobustRecipe | ScoreRecipe)
        return (recipe.inner if wrapped else recipe), sums

    def _nested(self, other: FitResult) -> tuple[Fit, Fit]:
        """Return the larger fit and the smaller; refuse what cannot be compared."""
        large, small = in_order(self, other)
        return large.fit, small.fit

    @property
    def columns(self) -> tuple[str, ...]:
        """What it has coefficients of."""
        return self.model.slopes

    def rows_of_fit(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what tells which rows a fit is of, and by which law, by its name.

        The first sum's part about some columns is one of rows alone, to the last
        digit, whatever other columns there are.
        """
        recipe, sums = self._fitting
        if isinstance(recipe, ChoiceRecipe):
            totals = recipe.about_rows(sums, names)
        else:
            totals = sums_about(names, self.columns, recipe.counts, sums[0])
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
            "sums over rows": totals,
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
        if isinstance(self.job, RowsJob):
            design = np.asarray(new_data, dtype=np.float64)
            if design.ndim != 2 or design.shape[1] != len(self.model.names):
                raise InvalidInputError(
                    f"a fit of arrays predicts for {len(self.model.names)} columns, "
                    f"found shape {design.shape}"
                )
            if self.model.measures.offset is not None:
                raise InvalidInputError(
                    "a fit of arrays with offsets predicts nothing by itself: add "
                    "offsets to design @ coefficients, and take the inverse link"
                )
            index = pandas.RangeIndex(len(design))
        else:
            frame = as_frame(new_data)
            design = self.job.formula.design_at(frame)[:, self.model.fitted]
            index = frame.index
            if (name := self.job.offset) is not None:
                offset = new_numbers(frame, name)
        fit, variance = self.fit, None
        if isinstance(fit, ChoiceFit):
            if interval is not None or scale != "response":
                raise InvalidInputError(
                    "the chances of levels come without an interval, and on their own "
                    f"scale, found interval = {interval!r} and scale = {scale!r}: "
                    "leave both out"
                )
            assert self.model.intercept is not None
            return chances(fit, design, self.model.intercept, index)
        if isinstance(fit, LeastSquaresFit) and fit.errors == "model":
            weighted = self.model.measures.weights is not None
            variance = None if weighted else fit.residual_variance
        found = predicted(
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
        if isinstance(self.job, RowsJob):
            raise InvalidInputError(
                "marginal means are those of a category in a formula, and this fit is "
                "of arrays: use predict"
            )
        if self.model.tested:
            raise InvalidInputError(
                "marginal means are those of a fit without further columns: fit "
                "without further"
            )
        if self.model.levels:
            raise InvalidInputError(
                "a choice among levels has no mean: use predict for the chance of each"
            )
        means: dict[str, float] = {}
        recipe, sums = self._fitting
        if isinstance(recipe, LeastSquaresRecipe) and recipe.intercept is not None:
            found = recipe.totals(sums[:1]).means().tolist()
            means = dict(zip(self.model.names, found, strict=True))
        grid = ReferenceGrid.of(self.job.formula, term, at, means)
        notes = ("The offset is 0.",) if self.job.offset is not None else ()
        return marginal_means(
            self.fit, self.model.family, grid, scale=scale, level=level, notes=notes
        )

    def summary(self, *, level: float = 0.95, exponentiate: bool = False) -> str:
        """Return the table that goes into a paper."""
        return self.answered(level, exponentiate=exponentiate).text()

    def answered(self, level: float = 0.95, *, exponentiate: bool = False) -> Showing:
        """Return the same, to be seen."""
        asked = {"level": level, "exponentiate": exponentiate, **self._labels()}
        text, html = (make(self.fit, **asked) for make in (summary_text, summary_html))
        return Showing("", [Both(text, html)])

    def _labels(self) -> dict[str, Any]:
        sums = len(self.released.sums)
        notes = [
            f"Released to every party: {sums} {'sum' if sums == 1 else 'sums'} of "
            f"{self.recipe.size} numbers over all parties.",
        ]
        if self.model.absorb:
            notes.append(
                "Each party has an intercept of its own, which it took off at home; "
                "none of them is known. R-squared is that within parties."
            )
        if isinstance(self.model.family, Choice):
            first = self.model.levels[0]
            notes.append(self.model.family.reading.format(first=first))
        if isinstance(self.fit, DispersedFit):
            notes.append(
                f"theta = 1 / alpha is {self.fit.theta:.6g}, standard error "
                f"{self.fit.theta_error:.4g}; errors of coefficients are those at this "
                "theta, as in MASS::glm.nb."
            )
        if self.model.weighed_by is not None:
            notes.append(
                f"Rows are weighted by {self.model.weighed_by}; errors take its "
                "coefficients as they are."
            )
        if self.dropped:
            notes.append(f"{self.dropped} rows with missing values were left out.")
        return {
            "title": f"Pooled {self.model.family.name} regression "
            f"{'within parties ' if self.model.absorb else ''}under masks",
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
            "table": table_rows(fit),
            "n_rows": fit.n_rows,
            "dropped": self.dropped,
            "rounding_bound": (
                fit.rounding_bound.tolist()
                if isinstance(fit, LeastSquaresFit)
                else None
            ),
            "log_likelihood": _finite(fit.log_likelihood),
            "aic": _finite(fit.aic),
            "bic": _finite(fit.bic),
            "residual_degrees": fit.residual_degrees,
            "errors": fit.errors,
            "t_degrees": fit.t_degrees,
            "cov_params": fit.covariance.tolist(),
            "score_test": self.score_test().to_dict() if self.model.tested else None,
            "theta": fit.theta if isinstance(fit, DispersedFit) else None,
            "theta_error": fit.theta_error if isinstance(fit, DispersedFit) else None,
            **levels,
        }


def _finite(value: float) -> float | None:
    """Return None for what a perfect fit makes infinite: JSON has no such number."""
    return value if np.isfinite(value) else None


def fit(
    formula: str,
    data: Mapping[str, Any],
    *,
    family: str | Family = "gaussian",
    alpha: float | None = None,
    weights: str | Propensity | None = None,
    offset: str | None = None,
    ridge: float = 0.0,
    bits: int = BITS,
    errors: str | None = None,
    absorb: bool = False,
    further: str | None = None,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of several parties' tables; only sums leave a party.

    Args:
        formula: such as "y ~ age + C(sex) + bp".
        data: each party's table: pandas, polars, or a mapping of columns.
        family: gaussian, logistic, poisson, gamma, gamma-inverse, inverse-gaussian,
            negative-binomial, probit, cloglog, quasi-poisson, quasi-binomial; or
            multinomial or ordinal, where the response is one of three levels or more.
        alpha: of a negative-binomial family, whose variance is mu + alpha mu^2; where
            it is not given it is estimated together with the coefficients.
        weights: the column of weights; or a `Propensity`, which makes errors HC0 where
            nothing else is said.
        offset: the column of offsets.
        ridge: what each squared coefficient but the intercept's costs.
        bits: what a term keeps of its range that does not fit the unit it follows from;
            beyond 52 terms of arithmetic are computed exactly.
        errors: of coefficients: HC0 to HC3, which rest on residuals, or cluster, by
            party; each takes one more sum. Those of the model by default.
        absorb: whether every party has an intercept of its own, as by a dummy variable
            for each: it is taken off at home, and not shown. Gaussian fits only.
        further: terms such as "C(race) + smoke" that are not fitted: whether they would
            add anything is tested, by `score_test` and one more sum at the answer.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to fit the pooled rows as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    kind = family_of(family, alpha=alpha)

    def job_of(agreed: Schema) -> FormulaJob:
        return FormulaJob.of(
            *(formula, agreed, kind, weights, offset, ridge, bits, errors),
            absorb=absorb,
            further=further,
        )

    return put(
        job_of,
        data,
        FitResult,
        inferred=lambda frames: with_its_order(
            inferred_schema(
                formula if further is None else f"{formula} + {further}",
                (weights if isinstance(weights, str) else None, offset),
                frames,
                minimum_rows,
                beside=weights.formula if isinstance(weights, Propensity) else None,
            ),
            formula.partition("~")[0].strip().strip("`"),
            kind,
            frames,
        ),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


def fit_arrays(
    data: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    family: str | Family = "gaussian",
    alpha: float | None = None,
    names: Sequence[str] | None = None,
    intercept: int | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    offset: Mapping[str, ArrayLike] | None = None,
    ridge: float = 0.0,
    errors: str | None = None,
    measures: RowMeasures | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of several parties' arrays.

    Args:
        data: each party's design and response; float64 arrays are not copied.
        family: as for `fit`.
        alpha: as for `fit`.
        names: of the columns.
        intercept: which column is all ones, if any; none is added.
        weights: by party.
        offset: by party.
        ridge: as for `fit`.
        errors: as for `fit`.
        measures: how numbers are counted. Without them they are read off all arrays
            together, which only a simulation can do.
        rules: what every party keeps to.
        compare: as for `fit`.
        options: how to sum; see `Options`.
    """
    weighing, shifting = by_name(weights or {}), by_name(offset or {})
    rows = {
        party: Rows.of(*arrays, weights=weighing.get(party), offset=shifting.get(party))
        for party, arrays in by_name(data).items()
    }
    labels = column_names(names, _n_columns(rows))
    check_intercept(intercept, len(labels))
    kind = family_of(family, alpha=alpha)
    if isinstance(kind, Choice):
        raise InvalidInputError(
            f'family = "{kind.name}" is a choice among the levels of a category, and '
            "arrays have none: use fit, with tables"
        )
    model = Model(
        response="y",
        names=labels,
        intercept=intercept,
        family=kind,
        measures=measures
        or RowMeasures.inferred(rows, intercept, positive=kind.positive),
        ridge=ridge,
        errors=errors_of(errors),
    )
    job = RowsJob(model)
    asked = ask(
        job,
        rows,
        sources={party: model.source(part) for party, part in rows.items()},
        rules=rules or Rules(),
        options=options,
    )
    return asked.made(FitResult, job, rows if compare else None)


def _n_columns(rows: Mapping[str, Rows]) -> int:
    found = {part.n_columns for part in rows.values()}
    if len(found) != 1:
        raise InvalidInputError(
            f"all parties' designs have the same columns, found {sorted(found)} of them"
        )
    return found.pop()
