"""Families: their formulas against derivatives, laws of scipy and statsmodels."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from cases import each
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.models.families import (
    CEILING,
    Binomial,
    Cloglog,
    Gamma,
    GammaInverseLink,
    GaussianFamily,
    InverseGaussian,
    LikelihoodSums,
    NegativeBinomial,
    Poisson,
    Probit,
    QuasiBinomial,
    QuasiPoisson,
    RowRanges,
)

FAMILIES = [
    GaussianFamily(),
    Binomial(),
    Poisson(),
    NegativeBinomial(0.7),
    Gamma(),
    GammaInverseLink(),
    InverseGaussian(),
    Probit(),
    Cloglog(),
    QuasiBinomial(),
    QuasiPoisson(),
]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)

MEANS = np.array([0.05, 0.2, 0.5, 0.9])
COUNTS = np.array([0.0, 1.0, 3.0, 8.0])
PHI = 0.3
WEIGHTS = np.array([0.5, 1.0, 2.0, 3.0])


def responses(family):
    if isinstance(family, QuasiBinomial):
        return np.array([0.0, 0.25, 0.7, 1.0])
    if isinstance(family, Binomial):
        return np.array([0.0, 1.0, 1.0, 0.0])
    return COUNTS if isinstance(family, Poisson) else COUNTS + 0.4


def slope_of(function, at, width=1e-6):
    return (function(at + width) - function(at - width)) / (2 * width)


def eta_of(family):
    return family.link(MEANS)


@every_family
def test_the_inverse_link_undoes_the_link(family):
    found = family.inverse_link(eta_of(family))
    np.testing.assert_allclose(found, MEANS, rtol=1e-12)


@every_family
def test_the_pull_is_half_the_fall_of_the_deviance(family):
    response, eta = responses(family), eta_of(family)
    found = slope_of(lambda e: family.terms(response, e).deviance, eta)
    pull = family.terms(response, eta).pull
    np.testing.assert_allclose(found, -2.0 * pull, rtol=1e-4, atol=1e-7)


@every_family
def test_the_curvature_is_the_second_derivative_of_half_the_deviance(family):
    response, eta = responses(family), eta_of(family)
    found = -slope_of(lambda e: family.terms(response, e).pull, eta)
    curvature = family.terms(response, eta).curvature
    np.testing.assert_allclose(curvature, found, rtol=1e-5)


def variance_of(family):
    match family:
        case GaussianFamily():
            return np.ones_like(MEANS)
        case Binomial():
            return MEANS * (1.0 - MEANS)
        case NegativeBinomial():
            return MEANS + family.alpha * MEANS**2
        case Poisson():
            return MEANS
        case InverseGaussian():
            return MEANS**3
        case _:
            return MEANS**2


@every_family
def test_what_is_expected_is_the_slope_squared_over_the_variance(family):
    eta = eta_of(family)
    slope = slope_of(family.inverse_link, eta)
    expected = slope**2 / variance_of(family)
    np.testing.assert_allclose(family.expected(eta), expected, rtol=1e-5)
    pull = (responses(family) - MEANS) * slope / variance_of(family)
    found = family.terms(responses(family), eta)
    np.testing.assert_allclose(found.pull, pull, rtol=1e-5)
    pearson = (responses(family) - MEANS) ** 2 / variance_of(family)
    np.testing.assert_allclose(found.pearson, pearson, rtol=1e-12)


FINE = [one for one in FAMILIES if one.has_digits]
fine_family = pytest.mark.parametrize("family", FINE, ids=lambda f: f.name)


@fine_family
def test_canonical_parameters_give_the_deviance(family):
    """Half of the deviance is P(y) less y t - b; a score is y - mu times t's slope."""
    for eta in eta_of(family):
        at = np.array([eta])
        parameter, slope, cumulant = family.natural(at)
        moved = slope_of(lambda e: family.natural(np.array([e]))[0], eta)
        assert slope == pytest.approx(moved, rel=1e-6)
        response = responses(family)
        found = family.terms(response, np.full_like(response, eta))
        mean = family.inverse_link(at)
        pull = slope * (response - mean)
        np.testing.assert_allclose(found.pull, pull, rtol=1e-10, atol=1e-12)
        peak = family.peak(response) if "peak" in family.constants else 0.0
        likelihood = parameter * response - cumulant
        np.testing.assert_allclose(
            found.deviance, 2.0 * (peak - likelihood), rtol=1e-10, atol=1e-12
        )


