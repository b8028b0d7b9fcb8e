"""Time the calls that people make, with default settings, beside their own code.

    python benchmarks/what_people_call.py                # everything (minutes)
    python benchmarks/what_people_call.py sums cox       # some of it
    python benchmarks/what_people_call.py --json         # one line of JSON each

Both sides run in turn. The table gives medians of processor time, summed over threads
and started programs: a busy machine changes it little. The load is printed beside it.
R, lme4 and survival are called where they are installed; otherwise the line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

import veilsum as vs
from clocks import Action, machine, sized

LONG = sized(100_000, 100)


@dataclass(frozen=True)
class Line:
    """One measurement beside its goal.

    Attributes:
        call: the call, with its size.
        ours: our figure in `unit`, or None where it could not be measured.
        theirs: the figure of the other side, if there is one.
        unit: "s" (processor time), "s wall" or "MB".
        goal: largest `ours`, or largest ratio where there is another side.
        note: the other side in words, or the reason why nothing was measured.
    """

    call: str
    ours: float | None
    theirs: float | None
    unit: str
    goal: float
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """`ours / theirs`, if there is another side."""
        if self.ours is None or self.theirs is None:
            return None
        return self.ours / self.theirs

    @property
    def holds(self) -> bool | None:
        """Whether the goal was reached, or None if nothing was measured."""
        figure = self.ours if self.theirs is None else self.ratio
        return None if figure is None else figure <= self.goal

    def to_row(self) -> str:
        """Return the row of the table."""
        ours, theirs, ratio = (
            "" if figure is None else f"{figure:.3g}"
            for figure in (self.ours, self.theirs, self.ratio)
        )
        verdict = {None: "not measured", True: "yes", False: "no"}[self.holds]
        goal = (
            f"{self.goal:g} x"
            if self.theirs is not None
            else f"{self.goal:g} {self.unit}"
        )
        return (
            f"| {self.call} | {ours} {self.unit} | {theirs} | {ratio} | {goal} "
            f"| {verdict} | {self.note} |"
        )


HEADING = """| Call | Ours | Other | Ratio | Goal | Reached | Other side |
|---|---|---|---|---|---|---|"""


def processor_seconds(action: Action) -> float:
    """Return the processor time of an action, with that of programs it started."""

    def so_far() -> float:
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(
            usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, both)
        )

    before = so_far()
    action()
    return so_far() - before


def in_turn(ours: Action, theirs: Action, repeats: int = 3) -> tuple[float, float]:
    """Return the medians of both sides' processor time after one warm call of each."""
    ours(), theirs()
    pairs = [
        (processor_seconds(ours), processor_seconds(theirs))
        for _ in range(sized(repeats, 1))
    ]
    return statistics.median(a for a, _ in pairs), statistics.median(
        b for _, b in pairs
    )


def median_of(action: Action, repeats: int = 3) -> float:
    """Return the median processor time of an action after one warm call."""
    action()
    return statistics.median(
        processor_seconds(action) for _ in range(sized(repeats, 1))
    )


def whole_numbers(parties: int, size: int) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(37)
    return {f"p{k}": stream.integers(0, 1_000, size) for k in range(parties)}


def sums() -> Iterator[Line]:
    """Sums of whole numbers: long ones, one over machines, one of twenty parties."""
    long, few = whole_numbers(10, LONG), whole_numbers(5, LONG)
    yield Line(
        f"vs.sum of 10 x {LONG:,} integers",
        median_of(lambda: vs.sum(long)),
        None,
        "s",
        1.0,
    )
    yield Line(
        f"the same over machines, 5 x {LONG:,}",
        median_of(lambda: vs.sum(few, driver="loopback")),
        None,
        "s",
        0.22,
        "0.22 s is Flower's SecAgg+: seeded masks, rounded values",
    )
    twenty = {f"p{k}": 10 + k for k in range(20)}
    yield Line(
        "one vs.sum of 20 parties", median_of(lambda: vs.sum(twenty)), None, "s", 0.25
    )


CALLS: dict[str, Callable[[], Iterator[Line]]] = {"sums": sums}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*CALLS, []], metavar="NAME")
    parser.add_argument("--json", action="store_true", help="one line of JSON each")
    given = parser.parse_args(words)
    facts = machine()
    if not given.json:
        print(
            f"{facts['date']}, {facts['cores']} cores ({facts['architecture']}), "
            f"Python {facts['python']}, load {facts['load']}\n\n{HEADING}"
        )
    for name in given.names or CALLS:
        for line in CALLS[name]():
            if given.json:
                document = asdict(line) | {
                    "ratio": line.ratio,
                    "load": os.getloadavg()[0],
                }
                print(json.dumps(document), flush=True)
            else:
                print(line.to_row(), flush=True)


if __name__ == "__main__":
    main()
