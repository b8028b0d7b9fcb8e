"""Counts, moments, histograms and tables: the section [statistics]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Annotated, Any, Literal

from msgspec import Meta

from veilsum.consortium.kinds import QuestionSpec
from veilsum.models.tallies import TallyBins
from veilsum.questions.statistics import StatisticsJob, statistics
from veilsum.questions.statistics.figure import boxes_figure, quantile_groups
from veilsum.reading import Names, Text
from veilsum.showing import counted_words
from veilsum.sums.kinds import Asked, TableKind
from veilsum.sums.wording import PageRoom, exact_number_words, quoted_for_release
from veilsum.tables.axes import TableAxis, n_table_cells
from veilsum.tables.columns import Column


class StatisticsSpec(QuestionSpec, frozen=True, kw_only=True):
    """Counts, moments, histograms and tables."""

    heading = "statistics"

    columns: Names | None = None
    histograms: (
        Annotated[
            dict[str, tuple[int | float, ...]],
            Meta(description="a table with the edges of bins for each column"),
        ]
        | None
    ) = None
    tables: (
        Annotated[
            tuple[tuple[str, ...], ...],
            Meta(description='lists of columns, such as [["sex", "smoker"]]'),
        ]
        | None
    ) = None
    by: Text | None = None
    quantiles: (
        Annotated[
            dict[str, tuple[int | float, ...]],
            Meta(description="a table with shares, such as { age = [0.5] }"),
        ]
        | None
    ) = None
    missing: Literal["columns", "groups"] | None = None


class StatisticsKind(TableKind[StatisticsSpec, StatisticsJob]):
    spec = StatisticsSpec
    make_job = staticmethod(StatisticsJob.of)
    function = staticmethod(statistics)
    unused_rules = ("maximum_columns",)
    counts_rows = True
    level_sums = True
    multiplied = frozenset({"values"})

    def describe(self, asked: Asked, room: PageRoom) -> Iterator[str]:
        _, job = self.parts(asked)
        wishes, schema = job.wishes, job.schema
        yield "question: counts and averages of all members' rows together"
        by, each = wishes.by, ""
        if by is not None:
            labels = [quoted_for_release(one) for one in by.labels]
            yield (
                f"all of it in each of {by.size} groups, by "
                f"{quoted_for_release(by.column)}: "
                f"{room.names('groups', labels)}; groups are compared, and tested"
            )
            each = ", in each group"
        if wishes.columns:
            names = [quoted_for_release(name) for name in wishes.columns]
            what = "and correlations of" if by is None else "of"
            comma = " " if by is None else ", no correlations, "
            yield (
                f"means, variances{comma}{what} {counted_words(len(names), 'column')}: "
                f"{room.names('columns of numbers', names)}{each}"
            )
        lines = []
        for name, bins in wishes.histograms.items():
            bounds = list(_describe_statistics_bins(bins, schema.column(name)))
            lines.append(
                f"- histogram of {quoted_for_release(name)}: how many rows are "
                f"{room.names(f'bins of {quoted_for_release(name)}', bounds)}"
            )
        for crossed, axes in wishes.tables.items():
            names = [quoted_for_release(name) for name in crossed]
            of = " x ".join(names)
            kind = axes[0].kind if len(axes) == 1 else _describe_crossed_axes(axes)
            lines.append(
                f"- table of {of}: how many rows have each of the "
                f"{n_table_cells(axes)} "
                f"{kind}"
            )
        if lines:
            yield f"histograms and tables: {len(lines)}{each}"
            yield from room.lines("histograms and tables", lines)
        if wishes.quantiles:
            names = [quoted_for_release(name) for name in wishes.quantiles]
            yield (
                f"quantiles of {room.names('quantiles', names)}: they are read "
                "off the histograms, as a bin in which each of them is; what becomes "
                "known is how many rows are below each edge, that is the distribution "
                "function "
                "there" + (each and ", of each group")
            )
        if wishes.gaps:
            yield (
                "missing values: how many rows lack each of the columns"
                + ("" if not wishes.gapped else ", in all and in each group")
            )

    def figures(
        self, draw: Any, result: Any, title: str, **shown: Any
    ) -> dict[str, Any]:
        """Return boxes of quantiles, and tables of columns with bins."""
        found: dict[str, Any] = {}
        n_rows = f"{result.count} rows of {len(result.released.members)} parties"
        for name in result.quantiles:
            boxes = boxes_figure(draw, quantile_groups(result, name), name, n_rows)
            found[f"boxes_{len(found) + 1}"] = boxes
        for names, axes in result.wishes.tables.items():
            if len(axes) == 2 and any(one.bins is not None for one in axes):
                labels = axes[0].labels, axes[1].labels
                table = draw.counts_figure(
                    result.tables[names], (names[0], names[1]), labels, n_rows
                )
                found[f"counts_{len(found) + 1}"] = table
        return found


def _describe_statistics_bins(bins: TallyBins, column: Column) -> Iterator[str]:
    """Yield every bin with its ends, and whether the agreed range leaves it empty."""
    edges: list[float] = bins.edges.tolist()
    measure = column.measure
    # Rounding to the unit may lead a little beyond the range.
    low, high = -inf, inf
    if column.minimum is not None:
        low = min(column.minimum, measure.low)
    if column.maximum is not None:
        high = max(column.maximum, measure.high)
    empty = " (always 0, by the agreed range)"
    yield f"below {exact_number_words(edges[0])}" + (empty if low >= edges[0] else "")
    for a, b in pairwise(edges):
        last = b == edges[-1]
        out = a > high or (b < low if last else b <= low)
        ends = (
            f"{exact_number_words(a)} to {'' if last else 'below '}"
            f"{exact_number_words(b)}"
        )
        yield f"from {ends}{' inclusive' if last else ''}" + (empty if out else "")
    yield f"above {exact_number_words(edges[-1])}" + (
        empty if high <= edges[-1] else ""
    )


def _describe_crossed_axes(axes: Sequence[TableAxis]) -> str:
    """Return what is crossed, beside levels, in words."""
    kinds = dict.fromkeys(one.kind for one in axes)
    return f"combinations of their {' and '.join(kinds)}"


KIND = StatisticsKind()