@fine_family
def test_scores_move_no_faster_than_windows_say(family):
    """By their largest slope, or by a factor of exp of the way for what drifts."""
    response = responses(family)[:, None, None]
    start = np.linspace(-6.0, 4.0, 101)[:, None]
    if isinstance(family, GammaInverseLink):
        assert family.drift is None
        return
    step = np.array([-2.0, -0.3, -1e-3, 1e-3, 0.4, 3.0])

    def moving(eta):
        if family.slope:
            return np.broadcast_to(
                family.inverse_link(eta), np.broadcast_shapes(response.shape, eta.shape)
            )
        given, etas = (one.copy() for one in np.broadcast_arrays(response, eta))
        found = family.terms(given.ravel(), etas.ravel()).pull
        return -found.reshape(etas.shape)

    before = moving(np.broadcast_to(start, (101, 6)))
    change = np.abs(moving(start + step) - before)
    slack = 1e-12 * np.abs(before) + 1e-14
    if family.drift is None:
        assert (change <= family.largest_slope * np.abs(step) + slack).all()
        steep = np.max(change / np.abs(step))
        assert steep > 0.8 * family.largest_slope
        return
    sign, more = family.drift
    drifting = more + sign * before
    assert (drifting >= -slack).all()
    assert (change <= np.expm1(np.abs(step)) * drifting + slack).all()
    # The twin: a tenth less does not hold.
    assert (change > 0.9 * np.expm1(np.abs(step)) * drifting).any()


@fine_family
def test_no_row_has_more_expected_information_than_the_limits_say(family):
    agreed = RowRanges(0.0, 9.0, 0.1, 1.0, 0.0)
    limits = family.limits(agreed)
    most = min(limits.expected, limits.root * limits.root)
    eta = np.linspace(max(limits.low, -30.0), min(limits.high, 30.0), 100_001)
    found = family.expected(eta).max()
    assert 0.99 * most <= found <= most * (1.0 + 1e-12)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_a_tilted_probit_step_is_right_for_normal_columns(share):
    """With a slope b and columns of variance 1 the share is Phi(a / sqrt(1 + b^2))."""
    slope = 0.8
    middle = stats.norm.ppf(share)
    start = middle * np.sqrt(1.0 + slope**2)
    # Newton's step from the null model has cov(x, y) / phi, by Stein's lemma.
    step = slope / np.sqrt(1.0 + slope**2)
    factor, shift = Probit().tilt(share, step**2)
    assert factor * step == pytest.approx(slope, rel=1e-12)
    assert middle + shift == pytest.approx(start, rel=1e-9, abs=1e-12)


@every_family
def test_a_start_is_near_the_response(family):
    """Information and working response as at a mean near each response."""
    response = responses(family)
    near = response + 0.1 if isinstance(family, Poisson) else response
    if isinstance(family, Binomial):
        near = (response + 0.5) / 2.0
    eta = family.link(near)
    slope = slope_of(family.inverse_link, eta)
    information, target = family.first(response)
    np.testing.assert_allclose(information, family.expected(eta), rtol=1e-12)
    np.testing.assert_allclose(target, eta + (response - near) / slope, rtol=1e-5)


def log_law(family, response):
    """The log of the density or probability, by scipy, with variance phi / w."""
    match family:
        case GaussianFamily():
            found = stats.norm.logpdf(response, MEANS, np.sqrt(PHI / WEIGHTS))
        case Binomial():
            found = WEIGHTS * stats.bernoulli.logpmf(response, MEANS)
        case NegativeBinomial():
            size = 1.0 / family.alpha
            chance = size / (size + MEANS)
            found = WEIGHTS * stats.nbinom.logpmf(response, size, chance)
        case Poisson():
            found = WEIGHTS * stats.poisson.logpmf(response, MEANS)
        case InverseGaussian():
            shape = WEIGHTS / PHI
            found = stats.invgauss.logpdf(response, MEANS / shape, scale=shape)
        case _:
            shape = WEIGHTS / PHI
            found = stats.gamma.logpdf(response, shape, scale=MEANS / shape)
    return found.sum()


