"""Descriptive statistics of all parties' rows together, before any model.

`Wishes` are public: columns, bins, axes of tables and groups that all parties agreed
on, in agreed units. Every row gives whole numbers, one sum of which answers all of them
and says nothing of who gave which; the result turns it into tables that people read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial, reduce
from math import inf, nan, prod
from typing import Any, ClassVar, Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.models.moments import Marginals, Moments, marginal_of, moments_of
from veilsum.models.plausible import check_total
from veilsum.models.rows import Rows
from veilsum.models.tallies import Bins, Cells, CrossTable, Histogram, Quantile
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.layout import Layout, Statistic, array, number
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import ROW_BITS, Integers, Measure
from veilsum.questions.populations import (
    CountDifferences,
    Populations,
    RowChoice,
    Variable,
)
from veilsum.questions.table_one import WIDTH, Grouped, finite, quantile_blocks
from veilsum.showing import Block, Showing, Table
from veilsum.sums.presence import Crossed, Group, Lacking, are_few
from veilsum.sums.recipes import OneRound, Sums
from veilsum.sums.releases import SCREENED, Foreseen, Release, ReleaseLimit
from veilsum.sums.table_job import SchemaJob, TableResult, put
from veilsum.sums.terms import Options
from veilsum.tables.asked import Question
from veilsum.tables.axes import MOST_VALUES, Axis, n_cells, tallied
from veilsum.tables.columns import Flags
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import AtHome, DisclosureError, Rules, agreed_rows
from veilsum.tables.schema import CheckedTable, Schema

# Where missing values are counted: in each column, and there in each group.
Missing = Literal["columns", "groups"]
MISSING: tuple[Missing, ...] = get_args(Missing)
# Statistics of each column in each group.
GROUP_MOMENTS = ("group_column_rows", "group_sums", "group_squares")


@dataclass(frozen=True)
class Wishes:
    """What is to be counted and averaged: public, on agreed bins and levels.

    Attributes:
        columns: numbers, for moments.
        histograms: the edges of bins, by column.
        tables: the axes that are crossed, by their names.
        measures: how each of the numbers is counted, by column.
        by: the groups in each of which all of it is asked for.
        gaps: the columns of which missing values are counted.
        grouped_gaps: whether that is done in each group as well.
        quantiles: what is read off a histogram, by column.
    """

    columns: tuple[str, ...]
    histograms: Mapping[str, Bins]
    tables: Mapping[tuple[str, ...], tuple[Axis, ...]]
    measures: tuple[Measure, ...] = ()
    by: Axis | None = None
    gaps: tuple[str, ...] = ()
    grouped_gaps: bool = False
    quantiles: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @cached_property
    def used(self) -> set[str]:
        """Every column that is looked at."""
        crossed = {one.column for axes in self.crossings for one in axes}
        groups = set() if self.by is None else {self.by.column}
        return {*self.columns, *crossed, *groups}

    @property
    def n_groups(self) -> int:
        """How many groups there are by agreement; one without any."""
        return 1 if self.by is None else self.by.size

    @cached_property
    def crossings(self) -> tuple[tuple[Axis, ...], ...]:
        """What is crossed in each histogram and each table: by groups, each of them."""
        bins = [(Axis.on_edges(*one),) for one in self.histograms.items()]
        groups = () if self.by is None else (self.by,)
        return tuple((*axes, *groups) for axes in (*bins, *self.tables.values()))

    @property
    def n_cells(self) -> int:
        """How many numbers the counts have."""
        return sum(map(n_cells, self.crossings))

    @property
    def gapped(self) -> tuple[str, ...]:
        """The columns of which missing values are counted in each group."""
        if self.by is None or not self.grouped_gaps:
            return ()
        return tuple(name for name in self.gaps if name != self.by.column)

    @property
    def words(self) -> str:
        """What is released, for the ledger and for what parties compare."""
        parts = [] if self.by is None else [f"by {self.by.column}"]
        parts += [f"moments of {', '.join(self.columns)}"] if self.columns else []
        bins = sorted((name, b.edges.tolist()) for name, b in self.histograms.items())
        parts += [f"histogram of {name} on {edges}" for name, edges in bins]
        parts += [f"table of {' x '.join(names)}" for names in sorted(self.tables)]
        parts += [f"missing values of {', '.join(self.gaps)}"] if self.gaps else []
        parts += ["missing values by group"] if self.gapped else []
        return "; ".join(parts)

    def groups(self) -> tuple[Group, ...]:
        """Return groups, bins, cells and values that few parties might hold."""
        if self.by is None:
            return self._crossed
        lacking = (Lacking(name, self.by) for name in self.gapped)
        return Crossed((self.by,)), *self._crossed, *lacking

    @property
    def _crossed(self) -> tuple[Crossed, ...]:
        """Cells, bins, and values of columns that have few."""
        pairs = zip(self.columns, self.measures, strict=True)
        few = [(Axis.of_values(*one),) for one in pairs if are_few(one[1])]
        groups = () if self.by is None else (self.by,)
        axes = (*self.crossings, *((*one, *groups) for one in few))
        return tuple(map(Crossed, axes))

    @cached_property
    def populations(self) -> Populations | None:
        """Variables that may each have rows of its own; None if rows are complete."""
        if self.by is None or not self.gaps:
            return None
        each: list[Variable] = [(name,) for name in self.columns]
        each += [self.variable(axes) for axes in self.crossings]
        variables = tuple(dict.fromkeys([(), *each]))
        groups = [(variables.index(self.variable(c.axes)), c) for c in self._crossed]
        return Populations(variables, self.by, ((0, Crossed((self.by,))), *groups))

    def variable(self, axes: Sequence[Axis]) -> Variable:
        """Return the columns that a table needs, beside its groups."""
        return tuple(sorted({one.column for one in axes if one is not self.by}))

    @cached_property
    def layout(self) -> Layout:
        """Row counts and moments, cells, missing values, rows left out."""
        moments = Moments.layout(self.measures)
        if self.by is not None:
            n, k, bits = self.n_groups, len(self.columns), moments.bits
            units = tuple(one.unit for one in self.measures)
            squares = tuple(unit**2 for unit in units)
            moments = Layout(
                (
                    array("group_rows", n),
                    array("group_column_rows", (n, k)),
                    Statistic("group_sums", (n, k), units * n, bits),
                    Statistic("group_squares", (n, k), squares * n, bits),
                )
            )
        return moments + Layout(
            (
                array("cells", self.n_cells),
                array("missing", len(self.gaps)),
                array("group_missing", (len(self.gapped), self.n_groups)),
                number("left_out"),
            )
        )

    @property
    def levels(self) -> dict[str, int]:
        """How many levels or values each axis has that has no bins."""
        axes = {one for axes in self.crossings for one in axes if one.bins is None}
        groups = set() if self.by is None else {self.by}
        return {one.column: one.size for one in sorted(axes | groups, key=_named)}

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
            cells = [tallied(axes, _looked(axes, table)) for axes in self.crossings]
        else:
            view = _View(self, table, frozenset(own))
            moments = view.moments(self.by)
            cells = [
                tallied(axes, view.columns(axes, self.variable(axes)))
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
        """Return one party's columns of numbers."""
        return np.stack([table.numbers(name) for name in self.columns], axis=1)

    # What a party refuses

    def check_at_home(self, home: AtHome, table: CheckedTable) -> None:
        """Refuse a table of which the statistics would show too much."""
        groups = () if self.by is None else ((self.by,),)
        for axes in (*groups, *self.crossings):
            self._check_places(home, axes, _looked(axes, table))
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

    def refused(self, home: AtHome, table: CheckedTable) -> list[bool]:
        """Return for each variable whether the rules refuse it on its own rows.

        Numbers are refused together where a combination of columns, 0 in rows that lack
        them, points at few rows.
        """
        populations, most = self.populations, home.rules.maximum_rows
        assert populations is not None
        if not table.n_dropped:
            return [False] * len(populations.variables)
        if most is not None and table.n_rows + table.n_dropped > most:
            return [True] * len(populations.variables)
        view = _View(self, table, frozenset(populations.variables))
        found = dict.fromkeys(populations.variables, False)
        for axes in ((populations.by,), *self.crossings):
            variable = self.variable(axes)
            columns = view.columns(axes, variable)
            found[variable] |= _refuses(self._check_places, home, axes, columns)
        for name in self.columns:
            for values in view.by_group(name):
                found[name,] |= _refuses(self._check_column, home, name, name, values)
        if self.columns and _refuses(self._check_together, home, view):
            found |= dict.fromkeys([(name,) for name in self.columns], True)
        return [found[one] for one in populations.variables]

    @property
    def _group(self) -> str:
        return "" if self.by is None else self.by.column

    def _check_places(
        self, home: AtHome, axes: Sequence[Axis], columns: Sequence[Array[Any]]
    ) -> None:
        if len(axes) == 1 and axes[0].bins is not None:
            home.bins(axes[0].column, tallied(axes, columns))
            return
        codes = [one.places(own) for one, own in zip(axes, columns, strict=True)]
        for axis, found in zip(axes, codes, strict=True):
            if axis.bins is None:
                home.category(axis.column, found, axis.labels)
        home.cells([one.column for one in axes], codes, [one.labels for one in axes])

    def _check_column(
        self, home: AtHome, name: str, label: str, values: Array[Any]
    ) -> None:
        measure = self.measures[self.columns.index(name)]
        two_valued = partial(operator.le, measure.most - measure.least, 1)
        home.column(label, values, two_valued=two_valued)
        home.dominated(label, values)

    def _check_numbers(
        self, home: AtHome, numbers: Array[np.float64], where: str
    ) -> None:
        """Refuse numbers that point at few rows, of all or of one group."""
        names = [f"{name}{where}" for name in self.columns]
        for name, label, own in zip(self.columns, names, numbers.T, strict=True):
            self._check_column(home, name, label, own)
        # The moments of columns are those of a design with ones. Of two that differ
        # in one row, sums by themselves tell that row.
        ones = np.ones((len(numbers), 1))
        design = Rows(np.hstack([ones, numbers]), ones[:, 0])
        home.design(design, ("1", *names), intercept=0)

    def _check_together(self, home: AtHome, view: _View) -> None:
        """Refuse combinations of columns, each 0 where its own rows end."""
        for numbers in view.filled():
            ones = np.ones((len(numbers), 1))
            design = Rows(np.hstack([ones, numbers]), ones[:, 0])
            home.design(design, ("1", *self.columns), intercept=0)


