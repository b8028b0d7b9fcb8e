"""Prices of a question to tables: shown beside its answer, and not enforced.

Released bits follow from public layouts alone. Influence is computed from a party's own
rows, for the owner of these rows, and never leaves: nothing here is part of a request,
a plan, a receipt or the result of real parties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from veilsum.disclosure.accounts import DisclosureAccounts, DisclosureBalance
from veilsum.disclosure.influence import Influence, influence_attack_success
from veilsum.disclosure.laws import DisclosedRowLaw, joint_row_law
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.locale import catalogue, number_with_language_signs
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.secrets import Secret
from veilsum.sums.releases import OBJECTIONS, SumRelease
from veilsum.tables.schema import CheckedTable, Schema

# Rows in a cell, on average, from which a table of counts may be published.
ROWS_IN_CELL = 10
# Changes of more numbers than rows x this are not looked at: they take too long.
MOST_CHANGES = 60_000_000


class PricedSumJob(Protocol):
    """A question to tables whose sums are known row by row."""

    def bring(self, table: CheckedTable) -> Any:
        """Return what a checked table comes to."""

    def contributions(self, own: Any, request: Any) -> FloatArray | None:
        """Return each row's part of a sum, in units; None if it is not known."""


@dataclass(frozen=True)
class ReleasePrice:
    """Released bits of a question's sums, and the bits that its columns hold.

    Attributes:
        accounts: released bits by columns.
        rows: number of honest rows that hold the bits.
        laws: public law of each column.
        published: column sets whose tables of counts may be published.
    """

    accounts: DisclosureAccounts
    rows: int
    laws: Mapping[str, DisclosedRowLaw]
    published: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_releases(
        cls,
        releases: Sequence[SumRelease],
        schema: Schema,
        rows: int,
        honest_rows: int,
        published: Sequence[tuple[str, ...]] = (),
    ) -> ReleasePrice | None:
        """Return the price of some sums; None if one of them has no layout.

        Args:
            releases: the sums.
            schema: agreed columns, which give the laws.
            rows: number of pooled rows, rows left out included.
            honest_rows: number of them that no coalition knows.
            published: column sets of which tables of counts are all that is released,
                every cell of which has enough honest rows.
        """
        layouts = [one.layout for one in releases]
        found = DisclosureAccounts({})
        for release, layout in zip(releases, layouts, strict=True):
            if layout is None:
                return None
            found += DisclosureAccounts.from_charges(layout.charges(rows), schema.names)
            if OBJECTIONS in release.statistics:  # somebody objects, or nobody does
                found += DisclosureAccounts({tuple(sorted(schema.names)): 1.0})
        laws = {one.name: DisclosedRowLaw.from_column(one) for one in schema.columns}
        return cls(found, honest_rows, laws, tuple(published))

    @cached_property
    def balances(self) -> tuple[DisclosureBalance, ...]:
        """Balances of all column sets, and of each column given the others."""
        return self.accounts.balances(self.rows, self.laws, self.published)

    @property
    def tightest(self) -> DisclosureBalance | None:
        """The balance of which the largest share is spent.

        Column sets with many rows in each cell are passed over while there are others:
        tables of their counts are published all the time. None where all are exempt.
        """
        charged = [one for one in self.balances if not one.exempt]
        sparse = [
            one
            for one in charged
            if one.given_others
            or joint_row_law([self.laws[name] for name in one.columns]).size
            * ROWS_IN_CELL
            > self.rows
        ]
        return DisclosureBalance.tightest(sparse or charged)

    def line(self, language: str = "en") -> str:
        """Return the price in words."""
        words, charged = catalogue(language)["price"], self.tightest
        if charged is None and not self.balances:
            return ""
        if charged is None:
            bits = number_with_language_signs(f"{self.accounts.total:,.0f}", language)
            return str(words["exempt"].format(bits=bits))
        columns = " x ".join(charged.columns)
        if charged.given_others:
            columns = words["given"].format(columns=columns)
        numbers = {
            name: number_with_language_signs(f"{value:,.0f}", language)
            for name, value in {
                "bits": self.accounts.total,
                "spent": charged.spent,
                "held": charged.held,
                "usable": charged.usable,
                "rows": self.rows,
            }.items()
        }
        return str(words["bits"].format(columns=columns, **numbers))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "bits": self.accounts.total,
            "rows": self.rows,
            "accounts": [
                {
                    "columns": list(one.columns),
                    "given_others": one.given_others,
                    "spent": one.spent,
                    "held": one.held,
                    "usable": one.usable,
                    "exempt": one.exempt,
                }
                for one in self.balances
            ],
        }


@dataclass(frozen=True, repr=False)
class OwnInfluence(Secret):
    """Influence of one party's rows on everything released; for its owner only.

    Attributes:
        by_column: largest influence of one person, by the column that is not known.
        covered: number of sums that were looked at.
        sums: number of all sums.
    """

    by_column: Mapping[str, float]
    covered: int
    sums: int

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
    known = [(one, request) for one in asked for request in one.known]
    found = dict[str, float]()
    for name in dict.fromkeys(n for one in asked for n in one.table.schema.names):
        pairs = [pair for pair in known if name in pair[0].table.schema.names]
        if (
            not pairs
            or (ends := _other_values_for_sum_price(pairs[0][0].table, name)) is None
        ):
            continue
        low, high, span, variance = ends
        influence = Influence(len(span), variance)
        try:
            for one, request in pairs:
                upper, lower = one.changed(name, high), one.changed(name, low)
                before = one.job.contributions(lower, request)
                changes = one.job.contributions(upper, request)
                assert changes is not None
                assert before is not None
                changes = (changes - before) / span[:, None]
                influence = influence.adding(changes, np.ones(changes.shape[1]), rows)
        except (InvalidInputError, NumericalError):
            continue  # another admissible value may be beyond what a fit allows
        found[name] = influence.largest
    return OwnInfluence(found, len(known), sum(len(one.requests) for one in asked))


