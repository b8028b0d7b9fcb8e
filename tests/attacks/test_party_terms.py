"""Numbers that a party makes of all its rows: absorbed effects, mixed models, studies.

Whole tables exchanged between honest parties leave every total as it was, and so does
any order of rows at home; a single row exchanged need not, and that is said. What the
digits of totals tell of a party is tried here, with what is refused for it.
"""

from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat, fmpz
from scipy.optimize import least_squares

import veilsum as vs
from attacks.catalogue import PARTIES, PARTY_TERMS, RANGES, hands
from attacks.organiser import refused_by
from attacks.studies import (
    SCHEMA as CLINICS,
    guesses_of_ages,
    guesses_of_smokers,
    patients,
)
from attacks.watching import total, totals, watched
from cases import each
from refusals import refused
from veilsum.audit.low_bits import low_bits
from veilsum.audit.question import attack_total_without
from veilsum.models.mixed import MIXED_BITS, ROOT_BITS, THETA_BITS
from veilsum.questions.meta import MetaJob
from veilsum.questions.mixed import MixedJob
from veilsum.questions.regression import regression_formula_job
from veilsum.sums.presence import PresenceScreenedRecipe
from veilsum.tables.frames import as_frame

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


def seen(kind, tables):
    return totals(watched(partial(PARTY_TERMS[kind], tables), PARTIES)[1])


@each("kind", PARTY_TERMS)
def test_whole_tables_exchanged_leave_every_bit(kind):
    tables = hands()
    chance = np.random.default_rng(5)
    others = {"a": tables["a"], "b": tables["d"], "c": tables["b"], "d": tables["c"]}
    mixed = {
        party: one.iloc[chance.permutation(len(one))] for party, one in others.items()
    }
    first = seen(kind, tables)
    assert seen(kind, mixed) == first
    # The twin: single rows exchanged show, and the guarantee does not cover them.
    swapped = {**tables}
    swapped["b"] = pd.concat([tables["b"].iloc[1:], tables["c"].iloc[:1]])
    swapped["c"] = pd.concat([tables["c"].iloc[1:], tables["b"].iloc[:1]])
    assert seen(kind, swapped) != first


# Low bits of a small party


FORMULA = {"formula": "pressure ~ age + smoker"}
ABOUT_CLINICS = {
    "absorbed": regression_formula_job(CLINICS, absorb=True, **FORMULA),
    "mixed": MixedJob.of(CLINICS, **FORMULA),
}


@each("guesses", [guesses_of_ages, guesses_of_smokers])
@each("kind", ABOUT_CLINICS)
def test_low_bits_leave_every_candidate_of_a_clinic(kind, guesses):
    """As in test_low_bits: large parties' numbers have no spacing beyond a unit."""

    job = ABOUT_CLINICS[kind]
    request = job.recipe().request(())

    def of_clinics(tables):
        checked = (job.schema.check("", as_frame(one)) for one in tables)
        return [job.answer(job.bring(one), request).tolist() for one in checked]

    sizes = {"a": 60, "b": 11, "c": 4_000, "d": 4_000}
    tables = {p: patients((0, k), n) for k, (p, n) in enumerate(sizes.items())}
    given = dict(zip(sizes, of_clinics(list(tables.values())), strict=True))
    rest = attack_total_without(total(given), given["a"])
    others = [patients((99, k), 4_000) for k in range(6)]
    candidates = guesses(11)
    assert low_bits(rest, of_clinics, candidates, others) == set(candidates)
    assert len(candidates) > 5


def sizes_left(tables, column, known):
    """Which sizes of two parties the fractions in their sum allow.

    A party's sum of squares about its mean is a whole number over its rows, in counts
    of the column's unit. So n m times the sum of both is whole, for the right n and m.
    """
    job = regression_formula_job(known, formula=f"y ~ {column}", absorb=True)
    own = [
        job.bring(job.schema.check(name, as_frame(one))) for name, one in tables.items()
    ]
    recipe, (found,) = job.together(dict(enumerate(own)))
    unit = recipe.counts.units[0]
    counted = known.column(column).measure.unit ** 2
    squares, error = found[0] * unit / counted, unit / counted
    rows = sum(len(one) for one in tables.values())
    left = set()
    for n in range(5, rows - 4):
        whole = squares * n * (rows - n)
        off = abs(whole - round(whole))
        if off <= error * n * (rows - n):
            left.add(n)
    return left, rows


