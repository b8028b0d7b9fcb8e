"""Log of refusals, with a limit on lines so that no caller can fill it."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from veilsum.net.handshake import ConnectionLimits

LOG = logging.getLogger("veilsum.net")
# Sources that are told apart at a time; the oldest is forgotten.
SOURCES = 1024
# Shares of the log that one event has, from all sources together.
SHARES = 20


@dataclass(slots=True)
class _RefusalWindow:
    start: float
    logged: int = 0
    withheld: int = 0


class ConnectionRefusalLog:
    """A log of refusals with so many lines for each source and minute."""

    def __init__(
        self, limits: ConnectionLimits, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._clock = limits, clock
        self._windows: OrderedDict[str, _RefusalWindow] = OrderedDict()
        self.count = 0

    def note(self, source: str, event: str, **about: str) -> None:
        """Log an event, unless its source has had its share of the log."""
        self.count += 1
        if self.admits(source) and self.admits(f"all sources: {event}", SHARES):
            LOG.warning(event, extra=about)

    def admits(self, source: str, shares: int = 1) -> bool:
        """Count a line of a source; return whether it may be logged.

        Args:
            source: the origin of the line.
            shares: multiples of `ConnectionLimits.refusals` that it may log per window.
        """
        window = self._window(source)
        if window.logged >= shares * self._limits.refusals:
            window.withheld += 1
            return False
        window.logged += 1
        return True

    def _window(self, source: str) -> _RefusalWindow:
        """Return a source's count, a new one once its time is over."""
        now, found = self._clock(), self._windows.get(source)
        if found is None or now - found.start >= self._limits.refusals_seconds:
            if found is not None and found.withheld:
                about = {"source": source, "count": str(found.withheld)}
                LOG.warning("more refusals were not logged", extra=about)
            found = self._windows[source] = _RefusalWindow(now)
        self._windows.move_to_end(source)
        if len(self._windows) > SOURCES:
            self._windows.popitem(last=False)
        return found


class LogCap(logging.Filter):
    """Limits the lines that a library logs about the same event.

    Callers can provoke such lines: asyncio logs every connection that it cannot accept,
    uvicorn every request that is not HTTP.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__()
        self._shares = ConnectionRefusalLog(limits)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is within its event's share."""
        event = str(record.msg).partition("\n")[0]
        return self._shares.admits(f"{record.name}: {event}")


_CAP = LogCap(ConnectionLimits())


def cap_network_logs(*names: str) -> None:
    """Limit the lines per event that libraries log under these names."""
    for name in names:
        logging.getLogger(name).addFilter(_CAP)


def caller_origin(host: str) -> str:
    """Return the part of a host's address that its owner cannot choose freely.

    >>> caller_origin("2001:db8:1:2:3:4:5:6"), caller_origin("192.0.2.7")
    ('2001:db8:1:2::/64', '192.0.2.7')
    """
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))
