"""Influence of one party's rows on the sums of a question.

It is computed from a party's own rows, for the owner of these rows, and never leaves:
nothing here is part of a request, a plan, a receipt or the result of real parties.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Protocol

import numpy as np

from veilsum.disclosure.influence import Influence, influence_attack_success
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.locale import catalogue, number_with_language_signs
from veilsum.models.leverage import LeverageColumns
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Array, FloatArray, Vector, sum_of_squares
from veilsum.numbers.secrets import Secret
from veilsum.tables.schema import CheckedTable

# Rows of a large table that are looked at: at least, for each number of a sum, and at
# most, of whom so many are those that stand out most.
FEWEST_LOOKED_AT, ROWS_PER_NUMBER = 400, 4
MOST_LOOKED_AT, MOST_STANDING_OUT = 2000, 1000
# Levels of a category that are looked at together with other columns.
MOST_LEVELS = 20
# Sums are looked at together as far as (rows + numbers) x numbers is not more, and not
# at all where one has more: linear algebra takes too long.
MOST_CHANGES = 4_000_000
# Rows times numbers of a sum that are worked out at once, and at most.
AT_ONCE, MOST_CONTRIBUTIONS = 1_500_000, 20_000_000


class PricedSumJob(Protocol):
    """A question to tables whose sums are known row by row."""

    def recipe(self) -> Any:
        """Return what parties do."""

    def bring(self, table: CheckedTable) -> Any:
        """Return what a checked table comes to."""

    def contributions(self, own: Any, request: Any) -> FloatArray | None:
        """Return each row's part of a sum, in units; None if it is not known."""


@dataclass(frozen=True, repr=False)
class OwnInfluence(Secret):
    """Influence of one party's rows on everything released; for its owner only.

    Attributes:
        by_column: largest influence of one person, by the column that is not known.
        covered: number of sums that were looked at.
        sums: number of all sums.
        passed_over: columns of which too many numbers change.
    """

    by_column: Mapping[str, float]
    covered: int
    sums: int
    passed_over: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest influence of one person, by any column."""
        return max(self.by_column.values(), default=0.0)

    def line(self, language: str = "en") -> str:
        """Return the largest influence in words."""
        words = catalogue(language)["price"]
        if not self.covered or not self.by_column:
            return str(words["no_influence"])
        column = max(self.by_column, key=lambda name: self.by_column[name])
        line = words["influence"].format(
            influence=number_with_language_signs(f"{self.largest:.2f}", language),
            column=column,
            percent=number_with_language_signs(
                f"{100 * influence_attack_success(self.largest):.1f}", language
            ),
        )
        if self.covered < self.sums:
            line += words["part"].format(covered=self.covered, sums=self.sums)
        return str(line)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, for the owner of the rows."""
        return {
            "largest": self.largest,
            "success": influence_attack_success(self.largest),
            "by_column": dict(self.by_column),
            "covered": self.covered,
            "sums": self.sums,
        }


def own_influence_on_sums(asked: Sequence[AskedTable], rows: int) -> OwnInfluence:
    """Return the influence of a party's rows on all sums of one or several questions.

    Args:
        asked: questions, each with this party's table and the requests of its sums.
            Tables have the same rows in the same order.
        rows: number of pooled rows, each of which is rounded by itself.

    Raises:
        InvalidInputError: tables have different numbers of rows.
    """
    if len({one.table.n_rows for one in asked}) > 1:
        raise InvalidInputError(
            "influence needs the same rows in all questions", code="different-rows"
        )
    by_column, covered = dict[str, _InfluenceByColumn](), set[tuple[int, int]]()
    for place, one in enumerate(asked):
        for number, name, changes, variance in one.changes():
            found = by_column.setdefault(name, _InfluenceByColumn(rows, one.copies))
            if found.add(changes, variance):
                covered.add((place, number))
    sums = sum(len(one.requests) for one in asked)
    largest = {k: one.largest for k, one in by_column.items() if one.largest >= 0.0}
    passed_over = tuple(name for name in by_column if name not in largest)
    return OwnInfluence(largest, len(covered), sums, passed_over)


