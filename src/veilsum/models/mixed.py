"""Mixed models with a random intercept and slopes per party, from sums at public theta.

With y = X b + Z u + e within each party, u ~ N(0, s^2 T) and T = L L' for a lower
triangle L of numbers theta (lme4's parametrisation), a party's part of the likelihood
needs V = I + Z T Z' of its own rows only. So at a public theta every party gives
log det V and A'V^-1 A for A = [X, y], with their derivatives by the numbers of T; all
of it follows by Woodbury's identity from A'A, and Z is made of columns of X. Everybody
then profiles b and s^2 out of the totals; `theta_search` takes the next theta from the
exact gradient.

A'A is exact, and so is all that follows from it, a logarithm apart: a party's numbers
are rounded once, to a public unit, and do not depend on the order of its rows. theta is
a whole number of a public unit too, by the same few operations on every machine.

As functions of theta such sums have a pole for each party, where its size says: enough
digits of them at different thetas would tell parties apart. So the unit is coarse while
steps are long, and fine only at the end, where all thetas are the same, nearly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, log, pi
from typing import Any, Literal

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat, fmpz

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.inference import Inference
from veilsum.models.least_squares import LeastSquaresCounting, statistics
from veilsum.models.plausible import check_plausible_matrix, check_plausible_total
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.systems import (
    PRECISIONS,
    UNDETERMINED,
    check_model_rows,
    nearest_float_solution,
    system_number_as_fmpq,
)
from veilsum.numbers.arrays import Array, FloatArray, listed_names
from veilsum.numbers.layout import NumberLayout, layout_array, layout_number
from veilsum.numbers.units import (
    Integers,
    bits_of_reach,
    power_of_two_unit,
    square_of_triangle,
)

Method = Literal["reml", "ml"]
Theta = tuple[int, ...]

# Columns are scaled to at most 1 by agreed ranges. Products are rounded to at most so
# many bits behind the point, and to FIRST_BITS in the first sum.
MIXED_BITS, FIRST_BITS = 54, 16
# Second derivatives only say how long a step is: half as many bits do, and a party with
# larger ones gives the largest that is allowed.
SECOND_BITS, MOST_SECOND = MIXED_BITS // 2, 24
# Units of theta, of weights of second derivatives, of roots; and the largest theta.
THETA_BITS, MOST_THETA_BITS = 40, 12
WEIGHT_BITS = 40
ROOT_BITS = 24
# How far from 0, in half its length, the range of a random slope may lie where the
# intercept is not random.
MOST_FAR = 2**10
MOST_RANDOM = 4
# lme4 calls a fit singular where a diagonal of theta is less than this.
SINGULAR = 1e-4


@dataclass(frozen=True)
class MixedModelRequest:
    """Next public request to all parties.

    Attributes:
        theta: in whole numbers of its unit.
        bits: number of bits behind the point to which numbers are rounded.
        root: a lower triangle R, in whole numbers of a unit: derivatives are by S with
            T = R S R', and R makes their sizes alike.
        weights: weights of A's columns in second derivatives, a lower triangle in whole
            numbers of a unit; empty in the first sum.
    """

    theta: Theta
    bits: int
    root: tuple[int, ...]
    weights: tuple[int, ...] = ()

    @property
    def second_bits(self) -> int:
        return self.bits // 2


@dataclass(frozen=True)
class MixedModelCounting:
    """Counting of the numbers of parties; it follows from the agreement.

    Columns are centred at the middle of their ranges, if there is an intercept, and
    divided by a power of two, so that no absolute value exceeds 1.

    Attributes:
        random: the columns whose coefficients differ between parties.
    """

    measures: RowMeasures
    intercept: int | None
    random: tuple[int, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle fields only: exact matrices follow from them."""
        return MixedModelCounting, (self.measures, self.intercept, self.random)

    @property
    def n_columns(self) -> int:
        return len(self.measures.design)

    @property
    def n_theta(self) -> int:
        """Number of entries of theta, a triangle."""
        return len(self.random) * (len(self.random) + 1) // 2

    @cached_property
    def ends(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The agreed range of each column, and of the response last."""
        measures = (*self.measures.design, self.measures.response)
        return tuple((one.least * one.unit, one.most * one.unit) for one in measures)

    @cached_property
    def middles(self) -> tuple[Fraction, ...]:
        if self.intercept is None:
            return (Fraction(0),) * (self.n_columns + 1)
        found = [(low + high) / 2 for low, high in self.ends]
        found[self.intercept] = Fraction(0)
        return tuple(found)

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        reach = [
            max(high - middle, middle - low)
            for (low, high), middle in zip(self.ends, self.middles, strict=True)
        ]
        return tuple(power_of_two_unit(one or Fraction(1), 0) for one in reach)

    @cached_property
    def made(self) -> fmpq_mat:
        """Scaled columns and response, last, of the counts of a row."""
        p, units = self.n_columns, LeastSquaresCounting(self.measures)
        found = fmpq_mat(p + 1, p + 1)
        for j in range(p + 1):
            found[j, j] = system_number_as_fmpq(units.units[j] / self.scales[j])
            if self.intercept is not None and j != self.intercept:
                off = (units.shifts[j] - self.middles[j]) / self.scales[j]
                found[self.intercept, j] = system_number_as_fmpq(off)
        return found

    @cached_property
    def far(self) -> tuple[Fraction, ...]:
        """The middle of each column's range, in its scale."""
        pairs = zip(self.middles, self.scales, strict=True)
        return tuple(middle / scale for middle, scale in pairs)

    @property
    def centred(self) -> bool:
        """Whether random slopes are of columns about their middles.

        With a random intercept that is the same model: T of one is a product of T of
        the other and public matrices.
        """
        return self.intercept in self.random

    @cached_property
    def chosen(self) -> fmpq_mat:
        """Z of X: columns over their scales."""
        found = fmpq_mat(self.n_columns, len(self.random))
        for k, place in enumerate(self.random):
            found[place, k] = fmpq(1)
            if self.intercept is not None and not self.centred:
                found[self.intercept, k] = system_number_as_fmpq(self.far[place])
        return found

    @cached_property
    def unscaled(self) -> fmpq_mat:
        """Real coefficients of scaled ones; the intercept takes up middles."""
        p = self.n_columns
        found = fmpq_mat(p, p)
        for j in range(p):
            found[j, j] = system_number_as_fmpq(1 / self.scales[j])
            if self.intercept is not None and j != self.intercept:
                found[self.intercept, j] = system_number_as_fmpq(-self.far[j])
        return found

    @cached_property
    def unscaled_random(self) -> fmpq_mat:
        """Real random effects of scaled ones."""
        if self.centred:
            return _part_of_mixed_matrix(self.unscaled, self.random, self.random)
        found = fmpq_mat(len(self.random), len(self.random))
        for k, place in enumerate(self.random):
            found[k, k] = system_number_as_fmpq(1 / self.scales[place])
        return found

    def check(self, names: Sequence[str]) -> None:
        distant = [
            names[place] for place in self.random if abs(self.far[place]) > MOST_FAR
        ]
        if distant and not self.centred:
            raise InvalidInputError(
                f"the agreed range of {listed_names(distant)} is far from 0 and short, "
                "so "
                "that its slope cannot be told from an intercept: add 1 to random, or "
                "agree on a column from which a middle is taken off",
                code="slope-like-intercept",
            )

    @cached_property
    def layout(self) -> NumberLayout:
        """Products of columns, log det V, both by theta, rows and parties."""
        p, q, k = self.n_columns + 1, len(self.random), self.n_theta
        unit, second = Fraction(1, 2**MIXED_BITS), Fraction(1, 2**SECOND_BITS)
        n_products, far = p * (p + 1) // 2, 1
        if not self.centred:
            far += max(ceil(abs(self.far[k])) for k in self.random)
        # (Z'V^-1 A)' (dT) (Z'V^-1 A), each number of the first at most rows times far,
        # and no root is larger than the largest theta.
        step = 2 * MOST_THETA_BITS + bits_of_reach(2 * q * q * far * far)
        bits = max(MIXED_BITS + step, SECOND_BITS + MOST_SECOND)
        bits += 2 + 2 * self.measures.row_bits
        return NumberLayout(
            (
                layout_array("mixed_products", n_products, unit, bits),
                layout_number("mixed_log_determinant", unit, bits),
                layout_array("mixed_slopes", (k, n_products + 1), unit, bits),
                layout_array("mixed_curvature", k * (k + 1) // 2, second, bits),
                layout_number("rows"),
                layout_number("parties"),
            )
        )

    def triangle(self, numbers: Sequence[int], bits: int) -> fmpq_mat:
        q, unit = len(self.random), fmpz(2) ** bits
        found = fmpq_mat(q, q)
        for one, place in zip(numbers, theta_triangle_places(q), strict=True):
            found[place] = fmpq(one, unit)
        return found

    def covariance(self, theta: Theta) -> fmpq_mat:
        """Return T of theta."""
        lower = self.triangle(theta, THETA_BITS)
        return lower * lower.transpose()

    def moments(self, rows: Rows) -> fmpq_mat:
        """Return A'A of one party's rows, exactly."""
        p = self.n_columns
        sums = LeastSquaresCounting(self.measures).unpack(
            statistics(rows, self.measures)
        )
        counted = fmpq_mat(p + 1, p + 1)
        for j in range(p):
            for k in range(p):
                counted[j, k] = fmpq(int(sums.gram[j, k]))
            counted[j, p] = counted[p, j] = fmpq(int(sums.cross[j]))
        counted[p, p] = fmpq(sums.square)
        return self.made.transpose() * counted * self.made

    def vector(self, moments: fmpq_mat, n_rows: int, at: MixedModelRequest) -> Integers:
        """Return what one party gives at a theta, from its own A'A.

        With G = Z'Z and P = (I + G T)^-1: log det V is that of I + G T, and
        A'V^-1 A = A'A - (Z'A)' T P Z'A, Z'V^-1 A = P Z'A =: w, Z'V^-1 Z = P G =: K.
        In a direction D of T the derivatives are -w'D w and tr(K D); the second ones,
        along D and E and with weights W of A's columns, tr(D K E (2 w W w' - K)). For
        T = R S R' and directions of S, w and K are R'w and R'K R.
        """
        p, q = self.n_columns, len(self.random)
        columns = _part_of_mixed_matrix(moments, range(p), range(p + 1))
        cross = self.chosen.transpose() * columns  # Z'A
        gram = _part_of_mixed_matrix(cross, range(q), range(p)) * self.chosen
        covariance = self.covariance(at.theta)
        spread = _mixed_identity_matrix(q) + gram * covariance
        inverse = spread.inv()
        weighed = inverse * cross
        products = _rounded_mixed_matrix(
            moments - cross.transpose() * covariance * weighed, at.bits
        )
        root = self.triangle(at.root, ROOT_BITS)
        weighed = root.transpose() * weighed
        within = root.transpose() * inverse * gram * root
        directions, slopes = _mixed_theta_directions(q), []
        for (i, j), direction in zip(theta_triangle_places(q), directions, strict=True):
            for a in range(p + 1):
                for b in range(a + 1):
                    product = weighed[i, a] * weighed[j, b]
                    if i != j:
                        product += weighed[j, a] * weighed[i, b]
                    slopes.append(_round_mixed_number(-product, at.bits))
            slopes.append(
                _round_mixed_number(_mixed_matrix_trace(direction * within), at.bits)
            )
        rest = -within
        if at.weights:
            weights = _symmetric_mixed_matrix(at.weights, p + 1, fmpz(2) ** WEIGHT_BITS)
            rest += weighed * weights * weighed.transpose() * 2
        moved = [(one * within, one * rest) for one in directions]
        most, curvature = 1 << MOST_SECOND + SECOND_BITS, []
        for k, (left, _) in enumerate(moved):
            for _, right in moved[: k + 1]:
                second = _round_mixed_number(
                    _mixed_matrix_trace(left * right), at.second_bits, SECOND_BITS
                )
                curvature.append(max(min(second, most), -most))
        return self.layout.pack(
            mixed_products=np.array(products, dtype=object),
            mixed_log_determinant=_rounded_mixed_logarithm(spread.det(), at.bits),
            mixed_slopes=np.array(slopes, dtype=object).reshape(len(directions), -1),
            mixed_curvature=np.array(curvature, dtype=object),
            rows=n_rows,
            parties=1,
        )


def theta_triangle_places(q: int) -> list[tuple[int, int]]:
    return [(i, j) for j in range(q) for i in range(j, q)]


def _mixed_theta_directions(q: int) -> list[fmpq_mat]:
    """Return how T changes with each of its numbers, in theta's order."""
    found = []
    for i, j in theta_triangle_places(q):
        direction = fmpq_mat(q, q)
        direction[i, j] = direction[j, i] = fmpq(1)
        found.append(direction)
    return found


def _mixed_identity_matrix(n: int) -> fmpq_mat:
    return fmpq_mat(n, n, [fmpq(int(i == j)) for i in range(n) for j in range(n)])


def _mixed_matrix_trace(matrix: fmpq_mat) -> fmpq:
    return sum((matrix[k, k] for k in range(matrix.nrows())), fmpq(0))


def _round_mixed_number(number: fmpq, bits: int, finest: int = MIXED_BITS) -> int:
    """Return a number rounded to a coarse unit, in whole numbers of the finest."""
    over = 2 * number.q
    return int(((number.p << bits + 1) + number.q) // over) << (finest - bits)


def _rounded_mixed_matrix(matrix: fmpq_mat, bits: int) -> list[int]:
    n = matrix.nrows()
    return [
        _round_mixed_number(matrix[j, k], bits) for j in range(n) for k in range(j + 1)
    ]


def _rounded_mixed_logarithm(number: fmpq, bits: int) -> int:
    """Return the logarithm, rounded from its exact value.

    The logarithm of a fraction other than 1 is no fraction, so some precision tells.
    """
    if number == 1:
        return 0
    for precision in PRECISIONS:
        with ctx.workprec(precision):
            ball = arb(number).log() * 2**bits + 0.5
            found = ball.floor().unique_fmpz()
            if found is not None:
                return int(found) << (MIXED_BITS - bits)
    raise NumericalError(UNDETERMINED, code="undetermined")


# What follows from totals


@dataclass(frozen=True)
class MixedModelProfile:
    """The criterion at one theta, with everything else at its best.

    All derivatives are by S with T = R S R', and R is `root`.

    Attributes:
        at: where, for columns over their scales.
        covariance: S.
        criterion: -2 log-likelihood, or REML's; for scaled columns.
        gradient: of the criterion, in theta's order.
        second: its second derivatives, as good as the weights in `at` are.
        products: A'V^-1 A.
        changes: minus the derivatives of these products.
        spread: R'Z'V^-1 Z R.
        weights: of products in the gradient.
        fixed: X'V^-1 X of scaled columns.
        coefficients: of scaled columns, exact.
        residual: y'V^-1 y less what the coefficients explain.
    """

    at: MixedModelRequest
    root: fmpq_mat
    covariance: fmpq_mat
    criterion: float
    gradient: tuple[float, ...]
    second: tuple[tuple[float, ...], ...]
    products: fmpq_mat
    changes: tuple[fmpq_mat, ...]
    spread: fmpq_mat
    weights: fmpq_mat
    fixed: fmpq_mat
    coefficients: tuple[fmpq, ...]
    residual: fmpq
    n_rows: int
    n_parties: int

    @cached_property
    def reach(self) -> float:
        """A bound for how much rounding of one number changes the gradient.

        For steps of the size of `spread`'s inverse, as those of a search are.
        """
        p = len(self.coefficients)
        found = 1.0
        for a in range(p + 1):
            for b in range(p + 1):
                found += abs(mixed_model_float(self.weights[a, b]))
        return found


@dataclass(frozen=True)
class MixedModel:
    """A mixed model as all parties know it.

    Attributes:
        mixing: how parties count.
        names: of the columns.
        method: which criterion theta minimises.
    """

    mixing: MixedModelCounting
    names: tuple[str, ...]
    method: Method

    def degrees(self, n_rows: int) -> int:
        return n_rows - len(self.names) if self.method == "reml" else n_rows

    def _check_possible(self, at: MixedModelRequest, parts: Mapping[str, Any]) -> None:
        """Refuse a total that no rows within the agreed ranges have."""
        n_rows, n_parties = parts["rows"], parts["parties"]
        check_plausible_total("rows", n_rows, 0, 1 << self.mixing.measures.row_bits)
        check_plausible_total("parties", n_parties, 0, n_rows)
        p = len(self.names) + 1
        # A party rounds once, and V^-1 shortens columns, none of which is beyond 1.
        rounding = n_parties << MIXED_BITS - at.bits
        largest, labels = [1 << MIXED_BITS // 2] * p, (*self.names, "the response")
        products = square_of_triangle(parts["mixed_products"], p)
        check_plausible_matrix("X'V^-1X", products, labels, largest, n_rows, rounding)
        reach = 1 << self.mixing.layout.bits
        check_plausible_total(
            "log det V", parts["mixed_log_determinant"], -rounding, reach
        )
        most = n_parties << MOST_SECOND + SECOND_BITS
        for one in parts["mixed_curvature"].tolist():
            check_plausible_total("second derivatives", int(one), -most, most)
        places = theta_triangle_places(len(self.mixing.random))
        slopes = zip(places, parts["mixed_slopes"], strict=True)
        for k, ((i, j), block) in enumerate(slopes, start=1):
            if i == j:
                moved, what = (
                    square_of_triangle(-block[:-1], p),
                    f"derivatives by theta {k}",
                )
                check_plausible_matrix(
                    what, moved, labels, [reach] * p, n_rows, rounding
                )

    def profile(
        self, at: MixedModelRequest, total: Integers
    ) -> MixedModelProfile | None:
        """Return the criterion and its derivatives from the parties' sum.

        None where units are too coarse to tell.

        Raises:
            InvalidInputError: too few rows, dependent columns, or a perfect fit.
        """
        p, q = len(self.names), len(self.mixing.random)
        parts = self.mixing.layout.unpack(total)
        n_rows, n_parties = parts["rows"], parts["parties"]
        self._check_possible(at, parts)
        check_model_rows(n_rows, p + 1)
        n_theta, unit = self.mixing.n_theta, fmpz(2) ** MIXED_BITS
        sums = _symmetric_mixed_matrix(parts["mixed_products"], p + 1, unit)
        changes, spread, slopes = [], fmpq_mat(q, q), parts["mixed_slopes"]
        for (i, j), block in zip(theta_triangle_places(q), slopes, strict=True):
            changes.append(_symmetric_mixed_matrix(-block, p + 1, unit))
            trace = fmpq(int(block[-1]), unit)
            spread[i, j] = spread[j, i] = trace if i == j else trace / 2
        fixed = _part_of_mixed_matrix(sums, range(p), range(p))
        flat = [name for k, name in enumerate(self.names) if not fixed[k, k] > 0]
        if flat or fixed.det() <= 0 or not _mixed_matrix_is_definite(spread):
            if at.bits < MIXED_BITS:
                return None
            raise InvalidInputError(
                f"the columns {listed_names(flat or list(self.names))} are linearly "
                "dependent or 0, so their coefficients are not determined: leave out "
                "one of them",
                code="dependent-columns",
            )
        found, residual = _solve_mixed_products(sums)
        if not residual > system_number_as_fmpq(
            Fraction(8 * n_parties * (p + 1), 2**at.bits)
        ):
            if at.bits < MIXED_BITS:
                return None
            raise InvalidInputError(
                "the fit is perfect as far as agreed units tell: there is no variance "
                "to divide between parties and rows",
                code="perfect-fit",
            )
        n = self.degrees(n_rows)
        about = fmpq_mat(p + 1, 1, [*(-found[k, 0] for k in range(p)), fmpq(1)])
        weights = about * about.transpose() * (n / residual)
        if self.method == "reml":
            inverse = fixed.inv()
            for a in range(p):
                for b in range(p):
                    weights[a, b] += inverse[a, b]
        moved = [one * about for one in changes]
        gradient = [
            _mixed_matrix_trace(direction * spread)
            - _mixed_matrix_trace(weights * change)
            for direction, change in zip(
                _mixed_theta_directions(q), changes, strict=True
            )
        ]

        def criterion() -> list[arb]:
            value = arb(fmpq(parts["mixed_log_determinant"], unit))
            value += arb(residual / n).log() * n
            if self.method == "reml":
                value += arb(fixed.det()).log()
            return [value]

        # Second derivatives at fixed coefficients and s^2, and what following these
        # takes off.
        second = _symmetric_mixed_matrix(
            parts["mixed_curvature"], n_theta, fmpz(2) ** SECOND_BITS
        )
        along = [(about.transpose() * one)[0, 0] for one in moved]
        bent = [_part_of_mixed_matrix(one, range(p), [0]) for one in moved]
        turned = [fixed.solve(one) for one in bent]
        designs = []
        if self.method == "reml":
            designs = [
                fixed.solve(_part_of_mixed_matrix(one, range(p), range(p))).entries()
                for one in changes
            ]
        rows = [[0.0] * n_theta for _ in range(n_theta)]
        for j in range(n_theta):
            for k in range(j + 1):
                value = second[j, k] - along[j] * along[k] * n / (residual * residual)
                value -= (bent[j].transpose() * turned[k])[0, 0] * 2 * n / residual
                if designs:
                    value -= sum(
                        (
                            designs[j][a * p + b] * designs[k][b * p + a]
                            for a in range(p)
                            for b in range(p)
                        ),
                        fmpq(0),
                    )
                rows[j][k] = rows[k][j] = mixed_model_float(value)
        root = self.mixing.triangle(at.root, ROOT_BITS)
        return MixedModelProfile(
            at=at,
            root=root,
            covariance=random_effects_covariance(
                root, self.mixing.covariance(at.theta)
            ),
            criterion=float(nearest_float_solution(criterion)[0]),
            gradient=tuple(mixed_model_float(one) for one in gradient),
            second=tuple(tuple(row) for row in rows),
            products=sums,
            changes=tuple(changes),
            spread=spread,
            weights=weights,
            fixed=fixed,
            coefficients=tuple(found[k, 0] for k in range(p)),
            residual=residual,
            n_rows=n_rows,
            n_parties=n_parties,
        )

    def moved(self, here: MixedModelProfile, theta: Theta) -> MixedModelProfile:
        """Return the profile at a theta so near that no further sum is needed.

        The products change as those of equal parties with the same derivatives do,
        which is wrong by the square of the step only.
        """
        p = len(self.names)
        covariance = random_effects_covariance(here.root, self.mixing.covariance(theta))
        step = covariance - here.covariance
        equal = here.spread.inv() * fmpq(here.n_parties)
        change = equal * (equal + step).inv() * equal - equal
        products = fmpq_mat(here.products)
        slope = 0.0
        places = theta_triangle_places(len(self.mixing.random))
        for k, (i, j) in enumerate(places):
            products += here.changes[k] * change[i, j]
            slope += here.gradient[k] * mixed_model_float(step[i, j])
        found, residual = _solve_mixed_products(products)
        return replace(
            here,
            at=replace(here.at, theta=theta),
            covariance=covariance,
            criterion=here.criterion + slope / 2.0,
            products=products,
            fixed=_part_of_mixed_matrix(products, range(p), range(p)),
            coefficients=tuple(found[k, 0] for k in range(p)),
            residual=residual,
        )

    def fit(self, best: MixedModelProfile, rounds: int) -> MixedFit:
        mixing, n = self.mixing, self.degrees(best.n_rows)
        p, response = len(self.names), mixing.scales[len(self.names)]
        scaled = fmpq_mat(p, 1, list(best.coefficients)) * system_number_as_fmpq(
            response
        )
        coefficients = mixing.unscaled * scaled
        if mixing.intercept is not None:
            coefficients[mixing.intercept, 0] += system_number_as_fmpq(
                mixing.middles[p]
            )
        variance = best.residual / n * system_number_as_fmpq(response) ** 2
        back, apart = mixing.unscaled, mixing.unscaled_random
        random = mixing.covariance(best.at.theta)
        logs = n * (1.0 + log(2.0 * pi)) + 2.0 * n * log(response)
        if self.method == "reml":
            logs += 2.0 * sum(log(one) for one in mixing.scales[:p])
        places = theta_triangle_places(len(mixing.random))
        diagonal = [place for place, (i, j) in enumerate(places) if i == j]
        least = min(abs(best.at.theta[place]) for place in diagonal) / 2.0**THETA_BITS
        return MixedFit(
            names=self.names,
            coefficients=_mixed_matrix_floats(coefficients)[:, 0],
            covariance=_mixed_matrix_floats(
                back * best.fixed.inv() * back.transpose() * variance
            ),
            t_degrees=None,
            random=tuple(self.names[k] for k in mixing.random),
            random_covariance=_mixed_matrix_floats(
                apart * random * apart.transpose() * variance
            ),
            residual_variance=mixed_model_float(variance),
            criterion=best.criterion + logs,
            method=self.method,
            n_rows=best.n_rows,
            n_parties=best.n_parties,
            rounds=rounds,
            singular=least < SINGULAR,
        )


@dataclass(frozen=True)
class MixedFit(Inference):
    """A mixed model of all parties' rows.

    The normal law is used for fixed effects: no degrees of freedom are claimed.
    """

    random: tuple[str, ...]
    random_covariance: FloatArray
    residual_variance: float
    criterion: float
    method: Method
    n_rows: int
    n_parties: int
    rounds: int
    singular: bool

    @property
    def log_likelihood(self) -> float:
        """Half the criterion, negative; restricted under REML."""
        return -self.criterion / 2.0

    @property
    def n_parameters(self) -> int:
        """Fixed effects, variances and covariances of random ones, and s^2."""
        q = len(self.random)
        return len(self.names) + q * (q + 1) // 2 + 1

    @property
    def aic(self) -> float:
        return self.criterion + 2.0 * self.n_parameters

    @property
    def bic(self) -> float:
        """-2 log-likelihood + log(rows) parameters."""
        return self.criterion + log(self.n_rows) * self.n_parameters

    @property
    def icc(self) -> float | None:
        """The share of an intercept's variance in all; None with random slopes."""
        if len(self.random) > 1:
            return None
        between = float(self.random_covariance[0, 0])
        return between / (between + self.residual_variance)

    @property
    def boundary(self) -> str:
        """Where a singular estimate lies, and what to do, in words."""
        least = SINGULAR**2 * self.residual_variance
        if len(self.random) == 1:
            return (
                "the variance between parties is 0. Without it this is a regression: "
                "use vs.fit, or [model] in a file"
            )
        flat = [
            name
            for k, name in enumerate(self.random)
            if self.random_covariance[k, k] < least
        ]
        if flat:
            which = "variance" if len(flat) == 1 else "variances"
            verb = "is" if len(flat) == 1 else "are"
            return (
                f"the {which} of {listed_names(flat)} between parties {verb} 0. Leave "
                f"{listed_names(flat)} out of random"
            )
        if len(self.random) == 2:
            sign = "1" if self.random_covariance[1, 0] > 0.0 else "-1"
            return (
                f"the correlation of {listed_names(list(self.random))} is {sign}, so "
                "that "
                "each follows from the other. Leave one of them out of random"
            )
        return (
            "a random effect is a combination of the others. Leave one of them out of "
            "random"
        )

    @property
    def correlations(self) -> FloatArray:
        """Correlations of random effects; nan where one of two does not vary."""
        roots = np.sqrt(np.diag(self.random_covariance))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.random_covariance / np.outer(roots, roots))


def _solve_mixed_products(products: fmpq_mat) -> tuple[fmpq_mat, fmpq]:
    p = products.nrows() - 1
    right = _part_of_mixed_matrix(products, range(p), [p])
    found = _part_of_mixed_matrix(products, range(p), range(p)).solve(right)
    return found, products[p, p] - (right.transpose() * found)[0, 0]


def random_effects_covariance(root: fmpq_mat, covariance: fmpq_mat) -> fmpq_mat:
    back = root.inv()
    return back * covariance * back.transpose()


def _symmetric_mixed_matrix(
    numbers: Sequence[int] | Array[Any], n: int, unit: fmpz
) -> fmpq_mat:
    """Return a matrix from its lower triangle, in whole numbers over `unit`."""
    found, flat = fmpq_mat(n, n), iter(numbers)
    for j in range(n):
        for k in range(j + 1):
            found[j, k] = found[k, j] = fmpq(int(next(flat)), unit)
    return found


def _mixed_matrix_is_definite(matrix: fmpq_mat) -> bool:
    n = matrix.nrows()
    return all(
        _part_of_mixed_matrix(matrix, range(k), range(k)).det() > 0
        for k in range(1, n + 1)
    )


def _part_of_mixed_matrix(
    matrix: fmpq_mat, rows: Sequence[int], columns: Sequence[int]
) -> fmpq_mat:
    chosen = [matrix[j, k] for j in rows for k in columns]
    return fmpq_mat(len(rows), len(columns), chosen)


def mixed_model_float(number: fmpq) -> float:
    return int(number.p) / int(number.q)


def _mixed_matrix_floats(matrix: fmpq_mat) -> FloatArray:
    flat = [mixed_model_float(one) for one in matrix.entries()]
    return np.array(flat).reshape(matrix.nrows(), matrix.ncols())
