"""Descriptive statistics of all parties' rows together, before any model.

`Wishes` are what is to be counted and averaged, on bins and levels and in units that
all parties agreed on; the result turns what was released into tables that people read.
Every row gives whole numbers, and their sum says nothing of who gave which.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.jobs.presence import Binned, Cells, Group, Values, are_few
from veilsum.jobs.recipes import Sums, SumsOnly
from veilsum.jobs.releases import Release, ReleaseLimit
from veilsum.jobs.running import JobResult
from veilsum.jobs.summary import plain_table
from veilsum.jobs.table_job import SchemaJob, agreed_schema, ask
from veilsum.jobs.terms import Options, by_name
from veilsum.models.moments import Moments, moments_of
from veilsum.models.rows import Rows
from veilsum.models.tallies import Bins, CrossTable, Histogram
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.units import Counts, Integers, Measure
from veilsum.tables.asked import Question
from veilsum.tables.fingerprints import Source
from veilsum.tables.frames import as_frame
from veilsum.tables.rules import AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema


@dataclass(frozen=True)
class Wishes:
    """What is to be counted and averaged: public, on agreed bins and levels.

    Attributes:
        columns: numbers, for moments.
        histograms: the edges of bins, by column.
        tables: which categories are crossed, and how many levels each has.
        measures: how each of the numbers is counted, by column.
    """

    columns: tuple[str, ...]
    histograms: Mapping[str, Bins]
    tables: Mapping[tuple[str, ...], CrossTable]
    measures: tuple[Measure, ...] = ()

    @property
    def used(self) -> set[str]:
        """Every column that is looked at."""
        crossed = {name for names in self.tables for name in names}
        return {*self.columns, *self.histograms, *crossed}

    @property
    def n_moments(self) -> int:
        """How many numbers the moments have; without columns, the row count alone."""
        return Moments.size(len(self.columns))

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

    def groups(self, schema: Schema) -> tuple[Group, ...]:
        """Return bins, cells and values that few parties might hold."""
        found: list[Group] = [Binned(*one) for one in self.histograms.items()]
        for names in self.tables:
            levels = tuple(schema.column(name).categories for name in names)
            found.append(Cells(names, levels))
        pairs = zip(self.columns, self.measures, strict=True)
        found += [Values(name, one, name) for name, one in pairs if are_few(one)]
        return tuple(found)

    @property
    def counts(self) -> Counts:
        """What a sum counts: the row count and moments, cells, rows left out."""
        moments = Moments.counts(self.measures)
        ones = (Fraction(1),) * (self.n_cells + 1)
        return Counts((*moments.units, *ones), moments.bits)

    def cells(self, table: CheckedTable) -> Integers:
        """Return one party's cells, one after the other."""
        parts = [bins.tally(table.numbers(c)) for c, bins in self.histograms.items()]
        for names, cross in self.tables.items():
            codes = [table.frame[name].cat.codes.to_numpy() for name in names]
            parts.append(cross.tally(np.stack(codes, axis=1)))
        return np.concatenate([*parts, np.zeros(0, dtype=np.int64)])

    def check_at_home(self, home: AtHome, table: CheckedTable) -> None:
        """Refuse a table of which the statistics would show too much."""
        for name in self.columns:
            values, measure = table.numbers(name), table.schema.column(name).measure
            two_valued = partial(operator.le, measure.most - measure.least, 1)
            home.column(name, values, two_valued=two_valued)
            home.dominated(name, values)
        for name, bins in self.histograms.items():
            home.bins(name, bins.tally(table.numbers(name)))
        for names in self.tables:
            codes = [table.frame[name].cat.codes.to_numpy() for name in names]
            labels = [table.schema.column(name).categories for name in names]
            for one in zip(names, codes, labels, strict=True):
                home.category(*one)
            home.cells(names, codes, labels)
        if self.columns:
            # The moments of columns are those of a design with ones.
            ones = np.ones((table.n_rows, 1))
            rows = Rows(np.hstack([ones, self.numbers(table)]), ones[:, 0])
            home.design(rows, ("1", *self.columns), intercept=0)

    @property
    def levels(self) -> dict[str, int]:
        """How many levels each crossed category has."""
        return {
            name: number
            for names, cross in self.tables.items()
            for name, number in zip(names, cross.levels, strict=True)
        }

    def vector(self, table: CheckedTable) -> Integers:
        """Return what one party gives, in whole numbers.

        Raises:
            SchemaError: a number is out of its range.
        """
        moments: Integers = np.array([table.n_rows], dtype=object)
        if self.columns:
            moments = moments_of(self.numbers(table), self.measures)
        cells = self.cells(table).astype(object)
        return np.concatenate([moments, cells, [table.n_dropped]])

    def numbers(self, table: CheckedTable) -> Array[np.float64]:
        """Return one party's columns of numbers."""
        return np.stack([table.numbers(name) for name in self.columns], axis=1)


