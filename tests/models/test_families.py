"""Families: their formulas against derivatives, laws of scipy and statsmodels."""

import numpy as np
import pytest
from scipy import stats

from veilsum.errors import InvalidInputError
from veilsum.models.families import (
    Binomial,
    Gamma,
    GammaInverseLink,
    Gaussian,
    LikelihoodSums,
    NegativeBinomial,
    Poisson,
)

FAMILIES = [
    Gaussian(),
    Binomial(),
    Poisson(),
    NegativeBinomial(0.7),
    Gamma(),
    GammaInverseLink(),
]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)

MEANS = np.array([0.05, 0.2, 0.5, 0.9])
COUNTS = np.array([0.0, 1.0, 3.0, 8.0])
PHI = 0.3
WEIGHTS = np.array([0.5, 1.0, 2.0, 3.0])


def responses(family):
    if isinstance(family, Binomial):
        return np.array([0.0, 1.0, 1.0, 0.0])
    return COUNTS if isinstance(family, Poisson) else COUNTS + 0.4


def slope_of(function, at, width=1e-6):
    return (function(at + width) - function(at - width)) / (2 * width)


@every_family
def test_the_inverse_link_undoes_the_link(family):
    found = family.inverse_link(family.link(MEANS))
    np.testing.assert_allclose(found, MEANS, rtol=1e-12)
    assert family.outside(family.link(MEANS)) == 0


@every_family
def test_the_slope_is_the_derivative_of_the_inverse_link(family):
    found = slope_of(family.inverse_link, family.link(MEANS))
    np.testing.assert_allclose(family.slope(MEANS), found, rtol=1e-5)


@every_family
def test_the_leverage_is_the_slope_over_the_variance(family):
    expected = family.slope(MEANS) / family.variance(MEANS)
    np.testing.assert_allclose(family.leverage(MEANS), expected, rtol=1e-12)


@every_family
def test_the_deviance_falls_along_the_score(family):
    """d deviance / d eta = -2 (y - mu) slope / variance."""
    response, eta = responses(family), family.link(MEANS)
    found = slope_of(
        lambda e: family.unit_deviance(response, family.inverse_link(e)), eta
    )
    expected = -2.0 * (response - MEANS) * family.leverage(MEANS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


@every_family
def test_the_curvature_is_the_second_derivative_of_half_the_deviance(family):
    response, eta = responses(family), family.link(MEANS)

    def score(e):
        mu = family.inverse_link(e)
        return (response - mu) * family.leverage(mu)

    found = -slope_of(score, eta)
    np.testing.assert_allclose(family.curvature(response, MEANS), found, rtol=1e-5)


def log_law(family, response):
    """The log of the density or probability, by scipy, with variance phi / w."""
    match family:
        case Gaussian():
            found = stats.norm.logpdf(response, MEANS, np.sqrt(PHI / WEIGHTS))
        case Binomial():
            found = WEIGHTS * stats.bernoulli.logpmf(response, MEANS)
        case NegativeBinomial():
            size = 1.0 / family.alpha
            chance = size / (size + MEANS)
            found = WEIGHTS * stats.nbinom.logpmf(response, size, chance)
        case Poisson():
            found = WEIGHTS * stats.poisson.logpmf(response, MEANS)
        case _:
            shape = WEIGHTS / PHI
            found = stats.gamma.logpdf(response, shape, scale=MEANS / shape)
    return found.sum()


@every_family
def test_the_log_likelihood_is_that_of_the_law(family):
    response = responses(family)
    deviance = WEIGHTS @ family.unit_deviance(response, MEANS)
    phi = PHI if family.estimates_dispersion else 1.0
    saturated = family.saturated(response, WEIGHTS, phi).sum()
    found = family.log_likelihood(LikelihoodSums(deviance, saturated, 4.0, phi))
    if isinstance(family, Gaussian):
        # Least squares reports it at the dispersion that makes it greatest.
        found += 2.0 * (np.log(deviance / 4.0) + 1.0 - np.log(PHI)) - deviance / PHI / 2
    assert found == pytest.approx(log_law(family, response), rel=1e-12)


def test_a_gamma_of_great_shape_keeps_its_digits():
    """Both sides of the change to Stirling's series continue each other."""
    near = Gamma().saturated(np.ones(2), np.array([1.0 - 1e-9, 1.0 + 1e-9]), 0.01)
    assert near[0] == pytest.approx(near[1], rel=1e-9)
    narrow = Gamma().saturated(np.ones(1), np.ones(1), 1e-20)
    assert narrow.item() == pytest.approx(np.log(1e20 / (2 * np.pi)) / 2, rel=1e-14)


@every_family
def test_a_wild_point_gives_finite_numbers(family):
    response, eta = responses(family), np.array([-1e6, 1e6, -900.0, 900.0])
    mu = family.inverse_link(eta)
    assert np.isfinite(family.unit_deviance(response, mu)).all()
    assert np.isfinite((response - mu) ** 2 / family.variance(mu)).all()


def test_means_that_a_link_cannot_give_are_counted():
    assert Poisson().outside(np.array([-50.0, 0.0, 31.0])) == 1
    assert GammaInverseLink().outside(np.array([-1.0, 0.0, 31.0])) == 2
    assert Binomial().outside(np.array([-500.0, 500.0])) == 0


@pytest.mark.parametrize(
    ("family", "bad", "message"),
    [
        (Binomial(), 0.5, "must be 0 or 1 in every row; write k of m successes"),
        (Binomial(), np.nan, "must be 0 or 1"),
        (Poisson(), -1.0, "a poisson regression must be a count"),
        (Poisson(), 1.5, "give the exposure's log as offset"),
        (NegativeBinomial(1.0), 0.5, "a negative binomial regression must be a count"),
        (Gamma(), 0.0, "a gamma regression must be above 0"),
    ],
)
def test_a_response_the_law_never_yields_is_refused(family, bad, message):
    family.check(np.array([1.0, 1.0]))
    with pytest.raises(InvalidInputError, match=message):
        family.check(np.array([1.0, bad]))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_a_negative_binomial_needs_a_positive_alpha(alpha):
    with pytest.raises(InvalidInputError, match=r"alpha .* must be above 0"):
        NegativeBinomial(alpha)
