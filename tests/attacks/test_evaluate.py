"""Coefficients cannot be aimed: at one person, at one site, by edges, by two questions.

Whoever writes the file chooses the coefficients and the edges, so the prediction is a
column of their own making. The organiser knows a patient's age and weight, and asks
whether that patient is ill.
"""

import numpy as np
import pytest

import veilsum as vs
from attacks import organiser
from attacks.organiser import (
    AGE,
    AIM,
    BMI,
    HIV,
    ROW,
    SCHEMA,
    SITES,
    Found,
    asked,
    check_rules_refuse,
    patients,
    refused_by as refused,
)
from attacks.test_the_ledger import Asking, asking, held
from cases import each
from computed import computed

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
BY_AGE = {"Intercept": -25.0, "age": 0.5}  # a chance of a half at 50


def evaluated(formula, tables, coefficients, **options):
    """Evaluate; a text in braces is a column that all tables have."""
    given = {"family": "logistic", "calibration": False, **options}
    names = {key: computed(key, tables)[0] for key in coefficients}
    known = {names[key]: value for key, value in coefficients.items()}
    formula, tables, schema = computed(formula, tables, given.pop("schema", SCHEMA))
    given["schema"] = schema
    return asked(vs.evaluate, formula, tables, coefficients=known, **given)


# A chance of nearly 1 for whoever has that age and weight, and 0 for others.
BUMP = (f"{{(age - {AGE}) ** 2}}", f"{{(bmi - {BMI}) ** 2}}")
NEAR = {"Intercept": 30.0, **dict.fromkeys(BUMP, -100.0)}


def by_a_bump():
    """Whether the one patient near a point is ill: nobody else is above the edge."""
    found = evaluated("hiv ~ " + " + ".join(BUMP), patients(), NEAR, edges=[0.5]).found
    return Found([int(found.events[1]), int(found.others[1])], [HIV, 1 - HIV])


def by_an_edge():
    """The same by two edges next to the chance of one age, which one patient has."""
    tables = patients()
    for site, table in tables.items():
        same = table["age"] == AGE
        same[ROW] &= site != AIM
        table.loc[same, "age"] = AGE + 1
    chance = [1 / (1 + np.exp(25.0 - 0.5 * (AGE + k))) for k in (-0.5, 0.5)]
    found = evaluated("hiv ~ age", tables, BY_AGE, edges=chance).found
    return Found([int(found.events[1]), int(found.others[1])], [HIV, 1 - HIV])


def by_the_error():
    """By Brier's score: chances are 0 but for one row, where they are nearly 1."""
    tables = patients()
    found = evaluated("hiv ~ " + " + ".join(BUMP), tables, NEAR, edges=[0.5]).found
    ill = sum(int(one["hiv"].sum()) for one in tables.values())
    # Sum y - 2 y p + p^2: the one row adds 1 if it is well, and takes 1 off if ill.
    return Found(round((ill + 1 - found.squared) / 2.0), HIV)


def by_sites():
    """How many are ill at each hospital, whose code is all that is predicted from."""
    tables = patients()
    at = [1 / (1 + np.exp(4.0 - (k + 0.5))) for k in range(2, 6)]
    known = {"Intercept": -4.0, "code": 1.0}
    found = evaluated("hiv ~ code", tables, known, edges=at).found
    truth = [int(one["hiv"].sum()) for one in tables.values()]
    return Found(found.events.tolist(), truth)


def by_levels():
    """The same by a category."""
    tables = patients()
    known = {"Intercept": -2.0}
    known |= {f"C(site)[T.{one}]": float(k) for k, one in enumerate(SITES) if k}
    at = [1 / (1 + np.exp(2.0 - (k + 0.5))) for k in range(4)]
    found = evaluated("hiv ~ C(site)", tables, known, edges=at).found
    truth = [int(one["hiv"].sum()) for one in tables.values()]
    return Found(found.events.tolist(), truth)


def by_records():
    """Whose bins: records are given out by the hundred to each hospital."""
    tables = patients()
    known = {"Intercept": -12.0, "record": 0.01}
    at = [1 / (1 + np.exp(12.0 - 0.01 * (1080 + 100 * k))) for k in range(4)]
    found = evaluated("hiv ~ record", tables, known, edges=at).found
    truth = [int(one["hiv"].sum()) for one in tables.values()]
    return Found(found.events.tolist(), truth)


def by_a_risk():
    """The one patient above an edge of risk, and in which interval the row ends."""
    bumps, tables, schema = computed(" + ".join(BUMP), patients(), SCHEMA)
    found = asked(
        vs.evaluate,
        f"Surv(record, hiv) ~ {bumps}",
        tables,
        schema=schema,
        coefficients=dict.fromkeys(bumps.split(" + "), -100.0),
        edges=[-1.0],
        times=[1150, 1250, 9000],
    ).found
    place = int(np.flatnonzero(found.events[:, 1] + found.censored[:, 1])[0])
    record = tables[AIM].loc[ROW, "record"]
    return Found(place, int(np.searchsorted([1150, 1250, 9000], record)))


