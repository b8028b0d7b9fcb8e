"""One party's protocol as a state machine without I/O.

Frames and expired timers go in; effects come out, in the order in which the driver has
to carry them out. Nothing here knows the time, a socket, a file or a source of chance:
keys, shares' streams and the party's work are handed in.

Every call either makes progress or raises a `ProtocolError` and changes nothing.

Epochs. A sum is one epoch. The number is n + 1 times the sums before it, plus how many
parties have been lost: it never comes twice. Nothing masked leaves a party before
everybody in the epoch has signed `Ready`, and whoever has signed cannot be the one to
give the epoch up. So an epoch that somebody gave up was never committed by anybody, and
parties may be dropped; one that was committed keeps all its parties.
"""

from __future__ import annotations

from collections.abc import Mapping

from veilsum.errors import (
    InvalidInputError,
    LocalProtocolError,
    PeerProtocolError,
    VeilsumError,
)
from veilsum.numbers.arrays import listed
from veilsum.protocol.codec import MalformedMessageError
from veilsum.protocol.effects import Effect, SetTimer
from veilsum.protocol.hearing import Hearing
from veilsum.protocol.messages import Join, Quit
from veilsum.protocol.phases import BY_SOURCE, CLOSED, GREETING


class Machine(Hearing):
    """One party in one run.

    `start` or `resume` comes first and once; then `receive` and `expire` as things
    happen, and `stop` if the party itself has to leave.
    """

    def start(self) -> list[Effect]:
        """Take part, as a party that has never been in this run."""
        self._first_call()
        self._remember_self()
        try:
            self._take_input()
        except InvalidInputError as error:
            self._abort("input", error.plain)
            return self._effects()
        self._publish(self._own_join())
        self._ask()
        self._out.append(SetTimer("resend", self.plan.policy.resend))
        self._enter(GREETING)
        return self._effects()

    def resume(self, stored: Mapping[str, bytes]) -> list[Effect]:
        """Go on where the stored records end; ask the neighbours before anything."""
        if not self._has_spoken(stored):
            return self.start()
        self._first_call()
        self._resumed = True
        try:
            self._restore(stored)
        except InvalidInputError as error:
            self._abort("input", error.plain)
        if self.phase not in CLOSED:
            self._ask()
            self._out.append(SetTimer("resend", self.plan.policy.resend))
            self._arm()
        return self._effects()

    def receive(self, sender: str, frame: bytes) -> list[Effect]:
        """Take a frame from a neighbour.

        Raises:
            PeerProtocolError: the frame cannot be right; nothing has changed.
        """
        self._check_started()
        if sender not in self._links:
            raise PeerProtocolError(sender, f"is not a neighbour of {self.me!r}")
        if self._book.has_seen(frame):
            return []
        try:
            message = self._codec.decode(frame)
        except MalformedMessageError as error:
            raise PeerProtocolError(sender, str(error)) from None
        if self._take(sender, message, frame):
            self._progress()
        return self._effects()

    def meet(self, neighbour: str) -> list[Effect]:
        """Ask a neighbour what it lacks: the link with it is new, and nothing on it."""
        self._check_started()
        self._recent = {one for one in self._recent if one[0] != neighbour}
        self._ask(to=[neighbour])
        return self._effects()

    def expire(self, timer: str) -> list[Effect]:
        """Act on a timer that ran out; one that no longer counts does nothing."""
        self._check_started()
        if self.phase in CLOSED:
            return []
        if timer == "resend":
            self._recent.clear()
            self._ask(to=self._neighbours)
            self._out.append(SetTimer("resend", self.plan.policy.resend))
        elif timer == f"deadline/{self._generation}":
            self._overdue()
        self._progress()
        return self._effects()

    def stop(self, reason: str, detail: str = "") -> list[Effect]:
        """Leave the run: the driver could not do what it was asked, or was told to."""
        self._check_started()
        if reason not in Quit.reasons:
            raise LocalProtocolError(
                f"a party leaves for one of {listed(Quit.reasons, most=99)}, "
                f"found {reason!r}"
            )
        if self.phase not in CLOSED:
            self._abort(reason, detail or "stopped by its owner")
        return self._effects()

    def _first_call(self) -> None:
        if self._started:
            raise LocalProtocolError("a machine starts once: make a new one")
        self._started = True

    def _check_started(self) -> None:
        if not self._started:
            raise LocalProtocolError("start or resume the machine first")

    @staticmethod
    def _has_spoken(stored: Mapping[str, bytes]) -> bool:
        """Say whether an earlier start got as far as to tell anybody anything."""
        return any(key == "aborted" or key.startswith("record/") for key in stored)

    def _effects(self) -> list[Effect]:
        effects, self._out = self._out, []
        return effects

    def _take_input(self) -> None:
        vector = self._work.vector(self._answers)
        if vector is None or vector.shape != (self.plan.size,):
            found = "none" if vector is None else f"shape {vector.shape}"
            raise InvalidInputError(
                f"the plan sums vectors of {self.plan.size} numbers, found {found}"
            )
        self._private = self.plan.law.encode(vector)

    def _own_join(self) -> Join:
        # The record's number tells one start's Join from another's.
        number = int.from_bytes(self._joined_as[:6], "big")
        join = Join(
            party=self.me,
            epoch=number,
            incarnation=self._joined_as,
            plan=self.plan.digest,
        )
        self._joins[self.me] = join
        return join

    def _progress(self) -> None:
        """Walk the table as far as it goes."""
        try:
            while self.phase not in CLOSED and self._may_act():
                if self._resumed and not self._picked_up:
                    self._picked_up = True
                    self._pick_up()
                    continue
                step = BY_SOURCE[self.phase]
                if not getattr(self, step.guard)() or self.phase in CLOSED:
                    return
                self._enter(getattr(self, step.action)())
        except VeilsumError as error:
            # Not a peer's fault: the work itself failed on what the parties agreed.
            self._abort("result", error.plain)

    def _may_act(self) -> bool:
        """Say whether a returning party has heard from everybody that it is not old."""
        return not self._resumed or self._echoed.issuperset(self._neighbours)
