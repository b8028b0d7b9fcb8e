"""Low bits of totals tell nothing of a small party."""

import pytest

from attacks import old_ways
from attacks.studies import (
    PARTIES,
    contributions,
    fit_pressure,
    guesses_of_ages,
    guesses_of_smokers,
    guesses_of_smokers_ages,
    patients,
)
from attacks.watching import total
from veilsum.audit.low_bits import low_bits
from veilsum.audit.question import attack_total_without

CLINIC, LARGE = 11, 60_000


def study(seed):
    """A curious party, a clinic with 11 patients, and two large hospitals."""
    sizes = {"a": 300, "b": CLINIC, "c": LARGE, "d": LARGE}
    return {p: patients((seed, i), sizes[p]) for i, p in enumerate(PARTIES)}


def truth(clinic):
    smokers = clinic[clinic["smoker"] == 1]
    return {
        "sum of ages": int(clinic["age"].sum()),
        "smokers": len(smokers),
        "sum of smokers' ages": int(smokers["age"].sum()),
    }


def recovered(seed, program):
    """What is left of the candidates for the clinic's three numbers, and all of them.

    `program` says what each of some tables contributes.
    """
    tables = study(seed)
    given = dict(zip(PARTIES, program(list(tables.values())), strict=True))
    rest = attack_total_without(total(given), given["a"])
    # As large as the other two: made up, by somebody who has never seen theirs. So many
    # that no whole number divides them all by chance.
    others = [patients((99, k), LARGE) for k in range(12)]
    known = truth(tables["b"])
    guesses = {
        "sum of ages": guesses_of_ages(CLINIC),
        "smokers": guesses_of_smokers(CLINIC),
        "sum of smokers' ages": guesses_of_smokers_ages(
            CLINIC, known["sum of ages"], known["smokers"]
        ),
    }
    return {
        what: (low_bits(rest, program, tables, others), set(tables))
        for what, tables in guesses.items()
    }


def by_the_package(tables):
    return contributions(fit_pressure, tables)


def in_the_old_way(tables):
    return [
        old_ways.least_squares(one, "pressure", ["age", "smoker"]) for one in tables
    ]


def test_every_candidate_is_left():
    for what, (left, candidates) in recovered(0, by_the_package).items():
        assert left == candidates, what
        assert len(candidates) > 5


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_the_attack_succeeds_on_sums_of_floats(seed):
    known = truth(study(seed)["b"])
    for what, (left, _) in recovered(seed, in_the_old_way).items():
        assert left == {known[what]}, what
