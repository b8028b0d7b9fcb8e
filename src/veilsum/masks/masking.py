"""Phase I: neighbours exchange shares; a mask is what was sent minus what was received.

u_i = sum_j (r_ij - r_ji), so the masks of all parties add up to zero. Shares are drawn
from streams keyed by (root, epoch, i, j): no draw depends on who drew first, and every
driver that knows the root draws the same bits. How a share is drawn, and in which
numbers, is its law: see `laws`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array

from veilsum.graphs.topology import Topology
from veilsum.masks.discrete_gaussian import (
    MARGIN,
    MOST_AT_ONCE,
    count_gaussian_proposals,
    strips_of_discrete_gaussian,
)
from veilsum.masks.laws import LatticeMasks, MaskLaw, Numbers
from veilsum.masks.streams import Keystream, SeededStream, Stream
from veilsum.numbers.arrays import Array, EdgeList, Sparse, as_whole_number
from veilsum.numbers.compiled import compiled_or_plain
from veilsum.numbers.limbs import (
    add_wide_integers,
    combine_wide_integers,
    is_wide_integer_type,
    subtract_wide_integers,
)
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Shaped

# Streams of one root are told apart by purpose; later purposes take later numbers.
_SHARE_PURPOSE = 1
_WORD = 32
_COUNTER_PURPOSE = 2

# Links whose shares are drawn at once: their noise stays in cache.
PIECE = 1 << 15
# Bytes of shares that are drawn at once where none is kept.
PIECE_BYTES = 1 << 24

# float64, or integers: what the law draws.
ShareArray = Shaped[Array[np.generic], "e arcs p"]
EdgeNoise = Shaped[Array[np.generic], "e p"]
MaskRows = Shaped[Array[np.generic], "n p"]


@runtime_checkable
class MaskStreams(Protocol):
    """Where each share's randomness comes from."""

    def stream(self, *, epoch: int, sender: int, receiver: int) -> Stream:
        """Return the stream of the share that `sender` draws for `receiver`."""
        ...

    def share(
        self,
        law: MaskLaw,
        size: int,
        weight: float = 1.0,
        *,
        epoch: int,
        sender: int,
        receiver: int,
    ) -> Numbers:
        """Return that share; `weight` multiplies the variance of its law."""
        stream = self.stream(epoch=epoch, sender=sender, receiver=receiver)
        return law.draw(stream, size, weight)


