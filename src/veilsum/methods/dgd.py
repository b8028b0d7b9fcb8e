"""Projected distributed gradient descent, the paper's phase II.

    v_i      = sum_j w_ij x_j(k)
    x_i(k+1) = P_X[ v_i - a_k grad h~_i(v_i) ],   a_k = scale / (k + 1)^power

The gradient is taken at the mixed point. Steps must sum to infinity and their squares
must not, hence 1/2 < power <= 1; the domain must be compact and the gradients Lipschitz
on it, and then single costs need not be convex (Gade and Vaidya 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from veilsum.costs.domains import Domain
from veilsum.costs.effective import EffectiveCost
from veilsum.errors import InvalidInputError
from veilsum.methods.exchange import Weighting
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class DgdState:
    """x_i(k), for one agent or for all of them, and k."""

    x: Vectors
    iteration: int = 0


@dataclass(frozen=True)
class Dgd:
    """The method.

    Attributes:
        domain: X, public and the same for all.
        scale: the first step a_0.
        power: how fast steps shrink.
    """

    domain: Domain
    scale: float = 1.0
    power: float = 1.0
    rounds_per_iteration: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise InvalidInputError(
                f"dgd's step scale must be positive and finite, found {self.scale}"
            )
        if not 0.5 < self.power <= 1:
            raise InvalidInputError(
                "dgd's steps must sum to infinity and their squares must not: power "
                f"must lie in (0.5, 1], found {self.power}"
            )
        if not self.domain.is_bounded:
            raise InvalidInputError(
                "dgd needs a compact domain: its proof bounds every gradient on it. "
                "Give a box, a ball, a simplex or bounded half-spaces"
            )

    def begin(self, start: Vectors, cost: EffectiveCost) -> DgdState:  # noqa: ARG002
        """Return the start, moved into the domain."""
        return DgdState(self.domain.project(start))

    def outgoing(self, state: DgdState) -> Vectors:
        """Return the estimate."""
        return state.x

    def parts(self, state: DgdState) -> tuple[Weighting, ...]:  # noqa: ARG002
        """Return symmetric weights, in every round."""
        return ("symmetric",)

    def advance(self, state: DgdState, mixed: Vectors, cost: EffectiveCost) -> DgdState:
        """Return the next iterate."""
        return self._moved(state, mixed, cost.gradient(mixed))

    def aim(self, state: DgdState) -> Vectors:
        """Return the estimate; it also rests because steps shrink."""
        return state.x

    def _moved(self, state: DgdState, mixed: Vectors, slope: Vectors) -> DgdState:
        size = self.scale / (state.iteration + 1) ** self.power
        x = self.domain.project(mixed - size * slope)
        return DgdState(x, state.iteration + 1)
