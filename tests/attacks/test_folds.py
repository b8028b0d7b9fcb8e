"""Folds cannot be aimed: at one row, at one site, at whoever stands out in a fold.

A row's fold is public once its predictors are known, and whoever writes the file
chooses the number that deals rows. Sums without a fold differ by the sums of the fold.
Who sees what: everybody sees, of all parties together, the sums of each fold or without
it; so a fold is refused that a party has few rows in, that few parties have rows in, or
that rests on one row.
"""

from functools import cache

import numpy as np
import pytest

import refusals
import veilsum as vs
from attacks import organiser
from attacks.organiser import (
    AGE,
    AIM,
    HIV,
    ROW,
    SALARY,
    SCHEMA,
    Found,
    asked,
    check_rules_refuse,
    patients,
    refused_by as refused,
)
from cases import each
from veilsum.models.evaluation import folds_of_model_rows
from veilsum.models.rows import Rows
from veilsum.questions.evaluate import evaluate_job

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
FOLDS = 20


@cache
def alone(column, value, values, splits, folds=FOLDS):
    """A number that deals all rows with one value into a fold of their own.

    The file has all that it takes: nobody's table is looked at.
    """
    job = evaluate_job(SCHEMA, formula=f"hiv ~ {column}", folds=folds)
    measures = job.base.model.measures
    design = np.column_stack([np.ones(len(values)), values]).astype(float)
    rows = Rows(design, np.zeros(len(values)))
    for split in splits:
        dealt = folds_of_model_rows(measures, rows, folds, split)
        fold = dealt[values.index(value)]
        if np.count_nonzero(dealt == fold) == 1:
            return split, int(fold)
    raise AssertionError


def crossed(formula, tables, split, **options):
    given = {"folds": FOLDS, "schema": SCHEMA, "split": split, **options}
    return asked(vs.evaluate, formula, tables, **given)


def of_a_fold(found, fold):
    """Rows of a fold and the sum of their responses, from the first sums of all fits.

    Every row is in all of these but one.
    """
    recipe, sums = found.inner
    scales = recipe.search.newton.scales
    size, first, n_folds = scales.size, sums[0], recipe.search.n_folds
    parts = [scales.first(first[k * size : (k + 1) * size]) for k in range(n_folds)]
    known = [(int(one.n_rows), float(one.response_sum)) for one in parts]
    whole = np.sum(known, axis=0) / (n_folds - 1)
    return np.round(whole - known[fold]).astype(int).tolist()


def nobody_else():
    """Nobody else has the age of the one."""
    tables = patients()
    for site, table in tables.items():
        same = table["age"] == AGE
        same[ROW] &= site != AIM
        table.loc[same, "age"] = AGE + 1
    return tables


def one_row(formula, **options):
    split, fold = alone("age", AGE, tuple(range(20, 90)), range(40, 900))
    return crossed(formula, nobody_else(), split, **options), fold


def by_a_row():
    """Whether the one patient of an age is ill, by fits that leave the patient out.

    And the same by how surprised the fit without the patient is.
    """
    found, fold = one_row("hiv ~ age", family="logistic")
    chance = 1 / (1 + np.exp(-found.coefficients.to_numpy()[fold] @ [1, AGE]))
    losses = np.array([-2 * np.log(1 - chance), -2 * np.log(chance)])
    nearest = np.argmin(np.abs(losses - float(found.folds[fold].deviance)))
    return Found([*of_a_fold(found, fold), int(nearest)], [1, HIV, HIV])


def by_a_salary():
    """A salary, out of the sums of a fold of least squares."""
    found, _ = one_row("salary ~ age")
    (one,) = [fold for fold in found.folds if fold.n_rows == 1]
    return Found(round(float(one.response), 2), SALARY)


def one_site(formula, tables, **options):
    """A question whose rows are dealt by the codes of hospitals, into three folds."""
    codes = tuple(int(table["code"].iloc[0]) for table in tables.values())
    code = int(tables[AIM]["code"].iloc[0])
    split, fold = alone("code", code, codes, range(900), 3)
    return crossed(formula, tables, split, folds=3, **options), fold


