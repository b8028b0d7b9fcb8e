"""Exactness in three steps: the algebra, each decision, and the draws themselves."""

from fractions import Fraction
from functools import cache
from itertools import repeat
from math import gcd, inf

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from cases import each
from refusals import refused
from strategies import few, seeds
from veilsum.errors import NumericalError
from veilsum.masks.discrete_gaussian import (
    MARGIN,
    _accepted_gaussian_draws,
    _accepted_of_gaussian_batch,
    _decide_gaussian_proposal,
    _draw_gaussian_tails,
    _zero_bits_of_mask_stream,
    check_gaussian_deviation,
    discrete_gaussian,
    discrete_gaussian_rows,
    discrete_gaussians,
    exp_bounds_for_gaussian_draw,
    strips_of_discrete_gaussian,
)
from veilsum.masks.streams import Keystream, SeededStream
from veilsum.minimise.costs.bases import Quadratic

SMALL = [4, 5, 7, 8, 9, 15, 16, 40]
BIG = [2**52, 2**52 + 1, 2**53 - 1, 2**60, 2**67, 2**68, 3**40, 2**100]
BIG += [2**130, 2**131, 2**132, 2**132 + 1, 2**180]

# Every order of magnitude, and both sides of the powers of two.
deviations = st.one_of(
    st.integers(4, 300),
    st.integers(4, 2**180),
    st.builds(
        lambda power, step: 2**power + step, st.integers(3, 179), st.integers(-1, 1)
    ),
)


class Script:
    """A stream that says what it was told to, and no more."""

    def __init__(self, words):
        self.left = [int(word) for word in words]

    def words(self, count):
        assert len(self.left) >= count, "more words than the script has"
        said, self.left = self.left[:count], self.left[count:]
        return np.array(said, dtype=np.uint64)

    def normals(self, count):
        raise NotImplementedError


def seeded(seed):
    return SeededStream(np.random.default_rng(seed))


def weight(deviation, y):
    return mpmath.exp(-(mpmath.mpf(y) ** 2) / (2 * mpmath.mpf(deviation) ** 2))


@cache
def exact_law(deviation, radius=12):
    """P(y) for |y| <= radius S, by summing (what is beyond 12 S is below 1e-31)."""
    with mpmath.workdps(40):
        half = [weight(deviation, y) for y in range(int(radius * deviation) + 1)]
        total = 2 * mpmath.fsum(half) - 1
        half = [value / total for value in half]
        return [*half[:0:-1], *half]


def as_floats(law):
    """The law as float64 with its values of y."""
    radius = len(law) // 2
    return np.arange(-radius, radius + 1), np.array([float(p) for p in law])


# -- The algebra -----------------------------------------------------------------


