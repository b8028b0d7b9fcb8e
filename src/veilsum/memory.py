"""Available memory, and the rejection of work that needs more, before it starts.

The error states both numbers. Work that does not fit is rejected while nothing is lost:
otherwise the system would kill this program, or others, in the middle.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from veilsum.errors import MemoryShortError

# Of what is free, how much may be asked for: the rest is for what no estimate counts.
SHARE = 0.9
# Below so many bytes nobody asks.
SMALL = 1 << 28

MEMINFO, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def check_memory_room(wanted: float, what: str) -> None:
    """Refuse work that needs more bytes than are free, where that is known."""
    if wanted < SMALL or (free := available_memory()) is None or wanted <= SHARE * free:
        return
    raise MemoryShortError(
        f"{what} takes about {memory_in_words(wanted)} of memory, and "
        f"{memory_in_words(free)} are "
        "free here: ask for less (fewer parties, neighbours, coordinates, executions), "
        "or use a machine with more",
        code="memory-short",
    )


def available_memory() -> int | None:
    """Return how many bytes may still be taken; None where the system does not say.

    Inside a container its own limit counts, too.
    """
    found = [
        one
        for one in (_memory_of_machine(), _memory_of_control_group())
        if one is not None
    ]
    return min(found, default=None)


def _memory_of_machine() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
        told = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(told.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _memory_of_control_group() -> int | None:
    try:
        most = int((GROUP / "memory.max").read_text())
        return max(0, most - int((GROUP / "memory.current").read_text()))
    except (OSError, ValueError):  # no group, or no limit: the word max
        return None


def peak_memory() -> int | None:
    """Return the most bytes that this process has had so far; None on Windows."""
    try:
        import resource
    except ImportError:
        return None
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_in_words(count: float) -> str:
    """Return a number of bytes for a sentence.

    >>> memory_in_words(6.4e9), memory_in_words(25_600_000)
    ('6.4 GB', '26 MB')
    """
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
