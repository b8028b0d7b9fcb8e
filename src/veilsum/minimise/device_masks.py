"""Phase I on JAX's device: all masks at once, drawn by counters. For simulation only.

    heard = neighbours(topology)                     # (slots, n), public
    masks = device_masks(heard, law, seed, size=10)  # (n, 10), stays on the device
    assert not any(unbalanced(masks))                # integers: exactly zero

A share has a key of its own, made of the seed, the epoch, its sender and its receiver;
word after word of it is Threefry's answer to a counter (Salmon, Moraes, Dror and Shaw,
2011). So a share is the same wherever it is drawn, in whatever order: every party's row
draws the shares that it sends and those that it receives by itself, and nothing is kept
of them. Whoever knows the seed knows them all: real parties draw theirs from the
operating system (`masks.streams`), and never here.

Laws are those of `masks.laws`, in their numbers: residues, whole grid steps, or
float64. The discrete Gaussian is drawn by the same strips, but a proposal that float64
alone cannot decide, one in 2^39, is drawn anew instead of settled in longer numbers:
the law of a number differs from the exact one by less than 2^-38.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.masks.discrete_gaussian import (
    ENTRIES,
    MARGIN,
    TAIL_ROW,
    strips_of_discrete_gaussian,
)
from veilsum.masks.laws import (
    GaussianMasks,
    LatticeCountMasks,
    LatticeMasks,
    MaskLaw,
    UniformCountMasks,
    UniformMasks,
)
from veilsum.masks.masking import MaskShares
from veilsum.minimise.costs.differentiated import in_64_bits, load_jax
from veilsum.numbers.arrays import Array, as_whole_number
from veilsum.numbers.limbs import is_wide_integer_type
from veilsum.numbers.shapes import Int, Shaped

# Two halves of a key, or of a word: arrays of uint32, numpy's or JAX's.
Halves: TypeAlias = tuple[Any, Any]
# From keys, (rows, 1), to shares, (rows, size).
Drawing: TypeAlias = Callable[[Halves], Any]
Heard = Int[Array[np.int32], "slots n"]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
# Keys of one seed are told apart by purpose.
SHARES = 1
# Shares of so many numbers are drawn at a time; memory does not grow with the parties.
PIECE = 1 << 24


def threefry_on_device(key: Halves, counter: Halves) -> Halves:
    """Return Threefry-2x32 of a counter under a key, after twenty rounds."""
    first, second = key
    keys = (first, second, first ^ second ^ PARITY)
    x, y = counter[0] + first, counter[1] + second
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def device_key_of_seed(seed: int, *, purpose: int = SHARES, epoch: int = 0) -> Halves:
    left = as_whole_number(seed, what="a seed", least=0)
    key: Halves = (np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    parts = [purpose, epoch & 0xFFFFFFFF, epoch >> 32]
    while left:
        parts.append(left & 0xFFFFFFFF)
        left >>= 32
    for place, part in enumerate(parts):
        words = (np.full(1, part, np.uint32), np.full(1, place, np.uint32))
        key = threefry_on_device(key, words)
    return key


def device_key_of_arc(key: Halves, sender: Any, receiver: Any) -> Halves:
    """Return the keys of shares from senders to receivers, each by its place."""
    return threefry_on_device(
        key, (sender.astype(np.uint32), receiver.astype(np.uint32))
    )


def join_device_halves(halves: Halves) -> Any:
    """Return words of 64 bits."""
    low, high = (one.astype(np.uint64) for one in halves)
    return low | high << np.uint64(32)


def device_neighbour_slots(topology: Topology) -> Heard:
    """Return all parties' neighbours by slots; those with fewer hear themselves.

    What a party sends to itself it receives, so that it is no part of its mask.
    """
    if topology.directed or topology.common_weight != 1.0:
        raise InvalidInputError(
            "masks are drawn on the device where links carry both ways and have no "
            "weights: leave weights out, or draw them without a device",
            code="device-graph-unsupported",
        )
    ends = np.concatenate([topology.edges, topology.edges[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    n, degrees = topology.n_parties, np.bincount(ends[:, 0])
    starts = np.cumsum(degrees) - degrees
    slot = np.arange(len(ends)) - starts[ends[:, 0]]
    heard = np.tile(np.arange(n, dtype=np.int32), (int(degrees.max()), 1))
    heard[slot, ends[:, 0]] = ends[:, 1]
    return heard


def device_masks(
    heard: Any, law: MaskLaw, seed: int, *, size: int, epoch: int = 0
) -> Any:
    """Return u_i, sent minus received, by row: an array on JAX's device.

    It equals what `device_shares` adds up to, and never holds the shares. `heard` may
    be on the device already.
    """
    jax = load_jax()
    n = heard.shape[1]
    step = min(n, max(1, PIECE // size))
    with in_64_bits(jax):
        piece, key = (
            _compiled_device_masks(law, size)[1],
            device_key_of_seed(seed, epoch=epoch),
        )
        # All pieces are as long: the last begins before the one before it ends.
        starts = [min(low, n - step) for low in range(0, n, step)]
        found = [
            piece(key, np.int32(low), heard[:, low : low + step]) for low in starts
        ]
        known = len(found) * step - n
        return jax.numpy.concatenate([*found[:-1], found[-1][known:]])


@lru_cache(16)  # one epoch after the other draws by the same program
def _compiled_device_masks(
    law: MaskLaw, size: int
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    jit, draw = load_jax().jit, device_mask_drawing(law, size)
    return jit(draw), jit(partial(_masks_of, draw))


def _masks_of(draw: Drawing, key: Halves, low: Any, heard: Any) -> Any:
    """Return the masks of rows from the lowest on, slot after slot."""
    jax = load_jax()
    rows = low + jax.numpy.arange(heard.shape[1], dtype=np.int32)

    def of_slot(there: Any) -> Any:
        # Both ways at once: XLA compiles what draws a share only once.
        ends = jax.numpy.stack([rows, there])
        both = device_key_of_arc(key, ends.ravel(), ends[::-1].ravel())
        drawn = draw(tuple(half[:, None] for half in both))
        return drawn[: len(rows)] - drawn[len(rows) :]

    def add(slot: Any, masks: Any) -> Any:
        return masks + of_slot(heard[slot])

    shape = jax.eval_shape(of_slot, heard[0])
    nothing = jax.numpy.zeros(shape.shape, shape.dtype)
    return jax.lax.fori_loop(0, len(heard), add, nothing)


def device_shares(
    topology: Topology, law: MaskLaw, seed: int, *, size: int, epoch: int = 0
) -> MaskShares:
    """Return every share of one epoch, as `masks.masking.draw_shares` would."""
    device_neighbour_slots(topology)  # refuses what has no such shares
    jax = load_jax()
    ends = topology.edges.astype(np.int32)
    with in_64_bits(jax):
        draw, key = (
            _compiled_device_masks(law, size)[0],
            device_key_of_seed(seed, epoch=epoch),
        )
        ways = [device_key_of_arc(key, *pair) for pair in (ends.T, ends.T[::-1])]
        found = [draw(tuple(half[:, None] for half in way)) for way in ways]
        return MaskShares(
            topology, np.stack([np.asarray(one) for one in found], axis=1)
        )


def unbalanced_device_masks(masks: Any) -> Shaped[Array[Any], " p"]:
    """Return the sum of all masks, which for integers must be exactly zero."""
    jax = load_jax()
    with in_64_bits(jax):
        return np.asarray(masks.sum(axis=0, dtype=masks.dtype))


def device_mask_drawing(law: MaskLaw, size: int) -> Drawing:
    """Return how shares of a law are drawn, each from its key."""
    if isinstance(law, UniformMasks) or (
        isinstance(law, UniformCountMasks) and law.words == 1 and law.residues.full
    ):
        return partial(device_random_words, places=np.arange(size))
    if isinstance(law, GaussianMasks):
        return partial(_device_normal_shares, sigma=np.broadcast_to(law.sigma, size))
    if isinstance(law, LatticeMasks) and not law.wide:
        sigmas = np.broadcast_to(law.sigma, size).tolist()
        return partial(
            _device_lattice_shares, deviations=[law.grid.deviation(s) for s in sigmas]
        )
    if isinstance(law, LatticeCountMasks) and not is_wide_integer_type(law.dtype):
        return partial(_device_lattice_shares, deviations=list(law.deviations()))
    raise InvalidInputError(
        f'masks of law = "{law.name}" are drawn on the device in numbers of 64 bits, '
        "and these are longer, or there are none: take a coarser grid, or draw them "
        "without a device",
        code="device-law-unsupported",
    )


def device_random_words(key: Halves, places: Any, attempt: Any = 0) -> Any:
    jnp = load_jax().numpy
    at = jnp.asarray(places, dtype=np.uint32)[None, :]
    return join_device_halves(threefry_on_device(key, (at, jnp.full_like(at, attempt))))


def _device_normal_shares(key: Halves, sigma: Any) -> Any:
    """Return sigma times standard normals, by the inverse of their distribution."""
    jax = load_jax()
    # Half a step above a multiple of 2^-53: neither 0 nor 1.
    parts = device_random_words(key, np.arange(len(sigma))) >> np.uint64(11)
    uniform = (parts.astype(np.float64) + 0.5) * 2.0**-53
    return sigma * jax.scipy.special.ndtri(uniform)


def _device_lattice_shares(key: Halves, deviations: list[int]) -> Any:
    """Return whole numbers of grid steps, those of each deviation together."""
    jnp, of_all = load_jax().numpy, np.array(deviations)
    kinds = np.unique(of_all)
    places = [np.flatnonzero(of_all == one) for one in kinds]
    found = [
        _device_discrete_gaussian(key, int(one), where)
        for one, where in zip(kinds, places, strict=True)
    ]
    if len(found) == 1:
        return found[0]
    return jnp.concatenate(found, axis=1)[:, np.argsort(np.concatenate(places))]


def _device_discrete_gaussian(key: Halves, deviation: int, places: Any) -> Any:
    """Return draws by strips, see `masks.discrete_gaussian`, at these places.

    All are proposed anew until the last one is accepted; fewer than one in ten is not.
    """
    jax, strips = load_jax(), strips_of_discrete_gaussian(deviation)
    jnp = jax.numpy
    entries, weights = jnp.asarray(strips.entries), jnp.asarray(strips.weights)
    tail, known = len(strips.counts), len(strips.weights) - 1

    def propose(attempt: Any) -> tuple[Any, Any]:
        both = device_random_words(
            key, np.concatenate([2 * places, 2 * places + 1]), attempt
        )
        first, low = both[:, : len(places)], both[:, len(places) :]
        strip = entries[(first & np.uint64(ENTRIES - 1)).astype(np.int32)]
        # A strip takes at most 49 bits of the second word. On the tail four others are
        # r, and G counts zeros up to the next bit that is set, eleven at most: from
        # eight on, no weight is known, and nothing is accepted.
        set_bits = low >> np.uint64(4) & np.uint64(2047) | np.uint64(2048)
        zeros = jax.lax.population_count((set_bits & -set_bits) - np.uint64(1))
        beyond = TAIL_ROW * zeros + (low & np.uint64(TAIL_ROW - 1))
        strip = jnp.where(strip == tail, strip + beyond.astype(strip.dtype), strip)
        position = strip
        if strips.shift:
            top = low >> np.uint64(64 - strips.top_bits)
            position = (strip << strips.top_bits) + top.astype(np.int64)
        root = position.astype(np.float64) * strips.slope
        chance = jnp.exp(-root * root) * weights[jnp.minimum(strip, known)]
        excess = (first >> np.uint64(13)).astype(np.float64) - chance
        negative = (first >> np.uint64(12) & np.uint64(1)).astype(np.int64)
        # Beyond what weights are kept for, the chance is no number, and nothing holds.
        accepted = (excess < -MARGIN) & (position >= negative)
        return accepted, position * (1 - 2 * negative)

    def again(state: Any) -> Any:
        attempt, done, values = state
        accepted, found = propose(attempt)
        return attempt + 1, done | accepted, jnp.where(done, values, found)

    shape = (len(key[0]), len(places))
    begun = (jnp.uint32(0), jnp.zeros(shape, bool), jnp.zeros(shape, np.int64))
    return jax.lax.while_loop(lambda state: ~state[1].all(), again, begun)[2]