@dataclass(frozen=True, eq=False, repr=False)
class AskedTable(Secret):
    """A question, one party's table, and the requests of all its sums.

    Attributes:
        copies: of each row, how many rows it stands for; None for one.
        merged: places of a sum that are not looked at: small cells merge there.
        known: columns that are not looked at.
    """

    job: PricedSumJob
    table: CheckedTable
    requests: Sequence[Any]
    copies: Vector | None = None
    merged: Sequence[int] = ()
    known: Collection[str] = ()

    def changes(self) -> Iterator[tuple[int, str, FloatArray, float]]:
        """Yield the place of a sum, a column, and the sum's change per unit of it.

        With them comes the variance of the column. A sum of which rows' contributions
        are not known has none.
        """
        values = {
            name: found
            for name in self.table.schema.names
            if name not in self.known
            and (found := _OtherValues.of(self.table, name)) is not None
        }
        names, size = [*values], self.table.n_rows * self.job.recipe().size
        if size > MOST_CONTRIBUTIONS:
            return
        step = max(1, AT_ONCE // max(1, size))
        for start in range(0, len(names), step):
            few = {name: values[name] for name in names[start : start + step]}
            yield from self._changes(few)

    def _changes(
        self, values: Mapping[str, _OtherValues]
    ) -> Iterator[tuple[int, str, FloatArray, float]]:
        near = {name: one.near for name, one in values.items()}
        agreed = {name: one.agreed for name, one in values.items()}
        for others, is_last in ((near, False), (agreed, len(values) == 1)):
            try:
                found = [*self._changed(values, others)]
            except (InvalidInputError, NumericalError, ValueError, IndexError):
                if is_last:  # a column that cannot be looked at is not passed over
                    raise
                continue  # one of the columns goes beyond what the question allows
            for place, name, changes in found:
                one = values[name]
                if not one.levels:
                    changes /= (others[name] - one.own)[:, None]
                yield place, name, changes, one.variance
            return
        for name, one in values.items():
            yield from self._changes({name: one})

    def _changed(
        self,
        values: Mapping[str, _OtherValues],
        others: Mapping[str, Array[Any]],
    ) -> Iterator[tuple[int, str, FloatArray]]:
        """Yield the changes of sums that change at all.

        They come from a table that has each row once for each column.
        """
        n, columns = self.table.n_rows, dict[str, Array[Any]]()
        for k, (name, other) in enumerate(others.items(), start=1):
            columns[name] = np.tile(values[name].own, 1 + len(others))
            columns[name][k * n : (k + 1) * n] = other
        rows = np.tile(np.arange(n), 1 + len(others))
        own = self.job.bring(table_with_values(self.table.only(rows), columns))
        for place, request in enumerate(self.requests):
            found = self.job.contributions(own, request)
            if found is None:
                continue
            blocks = found.reshape(1 + len(others), n, -1)
            blocks[:, :, [*self.merged]] = 0.0
            for k, name in enumerate(others, start=1):
                used = (blocks[k] != blocks[0]).any(axis=0)
                yield place, name, blocks[k][:, used] - blocks[0][:, used]


@dataclass(frozen=True, eq=False, repr=False)
class _OtherValues(Secret):
    """Values of a column, and others that rows might have had.

    Attributes:
        own: values, or codes of levels.
        near: one standard deviation more: a square changes there as it does nearby,
            and that may be beyond the agreed range. The other of two numbers; the most
            frequent other level.
        agreed: the same, or one standard deviation less, within the agreed range.
        variance: of the column.
    """

    own: Array[Any]
    near: Array[Any]
    agreed: Array[Any]
    variance: float
    levels: bool = False

    @classmethod
    def of(cls, table: CheckedTable, name: str) -> _OtherValues | None:
        """Return other values of a column; None for a column with one value."""
        column, values = table.schema.column(name), table.look(name)
        if column.is_category:
            if len(column.categories) < 2:
                return None
            often = np.argsort(-np.bincount(values, minlength=2), kind="stable")
            other = np.where(values == often[0], often[1], often[0])
            return cls(values, other, other, 0.25, levels=True)
        least, most = float(values.min()), float(values.max())
        if column.has_range:
            least, most = column.measure.low, column.measure.high
        deviation = float(values.std())
        if column.is_measured and column.measure.most - column.measure.least == 1:
            other = np.where(values > least, least, most)
            variance = max(deviation**2, 1e-12 * (most - least) ** 2)
            return cls(values, other, other, variance)
        if not deviation > 0.0:
            return None
        near, below = values + deviation, np.maximum(values - deviation, least)
        agreed = np.where(near > most, below, near)
        return cls(values, near, agreed, deviation**2)


@dataclass(eq=False, repr=False)
class _InfluenceByColumn(Secret):
    """The largest influence by one column, on sums that are added one by one."""

    rows: int
    copies: Vector | None
    largest: float = -1.0
    _together: Influence | None = None

    def add(self, changes: FloatArray, variance: float) -> bool:
        """Add a sum; say whether its numbers are not too many."""
        n, numbers = changes.shape
        if (n + numbers) * numbers > MOST_CHANGES or self._too_few(n, numbers):
            return False
        if self.copies is not None:
            changes = changes * np.sqrt(self.copies)[:, None]
        before = self._together or Influence(n, variance)
        together = before.n_numbers + numbers
        if self._too_few(n, together) or (n + together) * together > MOST_CHANGES:
            before = Influence(n, variance)
        found = before.adding(changes, np.ones(numbers), self.rows)
        each = found.values if self.copies is None else found.values / self.copies
        self.largest = max(float(each.max()), self.largest)
        self._together = found
        return True

    def _too_few(self, rows: int, numbers: int) -> bool:
        """Say whether rows that stand for others would stand out among so few."""
        return self.copies is not None and rows < ROWS_PER_NUMBER * numbers


@dataclass(frozen=True, eq=False, repr=False)
class LookedAtRows(Secret):
    """Rows of one party that may be looked at for their influence.

    Attributes:
        table: the rows that stand out most, the first of them first, and of a large
            table others spread over the rest.
        n_rows: of the whole table.
    """

    table: CheckedTable
    n_rows: int

    @classmethod
    def of(cls, table: CheckedTable) -> LookedAtRows:
        """Return rows that stand out in a column, or in several together."""
        if table.n_rows <= FEWEST_LOOKED_AT:
            return cls(table, table.n_rows)
        n, scores = table.n_rows, _standing_out(table)
        most = min(n, MOST_STANDING_OUT) - 1
        is_near = np.zeros(n, np.bool_)
        for one in scores:
            is_near[np.argpartition(-one, most)[: most + 1]] = True
        near = np.flatnonzero(is_near)
        # By the better of two places.
        places = [np.argsort(np.argsort(-one[near])) for one in scores]
        order = near[np.argsort(np.minimum(*places), kind="stable")][: most + 1]
        is_rest = np.ones(n, np.bool_)
        is_rest[order] = False
        rest = np.flatnonzero(is_rest)
        n_spread = min(len(rest), MOST_LOOKED_AT - len(order))
        spread = rest[np.linspace(0, len(rest) - 1, n_spread).astype(np.intp)]
        order = np.concatenate([order, spread])
        return cls(table.only(order), table.n_rows)

    def some(self, most: int) -> tuple[CheckedTable, Vector | None]:
        """Return up to so many rows; and of each how many it stands for, if not one."""
        if self.n_rows <= most:
            return self.table, None
        kept, top = self.table.n_rows, most // 2
        ordered = kept if kept == self.n_rows else MOST_STANDING_OUT
        near = round((most - top) * (ordered - top) / (self.n_rows - top))
        chosen = np.concatenate(
            [
                np.arange(top),
                np.linspace(top, ordered - 1, near).astype(np.intp),
                np.linspace(ordered, kept - 1, most - top - near).astype(np.intp),
            ]
        )
        copies = np.repeat([1.0, (self.n_rows - top) / (most - top)], [top, most - top])
        return self.table.only(chosen), copies


def _standing_out(table: CheckedTable) -> tuple[Vector, Vector]:
    """Return by how much rows stand out in any column, and in columns together."""
    schema, score = table.schema, np.zeros(table.n_rows)
    levels = {
        one.name: range(1, min(len(one.categories), MOST_LEVELS))
        for one in schema.columns
        if one.is_category
    }
    n_numbers = len(schema.names) - len(levels)
    n_columns = 1 + n_numbers + sum(map(len, levels.values()))
    design, k = np.ones((table.n_rows, n_columns), order="F"), 1
    for name in schema.names:
        values = table.look(name)
        if name in levels:
            share = np.bincount(values, minlength=1)[values] / table.n_rows
            apart = 1.0 / np.sqrt(share)
            for level in levels[name]:
                design[:, k] = values == level
                k += 1
        else:
            centred = design[:, k]
            np.subtract(values, values.mean(), out=centred)
            apart = np.abs(centred)
            apart /= sqrt(sum_of_squares(centred) / len(centred)) or 1.0
            k += 1
        np.maximum(score, apart, out=score)
    rows = Rows(design, score)
    return score, LeverageColumns(rows, intercept=0).by_row()


def table_with_values(
    table: CheckedTable, columns: Mapping[str, Array[Any]]
) -> CheckedTable:
    """Return a table with other values of columns: numbers, or codes of levels."""
    frame = table.frame.copy(deep=False)
    for name, values in columns.items():
        if table.schema.column(name).is_category:
            old = frame[name].array
            frame[name] = type(old).from_codes(values, dtype=old.dtype)
        else:
            frame[name] = values
    return replace(table, frame=frame)
