"""Moments from sums, against numpy, pandas and exact rationals."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import few, seeds
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models.moments import BLOCK_ROWS, Moments, moments_of


def table(seed=0, n=60, k=3):
    """Columns of very different sizes that hang together."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((n, k)) @ rng.standard_normal((k, k))
    return mixed * 10.0 ** np.arange(-3, k - 3) + rng.uniform(-2.0, 2.0, k)


def pooled(values, *, owners=None, centre=None):
    """Moments of the sum over parties; owners says whose each row is."""
    owners = np.arange(len(values)) % 3 if owners is None else owners
    parts = [values[owners == party] for party in range(max(owners) + 1)]
    total = sum(moments_of(part, centre) for part in parts)
    return Moments.unpack(total, values.shape[1], centre)


def two_passes(values):
    first = pooled(values)
    return pooled(values, centre=first.mean)


@given(seeds, st.integers(1, 5), st.integers(2, 60))
def test_two_passes_are_numpy_on_the_pooled_rows(seed, k, n):
    values = table(seed, n, k)
    found = two_passes(values)
    spread = values.std(axis=0, ddof=1)
    assert found.count == n
    np.testing.assert_allclose(found.sum, values.sum(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.variance, spread**2, rtol=1e-9)
    np.testing.assert_allclose(found.standard_deviation, spread, rtol=1e-9)
    scale = np.outer(spread, spread)
    expected = np.cov(values.T, ddof=1).reshape(k, k)
    np.testing.assert_allclose(found.covariance / scale, expected / scale, atol=1e-9)


def test_correlations_are_those_of_pandas():
    values = table()
    expected = pd.DataFrame(values).corr().to_numpy()
    found = two_passes(values).correlation
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (np.diag(found) == 1.0).all()


@few
@given(st.lists(st.integers(0, 4), min_size=30, max_size=30), seeds)
def test_it_does_not_matter_who_holds_which_row(owners, seed):
    values = table(seed, n=30)
    centre = values.mean(axis=0)
    split = pooled(values, owners=np.array(owners), centre=centre)
    whole = Moments.unpack(moments_of(values, centre), 3, centre)
    np.testing.assert_allclose(split.covariance, whole.covariance, rtol=1e-9)
    np.testing.assert_allclose(split.mean, whole.mean, rtol=1e-12)


def far_from_zero(n=300):
    """A mean of 1e9 and a spread of 0.3: squares agree in 18 digits of 16."""
    return 1e9 + np.random.default_rng(5).random((n, 2))


def exact_covariance(values):
    """The covariance over n - 1 in rationals, rounded once."""
    columns = [[Fraction(x) for x in column] for column in values.T]
    means = [sum(column) / len(column) for column in columns]
    centred = [
        [x - mean for x in column] for column, mean in zip(columns, means, strict=True)
    ]
    products = [
        [sum(x * y for x, y in zip(a, b, strict=True)) for b in centred]
        for a in centred
    ]
    return np.array([[float(c / (len(values) - 1)) for c in row] for row in products])


def test_one_pass_loses_a_small_spread_far_from_zero_and_says_so():
    values = far_from_zero()
    found, exact = pooled(values), exact_covariance(values)
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-15)
    assert np.abs(found.variance / np.diag(exact) - 1.0).min() > 0.5
    assert (found.condition == np.inf).all()


def test_a_second_pass_about_the_mean_mends_it():
    values = far_from_zero()
    found, exact = two_passes(values), exact_covariance(values)
    np.testing.assert_allclose(found.covariance, exact, rtol=1e-13)
    np.testing.assert_allclose(found.condition, 1.0, rtol=1e-9)


@pytest.mark.parametrize("offset", [1e2, 1e3, 1e4])
def test_one_pass_has_the_digits_that_the_condition_promises(offset):
    values = offset + np.random.default_rng(1).random((300, 2))
    found, exact = pooled(values), exact_covariance(values)
    error = np.abs(found.variance / np.diag(exact) - 1.0)
    assert found.condition == pytest.approx(12.0 * offset**2, rel=0.3)
    assert (error < 10.0 * found.condition * 2.2e-16).all()


