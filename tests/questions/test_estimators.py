"""Estimators against scikit-learn's own, and against scikit-learn's checks."""

import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
    parametrize_with_checks,
)

from cases import each
from finest import finest
from refusals import refused
from veilsum import Topology
from veilsum.errors import InvalidInputError
from veilsum.questions.regression import fit_arrays
from veilsum.questions.regression.estimators import (
    PrivateGammaRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    _deal_estimator_rows,
)
from veilsum.tables.rules import Rules

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

ALL = (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
)
QUICK = {"driver": "vectorised"}
TIGHT = {"tol": 1e-10, "max_iter": 10_000}
LISTED = Path(__file__).with_name("expected_failed_checks.toml")
EXPECTED_FAILED_CHECKS = tomllib.loads(LISTED.read_text("utf-8"))
NAMES = np.array(["north", "south", "east", "west", "centre"])


def private(kind, **parameters):
    return kind(**QUICK, **parameters)


def rows_for(kind, *, n_rows=200, seed=3):
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(n_rows, 3)) * [1.0, 0.5, 2.0] + [0.0, 1.0, -0.5]
    eta = 0.3 + design @ [0.8, -0.5, 0.25]
    response = {
        PrivateLinearRegression: lambda: eta + rng.normal(size=n_rows),
        PrivateLogisticRegression: lambda: rng.random(n_rows) < 1 / (1 + np.exp(-eta)),
        PrivatePoissonRegressor: lambda: rng.poisson(np.exp(eta)).astype(float),
        PrivateGammaRegressor: lambda: rng.gamma(2.0, np.exp(eta) / 2.0),
    }[kind]()
    return design, response, NAMES[rng.integers(0, len(NAMES), n_rows)]


def weights_for(design):
    return np.random.default_rng(8).integers(0, 4, len(design)).astype(float)


def assert_same_fit(found, expected, rtol):
    assert np.shape(found.coef_) == np.shape(expected.coef_)
    assert np.shape(found.intercept_) == np.shape(expected.intercept_)
    assert_allclose(found.coef_, expected.coef_, rtol=rtol)
    assert_allclose(found.intercept_, expected.intercept_, rtol=rtol)


# --- scikit-learn's checks


def checks_of(*kinds):
    return parametrize_with_checks(
        [private(kind, n_parties=2) for kind in kinds],
        expected_failed_checks=lambda one: EXPECTED_FAILED_CHECKS.get(
            type(one).__name__, {}
        ),
    )


@checks_of(PrivateLinearRegression, PrivateLogisticRegression)
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # what they have of their own is a family's name
@checks_of(PrivatePoissonRegressor, PrivateGammaRegressor)
def test_scikit_learn_s_checks_of_other_families(estimator, check):
    check(estimator)


@each("kind", ALL)
def test_the_list_of_expected_failures_names_checks_that_exist(kind):
    checks = estimator_checks_generator(private(kind))
    known = {check.func.__name__ for _, check in checks}
    assert EXPECTED_FAILED_CHECKS.get(kind.__name__, {}).keys() <= known


@each("kind", [kind for kind in ALL if kind.__name__ in EXPECTED_FAILED_CHECKS])
def test_with_a_ridge_the_check_expected_to_fail_passes(kind):
    check_sample_weight_equivalence_on_dense_data(
        kind.__name__, private(kind, ridge=1.0, n_parties=2)
    )


# --- the same numbers as scikit-learn


def reference(kind, *, ridge, total, fit_intercept=True):
    """Return scikit-learn's estimator; `total` is the sum of weights."""
    intercept = {"fit_intercept": fit_intercept}
    newton = {**TIGHT, **intercept, "solver": "newton-cholesky"}
    if kind is PrivateLogisticRegression:
        return LogisticRegression(C=np.inf if ridge == 0 else 1 / ridge, **newton)
    if kind is PrivateLinearRegression:
        return (
            Ridge(alpha=ridge, **intercept) if ridge else LinearRegression(**intercept)
        )
    sklearn_s = {
        PrivatePoissonRegressor: PoissonRegressor,
        PrivateGammaRegressor: GammaRegressor,
    }[kind]
    return sklearn_s(alpha=ridge / total, **newton)


