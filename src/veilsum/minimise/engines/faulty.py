"""The engine for faults: messages are lost, late or rounded, links and parties pause.

Where messages may be missing, every neighbour counts with the newest that has arrived.
Over links that change, parties mix with the Metropolis weights of those that work,
which both ends know. Where messages are rounded, parties advance with

    mixed_i = told_i + sum_j w_ij (rounded_j - rounded_i),

so that what rounding takes from a message stays with its sender, and sums are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.methods.base import (
    Message,
    MethodState,
    S,
    Weighting,
    Weights,
    mix_method_messages,
)
from veilsum.minimise.methods.chebyshev import Chebyshev
from veilsum.minimise.methods.link_faults import (
    LOST,
    IdleParties,
    LinkFaults,
    OutLinks,
    Takes,
)
from veilsum.minimise.methods.registry import MethodNeeds, check_method_fits
from veilsum.numbers.arrays import (
    Array,
    EdgeList,
    FloatArray,
    PartyPoints,
    Sparse,
    Vectors,
)
from veilsum.numbers.shapes import Bool, Float, Int

PerLink = Int[Array[np.int64], " links"]
Messages = Float[FloatArray, "links e"]
Arrived = Bool[Array[np.bool_], " links"]


@runtime_checkable
class UnheardMethod(Protocol):
    """A method that knows what stands for a neighbour never heard."""

    def unheard(self, start: Vectors) -> Message:
        """Return what everybody counts as having told before the first round."""
        ...


@dataclass(frozen=True, eq=False)
class LastHeard:
    """The last message that came over every link, all links as rows.

    Attributes:
        senders: who speaks, link by link.
        messages: what was last heard of it over that link.
        own: for each kind of weights, those of the parties for themselves.
        gather: for each kind, the receivers' weights as an n x links matrix.
    """

    senders: PerLink
    messages: Messages
    own: dict[Weighting, FloatArray]
    gather: dict[Weighting, Sparse]

    @classmethod
    def of(cls, weights: Weights, unheard: Message) -> LastHeard:
        """Return the memory before the first round.

        Args:
            weights: sparse and n x n, all on the same links.
            unheard: what each party counts as having told so far, (n, e).
        """
        receivers, senders = faulty_engine_links(weights)
        own = {name: each.diagonal() for name, each in weights.items()}
        gather, links = {}, np.arange(len(receivers))
        for name, each in weights.items():
            values = np.asarray(each.tocsr()[receivers, senders]).ravel()
            shape = (each.shape[0], len(links))
            gather[name] = scipy.sparse.csr_array(
                (values, (receivers, links)), shape=shape
            )
        return cls(senders, unheard[senders], own, gather)

    def hear(self, told: Message, arrived: Arrived) -> LastHeard:
        """Return the memory after a round in which some links were silent."""
        messages = np.where(arrived[:, None], told[self.senders], self.messages)
        return replace(self, messages=messages)

    def mixed(self, parts: tuple[Weighting, ...], told: Message) -> Message:
        """Return each party's weighted sum: its own message, and those it remembers."""
        own, heard = (
            np.split(each, len(parts), axis=-1) for each in (told, self.messages)
        )
        sums = [
            self.own[part][:, None] * mine + self.gather[part] @ theirs
            for part, mine, theirs in zip(parts, own, heard, strict=True)
        ]
        return np.concatenate(sums, axis=-1)


def faulty_engine_links(weights: Weights) -> tuple[PerLink, PerLink]:
    pattern = sum(abs(each) for each in weights.values()).tocoo()
    between = pattern.row != pattern.col
    ends = (pattern.row[between], pattern.col[between])
    receivers, senders = (np.asarray(each, dtype=np.int64) for each in ends)
    return receivers, senders


@dataclass(frozen=True, slots=True, eq=False)
class UnderWay:
    """Messages of all parties in one iteration, and each link's delay for them."""

    told: Message
    iteration: int
    takes: Takes


