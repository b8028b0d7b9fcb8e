"""Masks: what parties agree on about them, and the laws by which shares are drawn.

    none      zeros: the plain method, with no privacy at all
    gaussian  normal numbers in float64: simulation and reproduction only
    lattice   a discrete Gaussian on the grid 2^-q: integers, and sums are exact
    uniform   residues modulo powers of two: for methods that use sums only

`Masks` is the agreement, a value that checks itself; `Masks.on` makes its law for a
network, `Masks.for_sums` the one for sums of whole numbers. A law draws shares, says
how a coefficient becomes one of its numbers (`encode`) and how a sum of masked numbers
is read (`decode`), and answers what others have to know of it (`hides`, `exact`, ...):
nobody else looks at its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from math import ceil, log2
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, NumericalError, RangeError
from veilsum.graphs.topology import Topology
from veilsum.masks.discrete_gaussian import (
    MOST_DEVIATION_BITS,
    Runs,
    discrete_gaussian_rows,
    discrete_gaussians,
)
from veilsum.masks.fixed_point import (
    COARSEST_BITS,
    DEPLOYED_DEVIATION_BITS,
    LEAST_DEVIATION,
    SURE_BITS,
    WORD_BITS,
    FixedPointGrid,
    ceil_sqrt,
    check_masked_range,
    check_sum_fits,
    fitting_mask_bits,
    grid_bits_of_deviation,
    masks_fit_words,
    summing_mask_bits,
)
from veilsum.masks.streams import Stream
from veilsum.numbers.arrays import Array, FloatArray, as_floats
from veilsum.numbers.limbs import (
    MOST_LIMBS,
    LimbModuli,
    as_python_integers,
    ends_of_whole_numbers,
    from_limbs,
    is_wide_integer_type,
    limb_type,
    limbs_from_integers,
    limbs_to_integers,
)
from veilsum.numbers.shapes import Float, Shaped
from veilsum.numbers.units import UnitCounts, numeric_unit_of

LawName = Literal["none", "gaussian", "lattice", "uniform"]

# Numbers of all limbs have at most so many bits, with room for masks and sums.
WIDE_BITS = 200
# A share in steps of a unit spans 2^20 of them where that costs nothing.
FINE_BITS = 10
# A total has at most so many words of 64 bits.
MOST_WORDS = 3

Reals = Float[FloatArray, "*batch p"]
Numbers = Shaped[Array[Any], " p"]
NumberRows = Shaped[Array[Any], "*batch p"]


@dataclass(frozen=True, init=False)
class Masks:
    """Agreed options of the masks; contradictions are rejected.

    Attributes:
        law: name of the law.
        sigma: standard deviation of one coordinate of one share, one number or one for
            each coefficient.
        grid: bits q of the grid 2^-q; by default a law on a network chooses them.
        largest: the declared range of one party's numbers.
        unit: unit to whose multiples numbers are rounded, such as a cent; the grid is
            then 2^-q of it. Without one numbers are rounded to the grid itself.

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
                f"no mask law is called {law!r}; choose from {', '.join(LAWS)}",
                code="unknown-law",
            )
        keys = LAWS[law].keys
        if "sigma" in keys and sigma is None:
            raise InvalidInputError(
                f'law = "{law}" needs sigma, the standard deviation of one share',
                code="sigma-missing",
            )
        if "sigma" not in keys and sigma is not None:
            raise InvalidInputError(
                f'law = "{law}" {LAWS[law].no_sigma}', code="sigma-not-accepted"
            )
        if "grid" not in keys and not grid is largest is None:
            raise InvalidInputError(
                f'law = "{law}" has no grid and no range: leave them out, or use law = '
                '"lattice"',
                code="grid-not-accepted",
            )
        counted = None
        if unit is not None and "grid" in keys:
            # Laws without a grid leave numbers as they are.
            counted = numeric_unit_of(unit)
        if grid is not None:
            FixedPointGrid(grid, counted)  # refuses what is none
        given = {
            "law": law,
            "sigma": None if sigma is None else _plain_mask_sigma(sigma),
            "grid": grid,
            "largest": None if largest is None else check_largest_masked_value(largest),
            "unit": counted,
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    def rounding(self) -> Fraction | None:
        """Unit to whose multiples numbers are rounded, if it is known."""
        if self.grid is None:
            return self.unit
        return FixedPointGrid(self.grid, self.unit).rounding

    @property
    def kind(self) -> type[MaskLaw]:
        """The law itself, which knows what it hides, needs and is fit for."""
        return LAWS[self.law]

    def on(self, topology: Topology) -> MaskLaw:
        """Return the law for a network: its grid, and how wide its numbers must be."""
        return self.kind.on(topology, self)

    def for_sums(self, topology: Topology, counts: UnitCounts) -> MaskLaw:
        """Return the law for sums of whole numbers, of which it is known what they are.

        Their range follows from that, too.
        """
        if self.grid is not None:
            raise InvalidInputError(
                "sums of whole numbers have no grid: leave grid out, and say with unit "
                "what a number counts",
                code="grid-not-accepted",
            )
        if self.largest is not None:
            raise InvalidInputError(
                "what is summed has the range of its columns: leave largest out, and "
                "agree on a minimum and a maximum of each",
                code="range-not-accepted",
            )
        if not counts.units or not 1 <= counts.words <= MOST_WORDS:
            raise InvalidInputError(
                f"totals have at most {64 * MOST_WORDS} bits, and these may need "
                f"{counts.bits}: agree on coarser units, or on narrower ranges",
                code="sum-too-large",
            )
        return self.kind.for_sums(topology, self, counts)

    def altered(
        self,
        *,
        law: LawName | None = None,
        sigma: ArrayLike | None = None,
        grid: int | None = None,
        unit: Fraction | None = None,
    ) -> Masks:
        """Return other masks; what is None stays.

        A new law takes over what it has: sigma, or a grid, and not the other's.
        """
        name = law or self.law
        keys = LAWS[name].keys if name in LAWS else ()
        kept = {key: getattr(self, key) for key in (*keys, "unit")}
        given = {"sigma": sigma, "grid": grid, "unit": unit}
        changes = {key: value for key, value in given.items() if value is not None}
        return Masks(name, **{**kept, **changes})


class MaskLaw(ABC):
    """Law of one share: its distribution, the type of its numbers, its properties.

    Class attributes:
        name: name in files and results.
        keys: fields of `Masks` that it takes.
        no_sigma: reason why sigma is not accepted, where it is not.
        hides: whether shares are more than zeros.
        exact: whether its numbers are integers, so that masks cancel to the last unit.
        sums_only: whether a masked number means nothing until all are summed.
        deployable: whether it suits real parties, whose generators are used then.
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
    def on(cls, topology: Topology, masks: Masks) -> MaskLaw:
        """Return the law of these masks for a network; see `Masks.on`."""

    @classmethod
    def for_sums(cls, topology: Topology, masks: Masks, counts: UnitCounts) -> MaskLaw:
        """Return the law for sums of whole numbers; see `Masks.for_sums`."""
        del topology, masks, counts
        raise InvalidInputError(
            f'law = "{cls.name}" masks real numbers, and sums are of whole ones: use '
            'law = "uniform" or "lattice"',
            code="law-of-real-numbers",
        )

    @property
    @abstractmethod
    def masks(self) -> Masks:
        """Options of the law, including the grid that it has chosen."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers: float64, int64, uint64, or limbs."""

    @property
    @abstractmethod
    def number_bytes(self) -> int:
        """Bytes of one number on a link."""

    @abstractmethod
    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return one share of `size` coordinates; `weight` multiplies its variance."""

    def draw_rows(
        self, streams: Sequence[Stream], size: int, weight: float = 1.0
    ) -> NumberRows:
        """Return one share for each stream: the same numbers as `draw`, row by row."""
        return np.stack([self.draw(stream, size, weight) for stream in streams])

    @abstractmethod
    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return one party's coefficients in the law's numbers."""

    @abstractmethod
    def decode(self, numbers: NumberRows) -> NumberRows:
        """Return what unmasked sums, or masked numbers with a magnitude, stand for."""

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return a sum of the law's numbers as it may leave a party.

        Python integers that stand for the law's numbers are taken, too.
        """
        return numbers

    def layout(self, size: int) -> LimbModuli | None:
        """Return how a vector of residues, or of limbs, travels; None for others."""
        if not is_wide_integer_type(self.dtype):
            return None
        return LimbModuli(((size, 8 * self.dtype.itemsize),))

    def of_places(self, places: Sequence[int]) -> MaskLaw:
        """Return the law of some of its coefficients, each as often as it is named."""
        del places
        return self

    def without_range(self) -> MaskLaw:
        """Return the law where nobody has declared a range of values."""
        return self

    def in_one_word(self) -> MaskLaw:
        """Return the law of shorter numbers that are drawn alike, if there is one."""
        return self

    @property
    def counted(self) -> UnitCounts | None:
        """Units of its numbers, if sums are of whole numbers."""
        return None

    def check_deployable(self, *, least_weight: float = 1.0) -> None:
        """Refuse a law that is not fit for real secrets.

        `least_weight` is the least variance of a link's shares relative to the law's.
        """
        del least_weight
        if not self.deployable:
            fit = " or ".join(name for name in LAWS if LAWS[name].deployable)
            raise InvalidInputError(
                f'law = "{self.name}" is for simulation only: real parties use {fit}',
                code="law-not-deployable",
            )


class _FloatMasks(MaskLaw):
    """Laws whose numbers are float64 themselves."""

    dtype = np.dtype(np.float64)
    number_bytes = 8

    def encode(self, values: Reals, labels: Sequence[str] | None = None) -> Reals:
        check_masked_range(values, None, labels)
        return values

    def decode(self, numbers: Reals) -> Reals:
        return numbers


@dataclass(frozen=True)
class NoMasks(_FloatMasks):
    """All shares are zero: the plain method, with no privacy at all."""

    name: ClassVar[LawName] = "none"
    no_sigma: ClassVar[str] = "draws no shares: leave sigma out"
    hides: ClassVar[bool] = False

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> NoMasks:
        """Return the one there is."""
        del topology, masks
        return cls()

    @classmethod
    def for_sums(cls, topology: Topology, masks: Masks, counts: UnitCounts) -> MaskLaw:
        """Return plain integers."""
        del topology, masks
        return PlainCounts(counts)

    @property
    def masks(self) -> Masks:
        """None, by name."""
        return Masks(self.name)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return zeros."""
        del stream, weight
        return np.zeros(size)


@dataclass(frozen=True, eq=False)
class GaussianMasks(_FloatMasks):
    """r ~ N(0, sigma^2 I) in float64: for simulation and reproduction only.

    Its low bits leak on a real machine (identical supports fail in float64).
    `sigma` is one number, or one per coordinate.
    """

    name: ClassVar[LawName] = "gaussian"
    keys: ClassVar[tuple[str, ...]] = ("sigma",)

    sigma: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_mask_sigma(self.sigma))

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> GaussianMasks:
        """Return the law; float64 is the same on every network."""
        del topology
        return cls(np.asarray(masks.sigma))

    @property
    def masks(self) -> Masks:
        """Options of the law."""
        return Masks(self.name, self.sigma)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return sigma times standard normals."""
        _check_mask_size(self.sigma, size)
        return np.sqrt(weight) * (self.sigma * stream.normals(size))

    def of_places(self, places: Sequence[int]) -> GaussianMasks:
        """Return the law with each one's sigma."""
        if self.sigma.ndim == 0:
            return self
        return replace(self, sigma=self.sigma[list(places)])


