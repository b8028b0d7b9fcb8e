"""Least squares from exact sums: ordinary, weighted and ridge, in one exchange.

The sums X'WX, X'Wy, y'Wy and four numbers say all about the rows that the pooled fit
needs, so parties add these up and every party solves the same small system.

Rows are whole numbers of public units, and so are their sums: the fit is that of the
counted rows to the last digit, whatever the condition of the design, and becomes
float64 once, at its end. What counting itself changed has a bound, `rounding_bound`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, gcd, lcm, log2, sqrt
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpq, fmpz_mat

from veilsum.errors import InvalidInputError
from veilsum.models import systems
from veilsum.models.inference import Inference
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import ONES, Gram, RowMeasures, Rows, WholeBlock
from veilsum.models.systems import (
    InformationSystem,
    check_model_intercept,
    check_model_rows,
    dependent_model_columns,
    is_regular_system_matrix,
    model_column_names,
    nearest_float_solution,
    over_common_denominator,
    ridge_penalties_of_model,
    system_number_as_fmpq,
    system_rows_as_balls,
)
from veilsum.models.weights import note_row_weights
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.elementary import log
from veilsum.numbers.layout import (
    NumberLayout,
    RowRange,
    centred_range_of_measure,
    count_range_of_columns,
    layout_number,
    layout_symmetric,
    layout_vector,
    range_within_bits,
    union_of_columns,
)
from veilsum.numbers.units import (
    FLOAT_BITS,
    LIMB_BITS,
    GramSum,
    Integers,
    UnitMeasure,
    WholeColumn,
    WholeRows,
    bits_of_reach,
    limbs_of_bits,
    power_of_two_unit,
    sum_bits,
    total_of_counts,
)

# Bits of a number times the root of its weight: three limbs. Products of float64 are
# whole numbers there, though not all of them.
WEIGHED_BITS = 3 * LIMB_BITS - 2
# The same where a column is wider than float64.
WIDE_WEIGHED_BITS = 72
# How far from exact such a product is, in its own units.
WEIGHED_ERROR = 0.5 + 2.0 ** (WEIGHED_BITS - FLOAT_BITS)
# Bits of the logarithm of a weight behind the point, and before it.
LOG_BITS, LOG_WHOLE_BITS = 40, 10
# A dependency names the columns that have at least this share in it. A category with
# one row in a million has a share of 1e-3; rounding stays below 1e-8.
SHARE = 1e-5
# Bits of a difference of response and offset that have no common unit.
DIFFERENCE_BITS = 50


@dataclass(frozen=True)
class LeastSquaresCounting:
    """Counting of the rows of a fit; it follows from the agreement.

    A counted number v stands for v times its unit, plus the shift of its column.
    """

    measures: RowMeasures

    @property
    def n_columns(self) -> int:
        return len(self.measures.design)

    @cached_property
    def ones(self) -> int | None:
        alike = [one == ONES for one in self.measures.design]
        return alike.index(True) if any(alike) else None

    @cached_property
    def target(self) -> UnitMeasure:
        """The measure of the response less the offset.

        Its unit is one of which both are whole numbers; where that is too fine for
        float64 it leaves 50 bits of the range.
        """
        response, offset = self.measures.response, self.measures.offset
        if offset is None:
            return response
        low = response.least * response.unit - offset.most * offset.unit
        high = response.most * response.unit - offset.least * offset.unit
        units = response.unit, offset.unit
        bottom = lcm(*(unit.denominator for unit in units))
        common = Fraction(gcd(*(int(unit * bottom) for unit in units)), bottom)
        # Both are taken in this unit before one is taken off the other.
        ends = (
            low,
            high,
            *(
                end * one.unit
                for one in (response, offset)
                for end in (one.least, one.most)
            ),
        )
        span = max(high - low, *map(abs, ends))
        if span > common * 2 ** (FLOAT_BITS + 1):
            common = power_of_two_unit(span, DIFFERENCE_BITS)
        return UnitMeasure.of(low, high, common)

    @cached_property
    def shifts(self) -> tuple[Fraction, ...]:
        """Value subtracted from each column, and from the target last."""
        measures = (*self.measures.design, self.measures.response)
        shifts = [one.centre * one.unit for one in measures]
        if self.measures.offset is not None:
            shifts[-1] -= self.measures.offset.centre * self.measures.offset.unit
        return tuple(shifts)

    @cached_property
    def bits(self) -> tuple[int, ...]:
        """No number of a column, of the target or of the ones is beyond 2^bits."""
        plain = (*self._plain_bits, 0)
        if self.measures.weights is None:
            return plain
        return (self._weighed_bits,) * len(plain)

    @cached_property
    def _plain_bits(self) -> tuple[int, ...]:
        target, shift = self.target, self.shifts[-1]
        reach = target.reach
        if self.measures.offset is not None:
            # What was taken off the response is not taken off the target's ends.
            ends = (end * target.unit - shift for end in (target.least, target.most))
            # Half a unit may be added by rounding.
            reach = ceil(max(map(abs, ends)) / target.unit) + 1
        return (*(one.bits for one in self.measures.design), bits_of_reach(reach))

    @cached_property
    def wide(self) -> bool:
        return any(one.wide for one in (*self.measures.design, self.target))

    @property
    def _weighed_bits(self) -> int:
        return WIDE_WEIGHED_BITS if self.wide else WEIGHED_BITS

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """The numbers of a column are weighed as v sqrt(w) 2^power; ones are last."""
        weights = self.measures.weights
        if weights is None:
            return (0,) * (self.n_columns + 2)
        largest = max(weights.most, 1) * weights.unit
        root = ceil(log2(largest) / 2)
        while Fraction(4) ** root < largest:  # logarithms round
            root += 1
        return tuple(self._weighed_bits - one - root for one in (*self._plain_bits, 0))

    @cached_property
    def units(self) -> tuple[Fraction, ...]:
        measures = [one.unit for one in self.measures.design]
        units = [*measures, self.target.unit, Fraction(1)]
        return tuple(
            unit / Fraction(2) ** power
            for unit, power in zip(units, self.powers, strict=True)
        )

    @cached_property
    def layout(self) -> NumberLayout:
        """X'WX, X'Wy, sums of responses, weights and their logarithms, and rows."""
        p, rows = self.n_columns, self.measures.row_bits
        columns, target = self.units[:p], self.units[p]
        one = self.units[-1 if self.ones is None else self.ones]
        bits = sum_bits([max(self.bits)] * 2, rows)
        numbers = [target * target, one * target, one * one, Fraction(1, 2**LOG_BITS)]
        widest = max(bits, sum_bits([LOG_BITS + LOG_WHOLE_BITS], rows))
        *design, response, ones, logs = self.ranges
        further = (response.squared(), ones * response, ones.squared(), logs)
        return NumberLayout(
            (
                layout_symmetric("gram", columns, bits, design),
                layout_vector(
                    "cross",
                    [unit * target for unit in columns],
                    bits,
                    [one * response for one in design],
                ),
                layout_vector("response_and_weights", numbers, widest, further),
                layout_number(
                    "rows", bits=sum_bits([0], rows), row_range=count_range_of_columns()
                ),
            )
        )

    @property
    def ranges(self) -> tuple[RowRange, ...]:
        """Ranges of a row: its columns, target, column of ones and log weight."""
        measures = self.measures
        weights, offset = measures.weights, measures.offset
        design = [centred_range_of_measure(one) for one in measures.design]
        target = centred_range_of_measure(self.target)
        if offset is not None:
            both = union_of_columns(measures.response.columns, offset.columns)
            target = range_within_bits(self._plain_bits[-1], both)
        if weights is None:
            nothing = RowRange(0, 0, ())
            return (*design, target, RowRange(1, 1, ()), nothing)
        reach = 1 << self._weighed_bits
        ones = RowRange(0, reach, weights.columns)
        weighed = [
            RowRange(-reach, reach, union_of_columns(one.columns, weights.columns))
            for one in (*design, target)
        ]
        logs = range_within_bits(LOG_BITS + LOG_WHOLE_BITS, weights.columns)
        return (*weighed, ones, logs)

    def unpack(self, total: Integers) -> LeastSquaresStatistics:
        found = self.layout.unpack(total)
        parts = found["gram"], found["cross"]
        return LeastSquaresStatistics(
            *parts, *map(int, (*found["response_and_weights"], found["rows"]))
        )

    def block(self, block: WholeBlock) -> tuple[WholeRows, WholeColumn, WholeColumn]:
        design, target = block.design, self._target(block)
        one: WholeColumn = np.ones(block.n_rows)
        if block.weights is None:
            return design, target, one
        root = np.sqrt(self.weights(block))
        powers = self.powers
        if self.wide:
            return (
                np.stack(
                    [
                        _weighed_least_squares_column(design[:, k], root, power)
                        for k, power in enumerate(powers[:-2])
                    ],
                    axis=1,
                ),
                _weighed_least_squares_column(target, root, powers[-2]),
                _weighed_least_squares_column(one, root, powers[-1]),
            )
        scale = np.ldexp(1.0, np.array(powers))
        found = design * root[:, None]
        found *= scale[:-2]
        return (
            np.rint(found, out=found),
            np.rint(target * root * scale[-2]),
            np.rint(root * scale[-1]),
        )

    def weights(self, block: WholeBlock) -> Vector:
        """Return the weights of some rows; ones where they have none.

        Raises:
            InvalidInputError: a weight is less than half its unit.
        """
        if block.weights is None or self.measures.weights is None:
            return np.ones(block.n_rows)
        unit, counts = self.measures.weights.unit, block.weights.astype(np.float64)
        if not (counts > 0.0).all():
            raise InvalidInputError(
                f"weights are counted in {unit}, and some are less than half of it: "
                "agree on a finer unit, or leave these rows out",
                code="weights-too-small",
            )
        return np.asarray(counts * float(unit.numerator) / float(unit.denominator))

    def _target(self, block: WholeBlock) -> WholeColumn:
        if block.offset is None or self.measures.offset is None:
            return block.response
        # With an offset the target is never wide.
        unit = self.target.unit
        left = block.response.astype(np.float64)
        left = left * float(self.measures.response.unit / unit)
        right = block.offset.astype(np.float64)
        return np.rint(left - right * float(self.measures.offset.unit / unit))


def _least_squares_python_integers(column: WholeColumn) -> WholeColumn:
    return column if column.dtype == object else column.astype(np.int64).astype(object)


def _weighed_least_squares_column(
    column: WholeColumn, root: Vector, power: int
) -> WholeColumn:
    """Return rint(v sqrt(w) 2^power) in Python integers."""
    exact = np.array([Fraction(one) for one in root.tolist()], dtype=object)
    scaled = _least_squares_python_integers(column) * exact * Fraction(2) ** power
    return np.array([round(one) for one in scaled.tolist()], dtype=object)


@dataclass(frozen=True)
class LeastSquaresStatistics:
    """Sums over the rows of one party, or of all parties, in counts.

    Attributes:
        gram: X'WX.
        cross: X'Wy.
        square: y'Wy.
        response_sum: the sum of w y.
        weight_sum: the sum of the weights; without weights, of ones.
        log_weight_sum: the sum of log w, a constant of the log-likelihood.
    """

    gram: Integers
    cross: Integers
    square: int
    response_sum: int
    weight_sum: int
    log_weight_sum: int
    n_rows: int

    @property
    def moments(self) -> Array[Any]:
        p = len(self.cross)
        found = np.empty((p + 1, p + 1), dtype=object)
        found[:p, :p], found[p, p] = self.gram, self.square
        found[p, :p] = found[:p, p] = self.cross
        return found


def statistics(rows: Rows, measures: RowMeasures) -> Integers:
    """Return one party's vector of statistics; the parties' vectors are to be added.

    The rows are ones that `measures.check` has let pass.
    """
    counting = LeastSquaresCounting(measures)
    p, bits = counting.n_columns, counting.bits
    sums = GramSum(p, limbs_of_bits(max(bits[:p])), limbs_of_bits(bits[p]))
    means = GramSum(1, limbs_of_bits(bits[-1]), limbs_of_bits(bits[p]))
    logs, log_bits = 0, LOG_BITS + LOG_WHOLE_BITS
    noted = None if measures.weights is None else note_row_weights("the sums")
    for block in measures.blocks(rows):
        design, target, ones = counting.block(block)
        sums.add(design, target)
        if counting.ones is None:
            means.add(ones[:, None], target)
        if measures.weights is not None:
            weights = counting.weights(block)
            if noted is not None:
                noted.add(weights)
            scaled = log(weights) * 2.0**LOG_BITS
            logs += total_of_counts(np.rint(scaled), log_bits)
    gram, cross, one = sums.value, sums.cross, counting.ones
    weighed = [means.cross[0], means.value[0, 0]]
    if one is not None:
        weighed = [cross[one], gram[one, one]]
    numbers = np.array([sums.square, *weighed, logs], dtype=object)
    return counting.layout.pack(
        gram=gram, cross=cross, response_and_weights=numbers, rows=rows.n_rows
    )


def least_squares_contributions(rows: Rows, measures: RowMeasures) -> FloatArray:
    """Return each row's part of `statistics`, in its units; rounding of float64 apart.

    Logarithms of weights are left at 0.
    """
    counting = LeastSquaresCounting(measures)
    left, right = np.tril_indices(counting.n_columns)
    found, done = np.zeros((rows.n_rows, counting.layout.size)), 0
    n_products, n_crosses = len(left), counting.n_columns
    for block in measures.blocks(rows):
        design, target, ones = (
            np.asarray(one, dtype=np.float64) for one in counting.block(block)
        )
        part = found[done : done + len(target)]
        gram, cross, rest = np.split(part, [n_products, n_products + n_crosses], axis=1)
        np.multiply(design[:, left], design[:, right], out=gram)
        np.multiply(design, target[:, None], out=cross)
        rest[:, 0], rest[:, 1], rest[:, 2] = target * target, ones * target, ones * ones
        rest[:, 4] = 1.0
        done += len(target)
    return found


@dataclass(frozen=True)
class LeastSquaresFit(Inference):
    """The fit of the pooled rows."""

    model_degrees: float
    residual_degrees: float
    residual_sum: float
    total_sum: float
    has_intercept: bool
    log_weight_sum: float
    n_rows: int
    condition: float
    rounding_bound: Vector

    @property
    def residual_variance(self) -> float:
        """The residual sum over its degrees of freedom, s^2."""
        return self.residual_sum / self.residual_degrees

    @property
    def scale(self) -> float:
        return self.residual_variance

    @property
    def about(self) -> str:
        """Reference of the total sum of squares, where it is not the mean."""
        return "" if self.has_intercept else " (about 0)"

    @property
    def r_squared(self) -> float:
        """1 - residual sum / total sum; nan for a response without any scatter."""
        if self.total_sum == 0.0:
            return np.nan
        return 1.0 - self.residual_sum / self.total_sum

    @property
    def adjusted_r_squared(self) -> float:
        freedom = (self.n_rows - self.has_intercept) / self.residual_degrees
        return 1.0 - freedom * (1.0 - self.r_squared)

    @property
    def log_likelihood(self) -> float:
        """-n/2 (log(2 pi RSS / n) + 1) + sum(log w) / 2; inf for a perfect fit."""
        if self.residual_sum == 0.0:
            return np.inf
        scaled = 2.0 * np.pi * self.residual_sum / self.n_rows
        return float((self.log_weight_sum - self.n_rows * (np.log(scaled) + 1.0)) / 2.0)

    @property
    def aic(self) -> float:
        return 2.0 * (self.model_degrees - self.log_likelihood)

    @property
    def bic(self) -> float:
        """-2 log-likelihood + log(rows) model degrees."""
        return float(np.log(self.n_rows) * self.model_degrees) - (
            2.0 * self.log_likelihood
        )

    @property
    def rounding(self) -> float:
        """The rounding bound beside the coefficient or its error, the worst of them."""
        sizes = np.maximum(np.abs(self.coefficients), self.standard_errors)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nan_to_num(self.rounding_bound / sizes).max())


@dataclass(frozen=True)
class ExactLeastSquares:
    """The totals of a fit in exact numbers, nothing taken off any more.

    Attributes:
        moments: the Gram matrix of the columns and the target, in their units.
        system: X'WX and the ridge, in the columns' units.
    """

    counting: LeastSquaresCounting
    sums: LeastSquaresStatistics
    moments: Array[Any]
    system: InformationSystem
    intercept: int | None

    @classmethod
    def of(
        cls,
        vector: Integers,
        measures: RowMeasures,
        *,
        names: Sequence[str],
        intercept: int | None,
        penalty: Vector,
    ) -> ExactLeastSquares:
        counting = LeastSquaresCounting(measures)
        p, units = counting.n_columns, counting.units
        sums = counting.unpack(vector)
        moments = sums.moments
        _check_least_squares_moments(moments, int(sums.n_rows), measures, names)
        if intercept is not None:
            # In its unit a number was v + k times that of the column of ones.
            for j, shift in enumerate(counting.shifts):
                k = shift * units[intercept] / units[j]
                times = k.numerator if k.denominator == 1 else k
                if times:
                    moments[:, j] += times * moments[:, intercept]
                    moments[j, :] += times * moments[intercept, :]
        ridge = [
            Fraction(one) / unit**2
            for one, unit in zip(penalty.tolist(), units[:p], strict=True)
        ]
        system = InformationSystem.of(moments[:p, :p], names=names, ridge=ridge)
        return cls(counting, sums, moments, system, intercept)

    @property
    def _p(self) -> int:
        return self.counting.n_columns

    @property
    def _units(self) -> tuple[Fraction, ...]:
        return self.counting.units[: self._p + 1]

    @property
    def cross(self) -> list[Any]:
        return list(self.moments[self._p, : self._p])

    def coefficients(self) -> Vector:
        scales = [
            system_number_as_fmpq(self._units[-1] / unit) for unit in self._units[:-1]
        ]

        def balls() -> list[arb]:
            found = self.system.balls(self.cross)
            return [one * scale for one, scale in zip(found, scales, strict=True)]

        def exact() -> list[fmpq]:
            found = self.system.exact(self.cross)
            return [one * scale for one, scale in zip(found, scales, strict=True)]

        return nearest_float_solution(balls, exact)

    @cached_property
    def is_perfect(self) -> bool:
        # A ridge leaves residuals, unless there is nothing to be explained.
        if any(self.system.ridge):
            return not self.moments[self._p, self._p]
        numbers, _ = over_common_denominator(self.moments.ravel().tolist())
        return not is_regular_system_matrix(fmpz_mat(self._p + 1, self._p + 1, numbers))

    def residual_ball(self) -> arb:
        if self.is_perfect:
            return arb(0)
        found, cross = self.system.balls(self.cross), self.cross
        # y'y - b'X'y - b' ridge b, since X'X b = X'y - ridge b
        rest = arb(system_number_as_fmpq(self.moments[self._p, self._p]))
        for b, c, ridge in zip(found, cross, self.system.ridge, strict=True):
            rest -= b * arb(system_number_as_fmpq(c))
            if ridge:
                rest -= b * b * arb(system_number_as_fmpq(ridge))
        return rest * arb(system_number_as_fmpq(self._units[-1] ** 2))

    def covariance(self, left: float) -> Gram:
        if self.is_perfect:
            return np.zeros((self._p, self._p))
        return systems.nearest_float_covariances(
            lambda: self.inverse_balls() * (self.residual_ball() / arb(left))
        )

    def inverse_balls(self) -> arb_mat:
        """Return A^-1 X'WX A^-1 in balls and real units; (X'WX)^-1 without a ridge."""
        scale = system_rows_as_balls(
            np.diag([1 / unit for unit in self._units[:-1]]).tolist()
        )
        return scale * self.system.covariance_balls() * scale

    def means(self) -> Vector:
        """Return the weighted mean of each column; with an intercept only."""
        one = self.intercept
        assert one is not None
        moments, units = self.moments, self._units
        return np.array(
            [
                float(
                    Fraction(moments[one, j])
                    / moments[one, one]
                    * units[j]
                    / units[one]
                )
                for j in range(self._p)
            ]
        )

    def total_sum(self) -> float:
        """Return the sum of w y^2, about the weighted mean with an intercept."""
        y, one = self._p, self.intercept
        found = Fraction(self.moments[y, y])
        if one is not None:
            about = self.moments[one, y]
            found -= Fraction(about * about) / self.moments[one, one]
        return float(found * self._units[-1] ** 2)


@dataclass(frozen=True)
class LeastSquaresRounding:
    """Bounds on changes by counting, as norms over all rows in real units.

    Attributes:
        columns: largest distance of each column from its original numbers.
        target: the same for the response less the offset.
        weights: relative change of the root of a weight.
    """

    columns: Vector
    target: float
    weights: float

    @classmethod
    def of(cls, exact: ExactLeastSquares, centres: Vector) -> LeastSquaresRounding:
        """Return bounds for columns that these centres are taken off, the target last.

        A number that rounds to a multiple of u moves by u / 2 at most, so that all of
        them move by sqrt(sum of w) u / 2; what was declared to be whole does not move.
        A weighed number moves by its own rounding once more. With an intercept, one
        column of weighed ones is taken from the others in multiples.
        """
        counting = exact.counting
        measures, units = counting.measures, counting.units
        n_rows = float(exact.sums.n_rows)
        weight = exact.sums.weight_sum * units[-1] ** 2
        if counting.ones is not None:
            weight = exact.sums.weight_sum * units[counting.ones] ** 2
        root = sqrt(weight)
        moves = [half_unit_of_measure(one) * root for one in measures.design]
        target = half_unit_of_measure(measures.response) * root
        if measures.offset is not None:
            target += half_unit_of_measure(measures.offset) * root
            if (measures.response.unit / counting.target.unit).denominator > 1 or (
                measures.offset.unit / counting.target.unit
            ).denominator > 1:
                target += float(counting.target.unit) * root
        slack = 0.0
        if measures.weights is not None:
            error = 0.5 if counting.wide else WEIGHED_ERROR
            own = [error * float(unit) * sqrt(n_rows) for unit in units]
            least = max(measures.weights.least, 1)
            slack = 2.0**-50
            if measures.weights.rounds:
                slack += 0.5 / (least - 0.5)
            moves = [one + more for one, more in zip(moves, own, strict=False)]
            target += own[-2]
            if counting.ones is not None:
                ones = own[counting.ones]
                gaps = [
                    abs(float(shift) - centre) * ones
                    for shift, centre in zip(
                        counting.shifts, centres.tolist(), strict=True
                    )
                ]
                gaps[counting.ones] = 0.0
                moves = [one + gap for one, gap in zip(moves, gaps, strict=False)]
                target += gaps[-1]
        return cls(np.array(moves) * (1.0 + slack), target * (1.0 + slack), slack)


def half_unit_of_measure(measure: UnitMeasure) -> float:
    return float(measure.unit) / 2.0 if measure.rounds else 0.0


def least_squares_rounding_bound(
    exact: ExactLeastSquares, coefficients: Vector, residual: float
) -> tuple[Vector, float]:
    """Return how far each coefficient is at most from that of the rows before counting.

    The second number is what rounding alone may leave of residuals, in their norm.

    Let X and y be true rows, each times the root of its weight as it was counted, and a
    ridge's roots as rows below. Counted were X~ = X + E and y~ = y + e, each column of
    E at most as long as `LeastSquaresRounding` says. Let b be the true fit and b~ the
    counted one, A = X~'X~ and r = y~ - X~ b~, so that X~'r = 0. Let X have full rank.
    Then X'X d = X'(y - X b~) for d = b - b~. As y - X b~ = r - f, f = e - E b~, X = X~
    - E:

        A d = -E'r - X~'f + E'f + (X~'E + E'X~ - E'E) d.

    Multiply by A^-1. The rows of A^-1 X~' are as long as a_j = sqrt((A^-1)_jj), and
    |(A^-1 E'v)_j| <= q_j |v| with q_j = sum_k |(A^-1)_jk| |E_k|. So

        |d_j| <= a_j (|f| + |E d|) + q_j (|r| + |f| + |X~ d| + |E d|).

    On the right d is small beside b, and a norm will do. With all columns of length 1,
    sigma the least singular value of X~, known from the exact totals, and
    s = sigma - |E|, the least singular value of X is at least s, and from
    d = X+ (r - f) and X'r = -E'r

        |d| <= |f| / s + |E| |r| / s^2.

    Where s is not above 0 the columns may have been dependent before they were rounded,
    and the fit is refused.

    Roots of weights were off by a factor 1 + D with |D| <= t, which moves the fit once
    more. Its residual r^ has |r^| <= |r| + |f|, and with K = (1 + D)^-1 - (1 + D) it
    moves by X+ K r^, at most (2 t + t^2) / (1 - t) |r^| / s (1 + t).

    All this is done with columns about their means, if one is all ones, which changes
    no slope; the intercept moves by what its own column says, and by slopes times
    means. |E| is at most its Frobenius norm. Last, numbers are rounded to float64.
    """
    counting, system = exact.counting, exact.system
    p, moments, one = counting.n_columns, exact.moments, counting.ones
    if one is not None and system.ridge[one]:
        one = None
    # Of each column in its own units, a ridge included, and in real ones.
    means, stretch = np.zeros(p + 1), np.empty(p)
    for j in range(p + 1):
        squares: Fraction = moments[j, j] * Fraction(1)
        if one is not None and j != one:
            mean = Fraction(moments[one, j]) / moments[one, one]
            means[j] = float(mean * counting.units[j] / counting.units[one])
            squares -= mean * moments[one, j]
        if j < p:
            stretch[j] = sqrt(squares + system.ridge[j])
    lengths = stretch * np.array([float(unit) for unit in counting.units[:p]])
    moved = LeastSquaresRounding.of(exact, means)
    rounding = np.abs(coefficients) * 2.0**-52
    if not (moved.columns.any() or moved.target or moved.weights):
        return rounding, 0.0
    columns = moved.columns / lengths
    inverse = system.inverse() * np.outer(stretch, stretch)
    about = coefficients * lengths
    if one is not None:
        # The block of slopes in the inverse is that of columns about their means.
        inverse[one, :] = inverse[:, one] = 0.0
        inverse[one, one], about[one] = 1.0, 0.0
    values, vectors = np.linalg.eigh(inverse)
    spread = float(np.linalg.norm(columns))
    s = 0.999999 / float(np.sqrt(values[-1])) - spread
    if not s > 0.0:
        parts = zip(system.names, np.abs(vectors[:, -1]), strict=True)
        raise dependent_model_columns([name for name, part in parts if part > SHARE], 1)
    left = float(np.abs(about) @ columns) + moved.target
    pull = [
        float(more * unit**2)
        for more, unit in zip(system.ridge, counting.units[:p], strict=True)
    ]
    size = sqrt(residual + float(np.array(pull) @ coefficients**2))
    shift = left / s + spread * size / s**2
    further = spread * shift
    bound = np.sqrt(np.diag(inverse)) * (left + further)
    bound += np.abs(inverse) @ columns * (size + left + sqrt(p) * shift + further)
    t = moved.weights
    bound += (2.0 * t + t * t) / (1.0 - t) * (size + left) * (1.0 + t) / s
    bound /= lengths
    if one is not None:
        bound[one] += float(bound @ np.abs(means[:p]))
    return bound * 1.000001 + rounding, left


def _check_least_squares_moments(
    moments: Array[Any], n_rows: int, measures: RowMeasures, names: Sequence[str]
) -> None:
    """Refuse sums of products that no rows within the agreed ranges have."""
    check_plausible_total("rows", n_rows, 0, 1 << measures.row_bits)
    plain = measures.weights is None and measures.offset is None
    # Weights and offsets change the units; a total then fits the agreed bits.
    widest = 1 << LeastSquaresCounting(measures).layout.bits
    columns = (*measures.design, measures.response)
    largest = [one.reach if plain else widest for one in columns]
    labels = (*names, "the response")
    check_plausible_matrix("products", moments, labels, largest, max(n_rows, 1))


def least_squares_totals(
    vector: Integers,
    measures: RowMeasures,
    *,
    names: Sequence[str] | None = None,
    intercept: int | None = None,
    ridge: float | Sequence[float] | Vector = 0.0,
) -> ExactLeastSquares:
    n_columns = len(measures.design)
    labels = model_column_names(names, n_columns)
    check_model_intercept(intercept, n_columns)
    penalty = ridge_penalties_of_model(ridge, n_columns=n_columns, intercept=intercept)
    if not penalty.any():
        check_model_rows(
            LeastSquaresCounting(measures).unpack(vector).n_rows, n_columns
        )
    return ExactLeastSquares.of(
        vector, measures, names=labels, intercept=intercept, penalty=penalty
    )


def fit(
    vector: Integers,
    measures: RowMeasures,
    *,
    names: Sequence[str] | None = None,
    intercept: int | None = None,
    ridge: float | Sequence[float] | Vector = 0.0,
) -> LeastSquaresFit:
    """Return the least squares fit of all rows whose statistics were added up.

    It minimises sum_i w_i (y_i - x_i b)^2 + sum_j ridge_j b_j^2. The standard errors
    with a ridge are those of the biased estimate,
    s^2 A^-1 X'WX A^-1 with A = X'WX + diag(ridge).

    Args:
        vector: the sum of the parties' statistics.
        measures: how rows were counted.
        names: of the columns, for the table and for errors.
        intercept: which column is all ones, if any.
        ridge: one number for every column but the intercept, or one for each column.

    Raises:
        InvalidInputError: too few rows, or dependent columns, which it names.
    """
    exact = least_squares_totals(
        vector, measures, names=names, intercept=intercept, ridge=ridge
    )
    labels, n_rows, n_columns = exact.system.names, exact.sums.n_rows, len(exact.cross)
    degrees = exact.system.degrees
    check_model_rows(n_rows, degrees)
    left, coefficients = n_rows - degrees, exact.coefficients()
    residual = float(nearest_float_solution(lambda: [exact.residual_ball()])[0])
    bound, rounded = least_squares_rounding_bound(exact, coefficients, residual)
    # Residuals that rounding alone explains are those of a perfect fit.
    perfect = not any(exact.system.ridge) and residual <= rounded**2
    return LeastSquaresFit(
        names=labels,
        coefficients=coefficients,
        covariance=(
            np.zeros((n_columns, n_columns)) if perfect else exact.covariance(left)
        ),
        t_degrees=left,
        model_degrees=degrees,
        residual_degrees=left,
        residual_sum=0.0 if perfect else residual,
        total_sum=exact.total_sum(),
        has_intercept=intercept is not None,
        log_weight_sum=exact.sums.log_weight_sum / 2.0**LOG_BITS,
        n_rows=n_rows,
        condition=exact.system.condition,
        rounding_bound=bound,
    )
