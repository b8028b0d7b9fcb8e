"""rho: the part of a cost that masks do not touch.

`none` (nothing is left), `shared` (a closed form known to all, like the paper's x^2) or
`local` (a callable on a party's own data; it never leaves, and it is not hidden by the
theorem). Under the affine basis the split is canonical: grad rho vanishes at a public
anchor, so that everything a mask can hide sits in the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from veilsum.core.arrays import Vector, Vectors
from veilsum.core.secrets import Secret
from veilsum.errors import InvalidInputError

Kind = Literal["none", "shared", "local"]


@runtime_checkable
class Remainder(Protocol):
    """rho_i of one agent, or of all agents row by row."""

    @property
    def kind(self) -> Kind:
        """Who knows it: nobody needs to, everybody, or only its owner."""
        ...

    def gradient(self, x: Vectors) -> Vectors:
        """Return grad rho at each row of x."""
        ...

    def rows(self, which: slice) -> Remainder:
        """Return the remainder of some agents of a stack."""
        ...


@dataclass(frozen=True)
class NoRemainder:
    """rho = 0: the whole cost is in the masked coefficients."""

    kind: Kind = field(default="none", init=False)

    def gradient(self, x: Vectors) -> Vectors:
        """Return zero."""
        return np.zeros_like(x)

    def rows(self, which: slice) -> NoRemainder:  # noqa: ARG002 - alike for all
        """Return itself."""
        return self


@dataclass(frozen=True)
class SquaredNorm:
    """rho(x) = scale ||x||^2, known to all; the paper's example has scale 1."""

    scale: float = 1.0
    kind: Kind = field(default="shared", init=False)

    def gradient(self, x: Vectors) -> Vectors:
        """Return 2 scale x."""
        return (2.0 * self.scale) * x

    def rows(self, which: slice) -> SquaredNorm:  # noqa: ARG002 - alike for all
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class LocalGradient(Secret):
    """A closure over a party's own data; evaluated one row at a time."""

    gradient_at: Callable[[Vector], Vector]
    kind: Kind = field(default="local", init=False)

    @classmethod
    def split(
        cls, function: Callable[[Vector], Vector], offset: Vector
    ) -> LocalGradient:
        """Return f(x) - offset, holding neither where an attribute would show it."""
        return cls(lambda x: checked_gradient(function, x) - offset)

    def gradient(self, x: Vectors) -> Vectors:
        """Return the gradient at each row."""
        if x.ndim == 1:
            return self.gradient_at(x)
        return np.stack([self.gradient_at(row) for row in x])

    def rows(self, which: slice) -> LocalGradient:  # noqa: ARG002 - alike for all
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False, repr=False)
class RemainderStack(Secret):
    """Remainders that differ between agents, one per row."""

    members: tuple[Remainder, ...]

    @property
    def kind(self) -> Kind:
        """The most private kind among the members."""
        kinds = {member.kind for member in self.members}
        if "local" in kinds:
            return "local"
        return "shared" if "shared" in kinds else "none"

    def gradient(self, x: Vectors) -> Vectors:
        """Return each agent's gradient at its own row."""
        pairs = zip(self.members, x, strict=True)
        return np.stack([member.gradient(row) for member, row in pairs])

    def rows(self, which: slice) -> RemainderStack:
        """Return the remainders of some agents."""
        return RemainderStack(self.members[which])


def stack(members: Sequence[Remainder]) -> Remainder:
    """Return one remainder for all agents; equal ones are evaluated at once."""
    first = members[0]
    alike = first.kind != "local" and all(member == first for member in members)
    return first if alike else RemainderStack(tuple(members))


def checked_gradient(function: Callable[[Vector], Vector], x: Vector) -> Vector:
    """Return function(x) as float64; refuse a wrong shape or a number not finite."""
    value = np.asarray(function(x), dtype=np.float64)
    if value.shape != x.shape:
        raise InvalidInputError(
            f"the gradient must return {x.size} numbers, found shape {value.shape}"
        )
    if not np.isfinite(value).all():
        raise InvalidInputError("the gradient returned nan or inf")
    return value
