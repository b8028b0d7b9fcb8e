"""Prices and influence of real questions: what rows contribute, and who stands out."""

from dataclasses import replace
from math import log2

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from veilsum.fits.formula_job import FormulaJob
from veilsum.fits.model import family_of_fit
from veilsum.questions.statistics import StatisticsJob
from veilsum.questions.survival import SurvivalJob
from veilsum.sums.own_influence import (
    AskedTable,
    own_influence_on_sums,
    table_with_values,
)
from veilsum.tables.schema import Schema

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def table(n=90, seed=1):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 96, n)
    risk = 1 / (1 + np.exp(-(age - 55) / 20))
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "cost": rng.gamma(4.0, 500.0, n).round(2) + 1.0,
            "hiv": (rng.random(n) < risk).astype(int),
            "visits": rng.poisson(3.0, n),
            "time": rng.integers(1, 900, n),
            "weight": rng.choice([0.5, 1.0, 2.0], n),
        }
    )


SCHEMA = Schema.from_table(
    {
        "minimum_rows": 60,
        "columns": {
            "age": {"kind": "integer", "minimum": 18, "maximum": 95},
            "sex": {"kind": "category", "categories": ["f", "m"]},
            "cost": {
                "kind": "number",
                "unit": 0.01,
                "minimum": 0.01,
                "maximum": 20_000,
            },
            "hiv": {"kind": "integer", "minimum": 0, "maximum": 1},
            "visits": {"kind": "integer", "minimum": 0, "maximum": 60},
            "time": {"kind": "integer", "minimum": 1, "maximum": 1000},
            "weight": {"kind": "number", "unit": 0.5, "minimum": 0.5, "maximum": 2.0},
        },
    }
)


def fitted(text, family="gaussian", **more):
    return FormulaJob.of(text, SCHEMA, family_of_fit(family), **more)


JOBS = {
    "least squares": fitted("cost ~ age + sex"),
    "weighted": fitted("cost ~ age * sex", weights="weight"),
    "without ones": fitted("cost ~ 0 + age + hiv"),
    "logistic": fitted("hiv ~ age + sex"),
    "offset": fitted("visits ~ age", "poisson", offset="hiv"),
    "gamma": fitted("cost ~ age + sex", "gamma"),
    "probit": fitted("hiv ~ age", "probit"),
    "robust": fitted("hiv ~ age", "logistic", errors="HC0"),
    "moments": StatisticsJob.of(
        SCHEMA,
        columns=["age", "cost"],
        histograms={"cost": [0.0, 500.0, 2000.0]},
        tables=[["sex", "hiv"]],
    ),
    "groups": StatisticsJob.of(
        SCHEMA, columns=["age", "cost"], histograms={}, tables=[["hiv"]], by="sex"
    ),
    "survival": SurvivalJob.of(SCHEMA, "Surv(time, hiv) ~ sex", [100, 300, 600]),
}
JOBS["logistic"] = fitted("hiv ~ age + sex", "logistic")


def run_alone(job, frame):
    """The party's rows, and every request with the sum of these rows."""
    own = job.bring(job.schema.check("a", frame))
    recipe, sums = job.together({"a": own})
    return own, [(recipe.request(sums[:k]), one) for k, one in enumerate(sums)]


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_contributions_of_rows_add_up_to_the_sum(job):
    frame = table()
    own, rounds = run_alone(job, frame)
    known = [(job.contributions(own, request), total) for request, total in rounds]
    covered = [(one, total) for one, total in known if one is not None]
    assert len(covered) >= len(rounds) - (job is JOBS["robust"])
    for rows, total in covered:
        assert rows.shape[0] == len(frame)
        added = rows.sum(axis=0)
        numbers = np.array([float(k) for k in total[: len(added)]])
        # Numbers to which all rows add the same are left at 0; others are rounded.
        used = np.abs(rows).max(axis=0) > 0.0
        rounding = len(frame) * (1.0 + 2.0**-30 * np.abs(rows).max(axis=0))
        assert (np.abs(added - numbers)[used] <= rounding[used]).all()
        assert used.any()


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_changed_row_changes_its_own_contribution_only(job):
    frame = table()
    checked = job.schema.check("a", frame)
    name = "age" if "age" in job.schema.names else "time"
    values = checked.numbers(name).copy()
    values[3] = 44.0 if values[3] > 50.0 else 90.0
    if name == "time":
        values[3] = 50.0 if values[3] > 100.0 else 250.0
    changed = job.bring(table_with_values(checked, {name: values}))
    own, ((request, _), *_) = run_alone(job, frame)
    before, after = job.contributions(own, request), job.contributions(changed, request)
    assert [*np.flatnonzero((before != after).any(axis=1))] == [3]


def influence(job, frame):
    checked = job.schema.check("a", frame)
    _, rounds = run_alone(job, frame)
    requests = [request for request, _ in rounds]
    return own_influence_on_sums([AskedTable(job, checked, requests)], 5 * len(frame))


