"""Products of columns leave one person's number, without any constant.

Of `b ~ a * cost` the sums of cost, a cost, b cost and a b cost are released. Where one
patient alone has neither a nor b, they leave the cost of that one.
"""

from __future__ import annotations

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import Found
from attacks.test_the_ledger import asking, moments_of
from refusals import refused
from veilsum.tables.rules import DisclosureError, TableRulesAtHome

SITES = ("ash", "birch", "cedar", "elm", "fir")
AIM, ROW = "cedar", 7
SCHEMA = vs.Schema(
    (
        vs.Column("a", "integer", 0, 1),
        vs.Column("b", "integer", 0, 1),
        vs.Column("cost", "number", 0, 100_000, unit=0.01),
    ),
    minimum_rows=50,
)


def patients(seed, *, alone=True):
    """Five hospitals; everybody but one patient of the third has a or b, or both."""
    chance = np.random.default_rng(seed)
    tables = {}
    for site in SITES:
        a, b = chance.integers(0, 2, (2, 60))
        tables[site] = {
            "a": np.where((a == 0) & (b == 0) & alone, 1, a),
            "b": b,
            "cost": np.round(chance.gamma(2.0, 900.0, 60), 2),
        }
    if alone:
        tables[AIM]["a"][ROW] = tables[AIM]["b"][ROW] = 0
    return tables


def by_products(organiser, seed):
    """The cost of the patient that has neither, from one least-squares fit."""
    tables = patients(seed)
    result = organiser.fit("b ~ a * cost", tables, schema=SCHEMA)
    square, product = moments_of(result)  # of 1, a, cost, a cost
    found = square[0, 2] - square[1, 2] - product[2] + product[3]
    return Found(round(found, 2), tables[AIM]["cost"][ROW])


def by_opposites(organiser, seed):
    """The same without an interaction: b is the opposite of a but for one patient."""
    tables = patients(seed)
    for one in tables.values():
        one["b"] = 1 - one["a"]
    tables[AIM]["b"][ROW] = tables[AIM]["a"][ROW]
    result = organiser.fit("b ~ a + cost", tables, schema=SCHEMA)
    square, product = moments_of(result)  # of 1, a, cost
    found = abs(square[0, 2] - square[1, 2] - product[2])
    return Found(round(found, 2), tables[AIM]["cost"][ROW])


def attacked(attack, seed):
    return asking(lambda organiser: attack(organiser, seed))()


@pytest.mark.parametrize("attack", [by_products, by_opposites])
def test_products_give_a_person_away(attack, monkeypatch):
    """The twin: rules that do not look at products let it pass, to the cent."""
    monkeypatch.setattr(TableRulesAtHome, "summed", lambda *_: None)
    monkeypatch.setattr(TableRulesAtHome, "influence", lambda *_: None)
    assert all(attacked(attack, seed).succeeded for seed in range(4))


@pytest.mark.parametrize("attack", [by_products, by_opposites])
def test_sums_that_leave_one_person_are_refused(attack):
    for seed in range(10):
        with refused("group-too-small", DisclosureError, mentions=("cost",)):
            attacked(attack, seed)


@pytest.mark.parametrize("formula", ["b ~ a * cost", "b ~ a + cost"])
def test_ordinary_products_are_allowed(formula):
    """The twin: where every combination of a and b has rows enough, nothing changes."""
    fitted = vs.fit(formula, patients(1, alone=False), schema=SCHEMA, seed=1)
    assert fitted.guarantee.status == "private"
