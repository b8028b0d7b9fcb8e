"""Losing parties: before the commit in a new epoch, afterwards only by a stand-in."""

from __future__ import annotations

import msgspec

from veilsum.agent.messages import Lost, Masked, Quit
from veilsum.agent.phases import (
    AGREEING,
    BEFORE_COMMIT,
    BEFORE_READY,
    CLOSED,
    GREETING,
    ITERATING,
    SUMMING,
)
from veilsum.agent.restoring import Restoring
from veilsum.core.connectivity import components


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
        refusal = self.plan.refusal(left) or self._pieces(left)
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

    def _pieces(self, left: tuple[str, ...]) -> str | None:
        whole = self.plan.topology
        pieces = components(whole.induced([whole.index(name) for name in left]))
        return None if len(pieces) == 1 else "the others would be in pieces"

    def _overdue(self) -> None:
        """Act on a silence: lose, stand in, wait on, or give up."""
        marker = (self.phase, self.epoch, getattr(self._state, "index", 0))
        self._strikes = self._strikes + 1 if marker == self._marker else 1
        self._marker = marker
        if self.phase in BEFORE_READY and self._may_give_up():
            self._give_up_on(self._missing())
            return
        if self.phase in {SUMMING, ITERATING} and self.plan.policy.stand_in:
            self._stand_in()
        if self._strikes >= self.plan.policy.patience:
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
        if self.phase == AGREEING and ("Agreed", 0, self.me) in self._book:
            self._enter(self._finish())
        else:
            self._abort("timeout", self._whom())

    def _on_quit(self, quit_: Quit) -> None:
        """Do at once what a deadline would do later about a party that left."""
        if self.phase in CLOSED or quit_.party not in self.members:
            return
        if self.phase in BEFORE_READY and self._may_give_up_on(quit_.party):
            self._give_up_on([quit_.party])

    def _may_give_up_on(self, name: str) -> bool:
        left = tuple(one for one in self.members if one != name)
        blocked = self._resumed or self._answers or not self.plan.policy.drop
        return not blocked and self.plan.refusal(left) is None

    def _stand_in(self) -> None:
        """Publish the deposits of silent neighbours, and this party's own numbers."""
        if self._work.rounds is None and not self._by_tree:
            return
        self._fall_back()
        for name in self._missing():
            deposit = self._deposits.get(name)
            if deposit is not None and deposit.id not in self._book:
                self._send_all(self._book.add(deposit))

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
