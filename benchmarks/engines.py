"""Measure every engine beside memory's own speed, and beside plain loops.

    python benchmarks/engines.py                    # minutes
    python benchmarks/engines.py --quick            # seconds, small sizes
    python benchmarks/engines.py --engine numba --json
    python benchmarks/engines.py --case "dgd, distances, 10,000"

All contestants of a case take turns; ratios are medians over the rounds. All agents
have six neighbours, drawn at random. There are three kinds of floor:

pass      reads two arrays and writes a third, all as large as everybody's estimates,
          once for each round of messages: weights and indices are not counted
touched   the same over as many bytes as an iteration must touch at least. dgd reads x,
          theta~ and the graph (an index and a weight for each neighbour and oneself)
          and writes x; tracking reads x, y and the graph and writes x and y.
          Neighbours' rows count once, as parts of x, though six of seven are read from
          somewhere else in memory. An iteration of tracking is two rounds, and what is
          told in the second exists only after the first: by rounds it writes and reads
          one more array and reads the graph again
loops     the method as a reader would write it, with scipy's sparse product or, for
          few agents, numpy's dense one
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from clocks import (
    FEWEST,
    SMOKE,
    Lap,
    Laps,
    Runs,
    clock,
    clocked,
    in_turn,
    machine,
    sized,
    suitable_count,
    usable_cores,
)
from veilsum.errors import InvalidInputError, NumericalError
from veilsum.minimise.engines.engine import Engine
from veilsum.minimise.engines.numpy import DENSE_PARTIES
from veilsum.minimise.engines.registry import available_engines, engine_for
from veilsum.numbers.arrays import PartyPoints
from workloads import FULL, LOOPS, NEIGHBOURS, QUICK, Case, Workload, workload

REPEATS, QUICK_REPEATS = 9, 3
# What each takes in each round, roughly.
SECONDS, QUICK_SECONDS = 0.5, 0.05
# Whoever is farther from the plain loop computes something else.
AGREEMENT = 1e-9
# Numbers for which a second core is worth its start.
PER_CORE = 2**14
FLOAT, INDEX = 8, 4


@dataclass(frozen=True, kw_only=True)
class Line:
    """One engine on one case; times are in microseconds for each iteration.

    Attributes:
        method: its name.
        costs: which.
        agents: n.
        dim: m.
        engine: its name.
        iterations: how many it was run for at once.
        chosen: whether it is the one that "auto" takes for this.
        microseconds: the engine's.
        pass_microseconds: a pass over memory for each round.
        touched_microseconds: a pass over what an iteration must touch.
        scipy_microseconds: the loop over scipy's sparse product.
        numpy_microseconds: the loop over numpy's dense one; None for many agents.
        passes: how many times a pass the engine takes.
        touched: how many times the pass over what it must touch.
        touched_by_rounds: the same by rounds; None for a method with one.
        faster_than_scipy: how many times.
        faster_than_numpy: how many times.
        wanted: conditions on these ratios, in words.
        met: whether they hold; None without any, and for engines not chosen.
    """

    method: str
    costs: str
    agents: int
    dim: int
    engine: str
    iterations: int
    chosen: bool
    microseconds: float
    pass_microseconds: float
    touched_microseconds: float
    scipy_microseconds: float
    numpy_microseconds: float | None
    passes: float
    touched: float
    touched_by_rounds: float | None
    faster_than_scipy: float
    faster_than_numpy: float | None
    wanted: str
    met: bool | None


def looped(work: Workload, weights: Any, iterations: int) -> PartyPoints:
    """Return estimates by the plain loop."""
    steps = work.steps[:iterations]
    return LOOPS[work.form](weights, work.slope, work.task.start, steps)


def floors(work: Workload) -> dict[str, Runs]:
    """Return what can be run for some iterations, by name."""
    agents, dim = work.task.start.shape
    rounds = work.task.method.rounds_per_iteration

    def touched(arrays: int, graphs: int) -> int:
        graph = (NEIGHBOURS + 1) * (FLOAT + INDEX)
        return agents * (arrays * dim * FLOAT + graphs * graph) // (3 * FLOAT)

    found: dict[str, Runs] = {
        "pass": passes(work.task.start.size, rounds),
        "touched": passes(touched(3 if rounds == 1 else 4, 1)),
        "scipy": partial(looped, work, work.weights),
    }
    if rounds > 1:
        found["by rounds"] = passes(touched(6, 2))
    if agents <= DENSE_PARTIES:
        found["numpy"] = partial(looped, work, work.weights.toarray())
    return found


def passes(size: int, times: int = 1) -> Runs:
    """Return what reads two arrays and writes a third, on all cores.

    Args:
        size: of each.
        times: in every iteration.
    """
    cores = max(1, min(usable_cores(), size // PER_CORE))
    first, second, third = np.ones(size), np.ones(size), np.empty(size)
    cuts = np.linspace(0, size, cores + 1).astype(int)
    parts = [slice(start, stop) for start, stop in pairwise(cuts)]

    def add(count: int, part: slice) -> None:
        one, other, into = first[part], second[part], third[part]
        for _ in range(count):
            np.add(one, other, out=into)

    def on_all_cores(iterations: int) -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(partial(add, times * iterations), parts))

    return on_all_cores


def measure(
    cases: Sequence[Case], *, engine: str | None, repeats: int, seconds: float
) -> list[Line]:
    """Return a line for each case and engine.

    Args:
        cases: one after the other.
        engine: only this one, or `auto`; without it all that are installed.
        repeats: how many rounds of all contestants; ratios are medians over them.
        seconds: that each should take in each of them, roughly.
    """
    lines = []
    for case in cases:
        print(f"measuring {case.words}", file=sys.stderr, flush=True)
        work = workload(case)
        engines = {f"engine {one.name}": one for one in _engines(work, engine)}
        for one in engines.values():
            _check(one, work)
        runs = {**floors(work), **{name: _runs(one) for name, one in engines.items()}}
        counts = {
            name: suitable_count(run, seconds=seconds, most=len(work.steps))
            for name, run in runs.items()
        }
        laps = in_turn(
            {name: partial(_lap, runs[name], counts[name]) for name in runs},
            repeats=repeats,
        )
        chosen = engine_for(work.task).name
        lines += [
            _line(case, one.name, laps, name, counts[name], chosen=one.name == chosen)
            for name, one in engines.items()
        ]
    return lines


def _engines(work: Workload, wanted: str | None) -> list[Engine]:
    """Return the one asked for, or all that can carry the task out."""
    if wanted is not None:
        return [engine_for(work.task, wanted)]
    found = []
    # Ranks have a page of their own: `mpi_ranks.py`.
    for name in (one for one in available_engines() if one != "mpi"):
        # An engine may be made for other costs or methods.
        with suppress(InvalidInputError):
            found.append(engine_for(work.task, name))
    return found


def _runs(engine: Engine) -> Runs:
    begun = engine.begin()
    return lambda count: engine.points(engine.advance(begun, count))


def _lap(runs: Runs, count: int) -> Lap:
    return clocked(partial(runs, count)).per(count)


def _check(engine: Engine, work: Workload) -> None:
    """Refuse an engine that does not arrive where the plain loop does."""
    found = engine.points(engine.advance(engine.begin(), FEWEST))
    away = float(np.abs(found - looped(work, work.weights, FEWEST)).max())
    if not away <= AGREEMENT:
        raise NumericalError(
            f"engine {engine.name} ends {away:.3g} away from the plain loop: its times "
            "would mean nothing"
        )


def _line(
    case: Case,
    engine: str,
    laps: dict[str, Laps],
    name: str,
    iterations: int,
    *,
    chosen: bool,
) -> Line:
    def times(floor: str) -> float | None:
        return laps[name].over(laps[floor]).wall if floor in laps else None

    def faster(loop: str) -> float | None:
        return laps[loop].over(laps[name]).wall if loop in laps else None

    passes, scipy, numpy = times("pass"), faster("scipy"), faster("numpy")
    return Line(
        method=case.method,
        costs=case.costs,
        agents=case.agents,
        dim=case.dim,
        engine=engine,
        iterations=iterations,
        chosen=chosen,
        microseconds=laps[name].wall,
        pass_microseconds=laps["pass"].wall,
        touched_microseconds=laps["touched"].wall,
        scipy_microseconds=laps["scipy"].wall,
        numpy_microseconds=laps["numpy"].wall if "numpy" in laps else None,
        passes=passes,
        touched=times("touched"),
        touched_by_rounds=times("by rounds"),
        faster_than_scipy=scipy,
        faster_than_numpy=numpy,
        wanted=str(case.wanted),
        met=case.wanted.met(passes=passes, scipy=scipy, numpy=numpy)
        if chosen
        else None,
    )


def memory() -> dict[str, float]:
    """Return the most memory that a million agents take, in a process of their own."""
    run = [sys.executable, __file__, "--million"]
    said = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    return {"agents": 1_000_000, "dim": 4, **json.loads(said), "at_most_gb": 2.0}


def million() -> None:
    """Run a million agents, and say how much memory that took."""
    engine = engine_for(workload(Case(method="dgd", agents=1_000_000, dim=4)).task)
    state = engine.advance(engine.begin(), 2)
    taken = clock(lambda: engine.advance(state, 10)) / 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps({"peak_gb": peak * unit / 1e9, "iteration_us": taken * 1e6}))


HEADS = (
    *("Method, costs", "Agents x dimension", "Engine", "us", "Pass", "Passes"),
    *("Touched", "Times", "By rounds", "scipy loop", "Faster", "numpy loop", "Faster"),
    *("Wanted", "Met"),
)


def cells(line: Line) -> Sequence[str]:
    """Return a line of the table for people."""
    return (
        f"{line.method}, {line.costs}",
        f"{line.agents:,} x {line.dim}",
        f"`{line.engine}`{', chosen' if line.chosen else ''}",
        figure(line.microseconds),
        figure(line.pass_microseconds),
        figure(line.passes),
        figure(line.touched_microseconds),
        figure(line.touched),
        figure(line.touched_by_rounds),
        figure(line.scipy_microseconds),
        figure(line.faster_than_scipy),
        figure(line.numpy_microseconds),
        figure(line.faster_than_numpy),
        line.wanted if line.chosen else "",
        yes_or_no(line.met),
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table in Markdown, as the docs have it."""
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(row)} |"