@dataclass(frozen=True, eq=False, repr=False)
class AskedTable(Secret):
    """A question, one party's table, and the requests of all its sums."""

    job: PricedSumJob
    table: CheckedTable
    requests: Sequence[Any]

    @cached_property
    def known(self) -> list[Any]:
        """The requests to which each row's contribution is known."""
        own = self.job.bring(self.table)
        found = [(one, self.job.contributions(own, one)) for one in self.requests]
        return [
            request
            for request, rows in found
            if rows is not None and rows.size <= MOST_CHANGES
        ]

    @cached_property
    def _changed(self) -> dict[tuple[str, bytes], Any]:
        return {}

    def changed(self, name: str, values: Array[Any]) -> Any:
        """Return what the table comes to with other values of a column."""
        key = name, values.tobytes()
        if key not in self._changed:
            if len(self._changed) > 1:  # those of another column
                self._changed.clear()
            self._changed[key] = self.job.bring(
                table_with_column_values(self.table, name, values)
            )
        return self._changed[key]


def _other_values_for_sum_price(
    table: CheckedTable, name: str
) -> tuple[Array[Any], Array[Any], Vector, float] | None:
    """Return each row's value and another admissible one, their distance, a variance.

    Numbers go one standard deviation down and up, within the agreed range. Levels
    become the most frequent one, or the second. None for a column with one value.
    """
    column, values = table.schema.column(name), table.look(name)
    if column.is_category:
        if len(column.categories) < 2:
            return None
        often = np.argsort(-np.bincount(values, minlength=2), kind="stable")
        other = np.where(values == often[0], often[1], often[0])
        return values, other, np.ones(len(values)), 0.25
    least, most = float(values.min()), float(values.max())
    if column.has_range:
        least, most = column.measure.low, column.measure.high
    deviation = float(values.std())
    if column.is_measured and column.measure.most - column.measure.least == 1:
        low, high = np.full(len(values), least), np.full(len(values), most)
        return low, high, high - low, max(deviation**2, 1e-12 * (most - least) ** 2)
    if not deviation > 0.0:
        return None
    low = np.maximum(values - deviation, least)
    high = np.minimum(values + deviation, most)
    return low, high, np.asarray(high - low), deviation**2


def table_with_column_values(
    table: CheckedTable, name: str, values: Array[Any]
) -> CheckedTable:
    """Return a table with other values of a column: numbers, or codes of levels."""
    frame = table.frame.copy(deep=False)
    if table.schema.column(name).is_category:
        old = frame[name].array
        frame[name] = type(old).from_codes(values, dtype=old.dtype)
    else:
        frame[name] = values
    return replace(table, frame=frame)


@dataclass(frozen=True)
class MostReleased:
    """Upper bounds on what a question releases, known before anybody's data are.

    Attributes:
        rounds: number of sums.
        numbers: numbers in all of them.
        bits: released bits of all of them; None where sums have no agreed width.
        by_column: bits of the numbers that change with a column, by its name.
    """

    rounds: int
    numbers: int
    bits: float | None
    by_column: Mapping[str, float]

    def __add__(self, other: MostReleased) -> MostReleased:
        """Return the bounds of both questions together."""
        known = None not in (self.bits, other.bits)
        names = dict.fromkeys((*self.by_column, *other.by_column))
        return MostReleased(
            self.rounds + other.rounds,
            self.numbers + other.numbers,
            (self.bits or 0.0) + (other.bits or 0.0) if known else None,
            {k: self.by_column.get(k, 0) + other.by_column.get(k, 0) for k in names},
        )


def most_released(
    recipe: Any, rounds: int, numbers: int, columns: tuple[str, ...], rows: int
) -> MostReleased:
    """Return the most that a question releases, whatever the data are.

    A total that is an agreed number of bits wide has at most 2^bits values, and fewer
    where the agreed rows and ranges allow fewer. An objection costs a bit a round.

    Args:
        recipe: of the question.
        rounds: the largest number of sums.
        numbers: the largest number of numbers in all of them.
        columns: names of the columns that the question uses.
        rows: the largest number of pooled rows.
    """
    width = getattr(recipe, "accepted_bits", None)
    if width is None and (counts := getattr(recipe, "counts", None)) is not None:
        width = counts.bits
    if width is None:
        return MostReleased(rounds, numbers, None, dict.fromkeys(columns, 0.0))
    priced = list[tuple[float, int, DisclosureAccounts]]()
    for one in recipe.foreseen:
        charges = dict[tuple[str, ...] | None, float]()
        if one.layout is not None:
            charges = one.layout.charges(rows)
        else:
            charges[None] = float(one.numbers * width)
        if OBJECTIONS in one.statistics:
            charges[None] = charges.get(None, 0.0) + 1.0
        found = DisclosureAccounts.from_charges(charges, columns)
        priced.append((found.total, one.most, found))
    # The first is always there; then those that cost most.
    left, total = rounds, DisclosureAccounts({})
    for _, most, each in (priced[0], *sorted(priced[1:], key=lambda kind: -kind[0])):
        taken = min(left, most)
        left, total = left - taken, total + each * taken
    by_column = {name: total.changing(name) for name in columns}
    return MostReleased(rounds, numbers, total.total, by_column)
