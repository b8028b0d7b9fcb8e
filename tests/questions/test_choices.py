"""Multinomial and ordinal regressions, against R, statsmodels and another road.

References are in tests/references/choices.json, with the script that made them. R's
search stops before the last digits; statsmodels' Newton goes all the way for the
multinomial law, and a search in wide floats, by formulas of its own, for the ordinal.
"""

import json
import tomllib
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import refusals
import veilsum as vs
from cases import each
from later import Later
from veilsum.errors import InvalidInputError
from veilsum.models.choices import Multinomial, Ordinal
from veilsum.questions.regression.kind import ModelSpec
from veilsum.reading import read_section
from veilsum.sums.kinds import question_kind_of
from veilsum.tables.rules import DisclosureError

sm = Later("statsmodels.api")
ordinal_model = Later("statsmodels.miscmodels.ordinal_model")

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "choices.json").read_text())
FREE = vs.Rules.none()
CASES = {
    "women": (
        "multinomial",
        "partic ~ hincome + C(children, contr.treatment('absent'))",
        {
            "partic": ("not.work", "parttime", "fulltime"),
            "children": ("absent", "present"),
        },
    ),
    "beps": (
        "multinomial",
        "vote ~ age + europe + economy + gender",
        {
            "vote": ("Conservative", "Labour", "Liberal Democrat"),
            "gender": ("female", "male"),
        },
    ),
    "wvs": (
        "ordinal",
        "poverty ~ age + religion + degree + gender",
        {
            "poverty": ("Too Little", "About Right", "Too Much"),
            "religion": ("no", "yes"),
            "degree": ("no", "yes"),
            "gender": ("female", "male"),
        },
    ),
    "housing": (
        "ordinal",
        "Sat ~ Infl + Type + Cont",
        {
            "Sat": ("Low", "Medium", "High"),
            "Infl": ("Low", "Medium", "High"),
            "Type": ("Tower", "Apartment", "Atrium", "Terrace"),
            "Cont": ("Low", "High"),
        },
    ),
}
MULTINOMIAL, ORDINAL = ("women", "beps"), ("wvs", "housing")


@cache
def table(name):
    frame = pd.read_csv(FOLDER / f"choices_{name}.csv")
    for column, levels in CASES[name][2].items():
        frame[column] = pd.Categorical(frame[column], levels, ordered=True)
    return frame


def schema_of(name):
    """Levels in the order of R's factors, and numbers as the table has them."""
    frame, levels = table(name), CASES[name][2]
    columns = (
        vs.Column(one, "category", categories=levels[one])
        if one in levels
        else vs.Column(one, "integer", float(part.min()), float(part.max()))
        for one, part in frame.items()
        if one != "region"
    )
    return vs.Schema(tuple(columns), minimum_rows=60)


def dealt(frame, parties=4):
    return {f"p{k}": frame.iloc[k::parties] for k in range(parties)}


@cache
def fitted(name, formula=None):
    family, usual, _ = CASES[name]
    return vs.fit(
        formula or usual,
        dealt(table(name)),
        family=family,
        schema=schema_of(name),
        driver="vectorised",
        seed=1,
        rules=FREE,
    )


def design_of(name):
    """The design by pandas: the columns of R's contrasts, in the formula's order."""
    frame, right = table(name), CASES[name][1].partition("~")[2]
    words = [one.strip() for one in right.split("+")]
    names = ["children" if "children" in one else one for one in words]
    dummies = pd.get_dummies(frame[names], drop_first=True, dtype=float)
    order = [c for n in names for c in dummies if c == n or c.startswith(f"{n}_")]
    return dummies[order]


def codes_of(name):
    response = CASES[name][1].partition("~")[0].strip()
    return table(name)[response].cat.codes.to_numpy()


