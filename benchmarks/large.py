"""Measure one graph of millions of parties: iterations beside scipy's loop, or a run.

    python benchmarks/large.py                              # 1e7 x 4, minutes, 7.5 GB
    python benchmarks/large.py --graph regular:1000000:6    # a tenth of it
    python benchmarks/large.py --graph geometric:10000000:6
    python benchmarks/large.py --method extra               # or gradient-tracking
    python benchmarks/large.py --whole                      # built, masked, certified

Without --whole: a method by the engine numba and as a reader would write it with
scipy's sparse product, in turn; dgd must take at most a third of the time. With
--whole: `veilsum.minimise.large`, each part's seconds, processor seconds and the
peak of memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import numpy as np

import veilsum as vs
from clocks import clocked, machine, sized
from veilsum import memory
from veilsum.files.graphs import topology_from
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.engines.registry import engine_for
from veilsum.minimise.large_graphs import (
    DGD_POWER,
    DGD_STEP,
    LARGE_METHODS,
    LargeMethod,
    engine_task,
)

REACH = 10.0
# Of the engine and of the loop in each turn.
ITERATIONS, LOOPED = 4, 2


def looped(task: EngineTask) -> np.ndarray:
    """Return estimates after a few iterations of a loop over scipy's product."""
    weights, theta, x = (
        task.weights["symmetric"],
        task.cost.coefficients,
        task.start,
    )
    method: Any = task.method
    if method.name == "dgd":
        for k in range(1, LOOPED + 1):
            mixed = weights @ x
            step = DGD_STEP / k**DGD_POWER
            x = np.clip(mixed - step * (2.0 * mixed + theta), -REACH, REACH)
    elif method.name == "gradient-tracking":
        tracker = 2.0 * x + theta
        for _ in range(LOOPED):
            new = weights @ (x - method.step * tracker)
            tracker = weights @ (tracker + 2.0 * (new - x))
            x = new
    else:
        correction = method.step * (2.0 * x + theta)
        for _ in range(LOOPED):
            mixed = weights @ x
            new = mixed - correction
            correction = (
                correction + 0.5 * (x - mixed) + method.step * (2.0 * (new - x))
            )
            x = new
    return x


def against_scipy(
    graph: str, dim: int, repeats: int, method: LargeMethod
) -> dict[str, Any]:
    """Return the medians of both, and of their ratio."""
    topology = topology_from(graph)
    shape = (topology.n_parties, dim)
    theta = np.random.default_rng(0).standard_normal(shape)
    cost = EffectiveCost(Affine(dim), theta, SquaredNorm(1.0))
    task = engine_task(topology, cost, method=method, step=None, reach=REACH)
    engine = engine_for(task, "numba")
    begun = engine.begin()
    found = engine.points(engine.advance(begun, LOOPED))
    away = float(np.abs(found - looped(task)).max())
    del found
    state = engine.advance(begun, ITERATIONS)
    ours, theirs = [], []
    for _ in range(repeats):
        theirs.append(clocked(lambda: looped(task)).per(LOOPED))
        ours.append(clocked(lambda: engine.advance(state, ITERATIONS)).per(ITERATIONS))
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "graph": graph,
        "dim": dim,
        "method": method,
        "order": engine.nearness.words,  # type: ignore[attr-defined]
        "largest_difference": away,
        "engine_ms": statistics.median(one.wall for one in ours) / 1e3,
        "engine_processor_ms": statistics.median(one.processor for one in ours) / 1e3,
        "scipy_ms": statistics.median(one.wall for one in theirs) / 1e3,
        "scipy_processor_ms": statistics.median(one.processor for one in theirs) / 1e3,
        "faster": statistics.median(b.wall / a.wall for a, b in pairs),
        "faster_by_processor": statistics.median(
            b.processor / a.processor for a, b in pairs
        ),
        "wanted": "at least 3 times as fast" if method == "dgd" else None,
        "peak_gb": (memory.peak_memory() or 0) / 1e9,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--graph", default=sized("regular:10000000:6", "regular:200:6")
    )
    options.add_argument("--dim", type=int, default=4)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument(
        "--whole", action="store_true", help="veilsum.minimise.large itself"
    )
    options.add_argument("--method", default="dgd", choices=LARGE_METHODS)
    options.add_argument("--iterations", type=int, default=100)
    given = options.parse_args()
    if given.whole:
        how = {"dim": given.dim, "iterations": given.iterations}
        found = vs.minimise.large(given.graph, method=given.method, **how).to_dict()
    else:
        found = against_scipy(given.graph, given.dim, given.repeats, given.method)
    print(json.dumps({"machine": machine(), **found}, indent=2))


if __name__ == "__main__":
    main()
