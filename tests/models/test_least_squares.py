"""Least squares from sums, against statsmodels and closed forms."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from later import Later
from nist import exact_fit, root
from refusals import refused
from strategies import few, seeds
from veilsum.errors import InvalidInputError
from veilsum.models import rows as rows_module
from veilsum.models.inference import coefficient_table
from veilsum.models.least_squares import (
    LeastSquaresCounting,
    LeastSquaresRounding,
    fit,
    least_squares_totals,
    statistics,
)
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.numbers.units import BLOCK_ROWS, UnitMeasure

sm = Later("statsmodels.api")

CLOSE = {"rtol": 1e-8, "atol": 0.0}
NAMES = ["const", "age", "income", "visits"]


def data(seed=0, n=120):
    """Columns of very different sizes, one of them far from zero."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((n, 3)) * [10.0, 1e4, 1e-3] + [50.0, 0.0, 0.0]
    design = np.column_stack([np.ones(n), columns])
    response = design @ [3.0, 0.1, -2e-4, 400.0] + rng.standard_normal(n)
    return design, response, rng.uniform(0.1, 5.0, n)


def parts_of(design, response, weights=None, *, owners=None, offset=None):
    """The parties' rows; owners says whose each row is."""
    owners = np.arange(len(response)) % 3 if owners is None else owners
    return {
        str(party): Rows.of(
            design[owners == party],
            response[owners == party],
            weights=None if weights is None else weights[owners == party],
            offset=None if offset is None else offset[owners == party],
        )
        for party in range(max(owners) + 1)
    }


def measures_of(design, response, weights=None, *, intercept=None, offset=None):
    rows = Rows.of(design, response, weights=weights, offset=offset)
    return RowMeasures.inferred({"all": rows}, intercept)


def fit_of(design, response, weights=None, *, owners=None, offset=None, **options):
    """The fit from the sum of the parties' statistics."""
    intercept = options.get("intercept")
    given = (design, response, weights)
    measures = measures_of(*given, intercept=intercept, offset=offset)
    total = sum(
        statistics(rows, measures)
        for rows in parts_of(*given, owners=owners, offset=offset).values()
    )
    return fit(total, measures, **options)


def assert_same(found, reference):
    pairs = [
        (found.coefficients, reference.params),
        (found.standard_errors, reference.bse),
        (found.statistics, reference.tvalues),
        (found.p_values, reference.pvalues),
        (found.confidence_intervals(0.9), reference.conf_int(0.1)),
        (found.r_squared, reference.rsquared),
        (found.adjusted_r_squared, reference.rsquared_adj),
        (found.residual_variance, reference.scale),
        (found.log_likelihood, reference.llf),
        (found.aic, reference.aic),
        (found.residual_degrees, reference.df_resid),
    ]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, **CLOSE)


def test_ordinary_least_squares_is_that_of_the_pooled_rows():
    design, response, _ = data()
    found = fit_of(design, response, intercept=0)
    assert_same(found, sm.OLS(response, design).fit())


def test_weighted_least_squares_is_that_of_the_pooled_rows():
    design, response, weights = data()
    found = fit_of(design, response, weights, intercept=0)
    assert_same(found, sm.WLS(response, design, weights=weights).fit())


@pytest.mark.parametrize("name", ["stackloss", "statecrime", "scotland", "randhie"])
def test_real_data_agree_with_statsmodels(name):
    loaded = getattr(sm.datasets, name).load_pandas()
    design = sm.add_constant(loaded.exog.to_numpy(float))
    response = loaded.endog.to_numpy(float)
    found = fit_of(design, response, intercept=0)
    assert_same(found, sm.OLS(response, design).fit())


def test_longley_loses_no_digits_to_its_condition():
    """Longley's columns are the classic of near dependency: 1.9e9 after scaling."""
    loaded = sm.datasets.longley.load_pandas()
    design = sm.add_constant(loaded.exog.to_numpy(float))
    response = loaded.endog.to_numpy(float)
    found = fit_of(design, response, intercept=0)
    expected = sm.OLS(response, design).fit().params
    error = np.abs(found.coefficients / expected - 1.0).max()
    assert 1e9 < found.condition < 1e10
    assert error < 1e-10  # which is statsmodels' own
    assert found.rounding < 1e-15


def test_without_an_intercept_r_squared_is_about_zero():
    design, response, _ = data()
    found = fit_of(design[:, 1:], response)
    assert_same(found, sm.OLS(response, design[:, 1:]).fit())


