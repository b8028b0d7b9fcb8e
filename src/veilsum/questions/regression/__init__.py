"""Regressions of several parties, each with rows of its own, as one pooled fit.

    result = fit("y ~ age + C(sex)", {"north": frame, "south": other, ...})
    print(result.summary())

A `FitModel` is the regression as all parties know it, and has a strategy to fit it; a
`FormulaJob` turns a table into rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.fits.formula_job import FormulaJob, inferred_fit_schema
from veilsum.fits.model import FitModel, FitRowsJob, family_of_fit
from veilsum.models.families import (
    Family,
)
from veilsum.models.fineness import DIGITS
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import robust_errors_named
from veilsum.models.systems import check_model_intercept, model_column_names
from veilsum.numbers.units import BITS
from veilsum.questions.regression.result import FitResult
from veilsum.sums.table_job import run_on_frames, run_on_rows
from veilsum.sums.terms import SumOptions, parties_data_by_name
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.propensity import Propensity
from veilsum.tables.rules import Rules
from veilsum.tables.schema import CheckedTable, Schema


def regression_formula_job(
    schema: Schema,
    *,
    formula: str,
    family: str = "gaussian",
    alpha: float | None = None,
    digits: int | None = None,
    **given: Any,
) -> FormulaJob:
    """Return a regression as a file asks for it; refuse a formula beside the schema."""
    kind = family_of_fit(family, alpha=alpha)
    given["digits"] = _digits_of_regression(kind, digits)
    job = FormulaJob.of(formula, schema, kind, **given)
    for column in (job.weights, job.offset):
        if isinstance(column, str):
            row = as_frame({column: [1.0]})
            CheckedTable("", schema, row, 0).numbers(column)
    return job


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
    digits: int | None = None,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
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
            beyond 52 products, powers and scales are computed exactly.
        errors: of coefficients: HC0 to HC3, which rest on residuals, or cluster, by
            party; each takes one more sum. Those of the model by default.
        absorb: whether every party has an intercept of its own, as by a dummy variable
            for each: it is taken off at home, and not shown. Gaussian fits only.
        further: terms such as "C(race) + smoke" that are not fitted: whether they would
            add anything is tested, by `score_test` and one more sum at the answer.
        digits: digits of the answer, 4 by default: coefficients are right to 1e-4 of a
            standard error, and standard errors to 1e-4 of themselves. More digits
            release more bits, 12 at most: `digits=6`. Not for gaussian, inverse
            Gaussian, multinomial and ordinal fits, and where alpha is estimated.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to fit the pooled rows as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    kind = family_of_fit(family, alpha=alpha)

    def job_of(agreed: Schema) -> FormulaJob:
        return FormulaJob.of(
            *(formula, agreed, kind, weights, offset, ridge, bits, errors),
            absorb=absorb,
            further=further,
            digits=_digits_of_regression(kind, digits),
        )

    return run_on_frames(
        job_of,
        data,
        FitResult,
        inferred=lambda frames: _with_level_order(
            inferred_fit_schema(
                formula if further is None else f"{formula} + {further}",
                (weights if isinstance(weights, str) else None, offset),
                frames,
                minimum_rows,
                beside=weights.formula if isinstance(weights, Propensity) else None,
                derived=options.get("derived"),
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
    digits: int | None = None,
    measures: RowMeasures | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
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
        digits: as for `fit`.
        measures: how numbers are counted. Without them they are read off all arrays
            together, which only a simulation can do.
        rules: what every party keeps to.
        compare: as for `fit`.
        options: how to sum; see `SumOptions`.
    """
    weighing, shifting = (
        parties_data_by_name(weights or {}),
        parties_data_by_name(offset or {}),
    )
    rows = {
        party: Rows.of(*arrays, weights=weighing.get(party), offset=shifting.get(party))
        for party, arrays in parties_data_by_name(data).items()
    }
    labels = model_column_names(names, _n_regression_columns(rows))
    check_model_intercept(intercept, len(labels))
    kind = family_of_fit(family, alpha=alpha)
    if kind.is_choice:
        raise InvalidInputError(
            f'family = "{kind.name}" is a choice among the levels of a category, and '
            "arrays have none: use fit, with tables",
            code="choice-of-arrays",
        )
    model = FitModel(
        response="y",
        names=labels,
        intercept=intercept,
        family=kind,
        measures=measures
        or RowMeasures.inferred(rows, intercept, positive=kind.positive),
        ridge=ridge,
        errors=robust_errors_named(errors),
        digits=_digits_of_regression(kind, digits),
    )
    job = FitRowsJob(model)
    asked = run_on_rows(
        job,
        rows,
        sources={party: model.source(part) for party, part in rows.items()},
        rules=rules or Rules(),
        options=options,
    )
    return asked.made(FitResult, job, rows if compare else None)


def _digits_of_regression(family: Family, given: int | None) -> int | None:
    """Return the digits of a fit; None where the family has none."""
    return DIGITS if given is None and family.has_digits else given


def _n_regression_columns(rows: Mapping[str, Rows]) -> int:
    found = {part.n_columns for part in rows.values()}
    if len(found) != 1:
        raise InvalidInputError(
            f"all parties' designs have the same columns, found {sorted(found)} of "
            "them",
            code="column-counts-differ",
        )
    return found.pop()


def _with_level_order(
    schema: Schema, response: str, family: Family, frames: Mapping[str, Frame]
) -> Schema:
    """Return a schema that was read off tables, with the order that levels have there.

    That of text is the alphabet's, which is no order of levels: where that matters, it
    is refused.
    """
    if not family.is_choice or response not in schema:
        return schema
    column = schema.column(response)
    if not column.is_category:
        return schema
    pandas = load_pandas()
    orders = {
        tuple(map(str, one.categories)) if one.ordered else ()
        for one in (frame[response].dtype for frame in frames.values())
        if isinstance(one, pandas.CategoricalDtype)
    }
    if len(orders) == 1 and set(order := orders.pop()) >= set(column.categories):
        kept = tuple(one for one in order if one in column.categories)
        made = replace(column, categories=kept)
        columns = (made if one is column else one for one in schema.columns)
        return replace(schema, columns=tuple(columns))
    if family.ordered:
        raise InvalidInputError(
            f"the levels of {response!r} have no order that all tables say: agree on a "
            "schema whose categories are in their order, or give every table the same "
            "ordered pandas Categorical",
            code="levels-without-order",
        )
    return schema
