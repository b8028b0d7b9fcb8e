"""Public laws of columns, and the bits that a table holds under them.

The bits h of a table are a lower bound of the 0.1 % quantile of -log2 P(table): at most
one table in a thousand has fewer. For every t > 0, Markov's inequality gives

    Pr[-log2 P <= h] <= 2^(t h) E[P^t],    so    h = (log2 0.001 - log2 E[P^t]) / t

is such a bound, and the largest over a few t is used. A table is a multiset of rows,
and E[P^t] is a coefficient of a product of power series with a factor for each cell:

    E[P^t] = (n!)^(1 + t) [z^n] prod_c f(p_c^(1 + t) z),
    f(x) = sum_k x^k / k!^(1 + t).

Cells with one probability share a factor, so 10^30 cells cost as much as one. A mean of
the product over J equidistant points of a circle is the sum of all coefficients whose
place differs from n by a multiple of J, each times a power of the radius. None is
negative, so that the mean bounds the coefficient from above, for every J and radius.

For one column given the others, the cells are those of the other columns, which are
known; a cell with m rows holds a multiset of m values. Its sum R_m of P^(1 + t) takes
the place of 1 / m!^t, and R_m falls with m (Young's inequality), so that counts beyond
`MOST_IN_CELL` are bounded by it. In the same way more rows never hold fewer bits than
some of them, which bounds tables of which one cell has more than `MOST_ROWS_IN_CELL`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product
from math import ceil, exp, inf, isfinite, lgamma, log, log2, sqrt

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Vector
from veilsum.tables.columns import Column

# Share of tables that may hold fewer bits.
QUANTILE = 0.001
# Exponents t that are tried.
EXPONENTS = tuple(2.0**k for k in range(-5, 7))
# Classes of cells beyond which near probabilities are rounded up to a common one.
MOST_CLASSES = 2048
# Rows of a cell of known columns beyond which R_m of fewer rows is a bound.
MOST_IN_CELL = 192
# Mean count of the likeliest cell beyond which a part of the rows is a bound.
MOST_ROWS_IN_CELL = 1000
# Below this logarithm, log(1 + x) is x in float64.
_TINY = -40.0


@dataclass(frozen=True)
class DisclosedRowLaw:
    """Public law of one row: classes of equally likely cells.

    Attributes:
        chances: logarithm of the probability of one cell, for each class.
        cells: number of cells in each class.

    >>> (DisclosedRowLaw.uniform(78) * DisclosedRowLaw.uniform(2)).size
    156
    """

    chances: tuple[float, ...]
    cells: tuple[int, ...]

    @classmethod
    def uniform(cls, cells: int) -> DisclosedRowLaw:
        """Return the law of equally likely values."""
        if cells < 1:
            raise InvalidInputError(
                f"a law needs 1 value or more, found {cells}", code="no-values"
            )
        return cls((-log(cells),), (cells,))

    @classmethod
    def from_histogram(
        cls, shares: Sequence[float], values: Sequence[int]
    ) -> DisclosedRowLaw:
        """Return the law of a histogram, uniform within each bin.

        Args:
            shares: of rows in each bin; they are divided by their sum.
            values: number of admissible values in each bin.

        Raises:
            InvalidInputError: a share is negative, or a bin with rows has no value.
        """
        pairs = [*zip(shares, values, strict=True)]
        total = sum(shares)
        if not (isfinite(total) and total > 0.0) or min(shares) < 0.0:
            raise InvalidInputError(
                f"shares of bins must not be negative: {shares}", code="share-negative"
            )
        if any(share > 0.0 and count < 1 for share, count in pairs):
            raise InvalidInputError(
                f"a bin with rows needs a value, found {values}",
                code="bin-without-value",
            )
        kept = [(log(s / total / count), count) for s, count in pairs if s > 0.0]
        return cls._merged(kept)

    @classmethod
    def from_column(cls, column: Column) -> DisclosedRowLaw:
        """Return the agreed law of a column, or one of equally likely values.

        Args:
            column: of the schema. A number without an agreed range counts as one of two
                values: nothing better is known about it.
        """
        if column.law:
            shares, counts = zip(*column.law_bins, strict=True)
            return cls.from_histogram(shares, counts)
        if column.is_category:
            return cls.uniform(max(1, len(column.categories)))
        if not column.has_range:
            return cls.uniform(2)
        return cls.uniform(column.measure.most - column.measure.least + 1)

    @classmethod
    def _merged(cls, classes: Sequence[tuple[float, int]]) -> DisclosedRowLaw:
        """Return the law with few classes; near probabilities are rounded up.

        Rounding up makes every E[P^t] larger, and so every bound smaller.
        """
        ordered = sorted(classes)
        step = 1e-12
        if len(ordered) > MOST_CLASSES:
            step = (ordered[-1][0] - ordered[0][0]) / MOST_CLASSES
        chances, cells = list[float](), list[int]()
        for chance, count in reversed(ordered):
            if chances and chances[-1] - chance <= step:
                cells[-1] += count
            else:
                chances.append(chance)
                cells.append(count)
        return cls(tuple(chances), tuple(cells))

    def __mul__(self, other: DisclosedRowLaw) -> DisclosedRowLaw:
        """Return the law of two independent columns together."""
        pairs = product(
            zip(self.chances, self.cells, strict=True),
            zip(other.chances, other.cells, strict=True),
        )
        return DisclosedRowLaw._merged([(a + b, m * n) for (a, m), (b, n) in pairs])

    @property
    def size(self) -> int:
        """Number of cells."""
        return sum(self.cells)


ALONE = DisclosedRowLaw.uniform(1)


def joint_row_law(laws: Sequence[DisclosedRowLaw]) -> DisclosedRowLaw:
    """Return the law of independent columns together."""
    return reduce(DisclosedRowLaw.__mul__, laws, ALONE)


@lru_cache(maxsize=4096)
def bits_held_by_rows(rows: int, law: DisclosedRowLaw) -> float:
    """Return a lower bound of the bits that a multiset of rows holds."""
    if (rows := _rows_with_disclosed_bits(rows, law)) < 1:
        return 0.0

    def moment(t: float) -> float:
        series = [
            -(1.0 + t) * lgamma(k + 1.0) for k in range(_row_law_terms(rows, law) + 1)
        ]
        scaled = np.array(law.chances) * (1.0 + t)
        found = _log_row_law_coefficient(np.array(series), scaled, law.cells, rows)
        return (1.0 + t) * lgamma(rows + 1.0) + found

    return _best_row_law_bound(moment)


@lru_cache(maxsize=4096)
def bits_held_given(rows: int, law: DisclosedRowLaw, keys: DisclosedRowLaw) -> float:
    """Return a lower bound of the bits of a column if all others are known.

    Args:
        rows: number of rows.
        law: of the column.
        keys: of the other columns together. Where they identify rows, the bits are
            those of independent values.
    """
    if (rows := _rows_with_disclosed_bits(rows, keys)) < 1:
        return 0.0
    terms = _row_law_terms(rows, keys)

    def moment(t: float) -> float:
        found = _sums_of_powers(law, t, min(terms, MOST_IN_CELL))
        beyond = np.full(terms + 1 - len(found), found[-1])
        factorials = [lgamma(k + 1.0) for k in range(terms + 1)]
        series = np.concatenate([found, beyond]) - np.array(factorials)
        chances = np.array(keys.chances)
        return lgamma(rows + 1.0) + _log_row_law_coefficient(
            series, chances, keys.cells, rows
        )

    return _best_row_law_bound(moment)


def _best_row_law_bound(moment: Callable[[float], float]) -> float:
    """Return the largest bound of all exponents, from the logarithm of E[P^t].

    That logarithm is convex in t, and 0 at 0: the bound rises with t and then falls.
    Most tables are best bounded by the largest exponents, so the search begins there.
    It ends after two falls, because rounding may lower a single bound.
    """

    def bound(t: float) -> float:
        return (log2(QUANTILE) - moment(t) / log(2.0)) / t

    best, at, falls = -inf, EXPONENTS[-1], 0
    for t in reversed(EXPONENTS):
        if (value := bound(t)) > best:
            best, at, falls = value, t, 0
        else:
            falls += value < best
        if falls == 2:
            break
    finer = (bound(at * 2.0**power) for power in (-0.5, -0.25, 0.25, 0.5))
    return max(0.0, best, *finer)


def _rows_with_disclosed_bits(rows: int, law: DisclosedRowLaw) -> int:
    """Return the number of rows whose bits are computed."""
    return min(rows, ceil(MOST_ROWS_IN_CELL / exp(max(law.chances))))


def _row_law_terms(rows: int, law: DisclosedRowLaw) -> int:
    """Return the largest count of one cell that is not negligible.

    It may be beyond the number of rows: then a radius exists for every mean.
    """
    mean = rows * exp(max(law.chances))
    return ceil(mean + 12.0 * sqrt(mean) + 16.0)


def _sums_of_powers(law: DisclosedRowLaw, t: float, most: int) -> Vector:
    """Return the logarithms of R_m for m = 0 to `most` values with this law.

    Two disjoint groups of levels with sums A and B have together the sum over j of
    binomial(m, j)^(1 + t) A_j B_(m - j).
    """
    counts = np.arange(most + 1)
    factorials = np.array([lgamma(k + 1.0) for k in counts])
    places = counts[:, None] - counts[None, :]
    inside = places >= 0
    weights = np.where(
        inside,
        (1.0 + t)
        * (factorials[:, None] - factorials[None, :] - factorials[np.abs(places)]),
        -inf,
    )

    def together(some: Vector, others: Vector) -> Vector:
        parts = weights + some[None, :] + others[np.abs(places)]
        top = parts.max(axis=1)
        return np.asarray(top + np.log(np.exp(parts - top[:, None]).sum(axis=1)))

    found: Vector | None = None
    for chance, cells in zip(law.chances, law.cells, strict=True):
        power = np.asarray(counts * ((1.0 + t) * chance), dtype=np.float64)
        for bit in bin(cells)[:1:-1]:
            if bit == "1":
                found = power if found is None else together(found, power)
            power = together(power, power)
    assert found is not None
    return found


def _log_row_law_coefficient(
    series: Vector, chances: Vector, cells: Sequence[int], n: int
) -> float:
    """Return an upper bound of log [z^n] of the product of all cells' series.

    Args:
        series: logarithms of the coefficients of one cell's series; the first is 0.
        chances: logarithm of the factor of z, for each class of cells.
        cells: number of cells of each class.
        n: place of the coefficient.
    """
    powers = np.arange(len(series))
    sizes = np.array([log(one) for one in cells])
    terms, counts, columns = powers[1:].astype(float), np.exp(sizes), chances[:, None]
    squares, later = terms**2, series[1:]

    def weights(radius: float) -> tuple[Vector, Vector]:
        """Return log(1 + x) of each class, and its terms beside the first as shares."""
        logs = terms * (columns + radius) + later
        top = logs.max(axis=1)
        return top, np.exp(logs - top[:, None])

    def moments(radius: float) -> tuple[float, float]:
        top, rest = weights(radius)
        total = np.logaddexp(0.0, top + np.log(rest.sum(axis=1)))
        shares = np.exp(sizes + top - total)
        first, second = (rest @ terms) * shares, (rest @ squares) * shares
        means = first / counts
        return float(first.sum()), float((second - first * means).sum())

    low, high = -1.0, 1.0
    while moments(low)[0] > n:
        low *= 2.0
    while moments(high)[0] < n and high < 1e7:
        high *= 2.0
    # Newton's steps for log(mean), or halvings. Any radius gives a bound; at the one
    # with mean n few points are enough.
    radius = (low + high) / 2.0
    for _ in range(60):
        mean, variance = moments(radius)
        if abs(mean - n) <= 1e-9 * n:
            break
        low, high = (radius, high) if mean < n else (low, radius)
        step = radius + log(n / mean) * mean / variance if mean * variance > 0 else low
        radius = step if low < step < high else (low + high) / 2.0
    n_points = min(n + 1, ceil(12.0 * sqrt(max(moments(radius)[1], 0.0))) + 8)
    top, rest = weights(radius)
    total, start = np.zeros(n_points, dtype=complex), 0.0
    places = powers[1:] % n_points
    for size, first, shares in zip(sizes, top, rest, strict=True):
        folded = np.bincount(places, shares, n_points)
        values = np.conj(np.fft.fft(folded))  # at the points e^(2 pi i j / J)
        if first < _TINY:
            found = np.exp(size + first) * values
        elif first < 0.0:
            found = np.exp(size) * np.log1p(np.exp(first) * values)
        else:
            inner = np.exp(-first) + values
            inner[inner == 0.0] = 1e-300  # a factor of 0 has no logarithm
            found = np.exp(size) * (first + np.log(inner))
        start += float(found[0].real)
        total += found - found[0]
    turns = np.exp(-2j * np.pi * ((n * np.arange(n_points)) % n_points) / n_points)
    mean = float((np.exp(total) * turns).real.mean())
    # Rounding may leave less than the largest of all terms rounds to.
    return start - n * radius + log(max(mean, 1e-12))
