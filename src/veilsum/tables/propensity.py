"""Weights from an earlier fit: how likely a row was to be treated as it was.

A first, logistic fit makes coefficients public. With them every row has a chance of
being treated, its propensity, and a weight at home: one public function of the row's
own columns, in the same bits on every machine. What a fit sums with such weights is
what it sums with a column of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite
from typing import Annotated, Any, Literal, Protocol, get_args

import numpy as np
from msgspec import Meta

from veilsum.errors import InvalidInputError
from veilsum.models.evaluation import ModelPredictor
from veilsum.models.families import Binomial, Family
from veilsum.models.rows import PerRow, RowMeasures, Rows
from veilsum.numbers.arrays import Array, is_real_number
from veilsum.numbers.elementary import exp, expit
from veilsum.numbers.shapes import Bool
from veilsum.numbers.units import UnitMeasure
from veilsum.reading import Number, Section, Text
from veilsum.tables.columns import SchemaError
from veilsum.tables.formula import ModelFormula
from veilsum.tables.schema import CheckedTable, Schema

# Whom an effect is of: all rows, treated ones, others, or those that might be either.
Kind = Literal["ate", "att", "atc", "overlap"]
Flags = Bool[Array[np.bool_], " n"]
LARGEST = 20.0
# Beyond this one row is a whole party's.
MOST = 1e6


class FirstFit(Protocol):
    """Used attributes of the fit that estimated the coefficients."""

    @property
    def coefficients(self) -> dict[str, float]:
        """By column."""
        ...

    @property
    def job(self) -> Any:
        """The fitted model's job, with its formula."""
        ...

    @property
    def response_mean(self) -> float:
        """Fraction of rows whose response is 1."""
        ...


class Propensity(Section, frozen=True):
    """Weights by the chance of being treated, from public coefficients.

    With e the chance that the logistic model gives a row, a treated row and another
    one have the weights

    - ate: 1 / e and 1 / (1 - e), for the effect on all rows;
    - att: 1 and e / (1 - e), for that on treated rows;
    - atc: (1 - e) / e and 1, for that on the others;
    - overlap: 1 - e and e, for rows that might well be either.

    Attributes:
        formula: of the first fit, such as "treated ~ age + C(sex)".
        coefficients: that it found, by column.
        kind: ate, att, atc or overlap.
        stabilised: the part of all rows that is treated, a public number: weights of
            kind ate are multiplied by it, and those of other rows by the rest.
        largest: no row has a larger weight: a party with one refuses.
    """

    formula: Text
    coefficients: Annotated[
        dict[str, int | float],
        Meta(description="a table with a number for each column of the formula"),
    ]
    kind: Kind = "ate"
    stabilised: Number | None = None
    largest: Number = LARGEST

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InvalidInputError(
                f"kind must be one of {', '.join(get_args(Kind))}, found {self.kind!r}",
                code="unknown-kind",
            )
        given: object = self.coefficients
        if not isinstance(given, Mapping) or not all(
            map(is_real_number, given.values())
        ):
            raise InvalidInputError(
                "coefficients must be numbers by column, such as those of the first "
                f"fit, found {given!r}",
                code="coefficients-not-numbers",
            )
        part = self.stabilised
        if part is not None and not (is_real_number(part) and 0 < part < 1):
            raise InvalidInputError(
                "stabilised must be the part of all rows that is treated, a number "
                f"between 0 and 1, found {part!r}; Propensity.of takes it from a fit",
                code="fraction-out-of-range",
            )
        if part is not None and self.kind != "ate":
            raise InvalidInputError(
                f'stabilised belongs to kind = "ate", found kind = "{self.kind}": '
                "leave it out",
                code="stabilised-without-ate",
            )
        top = self.largest
        if not is_real_number(top) or not isfinite(top) or not 0 < top <= MOST:
            raise InvalidInputError(
                f"largest must be a number above 0, at most {MOST:g}, found {top!r}",
                code="largest-out-of-range",
            )

    @classmethod
    def of(
        cls,
        result: FirstFit,
        kind: Kind = "ate",
        *,
        stabilised: bool = False,
        largest: float = LARGEST,
    ) -> Propensity:
        """Return weights from a logistic fit of who is treated.

        Args:
            result: of `fit(..., family="logistic")`.
            kind: as for the class.
            stabilised: whether the part of treated rows, which the fit released, is
                taken into the weights.
            largest: as for the class.
        """
        job = result.job
        if not isinstance(job.model.family, Binomial) or not hasattr(job, "formula"):
            raise InvalidInputError(
                "a propensity is that of a logistic fit with a formula, found "
                f"{job.model.words}",
                code="not-a-logistic-fit",
            )
        if job.weights is not None or job.offset is not None:
            raise InvalidInputError(
                "a propensity is that of a fit without weights and offset: fit once "
                "more, without them",
                code="fit-with-weights",
            )
        return cls(
            job.formula.text,
            result.coefficients,
            kind,
            result.response_mean if stabilised else None,
            largest,
        )