# Any two of the options in all four ways, over four fits of each kind.
OPTIONS = [(0.0, 0, 1), (2.5, 1, 1), (0.0, 1, 0), (2.5, 0, 0)]


@each(("ridge", "weighted", "fit_intercept"), OPTIONS)
@each("kind", ALL)
def test_coefficients_are_those_of_scikit_learn(kind, ridge, weighted, fit_intercept):
    design, response, _ = rows_for(kind)
    weights = weights_for(design) if weighted else None
    total = len(design) if weights is None else weights.sum()
    intercept = {"fit_intercept": bool(fit_intercept)}
    expected = reference(kind, ridge=ridge, total=total, **intercept)
    expected.fit(design, response, sample_weight=weights)
    found = private(kind, ridge=ridge, **intercept)
    found.fit(design, response, sample_weight=weights)
    assert_same_fit(found, expected, rtol=1e-6)


@each("kind", ALL)
def test_predictions_and_scores_are_those_of_scikit_learn(kind):
    design, response, _ = rows_for(kind)
    weights = weights_for(design)
    found = private(kind, ridge=1.0).fit(design, response)
    expected = reference(kind, ridge=1.0, total=len(design)).fit(design, response)
    new = np.random.default_rng(5).normal(size=(50, 3))
    for method in ("predict", "predict_proba", "predict_log_proba"):
        if hasattr(expected, method):
            ours, theirs = getattr(found, method)(new), getattr(expected, method)(new)
            assert_allclose(ours, theirs, rtol=1e-6)
    for by_row in (None, weights):
        ours = found.score(design, response, sample_weight=by_row)
        theirs = expected.score(design, response, sample_weight=by_row)
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_the_default_logistic_regression_is_scikit_learn_s():
    design, response, _ = rows_for(PrivateLogisticRegression)
    found = private(PrivateLogisticRegression).fit(design, response)
    expected = LogisticRegression(solver="newton-cholesky", tol=1e-10)
    assert_same_fit(found, expected.fit(design, response), rtol=1e-6)


def test_rates_with_exposures_are_poisson_responses():
    design, counts, _ = rows_for(PrivatePoissonRegressor)
    years = np.random.default_rng(2).uniform(0.2, 3.0, len(counts))
    found = private(PrivatePoissonRegressor)
    found.fit(design, counts / years, sample_weight=years)
    expected = PoissonRegressor(alpha=0, solver="newton-cholesky", **TIGHT)
    expected.fit(design, counts / years, sample_weight=years)
    assert_same_fit(found, expected, rtol=1e-6)


def test_probabilities_far_out_keep_their_digits():
    design, response, _ = rows_for(PrivateLogisticRegression)
    model = private(PrivateLogisticRegression).fit(design, response)
    far = np.array([[500.0, 0.0, 0.0], [-500.0, 0.0, 0.0]])
    odds = model.decision_function(far)
    assert_allclose(model.predict_proba(far)[0, 0], np.exp(-odds[0]), rtol=1e-12)
    assert_allclose(model.predict_log_proba(far)[1, 1], odds[1], rtol=1e-12)


# --- whose rows they are


@each("kind", ALL)
def test_parties_rows_take_the_road_of_fit_arrays(kind):
    design, response, owners = rows_for(kind)
    model = private(kind, ridge=0.5, rules=Rules(minimum_rows=20, release_fraction=0.9))
    model.fit(design, response, parties=owners)
    ones = np.column_stack([np.ones(len(design)), design])
    direct = fit_arrays(
        {one: (ones[owners == one], response[owners == one]) for one in sorted(NAMES)},
        family=type(model)._family,
        intercept=0,
        ridge=0.5,
        rules=Rules(minimum_rows=20, release_fraction=0.9),
        **QUICK,
    )
    found = np.append(model.intercept_, model.coef_)
    assert_array_equal(found, direct.fit.coefficients)
    assert model.result_.terms.parties == tuple(sorted(NAMES))
    assert model.result_.guarantee.worst.tolerate == 1


