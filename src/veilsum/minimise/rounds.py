"""Recentring and an iterative method as one party runs them, round by round.

Nothing here has ever seen the private vector: a state starts from masked numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from veilsum.errors import BadGradientError, DivergedError
from veilsum.graphs.mixing import mixing_rate
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw
from veilsum.minimise.costs.bases import Basis
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import CostRemainder
from veilsum.minimise.methods.base import Weighting, mix_method_messages
from veilsum.minimise.methods.recentring import (
    chebyshev_factors_of_mixing,
    next_recentring_flow,
    recentred_differences,
    recentring_flow_as_integers,
)
from veilsum.minimise.methods.schedule import (
    MethodSchedule,
    ScheduleFacts,
    schedule_of_method,
)
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.methods.stopping import StoppingRule
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.limbs import add_wide_integers, total_of_wide_integers
from veilsum.numbers.secrets import Secret
from veilsum.protocol.messages import Numbers
from veilsum.protocol.work import RoundsEnding

FLOAT64 = np.dtype(np.float64)
# What this party can do about it, before it tries again.
UNDEFINED = (
    "a gradient must be finite wherever estimates go: correct it or, if steps were too "
    "long, give bounds that hold (smooth, mean_convex) and leave step out"
)
TOO_LONG = (
    "steps are too long: give bounds that hold (smooth, mean_convex) and leave step out"
)
# Before the first look: nobody is near.
FAR = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class MethodSchedules:
    """Public schedules of the method, computed once for each epoch's members."""

    settings: Settings
    facts: ScheduleFacts
    # By identity: a graph stays the same object as long as its epoch lasts, and
    # comparing two of them takes longer than a round. Keeping it keeps its identity.
    _known: dict[int, tuple[Topology, MethodSchedule]] = field(default_factory=dict)

    def on(self, members: Topology) -> MethodSchedule:
        known = self._known.get(id(members))
        if known is None:
            known = members, schedule_of_method(self.settings, self.facts, members)
            self._known[id(members)] = known
        return known[1]


@dataclass(frozen=True, slots=True, eq=False)
class MixingRow:
    """Whom a party hears and with what weight: public, and alike in all rounds.

    Attributes:
        me: whose row it is.
        factors: Chebyshev's, one for each round of recentring.
        weights: of what it tells itself and of what it hears, in this order.
    """

    schedule: MethodSchedule
    me: str
    neighbours: tuple[str, ...]
    along: Array[np.float64]
    factors: tuple[float, ...]
    weights: dict[Weighting, Array[np.float64]]

    @classmethod
    def of(cls, plan: MethodSchedule, members: Topology, me: str) -> MixingRow:
        names, i = members.neighbours(me), members.index(me)
        order = [i, *(members.index(name) for name in names)]
        rows = {kind: w.tocsr()[[i]] for kind, w in plan.weights.items()}
        weights = {kind: row.toarray()[0, order] for kind, row in rows.items()}
        if plan.recentring_weights is None:
            return cls(plan, me, names, np.zeros(0), (), weights)
        mixing = plan.recentring_weights
        factors = chebyshev_factors_of_mixing(mixing_rate(mixing), plan.recentring)
        along = mixing.tocsr()[[i]].toarray()[0, order[1:]]
        return cls(plan, me, names, along, tuple(factors), weights)


