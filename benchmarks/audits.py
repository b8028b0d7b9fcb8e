"""Measure an audit beside the drawing of its shares, which no audit can do without.

    python benchmarks/audits.py                      # about a minute
    python benchmarks/audits.py --executions 10000   # seconds

Five parties, everybody with everybody, 132 coefficients, all ten pairs of colluders.
Two guessers for each pair play on all executions; the condition is 20 seconds on two
cores for 100,000 executions, and a time that grows as executions do.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np

from clocks import machine
from veilsum.audit.attack import Scene
from veilsum.audit.auditing import _guessers, batch_of, play
from veilsum.audit.likelihood import distance_for
from veilsum.graphs.topology import Topology
from veilsum.numbers.laws import Masks

WIDTH, SUCCESS, WORKERS = 132, 0.51, 2


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--executions", type=int, default=100_000)
    executions = words.parse_args().executions
    graph = Topology.family("complete:5")
    pairs = list(combinations(graph.parties, 2))
    print(json.dumps({"machine": machine()}))
    for masks in (Masks("gaussian", 1.0), Masks("lattice", 1.0, 20)):
        scene = Scene(topology=graph, law=masks.on(graph), width=WIDTH)
        distance = distance_for(scene, pairs[0], SUCCESS)
        players = _guessers(scene, pairs, distance, 0)
        found = {}
        for count in (executions // 10, executions):
            with ThreadPoolExecutor(WORKERS) as pool:
                before = time.perf_counter()
                play(scene, players, count, seed=1, what="play", on=pool)
                found[count] = time.perf_counter() - before
        numbers = executions * WIDTH * graph.n_edges * 2
        before = time.perf_counter()
        for k in range(10):
            np.random.default_rng(k).standard_normal(numbers // 100)
        floor = 10 * (time.perf_counter() - before)
        line = {
            "law": masks.law,
            "coalitions": len(pairs),
            "executions": executions,
            "seconds": round(found[executions], 2),
            "a tenth of them": round(found[executions // 10], 2),
            "normals alone, one core": round(floor, 2),
            "ratio": round(found[executions] / floor, 2),
            "batch": batch_of(scene),
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
