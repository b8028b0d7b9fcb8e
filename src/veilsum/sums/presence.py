"""First sum, over holders of places: no later sum may be about one party alone.

A level of a category that one party has, a cell of a table, or a column that identifies
the party of a row turns a sum over all parties into one over a few. No party can detect
that in its own table. So a first sum counts the *parties* that hold each place: a
level, a cell or a bin, or one of a column's few values. A place must have no holder, or
at least `tolerate + 2` of them (three without `tolerate`), so that two are honest
against any coalition. As many must hold several places of each group. Otherwise all
parties end the run, and these counts are all that was released.

Tables of counts merge their small cells instead (`veilsum.disclosure.merging`). For
them the first sum counts the parties with at least `minimum_count` rows in a cell. A
person alone in a cell is in no such count, and one person changes a count only as the
last one that a party needs. So parties with fewer rows in a cell need not refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from veilsum.disclosure.merging import (
    CountedTable,
    MergeAxis,
    MergedRequest,
    Merging,
    SmallCellRule,
    merge_released_numbers,
    merged_layout,
)
from veilsum.models.plausible import check_plausible_total
from veilsum.models.tallies import CrossTable
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.layout import NumberLayout, RowRange, layout_array
from veilsum.numbers.units import Integers, UnitCounts, UnitMeasure
from veilsum.privacy.guarantee import Guarantee
from veilsum.sums.recipes import (
    LEAST_ROUNDS,
    GuardedRecipe,
    SumContribution,
    SumRecipe,
    Sums,
)
from veilsum.sums.releases import (
    BY_ROW,
    SCREENED,
    PossibleRound,
    SumRelease,
    SumReleaseLimit,
    with_releases,
)
from veilsum.tables.axes import TableAxis, rows_per_cell
from veilsum.tables.rules import DisclosureError, how_rules_are_loosened

# What is asked for: the groups follow from the agreement.
PRESENCE = "presence"
# Whoever colludes, two honest parties are left among those who hold a place.
FURTHER_HOLDERS = 2
# A column with so many values at most says as much of a row as a category would.
FEW_VALUES = 5
# How one party finds a column: of its table by name, of its design by place.
Look: TypeAlias = Callable[[Any], Array[Any]]


class PresenceGroup(Protocol):
    """Places of which each row has one."""

    @property
    def name(self) -> str:
        """Description of the places, such as "levels of sex"."""
        ...

    @property
    def places(self) -> tuple[str, ...]:
        """Name of each place."""
        ...

    def count(self, look: Look) -> Array[Any]:
        """Return how many of one party's rows are in each of them."""
        ...


@dataclass(frozen=True)
class PresenceCells:
    """Levels of a category, or of several that are crossed."""

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        kind = "levels" if len(self.columns) == 1 else "cells"
        return f"{kind} of {' x '.join(self.columns)}"

    @property
    def places(self) -> tuple[str, ...]:
        """The levels' names, the last one changing fastest."""
        return tuple(" x ".join(one) for one in product(*self.levels))

    def count(self, look: Look) -> Array[Any]:
        codes = np.stack([look(name) for name in self.columns], axis=1)
        return CrossTable(tuple(map(len, self.levels))).tally(codes)


@dataclass(frozen=True)
class PresenceValues:
    """The few values that agreed numbers leave a column, such as 0 and 1.

    Attributes:
        at: where it is found: a column of the table by its name, one of the design by
            its place, or one beside it.
    """

    column: str
    measure: UnitMeasure
    at: str | int | tuple[str, int]

    @property
    def name(self) -> str:
        return f"values of {self.column}"

    @property
    def places(self) -> tuple[str, ...]:
        counts = range(self.measure.least, self.measure.most + 1)
        return tuple(f"{float(one * self.measure.unit):g}" for one in counts)

    def count(self, look: Look) -> Array[Any]:
        places = self.measure.counts(look(self.at)) - self.measure.least
        return np.bincount(places.astype(np.int64), minlength=len(self.places))


@dataclass(frozen=True)
class PresenceCrossedCells:
    """The places of an axis of a table, or the cells of several that are crossed.

    Attributes:
        merge_axes: by which small cells merge; empty if they do not.
    """

    axes: tuple[TableAxis, ...]
    merge_axes: tuple[MergeAxis, ...] = ()

    @property
    def name(self) -> str:
        kind = self.axes[0].kind if len(self.axes) == 1 else "cells"
        return f"{kind} of {' x '.join(one.column for one in self.axes)}"

    @property
    def places(self) -> tuple[str, ...]:
        """Each cell by its levels, values and bins, the last one changing fastest."""
        return tuple(" x ".join(one) for one in product(*(a.labels for a in self.axes)))

    def count(self, look: Look) -> Array[Any]:
        return rows_per_cell(self.axes, [look(one.column) for one in self.axes])


