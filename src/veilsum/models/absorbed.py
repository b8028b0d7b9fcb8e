"""Least squares with an effect for every party, which each party takes off at home.

A dummy variable for every party is the same fit as columns about the party's own means
(Frisch, Waugh and Lovell). So a party gives X'WX - (X'W1)(1'WX) / (1'W1) of its rows,
and the same with the response, from exact sums: a fraction over its own sum of weights,
rounded once to a public unit. Totals of these are the normal equations of all slopes;
no party's mean, effect or sum of a column is among them.

In the columns' own counts a sum of products is whole, and the part that a party takes
off, k k / n, is a fraction. Digits behind the point tell of k, the sum of its column:
they are an equation for the k of all parties, up to signs and multiples of n. Digits of
all totals are counted against the values that k can have.

So the unit of two columns is the product of their own units, without any digit behind
the point, between two bounds: at most 2^-34 of the largest product of one row by
agreement, or flags would keep too few digits, and at least 2^-44, or wide columns would
release more than the fit needs. With 20 rows of each party, rounding moves a total of
two wide columns, with ranges of 100 standard deviations within parties, by 1.5e-11 of
its size at most; of two flags, with ranges of 30, by 1.5e-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2, sqrt
from typing import Any

import numpy as np
from flint import arb

from veilsum.errors import InvalidInputError
from veilsum.models.least_squares import (
    LOG_BITS,
    LOG_WHOLE_BITS,
    WEIGHED_ERROR,
    LeastSquaresCounting,
    LeastSquaresFit,
    half_unit_of_measure,
    statistics,
)
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.systems import (
    InformationSystem,
    check_model_rows,
    dependent_model_columns,
    nearest_float_solution,
    system_number_as_fmpq,
)
from veilsum.numbers.arrays import Array, Vector, listed_names
from veilsum.numbers.layout import (
    LayoutStatistic,
    NumberLayout,
    layout_number,
    layout_vector,
)
from veilsum.numbers.units import (
    Integers,
    power_of_two_unit,
    square_of_triangle,
    sum_bits,
    triangle_of_matrix,
    units_of_products,
)

# Bits that a column keeps of its agreed range, and a product of two twice as many:
# as many as its own unit has, at least and at most.
LEAST_BITS, MOST_BITS = 17, 22
# What is added up of a column before a point, of parties with 1,000 rows, is so long.
WHOLE_BITS = 10
# A column that has this part in a dependency is named.
SHARE = 1e-3


@dataclass(frozen=True)
class AbsorbedCounting:
    """Counting of the rows of parties after subtracting their own effects."""

    measures: RowMeasures
    intercept: int

    @property
    def slopes(self) -> list[int]:
        places = range(len(self.measures.design))
        return [place for place in places if place != self.intercept]

    @cached_property
    def counting(self) -> LeastSquaresCounting:
        """Counting of the rows before effects are subtracted."""
        return LeastSquaresCounting(self.measures)

    @cached_property
    def units(self) -> tuple[Fraction, ...]:
        """The finest unit of each slope's column, and of the response last."""
        weights, root = self.measures.weights, 0
        if weights is not None:
            largest = max(weights.most, 1) * weights.unit
            root = ceil(log2(largest) / 2)
        columns = [self.measures.design[place] for place in self.slopes]
        spans = [
            (one.most - one.least) * one.unit or one.unit
            for one in (*columns, self.counting.target)
        ]
        return tuple(
            power_of_two_unit(span, MOST_BITS) * Fraction(2) ** root for span in spans
        )

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """Each column's own unit, and the response's last, in the finest unit."""
        places = [*self.slopes, self.counting.n_columns]
        pairs = zip(places, self.units, strict=True)
        return tuple(self.counting.units[place] / unit for place, unit in pairs)

    @cached_property
    def shifts(self) -> Integers:
        """Bits of each product that stay with the party: a lower triangle.

        As many as make the unit at least the product of the columns' own units.
        """
        most, found = 2 * (MOST_BITS - LEAST_BITS), []
        for j, scale in enumerate(self.scales):
            for other in self.scales[: j + 1]:
                # The least power of two that is not below the product.
                shift = (ceil(scale * other) - 1).bit_length()
                found.append(min(shift, most))
        return np.array(found, dtype=object)

    def least_honest(self, minimum_rows: int) -> int:
        """Return of how many parties the sums of columns do not follow from totals.

        Of parties with `minimum_rows` rows or more, and for who knows how many rows
        each has. Columns with few values tell most, and every two of them tell more.
        """
        digits = sorted(
            (log2(one) - MOST_BITS + LEAST_BITS for one in self.scales), reverse=True
        )
        unknown = log2(max(minimum_rows // 2, 2))
        told, least = 0.0, 0
        for n, one in enumerate(digits, 1):
            told += WHOLE_BITS + sum(max(one + other, 0.0) for other in digits[:n])
            if one + digits[0] > 0.0:
                least = max(least, ceil(told / (n * unknown)))
        return least

    @cached_property
    def layout(self) -> NumberLayout:
        """Products within parties, the sum of log weights, rows and parties."""
        p, rows = len(self.slopes), self.measures.row_bits
        finest = zip(units_of_products(self.units), self.shifts.tolist(), strict=True)
        units = tuple(unit * (1 << shift) for unit, shift in finest)
        gram, cross, square = units[: -p - 1], units[-p - 1 : -1], units[-1]
        # Weights are at most 4^root, up to the rounding of its logarithm.
        bits = sum_bits([2 * MOST_BITS + 1], rows)
        logs = sum_bits([LOG_BITS + LOG_WHOLE_BITS], rows)
        numbers = square, Fraction(1, 2**LOG_BITS)
        return NumberLayout(
            (
                LayoutStatistic("gram_within", (p, p), gram, bits, symmetric=True),
                layout_vector("cross_within", cross, bits),
                layout_vector("response_within", numbers, max(bits, logs)),
                layout_number("rows", bits=sum_bits([0], rows)),
                layout_number("parties", bits=sum_bits([0], rows)),
            )
        )

    def check(self, total: Integers, names: Sequence[str]) -> None:
        """Refuse a total that no rows within the agreed ranges have."""
        found = self.layout.unpack(total)
        n_rows, n_parties = found["rows"], found["parties"]
        check_plausible_total("rows", n_rows, 1, 1 << self.measures.row_bits)
        check_plausible_total("parties", n_parties, 1, n_rows)
        matrix = self.matrix(total)
        labels = (*names, "the response")
        # A weight may be beyond 4^root by the rounding of its logarithm.
        largest = [2 << MOST_BITS] * len(labels)
        rounding = n_parties << max(self.shifts)
        check_plausible_matrix(
            "products within parties", matrix, labels, largest, n_rows, rounding
        )

    def matrix(self, total: Integers) -> Integers:
        """Return the products about means of a total, in the finest units."""
        return square_of_triangle(
            total[: len(self.shifts)] << self.shifts, len(self.units)
        )

    def vector(self, rows: Rows) -> Integers:
        """Return what one party gives: its products about its own means.

        From exact sums of whole numbers, and so the same in any order of its rows.
        """
        sums, one = (
            self.counting.unpack(statistics(rows, self.measures)),
            self.intercept,
        )
        moments, kept = sums.moments, [*self.slopes, self.counting.n_columns]
        left = np.empty((len(kept), len(kept)), dtype=object)
        scales = self.scales
        for j, a in enumerate(kept):
            for k, b in enumerate(kept[: j + 1]):
                taken = Fraction(moments[a, one] * moments[b, one], moments[one, one])
                left[j, k] = (moments[a, b] - taken) * scales[j] * scales[k]
        given = zip(
            triangle_of_matrix(left).tolist(), self.shifts.tolist(), strict=True
        )
        rounded = [round(exact / (1 << shift)) for exact, shift in given]
        further = [sums.log_weight_sum, sums.n_rows, 1]
        return np.array([*rounded, *further], dtype=object)


@dataclass(frozen=True)
class AbsorbedFit(LeastSquaresFit):
    """The fit of all slopes, with an intercept of its own for every party.

    R squared is that within parties: what differs between them is not in any sum.
    """

    n_parties: int

    @property
    def about(self) -> str:
        """Reference of the total sum of squares: the means within parties."""
        return " (within)"

    @property
    def adjusted_r_squared(self) -> float:
        """1 - s^2 over the variance of the response within parties."""
        freedom = (self.n_rows - self.n_parties) / self.residual_degrees
        return 1.0 - freedom * (1.0 - self.r_squared)


def fit(
    total: Integers, absorbing: AbsorbedCounting, *, names: Sequence[str]
) -> AbsorbedFit:
    """Return the least squares fit of all rows, an effect for each party included.

    Args:
        total: the sum of the parties' vectors.
        absorbing: how they were counted.
        names: of the slopes.

    Raises:
        InvalidInputError: too few rows, or columns that are dependent or constant
            within every party, which it names.
    """
    p, units = len(names), absorbing.units
    matrix, found = absorbing.matrix(total), absorbing.layout.unpack(total)
    n_rows, n_parties = found["rows"], found["parties"]
    flat = [name for k, name in enumerate(names) if not matrix[k, k] > 0]
    if flat:
        raise InvalidInputError(
            f"{listed_names(flat)} is the same in all rows of each party, so that the "
            "parties' own effects cannot be told from it: leave it out, or fit "
            "without absorb",
            code="constant-within-parties",
        )
    degrees = p + n_parties
    check_model_rows(n_rows, degrees)
    system = InformationSystem.of(matrix[:p, :p], names=names)
    cross = list(matrix[p, :p])
    ratios = [arb(system_number_as_fmpq(units[p] / unit)) for unit in units[:p]]

    def balls() -> list[arb]:
        found = system.balls(cross)
        return [one * scale for one, scale in zip(found, ratios, strict=True)]

    def residual() -> list[arb]:
        rest = arb(int(matrix[p, p]))
        for one, right in zip(system.balls(cross), cross, strict=True):
            rest -= one * arb(int(right))
        return [rest * arb(system_number_as_fmpq(units[p] ** 2))]

    coefficients = nearest_float_solution(balls)
    bound, rounded = _rounding_of_absorbed_model(
        absorbing, matrix, system, coefficients, n_rows, n_parties
    )
    left = n_rows - degrees
    square_sum = float(nearest_float_solution(residual)[0])
    # Residuals that rounding alone explains are those of a perfect fit.
    perfect = square_sum <= rounded
    square_sum = 0.0 if perfect else square_sum
    scale = np.array([float(unit) for unit in units[:p]])
    inverse = system.inverse() / np.outer(scale, scale)
    return AbsorbedFit(
        names=tuple(names),
        coefficients=coefficients,
        covariance=inverse * (square_sum / left),
        t_degrees=left,
        model_degrees=degrees,
        residual_degrees=left,
        residual_sum=square_sum,
        total_sum=float(matrix[p, p] * units[p] ** 2),
        has_intercept=True,
        log_weight_sum=int(found["response_within"][1]) / 2.0**LOG_BITS,
        n_rows=n_rows,
        condition=system.condition,
        rounding_bound=bound,
        n_parties=n_parties,
    )


def _rounding_of_absorbed_model(
    absorbing: AbsorbedCounting,
    matrix: Array[Any],
    system: InformationSystem,
    coefficients: Vector,
    n_rows: int,
    n_parties: int,
) -> tuple[Vector, float]:
    """Return how far rounding moved each coefficient at most, and residuals' squares.

    Every party rounded each of its products by half a unit; and every number of a row
    was rounded before, by half a unit of its own. So the exact equations are
    (S + D) (b + d) = c + e with known bounds of |D| and |e|, and

        |d| <= |S^-1| (|e| + |D| |b|) / (1 - q),  q the largest row sum of |S^-1| |D|.

    Where q is not below 1 the columns may have been dependent.
    """
    p, scale = len(system.names), np.array([float(one) for one in absorbing.units])
    # In units of the columns; a column that is constant has no length.
    lengths = np.sqrt(np.array([float(matrix[k, k]) for k in range(p + 1)]))
    off, weights = _rounding_of_absorbed_rows(absorbing, n_rows)
    off /= scale
    moved = np.outer(lengths, off) + np.outer(off, lengths) + np.outer(off, off)
    units = square_of_triangle(1 << absorbing.shifts, p + 1).astype(float)
    moved += np.outer(lengths, lengths) * weights + units * (n_parties / 2.0)
    # Columns of length 1, so that a row sum means the same for all of them.
    sizes = np.where(lengths > 0.0, lengths, 1.0)
    moved /= np.outer(sizes, sizes)
    inverse = np.abs(system.inverse()) * np.outer(sizes[:p], sizes[:p])
    if not (q := float((inverse @ moved[:p, :p]).sum(axis=1).max())) < 1.0:
        vectors = np.linalg.eigh(system.scaled_inverse)[1]
        parts = zip(system.names, np.abs(vectors[:, -1]), strict=True)
        raise dependent_model_columns([name for name, part in parts if part > SHARE], 1)
    about = np.abs(coefficients) * scale[:p] * sizes[:p] / scale[p]
    found = inverse @ (moved[:p, p] * sizes[p] + moved[:p, :p] @ about) / (1.0 - q)
    found *= scale[p] / (scale[:p] * sizes[:p])
    whole = np.append(about, sizes[p])
    rounded = float(whole @ moved @ whole) * scale[p] ** 2
    return found * 1.000001 + np.abs(coefficients) * 2.0**-52, rounded


def _rounding_of_absorbed_rows(
    absorbing: AbsorbedCounting, n_rows: int
) -> tuple[Vector, float]:
    """Return how far rows' own rounding moved each column, as norms over all rows."""
    measures, counting = absorbing.measures, absorbing.counting
    halves = [
        half_unit_of_measure(measures.design[place]) for place in absorbing.slopes
    ]
    target = half_unit_of_measure(measures.response)
    if measures.offset is not None:
        target += half_unit_of_measure(measures.offset) + float(counting.target.unit)
    off = np.array([*halves, target])
    if measures.weights is None:
        return off * sqrt(n_rows), 0.0
    off *= sqrt(measures.weights.most * measures.weights.unit)
    # A weighed number is rounded once more, and so is the column of weighed ones.
    target_reach = max(abs(counting.target.least), abs(counting.target.most))
    ends = [measures.design[place].reach for place in absorbing.slopes]
    ends.append(max(target_reach, counting.target.most - counting.target.least))
    ones = float(counting.units[absorbing.intercept])
    for k, place in enumerate([*absorbing.slopes, counting.n_columns]):
        unit = float(counting.units[place])
        plain = unit * 2.0 ** counting.powers[place]
        off[k] += WEIGHED_ERROR * (unit + ones * float(ends[k]) * plain)
    slack = 2.0**-49
    if measures.weights.rounds:
        slack += 1.0 / (max(measures.weights.least, 1) - 0.5)
    return off * sqrt(n_rows), slack
