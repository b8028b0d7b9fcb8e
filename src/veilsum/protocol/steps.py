"""The guards and actions that the table of phases names."""

from __future__ import annotations

from math import inf

import msgspec
import numpy as np

from veilsum.errors import LocalProtocolError
from veilsum.numbers.arrays import Vector, apart, listed
from veilsum.protocol.codec import Codec
from veilsum.protocol.effects import Charge, Deliver, Finish, Send
from veilsum.protocol.messages import (
    Agreed,
    Deposit,
    Down,
    Masked,
    Numbers,
    Quit,
    Ready,
    Result,
    Round,
    Share,
    Up,
)
from veilsum.protocol.party import Party
from veilsum.protocol.phases import (
    AGREEING,
    COMMITTING,
    CONFIRMING,
    FINISHED,
    ITERATING,
    SHARING,
    SUMMING,
)

# What was said is kept for so many times as many rounds as the plan's `checkpoint`: two
# would do where nobody comes back in the middle of a writing.
KEPT_SLOTS = 3


class Steps(Party):
    """What happens between two phases."""

    # greeting

    def _greeted(self) -> bool:
        everybody = all(name in self._joins for name in self.members)
        return everybody and self._echoed.issuperset(self._neighbours)

    def _draw_shares(self) -> str:
        """Draw a share for every neighbour; all are on disk before one is sent."""
        self._persist(f"input/{self.epoch}", self._fingerprint())
        frames: dict[str, bytes] = {}
        for name in self._neighbours:
            fresh = name not in self._edges.sent
            if fresh:
                self._edges.sent[name] = self._new_share(name)
            frames[name] = self._codec.encode(self._edges.sent[name])
            if fresh:
                self._persist(f"sent/{self.epoch}/{name}", frames[name])
        self._out += [Send(name, frame) for name, frame in frames.items()]
        return SHARING

    def _new_share(self, name: str) -> Share:
        whole = self.plan.topology
        sender, receiver = whole.index(self.me), whole.index(name)
        stream = self._streams.stream(
            epoch=self.epoch, sender=sender, receiver=receiver
        )
        weight = self._edges.links.weights[name]
        numbers = self.plan.law.draw(stream, self.plan.size, weight)
        return Share(self.epoch, self.lost, self._keys.random(32), numbers)

    # sharing

    def _shares_complete(self) -> bool:
        return self._edges.got.keys() >= set(self._neighbours)

    def _confirm_edges(self) -> str:
        """Confirm every link; forget a confirmation that came early and is wrong."""
        held = self._edges.confirmations
        for name in self._neighbours:
            if name in held and not self._edges.agrees(name, held[name]):
                del held[name]
            self._send(name, self._edges.confirmation(name))
        return CONFIRMING

    # confirming

    def _edges_confirmed(self) -> bool:
        return self._edges.confirmations.keys() >= set(self._neighbours)

    def _declare_ready(self) -> str:
        self._publish(Ready(party=self.me, epoch=self.epoch, lost=self.lost))
        return COMMITTING

    # committing

    def _all_ready(self) -> bool:
        ready = self._book.of(Ready, self.epoch)
        return len(ready) >= len(self.members) and all(
            name in ready and ready[name].lost == self.lost for name in self.members
        )

    def _commit(self) -> str:
        """Keep the commit and the masked numbers, charge for them, then show them."""
        ready = self._book.of(Ready, self.epoch)
        signed = b"".join(ready[name].signature for name in self.members)
        self._persist(f"commit/{self.epoch}", signed)
        numbers = self.plan.law.wrap(self._private + self._edges.mask())
        masked = Masked(party=self.me, epoch=self.epoch, numbers=numbers)
        self._masked = self._book.sealed(masked)
        self._persist(f"masked/{self.epoch}", self._codec.encode(self._masked))
        self._out.append(Charge(self.epoch, self.members, self._masked.numbers))
        return self._emit()

    def _emit(self) -> str:
        """Show the masked numbers as the plan says."""
        if self._work.rounds is not None and not self._fallback:
            self._deposit()
            self._begin_rounds()
            return ITERATING
        if self._by_tree:
            self._deposit()
        else:
            assert self._masked is not None
            self._show(self._masked)
        return SUMMING

    def _show(self, masked: Masked) -> None:
        """Show masked numbers of this party's own to everybody, once."""
        if masked.id not in self._book:
            self._send_all(masked, self._book.add(masked))

    def _own_masked(self, epoch: int) -> Masked | None:
        """Return what this party has shown, or may show, in an epoch."""
        if self._masked is not None and self._masked.epoch == epoch:
            return self._masked
        return self._past.get(epoch)

    def _deposit(self) -> None:
        if self.plan.policy.stand_in:
            assert self._masked is not None
            for name in self._neighbours:
                self._send(name, Deposit(self._masked))

    # summing

    def _sum_complete(self) -> bool:
        if self._by_tree:
            self._pass_up()
            return self._total_by_tree() is not None
        return self._everybody_shown()

    def _everybody_shown(self) -> bool:
        shown, members = self._book.of(Masked, self.epoch), self.members
        return len(shown) >= len(members) and all(name in shown for name in members)

    def _pass_up(self) -> None:
        """Send the subtree's sum to the parent, once it is complete."""
        complete = self._from_below.keys() >= set(self._children())
        parent = self._parent()
        if complete and parent is not None and not self._went_up:
            self._went_up = True
            self._send(parent, Up(self.epoch, self._subtree()))

    def _subtree(self) -> Numbers:
        assert self._masked is not None
        total = self._masked.numbers
        for name in self._children():
            total = total + self._from_below[name]
        return self.plan.law.wrap(total)

    def _total_by_tree(self) -> Numbers | None:
        if self._parent() is not None:
            return self._from_above
        complete = self._from_below.keys() >= set(self._children())
        return self._subtree() if complete else None

    def _take_sum(self) -> str:
        """Keep the total; go on to the next sum, or to the answer."""
        total = self._total()
        if self._by_tree:
            self._keep_and_pass_down(total)
        else:
            self._keep_answer(total)
        vector = self._work.vector(self._answers)
        if vector is None:
            self._answer = self._work.answer(self._answers, self.members)
            return self._propose()
        return self._next_sum(vector)

    def _keep_and_pass_down(self, total: Numbers) -> None:
        """Keep the total for the subtree and for oneself, then send it there.

        Whoever has it will not send its part of the sum again.
        """
        children = self._children()
        frame = self._codec.encode(Down(self.epoch, total))
        self._passed_down = (self.epoch, frame)
        self._persist("down", msgspec.msgpack.encode(self._passed_down))
        self._keep_answer(total)
        self._out += [Send(name, frame) for name in children]

    def _total(self) -> Numbers:
        if self._by_tree:
            total = self._total_by_tree()
            assert total is not None
            return total
        shown = self._book.of(Masked, self.epoch)
        total = np.zeros(self.plan.size, dtype=self.plan.law.dtype)
        for name in self.members:
            total += shown[name].numbers
        return total

    def _keep_answer(self, total: Numbers) -> None:
        index, value = len(self._answers), self.plan.law.decode(total)
        self._persist(f"answer/{index}", self._codec.encode(Down(self.epoch, total)))
        self._wipe()
        self._out.append(Deliver(index, value))
        assert self._masked is not None
        self._past[self._masked.epoch], self._masked = self._masked, None
        self._answers.append(value)
        # A neighbour may still be one sum behind, and never more.
        width = self._width
        self._book.forget_before((len(self._answers) - 2) * width)

    def _next_sum(self, vector: Vector) -> str:
        """Start the next epoch: fresh shares for a fresh vector."""
        self._private = self.plan.law.encode(vector)
        self._forget_emissions()
        self._edges = self._new_edges()
        for name, (share, frame) in self._early.items():
            self._edges.got[name] = share
            self._persist(f"got/{self.epoch}/{name}", frame)
        self._early = {}
        return self._draw_shares()

    # iterating

    def _begin_rounds(self) -> None:
        rounds = self._work.rounds
        assert rounds is not None
        assert self._masked is not None
        if self._state is None:
            self._state = rounds.begin(self._masked.numbers, self._graph, self.me)
        self._say()

    def _say(self) -> None:
        """Tell the neighbours this round's numbers, after keeping the state."""
        rounds, state = self._work.rounds, self._state
        assert rounds is not None
        finished = rounds.finished(state)
        if finished or state.index % self.plan.checkpoint == 0:
            self._keep_rounds(rounds.pack(state), state.index)
        if finished:
            return
        message = Round(self.epoch, state.index, rounds.outgoing(state))
        try:
            self._said[state.index] = frame = self._codec.encode(message)
        except LocalProtocolError as error:
            raise (rounds.strayed(state) or error) from None
        self._said.pop(state.index - self.plan.checkpoint * KEPT_SLOTS, None)
        self._out += [Send(to, frame) for to in self._neighbours]

    def _keep_rounds(self, packed: bytes, index: int) -> None:
        """Keep the state, and what was said since it was kept last.

        A party that comes back repeats the rounds since then, and comes to the same
        numbers; its neighbours still have what they said, and so has it.
        """
        every = self.plan.checkpoint
        since = {k: one for k, one in self._said.items() if k >= index - every}
        slot = index // every % KEPT_SLOTS
        self._persist(f"said/{slot}", msgspec.msgpack.encode(since))
        self._persist("rounds", packed)

    def _advance_rounds(self) -> bool:
        """Take one round if every neighbour was heard; say whether one was taken."""
        rounds, state = self._work.rounds, self._state
        if rounds is None or state is None or rounds.finished(state):
            return False
        heard = self._heard.get(state.index, {})
        if len(heard) < len(self._neighbours):
            return False
        self._heard.pop(state.index, None)
        self._state = rounds.advance(state, heard)
        self._say()
        return True

    def _rounds_complete(self) -> bool:
        while self._advance_rounds():
            pass
        rounds = self._work.rounds
        assert rounds is not None
        over = rounds.finished(self._state)
        return over or (self._fallback and self._everybody_shown())

    def _take_answer(self) -> str:
        rounds = self._work.rounds
        assert rounds is not None
        if rounds.finished(self._state):
            self._answer = rounds.answer(self._state)
        else:
            self._keep_answer(self._total())
            self._answer = self._work.answer(self._answers, self.members)
        return self._propose()

    # agreeing

    def _propose(self) -> str:
        """Keep the answer; the lowest name tells everybody its own."""
        assert self._answer is not None
        self._persist("result", self._answer.tobytes())
        if self.me == min(self.members) and self._proposed() is None:
            self._publish(
                Result(party=self.me, epoch=0, numbers=np.array(self._answer))
            )
        return AGREEING

    def _all_agreed(self) -> bool:
        self._compare()
        if len(self._book.of(Agreed, 0)) < len(self.members):
            return False
        return self._signers().keys() >= set(self.members)

    def _signers(self) -> dict[str, bytes]:
        """Return who signed the proposed answer, and not some other one."""
        proposed = self._proposed()
        if proposed is None:
            return {}
        digest = Codec.digest(proposed.numbers)
        agreed = self._book.of(Agreed, 0)
        return {n: one.signature for n, one in agreed.items() if one.digest == digest}

    def _proposed(self) -> Result | None:
        return self._book.of(Result, 0).get(min(self.members))

    def _compare(self) -> None:
        """Sign the proposed answer if it is this party's own, within the tolerance."""
        proposed = self._proposed()
        if proposed is None or ("Agreed", 0, self.me) in self._book:
            return
        assert self._answer is not None
        gap = apart(proposed.numbers, self._answer)
        if not gap <= self.plan.tolerance < inf:
            told = f"{proposed.party!r} found another answer, {gap:.3g} away from this"
            allowed = self.plan.tolerance
            self._abort("result", f"{told} party's; the plan allows {allowed:.3g}")
            return
        digest = Codec.digest(proposed.numbers)
        self._publish(Agreed(party=self.me, epoch=0, digest=digest))

    def _finish(self) -> str:
        proposed = self._proposed()
        assert proposed is not None
        signatures = self._signers()
        kept = [proposed.numbers.tobytes(), self.members, signatures]
        self._persist("finished", msgspec.msgpack.encode(kept))
        self._wipe()
        self._out.append(Finish(proposed.numbers, self.members, signatures))
        return FINISHED

    def _missing(self) -> list[str]:
        """Return whom this party is waiting for."""
        shown = self._book.of(Masked, self.epoch)
        ready, agreed = self._book.of(Ready, self.epoch), self._book.of(Agreed, 0)
        have = {
            "greeting": self._joins.keys(),
            "sharing": self._edges.got.keys(),
            "confirming": self._edges.confirmations.keys(),
            "committing": ready.keys(),
            "summing": shown.keys(),
            "agreeing": agreed.keys(),
        }.get(self.phase, self._heard.get(getattr(self._state, "index", -1), {}).keys())
        local = self.phase in {"sharing", "confirming", "iterating"}
        waiting = self._neighbours if local else self.members
        silent = [name for name in waiting if name not in have and name != self.me]
        if self.phase == "greeting":
            mute = set(self._neighbours) - self._echoed
            silent = [n for n in self.members if n in mute or n in silent]
        return silent

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """Whom this party is waiting for."""
        return tuple(self._missing())

    def _whom(self) -> str:
        """Say who left of its own accord; if nobody did, whom this party waited for."""
        quits = self._book.all(Quit)
        first = [one for one in quits if one.reason not in {"peer", "timeout"}]
        left = [f"{one.party!r} left: {one.reason}" for one in first or quits]
        if first:
            return f"{'; '.join(left)}; this party was {self.phase}"
        missing = listed(self._missing()) or "nobody"
        return "; ".join((f"waited for {missing} while {self.phase}", *left))
