"""Rounds aimed at one person: by a false first sum, or by invented rows.

Every party checks the weights of its rows before a round is masked, and objects where
one row, or few, would carry the sums. The twins have that check patched out.
"""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from attacks import steering
from attacks.steering import LIAR, VICTIM, attempt, falsified_later, unchecked
from veilsum.models import newton as search
from veilsum.models.families import Binomial
from veilsum.models.glm import GlmScales
from veilsum.models.rows import ONES, RowMeasures, Rows
from veilsum.models.sandwich import MeatRequest, SandwichMeat
from veilsum.models.weights import RowWeights, collect_row_weights, note_row_weights
from veilsum.numbers.units import UnitMeasure
from veilsum.sums.recipes import ObjectedError

FEW, MANY = 3, 100
# Right guesses with invented rows, at most. The share of one row may be a fifth, which
# leaves more than chance: 56 of the first 100 were right, and 129 of 200 others.
GUESSED = {8: 7, 100: 76}


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize(
    "times", [FEW, pytest.param(MANY, marks=pytest.mark.slow, id="many")]
)
def test_a_false_first_sum_aims_no_round_at_a_person(family, times):
    ends = [attempt(family, seed, driver="vectorised") for seed in range(times)]
    assert sum(read for read, _ in ends) == 0
    assert all(end.startswith("A party objected to round") for _, end in ends)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize(
    "times", [FEW, pytest.param(MANY, marks=pytest.mark.slow, id="many")]
)
def test_without_the_check_it_reads_the_person_every_time(family, times):
    with unchecked():
        ends = [attempt(family, seed, driver="vectorised") for seed in range(times)]
    assert sum(read for read, _ in ends) == times


def later(family, times):
    """Attempts of a liar whose first sum looks ordinary, and whose next one aims."""
    return [
        attempt(family, seed, falsified_later, after=2, driver="vectorised")
        for seed in range(times)
    ]


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize(
    "times", [FEW, pytest.param(MANY, marks=pytest.mark.slow, id="many")]
)
def test_a_false_residue_aims_no_round_at_a_person(family, times):
    ends = later(family, times)
    assert sum(read for read, _ in ends) == 0
    assert all(end.startswith("A party objected to round 4") for _, end in ends)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize(
    "times", [FEW, pytest.param(MANY, marks=pytest.mark.slow, id="many")]
)
def test_without_the_check_a_false_residue_reads_the_person_every_time(family, times):
    with unchecked():
        ends = later(family, times)
    assert sum(read for read, _ in ends) == times


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_false_first_sum_aims_no_round_of_real_machines(family):
    read, ended = attempt(family, 1, driver="loopback")
    assert not read
    assert ended.startswith("A party objected to round")
    with unchecked():
        assert attempt(family, 1, driver="loopback")[0]


# A round that leaves one party alone

SITES = vs.Schema(
    (
        vs.Column("site", "integer", 0, 1),
        vs.Column("age", "integer", 18, 99),
        vs.Column("ill", "integer", 0, 1),
    ),
    minimum_rows=40,
)
# All rows but those of the victim get a predictor of -20, and weights of 2e-9.
ALONE = steering.Aim((1.0, 0.9999, 58.0), (0.0, 9.999e-5, 400.0), (-20.0, 20.0, 0.0))


def left_alone():
    """The mean age in the aimed round's information, the victim's, and the error."""
    tables = {
        name: one.assign(site=int(name == VICTIM))[["site", "age", "ill"]]
        for name, one in steering.people(1).items()
    }
    with steering.steered(ALONE) as seen, pytest.raises(vs.VeilsumError) as caught:
        vs.fit(
            "ill ~ site + age",
            tables,
            family="logistic",
            schema=SITES,
            rules=vs.Rules(site_terms=True),
            seed=1,
            driver="vectorised",
        )
    sums = steering.released(caught.value)[:2]
    found = steering.mean_bit(seen["recipe"], sums)
    return found, tables[VICTIM]["age"].mean(), caught.value


def test_a_round_that_would_be_about_one_party_alone_ends_in_an_objection():
    found, own, error = left_alone()
    assert isinstance(error, ObjectedError)
    assert found is None or abs(found - own) > 1.0
    for name in "bde":
        vanished = rf"{name}: the 60 rows here would weigh as much as \S+e-07 whole"
        assert re.search(vanished, str(error))
    assert f"{VICTIM}: " not in str(error)


def test_without_the_check_it_is_about_that_party_alone():
    with unchecked():
        found, own, _ = left_alone()
    assert abs(found - own) < 1e-4


# A response that separates


def separating(seed):
    """Effective rows of each party in each released round of a response with a step."""
    chance = np.random.default_rng(seed)
    tables = steering.people(seed, 150)
    step = int(chance.integers(35, 75))
    for table in tables.values():
        table["ill"] = (table["age"] >= step).astype(int)
    with steering.watched() as seen, pytest.raises(vs.VeilsumError) as caught:
        vs.fit(
            "ill ~ age + hiv",
            tables,
            family="logistic",
            schema=steering.SCHEMA,
            seed=seed,
            driver="vectorised",
        )
    sums = steering.released(caught.value)
    # The last sum is random, where a party objected to it.
    told = len(sums) - isinstance(caught.value, ObjectedError)
    newton, found = steering.unwrapped(seen["recipe"]).newton, []
    for request in (seen["recipe"].request(sums[:k]) for k in range(told)):
        if getattr(request, "stage", "") in ("round", "means", "last"):
            point = newton.real_point(request)
            for table in (tables[name] for name in "bcde"):  # the first never objects
                eta = point[0] + table[["age", "hiv"]].to_numpy() @ point[1:3]
                odds = np.exp(-np.abs(eta))
                weights = odds / (1.0 + odds) ** 2
                found.append(weights.sum() ** 2 / (weights**2).sum())
    return found


