"""Elastic nets, components and instruments from released moments, on real data."""

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from cases import each
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError

datasets = Later("sklearn.datasets")
decomposition = Later("sklearn.decomposition")
linear_model = Later("sklearn.linear_model")
sm = Later("statsmodels.api")
gmm = Later("statsmodels.sandbox.regression.gmm")


def described(frame, **options):
    parts = {f"site {k}": frame[k::4] for k in range(4)}
    rules = vs.Rules.none()
    return vs.statistics(parts, rules=rules, driver="vectorised", **options)


@pytest.fixture(scope="module")
def diabetes():
    frame = datasets.load_diabetes(as_frame=True, scaled=False).frame.sort_index(axis=1)
    return frame, described(frame)


@pytest.fixture(scope="module")
def wine():
    frame = datasets.load_wine(as_frame=True).frame.sort_index(axis=1)
    return frame, described(frame)


@pytest.mark.parametrize("data", ["diabetes", "wine"])
@pytest.mark.parametrize(("l1_ratio", "alpha"), [(1.0, 0.5), (0.5, 0.1), (0.9, 2.0)])
def test_an_elastic_net_is_that_of_the_rows(data, l1_ratio, alpha, request):
    frame, found = request.getfixturevalue(data)
    path = vs.elastic_net(found, "target", l1_ratio=l1_ratio, alphas=[alpha])
    theirs = linear_model.ElasticNet(
        alpha=alpha, l1_ratio=l1_ratio, tol=1e-14, max_iter=10**6
    )
    design, target = frame.drop(columns="target"), frame["target"]
    theirs.fit(design - design.mean(), target)
    np.testing.assert_allclose(path.coefficients[0], theirs.coef_, atol=1e-8)
    level = theirs.intercept_ - theirs.coef_ @ design.mean()
    assert path.at(alpha)["Intercept"] == pytest.approx(level, abs=1e-7)
    score = theirs.score(design - design.mean(), target)
    assert path.r_squared[0] == pytest.approx(score, abs=1e-9)


def test_a_path_begins_where_no_column_is_left(diabetes):
    frame, found = diabetes
    path = vs.elastic_net(found, "target", standardise=True, n_alphas=20)
    design = frame.drop(columns="target")
    scaled = (design - design.mean()) / design.std()
    target = frame["target"] - frame["target"].mean()
    alphas, wanted, _ = linear_model.lasso_path(
        scaled, target, alphas=20, tol=1e-13, max_iter=10**6
    )
    np.testing.assert_allclose(path.alphas, alphas, rtol=1e-9)
    found_scaled = path.coefficients * design.std().to_numpy()
    np.testing.assert_allclose(found_scaled, wanted.T, atol=1e-6)
    assert not path.coefficients[0].any()
    assert path.coefficients[-1].all()
    assert list(path.to_frame().columns[:2]) == ["alpha", "Intercept"]