def near(found, expected, rtol):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@each("name", CASES)
def test_as_r(name):
    # R's own searches leave the sixth digit open, its Hessians the fourth.
    result = fitted(name)
    near(result.params, R[f"{name} coefficients"], 3e-5)
    near(result.bse, R[f"{name} errors"], 1e-3)
    near(result.llf, R[f"{name} log-likelihood"], 1e-9)
    found = result.predict(table(name).head(3)).to_numpy().ravel()
    near(found, R[f"{name} chances"], 1e-5)


@pytest.mark.parametrize("name", MULTINOMIAL)
def test_as_statsmodels(name):
    design = sm.add_constant(design_of(name))
    model = sm.MNLogit(codes_of(name), design)
    theirs = model.fit(
        method="newton", tol=1e-15, maxiter=50, disp=0, warn_convergence=False
    )
    result = fitted(name)
    near(result.params, np.asarray(theirs.params).T.ravel(), 1e-9)
    near(result.bse, np.asarray(theirs.bse).T.ravel(), 1e-9)
    near(result.cov_params(), np.asarray(theirs.cov_params()), 1e-9)
    near(
        [result.llf, result.aic, result.bic],
        [theirs.llf, theirs.aic, theirs.bic],
        1e-11,
    )
    counts = np.bincount(codes_of(name))
    null = -2.0 * (counts * np.log(counts / counts.sum())).sum()
    near(result.fit.null_deviance, null, 1e-13)  # statsmodels searches for its own
    near(result.fit.mcfadden, theirs.prsquared, 1e-9)
    near(result.predict(table(name)), theirs.predict(design), 1e-9)
    assert (result.df_model, result.df_resid) == (theirs.df_model, theirs.df_resid)


def slopes(point, x, codes):
    """The score of an ordinal fit by differences of chances, in wide floats."""
    p, k = x.shape[1], len(point) - x.shape[1]
    ends = np.concatenate([[-np.inf], point[p:], [np.inf]])
    up, low = (ends[codes + one] - x @ point[:p] for one in (1, 0))
    chance = [1 / (1 + np.exp(-one)) for one in (up, low)]
    density = [one * (1 - one) for one in chance]
    apart = chance[0] - chance[1]
    rows = (density[0] - density[1]) / apart
    found = [-(x * rows[:, None]).sum(axis=0)]
    for level in range(k):
        found.append(
            [
                (density[0] / apart)[codes == level].sum()
                - (density[1] / apart)[codes == level + 1].sum()
            ]
        )
    return np.concatenate(found), np.log(apart).sum()


def searched(x, codes, start):
    """An ordinal fit by Newton's steps with differences of scores."""
    x, point = x.astype(np.longdouble), start.astype(np.longdouble)
    for _ in range(5):
        step = np.longdouble(1e-5)
        bent = [
            (slopes(point + e, x, codes)[0] - slopes(point - e, x, codes)[0])
            / (2 * step)
            for e in np.eye(len(point), dtype=np.longdouble) * step
        ]
        matrix = -np.array(bent, dtype=float)
        found, likelihood = slopes(point, x, codes)
        point = point + np.linalg.solve(matrix, found.astype(float))
    return point.astype(float), np.linalg.inv(matrix), float(likelihood)


@pytest.mark.parametrize("name", ORDINAL)
def test_as_another_road(name):
    result = fitted(name)
    start = np.array(R[f"{name} coefficients"])
    point, spread, likelihood = searched(
        design_of(name).to_numpy(), codes_of(name), start
    )
    near(result.params, point, 1e-9)
    near(result.bse, np.sqrt(np.diag(spread)), 1e-8)
    near(result.llf, likelihood, 1e-12)