def test_columns_of_any_unit_give_the_same_fit():
    """statsmodels on unscaled columns drops the small ones, so it is given scaled."""
    design, response, _ = data()
    units = np.array([1.0, 1e-9, 1e9, 1e6])
    found = fit_of(design * units, response, intercept=0)
    reference = sm.OLS(response, design).fit()
    np.testing.assert_allclose(found.coefficients * units, reference.params, **CLOSE)
    np.testing.assert_allclose(found.statistics, reference.tvalues, **CLOSE)


def ridge_closed_form(design, response, penalty):
    """Hoerl and Kennard: the estimate and its covariance by plain inverses."""
    inverse = np.linalg.inv(design.T @ design + np.diag(penalty))
    hat = inverse @ design.T @ design
    coefficients = inverse @ design.T @ response
    left = len(response) - np.trace(hat)
    variance = ((response - design @ coefficients) ** 2).sum() / left
    return coefficients, np.sqrt(variance * np.diag(hat @ inverse)), left


@pytest.mark.parametrize("ridge", [0.5, [2.0, 0.0, 1.0, 3.0]])
def test_ridge_is_the_closed_form(ridge):
    design, response, _ = data()
    design = design / [1.0, 50.0, 1e4, 1e-3]
    penalty = np.array([0.0, 0.5, 0.5, 0.5]) if ridge == 0.5 else np.array(ridge)
    found = fit_of(design, response, intercept=0, ridge=ridge)
    coefficients, errors, left = ridge_closed_form(design, response, penalty)
    np.testing.assert_allclose(found.coefficients, coefficients, **CLOSE)
    np.testing.assert_allclose(found.standard_errors, errors, **CLOSE)
    assert found.residual_degrees == pytest.approx(left, rel=1e-8)


@pytest.mark.parametrize(
    ("intercept", "ridge", "first"), [(None, 1.0, 1.0), (0, 1e9, 0.0)]
)
def test_ridge_needs_fewer_rows_than_columns(intercept, ridge, first):
    design, response, _ = data(n=3)
    found = fit_of(design, response, intercept=intercept, ridge=ridge)
    penalty = np.array([first, ridge, ridge, ridge])
    expected = ridge_closed_form(design, response, penalty)[0]
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-6)


@few
@given(st.lists(st.integers(0, 4), min_size=40, max_size=40), seeds)
def test_it_does_not_matter_who_holds_which_row(owners, seed):
    design, response, weights = data(seed, n=40)
    order = np.random.default_rng(seed).permutation(40)
    measures = measures_of(design, response, weights, intercept=0)
    parts = parts_of(design, response, weights, owners=np.array(owners))
    split = sum(statistics(rows, measures) for rows in parts.values())
    pooled = statistics(
        Rows.of(design[order], response[order], weights=weights[order]), measures
    )
    assert split.tolist() == pooled.tolist()


def test_blocks_add_up_to_the_whole(monkeypatch):
    design, response, weights = data()
    rows = Rows.of(design, response, weights=weights)
    measures = measures_of(design, response, weights, intercept=0)
    whole = statistics(rows, measures)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", 7)
    fresh = measures_of(design, response, weights, intercept=0)
    assert statistics(rows, fresh).tolist() == whole.tolist()


def test_float64_data_are_not_copied():
    design, response, _ = data()
    rows = Rows.of(design, response)
    assert rows.design is design
    assert all(np.shares_memory(block.design, design) for block in rows.blocks())


def test_an_offset_is_taken_off_the_response():
    """To the last digit, if response and offset have decimals."""
    design, response, weights = data()
    response, offset = response.round(3), weights.round(2)
    shifted = fit_of(design, response, offset=offset, intercept=0)
    without = fit_of(design, (response - offset).round(3), intercept=0)
    np.testing.assert_array_equal(shifted.coefficients, without.coefficients)
    np.testing.assert_array_equal(shifted.covariance, without.covariance)


def test_an_offset_without_a_common_unit_is_rounded_once_more():
    design, response, weights = data()
    found = fit_of(design, response, offset=weights.round(2), intercept=0)
    without = fit_of(design, response - weights.round(2), intercept=0)
    assert (
        np.abs(found.coefficients - without.coefficients)
        <= found.rounding_bound + without.rounding_bound
    ).all()


def test_a_party_without_rows_adds_nothing():
    design, response, _ = data()
    nothing = Rows.of(np.empty((0, 4)), np.empty(0))
    assert not statistics(nothing, measures_of(design, response)).any()