def two_parties(column):
    chance = np.random.default_rng(4)
    return {
        name: pd.DataFrame({column: make(chance, n), "y": chance.normal(size=n)})
        for name, n in (("b", 23), ("c", 38))
        for make in [MAKES[column]]
    }


MAKES = {
    "flag": lambda chance, n: (chance.random(n) < 0.4).astype(float),
    "x": lambda chance, n: chance.normal(size=n),
}
BOTH = vs.Schema(
    (
        vs.Column("flag", "integer", 0, 1),
        vs.Column("x", "number", -6, 6),
        vs.Column("y", "number", -6, 6),
    ),
    minimum_rows=5,
)


def test_numbers_with_many_digits_leave_every_size():
    left, rows = sizes_left(two_parties("x"), "x", BOTH)
    assert left == set(range(5, rows - 4))


def test_of_a_column_with_two_values_the_sizes_of_two_parties_follow():
    """A limit that is said: the unit that coefficients need lets this through."""
    left, _ = sizes_left(two_parties("flag"), "flag", BOTH)
    assert left == {23, 38}
    result = vs.fit("y ~ flag", four("flag"), absorb=True, rules=vs.Rules.none())
    assert "how many rows of a party there are" in " ".join(result.guarantee.limits)


def four(column):
    tables = two_parties(column)
    return {**tables, "d": tables["b"], "e": tables["c"]}


# Counts of a column with few values, from the digits of a total


FLAGS = tuple(vs.Column(one, "integer", 0, 1) for one in ("flag", "mark"))
ABSORBED = {
    columns: regression_formula_job(
        vs.Schema((*FLAGS, vs.Column("y", "number", -6, 6)), minimum_rows=20),
        formula=f"y ~ {columns}",
        absorb=True,
    )
    for columns in ("flag", "flag + mark")
}


def flagged(h, seed=0):
    """Parties of 20 to 39 rows, of which some have a flag, and a mark or not."""
    chance = np.random.default_rng((h, seed))
    return {
        f"p{k}": pd.DataFrame(
            {
                "flag": (chance.random(n) < 0.4).astype(int),
                "mark": (chance.random(n) < 0.3).astype(int),
                "y": chance.normal(size=n),
            }
        )
        for k, n in enumerate(chance.integers(20, 40, h))
    }


def digits_of(tables, columns="flag"):
    """What is released of the flags: products about means, in the public unit."""
    job = ABSORBED[columns]
    own = {p: job.bring(job.schema.check(p, as_frame(t))) for p, t in tables.items()}
    recipe, (total,) = job.together(own)
    assert recipe.counts.units[0] == Fraction(1, 2**34)
    return [int(one) for one in total[:3]], int(total[-3])


