"""Made-up studies of four parties: curious `a`, and `b`, `c`, `d`, who are honest."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

import veilsum as vs
from attacks.watching import watched

PARTIES = ("a", "b", "c", "d")
AGES = (18, 95)
SCHEMA = vs.Schema(
    (
        vs.Column("age", "integer", *AGES),
        vs.Column("smoker", "integer", 0, 1),
        vs.Column("bmi", "number", 10, 80),
        vs.Column("pressure", "number", 40, 260),
    ),
    minimum_rows=10,
)


def patients(seed, n):
    """People as a hospital knows them; numbers have one decimal."""
    chance = np.random.default_rng(seed)
    age = chance.integers(AGES[0], AGES[1] + 1, n)
    smoker = (chance.random(n) < 0.1 + 0.005 * age).astype(int)
    bmi = np.clip(chance.normal(26.0, 4.0, n), 12.0, 70.0)
    pressure = 90.0 + 0.5 * age + 4.0 * smoker + 8.0 * chance.standard_normal(n)
    return pd.DataFrame(
        {
            "age": age,
            "smoker": smoker,
            "bmi": np.round(bmi, 1),
            "pressure": np.round(pressure, 1),
        }
    )


def fit_pressure(tables, **options):
    # What a table is by itself is not what this is about; once there were no rules.
    free = {"rules": vs.Rules.none()} if hasattr(vs, "Rules") else {}
    named = {"schema": SCHEMA, **free, **options}
    return vs.fit("pressure ~ age + smoker", tables, **named)


def contributions(job, tables, *, at_once=60):
    """What each of some tables contributes to the first round of a job."""
    found = []
    for start in range(0, len(tables), at_once):
        some = list(tables[start : start + at_once])
        # A job has four parties at least.
        parts = some + some[:1] * max(0, len(PARTIES) - len(some))
        names = [str(k) for k in range(len(parts))]
        held = dict(zip(names, parts, strict=True))
        ring = f"ring:{len(names)}"
        _, rounds = watched(partial(job, held), names, topology=ring)
        found += list(rounds[0].values())[: len(some)]
    return found


# A clinic's few patients, as an attacker imagines them


def clinic(ages, n_smokers, *, pressure=110.0):
    """A table of these ages; the first ones smoke."""
    n = len(ages)
    smokes = (np.arange(n) < n_smokers).astype(int)
    return pd.DataFrame(
        {
            "age": np.asarray(ages, dtype=np.int64),
            "smoker": smokes,
            "bmi": np.linspace(20.0, 30.0, n).round(1),
            "pressure": pressure + np.arange(n),
        }
    )


def ages_of(total, n):
    """So many ages with this sum, as near to each other as can be."""
    return [total // n + (k < total % n) for k in range(n)]


def others_ages_of(total, n):
    """Other ages with the same sum."""
    ages = ages_of(total, n)
    if n > 1:
        ages[0], ages[-1] = ages[0] + 1, ages[-1] - 1
    return ages


def guesses_of_ages(n):
    """By the sum of ages: tables of a clinic whose patients are 40 to 70 on average."""
    found = {s: [clinic(ages_of(s, n), 3)] for s in range(40 * n, 70 * n + 1)}
    found[55 * n].append(clinic(others_ages_of(55 * n, n), 3, pressure=117.3))
    return found


def guesses_of_smokers(n):
    """By the number of smokers."""
    found = {k: [clinic(ages_of(55 * n, n), k)] for k in range(n + 1)}
    found[3].append(clinic(others_ages_of(57 * n, n), 3, pressure=117.3))
    return found


def guesses_of_smokers_ages(n, ages, n_smokers):
    """By the sum of smokers' ages, if the other two numbers are known already."""
    others, found = n - n_smokers, {}
    for own in range(n_smokers * AGES[0], n_smokers * AGES[1] + 1):
        # A year to spare, for ages with the same sum.
        if others * (AGES[0] + 1) <= ages - own <= others * (AGES[1] - 1):
            parts = [*ages_of(own, n_smokers), *ages_of(ages - own, others)]
            found[own] = [clinic(parts, n_smokers)]
    own = max(found)
    again = [*ages_of(own, n_smokers), *others_ages_of(ages - own, others)]
    found[own].append(clinic(again, n_smokers, pressure=117.3))
    return found
