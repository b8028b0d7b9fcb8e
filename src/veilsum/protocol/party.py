"""A party's state, and the few ways in which it acts: send, keep, arm, give up."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import numpy as np

from veilsum.graphs.spreading import Tree
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Vector
from veilsum.numbers.masking import Streams
from veilsum.numbers.secrets import Secret
from veilsum.protocol.book import Book
from veilsum.protocol.codec import Codec
from veilsum.protocol.edges import Edges, Links, latest
from veilsum.protocol.effects import Abort, Effect, Persist, Send, SetTimer
from veilsum.protocol.keys import Keys
from veilsum.protocol.messages import (
    Join,
    Masked,
    Message,
    Numbers,
    Quit,
    Record,
    RecordId,
    Share,
    Status,
)
from veilsum.protocol.phases import ABORTED, GREETING
from veilsum.protocol.plan import Plan
from veilsum.protocol.work import Work

R = TypeVar("R", bound=Record)

NOBODY = bytes(16)
# Room in a header for the names of all records that one party may hold of another.
HEADER_BYTES, HEADER_BYTES_PER_PARTY = 1 << 20, 1 << 10


def codec_for(plan: Plan) -> Codec:
    """Return the codec whose limits a plan implies."""
    header = HEADER_BYTES + HEADER_BYTES_PER_PARTY * len(plan.parties)
    return Codec(max(plan.size, plan.answer_size, plan.round_size), header)


class Party(Secret):
    """Everything one party knows in a run. `Machine` adds what it does with it."""

    def __init__(
        self, plan: Plan, me: str, *, keys: Keys, streams: Streams, work: Work
    ) -> None:
        plan.topology.index(me)  # refuses a stranger, naming who is near
        self.plan, self.me, self.phase = plan, me, GREETING
        self._keys, self._streams, self._work = keys, streams, work
        self._codec = codec_for(plan)
        self._book = Book(plan, self._codec, keys)
        self._links = plan.topology.neighbours(me)
        self._width = len(plan.parties) + 1  # epochs that one sum may take
        self._out: list[Effect] = []
        # This start, and what is known of the neighbours' present ones.
        self._incarnation = keys.random(16)
        self._peers: dict[str, bytes] = {}
        self._echoed: set[str] = set()
        self._joined_as = self._incarnation
        self._joins: dict[str, Join] = {}
        # Records on their way to a neighbour: not to be sent again before a resend.
        self._recent: set[tuple[str, RecordId]] = set()
        self._started, self._resumed, self._picked_up = False, False, False
        # The epoch.
        self._lost: frozenset[str] = frozenset()
        self._answers: list[Vector] = []
        self._secret_key = keys.random(32)
        self._private: Numbers = np.zeros(0)
        self._edges = self._new_edges()
        self._early: dict[str, tuple[Share, bytes]] = {}
        self._past: dict[int, Masked] = {}
        self._passed_down: tuple[int, bytes] | None = None
        self._state: Any = None
        self._answer: Vector | None = None
        self._generation, self._strikes = 0, 0
        self._marker: object = None
        self._forget_emissions()

    def _forget_emissions(self) -> None:
        """Begin an epoch: nothing masked is known of it yet."""
        self._masked: Masked | None = None
        self._deposits: dict[str, Masked] = {}
        self._from_below: dict[str, Numbers] = {}
        self._from_above: Numbers | None = None
        self._heard: dict[int, dict[str, Numbers]] = {}
        self._said: dict[int, bytes] = {}
        self._went_up, self._fallback = False, False

    @property
    def epoch(self) -> int:
        """Which epoch this is: no number ever comes twice in a run."""
        return len(self._answers) * self._width + len(self._lost)

    @property
    def members(self) -> tuple[str, ...]:
        """Who is in the epoch, in the plan's order."""
        if not self._lost:
            return self.plan.parties
        return tuple(name for name in self.plan.parties if name not in self._lost)

    @property
    def round(self) -> int:
        """How many rounds of an iterative method are done."""
        return 0 if self._state is None else int(self._state.index)

    @property
    def lost(self) -> tuple[str, ...]:
        """Who has been lost, sorted."""
        return tuple(sorted(self._lost))

    @property
    def _graph(self) -> Topology:
        """The links among the members."""
        return self._edges.links.members

    @property
    def _neighbours(self) -> tuple[str, ...]:
        """The members among this party's neighbours."""
        return self._edges.links.neighbours

    @property
    def _by_tree(self) -> bool:
        return self.plan.spread == "tree" and not self._fallback

    def _tree(self) -> Tree:
        return self._edges.links.tree

    def _new_edges(self) -> Edges:
        held = getattr(self, "_edges", None)
        if held is not None and held.links.members.parties == self.members:
            return Edges(self.plan, held.links, self.epoch)
        graph = self.plan.topology
        if self._lost:
            graph = graph.induced([graph.index(name) for name in self.members])
        return Edges(self.plan, Links(graph, self.me), self.epoch)

    # Acting

    def _send(self, to: str, message: Message) -> None:
        self._out.append(Send(to, self._codec.encode(message)))

    def _send_all(self, record: Record, frame: bytes, but: Iterable[str] = ()) -> None:
        """Give a record to every neighbour, lost ones too: they should know."""
        spared, record_id = set(but), record.id
        for to in self._links:
            if to not in spared:
                self._out.append(Send(to, frame))
                self._recent.add((to, record_id))

    def _persist(self, key: str, value: bytes | None) -> None:
        self._out.append(Persist(key, value))

    def _publish(self, record: R, *, keep: bool = True) -> R:
        """Sign a record, keep it durably, then tell everybody."""
        sealed = self._book.sealed(record)
        frame = self._book.add(sealed)
        if keep:
            kind, epoch, _ = sealed.id
            self._persist(f"record/{kind}/{epoch}", frame)
        self._send_all(sealed, frame)
        return sealed

    def _ask(self, *, reply: bool = True, to: Iterable[str] | None = None) -> None:
        """Tell neighbours what is here, so that they send what is not."""
        for name in self._links if to is None else to:
            self._send(name, self._status(name, reply=reply))

    def _status(self, name: str, *, reply: bool) -> Status:
        return Status(
            self._incarnation,
            self._peers.get(name, NOBODY),
            self.epoch,
            self._book.ids(),
            latest(self._edges.got, name),
            latest(self._edges.confirmations, name),
            self._latest_heard(name),
            reply,
        )

    def _latest_heard(self, name: str) -> int:
        """Return the last round up to which a neighbour was heard, none missing.

        A neighbour may be ahead: what it said last says nothing of what came before.
        Along a tree there is only round 0.
        """
        last = -1 if self._state is None else self._state.index - 1
        while name in self._heard.get(last + 1, ()):
            last += 1
        down = self._from_above is not None and name == self._parent()
        return max(last, 0) if down or name in self._from_below else last

    def _parent(self) -> str | None:
        if self.plan.spread != "tree":
            return None
        tree, i = self._tree(), self._graph.index(self.me)
        return None if tree.root == i else self._graph.parties[tree.parents[i]]

    def _children(self) -> tuple[str, ...]:
        tree, i = self._tree(), self._graph.index(self.me)
        return self._graph.names(tree.children(i))

    def _arm(self) -> None:
        """Start waiting anew: earlier deadlines no longer count."""
        self._generation += 1
        self._marker = self._place()
        self._out.append(SetTimer(f"deadline/{self._generation}", self._patience()))

    def _patience(self) -> float:
        """Return how long a silence may last: people come when they can."""
        policy = self.plan.policy
        return policy.meeting if self._is_meeting() else policy.deadline

    def _is_meeting(self) -> bool:
        """Say whether this party still waits for people to come, longer than usual."""
        first = self.phase == GREETING and not self._lost and not self._answers
        return first and self.plan.policy.meeting > self.plan.policy.deadline

    def _place(self) -> tuple[str, int, int]:
        """Return how far this party is; the same place a deadline later is silence."""
        return (self.phase, self.epoch, self.round)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._strikes = 0
        self._arm()

    def _abort(self, reason: str, detail: str) -> None:
        """Leave for good, and tell the others one word.

        Masked numbers that have not left yet must not leave later: the ledger may have
        refused them.
        """
        self._forget_emissions()
        self._past, self._passed_down, self._state = {}, None, None
        self._book.forget(Masked, self.me)
        self._persist("aborted", f"{reason}\n{detail}".encode())
        self._publish(Quit(party=self.me, epoch=self.epoch, reason=reason))
        self._wipe()
        self.phase = ABORTED
        self._out.append(Abort(reason, detail))

    def _wipe(self) -> None:
        """Erase the shares of the epoch from the disk and from here."""
        for kind, held in (("sent", self._edges.sent), ("got", self._edges.got)):
            for name in held:
                self._persist(f"{kind}/{self._edges.epoch}/{name}", None)
        self._edges = self._new_edges()
        self._private = np.zeros(0)

    def _fingerprint(self) -> bytes:
        """Return a digest of the private numbers that nobody else can compute."""
        content = Codec.digest(self._private)
        return hmac.digest(self._secret_key, content, hashlib.sha256)

    def _remember_self(self) -> None:
        own = [self._joined_as, self._secret_key]
        self._persist("self", msgspec.msgpack.encode(own))
