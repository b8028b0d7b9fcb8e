"""One large party in a sum: how near the second largest comes to its number.

Statistical offices refuse a cell where the two largest of its contributors make up 90 %
of it, or where the second largest knows the largest to within 10 % (the p% rule). In a
sum over parties nobody can look at that before the total is known. How often it happens
is measured here for numbers that are log-normal between parties.
"""

import numpy as np

import veilsum as vs
from cases import each

DRAWS = 4000


def drawn(sigma, n):
    """Many sums' numbers, each sum's in order, the largest first."""
    chance = np.random.default_rng((int(10 * sigma), n))
    return -np.sort(-np.exp(chance.normal(0.0, sigma, (DRAWS, n))), axis=1)


def broken(numbers):
    """How often p% with p = 10, and two with 90 %, are broken."""
    first, second, total = numbers[:, 0], numbers[:, 1], numbers.sum(axis=1)
    near = total - first - second < 0.1 * first
    return near.mean(), (first + second > 0.9 * total).mean()


def known_of_the_largest(numbers, *, by_doublings=False):
    """How wide the second largest's interval for the largest is, beside it; a median.

    It knows its own number and the total, that no number is below 0, and, if counts by
    doublings were shown, between which two powers of two each of the others is.
    """
    others = np.delete(numbers, 1, axis=1)
    rest = others.sum(axis=1)
    low, high = np.zeros_like(others), np.repeat(rest[:, None], others.shape[1], 1)
    if by_doublings:
        low = 2.0 ** np.floor(np.log2(others))
        high = 2.0 * low
    most = np.minimum(high[:, 0], rest - low[:, 1:].sum(axis=1))
    # Without counts the largest of the others is at least their mean.
    least = np.maximum(low[:, 0], rest - high[:, 1:].sum(axis=1))
    least = np.maximum(least, rest / others.shape[1])
    assert (least <= others[:, 0] * (1 + 1e-12)).all()
    assert (others[:, 0] <= most * (1 + 1e-12)).all()
    return float(np.median((most - least) / others[:, 0]))


# sigma, parties: parts of sums that break p% and (2, 90 %); the interval from the total
# alone, and with counts by doublings. As on the page of threats.
MEASURED = {
    (0.5, 5): (0.000, 0.000, 1.78, 0.52),
    (0.5, 8): (0.000, 0.000, 3.18, 0.64),
    (0.5, 12): (0.000, 0.000, 4.80, 0.70),
    (0.5, 20): (0.000, 0.000, 7.76, 0.73),
    (1.0, 5): (0.011, 0.025, 1.26, 0.35),
    (1.0, 8): (0.000, 0.001, 1.98, 0.54),
    (1.0, 12): (0.000, 0.000, 2.83, 0.61),
    (1.0, 20): (0.000, 0.000, 4.05, 0.67),
    (1.5, 5): (0.146, 0.216, 1.01, 0.20),
    (1.5, 8): (0.041, 0.063, 1.45, 0.37),
    (1.5, 12): (0.009, 0.015, 1.89, 0.51),
    (1.5, 20): (0.003, 0.004, 2.61, 0.58),
    (2.0, 5): (0.312, 0.412, 0.90, 0.12),
    (2.0, 8): (0.151, 0.210, 1.19, 0.23),
    (2.0, 12): (0.071, 0.101, 1.48, 0.34),
    (2.0, 20): (0.028, 0.039, 1.93, 0.49),
}


@each(("sigma", "n"), MEASURED)
def test_how_often_one_party_dominates_a_sum(sigma, n):
    numbers = drawn(sigma, n)
    found = (
        *broken(numbers),
        known_of_the_largest(numbers),
        known_of_the_largest(numbers, by_doublings=True),
    )
    np.testing.assert_allclose(found, MEASURED[sigma, n], atol=0.006)
    # So counts first would tell more than they prevent.
    assert found[3] < found[2]


def test_the_second_largest_tells_the_largest_where_it_dominates():
    """The attack itself, on a sum under masks; the twin is a sum of equals."""
    large = {"a": 1000.0, "b": 60.0, "c": 3.0, "d": 2.0, "e": 1.0}
    result = vs.sum(large, unit=0.1, seed=1)
    guess = result.value.item() - large["b"]
    assert abs(guess - large["a"]) < 0.01 * large["a"]
    equals = dict.fromkeys("abcde", 200.0)
    guess = vs.sum(equals, unit=0.1, seed=1).value.item() - equals["b"]
    assert guess > 3 * equals["a"]
    assert "the second largest" in " ".join(result.guarantee.limits)
    average = vs.mean(large, unit=0.1, seed=1)
    assert "the second largest" in " ".join(average.guarantee.limits)
