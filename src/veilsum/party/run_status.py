"""Events of a party's run, and a small file with its status.

An event states the progress of a run and the parties it waits for. Every member knows
all of it anyway, or it is about this computer: no value of a table, a cost, a share or
a sum.

A run's own file is locked while it runs, and full of secrets. The status file next to
it holds nothing that the other members do not know, is rewritten at each event, and can
be read at any time by anybody with permission. While a party waits it is rewritten at
intervals, to distinguish a waiting process from a killed one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from veilsum.errors import InvalidInputError, InvalidScenarioError
from veilsum.files.output import write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.protocol.losing import withheld_words
from veilsum.protocol.machine import Machine
from veilsum.protocol.phases import ABORTED, GREETING
from veilsum.protocol.plan import ProtocolPolicy

LOG = logging.getLogger("veilsum.net")

# What a person is told of a phase.
STAGES = {
    "greeting": "meeting the others",
    "sharing": "exchanging shares with neighbours",
    "committing": "waiting for everybody's signed commit, and for neighbours to "
    "confirm their shares",
    "summing": "committed; exchanging masked numbers",
    "iterating": "committed; iterating on masked costs",
    "agreeing": "comparing and signing the answer",
    "finished": "agreed by everybody; waiting until the neighbours have it too",
    "aborted": "given up",
}

What: TypeAlias = Literal[
    "agreed",
    "met",
    "phase",
    "round",
    "waiting",
    "resent",
    "withheld",
    "lost",
    "evidence",
    "transcript",
    "stopped",
    "done",
]


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """Something that happened to a party in a run.

    Attributes:
        what: `agreed`: its owner has agreed, and nothing was sent yet; `met`: a link
            with a neighbour is there; `phase`: the party is in another phase; `round`:
            a sum, or a round of an iterative method, is done; `waiting`: it waits for
            others than before; `resent`: it has waited for a while, and asks again;
            `withheld`: some of these signed Ready and have not shown their masked
            vectors, which a crash or a slow connection explains as well as intent;
            `lost`: the others go on without some; `evidence`, `transcript`: a file was
            written; `stopped`: before the end, by its owner or because this computer
            could not go on; `done`: the run is over for this party.
        run: the run's name.
        party: whose event it is.
        phase: of the protocol; "" before it has begun.
        epoch: which one; it counts sums, and losses of parties.
        round: how many rounds of an iterative method are done.
        names: whom it is about: who was met, is waited for, withholds a masked vector,
            was lost, contradicted itself; of `stopped`, whose letters have to be
            carried first.
        file: what was written.
        question: the name of the question, if the run is one of a study.
        reason: in one word, why a run ended without an answer; `was over` if it had
            ended before; `cut` of a transcript that grew too long.
        sent: bytes that this party has sent in the run, as its result counts them.
        links: how things are with each neighbour, in a clause, as far as is known.
    """

    what: What
    run: str
    party: str
    phase: str = ""
    epoch: int = 0
    round: int = 0
    names: tuple[str, ...] = ()
    file: str = ""
    question: str = ""
    reason: str = ""
    sent: int = 0
    links: Mapping[str, str] = field(default_factory=dict)


Listener: TypeAlias = Callable[[RunEvent], None]


class EventFeed:
    """Reports events to listeners; one that fails does no harm to the run.

    Attributes:
        last: where the party was when the last event happened.
        begun: whether anything was told yet.
    """

    def __init__(self, run: str, party: str, *listeners: Listener) -> None:
        self._listeners = listeners
        self._waiting: tuple[str, ...] = ()
        self._withheld: tuple[str, ...] = ()
        self._rang = False
        self._lost: tuple[str, ...] = ()
        self._failed: set[tuple[int, str]] = set()
        self._sent, self._links = 0, dict[str, str]()
        self.begun = False
        self.last = RunEvent(what="phase", run=run, party=party)

    def tell(self, what: What, **about: Any) -> None:
        """Tell of something that has happened where the party is."""
        self.begun = True
        known = {"sent": self._sent, "links": self._links}
        event = replace(self.last, what=what, **{**known, **about})
        for place, listener in enumerate(self._listeners):
            try:
                listener(event)
            except Exception as error:
                kind = type(error).__name__  # its words may hold anything
                if (place, kind) not in self._failed:
                    self._failed.add((place, kind))
                    LOG.warning("a listener to events failed", extra={"error": kind})

    def watch(self, machine: Machine) -> None:
        was, now = self.last, (machine.phase, machine.epoch, machine.round)
        if now != (was.phase, was.epoch, was.round):
            self.last = replace(was, phase=now[0], epoch=now[1], round=now[2])
        if machine.lost != self._lost:
            self._lost = machine.lost
            self.tell("lost", names=machine.lost)
        if now[0] != was.phase:
            self.tell("phase")
        if now[1:] != (was.epoch, was.round):
            self.tell("round")
        if (waiting := machine.waiting_for) != self._waiting:
            self._waiting = waiting
            self.tell("waiting", names=self._waiting)
        self._watch_withheld(machine.withheld)

    def _watch_withheld(self, names: tuple[str, ...]) -> None:
        """Tell who still withholds a masked vector when others were asked again.

        At once after the commit it is everybody.
        """
        told = tuple(name for name in self._withheld if name in names)
        self._withheld = names if self._rang else told
        if self._withheld and self._withheld != told:
            self.tell("withheld", names=names)
        self._rang = False

    def note(self, what: str, detail: Any, peer: str | None) -> None:
        """Take what happened around the machine, if it is news for a listener."""
        if what == "send":
            self._sent += len(detail)
        elif what == "boot":
            self._sent = detail  # by earlier starts of the same run
        elif what == "links":
            self._links = detail
        elif what == "met" and peer is not None:
            self._links = {**self._links, peer: "connected"}  # events keep the old one
            self.tell("met", names=(peer,))
        elif what == "ring" and detail == "resend":
            self._rang = True
            self.tell("resent", names=self._waiting)


ENDING = ".status"
# A thousand names at most; and so many files of a folder are looked at.
MOST_BYTES, MOST_FILES = 1 << 20, 1000
# Files have a multiple of so many bytes.
FILLED_BYTES = 1 << 13
# Seconds between two writings while nothing but rounds happens, or nothing at all.
PAUSE, STILL = 1.0, 5.0
# Of a run that goes on, the askings without a sign of life, and some seconds more.
MISSED, GRACE = 3, 10.0

PAUSES = {"round": PAUSE, "waiting": PAUSE, "met": PAUSE, "resent": STILL}

State: TypeAlias = Literal[
    "pending", "queued", "running", "stopped", "refused", "failed", "given up", "done"
]
STATES: tuple[State, ...] = get_args(State)
# What nothing more comes of by itself.
OVER: tuple[State, ...] = ("refused", "given up", "done")
# What goes on, will go on, or has its answer.
BEGUN: tuple[State, ...] = ("queued", "running", "stopped", "done")


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a party in a run.

    Attributes:
        run: the run's name.
        consortium: the digest of its consortium file.
        state: `pending`: a person has to agree first; `queued`: waiting until another
            run frees the address; `running`; `stopped`: by its owner, or because this
            computer could not go on; `refused`: by this party's checks, before anything
            was sent; `failed`: an error on this computer, given in `reason`;
            `given up`: the parties got no answer; `done`.
        file: the consortium file, if a folder is watched for such files.
        epoch: counter of sums and of losses of parties.
        round: round of an iterative method.
        waiting: parties that this party waits for; after a stop, those whose letters
            it waits for.
        withheld: those of them that signed Ready but have not shown their masked
            vector: a state, not a verdict, since a crash or a slow connection looks the
            same.
        moved: time of the party's last progress, UTC, in ISO 8601.
        seen: time of the last sign of life of its process.
        deadline: seconds without progress until the party takes action.
        resend: seconds between two requests for missing messages.
        reason: cause of an end without an answer, or of waiting for a person; for the
            owner only.
        page: digest of the page that a person has to agree to.
        sent: bytes that the party has sent.
        links: state of the link with each neighbour, in a clause, as far as known.
        out: the folder for the result and the receipt, if there is one.
    """

    run: str
    party: str
    consortium: str
    state: State
    file: str = ""
    phase: str = ""
    epoch: int = 0
    round: int = 0
    waiting: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    moved: str = ""
    seen: str = ""
    deadline: float = 0.0
    resend: float = 0.0
    reason: str = ""
    page: str = ""
    sent: int = 0
    links: dict[str, str] = {}
    out: str = ""

    def is_silent(self, now: float) -> bool:
        """Say whether a run that goes on has given no sign of life for too long."""
        longest = MISSED * self.resend + GRACE
        return self.state == "running" and now - run_status_seconds(self.seen) > longest


