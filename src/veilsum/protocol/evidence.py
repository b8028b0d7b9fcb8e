"""Two signed records that contradict each other: no honest party signs both.

Whoever holds both can show them to anybody: each names its author and has its
signature, for one plan. A party keeps the first such pair of every author, and no more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import msgspec

from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Held, Join, Lost, Ready, Record


def held_as(record: Record, codec: Codec) -> Held:
    """Return a record's name with the start of the digest of what was signed."""
    return (*record.id, hashlib.sha256(codec.signed_part(record)).digest()[:16])


def contradict(one: Record, other: Record) -> bool:
    """Say whether no honest party signs both; they are not one and the same.

    A party joins once. Of an epoch it says everything once; it never is ready for one
    that it gives up, and goes on without all that it has ever gone on without.
    """
    if one.party != other.party:
        return False
    match one, other:
        case Join(), Join():
            return True
        case (Ready(), Lost()) | (Lost(), Ready()):
            return one.epoch == other.epoch
        case Lost(), Lost():
            early, late = sorted((one, other), key=lambda record: record.epoch)
            nested = set(early.lost) < set(late.lost)
            return early.epoch == late.epoch or not nested
    return one.id == other.id


@dataclass(frozen=True, eq=False)
class Contradiction:
    """Two records of one author, and the frames that hold them.

    Attributes:
        kinds: what they are.
        epoch: of the later one.
        held: how each is named in a `Status`.
        frames: as they came, signatures included.
    """

    party: str
    kinds: tuple[str, str]
    epoch: int
    held: tuple[Held, Held]
    frames: tuple[bytes, bytes]

    @classmethod
    def of(cls, frames: tuple[bytes, bytes], codec: Codec) -> Self:
        """Return what two frames hold."""
        one, other = (codec.decode(frame) for frame in frames)
        assert isinstance(one, Record)
        assert isinstance(other, Record)
        return cls(
            one.party,
            (type(one).__name__, type(other).__name__),
            max(one.epoch, other.epoch),
            (held_as(one, codec), held_as(other, codec)),
            frames,
        )

    @property
    def is_a_lie(self) -> bool:
        """Whether it is worse than a second start, which a lost disk leads to as well.

        Nothing was promised in the name of a start that nobody let in, and whoever has
        left promises nothing: two starts say each for itself that they came or went.
        """
        return self.kinds not in {("Join", "Join"), ("Quit", "Quit")}

    @property
    def digests(self) -> tuple[str, str]:
        """SHA-256 of both frames, hexadecimal."""
        one, other = (hashlib.sha256(frame).hexdigest() for frame in self.frames)
        return one, other

    @property
    def words(self) -> str:
        """What its author did."""
        if not self.is_a_lie:
            did = "joined" if self.kinds[0] == "Join" else "left"
            return (
                f"{self.party!r} {did} twice: two processes go by this name, or it "
                "has lost its memory"
            )
        one, other = self.kinds
        what = f"two different {one} records" if one == other else f"{one} and {other}"
        first, second = (digest[:16] for digest in self.digests)
        return (
            f"{self.party!r} signed {what} of epoch {self.epoch}, which no honest "
            f"party does (SHA-256 {first} and {second})"
        )

    def pack(self) -> bytes:
        """Return both frames for the party's own disk."""
        return msgspec.msgpack.encode(self.frames)


def unpacked(content: bytes, codec: Codec) -> Contradiction:
    """Return the pair that was packed."""
    return Contradiction.of(
        msgspec.msgpack.decode(content, type=tuple[bytes, bytes]), codec
    )
