from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cases import each
from later import Later
from refusals import refused
from strategies import eighths, few, finite_arrays
from veilsum.minimise.costs.bases import (
    Affine,
    Polynomial,
    Quadratic,
    quadratic_coefficients,
    svec,
)

sympy = Later("sympy")

BASES = [
    Affine(1),
    Affine(3),
    Polynomial(1, 1),
    Polynomial(1, 4),
    Polynomial(2, 3),
    Polynomial(3, 2),
    Quadratic(1),
    Quadratic(3),
]
every_basis = pytest.mark.parametrize("basis", BASES, ids=repr)


def symbolic_features(basis, x):
    """phi(x) written out from the definitions, without the code under test."""
    if isinstance(basis, Affine):
        return list(x)
    if isinstance(basis, Polynomial):
        wanted = (sum(x) + 1) ** basis.degree
        monomials = sympy.Poly(sympy.expand(wanted), *x).monoms()
        rising = sorted(monomials, key=lambda a: (sum(a), [-power for power in a]))
        return [
            sympy.prod(v**p for v, p in zip(x, a, strict=True))
            for a in rising
            if any(a)
        ]
    m = len(x)
    square = [x[i] * x[j] / (2 if i == j else 1) for i in range(m) for j in range(i, m)]
    return [*square, *x, sympy.Integer(1)]


def numbers(data, basis):
    """(theta, x) as exact rationals in float64."""
    theta = data.draw(eighths((basis.size,), most=24))
    return theta, data.draw(eighths((basis.dim,), most=24))


@every_basis
@few
@given(data=st.data())
def test_features_are_the_ones_of_the_definition(basis, data):
    _, point = numbers(data, basis)
    x = sympy.symbols(f"x:{basis.dim}")
    place = dict(zip(x, point.tolist(), strict=True))
    expected = [float(f.subs(place)) for f in symbolic_features(basis, x)]
    np.testing.assert_allclose(basis.features(point), expected, rtol=1e-13)


@every_basis
@few
@given(data=st.data())
def test_the_gradient_is_the_symbolic_one(basis, data):
    theta, point = numbers(data, basis)
    x = sympy.symbols(f"x:{basis.dim}")
    terms = zip(theta.tolist(), symbolic_features(basis, x), strict=True)
    cost = sum(sympy.Rational(value) * feature for value, feature in terms)
    place = dict(zip(x, map(sympy.Rational, point.tolist()), strict=True))
    expected = [float(sympy.diff(cost, v).subs(place)) for v in x]
    found = basis.gradient(theta, point)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@every_basis
@few
@given(data=st.data())
def test_the_gradient_is_the_limit_of_differences(basis, data):
    theta = data.draw(finite_arrays((basis.size,), most=3.0))
    point = data.draw(finite_arrays((basis.dim,), most=2.0))
    step = 1e-5

    def value(x):
        return theta @ basis.features(x)

    differences = [
        (value(point + d) - value(point - d)) / (2 * step)
        for d in step * np.eye(basis.dim)
    ]
    # Central differences err by step^2 times a third derivative, here below 1e3.
    np.testing.assert_allclose(basis.gradient(theta, point), differences, atol=1e-6)


@every_basis
@few
@given(data=st.data(), n=st.integers(1, 4))
def test_rows_of_agents_get_what_each_would_get_alone(basis, data, n):
    theta = data.draw(finite_arrays((n, basis.size)))
    x = data.draw(finite_arrays((n, basis.dim), most=3.0))
    together = basis.gradient(theta, x)
    alone = [basis.gradient(t, p) for t, p in zip(theta, x, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-9)
    features = [basis.features(p) for p in x]
    np.testing.assert_allclose(basis.features(x), features, rtol=1e-13, atol=1e-12)


@every_basis
@few
@given(data=st.data())
def test_a_change_of_gradient_is_the_difference_of_gradients(basis, data):
    theta = data.draw(eighths((basis.size,), most=16))
    new = data.draw(eighths((basis.dim,), most=16))
    old = data.draw(eighths((basis.dim,), most=16))
    expected = basis.gradient(theta, new) - basis.gradient(theta, old)
    found = basis.gradient_change(theta, new, old)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)


@each(
    ("basis", "linear"),
    [(Affine(2), [0, 1]), (Polynomial(2, 3), [0, 1]), (Quadratic(2), [3, 4, 5])],
)
def test_a_change_of_gradient_holds_no_bit_of_the_linear_coefficients(basis, linear):
    """A float difference of gradients would: theta = 1e17 hides the whole change."""
    theta = np.full(basis.size, 0.5)
    shifted = theta.copy()
    shifted[linear] = 1e17
    new, old = np.array([0.25, -1.5]), np.array([2.0, 0.75])
    np.testing.assert_array_equal(
        basis.gradient_change(shifted, new, old), basis.gradient_change(theta, new, old)
    )


@each("dim", [1, 2, 3, 4])
@each("degree", [1, 2, 3, 5])
def test_a_polynomial_basis_has_every_monomial_once(dim, degree):
    """binom(m + d, d) monomials of total degree up to d, less the constant."""
    basis = Polynomial(dim, degree)
    assert basis.size == comb(dim + degree, degree) - 1
    rows = {tuple(row) for row in basis.exponents.tolist()}
    assert len(rows) == basis.size
    assert all(1 <= sum(row) <= degree for row in rows)


