"""Shares on one party's links in one epoch, and their confirmation.

Each end draws a share and half of a key. The confirmation is an HMAC-SHA256 of both
shares under the whole key: it shows that both ends hold the same two shares, and shows
nobody else anything.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from veilsum.errors import PeerProtocolError
from veilsum.graphs.spreading import Tree, spanning_tree
from veilsum.graphs.topology import Topology
from veilsum.numbers.secrets import Secret
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Confirm, Numbers, Share
from veilsum.protocol.plan import Plan


@dataclass(frozen=True, eq=False)
class Links:
    """Whom a party has links with while the parties stay the same; all of it public.

    Attributes:
        members: the graph of these parties.
    """

    members: Topology
    me: str

    @cached_property
    def tree(self) -> Tree:
        """The tree along which sums travel, if they do."""
        return spanning_tree(self.members)

    @cached_property
    def neighbours(self) -> tuple[str, ...]:
        """Who shares a link with this party."""
        return self.members.neighbours(self.me)

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


@dataclass(eq=False, repr=False)
class Edges(Secret):
    """What has been sent and received on every link in one epoch.

    Attributes:
        links: to whom.
        sent: own shares by neighbour.
        got: the neighbours' shares.
        confirmations: the neighbours' digests, checked once both shares are there.
    """

    plan: Plan
    links: Links
    epoch: int
    sent: dict[str, Share] = field(default_factory=dict)
    got: dict[str, Share] = field(default_factory=dict)
    confirmations: dict[str, Confirm] = field(default_factory=dict)
    _known: dict[str, Confirm] = field(default_factory=dict)

    def check_share(self, sender: str, share: Share) -> None:
        """Refuse a share of the wrong kind, or a second one that differs."""
        wanted = (self.plan.law.dtype, self.plan.size)
        found = (share.numbers.dtype, share.numbers.size)
        if found != wanted:
            raise PeerProtocolError(
                sender,
                f"a share has {wanted[1]} numbers of type {wanted[0]}, found "
                f"{found[1]} of type {found[0]}",
            )
        known = self.got.get(sender)
        if known is not None and not _same(known, share):
            raise PeerProtocolError(
                sender, f"sent two different shares for epoch {self.epoch}"
            )

    def confirmation(self, neighbour: str) -> Confirm:
        """Return the digest of both shares of a link; what is held never changes."""
        if neighbour not in self._known:
            drawn = {
                self.links.me: self.sent[neighbour],
                neighbour: self.got[neighbour],
            }
            self._known[neighbour] = confirmation(self.epoch, drawn)
        return self._known[neighbour]

    def agrees(self, neighbour: str, found: Confirm) -> bool:
        """Say whether a neighbour's digest is that of the shares held here."""
        expected = self.confirmation(neighbour).digest
        return hmac.compare_digest(expected, found.digest)

    def mask(self) -> Numbers:
        """Return u_i, sent minus received, added up in the order of the links.

        The order matters for float64 only: it is that of the simulator.
        """
        total = np.zeros(self.plan.size, dtype=self.plan.law.dtype)
        for name in self.links.weights:
            total += self.sent[name].numbers - self.got[name].numbers
        return total


def confirmation(epoch: int, drawn: Mapping[str, Share]) -> Confirm:
    """Return the digest of a link's two shares, each by the name of who drew it."""
    (first, forth), (second, back) = sorted(drawn.items())
    key = hashlib.sha256(forth.key + back.key).digest()
    names = f"veilsum edge\0{epoch}\0{first}\0{second}\0".encode()
    content = names + Codec.digest(forth.numbers) + Codec.digest(back.numbers)
    return Confirm(epoch, hmac.digest(key, content, "sha256"))


def _same(one: Share, other: Share) -> bool:
    same_key = hmac.compare_digest(one.key, other.key)
    return (
        same_key
        and one.lost == other.lost
        and bool(np.array_equal(one.numbers, other.numbers))
    )


def latest(held: Mapping[str, Share | Confirm], neighbour: str) -> int:
    """Return the epoch of what is held of a neighbour, -1 for nothing."""
    found = held.get(neighbour)
    return -1 if found is None else found.epoch
