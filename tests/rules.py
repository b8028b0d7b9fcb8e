"""Did a run keep the rules? Every rule is checked against what really happened.

shares      no edge and epoch has two shares; no epoch has two sets of parties
commit      only with everybody's Ready, after every neighbour confirmed the two shares
            of the edge, and by everybody for the same parties and the same request
commitment  one for an epoch, and only the vector that opens it is ever shown
charge      once for an epoch, and before anything masked leaves
emission    nothing masked leaves before the commit; nobody is dropped after it
masks       those of a committed epoch add up to zero, exactly
end         the answer is right, or the party gave up and named a reason
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias, cast

import msgspec
import numpy as np

from veilsum.drivers.loopback import LoopbackEvent, LoopbackWorld
from veilsum.numbers import limbs
from veilsum.numbers.arrays import Vector
from veilsum.numbers.limbs import (
    add_wide_integers,
    limbs_to_integers,
    subtract_wide_integers,
)
from veilsum.numbers.secrets import Secret
from veilsum.protocol.effects import Emission, Persist
from veilsum.protocol.epoch import share_confirmation
from veilsum.protocol.evidence import commitment_to_masked_vector
from veilsum.protocol.messages import (
    Confirm,
    Deposit,
    Down,
    Lost,
    Masked,
    Message,
    Numbers,
    Quit,
    Ready,
    Round,
    Share,
    Up,
)

# What shows masked numbers, in any form.
EMISSIONS = (Masked, Deposit, Round, Up, Down)


# Sender, receiver, epoch.
EdgeEpoch: TypeAlias = tuple[str, str, int]


def broken_rules(world: LoopbackWorld) -> list[str]:
    """Return a sentence for every rule that a recorded run broke; none is good."""
    checker = _Checker(world)
    for event in world.history:
        checker.look(event)
    checker.look_back()
    return checker.broken


@dataclass(eq=False, repr=False)
class _Story(Secret):
    """What one party has done so far."""

    lost: tuple[str, ...] = ()
    commits: dict[int, tuple[str, ...]] = field(default_factory=dict)
    charged: dict[int, Numbers] = field(default_factory=dict)
    masked: dict[int, Masked] = field(default_factory=dict)
    inputs: dict[int, bytes] = field(default_factory=dict)
    members: dict[int, tuple[str, ...]] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)
    totals: dict[int, Vector] = field(default_factory=dict)
    agreeing_since: float | None = None
    finished_at: float = 0.0
    leaps: float = 0.0
    ready: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    promised: dict[int, Ready] = field(default_factory=dict)
    asked: dict[int, dict[str, bytes]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    confirmed: dict[tuple[str, int], set[bytes]] = field(
        default_factory=lambda: defaultdict(set)
    )


class _Checker:
    def __init__(self, world: LoopbackWorld) -> None:
        self.world, self.plan = world, world.plan
        self.codec = self.plan.codec
        self.stories = {name: _Story() for name in self.plan.parties}
        self.shares: dict[EdgeEpoch, Share] = {}
        self.all_shares: dict[EdgeEpoch, list[Share]] = defaultdict(list)
        self.broken: list[str] = []

    def complain(self, event: LoopbackEvent, what: str) -> None:
        self.broken.append(f"{event.time:.3f} s, {event.party!r}: {what}")

    def look(self, event: LoopbackEvent) -> None:
        story = self.stories[event.party]
        match event.what:
            case "persist":
                self._persisted(event, story, event.detail)
            case "charge":
                self._charged(event, story, event.detail)
            case "receive":
                self._received(event, story, self._decoded(event))
            case "send":
                self._sent(event, story, self._decoded(event))
            case "crash" if event.detail.stale:
                self._forgot(event.party)
            case _:
                self._clocked(event, story)

    def _clocked(self, event: LoopbackEvent, story: _Story) -> None:
        if event.what == "clock":
            story.leaps += max(0.0, event.detail)
        elif event.what == "deliver":
            story.totals[event.detail.index] = event.detail.total
        elif event.what == "finish":
            story.finished_at = event.time

    def _decoded(self, event: LoopbackEvent) -> Message:
        return self.codec.decode(event.detail)

    def _forgot(self, party: str) -> None:
        """Excuse a party whose disk was set back for drawing a share again.

        Nobody may have used the first one; that masks cancel shows whether anybody did.
        """
        for key in [key for key in self.shares if key[0] == party]:
            del self.shares[key]
        self.stories[party].inputs.clear()

    # What a party wrote

    def _persisted(self, event: LoopbackEvent, story: _Story, write: Persist) -> None:
        kind, _, rest = write.key.partition("/")
        if kind == "lost" and write.value is not None:
            self._lost(event, story, tuple(msgspec.msgpack.decode(write.value)))
        elif kind == "commit":
            self._committed(event, story, int(rest))
        elif kind == "masked" and write.value is not None:
            self._masked(event, story, cast(Masked, self.codec.decode(write.value)))
        elif kind == "result" and story.agreeing_since is None:
            story.agreeing_since = event.time
        elif kind == "input" and write.value is not None:
            self._bound(event, story, int(rest), write.value)

    def _masked(self, event: LoopbackEvent, story: _Story, masked: Masked) -> None:
        known = story.masked.setdefault(masked.epoch, masked)
        if not np.array_equal(known.numbers, masked.numbers):
            self.complain(event, f"masked two vectors in epoch {masked.epoch}")

    def _lost(self, event: LoopbackEvent, story: _Story, lost: tuple[str, ...]) -> None:
        if story.commits and lost != story.lost:
            self.complain(event, "dropped a party after its commit")
        story.lost = lost

    def _bound(
        self, event: LoopbackEvent, story: _Story, epoch: int, fingerprint: bytes
    ) -> None:
        if story.inputs.setdefault(epoch, fingerprint) != fingerprint:
            self.complain(event, f"used epoch {epoch} with two inputs")

    def _committed(self, event: LoopbackEvent, story: _Story, epoch: int) -> None:
        members = self._members(story.lost)
        story.commits[epoch] = members
        missing = set(members) - story.ready[epoch]
        if missing:
            self.complain(
                event, f"committed epoch {epoch} without {sorted(missing)} being ready"
            )
        asked = story.asked[epoch]
        if len({asked[name] for name in members if name in asked}) > 1:
            self.complain(event, f"committed epoch {epoch} with two requests in it")
        whole = self.plan.topology
        kept = [whole.index(name) for name in members]
        for name in whole.induced(kept).neighbours(event.party):
            if not self._is_confirmed(event.party, name, story, epoch):
                self.complain(event, f"committed without {name!r} confirming the edge")

    def _members(self, lost: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in self.plan.parties if name not in lost)

    def _charged(self, event: LoopbackEvent, story: _Story, charge: Emission) -> None:
        known = story.charged.setdefault(charge.epoch, charge.masked)
        if not np.array_equal(known, charge.masked):
            self.complain(event, f"charged epoch {charge.epoch} for two vectors")

    # What it heard and said

    def _received(self, event: LoopbackEvent, story: _Story, message: Message) -> None:
        if isinstance(message, Confirm):
            story.confirmed[cast(str, event.peer), message.epoch].add(message.digest)
        elif isinstance(message, Ready):
            story.ready[message.epoch].add(message.party)
            story.asked[message.epoch][message.party] = message.request

    def _sent(self, event: LoopbackEvent, story: _Story, message: Message) -> None:
        own = getattr(message, "party", event.party) == event.party
        if isinstance(message, Share):
            self._shared(event, story, message)
        elif isinstance(message, Ready) and own:
            self._ready(event, story, message)
        elif isinstance(message, Lost) and own:
            self._gave_up(event, story, message)
        elif isinstance(message, EMISSIONS) and own:
            masked = message.masked if isinstance(message, Deposit) else message
            self._emitted(event, story, masked.epoch)
            if isinstance(masked, Masked):
                self._opened(event, story, masked)

    def _opened(self, event: LoopbackEvent, story: _Story, masked: Masked) -> None:
        ready = story.promised.get(masked.epoch)
        shown = self.codec.content_digest(masked)
        opening = ready and commitment_to_masked_vector(
            ready, shown, self.plan.digest, self.codec
        )
        if ready is None or opening != ready.commitment:
            self.complain(event, f"showed another vector in epoch {masked.epoch}")

    def _gave_up(self, event: LoopbackEvent, story: _Story, lost: Lost) -> None:
        """Passing an old notice on again is no new one."""
        if story.commits and lost.epoch not in story.given_up:
            self.complain(event, "gave up on a party after its commit")
        story.given_up.add(lost.epoch)

    def _shared(self, event: LoopbackEvent, story: _Story, share: Share) -> None:
        key = (event.party, cast(str, event.peer), share.epoch)
        known = self.shares.setdefault(key, share)
        same = known.key == share.key and np.array_equal(known.numbers, share.numbers)
        if not same:
            self.complain(event, f"sent two shares to {event.peer!r} in one epoch")
        self.all_shares[key].append(share)
        self._in_epoch(event, story, share.epoch, share.lost)

    def _in_epoch(
        self, event: LoopbackEvent, story: _Story, epoch: int, lost: tuple[str, ...]
    ) -> None:
        members = self._members(lost)
        if story.members.setdefault(epoch, members) != members:
            self.complain(event, f"used epoch {epoch} for two sets of parties")

    def _ready(self, event: LoopbackEvent, story: _Story, ready: Ready) -> None:
        self._in_epoch(event, story, ready.epoch, ready.lost)
        story.ready[ready.epoch].add(event.party)
        story.asked[ready.epoch][event.party] = ready.request
        promised = story.promised.setdefault(ready.epoch, ready)
        if promised.commitment != ready.commitment:
            self.complain(event, f"committed to two vectors in epoch {ready.epoch}")
        if ready.epoch in story.given_up:
            self.complain(event, f"was ready for epoch {ready.epoch}, given up before")

    def _is_confirmed(self, party: str, name: str, story: _Story, epoch: int) -> bool:
        shares = self.all_shares
        possible = product(shares[party, name, epoch], shares[name, party, epoch])
        digests = (
            share_confirmation(
                epoch, {party: forth, name: back}, self.codec.layout
            ).digest
            for forth, back in possible
        )
        return any(digest in story.confirmed[name, epoch] for digest in digests)

    def _emitted(self, event: LoopbackEvent, story: _Story, epoch: int) -> None:
        if epoch not in story.commits:
            self.complain(event, f"showed masked numbers of epoch {epoch} uncommitted")
        if epoch not in story.charged:
            self.complain(event, f"showed masked numbers of epoch {epoch} uncharged")

    # The whole

    def look_back(self) -> None:
        """Check what only the whole history can show."""
        epochs = {epoch for story in self.stories.values() for epoch in story.commits}
        width = len(self.plan.parties) + 1
        by_sum: dict[int, set[tuple[int, tuple[str, ...]]]] = defaultdict(set)
        for story in self.stories.values():
            for epoch, members in story.commits.items():
                by_sum[epoch // width].add((epoch, members))
        for index, found in by_sum.items():
            if len(found) > 1:
                self.broken.append(f"sum {index} was committed as {sorted(found)}")
        for epoch in sorted(epochs):
            self._masks_cancel(epoch)
        self._ends()

    def _masks_cancel(self, epoch: int) -> None:
        members = next(
            story.commits[epoch]
            for story in self.stories.values()
            if epoch in story.commits
        )
        if not all(epoch in self.stories[name].masked for name in members):
            return  # somebody never got that far
        law = self.plan.law
        total = np.zeros(self.plan.size, law.dtype)
        for name in members:
            encoded = law.encode(self._private(name, epoch))
            mask = subtract_wide_integers(
                self.stories[name].masked[epoch].numbers, encoded
            )
            total = add_wide_integers(total, mask)
        if not self._is_zero(limbs_to_integers(law.wrap(total))):
            self.broken.append(f"the masks of epoch {epoch} do not add up to zero")

    def _private(self, name: str, epoch: int) -> Vector:
        """Return the vector that a party masked, from the sums it knew by then."""
        index, totals = epoch // (len(self.plan.parties) + 1), self.stories[name].totals
        known = [totals[k] for k in range(index)]
        return cast(Vector, self.world.works[name].vector(known))

    def _is_zero(self, total: Numbers) -> bool:
        if total.dtype == np.float64:
            size = max(
                float(np.abs(one.numbers).max())
                for story in self.stories.values()
                for one in story.masked.values()
            )
            return bool((np.abs(total) <= 1e-12 * max(size, 1.0)).all())
        return not total.any()

    def _ends(self) -> None:
        world = self.world
        for name, node in world.nodes.items():
            finished, aborted = world.finished.get(name), world.aborted.get(name)
            if finished is not None:
                if aborted is not None and not self._lost_its_answer(name):
                    self.broken.append(f"{name!r} finished and gave up")
                self._answer_is_right(name)
            elif aborted is not None:
                known = {*Quit.refusals, *Quit.reasons}
                if aborted.reason not in known or not aborted.detail:
                    self.broken.append(f"{name!r} gave up without a reason")
            elif node.machine is not None:
                self.broken.append(f"{name!r} neither finished nor gave up")

    def _lost_its_answer(self, name: str) -> bool:
        """Say whether the party gave up because its disk no longer knew of the end."""
        mine = [event for event in self.world.history if event.party == name]
        ends = [k for k, event in enumerate(mine) if event.what == "finish"]
        set_back = any(
            event.what == "crash" and event.detail.stale for event in mine[ends[-1] :]
        )
        return set_back and self.world.aborted[name].reason == "stale"

    def _answer_is_right(self, name: str) -> None:
        finish = self.world.finished[name]
        right = reference(self.world, finish.parties)
        gap = float(np.abs(finish.result - right).max())
        if not gap <= 2 * self.plan.tolerance:
            self.broken.append(f"{name!r} finished {gap:.3g} away from the answer")
        missing = set(finish.parties) - set(finish.signatures)
        if missing and not self._was_patient(self.stories[name]):
            self.broken.append(f"{name!r} did not wait for {sorted(missing)} to sign")

    def _was_patient(self, story: _Story) -> bool:
        """Say whether a party waited, by its own clock, as long as the plan says."""
        since = story.agreeing_since
        policy = self.plan.policy
        assert since is not None
        waited = story.finished_at - since + story.leaps
        return waited >= policy.patience * policy.deadline - 1e-3


def reference(world: LoopbackWorld, members: tuple[str, ...]) -> Numbers:
    """Return the answer from everybody's vectors, added up in the open."""
    work, answers = world.works[members[0]], list[Any]()
    while work.vector(answers) is not None:
        rows = [world.works[name].vector(answers) for name in members]
        encoded = [world.plan.law.encode(cast(Any, row)) for row in rows]
        total = limbs.total_of_wide_integers(np.stack(encoded))
        answers.append(world.plan.law.decode(total))
    return work.answer(answers, members)
