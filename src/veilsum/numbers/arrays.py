"""Shapes in words: the array types every signature uses.

The party axis comes first. `*batch` stands for any leading axes: nothing for one
party, `n` for all of them, so one formula serves a party and a simulator alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.numbers.shapes import Float, Int

Kind = TypeVar("Kind", bound=np.generic)
# numpy's own name for this is, from 2.5 on, no class that shapes can be added to.
Array: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[Kind]]
FloatArray: TypeAlias = Array[np.float64]

Vector: TypeAlias = Float[FloatArray, " m"]
Vectors: TypeAlias = Float[FloatArray, "*batch m"]  # points x, or gradients
Coefficients: TypeAlias = Float[FloatArray, "*batch p"]  # theta in a basis
PartyRows: TypeAlias = Float[FloatArray, "n p"]  # the paper's A, transposed
PartyPoints: TypeAlias = Float[FloatArray, "n m"]  # one x per party
Matrix: TypeAlias = Float[FloatArray, "n n"]
EdgeList: TypeAlias = Int[Array[Any], "e 2"]  # 64 bits, or 32 for very many

# scipy's sparse classes carry no element type; the name says what is meant.
Sparse: TypeAlias = Any


def as_floats(values: ArrayLike, *, what: str) -> FloatArray:
    """Return a float64 copy that cannot be written to; refuse nan, inf and text."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        wanted = f"{what} must be numbers"
        raise InvalidInputError(
            f"{wanted}: {error}", plain=wanted, code="not-numbers"
        ) from None
    if not np.isfinite(array).all():
        raise InvalidInputError(
            f"{what} must be finite numbers, found nan or inf", code="not-finite"
        )
    array.setflags(write=False)
    return array


def as_float_vector(values: ArrayLike, *, dim: int, what: str) -> Vector:
    array = as_floats(values, what=what)
    if array.shape not in {(), (dim,)}:
        raise InvalidInputError(
            f"{what} must be one number or {dim} numbers, found shape {array.shape}",
            code="wrong-shape",
        )
    return frozen_array(np.broadcast_to(array, (dim,)).copy())


def as_float_rows(values: ArrayLike, *, n_parties: int, what: str) -> PartyRows:
    """Return one row per party; a flat list means one coefficient each."""
    array = as_floats(values, what=what)
    rows = array[:, None] if array.ndim == 1 else array
    if rows.ndim != 2 or len(rows) != n_parties:
        raise InvalidInputError(
            f"{what} must have one row for each of {n_parties} parties, "
            f"found shape {array.shape}",
            code="wrong-shape",
        )
    return rows


def sum_of_squares(values: Vector) -> float:
    """Return the sum of the squares of a vector, on one thread.

    BLAS wakes its threads from 10,000 numbers on, which takes longer than the sum.
    """
    return float(np.einsum("i,i->", values, values))


def largest_difference(found: Vector, own: Vector) -> float:
    """Return how far numbers are from one's own, each by itself, the farthest counts.

    Two machines round differently, and large numbers by more: what is above 1 differs
    by a part of it. Nan is nan.
    """
    gaps = np.abs(found - own) / np.maximum(np.abs(own), 1.0)
    return float(gaps.max(initial=0.0))


def is_real_number(found: object) -> TypeGuard[float]:
    """Say whether it is a number, Python's or numpy's; true and false are none."""
    return isinstance(found, Real) and not isinstance(found, bool)


def is_whole_number(found: object) -> TypeGuard[int]:
    return is_real_number(found) and isinstance(found, Integral)


def as_whole_number(found: object, *, what: str, least: int) -> int:
    """Return a whole number as Python's own; refuse one that is below the least."""
    if not is_whole_number(found):
        raise InvalidInputError(
            f"{what} must be a whole number, found {found!r}", code="not-whole"
        )
    if found < least:
        bound = f"be at least {least}" if least else "not be negative"
        raise InvalidInputError(
            f"{what} must {bound}, found {found}", code="whole-out-of-range"
        )
    return int(found)


def frozen_array(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


# Names are compared letter by letter: beyond these, that is work for no use.
LONGEST_COMPARED, MOST_COMPARED = 60, 200


def nearest_name(name: object, known: Collection[str]) -> str:
    """Return a question about the known name that looks most like this one, if any.

    A name that begins with the given text is preferred.

    Both may come out of a file: a hint is given only where it is quickly found.

    >>> nearest_name("complet", ["complete", "ring"])
    "did you mean 'complete'? "
    """
    text = str(name)
    if len(text) > LONGEST_COMPARED or len(known) > MOST_COMPARED:
        return ""
    short = [one for one in known if len(one) <= LONGEST_COMPARED]
    begun = [one for one in short if one.startswith(text)]
    near = [
        *difflib.get_close_matches(text, begun, n=1, cutoff=0.5),
        *difflib.get_close_matches(text, short, n=1, cutoff=0.5),
    ]
    return f"did you mean {near[0]!r}? " if near else ""


def listed_names(names: Sequence[str], *, most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
