"""Meta-analysis from sums over studies: the inverse-variance mean, fixed and random.

Every party has one estimate y with a standard error, and its weight is w = 1 / error^2.
The sums of w, w y, w y^2 and w^2 and the number of studies give the fixed mean,
Cochran's Q, and DerSimonian and Laird's variance between studies; two more sums, with
weights 1 / (1 / w + tau^2) at that public tau^2, give the random mean.

A party's numbers are fractions, rounded once to a public unit that follows from agreed
ranges of estimates and errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.models.inference import Inference
from veilsum.models.plausible import check_plausible_total, implausible_sum_error
from veilsum.numbers.layout import LayoutStatistic, layout_vector
from veilsum.numbers.units import Integers, bits_of_reach, power_of_two_unit

# What the least weight that was agreed on keeps.
META_BITS = 34
# Studies of one analysis.
STUDY_BITS = 12
# How many times as large as the least the largest error may be.
MOST_RATIO = 2**16


@dataclass(frozen=True)
class MetaRanges:
    """Between what estimates and standard errors lie, by agreement."""

    effects: tuple[float, float]
    errors: tuple[float, float]

    def __post_init__(self) -> None:
        low, high = self.effects
        least, most = self.errors
        if not -np.inf < low < high < np.inf:
            raise InvalidInputError(
                "effects must be the least and the largest estimate that any party "
                f"may have, found {low:g} to {high:g}",
                code="malformed-effect-range",
            )
        if not 0.0 < least <= most <= least * MOST_RATIO:
            raise InvalidInputError(
                "errors must be the least and the largest standard error that any "
                "party may have, above 0 and no more than "
                f"{MOST_RATIO:,} times apart, found {least:g} to {most:g}",
                code="malformed-error-range",
            )

    @property
    def middle(self) -> Fraction:
        return (Fraction(self.effects[0]) + Fraction(self.effects[1])) / 2

    @property
    def scale(self) -> Fraction:
        half = (Fraction(self.effects[1]) - Fraction(self.effects[0])) / 2
        return power_of_two_unit(half, 0)

    @property
    def unit(self) -> Fraction:
        """Unit of weights."""
        return power_of_two_unit(1 / Fraction(self.errors[1]) ** 2, META_BITS)

    @cached_property
    def sums(self) -> LayoutStatistic:
        squares = power_of_two_unit(1 / Fraction(self.errors[1]) ** 4, META_BITS)
        ratio = int(Fraction(self.errors[1]) ** 4 / Fraction(self.errors[0]) ** 4) + 2
        bits = META_BITS + bits_of_reach(ratio) + STUDY_BITS + 3
        return layout_vector("study_sums", (*(self.unit,) * 3, squares), bits)

    def check(self, name: str, effect: float, error: float) -> None:
        """Refuse an estimate beyond what was agreed; for its owner's eyes."""
        for what, found, (low, high) in (
            ("estimate", effect, self.effects),
            ("standard error", error, self.errors),
        ):
            if not low <= found <= high:
                raise InvalidInputError(
                    f"the {what} of {name} is {found:.6g} here, and {low:g} to "
                    f"{high:g} was agreed: agree on a wider range",
                    plain=f"the {what} of {name} is outside the agreed range",
                    code="value-out-of-range",
                )

    def vector(self, effect: float, error: float, tau2: Fraction) -> Integers:
        """Return w, w y, w y^2 and w^2 of one study, with w = 1 / (error^2 + tau2)."""
        weight = 1 / (Fraction(error) ** 2 + tau2)
        y = (Fraction(effect) - self.middle) / self.scale
        numbers = weight, weight * y, weight * y * y, weight * weight
        pairs = zip(numbers, self.sums.units, strict=True)
        return np.array([round(one / unit) for one, unit in pairs], dtype=object)


@dataclass(frozen=True)
class MetaPooledEstimate(Inference):
    """A pooled estimate, and how much studies differ.

    Attributes:
        q: Cochran's, the weighted sum of squares about the fixed mean.
        tau2: the variance between studies by DerSimonian and Laird.
    """

    n_studies: int
    q: float
    tau2: float

    @property
    def q_degrees(self) -> int:
        return self.n_studies - 1

    @property
    def q_p_value(self) -> float:
        """The chance of such a Q, or a larger one, if all studies were alike."""
        return float(scipy.special.chdtrc(self.q_degrees, self.q))

    @property
    def i_squared(self) -> float:
        """The share of Q that chance does not explain, 0 at least."""
        return max(0.0, (self.q - self.q_degrees) / self.q) if self.q > 0.0 else 0.0


