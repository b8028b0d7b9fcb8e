"""No round shows fewer parties than it says."""

from functools import partial

import numpy as np
import pandas as pd

import veilsum as vs
from attacks import old_ways
from attacks.watching import total, watched
from cases import each
from veilsum.audit.partial_round import sums_of_few
from veilsum.audit.question import attack_total_without

PARTIES = ("a", "b", "c", "d")
SCHEMA = vs.Schema(
    (vs.Column("dose", "number", 0, 20), vs.Column("time", "number", 0.01, 10_000)),
    minimum_rows=10,
)

# The information, of which no diagonal number of a party with rows is zero.
PLACES = range(3)


def study(seed):
    """Patients for whom the first line through inverse times leads below zero.

    It follows the large doses, which `d` alone has no others beside.
    """
    chance = np.random.default_rng(seed)

    def table(few):
        dose = np.append(chance.uniform(0, 1, few), chance.uniform(5, 10, 20)).round(1)
        mean = np.where(dose < 2, 1.0, 1 / (0.003 * (dose - 5) + 0.005))
        time = chance.gamma(20.0, mean / 20.0).round(2)
        return pd.DataFrame({"dose": dose, "time": time})

    return {p: table(0 if p == "d" else 8) for p in PARTIES}


def fit_time(tables, **options):
    return vs.fit(
        "time ~ dose",
        tables,
        family="inverse-gaussian",
        schema=SCHEMA,
        rules=vs.Rules.none(),
        **options,
    )


def shown(rounds):
    """Parties that some round shows without all the other honest ones."""
    found = []
    for given in rounds:
        honest = {p: one for p, one in given.items() if p != "a"}
        found.append(
            sums_of_few(attack_total_without(total(given), given["a"]), honest, PLACES)
        )
    return [one for one in found if one]


def shown_alone(seeds):
    """In how many runs the sum over b, c and d was d's own."""
    runs = (watched(partial(fit_time, study(seed)), PARTIES)[1] for seed in seeds)
    return sum({"d"} in shown(rounds) for rounds in runs)


@each("seed", range(4))
def test_every_round_is_a_sum_over_all(seed):
    result, rounds = watched(partial(fit_time, study(seed)), PARTIES)
    assert not shown(rounds)
    # Rows were outside on the way: their number was asked for, and nothing else.
    sums, recipe = result.released.sums, result.recipe
    stages = [recipe.request(sums[:k]).stage for k in range(len(sums))]
    assert any(any(sums[k]) for k, stage in enumerate(stages) if stage == "outside")


def test_the_attack_succeeds_where_some_send_zeros():
    tables = study(0)
    given = {
        p: old_ways.least_squares(one, "time", ["dose"]) for p, one in tables.items()
    }
    assert shown([old_ways.only_inside(given, {"a", "b", "c"})]) == [{"d"}]
    assert not shown([given])