@dataclass(frozen=True, eq=False, repr=False)
class _View(Secret):
    """One party's table by group, with the rows that each variable is described on.

    Attributes:
        wishes: the columns and groups.
        table: of the party.
        own: variables on their own rows; others are on complete rows.
    """

    wishes: Wishes
    table: CheckedTable
    own: frozenset[Variable]

    def rows(self, variable: Variable) -> Flags | slice:
        """Return a variable's rows, of all rows with incomplete ones last."""
        populations, table = self.wishes.populations, self.table
        if populations is None or variable not in self.own:
            return slice(table.n_rows)
        return populations.rows(table, variable) if table.n_dropped else slice(None)

    def columns(self, axes: Sequence[Axis], variable: Variable) -> list[Array[Any]]:
        """Return the columns of a table, on the rows of a variable."""
        rows = self.rows(variable)
        return [self.table.whole(one.column)[rows] for one in axes]

    def moments(self, by: Axis) -> dict[str, Any]:
        """Return rows, and each column's rows, sums and squares, by group."""
        (groups,) = self.columns((by,), ())
        found = [
            [marginal_of(part, measure) for part in self.by_group(name)[1:]]
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


def _refuses(check: Callable[..., None], *arguments: Any) -> bool:
    try:
        check(*arguments)
    except DisclosureError:
        return True
    return False


def _named(axis: Axis) -> str:
    return axis.column


def _looked(axes: Sequence[Axis], table: CheckedTable) -> list[Array[Any]]:
    return [table.look(one.column) for one in axes]


def wishes_of(
    schema: Schema,
    columns: Sequence[str] | None,
    histograms: Mapping[str, ArrayLike],
    tables: Sequence[Sequence[str]] | None,
    *,
    by: str | None = None,
    quantiles: Mapping[str, Sequence[float]] | None = None,
    missing: Missing | None = None,
) -> Wishes:
    """Return what is asked for, checked against the schema."""
    bins = {name: Bins.of(histograms[name]) for name in sorted(histograms)}
    groups = None if by is None else _groups_of(schema, by)
    if columns is None:
        columns = [c.name for c in schema.columns if not c.is_category and c.name != by]
    if tables is None:
        # Groups are described by all that the schema has, unless it is said by what.
        names = [] if by is None else schema.categorical
        tables = [(name,) for name in names if name != by]
    for name in [*columns, *bins]:
        if schema.column(name).is_category:
            raise InvalidInputError(
                f"column {name!r} is a category: count it with tables = [[{name!r}]]"
            )
    crossed = {name for names in tables for name in names}
    if by is not None and by in {*columns, *bins, *crossed}:
        raise InvalidInputError(
            f"column {by!r} says which group a row is in (by), and is asked for within "
            "groups as well: leave it out of columns, histograms and tables"
        )
    asked = {name: tuple(map(float, of)) for name, of in (quantiles or {}).items()}
    _check_quantiles(asked, bins)
    found = Wishes(
        tuple(columns),
        bins,
        {tuple(each): _axes(schema, each, bins) for each in tables},
        tuple(schema.column(name).measure.centred() for name in columns),
        by=groups,
        quantiles=asked,
    )
    counted = _counting(missing, by)
    if counted is None or schema.missing != "drop":
        return found  # no row with a missing value takes part
    gaps = tuple(sorted(found.used))
    return replace(found, gaps=gaps, grouped_gaps=counted == "groups")


def _axes(
    schema: Schema, names: Sequence[str], bins: Mapping[str, Bins]
) -> tuple[Axis, ...]:
    axes = tuple(Axis.of(schema.column(name), bins) for name in names)
    CrossTable(tuple(one.size for one in axes))  # of too many cells
    return axes


def _groups_of(schema: Schema, by: str) -> Axis:
    try:
        found = Axis.of(schema.column(by), {})
    except InvalidInputError as error:
        if by not in schema:
            raise
        raise InvalidInputError(
            f"column {by!r} holds numbers, and groups are told by a category, or by "
            f"whole numbers of which {MOST_VALUES} are agreed at most: by = {by!r} "
            "would make a group of each; make a category of it"
        ) from error
    if found.size < 2:
        raise InvalidInputError(
            f"by = {by!r} has one group by agreement, {found.labels[0]!r}, and groups "
            "are compared: leave by out, or agree on all of its levels"
        )
    return found


def _check_quantiles(
    asked: Mapping[str, Sequence[float]], bins: Mapping[str, Bins]
) -> None:
    for name, shares in asked.items():
        if name not in bins:
            raise InvalidInputError(
                f"quantiles of {name!r} are read off counts at agreed thresholds: give "
                f"these too, as in histograms = {{ {name} = [20, 40, 60] }}"
            )
        for share in shares:
            if not 0.0 < share < 1.0:
                raise InvalidInputError(
                    f"quantiles of {name!r} are above 0 and below 1, found {share:g}: "
                    "0.5 is the median; the smallest and the largest value are single "
                    "rows, and are not shown"
                )


def _counting(missing: Missing | None, by: str | None) -> Missing | None:
    if missing not in {None, *MISSING}:
        raise InvalidInputError(
            f"missing is {missing!r}; choose from {' and '.join(MISSING)}"
        )
    if missing == "groups" and by is None:
        raise InvalidInputError(
            'missing = "groups" needs groups: say by which column, with by'
        )
    return missing or (None if by is None else "columns")


@dataclass(frozen=True)
class Describe:
    """The last request: statistics, with the variables that are on their own rows."""

    asked: str
    own: tuple[Variable, ...]


@dataclass(frozen=True)
class StatisticsRecipe(OneRound):
    """Row counts, moments, cells, and the number of rows left out, in one sum.

    By group, if rows may have missing values, a first sum decides for each variable
    whether it is described on its own rows or on complete ones; see `Populations`.
    """

    wishes: Wishes
    limit: ReleaseLimit | None

    @cached_property
    def layout(self) -> Layout:
        """The statistics, padded to the longest sum under any rules."""
        found, populations = self.wishes.layout, self.wishes.populations
        first = 0 if populations is None else populations.layout(None).size
        return found.padded(first)

    @property
    def answer_size(self) -> int:
        """The numbers of the last sum."""
        return self.wishes.layout.size

    @property
    def wording(self) -> tuple[str, str, str]:  # type: ignore[override]
        """A first sum counts parties, not rows."""
        return SCREENED if self.n_first else super().wording

    @property
    def _rules(self) -> Rules | None:
        return None if self.limit is None else self.limit.rules

    @cached_property
    def first(self) -> Layout:
        """The first of two sums; empty if there is only one."""
        if self.wishes.populations is None:
            return Layout(())
        found = self.wishes.populations.layout(self._rules)
        fits = self.limit is None or self.limit.allows(self.answer_size + found.size)
        return found if fits else Layout(())

    @property
    def n_first(self) -> int:
        """Number of numbers of the first of two sums; 0 if there is only one."""
        return self.first.size

    @property
    def most_numbers(self) -> int:
        """The numbers of both sums."""
        return self.n_first + self.answer_size

    @property
    def what(self) -> str:
        """The question, for the ledger."""
        return self.wishes.words

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """The first sum, if there is one, and the statistics."""
        if not self.n_first:
            return (Foreseen("only", self.layout.released),)
        first = Foreseen("first", self.first.released)
        return first, Foreseen("last", self.layout.released)

    def release(self, sums: Sums) -> Release:
        """Return the numbers of the next sum."""
        layout = self.first if self.n_first and not sums else self.layout
        return Release(self.what, layout.released)

    def choice(self, sums: Sums) -> RowChoice:
        """Return the rows of each variable."""
        populations = self.wishes.populations
        if populations is None:
            return RowChoice(frozenset(), {})
        if self.n_first:
            limit = self.limit or ReleaseLimit(honest=0, columns=0, minimum_rows=0)
            return populations.choose(sums[0][: self.n_first], limit)
        assert self.limit is not None
        wanted = populations.layout(self._rules).size
        rows = agreed_rows(self.limit.rows_for(self.answer_size + wanted))
        why = (
            f"{wanted} counts of parties would have to be released before, and there "
            f"is no room for them; agree on {rows}"
        )
        return RowChoice(frozenset(), dict.fromkeys(populations.variables, why))

    def request(self, sums: Sums) -> str | CountDifferences | Describe | None:
        """Ask where variables differ, if that matters, and then for the statistics."""
        if len(sums) > bool(self.n_first):
            return None
        if self.limit is not None:
            self.limit.check(self.most_numbers)
        if self.wishes.populations is None:
            return self.asked
        if self.n_first and not sums:
            return CountDifferences(self.asked, self._rules or Rules())
        own = self.choice(sums).own
        each = self.wishes.populations.variables
        return Describe(self.asked, tuple(one for one in each if one in own))

    def answer(self, sums: Sums) -> Vector:
        """Return the last total in float64: parties compare and sign it."""
        return self.wishes.layout.counts.values(sums[-1][: self.answer_size])

    def parts(self, sums: Sums) -> dict[str, Any]:
        """Return the statistics of the last sum by key."""
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
                    check_total("parties", int(number), 0, self.limit.parties)
            return
        wishes, parts = self.wishes, self.parts(sums)
        counts = (parts["missing"], parts["group_missing"].ravel())
        for count in (*np.concatenate(counts).tolist(), parts["left_out"]):
            check_total(
                "missing values and rows left out", int(count), 0, 1 << ROW_BITS
            )
        names = wishes.columns
        if not names:
            return
        if wishes.by is None:
            Moments.from_parts(parts, wishes.measures).check(names)
            return
        groups = group_marginals(parts, wishes.measures)
        for label, own in zip(wishes.by.labels, groups, strict=True):
            own.check(names, f" where {wishes.by.column} = {label}")
            for name, rows in zip(names, own.rows, strict=True):
                check_total(f"rows that have {name}", rows, 0, self.most_rows)


@dataclass(frozen=True)
class StatisticsJob(SchemaJob[CheckedTable]):
    """Statistics of tables with an agreed schema.

    Attributes:
        wishes: what is counted and averaged.
        used: the columns that are looked at.
    """

    follows = "means, variances, correlations, quantiles and tests"

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
        by: str | None = None,
        quantiles: Mapping[str, Sequence[float]] | None = None,
        missing: Missing | None = None,
    ) -> StatisticsJob:
        """Return the job on those columns that it needs."""
        more: dict[str, Any] = {"by": by, "quantiles": quantiles, "missing": missing}
        wishes = wishes_of(schema, columns, histograms or {}, tables, **more)
        used = tuple(one for one in schema.columns if one.name in wishes.used)
        return cls(wishes, replace(schema, columns=used))

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups, bins, cells and values that few parties might hold."""
        return self.wishes.groups()

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
            by=None if wishes.by is None else wishes.by.column,
            missing="groups" if wishes.gapped else None,
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

    def look(self, own: CheckedTable, at: str | Lacking) -> Array[Any]:
        """Return a column of the table, or in which groups one is missing."""
        if isinstance(at, Lacking):
            return self.wishes.lacking(at.column, own)
        return own.look(at)

    def answer(
        self, own: CheckedTable, request: str | CountDifferences | Describe
    ) -> Integers:
        """Return the numbers of one party."""
        if isinstance(request, CountDifferences):
            populations = self.wishes.populations
            home = AtHome(own.party, request.rules)
            assert populations is not None
            refused = self.wishes.refused(home, own)
            return self._filled(populations.counts(request, own, refused))
        chosen = request.own if isinstance(request, Describe) else ()
        return self._filled(self.wishes.vector(own, chosen))

    def _filled(self, vector: Integers) -> Integers:
        """Return the numbers of a sum, filled up with zeros to the longer sum."""
        missing = self.recipe().size - len(vector)
        return np.concatenate([vector, np.zeros(missing, dtype=object)])

    def pooled(self, own: Mapping[str, CheckedTable]) -> Array[Any] | None:
        """Return means of pooled rows: first of complete rows, then of own rows."""
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
class StatisticsResult(TableResult):
    """Pooled statistics by column, and by group if groups were asked for.

    Attributes:
        job: what was asked.
    """

    job: StatisticsJob

    compared_with: ClassVar[str] = "the pooled means"
    compared_by: ClassVar[str] = "numpy's, of all rows in one place"

    @property
    def wishes(self) -> Wishes:
        """What was asked for."""
        return self.job.wishes

    @property
    def schema(self) -> Schema:
        """Of the columns that were looked at."""
        return self.job.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in the order of vectors and matrices here."""
        return self.wishes.columns

    @cached_property
    def _sums(self) -> dict[str, Any]:
        recipe, sums = self.inner
        assert isinstance(recipe, StatisticsRecipe)
        return recipe.parts(sums)

    @cached_property
    def moments(self) -> Moments:
        """Sums, means, variances, covariances and correlations."""
        if not self.columns:
            raise InvalidInputError("no columns of numbers were asked for")
        if self.wishes.by is not None:
            raise InvalidInputError(
                "by group no products of two columns are summed, so there are no "
                "correlations: ask for them without by; `marginals` has the rest"
            )
        return Moments.from_parts(self._sums, self.wishes.measures)

    @cached_property
    def choice(self) -> RowChoice:
        """By group, the variables on their own rows, and why others are not."""
        recipe, sums = self.inner
        assert isinstance(recipe, StatisticsRecipe)
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
        dropped: int = self._sums["left_out"]
        return dropped

    @cached_property
    def marginals(self) -> Marginals:
        """Sums, means and variances of all rows, column by column."""
        if self.wishes.by is None:
            return self.moments
        first, *others = self._parts
        return reduce(operator.add, others, first)

    @cached_property
    def _parts(self) -> tuple[Marginals, ...]:
        """Sums, means and variances of each group."""
        return group_marginals(self._sums, self.wishes.measures)

    @cached_property
    def groups(self) -> Grouped:
        """Everything by group, with tests: a "Table 1"."""
        wishes = self.wishes
        if wishes.by is None:
            raise InvalidInputError("no groups were asked for: say by which column")
        gaps = self._sums["group_missing"]
        grouped = {
            name: tuple(map(int, line))
            for name, line in zip(wishes.gapped, gaps, strict=True)
        }
        return Grouped(
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
                    *(self._quantiles(name, _of_cells(bins, g)) for g in cells.T),
                )
                for (name, bins), cells in self._binned
                if name in wishes.quantiles
            },
        )

    @property
    def _binned(self) -> list[tuple[tuple[str, Bins], Cells]]:
        pairs = zip(self.wishes.histograms.items(), self._cells, strict=False)
        return list(pairs)

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
        """How many rows there are, and have missing values."""
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
        """What the places of each axis of a table are called."""
        axes = [one for axes in self.wishes.tables.values() for one in axes]
        return {one.column: one.labels for one in axes}

    @property
    def compared(self) -> Vector:
        """The means."""
        return self.marginals.mean

    @cached_property
    def _cells(self) -> list[Cells]:
        """The cells of each histogram and table, groups last."""
        shapes = [tuple(a.size for a in axes) for axes in self.wishes.crossings]
        ends = np.cumsum([prod(one) for one in shapes], dtype=np.int64)[:-1]
        parts = np.split(self._sums["cells"], ends) if shapes else []
        return [CrossTable(s).unpack(p) for s, p in zip(shapes, parts, strict=True)]

    @cached_property
    def _overall(self) -> list[Cells]:
        """The same over all groups."""
        if self.wishes.by is None:
            return self._cells
        return [one.sum(axis=-1) for one in self._cells]

    @cached_property
    def histograms(self) -> dict[str, Histogram]:
        """Counts on the agreed bins, by column."""
        pairs = zip(self.wishes.histograms.items(), self._overall, strict=False)
        return {name: _of_cells(bins, cells) for (name, bins), cells in pairs}

    @cached_property
    def tables(self) -> dict[tuple[str, ...], Cells]:
        """Contingency tables, one axis for each column."""
        found = self._overall[len(self.wishes.histograms) :]
        return dict(zip(self.wishes.tables, found, strict=True))

    @cached_property
    def quantiles(self) -> dict[str, tuple[Quantile, ...]]:
        """Between which values each quantile lies that was asked for, by column."""
        asked = self.wishes.quantiles
        return {name: self._quantiles(name, self.histograms[name]) for name in asked}

    def _quantiles(self, name: str, found: Histogram) -> tuple[Quantile, ...]:
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
            self.columns,
            found.rows,
            found.sum.tolist(),
            found.mean.tolist(),
            found.standard_deviation.tolist(),
            strict=True,
        )
        return [
            {"name": n, "count": c, "sum": s, "mean": m, "sd": d}
            for n, c, s, m, d in lines
        ]

    def to_frame(self) -> Frame:
        """Return the numbers as a pandas table.

        By group there is a line for each column, level and group, all rows together
        being the group ""; without groups one for each column of numbers.
        """
        grouped = self.wishes.by is not None
        lines = self.groups.records() if grouped else self.rows()
        return load_pandas().DataFrame(lines)

    def answered(self) -> Showing:
        """Return a table of the columns, and the counts, to be seen."""
        parts: list[Block] = []
        if self.wishes.by is not None:
            parts += self.groups.blocks()
        elif self.columns:
            head = ["name", "count", "sum", "mean", "sd"]
            shown = [{**one, "sum": _whole(one["sum"])} for one in self.rows()]
            parts.append(Table(head, shown, align="<>..."))
        # Tables by group stand above, with their shares.
        n = len(self.wishes.histograms) if self.wishes.by is not None else None
        pairs = zip(self.wishes.crossings[:n], self._cells[:n], strict=True)
        parts += [_counts_table(axes, cells) for axes, cells in pairs]
        if self.wishes.by is None:
            parts += quantile_blocks(self.quantiles)
            if self.missing:
                lines = [*self.missing.items()]
                parts.append(Table(["name", "missing"], lines, align="<>"))
        return Showing("", [*parts, self.rows_sentence])

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
            "quantiles": {
                name: [finite(asdict(one)) for one in found]
                for name, found in self.quantiles.items()
            },
            "groups": self.groups.to_dict() if grouped else None,
        }


