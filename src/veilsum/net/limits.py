"""How much a party takes from others, and how long it waits for them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from veilsum.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one party's connections: bytes, seconds, counts.

    Attributes:
        max_frame: the longest frame taken from a neighbour; the plan's codec knows.
        queue_bytes: what may wait for one neighbour before frames are dropped.
        write_bytes: what is given to a connection before frames wait.
        inbox_frames: frames read ahead of the one that is looked at.
        strangers: connections at a time that have not said who they are.
        open_timeout: seconds for TCP, TLS and the upgrade to WebSocket.
        hello_timeout: seconds for the hello after that.
        close_timeout: seconds for a connection to end in good order.
        ping_interval: seconds between two signs of life.
        ping_timeout: seconds beyond that before a silent connection is dead.
        first_retry: the longest wait before a first new call; then it doubles.
        longest_retry: where the doubling ends.
        settled: seconds after which a connection counts as a good one.
        slow_retry: seconds between calls to somebody whose hello was refused.
        fallback: seconds without a connection before the end dials that need not.
        clock_skew: seconds two clocks may be apart before that is said.
        clock_limit: seconds beyond which a connection is refused for it.
        refusals: lines of the log about one source in `refusals_seconds`.
        refusals_seconds: the time in which these are counted.
    """

    max_frame: int = 1 << 24
    queue_bytes: int = 1 << 24
    write_bytes: int = 1 << 16
    inbox_frames: int = 16
    strangers: int = 64
    open_timeout: float = 10.0
    hello_timeout: float = 10.0
    close_timeout: float = 2.0
    ping_interval: float = 10.0
    ping_timeout: float = 10.0
    first_retry: float = 0.2
    longest_retry: float = 15.0
    settled: float = 30.0
    slow_retry: float = 10.0
    fallback: float = 5.0
    clock_skew: float = 300.0
    clock_limit: float = 3600.0
    refusals: int = 5
    refusals_seconds: float = 60.0

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise InvalidInputError(
                    f"a limit must be above 0, found {one.name} = "
                    f"{getattr(self, one.name)}"
                )

    def within(self, deadline: float) -> Limits:
        """Return limits under which a link is tried several times before a deadline.

        After that the protocol takes a party for lost that was only not called yet.
        """
        most = deadline / 4
        return replace(
            self,
            longest_retry=min(self.longest_retry, most),
            slow_retry=min(self.slow_retry, most),
            fallback=min(self.fallback, most),
        )

    @property
    def silence(self) -> float:
        """Seconds without a sign of life after which a connection is dead."""
        return self.ping_interval + self.ping_timeout
