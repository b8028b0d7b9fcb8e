"""Two columns that differ in one row: a measurement, and the same one corrected.

Of `again ~ bmi + cost` the sums of cost x again and of cost x bmi are released, and
those of again and of bmi: their differences are about the corrected patient alone. No
column stands out, and no combination of the design's.
"""

from __future__ import annotations

import numpy as np

import veilsum as vs
from attacks.organiser import Found
from attacks.test_the_ledger import asking, moments_of
from refusals import refused
from veilsum.tables.rules import DisclosureError, TableRulesAtHome

SITES = ("ash", "birch", "cedar", "elm", "fir")
AIM, ROW = "cedar", 7
SCHEMA = vs.Schema(
    (
        vs.Column("bmi", "number", 10, 60, unit=0.1),
        vs.Column("again", "number", 10, 60, unit=0.1),
        vs.Column("cost", "number", 0, 100_000, unit=0.01),
    ),
    minimum_rows=100,
)


def patients(seed, corrected=1, n_rows=150):
    """Five hospitals; some patients of the third were measured again."""
    chance = np.random.default_rng(seed)
    tables = {}
    for site in SITES:
        bmi = np.clip(np.round(chance.normal(27.0, 4.0, n_rows), 1), 15.0, 50.0)
        cost = np.round(chance.gamma(2.0, 900.0, n_rows), 2)
        tables[site] = {"bmi": bmi, "again": bmi.copy(), "cost": cost}
    rows = slice(ROW, ROW + corrected)
    tables[AIM]["again"][rows] += np.round(chance.normal(0.0, 2.0, corrected), 1) + 0.1
    return tables


def by_differences(organiser, seed):
    """The cost of the corrected patient, from one least-squares fit."""
    tables = patients(seed)
    result = organiser.fit("again ~ bmi + cost", tables, schema=SCHEMA)
    square, product = moments_of(result)  # of 1, bmi, cost
    found = (product[2] - square[1, 2]) / (product[0] - square[0, 1])
    return Found(round(found, 2), tables[AIM]["cost"][ROW])


def attacked(seed):
    return asking(lambda organiser: by_differences(organiser, seed))()


def test_differences_give_a_person_away(monkeypatch):
    """The twin: without the rule about influence, to the cent."""
    monkeypatch.setattr(TableRulesAtHome, "influence", lambda *_: None)
    found = [attacked(seed) for seed in range(4)]
    assert all(abs(one.recovered - one.truth) < 0.011 for one in found), found


def test_a_row_that_stands_out_in_all_numbers_is_refused():
    for seed in range(10):
        with refused("row-stands-out", DisclosureError, mentions=("'cost'", AIM)):
            attacked(seed)


def test_the_proposed_change_is_answered():
    """With either of the two columns, and with both where many rows differ."""
    for formula in ("again ~ cost", "bmi ~ cost"):
        assert vs.fit(formula, patients(1), schema=SCHEMA, seed=1).count == 750
    tables = patients(1, corrected=60)
    found = vs.fit("again ~ bmi + cost", tables, schema=SCHEMA, seed=1)
    assert found.influence[AIM].largest < 0.9975


def test_a_row_of_a_large_table_is_among_those_looked_at():
    """Where it stands out in no column, among 3,000 of which 400 are looked at."""
    for seed in range(5):
        with refused("row-stands-out", DisclosureError, mentions=("'cost'", AIM)):
            vs.fit("again ~ bmi + cost", patients(seed, n_rows=3000), schema=SCHEMA)


def test_many_terms_do_not_hide_it():
    """Of 180 numbers that change with the cost; 400 rows are too few to look at."""
    chance, names = np.random.default_rng(3), [f"x{k}" for k in range(8)]
    tables = patients(1, n_rows=3000)
    for table in tables.values():
        table |= {name: chance.integers(0, 100, 3000) for name in names}
    more = tuple(vs.Column(name, "integer", 0, 100) for name in names)
    schema = vs.Schema((*SCHEMA.columns, *more), minimum_rows=100)
    formula = f"again ~ cost * (bmi + {' + '.join(names)})"
    with refused("row-stands-out", DisclosureError, mentions=("'cost'", AIM)):
        vs.fit(formula, tables, schema=schema)
    one = patients(1, n_rows=3000, corrected=800)
    honest = {name: tables[name] | {"again": one[name]["again"]} for name in tables}
    assert vs.fit(formula, honest, schema=schema).count == 15_000
