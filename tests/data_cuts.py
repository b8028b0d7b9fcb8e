"""A party that is asked again and again while its table changes, and its ledger."""

import numpy as np
import pandas as pd

from report.officer_plans import table
from veilsum.consortium.consortium import consortium_from
from veilsum.files.ledger import open_ledger
from veilsum.party.inputs import party_contribution
from veilsum.privacy.accountant import Budget
from veilsum.sums.job_file import question_job_of

COLUMNS = {
    "age": {"kind": "integer", "minimum": 0, "maximum": 120},
    "pay": {"kind": "number", "minimum": 0, "maximum": 200_000, "unit": 0.01},
    "sex": {"kind": "category", "categories": ["f", "m"]},
    "nurse": {"kind": "category", "categories": ["no", "yes"]},
    "both": {"kind": "category", "categories": ["other", "woman and nurse"]},
}
# Not asked for less, so that what protects a person is rule R1 alone.
POLICY = {
    "minimum_count": 0,
    "maximum_influence": 1.0,
    "release_fraction": 1.0,
}


def patients(rows=60, seed=0, first=0):
    """A made-up table with ids."""
    chance = np.random.default_rng((seed, first))
    return pd.DataFrame(
        {
            "patient": [f"P{first + k:05}" for k in range(rows)],
            "age": chance.integers(18, 95, rows),
            "pay": np.round(chance.normal(50_000, 8_000, rows), 2),
            "sex": np.where(np.arange(rows) % 2, "f", "m"),
        }
    )


def staff(rows=60, seed=0, first=0):
    """Patients of whom all men, and about half of the women, are nurses."""
    table = patients(rows, seed, first)
    chance = np.random.default_rng((seed, first, 1))
    woman = table["sex"] == "f"
    nurse = ~woman | (chance.random(rows) < 0.5)
    return with_both(table.assign(nurse=np.where(nurse, "yes", "no")))


def with_both(table):
    """The table with the column of women who are nurses made anew."""
    both = (table["sex"] == "f") & (table["nurse"] == "yes")
    return table.assign(both=np.where(both, "woman and nurse", "other"))


def question(
    run, columns=("pay",), renamed=None, policy=POLICY, complete=(), **statistics
):
    """A consortium file that asks for descriptive statistics."""
    names = renamed or {}
    known = {names.get(name, name): column for name, column in COLUMNS.items()}
    by = {statistics["by"]} if "by" in statistics else set()
    asked = {*(names.get(name, name) for name in columns), *by, *complete}
    return consortium_from(
        table(
            {
                "title": "north",
                "schema": {
                    "minimum_rows": 40,
                    "missing": "drop",
                    "complete": list(complete),
                    "columns": {name: known[name] for name in known if name in asked},
                },
                "statistics": {"columns": [names.get(c, c) for c in columns]}
                | statistics,
                "policy": policy,
                "masks": {"law": "uniform"},
            },
            run=f"{run}-{'0' * 32}",
        )
    )


class Site:
    """The party `ann`; the others have no ledger, and always the same tables.

    Args:
        folder: for its ledger.
        r1: whether the party keeps to rule R1, or has no ledger.
    """

    def __init__(self, folder, *, r1=True):
        self.ledger = None
        if r1:
            budget = Budget(release_fraction=None)
            self.ledger = open_ledger(folder / "ann.ledger", create=budget)
        self.asked = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.ledger is not None:
            self.ledger.close()

    def part(self, data, agreed=None, **how):
        """What it takes part with, on the cut that it may be asked about."""
        agreed = agreed or question(f"check-{self.asked}")
        return party_contribution(agreed, data=data, **how).on_cut(self.ledger, "ann")

    def ask(
        self,
        data,
        columns=("pay",),
        renamed=None,
        how=None,
        driver="vectorised",
        number=None,
        others=patients,
        **statistics,
    ):
        """Return a result, and what the owner reads about the cut."""
        self.asked += 1
        run = f"month-{number or self.asked}"
        agreed = question(run, columns, renamed, **statistics)
        part = self.part(data, agreed, **(how or {}))
        tables = {
            one.name: others(50, seed=9, first=1000 * k).rename(columns=renamed or {})
            for k, one in enumerate(agreed.members, 1)
            if one.name != "ann"
        }
        ledgers = {} if self.ledger is None else {"ann": self.ledger}
        tables["ann"] = part.table
        options = {"ledgers": ledgers, "new_data": part.new_data}
        found = question_job_of(
            agreed, tables, driver=driver, seed=self.asked, **options
        ).run()
        return found, part.chosen

    def sums(self, data, column="pay", **more):
        """Return the number of rows, and the sum of a column."""
        found, _ = self.ask(data, (column,), **more)
        return np.array([found.count, found.moments.sum[0]])
