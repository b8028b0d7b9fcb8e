"""Public terms of a run, agreed by all parties beforehand and equal for all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from veilsum.errors import InvalidInputError
from veilsum.graphs.connectivity import vertex_connectivity
from veilsum.graphs.spreading import Spread
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw
from veilsum.numbers.arrays import Vector, listed_names
from veilsum.numbers.limbs import limb_type_name
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Numbers

# An iterative method's state is written after so many rounds, or fewer of long ones.
CHECKPOINT_ROUNDS, CHECKPOINT_BYTES = 128, 1 << 20
# Room in a header for the names of all records that one party may hold of another.
HEADER_BYTES, HEADER_BYTES_PER_PARTY = 1 << 20, 1 << 10


@dataclass(frozen=True, kw_only=True)
class ProtocolPolicy:
    """Waiting times, and the treatment of parties that do not answer.

    Attributes:
        resend: seconds between two requests for missing items.
        meeting: seconds to wait, once, for all parties to appear; used if longer than a
            deadline.
        deadline: seconds of silence before the party acts on it.
        patience: number of deadlines in a row that end the run.
        drop: whether a party may be lost before the commit.
        stand_in: whether neighbours publish a vanished party's deposit.
        minimum_parties: fewest parties that go on; always more than half.
        tolerate: number of parties that may collude; the others must stay connected
            without them.
        minimum_honest: fewest other parties.
    """

    resend: float = 1.0
    meeting: float = 0.0
    deadline: float = 30.0
    patience: int = 4
    drop: bool = True
    stand_in: bool = True
    minimum_parties: int = 3
    tolerate: int = 0
    minimum_honest: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.resend <= self.deadline or self.patience < 1:
            raise InvalidInputError(
                "a policy needs 0 < resend <= deadline and a patience of at least 1, "
                f"found {self.resend}, {self.deadline} and {self.patience}",
                code="policy-limits",
            )

    def quorum(self, n_parties: int) -> int:
        """Return how many of so many must be left: never two groups of them."""
        return max(self.minimum_parties, n_parties // 2 + 1)

    def fewest(self, n_parties: int) -> int:
        """Return how few of so many may go on when the others are lost."""
        honest = max(self.minimum_honest, 2)  # one alone cannot be hidden
        return max(self.quorum(n_parties), self.tolerate + honest)


@dataclass(frozen=True, eq=False)
class DecodedSum:
    """One sum as everybody knows it."""

    content: bytes
    value: Vector

    @cached_property
    def digest(self) -> bytes:
        return Codec.digest(self.value)


class SumDecoder:
    """Decodes the sums of a run; equal numbers are decoded once a process."""

    def __init__(self, law: MaskLaw) -> None:
        self._law = law
        self._known: dict[int, DecodedSum] = {}

    def decode(self, index: int, numbers: Numbers) -> DecodedSum:
        content, known = numbers.tobytes(), self._known.get(index)
        if known is None or known.content != content:
            value = self._law.decode(numbers)
            value.setflags(write=False)
            known = self._known[index] = DecodedSum(content, value)
        return known


@dataclass(frozen=True, kw_only=True, eq=False)
class ProtocolPlan:
    """One run. Parties compare `digest` before anything else.

    Attributes:
        terms: everything agreed, written out canonically, the name of the run included;
            what the digest is of. Two runs never have the same terms.
        answer_size: how many numbers the answer has.
        round_size: how many numbers are told in a round of an iterative method.
        tolerance: how far two parties' answers may be apart, each number by itself; if
            it is above 1, as a part of it.
        spread: how masked vectors reach everybody.
    """

    terms: bytes
    topology: Topology
    law: MaskLaw
    size: int
    answer_size: int
    round_size: int = 0
    tolerance: float = 1e-9
    spread: Spread = "flooding"
    policy: ProtocolPolicy = ProtocolPolicy()

    def __post_init__(self) -> None:
        # A method with rounds may do with one way, where all parties are simulated.
        if self.topology.directed and not self.round_size:
            raise InvalidInputError(
                "a run needs links that carry both ways", code="directed-graph"
            )
        if self.size < 1 or self.answer_size < 1:
            raise InvalidInputError(
                "a run sums and answers at least one number", code="no-numbers"
            )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything here: parties with another plan are told apart."""
        content = b"veilsum plan\0" + self.to_json().encode() + b"\0" + self.terms
        return hashlib.sha256(content).digest()

    def to_json(self) -> str:
        """Return everything but the terms as JSON with sorted keys."""
        law, masks = self.law, self.law.masks
        found: dict[str, Any] = {
            "parties": self.parties,
            "edges": self.topology.edges.tolist(),
            "weights": self.topology.weights.tolist(),
            "law": [law.name, limb_type_name(law.dtype), masks.largest],
            "sigma": masks.sigma or 0.0,
            "grid": masks.grid,
            **({} if masks.unit is None else {"unit": str(masks.unit)}),
            "sizes": [self.size, self.answer_size, self.round_size],
            "tolerance": self.tolerance,
            "spread": self.spread,
            "policy": asdict(self.policy),
        }
        if (counts := law.counted) is None:
            return json.dumps(found, sort_keys=True)
        if counts.fields:
            found["fields"] = counts.fields
        texts = ([f'"{unit}"'] * (stop - start) for unit, start, stop in counts.runs)
        units = ", ".join(chain.from_iterable(texts))
        # Its key sorts before all others; the encoder is slow with very many units.
        rest = json.dumps(found, sort_keys=True).removeprefix("{")
        return f'{{"counts": [{counts.bits}, [{units}]], {rest}'

    @cached_property
    def codec(self) -> Codec:
        """Messages as bytes, no longer than this run can need."""
        header = HEADER_BYTES + HEADER_BYTES_PER_PARTY * len(self.parties)
        layout = self.law.layout(self.size)
        size = self.size if layout is None else layout.length
        most = max(size, self.answer_size, self.round_size)
        return Codec(most, header, layout)

    @cached_property
    def decoder(self) -> SumDecoder:
        return SumDecoder(self.law)

    @cached_property
    def checkpoint(self) -> int:
        """Rounds between two writings of an iterative method's state.

        The disk is slower than a round, and rounds can be repeated. A neighbour is at
        most one round away, and what it comes back to at most this many more.
        """
        fit = CHECKPOINT_BYTES // (8 * max(1, self.round_size))
        return max(1, min(CHECKPOINT_ROUNDS, fit))

    @property
    def epochs_per_sum(self) -> int:
        """Most epochs that a sum may take: one at first, and one after each loss."""
        return len(self.parties) + 1

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.topology.parties)

    def refusal(self, members: tuple[str, ...]) -> str | None:
        """Say why these parties may not go on by themselves, if they may not.

        What the plan promised must hold on what remains: without any `tolerate` of the
        parties the others are connected, and enough.
        """
        least = self.policy.quorum(len(self.parties))
        if not self.policy.drop and len(members) < len(self.parties):
            lost = [name for name in self.parties if name not in members]
            return (
                f"[policy] has no drop, so nobody goes on without {listed_names(lost)}"
            )
        if least > len(self.parties):
            return f"{len(self.parties)} parties are too few: {least} are the fewest"
        if len(members) < least:
            return (
                f"only {listed_names(members) or 'nobody'} would go on, and the plan "
                f"wants {least} of {len(self.parties)} at least"
            )
        return self._weak_spot(members)

    def _weak_spot(self, members: tuple[str, ...]) -> str | None:
        kept = [self.topology.index(name) for name in members]
        tolerate = self.policy.tolerate
        if len(members) - tolerate < self.policy.minimum_honest:
            return (
                f"{len(members)} parties are too few: {tolerate} may collude, and "
                f"{self.policy.minimum_honest} others must remain"
            )
        left = self.topology.induced(kept)
        if vertex_connectivity(left, at_most=tolerate + 1) <= tolerate:
            return f"{tolerate} of {listed_names(members)} could separate the others"
        return None
