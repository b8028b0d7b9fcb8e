"""Descriptive statistics of all parties' rows together, before any model.

`StatisticsWishes` are public: columns, bins, axes of tables and groups that all parties
agreed on, in agreed units. Every row gives whole numbers, one sum of which answers all
of them and says nothing of who gave which; the result turns it into tables that people
read.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from math import inf, nan
from types import ModuleType
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.disclosure.merging import Merging
from veilsum.errors import InvalidInputError
from veilsum.models.moments import MarginalMoments, Moments
from veilsum.models.plausible import check_plausible_total
from veilsum.models.tallies import Cells, CrossTable, TallyHistogram, TallyQuantile
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.layout import NumberLayout
from veilsum.numbers.units import ROW_BITS, Integers
from veilsum.questions.statistics.figure import statistics_figure
from veilsum.questions.statistics.populations import (
    CountDifferences,
    RowChoice,
    Variable,
)
from veilsum.questions.statistics.table_one import (
    WIDTH,
    GroupedStatistics,
    table_one_quantile_blocks,
)
from veilsum.questions.statistics.wishes import (
    GROUP_MOMENTS,
    Missing,
    StatisticsWishes,
    parse_statistics,
    statistics_group_marginals,
)
from veilsum.showing import Block, Rendering, ShownTable
from veilsum.sums.presence import (
    PresenceGroup,
    PresenceLackingRows,
    presence_merged_lines,
    presence_merged_names,
)
from veilsum.sums.recipes import OneRoundRecipe, Sums
from veilsum.sums.releases import SCREENED, PossibleRound, SumRelease, SumReleaseLimit
from veilsum.sums.running import plain_result_values
from veilsum.sums.table_job import SchemaTableJob, TableJobResult, run_on_frames
from veilsum.sums.terms import SumOptions
from veilsum.tables.asked import TableQuestion
from veilsum.tables.axes import TableAxis, n_table_cells
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import Rules, TableRulesAtHome, how_table_rows_are_agreed
from veilsum.tables.schema import CheckedTable, Schema


@dataclass(frozen=True)
class StatisticsDescription:
    """The last request: statistics, with the variables that are on their own rows."""

    asked: str
    own: tuple[Variable, ...]


@dataclass(frozen=True)
class StatisticsRecipe(OneRoundRecipe):
    """Row counts, moments, cells, and the number of rows left out, in one sum.

    By group, if rows may have missing values, a first sum decides for each variable
    whether it is described on its own rows or on complete ones; see `Populations`.
    """

    wishes: StatisticsWishes
    limit: SumReleaseLimit | None

    @cached_property
    def layout(self) -> NumberLayout:
        """The statistics, padded to the longest sum under any rules."""
        found, populations = self.wishes.layout, self.wishes.populations
        first = 0 if populations is None else populations.layout(None).size
        return found.padded(first)

    @property
    def answer_size(self) -> int:
        return self.wishes.layout.size

    @property
    def wording(self) -> tuple[str, str, str]:  # type: ignore[override]
        """A first sum counts parties, not rows."""
        return SCREENED if self.n_first else super().wording

    @property
    def _rules(self) -> Rules:
        found = None if self.limit is None else self.limit.rules
        return found or Rules()

    @cached_property
    def first(self) -> NumberLayout:
        """The first of two sums; empty if there is only one."""
        if self.wishes.populations is None:
            return NumberLayout(())
        found = self.wishes.populations.layout(self._rules)
        fits = self.limit is None or self.limit.allows(self.answer_size + found.size)
        return found if fits else NumberLayout(())

    @property
    def n_first(self) -> int:
        """Number of numbers of the first of two sums; 0 if there is only one."""
        return self.first.size

    @property
    def most_numbers(self) -> int:
        return self.n_first + self.answer_size

    @property
    def what(self) -> str:
        return self.wishes.words

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """The first sum, if there is one, and the statistics."""
        if not self.n_first:
            return (PossibleRound.from_layout("only", self.layout),)
        first = PossibleRound.from_layout("first", self.first)
        return first, PossibleRound.from_layout("last", self.layout)

    def merges(self, sums: Sums) -> bool:
        """Say whether the next sum has the statistics, and not counts of parties."""
        return len(sums) == bool(self.n_first)

    def release(self, sums: Sums) -> SumRelease:
        layout = self.first if self.n_first and not sums else self.layout
        return SumRelease.from_layout(self.what, layout)

    def choice(self, sums: Sums) -> RowChoice:
        populations = self.wishes.populations
        if populations is None:
            return RowChoice(frozenset(), {})
        if self.n_first:
            limit = self.limit or SumReleaseLimit(honest=0, columns=0, minimum_rows=0)
            return populations.choose(sums[0][: self.n_first], limit)
        assert self.limit is not None
        wanted = populations.layout(self._rules).size
        rows = how_table_rows_are_agreed(self.limit.rows_for(self.answer_size + wanted))
        why = (
            f"{wanted} counts of parties would have to be released before, and there "
            f"is no room for them; agree on {rows}"
        )
        return RowChoice(frozenset(), dict.fromkeys(populations.variables, why))

    def request(
        self, sums: Sums
    ) -> str | CountDifferences | StatisticsDescription | None:
        """Ask where variables differ, if that matters, and then for the statistics."""
        if len(sums) > bool(self.n_first):
            return None
        if self.limit is not None:
            self.limit.check(self.most_numbers)
        if self.wishes.populations is None:
            return self.asked
        if self.n_first and not sums:
            return CountDifferences(self.asked, self._rules)
        own = self.choice(sums).own
        each = self.wishes.populations.variables
        return StatisticsDescription(
            self.asked, tuple(one for one in each if one in own)
        )

    def answer(self, sums: Sums) -> Vector:
        """Return the last total in float64: parties compare and sign it."""
        return self.wishes.layout.counts.values(sums[-1][: self.answer_size])

    def parts(self, sums: Sums) -> dict[str, Any]:
        return self.layout.unpack(sums[-1])

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return rows of each group, cells, and all rows; not those left out."""
        if self.n_first and len(sums) == 1:
            return {}
        wishes, parts = self.wishes, self.parts(sums)
        rows = [parts["rows"]] if wishes.by is None else parts["group_rows"].tolist()
        labels = (
            [""] if wishes.by is None else [f" of {one}" for one in wishes.by.labels]
        )
        found = {f"rows{label}": int(n) for label, n in zip(labels, rows, strict=True)}
        cells = parts["cells"].tolist()
        found |= {f"rows in cell {k}": int(n) for k, n in enumerate(cells, start=1)}
        return found | {"rows of all groups": sum(map(int, rows))}

    def check_sum(self, sums: Sums) -> None:
        """Refuse counts, sums and squares that are impossible."""
        super().check_sum(sums)
        if self.n_first and len(sums) == 1:
            if self.limit is not None and self.limit.parties is not None:
                for number in sums[0][: self.n_first].tolist():
                    check_plausible_total("parties", int(number), 0, self.limit.parties)
            return
        wishes, parts = self.wishes, self.parts(sums)
        counts = (parts["missing"], parts["group_missing"].ravel())
        for count in (*np.concatenate(counts).tolist(), parts["left_out"]):
            check_plausible_total(
                "missing values and rows left out", int(count), 0, 1 << ROW_BITS
            )
        names = wishes.columns
        if not names:
            return
        if wishes.by is None:
            Moments.from_parts(parts, wishes.measures).check(names)
            return
        groups = statistics_group_marginals(parts, wishes.measures)
        for label, own in zip(wishes.by.labels, groups, strict=True):
            own.check(names, f" where {wishes.by.column} = {label}")
            for name, rows in zip(names, own.rows, strict=True):
                check_plausible_total(f"rows that have {name}", rows, 0, self.most_rows)


