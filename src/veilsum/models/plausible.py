"""Public plausibility: totals that no admissible rows add up to end a run.

Agreed ranges bound the contribution of each row, so they bound every total. A total
beyond these bounds is wrong, whoever made it so: a search must not go on from it, since
the point that it leads to may be chosen. All bounds are whole numbers and exact: all
parties decide alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from veilsum.errors import NumericalError
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import ends_of_whole_numbers
from veilsum.numbers.units import Integers, UnitCounts, UnitMeasure


def check_plausible_total(
    name: str, total: int | Fraction, least: int | Fraction, most: int | Fraction
) -> None:
    """Refuse a total outside the bounds that follow from the agreement.

    Raises:
        NumericalError: no tables within the agreed ranges add up to it.
    """
    if least <= total <= most:
        return
    raise implausible_sum_error(
        name,
        f"it is {_short_plausible_number(total)}, and by the agreed ranges it is at "
        "least "
        f"{_short_plausible_number(least)} and at most {_short_plausible_number(most)}",
    )


def check_plausible_sizes(counts: UnitCounts, total: Array[Any]) -> None:
    """Refuse a number in which more is counted than all parties' ranges allow."""
    most, (least, largest) = 1 << counts.bits - 1, ends_of_whole_numbers(total)
    if -most <= least and largest <= most:
        return
    for place, number in enumerate(total.tolist(), start=1):
        check_plausible_total(f"number {place} of the sum", int(number), -most, most)


def check_plausible_matrix(
    name: str,
    matrix: Array[Any] | Integers,
    columns: Sequence[str],
    largest: Sequence[int],
    n_rows: int,
    rounding: int = 0,
) -> None:
    """Refuse sums of products of columns that no rows have."""
    for k, (column, reach) in enumerate(zip(columns, largest, strict=True)):
        size = int(matrix[k, k])
        most = n_rows * reach * reach + rounding
        check_plausible_total(f"{name} for {column}", size, -rounding, most)
    # A symmetric matrix of rounding errors has no eigenvalue below this.
    lines = matrix + rounding * len(columns) * np.identity(len(columns), dtype=object)
    if (place := negative_pivot_of_products(lines.tolist())) is not None:
        raise implausible_sum_error(
            f"{name} for {columns[place]}",
            "together with those of other columns it gives a negative variance",
        )


def check_plausible_sums(
    name: str, total: int, n_rows: int, measure: UnitMeasure
) -> None:
    """Refuse a sum of a column's counts, less their centre, beyond rows x range."""
    low, high = measure.least - measure.centre, measure.most - measure.centre
    check_plausible_total(f"sums of {name}", total, n_rows * low, n_rows * high)


def implausible_sum_error(name: str, why: str) -> NumericalError:
    return NumericalError(
        f"the total of {name} is impossible: {why}. No tables within the agreed ranges "
        "add up to it, so a party has contributed wrong numbers, or parties use "
        "different programs. The run ends here; compare versions and tables",
        code="impossible-total",
    )


def negative_pivot_of_products(lines: list[list[int]]) -> int | None:
    """Return where elimination shows that a matrix is not positive semidefinite.

    Bareiss's elimination: all divisions are exact, and a pivot has the sign of a
    leading principal minor.
    """
    table, before = [list(map(int, line)) for line in lines], 1
    rest = list(range(len(table)))
    while rest:
        for k in rest:
            if table[k][k] < 0:
                return k
        at = max(rest, key=lambda k: table[k][k])
        pivot = table[at][at]
        if not pivot:
            # All diagonal entries are 0: then all others must be.
            return next((i for i in rest for j in rest if table[i][j]), None)
        rest.remove(at)
        for i in rest:
            for j in rest:
                top = pivot * table[i][j] - table[i][at] * table[at][j]
                table[i][j] = top // before
        before = pivot
    return None


def _short_plausible_number(number: int | Fraction) -> str:
    return f"{float(number):.6g}"
