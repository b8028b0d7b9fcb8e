"""Messages between parties: frozen values with checked types.

Some are for one neighbour only (`Share`, `Confirm`, `Round`, ...). The others are
records that are passed on to everybody. A record names its author and carries the
author's signature, so that it does not matter which party passed it on.

A message carries at most one array, as raw numbers behind it (see `codec`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NoReturn, TypeAlias

import msgspec
import numpy as np

from veilsum.errors import PeerProtocolError
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import limb_type_name
from veilsum.numbers.secrets import Secret

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Names: TypeAlias = Annotated[tuple[Name, ...], msgspec.Meta(max_length=100_000)]
Epoch: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, lt=2**53)]
Bytes16: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Bytes32: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Bytes64: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
Signature: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=64)]
Reason: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=32)]

# float64, int64, uint64, or Python integers: whatever the plan's law is made of.
Numbers: TypeAlias = Array[Any]

# What a record is, of which epoch, by whom: enough to ask for it.
RecordId: TypeAlias = tuple[Reason, Epoch, Name]
# The same with the start of the digest of what was signed: two that differ are two.
Held: TypeAlias = tuple[Reason, Epoch, Name, Bytes16]


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, eq=False):
    """Anything that crosses a link.

    Attributes:
        part: of a transcript to which the numbers in it belong; empty for messages
            without numbers and for totals and answers.
    """

    part: ClassVar[str] = ""


class Record(Message, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """A message to everybody: signed by its author, forwarded by anybody.

    `incarnation` is of the start that made its author's state, drawn with it; it is in
    what is signed. A later start, which may have forgotten what was promised, cannot
    speak in its name, nor be held to its words.
    """

    party: Name
    epoch: Epoch
    signature: Signature = b""
    incarnation: Bytes16 = bytes(16)

    @property
    def id(self) -> RecordId:
        """Identifier of this record among all records of a run."""
        return (type(self).__name__, self.epoch, self.party)


class Status(Message, frozen=True, array_like=True, tag=True, eq=False):
    """Inventory of a party, so that a neighbour can send the missing items.

    Attributes:
        incarnation: drawn anew at every start of the sender.
        echo: the receiver's incarnation as the sender knows it, or zeros.
        epoch: the sender's epoch.
        records: the records for everybody that it holds.
        share: the latest epoch of the receiver's share that it holds, or -1.
        confirm: the latest epoch for which it holds the receiver's confirmation.
        round: the latest round of the receiver's that it holds, or -1.
        reply: whether the sender requests an answer.
    """

    incarnation: Bytes16
    echo: Bytes16
    epoch: Epoch
    records: Annotated[tuple[Held, ...], msgspec.Meta(max_length=1_000_000)]
    share: Count
    confirm: Count
    round: Count
    reply: bool


class Share(Secret, Message, frozen=True, array_like=True, tag=True, eq=False):
    """r_ij: drawn by the sender for the receiver, with half of the edge's key."""

    part = "shares"
    epoch: Epoch
    lost: Names
    key: Bytes32
    numbers: np.ndarray

    def __copy__(self) -> NoReturn:  # msgspec has one of its own
        self.__reduce_ex__(0)


class Confirm(Message, frozen=True, array_like=True, tag=True, eq=False):
    """A keyed digest of both shares of an edge: both ends hold the same two."""

    epoch: Epoch
    digest: Bytes32


class Deposit(Message, frozen=True, array_like=True, tag=True, eq=False):
    """The sender's own masked vector, for a neighbour to publish should it vanish."""

    part = "masked"
    masked: "Masked"


class Round(Message, frozen=True, array_like=True, tag=True, eq=False):
    """Message of an iterative method to its neighbours in one round."""

    part = "told"
    epoch: Epoch
    index: Epoch
    numbers: np.ndarray


class Up(Message, frozen=True, array_like=True, tag=True, eq=False):
    """The sum of the masked vectors of the sender's subtree."""

    part = "subtrees"
    epoch: Epoch
    numbers: np.ndarray


class Down(Message, frozen=True, array_like=True, tag=True, eq=False):
    """The total, on its way from the root."""

    epoch: Epoch
    numbers: np.ndarray


class Join(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """The author takes part, under the plan with this digest: its first record."""

    plan: Bytes32

    @staticmethod
    def number(incarnation: bytes) -> int:
        """Return the epoch of a start's Join: it tells one start's from another's."""
        return int.from_bytes(incarnation[:6], "big")


class Lost(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """The author, not yet ready itself, goes on without some parties.

    `lost` are all it goes on without, the new ones included. The epoch is the one it
    gives up: it will never be ready for that.
    """

    lost: Names


class Ready(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """The author holds and has confirmed every share on every edge of the epoch.

    `request` is the digest of what it was asked for: whoever computes another next
    question from the same sums is found out before anything is shown. `commitment` is
    a hash of the author's masked vector with a fresh nonce: it shows nothing, and no
    other vector can follow (see `evidence.commitment`).
    """

    lost: Names
    request: Bytes32
    commitment: Bytes32


class Masked(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """theta~: the author's vector plus its mask.

    `nonce` opens the commitment in the author's `Ready` of the same epoch.
    """

    part = "masked"
    nonce: Bytes64
    numbers: np.ndarray


class Result(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """The answer as its author computed it."""

    numbers: np.ndarray


class Agreed(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """The author found that answer to be its own, within the plan's tolerance.

    The digest is of the answer and of all sums as the author knows them.
    """

    digest: Bytes32


class Quit(Record, frozen=True, array_like=True, tag=True, eq=False, kw_only=True):
    """The author has left for good; the reason is one word of a fixed list.

    What refused, its data or its ledger, is for its owner alone: others hear `refused`.
    """

    refusals: ClassVar[tuple[str, ...]] = ("input", "ledger")
    reasons: ClassVar[tuple[str, ...]] = (
        *("dropped", "peer", "plan", "policy", "proof", "refused", "result"),
        *("stale", "stopped", "timeout"),
    )
    reason: Reason


MESSAGES: tuple[type[Message], ...] = (
    *(Agreed, Confirm, Deposit, Down, Join, Lost, Masked, Quit),
    *(Ready, Result, Round, Share, Status, Up),
)


def check_message_numbers(
    sender: str, numbers: Numbers, wanted: tuple[np.dtype[np.generic], int]
) -> None:
    """Refuse numbers of another type, or of another count, than a message has."""
    if (numbers.dtype, numbers.size) != wanted:
        raise PeerProtocolError(
            sender,
            f"expected {wanted[1]} numbers of type {limb_type_name(wanted[0])}, found "
            f"{numbers.size} of type {limb_type_name(numbers.dtype)}",
            code="wrong-numbers",
        )
