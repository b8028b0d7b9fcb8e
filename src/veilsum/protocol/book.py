"""The records that everybody gets: signed by their author, kept, and passed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from veilsum.errors import PeerProtocolError
from veilsum.protocol.codec import Codec
from veilsum.protocol.keys import Keys
from veilsum.protocol.messages import Join, Masked, Record, RecordId
from veilsum.protocol.plan import Plan

R = TypeVar("R", bound=Record)

# Records that belong to one epoch and not to the whole run.
EPOCHAL = frozenset({"Ready", "Masked"})
# Longer frames are not compared whole before they are decoded.
SHORT_FRAME = 4096


class Book:
    """All records of a run that a party holds, its own included."""

    def __init__(self, plan: Plan, codec: Codec, keys: Keys) -> None:
        self._codec, self._keys = codec, keys
        self._parties = frozenset(plan.parties)
        # A signature is for this plan and no other use of the key.
        self._context = b"veilsum record\0" + plan.digest
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

    def sealed(self, record: R) -> R:
        """Return a record of this party's own, signed."""
        content = self._context + self._codec.signed_part(record)
        return msgspec.structs.replace(record, signature=self._keys.sign(content))

    def check(self, record: Record, sender: str) -> None:
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
        content = self._context + self._codec.signed_part(record)
        if not self._keys.verify(record.party, content, record.signature):
            raise PeerProtocolError(
                sender, f"passed on a record that {record.party!r} did not sign"
            )

    def add(self, record: Record, frame: bytes | None = None) -> bytes:
        """Keep a checked record; return its frame, which it may have come in."""
        frame = self._codec.encode(record) if frame is None else frame
        self._records[record.id] = record
        self._frames[record.id] = frame
        if len(frame) <= SHORT_FRAME:
            self._seen.add(frame)
        place = self._by_kind.setdefault((type(record), record.epoch), {})
        place[record.party] = record
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

    def get(self, record_id: RecordId) -> Record | None:
        """Return one record, if it is held."""
        return self._records.get(record_id)

    def frame(self, record_id: RecordId) -> bytes:
        """Return a held record's frame."""
        return self._frames[record_id]

    def of(self, kind: type[R], epoch: int) -> Mapping[str, R]:
        """Return the records of one kind and epoch by author."""
        return self._by_kind.get((kind, epoch), {})  # type: ignore[return-value]

    def all(self, kind: type[R]) -> list[R]:
        """Return every record of one kind."""
        return [one for one in self._records.values() if isinstance(one, kind)]

    def lacking(self, held: Iterable[RecordId]) -> list[RecordId]:
        """Return what is here and not among those."""
        known = set(held)
        return [record_id for record_id in self._records if record_id not in known]
