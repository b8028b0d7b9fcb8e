"""Measure the engines: beside memory's own speed, and beside plain loops.

    python benchmarks/engines.py              # CPU (about two minutes)
    python benchmarks/engines.py dgd small    # some of it

Ratios are the conditions; each is a median of interleaved repeats. All agents have six
neighbours, drawn at random, and the costs s_i'x + |x|^2.

The floor is a pass by two threads over the very bytes that an iteration must touch, as
large and as warm as the iteration's own:

    dgd        reads x, theta~ and the graph (an index and a weight for each neighbour
               and oneself), writes x
    tracking   reads x, y and the graph, writes x and y. An iteration is two rounds, and
               what is told in the second exists after the first only: by rounds it
               writes and reads one more array and reads the graph again. Both floors
               are printed; the condition is on the first

Neighbours' rows count once, as parts of x, though six of seven are read from somewhere
else in memory.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from run import Action, clock, machine
from veilsum.costs.bases import Affine
from veilsum.costs.domains import Box
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import SquaredNorm
from veilsum.engines.choosing import engine_for
from veilsum.engines.engine import Engine, Task
from veilsum.jobs.bench.cases import six_neighbours
from veilsum.methods.dgd import Dgd
from veilsum.methods.gradient_tracking import GradientTracking

REPEATS = 9
SIZES = ((10_000, 100), (100_000, 10))
# At most so many times the floor, by size.
LIMITS = {"dgd": (1.5, 4.0), "tracking": (2.5, 5.0)}
FLOAT, INDEX = 8, 4


def side_by_side(**actions: Action) -> dict[str, list[float]]:
    """Return everybody's times, taken in turn after a warm start."""
    for action in actions.values():
        action()
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(REPEATS):
        for name, action in actions.items():
            times[name].append(clock(action))
    return times


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the pairs' ratios."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def task(method: str, agents: int, dim: int, precision: str = "float64") -> Task:
    """Return a task whose box is too large to matter."""
    stream = np.random.default_rng(0)
    box = Box(-100.0, 100.0, dim=dim)
    slopes = stream.standard_normal((agents, dim))
    return Task(
        method=Dgd(box) if method == "dgd" else GradientTracking(box, 0.2),
        weights={"symmetric": six_neighbours(agents)},
        cost=EffectiveCost(Affine(dim), slopes, SquaredNorm(1.0)),
        start=stream.standard_normal((agents, dim)),
        precision=precision,
    )


def run_of(engine: Engine, steps: int) -> Action:
    """Return a run from the start, as a caller would have it."""
    start = engine.begin()
    return lambda: engine.points(engine.advance(start, steps))


def touched(agents: int, dim: int, arrays: int, graphs: int) -> int:
    """Return how many bytes there are in so many arrays and graphs."""
    return agents * (arrays * dim * FLOAT + graphs * 7 * (FLOAT + INDEX))


def pass_over(size: int, steps: int) -> Action:
    """Return a pass over so many bytes, a third of them written, by two threads."""
    from numba import njit

    @njit(nogil=True)
    def add(first, second, into, count):
        for _ in range(count):
            for k in range(into.size):
                into[k] = first[k] + 0.5 * second[k]
            first, into = into, first

    third = size // (3 * FLOAT)
    arrays = [np.ones(third) for _ in range(3)]
    cuts = np.linspace(0, third, 3).astype(int)
    parts = [[a[low:high] for a in arrays] for low, high in pairwise(cuts)]

    def both() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda part: add(*part, steps), parts))

    return both


def against_memory(method: str, arrays: int) -> list[dict[str, object]]:
    """Return ratios to the floor for both sizes, with limits and by rounds."""
    found = []
    for (agents, dim), limit in zip(SIZES, LIMITS[method], strict=True):
        steps = 200
        times = side_by_side(
            ours=run_of(engine_for(task(method, agents, dim), "numba"), steps),
            floor=pass_over(touched(agents, dim, arrays, 1), steps),
            rounds=pass_over(touched(agents, dim, 6, 2), steps),
        )
        line: dict[str, object] = {
            "agents": agents,
            "dim": dim,
            "ours_us": statistics.median(times["ours"]) / steps * 1e6,
            "floor_us": statistics.median(times["floor"]) / steps * 1e6,
            "ratio": ratio(times["ours"], times["floor"]),
            "at_most": limit,
        }
        if method == "tracking":
            line["ratio_by_rounds"] = ratio(times["ours"], times["rounds"])
        found.append(line)
    return found


def dgd() -> list[dict[str, object]]:
    """DGD against the floor (at most 1.5 and 4)."""
    return against_memory("dgd", arrays=3)


def tracking() -> list[dict[str, object]]:
    """Gradient tracking with one round of mixing against the floor (2.5 and 5)."""
    return against_memory("tracking", arrays=4)


def plain_loop(given: Task, steps: int) -> Action:
    """Return DGD as a few lines of Python with scipy's product."""
    weights, slopes = given.weights["symmetric"], given.cost.coefficients
    if len(given.start) <= 100:
        weights = weights.toarray()

    def loop() -> np.ndarray:
        x = given.start
        for k in range(steps):
            mixed = weights @ x
            x = np.clip(mixed - (slopes + 2.0 * mixed) / (k + 1), -100.0, 100.0)
        return x

    return loop


def against_loop(agents: int, dim: int, steps: int, at_least: float) -> object:
    given = task("dgd", agents, dim)
    ours, loop = run_of(engine_for(given, "numba"), steps), plain_loop(given, steps)
    np.testing.assert_allclose(ours(), loop(), atol=1e-10)
    times = side_by_side(ours=ours, loop=loop)
    return {
        "agents": agents,
        "dim": dim,
        "ours_us": statistics.median(times["ours"]) / steps * 1e6,
        "loop_us": statistics.median(times["loop"]) / steps * 1e6,
        "times_faster": ratio(times["loop"], times["ours"]),
        "at_least": at_least,
    }


def loop() -> object:
    """DGD against a Python loop over scipy's CSR product (at least 2.5 times)."""
    return against_loop(10_000, 100, 50, 2.5)


def small() -> object:
    """DGD of eight agents against the numpy loop (at least 5 times)."""
    return against_loop(8, 10, 1_000, 5.0)


def memory() -> object:
    """The most memory that a million agents take, in a process of their own (2 GB)."""
    run = [sys.executable, __file__, "--million"]
    said = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    return {"agents": 1_000_000, "dim": 4, **json.loads(said), "at_most_gb": 2.0}


def million() -> None:
    """Run a million agents, and say how much memory that took."""
    engine = engine_for(task("dgd", 1_000_000, 4), "numba")
    state = engine.advance(engine.begin(), 2)
    taken = clock(lambda: engine.advance(state, 10)) / 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps({"peak_gb": peak * unit / 1e9, "iteration_us": taken * 1e6}))


BENCHMARKS: dict[str, Callable[[], object]] = {
    "dgd": dgd,
    "tracking": tracking,
    "loop": loop,
    "small": small,
    "memory": memory,
}


def rounded(found: object) -> object:
    if isinstance(found, float):
        return float(f"{found:.4g}")
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    return [rounded(value) for value in found] if isinstance(found, list) else found


def main(names: list[str]) -> None:
    if names == ["--million"]:
        million()
        return
    import numba

    here = {"numba": numba.__version__, "load": os.getloadavg()[0]}
    print(json.dumps({"machine": {**machine(), **here}}))
    for name in names or BENCHMARKS:
        print(json.dumps({name: rounded(BENCHMARKS[name]())}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
