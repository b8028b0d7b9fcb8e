"""Agreed columns, bins, tables and groups, and one party's numbers for them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from veilsum.disclosure.merging import Merging, merge_axis_of, merged_axis
from veilsum.errors import InvalidInputError
from veilsum.models.moments import (
    MarginalMoments,
    Moments,
    marginal_moments_of,
    moments_of,
)
from veilsum.models.rows import Rows
from veilsum.models.tallies import CrossTable, TallyBins
from veilsum.numbers.arrays import Array
from veilsum.numbers.layout import (
    LayoutStatistic,
    NumberLayout,
    RowRange,
    centred_range_of_measure,
    count_range_of_columns,
    layout_array,
    layout_number,
)
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import Integers, UnitMeasure
from veilsum.questions.statistics.populations import (
    StatisticsPopulations,
    Variable,
)
from veilsum.sums.presence import (
    PresenceCrossedCells,
    PresenceGroup,
    PresenceLackingRows,
    has_few_values,
)
from veilsum.tables.axes import (
    MOST_VALUES,
    TableAxis,
    n_table_cells,
    rows_per_cell,
)
from veilsum.tables.columns import Flags
from veilsum.tables.rules import DisclosureError, TableRulesAtHome
from veilsum.tables.schema import CheckedTable, Schema

# Where missing values are counted: in each column, and there in each group.
Missing = Literal["columns", "groups"]
MISSING: tuple[Missing, ...] = get_args(Missing)
# Cells of all tables and histograms of one question.
MOST_CELLS = 100_000
# Statistics of each column in each group.
GROUP_MOMENTS = ("group_column_rows", "group_sums", "group_squares")


@dataclass(frozen=True)
class StatisticsWishes:
    """Requested counts and averages on agreed bins and levels; all are public.

    Attributes:
        columns: numbers, for moments.
        histograms: the edges of bins, by column.
        tables: the crossed axes, by their names.
        measures: unit and range of each column of numbers.
        by: groups, for each of which all statistics are requested.
        gaps: columns whose missing values are counted.
        grouped_gaps: whether they are counted in each group as well.
        quantiles: quantiles to read off a histogram, by column.
        on_edges: the axis of each histogram, by column.
    """

    columns: tuple[str, ...]
    histograms: Mapping[str, TallyBins]
    tables: Mapping[tuple[str, ...], tuple[TableAxis, ...]]
    measures: tuple[UnitMeasure, ...] = ()
    by: TableAxis | None = None
    gaps: tuple[str, ...] = ()
    grouped_gaps: bool = False
    quantiles: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    on_edges: Mapping[str, TableAxis] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_cells > MOST_CELLS:
            raise InvalidInputError(
                f"tables and histograms have {self.n_cells:,} cells together, and "
                f"{MOST_CELLS:,} is the limit: cross fewer columns, merge levels, or "
                "ask in several questions",
                code="too-many-cells",
            )

    @cached_property
    def used(self) -> set[str]:
        crossed = {one.column for axes in self.crossings for one in axes}
        groups = set() if self.by is None else {self.by.column}
        return {*self.columns, *crossed, *groups}

    @property
    def n_groups(self) -> int:
        """Number of agreed groups; 1 without any."""
        return 1 if self.by is None else self.by.size

    @cached_property
    def crossings(self) -> tuple[tuple[TableAxis, ...], ...]:
        """Axes crossed in each histogram and table, including the groups if any."""
        bins = [(self.on_edges[name],) for name in self.histograms]
        groups = () if self.by is None else (self.by,)
        return tuple((*axes, *groups) for axes in (*bins, *self.tables.values()))

    @property
    def n_cells(self) -> int:
        return sum(map(n_table_cells, self.crossings))

    @property
    def gapped(self) -> tuple[str, ...]:
        """The columns of which missing values are counted in each group."""
        if self.by is None or not self.grouped_gaps:
            return ()
        return tuple(name for name in self.gaps if name != self.by.column)

    @property
    def words(self) -> str:
        parts = [] if self.by is None else [f"by {self.by.column}"]
        parts += [f"moments of {', '.join(self.columns)}"] if self.columns else []
        bins = sorted((name, b.edges.tolist()) for name, b in self.histograms.items())
        parts += [f"histogram of {name} on {edges}" for name, edges in bins]
        parts += [f"table of {' x '.join(names)}" for names in sorted(self.tables)]
        parts += [f"missing values of {', '.join(self.gaps)}"] if self.gaps else []
        parts += ["missing values by group"] if self.gapped else []
        return "; ".join(parts)

    def groups(self) -> tuple[PresenceGroup, ...]:
        """Return groups, bins, cells and values that few parties might hold."""
        if self.by is None:
            return self._crossed
        lacking = (PresenceLackingRows(name, self.by) for name in self.gapped)
        alone = (merge_axis_of(self.by, alone=True),)
        return PresenceCrossedCells((self.by,), alone), *self._crossed, *lacking

    @property
    def _crossed(self) -> tuple[PresenceCrossedCells, ...]:
        """Cells and bins, which merge, and values of columns that have few."""
        pairs = zip(self.columns, self.measures, strict=True)
        few = [(TableAxis.of_values(*one),) for one in pairs if has_few_values(one[1])]
        groups = () if self.by is None else (self.by,)
        tables = (
            PresenceCrossedCells(
                axes, tuple(merge_axis_of(a, alone=a is self.by) for a in axes)
            )
            for axes in self.crossings
        )
        return *tables, *(PresenceCrossedCells((*one, *groups)) for one in few)

    def merged(self, merging: Merging) -> StatisticsWishes:
        """Return the wishes with blocks for places, to be shown."""
        tables = {
            names: tuple(merged_axis(one, merging) for one in axes)
            for names, axes in self.tables.items()
        }
        edges = {name: merged_axis(one, merging) for name, one in self.on_edges.items()}
        bins = {name: one.bins or self.histograms[name] for name, one in edges.items()}
        by = None if self.by is None else merged_axis(self.by, merging)
        return replace(self, histograms=bins, tables=tables, by=by, on_edges=edges)

    def targets(self, merging: Merging) -> Array[Any]:
        """Return for each number of the sum the place of its block's total."""
        layout, by = self.layout, None if self.by is None else self.by.column
        found = np.arange(layout.size)
        grouped = {"group_rows": 0, **dict.fromkeys(GROUP_MOMENTS, 0)}
        for each in layout.statistics:
            where = layout.places[each.key]
            if each.key in grouped or each.key == "group_missing":
                # Groups are the first axis of moments, and the last of missing values.
                columns = [
                    by if k == grouped.get(each.key, 1) else None for k in (0, 1)
                ]
                columns = columns[: len(each.shape)]
                found[where] = merging.targets(each.shape, columns, where.start)
        start = layout.places["cells"].start
        for axes in self.crossings:
            shape = tuple(one.size for one in axes)
            names = [one.column for one in axes]
            end = start + n_table_cells(axes)
            found[start:end] = merging.targets(shape, names, start)
            start = end
        return found

    @cached_property
    def populations(self) -> StatisticsPopulations | None:
        """Variables that may each have rows of its own; None if rows are complete."""
        if self.by is None or not self.gaps:
            return None
        each: list[Variable] = [(name,) for name in self.columns]
        each += [self.variable(axes) for axes in self.crossings]
        variables = tuple(dict.fromkeys([(), *each]))
        groups = [(variables.index(self.variable(c.axes)), c) for c in self._crossed]
        return StatisticsPopulations(
            variables, self.by, ((0, PresenceCrossedCells((self.by,))), *groups)
        )

    def variable(self, axes: Sequence[TableAxis]) -> Variable:
        """Return the columns that a table needs, beside its groups."""
        return tuple(sorted({one.column for one in axes if one is not self.by}))

    @cached_property
    def layout(self) -> NumberLayout:
        """Row counts and moments, cells, missing values, rows left out."""
        moments = Moments.layout(self.measures)
        if self.by is not None:
            n, k, bits = self.n_groups, len(self.columns), moments.bits
            group = (self.by.column,)
            within = RowRange(1, 1, group)
            sums = [centred_range_of_measure(one) for one in self.measures]
            # A row outside of the group contributes 0.
            grouped = [_statistics_range_or_zero(one * within) for one in sums] * n
            squared = [
                _statistics_range_or_zero(one.squared() * within) for one in sums
            ] * n
            units = tuple(one.unit for one in self.measures)
            squares = tuple(unit**2 for unit in units)
            moments = NumberLayout(
                (
                    layout_array(
                        "group_rows", n, row_range=count_range_of_columns(*group)
                    ),
                    layout_array("group_column_rows", (n, k)),
                    LayoutStatistic(
                        "group_sums", (n, k), units * n, bits, ranges=tuple(grouped)
                    ),
                    LayoutStatistic(
                        "group_squares",
                        (n, k),
                        squares * n,
                        bits,
                        ranges=tuple(squared),
                    ),
                )
            )
        cells = [
            count_range_of_columns(*{one.column for one in axes})
            for axes in self.crossings
            for _ in range(n_table_cells(axes))
        ]
        gaps = [count_range_of_columns(name) for name in self.gaps]
        return moments + NumberLayout(
            (
                replace(layout_array("cells", self.n_cells), ranges=tuple(cells)),
                replace(layout_array("missing", len(self.gaps)), ranges=tuple(gaps)),
                layout_array("group_missing", (len(self.gapped), self.n_groups)),
                layout_number("left_out"),
            )
        )

    # One party

    def vector(self, table: CheckedTable, own: Collection[Variable] = ()) -> Integers:
        """Return the numbers of one party.

        Args:
            table: of the party.
            own: variables on their own rows; others are on complete rows.

        Raises:
            SchemaError: a number is out of its range.
        """
        if self.by is None:
            moments = self._moments(table)
            cells = [
                rows_per_cell(axes, _look_at_statistics_axes(axes, table))
                for axes in self.crossings
            ]
        else:
            view = _StatisticsView(self, table, frozenset(own))
            moments = view.moments(self.by)
            cells = [
                rows_per_cell(axes, view.columns(axes, self.variable(axes)))
                for axes in self.crossings
            ]
        lacking = [self.lacking(name, table) for name in self.gapped]
        return self.layout.pack(
            **moments,
            cells=np.concatenate([np.empty(0, dtype=object), *cells]),
            missing=[np.count_nonzero(table.missing(name)) for name in self.gaps],
            group_missing=np.array(lacking).reshape(-1, self.n_groups),
            left_out=table.n_dropped,
        )

    def contributions(self, table: CheckedTable) -> Array[np.float64]:
        """Return each complete row's part of `vector`, in units.

        Missing values and rows left out are left at 0.
        """
        n, by = table.n_rows, self.by
        columns = [
            one.whole(table.numbers(name)).astype(np.float64)
            for name, one in zip(self.columns, self.measures, strict=True)
        ]
        values = np.stack(columns, axis=1) if columns else np.zeros((n, 0))
        if by is None:
            left, right = np.tril_indices(len(columns))
            parts = [np.ones((n, 1)), values, values[:, left] * values[:, right]]
        else:
            flags = _statistics_code_flags(by.codes(table), by.size)
            known = np.ones_like(values)
            parts = [flags] + [
                (flags[:, :, None] * one[:, None, :]).reshape(n, -1)
                for one in (known, values, values**2)
            ]
        for axes in self.crossings:
            codes = [axis.codes(table) for axis in axes]
            cells = np.ravel_multi_index(codes, [axis.size for axis in axes])
            parts.append(_statistics_code_flags(cells, n_table_cells(axes)))
        found = np.concatenate(parts, axis=1)
        rest = self.layout.size - found.shape[1]
        return np.concatenate([found, np.zeros((n, rest))], axis=1)

    def _moments(self, table: CheckedTable) -> dict[str, Any]:
        layout = Moments.layout(self.measures)
        if not self.columns:
            return layout.unpack(np.array([table.n_rows], dtype=object))
        return layout.unpack(moments_of(self.numbers(table), self.measures))

    def _parts(self, table: CheckedTable) -> Iterator[tuple[str, Flags]]:
        """Yield the rows of each group, and its name for an error."""
        if self.by is None:
            return
        places = self.by.codes(table)
        for place, label in enumerate(self.by.labels):
            yield f" where {self.by.column} = {label}", places == place

    def lacking(self, name: str, table: CheckedTable) -> Integers:
        """Return how many rows of each group lack a column, of one party's."""
        assert self.by is not None
        return np.bincount(self._of_lacking(name, table), minlength=self.by.size)

    def _of_lacking(self, name: str, table: CheckedTable) -> Array[Any]:
        """Return the groups of rows that lack a column, where they have a group."""
        assert self.by is not None
        group = self.by.column
        rows = table.missing(name) & ~table.missing(group)
        if not rows.any():
            return np.zeros(0, dtype=np.int64)
        return self.by.places(table.left_out[group][rows])

    def numbers(self, table: CheckedTable) -> Array[np.float64]:
        return np.stack([table.numbers(name) for name in self.columns], axis=1)

    # What a party refuses

    def check_at_home(self, home: TableRulesAtHome, table: CheckedTable) -> None:
        """Refuse a table of which the statistics would show too much.

        Small cells of tables merge after the first sum, and are not refused. Groups in
        which numbers are averaged are, for their sums are about few rows here.
        """
        groups = () if self.by is None else ((self.by,),)
        for axes in (*groups, *self.crossings):
            averaged = bool(self.columns) and axes in groups
            self._check_places(
                home, axes, _look_at_statistics_axes(axes, table), cells=averaged
            )
        for name in self.gapped:
            found = self._of_lacking(name, table)
            labels = (("missing",), self.by.labels) if self.by else ()
            home.cells((name, self._group), [np.zeros_like(found), found], labels)
        if not self.columns:
            return
        numbers = self.numbers(table)
        whole = ("", np.ones(table.n_rows, dtype=np.bool_))
        for where, rows in (whole, *self._parts(table)):
            if rows.any():
                self._check_numbers(home, numbers[rows], where)

    def refused(self, home: TableRulesAtHome, table: CheckedTable) -> list[bool]:
        """Return for each variable whether the rules refuse it on its own rows.

        Numbers are refused together where a combination of columns, 0 in rows that lack
        them, points at few rows.
        """
        populations, most = self.populations, home.rules.maximum_rows
        assert populations is not None
        if not table.n_gapped:
            return [False] * len(populations.variables)
        if most is not None and table.n_rows + table.n_gapped > most:
            return [True] * len(populations.variables)
        view = _StatisticsView(self, table, frozenset(populations.variables))
        found = dict.fromkeys(populations.variables, False)
        for axes in ((populations.by,), *self.crossings):
            variable = self.variable(axes)
            columns = view.columns(axes, variable)
            averaged = bool(self.columns) and axes == (populations.by,)
            check = partial(self._check_places, cells=averaged)
            found[variable] |= _statistics_check_refuses(check, home, axes, columns)
        for name in self.columns:
            for values in view.by_group(name):
                found[name,] |= _statistics_check_refuses(
                    self._check_column, home, name, name, values
                )
        if self.columns and _statistics_check_refuses(
            self._check_together, home, view.filled(), self.columns
        ):
            found |= dict.fromkeys([(name,) for name in self.columns], True)
        return [found[one] for one in populations.variables]

    @property
    def _group(self) -> str:
        return "" if self.by is None else self.by.column

    def _check_places(
        self,
        home: TableRulesAtHome,
        axes: Sequence[TableAxis],
        columns: Sequence[Array[Any]],
        *,
        cells: bool,
    ) -> None:
        """Refuse a category with one level here, and cells that few rows have.

        Args:
            home: the rules.
            axes: of the cells.
            columns: of each axis.
            cells: whether small cells are refused. They always are where `site_terms`
                switches off the first sum, after which they would merge.
        """
        cells = cells or home.rules.site_terms
        if cells and len(axes) == 1 and axes[0].bins is not None:
            home.bins(axes[0].column, rows_per_cell(axes, columns))
            return
        codes = [one.places(own) for one, own in zip(axes, columns, strict=True)]
        for axis, found in zip(axes, codes, strict=True):
            if axis.bins is None:
                home.category(axis.column, found, axis.labels)
        if cells:
            home.cells(
                [one.column for one in axes], codes, [one.labels for one in axes]
            )

    def _check_column(
        self, home: TableRulesAtHome, name: str, label: str, values: Array[Any]
    ) -> None:
        measure = self.measures[self.columns.index(name)]
        two_valued = partial(operator.le, measure.most - measure.least, 1)
        home.column(label, values, two_valued=two_valued, unit=measure.unit)
        home.value_sum(label, values)

    def _check_numbers(
        self, home: TableRulesAtHome, numbers: Array[np.float64], where: str
    ) -> None:
        """Refuse numbers that point at few rows, of all or of one group."""
        names = [f"{name}{where}" for name in self.columns]
        for name, label, own in zip(self.columns, names, numbers.T, strict=True):
            self._check_column(home, name, label, own)
        self._check_together(home, [numbers], names)

    def _check_together(
        self,
        home: TableRulesAtHome,
        parts: Iterable[Array[np.float64]],
        names: Sequence[str],
    ) -> None:
        """Refuse combinations of columns that point at few rows.

        The moments of columns are those of a design with ones. Of two that differ in
        one row, sums by themselves tell that row.
        """
        for numbers in parts:
            ones = np.ones((len(numbers), 1))
            design = Rows(np.hstack([ones, numbers]), ones[:, 0])
            home.design(design, ("1", *names), intercept=0)


