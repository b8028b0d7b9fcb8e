"""One epoch: shares on every link and their confirmation, then masked numbers.

Each end of a link draws a share and half of a key. The confirmation is an HMAC-SHA256
of both shares under the whole key: it shows that both ends hold the same two shares,
and shows nobody else anything. A party's mask is what it sent minus what it got.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import msgspec
import numpy as np

from veilsum.errors import PeerProtocolError, UntimelyError
from veilsum.graphs.spreading import SpreadingTree, spanning_tree
from veilsum.graphs.topology import Topology
from veilsum.masks.masking import MaskStreams
from veilsum.numbers.arrays import Vector, listed_names
from veilsum.numbers.limbs import LimbModuli, add_wide_integers, subtract_wide_integers
from veilsum.numbers.secrets import Secret
from veilsum.protocol.book import ProtocolKeys
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Effect, Persist, Send
from veilsum.protocol.messages import (
    Confirm,
    Deposit,
    Down,
    Masked,
    Message,
    Numbers,
    Share,
    Status,
    Up,
    check_message_numbers,
)
from veilsum.protocol.phases import BEFORE_COMMIT, BEFORE_READY, COMMITTING, SUMMING
from veilsum.protocol.plan import DecodedSum, ProtocolPlan
from veilsum.protocol.recovery import RecoveredRun


@dataclass(frozen=True, eq=False)
class ProtocolNeighbourhood:
    """A party's place among the members, as long as these stay the same; all public."""

    members: Topology
    me: str

    @cached_property
    def neighbours(self) -> tuple[str, ...]:
        """Parties that share a link with this party."""
        return self.members.neighbours(self.me)

    def served(self, sender: str, author: str) -> set[str]:
        """Return who gets a record, that a neighbour has passed on, without this party.

        Records go away from their author: whoever is as near to it as this party has a
        way of its own that is as short. One that has come by a longer way, because
        somebody asked, says that a short way is broken: it goes to everybody.
        """
        here = self._hops[self.me].get(author, 0)
        if self._hops.get(sender, {}).get(author, here) >= here:
            return {sender, author}
        near = {
            name
            for name in self.neighbours
            if self._hops[name].get(author, here + 1) <= here
        }
        return {sender, author, *near}

    @cached_property
    def _hops(self) -> dict[str, Mapping[str, int]]:
        """Hops to every member, from this party and from each neighbour."""
        return {name: self.members.hops(name) for name in (self.me, *self.neighbours)}

    def nearer_to(self, neighbour: str) -> set[str]:
        """Return who is as near to a neighbour as to this party, itself left out."""
        if neighbour not in self.neighbours:
            return set()  # it is lost, and so are ways to it
        here, there = self.members.hops(self.me), self.members.hops(neighbour)
        return {name for name, away in here.items() if there[name] <= away} - {
            neighbour
        }

    @cached_property
    def weights(self) -> dict[str, float]:
        """The variance of the shares on each link, relative to the law's.

        In the graph's order of links, which is the simulator's.
        """
        i, names = self.members.index(self.me), self.members.parties
        links = zip(
            self.members.edges.tolist(), self.members.weights.tolist(), strict=True
        )
        return {names[a + b - i]: weight for (a, b), weight in links if i in (a, b)}

    @cached_property
    def tree(self) -> SpreadingTree:
        """The tree along which sums travel, if they do."""
        return spanning_tree(self.members)

    @cached_property
    def parent(self) -> str | None:
        """Receiver of the sum of this party's subtree; None at the root."""
        i = self.members.index(self.me)
        root = self.tree.root == i
        return None if root else self.members.parties[self.tree.parents[i]]

    @cached_property
    def children(self) -> tuple[str, ...]:
        """Neighbours whose subtrees' sums this party waits for."""
        return self.members.names(self.tree.children(self.members.index(self.me)))