def by_a_site():
    """How many are ill at one hospital."""
    tables = patients()
    found, fold = one_site("hiv ~ code", tables, family="logistic")
    return Found(of_a_fold(found, fold), [60, int(tables[AIM]["hiv"].sum())])


def by_a_sum_of_sites():
    """Salaries of one hospital, by least squares."""
    tables = patients()
    found, fold = one_site("salary ~ code", tables)
    total = float(found.folds[fold].response)
    return Found(round(total, 2), round(tables[AIM]["salary"].sum(), 2))


FEW = {"minimum_count", "maximum_columns", "release_fraction"}
ATTACKS = {
    "a row": (by_a_row, FEW),
    "a salary": (by_a_salary, FEW),
    "a site": (by_a_site, {*FEW, "site_terms"}),
    "a sum of a site": (by_a_sum_of_sites, {*FEW, "site_terms"}),
}
# All that is about tables; what is about numbers of columns and rounds is off.
AT_HOME = {
    "maximum_columns": 9.0,
    "release_fraction": 99.0,
    "most_rounds": 60,
}


@each(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_an_aimed_fold_is_refused(attack, rules):
    check_rules_refuse(attack, rules)


@pytest.mark.parametrize(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_whoever_has_the_row_refuses_by_itself(attack, rules, monkeypatch):
    """However many numbers may be released."""
    del rules
    monkeypatch.setattr(organiser, "RULES", {"rules": vs.Rules(**AT_HOME)})
    assert refused(attack) in {"minimum_count", "site_terms"}


def standing_out():
    """Three at one hospital earn much more, one of them in each fold.

    The table as a whole has several such; but what squares add up to in a fold, less
    what is usual elsewhere, is one of them. Return how far off that is.
    """
    tables = patients()
    for table in tables.values():
        table["salary"] = table["salary"].clip(40_000, 60_000)
    job = evaluate_job(SCHEMA, formula="salary ~ bmi", folds=3)
    own = {s: job.bring(job.schema.check(s, table)) for s, table in tables.items()}
    here = {s: job.folds(one) for s, one in own.items()}
    for fold in range(3):
        place = np.flatnonzero(here[AIM] == fold)[0]
        tables[AIM].loc[place, "salary"] = (190_000.0, 195_000.0, 185_000.0)[fold]
    found = asked(vs.evaluate, "salary ~ bmi", tables, schema=SCHEMA, folds=3)
    rest = {s: table["salary"] for s, table in tables.items() if s != AIM}
    # Usual salaries, as everybody knows of their own.
    usual = np.concatenate([one.to_numpy() for one in rest.values()])
    seen = found.folds[0]
    about = float(seen.response_square) - (seen.n_rows - 1) * np.mean(usual**2)
    return abs(np.sqrt(about) / 190_000.0 - 1.0)


def test_a_response_that_stands_out_in_a_fold_is_refused():
    with refusals.refused(
        "group-too-small", vs.InvalidInputError, mentions=("1",)
    ) as refusal:
        standing_out()
    assert refusal.value.rule == "effective_count"


def test_without_rules_who_stands_out_is_known(monkeypatch):
    """The twin, with that one rule off: to a few hundredths."""
    monkeypatch.setattr(organiser, "RULES", {"rules": vs.Rules(effective_count=1)})
    assert standing_out() < 0.05


def test_what_is_aimed_at_nobody_is_answered(monkeypatch):
    """Two folds of sixty rows at each of five hospitals, where rounds have room."""
    monkeypatch.setattr(organiser, "RULES", {"rules": vs.Rules(release_fraction=0.8)})
    given = {"schema": SCHEMA, "folds": 2, "family": "logistic"}
    found = asked(vs.evaluate, "hiv ~ bmi", patients(), **given)
    assert found.count == 300
