"""Lattice reduction on the sums of one logistic fit, by one curious party.

Every row adds a public whole number, which depends on its cell (an age, with or without
HIV) and on the request alone. So the released sums are a linear system in the counts of
cells, with large coefficients and small unknowns. The covariate's column is rebuilt
from it: that is open, and every such fit says so. Responses are not: they are in one
exact sum. Twins have the exact sum over responses that every round had before.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from flint import fmpq_mat, fmpz_mat

import veilsum as vs
from veilsum.models.rows import Rows

FINE = 52


@dataclass
class Study:
    """One fit of `hiv ~ age` by three honest parties and a curious one."""

    ages: range
    rows: pd.DataFrame
    own: pd.DataFrame
    result: vs.FitResult

    @classmethod
    def drawn(cls, seed, n_rows, ages):
        draw = np.random.default_rng(seed)
        middle, width = (ages[0] + ages[-1]) / 2, len(ages) / 5

        def table(n):
            age = draw.choice(np.array(ages), n)
            chance = 1.0 / (1.0 + np.exp((middle - age) / width))
            return pd.DataFrame({"age": age, "hiv": (draw.random(n) < chance) * 1})

        rows, own = table(n_rows), table(60)
        tables = {f"clinic-{k}": rows.iloc[k::3] for k in range(3)}
        age = vs.Column("age", "integer", ages[0], ages[-1])
        hiv = vs.Column("hiv", "integer", 0, 1)
        schema = vs.Schema((age, hiv), minimum_rows=40)
        result = vs.fit(
            "hiv ~ age", {**tables, "curious": own}, family="binomial", schema=schema
        )
        return cls(ages, rows, own, result)

    def counts(self, hiv):
        """Return how many honest rows with this answer there are of each age."""
        ages = self.rows.age[self.rows.hiv == hiv]
        return np.array([int((ages == age).sum()) for age in self.ages], dtype=object)

    def system(self):
        """Return what a row of each cell adds to each sum, and the honest totals."""
        recipe, sums = self.result.inner
        newton = recipe.newton
        effects, totals = {0: [], 1: []}, []
        for k, total in enumerate(sums):
            request = newton.propose(recipe.state(sums[:k]))
            for hiv, known in effects.items():
                cells = [self._sums(newton, request, [(age, hiv)]) for age in self.ages]
                known.append(np.array(cells, dtype=object))
            own = self._sums(newton, request, self.own[["age", "hiv"]].to_numpy())
            whole = np.array([int(number) for number in total], dtype=object)
            totals.append(whole[: len(own)] - own)
        return (
            np.hstack(effects[0]),
            np.hstack(effects[1]),
            np.concatenate(totals),
        )

    @staticmethod
    def _sums(newton, request, cells):
        age, hiv = np.array(cells, dtype=float).T
        rows = Rows(np.column_stack([np.ones(len(age)), age]), hiv)
        return newton.statistics(rows, request)

    def pearson(self):
        """Return a row's part of Pearson's sum in each round, by age and answer."""
        recipe, sums = self.result.inner
        newton, found = recipe.newton, {0: [], 1: []}
        for k in range(1, len(sums)):
            request = newton.propose(recipe.state(sums[:k]))
            point = newton.real_point(request)
            eta = point[0] + point[1] * np.array(self.ages)
            for hiv, rounds in found.items():
                odds = np.exp(eta if hiv == 0 else -eta)
                rounds.append([int(value) for value in np.rint(odds * 2.0**FINE)])
        return tuple(np.array(found[hiv], dtype=object).T for hiv in (0, 1))


def nearest(effects, totals, centre, spread):
    """Return whole n with n @ effects = totals, nearest to a centre; None if missed."""
    scale, n = 1000, len(effects)
    columns = [k for k in range(effects.shape[1]) if any(effects[:, k])]
    effects, totals = effects[:, columns], totals[columns]
    weights = [max(1, round(scale / float(one))) for one in spread]
    large = 1 << 60
    lines = [
        [weights[i] * (i == j) for j in range(n)]
        + [0]
        + [large * int(value) for value in effects[i]]
        for i in range(n)
    ]
    target = [-round(w * float(c)) for w, c in zip(weights, centre, strict=True)]
    lines.append([*target, scale, *(-large * int(value) for value in totals)])
    reduced = fmpz_mat(lines).lll(delta=0.999, eta=0.501)
    best = None
    for i in range(reduced.nrows()):
        line = [int(reduced[i, j]) for j in range(reduced.ncols())]
        if abs(line[n]) != scale or any(line[n + 1 :]):
            continue
        length, sign = sum(v * v for v in line[: n + 1]), line[n] // scale
        if best is None or length < best[0]:
            parts = zip(line, weights, target, strict=False)
            best = length, [(sign * v - t) // w for v, w, t in parts]
    return None if best is None else np.array(best[1], dtype=object)


def rebuilt_ages(study, without, totals):
    """Return how many rows of each age there are, from sums that no answer moves."""
    one = np.ones(len(study.ages))
    mean = len(study.rows) / len(study.ages)
    return nearest(without, totals, mean * one, mean**0.5 * one)


def rebuilt_answers(study, ages, difference, totals):
    """Return how many rows of each age have HIV."""
    held = np.flatnonzero(ages.astype(int))
    coefficients = study.result.coefficients
    eta = coefficients["Intercept"] + coefficients["age"] * np.array(study.ages)
    chance = 1.0 / (1.0 + np.exp(-eta))
    size = ages[held].astype(float)
    spread = np.sqrt(size * chance[held] * (1 - chance[held]))
    found = nearest(difference[held], totals, size * chance[held], spread)
    if found is None:
        return None
    answers = np.zeros(len(ages), dtype=object)
    answers[held] = found
    return answers


def attacked(study, *, pearson=False):
    """Say whether the ages, and whether the answers, were rebuilt exactly."""
    without, with_hiv, totals = study.system()
    truth = study.counts(0) + study.counts(1)
    alike = (without == with_hiv).all(axis=0)
    ages = rebuilt_ages(study, without[:, alike], totals[alike])
    if ages is None or (ages != truth).any():
        return False, False
    if pearson:
        no, yes = study.pearson()
        more = study.counts(0) @ no + study.counts(1) @ yes
        without, with_hiv = np.hstack([without, no]), np.hstack([with_hiv, yes])
        totals = np.concatenate([totals, more])
    rest = totals - ages @ without
    answers = rebuilt_answers(study, ages, with_hiv - without, rest)
    return True, answers is not None and bool((answers == study.counts(1)).all())


def test_sums_of_a_fit_give_the_covariate_and_not_the_answers():
    study = Study.drawn(0, 150, range(30, 70))
    assert attacked(study) == (True, False)
    assert attacked(study, pearson=True) == (True, True)


def test_the_answers_of_a_small_table_are_not_rebuilt():
    """With all bits of a single Pearson sum they were."""
    study = Study.drawn(0, 120, range(40, 60))
    assert attacked(study) == (True, False)
    assert attacked(study, pearson=True) == (True, True)


@pytest.mark.slow
def test_answers_of_twenty_studies_are_not_rebuilt():
    """All 20 columns of ages are; with Pearson's sum in every round, answers too."""
    studies = [Study.drawn(seed, 300, range(18, 96)) for seed in range(20)]
    found = [attacked(study) for study in studies]
    assert found == [(True, False)] * 20
    twins = [attacked(study, pearson=True)[1] for study in studies]
    assert sum(twins) >= 10


