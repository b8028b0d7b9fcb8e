"""A lying member that aims the next round at one person of another party.

It adds a false vector to the first sum: the statistics of its own rows, their working
responses replaced by the predictor at a point of its choice, times a large number. The
weighted least squares fit of the total is that point then, whatever the others add.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd

import veilsum as vs
from veilsum.jobs import table_job
from veilsum.jobs.presence import Screened
from veilsum.jobs.recipes import Guarded
from veilsum.jobs.running import run_job
from veilsum.models.families import Binomial, Poisson
from veilsum.models.weights import RowWeights

LIAR, VICTIM = "a", "c"
PARTIES = ("a", "b", "c", "d", "e")
OLDEST, STEEP, LARGE = 97, 25.0, 10**7
COUNTED = {"logistic": Binomial, "poisson": Poisson}

SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", 18, 99),
        vs.Column("hiv", "integer", 0, 1),
        vs.Column("ill", "integer", 0, 1),
        vs.Column("visits", "integer", 0, 50),
    ),
    minimum_rows=40,
)
RESPONSES = {"logistic": "ill", "poisson": "visits"}


def people(seed, rows=60):
    """Tables of five parties; the victim's oldest person is older than all others."""
    chance = np.random.default_rng(seed)
    tables = {}
    for name in PARTIES:
        age = chance.integers(20, 90, rows)
        table = pd.DataFrame(
            {
                "age": age,
                "hiv": chance.integers(0, 2, rows),
                "ill": (chance.random(rows) < 0.2 + 0.005 * age).astype(int),
                "visits": chance.poisson(np.exp(0.01 * age)),
            }
        )
        if name == VICTIM:
            table.loc[0, "age"] = OLDEST
        tables[name] = table
    return tables


@contextmanager
def unchecked():
    """Let every round pass: what the check is good for."""
    with patch.object(RowWeights, "problem", lambda weights, least: None):
        yield


def unwrapped(recipe):
    """The fit's own recipe."""
    while isinstance(recipe, Screened | Guarded):
        recipe = recipe.inner
    return recipe


@contextmanager
def steered(family, table):
    """The liar's first vector is false; yields what it can see of the run."""
    seen = {}
    eta = STEEP * (table["age"].to_numpy(dtype=float) - OLDEST)

    def first(self, response):
        return np.ones_like(response), eta

    def lying(recipe, contributions, terms, **more):
        seen["recipe"] = recipe
        if LIAR in contributions:
            own = contributions[LIAR]

            def answer(request):
                with unchecked():
                    if getattr(request, "stage", "") != "first":
                        return own.answer(request)
                    with patch.object(COUNTED[family], "first", first):
                        return own.answer(request) * LARGE

            contributions = {**contributions, LIAR: replace(own, answer=answer)}
        return run_job(recipe, contributions, terms, **more)

    with patch.object(table_job, "run_job", lying):
        yield seen


def attempt(family, seed, **options):
    """Whether the liar reads the oldest person's bit, and how the run ended."""
    tables = people(seed)
    truth = int(tables[VICTIM].loc[0, "hiv"])
    formula = f"{RESPONSES[family]} ~ age + hiv"
    ended = ""
    with steered(family, tables[LIAR]) as seen:
        try:
            sums = vs.fit(
                formula, tables, family=family, schema=SCHEMA, seed=seed, **options
            ).released.sums
        except vs.VeilsumError as error:
            ended, sums = str(error), released(error)
    # Rounds before the aimed one count parties, and rows outside.
    aimed = sums[3 if family == "poisson" else 2]
    return read(seen["recipe"], aimed) == truth, ended


def released(error):
    """The sums of a run that ended in an error."""
    while not hasattr(error, "sums"):
        error = error.__cause__ or error.__context__
    return error.sums


def read(recipe, total):
    """The bit that a sum at the aimed point tells of the person with all the weight."""
    scales = unwrapped(recipe).newton.scales
    matrix = scales.round(total[: scales.size]).information
    ones, place = 0, 2
    whole = int(matrix[ones, ones])
    if whole <= 0:
        return None
    powers, measure = scales.columns, scales.measures.design[place]
    mean = int(matrix[place, ones]) / whole * 2.0 ** (powers[ones] - powers[place])
    bit = (mean + measure.centre) * float(measure.unit)
    return round(bit) if abs(bit - round(bit)) < 0.01 else None


def mean_bit(recipe, total):
    """The weighted mean of the bit in a sum's information; 1/2 where there is none."""
    scales = unwrapped(recipe).newton.scales
    matrix = scales.round(total[: scales.size]).information
    whole = int(matrix[0, 0])
    if not whole:
        return 0.5
    powers, measure = scales.columns, scales.measures.design[2]
    mean = int(matrix[2, 0]) / whole * 2.0 ** (powers[0] - powers[2])
    return (mean + measure.centre) * float(measure.unit)


@contextmanager
def watched():
    """What a dishonest member knows: the recipe, and every vector that it gave."""
    seen = {"given": {LIAR: []}}

    def kept(recipe, contributions, terms, **more):
        seen["recipe"] = recipe
        if LIAR in contributions:
            own = contributions[LIAR]

            def answer(request):
                with unchecked():
                    found = own.answer(request)
                seen["given"][LIAR].append(padded(recipe, found))
                return found

            contributions = {**contributions, LIAR: replace(own, answer=answer)}
        return run_job(recipe, contributions, terms, **more)

    with patch.object(table_job, "run_job", kept):
        yield seen


def padded(recipe, vector):
    """A vector as long as its sum."""
    return np.concatenate([vector, np.zeros(recipe.size - len(vector), dtype=object)])
