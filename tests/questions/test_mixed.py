"""Mixed models from a variance of 0 to nearly perfect fits: few sums, the right answer.

The reference is lme4's criterion in float64, which shares nothing with the code,
searched by scipy.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import veilsum as vs
from cases import each
from veilsum.models.mixed import (
    MIXED_BITS,
    ROOT_BITS,
    THETA_BITS,
    MixedModelRequest,
    mixed_model_float,
)
from veilsum.questions.mixed import MixedJob
from veilsum.tables.frames import as_frame

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SIZES = [20 + k for k in range(25)]
UNLIKE = [int(10 * 1.2**k) for k in range(25)]


def drawn(sds, seed=0, correlation=0.0, sizes=SIZES):
    """Parties whose intercepts and slopes scatter so much, beside residuals of 1."""
    chance = np.random.default_rng(seed)
    found = {}
    for k, n in enumerate(sizes):
        x = chance.normal(0.3 * chance.normal(), 1.0, n).clip(-5, 5).round(3)
        first, second = chance.normal(size=2)
        second = correlation * first + (1.0 - correlation**2) ** 0.5 * second
        y = 1.0 + 0.5 * x + sds[0] * first + sds[1] * second * x
        y += chance.normal(size=n)
        found[f"p{k}"] = pd.DataFrame({"x": x, "y": y.round(3)})
    return found


def stacked(tables):
    """Each party's products of 1, x and y."""
    rows = [np.column_stack([np.ones(len(t)), t["x"], t["y"]]) for t in tables.values()]
    return np.array([one.T @ one for one in rows]), sum(map(len, rows))


def criterion(products, n, q, theta, reml):
    """-2 (restricted) log-likelihood of all rows, as lme4's paper has it."""
    lower = np.zeros((q, q))
    lower.T[np.triu_indices(q)] = theta
    inner = np.eye(q) + lower.T @ products[:, :q, :q] @ lower
    turned = lower.T @ products[:, :q, :]
    left = products - turned.swapaxes(1, 2) @ np.linalg.solve(inner, turned)
    total = left.sum(axis=0)
    fixed, right = total[:2, :2], total[:2, 2]
    degrees = n - 2 if reml else n
    residual = total[2, 2] - right @ np.linalg.solve(fixed, right)
    found = np.linalg.slogdet(inner)[1].sum()
    found += degrees * (1.0 + np.log(2.0 * np.pi * residual / degrees))
    return found + (np.linalg.slogdet(fixed)[1] if reml else 0.0)


def check(fit, tables, reml=True):
    """Compare the criterion with the reference, and with the least that scipy finds."""
    (products, n), q = stacked(tables), len(fit.random)
    theta = theta_of(fit)
    there = criterion(products, n, q, theta, reml)
    np.testing.assert_allclose(fit.criterion, there, atol=1e-5)
    found = minimize(
        lambda at: criterion(products, n, q, at, reml),
        theta * 1.01 + 1e-3,
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 400},
    )
    assert there <= found.fun + 1e-6


def theta_of(fit):
    """lme4's theta of an answer; a singular one is lifted by nothing that counts."""
    relative = fit.random_covariance / fit.residual_variance
    lifted = relative + 1e-14 * (1.0 + relative.max()) * np.eye(len(relative))
    return np.linalg.cholesky(lifted).T[np.triu_indices(len(relative))]


RATIOS = [0.0, 0.1, 1.0, 10.0, 100.0]
MODELS = [
    (ratio, random, method)
    for ratio in RATIOS
    for random in (("1",), ("1", "x"))
    for method in ("reml", "ml")
]


@each(("ratio", "random", "method"), MODELS)
def test_models_converge_under_the_usual_rules_whatever_the_ratio(
    ratio, random, method
):
    slope = ratio / 2.0 if len(random) == 2 else 0.0
    tables = drawn((ratio, slope), seed=MODELS.index((ratio, random, method)))
    result = vs.mixed(
        "y ~ x", tables, random=random, method=method, driver="vectorised"
    )
    assert result.fit.rounds <= 8
    check(result.fit, tables, method == "reml")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("random", [("1",), ("1", "x")])
def test_parties_of_very_different_sizes_take_few_sums_more(random, seed):
    """From 10 to 794 rows, and correlations of 0 and 1."""
    for ratio in RATIOS:
        for correlation in (0.0, 1.0):
            slope = ratio / 2.0 if len(random) == 2 else 0.0
            tables = drawn((ratio, slope), seed, correlation, UNLIKE)
            fit = answer(tables, random)
            assert fit.rounds <= 14
            check(fit, tables)


def job_of(tables, random, method="reml"):
    most = 1.01 * max(np.abs(one["y"]).max() for one in tables.values())
    most = float(np.ceil(most))
    columns = (
        vs.Column("x", "number", -5, 5, unit=0.001),
        vs.Column("y", "number", -most, most, unit=0.001),
    )
    schema = vs.Schema(columns, minimum_rows=5)
    return MixedJob.of(schema, formula="y ~ x", random=random, method=method)


