"""Pooled statistics, from what was released to tables that people read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Sums, SumsOnly
from veilsum.jobs.releases import Release, ReleaseLimit
from veilsum.jobs.running import JobResult
from veilsum.jobs.summary import plain_table
from veilsum.jobs.wishes import Wishes
from veilsum.models.moments import Moments
from veilsum.models.tallies import Bins, Histogram
from veilsum.numbers.arrays import Array, Vector

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
