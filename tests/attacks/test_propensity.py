"""A propensity cannot be aimed: weights that lie on one row, in a fit or in its errors.

Whoever writes the file chooses the coefficients, so weights are a column of their own
making. The organiser knows a patient's age and weight, and asks for the salary.
"""

import numpy as np
import pandas as pd
import pytest

import refusals
import veilsum as vs
from attacks import organiser
from attacks.organiser import (
    AGE,
    AIM,
    BMI,
    ROW,
    SALARY,
    SCHEMA,
    Found,
    asked,
    patients as everybody,
    refused_by as refused,
)
from attacks.test_the_ledger import Asking, asking, held, moments_of
from computed import computed
from veilsum.fits.formula_job import FormulaJob
from veilsum.tables.rules import DisclosureError, TableRulesAtHome

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# All but the rule about leverage.
FREE = vs.Rules(site_terms=True, minimum_count=1, effective_count=1)
BUMP = f"exp(-(age - {AGE}) ** 2 - (bmi - {BMI}) ** 2)"

# The odds of others, and of the one, with which it has most of the weight of its site.
LESS = (-4.5, 3.0)


def patients():
    """The one is a woman: weights of kind overlap are 1 for nearly all men."""
    tables = everybody()
    tables[AIM].loc[ROW, "sex"] = "f"
    return tables


def weighted(low, high, term=BUMP, formula="salary ~ C(sex)", **more):
    """A fit in which the odds of rows are e^low, and those of the one e^high."""
    step, tables, schema = computed(f"{{{term}}}", patients(), SCHEMA)
    known = {"Intercept": low, step: high - low}
    weights = vs.Propensity(f"sex ~ {step}", known, "overlap", largest=1)
    return asked(vs.fit, formula, tables, weights=weights, schema=schema, **more)


def by_all_the_weight():
    """The mean of women is that of one woman: others weigh nothing."""
    return Found(weighted(-27.0, 13.0).params["Intercept"], SALARY)


def by_the_errors():
    """A residual out of the sum of squares, in which weights are squared."""
    found = weighted(*LESS)
    mean = found.params["Intercept"]
    tables, weight = patients(), 1 / (1 + np.exp(-LESS[1]))
    women = pd.concat(tables.values()).query("sex == 'f'")
    bumps = np.exp(-((women["age"] - AGE) ** 2) - (women["bmi"] - BMI) ** 2)
    whole = (1 / (1 + np.exp(-LESS[0] - (LESS[1] - LESS[0]) * bumps))).sum()
    # The mean of women has the error sqrt(sum w^2 r^2) / sum w.
    residual = found.bse["Intercept"] * whole / weight
    return abs(residual / abs(SALARY - mean) - 1.0)


def test_weights_on_one_row_are_refused():
    assert refused(by_all_the_weight) in {"effective_count", "site_terms"}


@pytest.mark.parametrize(
    ("rules", "rule"),
    [
        # Where parties may be told apart, and columns may stand out.
        (vs.Rules(site_terms=True), "effective_count"),
        (FREE, "maximum_influence"),
    ],
)
def test_the_one_with_the_patient_refuses_by_itself(rules, rule, monkeypatch):
    monkeypatch.setattr(organiser, "RULES", {"rules": rules})
    assert refused(by_all_the_weight) == rule


def test_without_rules_the_salary_is_known(monkeypatch):
    monkeypatch.setattr(organiser, "RULES", {"rules": vs.Rules.none()})
    assert by_all_the_weight().succeeded


def test_squared_weights_on_one_row_are_refused(monkeypatch):
    """Half of the weight is no matter of leverage, but nearly all of its square is."""
    monkeypatch.setattr(organiser, "RULES", {"rules": FREE})
    monkeypatch.setattr(TableRulesAtHome, "influence", lambda *_: None)
    assert refused(by_the_errors) == "maximum_influence"
    # The sum of squares is what tells.
    assert weighted(*LESS, errors="model").fit.n_rows == 300


def test_a_fit_with_such_weights_tells_her_sex_and_is_refused(monkeypatch):
    """Others add as much to two sums together, whichever sex they have."""
    monkeypatch.setattr(organiser, "RULES", {"rules": FREE})
    with refusals.refused("row-stands-out", DisclosureError, mentions=("'sex'",)):
        weighted(*LESS, errors="model")
    assert by_two_sums("f") == pytest.approx(1.0, abs=0.01)
    assert by_two_sums("m") == pytest.approx(0.0, abs=0.01)


