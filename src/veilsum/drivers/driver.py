"""Whoever carries out what parties do together, and what is handed over for that.

There are three drivers. `arrays` holds all parties as rows of one array; `loopback`
runs the machine of every party on a network in memory; a real party's driver, in
`parties`, meets the others on the network. A job does not know which of them it has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from veilsum.errors import ProtocolError
from veilsum.graphs.spreading import spreading_cost
from veilsum.locale import LocaleLine
from veilsum.masks.laws import MaskLaw
from veilsum.masks.masking import MaskShares, MaskStreams, ShareStreams, SystemStreams
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.limbs import total_of_wide_integers
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.transcript import Transcript
from veilsum.progress import Advance
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.work import ProtocolWork

Sums = tuple[Array[Any], ...]

# Told what a party is about to show, to whom, after which sums; raises to forbid it.
Charging = Callable[[str, Emission, Sequence[Array[Any]]], None]
# Makes a coalition's transcript of a simulated run.
Transcribing = Callable[[Iterable[Hashable]], Transcript]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DriverAssignment(Secret):
    """What is to be done together, as far as it is known here.

    Attributes:
        works: the parts of those parties that are here: in a simulation all of them, on
            a network one's own.
        foresee: works out what holds for whoever takes part.
        shown: what everybody learns, in words, as far as it is known by now.
        charge: keeps the parties' books; None if nobody keeps any.
        check: raises if a party's books would not allow it to begin.
        reserve: sees to it that they allow it to the end, just before it begins.
        wanted: what a party's books are asked for, where several assignments are to be
            allowed together.
        progress: told how far it is.
        watched: whether a simulation is to keep what only it can see.
    """

    plan: ProtocolPlan
    works: Mapping[str, ProtocolWork]
    foresee: Callable[[], Guarantee]
    shown: tuple[LocaleLine, ...] = ()
    charge: Charging | None = None
    check: Callable[[str], None] | None = None
    reserve: Callable[[str], None] | None = None
    wanted: Callable[[str], Any] | None = None
    progress: Advance | None = None
    watched: bool = False

    @cached_property
    def promise(self) -> Guarantee:
        """What holds if one takes part; a search, made only if somebody asks."""
        return self.foresee()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DriverView(Secret):
    """What only a simulation can see of a run, with all parties in one place.

    Attributes:
        shares: of the first epoch.
        transcript: what a coalition stored, sent and received; called with its names.
        times: the iterations at which estimates were kept; 0 if there were none.
        estimates: every party's at those times, (times, n, m).
        stopped: why an iterative method ended.
        engine: what carried its iterations out; None if the parties did, one by one.
        effective: the masked costs that it ran on, where all are rows of one array.
    """

    shares: MaskShares
    transcript: Transcribing
    times: Array[np.int64]
    estimates: FloatArray
    stopped: str | None = None
    engine: str | None = None
    effective: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class DriverOutput:
    """What became known to everybody.

    Attributes:
        sums: one vector for each round of sums.
        answer: what all parties agreed on; of a simulated iterative method the average
            of what they found.
        rounds: message rounds: for sums shares, confirmations, commits, and masked
            vectors; of an iterative method its own.
        bytes: what crossed all links together.
        sum_of_masks: the largest coordinate of |sum_i u_i| over all rounds; None where
            only the parties know their masks.
        seen: what a simulation kept, if it was asked to.
        end: how the run ended for a real party, with its plan and evidence.
    """

    sums: Sums
    answer: Vector
    members: tuple[str, ...]
    rounds: int
    bytes: int
    sum_of_masks: float | None
    seen: DriverView | None = None
    end: Any = None


@runtime_checkable
class Driver(Protocol):
    @property
    def party(self) -> str | None:
        """Whose part it takes; None if everybody's is here."""
        ...

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Go through to the end; return what everybody knows then.

        Raises:
            GivenUpError: the parties did not come to an answer.
        """
        ...


class GivenUpError(ProtocolError):
    """The parties gave up together.

    Attributes:
        reasons: by party, in one word and in full; the latter never left it.
        sums: what was released by then.
        end: how the run ended for a real party; None in a simulation.
        evidence: what a real party can show of others that contradicted themselves.
    """

    def __init__(
        self,
        reasons: Mapping[str, tuple[str, str]],
        sums: Sums,
        end: Any = None,
        *,
        code: str = "",
    ) -> None:
        told = (f"{name}: {word}, {full}" for name, (word, full) in reasons.items())
        super().__init__(f"the parties gave up; {'; '.join(told)}", code=code)
        self.reasons, self.sums, self.end = dict(reasons), sums, end
        self.evidence: tuple[Any, ...] = () if end is None else end.evidence


@dataclass(frozen=True, kw_only=True)
class DriverRandomness:
    """Where a simulation's shares come from, and whether it is looked into.

    Attributes:
        seed: repeats them; without one they are fresh.
        watched: whether to keep what only a simulation can see, asked to or not.
    """

    seed: int | None = None
    watched: bool = False

    def streams(self, law: MaskLaw) -> MaskStreams:
        """Return new streams, the same ones for the same seed.

        Fresh masks of a law that real parties may use are drawn as theirs are.
        """
        if law.deployable and self.seed is None:
            return SystemStreams()
        return ShareStreams.from_seed(self.seed)


def rounds_of_a_sum(plan: ProtocolPlan) -> int:
    """Return the message rounds of one sum: shares, confirmations, commits, vectors."""
    rounds, _ = spreading_cost(plan.topology, plan.spread)
    return 3 + rounds


def largest_sum_of_driver(masks: Array[Any], law: MaskLaw) -> float:
    return float(np.abs(law.decode(total_of_wide_integers(masks))).max())