def proposed(strips, k):
    """The probability that one proposal is one given y of strip k, by the text."""
    n_strips = len(strips.counts)
    width = 2**strips.shift
    if k < n_strips:
        chance = Fraction(strips.counts[k], 4096)
    else:
        chance = Fraction(1, 4096) / 2 ** ((k - n_strips) // 16 + 1) / 16
    return chance / width / 2


@few
@given(deviations)
def test_every_integer_has_the_same_constant(deviation):
    """Proposing times accepting is c e(y) / (8192 W): exactly, strip by strip."""
    strips = strips_of_discrete_gaussian(deviation)
    constant = Fraction(strips.unit, 8192 * 2**strips.shift)
    for k in range(len(strips.counts) + 200):
        assert proposed(strips, k) * strips.weight(k) == constant


@few
@given(deviations)
def test_no_probability_of_acceptance_exceeds_one(deviation):
    """At the start of a strip, where it is largest; and on the tail, to G = 60."""
    strips = strips_of_discrete_gaussian(deviation)
    with mpmath.workdps(50):
        for k in range(len(strips.counts) + 16 * 60):
            factor = strips.weight(k)
            e = weight(deviation, k << strips.shift)
            assert factor.numerator * e <= factor.denominator


@few
@given(deviations)
def test_the_entries_are_those_of_the_algebra(deviation):
    strips = strips_of_discrete_gaussian(deviation)
    found = np.bincount(strips.entries)
    assert found.tolist() == [*strips.counts, 1]
    assert found.sum() == 4096


@few
@given(deviations)
def test_strips_are_powers_of_two_near_an_eighth_of_the_deviation(deviation):
    width = 2 ** strips_of_discrete_gaussian(deviation).shift
    assert width <= max(1, deviation / 8)
    assert 16 * width > deviation


@given(deviations)
def test_few_proposals_are_rejected(deviation):
    """The rate is c sum e / (8192 W), and the sum is S sqrt(2 pi) from S = 4 on."""
    strips = strips_of_discrete_gaussian(deviation)
    rate = strips.unit * deviation * np.sqrt(2 * np.pi) / (8192 * 2**strips.shift)
    assert 0.9 < rate < 1


@pytest.mark.parametrize("deviation", [4, 5, 7, 16])
def test_the_law_of_the_algebra_is_the_discrete_gaussian(deviation):
    """Sum the paths to every y within 12 S, to 40 digits, and normalise."""
    strips = strips_of_discrete_gaussian(deviation)
    radius = 12 * deviation
    with mpmath.workdps(40):
        paths = []
        for y in range(-radius, radius + 1):
            k = abs(y) >> strips.shift
            factor = proposed(strips, k) * strips.weight(k)
            path = factor.numerator * weight(deviation, y) / factor.denominator
            # Zero is proposed with either sign, and one of them is rejected.
            paths.append(path)
        total = mpmath.fsum(paths)
        pairs = zip(paths, exact_law(deviation), strict=True)
        assert max(abs(path / total / p - 1) for path, p in pairs) < 1e-36


@given(deviations, st.integers(0, 10**4), st.integers(20, 60))
def test_bounds_of_exp_hold_and_are_close(deviation, hundredths, digits):
    y = deviation * hundredths // 100
    lower, upper = exp_bounds_for_gaussian_draw(deviation, y, digits)
    with mpmath.workdps(100):
        e = weight(deviation, y)
        assert lower.numerator <= e * lower.denominator
        assert e * upper.denominator <= upper.numerator
    # The exponent, at most 5000, is itself rounded.
    assert upper - lower <= upper * Fraction(10) ** (6 - digits)


# -- Each decision ---------------------------------------------------------------


def threshold(strips, k, y, bits=51):
    """floor(2^bits times the probability of acceptance), to 60 digits."""
    factor = strips.weight(k)
    with mpmath.workdps(60):
        chance = factor.numerator * weight(strips.deviation, y) / factor.denominator
        return int(mpmath.floor(chance * 2**bits))


def first_words(strips, k, *, start, negative=0):
    entry = int(np.searchsorted(strips.entries, k))
    return entry | negative << 12 | start << 13


def verdict(deviation, y, start, margin):
    """Whether a scripted proposal of y is returned."""
    strips = strips_of_discrete_gaussian(deviation)
    k = abs(y) >> strips.shift
    first = first_words(strips, k, start=start, negative=int(y < 0))
    within = abs(y) & (1 << strips.shift) - 1
    words = [first]
    if strips.n_words > 1:
        n_low = strips.n_words - 1
        placed = within << (64 * n_low - strips.shift)
        words += [placed >> 64 * k & 2**64 - 1 for k in reversed(range(n_low))]
    # Within rounding of a threshold U goes on in the middle of its interval.
    words += [1 << 63] * 2
    found = _accepted_of_gaussian_batch(Script(words), strips, 1, margin).tolist()
    assert found in ([], [y])
    return bool(found)


@each("deviation", SMALL)
def test_every_proposal_is_accepted_up_to_its_probability(deviation):
    """All y on strips: U just below 2^-51 floor(2^51 p) is accepted, above is not.

    With the margin of the package and with none: float64 alone is right at 2^-43.
    """
    strips = strips_of_discrete_gaussian(deviation)
    for y in range(1, len(strips.counts) << strips.shift):
        edge = threshold(strips, y >> strips.shift, y)
        for sign in (1, -1):
            for gap, margin in ((1, MARGIN), (2**12, MARGIN), (2**8, 0.0)):
                if edge >= gap:
                    assert verdict(deviation, sign * y, edge - gap, margin)
                if edge + gap < 2**51:
                    assert not verdict(deviation, sign * y, edge + gap, margin)


@given(deviations, st.data())
def test_decisions_are_right_at_every_deviation(deviation, data):
    strips = strips_of_discrete_gaussian(deviation)
    y = data.draw(st.integers(1, (len(strips.counts) << strips.shift) - 1))
    edge = threshold(strips, y >> strips.shift, y)
    for gap, margin in ((1, MARGIN), (2**12, MARGIN), (2**8, 0.0), (1, inf)):
        assert edge < gap or verdict(deviation, y, edge - gap, margin)
        assert edge + gap >= 2**51 or not verdict(deviation, y, edge + gap, margin)


@pytest.mark.parametrize("deviation", [4, 16, 2**20, 2**60, 2**100, 2**180])
def test_zero_is_returned_once(deviation):
    """Plus zero is accepted up to c / N_0, minus zero never; plus one either way."""
    strips = strips_of_discrete_gaussian(deviation)
    edge = 2**51 * strips.unit // strips.counts[0]
    assert verdict(deviation, 0, edge - 1, MARGIN)
    if edge < 2**51:
        assert not verdict(deviation, 0, edge + 1, MARGIN)
    assert verdict(deviation, 1, 0, MARGIN)
    assert verdict(deviation, -1, 0, MARGIN)
    minus = [first_words(strips, 0, start=0, negative=1), *[0] * (strips.n_words - 1)]
    assert _accepted_of_gaussian_batch(Script(minus), strips, 1, MARGIN).size == 0


@each("deviation", [4, 5, 1000, 2**20, 2**52, 2**60, 2**100, 2**180])
def test_the_slow_path_draws_what_the_fast_path_draws(deviation):
    """Further words are drawn when 51 bits do not decide: probability 2^-50 each."""
    strips = strips_of_discrete_gaussian(deviation)
    fast = _accepted_gaussian_draws(seeded(deviation), strips, 400, margin=MARGIN)
    slow = _accepted_gaussian_draws(seeded(deviation), strips, 400, margin=inf)
    assert fast.tolist() == slow.tolist()


@given(deviations, st.data())
def test_u_is_extended_until_it_is_decided(deviation, data):
    """U = edge 2^-115 plus or minus a unit, of which only the first bits are known."""
    strips = strips_of_discrete_gaussian(deviation)
    k = data.draw(st.integers(1, len(strips.counts) + 20))
    y = (k << strips.shift) + data.draw(st.integers(0, 2**strips.shift - 1))
    edge = threshold(strips, k, y, bits=115)
    known = data.draw(st.sampled_from([51, 115]))
    for u, below in ((edge - 1, True), (edge + 1, False)):
        if 0 <= u < 2**115:
            further = iter([u & 2**64 - 1][: (115 - known) // 64])
            found = _decide_gaussian_proposal(
                strips, k, y, u >> (115 - known), known, further
            )
            assert found is below


@pytest.mark.parametrize(("word", "below"), [(0, True), (2**64 - 1, False)])
def test_at_the_edge_itself_a_further_word_decides(word, below):
    """51 bits equal those of the probability: what follows them is compared."""
    strips = strips_of_discrete_gaussian(1000)
    edge = threshold(strips, 3, 200)
    further = Script([word])
    found = _decide_gaussian_proposal(
        strips, 3, 200, edge, 51, (int(further.words(1)[0]) for _ in "a")
    )
    assert found is below
    assert further.left == []


def test_an_undecided_batch_takes_further_words_from_the_stream():
    strips = strips_of_discrete_gaussian(4)
    edge = threshold(strips, 2, 2)
    first = first_words(strips, 2, start=edge)
    assert _accepted_of_gaussian_batch(
        Script([first, 0]), strips, 1, MARGIN
    ).tolist() == [2]
    assert (
        _accepted_of_gaussian_batch(
            Script([first, 2**64 - 1]), strips, 1, MARGIN
        ).tolist()
        == []
    )


# -- The tail --------------------------------------------------------------------


def test_zero_bits_are_counted_across_words():
    assert _zero_bits_of_mask_stream(Script([]), 1) == 0
    assert _zero_bits_of_mask_stream(Script([]), 2**63) == 63
    assert _zero_bits_of_mask_stream(Script([0, 0, 8]), 0) == 64 * 3 + 3


@each("deviation", [16, 1000, 2**60, 2**100, 2**180])
@each(("zeros", "row"), [(0, 0), (0, 15), (2, 5), (9, 3), (70, 1)])
def test_the_tail_reaches_far_and_decides_exactly(deviation, zeros, row):
    """U = 0 is not decided at once: many zero words accept, one large word rejects."""
    strips = strips_of_discrete_gaussian(deviation)
    k = len(strips.counts) + 16 * zeros + row
    entry = [4095, *repeat(0, strips.n_words - 1)]
    steps = [0, row, 2 ** (zeros - 64)] if zeros > 63 else [2**zeros, row]
    # exp(-x) is about 2^(-1.44 x): so many words of zeros settle it.
    enough = int(k**2 * 1.45 / 2 * (2**strips.shift / deviation) ** 2 / 64) + 2
    script = Script([*entry, *steps, *repeat(0, enough)])
    assert _accepted_of_gaussian_batch(script, strips, 1, MARGIN).tolist() == [
        k << strips.shift
    ]
    script = Script([entry[0] | 2**63, *entry[1:], *steps, 2**64 - 1])
    assert _accepted_of_gaussian_batch(script, strips, 1, MARGIN).size == 0


@each("deviation", [4, 1000, 2**60])
@each("k", [0, 1, 15, 16, 17, 40, 100, 127])
def test_tail_decisions_are_right_in_float64_too(deviation, k):
    strips = strips_of_discrete_gaussian(deviation)
    beyond = len(strips.counts) + k
    edge = threshold(strips, beyond, beyond << strips.shift)
    steps = [2 ** (k // 16), k % 16]
    rest = list(repeat(0, strips.n_words - 1))
    for gap, margin in ((2**8, 0.0), (2**12, MARGIN), (1, MARGIN), (1, inf)):
        for u, expected in ((edge + gap, 0), (edge - gap, 1)):
            if u >= 0:
                words = [4095 | u << 13, *rest, *steps]
                assert (
                    _accepted_of_gaussian_batch(Script(words), strips, 1, margin).size
                    == expected
                )


def test_a_proposal_beyond_int64_is_an_error_and_does_not_wrap():
    """G = 512 at S = 2^52: the strip begins beyond 2^62."""
    words = [4095, 0, *repeat(0, 10), 1]
    with refused("internal", NumericalError):
        _accepted_of_gaussian_batch(
            Script(words), strips_of_discrete_gaussian(2**52), 1, MARGIN
        )


def test_a_proposal_just_within_int64_is_decided():
    """G = 500 at S = 2^52, with U not zero: rejected, not an error."""
    words = [4095 | 2**63, 0, 0, 0, *repeat(0, 6), 2**52]
    assert (
        _accepted_of_gaussian_batch(
            Script(words), strips_of_discrete_gaussian(2**52), 1, MARGIN
        ).size
        == 0
    )


@pytest.mark.statistical
def test_tail_strips_are_geometric_rows_of_sixteen():
    """60,000 tails, seed 0: chi-square of G (pooled from 12) and of r.

    False-alarm rate 2e-6.
    """
    strips = strips_of_discrete_gaussian(16)
    start = len(strips.counts)
    found = np.full(60_000, start)
    _draw_gaussian_tails(seeded(0), strips, found)
    geometric, row = np.divmod(found - start, 16)
    counts = np.bincount(np.minimum(geometric, 12), minlength=13)
    chances = [*(0.5 ** (g + 1) for g in range(12)), 0.5**12]
    assert stats.chisquare(counts, 60_000 * np.array(chances)).pvalue > 1e-6
    assert stats.chisquare(np.bincount(row)).pvalue > 1e-6


class OnlyTails:
    """A stream whose next batch proposes nothing but the tail."""

    def __init__(self, stream, size):
        self.stream, self.size = stream, size

    def words(self, count):
        words = self.stream.words(count)
        words[: self.size] |= np.uint64(4095)
        self.size = 0
        return words

    def normals(self, count):
        raise NotImplementedError


@pytest.mark.statistical
@pytest.mark.parametrize("deviation", [4, 7, 16])
def test_draws_from_the_tail_have_the_law_of_the_tail(deviation):
    """60,000 tails, seed 1: chi-square of |y| given |y| >= K W, and of the signs.

    False-alarm rate 2e-6 for each deviation.
    """
    strips = strips_of_discrete_gaussian(deviation)
    start = len(strips.counts) << strips.shift
    size = 60_000
    found = _accepted_of_gaussian_batch(
        OnlyTails(seeded(1), size), strips, size, MARGIN
    )
    assert abs(found).min() == start
    tail = [
        float(weight(deviation, y) / weight(deviation, start))
        for y in range(start, 300)
    ]
    chances = np.array(tail) / sum(tail)
    counts = np.bincount(abs(found) - start, minlength=len(tail))
    assert pooled_chisquare(counts, chances) > 1e-6
    assert stats.binomtest(int((found > 0).sum()), found.size).pvalue > 1e-6


# -- The draws -------------------------------------------------------------------


def pooled_chisquare(counts, chances, least=20):
    """The p-value, where cells of few expected draws are put together."""
    expected = chances * counts.sum()
    common = expected >= least
    seen = np.append(counts[common], counts[~common].sum())
    meant = np.append(expected[common], expected[~common].sum())
    return stats.chisquare(seen, meant * seen.sum() / meant.sum()).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("deviation", [4, 5, 7, 16, 1000])
def test_draws_have_the_exact_law(deviation):
    """500,000 draws, seed 2: chi-square on single integers. False alarms: 1e-6."""
    values, chances = as_floats(exact_law(deviation))
    draws = discrete_gaussian(seeded(2), deviation, 500_000)
    counts = np.bincount(draws - values[0], minlength=values.size)
    assert counts.size == values.size
    assert pooled_chisquare(counts, chances) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("deviation", [4, 16, 1000])
def test_draws_have_the_exact_moments(deviation):
    """500,000 draws, seed 3: mean, variance and fourth moment within 5 errors.

    False-alarm rate 2e-6 for each deviation.
    """
    size = 500_000
    draws = discrete_gaussian(seeded(3), deviation, size).astype(float)
    values, chances = as_floats(exact_law(deviation))
    moment = {n: float(chances @ values.astype(float) ** n) for n in (1, 2, 4, 8)}
    for n in (1, 2, 4):
        error = np.sqrt((moment[2 * n] - moment[n] ** 2) / size)
        assert abs((draws**n).mean() - moment[n]) < 5 * error


@pytest.mark.statistical
@pytest.mark.parametrize("times", [3, 4, 5])
def test_far_draws_are_as_frequent_as_they_should_be(times):
    """4,000,000 draws of S = 1000, seed 4: a binomial test of |y| > 3, 4, 5 S.

    False-alarm rate 1e-6 each.
    """
    values, chances = as_floats(exact_law(1000))
    beyond = float(chances[abs(values) > times * 1000].sum())
    draws = discrete_gaussian(seeded(4), 1000, 4_000_000)
    far = int((abs(draws) > times * 1000).sum())
    assert stats.binomtest(far, draws.size, beyond).pvalue > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("deviation", [2**20, 2**52, 2**60, 2**68 - 1, 2**100, 2**180])
def test_large_deviations_have_a_normal_shape_and_uniform_low_bits(deviation):
    """40,000 draws, seed 5: Kolmogorov-Smirnov and four digits of base 16.

    The discrete law is within 1e-6 of the normal one. False alarms: 5e-6 for each.
    """
    draws = discrete_gaussian(seeded(5), deviation, 40_000)
    assert stats.kstest(draws.astype(float) / deviation, "norm").pvalue > 1e-6
    width = strips_of_discrete_gaussian(deviation).shift
    for place in {0, 4, width // 2, width - 4}:
        digits = np.array([y >> place & 15 for y in draws.tolist()])
        assert stats.chisquare(np.bincount(digits, minlength=16)).pvalue > 1e-6


@pytest.mark.parametrize("deviation", [2**60, 2**100, 2**180])
def test_large_deviations_leave_no_holes(deviation):
    """Differences have no common divisor, and no two of 2,000 draws are equal."""
    draws = discrete_gaussian(seeded(6), deviation, 2000).tolist()
    assert len(set(draws)) == len(draws)
    assert gcd(*(y - draws[0] for y in draws)) == 1


@each("deviation", [4, 1000, *BIG])
def test_draws_are_int64_while_they_fit_and_python_integers_beyond(deviation):
    draws = discrete_gaussian(Keystream.from_os(), deviation, 50)
    assert draws.shape == (50,)
    if deviation <= 2**52:
        assert draws.dtype == np.int64
    else:
        assert draws.dtype == object
        assert {type(y) for y in draws} == {int}
    assert max(abs(y) for y in draws.tolist()) < 20 * deviation


@given(deviations, seeds, st.integers(0, 40))
def test_a_stream_s_state_decides_the_draws(deviation, seed, count):
    one, two = (discrete_gaussian(seeded(seed), deviation, count) for _ in range(2))
    assert one.shape == (count,)
    assert one.tolist() == two.tolist()


def test_a_stream_goes_on_after_a_draw():
    stream = seeded(7)
    one, two = (discrete_gaussian(stream, 2**40, 20) for _ in range(2))
    assert not np.isin(one, two).any()


def test_no_draws_take_no_words():
    assert discrete_gaussian(Script([]), 1000, 0).tolist() == []


def test_a_batch_of_rejections_is_followed_by_another():
    """Nine proposals of minus zero, then nine of one."""
    strips = strips_of_discrete_gaussian(4)
    nothing = first_words(strips, 0, start=0, negative=1)
    one = first_words(strips, 1, start=0)
    script = Script([*repeat(nothing, 9), *repeat(one, 9)])
    assert discrete_gaussian(script, 4, 1).tolist() == [1]


def test_many_draws_come_in_several_batches():
    draws = discrete_gaussian(seeded(8), 2**40, 50_000)
    assert np.unique(draws).size == 50_000


@pytest.mark.parametrize("deviation", [3, 0, -5])
def test_a_small_deviation_is_refused_with_what_to_change(deviation):
    with refused("deviation-too-small"):
        discrete_gaussian(seeded(0), deviation, 1)


def test_a_large_deviation_is_refused_with_what_to_change():
    with refused("deviation-too-large"):
        discrete_gaussian(seeded(0), 2**180 + 1, 1)


@pytest.mark.parametrize("deviation", [4.5, 16.0, "16", None, np.float64(8)])
def test_a_deviation_that_is_no_integer_is_refused(deviation):
    with refused("deviation-not-whole"):
        check_gaussian_deviation(deviation)


def test_integers_of_numpy_are_deviations():
    assert check_gaussian_deviation(np.int64(9)) == 9
    assert type(check_gaussian_deviation(np.uint64(2**60))) is int


def test_a_negative_count_is_refused():
    with refused("count-negative"):
        discrete_gaussian(seeded(0), 16, -1)


# -- What a shift of the law reveals ---------------------------------------------


def law_of(deviation, radius):
    with mpmath.workdps(40):
        weights = {y: weight(deviation, y) for y in range(-radius, radius + 1)}
        total = mpmath.fsum(weights.values())
        return {y: w / total for y, w in weights.items()}


def difference(law):
    """The law of r - r' of two independent draws."""
    radius = max(law)
    with mpmath.workdps(40):
        return {
            c: mpmath.fsum(p * law[y - c] for y, p in law.items() if y - c in law)
            for c in range(-radius, radius + 1)
        }


def shift_divergence(law, shift):
    """KL of a law and itself moved by `shift`, over what both lists hold."""
    with mpmath.workdps(40):
        return mpmath.fsum(
            p * mpmath.log(p / law[y - shift])
            for y, p in law.items()
            if y - shift in law
        )


@each("deviation", [1, 4, 7])
@each("shift", [1, 2, 5])
def test_a_shifted_law_diverges_as_the_continuous_one(deviation, shift):
    """KL(N_Z(0, S^2), N_Z(f, S^2)) = f^2 / (2 S^2) for integers f, exactly."""
    found = shift_divergence(law_of(deviation, 14 * deviation + 10), shift)
    assert float(found) == pytest.approx(shift**2 / (2 * deviation**2), rel=1e-14)


@pytest.mark.parametrize(
    ("deviation", "expected", "digits"),
    [(1, 0.2500000428, 10), (2, 0.0625000000, 10), (0.5, 1.113, 3)],
)
def test_edge_noise_diverges_a_little_more_than_the_continuous_one(
    deviation, expected, digits
):
    """r - r' is no discrete Gaussian: about 1 / (4 S^2), far from it only below 1."""
    found = shift_divergence(difference(law_of(deviation, 60)), 1)
    assert float(found) == pytest.approx(expected, abs=0.6 * 10**-digits)
    assert found > mpmath.mpf(1) / (4 * mpmath.mpf(deviation) ** 2)


def test_from_the_least_deviation_on_the_excess_is_nothing():
    """At S = 4 the divergence of edge noise is 1 / 64 to 30 digits."""
    found = shift_divergence(difference(law_of(4, 120)), 1)
    assert abs(found - mpmath.mpf(1) / 64) < 1e-30


# Several deviations


class Counted(SeededStream):
    """A stream that counts its calls."""

    calls = 0

    def words(self, count):
        type(self).calls += 1
        return super().words(count)


def in_turn(stream, runs):
    return np.concatenate([discrete_gaussian(stream, *run) for run in runs])


@pytest.mark.parametrize("seed", range(4))
def test_short_runs_drawn_at_once_are_those_drawn_in_turn(seed):
    """Bit for bit, and both streams stand at the same word afterwards.

    Runs of up to 60 draws: in most cases some proposal is on the tail, and in some a
    batch has too few draws. Deviations below 16 and of 2^60 are drawn in turn.
    """
    rng = np.random.default_rng(seed)
    known = [4, 16, 17, 1000, 2**30, 2**51, 2**60][: 5 + 2 * (seed % 2)]
    for _ in range(20):
        kinds = rng.choice(len(known), size=rng.integers(1, 40))
        runs = tuple((known[k], int(rng.integers(1, 61))) for k in kinds)
        one, other = (SeededStream(np.random.default_rng(seed)) for _ in range(2))
        found = discrete_gaussians(one, runs)
        assert (found == in_turn(other, runs)).all()
        assert (one.words(3) == other.words(3)).all()


@pytest.mark.parametrize("runs", [((2**20, 3),), ((1000, 2), (1414, 5)), ((5, 4),)])
def test_rows_of_many_streams_are_those_that_each_stream_gives_alone(runs):
    """Every row: about ten of them need the tail or more than one batch."""
    one, other = (
        [SeededStream(np.random.default_rng(seed)) for seed in range(1_000)]
        for _ in range(2)
    )
    rows = [discrete_gaussians(stream, runs) for stream in other]
    assert (discrete_gaussian_rows(one, runs) == np.stack(rows)).all()


@pytest.mark.parametrize("seed", range(2))
def test_a_share_of_a_quadratic_is_drawn_in_few_batches(seed):
    """Its coefficients alternate between two widths: a hundred runs."""
    widths = Quadratic(50).widths
    changes = np.flatnonzero(np.diff(widths)) + 1
    parts = np.split(widths, changes)
    runs = tuple((int(np.ceil(part[0] * 2**50)), len(part)) for part in parts)
    assert len(runs) == 100
    Counted.calls = 0
    one = discrete_gaussians(Counted(np.random.default_rng(seed)), runs)
    assert Counted.calls < 20
    assert (one == in_turn(SeededStream(np.random.default_rng(seed)), runs)).all()
