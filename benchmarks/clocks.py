"""Times of several contestants, taken in turn: machines are noisy, ratios less so."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

PACKAGES = ("veilsum", "numpy", "scipy", "numba", "jax")

# Sizes that mean nothing: whether everything still runs, in a second or two.
SMOKE = "--smoke"
SMOKE_VARIABLE = "VEILSUM_BENCHMARKS_SMOKE"

Action = Callable[[], object]
T = TypeVar("T")


def sized(usual: T, smoke: T) -> T:
    """Return a size, or with `--smoke` the small one; processes started here inherit.

    The word is taken off the command line: every benchmark has it.
    """
    if SMOKE in sys.argv[1:]:
        sys.argv.remove(SMOKE)
        os.environ[SMOKE_VARIABLE] = "1"
    return smoke if os.environ.get(SMOKE_VARIABLE) else usual


# Whatever can be run for a number of iterations.
Runs = Callable[[int], object]


@dataclass(frozen=True)
class Lap:
    """Seconds that one call took.

    Attributes:
        wall: by the clock on the wall.
        processor: of all threads together.
    """

    wall: float
    processor: float

    def per(self, count: int) -> Lap:
        """Return the time of one of so many equal parts, in microseconds."""
        return Lap(self.wall / count * 1e6, self.processor / count * 1e6)


@dataclass(frozen=True)
class Laps:
    """All laps of one contestant; those of others were run between them."""

    laps: tuple[Lap, ...]

    @property
    def wall(self) -> float:
        """The median."""
        return statistics.median(lap.wall for lap in self.laps)

    @property
    def processor(self) -> float:
        """The median."""
        return statistics.median(lap.processor for lap in self.laps)

    def over(self, others: Laps) -> Lap:
        """Return how many times the others' time this is: medians over the rounds.

        >>> Laps((Lap(4.0, 1.0), Lap(6.0, 3.0))).over(Laps((Lap(2.0, 1.0),) * 2))
        Lap(wall=2.5, processor=2.0)
        """
        pairs = list(zip(self.laps, others.laps, strict=True))
        return Lap(
            statistics.median(a.wall / b.wall for a, b in pairs),
            statistics.median(a.processor / b.processor for a, b in pairs),
        )


def clocked(action: Action) -> Lap:
    """Return how long an action takes."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return Lap(time.perf_counter() - wall, time.process_time() - processor)


# With fewer iterations the start would be timed.
FEWEST = 3


def suitable_count(runs: Runs, *, seconds: float, most: int) -> int:
    """Return for how many iterations to run something, to take about so long."""
    runs(FEWEST)  # whatever is compiled or cached, is so now
    each = clocked(lambda: runs(FEWEST)).wall / FEWEST
    return int(min(max(seconds / each, FEWEST), most))


def in_turn(
    contestants: Mapping[str, Callable[[], Lap]], *, repeats: int
) -> dict[str, Laps]:
    """Return the laps of all who run once and say how long it took, one a round."""
    found: dict[str, list[Lap]] = {name: [] for name in contestants}
    for _ in range(sized(repeats, 1)):
        for name, run in contestants.items():
            found[name].append(run())
    return {name: Laps(tuple(laps)) for name, laps in found.items()}


def clock(action: Action) -> float:
    """Return the seconds that an action takes, by the clock on the wall."""
    return clocked(action).wall


def side_by_side(ours: Action, floor: Action, repeats: int) -> dict[str, float]:
    """Time both in turn after a warm start; the ratio is that of the rounds."""
    runs = {"ours": ours, "floor": floor}
    for action in runs.values():
        action()
    laps = in_turn(
        {name: lambda action=action: clocked(action) for name, action in runs.items()},
        repeats=repeats,
    )
    return {
        "ours_s": laps["ours"].wall,
        "floor_s": laps["floor"].wall,
        "ratio": laps["ours"].over(laps["floor"]).wall,
    }


def machine() -> dict[str, Any]:
    """Return the day, the machine, how busy it is, and versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": usable_cores(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "load": _load(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _load() -> float | None:
    """Return how many processes wanted a core in the last minute, where it is known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
