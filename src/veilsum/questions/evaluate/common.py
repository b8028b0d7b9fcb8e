"""Known coefficients on the rows of a party, and what all evaluations show alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from veilsum.fits.formula_job import FormulaRows, FormulaRowsJob
from veilsum.models.evaluation import (
    BinBoundedNumber,
    ModelPredictor,
    Places,
    link_name_of_family,
)
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import Array
from veilsum.sums.presence import Look, has_few_values
from veilsum.sums.running import plain_result_values
from veilsum.sums.table_job import TableJobResult
from veilsum.tables.asked import TableQuestion
from veilsum.tables.schema import CheckedTable

# What is asked for: the rest follows from the agreement.
BINS = "counts by bin"


@dataclass(frozen=True)
class RowBins:
    """Bins that a party finds for its rows: `look` returns that of each row."""

    name: str
    places: tuple[str, ...]

    def count(self, look: Look) -> Array[Any]:
        return np.bincount(look(self), minlength=len(self.places))


@dataclass(frozen=True, eq=False, repr=False)
class EvaluatedRows(FormulaRows):
    """One party's table, its rows, and what is predicted of each.

    Attributes:
        predictor: linear, of each row.
        places: the bin that each row is in; 0 where there are none.
    """

    predictor: PerRow
    mean: PerRow
    places: Places


@dataclass(frozen=True)
class EvaluateJob(FormulaRowsJob[EvaluatedRows]):
    """Known coefficients on tables with an agreed schema.

    Attributes:
        base: a regression with this formula: its rows and its rules are used.
        edges: of bins of the prediction, if there are any.
    """

    n_columns = 0  # nothing is fitted

    known: ModelPredictor
    edges: tuple[float, ...] | None = None

    @property
    def words(self) -> str:
        names = zip(self.base.formula.columns, self.known.coefficients, strict=True)
        numbers = ", ".join(f"{name} {one!r}" for name, one in names)
        return f"how well {self.base.formula.text} is predicted by {numbers}"

    @property
    def agreed(self) -> dict[str, Any]:
        return agreed_evaluate_terms(self, self.base.formula.text)

    @property
    def question(self) -> TableQuestion:
        names = self.base.formula.columns
        return TableQuestion(
            schema=self.asked_about,
            predicted=self.base.formula.text,
            family=link_name_of_family(self.known.family),
            coefficients=dict(zip(names, self.known.coefficients, strict=True)),
            edges=self.edges,
        )

    @property
    def is_coarse(self) -> bool:
        """Whether few values of each column are all there is to a prediction.

        Who has which of these is asked before all else: that all rows of a party have
        one prediction is then no matter of this party alone.
        """
        names = set(self.base.formula.variables) - {self.base.formula.response}
        columns = [self.schema.column(name) for name in names if name in self.schema]
        few = (one.is_category or has_few_values(one.measure) for one in columns)
        return all(few) or self.known.ends[0] == self.known.ends[1]

    def look(self, own: EvaluatedRows, at: Any) -> Array[Any]:
        """Return a party's column of its table or design, or the bins of its rows."""
        return own.places if isinstance(at, RowBins) else self.base.look(own, at)

    def bring(self, table: CheckedTable) -> EvaluatedRows:
        rows = self.base.rows(table)
        predictor = self.known.predictors(rows)
        mean = self.known.means(predictor)
        return EvaluatedRows(table, rows, predictor, mean, self.places(mean))

    def places(self, mean: PerRow) -> Places:
        return np.zeros(len(mean), dtype=np.int64)


def agreed_evaluate_terms(job: Any, formula: str, **asked: Any) -> dict[str, Any]:
    """Return what parties compare beside how they sum.

    Args:
        job: the question.
        formula: as it was written.
        asked: further keys of the section.
    """
    names, known = job.base.formula.columns, job.known.coefficients
    coefficients = dict(zip(names, known, strict=True))
    return {
        "evaluate": {"coefficients": coefficients, **asked},
        "model": job.base.model.terms,
        "formula": formula,
        "codings": job.base.formula.codings,
        "schema": job.schema.to_table(),
    }


def evaluated_responses(own: Mapping[str, FormulaRows]) -> PerRow:
    parts = (one.rows.response for one in own.values())
    return np.concatenate([np.asarray(one, float) for one in parts])


def evaluated_shares(response: PerRow, mean: PerRow) -> dict[str, float]:
    """Return R squared and the root mean squared error of predictions."""
    away, about = response - mean, response - response.mean()
    return {
        "r_squared": float(1.0 - away @ away / (about @ about)),
        "rmse": float(np.sqrt(np.mean(away**2))),
    }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EvaluationResult(TableJobResult):
    """Base class of evaluations; the reference is by name, without bins."""

    compared_with: ClassVar[str] = "the pooled rows' own, without bins"
    compared_by: ClassVar[str] = ""  # said by the words

    @property
    def formula(self) -> str:
        return str(self.job.base.formula.text)

    @property
    def values(self) -> dict[str, float]:
        raise NotImplementedError

    @property
    def max_error(self) -> float | None:
        """Largest distance from the pooled rows' own values; None if not compared."""
        if self.reference is None:
            return None
        found = self.values
        return max(abs(found[name] - one) for name, one in self.reference.items())

    @property
    def plain_reference(self) -> Any:
        return None if self.reference is None else dict(self.reference)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; null for what there is not."""
        return {
            **super().to_dict(),
            "count": self.count,
            "dropped": self.dropped,
            "values": plain_result_values(self.values),
            "formula": self.formula,
        }


def plain_evaluation_bounds(found: BinBoundedNumber) -> dict[str, float | None]:
    low, high = found.interval()
    return plain_result_values({**found._asdict(), "low": low, "high": high})


def evaluation_bounds_in_words(
    name: str, found: BinBoundedNumber, level: float
) -> tuple[str, str]:
    """Return a number, what bins leave open, and what chance does, in words."""
    low, high = found.interval(level)
    return (
        f"{name}: {found.value:.4f} (standard error {found.standard_error:.4f}, "
        f"{level:.0%} interval {low:.4f} to {high:.4f})",
        f"between {found.least:.4f} and {found.largest:.4f} however rows lie within "
        "their bins",
    )
