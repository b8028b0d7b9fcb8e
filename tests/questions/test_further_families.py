"""Families beyond the usual ones, on real data, against statsmodels."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from cases import each
from finest import finest
from later import Later
from refusals import refused

sm = Later("statsmodels.api")

FOLDER = Path(__file__).parents[1] / "references"
F = Later("statsmodels.genmod.families")
LINKS = Later("statsmodels.genmod.families.links")


def choices():
    data = sm.datasets.modechoice.load_pandas().data
    return data, "choice ~ ttme + gc + hinc", {}


def affairs():
    data = sm.datasets.fair.load_pandas().data
    data["any"] = (data["affairs"] > 0).astype(int)
    return data, "any ~ age + yrs_married + religious", {}


def districts():
    data = sm.datasets.star98.load_pandas().data
    data["tested"] = data["NABOVE"] + data["NBELOW"]
    data["share"] = data["NABOVE"] / data["tested"]
    return data, "share ~ LOWINC + PERBLACK + PERHISP", {"weights": "tested"}


def elections():
    data = sm.datasets.anes96.load_pandas().data
    data["share"] = data["TVnews"] / 7.0
    return data, "share ~ age + educ", {}


def counties():
    data = sm.datasets.cancer.load_pandas().data
    data["people"] = data["population"] / 1000.0
    return data, "cancer ~ people", {}


def visits():
    data = sm.datasets.randhie.load_pandas().data[::20]
    return data, "mdvis ~ lncoins + physlm + disea", {}


def volumes():
    data = sm.datasets.nile.load_pandas().data
    data["level"], data["since"] = data["volume"] / 1000.0, data["year"] - 1920.0
    return data, "level ~ since", {}


def councils():
    data = sm.datasets.scotland.load_pandas().data
    return data, "YES ~ COUTAX + UNEMPF", {}


CASES = [
    ("probit", lambda: F.Binomial(LINKS.Probit()), choices),
    ("probit", lambda: F.Binomial(LINKS.Probit()), affairs),
    ("cloglog", lambda: F.Binomial(LINKS.CLogLog()), choices),
    ("cloglog", lambda: F.Binomial(LINKS.CLogLog()), affairs),
    ("quasi-binomial", lambda: F.Binomial(), districts),
    ("quasi-binomial", lambda: F.Binomial(), elections),
    ("quasi-poisson", lambda: F.Poisson(), counties),
    ("quasi-poisson", lambda: F.Poisson(), visits),
    ("inverse-gaussian", lambda: F.InverseGaussian(), volumes),
    ("inverse-gaussian", lambda: F.InverseGaussian(), councils),
]


@each(
    ("family", "theirs", "case"), CASES, ids=[f"{a}-{c.__name__}" for a, _, c in CASES]
)
def test_the_fit_is_that_of_the_pooled_rows(family, theirs, case):
    data, formula, extra = case()
    parts = {f"site {k}": data[k::4] for k in range(4)}
    found = vs.fit(
        formula,
        parts,
        rules=vs.Rules.none(),
        driver="vectorised",
        **finest(family, **extra),
    )
    weights = None if not extra else data[extra["weights"]]
    with warnings.catch_warnings():
        # It warns that the canonical link allows means below zero; none occur here.
        warnings.simplefilter("ignore", sm.tools.sm_exceptions.DomainWarning)
        model = sm.GLM.from_formula(formula, data, family=theirs(), var_weights=weights)
        scale = "X2" if family.startswith("quasi") else None
        wanted = model.fit(
            tol=1e-14, tol_criterion="params", maxiter=300, scale=scale, use_t=True
        )
    fit = found.fit
    np.testing.assert_allclose(fit.coefficients, wanted.params, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit.standard_errors, wanted.bse, rtol=1e-9)
    assert fit.deviance == pytest.approx(wanted.deviance, rel=1e-9)
    assert fit.null_deviance == pytest.approx(wanted.null_deviance, rel=1e-9)
    if family.startswith("quasi"):
        assert found.to_dict()["aic"] is None
        assert "nan" not in found.summary()
    else:
        assert fit.log_likelihood == pytest.approx(wanted.llf, rel=1e-9)


def test_a_hazard_of_2000_is_fitted_as_by_r_under_default_rules():
    """Values of references/models.R; its largest fitted predictor is 7.6.

    R bounds chances away from 0 and 1 by 2e-16, so its optimum is another by 2e-7.
    """
    expected = json.loads((FOLDER / "models.json").read_text())
    data = pd.read_csv(FOLDER / "models_hmda.csv")
    parts = {f"site {k}": data[k::5] for k in range(5)}
    found = vs.fit(
        "deny ~ pirat + lvrat + C(afam)",
        parts,
        driver="vectorised",
        **finest("cloglog"),
    )
    np.testing.assert_allclose(found.params, expected["hmda coefficients"], rtol=1e-6)
    np.testing.assert_allclose(found.bse, expected["hmda errors"], rtol=1e-6)
    ends = [found.llf, found.fit.deviance, found.fit.null_deviance]
    np.testing.assert_allclose(ends, expected["hmda fit"][:3], rtol=1e-9)
    assert len(found.released.sums) <= 10


def test_ratios_are_named_as_the_link_has_them():
    data, formula, _ = choices()
    parts = {f"site {k}": data[k::4] for k in range(4)}

    def fitted(family):
        options = {"rules": vs.Rules.none(), "driver": "vectorised"}
        return vs.fit(formula, parts, family=family, **options)

    assert "ratio of hazards" in fitted("cloglog").summary(exponentiate=True)
    with refused("not-a-ratio"):
        fitted("probit").summary(exponentiate=True)


def test_a_response_that_is_no_share_is_refused():
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.linspace(0.0, 1.2, 40)})
    parts = {f"site {k}": frame[k::4] for k in range(4)}
    with refused("response-not-share", mentions=("0", "1")):
        vs.fit("y ~ x", parts, family="quasi-binomial", rules=vs.Rules.none())
