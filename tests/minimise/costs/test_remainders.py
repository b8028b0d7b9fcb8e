import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import finite_arrays
from veilsum.minimise.costs.remainders import (
    FUNCTION_LIMIT,
    LocalGradient,
    NoRemainder,
    RemainderStack,
    SquaredNorm,
    check_cost_gradient,
    exposed_by_remainder,
    stack_remainders,
)


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
    assert stack_remainders([SquaredNorm(2.0)] * 3) == SquaredNorm(2.0)
    assert stack_remainders([NoRemainder()] * 3) == NoRemainder()


def test_different_remainders_are_stacked_row_by_row():
    members = [SquaredNorm(2.0), NoRemainder(), LocalGradient.split(cubic, np.zeros(2))]
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    found = stack_remainders(members).gradient(x)
    expected = [[4.0, 8.0], [0.0, 0.0], [75.0, 108.0]]
    np.testing.assert_array_equal(found, expected)


def test_local_remainders_are_never_merged_even_when_they_are_one_object():
    local = LocalGradient.split(cubic, np.zeros(2))
    assert isinstance(stack_remainders([local, local]), RemainderStack)


@each(
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


class Slope:
    """rho(x) = k x^2 / 2: a kind of remainder that offers to be evaluated at once."""

    kind = "local"

    def __init__(self, k, calls, *, exposes=()):
        self.k, self.calls, self.exposes = k, calls, exposes

    def gradient(self, x):
        self.calls.append("alone")
        return self.k * x

    def rows(self, which):
        return self

    def stacked(self, members):
        if not all(isinstance(one, Slope) for one in members):
            return None
        return Slopes(np.array([[one.k] for one in members]), self.calls)


class Slopes(Slope):
    def gradient(self, x):
        self.calls.append("together")
        return self.k * x


def test_remainders_that_offer_it_are_evaluated_at_once():
    calls = []
    whole = stack_remainders([Slope(k, calls) for k in (1.0, 2.0, 3.0)])
    found = whole.gradient(np.ones((3, 2)))
    assert found.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    part = whole.rows(slice(1, 3)).gradient(np.ones((2, 2)))
    assert part.tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert calls == ["together"] * 2


def test_several_points_for_each_agent_are_evaluated_one_agent_after_the_other():
    calls = []
    whole = stack_remainders([Slope(k, calls) for k in (1.0, 2.0)])
    found = whole.gradient(np.ones((2, 4, 3)))
    assert found.tolist() == [[[1.0] * 3] * 4, [[2.0] * 3] * 4]
    assert calls == ["alone"] * 2


def test_a_stack_refuses_points_of_other_agents_than_its_own():
    whole = stack_remainders([Slope(k, []) for k in (1.0, 2.0)])
    with pytest.raises(ValueError, match="zip"):
        whole.gradient(np.ones((1, 3)))


@pytest.mark.parametrize("other", [SquaredNorm(2.0), Slope(2.0, [])], ids=["a", "t"])
def test_a_stack_answers_in_the_precision_it_is_asked_in(other):
    whole = stack_remainders([Slope(1.0, []), other])
    assert whole.gradient(np.ones((2, 3), dtype=np.float32)).dtype == np.float32
    assert whole.gradient(np.ones((2, 3))).dtype == np.float64


def test_only_stacks_that_say_so_have_matrices():
    assert stack_remainders([SquaredNorm(1.0), SquaredNorm(2.0)]).matrices is None
    assert stack_remainders([Slope(1.0, []), Slope(2.0, [])]).matrices is None


def test_what_remainders_expose_is_said_once():
    members = [Slope(1.0, [], exposes=("a", "b")), Slope(2.0, [], exposes=("b", "c"))]
    assert exposed_by_remainder(stack_remainders(members)) == ("a", "b", "c")
    assert (
        exposed_by_remainder(NoRemainder()) == exposed_by_remainder(SquaredNorm()) == ()
    )
    local = LocalGradient.split(cubic, np.zeros(2))
    assert (
        exposed_by_remainder(local)
        == exposed_by_remainder(stack_remainders([local, local]))
        == (FUNCTION_LIMIT,)
    )


@each("bad", [lambda x: x[:1], lambda x: 1.0, lambda x: [x]])
def test_a_gradient_of_the_wrong_shape_is_refused(bad):
    with refused("gradient-wrong-shape", mentions=("2",)):
        check_cost_gradient(bad, np.zeros(2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_refused(bad):
    with refused("gradient-not-finite"):
        check_cost_gradient(lambda x: x + bad, np.zeros(2))


def test_a_gradient_may_return_whole_numbers_or_a_list():
    found = check_cost_gradient(lambda x: [1, 2], np.zeros(2))
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0]
