"""Two signed records that contradict each other: no honest party signs both.

A `Masked` that does not open its author's `Ready` contradicts it too.

Whoever holds both can show them to anybody: each names its author and the start of it
that signed, and has its signature, for one plan. What two starts of a party say is no
contradiction: the second may have lost its disk. A party keeps the first pair of every
author, and no more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import msgspec

from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Held, Lost, Masked, Ready, Record


def record_bytes_to_sign(digest: bytes, plan: bytes) -> bytes:
    """Return what a record's author signs, for this plan and no other use of its key.

    Args:
        digest: the SHA-256 of the record's frame without its signature.
        plan: the plan's digest.
    """
    return b"veilsum record\0" + plan + digest


def named_signed_record(record: Record, digest: bytes) -> Held:
    """Return a record's name with the start of its content's digest."""
    return (*record.id, digest[:16])


def commitment_to_masked_vector(
    ready: Ready, masked: bytes, plan: bytes, codec: Codec
) -> bytes:
    """Return the digest by which a `Ready` fixes the `Masked` that will follow it.

    SHA-256 of the digests of the plan, of the `Ready` without signature and commitment,
    and of the `Masked` without signature: epoch, party, start, lost parties, request,
    nonce and numbers are all in these frames. The 64 random bytes of the nonce hide the
    rest.

    Args:
        ready: its commitment and its signature do not matter.
        masked: the digest of the content of the `Masked`.
        plan: the plan's digest.
        codec: the plan's.
    """
    bare = msgspec.structs.replace(ready, commitment=bytes(32))
    parts = (b"veilsum commitment\0", plan, codec.content_digest(bare), masked)
    return hashlib.sha256(b"".join(parts)).digest()


def records_contradict(
    one: Record, other: Record, digests: tuple[bytes, bytes], plan: bytes, codec: Codec
) -> bool:
    """Say whether no honest start signs both; they are not one and the same.

    A start joins once. Of an epoch it says everything once; it never is ready for one
    that it gives up, and goes on without all that it has ever gone on without. Its
    masked vector is the one that its `Ready` commits to.
    """
    if (one.party, one.incarnation) != (other.party, other.incarnation):
        return False
    match one, other:
        case (Ready(), Lost()) | (Lost(), Ready()):
            return one.epoch == other.epoch
        case (Ready() as ready, Masked()) | (Masked(), Ready() as ready):
            masked = digests[1] if one is ready else digests[0]
            same = one.epoch == other.epoch
            return same and ready.commitment != commitment_to_masked_vector(
                ready, masked, plan, codec
            )
        case Lost(), Lost():
            early, late = sorted((one, other), key=lambda record: record.epoch)
            nested = set(early.lost) < set(late.lost)
            return early.epoch == late.epoch or not nested
    return one.id == other.id


@dataclass(frozen=True, eq=False)
class Contradiction:
    """Two records of one author, and the frames that hold them.

    Attributes:
        epoch: of the later one.
        anew: whether two starts of the author signed them.
        held: how each is named in a `Status`.
        frames: as they came, signatures included.
    """

    party: str
    kinds: tuple[str, str]
    epoch: int
    anew: bool
    held: tuple[Held, Held]
    frames: tuple[bytes, bytes]

    @classmethod
    def of(cls, frames: tuple[bytes, bytes], codec: Codec) -> Self:
        one, other = (codec.decode(frame) for frame in frames)
        assert isinstance(one, Record)
        assert isinstance(other, Record)
        return cls(
            one.party,
            (type(one).__name__, type(other).__name__),
            max(one.epoch, other.epoch),
            one.incarnation != other.incarnation,
            (
                named_signed_record(one, codec.content_digest(one)),
                named_signed_record(other, codec.content_digest(other)),
            ),
            frames,
        )

    @property
    def is_a_lie(self) -> bool:
        """Whether no lost disk and no old copy of one leads to it.

        A start cannot be held to another one's words, and whoever has left promises
        nothing: an old copy leaves for itself.
        """
        return not self.anew and self.kinds != ("Quit", "Quit")

    @property
    def digests(self) -> tuple[str, str]:
        """SHA-256 of both frames, hexadecimal."""
        one, other = (hashlib.sha256(frame).hexdigest() for frame in self.frames)
        return one, other

    @property
    def deed(self) -> str:
        """Which two records its author signed."""
        one, other = self.kinds
        if {one, other} == {"Ready", "Masked"}:
            return (
                f"signed a Masked of epoch {self.epoch} that does not open the "
                "commitment in its Ready"
            )
        what = f"two different {one} records" if one == other else f"{one} and {other}"
        return f"signed {what} of epoch {self.epoch}"

    @property
    def words(self) -> str:
        if not self.is_a_lie:
            did = "started anew" if self.anew else "left twice"
            return (
                f"{self.party!r} {did}: two processes go by this name, or it has lost "
                "its memory"
            )
        first, second = (digest[:16] for digest in self.digests)
        return (
            f"{self.party!r} {self.deed}, which no honest party does (SHA-256 {first} "
            f"and {second})"
        )

    def pack(self) -> bytes:
        """Return both frames for the party's own disk."""
        return msgspec.msgpack.encode(self.frames)


def unpack_contradiction(content: bytes, codec: Codec) -> Contradiction:
    return Contradiction.of(
        msgspec.msgpack.decode(content, type=tuple[bytes, bytes]), codec
    )
