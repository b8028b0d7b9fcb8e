"""Conversions against tables, integrals to 30 digits, and their own inverses."""

from math import exp, inf, nan, sqrt

import mpmath
import pytest
from hypothesis import given, strategies as st

from cases import each
from strategies import few
from veilsum.errors import InvalidInputError
from veilsum.privacy.conversions import (
    Leakage,
    attacker_success,
    auc_of_divergence,
    chi2_of_divergence,
    divergence_for_success,
    dp_delta,
    dp_epsilon,
    gaussian_mu_of_divergence,
    hellinger2_of_divergence,
    power_of_best_test,
    renyi_of_divergence,
    total_variation_of_divergence,
)

# KL, mu_G, accuracy, TV, AUC, dp_epsilon at delta = 1e-5: from normal tables and, for
# the last, the formula of delta solved to 30 digits.
TABLE = [
    (0.0001, 0.014142, 0.502821, 0.005642, 0.503989, 0.0400),
    (0.01, 0.141421, 0.528186, 0.056372, 0.539828, 0.4970),
    (0.1, 0.447214, 0.588468, 0.176937, 0.624085, 1.7601),
    (0.25, 0.707107, 0.638163, 0.276326, 0.691462, 2.9432),
    (0.5, 1.0, 0.691462, 0.382925, 0.760250, 4.3772),
    (1.0, 1.414214, 0.760250, 0.520500, 0.841345, 6.5730),
    (5.0, 3.162278, 0.943077, 0.886154, 0.987326, 17.8566),
]
divergences = st.floats(1e-12, 200.0)


@pytest.mark.parametrize(("kl", "mu", "accuracy", "tv", "area", "dp"), TABLE)
def test_the_table_of_conversions(kl, mu, accuracy, tv, area, dp):
    told = Leakage(kl)
    assert told.gaussian_mu == pytest.approx(mu, abs=5e-7)
    assert told.attacker_success == pytest.approx(accuracy, abs=5.1e-7)
    assert told.total_variation == pytest.approx(tv, abs=5.1e-7)
    assert told.auc == pytest.approx(area, abs=5.1e-7)
    assert told.dp_epsilon(1e-5) == pytest.approx(dp, abs=5.1e-5)


@pytest.mark.parametrize(
    ("kl", "mu", "area", "tv", "pinsker", "bretagnolle_huber"),
    [
        # From an independent simulation of the likelihood-ratio test.
        (0.0595, 0.345, 0.596, 0.137, 0.173, 0.240),
        (0.238, 0.690, 0.687, 0.270, 0.345, 0.460),
        (0.953, 1.380, 0.836, 0.510, 0.690, 0.784),
        (3.81, 2.760, 0.975, 0.833, 1.0, 0.989),
    ],
)
def test_simulated_tests_do_as_well(kl, mu, area, tv, pinsker, bretagnolle_huber):
    # The divergence itself was written with three digits.
    assert gaussian_mu_of_divergence(kl) == pytest.approx(mu, abs=2e-3)
    assert auc_of_divergence(kl) == pytest.approx(area, abs=2e-3)
    assert total_variation_of_divergence(kl) == pytest.approx(tv, abs=2e-3)
    assert min(sqrt(kl / 2), 1) == pytest.approx(pinsker, abs=2e-3)
    assert sqrt(1 - exp(-kl)) == pytest.approx(bretagnolle_huber, abs=3e-3)
    assert total_variation_of_divergence(kl) <= min(pinsker, bretagnolle_huber) + 2e-3


# --- integrals -------------------------------------------------------------------


def integral(mu, integrand):
    """The integral of f(p(x), q(x)), p and q standard normal at 0 and at mu."""
    points = [-12, -4, 0, mu / 2, mu, mu + 4, mu + 12]
    return mpmath.quad(
        lambda x: integrand(mpmath.npdf(x), mpmath.npdf(x, mu)), sorted(points)
    )


@pytest.mark.parametrize("kl", [0.003, 0.34375, 2.0])
def test_every_conversion_is_the_integral_that_defines_it(kl):
    told = Leakage(kl)
    with mpmath.workdps(30):
        mu = mpmath.sqrt(2 * mpmath.mpf(kl))
        expected = {
            "divergence": integral(mu, lambda p, q: p * mpmath.log(p / q)),
            "total_variation": integral(mu, lambda p, q: abs(p - q)) / 2,
            "hellinger2": 1 - integral(mu, lambda p, q: mpmath.sqrt(p * q)),
            "chi2": integral(mu, lambda p, q: p * p / q) - 1,
        }
        third = mpmath.log(integral(mu, lambda p, q: p**3 / q**2)) / 2
        area = mpmath.quad(
            lambda x: mpmath.npdf(x, mu) * mpmath.ncdf(x), [-12, 0, mu, mu + 12]
        )
    for name, value in expected.items():
        assert getattr(told, name) == pytest.approx(float(value), rel=1e-10), name
    assert told.renyi(3.0) == pytest.approx(float(third), rel=1e-6)
    assert told.auc == pytest.approx(float(area), rel=1e-10)


