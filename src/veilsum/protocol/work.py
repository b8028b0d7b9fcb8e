"""Computation of a party in a run: the vectors to be summed, and the answer.

A `ProtocolWork` is pure: it derives the next private vector from the sums known so far,
so that a restarted party arrives at the same place by reading the sums again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from veilsum.errors import LocalProtocolError, VeilsumError
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Vector
from veilsum.numbers.secrets import Secret
from veilsum.protocol.messages import Numbers


class RoundsEnding(NamedTuple):
    """Progress of an iterative method."""

    rounds: int
    iterations: int
    stopped: str


@runtime_checkable
class ProtocolRounds(Protocol):
    """An iterative method as one party runs it: it never sees the private vector."""

    def begin(self, masked: Numbers, members: Topology, me: str) -> Any:
        """Return the state before the first round."""
        ...

    def outgoing(self, state: Any) -> Numbers: ...

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

    def ending(self, packed: bytes, members: Topology) -> RoundsEnding: ...


def request_digest(request: object) -> bytes:
    """Return the SHA-256 of what is asked for, written out as canonical JSON.

    >>> request_digest("coefficients").hex()[:16]
    '34d172a00f2d4c91'
    """
    text = json.dumps(
        _plain_request_value(request), sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(b"veilsum request\0" + text.encode()).digest()


def _plain_request_value(value: Any) -> Any:
    """Return the same as JSON has it; a float64 is its shortest decimal there."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Fraction():
            return str(value)
        case np.generic() | np.ndarray():
            return _plain_request_value(value.tolist())
        case tuple() | list():
            return [_plain_request_value(one) for one in value]
        case Mapping():
            return {str(key): _plain_request_value(one) for key, one in value.items()}
    if not is_dataclass(value):
        raise LocalProtocolError(
            f"a request is made of plain values, found {type(value).__name__}",
            code="not-plain-value",
        )
    return {
        one.name: _plain_request_value(getattr(value, one.name))
        for one in fields(value)
    }


@runtime_checkable
class ProtocolWork(Protocol):
    """One party's part of a job."""

    @property
    def rounds(self) -> ProtocolRounds | None:
        """The iterative method that runs on the first masked vector, if one does."""
        ...

    @property
    def most_sums(self) -> int:
        """Most sums that may follow; shares for the next one travel ahead."""
        ...

    def vector(self, answers: Sequence[Vector]) -> Vector | None:
        """Return the next private vector to be summed; None when there is none."""
        ...

    def asked(self, answers: Sequence[Vector]) -> bytes:
        """Return the digest of what that vector answers: the same for every party."""
        ...

    def answer(self, answers: Sequence[Vector], members: tuple[str, ...]) -> Vector:
        """Return the answer from all sums; the same for every party."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class SumWork(Secret):
    """One vector, one sum, and what everybody computes from it."""

    private: Vector
    solve: Callable[[Vector, tuple[str, ...]], Vector]
    rounds: ProtocolRounds | None = None
    most_sums: ClassVar[int] = 1

    def vector(self, answers: Sequence[Vector]) -> Vector | None:
        return None if answers else self.private

    def asked(self, answers: Sequence[Vector]) -> bytes:
        """Return the digest of the one thing that is ever asked for."""
        del answers
        return request_digest("coefficients")

    def answer(self, answers: Sequence[Vector], members: tuple[str, ...]) -> Vector:
        return self.solve(answers[0], members)