def own_of(job, tables):
    return {
        party: job.bring(job.schema.check(party, as_frame(part)))
        for party, part in tables.items()
    }


def answer(tables, random, method="reml"):
    """A search without anything between parties."""
    job = job_of(tables, random, method)
    recipe, sums = job.together(own_of(job, tables))
    return recipe.fit(sums)


# The boundary


def dealt(sds, correlation=0.0):
    """Parties whose own least-squares lines scatter exactly so much, and all alike."""
    chance = np.random.default_rng(5)
    x = np.linspace(-2.0, 2.0, 30).round(3)
    rest = chance.normal(size=30)
    rest -= np.polyval(np.polyfit(x, rest, 1), x)
    own = chance.normal(size=(18, 2))
    own -= own.mean(axis=0)
    own = np.linalg.qr(own)[0] * 18**0.5
    second = correlation * own[:, 0] + (1.0 - correlation**2) ** 0.5 * own[:, 1]
    return {
        f"p{k}": pd.DataFrame(
            {"x": x, "y": (1.0 + sds[0] * one + sds[1] * two * x + rest).round(3)}
        )
        for k, (one, two) in enumerate(zip(own[:, 0], second, strict=True))
    }


@each(
    ("sds", "correlation", "said"),
    [
        ((0.0, 0.0), 0.0, "the variances of Intercept, x between parties are 0"),
        ((1.0, 0.0), 0.0, "the variance of x between parties is 0. Leave x out"),
        ((0.0, 1.0), 0.0, "the variance of Intercept between parties is 0"),
        ((2.0, 1.0), 1.0, "the correlation of Intercept, x is 1,"),
        ((2.0, 1.0), -1.0, "the correlation of Intercept, x is -1,"),
        ((50.0, 25.0), 1.0, "the correlation of Intercept, x is 1,"),
    ],
)
def test_the_boundary_is_reached_in_few_sums_and_named(sds, correlation, said):
    tables = dealt(sds, correlation)
    fit = answer(tables, ("1", "x"))
    assert fit.singular
    assert said in fit.boundary
    assert fit.rounds <= 7
    check(fit, tables)


def test_an_answer_inside_is_not_called_singular():
    assert not answer(dealt((2.0, 1.0), 0.9), ("1", "x")).singular


def test_a_search_without_room_says_how_far_it_is():
    """Not that a variance may be 0, which need not be so."""
    rules = vs.Rules(most_rounds=3)
    with pytest.raises(vs.InvalidInputError) as told:
        vs.mixed("y ~ x", drawn((10.0, 0.0)), rules=rules, driver="vectorised")
    assert "not converged in 3 sums" in str(told.value)
    assert "the last step was" in str(told.value)
    assert "may be 0" not in str(told.value)


# Derivatives


@pytest.mark.parametrize("method", ["reml", "ml"])
def test_derivatives_are_those_of_the_criterion(method):
    """Central differences at the finest unit, in the metric that was asked for."""
    tables = drawn((1.0, 0.5), sizes=SIZES[:6])
    job = job_of(tables, ("1", "x"), method)
    own = own_of(job, tables).values()
    lower = np.array([[1.3, 0.0], [0.4, 0.8]])
    root = np.array([[1.1, 0.0], [0.2, 0.9]])
    places = [(0, 0), (1, 0), (1, 1)]

    def whole(matrix, bits):
        return tuple(round(float(matrix[place]) * 2.0**bits) for place in places)

    def profile(inner, weights=()):
        theta = np.linalg.cholesky(root @ inner @ root.T)
        at = MixedModelRequest(
            whole(theta, THETA_BITS), MIXED_BITS, whole(root, ROOT_BITS), weights
        )
        total = sum(job.answer(one, at) for one in own)
        return job.model.profile(at, total[:-1])

    back = np.linalg.inv(root)
    middle = back @ lower @ lower.T @ back.T
    here = profile(middle)
    weights = tuple(
        round(mixed_model_float(here.weights[a, b]) * 2**40)
        for a in range(3)
        for b in range(a + 1)
    )
    second, size = profile(middle, weights).second, 1e-4
    for k, (i, j) in enumerate(places):
        step = np.zeros((2, 2))
        step[i, j] = step[j, i] = size
        up, down = profile(middle + step), profile(middle - step)
        slope = (up.criterion - down.criterion) / (2.0 * size)
        np.testing.assert_allclose(here.gradient[k], slope, rtol=1e-6, atol=1e-6)
        bent = np.subtract(up.gradient, down.gradient) / (2.0 * size)
        np.testing.assert_allclose(second[k], bent, rtol=1e-5, atol=1e-5)