@dataclass(frozen=True, eq=False)
class LatticeMasks(MaskLaw):
    """Shares from the discrete Gaussian on the grid: exact, and safe in its low bits.

    Attributes:
        sigma: as for `gaussian`; rounded up to a whole number of grid steps.
        grid: where coefficients and shares live.
        largest: the declared range of coefficients, if there is one.
        wide: integers of `MOST_LIMBS` limbs instead of 64 bits.
        n_parties: how many coefficients are summed, which 64 bits must hold too.
    """

    name: ClassVar[LawName] = "lattice"
    keys: ClassVar[tuple[str, ...]] = ("sigma", "grid", "largest")
    exact: ClassVar[bool] = True
    deployable: ClassVar[bool] = True

    sigma: FloatArray
    grid: FixedPointGrid
    largest: float | None = None
    wide: bool = False
    n_parties: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_mask_sigma(self.sigma))
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
        ends = (topology.weights.min(initial=1.0), topology.weights.max(initial=1.0))
        scales = np.sqrt(ends) / unit
        most = float(sigma.max() * scales.max())
        bits = masks.grid
        if bits is None:
            fitting = fitting_mask_bits(
                sigma=most, links=links, largest=reach, n_parties=n
            )
            least = float(sigma.min() * scales.min())
            enough = grid_bits_of_deviation(least, 2**DEPLOYED_DEVIATION_BITS)
            if masks.unit is None:
                bits = max(fitting, COARSEST_BITS, enough)
            else:
                # Only masks are finer than the unit: what they have is room for range.
                bits = max(0, enough, min(fitting, enough + FINE_BITS))
        fits = masks_fit_words(
            bits=bits, sigma=most, links=links, largest=reach, n_parties=n
        )
        grid = FixedPointGrid(bits, masks.unit)
        return cls(sigma, grid, masks.largest, wide=not fits, n_parties=n)

    @classmethod
    def for_sums(cls, topology: Topology, masks: Masks, counts: UnitCounts) -> MaskLaw:
        """Return the law whose steps are the numbers' own units."""
        return LatticeCountMasks.on_units(topology, np.asarray(masks.sigma), counts)

    @property
    def masks(self) -> Masks:
        """Options of the law, with its grid."""
        grid = self.grid
        return Masks(self.name, self.sigma, grid.bits, self.largest, grid.unit)

    @property
    def dtype(self) -> np.dtype[Any]:
        """int64, or limbs."""
        return limb_type(MOST_LIMBS) if self.wide else np.dtype(np.int64)

    @property
    def number_bytes(self) -> int:
        """8, or those of all limbs."""
        return self.dtype.itemsize

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return whole numbers of grid steps."""
        drawn = discrete_gaussians(stream, self._runs(size, weight))
        return _mask_numbers_of_type(drawn, self.dtype)

    def draw_rows(
        self, streams: Sequence[Stream], size: int, weight: float = 1.0
    ) -> NumberRows:
        """Return whole numbers of grid steps, one row for each stream."""
        drawn = discrete_gaussian_rows(streams, self._runs(size, weight))
        return _mask_numbers_of_type(drawn, self.dtype)

    def _runs(self, size: int, weight: float) -> Runs:
        _check_mask_size(self.sigma, size)
        runs = _stretches_of_equal_sigma(self.sigma, size)
        steps = {one: self.grid.deviation(one, weight) for one in {s for s, _ in runs}}
        return tuple((steps[s], n) for s, n in runs)

    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return each coefficient's nearest grid point; refuse one out of range.

        Python integers are whole numbers of what is rounded to.
        """
        check_masked_range(self.grid.reals(values), self._reach(), labels)
        return _mask_numbers_of_type(self.grid.quantise(values), self.dtype)

    def decode(self, numbers: NumberRows) -> Reals:
        """Return grid steps as real numbers."""
        return self.grid.to_floats(limbs_to_integers(numbers))

    def of_places(self, places: Sequence[int]) -> LatticeMasks:
        """Return the law with each one's sigma."""
        if self.sigma.ndim == 0:
            return self
        return replace(self, sigma=self.sigma[list(places)])

    def without_range(self) -> LatticeMasks:
        """Return the same grid and integers."""
        return replace(self, largest=None)

    def check_deployable(self, *, least_weight: float = 1.0) -> None:
        """Refuse a grid too coarse for real secrets."""
        sigma, enough = float(self.sigma.min()), 2**DEPLOYED_DEVIATION_BITS
        if self.grid.deviation(sigma, least_weight) < enough:
            sigma /= float(self.grid.unit or 1)
            bits = grid_bits_of_deviation(float(sigma * np.sqrt(least_weight)), enough)
            raise InvalidInputError(
                f"between real parties sigma must span at least {enough} steps of the "
                f"grid: use a grid of {bits} bits or more, or a larger sigma",
                code="grid-too-coarse",
            )

    def _reach(self) -> float:
        """Return the declared range, within what the integers themselves can hold."""
        if self.largest is not None and not self.wide:
            return self.largest  # that it fits was checked with the grid
        room = WIDE_BITS if self.wide else WORD_BITS - 1
        fits = 2.0**room * self.grid.step / self.n_parties
        return min(self.largest or fits, fits)


