"""An iterative method's rounds after the commit: what is said and what is heard."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from veilsum.errors import LocalProtocolError, PeerProtocolError, UntimelyError
from veilsum.numbers.arrays import Vector
from veilsum.numbers.secrets import Secret
from veilsum.protocol.effects import Effect, Persist, Send
from veilsum.protocol.epoch import ProtocolNeighbourhood
from veilsum.protocol.messages import Numbers, Round, Status, check_message_numbers
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.recovery import KEPT_SLOTS, RecoveredRun
from veilsum.protocol.work import ProtocolRounds


class EpochIteration(Secret):
    """A party's rounds in one epoch; none, where the work has no method for them.

    A neighbour may be a round ahead, so what is heard is kept by round. What was said
    is kept for as long as a neighbour that comes back may ask for it.
    """

    def __init__(
        self,
        plan: ProtocolPlan,
        place: ProtocolNeighbourhood,
        epoch: int,
        method: ProtocolRounds | None,
    ) -> None:
        self._plan, self._place, self._epoch = plan, place, epoch
        self._method = method
        self._state: Any = None
        self._heard: dict[int, dict[str, Numbers]] = {}
        self._said: dict[int, bytes] = {}

    @property
    def index(self) -> int:
        return 0 if self._state is None else int(self._state.index)

    @property
    def planned(self) -> bool:
        return self._method is not None

    @property
    def finished(self) -> bool:
        """Whether the last round is done."""
        assert self._method is not None
        return self._method.finished(self._state)

    def begin(self, masked: Numbers) -> None:
        """Begin from masked numbers, unless a state has been read from the disk."""
        assert self._method is not None
        if self._state is None:
            place = self._place
            self._state = self._method.begin(masked, place.members, place.me)

    def restore(self, stored: RecoveredRun) -> None:
        """Take back what an earlier start has kept, if it got that far."""
        assert self._method is not None
        if (kept := stored.rounds()) is None:
            return
        packed, said = kept
        place = self._place
        self._state = self._method.unpack(packed, place.members, place.me)
        self._said |= said

    def take(self, sender: str, message: Round) -> bool:
        """Keep a neighbour's numbers; say whether the round is complete."""
        if self._method is None:
            raise PeerProtocolError(
                sender, "sends rounds, and the plan has none", code="no-rounds"
            )
        index, numbers = message.index, message.numbers
        wanted = self._method.expected(index, self._place.members)
        check_message_numbers(sender, numbers, wanted)
        now = 0 if self._state is None else self._state.index
        # A party that repeats rounds hears everything again that it missed.
        if index > now + 1 + self._plan.checkpoint:
            raise UntimelyError(
                sender, f"is at round {index}, this party at {now}", code="other-round"
            )
        if index < now:
            return False
        heard = self._heard.setdefault(index, {})
        heard[sender] = numbers
        return index == now and len(heard) == len(self._place.neighbours)

    def advance(self) -> bool:
        """Take one round if every neighbour was heard; say whether one was taken."""
        method, state = self._method, self._state
        if method is None or state is None or method.finished(state):
            return False
        heard = self._heard.get(state.index, {})
        if len(heard) < len(self._place.neighbours):
            return False
        self._heard.pop(state.index, None)
        self._state = method.advance(state, heard)
        return True

    def keep(self) -> list[Effect]:
        """Every so many rounds, keep the state and what was said since the last time.

        A party that comes back repeats the rounds since then, and comes to the same
        numbers; its neighbours still have what they said, and so has it.
        """
        assert self._method is not None
        index, every = self._state.index, self._plan.checkpoint
        if index % every and not self.finished:
            return []
        since = {k: one for k, one in self._said.items() if k >= index - every}
        slot = index // every % KEPT_SLOTS
        return [
            Persist(f"said/{slot}", msgspec.msgpack.encode(since)),
            Persist("rounds", self._method.pack(self._state)),
        ]

    def say(self) -> list[Effect]:
        """Tell the neighbours this round's numbers, unless there is no round left."""
        method, state = self._method, self._state
        assert method is not None
        if method.finished(state):
            return []
        message = Round(self._epoch, state.index, method.outgoing(state))
        try:
            self._said[state.index] = frame = self._plan.codec.encode(message)
        except LocalProtocolError as error:
            raise (method.strayed(state) or error) from None
        kept = self._plan.checkpoint * KEPT_SLOTS
        self._said.pop(state.index - kept, None)
        return [Send(to, frame) for to in self._place.neighbours]

    def answer(self) -> Vector:
        assert self._method is not None
        return self._method.answer(self._state)

    def heard(self) -> Collection[str]:
        return () if self._state is None else self._heard.get(self._state.index, ())

    def latest_heard(self, name: str) -> int:
        """Return the last round up to which a neighbour was heard, none missing.

        A neighbour may be ahead: what it said last says nothing of what came before.
        """
        last = -1 if self._state is None else self._state.index - 1
        while name in self._heard.get(last + 1, ()):
            last += 1
        return last

    def is_ahead(self, status: Status) -> bool:
        """Say whether a neighbour has heard rounds that this party never said.

        Rounds since the state was kept last are repeated, and come out the same. Along
        a tree there is only round 0.
        """
        if self._method is None:
            return status.round > 0
        return status.round > max(self._said, default=-1) + self._plan.checkpoint

    def repair(self, sender: str, status: Status) -> list[Effect]:
        """Say again what a neighbour has not heard."""
        said = self._said.items()
        return [Send(sender, frame) for index, frame in said if index > status.round]
