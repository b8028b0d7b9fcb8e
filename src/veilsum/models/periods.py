"""Times cut at agreed places: each row becomes one piece for each bin it is at risk in.

Between two agreed times the baseline hazard is constant. Then a piece with an exposure
e, the time it spends in its bin, gives to the likelihood what a Poisson count of its
events with the mean e times the hazard would: the fit is a Poisson regression with the
offset log e, to the last digit. Every row is cut by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.elementary import log
from veilsum.numbers.shapes import Float, Int
from veilsum.numbers.units import UnitMeasure

Places = Int[Array[np.int64], " n"]
Exposures = Float[FloatArray, "n bins"]


@dataclass(frozen=True)
class PeriodPieces:
    """All pieces of some rows, a row's one after the other."""

    row: Places
    bin: Places
    event: PerRow
    log_exposure: PerRow


@dataclass(frozen=True)
class BaselinePeriods:
    """Agreed times at which a baseline may change; see `BaselinePeriods.of`.

    Bins are from each of them, not counted, to the next, counted. After the last
    nobody is followed: later events are not seen.

    Attributes:
        ends: in whole numbers of the time's unit; the first bin begins at 0.
        measure: how times are counted.
    """

    ends: tuple[int, ...]
    measure: UnitMeasure

    @classmethod
    def of(cls, times: Sequence[float], measure: UnitMeasure) -> BaselinePeriods:
        """Return the bins between 0 and these times.

        Raises:
            InvalidInputError: they do not ascend from above 0, or leave a bin without
                a time in it.
        """
        given = [float(one) for one in times]
        rising = all(a < b for a, b in pairwise([0.0, *given]))
        if not given or not rising or not all(map(isfinite, given)):
            raise InvalidInputError(
                "times must be numbers that ascend from above 0, such as [100, 200, "
                f"400], found {list(times)}",
                code="times-not-ascending",
            )
        unit = measure.unit
        ends = tuple(round(Fraction(one) / unit) for one in given)
        if any(a >= b for a, b in pairwise([0, *ends])):
            raise InvalidInputError(
                f"times are counted in steps of {float(unit):g}, and two of {given} "
                "are nearer to each other: agree on fewer",
                code="times-too-close",
            )
        if len(ends) > 1 and ends[-2] >= measure.most:
            raise InvalidInputError(
                f"no time is beyond {measure.high:g} by agreement, and the last bin "
                f"begins at {given[-2]:g}: leave it out",
                code="times-beyond-range",
            )
        return cls(ends, measure)

    @property
    def n_bins(self) -> int:
        return len(self.ends)

    @cached_property
    def edges(self) -> Vector:
        return np.array([float(one * self.measure.unit) for one in (0, *self.ends)])

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{a:g} to {b:g}" for a, b in pairwise(self.edges.tolist()))

    @cached_property
    def log_exposure(self) -> UnitMeasure:
        """Measure of log exposures, which range from one unit to the widest bin."""
        unit, most = self.measure.unit, max(b - a for a, b in pairwise((0, *self.ends)))
        low, high = (float(log(float(unit * one))) for one in (1, most))
        return UnitMeasure.of(low, high if high > low else low + 1.0)

    def places(self, time: PerRow) -> Places:
        """Return the bin in which each row ends; `n_bins` for beyond the last."""
        return np.searchsorted(np.array(self.ends), self.measure.counts(time))

    def exposures(self, time: PerRow) -> Exposures:
        """Return how long each row is in each bin, in whole numbers of the unit."""
        counts = self.measure.counts(time)[:, None]
        starts, ends = np.array((0, *self.ends[:-1])), np.array(self.ends)
        return np.clip(np.minimum(counts, ends) - starts, 0.0, None)

    def cut(self, time: PerRow, event: PerRow) -> PeriodPieces:
        spent = self.exposures(time)
        row, place = np.nonzero(spent)
        last = self.places(time)
        unit = self.measure.unit
        top, bottom = float(unit.numerator), float(unit.denominator)
        seen = (place == last[row]) & (event[row] == 1.0)
        return PeriodPieces(
            row,
            place,
            seen.astype(np.float64),
            log(spent[row, place] * top / bottom),
        )

    def check(self, time: PerRow) -> None:
        """Refuse rows that end when they begin: they have no exposure."""
        if (self.measure.counts(time) <= 0).any():
            raise InvalidInputError(
                "with agreed times every row must end after 0, and some end at 0, so "
                "that they were never at risk: leave them out, or give half of a unit",
                code="rows-end-at-zero",
            )

    def spent(self, until: float) -> Vector:
        """Return how much of each bin there is up to a time, in its real scale."""
        if not 0.0 <= until <= self.edges[-1] or until == inf:
            raise InvalidInputError(
                f"the baseline is known from 0 to {self.edges[-1]:g}, found {until:g}",
                code="times-beyond-range",
            )
        return np.clip(np.minimum(until, self.edges[1:]) - self.edges[:-1], 0.0, None)
