"""Generalised linear models by rounds of sums, against statsmodels."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, strategies as st

import refusals
from later import Later
from strategies import few, seeds
from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models.families import (
    Binomial,
    Cloglog,
    Gamma,
    GammaInverseLink,
    GaussianFamily,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
    Probit,
)
from veilsum.models.fineness import MOST_BITS, Fineness
from veilsum.models.glm import GlmRequest, glm_statistics
from veilsum.models.newton import Newton
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.numbers.units import UnitMeasure

sm = Later("statsmodels.api")

CLOSE = {"rtol": 1e-8, "atol": 0.0}
FAMILIES = Later("statsmodels.genmod.families")
LINKS = Later("statsmodels.genmod.families.links")
REFERENCES = {
    "gaussian": (GaussianFamily(), lambda: FAMILIES.Gaussian()),
    "logistic": (Binomial(), lambda: FAMILIES.Binomial()),
    "poisson": (Poisson(), lambda: FAMILIES.Poisson()),
    "negative binomial": (
        NegativeBinomial(0.5),
        lambda: FAMILIES.NegativeBinomial(alpha=0.5),
    ),
    "gamma": (Gamma(), lambda: FAMILIES.Gamma(LINKS.Log())),
    "probit": (Probit(), lambda: FAMILIES.Binomial(LINKS.Probit())),
    "cloglog": (Cloglog(), lambda: FAMILIES.Binomial(LINKS.CLogLog())),
    "inverse": (GammaInverseLink(), lambda: FAMILIES.Gamma(LINKS.InversePower())),
    "inverse gaussian": (InverseGaussian(), lambda: FAMILIES.InverseGaussian()),
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
        case "logistic" | "probit" | "cloglog":
            return (rng.random(len(eta)) < 1 / (1 + 1 / mu)).astype(float)
        case "poisson":
            return rng.poisson(mu).astype(float)
        case "negative binomial":
            return rng.poisson(mu * rng.gamma(2.0, 0.5, len(eta))).astype(float)
        case "gamma":
            return rng.gamma(2.0, mu / 2.0)
        case "inverse gaussian":
            return rng.wald(1.0 / np.sqrt(2.0 + 0.5 * eta), 3.0)
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


def newton_for(family, parties, intercept=0, **options):
    """Return Newton's method with measures that fit the rows of all parties."""
    rows = {str(place): part for place, part in enumerate(parties)}
    measures = options.pop("measures", None) or RowMeasures.inferred(
        rows, intercept, positive=family.positive
    )
    return Newton(family, measures, intercept=intercept, **options)


def run(newton, parties):
    """Return the last state, and every total on the way to it."""
    state, totals = newton.start(), []
    while not state.converged:
        request = newton.propose(state)
        answers = [glm_statistics(newton.scales, rows, request) for rows in parties]
        totals.append(sum(answers))
        state = newton.advance(state, totals[-1])
    return state, totals


def fitted(family, parties, **options):
    parties = list(parties)
    newton = newton_for(family, parties, **options)
    return newton.fit(run(newton, parties)[0])


def score_at(newton, rows, coefficients):
    """Return the score at real coefficients."""
    whole = coefficients * [float(one.unit) for one in newton.scales.measures.design]
    if newton.intercept is not None:
        centres = [float(one.centre) for one in newton.scales.measures.design]
        whole[newton.intercept] += whole @ centres
    point = np.append(whole, whole[newton.intercept or 0])
    scales = newton.scales
    if not scales.responses_once:
        request = GlmRequest("round", point)
        score = scales.round(glm_statistics(scales, rows, request)).score
    else:
        first = scales.first(
            glm_statistics(scales, rows, newton.propose(newton.start()))
        )
        finest = [min(scales.pull, MOST_BITS - bits) for bits in scales.mean_bits]
        fineness = Fineness((), tuple(finest))
        request = GlmRequest("means", point, fineness)
        means = scales.means(glm_statistics(scales, rows, request), fineness).means
        pairs = zip(first.cross, means, strict=True)
        slope = Fraction(scales.family.slope)
        score = [slope * (one - mean) for one, mean in pairs]
    design, shift = newton.scales.measures.design, score[newton.intercept or 0]
    return np.array(
        [
            float(of.unit * (one + of.centre * shift))
            for one, of in zip(score, design, strict=True)
        ]
    )


