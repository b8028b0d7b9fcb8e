"""From stored records back to a party's state."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import cast

import msgspec
import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Vector
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Abort, Charge, Deliver, Finish
from veilsum.protocol.messages import Down, Join, Masked, Message, Record, Share
from veilsum.protocol.phases import (
    ABORTED,
    AGREEING,
    COMMITTING,
    FINISHED,
    GREETING,
    ITERATING,
    SUMMING,
)
from veilsum.protocol.plan import Plan
from veilsum.protocol.steps import KEPT_SLOTS, Steps

Stored = Mapping[str, bytes]


def stored_end(stored: Stored) -> Finish | Abort | None:
    """Return how a run ended by its stored records, if it has."""
    if "finished" in stored:
        result, parties, signatures = msgspec.msgpack.decode(stored["finished"])
        return Finish(np.frombuffer(result), tuple(parties), signatures)
    if "aborted" in stored:
        reason, _, detail = stored["aborted"].decode().partition("\n")
        return Abort(reason, detail)
    return None


def stored_sums(plan: Plan, stored: Stored) -> tuple[Vector, ...]:
    """Return the sums that stored records hold, in order."""
    codec, found = Codec(plan.size), list[Vector]()
    while (frame := stored.get(f"answer/{len(found)}")) is not None:
        total = cast(Down, codec.decode(frame))
        found.append(plan.law.decode(total.numbers))
    return tuple(found)


class Restoring(Steps):
    """How a party that was restarted finds its place again."""

    def _restore(self, stored: Stored) -> None:
        """Take everything back; the phase follows from what is there."""
        self._joined_as, self._secret_key = msgspec.msgpack.decode(stored["self"])
        for key, value in stored.items():
            if key.startswith("record/"):
                self._book.add(cast(Record, self._message(value)))
        for join in (r for r in self._own_records() if isinstance(r, Join)):
            self._joins[self.me] = join
        if "finished" in stored or "aborted" in stored:
            self._restore_end(stored)
            return
        self._restore_epoch(stored)
        self.phase = self._restored_phase(stored)

    def _restore_end(self, stored: Stored) -> None:
        """Tell the driver again how it ended: the first time may have been cut off."""
        end = stored_end(stored)
        assert end is not None
        self._out.append(end)
        self._restore_members(stored)
        if self._work.rounds is not None and "rounds" in stored:
            self._restore_rounds(stored)
        self.phase = FINISHED if isinstance(end, Finish) else ABORTED

    def _restore_members(self, stored: Stored) -> None:
        if "lost" in stored:
            self._lost = frozenset(msgspec.msgpack.decode(stored["lost"]))
        self._edges = self._new_edges()

    def _message(self, frame: bytes) -> Message:
        return self._codec.decode(frame)

    def _own_records(self) -> list[Record]:
        found = (self._book.get(one) for one in self._book.ids())
        return [one for one in found if one is not None and one.party == self.me]

    def _restore_epoch(self, stored: Stored) -> None:
        for value in stored_sums(self.plan, stored):
            self._out.append(Deliver(len(self._answers), value))
            self._answers.append(value)
        self._restore_members(stored)
        for name in self._neighbours:
            for kind, held in (("sent", self._edges.sent), ("got", self._edges.got)):
                frame = stored.get(f"{kind}/{self.epoch}/{name}")
                if frame is not None:
                    held[name] = cast(Share, self._message(frame))
        self._restore_input(stored)
        self._restore_emissions(stored)
        if "down" in stored:
            epoch, frame = msgspec.msgpack.decode(stored["down"])
            self._passed_down = (epoch, frame)

    def _restore_input(self, stored: Stored) -> None:
        """Refuse new data under old masks: the change would show."""
        vector = self._work.vector(self._answers)
        if vector is None:
            return
        self._private = self.plan.law.encode(vector)
        bound = stored.get(f"input/{self.epoch}")
        if bound is not None and not hmac.compare_digest(bound, self._fingerprint()):
            raise InvalidInputError(
                "the data have changed since this run began, and its masks hide the "
                "old ones only: put them back, or start a new run"
            )

    def _restored_phase(self, stored: Stored) -> str:
        if "result" in stored:
            self._answer = np.frombuffer(stored["result"])
            return AGREEING
        if self._answers and self._work.vector(self._answers) is None:
            return AGREEING
        if self._masked is not None:
            # The charge may have been cut off; a second one for an epoch is free.
            masked = self._masked.numbers
            self._out.append(Charge(self.epoch, self.members, masked))
            return SUMMING if self._work.rounds is None else ITERATING
        ready = ("Ready", self.epoch, self.me) in self._book
        return COMMITTING if ready else GREETING

    def _restore_emissions(self, stored: Stored) -> None:
        """Take back what was masked: it is shown again as it was, never made anew."""
        for key, frame in stored.items():
            if key.startswith("masked/"):
                masked = cast(Masked, self._message(frame))
                self._past[masked.epoch] = masked
        self._masked = self._past.pop(self.epoch, None)
        if self._masked is not None and "rounds" in stored:
            self._restore_rounds(stored)

    def _restore_rounds(self, stored: Stored) -> None:
        rounds = self._work.rounds
        assert rounds is not None
        self._state = rounds.unpack(stored["rounds"], self._graph, self.me)
        for slot in range(KEPT_SLOTS):
            kept = stored.get(f"said/{slot}")
            if kept is not None:
                self._said |= msgspec.msgpack.decode(kept, type=dict[int, bytes])
