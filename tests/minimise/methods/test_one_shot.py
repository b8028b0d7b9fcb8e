"""One-shot: the summed coefficients are the whole problem."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from refusals import refused
from strategies import few, finite_arrays
from veilsum.minimise.costs.bases import Affine, Quadratic
from veilsum.minimise.costs.cost import Cost, cost_coefficient_rows
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.remainders import NoRemainder, SquaredNorm, stack_remainders
from veilsum.minimise.methods.one_shot import OneShot


def problem_of(costs, domain):
    remainder = stack_remainders([cost.remainder for cost in costs])
    method = OneShot(costs[0].basis, remainder, len(costs), domain)
    return method, cost_coefficient_rows(costs).sum(axis=0)


@few
@given(finite_arrays((4, 2)))
def test_squared_distances_meet_at_the_mean(targets):
    method, total = problem_of(
        [Cost.squared_distance(t) for t in targets], Box(-9, 9, dim=2)
    )
    expected = np.clip(targets.mean(axis=0), -9.0, 9.0)
    np.testing.assert_allclose(method.solve(total), expected, atol=1e-12)


@few
@given(finite_arrays((3, 3), most=3.0), st.integers(0, 2**32 - 1))
def test_quadratics_are_solved_as_a_linear_system(vectors, seed):
    """The minimiser of the sum of x'Px/2 + q'x solves (sum P) x = -sum q."""
    factors = np.random.default_rng(seed).standard_normal((3, 3, 3))
    matrices = [f @ f.T + np.eye(3) for f in factors]
    costs = [Cost.quadratic(p, q) for p, q in zip(matrices, vectors, strict=True)]
    method, total = problem_of(costs, WholeSpace(3))
    expected = np.linalg.solve(sum(matrices), -vectors.sum(axis=0))
    np.testing.assert_allclose(method.solve(total), expected, atol=1e-10)


def test_remainders_that_differ_but_are_known_to_all_are_added_up():
    """x^2 + 3 x^2 - 8 x is least at 1."""
    costs = [
        Cost.affine([0.0], remainder=SquaredNorm(1.0)),
        Cost.affine([-8.0], remainder=SquaredNorm(3.0)),
    ]
    method, total = problem_of(costs, Box(-9, 9, dim=1))
    assert method.solve(total) == pytest.approx([1.0], abs=1e-12)


def test_a_part_that_stays_with_its_owner_is_refused():
    cost = Cost.from_gradient(lambda x: 2 * x, dim=1)
    with refused("costs-have-remainder"):
        problem_of([cost, cost], Box(-1, 1, dim=1))


# --- The bias of rounding ----------------------------------------------------------


def test_in_one_dimension_the_bound_is_the_step_over_twice_the_curvature():
    """g / (2 mu) with mu = 2, the curvature of the average of (x - t)^2."""
    costs = [Cost.squared_distance([t]) for t in (1.0, 2.0, 6.0)]
    method, total = problem_of(costs, Box(-9, 9, dim=1))
    found = method.bias_bound(total, np.array([3.0]), 2.0**-10)
    assert found == pytest.approx(2.0**-10 / 4.0, rel=1e-6)


@few
@given(finite_arrays((4, 2), most=3.0), st.integers(4, 20), st.integers(0, 2**32 - 1))
def test_rounding_moves_the_minimiser_by_no_more_than_the_bound(vectors, bits, seed):
    """Both ends by numpy's linear solve; to first order, hence a tenth of slack."""
    factors = np.random.default_rng(seed).standard_normal((4, 2, 2))
    matrices = [f @ f.T + 2.0 * np.eye(2) for f in factors]
    costs = [Cost.quadratic(p, q) for p, q in zip(matrices, vectors, strict=True)]
    rows = cost_coefficient_rows(costs)
    total = (np.rint(rows * 2.0**bits) / 2.0**bits).sum(axis=0)
    basis = Quadratic(2)
    method = OneShot(basis, NoRemainder(), 4, WholeSpace(2))
    # The gradient at 0 is q, its slopes along the axes are P: read off the rounded sum.
    linear = basis.gradient(total, np.zeros(2))
    matrix = np.stack([basis.gradient(total, e) - linear for e in np.eye(2)])
    moved = np.linalg.solve(matrix, -linear)
    exact = np.linalg.solve(sum(matrices), -vectors.sum(axis=0))
    bound = method.bias_bound(total, moved, 2.0**-bits)
    assert np.linalg.norm(moved - exact) <= 1.1 * bound


def test_where_the_sum_is_flat_there_is_no_bound():
    flat = OneShot(Affine(2), NoRemainder(), 3, Box(-1, 1, dim=2))
    assert flat.bias_bound(np.array([1.0, 0.0]), np.zeros(2), 2.0**-20) is None
    trough = Cost.quadratic([[2.0, 0.0], [0.0, 0.0]], [0.3, 0.0])
    method, total = problem_of([trough, trough], Box(-1, 1, dim=2))
    assert method.bias_bound(total, np.array([-0.15, 0.7]), 2.0**-20) is None
