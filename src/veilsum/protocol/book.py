"""The records that everybody gets: signed by their author, kept, and passed on.

Of each author a book holds one Join, Lost, Result, Agreed and Quit at most, and of each
of the last sums one Ready and one Masked: whatever others send, it does not grow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np

from veilsum.errors import PeerProtocolError, UntimelyError
from veilsum.numbers.arrays import listed_names
from veilsum.protocol.codec import Codec
from veilsum.protocol.evidence import (
    Contradiction,
    commitment_to_masked_vector,
    named_signed_record,
    record_bytes_to_sign,
    records_contradict,
)
from veilsum.protocol.messages import (
    Agreed,
    Held,
    Join,
    Lost,
    Masked,
    Quit,
    Ready,
    Record,
    RecordId,
    Result,
    check_message_numbers,
)
from veilsum.protocol.plan import ProtocolPlan

R = TypeVar("R", bound=Record)

# Records that belong to one epoch and not to the whole run.
EPOCHAL = frozenset({"Ready", "Masked"})
# Longer frames are not compared whole before they are decoded.
SHORT_FRAME = 4096
# Over what others found a party may leave that has not signed it.
OBJECTIONS = frozenset({"proof", "result"})


@runtime_checkable
class ProtocolKeys(Protocol):
    """Cryptographic operations with a party's own key and the others' public keys.

    Signatures and fresh secrets come from outside, through this interface.
    """

    def sign(self, content: bytes) -> bytes: ...

    def verify(self, party: str, content: bytes, signature: bytes) -> bool:
        """Say whether a party of the plan signed this."""
        ...

    def random(self, count: int) -> bytes: ...


class RecordBook:
    """All records of a run that a party holds, its own included.

    Of each author it holds the records of one start: the one whose Join came first.

    Attributes:
        start: the one of this party that joins.
        joins: everybody's Join that is here, by author.
        evidence: by author: two of its records that no one honest start signs.
        sums: digests of what this party's answer follows from, where everybody knows
            the sums.
    """

    def __init__(
        self, plan: ProtocolPlan, me: str, keys: ProtocolKeys, start: bytes
    ) -> None:
        self._plan, self._me, self._keys, self.start = plan, me, keys, start
        self._parties = frozenset(plan.parties)
        self.joins: dict[str, Join] = {}
        self.evidence: dict[str, Contradiction] = {}
        self.sums: tuple[bytes, ...] = ()
        self._records: dict[RecordId, Record] = {}
        self._held: dict[RecordId, Held] = {}
        self._digests: dict[RecordId, bytes] = {}
        # The record that was signed here last, and its content's digest.
        self._sealed: tuple[Record, bytes] | None = None
        self._frames: dict[RecordId, bytes] = {}
        self._by_kind: dict[tuple[type[Record], int], dict[str, Record]] = {}
        self._all: dict[type[Record], dict[RecordId, Record]] = {}
        self._seen: set[bytes] = set()
        # The answer and the sums whose digest was taken last, with it.
        self._digested: tuple[Result | None, tuple[bytes, ...], bytes] | None = None

    def __contains__(self, record_id: RecordId) -> bool:
        return record_id in self._records

    def has_seen(self, frame: bytes) -> bool:
        """Say whether these very bytes are a record that is held.

        Most of what flooding brings is: looking costs less than decoding.
        """
        return len(frame) <= SHORT_FRAME and frame in self._seen

    def ids(self) -> tuple[RecordId, ...]:
        return tuple(self._records)

    def held(self) -> tuple[Held, ...]:
        """Return the same as a `Status` has it, evidence included."""
        known = dict.fromkeys(self._held.values())
        for found in self.evidence.values():
            known |= dict.fromkeys(found.held)
        return tuple(known)

    def lacking(self, held: Iterable[Held]) -> list[RecordId]:
        """Return what is here and not among those, or is another one there."""
        known = set(held)
        return [key for key, here in self._held.items() if here not in known]

    def frame(self, record_id: RecordId) -> bytes:
        return self._frames[record_id]

    def of(self, kind: type[R], epoch: int) -> Mapping[str, R]:
        return self._by_kind.get((kind, epoch), {})  # type: ignore[return-value]

    def all(self, kind: type[R]) -> list[R]:
        return [*self._all.get(kind, {}).values()]  # type: ignore[list-item]

    def digest(self, record: Record) -> bytes:
        """Return the digest of a record's content: what is signed and named."""
        if self._sealed is not None and self._sealed[0] is record:
            return self._sealed[1]
        return self._plan.codec.content_digest(record)

    # Taking and giving up

    def sealed(self, record: R) -> R:
        """Return a record of this party's own, signed by the start that joined."""
        bound = msgspec.structs.replace(record, incarnation=self.start)
        digest = self._plan.codec.content_digest(bound)
        signature = self._keys.sign(record_bytes_to_sign(digest, self._plan.digest))
        record = msgspec.structs.replace(bound, signature=signature)
        self._sealed = record, digest
        return record

    def add(
        self, record: Record, frame: bytes | None = None, digest: bytes | None = None
    ) -> bytes:
        """Keep a checked record; return its frame.

        Frame and digest are made here where they are not given.
        """
        frame = self._plan.codec.encode(record) if frame is None else frame
        for old in self._replaced_by(record):
            self._drop(old.id)
        digest = self.digest(record) if digest is None else digest
        self._digests[record.id] = digest
        self._held[record.id] = named_signed_record(record, digest)
        self._records[record.id] = record
        self._all.setdefault(type(record), {})[record.id] = record
        self._frames[record.id] = frame
        if len(frame) <= SHORT_FRAME:
            self._seen.add(frame)
        place = self._by_kind.setdefault((type(record), record.epoch), {})
        place[record.party] = record
        if isinstance(record, Join):
            self.joins[record.party] = record
        return frame

    def _replaced_by(self, record: Record) -> list[Record]:
        """Return what an author said before, and a later word makes worthless.

        A Lost has all that earlier ones had. Who is ready for a later epoch of a sum
        has left the earlier one.
        """
        if not isinstance(record, Lost | Ready):
            return []
        return [one for one in self._like(record) if one.epoch < record.epoch]

    def _like(self, record: Record) -> list[Record]:
        """Return the author's records of a kind; of Ready, those of the same sum."""
        width = self._plan.epochs_per_sum
        every = not isinstance(record, Ready)
        return [
            one
            for one in self.all(type(record))
            if one.party == record.party
            and (every or one.epoch // width == record.epoch // width)
        ]

    def forget(self, kind: type[Record], party: str) -> None:
        """Drop an author's records of one kind."""
        for one in self.all(kind):
            if one.party == party:
                self._drop(one.id)

    def forget_before(self, epoch: int) -> None:
        """Drop what sums long over have left: nobody asks for it any more."""
        for record_id in self.ids():
            kind, at, _ = record_id
            if kind in EPOCHAL and at < epoch:
                self._drop(record_id)

    def _drop(self, record_id: RecordId) -> None:
        record = self._records.pop(record_id)
        del self._held[record_id], self._digests[record_id]
        del self._all[type(record)][record_id]
        self._seen.discard(self._frames.pop(record_id))
        place = (type(record), record.epoch)
        del self._by_kind[place][record.party]
        if not self._by_kind[place]:
            del self._by_kind[place]

    # Checking

    def is_new(self, record: Record, digest: bytes, sender: str) -> bool:
        """Say whether a record is one to look at; refuse what nobody can say.

        What it says of an epoch is for others to check. What is refused here no honest
        party signs, nor passes on.
        """
        if record.party not in self._parties:
            raise PeerProtocolError(
                sender,
                f"passed on a record of {record.party!r}, who is not in the plan",
                code="stranger-record",
            )
        self._check_form(record, sender)
        known = self._records.get(record.id)
        if known is not None:
            if self.proves(record.party):
                return False  # more of the same proves no more
            if digest == self._digests[record.id]:
                return False
        self.check_signature(record, digest, sender)
        if isinstance(record, Lost | Ready):
            self._check_allowed(record)
        return True

    def proves(self, party: str) -> bool:
        return party in self.evidence and self.evidence[party].is_a_lie

    def contradiction(
        self, record: Record, frame: bytes, digest: bytes
    ) -> Contradiction | None:
        """Return what a record of the same author shows together with this one."""
        join = self.joins.get(record.party)
        if join is not None and join.incarnation != record.incarnation:
            pair = (self._frames[join.id], frame)
            return Contradiction.of(pair, self._plan.codec)
        of_author = (
            self._records.get(record.id),
            *(self._like(record) if isinstance(record, Lost) else ()),
            *(
                self.of(kind, record.epoch).get(record.party)
                for pair in ((Ready, Lost), (Ready, Masked))
                if isinstance(record, pair)
                for kind in pair
            ),
        )
        plan, codec = self._plan.digest, self._plan.codec
        for known in of_author:
            if known is None or self._digests[known.id] == digest:
                continue
            both = self._digests[known.id], digest
            if records_contradict(known, record, both, plan, codec):
                pair = (self._frames[known.id], frame)
                return Contradiction.of(pair, self._plan.codec)
        return None

    def is_outdated(self, record: Record) -> bool:
        """Say whether its author has said something since that makes it worthless."""
        last = isinstance(record, Lost | Ready) and self._like(record)
        return bool(last) and any(one.epoch > record.epoch for one in last or ())

    def _check_form(self, record: Record, sender: str) -> None:
        """Refuse what is wrong whoever signed it: before a signature is looked at."""
        match record:
            case Join() if record.plan != self._plan.digest:
                whose = "has" if sender == record.party else "passed on a Join with"
                raise PeerProtocolError(
                    sender,
                    f"{sender!r} {whose} the plan {record.plan.hex()[:16]}, "
                    f"{self._me!r} has {self._plan.digest.hex()[:16]}: compare the two "
                    "files",
                    code="plan-differs",
                )
            case Join() if record.epoch != Join.number(record.incarnation):
                raise PeerProtocolError(
                    sender,
                    "a Join's epoch is not its start's",
                    code="join-epoch-differs",
                )
            case Lost() | Ready():
                self._check_lost(record, sender)
            case Quit() if record.reason not in Quit.reasons:
                raise PeerProtocolError(
                    sender,
                    "left for a reason nobody knows",
                    code="unknown-leave-reason",
                )
            case Result() | Agreed() if record.epoch != 0:
                raise PeerProtocolError(
                    sender,
                    "an answer belongs to the whole run",
                    code="answer-not-of-run",
                )
            case Result():
                wanted = (np.dtype(np.float64), self._plan.answer_size)
                check_message_numbers(sender, record.numbers, wanted)
            case Masked():
                wanted = (self._plan.law.dtype, self._plan.size)
                check_message_numbers(sender, record.numbers, wanted)

    def _check_lost(self, record: Lost | Ready, sender: str) -> None:
        """Refuse names that cannot be lost, and epochs that do not go with them."""
        if not set(record.lost) <= self._parties - {record.party}:
            raise PeerProtocolError(
                sender, "cannot lose itself or a stranger", code="cannot-lose-self"
            )
        if record.lost != tuple(sorted(set(record.lost))):
            raise PeerProtocolError(
                sender,
                "names lost parties out of order or twice",
                code="lost-out-of-order",
            )
        count, within = len(record.lost), record.epoch % self._plan.epochs_per_sum
        fits = record.epoch < count if isinstance(record, Lost) else within == count
        if not fits:
            raise PeerProtocolError(
                sender,
                f"epoch {record.epoch} does not go with {count} lost parties",
                code="epoch-lost-mismatch",
            )

    def _check_allowed(self, record: Lost | Ready) -> None:
        """Refuse to go on without more parties than the plan allows."""
        if not record.lost:
            return
        left = tuple(n for n in self._plan.parties if n not in record.lost)
        if (why := self._plan.refusal(left)) is not None:
            raise PeerProtocolError(
                record.party,
                f"goes on without {listed_names(record.lost)}, against the plan: {why}",
                code="loss-not-allowed",
            )

    def is_signed(self, record: Record, digest: bytes) -> bool:
        signed = record_bytes_to_sign(digest, self._plan.digest)
        return self._keys.verify(record.party, signed, record.signature)

    def check_signature(self, record: Record, digest: bytes, sender: str) -> None:
        """Refuse a record that its author did not sign."""
        if not self.is_signed(record, digest):
            raise PeerProtocolError(
                sender,
                f"passed on a record that {record.party!r} did not sign",
                code="bad-signature",
            )

    def check_joined(self, record: Record) -> None:
        """Refuse what comes before its author's Join: it may be of any start."""
        if record.party not in self.joins and not isinstance(record, Join):
            kind = type(record).__name__
            raise UntimelyError(
                record.party, f"has not joined, and signs a {kind}", code="not-joined"
            )

    def has_left(self, party: str) -> bool:
        """Say whether a party has quit: it does so once, in whatever epoch."""
        return any(one.party == party for one in self.all(Quit))

    def committed(self, ready: Ready, masked: Masked) -> Ready:
        """Return this party's own Ready, bound to the masked numbers that follow."""
        bound = msgspec.structs.replace(ready, incarnation=self.start)
        plan, codec = self._plan.digest, self._plan.codec
        found = commitment_to_masked_vector(bound, self.digest(masked), plan, codec)
        return msgspec.structs.replace(bound, commitment=found)

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
        """Say whether everybody's masked numbers are here.

        Each was compared with its author's Ready when the second of the two came;
        without a Ready it does not count.
        """
        shown, ready = self.of(Masked, epoch), self.of(Ready, epoch)
        return len(shown) >= len(members) and all(
            name in shown and name in ready for name in members
        )

    def proposed(self, members: Collection[str]) -> Result | None:
        """Return the answer to be signed: that of the lowest name."""
        return self.of(Result, 0).get(min(members))

    def signers(self, members: Collection[str]) -> dict[str, bytes]:
        """Return who signed the proposed answer and these sums, and no others."""
        proposed = self.proposed(members)
        if proposed is None:
            return {}
        digest = self.signed_of(proposed)
        agreed = self.of(Agreed, 0)
        return {n: one.signature for n, one in agreed.items() if one.digest == digest}

    def signed_of(self, proposed: Result) -> bytes:
        """Return what an `Agreed` is a signature of: an answer, and all sums.

        Answers are compared within a tolerance, and say nothing of numbers on which
        they do not depend. Sums are the same to the last bit, or somebody told two
        stories about its part in them.
        """
        known = self._digested
        if known is None or known[0] is not proposed or known[1] is not self.sums:
            parts = (Codec.digest(proposed.numbers), *self.sums)
            made = hashlib.sha256(b"".join(parts)).digest()
            known = self._digested = proposed, self.sums, made
        return known[2]

    def otherwise(self, members: Collection[str]) -> list[str]:
        """Return who signed another answer than the proposed one, or other sums."""
        if self.proposed(members) is None:
            return []
        return sorted(
            (self.of(Agreed, 0).keys() & set(members)) - {*self.signers(members)}
        )

    def all_agreed(self, members: Collection[str]) -> bool:
        """Say whether everybody has signed the proposed answer."""
        if len(self.of(Agreed, 0)) < len(members):
            return False
        return self.signers(members).keys() >= set(members)

    def objections(self, members: Collection[str]) -> list[Quit]:
        """Return the quits of members who left over an answer without signing it."""
        quits = [one for one in self.all(Quit) if one.reason in OBJECTIONS]
        if not quits:
            return quits
        # What somebody has signed shows when the proposed answer is here.
        unknown = self.proposed(members) is None
        signed = self.of(Agreed, 0).keys() if unknown else self.signers(members).keys()
        waiting = set(members) - signed
        return [one for one in quits if one.party in waiting]

    def dissenters(self, members: Collection[str]) -> list[str]:
        """Return who did not vanish but holds another answer to be right."""
        objectors = {one.party for one in self.objections(members)}
        return sorted(objectors.union(self.otherwise(members)))