@dataclass(frozen=True)
class UniformMasks(MaskLaw):
    """Uniform residues modulo 2^64 of reals: a masked number alone says nothing.

    Sums of masked numbers are exact as long as the true sum fits, which is checked from
    the number of parties and the declared range.

    Attributes:
        grid: what a residue counts.
        n_parties: how many numbers are summed.
        largest: the declared range of one party's numbers.
    """

    name: ClassVar[LawName] = "uniform"
    keys: ClassVar[tuple[str, ...]] = ("grid", "largest")
    no_sigma: ClassVar[str] = "hides everything but sums and has no sigma: leave it out"
    exact: ClassVar[bool] = True
    sums_only: ClassVar[bool] = True
    deployable: ClassVar[bool] = True

    grid: FixedPointGrid
    n_parties: int
    largest: float | None = None

    dtype = np.dtype(np.uint64)
    number_bytes = 8

    def __post_init__(self) -> None:
        check_sum_fits(
            bits=self.grid.bits,
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
                bits = summing_mask_bits(n_parties=n, largest=masks.largest)
        return cls(FixedPointGrid(bits, masks.unit), n, masks.largest)

    @classmethod
    def for_sums(cls, topology: Topology, masks: Masks, counts: UnitCounts) -> MaskLaw:
        """Return residues as wide as the largest total."""
        del topology, masks
        return UniformCountMasks(counts)

    @property
    def masks(self) -> Masks:
        """Options of the law, with its grid."""
        grid = self.grid
        return Masks(self.name, None, grid.bits, self.largest, grid.unit)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return random words; there is no more or less of noise to weigh."""
        del weight
        return stream.words(size)

    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return each coefficient's nearest grid point as a residue."""
        self._check_range(self.grid.reals(values), labels)
        return self.grid.quantise(values).astype(np.int64).view(np.uint64)

    def decode(self, numbers: NumberRows) -> Reals:
        """Return a sum of all parties' numbers, masks having cancelled."""
        return self.grid.to_floats(numbers.view(np.int64))

    def without_range(self) -> UniformMasks:
        """Return the same grid."""
        return replace(self, largest=None)

    def _check_range(self, values: Reals, labels: Sequence[str] | None) -> None:
        fits = 2.0**WORD_BITS * self.grid.step / self.n_parties
        if self.largest is not None:
            check_masked_range(values, min(self.largest, fits), labels)
            return
        try:
            check_masked_range(values, fits, labels)
        except RangeError as error:
            # No wider range can be declared than what a word holds.
            told = (
                f"{text.partition('; correct the value')[0]}; correct the value, or "
                "scale it"
                for text in (str(error), error.plain)
            )
            raise RangeError(
                next(told), plain=next(told), code="value-out-of-range"
            ) from None


# Sums of whole numbers


@dataclass(frozen=True, eq=False)
class _CountMasks(MaskLaw):
    """Laws of whole numbers, whose sums are Python integers, to the last unit.

    Attributes:
        counts: what each number counts, and in how many bits every total fits.
    """

    exact: ClassVar[bool] = True

    counts: UnitCounts

    @classmethod
    def on(cls, topology: Topology, masks: Masks) -> MaskLaw:
        return masks.on(topology)

    @property
    def counted(self) -> UnitCounts:
        return self.counts

    @property
    @abstractmethod
    def words(self) -> int:
        """Number of 64-bit words of a number."""

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64) if self.words == 1 else limb_type(self.words)

    @property
    def number_bytes(self) -> int:
        return 8 * self.words

    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return one party's whole numbers as the law's.

        Their bound is public. A vector beyond it is this program's own mistake, and
        nothing of it leaves the party.
        """
        del labels
        self._check(values)
        return _mask_numbers_of_type(values, self.dtype)

    def _check(self, values: NumberRows) -> None:
        size, bits = len(self.counts.units), self.counts.bits
        if not _fits_in_mask_bits(values, bits) or values.shape[-1:] != (size,):
            raise NumericalError(
                f"{size} whole numbers of at most {bits} bits were agreed on, and this "
                f"party's are others, {values.shape[-1:]} of {values.dtype}: please "
                "report it",
                code="internal",
            )

    def decode(self, numbers: NumberRows) -> NumberRows:
        """Return a sum of all parties' numbers as Python integers."""
        return as_python_integers(limbs_to_integers(numbers))

    def of_places(self, places: Sequence[int]) -> _CountMasks:
        """Return the law with each one's unit."""
        return replace(self, counts=self.counts.of_places(places))


