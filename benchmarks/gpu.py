"""The jax engine on an accelerator, beside what its memory can do in the same run.

    python benchmarks/gpu.py                     # 1,000,000 agents, 64 coordinates
    python benchmarks/gpu.py --agents 10000000 --dim 10 --graph random
    python benchmarks/gpu.py --part masks        # or engines, or dispatch

Needs the extra `jax` with support for the accelerator, numpy and scipy; where PyTorch
is there, too, the same steps are written with its sparse matrices and timed beside.

Six neighbours each: a random graph, and a circle whose neighbours are near in memory.
An iteration of DGD must touch x, theta~ and the next x. On a random graph every agent's
row is also fetched by six others, at times too far apart for any cache: both counts are
printed, as multiples of the time that copying so many bytes takes. Gradient tracking
mixes twice: it reads x, y and writes x, then reads x, y, the new x and writes y.

Then all masks of Phase I, drawn there, whose sum must be exactly zero; and a year of
hourly dispatch, see `gpu_dispatch.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import gpu_dispatch
from clocks import sized
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import ShareStreams, draw_mask_shares
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.device_masks import device_masks, unbalanced_device_masks
from veilsum.minimise.engines.engine import Engine, EngineTask
from veilsum.minimise.engines.jax import JaxEngine
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.gradient_tracking import GradientTracking

NEIGHBOURS, STEPS, REPEATS = 6, *sized((50, 9), (2, 1))
# Agents whose shares are drawn one by one, to tell how long that takes for all.
FEW = sized(500, 20)


def circle(n: int) -> np.ndarray:
    """Return agents' neighbours: three to each side."""
    offsets = np.array([-3, -2, -1, 1, 2, 3])
    return (np.arange(n)[:, None] + offsets) % n


