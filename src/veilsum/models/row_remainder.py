"""rho of a cost that is a sum over rows, for one party or for all of them at once.

    grad rho(b) = X'W(mu(Xb + o) - mu(o)) + ridge b

It is zero at b = 0, exactly, and holds no response unless X or o do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from veilsum.costs.remainders import Kind, Remainder, Squares
from veilsum.models.curves import Curve, MeanCurve
from veilsum.models.families import Gaussian
from veilsum.models.rows import Gram, PerRow, Rows, gram
from veilsum.numbers.arrays import AgentPoints, FloatArray, Vector, Vectors
from veilsum.numbers.secrets import Secret
from veilsum.numbers.shapes import Float

Designs: TypeAlias = Float[FloatArray, "n r m"]
AllRows: TypeAlias = Float[FloatArray, "n r"]

# Parties' rows are put side by side where that takes at most this many times their own
# room, shorter tables being filled up with zeros.
PADDING = 2.0
# Above so many numbers in a party's design a call of its own costs nothing.
LARGE = 2**14
# X'WX is used where it takes at most this many times the room of X: it is read once in
# each gradient, X twice.
SQUARES = 4.0


@dataclass(frozen=True, eq=False, repr=False)
class RowRemainder(Secret):
    """rho of one party's rows.

    Attributes:
        curve: mu.
        blocks: the rows, each with mu(o) in place of its response.
        penalty: the ridge, column by column.
        exposes: what is in the open, as sentences for a guarantee's limits.
    """

    curve: Curve
    blocks: tuple[Rows, ...]
    penalty: Vector
    exposes: tuple[str, ...] = ()
    kind: Kind = field(default="local", init=False)

    @classmethod
    def of(
        cls, curve: Curve, rows: Rows, penalty: Vector, *, exposes: tuple[str, ...] = ()
    ) -> RowRemainder:
        """Return the remainder of some rows; their responses are not looked at."""
        # Block by block, as gradients are: the same calls leave exactly 0 at b = 0.
        blocks = [
            replace(block, response=at_origin(curve, block)) for block in rows.blocks()
        ]
        return cls(curve, tuple(blocks), penalty, exposes)

    def gradient(self, x: Vectors) -> Vectors:
        """Return the gradient at each row b."""
        if x.ndim == 1:
            return self._gradient_at(x)
        points = x.reshape(-1, x.shape[-1])
        return np.array([self._gradient_at(b) for b in points]).reshape(x.shape)

    def rows(self, which: slice) -> RowRemainder:  # noqa: ARG002 - alike for all
        """Return itself."""
        return self

    @staticmethod
    def stacked(members: Sequence[Remainder]) -> SquareStack | RowStack | None:
        """Return one remainder for all agents; None where that would not pay."""
        alike = [one for one in members if isinstance(one, RowRemainder)]
        if len(alike) < len(members) or len({one.curve for one in alike}) > 1:
            return None
        if _squares_pay(alike):
            return SquareStack(np.stack([one.square() for one in alike]))
        return RowStack.of(alike) if _padding_pays(alike) else None

    def square(self) -> Gram:
        """Return X'WX + ridge: the gradient of least squares is this times b."""
        total = np.diag(self.penalty)
        for block in self.blocks:
            total += gram(block.design, block.weights)
        return total

    @property
    def n_numbers(self) -> int:
        """How many numbers its design holds."""
        return sum(block.design.size for block in self.blocks)

    def _gradient_at(self, b: Vector) -> Vector:
        total = self.penalty * b
        for block in self.blocks:
            total += slope(self.curve, block, b)
        return total


@dataclass(frozen=True, eq=False, repr=False)
class SquareStack(Secret):
    """rho of all agents' least squares: grad rho_i(x) = P_i x.

    Attributes:
        matrices: P_i = X_i'W_iX_i + ridge, symmetric.
    """

    matrices: Squares
    kind: Kind = field(default="local", init=False)

    def gradient(self, x: AgentPoints) -> AgentPoints:
        """Return each agent's gradient at its own row."""
        return _times(self.matrices, x)

    def rows(self, which: slice) -> SquareStack:
        """Return the stack of some agents."""
        return SquareStack(self.matrices[which])


