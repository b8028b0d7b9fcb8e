"""Four and six digits: 62 fits beside statsmodels."""

import warnings

import numpy as np
import pytest

from later import Later
from plans.ordinary import DIABETES, DOCTOR, TABLES, derived_in
from refusals import refused
from veilsum.questions.regression import fit
from veilsum.tables.rules import Rules

smf = Later("statsmodels.formula.api")
LAWS = Later("statsmodels.genmod.families")
LINKS = Later("statsmodels.genmod.families.links")

FAMILIES = {
    "logistic": lambda: LAWS.Binomial(),
    "poisson": lambda: LAWS.Poisson(),
    "quasi-poisson": lambda: LAWS.Poisson(),
    "gamma-inverse": lambda: LAWS.Gamma(),
    "probit": lambda: LAWS.Binomial(LINKS.Probit()),
    "cloglog": lambda: LAWS.Binomial(LINKS.CLogLog()),
    "gamma": lambda: LAWS.Gamma(LINKS.Log()),
    "negative-binomial": lambda: LAWS.NegativeBinomial(alpha=ALPHA),
}
DISPERSED = ("quasi-poisson", "gamma-inverse", "gamma")
ALPHA = 0.7
SIX = "mean_radius + mean_texture + mean_smoothness + mean_symmetry + mean_concavity"
BY_DATA = {
    ("anes96", "logistic"): (
        "vote ~ selflr",
        "vote ~ selflr + age",
        "vote ~ selflr + age + C(school) + income",
        "vote ~ C(side) + age",
        "vote ~ C(school) * age",
        "vote ~ income + income_2",
    ),
    ("breast cancer", "logistic"): (
        "malignant ~ mean_radius",
        "malignant ~ mean_texture",
        "malignant ~ mean_radius + mean_texture",
        f"malignant ~ {SIX}",
        "malignant ~ mean_smoothness + mean_symmetry",
    ),
    ("diabetes", "logistic"): (
        "high ~ bmi",
        "high ~ bmi + bp + s5",
        "high ~ C(sex) * bmi",
        f"high ~ {DIABETES}",
    ),
    ("fair", "logistic"): (
        "any ~ age",
        "any ~ age + yrs_married",
        "any ~ age + yrs_married + educ + C(religious)",
        "any ~ C(marriage) * children",
    ),
    ("fair, 600 rows", "logistic"): ("any ~ age + yrs_married", "any ~ C(occupation)"),
    ("modechoice", "logistic"): (
        "choice ~ ttme + invc + invt + hinc + C(mode)",
        "choice ~ ttme",
    ),
    ("star98", "logistic"): (
        "poor ~ perhisp",
        "poor ~ perhisp + avyrsexp + ptratio",
    ),
    ("spector", "logistic"): ("grade ~ gpa + psi",),
    ("heart", "logistic"): ("censors ~ age",),
    ("lung", "logistic"): ("survived ~ age + sex", "survived ~ age + wt_loss"),
    ("cancer", "poisson"): ("cancer ~ log_population", "cancer ~ population"),
    ("fair", "poisson"): ("children ~ age + yrs_married + C(marriage)",),
    ("randhie", "poisson"): (f"mdvis ~ {DOCTOR}", "mdvis ~ lpi + disea + idp"),
    ("randhie, 900 rows", "poisson"): (
        "mdvis ~ lpi + disea + lncoins",
        "mdvis ~ disea",
    ),
    ("randhie, 400 rows", "quasi-poisson"): ("mdvis ~ lpi + disea", "mdvis ~ lncoins"),
    ("committee", "poisson"): ("bills104 ~ size + subs", "bills104 ~ size"),
    ("cpunish", "poisson"): ("executions ~ income + south",),
    ("diabetes", "gamma-inverse"): ("progression ~ bmi + bp + s5",),
    ("iris", "gamma-inverse"): ("petal_length ~ sepal_length",),
    ("wine", "gamma-inverse"): ("proline ~ alcohol + ash + color_intensity",),
    ("nile", "gamma-inverse"): ("volume ~ year",),
    ("anes96", "probit"): (
        "vote ~ selflr",
        "vote ~ selflr + age + C(school) + income",
        "vote ~ C(school) * age",
    ),
    ("breast cancer", "probit"): (f"malignant ~ {SIX}",),
    ("fair", "probit"): ("any ~ age + yrs_married + educ + C(religious)",),
    ("spector", "probit"): ("grade ~ gpa + psi",),
    ("anes96", "cloglog"): ("vote ~ selflr + age + C(school) + income",),
    ("breast cancer", "cloglog"): ("malignant ~ mean_radius + mean_texture",),
    ("fair", "cloglog"): ("any ~ age + yrs_married + educ + C(religious)",),
    ("diabetes", "gamma"): ("progression ~ bmi + bp + s5", f"progression ~ {DIABETES}"),
    ("wine", "gamma"): ("proline ~ alcohol + ash + color_intensity",),
    ("nile", "gamma"): ("volume ~ year",),
    ("randhie", "negative-binomial"): (
        f"mdvis ~ {DOCTOR}",
        "mdvis ~ lpi + disea + idp",
    ),
    ("randhie, 400 rows", "negative-binomial"): ("mdvis ~ lpi + disea",),
    ("fair", "negative-binomial"): ("children ~ age + yrs_married + C(marriage)",),
}
PAIRS = [(*key, one) for key, formulas in BY_DATA.items() for one in formulas]


# Values of derived columns.
WORTH = {
    "income_2": lambda frame: frame["income"] ** 2,
    "log_population": lambda frame: np.log(frame["population"]),
}


def by_statsmodels(formula, frame, family):
    model = smf.glm(
        formula,
        frame.assign(**{name: WORTH[name](frame) for name in derived_in(formula)}),
        family=FAMILIES[family](),
    )
    scale = "X2" if family in DISPERSED else None
    return model.fit(tol=1e-14, tol_criterion="params", maxiter=300, scale=scale)


@pytest.mark.parametrize(
    ("data", "family", "formula"), PAIRS, ids=[f"{one[0]}: {one[2]}" for one in PAIRS]
)
def test_digits_are_kept_as_promised(data, family, formula):
    frame = TABLES[data]()
    with warnings.catch_warnings():
        # This link has no mean below 0, and none occurs here.
        warnings.simplefilter("ignore")
        theirs = by_statsmodels(formula, frame, family)
    params, errors = theirs.params, theirs.bse
    parts = {f"party {k}": frame[k::4] for k in range(4)}
    for digits in (4, 6):
        found = fit(
            formula,
            parts,
            family=family,
            digits=digits,
            alpha=ALPHA if family == "negative-binomial" else None,
            derived=derived_in(formula),
            rules=Rules.none(),
            minimum_rows=1,
            driver="vectorised",
            seed=1,
        )
        away = (found.params - params) / errors
        assert away.abs().max() <= 10.0**-digits
        assert (found.bse / errors - 1.0).abs().max() <= 10.0**-digits


def test_there_are_at_least_forty():
    assert len(PAIRS) >= 60


def test_families_without_these_rounds_have_no_digits():
    frame = TABLES["diabetes"]()
    parts = {f"party {k}": frame[k::4] for k in range(4)}
    for family in ("gaussian", "inverse-gaussian", "negative-binomial"):
        with refused("digits-without-rounds"):
            fit("high ~ bmi", parts, family=family, digits=4)
    for digits in (1, 13):
        with refused("digits-out-of-range"):
            fit("high ~ bmi", parts, family="logistic", digits=digits)