@dataclass(frozen=True, eq=False)
class PlainCounts(_CountMasks):
    """Whole numbers without masks: no privacy at all."""

    name: ClassVar[LawName] = "none"
    hides: ClassVar[bool] = False

    @property
    def words(self) -> int:
        """Number of words that the largest total needs."""
        return self.counts.words

    @property
    def masks(self) -> Masks:
        return Masks(self.name)

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        del stream, weight
        return np.zeros(size, dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class UniformCountMasks(_CountMasks):
    """Whole numbers under uniform residues, each field modulo a power of two.

    A masked number alone says nothing. Without fields the modulus is 2^64, 2^128 or
    2^192, and a total is right because every total fits. A field with a modulus of its
    own releases totals modulo that, whatever parties add to it.
    """

    name: ClassVar[LawName] = "uniform"
    sums_only: ClassVar[bool] = True
    deployable: ClassVar[bool] = True

    @property
    def masks(self) -> Masks:
        return Masks(self.name)

    @cached_property
    def residues(self) -> LimbModuli:
        """Which numbers are modulo which powers of two."""
        alone = (len(self.counts.units), 64 * self.counts.words)
        return LimbModuli(self.counts.fields or (alone,))

    def layout(self, size: int) -> LimbModuli:
        del size
        return self.residues

    @property
    def words(self) -> int:
        """Number of words that the largest modulus needs."""
        return self.residues.words

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.residues.dtype

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        """Return random words; there is no more or less of noise to weigh."""
        del weight
        drawn = stream.words(self.words * size)
        if self.words > 1:
            drawn = from_limbs(drawn.reshape(self.words, size).T)
        return self.residues.residues(drawn)

    def encode(
        self, values: NumberRows, labels: Sequence[str] | None = None
    ) -> NumberRows:
        """Return one party's whole numbers as residues."""
        del labels
        self._check(values)
        return self.residues.encode(values)

    def decode(self, numbers: NumberRows) -> NumberRows:
        """Return the whole numbers nearest to 0 with these residues."""
        if numbers.dtype == object:
            return self.wrap(numbers)
        return self.residues.decode(numbers)

    def wrap(self, numbers: NumberRows) -> NumberRows:
        """Return the residues: unreduced, a sum would show how it came about."""
        if numbers.dtype == object:
            return self.residues.decode(self.residues.encode(numbers))
        return self.residues.residues(numbers)

    def in_one_word(self) -> UniformCountMasks:
        """Return residues of 64 bits: the words of longer ones are drawn alike.

        They count ones: residues are drawn alike whatever they count, and by their real
        sizes the coarsest would drown the others.
        """
        bits = min(self.counts.bits, WORD_BITS)
        ones = (Fraction(1),) * len(self.counts.units)
        counts = replace(self.counts, bits=bits, units=ones, fields=())
        return replace(self, counts=counts)


@dataclass(frozen=True, eq=False)
class LatticeCountMasks(_CountMasks):
    """Whole numbers under discrete Gaussians, each number's steps being its own unit.

    Attributes:
        sigma: standard deviation of one coordinate of one share, in real numbers;
            rounded up to a whole number of each number's unit.
        n_words: those that hold every masked number, and every sum of some of them.
    """

    name: ClassVar[LawName] = "lattice"
    deployable: ClassVar[bool] = True

    sigma: FloatArray
    n_words: int
    # A graph has few weights, and asks once for each of its links.
    _known: dict[float, tuple[int, ...]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def on_units(
        cls, topology: Topology, sigma: FloatArray, counts: UnitCounts
    ) -> LatticeCountMasks:
        """Return the law for a network, whose numbers never need more bytes."""
        _check_mask_size(sigma, len(counts.units))
        law = cls(counts, sigma, 1)
        weights = [1.0, *topology.weights.tolist()]
        steps = max(max(law.deviations(weight)) for weight in weights)
        for weight in weights:
            law._check_steps(weight)
        # A sum over any parties has no more shares in it than there are.
        shares = max(1, topology.n_edges) * topology.shares_per_edge
        masks = steps.bit_length() + SURE_BITS + ceil(log2(shares) / 2)
        # The private part, one bit for their sum, and the sign.
        bits = max(masks, counts.bits - 1) + 2
        return cls(counts, sigma, 1 if bits <= WORD_BITS else max(2, -(-bits // 64)))

    @property
    def masks(self) -> Masks:
        """Options of the law, on a grid that is nowhere finer than the units."""
        bits = ceil(-log2(max(self.counts.units)))
        while Fraction(2) ** -bits < max(self.counts.units):
            bits -= 1
        return Masks(self.name, self.sigma, min(bits, 200))

    @property
    def words(self) -> int:
        """Number of words that the widest mask, or total, needs."""
        return self.n_words

    def deviations(self, weight: float = 1.0) -> tuple[int, ...]:
        """Return sigma sqrt(weight) in each number's units, rounded up, exactly."""
        if weight not in self._known:
            units = self.counts.units
            sigmas = np.broadcast_to(self.sigma, len(units)).tolist()
            pairs = [*zip(sigmas, units, strict=True)]
            squares = {
                (sigma, unit): (Fraction(sigma) / unit) ** 2 * Fraction(weight)
                for sigma, unit in {*pairs}
            }
            steps = {pair: ceil_sqrt(square) for pair, square in squares.items()}
            self._known[weight] = tuple(steps[pair] for pair in pairs)
        return self._known[weight]

    def draw(self, stream: Stream, size: int, weight: float = 1.0) -> Numbers:
        _check_mask_size(self.sigma, size)
        runs = ((s, len([*alike])) for s, alike in groupby(self.deviations(weight)))
        return _mask_numbers_of_type(
            discrete_gaussians(stream, tuple(runs)), self.dtype
        )

    def of_places(self, places: Sequence[int]) -> LatticeCountMasks:
        """Return the law with each one's unit and sigma."""
        sigma = self.sigma[list(places)] if self.sigma.ndim else self.sigma
        return replace(self, counts=self.counts.of_places(places), sigma=sigma)

    def check_deployable(self, *, least_weight: float = 1.0) -> None:
        """Refuse units too coarse for real secrets."""
        enough = 2**DEPLOYED_DEVIATION_BITS
        if min(self.deviations(least_weight)) < enough:
            raise InvalidInputError(
                f"between real parties sigma must span at least {enough} units of "
                f"every number, and the largest unit is {max(self.counts.units)}: use "
                "a larger sigma, or finer units",
                code="sigma-too-small",
            )

    def _check_steps(self, weight: float) -> None:
        for steps, unit in zip(self.deviations(weight), self.counts.units, strict=True):
            if steps < LEAST_DEVIATION:
                raise InvalidInputError(
                    f"sigma must span at least {LEAST_DEVIATION} units of every "
                    f"number, but spans {steps} of {unit}: use a larger sigma, or a "
                    "finer unit",
                    code="sigma-too-small",
                )
            if (steps - 1).bit_length() > MOST_DEVIATION_BITS:
                raise InvalidInputError(
                    f"sigma spans more than 2^{MOST_DEVIATION_BITS} of the unit "
                    f"{unit}: use a smaller sigma, or a coarser unit",
                    code="sigma-too-large",
                )


def _fits_in_mask_bits(values: NumberRows, bits: int) -> bool:
    """Say whether all values are whole numbers of so many bits, the sign included."""
    half, kind = 1 << (bits - 1), values.dtype.kind
    if kind not in "iuO":
        return False
    if kind == "O" and not {*map(type, values.ravel().tolist())} <= {int}:
        return False
    least, largest = ends_of_whole_numbers(values)
    return -half <= least and largest < half


def _mask_numbers_of_type(whole: NumberRows, kind: np.dtype[Any]) -> NumberRows:
    """Return whole numbers as int64 or limbs; numpy refuses more than 64 bits."""
    if is_wide_integer_type(kind):
        return limbs_from_integers(whole, kind.itemsize // 8)
    return whole.astype(np.int64)


LAWS: Mapping[str, type[MaskLaw]] = {
    law.name: law for law in (NoMasks, GaussianMasks, LatticeMasks, UniformMasks)
}


def check_mask_sigma(sigma: ArrayLike) -> FloatArray:
    """Return sigma as an array; refuse what is not a positive finite number."""
    try:
        array = np.asarray(sigma, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"sigma must be a number, found {sigma!r}", code="sigma-not-number"
        ) from None
    # Written so that nan is refused too; squares must stay within float64.
    if array.size == 0 or not ((array > 1e-150) & (array < 1e150)).all():
        raise InvalidInputError(
            "sigma must be positive and finite, and its square within float64, found "
            f"{sigma!s}; it is the standard deviation of one coordinate of one share. "
            'For no masks use law = "none"',
            code="sigma-not-positive",
        )
    return array


def _plain_mask_sigma(sigma: ArrayLike) -> float | tuple[float, ...]:
    """Return sigma, checked, as plain numbers that can be compared."""
    array = check_mask_sigma(sigma)
    if array.ndim > 1:
        raise InvalidInputError(
            "sigma must be one number or one for each coefficient, found an array of "
            f"shape {array.shape}",
            code="sigma-wrong-shape",
        )
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def check_largest_masked_value(largest: float) -> float:
    """Return a declared range, which must be positive."""
    value = float(as_floats(largest, what="the range of coefficients"))
    if not value > 0:
        raise InvalidInputError(
            f"the range of coefficients must be positive, found {largest}",
            code="range-not-positive",
        )
    return value


def _check_mask_size(sigma: FloatArray, size: int) -> None:
    if sigma.shape not in {(), (size,)}:
        raise InvalidInputError(
            f"sigma must be one number or one for each of {size} coefficients, "
            f"found {sigma.size}",
            code="sigma-wrong-shape",
        )


def _stretches_of_equal_sigma(sigma: FloatArray, size: int) -> list[tuple[float, int]]:
    """Return stretches of equal sigma, so that each is drawn at once."""
    if sigma.ndim == 0:
        return [(float(sigma), size)]
    starts = [0, *(np.flatnonzero(np.diff(sigma)) + 1).tolist(), size]
    lengths = np.diff(starts).tolist()
    return [(float(sigma[s]), n) for s, n in zip(starts, lengths, strict=False)]
