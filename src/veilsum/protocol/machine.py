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

Parts. A machine is made of

    Book       the signed records that everybody gets, and what they say together
    Peers      the neighbours' present starts, and what is on its way to them
    Epoch      shares, confirmations and masked numbers of one sum
    Sums       the totals that are known
    Iteration  the rounds of an iterative method after the commit
    Deadline   how long nothing has happened

Each keeps its own state and returns effects; none knows of another's. Who is lost is
decided in `losing`, what is written and read again stands in `recovery`, and which part
is asked when stands in the table below.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import ClassVar, TypeVar

import msgspec
import numpy as np

from veilsum.errors import (
    InvalidInputError,
    LocalProtocolError,
    PeerProtocolError,
    UntimelyError,
    VeilsumError,
)
from veilsum.masks.masking import MaskStreams
from veilsum.numbers.arrays import Vector, largest_difference, listed_names
from veilsum.numbers.secrets import Secret
from veilsum.protocol.book import EPOCHAL, ProtocolKeys, RecordBook
from veilsum.protocol.codec import MalformedMessageError
from veilsum.protocol.effects import (
    Abort,
    Accuse,
    Deliver,
    Effect,
    Emission,
    Finish,
    Persist,
    Send,
    SetTimer,
)
from veilsum.protocol.epoch import Epoch, EpochSums, ProtocolNeighbourhood
from veilsum.protocol.evidence import Contradiction
from veilsum.protocol.iteration import EpochIteration
from veilsum.protocol.losing import LosingSituation, cannot_go_on
from veilsum.protocol.messages import (
    Agreed,
    Confirm,
    Deposit,
    Down,
    Join,
    Lost,
    Masked,
    Numbers,
    Quit,
    Ready,
    Record,
    Result,
    Round,
    Share,
    Status,
    Up,
)
from veilsum.protocol.peers import ProtocolPeers
from veilsum.protocol.phases import (
    ABORTED,
    AGREEING,
    BEFORE_COMMIT,
    BEFORE_READY,
    CLOSED,
    COMMITTING,
    FINISHED,
    GREETING,
    ITERATING,
    SHARING,
    SUMMING,
    Handlers,
    PhaseTransition,
)
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.recovery import RecoveredRun
from veilsum.protocol.work import ProtocolWork

R = TypeVar("R", bound=Record)

# Times that neighbours compare what they hold before a party ends over what does not
# fit: whoever told two stories is found out by then.
COMPARISONS = 2


class PhaseDeadline:
    """Time that a party has spent in one place, counted in passed deadlines."""

    def __init__(self) -> None:
        self.strikes = 0
        self._generation = 0
        self._place: object = None

    def set(self, place: object, seconds: float) -> SetTimer:
        """Start waiting anew: earlier deadlines no longer count."""
        self._generation += 1
        self._place = place
        return SetTimer(f"deadline/{self._generation}", seconds)

    def is_this(self, timer: str) -> bool:
        return timer == f"deadline/{self._generation}"

    def strike(self, place: object) -> bool:
        """Count a deadline; say whether the party has not moved while it ran."""
        moved = place != self._place
        self.strikes = 0 if moved else self.strikes + 1
        return not moved


