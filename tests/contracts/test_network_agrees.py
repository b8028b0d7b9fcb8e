"""The same scenario gives the same answer in memory and between real parties."""

import numpy as np
import pandas as pd
import pytest

from net.runs import BOX, ITERATED, ONE_SHOT, Company, answers, changed, data_files
from veilsum.files.scenarios import read_scenario
from veilsum.minimise.solve import run_scenario
from veilsum.questions.job_file import read_job

NEAR = 1e-9
MATRICES = [[[2.0 + k, 0.5], [0.5, 1.0 + k]] for k in range(4)]
VECTORS = [[1.0, -2.0], [0.5, 4.0], [-3.0, 1.0], [2.5, -0.75]]
QUADRATIC = {"kind": "quadratic", "matrices": MATRICES, "vectors": VECTORS}
CURVED = {"smooth": 6.0, "mean_smooth": 4.0, "mean_convex": 2.0}
SCENARIOS = {
    "one-shot": ONE_SHOT,
    "gradient-tracking": ITERATED,
    "nids": changed(ITERATED, method={"name": "nids"}),
    "uniform masks": changed(
        changed(ONE_SHOT, masks=None), masks={"law": "uniform", "grid": 24}
    ),
    "quadratic, one-shot": {**ONE_SHOT, "cost": QUADRATIC},
    "quadratic, iterated": {
        **ITERATED,
        "cost": QUADRATIC,
        "domain": BOX,
        "method": {"name": "gradient-tracking", **CURVED},
    },
}


@pytest.mark.parametrize("table", SCENARIOS.values(), ids=SCENARIOS)
def test_solve_loopback_and_network_find_the_same(table, tmp_path):
    company = Company(tmp_path, table)
    scenario = read_scenario(company.scenario)
    simulated = [
        run_scenario(scenario, driver=driver).minimiser
        for driver in ("vectorised", "loopback")
    ]
    found = company.run()
    assert company.verdict(found).good
    for answer in answers(found).values():
        for other in simulated:
            np.testing.assert_allclose(answer, other, rtol=0, atol=NEAR)


def test_another_scenario_gives_another_answer(tmp_path):
    """The twin: the comparison can fail."""
    moved = [[x + 1e-6, y] for x, y in VECTORS]
    company = Company(tmp_path, SCENARIOS["quadratic, one-shot"])
    other = Company(
        tmp_path / "other", {**ONE_SHOT, "cost": {**QUADRATIC, "vectors": moved}}
    )
    here = run_scenario(read_scenario(company.scenario)).minimiser
    assert np.abs(answers(other.run())["a"] - here).max() > NEAR


# Jobs on tables


def frames(rows=60):
    stream = np.random.default_rng(8)
    found = {}
    for name in ("a", "b", "c", "d"):
        x, dose = stream.normal(size=rows), stream.uniform(0, 4, size=rows)
        ward = stream.choice(["01", "02", "03"], size=rows)
        odds = 1 / (1 + np.exp(0.3 - x + 0.2 * dose))
        found[name] = pd.DataFrame(
            {
                "x": x,
                "dose": dose,
                "ward": ward,
                "y": 1.5 * x - dose + stream.normal(size=rows),
                "ill": (stream.uniform(size=rows) < odds).astype(int),
            }
        )
    return found


SCHEMA = {
    "minimum_rows": 40,
    "columns": {
        "x": {"kind": "number", "minimum": -10, "maximum": 10},
        "dose": {"kind": "number", "minimum": 0, "maximum": 4},
        "ward": {"kind": "category", "categories": ["01", "02", "03"]},
        "y": {"kind": "number", "minimum": -50, "maximum": 50},
        "ill": {"kind": "integer", "minimum": 0, "maximum": 1},
    },
}
JOB = {
    "title": "four wards",
    "schema": SCHEMA,
    "graph": {"edges": [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]},
    "policy": {"tolerate": 1, "resend": 0.2, "deadline": 10.0},
}
JOBS = {
    "gaussian": ("model", {"formula": "y ~ x + dose + C(ward)"}, 2),
    "logistic": ("model", {"formula": "ill ~ x + dose", "family": "logistic"}, 4),
    "statistics": (
        "statistics",
        {"columns": ["x", "dose"], "tables": [["ward"]]},
        2,
    ),
    "survival": (
        "survival",
        {"formula": "Surv(dose, ill) ~ 1", "times": [1, 2.5]},
        2,
    ),
}


