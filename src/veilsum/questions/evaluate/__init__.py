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

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from veilsum.errors import InvalidInputError
from veilsum.fits.formula_job import FormulaJob, inferred_fit_schema
from veilsum.fits.timed import timed_fit_response_formula
from veilsum.models.evaluation import ModelPredictor, family_with_link
from veilsum.models.families import Binomial, GaussianFamily
from veilsum.questions.evaluate.bins import TENTHS, ChanceEvaluation, EvaluateBinsJob
from veilsum.questions.evaluate.concordance import (
    ConcordanceEvaluation,
    EvaluateConcordanceJob,
)
from veilsum.questions.evaluate.errors import EvaluateErrorsJob, NumberEvaluation
from veilsum.questions.evaluate.folds import EvaluateFoldsJob
from veilsum.questions.evaluate.refits import EvaluateRefitsJob, FoldsEvaluation
from veilsum.sums.table_job import run_on_frames
from veilsum.sums.terms import SumOptions
from veilsum.tables.formula.reader import read_surv_formula
from veilsum.tables.frames import Frame
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

AnyEvaluation = (
    EvaluateBinsJob | EvaluateErrorsJob | EvaluateConcordanceJob | EvaluateFoldsJob
)


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
            raise InvalidInputError(
                f"{unused[0]} is no matter of {of}: leave it out",
                code="option-not-for-measure",
            )

    if folds is not None:
        only("folds", "split", of="a cross-validation")
        if coefficients is not None:
            raise InvalidInputError(
                "folds find coefficients, and coefficients are given too: leave one "
                "of them out",
                code="folds-with-coefficients",
            )
        base = FormulaJob.of(formula, schema, family_with_link(family))
        once = isinstance(base.family, GaussianFamily)
        dealt = 0 if split is None else split
        return (EvaluateFoldsJob if once else EvaluateRefitsJob)(base, folds, dealt)
    if not coefficients:
        raise InvalidInputError(
            "give the coefficients of the model that is evaluated, by column; or "
            "folds, to cross-validate a fit",
            code="coefficients-missing",
        )
    if formula.lstrip().startswith("Surv"):
        only("edges", "times", of="times to an event")
        usual = {"edges": "[-1, 0, 1], of the linear predictor", "times": "[365]"}
        for key, example in usual.items():
            if not given[key]:
                raise InvalidInputError(
                    f"how long rows go on is counted in bins: give {key}, such as "
                    f"{example}",
                    code="times-missing",
                )
        return EvaluateConcordanceJob.of(
            formula,
            schema,
            given=tuple((name, float(one)) for name, one in coefficients.items()),
            edges=tuple(map(float, edges or ())),
            times=tuple(map(float, times or ())),
        )
    kind = family_with_link(family)
    base = FormulaJob.of(formula, schema, kind)
    known = ModelPredictor.of(
        kind,
        base.model.measures,
        names=base.formula.columns,
        intercept=base.formula.intercept,
        coefficients=coefficients,
    )
    if not isinstance(kind, Binomial):
        only(of=f"the {kind.name} family")
        return EvaluateErrorsJob(base, known)
    only("edges", "calibration", of="chances")
    return EvaluateBinsJob(
        base,
        known,
        edges=TENTHS if edges is None else tuple(map(float, edges)),
        calibrated=calibration is not False,
    )


AnyEvaluationResult = (
    ChanceEvaluation | NumberEvaluation | FoldsEvaluation | ConcordanceEvaluation
)
RESULTS: Mapping[type, type[AnyEvaluationResult]] = {
    EvaluateBinsJob: ChanceEvaluation,
    EvaluateErrorsJob: NumberEvaluation,
    EvaluateConcordanceJob: ConcordanceEvaluation,
    EvaluateFoldsJob: NumberEvaluation,
    EvaluateRefitsJob: FoldsEvaluation,
}


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
    **options: Unpack[SumOptions],
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
        options: how to sum; see `SumOptions`.
    """

    def inferred(frames: Mapping[str, Frame]) -> Schema:
        plain, used = formula, tuple[str, ...]()
        if formula.lstrip().startswith("Surv"):
            found = read_surv_formula(formula)
            plain, used = timed_fit_response_formula(found), (found.time,)
        derived = options.get("derived")
        return inferred_fit_schema(plain, used, frames, minimum_rows, derived=derived)

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

    def result(*, job: Any, **known: Any) -> AnyEvaluationResult:
        return RESULTS[type(job)](job=job, **known)

    return run_on_frames(
        job_of,
        data,
        result,
        inferred=inferred,
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )
