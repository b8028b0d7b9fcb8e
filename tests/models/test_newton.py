"""Generalised linear models by rounds of sums, against statsmodels."""

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from strategies import few, seeds
from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models.families import (
    Binomial,
    Gamma,
    GammaInverseLink,
    Gaussian,
    NegativeBinomial,
    Poisson,
)
from veilsum.models.glm import (
    ClosingStatistics,
    FirstStatistics,
    RoundStatistics,
    round_statistics,
    statistics,
)
from veilsum.models.newton import Newton
from veilsum.models.rows import Rows

CLOSE = {"rtol": 1e-8, "atol": 0.0}
FAMILIES = sm.families
REFERENCES = {
    "gaussian": (Gaussian(), FAMILIES.Gaussian()),
    "logistic": (Binomial(), FAMILIES.Binomial()),
    "poisson": (Poisson(), FAMILIES.Poisson()),
    "negative binomial": (NegativeBinomial(0.5), FAMILIES.NegativeBinomial(alpha=0.5)),
    "gamma": (Gamma(), FAMILIES.Gamma(FAMILIES.links.Log())),
    "inverse": (GammaInverseLink(), FAMILIES.Gamma(FAMILIES.links.InversePower())),
}
NAMES = ["const", "age", "dose", "smoker"]


def design_of(rng, n):
    columns = [50.0 + 10.0 * rng.standard_normal(n), 1e-3 * rng.random(n)]
    return np.column_stack([np.ones(n), *columns, rng.random(n) < 0.3])


def response_of(name, rng, eta):
    mu = np.exp(eta)
    match name:
        case "gaussian":
            return eta + rng.standard_normal(len(eta))
        case "logistic":
            return (rng.random(len(eta)) < 1 / (1 + 1 / mu)).astype(float)
        case "poisson":
            return rng.poisson(mu).astype(float)
        case "negative binomial":
            return rng.poisson(mu * rng.gamma(2.0, 0.5, len(eta))).astype(float)
        case "gamma":
            return rng.gamma(2.0, mu / 2.0)
        case _:
            return rng.gamma(5.0, 1.0 / (5.0 * (2.0 + 0.5 * eta)))


def data(name, seed=0, n=300):
    rng = np.random.default_rng(seed)
    design = design_of(rng, n)
    eta = design @ [-1.0, 0.03, -700.0, 0.6]
    extras = {"weights": rng.uniform(0.5, 3.0, n), "offset": 0.3 * rng.random(n)}
    return design, response_of(name, rng, eta), extras


def parties_of(design, response, owners=None, **extras):
    owners = np.arange(len(response)) % 3 if owners is None else owners
    for party in range(max(owners) + 1):
        own = owners == party
        mine = {key: values[own] for key, values in extras.items()}
        yield Rows.of(design[own], response[own], **mine)


def fitted(newton, parties):
    parties, state = list(parties), newton.start()
    while not state.converged:
        request = newton.propose(state)
        total = sum(statistics(newton.family, rows, request) for rows in parties)
        state = newton.advance(state, total)
    return newton.fit(state)


def reference_of(family, design, response, *, weights=None, offset=None):
    with warnings.catch_warnings():
        # It warns that the inverse link allows means below zero; none occur here.
        warnings.simplefilter("ignore", sm.tools.sm_exceptions.DomainWarning)
        model = sm.GLM(
            response, design, family=family, var_weights=weights, offset=offset
        )
        student = isinstance(family, FAMILIES.Gamma | FAMILIES.Gaussian)
        found = model.fit(tol=1e-14, maxiter=500, tol_criterion="params", use_t=student)
        return found, found.null_deviance


def assert_same(found, reference, null_deviance):
    pairs = [
        (found.coefficients, reference.params),
        (found.standard_errors, reference.bse),
        (found.statistics, reference.tvalues),
        (found.p_values, reference.pvalues),
        (found.confidence_intervals(0.9), reference.conf_int(0.1)),
        (found.deviance, reference.deviance),
        (found.null_deviance, null_deviance),
        (found.pearson, reference.pearson_chi2),
        (found.dispersion, reference.scale),
        (found.log_likelihood, reference.llf),
        (found.aic, reference.aic),
        (found.residual_degrees, reference.df_resid),
    ]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, **CLOSE)


