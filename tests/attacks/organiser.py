"""Questions that are aimed: what whoever writes a consortium's file can find out.

Five hospitals with patients of their own. The organiser knows what a neighbour knows of
a patient, such as age and weight, and asks questions that everybody answers. Every
attack is a function of what is released alone; it returns what it recovered beside the
truth, which only the test knows, or lets the refusal out that it met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from computed import computed

SITES = ("ash", "birch", "cedar", "elm", "fir")
WARDS = ("north", "south", "west", "isolation")
N_ROWS = 60
# Whom the questions are aimed at: a patient of the third hospital.
AIM, ROW = "cedar", 7
AGE, BMI, SALARY, HIV = 37, 37.7, 61_234.56, 1
COLUMNS = (
    vs.Column("age", "integer", 0, 100),
    vs.Column("bmi", "number", 10, 60),
    vs.Column("hiv", "integer", 0, 1),
    vs.Column("death", "category", categories=("no", "yes")),
    vs.Column("sex", "category", categories=("f", "m")),
    vs.Column("ward", "category", categories=WARDS),
    vs.Column("site", "category", categories=SITES),
    vs.Column("code", "integer", 0, 9),
    vs.Column("record", "integer", 0, 9_999),
    vs.Column("salary", "number", 0, 200_000),
)
SCHEMA = vs.Schema(COLUMNS, minimum_rows=50)


@dataclass(frozen=True)
class Found:
    """What an attack recovered, and what is true.

    Attributes:
        recovered: from what was released.
        truth: of the party's table.
        status: what the result's guarantee said about it all.
    """

    recovered: Any
    truth: Any
    status: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it is the truth; numbers to a millionth."""
        if self.recovered == self.truth:
            return True
        pair = np.asarray(self.recovered), np.asarray(self.truth)
        if pair[0].shape != pair[1].shape or not all(
            x.dtype.kind in "if" for x in pair
        ):
            return False
        return bool(np.allclose(*pair, rtol=1e-6, atol=1e-6))


def patients(seed=1):
    """Five hospitals' tables; nobody else has the age and weight of the one."""
    tables = {}
    for place, site in enumerate(SITES):
        chance = np.random.default_rng((seed, place))
        n = N_ROWS
        age = chance.integers(20, 90, n)
        bmi = np.round(np.clip(chance.normal(26, 4, n), 15, 45), 1)
        # Nobody else is near in both.
        bmi[(np.abs(age - AGE) < 2) & (np.abs(bmi - BMI) < 2)] = 22.0
        table = pd.DataFrame(
            {
                "age": age,
                "bmi": bmi,
                "hiv": (chance.random(n) < 0.2).astype(int),
                "death": np.where(np.arange(n) // 3 % (2 + place % 2), "no", "yes"),
                "sex": np.where(chance.random(n) < 0.5, "f", "m"),
                "ward": np.array(WARDS[:3])[np.arange(n) % 3],
                "site": site,
                "code": place + 2,
                # Numbers are given out by the hundred to each hospital.
                "record": 1000 + 100 * place + chance.permutation(n),
                "salary": np.round(chance.normal(50_000, 8_000, n), 2),
            }
        )
        tables[site] = table
    one = {"age": AGE, "bmi": BMI, "hiv": HIV, "salary": SALARY}
    for name, value in one.items():
        tables[AIM].loc[ROW, name] = value
    return tables


# What every question here is asked with; by default the rules that all have.
RULES = {}


def asked(question, *words, **options):
    """Ask, in a simulation: what one simulates is what will run."""
    given = {"driver": "vectorised", "seed": 1, **RULES, **options}
    return question(*words, **given)


def fitted(formula, tables, **options):
    """Fit; a text in braces is a column that all tables have."""
    schema = options.pop("schema", SCHEMA)
    formula, tables, schema = computed(formula, tables, schema)
    return asked(vs.fit, formula, tables, schema=schema, **options)


def counted(tables, cells=(), **options):
    options = {"schema": SCHEMA, "columns": [], "tables": cells, **options}
    return asked(vs.statistics, tables, **options)


def refused_by(attack):
    """Which rule an attack was refused by, or the kind of its refusal."""
    with pytest.raises(vs.InvalidInputError) as refusal:
        attack()
    return getattr(refusal.value, "rule", type(refusal.value).__name__)


def check_rules_refuse(attack, rules):
    """Check that one of these rules refuses an attack, which succeeds without any."""
    assert refused_by(attack) in rules
    with patch.dict(RULES, rules=vs.Rules.none()):
        assert attack().succeeded


def check_cells_merge(attack):
    """Check that an attack finds merged cells, and succeeds without any rules."""
    assert not attack().succeeded
    with patch.dict(RULES, rules=vs.Rules.none()):
        assert attack().succeeded


def said(result, *columns):
    """What a fitted line says of a row that has these numbers beside the intercept."""
    return float(result.fit.coefficients @ [1.0, *columns])