@each("kind", ALL)
def test_coefficients_do_not_depend_on_whose_rows_they_are(kind):
    # Of 200 counts, one row has 25 % of a party's weight at the answer.
    n_rows = 600 if kind is PrivatePoissonRegressor else 200
    design, response, owners = rows_for(kind, n_rows=n_rows)
    weights = weights_for(design)
    alone = private(kind).fit(design, response, sample_weight=weights)
    digits = finest(kind._family).get("digits")
    model = private(kind, digits=digits, rules=Rules(release_fraction=50.0))
    model.fit(design, response, parties=owners, sample_weight=weights)
    assert_same_fit(model, alone, rtol=1e-9)


def test_loopback_and_vectorised_agree():
    design, response, owners = rows_for(PrivateLogisticRegression)
    fits = [
        PrivateLogisticRegression(
            driver=driver, rules=Rules(minimum_rows=30), seed=1
        ).fit(design, response, parties=owners)
        for driver in ("loopback", "vectorised")
    ]
    assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert PrivateLogisticRegression().driver == "vectorised"


def test_parties_may_be_numbers_or_a_series():
    design, response, owners = rows_for(PrivateLinearRegression)
    by_name = private(PrivateLinearRegression).fit(design, response, parties=owners)
    numbers = np.unique(owners, return_inverse=True)[1]
    for given_names in (pd.Series(owners, dtype="category"), numbers, list(numbers)):
        model = private(PrivateLinearRegression)
        model.fit(design, response, parties=given_names)
        assert_array_equal(model.coef_, by_name.coef_)


@each(
    ("parties", "message"),
    [
        (np.ones(200), r"row 0 has 1\.0 \(weights go to sample_weight\)"),
        (["a"] * 199 + [None], "row 199 has None"),
        (["a"] * 199, r"one name for each of 200 rows, found shape \(199,\)"),
        ([["a"]] * 200, r"found shape \(200, 1\)"),
        (["a"] * 200, "two parties or more"),
        (["a", "b"] * 100, "2 parties are too few"),
        (["a", "b", "c"] * 66 + ["d", "d"], "d: 2 rows"),
    ],
    ids=["weights", "nobody", "short", "table", "one", "two", "few rows"],
)
def test_parties_that_cannot_sum_are_refused(parties, message):
    design, response, _ = rows_for(PrivateLinearRegression)
    with pytest.raises(InvalidInputError, match=message):
        private(PrivateLinearRegression).fit(design, response, parties=parties)


def test_the_row_rules_are_on_for_parties_and_off_for_one_holder():
    design, response, owners = rows_for(PrivateLogisticRegression)
    model = private(PrivateLogisticRegression)
    with refused("releases-too-much"):
        model.fit(design, response, parties=owners)
    model.fit(design, response)
    most = private(PrivateLinearRegression, rules=Rules(maximum_rows=30))
    with refused("row-count-refused", mentions=("maximum_rows", "30")):
        most.fit(design, response, parties=owners)


def test_options_reach_the_terms():
    design, response, owners = rows_for(PrivateLinearRegression)
    ring = Topology.family("ring:5").renamed(tuple(sorted(NAMES)))
    model = private(
        PrivateLinearRegression,
        topology=ring,
        law="lattice",
        sigma=1e6,
        minimum_honest=4,
        seed=7,
    )
    terms = clone(model).fit(design, response, parties=owners).result_.terms
    assert_array_equal(terms.topology.edges, ring.edges)
    assert (terms.law.name, terms.law.sigma) == ("lattice", 1e6)
    assert (terms.policy.minimum_honest, terms.driver.seed) == (4, 7)
    with refused("terms-not-met", mentions=("minimum_honest", "5")):
        model.set_params(minimum_honest=5).fit(design, response, parties=owners)