@dataclass(frozen=True, eq=False, repr=False)
class RowStack(Secret):
    """rho of all agents: their rows side by side, filled up with rows of zeros.

    Attributes:
        curve: mu.
        designs: X_i.
        weights: of rows, or None where all are one.
        offsets: o of rows, or None where all are zero.
        penalties: the ridge, column by column.
    """

    curve: Curve
    designs: Designs
    weights: AllRows | None
    offsets: AllRows | None
    penalties: AgentPoints
    kind: Kind = field(default="local", init=False)

    @classmethod
    def of(cls, members: Sequence[RowRemainder]) -> RowStack:
        """Return the stack of remainders that have one block of rows at most."""
        penalties = np.stack([one.penalty for one in members])
        nothing = Rows(np.empty((0, penalties.shape[1])), np.empty(0))
        parts = [one.blocks[0] if one.blocks else nothing for one in members]
        length = max(part.n_rows for part in parts)
        designs = np.zeros((len(members), length, penalties.shape[1]))
        for design, part in zip(designs, parts, strict=True):
            design[: part.n_rows] = part.design
        weights = _side_by_side([part.weights for part in parts], length, 1.0)
        offsets = _side_by_side([part.offset for part in parts], length, 0.0)
        return cls(members[0].curve, designs, weights, offsets, penalties)

    def gradient(self, x: AgentPoints) -> AgentPoints:
        """Return each agent's gradient at its own row."""
        pull = self.curve.mean(self._shift(_times(self.designs, x))) - self._origin
        if self.weights is not None:
            pull *= self.weights
        return (pull[:, None, :] @ self.designs)[:, 0] + self.penalties * x

    def rows(self, which: slice) -> RowStack:
        """Return the stack of some agents."""
        return replace(
            self,
            designs=self.designs[which],
            weights=None if self.weights is None else self.weights[which],
            offsets=None if self.offsets is None else self.offsets[which],
            penalties=self.penalties[which],
        )

    @cached_property
    def _origin(self) -> AllRows:
        """mu(o), by the call that gradients make: they are exactly 0 at b = 0."""
        return self.curve.mean(self._shift(np.zeros(self.designs.shape[:2])))

    def _shift(self, eta: AllRows) -> AllRows:
        return eta if self.offsets is None else eta + self.offsets


def at_origin(curve: Curve, rows: Rows) -> PerRow:
    """Return mu(o): the slope of each row's loss where all coefficients are 0."""
    return curve.mean(rows.shift(np.zeros(rows.n_rows)))


def slope(curve: Curve, rows: Rows, b: Vector) -> Vector:
    """Return X'W(mu(Xb + o) - y)."""
    mu = curve.mean(rows.shift(rows.design @ b))
    return np.asarray(rows.weigh(mu - rows.response) @ rows.design)


def _squares_pay(members: Sequence[RowRemainder]) -> bool:
    """Say whether these are least squares with rows enough for their matrices."""
    squares = sum(one.penalty.size**2 for one in members)
    numbers = sum(one.n_numbers for one in members)
    return members[0].curve == MeanCurve(Gaussian()) and squares <= SQUARES * numbers


def _padding_pays(members: Sequence[RowRemainder]) -> bool:
    """Say whether rows are few enough, and parties enough alike, to be put together."""
    if any(len(one.blocks) > 1 for one in members):
        return False
    sizes = [one.n_numbers for one in members]
    return 0 < max(sizes) <= LARGE and len(sizes) * max(sizes) <= PADDING * sum(sizes)


def _side_by_side(
    parts: Sequence[FloatArray | None], length: int, filler: float
) -> AllRows | None:
    """Return numbers of all rows, `filler` where there are none; None if all are."""
    if all(part is None for part in parts):
        return None
    together = np.full((len(parts), length), filler)
    for row, part in zip(together, parts, strict=True):
        if part is not None:
            row[: len(part)] = part
    return together


def _times(matrices: Designs, x: AgentPoints) -> AllRows:
    """Return every agent's matrix times its own x."""
    return (matrices @ x[..., None])[..., 0]