class Machine(Secret):
    """One party in one run.

    `start` or `resume` comes first and once; then `receive` and `expire` as things
    happen, and `stop` if the party itself has to leave.

    Attributes:
        phase: a line of the table, or how it ended.
        continues: whether the driver tells it again all that its earlier starts have
            heard, and sees to it that it is no old copy: then all starts are one.
        table: what each phase waits for, and what follows.
        hears: what is done about each kind of message in each phase.
    """

    def __init__(
        self,
        plan: ProtocolPlan,
        me: str,
        *,
        keys: ProtocolKeys,
        streams: MaskStreams,
        work: ProtocolWork,
        continues: bool = False,
    ) -> None:
        plan.topology.index(me)  # refuses a stranger, naming who is near
        self.plan, self.me, self.phase = plan, me, GREETING
        self.continues = continues
        self._keys, self._streams, self._work = keys, streams, work
        self._out: list[Effect] = []
        self._started, self._resumed, self._picked_up = False, False, False
        self._peers = ProtocolPeers(
            plan.topology.neighbours(me), keys.random(16), continues=continues
        )
        # What an earlier start that spoke has kept of itself counts instead of these.
        self._secret_key = keys.random(32)
        self._book = RecordBook(plan, me, keys, self._peers.incarnation)
        self._sums = EpochSums(plan)
        self._deadline = PhaseDeadline()
        self._answer: Vector | None = None
        self._misfit: Abort | None = None
        self._comparisons = 0
        self._epoch = Epoch(plan, ProtocolNeighbourhood(plan.topology, me), 0)
        self._iteration = EpochIteration(plan, self._epoch.place, 0, work.rounds)

    @property
    def epoch(self) -> int:
        """Which epoch this is: no number ever comes twice in a run."""
        return self._epoch.number

    @property
    def members(self) -> tuple[str, ...]:
        """Members of the epoch, in the plan's order."""
        return self._epoch.members

    @property
    def lost(self) -> tuple[str, ...]:
        return self._epoch.lost

    @property
    def round(self) -> int:
        """Number of completed rounds of an iterative method."""
        return self._iteration.index

    @property
    def waiting_for(self) -> tuple[str, ...]:
        if self.phase in CLOSED:
            return ()
        return tuple(self.table[self.phase].lacks(self))

    @property
    def withheld(self) -> tuple[str, ...]:
        """Parties that signed Ready and have not sent the masked vector all wait for.

        This is not a verdict: a crash or a slow connection looks the same.
        """
        summing = self.phase == SUMMING and not self._epoch.by_tree
        if not summing and not (self.phase == ITERATING and self._epoch.fallback):
            return ()
        return tuple(self._others_not_in(self._book.of(Masked, self.epoch)))

    @property
    def accused(self) -> Mapping[str, str]:
        """Acts of other parties, by name, that no honest party commits."""
        proofs = self._book.evidence.values()
        return {
            **self._peers.faults,
            **{found.party: found.words for found in proofs if found.is_a_lie},
        }

    def is_deaf_to(self, neighbour: str) -> bool:
        """Say whether a neighbour has sent so much of that that nothing more counts."""
        return self._peers.is_deaf_to(neighbour)

    def n_in_vain(self, neighbour: str) -> int:
        """Return how many messages of a neighbour have changed nothing."""
        return self._peers.in_vain[neighbour]

    # What happens to a party

    def start(self) -> list[Effect]:
        """Take part, as a party that has never been in this run."""
        self._first_call()
        start, plan = self._book.start, self.plan.digest
        self._keep("self", msgspec.msgpack.encode([start, self._secret_key]))
        # First of all: others take nothing of a start that has not joined.
        self._publish(Join(party=self.me, epoch=Join.number(start), plan=plan))
        try:
            self._epoch.private = self._first_input()
        except VeilsumError as error:
            self._abort("input", error.plain, error.code)
            return self._effects()
        self._ask()
        self._out.append(SetTimer("resend", self.plan.policy.resend))
        self._enter(GREETING)
        return self._effects()

    def resume(self, stored: Mapping[str, bytes]) -> list[Effect]:
        """Go on where the stored records end; ask the neighbours before anything."""
        read = RecoveredRun(self.plan, stored)
        if not read.has_spoken():
            return self.start()
        self._first_call()
        self._resumed = True
        try:
            self._restore(read)
        except VeilsumError as error:
            self._abort("input", error.plain, error.code)
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
        if sender not in self._peers.names:
            raise PeerProtocolError(
                sender, f"is not a neighbour of {self.me!r}", code="not-a-neighbour"
            )
        if self._peers.is_deaf_to(sender):
            raise PeerProtocolError(
                sender, "is not listened to any more", code="party-ignored"
            )
        if self._book.has_seen(frame):
            self._peers.in_vain[sender] += 1
            return []
        try:
            self._take(sender, frame)
        except UntimelyError:
            self._peers.in_vain[sender] += 1
            raise
        except PeerProtocolError as error:
            self._peers.blame(sender, error)
            raise
        return self._effects()

    def _take(self, sender: str, frame: bytes) -> None:
        try:
            message = self.plan.codec.decode(frame)
        except MalformedMessageError as error:
            raise PeerProtocolError(sender, str(error), code=error.code) from None
        handle = self.hears[self.phase].get(type(message))
        if handle is not None and handle(self, sender, message, frame):
            if not isinstance(message, Status):
                self._peers.bringing.add(sender)
            self._progress()
        else:
            self._peers.in_vain[sender] += 1

    def meet(self, neighbour: str) -> list[Effect]:
        """Ask a neighbour what it lacks: the link with it is new, and nothing on it."""
        self._check_started()
        self._peers.reconnect(neighbour)
        self._ask(to=[neighbour])
        return self._effects()

    def expire(self, timer: str) -> list[Effect]:
        """Act on a timer that ran out; one that no longer counts does nothing."""
        self._check_started()
        if self.phase in CLOSED:
            return []
        if timer == "resend":
            quiet = self._quiet_neighbours()
            self._peers.lose_patience()
            self._ask(to=quiet)
            self._out.append(SetTimer("resend", self.plan.policy.resend))
            self._compared()
        elif self._deadline.is_this(timer) and not self._misfit:
            self._overdue()
        self._progress()
        return self._effects()

    def stop(self, reason: str, detail: str = "") -> list[Effect]:
        """Leave the run: the driver could not do what it was asked, or was told to."""
        self._check_started()
        if reason not in (known := (*Quit.refusals, *Quit.reasons)):
            raise LocalProtocolError(
                f"a party leaves for one of {listed_names(known, most=99)}, found "
                f"{reason!r}",
                code="unknown-leave-reason",
            )
        if self.phase not in CLOSED:
            self._abort(reason, detail or "stopped by its owner")
        return self._effects()

    def _first_call(self) -> None:
        if self._started:
            raise LocalProtocolError(
                "a machine starts once: make a new one", code="already-started"
            )
        self._started = True

    def _check_started(self) -> None:
        if not self._started:
            raise LocalProtocolError(
                "start or resume the machine first", code="not-started"
            )

    def _effects(self) -> list[Effect]:
        effects, self._out = self._out, []
        return effects

    def _first_input(self) -> Numbers:
        vector = self._work.vector([])
        if vector is None or vector.shape != (self.plan.size,):
            found = "none" if vector is None else f"shape {vector.shape}"
            raise InvalidInputError(
                f"the plan sums vectors of {self.plan.size} numbers, found {found}",
                code="wrong-length",
            )
        return self.plan.law.encode(vector)

    def _progress(self) -> None:
        """Walk the table as far as it goes."""
        try:
            self._end_if_proven()
            while self._goes_on() and self._may_act():
                if self._resumed and not self._picked_up:
                    self._picked_up = True
                    self._pick_up()
                    continue
                step = self.table[self.phase]
                if step.meanwhile is not None:
                    step.meanwhile(self)
                if not self._goes_on() or not step.is_over(self):
                    return
                self._enter(step.action(self))
        except VeilsumError as error:
            # The work failed on what the parties agreed on, or on what only this one
            # was told.
            self._suspect(error.plain, error.code)

    def _goes_on(self) -> bool:
        return self.phase not in CLOSED and not self._misfit

    def _may_act(self) -> bool:
        """Say whether a returning party has heard from everybody that it is not old."""
        return not self._resumed or self._peers.have_echoed(
            self._epoch.place.neighbours
        )

    # Acting

    def _keep(self, key: str, value: bytes) -> None:
        self._out.append(Persist(key, value))

    def _publish(self, record: R) -> None:
        """Sign a record, keep it durably, then tell everybody."""
        sealed = self._book.sealed(record)
        frame = self._book.add(sealed)
        kind, epoch, _ = sealed.id
        self._keep(f"record/{kind}/{epoch}", frame)
        self._out += self._peers.tell(sealed, frame)

    def _show(self, masked: Masked) -> None:
        """Show masked numbers to everybody, once."""
        if masked.id not in self._book:
            self._out += self._peers.tell(masked, self._book.add(masked))

    def _ask(self, *, reply: bool = True, to: Iterable[str] | None = None) -> None:
        """Tell neighbours what is here, so that they send what is not."""
        for name in self._peers.names if to is None else to:
            status = self._status(name, reply=reply)
            self._out.append(Send(name, self.plan.codec.encode(status)))

    def _quiet_neighbours(self) -> list[str]:
        """Return whom to ask again.

        Not who brings one thing after the other: a question finds it in the middle of
        that, and what it has sent already would be sent once more. Nor who has asked
        itself: both know then what the other holds. But where something does not fit,
        what everybody holds is compared.
        """
        peers = self._peers
        known = (peers.bringing | peers.compared) & peers.echoed
        return self._neighbours_not_in(set() if self._misfit else known)

    def _status(self, name: str, *, reply: bool) -> Status:
        share, confirm = self._epoch.held_of(name)
        heard = self._iteration.latest_heard(name)
        # Along a tree there is only round 0.
        heard = max(heard, 0) if self._epoch.has_sum_of(name) else heard
        return Status(
            self._peers.incarnation,
            self._peers.present(name),
            self.epoch,
            self._book.held(),
            share,
            confirm,
            heard,
            reply,
        )

    def _arm(self) -> None:
        """Start waiting anew; for people to come, longer than usual."""
        policy = self.plan.policy
        seconds = policy.meeting if self._is_meeting() else policy.deadline
        self._out.append(self._deadline.set(self._where(), seconds))

    def _is_meeting(self) -> bool:
        """Say whether this party still waits for people to come, longer than usual."""
        first = self.phase == GREETING and self.epoch == 0
        return first and self.plan.policy.meeting > self.plan.policy.deadline

    def _where(self) -> tuple[str, int, int]:
        """Return how far this party is; the same place a deadline later is silence."""
        return (self.phase, self.epoch, self.round)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._deadline.strikes = 0
        self._arm()

    def _begin_epoch(
        self, lost: tuple[str, ...], private: Numbers | None = None
    ) -> None:
        """Begin an epoch: nothing of it is known yet but what is to be summed."""
        place, graph = self._epoch.place, self.plan.topology
        if lost != self.lost:
            kept = [graph.index(name) for name in graph.parties if name not in lost]
            place = ProtocolNeighbourhood(graph.induced(kept), self.me)
        number = self._sums.epoch(len(lost))
        self._epoch = Epoch(self.plan, place, number, lost, private)
        self._iteration = EpochIteration(self.plan, place, number, self._work.rounds)

    # What does not fit, and who is to blame

    def _suspect(self, detail: str, code: str = "") -> None:
        """Hold still over what does not fit, and compare with the neighbours.

        If somebody told two parties different things, some two neighbours hold
        different records of it: what they hold is part of what they tell each other.
        """
        if not self._sums.totals and self.phase in BEFORE_READY:
            self._abort("result", detail, code)  # nothing was told by anybody
        else:
            self._compare_before(Abort("result", detail, code=code))

    def _compare_before(self, end: Abort) -> None:
        """Compare records with the neighbours a few times, then end like this."""
        if self._misfit is None:
            self._misfit, self._comparisons = end, 0
            self._ask()
            self._end_if_proven()

    def _compared(self) -> None:
        """Count a comparison; end after the last one."""
        self._comparisons += 1
        if (end := self._misfit) and self._comparisons > COMPARISONS:
            detail = "; ".join((end.detail, *self._blamed()))
            self._abort(end.reason, detail, end.code)

    def _end_if_proven(self) -> None:
        """Go on no further with a member that is proven to lie."""
        if self.phase in CLOSED:
            return
        proofs = self._book.evidence.values()
        if any(found.party in self.members and self._counts(found) for found in proofs):
            self._abort("proof", "; ".join(self._blamed()))

    def _counts(self, found: Contradiction) -> bool:
        """Say whether a proof stands in the way of an answer.

        Once the sum is known it does if answers differ.
        """
        if self.phase != AGREEING:
            return found.is_a_lie
        proposed = found.kinds[0] == "Result" and found.party == min(self.members)
        return found.is_a_lie and (proposed or bool(self._misfit))

    def _blamed(self) -> list[str]:
        """Say what others did that no honest party does, and what cannot be decided."""
        proofs = {name: one.words for name, one in self._book.evidence.items()}
        claims = (
            f"{name!r} says it holds {claim}: if so, this party's state is an old copy"
            for name, claim in self._peers.claims.items()
        )
        return [*{**self._peers.faults, **proofs}.values(), *claims]

    def _abort(self, reason: str, detail: str, code: str = "") -> None:
        """Leave for good, and tell the others one word."""
        erased = self._epoch.wipe()
        self._begin_epoch(self.lost)
        self._sums.forget_masked()
        self._book.forget(Masked, self.me)
        self._keep("aborted", f"{reason}\n{detail}".encode())
        told = "refused" if reason in Quit.refusals else reason
        self._publish(Quit(party=self.me, epoch=self.epoch, reason=told))
        self._out += erased
        self.phase = ABORTED
        self._out.append(Abort(reason, detail, code=code))

    def _neighbours_not_in(self, held: Collection[str]) -> list[str]:
        return [name for name in self._epoch.place.neighbours if name not in held]

    def _others_not_in(self, held: Collection[str]) -> list[str]:
        return [n for n in self.members if n not in held and n != self.me]

    # greeting

    def _not_greeted(self) -> list[str]:
        mute = self._neighbours_not_in(self._peers.echoed)
        unknown = self._others_not_in(self._book.joins)
        return [name for name in self.members if name in mute or name in unknown]

    def _draw_shares(self) -> str:
        self._bind_input()
        self._out += self._epoch.draw(self._streams, self._keys)
        return SHARING

    def _bind_input(self) -> None:
        bound = self._epoch.fingerprint(self._secret_key)
        self._keep(f"input/{self.epoch}", bound)

    # sharing

    def _compare_course(self) -> None:
        """Wait no longer for who has an answer, and gives nothing to another sum."""
        over = {*self._book.of(Result, 0), *self._book.of(Agreed, 0)}
        others = [name for name in self.members if name in over]
        if self._sums.totals and others:
            self._suspect(
                f"{listed_names(others)} signed an answer, and this party was asked "
                "for "
                "another sum; nothing was shown in answer to that"
            )

    def _declare_ready(self) -> str:
        """Confirm every link, and commit to the masked numbers, which nobody sees yet.

        Both travel together: nobody shows anything before it has everybody's Ready and
        has found its neighbours' confirmations right.
        """
        epoch = self._epoch
        self._out += epoch.confirm()
        epoch.prepared = self._book.sealed(epoch.prepare(self._keys.random(64)))
        frame = self.plan.codec.encode(epoch.prepared)
        self._keep(f"prepared/{epoch.number}", frame)
        ready = Ready(
            party=self.me,
            epoch=epoch.number,
            lost=self.lost,
            request=self._work.asked(self._sums.totals),
            commitment=bytes(32),
        )
        self._publish(self._book.committed(ready, epoch.prepared))
        return COMMITTING

    # committing

    def _uncommitted(self) -> list[str]:
        """Return whose Ready is missing, or confirmation of a link."""
        lacking = {
            *self._others_not_in(self._book.of(Ready, self.epoch)),
            *self._neighbours_not_in(self._epoch.confirmations),
        }
        return [name for name in self.members if name in lacking]

    def _may_commit(self) -> bool:
        ready = self._book.all_ready(self.epoch, self.members, self.lost)
        return ready and not self._neighbours_not_in(self._epoch.confirmations)

    def _compare_requests(self) -> None:
        """Leave, before anything is shown, if somebody was asked for something else."""
        self._compare_course()
        own = self._book.of(Ready, self.epoch)[self.me]
        others = self._book.asked_otherwise(self.epoch, self.members, own)
        if others:
            self._suspect(
                f"{listed_names(others)} computed another next request from the same "
                "sums "
                "than this party; nothing was shown in answer to either: compare the "
                "versions of the programs",
            )

    def _commit(self) -> str:
        """Keep the commit and the masked numbers, charge for them, then show them."""
        epoch, number = self._epoch, self.epoch
        ready = [self._book.frame(("Ready", number, name)) for name in self.members]
        self._keep(f"commit/{number}", msgspec.msgpack.encode(ready))
        assert epoch.prepared is not None
        epoch.masked, epoch.prepared = epoch.prepared, None
        masked = epoch.masked
        self._keep(f"masked/{number}", self.plan.codec.encode(masked))
        self._out.append(Persist(f"prepared/{number}", None))
        self._out.append(Emission(number, self.members, masked.numbers))
        return self._emit()

    def _emit(self) -> str:
        """Show the masked numbers as the plan says."""
        epoch = self._epoch
        assert epoch.masked is not None
        if self._work.most_sums > len(self._sums.totals) + 1:
            self._out += epoch.draw_ahead(self._streams, self._keys)
        if self._iteration.planned and not epoch.fallback:
            self._out += epoch.deposit()
            self._iteration.begin(epoch.masked.numbers)
            self._say()
            return ITERATING
        if epoch.by_tree:
            self._out += epoch.deposit()
        else:
            self._show(epoch.masked)
        return SUMMING

    def _own_masked(self, epoch: int) -> Masked | None:
        masked = self._epoch.masked
        now = masked is not None and masked.epoch == epoch
        return masked if now else self._sums.masked(epoch)

    # summing

    def _pass_up(self) -> None:
        if self._epoch.by_tree:
            self._out += self._epoch.pass_up()

    def _sum_complete(self) -> bool:
        if self._epoch.by_tree:
            return self._epoch.total_by_tree() is not None
        return self._book.all_shown(self.epoch, self.members)

    def _take_sum(self) -> str:
        """Keep the total; go on to the next sum, or to the answer."""
        if self._epoch.by_tree:
            total = self._epoch.total_by_tree()
            assert total is not None
            frame = self.plan.codec.encode(Down(self.epoch, total))
            self._out.append(self._sums.pass_down(self.epoch, frame))
            self._keep_sum(total)
            children = self._epoch.place.children
            self._out += [Send(name, frame) for name in children]
        else:
            self._keep_shown()
        vector = self._work.vector(self._sums.totals)
        if vector is None:
            self._out += self._epoch.wipe()
            return self._answer_from_sums()
        ahead, early = self._epoch.sent, self._epoch.early
        self._begin_epoch(self.lost, self.plan.law.encode(vector))
        for name, (share, frame) in early.items():
            self._out.append(self._epoch.keep(name, share, frame))
        if not ahead:
            return self._draw_shares()
        self._epoch.sent = ahead
        self._bind_input()
        return SHARING

    def _keep_sum(self, total: Numbers) -> None:
        """Keep a total and deliver it; its shares are needed no more."""
        epoch, sums = self._epoch, self._sums
        assert epoch.masked is not None
        frame = self.plan.codec.encode(Down(epoch.number, total))
        index = len(sums.totals)
        known = self.plan.decoder.decode(index, total)
        self._keep(f"answer/{index}", frame)
        sums.add(known, epoch.masked)
        self._out += epoch.close(sums.epoch(len(self.lost)))
        self._out.append(Deliver(index, known.value))
        # A neighbour may still be one sum behind, and never more.
        self._book.forget_before((index - 1) * self.plan.epochs_per_sum)

    def _keep_shown(self) -> None:
        shown = self._book.of(Masked, self.epoch)
        self._keep_sum(self._epoch.total_of(shown))

    def _answer_from_sums(self) -> str:
        self._answer = self._work.answer(self._sums.totals, self.members)
        return self._propose()

    # iterating

    def _say(self) -> None:
        """Tell the neighbours this round's numbers, after keeping the state."""
        self._out += self._iteration.keep()
        self._out += self._iteration.say()

    def _advance(self) -> None:
        while self._iteration.advance():
            self._say()

    def _rounds_complete(self) -> bool:
        all_shown = self._book.all_shown
        return self._iteration.finished or (
            self._epoch.fallback and all_shown(self.epoch, self.members)
        )

    def _take_answer(self) -> str:
        if self._iteration.finished:
            self._answer = self._iteration.answer()
            return self._propose()
        self._keep_shown()
        return self._answer_from_sums()

    # agreeing

    def _propose(self) -> str:
        """Keep the answer; the lowest name tells everybody its own."""
        assert self._answer is not None
        # In rounds, who stood in for somebody knows a sum that others do not.
        rounds = self._iteration.planned
        self._book.sums = () if rounds else self._sums.digests
        self._keep("result", self._answer.tobytes())
        first = self.me == min(self.members)
        if first and self._book.proposed(self.members) is None:
            numbers = np.array(self._answer)
            self._publish(Result(party=self.me, epoch=0, numbers=numbers))
        return AGREEING

    def _compare_or_leave(self) -> None:
        """Sign, or wait no longer once somebody has left, or signed, another answer."""
        self._compare()
        mine = ("Agreed", 0, self.me) in self._book
        if mine and (others := self._book.otherwise(self.members)):
            self._suspect(
                f"{listed_names(others)} signed another answer than this party, or "
                "other sums"
            )
        if self.phase == AGREEING and (quits := self._book.objections(self.members)):
            self._leave_with(quits[0])

    def _compare(self) -> None:
        """Sign the proposed answer if it is this party's own, within the tolerance."""
        proposed = self._book.proposed(self.members)
        if proposed is None or ("Agreed", 0, self.me) in self._book:
            return
        assert self._answer is not None
        gap = largest_difference(proposed.numbers, self._answer)
        if not gap <= self.plan.tolerance < inf:
            told = f"{proposed.party!r} found another answer, {gap:.3g} away from this"
            allowed = self.plan.tolerance
            self._suspect(f"{told} party's; the plan allows {allowed:.3g}")
            return
        digest = self._book.signed_of(proposed)
        self._publish(Agreed(party=self.me, epoch=0, digest=digest))

    def _finish(self) -> str:
        proposed = self._book.proposed(self.members)
        assert proposed is not None
        signatures = self._book.signers(self.members)
        seal = proposed.signature
        kept = [proposed.numbers.tobytes(), self.members, signatures, seal]
        self._keep("finished", msgspec.msgpack.encode(kept))
        self._out += self._epoch.wipe()
        self._out.append(Finish(proposed.numbers, self.members, signatures, seal))
        return FINISHED

    # Messages from others: each is checked first, and changes something only then

    def _on_status(self, sender: str, status: Status, _: bytes) -> bool:
        """Learn where a neighbour is, and send what it lacks."""
        self._peers.hear(sender, status, self._claimed(sender, status))
        if self._peers.may_be_answered(sender):
            # Before the echo: who has forgotten something learns of it first.
            self._repair(sender, status)
            if status.reply or status.echo != self._peers.incarnation:
                self._ask(reply=False, to=[sender])
                self._peers.compared.add(sender)
        return True

    def _claimed(self, sender: str, status: Status) -> str | None:
        """Say what a neighbour knows of this party that it does not know itself.

        It is only a neighbour's word: it counts as long as no echo of that neighbour
        has come, and ends nothing. What this party has signed comes with a signature.
        """
        own = [one for one in status.records if one[2] == self.me]
        if unknown := [one for one in own if not self._recalls(one[0], one[1])]:
            return f"a {unknown[0][0]} that this party does not know"
        drawn = status.share < self.epoch or sender in self._epoch.sent
        if self.phase in BEFORE_COMMIT and not drawn:
            return "a share that this party does not know"
        if status.epoch == self.epoch and self._iteration.is_ahead(status):
            return "rounds that this party has not come to"
        return None

    def _recalls(self, kind: str, epoch: int) -> bool:
        """Say whether this party knows of a record of its own, or needs it no more."""
        deposited = kind == "Masked" and self._own_masked(epoch) is not None
        over = kind in EPOCHAL and epoch < self.epoch
        given_up = kind == "Lost" and any(
            epoch <= one.epoch for one in self._book.all(Lost) if one.party == self.me
        )
        known = (kind, epoch, self.me) in self._book
        return known or deposited or over or given_up

    def _repair(self, sender: str, status: Status) -> None:
        """Send a neighbour what it lacks of everything."""
        epoch = self._epoch
        # A party that has ended resends nothing by itself: it answers every time.
        ended = self.phase in CLOSED
        # Carried files take too long for anything to be left to another one.
        alone = ended or self.continues
        self._out += self._peers.repair(
            sender,
            status,
            self._book,
            every_time=ended,
            nearer=() if alone else epoch.place.nearer_to(sender),
        )
        if status.epoch == epoch.number:
            self._out += epoch.repair(sender, status)
        if status.epoch == epoch.number and epoch.masked is not None:
            self._out += self._iteration.repair(sender, status)
            self._out += epoch.repair_tree(sender, status)
        self._out += self._sums.repair(sender, status, epoch.place)

    def _on_record(self, sender: str, record: Record, frame: bytes) -> bool:
        """Look at what everybody gets, unless too much of it comes to nothing."""
        if self._peers.has_wasted(sender):
            raise UntimelyError(
                sender,
                "says too much at once that comes to nothing",
                code="too-much-pending",
            )
        try:
            return self._take_record(sender, record, frame)
        finally:
            if record.id not in self._book:
                self._peers.waste(sender)

    def _take_record(self, sender: str, record: Record, frame: bytes) -> bool:
        """Check, keep and pass on."""
        digest = self._book.digest(record)
        if not self._book.is_new(record, digest, sender):
            return True
        if record.party == self.me:
            return self._on_own(record)
        self._book.check_joined(record)
        if (found := self._book.contradiction(record, frame, digest)) is not None:
            kept = self._on_contradiction(found)
            # Whichever start of a party says that it leaves, nobody waits for it; who
            # has left already says nothing new.
            leaves = isinstance(record, Quit) and not self._book.has_left(record.party)
            if found.is_a_lie or not leaves:
                return kept
        if self._book.is_outdated(record):
            return False
        self._check_moment(sender, record)
        self._book.add(record, frame, digest)
        # Should somebody have vanished on the way to the others, they will ask.
        served = self._epoch.place.served(sender, record.party)
        self._out += self._peers.tell(record, frame, but=served)
        match record:
            case Lost():
                self._on_lost(record)
            case Quit():
                self._on_quit(record)
            case Masked():
                self._on_masked(record)
        return True

    def _on_own(self, record: Record) -> bool:
        """Leave if this party itself has signed what it does not know: it is old."""
        known = record.id in self._book  # as another one
        same = record.incarnation == self._book.start
        recalled = same and self._recalls(record.id[0], record.epoch)
        if self.phase in CLOSED or (recalled and not known):
            return False
        what = record.id[0] if same else f"{record.id[0]} of another start"
        self._abort(
            "stale", f"others hold a {what} of this party that it does not know"
        )
        return True

    def _on_contradiction(self, found: Contradiction) -> bool:
        """Keep the first proof against a party, and let everybody have it.

        That it started anew is kept as well, until there is a proof.
        """
        known = found.party in self._book.evidence
        if known and (self._book.proves(found.party) or not found.is_a_lie):
            return False
        self._book.evidence[found.party] = found
        self._keep(f"evidence/{found.party}", found.pack())
        self._out.append(Accuse(found.party, found.words, found.is_a_lie))
        if found.is_a_lie:
            others = [name for name in self._peers.names if name != found.party]
            self._out += [Send(to, frame) for frame in found.frames for to in others]
        return True

    def _check_moment(self, sender: str, record: Record) -> None:
        """Refuse what may be said, but not now."""
        match record:
            case Masked() if not self._is_awaited(record.epoch):
                raise UntimelyError(
                    sender,
                    f"shows numbers of epoch {record.epoch}; now is {self.epoch}",
                    code="other-epoch",
                )
            case Ready():
                self._epoch.check_vote(sender, record.epoch)
                self._check_committed(record)
            case Lost() if self.phase not in CLOSED and not self._droppable():
                raise UntimelyError(
                    record.party,
                    "drops a party after the commit, which nobody may",
                    code="drop-after-commit",
                )
            case Quit() if self._book.has_left(record.party):
                raise UntimelyError(
                    record.party, "has left already", code="party-has-left"
                )

    def _check_committed(self, ready: Ready) -> None:
        """Refuse a Ready that would take the place of one that counts.

        In a committed epoch everybody's commitment stays the one that is open to it.
        """
        masked, width = self._epoch.masked, self.plan.epochs_per_sum
        if masked is None or ready.epoch == masked.epoch:
            return
        if ready.epoch // width == masked.epoch // width:
            raise UntimelyError(
                ready.party,
                "is ready for another epoch of a sum that is committed",
                code="other-epoch",
            )

    def _is_awaited(self, epoch: int) -> bool:
        """Say whether masked numbers may be shown: this party was ready for them."""
        ready = ("Ready", epoch, self.me) in self._book
        # A neighbour may still be one sum behind, and never more.
        oldest = (len(self._sums.totals) - 2) * self.plan.epochs_per_sum
        return epoch >= oldest and (ready or self._own_masked(epoch) is not None)

    def _droppable(self) -> bool:
        """Say whether nobody can have seen a masked number of this party yet."""
        return self.phase in BEFORE_COMMIT and not self._sums.totals

    def _on_share(self, sender: str, share: Share, frame: bytes) -> bool:
        self._out += self._epoch.take_share(sender, share, frame, self.phase)
        return True

    def _on_confirm(self, sender: str, confirm: Confirm, _: bytes) -> bool:
        self._epoch.take_confirm(sender, confirm, self.phase)
        if self.phase == AGREEING and self._sums.totals:
            # Shares travel ahead, confirmations only once a sum was asked for.
            self._suspect(
                f"{sender!r} was asked for another sum, and this party holds the run "
                "to be over; nothing was shown in answer to that"
            )
        return True

    def _on_deposit(self, sender: str, deposit: Deposit, _: bytes) -> bool:
        masked = deposit.masked
        if masked.party != sender:
            raise PeerProtocolError(
                sender, f"deposits for {masked.party!r}", code="deposit-for-stranger"
            )
        self._epoch.check_now(sender, masked.epoch)
        self._epoch.check_kind(sender, masked.numbers)
        if self._is_as_promised(masked):
            self._epoch.deposits.setdefault(sender, masked)
        return True

    def _is_as_promised(self, masked: Masked) -> bool:
        """Look at a deposit beside all else that its author signed; keep a proof.

        Its signature is looked at where it would prove something, or be shown.
        """
        frame = self.plan.codec.encode(masked)
        digest = self._book.digest(masked)
        if (found := self._book.contradiction(masked, frame, digest)) is None:
            return True
        self._book.check_signature(masked, digest, masked.party)
        self._on_contradiction(found)
        return False

    def _on_tree(self, sender: str, message: Up | Down, _: bytes) -> bool:
        self._epoch.take_tree(sender, message)
        return True

    def _on_round(self, sender: str, message: Round, _: bytes) -> bool:
        self._epoch.check_now(sender, message.epoch)
        return self._iteration.take(sender, message)

    # Losing parties

    def _situation(self) -> LosingSituation:
        return LosingSituation(
            plan=self.plan,
            me=self.me,
            phase=self.phase,
            members=self.members,
            neighbours=self._epoch.place.neighbours,
            echoed=self._peers.echoed,
            lacks=self.waiting_for,
            resumed=self._resumed,
            summed=bool(self._sums.totals),
            withheld=self.withheld,
        )

    def _overdue(self) -> None:
        """Act on a silence: lose, stand in, wait on, or give up."""
        if not self._deadline.strike(self._where()):
            self._arm()
            return
        if silent := self._situation().silent():
            self._give_up_on(silent)
            return
        if self.phase in {SUMMING, ITERATING} and self.plan.policy.stand_in:
            self._stand_in()
        patient = self._deadline.strikes < self.plan.policy.patience
        if patient and not self._is_meeting():
            self._arm()
        else:
            self._out_of_patience()

    def _out_of_patience(self) -> None:
        book, members = self._book, self.members
        # Who comes back has its own signature, and not yet the answer that it is under.
        signed = ("Agreed", 0, self.me) in book and book.proposed(members) is not None
        if self.phase == AGREEING and (who := book.dissenters(members)):
            self._abort("result", f"{listed_names(who)} found another answer")
        elif self.phase == AGREEING and signed:
            self._enter(self._finish())
        elif self.phase in BEFORE_COMMIT and not self._sums.totals:
            self._go_away()
        else:
            self._abort("timeout", self._whose_fault())

    def _go_away(self) -> None:
        """Leave as a process does that is killed: all is kept, and nobody is told.

        Somebody did not come in time. As long as nobody has shown anything, nothing is
        lost: the same parties meet again, and go on with what they have.
        """
        detail = self._whose_fault()
        self.phase = ABORTED
        self._out.append(Abort("timeout", detail, final=False))

    def _whose_fault(self) -> str:
        told = self._situation().whose_fault(self._book.all(Quit))
        return "; ".join((told, *self._blamed()))

    def _give_up_on(self, names: Collection[str]) -> None:
        lost = {*self.lost, *names}
        names = tuple(sorted(lost))
        self._publish(Lost(party=self.me, epoch=self.epoch, lost=names))
        self._lose(lost, self.me)

    def _lose(self, lost: Collection[str], because_of: str) -> None:
        """Go on without some parties, in a new epoch with fresh shares."""
        if set(lost) == set(self.lost) or self.phase in CLOSED:
            return
        if (end := cannot_go_on(self.plan, self.me, lost, because_of)) is not None:
            self._leave_dropped(end)
            return
        private = self._epoch.private
        self._out += self._epoch.wipe()
        self._keep("lost", msgspec.msgpack.encode(sorted(lost)))
        self._begin_epoch(tuple(sorted(lost)), private)
        self._ask(to=self._epoch.place.neighbours)
        self._enter(GREETING)

    def _leave_dropped(self, end: Abort) -> None:
        """Pass the losses on, and compare records before leaving.

        Their author may have signed Ready for the others: both together are evidence,
        and this party may be the only one that holds the loss.
        """
        for lost in self._book.all(Lost):
            frame = self._book.frame(lost.id)
            self._out += self._peers.tell(lost, frame, but={lost.party})
        self._compare_before(end)

    def _on_lost(self, lost: Lost) -> None:
        """Follow a member; of what a lost party says, only what holds here too."""
        if lost.party in self.members:
            self._lose({*self.lost, *lost.lost}, lost.party)
        elif names := self._situation().hinted(lost):
            self._give_up_on(names)

    def _on_quit(self, quit_: Quit) -> None:
        """Do at once what a deadline would do later about a party that left."""
        if self.phase in CLOSED or quit_.party not in self.members:
            return
        situation = self._situation()
        ready, shown = (self._book.of(kind, self.epoch) for kind in (Ready, Masked))
        owing = quit_.party in ready and quit_.party not in shown
        if situation.may_drop(quit_):
            self._give_up_on([quit_.party])
        elif situation.is_hopeless(quit_, owing=owing):
            self._leave_with(quit_)

    def _leave_with(self, quit_: Quit) -> None:
        """Give up because of somebody who did."""
        # Before this party's own word, which does not say whose fault it is.
        frame = self._book.frame(quit_.id)
        self._out += self._peers.tell(quit_, frame, but={quit_.party})
        lies = any(found.is_a_lie for found in self._book.evidence.values())
        self._abort("proof" if lies else "peer", self._whose_fault())

    def _stand_in(self) -> None:
        """Publish the deposits of silent neighbours, and this party's own numbers."""
        epoch = self._epoch
        if not self._iteration.planned and not epoch.by_tree:
            return
        assert epoch.masked is not None
        epoch.fallback = True
        self._show(epoch.masked)
        for name in self.waiting_for:
            if (masked := epoch.deposits.get(name)) is not None:
                self._show_deposit(masked)

    def _show_deposit(self, masked: Masked) -> None:
        """Publish a neighbour's deposit, if that is one that others will believe."""
        try:
            self._book.check_signature(masked, self._book.digest(masked), masked.party)
        except PeerProtocolError as error:
            self._peers.blame(masked.party, error)
        else:
            # Its author's Ready may have come after it.
            if self._is_as_promised(masked):
                self._show(masked)

    def _on_masked(self, masked: Masked) -> None:
        """Join in when somebody falls back to showing all masked numbers."""
        own = self._own_masked(masked.epoch)
        if own is None:
            return
        if self.phase in {SUMMING, ITERATING}:
            self._epoch.fallback = True
        self._show(own)

    # Coming back

    def _restore(self, stored: RecoveredRun) -> None:
        """Take everything back; the phase follows from what is there."""
        self._book.start, self._secret_key = stored.start()
        vectors = (*stored.masked().values(), *stored.prepared().values())
        for record in (*stored.records(), *vectors):
            if record.party != self.me or not self._book.is_signed(
                record, self._book.digest(record)
            ):
                raise InvalidInputError(
                    "the file with this run's state has a record that this party did "
                    "not sign: put a sound copy of it back, or start a new run",
                    code="foreign-record-stored",
                )
        if self.continues:
            self._peers.incarnation = self._book.start
        for record in stored.records():
            self._book.add(record)
        self._book.evidence = {one.party: one for one in stored.evidence()}
        if (end := stored.end()) is None:
            self._restore_epoch(stored)
            self.phase = self._restored_phase(stored)
            return
        # The driver is told again how it ended: the first time may have been cut off.
        self._out.append(end)
        self._begin_epoch(stored.lost())
        if self._iteration.planned:
            self._iteration.restore(stored)
        self.phase = FINISHED if isinstance(end, Finish) else ABORTED

    def _restore_epoch(self, stored: RecoveredRun) -> None:
        sums = self._sums
        sums.restore(stored)
        self._out += [Deliver(k, total) for k, total in enumerate(sums.totals)]
        for ready in stored.committed(
            (len(sums.totals) - 2) * self.plan.epochs_per_sum
        ):
            if ready.party != self.me:
                self._book.add(ready)
        self._begin_epoch(stored.lost())
        self._epoch.restore(stored, sums.unfinished(self.epoch))
        vector = self._work.vector(sums.totals)
        if vector is not None:
            self._epoch.private = self.plan.law.encode(vector)
            self._check_unchanged(stored)
        if self._epoch.masked is not None and self._iteration.planned:
            self._iteration.restore(stored)

    def _check_unchanged(self, stored: RecoveredRun) -> None:
        """Refuse new data under old masks: the change would show."""
        bound = stored.fingerprint(self.epoch)
        now = self._epoch.fingerprint(self._secret_key)
        if bound is not None and not hmac.compare_digest(bound, now):
            raise InvalidInputError(
                "the data have changed since this run began, and its masks hide the "
                "old ones only: put them back, or start a new run",
                code="data-changed",
            )

    def _restored_phase(self, stored: RecoveredRun) -> str:
        self._answer, totals = stored.result(), self._sums.totals
        if self._answer is not None or (totals and self._work.vector(totals) is None):
            return AGREEING
        if (masked := self._epoch.masked) is not None:
            # The charge may have been cut off; a second one for an epoch is free.
            self._out.append(Emission(self.epoch, self.members, masked.numbers))
            return ITERATING if self._iteration.planned else SUMMING
        ready = ("Ready", self.epoch, self.me) in self._book
        return COMMITTING if ready else GREETING

    def _pick_up(self) -> None:
        """Do again what a crash may have cut off, now that nobody knows more."""
        own = (one for one in self._book.all(Lost) if one.party == self.me)
        lost = set(self.lost).union(*(one.lost for one in own))
        if lost != set(self.lost):
            self._lose(lost, self.me)
        elif self.phase in {SUMMING, ITERATING}:
            self._enter(self._emit())
        elif self.phase == AGREEING:
            if self._answer is None:
                self._answer = self._work.answer(self._sums.totals, self.members)
            self._enter(self._propose())

    # The table

    table: ClassVar[Mapping[str, PhaseTransition[Machine]]] = {
        one.source: one
        for one in (
            PhaseTransition(
                GREETING,
                "everybody's Join under this plan, and an echo from every neighbour",
                lacks=_not_greeted,
                action=_draw_shares,
                targets=(SHARING,),
            ),
            PhaseTransition(
                SHARING,
                "a share from every neighbour",
                lacks=lambda self: self._neighbours_not_in(self._epoch.got),
                meanwhile=_compare_course,
                action=_declare_ready,
                targets=(COMMITTING,),
            ),
            PhaseTransition(
                COMMITTING,
                "everybody's signed Ready, and every neighbour's confirmation of both "
                "shares",
                lacks=_uncommitted,
                meanwhile=_compare_requests,
                guard=_may_commit,
                action=_commit,
                targets=(SUMMING, ITERATING),
            ),
            PhaseTransition(
                SUMMING,
                "everybody's masked vector, or the total along the tree",
                lacks=lambda self: self._others_not_in(
                    self._book.of(Masked, self.epoch)
                ),
                meanwhile=_pass_up,
                guard=_sum_complete,
                action=_take_sum,
                targets=(SHARING, AGREEING),
            ),
            PhaseTransition(
                ITERATING,
                "the last round, or everybody's masked vector if somebody vanished",
                lacks=lambda self: self._neighbours_not_in(self._iteration.heard()),
                meanwhile=_advance,
                guard=_rounds_complete,
                action=_take_answer,
                targets=(AGREEING,),
            ),
            PhaseTransition(
                AGREEING,
                "everybody's signature under the answer",
                lacks=lambda self: self._others_not_in(self._book.of(Agreed, 0)),
                meanwhile=_compare_or_leave,
                guard=lambda self: self._book.all_agreed(self.members),
                action=_finish,
                targets=(FINISHED,),
            ),
        )
    }

    # What goes to everybody is heard even after the end: somebody may still need it.
    _always: ClassVar[Handlers[Machine]] = {
        Status: _on_status,
        **dict.fromkeys((Agreed, Join, Lost, Masked, Quit, Ready, Result), _on_record),
    }
    _until_the_end: ClassVar[Handlers[Machine]] = {
        **_always,
        Confirm: _on_confirm,
        Deposit: _on_deposit,
        Down: _on_tree,
        Round: _on_round,
        Share: _on_share,
        Up: _on_tree,
    }
    hears: ClassVar[Mapping[str, Handlers[Machine]]] = {
        **dict.fromkeys(table, _until_the_end),
        **dict.fromkeys(CLOSED, _always),
    }
