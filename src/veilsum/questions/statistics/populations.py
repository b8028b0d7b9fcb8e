"""Rows that each variable of a table by group is described on: its own, or complete.

A variable's own rows are those that have it and a group. Two variables whose own rows
differ by one person give that person away: a column and its copy that lacks one person
more have sums that differ by that person's value, and their counts show that person's
group. So a first sum counts *parties*. For two variables u and v and a group, let a be
the number of parties with any row that has u and lacks v, and b the number of parties
with at least k of them (k is `minimum_count`). Without any t parties that collude, at
least (a - t) + (k - 1) (b - t) such rows are left. Both variables are described on
their own rows only if a is 0, or that number is at least k and two honest parties hold
such rows. Other variables are described on rows that are complete in all columns, to
which own rows are compared in the same way. All parties choose alike: nothing but the
counts of the first sum decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.numbers.arrays import Array
from veilsum.numbers.layout import NumberLayout, layout_array
from veilsum.numbers.units import Integers
from veilsum.sums.presence import (
    FURTHER_HOLDERS,
    PresenceGroup,
    places_with_rows,
    presence_group_shortfall,
    presence_sum_size,
)
from veilsum.sums.releases import SumReleaseLimit
from veilsum.tables.axes import TableAxis
from veilsum.tables.columns import Flags
from veilsum.tables.rules import Rules
from veilsum.tables.schema import CheckedTable

# Columns that a variable needs beside its group; a group's own size needs none.
Variable = tuple[str, ...]

FEW_ROWS = (
    "the rows in which this variable or another one is missing may belong to fewer "
    "than {} people, or to one party"
)
FEW_HOLDERS = "too few parties have rows for one of its levels, bins or values"
REFUSED = "a party's rules do not allow all rows that have it to be described"


@dataclass(frozen=True)
class CountDifferences:
    """The first request: where parties' own rows of two variables differ."""

    asked: str
    rules: Rules


@dataclass(frozen=True)
class RowChoice:
    """The rows of each variable.

    Attributes:
        reasons: for each other variable, why not.
    """

    own: frozenset[Variable]
    reasons: Mapping[Variable, str]


