"""A scaled column with few bits has steps, and its author chooses where they lie.

`cost / u` in 8 bits is a step function of the cost. With two scales a little apart the
rounded columns differ in the one person whose known cost lies at an edge: differences
of products are that person's other values.
"""

from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from refusals import refused
from veilsum.models import least_squares
from veilsum.privacy import Budget
from veilsum.tables.formula import ModelFormula
from veilsum.tables.rules import DisclosureError

PARTIES = "abcde"


def integer(least, most):
    return {"kind": "integer", "minimum": least, "maximum": most}


def schema_with(**scaled):
    """A schema with columns that are the cost in other units."""
    plain = {
        "cost": {"kind": "number", "minimum": 0, "maximum": 60000, "unit": 0.01},
        "age": integer(18, 110),
        "sbp": integer(60, 260),
        "hiv": integer(0, 1),
    }
    lines = {
        name: {"of": "cost", "as": "scale", "unit": u} for name, u in scaled.items()
    }
    return vs.Schema.from_table(
        {"minimum_rows": 100, "maximum_rows": 170, "columns": plain | lines}
    )


def patients(seed):
    """Five tables, and one person of whom the cost is known."""
    chance, tables = np.random.default_rng(seed), {}
    for party in PARTIES:
        tables[party] = pd.DataFrame(
            {
                "cost": np.round(chance.uniform(1000, 50000, 160), 2),
                "age": chance.integers(20, 90, 160),
                "sbp": chance.integers(90, 200, 160),
                "hiv": (chance.random(160) < 0.3).astype(int),
            }
        )
    aim = tables[PARTIES[chance.integers(5)]].loc[int(chance.integers(160))]
    return tables, aim


def scales_beside(cost):
    """Two scales of which one step lies just below a cost, and just above."""
    formula = ModelFormula.of("sbp ~ cost_s", schema_with(cost_s=100.000001))
    step = float(formula.measures(8)[1].unit)
    unit = cost / ((np.floor(cost / 100 / step) + 0.5) * step)
    return [round(unit * (1 + sign * 2e-7), 9) for sign in (-1, 1)]


def by_two_fits(seed, scales=None):
    """Return what differences of two fits give, and the person's age, hiv and sbp."""
    tables, aim = patients(seed)
    with TemporaryDirectory() as folder:
        books = {p: vs.open_ledger(f"{folder}/{p}", create=Budget()) for p in PARTIES}
        try:
            first, second = (
                np.array(
                    vs.fit(
                        "sbp ~ cost_s + age + hiv",
                        tables,
                        schema=schema_with(cost_s=unit),
                        bits=8,
                        ledgers=books,
                        run=f"run-{k}",
                    ).inner[1][-1]
                )
                for k, unit in enumerate(scales or scales_beside(float(aim.cost)))
            )
        finally:
            for book in books.values():
                book.close()
    apart = (second - first)[:14]  # X'X of 1, cost, age, hiv; X'y
    found = apart[[4, 7, 11]] * apart[1]
    return [*map(int, found)], [int(aim[name]) for name in ("age", "hiv", "sbp")]


def by_one_fit(seed, monkeypatch):
    """Return the same from the products of two scaled columns in one fit."""
    tables, aim = patients(seed)
    one, other = scales_beside(float(aim.cost))
    totals, solve = [], least_squares.fit
    monkeypatch.setattr(
        least_squares,
        "fit",
        lambda total, *args, **more: (
            totals.append(total),
            solve(total, *args, **more),
        )[1],
    )
    with pytest.raises(vs.VeilsumError) as ended:
        vs.fit(
            "sbp ~ s1 + s2 + age + hiv",
            tables,
            schema=schema_with(s1=one, s2=other),
            bits=8,
        )
    if isinstance(ended.value, DisclosureError):
        raise ended.value
    x = np.array([*map(int, totals[0])])
    sign = x[1] - x[3]
    found = sign * np.array([x[7] - x[8], x[11] - x[12], x[16] - x[17]])
    return [*map(int, found)], [int(aim[name]) for name in ("age", "hiv", "sbp")]


def test_two_scales_of_one_column_are_refused_where_few_rows_lie_between():
    for seed in range(3):
        with refused("group-too-small", DisclosureError):
            by_two_fits(seed)


def test_without_the_comparison_a_person_is_read_off(monkeypatch):
    """The twin: 6 of 6."""
    monkeypatch.setattr(ModelFormula, "counted", lambda _, *both: both[:2])
    for seed in range(2):
        found, truth = by_two_fits(seed)
        assert found == truth


def test_the_scale_of_before_is_answered():
    by_two_fits(0, scales=[1000.0, 1000.0])


def test_two_scales_in_one_fit_stand_out(monkeypatch):
    for seed in range(3):
        with refused("group-too-small", DisclosureError):
            by_one_fit(seed, monkeypatch)


def test_without_the_rule_about_influence_one_fit_is_enough(monkeypatch):
    """The twin: what the solver is given holds the person's values."""
    monkeypatch.setattr(ModelFormula, "counted", lambda _, *both: both[:2])
    found, truth = by_one_fit(0, monkeypatch)
    assert found == truth
