"""What a party knows about the way to one neighbour."""

from __future__ import annotations

import asyncio
from random import uniform
from typing import TYPE_CHECKING

from veilsum.net.limits import Limits

if TYPE_CHECKING:
    from veilsum.agreement.consortium import Address
    from veilsum.net.link import Link


class Peer:
    """A neighbour: where it is, the connection with it, or why there is none.

    Attributes:
        name: who it is.
        address: where to call it; None if it only calls.
        designated: whether this party is the one to call.
        link: the connection, while there is one.
        trouble: why there is none, for a person.
        refused: whether one of the two did not want the other.
        refusal: why it was last refused, or refused this party; kept until they meet.
        sections: where its file differs from this party's.
        finished: whether it has said so.
        skewed: whether its clock has been complained about.
        yielded: whether another process under this party's own name took over.
    """

    def __init__(self, name: str, address: Address | None, *, designated: bool) -> None:
        self.name, self.address, self.designated = name, address, designated
        self.link: Link | None = None
        self.trouble = "never called"
        self.refused, self.refusal = False, ""
        self.sections: tuple[str, ...] = ()
        self.finished, self.yielded, self.skewed = False, False, False
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._down.set()

    def connect(self, link: Link) -> None:
        """Take a connection as the one."""
        self.link, self.refused, self.sections = link, False, ()
        self.refusal, self.finished = "", False
        self._down.clear()
        self._up.set()

    def disconnect(self, link: Link) -> bool:
        """Note that a connection is over; say whether it was the one."""
        if self.link is not link:
            return False
        self.link, self.trouble = None, link.ended
        self._up.clear()
        self._down.set()
        return True

    def fail(self, why: str, *, refused: bool, sections: tuple[str, ...] = ()) -> None:
        """Note why a call did not lead to a connection; one that stands is no news."""
        if self.link is None:
            self.trouble, self.refused = why, refused
            # Why, and what differed, is known until a good hello says otherwise.
            self.refusal = why if refused else self.refusal
            self.sections = sections or self.sections

    def condition(self) -> str:
        """Say in one clause how things are."""
        if self.link is not None:
            return "connected"
        if self.finished:
            return "not connected: it has finished"
        if self.refused:
            return f"refused: {self.trouble}"
        before = f"; before that it was refused: {self.refusal}" if self.refusal else ""
        return f"not connected: {self.trouble}{before}"

    async def lonely(self, seconds: float) -> None:
        """Wait until there has been no connection for so long."""
        while True:
            await self._down.wait()
            if seconds <= 0:
                return
            try:
                await asyncio.wait_for(self._up.wait(), seconds)
            except TimeoutError:
                return


class Backoff:
    """How long to wait before the next call: longer each time, and never in step."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._tries = limits, 0

    def settled(self) -> None:
        """Begin anew, after a connection that was a good one."""
        self._tries = 0

    def next(self) -> float:
        """Return seconds, drawn from all up to twice the bound before."""
        most = self._limits.first_retry * 2 ** min(self._tries, 30)
        self._tries += 1
        return uniform(0, min(most, self._limits.longest_retry))

    def slow(self) -> float:
        """Return seconds before a call that will not be welcome yet."""
        return self._limits.slow_retry * uniform(0.5, 1.5)
