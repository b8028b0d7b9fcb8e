import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies import few, finite_arrays
from veils import veil
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.effective import EffectiveCost


def local(k):
    return Cost.from_gradient(lambda x: np.tanh(x) + k, dim=2)


MAKERS = {
    "affine": lambda k: Cost.affine([1.0 + k, -k]),
    "squared distance": lambda k: Cost.squared_distance([k, 2.0 * k]),
    "polynomial": lambda k: Cost.polynomial([k, 1.0, -k, 0.5, 2.0], dim=2),
    "quadratic": lambda k: Cost.quadratic([[k, 1.0], [1.0, 2.0]], [k, -1.0]),
    "local": local,
}


def mixed_costs(k):
    kinds = (MAKERS["affine"], MAKERS["squared distance"], local)
    return kinds[k % 3](float(k))


MAKERS["mixed remainders"] = lambda k: mixed_costs(int(k))
every_cost = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def effective_costs(make, n, data):
    costs = [make(float(k)) for k in range(n)]
    masks = data.draw(finite_arrays((n, costs[0].basis.size)))
    return costs, masks, veil(costs, masks)


@every_cost
@few
@given(data=st.data())
def test_an_effective_gradient_is_the_private_one_plus_the_mask_s(make, data):
    costs, masks, effective = effective_costs(make, 4, data)
    x = data.draw(finite_arrays((4, 2), most=3.0))
    expected = [
        cost.gradient(row) + cost.basis.gradient(mask, row)
        for cost, mask, row in zip(costs, masks, x, strict=True)
    ]
    found = effective.gradient(x)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


@every_cost
@few
@given(data=st.data())
def test_a_change_of_gradient_is_the_difference_of_two_gradients(make, data):
    _, _, effective = effective_costs(make, 3, data)
    new = data.draw(finite_arrays((3, 2), most=3.0))
    old = data.draw(finite_arrays((3, 2), most=3.0))
    expected = effective.gradient(new) - effective.gradient(old)
    found = effective.gradient_change(new, old)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


def slopes_of(basis):
    """Which coefficients stand for slopes: their gradients are alike everywhere."""
    units = np.eye(basis.size)
    here, there = (
        np.tile(point, (basis.size, 1)) for point in ([0.0, 0.0], [1.0, 2.0])
    )
    same = basis.gradient(units, here) == basis.gradient(units, there)
    return same.all(axis=1)


@every_cost
def test_slopes_leave_no_bit_in_a_change_of_gradient(make):
    """They cancel before anything is rounded, not in a difference of rounded numbers.

    A party's masked slope is huge beside what a small step changes: the difference of
    two gradients has hardly a digit left, and its low bits are those of the slope.
    """
    costs = [make(float(k)) for k in range(3)]
    masks = np.where(slopes_of(costs[0].basis), 1e9 * np.pi, 0.0)
    assert masks.any()
    bare, steep = (
        veil(costs, np.outer(size, masks)) for size in (np.zeros(3), [1, 2, 3])
    )
    old = np.array([[0.3, -0.7], [1.1, 0.2], [-0.4, 0.9]])
    new = old + 1e-6 * np.array([[1.0, 2.0], [-3.0, 1.0], [2.0, -1.0]])
    change = steep.gradient_change(new, old)
    np.testing.assert_array_equal(change, bare.gradient_change(new, old))
    exact = bare.gradient(new) - bare.gradient(old)
    np.testing.assert_allclose(change, exact, rtol=1e-6, atol=1e-14)
    # What it is not:
    lost = steep.gradient(new) - steep.gradient(old)
    assert make is MAKERS["affine"] or np.abs(lost - exact).max() > 1e-8


@every_cost
@few
@given(data=st.data())
def test_all_agents_together_get_what_each_gets_alone(make, data):
    costs, masks, effective = effective_costs(make, 4, data)
    x = data.draw(finite_arrays((4, 2), most=3.0))
    new = data.draw(finite_arrays((4, 2), most=3.0))
    together, change = effective.gradient(x), effective.gradient_change(new, x)
    for i, cost in enumerate(costs):
        theta = cost.coefficients + masks[i]
        alone = EffectiveCost(cost.basis, theta, cost.remainder)
        np.testing.assert_allclose(together[i], alone.gradient(x[i]), atol=1e-9)
        expected = alone.gradient_change(new[i], x[i])
        np.testing.assert_allclose(change[i], expected, atol=1e-9)


@every_cost
@few
@given(data=st.data())
def test_rows_of_a_stack_are_those_agents_effective_costs(make, data):
    _, _, effective = effective_costs(make, 5, data)
    x = data.draw(finite_arrays((5, 2), most=3.0))
    part = effective.rows(slice(1, 4))
    np.testing.assert_array_equal(
        part.gradient(x[1:4]), effective.gradient(x)[1:4], strict=True
    )


@every_cost
def test_evaluating_a_gradient_changes_neither_the_point_nor_the_coefficients(make):
    costs = [make(float(k)) for k in range(3)]
    effective = veil(costs, np.ones((3, costs[0].basis.size)))
    x, theta = np.full((3, 2), 0.5), effective.coefficients.copy()
    first = effective.gradient(x).copy()
    np.testing.assert_array_equal(effective.gradient(x), first)
    np.testing.assert_array_equal(x, np.full((3, 2), 0.5))
    np.testing.assert_array_equal(effective.coefficients, theta)


@every_cost
def test_writing_into_a_gradient_changes_no_cost(make):
    """A method may scale what it got in place: theta~ is nobody's scratch space."""
    costs = [make(float(k)) for k in range(3)]
    effective = veil(costs, np.ones((3, costs[0].basis.size)))
    x, theta = np.full((3, 2), 0.5), effective.coefficients.copy()
    gradient = effective.gradient(x)
    if gradient.flags.writeable:
        gradient *= 0.0
    np.testing.assert_array_equal(effective.coefficients, theta)
    np.testing.assert_array_equal(x, np.full((3, 2), 0.5))


class HalfSquaredNorm:
    """rho(x) = ||x||^2 / 2, written the obvious way: its gradient is x itself."""

    kind = "shared"

    def gradient(self, x):
        return x

    def rows(self, which):
        return self

    def __eq__(self, other):
        return isinstance(other, HalfSquaredNorm)

    __hash__ = None


def test_a_remainder_may_return_the_point_it_was_given():
    costs = [Cost.affine([1.0, 2.0], remainder=HalfSquaredNorm()) for _ in range(2)]
    effective = veil(costs, np.zeros((2, 2)))
    x = np.ones((2, 2))
    assert effective.gradient(x).tolist() == [[2.0, 3.0], [2.0, 3.0]]
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_an_effective_cost_prints_its_shape_and_no_number():
    effective = veil([Cost.affine([123.456])] * 2, np.full((2, 1), 777.25))
    assert repr(effective) == "<EffectiveCost: Affine, coefficients (2, 1)>"
