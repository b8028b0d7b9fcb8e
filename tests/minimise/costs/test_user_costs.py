"""Functions from users: what is checked of them, once."""

import math
import re

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from cases import each
from refusals import refused
from strategies import few, finite_arrays, seeds
from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.cost import Cost


def logcosh(target):
    """A value and its gradient, from two closed forms."""
    return (
        lambda x: float(np.log(np.cosh(x - target)).sum()),
        lambda x: np.tanh(x - target),
    )


def least_squares(seed, *, dim=6, scale=1.0, constant=0.0):
    rng = np.random.default_rng(seed)
    design, response = scale * rng.standard_normal((9, dim)), rng.standard_normal(9)
    return (
        lambda x: float(((design @ x - response) ** 2).sum()) + constant,
        lambda x: 2.0 * design.T @ (design @ x - response),
    )


@few
@given(finite_arrays((3,)), finite_arrays((3,)))
@example(np.zeros(3), np.full(3, 1e-10))  # cosh is 1 there, but for its last digits
def test_a_gradient_that_fits_its_value_is_taken(target, anchor):
    value, gradient = logcosh(target)
    cost = Cost.from_gradient(gradient, dim=3, anchor=anchor, value=value)
    np.testing.assert_array_equal(cost.coefficients, gradient(anchor))


@few
@given(seeds, st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([0.0, 1.0, 1e9]))
def test_neither_scale_nor_a_constant_makes_a_right_gradient_wrong(
    seed, scale, constant
):
    value, gradient = least_squares(seed, scale=scale, constant=constant)
    Cost.from_gradient(gradient, dim=6, value=value, anchor=3.0)


WRONG = {
    "the wrong sign": lambda g: lambda x: -g(x),
    "half of it": lambda g: lambda x: 0.5 * g(x),
    "a thousandth too much": lambda g: lambda x: 1.001 * g(x),
    "a forgotten ridge": lambda g: lambda x: g(x) + 0.01 * x,
    "one coordinate wrong": lambda g: lambda x: g(x) + 0.1 * np.eye(x.size)[2],
    "two coordinates exchanged": lambda g: lambda x: g(x)[[1, 0, 2, 3, 4, 5]],
}


@pytest.mark.parametrize("spoil", WRONG.values(), ids=WRONG)
@few
@given(seed=seeds)
def test_a_gradient_of_another_function_is_refused(spoil, seed):
    value, gradient = least_squares(seed)
    with refused("gradient-not-of-value"):
        Cost.from_gradient(spoil(gradient), dim=6, value=value)


def test_the_refusal_has_both_slopes_their_relative_error_and_a_way_out():
    """h = x^2 / 2 with twice its gradient: one slope is twice the other."""
    with pytest.raises(InvalidInputError) as caught:
        Cost.from_gradient(lambda x: 2 * x, dim=1, value=lambda x: float(x @ x) / 2)
    words = str(caught.value)
    found = re.search(
        r"at (\S+) from the anchor, the value rises by (\S+) and the gradient says "
        r"(\S+), a relative error of (\S+); .*check=False",
        words,
    )
    far, by_value, by_gradient, relative = map(float, found.groups())
    assert far == 1.0
    assert abs(by_value) == pytest.approx(1.0, rel=1e-6)
    assert by_gradient == pytest.approx(2.0 * by_value, rel=1e-6)
    assert relative == pytest.approx(0.5, rel=1e-2)


def test_a_check_can_be_left_out():
    cost = Cost.from_gradient(
        lambda x: 2 * x, dim=1, value=lambda x: float(x @ x) / 2, check=False
    )
    assert cost.gradient(np.array([3.0])).tolist() == [6.0]


def test_a_value_is_looked_at_a_few_times_and_not_kept():
    points = []

    def value(x):
        points.append(x.copy())
        return float(x @ x)

    cost = Cost.from_gradient(lambda x: 2 * x, dim=2, value=value)
    seen = len(points)
    assert 0 < seen < 30
    cost.gradient(np.ones(2))
    assert len(points) == seen
    Cost.from_gradient(lambda x: 2 * x, dim=2, value=value)
    assert np.array_equal(
        points[:seen], points[seen:]
    )  # public points, always the same


@pytest.mark.parametrize("log", [np.log, lambda x: np.array([math.log(x[0])])])
def test_points_where_a_cost_is_not_defined_are_passed_over(log):
    """-log x, by numpy, which warns, and by math, which raises."""
    value = lambda x: -float(log(x)[0])  # noqa: E731
    gradient = lambda x: -1.0 / x  # noqa: E731
    cost = Cost.from_gradient(gradient, dim=1, anchor=0.05, value=value)
    assert cost.coefficients.tolist() == [-20.0]
    with refused("gradient-not-of-value"):
        Cost.from_gradient(lambda x: 1.0 / x, dim=1, anchor=0.05, value=value)


def test_a_cost_that_cannot_be_checked_anywhere_is_refused():
    with refused("value-not-comparable"):
        Cost.from_gradient(lambda x: x, dim=2, value=lambda x: math.nan)


@each("value", [lambda x: x, lambda x: [x], lambda x: np.ones(0)])
def test_a_value_that_is_not_one_number_is_refused(value):
    with refused("value-not-scalar"):
        Cost.from_gradient(lambda x: x, dim=2, value=value)


def test_a_value_may_come_as_an_array_of_one_number():
    Cost.from_gradient(lambda x: 2 * x, dim=1, value=lambda x: x**2)


def test_a_kink_between_the_points_of_a_difference_is_no_error():
    """|x| at its kink, for which no gradient is the right one."""
    value = lambda x: float(np.abs(x).sum())  # noqa: E731
    Cost.from_gradient(np.sign, dim=3, value=value)


def shifted_in_place(x):
    x -= 1.0
    return x


def test_a_gradient_may_change_its_point_which_is_a_copy():
    cost = Cost.from_gradient(shifted_in_place, dim=2, anchor=3.0)
    point = np.array([5.0, 6.0])
    point.setflags(write=False)
    assert cost.coefficients.tolist() == [2.0, 2.0]
    assert cost.gradient(point).tolist() == [4.0, 5.0]
    assert point.tolist() == [5.0, 6.0]


def test_a_gradient_may_hand_out_one_array_again_and_again():
    kept = np.zeros(2)

    def gradient(x):
        np.multiply(x, 3.0, out=kept)
        kept[0] += 1.0
        return kept

    cost = Cost.from_gradient(gradient, dim=2)
    first = cost.remainder.gradient(np.array([1.0, 2.0]))
    second = cost.remainder.gradient(np.array([5.0, 5.0]))
    assert cost.coefficients.tolist() == [1.0, 0.0]
    assert first.tolist() == [3.0, 6.0]
    assert second.tolist() == [15.0, 15.0]
