import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import finite_arrays
from veilsum.core.remainders import (
    LocalGradient,
    NoRemainder,
    RemainderStack,
    SquaredNorm,
    checked_gradient,
    stack,
)
from veilsum.errors import InvalidInputError


def cubic(x):
    return 3.0 * x**2


@given(finite_arrays((3, 2)), st.floats(-5.0, 5.0))
def test_the_gradient_of_a_squared_norm_is_twice_the_point(x, scale):
    np.testing.assert_allclose(SquaredNorm(scale).gradient(x), 2 * scale * x)


@given(finite_arrays((3, 2)))
def test_nothing_has_a_zero_gradient_of_the_same_shape(x):
    np.testing.assert_array_equal(NoRemainder().gradient(x), np.zeros_like(x))


@given(finite_arrays((4, 2)), finite_arrays((2,)))
def test_a_local_gradient_vanishes_at_its_anchor_and_follows_the_function(x, anchor):
    local = LocalGradient.split(cubic, cubic(anchor))
    np.testing.assert_array_equal(local.gradient(anchor), np.zeros(2))
    np.testing.assert_allclose(local.gradient(x), cubic(x) - cubic(anchor))


def test_a_local_gradient_sees_one_point_at_a_time():
    shapes = []

    def watched(x):
        shapes.append(x.shape)
        return x

    LocalGradient.split(watched, np.zeros(2)).gradient(np.ones((3, 2)))
    assert shapes == [(2,)] * 3


def test_kinds_say_who_knows_a_remainder():
    local = LocalGradient.split(cubic, np.zeros(1))
    assert NoRemainder().kind == "none"
    assert SquaredNorm().kind == "shared"
    assert local.kind == "local"
    assert RemainderStack((NoRemainder(), SquaredNorm(), local)).kind == "local"
    assert RemainderStack((NoRemainder(), SquaredNorm())).kind == "shared"
    assert RemainderStack((NoRemainder(), NoRemainder())).kind == "none"


def test_equal_shared_remainders_are_evaluated_at_once():
    assert stack([SquaredNorm(2.0)] * 3) == SquaredNorm(2.0)
    assert stack([NoRemainder()] * 3) == NoRemainder()


def test_different_remainders_are_stacked_row_by_row():
    members = [SquaredNorm(2.0), NoRemainder(), LocalGradient.split(cubic, np.zeros(2))]
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = stack(members).gradient(x)
    expected = [[4.0, 8.0], [0.0, 0.0], [75.0, 108.0]]
    np.testing.assert_array_equal(found, expected)


def test_local_remainders_are_never_merged_even_when_they_are_one_object():
    local = LocalGradient.split(cubic, np.zeros(2))
    assert isinstance(stack([local, local]), RemainderStack)


@pytest.mark.parametrize(
    "remainder",
    [
        NoRemainder(),
        SquaredNorm(3.0),
        LocalGradient.split(cubic, np.ones(2)),
        RemainderStack((SquaredNorm(1.0), SquaredNorm(2.0), NoRemainder())),
    ],
)
def test_rows_of_a_remainder_are_those_agents_remainders(remainder):
    x = np.arange(6.0).reshape(3, 2)
    whole = remainder.gradient(x)
    part = remainder.rows(slice(1, 3)).gradient(x[1:3])
    np.testing.assert_array_equal(part, whole[1:3])


@pytest.mark.parametrize("bad", [lambda x: x[:1], lambda x: 1.0, lambda x: [x]])
def test_a_gradient_of_the_wrong_shape_is_refused(bad):
    with pytest.raises(InvalidInputError, match="must return 2 numbers, found shape"):
        checked_gradient(bad, np.zeros(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_refused(bad):
    with pytest.raises(InvalidInputError, match="nan or inf"):
        checked_gradient(lambda x: x + bad, np.zeros(2))


def test_a_gradient_may_return_whole_numbers_or_a_list():
    found = checked_gradient(lambda x: [1, 2], np.zeros(2))
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0]