def run_status_file(identity_file: Path, party: str, run: str) -> Path:
    """Return where the status of a run is kept whose own file is beside the key."""
    return identity_file.parent / f"{party}-{run[-8:]}{ENDING}"


def run_status_time(seconds: float) -> str:
    """Return a time as files have it.

    >>> run_status_time(0.0)
    '1970-01-01T00:00:00+00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def run_status_seconds(stamped: str) -> float:
    """Return the time that a file has; the beginning of time for what is none."""
    try:
        return datetime.fromisoformat(stamped).timestamp()
    except ValueError:
        return 0.0


def write_run_status(path: Path, status: RunStatus) -> None:
    """Write a status, whole or not at all, for its owner to read.

    Others see how long a file is that they may not read, and a reason is its owner's:
    lengths are filled up.
    """
    content = msgspec.json.format(msgspec.json.encode(status), indent=2) + b"\n"
    filled = content + b"\n" * (-len(content) % FILLED_BYTES)
    write_files(path.parent, {path.name: filled}, private=True)


def read_run_status(path: Path) -> RunStatus:
    """Return the status in a file.

    Raises:
        InvalidInputError: it is none.
    """
    content = read_file_contents(path, MOST_BYTES, InvalidScenarioError)
    try:
        return msgspec.json.decode(content, type=RunStatus)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInputError(
            f"{path} is not the status of a run: remove it; the run's own file is "
            "another one",
            code="not-a-status",
        ) from None


def run_status_files(folder: Path) -> list[Path]:
    """Return the files in a folder and right below it that are called like these."""
    found = [*folder.glob(f"*{ENDING}"), *folder.glob(f"*/*{ENDING}")]
    return sorted(found)[:MOST_FILES]


def run_statuses_in(folder: Path) -> Iterator[RunStatus]:
    """Yield the statuses in a folder and those right below it, by name of the file.

    What is none is left out: nobody depends on it.
    """
    for path in run_status_files(folder):
        try:
            yield read_run_status(path)
        except InvalidInputError:
            continue


def run_status_advice(one: RunStatus, now: float) -> str:
    """Say what there is to do, or to know, about a run; nothing is empty."""
    if one.is_silent(now):
        return (
            f"no sign of life since {one.seen}; if its process is gone, the same "
            "command goes on where it was"
        )
    if one.state == "pending":
        return (
            f"waits for a person, since {one.reason}; veilsum serve FOLDER --agree "
            f"{quote(one.file)} shows its page and asks, --refuse says no"
        )
    if one.state == "failed":
        return f"{one.reason}; once that is mended, start veilsum serve again"
    if one.state == "stopped" and one.waiting:
        return (
            f"waits for letters from {', '.join(one.waiting)}; once they are in the "
            "folder, run the same command again"
        )
    if one.state == "running" and one.waiting:
        waited = max(0.0, now - run_status_seconds(one.moved))
        withheld = f"; {withheld_words(one.withheld)}" if one.withheld else ""
        return (
            f"has waited for {waited:.0f} of {one.deadline:.0f} seconds, after which "
            f"something is done about it{withheld}"
        )
    return one.reason


class StatusFile:
    """Listens to a run's events, and keeps its status on disk.

    Args:
        path: of the file.
        status: how the run begins; the consortium file's path stays as the file has
            it, where this status has none.
        policy: of the consortium.
        clock: the time.
    """

    def __init__(
        self,
        path: Path,
        status: RunStatus,
        policy: ProtocolPolicy,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._policy = path, policy
        self._clock, self._written = clock, 0.0
        file = status.file
        if not file:
            with suppress(InvalidInputError):
                file = read_run_status(path).file
        self._now = msgspec.structs.replace(status, file=file, resend=policy.resend)

    def __call__(self, event: RunEvent) -> None:
        """Take an event; write what has changed, rounds now and then only."""
        now = self._clock()
        self._take(event, run_status_time(now))
        if now - self._written < PAUSES.get(event.what, 0.0):
            return
        self._written = now
        write_run_status(self._path, self._now)

    def _take(self, event: RunEvent, now: str) -> None:
        status = self._now
        waiting = event.names if event.what == "stopped" else status.waiting
        waiting = () if event.what == "done" else waiting
        moved = event.what in ("phase", "round", "agreed", "done")
        withheld = () if moved else status.withheld
        if event.what == "waiting":
            withheld = tuple(name for name in withheld if name in event.names)
        meets = event.phase == GREETING and event.epoch == 0
        self._now = msgspec.structs.replace(
            status,
            state=_state_of_party_run(event),
            phase=event.phase,
            epoch=event.epoch,
            round=event.round,
            waiting=event.names if event.what == "waiting" else waiting,
            withheld=event.names if event.what == "withheld" else withheld,
            lost=event.names if event.what == "lost" else status.lost,
            moved=now if moved else status.moved,
            seen=now,
            deadline=max(self._policy.meeting if meets else 0.0, self._policy.deadline),
            reason=event.reason,
            sent=event.sent,
            links=dict(event.links),
        )


def _state_of_party_run(event: RunEvent) -> State:
    if event.what == "stopped":
        return "stopped"
    if event.what != "done":
        return "running"
    return "given up" if event.phase == ABORTED else "done"