@pytest.mark.parametrize("number", [0.1, 1.0 / 3.0, 1e6 + 0.1, 0.0])
@pytest.mark.parametrize("passes", [pooled, two_passes])
def test_a_constant_column_has_no_spread_and_no_correlation(number, passes):
    values = table(n=3 * BLOCK_ROWS + 5, k=3)
    values[:, 1] = number
    found = passes(values)
    assert found.variance[1] == 0.0
    assert not found.covariance[1].any()
    assert np.isnan(found.correlation[1]).all()
    assert np.isnan(found.correlation[:, 1]).all()
    assert found.correlation[0, 2] == pytest.approx(
        np.corrcoef(values[:, 0], values[:, 2])[0, 1], rel=1e-9
    )


def test_equal_columns_correlate_exactly():
    values = np.repeat(table(k=1), 2, axis=1) * [1.0, -3.0]
    np.testing.assert_array_equal(
        two_passes(values).correlation.round(12), [[1.0, -1.0], [-1.0, 1.0]]
    )
    assert np.abs(two_passes(values).correlation).max() <= 1.0


def test_blocks_add_up_to_the_whole():
    values = table(n=2 * BLOCK_ROWS + 7)
    found = Moments.unpack(moments_of(values), 3)
    assert found.count == len(values)
    np.testing.assert_allclose(found.cross, values.T @ values, rtol=1e-12)
    np.testing.assert_allclose(found.shifted, values.sum(axis=0), rtol=1e-12)


def test_no_rows_have_no_mean_and_one_row_no_variance():
    nothing = Moments.unpack(moments_of(np.empty((0, 2))), 2)
    assert nothing.count == 0
    assert np.isnan(nothing.mean).all()
    assert nothing.sum.tolist() == [0.0, 0.0]
    assert np.isnan(nothing.variance).all()
    one = Moments.unpack(moments_of([[3.0, 4.0]]), 2)
    assert one.mean.tolist() == [3.0, 4.0]
    for spread in (one.variance, one.covariance, one.correlation):
        assert np.isnan(spread).all()


def test_the_layout_has_the_stated_order():
    vector = moments_of([[1.0, 2.0], [3.0, 5.0]], [1.0, 1.0])
    root = np.sqrt(2.0)
    np.testing.assert_allclose(vector, [2.0, 2.0, 5.0, 4.0, 8.0 * root, 17.0])
    assert Moments.size(2) == vector.size


@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_length_does_not_depend_on_the_data(k):
    sizes = {moments_of(np.ones((n, k))).size for n in (0, 1, 50)}
    assert sizes == {Moments.size(k)}


# Bad input.


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_that_cannot_be_summed_are_refused(bad):
    values = table()
    values[4, 1] = bad
    with pytest.raises(InvalidInputError, match="found nan, inf or numbers beyond"):
        moments_of(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"a table of rows.*found shape \(2,\)"),
        ([[], []], "at least one column"),
        ([["a"]], "a table must hold numbers"),
    ],
)
def test_what_is_no_table_is_refused(values, message):
    with pytest.raises(InvalidInputError, match=message):
        moments_of(values)


def test_a_centre_of_another_length_is_refused():
    with pytest.raises(InvalidInputError, match="the centre must be one number or 3"):
        moments_of(table(), [1.0, 2.0])


def test_a_total_of_another_size_is_refused():
    with pytest.raises(InvalidInputError, match="3 columns have 10 moments"):
        Moments.unpack(np.ones(9), 3)


def test_a_total_that_is_not_finite_is_refused():
    with pytest.raises(NumericalError, match="the sum went wrong"):
        Moments.unpack(np.full(10, np.nan), 3)
