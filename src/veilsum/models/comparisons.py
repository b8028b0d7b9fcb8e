"""Groups compared, from their sums alone: tests of means and of counts, differences.

Whatever Student, Welch, Fisher and Pearson ask for follows from the counts, sums and
sums of squares of each group, or from a table of counts. It is computed in fractions
and rounded once; chances come from scipy. Groups and levels that nobody has are left
out, and where nothing is left to compare, or nothing varies, the answer is nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nan

import numpy as np
import scipy

from veilsum.models.moments import MarginalMoments, exact_square_root
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.shapes import Float

Levels = Float[FloatArray, " levels"]
Crossed = Float[FloatArray, "levels groups"]
# Without levels and groups that nobody has.
Held = Float[FloatArray, "some others"]


@dataclass(frozen=True)
class GroupTest:
    """One test of whether groups differ."""

    name: str
    statistic: float
    degrees: tuple[float, ...]
    p: float


def compare_means(
    groups: Sequence[MarginalMoments], column: int
) -> tuple[GroupTest, ...]:
    """Return the tests of a column's means: ANOVA and Welch's, with two groups t too.

    With two groups the F of each is the square of the t, which has a sign: that of the
    first group's mean less the second's.
    """
    held = [one for one in groups if one.rows[column]]
    found = (_anova_of_groups(held, column), _welch_test_of_groups(held, column))
    if len(held) != 2:
        return found
    means = [one.means[column] for one in held]
    sign = 1.0 if means[0] >= means[1] else -1.0
    names = ("t-test", "Welch's t-test")
    return (
        *(_rooted_group_test(f, n, sign) for f, n in zip(found, names, strict=True)),
        *found,
    )


def _anova_of_groups(groups: Sequence[MarginalMoments], column: int) -> GroupTest:
    name = "one-way ANOVA"
    counts = [one.rows[column] for one in groups]
    within = sum((one.scatters[column] for one in groups), Fraction(0))
    between, rest = len(groups) - 1, sum(counts) - len(groups)
    if between < 1 or rest < 1 or not within:
        return GroupTest(name, nan, (float(between), float(rest)), nan)
    means = [one.means[column] for one in groups]
    middle = sum(map(_multiply_group_fractions, counts, means), Fraction(0)) / sum(
        counts
    )
    apart = [(mean - middle) ** 2 for mean in means]
    explained = sum(map(_multiply_group_fractions, counts, apart), Fraction(0))
    return _f_test_of_groups(name, explained / between / (within / rest), between, rest)


def _welch_test_of_groups(groups: Sequence[MarginalMoments], column: int) -> GroupTest:
    name, k = "Welch's ANOVA", len(groups)
    counts = [one.rows[column] for one in groups]
    scatters = [one.scatters[column] for one in groups]
    if k < 2 or min(counts) < 2 or not all(scatters):
        return GroupTest(name, nan, (float(k - 1), nan), nan)
    weights = [n * (n - 1) / one for n, one in zip(counts, scatters, strict=True)]
    means = [one.means[column] for one in groups]
    whole = sum(weights, Fraction(0))
    middle = sum(map(_multiply_group_fractions, weights, means), Fraction(0)) / whole
    spread = sum(
        (
            (1 - weight / whole) ** 2 / (n - 1)
            for n, weight in zip(counts, weights, strict=True)
        ),
        Fraction(0),
    ) / (k**2 - 1)
    apart = [(mean - middle) ** 2 for mean in means]
    explained = sum(map(_multiply_group_fractions, weights, apart), Fraction(0)) / (
        k - 1
    )
    return _f_test_of_groups(
        name, explained / (1 + 2 * (k - 2) * spread), k - 1, 1 / (3 * spread)
    )


def _multiply_group_fractions(one: Fraction | int, other: Fraction) -> Fraction:
    return one * other


def _f_test_of_groups(
    name: str, ratio: Fraction, between: int, rest: Fraction | int
) -> GroupTest:
    degrees = float(between), float(rest)
    p = float(scipy.special.fdtrc(*degrees, float(ratio)))
    if between == 1:  # the same by Student's t, whose tail keeps its digits
        p = 2.0 * float(
            scipy.special.stdtr(degrees[1], -float(exact_square_root(ratio)))
        )
    return GroupTest(name, float(ratio), degrees, p)


def _rooted_group_test(found: GroupTest, name: str, sign: float) -> GroupTest:
    statistic = sign * float(np.sqrt(found.statistic))
    return GroupTest(name, statistic, found.degrees[1:], found.p)


def compare_counts(cells: Crossed) -> tuple[GroupTest, ...]:
    """Return Pearson's chi-square of levels by groups; of two by two also Yates's."""
    held = _filled_comparison_table(cells)
    degrees = (held.shape[0] - 1) * (held.shape[1] - 1)
    found = [_chi_square_test_of_groups(held, Fraction(0), degrees, "chi-square")]
    if held.shape == (2, 2):
        found.append(
            _chi_square_test_of_groups(held, Fraction(1, 2), 1, "chi-square, Yates")
        )
    return tuple(found)


def _chi_square_test_of_groups(
    held: Held, less: Fraction, degrees: int, name: str
) -> GroupTest:
    if degrees < 1:
        return GroupTest(name, nan, (float(degrees),), nan)
    down, across = held.sum(axis=1), held.sum(axis=0)
    n, total = int(held.sum()), Fraction(0)
    for place in np.ndindex(held.shape):
        expected = Fraction(int(down[place[0]]) * int(across[place[1]]), n)
        off = abs(int(held[place]) - expected)
        # As R does: no more is taken off than there is.
        total += (off - min(less, off)) ** 2 / expected
    p = float(scipy.special.chdtrc(degrees, float(total)))
    return GroupTest(name, float(total), (float(degrees),), p)


def cramers_v(cells: Crossed) -> float:
    """Return how strongly levels and groups go together, from 0 to 1."""
    held = _filled_comparison_table(cells)
    least = min(held.shape) - 1
    if least < 1:
        return nan
    statistic = compare_counts(cells)[0].statistic
    return float(np.sqrt(statistic / (held.sum() * least)))


def _filled_comparison_table(cells: Crossed) -> Held:
    """Return a table without levels and groups that nobody has."""
    whole = np.asarray(cells, dtype=np.float64)
    return whole[whole.any(axis=1)][:, whole.any(axis=0)]


def difference_of_means(
    one: MarginalMoments, other: MarginalMoments, column: int
) -> float:
    counts = one.rows[column], other.rows[column]
    if min(counts) < 2:
        return nan
    apart = abs(one.means[column] - other.means[column])
    scatters = one.scatters[column], other.scatters[column]
    variance = scatters[0] / (counts[0] - 1) + scatters[1] / (counts[1] - 1)
    if not variance:
        return inf if apart else 0.0
    return float(exact_square_root(2 * apart**2 / variance))


def difference_of_shares(one: Levels, other: Levels) -> float:
    """Return how far the shares of levels are apart in two groups, as Yang and Dalton.

    Of two levels this is the difference of shares over the root of the mean of their
    variances; of more it is Mahalanobis' distance, the first level left out.
    """
    if not one.sum() or not other.sum():
        return nan
    shares = [each / each.sum() for each in (one, other)]
    apart = (shares[0] - shares[1])[1:]
    spread = sum(np.diag(each[1:]) - np.outer(each[1:], each[1:]) for each in shares)
    spread = np.asarray(spread) / 2.0
    inverse = np.linalg.pinv(spread, hermitian=True)
    if not np.allclose(spread @ inverse @ apart, apart, atol=1e-9):
        return inf
    return float(np.sqrt(max(apart @ inverse @ apart, 0.0)))
