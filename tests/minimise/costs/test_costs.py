import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from refusals import refused
from strategies import eighths, few, finite_arrays
from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.bases import Affine, Polynomial, Quadratic
from veilsum.minimise.costs.cost import Cost, common_basis, cost_coefficient_rows
from veilsum.minimise.costs.remainders import NoRemainder, SquaredNorm


def test_an_affine_cost_has_its_coefficients_and_no_remainder():
    cost = Cost.affine([1.0, -2.0])
    assert cost.basis == Affine(2)
    assert cost.coefficients.tolist() == [1.0, -2.0]
    assert cost.remainder == NoRemainder()
    assert cost.gradient(np.array([5.0, 5.0])).tolist() == [1.0, -2.0]


def test_a_single_number_is_a_cost_of_one_variable():
    assert Cost.affine(3.0).dim == 1
    assert Cost.squared_distance(3.0).dim == 1
    assert Cost.quadratic(2.0, 1.0).dim == 1


def test_the_paper_s_example_is_an_affine_term_plus_a_shared_square():
    """Section V: h_1(x) = x^2 + x has the gradient 2x + 1."""
    cost = Cost.affine([1.0], remainder=SquaredNorm(1.0))
    assert cost.gradient(np.array([3.0])).tolist() == [7.0]
    assert cost.remainder.kind == "shared"


@given(finite_arrays((3,)), finite_arrays((3,)))
def test_a_squared_distance_hides_its_target_in_the_coefficients(target, x):
    cost = Cost.squared_distance(target)
    np.testing.assert_array_equal(cost.coefficients, -2.0 * target)
    expected = 2 * (x - target)
    np.testing.assert_allclose(cost.gradient(x), expected, atol=1e-12)


@given(eighths((4,)), eighths((1,), most=16))
def test_a_polynomial_s_coefficients_rise_by_degree(c, x):
    found = Cost.polynomial(c).gradient(x)
    expected = c[0] + 2 * c[1] * x + 3 * c[2] * x**2 + 4 * c[3] * x**3
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@each(
    ("dim", "size", "degree"), [(1, 1, 1), (1, 4, 4), (2, 5, 2), (2, 9, 3), (3, 9, 2)]
)
def test_the_number_of_coefficients_tells_a_polynomial_s_degree(dim, size, degree):
    cost = Cost.polynomial(np.ones(size), dim=dim)
    assert cost.basis == Polynomial(dim, degree)


@each(("dim", "size"), [(2, 3), (2, 6), (3, 4)])
def test_a_number_of_coefficients_that_fits_no_polynomial_is_refused(dim, size):
    with refused("coefficients-fit-no-polynomial", mentions=(size,)):
        Cost.polynomial(np.ones(size), dim=dim)


@few
@given(st.data(), st.integers(1, 4))
def test_a_quadratic_masks_its_matrix_and_its_vector(data, dim):
    half = data.draw(finite_arrays((dim, dim)))
    matrix, vector = half + half.T, data.draw(finite_arrays((dim,)))
    x = data.draw(finite_arrays((dim,), most=3.0))
    cost = Cost.quadratic(matrix, vector)
    assert cost.basis == Quadratic(dim)
    assert cost.remainder == NoRemainder()
    expected = matrix @ x + vector
    np.testing.assert_allclose(cost.gradient(x), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0]], np.ones((2, 2, 2))])
def test_a_matrix_that_is_not_square_is_refused_with_its_shape(matrix):
    with refused("matrix-not-square"):
        Cost.quadratic(matrix, [1.0, 1.0])


def test_a_matrix_that_is_not_symmetric_is_refused_with_the_place():
    with refused("matrix-not-symmetric", mentions=("0,", "2")):
        Cost.quadratic([[1.0, 2.0, 7.0], [2.0, 4.0, 0.0], [3.0, 0.0, 1.0]], [1.0] * 3)


def test_a_matrix_symmetric_up_to_rounding_is_taken_as_symmetric():
    x = np.random.default_rng(0).standard_normal((10, 3))
    weighted = x.T @ (np.linspace(0.1, 0.9, 10)[:, None] * x)
    nearly = weighted + np.array([[0, 1e-15, 0], [0, 0, 0], [0, 0, 0]])
    assert not np.array_equal(nearly, nearly.T)
    cost = Cost.quadratic(nearly, np.zeros(3))
    gradient = np.array([cost.gradient(row) for row in np.eye(3)])
    np.testing.assert_allclose(gradient, weighted, rtol=1e-13)


def test_a_quadratic_s_vector_must_fit_its_matrix():
    with refused("wrong-shape", mentions=("2",)):
        Cost.quadratic(np.eye(2), [1.0, 2.0, 3.0])


def smooth(target):
    """The gradient of sum log cosh(x - target) + exp(x_1)."""
    return lambda x: np.tanh(x - target) + np.exp(x[0]) * np.eye(len(x))[0]


