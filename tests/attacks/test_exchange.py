"""Two records that honest parties exchange leave no trace in what is released."""

from functools import partial

import numpy as np

from attacks import old_ways
from attacks.catalogue import KINDS, PARTIES, dealt, even, n_honest, people
from attacks.watching import LAWS, total, totals, watched
from cases import each
from veilsum.audit.reassignment import worlds_with_these_totals

CASES = [(name, law) for name, kind in KINDS.items() for law in kind.laws]
# A total is the same whatever masks it: a few jobs show that.
LATTICE = ("sum", "statistics", "logistic", "dispatch", "quadratic program")
TESTED = [one for one in CASES if one[1] == "uniform" or one[0] in LATTICE]


def exchanged(rows, turn):
    """The first dealing, and one in which `b` and `c` have exchanged two records."""
    n = n_honest(rows)
    order, third = np.arange(n), n // 3
    mine, yours = turn % third, third + 7 * turn % third
    order[[mine, yours]] = order[[yours, mine]]
    return even(rows), dealt(rows, order, [third, 2 * n // 3])


def worlds_of(kind, law, seed):
    """What is released in two worlds that differ by an exchange.

    The attacker knows all records, and has only to say who has which.
    """
    rows = kind.rows(seed)
    found = {}
    for world, dealing in enumerate(exchanged(rows, seed)):
        job = partial(kind.run, kind.deal(dealing, rows))
        found[world] = totals(watched(job, PARTIES, **LAWS[law])[1])
    return found


@each(("name", "law"), TESTED)
def test_both_worlds_are_possible(name, law):
    worlds = worlds_of(KINDS[name], law, seed=3)
    for seen in worlds.values():
        assert worlds_with_these_totals(seen, worlds) == {0, 1}


def test_the_attack_succeeds_on_sums_of_floats():
    certain = 0
    for seed in range(20):
        rows = people(seed).fillna(25.0)
        worlds = {}
        for world, dealing in enumerate(exchanged(rows, seed)):
            given = {
                p: old_ways.least_squares(
                    rows.iloc[dealing[p]], "pressure", ["age", "smoker", "bmi"]
                )
                for p in PARTIES
            }
            worlds[world] = [total(given)]
        certain += worlds_with_these_totals(worlds[0], worlds) == {0}
    assert certain >= 18