def wishes_of(
    schema: Schema,
    columns: Sequence[str] | None,
    histograms: Mapping[str, ArrayLike],
    tables: Sequence[Sequence[str]],
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
        tuple(schema.column(name).measure.centred() for name in chosen),
    )


@dataclass(frozen=True)
class StatisticsRecipe(SumsOnly):
    """One sum: the row count, moments, cells, and how many rows were left out."""

    wishes: Wishes
    limit: ReleaseLimit | None

    @property
    def counts(self) -> Counts:
        """What the numbers are whole numbers of."""
        return self.wishes.counts

    @property
    def size(self) -> int:
        """Moments, cells, and how many rows are left out."""
        return self.wishes.n_moments + self.wishes.n_cells + 1

    @property
    def answer_size(self) -> int:
        """As many as were summed."""
        return self.size

    def request(self, sums: Sums) -> str | None:
        """Ask once."""
        if sums:
            return None
        if self.limit is not None:
            self.limit.check(self.size)
        return self.wishes.words

    def answer(self, sums: Sums) -> Vector:
        """Return the total in float64: what parties compare and sign."""
        return self.counts.values(sums[0])

    def moments(self, sums: Sums) -> Moments:
        """Return the moments, exact."""
        return Moments.unpack(sums[0][: self.wishes.n_moments], self.wishes.measures)

    def release(self, sums: Sums) -> Release:
        """Return what the sum shows."""
        del sums
        k = len(self.wishes.columns)
        shown = {
            "sums of columns": k,
            "sums of products of columns": k * (k + 1) // 2,
            "cells of histograms and tables": self.wishes.n_cells,
            "rows, and rows left out": 2,
        }
        return Release(self.wishes.words, shown)


