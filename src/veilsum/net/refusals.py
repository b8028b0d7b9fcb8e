"""What is refused is logged, but nobody can fill the log."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from veilsum.net.hello import Limits

LOG = logging.getLogger("veilsum.net")
# Sources that are told apart at a time; the oldest is forgotten.
SOURCES = 1024


@dataclass(slots=True)
class _Window:
    start: float
    logged: int = 0
    withheld: int = 0


class Refusals:
    """A log of refusals with so many lines for each source and minute."""

    def __init__(
        self, limits: Limits, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._clock = limits, clock
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self.count = 0

    def note(self, source: str, event: str, **about: str) -> None:
        """Log an event, unless its source has had its share of the log."""
        self.count += 1
        window = self._window(source)
        if window.logged >= self._limits.refusals:
            window.withheld += 1
            return
        window.logged += 1
        LOG.warning(event, extra=about)

    def _window(self, source: str) -> _Window:
        """Return a source's count, a new one once its time is over."""
        now, found = self._clock(), self._windows.get(source)
        if found is None or now - found.start >= self._limits.refusals_seconds:
            if found is not None and found.withheld:
                about = {"source": source, "count": str(found.withheld)}
                LOG.warning("more refusals were not logged", extra=about)
            found = self._windows[source] = _Window(now)
        self._windows.move_to_end(source)
        if len(self._windows) > SOURCES:
            self._windows.popitem(last=False)
        return found