def reference_of(family, design, response, *, weights=None, offset=None):
    with warnings.catch_warnings():
        # It warns that the inverse link allows means below zero; none occur here.
        warnings.simplefilter("ignore", sm.tools.sm_exceptions.DomainWarning)
        model = sm.GLM(
            response, design, family=family, var_weights=weights, offset=offset
        )
        laws = FAMILIES.Gamma | FAMILIES.Gaussian | FAMILIES.InverseGaussian
        student = isinstance(family, laws)
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
        (found.dispersion, reference.scale),
        (found.log_likelihood, reference.llf),
        (found.aic, reference.aic),
        (found.residual_degrees, reference.df_resid),
    ]
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, **CLOSE)
    # It is not summed of responses 0 and 1, and coarse where it is only printed.
    if not np.isnan(found.pearson):
        coarse = 2.0**-11 * reference.model.freq_weights.sum() + 1e-9
        away = abs(found.pearson - reference.pearson_chi2)
        assert away <= max(coarse, CLOSE["rtol"] * reference.pearson_chi2)


@pytest.mark.parametrize("extra", ["plain", "weights", "offset", "both"])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_fit_is_that_of_the_pooled_rows(name, extra):
    design, response, extras = data(name)
    chosen = {key: extras[key] for key in extras if extra in (key, "both")}
    mine, theirs = REFERENCES[name]
    found = fitted(mine, parties_of(design, response, **chosen))
    assert_same(found, *reference_of(theirs(), design, response, **chosen))
    assert found.rounds <= 9


def test_poisson_on_randhie_is_that_of_statsmodels():
    loaded = sm.datasets.randhie.load_pandas()
    design = sm.add_constant(loaded.exog.to_numpy(float))
    response = loaded.endog.to_numpy(float)
    found = fitted(Poisson(), parties_of(design, response))
    assert_same(found, *reference_of(FAMILIES.Poisson(), design, response))


def test_logistic_on_fair_is_that_of_statsmodels():
    loaded = sm.datasets.fair.load_pandas()
    design = sm.add_constant(loaded.exog.to_numpy(float))
    response = (loaded.endog.to_numpy(float) > 0).astype(float)
    found = fitted(Binomial(), parties_of(design, response))
    assert_same(found, *reference_of(FAMILIES.Binomial(), design, response))


def test_a_model_without_an_intercept_is_that_of_statsmodels():
    design, response, _ = data("logistic")
    design = design[:, 1:]
    found = fitted(Binomial(), parties_of(design, response), intercept=None)
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
    found = fitted(Poisson(), parties)
    mu = exposure * response.sum() / exposure.sum()
    expected = Poisson().terms(response, np.log(mu)).deviance.sum()
    assert found.null_deviance == pytest.approx(expected, rel=1e-10)


@pytest.mark.usefixtures("unchecked_shapes")
@few
@given(
    st.sampled_from(list(REFERENCES)),
    st.lists(st.integers(0, 4), min_size=80, max_size=80),
    seeds,
)
def test_it_does_not_matter_who_holds_which_row(name, owners, seed):
    """Every total is the same to the last bit, and so is all that follows."""
    design, response, extras = data(name, n=80)
    order = np.random.default_rng(seed).permutation(80)
    split = list(parties_of(design, response, np.array(owners), **extras))
    newton = newton_for(REFERENCES[name][0], split)
    state, totals = run(newton, split)
    mixed = {key: values[order] for key, values in extras.items()}
    pooled, others = run(newton, [Rows.of(design[order], response[order], **mixed)])
    assert len(totals) == len(others)
    for mine, theirs in zip(totals, others, strict=True):
        assert mine.tolist() == theirs.tolist()
    found, expected = newton.fit(state), newton.fit(pooled)
    assert found.coefficients.tolist() == expected.coefficients.tolist()
    assert found.covariance.tolist() == expected.covariance.tolist()
    assert found.log_likelihood == expected.log_likelihood


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_a_ridge_fit_has_no_slope_left(name):
    """At the least deviance + ridge |b|^2: score = ridge b, but for the intercept."""
    design, response, _ = data(name)
    design = design / [1.0, 50.0, 1e-3, 1.0]
    parties = list(parties_of(design, response))
    newton = newton_for(REFERENCES[name][0], parties, ridge=3.0)
    found = newton.fit(run(newton, parties)[0])
    score = score_at(newton, Rows.of(design, response), found.coefficients)
    expected = 3.0 * found.coefficients * [0.0, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(score, expected, atol=1e-9)


def test_ridge_of_the_gaussian_is_that_of_least_squares():
    from veilsum.models import least_squares

    design, response, extras = data("gaussian")
    design = design / [1.0, 50.0, 1e-3, 1.0]
    rows = Rows.of(design, response, weights=extras["weights"])
    newton = newton_for(GaussianFamily(), [rows], ridge=2.0)
    found, measures = newton.fit(run(newton, [rows])[0]), newton.measures
    total = least_squares.statistics(rows, measures)
    expected = least_squares.fit(total, measures, intercept=0, ridge=2.0)
    np.testing.assert_allclose(found.coefficients, expected.coefficients, **CLOSE)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, **CLOSE)
    assert found.model_degrees == pytest.approx(expected.model_degrees, rel=1e-10)


