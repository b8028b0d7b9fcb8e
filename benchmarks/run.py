"""Measure what the documentation claims: ratios, both sides in one run.

    python benchmarks/run.py                # everything (about five minutes)
    python benchmarks/run.py start phase1   # some of it

Absolute times are targets, printed with the machine; ratios are the conditions. Each
ratio is a median over interleaved repeats, because machines are noisy.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations

import networkx as nx
import numpy as np
from scipy.spatial import cKDTree

from clocks import clock, machine, side_by_side, sized
from veilsum.graphs.connectivity import graph_components, vertex_connectivity
from veilsum.graphs.mixing import metropolis_weights
from veilsum.graphs.spectrum import certified_mu2
from veilsum.graphs.topology import Topology
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.engines.registry import engine_for
from veilsum.minimise.executions import simulate
from veilsum.minimise.methods.dgd import Dgd
from veilsum.privacy.remaining import mu2_without_coalitions
from veilsum.privacy.worst_case import worst_case, worst_mu2


def start() -> dict[str, object]:
    """Whole commands, start-up included (targets: 6 s, 0.6 s, 0.3 s)."""

    def command(*words: str) -> float:
        run = [sys.executable, *words]
        times = [
            clock(lambda: subprocess.run(run, check=True, capture_output=True))
            for _ in range(sized(5, 1))
        ]
        return statistics.median(times)

    with tempfile.TemporaryDirectory() as folder:
        cli = ("-c", "from veilsum.cli import main; main()")
        return {
            "veilsum paper, 2 x 100,000 executions, s": command(
                *cli, "paper", "--out", folder, *sized((), ("--executions", "1000"))
            ),
            "veilsum --help, s": command(*cli, "--help"),
            "import veilsum, s": command("-c", "import veilsum"),
        }


def phase1(draws: int = sized(10**8, 600)) -> dict[str, object]:
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


def dgd(
    n: int = sized(10_000, 50), dim: int = 100, steps: int = 20
) -> dict[str, object]:
    """One DGD iteration against scipy's CSR product and three passes (at most 1)."""
    topology = Topology.family(f"regular:{n}:6:seed=0")
    weights = metropolis_weights(topology)
    stream = np.random.default_rng(0)
    theta = stream.standard_normal((n, dim))
    x = stream.standard_normal((n, dim))
    effective = EffectiveCost(Affine(dim), theta, SquaredNorm(1.0))
    method = Dgd(Box(-100.0, 100.0, dim=dim))
    task = EngineTask(
        method=method, weights={"symmetric": weights}, cost=effective, start=x
    )
    engine = engine_for(task)
    start = engine.begin()
    passed = np.empty_like(x)

    def ours() -> object:
        return engine.advance(start, steps)

    def floor() -> None:
        for _ in range(steps):
            mixed = weights @ x
            for _ in range(3):
                np.add(mixed, theta, out=passed)

    return {"agents": n, "dim": dim, **side_by_side(ours, floor, repeats=9)}


def worst(n: int = sized(30, 16), size: int = 4) -> dict[str, object]:
    """The exact worst coalition against eigenvalues of every one (at most 0.5)."""
    topology = Topology.family(f"regular:{n}:8:seed=1")
    adjacency = topology.adjacency.toarray()
    sets = np.array(list(combinations(range(n), size)))
    pieces = np.array_split(sets, max(1, len(sets) // 700))

    def plain() -> float:
        return min(
            float(mu2_without_coalitions(adjacency, piece).min()) for piece in pieces
        )

    assert abs(plain() - worst_mu2(topology, tolerate=size).upper) < 1e-10
    # What was found of a graph is kept: every repeat has a graph of its own.
    others = [Topology.family(f"regular:{n}:8:seed={k}") for k in range(2, 20)]

    def ours() -> float:
        return worst_mu2(others.pop(), tolerate=size).upper

    return {"coalitions": len(sets), **side_by_side(ours, plain, repeats=7)}


def scale() -> dict[str, object]:
    """Exact and bracketed answers on larger graphs: seconds, and how good they are."""
    sixty = Topology.family(f"regular:{sized(60, 12)}:6:seed=1")
    thousand = Topology.family(f"regular:{sized(1000, 20)}:6:seed=1")
    large = Topology.family(f"regular:{sized(10000, 30)}:8:seed=1")
    start = time.perf_counter()
    found = worst_case(large, sigma=1.0, tolerate=2).worst
    seconds = time.perf_counter() - start
    return {
        "n = 60, t = 3, exact, s": clock(lambda: worst_mu2(sixty, tolerate=3)),
        "n = 1,000, t = 1, exact, s": clock(lambda: worst_mu2(thousand, tolerate=1)),
        "n = 10,000, t = 2, interval, s": seconds,
        "its epsilon_upper / epsilon_lower": found.epsilon_upper / found.epsilon_lower,
    }


def mu2(n: int = sized(100_000, 100)) -> dict[str, object]:
    """Certified mu2 of an expander and of a map-like graph: seconds, lower / upper."""
    found: dict[str, object] = {}
    for name, topology in (
        ("random 6-regular", Topology.family(f"regular:{n}:6:seed=1")),
        ("geometric", geometric(n)),
    ):
        start = time.perf_counter()
        bounds = certified_mu2(topology)
        found[f"{name}, s"] = time.perf_counter() - start
        found[f"{name}, {bounds.certificate}"] = (bounds.lower or 0.0) / bounds.upper
    return found


def geometric(n: int) -> Topology:
    """Points in a square joined when close: the largest connected piece."""
    points = np.random.default_rng(0).random((n, 2))
    pairs = cKDTree(points).query_pairs(
        np.sqrt(10 / (np.pi * n)), output_type="ndarray"
    )
    whole = Topology.from_edges(pairs.tolist())
    return whole.induced(max(graph_components(whole), key=len))


def kappa(n: int = sized(1000, 20)) -> dict[str, object]:
    """Vertex connectivity against networkx (at least 10 times faster)."""
    graph = Topology.family(f"regular:{n}:6:seed=1").to_networkx()
    # What was found of a graph is kept: every repeat has a graph of its own.
    others = [Topology.family(f"regular:{n}:6:seed={k}") for k in range(1, 20)]

    def ours() -> int:
        return vertex_connectivity(others.pop())

    def theirs() -> int:
        return nx.node_connectivity(graph)

    found = side_by_side(theirs, ours, repeats=3)
    early = clock(lambda: vertex_connectivity(others.pop(), at_most=3))
    return {
        "networkx_s": found["ours_s"],
        "ours_s": found["floor_s"],
        "times faster": found["ratio"],
        "only whether 3-connected, s": early,
    }


BENCHMARKS: dict[str, Callable[[], dict[str, object]]] = {
    "start": start,
    "phase1": phase1,
    "dgd": dgd,
    "worst": worst,
    "scale": scale,
    "mu2": mu2,
    "kappa": kappa,
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
