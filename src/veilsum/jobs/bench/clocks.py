"""Times of several contestants, taken in turn: machines are noisy, ratios less so."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Action = Callable[[], object]
# Whatever can be run for a number of iterations.
Runs = Callable[[int], object]
Tick = Callable[[int], None]
# Told what comes next, in words, and its number of rounds; what it returns is told how
# many of these are over.
Watch = Callable[[str, int], Tick]


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
    contestants: Mapping[str, Callable[[], Lap]], *, repeats: int, tick: Tick
) -> dict[str, Laps]:
    """Return everybody's laps, one each in every round.

    Args:
        contestants: each runs once and says how long it took.
        repeats: how many rounds.
        tick: told the number of finished rounds.
    """
    found: dict[str, list[Lap]] = {name: [] for name in contestants}
    for done in range(repeats):
        for name, run in contestants.items():
            found[name].append(run())
        tick(done + 1)
    return {name: Laps(tuple(laps)) for name, laps in found.items()}
