"""Measure what the documentation claims: ratios, both sides in one run.

    python benchmarks/run.py                # everything (about two minutes)
    python benchmarks/run.py start phase1   # some of it

Absolute times are targets, printed with the machine; ratios are the conditions. Each
ratio is a median over interleaved repeats, because machines are noisy.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import scipy

from veilsum.core.bases import Affine
from veilsum.core.domains import Box
from veilsum.core.effective import EffectiveCost
from veilsum.core.methods.dgd import Dgd
from veilsum.core.mixing import metropolis
from veilsum.core.remainders import SquaredNorm
from veilsum.core.topology import Topology
from veilsum.sim.engine import iterate
from veilsum.sim.executions import simulate

Action = Callable[[], object]


def clock(action: Action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def side_by_side(ours: Action, floor: Action, repeats: int) -> dict[str, float]:
    """Time both in turn; the ratio is the median of the pairs' ratios."""
    clock(ours), clock(floor)
    pairs = [(clock(ours), clock(floor)) for _ in range(repeats)]
    return {
        "ours_s": statistics.median(a for a, _ in pairs),
        "floor_s": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def start() -> dict[str, object]:
    """Whole commands, start-up included (targets: 6 s, 0.6 s, 0.3 s)."""

    def command(*words: str) -> float:
        run = [sys.executable, *words]
        times = [
            clock(lambda: subprocess.run(run, check=True, capture_output=True))
            for _ in range(5)
        ]
        return statistics.median(times)

    with tempfile.TemporaryDirectory() as folder:
        cli = ("-c", "from veilsum.cli import main; main()")
        return {
            "veilsum paper, 2 x 100,000 executions, s": command(
                *cli, "paper", "--out", folder
            ),
            "veilsum --help, s": command(*cli, "--help"),
            "import veilsum, s": command("-c", "import veilsum"),
        }


def phase1(draws: int = 10**8) -> dict[str, object]:
    """Phase I many times over against numpy drawing as many normals (at most 1.5)."""
    triangle = Topology.family("complete:3")
    executions = draws // 6

    def ours() -> object:
        return simulate(
            triangle,
            [1.0, 2.0, 3.0],
            sigma=1.0,
            executions=executions,
            stream=np.random.default_rng(0),
            corrupted=["2"],
        )

    def floor() -> object:
        return np.random.default_rng(0).standard_normal(executions * 6)

    return {"draws": executions * 6, **side_by_side(ours, floor, repeats=5)}


def dgd(n: int = 10_000, dim: int = 100, steps: int = 20) -> dict[str, object]:
    """One DGD iteration against scipy's CSR product and three passes (at most 1)."""
    topology = Topology.family(f"regular:{n}:6:seed=0")
    weights = metropolis(topology)
    stream = np.random.default_rng(0)
    theta = stream.standard_normal((n, dim))
    x = stream.standard_normal((n, dim))
    effective = EffectiveCost(Affine(dim), theta, SquaredNorm(1.0))
    method = Dgd(Box(-100.0, 100.0, dim=dim))
    times = np.array([steps])
    passed = np.empty_like(x)

    def ours() -> object:
        return iterate(method, weights, effective, x, times=times)

    def floor() -> None:
        for _ in range(steps):
            mixed = weights @ x
            for _ in range(3):
                np.add(mixed, theta, out=passed)

    return {"agents": n, "dim": dim, **side_by_side(ours, floor, repeats=9)}


BENCHMARKS: dict[str, Callable[[], dict[str, object]]] = {
    "start": start,
    "phase1": phase1,
    "dgd": dgd,
}


def machine() -> dict[str, object]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def main(names: list[str]) -> None:
    print(json.dumps({"machine": machine()}))
    for name in names or list(BENCHMARKS):
        found = BENCHMARKS[name]()
        rounded = {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in found.items()
        }
        print(json.dumps({name: rounded}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
