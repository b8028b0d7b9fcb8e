"""What two sums of a meta-analysis tell of one study.

Four numbers of the first round and two of the second, at a tau2 that follows, are six
equations; a study is two unknowns. Three studies can be solved for,
up to which of a few ways it is. Of four and more
the sums leave others, and how far these are apart is measured here.
"""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from scipy.optimize import least_squares, minimize

import veilsum as vs
from cases import each
from refusals import refused
from veilsum.models.meta import MetaRanges, MetaTotals

RANGES = MetaRanges((-3.0, 3.0), (0.01, 2.0))


def studies(n, seed):
    chance = np.random.default_rng(seed)
    return 0.4 + 0.5 * chance.normal(size=n), chance.uniform(0.1, 0.4, n)


def released(y, e):
    """Both rounds' sums over these studies, and tau2, as everybody has them."""
    first = sum(RANGES.vector(*one, Fraction(0)) for one in zip(y, e, strict=True))
    tau2 = MetaTotals.of(RANGES, first, len(y)).tau2
    second = sum(RANGES.vector(*one, tau2)[:2] for one in zip(y, e, strict=True))
    units = [*RANGES.sums.units, RANGES.unit, RANGES.unit]
    counts = [*first, *second]
    return np.array(
        [float(int(k) * u) for k, u in zip(counts, units, strict=True)]
    ), float(tau2)


def shown(point, tau2):
    n = len(point) // 2
    y, e = point[:n] / float(RANGES.scale), np.exp(point[n:])
    w, v = 1.0 / e**2, 1.0 / (e**2 + tau2)
    return np.array([one.sum() for one in (w, w * y, w * y * y, w * w, v, v * y)])


def solved(sums, tau2, n, starts=40):
    """All studies with these sums, from many starts; the least estimate first."""
    chance, ways = np.random.default_rng(1), {}
    for _ in range(starts):
        errors = chance.uniform(-2.2, -1, n)
        start = np.concatenate([chance.normal(0.4, 0.7, n), errors])
        found = least_squares(
            lambda point: shown(point, tau2) / sums - 1.0,
            start,
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
        )
        if found.cost < 1e-18:
            order = np.argsort(found.x[:n])
            y, e = found.x[:n][order], np.exp(found.x[n:])[order]
            ways[tuple(y.round(4))] = y, e
    return list(ways.values())


def test_three_studies_follow_from_both_rounds():
    """Why three are refused; the first round alone leaves two numbers free."""
    y, e = np.array([-0.31, 0.44, 1.27]), np.array([0.13, 0.21, 0.34])
    sums, tau2 = released(y, e)
    assert tau2 > 0.0
    ways = solved(sums, tau2, 3)
    assert len(ways) <= 6
    assert any(
        np.allclose(found, y, atol=1e-4) and np.allclose(errors, e, rtol=1e-4)
        for found, errors in ways
    )


def reach(y, e, tau2, place):
    """The least and the largest estimate that one study may have, by the sums."""
    point = np.concatenate([y, np.log(e)])
    sums = shown(point, tau2)
    low, high = RANGES.effects
    bounds = [(low, high)] * len(y) + [tuple(np.log(RANGES.errors))] * len(y)
    ends = []
    for sign in (1.0, -1.0):
        found = minimize(
            lambda x, sign=sign: sign * x[place],
            point,
            constraints={"type": "eq", "fun": lambda x: shown(x, tau2) / sums - 1.0},
            bounds=bounds,
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-10},
        )
        # Only what has the same sums counts.
        if np.abs(shown(found.x, tau2) / sums - 1.0).max() < 1e-6:
            ends.append(found.x[place])
    return max(ends) - min(ends) if len(ends) == 2 else 0.0


def widths(n, seed):
    y, e = studies(n, seed)
    _, tau2 = released(y, e)
    return [reach(y, e, tau2, k) / np.std(y) for k in range(n)]


@each("seed", [1, 2, 3])
def test_of_four_studies_others_far_away_have_the_same_sums(seed):
    """No four numbers are further apart than the root of 8 of their deviations.

    What is beyond that is no exchange of names: other estimates have the same sums.
    """
    assert max(widths(4, seed)) > np.sqrt(8.0)


def of_two_decimals(seed):
    chance = np.random.default_rng(seed)
    return chance.uniform(-1, 2, 4).round(2), chance.uniform(0.1, 0.4, 4).round(2)


def tried(sums, n=4):
    """Every set of errors of two decimals that has the sums of w and of w^2."""
    candidates = np.arange(10, 41) / 100.0
    w = 1.0 / candidates**2
    places = np.array(list(combinations_with_replacement(range(len(w)), n)))
    near = np.abs(w[places].sum(axis=1) / sums[0] - 1.0) < 1e-9
    near &= np.abs((w**2)[places].sum(axis=1) / sums[3] - 1.0) < 1e-9
    return candidates[places[near]].tolist()


def test_numbers_of_two_digits_are_found_by_trying():
    """Why they are refused: of four honest studies all four errors follow."""
    y, e = of_two_decimals(5)
    sums, _ = released(y, e)
    assert tried(sums) == [sorted(e.tolist())]
    # The twin: with all digits no set of short ones has these sums.
    more = e * (1.0 + 1e-7 * np.arange(1, 5))
    assert tried(released(y, more)[0]) == []


def test_few_digits_are_refused_unless_all_agree():
    y, e = of_two_decimals(5)
    short = dict(zip("abcd", zip(y, e, strict=True), strict=True))
    held = {**short, "e": (0.123456789, 0.123456789)}
    ranges = {"effects": RANGES.effects, "errors": RANGES.errors}
    with refused("too-few-digits"):
        vs.meta_analysis(held, **ranges)
    found = vs.meta_analysis(held, few_digits=True, driver="vectorised", **ranges)
    assert found.fixed.n_studies == 5