def test_exponents_rise_by_degree_and_then_follow_the_variables():
    expected = [[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    assert Polynomial(2, 2).exponents.tolist() == expected
    assert Polynomial(1, 3).exponents.tolist() == [[1], [2], [3]]


@given(st.data(), st.integers(1, 7))
def test_horner_s_rule_agrees_with_the_sum_over_monomials(data, degree):
    basis = Polynomial(1, degree)
    theta = data.draw(finite_arrays((degree,)))
    x = data.draw(finite_arrays((1,), most=3.0))
    powers = np.arange(1, degree + 1)
    terms = theta * powers * x[0] ** (powers - 1)
    found = basis.gradient(theta, x)
    assert found.shape == (1,)
    assert found[0] == pytest.approx(terms.sum(), rel=1e-12, abs=1e-9)
    general = basis._partial(theta, x, 0)
    assert found[0] == pytest.approx(float(general), rel=1e-12, abs=1e-9)


def test_a_polynomial_of_degree_one_is_affine():
    theta, x = np.array([3.0, -2.0]), np.array([7.0, 1.0])
    found = Polynomial(2, 1).gradient(theta, x)
    np.testing.assert_array_equal(found, Affine(2).gradient(theta, x))


def test_the_gradient_at_the_origin_is_the_linear_coefficient():
    theta = np.array([3.0, -2.0, 1.0, 5.0, 7.0])
    found = Polynomial(2, 2).gradient(theta, np.zeros(2))
    assert found.tolist() == [3.0, -2.0]


def symmetric(data, dim):
    half = data.draw(finite_arrays((dim, dim)))
    return half + half.T


@few
@given(st.data(), st.integers(1, 5))
def test_svec_keeps_inner_products(data, dim):
    one, other = symmetric(data, dim), symmetric(data, dim)
    frobenius = (one * other).sum()
    assert svec(one) @ svec(other) == pytest.approx(frobenius, rel=1e-12, abs=1e-9)


def test_svec_stacks_the_upper_triangle_row_by_row():
    matrix = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    expected = [1.0, 2 * sqrt(2), 3 * sqrt(2), 4.0, 5 * sqrt(2), 6.0]
    np.testing.assert_allclose(svec(matrix), expected, rtol=1e-15)


@few
@given(st.data(), st.integers(1, 4))
def test_a_quadratic_s_coefficients_give_back_the_quadratic(data, dim):
    matrix = symmetric(data, dim)
    vector = data.draw(finite_arrays((dim,)))
    x = data.draw(finite_arrays((dim,), most=3.0))
    theta = quadratic_coefficients(matrix, vector)
    basis = Quadratic(dim)
    value = 0.5 * x @ matrix @ x + vector @ x
    assert theta @ basis.features(x) == pytest.approx(value, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(
        basis.gradient(theta, x), matrix @ x + vector, rtol=1e-10, atol=1e-9
    )


@few
@given(st.data(), st.integers(1, 4))
def test_a_quadratics_coefficients_are_its_own_numbers(data, dim):
    """No root of 2 in them: whole numbers of cents stay whole."""
    matrix, vector = symmetric(data, dim), data.draw(finite_arrays((dim,)))
    theta = quadratic_coefficients(matrix, vector)
    own = [matrix[i, j] for i in range(dim) for j in range(i, dim)]
    assert theta.tolist() == [*own, *vector, 0.0]


@few
@given(st.data(), st.integers(1, 4))
def test_a_share_of_a_quadratic_is_equally_wide_in_all_directions_of_svec(data, dim):
    matrix = symmetric(data, dim)
    basis, nothing = Quadratic(dim), np.zeros(dim)
    wide = quadratic_coefficients(matrix, nothing) / basis.widths
    squared = float((svec(matrix) ** 2).sum() / 4.0)
    assert float((wide**2).sum()) == pytest.approx(squared, rel=1e-12, abs=1e-12)


def test_shares_of_a_quadratic_are_never_narrower_than_asked_for():
    diagonal, off, *_ = Quadratic(2).widths.tolist()
    assert (diagonal, Fraction(off) ** 2 >= 2) == (2.0, True)


def test_a_quadratic_basis_counts_its_triangle_its_vector_and_its_constant():
    assert [Quadratic(m).size for m in (1, 2, 5)] == [3, 6, 21]


@each("dim", [0, -1])
@each("kind", [Affine, Quadratic, lambda m: Polynomial(m, 2)])
def test_a_basis_needs_a_variable(kind, dim):
    with refused("whole-out-of-range", mentions=("1,", dim)):
        kind(dim)


@pytest.mark.parametrize("degree", [0, -2])
def test_a_polynomial_needs_a_degree(degree):
    with refused("degree-not-positive", mentions=(degree,)):
        Polynomial(2, degree)


def test_bases_that_describe_the_same_features_are_equal():
    assert Polynomial(2, 3) == Polynomial(2, 3)
    assert Polynomial(2, 3) != Polynomial(2, 2)
    assert Affine(2) != Quadratic(2)