@dataclass(frozen=True)
class MetaTotals:
    """The first sums, in exact real numbers; estimates are scaled.

    Attributes:
        weight: the sum of w.
        cross: of w y.
        square: of w y^2.
        weight_square: of w^2.
    """

    ranges: MetaRanges
    weight: Fraction
    cross: Fraction
    square: Fraction
    weight_square: Fraction
    n_studies: int

    @classmethod
    def of(cls, ranges: MetaRanges, sums: Integers, n_studies: int) -> MetaTotals:
        pairs = zip(sums, ranges.sums.units, strict=True)
        weight, cross, square, weights = (int(one) * unit for one, unit in pairs)
        return cls(ranges, weight, cross, square, weights, n_studies)

    def check(self, most_studies: int) -> None:
        """Refuse first sums that no studies within the agreed ranges have."""
        n, unit = self.n_studies, self.ranges.unit
        check_plausible_total("studies", n, 0, most_studies)
        low, high = (1 / Fraction(one) ** 2 for one in reversed(self.ranges.errors))
        check_plausible_total(
            "weights", self.weight, n * (low - unit), n * (high + unit)
        )
        self._check_estimates(self.weight, self.cross)
        check_plausible_total("w y^2", self.square, -n * unit, self.weight + n * unit)
        fine = self.ranges.sums.units[3]
        least, most = n * (low * low - fine), n * (high * high + fine)
        check_plausible_total("w^2", self.weight_square, least, most)
        both = (self.weight + n * unit) * (self.square + n * unit)
        spread = both - max(abs(self.cross) - n * unit, Fraction(0)) ** 2
        if spread < 0:
            why = "together with other sums it gives a negative variance"
            raise implausible_sum_error("w y^2", why)

    def check_random(self, sums: Integers) -> None:
        """Refuse second sums that no studies within the agreed ranges have."""
        weight, cross = (int(one) * self.ranges.unit for one in sums)
        n, unit, tau2 = self.n_studies, self.ranges.unit, self.tau2
        low, high = (
            1 / (Fraction(one) ** 2 + tau2) for one in reversed(self.ranges.errors)
        )
        check_plausible_total("v", weight, n * (low - unit), n * (high + unit))
        self._check_estimates(weight, cross)

    def _check_estimates(self, weight: Fraction, cross: Fraction) -> None:
        # Scaled estimates are at most 1 in size.
        most = weight + 2 * self.n_studies * self.ranges.unit
        check_plausible_total("weights times estimates", cross, -most, most)

    @property
    def q(self) -> Fraction:
        return max(
            (self.square - self.cross**2 / self.weight) * self.ranges.scale**2,
            Fraction(0),
        )

    @property
    def tau2(self) -> Fraction:
        """DerSimonian and Laird's variance between studies, as float64 has it."""
        rest = self.weight - self.weight_square / self.weight
        if rest <= 0:
            return Fraction(0)
        found = (self.q - (self.n_studies - 1)) / rest
        return Fraction(float(max(found, Fraction(0))))

    def pooled(
        self, weight: Fraction, cross: Fraction, name: str
    ) -> MetaPooledEstimate:
        mean = cross / weight * self.ranges.scale + self.ranges.middle
        error = 1.0 / sqrt(weight)
        return MetaPooledEstimate(
            names=(name,),
            coefficients=np.array([float(mean)]),
            covariance=np.array([[error**2]]),
            t_degrees=None,
            n_studies=self.n_studies,
            q=float(self.q),
            tau2=float(self.tau2),
        )

    @property
    def fixed(self) -> MetaPooledEstimate:
        return self.pooled(self.weight, self.cross, "fixed")

    def random(self, sums: Integers) -> MetaPooledEstimate:
        """Return the mean if studies differ, from the second sum."""
        weight, cross = (int(one) * self.ranges.unit for one in sums)
        return self.pooled(weight, cross, "random")
