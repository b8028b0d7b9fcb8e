"""Robust errors, tests, predictions and marginal means, against R.

Reference values are those of references/inference.R, from four tables that nothing
else is tested on; the tables lie beside it.
"""

import json
import re
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from cases import each
from finest import finest
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.fits.wrappers import FURTHER_HONEST
from veilsum.models.hypotheses import CoefficientHypothesis
from veilsum.models.rows import Rows
from veilsum.questions.regression import fit, fit_arrays
from veilsum.questions.regression.kind import ModelSpec
from veilsum.reading import read_section
from veilsum.showing import shown_number
from veilsum.sums.releases import OBJECTIONS
from veilsum.tables.rules import DisclosureError, Rules
from veilsum.tables.schema import Schema

sm = Later("statsmodels.api")
smf = Later("statsmodels.formula.api")

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "inference.json").read_text())
FREE = Rules.none()
KINDS = ("HC0", "HC1", "HC2", "HC3")


def table(name):
    return pd.read_csv(FOLDER / f"inference_{name}.csv")


def dealt(frame, parties=4):
    """The rows of a table, one after the other, to some parties."""
    return {f"p{k}": frame.iloc[k::parties] for k in range(parties)}


def held(frame, column):
    """Its rows by whose they are."""
    parts = frame.groupby(column)
    return {f"p{name}": rows.drop(columns=[column]) for name, rows in parts}


def quick(formula, data, **options):
    how = {"rules": FREE, "driver": "vectorised", "seed": 1, **options}
    return fit(formula, data, minimum_rows=1, **finest(**how))


def near(found, expected, rtol=1e-9):
    np.testing.assert_allclose(
        np.ravel(np.asarray(found, float)), np.ravel(expected), rtol=rtol, atol=1e-300
    )


LOW = "low ~ age + lwt + C(race) + smoke"
MODELS = {
    "swiss": ("swiss", "fertility ~ education + agriculture + catholic", {}),
    "swiss weighted": (
        "swiss",
        "fertility ~ education + agriculture",
        {"weights": "mortality"},
    ),
    "birthwt logistic": ("birthwt", LOW, {"family": "binomial"}),
    "birthwt poisson": ("birthwt", "low ~ lwt + smoke", {"family": "poisson"}),
    "birthwt gamma": ("birthwt", "bwt ~ lwt + C(race) + smoke", {"family": "gamma"}),
}


@each("name", MODELS)
def test_robust_errors_are_those_of_r(name):
    source, formula, how = MODELS[name]
    data = dealt(table(source))
    for kind in KINDS:
        found = quick(formula, data, errors=kind, **how)
        near(found.params, R[f"{name} coefficients"])
        near(found.bse, R[f"{name} {kind}"])
        assert found.fit.errors == kind
    plain = quick(formula, data, **how)
    assert not np.allclose(plain.bse, R[f"{name} HC0"], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "column", "formula", "family"),
    [
        ("chicks", "chick", "weight ~ time + time_2", "gaussian"),
        ("epil", "subject", "y ~ lbase + lage + period", "poisson"),
    ],
)
def test_errors_clustered_by_party_are_those_of_r(name, column, formula, family):
    data = held(table(name), column)
    squares = {"time_2": {"of": "time", "as": "power", "exponent": 2}}
    how = {"errors": "cluster", "law": "none", "derived": squares}
    found = quick(formula, data, family=family, **how)
    near(found.bse, R[f"{name} cluster"])
    assert found.fit.t_degrees == len(data) - 1


def test_robust_errors_are_those_of_statsmodels_too():
    frame = table("swiss")
    formula = MODELS["swiss"][1]
    reference = smf.ols(formula, frame).fit()
    for kind in KINDS:
        found = quick(formula, dealt(frame), errors=kind.lower())
        near(found.bse, getattr(reference, f"{kind}_se"))
    groups = np.arange(len(frame)) % 9
    reference = smf.ols(formula, frame).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    found = quick(formula, dealt(frame, 9), errors="cluster")
    near(found.bse, reference.bse)
    near(found.pvalues, reference.pvalues, rtol=1e-8)