def test_inclusion_and_exclusion_in_one_question_is_seen():
    """`b ~ a * cost` gives one person's cost; without the product nobody's."""
    frame = table(150)
    a, b = np.ones(150), np.ones(150)
    a[:25], b[25:50] = 0, 0
    a[50], b[50] = 0, 0  # the person
    frame = frame.assign(visits=a.astype(int), hiv=b.astype(int))
    attack = influence(fitted("hiv ~ visits * cost"), frame)
    assert attack.by_column["cost"] > 0.99
    assert influence(fitted("hiv ~ visits + cost"), frame).by_column["cost"] < 0.35
    assert "100.0 %" in attack.line()


def test_several_mild_rounds_add_up():
    job, frame = JOBS["logistic"], table()
    checked = job.schema.check("a", frame)
    _, rounds = run_alone(job, frame)
    requests = [request for request, _ in rounds]
    found = [
        own_influence_on_sums([AskedTable(job, checked, requests[:k])], 450).by_column[
            "age"
        ]
        for k in range(1, len(requests) + 1)
    ]
    assert found == sorted(found)
    assert found[-1] > 2 * found[0]


def test_questions_add_up():
    """One knot, moved over three questions, each of which is mild by itself."""
    frame = table(300)
    ages = np.sort(frame["age"].unique())
    asked = []
    knots = [float(one) for one in ages[20:23]]
    columns = (
        replace(one, cuts=knots) if one.name == "age" else one for one in SCHEMA.columns
    )
    derived = {
        f"from_{one:g}": {"of": "age", "as": "intervals", "cuts": [one]}
        for one in knots
    }
    schema = replace(SCHEMA, columns=tuple(columns), derived=derived)
    for name in derived:
        job = FormulaJob.of(
            f"hiv ~ cost + cost:{name}", schema, family_of_fit("gaussian")
        )
        checked = job.schema.check("a", frame)
        _, ((request, _),) = run_alone(job, frame)
        asked.append(AskedTable(job, checked, [request]))
    alone = [own_influence_on_sums([one], 1500).by_column["cost"] for one in asked]
    together = own_influence_on_sums(asked, 1500).by_column["cost"]
    assert together > 1.5 * max(alone)
    fewer = replace(asked[0], table=job.schema.check("a", frame[:200]))
    with pytest.raises(vs.InvalidInputError, match="same rows"):
        own_influence_on_sums([fewer, asked[1]], 1500)


def test_a_question_without_contributions_says_so():
    job, frame = fitted("visits ~ age", "negative-binomial"), table(200)
    checked = job.schema.check("a", frame)
    found = own_influence_on_sums([AskedTable(job, checked, ["anything"])], 1000)
    assert (found.covered, found.largest) == (0, 0.0)
    assert "not computed" in found.line()
    assert "nicht berechnet" in found.line("de")


def simulated(**more):
    tables = {f"site-{k}": table(120, seed=k) for k in range(5)}
    how = {"schema": SCHEMA, "seed": 1, **more}
    return vs.fit("hiv ~ age", tables, family="logistic", **how)


def test_a_result_says_its_price_and_what_it_is_charged_to():
    found = simulated()
    price = found.price
    layouts = [one.layout for one in found.releases]
    objections = len(layouts) - 1  # a bit for each sum but that of counts of parties
    expected = sum(sum(one.charges(600).values()) for one in layouts) + objections
    assert price.accounts.total == pytest.approx(expected)
    assert price.rows == 480
    # The responses are released once: X'y and the sum of y.
    assert price.accounts.changing("hiv") < 600
    line = price.line()
    assert line.startswith(f"Price: {expected:,.0f} bits; most is charged to age")
    assert f"{expected:,.0f} Bit".replace(",", ".") in price.line("de")
    assert line in " ".join(found.showing().text().split())
    plain = found.to_dict()["release_price"]
    pair = next(one for one in plain["accounts"] if one["columns"] == ["age", "hiv"])
    assert pair["spent"] == pytest.approx(expected)
    assert pair["usable"] == pair["held"] / 2


def test_a_simulation_shows_the_largest_influence_of_each_party():
    found = simulated()
    plain = found.to_dict()["influence"]
    assert [*plain] == [f"site-{k}" for k in range(5)]
    largest = max(one["largest"] for one in plain.values())
    assert f"released: {largest:.2f} (" in " ".join(found.showing().text().split())


def test_counts_cost_no_more_than_they_can_say():
    tables = {f"site-{k}": table(120, seed=k) for k in range(5)}
    found = vs.statistics(tables, columns=[], tables=[["sex"]], schema=SCHEMA, seed=1)
    # Rows, two cells and rows left out; before them three counts of five parties.
    bits = 4 * log2(601) + 3 * log2(6)
    assert found.price.accounts.total == pytest.approx(bits)
    assert found.price.accounts.inside(("sex",)) == pytest.approx(bits)
