"""Random slopes of a mixed model: what sums at many thetas tell of a party.

Of a party its own sums of squares and products with the random columns are unknown, of
whoever knows how many rows it has. Counted as equations, released numbers are far more
than unknowns, whatever is refused: a few dozen a round, and a dozen rounds. So only
their rounding leaves anything open, and how much is worked out here: by the information
that all digits of all rounds together have, and by solving for the unknowns.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

import veilsum as vs
from veilsum.models import mixed
from veilsum.models.mixed import MIXED_BITS, SECOND_BITS
from veilsum.questions.mixed import MixedJob
from veilsum.tables.frames import as_frame

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

SCHEMA = vs.Schema(
    (vs.Column("x", "number", -6, 6), vs.Column("y", "number", -12, 12)),
    minimum_rows=5,
)
SIZES = (20, 27, 33, 41, 52, 60, 71, 88, 24, 30, 37, 46, 56, 65, 79, 95)
SIZES += (22, 35, 50, 70, 29, 44, 62, 83)
INTERCEPTS, SLOPES = ("1",), ("1", "x")
# A change of an exact number that is small beside all digits.
SMALL = fmpq(1, 2**100)


def sloped(h, seed=3, spread=0.4, levels=1.0):
    """Parties of different sizes, each with an intercept and a slope of its own."""
    chance = np.random.default_rng(seed)
    found = {}
    for k, n in enumerate(SIZES[:h]):
        x = np.clip(chance.normal(0.5 * chance.normal(), 2.0, n), -6, 6)
        slope, level = 0.5 + spread * chance.normal(), levels * chance.normal()
        y = slope * x + level + chance.normal(size=n)
        found[f"p{k}"] = pd.DataFrame({"x": x, "y": np.clip(y, -12, 12)})
    return found


@contextmanager
def unrounded():
    """A party's numbers before they are rounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "_round_mixed_number", lambda number, *_: number)
        patch.setattr(
            mixed, "_rounded_mixed_logarithm", lambda number, _: arb(number).log()
        )
        yield


@dataclass
class Run:
    """What everybody saw of a run, and what parties have: sums of 1, x, y by 1, x, y.

    Unknowns are, of each party, those of these sums that a random column is in, over
    its rows and beside how far they scatter; then the others, of all parties together.
    """

    tables: dict
    random: tuple

    def __post_init__(self):
        job = MixedJob.of(SCHEMA, formula="y ~ x", random=self.random)
        checked = (job.schema.check("", as_frame(t)) for t in self.tables.values())
        own = [job.bring(one) for one in checked]
        recipe, self.sums = job.together(dict(enumerate(own)))
        self.asked = [recipe.request(self.sums[:k]) for k in range(len(self.sums))]
        self.mixing = job.model.mixing
        self.sizes = [len(one) for one in self.tables.values()]
        q, some = len(self.random), range(3)
        self.places = [(a, b) for a in some[:q] for b in some[a:] if b]
        self.rest = [(a, b) for a in some[q:] for b in some[a:]]
        self.truth = [one.moments for one in own]
        self.means = self.means_of(self.truth)
        self.scatter = self.means.std(axis=0, ddof=1)

    def means_of(self, moments):
        """The unknowns of each party, over its rows."""
        return np.array(
            [
                [float(m[place].p) / float(m[place].q) / n for place in self.places]
                for m, n in zip(moments, self.sizes, strict=True)
            ]
        )

    def vector(self, moments, n, at):
        with unrounded():
            return [arb(one) for one in self.mixing.vector(moments, n, at)[:-2]]

    def steps(self):
        """For each unknown, whose sums it changes, and how."""
        for k, n in enumerate(self.sizes):
            for place, scatter in zip(self.places, self.scatter, strict=True):
                yield k, place, fmpq(round(n * scatter * 2**40), 2**40)
        for place in self.rest:
            yield 0, place, fmpq(1)

    def line(self, moments, at):
        """The totals at a theta, how they change by unknowns, and each one's unit."""
        given = [
            self.vector(m, n, at) for m, n in zip(moments, self.sizes, strict=True)
        ]
        columns = []
        for k, (a, b), step in self.steps():
            moved = fmpq_mat(moments[k])
            moved[a, b] += step * SMALL
            moved[b, a] = moved[a, b]
            after = self.vector(moved, self.sizes[k], at)
            columns.append(
                [
                    (one - was) / arb(SMALL)
                    for one, was in zip(after, given[k], strict=True)
                ]
            )
        k = self.mixing.n_theta * (self.mixing.n_theta + 1) // 2
        bits = [at.bits] * (len(given[0]) - k) + [at.second_bits] * k
        total = [sum(one, arb(0)) for one in zip(*given, strict=True)]
        return total, arb_mat(columns).transpose(), bits

    @property
    def before(self):
        """What is known before: how far the parties' numbers scatter."""
        n = len(self.sizes) * len(self.places)
        found = arb_mat(n + len(self.rest), n + len(self.rest))
        for k in range(found.nrows()):
            found[k, k] = arb(1) if k < n else arb(1e-6)
        return found

    def left_open(self):
        """How far off each number of each party is at best, beside its scatter."""
        with ctx.workprec(400):
            held = self.before
            for at in self.asked:
                _, change, bits = self.line(self.truth, at)
                held += weighed(change, bits, len(self.sizes))[0]
            left = held.inv()
        h, n = len(self.sizes), len(self.places)
        found = [float(left[k, k].mid()) ** 0.5 for k in range(h * n)]
        return np.array(found).reshape(h, n)

    def solved(self, most_bits, every=1):
        """Each party's numbers, solved for from the totals of some of the rounds.

        All parties are alike at first, as far as other fits tell of all of them. Then
        by Gauss and Newton's steps, with more and more of the totals' digits.
        """
        kept = {*range(0, len(self.asked), every), len(self.asked) - 1}
        seen_at = [(self.asked[k], self.sums[k]) for k in sorted(kept)]
        h, pooled = len(self.sizes), sum(self.truth[1:], self.truth[0])
        rows = sum(self.sizes)
        guess = [pooled * fmpq(n, rows) for n in self.sizes]
        n_unknown = h * len(self.places) + len(self.rest)
        moved = arb_mat(n_unknown, 1)
        with ctx.workprec(400):
            for most in most_bits:
                held, right = self.before, self.before * moved * -1
                for at, seen in seen_at:
                    total, change, bits = self.line(guess, at)
                    k = len(bits)
                    units = [
                        MIXED_BITS if one == at.bits else SECOND_BITS for one in bits
                    ]
                    off = [
                        arb(int(one)) / arb(2) ** unit - now
                        for one, unit, now in zip(seen[:k], units, total, strict=True)
                    ]
                    few = [min(one, most) for one in bits]
                    one, turned = weighed(change, few, h)
                    held += one
                    right += turned * arb_mat(k, 1, off)
                found = [float(one) for one in held.solve(right).entries()]
                longest = max(map(abs, found[: h * len(self.places)]))
                step = [one / max(1.0, longest) for one in found]
                moved += arb_mat(n_unknown, 1, step)
                for j, (k, (a, b), size) in enumerate(self.steps()):
                    by = fmpq(round(step[j] * 2**60), 2**60) * size
                    guess[k][a, b] += by
                    guess[k][b, a] = guess[k][a, b]
        return self.means_of(guess)


