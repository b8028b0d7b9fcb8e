"""Two fits of the same rows, one of which has all columns of the other and more.

That rows are the same is no matter of trust. The first sum of a fit has a part about
some columns that is one of rows alone, whatever other columns there are: in two fits it
agrees to the last digit, or they are not of the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Protocol

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array, listed
from veilsum.numbers.units import Counts


class Nested(Protocol):
    """A fit that can be compared with another one."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What it has coefficients of."""
        ...

    def rows_of_fit(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Return what tells which rows it is of, and by which law, by its name."""
        ...


def in_order(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the larger fit and the smaller; refuse what cannot be compared."""
    if type(other) is not type(one):
        raise InvalidInputError(
            f"a fit is compared with another fit, found {type(other).__name__}"
        )
    fits: list[Nested] = sorted((one, other), key=lambda fit: -len(fit.columns))
    large, small = fits
    more = [name for name in small.columns if name not in large.columns]
    if more or len(large.columns) == len(small.columns):
        raise InvalidInputError(
            "of two nested fits one has all columns of the other and more: found "
            + (
                f"{listed(more)} in the smaller one only"
                if more
                else "the same columns in both"
            )
        )
    told = small.rows_of_fit(small.columns)
    for name, value in large.rows_of_fit(small.columns).items():
        if told[name] != value:
            found = "" if name.startswith("sums") else f": {value}, {told[name]}"
            raise InvalidInputError(
                "two fits are compared on the same rows and by the same law, and "
                f"their {name} differ{found}. Fit both to the same tables; where "
                "a column has missing values, leave these rows out of both"
            )
    return large, small


def sums_about(
    names: Sequence[str], columns: Sequence[str], counts: Counts, first: Array[Any]
) -> list[Fraction]:
    """Return the first sum's part about some of a fit's columns, which comes first."""
    pairs = combinations_with_replacement(map(columns.index, names), 2)
    places = [max(pair) * (max(pair) + 1) // 2 + min(pair) for pair in pairs]
    return [int(first[at]) * counts.units[at] for at in places]
