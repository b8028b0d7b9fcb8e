"""Records that one member of a consortium signed, as somebody else could show them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

import msgspec
import numpy as np

from veilsum.net.evidence import make_evidence
from veilsum.numbers.limbs import add_wide_integers, limbs_from_integers
from veilsum.protocol.codec import Codec
from veilsum.protocol.evidence import Contradiction, record_bytes_to_sign
from veilsum.protocol.messages import Agreed, Join, Lost, Masked, Quit, Ready, Result

LIAR, PLAN, OTHER_PLAN = "d", b"p" * 32, b"q" * 32
START, OTHER_START = b"s" * 16, b"t" * 16
replaced = msgspec.structs.replace

READY = Ready(party=LIAR, epoch=0, lost=(), request=bytes(32), commitment=bytes(32))
MASKED = Masked(
    party=LIAR, epoch=0, nonce=bytes(64), numbers=np.array([1, 2], np.uint64)
)
WIDE = Masked(
    party=LIAR,
    epoch=0,
    nonce=bytes(64),
    numbers=limbs_from_integers(np.array([1, -(2**70)], dtype=object), 2),
)
RESULT = Result(party=LIAR, epoch=0, numbers=np.array([0.5]))
AGREED = Agreed(party=LIAR, epoch=0, digest=bytes(32))
LOST = Lost(party=LIAR, epoch=0, lost=("a",))
QUIT = Quit(party=LIAR, epoch=0, reason="timeout")
JOIN = Join(party=LIAR, epoch=Join.number(START), plan=PLAN)


def moved(record):
    numbers = record.numbers.copy()
    numbers[:1] = add_wide_integers(numbers[:1], numbers[:1])
    return replaced(record, numbers=numbers)


# Pairs that no honest start signs.
LIES = {
    "two Masked": (MASKED, moved(MASKED)),
    "two wide Masked": (WIDE, moved(WIDE)),
    "two Ready": (READY, replaced(READY, request=b"r" * 32)),
    "two Result": (RESULT, moved(RESULT)),
    "two Agreed": (AGREED, replaced(AGREED, digest=b"r" * 32)),
    "Ready and Lost": (READY, LOST),
    "two Lost": (LOST, replaced(LOST, lost=("b",))),
    "Lost, and later others": (LOST, replaced(LOST, epoch=1, lost=("b", "c"))),
}


@dataclass(frozen=True)
class Accuser:
    """Whoever shows records of the members of a study, `LIAR` among them."""

    study: object

    def frame(self, record, *, plan=PLAN, start=START, by=LIAR):
        """The frame of a record that a member signed, under a plan and in a start."""
        codec = Codec(100)
        bound = replaced(record, incarnation=start)
        content = record_bytes_to_sign(codec.content_digest(bound), plan)
        signed = self.study.identities[by].sign(content)
        return codec.encode(replaced(bound, signature=signed))

    def shown(self, *frames):
        """What anybody writes who has two frames."""
        codec = Codec(100)
        found = Contradiction.of(frames, codec)
        consortium = self.study.consortium
        return make_evidence(found, consortium, plan=PLAN)

    def lie(self, pair=LIES["two Masked"]):
        return self.shown(*(self.frame(one) for one in pair))

    def forged(self, **changes):
        """The file of a good proof, with some fields changed."""
        table = json.loads(self.lie().to_json())
        return {**table, **changes}


def base64_of(*frames):
    return [base64.b64encode(frame).decode() for frame in frames]
