"""Masks: what parties agree on about them, and the laws by which shares are drawn.

    none      zeros: the plain method, with no privacy at all
    gaussian  normal numbers in float64: simulation and reproduction only
    lattice   a discrete Gaussian on the grid 2^-q: integers, and sums are exact
    uniform   residues modulo 2^64 or 2^192: for methods that use sums only

`Masks` is the agreement, a value that checks itself; `Masks.on` makes its law for a
network. A law draws shares, says how a coefficient becomes one of its numbers
(`encode`) and how a sum of masked numbers is read (`decode`), and answers what others
have to know of it (`hides`, `exact`, ...): nobody else looks at its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, RangeError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray, as_floats
from veilsum.numbers.discrete_gaussian import discrete_gaussian
from veilsum.numbers.fixed_point import (
    COARSEST_BITS,
    DEPLOYED_DEVIATION_BITS,
    WORD_BITS,
    Grid,
    as_python_integers,
    check_range,
    check_sum_fits,
    deviation_bits,
    fits_words,
    fitting_bits,
    summing_bits,
)
from veilsum.numbers.shapes import Float, Shaped
from veilsum.numbers.streams import Stream
from veilsum.numbers.units import unit_of

LawName = Literal["none", "gaussian", "lattice", "uniform"]

# Even Python integers must fit a message, with room for masks and sums.
WIDE_BITS = 200
# A share in steps of a unit spans 2^20 of them where that costs nothing.
FINE_BITS = 10
# Three words hold anything float64 statistics come to, from 2^-96 to 2^94, so that
# nobody has to guess a range.
WIDE_WORDS = 3
WIDE_GRID = 96

Reals = Float[FloatArray, "*batch p"]
Numbers = Shaped[Array[Any], " p"]
NumberRows = Shaped[Array[Any], "*batch p"]


@dataclass(frozen=True, init=False)
class Masks:
    """What parties agree on about their masks; refuses a contradiction.

    Attributes:
        law: its name.
        sigma: standard deviation of one coordinate of one share, one number or one for
            each coefficient.
        grid: bits q of the grid 2^-q; without them a law on a network chooses.
        largest: the declared range of one party's numbers.
        unit: what numbers are rounded to whole ones of, such as a cent; the grid is
            2^-q of it then. Without one numbers are rounded to the grid itself.

    >>> Masks("lattice", sigma=1.0, grid=40).on(Topology.family("complete:3")).dtype
    dtype('int64')
    """

    law: LawName
    sigma: float | tuple[float, ...] | None
    grid: int | None
    largest: float | None
    unit: Fraction | None

    def __init__(
        self,
        law: LawName,
        sigma: ArrayLike | None = None,
        grid: int | None = None,
        largest: float | None = None,
        unit: object = None,
    ) -> None:
        if law not in tuple(LAWS):
            raise InvalidInputError(
                f"no mask law is called {law!r}; choose from {', '.join(LAWS)}"
            )
        keys = LAWS[law].keys
        if "sigma" in keys and sigma is None:
            raise InvalidInputError(
                f'law = "{law}" needs sigma, the standard deviation of one share'
            )
        if "sigma" not in keys and sigma is not None:
            raise InvalidInputError(f'law = "{law}" {LAWS[law].no_sigma}')
        if "grid" not in keys and not grid is largest is None:
            raise InvalidInputError(
                f'law = "{law}" has no grid and no range: leave them out, or use law = '
                '"lattice"'
            )
        counted = None
        if unit is not None and "grid" in keys:
            # Laws without a grid leave numbers as they are.
            counted = unit_of(unit)
        if grid is not None:
            Grid(grid, counted)  # refuses what is none
        given = {
            "law": law,
            "sigma": None if sigma is None else _plain_sigma(sigma),
            "grid": grid,
            "largest": None if largest is None else _checked_largest(largest),
            "unit": counted,
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    def kind(self) -> type[Law]:
        """The law itself, which knows what it hides, needs and is fit for."""
        return LAWS[self.law]

    def on(self, topology: Topology) -> Law:
        """Return the law for a network: its grid, and how wide its numbers must be."""
        return self.kind.on(topology, self)

    def for_sums(
        self, topology: Topology, *, integers: bool = False, wide: bool = False
    ) -> Law:
        """Return the law for sums of statistics, whose range nobody knows beforehand.

        `integers` are to be summed to the last unit; `wide` ones beyond 64 bits.
        """
        return self.kind.for_sums(topology, self, integers=integers, wide=wide)

    def altered(
        self,
        *,
        law: LawName | None = None,
        sigma: ArrayLike | None = None,
        grid: int | None = None,
    ) -> Masks:
        """Return other masks; what is None stays.

        A new law takes over what it has: sigma, or a grid, and not the other's.
        """
        name = law or self.law
        keys = LAWS[name].keys if name in LAWS else ()
        kept = {key: getattr(self, key) for key in (*keys, "unit")}
        given = {"sigma": sigma, "grid": grid}
        changes = {key: value for key, value in given.items() if value is not None}
        return Masks(name, **{**kept, **changes})


class Law(ABC):
    """How one share is drawn, what numbers it is made of, and what holds of it.

    Class attributes:
        name: in files and results.
        keys: what of `Masks` it is made with.
        no_sigma: why there is none, where there is none.
        hides: whether shares are more than zeros.
        exact: whether its numbers are integers, so that masks cancel to the last unit.
        sums_only: whether a masked number means nothing until all are summed.
        deployable: whether it is made for real parties; their generators are used then.
    """

    name: ClassVar[LawName]
    keys: ClassVar[tuple[str, ...]] = ()
    no_sigma: ClassVar[str] = "has no sigma: leave it out"
    hides: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    sums_only: ClassVar[bool] = False
    deployable: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def on(cls, topology: Topology, masks: Masks) -> Law:
        """Return the law of these masks for a network; see `Masks.on`."""

    @classmethod
    def for_sums(
        cls, topology: Topology, masks: Masks, *, integers: bool, wide: bool
    ) -> Law:
        """Return the law for sums of statistics; see `Masks.for_sums`."""
        del integers, wide
        return cls.on(topology, masks)

    @property
    @abstractmethod
    def masks(self) -> Masks:
        """What the law was made with, the grid it has chosen included."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers: float64, int64, uint64, or Python integers."""

    @property
    @abstractmethod
    def number_bytes(self) -> int:
        """How many bytes one number takes on a link."""

    @abstractmethod
    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return one share of `size` coordinates; `weight` multiplies its variance."""

    @abstractmethod
    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return one party's coefficients in the law's numbers."""

    @abstractmethod
    def decode(self, numbers: NumberRows) -> NumberRows:
        """Return what unmasked sums, or masked numbers with a magnitude, stand for."""

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return a sum of the law's numbers as it may leave a party."""
        return numbers

    def check_deployable(self, *, least_weight: float = 1.0) -> None:
        """Refuse a law that is not fit for real secrets.

        `least_weight` is the least variance of a link's shares relative to the law's.
        """
        del least_weight
        if not self.deployable:
            fit = " or ".join(name for name in LAWS if LAWS[name].deployable)
            raise InvalidInputError(
                f'law = "{self.name}" is for simulation only: real parties use {fit}'
            )


