"""Mixed models with a random intercept and slopes per party, from sums at public theta.

With y = X b + Z u + e within each party, u ~ N(0, s^2 T) and T = L L' for a lower
triangle L of numbers theta (lme4's parametrisation), a party's part of the likelihood
needs V = I + Z T Z' of its own rows only. So at a public theta every party gives
log det V and A'V^-1 A for A = [X, y], with their derivatives; all of it follows by
Woodbury's identity from A'A, and Z is made of columns of X. Everybody then profiles b
and s^2 out of the totals, and takes the next theta from the exact gradient (BFGS).

A'A is exact, and so is all that follows from it, a logarithm apart: a party's numbers
are rounded once, to a public unit, and do not depend on the order of its rows. theta is
a whole number of a public unit too, by the same few operations on every machine.

As functions of theta such sums have a pole for each party, where its size says: enough
digits of them at different thetas would tell parties apart. So the unit is coarse while
steps are long, and fine only at the end, where all thetas are the same, nearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, frexp, log, pi
from typing import Any, Literal

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat, fmpz

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.inference import Inference
from veilsum.models.least_squares import Counting, Statistics, statistics
from veilsum.models.plausible import check_matrix, check_total
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.systems import PRECISIONS, UNDETERMINED, check_rows, pinned
from veilsum.numbers.arrays import Array, FloatArray, listed
from veilsum.numbers.units import Counts, Integers, bits_of, power_unit, square

Method = Literal["reml", "ml"]
Theta = tuple[int, ...]

# Columns are scaled to at most 1 by agreed ranges. Products keep few bits at first
# and, for each halving of the step, two more; more, too, where residuals are small
# beside the range of the response. So many at most.
MIXED_BITS = 46
FIRST_BITS, LAST_BITS, MORE_BITS = 12, 38, 8
# Residuals' variance beside the squared half of the agreed range, as usual.
USUAL = 0.03
# The expected information only says how long a step is: a few digits of it do.
INFORMATION_BITS = 4
# What theta is a whole number of, and the most it may be.
THETA_BITS, MOST_THETA_BITS = 40, 10
# How far from 0, in half its length, a range with a random slope may lie.
MOST_FAR = 2**10
MOST_RANDOM = 4
# A step that is less is none: in columns of length 1, where theta is about 1; and what
# is so small on theta's diagonal is 0.
SMALL_STEP = 1e-9
NOTHING = 1e-6
# A longer step leads to where second derivatives are others.
LONG_STEP = 0.02
# How far apart criteria are that rounding may have exchanged, in parties' units.
FLAT = 100.0
# A step that is not much less than the last one is due to rounding, if it is so small.
STALLED = 1e-6
# lme4 calls a fit singular where a diagonal of theta is less than this.
SINGULAR = 1e-4


@dataclass(frozen=True)
class At:
    """What all parties are asked for next.

    Attributes:
        theta: in whole numbers of its unit.
        bits: to how many behind the point numbers are rounded.
    """

    theta: Theta
    bits: int


@dataclass(frozen=True)
class Mixing:
    """How parties count what they give; it follows from what all agreed on.

    Columns are taken about the middle of their ranges, if there is an intercept, and
    divided by a power of two, so that no number is beyond 1.

    Attributes:
        measures: of the numbers of a row.
        intercept: which column is all ones, if any.
        random: the columns whose coefficients differ between parties.
    """

    measures: RowMeasures
    intercept: int | None
    random: tuple[int, ...]

    @property
    def n_columns(self) -> int:
        """The number p of columns."""
        return len(self.measures.design)

    @property
    def n_theta(self) -> int:
        """How many numbers theta has: a triangle."""
        return len(self.random) * (len(self.random) + 1) // 2

    @cached_property
    def ends(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The agreed range of each column, and of the response last."""
        measures = (*self.measures.design, self.measures.response)
        return tuple((one.least * one.unit, one.most * one.unit) for one in measures)

    @cached_property
    def middles(self) -> tuple[Fraction, ...]:
        """What is taken off each column and the response."""
        if self.intercept is None:
            return (Fraction(0),) * (self.n_columns + 1)
        found = [(low + high) / 2 for low, high in self.ends]
        found[self.intercept] = Fraction(0)
        return tuple(found)

    @cached_property
    def scales(self) -> tuple[Fraction, ...]:
        """What each column and the response is divided by."""
        reach = [
            max(high - middle, middle - low)
            for (low, high), middle in zip(self.ends, self.middles, strict=True)
        ]
        return tuple(power_unit(one or Fraction(1), 0) for one in reach)

    @cached_property
    def made(self) -> fmpq_mat:
        """Scaled columns and response, last, of the counts of a row."""
        p, units = self.n_columns, Counting(self.measures)
        found = fmpq_mat(p + 1, p + 1)
        for j in range(p + 1):
            found[j, j] = _q(units.units[j] / self.scales[j])
            if self.intercept is not None and j != self.intercept:
                off = (units.shifts[j] - self.middles[j]) / self.scales[j]
                found[self.intercept, j] = _q(off)
        return found

    @cached_property
    def far(self) -> tuple[Fraction, ...]:
        """The middle of each column's range, in its scale."""
        pairs = zip(self.middles, self.scales, strict=True)
        return tuple(middle / scale for middle, scale in pairs)

    @cached_property
    def chosen(self) -> fmpq_mat:
        """Z of X: real columns, over their scales."""
        found = fmpq_mat(self.n_columns, len(self.random))
        for k, place in enumerate(self.random):
            found[place, k] = fmpq(1)
            if self.intercept is not None and place != self.intercept:
                found[self.intercept, k] = _q(self.far[place])
        return found

    def check(self, names: Sequence[str]) -> None:
        """Refuse what no theta can be found for."""
        distant = [
            names[place] for place in self.random if abs(self.far[place]) > MOST_FAR
        ]
        if distant:
            raise InvalidInputError(
                f"the agreed range of {listed(distant)} is far from 0 and short, so "
                "that its slope cannot be told from an intercept: agree on a column "
                "from which a middle is taken off"
            )

    @cached_property
    def counts(self) -> Counts:
        """What the numbers of a vector count."""
        p, q = self.n_columns + 1, len(self.random)
        unit = Fraction(1, 2**MIXED_BITS)
        n = (p * (p + 1) // 2 + 1) * (1 + self.n_theta)
        n_information = self.n_theta * (self.n_theta + 1) // 2
        far = max((ceil(abs(self.far[k])) + 1 for k in self.random), default=1)
        # (Z'V^-1 A)' (dT) (Z'V^-1 A), each number of the first at most rows times far.
        step = MOST_THETA_BITS + bits_of(2 * q * q * far * far)
        # And tr(dT B dT B) with B = Z'V^-1 Z.
        bits = max(MIXED_BITS + step, INFORMATION_BITS + 2 * step)
        information = (Fraction(1, 2**INFORMATION_BITS),) * n_information
        return Counts(
            (*(unit,) * n, *information, Fraction(1), Fraction(1)),
            bits + 2 + 2 * self.measures.row_bits,
        )

    def triangle(self, theta: Sequence[Fraction]) -> fmpq_mat:
        """Return L of theta, column by column."""
        q, numbers = len(self.random), iter(theta)
        found = fmpq_mat(q, q)
        for j in range(q):
            for i in range(j, q):
                found[i, j] = _q(next(numbers))
        return found

    def moments(self, rows: Rows) -> fmpq_mat:
        """Return A'A of one party's rows, exactly."""
        p = self.n_columns
        sums = Statistics.unpack(statistics(rows, self.measures), p)
        counted = fmpq_mat(p + 1, p + 1)
        for j in range(p):
            for k in range(p):
                counted[j, k] = fmpq(int(sums.gram[j, k]))
            counted[j, p] = counted[p, j] = fmpq(int(sums.cross[j]))
        counted[p, p] = fmpq(sums.square)
        return self.made.transpose() * counted * self.made

    def vector(self, moments: fmpq_mat, n_rows: int, at: At) -> Integers:
        """Return what one party gives at a theta, from its own A'A.

        With G = Z'Z and P = (I + G T)^-1: log det V is that of I + G T, and
        A'V^-1 A = A'A - (Z'A)' T P Z'A, Z'V^-1 A = P Z'A, Z'V^-1 Z = P G.
        """
        p, q = self.n_columns, len(self.random)
        columns = fmpq_mat(
            p, p + 1, [moments[j, k] for j in range(p) for k in range(p + 1)]
        )
        cross = self.chosen.transpose() * columns  # Z'A
        design = fmpq_mat(q, p, [cross[j, k] for j in range(q) for k in range(p)])
        gram = design * self.chosen
        lower = self.triangle([Fraction(one, 2**THETA_BITS) for one in at.theta])
        one = fmpq_mat(q, q, [fmpq(int(i == j)) for i in range(q) for j in range(q)])
        covariance = lower * lower.transpose()
        spread = one + gram * covariance
        inverse = spread.inv()
        weighed = inverse * cross
        found = _rounded(moments - cross.transpose() * covariance * weighed, at.bits)
        found.append(_log(spread.det(), at.bits))
        within, moved = inverse * gram, []
        for place in _triangle(q):
            step = fmpq_mat(q, q)
            step[place[0], place[1]] = fmpq(1)
            change = step * lower.transpose() + lower * step.transpose()
            found += _rounded(-(weighed.transpose() * change * weighed), at.bits)
            moved.append(change * within)
            found.append(_round(_trace(moved[-1]), at.bits))
        found += [
            round(_fraction(_trace(left * right)) * 2**INFORMATION_BITS)
            for j, left in enumerate(moved)
            for right in moved[: j + 1]
        ]
        return np.array([*found, n_rows, 1], dtype=object)


def _triangle(q: int) -> list[tuple[int, int]]:
    """Return the places of theta in L: a lower triangle, column by column."""
    return [(i, j) for j in range(q) for i in range(j, q)]


def _q(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)


def _trace(matrix: fmpq_mat) -> fmpq:
    return sum((matrix[k, k] for k in range(matrix.nrows())), fmpq(0))


def _round(number: fmpq, bits: int) -> int:
    """Return a number rounded to a coarse unit, in whole numbers of the finest."""
    return round(_fraction(number) * 2**bits) << (MIXED_BITS - bits)


def _rounded(matrix: fmpq_mat, bits: int) -> list[int]:
    """Return the lower triangle of a symmetric matrix, rounded."""
    n = matrix.nrows()
    return [_round(matrix[j, k], bits) for j in range(n) for k in range(j + 1)]


def _log(number: fmpq, bits: int) -> int:
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
    raise NumericalError(UNDETERMINED)


# What follows from totals


@dataclass(frozen=True)
class Profile:
    """The criterion at one theta, with everything else at its best.

    Attributes:
        at: where, for columns over their scales.
        criterion: -2 log-likelihood, or REML's; for scaled columns.
        gradient: of the criterion.
        information: its second derivatives, as expected.
        fixed: X'V^-1 X of scaled columns.
        coefficients: of scaled columns, exact.
        residual: y'V^-1 y less what the coefficients explain.
        n_rows: of all parties.
        n_parties: that gave something.
    """

    at: At
    criterion: float
    gradient: tuple[float, ...]
    information: fmpq_mat
    fixed: fmpq_mat
    coefficients: tuple[fmpq, ...]
    residual: fmpq
    n_rows: int
    n_parties: int

    @property
    def more_bits(self) -> int:
        """How many more bits residuals of this size need than usual ones do."""
        return max(0, frexp(USUAL * self.n_rows / _float(self.residual))[1])

    @property
    def first_bits(self) -> int:
        """To how many bits numbers are rounded while steps are long."""
        return min(FIRST_BITS + self.more_bits, MIXED_BITS)

    @property
    def last_bits(self) -> int:
        """And at the end."""
        return min(LAST_BITS + self.more_bits, MIXED_BITS)


@dataclass(frozen=True)
class MixedModel:
    """A mixed model as all parties know it.

    Attributes:
        mixing: how parties count.
        names: of the columns.
        method: which criterion theta minimises.
    """

    mixing: Mixing
    names: tuple[str, ...]
    method: Method

    def degrees(self, n_rows: int) -> int:
        """Return what the residual sum is divided by."""
        return n_rows - len(self.names) if self.method == "reml" else n_rows

    def _check_possible(self, at: At, total: Integers) -> None:
        """Refuse a total that no rows within the agreed ranges have."""
        n_rows, n_parties = int(total[-2]), int(total[-1])
        check_total("rows", n_rows, 0, 1 << self.mixing.measures.row_bits)
        check_total("parties", n_parties, 0, n_rows)
        p, n_theta = len(self.names) + 1, self.mixing.n_theta
        size = p * (p + 1) // 2
        # A party rounds once, and V^-1 shortens columns, none of which is beyond 1.
        rounding = n_parties << MIXED_BITS - at.bits
        largest, labels = [1 << MIXED_BITS // 2] * p, (*self.names, "the response")
        products = square(total[:size], p)
        check_matrix("X'V^-1X", products, labels, largest, n_rows, rounding)
        most = 1 << self.mixing.counts.bits
        check_total("log det V", int(total[size]), -rounding, most)
        thetas = [f"theta {k + 1}" for k in range(n_theta)]
        information = square(total[(n_theta + 1) * (size + 1) : -2], n_theta)
        reach = [1 << self.mixing.counts.bits] * n_theta
        check_matrix("information", information, thetas, reach, n_rows, n_parties)

    def profile(self, at: At, total: Integers) -> Profile | None:
        """Return the criterion and its gradient from the parties' sum.

        None where units are too coarse to tell.

        Raises:
            InvalidInputError: too few rows, dependent columns, or a perfect fit.
        """
        p, size = len(self.names), (len(self.names) + 1) * (len(self.names) + 2) // 2
        n_rows, n_parties = int(total[-2]), int(total[-1])
        self._check_possible(at, total)
        check_rows(n_rows, p + 1)
        n_theta, width = self.mixing.n_theta, size + 1
        blocks = [total[k * width : (k + 1) * width] for k in range(n_theta + 1)]
        sums, change = _matrix(blocks[0], p + 1), blocks[1:]
        fixed = _part(sums, range(p), range(p))
        right = _part(sums, range(p), [p])
        flat = [name for k, name in enumerate(self.names) if not fixed[k, k] > 0]
        if flat or fixed.det() <= 0:
            if at.bits < MIXED_BITS:
                return None
            raise InvalidInputError(
                f"the columns {listed(flat or list(self.names))} are linearly "
                "dependent or 0, so their coefficients are not determined: leave out "
                "one of them"
            )
        found = fixed.solve(right)
        residual = sums[p, p] - (right.transpose() * found)[0, 0]
        if not residual > _q(Fraction(8 * n_parties * (p + 1), 2**at.bits)):
            if at.bits < MIXED_BITS:
                return None
            raise InvalidInputError(
                "the fit is perfect as far as agreed units tell: there is no variance "
                "to divide between parties and rows"
            )
        n = self.degrees(n_rows)
        about = fmpq_mat(p + 1, 1, [*(-found[k, 0] for k in range(p)), fmpq(1)])
        gradient = []
        for block in change:
            moved = _matrix(block, p + 1)
            part = _unit(block[-1])
            part += (about.transpose() * moved * about)[0, 0] * n / residual
            if self.method == "reml":
                part += _trace(fixed.solve(_part(moved, range(p), range(p))))
            gradient.append(_float(part))

        def criterion() -> list[arb]:
            value = arb(_unit(blocks[0][-1])) + arb(residual / n).log() * n
            if self.method == "reml":
                value += arb(fixed.det()).log()
            return [value]

        # Of the criterion that s^2 is profiled out of, as far as sums expect it.
        information = _matrix(total[(n_theta + 1) * width : -2], n_theta)
        information *= fmpq(2) ** (MIXED_BITS - INFORMATION_BITS)
        traces = fmpq_mat(n_theta, 1, [_unit(block[-1]) for block in change])
        information -= traces * traces.transpose() * fmpq(1, n_rows)
        return Profile(
            at=at,
            criterion=float(pinned(criterion)[0]),
            gradient=tuple(gradient),
            information=information,
            fixed=fixed,
            coefficients=tuple(found[k, 0] for k in range(p)),
            residual=residual,
            n_rows=n_rows,
            n_parties=n_parties,
        )

    def fit(self, best: Profile, rounds: int) -> MixedFit:
        """Return the answer in real units."""
        mixing, n = self.mixing, self.degrees(best.n_rows)
        p, scales = len(self.names), mixing.scales
        response = scales[p]
        coefficients = [
            _fraction(one) * response / scale
            for one, scale in zip(best.coefficients, scales, strict=False)
        ]
        variance = _fraction(best.residual) / n * response**2
        inverse = best.fixed.inv()
        # Of real coefficients in terms of scaled ones; the intercept takes up middles.
        back = fmpq_mat(p, p)
        for j in range(p):
            back[j, j] = _q(1 / scales[j])
            if mixing.intercept is not None and j != mixing.intercept:
                back[mixing.intercept, j] = _q(-mixing.middles[j] / scales[j])
        if mixing.intercept is not None:
            coefficients[mixing.intercept] += mixing.middles[p] - sum(
                (
                    coefficients[j] * mixing.middles[j]
                    for j in range(p)
                    if j != mixing.intercept
                ),
                Fraction(0),
            )
        covariance = back * inverse * back.transpose() * _q(variance)
        lower = mixing.triangle([Fraction(one, 2**THETA_BITS) for one in best.at.theta])
        random = lower * lower.transpose() * _q(variance)
        q, sizes = len(mixing.random), [scales[k] for k in mixing.random]
        spread = [
            [float(_fraction(random[i, j]) / (sizes[i] * sizes[j])) for j in range(q)]
            for i in range(q)
        ]
        logs = n * (1.0 + log(2.0 * pi)) + 2.0 * n * log(response)
        if self.method == "reml":
            logs += 2.0 * sum(log(one) for one in scales[:p])
        diagonal = [place for place, (i, j) in enumerate(_triangle(q)) if i == j]
        least = min(abs(best.at.theta[place]) for place in diagonal) / 2.0**THETA_BITS
        return MixedFit(
            names=self.names,
            coefficients=np.array([float(one) for one in coefficients]),
            covariance=_floats(covariance),
            t_degrees=None,
            random=tuple(self.names[k] for k in mixing.random),
            random_covariance=np.array(spread),
            residual_variance=float(variance),
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

    Attributes:
        random: names of the coefficients that differ between parties.
        random_covariance: of what they differ by.
        residual_variance: s^2, of rows within parties.
        criterion: -2 log-likelihood, or -2 restricted log-likelihood.
        method: reml or ml.
        n_rows: of all parties.
        n_parties: as many groups.
        rounds: sums that it took.
        singular: whether a variance of random effects is 0, or two of them are one:
            the estimate lies at its boundary.
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
        """-2 log-likelihood + 2 parameters."""
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
    def correlations(self) -> FloatArray:
        """Of random effects; nan where one of two does not vary."""
        roots = np.sqrt(np.diag(self.random_covariance))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.random_covariance / np.outer(roots, roots))


def _matrix(numbers: Array[Any], n: int) -> fmpq_mat:
    found, flat = fmpq_mat(n, n), iter(numbers)
    for j in range(n):
        for k in range(j + 1):
            found[j, k] = found[k, j] = _unit(next(flat))
    return found


def _unit(number: Any) -> fmpq:
    return fmpq(int(number), fmpz(2) ** MIXED_BITS)


def _part(matrix: fmpq_mat, rows: Sequence[int], columns: Sequence[int]) -> fmpq_mat:
    chosen = [matrix[j, k] for j in rows for k in columns]
    return fmpq_mat(len(rows), len(columns), chosen)


def _fraction(number: fmpq) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def _float(number: fmpq) -> float:
    return float(_fraction(number))


def _floats(matrix: fmpq_mat) -> FloatArray:
    flat = [_float(one) for one in matrix.entries()]
    return np.array(flat).reshape(matrix.nrows(), matrix.ncols())


# The next theta


@dataclass(frozen=True)
class ThetaSearch:
    """Where BFGS is: an accepted theta, and one that is tried next.

    Plain float64 in a fixed order, each theta rounded to its unit: the same everywhere.
    theta and -theta mean the same, so that a variance of 0 is no edge but a minimum.

    Attributes:
        model: what is fitted.
        tried: what parties are asked for next.
        best: so far; None before the first sum.
        inverse: of the criterion's second derivatives, as far as it is known.
        direction: from the best to what is tried, at full length.
        length: of the step, as a part of that.
        rounds: sums so far.
        converged: whether the best is the answer.
    """

    model: MixedModel
    tried: At
    best: Profile | None = None
    inverse: tuple[tuple[float, ...], ...] = ()
    direction: tuple[float, ...] = ()
    length: float = 1.0
    rounds: int = 0
    converged: bool = False

    @classmethod
    def start(cls, model: MixedModel) -> ThetaSearch:
        """Return the beginning: random effects as large as residuals, apart."""
        places = _triangle(len(model.mixing.random))
        theta = tuple(int(i == j) << THETA_BITS for i, j in places)
        return cls(model, At(theta, FIRST_BITS))

    def advance(self, total: Integers) -> ThetaSearch:
        """Return where the sum at `tried` leads."""
        here, before = self.model.profile(self.tried, total), self.best
        after = replace(self, rounds=self.rounds + 1)
        if here is None:
            bits = min(self.tried.bits + MORE_BITS, MIXED_BITS)
            return replace(after, tried=replace(self.tried, bits=bits))
        if before is None:
            return replace(after, best=here, inverse=_expected(here)).onwards()
        slope = _dot(before.gradient, self.direction)
        ahead = _dot(here.gradient, self.direction)
        drop = here.criterion - before.criterion
        flat = FLAT * here.n_parties * 2.0 ** -min(before.at.bits, here.at.bits)
        # Near the end rounding hides the drop, and the slope still tells.
        better = drop <= 1e-4 * self.length * slope or (
            abs(drop) <= flat and abs(ahead) < abs(slope)
        )
        if not better:
            # The least of a parabola through both values and the slope, within limits.
            bend = 2.0 * (drop - self.length * slope)
            least = -slope * self.length / bend if bend > 0.0 else 0.5
            return after.trying(self.length * min(max(least, 0.1), 0.5))
        step = [
            (a - b) / 2.0**THETA_BITS
            for a, b in zip(here.at.theta, before.at.theta, strict=True)
        ]
        bent = [a - b for a, b in zip(here.gradient, before.gradient, strict=True)]
        inverse, moved = _curved(here), max(map(abs, step))
        if inverse is None:
            inverse = _expected(here)
            left = max(abs(_dot(row, here.gradient)) for row in inverse)
            # What is expected serves while it leads on quickly.
            if moved < LONG_STEP or left > 0.75 * moved:
                inverse = _updated(self.inverse, step, bent)
        return replace(after, best=here, inverse=inverse).onwards()

    def onwards(self) -> ThetaSearch:
        """Return the next full step, or the end."""
        assert self.best is not None
        gradient = self.best.gradient
        direction = [-_dot(row, gradient) for row in self.inverse]
        longest = max(map(abs, direction))
        last = max(map(abs, self.direction), default=1.0)
        limit = max(1.0, *(abs(one) / 2.0**THETA_BITS for one in self.best.at.theta))
        finest = self.best.at.bits >= self.best.last_bits
        stalled = longest <= STALLED * limit and longest > last / 4.0
        if finest and (longest <= SMALL_STEP * limit or stalled or not any(gradient)):
            return replace(self, converged=True)
        if longest > limit:
            direction = [one * (limit / longest) for one in direction]
        return replace(self, direction=tuple(direction)).trying(1.0)

    def trying(self, length: float) -> ThetaSearch:
        """Return a step of this length, as a part of the full one, to be tried."""
        assert self.best is not None
        most = 1 << (THETA_BITS + MOST_THETA_BITS)
        theta = [
            min(max(a + round(length * d * 2.0**THETA_BITS), -most), most)
            for a, d in zip(self.best.at.theta, self.direction, strict=True)
        ]
        for place, (i, j) in enumerate(_triangle(len(self.model.mixing.random))):
            if i == j and abs(theta[place]) < NOTHING * 2.0**THETA_BITS:
                theta[place] = 0
        longest = length * max(map(abs, self.direction))
        # frexp is exact, and a logarithm is not the same everywhere.
        bits = self.best.first_bits + 2 * max(0, -frexp(longest)[1])
        bits = max(min(bits, self.best.last_bits), self.best.at.bits)
        tried = At(tuple(theta), bits)
        if tried == self.best.at:
            return replace(self, converged=True)
        return replace(self, tried=tried, length=length)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    found = 0.0
    for a, b in zip(left, right, strict=True):
        found += a * b
    return found


def _expected(at: Profile) -> tuple[tuple[float, ...], ...]:
    """Return the inverse of the expected second derivatives, which are at least 1."""
    size = range(len(at.gradient))
    # At a theta of 0 nothing is expected to change.
    one = fmpq_mat(
        len(size), len(size), [fmpq(int(i == j)) for i in size for j in size]
    )
    found = (at.information + one).inv()
    return tuple(tuple(_float(found[i, j]) for j in size) for i in size)


def _curved(at: Profile) -> tuple[tuple[float, ...], ...] | None:
    """Return an inverse for where a diagonal of theta is about to change its sign.

    There the minimum is that of a parabola in theta: as a function of T = L L' the
    criterion has a gradient G, which makes for second derivatives 2 G of each column of
    L beside the expected ones. It follows from the gradient 2 G L, the last column
    first. None where theta is not about to, or second derivatives are not positive.
    """
    numbers = [Fraction(one, 2**THETA_BITS) for one in at.at.theta]
    size = len(numbers)
    expected = _expected(at)
    q = next(k for k in range(1, size + 1) if k * (k + 1) // 2 == size)
    places = {place: k for k, place in enumerate(_triangle(q))}
    diagonal = [places[j, j] for j in range(q)]
    if not all(numbers[k] for k in diagonal) or not any(
        2.0 * abs(_dot(expected[k], at.gradient)) > abs(float(numbers[k]))
        for k in diagonal
    ):
        return None
    slopes = [[Fraction(0)] * q for _ in range(q)]
    for j in reversed(range(q)):
        for i in reversed(range(j, q)):
            known = sum(
                (slopes[i][k] * numbers[places[k, j]] for k in range(j + 1, q)),
                Fraction(0),
            )
            half = Fraction(at.gradient[places[i, j]]) / 2
            slopes[i][j] = slopes[j][i] = (half - known) / numbers[places[j, j]]
    second = fmpq_mat(at.information)
    for (i, j), row in places.items():
        for (k, column_of), column in places.items():
            if j == column_of:
                second[row, column] += _q(2 * slopes[i][k])
    leading = (_part(second, range(k), range(k)) for k in range(1, size + 1))
    if not all(one.det() > 0 for one in leading):
        return None
    found = second.inv()
    return tuple(tuple(_float(found[i, j]) for j in range(size)) for i in range(size))


def _updated(
    inverse: tuple[tuple[float, ...], ...],
    step: Sequence[float],
    bent: Sequence[float],
) -> tuple[tuple[float, ...], ...]:
    """Return BFGS's next inverse; the one before where the criterion bends down."""
    along = _dot(step, bent)
    if not along > 0.0:
        return inverse
    size = range(len(step))
    moved = [_dot(row, bent) for row in inverse]
    weight = (1.0 + _dot(bent, moved) / along) / along
    return tuple(
        tuple(
            inverse[i][j]
            + weight * step[i] * step[j]
            - (moved[i] * step[j] + step[i] * moved[j]) / along
            for j in size
        )
        for i in size
    )