@each("kl", [0.003, 0.34375, 2.0])
@each("bound", [0.0, 0.4, 1.5])
def test_delta_is_the_integral_of_what_exceeds(kl, bound):
    """delta(e) = int max(p - exp(e) q, 0)."""
    with mpmath.workdps(30):
        mu = mpmath.sqrt(2 * mpmath.mpf(kl))
        edge = mu / 2 - bound / mu  # where p = exp(e) q
        expected = mpmath.quad(
            lambda x: mpmath.npdf(x) - mpmath.exp(bound) * mpmath.npdf(x, mu),
            [edge - 12, edge - 4, edge],
        )
    found = dp_delta(kl, dp_epsilon=bound)
    assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-25)


def exact_delta(kl, bound):
    """The formula to 60 digits, where its two terms may cancel as they like."""
    with mpmath.workdps(60):
        mu, e = mpmath.sqrt(2 * mpmath.mpf(kl)), mpmath.mpf(bound)
        far = mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
        return float(mpmath.ncdf(mu / 2 - e / mu) - far)


@each("kl", [1e-30, 1e-16, 1e-8, 1e-3, 0.49, 0.51, 5, 500, 1e6])
@each("ratio", [0.0, 0.1, 1.0, 3.0, 10.0, 30.0])
def test_delta_keeps_its_digits_for_tiny_and_for_large_divergences(kl, ratio):
    bound = ratio * gaussian_mu_of_divergence(kl)
    expected = exact_delta(kl, bound)
    assert dp_delta(kl, dp_epsilon=bound) == pytest.approx(expected, rel=1e-11)


def test_delta_of_the_petersen_pair():
    """KL = 11/32; 400,000 simulated runs gave 0.07153."""
    assert dp_delta(11 / 32, dp_epsilon=1.0) == pytest.approx(0.07149, abs=5e-6)


# --- inverses --------------------------------------------------------------------


@given(divergences, st.floats(-60, -0.4).map(lambda x: 10.0**x))
@few
def test_dp_epsilon_inverts_dp_delta(kl, delta):
    bound = dp_epsilon(kl, delta=delta)
    if bound == 0:
        assert total_variation_of_divergence(kl) <= delta
    else:
        assert dp_delta(kl, dp_epsilon=bound) == pytest.approx(delta, rel=1e-8)


@given(divergences, st.floats(1e-9, 0.4), st.floats(1.1, 2.0))
def test_dp_epsilon_falls_with_delta_and_grows_with_the_divergence(kl, delta, more):
    here = dp_epsilon(kl, delta=delta)
    assert dp_epsilon(kl, delta=delta * more) <= here
    assert dp_epsilon(kl * more, delta=delta) >= here


@given(st.floats(0.5001, 0.9999))
def test_success_and_divergence_invert_each_other(success):
    assert attacker_success(divergence_for_success(success)) == pytest.approx(
        success, rel=1e-13
    )


@given(divergences)
def test_the_readings_of_one_number_agree(kl):
    assert attacker_success(kl) == pytest.approx(
        (1 + total_variation_of_divergence(kl)) / 2
    )
    assert dp_delta(kl, dp_epsilon=0.0) == pytest.approx(
        total_variation_of_divergence(kl), rel=1e-9
    )
    assert renyi_of_divergence(kl, order=1.0) == kl
    assert gaussian_mu_of_divergence(kl) ** 2 / 2 == pytest.approx(kl)


@given(divergences, st.floats(0.001, 0.999))
def test_the_power_of_the_best_test_is_never_below_its_level(kl, level):
    assert power_of_best_test(kl, level=level) >= level * (1 - 1e-12)
    assert power_of_best_test(0.0, level=level) == pytest.approx(level)


# --- ends ------------------------------------------------------------------------


def test_nothing_and_everything():
    nothing, everything = Leakage(0.0), Leakage(inf)
    assert (nothing.attacker_success, everything.attacker_success) == (0.5, 1.0)
    assert (nothing.total_variation, everything.total_variation) == (0.0, 1.0)
    assert (nothing.chi2, everything.chi2, chi2_of_divergence(1e5)) == (0.0, inf, inf)
    assert (hellinger2_of_divergence(0.0), hellinger2_of_divergence(inf)) == (0.0, 1.0)
    assert (nothing.dp_delta(0.0), everything.dp_delta(9.0)) == (0.0, 1.0)
    assert (nothing.dp_epsilon(1e-9), everything.dp_epsilon(0.5)) == (0.0, inf)
    assert everything.power(0.01) == 1.0
    assert dp_delta(1.0, dp_epsilon=inf) == 0.0


@each(
    ("call", "message"),
    [
        (lambda: Leakage(-1.0), "not negative, found -1"),
        (lambda: gaussian_mu_of_divergence(nan), "not negative, found nan"),
        (lambda: renyi_of_divergence(1.0, order=0.0), "order must be positive"),
        (
            lambda: power_of_best_test(1.0, level=1.0),
            "level must be between 0 and 1",
        ),
        (lambda: dp_delta(1.0, dp_epsilon=-0.1), "must not be negative"),
        (lambda: dp_epsilon(1.0, delta=0.0), "delta must be between 0 and 1"),
        (lambda: divergence_for_success(0.5), "above 0.5, which a coin reaches"),
        (lambda: divergence_for_success(1.0), "found 1.0"),
        (lambda: divergence_for_success(nan), "found nan"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
