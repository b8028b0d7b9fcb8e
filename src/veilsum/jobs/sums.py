"""Private sums and averages of parties' vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Contribution, Sums, SumsOnly
from veilsum.jobs.releases import Release, ReleaseLimit
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.terms import Options, Terms, by_name
from veilsum.numbers.arrays import Array, Vector, as_floats


@dataclass(frozen=True)
class OneSum(SumsOnly):
    """One vector of each party, added up once; the total is the answer.

    Attributes:
        size: how many numbers.
        what: what they are, in words.
        limit: on what may be released.
    """

    size: int
    what: str
    limit: ReleaseLimit | None = None

    @property
    def answer_size(self) -> int:
        """As many as were summed."""
        return self.size

    def request(self, sums: Sums) -> str | None:
        """Ask once."""
        if sums:
            return None
        if self.limit is not None:
            self.limit.check(self.size)
        return self.what

    def answer(self, sums: Sums) -> Vector:
        """Return the total in float64: what parties compare and sign."""
        return sums[0].astype(np.float64)

    def release(self, sums: Sums) -> Release:
        """Return what the total shows."""
        del sums
        return Release(self.what, {self.what: self.size})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SumResult(JobResult):
    """A sum, or an average, over parties.

    Attributes:
        value: in the shape of what each party gave; integers stay integers.
    """

    value: Array[Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**super().to_dict(), "value": self.value.tolist()}


def sum(
    data: Mapping[str, ArrayLike],
    *,
    wide: bool = False,
    what: str = "a sum",
    **options: Unpack[Options],
) -> SumResult:
    """Return the sum of the parties' vectors; nobody sees another party's.

    Integers are added exactly, to the last unit; reals to the grid, 2^-96 by default.

    Args:
        data: one vector, or array of any shape, from each party.
        wide: for integers, whether sums may be beyond 64 bits.
        what: the name of what is summed, for the ledger.
        options: how to sum; see `Options`.

    >>> sum({"a": [1, 2], "b": [3, 4], "c": [5, 6], "d": [0, 0]}, seed=1).value.tolist()
    [9, 12]
    """
    arrays = {p: _array(p, values) for p, values in by_name(data).items()}
    shape = _shape(arrays)
    whole = all(_is_whole(array) for array in arrays.values())
    terms = Terms.of(list(arrays), integers=whole, wide=wide, options=options)
    recipe = OneSum(int(np.prod(shape)), what)
    released = run_job(
        recipe,
        {party: _given(array, whole=whole) for party, array in arrays.items()},
        terms,
        agreed={"what": what, "shape": list(shape), "whole": whole},
    )
    return SumResult(
        terms=terms,
        recipe=recipe,
        released=released,
        value=released.sums[0].reshape(shape),
    )


def mean(
    data: Mapping[str, ArrayLike],
    *,
    what: str = "an average",
    **options: Unpack[Options],
) -> SumResult:
    """Return the average of the parties' vectors, each party counting once.

    >>> mean({"a": 1.0, "b": 3.0, "c": 5.0, "d": 7.0}, seed=1).value.tolist()
    4.0
    """
    total = sum(data, what=what, **options)
    n = len(total.released.members)
    return replace(total, value=np.asarray(total.value.astype(np.float64) / n))


def _array(party: str, values: ArrayLike) -> Array[Any]:
    array = np.asarray(values)
    if array.dtype == bool:
        array = array.astype(np.int64)
    if _is_whole(array):
        return array
    return as_floats(values, what=f"the vector of {party!r}")


def _is_whole(array: Array[Any]) -> bool:
    if array.dtype == object:
        return all(isinstance(one, int) for one in array.ravel())
    return array.dtype.kind in "iu"


def _shape(arrays: Mapping[str, Array[Any]]) -> tuple[int, ...]:
    """Return the one shape that all parties' arrays have."""
    shapes = {array.shape for array in arrays.values()}
    if not shapes:
        raise InvalidInputError("a sum needs parties, found no data")
    if len(shapes) > 1:
        found = ", ".join(f"{party!r} {a.shape}" for party, a in arrays.items())
        raise InvalidInputError(
            f"all parties' vectors must have one shape, found {found}"
        )
    return shapes.pop()


def _given(array: Array[Any], *, whole: bool) -> Contribution:
    flat = array.ravel() if whole else array.ravel().astype(np.float64)
    return Contribution(lambda _: flat, (_plain(flat),))


def _plain(flat: Array[Any]) -> Array[Any]:
    """Return the numbers as bytes that a ledger can take the fingerprint of."""
    if flat.dtype != object:
        return flat
    return np.frombuffer(",".join(map(str, flat.tolist())).encode(), dtype=np.uint8)
