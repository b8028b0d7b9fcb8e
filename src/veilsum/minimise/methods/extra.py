"""EXTRA: one vector per round, exact for a fixed step; every cost must be convex.

    x(1)   = P[ W x(0) - a g(0) ]
    z(k+2) = z(k+1) + W x(k+1) - (I + W)/2 x(k) - a (g(k+1) - g(k)),   x = P[z]

It is run with c(k), the gradient's step plus all corrections so far, kept as one vector

    x(k+1) = P[ W x(k) - c(k) ]
    c(k+1) = c(k) + (x(k) - W x(k)) / 2 + a (g(k+1) - g(k)),   c(0) = a g(0),

which is the same sequence. A mask then sits in c alone and fades with it, so rounding
fades too; the two-step form above carries its rounding along for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.graphs.mixing import DENSE_PARTIES
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import (
    MethodInputs,
    MethodOnGraph,
    MethodTraits,
    SteppedMethod,
)
from veilsum.numbers.arrays import Sparse, Vectors

# How close to the largest step that is proved the usual one comes.
SHARE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class ExtraState:
    """x(k), the correction c(k), and k."""

    x: Vectors
    correction: Vectors
    iteration: int = 0


@dataclass(frozen=True)
class Extra(SteppedMethod):
    """The method; its step is a, below (1 + lambda_min(W)) / L."""

    name: ClassVar[str] = "extra"
    traits: ClassVar[MethodTraits] = MethodTraits(
        domain=True,
        winds_up=True,
        bounds="smooth",
        mixing="lazy-metropolis",
        bears=frozenset({"quantise"}),
        traceable=True,
    )

    @classmethod
    def made(cls, given: MethodInputs) -> MethodOnGraph:
        """Return the method with nearly the largest step that is proved."""
        least = least_eigenvalue_of_mixing(given.symmetric)
        step = given.step or extra_step(given.need_smooth(cls.name), least)
        return MethodOnGraph(
            method=cls(given.domain, step),
            patience=given.held_back(step),
            rounds=given.rounds or 1,
        )

    def begin(self, start: Vectors, cost: EffectiveCost) -> ExtraState:
        x = self.domain.project(start)
        return ExtraState(x, self.step * cost.gradient(x))

    def outgoing(self, state: ExtraState) -> Vectors:
        return state.x

    def advance(
        self, state: ExtraState, mixed: Vectors, cost: EffectiveCost
    ) -> ExtraState:
        x = self.domain.project(mixed - state.correction)
        turned = self.step * cost.gradient_change(x, state.x)
        correction = state.correction + 0.5 * (state.x - mixed) + turned
        return ExtraState(x, correction, state.iteration + 1)

    def aim(self, state: ExtraState) -> Vectors:
        return state.x - state.correction


def extra_step(lipschitz: float, least: float, *, share: float = SHARE) -> float:
    """Return a part of (1 + lambda_min(W)) / L, the bound on EXTRA's steps.

    Args:
        lipschitz: L, for which every effective gradient is L-Lipschitz.
        least: the least eigenvalue of W; lazy weights keep it above zero.
        share: how much of the bound.
    """
    if not -1.0 < least <= 1.0:
        raise InvalidInputError(
            "extra needs weights whose eigenvalues lie in (-1, 1], found the least at "
            f"{least:.3g}; use lazy-metropolis",
            code="weights-eigenvalue",
        )
    return share * (1.0 + least) / lipschitz


def least_eigenvalue_of_mixing(weights: Sparse) -> float:
    """Return lambda_min of symmetric weights, exactly or, for many parties, from below.

    Rows of weights that add up to one have all eigenvalues within 2 min_i w_ii - 1 of
    one, if no weight is negative (Gershgorin).
    """
    if weights.shape[0] > DENSE_PARTIES:
        return float(2.0 * weights.diagonal().min() - 1.0)
    return float(np.min(scipy.linalg.eigh(weights.toarray(), eigvals_only=True)))