def test_the_layout_has_the_stated_order():
    counting = LeastSquaresCounting(
        RowMeasures((ONES, UnitMeasure.of(0, 1)), UnitMeasure.of(0, 1))
    )
    sums = counting.unpack(np.arange(1, 11).astype(object))
    assert np.diag(sums.gram).tolist() == [1, 3]
    assert sums.cross.tolist() == [4, 5]
    assert (sums.square, sums.response_sum, sums.weight_sum) == (6, 7, 8)
    assert (sums.log_weight_sum, sums.n_rows) == (9, 10)


def test_a_perfect_fit_has_no_errors():
    design = np.column_stack([np.ones(9), np.arange(9.0)])
    found = fit_of(design, design @ [1.0, 2.0], intercept=0)
    np.testing.assert_allclose(found.coefficients, [1.0, 2.0], rtol=1e-12)
    assert found.residual_sum == 0.0
    assert found.p_values.tolist() == [0.0, 0.0]
    assert found.log_likelihood == np.inf
    assert found.r_squared == 1.0


def test_a_response_without_spread_has_no_r_squared():
    design, _, _ = data()
    assert np.isnan(fit_of(design, np.ones(120), intercept=0).r_squared)


def test_the_table_has_plain_values():
    design, response, _ = data()
    found = fit_of(design, response, names=NAMES, intercept=0)
    line = coefficient_table(found, level=0.9)[1]
    assert line.name == "age"
    assert isinstance(line.p_value, float)
    assert [line.low, line.high] == found.confidence_intervals(0.9)[1].tolist()


# Digits.


def far_from_zero(seed, spread=1.0):
    rng = np.random.default_rng(seed)
    x = 1e6 + spread * rng.standard_normal(60)
    return np.column_stack([np.ones(60), x]), rng


@pytest.mark.parametrize("mean", [1e7, 1e8, 1e12])
def test_a_response_far_from_zero_keeps_its_errors(mean):
    """At 1e7 standard errors were 0 and R^2 was 1, at 1e8 it was nan."""
    design, response, _ = data()
    noise = response.round(3)
    found = fit_of(design, noise + mean, intercept=0)
    expected = fit_of(design, noise, intercept=0)
    rtol = 1e-7 * max(1.0, mean / 1e8)  # of the decimals that float64 has there
    np.testing.assert_allclose(
        found.standard_errors, expected.standard_errors, rtol=rtol
    )
    assert found.r_squared == pytest.approx(expected.r_squared, rel=rtol)


def test_a_column_far_from_zero_is_no_intercept():
    """Of mean 1e6 and deviation 1: it was called dependent on the ones."""
    design, rng = far_from_zero(3)
    response = design[:, 1] + rng.standard_normal(60)
    found = fit_of(design, response, intercept=0)
    reference = sm.OLS(response, design - [0.0, 1e6]).fit()
    assert found.coefficients[1] == pytest.approx(reference.params[1], rel=1e-9)
    assert found.standard_errors[1] == pytest.approx(reference.bse[1], rel=1e-9)


def test_years_and_their_squares_keep_all_digits():
    """To the last digit of float64: years, squares and cents are whole."""
    year = np.arange(1950.0, 2020.0)
    response = np.random.default_rng(0).normal(50.0, 9.0, 70).round(2)
    design = np.column_stack([np.ones(70), year, year**2])
    found = fit_of(design, response, intercept=0)
    columns = [[Fraction(one) for one in column] for column in design.T.tolist()]
    cents = [Fraction(f"{one:.2f}") for one in response.tolist()]
    exact, variances = exact_fit(columns, cents)
    assert found.coefficients.tolist() == [float(one) for one in exact]
    errors = [float(root(one)) for one in variances]
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-12, 1e-100, 1e100])
def test_responses_of_any_size_are_fitted_alike(scale):
    design, response, _ = data()
    found = fit_of(design, response * scale, intercept=0)
    expected = fit_of(design, response, intercept=0)
    np.testing.assert_allclose(found.statistics, expected.statistics, rtol=1e-9)
    assert found.r_squared == pytest.approx(expected.r_squared, rel=1e-9)


def test_a_fit_that_is_perfect_but_for_rounding_is_called_perfect():
    design, _, _ = data()
    found = fit_of(design, design @ [3.0, 0.1, -2e-4, 400.0], intercept=0)
    assert found.residual_sum == 0.0
    assert found.r_squared == 1.0


