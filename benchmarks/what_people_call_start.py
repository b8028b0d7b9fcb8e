"""Measure how long commands take to start, and what fifty parties cost.

    python benchmarks/what_people_call_start.py             # all of it, some minutes
    python benchmarks/what_people_call_start.py fit loopback

Each function returns (name, ours, theirs, ratio or seconds, goal). Seconds are of
processors, user and system, over all processes and threads, unless the name has `wall`.
Commands run with bytecode that an earlier run wrote, as an installation has it.
`theirs` is None where nobody else does the same.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tomli_w

from clocks import machine, sized
from network import adopt_orphans, children

REPEATS, MANY, DEGREE, ROWS = sized((5, 50, 6, 40), (1, 6, 3, 40))
EXAMPLES = Path(__file__).parents[1] / "examples"

Line = tuple[str, float, float | None, float, float]


def processor_seconds(command: Sequence[str], repeats: int = REPEATS) -> float:
    """Return the median of a command's processor time; the first run is not counted."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        taken = []
        for _ in range(repeats + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, capture_output=True, env=env)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            )
    return statistics.median(taken[1:])


def started(name: str, words: Sequence[str], goal: float) -> Line:
    seconds = processor_seconds([sys.executable, *words])
    return (name, seconds, None, seconds, goal)


def fit() -> Line:
    """`veilsum fit` of the first example."""
    words = ["-m", "veilsum", "fit", str(EXAMPLES / "diabetes.toml")]
    return started("veilsum fit examples/diabetes.toml", words, 1.5)


def help_page() -> Line:
    """The list of commands."""
    return started("veilsum --help", ["-m", "veilsum", "--help"], 0.15)


def version() -> Line:
    """The version."""
    return started("veilsum --version", ["-m", "veilsum", "--version"], 0.15)


def package() -> Line:
    """The package without any of its functions."""
    return started("import veilsum", ["-c", "import veilsum"], 0.1)


def one_sum() -> Line:
    """A process that imports the package and adds four vectors."""
    data = {name: [1, 2] for name in "abcd"}
    code = f"import veilsum as vs; vs.sum({data!r})"
    return started("import veilsum; vs.sum of 4 x 2", ["-c", code], 1.0)


def loopback() -> Line:
    """One sum of fifty machines of one process, a record's signature included."""
    code = (
        "import time, numpy as np, veilsum as vs\n"
        f"data = {{f'p{{k}}': np.arange(10) + k for k in range({MANY})}}\n"
        f"how = dict(driver='loopback', topology='regular:{MANY}:{DEGREE}:seed=0')\n"
        "vs.sum(data, seed=0, **how)\n"
        "start = time.process_time(); vs.sum(data, seed=1, **how)\n"
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", code]
    seconds = statistics.median(
        float(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(REPEATS)
    )
    return (f"vs.sum of {MANY} machines, loopback", seconds, None, seconds, 2.0)


def regression(place: Path) -> Path:
    """Return a scenario: a regression of many parties, each with a few rows."""
    stream, lines = np.random.default_rng(0), ["party,y,x,z"]
    for party in range(MANY):
        for x, z, noise in stream.normal(size=(ROWS, 3)):
            lines.append(f"p{party:02d},{x + z / 2 + noise:.2f},{x:.2f},{z:.2f}")
    (place / "rows.csv").write_text("\n".join(lines) + "\n")
    number = {"kind": "number", "minimum": -20, "maximum": 20, "unit": 0.01}
    table = {
        "title": f"{MANY} parties",
        "graph": {"family": f"regular:{MANY}:{DEGREE}:seed=0"},
        "data": {"file": "rows.csv", "party": "party"},
        "model": {"formula": "y ~ x + z"},
        "schema": {"columns": dict.fromkeys("yxz", number)},
        "policy": {"tolerate": 1},
    }
    scenario = place / "scenario.toml"
    scenario.write_text(tomli_w.dumps(table))
    return scenario


def network_regression() -> Line:
    """Fifty parties on a network, one regression: wall time, on two idle cores."""
    adopt_orphans()
    earlier = children()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "veilsum", "up", str(regression(Path(place)))]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        wall = time.perf_counter() - start
    for child in children() - earlier:  # what started the parties ends after it
        os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    name = f"{MANY} parties on a network, one regression: wall ({used:.1f} s of cores)"
    return (name, wall, None, wall, 8.0)


LINES: dict[str, Callable[[], Line]] = {
    "fit": fit,
    "help": help_page,
    "version": version,
    "import": package,
    "sum": one_sum,
    "loopback": loopback,
    "network": network_regression,
}


def main(names: Sequence[str]) -> None:
    print(json.dumps({"machine": machine(), "load": os.getloadavg()}))
    for name in names or LINES:
        print(json.dumps(LINES[name]()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