# Sizes of parties


def sizes_rebuilt(seed, *, counts_only=False):
    """Say whether one party of 17 finds all others' sizes in a mixed model."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(10, 60, 17).tolist()
    x = vs.Column("x", "number", 0, 1, unit=0.01)
    y = vs.Column("y", "number", -10, 10, unit=0.01)
    schema = vs.Schema((x, y), minimum_rows=10, maximum_rows=60)
    tables = {}
    for k, size in enumerate(sizes):
        at = draw.integers(0, 101, size) / 100
        level = 1.0 + at + draw.normal() + draw.normal(size=size)
        tables[f"site-{k}"] = pd.DataFrame({"x": at, "y": level.round(2)})
    recipe, sums = vs.mixed("y ~ x", tables, schema=schema).inner
    mixing, possible = recipe.model.mixing, range(10, 61)

    def given(size, request, other):
        # A'A of columns [1, x, y]: sizes are in its first entry alone.
        moments = fmpq_mat(3, 3, [size, other, other, other, 9, 2, other, 2, 9])
        return mixing.vector(moments, size, request)

    effects, totals = [], []
    for k, total in enumerate(sums):
        request = recipe.request(sums[:k])
        rows = np.array([given(size, request, 0) for size in possible], dtype=object)
        others = np.array([given(size, request, 1) for size in possible], dtype=object)
        places = np.flatnonzero((rows == others).all(axis=0))
        places = places[-2:] if counts_only else places  # rows and parties
        own = given(sizes[0], request, 0)
        effects.append(rows[:, places])
        totals += [int(total[place]) - int(own[place]) for place in places]
    mean = np.full(len(possible), 16 / len(possible))
    found = nearest(np.hstack(effects), np.array(totals, dtype=object), mean, mean**0.5)
    truth = [sizes[1:].count(size) for size in possible]
    return found is not None and found.tolist() == truth


def test_a_mixed_model_gives_every_party_s_number_of_rows():
    """Open: the page of consent says so. Counts of rows and parties alone do not."""
    assert sizes_rebuilt(0)
    assert not sizes_rebuilt(0, counts_only=True)


@pytest.mark.slow
def test_sizes_of_parties_follow_in_eight_mixed_models():
    assert sum(map(sizes_rebuilt, range(8))) == 8