@every_family
def test_the_log_likelihood_is_that_of_the_law(family):
    response = responses(family)
    deviance = WEIGHTS @ family.terms(response, eta_of(family)).deviance
    phi = PHI if family.estimates_dispersion else 1.0
    saturated = family.saturated(response, WEIGHTS, phi).sum()
    found = family.log_likelihood(LikelihoodSums(deviance, saturated, 4.0, phi))
    if isinstance(family, QuasiBinomial | QuasiPoisson):
        assert np.isnan(found)  # a mean and a variance are no law
        return
    if isinstance(family, GaussianFamily):
        # Least squares reports it at the dispersion that makes it greatest.
        found += 2.0 * (np.log(deviance / 4.0) + 1.0 - np.log(PHI)) - deviance / PHI / 2
    assert found == pytest.approx(log_law(family, response), rel=1e-12)


def test_a_gamma_of_great_shape_keeps_its_digits():
    """Both sides of the change to Stirling's series continue each other."""
    near = Gamma().saturated(np.ones(2), np.array([1.0 - 1e-9, 1.0 + 1e-9]), 0.01)
    assert near[0] == pytest.approx(near[1], rel=1e-9)
    narrow = Gamma().saturated(np.ones(1), np.ones(1), 1e-20)
    assert narrow.item() == pytest.approx(np.log(1e20 / (2 * np.pi)) / 2, rel=1e-14)


RANGES = RowRanges(low=0.01, high=1000.0, unit=0.01, weight=3.0, offset=2.0)


@pytest.mark.parametrize(
    "family",
    [*FAMILIES, *map(NegativeBinomial, (1e-9, 1e-6, 1e-3, 30.0))],
    ids=lambda f: f"{f.name} {getattr(f, 'alpha', '')}",
)
def test_no_row_inside_exceeds_the_limits(family):
    """At the edges of eta, and of the responses, and of the weights."""
    limits = family.limits(RANGES)
    # Bits are counted with room for what rounding adds.
    most = {key: value * (1.0 + 1e-12) for key, value in asdict(limits).items()}
    response = np.array([0.01, 1.0, 1000.0])
    if isinstance(family, Binomial):
        response = np.array([0.0, 1.0])
    elif isinstance(family, Poisson):
        response = np.array([0.0, 1.0, 7.0, 1000.0])
    middle = np.linspace(max(limits.low, -800.0), min(limits.high, 800.0), 41)
    for eta in (limits.low, limits.high, *middle):
        found = family.terms(response, np.full(len(response), eta))
        for part in (found.pull, found.curvature, found.deviance, found.pearson):
            assert np.isfinite(part).all()
        assert np.abs(found.pull).max() <= most["pull"]
        assert np.sqrt(found.curvature).max() <= most["root"]
        assert np.sqrt(family.expected(np.array([eta]))) <= most["root"]
        assert found.deviance.min() >= 0.0
        assert found.deviance.max() <= most["deviance"]
        assert found.pearson.max() <= most["pearson"]
    information, target = family.first(response)
    assert np.sqrt(information).max() <= most["root"]
    far = np.abs(target) + RANGES.offset
    assert (information * far).max() <= most["pull"]
    for phi in (1e-290, 1e-3, 1.0, 1e9):
        weights = np.full(len(response), 3.0)
        saturated = family.saturated(response, weights, phi)
        assert np.abs(saturated).max() <= most["saturated"]


