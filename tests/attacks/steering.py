"""A lying member that aims the next round at one person of another party.

It adds a false vector to the first sum: the totals of many rows that it does not have,
all of nearly one age, whose responses are such that Newton's first step leads to a
point of its choice, whatever the others add. All totals stay within the bounds of
`models/plausible.py`, later ones too.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd

import veilsum as vs
from veilsum.models import newton
from veilsum.models.weights import RowWeights
from veilsum.numbers.units import triangle_of_matrix
from veilsum.sums import table_job
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.sums.recipes import GuardedRecipe
from veilsum.sums.running import run_sum_job

LIAR, VICTIM = "a", "c"
PARTIES = ("a", "b", "c", "d", "e")
OLDEST, STEEP = 97, 25.0
# The variance of age in rows that the liar invents.
SPREAD = 1e-4

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
    while isinstance(recipe, PresenceScreenedRecipe | GuardedRecipe):
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
    rows = invented_rows(scales)
    mean = 0.5 if scales.family.name == "logistic" else 1.0
    middle, moments, point = in_units(scales, aim)
    if scales.family.exponential:  # so long a step is halved as often as can be
        point *= 2.0**newton.STEP_HALVINGS
    responses = first_slope(scales, mean) * moments @ point + mean * middle
    return first_vector(scales, rows, moments, responses)


def first_slope(scales, mean):
    """The information of a row without slopes."""
    family = scales.family
    return float(family.expected(family.link(np.array([mean])))[0])


def first_vector(scales, rows, moments, responses):
    """A first vector of rows that have these moments, and means with responses."""
    numbers = [0] * scales.n_numbers
    each_row = {"n_rows": 1}
    if "saturated" in scales.family.constants:
        each_row["saturated"] = -1
    for name, one in each_row.items():
        place = scales.places[name]
        numbers[place] = times(rows, one * 2.0 ** scales.numbers[place])
    fineness, unit = scales.first_fineness, float(scales.response_unit)
    return np.array(
        [
            *scaled(rows, triangle_of_matrix(moments), fineness.matrix),
            *scaled(rows, responses / unit, fineness.along),
            *numbers,
            0,
            0,
        ],
        dtype=object,
    )


def invented_rows(scales):
    """How many rows the liar invents: as many as a sum has room for."""
    return 2 ** (scales.measures.row_bits - 2)


def in_units(scales, aim):
    """Means and moments of invented columns, and the aimed point, in units."""
    units = np.array([float(one.unit) for one in scales.measures.design])
    centres = np.array([float(one.centre) for one in scales.measures.design]) * units
    middle = (np.array(aim.middle) - centres) / units
    moments = np.outer(middle, middle) + np.diag(aim.variances / units**2)
    point = np.array(aim.coefficients) * units
    point[0] += centres @ np.array(aim.coefficients)
    return middle, moments, point


def scaled(rows, each, powers):
    """Totals of rows that are alike, in units that are powers of 2."""
    pairs = zip(np.asarray(each).tolist(), powers, strict=True)
    return [times(rows, one * 2.0**power) for one, power in pairs]


def times(rows, each):
    """So many rows' total of a number."""
    return round(rows * Fraction(each))


def falsified(recipe, request, answer, aim):
    """The liar's answer to a request."""
    scales = unwrapped(recipe).newton.scales
    match getattr(request, "stage", ""):
        case "first":
            return false_first(scales, aim)
        case "round" | "means" | "last":
            return np.zeros(scales.size + 1, dtype=object)
        case _:
            return answer(request)


# Rows of the member's second way: ages about a middle, and a step that is possible.
USUAL = Aim((1.0, 58.0, 0.5), (0.0, 400.0, 0.25), (-0.05 * 58, 0.05, 0.0))
# Its later information, as a part of what it may be, and the slope where it leads to.
FAINT, SLOPE = 0.005, 3.0


def falsified_later(recipe, request, answer, aim):
    """The answer of a liar whose first sum is that of many ordinary rows.

    In the next round it puts in little information, and means that take a Newton step
    from there to the aimed point. Both are inside of their windows.
    """
    scales = unwrapped(recipe).newton.scales
    rows, stage = invented_rows(scales), getattr(request, "stage", "")
    mean = 0.5 if scales.family.name == "logistic" else 1.0
    middle, moments, point = in_units(scales, USUAL)
    each = first_slope(scales, mean)
    responses = each * moments @ point + mean * middle
    if stage == "first":
        return first_vector(scales, rows, moments, responses)
    if stage not in ("round", "means", "last"):
        return answer(request)
    vector, fineness = np.zeros(scales.size + 1, dtype=object), request.fineness
    if np.abs(request.point[1:-1]).max() < 0.1:
        step = in_units(scales, aim)[2] * (SLOPE / STEEP) - request.point[:-1]
        if scales.family.exponential:  # a long second step is halved less often
            step *= 2.0 ** (newton.STEP_HALVINGS - 1)
        information = FAINT * each * moments
        means = responses - information @ step
        numbers = [
            *scaled(rows, triangle_of_matrix(information), fineness.matrix),
            *scaled(rows, means, fineness.along),
        ]
        vector[: len(numbers)] = numbers
    return vector


