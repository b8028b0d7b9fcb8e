"""Descriptive statistics of all parties' rows together, before any model.

`Wishes` are what is to be counted and averaged, on bins and levels that all parties
agreed on; the result turns what was released into tables that people read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Contribution, Sums, SumsOnly
from veilsum.jobs.releases import FRACTION, Release, ReleaseLimit
from veilsum.jobs.rules import RowRules
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.summary import plain_table
from veilsum.jobs.terms import Options, Terms, by_name, table_parts
from veilsum.models.moments import Moments, moments_of
from veilsum.models.tallies import Bins, CrossTable, Histogram, small_cells
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret
from veilsum.tables.columns import SchemaError
from veilsum.tables.frames import Frame, as_frame
from veilsum.tables.schema import MINIMUM_ROWS, CheckedTable, Schema


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


# Beyond this the variance has fewer than twelve digits, and is asked for again.
LOSSY = 1e4


@dataclass(frozen=True, eq=False)
class Ask:
    """What parties are asked for: moments about a centre, and counts the first time."""

    centre: Vector
    again: bool = False


@dataclass(frozen=True)
class StatisticsRecipe(SumsOnly):
    """Counts and moments about zero; then, if digits were lost, about the mean.

    The last number of a sum counts rows that were left out.
    """

    wishes: Wishes
    limit: ReleaseLimit | None

    @property
    def size(self) -> int:
        """Moments, counts, rows, and how many are missing."""
        return self.wishes.n_moments + self.wishes.n_cells + 2

    @property
    def answer_size(self) -> int:
        """As many as were summed."""
        return self.size

    def request(self, sums: Sums) -> Ask | None:
        """Ask for moments about a centre: zero at first, then the mean if need be."""
        wishes = self.wishes
        if sums and (len(sums) > 1 or not wishes.columns or not self._lossy(sums)):
            return None
        if self.limit is not None:
            rows = float(sums[0][-2]) if sums else None
            self.limit.check(self.size * (len(sums) + 1), rows=rows)
        if sums:
            return Ask(self.moments(sums).mean, again=True)
        return Ask(np.zeros(len(wishes.columns)))

    def _lossy(self, sums: Sums) -> bool:
        first = self.moments(sums[:1])
        return first.count > 1 and bool((first.condition > LOSSY).any())

    def answer(self, sums: Sums) -> Vector:
        """Return the last sum; refuse one that is about other rows than the first."""
        # First of all comes the moments' own count, last rows and rows left out.
        counted = np.rint([[one[0], *one[-2:]] for one in sums])
        if self.wishes.columns and (counted != counted[0]).any():
            raise InvalidInputError(
                "the parties counted other rows in the second sum than in the first: "
                "somebody's table or program has changed on the way; run it again"
            )
        return np.asarray(sums[-1])

    def moments(self, sums: Sums) -> Moments:
        """Return the moments as well as they are known."""
        n, columns = self.wishes.n_moments, len(self.wishes.columns)
        centre = self.moments(sums[:1]).mean if len(sums) > 1 else None
        return Moments.unpack(sums[-1][:n], columns, centre)

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows."""
        k = len(self.wishes.columns)
        shown = {"sums of columns": k, "sums of products of columns": k * (k + 1) // 2}
        if not sums:
            shown |= {"cells of histograms and tables": self.wishes.n_cells}
        point = tuple(self.moments(sums).mean.tolist()) if sums else ()
        return Release(
            self.wishes.words, {**shown, "rows, and rows left out": 2}, point
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StatisticsResult(JobResult):
    """Pooled statistics by column.

    Attributes:
        wishes: what was asked for.
        levels: of each category.
        reference: the pooled means, where one computer has all rows and was asked to
            compare.
    """

    wishes: Wishes
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reference: Vector | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in the order of vectors and matrices here."""
        return self.wishes.columns

    @cached_property
    def moments(self) -> Moments:
        """Sums, means, variances, covariances and correlations."""
        if not self.columns:
            raise InvalidInputError("no columns of numbers were asked for")
        assert isinstance(self.recipe, StatisticsRecipe)
        return self.recipe.moments(self.released.sums)

    @property
    def count(self) -> int:
        """The rows of all parties."""
        return round(float(self.released.sums[0][-2]))

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out."""
        return round(float(self.released.sums[0][-1]))

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

    def _counts(self) -> Iterator[Array[np.float64]]:
        wishes, first = self.wishes, self.released.sums[0]
        ends = np.cumsum(wishes.sizes, dtype=np.int64)[:-1]
        cells = np.rint(first[wishes.n_moments : wishes.n_moments + wishes.n_cells])
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