@pytest.mark.parametrize(("kind", "section", "sums"), JOBS.values(), ids=JOBS)
def test_jobs_on_tables_find_the_same(kind, section, sums, tmp_path):
    table = data_files({**JOB, kind: section}, frames(), tmp_path)
    company = Company(tmp_path, table)
    simulated = read_job(company.scenario, kind).run(driver="loopback", seed=1)
    found = company.run()
    answers(found)
    assert company.verdict(found).good
    for one in found.values():
        assert len(one.released.sums) == len(simulated.released.sums) >= sums
        for mine, theirs in zip(
            (one.answer, *one.released.sums),
            (simulated.answer, *simulated.released.sums),
            strict=True,
        ):
            if mine.dtype == object:  # whole numbers, to the last
                assert mine.tolist() == theirs.tolist()
            else:
                np.testing.assert_allclose(mine, theirs, rtol=NEAR, atol=NEAR)
        assert one.guarantee.to_dict() == simulated.guarantee.to_dict()


# What parties make of whole tables; few parties, so that they must agree openly.
OPEN = {**JOB["policy"], "site_terms": True, "release_fraction": 1.0}
BY_PARTY = {
    "cox": {"formula": "Surv(dose, ill) ~ x"},
    "mixed": {"formula": "y ~ x + dose"},
    "meta": {
        "formula": "y ~ x + dose",
        "coefficient": "x",
        "effects": [-5, 5],
        "errors": [0.01, 1],
    },
}


@pytest.mark.parametrize("kind", BY_PARTY)
def test_what_parties_make_of_whole_tables_is_the_same_to_the_last_bit(kind, tmp_path):
    schema = {**SCHEMA, "minimum_rows": 150}
    asked = {**JOB, "schema": schema, "policy": OPEN, kind: BY_PARTY[kind]}
    company = Company(tmp_path, data_files(asked, frames(200), tmp_path))
    simulated = read_job(company.scenario, kind).run(driver="loopback", seed=1)
    found = company.run()
    answers(found)
    assert company.verdict(found).good
    for one in found.values():
        assert one.answer.tolist() == simulated.answer.tolist()
        assert [s.tolist() for s in one.released.sums] == [
            s.tolist() for s in simulated.released.sums
        ]


def test_a_dispatch_over_periods_finds_the_same_prices(tmp_path):
    """Each party has one table, and knows its own outputs."""
    unit = {"a": 0.1, "b": 10.0, "low": 0.0, "high": 90.0, "ramp": 30.0}
    tables = {
        name: pd.DataFrame([{"demand_1": 20.0 + k, "demand_2": 40.0}, unit])
        for k, name in enumerate("abcd")
    }
    asked = {key: one for key, one in JOB.items() if key != "schema"}
    asked["dispatch"] = {"prices": [0, 50], "periods": 2}
    company = Company(tmp_path, data_files(asked, tables, tmp_path))
    simulated = read_job(company.scenario, "dispatch").run(driver="loopback", seed=1)
    for name, one in company.run().items():
        assert one.prices.tolist() == simulated.prices.tolist()
        assert list(one.outputs) == [name]
        assert one.outputs[name].tolist() == simulated.outputs[name].tolist()


def test_a_dispatch_finds_the_same_price(tmp_path):
    table = {
        "title": "zones",
        "data": {"dataset": "case30", "parties": 4},
        "dispatch": {"prices": [0, 100], "tolerance": 1e-6},
        "graph": {"family": "complete:4"},
        "policy": {"tolerate": 1, "resend": 0.2, "deadline": 10.0},
    }
    company = Company(tmp_path, table)
    simulated = read_job(company.scenario, "dispatch").run(driver="vectorised")
    found = company.run()
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, simulated.answer, rtol=0, atol=NEAR)