def by_two_sums(sex):
    """All weights, and those of men: she alone has odds of her own."""
    tables = patients()
    tables[AIM].loc[ROW, "sex"] = sex
    rows = pd.concat(tables.values())
    bumps = np.exp(-((rows["age"] - AGE) ** 2) - (rows["bmi"] - BMI) ** 2)
    treated = 1 / (1 + np.exp(-LESS[0] - (LESS[1] - LESS[0]) * bumps))
    man = rows["sex"] == "m"
    weights = np.where(man, 1 - treated, treated)
    usual = 1 / (1 + np.exp(-LESS[0]))
    alike = usual / (1 - usual)
    both = weights.sum() - (1 - alike) * weights[man].sum()
    hers = bumps.to_numpy().argmax()
    return (both - np.delete(treated.to_numpy(), hers).sum()) / treated.iloc[hers]


def test_without_rules_the_residual_is_known(monkeypatch):
    monkeypatch.setattr(organiser, "RULES", {"rules": vs.Rules.none()})
    assert by_the_errors() < 0.02


def by_one_kind_of_row(slope):
    """The oldest woman's salary: she has most of women's weight, and men have 1.

    What sums leave open is what other women earn: as much as at home.
    """
    tables = patients()
    for table in tables.values():
        table.loc[table["sex"] == "f", "age"] //= 2
    tables[AIM].loc[ROW, "age"] = 60
    known = {"Intercept": -60 * slope, "age": slope}
    weights = vs.Propensity("sex ~ age", known, "overlap", largest=1)
    given = {"weights": weights, "errors": "model", "schema": SCHEMA}
    found = asked(vs.fit, "salary ~ C(sex)", tables, **given)
    squares, products = moments_of(found)
    weight, total = squares[0, 0] - squares[1, 1], products[0] - products[1]
    others = (weight - 0.5) * tables["ash"]["salary"].mean()
    return abs((total - others) / 0.5 / SALARY - 1.0)


def test_weights_of_one_kind_of_row_are_looked_at_by_themselves():
    with refusals.refused("group-too-small", DisclosureError):
        by_one_kind_of_row(0.28)
    # What is answered leaves more of it open.
    assert by_one_kind_of_row(0.1) > 0.05


def test_without_that_look_all_other_rules_leave_her_salary_known(monkeypatch):
    """The twin: among all rows her weight is spread, and leverage alone allows it."""
    monkeypatch.setattr(FormulaJob, "_check_weights", lambda *_: None)
    assert by_one_kind_of_row(0.28) < 0.02


def test_what_is_aimed_at_nobody_is_answered():
    weights = vs.Propensity("sex ~ age", {"Intercept": -1.0, "age": 0.02})
    found = asked(vs.fit, "salary ~ C(sex)", patients(), weights=weights, schema=SCHEMA)
    assert found.fit.n_rows == 300


# So sharp a step is refused alone where parties must not be told apart.
LOOSE = vs.Rules(site_terms=True)


@asking
def by_two_propensities(organiser):
    """Two fits that differ in the weight of whoever has an age between two steps."""
    tables, sums = held("abcdef"), []
    for table in tables.values():
        table.loc[(table["age"] - AGE).abs() <= 10, "age"] = AGE + 11
        table.loc[10:19, "age"] = 22
    tables["c"].loc[3, ["age", "hiv"]] = [AGE, 1]
    ends = (AGE - 5.5, AGE + 5.5)
    steps = [f"{{(age - {at}) / sqrt((age - {at}) ** 2 + 1e-06)}}" for at in ends]
    steps, tables, schema = computed(" ".join(steps), tables, organiser.schema)
    for step in steps.split():
        known = {"Intercept": 0.5, step: -1.0}
        weights = vs.Propensity(f"hiv ~ {step}", known)
        given = {"weights": weights, "errors": "model", "rules": LOOSE}
        given["schema"] = schema
        sums.append(moments_of(organiser.fit("salary ~ bmi", tables, **given)))
    (squares, products), (others, rest) = sums
    found = (products - rest)[0] / (squares - others)[0, 0]
    return Found(round(float(found)), round(tables["c"].loc[3, "salary"]))


def test_two_propensities_are_looked_at_together():
    assert refused(by_two_propensities) == "maximum_influence"


def test_without_a_ledger_two_propensities_tell_of_the_person(monkeypatch):
    """The twin: each of the two alone is one that the rules answer."""
    monkeypatch.setattr(Asking, "ledgers_of", lambda *_: {})
    assert by_two_propensities().succeeded
