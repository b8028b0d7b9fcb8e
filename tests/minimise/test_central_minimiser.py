import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from refusals import refused
from strategies import eighths, finite_arrays
from veilsum.errors import NumericalError
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Ball, Box, HalfSpaces, Simplex, WholeSpace
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.solve import central_minimiser

# x + y <= 1 inside the square [-2, 2]^2.
CORNERED = HalfSpaces(
    [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 1.0]],
    [2.0, 2.0, 2.0, 2.0, 1.0],
)
DOMAINS = {
    "box": Box([-1.0, -2.0], [1.0, 0.5], dim=2),
    "ball": Ball([0.5, -0.5], 1.25, dim=2),
    "simplex": Simplex(2, total=2.0),
    "half-spaces": CORNERED,
}
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


def test_the_paper_s_example_has_its_minimum_at_minus_one():
    """Section V: the sum is 3 x^2 + 6 x."""
    costs = [Cost.affine([a], remainder=SquaredNorm(1.0)) for a in (1.0, 2.0, 3.0)]
    found = central_minimiser(costs, Box(-100.0, 100.0, dim=1))
    np.testing.assert_allclose(found, [-1.0], atol=1e-12)


@settings(max_examples=10)
@given(st.data(), st.integers(1, 4), st.integers(1, 3))
def test_squared_distances_are_least_at_the_mean(data, n, dim):
    targets = data.draw(finite_arrays((n, dim)))
    costs = [Cost.squared_distance(target) for target in targets]
    found = central_minimiser(costs, Box(-20.0, 20.0, dim=dim))
    np.testing.assert_allclose(found, targets.mean(axis=0), atol=1e-9)


@each(
    ("domain", "expected"),
    [
        # The sum is n ||x - mean||^2: the answer is the mean's nearest point of X.
        (Box([-1.0, -1.0], [1.0, 9.0], dim=2), [1.0, 4.0]),
        (Ball(0.0, 1.0, dim=2), [0.6, 0.8]),
        (Ball([3.0, 1.0], 2.0, dim=2), [3.0, 3.0]),
        (Simplex(2), [0.0, 1.0]),
        (Simplex(2, total=5.0), [2.0, 3.0]),
        (CORNERED, [0.0, 1.0]),
        (HalfSpaces([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [5.0, 0.0, 0.0]), [2, 3]),
        (WholeSpace(2), [3.0, 4.0]),
    ],
)
def test_an_active_constraint_gives_its_closed_form(domain, expected):
    targets = [[1.0, 5.0], [2.0, 3.0], [6.0, 4.0]]  # mean (3, 4)
    costs = [Cost.squared_distance(target) for target in targets]
    found = central_minimiser(costs, domain)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@each(
    ("domain", "expected"),
    [
        (Box([-1.0, -2.0], [1.0, 0.5], dim=2), [-1.0, -2.0]),
        (Ball(0.0, 2.0, dim=2), [-1.2, -1.6]),
        (Simplex(2, total=2.0), [2.0, 0.0]),
        (CORNERED, [-2.0, -2.0]),
    ],
)
def test_a_linear_sum_is_least_at_the_closed_form_corner(domain, expected):
    """Affine costs (1, 1) and (2, 3) add up to the slope (3, 4)."""
    costs = [Cost.affine([1.0, 1.0]), Cost.affine([2.0, 3.0])]
    found = central_minimiser(costs, domain)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def points_inside(domain):
    grid = np.linspace(-3.0, 3.0, 13)
    everywhere = np.array([[x, y] for x in grid for y in grid])
    return domain.project(everywhere)


@every_domain
@settings(max_examples=5)
@given(data=st.data())
def test_no_feasible_direction_goes_downhill_from_the_minimiser(domain, data):
    """The variational inequality grad F(x*)'(y - x*) >= 0, on random convex sums."""
    roots = data.draw(eighths((3, 2, 2), most=16))
    vectors = data.draw(eighths((3, 2), most=32))
    matrices = [root.T @ root + np.eye(2) / 4 for root in roots]
    costs = [Cost.quadratic(p, q) for p, q in zip(matrices, vectors, strict=True)]
    x = central_minimiser(costs, domain)
    slope = sum(p @ x + q for p, q in zip(matrices, vectors, strict=True))
    descent = ((points_inside(domain) - x) @ slope).min()
    assert descent >= -1e-6 * (1 + np.linalg.norm(slope))


@settings(max_examples=5)
@given(eighths((3,), most=16), eighths((3,), most=16))
def test_a_convex_quartic_is_least_at_the_real_root_of_its_derivative(b, c):
    """h_i = x^4 + x^2 + b_i x^2 / 8 + c_i x: with |b_i| <= 2 every sum is convex."""
    costs = [
        Cost.polynomial([slope, 1.0 + bend / 8.0, 0.0, 1.0])
        for bend, slope in zip(b, c, strict=True)
    ]
    derivative = [12.0, 0.0, 2 * (3.0 + b.sum() / 8.0), c.sum()]
    roots = np.roots(derivative)
    real = roots[np.argmin(abs(roots.imag))].real
    found = central_minimiser(costs, Box(-10.0, 10.0, dim=1))
    assert found[0] == pytest.approx(real, abs=1e-7)


def test_local_gradients_are_pooled_too():
    """sum of tanh(x - t) over t = -1, 0, 4 is odd around no centre: solve by hand."""
    targets = (-1.0, 0.0, 4.0)
    costs = [Cost.from_gradient(lambda x, t=t: np.tanh(x - t), dim=1) for t in targets]
    found = central_minimiser(costs, Box(-10.0, 10.0, dim=1))
    low, high = -10.0, 10.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if sum(np.tanh(middle - t) for t in targets) < 0:
            low = middle
        else:
            high = middle
    assert found[0] == pytest.approx(low, abs=1e-9)


def test_costs_that_cancel_leave_every_point_a_minimiser():
    costs = [Cost.affine([1.0, -2.0]), Cost.affine([-1.0, 2.0])]
    for domain in DOMAINS.values():
        found = central_minimiser(costs, domain)
        np.testing.assert_allclose(domain.project(found), found, atol=1e-12)


def test_a_kink_that_no_gradient_vanishes_at_is_reported():
    """|x - 0.3| has the gradient -1 or 1 and never 0: no root, no made-up answer."""
    kink = Cost.from_gradient(lambda x: np.where(x < 0.3, -1.0, 1.0), dim=1)
    with refused("minimiser-not-converged", NumericalError):
        central_minimiser([kink], Box(-1.0, 2.0, dim=1))


def test_scales_far_from_one_are_solved_as_exactly():
    costs = [Cost.squared_distance([1e6 + k, -1e6]) for k in range(3)]
    found = central_minimiser(costs, Box(-1e7, 1e7, dim=2))
    np.testing.assert_allclose(found, [1e6 + 1.0, -1e6], rtol=1e-12)