@pytest.mark.parametrize("data", ["diabetes", "wine"])
def test_components_are_those_of_the_rows(data, request):
    frame, found = request.getfixturevalue(data)
    scaled = (frame - frame.mean()) / frame.std()
    theirs = decomposition.PCA().fit(scaled)
    mine = vs.principal_components(found)
    np.testing.assert_allclose(mine.variances, theirs.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(mine.shares, theirs.explained_variance_ratio_, rtol=1e-9)
    same = np.abs((mine.loadings * theirs.components_).sum(axis=1))
    np.testing.assert_allclose(same, 1.0, rtol=1e-9)
    plain = vs.principal_components(found, list(frame.columns[:3]), correlation=False)
    wanted = decomposition.PCA().fit(frame[frame.columns[:3]]).explained_variance_
    np.testing.assert_allclose(plain.variances, wanted, rtol=1e-9)


def macro():
    data = sm.datasets.macrodata.load_pandas().data.iloc[1:].reset_index(drop=True)
    lagged = sm.datasets.macrodata.load_pandas().data.shift(1).iloc[1:]
    frame = data[["realcons", "realdpi", "m1"]] / 1000.0
    more = pd.DataFrame({"before": lagged["realdpi"], "invested": lagged["realinv"]})
    frame[["before", "invested"]] = more.reset_index(drop=True) / 1000.0
    on, instruments = ["realdpi", "m1"], ["before", "invested", "m1"]
    return frame.round(6), "realcons", on, instruments


def engine():
    data = sm.datasets.grunfeld.load_pandas().data.drop(columns="firm")
    frame = data[["invest", "value", "capital", "year"]] / 100.0
    return frame.round(6), "invest", ["value", "capital"], ["capital", "year"]


@pytest.mark.parametrize("case", [macro, engine])
def test_two_stages_are_those_of_the_rows(case):
    frame, response, on, instruments = case()
    found = vs.two_stage(described(frame), response, on=on, instruments=instruments)
    design, given = (sm.add_constant(frame[names]) for names in (on, instruments))
    wanted = gmm.IV2SLS(frame[response], design, given).fit()
    np.testing.assert_allclose(found.coefficients, wanted.params, rtol=1e-8)
    np.testing.assert_allclose(found.standard_errors, wanted.bse, rtol=1e-8)
    np.testing.assert_allclose(found.p_values, wanted.pvalues, rtol=1e-6, atol=1e-12)
    assert "two stages" in str(found)


@each(
    ("options", "said"),
    [
        ({"alphas": [-1]}, r"alphas must be .* 0 or more, .* found \[-1\]"),
        ({"alphas": [1.0, -0.5]}, "alphas must be .* 0 or more"),
        ({"alphas": []}, "alphas must be a list"),
        ({"alphas": 0.5}, "alphas must be a list"),
        ({"alphas": [float("nan")]}, "alphas must be finite"),
        ({"l1_ratio": -1}, "l1_ratio must be from 0"),
        ({"l1_ratio": 2.0}, "l1_ratio must be from 0"),
        ({"l1_ratio": float("nan")}, "l1_ratio must be from 0"),
        ({"n_alphas": 0}, "n_alphas must be at least 1"),
        ({"n_alphas": 2.5}, "n_alphas must be a whole number"),
        ({"on": []}, "no column is named"),
        ({"on": ["bmi", "bmi"]}, "name each column once"),
    ],
)
def test_a_penalty_that_is_none_is_refused(diabetes, options, said):
    with pytest.raises(InvalidInputError, match=said):
        vs.elastic_net(diabetes[1], "target", **options)


def test_no_penalty_is_least_squares(diabetes):
    frame, found = diabetes
    path = vs.elastic_net(found, "target", on=["bmi", "bp"], alphas=[0.0])
    theirs = sm.OLS(frame["target"], sm.add_constant(frame[["bmi", "bp"]])).fit()
    np.testing.assert_allclose([*path.at(0.0).values()], theirs.params, rtol=1e-9)


def test_what_cannot_be_had_is_said(diabetes):
    _, found = diabetes
    with refused("column-not-released", mentions=("weight",)):
        vs.elastic_net(found, "target", on=["weight"])
    with refused("response-explains-itself"):
        vs.elastic_net(found, "target", on=["bmi", "target"])
    with refused("too-few-instruments"):
        vs.two_stage(found, "target", on=["bmi", "bp"], instruments=["s1"])
    with refused("response-explains-itself"):
        vs.two_stage(found, "target", on=["bmi"], instruments=["target"])
    for nothing in (
        lambda: vs.two_stage(found, "target", on=[], instruments=[]),
        lambda: vs.principal_components(found, []),
    ):
        with refused("no-columns"):
            nothing()
    with refused("dependent-instruments"):
        vs.two_stage(found, "target", on=["bmi"], instruments=["s1", "s1"])
    path = vs.elastic_net(found, "target", alphas=[1.0])
    with refused("unknown-alpha", mentions=("3",)):
        path.at(3.0)
    flat = described(pd.DataFrame({"x": np.ones(40), "y": np.arange(40.0)}))
    with refused("constant-column"):
        vs.principal_components(flat)