@every_family
def test_a_row_at_a_mean_within_the_agreed_range_need_not_be_asked_for_again(family):
    """Its eta is inside by the margin: at every tenth of the way from end to end."""
    limits = family.limits(RANGES)
    means = np.linspace(RANGES.low, RANGES.high, 11)
    if isinstance(family, Binomial):
        means = np.linspace(0.01, 0.99, 11)
    eta = family.link(means)
    assert (eta >= limits.low + limits.margin).all()
    assert (eta <= limits.high - limits.margin).all()


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_tilted_step_is_fisher_s_linear_discriminant(share):
    """Of one column about its mean, 0, in two groups that are `apart` apart."""
    apart, within = 1.2, 0.8
    variance = within + share * (1.0 - share) * apart**2
    step = apart / variance  # Newton's, from the null model
    factor, shift = Binomial().tilt(share, step**2 * variance)
    assert factor * step == pytest.approx(apart / within)
    high, low = (1.0 - share) * apart, -share * apart
    assert shift == pytest.approx((low**2 - high**2) / (2.0 * within))


def test_limits_need_a_response_that_the_law_can_yield():
    with refused("response-range-not-positive", mentions=("0",)):
        Gamma().limits(replace(RANGES, low=-3.0, high=0.0))


# Digits where float64 is easily lost, against arb.


def exact_deviances(family, response, eta):
    ctx.prec = 4000
    found = []
    for y, e in zip(response.tolist(), eta.tolist(), strict=True):
        y, e = arb(y), arb(e)
        mu = e.exp()
        match family:
            case Binomial():
                found.append(2 * (1 + (e if y == 0 else -e).exp()).log())
            case NegativeBinomial():
                n = 1 / arb(family.alpha)
                ratio = ((1 + y / n) / (1 + mu / n)).log()
                started = y * (y / mu).log() if y > 0 else arb(0)
                found.append(2 * (started - (y + n) * ratio))
            case Poisson():
                started = y * (y / mu).log() if y > 0 else arb(0)
                found.append(2 * (started - y + mu))
            case _:
                found.append(2 * (y / mu - 1 - (y / mu).log()))
    return np.array([float(one) for one in found])


@each("eta", [-1000.0, -65.0, -63.0, -9.0, -1e-3, 0.0, 2.0, 9.0])
def test_a_probit_keeps_its_digits_in_the_tails(eta):
    ctx.prec = 4000
    below = (-arb(eta) / arb(2).sqrt()).erfc() / 2
    ratio = (-(arb(eta) ** 2) / 2).exp() / (2 * arb.pi()).sqrt() / below
    found = Probit().terms(np.ones(1), np.array([eta]))
    assert found.pull.item() == pytest.approx(float(ratio), rel=1e-14)
    bent = float(ratio * (ratio + arb(eta)))
    assert found.curvature.item() == pytest.approx(bent, rel=1e-11)
    assert found.deviance.item() == pytest.approx(float(-2 * below.log()), rel=1e-14)


@pytest.mark.parametrize("eta", [-900.0, -30.0, -1.0, 0.0, 2.0, 6.0, 6.4, 9.0, 13.8])
def test_a_hazard_keeps_its_digits(eta):
    ctx.prec = 4000
    hazard = arb(eta).exp()
    found = Cloglog().terms(np.array([0.0, 1.0]), np.full(2, eta))
    losses = [float(2 * hazard), float(-2 * (-(-hazard).expm1()).log())]
    # One ulp of the hazard is as much of exp(-hazard) as the hazard is large.
    close = 1e-14 * max(1.0, float(hazard))
    np.testing.assert_allclose(found.deviance, losses, rtol=close, atol=1e-200)
    pulls = [float(-hazard), float(hazard / hazard.expm1())]
    np.testing.assert_allclose(found.pull, pulls, rtol=close, atol=1e-200)


def test_beyond_the_largest_hazard_the_loss_goes_on_to_rise():
    eta = np.array([13.0, 14.0, 20.0, 800.0, 2.0**20])
    without = Cloglog().terms(np.zeros(5), eta)
    assert (np.diff(without.deviance) > 0.0).all()
    slopes = np.diff(without.deviance[1:]) / np.diff(eta[1:])
    np.testing.assert_allclose(slopes, -2.0 * without.pull[1:-1], rtol=1e-12)
    assert (without.curvature >= 0.0).all()
    having = Cloglog().terms(np.ones(5), eta)
    for name in ("pull", "curvature", "deviance", "pearson"):
        assert np.abs(getattr(having, name)).max() < 1e-200


