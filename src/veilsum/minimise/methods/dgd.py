"""Projected distributed gradient descent, the paper's phase II.

    v_i      = sum_j w_ij x_j(k)
    x_i(k+1) = P_X[ v_i - a_k grad h~_i(v_i) ],   a_k = scale / (k + 1)^power

The gradient is taken at the mixed point v_i. Steps must sum to infinity and their
squares must not, hence 1/2 < power <= 1; the domain must be compact and the gradients
Lipschitz on it, and then single costs need not be convex (Gade and Vaidya 2016).
DGD as first published takes it at a party's own point x_i(k), there without a domain
(Nedic and Ozdaglar 2009); the same is asked of steps, weights and domains.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.domains import Domain
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import (
    EVERY_FAULT,
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    Weighting,
)
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class DgdState:
    """x_i(k), for one party or for all of them, and k."""

    x: Vectors
    iteration: int = 0


@dataclass(frozen=True)
class Dgd:
    """The method.

    Attributes:
        domain: X, public and the same for all.
        scale: the first step a_0.
        power: how fast steps shrink.
        gradient_at: the `mixed` point, or a party's `own`.
    """

    name: ClassVar[str] = "dgd"
    traits: ClassVar[MethodTraits] = MethodTraits(
        domain=True,
        compact=True,
        nonconvex=True,
        settles=False,
        bounds="none",
        mixing="metropolis",
        bears=EVERY_FAULT,
        traceable=True,
    )
    rounds_per_iteration: ClassVar[int] = 1

    domain: Domain
    scale: float = 1.0
    power: float = 1.0
    gradient_at: Literal["mixed", "own"] = "mixed"

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise InvalidInputError(
                f"dgd's step scale must be positive and finite, found {self.scale}",
                code="scale-not-positive",
            )
        if not 0.5 < self.power <= 1:
            raise InvalidInputError(
                "dgd's steps must sum to infinity and their squares must not: power "
                f"must lie in (0.5, 1], found {self.power}",
                code="power-out-of-range",
            )
        if self.gradient_at not in {"mixed", "own"}:
            raise InvalidInputError(
                "dgd takes gradients at the mixed point or at a party's own: "
                f"gradient_at must be 'mixed' or 'own', found {self.gradient_at!r}",
                code="unknown-gradient-point",
            )
        if not self.domain.is_bounded:
            raise InvalidInputError(
                "dgd needs a compact domain: its proof bounds every gradient on it. "
                "Give a box, a ball, a simplex or bounded half-spaces",
                code="domain-not-compact",
            )

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method; its convergence is proved for weights of this kind."""
        own = given.symmetric.diagonal()
        lowest = int(np.argmin(own))
        if not own[lowest] > 0:
            raise InvalidInputError(
                f"dgd needs mixing weights with a positive diagonal, and "
                f"{given.mixing!r} gives party {given.topology.parties[lowest]!r} "
                f"{own[lowest]:.3g}; use metropolis",
                code="weights-without-diagonal",
            )
        step = 1.0 if given.step is None else given.step
        method = cls(given.domain, step, given.power, given.gradient_at)
        return MethodOnGraph(method=method, patience=inf)

    def begin(self, start: Vectors, cost: EffectiveCost) -> DgdState:
        """Return the start, moved into the domain."""
        return DgdState(self.domain.project(start))

    def outgoing(self, state: DgdState) -> Vectors:
        """Return the estimate."""
        return state.x

    def parts(self, state: DgdState) -> tuple[Weighting, ...]:
        """Return symmetric weights, in every round."""
        return ("symmetric",)

    def advance(self, state: DgdState, mixed: Vectors, cost: EffectiveCost) -> DgdState:
        """Return the next iterate."""
        slope = cost.gradient(mixed if self.gradient_at == "mixed" else state.x)
        size = self.scale / (state.iteration + 1) ** self.power
        x = self.domain.project(mixed - size * slope)
        return DgdState(x, state.iteration + 1)

    def aim(self, state: DgdState) -> Vectors:
        """Return the estimate; it also rests because steps shrink."""
        return state.x
