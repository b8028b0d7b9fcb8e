"""Counts whose scatter is estimated, against MASS::glm.nb and statsmodels.

Reference values are those of references/models.R; the tables lie beside it.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import digamma, polygamma
from scipy.stats import nbinom

from cases import each
from later import Later
from refusals import refused
from veilsum.models.dispersion import dispersion_scatter_terms
from veilsum.models.rows import Rows
from veilsum.questions.regression import fit
from veilsum.tables.rules import Rules

sm = Later("statsmodels.api")

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "models.json").read_text())
NAME = "negative-binomial"
MODELS = {
    "quine": ("quine", "days ~ C(eth) + C(sex) + C(age) + C(lrn)"),
    "quine less": ("quine", "days ~ C(eth) + C(age)"),
    "warp": ("warp", "breaks ~ C(wool) + C(tension)"),
}


def quick(formula, frame, parties=4, **more):
    data = {f"p{k}": frame.iloc[k::parties] for k in range(parties)}
    how = {"rules": Rules.none(), "driver": "vectorised", "seed": 1, "family": NAME}
    return fit(formula, data, minimum_rows=1, **{**how, **more})


@cache
def fitted(name):
    source, formula = MODELS[name]
    return quick(formula, pd.read_csv(FOLDER / f"models_{source}.csv"))


@each("name", MODELS)
def test_it_is_glm_nb_of_mass(name):
    found = fitted(name)
    np.testing.assert_allclose(found.params, R[f"{name} coefficients"], rtol=1e-9)
    np.testing.assert_allclose(found.bse, R[f"{name} errors"], rtol=1e-9)
    theta = [found.fit.theta, found.fit.theta_error]
    np.testing.assert_allclose(theta, R[f"{name} theta"], rtol=1e-9)
    ends = [found.llf, found.aic, found.fit.deviance, found.fit.null_deviance]
    np.testing.assert_allclose(ends, R[f"{name} fit"], rtol=1e-8)
    assert len(found.released.sums) <= 12
    assert "theta = 1 / alpha" in found.summary()


def test_nested_fits_are_compared_by_their_likelihoods():
    test = fitted("quine").compare_lr(fitted("quine less"))
    found = [test.statistic, test.p_value]
    np.testing.assert_allclose(found, R["quine lr"], rtol=1e-8)


def test_it_is_statsmodels_with_exposures():
    frame = sm.datasets.fair.load_pandas().data.sample(600, random_state=1)
    frame = frame.assign(count=np.floor(4 * frame.affairs), log_years=0.0)
    frame["log_years"] = np.log(frame.yrs_married)
    columns = ["count", "rate_marriage", "age", "log_years"]
    found = quick("count ~ rate_marriage + age", frame[columns], offset="log_years")
    design = sm.add_constant(frame[["rate_marriage", "age"]])
    theirs = sm.NegativeBinomial(frame["count"], design, offset=frame.log_years).fit(
        # From its own start it meets an alpha of 1e-118.
        start_params=[0.5, -0.5, 0.0, 2.0],
        method="newton",
        disp=0,
        tol=1e-12,
    )
    np.testing.assert_allclose(found.params, theirs.params[:-1], rtol=1e-6)
    assert 1.0 / found.fit.theta == pytest.approx(theirs.params["alpha"], rel=1e-6)
    assert found.llf >= theirs.llf - 1e-8


# What a row contributes


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 5000),
    st.floats(-4.0, 8.0),
    st.floats(np.log(1e-3), np.log(1e4)),
)
def test_a_row_s_terms_are_derivatives(count, eta, log_theta):
    theta, mu = np.exp(log_theta), np.exp(eta)
    found = dispersion_scatter_terms(np.array([float(count)]), np.array([eta]), theta)
    one = digamma(theta + count) - digamma(theta)
    two = polygamma(1, theta + count) - polygamma(1, theta)
    slope = one - np.log1p(mu / theta) + (mu - count) / (theta + mu)
    bend = two + mu / (theta * (theta + mu)) + (count - mu) / (theta + mu) ** 2
    size = 1e-12 * (1.0 + count + mu) * max(1.0, theta)
    assert found.slope[0] == pytest.approx(theta * slope, abs=size)
    expected = -(theta**2 * bend + theta * slope)
    assert found.curvature[0] == pytest.approx(expected, abs=size * max(1.0, theta))
    cross = -theta * (count - mu) * mu / (theta + mu) ** 2
    assert found.cross[0] == pytest.approx(cross, rel=1e-12, abs=1e-12)
    most = 3.0 * max(count, mu) + 1e-6
    assert max(abs(found.slope[0]), abs(found.curvature[0]), abs(cross)) <= most


def test_the_slope_is_that_of_scipy_s_law():
    counts, eta = np.array([0.0, 3.0, 40.0]), np.array([0.3, 1.0, 3.0])
    mu = np.exp(eta)

    def likelihood(log_theta):
        theta = np.exp(log_theta)
        return nbinom.logpmf(counts, theta, theta / (theta + mu))

    found = dispersion_scatter_terms(counts, eta, np.exp(0.7))
    h = 1e-4
    ends = likelihood(0.7 + h), likelihood(0.7), likelihood(0.7 - h)
    np.testing.assert_allclose(found.slope, (ends[0] - ends[2]) / (2 * h), rtol=1e-6)
    bend = (ends[0] - 2 * ends[1] + ends[2]) / h**2
    np.testing.assert_allclose(found.curvature, -bend, rtol=1e-4)


@each("seed", [1, 2, 3])
def test_dealing_rows_anew_changes_no_bit(seed):
    result = fitted("warp")
    recipe, sums = result.inner
    frame = pd.read_csv(FOLDER / "models_warp.csv")
    job = result.job
    free = replace(job.schema, minimum_rows=1, maximum_rows=None)
    rows = job.rows(replace(free.check("all", frame), schema=job.schema))
    owners = np.random.default_rng(seed).integers(0, 4, len(frame))
    for k, total in enumerate(sums):
        request = recipe.request(sums[:k])
        parts = [
            result.model.strategy.vector(
                Rows(rows.design[own], rows.response[own]), 0, request
            )
            for own in (owners == one for one in range(4))
        ]
        assert np.sum(parts, axis=0).tolist() == total.tolist()


# What cannot be estimated


def test_counts_that_scatter_no_more_than_poisson_s_are_said_to():
    x = np.arange(60) % 3
    frame = pd.DataFrame({"y": 4 + 2 * x + np.arange(60) % 2, "x": x})
    with refused("alpha-at-zero"):
        quick("y ~ x", frame)


def test_what_goes_without_an_estimate_is_said():
    frame = pd.read_csv(FOLDER / "models_warp.csv")
    with refused("alpha-with-ridge"):
        quick("breaks ~ C(wool)", frame, ridge=1.0)
    with refused("robust-with-alpha"):
        quick("breaks ~ C(wool)", frame, errors="HC0")


def test_every_number_that_is_shown_has_a_name():
    found = fitted("warp")
    middle = found.releases[2]
    # Rows outside are asked for alone, and objections are no numbers about rows.
    assert middle.numbers == found.recipe.size - 2
    assert "slope and curvature in log theta" in middle.words
    assert len(middle.point) == 4 + 2  # coefficients, the null model's, and theta