@dataclass(frozen=True)
class PresenceLackingRows:
    """The groups of rows that lack a column."""

    column: str
    by: TableAxis

    @property
    def name(self) -> str:
        return f"groups of {self.by.column} in which {self.column} is missing"

    @property
    def places(self) -> tuple[str, ...]:
        return self.by.labels

    def count(self, look: Look) -> Array[Any]:
        return np.asarray(look(self))


@dataclass(frozen=True)
class PresenceVaryingColumns:
    """Parties in which every column varies, where rows are compared within parties.

    A party in which a number or a category is constant adds 0 to all sums with it, and
    two columns that are constant at different parties may leave the sum of their
    products to one. So parties are counted in which all numbers and categories vary;
    and, of these, parties in which rows differ in each level, cell and value. Together
    these parties pass all rules by themselves, and others only add to their sums.

    Attributes:
        groups: the levels, cells and values of columns in the design.
        least: the least number of honest parties in which every column varies.
        rows: the rows that are compared, in words.
    """

    groups: tuple[PresenceGroup, ...]
    least: int = 0
    rows: str = "rows"

    @property
    def name(self) -> str:
        return "columns in which rows of a party differ"

    @property
    def places(self) -> tuple[str, ...]:
        """All columns together, and each level, cell and value."""
        each = (
            f"{place} of the {one.name}" for one in self.groups for place in one.places
        )
        return ("all columns", *each)

    def count(self, look: Look) -> Array[Any]:
        """Count rows if all columns vary, and those on the smaller side of each place.

        A column of 0 and 1, or a category of two levels, may be constant.
        """
        return np.asarray(look(self))

    def sides(self, look: Look, n_rows: int) -> Array[Any]:
        """Return all these counts for a party in which all columns vary."""
        counts = [one.count(look) for one in self.groups]
        having = np.concatenate([np.zeros(0, dtype=np.int64), *counts])
        return np.append(n_rows, np.minimum(having, n_rows - having))


def has_few_values(measure: UnitMeasure) -> bool:
    """Say whether agreed numbers leave a column few values: its powers are levels."""
    return 1 <= measure.most - measure.least < FEW_VALUES


def merge_axes_of(group: PresenceGroup) -> tuple[MergeAxis, ...]:
    """Return the axes of a group whose small places merge; empty for other groups."""
    return getattr(group, "merge_axes", ())


def key_of_counts(group: PresenceGroup) -> str:
    """Return the key of a group's counts of parties in the first sum."""
    if isinstance(group, PresenceVaryingColumns):
        return "varying"
    return "holders_of_enough" if merge_axes_of(group) else "holders"


# Keys of counts of parties, in the order in which they travel.
COUNTS = ("holders", "holders_of_enough", "varying")


def places_with_rows(
    groups: Sequence[PresenceGroup], look: Look, enough: int = 1
) -> Integers:
    """Return one party's first vector: for each place whether it has rows there.

    And then for each group whether it has rows in several of its places.

    Args:
        groups: in the order in which they travel.
        look: finds a column.
        enough: the number of rows that count where small places merge; 1 elsewhere.
    """
    flags = [one.count(look) >= (enough if merge_axes_of(one) else 1) for one in groups]
    several = [np.count_nonzero(one) > 1 for one in flags]
    return np.concatenate([*flags, several]).astype(np.int64).astype(object)


def presence_group_shortfall(
    group: PresenceGroup, holders: Sequence[int], several: int, least: int
) -> str | None:
    """Return which place of a group too few parties hold, in words; None if none.

    Args:
        group: the places.
        holders: for each place, the number of parties with rows there.
        several: the number of parties with rows in several places.
        least: the fewest parties that hold a place, unless none does.
    """
    for place, number in zip(group.places, holders, strict=True):
        if 0 < number < least:
            return f"of the {group.name}, {place} is held by {number}"
    if several < least and sum(one > 0 for one in holders) > 1:
        return f"{several} parties hold several of the {group.name}"
    return None