# What a sum shows is no matter of who has which row


@cache
def last_request(errors, family):
    """A model with the rows it was fitted to, what is asked last, and the sum of it."""
    frame = table("birthwt")
    formula = "bwt ~ lwt + smoke" if family == "gaussian" else "low ~ lwt + age"
    schema = Schema.inferred({"all": frame}, minimum_rows=1)
    how = {"errors": errors, "family": family, "schema": schema}
    result = quick(formula, dealt(frame), **how)
    recipe, sums = result.inner
    rows = result.job.rows(result.job.schema.check("all", frame))
    return result.model, rows, recipe.request(sums[:-1]), sums[-1].tolist()


def part(rows, chosen):
    return Rows(rows.design[chosen], rows.response[chosen])


@pytest.mark.usefixtures("unchecked_shapes")
@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(
        [("HC0", "gaussian"), ("HC3", "gaussian"), ("HC2", "poisson"), ("HC3", "logit")]
    ),
    st.lists(st.integers(0, 4), min_size=189, max_size=189).map(np.array),
)
def test_dealing_rows_anew_changes_no_bit_of_hc_sums(kind, owners):
    model, rows, request, released = last_request(*kind)
    parts = [part(rows, np.flatnonzero(owners == k)[::-1]) for k in range(5)]
    sums = [model.strategy.vector(one, 0, request) for one in parts if one.n_rows]
    assert sum(sums).tolist() == released


def test_exchanging_tables_changes_no_bit_of_cluster_sums_and_rows_do():
    frame = table("swiss")
    schema = Schema.inferred({"all": frame}, minimum_rows=1)
    data = dealt(frame, 8)
    formula = "fertility ~ education + catholic"

    def sums(tables):
        result = quick(formula, tables, schema=schema, errors="cluster")
        return [one.tolist() for one in result.released.sums]

    swapped = dict(zip(data, reversed(data.values()), strict=True))
    shuffled = {
        name: rows.sample(frac=1.0, random_state=1) for name, rows in data.items()
    }
    assert sums(data) == sums(swapped) == sums(shuffled)
    # The twin: one row elsewhere leaves the fit's sums as they are, and not the last.
    moved = dict(data)
    moved["p1"] = pd.concat([data["p1"], data["p0"].iloc[:1]])
    moved["p0"] = data["p0"].iloc[1:]
    before, after = sums(data), sums(moved)
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


# Tests of hypotheses


def test_walds_tests_are_those_of_r():
    data = dealt(table("swiss"))
    text = "education = agriculture, catholic = 0.1"
    for errors, name in ((None, "swiss wald"), ("HC3", "swiss wald HC3")):
        found = quick(MODELS["swiss"][1], data, errors=errors).wald_test(text)
        near([found.statistic, found.p_value], R[name])
        assert (found.law, found.degrees, found.residual_degrees) == ("F", 2, 43)
    matrix = [[0, 1, -1, 0], [0, 0, 0, 1]]
    result = quick(MODELS["swiss"][1], data)
    near(result.wald_test((matrix, [0, 0.1])).statistic, R["swiss wald"][0])
    low = quick(LOW, dealt(table("birthwt")), family="logit")
    found = low.wald_test("age = 0, C(race)[T.2] = 0, C(race)[T.3] = 0")
    near([found.statistic, found.p_value], R["birthwt wald"])
    assert "C(race)[T.2] = 0" in found.summary()
    single = result.t_test(
        "education = agriculture, 2 * catholic = 0.2 + education / 4"
    )
    pair = smf.ols(MODELS["swiss"][1], table("swiss")).fit()
    theirs = pair.t_test("education = agriculture, 2 * catholic = 0.2 + education / 4")
    near(single.to_frame()["coefficient"] - [0.0, 0.2], theirs.effect - [0.0, 0.2])
    near(single.to_frame()["statistic"], theirs.tvalue)
    near(single.to_frame()[["low", "high"]], theirs.conf_int())


NAMES = ("Intercept", "x", "x1", "C(sex)[T.a = b, c]", "I(x ** 2)", "x:z", "height-m")


