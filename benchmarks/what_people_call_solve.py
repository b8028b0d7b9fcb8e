"""Measure three calls that people wait for: a program, a solve, a command.

    python benchmarks/what_people_call_solve.py           # about two minutes
    python benchmarks/what_people_call_solve.py --smoke   # whether it still runs

Seconds are processor time of all threads, so that a busy machine does little harm. Each
call is made in a process of its own: peak memory belongs to it alone, and the first
call of a process, which loads numba, is measured beside later ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from clocks import machine, sized

EXAMPLES = Path(__file__).parents[1] / "examples"
PARTIES, DIM = sized((100, 50), (5, 3))
ITERATIONS = sized(10_000, 20)  # solve's own default
REPEATS = sized(3, 1)

PROGRAM = f"quadratic_program, {PARTIES} parties x dim {DIM}"
STATS = "veilsum stats examples/wages.toml, 130 parties"

# Name, ours, theirs, ratio or seconds, goal.
Row = tuple[str, float, float | None, float, str]


def quadratic_program_seconds() -> Row:
    """The minimiser of 100 private quadratics from one sum, with defaults."""
    seconds = _child("program")["seconds"]
    return (PROGRAM, seconds, None, seconds, "at most 5 s")


def quadratic_program_megabytes() -> Row:
    """The peak memory of the same process."""
    megabytes = _child("program")["megabytes"]
    return (f"{PROGRAM}, peak MB", megabytes, None, megabytes, "at most 500 MB")


def solve_beside_a_loop() -> Row:
    """`solve` with defaults on a complete graph, beside a loop without privacy."""
    return _beside("later calls", "loop", "at most 1.5 x")


def first_solve_beside_a_loop() -> Row:
    """The first call of a process, which loads numba."""
    return _beside("first call", "loop", "reported")


def solve_beside_a_loop_of_means() -> Row:
    """A loop that uses what holds on complete graphs only: all mixed points agree."""
    return _beside("later calls", "loop of means", "reported")


def stats_seconds() -> Row:
    """`veilsum stats examples/wages.toml`: 130 parties."""
    seconds = _on_a_terminal()[0]
    return (STATS, seconds, None, seconds, "at most 5 s")


def stats_first_progress() -> Row:
    """The wall time until the same command shows on its terminal what it does."""
    seconds = _on_a_terminal()[1]
    return (f"{STATS}, first progress", seconds, None, seconds, "at most 2 s")


def _beside(ours: str, theirs: str, goal: str) -> Row:
    found = _child("solve")
    name = f"solve of {PARTIES} quadratics, dim {DIM}, {ours} over {theirs}"
    return (name, found[ours], found[theirs], found[ours] / found[theirs], goal)


@cache
def _on_a_terminal() -> tuple[float, float]:
    """Return a command's processor time, and the wall time until its first word."""
    import pty

    words = [sys.executable, "-m", "veilsum", "stats", str(EXAMPLES / "wages.toml")]
    began = time.perf_counter()
    process, screen = pty.fork()
    if process == 0:
        os.execv(words[0], words)  # noqa: S606 - the child becomes the command
    os.read(screen, 1)
    shown = time.perf_counter() - began
    with suppress(OSError):  # so Linux says that the other side has ended
        while os.read(screen, 4096):
            pass
    _, status, used = os.wait4(process, 0)
    assert status == 0, "the command failed"
    return used.ru_utime + used.ru_stime, shown


# In a process of its own


@cache
def _child(what: str) -> dict[str, float]:
    words = [sys.executable, __file__, what]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _quadratics():
    import numpy as np

    stream, n, m = np.random.default_rng(0), PARTIES, DIM
    factors = stream.standard_normal((n, m, m)) / np.sqrt(m)
    squares = factors @ factors.swapaxes(1, 2) + np.eye(m)
    return squares, stream.standard_normal((n, m))


def _program() -> dict[str, float]:
    import resource

    import veilsum as vs

    pairs = zip(*_quadratics(), strict=True)
    costs = {f"party-{k}": pair for k, pair in enumerate(pairs)}
    before = time.process_time()
    vs.quadratic_program(costs)
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": peak / 1024}


def _solve() -> dict[str, float]:
    import statistics

    import numpy as np

    import veilsum as vs

    squares, vectors = _quadratics()
    graph = vs.Topology.family(f"complete:{PARTIES}")
    box = vs.Box(-10, 10, dim=DIM)
    settings = vs.Settings(iterations=ITERATIONS)
    pairs = zip(squares, vectors, strict=True)
    costs = [vs.Cost.quadratic(*pair) for pair in pairs]
    weights = np.full((PARTIES, PARTIES), 1 / PARTIES)
    long = squares.reshape(-1, DIM)

    def solve():
        return vs.solve(costs, graph, domain=box, sigma=1.0, settings=settings)

    def loop():
        x = np.zeros((PARTIES, DIM))
        for k in range(ITERATIONS):
            mixed = weights @ x
            slope = (squares @ mixed[:, :, None])[:, :, 0] + vectors
            x = np.clip(mixed - slope / (k + 1), -10, 10)
        return x

    def loop_of_means():
        x = np.zeros((PARTIES, DIM))
        for k in range(ITERATIONS):
            mean = x.mean(axis=0)
            slope = (long @ mean).reshape(PARTIES, DIM) + vectors
            x = np.clip(mean - slope / (k + 1), -10, 10)
        return x

    def timed(action) -> float:
        before = time.process_time()
        action()
        return time.process_time() - before

    first = timed(solve)
    np.testing.assert_allclose(loop(), loop_of_means(), atol=1e-9)
    actions = {"later calls": solve, "loop": loop, "loop of means": loop_of_means}
    laps = [
        {name: timed(action) for name, action in actions.items()}
        for _ in range(REPEATS)
    ]
    found = {name: statistics.median(lap[name] for lap in laps) for name in actions}
    return {"first call": first, **found}


CHILDREN = {"program": _program, "solve": _solve}
MEASURED = (
    quadratic_program_seconds,
    quadratic_program_megabytes,
    solve_beside_a_loop,
    first_solve_beside_a_loop,
    solve_beside_a_loop_of_means,
    stats_seconds,
    stats_first_progress,
)


def main(words: list[str]) -> None:
    if words:
        print(json.dumps(CHILDREN[words[0]]()))
        return
    print(json.dumps({"machine": machine()}), flush=True)
    for measure in MEASURED:
        name, ours, theirs, value, goal = measure()
        beside = "" if theirs is None else f"{ours:.2f} over {theirs:.2f} = "
        print(f"{name}: {beside}{value:.2f} ({goal})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
