"""The neighbours as this start of a party knows them, and what is on its way there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from veilsum.errors import PeerProtocolError
from veilsum.protocol.book import RecordBook
from veilsum.protocol.effects import Effect, Send
from veilsum.protocol.messages import Record, RecordId, Status

NOBODY = bytes(16)

# A neighbour that sends so many messages which no honest party sends is heard no more.
MOST_REFUSED = 50
# So many of a neighbour's questions are answered between two of one's own.
MOST_ANSWERS = 32
# So many of its records are looked at, and not kept, in the same time.
MOST_WASTED = 200

# What a neighbour lacks of these it is sent whatever epoch it is in.
TIMELESS = frozenset({"Join", "Lost", "Quit", "Result", "Agreed"})


class ProtocolPeers:
    """State of the neighbours at each link, and of the exchange with them.

    Attributes:
        names: all neighbours of the plan; lost ones are included and kept informed.
        incarnation: this start of the party itself.
        continues: whether all starts of the party are one, as `Machine` has it.
        echoed: neighbours that know of this start, and so of everything that it may not
            know; where all starts are one, also those that reported knowing of none.
        claims: by neighbour: items of this party that it claims to hold and that this
            party does not know of. No other party confirms a claim; while it stands,
            nothing from the neighbour counts as an echo.
        faults: by party: its first act that no honest party commits.
        in_vain: by neighbour: number of its messages without effect, whatever the
            cause: known, untimely, or requested too often.
        bringing: neighbours that sent something since the last resend; more is on its
            way.
        compared: neighbours that asked since the last resend and were answered.
    """

    def __init__(
        self, names: tuple[str, ...], incarnation: bytes, *, continues: bool = False
    ) -> None:
        self.names, self.incarnation = names, incarnation
        self.continues = continues
        self.echoed: set[str] = set()
        self.claims: dict[str, str] = {}
        self.faults: dict[str, str] = {}
        self.in_vain = Counter[str]()
        self.bringing: set[str] = set()
        self.compared: set[str] = set()
        self._refused = Counter[str]()
        self._answers = Counter[str]()
        self._wasted = Counter[str]()
        self._present: dict[str, bytes] = {}
        # Records on their way to a neighbour: not to be sent again before a resend.
        self._under_way: set[tuple[str, RecordId]] = set()
        # By neighbour: what was left to others, and since which resend.
        self._left: dict[str, dict[RecordId, int]] = {}
        self._resends = 0

    def present(self, name: str) -> bytes:
        """Return a neighbour's present start, as far as it is known."""
        return self._present.get(name, NOBODY)

    def have_echoed(self, names: Iterable[str]) -> bool:
        return self.echoed.issuperset(names)

    def is_deaf_to(self, sender: str) -> bool:
        """Say whether a neighbour has lost the right to be heard."""
        return self._refused[sender] >= MOST_REFUSED

    def blame(self, sender: str, error: PeerProtocolError) -> None:
        """Note a message that no honest party signs or passes on."""
        self.faults.setdefault(error.party, str(error))
        self._refused[sender] += 1

    def may_be_answered(self, sender: str) -> bool:
        """Count a neighbour's question; say whether it has asked too often."""
        self._answers[sender] += 1
        may = self._answers[sender] <= MOST_ANSWERS
        self.in_vain[sender] += not may
        return may

    def waste(self, sender: str) -> None:
        """Count a record that came to nothing: its signature was looked at."""
        self._wasted[sender] += 1
        self.in_vain[sender] += 1

    def has_wasted(self, sender: str) -> bool:
        """Say whether a neighbour's records have come to nothing too often."""
        return self._wasted[sender] >= MOST_WASTED

    def hear(self, sender: str, status: Status, claim: str | None) -> None:
        """Learn of a neighbour's present start, and of what it says of this party."""
        if self._present.get(sender) != status.incarnation:
            self.reconnect(
                sender
            )  # what was on its way went to a start that is no more
        self._present[sender] = status.incarnation
        if sender in self.echoed:
            return
        self.claims.pop(sender, None)
        if claim is not None:
            self.claims[sender] = claim
        elif status.echo == self.incarnation or (
            self.continues and status.echo == NOBODY
        ):
            self.echoed.add(sender)

    def reconnect(self, name: str) -> None:
        """Count nothing as on its way to a neighbour: the link is a new one."""
        self._under_way = {one for one in self._under_way if one[0] != name}
        self.compared.discard(name)

    def lose_patience(self) -> None:
        """Count nothing as on its way to anybody, nor anything of theirs."""
        self._resends += 1
        self.bringing.clear()
        self.compared.clear()
        self._under_way.clear()
        self._answers.clear()
        self._wasted.clear()

    def tell(
        self, record: Record, frame: bytes, but: Collection[str] = ()
    ) -> list[Effect]:
        to = [name for name in self.names if name not in but]
        record_id = record.id
        self._under_way.update((name, record_id) for name in to)
        return [Send(name, frame) for name in to]

    def repair(
        self,
        sender: str,
        status: Status,
        book: RecordBook,
        *,
        every_time: bool,
        nearer: Collection[str] = (),
    ) -> list[Effect]:
        """Give a neighbour the records that it lacks, unless they are on their way.

        Where all meet at once, everybody lacks most Joins: those of `nearer` come to it
        without this party. What it still lacks after a resend it is given.
        """
        out: list[Effect] = []
        before, self._left[sender] = self._left.get(sender, {}), {}
        if not (lacking := book.lacking(status.records)):
            return out
        held = {one[:3] for one in status.records}
        joined = {one[2] for one in status.records if one[0] == "Join"}
        for record_id in lacking:
            kind, epoch, author = record_id
            if kind == "Join" and author in nearer and author not in joined:
                since = before.get(record_id, self._resends)
                self._left[sender][record_id] = since
                if since == self._resends:
                    continue
            under_way = not every_time and (sender, record_id) in self._under_way
            # What is another one there proves something, however old.
            wanted = kind in TIMELESS or epoch >= status.epoch or record_id in held
            if not under_way and wanted:
                out.append(Send(sender, book.frame(record_id)))
                self._under_way.add((sender, record_id))
        return out