def given(n):
    """What a party of n rows gives, by how many have the flag: 1 to half of them."""
    k = np.arange(1, n // 2 + 1)
    return np.rint((k - k * k / n) * 2.0**34).astype(np.int64)


def sizes_told(h, seed):
    """Which sizes of h parties have the total that was released; 20 to 39 rows each.

    Nothing else is known but the number of all rows. Pairs of parties are listed by
    rows and by what they give, and every other way to go on is looked up.
    """
    (total, *_), rows = digits_of(flagged(h, seed))
    n = np.repeat(np.arange(20, 40), np.arange(20, 40) // 2)
    one = np.concatenate([given(k) for k in range(20, 40)]) + (n << 50)
    sums, parts = {1: one}, {1: n[:, None]}
    for k in (2, 3):
        some, first = sums[k - 1], parts[k - 1]
        places = np.nonzero(first[:, -1][:, None] <= n[None, :])
        sums[k] = (some[:, None] + one[None, :])[places]
        parts[k] = np.hstack([first[places[0]], n[places[1]][:, None]])
        if k == h - h // 2:
            break
    left, right = h // 2, h - h // 2
    order = np.argsort(sums[left])
    wanted = total + (rows << 50) - sums[right]
    low = np.searchsorted(sums[left], wanted, "left", sorter=order)
    high = np.searchsorted(sums[left], wanted, "right", sorter=order)
    return {
        tuple(sorted([*parts[right][k], *parts[left][order[j]]]))
        for k in np.flatnonzero(high > low)
        for j in range(low[k], high[k])
    }


FEW = [2, 3, 4, pytest.param(5, marks=pytest.mark.slow)]


@pytest.mark.parametrize("h", FEW)
def test_sizes_of_parties_follow_from_one_total_where_there_are_few(h):
    """Even of five: a rule that says five, whatever the columns, would not do."""
    alone = 0
    for seed in range(4):
        told = sizes_told(h, seed)
        assert tuple(sorted(map(len, flagged(h, seed).values()))) in told
        alone += len(told) == 1
    assert alone >= 3


def counts_told(total, sizes):
    """How many have the flag at each party, in all ways; for who knows the sizes."""

    def ways(some):
        sums, counts = np.zeros(1, np.int64), np.zeros((1, 0), np.int64)
        for n in some:
            k = np.arange(1, n // 2 + 1)
            sums = (sums[:, None] + given(n)[None, :]).ravel()
            again = np.repeat(counts, len(k), axis=0)
            counts = np.hstack([again, np.tile(k, len(counts))[:, None]])
        return sums, counts

    half = len(sizes) // 2
    (left, first), (right, second) = ways(sizes[:half]), ways(sizes[half:])
    order = np.argsort(left)
    low = np.searchsorted(left, total - right, "left", sorter=order)
    high = np.searchsorted(left, total - right, "right", sorter=order)
    return [
        np.concatenate([first[order[j]], second[k]])
        for k in np.flatnonzero(high > low)
        for j in range(low[k], high[k])
    ]


def true_counts(tables, column):
    """Flags of each party, or those without: a total is the same for both."""
    sums = ((int(one[column].sum()), len(one)) for one in tables.values())
    return [min(k, n - k) for k, n in sums]


def test_who_knows_sizes_of_few_parties_has_every_party_s_count():
    tables = flagged(3)
    (total, *_), _ = digits_of(tables)
    (found,) = counts_told(total, [len(one) for one in tables.values()])
    assert found.tolist() == true_counts(tables, "flag")


def test_two_columns_tell_what_each_of_them_leaves_open():
    """Why every two columns are counted: here eight parties, each alone ambiguous."""
    tables = flagged(8, seed=3)
    sizes = np.array([len(one) for one in tables.values()])
    (flags, both, marks), _ = digits_of(tables, "flag + mark")
    ways = [counts_told(one, sizes) for one in (flags, marks)]
    assert min(map(len, ways)) > 1

    def near(one, other):
        """Whether the product about means is whole with these, up to rounding."""
        signs = np.array(np.meshgrid(*[[1, -1]] * len(sizes))).reshape(len(sizes), -1)
        off = (one * other / sizes) @ signs + both / 2.0**34
        return np.abs(off - np.rint(off)).min() < len(sizes) / 2.0**34

    left = [(one, other) for one in ways[0] for other in ways[1] if near(one, other)]
    assert len(left) < len(ways[0]) * len(ways[1]) / 4
    truth = true_counts(tables, "flag"), true_counts(tables, "mark")
    assert truth in [(one.tolist(), other.tolist()) for one, other in left]


def test_as_many_parties_as_are_asked_for_leave_other_counts():
    least = ABSORBED["flag"].model.absorbing.least_honest(20)
    assert least == 14
    tables = flagged(least)
    (total, *_), _ = digits_of(tables)
    # Samples of either half of the parties; nobody could list them all.
    chance, halves = np.random.default_rng(1), []
    for some in (list(tables.values())[:7], list(tables.values())[7:]):
        found = np.zeros(1 << 20, np.int64)
        for values in (given(len(one))[len(one) // 6 :] for one in some):
            found += values[chance.integers(0, len(values), len(found))]
        halves.append(found)
    assert len(np.intersect1d(halves[0], total - halves[1])) > 0


def test_few_parties_with_a_column_of_few_values_are_refused():
    def asked(h, columns="flag", rules=None):
        return vs.fit(
            f"y ~ {columns}", flagged(h), absorb=True, rules=rules, minimum_rows=20
        )

    assert refused_by(lambda: asked(14)) == "site_terms"
    assert asked(15).fit.n_parties == 15
    assert refused_by(lambda: asked(15, "flag + mark")) == "site_terms"
    free = asked(4, rules=vs.Rules(site_terms=True))
    assert "switched off (site_terms = true)" in " ".join(free.guarantee.limits)
    # Numbers with many digits have no fraction to be seen.
    many = regression_formula_job(BOTH, formula="y ~ x", absorb=True).model.absorbing
    assert many.least_honest(5) == 0


# Poles of a mixed model


def sites(sizes, seed=2):
    chance = np.random.default_rng(seed)
    found = {}
    for k, n in enumerate(sizes):
        x = chance.uniform(-5, 5, n)
        y = 0.5 * x + chance.normal() + chance.normal(size=n)
        found[f"p{k}"] = pd.DataFrame({"x": x, "y": np.clip(y, -6, 6)})
    return found


def solved(tables):
    """Every party's size and mean of y, from a mixed model's totals alone."""
    job = MixedJob.of(BOTH, formula="y ~ x")
    own = {p: job.bring(job.schema.check(p, as_frame(t))) for p, t in tables.items()}
    recipe, sums = job.together(own)
    asked = [recipe.request(sums[:k]) for k in range(len(sums))]
    theta = np.array([one.theta[0] for one in asked]) / 2.0**THETA_BITS
    root = np.array([one.root[0] for one in asked]) / 2.0**ROOT_BITS
    unit = 2.0 ** np.array([one.bits for one in asked])
    n_rows, h = int(sums[0][-3]), len(tables)
    # In a sum: products of 1, x, y row by row, log det V; then their derivatives.
    logs = np.array([float(one[6]) for one in sums]) / 2.0**MIXED_BITS
    steps = np.array([float(one[13]) for one in sums]) / 2.0**MIXED_BITS

    def off(free):
        n = scaled(free)
        at = theta[:, None] ** 2 * n
        first = (np.log1p(at).sum(axis=1) - logs) * unit
        second = (root**2 * (n / (1.0 + at)).sum(axis=1) - steps) * unit
        return np.concatenate([first, second])

    def scaled(free):
        n = np.append(np.exp(free), 1.0)
        return n * n_rows / n.sum()

    ends = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    starts = [np.linspace(wide, 0.1 * wide, h - 1) for wide in (0.3, 1.0, 2.0)]
    tries = [least_squares(off, one, **ends) for one in starts]
    n = scaled(min(tries, key=lambda one: one.cost).x)
    # 1'V^-1 y and its derivative are linear in the parties' sums of y: least squares in
    # exact fractions, each number as good as its unit says.
    rest = fmpq_mat(2 * len(sums), h)
    right = fmpq_mat(2 * len(sums), 1)
    weights = fmpq_mat(2 * len(sums), 2 * len(sums))
    for k, (one, asked_for) in enumerate(zip(sums, asked, strict=True)):
        t = fmpq(asked_for.theta[0], fmpz(2) ** THETA_BITS)
        scale = fmpq(asked_for.root[0], fmpz(2) ** ROOT_BITS)
        for j, size in enumerate(n):
            rows = fmpq(*Fraction(size).as_integer_ratio())
            share = 1 + t * t * rows
            rest[2 * k, j] = 1 / share
            rest[2 * k + 1, j] = -scale * scale * rows / (share * share)
        for j, place in enumerate((3, 10)):
            right[2 * k + j, 0] = fmpq(int(one[place]), fmpz(2) ** MIXED_BITS)
            weights[2 * k + j, 2 * k + j] = fmpq(4) ** asked_for.bits
    turned = rest.transpose() * weights
    found = (turned * rest).solve(turned * right)
    sums_of_y = np.array([int(one.p) / int(one.q) for one in found.entries()])
    response = float(job.model.mixing.scales[2])
    order = np.argsort(n)
    return n[order], (sums_of_y * response / n)[order]


def test_of_three_parties_sizes_and_means_follow_from_a_mixed_model():
    """Why so few are refused: their poles are far apart."""
    tables = sites((14, 31, 77))
    sizes, means = solved(tables)
    np.testing.assert_allclose(sizes, [14, 31, 77], atol=0.05)
    truth = [one["y"].mean() for one in tables.values()]
    np.testing.assert_allclose(means, truth, atol=0.02)


def told_at_best(tables, spread=1.0):
    """How far off parties' means of y are at least, for who knows all of their sizes.

    What is known before is that means are about 0, give or take `spread`; then every
    total of every round is one more equation, as good as its unit. Bounds by the
    information that all of them together have about the parties' sums of x and y.
    """
    job = MixedJob.of(BOTH, formula="y ~ x")
    own = {p: job.bring(job.schema.check(p, as_frame(t))) for p, t in tables.items()}
    recipe, sums = job.together(own)
    sizes = [len(one) for one in tables.values()]
    h, scale = len(sizes), float(job.model.mixing.scales[2])
    parts = [own[p].moments for p in tables]
    x = [arb(one[0, 1]) for one in parts]
    y = [arb(one[0, 2]) for one in parts]
    with ctx.workprec(800):
        before = [(scale / (spread * n)) ** 2 for n in sizes]
        held = arb_mat(2 * h + 3, 2 * h + 3)
        for k, one in enumerate([*before, *before, *(1e-6,) * 3]):
            held[k, k] = arb(one)
        for k in range(len(sums)):
            asked = recipe.request(sums[:k])
            t = arb(fmpq(asked.theta[0], fmpz(2) ** THETA_BITS))
            metric = arb(fmpq(asked.root[0], fmpz(2) ** ROOT_BITS)) ** 2
            # Weights of sums in products, and how they change with T.
            weights = [t * t / (1 + t * t * n) for n in sizes]
            steps = [metric / (1 + t * t * n) ** 2 for n in sizes]
            lines = []
            for some, pooled in ((weights, 1), (steps, 0)):
                alone = [pooled - one * n for one, n in zip(some, sizes, strict=True)]
                none = [0] * h
                xx = [-2 * one * a for one, a in zip(some, x, strict=True)]
                yy = [-2 * one * b for one, b in zip(some, y, strict=True)]
                xy = [-one * a for one, a in zip(some, x, strict=True)]
                yx = [-one * b for one, b in zip(some, y, strict=True)]
                lines += [
                    [*alone, *none, 0, 0, 0],
                    [*none, *alone, 0, 0, 0],
                    [*xx, *none, pooled, 0, 0],
                    [*yx, *xy, 0, pooled, 0],
                    [*none, *yy, 0, 0, pooled],
                ]
            line = arb_mat(lines)
            held += line.transpose() * line * (arb(4) ** asked.bits * 12 / h)
        left = held.inv()
    return np.array(
        [float(left[h + k, h + k]) ** 0.5 * scale / n for k, n in enumerate(sizes)]
    )


def test_more_parties_hide_each_other():
    sizes = (20, 27, 33, 41, 52, 60, 71, 88)
    assert told_at_best(sites(sizes[:3], seed=3)).max() < 1e-3
    assert told_at_best(sites(sizes[:4], seed=3)).max() < 0.1
    eight = told_at_best(sites(sizes, seed=3))
    assert np.median(eight) > 0.3
    # The smallest and the largest stand out: that is said, and no number is promised.
    assert 1e-3 < eight.min() < 0.3


def test_a_mixed_model_of_few_parties_is_refused_and_is_not_without_the_rule():
    few, many = sites((30,) * 16), sites((30,) * 17)
    assert refused_by(lambda: vs.mixed("y ~ x", few)) == "site_terms"
    assert vs.mixed("y ~ x", many).fit.n_parties == 17
    slopes = {"random": ["1", "x"]}
    assert refused_by(lambda: vs.mixed("y ~ x", many, **slopes)) == "site_terms"
    allowed = vs.mixed("y ~ x", few, rules=vs.Rules(site_terms=True))
    assert "switched off (site_terms = true)" in " ".join(allowed.guarantee.limits)


# Studies


def study_sums(tables):
    job = MetaJob.of(BOTH, formula="y ~ x", coefficient="x", **RANGES)
    own = {p: job.bring(job.schema.check(p, as_frame(t))) for p, t in tables.items()}
    recipe, sums = job.together(own)
    units, ranges = recipe.counts.units, job.ranges
    numbers = [float(int(one) * unit) for one, unit in zip(sums[0], units, strict=True)]
    return numbers[:4], ranges, [one.estimate for one in own.values()]


def two_studies(sums):
    """Both estimates from four sums over two studies."""
    weight, cross, square, weights = sums
    # The two weights have a known sum and a known sum of squares.
    half = np.sqrt(max(2.0 * weights - weight**2, 0.0)) / 2.0
    pair = np.array([weight / 2.0 + half, weight / 2.0 - half])
    mean = cross / weight
    spread = np.sqrt(max(square / weight - mean**2, 0.0))
    apart = spread * np.sqrt(pair[::-1] / pair)
    ways = [mean + apart * [1, -1], mean + apart * [-1, 1]]
    return ways, pair


def test_all_studies_but_two_pooled_give_both_away():
    """A limit that is said: four sums are as many as two studies have numbers."""
    sums, ranges, truth = study_sums(sites((40, 70)))
    ways, weights = two_studies(sums)
    real = [sorted(way * float(ranges.scale) + float(ranges.middle)) for way in ways]
    assert (
        min(np.abs(np.array(one) - sorted(y for y, _ in truth)).max() for one in real)
        < 1e-4
    )
    np.testing.assert_allclose(
        sorted(1.0 / np.sqrt(weights)), sorted(e for _, e in truth), rtol=1e-4
    )


def test_few_studies_are_refused_and_four_leave_others_possible():
    few = sites((30, 40, 50, 60))
    asked = {"coefficient": "x", "rules": vs.Rules()}
    assert refused_by(lambda: vs.meta("y ~ x", few, **asked)) == "site_terms"
    free = vs.meta("y ~ x", few, coefficient="x", rules=vs.Rules(site_terms=True))
    assert free.fixed.n_studies == 4
    # Of four honest studies, eight numbers, both rounds show six.
    *_, truth = study_sums(sites((30, 40, 50, 60)))
    y, w = (
        np.array([one for one, _ in truth]),
        1.0 / np.array([e for _, e in truth]) ** 2,
    )
    tau2 = 0.01

    def shown(point):
        z, v = point[:4], point[4:]
        u = 1.0 / (1.0 / v + tau2)
        parts = [v, v * z, v * z * z, v * v, u, u * z]
        return np.array([one.sum() for one in parts])

    point = np.concatenate([y, w])
    change = np.array(
        [(shown(point + h) - shown(point - h)) / 2e-6 for h in 1e-6 * np.eye(8)]
    )
    free_ways = 8 - np.linalg.matrix_rank(change)
    assert free_ways >= 2
    assert "are not determined by one run" in " ".join(
        vs.meta("y ~ x", sites((30,) * 5), coefficient="x").guarantee.limits
    )


# Aimed at one row, or one party


def aimed(question, **change):
    tables = sites((30,) * 17)
    for name, one in change.items():
        tables[name] = one(tables[name])
    return lambda **rules: question(tables, rules=vs.Rules(**rules))


def outlier(one):
    return one.assign(x=np.where(np.arange(len(one)) == 3, 5.0, 1e-3 * one["x"]))


def constant(one):
    return one.assign(x=2.5)


QUESTIONS = {
    "absorbed": lambda t, **kept: vs.fit("y ~ x", t, absorb=True, **kept),
    "mixed": partial(vs.mixed, "y ~ x"),
    "meta": partial(vs.meta, "y ~ x", coefficient="x"),
}


@each("kind", QUESTIONS)
def test_a_column_that_points_at_one_row_or_party_is_refused(kind):
    at_a_row = aimed(QUESTIONS[kind], p4=outlier)
    assert refused_by(at_a_row) in ("effective_count", "maximum_influence")
    free = {"effective_count": 0.0, "maximum_influence": 1.0}
    assert at_a_row(**free).released.sums
    at_a_party = aimed(QUESTIONS[kind], p4=constant)
    if kind == "meta":  # there is no slope to be found there
        assert refused_by(at_a_party) == "InvalidInputError"
        return
    if kind == "absorbed":  # nothing of it is left: no total says what it was
        other = aimed(QUESTIONS[kind], p4=lambda one: one.assign(x=-1.0))
        found = [ask().released.sums for ask in (at_a_party, other)]
        np.testing.assert_array_equal(*found)
        return
    assert refused_by(at_a_party) == "site_terms"
    assert at_a_party(site_terms=True).released.sums


# Numbers that are constant at all parties but one


def left_to_one(pair):
    """Tables in which the products of x, or of x and z, are those of party p5 alone."""
    chance, tables = np.random.default_rng(2), {}
    for k in range(12):
        table = pd.DataFrame(chance.normal(size=(60, 3)).round(2), columns=[*"xzy"])
        if pair and k > 5:
            table["z"] = 0.25
        if (k < 5) if pair else (k != 5):
            table["x"] = 0.5
        tables[f"p{k}"] = table
    return tables


def products_within(tables, pair):
    """The total of the products, and that of the party that is left alone."""
    seen = vs.fit("y ~ x + z", tables, absorb=True, driver="vectorised", seed=1)
    place = 1 if pair else 0  # x x, z x, z z and so on
    unit = seen.recipe.counts.units[place]
    own = tables["p5"] - tables["p5"].mean()
    other = own["z"] if pair else own["x"]
    return float(seen.released.sums[-1][place] * unit), float(own["x"] @ other)


@pytest.mark.parametrize("pair", [False, True], ids=["a column", "two columns"])
def test_a_number_that_varies_at_one_party_is_not_summed(pair, monkeypatch):
    with refused("tells-parties-apart", vs.VeilsumError, mentions=("1,",)):
        products_within(left_to_one(pair), pair)
    # The twin: without the count the total is that party's own.
    monkeypatch.setattr(PresenceScreenedRecipe, "_check_varying", lambda *_: None)
    monkeypatch.setattr(PresenceScreenedRecipe, "_check_room", lambda *_: None)
    total, own = products_within(left_to_one(pair), pair)
    assert total == pytest.approx(own, rel=1e-6)


def test_a_level_that_is_beside_another_at_one_party_is_not_summed(monkeypatch):
    """Two parties hold the level alone, and add nothing to its products."""
    chance, tables = np.random.default_rng(4), {}
    wards = {0: ["w"], 1: ["w"], 5: ["w", "u"]}
    for k in range(20):
        table = pd.DataFrame(chance.normal(size=(60, 2)).round(2), columns=[*"xy"])
        table["ward"] = chance.choice(wards.get(k, ["u", "v"]), 60)
        tables[f"p{k}"] = table
    asked = partial(vs.fit, "y ~ x + C(ward)", absorb=True, driver="vectorised")
    with refused("tells-parties-apart", vs.VeilsumError, mentions=("1,",)):
        asked(tables)
    # The twin: the total of the level's products is one party's own.
    monkeypatch.setattr(PresenceScreenedRecipe, "_check_varying", lambda *_: None)
    seen = asked(tables)
    place = 5  # x x, v x, v v, w x, w v, w w
    own = (tables["p5"]["ward"] == "w").astype(float)
    total = float(seen.released.sums[-1][place] * seen.recipe.counts.units[place])
    assert total == pytest.approx(float((own - own.mean()) @ own), rel=1e-8)