def group_marginals(
    parts: Mapping[str, Any], measures: tuple[Measure, ...]
) -> tuple[Marginals, ...]:
    """Return the sums of each group, from the statistics of a sum by key."""
    each = zip(*(parts[key] for key in GROUP_MOMENTS), strict=True)
    return tuple(
        Marginals(measures, tuple(map(int, rows)), sums, squares)
        for rows, sums, squares in each
    )


def _of_cells(bins: Bins, cells: Cells) -> Histogram:
    return bins.unpack(np.asarray(cells))


def _plain(matrix: Array[np.float64]) -> list[list[float | None]]:
    return [[None if np.isnan(x) else x for x in row] for row in matrix.tolist()]


def _plain_dict(histogram: Histogram) -> dict[str, Any]:
    return {key: np.asarray(v).tolist() for key, v in asdict(histogram).items()}


def _whole(total: float) -> float:
    """Return a total of whole numbers as one: it is exact, so every digit is shown."""
    return int(total) if total.is_integer() and abs(total) < 2.0**53 else total


def _counts_table(axes: Sequence[Axis], cells: Cells) -> Table:
    """Return counts, of two axes as a table with the second one across if it fits."""
    if len(axes) == 2:
        down, across = axes
        lines: list[list[Any]] = [
            [label, *row]
            for label, row in zip(down.labels, cells.astype(int).tolist(), strict=True)
        ]
        head = [f"{down.column} by {across.column}", *across.labels]
        made = Table(head, lines, align="<" + ">" * across.size)
        if max(map(len, made.text().split("\n"))) <= WIDTH:
            return made
    rows = [
        [*(a.labels[k] for a, k in zip(axes, place, strict=True)), int(cells[place])]
        for place in np.ndindex(cells.shape)
    ]
    head = [*(one.column for one in axes), "count"]
    return Table(head, rows, align="<" * len(axes) + ">")


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
    **options: Unpack[Options],
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
        options: how to sum; see `Options`.
    """
    return put(
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
