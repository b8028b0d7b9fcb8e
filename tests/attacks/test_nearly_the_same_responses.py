"""A response that differs in one person from a response or a covariate of another fit.

Sums of each response times the covariates are released, and those of each covariate
times the others: differences are the covariates of that person, exactly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import veilsum as vs
from attacks.organiser import Found
from attacks.test_nearly_the_same import AIM, ROW, SCHEMA, patients
from attacks.test_the_ledger import asking, moments_of
from cases import each
from refusals import refused
from veilsum.tables.asked import TableAsking
from veilsum.tables.rules import DisclosureError

AGE = vs.Column("age", "integer", 18, 110)
FLAGS = tuple(vs.Column(one, "integer", 0, 1) for one in ("flag", "copy"))
STAGES = ("I", "II", "III", "rare")


def registry(seed, differ=1):
    """Five hospitals; some patients of the third have another value in a copy."""
    chance = np.random.default_rng(seed)
    tables = patients(seed, differ)
    for table in tables.values():
        rows = len(table["cost"])
        table["age"] = chance.integers(20, 90, rows)
        table["flag"] = (chance.random(rows) < 0.4).astype(int)
        table["copy"] = table["flag"].copy()
        table["stage"] = chance.choice(STAGES[:3], rows).astype(object)
    few = slice(ROW, ROW + differ)
    tables[AIM]["copy"][few] = 1 - tables[AIM]["flag"][few]
    tables[AIM]["stage"][few] = "rare"
    return tables


def schema(*columns):
    return replace(SCHEMA, columns=(*SCHEMA.columns, AGE, *FLAGS, *columns))


def two_responses(organiser, tables):
    """`bmi` and the same corrected, each as the response of a fit by age."""
    one, two = (
        moments_of(organiser.fit(f"{name} ~ age", tables, schema=schema()))[1]
        for name in ("bmi", "again")
    )
    found = (two[1] - one[1]) / (two[0] - one[0])
    return Found(round(found), tables[AIM]["age"][ROW])


def a_response_and_a_covariate(organiser, tables):
    """A flag as the response; its copy is a covariate."""
    _, one = moments_of(organiser.fit("flag ~ age", tables, schema=schema()))
    two, _ = moments_of(organiser.fit("cost ~ age + copy", tables, schema=schema()))
    found = (two[1, 2] - one[1]) / (two[0, 2] - one[0])
    return Found(round(found), tables[AIM]["age"][ROW])


def a_covariate_and_a_response(organiser, tables):
    """The same, the other way round."""
    two, _ = moments_of(organiser.fit("cost ~ age + copy", tables, schema=schema()))
    _, one = moments_of(organiser.fit("flag ~ age", tables, schema=schema()))
    found = (two[1, 2] - one[1]) / (two[0, 2] - one[0])
    return Found(round(found), tables[AIM]["age"][ROW])


def a_sum_of_covariates(organiser, tables):
    """`bmi` is `again` less a correction, which is a covariate with the other one."""
    for table in tables.values():
        chance = np.random.default_rng(len(table["age"]))
        table["age"] = chance.integers(20, 90, len(table["age"]))
        other = chance.integers(0, 2, len(table["age"]))
        table["cost"] = np.round(table["bmi"] * 10 + other, 2)
        table["copy"] = other
    _, one = moments_of(organiser.fit("cost ~ age", tables, schema=schema()))
    two, _ = moments_of(
        organiser.fit("flag ~ age + again + copy", tables, schema=schema())
    )
    left = [one[k] - 10 * two[k, 2] - two[k, 3] for k in (0, 1)]
    return Found(round(left[1] / left[0]), tables[AIM]["age"][ROW])


def another_meaning(organiser, tables):
    """A rare level of the response is one answer first, and then the other."""
    sums = []
    for answer in ("low", "high"):
        words = {"I": "low", "II": "low", "III": "high", "rare": answer}
        stage = vs.Column("stage", "category", categories=("low", "high"), recode=words)
        made = schema(stage)
        sums.append(moments_of(organiser.fit("stage ~ age", tables, schema=made))[1])
    found = (sums[1] - sums[0])[1]
    return Found(round(found), tables[AIM]["age"][ROW])


ATTACKS = (
    two_responses,
    a_response_and_a_covariate,
    a_covariate_and_a_response,
    a_sum_of_covariates,
    another_meaning,
)
SEEDS = range(2)


def attacked(attack, seed, differ=1):
    return asking(lambda organiser: attack(organiser, registry(seed, differ)))()


@pytest.mark.parametrize("attack", ATTACKS)
def test_differences_of_two_fits_give_a_person_away(attack, monkeypatch):
    """The twin: ledgers that do not look at responses."""
    monkeypatch.setattr(TableAsking, "_check_responses", lambda *_: None)
    assert all(attacked(attack, seed).succeeded for seed in SEEDS)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_response_that_differs_in_one_row_is_refused(attack):
    for seed in SEEDS:
        with refused("group-too-small", DisclosureError, mentions=("1 row", AIM)):
            attacked(attack, seed)


@pytest.mark.parametrize("attack", [two_responses, a_response_and_a_covariate])
def test_two_rows_are_too_few_and_twenty_are_enough(attack):
    with refused("group-too-small", DisclosureError, mentions=("2 rows", AIM)):
        attacked(attack, 1, differ=2)
    attacked(attack, 1, differ=20)


def test_the_refusal_names_both_columns_and_a_change_that_is_answered():
    @asking
    def ask(organiser):
        tables = registry(1)
        organiser.fit("flag ~ age", tables, schema=schema())
        with refused(
            "group-too-small",
            DisclosureError,
            mentions=("'flag' and 'copy'", "ask with 'flag', as before"),
        ):
            organiser.fit("cost ~ age + copy", tables, schema=schema())
        organiser.fit("cost ~ age + flag", tables, schema=schema())
        return organiser.asked

    assert ask() == 3


@each("second", ["flag ~ age + bmi", "bmi ~ age + flag", "cost ~ flag", "age ~ flag"])
def test_a_column_is_a_response_and_a_covariate_in_ordinary_work(second):
    @asking
    def ask(organiser):
        tables = registry(2)
        for formula in ("flag ~ age", "cost ~ bmi + age", second):
            organiser.fit(formula, tables, schema=schema())
        return organiser.asked

    assert ask() == 3
