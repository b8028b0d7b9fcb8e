"""What a party computes in a run: the vectors it has summed, and the answer.

A `Work` is pure: from the sums known so far it says which private vector comes next, so
that a party that was restarted arrives at the same place by looking at the sums again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from veilsum.errors import VeilsumError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Vector
from veilsum.numbers.secrets import Secret
from veilsum.protocol.messages import Numbers


@runtime_checkable
class Rounds(Protocol):
    """An iterative method as one party runs it: it never sees the private vector."""

    def begin(self, masked: Numbers, members: Topology, me: str) -> Any:
        """Return the state before the first round."""
        ...

    def outgoing(self, state: Any) -> Numbers:
        """Return what the neighbours are told in this round."""
        ...

    def expected(self, index: int, members: Topology) -> tuple[np.dtype[Any], int]:
        """Return the type and the count of what a neighbour tells in a round."""
        ...

    def advance(self, state: Any, heard: Mapping[str, Numbers]) -> Any:
        """Return the state after a round, from what all neighbours told."""
        ...

    def finished(self, state: Any) -> bool:
        """Say whether no round is left."""
        ...

    def strayed(self, state: Any) -> VeilsumError | None:
        """Return what to say of numbers that are not finite; None if all are."""
        ...

    def answer(self, state: Any) -> Vector:
        """Return the answer."""
        ...

    def pack(self, state: Any) -> bytes:
        """Return the state for the party's own disk."""
        ...

    def unpack(self, packed: bytes, members: Topology, me: str) -> Any:
        """Return the state that was packed."""
        ...


@runtime_checkable
class Work(Protocol):
    """One party's part of a job."""

    @property
    def rounds(self) -> Rounds | None:
        """The iterative method that runs on the first masked vector, if one does."""
        ...

    def vector(self, answers: Sequence[Vector]) -> Vector | None:
        """Return the next private vector to be summed; None when there is none."""
        ...

    def answer(self, answers: Sequence[Vector], members: tuple[str, ...]) -> Vector:
        """Return the answer from all sums; the same for every party."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class SumWork(Secret):
    """One vector, one sum, and what everybody computes from it.

    Attributes:
        private: this party's vector.
        solve: the answer from the total and the parties in it.
        rounds: an iterative method to run instead; `solve` then serves only if
            somebody vanishes.
    """

    private: Vector
    solve: Callable[[Vector, tuple[str, ...]], Vector]
    rounds: Rounds | None = None

    def vector(self, answers: Sequence[Vector]) -> Vector | None:
        """Return the vector, once."""
        return None if answers else self.private

    def answer(self, answers: Sequence[Vector], members: tuple[str, ...]) -> Vector:
        """Return what follows from the total."""
        return self.solve(answers[0], members)