@dataclass(frozen=True)
class StatisticsPopulations:
    """Variables of a table by group, and the counts that choose their rows.

    Attributes:
        variables: in order, without repetition.
        groups: by place of its variable, levels, bins and values that few parties may
            hold.
    """

    variables: tuple[Variable, ...]
    by: TableAxis
    groups: tuple[tuple[int, PresenceGroup], ...]

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Two variables, the first of whose rows may lack the second.

        The last place stands for rows that are complete in all columns.
        """
        needs = [*map(frozenset, self.variables)]
        needs.append(frozenset().union(*needs))
        places = range(len(self.variables))
        return tuple(
            (u, v) for u in places for v, need in enumerate(needs) if need - needs[u]
        )

    def layout(self, rules: Rules | None) -> NumberLayout:
        pairs, groups = (len(self.pairs), self.by.size), self._asked(rules)
        return NumberLayout(
            (
                layout_array("differing_holders", pairs),
                layout_array("differing_enough", pairs),
                layout_array("holders", presence_sum_size(groups) - len(groups)),
                layout_array("holders_of_several", len(groups)),
                layout_array("refusing_holders", len(self.variables)),
            )
        )

    def _asked(self, rules: Rules | None) -> tuple[PresenceGroup, ...]:
        """Return groups whose holders are counted on own rows.

        A cell that is large among complete rows is large among more rows. Where a
        single row is enough (`minimum_count`), a cell without any complete row may
        have others at one party.
        """
        free = rules is not None and (rules.site_terms or rules.minimum_count > 1)
        return () if free else tuple(group for _, group in self.groups)

    # One party

    def rows(self, table: CheckedTable, variable: Variable) -> Flags:
        return table.present((*variable, self.by.column))

    def counts(
        self, request: CountDifferences, table: CheckedTable, refused: Sequence[bool]
    ) -> Integers:
        """Return one party's numbers of the first sum.

        Args:
            request: has the rules.
            table: of the party.
            refused: for each variable, whether the party refuses its own rows.
        """
        k = max(1, request.rules.minimum_count)
        lacking = self._lacking(table)
        asked = [
            places_with_rows(
                [group], _PopulationColumns(self, table, self.variables[place])
            )
            for place, group in (self.groups if self._asked(request.rules) else ())
        ]
        return self.layout(request.rules).pack(
            differing_holders=(lacking > 0).astype(np.int64),
            differing_enough=(lacking >= k).astype(np.int64),
            holders=np.concatenate([np.empty(0, object), *(one[:-1] for one in asked)]),
            holders_of_several=[one[-1] for one in asked],
            refusing_holders=[int(one) for one in refused],
        )

    def _lacking(self, table: CheckedTable) -> Array[Any]:
        """Return rows that have one variable and lack another, by pair and group."""
        found = np.zeros((len(self.pairs), self.by.size), dtype=np.int64)
        if not table.n_gapped:
            return found
        known = table.present((self.by.column,))
        places = self.by.places(table.whole(self.by.column)[known])
        complete = np.arange(len(known)) < table.n_rows
        own = [*(self.rows(table, one) for one in self.variables), complete]
        flags = np.stack(own, axis=1)[known]
        for place in range(self.by.size):
            part = flags[places == place].astype(np.float64)
            both = part.T @ (1.0 - part)
            found[:, place] = [both[pair] for pair in self.pairs]
        return found

    # Everybody

    def choose(self, total: Array[Any], limit: SumReleaseLimit) -> RowChoice:
        """Return the rows of each variable, from the first sum."""
        rules = limit.rules or Rules()
        parts = self.layout(rules).unpack(total)
        n_any = parts["differing_holders"].astype(np.int64)
        n_enough = parts["differing_enough"].astype(np.int64)
        # Each party is curious by itself. A rule that is switched off asks for nothing.
        t, k = max(limit.tolerate, 1), rules.minimum_count * (rules.minimum_count > 1)
        # Rows that are left without the coalition, at least.
        left = np.maximum(n_any - t, 0) + max(k - 1, 0) * np.maximum(n_enough - t, 0)
        holders = 0 if rules.site_terms else t + FURTHER_HOLDERS
        apart = ((n_any > 0) & ((n_any < holders) | (left < k))).any(axis=1)
        reasons: dict[int, str] = {}
        start = 0
        several = parts["holders_of_several"].tolist()
        for n, group in enumerate(self._asked(rules)):
            end = start + len(group.places)
            if presence_group_shortfall(
                group, parts["holders"][start:end], several[n], holders
            ):
                reasons[self.groups[n][0]] = FEW_HOLDERS
            start = end
        flags = parts["refusing_holders"]
        reasons |= {n: REFUSED for n in range(len(self.variables)) if flags[n]}
        close = [pair for pair, short in zip(self.pairs, apart, strict=True) if short]
        for place in self._moved(close, reasons.keys()):
            reasons[place] = FEW_ROWS.format(rules.minimum_count)
        names = self.variables
        return RowChoice(
            frozenset(one for k, one in enumerate(names) if k not in reasons),
            {names[k]: why for k, why in sorted(reasons.items())},
        )

    def _moved(self, close: Sequence[tuple[int, int]], gone: Any) -> frozenset[int]:
        """Return variables that leave their own rows so that no two are too close.

        The variable that is close to most others goes first, of several the last.
        """
        complete, moved = len(self.variables), set(gone)
        while True:
            near = dict.fromkeys(range(complete), 0)
            for u, v in close:
                # Nobody is on complete rows until the first variable is.
                if not {u, v} & moved and (moved or v != complete):
                    for place in {u, v} - {complete}:
                        near[place] += 1
            most = max(near.values())
            if not most:
                return frozenset(moved.difference(gone))
            moved.add(max(k for k, n in near.items() if n == most))


@dataclass(frozen=True)
class _PopulationColumns:
    """Columns of one party's table, on the own rows of a variable."""

    populations: StatisticsPopulations
    table: CheckedTable
    variable: Variable

    def __call__(self, column: str) -> Array[Any]:
        rows = self.populations.rows(self.table, self.variable)
        return self.table.whole(column)[rows]