@pytest.mark.parametrize("extra", ["plain", "weights", "offset", "both"])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_fit_is_that_of_the_pooled_rows(name, extra):
    design, response, extras = data(name)
    chosen = {key: extras[key] for key in extras if extra in (key, "both")}
    mine, theirs = REFERENCES[name]
    newton = Newton(mine, 4, intercept=0)
    found = fitted(newton, parties_of(design, response, **chosen))
    assert_same(found, *reference_of(theirs, design, response, **chosen))
    assert found.rounds <= 9


def test_poisson_on_randhie_is_that_of_statsmodels():
    loaded = sm.datasets.randhie.load_pandas()
    design = sm.add_constant(loaded.exog.to_numpy(float))
    response = loaded.endog.to_numpy(float)
    newton = Newton(Poisson(), design.shape[1], intercept=0)
    found = fitted(newton, parties_of(design, response))
    assert_same(found, *reference_of(FAMILIES.Poisson(), design, response))


def test_logistic_on_fair_is_that_of_statsmodels():
    loaded = sm.datasets.fair.load_pandas()
    design = sm.add_constant(loaded.exog.to_numpy(float))
    response = (loaded.endog.to_numpy(float) > 0).astype(float)
    newton = Newton(Binomial(), design.shape[1], intercept=0)
    found = fitted(newton, parties_of(design, response))
    assert_same(found, *reference_of(FAMILIES.Binomial(), design, response))


def test_a_model_without_an_intercept_is_that_of_statsmodels():
    design, response, _ = data("logistic")
    design = design[:, 1:]
    found = fitted(Newton(Binomial(), 3), parties_of(design, response))
    assert_same(found, *reference_of(FAMILIES.Binomial(), design, response))


def test_offsets_of_very_different_sizes_have_a_null_deviance():
    """Exposures from one day to a lifetime; the null intercept is known in closed form.

    For Poisson it is log(sum y / sum exposure).
    """
    rng = np.random.default_rng(3)
    exposure = np.exp(2.5 * rng.standard_normal(200))
    response = rng.poisson(0.5 * exposure).astype(float)
    design = np.column_stack([np.ones(200), rng.standard_normal(200)])
    parties = parties_of(design, response, offset=np.log(exposure))
    found = fitted(Newton(Poisson(), 2, intercept=0), parties)
    mu = exposure * response.sum() / exposure.sum()
    expected = Poisson().unit_deviance(response, mu).sum()
    assert found.null_deviance == pytest.approx(expected, rel=1e-10)


@few
@given(
    st.sampled_from(["logistic", "poisson", "gamma"]),
    st.lists(st.integers(0, 4), min_size=80, max_size=80),
    seeds,
)
def test_it_does_not_matter_who_holds_which_row(name, owners, seed):
    design, response, extras = data(name, n=80)
    order = np.random.default_rng(seed).permutation(80)
    newton = Newton(REFERENCES[name][0], 4, intercept=0)
    split = fitted(newton, parties_of(design, response, np.array(owners), **extras))
    mixed = {key: values[order] for key, values in extras.items()}
    pooled = fitted(newton, [Rows.of(design[order], response[order], **mixed)])
    np.testing.assert_allclose(split.coefficients, pooled.coefficients, **CLOSE)
    np.testing.assert_allclose(split.covariance, pooled.covariance, **CLOSE)
    assert split.log_likelihood == pytest.approx(pooled.log_likelihood, rel=1e-10)


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_a_ridge_fit_has_no_slope_left(name):
    """At the least deviance + ridge |b|^2: score = ridge b, but for the intercept."""
    design, response, _ = data(name)
    design = design / [1.0, 50.0, 1e-3, 1.0]
    newton = Newton(REFERENCES[name][0], 4, intercept=0, ridge=3.0)
    found = fitted(newton, parties_of(design, response))
    point = np.append(found.coefficients, 0.0)
    total = round_statistics(newton.family, Rows.of(design, response), point)
    score = RoundStatistics.unpack(total, 4).score
    expected = 3.0 * found.coefficients * [0.0, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(score, expected, atol=1e-9)


def test_ridge_of_the_gaussian_is_that_of_least_squares():
    from veilsum.models import least_squares

    design, response, extras = data("gaussian")
    design = design / [1.0, 50.0, 1e-3, 1.0]
    rows = Rows.of(design, response, weights=extras["weights"])
    found = fitted(Newton(Gaussian(), 4, intercept=0, ridge=2.0), [rows])
    expected = least_squares.fit(
        least_squares.statistics(rows), 4, intercept=0, ridge=2.0
    )
    np.testing.assert_allclose(found.coefficients, expected.coefficients, **CLOSE)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, **CLOSE)
    assert found.model_degrees == pytest.approx(expected.model_degrees, rel=1e-10)


