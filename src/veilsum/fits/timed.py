"""Tables whose rows have a time and an event, for `Surv(time, event) ~ ...`.

What stands on the right is a formula like that of a regression; its rows, its groups
and its rules at home are those of a regression whose response is the event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from veilsum.errors import InvalidInputError, naming_party_in_error
from veilsum.fits.formula_job import FormulaJob, FormulaRows, FormulaRowsJob
from veilsum.models.families import Poisson
from veilsum.models.rows import PerRow, RowMeasures, Rows
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.units import UnitMeasure
from veilsum.tables.formula import ModelFormula
from veilsum.tables.formula.syntax import SurvivalFormula
from veilsum.tables.rules import TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema
from veilsum.tables.survival import survival_columns


def timed_fit_response_formula(found: SurvivalFormula) -> str:
    """Return the formula of a regression of the event on what stands on the right."""
    event = found.event if found.event.isidentifier() else f"`{found.event}`"
    return f"{event} ~ {found.right}"


@dataclass(frozen=True, eq=False, repr=False)
class TimedRows(FormulaRows):
    """One party's table, the rows that a formula makes of it, and their times."""

    time: PerRow

    @property
    def event(self) -> PerRow:
        """1 where the event was seen."""
        return self.rows.response


T = TypeVar("T", bound=TimedRows)


@dataclass(frozen=True)
class TimedFitJob(FormulaRowsJob[T], Generic[T]):
    """A regression of times to an event over an agreed schema.

    Attributes:
        text: the formula, as it was written.
        base: the regression of the event; only its rows and rules are used.
    """

    # Whether every party has a baseline of its own.
    stratified: ClassVar[bool] = False

    text: str
    time: str

    @classmethod
    def of(cls, text: str, schema: Schema, **more: Any) -> Self:
        found = survival_columns(text, schema)
        formula = ModelFormula.of(timed_fit_response_formula(found), schema)
        both = [found.time] if found.time in formula.variables else []
        both += [found.event] if formula.response_is_shaped else []
        if both:
            raise InvalidInputError(
                f"{listed_names(both)} is in Surv(...), and on the right of ~ too: "
                "leave it "
                "out there",
                code="time-on-both-sides",
            )
        if formula.intercept is None:
            raise InvalidInputError(
                "a baseline stands in for an intercept, and the formula takes that "
                "away: leave out 0 + or - 1",
                code="intercept-missing",
            )
        needed = {*formula.variables, *formula.derived, found.time}
        narrow = replace(formula, schema=schema.only(needed))
        return cls(
            text=text,
            base=FormulaJob(narrow, Poisson(), stratified=cls.stratified),
            time=found.time,
            **more,
        )

    @property
    def ones(self) -> int:
        """Where the column of ones is in the rows."""
        place = self.base.formula.intercept
        assert place is not None
        return place

    @property
    def names(self) -> tuple[str, ...]:
        found = self.base.formula.columns
        return tuple(one for k, one in enumerate(found) if k != self.ones)

    @property
    def time_measure(self) -> UnitMeasure:
        return self.schema.column(self.time).measure

    @property
    def measures(self) -> RowMeasures:
        """Measures of the numbers of a row, without the ones."""
        found = self.base.model.measures
        kept = (one for k, one in enumerate(found.design) if k != self.ones)
        return replace(found, design=tuple(kept))

    @property
    def numbers_in_a_row(self) -> int:
        """One for each column of the table; a design may have fewer."""
        return min(len(self.names) + 2, len(self.schema.columns))

    def check(self, party: str, own: T) -> None:
        """Refuse rows that go beyond ranges."""
        model = self.base.model
        with naming_party_in_error(party):
            model.measures.check(own.rows, model.names, model.response)

    def check_at_home(self, home: TableRulesAtHome, own: T) -> None:
        """Refuse a table that has few events, or whose columns would show too much."""
        super().check_at_home(home, own)
        home.column(self.time, own.time, two_valued=lambda: False)

    def timed_rows(self, table: CheckedTable) -> TimedRows:
        return TimedRows(table, self.base.rows(table), table.numbers(self.time))

    def without_ones(self, own: TimedRows) -> Rows:
        return Rows(np.delete(own.rows.design, self.ones, axis=1), own.rows.response)
