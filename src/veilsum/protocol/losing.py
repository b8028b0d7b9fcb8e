"""Losing parties: before the commit in a new epoch, afterwards only by a stand-in."""

from __future__ import annotations

import msgspec

from veilsum.numbers.arrays import listed
from veilsum.protocol.messages import Agreed, Lost, Masked, Quit
from veilsum.protocol.phases import (
    AGREEING,
    BEFORE_COMMIT,
    BEFORE_READY,
    CLOSED,
    GREETING,
    ITERATING,
    SUMMING,
)
from veilsum.protocol.restoring import Restoring


class Losing(Restoring):
    """What a party does about silence, and about those who leave."""

    def _droppable(self) -> bool:
        """Say whether nobody can have seen a masked number of this party yet."""
        return self.phase in BEFORE_COMMIT and not self._answers

    def _lose(self, lost: frozenset[str]) -> None:
        """Go on without some parties, in a new epoch with fresh shares."""
        if lost == self._lost or self.phase in CLOSED:
            return
        if self.me in lost:
            self._abort("dropped", "the others went on without this party")
            return
        left = tuple(name for name in self.plan.parties if name not in lost)
        refusal = self.plan.refusal(left)
        if refusal is not None:
            self._abort("policy", refusal)
            return
        private = self._private
        self._wipe()
        self._private, self._lost = private, lost
        self._persist("lost", msgspec.msgpack.encode(sorted(lost)))
        self._edges = self._new_edges()
        self._forget_emissions()
        self._ask(to=self._neighbours)
        self._enter(GREETING)

    def _overdue(self) -> None:
        """Act on a silence: lose, stand in, wait on, or give up."""
        if self._place() != self._marker:
            self._strikes = 0
            self._arm()
            return
        self._strikes += 1
        if self.phase in BEFORE_READY and self._may_give_up():
            self._give_up_on(self._missing())
            return
        if self.phase in {SUMMING, ITERATING} and self.plan.policy.stand_in:
            self._stand_in()
        if self._strikes >= self.plan.policy.patience or self._is_meeting():
            self._out_of_patience()
        else:
            self._arm()

    def _may_give_up(self) -> bool:
        """Only a party that never restarted is sure that it was not ready."""
        if self._resumed or self._answers or not self.plan.policy.drop:
            return False
        left = [name for name in self.members if name not in self._missing()]
        return bool(self._missing()) and self.plan.refusal(tuple(left)) is None

    def _give_up_on(self, silent: list[str]) -> None:
        lost = self._lost | set(silent)
        self._publish(
            Lost(
                party=self.me,
                epoch=self.epoch,
                incarnation=self._joined_as,
                lost=tuple(sorted(lost)),
            )
        )
        self._lose(lost)

    def _out_of_patience(self) -> None:
        if self.phase == AGREEING and (who := self._dissenters()):
            self._abort("result", f"{listed(who)} found another answer")
        elif self.phase == AGREEING and ("Agreed", 0, self.me) in self._book:
            self._enter(self._finish())
        else:
            self._abort("timeout", self._whom())

    def _all_agreed(self) -> bool:
        """Wait no longer once somebody has left because of its answer."""
        agreed = super()._all_agreed()
        if not agreed and self.phase == AGREEING and (quits := self._objections()):
            self._leave_with(quits[0])
        return agreed

    def _dissenters(self) -> list[str]:
        """Return who did not vanish but holds another answer to be right."""
        known = self._proposed() is not None
        agreed = self._book.of(Agreed, 0).keys() if known else set[str]()
        signed = agreed - self._signers().keys()
        objectors = {one.party for one in self._objections()}
        return sorted(objectors | (signed & set(self.members)))

    def _objections(self) -> list[Quit]:
        """Return the quits of members who left over an answer without signing it."""
        quits = (one for one in self._book.all(Quit) if one.reason == "result")
        # What somebody has signed shows when the proposed answer is here.
        unknown = self._proposed() is None
        signed = self._book.of(Agreed, 0) if unknown else self._signers()
        waiting = set(self.members) - signed.keys()
        return [one for one in quits if one.party in waiting]

    def _on_lost(self, lost: Lost) -> None:
        """Follow a member; what a lost party says of others is only a hint.

        Its own giving up proves nothing about an epoch that it is not in.
        """
        if lost.party in self.members:
            self._lose(self._lost | set(lost.lost))
            return
        more = [name for name in lost.lost if name in self.members and name != self.me]
        if more and self.phase in BEFORE_READY and self._may_give_up_on(*more):
            self._give_up_on(more)

    def _on_quit(self, quit_: Quit) -> None:
        """Do at once what a deadline would do later about a party that left."""
        if self.phase in CLOSED or quit_.party not in self.members:
            return
        if self.phase in BEFORE_READY and self._may_give_up_on(quit_.party):
            self._give_up_on([quit_.party])
        elif self._is_hopeless(quit_):
            self._leave_with(quit_)

    def _leave_with(self, quit_: Quit) -> None:
        """Give up because of somebody who did."""
        # Before this party's own word, which does not say whose fault it is.
        frame = self._book.frame(quit_.id)
        self._send_all(quit_, frame, but={quit_.party})
        self._abort("peer", self._whom())

    def _is_hopeless(self, quit_: Quit) -> bool:
        """Say whether nobody can go on without a party that left.

        Whose ledger refused has shown nothing to anybody, and nothing can stand in. Who
        lost its patience waits for somebody else: so does this party, in its own time.
        """
        if quit_.reason == "ledger":
            return quit_.party not in self._book.of(Masked, self.epoch)
        needed = bool(self._answers) or not self.plan.policy.drop
        blocked = self.phase in BEFORE_READY and needed
        return blocked and quit_.reason != "timeout"

    def _may_give_up_on(self, *names: str) -> bool:
        """Before its neighbours' echo a party cannot know that it is not an old one."""
        left = tuple(one for one in self.members if one not in names)
        blocked = self._resumed or self._answers or not self.plan.policy.drop
        echoed = self._echoed.issuperset(set(self._neighbours).difference(names))
        return echoed and not blocked and self.plan.refusal(left) is None

    def _stand_in(self) -> None:
        """Publish the deposits of silent neighbours, and this party's own numbers."""
        if self._work.rounds is None and not self._by_tree:
            return
        self._fall_back()
        for name in self._missing():
            deposit = self._deposits.get(name)
            if deposit is not None and deposit.id not in self._book:
                self._send_all(deposit, self._book.add(deposit))

    def _on_masked(self, masked: Masked) -> None:
        """Join in when somebody falls back to showing all masked numbers."""
        own = self._own_masked(masked.epoch)
        if own is None:
            return
        if self.phase in {SUMMING, ITERATING}:
            self._fallback = True
        self._show(own)

    def _fall_back(self) -> None:
        assert self._masked is not None
        self._fallback = True
        self._show(self._masked)

    def _pick_up(self) -> None:
        """Do again what a crash may have cut off, now that nobody knows more."""
        given_up = (one.lost for one in self._own_records() if isinstance(one, Lost))
        lost = self._lost.union(*given_up)
        if lost != self._lost:
            self._lose(lost)
        elif self.phase in {SUMMING, ITERATING}:
            self._enter(self._emit())
        elif self.phase == AGREEING:
            if self._answer is None:
                self._answer = self._work.answer(self._answers, self.members)
            self._enter(self._propose())
