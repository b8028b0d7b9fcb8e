"""Rounds aimed at one person: by a false first sum, or by invented rows.

Every party checks the weights of its rows before a round is masked, and objects where
one row, or few, would carry the sums. The twins have that check patched out.
"""

import numpy as np
import pandas as pd
import pytest

import veilsum as vs
from attacks import steering
from attacks.steering import LIAR, VICTIM, attempt, unchecked
from veilsum.jobs.recipes import ObjectedError
from veilsum.models.weights import RowWeights, collected, note

FEW, MANY = 3, 100
# P[Binomial(100, 1/2) > 62] is 0.6 %, P[Binomial(8, 1/2) > 7] is 0.4 %.
CHANCE = {8: 7, 100: 62}


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


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_false_first_sum_aims_no_round_of_real_machines(family):
    read, ended = attempt(family, 1, driver="loopback")
    assert not read
    assert ended.startswith("A party objected to round")
    with unchecked():
        assert attempt(family, 1, driver="loopback")[0]


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
    pairs = zip(sums, seen["given"][LIAR], strict=False)
    bits = [steering.mean_bit(seen["recipe"], one - own) for one, own in pairs]
    share = [one for one in bits if one is not None][-1]
    return (share > 0.5) == truth


@pytest.mark.statistical
@pytest.mark.parametrize(
    "times", [8, pytest.param(100, marks=pytest.mark.slow, id="many")]
)
def test_invented_rows_tell_no_bit_of_the_outermost_person(times):
    """False alarms: 0.4 % of 8 guesses, 0.6 % of 100."""
    assert sum(map(guessed, range(times))) <= CHANCE[times]


@pytest.mark.parametrize(
    "times", [8, pytest.param(100, marks=pytest.mark.slow, id="many")]
)
def test_without_the_check_invented_rows_tell_it(times):
    with unchecked():
        assert sum(map(guessed, range(times))) >= 0.9 * times


# The function itself


def weighed(weights, full=1.0):
    """Some weights, as a model notes them."""
    with collected() as noted:
        note("a sum", full).add(np.asarray(weights, dtype=float))
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
