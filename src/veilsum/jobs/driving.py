"""One party's part of a job, and whoever carries it out with the others.

A simulation holds every party's part. A real party holds its own: it is handed, with
all that was agreed, to a `Driver` that meets the other parties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from veilsum.drivers.masked_sums import Released
from veilsum.numbers.arrays import Array
from veilsum.numbers.secrets import Secret
from veilsum.privacy.guarantee import Guarantee
from veilsum.protocol.effects import Emission
from veilsum.protocol.plan import Plan
from veilsum.protocol.work import Work

# Told what this party is about to show, after which sums; raises to forbid it.
Charging = Callable[[Emission, Sequence[Array[Any]]], None]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Assignment(Secret):
    """What one party is to do.

    Attributes:
        plan: what all have agreed on.
        work: this party's part.
        promise: what holds if it takes part.
        shown: what everybody learns, in words, as far as it is known by now.
        charge: keeps its books; None if it keeps none.
        check: raises if these would not allow it to begin.
    """

    plan: Plan
    work: Work
    promise: Guarantee
    shown: tuple[str, ...]
    charge: Charging | None
    check: Callable[[], None] | None = None


@runtime_checkable
class Driver(Protocol):
    """Takes part for one party."""

    @property
    def party(self) -> str:
        """Whose part it is."""
        ...

    def carry_out(self, assignment: Assignment) -> Released:
        """Take part to the end; return what everybody knows then."""
        ...
