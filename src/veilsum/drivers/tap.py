"""A tap: what one party's machine really sent, received and kept, for its transcript.

It is told what happens to the machine, in order, as a world's history or a real party's
runner tells it, and changes nothing. Frames are kept as they are and read at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from veilsum.numbers.arrays import Array
from veilsum.numbers.secrets import Secret
from veilsum.privacy.transcript import HELD, Transcript, TranscriptExchange
from veilsum.protocol.codec import MalformedMessageError
from veilsum.protocol.effects import Persist
from veilsum.protocol.messages import (
    MESSAGES,
    Deposit,
    Down,
    Masked,
    Message,
    Numbers,
    Round,
    Share,
    Up,
)
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.work import ProtocolRounds, ProtocolWork

# What may come to pass: a frame that was sent, or received, or a key that was written.
Happening: TypeAlias = tuple[str, bytes, str]

# Messages with numbers of the run in them, by the name that a frame has at this place.
_NAME_AT = 9
_NAMES = tuple(kind.__name__.encode() for kind in MESSAGES if kind.part)
# Keys under which a machine keeps such: own shares, those it took, its masked vectors,
# and totals.
_KEYS = ("sent/", "got/", "masked/", "answer/")
# A transcript has no more bytes of frames than this; what comes later is left out.
MOST_BYTES = 1 << 28


class MachineTap(Secret):
    """Keeps what happens to one party's machine in one run."""

    def __init__(
        self, plan: ProtocolPlan, party: str, *, earlier: Transcript | None = None
    ) -> None:
        self.plan, self.party, self.earlier = plan, party, earlier
        self._own: dict[int, Array[Any]] = {}
        # In order, each once: whoever repeats itself takes no more room.
        self._happened: dict[Happening, None] = {}
        self._bytes, self._whole, self._just_heard = 0, True, False

    def on(self, work: ProtocolWork) -> TappedWork:
        """Return the party's work, of which every vector is noted that it hands out."""
        return TappedWork(work, self)

    def resume(self, stored: Mapping[str, bytes]) -> None:
        """Take what an earlier start has left on the disk, and no tap may have seen."""
        for key, value in stored.items():
            self._keep("persist", value, key)

    def note(self, what: str, detail: Any, peer: str | None) -> None:
        """Take what happened, if it is about the run's numbers."""
        if what == "refuse" and self._just_heard:
            # The machine took nothing from the frame that came right before.
            (_, frame, _), _ = self._happened.popitem()
            self._bytes -= len(frame)
        self._just_heard = False
        if what == "persist":
            write: Persist = detail
            if write.value is not None:
                self._keep(what, write.value, write.key)
        elif what in {"send", "receive"} and detail.startswith(_NAMES, _NAME_AT):
            kept = self._keep(what, detail, str(peer))
            self._just_heard = kept and what == "receive"

    def note_vector(self, index: int, vector: Numbers) -> None:
        """Take the private vector that goes into the sum after so many others."""
        self._own[index] = self.plan.law.encode(vector)

    def _keep(self, what: str, content: bytes, where: str) -> bool:
        if what == "persist" and not where.startswith(_KEYS):
            return False
        if (what, content, where) in self._happened:
            return False
        if self._bytes + len(content) > MOST_BYTES:
            self._whole = False
        if self._whole:
            self._bytes += len(content)
            self._happened[what, content, where] = None
        return self._whole

    def transcript(self) -> Transcript:
        """Return what this party stored, sent and received so far."""
        epochs = _TappedEpochs(self.plan, self.party)
        for what, content, where in self._happened:
            epochs.take(what, content, where)
        made = Transcript(
            corrupted=(self.party,),
            topology=self.plan.topology,
            law=self.plan.law,
            plan=self.plan.digest,
            rounds=tuple(epochs.exchanges(self._own)),
            whole=self._whole,
        )
        return (
            made if self.earlier is None else Transcript.together([self.earlier, made])
        )


@dataclass(frozen=True, eq=False, repr=False)
class TappedWork(Secret):
    """A party's work, with a tap on the vectors that it hands to its machine."""

    work: ProtocolWork
    tap: MachineTap

    @property
    def rounds(self) -> ProtocolRounds | None:
        return self.work.rounds

    @property
    def most_sums(self) -> int:
        return self.work.most_sums

    def vector(self, answers: Sequence[Numbers]) -> Numbers | None:
        vector = self.work.vector(answers)
        if vector is not None and vector.shape == (self.tap.plan.size,):
            self.tap.note_vector(len(answers), vector)
        return vector

    def asked(self, answers: Sequence[Numbers]) -> bytes:
        return self.work.asked(answers)

    def answer(self, answers: Sequence[Numbers], members: tuple[str, ...]) -> Numbers:
        return self.work.answer(answers, members)


class _TappedEpochs:
    """Messages in a party's frames, ordered by epoch; the first of a kind counts."""

    def __init__(self, plan: ProtocolPlan, party: str) -> None:
        self._plan, self._me = plan, party
        self._held: dict[int, dict[str, dict[Any, Array[Any]]]] = {}
        self._totals: dict[int, Array[Any]] = {}
        # By how many: parties are lost one after the other, and none comes back.
        self._lost: dict[int, tuple[str, ...]] = {0: ()}

    def take(self, what: str, content: bytes, where: str) -> None:
        try:
            message = self._plan.codec.decode(content)
        except MalformedMessageError:
            return  # from a neighbour whose machine is another one
        way, *rest = where.split("/", 2)
        mine = what == "send" or (what == "persist" and way != "got")
        peer = rest[-1] if what == "persist" else where
        sender, receiver = (self._me, peer) if mine else (peer, self._me)
        self._read(message, sender, receiver)

    def _read(self, message: Message, sender: str, receiver: str) -> None:
        match message:
            case Share():
                self._lost.setdefault(len(message.lost), message.lost)
                self._keep(message, (sender, receiver))
            case Masked():
                self._keep(message, message.party)
            case Deposit():
                self._keep(message.masked, message.masked.party)
            case Up():
                self._keep(message, sender)
            case Round():
                self._keep(message, (message.index, sender))
            case Down():
                self._totals.setdefault(message.epoch, message.numbers)

    def _keep(self, message: Share | Masked | Up | Round, key: object) -> None:
        empty: dict[str, dict[Any, Array[Any]]] = {name: {} for name in HELD}
        found = self._held.setdefault(message.epoch, empty)
        found[message.part].setdefault(key, message.numbers)

    def exchanges(self, own: Mapping[int, Array[Any]]) -> Iterable[TranscriptExchange]:
        """Yield an exchange for each epoch, with the vectors that went into it.

        Shares that went ahead for a sum that nobody asked for mask nothing: they are
        left out.
        """
        for epoch, held in sorted(self._held.items()):
            index, n_lost = divmod(epoch, self._plan.epochs_per_sum)
            lost = self._lost.get(n_lost, ())
            vector = {self._me: own[index]} if index in own else {}
            used = vector or any(held[part] for part in HELD if part != "shares")
            if not used and epoch not in self._totals:
                continue
            yield TranscriptExchange(
                epoch=epoch,
                members=tuple(n for n in self._plan.parties if n not in lost),
                total=self._totals.get(epoch),
                **{**held, "own": vector},
            )
