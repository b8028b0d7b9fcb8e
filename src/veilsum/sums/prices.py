"""Released bits of a question to tables: shown beside its answer, and not enforced.

Released bits follow from public layouts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from veilsum.disclosure.accounts import DisclosureAccounts, DisclosureBalance
from veilsum.disclosure.laws import DisclosedRowLaw, joint_row_law
from veilsum.locale import catalogue, number_with_language_signs
from veilsum.sums.releases import OBJECTIONS, SumRelease
from veilsum.tables.schema import Schema

# Rows in a cell, on average, from which a table of counts may be published.
ROWS_IN_CELL = 10


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
