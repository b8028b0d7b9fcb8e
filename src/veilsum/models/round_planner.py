"""Units of a round of a canonical fit, and the released bits of its totals.

With a canonical link the first sum contains all about the responses. A later round sums
fitted means m_j = sum w mu z_j, cumulants, and sometimes the information
I_jk = sum w mu' z_j z_k. Exact sums of these would be equations on the rows that are 40
bits deep. A round needs far less: units as coarse as its step allows, and of each total
only the bits that are not known before.

**Units.** A row's part is rounded to a unit u, so a total of N rows is wrong by N u / 2
at most. With A the information where the search is, let

    B = max_j sum_k |A^-1_jk| sqrt(A_kk) / sqrt(A^-1_jj).

An error |e_k| <= x sqrt(A_kk) of the score moves a coefficient by x B standard errors
at most, and an error |E_jk| <= x sqrt(A_jj A_kk) of the information changes a standard
error by x B^2 / 2 of it, to first order. The last round keeps both below the agreed
digits. Rounds before it need no more than a part of their own step.

**Residues.** Let d lead from a point whose totals are known to the next, and let
G = sum w z z' be known from the first sum. For a logistic regression |mu'| <= 1/4 and
|mu''| <= 1 / (6 sqrt 3), so by Cauchy and Schwarz, and by Taylor with an information A
of a point that is s away,

    |m_j(b + d) - m_j(b)|            <= sqrt(G_jj) |d| / 4,
    |m_j(b + d) - m_j(b) - (A d)_j|  <= (|d|^2 / 2 + |s| |d|) max |z_j| / (6 sqrt 3),

with |d|^2 = d'Gd. Where mu = exp(eta), and no predictor moves by more than t,
|m_j(b + d) - m_j(b)| <= (e^t - 1) M max |z_j|, M being the sum of fitted means. In the
same way cumulants are at least what their slope says, and at most |d|^2 / 8, or
(e^t - 1 - t) M, more. So the next total lies in a window around a public number, and
its residue modulo a power of two larger than the window determines it. Only the residue
is released. The bounds hold for all rows within the agreed ranges; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, frexp, inf, sqrt

import numpy as np

from veilsum.models.fineness import (
    FRUGAL_DIGITS,
    MOST_BITS,
    Fineness,
    triangle_of_model_matrix,
)
from veilsum.models.glm import FirstStatistics, GlmScales, ResponseStatistics
from veilsum.models.systems import InformationSystem
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.elementary import exp
from veilsum.numbers.units import Integers

# Standard errors have at most so many digits: they are those of the last point, which
# is a step away from the answer.
POINT = 1e-10
# Largest error of the information on the way, as a part of it, and of a score, as a
# part of the step before.
ON_THE_WAY = 0.125
# Rounding of predictors and means in float64, for each row, beside the largest value.
FLOAT_SLACK = 2.0**-44
# An information is too coarse if rounding may have made this part of a variance.
BLURRED = 0.5
# Rounds without a new information that cost as much as one, for each column.
WORTH_A_MATRIX = 0.7
# A search is nearly over if predictors will move by less than this, in tolerances.
NEAR, NEARER = 1.0, 20.0
# Windows are enlarged by rounding of their own.
ENLARGED = 1.0 + 2.0**-20


@dataclass(frozen=True)
class KnownTotals:
    """Totals of a round, as far as later ones are predicted from them.

    Attributes:
        point: coefficients at which they were taken.
        means: sums of fitted means, by column.
        cumulants: sum of cumulants.
        slack: largest error of each of the means.
        cumulant_slack: largest error of the cumulants.
    """

    point: Vector
    means: tuple[Fraction, ...]
    cumulants: Fraction
    slack: tuple[float, ...]
    cumulant_slack: float


@dataclass(frozen=True, eq=False)
class KnownInformation:
    """The last information that was summed.

    Attributes:
        point: coefficients at which it was taken.
        matrix: in the coordinates of `GlmScales.columns`.
        entries: the same for whole numbers of columns.
        error: largest rounding error of each of these.
    """

    point: Vector
    matrix: Integers
    entries: FloatArray
    error: FloatArray

    @classmethod
    def of(
        cls,
        point: Vector,
        matrix: Integers,
        powers: Sequence[int],
        error: Sequence[float],
    ) -> KnownInformation:
        """Return an information with its entries for whole numbers of columns.

        Args:
            point: at which it was taken.
            matrix: in coordinates that are coefficients over 2^power.
            powers: of each column.
            error: of the lower triangle of entries.
        """
        p = len(powers)
        entries, errors = np.empty((p, p)), np.empty((p, p))
        for (j, k), one in zip(triangle_of_model_matrix(p), error, strict=True):
            scale = Fraction(2) ** -(powers[j] + powers[k])
            entries[j, k] = entries[k, j] = float(Fraction(matrix[j, k]) * scale)
            errors[j, k] = errors[k, j] = one
        return cls(point, matrix, entries, errors)


def improved_model_information(
    matrix: Integers, powers: Sequence[int], step: Vector, change: Sequence[Fraction]
) -> Integers:
    """Return an information that explains how means have changed along a step.

    It is that of Broyden, Fletcher, Goldfarb and Shanno, in whole numbers.

    Args:
        matrix: in coordinates that are coefficients over 2^power.
        powers: of each column.
        step: between two points.
        change: of the means, by column, with the sign of an information.
    """
    down = [
        Fraction(one) / Fraction(2) ** s
        for one, s in zip(step.tolist(), powers, strict=True)
    ]
    up = [one * Fraction(2) ** s for one, s in zip(change, powers, strict=True)]
    along = [
        sum(
            (Fraction(one) * by for one, by in zip(row, down, strict=True)), Fraction(0)
        )
        for row in matrix.tolist()
    ]
    explained = sum((a * b for a, b in zip(along, down, strict=True)), Fraction(0))
    seen = sum((a * b for a, b in zip(up, down, strict=True)), Fraction(0))
    if not (explained > 0 and 0 < seen < 16 * explained and explained < 16 * seen):
        return matrix
    p, found = len(powers), matrix.copy()
    for j, k in triangle_of_model_matrix(p):
        more = up[j] * up[k] / seen - along[j] * along[k] / explained
        found[j, k] = found[k, j] = round(Fraction(found[j, k]) + more)
    return found


class RoundPlanner:
    """Units and windows of the next round, from public totals alone."""

    def __init__(self, scales: GlmScales, first: FirstStatistics, digits: int) -> None:
        self.scales, self.digits = scales, digits
        self.n_rows = int(first.n_rows)
        self.weight_sum = float(first.weight_sum)
        self.reach = [float(of.reach) for of in scales.measures.design]
        p = scales.n_columns
        powers = [Fraction(2) ** -power for power in scales.columns]
        self._gram = [
            [float(first.information[j, k] * powers[j] * powers[k]) for k in range(p)]
            for j in range(p)
        ]
        self._gram_error = [
            float(self.n_rows * unit * powers[j] * powers[k] / 2)
            for (j, k), unit in zip(
                triangle_of_model_matrix(p), scales.gram_units, strict=True
            )
        ]

    @property
    def tolerance(self) -> float:
        """Largest error of a coefficient in standard errors."""
        return float(Fraction(1, 10**self.digits))

    @property
    def point_tolerance(self) -> float:
        """Largest change of a predictor that standard errors may miss."""
        return max(self.tolerance, POINT)

    def length(self, along: Vector) -> float:
        """Return an upper bound of |d|: d'Gd is over pooled rows."""
        d, total = along.tolist(), 0.0
        pairs = triangle_of_model_matrix(len(d))
        for (j, k), error in zip(pairs, self._gram_error, strict=True):
            both = (1.0 if j == k else 2.0) * d[j] * d[k]
            part = both * self._gram[j][k]
            # Where columns nearly follow from others, little is left of large parts.
            total += part + FLOAT_SLACK * abs(part) + abs(both) * error
        return sqrt(max(total, 0.0)) * ENLARGED

    def spread(self, along: Vector) -> float:
        """Return the root mean square of the weights' changes, as a part of them."""
        return self._weight_slope * self.length(along) / sqrt(self.n_rows)

    def change(self, along: Vector) -> float:
        """Return the largest change of a weight, as a part of it."""
        return self._weight_slope * self.farthest(along)

    @property
    def _weight_slope(self) -> float:
        return self.scales.family.weight_slope(self.scales.agreed)

    def blur(self, system: InformationSystem, information: KnownInformation) -> float:
        """Return the largest part of a variance that rounding may have made.

        Args:
            system: of the information, penalties included.
            information: with its errors.
        """
        powers, worst = self.scales.columns, 0.0
        for place, row in enumerate(system.inverse().tolist()):
            if not row[place] > 0.0:
                return inf
            sizes = [
                abs(one) * 2.0**power for one, power in zip(row, powers, strict=True)
            ]
            lost = sum(
                sizes[j] * sizes[k] * information.error[j, k].item()
                for j in range(len(row))
                for k in range(len(row))
            )
            worst = max(worst, lost / row[place])
        return worst

    def farthest(self, along: Vector) -> float:
        """Return the largest change of a predictor, by agreed ranges."""
        pairs = zip(self.reach, along.tolist(), strict=True)
        return ENLARGED * sum(of * abs(one) for of, one in pairs)

    def diagonal(self, column: int) -> float:
        """Return an upper bound of the first information of a column."""
        place = column * (column + 1) // 2 + column
        return self._gram[column][column] + self._gram_error[place]

    def null_totals(
        self, first: ResponseStatistics, point: Vector, mean: float
    ) -> KnownTotals:
        """Return the totals at the null model, which follow from the first sum.

        Args:
            first: totals of the first sum.
            point: coefficients of the null model.
            mean: of the responses.
        """
        scales, place = self.scales, self.scales.intercept
        assert place is not None
        powers = scales.columns
        columns = [
            Fraction(first.information[place, k])
            * Fraction(2) ** -(powers[place] + power)
            for k, power in enumerate(powers)
        ]
        errors = [
            self._gram_error[max(place, k) * (max(place, k) + 1) // 2 + min(place, k)]
            for k in range(len(powers))
        ]
        each = scales.family.natural(point[place : place + 1])[2]
        weight = Fraction(first.weight_sum)
        return KnownTotals(
            point,
            tuple(Fraction(mean) * one for one in columns),
            Fraction(each) * weight,
            tuple(mean * one * ENLARGED for one in errors),
            abs(each) * errors[place] * ENLARGED,
        )

    def null_scores(
        self,
        first: ResponseStatistics,
        known: KnownTotals,
        scores: Sequence[Fraction],
        deviance: Fraction,
    ) -> KnownTotals:
        """Return the same where scores stand for means, and half the deviance.

        Args:
            first: totals of the first sum.
            known: the null model's means.
            scores: of the null model.
            deviance: of the null model.
        """
        scales, place = self.scales, self.scales.intercept
        assert place is not None
        parameter, slope, _ = scales.family.natural(known.point[place : place + 1])
        rounding = [
            self.n_rows * float(scales.response_unit * Fraction(2) ** -power) / 2.0
            for power in scales.first_fineness.along
        ]
        pairs = zip(known.slack, rounding, strict=True)
        lost = abs(parameter) * rounding[place] + known.cumulant_slack
        if scales.sums_peak:
            lost += self.n_rows * 2.0 ** -scales.numbers[scales.places["peak"]] / 2.0
        return replace(
            known,
            means=tuple(-one for one in scores),
            cumulants=deviance / 2,
            slack=tuple(abs(slope) * (one + by) * ENLARGED for one, by in pairs),
            cumulant_slack=lost * ENLARGED,
        )

    def matrix_errors(
        self, fineness: Fineness, matrix: Integers, point: Vector
    ) -> list[float]:
        """Return the largest error of each entry of an information, in turn.

        Args:
            fineness: its units.
            matrix: in coordinates that are coefficients over 2^power.
            point: at which it was taken.
        """
        pairs, powers = (
            triangle_of_model_matrix(self.scales.n_columns),
            self.scales.columns,
        )
        rounding = [self.n_rows * 2.0**-power / 2.0 for power in fineness.matrix]
        sizes = [
            sqrt(max(float(matrix[j, j] * Fraction(4) ** -powers[j]), 0.0) + error)
            for (j, k), error in zip(pairs, rounding, strict=True)
            if j == k
        ]
        # Float64 errs by a part of a product, and of its weight as of its predictor.
        part = FLOAT_SLACK * (1.0 + self.change(point))
        return [
            error + part * sizes[j] * sizes[k]
            for (j, k), error in zip(pairs, rounding, strict=True)
        ]

    # Units

    def needs_information(
        self, trial: Vector, step: Vector, at: Vector | None, shrank: float
    ) -> bool:
        """Return whether a new information is worth its bits at the next point.

        Args:
            trial: the next point.
            step: the step that led there.
            at: where the last information was taken, if there was one.
            shrank: the last step over the one before, with an old information.
        """
        if at is None or self.digits > FRUGAL_DIGITS:
            return True
        shrinks = max(2.0 * self.spread(trial - at) + ON_THE_WAY, shrank)
        if shrinks > 0.7:
            return True
        left, rounds = self.change(step), 0.0
        worth = WORTH_A_MATRIX * (self.scales.n_columns + 1)
        while left > NEARER * self.point_tolerance and rounds <= worth:
            left *= shrinks
            rounds += 1.0
        return rounds > worth

    def fineness(
        self,
        system: InformationSystem,
        step: float,
        change: float,
        dispersion: float,
        *,
        information: bool,
        last: bool,
        blurred: int,
        lengthened: float = 1.0,
    ) -> Fineness:
        """Return the units of a round, without residues.

        Args:
            system: the information where the search is.
            step: the last step, in standard errors.
            change: root mean square of the predictors' last change.
            dispersion: of the responses.
            information: whether the round has a new one.
            last: whether the answer follows from it.
            blurred: how many informations in turn were too coarse.
            lengthened: the step over Newton's. All information falls as much, and
                the ellipse of coefficients becomes as much longer.
        """
        scales = self.scales
        p, powers = scales.n_columns, scales.columns
        sizes = [
            float(one * Fraction(4) ** -power)
            for one, power in zip(system.diagonal(), powers, strict=True)
        ]
        inflation = _model_error_inflation(system)
        worst = 2.0 / self.n_rows
        # On the way, as large as the errors of Newton's own steps, which shrink.
        quality = ON_THE_WAY
        if self.digits > FRUGAL_DIGITS:
            quality = min(ON_THE_WAY, max(change / 8.0, self.tolerance))
        noise, part = self.tolerance / 2.0, self.tolerance
        if not last:
            noise = max(noise, min(step, 1.0 / ON_THE_WAY) * quality)
            part = quality * 2.0 ** (-4 * blurred) / lengthened**3
            noise /= sqrt(lengthened) ** 3
        noise *= worst * sqrt(min(dispersion, 1.0)) / inflation
        along = tuple(
            min(
                _power_for_round_unit(noise * sqrt(size)),
                scales.pull,
                MOST_BITS - bits,
            )
            for size, bits in zip(sizes, scales.mean_bits, strict=True)
        )
        part *= worst / (inflation * inflation)
        matrix = tuple(
            min(
                _power_for_round_unit(part * sqrt(sizes[j]) * sqrt(sizes[k])),
                powers[j] + powers[k],
                MOST_BITS - scales.entry_bits(j, k),
            )
            for j, k in triangle_of_model_matrix(p if information else 0)
        )
        return Fineness(matrix, along, last=last)

    # Residues

    def with_residues(
        self,
        fineness: Fineness,
        to: Vector,
        known: KnownTotals | None,
        information: KnownInformation | None,
    ) -> Fineness:
        """Return the fineness with the residues that determine the totals at a point.

        Args:
            fineness: units of the round.
            to: coefficients at which it is taken.
            known: totals to predict from; without any all is released whole.
            information: the last one, if there was any.
        """
        scales = self.scales
        p, size = scales.n_columns, scales.positions.size
        residues, centres, reaches = [0] * size, [0] * size, [0] * size
        windows = None if known is None else self._windows(to, known, information)
        unknown = known is not None and known.cumulant_slack == inf

        def made() -> Fineness:
            return replace(
                fineness,
                residues=tuple(residues),
                centres=tuple(centres),
                windows=tuple(reaches),
            )

        if windows is None or known is None or unknown:
            return made()
        start = p * (p + 1) // 2

        def keep(place: int, centre: Fraction, window: float, power: int) -> None:
            centres[place], reaches[place] = _counted_round_total(
                centre, window, power, self.n_rows
            )
            # What the answer follows from is whole: no total before it decides.
            if not (fineness.last and place >= start):
                residues[place] = (2 * reaches[place] + 1).bit_length()

        for k, (centre, window) in enumerate(windows.means):
            # Of float64, in the known total and in the next.
            slack = self.n_rows * self.reach[k] * FLOAT_SLACK * scales.largest_pull
            window += known.slack[k] + slack
            keep(start + k, centre, window, fineness.along[k])
        if scales.sums_cumulants(fineness.stage):
            place = scales.places["cumulants"]
            middle, window = self._middle(windows.cumulants, known)
            keep(start + p + place, middle, window, scales.numbers[place])
        pairs = triangle_of_model_matrix(p if fineness.matrix else 0)
        for at, (power, (j, k)) in enumerate(zip(fineness.matrix, pairs, strict=True)):
            most = windows.weight * sqrt(self.diagonal(j) * self.diagonal(k))
            if windows.total_weight < inf:
                most = min(most, windows.total_weight * self.reach[j] * self.reach[k])
            most *= ENLARGED
            middle = Fraction(most) / 2 if j == k else Fraction(0)
            keep(at, middle, most / 2.0 if j == k else most, power)
        return made()

    def _middle(
        self, ends: tuple[Fraction, Fraction], known: KnownTotals
    ) -> tuple[Fraction, float]:
        """Return the middle of where cumulants are, and how far they are from it."""
        low, high = ends
        slack = self.n_rows * FLOAT_SLACK * self.scales.largest_cumulant
        window = float(high - low) / 2.0 + known.cumulant_slack + slack
        return known.cumulants + low + (high - low) / 2, window * ENLARGED

    def cumulants(
        self, to: Vector, known: KnownTotals, information: KnownInformation | None
    ) -> tuple[Fraction, float]:
        """Return cumulants at a point where they were not summed, and their error."""
        windows = self._windows(to, known, information)
        if windows is None:
            return known.cumulants, inf
        return self._middle(windows.cumulants, known)

    def _windows(
        self, to: Vector, known: KnownTotals, information: KnownInformation | None
    ) -> _RoundWindows | None:
        family, along = self.scales.family, to - known.point
        exact = [
            Fraction(one) - Fraction(by)
            for one, by in zip(to.tolist(), known.point.tolist(), strict=True)
        ]
        pairs = zip(known.means, exact, strict=True)
        slope = sum((one * by for one, by in pairs), Fraction(0))
        spare = Fraction(
            sum(
                s * abs(one) for s, one in zip(known.slack, along.tolist(), strict=True)
            )
        )
        weight = self.scales.largest_information
        if family.largest_slope < inf:
            length = self.length(along)
            bends = family.largest_slope * length * length / 2.0
            means = []
            second = self._second_order(along, length, known, information)
            for k, mean in enumerate(known.means):
                window = family.largest_slope * sqrt(self.diagonal(k)) * length
                centre = mean
                if second is not None and second[1][k] < window:
                    centre, window = mean + Fraction(second[0][k]), second[1][k]
                means.append((centre, window * ENLARGED))
            ends = slope - spare, slope + spare + Fraction(bends * ENLARGED)
            return _RoundWindows(means, ends, weight, inf)
        place, drift = self.scales.intercept, family.drift
        if drift is None or place is None:
            return None
        far = self.farthest(along)
        if far > 40.0:
            return None
        growth = exp(np.array([far])).item() * ENLARGED
        total = drift[1] * self.weight_sum + drift[0] * float(known.means[place])
        total = (total + known.slack[place]) * ENLARGED
        means = [
            (mean, (growth - 1.0) * total * reach)
            for mean, reach in zip(known.means, self.reach, strict=True)
        ]
        bends = max(growth - 1.0 - far, 0.0) * total
        ends = slope - spare, slope + spare + Fraction(bends)
        whole = growth * total if self.scales.responses_once else inf
        return _RoundWindows(means, ends, weight, whole)

    def _second_order(
        self,
        along: Vector,
        length: float,
        known: KnownTotals,
        information: KnownInformation | None,
    ) -> tuple[list[float], list[float]] | None:
        """Return the change of means by an information, and its largest error."""
        if information is None:
            return None
        d, p = along.tolist(), len(along)
        away = self.length(known.point - information.point)
        bend = self.scales.family.largest_bend * (length / 2.0 + away) * length
        changes, errors = [], []
        for j in range(p):
            change = error = 0.0
            for k in range(p):
                part = information.entries[j, k].item() * d[k]
                change += part
                error += FLOAT_SLACK * abs(part)
                error += information.error[j, k].item() * abs(d[k])
            changes.append(change)
            errors.append(bend * self.reach[j] + error)
        return changes, errors


@dataclass(frozen=True)
class _RoundWindows:
    """Where the next totals are: means by centre and distance, cumulants' change.

    Attributes:
        weight: the largest information of a row.
        total_weight: and of all rows together, as far as it is known.
    """

    means: Sequence[tuple[Fraction, float]]
    cumulants: tuple[Fraction, Fraction]
    weight: float
    total_weight: float


def _model_error_inflation(system: InformationSystem) -> float:
    """Return by how much errors of single columns may add up in a coefficient."""
    inverse = system.inverse().tolist()
    sizes = [sqrt(float(one)) for one in system.diagonal()]
    return max(
        sum(abs(one) * size for one, size in zip(row, sizes, strict=True))
        / sqrt(row[j])
        for j, row in enumerate(inverse)
    )


def _power_for_round_unit(unit: float) -> int:
    """Return the least power s with 2^-s <= unit."""
    return 1 - frexp(unit)[1]


def _counted_round_total(
    centre: Fraction, window: float, power: int, n_rows: int
) -> tuple[int, int]:
    """Return the number that a total is counted from, and how far it is away at most.

    Args:
        centre: where the total is about.
        window: how far it is away at most, its rounding aside.
        power: of two, by which it is scaled.
        n_rows: rows that are rounded to one.
    """
    scale = Fraction(2) ** power
    reach = ceil(Fraction(window * ENLARGED) * scale) + (n_rows + 1) // 2 + 2
    return floor(centre * scale), reach
