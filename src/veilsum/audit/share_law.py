"""Shares of another law than was agreed: many together, beside what they must be.

`weak_randomness` looks at one share after the other, and finds what is plain in one.
Here all of many executions are counted. The places of numbers in their distribution are
uniform, and so is each digit of residues; so are they of sums and of differences of two
shares, and of neighbours within one, unless these know of each other. What chance makes
in fewer than `LUCK` of tests is a success.

`attack_system_shares` does the same with shares that real parties would draw, from the
operating system: executions that a seed repeats come from elsewhere.

`shares_by_number` draws whole shares one by one, as machines do, under the law and in
the length of the plan, and tests each number by itself, over all links together and on
each link: what is wrong with one number drowns among many others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
from scipy import special

from veilsum.audit.attack import (
    CHANCE,
    AttackedShares,
    Outcome,
    Scene,
    law_of_many_executions,
)
from veilsum.audit.made_up import sigma_of_scene
from veilsum.audit.weak_randomness import repeated_share_rows
from veilsum.errors import MissingExtraError
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.masking import (
    MaskStreams,
    ShareStreams,
    SystemStreams,
    draw_mask_shares,
)
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.numbers.shapes import Bool, Float, Int, Shaped

ATTACK, SYSTEM = "shares of another law", "shares from the system"
# A test finds something by chance at most so often. The threshold is far beyond: counts
# of few numbers are not as near to chi^2 out there.
LUCK, THRESHOLD = 1e-8, 1e-12
# Cells are of this part each, and in the tails of fewer, with so many numbers at least.
CELLS, FEWEST = 16, 25
# Shares that are looked at one by one, or two together; streams of the system.
MOST_ARCS, MOST_PAIRS, STREAMS = 200, 200, 2_000

Numbers = Shaped[Array[Any], "*batch p"]
Uniform = Float[FloatArray, " count"]
Edges = Float[FloatArray, " edges"]
EVEN = np.linspace(0.0, 1.0, CELLS + 1)


def play(
    scene: Scene, coalition: Sequence[str], *, seed: int, trials: int
) -> Outcome | None:
    """Count the shares of some executions; None where there are no masks.

    Whoever is at one end of a link sees its shares: the coalition does not matter.
    """
    del coalition
    if not scene.law.hides or not scene.topology.n_edges:
        return None
    batch = scene.batch(seed, trials)
    return _share_law_outcome(
        ATTACK, [*_share_law_tests(scene, _attacked_share_arcs(batch), seed)]
    )


def attack_system_shares(
    scene: Scene, coalition: Sequence[str], *, seed: int, trials: int
) -> Outcome | None:
    """Count shares that no seed repeats; None if parties could not draw them here."""
    del coalition
    if not (scene.law.hides and scene.law.deployable and scene.topology.n_edges):
        return None
    law, size = (
        law_of_many_executions(scene.law, scene.width, trials),
        trials * scene.width,
    )
    try:
        streams = SystemStreams()
        shares = draw_mask_shares(scene.topology, law, streams, size=size)
        first = [
            streams.stream(epoch=k, sender=0, receiver=1).words(2)
            for k in range(STREAMS)
        ]
    except MissingExtraError:
        return None
    again = bool(repeated_share_rows(np.array(first)[None]).any())
    arcs = _attacked_share_arcs(AttackedShares(scene, shares, 0))
    return _share_law_outcome(SYSTEM, [*_share_law_tests(scene, arcs, seed), again])


# Number by number

BY_NUMBER = "each number's shares"
# Shares that are drawn, of at most so many numbers together; on a link at least so
# many, or links are not looked at one by one.
SHARES, FEWEST_SHARES, MOST_NUMBERS, ON_A_LINK = 2_048, 256, 400_000, 24
# Cells of equal parts in which the numbers of one place are counted.
PLACES = 8

Draws = Shaped[Array[Any], "shares p"]
Odd = Bool[Array[np.bool_], " p"]
# Spoils the shares that were drawn, to see that it is found.
Spoiling = Callable[[Draws], Draws]


@dataclass(frozen=True, eq=False)
class ShareLawNumbers:
    """Shares as machines draw them, each of their numbers beside its law.

    Attributes:
        scene: who exchanges shares; `scene.plan_law` and `scene.plan_width` are used.
        streams: where shares come from.
        seed: of what spreads a discrete number over its step.
        spoil: changes what was drawn; a control has one.
    """

    scene: Scene
    streams: MaskStreams
    seed: int
    spoil: Spoiling | None = None

    @cached_property
    def links(self) -> list[tuple[int, int, float]]:
        """Sender, receiver and weight of every share of an epoch."""
        topology = self.scene.topology
        pairs = zip(topology.edges.tolist(), topology.weights.tolist(), strict=True)
        return [
            (*ends, weight)
            for (i, j), weight in pairs
            for ends in ((i, j), (j, i))[: topology.shares_per_edge]
        ]

    @property
    def shares(self) -> int:
        most = MOST_NUMBERS // self.scene.plan_width
        return min(SHARES, max(FEWEST_SHARES, most))

    @property
    def on_a_link(self) -> int:
        """Number of shares for each link, if links are tested separately; else 0."""
        many = self.shares // len(self.links)
        return many if many >= ON_A_LINK else 0

    @property
    def tests(self) -> int:
        groups = 1 + (len(self.links) if self.on_a_link else 0)
        law = self.scene.plan_law
        return groups * (8 * law.number_bytes if law.sums_only else 1 + PLACES)

    @property
    def luck(self) -> float:
        """False alarm rate of one test, so that all together have rate `LUCK`."""
        return LUCK / (self.tests * self.scene.plan_width)

    def outcome(self) -> Outcome:
        """Return how many numbers have shares that chance would not have made."""
        law, width = self.scene.plan_law, self.scene.plan_width
        whose = [self.links[k % len(self.links)] for k in range(self.shares)]
        shares = []
        for k, (sender, receiver, weight) in enumerate(whose):
            ends = {"sender": sender, "receiver": receiver}
            epoch = k // len(self.links)
            shares.append(self.streams.share(law, width, weight, epoch=epoch, **ends))
        drawn: Draws = limbs_to_integers(np.stack(shares))
        if self.spoil is not None:
            drawn = self.spoil(drawn)
        if law.sums_only:
            odd = self._odd(self._bits(drawn), self._unfair)
        else:
            weights = np.array([weight for _, _, weight in whose])
            odd = self._odd(self._deviates(drawn, weights), self._narrow)
        about = "numbers whose shares are not as wide, or as even, as agreed"
        return Outcome(BY_NUMBER, (), about, width, int(np.count_nonzero(odd)), LUCK)

    def _odd(self, drawn: Array[Any], test: Callable[[Array[Any]], Odd]) -> Odd:
        """Return which numbers fail, over all links or on one of them."""
        found = test(drawn)
        for k in range(len(self.links) if self.on_a_link else 0):
            found = found | test(drawn[k :: len(self.links)][: self.on_a_link])
        return found

    def _bits(self, drawn: Draws) -> Bool[Array[np.bool_], "shares p bits"]:
        words = [
            np.asarray((drawn >> 64 * k) & (2**64 - 1)).astype("<u8")
            if drawn.dtype == object
            else drawn.astype("<u8")
            for k in range(self.scene.plan_law.number_bytes // 8)
        ]
        rows = np.stack(words, axis=-1).view(np.uint8)
        return np.unpackbits(rows, axis=-1).astype(np.bool_)

    def _unfair(self, bits: Bool[Array[np.bool_], "shares p bits"]) -> Odd:
        ones = bits.sum(axis=0)
        low, high = _usual_share_counts(len(bits), 0.5, self.luck)
        return np.asarray(((ones < low) | (ones > high)).any(axis=-1))

    def _deviates(
        self, drawn: Draws, weights: Float[FloatArray, " shares"]
    ) -> Float[FloatArray, "shares p"]:
        own = self.scene
        scene = replace(own, law=own.plan_law, width=own.plan_width)
        chance = np.random.default_rng((self.seed % 2**64, 15))
        reals = _spread_out_share_numbers(scene, drawn, chance)
        spread = {
            one: _share_number_deviations(scene, one)
            for one in np.unique(weights).tolist()
        }
        return reals / np.stack([spread[one] for one in weights.tolist()])

    def _narrow(self, reals: Float[FloatArray, "shares p"]) -> Odd:
        squares = (reals**2).sum(axis=0)
        odd = squares < 2 * special.gammaincinv(len(reals) / 2, self.luck)
        places = np.minimum((special.ndtr(reals) * PLACES).astype(np.int64), PLACES - 1)
        low, high = _usual_share_counts(len(reals), 1 / PLACES, self.luck)
        for k in range(PLACES):
            here = (places == k).sum(axis=0)
            odd |= (here < low) | (here > high)
        return np.asarray(odd)

    @property
    def power(self) -> str:
        """Which defect of a single number would have been found, in a sentence."""
        groups = [("over all links together", self.shares)]
        if self.on_a_link:
            groups.append(("on a single link", self.on_a_link))
        if self.scene.plan_law.sums_only:
            told = [(where, 100 * self._least_bit(n)) for where, n in groups]
            parts = ", or ".join(f"{part:.2g}% of shares {w}" for w, part in told)
            defect = f"a bit of a single number that is 1 (or 0) in at most {parts}"
        else:
            told = [(where, self._least_width(n)) for where, n in groups]
            parts = ", or ".join(
                f"{part:.2g} of the agreed deviation {where} (a divergence "
                f"{1 / part**2:.3g} times what is promised)"
                for where, part in told
            )
            defect = f"shares of a single number with at most {parts}"
        return f"{BY_NUMBER}: {defect}, would have been found with 90% probability"

    def _least_width(self, count: int) -> float:
        """Return the widest deviation that is found to be too narrow."""
        limit = 2 * float(special.gammaincinv(count / 2, self.luck))
        return sqrt(limit / float(special.chdtri(count, 1.0 - CHANCE)))

    def _least_bit(self, count: int) -> float:
        """Return how often a bit may be 1 and still be found to be too seldom so."""
        low, _ = _usual_share_counts(count, 0.5, self.luck)
        return float(special.bdtri(low - 1, count, CHANCE)) if low else 0.0


def shares_by_number(
    scene: Scene, seed: int, spoil: Spoiling | None = None
) -> tuple[ShareLawNumbers, ...]:
    """Return what draws shares as parties do: from a seed, and from the system.

    None where there are no masks.
    """
    law = scene.plan_law
    if not law.hides or not scene.topology.n_edges:
        return ()
    found = [ShareLawNumbers(scene, ShareStreams.from_seed(seed % 2**64), seed, spoil)]
    if law.deployable:
        found.append(ShareLawNumbers(scene, SystemStreams(), seed, spoil))
    return tuple(found)


def shares_an_eighth_as_large(drawn: Draws) -> Draws:
    """Return shares whose last number is an eighth of what it should be."""
    drawn = drawn.copy()
    last = drawn[:, -1]
    drawn[:, -1] = last / 8 if drawn.dtype == np.float64 else last // 8
    return drawn


def shares_with_stuck_bit(drawn: Draws) -> Draws:
    drawn = drawn.copy()
    drawn[:, -1] = drawn[:, -1] // 2 * 2
    return drawn


def _usual_share_counts(count: int, part: float, luck: float) -> tuple[int, int]:
    """Return between which counts chance stays, but for `luck`; exactly."""
    counts = np.arange(count + 1)
    below = special.bdtr(counts, count, part) <= luck / 2
    above = special.bdtrc(counts - 1, count, part) <= luck / 2
    return int(np.count_nonzero(below)), int(count - np.count_nonzero(above[1:]))


def _share_law_outcome(attack: str, odd: Sequence[bool]) -> Outcome:
    about = "counts of shares that chance would not have made"
    return Outcome(attack, (), about, len(odd), sum(odd), LUCK)


Arc = tuple[Numbers, Float[FloatArray, " p"]]


def _attacked_share_arcs(batch: AttackedShares) -> list[Arc]:
    found, weights = [], batch.scene.topology.weights.tolist()
    for edge, weight in zip(
        batch.by_execution(limbs_to_integers(batch.shares.values)), weights, strict=True
    ):
        spread = _share_number_deviations(batch.scene, weight)
        found += [(one, spread) for one in edge]
    return found


def _share_value_step(scene: Scene) -> Float[FloatArray, " p"]:
    """Return how far apart the values of shares are; zero for real ones."""
    law = scene.law
    if law.counted is not None:
        return np.array([float(unit) for unit in law.counted.units])
    masks = law.masks
    if masks.grid is None:
        return np.zeros(scene.width)
    return np.full(scene.width, FixedPointGrid(masks.grid, masks.unit).step)


def _share_number_deviations(scene: Scene, weight: float) -> Float[FloatArray, " p"]:
    """Return the deviation of each number of a share, in whole steps if it has any."""
    sigma = sigma_of_scene(scene)
    if sigma is None:
        return np.zeros(scene.width)
    step, each = _share_value_step(scene), sigma * np.sqrt(weight)
    whole = np.ceil(each / np.where(step, step, 1.0) * (1 - 1e-12)) * step
    return np.where(step, whole, each)


def _share_law_tests(scene: Scene, arcs: Sequence[Arc], seed: int) -> Iterator[bool]:
    wrap = scene.law.wrap
    chance = np.random.default_rng((seed % 2**64, 14))

    last = 2 * scene.law.number_bytes - 1

    def odd(some: Sequence[Arc], digits: Sequence[int] = (0, last)) -> Iterator[bool]:
        if scene.law.sums_only:
            for k in digits:
                yield _share_counts_are_odd(
                    _share_residue_digits([one for one, _ in some], k), EVEN
                )
        else:
            places = np.concatenate(
                [_share_distribution_places(scene, one, chance) for one in some]
            )
            yield _share_counts_are_odd(places, _share_bin_edges(len(places)))

    yield from odd(arcs, range(last + 1))
    pairs = [*combinations(range(min(len(arcs), MOST_ARCS)), 2)]
    some = chance.permutation(len(pairs))[:MOST_PAIRS].tolist()
    for (one, spread), (other, wide) in ([arcs[i] for i in pairs[k]] for k in some):
        both = np.hypot(spread, wide)
        yield from odd([(wrap(one + other), both)])
        yield from odd([(wrap(one - other), both)])
    for one, spread in arcs[:MOST_ARCS]:
        # Neighbours in the order in which they were drawn.
        half = len(one) // 2
        apart = wrap(one[1 : 2 * half : 2] - one[: 2 * half : 2])
        yield from odd([(apart, np.hypot(spread, spread))])


def _share_distribution_places(
    scene: Scene, arc: Arc, chance: np.random.Generator
) -> Uniform:
    """Return the places of a share's numbers in their distribution.

    A discrete Gaussian is spread over its steps; but for parts of 1 / steps^2 it is a
    Gaussian then.
    """
    numbers, spread = arc
    reals = _spread_out_share_numbers(scene, numbers, chance)
    return np.asarray(special.ndtr(reals / spread)).ravel()


def _spread_out_share_numbers(
    scene: Scene, numbers: Numbers, chance: np.random.Generator
) -> Float[FloatArray, "*batch p"]:
    """Return numbers of a law as real ones, each anywhere in its step."""
    reals, step = (
        np.asarray(scene.law.decode(numbers), dtype=np.float64),
        _share_value_step(scene),
    )
    if scene.law.counted is not None:
        reals = reals * step
    return reals + step * chance.uniform(-0.5, 0.5, reals.shape)


def _share_residue_digits(shares: Sequence[Numbers], place: int) -> Uniform:
    """Return a digit of residues to the base of 16, as a number between 0 and 1."""
    digits = [np.asarray((one >> 4 * place) & 15, dtype=np.int64) for one in shares]
    return (np.concatenate([one.ravel() for one in digits]) + 0.5) / CELLS


def _share_counts_are_odd(places: Uniform, edges: Edges) -> bool:
    """Say whether chance alone would not have put these where they are."""
    if len(places) < CELLS * FEWEST:
        return False
    counts: Int[Array[Any], " cells"] = np.histogram(places, edges)[0]
    expected = np.diff(edges) * len(places)
    told = float(((counts - expected) ** 2 / expected).sum())
    return bool(told > special.chdtri(len(expected) - 1, THRESHOLD))


def _share_bin_edges(count: int) -> Edges:
    """Return cells of equal parts, of which the first and the last are cut again."""
    inner = np.arange(1, CELLS) / CELLS
    tails, part = [], 1 / CELLS / 8
    while part * count >= FEWEST:
        tails.append(part)
        part /= 8
    low = np.array(tails[::-1])
    return np.concatenate([[0.0], low, inner, 1 - low[::-1], [1.0]])
