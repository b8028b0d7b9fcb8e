"""A total of incomes in thousands, but for one of 41,237, ends in 237.

The exact sums of least squares and of statistics are taken apart by their last digits:
those of the sum of incomes are the person's own, and with them those of the sum of
age x income give the age. No influence is measured that way, for it is about linear
combinations. So few values between heaps are refused, with the unit that hides them.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

import veilsum as vs
from attacks.organiser import Found
from plans import ordinary, registry
from refusals import refused
from veilsum.tables.rules import DisclosureError, Rules, TableRulesAtHome

SITES, AIM, ROW, HEAP = ("ash", "birch", "cedar", "elm", "fir"), "cedar", 7, 1000
OPTIONS = {"driver": "vectorised", "seed": 1}


def schema(unit=1):
    """Incomes are counted in a unit."""
    income = vs.Column("income", "number", 0, 200_000, unit=unit)
    return vs.Schema((vs.Column("age", "integer", 18, 95), income), minimum_rows=120)


def patients(seed, between=1):
    """Five tables with incomes in thousands; some of the third site's are not."""
    tables = {}
    for place, site in enumerate(SITES):
        chance = np.random.default_rng([seed, place])
        age = chance.integers(18, 96, 120)
        income = chance.normal(40 + 0.2 * age, 12).round().clip(5, 200) * HEAP
        if site == AIM:
            odd = 2 * chance.integers(0, 500, between) + 1  # 237 has an inverse
            odd += 2 * (odd % 5 == 0)
            income[ROW : ROW + between] += odd
        tables[site] = pd.DataFrame({"age": age, "income": income})
    return tables


def by_last_digits(seed):
    """The last three digits of an income, and the age of whom it is."""
    tables = patients(seed)
    found = vs.fit("income ~ age", tables, schema=schema(), **OPTIONS)
    square = found.fit.residual_variance * np.linalg.inv(found.fit.covariance)
    one, product = (round(number) for number in square @ found.fit.coefficients)
    digits = one % HEAP
    age = product * pow(digits, -1, HEAP) % HEAP
    row = tables[AIM].loc[ROW]
    return Found((digits, age), (int(row["income"]) % HEAP, int(row["age"])))


def test_last_digits_give_digits_and_age_away(monkeypatch):
    """The twin: without the rule, 20 of 20."""
    monkeypatch.setattr(TableRulesAtHome, "_heaped", lambda *_: None)
    found = [by_last_digits(seed) for seed in range(20)]
    assert [one.recovered for one in found] == [one.truth for one in found]


def test_few_values_between_heaps_are_refused_with_a_unit_that_works():
    for between, row in ((1, "1 row"), (2, "2 rows"), (5, "5 rows")):
        tables = patients(3, between)
        for ask in (
            lambda tables, **how: vs.fit("income ~ age", tables, **how),
            lambda tables, **how: vs.statistics(tables, columns=["income"], **how),
        ):
            mentions = (AIM, row, "'income'", "[schema.columns]", "unit = 1000")
            with refused(
                "few-between-heaps", DisclosureError, mentions=mentions
            ) as told:
                ask(tables, schema=schema(), **OPTIONS)
            (unit,) = re.findall(r"unit = (\d+)", str(told.value))
            assert ask(tables, schema=schema(int(unit)), **OPTIONS).count == 600
            (count,) = re.findall(r"vs\.Rules\(minimum_count=(\d)\)", str(told.value))
            loose = Rules(minimum_count=int(count))
            assert ask(tables, schema=schema(), rules=loose, **OPTIONS).count == 600


def test_several_values_between_heaps_and_none_are_answered():
    for between in (0, 6, 60):
        tables = patients(3, between)
        assert vs.fit("income ~ age", tables, schema=schema(), **OPTIONS).count == 600


def test_ordinary_columns_raise_no_alarm():
    """Of careful least squares and statistics, and of the registry, not one column."""
    home, checked = TableRulesAtHome("here", Rules()), 0
    seen = set()
    for plan in ordinary.CAREFUL:
        asked = str(plan.job)
        if plan.job.get("family", "gaussian") != "gaussian":
            continue
        tables = plan.tables
        for column in plan.schema(tables).columns:
            named = re.search(rf"\b{column.name}\b", asked)
            key = (plan.data, plan.parties, column.name)
            if column.is_category or not named or key in seen:
                continue
            seen.add(key)
            for table in tables.values():
                values = table[column.name].to_numpy(float)
                home._heaped(column.name, values, column.measure.unit)
                checked += 1
    for missing in registry.MISSING:
        for table in registry.tables(missing).values():
            for column in registry.SCHEMA.columns:
                if not column.is_category:
                    values = table[column.name].dropna().to_numpy(float)
                    home._heaped(column.name, values, column.measure.unit)
                    checked += 1
    assert checked > 500


def test_a_unit_that_was_not_agreed_on_raises_no_alarm():
    """Its 40 bits are finer than pressures of which five are means of three."""
    home = TableRulesAtHome("here", Rules())
    unit = vs.Column("bp", "number", 0, 200).measure.unit
    pressures = np.random.default_rng(1).integers(60, 140, 88) * 1.0
    pressures[:5] += np.array([0.33, 0.67, 0.33, 0.67, 0.33])
    home._heaped("bp", pressures, unit)
    pressures[0] += 0.001
    with refused("few-between-heaps", DisclosureError, mentions=("unit = 1 ",)):
        home._heaped("bp", pressures, unit)


def test_what_is_no_heap():
    """Two values, a column that is mostly 0, halves, and one value off one heap."""
    home, chance = TableRulesAtHome("here", Rules()), np.random.default_rng(1)
    unit = vs.Column("x", "number", 0, 1e6, unit=0.001).measure.unit
    wide = chance.integers(0, 1000, 90) * 1.0
    for values in (
        np.r_[np.zeros(80), np.ones(10) * 411.237],
        np.r_[np.zeros(85), 411.237, 31.9, 14.111, 77.7, 13.2],
        np.r_[wide, 17.5],
        np.r_[np.full(90, 1000.0), 411.237],
        np.r_[np.tile([1000.0, 2000.0, 3000.0, 4000.0], 20), 411.237],
        np.r_[wide, chance.uniform(0, 1000, 6).round(3)],
        np.zeros(9),
    ):
        home._heaped("x", values, unit)
    for odd in (0.237, 411.237, 999.999):
        with refused("few-between-heaps", DisclosureError, mentions=("unit = 1 ",)):
            home._heaped("x", np.r_[wide, odd], unit)
