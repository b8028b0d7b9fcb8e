"""Moments from one exact sum, against numpy, pandas and exact rationals."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import few, seeds
from veilsum.errors import InvalidInputError, RangeError
from veilsum.models.moments import (
    BLOCK_ROWS,
    Moments,
    exact_square_root,
    marginal_moments_of,
    moments_of,
)
from veilsum.numbers.units import UnitMeasure, inferred_unit_measure


def table(seed=0, n=60, k=3):
    """Columns of very different sizes that hang together, in whole numbers of units."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((n, k)) @ rng.standard_normal((k, k))
    values = mixed * 10.0 ** np.arange(-3, k - 3) + rng.uniform(-2.0, 2.0, k)
    return rounded(values)


def rounded(values):
    columns = zip(measures_of(values), values.T, strict=True)
    return np.stack([one.rounded(column) for one, column in columns], axis=1)


def measures_of(values):
    return tuple(inferred_unit_measure(column).centred() for column in values.T)


def pooled(values, *, owners=None, measures=None):
    """Moments of the sum over parties; owners says whose each row is."""
    measures = measures or measures_of(values)
    owners = np.arange(len(values)) % 3 if owners is None else owners
    parts = [values[owners == party] for party in range(max(owners) + 1)]
    return Moments.unpack(sum(moments_of(part, measures) for part in parts), measures)


@given(seeds, st.integers(1, 5), st.integers(2, 60))
def test_moments_are_numpys_on_the_pooled_rows(seed, k, n):
    values = table(seed, n, k)
    found = pooled(values)
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
    found = pooled(values).correlation
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (np.diag(found) == 1.0).all()


@few
@given(st.lists(st.integers(0, 4), min_size=30, max_size=30), seeds)
def test_it_does_not_matter_who_holds_which_row(owners, seed):
    """To the last bit: the total itself is the same."""
    values = table(seed, n=30)
    measures = measures_of(values)
    whole = moments_of(values[::-1], measures)
    parts = [values[np.array(owners) == party] for party in range(5)]
    split = sum(moments_of(part, measures) for part in parts)
    assert split.tolist() == whole.tolist()
    assert {*map(type, whole.tolist())} == {int}


def exact(values):
    """The means and the covariance over n - 1 in rationals, each rounded once."""
    columns = [[Fraction(x) for x in column] for column in values.T]
    means = [sum(column) / len(column) for column in columns]
    centred = [
        [x - mean for x in column] for column, mean in zip(columns, means, strict=True)
    ]
    products = [
        [sum(x * y for x, y in zip(a, b, strict=True)) for b in centred]
        for a in centred
    ]
    covariance = [[float(c / (len(values) - 1)) for c in row] for row in products]
    return np.array([float(mean) for mean in means]), np.array(covariance)


def test_a_small_spread_far_from_zero_loses_nothing():
    """A mean of 1e9 and a spread of 0.3: squares agree in 18 digits of 16."""
    values = 1e9 + np.random.default_rng(5).random((300, 2))
    found = pooled(values)
    mean, covariance = exact(values)
    assert found.mean.tolist() == mean.tolist()
    assert found.covariance.tolist() == covariance.tolist()


@given(
    st.lists(
        st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**4)),
        min_size=2,
        max_size=20,
    ),
    st.sampled_from([Fraction(1), Fraction(1, 8), Fraction(1, 100), Fraction(3, 7)]),
)
def test_everything_is_rounded_once(rows, unit):
    measures = (
        UnitMeasure(unit, -(10**6), 10**6),
        UnitMeasure(Fraction(1, 4), 0, 10**4),
    )
    values = np.array([[float(a * unit), b / 4] for a, b in rows])
    found = pooled(values, measures=tuple(one.centred() for one in measures))
    columns = [[a * unit for a, _ in rows], [Fraction(b, 4) for _, b in rows]]
    means = [sum(column) / len(rows) for column in columns]
    scatter = [
        [
            sum((x - m) * (y - k) for x, y in zip(a, b, strict=True))
            for b, k in zip(columns, means, strict=True)
        ]
        for a, m in zip(columns, means, strict=True)
    ]
    assert found.sum.tolist() == [float(sum(column)) for column in columns]
    assert found.mean.tolist() == [*map(float, means)]
    over = len(rows) - 1
    assert found.covariance.tolist() == [[float(c / over) for c in r] for r in scatter]
    for place in (0, 1):
        size = found.standard_deviation[place]
        below, above = (Fraction(np.nextafter(size, to)) for to in (0, np.inf))
        variance = scatter[place][place] / over
        assert variance == 0 == size or below**2 < variance < above**2


@pytest.mark.parametrize("number", [0.1, 1.0 / 3.0, 1e6 + 0.1, 0.0])
def test_a_constant_column_has_no_spread_and_no_correlation(number):
    values = table(n=3 * BLOCK_ROWS + 5, k=3)
    values[:, 1] = number
    found = pooled(values)
    assert found.mean[1] == pytest.approx(number, rel=1e-12)
    assert found.variance[1] == 0.0
    assert not found.covariance[1].any()
    assert np.isnan(found.correlation[1]).all()
    assert np.isnan(found.correlation[:, 1]).all()
    assert found.correlation[0, 2] == pytest.approx(
        np.corrcoef(values[:, 0], values[:, 2])[0, 1], rel=1e-9
    )