def test_a_rare_event_is_no_separation():
    """One success among 20,000 rows of a group: its log odds ratio in closed form."""
    group = np.arange(40_000) < 20_000
    response = np.where(group, 0.0, np.arange(40_000) % 3 == 0)
    response[0] = 1.0
    design = np.column_stack([np.ones(40_000), group])
    found = fitted(Binomial(), parties_of(design, response))
    odds = response[~group].mean() / (1.0 - response[~group].mean())
    assert found.coefficients[1] == pytest.approx(-np.log(19_999 * odds), rel=1e-9)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_count_of_a_million_far_out_is_fitted(seed):
    """At the end of a heavy tail; held against Newton's steps in balls."""
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(40), rng.standard_cauchy(40).round(6)])
    response = rng.poisson(1.0, 40).astype(float)
    response[np.argmax(design[:, 1])] = 1e6
    found = fitted(Poisson(), parties_of(design, response))
    with ctx.workprec(300):
        x = [arb(fmpq(round(one * 10**6), 10**6)) for one in design[:, 1].tolist()]
        rows = list(zip(x, map(arb, response.tolist()), strict=True))
        a, b = map(arb, found.coefficients.tolist())
        for _ in range(6):
            means = [(a + b * one).exp() for one in x]
            score = [
                sum((y - m for (_, y), m in zip(rows, means, strict=True)), arb(0))
            ]
            score += [
                sum(
                    (one * (y - m) for (one, y), m in zip(rows, means, strict=True)),
                    arb(0),
                )
            ]
            i, j, k = (
                sum((m * one**power for one, m in zip(x, means, strict=True)), arb(0))
                for power in range(3)
            )
            bottom = i * k - j * j
            a += ((k * score[0] - j * score[1]) / bottom).mid()
            b += ((i * score[1] - j * score[0]) / bottom).mid()
            a, b = a.mid(), b.mid()
    exact = [float(a), float(b)]
    np.testing.assert_allclose(found.coefficients, exact, rtol=1e-11)


@pytest.mark.parametrize("name", ["gaussian", "gamma"])
def test_a_perfect_fit_is_found(name):
    x = np.linspace(0.0, 1.0, 30)
    design = np.column_stack([np.ones(30), x])
    eta = design @ [1.0, 2.0]
    response = eta if name == "gaussian" else np.exp(eta)
    fine = [UnitMeasure.of(0, 1), UnitMeasure.of(0, 1, bits=50)]
    measures = RowMeasures.of(fine, UnitMeasure.of(0, 32, bits=50), intercept=0)
    parties = parties_of(design, response)
    found = fitted(REFERENCES[name][0], parties, measures=measures)
    np.testing.assert_allclose(found.coefficients, [1.0, 2.0], rtol=1e-12)
    assert found.dispersion < 1e-25


# No fit.


def refused(family, design, response, **options):
    with pytest.raises((InvalidInputError, NumericalError)) as caught:
        fitted(family, parties_of(design, response), names=NAMES, **options)
    return str(caught.value)


def test_complete_separation_names_the_column():
    design, _, _ = data("logistic")
    message = refused(Binomial(), design, (design[:, 1] > 52.0).astype(float))
    assert message.startswith("the coefficient of age seems to grow without end (sepa")


