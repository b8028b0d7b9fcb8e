"""Accounts of released bits: what a study has spent, by the columns it depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from veilsum.disclosure.laws import (
    DisclosedRowLaw,
    bits_held_by_rows,
    bits_held_given,
    joint_row_law,
)

# Share of the bits that a table holds which may be released.
USABLE = 0.5


@dataclass(frozen=True)
class DisclosureBalance:
    """Bits charged to some columns, and the bits that they hold.

    Attributes:
        columns: names of the columns.
        spent: released bits of all numbers that count here.
        held: bits that the columns hold.
        given_others: whether the columns are one column, with all others known.
        exempt: whether tables of counts are all that depends on these columns, and may
            be published: every cell has enough honest rows.
    """

    columns: tuple[str, ...]
    spent: float
    held: float
    given_others: bool = False
    exempt: bool = False

    @property
    def usable(self) -> float:
        """Bits that may be released."""
        return USABLE * self.held

    @property
    def fits(self) -> bool:
        """Whether no more was released than is usable, or that does not matter."""
        return self.exempt or self.spent <= self.usable

    @staticmethod
    def tightest(balances: Sequence[DisclosureBalance]) -> DisclosureBalance | None:
        """Return the balance of which the largest share is spent, if there is any."""
        return max(
            balances, key=lambda one: one.spent / max(one.held, 1e-9), default=None
        )


@dataclass(frozen=True)
class DisclosureAccounts:
    """Released bits by the columns that the numbers depend on; a value that adds up.

    >>> age = DisclosureAccounts({("age",): 20.0})
    >>> both = DisclosureAccounts({("age", "hiv"): 30.0})
    >>> study = age + both
    >>> study.inside(("age", "hiv")), study.inside(("age",)), study.changing("hiv")
    (50.0, 20.0, 30.0)

    Attributes:
        bits: by sorted names of columns.
    """

    bits: Mapping[tuple[str, ...], float]

    @classmethod
    def from_charges(
        cls,
        charges: Mapping[tuple[str, ...] | None, float],
        columns: tuple[str, ...],
    ) -> DisclosureAccounts:
        """Return accounts of a layout's charges.

        Args:
            charges: of `Layout.charges`.
            columns: all columns of the question; numbers with unknown columns depend on
                all of them.
        """
        found = dict[tuple[str, ...], float]()
        for few, bits in charges.items():
            key = tuple(sorted(columns if few is None else few))
            found[key] = found.get(key, 0.0) + bits
        return cls(found)

    def __add__(self, other: DisclosureAccounts) -> DisclosureAccounts:
        """Return the accounts of both."""
        found = dict(self.bits)
        for columns, bits in other.bits.items():
            found[columns] = found.get(columns, 0.0) + bits
        return DisclosureAccounts(found)

    def __mul__(self, times: int) -> DisclosureAccounts:
        """Return the accounts of so many equal sums."""
        return DisclosureAccounts(
            {columns: bits * times for columns, bits in self.bits.items()}
        )

    @property
    def total(self) -> float:
        """All released bits."""
        return sum(self.bits.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that any number depends on."""
        return tuple(sorted({*chain.from_iterable(self.bits)}))

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """Column sets that numbers depend on, and all columns together."""
        found = {few for few in self.bits if few} | {self.columns}
        return tuple(sorted(found - {()}, key=lambda few: (len(few), few)))

    def inside(self, columns: tuple[str, ...]) -> float:
        """Return the bits of all numbers that depend on these columns only."""
        known = {*columns}
        return sum(bits for few, bits in self.bits.items() if known.issuperset(few))

    def changing(self, column: str) -> float:
        """Return the bits of all numbers that change with a column."""
        return sum(bits for few, bits in self.bits.items() if column in few)

    def balances(
        self,
        rows: int,
        laws: Mapping[str, DisclosedRowLaw],
        published: Sequence[tuple[str, ...]] = (),
    ) -> tuple[DisclosureBalance, ...]:
        """Return the balance of every column set, and of every column given the others.

        Args:
            rows: number of pooled honest rows.
            laws: public law of each column.
            published: column sets of which tables of counts may be published. Their
                balances, and those of some of their columns, are exempt.
        """
        everything = self.columns

        def exempt(columns: tuple[str, ...]) -> bool:
            return any({*few}.issuperset(columns) for few in published)

        found = [
            DisclosureBalance(
                few,
                self.inside(few),
                bits_held_by_rows(rows, joint_row_law([laws[k] for k in few])),
                exempt=exempt(few),
            )
            for few in self.sets
        ]
        for name in everything if len(everything) > 1 else ():
            keys = joint_row_law([laws[other] for other in everything if other != name])
            held = bits_held_given(rows, laws[name], keys)
            spent = self.changing(name)
            passed = exempt(everything)
            found.append(
                DisclosureBalance(
                    (name,), spent, held, given_others=True, exempt=passed
                )
            )
        return tuple(found)
