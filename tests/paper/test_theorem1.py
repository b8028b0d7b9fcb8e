"""Theorem 1: (C, epsilon)-affine privacy with epsilon = 1 / (4 sigma^2 mu2(L_H))."""

import numpy as np
import pytest
from hypothesis import assume, given

from golden import CASES
from later import Later
from strategies import few, settings_of_the_theorem, sigmas
from veilsum.privacy.divergence import kl_divergence
from veilsum.privacy.guarantee import guarantee

sympy = Later("sympy")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def promise_of(case):
    return guarantee(case.topology, sigma=case.sigma, corrupted=case.corrupted)


@every_case
def test_mu2_of_the_honest_graph_is_the_exact_value(case):
    """Golden eigenvalues to 40 digits, computed independently."""
    assert promise_of(case).mu2 == pytest.approx(case.mu2, rel=1e-12, abs=0)


@every_case
def test_epsilon_is_the_exact_value(case):
    """Golden epsilon = 1 / (4 sigma^2 mu2), computed independently."""
    found = promise_of(case)
    assert found.status == "private"
    if case.epsilon is not None:
        assert found.epsilon == pytest.approx(case.epsilon, rel=1e-12, abs=0)


@every_case
def test_the_bound_on_the_divergence_is_the_exact_value_and_holds(case):
    """Golden bound = epsilon ||A - B||^2, computed independently."""
    found = promise_of(case)
    distance = ((np.array(case.a) - np.array(case.b)) ** 2).sum()
    bound = found.epsilon * distance
    if case.bound is not None:
        assert bound == pytest.approx(case.bound, rel=1e-12, abs=0)
    assert float(case.divergence) <= bound * (1 + 1e-12)


def test_the_bound_is_strict_where_the_difference_is_not_a_fiedler_vector():
    """Petersen with C = {0, 1}: KL / bound = 0.436, so the bound is no identity."""
    case = next(case for case in CASES if case.name == "Petersen")
    ratio = kl_divergence(
        case.topology, case.a, case.b, sigma=case.sigma, corrupted=case.corrupted
    ) / (promise_of(case).epsilon * 4)
    assert round(ratio, 3) == 0.436


def honest_characteristic_polynomial(case, x):
    """det(xI - L_H) in exact integers."""
    colluders = case.topology.indices(case.corrupted)
    laplacian = case.topology.without(colluders).laplacian.toarray()
    matrix = sympy.polys.matrices.DomainMatrix.from_Matrix(
        sympy.Matrix(laplacian.astype(int).tolist())
    )
    return sympy.Poly(matrix.charpoly(), x)


# The minimal polynomial of mu2(L_H), leading coefficient first.
MINIMAL_POLYNOMIALS = {
    "K3": [1, -2],
    "Petersen": [1, -6, 6],  # 3 - sqrt 3
    "C6": [1, -3, 1],  # (3 - sqrt 5) / 2
    "Q4": [1, -22, 187, -772, 1588, -1480, 468],
    "RGG12": [1, -16, 90, -204, 150, -22],
    "K10": [1, -5],
    "C4": [1, -1],
    "weighted C4": [1, -2],
    "K4 in two dimensions": [1, -3],
    "directed 3-cycle": [1, -3],
}


@every_case
def test_mu2_is_a_root_of_its_minimal_polynomial_in_exact_arithmetic(case):
    """It divides the characteristic polynomial, is irreducible, and holds mu2.

    mu2 is isolated exactly: x is a simple factor (G[H] is connected), and the minimal
    polynomial has the least positive root of all that is left.
    """
    x = sympy.Symbol("x")
    minimal = sympy.Poly(MINIMAL_POLYNOMIALS[case.name], x)
    characteristic = honest_characteristic_polynomial(case, x)
    assert minimal.is_irreducible
    quotient, rest = sympy.div(characteristic, minimal)
    assert rest.is_zero
    least = min(minimal.nroots(n=30))
    others = sympy.div(quotient, sympy.Poly(x, x))[0]
    assert not sympy.rem(others, sympy.Poly(x, x)).is_zero
    smaller = sympy.Rational(str(least)) - sympy.Rational(1, 10**20)
    assert others.count_roots(0, smaller) == 0
    found = promise_of(case).mu2
    assert found == pytest.approx(float(least), rel=1e-12, abs=0)


@given(settings_of_the_theorem(width=2), sigmas)
def test_no_pair_that_definition_two_compares_exceeds_epsilon(setting, sigma):
    topology, corrupted, a, b = setting
    found = guarantee(topology, sigma=sigma, corrupted=corrupted)
    assume(found.status == "private")
    divergence = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    assert divergence <= found.epsilon * ((a - b) ** 2).sum() * (1 + 1e-9)


@few
@given(settings_of_the_theorem(min_honest=2), sigmas)
def test_only_the_honest_graph_matters(setting, sigma):
    """Eq. final_kl_view: the view of C tells as much as G_H with nobody corrupted."""
    topology, corrupted, a, b = setting
    honest = topology.without(topology.indices(corrupted))
    rows = sorted(topology.indices(honest.parties))
    inside = kl_divergence(honest, a[rows], b[rows], sigma=sigma)
    whole = kl_divergence(topology, a, b, sigma=sigma, corrupted=corrupted)
    assert whole == pytest.approx(inside, rel=1e-12)


@few
@given(settings_of_the_theorem(), sigmas)
def test_more_noise_is_more_privacy(setting, sigma):
    """epsilon is inversely proportional to the variance of the shares."""
    topology, corrupted, _, _ = setting
    one = guarantee(topology, sigma=sigma, corrupted=corrupted)
    assume(one.status == "private")
    two = guarantee(topology, sigma=2 * sigma, corrupted=corrupted)
    assert two.epsilon * 4 == pytest.approx(one.epsilon, rel=1e-12)
