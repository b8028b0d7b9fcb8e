"""A question cannot be aimed at one person.

A column that is large for one row only gives that row's response, whatever it is called
and however it is written down; so does a level with one row, a cell of a table, a power
that the oldest patient wins. All of it once ran, as `private`, with epsilon 0.
"""

from functools import partial

import numpy as np

from attacks.organiser import (
    AGE,
    AIM,
    BMI,
    HIV,
    ROW,
    SALARY,
    Found,
    check_cells_merge,
    check_rules_refuse,
    counted,
    fitted,
    patients,
    said,
)
from cases import each

# A threshold that only the one is beyond, in ways to write it; BMI is the last.
THRESHOLDS = {
    "a threshold": f"bmi > {BMI - 0.1:.1f}",
    "a threshold, turned": f"1 - (bmi < {BMI})",
    "where": f"where(bmi >= {BMI}, 1, 0)",
    "where, of a column": f"where(bmi >= {BMI}, age, 0) / {AGE}",
    "two thresholds": f"(bmi > {BMI - 0.1:.1f}) & (age == {AGE})",
    "a threshold of a sum": f"bmi + age / 1000 >= {BMI} + {AGE} / 1000",
    "one more than a level": f'(sex != "f") & (bmi > {BMI - 0.1:.1f})',
}


NEAR = f"((age - {AGE})**2 + (bmi - {BMI})**2)"
BUMP = f"exp(-1000*{NEAR})"
# Columns that are one number for the person and another one for everybody else.
BUMPS = {
    "a bump": (BUMP, 1.0),
    "all but a bump": (f"1 - {BUMP}", 0.0),
    "a pole": (f"1/(1e-12 + {NEAR})", 1e12),
    "a root": (f"exp(-1000*sqrt({NEAR}))", 1.0),
    "a logarithm": (f"log1p(1e12*{BUMP})", np.log1p(1e12)),
    "a corner": (f"exp(-500*abs(age - {AGE}) - 500*abs(bmi - {BMI}))", 1.0),
    "a step": (f"1/(1 + (1000*{NEAR})**3)", 1.0),
}


def by_a_column(column, value):
    """Status and salary, from two fits on one column."""
    tables = patients()
    fits = [fitted(f"{y} ~ {{{column}}}", tables) for y in ("hiv", "salary")]
    found = [said(one, value) for one in fits]
    return Found(found, [HIV, SALARY], fits[0].guarantee.status)


def by_a_product():
    """The same, where the bump has a factor and stands beside other columns."""
    tables = patients()
    fits = [fitted(f"{y} ~ bmi:{{{BUMP}}}", tables) for y in ("hiv", "salary")]
    found = [said(one, BMI) for one in fits]
    return Found(found, [HIV, SALARY], fits[0].guarantee.status)


def heaviest(tables):
    """Everybody else is lighter by a little: the person is the last in an order."""
    for table in tables.values():
        table["bmi"] = np.minimum(table["bmi"], BMI - 0.3)
    tables[AIM].loc[ROW, "bmi"] = BMI
    return tables


def by_a_power():
    """Of whoever is the heaviest: a high power is large for nobody else."""
    result = fitted(f"salary ~ {{(bmi/{BMI})**4000}}", heaviest(patients()))
    return Found(said(result, 1.0), SALARY, result.guarantee.status)


def by_a_threshold(column):
    """The same by whether somebody is as heavy; the one is a man."""
    tables = heaviest(patients())
    tables[AIM].loc[ROW, "sex"] = "m"
    result = fitted(f"salary ~ {{{column}}}", tables)
    return Found(said(result, 1.0), SALARY, result.guarantee.status)


def by_growth():
    """The same by a function that grows fast."""
    result = fitted(f"salary ~ {{exp(100*(bmi - {BMI}))}}", heaviest(patients()))
    return Found(said(result, 1.0), SALARY, result.guarantee.status)


def isolated(tables, n=1):
    """The person, and so many in all, lie in a ward of their own."""
    own = tables[AIM]
    rest = [k for k in own.index if k != ROW][: n - 1]
    own.loc[[ROW, *rest], "ward"] = "isolation"
    own.loc[[ROW, *rest], "sex"] = ["f"] + ["m"] * len(rest)
    own.loc[ROW, "death"] = "yes"
    return tables


def by_a_level():
    """The response of the only patient of a ward."""
    result = fitted("salary ~ C(ward)", isolated(patients()))
    return Found(said(result, 0, 0, 1), SALARY, result.guarantee.status)


def by_an_interaction():
    """The response of the only woman of a ward that has twelve patients."""
    result = fitted("salary ~ C(ward):C(sex) - 1", isolated(patients(), 12))
    (found,) = (
        value
        for name, value in result.coefficients.items()
        if "isolation" in name and "f]" in name
    )
    return Found(found, SALARY, result.guarantee.status)


def by_a_cell():
    """What became of the only patient of a ward, from a table of counts."""
    result = counted(isolated(patients()), [["ward", "death"]])
    found = result.tables["ward", "death"][-1].tolist()
    return Found(found, [0, 1], result.guarantee.status)


def by_bins():
    """A salary to the cent: a bin of a cent's width is empty but for the one's."""
    edges = [0, SALARY - 0.005, SALARY + 0.005, 200_000]
    result = counted(patients(), histograms={"salary": edges})
    histogram = result.histograms["salary"]
    place = np.searchsorted(histogram.edges, SALARY, side="right") - 1
    found = histogram.counts[place]
    return Found(found, 1, result.guarantee.status)


# Each attack with the rules that may refuse it: more than one sees it.
# A bump is the same number in all rows of who has not the one: a site term there.
SPREAD = {"effective_count", "maximum_influence", "minimum_count", "site_terms"}
ATTACKS = {
    **{name: (partial(by_a_column, *one), SPREAD) for name, one in BUMPS.items()},
    "a bump as a factor": (by_a_product, SPREAD),
    **{
        name: (partial(by_a_threshold, one), SPREAD) for name, one in THRESHOLDS.items()
    },
    "a power": (by_a_power, SPREAD),
    "a growth": (by_growth, SPREAD),
    "a level": (by_a_level, {"minimum_count"}),
    "an interaction": (by_an_interaction, {"minimum_count"}),
}
MERGED = {"a cell": by_a_cell, "bins": by_bins}


@each(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_nothing_of_one_person_is_found(attack, rules):
    check_rules_refuse(attack, rules)


@each("attack", MERGED.values(), ids=MERGED)
def test_a_cell_of_one_person_is_merged_with_others(attack):
    check_cells_merge(attack)


# The same questions without the aim.


def of_everybody(formula):
    return lambda: fitted(formula, patients())


TWINS = {
    "columns": of_everybody("salary ~ age + bmi + {(age - 50)**2}"),
    "functions": of_everybody("salary ~ {log(bmi)} + {sqrt(age)} + {1/bmi}"),
    "a wide bump": of_everybody("salary ~ {exp(-((age - 50)/20)**2)}"),
    "thresholds": of_everybody(
        'salary ~ {age > 60} + {where(bmi > 26, 1, 0)} + {(bmi > 24) & (sex == "f")}'
    ),
    "a status": of_everybody("hiv ~ age + bmi"),
    "levels": of_everybody("salary ~ C(death)*C(sex)"),
    "cells": lambda: counted(patients(), [["ward", "death"]]),
    "bins": lambda: counted(patients(), histograms={"age": [0, 40, 60, 100]}),
}


@each("question", TWINS.values(), ids=TWINS)
def test_what_is_aimed_at_nobody_is_answered(question):
    assert question().released.sums
