"""Decisions about losing parties and about a party's departure, without a state.

Before the commit the others go on in a new epoch. Afterwards no party is dropped, and
only a stand-in helps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from veilsum.numbers.arrays import listed_names
from veilsum.protocol.effects import Abort
from veilsum.protocol.messages import Lost, Quit
from veilsum.protocol.phases import BEFORE_READY
from veilsum.protocol.plan import ProtocolPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LosingSituation:
    """Knowledge of a party when it has to decide about others.

    Attributes:
        echoed: neighbours that know of this start of the party.
        lacks: parties that it is waiting for.
        resumed: whether this is not its first start.
        summed: whether a sum is known already.
        withheld: parties that signed Ready and have not sent their masked vector.
    """

    plan: ProtocolPlan
    me: str
    phase: str
    members: tuple[str, ...]
    neighbours: tuple[str, ...]
    echoed: Set[str]
    lacks: tuple[str, ...]
    resumed: bool
    summed: bool
    withheld: tuple[str, ...] = ()

    def silent(self) -> tuple[str, ...]:
        """Return whom to go on without now that a deadline is over."""
        may = self._may_drop() and bool(self.lacks) and self._stands_without(self.lacks)
        return self.lacks if may else ()

    def hinted(self, lost: Lost) -> tuple[str, ...]:
        """Return whom to go on without because of what a lost party says.

        It is only a hint: its own giving up proves nothing about an epoch that it is
        not in. Who is not missed here stays.
        """
        more = [one for one in lost.lost if one in self.lacks]
        return tuple(more) if more and self._may_give_up_on(more) else ()

    def may_drop(self, quit_: Quit) -> bool:
        """Say whether to go on at once without a party that left."""
        return self._may_give_up_on((quit_.party,))

    def is_hopeless(self, quit_: Quit, *, owing: bool) -> bool:
        """Say whether nobody can go on without a party that left.

        Who promised its numbers, owes them and refused has shown nothing to anybody,
        and nothing can stand in. Who lost its patience waits for somebody else: so does
        this party, in its own time.
        """
        if quit_.reason == "refused" and owing:
            return True
        needed = self.summed or not self.plan.policy.drop
        blocked = self.phase in BEFORE_READY and needed
        return blocked and quit_.reason != "timeout"

    def whose_fault(self, quits: Sequence[Quit]) -> str:
        """Say who left of its own accord; if nobody did, whom this party waited for."""
        first = [one for one in quits if one.reason not in {"peer", "timeout"}]
        left = [f"{one.party!r} left: {one.reason}" for one in first or quits]
        if first:
            return f"{'; '.join(left)}; this party was {self.phase}"
        missing = listed_names(self.lacks) or "nobody"
        withheld = [withheld_words(self.withheld)] if self.withheld else []
        told = f"waited for {missing} while {self.phase}"
        return "; ".join((told, *withheld, *left))

    def _may_give_up_on(self, names: Collection[str]) -> bool:
        """Before its neighbours' echo a party cannot know that it is not an old one."""
        others = set(self.neighbours).difference(names)
        echoed = self.echoed >= others
        return self._may_drop() and echoed and self._stands_without(names)

    def _may_drop(self) -> bool:
        """Only a party that never restarted is sure that it was not ready."""
        sure = not self.resumed and not self.summed
        return self.phase in BEFORE_READY and sure and self.plan.policy.drop

    def _stands_without(self, names: Collection[str]) -> bool:
        left = tuple(name for name in self.members if name not in names)
        return self.plan.refusal(left) is None


def withheld_words(names: Sequence[str]) -> str:
    """Say that masked vectors have not come, and that this accuses nobody."""
    return (
        f"withheld by {listed_names(names)}: Ready was signed and the masked vector "
        "has not "
        "come; a crash or a slow connection looks the same"
    )


def cannot_go_on(
    plan: ProtocolPlan, me: str, lost: Collection[str], because_of: str
) -> Abort | None:
    """Return why a party cannot go on without those whom somebody gave up."""
    if me in lost:
        told = f"the others went on without this party: {because_of!r} gave it up"
        return Abort("dropped", told)
    left = tuple(name for name in plan.parties if name not in lost)
    refusal = plan.refusal(left)
    return None if refusal is None else Abort("policy", refusal)
