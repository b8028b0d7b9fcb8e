"""Drivers of joint computations, with their input and output.

There are three drivers. `arrays` holds all parties as rows of one array; `loopback`
runs the machine of every party on a network in memory; a real party's driver, in
`party`, meets the others on the network. A job does not know which of them it has.
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
    """Joint computation to carry out, as far as it is known here.

    Attributes:
        works: the parts of local parties: in a simulation all of them, on a network
            one's own.
        foresee: computes the guarantee for the parties that take part.
        shown: public releases in words, as far as they are known by now.
        charge: charges the parties' ledgers; None if no party keeps one.
        check: raises if a party's ledger would not allow it to begin.
        reserve: reserves in the ledger all that it may need, just before it begins.
        wanted: request to a party's ledger, where several assignments are to be allowed
            together.
        progress: receives the progress of the run.
        watched: whether a simulation is to keep its `DriverView`.
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
        """Guarantee for a party that takes part; a search, made only on access."""
        return self.foresee()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DriverView(Secret):
    """View of a run that only a simulation has, with all parties in one place.

    Attributes:
        shares: shares of the first epoch.
        transcript: returns all data that a coalition stored, sent and received; called
            with its names.
        times: the iterations at which estimates were kept; 0 if there were none.
        estimates: estimates of every party at those times, (times, n, m).
        stopped: reason why an iterative method ended.
        engine: engine of its iterations; None if the parties ran them, one by one.
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
    """Output of a run, which is known to all parties.

    Attributes:
        sums: one vector for each round of sums.
        answer: the common answer of all parties; for a simulated iterative method the
            average of their answers.
        rounds: message rounds: for sums shares, confirmations, commits, and masked
            vectors; of an iterative method its own.
        bytes: total traffic of all links.
        sum_of_masks: the largest coordinate of |sum_i u_i| over all rounds; None where
            only the parties know their masks.
        seen: view that a simulation kept, if it was asked to.
        end: end of the run for a real party, with its plan and evidence.
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
        """Party whose part it takes; None if all parties are local."""
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
