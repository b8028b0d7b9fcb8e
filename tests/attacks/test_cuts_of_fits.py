"""Six new people of whom one has the response: the same fit of two data cuts.

`X'y` of `hiv ~ age + sbp` sums over the people with HIV. The difference of two cuts is
about the new ones among them.
"""

import numpy as np
import pandas as pd
import pytest

from report.officer_plans import table
from veilsum.consortium.consortium import consortium_from
from veilsum.files.ledger import open_ledger
from veilsum.party.inputs import party_contribution
from veilsum.privacy.accountant import Budget
from veilsum.sums.job_file import question_job_of
from veilsum.tables.asked import TableQuestion

COLUMNS = {
    "age": {"kind": "integer", "minimum": 18, "maximum": 110},
    "sbp": {"kind": "integer", "minimum": 60, "maximum": 260},
    "hiv": {"kind": "integer", "minimum": 0, "maximum": 1},
}


def people(chance, rows, first):
    return pd.DataFrame(
        {
            "patient": [f"P{first + k:05}" for k in range(rows)],
            "age": chance.integers(20, 90, rows),
            "sbp": chance.integers(90, 200, rows),
            "hiv": (chance.random(rows) < 0.3).astype(int),
        }
    )


def question(month):
    return consortium_from(
        table(
            {
                "title": "north",
                "schema": {
                    "minimum_rows": 100,
                    "missing": "drop",
                    "columns": COLUMNS,
                },
                "model": {"formula": "hiv ~ age + sbp"},
                "masks": {"law": "uniform"},
            },
            run=f"month-{month}-{'0' * 32}",
        )
    )


def difference_of_two_cuts(seed, n_ill, folder):
    """Return the difference of `X'y`, and that of the new people with HIV."""
    chance = np.random.default_rng(seed)
    first, new = people(chance, 150, 0), people(chance, 12, 900)
    new["hiv"] = [1] * n_ill + [0] * (12 - n_ill)
    members = [one.name for one in question(0).members if one.name != "ann"]
    others = {name: people(chance, 150, 2000 * k) for k, name in enumerate(members, 1)}
    totals = []
    with open_ledger(folder / "ann.ledger", create=Budget()) as ledger:
        for month, own in enumerate([first, pd.concat([first, new])]):
            agreed = question(month)
            part = party_contribution(agreed, data=own, id="patient")
            part = part.on_cut(ledger, "ann")
            job = question_job_of(
                agreed,
                {"ann": part.table, **others},
                driver="vectorised",
                seed=month,
                ledgers={"ann": ledger},
                new_data=part.new_data,
            )
            totals.append([*map(int, job.run().inner[1][-1])])
    ill = new[new["hiv"] == 1]
    truth = [n_ill, int(ill["age"].sum()), int(ill["sbp"].sum())]
    return np.subtract(*totals[::-1])[6:9].tolist(), truth


@pytest.mark.parametrize("seed", range(3))
def test_one_new_person_with_the_response_waits(seed, tmp_path):
    """The fit is answered on the earlier cut."""
    found, _ = difference_of_two_cuts(seed, 1, tmp_path)
    assert found == [0, 0, 0]


def test_without_populations_by_response_the_person_is_read_off(tmp_path, monkeypatch):
    """The twin: age and blood pressure of the one new person with HIV."""
    monkeypatch.setattr(TableQuestion, "responses", lambda *_: iter(()))
    found, truth = difference_of_two_cuts(0, 1, tmp_path)
    assert found == truth


def test_of_several_new_people_with_the_response_the_new_cut_is_asked(tmp_path):
    found, truth = difference_of_two_cuts(0, 6, tmp_path)
    assert found == truth
