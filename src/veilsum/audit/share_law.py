"""Shares of another law than was agreed: many together, beside what they must be.

`weak_randomness` looks at one share after the other, and finds what is plain in one.
Here all of many executions are counted. The places of numbers in their distribution are
uniform, and so is each digit of residues; so are they of sums and of differences of two
shares, and of neighbours within one, unless these know of each other. What chance makes
in fewer than `LUCK` of tests is a success.

`of_the_system` does the same with shares that real parties would draw, from the
operating system: executions that a seed repeats come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from veilsum.audit.attack import Batch, Outcome, Scene, widened
from veilsum.audit.made_up import sigma_of
from veilsum.audit.weak_randomness import repeated
from veilsum.errors import MissingExtraError
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.fixed_point import Grid
from veilsum.numbers.masking import SystemStreams, draw_shares
from veilsum.numbers.shapes import Float, Int, Shaped

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

    Args:
        scene: what is promised, and how shares come about.
        coalition: not asked: whoever is at one end of a link sees its shares.
        seed: of the shares.
        trials: executions.
    """
    del coalition
    if not scene.law.hides or not scene.topology.n_edges:
        return None
    batch = scene.batch(seed, trials)
    return _outcome(ATTACK, [*_tests(scene, _arcs(batch), seed)])


def of_the_system(
    scene: Scene, coalition: Sequence[str], *, seed: int, trials: int
) -> Outcome | None:
    """Count shares that no seed repeats; None if parties could not draw them here."""
    del coalition
    if not (scene.law.hides and scene.law.deployable and scene.topology.n_edges):
        return None
    law, size = widened(scene.law, scene.width, trials), trials * scene.width
    try:
        streams = SystemStreams()
        shares = draw_shares(scene.topology, law, streams, size=size)
        first = [
            streams.stream(epoch=k, sender=0, receiver=1).words(2)
            for k in range(STREAMS)
        ]
    except MissingExtraError:
        return None
    again = bool(repeated(np.array(first)[None]).any())
    arcs = _arcs(Batch(scene, shares, 0))
    return _outcome(SYSTEM, [*_tests(scene, arcs, seed), again])


def _outcome(attack: str, odd: Sequence[bool]) -> Outcome:
    return Outcome(
        attack=attack,
        coalition=(),
        about="counts of shares that chance would not have made",
        trials=len(odd),
        successes=sum(odd),
        promised=LUCK,
    )


Arc = tuple[Numbers, Float[FloatArray, " p"]]


def _arcs(batch: Batch) -> list[Arc]:
    """Return every share, executions by numbers, and its deviation by number."""
    found, weights = [], batch.scene.topology.weights.tolist()
    for edge, weight in zip(batch.each_share, weights, strict=True):
        spread = _deviations(batch.scene, weight)
        found += [(one, spread) for one in edge]
    return found


def _step(scene: Scene) -> Float[FloatArray, " p"]:
    """Return how far apart the values of shares are; zero for real ones."""
    law = scene.law
    if law.counted is not None:
        return np.array([float(unit) for unit in law.counted.units])
    masks = law.masks
    if masks.grid is None:
        return np.zeros(scene.width)
    return np.full(scene.width, Grid(masks.grid, masks.unit).step)


def _deviations(scene: Scene, weight: float) -> Float[FloatArray, " p"]:
    """Return the deviation of each number of a share, in whole steps if it has any."""
    sigma = sigma_of(scene)
    if sigma is None:
        return np.zeros(scene.width)
    step, each = _step(scene), sigma * np.sqrt(weight)
    whole = np.ceil(each / np.where(step, step, 1.0) * (1 - 1e-12)) * step
    return np.where(step, whole, each)


def _tests(scene: Scene, arcs: Sequence[Arc], seed: int) -> Iterator[bool]:
    """Yield for every test whether it finds something."""
    wrap = scene.law.wrap
    chance = np.random.default_rng((seed % 2**64, 14))

    last = 2 * scene.law.number_bytes - 1

    def odd(some: Sequence[Arc], digits: Sequence[int] = (0, last)) -> Iterator[bool]:
        if scene.law.sums_only:
            for k in digits:
                yield _is_odd(_digits([one for one, _ in some], k), EVEN)
        else:
            places = np.concatenate([_places(scene, one, chance) for one in some])
            yield _is_odd(places, _edges(len(places)))

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


def _places(scene: Scene, arc: Arc, chance: np.random.Generator) -> Uniform:
    """Return the places of a share's numbers in their distribution.

    A discrete Gaussian is spread over its steps; but for parts of 1 / steps^2 it is a
    Gaussian then.
    """
    numbers, spread = arc
    law, step = scene.law, _step(scene)
    reals = np.asarray(law.decode(numbers), dtype=np.float64)
    if law.counted is not None:
        reals = reals * step
    reals = reals + step * chance.uniform(-0.5, 0.5, reals.shape)
    return np.asarray(special.ndtr(reals / spread)).ravel()


def _digits(shares: Sequence[Numbers], place: int) -> Uniform:
    """Return a digit of residues to the base of 16, as a number between 0 and 1."""
    digits = [np.asarray((one >> 4 * place) & 15, dtype=np.int64) for one in shares]
    return (np.concatenate([one.ravel() for one in digits]) + 0.5) / CELLS


def _is_odd(places: Uniform, edges: Edges) -> bool:
    """Say whether chance alone would not have put these where they are."""
    if len(places) < CELLS * FEWEST:
        return False
    counts: Int[Array[Any], " cells"] = np.histogram(places, edges)[0]
    expected = np.diff(edges) * len(places)
    told = float(((counts - expected) ** 2 / expected).sum())
    return bool(told > special.chdtri(len(expected) - 1, THRESHOLD))


def _edges(count: int) -> Edges:
    """Return cells of equal parts, of which the first and the last are cut again."""
    inner = np.arange(1, CELLS) / CELLS
    tails, part = [], 1 / CELLS / 8
    while part * count >= FEWEST:
        tails.append(part)
        part /= 8
    low = np.array(tails[::-1])
    return np.concatenate([[0.0], low, inner, 1 - low[::-1], [1.0]])
