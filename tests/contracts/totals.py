"""A question that is not in the package: the totals of some columns.

    [totals]
    columns = ["age", "cost"]

Everything about it is in this file, as in a distribution of somebody else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from veilsum.consortium.kinds import QuestionSpec
from veilsum.numbers.layout import NumberLayout, layout_number, layout_vector
from veilsum.numbers.units import sum_bits
from veilsum.reading import Names
from veilsum.showing import Rendering, ShownTable
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.presence import FEW_VALUES, PresenceValues
from veilsum.sums.recipes import OneRoundRecipe
from veilsum.sums.releases import SumReleaseLimit
from veilsum.sums.table_job import SchemaTableJob, TableJobResult
from veilsum.sums.wording import PageRoom, quoted_for_release
from veilsum.tables.asked import TableQuestion
from veilsum.tables.rules import TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema


class TotalsSpec(QuestionSpec, frozen=True, kw_only=True):
    """The totals of some columns."""

    heading = "totals"
    columns: Names


@dataclass(frozen=True)
class TotalsRecipe(OneRoundRecipe):
    """One sum: rows, totals of the columns, rows left out."""

    what: str
    layout: NumberLayout
    limit: SumReleaseLimit | None = None

    def row_counts(self, sums):
        return {"rows": self.layout.unpack(sums[0])["rows"]}


@dataclass(frozen=True)
class TotalsJob(SchemaTableJob[CheckedTable]):
    """The totals of some columns of tables with a schema."""

    follows = "means of the columns"
    columns: tuple[str, ...]
    schema: Schema = None

    @property
    def measures(self):
        return [self.schema.column(name).measure for name in self.columns]

    @property
    def groups(self):
        few = [one for one in self.measures if one.most - one.least < FEW_VALUES]
        return tuple(
            PresenceValues(name, measure, name)
            for name, measure in zip(self.columns, self.measures, strict=True)
            if measure in few
        )

    @property
    def numbers_in_a_row(self):
        return len(self.columns)

    @property
    def agreed(self):
        return {"schema": self.schema.to_table(), "totals": list(self.columns)}

    @property
    def question(self):
        return TableQuestion(schema=self.asked_about, columns=self.columns)

    def recipe(self, limit=None):
        bits = max(sum_bits([one.bits]) for one in self.measures)
        units = [one.unit for one in self.measures]
        layout = NumberLayout(
            (
                layout_number("rows"),
                layout_vector("totals.sums", units, bits),
                layout_number("left_out"),
            )
        )
        return TotalsRecipe(f"totals of {', '.join(self.columns)}", layout, limit)

    def bring(self, table):
        return table

    def n_rows(self, own):
        return own.n_rows

    def look(self, own, at):
        return own.look(at)

    def check_at_home(self, home: TableRulesAtHome, own):
        for name in self.columns:
            home.column(name, own.numbers(name))

    def answer(self, own, request):
        del request
        counts = zip(self.columns, self.measures, strict=True)
        totals = [int(one.counts(own.numbers(name)).sum()) for name, one in counts]
        return self.recipe().layout.pack(
            rows=own.n_rows,
            left_out=own.n_dropped,
            **{"totals.sums": np.array(totals, dtype=object)},
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TotalsResult(TableJobResult):
    """The totals of some columns."""

    @cached_property
    def totals(self) -> dict[str, float]:
        recipe, sums = self.inner
        found = recipe.layout.unpack(sums[0])["totals.sums"]
        units = [one.unit for one in self.job.measures]
        values = [float(n * unit) for n, unit in zip(found, units, strict=True)]
        return dict(zip(self.job.columns, values, strict=True))

    @property
    def count(self):
        recipe, sums = self.inner
        return recipe.layout.unpack(sums[0])["rows"]

    def answered(self) -> Rendering:
        rows = [[name, f"{value:g}"] for name, value in self.totals.items()]
        return Rendering(
            "Totals", [ShownTable(["column", "total"], rows), self.rows_sentence]
        )

    def draw_with(self, figures, *, title: str | None = None) -> Any:
        return figures.values_figure(self.totals, "total", title or "Totals", "")

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "totals": self.totals}


class TotalsKind(TableKind):
    """Totals of columns."""

    spec = TotalsSpec
    result = TotalsResult
    unused_rules = ("maximum_columns",)
    multiplied = frozenset()
    command: ClassVar = {
        "summary": "Add up columns of several parties' rows.",
        "help": "Add up columns of several parties' rows.",
    }

    @staticmethod
    def make_job(schema: Schema, *, columns: tuple[str, ...]) -> TotalsJob:
        used = tuple(schema.column(name) for name in columns)
        return TotalsJob(columns, replace(schema, columns=used))

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        names = room.names(
            "columns", [quoted_for_release(one) for one in asked.job.columns]
        )
        yield f"question: the totals of {names} over all members' rows"


KIND = TotalsKind()