@dataclass(frozen=True, slots=True, eq=False)
class FaultyMail:
    """Latest message received over every link, and the messages still under way.

    Attributes:
        newest: iteration in which that message was sent; -1 if there is none.
    """

    memory: LastHeard
    newest: PerLink
    under_way: tuple[UnderWay, ...] = ()

    @classmethod
    def empty(cls, weights: Weights, unheard: Message) -> FaultyMail:
        memory = LastHeard.of(weights, unheard)
        return cls(memory, np.full(len(memory.senders), -1))

    def carry(self, sent: UnderWay, longest: int) -> FaultyMail:
        """Return the links one round later; what was overtaken is dropped."""
        memory, newest, under_way = self.memory, self.newest, (*self.under_way, sent)
        for each in under_way:
            arrives = each.iteration + each.takes == sent.iteration
            counts = arrives & (each.takes != LOST) & (each.iteration > newest)
            memory = memory.hear(each.told, counts)
            newest = np.where(counts, each.iteration, newest)
        return FaultyMail(memory, newest, under_way[-longest:] if longest else ())


@dataclass(frozen=True, slots=True, eq=False)
class FaultyPairs:
    """Pairs of linked parties, both directions taken together.

    Attributes:
        of_link: pair that each direction belongs to, in the order of
            `faulty_engine_links`.
        incidence: n x pairs, 1 at the one end and -1 at the other.
    """

    ends: EdgeList
    of_link: PerLink
    incidence: Sparse

    @classmethod
    def of(cls, weights: Weights, n_parties: int) -> FaultyPairs:
        links = np.sort(np.stack(faulty_engine_links(weights), axis=1), axis=1)
        ends, of_link = np.unique(links, axis=0, return_inverse=True)
        which = np.arange(len(ends))
        signs = np.repeat([1.0, -1.0], len(ends))
        places = (ends.T.ravel(), np.tile(which, 2))
        shape = (n_parties, len(ends))
        incidence = scipy.sparse.csr_array((signs, places), shape=shape)
        return cls(ends, of_link.ravel().astype(np.int64), incidence)

    def mix(self, told: Message, out: OutLinks) -> Message:
        """Return told mixed with the Metropolis weights of the links that work."""
        degrees = np.bincount(self.ends[~out].ravel(), minlength=len(told))
        along = ~out / (1.0 + degrees[self.ends].max(axis=1))
        apart = told[self.ends[:, 0]] - told[self.ends[:, 1]]
        return told - self.incidence @ (along[:, None] * apart)


@dataclass(frozen=True, slots=True, eq=False)
class FaultyState:
    """All parties, and what lies between them.

    Attributes:
        mails: one for each of an iteration's rounds, if messages are remembered.
        turn: which of those rounds comes next.
    """

    inner: Any
    mails: tuple[FaultyMail, ...] = ()
    turn: int = 0

    @property
    def x(self) -> PartyPoints:
        found: PartyPoints = self.inner.x
        return found

    @property
    def iteration(self) -> int:
        return int(self.inner.iteration)


