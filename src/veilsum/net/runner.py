"""One party in one run: the machine's effects carried out on a disk and a network.

Everything happens in one event loop, in the order in which the machine asks for it:
what it wants written is on disk before what depends on it is sent. A process that is
killed at any instant is started again with the same command and goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from veilsum.errors import (
    InvalidInputError,
    PeerProtocolError,
    UntimelyError,
    VeilsumError,
)
from veilsum.net.store import AGREED
from veilsum.numbers.arrays import Array
from veilsum.numbers.secrets import Secret
from veilsum.protocol.effects import (
    Abort,
    Accuse,
    Effect,
    Emission,
    Finish,
    Persist,
    Send,
    SetTimer,
)
from veilsum.protocol.evidence import Contradiction
from veilsum.protocol.phases import ABORTED, FINISHED, GREETING
from veilsum.protocol.recovery import RecoveredRun

if TYPE_CHECKING:
    from veilsum.net.store import NetworkRunStore
    from veilsum.protocol.machine import Machine
    from veilsum.protocol.plan import ProtocolPlan

LOG = logging.getLogger("veilsum.net")

# What stays on disk when a run is over: what was agreed on and released, and how it
# ended.
KEPT = (
    *(AGREED, "finished", "aborted", "answer/", "commit/", "charged/", "closed"),
    *("evidence/", "lost", "drop/out/"),
)
# The key of a party that went away because somebody did not come, and may come back.
TRIED = "tried"
# The key under which the bytes sent are counted, as of the last writing.
SENT = "bytes"
STATE_GONE = (
    "the file with this run's state was deleted or exchanged; do not end this process: "
    "it goes on, and without that file it could not be started again"
)
# Seconds for the last frames of a party that gives up.
LAST_WORDS = 5.0
# Complaints about one neighbour that are logged; more are counted.
MOST_COMPLAINTS = 20

# Messages of one neighbour that change nothing: at once, for each party more, and in a
# second. In a run most records come once by every link, and so in vain by all but one.
MOST_IN_VAIN, VAIN_PER_PARTY, VAIN_PER_SECOND = 2000, 50, 500.0

Charging = Callable[[Emission, Sequence[Array[Any]]], None]
Recording = Callable[[str, Any, str | None], None]


@runtime_checkable
class NeighbourLinks(Protocol):
    """The ways to all neighbours: connections, or files that are carried.

    Made with `hear`, `met` and `left`, which it calls in the event loop.
    """

    async def open(self) -> None:
        """Begin; frames that were sent before may be lost."""
        ...

    def send(self, to: str, frame: bytes) -> None:
        """Send a frame to a neighbour; it may be lost."""
        ...

    async def until(self, ended: asyncio.Future[None]) -> None:
        """Carry frames until the run is over for this party; raise what it raises."""
        ...

    def condition(self, name: str) -> str:
        """Say in one clause how things are with a neighbour."""
        ...

    def say_bye(self) -> None:
        """Tell every neighbour that this party has finished."""
        ...

    async def drain(self, seconds: float) -> None:
        """Wait, at most so long, until what was sent is on its way."""
        ...

    async def close(self) -> None:
        """Leave nothing open."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class RunnerEnding:
    """End of a run for this party: an answer, or the reason for having none.

    Attributes:
        sums: the released sums, one vector each.
        charged: epochs charged to the ledger; masked vectors can have been sent in
            these only.
        lost: parties lost during the run.
        evidence: contradictions of other parties.
        notes: start and end (UTC), the rounds of an iterative method, and the bytes
            that this party sent, except those between the last write and a kill;
            empty before the end.
        conditions: state of the link with each neighbour at the end, in words.
    """

    finish: Finish | None
    abort: Abort | None
    sums: tuple[Array[Any], ...]
    epochs: tuple[int, ...]
    charged: tuple[int, ...]
    lost: tuple[str, ...]
    evidence: tuple[Contradiction, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkRunner(Secret):
    """Drives a machine.

    Attributes:
        machine: not started yet.
        store: the run's file.
        network: made here, from what the runner does with frames.
        charge: charges the ledger durably; raises to forbid.
        watch: told whenever the machine has moved.
        record: told of everything that happens, in order: a tap, or a test.
    """

    machine: Machine
    store: NetworkRunStore
    network: Callable[..., NeighbourLinks]
    charge: Charging | None = None
    watch: Callable[[Machine], None] | None = None
    record: Recording | None = None
    _sent: int = 0
    _timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    _passed: set[str] = field(default_factory=set)
    _complaints: dict[str, int] = field(default_factory=dict)
    _told_gone: bool = False
    _away: Abort | None = None
    _floodings: dict[str, tuple[float, float]] = field(default_factory=dict)

    async def run(self) -> RunnerEnding:
        """Take part until the run is over for this party.

        Raises:
            InvalidInputError: this party's data cannot be used in this run; nothing was
                sent or written, so that the right ones can.
            StoreError: the disk failed; nothing was sent that is not on it.
        """
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._parted = asyncio.Event()
        self._net = self.network(
            hear=self._hear,
            met=self._met,
            left=self._on_left,
            passed=self._on_passed,
        )
        first = self._begin(self.store.read())
        try:
            self._note("boot", self._sent)
            self._do(lambda: first)
            await self._net.open()
            await self._net.until(self._ended)
            conditions = self._conditions()
            await self._part()
        finally:
            for handle in self._timers.values():
                handle.cancel()
            await self._net.close()
        if self._away is None:
            self._close()
        else:
            self.store.write([Persist(TRIED, b"")])
        ending = run_ending_of(self.machine.plan, self.store.read())
        return replace(ending, abort=ending.abort or self._away, conditions=conditions)

    def _begin(self, stored: dict[str, bytes]) -> list[Effect]:
        """Return what the machine wants done first; refuse data that do not serve."""
        first = self.machine.resume(stored)
        for effect in first:
            if isinstance(effect, Abort) and effect.reason == "input":
                raise InvalidInputError(effect.detail, code="run-failed")
        self._left.update(
            key.removeprefix("bye/") for key in stored if key.startswith("bye/")
        )
        self._sent = int(stored.get(SENT, b"0"))
        if "opened" not in stored:
            self.store.write([Persist("opened", _network_timestamp().encode())])
        return first

    def _close(self) -> None:
        """Write down how it went, and erase everything that was secret."""
        began = self.store.read()["opened"].decode()
        notes = {
            "began": began,
            "ended": _network_timestamp(),
            "rounds": self.machine.round,
            "sent": self._sent,
        }
        self.store.write([Persist("closed", json.dumps(notes).encode())])
        self._note("closed", None)
        erase_secrets_of_run_store(self.store)

    def _conditions(self) -> dict[str, str]:
        neighbours = self.machine.plan.topology.neighbours(self.machine.me)
        return {name: self._net.condition(name) for name in neighbours}

    # What happens

    def _hear(self, sender: str, frame: bytes) -> None:
        if self.record is not None:
            self.record("receive", frame, sender)
        if self.machine.is_deaf_to(sender):
            # Ends the connection: the network is to be rid of it.
            fault = self.machine.accused.get(sender, "")
            said = f": {fault.removeprefix(f'{sender!r}: ')}" if fault else ""
            raise PeerProtocolError(
                sender,
                f"sent too much that no honest party sends{said}",
                code="sends-too-much",
            )
        before = self.machine.n_in_vain(sender)
        self._do(self.machine.receive, sender, frame)
        if self.machine.n_in_vain(sender) > before and self._floods(sender):
            raise PeerProtocolError(
                sender, "floods this party with what it has", code="sends-too-much"
            )

    def _floods(self, sender: str) -> bool:
        """Count a message in vain; say whether they come faster than anybody needs."""
        now = asyncio.get_running_loop().time()
        level, when = self._floodings.get(sender, (0.0, now))
        level = 1 + max(0.0, level - VAIN_PER_SECOND * (now - when))
        self._floodings[sender] = level, now
        return level > MOST_IN_VAIN + VAIN_PER_PARTY * len(self.machine.plan.parties)

    def _met(self, neighbour: str) -> None:
        self._note("met", None, neighbour)
        self._do(self.machine.meet, neighbour)

    def _ring(self, timer: str) -> None:
        self._timers.pop(timer, None)
        self._note("links", self._conditions())
        self._note("ring", timer)
        self._do(self.machine.expire, timer)

    def _on_left(self, neighbour: str) -> None:
        """Remember that a neighbour has all it needs and need not be waited for."""
        if neighbour not in self._left:
            self._left.add(neighbour)
            self._do(lambda: [Persist(f"bye/{neighbour}", b"")])
        self._check_parted()

    def _on_passed(self, neighbour: str) -> None:
        """Give a question up that a neighbour has behind it: it will not come back.

        Where all must be there one is enough, as long as nobody has begun; otherwise
        the others go on without it as long as one of them is there to go on with.
        """
        if self.machine.phase in (FINISHED, ABORTED):
            self._on_left(neighbour)
            return
        self._passed.add(neighbour)
        plan = self.machine.plan
        waits = self.machine.phase == GREETING and not plan.policy.drop
        if waits or self._passed >= set(plan.topology.neighbours(self.machine.me)):
            told = f"{neighbour!r} has gone on to a later question of the study"
            self._do(self.machine.stop, "peer", told)

    def _do(self, act: Callable[..., list[Effect]], *given: Any) -> None:
        """Let the machine act, and carry out what it asks for.

        Should it fail itself, or this computer at what it asks for, the run stops.
        """
        if self._broken():
            return
        try:
            effects = act(*given)
            if not effects:
                return  # most messages are one of several that are waited for
            self._carry_out(effects)
        except PeerProtocolError as error:
            self._complain(error)
        except Exception as error:
            if self._ended.done():
                raise
            self._ended.set_exception(error)
        if self.watch is not None and not self._broken():
            self.watch(self.machine)

    def _broken(self) -> bool:
        ended = self._ended
        return ended.cancelled() or (ended.done() and ended.exception() is not None)

    def _complain(self, error: PeerProtocolError) -> None:
        if isinstance(error, UntimelyError):
            self._note("refuse", str(error), error.party)
            return
        count = self._complaints[error.party] = 1 + self._complaints.get(error.party, 0)
        self._note("refuse", str(error), error.party)
        if count <= MOST_COMPLAINTS:
            LOG.info(
                "message refused", extra={"party": error.party, "reason": str(error)}
            )

    def _note(self, what: str, detail: Any, peer: str | None = None) -> None:
        if self.record is not None:
            self.record(what, detail, peer)

    # Effects

    def _carry_out(self, effects: list[Effect]) -> None:
        """Carry out effects in order; neighbouring writes are one transaction."""
        writes: list[Persist] = []
        for effect in effects:
            if isinstance(effect, Persist):
                writes.append(effect)
                continue
            if writes:
                writes = self._write(writes)
            if isinstance(effect, Send):
                if self.record is not None:
                    self.record("send", effect.frame, effect.to)
                self._sent += len(effect.frame)
                self._net.send(effect.to, effect.frame)
                continue
            if isinstance(effect, Emission) and (refusal := self._charged(effect)):
                self._carry_out(self.machine.stop("ledger", refusal))
                return
            self._carry_out_one(effect)
        if writes:
            self._write(writes)

    def _write(self, writes: list[Persist]) -> list[Persist]:
        self.store.write([*writes, Persist(SENT, b"%d" % self._sent)])
        if not self._told_gone and self.store.is_gone:
            self._told_gone = True
            LOG.warning(STATE_GONE, extra={"file": str(self.store.path)})
        for write in writes:
            self._note("persist", write)
        self._note("written", None)
        return []

    def _charged(self, charge: Emission) -> str | None:
        """Charge the ledger; return why it refuses, if it does."""
        try:
            if self.charge is not None:
                self.charge(
                    charge, RecoveredRun(self.machine.plan, self.store.read()).sums()
                )
        except VeilsumError as error:
            return str(error)
        self.store.write([Persist(f"charged/{charge.epoch}", b"")])
        self._note("charge", charge)
        return None

    def _carry_out_one(self, effect: Effect) -> None:
        if isinstance(effect, SetTimer):
            if effect.name in self._timers:
                self._timers[effect.name].cancel()
            loop = asyncio.get_running_loop()
            self._timers[effect.name] = loop.call_later(
                effect.seconds, self._ring, effect.name
            )
        elif isinstance(effect, Accuse):
            about = {"party": effect.party, "reason": effect.words}
            did = "contradicts itself" if effect.proved else "started anew"
            LOG.warning(f"a party {did}", extra=about)
        else:
            self._note(type(effect).__name__.lower(), effect)
        if isinstance(effect, Finish | Abort) and not self._ended.done():
            if isinstance(effect, Abort) and not effect.final:
                self._away = effect
            self._ended.set_result(None)

    # The end

    async def _part(self) -> None:
        """Stay as long as a neighbour may still need something of this party."""
        if self.machine.phase != FINISHED:
            await self._net.drain(LAST_WORDS)
            return
        self._net.say_bye()
        self._check_parted()
        policy = self.machine.plan.policy
        try:
            await asyncio.wait_for(self._parted.wait(), policy.deadline)
        except TimeoutError:
            LOG.info("left before all neighbours had finished")
        await self._net.drain(LAST_WORDS)

    def _check_parted(self) -> None:
        neighbours = self.machine.plan.topology.neighbours(self.machine.me)
        members = set(self.machine.members).intersection(neighbours)
        if members <= self._left:
            self._parted.set()


def erase_secrets_of_run_store(store: NetworkRunStore) -> None:
    """Erase from a closed run's file all but what was released, and how it ended."""
    store.wipe([key for key in store.read() if key.startswith(KEPT)])


def _network_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _epochs_in_run_store(stored: dict[str, bytes], kind: str) -> tuple[int, ...]:
    found = (key.removeprefix(kind) for key in stored if key.startswith(kind))
    return tuple(sorted(map(int, found)))


def run_ending_of(plan: ProtocolPlan, stored: dict[str, bytes]) -> RunnerEnding:
    read = RecoveredRun(plan, stored)
    end = read.end()
    lost = msgspec.msgpack.decode(stored["lost"]) if "lost" in stored else ()
    return RunnerEnding(
        finish=end if isinstance(end, Finish) else None,
        abort=end if isinstance(end, Abort) else None,
        sums=read.sums(),
        epochs=_epochs_in_run_store(stored, "commit/"),
        charged=_epochs_in_run_store(stored, "charged/"),
        lost=tuple(lost),
        evidence=tuple(found for found in read.evidence() if found.is_a_lie),
        notes=json.loads(stored.get("closed", b"{}")),
    )
