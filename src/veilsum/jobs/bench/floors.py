"""What this machine can do at best, and what a few lines of Python do.

A pass reads two arrays and writes a third, all as large as everybody's estimates, on
all cores: the least that a round of messages touches, which reads estimates and costs,
or estimates and trackers, and writes new ones.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from veilsum.engines.numpy import DENSE_AGENTS
from veilsum.jobs.bench.cases import Workload
from veilsum.jobs.bench.clocks import Runs
from veilsum.jobs.bench.loops import LOOPS
from veilsum.numbers.arrays import AgentPoints

# Numbers for which a second core is worth its start.
PER_CORE = 2**14


def floors(work: Workload) -> dict[str, Runs]:
    """Return what can be run for some iterations, by name."""
    found: dict[str, Runs] = {
        "pass": passes(work),
        "scipy": partial(looped, work, work.weights),
    }
    if len(work.task.start) <= DENSE_AGENTS:
        found["numpy"] = partial(looped, work, work.weights.toarray())
    return found


def looped(work: Workload, weights: Any, iterations: int) -> AgentPoints:
    """Return estimates by the plain loop."""
    steps = work.steps[:iterations]
    return LOOPS[work.form](weights, work.slope, work.task.start, steps)


def passes(work: Workload) -> Runs:
    """Return what passes over memory once for every round of messages."""
    size, rounds = work.task.start.size, work.task.method.rounds_per_iteration
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
            list(pool.map(partial(add, rounds * iterations), parts))

    return on_all_cores


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