def test_columns_that_depend_on_each_other_but_for_rounding_are_named():
    rng = np.random.default_rng(5)
    design = np.column_stack([np.ones(50), rng.standard_normal((50, 3))])
    design[:, 3] = 0.3 * design[:, 1] + 0.7 * design[:, 2] + 0.1
    with refused("dependent-columns"):
        fit_of(design, rng.standard_normal(50), names=NAMES, intercept=0)


@few
@given(
    seeds,
    st.sampled_from([0.0, 3.0, 1e4]),
    st.sampled_from([1.0, 1e-3, 1e-5]),
    st.sampled_from(["plain", "weights", "offset", "whole", "no intercept"]),
)
def test_the_rounding_bound_holds(seed, mean, near, kind):
    """Against the exact fit of the numbers before they were rounded."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((30, 3))
    columns[:, 2] = columns[:, 1] + near * columns[:, 2]
    design = np.column_stack([np.ones(30), columns + mean])
    response = design @ [1.0, 2.0, 3.0, 4.0] + rng.standard_normal(30)
    intercept = 0
    if kind == "whole":
        design[:, 1:] = np.rint(design[:, 1:] * 1e7)
    if kind == "no intercept":
        design, intercept = design[:, 1:], None
    weights = rng.uniform(0.1, 5.0, 30) if kind == "weights" else None
    offset = rng.standard_normal(30) if kind == "offset" else None
    found = fit_of(design, response, weights, offset=offset, intercept=intercept)
    roots = [Fraction(1)] * 30
    if weights is not None:
        roots = [root(Fraction(one)) for one in weights.tolist()]
    exact = [
        [r * Fraction(one) for r, one in zip(roots, column, strict=True)]
        for column in design.T.tolist()
    ]
    target = [Fraction(one) for one in response.tolist()]
    if offset is not None:
        target = [y - Fraction(o) for y, o in zip(target, offset.tolist(), strict=True)]
    true, _ = exact_fit(exact, [r * y for r, y in zip(roots, target, strict=True)])
    pairs = zip(found.coefficients.tolist(), true, strict=True)
    gaps = np.array([float(abs(Fraction(one) - other)) for one, other in pairs])
    assert (gaps <= found.rounding_bound).all()
    # A bound, and not just a large number.
    if near == 1.0 and mean < 10.0:
        assert found.rounding < 1e-8


@pytest.mark.parametrize("least", [1, 10, 1000])
def test_roots_of_rounded_weights_are_off_by_at_most_twice_the_worst(least):
    """The worst is half a unit too much, of the smallest weight."""
    weights = UnitMeasure(Fraction(1, 2**10), least, 2**45, made=True)
    design = (ONES, UnitMeasure.of(0, 9, Fraction(1)))
    measures = RowMeasures.of(design, design[1], intercept=0, weights=weights)
    x = np.column_stack([np.ones(9), np.arange(9.0)])
    rows = Rows.of(x, x[:, 1] ** 2 % 9, weights=np.arange(9.0) + 1.0)
    exact = least_squares_totals(statistics(rows, measures), measures, intercept=0)
    found = LeastSquaresRounding.of(exact, np.zeros(3)).weights
    worst = (least / (least - 0.5)) ** 0.5 - 1.0
    assert worst <= found <= 2.5 * worst


# Bad input.


def test_dependent_columns_are_named():
    """A category for everybody beside its complement and the intercept."""
    design, response, _ = data()
    design[:, 2] = np.arange(120) < 1
    design[:, 3] = 1.0 - design[:, 2]
    wanted = "const, income, visits are linearly dependent.*leave out 1 of them"
    with pytest.raises(InvalidInputError, match=wanted):
        fit_of(design, response, names=NAMES)


def test_dependent_columns_have_a_ridge_fit():
    design, response, _ = data()
    design[:, 3] = design[:, 1]
    found = fit_of(design, response, intercept=0, ridge=0.1)
    assert found.coefficients[3] == pytest.approx(found.coefficients[1], rel=1e-9)


def test_a_column_of_zeros_is_named():
    design, response, _ = data()
    design[:, 2] = 0.0
    with refused("zero-column"):
        fit_of(design, response, names=NAMES)


def test_too_few_rows_are_refused():
    design, response, _ = data(n=4)
    with refused("too-few-rows", mentions=("4",)):
        fit_of(design, response)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros(4)}, "weights must be above zero"),
        ({"weights": np.full(4, np.nan)}, "weights must be above zero"),
        ({"weights": np.ones(3)}, "weights must have one number for each of 4 rows"),
        ({"response": ["a", "b", "c", "d"]}, "the response must be numbers"),
        ({"response": np.ones(3)}, "response must have one number"),
        ({"design": np.ones(4)}, "a table with at least one column"),
        ({"design": np.ones((4, 0))}, "a table with at least one column"),
    ],
)
@pytest.mark.usefixtures("unchecked_shapes")
def test_rows_that_do_not_fit_together_are_refused(change, message):
    given_rows = {"design": np.ones((4, 2)), "response": np.ones(4), **change}
    with pytest.raises(InvalidInputError, match=message):
        Rows.of(**given_rows)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9])
def test_numbers_that_were_not_agreed_on_are_refused(bad):
    design, response, _ = data()
    measures = measures_of(design, response)
    design[3, 1] = bad
    with refused("value-out-of-range", mentions=("1",)):
        measures.check(Rows.of(design, response), NAMES)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_has_no_measure(bad):
    design, response, _ = data()
    design[3, 1] = bad
    with refused("not-finite"):
        measures_of(design, response)


def test_numbers_may_be_as_large_as_they_like():
    design, response, _ = data()
    found = fit_of(design * [1.0, 1e140, 1.0, 1.0], response, intercept=0)
    expected = fit_of(design, response, intercept=0)
    np.testing.assert_allclose(found.statistics, expected.statistics, **CLOSE)


def test_a_total_of_another_size_is_refused():
    design, response, _ = data()
    with refused("layout-size-differs", mentions=("19",)):
        fit(np.ones(10, dtype=object), measures_of(design, response))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": -1.0}, "ridge must not be negative"),
        ({"ridge": [1.0]}, "ridge must be one number or 4 numbers"),
        ({"intercept": 4}, "one of the columns 0 to 3"),
        ({"names": ["a", "b"]}, "4 columns need as many different names"),
        ({"names": ["a", "b", "b", "c"]}, "as many different names"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, message):
    design, response, _ = data()
    measures = measures_of(design, response)
    total = statistics(Rows.of(design, response), measures)
    with pytest.raises(InvalidInputError, match=message):
        fit(total, measures, **options)


def test_a_level_beyond_one_is_refused():
    design, response, _ = data()
    with refused("level-out-of-range", mentions=("0", "1,", "95")):
        fit_of(design, response).confidence_intervals(95)


@each("intercept", [None, 0])
@each("weighted", [False, True])
@each("far", [10**4, 10**6, 10**9, 10**14])
def test_an_offset_far_from_the_response_is_within_the_bound(intercept, weighted, far):
    """A response far from 0 needs more bits than its range is long."""
    draw, cents = np.random.default_rng(2), Fraction(1, 100)
    n = 3 * BLOCK_ROWS
    measures = RowMeasures.of(
        [ONES, UnitMeasure.of(0, 1, cents)],
        UnitMeasure.of(far, far + 1, cents),
        intercept=intercept,
        offset=UnitMeasure.of(0, Fraction(1, 10), cents),
        weights=UnitMeasure.of(0, 4, cents) if weighted else None,
    )
    rows = Rows.of(
        np.stack([np.ones(n), draw.integers(0, 101, n) / 100], axis=1),
        far + draw.integers(0, 101, n) / 100,
        offset=draw.integers(0, 11, n) / 100,
        weights=draw.integers(1, 401, n) / 100 if weighted else None,
    )
    measures.check(rows)
    counting = LeastSquaresCounting(measures)
    for block in measures.blocks(rows):
        design, target, ones = counting.block(block)
        for place, one in enumerate((*design.T, target, ones)):
            assert np.abs(one).max() <= 2 ** counting.bits[place]
    whole = statistics(rows, measures)
    order = draw.permutation(n)
    parts = (order[:7], order[7 : n // 2], order[n // 2 :])
    dealt = sum(
        statistics(
            Rows.of(
                rows.design[part],
                rows.response[part],
                offset=rows.offset[part],
                weights=rows.weights[part] if weighted else None,
            ),
            measures,
        )
        for part in parts
    )
    assert whole.tolist() == dealt.tolist()
    if not weighted:
        away = [
            round(Fraction(y) / cents)
            - measures.response.centre
            - round(Fraction(one) / cents)
            for y, one in zip(rows.response.tolist(), rows.offset.tolist(), strict=True)
        ]
        if counting.target.unit == cents:
            assert whole[-5] == sum(one * one for one in away)