def weighed(change, bits, h):
    """The information of some totals, each as good as h parties' rounding leaves it."""
    scaled = arb_mat(change.ncols(), change.nrows())
    for j in range(change.nrows()):
        for k in range(change.ncols()):
            scaled[k, j] = change[j, k] * arb(4) ** bits[j] * 12 / h
    return scaled * change, scaled


# Each bit of a unit several times, so that steps are short where totals bend.
SLOWLY = [bits for bits in range(-8, 22, 2) for _ in range(2)]


@pytest.mark.parametrize(
    ("h", "seed", "bits"),
    [
        (2, 3, SLOWLY),
        pytest.param(3, 3, SLOWLY, marks=pytest.mark.slow),
    ],
)
def test_of_few_parties_everything_with_a_random_column_is_solved_for(h, seed, bits):
    """Means of x and y, and those of x x and x y: from them a party's own slope."""
    run = Run(sloped(h, seed), SLOPES)
    assert run.left_open().max() < 1e-6
    off = (run.solved(bits) - run.means) / run.scatter
    assert np.abs(off).max() < 0.01


def test_more_unknowns_than_numbers_there_are_never():
    """Why parties are not counted by equations, but by what digits leave open."""
    run = Run(sloped(16), SLOPES)
    numbers = len(run.sums[0]) * len(run.sums)
    assert numbers > 3 * len(run.sizes) * len(run.places)


def test_eight_parties_do_not_hide_a_slope_nor_levels_that_differ_little():
    """Twins of what is refused now."""
    slopes = Run(sloped(8), SLOPES).left_open()
    assert np.median(slopes, axis=0).max() < 0.03
    levels = Run(sloped(8, spread=0.0, levels=0.2), INTERCEPTS).left_open()
    assert np.median(levels, axis=0).max() < 0.1


@pytest.mark.parametrize("levels", [0.2, 1.0])
def test_sixteen_parties_hide_levels_from_each_other(levels):
    open_ = Run(sloped(16, spread=0.0, levels=levels), INTERCEPTS).left_open()
    assert np.median(open_, axis=0).min() > 0.3
    # The smallest and the largest stand out, and that is said.
    assert 0.01 < open_.min() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.05, 0.4])
def test_eight_more_hide_slopes(spread):
    open_ = Run(sloped(24, spread=spread), SLOPES).left_open()
    assert np.median(open_, axis=0).min() > 0.3
    assert 0.01 < open_.min() < 0.5


def test_as_many_parties_are_asked_for():
    asked = [
        MixedJob.of(SCHEMA, formula="y ~ x", random=one).least_honest
        for one in (INTERCEPTS, SLOPES)
    ]
    assert asked == [16, 24]