@each(
    ("text", "rows", "values"),
    [
        ("x = 0", [{"x": 1}], [0]),
        ("x1 = x", [{"x1": 1, "x": -1}], [0]),
        ("2*x - x1/4 = 3 - x", [{"x": 3, "x1": -0.25}], [3]),
        ("-x = 1e-3", [{"x": -1}], [1e-3]),
        ("x = x1 = 0", [{"x": 1, "x1": -1}, {"x1": 1}], [0, 0]),
        (
            "C(sex)[T.a = b, c] = 1, x:z=2",
            [{"C(sex)[T.a = b, c]": 1}, {"x:z": 1}],
            [1, 2],
        ),
        ("I(x ** 2) = x * 0.5", [{"I(x ** 2)": 1, "x": -0.5}], [0]),
        ("height-m = 0", [{"height-m": 1}], [0]),
    ],
)
def test_hypotheses_are_read_by_names(text, rows, values):
    found = CoefficientHypothesis.of(text, NAMES)
    expected = [[row.get(name, 0.0) for name in NAMES] for row in rows]
    assert found.matrix.tolist() == expected
    assert found.values.tolist() == values


@each(
    ("text", "said"),
    [
        ("", "a name or a number is missing"),
        ("x", "an equation needs ="),
        ("x = 0,", "a name or a number is missing"),
        ("1 = 2", "about no coefficient"),
        ("x = x", "about no coefficient"),
        ("y = 0", "no coefficient is called 'y'"),
        ("x2 = 0", "no coefficient is called 'x2'"),
        ("x * x1 = 0", "numbers only"),
        ("1 / x = 0", "numbers only"),
        ("x / 0 = 1", "numbers only"),
        ("__import__('os') = 0", "no coefficient is called"),
        ("x = 1e999", "no number"),
        ("(x) = 0", "no coefficient is called"),
        ("x = 0; x1 = 0", "cannot read on"),
        ("x = 0," * 3000 + "x = 0", "at most 10,000 letters"),
    ],
)
def test_what_is_no_hypothesis_is_refused_in_a_sentence(text, said):
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        CoefficientHypothesis.of(text, NAMES)


def test_equations_that_follow_from_each_other_are_refused():
    result = quick(MODELS["swiss"][1], dealt(table("swiss")))
    with refused("dependent-hypotheses"):
        result.wald_test("education = 0, 2 * education = 0")
    with refused("wrong-shape", mentions=("4",)):
        result.wald_test([[1, 0]])
    with refused("hypothesis-not-finite"):
        result.wald_test([[1, 0, np.nan, 0]])


def test_nested_fits_are_compared_as_r_does():
    swiss, births = dealt(table("swiss")), dealt(table("birthwt"))
    full, less = quick(MODELS["swiss"][1], swiss), quick("fertility ~ education", swiss)
    for name, found in (
        ("swiss f", full.compare_f(less)),
        ("swiss lr", less.compare_lr(full)),
    ):
        near([found.statistic, found.p_value], R[name])
    near(full.compare_score(less).statistic, R["swiss score"])
    low = quick(LOW, births, family="logistic", errors="HC1")
    found = low.compare_lr(quick("low ~ lwt + age", births, family="binomial"))
    near([found.statistic, found.p_value], R["birthwt lr"])
    heavy = quick(MODELS["birthwt gamma"][1], births, family="gamma")
    light = quick("bwt ~ lwt", births, family="gamma")
    for name, found in (
        ("gamma f", heavy.compare_f(light)),
        ("gamma lr", heavy.compare_lr(light)),
    ):
        near([found.statistic, found.p_value], R[name], rtol=1e-8)
    with refused("dispersion-known", mentions=("1", "compare_lr")):
        low.compare_f(quick("low ~ lwt + age", births, family="logistic"))
    with refused("score-test-unavailable"):
        heavy.compare_score(light)


