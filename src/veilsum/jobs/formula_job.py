"""A regression given by a formula: what it needs of a table, and rows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from veilsum.errors import InvalidInputError
from veilsum.jobs.model import Model
from veilsum.models.families import Family
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import listed
from veilsum.tables.columns import SchemaError
from veilsum.tables.formula import ModelFormula, read_formula
from veilsum.tables.frames import Frame
from veilsum.tables.schema import CheckedTable, Schema


def inferred_schema(
    formula: str,
    used: Sequence[str | None],
    frames: Mapping[str, Frame],
    minimum_rows: int,
) -> Schema:
    """Return a schema that fits all tables, of the columns that the job names.

    What is in C(...) has categories.
    """
    read = read_formula(formula)
    words = {*read.columns, *used}
    known = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    named = [name for name in known if name in words]
    for party, frame in frames.items():
        missing = [name for name in named if name not in frame.columns]
        if missing:
            raise SchemaError(
                party,
                missing[0],
                "column",
                f"there is no column {missing[0]!r}, which other parties have; the "
                f"table has {listed(list(frame.columns))}: rename one of them, or fit "
                "without it",
            )
    levels = dict.fromkeys(set(read.categories) & set(named), "category")
    seen = {party: frame.astype(levels) for party, frame in frames.items()}
    return Schema.inferred(seen, named or None, minimum_rows=minimum_rows)


@dataclass(frozen=True)
class FormulaJob:
    """A regression given by a formula over an agreed schema.

    Attributes:
        formula: checked against the schema.
        family: of the response.
        weights: the column of weights, if rows have them.
        offset: the column of offsets.
        ridge: what each squared coefficient but the intercept's costs.
    """

    formula: ModelFormula
    family: Family
    weights: str | None = None
    offset: str | None = None
    ridge: float = 0.0

    @classmethod
    def of(
        cls,
        text: str,
        schema: Schema,
        family: Family,
        weights: str | None = None,
        offset: str | None = None,
        ridge: float = 0.0,
    ) -> FormulaJob:
        """Return the job on those columns that it needs: others may be missing."""
        formula = ModelFormula.of(text, schema)
        needed = {*formula.variables, weights, offset}
        used = tuple(one for one in schema.columns if one.name in needed)
        narrow = replace(formula, schema=replace(schema, columns=used))
        return cls(narrow, family, weights, offset, ridge)

    @property
    def schema(self) -> Schema:
        """What the tables were agreed to look like, as far as it matters here."""
        return self.formula.schema

    @property
    def model(self) -> Model:
        """What is fitted."""
        return Model(
            response=self.formula.response,
            names=self.formula.columns,
            intercept=self.formula.intercept,
            family=self.family,
            ridge=self.ridge,
            weighted=self.weights is not None,
            offset=self.offset is not None,
            variables=len(self.schema.columns),
        )

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {
            "formula": self.formula.text,
            "schema": self.schema.to_table(),
            "columns": [self.weights, self.offset],
        }

    def rows(self, table: CheckedTable) -> Rows:
        """Return one party's rows."""
        design, response = self.formula.design(table)
        weights, offset = (
            None if column is None else self.formula.numeric(table, column)
            for column in (self.weights, self.offset)
        )
        try:
            return Rows.of(design, response, weights=weights, offset=offset)
        except InvalidInputError as error:
            raise SchemaError(table.party, self.weights, "rows", str(error)) from None
