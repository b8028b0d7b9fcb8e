"""What differs between parties: absorbed, random, or pooled, as R has it.

References are in tests/references/sites.json, and sites.R beside it made them.
"""

import json
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flint import fmpq, fmpq_mat

import veilsum as vs
from cases import each
from later import Later
from refusals import refused
from veilsum.questions.meta import MetaJob
from veilsum.questions.mixed import MixedJob
from veilsum.questions.regression import regression_formula_job
from veilsum.tables.frames import as_frame

mixed_linear_model = Later("statsmodels.regression.mixed_linear_model")

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

FOLDER = Path(__file__).parents[1] / "references"
R = json.loads((FOLDER / "sites.json").read_text("utf-8"))
COLUMNS = {
    "sleep": {"y": (150, 550, 0.0001), "x": (0, 9, 1)},
    "schools": {"lang": (0, 60, 1), "iq": (0, 20, 0.5), "ses": (5, 55, 1)},
    "oxboys": {"height": (120, 180, 0.01), "age": (-1, 1.01, 0.0001)},
}


@cache
def table(name):
    return pd.read_csv(FOLDER / f"sites_{name}.csv")


def parties(name, by="party"):
    rows = table(name)
    return {str(one): part for one, part in rows.groupby(by)}


def schema(name, **more):
    columns = {**COLUMNS[name], **more}
    return vs.Schema(
        tuple(
            vs.Column(one, "number", low, high, unit=unit)
            for one, (low, high, unit) in columns.items()
        ),
        minimum_rows=9,
    )


def fitted(job, tables):
    """What all parties' vectors come to, without anything between them."""
    own = {
        party: job.bring(job.schema.check(party, as_frame(part)))
        for party, part in tables.items()
    }
    return job.together(own)


def agree(found, reference, tolerance=1e-9):
    np.testing.assert_allclose(found, reference, rtol=tolerance)


# Effects of parties, absorbed


@each(
    ("name", "asked", "data"),
    [
        ("sleep", {"formula": "y ~ x"}, "sleep"),
        ("schools", {"formula": "lang ~ iq + ses"}, "schools"),
        ("weighed", {"formula": "lang ~ iq", "weights": "ses"}, "schools"),
    ],
)
def test_absorbed_effects_are_those_of_a_dummy_for_each_party(name, asked, data):
    job = regression_formula_job(schema(data), absorb=True, **asked)
    recipe, sums = fitted(job, parties(data))
    fit, reference = recipe.fit(sums), R["absorbed"][name]
    agree(fit.coefficients, reference["coefficients"])
    agree(fit.standard_errors, reference["errors"])
    agree(fit.p_values, reference["p"], 1e-6)  # as far out as 1e-91
    agree(fit.residual_variance**0.5, reference["sigma"])
    agree(fit.log_likelihood, reference["loglik"])
    assert fit.t_degrees == reference["df"]
    # Not the fit of one intercept for all, and rounding is as small as it is said.
    plain, one = fitted(regression_formula_job(schema(data), **asked), parties(data))
    assert abs(plain.fit(one).coefficients[1] / fit.coefficients[0] - 1) > 1e-3 or (
        name == "sleep"  # where all have the same days
    )
    off = np.abs(fit.coefficients - np.atleast_1d(reference["coefficients"]))
    assert (off <= fit.rounding_bound + 1e-13).all()


def within_exactly(tables, response, slopes):
    """The slopes in fractions, of which nothing is rounded: columns about means."""
    moments = fmpq_mat(len(slopes) + 1, len(slopes) + 1)
    for one in tables.values():
        columns = [
            [fmpq(*float(cell).as_integer_ratio()) for cell in one[name]]
            for name in (*slopes, response)
        ]
        centred = fmpq_mat([[c - sum(z) / len(z) for c in z] for z in columns])
        moments += centred * centred.transpose()
    p = len(slopes)
    rows = moments.tolist()
    gram = fmpq_mat([row[:p] for row in rows[:p]])
    solved = gram.solve(fmpq_mat([[row[p]] for row in rows[:p]]))
    return [float(Fraction(int(one.p), int(one.q))) for one in solved.entries()]


