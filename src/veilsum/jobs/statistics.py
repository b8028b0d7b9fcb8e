"""Descriptive statistics of all parties' rows together, before any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.jobs.parties import by_name, table_parts
from veilsum.jobs.recipes import Contribution
from veilsum.jobs.releases import FRACTION
from veilsum.jobs.rules import RowRules
from veilsum.jobs.running import run_job
from veilsum.jobs.statistics_result import Ask, StatisticsRecipe, StatisticsResult
from veilsum.jobs.terms import Options, Terms
from veilsum.jobs.wishes import Wishes, wishes_of
from veilsum.models.moments import moments_of
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret
from veilsum.tables.frames import Frame, as_frame
from veilsum.tables.schema import MINIMUM_ROWS, CheckedTable, Schema


@dataclass(frozen=True, eq=False, repr=False)
class _Part(Secret):
    """One party's answers."""

    wishes: Wishes
    table: CheckedTable
    whole: Frame

    def contribution(self) -> Contribution:
        return Contribution(self.answer, table_parts(self.whole))

    def answer(self, ask: Ask) -> Array[np.float64]:
        wishes, table = self.wishes, self.table
        counts = np.zeros(wishes.n_cells) if ask.again else wishes.counts(table)
        moments = np.zeros(0)
        if wishes.columns:
            moments = moments_of(wishes.numbers(table), ask.centre)
        return np.concatenate([moments, counts, [table.n_rows, table.n_dropped]])


def statistics(
    data: Mapping[str, Any],
    *,
    columns: Sequence[str] | None = None,
    histograms: Mapping[str, ArrayLike] | None = None,
    tables: Sequence[Sequence[str]] = (),
    schema: Schema | None = None,
    minimum_rows: int = MINIMUM_ROWS,
    minimum_cell: int = 0,
    release_fraction: float = FRACTION,
    compare: bool = False,
    **options: Unpack[Options],
) -> StatisticsResult:
    """Return counts, means, variances, correlations, histograms and tables.

    Args:
        data: each party's table: pandas, polars, or a mapping of columns.
        columns: numbers to describe; by default all of the schema's.
        histograms: the edges of bins, by column.
        tables: categories to cross, such as [("sex", "smoker")].
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused.
        minimum_cell: a party with a smaller count in a cell, but not 0, is refused.
        release_fraction: of the numbers in honest rows, how many may be released.
        compare: whether to average the pooled rows as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    frames = {party: as_frame(table) for party, table in by_name(data).items()}
    agreed = schema or Schema.inferred(frames, minimum_rows=minimum_rows)
    wishes = wishes_of(agreed, columns, histograms or {}, tables, minimum_cell)
    used = tuple(one for one in agreed.columns if one.name in wishes.used)
    looked_at = replace(agreed, columns=used)
    checked = {name: looked_at.check(name, frame) for name, frame in frames.items()}
    for table in checked.values():
        wishes.counts(table)  # a cell that is too small keeps its party at home
    rules = RowRules.of(agreed, release_fraction)
    terms = Terms.of(list(frames), options=options)
    limit = rules.limit(len(used), terms)
    recipe = StatisticsRecipe(wishes, limit)
    released = run_job(
        recipe,
        {
            name: _Part(wishes, table, frames[name]).contribution()
            for name, table in checked.items()
        },
        terms,
        agreed={
            "schema": looked_at.to_table(),
            "statistics": wishes.words,
            "rules": asdict(rules),
        },
    )
    return StatisticsResult(
        terms=terms,
        recipe=recipe,
        released=released,
        wishes=wishes,
        reference=_pooled_means(wishes, checked) if compare else None,
        levels={one.name: one.categories for one in used if one.is_category},
    )


def _pooled_means(wishes: Wishes, tables: Mapping[str, CheckedTable]) -> Vector | None:
    """Return the means as one owner of all rows would find them."""
    if not wishes.columns:
        return None
    parts = [wishes.numbers(table) for table in tables.values()]
    return np.concatenate(parts).mean(axis=0)