@dataclass(frozen=True, eq=False)
class FaultyEngine:
    """Iterations in which things go wrong, as the faults say.

    Attributes:
        task: with a method that bears these faults, in float64.
    """

    task: EngineTask
    faults: LinkFaults
    name: str = field(default="numpy, with faults", init=False)

    def __post_init__(self) -> None:
        self._check_borne()
        if self.task.precision != "float64":
            raise InvalidInputError(
                "faults are simulated in float64, found precision "
                f"{self.task.precision}; leave precision out",
                code="faults-need-float64",
            )

    def _check_borne(self) -> None:
        """Refuse faults that the method does not bear, and say which one does."""
        method, kinds = self.task.method, self.faults.kinds
        check_method_fits(method, MethodNeeds(bounded=True, faults=kinds))
        # Several rounds of mixing go together only over links that work all along, or
        # whose two ends know that they do not.
        known = {"changing", "quantise"} if method.traits.symmetric else {"quantise"}
        if isinstance(method, Chebyshev) and method.rounds > 1 and not kinds <= known:
            raise InvalidInputError(
                f"{method.name} bears such links with one round of mixing in each "
                f"iteration, found {method.rounds_per_iteration}; leave rounds out",
                code="rounds-with-faults",
            )

    def begin(self) -> FaultyState:
        return FaultyState(self.task.method.begin(self.task.start, self.task.cost))

    def advance(self, state: MethodState, count: int) -> FaultyState:
        now, until = _own_faulty_state(state), state.iteration + count
        while now.iteration < until:
            now = self._round(now)
        return now

    def points(self, state: MethodState) -> PartyPoints:
        return _own_faulty_state(state).x

    def aims(self, state: MethodState) -> PartyPoints:
        found: PartyPoints = self.task.method.aim(_own_faulty_state(state).inner)
        return found

    def _round(self, state: FaultyState) -> FaultyState:
        method, before = self.task.method, state.inner
        told = method.outgoing(before)
        rounded = self.faults.rounded(told, state.iteration, turn=state.turn)
        mails, mixed = self._heard(state, rounded)
        after = method.advance(before, mixed + (told - rounded), self.task.cost)
        if self._slow.any():
            idle = self.faults.skips(state.iteration, self._slow)
            after = stay_where_engine_is_idle(before, after, idle)
        turn = (state.turn + 1) % method.rounds_per_iteration
        return FaultyState(after, mails, turn)

    def _heard(
        self, state: FaultyState, told: Message
    ) -> tuple[tuple[FaultyMail, ...], Message]:
        """Return the links after a round, and every party's weighted sum."""
        parts, k = self.task.method.parts(state.inner), state.iteration
        if self._remembers:
            mails = self._delivered(state, told)
            return mails, mails[state.turn].memory.mixed(parts, told)
        if "changing" in self.faults.kinds:
            return (), self._pairs.mix(told, self._out(k))
        return (), mix_method_messages(self.task.weights, parts, told)

    def _delivered(self, state: FaultyState, told: Message) -> tuple[FaultyMail, ...]:
        """Return the links after a round; before the first one nothing was heard."""
        turn, k, mails = state.turn, state.iteration, list(state.mails)
        if turn == len(mails):
            method, start = self.task.method, self.task.start
            first = method.unheard(start) if isinstance(method, UnheardMethod) else told
            mails.append(FaultyMail.empty(self.task.weights, first))
        takes = self.faults.takes(k, len(self._pairs.of_link), turn=turn)
        takes[self._out(k)[self._pairs.of_link]] = LOST
        mails[turn] = mails[turn].carry(UnderWay(told, k, takes), self.faults.delay[1])
        return tuple(mails)

    def _out(self, iteration: int) -> OutLinks:
        return self.faults.out(iteration, len(self._pairs.ends))

    @cached_property
    def _remembers(self) -> bool:
        """Whether neighbours count with what was last heard of them."""
        missing = bool(self.faults.kinds & {"loss", "delay"})
        return missing or isinstance(self.task.method, UnheardMethod)

    @cached_property
    def _pairs(self) -> FaultyPairs:
        return FaultyPairs.of(self.task.weights, len(self.task.start))

    @cached_property
    def _slow(self) -> IdleParties:
        return self.faults.slow(len(self.task.start))


def stay_where_engine_is_idle(before: S, after: S, idle: IdleParties) -> S:
    """Return the state after a round in which some parties did nothing."""
    kept = {
        each.name: np.where(idle[:, None], getattr(before, each.name), moved)
        for each in fields(after)  # type: ignore[arg-type]
        if isinstance(moved := getattr(after, each.name), np.ndarray)
    }
    return replace(after, **kept)  # type: ignore[type-var]


def _own_faulty_state(state: MethodState) -> FaultyState:
    if not isinstance(state, FaultyState):
        raise InvalidInputError(
            "this state belongs to another engine; begin anew",
            code="state-of-other-engine",
        )
    return state
