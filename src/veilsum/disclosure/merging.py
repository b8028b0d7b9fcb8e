"""Merging of small cells after the first count, and the request that names it.

The first sum counts, for each cell of a table, the parties with at least k rows in it
(`minimum_count`). A cell is **small** if fewer than `least` parties have so many rows.
Of `least` parties two are outside of any coalition. Small cells merge before any total
is released. All parties find the same blocks, since the public counts alone decide.

Ordered places (bins, times, whole numbers): a cut point stays only where the places on
both of its sides have no small cell, unless another axis merges for it. Two cut points
that stay in two questions, of which one question has both, have a large place between
them. So no difference of two questions tells a small place, unless a cut point was
moved, which the ledger compares at each party.

Levels of a category: the small ones and, for each of them, the next level in the agreed
order become one level, "others". A small level and its next one are in one block in
every question, so that no combination of questions takes them apart.

A block has as many parties with k rows as its largest cell at least: every block that
is left is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import prod
from typing import Any, NoReturn, TypeAlias

import numpy as np

from veilsum.models.tallies import TallyBins
from veilsum.numbers.arrays import Array, listed_names
from veilsum.numbers.layout import NumberLayout, RowRange
from veilsum.tables.axes import TableAxis
from veilsum.tables.rules import DisclosureError, how_rules_are_loosened

# Places of an axis that are counted together: one tuple for each block.
Blocks: TypeAlias = tuple[tuple[int, ...], ...]
OTHERS = "others"


@dataclass(frozen=True)
class MergeAxis:
    """An axis of a table of counts whose places may merge.

    Attributes:
        column: name of the column.
        labels: name of each place.
        ordered: whether neighbours merge; small levels of a category become "others".
        fixed: whether its places never merge.
        alone: whether its places merge only for their own counts, not for those of
            cells in which the axis is crossed with others.
        unreachable: places that no agreed value can have.
    """

    column: str
    labels: tuple[str, ...]
    ordered: bool = False
    fixed: bool = False
    alone: bool = False
    unreachable: tuple[int, ...] = ()

    def blocks(self, small: Iterable[int] = ()) -> Blocks:
        """Return the blocks that are left where some places are small."""
        few, places = {*small}, range(len(self.labels))
        if not few:
            return tuple((place,) for place in places)
        if self.ordered:
            found: list[list[int]] = [[0]]
            for place in places[1:]:
                if {place - 1, place} & few:
                    found[-1].append(place)
                else:
                    found.append([place])
            return tuple(map(tuple, found))
        others = few | {(place + 1) % len(places) for place in few}
        kept = [(place,) for place in places if place not in others]
        return (*kept, tuple(sorted(others)))

    def label(self, block: tuple[int, ...]) -> str:
        """Return the name of a block."""
        names = [self.labels[place] for place in block]
        if len(names) == 1:
            return names[0]
        if self.ordered:
            return f"{names[0]} to {names[-1]}"
        return f"{OTHERS} ({', '.join(names)})"


def merge_axis_of(axis: TableAxis, *, alone: bool = False) -> MergeAxis:
    """Return how small places of a table's axis merge; see `MergeAxis` for `alone`."""
    return MergeAxis(
        axis.column,
        axis.labels,
        ordered=axis.bins is not None or axis.measure is not None,
        alone=alone,
        unreachable=axis.unreachable,
    )


@dataclass(frozen=True)
class OneEdge(TallyBins):
    """Merged bins with a single edge left: one bin below it, and one above."""

    def __post_init__(self) -> None:
        """Accept a single edge, which nobody asks for."""


def merged_axis(axis: TableAxis, merging: Merging) -> TableAxis:
    """Return a table's axis with blocks for places, to be shown."""
    if axis.column not in merging.blocks:
        return axis
    blocks = merging.blocks[axis.column]
    if axis.bins is not None:
        kept = [block[-1] for block in blocks[:-1]]
        edges, half = axis.bins.edges[kept], axis.unit / 2.0
        # The last bin has its last edge. Values at another edge are in the next block.
        if kept[-1] < len(axis.bins.edges) - 1:
            edges[-1] = edges[-1] - half if half else np.nextafter(edges[-1], -np.inf)
        elif len(kept) == 1:
            edges[-1] = edges[-1] + half if half else np.nextafter(edges[-1], np.inf)
        bins = TallyBins(edges) if len(kept) > 1 else OneEdge(edges)
        return TableAxis(axis.column, bins.labels, bins=bins)
    known = merge_axis_of(axis)
    return TableAxis(axis.column, tuple(map(known.label, blocks)))