def test_a_rare_event_is_no_separation():
    """One success among 20,000 rows of a group: its log odds ratio in closed form."""
    group = np.arange(40_000) < 20_000
    response = np.where(group, 0.0, np.arange(40_000) % 3 == 0)
    response[0] = 1.0
    design = np.column_stack([np.ones(40_000), group])
    found = fitted(Newton(Binomial(), 2, intercept=0), parties_of(design, response))
    odds = response[~group].mean() / (1.0 - response[~group].mean())
    assert found.coefficients[1] == pytest.approx(-np.log(19_999 * odds), rel=1e-9)


def test_a_wild_start_is_halved_back():
    """One count of 1e6 at the end of a column with a heavy tail; score 0 at the end."""
    rng = np.random.default_rng(1)
    design = np.column_stack([np.ones(40), rng.standard_cauchy(40)])
    response = rng.poisson(1.0, 40).astype(float)
    response[np.argmax(design[:, 1])] = 1e6
    found = fitted(Newton(Poisson(), 2, intercept=0), parties_of(design, response))
    total = round_statistics(
        Poisson(), Rows.of(design, response), np.append(found.coefficients, 0.0)
    )
    score = RoundStatistics.unpack(total, 2).score
    np.testing.assert_allclose(score / found.standard_errors**-2, 0.0, atol=1e-9)


@pytest.mark.parametrize("name", ["gaussian", "gamma"])
def test_a_perfect_fit_is_found(name):
    x = np.linspace(0.0, 1.0, 30)
    design = np.column_stack([np.ones(30), x])
    eta = design @ [1.0, 2.0]
    response = eta if name == "gaussian" else np.exp(eta)
    newton = Newton(REFERENCES[name][0], 2, intercept=0)
    found = fitted(newton, parties_of(design, response))
    np.testing.assert_allclose(found.coefficients, [1.0, 2.0], rtol=1e-12)
    assert found.dispersion < 1e-25


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_totals_on_a_grid_still_converge(name):
    """Sums rounded to 2^-24, as a sum of integers would give them."""
    design, response, _ = data(name)
    newton = Newton(REFERENCES[name][0], 4, intercept=0)
    rows, state = Rows.of(design, response), newton.start()
    while not state.converged:
        total = statistics(newton.family, rows, newton.propose(state))
        state = newton.advance(state, np.round(total * 2.0**24) / 2.0**24)
    exact = fitted(newton, [rows])
    error = (
        newton.fit(state).coefficients - exact.coefficients
    ) / exact.standard_errors
    assert np.abs(error).max() < 1e-4
    assert state.rounds <= exact.rounds + 4


# No fit.


def refused(family, design, response, **options):
    newton = Newton(family, design.shape[1], names=NAMES, intercept=0, **options)
    with pytest.raises((InvalidInputError, NumericalError)) as caught:
        fitted(newton, parties_of(design, response))
    return str(caught.value)


def test_complete_separation_names_the_column():
    design, _, _ = data("logistic")
    message = refused(Binomial(), design, (design[:, 1] > 52.0).astype(float))
    assert message.startswith("the coefficient of age grows without end (separation")


def test_a_category_with_one_outcome_only_is_named():
    design, response, _ = data("logistic")
    design[:, 3] = np.arange(300) < 4
    response[:4] = 1.0
    assert "coefficient of smoker grows" in refused(Binomial(), design, response)


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(1.0)])
def test_a_category_without_any_count_is_named(family):
    design, response, _ = data("poisson")
    response[design[:, 3] == 1.0] = 0.0
    message = refused(family, design, response)
    assert "smoker grows without end (for some of its values every count" in message


