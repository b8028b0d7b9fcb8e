"""Cents are cents: equal decimal sums are equal, whoever has which amount."""

from functools import partial

import numpy as np

import veilsum as vs
from attacks import old_ways
from attacks.catalogue import PARTIES
from attacks.watching import total, watched
from cases import each
from veilsum.audit.question import attack_total_without
from veilsum.audit.reassignment import worlds_with_these_totals

AMOUNTS = {"up to 1": 100, "up to 100": 10_000, "up to 10,000": 1_000_000}


def splits(seed, most, n):
    """What `b` and `c` have, in cents: pairs with one sum each, and b's share moved."""
    chance = np.random.default_rng(seed)
    mine, yours = chance.integers(1, most, (2, n))
    moved = chance.integers(
        -np.minimum(mine, most - yours), np.minimum(most - mine, yours) + 1
    )
    return [
        (int(b), int(c), int(m)) for b, c, m in zip(mine, yours, moved, strict=True)
    ]


def vectors(pairs):
    """Two worlds of a sum: in the second one c has given some cents to b."""
    worlds = {}
    for world in (0, 1):
        b = np.array([b + world * moved for b, _, moved in pairs]) / 100
        c = np.array([c - world * moved for _, c, moved in pairs]) / 100
        worlds[world] = {"a": 0.0 * b + 1.25, "b": b, "c": c, "d": 0.0 * b + 7.5}
    return worlds


def by_the_package(data):
    _, rounds = watched(partial(vs.sum, data), PARTIES)
    return rounds[0]


def by_costs(data):
    """The same amounts as slopes of parties' costs."""
    costs = {p: (np.diag(np.full(len(q), 2.0)), q) for p, q in data.items()}
    _, rounds = watched(partial(vs.quadratic_program, costs), PARTIES)
    # The last coefficients are the slopes.
    n = len(data["a"])
    return {p: one[-n:] for p, one in rounds[0].items()}


def in_the_old_way(data):
    return {p: old_ways.on_grid(values) for p, values in data.items()}


def left(pairs, program):
    """For each pair, which of its two worlds are possible if the first one is true."""
    seen = {}
    for world, data in vectors(pairs).items():
        given = program(data)
        seen[world] = attack_total_without(total(given), given["a"])
    return [
        worlds_with_these_totals(
            [[seen[0][k]]], {world: [[one[k]]] for world, one in seen.items()}
        )
        for k in range(len(pairs))
    ]


def impossible(n, programs=None):
    """In which share of n pairs the alternative is impossible."""
    found = {}
    for how, program in (
        programs or {"sum": by_the_package, "costs": by_costs}
    ).items():
        found[how] = {}
        for size, most in AMOUNTS.items():
            pairs = [one for one in splits(1, most, n) if one[2] != 0]
            if how == "costs":
                pairs = pairs[:40]
            known = left(pairs, program)
            share = sum(worlds == {0} for worlds in known) / len(known)
            found[how][size] = round(share, 3)
    return found


@each("how", [by_the_package, by_costs])
@each("most", AMOUNTS.values(), ids=AMOUNTS)
def test_every_split_of_a_sum_is_possible(how, most):
    for worlds in left(splits(2, most, 30), how):
        assert worlds == {0, 1}


def test_the_attack_succeeds_on_floats():
    (found,) = impossible(400, {"floats": in_the_old_way}).values()
    assert all(share > 0.3 for share in found.values())
