"""Logs of a real party: a line for people, or one JSON object for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

# Every attribute that logging itself gives a record; whatever else is there is a field.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was said beside the event's name."""
    return {key: v for key, v in vars(record).items() if key not in _USUAL}


class ForPeople(logging.Formatter):
    """The event, then its fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        found = (f"{key}={value}" for key, value in fields_of(record).items())
        return " ".join((" ", record.getMessage(), *found)).rstrip()


class ForMachines(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **fields_of(record),
        }
        return json.dumps(line, default=str)


def set_up(*, style: str) -> None:
    """Send the network's events, and the event loop's own, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(ForMachines() if style == "json" else ForPeople())
    for name in ("veilsum.net", "asyncio"):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.propagate = False
    level = logging.INFO if style == "json" else logging.WARNING
    logging.getLogger("veilsum.net").setLevel(level)