def test_as_the_ordered_model():
    x, codes = design_of("housing"), codes_of("housing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ordinal_model.OrderedModel(codes, x, distr="logit")
        theirs = model.fit(method="bfgs", gtol=1e-8, maxiter=500, disp=0)
    result, n = fitted("housing"), x.shape[1]
    near(result.params[:n], theirs.params[:n], 1e-6)
    near(result.params[n:], model.transform_threshold_params(theirs.params)[1:-1], 1e-6)
    near(result.llf, theirs.llf, 1e-10)


def test_names_and_tests_of_a_fit():
    result = fitted("women")
    assert result.params.index[0] == "parttime: Intercept"
    smaller = fitted("women", "partic ~ hincome")
    test = result.compare_lr(smaller)
    assert test.degrees == 2
    near(test.statistic, 2 * (result.llf - smaller.llf), 1e-12)
    wald = result.wald_test("parttime: hincome = 0, fulltime: hincome = 0")
    by = result.params[["parttime: hincome", "fulltime: hincome"]]
    spread = result.cov_params().loc[by.index, by.index]
    near(wald.statistic, by @ np.linalg.solve(spread, by), 1e-10)
    assert "an odds ratio" in result.summary(exponentiate=True)
    near(result.ratios()["odds ratio"], np.exp(result.params), 1e-15)
    ranks = fitted("housing")
    assert ranks.params.index[-2:].tolist() == ["Low|Medium", "Medium|High"]
    near(ranks.predict(table("housing").head(9)).sum(axis=1), 1.0, 1e-14)
    assert ranks.to_dict()["levels"] == {"Low": 567, "Medium": 446, "High": 668}
    with refusals.refused("fits-not-comparable"):
        result.compare_lr(
            vs.fit(
                "partic ~ 1",
                dealt(table("women")[5:]),
                family="multinomial",
                schema=schema_of("women"),
                rules=FREE,
                driver="vectorised",
            )
        )


def test_a_fit_without_columns_is_the_counts():
    result = fitted("women", "partic ~ 1")
    assert result.fit.rounds == 2
    counts = table("women")["partic"].value_counts(sort=False).to_numpy()
    near(result.params, np.log(counts[1:] / counts[0]), 1e-14)
    near(result.fit.deviance, result.fit.null_deviance, 1e-15)
    near(result.bse, np.sqrt(1 / counts[1:] + 1 / counts[0]), 1e-9)


@pytest.mark.parametrize("family", [Multinomial(), Ordinal()])
def test_information_is_the_slope_of_scores(family):
    # Far predictors too, where chances vanish.
    chance = np.random.default_rng(0)
    eta = np.sort(chance.normal(0, 3, (50, 3)), axis=1)
    eta[:3] *= 300
    codes = chance.integers(0, 4, 50).astype(float)
    found = family.rows(codes, eta)
    assert np.isfinite(found.pulls).all()
    whole = sum(root[:, :, None] * root[:, None, :] for root in found.roots)
    for k in range(3):
        moved = np.eye(3)[k] * 1e-5
        up, low = family.rows(codes, eta + moved), family.rows(codes, eta - moved)
        near((low.pulls - up.pulls) / 2e-5, whole[:, k], 1e-8)
        near((low.loss - up.loss)[3:] / 2e-5, found.pulls[3:, k], 1e-8)
    near(np.exp(-found.loss).max() <= 1.0, True, 0)


def test_rows_left_out_are_counted_in_the_first_sum_alone():
    frame = table("women").copy()
    frame.loc[[3, 10, 50], "hincome"] = np.nan
    schema = replace(schema_of("women"), missing="drop")
    result = asked("women", frame=frame, schema=schema)
    recipe, sums = result.inner
    first, *later = (int(one[recipe.size - 1]) for one in sums)
    assert (first, {*later}, result.dropped) == (3, {0}, 3)


def test_a_file_asks_for_it():
    text = 'formula = "Sat ~ Infl"\nfamily = "polr"'
    section = read_section(tomllib.loads(text), ModelSpec, "[model]")
    job = question_kind_of(section).job(section, schema_of("housing"))
    assert isinstance(job.family, Ordinal)
    assert job.n_columns == job.recipe().answer_size == 4
    multinomial = fitted("women")
    assert multinomial.job.n_columns == len(multinomial.params) == 6
    assert job.model.recipe().size == 10 + 4 + 1 + 3 + 1


def asked(name="housing", formula=None, frame=None, **changed):
    family, usual, _ = CASES[name]
    options = {"family": family, "schema": schema_of(name), "rules": FREE, **changed}
    data = dealt(table(name) if frame is None else frame)
    return vs.fit(formula or usual, data, driver="vectorised", seed=1, **options)


def refused(words, **given):
    with pytest.raises(InvalidInputError, match=words):
        asked(**given)


def test_what_is_no_choice_is_refused_with_a_sentence():
    refused("two levels, family = .logistic", formula="Cont ~ Infl")
    refused("is a number", name="wvs", formula="age ~ gender")
    refused('family = "multinomial", or "ordinal"', family="gaussian")
    refused("stand in for an intercept", formula="Sat ~ 0 + Infl")
    refused("goes without ridge", ridge=1.0)
    refused("goes without errors", errors="HC3")
    refused(
        "goes without weights", name="wvs", formula="poverty ~ gender", weights="age"
    )
    with pytest.raises(InvalidInputError, match="arrays have none"):
        vs.fit_arrays({"a": ([[1.0]], [1.0])}, family="ordinal")
    with pytest.raises(InvalidInputError, match="one coefficient is pooled"):
        vs.meta(
            "Sat ~ Infl", dealt(table("housing")), coefficient="x", family="ordinal"
        )
    with pytest.raises(InvalidInputError, match="come without an interval"):
        fitted("housing").predict(table("housing").head(1), interval="confidence")
    with pytest.raises(InvalidInputError, match="no mean"):
        fitted("housing").marginal_means("C(Infl)")


def test_a_level_that_nobody_has_is_named():
    some = table("housing")
    refused("no row of any party has Medium", frame=some[some["Sat"] != "Medium"])


def test_an_order_is_known_or_asked_for():
    formula, plain = "Sat ~ Cont", table("housing").astype(str)
    refused("have no order", formula=formula, frame=plain, schema=None)
    result = asked(formula=formula, schema=None)
    assert result.model.levels == ("Low", "Medium", "High")
    near(result.llf, asked(formula=formula).llf, 1e-12)


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
def test_separation_names_the_column(family):
    some = table("wvs").assign(score=codes_of("wvs") * 10 + table("wvs")["age"] % 7)
    columns = (*schema_of("wvs").columns, vs.Column("score", "integer", 0, 40))
    schema = vs.Schema(columns, minimum_rows=20)
    refused(
        "score.* seems to grow without end",
        name="wvs",
        formula="poverty ~ score",
        frame=some,
        schema=schema,
        family=family,
    )


@pytest.mark.parametrize("family", ["multinomial", "ordinal"])
def test_dependent_columns_are_named(family):
    some = table("wvs").assign(twice=2 * table("wvs")["age"])
    columns = (*schema_of("wvs").columns, vs.Column("twice", "integer", 0, 400))
    schema = vs.Schema(columns, minimum_rows=20)
    refused(
        "age.*twice.* linearly dependent",
        name="wvs",
        formula="poverty ~ age + twice",
        frame=some,
        schema=schema,
        family=family,
    )


def test_levels_of_the_response_keep_to_the_rules():
    some = table("housing").iloc[np.argsort(codes_of("housing"), kind="stable")]
    # Two rows of a level at one party; then a level that two parties alone have.
    few = {"a": some[:569], "b": some[500:900], "c": some[500:1500], "d": some[400:]}
    usual = {"family": "ordinal", "schema": schema_of("housing")}
    with refusals.refused("group-too-small", DisclosureError, mentions=("2",)):
        vs.fit("Sat ~ Cont", few, **usual)
    few = {"a": some[200:800], "b": some[300:900], "c": some[400:1500], "d": some[400:]}
    with refusals.refused("tells-parties-apart", DisclosureError, mentions=("2",)):
        vs.fit("Sat ~ Cont", few, **usual)
    with refusals.refused("releases-too-much", DisclosureError):
        asked(rules=vs.Rules(site_terms=True), family="multinomial")