@given(n_rows=st.integers(2, 60), n_parties=st.integers(2, 20))
def test_rows_are_dealt_in_order_and_evenly(n_rows, n_parties):
    dealt = _deal_estimator_rows(n_rows, n_parties)
    assert_array_equal(np.concatenate(list(dealt.values())), np.arange(n_rows))
    lengths = [len(rows) for rows in dealt.values()]
    assert len(dealt) == min(n_rows, n_parties)
    assert max(lengths) - min(lengths) <= 1


def test_fewer_rows_than_parties_are_dealt_to_fewer():
    model = private(PrivateLinearRegression, n_parties=7)
    model.fit([[1.0], [2.0], [4.0]], [1.0, 3.0, 4.0])
    assert len(model.result_.terms.parties) == 3
    assert_allclose(model.coef_, [13 / 14], rtol=1e-12)
    model.fit(np.arange(10.0)[:, None], np.arange(10.0) ** 2)
    assert len(model.result_.terms.parties) == 7


@pytest.mark.parametrize(
    ("parameters", "weights"), [({"n_parties": 1}, None), ({}, [0.0, 0.0, 1.0])]
)
def test_nobody_to_sum_with_is_refused(parameters, weights):
    model = private(PrivateLinearRegression, **parameters)
    with refused("too-few-parties"):
        model.fit([[1.0], [2.0], [4.0]], [1.0, 3.0, 4.0], sample_weight=weights)


# --- what cannot be fitted


def test_classes_are_two():
    design, response, _ = rows_for(PrivateLogisticRegression)
    three = np.digitize(design[:, 0], [-0.5, 0.5])
    model = private(PrivateLogisticRegression)
    assert not model.__sklearn_tags__().classifier_tags.multi_class
    with refused("not-two-classes", mentions=("3",)):
        model.fit(design, three)
    with refused("not-two-classes", mentions=("1",)):
        model.fit(design, response, sample_weight=response.astype(float))
    apart = OneVsRestClassifier(model).fit(design, three)
    theirs = OneVsRestClassifier(LogisticRegression(tol=1e-10)).fit(design, three)
    assert_array_equal(apart.predict(design), theirs.predict(design))


def test_labels_may_be_words():
    design, response, _ = rows_for(PrivateLogisticRegression)
    words = np.where(response, "well", "ill")
    model = private(PrivateLogisticRegression).fit(design, words)
    assert model.classes_.tolist() == ["ill", "well"]
    sums = private(PrivateLogisticRegression).fit(design, response)
    assert_array_equal(model.predict(design) == "well", sums.predict(design))


def test_negative_responses_and_weights_are_refused():
    design, response, _ = rows_for(PrivatePoissonRegressor)
    with refused("response-negative", mentions=("0",)):
        private(PrivatePoissonRegressor).fit(design, response - 1.0)
    with refused("response-not-positive", mentions=("0",)):
        private(PrivateGammaRegressor).fit(design, response - response.min())
    with pytest.raises(ValueError, match="sample_weight"):
        private(PrivatePoissonRegressor).fit(
            design, response, sample_weight=-np.ones(len(design))
        )
    with pytest.raises(ValueError, match="zero"):
        private(PrivatePoissonRegressor).fit(
            design, response, sample_weight=np.zeros(len(design))
        )


def test_dependent_columns_are_named():
    design, response, _ = rows_for(PrivateLinearRegression)
    frame = pd.DataFrame(design, columns=["age", "bp", "bmi"]).assign(
        months=12 * design[:, 0]
    )
    with refused("dependent-columns"):
        private(PrivateLinearRegression).fit(frame, response)


# --- scikit-learn's company


@each("kind", ALL)
def test_parameters_are_kept_untouched_and_cloned(kind):
    model = kind(ridge=3.0, topology="ring:6", n_parties=6, seed=4)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    expected = {"ridge": 3.0, "topology": "ring:6", "n_parties": 6, "seed": 4}
    assert copy.get_params().items() >= expected.items()
    assert is_classifier(model) == (kind is PrivateLogisticRegression)
    assert is_regressor(model) != is_classifier(model)
    usual = 1.0 if kind is PrivateLogisticRegression else 0.0
    assert (
        kind().get_params() | {"ridge": 0.0} == PrivateLinearRegression().get_params()
    )
    assert kind().ridge == usual