def test_a_panel_whose_parties_differ_far_keeps_ten_digits():
    """Taxes, roads and incomes differ between states, and little from year to year."""
    reference = json.loads((FOLDER / "absorb.json").read_text("utf-8"))
    rows = pd.read_csv(FOLDER / "absorb_fatalities.csv")
    states = {str(one): part for one, part in rows.groupby("party")}
    slopes = ["beertax", "unemp", "income", "miles"]
    asked = f"rate ~ {' + '.join(slopes)}"
    fit = vs.fit(asked, states, absorb=True, rules=vs.Rules.none()).fit
    exact = within_exactly(states, "rate", slopes)
    agree(fit.coefficients, exact, 1e-10)
    agree(fit.standard_errors, reference["errors"], 1e-10)
    agree(exact, reference["coefficients"], 1e-12)  # lm itself
    assert (np.abs(fit.coefficients - exact) <= fit.rounding_bound).all()


def some(n=6, rows=30, seed=0, spread=3.0):
    """Parties of different sizes, each with a level of its own."""
    chance = np.random.default_rng(seed)
    found = {}
    for k in range(n):
        size = rows + 3 * k
        x = chance.normal(0.3 * k, 1.0, size).round(2)
        flag = (chance.random(size) < 0.4).astype(int)
        y = (
            2.0 * x - flag + spread * chance.normal() + chance.normal(size=size)
        ).round(2)
        columns = {"x": x, "y": y, "flag": flag, "site": float(k)}
        found[f"p{k}"] = pd.DataFrame(columns)
    return found


def test_a_run_under_masks_is_the_fit_of_all_rows():
    result = vs.fit("y ~ x + flag", some(14), absorb=True, compare=True)
    assert result.max_error < 1e-9
    assert set(result.coefficients) == {"x", "flag"}
    assert "R-squared (within)" in result.summary()
    told = " ".join(result.guarantee.limits)
    assert "rounded for each party" in told
    assert "trying all numbers may tell" in told
    plain = vs.fit("y ~ x + flag", some())
    assert "rounded for each party" not in " ".join(plain.guarantee.limits)


@each(
    ("formula", "options", "said"),
    [
        ("y ~ x + site", {"rules": vs.Rules.none()}, "site is the same in all rows"),
        (
            "y ~ x + half",
            {
                "rules": vs.Rules.none(),
                "derived": {"half": {"of": "x", "as": "scale", "unit": 2}},
            },
            "linearly dependent",
        ),
        ("y ~ 0 + x", {}, "without 0 or -1"),
        ("y ~ 1", {}, "a column beside"),
        ("flag ~ x", {"family": "logistic"}, "found family = 'logistic'"),
        ("y ~ x", {"ridge": 1.0}, "without a ridge"),
        ("y ~ x + (1 | site)", {}, "\\[mixed\\]"),
    ],
)
def test_what_cannot_be_absorbed_is_said(formula, options, said):
    with pytest.raises(vs.InvalidInputError, match=said):
        vs.fit(formula, some(), absorb=True, **options)


def test_a_number_that_is_constant_at_a_site_is_fitted_from_the_others():
    """The same as with a dummy variable for every party, by numpy."""
    tables = some(14)
    tables["p3"] = tables["p3"].assign(x=0.5)
    found = vs.fit("y ~ x", tables, absorb=True, driver="vectorised")
    pooled = [one[["x", "y"]] - one[["x", "y"]].mean() for one in tables.values()]
    x, y = np.concatenate([one.to_numpy() for one in pooled]).T
    assert found.coefficients["x"] == pytest.approx(x @ y / (x @ x), rel=1e-9)
    # A response that is constant there is refused as before.
    tables["p3"] = some(14)["p3"].assign(y=0.5)
    with refused("group-too-small", vs.VeilsumError, mentions=("y",)):
        vs.fit("y ~ x", tables, absorb=True, driver="vectorised")


def test_a_category_with_one_level_at_a_site_is_fitted_from_the_others():
    """The same as with a dummy variable for every party, by numpy."""
    chance, tables = np.random.default_rng(8), {}
    for k in range(20):
        one = pd.DataFrame(chance.normal(size=(60, 2)).round(3), columns=[*"xy"])
        tables[f"p{k}"] = one.assign(ward=chance.choice([*"abc"], 60))
    tables["p3"]["ward"] = "b"
    found = vs.fit("y ~ x + C(ward)", tables, absorb=True, driver="vectorised")
    rows = [
        one.assign(b=one["ward"] == "b", c=one["ward"] == "c")[[*"xbcy"]].astype(float)
        for one in tables.values()
    ]
    left = np.concatenate([one.to_numpy() - one.mean().to_numpy() for one in rows])
    expected = np.linalg.lstsq(left[:, :3], left[:, 3], rcond=None)[0]
    np.testing.assert_allclose(found.params, expected, rtol=1e-8)


def test_a_party_with_one_row_has_nothing_left():
    tables = some()
    tables["p2"] = tables["p2"].head(1)
    with refused("too-few-rows", vs.InvalidInputError, mentions=("1",)):
        vs.fit("y ~ x", tables, absorb=True, rules=vs.Rules.none(), minimum_rows=1)


def test_few_parties_are_told_which_columns_to_leave_out():
    with refused("too-few-honest", vs.InvalidInputError):
        vs.fit("y ~ x + flag", some(5), absorb=True)


@pytest.mark.parametrize("formula", ["y ~ x + site", "y ~ x + C(site)"])
def test_a_column_that_names_the_site_is_told_what_to_do(formula):
    with refused("group-too-small", vs.InvalidInputError):
        vs.fit(formula, some())


# Mixed models


@each(
    ("name", "data", "formula", "random", "method"),
    [
        ("sleep_reml", "sleep", "y ~ x", ("1", "x"), "reml"),
        ("sleep_ml", "sleep", "y ~ x", ("1", "x"), "ml"),
        ("schools_reml", "schools", "lang ~ iq + ses", ("1",), "reml"),
        ("schools_ml", "schools", "lang ~ iq + ses", ("1",), "ml"),
        ("schools_slope", "schools", "lang ~ iq + ses", ("1", "iq"), "reml"),
        ("oxboys_reml", "oxboys", "height ~ age", ("1", "age"), "reml"),
        ("oxboys_ml", "oxboys", "height ~ age", ("1", "age"), "ml"),
    ],
)
def test_mixed_models_are_lme4s(name, data, formula, random, method):
    job = MixedJob.of(schema(data), formula=formula, random=random, method=method)
    recipe, sums = fitted(job, parties(data))
    fit, reference = recipe.fit(sums), R["mixed"][name]
    agree(fit.coefficients, reference["beta"])
    agree(fit.standard_errors, reference["errors"])
    agree(fit.residual_variance, reference["sigma2"], 1e-8)
    agree(fit.random_covariance.ravel(), reference["covariance"], 1e-7)
    agree(fit.criterion, reference["criterion"], 1e-11)
    # lme4's own search ends a little earlier.
    agree(fit.coefficients, reference["lme4_beta"], 1e-7)
    agree(fit.residual_variance**0.5, reference["lme4_sigma"], 1e-6)
    assert fit.log_likelihood >= reference["lme4_loglik"] - 1e-7
    agree([fit.aic, fit.bic], [reference["lme4_aic"], reference["lme4_bic"]], 1e-9)
    assert not fit.singular
    # The rules allow 15.
    assert len(sums) == fit.rounds <= 6


def test_a_mixed_model_has_the_names_of_every_fit_and_of_statsmodels():
    rules = vs.Rules(site_terms=True, release_fraction=5.0, most_rounds=40)
    given = {"schema": schema("sleep"), "rules": rules, "driver": "vectorised"}
    found = vs.mixed("y ~ x", parties("sleep"), **given)
    rows = table("sleep")
    model = mixed_linear_model.MixedLM.from_formula("y ~ x", rows, groups=rows["party"])
    theirs = model.fit(reml=True, gtol=1e-12)
    ours = found.conf_int(alpha=0.1), found.params, found.bse, found.pvalues
    fixed = ["Intercept", "x"]
    expected = (
        theirs.conf_int(alpha=0.1).loc[fixed],
        *(one[fixed] for one in (theirs.params, theirs.bse, theirs.pvalues)),
    )
    for one, other in zip(ours, expected, strict=True):
        # Its own search ends at six digits of the variances.
        np.testing.assert_allclose(one, other, rtol=1e-4)
        assert list(one.index) == fixed
    lines = found.to_frame(level=0.9)
    np.testing.assert_array_equal(lines[["low", "high"]], ours[0])


def test_parties_that_do_not_differ_are_singular():
    job = MixedJob.of(schema("sleep"), formula="y ~ x")
    rows = table("sleep").sort_values("y").reset_index(drop=True)
    dealt = {str(k): rows.iloc[k::18] for k in range(18)}
    recipe, sums = fitted(job, dealt)
    fit = recipe.fit(sums)
    assert fit.singular
    assert fit.random_covariance[0, 0] < 1e-6 * fit.residual_variance
    # As without random effects.
    plain, one = fitted(regression_formula_job(schema("sleep"), formula="y ~ x"), dealt)
    agree(fit.coefficients, plain.fit(one).coefficients, 1e-8)
    assert len(sums) <= 4
    free = vs.Rules(release_fraction=5.0, most_rounds=40)
    given = {"schema": schema("sleep"), "rules": free, "driver": "vectorised"}
    assert "use vs.fit" in vs.mixed("y ~ x", dealt, **given).summary()


def test_what_a_loosened_rule_opens_stands_beside_what_is_promised():
    """Five parties' sizes can be solved for: that is not for a folded list."""
    usual = {"minimum_rows": 10, "release_fraction": 5.0}
    rules = vs.Rules(site_terms=True, **usual)
    open_one = vs.mixed("y ~ x", some(5), rules=rules, driver="vectorised")
    solved = "number of rows can be solved for by any member"
    switched = "the rule against site terms is switched off (site_terms = true)"
    unfolded = open_one._repr_html_().split("<details")[0]
    for said in (repr(open_one), str(open_one), unfolded):
        line = " ".join(said.split())
        assert line.index("sees no difference") < line.index(solved)
        assert switched in line
        assert line.count(solved) == 1
    kept = vs.mixed("y ~ x", some(17), rules=vs.Rules(**usual), driver="vectorised")
    for said in (repr(kept), str(kept)):
        assert " ".join(said.split()).count(solved) == 1
        assert "switched off" not in said


def test_rounds_of_a_mixed_model_come_after_one_that_counts_members():
    result = vs.mixed("y ~ x + flag", some(17, 40), compare=True)
    assert result.max_error == 0.0
    assert result.fit.rounds == len(result.released.sums) - 1
    assert "rounded for each party" in " ".join(result.guarantee.limits)


def test_a_mixed_model_under_masks():
    result = vs.mixed("y ~ x", some(17), compare=True)
    assert result.max_error == 0.0
    text = result.summary()
    assert "Intraclass correlation" in text
    assert "no degrees of freedom are claimed" in text
    assert max(map(len, text.split("\n"))) <= 80
    assert "can be solved for" in " ".join(result.guarantee.limits)
    assert {"p0", "p1"}.isdisjoint(result.to_dict())
    between, within = (line["variance"] for line in result.variances())
    assert result.fit.icc == between / (between + within)


@each(
    ("asked", "said"),
    [
        ({"random": ["1", "z"]}, "'z', which is no column of the formula's design"),
        ({"random": []}, "1 to 4 different columns"),
        ({"random": ["1", "1"]}, "1 to 4 different columns"),
        ({"method": "bayes"}, "method must be reml or ml"),
        ({"formula": "y ~ 0 + x"}, "no column of the formula's design"),
        ({"formula": "y ~ x + (1 + x | site)"}, "\\[mixed\\], random"),
    ],
)
def test_what_is_no_mixed_model_is_said(asked, said):
    with pytest.raises(vs.InvalidInputError, match=said):
        vs.mixed(**{"formula": "y ~ x", "data": some(17), **asked})


def test_columns_and_variances_that_are_not_there_are_said():
    free = {"rules": vs.Rules.none()}
    tables = some(4)
    with refused("dependent-columns", vs.InvalidInputError):
        half = {"half": {"of": "x", "as": "scale", "unit": 2}}
        vs.mixed("y ~ x + half", tables, derived=half, **free)
    exact = {name: one.assign(y=one["x"] * 2) for name, one in tables.items()}
    with refused("perfect-fit", vs.InvalidInputError):
        vs.mixed("y ~ x", exact, **free)


# Meta-analysis


@each(
    ("name", "data", "asked"),
    [
        ("sleep", "sleep", {"formula": "y ~ x", "coefficient": "x"}),
        (
            "schools",
            "schools",
            {"formula": "lang ~ iq + ses", "coefficient": "iq"},
        ),
        (
            "passed",
            "schools",
            {"formula": "passed ~ iq", "coefficient": "iq", "family": "logistic"},
        ),
    ],
)
def test_pooled_estimates_are_those_of_formulas(name, data, asked):
    tables, known = parties(data), schema(data)
    if name == "passed":
        rows = table("schools").assign(passed=lambda t: (t["lang"] > 40).astype(float))
        groups = rows["party"].map(
            {p: k for k, p in enumerate(dict.fromkeys(rows["party"]))}
        )
        tables = {f"g{k}": one for k, one in rows.groupby(groups // 5)}
        known = schema("schools", passed=(0, 1, 1))
    ranges = {"effects": (-30, 30), "errors": (0.01, 10)}
    recipe, sums = fitted(MetaJob.of(known, **asked, **ranges), tables)
    fixed, random = recipe.pooled(sums)
    reference = R["meta"][name]
    agree(fixed.coefficients, reference["fixed"])
    agree(fixed.standard_errors, reference["fixed_error"])
    agree(random.coefficients, reference["random"])
    agree(random.standard_errors, reference["random_error"])
    agree(fixed.q, reference["Q"])
    agree(fixed.tau2, reference["tau2"], 1e-8)
    agree(fixed.i_squared, reference["I2"])
    agree(fixed.q_p_value, reference["p"], 1e-8)
    assert fixed.n_studies == reference["k"]


def test_a_meta_analysis_under_masks():
    result = vs.meta("y ~ x", some(), coefficient="x", compare=True)
    assert result.max_error == 0.0
    text = result.summary()
    assert "no study's own estimate is shown" in text
    assert max(map(len, text.split("\n"))) <= 80
    # Two lines of intervals, and nobody's own.
    assert len(result.forest().split("\n")) == 3
    assert len(result.to_dict()["table"]) == 2


@each(
    ("asked", "said"),
    [
        ({"coefficient": "z"}, "'z', which is no column"),
        ({"effects": (0, 5)}, "effects and errors go together"),
        ({"effects": (5, 0), "errors": (0.1, 1)}, "found 5 to 0"),
        ({"effects": (0, 5), "errors": (0, 1)}, "above 0"),
        ({"effects": (0, 1), "errors": (0.01, 1)}, "p0: the estimate of x is"),
    ],
)
def test_what_is_no_meta_analysis_is_said(asked, said):
    with pytest.raises(vs.InvalidInputError, match=said):
        vs.meta("y ~ x", some(), **{"coefficient": "x", **asked})


def test_a_party_that_cannot_fit_alone_is_named():
    tables = some()
    tables["p3"]["flag"] = 0
    free = {"rules": vs.Rules.none()}
    with refused("zero-column", vs.InvalidInputError):
        vs.meta("y ~ x + flag", tables, coefficient="x", **free)


def test_a_column_that_no_table_has_is_looked_for_in_the_tables():
    """Nobody gave a schema, so nothing is said of one."""
    with pytest.raises(vs.InvalidInputError) as told:
        vs.fit("y ~ flagg", some(6), driver="vectorised")
    assert "no table has a column 'flagg'; did you mean 'flag'?" in str(told.value)
    assert "the tables' columns are" in str(told.value)
    assert "schema" not in str(told.value)