def test_fits_that_are_not_nested_on_the_same_rows_are_refused():
    frame = table("swiss")
    data = dealt(frame)
    full = quick("fertility ~ education + catholic", data)
    one = quick("fertility ~ education", data)
    assert one.compare_lr(full).degrees == 1
    gaps = {name: rows.copy() for name, rows in data.items()}
    gaps["p0"].iloc[0, gaps["p0"].columns.get_loc("education")] = np.nan
    changed = {name: rows.copy() for name, rows in data.items()}
    changed["p0"].iloc[0, changed["p0"].columns.get_loc("education")] += 1.0
    fewer = {"p0": pd.concat([data["p0"], data["p1"]]), "p2": data["p2"]}
    fewer |= {"p3": data["p3"][:6], "p4": data["p3"][6:]}
    for other, said in (
        (quick("fertility ~ education", gaps), "numbers of rows differ"),
        (quick("fertility ~ education", changed), "sums over rows differ"),
        (quick("fertility ~ education", fewer), "parties differ"),
        (quick("examination ~ education", data), "response differ"),
        (quick("fertility ~ education", data, ridge=1.0), "ridge differ"),
        (quick("fertility ~ education", data, family="gamma"), "family differ"),
        (quick("fertility ~ education", data, weights="mortality"), "weights"),
        (quick("fertility ~ agriculture", data), "agriculture in the smaller"),
        (full, "the same columns in both"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            full.compare_lr(other)
    with refused("not-a-fit"):
        full.compare_lr("another")


# Numbers by statsmodels' names


def test_names_of_statsmodels_hold_its_numbers():
    frame = table("swiss")
    found = quick(MODELS["swiss"][1], dealt(frame))
    reference = smf.ols(MODELS["swiss"][1], frame).fit()
    for name in ("params", "bse", "tvalues", "pvalues"):
        mine, theirs = getattr(found, name), getattr(reference, name)
        pd.testing.assert_series_equal(mine, theirs, check_names=False, rtol=1e-9)
    near(found.conf_int(alpha=0.1), reference.conf_int(alpha=0.1))
    near(found.cov_params(), reference.cov_params())
    for name in ("llf", "aic", "bic", "rsquared", "rsquared_adj", "nobs", "df_resid"):
        assert getattr(found, name) == pytest.approx(getattr(reference, name), rel=1e-9)
    assert (found.df_model, found.scale) == pytest.approx(
        (reference.df_model, reference.scale), rel=1e-9
    )
    near(found.bic, R["swiss bic"])
    whole = found.to_frame()
    assert list(whole.index) == list(reference.params.index)
    near(whole["p_value"], reference.pvalues)
    low = quick(LOW, dealt(table("birthwt")), family="logistic")
    near(low.bic, R["birthwt bic"])
    with refused("only-least-squares"):
        _ = low.rsquared


def test_ratios_have_intervals_on_their_own_scale():
    low = quick(LOW, dealt(table("birthwt")), family="binomial")
    found = low.ratios(0.9)
    near(found.to_numpy().T, R["birthwt odds"])
    assert list(found.columns) == ["odds ratio", "low", "high"]
    text = low.summary(level=0.9, exponentiate=True)
    ends = np.reshape(R["birthwt odds"], (3, -1))[:, 2]  # of lwt
    line = next(line for line in text.splitlines() if line.startswith("lwt"))
    assert line.split()[-3:] == [shown_number(one, 4) for one in ends]
    assert "the interval is that of exp(coef)" in text
    assert max(map(len, text.splitlines())) <= 80
    plain = low.summary(level=0.9)
    assert "exp(coef)" not in plain
    risk = quick("low ~ lwt + smoke", dealt(table("birthwt")), family="poisson")
    assert next(iter(risk.ratios())) == "rate ratio"
    with refused("not-a-ratio"):
        quick("bwt ~ lwt", dealt(table("birthwt"))).ratios()


def test_an_alias_is_one_family():
    births = dealt(table("birthwt"))
    two = [quick("low ~ lwt", births, family=one) for one in ("binomial", "logistic")]
    assert two[0].answer.tolist() == two[1].answer.tolist()
    assert two[0].model.terms == two[1].model.terms
    asked = {"formula": "low ~ lwt", "family": "Binomial", "errors": "hc1"}
    assert read_section(asked, ModelSpec, "[model]").given()["family"] == "logistic"
    counts = quick("ftv ~ age", births, family="nb", alpha=0.5)
    assert counts.model.family.name == "negative-binomial"
    with refused("unknown-family"):
        quick("low ~ lwt", births, family="cauchy")


# Predictions


def test_predictions_are_those_of_r():
    frame = table("swiss")
    found = quick(MODELS["swiss"][1], dealt(frame))
    new = frame.iloc[:4].drop(columns="fertility")
    made = found.predict(new, interval="prediction", level=0.9)
    near(
        made[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy().T,
        R["swiss prediction"],
    )
    sure = made[["mean", "mean_ci_lower", "mean_ci_upper"]]
    near(sure.to_numpy().T, R["swiss confidence"])
    near(found.predict(new), made["mean"])
    births = table("birthwt")
    low = quick(LOW, dealt(births), family="logistic")
    made = low.predict(births[:4], interval="confidence")
    near(made[["mean", "mean_se"]].to_numpy().T, R["birthwt prediction"])
    near(made[["mean_ci_lower", "mean_ci_upper"]].to_numpy().T, R["birthwt ends"])
    on_link = low.predict(births[:4], scale="link")
    near(1.0 / (1.0 + np.exp(-on_link)), made["mean"])


def test_predictions_refuse_what_they_cannot_use():
    births = table("birthwt")
    low = quick(LOW, dealt(births), family="logistic")
    new = births[:2].assign(race=[1, 4])
    with refused("unknown-category"):
        low.predict(new)
    with refused("missing-column", mentions=("lwt",)):
        low.predict(births[:2].drop(columns="lwt"))
    with refused("prediction-interval-unavailable"):
        low.predict(births[:2], interval="prediction")
    with refused("unknown-interval"):
        low.predict(births[:2], interval="both")
    with refused("unknown-scale"):
        low.predict(births[:2], scale="odds")
    # What lies beyond the agreed range is predicted all the same.
    assert low.predict(births[:1].assign(lwt=1000)).item() < 1e-3


def test_predictions_of_every_link_have_errors_of_the_delta_method():
    births = table("birthwt")
    for name, family in (
        ("gamma", sm.families.Gamma(sm.families.links.Log())),
        ("gamma-inverse", sm.families.Gamma()),
    ):
        found = quick("bwt ~ lwt + smoke", dealt(births), family=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one of these links has no mean at 0
            model = smf.glm("bwt ~ lwt + smoke", births, family=family)
        theirs = model.fit(tol=1e-14, maxiter=200, scale="X2")
        theirs = theirs.get_prediction(births[:3])
        made = found.predict(births[:3], interval="confidence")
        near(made["mean"], theirs.predicted_mean, rtol=1e-8)
        near(made["mean_se"], theirs.se, rtol=1e-7)


def test_an_offset_is_part_of_a_prediction():
    births = table("birthwt").assign(exposure=lambda t: np.log(t["age"]).round(6))
    found = quick("ftv ~ lwt", dealt(births), family="poisson", offset="exposure")
    plain = births[:3].assign(exposure=0.0)
    ratio = found.predict(births[:3]) / found.predict(plain)
    near(ratio, np.exp(births["exposure"][:3]))
    with refused("missing-column"):
        found.predict(births[:3].drop(columns="exposure"))


def test_marginal_means_are_at_means_that_are_known():
    births = table("birthwt")
    formula = "bwt ~ age + lwt + C(race) * C(smoke)"
    found = quick(formula, dealt(births), errors=None).marginal_means("C(smoke)")
    frame = found.to_frame()
    near(frame[["mean", "mean_se"]].to_numpy().T, R["birthwt means"])
    text = " ".join(found.summary().split())
    assert f"age is {births['age'].mean():.6g}, its mean, from released sums." in text
    assert "Levels of race count alike" in text
    by_hand = quick(formula, dealt(births)).marginal_means(
        "smoke", at={"age": 20, "lwt": 120, "race": "2"}
    )
    new = pd.DataFrame({"age": 20, "lwt": 120, "race": 2, "smoke": [0, 1]})
    near(by_hand.columns["mean"], quick(formula, dealt(births)).predict(new))
    assert "race is 2, as given." in by_hand.summary()


def test_marginal_means_of_other_families_are_at_given_values_only():
    births = table("birthwt")
    low = quick("low ~ age + lwt + C(smoke)", dealt(births), family="logistic")
    with refused("mean-not-released", mentions=("age", "lwt")):
        low.marginal_means("C(smoke)")
    found = low.marginal_means("C(smoke)", at={"age": 25, "lwt": 130})
    new = pd.DataFrame({"age": 25, "lwt": 130, "smoke": [0, 1]})
    near(found.columns["mean"], low.predict(new))
    with refused("not-a-category"):
        low.marginal_means("age")
    with refused("unknown-column", mentions=("smoke",)):
        low.marginal_means("smoke", at={"height": 1})


# What is refused, and what is kept free


def test_clusters_take_more_honest_parties_than_columns():
    data = held(table("chicks"), "chick")
    few = dict(list(data.items())[:5])
    with refused("too-few-honest", DisclosureError, mentions=("5",)) as caught:
        quick(
            "weight ~ time", few, errors="cluster", rules=Rules.none(site_terms=False)
        )
    assert caught.value.rule == "site_terms"
    enough = dict(list(data.items())[: 2 + FURTHER_HONEST + 1])
    result = quick(
        "weight ~ time", enough, errors="cluster", rules=Rules.none(site_terms=False)
    )
    assert "rounded for each party" in " ".join(result.guarantee.limits)
    assert "rounded for each party" not in " ".join(
        quick("weight ~ time", enough, errors="HC3").guarantee.limits
    )


def test_what_goes_wrong_is_said_in_a_sentence():
    data = dealt(table("swiss"))
    formula = "fertility ~ education"
    for how, said in (
        ({"errors": "HC9"}, "errors must be one of model, HC0"),
        ({"errors": "HC3", "ridge": 1.0}, "without a ridge"),
        ({"errors": "HC3", "law": "lattice", "sigma": 1e6}, "lattice masks"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            quick(formula, data, **how)
    assert quick(formula, data, errors="model").fit.errors == "model"


def test_a_leverage_of_one_has_no_hc3_and_is_said_to_have_none():
    x = np.column_stack([np.ones(12), np.arange(12.0) == 3.0, np.arange(12.0)])
    y = np.arange(12.0) ** 2
    data = {f"p{k}": (x[k::4], y[k::4]) for k in range(4)}
    how = {"intercept": 0, "rules": FREE, "driver": "vectorised", "seed": 1}
    assert np.isfinite(fit_arrays(data, errors="HC1", **how).fit.standard_errors).all()
    with refused("leverage-too-high", mentions=("1",)):
        _ = fit_arrays(data, errors="HC3", **how).fit


def test_the_last_sum_is_reserved_and_released_by_name():
    births = dealt(table("birthwt"))
    rules = replace(FREE, most_rounds=9)
    result = quick(LOW, births, family="logistic", errors="HC3", rules=rules)
    assert result.recipe.most_rounds == 9
    assert len(result.released.sums) <= 9
    last = result.releases[-1]
    assert last.statistics == {
        "row_scores_by_leverage": 21,
        "leverage_rows": 1,
        OBJECTIONS: 1,
    }
    assert last.point == tuple(result.answer)
    assert result.recipe.foreseen[-1].statistics == last.statistics
    short = replace(FREE, most_rounds=1)
    with refused("too-many-rounds", DisclosureError):
        quick("bwt ~ lwt", births, errors="HC0", rules=short)
    # Room for the fit alone is not enough: 16 numbers, and as many for the errors.
    tight = Rules.none(release_fraction=24.0 / (3 * 47 * 3), minimum_rows=47)
    schema = Schema.inferred(births, minimum_rows=47)
    how = {"rules": tight, "schema": schema, "driver": "vectorised"}
    assert fit("bwt ~ lwt + age", births, **how).nobs == 189
    with refused("releases-too-much", DisclosureError, mentions=("15",)):
        fit("bwt ~ lwt + age", births, errors="HC0", **how)
