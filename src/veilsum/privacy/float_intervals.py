"""Which float64 numbers a rounded sum can come from: exactly, by bisection.

Floats are ordered like integers once their bits are read as such, so "the first float
that ..." is a search over 64 bits, done for all runs at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.shapes import Bool, Float, Int

Runs: TypeAlias = Float[FloatArray, " runs"]
Keys: TypeAlias = Int[Array[np.int64], " runs"]
Flags: TypeAlias = Bool[Array[np.bool_], " runs"]

# The bits of minus zero as an integer; negative floats count up from it, backwards.
_MINUS_ZERO = np.iinfo(np.int64).min


def preimage(base: float, known: Runs, target: Runs) -> tuple[Keys, Keys]:
    """Return the keys of the first and last c with fl(base + fl(c + known)) = target.

    Rounding is monotone, so these c are neighbours; if there are none, the first is one
    above the last.
    """
    low = _first_key(lambda c: base + (c + known) >= target, len(known))
    above = _first_key(lambda c: base + (c + known) > target, len(known))
    return low, above - 1


def _first_key(reached: Callable[[Runs], Flags], runs: int) -> Keys:
    """Return the first key whose float has reached the target, by bisection.

    Infinity always has and minus infinity never has, so they enclose the answer.
    """
    high = np.full(runs, key_of(np.array([np.inf]))[0])
    low = -high
    with np.errstate(over="ignore"):
        for _ in range(64):
            # The mean rounded down, without the overflow of low + high.
            middle = (low & high) + ((low ^ high) >> 1)
            there = reached(float_of(middle))
            low, high = np.where(there, low, middle), np.where(there, middle, high)
    return high


def key_of(numbers: Runs) -> Keys:
    """Return integers in the order of the floats, one apart for neighbouring floats."""
    bits = numbers.view(np.int64)
    return np.where(bits < 0, _MINUS_ZERO - bits, bits)


def float_of(keys: Keys) -> Runs:
    """Return the floats of these keys; both zeros have the key 0."""
    return np.where(keys < 0, _MINUS_ZERO - keys, keys).view(np.float64)
