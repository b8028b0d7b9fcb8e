"""The records that everybody gets: signed by their author, kept, and passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np

from veilsum.errors import PeerProtocolError
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import (
    Agreed,
    Join,
    Lost,
    Masked,
    Quit,
    Ready,
    Record,
    RecordId,
    Result,
    check_numbers,
)
from veilsum.protocol.plan import Plan

R = TypeVar("R", bound=Record)

# Records that belong to one epoch and not to the whole run.
EPOCHAL = frozenset({"Ready", "Masked"})
# Longer frames are not compared whole before they are decoded.
SHORT_FRAME = 4096


@runtime_checkable
class Keys(Protocol):
    """What a party can do with its own key, and with the others' public ones.

    Signatures and fresh secrets come from outside, through this interface.
    """

    def sign(self, content: bytes) -> bytes:
        """Return this party's signature, 64 bytes."""
        ...

    def verify(self, party: str, content: bytes, signature: bytes) -> bool:
        """Say whether a party of the plan signed this."""
        ...

    def random(self, count: int) -> bytes:
        """Return fresh secret bytes."""
        ...


class Book:
    """All records of a run that a party holds, its own included.

    Attributes:
        joins: everybody's Join that is here, by author.
    """

    def __init__(self, plan: Plan, me: str, keys: Keys) -> None:
        self._plan, self._me, self._keys = plan, me, keys
        self._parties = frozenset(plan.parties)
        # A signature is for this plan and no other use of the key.
        self._context = b"veilsum record\0" + plan.digest
        self.joins: dict[str, Join] = {}
        self._records: dict[RecordId, Record] = {}
        self._frames: dict[RecordId, bytes] = {}
        self._by_kind: dict[tuple[type[Record], int], dict[str, Record]] = {}
        self._seen: set[bytes] = set()

    def __contains__(self, record_id: RecordId) -> bool:
        return record_id in self._records

    def has_seen(self, frame: bytes) -> bool:
        """Say whether these very bytes are a record that is held.

        Most of what flooding brings is: looking costs less than decoding.
        """
        return len(frame) <= SHORT_FRAME and frame in self._seen

    def ids(self) -> tuple[RecordId, ...]:
        """Return what is held."""
        return tuple(self._records)

    def lacking(self, held: Iterable[RecordId]) -> list[RecordId]:
        """Return what is here and not among those."""
        known = set(held)
        return [record_id for record_id in self._records if record_id not in known]

    def frame(self, record_id: RecordId) -> bytes:
        """Return a held record's frame."""
        return self._frames[record_id]

    def of(self, kind: type[R], epoch: int) -> Mapping[str, R]:
        """Return the records of one kind and epoch by author."""
        return self._by_kind.get((kind, epoch), {})  # type: ignore[return-value]

    def all(self, kind: type[R]) -> list[R]:
        """Return every record of one kind."""
        return [one for one in self._records.values() if isinstance(one, kind)]

    # Taking and giving up

    def sealed(self, record: R) -> R:
        """Return a record of this party's own, signed."""
        content = self._context + self._plan.codec.signed_part(record)
        return msgspec.structs.replace(record, signature=self._keys.sign(content))

    def add(self, record: Record, frame: bytes | None = None) -> bytes:
        """Keep a checked record; return its frame, which it may have come in."""
        frame = self._plan.codec.encode(record) if frame is None else frame
        self._records[record.id] = record
        self._frames[record.id] = frame
        if len(frame) <= SHORT_FRAME:
            self._seen.add(frame)
        place = self._by_kind.setdefault((type(record), record.epoch), {})
        place[record.party] = record
        if isinstance(record, Join):
            self.joins[record.party] = record
        return frame

    def forget(self, kind: type[Record], party: str) -> None:
        """Drop an author's records of one kind."""
        for (found, at), held in self._by_kind.items():
            if found is kind and held.pop(party, None) is not None:
                self._drop((kind.__name__, at, party))

    def forget_before(self, epoch: int) -> None:
        """Drop what sums long over have left: nobody asks for it any more."""
        held = self._by_kind
        old = [(k, at) for k, at in held if at < epoch and k.__name__ in EPOCHAL]
        for kind, at in old:
            for party in held.pop((kind, at)):
                self._drop((kind.__name__, at, party))

    def _drop(self, record_id: RecordId) -> None:
        del self._records[record_id]
        self._seen.discard(self._frames.pop(record_id))

    # Checking

    def is_new(self, record: Record, sender: str) -> bool:
        """Say whether a record is one to keep; refuse what its author cannot say.

        What it says of an epoch is for others to check.
        """
        known = self._records.get(record.id)
        if known is not None and known.signature == record.signature:
            return False
        if isinstance(record, Join) and record.plan != self._plan.digest:
            # Before its signature, which holds under its own plan only.
            raise PeerProtocolError(
                sender,
                f"{record.party!r} has the plan {record.plan.hex()[:16]}, {self._me!r} "
                f"has {self._plan.digest.hex()[:16]}: compare the two files",
            )
        self.check_author(record, sender)
        if known is not None:
            raise PeerProtocolError(
                record.party, f"signed two different {record.id[0]} records"
            )
        match record:
            case Join() if record.party in self.joins:
                raise PeerProtocolError(
                    record.party,
                    "two parties go by this name, or one has lost its memory",
                )
            case Lost():
                self._check_lost(record)
            case Quit() if record.reason not in Quit.reasons:
                raise PeerProtocolError(sender, "left for a reason nobody knows")
            # Whatever the epoch: a party must not be able to fill the others' memory.
            case Quit() if any(record.party == one.party for one in self.all(Quit)):
                raise PeerProtocolError(record.party, "has left already")
            case Result() | Agreed() if record.epoch != 0:
                raise PeerProtocolError(sender, "an answer belongs to the whole run")
            case Result():
                wanted = (np.dtype(np.float64), self._plan.answer_size)
                check_numbers(sender, record.numbers, wanted)
        return True

    def check_author(self, record: Record, sender: str) -> None:
        """Refuse a record whose author is unknown or did not sign it.

        What a neighbour says of itself on its own link needs no second proof, unless
        it is to be shown to others later as a promise.
        """
        if record.party not in self._parties:
            raise PeerProtocolError(
                sender,
                f"passed on a record of {record.party!r}, who is not in the plan",
            )
        if sender == record.party and isinstance(record, Join | Masked):
            return
        content = self._context + self._plan.codec.signed_part(record)
        if not self._keys.verify(record.party, content, record.signature):
            raise PeerProtocolError(
                sender, f"passed on a record that {record.party!r} did not sign"
            )

    def _check_lost(self, lost: Lost) -> None:
        join = self.joins.get(lost.party)
        if join is None or join.incarnation != lost.incarnation:
            raise PeerProtocolError(
                lost.party, "gives an epoch up but is not the start that joined"
            )
        if ("Ready", lost.epoch, lost.party) in self:
            raise PeerProtocolError(
                lost.party, f"gives up epoch {lost.epoch}, which it was ready for"
            )
        if not set(lost.lost) <= self._parties - {lost.party}:
            raise PeerProtocolError(lost.party, "cannot lose itself or a stranger")

    # What the records say

    def all_ready(self, epoch: int, members: Collection[str], lost: object) -> bool:
        """Say whether everybody is ready, and without the same parties."""
        ready = self.of(Ready, epoch)
        return len(ready) >= len(members) and all(
            name in ready and ready[name].lost == lost for name in members
        )

    def asked_otherwise(
        self, epoch: int, members: Collection[str], own: Ready
    ) -> list[str]:
        """Return who is ready in the same epoch to answer another request."""
        ready = self.of(Ready, epoch)
        return [
            name
            for name in members
            if name in ready
            and ready[name].lost == own.lost
            and ready[name].request != own.request
        ]

    def all_shown(self, epoch: int, members: Collection[str]) -> bool:
        """Say whether everybody's masked numbers are here."""
        shown = self.of(Masked, epoch)
        return len(shown) >= len(members) and all(name in shown for name in members)

    def proposed(self, members: Collection[str]) -> Result | None:
        """Return the answer to be signed: that of the lowest name."""
        return self.of(Result, 0).get(min(members))

    def signers(self, members: Collection[str]) -> dict[str, bytes]:
        """Return who signed the proposed answer, and not some other one."""
        proposed = self.proposed(members)
        if proposed is None:
            return {}
        digest = Codec.digest(proposed.numbers)
        agreed = self.of(Agreed, 0)
        return {n: one.signature for n, one in agreed.items() if one.digest == digest}

    def all_agreed(self, members: Collection[str]) -> bool:
        """Say whether everybody has signed the proposed answer."""
        if len(self.of(Agreed, 0)) < len(members):
            return False
        return self.signers(members).keys() >= set(members)

    def objections(self, members: Collection[str]) -> list[Quit]:
        """Return the quits of members who left over an answer without signing it."""
        quits = [one for one in self.all(Quit) if one.reason == "result"]
        if not quits:
            return quits
        # What somebody has signed shows when the proposed answer is here.
        unknown = self.proposed(members) is None
        signed = self.of(Agreed, 0).keys() if unknown else self.signers(members).keys()
        waiting = set(members) - signed
        return [one for one in quits if one.party in waiting]

    def dissenters(self, members: Collection[str]) -> list[str]:
        """Return who did not vanish but holds another answer to be right."""
        known = self.proposed(members) is not None
        agreed = self.of(Agreed, 0).keys() if known else set[str]()
        signed = agreed - self.signers(members).keys()
        objectors = {one.party for one in self.objections(members)}
        return sorted(objectors | (signed & set(members)))
