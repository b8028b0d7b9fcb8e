"""Mask laws: in which numbers coefficients are masked, and how a share is drawn.

    none      zeros: the plain method, with no privacy at all
    gaussian  normal numbers in float64: simulation and reproduction only
    lattice   a discrete Gaussian on the grid 2^-q: integers, and sums are exact
    uniform   residues modulo 2^64 or 2^192: for methods that use sums only

A law also says how a coefficient becomes one of its numbers (`encode`) and how a sum of
masked numbers is read (`decode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import FloatArray
from veilsum.numbers.discrete_gaussian import discrete_gaussian
from veilsum.numbers.fixed_point import (
    COARSEST_BITS,
    DEPLOYED_SPREAD_BITS,
    WORD_BITS,
    Grid,
    as_python_integers,
    check_range,
    fits_words,
    fitting_bits,
    spreading_bits,
)
from veilsum.numbers.shapes import Float
from veilsum.numbers.streams import Stream
from veilsum.numbers.uniform import NumberRows, Numbers, UniformMasks, checked_largest

LawName = Literal["none", "gaussian", "lattice", "uniform"]
LAWS: tuple[LawName, ...] = ("none", "gaussian", "lattice", "uniform")

# Even Python integers must fit a message, with room for masks and sums.
WIDE_BITS = 200

Reals = Float[FloatArray, "*batch p"]


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
    """How one share is drawn, and what numbers it is made of."""

    @property
    def name(self) -> LawName:
        """The law's name in files and results."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers: float64, int64, uint64, or Python integers."""
        ...

    @property
    def number_bytes(self) -> int:
        """How many bytes one number takes on a link."""
        ...

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return one share of `size` coordinates; `weight` multiplies its variance."""
        ...

    def encode(self, values: Reals, labels: Sequence[str] | None = None) -> NumberRows:
        """Return one party's coefficients in the law's numbers."""
        ...

    def decode(self, numbers: NumberRows) -> Reals:
        """Return what unmasked sums, or masked numbers with a magnitude, stand for."""
        ...

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return a sum of the law's numbers as it may leave a party."""
        ...


class _Unbounded:
    """Laws whose numbers have no modulus."""

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return the sum as it is."""
        return numbers


class _Floats(_Unbounded):
    """Laws whose numbers are float64 themselves."""

    dtype = np.dtype(np.float64)
    number_bytes = 8

    def encode(self, values: Reals, labels: Sequence[str] | None = None) -> Reals:
        """Return the values, which must be numbers."""
        check_range(values, None, labels)
        return values

    def decode(self, numbers: Reals) -> Reals:
        """Return the numbers."""
        return numbers


@dataclass(frozen=True)
class NoMasks(_Floats):
    """All shares are zero: the plain method, with no privacy at all."""

    name: LawName = field(default="none", init=False)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return zeros."""
        del stream, weight
        return np.zeros(size)