def test_a_ridge_makes_up_for_separation():
    design, _, _ = data("logistic")
    response = (design[:, 1] > 52.0).astype(float)
    newton = Newton(Binomial(), 4, intercept=0, ridge=1.0)
    found = fitted(newton, parties_of(design, response))
    assert 0.0 < found.coefficients[1] < 10.0


def test_dependent_columns_are_named():
    design, response, _ = data("logistic")
    design[:, 3] = design[:, 0] + 2.0 * design[:, 1]
    message = refused(Binomial(), design, response)
    assert "const, age, smoker are linearly dependent" in message


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_outcome_only_is_refused(value):
    design, _, _ = data("logistic")
    message = refused(Binomial(), design, np.full(300, value))
    assert f"the response is {value:.0f} in every row" in message


def test_counts_that_are_all_zero_are_refused():
    design, _, _ = data("poisson")
    assert "is 0 in every row" in refused(Poisson(), design, np.zeros(300))


def test_too_few_rows_are_refused():
    design, response, _ = data("poisson", n=4)
    assert "need more rows" in refused(Poisson(), design, response)


def test_a_fit_that_runs_out_of_rounds_says_what_still_moves():
    design, response, _ = data("poisson")
    message = refused(Poisson(), design, response, max_rounds=3)
    assert "did not converge in 3 rounds: the coefficient of" in message


def test_a_link_that_the_data_cannot_have_is_given_up():
    """With eta = 1 / mu and no intercept, x of both signs leaves no mean above 0."""
    x = np.linspace(-1.0, 1.0, 20)
    newton = Newton(GammaInverseLink(), 1)
    with pytest.raises(NumericalError, match="rows have no fitted mean that"):
        fitted(newton, [Rows.of(x[:, None], np.ones(20))])


def test_a_total_that_is_not_finite_is_refused():
    newton = Newton(Poisson(), 2)
    with pytest.raises(NumericalError, match="the sum went wrong"):
        newton.advance(newton.start(), np.full(10, np.nan))


@pytest.mark.parametrize(
    ("kind", "size"), [(FirstStatistics, 10), (RoundStatistics, 11)]
)
def test_a_total_of_another_size_is_refused(kind, size):
    assert kind.size(2) == size
    with pytest.raises(InvalidInputError, match=f"2 columns have {size} statistics"):
        kind.unpack(np.zeros(size + 1), 2)


def test_the_closing_total_has_a_triangle_and_a_number():
    closing = ClosingStatistics.unpack(np.array([1.0, 0.0, 2.0, 5.0]), 2)
    assert np.diag(closing.information).tolist() == [1.0, 2.0]
    assert closing.saturated == 5.0


def test_a_point_of_another_size_is_refused():
    rows = Rows.of(np.ones((3, 2)), np.ones(3))
    with pytest.raises(InvalidInputError, match="2 coefficients and one number more"):
        round_statistics(Poisson(), rows, np.zeros(2))


def test_a_fit_before_its_rounds_are_over_is_refused():
    newton = Newton(Poisson(), 2)
    with pytest.raises(LocalProtocolError, match="before its rounds were over"):
        newton.fit(newton.start())


def test_rounds_after_the_last_are_refused():
    design, response, _ = data("poisson")
    newton, state = Newton(Poisson(), 4, intercept=0), None
    rows = Rows.of(design, response)
    state = newton.start()
    while not state.converged:
        total = statistics(newton.family, rows, newton.propose(state))
        state = newton.advance(state, total)
    with pytest.raises(LocalProtocolError, match="no round is left"):
        newton.propose(state)
    with pytest.raises(LocalProtocolError, match="takes no more totals"):
        newton.advance(state, total)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rounds": 1}, "at least 2 rounds"),
        ({"ridge": -1.0}, "ridge must not be negative"),
        ({"intercept": -1}, "one of the columns 0 to 1"),
        ({"names": ["a"]}, "2 columns need as many different names"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Newton(Poisson(), 2, **options)