@few
@given(finite_arrays((2,), most=3.0), finite_arrays((2,), most=3.0))
def test_a_gradient_is_split_canonically_at_its_anchor(target, anchor):
    """alpha = grad h(x0) and grad rho(x0) = 0 exactly: nothing affine is left over."""
    gradient = smooth(target)
    cost = Cost.from_gradient(gradient, dim=2, anchor=anchor)
    np.testing.assert_array_equal(cost.coefficients, gradient(anchor))
    np.testing.assert_array_equal(cost.remainder.gradient(anchor), np.zeros(2))
    assert cost.remainder.kind == "local"


@few
@given(
    finite_arrays((2,), most=3.0),
    finite_arrays((2,), most=3.0),
    finite_arrays((2,), most=3.0),
)
def test_the_split_gives_back_the_gradient(target, anchor, x):
    gradient = smooth(target)
    cost = Cost.from_gradient(gradient, dim=2, anchor=anchor)
    np.testing.assert_allclose(cost.gradient(x), gradient(x), atol=1e-12)


def test_costs_that_differ_by_an_affine_term_have_one_remainder():
    """The canonical split: adding beta'x to a cost moves alpha and nothing else."""
    gradient, beta = smooth(np.zeros(2)), np.array([4.0, -7.0])
    plain = Cost.from_gradient(gradient, dim=2, anchor=0.5)
    tilted = Cost.from_gradient(lambda x: gradient(x) + beta, dim=2, anchor=0.5)
    x = np.array([0.3, -1.2])
    np.testing.assert_allclose(tilted.coefficients - plain.coefficients, beta)
    np.testing.assert_allclose(
        tilted.remainder.gradient(x), plain.remainder.gradient(x), atol=1e-14
    )


def test_a_remainder_that_keeps_an_affine_part_is_refused():
    leaky = Cost.from_gradient(smooth(np.ones(1)), dim=1, anchor=2.0).remainder
    with refused("remainder-gradient-at-origin"):
        Cost.affine([1.0], remainder=leaky)


def test_a_gradient_of_the_wrong_length_is_refused_at_once():
    with refused("gradient-wrong-shape", mentions=("3",)):
        Cost.from_gradient(lambda x: x[:2], dim=3)


def test_a_gradient_that_is_not_finite_at_the_anchor_is_refused_at_once():
    with refused("gradient-not-finite"):
        Cost.from_gradient(lambda x: x + np.inf, dim=1)


def test_an_anchor_of_the_wrong_length_is_refused():
    with refused("wrong-shape", mentions=("2",)):
        Cost.from_gradient(lambda x: x, dim=2, anchor=[1.0, 2.0, 3.0])


@each(
    ("make", "what"),
    [
        (lambda: Cost.affine([np.nan]), "affine coefficients"),
        (lambda: Cost.affine(["one"]), "affine coefficients"),
        (lambda: Cost.squared_distance([np.inf]), "a target"),
        (lambda: Cost.polynomial([1.0, np.nan]), "polynomial coefficients"),
        (lambda: Cost.quadratic([[np.inf]], [0.0]), "the quadratic's matrix"),
        (lambda: Cost.quadratic([[1.0]], [np.nan]), "the quadratic's vector"),
    ],
)
def test_coefficients_that_are_no_finite_numbers_are_refused_by_name(make, what):
    with pytest.raises(InvalidInputError, match=what):
        make()


def test_too_few_coefficients_for_a_basis_are_refused():
    with refused("wrong-coefficient-count", mentions=("3", "2")):
        Cost(Affine(3), np.ones(2), NoRemainder())


def test_a_cost_s_coefficients_cannot_be_changed_from_outside():
    mine = np.array([1.0, 2.0])
    for cost in (
        Cost.affine(mine),
        Cost.polynomial(mine),
        Cost.quadratic(np.eye(2), mine),
        Cost.from_gradient(lambda _, it=mine: it, dim=2),
    ):
        before = cost.coefficients.copy()
        mine += 1.0
        np.testing.assert_array_equal(cost.coefficients, before)
        assert not cost.coefficients.flags.writeable


def test_costs_of_one_basis_have_that_basis_in_common():
    costs = {"ann": Cost.affine([1.0, 2.0]), "bob": Cost.squared_distance([1.0, 1.0])}
    assert common_basis(costs) == Affine(2)


def test_a_dimension_mismatch_names_every_offender_and_what_it_has():
    costs = {
        "ann": Cost.affine([1.0, 2.0]),
        "bob": Cost.affine([1.0, 2.0, 3.0]),
        "cem": Cost.affine([1.0, 2.0]),
        "dee": Cost.affine([1.0]),
        "eve": Cost.quadratic(np.eye(2), [0.0, 0.0]),
        "fay": Cost.affine([1.0, 2.0]),
    }
    with refused("costs-differ") as caught:
        common_basis(costs)
    message = str(caught.value)
    assert "affine in dimension 2 with 2 coefficients for most" in message
    assert "bob has affine in dimension 3" in message
    assert "dee has affine in dimension 1" in message
    assert "eve has quadratic in dimension 2" in message
    assert not any(f"{name} has" in message for name in ("ann", "cem", "fay"))


def test_coefficient_rows_are_the_paper_s_matrix_transposed():
    rows = cost_coefficient_rows([Cost.affine([1.0, 2.0]), Cost.affine([3.0, 4.0])])
    assert rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]
