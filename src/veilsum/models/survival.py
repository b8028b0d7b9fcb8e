"""Survival from counts on agreed times: Kaplan-Meier curves and the log-rank test.

All parties count into the same intervals how many rows ended there with the event, and
how many without it, that is censored; and how many go on after the last time. Whatever
ends within an interval is taken to end at its last time, so that these are the curves
of times rounded up to the grid: where it has every time that occurs, they are those of
Kaplan and Meier, and otherwise above them. In a life table, censored rows are at risk
for half of their interval, which is nearer if they end evenly in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.models.rows import PerRow
from veilsum.numbers.arrays import Array, Vector, as_floats
from veilsum.numbers.shapes import Bool, Float, Int
from veilsum.numbers.units import UnitMeasure

ConfType = Literal["log-log", "log", "plain"]
CONF_TYPES: tuple[ConfType, ...] = get_args(ConfType)

Places: TypeAlias = Int[Array[np.intp], " n"]
PerInterval: TypeAlias = Int[Array[np.int64], " k"]
PerTime: TypeAlias = Float[Array[np.float64], " k"]
ByGroup: TypeAlias = Int[Array[np.int64], "g k"]

# A curve is at a level if it is so near: R's square root of the last digit.
NEAR = 2.0**-26


@dataclass(frozen=True)
class SurvivalTimeGrid:
    """Times that all parties agreed on; `SurvivalTimeGrid.of` takes any that ascend.

    An interval has its last time and not the one before; the first begins at 0 and has
    it. What goes on after the last time of all is censored there, whatever comes.

    >>> grid = SurvivalTimeGrid.of([1, 2, 4])
    >>> events = np.array([True, False, True, True, True])
    >>> found = grid.tally(grid.found(np.array([0.5, 1, 3, 4, 9])), events)
    >>> found.events.tolist(), found.censored.tolist(), found.later.tolist()
    ([[1, 0, 2]], [[1, 0, 0]], [1])
    """

    times: Vector

    def __post_init__(self) -> None:
        found = self.times
        if found.ndim != 1 or not found.size:
            raise InvalidInputError(
                "times must be a list of one number or more, such as [90, 180, 365], "
                f"found shape {found.shape}",
                code="times-not-list",
            )
        if found[0] < 0.0:
            raise InvalidInputError(
                f"times are counted from 0, and the first is {found[0]:g}: leave out "
                "what is before 0",
                code="times-negative",
            )
        for before, after in pairwise(found.tolist()):
            if not before < after:
                raise InvalidInputError(
                    f"times must ascend, and after {before:g} stands {after:g}: sort "
                    "them, and name each one once",
                    code="times-not-ascending",
                )

    @classmethod
    def of(cls, times: ArrayLike) -> SurvivalTimeGrid:
        return cls(np.atleast_1d(as_floats(times, what="times")))

    @property
    def size(self) -> int:
        return self.times.size

    @property
    def places(self) -> tuple[str, ...]:
        """Names of the intervals, and of the time after them."""
        names = [f"{one:g}" for one in self.times.tolist()]
        between = (f"{a} to {b}" for a, b in pairwise(names))
        return f"up to {names[0]}", *between, f"after {names[-1]}"

    def found(self, times: PerRow, measure: UnitMeasure | None = None) -> Places:
        """Return in which interval each time is; `size` for after the last.

        What is measured has few values, each of which is looked up once.
        """
        every = 0 if measure is None else measure.most - measure.least + 1
        if measure is None or measure.wide or every > len(times):
            return np.searchsorted(self.times, times, side="left")
        least, most = float(measure.least), float(measure.most)
        unit = float(measure.unit.numerator), float(measure.unit.denominator)
        values = np.arange(least, most + 1.0) * unit[0] / unit[1]
        counts = np.rint(times * unit[1] / unit[0]) - least
        return self.found(values)[counts.astype(np.intp)]

    def beyond(self, times: PerRow) -> Bool[Array[np.bool_], "n k"]:
        return times[:, None] > self.times

    def tally(
        self,
        places: Places,
        events: Bool[Array[np.bool_], " n"],
        groups: Int[Array[np.integer], " n"] | None = None,
        n_groups: int = 1,
    ) -> SurvivalEnds:
        """Return how many rows end in each interval.

        Args:
            places: of each row, the interval.
            events: whether it was seen.
            groups: of each row, 0 and so on; None if there is one.
            n_groups: how many there are.
        """
        width = self.size + 1
        cells = places + events * (n_groups * width)
        if groups is not None:
            cells += np.multiply(groups, width, dtype=np.intp)
        counts = np.bincount(cells, minlength=2 * n_groups * width)
        censored, ended = counts.reshape(2, n_groups, width)
        later = censored[:, -1] + ended[:, -1]
        return SurvivalEnds(ended[:, :-1], censored[:, :-1], later)


@dataclass(frozen=True)
class SurvivalEnds:
    """Where rows end, for each group and interval."""

    events: ByGroup
    censored: ByGroup
    later: Int[Array[np.int64], " g"]

    def __add__(self, other: SurvivalEnds) -> SurvivalEnds:
        return SurvivalEnds(
            self.events + other.events,
            self.censored + other.censored,
            self.later + other.later,
        )

    @property
    def cells(self) -> ByGroup:
        """Rows of each group by interval, and after the last; with events or not."""
        return np.column_stack([self.events + self.censored, self.later])

    @property
    def by_event(self) -> ByGroup:
        without = self.censored.sum(axis=1) + self.later
        return np.stack([without, self.events.sum(axis=1)])


class SurvivalEstimate(NamedTuple):
    """A number with its interval; nan for an end that the curve does not reach."""

    value: float
    low: float
    high: float


class SurvivalMean(NamedTuple):
    value: float
    standard_error: float


@dataclass(frozen=True)
class SurvivalCurve:
    """One group's survival at agreed times.

    Attributes:
        times: the last of each interval.
        events: rows that end in it with the event.
        censored: rows that end in it without.
        later: rows that go on after the last.
        life_table: whether censored rows are at risk for half of their interval, as
            actuaries have it, or for all of it, as Kaplan and Meier.
    """

    times: Vector
    events: PerInterval
    censored: PerInterval
    later: int
    life_table: bool = False

    @property
    def n(self) -> int:
        return int(self.events.sum() + self.censored.sum()) + self.later

    @cached_property
    def at_risk(self) -> PerInterval:
        ended = self.events + self.censored
        return self.n - np.cumsum(ended) + ended

    @cached_property
    def _exposed(self) -> PerTime:
        """Rows at risk, with what censored ones count."""
        half = self.censored / 2.0 if self.life_table else 0.0
        return np.maximum(self.at_risk - half, 0.5)

    @cached_property
    def _carried(self) -> PerTime:
        hazard: PerTime = self.events / self._exposed
        return np.cumprod(1.0 - hazard, dtype=np.float64)

    @property
    def _seen(self) -> Bool[Array[np.bool_], " k"]:
        return (self.at_risk > 0) | (self._carried == 0.0)

    @property
    def survival(self) -> PerTime:
        """The part that has not had the event; nan where nobody is left to see it."""
        return np.where(self._seen, self._carried, np.nan)

    @cached_property
    def _relative_error(self) -> PerTime:
        """Greenwood's standard error of the survival's logarithm."""
        with np.errstate(all="ignore"):
            each = self.events / (self._exposed * (self._exposed - self.events))
        each[self.events == 0] = 0.0
        return np.asarray(np.sqrt(np.cumsum(each)), dtype=np.float64)

    @property
    def standard_error(self) -> PerTime:
        """Greenwood's, of the survival; nan where that is 0, as in R."""
        with np.errstate(invalid="ignore"):
            return self.survival * self._relative_error

    def interval(
        self, level: float = 0.95, conf_type: ConfType = "log-log"
    ) -> tuple[PerTime, PerTime]:
        """Return both ends, pointwise, by R's names.

        Args:
            level: how often it holds.
            conf_type: normal on this scale; log-log has no interval at 0 and at 1.
        """
        z, found = _survival_normal_quantile(level), self.survival
        with np.errstate(all="ignore"):
            if conf_type == "plain":
                half = z * self.standard_error
                return np.maximum(found - half, 0.0), np.minimum(found + half, 1.0)
            inner = np.where(found > 0.0, found, np.nan)
            if conf_type == "log":
                half = z * self._relative_error
                high = np.minimum(inner * np.exp(half), 1.0)
                return inner * np.exp(-half), high
            if conf_type == "log-log":
                logs = np.log(np.where(inner < 1.0, inner, np.nan))
                half = z * self._relative_error / logs
                return np.exp(logs * np.exp(-half)), np.exp(logs * np.exp(half))
        raise InvalidInputError(
            f"conf_type must be one of {', '.join(CONF_TYPES)}, found {conf_type!r}",
            code="unknown-conf-type",
        )

    def quantile(
        self, p: float, level: float = 0.95, conf_type: ConfType = "log-log"
    ) -> SurvivalEstimate:
        """Return when a part p has had the event, at an agreed time.

        Where the curve is flat at that level, it is the middle, as in R.
        """
        if not 0.0 < p < 1.0:
            raise InvalidInputError(
                f"a quantile's p is between 0 and 1, found {p}",
                code="quantile-out-of-range",
            )
        curves = (self.survival, *self.interval(level, conf_type))
        return SurvivalEstimate(*(self._reached(one, 1.0 - p) for one in curves))

    @property
    def median(self) -> SurvivalEstimate:
        return self.quantile(0.5)

    def _reached(self, curve: PerTime, level: float) -> float:
        known = np.isfinite(curve)
        times, heights = self.times[known], curve[known]
        reached = np.flatnonzero(heights <= level + NEAR)
        if not reached.size:
            return float("nan")
        first = float(times[reached[0]])
        if heights[reached[0]] < level - NEAR:
            return first
        below = np.flatnonzero(heights < level - NEAR)
        last = times[below[0]] if below.size else self.times[self.at_risk > 0][-1]
        return (first + float(last)) / 2.0

    def restricted_mean(self, until: float | None = None) -> SurvivalMean:
        """Return the area under the steps, by default up to the last time.

        Events count at the end of their intervals, so that on a coarse grid it is too
        large, by an interval at most.
        """
        end = float(self.times[-1]) if until is None else until
        if not 0.0 < end <= self.times[-1]:
            raise InvalidInputError(
                f"a restricted mean is up to a time above 0, {self.times[-1]:g} at "
                f"most, found {until}",
                code="times-beyond-range",
            )
        kept = self.times <= end
        edges = np.concatenate([[0.0], self.times[kept], [end]])
        areas = np.diff(edges) * np.concatenate([[1.0], self._carried[kept]])
        # What lies after each time is all that its events can change.
        after = np.cumsum(areas[::-1])[::-1][1:]
        left = (self._exposed - self.events)[kept]
        with np.errstate(all="ignore"):
            each = np.where(left, self.events[kept] / (self._exposed[kept] * left), 0.0)
        return SurvivalMean(float(areas.sum()), float(np.sqrt(np.sum(after**2 * each))))