@dataclass(frozen=True, repr=False)
class ShareStreams(MaskStreams, Secret):
    """The keyed streams of one simulated run; whoever knows the root knows all shares.

    A deployment never uses these: its shares come from `SystemStreams`.
    """

    root: int

    @classmethod
    def from_seed(cls, seed: int | None) -> ShareStreams:
        """Return streams that a seed repeats, or fresh ones without a seed."""
        if seed is None:
            return cls(secrets.randbits(128))
        return cls(as_whole_number(seed, what="a seed", least=0))

    def stream(self, *, epoch: int, sender: int, receiver: int) -> SeededStream:
        # As numpy reads five integers, in less time.
        key = (_SHARE_PURPOSE, *self._root_words, epoch, sender, receiver)
        seed = key if max(key) >> _WORD else np.array(key, dtype=np.uint32)
        return SeededStream(np.random.default_rng(seed))

    @cached_property
    def _root_words(self) -> tuple[int, ...]:
        """The root in words of 32 bits, the lowest one first."""
        size = max(1, -(-self.root.bit_length() // _WORD))
        return tuple(self.root >> _WORD * k & (1 << _WORD) - 1 for k in range(size))


@dataclass(frozen=True, repr=False)
class CounterStreams(MaskStreams, Secret):
    """The streams of a simulation of very many parties: a cipher of where a share is.

    Philox (Salmon and others 2011) turns a key and a position into words. The position
    is (block, sender, receiver, epoch), so any share can be drawn at any time, by any
    thread, and none has to be kept. A deployment never uses these either.
    """

    root: int

    @cached_property
    def key(self) -> Array[np.uint64]:
        """Two words that the root becomes."""
        seed = np.random.SeedSequence((_COUNTER_PURPOSE, self.root))
        return np.asarray(seed.generate_state(2, np.uint64), dtype=np.uint64)

    def stream(self, *, epoch: int, sender: int, receiver: int) -> SeededStream:
        where = np.array([0, sender, receiver, epoch], dtype=np.uint64)
        cipher = np.random.Philox(counter=where, key=self.key)
        return SeededStream(np.random.Generator(cipher))


@dataclass(frozen=True, repr=False)
class SystemStreams(MaskStreams, Secret):
    """Fresh keystreams from the operating system: nothing to seed, nothing to repeat.

    A share drawn from these is drawn once: whoever needs it again has to keep it.
    """

    def stream(self, *, epoch: int, sender: int, receiver: int) -> Keystream:
        """Return a keystream under a new key, the same one never twice."""
        del epoch, sender, receiver
        return Keystream.from_os()


@dataclass(frozen=True, eq=False, repr=False)
class MaskShares(Secret):
    """All r_ij of one epoch: (e, 2, p) with r_ij then r_ji, or (e, 1, p) on arcs."""

    topology: Topology
    values: ShareArray

    def edge_noise(self) -> EdgeNoise:
        """Return c_e = r_ij - r_ji for i < j (an arc: r_ij)."""
        if self.topology.directed:
            return self.values[:, 0]
        return subtract_wide_integers(self.values[:, 0], self.values[:, 1])

    def masks(self) -> MaskRows:
        """Return u_i, sent minus received: U = Theta c  (Eq. i_vn)."""
        return at_both_ends(self.topology, self.edge_noise())


def at_both_ends(topology: Topology, noise: EdgeNoise) -> MaskRows:
    """Return Theta c: each link's noise added to its first end, taken from the other.

    Integers stay integers, of 64 bits or of several limbs.
    """
    return combine_wide_integers(topology.incidence, noise)


def draw_mask_shares(
    topology: Topology, law: MaskLaw, streams: MaskStreams, *, size: int, epoch: int = 0
) -> MaskShares:
    """Return every share of one epoch, each from its own stream.

    The weight of an edge is the variance of its shares relative to the law's.
    """
    arcs = topology.shares_per_edge
    values = np.empty((topology.n_edges, arcs, size), dtype=law.dtype)
    pairs = zip(topology.edges.tolist(), topology.weights.tolist(), strict=True)
    for row, ((i, j), weight) in zip(values, pairs, strict=True):
        for arc, (sender, receiver) in enumerate(((i, j), (j, i))[:arcs]):
            row[arc] = streams.share(
                law, size, weight, epoch=epoch, sender=sender, receiver=receiver
            )
    return MaskShares(topology, values)


def draw_masks(
    topology: Topology, law: MaskLaw, streams: MaskStreams, *, size: int, epoch: int = 0
) -> MaskRows:
    """Return the masks of one epoch, those of `draw_mask_shares`, and keep no share.

    For integers only: their sums do not depend on the order of links.
    """
    each = topology.shares_per_edge * size * law.dtype.itemsize
    links = max(1, PIECE_BYTES // max(1, each))
    if links >= topology.n_edges:
        return draw_mask_shares(topology, law, streams, size=size, epoch=epoch).masks()
    masks = np.zeros((topology.n_parties, size), dtype=law.dtype)
    for low in range(0, topology.n_edges, links):
        some = slice(low, low + links)
        part = replace(
            topology, edges=topology.edges[some], weights=topology.weights[some]
        )
        shares = draw_mask_shares(part, law, streams, size=size, epoch=epoch)
        masks = add_wide_integers(masks, shares.masks())
    return masks


# Very many parties: no share is kept


def masks_in_pieces(
    topology: Topology,
    law: MaskLaw,
    streams: CounterStreams,
    *,
    size: int,
    epoch: int = 0,
    rows: slice | None = None,
    told: Callable[[int], object] = lambda _done: None,
) -> MaskRows:
    """Return the masks that all shares together make, link after link.

    They are those of `draw_mask_shares` with the same streams, bit for bit. Shares on
    the grid are drawn by machine code, on all cores; others one by one.

    Args:
        topology: who exchanges shares.
        law: how they are drawn.
        streams: from where.
        size: of one share.
        epoch: which.
        rows: of which parties masks are made; other parties' links may be left out of
            the topology then.
        told: is called with how many links are done.
    """
    own = slice(0, topology.n_parties) if rows is None else rows
    masks = np.zeros((own.stop - own.start, size), dtype=law.dtype)
    cores = os.cpu_count() or 1
    drawing = _MaskDrawing.of(topology, law, streams, size, epoch)
    add_here = compiled_or_plain(add_at_both_ends)
    with ThreadPoolExecutor(cores) as pool:
        for low in range(0, topology.n_edges, cores * PIECE):
            starts = range(low, min(topology.n_edges, low + cores * PIECE), PIECE)
            for first, noise in zip(
                starts, pool.map(drawing.noise, starts), strict=True
            ):
                ends = topology.edges[first : first + PIECE]
                if add_here is not None and masks.dtype == np.int64 and rows is None:
                    add_here(ends, noise, masks)
                    continue
                if is_wide_integer_type(masks):
                    masks = add_wide_integers(
                        masks,
                        combine_wide_integers(_mask_incidence_matrix(ends, own), noise),
                    )
                    continue
                for end, into in zip(ends.T, (np.add, np.subtract), strict=True):
                    here = (end >= own.start) & (end < own.stop)
                    into.at(masks, end[here] - own.start, noise[here])
            told(min(topology.n_edges, low + cores * PIECE))
    return masks


def _mask_incidence_matrix(ends: EdgeList, own: slice) -> Sparse:
    """Return Theta of some links, with the rows of some parties."""
    links = np.arange(len(ends))
    signs = np.repeat([1, -1], len(ends))
    where = (ends.T.ravel(), np.concatenate([links, links]))
    whole = csr_array((signs, where), shape=(int(ends.max()) + 1, len(ends)))
    whole.resize((max(own.stop, whole.shape[0]), len(ends)))
    return whole[own]


def exact_totals_of_masked_rows(numbers: Array[Any]) -> list[int]:
    """Return the sum of each column of 64-bit integers, as large as it is.

    >>> exact_totals_of_masked_rows(np.full((3, 1), 2**62))
    [13835058055282163712]
    """
    found = [0] * numbers.shape[1]
    for low in range(0, len(numbers), PIECE):
        part = numbers[low : low + PIECE]
        # Of halves a whole piece's sum fits a word.
        high, rest = (part >> 32).sum(axis=0), (part & 0xFFFFFFFF).sum(axis=0)
        found = [
            total + (int(a) << 32) + int(b)
            for total, a, b in zip(found, high, rest, strict=True)
        ]
    return found


@dataclass(frozen=True, eq=False, repr=False)
class _MaskDrawing(Secret):
    topology: Topology
    law: MaskLaw
    streams: CounterStreams
    size: int
    epoch: int
    fixed: tuple[Any, ...] | None

    @classmethod
    def of(
        cls,
        topology: Topology,
        law: MaskLaw,
        streams: CounterStreams,
        size: int,
        epoch: int,
    ) -> _MaskDrawing:
        given = (topology, law, streams, size, epoch)
        weight = topology.common_weight
        if not isinstance(law, LatticeMasks) or law.sigma.ndim or law.wide:
            return cls(*given, None)
        if weight is None or topology.directed:
            return cls(*given, None)
        strips = strips_of_discrete_gaussian(
            law.grid.deviation(float(law.sigma), weight)
        )
        if (
            compiled_or_plain(draw_masks_of_links) is None
            or not strips.small
            or size > MOST_AT_ONCE
        ):
            return cls(*given, None)
        where = (*streams.key, np.uint64(epoch))
        tables = (strips.entries, strips.weights)
        how = (strips.slope, strips.shift, len(strips.counts), MARGIN)
        return cls(*given, (where, tables, how, count_gaussian_proposals(size)))

    def noise(self, first: int) -> EdgeNoise:
        """Return c_e = r_ij - r_ji of a piece of links."""
        ends = self.topology.edges[first : first + PIECE]
        noise = np.empty((len(ends), self.size), dtype=self.law.dtype)
        left = np.arange(len(ends))
        if (
            self.fixed is not None
            and (draw := compiled_or_plain(draw_masks_of_links)) is not None
        ):
            undone = np.zeros(len(ends), dtype=np.bool_)
            draw(ends, *self.fixed, noise, undone)
            # One share in a thousand comes from far out, which is not compiled.
            left = np.flatnonzero(undone)
        arcs = self.topology.shares_per_edge
        for e in left.tolist():
            i, j = (int(end) for end in ends[e])
            shares = [
                self.streams.share(
                    self.law,
                    self.size,
                    float(self.topology.weights[first + e]),
                    epoch=self.epoch,
                    sender=sender,
                    receiver=receiver,
                )
                for sender, receiver in ((i, j), (j, i))[:arcs]
            ]
            noise[e] = subtract_wide_integers(*shares) if arcs == 2 else shares[0]
        return noise


def add_at_both_ends(ends: Any, noise: Any, masks: Any) -> None:
    """Add each link's noise to one end, and take it from the other. A kernel."""
    for e in range(ends.shape[0]):
        i, j = ends[e, 0], ends[e, 1]
        for c in range(noise.shape[1]):
            masks[i, c] += noise[e, c]
            masks[j, c] -= noise[e, c]


def draw_masks_of_links(
    ends: Any,
    where: Any,
    tables: Any,
    how: Any,
    at_once: Any,
    noise: Any,
    undone: Any,
) -> None:
    """Draw both shares of links as `discrete_gaussian` does of their streams. A kernel.

    The same proposals, from the same words, are accepted where float64 is sure of it. A
    link is left undone if it is not, or if a proposal is on the tail.
    """
    key0, key1, epoch = where
    entries, weights = tables
    slope, shift, tail, margin = how
    size = noise.shape[1]
    words = np.empty(2 * at_once + 4, np.uint64)
    half = np.uint64(0xFFFFFFFF)
    bits = np.uint64(32)
    for e in range(ends.shape[0]):
        for arc in range(2):
            sender, receiver = np.uint64(ends[e, arc]), np.uint64(ends[e, 1 - arc])
            filled, known, known_low = 0, 0, at_once // 4 * 4
            for t in range(at_once):
                # Blocks of four words, when one is needed: the first words of
                # proposals, then their low ones.
                for low in range(2):
                    if low and shift == 0:
                        continue
                    place = t + low * at_once
                    while place >= (known_low if low else known):
                        block = (known_low if low else known) // 4
                        c0, c1 = np.uint64(block + 1), sender
                        c2, c3 = receiver, epoch
                        k0, k1 = key0, key1
                        for _ in range(10):
                            m, x = np.uint64(0xD2E7470EE14C6C93), c0
                            a = (m & half) * (x & half)
                            b = (m >> bits) * (x & half) + (a >> bits)
                            c = (m & half) * (x >> bits) + (b & half)
                            high0 = (m >> bits) * (x >> bits) + (b >> bits)
                            high0 += c >> bits
                            low0 = m * x
                            m, x = np.uint64(0xCA5A826395121157), c2
                            a = (m & half) * (x & half)
                            b = (m >> bits) * (x & half) + (a >> bits)
                            c = (m & half) * (x >> bits) + (b & half)
                            high1 = (m >> bits) * (x >> bits) + (b >> bits)
                            high1 += c >> bits
                            low1 = m * x
                            c0, c1 = high1 ^ c1 ^ k0, low1
                            c2, c3 = high0 ^ c3 ^ k1, low0
                            k0 += np.uint64(0x9E3779B97F4A7C15)
                            k1 += np.uint64(0xBB67AE8584CAA73B)
                        words[4 * block] = c0
                        words[4 * block + 1] = c1
                        words[4 * block + 2] = c2
                        words[4 * block + 3] = c3
                        if low:
                            known_low += 4
                        else:
                            known += 4
                word = words[t]
                strip = entries[np.int64(word & np.uint64(4095))]
                if strip == tail:
                    break
                position = strip
                if shift:
                    within = words[at_once + t] >> np.uint64(64 - shift)
                    position = (strip << shift) + np.int64(within)
                root = position * slope
                chance = np.exp(-root * root) * weights[strip]
                excess = np.float64(np.int64(word >> np.uint64(13))) - chance
                if abs(excess) <= margin:
                    break
                negative = np.int64((word >> np.uint64(12)) & np.uint64(1))
                if excess < 0 and position >= negative:
                    signed = position * (1 - 2 * negative)
                    if arc == 0:
                        noise[e, filled] = signed
                    else:
                        noise[e, filled] -= signed
                    filled += 1
                    if filled == size:
                        break
            if filled < size:
                undone[e] = True
                break
