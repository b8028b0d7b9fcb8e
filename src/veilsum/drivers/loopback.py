"""Real machines on a network in memory, with a clock that jumps to the next event.

`Loopback` is the driver; a `LoopbackWorld` is one run of it, which tests may also look
into.

Everything is drawn from one seed, so a run that went wrong can be run again. Frames are
delayed, lost, doubled and overtaken as the script of faults says; a crash strikes
between two effects of a party, and what it had written by then is all it comes back to.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from veilsum.drivers.driver import (
    Charging,
    DriverAssignment,
    DriverOutput,
    DriverRandomness,
    DriverView,
    GivenUpError,
    Sums,
    largest_sum_of_driver,
    rounds_of_a_sum,
)
from veilsum.drivers.faults import Crash, Faults
from veilsum.drivers.tap import MachineTap
from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    PeerProtocolError,
    UntimelyError,
    install_advice,
)
from veilsum.masks.masking import MaskShares, MaskStreams
from veilsum.numbers.secrets import Secret
from veilsum.privacy.transcript import Transcript
from veilsum.protocol.book import ProtocolKeys
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
from veilsum.protocol.machine import Machine
from veilsum.protocol.messages import Share
from veilsum.protocol.phases import CLOSED
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.recovery import RecoveredRun
from veilsum.protocol.work import ProtocolWork, RoundsEnding

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

# A run that is still going after this many seconds of its own clock never ends.
LONGEST = 10_000.0

# Frames between two reports of progress.
REPORT_EVERY = 4096

# Two times closer than this are the same.
TICK = 1e-6

# What of a party's disk a run is told by, and what else a simulation looks at.
TOLD, SEEN = ("answer/", "rounds"), ("sent/", "result")

MakeMachine = Callable[..., Machine]

# When by the party's own clock, and what.
Alarm: TypeAlias = tuple[float, str]


@dataclass(frozen=True, kw_only=True)
class Loopback(DriverRandomness):
    """Simulates every party by the machine that would run on its own computer.

    Attributes:
        faults: what goes wrong on the way; everything that happens is recorded then.
    """

    faults: Faults | None = None
    party: None = field(default=None, init=False)

    def world(self, assignment: DriverAssignment) -> LoopbackWorld:
        """Return the world in which the parties meet, before anything happens."""
        plan = assignment.plan
        if plan.topology.directed:
            raise InvalidInputError(
                "a run needs links that carry both ways", code="directed-graph"
            )
        watched = self.watched or assignment.watched
        taps = {name: MachineTap(plan, name) for name in plan.parties if watched}
        works = assignment.works
        return LoopbackWorld(
            plan,
            {name: taps[name].on(works[name]) for name in taps} or works,
            self.streams(plan.law),
            faults=self.faults or Faults(),
            seed=self.seed or 0,
            record=self.faults is not None,
            watch=(*TOLD, *SEEN) if watched else TOLD,
            taps=taps,
            progress=assignment.progress,
            charge=assignment.charge,
        )

    def carry_out(self, assignment: DriverAssignment) -> DriverOutput:
        """Let the machines exchange real frames until everybody is done."""
        world = self.world(assignment).run()
        # What each party found is to be seen: nobody may be missing then.
        least = len(world.taps) or 1
        if len(world.finished) < least:
            reasons = {name: (a.reason, a.detail) for name, a in world.aborted.items()}
            codes = (abort.code for abort in world.aborted.values())
            code = next(filter(None, codes), "given-up")
            raise GivenUpError(reasons, world.sums, code=code)
        finish = next(iter(world.finished.values()))
        seen = _view_of_loopback_world(world) if world.taps else None
        ending = _loopback_rounds_ending(world)
        return DriverOutput(
            sums=world.sums,
            answer=finish.result if seen is None else seen.estimates[-1].mean(axis=0),
            members=finish.parties,
            rounds=len(world.sums) * rounds_of_a_sum(world.plan)
            if ending is None
            else ending.rounds,
            bytes=world.bytes,
            sum_of_masks=None
            if seen is None
            else largest_sum_of_driver(seen.shares.masks(), world.plan.law),
            seen=seen,
        )


def _loopback_rounds_ending(world: LoopbackWorld) -> RoundsEnding | None:
    """Return how far an iterative method has come; None if there was none."""
    first = world.plan.parties[0]
    written = world.written.get((first, "rounds"))
    rounds = world.works[first].rounds
    if written is None or rounds is None:
        return None
    return rounds.ending(written, world.plan.topology)


def _view_of_loopback_world(world: LoopbackWorld) -> DriverView:
    """Return what the parties wrote down for themselves, put together."""
    plan = world.plan
    topology, law, codec = plan.topology, plan.law, plan.codec
    values = np.empty((topology.n_edges, 2, plan.size), dtype=law.dtype)
    for row, (i, j) in zip(values, topology.edges.tolist(), strict=True):
        for arc, (sender, receiver) in enumerate(((i, j), (j, i))):
            key = f"sent/0/{topology.parties[receiver]}"
            share = codec.decode(world.written[topology.parties[sender], key])
            assert isinstance(share, Share)
            row[arc] = share.numbers
    found = [np.frombuffer(world.written[name, "result"]) for name in plan.parties]
    ending = _loopback_rounds_ending(world)
    return DriverView(
        shares=MaskShares(topology, values),
        transcript=partial(_loopback_transcript, world),
        times=np.array([ending.iterations if ending else 0]),
        estimates=np.stack(found)[None],
        stopped=ending and ending.stopped,
    )


def _loopback_transcript(
    world: LoopbackWorld, corrupted: Iterable[Hashable]
) -> Transcript:
    """Return what the machines of a coalition sent, received and kept."""
    names = world.plan.topology.indices(corrupted)
    return Transcript.together(
        world.taps[name].transcript() for name in world.plan.topology.names(names)
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoopbackEvent(Secret):
    """One thing that happened: an effect carried out, a frame taken, a crash."""

    time: float
    party: str
    what: str
    detail: Any = None
    peer: str | None = None


@dataclass(eq=False, repr=False)
class LoopbackNode(Secret):
    """A party's computer: what runs on it, its disk and its clock."""

    name: str
    machine: Machine | None = None
    disk: dict[str, bytes] = field(default_factory=dict)
    writes: list[Persist] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    effects: int = 0
    start: int = 0
    ahead: float = 0.0
    alarms: set[Alarm] = field(default_factory=set)
    remembers: bool = True

    def forget(self, count: int) -> None:
        """Lose the last writes, as a disk from yesterday's backup would."""
        if count == 0:
            return
        kept = self.writes[: max(0, len(self.writes) - count)]
        self.disk, self.writes = {}, []
        for write in kept:
            self.write(write)

    def write(self, write: Persist) -> None:
        if self.remembers:
            self.writes.append(write)
        if write.value is None:
            self.disk.pop(write.key, None)
        else:
            self.disk[write.key] = write.value


