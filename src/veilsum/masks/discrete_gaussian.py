"""Exact draws of the discrete Gaussian on Z: P(y) proportional to e(y).

e(y) = exp(-y^2 / (2 S^2)), with an integer deviation S. "Exact" means: if the words are
uniform, then the law of the draws is this one and not an approximation of it.

Write W = 2^w for the largest power of two with W <= max(1, S/8), so that W > S/16, and
f_k = e(k W). A proposal is y = +-(k W + j):

1.  Twelve bits of a word choose one of 4096 entries. Strip k < K has N_k >= c f_k of
    them, and one entry is the tail: there k = K + 16 G + r with P(G) = 2^-(G+1) and r
    uniform below 16. K is the first strip with 2^17 f_K <= 1.
2.  w further bits are j, and one bit is the sign. Minus zero is rejected.
3.  y is accepted when U < c e(y) / N_k, on the tail when U < 2^(G+5) c e(y).

Proof. Both right-hand sides are at most 1. On strip k this is N_k >= c f_k and
|y| >= k W. On the tail, N_0 >= c gives c < 2^12, so the side is at most 2^(17+G) f_k,
which falls with r, and with G as well: from G to G + 1 the factor f_k shrinks by
exp(-(W/S)^2 (16 (K + 16 G) + 128)) < exp(-16 (W/S) (K W/S)) < exp(-4.8) < 1/2, because
K W/S >= sqrt(34 log 2) > 4.8. So G = r = 0 is the worst case, and there it is
2^17 f_K <= 1. Hence every y is returned with probability

    N_k/4096 * 1/W * 1/2 * c e(y)/N_k  =  c e(y) / (8192 W),

and on the tail 1/4096 * 2^-(G+1)/16 * 1/W * 1/2 * 2^(G+5) c e(y) is the same. Zero
has one sign left, as every other y. Repeating until acceptance gives P(y).

U is drawn lazily. Its first 51 bits are compared with the right-hand side in float64.
That side times its exponent x = y^2 / (2 S^2) is at most 14: x <= 14 on the strips, and
2^(17+G) x exp(-x) is largest at K on the tail. The relative error of x is below 2^-49
and all other errors are a few units of 2^-52, so the side is wrong by less than 2^-44.
Within 2^-40 of equality the comparison is made anew between an interval of U and one of
exp in decimal arithmetic, and both are narrowed until they are apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, nan, sqrt
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.masks.streams import Stream, Words, check_random_word_count
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Bool, Float, Int64, Shaped

Verdicts: TypeAlias = Bool[Array[np.bool_], " size"]
Integers: TypeAlias = Int64[Array[np.int64], " size"]
Draws: TypeAlias = Shaped[Array[Any], " size"]  # int64, or Python integers
Runs: TypeAlias = tuple[tuple[int, int], ...]  # deviation and count of each
LowWords: TypeAlias = Shaped[Array[np.uint64], "rows size"]

# The most is what units of a hundred bits, and masks beyond all totals, may need.
MOST_DEVIATION_BITS = 180
LEAST_DEVIATION, MOST_DEVIATION = 4, 2**MOST_DEVIATION_BITS
MOST_INT64_DRAW = 2**62
ENTRIES = 2**12
U_BITS = 51  # bits of U in a first word
TAIL_ROW = 16
MOST_INT64_DEVIATION = 2**52

# Float64 decides beyond this distance from equality; in units of 2^-51, so 2^-40.
MARGIN = 2.0 ** (U_BITS - 40)

# A first word is, from below: entry, sign, the first bits of U.
_ENTRY_MASK = np.uint64(ENTRIES - 1)
_SIGN_SHIFT, _SIGN_MASK = np.uint64(12), np.uint64(1)
_U_SHIFT = np.uint64(64 - U_BITS)

# The arrays of one batch fit into a second-level cache together.
_BATCH = 2**14
# Streams whose rows are drawn together.
_ROWS = 2**8
# So many draws are always tried in one batch.
MOST_AT_ONCE = 2**13


# Of a strip's w bits so many go into float64; what they leave out is below 2^-50 of it.
_TOP_BITS = 50
# Beyond these tail strips a weight is not kept in float64: decimal decides.
_TAIL_FLOATS = 8 * TAIL_ROW
_TABLE_BITS = 64
_TABLE_DIGITS = 40


def discrete_gaussian(stream: Stream, deviation: int, count: int) -> Draws:
    """Return `count` exact draws of the discrete Gaussian N_Z(0, S^2).

    Args:
        stream: where the uniform words come from.
        deviation: S, in steps of the grid.
        count: how many draws.

    Returns:
        int64 for S up to 2^52, Python integers in an object array beyond.

    Raises:
        InvalidInputError: a deviation that is no integer from 4 to 2^180.
        NumericalError: a proposal beyond 2^62 where draws are int64, which is more
            than 1000 S; uniform words never come there.

    >>> from veilsum.masks.streams import SeededStream
    >>> stream = SeededStream(np.random.default_rng(1))
    >>> discrete_gaussian(stream, 1000, 4).dtype
    dtype('int64')
    """
    check_random_word_count(count)
    return _accepted_gaussian_draws(
        stream,
        strips_of_discrete_gaussian(check_gaussian_deviation(deviation)),
        count,
        margin=MARGIN,
    )


def discrete_gaussians(stream: Stream, runs: Runs) -> Draws:
    """Return draws of several deviations, the very ones of `discrete_gaussian` in turn.

    Many short runs are drawn at once: a batch of each, of which nearly all suffice.

    Args:
        stream: where the uniform words come from.
        runs: deviation and count of each run, in order.

    >>> from veilsum.masks.streams import SeededStream
    >>> stream = SeededStream(np.random.default_rng(1))
    >>> discrete_gaussians(stream, ((1000, 2), (1414, 1), (1000, 1))).shape
    (4,)
    """
    plan = _gaussian_proposal_batches(runs)
    if plan is None:
        return np.concatenate([discrete_gaussian(stream, *run) for run in runs])
    parts, run, ahead = [], 0, _ReadAheadStream(stream, np.empty(0, dtype=np.uint64))
    while run < len(runs):
        words = ahead.words(int(plan.words[-1] - plan.words[run]))
        drawn, stop = plan.draws(words, run)
        parts.append(drawn)
        ahead.back = words[plan.words[stop] - plan.words[run] :]
        if stop < len(runs):
            # On the tail, unsure or too few: words beyond the batch are needed.
            deviation, count = runs[stop]
            parts.append(discrete_gaussian(ahead, deviation, count))
        run = stop + 1
    return np.concatenate(parts)


def discrete_gaussian_rows(
    streams: Sequence[Stream], runs: Runs
) -> Shaped[Array[Any], "rows size"]:
    """Return a row of draws for each stream, the very ones of `discrete_gaussians`.

    Args:
        streams: fresh streams, from each of which nothing else is drawn.
        runs: deviation and count of each run of a row, in order.
    """
    rows: list[Draws] = []
    for start in range(0, len(streams), _ROWS):
        rows += _gaussian_draws_of_streams(streams[start : start + _ROWS], runs)
    size = sum(count for _, count in runs)
    return np.concatenate(rows).reshape(len(streams), size)


def _gaussian_draws_of_streams(
    streams: Sequence[Stream], runs: Runs
) -> Iterator[Draws]:
    """Yield the draws of a few streams, one row or several together."""
    plan, each = _gaussian_proposal_batches(runs * len(streams)), len(runs)
    if plan is None:
        for stream in streams:
            yield discrete_gaussians(stream, runs)
        return
    ends, row = plan.words[::each], 0
    words = [stream.words(int(ends[1])) for stream in streams]
    size = sum(count for _, count in runs)
    while row < len(streams):
        drawn, stop = plan.draws(np.concatenate(words[row:]), row * each)
        short = stop // each
        yield drawn[: (short - row) * size]
        if short < len(streams):
            yield discrete_gaussians(
                _ReadAheadStream(streams[short], words[short]), runs
            )
        row = short + 1


@dataclass(eq=False, repr=False)
class _ReadAheadStream(Secret):
    """A stream of which some words were read ahead and are handed out first."""

    stream: Stream
    back: Words

    def words(self, count: int) -> Words:
        first, self.back = self.back[:count], self.back[count:]
        if len(first) == count:
            return first
        return np.concatenate([first, self.stream.words(count - len(first))])

    def normals(self, count: int) -> Vector:
        """Refuse: nobody draws them here."""
        raise NotImplementedError(f"{count} normals")


@dataclass(frozen=True, eq=False)
class _ProposalBatches:
    """One batch of proposals for each run, side by side.

    Attributes:
        counts: draws of each run.
        words: where the words of each run begin; the last is where they end.
        starts: where the proposals of each run begin; the last is where they end.
        run: of each proposal.
        first: where its first word is.
        low: where its second word is.
        entry: where the table of its deviation begins in `entries`.
        entries: the strips of every entry, one deviation after the other.
        weight: where the weights of its deviation begin in `weights`.
        weights: of all strips, one deviation after the other.
        tail: the strip that stands for the tail.
        bits: those of its position within a strip.
        slope: what turns a position into |y| / (S sqrt 2).
    """

    counts: Int64[Array[np.int64], " runs"]
    words: Int64[Array[np.int64], " ends"]
    starts: Int64[Array[np.int64], " ends"]
    run: Integers
    first: Integers
    low: Integers
    entry: Integers
    entries: Int64[Array[np.int64], " entries"]
    weight: Integers
    weights: Float[Array[np.float64], " weights"]
    tail: Integers
    bits: Integers
    slope: Float[Array[np.float64], " size"]

    def draws(self, words: Words, run: int) -> tuple[Draws, int]:
        """Return the draws from some run on, and the first run that needs more words.

        The steps are those of `_accepted_of_gaussian_batch`, number by number.
        """
        here = slice(int(self.starts[run]), None)
        first = words.take(self.first[here] - self.words[run])
        low = words.take(self.low[here] - self.words[run])
        bits, starts = self.bits[here], self.starts[run:] - self.starts[run]
        entry = (first & _ENTRY_MASK).view(np.int64)
        strip = self.entries.take(self.entry[here] + entry)
        top = low >> (64 - bits).view(np.uint64)
        position = (strip << bits) + top.view(np.int64)
        root = position * self.slope[here]
        chance = np.exp(-root * root) * self.weights.take(self.weight[here] + strip)
        excess = _first_bits_of_mask_stream(first) - chance
        accepted = excess < -MARGIN
        unsure = (strip == self.tail[here]) | ~(accepted | (excess > MARGIN))
        negative = (first >> _SIGN_SHIFT & _SIGN_MASK).view(np.int64)
        accepted &= position >= negative
        ranks = np.concatenate([[0], np.cumsum(accepted)])
        short = np.diff(ranks[starts]) < self.counts[run:]
        short[self.run[here][unsure] - run] = True
        done = int(np.argmax(short)) if short.any() else len(short)
        end = starts[done]
        within = ranks[1 : end + 1] - ranks[starts].take(self.run[here][:end] - run)
        kept = accepted[:end] & (within <= self.counts.take(self.run[here][:end]))
        signed = position[:end] * (1 - 2 * negative[:end])
        return signed[kept], run + done


@lru_cache(maxsize=64)
def _gaussian_proposal_batches(
    runs: tuple[tuple[int, int], ...],
) -> _ProposalBatches | None:
    """Return the batches of short runs; None where they are better drawn in turn."""
    kinds = [
        strips_of_discrete_gaussian(check_gaussian_deviation(deviation))
        for deviation, _ in runs
    ]
    alike = all(strips.small and strips.n_words == 2 for strips in kinds)
    if len(runs) < 2 or not alike or not all(1 <= n <= MOST_AT_ONCE for _, n in runs):
        return None
    sizes = np.array([count_gaussian_proposals(count) for _, count in runs])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    run = np.repeat(np.arange(len(runs)), sizes)
    first = np.arange(starts[-1]) + starts[run]  # two words for each proposal before
    known = list(dict.fromkeys(kinds))
    ends = np.cumsum([0, *(len(strips.weights) for strips in known)])
    place = {strips: k for k, strips in enumerate(known)}
    kind = np.array([place[strips] for strips in kinds])[run]
    return _ProposalBatches(
        counts=np.array([count for _, count in runs]),
        words=2 * starts,
        starts=starts,
        run=run,
        first=first,
        low=first + sizes[run],
        entry=ENTRIES * kind,
        entries=np.concatenate([strips.entries for strips in known]),
        weight=ends[kind],
        weights=np.concatenate([strips.weights for strips in known]),
        tail=np.array([len(strips.counts) for strips in known])[kind],
        bits=np.array([strips.top_bits for strips in known])[kind],
        slope=np.array([strips.slope for strips in known])[kind],
    )


def check_gaussian_deviation(deviation: object) -> int:
    """Return S as an int; refuse what is no integer from 4 to 2^180."""
    if not isinstance(deviation, (int, np.integer)):
        raise InvalidInputError(
            f"the deviation must be a whole number of grid steps, found {deviation!r}; "
            "take a grid that sigma is a multiple of",
            code="deviation-not-whole",
        )
    if deviation < LEAST_DEVIATION:
        raise InvalidInputError(
            f"the deviation must be at least {LEAST_DEVIATION} grid steps, found "
            f"{deviation}; "
            "take a finer grid or a larger sigma",
            code="deviation-too-small",
        )
    if deviation > MOST_DEVIATION:
        raise InvalidInputError(
            f"the deviation must be at most 2^{MOST_DEVIATION_BITS} grid steps, found "
            f"{deviation}; take a coarser grid or a smaller sigma",
            code="deviation-too-large",
        )
    return int(deviation)


def _accepted_gaussian_draws(
    stream: Stream, strips: DiscreteGaussianStrips, count: int, *, margin: float
) -> Draws:
    """Return the first `count` accepted proposals."""
    found = np.empty(count, dtype=np.int64 if strips.small else object)
    filled = 0
    while (left := count - filled) > 0:
        batch = _accepted_of_gaussian_batch(
            stream, strips, count_gaussian_proposals(left), margin
        )[:left]
        found[filled : filled + len(batch)] = batch
        filled += len(batch)
    return found


def count_gaussian_proposals(count: int) -> int:
    """Return how many proposals are made at once for so many draws.

    Fewer than one in ten is rejected: one batch nearly always does.
    """
    return min(_BATCH, count + count // 8 + 8)


def _accepted_of_gaussian_batch(
    stream: Stream, strips: DiscreteGaussianStrips, size: int, margin: float
) -> Draws:
    """Return what is accepted of `size` proposals, in order."""
    words = stream.words(strips.n_words * size).reshape(strips.n_words, size)
    first, low = words[0], words[1:]
    strip = strips.entries.take((first & _ENTRY_MASK).view(np.int64))
    _draw_gaussian_tails(stream, strips, strip)
    position = strips.positions(strip, low)
    magnitude = position if strips.small else strips.magnitudes(strip, low)
    excess = _first_bits_of_mask_stream(first) - strips.chances(strip, position)
    accepted = excess < -margin
    _settle_gaussian_proposals(
        stream, strips, accepted, excess > margin, first, strip, magnitude
    )
    negative = (first >> _SIGN_SHIFT & _SIGN_MASK).view(np.int64)
    # This is what rejects minus zero.
    accepted &= magnitude >= negative
    return (magnitude * (1 - 2 * negative))[accepted]


def _first_bits_of_mask_stream(first: Words) -> Integers:
    return (first >> _U_SHIFT).view(np.int64)


def _draw_gaussian_tails(
    stream: Stream, strips: DiscreteGaussianStrips, strip: Integers
) -> None:
    """Replace every K by K + 16 G + r, in place."""
    start = len(strips.counts)
    tails = np.flatnonzero(strip == start)
    if not tails.size:
        return
    words = stream.words(2 * tails.size).tolist()
    for place, word, row in zip(tails.tolist(), words[::2], words[1::2], strict=True):
        strip[place] += (
            TAIL_ROW * _zero_bits_of_mask_stream(stream, word) + row % TAIL_ROW
        )
    beyond = int(strip[tails].max()) + 1
    if strips.small and beyond << strips.shift > MOST_INT64_DRAW:
        raise NumericalError(
            "a proposal lies more than 1000 standard deviations out, beyond int64: the "
            "random words cannot be uniform; please report it",
            code="internal",
        )


def _zero_bits_of_mask_stream(stream: Stream, word: int) -> int:
    """Return how many bits are 0 before the first 1: P(G) = 2^-(G+1)."""
    zeros = 0
    while not word:
        zeros += 64
        word = int(stream.words(1)[0])
    return zeros + (word & -word).bit_length() - 1


def _settle_gaussian_proposals(
    stream: Stream,
    strips: DiscreteGaussianStrips,
    accepted: Verdicts,
    rejected: Verdicts,
    first: Words,
    strip: Integers,
    magnitude: Draws,
) -> None:
    """Decide exactly, in place, what is neither accepted nor rejected in float64."""
    sure = accepted | rejected
    if sure.all():
        return
    start, further = (
        _first_bits_of_mask_stream(first),
        _further_words_of_mask_stream(stream),
    )
    for place in np.flatnonzero(~sure).tolist():
        k, y, u = int(strip[place]), int(magnitude[place]), int(start[place])
        accepted[place] = _decide_gaussian_proposal(strips, k, y, u, U_BITS, further)


def _further_words_of_mask_stream(stream: Stream) -> Iterator[int]:
    while True:
        yield int(stream.words(1)[0])


def _decide_gaussian_proposal(
    strips: DiscreteGaussianStrips,
    strip: int,
    y: int,
    start: int,
    bits: int,
    further: Iterator[int],
) -> bool:
    """Return whether U < weight e(y), where U begins with `bits` bits `start`."""
    weight = strips.weight(strip)
    while True:
        # Twenty digits more than U has: exp is then the narrower interval.
        digits = 20 + start.bit_length() // 3
        lower, upper = exp_bounds_for_gaussian_draw(strips.deviation, y, digits)
        if start + 1 <= weight * lower * 2**bits:
            return True
        if start >= weight * upper * 2**bits:
            return False
        start, bits = start << 64 | next(further), bits + 64


@dataclass(frozen=True, eq=False)
class DiscreteGaussianStrips:
    """The proposal of one deviation: S, w, c and N_k."""

    deviation: int
    shift: int
    unit: int
    counts: tuple[int, ...]

    @cached_property
    def small(self) -> bool:
        return self.deviation <= MOST_INT64_DEVIATION

    @cached_property
    def n_words(self) -> int:
        """Words of a proposal: the first, and those that hold j."""
        if self.small:
            return 2 if self.shift else 1
        return 3 if self.shift <= 128 else 4

    @cached_property
    def entries(self) -> Integers:
        """The strip of every entry; the last entry is the tail's, K."""
        return np.repeat(np.arange(len(self.counts) + 1), [*self.counts, 1])

    @cached_property
    def weights(self) -> Vector:
        """The weights in float64, in units of 2^-51; nan stands for all beyond."""
        known = range(len(self.counts) + _TAIL_FLOATS)
        return np.array([*(float(self.weight(k) * 2**U_BITS) for k in known), nan])

    @cached_property
    def top_bits(self) -> int:
        return min(self.shift, _TOP_BITS)

    @cached_property
    def slope(self) -> float:
        """Factor that turns a position into |y| / (S sqrt 2)."""
        return 2.0 ** (self.shift - self.top_bits) / (self.deviation * sqrt(2.0))

    def weight(self, strip: int) -> Fraction:
        """Return what multiplies e(y): c / N_k, on the tail 2^(G+5) c."""
        beyond = strip - len(self.counts)
        if beyond < 0:
            return Fraction(self.unit, self.counts[strip])
        return Fraction(self.unit << (5 + beyond // TAIL_ROW))

    def positions(self, strip: Integers, low: LowWords) -> Integers:
        """Return |y|, or for a large deviation its leading bits."""
        if not self.shift:
            return strip
        # Far out on the tail of a large deviation this wraps; there no weight is known.
        top = low[0] >> np.uint64(64 - self.top_bits)
        return (strip << self.top_bits) + top.view(np.int64)

    def chances(self, strip: Integers, position: Integers) -> Vector:
        """Return the probability of acceptance in float64, in units of 2^-51."""
        root = position * self.slope
        chance = np.exp(-root * root)
        chance *= self.weights.take(strip, mode="clip")
        return np.asarray(chance)

    def magnitudes(self, strip: Integers, low: LowWords) -> Draws:
        """Return |y| = k W + j as Python integers."""
        joined = np.full(low.shape[1], 0, dtype=object)
        for word in low.astype(object):
            joined = (joined << 64) + word
        within = joined >> (64 * len(low) - self.shift)
        return (strip.astype(object) << self.shift) + within


@lru_cache(maxsize=64)
def strips_of_discrete_gaussian(deviation: int) -> DiscreteGaussianStrips:
    """Return the proposal with the largest c whose entries fit."""
    shift = max(0, (deviation >> 3).bit_length() - 1)
    tops = _tops_of_gaussian_strips(deviation, 1 << shift)
    unit = (ENTRIES - 1 << _TABLE_BITS) // sum(tops)
    while (
        sum(counts := [_strip_weights_shifted_up(unit * top) for top in tops])
        >= ENTRIES
    ):
        unit -= 1
    # Entries that are left over go to a strip that can take more than it needs.
    counts[0] += ENTRIES - 1 - sum(counts)
    return DiscreteGaussianStrips(deviation, shift, unit, tuple(counts))


def _strip_weights_shifted_up(number: int) -> int:
    return -(-number >> _TABLE_BITS)


def _tops_of_gaussian_strips(deviation: int, width: int) -> list[int]:
    """Return upper bounds of f_0 ... f_(K-1) in units of 2^-64."""
    tops, strip = [], 0
    while (
        top := _top_of_gaussian_strip(deviation, width * strip)
    ) << 17 > 1 << _TABLE_BITS:
        tops.append(top)
        strip += 1
    return tops


def _top_of_gaussian_strip(deviation: int, start: int) -> int:
    _, upper = exp_bounds_for_gaussian_draw(deviation, start, _TABLE_DIGITS)
    return ceil(upper * 2**_TABLE_BITS)


def exp_bounds_for_gaussian_draw(
    deviation: int, y: int, digits: int
) -> tuple[Fraction, Fraction]:
    """Return two numbers around e(y) that agree to nearly `digits` digits."""
    if y == 0:
        return Fraction(1), Fraction(1)
    exact = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
    above = exact.divide(Decimal(-(y**2)), Decimal(2 * deviation**2))
    # `exp` is within half a unit of its last digit, whatever the rounding.
    lower = exact.next_minus(exact.exp(exact.next_minus(above)))
    upper = exact.next_plus(exact.exp(above))
    return Fraction(lower), Fraction(upper)
