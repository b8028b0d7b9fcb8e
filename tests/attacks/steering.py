"""A lying member that aims the next round at one person of another party.

It adds a false vector to the first sum: the totals of many rows that it does not have,
all of nearly one age, whose responses are such that Newton's first step leads to a
point of its choice, whatever the others add. All totals stay within the bounds of
`models/plausible.py`, later ones too.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import pandas as pd

import veilsum as vs
from veilsum.models import newton
from veilsum.models.weights import RowWeights
from veilsum.numbers.units import triangle_of_matrix
from veilsum.sums import table_job
from veilsum.sums.presence import Screened
from veilsum.sums.recipes import Guarded
from veilsum.sums.running import run_job

LIAR, VICTIM = "a", "c"
PARTIES = ("a", "b", "c", "d", "e")
OLDEST, STEEP = 97, 25.0
# The variance of age in rows that the liar invents, and the cumulant of each.
SPREAD, CUMULANT = 1e-4, 0.2

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


@dataclass(frozen=True)
class Aim:
    """Invented rows, by the means and variances of their columns, and a point.

    Newton's first step from the null model of these rows leads to the point.
    """

    middle: tuple[float, ...]
    variances: tuple[float, ...]
    coefficients: tuple[float, ...]


OUTERMOST = Aim((1.0, OLDEST, 0.5), (0.0, SPREAD, 0.25), (-STEEP * OLDEST, STEEP, 0.0))


def false_first(scales, aim):
    """The first vector of rows that lead Newton's first step to the aimed point."""
    rows = 2 ** (scales.measures.row_bits - 2)
    units = np.array([float(one.unit) for one in scales.measures.design])
    centres = np.array([float(one.centre) for one in scales.measures.design]) * units
    mean = 0.5 if scales.family.name == "logistic" else 1.0
    each = float(scales.family.expected(scales.family.link(np.array([mean])))[0])
    middle = (np.array(aim.middle) - centres) / units
    moments = np.outer(middle, middle) + np.diag(aim.variances / units**2)
    point = np.array(aim.coefficients) * units
    point[0] += centres @ np.array(aim.coefficients)
    if scales.family.exponential:  # so long a step is halved as often as can be
        point *= 2.0**newton.STEP_HALVINGS
    responses = each * moments @ point + mean * middle
    powers = np.array(scales.columns)
    information = (
        moments * scales.first_information * 2.0 ** np.add.outer(powers, powers)
    )
    numbers = [0] * scales.n_numbers
    each_row = {"n_rows": 1, "weight_sum": 1, "response_sum": mean}
    if "saturated" in scales.family.constants:
        each_row["saturated"] = -1
    for name, one in each_row.items():
        place = scales.places[name]
        numbers[place] = times(rows, one * 2.0 ** scales.numbers[place])
    return np.array(
        [
            *(times(rows, one) for one in triangle_of_matrix(information)),
            *(times(rows, one * 2.0**scales.pull) for one in responses),
            *numbers,
            0,
            0,
        ],
        dtype=object,
    )


def times(rows, each):
    """So many rows' total of a number."""
    return rows * round(each * 2**20) >> 20


def false_later(scales):
    """A later vector of these rows: nothing, and cumulants of a possible deviance."""
    vector = np.zeros(scales.size + 1, dtype=object)
    place = scales.places["cumulants"]
    rows = 2 ** (scales.measures.row_bits - 2)
    at = scales.size - 1 - scales.n_numbers + place
    vector[at] = times(rows, CUMULANT * 2.0 ** scales.numbers[place])
    return vector


def falsified(recipe, request, answer, aim):
    """The liar's answer to a request."""
    scales = unwrapped(recipe).newton.scales
    match getattr(request, "stage", ""):
        case "first":
            return false_first(scales, aim)
        case "round":
            return false_later(scales)
        case _:
            return answer(request)


@contextmanager
def steered(aim=OUTERMOST):
    """The liar's vectors are false; yields what it can see of the run."""
    seen = {}

    def lying(recipe, contributions, terms, **more):
        seen["recipe"] = recipe
        if LIAR in contributions:
            own = contributions[LIAR]

            def answer(request):
                return falsified(recipe, request, own.answer, aim)

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
    with steered() as seen:
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
    matrix = scales.score(total[: scales.size])[0]
    ones, place = 0, 2
    whole = int(matrix[ones, ones])
    if whole <= 0:
        return None
    powers, measure = scales.columns, scales.measures.design[place]
    mean = int(matrix[place, ones]) / whole * 2.0 ** (powers[ones] - powers[place])
    bit = (mean + measure.centre) * float(measure.unit)
    # The total of a round with an objection is random: 1 in 400 is within 0.01 of it.
    return round(bit) if abs(bit - round(bit)) < 1e-6 else None


def mean_bit(recipe, total):
    """The weighted mean of the bit in a sum's information; None where it has none."""
    scales = unwrapped(recipe).newton.scales
    matrix = scales.score(total[: scales.size])[0]
    whole = int(matrix[0, 0])
    if whole <= 0:
        return None
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
