"""Stored state that a party reads from its disk when it restarts.

Its earlier starts have written under these keys, as `Persist` effects, everything that
no other party can send again:

    self                    the start that joined, and the key of fingerprints
    record/KIND/EPOCH       own signed records
    lost                    lost parties
    input/EPOCH             fingerprint of the private numbers under these masks
    sent/EPOCH/NAME, got/   shares, until the sum is known
    prepared/EPOCH          own masked numbers, from Ready to the commit
    commit/EPOCH            everybody's Ready
    masked/EPOCH            own masked numbers, as they are sent
    answer/INDEX, down      totals, and the last one that went down a tree
    rounds, said/SLOT       an iterative method's state, and messages sent since
    result                  own answer
    evidence/NAME           two records of another party that contradict each other
    finished, aborted       outcome of the run
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import msgspec
import numpy as np

from veilsum.numbers.arrays import Vector
from veilsum.numbers.secrets import Secret
from veilsum.protocol.effects import Abort, Finish
from veilsum.protocol.evidence import Contradiction, unpack_contradiction
from veilsum.protocol.messages import Down, Masked, Message, Ready, Record, Share
from veilsum.protocol.plan import DecodedSum, ProtocolPlan

# What was said is kept for so many times as many rounds as the plan's `checkpoint`: two
# would do where nobody comes back in the middle of a writing.
KEPT_SLOTS = 3

_unpack = msgspec.msgpack.decode


@dataclass(frozen=True, eq=False, repr=False)
class RecoveredRun(Secret):
    """Contents of a run's file, decoded."""

    plan: ProtocolPlan
    written: Mapping[str, bytes]

    def has_spoken(self) -> bool:
        """Say whether an earlier start got as far as to tell anybody anything."""
        return any(
            key == "aborted" or key.startswith("record/") for key in self.written
        )

    def start(self) -> tuple[bytes, bytes]:
        """Return who joined, and the key of the fingerprints."""
        joined_as, secret_key = _unpack(self.written["self"])
        return joined_as, secret_key

    def records(self) -> list[Record]:
        return cast(list[Record], self._messages("record/"))

    def lost(self) -> tuple[str, ...]:
        return tuple(_unpack(self.written["lost"])) if "lost" in self.written else ()

    def fingerprint(self, epoch: int) -> bytes | None:
        """Return what an epoch's masks were bound to."""
        return self.written.get(f"input/{epoch}")

    def shares(self, way: str, epoch: int, names: Iterable[str]) -> dict[str, Share]:
        """Return an epoch's shares by neighbour, `sent` to them or `got` from them."""
        frames = {name: self.written.get(f"{way}/{epoch}/{name}") for name in names}
        return {
            name: cast(Share, self.plan.codec.decode(frame))
            for name, frame in frames.items()
            if frame is not None
        }

    def prepared(self) -> dict[int, Masked]:
        """Return own masked numbers of epochs that are not committed yet."""
        found = cast(list[Masked], self._messages("prepared/"))
        return {one.epoch: one for one in found}

    def committed(self, since: int) -> list[Ready]:
        """Return everybody's Ready of the committed epochs from a number on."""
        packed = (
            value
            for key, value in self.written.items()
            if key.startswith("commit/") and int(key.removeprefix("commit/")) >= since
        )
        frames = (one for value in packed for one in _unpack(value, type=list[bytes]))
        return [cast(Ready, self.plan.codec.decode(frame)) for frame in frames]

    def masked(self) -> dict[int, Masked]:
        found = cast(list[Masked], self._messages("masked/"))
        return {one.epoch: one for one in found}

    def decoded(self) -> list[DecodedSum]:
        """Return the sums that are known, in order."""
        found = list[DecodedSum]()
        while (frame := self.written.get(f"answer/{len(found)}")) is not None:
            total = cast(Down, self.plan.codec.decode(frame))
            found.append(self.plan.decoder.decode(len(found), total.numbers))
        return found

    def sums(self) -> tuple[Vector, ...]:
        return tuple(one.value for one in self.decoded())

    def passed_down(self) -> tuple[int, bytes] | None:
        """Return the last total that went down the tree, as the frame it went in."""
        if "down" not in self.written:
            return None
        epoch, frame = _unpack(self.written["down"])
        return epoch, frame

    def rounds(self) -> tuple[bytes, dict[int, bytes]] | None:
        """Return an iterative method's packed state, and what was said around it."""
        if "rounds" not in self.written:
            return None
        said: dict[int, bytes] = {}
        for slot in range(KEPT_SLOTS):
            kept = self.written.get(f"said/{slot}")
            if kept is not None:
                said |= _unpack(kept, type=dict[int, bytes])
        return self.written["rounds"], said

    def result(self) -> Vector | None:
        """Return the answer that this party found."""
        found = self.written.get("result")
        return None if found is None else np.frombuffer(found)

    def evidence(self) -> tuple[Contradiction, ...]:
        keys = (key for key in self.written if key.startswith("evidence/"))
        return tuple(
            unpack_contradiction(self.written[key], self.plan.codec) for key in keys
        )

    def end(self) -> Finish | Abort | None:
        if "finished" in self.written:
            result, parties, *signed = _unpack(self.written["finished"])
            return Finish(np.frombuffer(result), tuple(parties), *signed)
        if "aborted" in self.written:
            reason, _, detail = self.written["aborted"].decode().partition("\n")
            return Abort(reason, detail)
        return None

    def _messages(self, prefix: str) -> list[Message]:
        keys = (key for key in self.written if key.startswith(prefix))
        return [self.plan.codec.decode(self.written[key]) for key in keys]