class RoundsState(msgspec.Struct, frozen=True, eq=False):
    """Where a party is: still drawing masked integers together, or iterating.

    Attributes:
        inner: the method's state; None before it has begun.
        masked: its masked coefficients, as far as they are drawn together.
        flow: what moved along each of its links in the last round of recentring.
        packed: masked and flow, as they are written to disk.
        loudest: the largest residual heard of since the last look.
        before: estimate and aim an iteration before the next look.
        near: whether everybody is known to be near enough.
    """

    index: int
    inner: Any
    row: MixingRow
    masked: Numbers
    flow: Array[np.float64]
    cost: EffectiveCost
    packed: bytes
    loudest: float = FAR
    before: tuple[Vector, Vector] | None = None
    near: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class MethodRounds(Secret):
    """Recentring, then an iterative method, for one party.

    Attributes:
        remainder: this party's own, in its own hands; masks do not touch it.
        start: x_i(0), public.
    """

    schedules: MethodSchedules
    law: MaskLaw
    basis: Basis
    remainder: CostRemainder
    start: Vector

    def begin(self, masked: Numbers, members: Topology, me: str) -> RoundsState:
        row = MixingRow.of(self.schedules.on(members), members, me)
        flow = np.zeros((len(row.along), masked.size))
        return self._begun(self._drawn(0, row, masked, flow))

    def _drawn(
        self, index: int, row: MixingRow, masked: Numbers, flow: Array[np.float64]
    ) -> RoundsState:
        cost = EffectiveCost(self.basis, self.law.decode(masked), self.remainder)
        packed = msgspec.msgpack.encode([masked.tobytes(), flow.tobytes()])
        return RoundsState(index, None, row, masked, flow, cost, packed)

    def _begun(self, state: RoundsState) -> RoundsState:
        plan = state.row.schedule
        if state.index < plan.recentring:
            return state
        try:
            inner = plan.method.begin(self.start, state.cost)
        except BadGradientError as error:
            raise _gradient_error_with_place(
                error, state.row.me, 0, self.start
            ) from error.__cause__
        return replace(state, inner=inner)

    def outgoing(self, state: RoundsState) -> Numbers:
        """Return masked integers while they are drawn together, then what is told."""
        if state.inner is None:
            return state.masked
        plan = state.row.schedule
        told = plan.method.outgoing(state.inner)
        if plan.stopping is None:
            return np.asarray(told)
        return np.append(told, state.loudest)

    def expected(self, index: int, members: Topology) -> tuple[np.dtype[Any], int]:
        """Return what `outgoing` has in that round."""
        plan = self.schedules.on(members)
        if index < plan.recentring:
            return self.law.dtype, self.basis.size
        size = plan.message_vectors * self.basis.dim
        return FLOAT64, size + (plan.stopping is not None)

    def advance(self, state: RoundsState, heard: Mapping[str, Numbers]) -> RoundsState:
        rows = [heard[name] for name in state.row.neighbours]
        if state.inner is None:
            return self._begun(self._drawn_together(state, np.array(rows)))
        return self._stepped(state, rows)

    def _drawn_together(self, state: RoundsState, heard: Numbers) -> RoundsState:
        row, index = state.row, state.index
        apart = recentred_differences(heard, state.masked)
        flow = next_recentring_flow(state.flow, apart, row.along, row.factors[index])
        masked = add_wide_integers(
            state.masked,
            total_of_wide_integers(recentring_flow_as_integers(flow, heard.dtype)),
        )
        return self._drawn(index + 1, row, masked, flow)

    def _stepped(self, state: RoundsState, heard: list[Numbers]) -> RoundsState:
        row, inner, rule = state.row, state.inner, state.row.schedule.stopping
        method = row.schedule.method
        told = np.array([self.outgoing(state), *heard])
        loudest = state.loudest
        if rule is not None:
            loudest, told = float(told[:, -1].max()), told[:, :-1]
        mixed = mix_method_messages(row.weights, method.parts(inner), told)
        try:
            after = method.advance(inner, mixed, state.cost)
        except BadGradientError as error:
            place = row.me, inner.iteration + 1, inner.x
            raise _gradient_error_with_place(error, *place) from error.__cause__
        state = replace(state, index=state.index + 1, inner=after, loudest=loudest)
        if rule is None or after.iteration == inner.iteration:
            return state
        return self._looked(state, rule)

    def _looked(self, state: RoundsState, rule: StoppingRule) -> RoundsState:
        method, inner = state.row.schedule.method, state.inner
        near = rule.decides_at(inner.iteration) and rule.is_enough(state.loudest)
        now, loudest = (inner.x, method.aim(inner)), state.loudest
        if rule.looks_at(inner.iteration) and state.before is not None:
            pairs = zip(now, state.before, strict=True)
            loudest = min(FAR, max(float(rule.residual(a, b)) for a, b in pairs))
        before = now if rule.looks_at(inner.iteration + 1) else None
        return replace(state, loudest=loudest, before=before, near=near)

    def finished(self, state: RoundsState) -> bool:
        """Say whether all iterations are done, or enough of them."""
        if state.inner is None:
            return False
        last = state.row.schedule.iterations
        return state.near or state.inner.iteration >= last

    def strayed(self, state: RoundsState) -> DivergedError | None:
        """Return what to say of numbers that are not finite; None if all are."""
        if state.inner is None:
            return None
        numbers = self.outgoing(state), state.inner.x
        if all(np.isfinite(one).all() for one in numbers):
            return None
        return DivergedError(
            state.row.me, state.inner.iteration, None, TOO_LONG, code="diverged"
        )

    def answer(self, state: RoundsState) -> Vector:
        if (wrong := self.strayed(state)) is not None:
            raise wrong
        return np.array(state.inner.x)

    def pack(self, state: RoundsState) -> bytes:
        """Return all that a restarted party needs to go on."""
        before = (
            None if state.before is None else [one.tobytes() for one in state.before]
        )
        inner = None if state.inner is None else _plain_method_state(state.inner)
        return msgspec.msgpack.encode(
            [state.index, state.packed, inner, state.loudest, before, state.near]
        )

    def unpack(self, packed: bytes, members: Topology, me: str) -> RoundsState:
        """Return the state, the public part computed anew."""
        index, rest, inner, loudest, before, near = msgspec.msgpack.decode(packed)
        kept, moving = msgspec.msgpack.decode(rest)
        masked = np.frombuffer(kept, dtype=self.law.dtype)
        row = MixingRow.of(self.schedules.on(members), members, me)
        flow = np.frombuffer(moving).reshape((len(row.along), masked.size))
        state = self._begun(self._drawn(index, row, masked, flow))
        if inner is None:
            return state
        return replace(
            state,
            inner=_method_state_like(state.inner, inner),
            loudest=loudest,
            before=before and tuple(np.frombuffer(one) for one in before),
            near=near,
        )

    def ending(self, packed: bytes, members: Topology) -> RoundsEnding:
        """Return how far a packed state has come, taken for the last one."""
        plan, done = self.schedules.on(members), rounds_done(packed)
        iterations = (done - plan.recentring) // plan.method.rounds_per_iteration
        early = iterations < plan.iterations
        return RoundsEnding(done, iterations, "tolerance" if early else plan.limit)


def _gradient_error_with_place(
    error: BadGradientError, me: str, iteration: int, x: Vector
) -> BadGradientError:
    """Return the error with whose gradient it was and when, and what to do."""
    return BadGradientError(error.reason, me, iteration, x, UNDEFINED, code=error.code)


def rounds_done(packed: bytes) -> int:
    index: int = msgspec.msgpack.decode(packed)[0]
    return index


def _plain_method_state(value: Any) -> Any:
    """Return a method's state as what MessagePack knows."""
    if type(value) is np.ndarray:
        return value.tobytes()
    names = _method_state_names(value)
    return (
        [_plain_method_state(getattr(value, name)) for name in names]
        if names
        else value
    )


def _method_state_like(model: Any, plain: Any) -> Any:
    """Return the state that was made plain, built as this one of its kind is."""
    if type(model) is np.ndarray:
        return np.frombuffer(plain)
    names, kind = _method_state_names(model), type(model)
    if not names:
        return plain
    pairs = zip(names, plain, strict=True)
    return kind(
        *(_method_state_like(getattr(model, name), part) for name, part in pairs)
    )


def _method_state_names(value: Any) -> tuple[str, ...]:
    """Return a state's parts; nothing for a plain value."""
    return getattr(type(value), "__slots__", ())
