"""What is to be counted and averaged, on bins and levels that all parties agreed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.models.moments import Moments
from veilsum.models.tallies import Bins, CrossTable, small_cells
from veilsum.numbers.arrays import Array, Vector
from veilsum.tables.columns import SchemaError
from veilsum.tables.schema import CheckedTable, Schema


@dataclass(frozen=True)
class Wishes:
    """What is to be counted and averaged: public, on agreed bins and levels.

    Attributes:
        columns: numbers, for moments.
        histograms: the edges of bins, by column.
        tables: which categories are crossed, and how many levels each has.
        minimum_cell: a party with a smaller count in a cell, but not 0, takes no part.
    """

    columns: tuple[str, ...]
    histograms: Mapping[str, Bins]
    tables: Mapping[tuple[str, ...], CrossTable]
    minimum_cell: int = 0

    @property
    def used(self) -> set[str]:
        """Every column that is looked at."""
        crossed = {name for names in self.tables for name in names}
        return {*self.columns, *self.histograms, *crossed}

    @property
    def n_moments(self) -> int:
        """How many numbers the moments have."""
        return Moments.size(len(self.columns)) if self.columns else 0

    @property
    def n_cells(self) -> int:
        """How many numbers the counts have."""
        return int(np.sum(self.sizes, dtype=np.int64))

    @property
    def sizes(self) -> list[int]:
        """How many numbers each histogram and each table has."""
        bins = [one.size for one in self.histograms.values()]
        return bins + [one.size for one in self.tables.values()]

    @property
    def words(self) -> str:
        """What is released, for the ledger and for what parties compare."""
        parts = [f"moments of {', '.join(self.columns)}"] if self.columns else []
        bins = sorted((name, b.edges.tolist()) for name, b in self.histograms.items())
        parts += [f"histogram of {name} on {edges}" for name, edges in bins]
        parts += [f"table of {' x '.join(names)}" for names in sorted(self.tables)]
        return "; ".join(parts)

    def counts(self, table: CheckedTable) -> Vector:
        """Return one party's counts, one after the other."""
        parts = [bins.tally(table.numbers(c)) for c, bins in self.histograms.items()]
        for names, cross in self.tables.items():
            codes = [table.frame[name].cat.codes.to_numpy() for name in names]
            parts.append(cross.tally(np.stack(codes, axis=1)))
        counts = np.concatenate([*parts, np.zeros(0)])
        if small_cells(counts, self.minimum_cell):
            raise SchemaError(
                table.party,
                None,
                "cell",
                "a cell of the counts holds fewer than minimum_cell = "
                f"{self.minimum_cell} rows, but not none: use wider bins or merge "
                "levels. Not sent.",
            )
        return counts

    def numbers(self, table: CheckedTable) -> Array[np.float64]:
        """Return one party's columns of numbers."""
        return np.stack([table.numbers(name) for name in self.columns], axis=1)


def wishes_of(
    schema: Schema,
    columns: Sequence[str] | None,
    histograms: Mapping[str, ArrayLike],
    tables: Sequence[Sequence[str]],
    minimum_cell: int = 0,
) -> Wishes:
    """Return what is asked for, checked against the schema."""
    numeric = [one.name for one in schema.columns if not one.is_category]
    chosen = numeric if columns is None else list(columns)
    for name in [*chosen, *histograms]:
        if schema.column(name).is_category:
            raise InvalidInputError(
                f"column {name!r} is a category: count it with tables = [[{name!r}]]"
            )
    for name in (name for names in tables for name in names):
        if not schema.column(name).is_category:
            raise InvalidInputError(
                f"column {name!r} holds numbers: count it with histograms, on edges"
            )
    return Wishes(
        tuple(chosen),
        {name: Bins.of(edges) for name, edges in histograms.items()},
        {
            tuple(names): CrossTable(
                tuple(len(schema.column(name).categories) for name in names)
            )
            for names in tables
        },
        minimum_cell,
    )