@contextmanager
def steered(aim=OUTERMOST, lie=falsified, liar=LIAR):
    """The liar's vectors are false; yields what it can see of the run."""
    seen = {"given": []}

    def lying(recipe, contributions, terms, **more):
        seen["recipe"] = recipe
        if liar in contributions:
            own = contributions[liar]

            def answer(request):
                seen["given"].append(lie(recipe, request, own.answer, aim))
                return seen["given"][-1]

            contributions = {**contributions, liar: replace(own, answer=answer)}
        return run_sum_job(recipe, contributions, terms, **more)

    with patch.object(table_job, "run_sum_job", lying):
        yield seen


def attempt(family, seed, lie=falsified, after=1, **options):
    """Whether the liar reads the oldest person's bit, and how the run ended.

    Args:
        family: of the response.
        seed: of the tables.
        lie: of the first party.
        after: the number of the aimed round with means.
        options: of the fit.
    """
    tables = people(seed)
    truth = int(tables[VICTIM].loc[0, "hiv"])
    formula = f"{RESPONSES[family]} ~ age + hiv"
    ended = ""
    with steered(lie=lie) as seen:
        try:
            sums = vs.fit(
                formula, tables, family=family, schema=SCHEMA, seed=seed, **options
            ).released.sums
        except vs.VeilsumError as error:
            ended, sums = str(error), released(error)
    recipe = seen["recipe"]
    rounds = [
        k for k in range(len(sums)) if fineness_after(recipe, sums[:k]) is not None
    ]
    if len(rounds) < after:
        return False, ended
    return read(recipe, sums[: rounds[after - 1] + 1]) == truth, ended


def fineness_after(recipe, sums):
    """The fineness of the next round; None of other sums."""
    return getattr(recipe.request(sums), "fineness", None)


def released(error):
    """The sums of a run that ended in an error."""
    while not hasattr(error, "sums"):
        error = error.__cause__ or error.__context__
    return error.sums


def read(recipe, sums):
    """The bit that the last sum tells of the person with all the weight."""
    bit = mean_bit(recipe, sums)
    # The total of a round with an objection is random: 1 in 400 is within 0.01 of it.
    return round(bit) if bit is not None and abs(bit - round(bit)) < 1e-6 else None


def mean_bit(recipe, sums, own=None):
    """The mean of the bit by fitted means, in the last sum; None where it has none.

    Args:
        recipe: of the run.
        sums: up to one of a round.
        own: numbers of rows that the member has invented; without them it gave zeros.
    """
    if (fineness := fineness_after(recipe, sums[:-1])) is None:
        return None
    scales = unwrapped(recipe).newton.scales
    if own is None:
        total = others(recipe, sums[-1], np.zeros(scales.size, dtype=object), fineness)
    else:
        total = residues_of_sum(recipe, sums[-1], fineness)
        total = fineness.decoded(total) - own[: len(total)]
    means = scales.means(total, fineness).means
    if means[0] <= 0:
        return None
    measure = scales.measures.design[2]
    return float((means[2] / means[0] + measure.centre) * measure.unit)


def others(recipe, total, given, fineness):
    """Others' numbers in a sum, beside which a liar's own were large.

    The modulus of a residue is made for rows that the liar has invented.
    """
    found = residues_of_sum(recipe, total, fineness)
    found -= given[: len(found)]
    return replace(fineness, centres=(0,) * len(found)).decoded(found)


def residues_of_sum(recipe, total, fineness):
    """Numbers of a released sum, random ones of an objection too."""
    width, pairs = 64 * recipe.counts.words, zip(total, fineness.residues, strict=False)
    found = [
        int(one) % (1 << width) >> width - bits if bits else int(one)
        for one, bits in pairs
    ]
    return np.array(found, dtype=object)


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
        return run_sum_job(recipe, contributions, terms, **more)

    with patch.object(table_job, "run_sum_job", kept):
        yield seen


def padded(recipe, vector):
    """A vector as long as its sum."""
    return np.concatenate([vector, np.zeros(recipe.size - len(vector), dtype=object)])
