"""Phase I: neighbours exchange shares; a mask is what was sent minus what was received.

u_i = sum_j (r_ij - r_ji), so the masks of all parties add up to zero. Shares are drawn
from streams keyed by (root, epoch, i, j): no draw depends on who drew first, and every
driver that knows the root draws the same bits. How a share is drawn, and in which
numbers, is its law: see `laws`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, as_whole
from veilsum.numbers.laws import Law, Numbers
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Shaped
from veilsum.numbers.streams import Keystream, SeededStream, Stream

# Streams of one root are told apart by purpose; later purposes take later numbers.
_SHARE_PURPOSE = 1

# float64, or integers: what the law draws.
ShareArray = Shaped[Array[np.generic], "e arcs p"]
EdgeNoise = Shaped[Array[np.generic], "e p"]
MaskRows = Shaped[Array[np.generic], "n p"]


@runtime_checkable
class Streams(Protocol):
    """Where each share's randomness comes from."""

    def stream(self, *, epoch: int, sender: int, receiver: int) -> Stream:
        """Return the stream of the share that `sender` draws for `receiver`."""
        ...

    def share(
        self,
        law: Law,
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
class ShareStreams(Streams, Secret):
    """The keyed streams of one simulated run; whoever knows the root knows all shares.

    A deployment never uses these: its shares come from `SystemStreams`.
    """

    root: int

    @classmethod
    def from_seed(cls, seed: int | None) -> ShareStreams:
        """Return streams that a seed repeats, or fresh ones without a seed."""
        if seed is None:
            return cls(secrets.randbits(128))
        return cls(as_whole(seed, what="a seed", least=0))

    def stream(self, *, epoch: int, sender: int, receiver: int) -> SeededStream:
        """Return the stream of the share that `sender` draws for `receiver`."""
        key = (_SHARE_PURPOSE, self.root, epoch, sender, receiver)
        return SeededStream(np.random.default_rng(key))


@dataclass(frozen=True, repr=False)
class SystemStreams(Streams, Secret):
    """Fresh keystreams from the operating system: nothing to seed, nothing to repeat.

    A share drawn from these is drawn once: whoever needs it again has to keep it.
    """

    def stream(self, *, epoch: int, sender: int, receiver: int) -> Keystream:
        """Return a keystream under a new key, the same one never twice."""
        del epoch, sender, receiver
        return Keystream.from_os()


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Secret):
    """All r_ij of one epoch: (e, 2, p) with r_ij then r_ji, or (e, 1, p) on arcs."""

    topology: Topology
    values: ShareArray

    def edge_noise(self) -> EdgeNoise:
        """Return c_e = r_ij - r_ji for i < j (an arc: r_ij)."""
        if self.topology.directed:
            return self.values[:, 0]
        return np.asarray(np.subtract(self.values[:, 0], self.values[:, 1]))

    def masks(self) -> MaskRows:
        """Return u_i, sent minus received: U = Theta c  (Eq. i_vn)."""
        return at_both_ends(self.topology, self.edge_noise())


def at_both_ends(topology: Topology, noise: EdgeNoise) -> MaskRows:
    """Return Theta c: each link's noise added to its first end, taken from the other.

    Integers stay integers, of 64 bits or of any length.
    """
    if noise.dtype == np.float64:
        return np.asarray(topology.incidence @ noise)
    if noise.dtype != object:
        # Without a sign every sum wraps around, and its bits are those of one with it.
        words = noise.view(f"u{noise.itemsize}")
        ends = topology.incidence.astype(np.int64).astype(words.dtype)
        return np.asarray(ends @ words).view(noise.dtype)
    masks = np.zeros((topology.n_parties, noise.shape[1]), dtype=noise.dtype)
    np.add.at(masks, topology.edges[:, 0], noise)
    np.subtract.at(masks, topology.edges[:, 1], noise)
    return masks


def draw_shares(
    topology: Topology, law: Law, streams: Streams, *, size: int, epoch: int = 0
) -> Shares:
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
    return Shares(topology, values)