@dataclass(frozen=True)
class StatisticsJob(SchemaJob[CheckedTable]):
    """Statistics of tables with an agreed schema.

    Attributes:
        wishes: what is counted and averaged.
        used: the columns that are looked at.
    """

    follows = "means, variances and correlations"

    wishes: Wishes
    used: Schema

    @property
    def schema(self) -> Schema:
        """What tables were agreed to look like, as far as it matters here."""
        return self.used

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        histograms: Mapping[str, ArrayLike] | None = None,
        tables: Sequence[Sequence[str]] | None = None,
    ) -> StatisticsJob:
        """Return the job on those columns that it needs."""
        wishes = wishes_of(schema, columns, histograms or {}, tables or ())
        used = tuple(one for one in schema.columns if one.name in wishes.used)
        return cls(wishes, replace(schema, columns=used))

    @property
    def groups(self) -> tuple[Group, ...]:
        """Bins, cells and values that few parties might hold."""
        return self.wishes.groups(self.schema)

    @property
    def levels(self) -> dict[str, int]:
        """How many levels each crossed category has."""
        return self.wishes.levels

    @property
    def numbers_in_a_row(self) -> int:
        """One for each column."""
        return len(self.schema.columns)

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {"schema": self.schema.to_table(), "statistics": self.wishes.words}

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        wishes = self.wishes
        edges = {name: bins.edges.tolist() for name, bins in wishes.histograms.items()}
        return Question(
            schema=self.asked_about,
            columns=wishes.columns,
            histograms={name: tuple(one) for name, one in edges.items()},
            tables=tuple(wishes.tables),
        )

    def recipe(self, limit: ReleaseLimit | None = None) -> StatisticsRecipe:
        """Return what parties do: one sum."""
        return StatisticsRecipe(self.wishes, limit)

    def bring(self, table: CheckedTable) -> CheckedTable:
        """Return the table itself."""
        return table

    def n_rows(self, own: CheckedTable) -> int:
        """Return how many rows a party has to give."""
        return own.n_rows

    def check_at_home(self, home: AtHome, own: CheckedTable) -> None:
        """Refuse a table of which the statistics would show too much."""
        self.wishes.check_at_home(home, own)

    def look(self, own: CheckedTable, at: str) -> Array[Any]:
        """Return a column of the table."""
        return own.look(at)

    def answer(self, own: CheckedTable, request: str) -> Integers:
        """Return what one party gives."""
        del request
        return self.wishes.vector(own)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StatisticsResult(JobResult):
    """Pooled statistics by column.

    Attributes:
        wishes: what was asked for.
        rules: what every party kept to.
        levels: of each category.
        reference: the pooled means, where one computer has all rows and was asked to
            compare.
    """

    wishes: Wishes
    rules: Rules
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reference: Vector | None = None

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What the rules leave open."""
        return (*super().further_limits, *self.rules.open)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in the order of vectors and matrices here."""
        return self.wishes.columns

    @cached_property
    def moments(self) -> Moments:
        """Sums, means, variances, covariances and correlations."""
        if not self.columns:
            raise InvalidInputError("no columns of numbers were asked for")
        recipe, sums = self.inner
        assert isinstance(recipe, StatisticsRecipe)
        return recipe.moments(sums)

    @property
    def count(self) -> int:
        """The rows of all parties."""
        return int(self.inner[1][0][0])

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out."""
        return int(self.inner[1][0][-1])

    @property
    def max_error(self) -> float | None:
        """How far the means are from the pooled ones; None if not compared."""
        if self.reference is None:
            return None
        return float(np.linalg.norm(self.moments.mean - self.reference))

    @cached_property
    def histograms(self) -> dict[str, Histogram]:
        """Counts on the agreed bins, by column."""
        parts = self._counts()
        return {name: b.unpack(next(parts)) for name, b in self._bins.items()}

    @cached_property
    def tables(self) -> dict[tuple[str, ...], Array[np.float64]]:
        """Contingency tables, one axis for each category."""
        parts = self._counts()
        for _ in self._bins:
            next(parts)
        return {
            names: cross.unpack(next(parts))
            for names, cross in self.wishes.tables.items()
        }

    @property
    def _bins(self) -> Mapping[str, Bins]:
        return self.wishes.histograms

    def _counts(self) -> Iterator[Integers]:
        ends = np.cumsum(self.wishes.sizes, dtype=np.int64)[:-1]
        cells = self.inner[1][0][self.wishes.n_moments : -1]
        return iter(np.split(cells, ends))

    def rows(self) -> list[dict[str, Any]]:
        """Return one line for each column of numbers."""
        if not self.columns:
            return []
        found = self.moments
        lines = zip(
            self.columns,
            found.sum.tolist(),
            found.mean.tolist(),
            found.standard_deviation.tolist(),
            strict=True,
        )
        return [
            {"name": n, "count": found.count, "sum": s, "mean": m, "sd": d}
            for n, s, m, d in lines
        ]

    def summary(self) -> str:
        """Return a table of the columns, and the counts."""
        head = ["name", "count", "sum", "mean", "sd"]
        parts = [plain_table(head, self.rows(), "<>...")] if self.columns else []
        for name, found in self.histograms.items():
            parts.append(_histogram_text(name, found))
        for names, cells in self.tables.items():
            parts.append(_table_text(names, cells, self.levels))
        dropped = f", {self.dropped} with missing values left out"
        parts.append(
            f"{self.count} rows of {len(self.released.members)} parties"
            f"{dropped if self.dropped else ''}."
        )
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        found = self.moments if self.columns else None
        return {
            **super().to_dict(),
            "minimiser": [] if found is None else found.mean.tolist(),
            "reference": None if self.reference is None else self.reference.tolist(),
            "max_error": self.max_error,
            "count": self.count,
            "dropped": self.dropped,
            "table": self.rows(),
            "covariance": None if found is None else _plain(found.covariance),
            "correlation": None if found is None else _plain(found.correlation),
            "histograms": {n: _plain_dict(h) for n, h in self.histograms.items()},
            "tables": [
                {
                    "columns": list(names),
                    "levels": [list(self.levels[name]) for name in names],
                    "counts": cells.tolist(),
                }
                for names, cells in self.tables.items()
            ],
        }


def _plain(matrix: Array[np.float64]) -> list[list[float | None]]:
    return [[None if np.isnan(x) else x for x in row] for row in matrix.tolist()]


def _plain_dict(histogram: Histogram) -> dict[str, Any]:
    return {key: np.asarray(v).tolist() for key, v in asdict(histogram).items()}


def _histogram_text(name: str, found: Histogram) -> str:
    edges = [f"{edge:g}" for edge in found.edges.tolist()]
    bins = [f"below {edges[0]}", *(f"{a} to {b}" for a, b in pairwise(edges))]
    counts = [int(n) for n in (found.below, *found.counts, found.above)]
    rows = list(zip([*bins, f"above {edges[-1]}"], counts, strict=True))
    return plain_table([name, "count"], rows, "<>")


def _table_text(
    names: tuple[str, ...],
    cells: Array[np.float64],
    levels: Mapping[str, tuple[str, ...]],
) -> str:
    rows = [
        [*(levels[n][k] for n, k in zip(names, place, strict=True)), int(cells[place])]
        for place in np.ndindex(cells.shape)
    ]
    return plain_table([*names, "count"], rows, "<" * len(names) + ">")


def statistics(
    data: Mapping[str, Any],
    *,
    columns: Sequence[str] | None = None,
    histograms: Mapping[str, ArrayLike] | None = None,
    tables: Sequence[Sequence[str]] = (),
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
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
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to average the pooled rows as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    frames = {party: as_frame(table) for party, table in by_name(data).items()}
    agreed = agreed_schema(
        schema,
        frames,
        options,
        inferred=lambda: Schema.inferred(frames, minimum_rows=minimum_rows),
    )
    job = StatisticsJob.of(agreed, columns, histograms, tables)
    checked = {name: job.schema.check(name, frame) for name, frame in frames.items()}
    asked = ask(
        job,
        checked,
        sources={p: Source(frame, job.schema.names) for p, frame in frames.items()},
        rules=agreed.rules(rules or Rules()),
        options=options,
    )
    used = job.schema.columns
    return StatisticsResult(
        terms=asked.terms,
        recipe=asked.recipe,
        released=asked.released,
        wishes=job.wishes,
        rules=asked.rules,
        reference=_pooled_means(job.wishes, checked) if compare else None,
        levels={one.name: one.categories for one in used if one.is_category},
    )


def _pooled_means(wishes: Wishes, tables: Mapping[str, CheckedTable]) -> Vector | None:
    """Return the means as one owner of all rows would find them."""
    if not wishes.columns:
        return None
    parts = [wishes.numbers(table) for table in tables.values()]
    return np.concatenate(parts).mean(axis=0)