def test_pipelines_and_searches():
    design, response, _ = rows_for(PrivateLinearRegression)
    line = make_pipeline(StandardScaler(), private(PrivateLinearRegression))
    found = cross_val_score(line, design, response, cv=4)
    plain = make_pipeline(StandardScaler(), LinearRegression())
    assert_allclose(found, cross_val_score(plain, design, response, cv=4), rtol=1e-9)
    grid = {"ridge": [0.1, 10.0, 1000.0]}
    ours = GridSearchCV(private(PrivateLinearRegression), grid).fit(design, response)
    theirs = GridSearchCV(Ridge(), {"alpha": grid["ridge"]}).fit(design, response)
    assert ours.best_params_["ridge"] == theirs.best_params_["alpha"]


@pytest.mark.parametrize("routing", [False, True])
def test_parties_follow_their_rows_into_folds(routing):
    design, response, owners = rows_for(PrivateLinearRegression)
    seen = []

    class Watched(PrivateLinearRegression):
        def fit(self, X, y, parties=None, sample_weight=None):
            seen.append((X, parties))
            return super().fit(X, y, parties, sample_weight)

    with config_context(enable_metadata_routing=routing):
        model = Watched(**QUICK)
        if routing:
            model.set_fit_request(parties=True)
        scores = cross_val_score(
            model, design, response, cv=KFold(4), params={"parties": owners}
        )
    expected = cross_val_score(LinearRegression(), design, response, cv=KFold(4))
    assert_allclose(scores, expected, rtol=1e-9)
    for (rows, names), (train, _) in zip(seen, KFold(4).split(design), strict=True):
        assert_array_equal(rows, design[train])
        assert_array_equal(names, owners[train])


def test_names_of_columns_reach_the_table():
    design, response, owners = rows_for(PrivateLinearRegression)
    frame = pd.DataFrame(design, columns=["age", "bp", "bmi"])
    model = private(PrivateLinearRegression).fit(frame, response, parties=owners)
    assert model.feature_names_in_.tolist() == ["age", "bp", "bmi"]
    assert model.n_features_in_ == 3
    assert list(model.result_.coefficients) == ["Intercept", "age", "bp", "bmi"]
    assert all(name in model.result_.summary() for name in frame)
    bare = private(PrivateLinearRegression, fit_intercept=False).fit(design, response)
    assert list(bare.result_.coefficients) == ["x0", "x1", "x2"]
    assert bare.intercept_ == 0.0


def test_coefficients_are_the_estimator_s_own():
    design, response, _ = rows_for(PrivateLinearRegression)
    model = private(PrivateLinearRegression).fit(design, response)
    before = model.result_.fit.coefficients.copy()
    model.coef_[:] = 0.0
    assert_array_equal(model.result_.fit.coefficients, before)


@each("driver", ["loopback", "vectorised"])
@each("kind", ALL)
def test_a_pickled_estimator_holds_no_row(kind, driver):
    design, response, owners = rows_for(kind)
    model = kind(driver=driver, rules=Rules(minimum_rows=20, release_fraction=9.0))
    model.fit(design, response, parties=owners)
    model.result_.summary()
    stored = pickle.dumps(model)
    assert model.coef_.tobytes() in stored
    # Python's own floats are written with the greatest byte first.
    kept = [x.tobytes() in stored for x in np.append(design, design.astype(">f8"))]
    assert not any(kept)
    assert_array_equal(pickle.loads(stored).predict(design), model.predict(design))


# --- without scikit-learn


def test_only_the_estimators_need_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import veilsum, veilsum.questions.regression\n"
        "try:\n    import veilsum.questions.regression.estimators\n"
        "except veilsum.errors.MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert ".[sklearn]" in done.stdout
