"""What is to be counted and averaged, and what one party says to it and refuses.

`Wishes` are public: columns, bins, axes of tables and groups that all parties agreed
on, in agreed units. Every row gives whole numbers, and their sum says nothing of who
gave which.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.jobs.presence import Crossed, Group, Lacking, are_few
from veilsum.models.moments import Moments, moments_of
from veilsum.models.rows import Rows
from veilsum.models.tallies import Bins, CrossTable
from veilsum.numbers.arrays import Array
from veilsum.numbers.units import Counts, Integers, Measure, square
from veilsum.tables.axes import MOST_VALUES, Axis, n_cells, tallied
from veilsum.tables.columns import Flags
from veilsum.tables.rules import AtHome
from veilsum.tables.schema import CheckedTable, Schema

# Where missing values are counted: in each column, and there in each group.
Missing = Literal["columns", "groups"]
MISSING: tuple[Missing, ...] = get_args(Missing)


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

    @property
    def n_moments(self) -> int:
        """How many numbers the moments have; without columns, row counts alone."""
        k = len(self.columns)
        return Moments.size(k) if self.by is None else self.n_groups * (1 + 2 * k)

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
    def n_gaps(self) -> int:
        """How many counts of missing values there are."""
        return len(self.gaps) + len(self.gapped) * self.n_groups

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
        found: list[Group] = [Crossed(axes) for axes in self.crossings]
        pairs = zip(self.columns, self.measures, strict=True)
        few = [Axis.of_values(*one) for one in pairs if are_few(one[1])]
        if self.by is None:
            return *found, *(Crossed((one,)) for one in few)
        found += [Crossed((one, self.by)) for one in few]
        lacking = (Lacking(name, self.by) for name in self.gapped)
        return Crossed((self.by,)), *found, *lacking

    @property
    def counts(self) -> Counts:
        """What a sum counts: row counts and moments, cells, gaps, rows left out."""
        moments = Moments.counts(self.measures)
        units = moments.units
        if self.by is not None:
            own = [one.unit for one in self.measures]
            units = (Fraction(1), *own, *(one**2 for one in own)) * self.n_groups
        ones = (Fraction(1),) * (self.n_cells + self.n_gaps + 1)
        return Counts((*units, *ones), moments.bits)

    @property
    def levels(self) -> dict[str, int]:
        """How many levels or values each axis has that has no bins."""
        axes = {one for axes in self.crossings for one in axes if one.bins is None}
        groups = set() if self.by is None else {self.by}
        return {one.column: one.size for one in sorted(axes | groups, key=_named)}

    # What a party says

    def vector(self, table: CheckedTable) -> Integers:
        """Return what one party gives, in whole numbers.

        Raises:
            SchemaError: a number is out of its range.
        """
        parts = [
            *self._moments(table),
            *(tallied(axes, _looked(axes, table)) for axes in self.crossings),
            [int(np.count_nonzero(table.missing(name))) for name in self.gaps],
            *(self.lacking(name, table) for name in self.gapped),
            [table.n_dropped],
        ]
        return np.concatenate([np.asarray(one, dtype=object) for one in parts])

    def _moments(self, table: CheckedTable) -> Iterator[Integers]:
        k = len(self.columns)
        for _, rows in self._parts(table):
            n = np.array([int(np.count_nonzero(rows))], dtype=object)
            if not k:
                yield n
                continue
            found = moments_of(self.numbers(table)[rows], self.measures)
            if self.by is None:
                yield found
                continue
            yield found[: 1 + k]
            yield np.diag(square(found[1 + k :], k))

    def _parts(self, table: CheckedTable) -> Iterator[tuple[str, Flags]]:
        """Yield which rows are in each group, and where that is, in words."""
        if self.by is None:
            yield "", np.ones(table.n_rows, dtype=np.bool_)
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
        if self.by is not None:
            self._check_cells(home, (self.by,), table)
        for axes in self.crossings:
            if len(axes) == 1 and axes[0].bins is not None:
                home.bins(axes[0].column, tallied(axes, _looked(axes, table)))
            else:
                self._check_cells(home, axes, table)
        for name in self.gapped:
            found = self._of_lacking(name, table)
            labels = (("missing",), self.by.labels) if self.by else ()
            home.cells((name, self._group), [np.zeros_like(found), found], labels)
        if not self.columns:
            return
        whole = ("", np.ones(table.n_rows, dtype=np.bool_))
        groups = () if self.by is None else self._parts(table)
        for where, rows in (whole, *groups):
            if rows.any():
                self._check_numbers(home, table, rows, where)

    @property
    def _group(self) -> str:
        return "" if self.by is None else self.by.column

    def _check_cells(
        self, home: AtHome, axes: Sequence[Axis], table: CheckedTable
    ) -> None:
        codes = [one.codes(table) for one in axes]
        for axis, found in zip(axes, codes, strict=True):
            if axis.bins is None:
                home.category(axis.column, found, axis.labels)
        home.cells([one.column for one in axes], codes, [one.labels for one in axes])

    def _check_numbers(
        self, home: AtHome, table: CheckedTable, rows: Flags, where: str
    ) -> None:
        """Refuse numbers that point at few rows, of all or of one group."""
        names = [f"{name}{where}" for name in self.columns]
        numbers = self.numbers(table)[rows]
        for name, what, own in zip(self.columns, names, numbers.T, strict=True):
            measure = table.schema.column(name).measure
            two_valued = partial(operator.le, measure.most - measure.least, 1)
            home.column(what, own, two_valued=two_valued)
            home.dominated(what, own)
        # The moments of columns are those of a design with ones. Of two that differ
        # in one row, sums by themselves tell that row.
        ones = np.ones((len(numbers), 1))
        design = Rows(np.hstack([ones, numbers]), ones[:, 0])
        home.design(design, ("1", *names), intercept=0)


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