@dataclass(frozen=True, eq=False)
class PresenceScreenedRecipe(SumRecipe):
    """A recipe that begins when it is known that every place has enough holders.

    Attributes:
        inner: what is done then; it never sees the first sum.
        groups: what is asked for first, in the order of `COUNTS`.
        least: the fewest parties that hold a place, but for none.
        enough: the number of rows that a party has in a place that it counts, where
            small places merge.
        parties: the number of all parties.
        targets: returns, for blocks, the place of each number's total in a sum.
    """

    inner: Any
    groups: tuple[PresenceGroup, ...]
    least: int
    enough: int = 1
    parties: int = 0
    targets: Callable[[Merging], Array[Any]] | None = None

    @cached_property
    def counts(self) -> UnitCounts:
        """Counts of the sums after the first one, padded to its length."""
        found: UnitCounts = self.inner.counts
        more = max(0, presence_sum_size(self.groups) - len(found.units))
        return replace(found, units=(*found.units, *(Fraction(1),) * more))

    @cached_property
    def first(self) -> NumberLayout:
        """The first sum: parties with rows in each place, and in several places.

        Counts of parties in which columns vary come last of these groups.
        """
        sizes = dict.fromkeys(COUNTS, 0)
        for group in self.groups:
            sizes[key_of_counts(group)] += len(group.places)
        sizes["holders_of_several"] = len(self.groups)
        counted = RowRange(0, 1, most=self.parties or None)
        return NumberLayout(
            tuple(layout_array(key, n, row_range=counted) for key, n in sizes.items())
        )

    @property
    def objects(self) -> bool:  # type: ignore[override]
        """Whether a party can object to a sum."""
        return bool(self.inner.objects)

    @property
    def accepted_bits(self) -> int:
        """Bits of the numbers of parties that accept, their sign included."""
        return int(self.inner.accepted_bits)

    @property
    def size(self) -> int:
        """The longer of the two, so that all sums have one length."""
        return len(self.counts.units)

    @property
    def answer_size(self) -> int:
        return int(self.inner.answer_size)

    @property
    def most_numbers(self) -> int:
        return presence_sum_size(self.groups) + int(self.inner.most_numbers)

    @property
    def limit(self) -> SumReleaseLimit | None:
        """Release limit, which includes the numbers of the first sum."""
        return self.inner.limit

    @property
    def most_rounds(self) -> int:
        return 1 + int(self.inner.most_rounds)

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """Counts of parties first, then what the recipe inside shows."""
        found = self.release(())
        first = PossibleRound("holders", found.statistics, layout=found.layout)
        return (first, *self.inner.foreseen)

    def within(self, sums: Sums) -> Sums:
        """Return the sums as the recipe inside has them."""
        return [one[: self.inner.size] for one in sums[1:]]

    def shifted(self, vector: Integers, sums: Sums) -> Integers:
        """Return a party's numbers so that the next sum releases residues only."""
        return self.inner.shifted(vector, self.within(sums)) if sums else vector

    def check_sum(self, sums: Sums) -> None:
        """Refuse counts of parties, or a later sum, that are impossible."""
        if len(sums) > 1:
            self.inner.check_sum(self.within(sums))
            return
        limit = self.limit
        if limit is None or limit.parties is None:
            return
        for number in sums[0][: presence_sum_size(self.groups)].tolist():
            check_plausible_total(
                "parties that hold a place", int(number), 0, limit.parties
            )

    def request(self, sums: Sums) -> Any | None:
        """Ask who holds what, then go on if nobody stands alone."""
        if not sums:
            self.inner.request(())  # what must not start asks nobody anything
            return PRESENCE
        self.check(sums[0])
        inner = self.within(sums)
        request = self.inner.request(inner)
        if request is None:
            return None
        self._check_room(sums[0], len(inner))
        merging = self.merging(sums)
        if merging and self.inner.merges(inner):
            return MergedRequest(request, merging.blocks)
        return request

    @property
    def _small(self) -> SmallCellRule:
        return SmallCellRule(self.least, self.enough)

    def _tables(self, total: Array[Any]) -> list[tuple[CountedTable, int]]:
        """Return tables whose small cells merge, and the holders of several cells."""
        found = []
        for group, holders, several in self._counted(total):
            if axes := merge_axes_of(group):
                shape = tuple(len(one.labels) for one in axes)
                counts = np.array(holders, dtype=np.int64).reshape(shape)
                found.append((CountedTable(group.name, axes, counts), several))
        return found

    def merging(self, sums: Sums) -> Merging:
        """Return the blocks that follow from the first sum; none before it.

        Raises:
            DisclosureError: nothing would be left of a table.
        """
        if not sums:
            return Merging()
        return self._small.merge([table for table, _ in self._tables(sums[0])])

    def merged(self, values: Array[Any], merging: Merging) -> Array[Any]:
        """Return one party's numbers, each block's total in the place of its first."""
        assert self.targets is not None
        return merge_released_numbers(values, self.targets(merging))

    def _counted(self, total: Array[Any]) -> list[tuple[PresenceGroup, list[int], int]]:
        """Return each group, the holders of its places, and of several of these."""
        parts = self.first.unpack(total[: self.first.size])
        start, found = 0, [int(one) for key in COUNTS for one in parts[key]]
        counted = list[tuple[PresenceGroup, list[int], int]]()
        for group, several in zip(
            self.groups, map(int, parts["holders_of_several"]), strict=True
        ):
            holders = found[start : start + len(group.places)]
            counted.append((group, holders, several))
            start += len(group.places)
        return counted

    def check(self, total: Array[Any]) -> None:
        """Refuse a place that too few parties hold; everybody sees the same counts."""
        counted, merging = self._counted(total), self.merging([total])
        for table, several in self._tables(total):
            if not self._small.held_by_several(table, merging, several, self.parties):
                self._refuse(
                    f"{several} parties have {self.enough} rows or more in several of "
                    f"the {table.name}"
                )
        for group, holders, several in counted:
            if merge_axes_of(group):
                continue
            if isinstance(group, PresenceVaryingColumns):
                mine = [each for one, each, _ in counted if one in group.groups]
                self._check_varying(group, holders, [n for each in mine for n in each])
            elif short := presence_group_shortfall(group, holders, several, self.least):
                self._refuse(short)

    def _check_varying(
        self,
        group: PresenceVaryingColumns,
        varying: Sequence[int],
        holders: Sequence[int],
    ) -> None:
        """Refuse sums with a column that are about few parties.

        Args:
            group: what was counted.
            varying: the parties in which all columns vary, then for each place those of
                them whose rows differ in it.
            holders: the parties with rows in each place.
        """
        everywhere, *places = varying
        who = f"the number of parties whose {group.rows} differ in every number and "
        who += "category"
        least = max(self.least, group.least)
        if everywhere < least:
            self._refuse_few(
                f"{who} is {everywhere}, and must be at least {least}",
                "leave out columns",
            )
        for place, number, any_rows in zip(
            group.places[1:], places, holders, strict=True
        ):
            if any_rows and number < self.least:
                self._refuse_few(
                    f"{who}, and in {place}, is {number}, and must be at least "
                    f"{self.least}",
                    "merge levels, leave that column out, or leave out others",
                )

    def _refuse_few(self, found: str, way_out: str) -> NoReturn:
        raise DisclosureError(
            "site_terms",
            f"{found}, so that no sum is about a few parties: {way_out} that are "
            "constant at some parties, or allow it openly with "
            f"{how_rules_are_loosened(site_terms=True)}. Nothing but such counts of "
            "parties was shown",
            code="tells-parties-apart",
            changes={"site_terms": True},
        )

    def _check_room(self, total: Array[Any], taken: int) -> None:
        """Refuse another sum if rows of parties in which all columns vary are too few.

        Sums with a column may be about these rows alone.
        """
        limit = self.limit
        inner = (
            self.inner.inner if isinstance(self.inner, GuardedRecipe) else self.inner
        )
        for group, holders, _ in self._counted(total):
            if not isinstance(group, PresenceVaryingColumns) or limit is None:
                continue
            few = replace(limit, honest=min(limit.honest, holders[0] - limit.tolerate))
            rounds = max(taken + 1, min(LEAST_ROUNDS, int(inner.most_rounds)))
            try:
                few.check(inner.size, rounds)
            except DisclosureError as error:
                raise DisclosureError(
                    error.rule,
                    f"the number of parties whose {group.rows} differ in every number "
                    f"and category is {holders[0]}, and sums may be about these "
                    "parties alone: leave out columns that are constant at some "
                    f"parties. Otherwise {error}",
                    code="differing-parties",
                    changes=error.changes,
                    rows=error.rows,
                ) from None

    def _refuse(self, found: str) -> None:
        raise DisclosureError(
            "site_terms",
            f"{found}, and at least {self.least} parties must, so that no sum is about "
            "a few of them: merge levels or bins, leave the column out, or "
            f"allow it openly with {how_rules_are_loosened(site_terms=True)}. Nothing "
            "but such "
            "counts of parties was shown",
            code="tells-parties-apart",
            changes={"site_terms": True},
        )

    def answer(self, sums: Sums) -> Vector:
        return self.inner.answer(self.within(sums))

    def release(self, sums: Sums) -> SumRelease:
        if sums:
            found: SumRelease = self.inner.release(self.within(sums))
            merging = self.merging(sums)
            if merging and found.layout and self.inner.merges(self.within(sums)):
                assert self.targets is not None
                layout = merged_layout(found.layout, self.targets(merging))
                found = replace(found, layout=layout)
            return found
        job = f"who holds what: {self.inner.release(()).job}"
        return SumRelease.from_layout(job, self.first)

    def stated(self, promise: Guarantee, releases: Sequence[SumRelease]) -> Guarantee:
        """Return what holds; the first sum counts parties, not rows."""
        # Of what each party makes of all its rows, less holds than of rows anyway.
        wording = SCREENED if self.inner.wording is BY_ROW else self.inner.wording
        return with_releases(promise, releases, whole=True, wording=wording)

    def merged_answer(
        self, request: Any, answer: Callable[[Any], Array[Any]]
    ) -> Array[Any]:
        """Return the answer to a request, small places counted together if it asks."""
        if not isinstance(request, MergedRequest):
            return answer(request)
        return self.merged(answer(request.asked), Merging(request.blocks))

    def contribution(self, own: SumContribution, holds: Integers) -> SumContribution:
        def answer(request: Any) -> Array[Any]:
            if request == PRESENCE:
                found = holds
            else:
                found = self.merged_answer(request, own.answer)
            return np.concatenate([found, np.zeros(self.size - len(found), object)])

        return replace(own, answer=answer)