@dataclass(frozen=True)
class Merging:
    """Blocks of the columns of which any places merged; false if none did.

    Attributes:
        blocks: by name of the column.
    """

    blocks: Mapping[str, Blocks] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def of(self, column: str, size: int) -> Blocks:
        """Return the blocks of a column with so many places."""
        return self.blocks.get(column, tuple((place,) for place in range(size)))

    def firsts(self, column: str, size: int) -> list[int]:
        """Return the first place of each block: where its total is."""
        return [block[0] for block in self.of(column, size)]

    def targets(
        self, shape: Sequence[int], columns: Sequence[str | None], start: int = 0
    ) -> Array[Any]:
        """Return for each number of an array the place of its block's total.

        Args:
            shape: of the array.
            columns: name of each axis's column; None for one that never merges.
            start: place of the array's first number in the sum.
        """
        found = start + np.arange(prod(shape)).reshape(shape)
        for axis, (column, size) in enumerate(zip(columns, shape, strict=True)):
            if column in self.blocks:
                found = found.take(self.first_places(str(column), size), axis)
        return found.ravel()

    def first_places(self, column: str, size: int) -> Array[Any]:
        """Return for each place of a column the first place of its block."""
        found = np.arange(size)
        for block in self.of(column, size):
            found[[*block]] = block[0]
        return found


@dataclass(frozen=True)
class MergedRequest:
    """A request that is answered in blocks.

    Attributes:
        asked: the request.
        blocks: by name of the column.
    """

    asked: Any
    blocks: Mapping[str, Blocks]


def merge_released_numbers(values: Array[Any], targets: Array[Any]) -> Array[Any]:
    """Return numbers of a sum with each block's total in its first place.

    Args:
        values: numbers of a sum, along the last axis.
        targets: place of each number's total; numbers beyond stay where they are.
    """
    found = values.copy()
    moved = np.flatnonzero(targets != np.arange(len(targets)))
    found[..., moved] = 0
    # One by one: several may have the same target, and exact integers are objects.
    for place, target in zip(moved.tolist(), targets[moved].tolist(), strict=True):
        found[..., target] = found[..., target] + values[..., place]
    return found


