"""What happens to a party during a run, for whoever watches: events without numbers.

An event says how far a run is and whom it waits for. All of it is known to every member
anyway, or is about this computer: no value of a table, a cost, a share or a sum.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from veilsum.protocol.machine import Machine

LOG = logging.getLogger("veilsum.net")

# What a person is told of a phase.
STAGES = {
    "greeting": "meeting the others",
    "sharing": "exchanging shares with neighbours",
    "confirming": "both ends of every link confirm their shares",
    "committing": "waiting for everybody's signed commit",
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


class Telling:
    """Tells listeners what happens; one that fails does no harm to the run.

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
        """Look at a machine that has moved."""
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
