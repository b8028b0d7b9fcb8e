"""How well known coefficients predict: against R, pROC and scikit-learn.

Reference values are from references/evaluation.R; folds are tried by scikit-learn.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import veilsum as vs
from cases import each
from finest import finest
from later import Later
from refusals import refused
from veilsum.errors import NumericalError
from veilsum.models.evaluation import (
    CHANCE_BITS,
    Concordance,
    Discrimination,
    ModelErrorSums,
    ModelPredictor,
    predictor_bin_edges,
)
from veilsum.models.families import GaussianFamily
from veilsum.models.rows import ONES, RowMeasures
from veilsum.numbers.units import UnitMeasure
from veilsum.questions.evaluate.bins import EvaluateBinsRecipe

calibration = Later("sklearn.calibration")
linear_model = Later("sklearn.linear_model")
metrics = Later("sklearn.metrics")
model_selection = Later("sklearn.model_selection")

FOLDER = Path(__file__).parent.parent / "references"
KNOWN = json.loads((FOLDER / "evaluation.json").read_text())
OPTIONS = {"driver": "vectorised", "seed": 1, "compare": True}
# One squared error or prediction at its most, in the units of a sum.
ONE_CHANCE = 2**CHANCE_BITS

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def tables(name, script="evaluation"):
    rows = pd.read_csv(FOLDER / f"{script}_{name}.csv")
    return {site: part.drop(columns="site") for site, part in rows.groupby("site")}


def coefficients(name):
    found = {key: one for key, (one,) in KNOWN[name]["coefficients"].items()}
    return {key.replace("(Intercept)", "Intercept"): one for key, one in found.items()}


def pooled(name):
    return pd.concat(tables(name).values())


def chance(rows):
    known = coefficients("pima")
    slopes = [known[name] for name in rows.columns if name in known]
    columns = [name for name in rows.columns if name in known]
    return 1 / (1 + np.exp(-known["Intercept"] - rows[columns].to_numpy() @ slopes))


PIMA = "ill ~ npreg + glu + bp + skin + bmi + ped + age"


@pytest.fixture(scope="module")
def pima():
    return vs.evaluate(
        PIMA,
        tables("pima"),
        family="logistic",
        coefficients=coefficients("pima"),
        edges=KNOWN["pima"]["edges"],
        **OPTIONS,
    )


def test_chances_are_those_of_r_and_proc(pima):
    known = KNOWN["pima"]
    found = {
        "binned": pima.auc.value,
        "delong": pima.auc.standard_error,
        "ci": pima.auc.interval(),
        "brier": pima.brier,
        "scaled": pima.found.scaled_brier,
        "calibration": pima.slope,
        "errors": pima.refit.standard_errors,
        "rows": pima.found.rows,
        "events": pima.found.events,
        "expected": pima.found.predicted,
        "hosmer": pima.hosmer_lemeshow().statistic,
        **{name: pima.thresholds()[name] for name in ("sensitivity", "specificity")},
        **{name: pima.thresholds()[name] for name in ("ppv", "npv")},
    }
    for name, one in found.items():
        np.testing.assert_allclose(np.ravel(one), known[name], rtol=1e-9, err_msg=name)
    assert pima.auc.least <= known["auc"][0] <= pima.auc.largest
    assert pima.reference["auc"] == pytest.approx(known["auc"][0], rel=1e-12)
    assert pima.reference["brier"] == pytest.approx(pima.brier, rel=1e-11)


def test_chances_are_those_of_scikit_learn(pima):
    rows = pooled("pima")
    p = chance(rows)
    assert pima.brier == pytest.approx(
        metrics.brier_score_loss(rows["ill"], p), rel=1e-11
    )
    places = np.searchsorted(pima.job.edges, p, side="right")
    assert pima.auc.value == pytest.approx(metrics.roc_auc_score(rows["ill"], places))
    tenths = vs.evaluate(
        PIMA,
        tables("pima"),
        family="logistic",
        coefficients=coefficients("pima"),
        calibration=False,
        rules=vs.Rules.none(),
        **OPTIONS,
    )
    observed, predicted = calibration.calibration_curve(rows["ill"], p, n_bins=10)
    np.testing.assert_allclose(tenths.calibration()["observed"], observed, rtol=1e-12)
    np.testing.assert_allclose(tenths.calibration()["predicted"], predicted, rtol=1e-9)
    assert tenths.refit is None
    # More bins leave less open.
    assert tenths.auc.largest - tenths.auc.least < pima.auc.largest - pima.auc.least


def test_a_fit_to_the_same_rows_is_calibrated():
    """The line through its own predictions has the intercept 0 and the slope 1."""
    held = tables("pima")
    fit = vs.fit(
        "ill ~ glu + bmi + age", held, **finest("logistic"), driver="vectorised"
    )
    found = vs.evaluate(
        "ill ~ glu + bmi + age",
        held,
        family="logistic",
        coefficients=fit.coefficients,
        edges=[0.2, 0.5],
        driver="vectorised",
    )
    np.testing.assert_allclose(found.slope, [0.0, 1.0], atol=1e-9)
    assert found.found.expected == pytest.approx(found.found.n_events, rel=1e-9)


@each("family", ["probit", "cloglog", "quasi-binomial"])
def test_other_links_have_chances_of_their_own(family):
    held = tables("pima")
    given = {"family": family, "coefficients": {"Intercept": -4.0, "glu": 0.03}}
    given["rules"] = vs.Rules.none()
    found = vs.evaluate("ill ~ glu", held, edges=[0.2, 0.5], **given, **OPTIONS)
    eta = -4.0 + 0.03 * pooled("pima")["glu"].to_numpy()
    from scipy.special import expit, ndtr

    means = {
        "probit": ndtr,
        "cloglog": lambda x: -np.expm1(-np.exp(x)),
        "quasi-binomial": expit,
    }
    ill = pooled("pima")["ill"]
    assert found.brier == pytest.approx(np.mean((ill - means[family](eta)) ** 2))


@pytest.mark.parametrize(
    ("name", "columns", "rules"),
    [
        ("mgus", "age + hgb + creat", vs.Rules.none()),
        # Twice as many rows, whose cells keep to the usual rules.
        ("rotterdam", "age + nodes + grade", None),
    ],
)
def test_concordance_is_that_of_r(name, columns, rules):
    known = KNOWN[name]
    found = vs.evaluate(
        f"Surv(time, death) ~ {columns}",
        tables(name),
        coefficients=coefficients(name),
        edges=known["edges"],
        times=known["times"],
        rules=rules,
        **OPTIONS,
    )
    index = found.concordance
    assert found.count == known["n"][0]
    assert index.value == pytest.approx(known["binned"][0], rel=1e-12)
    assert index.standard_error == pytest.approx(known["error"][0], rel=1e-9)
    assert found.reference["concordance"] == pytest.approx(known["exact"][0], rel=1e-12)
    assert index.least <= known["exact"][0] <= index.largest


def test_errors_are_those_of_r():
    known, held = KNOWN["quakes"], tables("quakes")
    found = vs.evaluate(
        "stations ~ mag + depth + lat",
        held,
        coefficients=coefficients("quakes"),
        **OPTIONS,
    )
    for name in ("r_squared", "rmse", "mae", "bias"):
        assert found.values[name] == pytest.approx(known[name][0], rel=1e-9), name
    line = found.errors.calibration
    np.testing.assert_allclose(line, known["calibration"], rtol=1e-9)
    assert found.max_error < 1e-9


def test_means_of_counts_are_predicted():
    held = tables("quakes")
    given = {"family": "poisson", "coefficients": {"Intercept": -1.6, "mag": 1.08}}
    found = vs.evaluate("stations ~ mag", held, **given, **OPTIONS)
    rows = pooled("quakes")
    away = rows["stations"] - np.exp(-1.6 + 1.08 * rows["mag"])
    assert found.errors.rmse == pytest.approx(np.sqrt(np.mean(away**2)), rel=1e-9)
    assert found.errors.mae == pytest.approx(np.mean(np.abs(away)), rel=1e-9)


FORMULA = "stations ~ mag + depth + lat"


@pytest.mark.parametrize(
    ("held", "response", "columns", "folds"),
    [
        (tables("quakes"), "stations", ["mag", "depth", "lat"], 4),
        (tables("wages", "folds"), "wage", ["education", "experience"], 3),
    ],
    ids=["quakes", "wages"],
)
def test_folds_are_what_scikit_learn_makes_of_them(held, response, columns, folds):
    formula = f"{response} ~ {' + '.join(columns)}"
    found = vs.evaluate(formula, held, folds=folds, split=7, **OPTIONS)
    own = {
        site: found.job.bring(found.job.schema.check(site, held[site])) for site in held
    }
    dealt = np.concatenate([found.job.folds(one) for one in own.values()])
    rows = pd.concat(held.values())
    x, y = rows[columns].to_numpy(), rows[response].to_numpy()
    said = model_selection.cross_val_predict(
        linear_model.LinearRegression(), x, y, cv=model_selection.PredefinedSplit(dealt)
    )
    assert found.errors.r_squared == pytest.approx(metrics.r2_score(y, said), rel=1e-9)
    assert found.errors.rmse == pytest.approx(np.sqrt(np.mean((y - said) ** 2)))
    assert found.errors.bias == pytest.approx(np.mean(said - y), abs=1e-9)
    sizes = np.bincount(dealt)
    assert [one.n_rows for one in found.folds] == sizes.tolist()
    assert sizes.min() > 90
    for k, one in enumerate(found.folds):
        here = dealt == k
        assert one.r_squared == pytest.approx(
            metrics.r2_score(y[here], said[here]), rel=1e-9
        )
    whole = vs.fit(formula, held, driver="vectorised")
    np.testing.assert_array_equal(found.fit.coefficients, whole.fit.coefficients)


def test_a_fold_does_not_know_whose_a_row_is_nor_its_response():
    held = tables("quakes")
    found = vs.evaluate(FORMULA, held, folds=4, driver="vectorised")
    rows = pd.concat(held.values()).sample(frac=1.0, random_state=1)
    rows["stations"] = rows["stations"].iloc[::-1].to_numpy()
    other = {f"s{k}": rows[k::4] for k in range(4)}
    again = vs.evaluate(
        FORMULA, other, folds=4, schema=found.job.schema, driver="vectorised"
    )
    sizes = [one.n_rows for one in found.folds]
    assert [one.n_rows for one in again.folds] == sizes
    split = vs.evaluate(FORMULA, held, folds=4, split=1, driver="vectorised")
    assert [one.n_rows for one in split.folds] != sizes


REFUSED = {
    "an unknown column": (
        {"coefficients": {"Intercept": 1.0, "mag": 1.0, "deep": 2.0}},
        "deep is no column",
    ),
    "a missing one": ({"coefficients": {"Intercept": 1.0}}, "mag has none"),
    "nothing": ({}, "give the coefficients"),
    "no number": (
        {"coefficients": {"Intercept": float("nan"), "mag": 1.0}},
        "finite numbers",
    ),
    "no mean": (
        {"coefficients": {"Intercept": 0.0, "mag": 1e9}, "family": "poisson"},
        "has no mean",
    ),
    "another family": ({"coefficients": {"mag": 1}, "family": "cauchy"}, "cauchy"),
    "edges of numbers": (
        {"coefficients": {"Intercept": 1.0, "mag": 1.0}, "edges": [1]},
        "edges is no matter of the gaussian family",
    ),
    "both": ({"folds": 3, "coefficients": {"mag": 1.0}}, "leave one of them out"),
    "one fold": ({"folds": 1}, "from 2 to 20"),
    "edges of folds": ({"folds": 3, "edges": [0.5]}, "edges is no matter of a cross"),
    "no intercept": ({"folds": 3, "formula": "stations ~ 0 + mag"}, "an intercept"),
}


@each(("asked", "why"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_with_the_reason(asked, why):
    with pytest.raises(vs.InvalidInputError, match=why):
        vs.evaluate(**{"formula": "stations ~ mag", **asked}, data=tables("quakes"))


@each("edges", [[], [0.5, 0.5], [0.0], [0.2, 1.0], [np.nan]])
def test_edges_ascend_between_0_and_1(edges):
    with pytest.raises(vs.InvalidInputError, match="edges must"):
        predictor_bin_edges(edges, 0.0, 1.0)


rows_of_bins = st.lists(
    st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=4, max_size=40
).filter(lambda rows: {yes for _, yes in rows} == {True, False})


@given(rows=rows_of_bins, cuts=st.sets(st.integers(1, 9), min_size=1, max_size=5))
def test_the_area_is_between_its_bounds(rows, cuts):
    p, y = (np.array(one) for one in zip(*rows, strict=True))
    edges = np.array(sorted(cuts)) / 10
    places = np.searchsorted(edges, p, side="right")
    n = len(edges) + 1
    found = Discrimination(
        edges,
        np.bincount(places[y], minlength=n),
        np.bincount(places[~y], minlength=n),
        np.bincount(places, p, minlength=n),
        float(((y - p) ** 2).sum()),
    )
    exact = metrics.roc_auc_score(y, p)
    assert found.auc.least - 1e-12 <= exact <= found.auc.largest + 1e-12
    assert found.auc.value == pytest.approx(metrics.roc_auc_score(y, places))
    away, up = found.roc()
    assert np.trapezoid(up, away) == pytest.approx(found.auc.value)


timed = st.lists(
    st.tuples(st.integers(1, 12), st.booleans(), st.floats(-2, 2)),
    min_size=3,
    max_size=25,
)


@given(rows=timed)
def test_concordance_is_between_its_bounds(rows):
    """Wherever in their bins rows lie; pairs are counted one by one."""
    time, event, risk = (np.array(one) for one in zip(*rows, strict=True))
    times, edges = [3, 6, 9], [-0.5, 0.5]
    ends = np.searchsorted(times, time)
    seen = event & (ends < 3)
    places = np.searchsorted(edges, risk, side="right")
    events, others = np.zeros((4, 3), int), np.zeros((4, 3), int)
    np.add.at(events, (ends[seen], places[seen]), 1)
    np.add.at(others, (ends[~seen], places[~seen]), 1)
    found = Concordance(events, others).index

    def harrell(when, of):
        good = pairs = Fraction(0)
        for i, j in np.argwhere(
            seen[:, None] & ((when[:, None] < when) | ((when[:, None] == when) & ~seen))
        ):
            pairs += 1
            good += Fraction(int(np.sign(of[i] - of[j])) + 1, 2)
        return float(good / pairs) if pairs else None

    capped = np.where(ends == 3, 100, time)
    exact, rough = harrell(capped, risk), harrell(ends, places)
    if rough is None:
        assert np.isnan(found.value)
    else:
        assert found.value == pytest.approx(rough)
    if exact is not None:
        assert found.least - 1e-12 <= exact <= found.largest + 1e-12


def test_everything_is_said_and_written(pima):
    said = pima.summary()
    assert "area under the ROC curve: 0.8637" in said
    assert "however rows lie within their bins" in said
    json.dumps(pima.to_dict(), allow_nan=False)
    assert "sum of predictions in each bin" in " ".join(pima.guarantee.released)


def test_the_figure_has_the_curve_and_what_happened(pima):
    left, right = pima.plot(title="a study").axes
    false, true = pima.found.roc()
    np.testing.assert_array_equal(left.lines[0].get_xdata(), false)
    np.testing.assert_array_equal(left.lines[0].get_ydata(), true)
    shares = right.lines[0].get_ydata()
    np.testing.assert_array_equal(shares, pima.calibration()["observed"])


def test_errors_of_a_narrow_response_keep_their_digits():
    narrow = UnitMeasure.of(-0.001, 0.001, Fraction(1, 10**6))
    known = ModelPredictor.of(
        GaussianFamily(),
        RowMeasures.of([ONES], narrow, intercept=0),
        names=("one",),
        intercept=0,
        coefficients={"one": 0.0004},
    )
    y = np.random.default_rng(2).integers(-1000, 1001, 50) / 1e6
    sums, m = ModelErrorSums(known), np.full(50, 0.0004)
    found = sums.errors(sums.layout.unpack(sums.vector(y, m)))
    squares = [float(found.response_square), float(found.squared)]
    expected = [(y**2).sum(), ((y - m) ** 2).sum()]
    np.testing.assert_allclose(squares, expected, rtol=1e-11)


@each(
    ("errors", "predictions", "what"),
    [
        (5 * ONE_CHANCE, [3 * ONE_CHANCE, 0], None),
        (5 * ONE_CHANCE + 1, [0, 0], "squared errors"),
        (-1, [0, 0], "squared errors"),
        (0, [3 * ONE_CHANCE + 1, 0], "predictions in bin 1"),
        (0, [0, -1], "predictions in bin 2"),
    ],
)
def test_sums_that_no_chances_of_so_many_rows_have_are_refused(
    errors, predictions, what
):
    """Three rows are in the first bin, and two in the second."""
    recipe = EvaluateBinsRecipe("chances", 2, None)
    total = recipe.layout.pack(
        bin_events=[1, 2],
        bin_non_events=[2, 0],
        bin_predictions=predictions,
        squared_errors=errors,
        left_out=0,
    )
    if what is None:
        recipe.check_sum([total])
    else:
        with refused("impossible-total", NumericalError, mentions=(what,)):
            recipe.check_sum([total])