class _Floats(Law):
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

    name: ClassVar[LawName] = "none"
    no_sigma: ClassVar[str] = "draws no shares: leave sigma out"
    hides: ClassVar[bool] = False

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> NoMasks:
        """Return the one there is."""
        del topology, masks
        return cls()

    @property
    def masks(self) -> Masks:
        """None, by name."""
        return Masks(self.name)

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

    name: ClassVar[LawName] = "gaussian"
    keys: ClassVar[tuple[str, ...]] = ("sigma",)

    sigma: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> GaussianMasks:
        """Return the law; float64 is the same on every network."""
        del topology
        return cls(np.asarray(masks.sigma))

    @property
    def masks(self) -> Masks:
        """What it was made with."""
        return Masks(self.name, self.sigma)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return sigma times standard normals."""
        _check_size(self.sigma, size)
        return np.sqrt(weight) * (self.sigma * stream.normals(size))


@dataclass(frozen=True, eq=False)
class LatticeMasks(Law):
    """Shares from the discrete Gaussian on the grid: exact, and safe in its low bits.

    Attributes:
        sigma: as for `gaussian`; rounded up to a whole number of grid steps.
        grid: where coefficients and shares live.
        largest: the declared range of coefficients, if there is one.
        wide: Python integers instead of 64-bit ones; nothing can overflow then.
        n_parties: how many coefficients are summed, which 64 bits must hold too.
    """

    name: ClassVar[LawName] = "lattice"
    keys: ClassVar[tuple[str, ...]] = ("sigma", "grid", "largest")
    exact: ClassVar[bool] = True
    deployable: ClassVar[bool] = True

    sigma: FloatArray
    grid: Grid
    largest: float | None = None
    wide: bool = False
    n_parties: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_sigma(self.sigma))
        for sigma in (self.sigma.min(), self.sigma.max()):
            self.grid.deviation(float(sigma))

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> LatticeMasks:
        """Return the law for a network: the grid, and how wide its integers must be.

        Without a grid it is the finest that fits 64-bit integers, unless that is
        coarse: then integers are wider.
        """
        sigma, n = np.asarray(masks.sigma), topology.n_parties
        unit = float(masks.unit or 1)
        reach = (masks.largest or 0.0) / unit
        links = int(topology.degrees.max())
        scales = np.sqrt([1.0, *topology.weights]) / unit
        most = float(sigma.max() * scales.max())
        bits = masks.grid
        if bits is None:
            fitting = fitting_bits(sigma=most, links=links, largest=reach, n_parties=n)
            least = float(sigma.min() * scales.min())
            enough = deviation_bits(least, 2**DEPLOYED_DEVIATION_BITS)
            if masks.unit is None:
                bits = max(fitting, COARSEST_BITS, enough)
            else:
                # Only masks are finer than the unit: what they have is room for range.
                bits = max(0, enough, min(fitting, enough + FINE_BITS))
        fits = fits_words(
            bits=bits, sigma=most, links=links, largest=reach, n_parties=n
        )
        grid = Grid(bits, masks.unit)
        return cls(sigma, grid, masks.largest, wide=not fits, n_parties=n)

    @property
    def masks(self) -> Masks:
        """What it was made with, and the grid it has."""
        grid = self.grid
        return Masks(self.name, self.sigma, grid.bits, self.largest, grid.unit)

    @property
    def dtype(self) -> np.dtype[Any]:
        """int64, or Python integers."""
        return np.dtype(object if self.wide else np.int64)

    @property
    def number_bytes(self) -> int:
        """8, or what the widest mask needs."""
        if not self.wide:
            return 8
        steps = self.grid.deviation(float(self.sigma.max()))
        reach = ceil(Fraction(self.largest or 0) / self.grid.exact_step)
        # The sign, six bits for masks beyond one sigma, nine for links and weights.
        return -(-(max(steps, reach).bit_length() + 16) // 8)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return whole numbers of grid steps."""
        _check_size(self.sigma, size)
        parts = [
            discrete_gaussian(stream, self.grid.deviation(sigma, weight), count)
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

    def check_deployable(self, *, least_weight: float = 1.0) -> None:
        """Refuse a grid too coarse for real secrets."""
        sigma, enough = float(self.sigma.min()), 2**DEPLOYED_DEVIATION_BITS
        if self.grid.deviation(sigma, least_weight) < enough:
            sigma /= float(self.grid.unit or 1)
            bits = deviation_bits(float(sigma * np.sqrt(least_weight)), enough)
            raise InvalidInputError(
                f"between real parties sigma must span at least {enough} steps of the "
                f"grid: use a grid of {bits} bits or more, or a larger sigma"
            )

    def _reach(self) -> float:
        """Return the declared range, within what the integers themselves can hold."""
        if self.largest is not None and not self.wide:
            return self.largest  # that it fits was checked with the grid
        room = WIDE_BITS if self.wide else WORD_BITS - 1
        fits = 2.0**room * self.grid.step / self.n_parties
        return min(self.largest or fits, fits)

    def _typed(self, numbers: NumberRows) -> NumberRows:
        """Return this law's kind of number; numpy refuses more than 64 bits."""
        if self.wide:
            return as_python_integers(numbers) if numbers.dtype != object else numbers
        return numbers.astype(np.int64)


@dataclass(frozen=True)
class UniformMasks(Law):
    """Uniform residues modulo 2^64, or 2^192: a masked number alone says nothing.

    A residue has one word of 64 bits, which is what a sum of declared range needs, or
    three of them, whose numbers are Python integers.

    Sums of masked numbers are exact as long as the true sum fits, which is checked from
    the number of parties and the declared range.

    Attributes:
        grid: what a residue counts.
        n_parties: how many numbers are summed.
        largest: the declared range of one party's numbers.
        words: 64-bit words of a residue.
        whole: whether values are integers, and their sums are to be so.
    """

    name: ClassVar[LawName] = "uniform"
    keys: ClassVar[tuple[str, ...]] = ("grid", "largest")
    no_sigma: ClassVar[str] = "hides everything but sums and has no sigma: leave it out"
    exact: ClassVar[bool] = True
    sums_only: ClassVar[bool] = True
    deployable: ClassVar[bool] = True

    grid: Grid
    n_parties: int
    largest: float | None = None
    words: int = 1
    whole: bool = False

    def __post_init__(self) -> None:
        check_sum_fits(
            bits=self.grid.bits - self._more,
            n_parties=self.n_parties,
            largest=self.largest,
            unit=self.grid.unit,
        )

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> UniformMasks:
        """Return the law for a network; without a grid the finest that fits."""
        n, bits = topology.n_parties, masks.grid
        if bits is None:
            bits = 0
            if masks.unit is None:
                bits = summing_bits(n_parties=n, largest=masks.largest)
        return cls(Grid(bits, masks.unit), n, masks.largest)

    @classmethod
    def for_sums(
        cls, topology: Topology, masks: Masks, *, integers: bool, wide: bool
    ) -> UniformMasks:
        """Return the law that needs no range, unless a grid was chosen."""
        if integers:
            if masks.grid is not None:
                raise InvalidInputError("integers are summed exactly: leave grid out")
            return cls.integers(topology, wide=wide, largest=masks.largest)
        if masks.grid is None:
            return cls.wide(topology, largest=masks.largest)
        if masks.grid < COARSEST_BITS:
            raise InvalidInputError(
                f"a grid of 2^{-masks.grid} would round statistics away: use "
                f"{COARSEST_BITS} bits or more, or leave grid out"
            )
        return cls.on(topology, masks)

    @classmethod
    def wide(cls, topology: Topology, *, largest: float | None = None) -> UniformMasks:
        """Return the law that needs no range: three words, a grid of 2^-96."""
        reach = None if largest is None else _checked_largest(largest)
        return cls(Grid(WIDE_GRID), topology.n_parties, reach, words=WIDE_WORDS)

    @classmethod
    def integers(
        cls, topology: Topology, *, wide: bool = False, largest: float | None = None
    ) -> UniformMasks:
        """Return the law for sums of integers, exact to the last unit."""
        n, reach = topology.n_parties, None
        if largest is not None:
            reach = _checked_largest(largest)
            wide = wide or n * reach > 2.0**WORD_BITS
        return cls(Grid(0), n, reach, words=WIDE_WORDS if wide else 1, whole=True)

    @property
    def masks(self) -> Masks:
        """What it was made with, and the grid it has."""
        grid = self.grid
        return Masks(self.name, None, grid.bits, self.largest, grid.unit)

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint64, or Python integers."""
        return np.dtype(np.uint64 if self.words == 1 else object)

    @property
    def number_bytes(self) -> int:
        """Eight for each word."""
        return 8 * self.words

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return random words; there is no more or less of noise to weigh."""
        del weight
        words = stream.words(self.words * size)
        if self.words == 1:
            return words
        parts = [as_python_integers(part) for part in words.reshape(self.words, size)]
        shifts = range(0, 64 * self.words, 64)
        joined = [part << shift for part, shift in zip(parts, shifts, strict=True)]
        return self.wrap(np.sum(joined, axis=0))

    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return each coefficient's nearest grid point as a residue."""
        whole = self._whole(values) if self.whole else None
        self._check_range(values, labels)
        points = self.grid.quantise(values) if whole is None else whole
        if self.words == 1:
            return points.astype(np.int64).view(np.uint64)
        return as_python_integers(points) if points.dtype != object else points

    def decode(self, numbers: NumberRows) -> NumberRows:
        """Return a sum of all parties' numbers, masks having cancelled."""
        if self.words == 1:
            signed = np.ascontiguousarray(numbers).view(np.int64)
        else:
            signed = self.wrap(numbers)
        return signed if self.whole else self.grid.to_floats(signed)

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return the residues; 64-bit words wrap around by themselves.

        Unreduced, a sum of residues would show how it came about.
        """
        if self.words == 1:
            return numbers
        half = 1 << (64 * self.words - 1)
        return np.asarray((numbers + half) % (2 * half) - half)

    def _check_range(self, values: NumberRows, labels: Sequence[str] | None) -> None:
        try:
            check_range(values.astype(np.float64), self._reach(), labels)
        except OverflowError:
            raise RangeError("an integer is beyond 1e308: leave it out") from None
        except RangeError as error:
            if self.largest is not None:
                raise
            # No wider range can be declared than what the words hold.
            way_out = "scale it" if not self.whole else "sum with wide = True"
            if self.whole and self.words > 1:
                way_out = "leave it out"
            told = (
                f"{text.partition('; correct the value')[0]}; correct the value, or "
                f"{way_out}"
                for text in (str(error), error.plain)
            )
            raise RangeError(next(told), plain=next(told)) from None

    @property
    def _more(self) -> int:
        """How many bits there are beyond the first word."""
        return 64 * (self.words - 1)

    def _reach(self) -> float:
        fits = 2.0 ** (WORD_BITS + self._more) * self.grid.step / self.n_parties
        return fits if self.largest is None else min(self.largest, fits)

    @staticmethod
    def _whole(values: NumberRows) -> NumberRows:
        """Return integers as they are; refuse what would be rounded."""
        if values.dtype.kind == "u":
            return as_python_integers(values)
        exact = values.dtype.kind == "i" or (
            values.dtype == object
            and all(isinstance(one, int) for one in values.ravel())
        )
        if not exact:
            raise InvalidInputError(
                f"a sum of integers takes integers, found numbers of type "
                f"{values.dtype}; convert them, or sum reals"
            )
        return values


LAWS: Mapping[str, type[Law]] = {
    law.name: law for law in (NoMasks, GaussianMasks, LatticeMasks, UniformMasks)
}


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


def _plain_sigma(sigma: ArrayLike) -> float | tuple[float, ...]:
    """Return sigma, checked, as plain numbers that can be compared."""
    array = check_sigma(sigma)
    if array.ndim > 1:
        raise InvalidInputError(
            "sigma must be one number or one for each coefficient, found an array of "
            f"shape {array.shape}"
        )
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _checked_largest(largest: float) -> float:
    """Return a declared range, which must be positive."""
    value = float(as_floats(largest, what="the range of coefficients"))
    if not value > 0:
        raise InvalidInputError(
            f"the range of coefficients must be positive, found {largest}"
        )
    return value


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