@dataclass(frozen=True, eq=False)
class GaussianMasks(_Floats):
    """r ~ N(0, sigma^2 I) in float64: for simulation and reproduction only.

    Its low bits leak on a real machine (identical supports fail in float64).
    `sigma` is one number, or one per coordinate.
    """

    sigma: FloatArray
    name: LawName = field(default="gaussian", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return sigma times standard normals."""
        _check_size(self.sigma, size)
        return np.sqrt(weight) * (self.sigma * stream.normals(size))


@dataclass(frozen=True, eq=False)
class LatticeMasks(_Unbounded):
    """Shares from the discrete Gaussian on the grid: exact, and safe in its low bits.

    Attributes:
        sigma: as for `gaussian`; rounded up to a whole number of grid steps.
        grid: where coefficients and shares live.
        largest: the declared range of coefficients, if there is one.
        wide: Python integers instead of 64-bit ones; nothing can overflow then.
        n_parties: how many coefficients are summed, which 64 bits must hold too.
    """

    sigma: FloatArray
    grid: Grid
    largest: float | None = None
    wide: bool = False
    n_parties: int = 1
    name: LawName = field(default="lattice", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))
        for sigma in (self.sigma.min(), self.sigma.max()):
            self.grid.spread(float(sigma))

    @classmethod
    def on(
        cls,
        topology: Topology,
        *,
        sigma: ArrayLike,
        bits: int | None = None,
        largest: float | None = None,
    ) -> LatticeMasks:
        """Return the law for a network: the grid, and how wide its integers must be.

        Without `bits` the grid is the finest that fits 64-bit integers, unless that is
        coarse: then integers are wider.
        """
        spread, n = check_sigma(sigma), topology.n_parties
        reach = 0.0 if largest is None else checked_largest(largest)
        links = int(topology.degrees.max())
        scales = np.sqrt([1.0, *topology.weights])
        most = float(spread.max() * scales.max())
        if bits is None:
            fitting = fitting_bits(sigma=most, links=links, largest=reach, n_parties=n)
            least = float(spread.min() * scales.min())
            enough = spreading_bits(least, 2**DEPLOYED_SPREAD_BITS)
            bits = max(fitting, COARSEST_BITS, enough)
        fits = fits_words(
            bits=bits, sigma=most, links=links, largest=reach, n_parties=n
        )
        return cls(spread, Grid(bits), largest, wide=not fits, n_parties=n)

    @property
    def dtype(self) -> np.dtype[Any]:
        """int64, or Python integers."""
        return np.dtype(object if self.wide else np.int64)

    @property
    def number_bytes(self) -> int:
        """8, or what the widest mask needs."""
        if not self.wide:
            return 8
        steps = self.grid.spread(float(self.sigma.max()))
        reach = ceil((self.largest or 0.0) * 2.0**self.grid.bits)
        # The sign, six bits for masks beyond one sigma, nine for links and weights.
        return -(-(max(steps, reach).bit_length() + 16) // 8)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return whole numbers of grid steps."""
        _check_size(self.sigma, size)
        parts = [
            discrete_gaussian(stream, self.grid.spread(sigma, weight), count)
            for sigma, count in _runs(self.sigma, size)
        ]
        return self._typed(np.concatenate(parts))

    def encode(self, values: Reals, labels: Sequence[str] | None = None) -> NumberRows:
        """Return each coefficient's nearest grid point; refuse one out of range."""
        check_range(values, self._reach(), labels)
        return self._typed(self.grid.quantise(values))

    def decode(self, numbers: NumberRows) -> Reals:
        """Return grid steps as real numbers."""
        return self.grid.to_floats(numbers)

    def _reach(self) -> float:
        """Return the declared range, within what the integers themselves can hold."""
        if self.largest is not None and not self.wide:
            return self.largest  # that it fits was checked with the grid
        room = WIDE_BITS if self.wide else WORD_BITS - 1
        fits = 2.0 ** (room - self.grid.bits) / self.n_parties
        return min(self.largest or fits, fits)

    def _typed(self, numbers: NumberRows) -> NumberRows:
        """Return this law's kind of number; numpy refuses more than 64 bits."""
        if self.wide:
            return as_python_integers(numbers) if numbers.dtype != object else numbers
        return numbers.astype(np.int64)


def make_law(
    name: LawName,
    topology: Topology,
    *,
    sigma: ArrayLike | None = None,
    bits: int | None = None,
    largest: float | None = None,
) -> Law:
    """Return the law with this name on a network.

    >>> triangle = Topology.family("complete:3")
    >>> make_law("lattice", triangle, sigma=1.0, bits=40).dtype
    dtype('int64')
    """
    check_law(name, sigma=sigma, bits=bits, largest=largest)
    if name == "none":
        return NoMasks()
    if name == "uniform":
        return UniformMasks.on(topology, bits=bits, largest=largest)
    assert sigma is not None  # check_law refused it
    if name == "gaussian":
        return GaussianMasks(check_sigma(sigma))
    return LatticeMasks.on(topology, sigma=sigma, bits=bits, largest=largest)


def check_law(
    name: str,
    *,
    sigma: ArrayLike | None,
    bits: int | None = None,
    largest: float | None = None,
) -> None:
    """Refuse an unknown law, and what contradicts a known one."""
    if name not in LAWS:
        raise InvalidInputError(
            f"no mask law is called {name!r}; choose from {', '.join(LAWS)}"
        )
    if name in {"gaussian", "lattice"} and sigma is None:
        raise InvalidInputError(
            f'law = "{name}" needs sigma, the standard deviation of one share'
        )
    if name == "none" and sigma is not None:
        raise InvalidInputError('law = "none" draws no shares: leave sigma out')
    if name == "uniform" and sigma is not None:
        raise InvalidInputError(
            'law = "uniform" hides everything but sums and has no sigma: leave it out'
        )
    if name in {"none", "gaussian"} and not bits is largest is None:
        raise InvalidInputError(
            f'law = "{name}" has no grid and no range: leave them out, or use law = '
            '"lattice"'
        )


def check_deployable(law: Law, *, least_weight: float = 1.0) -> None:
    """Refuse a law that is for simulation, and a lattice too coarse for real secrets.

    `least_weight` is the least variance of a link's shares relative to the law's.
    """
    if law.name in {"none", "gaussian"}:
        raise InvalidInputError(
            f'law = "{law.name}" is for simulation only: real parties use lattice or '
            "uniform"
        )
    if isinstance(law, LatticeMasks):
        sigma = float(law.sigma.min() * np.sqrt(least_weight))
        enough = 2**DEPLOYED_SPREAD_BITS
        if law.grid.spread(float(law.sigma.min()), least_weight) < enough:
            raise InvalidInputError(
                f"between real parties sigma must span at least {enough} steps of the "
                f"grid: use a grid of {spreading_bits(sigma, enough)} bits or more, or "
                "a larger sigma"
            )


def _check_size(sigma: FloatArray, size: int) -> None:
    if sigma.shape not in {(), (size,)}:
        raise InvalidInputError(
            f"sigma must be one number or one for each of {size} coefficients, "
            f"found {sigma.size}"
        )


def _runs(sigma: FloatArray, size: int) -> list[tuple[float, int]]:
    """Return stretches of equal sigma, so that each is drawn at once."""
    if sigma.ndim == 0:
        return [(float(sigma), size)]
    starts = [0, *(np.flatnonzero(np.diff(sigma)) + 1).tolist(), size]
    lengths = np.diff(starts).tolist()
    return [(float(sigma[s]), n) for s, n in zip(starts, lengths, strict=False)]


def grid_bits(law: Law) -> int | None:
    """Return q where the law lives on a grid."""
    grid: Grid | None = getattr(law, "grid", None)
    return None if grid is None else grid.bits