def test_a_misclassified_row_keeps_its_loss():
    eta = np.array([35.0, -35.0, 800.0, -1e5, 40.0, -700.0])
    response = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    found = Binomial().terms(response, eta)
    expected = exact_deviances(Binomial(), response, eta)
    np.testing.assert_allclose(found.deviance, expected, rtol=1e-15)
    np.testing.assert_allclose(found.pull[:4], [-1.0, 1.0, -1.0, 1.0], rtol=1e-15)
    assert found.pearson.max() == CEILING


@pytest.mark.parametrize("alpha", [1e-300, 1e-12, 1e-6, 0.3, 40.0])
def test_a_negative_binomial_of_any_alpha_keeps_its_digits(alpha):
    family = NegativeBinomial(alpha)
    response = np.array([0.0, 1.0, 3.0, 20.0, 1e4, 1e6, 1e6])
    eta = np.log(np.array([0.5, 1.0 + 1e-9, 1e-30, 21.0, 1.1e4, 1e6 + 1.0, 3e5]))
    found = family.terms(response, eta).deviance
    expected = exact_deviances(family, response, eta)
    # Of a law so wide that y tells little, all but 1 / (1 + alpha y) cancels.
    error = np.abs(found - expected) / (1e-13 + expected)
    assert (error <= 1e-9 + 1e-15 * alpha * response).all()
    saturated = family.saturated(response, np.ones(7), 1.0)
    n, expected = 1 / arb(alpha), []
    ctx.prec = 4000
    for y in map(int, response.tolist()):
        ways = arb(y) + n
        rise = ways.lgamma() - n.lgamma() - arb(y + 1).lgamma()
        chance = y * (y / ways).log() if y else arb(0)
        expected.append(float(rise + chance - n * (1 + y / n).log()))
    np.testing.assert_allclose(saturated, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("family", [Poisson(), Gamma()], ids=["poisson", "gamma"])
def test_a_mean_next_to_the_response_keeps_its_loss(family):
    response = np.array([1.0, 7.0, 1e6, 1e9, 3.0])
    eta = np.log(response) + np.array([1e-3, 1e-6, -1e-7, 1e-5, -20.0])
    found = family.terms(response, eta).deviance
    expected = exact_deviances(family, response, eta)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_tiny_givenkeep_their_digits():
    response = np.array([1e-200, 3e-200])
    eta = np.log(response) + np.array([0.5, -0.5])
    found = Gamma().terms(response, eta)
    np.testing.assert_allclose(
        found.deviance, exact_deviances(Gamma(), response, eta), rtol=1e-12
    )
    assert np.isfinite(Gamma().saturated(response, np.ones(2), 0.1)).all()


@pytest.mark.parametrize(
    ("family", "bad", "message"),
    [
        (Binomial(), 0.5, "must be 0 or 1 in every row; write k of m successes"),
        (Binomial(), np.nan, "must be 0 or 1"),
        (Poisson(), -1.0, "a poisson regression must be a count"),
        (Poisson(), 1.5, "give the exposure's log as offset"),
        (NegativeBinomial(1.0), 0.5, "a negative-binomial regression must be a count"),
        (Gamma(), 0.0, "a gamma regression must be above 0"),
        (InverseGaussian(), 0.0, "an inverse-gaussian regression must be above 0"),
        (Probit(), 0.5, "a probit regression must be 0 or 1"),
        (QuasiBinomial(), 1.5, "a share from 0 to 1"),
        (QuasiPoisson(), -1.0, "must not be below 0"),
    ],
)
def test_a_response_the_law_never_yields_is_refused(family, bad, message):
    family.check(np.array([1.0, 1.0]))
    with pytest.raises(InvalidInputError, match=message):
        family.check(np.array([1.0, bad]))


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.inf, np.nan])
def test_a_negative_binomial_needs_a_positive_alpha(alpha):
    with refused("alpha-not-positive", mentions=("0",)):
        NegativeBinomial(alpha)
