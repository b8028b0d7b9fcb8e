"""Time: do frames, or clocks, tell how many rows a party has?

When a frame is sent, and how long it is, must not depend on rows: machines are run on
two dealings of the same tables, in which parties have more or fewer rows than before,
and whoever sees all frames guesses which it was.

A processor is another matter. To look at more rows takes longer, and no code hides it:
how much longer is measured and said, beside what sampling of masks takes. These lines
are measurements on the machine at hand, and promise nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from veilsum.audit.attack import Outcome
from veilsum.audit.late_unmasking import AuditedLoopback
from veilsum.audit.question import AuditRehearsal, SkippedAttack
from veilsum.drivers.faults import Faults
from veilsum.drivers.loopback import LoopbackWorld
from veilsum.masks.masking import ShareStreams, draw_mask_shares

ATTACK = "timing"
# A party has so many times the rows of another.
TIMES = 3
# Tables of so many times the fewest rows are timed, each so often; the quickest counts,
# since whatever else a machine does only adds to it.
LENGTHS, REPEATS = (1, 8, 32, 128), 5
MOST_ROWS = 50_000
# A slope is called one if it is this many times its error.
CLEARLY = 4.0


@dataclass(frozen=True)
class TimingSlope:
    """Measured increase of a run time for each additional row.

    Attributes:
        rows: number of rows of each timed table.
        seconds: shortest time for each of these tables.
        slope: seconds for each additional row.
        error: standard error of the slope.
    """

    about: str
    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    slope: float
    error: float

    @classmethod
    def of(
        cls, about: str, rows: Sequence[int], seconds: Sequence[float]
    ) -> TimingSlope:
        """Return the line of least squares through some measurements.

        >>> found = TimingSlope.of("a job", [1, 2, 3], [2.0, 4.0, 6.0])
        >>> round(found.slope, 9), found.is_real
        (2.0, True)
        """
        x, y = np.array(rows, dtype=float), np.array(seconds)
        x = x - x.mean()
        slope = float(x @ y / (x @ x))
        left = y - y.mean() - slope * x
        error = float(np.sqrt(left @ left / max(len(x) - 2, 1) / (x @ x)))
        return cls(about, tuple(rows), tuple(seconds), slope, error)

    @property
    def is_real(self) -> bool:
        """Whether it is more than what measurements differ by."""
        return self.slope > CLEARLY * self.error

    @property
    def words(self) -> str:
        found = f"{self.about}: {self.slope:.2g} s for a row more (+- {self.error:.1g})"
        if not self.is_real:
            return f"{found}, which measurements do not tell from none"
        return (
            f"{found}; whoever sees when a party answers learns about how many rows it "
            "has"
        )


def play_frame_sizes(
    question: AuditRehearsal, *, coalition: Sequence[str], seed: int, trials: int
) -> tuple[Outcome | SkippedAttack, ...]:
    """Guess from all frames which honest party has how many rows."""
    honest = question.honest(coalition)
    if len(honest) < 2:
        return (
            SkippedAttack(ATTACK, "one honest party alone has nobody to exchange with"),
        )
    n_rows, _ = question.size
    if question.schema is None or question.at_most(TIMES * n_rows) == n_rows:
        return (SkippedAttack(ATTACK, "all parties have equally many rows, as agreed"),)
    told = 0
    for trial in range(trials):
        held, _ = question.sound((seed, trial), {honest[0]: TIMES * n_rows})
        turned = {name: held[honest[k - 1]] for k, name in enumerate(honest)}
        worlds = [
            _timed_attack_world(question, one, trial)
            for one in (held, {**held, **turned})
        ]
        one, other = map(timing_frame_trace, worlds)
        told += one != other
    about = "which honest party has more rows, by times and lengths of frames"
    return (Outcome(ATTACK, tuple(coalition), about, trials, told, 0.0, "frames"),)


def _timed_attack_world(
    question: AuditRehearsal, held: Any, seed: int
) -> LoopbackWorld:
    driver = AuditedLoopback(seed=seed, faults=Faults())
    question.ask(held, driver=driver)
    return driver.worlds[0]


def timing_frame_trace(
    world: LoopbackWorld,
) -> list[tuple[float, str, str | None, int]]:
    """Return when each frame was sent, from whom to whom, and how long it was."""
    return [
        (event.time, event.party, event.peer, len(event.detail))
        for event in world.history
        if event.what == "send"
    ]


def attack_timings(question: AuditRehearsal, seed: int) -> tuple[TimingSlope, ...]:
    """Time what a party does with tables of some lengths, on this processor."""
    n_rows, spread = question.size
    lengths = [question.at_most(min(k * n_rows, MOST_ROWS)) for k in LENGTHS]
    rows = sorted(dict.fromkeys(lengths))
    if question.schema is None or len(rows) < 3:
        return ()
    _, played = question.sound(seed)
    tables = [question.held((seed, 13, k), n, spread) for k, n in enumerate(rows)]

    topology, size = played.result.terms.topology, played.result.recipe.size

    def answer(place: int) -> Any:
        return question.given(played, [tables[place]])

    def sample(place: int) -> Any:
        streams = ShareStreams(place)
        return draw_mask_shares(topology, played.law, streams, size=size, epoch=0)

    return tuple(
        TimingSlope.of(
            about, rows, [_quickest_attack_time(work, k) for k in range(len(rows))]
        )
        for about, work in (
            ("checking a table and answering every round", answer),
            ("sampling the masks of a round", sample),
        )
    )


def _quickest_attack_time(work: Callable[[int], Any], place: int) -> float:
    found = []
    for _ in range(REPEATS):
        start = process_time()
        work(place)
        found.append(process_time() - start)
    return min(found)
