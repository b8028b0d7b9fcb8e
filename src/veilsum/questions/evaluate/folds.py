"""Least squares, fitted without each fold and tried on it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.formula_job import FormulaRows, FormulaRowsJob
from veilsum.fits.model import FitModel
from veilsum.models import least_squares
from veilsum.models.evaluation import (
    MOST_FOLDS,
    ModelErrors,
    Places,
    errors_of_fold,
    folds_of_model_rows,
)
from veilsum.models.least_squares import LeastSquaresCounting, LeastSquaresFit
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.layout import (
    LayoutStatistic,
    NumberLayout,
    layout_number as scalar,
)
from veilsum.numbers.units import Integers
from veilsum.questions.evaluate.common import (
    RowBins,
    evaluated_responses,
    evaluated_shares,
)
from veilsum.sums.presence import Look, PresenceGroup, has_few_values
from veilsum.sums.recipes import OneRoundRecipe, Sums, sums_as_key
from veilsum.sums.releases import SumReleaseLimit
from veilsum.tables.asked import TableQuestion
from veilsum.tables.rules import TableRulesAtHome
from veilsum.tables.schema import CheckedTable


@dataclass(frozen=True)
class EvaluatedFold:
    """Rows of a group in one fold.

    Attributes:
        group: group of the whole table.
    """

    group: PresenceGroup
    place: int

    @property
    def name(self) -> str:
        return f"{self.group.name} in fold {self.place + 1}"

    @property
    def places(self) -> tuple[str, ...]:
        return self.group.places

    def count(self, look: Look) -> Array[Any]:
        here = look(self) == self.place
        return self.group.count(lambda at: look(at)[here])


@dataclass(frozen=True, eq=False)
class EvaluateFoldsRecipe(OneRoundRecipe):
    """One sum: what least squares sums, for each fold by itself; and rows left out.

    Attributes:
        what: is asked, for the ledger.
        limit: how many numbers may be released.
    """

    asked = "statistics of each fold"

    model: FitModel
    n_folds: int
    what: str
    limit: SumReleaseLimit | None = None

    @cached_property
    def fold(self) -> NumberLayout:
        return LeastSquaresCounting(self.model.measures).layout

    @cached_property
    def layout(self) -> NumberLayout:
        """Sums of least squares for each fold, and rows left out."""
        n, units = self.n_folds, self.fold.counts.units
        ranges = tuple(k for one in self.fold.statistics for k in one.row_ranges()) * n
        bits = self.fold.bits
        sums = LayoutStatistic(
            "fold_sums", (n, len(units)), units * n, bits, ranges=ranges
        )
        return NumberLayout((sums, scalar("left_out")))

    @property
    def answer_size(self) -> int:
        return self.n_folds * len(self.model.names)

    def _parts(self, sums: Sums) -> Integers:
        return self.layout.unpack(sums[0])["fold_sums"]

    def rows(self, sums: Sums) -> list[int]:
        return [self.fold.unpack(one)["rows"] for one in self._parts(sums)]

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        rows = self.rows(sums)
        found = {f"rows of fold {k}": n for k, n in enumerate(rows, start=1)}
        return found | {"rows": sum(rows)}

    @cached_property
    def _fits(self) -> dict[Hashable, tuple[LeastSquaresFit, ...]]:
        return {}

    def fits(self, sums: Sums) -> tuple[LeastSquaresFit, ...]:
        """Return the fit of all rows, and then without each fold."""
        key = sums_as_key(sums)
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
        return np.concatenate([one.coefficients for one in self.fits(sums)[1:]])

    def errors(self, sums: Sums) -> tuple[ModelErrors, ...]:
        measures = self.model.measures
        fits = self.fits(sums)[1:]
        parts = zip(self._parts(sums), fits, self.rows(sums), strict=True)
        return tuple(
            errors_of_fold(one, measures, fit.coefficients)
            for one, fit, rows in parts
            if rows  # nothing is predicted in a fold without rows
        )


@dataclass(frozen=True)
class EvaluateFoldsJob(FormulaRowsJob[FormulaRows]):
    """Least squares, fitted without each fold and tried on it.

    Attributes:
        split: a public number that deals rows to folds.
    """

    follows = (
        "the coefficients of all rows and without each fold, and how well each fold is "
        "predicted without its rows"
    )

    n_folds: int
    split: int

    def __post_init__(self) -> None:
        if not 2 <= self.n_folds <= MOST_FOLDS:
            raise InvalidInputError(
                f"folds must be from 2 to {MOST_FOLDS}, found {self.n_folds}",
                code="folds-out-of-range",
            )
        if not 0 <= self.split < 2**32:
            raise InvalidInputError(
                f"split must be a whole number from 0 to 2^32 - 1, found {self.split}",
                code="split-out-of-range",
            )
        if self.base.formula.intercept is None:
            raise InvalidInputError(
                "folds need a formula with an intercept: leave out 0 + or - 1",
                code="intercept-missing",
            )

    @property
    def n_columns(self) -> int:
        """Number of columns in all folds together; each fold has its own design."""
        return self.n_folds * self.base.n_columns

    @property
    def words(self) -> str:
        return f"{self.base.model.words}, in {self.n_folds} folds dealt by {self.split}"

    @property
    def agreed(self) -> dict[str, Any]:
        return {**self.base.agreed, "folds": self.n_folds, "split": self.split}

    @property
    def question(self) -> TableQuestion:
        return TableQuestion(
            schema=self.asked_about,
            formula=self.base.formula.text,
            folds=self.n_folds,
            split=self.split,
        )

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        folds = range(self.n_folds)
        names = tuple(f"fold {k + 1}" for k in folds)
        within = product(self.base.groups, folds)
        return (RowBins("folds", names), *(EvaluatedFold(one, k) for one, k in within))

    def folds(self, own: FormulaRows) -> Places:
        measures = self.base.model.measures
        return folds_of_model_rows(measures, own.rows, self.n_folds, self.split)

    def look(self, own: FormulaRows, at: Any) -> Array[Any]:
        """Return a party's column of its table or design, or the folds of its rows."""
        found = isinstance(at, EvaluatedFold | RowBins)
        return self.folds(own) if found else self.base.look(own, at)

    def recipe(self, limit: SumReleaseLimit | None = None) -> Any:
        return EvaluateFoldsRecipe(self.base.model, self.n_folds, self.words, limit)

    def parts(self, own: FormulaRows) -> list[Rows]:
        folds = self.folds(own)
        return [evaluated_rows_where(own.rows, folds == k) for k in range(self.n_folds)]

    def check_at_home(self, home: TableRulesAtHome, own: FormulaRows) -> None:
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
                rows = evaluated_rows_where(own.rows, chosen)
                if not rows.n_rows:
                    continue
                home.column(
                    f"{model.response} {words} fold {k + 1}",
                    rows.response,
                    two_valued=lambda: has_few_values(model.measures.response),
                )
                model.check_at_home(
                    home,
                    rows,
                    shaped=formula.response_is_shaped,
                    groups=formula.by_variables,
                )

    def bring(self, table: CheckedTable) -> FormulaRows:
        """Return a party's table with the rows that the formula makes of it."""
        return self.base.bring(table)

    def answer(self, own: FormulaRows, request: str) -> Integers:
        measures = self.base.model.measures
        parts = [least_squares.statistics(one, measures) for one in self.parts(own)]
        sums, left_out = np.array(parts, dtype=object), own.table.n_dropped
        return self.recipe().layout.pack(fold_sums=sums, left_out=left_out)

    def pooled(self, own: Mapping[str, FormulaRows]) -> dict[str, float]:
        """Return the errors of folds, each fitted by an orthogonal decomposition."""
        parts, response = [*own.values()], evaluated_responses(own)
        design = np.concatenate([np.asarray(one.rows.design, float) for one in parts])
        folds = np.concatenate([self.folds(one) for one in parts])
        mean = np.empty(len(response))
        for k in np.unique(folds):
            here = folds == k
            found, *_ = np.linalg.lstsq(design[~here], response[~here], rcond=None)
            mean[here] = design[here] @ found
        return evaluated_shares(response, mean)


def evaluated_rows_where(rows: Rows, chosen: Array[Any]) -> Rows:
    return Rows(rows.design[chosen], rows.response[chosen])
