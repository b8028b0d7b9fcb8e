"""Effects that a machine requests from its driver, to be carried out in order.

`Persist` comes before the `Send` of anything that depends on it, and `Emission` before
the first masked number leaves. A driver that cannot carry out an effect stops there and
calls `Machine.stop`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import msgspec

from veilsum.numbers.arrays import Vector
from veilsum.numbers.secrets import Secret
from veilsum.protocol.messages import Numbers


class _Told(Secret, msgspec.Struct, frozen=True):
    """Made for every frame and every write, so quickly made."""

    def __copy__(self) -> NoReturn:  # msgspec has one of its own
        self.__reduce_ex__(0)


class Persist(_Told, frozen=True):
    """Write a value durably under a key, or erase it (None)."""

    key: str
    value: bytes | None


class Send(_Told, frozen=True):
    """Give a frame to the link with a neighbour; it may be lost on the way."""

    to: str
    frame: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Emission(Secret):
    """Charge the ledger, durably, for showing these masked numbers to these parties.

    The commitment in `Ready` goes out before and is not charged for: a hash over 64
    fresh random bytes that never leave if the epoch is given up shows nothing.
    Charging the same epoch twice counts once.
    """

    epoch: int
    parties: tuple[str, ...]
    masked: Numbers


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call `Machine.expire` with this name after so many seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Deliver:
    """A sum is known to this party: the k-th of the run."""

    index: int
    total: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """The run is over and its answer agreed.

    Attributes:
        signatures: who signed the answer's digest, and how; parties that vanished
            after their masked numbers were known have not.
        seal: the signature under the proposed answer: all members hold it, nobody else.
    """

    result: Vector
    parties: tuple[str, ...]
    signatures: dict[str, bytes]
    seal: bytes = b""


@dataclass(frozen=True, slots=True)
class Accuse:
    """Tell this party's owner what another one signed that no honest start signs.

    Unless it is proved, the other may have lost its disk and have started anew.
    """

    party: str
    words: str
    proved: bool


@dataclass(frozen=True, slots=True)
class Abort:
    """The run is over without an answer.

    `reason` is one word of a fixed list, `detail` says more; both are for this party
    alone, and others are told a word that may be less (`Quit`). Where it is not `final`
    the others are told nothing: the party may be started again, and goes on. `code` is
    that of this party's own error, where one ended the run.
    """

    reason: str
    detail: str
    final: bool = True
    code: str = ""


Effect: TypeAlias = (
    Persist | Send | Emission | SetTimer | Deliver | Finish | Accuse | Abort
)
