"""Real parties ask of data cuts: the owner reads which, others see nothing of it."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from data_cuts import COLUMNS, patients
from net.runs import Company

NAMES = ("a", "b", "c", "d")
pytestmark = pytest.mark.usefixtures("unchecked_shapes", "_quiet")


def plan(folder):
    """Four parties with tables, who ask for the mean pay."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(NAMES):
        path = folder / f"{name}.csv"
        patients(60, first=1000 * k).to_csv(path, index=False)
    schema = {"minimum_rows": 40, "columns": {"pay": COLUMNS["pay"]}}
    return {
        "title": "pay",
        "graph": {"family": "complete:4"},
        "masks": {"law": "uniform"},
        "data": {"files": {name: f"{name}.csv" for name in NAMES}},
        "schema": schema,
        "statistics": {"columns": ["pay"]},
        "policy": {"meeting": 600.0, "deadline": 300.0, "release_fraction": 1.0},
    }


@pytest.fixture
def company(tmp_path):
    return Company(tmp_path, plan(tmp_path))


def joined(company, number, **options):
    """Everybody's result of one more run; `options` are of the party `a`."""
    agreed = replace(company.consortium, run=f"run-{number:032x}")
    calls = {
        name: {
            "consortium": agreed,
            "identity": company.folder(name) / f"{name}.key",
            "data": company.folder(name) / "data.csv",
            "consent": lambda page: "CONSENT TO ONE RUN" in page.text(),
            **(options if name == "a" else {}),
        }
        for name in NAMES
    }
    with ThreadPoolExecutor(4) as pool:
        found = {name: pool.submit(vs.join, **one) for name, one in calls.items()}
        return {name: one.result() for name, one in found.items()}


def test_a_corrected_file_is_asked_as_it_was_and_its_owner_is_told(company, tmp_path):
    first = joined(company, 1, id="patient", out=tmp_path / "one")
    path = company.folder("a") / "data.csv"
    table = pd.read_csv(path)
    table.loc[3, "pay"] += 12_345.67
    table.to_csv(path, index=False)
    second = joined(company, 2, out=tmp_path / "two")
    for name in NAMES:
        sums = [one[name].result.moments.sum for one in (first, second)]
        np.testing.assert_array_equal(*sums)
    told = second["a"].cut
    assert told.name == first["a"].cut.name
    assert "1 corrected row" in told.waits[0]
    assert told.waits[0] in " ".join(second["a"].showing().text().split())
    assert "1 corrected row" in (tmp_path / "two" / "consent.txt").read_text()
    for name in "bcd":
        assert second[name].cut.waits == ()
    for name in ("result.json", "receipt.json"):
        said = (tmp_path / "two" / name).read_text()
        assert "corrected" not in said
        assert "cut" not in json.loads(said)


def test_a_run_without_a_file_is_about_a_registered_cut(company, tmp_path):
    joined(company, 1)
    named = joined(company, 2, data=None, cut="newest", out=tmp_path / "out")
    assert named["a"].cut.to_dict()["waits"] == []
    assert "cut" not in json.loads((tmp_path / "out" / "result.json").read_text())
    receipts = [json.loads(named[name].receipt.to_json()) for name in "ab"]
    assert receipts[0].keys() == receipts[1].keys()
