"""What the sums about theta tell of counts: of one person's, and of a rare count.

A negative binomial fit that estimates alpha shows in every round how the log-likelihood
changes with log theta, at which rate, how that changes with each coefficient, and the
log-likelihood at mu = y: p + 3 numbers more than a fit at a given alpha, of all parties
together. A column that is one person's makes one of them a function of that person's
count alone. And at one mean for all rows these are sums of known functions of the
count, a few for each round: equations for how many rows have which count.
"""

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from attacks import organiser
from attacks.organiser import (
    AGE,
    AIM,
    BMI,
    ROW,
    SCHEMA,
    Found,
    asked,
    check_rules_refuse,
    patients as everybody,
)
from cases import each
from computed import computed
from refusals import refused
from veilsum.models.dispersion import dispersion_scatter_terms
from veilsum.sums.releases import EXACT

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

VISITS = 4
# By count, how many of each hospital's sixty rows have it; one has the largest.
USUAL = (40, 8, 6, 6)
COLUMNS = (*SCHEMA.columns, vs.Column("visits", "integer", 0, VISITS))
WITH_VISITS = vs.Schema(COLUMNS, minimum_rows=50)
PERSON = f"exp(-10 * ((age - {AGE}) ** 2 + (bmi - {BMI}) ** 2))"


def patients():
    """Nobody else went as often as the one."""
    tables = everybody()
    for place, table in enumerate(tables.values()):
        counts = np.repeat(np.arange(len(USUAL)), USUAL)
        table["visits"] = np.random.default_rng(place).permutation(counts)
    tables[AIM].loc[ROW, "visits"] = VISITS
    return tables


def fitted(formula, tables=None, schema=WITH_VISITS):
    given = {"family": "negative-binomial", "schema": schema}
    formula, tables, schema = computed(formula, tables or patients(), schema)
    return asked(vs.fit, formula, tables, **{**given, "schema": schema})


def rounds_of(found):
    """Coefficients, theta and totals of every round, as everybody has them."""
    recipe, sums = found.inner
    newton = recipe.newton
    for k, total in enumerate(sums):
        request = newton.propose(recipe.state(sums[:k]))
        if request.stage == "round":
            point, theta = request.point[:-2], float(request.point[-1])
            state = recipe.state(sums[:k])
            yield newton, point, theta, newton._sums(state, total[:-1])


def by_a_person():
    """A count out of the score's change with log theta, of a column of one person."""
    newton, point, theta, sums = next(rounds_of(fitted(f"visits ~ {{{PERSON}}}")))
    measure = newton.scales.measures.design[1]
    # The column counts from its centre, which is given back: others have 0.
    change = float((sums.cross[1] + measure.centre * sums.cross[0]) * measure.unit)
    coefficients = newton.scales.real(point)
    mu = float(np.exp(coefficients.sum()))
    # -change = theta (y - mu) mu / (theta + mu)^2
    count = mu - change * (theta + mu) ** 2 / (theta * mu)
    return Found(round(count, 6), float(VISITS))


def solved(found, most):
    """How many of all rows have which count, from what rounds say of theta alone."""
    counts = np.arange(most + 1.0)
    ones = np.ones_like(counts)
    left, right = [ones], [float(found.fit.n_rows)]
    for newton, point, theta, sums in rounds_of(found):
        eta = np.full_like(counts, newton.scales.real(point)[0])
        terms = dispersion_scatter_terms(counts, eta, theta)
        left += [terms.slope, terms.curvature, terms.cross]
        left.append(newton.at(theta).family.saturated(counts, ones, 1.0))
        right += [float(sums.slope), float(sums.curvature)]
        right += [float(sums.cross[0]), float(sums.saturated)]
    answer, *_ = np.linalg.lstsq(np.array(left), np.array(right), rcond=1e-16)
    return answer.tolist()


def by_equations():
    """That somebody has the count which nobody else has."""
    rows = pd.concat(patients().values())["visits"]
    truth = np.bincount(rows).astype(float).tolist()
    return Found(solved(fitted("visits ~ 1"), VISITS), truth)


ATTACKS = {
    "a person": (by_a_person, {"site_terms", "effective_count"}),
    "equations": (by_equations, {"release_fraction"}),
}


@each(("attack", "rules"), ATTACKS.values(), ids=ATTACKS)
def test_what_is_aimed_is_refused(attack, rules):
    check_rules_refuse(attack, rules)


def test_a_count_that_one_party_has_is_refused_however_much_may_be_released(
    monkeypatch,
):
    """Of few values, who holds which is asked before all else."""
    rules = vs.Rules(release_fraction=9.0, most_rounds=60)
    monkeypatch.setattr(organiser, "RULES", {"rules": rules})
    with refused(
        "tells-parties-apart", vs.InvalidInputError, mentions=("4", "1")
    ) as refusal:
        by_equations()
    assert refusal.value.rule == "site_terms"


def test_what_is_aimed_at_nobody_is_answered():
    tables = patients()
    tables[AIM].loc[ROW, "visits"] = 0
    assert fitted("visits ~ age", tables).fit.n_rows == 300


def test_of_many_values_it_follows_how_many_rows_have_which_and_that_is_said():
    """What is left open: of all parties together, and with one mean for all rows.

    Whose rows these are is in no sum.
    """
    tables = {}
    for place, party in enumerate("abcde"):
        stream = np.random.default_rng(place)
        counts = np.minimum(stream.negative_binomial(1.2, 0.4, 400), 9)
        tables[party] = pd.DataFrame({"visits": counts})
    schema = vs.Schema((vs.Column("visits", "integer", 0, 9),), minimum_rows=400)
    found = fitted("visits ~ 1", tables, schema)
    truth = np.bincount(pd.concat(tables.values())["visits"])
    assert np.round(solved(found, 9)[:4]).tolist() == truth[:4].tolist()
    assert EXACT in found.guarantee.limits
