"""A variable on its own rows in one table, and on complete rows in another question.

Columns with many gaps put the variables of a table by group on their own rows. Another
question is about complete rows, which one person lacks: that person is the difference.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import Found
from attacks.test_the_ledger import asking, moments_of
from refusals import refused
from veilsum.tables.asked import TableAsking
from veilsum.tables.rules import DisclosureError

SITES = ("ash", "birch", "cedar", "elm", "fir")
AIM, ROW = "cedar", 7
SCHEMA = vs.Schema(
    (
        vs.Column("ill", "category", categories=("no", "yes")),
        vs.Column("sbp", "integer", 60, 260),
        vs.Column("bmi", "number", 10, 60, unit=0.1),
        vs.Column("hb", "number", 3, 25, unit=0.1),
    ),
    minimum_rows=100,
    missing="drop",
)


def patients(seed, lacking=1):
    """Five hospitals; some patients of the third have no weight on record."""
    chance = np.random.default_rng(seed)
    tables = {}
    for site in SITES:
        hb = np.round(chance.normal(13.0, 1.5, 160), 1)
        hb[chance.random(160) < 0.3] = np.nan
        tables[site] = {
            "ill": np.where(chance.random(160) < 0.3, "yes", "no"),
            "sbp": chance.integers(90, 200, 160),
            "bmi": np.round(np.clip(chance.normal(26.0, 4.0, 160), 15.0, 45.0), 1),
            "hb": hb,
        }
    few = slice(ROW, ROW + lacking)
    tables[AIM]["bmi"][few], tables[AIM]["hb"][few] = np.nan, 13.0
    return tables


def described(organiser, tables, *columns, by="ill"):
    options = organiser._options(tables, {"schema": SCHEMA})
    return vs.statistics(tables, columns=columns, by=by, tables=[], **options)


def sum_of(result, name):
    return result.marginals.sum[[*result.columns].index(name)]


def two_tables(organiser, seed, lacking=1):
    """The blood pressure of the one patient without a weight."""
    tables = patients(seed, lacking)
    own = described(organiser, tables, "sbp", "hb")
    complete = described(organiser, tables, "sbp", "bmi")
    found = sum_of(own, "sbp") - sum_of(complete, "sbp")
    return Found(round(found), int(tables[AIM]["sbp"][ROW]))


def a_table_and_a_fit(organiser, seed, lacking=1):
    """The same, where the second question is a fit with weights."""
    tables = patients(seed, lacking)
    own = described(organiser, tables, "sbp", "hb")
    schema = replace(
        SCHEMA, columns=[SCHEMA.column(one) for one in ("bmi", "ill", "sbp")]
    )
    options = organiser._options(tables, {"schema": schema})
    _, products = moments_of(vs.fit("sbp ~ bmi + ill", tables, **options))
    found = sum_of(own, "sbp") - products[0]
    return Found(round(found), int(tables[AIM]["sbp"][ROW]))


ATTACKS = [two_tables, a_table_and_a_fit]
SEEDS = range(2)


def attacked(attack, seed, lacking=1):
    return asking(lambda organiser: attack(organiser, seed, lacking))()


@pytest.mark.parametrize("attack", ATTACKS)
def test_own_rows_and_complete_rows_differ_by_one_person(attack, monkeypatch):
    """The twin: ledgers that do not compare them."""
    monkeypatch.setattr(TableAsking, "_check_own_and_complete", lambda *_: None)
    monkeypatch.setattr(TableAsking, "_check_responses", lambda *_: None)
    assert all(attacked(attack, seed).succeeded for seed in SEEDS)


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_second_question_is_refused(attack):
    for seed in SEEDS:
        with refused("group-too-small", DisclosureError, mentions=("1 row", AIM)):
            attacked(attack, seed)


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_is_answered_where_twenty_lack_a_weight(attack):
    attacked(attack, 1, lacking=20)


def test_the_proposed_changes_are_answered():
    """The columns of before, in any groups, or without the weights."""

    @asking
    def ask(organiser):
        tables = patients(1)
        described(organiser, tables, "sbp", "hb")
        with refused(
            "group-too-small",
            DisclosureError,
            mentions=("leave out a column that few rows lack",),
        ):
            described(organiser, tables, "sbp", "bmi")
        described(organiser, tables, "hb", "sbp")
        described(organiser, tables, "sbp")
        return organiser.asked

    assert ask() == 4