def presence_screened_recipe(
    inner: Any,
    groups: Sequence[PresenceGroup],
    tolerate: int = 0,
    *,
    enough: int = 1,
    parties: int = 0,
    targets: Callable[[Merging], Array[Any]] | None = None,
) -> Any:
    """Return the recipe, behind a first sum if there are groups to ask about.

    Args:
        inner: the recipe.
        groups: to ask about.
        tolerate: the number of parties that may collude.
        enough: see `PresenceScreenedRecipe`.
        parties: see `PresenceScreenedRecipe`.
        targets: see `PresenceScreenedRecipe`.
    """
    if not groups:
        return inner
    if isinstance(inner, GuardedRecipe):
        inner = replace(inner, before=1)
    asked = tuple(
        replace(one, least=one.least + tolerate)
        if isinstance(one, PresenceVaryingColumns)
        else one
        for one in sorted(groups, key=lambda one: COUNTS.index(key_of_counts(one)))
    )
    # Where nobody is said to collude, each party is still curious by itself.
    least = max(tolerate, 1) + FURTHER_HOLDERS
    return PresenceScreenedRecipe(inner, asked, least, max(1, enough), parties, targets)


def contribution_to_recipe(
    recipe: Any, own: SumContribution, look: Look
) -> SumContribution:
    """Return how one party answers a recipe, be it behind a first sum or not."""
    if not isinstance(recipe, PresenceScreenedRecipe):
        return own
    return recipe.contribution(
        own, places_with_rows(recipe.groups, look, recipe.enough)
    )


def presence_sum_size(groups: Sequence[PresenceGroup]) -> int:
    return sum(len(one.places) + 1 for one in groups)


def presence_merged_names(
    groups: Sequence[PresenceGroup], merging: Merging
) -> dict[str, Any]:
    """Return, by column, the names of the places that were counted together."""
    axes = {one.column: one for group in groups for one in merge_axes_of(group)}
    return {
        name: [[axes[name].labels[place] for place in one] for one in own if one[1:]]
        for name, own in merging.blocks.items()
    }


def presence_merged_lines(
    groups: Sequence[PresenceGroup], merging: Merging
) -> list[str]:
    """Return a sentence for each column of which places were counted together."""
    return [
        f"Too small to be shown by themselves, and counted together: {name} "
        + "; ".join(" and ".join(block) for block in blocks)
        + "."
        for name, blocks in presence_merged_names(groups, merging).items()
    ]
