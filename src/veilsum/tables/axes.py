"""Axes of a table of counts: levels, a few whole numbers, or bins of numbers.

Each axis is a column with agreed cells, and each row is in one of them. Tables, groups
and histograms need nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.tallies import CrossTable, TallyBins
from veilsum.numbers.arrays import Array
from veilsum.numbers.units import UnitMeasure
from veilsum.tables.columns import Column
from veilsum.tables.schema import CheckedTable

# Whole numbers with more agreed values are counted on edges.
MOST_VALUES = 20


@dataclass(frozen=True)
class TableAxis:
    """A column with agreed places.

    Attributes:
        labels: what each place is called.
        bins: of a number that is counted on edges.
        measure: of a whole number of which each value is a place.
        unreachable: bins that no agreed value is in.
        unit: in which numbers on edges are counted; 0 if it is not known.
    """

    column: str
    labels: tuple[str, ...]
    bins: TallyBins | None = None
    measure: UnitMeasure | None = None
    unreachable: tuple[int, ...] = ()
    unit: float = 0.0

    @classmethod
    def of(cls, column: Column, bins: Mapping[str, TallyBins]) -> TableAxis:
        """Return the axis of a column: its bins if it has any, else its few values.

        Raises:
            InvalidInputError: it has neither.
        """
        if column.is_category:
            return cls(column.name, column.categories)
        if column.name in bins:
            return cls.on_edges(column, bins[column.name])
        found = column.measure if column.is_measured else None
        if found is None or found.most - found.least >= MOST_VALUES:
            raise InvalidInputError(
                f"column {column.name!r} holds numbers: count it with histograms, on "
                "edges, which tables then cross; each value is counted of a category, "
                f"and of numbers that have {MOST_VALUES} by agreement at most",
                code="table-of-numbers",
            )
        return cls.of_values(column.name, found)

    @classmethod
    def on_edges(cls, column: Column, bins: TallyBins) -> TableAxis:
        """Return the bins of a column, and what is below and above them."""
        return cls(
            column.name,
            bins.labels,
            bins=bins,
            unreachable=unreachable_bins_of_column(column, bins),
            unit=float(column.measure.unit) if column.is_measured else 0.0,
        )

    @classmethod
    def of_values(cls, name: str, measure: UnitMeasure) -> TableAxis:
        """Return all values that agreed numbers leave a column, the lowest first."""
        counts = range(measure.least, measure.most + 1)
        labels = tuple(f"{float(one * measure.unit):g}" for one in counts)
        return cls(name, labels, measure=measure)

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> str:
        if self.bins is not None:
            return "bins"
        return "levels" if self.measure is None else "values"

    def places(self, values: Array[Any]) -> Array[Any]:
        """Return where each row is, from the column as `CheckedTable.look` has it."""
        if self.bins is not None:
            return self.bins.places(values)
        if self.measure is None:
            return values
        counts = self.measure.counts(values) - self.measure.least
        return counts.astype(np.int64)

    def codes(self, table: CheckedTable) -> Array[Any]:
        return self.places(table.look(self.column))


def unreachable_bins_of_column(column: Column, bins: TallyBins) -> tuple[int, ...]:
    """Return the bins that no agreed value of a column is in."""
    low, high, edges = column.minimum, column.maximum, bins.edges.tolist()
    last = len(edges)
    found = set[int]()
    if low is not None:
        found |= {k for k, edge in enumerate(edges[:-1]) if edge <= low}
        found |= {last - 1} if edges[-1] < low else set()
    if high is not None:
        found |= {k for k, edge in enumerate(edges, start=1) if edge > high}
        found |= {last} if edges[-1] >= high else set()
    return tuple(sorted(found))


def rows_per_cell(
    axes: Sequence[TableAxis], columns: Sequence[Array[Any]]
) -> Array[Any]:
    """Return how many rows are in each cell, the last axis changing fastest.

    Args:
        axes: that are crossed.
        columns: of each, as `CheckedTable.look` has it.
    """
    pairs = zip(axes, columns, strict=True)
    codes = np.stack([axis.places(values) for axis, values in pairs], axis=1)
    return CrossTable(tuple(one.size for one in axes)).tally(codes)


def n_table_cells(axes: Sequence[TableAxis]) -> int:
    return prod(one.size for one in axes)
