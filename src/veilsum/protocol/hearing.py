"""Messages from others: each is checked first, and changes something only then."""

from __future__ import annotations

from typing import cast

import numpy as np

from veilsum.errors import PeerProtocolError
from veilsum.numbers.arrays import listed
from veilsum.protocol.book import EPOCHAL
from veilsum.protocol.effects import Send
from veilsum.protocol.losing import Losing
from veilsum.protocol.messages import (
    Agreed,
    Confirm,
    Deposit,
    Down,
    Join,
    Lost,
    Masked,
    Message,
    Numbers,
    Quit,
    Ready,
    Record,
    RecordId,
    Result,
    Round,
    Share,
    Status,
    Up,
)
from veilsum.protocol.phases import BEFORE_COMMIT, BEFORE_READY, CLOSED, SUMMING

# What a neighbour lacks of these it is sent whatever epoch it is in.
TIMELESS = frozenset({"Join", "Lost", "Quit", "Result", "Agreed"})

_HANDLERS: dict[type[Message], str] = {
    Confirm: "_on_confirm",
    Deposit: "_on_deposit",
    Up: "_on_tree",
    Down: "_on_tree",
}


class Hearing(Losing):
    """What a party makes of a message."""

    def _take(self, sender: str, message: Message, frame: bytes) -> bool:
        """Give a message to its handler; say whether it may have moved something.

        A message has one encoding: the frame it came in is kept and passed on as it is.
        """
        kind = type(message)
        if kind is Round:
            return self._on_round(sender, cast(Round, message))
        if isinstance(message, Status):
            self._on_status(sender, message)
        elif isinstance(message, Record):
            self._on_record(sender, message, frame)
        elif kind is Share and self.phase not in CLOSED:
            self._on_share(sender, cast(Share, message), frame)
        elif self.phase not in CLOSED:
            getattr(self, _HANDLERS[kind])(sender, message)
        return True

    def _on_status(self, sender: str, status: Status) -> None:
        """Learn where a neighbour is, and send what it lacks."""
        if self._peers.get(sender) != status.incarnation:
            # What was on its way went to a start that is no more.
            self._recent = {one for one in self._recent if one[0] != sender}
        self._peers[sender] = status.incarnation
        if status.echo == self._incarnation:
            self._echoed.add(sender)
        if self.phase not in CLOSED and (reason := self._outdated(sender, status)):
            self._abort("stale", reason)
        if status.reply or status.echo != self._incarnation:
            self._ask(reply=False, to=[sender])
        self._repair(sender, status)

    def _outdated(self, sender: str, status: Status) -> str | None:
        """Say how a neighbour knows more of this party than it knows of itself."""
        own = [r for r in status.records if r[2] == self.me and not self._recalls(r)]
        if own:
            return f"{sender!r} holds a {own[0][0]} of this party that it does not know"
        lag = 0 if self._work.rounds is None else self.plan.checkpoint
        drawn = status.share < self.epoch or sender in self._edges.sent
        if self.phase in BEFORE_COMMIT and not drawn:
            return f"{sender!r} holds a share of this party that it does not know"
        # Rounds since the state was kept last are repeated, and come out the same.
        if status.epoch == self.epoch and status.round > self._latest_said() + lag:
            return f"{sender!r} is ahead of this party's own rounds"
        return None

    def _recalls(self, own: RecordId) -> bool:
        """Say whether this party knows of a record of its own, or holds its sum."""
        kind, epoch, _ = own
        summed = epoch // self._width < len(self._answers)
        deposited = kind == "Masked" and self._own_masked(epoch) is not None
        return own in self._book or deposited or (kind in EPOCHAL and summed)

    def _latest_said(self) -> int:
        """Return the last round this party has told; along a tree there is only 0."""
        if self._work.rounds is None:
            return 0
        return max(self._said, default=-1)

    def _repair(self, sender: str, status: Status) -> None:
        for record_id in self._book.lacking(status.records):
            kind, epoch, _ = record_id
            # A party that has ended resends nothing by itself: it answers every time.
            recent = self.phase not in CLOSED and (sender, record_id) in self._recent
            if not recent and (kind in TIMELESS or epoch >= status.epoch):
                self._out.append(Send(sender, self._book.frame(record_id)))
                self._recent.add((sender, record_id))
        if status.epoch == self.epoch and sender in self._edges.sent:
            self._repair_link(sender, status)
        if status.epoch == self.epoch and self._masked is not None:
            self._repair_rounds(sender, status)
        below = self.plan.spread == "tree" and sender in self._children()
        if below and self._passed_down and self._passed_down[0] == status.epoch:
            self._out.append(Send(sender, self._passed_down[1]))

    def _repair_link(self, sender: str, status: Status) -> None:
        if status.share < self.epoch:
            self._send(sender, self._edges.sent[sender])
        if status.confirm < self.epoch and sender in self._edges.got:
            self._send(sender, self._edges.confirmation(sender))

    def _repair_rounds(self, sender: str, status: Status) -> None:
        for index, frame in self._said.items():
            if index > status.round:
                self._out.append(Send(sender, frame))
        if status.round < 0 and self._went_up and sender == self._parent():
            self._send(sender, Up(self.epoch, self._subtree()))

    def _on_record(self, sender: str, record: Record, frame: bytes) -> None:
        """Check, keep and pass on what everybody gets."""
        known = self._book.get(record.id)
        if known is not None and known.signature == record.signature:
            return
        if isinstance(record, Join):
            self._check_plan(sender, record)
        self._book.check(record, sender)
        if known is not None:
            raise PeerProtocolError(
                record.party, f"signed two different {record.id[0]} records"
            )
        self._check_record(sender, record)
        self._book.add(record, frame)
        self._send_all(record, frame, but=self._spared(sender, record))
        match record:
            case Join():
                self._joins[record.party] = record
            case Lost():
                self._on_lost(record)
            case Quit():
                self._on_quit(record)
            case Masked():
                self._on_masked(record)

    def _spared(self, sender: str, record: Record) -> set[str]:
        """Return who has a record already: the author's neighbours, from itself.

        Should the author have vanished while it told them, they will ask.
        """
        told = self.plan.topology.neighbours(sender) if sender == record.party else ()
        return {sender, record.party, *told}

    def _check_record(self, sender: str, record: Record) -> None:
        if isinstance(record, Join):
            self._check_join(record)
        elif isinstance(record, Lost):
            self._check_lost(record)
        elif isinstance(record, Masked | Ready):
            self._check_vote(sender, record)
        elif isinstance(record, Result | Agreed):
            self._check_answer(sender, record)
        elif isinstance(record, Quit):
            self._check_quit(sender, record)

    def _check_quit(self, sender: str, quit_: Quit) -> None:
        if quit_.reason not in Quit.reasons:
            raise PeerProtocolError(sender, "left for a reason nobody knows")
        # Whatever the epoch: a party must not be able to fill the others' memory.
        if any(one.party == quit_.party for one in self._book.all(Quit)):
            raise PeerProtocolError(quit_.party, "has left already")

    def _check_vote(self, sender: str, record: Masked | Ready) -> None:
        if isinstance(record, Masked):
            self._check_numbers(sender, record.numbers)
            if self._own_masked(record.epoch) is not None:
                return
        self._check_epoch(sender, record.epoch)

    def _check_answer(self, sender: str, record: Result | Agreed) -> None:
        if record.epoch != 0:
            raise PeerProtocolError(sender, "an answer belongs to the whole run")
        if isinstance(record, Result):
            wanted = (np.dtype(np.float64), self.plan.answer_size)
            self._check_kind(sender, record.numbers, wanted)

    def _check_plan(self, sender: str, join: Join) -> None:
        """Say whose plans differ; no signature holds under another plan."""
        if join.plan != self.plan.digest:
            raise PeerProtocolError(
                sender,
                f"{join.party!r} has the plan {join.plan.hex()[:16]}, {self.me!r} has "
                f"{self.plan.digest.hex()[:16]}: compare the two files",
            )

    def _check_join(self, join: Join) -> None:
        if join.party in self._joins:
            raise PeerProtocolError(
                join.party, "two parties go by this name, or one has lost its memory"
            )

    def _check_lost(self, lost: Lost) -> None:
        join = self._joins.get(lost.party)
        if join is None or join.incarnation != lost.incarnation:
            raise PeerProtocolError(
                lost.party, "gives an epoch up but is not the start that joined"
            )
        if ("Ready", lost.epoch, lost.party) in self._book:
            raise PeerProtocolError(
                lost.party, f"gives up epoch {lost.epoch}, which it was ready for"
            )
        if not set(lost.lost) <= set(self.plan.parties) - {lost.party}:
            raise PeerProtocolError(lost.party, "cannot lose itself or a stranger")
        if self.phase not in CLOSED and not self._droppable():
            raise PeerProtocolError(
                lost.party, "drops a party after the commit, which nobody may"
            )

    def _check_epoch(self, sender: str, epoch: int) -> None:
        """Refuse what is past, or further ahead than the next sum."""
        width = self._width
        if not self.epoch <= epoch < (self.epoch // width + 2) * width:
            when = "past" if epoch < self.epoch else "future"
            raise PeerProtocolError(
                sender, f"speaks of the {when} epoch {epoch}; now is {self.epoch}"
            )

    def _check_numbers(self, sender: str, numbers: Numbers) -> None:
        self._check_kind(sender, numbers, (self.plan.law.dtype, self.plan.size))

    def _check_kind(
        self, sender: str, numbers: Numbers, wanted: tuple[np.dtype[np.generic], int]
    ) -> None:
        if (numbers.dtype, numbers.size) != wanted:
            raise PeerProtocolError(
                sender,
                f"expected {wanted[1]} numbers of type {wanted[0]}, found "
                f"{numbers.size} of type {numbers.dtype}",
            )

    def _on_share(self, sender: str, share: Share, frame: bytes) -> None:
        width = self._width
        if share.epoch == self.epoch + width and self.phase == SUMMING:
            self._check_numbers(sender, share.numbers)
            self._early[sender] = (share, frame)
            return
        self._check_now(sender, share.epoch)
        if share.lost != self.lost:
            raise PeerProtocolError(
                sender,
                f"goes on without {listed(share.lost) or 'nobody'}, {self.me!r} "
                f"without {listed(self.lost) or 'nobody'}",
            )
        self._edges.check_share(sender, share)
        if sender not in self._edges.got and self.phase in BEFORE_READY:
            self._edges.got[sender] = share
            self._persist(f"got/{self.epoch}/{sender}", frame)

    def _check_now(self, sender: str, epoch: int) -> None:
        if epoch != self.epoch:
            when = "past" if epoch < self.epoch else "future"
            raise PeerProtocolError(
                sender, f"speaks of the {when} epoch {epoch}; now is {self.epoch}"
            )
        if sender not in self._neighbours:
            raise PeerProtocolError(sender, "has been lost and is not in this epoch")

    def _on_confirm(self, sender: str, confirm: Confirm) -> None:
        self._check_now(sender, confirm.epoch)
        if self.phase not in BEFORE_READY:
            return
        both = sender in self._edges.got and sender in self._edges.sent
        if both and not self._edges.agrees(sender, confirm):
            raise PeerProtocolError(
                sender, "confirms other shares than those held here"
            )
        self._edges.confirmations[sender] = confirm

    def _on_round(self, sender: str, message: Round) -> bool:
        """Keep a neighbour's numbers; say whether the round is complete."""
        if self.phase in CLOSED:
            return False
        self._check_now(sender, message.epoch)
        rounds = self._work.rounds
        if rounds is None:
            raise PeerProtocolError(sender, "sends rounds, and the plan has none")
        index, numbers = message.index, message.numbers
        self._check_kind(sender, numbers, rounds.expected(index, self._graph))
        now = 0 if self._state is None else self._state.index
        # A party that repeats rounds hears everything again that it missed.
        if index > now + 1 + self.plan.checkpoint:
            raise PeerProtocolError(sender, f"is at round {index}, this party at {now}")
        if index < now:
            return False
        heard = self._heard.setdefault(index, {})
        heard[sender] = numbers
        return index == now and len(heard) == len(self._neighbours)

    def _on_deposit(self, sender: str, deposit: Deposit) -> None:
        masked = deposit.masked
        if masked.party != sender:
            raise PeerProtocolError(sender, f"deposits for {masked.party!r}")
        self._check_now(sender, masked.epoch)
        self._check_numbers(sender, masked.numbers)
        self._book.check(masked, sender)
        self._deposits[sender] = masked

    def _on_tree(self, sender: str, message: Up | Down) -> None:
        self._check_now(sender, message.epoch)
        self._check_numbers(sender, message.numbers)
        if self.plan.spread != "tree":
            raise PeerProtocolError(sender, "sums along a tree, and the plan has none")
        if isinstance(message, Up) and sender in self._children():
            self._from_below.setdefault(sender, message.numbers)
        elif isinstance(message, Down) and sender == self._parent():
            self._from_above = message.numbers
        else:
            raise PeerProtocolError(sender, "is elsewhere in the tree")
