"""Two tables whose dictionaries list levels in another order.

A small level merges with the next one. In another order that is another level, so that
the difference of two tables is the small level: one person, in every cross table.
"""

from __future__ import annotations

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import Found
from attacks.test_the_ledger import asking
from refusals import refused
from veilsum.tables.asked import TableAsking
from veilsum.tables.rules import DisclosureError

SITES = ("ash", "birch", "cedar", "elm", "fir")
AIM, ROW = "cedar", 7
ORDER, OTHER = ("A", "rare", "B", "C"), ("A", "B", "rare", "C")


def patients(seed):
    chance = np.random.default_rng(seed)
    tables = {
        site: {
            "stage": chance.choice(["A", "B", "C"], 160).astype(object),
            "ill": np.where(chance.random(160) < 0.3, "yes", "no").astype(object),
        }
        for site in SITES
    }
    tables[AIM]["stage"][ROW] = "rare"
    return tables


def table_of(organiser, tables, order):
    columns = (
        vs.Column("stage", "category", categories=order),
        vs.Column("ill", "category", categories=("no", "yes")),
    )
    schema = vs.Schema(columns, minimum_rows=100, maximum_rows=200)
    options = organiser._options(tables, {"schema": schema})
    found = vs.statistics(tables, columns=[], tables=[["stage", "ill"]], **options)
    return np.asarray(found.tables["stage", "ill"])


def by_two_orders(organiser, seed, orders=(ORDER, OTHER)):
    """Whether the one person with a rare stage is ill: a difference of two rows."""
    tables = patients(seed)
    one, two = (table_of(organiser, tables, order) for order in orders)
    differences = [x - y for x in two for y in one]
    single = [d for d in differences if d.min() == 0 and d.sum() == 1]
    found = "" if not single else ("no", "yes")[int(np.argmax(single[0]))]
    return Found(found, tables[AIM]["ill"][ROW])


def attacked(seed, **options):
    return asking(lambda organiser: by_two_orders(organiser, seed, **options))()


SEEDS = range(3)


def test_two_orders_leave_a_person(monkeypatch):
    """The twin: ledgers that do not compare orders."""
    monkeypatch.setattr(TableAsking, "_check_orders", lambda *_: None)
    assert all(attacked(seed).succeeded for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_order_of_levels_is_refused(seed):
    with refused(
        "group-too-small",
        DisclosureError,
        mentions=("stage", 'categories = ["A", "rare", "B", "C"]'),
    ):
        attacked(seed)


def test_the_order_of_before_is_answered_and_so_is_another_table():
    assert not attacked(1, orders=(ORDER, ORDER)).succeeded
    assert not attacked(1, orders=(ORDER, (*ORDER, "unused"))).succeeded