def test_a_category_with_one_outcome_only_is_named():
    design, response, _ = data("logistic")
    design[:, 3] = np.arange(300) < 4
    response[:4] = 1.0
    assert "coefficient of smoker grows" in refused(Binomial(), design, response)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_a_category_with_one_outcome_only_is_named_after_the_first_sum(outcome):
    """The twin: with one row of the other outcome the search goes on."""
    rng = np.random.default_rng(0)
    ill, age = rng.integers(0, 2, 200), rng.integers(20, 90, 200)
    response = rng.integers(0, 2, 200) * 1.0
    response[ill == 1] = outcome
    zero_or_one = UnitMeasure.of(0, 1, Fraction(1))
    design = (ONES, zero_or_one, UnitMeasure.of(0, 100, Fraction(1)))
    measures = RowMeasures.of(design, zero_or_one, intercept=0)
    newton = Newton(Binomial(), measures, names=("one", "ill", "age"), intercept=0)
    first = newton.propose(newton.start())
    columns = np.column_stack([np.ones(200), ill, age])
    total = glm_statistics(newton.scales, Rows.of(columns, response), first)
    with refusals.refused("endless-coefficient"):
        newton.advance(newton.start(), total)
    response[np.argmax(ill)] = 1.0 - outcome
    total = glm_statistics(newton.scales, Rows.of(columns, response), first)
    assert not newton.advance(newton.start(), total).converged


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(1.0)])
def test_a_category_without_any_count_is_named(family):
    design, response, _ = data("poisson")
    response[design[:, 3] == 1.0] = 0.0
    message = refused(family, design, response)
    assert "smoker grows without end (for some of its values every count" in message


def test_a_ridge_makes_up_for_separation():
    design, _, _ = data("logistic")
    response = (design[:, 1] > 52.0).astype(float)
    found = fitted(Binomial(), parties_of(design, response), ridge=1.0)
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
    rows = Rows.of(x[:, None], np.ones(20))
    with refusals.refused("not-converged", NumericalError):
        fitted(GammaInverseLink(), [rows], intercept=None)


SMALL = Rows.of(np.column_stack([np.ones(3), np.arange(3.0)]), np.ones(3))


def test_a_total_without_any_weight_is_refused():
    newton = newton_for(Poisson(), [SMALL])
    with refusals.refused("impossible-total", NumericalError):
        newton.advance(newton.start(), np.zeros(newton.scales.size, dtype=object))


def test_a_total_of_another_size_is_refused():
    newton = newton_for(Poisson(), [SMALL])
    assert newton.scales.size == len(newton.scales.counts.units) == 9
    with refusals.refused("layout-size-differs", mentions=("9",)):
        newton.advance(newton.start(), np.zeros(12, dtype=object))


def test_a_point_of_another_size_is_refused():
    newton = newton_for(Poisson(), [SMALL])
    with refusals.refused("wrong-shape", mentions=("2",)):
        glm_statistics(newton.scales, SMALL, GlmRequest("round", np.zeros(2)))


def test_a_fit_before_its_rounds_are_over_is_refused():
    newton = newton_for(Poisson(), [SMALL])
    with refusals.refused("fit-not-done", LocalProtocolError):
        newton.fit(newton.start())


def test_rounds_after_the_last_are_refused():
    design, response, _ = data("poisson")
    parties = [Rows.of(design, response)]
    newton = newton_for(Poisson(), parties)
    state, totals = run(newton, parties)
    with refusals.refused("fit-already-done", LocalProtocolError):
        newton.propose(state)
    with refusals.refused("fit-already-done", LocalProtocolError):
        newton.advance(state, totals[-1])


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
        newton_for(Poisson(), [SMALL], **{"intercept": 0, **options})


def test_a_perfect_fit_of_ones_has_next_to_no_dispersion():
    """And whoever has a huge weight can answer the closing request, too."""
    measures = RowMeasures.of(
        [ONES],
        UnitMeasure(Fraction(1, 2), 1, 8),
        intercept=0,
        weights=UnitMeasure(Fraction(1), 1, 8 * 10**18),
    )
    newton = Newton(Gamma(), measures, names=("const",), intercept=0)
    weights = np.ones(40)
    weights[3] = 4e18
    rows = Rows.of(np.ones((40, 1)), np.ones(40), weights=weights)
    state = newton.start()
    while not state.converged:
        request = newton.propose(state)
        total = glm_statistics(newton.scales, rows, request)
        half = 1 << (newton.scales.counts.bits - 1)
        assert all(-half <= one < half for one in total.tolist())
        state = newton.advance(state, total)
    assert newton.fit(state).coefficients.tolist() == [0.0]