def figure(value: float | None) -> str:
    """Return three digits, without an exponent."""
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def yes_or_no(value: bool | None) -> str:  # noqa: FBT001 - what it prints
    return {None: "", True: "yes", False: "no"}[value]


def main(words: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="small sizes: seconds")
    options.add_argument("--engine", choices=("auto", "numpy", "numba", "jax"))
    options.add_argument("--case", default="", help="only cases whose words have this")
    options.add_argument("--json", action="store_true", help="print JSON only")
    options.add_argument("--million", action="store_true", help=argparse.SUPPRESS)
    words = sys.argv[1:] if words is None else words
    given = options.parse_args([word for word in words if word != SMOKE])
    smoke = sized(usual=False, smoke=True)
    given.quick |= smoke
    if given.million:
        million()
        return
    cases = [
        case for case in (QUICK if given.quick else FULL) if given.case in case.words
    ][: 1 if smoke else None]
    document = {
        "machine": machine(),
        "command": shlex.join(["python", "benchmarks/engines.py", *words]),
    }
    lines = measure(
        [case for case in cases if given.case in case.words],
        engine=given.engine,
        repeats=QUICK_REPEATS if given.quick else REPEATS,
        seconds=0.0 if smoke else QUICK_SECONDS if given.quick else SECONDS,
    )
    document["memory"] = None if given.quick or given.case else memory()
    if given.json:
        print(json.dumps({**document, "engines": [asdict(line) for line in lines]}))
        return
    print(f"`{document['command']}`: {json.dumps(document['machine'])}\n")
    print("\n".join(table(HEADS, map(cells, lines))))
    if document["memory"]:
        print(f"\nMemory: {json.dumps(document['memory'])}")


if __name__ == "__main__":
    main()
