"""What parties do together, as public recipes: a request, a sum, the next request.

A recipe knows no party's data. From the sums so far it says what is asked next, and at
the end what the answer is, so that every party arrives at the same place. `PartyWork`
joins a recipe with one party's private way to answer a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from veilsum.jobs.releases import Release, ReleaseLimit
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.secrets import Secret

Sums = Sequence[Array[Any]]
S = TypeVar("S")


@runtime_checkable
class Recipe(Protocol):
    """A job as all parties know it."""

    @property
    def size(self) -> int:
        """How many numbers each sum has."""
        ...

    @property
    def answer_size(self) -> int:
        """How many numbers the answer has."""
        ...

    def request(self, sums: Sums) -> Any | None:
        """Return what every party is asked for next; None when nothing is left."""
        ...

    def answer(self, sums: Sums) -> Vector:
        """Return the answer from all sums."""
        ...

    def release(self, sums: Sums) -> Release:
        """Return what the next sum will show to everybody."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Contribution(Secret):
    """What only one party has.

    Attributes:
        answer: its vector for a request.
        data: what its ledger knows the data set by.
    """

    answer: Callable[[Any], Array[Any]]
    data: tuple[Array[Any], ...]


@dataclass(frozen=True, eq=False, repr=False)
class PartyWork(Secret):
    """One party's part: the public recipe, and its own way to answer requests."""

    recipe: Recipe
    contribution: Contribution
    rounds: None = field(default=None, init=False)

    def vector(self, answers: Sums) -> Array[Any] | None:
        """Return the next private vector."""
        request = self.recipe.request(answers)
        return None if request is None else self.contribution.answer(request)

    def answer(self, answers: Sums, members: tuple[str, ...]) -> Vector:
        """Return what everybody computes from the sums."""
        del members
        return self.recipe.answer(answers)


@dataclass(frozen=True, eq=False, repr=False)
class Replay(Generic[S]):
    """Where sums lead, step by step; a place that is known is not computed again."""

    start: Callable[[], S]
    advance: Callable[[S, Array[Any]], S]
    _known: dict[tuple[bytes, ...], S] = field(default_factory=dict)

    def state(self, sums: Sums) -> S:
        """Return the state after these sums."""
        key = tuple(one.tobytes() for one in sums)
        if key not in self._known:
            self._known[key] = self._reached(sums)
        return self._known[key]

    def _reached(self, sums: Sums) -> S:
        if not sums:
            return self.start()
        return self.advance(self.state(sums[:-1]), sums[-1])


@dataclass(frozen=True)
class OneSum:
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
