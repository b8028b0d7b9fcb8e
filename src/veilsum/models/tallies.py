"""Counts on agreed bins and in agreed cells: histograms and contingency tables.

All parties count into the same places, so their vectors add up to the pooled counts.
Values beyond the outer edges have bins of their own; nothing is dropped in silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, nan, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, RangeError
from veilsum.numbers.arrays import Array, FloatArray, Vector, as_floats
from veilsum.numbers.shapes import Float, Int
from veilsum.numbers.units import Integers, UnitMeasure

Codes = Int[Array[np.int64], "n axes"]
Cells = Float[FloatArray, "..."]  # one axis for each variable
Counts = Float[FloatArray, " bins"]

# A table of more cells than this is a mistake rather than a wish.
MOST_CELLS = 2**24


@dataclass(frozen=True)
class TallyHistogram:
    """Pooled counts on edges.

    Attributes:
        edges: as agreed, ascending.
        below: values before the first edge.
        counts: values from each edge up to the next; the last bin has both its edges.
        above: values beyond the last edge.
    """

    edges: Vector
    below: float
    counts: Counts
    above: float

    @property
    def total(self) -> float:
        return self.below + float(self.counts.sum()) + self.above

    def quantile(self, share: float, measure: UnitMeasure) -> TallyQuantile:
        """Return between which values a quantile lies, which the counts prove.

        Args:
            share: of the values that are no larger, above 0 and below 1.
            measure: how values are counted: it has the ends of the range, and what
                values there are between two edges.
        """
        if not 0.0 < share < 1.0:
            raise InvalidInputError(
                f"a quantile is above 0 and below 1, found {share:g}: 0.5 is the "
                "median",
                code="quantile-out-of-range",
            )
        held = np.array([self.below, *self.counts, self.above])
        if not (n := int(self.total)):
            return TallyQuantile(share, nan, nan, nan)
        upto = np.cumsum(held)
        # As R's type 1: the least value that so many are not above.
        place = int(np.searchsorted(upto, ceil(n * Fraction(repr(share)))))
        # Whole counts from each edge on; the last bin has both its edges.
        edges = [Fraction(repr(one)) / measure.unit for one in self.edges.tolist()]
        firsts = [ceil(one) for one in edges]
        firsts[-1] = int(edges[-1] // 1) + 1
        ends = [measure.least, *firsts, measure.most + 1]
        low, high = (
            float(min(max(one, measure.least), measure.most) * measure.unit)
            for one in (ends[place], ends[place + 1] - 1)
        )
        before = upto[place] - held[place]
        part = float((n * share - before) / held[place])
        between = low + min(max(part, 0.0), 1.0) * (high - low)
        return TallyQuantile(share, low, high, between)


@dataclass(frozen=True)
class TallyQuantile:
    """Where a quantile lies, as counts at agreed thresholds tell.

    Attributes:
        low: no quantile of this share is below, by definition 1 of R's.
        high: nor above; where both are the same, that is the quantile.
        between: a guess, as if values were spread evenly from `low` to `high`.
    """

    share: float
    low: float
    high: float
    between: float


@dataclass(frozen=True)
class TallyBins:
    """Edges that all parties agreed on; `TallyBins.of` takes any ascending numbers.

    >>> TallyBins.of([0, 10, 20]).tally([-1, 0, 9, 10, 20, 21]).tolist()
    [1, 2, 2, 1]
    """

    edges: Vector

    def __post_init__(self) -> None:
        if self.edges.ndim != 1 or self.edges.size < 2:
            raise InvalidInputError(
                f"bins need at least two edges, found shape {self.edges.shape}",
                code="too-few-edges",
            )
        if not (np.diff(self.edges) > 0.0).all():
            raise InvalidInputError(
                "edges must ascend, each above the one before it: sort them, and "
                "name each one once",
                code="edges-not-ascending",
            )

    @classmethod
    def of(cls, edges: ArrayLike) -> TallyBins:
        return cls(np.atleast_1d(as_floats(edges, what="edges")))

    @property
    def size(self) -> int:
        """The length of the vector: the bins, and one more on either side."""
        return self.edges.size + 1

    @property
    def labels(self) -> tuple[str, ...]:
        edges = [f"{edge:g}" for edge in self.edges.tolist()]
        between = (f"{low} to {high}" for low, high in pairwise(edges))
        return f"below {edges[0]}", *between, f"above {edges[-1]}"

    def tally(self, values: ArrayLike) -> Integers:
        """Return one party's counts: below, in each bin, above."""
        return np.bincount(self.places(values), minlength=self.size)

    def places(self, values: ArrayLike) -> Array[Any]:
        """Return where each value is: 0 for below the first edge."""
        found = _flat_tally_numbers(values)
        place = np.searchsorted(self.edges, found, side="right")
        place[found == self.edges[-1]] -= 1  # the last bin has both its edges
        return place

    def unpack(self, total: Integers) -> TallyHistogram:
        _check_tally_size(total, self.size, what=f"{self.size - 2} bins")
        numbers = total.astype(np.float64)
        below, counts, above = np.split(numbers, [1, self.size - 1])
        return TallyHistogram(self.edges, below.item(), counts, above.item())