@dataclass(frozen=True, eq=False, repr=False)
class _StatisticsView(Secret):
    """One party's table by group, with the rows that each variable is described on.

    Attributes:
        wishes: the columns and groups.
        own: variables on their own rows; others are on complete rows.
    """

    wishes: StatisticsWishes
    table: CheckedTable
    own: frozenset[Variable]

    def rows(self, variable: Variable) -> Flags | slice:
        populations, table = self.wishes.populations, self.table
        if populations is None or variable not in self.own:
            return slice(table.n_rows)
        return populations.rows(table, variable) if table.n_gapped else slice(None)

    def columns(
        self, axes: Sequence[TableAxis], variable: Variable
    ) -> list[Array[Any]]:
        rows = self.rows(variable)
        return [self.table.whole(one.column)[rows] for one in axes]

    def moments(self, by: TableAxis) -> dict[str, Any]:
        """Return rows, and each column's rows, sums and squares, by group."""
        (groups,) = self.columns((by,), ())
        found = [
            [marginal_moments_of(part, measure) for part in self.by_group(name)[1:]]
            for name, measure in zip(
                self.wishes.columns, self.wishes.measures, strict=True
            )
        ]
        each = np.array(found, dtype=object).reshape(-1, by.size, 3).T
        return {
            "group_rows": np.bincount(by.places(groups), minlength=by.size),
            **dict(zip(GROUP_MOMENTS, each, strict=True)),
        }

    def by_group(self, name: str) -> list[Array[Any]]:
        """Return a column of numbers, of all its rows and of each group."""
        by = self.wishes.by
        assert by is not None
        rows = self.rows((name,))
        values = self.table.whole(name)[rows]
        places = by.places(self.table.whole(by.column)[rows])
        return [values, *(values[places == place] for place in range(by.size))]

    def filled(self) -> Iterator[Array[np.float64]]:
        """Yield all columns of numbers less their means, 0 where rows lack them.

        Of all rows, then of each group.
        """
        by = self.wishes.by
        assert by is not None
        known = self.table.present((by.column,))
        places = by.places(self.table.whole(by.column)[known])
        columns = [self.table.whole(name)[known] for name in self.wishes.columns]
        whole = np.stack(columns, axis=1)
        for rows in (slice(None), *(places == place for place in range(by.size))):
            part = whole[rows]
            gaps = np.isnan(part)
            n = np.maximum(1, len(part) - np.count_nonzero(gaps, axis=0))
            means = np.where(gaps, 0.0, part).sum(axis=0) / n
            if len(part):
                yield np.where(gaps, 0.0, part - means)