@dataclass(eq=False, repr=False)
class LoopbackWorld(Secret):
    """All parties of a run, and everything on its way between them.

    Attributes:
        seed: repeats delays, losses, keys and identities.
        charge: told before a party first shows masked numbers; raises to forbid it.
        watch: writes under these keys are kept in `written`, recorded or not.
        taps: on the parties' machines, by name, where somebody wants their transcripts.
    """

    plan: ProtocolPlan
    works: Mapping[str, ProtocolWork]
    streams: MaskStreams
    faults: Faults = field(default_factory=Faults)
    seed: int = 0
    record: bool = True
    make: MakeMachine = Machine
    watch: tuple[str, ...] = ()
    taps: Mapping[str, MachineTap] = field(default_factory=dict)
    progress: Callable[[int], None] | None = None
    charge: Charging | None = None
    written: dict[tuple[str, str], bytes] = field(default_factory=dict)
    time: float = 0.0
    frames: int = 0
    bytes: int = 0
    history: list[LoopbackEvent] = field(default_factory=list)
    finished: dict[str, Finish] = field(default_factory=dict)
    aborted: dict[str, Abort] = field(default_factory=dict)
    complaints: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)  # noqa: S311 - delays and losses
        self._keys = loopback_identities(self.plan.parties, self.seed)
        # Old writes matter only where some crash sets a disk back.
        stale = any(crash.stale for crash in self.faults.crashes)
        self.nodes = {
            name: LoopbackNode(name, remembers=stale) for name in self.plan.parties
        }
        self._crashes = list(self.faults.crashes)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def run(self) -> LoopbackWorld:
        """Run to the end: everybody has finished, given up, or is gone."""
        for name in self.nodes:
            self._at(0.0, partial(self._boot, name))
        for jump in self.faults.jumps:
            self._at(jump.at, partial(self._jump, jump.party, jump.seconds))
        while self._queue and not self._over():
            self.time, count, action = heapq.heappop(self._queue)
            action()
            if self.progress is not None and count % REPORT_EVERY == 0:
                self.progress(self._round() or len(self.sums))
        if self.progress is not None:
            self.progress(self._round() or len(self.sums))
        return self

    @property
    def sums(self) -> Sums:
        """The sums of all rounds, as the party that came farthest wrote them."""
        kept = {name: dict[str, bytes]() for name in self.plan.parties}
        for (who, key), frame in self.written.items():
            if key.startswith("answer/"):
                kept[who][key] = frame
        return RecoveredRun(self.plan, max(kept.values(), key=len)).sums()

    def _round(self) -> int:
        running = [node.machine for node in self.nodes.values() if node.machine]
        return min((machine.round for machine in running), default=0)

    def _over(self) -> bool:
        if self.time > LONGEST:
            return True
        many_ended = len(self.finished) + len(self.aborted) >= len(self.nodes)
        return many_ended and self._idle()

    def _idle(self) -> bool:
        """Return whether no machine may still have to answer a returning party."""
        return all(
            node.machine is not None and node.machine.phase in CLOSED
            for node in self.nodes.values()
        )

    def _at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (time, self._count, action))

    def _note(self, party: str, what: str, detail: Any, peer: str | None) -> None:
        if self.record:
            self.history.append(LoopbackEvent(self.time, party, what, detail, peer))
        if party in self.taps:
            self.taps[party].note(what, detail, peer)

    # Computers

    def _boot(self, name: str) -> None:
        node = self.nodes[name]
        node.start += 1
        keys: ProtocolKeys = self._keys(name, node.start)
        node.machine = self.make(
            self.plan, name, keys=keys, streams=self.streams, work=self.works[name]
        )
        self._note(name, "boot", node.start, None)
        self._carry_out(node, node.machine.resume(dict(node.disk)))

    def _jump(self, name: str, seconds: float) -> None:
        node = self.nodes[name]
        node.ahead += seconds
        self._note(name, "clock", seconds, None)
        for alarm in sorted(node.alarms):
            self._at(self.time, partial(self._ring, node, alarm))

    def _carry_out(self, node: LoopbackNode, effects: list[Effect]) -> None:
        for effect in effects:
            if self.record or self.taps:
                self._note_effect(node.name, effect)
            if isinstance(effect, Send):
                self._transmit(node.name, effect)
            else:
                self._do(node, effect)
            node.effects += 1
            if self._crashes and self._strikes(node):
                return

    def _strikes(self, node: LoopbackNode) -> bool:
        for crash in self._crashes:
            if crash.party == node.name and node.effects >= crash.after:
                self._crashes.remove(crash)
                self._crash(node, crash)
                return True
        return False

    def _crash(self, node: LoopbackNode, crash: Crash) -> None:
        node.machine = None
        node.alarms.clear()
        node.forget(crash.stale)
        self._note(node.name, "crash", crash, None)
        if crash.back is not None:
            self._at(self.time + crash.back, lambda: self._boot(node.name))

    def _do(self, node: LoopbackNode, effect: Effect) -> None:
        match effect:
            case Persist():
                self._write(node, effect)
            case SetTimer():
                self._set_timer(node, effect)
            case Emission() if effect.epoch not in node.charged:
                if self.charge is not None:
                    sums = self.sums[: effect.epoch // self.plan.epochs_per_sum]
                    self.charge(node.name, effect, sums)
                node.charged.append(effect.epoch)
            case Finish():
                self.finished[node.name] = effect
            case Accuse():
                self.complaints[effect.party] += 1
            case Abort():
                self.aborted[node.name] = effect

    def _note_effect(self, name: str, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._note(name, "send", effect.frame, effect.to)
        else:
            charged = isinstance(effect, Emission)
            what = "charge" if charged else type(effect).__name__.lower()
            self._note(name, what, effect, None)

    def _write(self, node: LoopbackNode, write: Persist) -> None:
        node.write(write)
        if write.value is not None and write.key.startswith(self.watch or "\0"):
            self.written[node.name, write.key] = write.value

    # The network

    def _transmit(self, sender: str, send: Send) -> None:
        faults = self.faults
        if faults.loss and self._happens(faults.loss):
            return
        low, high = faults.delay
        copies = 1 + self._happens(faults.duplicate) if faults.duplicate else 1
        for _ in range(copies):
            wait = low if low == high else self._chance.uniform(low, high)
            self._at(self.time + wait, partial(self._arrive, sender, send))

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._chance.random() < chance

    def _arrive(self, sender: str, send: Send) -> None:
        node = self.nodes[send.to]
        if node.machine is None or (
            self.faults.partitions and self._cut(sender, send.to)
        ):
            return
        self.frames += 1
        self.bytes += len(send.frame)
        if self.record or self.taps:
            self._note(send.to, "receive", send.frame, sender)
        try:
            effects = node.machine.receive(sender, send.frame)
        except PeerProtocolError as error:
            self._note(send.to, "refuse", str(error), sender)
            if not isinstance(error, UntimelyError):
                self.complaints[error.party] += 1
            return
        self._carry_out(node, effects)

    def _cut(self, one: str, other: str) -> bool:
        return any(
            cut.start <= self.time < cut.end
            and (one in cut.side) != (other in cut.side)
            for cut in self.faults.partitions
        )

    def _set_timer(self, node: LoopbackNode, timer: SetTimer) -> None:
        alarm = (self.time + node.ahead + timer.seconds, timer.name)
        node.alarms.add(alarm)
        self._at(self.time + timer.seconds, partial(self._ring, node, alarm))

    def _ring(self, node: LoopbackNode, alarm: Alarm) -> None:
        """Run a timer once, when the party's own clock says so."""
        due, name = alarm
        if node.machine is None or alarm not in node.alarms:
            return
        left = due - node.ahead - self.time
        if left > TICK:
            self._at(self.time + left, partial(self._ring, node, alarm))
            return
        node.alarms.remove(alarm)
        self._carry_out(node, node.machine.expire(name))


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedKeys(Secret):
    """One party's key, everybody's public keys, and a repeatable source of secrets.

    The keys are real Ed25519 keys, made from a seed so that runs repeat. All parties of
    a run share `verified`, the signatures that any of them found to be good: author,
    SHA-256 of the content, and signature. The same bytes are checked once a process;
    bytes that differ in anything, and signatures that failed, are checked again.
    """

    own: Ed25519PrivateKey
    public: dict[str, Ed25519PublicKey]
    chance: Random
    invalid: type[Exception]
    verified: set[tuple[str, bytes, bytes]]

    def sign(self, content: bytes) -> bytes:
        return self.own.sign(content)

    def verify(self, party: str, content: bytes, signature: bytes) -> bool:
        exactly = party, hashlib.sha256(content).digest(), signature
        if exactly in self.verified:
            return True
        try:
            self.public[party].verify(signature, content)
        except self.invalid:
            return False
        self.verified.add(exactly)
        return True

    def random(self, count: int) -> bytes:
        return self.chance.randbytes(count)


def loopback_identities(
    parties: Sequence[str], seed: int
) -> Callable[[str, int], SimulatedKeys]:
    """Return what makes a party's keys for its n-th start."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtraError(
            "the loopback driver signs its records and needs the package "
            f"cryptography: {install_advice('secure')}",
            code="missing-extra",
        ) from None
    make = ed25519.Ed25519PrivateKey.from_private_bytes
    private = {
        name: make(Random(f"identity {seed} {name}").randbytes(32))  # noqa: S311 - same
        for name in parties
    }
    public = {name: key.public_key() for name, key in private.items()}
    verified: set[tuple[str, bytes, bytes]] = set()

    def keys(name: str, start: int) -> SimulatedKeys:
        return SimulatedKeys(
            private[name],
            public,
            Random(f"start {seed} {name} {start}"),  # noqa: S311 - runs repeat
            InvalidSignature,
            verified,
        )

    return keys