def share_confirmation(
    epoch: int, drawn: Mapping[str, Share], layout: LimbModuli | None = None
) -> Confirm:
    """Return the digest of a link's two shares, each by the name of who drew it."""
    (first, forth), (second, back) = sorted(drawn.items())
    key = hashlib.sha256(forth.key + back.key).digest()
    names = f"veilsum edge\0{epoch}\0{first}\0{second}\0".encode()
    digests = (Codec.digest(one.numbers, layout) for one in (forth, back))
    content = b"".join((names, *digests))
    return Confirm(epoch, hmac.digest(key, content, "sha256"))


class Epoch(Secret):
    """One masked sum among the members, from the first share to the total.

    Attributes:
        lost: who is not in it, sorted.
        place: who is, and where this party stands among them.
        private: what is summed; empty once the sum is known.
        sent: own shares by neighbour.
        got: the neighbours' shares.
        confirmations: the neighbours' digests, checked once both shares are there.
        ahead, early: shares for the next sum, own ones and the neighbours': they travel
            with the masked numbers of this one.
        prepared: own masked numbers that the party's Ready commits to, from there to
            the commit; shown to nobody.
        masked: the same, from the commit until the sum is known.
        deposits: the neighbours' masked numbers, to be shown should they vanish.
        fallback: whether everybody's masked numbers are shown after all.
    """

    def __init__(
        self,
        plan: ProtocolPlan,
        place: ProtocolNeighbourhood,
        number: int,
        lost: tuple[str, ...] = (),
        private: Numbers | None = None,
    ) -> None:
        self._plan = plan
        self.number, self.lost, self.place = number, lost, place
        self.private = np.zeros(0) if private is None else private
        self.sent: dict[str, Share] = {}
        self.got: dict[str, Share] = {}
        self.confirmations: dict[str, Confirm] = {}
        self._known: dict[str, Confirm] = {}
        self.ahead: dict[str, Share] = {}
        self.early: dict[str, tuple[Share, bytes]] = {}
        self.prepared: Masked | None = None
        self.masked: Masked | None = None
        self.deposits: dict[str, Masked] = {}
        self.fallback = False
        self._from_below: dict[str, Numbers] = {}
        self._from_above: Numbers | None = None
        self._went_up = False

    @property
    def members(self) -> tuple[str, ...]:
        """Members of the epoch, in the plan's order."""
        return tuple(self.place.members.parties)

    @property
    def by_tree(self) -> bool:
        """Whether masked numbers travel as sums of subtrees."""
        return self._plan.spread == "tree" and not self.fallback

    def fingerprint(self, key: bytes) -> bytes:
        """Return a digest of the private numbers that nobody else can compute."""
        return hmac.digest(key, Codec.digest(self.private), hashlib.sha256)

    def wipe(self) -> list[Effect]:
        """Erase shares and private numbers, from the disk and from here."""
        held = [f"sent/{self._next}/{name}" for name in self.ahead]
        self.ahead = {}
        return [*(Persist(key, None) for key in held), *self._wipe_sum()]

    def _wipe_sum(self) -> list[Effect]:
        held = [f"sent/{self.number}/{name}" for name in self.sent]
        held += [f"got/{self.number}/{name}" for name in self.got]
        held += [] if self.prepared is None else [f"prepared/{self.number}"]
        self.prepared = None
        self.sent, self.got, self.confirmations, self._known = {}, {}, {}, {}
        self.private = np.zeros(0)
        return [Persist(key, None) for key in held]

    def close(self, number: int) -> list[Effect]:
        """End the epoch, now that its sum is known; what is said now is of the next."""
        erased = self._wipe_sum()
        self.masked, self.number = None, number
        self.sent, self.ahead = self.ahead, {}
        return erased

    def restore(self, stored: RecoveredRun, masked: Masked | None) -> None:
        """Take back shares, and own masked numbers if they were made."""
        self.sent = stored.shares("sent", self.number, self.place.neighbours)
        self.ahead = stored.shares("sent", self._next, self.place.neighbours)
        self.got = stored.shares("got", self.number, self.place.neighbours)
        self.prepared, self.masked = stored.prepared().get(self.number), masked

    # Checks

    def check_now(self, sender: str, epoch: int) -> None:
        """Refuse what is said in another epoch, or by somebody who is not in this."""
        if epoch != self.number:
            self._refuse_epoch(sender, epoch)
        if sender not in self.place.neighbours:
            raise UntimelyError(
                sender, "has been lost and is not in this epoch", code="party-lost"
            )

    def check_vote(self, sender: str, epoch: int) -> None:
        """Refuse a record of the past, or of later than the next sum."""
        width = self._plan.epochs_per_sum
        if not self.number <= epoch < (self.number // width + 2) * width:
            self._refuse_epoch(sender, epoch)

    def _refuse_epoch(self, sender: str, epoch: int) -> NoReturn:
        when = "past" if epoch < self.number else "future"
        raise UntimelyError(
            sender,
            f"speaks of the {when} epoch {epoch}; now is {self.number}",
            code="other-epoch",
        )

    def check_kind(self, sender: str, numbers: Numbers) -> None:
        """Refuse numbers that are not such as the plan sums."""
        check_message_numbers(sender, numbers, (self._plan.law.dtype, self._plan.size))

    # Shares

    @property
    def _next(self) -> int:
        """The number of the next sum's epoch: nobody is lost after a commit."""
        return self.number + self._plan.epochs_per_sum

    def draw(self, streams: MaskStreams, keys: ProtocolKeys) -> list[Effect]:
        """Draw a share for every neighbour; all are on disk before one is sent."""
        return self._draw(self.sent, self.number, streams, keys)

    def draw_ahead(self, streams: MaskStreams, keys: ProtocolKeys) -> list[Effect]:
        """Draw the next sum's shares: they depend on nobody's numbers."""
        return self._draw(self.ahead, self._next, streams, keys)

    def _draw(
        self,
        held: dict[str, Share],
        number: int,
        streams: MaskStreams,
        keys: ProtocolKeys,
    ) -> list[Effect]:
        kept, frames = list[Effect](), dict[str, bytes]()
        for name in self.place.neighbours:
            fresh = name not in held
            if fresh:
                held[name] = self.new_share(name, number, streams, keys)
            frames[name] = self._plan.codec.encode(held[name])
            if fresh:
                kept.append(Persist(f"sent/{number}/{name}", frames[name]))
        return [*kept, *(Send(name, frame) for name, frame in frames.items())]

    def new_share(
        self, name: str, number: int, streams: MaskStreams, keys: ProtocolKeys
    ) -> Share:
        plan, whole = self._plan, self._plan.topology
        numbers = streams.share(
            plan.law,
            plan.size,
            self.place.weights[name],
            epoch=number,
            sender=whole.index(self.place.me),
            receiver=whole.index(name),
        )
        return Share(number, self.lost, keys.random(32), numbers)

    def take_share(
        self, sender: str, share: Share, frame: bytes, phase: str
    ) -> list[Effect]:
        """Check a share; keep a neighbour's first, as long as it is waited for."""
        early = share.epoch == self._next and phase in (COMMITTING, SUMMING)
        if not early:
            self.check_now(sender, share.epoch)
        if share.lost != self.lost:
            raise UntimelyError(
                sender,
                f"goes on without {listed_names(share.lost) or 'nobody'}, "
                f"{self.place.me!r} without {listed_names(self.lost) or 'nobody'}",
                code="loss-differs",
            )
        self.check_kind(sender, share.numbers)
        if early:
            known, _ = self.early.get(sender, (None, b""))
        else:
            known = self.got.get(sender)
        if known is not None:
            same = hmac.compare_digest(known.key, share.key) and (
                known.lost == share.lost
                and np.array_equal(known.numbers, share.numbers)
            )
            if not same:
                raise PeerProtocolError(
                    sender,
                    f"sent two different shares for epoch {share.epoch}",
                    code="two-shares",
                )
            return []
        if early:
            self.early[sender] = share, frame
            return []
        return [self.keep(sender, share, frame)] if phase in BEFORE_READY else []

    def keep(self, sender: str, share: Share, frame: bytes) -> Persist:
        """Keep a neighbour's share that has been checked."""
        self.got[sender] = share
        return Persist(f"got/{self.number}/{sender}", frame)

    def confirm(self) -> list[Effect]:
        """Confirm every link; forget a confirmation that came early and is wrong."""
        held, out = self.confirmations, list[Effect]()
        for name in self.place.neighbours:
            if name in held and not self._agrees(name, held[name]):
                del held[name]
            out.append(Send(name, self._plan.codec.encode(self._confirmation(name))))
        return out

    def take_confirm(self, sender: str, confirm: Confirm, phase: str) -> None:
        """Check a confirmation, and keep it as long as it is waited for."""
        self.check_now(sender, confirm.epoch)
        if phase not in BEFORE_COMMIT:
            return
        both = sender in self.got and sender in self.sent
        if both and not self._agrees(sender, confirm):
            raise PeerProtocolError(
                sender,
                "confirms other shares than those held here",
                code="confirms-other-shares",
            )
        self.confirmations[sender] = confirm

    def _confirmation(self, name: str) -> Confirm:
        """Return the digest of both shares of a link; what is held never changes."""
        if name not in self._known:
            drawn = {self.place.me: self.sent[name], name: self.got[name]}
            layout = self._plan.codec.layout
            self._known[name] = share_confirmation(self.number, drawn, layout)
        return self._known[name]

    def _agrees(self, name: str, found: Confirm) -> bool:
        return hmac.compare_digest(self._confirmation(name).digest, found.digest)

    def mask(self) -> Numbers:
        """Return u_i, sent minus received, added up in the order of the links.

        The order matters for float64 only: it is that of the simulator.
        """
        found = np.zeros(self._plan.size, dtype=self._plan.law.dtype)
        for name in self.place.weights:
            apart = subtract_wide_integers(
                self.sent[name].numbers, self.got[name].numbers
            )
            found = add_wide_integers(found, apart)
        return found

    # Masked numbers

    def prepare(self, nonce: bytes) -> Masked:
        """Return the private numbers plus the mask, not signed yet."""
        numbers = self._plan.law.wrap(add_wide_integers(self.private, self.mask()))
        me = self.place.me
        return Masked(party=me, epoch=self.number, nonce=nonce, numbers=numbers)

    def deposit(self) -> list[Effect]:
        """Leave the masked numbers with every neighbour, if the plan has stand-ins."""
        if not self._plan.policy.stand_in:
            return []
        assert self.masked is not None
        frame = self._plan.codec.encode(Deposit(self.masked))
        return [Send(name, frame) for name in self.place.neighbours]

    def take_tree(self, sender: str, message: Up | Down) -> None:
        """Check and keep a subtree's sum, or the total."""
        self.check_now(sender, message.epoch)
        self.check_kind(sender, message.numbers)
        if self._plan.spread != "tree":
            raise PeerProtocolError(
                sender, "sums along a tree, and the plan has none", code="no-tree"
            )
        if isinstance(message, Up) and sender in self.place.children:
            self._from_below.setdefault(sender, message.numbers)
        elif isinstance(message, Down) and sender == self.place.parent:
            self._from_above = message.numbers
        else:
            raise PeerProtocolError(
                sender, "is elsewhere in the tree", code="other-tree-place"
            )

    def pass_up(self) -> list[Effect]:
        """Send the subtree's sum to the parent, once, when it is complete."""
        parent = self.place.parent
        if parent is None or self._went_up or (total := self._subtree()) is None:
            return []
        self._went_up = True
        return [Send(parent, self._plan.codec.encode(Up(self.number, total)))]

    def total_by_tree(self) -> Numbers | None:
        """Return the total once it has come down, or up to the root."""
        return self._subtree() if self.place.parent is None else self._from_above

    def _subtree(self) -> Numbers | None:
        """Return the sum of this party's subtree, if all of it is here."""
        assert self.masked is not None
        if not self._from_below.keys() >= set(self.place.children):
            return None
        total = self.masked.numbers
        for name in self.place.children:
            total = add_wide_integers(total, self._from_below[name])
        return self._plan.law.wrap(total)

    def total_of(self, shown: Mapping[str, Masked]) -> Numbers:
        """Return the sum of everybody's masked numbers."""
        total = np.zeros(self._plan.size, dtype=self._plan.law.dtype)
        for name in self.members:
            total = add_wide_integers(total, shown[name].numbers)
        return self._plan.law.wrap(total)

    # What a neighbour has

    def held_of(self, name: str) -> tuple[int, int]:
        """Return the epochs of a neighbour's share and confirmation, -1 for none."""
        share, confirm = self.got.get(name), self.confirmations.get(name)
        return (
            -1 if share is None else share.epoch,
            -1 if confirm is None else confirm.epoch,
        )

    def has_sum_of(self, name: str) -> bool:
        """Say whether a neighbour's sum along the tree is here."""
        below = name in self._from_below
        return below or (self._from_above is not None and name == self.place.parent)

    def repair(self, sender: str, status: Status) -> list[Effect]:
        """Send a neighbour the share and the confirmation that it lacks."""
        found: list[Message] = []
        if sender in self.sent and status.share < self.number:
            found.append(self.sent[sender])
        both = sender in self.sent and sender in self.got
        if both and status.confirm < self.number:
            found.append(self._confirmation(sender))
        return [Send(sender, self._plan.codec.encode(one)) for one in found]

    def repair_tree(self, sender: str, status: Status) -> list[Effect]:
        """Send the subtree's sum again to a parent that lacks it."""
        if status.round >= 0 or not self._went_up or sender != self.place.parent:
            return []
        total = self._subtree()
        assert total is not None
        return [Send(sender, self._plan.codec.encode(Up(self.number, total)))]


class EpochSums(Secret):
    """The sums that are known, and what a neighbour one sum behind may ask for."""

    def __init__(self, plan: ProtocolPlan) -> None:
        self._plan = plan
        self._known: list[DecodedSum] = []
        self._masked: dict[int, Masked] = {}
        self._passed_down: tuple[int, bytes] | None = None

    def restore(self, stored: RecoveredRun) -> None:
        """Take back what earlier starts have kept."""
        self._known = stored.decoded()
        self._masked = stored.masked()
        self._passed_down = stored.passed_down()

    @property
    def totals(self) -> list[Vector]:
        return [one.value for one in self._known]

    @property
    def digests(self) -> tuple[bytes, ...]:
        return tuple(one.digest for one in self._known)

    def epoch(self, n_lost: int) -> int:
        """Return the number of the next sum's epoch after so many losses."""
        return len(self._known) * self._plan.epochs_per_sum + n_lost

    def has(self, epoch: int) -> bool:
        """Say whether an epoch's sum is known."""
        return epoch // self._plan.epochs_per_sum < len(self._known)

    def add(self, total: DecodedSum, masked: Masked) -> None:
        self._known.append(total)
        self._masked[masked.epoch] = masked

    def masked(self, epoch: int) -> Masked | None:
        """Return own masked numbers of an earlier sum."""
        return self._masked.get(epoch)

    def unfinished(self, epoch: int) -> Masked | None:
        """Take out own masked numbers of an epoch whose sum is not known yet."""
        return self._masked.pop(epoch, None)

    def pass_down(self, epoch: int, frame: bytes) -> Persist:
        """Keep a total for the subtree: who has it sends its part no more."""
        self._passed_down = epoch, frame
        return Persist("down", msgspec.msgpack.encode(self._passed_down))

    def forget_masked(self) -> None:
        self._masked, self._passed_down = {}, None

    def repair(
        self, sender: str, status: Status, place: ProtocolNeighbourhood
    ) -> list[Effect]:
        """Send a total down again to a child that lacks it."""
        epoch, frame = self._passed_down or (-1, b"")
        below = epoch == status.epoch and sender in place.children
        return [Send(sender, frame)] if below else []