def _statistics_code_flags(codes: Array[Any], size: int) -> Array[np.float64]:
    found = np.zeros((len(codes), size))
    found[np.arange(len(codes)), codes] = 1.0
    return found


def _statistics_range_or_zero(one: RowRange) -> RowRange:
    """Return the range of a contribution that may also be 0."""
    if one.low is None or one.high is None:
        return one
    return replace(one, low=min(one.low, 0), high=max(one.high, 0))


def _statistics_check_refuses(check: Callable[..., None], *arguments: Any) -> bool:
    try:
        check(*arguments)
    except DisclosureError:
        return True
    return False


def _look_at_statistics_axes(
    axes: Sequence[TableAxis], table: CheckedTable
) -> list[Array[Any]]:
    return [table.look(one.column) for one in axes]


def parse_statistics(
    schema: Schema,
    columns: Sequence[str] | None,
    histograms: Mapping[str, ArrayLike],
    tables: Sequence[Sequence[str]] | None,
    *,
    by: str | None = None,
    quantiles: Mapping[str, Sequence[float]] | None = None,
    missing: Missing | None = None,
) -> StatisticsWishes:
    """Return what is asked for, checked against the schema."""
    bins = {name: TallyBins.of(histograms[name]) for name in sorted(histograms)}
    groups = None if by is None else _statistics_groups_of(schema, by)
    if columns is None:
        columns = [c.name for c in schema.columns if not c.is_category and c.name != by]
    if tables is None:
        # Groups are described by all that the schema has, unless it is said by what.
        names = [] if by is None else schema.categorical
        tables = [(name,) for name in names if name != by]
    for name in [*columns, *bins]:
        if schema.column(name).is_category:
            raise InvalidInputError(
                f"column {name!r} is a category: count it with tables = [[{name!r}]]",
                code="category-in-columns",
            )
    crossed = {name for names in tables for name in names}
    if by is not None and by in {*columns, *bins, *crossed}:
        raise InvalidInputError(
            f"column {by!r} says which group a row is in (by), and is asked for within "
            "groups as well: leave it out of columns, histograms and tables",
            code="grouped-by-asked",
        )
    asked = {name: tuple(map(float, of)) for name, of in (quantiles or {}).items()}
    _check_statistics_quantiles(asked, bins)
    crossing = {
        tuple(each): tuple(TableAxis.of(schema.column(name), bins) for name in each)
        for each in tables
    }
    for axes in crossing.values():
        CrossTable(tuple(one.size for one in axes))  # of too many cells
    edges = {name: TableAxis.on_edges(schema.column(name), bins[name]) for name in bins}
    found = StatisticsWishes(
        tuple(columns),
        bins,
        crossing,
        tuple(
            replace(schema.column(name).measure.centred(), columns=(name,))
            for name in columns
        ),
        by=groups,
        quantiles=asked,
        on_edges=edges,
    )
    counted = _count_missing_wish(missing, by)
    whole = missing is None and found.used <= {one.name for one in schema.complete}
    if counted is None or schema.missing != "drop" or whole:
        return found  # no row with a missing value takes part
    gaps = tuple(sorted(found.used))
    return replace(found, gaps=gaps, grouped_gaps=counted == "groups")