@pytest.mark.parametrize(
    "times", [FEW, pytest.param(MANY, marks=pytest.mark.slow, id="many")]
)
def test_no_party_has_few_rows_in_a_sum_of_a_separating_response(times):
    least = 2 * vs.Rules().minimum_count
    assert min(min(separating(seed)) for seed in range(times)) >= least


def test_without_the_check_and_the_early_stop_a_party_has(monkeypatch):
    monkeypatch.setattr(search, "LEAST_OPEN", 0.0)
    with unchecked():
        assert min(min(separating(seed)) for seed in range(FEW)) < 3.0


# Invented rows that the schema admits


def invented(tables):
    """The dishonest member's rows: counts that rise as steeply as the schema allows."""
    age = np.concatenate([np.tile(np.arange(20, 97), 40), np.full(60, 99)])
    visits = np.where(age < 99, 0, 50)
    hiv = np.arange(len(age)) % 2
    made = {"age": age, "hiv": hiv, "ill": hiv, "visits": visits}
    return {**tables, LIAR: pd.DataFrame(made)}


def guessed(seed):
    """Whether a member with invented rows guesses the oldest person's bit."""
    honest = steering.people(seed)
    chance = np.random.default_rng((seed, 1))
    for table in honest.values():  # a rare event
        table["visits"] = np.where(chance.permutation(len(table)) < 5, 1, 0)
    truth = int(honest[VICTIM].loc[0, "hiv"])
    tables = invented(honest)
    with steering.watched() as seen:
        try:
            sums = vs.fit(
                "visits ~ age + hiv",
                tables,
                family="poisson",
                schema=steering.SCHEMA,
                seed=seed,
                driver="vectorised",
            ).released.sums
        except vs.VeilsumError as error:
            # The last sum is random: the one before is the most that there is.
            sums = steering.released(error)
            sums = sums[:-1] if isinstance(error, ObjectedError) else sums
    bits = [
        steering.mean_bit(seen["recipe"], sums[: k + 1], own)
        for k, own in enumerate(seen["given"][LIAR][: len(sums)])
    ]
    share = [one for one in bits if one is not None][-1]
    return (share > 0.5) == truth


@pytest.mark.statistical
@pytest.mark.parametrize(
    "times", [8, pytest.param(100, marks=pytest.mark.slow, id="many")]
)
def test_invented_rows_tell_the_outermost_person_less_than_surely(times):
    """Above chance: 62 % are right, and 90 % or more without the check.

    With a tenth in place of a fifth 174 of 300 are right, with 0.06 the half of 100.
    But of 84 honest fits with unbounded weights (28 pairs of model and data) one row of
    a party has more than a tenth in 15 at their own answer, more than 0.06 in 23.
    False alarms, at 62 %: 2 % of 8 guesses, 0.1 % of 100.
    """
    assert sum(map(guessed, range(times))) <= GUESSED[times]


@pytest.mark.parametrize(
    "times", [8, pytest.param(100, marks=pytest.mark.slow, id="many")]
)
def test_without_the_check_invented_rows_tell_it(times):
    with unchecked():
        assert sum(map(guessed, range(times))) >= 0.9 * times


# The function itself


def weighed(weights, full=1.0):
    """Some weights, as a model notes them."""
    with collect_row_weights() as noted:
        note_row_weights("a sum", full).add(np.asarray(weights, dtype=float))
    return noted[0]


def test_few_effective_rows_one_heavy_row_and_vanishing_rows_are_refused():
    assert weighed(np.ones(6)).problem(6) is None
    assert "5 effective rows" in weighed(np.ones(5)).problem(6)
    assert "row would have" in weighed([*np.ones(30), 10.0]).problem(6)
    # 100 effective rows, and next to nothing of each: the party is not in the sum.
    assert "whole rows" in weighed(np.full(100, 2e-9)).problem(6)
    assert weighed(np.full(100, 2e-9), full=None).problem(6) is None


def test_pieces_of_one_person_count_as_one_row():
    people = np.repeat(np.arange(4), 25)
    weights = RowWeights("a sum", None, people=people)
    for piece in np.array_split(np.ones(100), 3):
        weights.add(piece)
    assert weights.effective == pytest.approx(4.0)
    assert weights.share == pytest.approx(0.25)


@pytest.mark.parametrize(("false", "refused"), [(0.0, False), (1.0, True)])
def test_a_false_information_lets_no_leverage_point_at_a_person(false, refused):
    """HC3 divides by 1 less a leverage, which follows from released totals."""
    chance = np.random.default_rng(3)
    x = chance.integers(-50, 51, 200).astype(float)
    x[0] = 90.0
    response = (chance.random(200) < 0.5).astype(float)
    design = np.column_stack([np.ones(200), x])
    one = Fraction(1)
    columns = [ONES, UnitMeasure.of(-100, 100, one)]
    measures = RowMeasures.of(columns, UnitMeasure.of(0, 1, one), intercept=0)
    meat = SandwichMeat(GlmScales.of(Binomial(), measures, 0), "HC3")
    bread = np.linalg.inv(design.T @ design / 4.0)
    way = bread @ design[0]
    own = design[0] @ bread @ design[0] / 4.0
    # The liar takes so much of the information away that the first row's leverage is 1.
    bread = bread + false * (1.0 / own - 1.0) / (design[0] @ way) * np.outer(way, way)
    request = MeatRequest("HC3", np.zeros(2), bread)
    with collect_row_weights() as noted:
        meat.statistics(Rows.of(design, response), request)
    assert any(one.problem(6) for one in noted) == refused
