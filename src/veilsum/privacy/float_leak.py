"""The floating-point leak: what the low bits of masked numbers rule out for certain.

Parties 1, 2 and 3 on a triangle, party 3 curious. It knows k_i = r_i3 - r_3i, sees what
the others make public, a~_i = a_i + u_i, and does not know the edge c = r_12 - r_21. An
alternative B with the same sum is impossible when no c at all explains both numbers:

    B_1 + (c + k_1) = a~_1   and   B_2 + (-c + k_2) = a~_2.

In float64 every operation is rounded and such a c may fail to exist; on a lattice of
integers it always exists. Both are answered for every run, never by sampling c: floats
are ordered like integers once their bits are read as such, so "the first float that
..." is a search over 64 bits, done for all runs at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, fsum, isfinite
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.masks.discrete_gaussian import discrete_gaussian
from veilsum.masks.laws import check_mask_sigma
from veilsum.masks.streams import SeededStream
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.shapes import Bool, Float, Int

DEFAULT_BITS = 40
# Below this, sums and numbers of grid steps are finite, as sigma's are.
LARGEST_VALUE = 1e150
# Runs at a time: memory stays small however many runs are asked for.
PIECE = 50_000

Triple: TypeAlias = tuple[Any, Any, Any]  # three floats, or three integers of any size
Shares: TypeAlias = Array[Any]  # (runs, 3, 2): edges 12, 13, 23, both directions

Runs: TypeAlias = Float[FloatArray, " runs"]
Keys: TypeAlias = Int[Array[np.int64], " runs"]
Flags: TypeAlias = Bool[Array[np.bool_], " runs"]

# The bits of minus zero as an integer; negative floats count up from it, backwards.
_MINUS_ZERO = np.iinfo(np.int64).min


@dataclass(frozen=True)
class FloatLeak:
    """Runs under one arithmetic in which party 3 could exclude the alternative.

    Attributes:
        excluded: number of runs in which the alternative was impossible.
        inexact_sums: number of runs in which the masked numbers did not add up to the
            sum.
    """

    runs: int
    excluded: int
    inexact_sums: int
    max_sum_error: float

    @property
    def rate(self) -> float:
        """The share of runs in which the alternative was impossible."""
        return self.excluded / self.runs


@dataclass(frozen=True, eq=False)
class FloatLeakViews:
    """Many runs, one array entry each: floats, or integers as Python's own.

    Attributes:
        known: k_1 and k_2, which party 3 knows.
        effective: a~_1, a~_2 and a~_3, which everybody sees.
    """

    known: tuple[Array[Any], Array[Any]]
    effective: tuple[Array[Any], Array[Any], Array[Any]]


def float_exclusions(
    first: float,
    second: float,
    third: float,
    *,
    sigma: float,
    runs: int,
    stream: np.random.Generator,
) -> FloatLeak:
    """Return how often float64 masks rule out that parties 1 and 2 had swapped values.

    Args:
        first: a_1, the true value of party 1; the alternative gives it to party 2.
        second: a_2, the true value of party 2; the alternative gives it to party 1.
        third: a_3, the curious party's own value.
        sigma: standard deviation of one share.
        runs: how many runs to simulate, each with fresh shares.
        stream: where the shares come from.
    """
    values, scale = (
        _check_float_leak_values(first, second, third),
        float(check_mask_sigma(sigma)),
    )

    def some(size: int) -> FloatLeak:
        views = mask_floats_of_leak(
            scale * stream.standard_normal((size, 3, 2)), values
        )
        excluded = float_excluded(views, values[1], values[0])
        return _count_float_leaks(excluded, float_sum_errors(views, values))

    return _float_leak_runs_in_pieces(runs, some)


def exclusions_by_lattice_view(
    first: float,
    second: float,
    third: float,
    *,
    sigma: float,
    runs: int,
    stream: np.random.Generator,
    bits: int = DEFAULT_BITS,
) -> FloatLeak:
    """Return the same for integer masks: values and shares on the grid 2^-bits.

    Values are rounded to the grid; shares are discrete Gaussians on it whose deviation
    is sigma, rounded up. The other arguments are those of `float_exclusions`.
    """
    values = float_leak_values_on_grid(
        _check_float_leak_values(first, second, third), bits
    )
    deviation = ceil(float(check_mask_sigma(sigma)) * 2.0**bits)
    draws = SeededStream(stream)

    def some(size: int) -> FloatLeak:
        shares = discrete_gaussian(draws, deviation, 6 * size).reshape(size, 3, 2)
        views = mask_floats_of_leak(shares.astype(object), values)
        excluded = excluded_by_lattice_view(views, values[1], values[0])
        return _count_float_leaks(excluded, lattice_sum_errors(views, values, bits))

    return _float_leak_runs_in_pieces(runs, some)


def mask_floats_of_leak(shares: Shares, values: Triple) -> FloatLeakViews:
    """Return phase I of many runs: u_i = (r_ij - r_ji) + (r_ik - r_ki), then a_i + u_i.

    The order of operations matters in float64 and is that of the honest parties.
    """
    c12, c13, c23 = np.moveaxis(shares[..., 0] - shares[..., 1], 1, 0)
    masks = (c12 + c13, -c12 + c23, -c13 - c23)
    one, two, three = (a + u for a, u in zip(values, masks, strict=True))
    return FloatLeakViews((c13, c23), (one, two, three))


# float64: floats that are neighbours, from a first to a last


def float_excluded(views: FloatLeakViews, first: float, second: float) -> Flags:
    """Return in which runs no float64 edge c explains the view with these values."""
    lowest, highest = float_keys_explaining_view(views, first, second)
    return lowest > highest


def float_keys_explaining_view(
    views: FloatLeakViews, first: float, second: float
) -> tuple[Keys, Keys]:
    """Return the keys of the smallest and largest c that explain a view.

    There are none where the first is above the second. The second equation holds -c,
    and the key of -c is minus the key of c.
    """
    low, high = preimage_of_float_sum(first, views.known[0], views.effective[0])
    minus_high, minus_low = preimage_of_float_sum(
        second, views.known[1], views.effective[1]
    )
    return np.maximum(low, -minus_low), np.minimum(high, -minus_high)


def float_sum_errors(views: FloatLeakViews, values: Triple) -> Runs:
    """Return |sum of a~_i - sum of a_i|, added without rounding on the way."""
    less = tuple(-value for value in values)
    rows = np.stack(views.effective, axis=1).tolist()
    return np.abs([fsum((*row, *less)) for row in rows])


# The lattice: integers of any size, so that nothing can wrap around


def excluded_by_lattice_view(views: FloatLeakViews, first: int, second: int) -> Flags:
    """Return in which runs no integer c explains the view with these values.

    Each equation has one solution; the view is possible when the two are the same.
    """
    from_first = views.effective[0] - views.known[0] - first
    from_second = second + views.known[1] - views.effective[1]
    return np.asarray(from_first != from_second, dtype=np.bool_)


def lattice_sum_errors(views: FloatLeakViews, values: Triple, bits: int) -> Runs:
    errors = sum(views.effective) - sum(values)
    return np.abs(errors).astype(np.float64) / 2.0**bits


def float_leak_values_on_grid(values: Triple, bits: int) -> Triple:
    """Return the values in grid steps of 2^-bits, rounded to the nearest."""
    one, two, three = (round(value * 2.0**bits) for value in values)
    return one, two, three


# Both


def _check_float_leak_values(*values: float) -> Triple:
    if not all(isfinite(value) and abs(value) < LARGEST_VALUE for value in values):
        shown = ", ".join(f"{value:g}" for value in values)
        raise InvalidInputError(
            f"the values must be finite numbers below {LARGEST_VALUE:g}, found {shown}",
            code="values-out-of-range",
        )
    if values[0] == values[1]:
        raise InvalidInputError(
            "the first two values must be different, found "
            f"{values[0]:g} twice: swapping them must change something",
            code="values-equal",
        )
    one, two, three = map(float, values)
    return one, two, three


def _count_float_leaks(excluded: Flags, errors: Runs) -> FloatLeak:
    inexact, worst = int(np.count_nonzero(errors)), float(errors.max())
    return FloatLeak(len(errors), int(excluded.sum()), inexact, worst)


def _float_leak_runs_in_pieces(
    runs: int, some: Callable[[int], FloatLeak]
) -> FloatLeak:
    if runs < 1:
        raise InvalidInputError(
            f"there must be at least 1 run, found {runs}", code="runs-not-positive"
        )
    parts = [some(min(PIECE, runs - start)) for start in range(0, runs, PIECE)]
    return FloatLeak(
        runs=sum(part.runs for part in parts),
        excluded=sum(part.excluded for part in parts),
        inexact_sums=sum(part.inexact_sums for part in parts),
        max_sum_error=max(part.max_sum_error for part in parts),
    )


def preimage_of_float_sum(base: float, known: Runs, target: Runs) -> tuple[Keys, Keys]:
    """Return the keys of the first and last c with fl(base + fl(c + known)) = target.

    If there are none, the first is one above the last.
    """
    return rising_float_preimage(lambda c: base + (c + known), target)


def rising_float_preimage(
    made: Callable[[Runs], Runs], target: Runs
) -> tuple[Keys, Keys]:
    """Return the keys of the first and last c of which a target is made.

    Rounding is monotone, so that what adds to c, in any order, never falls while c
    rises, and these c are neighbours; if there are none, the first is one above the
    last.
    """
    low = _first_float_key_reaching(lambda c: made(c) >= target, len(target))
    above = _first_float_key_reaching(lambda c: made(c) > target, len(target))
    return low, above - 1


def _first_float_key_reaching(reached: Callable[[Runs], Flags], runs: int) -> Keys:
    """Return the first key whose float has reached the target, by bisection.

    Infinity always has and minus infinity never has, so they enclose the answer.
    """
    high = np.full(runs, order_key_of_float(np.array([np.inf]))[0])
    low = -high
    with np.errstate(over="ignore"):
        for _ in range(64):
            # The mean rounded down, without the overflow of low + high.
            middle = (low & high) + ((low ^ high) >> 1)
            there = reached(float_of_leak_key(middle))
            low, high = np.where(there, low, middle), np.where(there, middle, high)
    return high


def order_key_of_float(numbers: Runs) -> Keys:
    """Return integers in the order of the floats, one apart for neighbouring floats."""
    bits = numbers.view(np.int64)
    return np.where(bits < 0, _MINUS_ZERO - bits, bits)


def float_of_leak_key(keys: Keys) -> Runs:
    return np.where(keys < 0, _MINUS_ZERO - keys, keys).view(np.float64)