def _statistics_groups_of(schema: Schema, by: str) -> TableAxis:
    try:
        found = TableAxis.of(schema.column(by), {})
    except InvalidInputError as error:
        if by not in schema:
            raise
        raise InvalidInputError(
            f"column {by!r} holds numbers, and groups are told by a category, or by "
            f"whole numbers of which {MOST_VALUES} are agreed at most: by = {by!r} "
            "would make a group of each; make a category of it",
            code="groups-of-numbers",
        ) from error
    if found.size < 2:
        raise InvalidInputError(
            f"by = {by!r} has one group by agreement, {found.labels[0]!r}, and groups "
            "are compared: leave by out, or agree on all of its levels",
            code="single-group",
        )
    return found


def _check_statistics_quantiles(
    asked: Mapping[str, Sequence[float]], bins: Mapping[str, TallyBins]
) -> None:
    for name, shares in asked.items():
        if name not in bins:
            raise InvalidInputError(
                f"quantiles of {name!r} are read off counts at agreed thresholds: give "
                f"these too, as in histograms = {{ {name} = [20, 40, 60] }}",
                code="thresholds-missing",
            )
        for share in shares:
            if not 0.0 < share < 1.0:
                raise InvalidInputError(
                    f"quantiles of {name!r} are above 0 and below 1, found {share:g}: "
                    "0.5 is the median; the smallest and the largest value are single "
                    "rows, and are not shown",
                    code="quantile-out-of-range",
                )


def _count_missing_wish(missing: Missing | None, by: str | None) -> Missing | None:
    if missing not in {None, *MISSING}:
        raise InvalidInputError(
            f"missing is {missing!r}; choose from {' and '.join(MISSING)}",
            code="unknown-missing",
        )
    if missing == "groups" and by is None:
        raise InvalidInputError(
            'missing = "groups" needs groups: say by which column, with by',
            code="missing-without-groups",
        )
    return missing or (None if by is None else "columns")


def statistics_group_marginals(
    parts: Mapping[str, Any], measures: tuple[UnitMeasure, ...]
) -> tuple[MarginalMoments, ...]:
    each = zip(*(parts[key] for key in GROUP_MOMENTS), strict=True)
    return tuple(
        MarginalMoments(measures, tuple(map(int, rows)), sums, squares)
        for rows, sums, squares in each
    )