def merged_layout(layout: NumberLayout, targets: Array[Any]) -> NumberLayout:
    """Return a layout in which numbers without a total of their own cost no bit."""
    kept = {*targets.tolist()}
    statistics, start = [], 0
    for each in layout.statistics:
        ranges = tuple(
            one
            if place in kept or place >= len(targets)
            else RowRange(0, 0, one.columns)
            for place, one in enumerate(each.row_ranges(), start)
        )
        statistics.append(replace(each, ranges=ranges))
        start += each.size
    return NumberLayout(tuple(statistics))


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A table's cells, each with the number of parties that have enough rows in it.

    Attributes:
        name: of the table, in words.
        holders: an axis for each of `axes`.
    """

    name: str
    axes: tuple[MergeAxis, ...]
    holders: Array[Any]

    def largest(self, blocks: Sequence[Blocks]) -> Array[Any]:
        """Return the largest count in each block; -1 where no row can be."""
        found = self.holders.copy()
        for axis, one in enumerate(self.axes):
            for place in one.unreachable:
                found[(slice(None),) * axis + (place,)] = -1
        for axis, own in enumerate(blocks):
            parts = [found.take(block, axis).max(axis=axis) for block in own]
            found = np.stack(parts, axis=axis)
        return found


@dataclass(frozen=True)
class SmallCellRule:
    """The rule by which cells merge.

    Attributes:
        least: the fewest parties that have enough rows in a cell.
        enough: the number of rows that is enough. With 1, a cell without any such
            party is known to be empty, and is not small.
    """

    least: int
    enough: int

    def merge(self, tables: Sequence[CountedTable]) -> Merging:
        """Return the blocks in which no cell of any table is small.

        Raises:
            DisclosureError: too few blocks would be left of a table.
        """
        small: dict[str, set[int]] = {}
        axes: dict[str, MergeAxis] = {}
        for table in sorted(tables, key=lambda one: len(one.axes)):
            axes |= {one.column: one for one in table.axes}
            if (short := self._short(table, small)).any():
                self._mend(table, short, small)
        return Merging({name: axes[name].blocks(small[name]) for name in sorted(small)})

    def _blocks(
        self, table: CountedTable, small: Mapping[str, Iterable[int]]
    ) -> list[Blocks]:
        return [one.blocks(small.get(one.column, ())) for one in table.axes]

    def _short(
        self, table: CountedTable, small: Mapping[str, Iterable[int]]
    ) -> Array[Any]:
        largest = table.largest(self._blocks(table, small))
        return (largest < self.least) & (largest >= (self.enough == 1))

    def _mend(
        self, table: CountedTable, short: Array[Any], small: dict[str, set[int]]
    ) -> None:
        """Merge places of one axis so that no cell is small; ordered ones first."""
        ways: list[tuple[bool, int, str, set[int]]] = []
        for axis, one in enumerate(table.axes):
            if one.fixed or (one.alone and len(table.axes) > 1):
                continue
            before = small.get(one.column, set())
            others = tuple(k for k in range(short.ndim) if k != axis)
            lines = np.flatnonzero(short.any(axis=others)).tolist()
            places = [one.blocks(before)[line] for line in lines]
            flagged = before | {*chain.from_iterable(places)}
            left = len(one.blocks(flagged))
            tried = {**small, one.column: flagged}
            if left > 1 and not self._short(table, tried).any():
                ways.append((not one.ordered, -left, one.column, flagged))
        if not ways:
            self._refuse(table)
        _, _, column, flagged = min(ways)
        small[column] = flagged

    def _refuse(self, table: CountedTable) -> NoReturn:
        """Refuse a table of which nothing is left, with the cells that are small."""
        blocks = [one.blocks() for one in table.axes]
        largest = table.largest(blocks)
        small = (largest < self.least) & (largest >= (self.enough == 1))
        cells = [
            " x ".join(one.labels[k] for one, k in zip(table.axes, place, strict=True))
            for place in np.argwhere(small).tolist()
        ]
        ways = [
            f"fewer cut points for {one.column}"
            if one.ordered
            else f"fewer levels of {one.column}"
            for one in table.axes
            if not (one.fixed or (one.alone and len(table.axes) > 1))
        ]
        free = (one for one in table.axes if one.alone or not one.ordered)
        ways += [f"leave out {one.column}" for one in free]
        # Ends of rows are asked about in any case.
        fixed = {f"leave out {one.column}" for one in table.axes if one.fixed}
        ways = [one for one in ways if one not in fixed]
        rows = f"{self.enough} rows or more"
        allowed = f"{how_rules_are_loosened(minimum_count=1)} asks for 1 row at each"
        if self.enough == 1:
            rows = "a row"
            allowed = f"{how_rules_are_loosened(site_terms=True)} allows it"
        instead = f"{', or '.join(ways)}; " if ways else ""
        raise DisclosureError(
            "site_terms" if self.enough == 1 else "minimum_count",
            f"fewer than {self.least} parties have {rows} in these {table.name}: "
            f"{listed_names(cells)}. Merged with others, they leave nothing to "
            f"compare: {instead}only if all parties want that, "
            f"{allowed}. Nothing but such counts of parties was shown",
            code="merging-leaves-nothing",
        )

    def held_by_several(
        self, table: CountedTable, merging: Merging, several: int, parties: int
    ) -> bool:
        """Say whether enough parties have rows in several blocks of a table.

        Args:
            table: the counts.
            merging: the blocks.
            several: the number of parties with enough rows in several cells, which
                says nothing once cells have merged.
            parties: the number of all parties: of those with enough rows in one block,
                and in another, so many at least are the same as both exceed it.
        """
        blocks = [merging.of(one.column, len(one.labels)) for one in table.axes]
        merged = any(one.column in merging.blocks for one in table.axes)
        if not merged and several >= self.least:
            return True
        held = sorted(table.largest(blocks).ravel().tolist())
        if len(held) < 2 or held[-2] < 1:
            return True
        pairs = combinations(held[-2:], 2)
        return any(sum(pair) - parties >= self.least for pair in pairs)
