"""Several rounds of mixing in place of one, for any method.

K rounds apply W_K = T_K(W / rho) / T_K(1 / rho), which shrinks disagreement by
1 / cosh(K acosh(1 / rho)) at least:

    y_1 = W y_0,   y_(k+1) = om_(k+1) W y_k + (1 - om_(k+1)) y_(k-1)

A rate below the true one slows this down but cannot make it diverge. Combined weights
may be negative, so methods project after mixing. At rate 0 the rounds are plain, W^K:
weights that are not symmetric are mixed so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.methods.base import Message, Method, MethodTraits, S, Weighting
from veilsum.minimise.methods.certificate import check_method_mixing_rate
from veilsum.minimise.methods.recentring import chebyshev_factors_of_mixing
from veilsum.numbers.arrays import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class ChebyshevState(Generic[S]):
    """A method's state, and how far its message is mixed.

    Attributes:
        inner: the method's state; it waits for the last round.
        now: y_k, what neighbours are told.
        before: y_(k-1).
        round: k.
    """

    inner: S
    now: Message
    before: Message
    round: int = 0

    @property
    def x(self) -> Vectors:
        return self.inner.x

    @property
    def iteration(self) -> int:
        return self.inner.iteration


@dataclass(frozen=True)
class Chebyshev(Generic[S]):
    """A method with K rounds for each of its own.

    Attributes:
        method: any.
        rate: rho(W) of symmetric weights; 0 for others.
        rounds: K.
    """

    method: Method[S]
    rate: float
    rounds: int

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InvalidInputError(
                f"mixing takes one round at least, found {self.rounds}",
                code="rounds-not-positive",
            )
        check_method_mixing_rate(self.rate)

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def traits(self) -> MethodTraits:
        return self.method.traits

    @property
    def rounds_per_iteration(self) -> int:
        return self.rounds * self.method.rounds_per_iteration

    @cached_property
    def factors(self) -> tuple[float, ...]:
        """Return om_1, ..., om_K."""
        return tuple(chebyshev_factors_of_mixing(self.rate, self.rounds))

    def begin(self, start: Vectors, cost: EffectiveCost) -> ChebyshevState[S]:
        return self._waiting(self.method.begin(start, cost))

    def outgoing(self, state: ChebyshevState[S]) -> Message:
        return state.now

    def parts(self, state: ChebyshevState[S]) -> tuple[Weighting, ...]:
        return self.method.parts(state.inner)

    def advance(
        self, state: ChebyshevState[S], mixed: Message, cost: EffectiveCost
    ) -> ChebyshevState[S]:
        """Return the state after one more round; the last one moves the method."""
        omega = self.factors[state.round]
        now = omega * mixed + (1.0 - omega) * state.before
        if state.round + 1 < self.rounds:
            return ChebyshevState(state.inner, now, state.now, state.round + 1)
        return self._waiting(self.method.advance(state.inner, now, cost))

    def aim(self, state: ChebyshevState[S]) -> Vectors:
        return self.method.aim(state.inner)

    def _waiting(self, inner: S) -> ChebyshevState[S]:
        told = self.method.outgoing(inner)
        return ChebyshevState(inner, told, told)