@dataclass(frozen=True)
class PropensityWeights:
    """A propensity on an agreed schema; all of it is public.

    Attributes:
        asked: the propensity.
        formula: of who is treated, checked against the schema.
        known: the model with its coefficients.
    """

    asked: Propensity
    formula: ModelFormula
    known: ModelPredictor

    @classmethod
    def of(cls, asked: Propensity, schema: Schema) -> PropensityWeights:
        """Return the weights that it stands for.

        Raises:
            InvalidInputError: who is treated is no matter of 0 and 1, or coefficients
                do not fit the formula.
        """
        formula = ModelFormula.of(asked.formula, schema=schema, levels="two")
        if formula.response_is_shaped:
            raise InvalidInputError(
                "who is treated must be a column, and none of those that the "
                f"propensity is made of, found {formula.text}",
                code="treated-not-column",
            )
        treated = formula.response_measure()
        if (treated.unit, treated.least, treated.most) != (Fraction(1), 0, 1):
            raise InvalidInputError(
                f"the propensity is that of {formula.response!r}, which must be 0 or 1 "
                "by agreement: a category of two levels, or a number with minimum = 0, "
                f"maximum = 1 and unit = 1; found {treated.low:g} to "
                f"{treated.high:g} in units of {treated.unit}",
                code="treated-not-binary",
            )
        family: Family = Binomial()
        try:
            known = ModelPredictor.of(
                family,
                RowMeasures.of(
                    formula.measures(), treated, intercept=formula.intercept
                ),
                names=formula.columns,
                intercept=formula.intercept,
                coefficients=asked.coefficients,
            )
        except InvalidInputError as error:
            raise InvalidInputError(
                f"in the propensity: {error}", code=error.code
            ) from None
        return cls(asked, formula, known)

    @property
    def treatment(self) -> str:
        """The column that says who is treated."""
        return self.formula.response

    @cached_property
    def measure(self) -> UnitMeasure:
        """Unit and bounds of the weights: a power of two near 2^-40 of the largest."""
        # A weight of nothing has no logarithm.
        return replace(UnitMeasure.of(0, self.asked.largest), least=1)

    @property
    def words(self) -> str:
        """Description of the weights."""
        kind = "stabilised ate" if self.asked.stabilised else self.asked.kind
        return f"the propensity of {self.treatment} ({kind})"

    def weights(self, table: CheckedTable) -> PerRow:
        """Return the weight of each row.

        Raises:
            SchemaError: one is above the largest, or too small to be counted; shown to
                the owner only.
        """
        rows = Rows(*self.formula.design(table))
        found = self._of_chances(self.known.predictors(rows), self.treated(table))
        high = int(np.count_nonzero(~(found <= self.asked.largest)))
        low = int(np.count_nonzero(found < float(self.measure.unit)))
        if high or low:
            number, what = (
                (high, f"above largest = {self.asked.largest:g}")
                if high
                else (low, f"below {float(self.measure.unit):.3g}, of which none count")
            )
            raise SchemaError(
                table.party,
                self.treatment,
                "weights",
                f"{number} of {table.n_rows} rows have a weight by {self.words} {what}."
                " Not sent: leave no row out, since whoever is left out is told by it; "
                "ask another question, such as kind overlap, or of closer ranges",
                code="weight-too-large",
            )
        return found

    def treated(self, table: CheckedTable) -> Flags:
        """Return which rows are treated."""
        rows = Rows(*self.formula.design(table))
        found: Flags = self.known.responses(rows) == 1.0
        return found

    def _of_chances(self, predictor: PerRow, treated: Flags) -> PerRow:
        # Of a treated row the odds against it, and else those for it.
        towards = np.where(treated, -predictor, predictor)
        if self.asked.kind == "overlap":
            return expit(towards)
        with np.errstate(over="ignore"):  # infinite is above the largest
            odds = exp(towards)
        if self.asked.kind == "att":
            return np.where(treated, 1.0, odds)
        if self.asked.kind == "atc":
            return np.where(treated, odds, 1.0)
        part = self.asked.stabilised
        if part is None:
            return 1.0 + odds
        return (1.0 + odds) * np.where(treated, float(part), 1.0 - float(part))