ATTACKS = {
    "a bump": (by_a_bump, {"site_terms"}),  # all others have one chance: none
    "an edge": (by_an_edge, {"minimum_count", "effective_count"}),
    "the error": (by_the_error, {"site_terms"}),
    "codes of sites": (by_sites, {"site_terms"}),
    "levels of sites": (by_levels, {"site_terms"}),
    "records of sites": (by_records, {"site_terms"}),
    "a risk": (by_a_risk, {"maximum_influence", "minimum_count"}),
}


@each(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_an_aimed_prediction_is_refused(attack, rules):
    check_rules_refuse(attack, rules)


@pytest.mark.parametrize("attack", [by_a_bump, by_the_error])
def test_the_one_with_the_patient_refuses_by_itself(attack, monkeypatch):
    """Where parties may be told apart, the bin of one row is refused all the same."""
    monkeypatch.setattr(organiser, "RULES", {"rules": vs.Rules(site_terms=True)})
    assert refused(attack) == "minimum_count"


def test_what_is_aimed_at_nobody_is_answered():
    found = evaluated(
        "hiv ~ age", patients(), {"Intercept": -2.0, "age": 0.02}, edges=[0.25, 0.35]
    )
    assert found.count == 300


@asking
def by_two_edges(organiser):
    """Two evaluations with one edge each: the one patient between, and whether ill."""
    tables = held("abcdef")
    for table in tables.values():
        table.loc[table["age"] == AGE, "age"] = AGE + 1
        table.loc[20:31, "age"] = np.arange(22, 34)
    tables["c"].loc[3, ["age", "hiv"]] = [AGE, HIV]
    counts = []
    for at in (AGE - 0.5, AGE + 0.5):
        found = vs.evaluate(
            "hiv ~ age",
            tables,
            family="logistic",
            coefficients={"Intercept": -2.5, "age": 0.05},
            edges=[1 / (1 + np.exp(2.5 - 0.05 * at))],
            calibration=False,
            **organiser._options(tables, {}),
        ).found
        counts.append([int(found.events[0]), int(found.others[0])])
    return Found(np.subtract(counts[1], counts[0]).tolist(), [HIV, 1 - HIV])


def test_two_edges_are_looked_at_together():
    assert refused(by_two_edges) in {"maximum_influence", "minimum_count"}


def test_who_keeps_no_ledger_gives_the_person_away(monkeypatch):
    """The twin: each of the two alone is one that the rules answer."""
    monkeypatch.setattr(Asking, "ledgers_of", lambda *_: {})
    assert by_two_edges().succeeded


def test_a_fold_with_few_rows_is_refused():
    """Each fold is a table: twenty of 60 rows leave three to each."""
    given = {"schema": SCHEMA, "folds": 20}
    formula = "salary ~ age + bmi"
    attack = lambda: asked(vs.evaluate, formula, patients(), **given)  # noqa: E731
    assert refused(attack) in {
        *("minimum_count", "maximum_influence", "effective_count"),
        *("maximum_columns", "release_fraction"),
    }
    kept = asked(vs.evaluate, formula, patients(), schema=SCHEMA, folds=2)
    assert len(kept.folds) == 2


@asking
def by_three_errors(organiser):
    """A salary, where nobody else's is near: absolute errors have a kink there."""
    tables = held("abcdef")
    for table in tables.values():
        near = (table["salary"] - 50_234.0).abs() < 50.0
        table.loc[near, "salary"] = 50_400.0
    tables["c"].loc[3, "salary"] = 50_234.56
    width, sums = 20.0, []
    for at in (50_234.0 - width, 50_234.0, 50_234.0 + width):
        found = vs.evaluate(
            "salary ~ 1",
            tables,
            coefficients={"Intercept": at},
            **organiser._options(tables, {}),
        ).errors
        sums.append(found.absolute)
    # |y - t| at t - h and t + h is 2 h together where y is between, and no kink else.
    bend = float(sums[0] - 2 * sums[1] + sums[2])
    return Found(round(50_234.0 + width - bend / 2.0, 2), 50_234.56)


def test_three_errors_are_looked_at_together():
    assert refused(by_three_errors) in {"maximum_influence", "effective_count"}


def test_without_a_ledger_three_errors_tell_a_salary(monkeypatch):
    """The twin."""
    monkeypatch.setattr(Asking, "ledgers_of", lambda *_: {})
    assert by_three_errors().succeeded


@asking
def by_splits(organiser):
    """Folds dealt again and again: who is in which is known of whoever is known."""
    tables = held("abcdef")
    for split in range(40):
        vs.evaluate(
            "salary ~ age",
            tables,
            folds=2,
            split=split,
            **organiser._options(tables, {}),
        )
    return True


@pytest.mark.slow
def test_folds_are_not_dealt_for_ever():
    with pytest.raises(vs.VeilsumError):
        by_splits()