def test_columns_that_float64_cannot_count_are_counted_all_the_same():
    measures = (
        UnitMeasure(Fraction(1, 2**90), 0, 2**90),
        UnitMeasure(Fraction(1), 0, 9),
    )
    values = np.array([[0.1, 3.0], [0.7, 4.0], [1.0, 9.0]])
    found = moments_of(values, measures)
    whole = [[int(Fraction(a) * 2**90), int(b)] for a, b in values]
    assert found[1] == sum(a for a, _ in whole)
    assert found[3:].tolist() == [
        *(sum(a * a for a, _ in whole), sum(a * b for a, b in whole)),
        sum(b * b for _, b in whole),
    ]


def test_equal_columns_correlate_exactly():
    values = np.repeat(np.rint(table(k=1) * 1e6), 2, axis=1) * [1.0, -3.0]
    assert pooled(values).correlation.tolist() == [[1.0, -1.0], [-1.0, 1.0]]


def test_blocks_add_up_to_the_whole():
    values = table(n=2 * BLOCK_ROWS + 7)
    measures = measures_of(values)
    found = Moments.unpack(moments_of(values, measures), measures)
    assert found.count == len(values)
    whole = [
        [int(x) for x in one.whole(column)]
        for one, column in zip(measures, values.T, strict=True)
    ]
    assert found.shifted.tolist() == [sum(column) for column in whole]
    assert found.cross[0, 2] == sum(map(int.__mul__, whole[0], whole[2]))


def test_no_rows_have_no_mean_and_one_row_no_variance():
    measures = (UnitMeasure(Fraction(1), 0, 9),) * 2
    nothing = Moments.unpack(moments_of(np.empty((0, 2)), measures), measures)
    assert nothing.count == 0
    assert np.isnan(nothing.mean).all()
    assert nothing.sum.tolist() == [0.0, 0.0]
    assert np.isnan(nothing.variance).all()
    one = Moments.unpack(moments_of([[3.0, 4.0]], measures), measures)
    assert one.mean.tolist() == [3.0, 4.0]
    for spread in (one.variance, one.standard_deviation, one.covariance):
        assert np.isnan(spread).all()
    assert np.isnan(one.correlation).all()


def test_the_layout_has_the_stated_order():
    measures = (
        UnitMeasure(Fraction(1), 0, 9, centre=1),
        UnitMeasure(Fraction(1, 2), 0, 18, 2),
    )
    vector = moments_of([[1.0, 2.0], [3.0, 5.0]], measures)
    assert vector.tolist() == [2, 2, 10, 4, 16, 68]
    assert Moments.layout(measures).size == vector.size
    counts = Moments.layout(measures).counts
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    assert counts.units == (1, 1, half, 1, half, quarter)
    assert counts.bits == 2 * 4 + 40 + 2


@pytest.mark.parametrize("k", [1, 2, 7])
def test_the_length_does_not_depend_on_the_data(k):
    measures = (UnitMeasure(Fraction(1), 0, 1),) * k
    sizes = {moments_of(np.ones((n, k)), measures).size for n in (0, 1, 50)}
    assert sizes == {Moments.layout(measures).size}


@given(st.fractions(min_value=0, max_value=10**12, max_denominator=10**12))
def test_a_root_is_rounded_once(square):
    found = float(exact_square_root(square))
    below, above = (Fraction(np.nextafter(found, to)) for to in (-1, np.inf))
    middle = (below + Fraction(found)) / 2, (above + Fraction(found)) / 2
    assert middle[0] < 0 or middle[0] ** 2 <= square
    assert square <= middle[1] ** 2


# Bad input.


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_beyond_the_agreed_range_are_refused(bad):
    values = table()
    measures = measures_of(values)
    values[4, 1] = bad
    with refused("value-out-of-range", RangeError):
        moments_of(values, measures)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"a table of rows.*found shape \(2,\)"),
        ([[], []], "at least one column"),
        ([["a"]], "a table must hold numbers"),
        ([[1.0, 2.0]], "measures of 1 columns, and the table has 2"),
    ],
)
def test_what_is_no_table_is_refused(values, message):
    with pytest.raises(InvalidInputError, match=message):
        moments_of(values, (UnitMeasure(Fraction(1), 0, 9),))


def test_a_total_of_another_size_is_refused():
    with refused("layout-size-differs", mentions=("10",)):
        Moments.unpack(np.full(9, 1), (UnitMeasure(Fraction(1), 0, 9),) * 3)


@pytest.mark.parametrize("bits", [1, 20, 39, 40, 41, 50])
def test_one_column_by_itself_has_the_same_sums(bits):
    """Against Python's integers, at the ends of the range too."""
    chance = np.random.default_rng(bits)
    measure = UnitMeasure(Fraction(1), -(2**bits), 2**bits)
    values = chance.integers(-(2**bits), 2**bits, 3000, endpoint=True).astype(float)
    values[:1000] = 2.0**bits * chance.choice([-1, 1], 1000)
    whole = [int(one) for one in values]
    expected = len(whole), sum(whole), sum(one**2 for one in whole)
    assert marginal_moments_of(values, measure) == expected
    assert marginal_moments_of(values[:0], measure) == (0, 0, 0)