@dataclass(frozen=True)
class CrossTable:
    """Cells of categories: how many levels each axis has, as all parties agreed.

    Levels are coded 0, 1 and so on. A vector holds the cells with the last axis
    changing fastest, as numpy lays out an array.

    >>> table = CrossTable((2, 3))
    >>> table.unpack(table.tally([[0, 2], [1, 0], [0, 2]])).tolist()
    [[0.0, 0.0, 2.0], [1.0, 0.0, 0.0]]
    """

    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.levels or min(self.levels) < 1:
            raise InvalidInputError(
                "a table needs axes with at least one level each, "
                f"found levels {self.levels}",
                code="no-levels",
            )
        if self.size > MOST_CELLS:
            raise InvalidInputError(
                f"levels {self.levels} make {self.size} cells, more than {MOST_CELLS}: "
                "leave out an axis or merge levels",
                code="too-many-cells",
            )

    @property
    def size(self) -> int:
        return prod(self.levels)

    def tally(self, codes: ArrayLike) -> Integers:
        """Return one party's cells, flat; one row of codes for each observation.

        With a single axis a flat list of codes will do.
        """
        rows = self._checked(codes)
        cells = np.ravel_multi_index(tuple(rows.T), self.levels)
        return np.bincount(cells, minlength=self.size)

    def unpack(self, total: Integers) -> Cells:
        _check_tally_size(total, self.size, what=f"{self.size} cells")
        return total.astype(np.float64).reshape(self.levels)

    def _checked(self, codes: ArrayLike) -> Codes:
        found = as_floats(codes, what="codes of categories")
        # Whole floats, as tables often hold them, will do.
        if (found != np.rint(found)).any():
            raise InvalidInputError(
                "codes of categories must be whole numbers", code="codes-not-whole"
            )
        rows = found.astype(np.int64)
        if rows.ndim == 1 and len(self.levels) == 1:
            rows = rows[:, None]
        if rows.ndim != 2 or rows.shape[1] != len(self.levels):
            raise InvalidInputError(
                f"expected one row of {len(self.levels)} codes for each observation, "
                f"found shape {rows.shape}",
                code="wrong-shape",
            )
        for axis, n_levels in enumerate(self.levels):
            here = rows[:, axis]
            strange = here[(here < 0) | (here >= n_levels)]
            if strange.size:
                raise RangeError(
                    f"axis {axis} has the codes 0 to {n_levels - 1}, found "
                    f"{strange[0]}: agree on more levels, or leave out rows with "
                    "missing codes",
                    code="code-out-of-range",
                )
        return rows


def _flat_tally_numbers(values: ArrayLike) -> FloatArray:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"values to count must be numbers: {error}", code="not-numbers"
        ) from None
    if found.ndim != 1:
        raise InvalidInputError(
            f"expected one column of values, found shape {found.shape}",
            code="wrong-shape",
        )
    if np.isnan(found).any():
        raise InvalidInputError(
            f"{np.isnan(found).sum()} values are missing (nan) and belong to no bin: "
            "leave them out",
            code="missing-values",
        )
    return found


def _check_tally_size(total: Integers, size: int, *, what: str) -> None:
    if total.shape != (size,):
        raise InvalidInputError(
            f"{what} have a total of {size} numbers, found shape {total.shape}",
            code="wrong-shape",
        )
