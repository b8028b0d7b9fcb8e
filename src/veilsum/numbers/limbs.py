"""Whole numbers beyond 64 bits: arrays of 64-bit limbs, the lowest limb first.

A number of an array has w limbs and is read in two's complement, modulo 2^(64 w). Its
type is `limb_type(w)`, on which numpy's own arithmetic is refused: sums have carries.
`add_wide_integers`, `subtract_wide_integers`, `total_of_wide_integers` and
`combine_wide_integers` also take all other arrays, as numpy adds them. A `LimbModuli`
says modulo which powers of two consecutive fields of a vector are, and how they travel:
each field with as many limbs as it needs.

>>> pair = limbs_from_integers(np.array([2**64 - 1, -1], dtype=object), 2)
>>> limbs_to_integers(add_wide_integers(pair, pair)).tolist()
[36893488147419103230, -2]
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array, Sparse
from veilsum.numbers.shapes import Shaped

LIMB_BITS = 64
# No number is wider: a frame's size is bounded before it is read.
MOST_LIMBS = 4

Numbers = Shaped[Array[Any], "*batch p"]
# The limbs themselves: uint64, one more axis.
Limbs = Shaped[Array[np.uint64], "*batch p w"]

_HALF_BITS = np.int64(32)
_HALF = np.uint64(2**32 - 1)


@lru_cache
def limb_type(words: int) -> np.dtype[Any]:
    if not 1 <= words <= MOST_LIMBS:
        raise InvalidInputError(
            f"a number has between 1 and {MOST_LIMBS} limbs, found {words}",
            code="limbs-out-of-range",
        )
    return np.dtype([("limbs", np.uint64, (words,))])


def is_wide_integer_type(numbers: Array[Any] | np.dtype[Any]) -> bool:
    """Say whether an array, or its type, consists of limbs."""
    kind = numbers if isinstance(numbers, np.dtype) else numbers.dtype
    return kind.names == ("limbs",) and kind["limbs"].ndim == 1


def limb_type_name(kind: np.dtype[Any]) -> str:
    """Return the name of a type in plans: numpy's, or the number of limbs.

    >>> limb_type_name(limb_type(2)), limb_type_name(np.dtype(np.uint64))
    ('2 limbs', 'uint64')
    """
    return (
        f"{kind['limbs'].shape[0]} limbs" if is_wide_integer_type(kind) else str(kind)
    )


def limbs_of(numbers: Numbers) -> Limbs:
    return np.asarray(numbers["limbs"])


def from_limbs(limbs: Limbs) -> Numbers:
    whole = np.ascontiguousarray(limbs)
    return whole.view(limb_type(whole.shape[-1]))[..., 0]


# Python integers


def narrow_wide_integers(whole: Numbers) -> Numbers:
    """Return Python integers as int64 if all of them fit; other arrays as they are."""
    if whole.dtype.kind == "O":
        with suppress(OverflowError):
            return whole.astype(np.int64)
    return whole


def ends_of_whole_numbers(whole: Numbers) -> tuple[int, int]:
    """Return the least and the largest of whole numbers; 0 and 0 of none.

    >>> ends_of_whole_numbers(np.array([3, -(2**70)], dtype=object))
    (-1180591620717411303424, 3)
    """
    if not whole.size:
        return 0, 0
    whole = narrow_wide_integers(whole)
    if whole.dtype.kind == "O":
        plain = whole.ravel().tolist()
        return min(plain), max(plain)
    return int(whole.min()), int(whole.max())


def as_python_integers(values: Array[Any]) -> Array[Any]:
    """Return the same whole numbers as Python integers, which never overflow."""
    if values.dtype.kind in "iu":
        return values.astype(object)
    wide = np.empty(values.shape, dtype=object)
    wide.ravel()[:] = [int(value) for value in values.ravel().tolist()]
    return wide


def limbs_from_integers(whole: Numbers, words: int) -> Numbers:
    whole = narrow_wide_integers(whole)
    if whole.dtype.kind == "O":
        return _integers_from_limbs(whole, words)
    found = np.empty((*whole.shape, words), dtype=np.uint64)
    found[..., 0] = whole if whole.dtype.kind == "u" else whole.view(np.uint64)
    upper = 0 if whole.dtype.kind == "u" else (whole >> 63).view(np.uint64)[..., None]
    found[..., 1:] = upper
    return from_limbs(found)


def _integers_from_limbs(whole: Numbers, words: int) -> Numbers:
    full, size = (1 << LIMB_BITS * words) - 1, 8 * words
    plain = [(one & full).to_bytes(size, "little") for one in whole.ravel().tolist()]
    limbs = np.frombuffer(b"".join(plain), dtype="<u8").astype(np.uint64)
    return from_limbs(limbs.reshape(*whole.shape, words))


def limbs_to_integers(numbers: Numbers) -> Numbers:
    if not is_wide_integer_type(numbers):
        return numbers
    limbs = limbs_of(numbers)
    lowest = np.ascontiguousarray(limbs[..., 0]).view(np.int64)
    if (limbs[..., 1:] == (lowest >> 63).view(np.uint64)[..., None]).all():
        return lowest.astype(object)
    size = 8 * limbs.shape[-1]
    plain = limbs.astype("<u8").tobytes()
    found = np.empty(numbers.shape, dtype=object)
    found.ravel()[:] = [
        int.from_bytes(plain[at : at + size], "little", signed=True)
        for at in range(0, len(plain), size)
    ]
    return found


# Arithmetic modulo 2^(64 w)


def add_wide_integers(one: Array[Any], other: Array[Any]) -> Array[Any]:
    if not is_wide_integer_type(one):
        return np.asarray(one + other)
    return _limbs_with_carries(limbs_of(one), limbs_of(other), 0)


def subtract_wide_integers(one: Array[Any], other: Array[Any]) -> Array[Any]:
    if not is_wide_integer_type(one):
        return np.asarray(one - other)
    # -b is the complement of b, plus 1.
    return _limbs_with_carries(limbs_of(one), ~limbs_of(other), 1)


def _limbs_with_carries(
    one: Array[np.uint64], other: Array[np.uint64], first: int
) -> Array[Any]:
    found = np.empty(np.broadcast_shapes(one.shape, other.shape), dtype=np.uint64)
    carry: Any = np.uint64(first)
    for k in range(one.shape[-1]):
        plain = one[..., k] + other[..., k]
        found[..., k] = plain + carry
        # At most one of the two additions wraps around.
        wrapped = (plain < one[..., k]) | (found[..., k] < plain)
        carry = wrapped.astype(np.uint64)
    return from_limbs(found)


def total_of_wide_integers(rows: Shaped[Array[Any], "n *batch p"]) -> Numbers:
    if not is_wide_integer_type(rows):
        return np.asarray(rows.sum(axis=0))
    return _carry_limb_halves(_halves_of_limbs(rows).sum(axis=0))


def combine_wide_integers(
    matrix: Sparse, rows: Shaped[Array[Any], "e p"]
) -> Shaped[Array[Any], "n p"]:
    """Return matrix @ rows for a sparse matrix of small whole numbers."""
    if rows.dtype == np.float64:
        return np.asarray(matrix @ rows)
    whole = matrix.astype(np.int64)
    if is_wide_integer_type(rows):
        halves = _halves_of_limbs(rows)
        found = whole @ halves.reshape(len(rows), -1)
        return _carry_limb_halves(found.reshape(-1, *halves.shape[1:]))
    # Without a sign every sum wraps around, and its bits are those of one with it.
    words = rows.view(f"u{rows.itemsize}")
    return np.asarray(whole.astype(words.dtype) @ words).view(rows.dtype)


def _halves_of_limbs(numbers: Numbers) -> Shaped[Array[np.int64], "*batch p w 2"]:
    """Return 32 bits of each limb at a time, of which 2^31 can be added up."""
    limbs = limbs_of(numbers)
    both = (limbs & _HALF, limbs >> np.uint64(_HALF_BITS))
    return np.stack(both, axis=-1).view(np.int64)


def _carry_limb_halves(halves: Shaped[Array[np.int64], "*batch p w 2"]) -> Numbers:
    """Return the numbers whose halves these are, after all carries."""
    shape = halves.shape[:-1]
    plain = halves.reshape(*shape[:-1], 2 * shape[-1])
    found = np.empty(plain.shape, dtype=np.uint64)
    carry: Any = np.int64(0)
    for k in range(plain.shape[-1]):
        whole = plain[..., k] + carry
        found[..., k] = whole.view(np.uint64) & _HALF
        carry = whole >> _HALF_BITS
    found = found.reshape(halves.shape)
    return from_limbs(found[..., 0] | (found[..., 1] << np.uint64(_HALF_BITS)))


# Fields


@dataclass(frozen=True)
class LimbModuli:
    """Consecutive fields of a vector, each modulo a power of two of its own.

    In memory all numbers have as many limbs as the widest field needs. On the wire
    each field has as many as it needs itself.

    Attributes:
        fields: how many numbers each field has, and the bits of its modulus.

    >>> both = LimbModuli(((2, 20), (1, 128)))
    >>> both.size, both.words, both.length
    (3, 2, 4)
    """

    fields: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        for count, bits in self.fields:
            if count < 1 or not 1 <= bits <= LIMB_BITS * MOST_LIMBS:
                raise InvalidInputError(
                    "a field has at least 1 number, modulo 2^1 to "
                    f"2^{LIMB_BITS * MOST_LIMBS}, found {count} numbers modulo "
                    f"2^{bits}",
                    code="malformed-field",
                )

    @cached_property
    def size(self) -> int:
        return sum(count for count, _ in self.fields)

    @cached_property
    def words(self) -> int:
        return max((_limbs_for(bits) for _, bits in self.fields), default=1)

    @cached_property
    def length(self) -> int:
        """Limbs of a vector on the wire."""
        return sum(count * _limbs_for(bits) for count, bits in self.fields)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a vector in memory: uint64, or limbs."""
        return np.dtype(np.uint64) if self.words == 1 else limb_type(self.words)

    @cached_property
    def full(self) -> bool:
        """Whether every modulus is that of the type, so that nothing is reduced."""
        return all(bits == LIMB_BITS * self.words for _, bits in self.fields)

    @cached_property
    def _masks(self) -> Array[np.uint64]:
        """The largest residue of each number, limb by limb, (p, w)."""
        rows = [
            [_limb_bit_mask(bits, k) for k in range(self.words)]
            for _, bits in self.fields
        ]
        table = np.array(rows, dtype=np.uint64).reshape(-1, self.words)
        return np.repeat(table, [count for count, _ in self.fields], axis=0)

    def residues(self, numbers: Numbers) -> Numbers:
        if self.full:
            return numbers
        if self.words == 1:
            return np.asarray(numbers & self._masks[:, 0])
        return from_limbs(limbs_of(numbers) & self._masks)

    def encode(self, whole: Numbers) -> Numbers:
        """Return the residues of whole numbers: Python integers, int64 or uint64."""
        found = limbs_from_integers(whole, self.words)
        return self.residues(limbs_of(found)[..., 0] if self.words == 1 else found)

    def decode(self, residues: Numbers) -> Numbers:
        """Return Python integers from -2^(bits - 1) up to 2^(bits - 1) - 1."""
        limbs = residues[..., None] if self.words == 1 else limbs_of(residues)
        if not self.full:
            top = self._masks & ~(self._masks >> np.uint64(1))
            top[:, :-1][self._masks[:, 1:] != 0] = 0
            negative = ((limbs & top) != 0).any(axis=-1, keepdims=True)
            limbs = np.where(negative, limbs | ~self._masks, limbs & self._masks)
        return limbs_to_integers(from_limbs(limbs))

    # The wire

    def pack(self, residues: Shaped[Array[Any], " p"]) -> Array[np.uint64]:
        if self.words == 1:
            return residues
        limbs = limbs_of(residues)
        if self.length == limbs.size:
            return limbs.reshape(-1)
        parts = (limbs[at, : _limbs_for(bits)].ravel() for at, bits in self._places)
        return np.concatenate([*parts])

    def unpack(self, limbs: Array[np.uint64]) -> Numbers:
        """Return the vector whose limbs these are.

        Raises:
            InvalidInputError: there are more or fewer limbs, or a number is not below
                its modulus.
        """
        if limbs.shape != (self.length,):
            raise InvalidInputError(
                f"expected {self.length} limbs, found {limbs.shape[0]}",
                code="limb-count-differs",
            )
        if self.words > 1 and self.length == self.size * self.words:
            # Limbs lie side by side: no copy.
            limbs = limbs.reshape(self.size, self.words)
        elif self.words > 1:
            limbs = self._spread(limbs)
        if not self.full:
            masks = self._masks[:, 0] if self.words == 1 else self._masks
            if (limbs & ~masks).any():
                raise InvalidInputError(
                    "expected residues below their modulus, found larger ones",
                    code="residues-too-large",
                )
        return limbs if self.words == 1 else from_limbs(limbs)

    def _spread(self, limbs: Array[np.uint64]) -> Limbs:
        found, start = np.zeros((self.size, self.words), dtype=np.uint64), 0
        for at, bits in self._places:
            words = _limbs_for(bits)
            stop = start + words * (at.stop - at.start)
            found[at, :words] = limbs[start:stop].reshape(-1, words)
            start = stop
        return found

    @cached_property
    def _places(self) -> list[tuple[slice, int]]:
        found, start = [], 0
        for count, bits in self.fields:
            found.append((slice(start, start + count), bits))
            start += count
        return found


def _limbs_for(bits: int) -> int:
    return -(-bits // LIMB_BITS)


def _limb_bit_mask(bits: int, limb: int) -> int:
    left = min(max(bits - LIMB_BITS * limb, 0), LIMB_BITS)
    return (1 << left) - 1
