"""Evaluations of predictions: the section [evaluate]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.models.family_names import canonical_family_name
from veilsum.questions.evaluate import AnyEvaluation, evaluate, evaluate_job
from veilsum.reading import Flag, Text, Whole
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release


class EvaluateSpec(QuestionSpec, frozen=True, kw_only=True):
    """An evaluation of known coefficients; or, with folds, of a fit without each."""

    heading = "evaluate"

    formula: Text = ""
    coefficients: (
        Annotated[
            dict[str, int | float],
            Meta(description="a table with a number for each column of the formula"),
        ]
        | None
    ) = None
    family: Text | None = None
    edges: (
        Annotated[
            tuple[int | float, ...],
            Meta(description="a list of numbers, such as [0.25, 0.5, 0.75]"),
        ]
        | None
    ) = None
    times: (
        Annotated[
            tuple[int | float, ...],
            Meta(description="a list of numbers, such as [100, 200]"),
        ]
        | None
    ) = None
    calibration: Flag | None = None
    folds: Whole | None = None
    split: Whole | None = None

    def given(self) -> dict[str, Any]:
        """Return what was written; a family by its one name."""
        found = super().given()
        return found | (
            {"family": canonical_family_name(self.family)} if self.family else {}
        )


class EvaluateKind(TableKind[EvaluateSpec, AnyEvaluation]):
    spec = EvaluateSpec
    make_job = staticmethod(evaluate_job)
    function = staticmethod(evaluate)

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        import numpy as np

        from veilsum.models.evaluation import predictor_bin_labels
        from veilsum.questions.evaluate.concordance import EvaluateConcordanceJob
        from veilsum.questions.evaluate.errors import EvaluateErrorsJob
        from veilsum.questions.evaluate.folds import EvaluateFoldsJob
        from veilsum.questions.evaluate.refits import EvaluateRefitsJob

        question, job = self.parts(asked)
        if isinstance(job, EvaluateFoldsJob):
            kind = "least squares"
            if isinstance(job, EvaluateRefitsJob):
                kind = job.base.family.name
            yield (
                f"question: how well a {kind} fit predicts rows that it was not "
                "fitted to (cross-validation)"
            )
        else:
            yield (
                "question: how well a model with known coefficients predicts your rows"
            )
        yield f"formula, as written: {quoted_for_release(question.formula)}"
        if isinstance(job, EvaluateFoldsJob):
            yield (
                f"folds: {job.n_folds}, dealt by the number {job.split} and by the "
                "predictors of a row alone; what a fit sums becomes known of each "
                "fold, and each is looked at as a table of its own, and so is the rest"
            )
            yield job.base.design_line(room)
            return
        names = job.base.formula.columns
        pairs = zip(names, job.known.coefficients, strict=True)
        told = [
            f"{quoted_for_release(name)} {exact_number_words(one)}"
            for name, one in pairs
        ]
        yield f"coefficients, public: {room.names('coefficients', told)}"
        if isinstance(job, EvaluateErrorsJob):
            yield "errors: sums of squared and of absolute ones, over all rows"
            return
        bins = room.names(
            "bins of the prediction", predictor_bin_labels(np.array(job.edges))
        )
        yield f"bins of the prediction: {len(job.edges) + 1}: {bins}"
        if isinstance(job, EvaluateConcordanceJob):
            yield f"bins of time: {room.names('bins of time', job.periods.labels)}"
        else:
            more = "responses are fitted to linear predictors, in further rounds"
            yield f"calibration: {more if job.calibrated else 'no further rounds'}"
        yield (
            "rules about bins are about all rows in them, with the event or without: "
            "of these, one alone may have it"
        )

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> dict[str, Any]:
        from veilsum.questions.evaluate.bins import ChanceEvaluation, evaluation_figure

        if not isinstance(result, ChanceEvaluation):
            return {}
        return {"evaluation": evaluation_figure(draw, result, title)}


KIND = EvaluateKind()