@dataclass(frozen=True)
class LogRank:
    """Whether groups differ, by observed and expected events."""

    observed: Int[Array[np.int64], " g"]
    expected: Float[Array[np.float64], " g"]
    statistic: float
    df: int
    p: float


def log_rank_test_of_survival(ends: SurvivalEnds) -> LogRank | None:
    """Return the test; None if fewer than two groups could have had an event."""
    events, cells = ends.events, ends.cells
    at_risk = np.cumsum(cells[:, ::-1], axis=1)[:, :0:-1]
    n, d = at_risk.sum(axis=0), events.sum(axis=0)
    parts = at_risk / np.maximum(n, 1)
    expected = (parts * d).sum(axis=1)
    df = int(np.count_nonzero(expected)) - 1
    if df < 1:
        return None
    weights = d * (n - d) / np.maximum(n - 1, 1)
    variance = np.diag((parts * weights).sum(axis=1)) - (parts * weights) @ parts.T
    off = events.sum(axis=1) - expected
    # The rows of the variance sum to 0: one group less would do as well.
    statistic = float(off @ np.linalg.pinv(variance, hermitian=True) @ off)
    p = float(scipy.special.chdtrc(df, statistic))
    return LogRank(events.sum(axis=1), expected, statistic, df, p)


def _survival_normal_quantile(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise InvalidInputError(
            f"a level is between 0 and 1, found {level}", code="level-out-of-range"
        )
    return float(scipy.special.ndtri(0.5 + level / 2.0))
