"""Measure `solve` as people call it, beside a plain loop and beside its engine alone.

    python benchmarks/solve.py                  # about two minutes
    python benchmarks/solve.py quadratics       # some of it

All numbers are processor time of all threads, medians of interleaved repeats, so that a
busy machine does little harm. `start` is the same call with one iteration: masks,
guarantee, and the reference that a run is held against. It is taken off before a run is
compared with a loop, which has none of these. Numba's loading, 0.6 s once in a process,
is not in it: everything is run once beforehand.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

# Before numpy: a second thread in its products would count twice.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import veilsum as vs
from clocks import machine, sized
from veilsum.graphs.mixing import mixing_weights
from veilsum.minimise.costs.rows import glm_cost
from veilsum.minimise.engines.engine import EngineTask, closed_form_of_gradients
from veilsum.minimise.engines.registry import engine_for
from veilsum.minimise.methods.dgd import Dgd
from veilsum.models.families import GaussianFamily
from veilsum.models.rows import Rows

REPEATS = sized(5, 1)
REACH = 10.0


@dataclass(frozen=True)
class Case:
    """What is solved: `solve`'s defaults but for the number of iterations."""

    costs: str
    agents: int
    dim: int
    iterations: int


CASES = (
    Case("quadratics", 100, 50, 1_000),
    Case("quadratics", 100, 50, 10_000),
    Case("least squares", 100, 50, 1_000),
    Case("least squares", 100, 50, 10_000),
    Case("least squares", 10, 5, 10_000),
    Case("distances", 8, 10, 10_000),
    Case("distances", 1_000, 100, 1_000),
)
if sized(usual=False, smoke=True):
    CASES = tuple(Case(one.costs, 8, 3, 20) for one in CASES[1::2])


def costs_of(case: Case) -> list[vs.minimise.Cost]:
    """Return every party's cost."""
    stream, n, m = np.random.default_rng(0), case.agents, case.dim
    if case.costs == "distances":
        return [
            vs.minimise.Cost.squared_distance(p) for p in stream.standard_normal((n, m))
        ]
    if case.costs == "quadratics":
        factors = stream.standard_normal((n, m, m)) / np.sqrt(m)
        squares = factors @ factors.swapaxes(1, 2) + np.eye(m)
        vectors = stream.standard_normal((n, m))
        return [
            vs.minimise.Cost.quadratic(*one)
            for one in zip(squares, vectors, strict=True)
        ]
    designs = stream.standard_normal((n, 80, m)) / np.sqrt(80)
    responses = stream.standard_normal((n, 80))
    both = zip(designs, responses, strict=True)
    return [glm_cost(GaussianFamily(), Rows(*one)) for one in both]


def plain_loop(task: EngineTask, iterations: int) -> np.ndarray:
    """Return where a few lines of numpy arrive."""
    form = closed_form_of_gradients(task.cost)
    weights = task.weights["symmetric"]
    if len(task.start) <= 100:
        weights = weights.toarray()
    x = task.start
    for k in range(iterations):
        mixed = weights @ x
        if form.squares is None:
            slope = form.curve * mixed + form.slopes
        else:
            slope = (form.squares @ mixed[:, :, None])[:, :, 0] + form.slopes
        x = np.clip(mixed - slope / (k + 1), -REACH, REACH)
    return x


def measured(case: Case) -> dict[str, object]:
    """Return times, and how `solve` compares with the loop and with its engine."""
    degree = min(6, case.agents - 2)
    graph = vs.Topology.family(f"regular:{case.agents}:{degree}:seed=1")
    box = vs.minimise.Box(-REACH, REACH, dim=case.dim)
    costs = costs_of(case)

    def solve(iterations: int = case.iterations) -> vs.Run:
        settings = vs.minimise.Settings(iterations=iterations)
        return vs.solve(
            costs,
            topology=graph,
            corrupted=(),
            domain=box,
            sigma=1.0,
            seed=1,
            settings=settings,
        )

    run = solve()
    task = EngineTask(
        method=Dgd(box),
        weights={"symmetric": mixing_weights(graph, "metropolis")},
        cost=run.effective,
        start=np.zeros((case.agents, case.dim)),
    )
    engine = engine_for(task, run.engine)
    begun = engine.begin()
    actions: dict[str, Callable[[], object]] = {
        "solve": solve,
        # The engine of the whole run would be loaded for one iteration, too.
        "start": lambda: solve(1),
        "loop": lambda: plain_loop(task, case.iterations),
        "engine": lambda: engine.points(engine.advance(begun, case.iterations)),
    }
    for name in ("loop", "engine"):  # they compute the same, and are warm
        np.testing.assert_allclose(actions[name](), run.estimates, atol=1e-9)
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(REPEATS):
        for name, action in actions.items():
            before = time.process_time()
            action()
            times[name].append(time.process_time() - before)
    each = case.agents * case.iterations
    taken = {name: statistics.median(some) for name, some in times.items()}
    going = [a - b for a, b in zip(times["solve"], times["start"], strict=True)]

    def over(name: str) -> float:
        pairs = zip(going, times[name], strict=True)
        return statistics.median(a / b for a, b in pairs)

    return {
        **vars(case),
        "engine": run.engine,
        "seconds": {name: round(some, 4) for name, some in taken.items()},
        "solve_us_per_agent_iteration": round(taken["solve"] / each * 1e6, 3),
        "over_loop": round(over("loop"), 2),
        "over_loop_at_most": 1.0,
        "over_engine": round(over("engine"), 2),
        "over_engine_at_most": 1.5,
    }


def main(names: list[str]) -> None:
    print(json.dumps({"machine": {**machine(), "load": os.getloadavg()[0]}}))
    for case in CASES:
        if not names or case.costs in names:
            print(json.dumps(measured(case)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
