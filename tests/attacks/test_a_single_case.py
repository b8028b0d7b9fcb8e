"""One site has a single case: its covariates follow if others' cases are known by name.

At the other sites everybody with the disease takes the drug, and nobody else does. Then
X'y less the same row of X'X, both in the first sum of a logistic fit, is about the
single case that takes no drug. So a site with one or two cases is refused, although
other sites have cases enough: their cases hide nobody whom a second column sets apart.
Neither the rule about influence nor a count of the sites with enough cases sees it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import veilsum as vs
from attacks.organiser import Found
from refusals import refused
from veilsum.questions.regression import regression_formula_job
from veilsum.tables.rules import DisclosureError

SITES, AIM, ROW = ("ash", "birch", "cedar", "elm", "fir", "gorse"), "cedar", 7
AGES = 18, 95
SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", *AGES),
        vs.Column("drug", "integer", 0, 1),
        vs.Column("ill", "integer", 0, 1),
    ),
    minimum_rows=60,
)
FORMULA = "ill ~ age + drug"
# What a site with a single case would have to be excused from.
EXCUSED = vs.Rules(minimum_count=1, effective_count=1)
OPTIONS = {"family": "logistic", "schema": SCHEMA, "driver": "vectorised", "seed": 1}


def patients(seed, cases=1, among_others=0.0):
    """Return six tables; the third site has few cases, and they take no drug.

    Args:
        seed: of everything.
        cases: number of cases of the third site.
        among_others: share of patients elsewhere who take or lack the drug at random.
    """
    chance, tables = np.random.default_rng(seed), {}
    for site in SITES:
        age = np.clip(chance.normal(50, 15, 60).round(), *AGES)
        ill = (np.arange(60) % 5 == 0).astype(int)
        mixed = chance.random(60) < among_others
        drug = np.where(mixed, chance.integers(0, 2, 60), ill)
        if site == AIM:
            ill, drug = np.zeros(60, dtype=int), np.zeros(60, dtype=int)
            ill[ROW : ROW + cases] = 1
            drug[ROW + 10 : ROW + 30] = among_others > 0
        tables[site] = pd.DataFrame({"age": age, "drug": drug, "ill": ill})
    return tables


def by_the_first_sum(seed):
    """The age of the single case, from the first sum alone."""
    tables = patients(seed)
    job = regression_formula_job(SCHEMA, formula=FORMULA, family="logistic")
    rows = [job.bring(job.schema.check(site, one)) for site, one in tables.items()]
    recipe = job.recipe()
    total = np.sum([job.answer(one, recipe.request(())) for one in rows], axis=0)
    sums = recipe.first_layout.unpack(total)
    # Ages are counted from the middle of the agreed range.
    middle = sum(AGES) // 2
    found = int(sums["along"][1] - sums["matrix"][1, 2]) + middle
    return Found(found, int(tables[AIM]["age"][ROW]))


def test_a_single_case_follows_from_the_first_sum_of_a_logistic_fit():
    """20 of 20 ages, to the year: so such a site is refused."""
    found = [by_the_first_sum(seed) for seed in range(20)]
    assert [one.recovered for one in found] == [one.truth for one in found]


def test_neither_influence_nor_a_count_of_sites_with_cases_sees_it():
    """The twin: the fit ends with separation, and its first sum is out by then."""
    for seed in range(5):
        tables = patients(seed)
        with refused("endless-coefficient", mentions=("drug",)):
            vs.fit(FORMULA, tables, **OPTIONS, rules=EXCUSED)
        enough = [
            site
            for site, one in tables.items()
            if one["ill"].sum() >= 3 and (1 - one["ill"]).sum() >= 3
        ]
        assert set(enough) == set(SITES) - {AIM}


def test_a_site_with_one_or_two_cases_is_refused_before_anything_is_sent():
    for cases, row in ((1, "1 row"), (2, "2 rows")):
        with refused("group-too-small", DisclosureError, mentions=(AIM, row)):
            vs.fit(FORMULA, patients(1, cases), **OPTIONS)


def test_sites_with_no_case_or_three_are_answered():
    """And with the proposed change one or two cases are, where that is agreed on."""
    for cases in (0, 3):
        tables = patients(1, cases, among_others=0.5)
        assert vs.fit(FORMULA, tables, **OPTIONS).count == 360
    for cases in (1, 2):
        tables = patients(1, cases, among_others=0.5)
        assert vs.fit(FORMULA, tables, **OPTIONS, rules=EXCUSED).count == 360
