"""Measure ranks of MPI beside one rank, on a geometric graph.

    python benchmarks/mpi_ranks.py                     # 1e6 parties, 1 and 2 ranks
    python benchmarks/mpi_ranks.py --parties 100000 --ranks 1 2 4

Every rank runs one thread. Jobs of one rank and of several take turns, each started by
mpiexec; a lap is so many iterations between two barriers, the graph built before. The
condition is a ratio: two ranks at least 1.6 times as fast as one. On a busy machine the
processor time of the slowest rank says more than the clock: waiting counts in it, too,
since ranks of MPI ask again and again whether something has come. Beside them stands
numba's own loop, whole runs compiled, by one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clocks import Lap, clocked, in_turn, machine, sized
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines.engine import Engine, EngineTask
from veilsum.minimise.engines.mpi import MpiEngine
from veilsum.minimise.engines.numba import FusedEngine
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra
from veilsum.minimise.methods.gradient_tracking import GradientTracking

DEGREE, WANTED = 6, 1.6
METHODS: dict[str, Callable[[int], Any]] = {
    "dgd": lambda m: Dgd(Box(-1.0, 1.0, dim=m), scale=0.3),
    "gradient-tracking": lambda m: GradientTracking(WholeSpace(m), 0.05),
    "extra": lambda m: Extra(WholeSpace(m), 0.3),
}


def task(method: str, parties: int, dim: int) -> EngineTask:
    """Return squared distances to random points, on the graph."""
    graph = Topology.family(f"geometric:{parties}:{DEGREE}")
    slopes = np.random.default_rng(2).standard_normal((parties, dim))
    return EngineTask(
        method=METHODS[method](dim),
        weights={"symmetric": mixing_weights(graph, "lazy-metropolis")},
        cost=EffectiveCost(Affine(dim), slopes, SquaredNorm(0.5)),
        start=np.zeros((parties, dim)),
    )


def lap(engine: Engine, iterations: int) -> Lap:
    """Return how long iterations take, after a few that nobody counts."""
    state = engine.advance(engine.begin(), 2)
    return clocked(lambda: engine.advance(state, iterations))


def as_rank(chosen: argparse.Namespace) -> None:
    """Run as one of the ranks; the first one prints everybody's laps."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    engine = MpiEngine(task(chosen.method, chosen.parties, chosen.dim))
    engine.advance(engine.begin(), 1)
    comm.Barrier()
    own = lap(engine, chosen.iterations)
    laps = np.empty((comm.size, 2))
    comm.Allgather(np.array([own.wall, own.processor]), laps)
    if comm.rank == 0:
        found = {"wall": laps[:, 0].max(), "processor": laps[:, 1].tolist()}
        print(json.dumps({**found, "halo": engine.parts.share, "by": engine.parts.by}))


def main() -> None:
    """Print seconds for an iteration and their ratios, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parties", type=int, default=sized(1_000_000, 200))
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--method", choices=METHODS, default="dgd")
    parser.add_argument("--iterations", type=int, default=sized(30, 3))
    parser.add_argument("--ranks", type=int, nargs="+", default=sized([1, 2], [2]))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.as_rank:
        as_rank(chosen)
        return
    said: dict[str, Any] = {}
    alone = FusedEngine(task(chosen.method, chosen.parties, chosen.dim))

    def started(ranks: int) -> Lap:
        words = [f"--{key}={getattr(chosen, key)}" for key in ("parties", "dim")]
        words += [f"--method={chosen.method}", f"--iterations={chosen.iterations}"]
        launcher = str(Path(sys.executable).with_name("mpiexec"))
        command = [launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py"]
        ended = subprocess.run(
            [*command, __file__, "--as-rank", *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        found = json.loads(ended.stdout)
        said[f"halo of {ranks}"] = f"{found['halo']:.2%}, {found['by']}"
        return Lap(found["wall"], max(found["processor"]))

    contestants: dict[str, Callable[[], Lap]] = {
        **{f"{n} ranks": partial(started, n) for n in chosen.ranks},
        "numba": lambda: lap(alone, chosen.iterations),
    }
    laps = in_turn(contestants, repeats=chosen.repeats)
    first = laps[f"{chosen.ranks[0]} ranks"]
    each = 1e3 / chosen.iterations
    report = {
        "case": f"{chosen.method}, {chosen.parties:,} x {chosen.dim}",
        "milliseconds": {name: one.wall * each for name, one in laps.items()},
        "of a processor": {name: one.processor * each for name, one in laps.items()},
        "times as fast": {name: first.over(one).wall for name, one in laps.items()},
        "by the slowest rank's processor": {
            name: first.over(one).processor
            for name, one in laps.items()
            if name != "numba"  # whose threads are counted together
        },
        "condition": f"2 ranks at least {WANTED} times as fast",
        **said,
    }
    print(json.dumps({"machine": machine(), "ranks of MPI": report}, indent=2))


if __name__ == "__main__":
    main()
