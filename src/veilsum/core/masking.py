"""Phase I: neighbours exchange shares; a mask is what was sent minus what was received.

u_i = sum_j (r_ij - r_ji), so the masks of all parties add up to zero. Shares are drawn
from streams keyed by (root, epoch, i, j): no draw depends on who drew first, and every
driver that knows the root draws the same bits.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from veilsum.core.arrays import AgentRows, EdgeRows, EdgeShares, FloatArray, Vector
from veilsum.core.secrets import Secret
from veilsum.core.topology import Topology
from veilsum.errors import InvalidInputError

LawName = Literal["none", "gaussian"]
LAWS: tuple[LawName, ...] = ("none", "gaussian")

# Streams of one root are told apart by purpose; later purposes take later numbers.
_SHARE_PURPOSE = 1


def check_sigma(sigma: ArrayLike) -> FloatArray:
    """Return sigma as an array; refuse what is not a positive finite number."""
    try:
        array = np.asarray(sigma, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"sigma must be a number, found {sigma!r}") from None
    # Written so that nan is refused too; squares must stay within float64.
    if array.size == 0 or not ((array > 1e-150) & (array < 1e150)).all():
        raise InvalidInputError(
            "sigma must be positive and finite, and its square within float64, found "
            f"{sigma!s}; it is the standard deviation of one coordinate of one share. "
            'For no masks use law = "none"'
        )
    return array


@runtime_checkable
class Law(Protocol):
    """How one share is drawn."""

    @property
    def name(self) -> LawName:
        """The law's name in files and results."""
        ...

    def draw(self, stream: np.random.Generator, size: int) -> Vector:
        """Return one share of `size` coordinates."""
        ...


@dataclass(frozen=True)
class NoMasks:
    """All shares are zero: the plain method, with no privacy at all."""

    name: LawName = field(default="none", init=False)

    def draw(self, stream: np.random.Generator, size: int) -> Vector:  # noqa: ARG002
        """Return zeros."""
        return np.zeros(size)


@dataclass(frozen=True, eq=False)
class GaussianMasks:
    """r ~ N(0, sigma^2 I) in float64: for simulation and reproduction only.

    Its low bits leak on a real machine (identical supports fail in float64).
    `sigma` is one number, or one per coordinate.
    """

    sigma: FloatArray
    name: LawName = field(default="gaussian", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))

    def draw(self, stream: np.random.Generator, size: int) -> Vector:
        """Return sigma times standard normals."""
        if self.sigma.shape not in {(), (size,)}:
            raise InvalidInputError(
                f"sigma must be one number or one for each of {size} coefficients, "
                f"found {self.sigma.size}"
            )
        return self.sigma * stream.standard_normal(size)


@dataclass(frozen=True, repr=False)
class ShareStreams(Secret):
    """The keyed streams of one simulated run; whoever knows the root knows all shares.

    A deployment never uses these: its shares come from the operating system.
    """

    root: int

    @classmethod
    def from_seed(cls, seed: int | None) -> ShareStreams:
        """Return streams that a seed repeats, or fresh ones without a seed."""
        if seed is not None and seed < 0:
            raise InvalidInputError(f"a seed must not be negative, found {seed}")
        return cls(secrets.randbits(128) if seed is None else seed)

    def stream(self, *, epoch: int, sender: int, receiver: int) -> np.random.Generator:
        """Return the generator of the share that `sender` draws for `receiver`."""
        key = (_SHARE_PURPOSE, self.root, epoch, sender, receiver)
        return np.random.default_rng(key)


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Secret):
    """All r_ij of one epoch: (e, 2, p) with r_ij then r_ji, or (e, 1, p) on arcs."""

    topology: Topology
    values: EdgeShares

    def edge_noise(self) -> EdgeRows:
        """Return c_e = r_ij - r_ji for i < j (an arc: r_ij)."""
        if self.topology.directed:
            return self.values[:, 0]
        return self.values[:, 0] - self.values[:, 1]

    def masks(self) -> AgentRows:
        """Return u_i, sent minus received: U = Theta c  (Eq. i_vn)."""
        return np.asarray(self.topology.incidence @ self.edge_noise())


def draw_shares(
    topology: Topology, law: Law, streams: ShareStreams, *, size: int, epoch: int = 0
) -> Shares:
    """Return every share of one epoch, each from its own stream.

    The weight of an edge is the variance of its shares relative to the law's.
    """
    arcs = topology.shares_per_edge
    values = np.empty((topology.n_edges, arcs, size))
    for row, (i, j) in zip(values, topology.edges.tolist(), strict=True):
        for arc, (sender, receiver) in enumerate(((i, j), (j, i))[:arcs]):
            stream = streams.stream(epoch=epoch, sender=sender, receiver=receiver)
            row[arc] = law.draw(stream, size)
    values *= np.sqrt(topology.weights)[:, None, None]
    return Shares(topology, values)