def random(n: int) -> np.ndarray:
    """Return neighbours by three random orders: whoever is next, or before."""
    stream, columns = np.random.default_rng(0), []
    for _ in range(NEIGHBOURS // 2):
        order = stream.permutation(n)
        nexts, befores = np.empty(n, np.int64), np.empty(n, np.int64)
        nexts[order], befores[order] = np.roll(order, -1), np.roll(order, 1)
        columns += [nexts, befores]
    return np.stack(columns, axis=1)


def weights(neighbours: np.ndarray) -> sparse.csr_array:
    """Return equal weights for oneself and all neighbours."""
    n, d = neighbours.shape
    heard = np.concatenate([np.arange(n)[:, None], neighbours], axis=1).ravel()
    starts = np.arange(n + 1) * (d + 1)
    values = np.full(heard.size, 1.0 / (d + 1))
    return sparse.csr_array((values, heard, starts), shape=(n, n))


def task(method: Any, matrix: sparse.csr_array, dim: int, precision: Any) -> EngineTask:
    """Return squared distances to random points, under no masks: as fast as any."""
    stream = np.random.default_rng(1)
    theta = stream.standard_normal((matrix.shape[0], dim))
    cost = EffectiveCost(Affine(dim), theta, SquaredNorm(1.0))
    start = np.zeros_like(theta)
    kinds = {"symmetric": matrix}
    return EngineTask(
        method=method, weights=kinds, cost=cost, start=start, precision=precision
    )


def per_iteration(engine: Engine) -> float:
    """Return the seconds of one iteration: a long run less a short one, a median."""
    state = engine.begin()

    def seconds(count: int) -> float:
        begun = time.perf_counter()
        engine.advance(state, count).x.block_until_ready()
        return time.perf_counter() - begun

    seconds(STEPS), seconds(1)
    found = [(seconds(STEPS + 1) - seconds(1)) / STEPS for _ in range(REPEATS)]
    return statistics.median(found)


def bandwidth(n_bytes: int = sized(1 << 31, 1 << 12)) -> float:
    """Return bytes a second, read and written, of the best plain copy."""
    import jax

    source = jax.numpy.ones(n_bytes // 4, dtype="float32")
    copy = jax.jit(lambda x: x + 1.0)
    copy(source).block_until_ready()
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        for _ in range(10):
            copied = copy(source)
        copied.block_until_ready()
        times.append((time.perf_counter() - begun) / 10)
    return 2 * n_bytes / statistics.median(times)


def by_torch(name: str, matrix: sparse.csr_array, dim: int) -> float | None:
    """Return the seconds of an iteration with PyTorch's sparse matrices, if there."""
    try:
        import torch
    except ImportError:
        return None
    whole = [torch.tensor(one).cuda() for one in (matrix.indptr, matrix.indices)]
    weights = torch.sparse_csr_tensor(*whole, torch.tensor(matrix.data).cuda())
    shape = (matrix.shape[0], dim)
    theta = torch.randn(shape, dtype=torch.float64, device="cuda")
    x, y = torch.zeros_like(theta), theta.clone()

    def dgd(x: Any, y: Any) -> tuple[Any, Any]:
        mixed = weights @ x
        return torch.clamp(mixed - 0.01 * (2.0 * mixed + theta), -100.0, 100.0), y

    def tracking(x: Any, y: Any) -> tuple[Any, Any]:
        new = weights @ (x - 0.01 * y)
        return new, weights @ (y + 2.0 * (new - x))

    step, times = dgd if name == "dgd" else tracking, []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(10):
            x, y = step(x, y)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / 10)
    return statistics.median(times)


# By method: arrays that an iteration must touch, and rows that it fetches of others.
METHODS: dict[str, tuple[Callable[[int], Any], int, int]] = {
    "dgd": (lambda dim: Dgd(Box(-100.0, 100.0, dim=dim)), 3, 1),
    "gradient-tracking": (lambda dim: GradientTracking(WholeSpace(dim), 0.01), 7, 2),
}
PRECISIONS = sized(("float64", "float32"), ("float64",))
LAWS = (
    Masks("uniform", grid=20),
    Masks("lattice", sigma=1.0, grid=40),
    Masks("gaussian", sigma=1.0),
)[: sized(3, 1)]


def show_engines(agents: int, dim: int, graphs: list[Callable[[int], Any]]) -> None:
    """Print a line for each graph, method and precision."""
    rate = bandwidth()
    print(json.dumps({"copy_GB_s": round(rate / 1e9)}), flush=True)
    for graph in graphs:
        matrix = weights(graph(agents))
        for name, (make, arrays, fetched) in METHODS.items():
            for precision in PRECISIONS:
                one = agents * dim * np.dtype(precision).itemsize
                engine = JaxEngine(task(make(dim), matrix, dim, precision))
                spent = per_iteration(engine)
                line = {
                    "graph": graph.__name__,
                    "method": name,
                    "precision": precision,
                    "ms": round(1e3 * spent, 4),
                    "times what must be touched": spent * rate / (arrays * one),
                    "times that and what is fetched": (
                        spent * rate / ((arrays + NEIGHBOURS * fetched) * one)
                    ),
                }
                if precision == "float64":
                    other = by_torch(name, matrix, dim)
                    line["torch, by this"] = other and other / spent
                print(json.dumps(line), flush=True)


def show_masks(agents: int, dim: int, graph: Callable[[int], Any]) -> None:
    """Print a line for each law: all masks drawn, and their sum."""
    import jax

    heard = jax.device_put(graph(agents).T.astype(np.int32))
    pairs = [(i, j) for i, row in enumerate(circle(FEW)) for j in row if i < j]
    small = Topology.from_edges(pairs)
    for masks in LAWS:
        law = masks.on(small)
        times = []
        for epoch in range(4):
            begun = time.perf_counter()
            drawn = device_masks(heard, law, 1, size=dim, epoch=epoch)
            drawn.block_until_ready()
            times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        draw_mask_shares(small, law, ShareStreams(1), size=dim)
        host = (time.perf_counter() - begun) * heard.size / (2 * small.n_edges)
        line = {
            "phase": "I",
            "law": law.name,
            "agents": agents,
            "dim": dim,
            "s": round(statistics.median(times[1:]), 4),
            "s with compiling": round(times[0], 3),
            "largest sum of masks": float(np.abs(unbalanced_device_masks(drawn)).max()),
            f"on the host, scaled from {FEW} agents, s": round(host),
        }
        print(json.dumps(line), flush=True)


GRAPHS = {"random": random, **sized({"circle": circle}, {})}
# The dispatch has a benchmark of its own, with a smoke size.
PARTS = sized(("engines", "masks", "dispatch"), ("engines", "masks"))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--agents", type=int, default=sized(1_000_000, 100))
    words.add_argument("--dim", type=int, default=sized(64, 3))
    words.add_argument("--graph", choices=GRAPHS, help="one of the two alone")
    words.add_argument("--part", choices=PARTS, help="one of the three alone")
    words.add_argument(
        "--homes", type=int, default=sized(1_000_000, 50), help="of the dispatch"
    )
    words.add_argument(
        "--hours", type=int, default=sized(8760, 3), help="of the dispatch"
    )
    given = words.parse_args()
    import jax

    where = {"device": str(jax.devices()[0].device_kind), "jax": jax.__version__}
    print(json.dumps(where), flush=True)
    parts = [given.part] if given.part else PARTS
    graphs = [GRAPHS[given.graph]] if given.graph else [*GRAPHS.values()]
    if "engines" in parts:
        show_engines(given.agents, given.dim, graphs)
    if "masks" in parts:
        show_masks(given.agents, given.dim, graphs[0])
    if "dispatch" in parts:
        gpu_dispatch.show(given.homes, given.hours, most_seconds=180.0)


if __name__ == "__main__":
    main()
