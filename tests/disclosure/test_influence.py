"""Influence is what the best linear attacker reaches, and no more."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

from veilsum.disclosure.influence import Influence, influence_attack_success
from veilsum.errors import InvalidInputError
from veilsum.files import datasets


def by_definition(changes, units, rows, variance):
    noise = np.diag(rows * units**2 / (12 * variance))
    inverse = np.linalg.inv(changes.T @ changes + noise)
    return np.diag(changes @ inverse @ changes.T)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12))
def test_influence_is_its_definition_however_numbers_are_added(seed, people, numbers):
    rng = np.random.default_rng(seed)
    changes = rng.normal(size=(people, numbers))
    units = 10.0 ** rng.uniform(-2, 1, size=numbers)
    expected = by_definition(changes, units, 5 * people, 2.0)
    at_once = Influence(people, 2.0).adding(changes, units, 5 * people)
    np.testing.assert_allclose(at_once.values, expected, rtol=1e-8, atol=1e-12)
    slowly = Influence(people, 2.0)
    for k in range(numbers):
        slowly = slowly.adding(changes[:, [k]], units[[k]], 5 * people)
    np.testing.assert_allclose(slowly.values, expected, rtol=1e-6, atol=1e-12)


def test_repeated_numbers_tell_nothing_new():
    rng = np.random.default_rng(3)
    changes, units = rng.normal(size=(60, 8)), np.full(8, 1e-9)
    once = Influence(60).adding(changes, units, 300)
    mixed = once.adding(changes @ rng.normal(size=(8, 20)), np.full(20, 1e-9), 300)
    np.testing.assert_allclose(mixed.values, once.values, atol=1e-6)
    assert once.adding(np.zeros((60, 4)), units[:4], 300) is once


def test_more_numbers_never_tell_less():
    rng = np.random.default_rng(4)
    before = Influence(40)
    for _ in range(6):
        after = before.adding(rng.normal(size=(40, 3)), np.full(3, 0.1), 200)
        assert (after.values >= before.values - 1e-12).all()
        before = after
    assert 0.0 < before.largest <= 1.0


def test_an_inclusion_exclusion_inside_one_gram_matrix_is_one_person():
    """`b ~ a * cost`: a and b are 1 but for two people, and for one of them both are 0.

    sum cost - sum a cost - sum b cost + sum ab cost is that person's cost.
    """
    rng = np.random.default_rng(5)
    n = 300
    a, b, cost = np.ones(n), np.ones(n), rng.normal(20_000, 5_000, n).round(2)
    a[[0, *range(1, 40)]] = 0.0
    b[[0, *range(40, 80)]] = 0.0
    columns = np.column_stack(
        [np.ones(n), a, a, b, b * a]
    )  # what cost is multiplied by
    products = [columns[:, 0], a, b, a * b, 2 * cost, 2 * a * cost]
    found = Influence(n, cost.var()).adding(
        np.column_stack(products), np.array([0.01] * 4 + [0.0001] * 2), 5 * n
    )
    assert found.values[0] > 0.99
    assert np.sort(found.values)[-2] < 0.5
    assert influence_attack_success(found.largest) > 0.999


def largest(table, columns, response, seed):
    """The largest influence by the response, of five sites with random rows."""
    numbers = table[[*columns, response]].to_numpy(float)
    mixed = np.random.default_rng(seed).permutation(len(numbers))
    found = []
    for rows in np.array_split(mixed, 5):
        design = np.column_stack([np.ones(len(rows)), numbers[rows]])
        design[:, -1] *= 2.0  # y'y changes by 2 y
        influence = Influence(len(rows), numbers[:, -1].var())
        units = np.full(design.shape[1], 1e-6)
        found.append(influence.adding(design, units, len(numbers)).largest)
    return max(found)


@pytest.mark.parametrize(
    ("load", "response", "n_columns", "passing"),
    [
        (datasets.diabetes, "progression", 4, (20, 20, 20, 20)),
        (datasets.diabetes, "progression", 10, (0, 2, 17, 20)),
        (datasets.breast_cancer, "malignant", 10, (0, 0, 4, 18)),
    ],
    ids=["442 people, 4 columns", "442 people, 10", "569 people, 10"],
)
def test_ordinary_regressions_have_the_influence_of_the_design(
    load, response, n_columns, passing
):
    """Fixed seeds: 20 random splits; how many stay at or below each limit."""
    table = pd.concat([*load(5).values()], ignore_index=True)
    columns = [name for name in table.columns if name != response][:10]
    if n_columns == 4:
        columns = ["sex", "bmi", "bp", "s5"]
    found = np.array([largest(table, columns, response, seed) for seed in range(20)])
    limits = 1 / 3, 0.5, 0.7, 0.8
    assert tuple(int((found <= limit).sum()) for limit in limits) == passing


@pytest.mark.statistical
def test_the_best_linear_attacker_succeeds_as_often_as_said():
    """Fixed seed, 20,000 studies; three standard errors: false alarms below 0.3 %.

    People have balanced bits that nobody knows; the attacker knows all else, sees the
    rounded totals, and forms the best linear estimate of one person's bit.
    """
    rng, n, m, studies = np.random.default_rng(6), 60, 25, 20_000
    changes = rng.normal(size=(n, m))
    units = np.full(m, 0.5)
    rounding = rng.uniform(-0.25, 0.25, size=(studies, n, m)).sum(axis=1)
    bits = rng.integers(0, 2, size=(studies, n))
    totals = bits @ changes + rounding
    # The estimate, of deviations from their means.
    noise = np.diag(n * units**2 / (12 * 0.25))
    weights = np.linalg.solve(changes.T @ changes + noise, changes.T)
    guessed = (totals - 0.5 * changes.sum(axis=0)) @ weights > 0.0
    right = (guessed == (bits == 1)).mean(axis=0)
    found = Influence(n).adding(changes, units, n).values
    error = sqrt(0.25 / studies)
    expected = np.array([influence_attack_success(one) for one in found])
    assert abs((right - expected).mean()) < 3 * error
    assert expected[0] == pytest.approx(norm.cdf(sqrt(found[0] / (1 - found[0]))))
    # One person has other sampling error, and its bits are not quite normal.
    assert np.abs(right - expected).max() < 6 * error


def test_influence_shows_nobody_and_refuses_other_shapes():
    found = Influence(4)
    assert "0." not in repr(found)
    assert found.largest == 0.0
    with pytest.raises(InvalidInputError):
        found.adding(np.ones((3, 2)), np.ones(2), 20)
    with pytest.raises(InvalidInputError):
        found.adding(np.full((4, 1), np.nan), np.ones(1), 20)
    with pytest.raises(InvalidInputError):
        Influence(0)
    with pytest.raises(InvalidInputError):
        influence_attack_success(1.2)
