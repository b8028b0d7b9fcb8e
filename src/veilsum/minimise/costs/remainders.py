"""rho: the part of a cost that masks do not touch.

`none` (nothing is left), `shared` (a closed form known to all, like the paper's x^2) or
`local` (a callable on a party's own data; it never leaves, and it is not hidden by the
theorem). Under the affine basis the split is canonical: grad rho vanishes at a public
anchor, so that everything a mask can hide sits in the coefficients.

A remainder may offer more than `CostRemainder` asks for, and is asked by getattr:

    exposes    sentences on what it leaves in the open, for a guarantee's limits
    stacked    a function of all parties' remainders that returns one for all of them,
               evaluated at once, or None
    matrices   P of a stack, (n, m, m), where every gradient is P_i x_i; else None
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from veilsum.errors import BadGradientError
from veilsum.locale import limit_phrase
from veilsum.numbers.arrays import FloatArray, Vector, Vectors
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float

Kind = Literal["none", "shared", "local"]
Squares: TypeAlias = Float[FloatArray, "n m m"]  # one matrix per party

FUNCTION_LIMIT = limit_phrase("function")


@runtime_checkable
class CostRemainder(Protocol):
    """rho_i of one party, or of all parties row by row."""

    @property
    def kind(self) -> Kind:
        """Parties that know it: none need to, all, or only its owner."""
        ...

    def gradient(self, x: Vectors) -> Vectors:
        """Return grad rho at each row of x."""
        ...

    def rows(self, which: slice) -> CostRemainder:
        """Return the remainder of some parties of a stack."""
        ...


Same = TypeVar("Same")


class AlikeRemainders:
    """A remainder that is the same for every party of a stack."""

    # Not `Self`, which the checker of shapes does not take outside of its own classes.
    def rows(self: Same, which: slice) -> Same:
        return self


@dataclass(frozen=True)
class NoRemainder(AlikeRemainders):
    """rho = 0: the whole cost is in the masked coefficients."""

    kind: Kind = field(default="none", init=False)

    def gradient(self, x: Vectors) -> Vectors:
        return np.zeros_like(x)


@dataclass(frozen=True)
class SquaredNorm(AlikeRemainders):
    """rho(x) = scale ||x||^2, known to all; the paper's example has scale 1."""

    scale: float = 1.0
    kind: Kind = field(default="shared", init=False)

    def gradient(self, x: Vectors) -> Vectors:
        """Return 2 scale x."""
        return (2.0 * self.scale) * x


@dataclass(frozen=True, eq=False, repr=False)
class LocalGradient(AlikeRemainders, Secret):
    """A closure over a party's own data; evaluated one row at a time."""

    gradient_at: Callable[[Vector], Vector]
    kind: Kind = field(default="local", init=False)
    exposes: tuple[str, ...] = field(default=(FUNCTION_LIMIT,), init=False)

    @classmethod
    def split(
        cls, function: Callable[[Vector], Vector], offset: Vector
    ) -> LocalGradient:
        """Return f(x) - offset, holding neither where an attribute would show it."""
        return cls(lambda x: check_cost_gradient(function, x) - offset)

    def gradient(self, x: Vectors) -> Vectors:
        if x.ndim == 1:
            return self.gradient_at(x)
        return np.stack([self.gradient_at(row) for row in x])


@dataclass(frozen=True, eq=False, repr=False)
class RemainderStack(Secret):
    """Remainders that differ between parties, one per row."""

    members: tuple[CostRemainder, ...]

    @cached_property
    def kind(self) -> Kind:
        kinds = {member.kind for member in self.members}
        if "local" in kinds:
            return "local"
        return "shared" if "shared" in kinds else "none"

    @property
    def exposes(self) -> tuple[str, ...]:
        """Sentences on everything that the members expose, without repetition."""
        said = [
            words for member in self.members for words in exposed_by_remainder(member)
        ]
        return tuple(dict.fromkeys(said))

    @cached_property
    def together(self) -> CostRemainder | None:
        """All members as one that is evaluated at once, where they offer that."""
        offer = getattr(self.members[0], "stacked", None)
        return None if offer is None else offer(self.members)

    @property
    def matrices(self) -> Squares | None:
        """P, where every party's gradient is P_i x_i and P is not too large."""
        return getattr(self.together, "matrices", None)

    def gradient(self, x: Vectors) -> Vectors:
        if x.ndim == 2 and len(x) == len(self.members) and self.together is not None:
            return self.together.gradient(x).astype(x.dtype, copy=False)
        pairs = zip(self.members, x, strict=True)
        rows = [_gradient_of_remainder(i, *pair) for i, pair in enumerate(pairs)]
        return np.stack(rows).astype(x.dtype, copy=False)

    def rows(self, which: slice) -> RemainderStack:
        return RemainderStack(self.members[which])


def _gradient_of_remainder(row: int, member: CostRemainder, x: Vectors) -> Vectors:
    """Return one member's gradient; say which member it was that had none."""
    try:
        return member.gradient(x)
    except BadGradientError as error:
        raise BadGradientError(error.reason, row, code=error.code) from error.__cause__


def stack_remainders(members: Sequence[CostRemainder]) -> CostRemainder:
    """Return one remainder for all parties; equal ones are evaluated at once."""
    first = members[0]
    alike = first.kind != "local" and all(member == first for member in members)
    return first if alike else RemainderStack(tuple(members))


def exposed_by_remainder(remainder: CostRemainder) -> tuple[str, ...]:
    """Return what a remainder leaves in the open, as sentences for a guarantee."""
    return getattr(remainder, "exposes", ())


def check_cost_gradient(function: Callable[[Vector], Vector], x: Vector) -> Vector:
    """Return function(x) as float64; refuse a wrong shape or a number not finite.

    The function has a copy of x, which it may change: x itself belongs to the method.
    """
    try:
        value = np.asarray(function(x.copy()), dtype=np.float64)
    except Exception as error:  # whatever a user's function may raise
        raise BadGradientError(
            f"the gradient raised {error!r}", code="gradient-raised"
        ) from error
    if value.shape != x.shape:
        raise BadGradientError(
            f"the gradient must return {x.size} numbers, found shape {value.shape}",
            code="gradient-wrong-shape",
        )
    if not np.isfinite(value).all():
        raise BadGradientError(
            "the gradient returned nan or inf", code="gradient-not-finite"
        )
    return value
