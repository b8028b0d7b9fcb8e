"""Measure a sweep beside the loop that somebody would write by hand.

    python benchmarks/sweep.py                    # 120 runs of 500 iterations
    python benchmarks/sweep.py --workers 2        # and over two processes

Both sides do the same: solve for every graph, sigma, method and seed, ask what is
promised, keep a line. The loop asks `worst_case` for every line, as loops do, and keeps
its lines in memory; the sweep writes a file. The condition is a ratio: at most 1.1.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import veilsum as vs
from clocks import clocked, in_turn, sized

GRAPHS = ("ring:12", "circulant:12:1,3,4", "complete:12")
SIGMAS, METHODS = (1.0, 3.0, 10.0, 30.0), ("dgd", "gradient-tracking")
COSTS = [vs.minimise.Cost.squared_distance([float(k), 12.0 - k]) for k in range(12)]
HERE: dict[str, Any] = {"domain": vs.minimise.Box(-50.0, 50.0, dim=2)}


def by_hand(seeds: int, steps: vs.minimise.Settings) -> list[dict[str, Any]]:
    """Return the lines of a plain loop."""
    lines = []
    for graph, sigma, method in product(GRAPHS, SIGMAS, METHODS):
        topology = vs.Topology.family(graph)
        chosen = vs.minimise.Settings(**{**vars(steps), "method": method})
        for seed in range(seeds):
            how: dict[str, Any] = {"sigma": sigma, "seed": seed, "settings": chosen}
            run = vs.solve(COSTS, topology=topology, corrupted=(), **HERE, **how)
            promise = vs.worst_case(topology, sigma=sigma, tolerate=1, distance=1.0)
            lines.append(
                {
                    "graph": graph,
                    "sigma": sigma,
                    "method": method,
                    "seed": seed,
                    "error": run.max_error,
                    "bytes": run.bytes,
                    "epsilon": promise.epsilon,
                }
            )
    return lines


def swept(
    seeds: int, steps: vs.minimise.Settings, on: str | None = None
) -> vs.minimise.Sweep:
    """Return the same as a sweep, with a file."""
    with tempfile.TemporaryDirectory() as folder:
        return vs.minimise.sweep(
            COSTS,
            graphs=GRAPHS,
            sigmas=SIGMAS,
            methods=METHODS,
            seeds=seeds,
            settings=steps,
            out=Path(folder) / "sweep.csv",
            on=on,
            **HERE,
        )


def main() -> None:
    """Print seconds and their ratios, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=sized(5, 1))
    parser.add_argument("--iterations", type=int, default=sized(500, 5))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    steps = vs.minimise.Settings(iterations=chosen.iterations, bounds_from_costs=True)
    same = [
        {key: row[key] for key in line} == line
        for row, line in zip(swept(1, steps).rows, by_hand(1, steps), strict=True)
    ]
    assert all(same), "the two must find the same"
    sides = {
        "loop": lambda: clocked(lambda: by_hand(chosen.seeds, steps)),
        "sweep": lambda: clocked(lambda: swept(chosen.seeds, steps)),
    }
    if chosen.workers > 1:
        sides["shared"] = lambda: clocked(
            lambda: swept(chosen.seeds, steps, f"processes:{chosen.workers}")
        )
    laps = in_turn(sides, repeats=chosen.repeats)
    found = {
        **{f"{name}_s": one.wall for name, one in laps.items()},
        "ratio": laps["sweep"].over(laps["loop"]).wall,
        "ratio of processor time": laps["sweep"].over(laps["loop"]).processor,
        "condition": "at most 1.1",
        "load": os.getloadavg()[0],
    }
    print(json.dumps({"a sweep beside a loop": found}))


if __name__ == "__main__":
    main()