@dataclass(frozen=True)
class StatisticsJob(SchemaTableJob[CheckedTable]):
    """Statistics of tables with an agreed schema.

    Attributes:
        wishes: what is counted and averaged.
        used: the columns that are looked at.
    """

    follows = "means, variances, correlations, quantiles and tests"

    wishes: StatisticsWishes
    used: Schema

    @property
    def schema(self) -> Schema:
        """Agreed schema of the columns in use."""
        return self.used

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        histograms: Mapping[str, ArrayLike] | None = None,
        tables: Sequence[Sequence[str]] | None = None,
        by: str | None = None,
        quantiles: Mapping[str, Sequence[float]] | None = None,
        missing: Missing | None = None,
    ) -> StatisticsJob:
        more: dict[str, Any] = {"by": by, "quantiles": quantiles, "missing": missing}
        wishes = parse_statistics(schema, columns, histograms or {}, tables, **more)
        used = schema.only(wishes.used)
        # Missing values cannot be counted where no row has one.
        return cls(wishes, replace(used, complete=()) if missing else used)

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        """Groups, bins, cells and values that few parties might hold."""
        return self.wishes.groups()

    def targets(self, merging: Merging) -> Array[Any]:
        """Return for each number of a sum the place of its block's total."""
        return self.wishes.targets(merging)

    def published(self, rules: Rules) -> tuple[tuple[str, ...], ...]:
        """Return the columns of tables and histograms, where their cells are large.

        Numbers that are averaged, and missing values, are counted by nobody before. No
        cell is empty, so that no column follows from others by an empty cell.
        """
        if rules.site_terms or rules.minimum_count < 2 or self.wishes.gaps:
            return ()
        crossed = [{one.column for one in axes} for axes in self.wishes.crossings]
        free = (one for one in crossed if not one & {*self.wishes.columns})
        return tuple(tuple(sorted(one)) for one in free)

    @property
    def numbers_in_a_row(self) -> int:
        return len(self.schema.columns)

    @property
    def agreed(self) -> dict[str, Any]:
        wishes = self.wishes
        edges = {name: one.edges.tolist() for name, one in wishes.histograms.items()}
        asked = {
            "columns": wishes.columns,
            "histograms": edges,
            "tables": sorted(wishes.tables),
            "by": None if wishes.by is None else wishes.by.column,
            "gaps": wishes.gaps,
            "gaps_by_group": bool(wishes.gapped),
        }
        return {"statistics": asked, "schema": self.schema.to_table()}

    @property
    def question(self) -> TableQuestion:
        wishes = self.wishes
        edges = {name: bins.edges.tolist() for name, bins in wishes.histograms.items()}
        return TableQuestion(
            schema=self.asked_about,
            columns=wishes.columns,
            histograms={name: tuple(one) for name, one in edges.items()},
            tables=tuple(wishes.tables),
            by=None if wishes.by is None else wishes.by.column,
            missing="groups" if wishes.gapped else None,
        )

    def recipe(self, limit: SumReleaseLimit | None = None) -> StatisticsRecipe:
        return StatisticsRecipe(self.wishes, limit)

    def bring(self, table: CheckedTable) -> CheckedTable:
        return table

    def contributions(self, own: CheckedTable, request: Any) -> FloatArray | None:
        """Return each row's part of the statistics; None for a first sum."""
        if isinstance(request, CountDifferences):
            return None
        return self.wishes.contributions(own)

    @property
    def merged_places(self) -> Sequence[int]:
        """Return places of counts: cells, and missing values by group."""
        places = self.wishes.layout.places
        return [
            k
            for name in ("cells", "group_missing")
            for k in np.arange(self.wishes.layout.size)[places[name]]
        ]

    def n_rows(self, own: CheckedTable) -> int:
        return own.n_rows

    def check_at_home(self, home: TableRulesAtHome, own: CheckedTable) -> None:
        """Refuse a table of which the statistics would show too much."""
        self.wishes.check_at_home(home, own)

    def look(self, own: CheckedTable, at: str | PresenceLackingRows) -> Array[Any]:
        """Return a column of the table, or in which groups one is missing."""
        if isinstance(at, PresenceLackingRows):
            return self.wishes.lacking(at.column, own)
        return own.look(at)

    def answer(
        self, own: CheckedTable, request: str | CountDifferences | StatisticsDescription
    ) -> Integers:
        if isinstance(request, CountDifferences):
            populations = self.wishes.populations
            home = TableRulesAtHome(own.party, request.rules)
            assert populations is not None
            refused = self.wishes.refused(home, own)
            return self._filled(populations.counts(request, own, refused))
        chosen = request.own if isinstance(request, StatisticsDescription) else ()
        return self._filled(self.wishes.vector(own, chosen))

    def _filled(self, vector: Integers) -> Integers:
        """Return the numbers of a sum, filled up with zeros to the longer sum."""
        missing = self.recipe().size - len(vector)
        return np.concatenate([vector, np.zeros(missing, dtype=object)])

    def pooled(self, own: Mapping[str, CheckedTable]) -> Array[Any] | None:
        names, populations = self.wishes.columns, self.wishes.populations
        if not names:
            return None
        parts = [self.wishes.numbers(table) for table in own.values()]
        complete = np.concatenate(parts).mean(axis=0)
        if populations is None:
            return np.stack([complete, complete])
        means = [
            np.concatenate(
                [
                    table.whole(name)[populations.rows(table, (name,))]
                    for table in own.values()
                ]
            ).mean()
            for name in names
        ]
        return np.stack([complete, means])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StatisticsResult(TableJobResult):
    """Pooled statistics by column, and by group if groups were asked for.

    Attributes:
        job: what was asked.
    """

    job: StatisticsJob

    compared_with: ClassVar[str] = "the pooled means"
    compared_by: ClassVar[str] = "numpy's, of all rows in one place"

    @cached_property
    def wishes(self) -> StatisticsWishes:
        """Requested statistics, with the bins and levels after merging small cells."""
        return self.job.wishes.merged(self.merging)

    @property
    def merged(self) -> dict[str, list[list[str]]]:
        """By column, the bins and levels that were counted together."""
        return presence_merged_names(self.job.groups, self.merging)

    @property
    def schema(self) -> Schema:
        """Schema of the columns in use."""
        return self.job.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in the order of vectors and matrices here."""
        return self.wishes.columns

    @cached_property
    def _sums(self) -> dict[str, Any]:
        """Statistics of the last sum; by group, those of the groups that are left."""
        recipe, sums = self.inner
        found, by = recipe.parts(sums), self.job.wishes.by
        if by is None:
            return found
        kept = self.merging.firsts(by.column, by.size)
        for key in ("group_rows", *GROUP_MOMENTS):
            found[key] = found[key][kept]
        found["group_missing"] = found["group_missing"][:, kept]
        return found

    @cached_property
    def moments(self) -> Moments:
        """Sums, means, variances, covariances and correlations."""
        if not self.columns:
            raise InvalidInputError(
                "no columns of numbers were asked for", code="no-columns"
            )
        if self.wishes.by is not None:
            raise InvalidInputError(
                "by group no products of two columns are summed, so there are no "
                "correlations: ask for them without by; `marginals` has the rest",
                code="correlations-by-group",
            )
        return Moments.from_parts(self._sums, self.wishes.measures)

    @cached_property
    def choice(self) -> RowChoice:
        """By group, the variables on their own rows, and why others are not."""
        recipe, sums = self.inner
        return recipe.choice(sums)

    @property
    def on_own_rows(self) -> bool:
        """Whether rows with missing values are in any number but counts of them."""
        return bool(self.choice.own)

    @property
    def expected(self) -> Vector:
        """The means without masks, on the rows of each variable."""
        own = [(name,) in self.choice.own for name in self.columns]
        return np.where(own, self.reference[1], self.reference[0])

    @property
    def dropped(self) -> int:
        """Rows of all parties together that have a missing value."""
        return self._sums["left_out"]

    @cached_property
    def marginals(self) -> MarginalMoments:
        """Sums, means and variances of all rows, column by column."""
        if self.wishes.by is None:
            return self.moments
        first, *others = self._parts
        return reduce(operator.add, others, first)

    @cached_property
    def _parts(self) -> tuple[MarginalMoments, ...]:
        """Sums, means and variances of each group."""
        return statistics_group_marginals(self._sums, self.wishes.measures)

    @cached_property
    def groups(self) -> GroupedStatistics:
        """Everything by group, with tests: a "Table 1"."""
        wishes = self.wishes
        if wishes.by is None:
            raise InvalidInputError(
                "no groups were asked for: say by which column", code="no-groups"
            )
        gaps = self._sums["group_missing"]
        grouped = {
            name: tuple(map(int, line))
            for name, line in zip(wishes.gapped, gaps, strict=True)
        }
        return GroupedStatistics(
            by=wishes.by,
            columns=self.columns,
            counts=self._rows,
            parts=self._parts,
            tables={
                names: (axes, cells)
                for (names, axes), cells in zip(
                    wishes.tables.items(),
                    self._cells[len(wishes.histograms) :],
                    strict=True,
                )
            },
            missing=self.missing,
            reasons={} if self.dropped == 0 else self.choice.reasons,
            missing_in_groups=grouped,
            quantiles={
                name: (
                    self.quantiles[name],
                    *(self._quantiles(name, bins.unpack(g)) for g in cells.T),
                )
                for (name, bins), cells in zip(
                    wishes.histograms.items(), self._cells, strict=False
                )
                if name in wishes.quantiles
            },
        )

    @property
    def count(self) -> int:
        """The rows of all parties; by group, of those in a group."""
        return sum(self._rows)

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        """The rows of each group."""
        if self.wishes.by is None:
            return (self._sums["rows"],)
        return tuple(map(int, self._sums["group_rows"]))

    @property
    def rows_sentence(self) -> str:
        """Numbers of rows and of rows with missing values, in words."""
        if () not in self.choice.own or not self.dropped:
            return super().rows_sentence
        return (
            f"{self.count} rows of {len(self.released.members)} parties in all groups; "
            f"{self.dropped} rows have missing values."
        )

    @property
    def missing(self) -> dict[str, int]:
        """By column, how many rows lack it."""
        pairs = zip(self.wishes.gaps, self._sums["missing"], strict=True)
        return {name: int(number) for name, number in pairs}

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """Labels along each axis of the tables, by column."""
        axes = [one for axes in self.wishes.tables.values() for one in axes]
        return {one.column: one.labels for one in axes}

    @property
    def compared(self) -> Vector:
        """The means."""
        return self.marginals.mean

    @cached_property
    def _cells(self) -> list[Cells]:
        """The cells of each histogram and table, groups last."""
        asked, merging = self.job.wishes.crossings, self.merging
        ends = np.cumsum([n_table_cells(axes) for axes in asked], dtype=np.int64)[:-1]
        parts = np.split(self._sums["cells"], ends) if asked else []
        found = []
        for axes, part in zip(asked, parts, strict=True):
            cells = CrossTable(tuple(one.size for one in axes)).unpack(part)
            kept = (merging.firsts(one.column, one.size) for one in axes)
            found.append(cells[np.ix_(*kept)])
        return found

    @cached_property
    def _overall(self) -> list[Cells]:
        """The same over all groups."""
        if self.wishes.by is None:
            return self._cells
        return [one.sum(axis=-1) for one in self._cells]

    @cached_property
    def histograms(self) -> dict[str, TallyHistogram]:
        """Counts on the agreed bins, by column."""
        pairs = zip(self.wishes.histograms.items(), self._overall, strict=False)
        return {name: bins.unpack(cells) for (name, bins), cells in pairs}

    @cached_property
    def tables(self) -> dict[tuple[str, ...], Cells]:
        """Contingency tables, one axis for each column."""
        found = self._overall[len(self.wishes.histograms) :]
        return dict(zip(self.wishes.tables, found, strict=True))

    @cached_property
    def quantiles(self) -> dict[str, tuple[TallyQuantile, ...]]:
        """Between which values each quantile lies that was asked for, by column."""
        asked = self.wishes.quantiles
        return {name: self._quantiles(name, self.histograms[name]) for name in asked}

    def _quantiles(self, name: str, found: TallyHistogram) -> tuple[TallyQuantile, ...]:
        column, made = self.schema.column(name), []
        for share in self.wishes.quantiles[name]:
            one = found.quantile(share, column.measure)
            # An end that nobody agreed on is none.
            if column.minimum is None and one.low == column.measure.low:
                one = replace(one, low=-inf, between=nan)
            if column.maximum is None and one.high == column.measure.high:
                one = replace(one, high=inf, between=nan)
            made.append(one)
        return tuple(made)

    def rows(self) -> list[dict[str, Any]]:
        """Return one line for each column of numbers."""
        if not self.columns:
            return []
        found = self.marginals
        lines = zip(
            *(self.columns, found.rows, found.sum.tolist(), found.mean.tolist()),
            found.standard_deviation.tolist(),
            strict=True,
        )
        heads = ("name", "count", "sum", "mean", "sd")
        return [dict(zip(heads, line, strict=True)) for line in lines]

    def to_frame(self) -> Frame:
        """Return the numbers as a pandas table.

        By group there is a line for each column, level and group, all rows together
        being the group ""; without groups one for each column of numbers.
        """
        grouped = self.wishes.by is not None
        lines = self.groups.records() if grouped else self.rows()
        return load_pandas().DataFrame(lines)

    def answered(self) -> Rendering:
        """Return a table of the columns, and the counts, to be seen."""
        parts: list[Block] = []
        if self.wishes.by is not None:
            parts += self.groups.blocks()
        elif self.columns:
            head = ["name", "count", "sum", "mean", "sd"]
            shown = [
                {**one, "sum": _whole_statistics_total(one["sum"])}
                for one in self.rows()
            ]
            parts.append(ShownTable(head, shown, align="<>..."))
        # Tables by group stand above, with their shares.
        n = len(self.wishes.histograms) if self.wishes.by is not None else None
        pairs = zip(self.wishes.crossings[:n], self._cells[:n], strict=True)
        parts += [_statistics_counts_table(axes, cells) for axes, cells in pairs]
        if self.wishes.by is None:
            parts += table_one_quantile_blocks(self.quantiles)
            if self.missing:
                lines = [*self.missing.items()]
                parts.append(ShownTable(["name", "missing"], lines, align="<>"))
        merged = presence_merged_lines(self.job.groups, self.merging)
        return Rendering("", [*parts, *merged, self.rows_sentence])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        grouped = self.wishes.by is not None
        found = self.moments if self.columns and not grouped else None
        means = self.marginals.mean.tolist() if self.columns else []
        return {
            **super().to_dict(),
            "minimiser": means,
            "count": self.count,
            "dropped": self.dropped,
            "missing": self.missing,
            "merged": self.merged,
            "table": self.rows(),
            "covariance": None
            if found is None
            else _plain_statistics_matrix(found.covariance),
            "correlation": None
            if found is None
            else _plain_statistics_matrix(found.correlation),
            "histograms": {
                name: {key: np.asarray(v).tolist() for key, v in asdict(one).items()}
                for name, one in self.histograms.items()
            },
            "tables": [
                {
                    "columns": list(names),
                    "levels": [list(self.levels[name]) for name in names],
                    "counts": cells.tolist(),
                }
                for names, cells in self.tables.items()
            ],
            "quantiles": {
                name: [plain_result_values(asdict(one)) for one in found]
                for name, found in self.quantiles.items()
            },
            "groups": self.groups.to_dict() if grouped else None,
        }

    def draw_with(
        self,
        figures: ModuleType,
        *,
        of: str | tuple[str, str] | None = None,
        title: str | None = None,
    ) -> Any:
        """Return column `of`, or the fullest figure there is."""
        return statistics_figure(figures, self, of, title)


def _plain_statistics_matrix(matrix: Array[np.float64]) -> list[list[float | None]]:
    return [[None if np.isnan(x) else x for x in row] for row in matrix.tolist()]


def _whole_statistics_total(total: float) -> float:
    """Return a total of whole numbers as one: it is exact, so every digit is shown."""
    return int(total) if total.is_integer() and abs(total) < 2.0**53 else total


def _statistics_counts_table(axes: Sequence[TableAxis], cells: Cells) -> ShownTable:
    """Return counts, of two axes as a table with the second one across if it fits."""
    if len(axes) == 2:
        down, across = axes
        lines: list[list[Any]] = [
            [label, *row]
            for label, row in zip(down.labels, cells.astype(int).tolist(), strict=True)
        ]
        head = [f"{down.column} by {across.column}", *across.labels]
        made = ShownTable(head, lines, align="<" + ">" * across.size)
        if max(map(len, made.text().split("\n"))) <= WIDTH:
            return made
    rows = [
        [*(a.labels[k] for a, k in zip(axes, place, strict=True)), int(cells[place])]
        for place in np.ndindex(cells.shape)
    ]
    head = [*(one.column for one in axes), "count"]
    return ShownTable(head, rows, align="<" * len(axes) + ">")


def statistics(
    data: Mapping[str, Any],
    *,
    columns: Sequence[str] | None = None,
    histograms: Mapping[str, ArrayLike] | None = None,
    tables: Sequence[Sequence[str]] | None = None,
    by: str | None = None,
    quantiles: Mapping[str, Sequence[float]] | None = None,
    missing: Missing | None = None,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[SumOptions],
) -> StatisticsResult:
    """Return counts, means, variances, correlations, histograms and tables.

    Args:
        data: each party's table: pandas, polars, or a mapping of columns.
        columns: numbers to describe; by default all of the schema's.
        histograms: the edges of bins, by column.
        tables: columns to cross, such as [("sex", "smoker")]: categories, numbers with
            few agreed values, and those that `histograms` has the edges of.
        by: the column whose groups are described and compared, one by one; then without
            `tables` every other category is counted.
        quantiles: what to read off a histogram, such as {"age": [0.25, 0.5, 0.75]}.
        missing: where missing values are counted: in "columns", as always by group, or
            in "groups" too, which few tables allow.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to average the pooled rows as well, as only a simulation can.
        options: how to sum; see `SumOptions`.
    """
    return run_on_frames(
        lambda agreed: StatisticsJob.of(
            agreed, columns, histograms, tables, by, quantiles, missing
        ),
        data,
        StatisticsResult,
        inferred=lambda frames: Schema.inferred(frames, minimum_rows=minimum_rows),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )
