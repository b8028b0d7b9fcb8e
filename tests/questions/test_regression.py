"""Regressions over several parties are the pooled ones, digit for digit."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from cases import each
from finest import finest
from later import Later
from refusals import refused
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.files import datasets
from veilsum.fits.formula_job import FormulaJob
from veilsum.fits.model import family_of_fit
from veilsum.models.newton import Newton
from veilsum.questions.regression import fit, fit_arrays
from veilsum.tables.rules import Rules
from veilsum.tables.schema import Schema

sm = Later("statsmodels.api")
smf = Later("statsmodels.formula.api")

# Relative; statsmodels itself is refitted as far as float64 goes.
CLOSE = 1e-8


def pooled(data):
    return pd.concat(list(data.values()), ignore_index=True)


def assert_same(result, reference):
    found = result.fit
    for mine, theirs in (
        (found.coefficients, reference.params),
        (found.standard_errors, reference.bse),
        (found.statistics, reference.tvalues),
        (found.p_values, reference.pvalues),
    ):
        np.testing.assert_allclose(mine, np.asarray(theirs), rtol=CLOSE, atol=1e-300)
    assert found.log_likelihood == pytest.approx(reference.llf, rel=CLOSE)
    np.testing.assert_allclose(
        found.confidence_intervals(), np.asarray(reference.conf_int()), rtol=1e-7
    )


def refitted(formula, frame, family, **how):
    model = smf.glm(formula, frame, family=family, **how)
    return model.fit(tol=1e-14, maxiter=200)


def test_least_squares_of_the_diabetes_study():
    data = datasets.diabetes()
    formula = "progression ~ C(sex) + age + bmi + bp + s1 + s2 + s3 + s4 + s5 + s6"
    result = fit(formula, data, minimum_rows=80, compare=True, seed=1)
    reference = smf.ols(formula, pooled(data)).fit()
    assert_same(result, reference)
    assert result.fit.r_squared == pytest.approx(reference.rsquared, rel=CLOSE)
    assert result.fit.aic == pytest.approx(reference.aic, rel=CLOSE)
    assert result.max_error < 1e-8
    assert result.fit.n_rows == 442


FIVE = "mean_radius + mean_texture + mean_smoothness + mean_compactness + mean_symmetry"


def test_logistic_regression_of_tumours():
    data = datasets.breast_cancer()
    formula = f"malignant ~ {FIVE}"
    result = fit(formula, data, **finest("logistic"), compare=True, seed=1)
    reference = refitted(formula, pooled(data), sm.families.Binomial())
    assert_same(result, reference)
    assert result.fit.deviance == pytest.approx(reference.deviance, rel=CLOSE)
    assert result.fit.null_deviance == pytest.approx(reference.null_deviance, rel=CLOSE)
    assert result.max_error < 1e-9


def test_ridge_on_all_columns_of_the_tumours():
    """Against the penalised score equations, solved by another road."""
    data = datasets.breast_cancer()
    names = [n for n in pooled(data).columns if n != "malignant"]
    schema = Schema.inferred(data, minimum_rows=100)
    result = fit(
        "malignant ~ " + " + ".join(names),
        data,
        **finest("logistic"),
        ridge=1.0,
        schema=schema,
        rules=Rules(maximum_influence=0.99),  # 31 columns with long tails
        driver="vectorised",
        seed=1,
    )
    frame = pooled(data)
    design = np.column_stack([np.ones(len(frame)), frame[names].to_numpy()])
    expected = penalised_logistic(design, frame["malignant"].to_numpy(float), 1.0)
    np.testing.assert_allclose(result.fit.coefficients, expected, rtol=CLOSE)
    mu = 1.0 / (1.0 + np.exp(-design @ expected))
    information = (design * (mu * (1.0 - mu))[:, None]).T @ design
    penalty = np.diag([0.0] + [1.0] * len(names))
    # Columns of unit length: the plain matrix has a condition of 1e13.
    scale = 1.0 / np.sqrt(np.diag(information + penalty))
    inverse = np.linalg.inv((information + penalty) * np.outer(scale, scale))
    inverse = inverse * np.outer(scale, scale)
    errors = np.sqrt(np.diag(inverse @ information @ inverse))
    np.testing.assert_allclose(result.fit.standard_errors, errors, rtol=CLOSE)
    y = frame["malignant"].to_numpy(float)
    likelihood = -np.logaddexp(0.0, (1.0 - 2.0 * y) * (design @ expected)).sum()
    assert result.fit.log_likelihood == pytest.approx(likelihood, rel=CLOSE)


def penalised_logistic(design, response, ridge):
    """Minimise deviance + ridge |b|^2, the intercept free, in scaled columns."""
    scale = np.linalg.norm(design, axis=0)
    x = design / scale
    penalty = np.full(x.shape[1], ridge) / scale**2
    penalty[0] = 0.0
    b = np.zeros(x.shape[1])
    for _ in range(100):
        mu = 1.0 / (1.0 + np.exp(-x @ b))
        slope = x.T @ (response - mu) - penalty * b
        matrix = (x * (mu * (1 - mu))[:, None]).T @ x + np.diag(penalty)
        step = np.linalg.lstsq(matrix, slope, rcond=None)[0]
        b = b + step
        if np.abs(step).max() < 1e-13 * np.abs(b).max():
            break
    return b / scale


def test_lung_patients_of_eighteen_institutions():
    data = datasets.lung()
    formula = "survived ~ age + sex + ecog + wt_loss"
    result = fit(
        formula,
        data,
        **finest("logistic"),
        topology="circulant:18:1,4",
        tolerate=2,
        minimum_rows=1,
        rules=Rules.none(),  # institutions with one patient
        compare=True,
        seed=1,
    )
    complete = pooled(data).dropna(subset=["age", "sex", "ecog", "wt_loss"])
    assert_same(result, refitted(formula, complete, sm.families.Binomial()))
    ratios = np.exp(result.fit.coefficients[1:])
    np.testing.assert_allclose(ratios, [1.006, 1.542, 0.607, 1.015], atol=5e-4)
    assert result.dropped == len(pooled(data)) - len(complete)
    assert result.guarantee.status == "private"


def test_poisson_regression_of_doctor_visits():
    data = datasets.randhie()
    columns = "lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"
    formula = f"mdvis ~ {columns}"
    result = fit(formula, data, **finest("poisson"), driver="vectorised", seed=1)
    assert_same(result, refitted(formula, pooled(data), sm.families.Poisson()))


@pytest.fixture(scope="module")
def counts():
    stream = np.random.default_rng(3)
    frame = pd.DataFrame({"x": stream.normal(size=400), "z": stream.uniform(size=400)})
    mean = np.exp(0.3 + 0.4 * frame["x"] - 0.6 * frame["z"])
    frame["size"] = stream.uniform(0.5, 2.0, size=400)
    frame["logsize"] = np.log(frame["size"])
    frame["count"] = stream.poisson(mean * frame["size"]).astype(float)
    frame["amount"] = stream.gamma(2.0, mean / 2.0)
    frame["weight"] = stream.integers(1, 4, size=400).astype(float)
    return {f"site-{k}": frame.iloc[80 * k : 80 * k + 80] for k in range(5)}


FAMILIES = {
    "poisson": ("count", "poisson", None, lambda: sm.families.Poisson()),
    "gamma": (
        *("amount", "gamma", None),
        lambda: sm.families.Gamma(sm.families.links.Log()),
    ),
    "negative binomial": (
        *("count", "negative-binomial", 0.7),
        lambda: sm.families.NegativeBinomial(alpha=0.7),
    ),
}


@each("weighted", [False, True])
@each("name", FAMILIES)
def test_families_with_offsets_and_weights(counts, name, weighted):
    response, family, alpha, theirs = FAMILIES[name]
    formula, frame = f"{response} ~ x + z", pooled(counts)
    result = fit(
        formula,
        counts,
        **finest(family, alpha=alpha),
        offset="logsize",
        weights="weight" if weighted else None,
        driver="vectorised",
        seed=1,
    )
    how = {"var_weights": frame["weight"]} if weighted else {}
    reference = refitted(formula, frame, theirs(), offset=frame["logsize"], **how)
    np.testing.assert_allclose(result.fit.coefficients, reference.params, rtol=CLOSE)
    np.testing.assert_allclose(result.fit.standard_errors, reference.bse, rtol=CLOSE)
    if name != "gamma":  # theirs divides by another estimate of the dispersion
        assert result.fit.log_likelihood == pytest.approx(reference.llf, rel=CLOSE)


def test_weighted_least_squares(counts):
    formula, frame = "amount ~ x + z", pooled(counts)
    result = fit(formula, counts, weights="weight", seed=1)
    assert_same(result, smf.wls(formula, frame, weights=frame["weight"]).fit())


def test_ridge_least_squares_in_closed_form(counts):
    frame = pooled(counts)
    result = fit("amount ~ x + z", counts, ridge=3.0, compare=True, seed=1)
    x = np.column_stack([np.ones(400), frame["x"], frame["z"]])
    matrix = x.T @ x + np.diag([0.0, 3.0, 3.0])
    expected = np.linalg.solve(matrix, x.T @ frame["amount"].to_numpy())
    np.testing.assert_allclose(result.fit.coefficients, expected, rtol=1e-10)
    np.testing.assert_allclose(result.reference, expected, rtol=1e-10)


def test_the_summary_has_what_was_found(counts):
    result = fit("count ~ x + z", counts, family="poisson", seed=1)
    text = result.summary()
    assert "Intercept" in text
    assert "Parties:" in text
    assert "Released to every party" in text
    assert set(result.coefficients) == {"Intercept", "x", "z"}
    assert "<table" in result._repr_html_()
    assert repr(result).startswith(text)
    assert "Each of the" in repr(result)


def test_json_has_the_contract_and_the_table(counts):
    found = fit("count ~ x + z", counts, family="poisson", compare=True).to_dict()
    for key in ("minimiser", "reference", "max_error", "sum_of_masks", "iterations"):
        assert key in found
    assert {"rounds", "bytes", "guarantee"} <= found.keys()
    assert [row["name"] for row in found["table"]] == ["Intercept", "x", "z"]
    keys = {"name", "coefficient", "standard_error", "statistic", "p", "low", "high"}
    assert set(found["table"][0]) == keys


# Bad input


def test_a_singular_design_names_its_columns(counts):
    twice = {p: frame.assign(again=2 * frame["x"]) for p, frame in counts.items()}
    with refused("dependent-columns"):
        fit("amount ~ x + z + again", twice)


@pytest.mark.parametrize("driver", ["loopback", "vectorised"])
def test_separation_names_the_column(counts, driver):
    split = {p: f.assign(yes=(f["x"] > 0).astype(int)) for p, f in counts.items()}
    with refused("party-objected", mentions=(" of x ",)):
        fit("yes ~ x + z", split, family="logistic", driver=driver)


def test_a_response_that_the_family_never_yields_names_the_party(counts):
    wrong = dict(counts)
    wrong["site-3"] = wrong["site-3"].assign(count=-1.0)
    with refused("response-not-count", mentions=("0,", "1,", "2")):
        fit("count ~ x + z", wrong, family="poisson")


def test_a_missing_column_names_party_and_column(counts):
    wrong = dict(counts)
    wrong["site-2"] = wrong["site-2"].drop(columns=["z"])
    schema = Schema.inferred(counts)
    with refused("missing-column", mentions=("z",)):
        fit("count ~ x + z", wrong, schema=schema)


def test_an_unknown_family_and_an_alpha_too_many(counts):
    with refused("unknown-family"):
        fit("count ~ x", counts, family="cauchy")
    with refused("alpha-without-family"):
        fit("count ~ x", counts, family="poisson", alpha=1.0)


def test_a_fit_that_does_not_end_returns_nothing(counts):
    """Mean 1e200: no step can be taken that float64 could follow."""
    arrays = {
        p: (np.ones((len(f), 1)), np.full(len(f), 1e40)) for p, f in counts.items()
    }
    with pytest.raises((NumericalError, InvalidInputError)):
        fit_arrays(arrays, family="poisson", driver="vectorised")


def test_designs_of_different_widths_are_refused(counts):
    arrays = {p: (f[["x", "z"]].to_numpy(), f["count"]) for p, f in counts.items()}
    arrays["site-0"] = (np.ones((80, 3)), np.ones(80))
    with refused("column-counts-differ"):
        fit_arrays(arrays)


def test_arrays_with_weights_and_an_intercept(counts):
    frame = pooled(counts)
    arrays = {
        p: (np.column_stack([np.ones(len(f)), f["x"], f["z"]]), f["amount"])
        for p, f in counts.items()
    }
    weights = {p: f["weight"].to_numpy() for p, f in counts.items()}
    result = fit_arrays(
        arrays, names=["one", "x", "z"], intercept=0, weights=weights, compare=True
    )
    x = np.column_stack([np.ones(400), frame["x"], frame["z"]])
    reference = sm.WLS(frame["amount"].to_numpy(), x, frame["weight"]).fit()
    assert_same(result, reference)
    np.testing.assert_allclose(result.reference, reference.params, rtol=1e-9)


def test_too_few_rows_are_not_sent(counts):
    short = {**counts, "site-0": counts["site-0"].head(3)}
    with refused("too-few-rows"):
        fit("count ~ x", short)
    arrays = {p: (f[["x"]].to_numpy(), f["count"]) for p, f in short.items()}
    with refused("row-count-refused", mentions=("3",)):
        fit_arrays(arrays, rules=Rules(minimum_rows=4))


def test_columns_that_a_formula_does_not_name_may_be_anything(counts):
    odd = {p: f.assign(note="fine") for p, f in counts.items()}
    odd["site-1"] = odd["site-1"].drop(columns=["note"]).assign(note=1.0)
    odd["site-2"] = odd["site-2"].drop(columns=["note"])
    assert fit("count ~ x", odd, driver="vectorised").fit.n_rows == 400
    without = {**counts, "site-2": counts["site-2"].drop(columns=["x"])}
    with refused("missing-column", mentions=("x",)):
        fit("count ~ x", without)
    comma = {**counts, "site-2": counts["site-2"].assign(x="1,5")}
    with refused("kind-not-inferred"):
        fit("count ~ x", comma)


def test_a_row_without_a_mean_stops_nobody_but_the_step(counts):
    """One row far out, at one party: steps are halved from the sum of such rows."""
    stream = np.random.default_rng(9)
    arrays = {}
    for k, party in enumerate(counts):
        x = np.column_stack([np.ones(40), stream.uniform(1, 2, size=40)])
        y = stream.gamma(5.0, 1.0 / (x @ [1.0, 0.5]) / 5.0)
        if k == 3:
            x[0, 1], y[0] = 40.0, 1e-9
        arrays[party] = (x, y)
    found = fit_arrays(
        arrays,
        family="gamma-inverse",
        intercept=0,
        rules=Rules.none(minimum_rows=40, release_fraction=0.5),
    )
    assert np.isfinite(found.fit.coefficients).all()


def test_separation_is_named_before_the_limit_stops_a_fit(counts):
    split = {p: f.assign(yes=(f["x"] > 0).astype(int)) for p, f in counts.items()}
    short = {p: f.head(40) for p, f in split.items()}
    with refused("party-objected", mentions=(" of x ",)):
        fit("yes ~ x", short, family="logistic", driver="vectorised")


def test_terms_that_promise_less_say_so(counts):
    arrays = {p: (f[["x", "z"]].to_numpy(), f["count"]) for p, f in counts.items()}
    free = fit_arrays(arrays, rules=Rules(release_fraction=2.0), tolerate=0)
    said = " ".join(free.guarantee.limits)
    assert "enough to solve for rows" in said
    assert "tolerate = 0" in said
    usual = " ".join(fit_arrays(arrays).guarantee.limits)
    assert "solve for rows" not in usual
    assert "tolerate = 0" not in usual


def test_tiny_columns_are_fitted_as_well_as_others(counts):
    """Units follow a column's range; the grid once rounded such a column away."""
    small = {p: f.assign(z=1e-13 * f["z"]) for p, f in counts.items()}
    found = fit("amount ~ x + z", small, driver="vectorised").fit
    usual = fit("amount ~ x + z", counts, driver="vectorised").fit
    np.testing.assert_allclose(found.statistics, usual.statistics, rtol=1e-9)


def test_weights_that_are_not_positive_name_the_party(counts):
    wrong = {**counts, "site-1": counts["site-1"].assign(weight=0.0)}
    with refused("weights-not-positive"):
        fit("amount ~ x", wrong, weights="weight")


def test_a_fit_takes_less_than_twice_its_tables_in_memory():
    """Tables, designs and what is computed on the way, beside the caller's tables."""
    stream, names = np.random.default_rng(8), [*(f"x{k}" for k in range(10)), "y"]
    data = {
        party: pd.DataFrame(stream.normal(size=(40_000, 11)), columns=names)
        for party in "abcde"
    }
    formula = f"y ~ {' + '.join(names[:-1])}"
    for _ in range(2):  # what is imported and compiled on the way is there then
        fit(formula, data)
    tracemalloc.start()
    try:
        fit(formula, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.9 * sum(frame.to_numpy().nbytes for frame in data.values())


def test_a_schema_read_off_tables_leaves_them_as_they_are(counts):
    coded = {p: f.assign(kind=f["count"] % 3) for p, f in counts.items()}
    before = {p: f.copy() for p, f in coded.items()}
    fit("amount ~ x + C(kind)", coded, driver="vectorised")
    for party, frame in coded.items():
        pd.testing.assert_frame_equal(frame, before[party])


@pytest.mark.parametrize("formula", ["amount ~ x + z", "amount ~ x * z + log_w"])
def test_columns_of_table_and_design_are_held_once(counts, formula):
    schema = Schema.inferred(counts)
    schema = schema.with_derived({"log_w": {"of": "weight", "as": "log"}})
    job = FormulaJob.of(formula, schema, family_of_fit("gaussian"))
    table = job.schema.check("site-1", counts["site-1"])
    own = job.bring(table)
    pd.testing.assert_frame_equal(own.table.frame, table.frame)
    for place, name in enumerate(job.formula.columns):
        if name in job.schema:
            held = own.table.frame[name].to_numpy()
            assert np.shares_memory(held, own.rows.design[:, place])
            assert (held == own.rows.design[:, place]).all()


def test_units_of_rounds_follow_once_from_the_agreement(counts, monkeypatch):
    """Not once for each party and round: that took a tenth of a logistic fit."""
    made, plain = [], Newton.__post_init__

    def noted(newton):
        made.append(newton)
        plain(newton)

    monkeypatch.setattr(Newton, "__post_init__", noted)
    result = fit("count ~ x", counts, family="poisson", driver="vectorised")
    assert len(result.released.sums) > 2
    assert len(made) <= 2
