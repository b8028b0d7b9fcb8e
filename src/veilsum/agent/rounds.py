"""Recentring and DGD as one party runs them, round by round.

Nothing here has ever seen the private vector: a state starts from masked numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from veilsum.agent.messages import Numbers
from veilsum.core.arrays import Vector
from veilsum.core.bases import Basis
from veilsum.core.effective import EffectiveCost
from veilsum.core.fixed_point import as_python_integers
from veilsum.core.laws import Law
from veilsum.core.methods.dgd import Dgd, DgdState
from veilsum.core.mixing import mixing_rate, mixing_weights
from veilsum.core.recentring import chebyshev_factors, next_flow
from veilsum.core.remainders import Remainder
from veilsum.core.secrets import Secret
from veilsum.core.topology import Topology

FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Whom a party hears and with what weight: public, and alike in all rounds.

    Attributes:
        own: its weight for itself.
        factors: Chebyshev's, one for each round of recentring.
    """

    neighbours: tuple[str, ...]
    weights: NDArray[np.float64]
    own: float
    factors: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RoundsState:
    """Where a party is: still drawing masked integers together, or iterating.

    Attributes:
        index: how many rounds are done.
        x: its estimate.
        masked: its masked coefficients, as far as they are drawn together.
        flow: what moved along each of its links in the last round of recentring.
        cost: what DGD runs on.
        packed: masked and flow, as they are written to disk.
    """

    index: int
    x: Vector
    links: Links
    masked: Numbers
    flow: NDArray[np.float64]
    cost: EffectiveCost
    packed: bytes


@dataclass(frozen=True, eq=False, repr=False)
class DgdRounds(Secret):
    """Recentring, then projected DGD, for one party.

    Attributes:
        remainder: this party's own, in its own hands; masks do not touch it.
        recentring: how many rounds of recentring come first.
        iterations: how many steps of DGD follow.
    """

    method: Dgd
    law: Law
    basis: Basis
    remainder: Remainder
    start: Vector
    mixing: str
    recentring: int
    iterations: int

    def begin(self, masked: Numbers, members: Topology, me: str) -> RoundsState:
        """Return the start: the masked coefficients and the public start point."""
        links = self._links(members, me)
        flow = np.zeros((len(links.neighbours), masked.size))
        x = self.method.domain.project(self.start)
        return self._state(0, x, links, masked, flow)

    def _links(self, members: Topology, me: str) -> Links:
        names, i = members.neighbours(me), members.index(me)
        weights = mixing_weights(members, self.mixing)
        along = [float(weights[i, members.index(name)]) for name in names]
        rate = mixing_rate(weights) if self.recentring else 0.0
        factors = tuple(chebyshev_factors(rate, self.recentring))
        return Links(names, np.array(along), float(weights[i, i]), factors)

    def _state(
        self,
        index: int,
        x: Vector,
        links: Links,
        masked: Numbers,
        flow: NDArray[np.float64],
    ) -> RoundsState:
        cost = EffectiveCost(self.basis, self.law.decode(masked), self.remainder)
        packed = msgspec.msgpack.encode([_packed(masked), _packed(flow.ravel())])
        return RoundsState(index, x, links, masked, flow, cost, packed)

    def outgoing(self, state: RoundsState) -> Numbers:
        """Return the masked integers while they are drawn together, then x."""
        return state.masked if state.index < self.recentring else state.x

    def expected(self, index: int) -> tuple[np.dtype[Any], int]:
        """Return what `outgoing` has in that round."""
        if index < self.recentring:
            return self.law.dtype, self.basis.size
        return FLOAT64, self.basis.dim

    def advance(self, state: RoundsState, heard: Mapping[str, Numbers]) -> RoundsState:
        """Return the state after one more round."""
        rows = np.array([heard[name] for name in state.links.neighbours])
        if state.index < self.recentring:
            return self._drawn_together(state, rows)
        return self._stepped(state, rows)

    def _drawn_together(self, state: RoundsState, heard: Numbers) -> RoundsState:
        links, index = state.links, state.index
        difference = (heard - state.masked).astype(np.float64)
        flow = next_flow(state.flow, difference, links.weights, links.factors[index])
        whole = as_python_integers(flow) if heard.dtype == object else flow
        masked = state.masked + whole.astype(heard.dtype).sum(axis=0)
        return self._state(index + 1, state.x, links, masked, flow)

    def _stepped(self, state: RoundsState, heard: Numbers) -> RoundsState:
        links = state.links
        mixed = links.own * state.x + links.weights @ heard
        now = DgdState(state.x, state.index - self.recentring)
        x = self.method.step(now, mixed, state.cost.gradient).x
        return RoundsState(
            state.index + 1,
            x,
            links,
            state.masked,
            state.flow,
            state.cost,
            state.packed,
        )

    def finished(self, state: RoundsState) -> bool:
        """Say whether all iterations are done."""
        return state.index >= self.recentring + self.iterations

    def answer(self, state: RoundsState) -> Vector:
        """Return this party's estimate."""
        return state.x

    def pack(self, state: RoundsState) -> bytes:
        """Return the round, the estimate and what recentring left."""
        return msgspec.msgpack.encode([state.index, state.x.tobytes(), state.packed])

    def unpack(self, packed: bytes, members: Topology, me: str) -> RoundsState:
        """Return the state, the public part computed anew."""
        index, x, rest = msgspec.msgpack.decode(packed)
        masked, flow = (_unpacked(part) for part in msgspec.msgpack.decode(rest))
        links = self._links(members, me)
        shape = (len(links.neighbours), masked.size)
        return self._state(index, np.frombuffer(x), links, masked, flow.reshape(shape))


def _packed(array: NDArray[Any]) -> list[Any]:
    if array.dtype == object:
        return ["O", [str(value) for value in array.tolist()]]
    return [array.dtype.str, array.tobytes()]


def _unpacked(packed: list[Any]) -> NDArray[Any]:
    kind, content = packed
    if kind == "O":
        return np.array([int(value) for value in content], dtype=object)
    return np.frombuffer(content, dtype=kind)
