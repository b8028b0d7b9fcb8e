"""Run by `test_ranks.py` under mpiexec: every rank plays a scene, the first reports.

Prints one line of JSON.
"""

import json
import os
import sys
from hashlib import blake2b
from itertools import product
from pathlib import Path

import numpy as np
from mpi4py import MPI

import engine_tasks
from engine_tasks import METHODS, all_weights, arrived, cost_of
from veilsum.cli.ranks import CommandRank
from veilsum.errors import VeilsumError
from veilsum.graphs.cutting import cut_graph_into_parts, even_ends_of_graph_parts
from veilsum.graphs.links import links_touching_parties
from veilsum.graphs.mixing import mixing_weights
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.masks.masking import CounterStreams, draw_mask_shares
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box, WholeSpace
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import (
    LocalGradient,
    SquaredNorm,
    stack_remainders,
)
from veilsum.minimise.engines import mpi
from veilsum.minimise.engines.engine import EngineTask
from veilsum.minimise.engines.mpi import EngineRanks, MpiEngine
from veilsum.minimise.engines.numpy import PlainEngine
from veilsum.minimise.methods.dgd import Dgd
from veilsum.minimise.methods.extra import Extra, extra_step
from veilsum.minimise.methods.gradient_tracking import GradientTracking
from veilsum.minimise.ranks import (
    BY_DEGREE,
    RankOwnGraph,
    engine_of_own_rank,
    iterate_on_all_ranks,
    large_on_ranks,
)

COMM = MPI.COMM_WORLD


def without_order(spec, *, seed=0):
    """A graph whose parties' numbers say nothing about who is near."""
    graph = Topology.family(spec)
    place = np.random.default_rng(seed).permutation(graph.n_parties)
    return Topology.from_edges(place[graph.edges], parties=range(graph.n_parties))


GRAPHS = {
    "geometric": lambda: Topology.family("geometric:600:6"),
    "no order": lambda: without_order("geometric:500:6"),
    "grid": lambda: Topology.family("grid:25x8"),
    "ring": lambda: Topology.family("ring:120"),
}


# Two that are made in parts, and one of which a rank leaves most out.
OWN = ("geometric:300:6", "grid:25x8", "circulant:100:1,2")


def task_on(topology, method, cost="distances", dim=3, **rest):
    stream = np.random.default_rng(7)
    parties = topology.n_parties
    return EngineTask(
        method=METHODS[method](dim),
        weights=all_weights(topology),
        cost=cost_of(cost, parties, dim, stream),
        start=stream.standard_normal((parties, dim)),
        **rest,
    )


def same_as_alone(graphs, methods, costs):
    """How far ranks are from one process, and a hash of what they found."""
    found = {}
    for graph, method, cost in product(graphs, methods, costs):
        task = task_on(GRAPHS[graph](), method, cost)
        ours, theirs = arrived(MpiEngine(task), 40), arrived(PlainEngine(task), 40)
        scale = max(1.0, float(np.abs(theirs).max()))
        away = float(np.abs(ours - theirs).max()) / scale
        digest = blake2b(ours.tobytes(), digest_size=8).hexdigest()
        found[f"{graph}, {method}, {cost}"] = [away, digest]
    return found


def one_gradient_fails():
    """The last party's gradient is nan from some point on: it is on the last rank."""
    topology = GRAPHS["ring"]()
    n = topology.n_parties

    def gradient(i):
        def at(x):
            return x - i if i < n - 1 or x[0] < 0.5 else x * np.nan

        return LocalGradient.split(at, np.zeros(2))

    cost = EffectiveCost(
        Affine(2), np.zeros((n, 2)), stack_remainders([gradient(i) for i in range(n)])
    )
    task = EngineTask(
        method=METHODS["tracking"](2),
        weights=all_weights(topology),
        cost=cost,
        start=np.zeros((n, 2)),
    )
    return {"ranks": said(MpiEngine(task)), "alone": said(PlainEngine(task))}


def said(engine):
    try:
        engine.advance(engine.begin(), 40)
    except VeilsumError as error:
        return [str(error), error.party]
    return None


def different_tasks():
    """Every rank draws costs of its own."""
    task = task_on(GRAPHS["ring"](), "dgd")
    slopes = task.cost.coefficients + COMM.rank
    cost = EffectiveCost(task.cost.basis, slopes, task.cost.remainder)
    try:
        MpiEngine(EngineTask(**{**vars(task), "cost": cost}))
    except VeilsumError as error:
        return str(error)
    return None


def sums():
    """What is added up or compared over all ranks, from rows of one's own."""
    mpi.PIECE = 16
    rows = np.random.default_rng(5).standard_normal((16 * 64 + 5, 3)) * 1e3
    ends = even_ends_of_graph_parts(len(rows), COMM.size)
    ends[1:-1] -= ends[1:-1] % 16
    ranks = EngineRanks(ends, COMM)
    own = rows[ranks.own]
    holes = np.nan if COMM.rank == COMM.size - 1 else 0.0
    return {
        "total": ranks.total(own).tolist(),
        "away": float(np.abs(ranks.total(own) - rows.sum(axis=0)).max()),
        "largest": ranks.largest(float(own.max())) == float(rows.max()),
        "nan": bool(np.isnan(ranks.largest(holes))),
        "gathered": bool(np.array_equal(ranks.gathered(own), rows)),
    }


def own_rows(spec):
    """Ranks that never have more than their own rows, beside one that has all."""
    whole, graph = Topology.family(spec), RankOwnGraph.of_family(spec)
    mapped = RankOwnGraph.of_links(whole.n_parties, whole.edges)
    own, streams = graph.ranks.own, CounterStreams(3)
    asked = Masks("lattice", sigma=2.0, largest=9.0)
    law = graph.law(asked)
    alone = asked.on(whole)
    assert (law.grid, law.wide) == (alone.grid, alone.wide)
    masks = graph.masks(law, streams, 3)
    all_masks = draw_mask_shares(whole, law, streams, size=3).masks()
    cost = cost_of("distances", whole.n_parties, 3, np.random.default_rng(1))
    theta = cost.coefficients + law.decode(all_masks)
    cost = EffectiveCost(cost.basis, theta, cost.remainder)
    weights = {name: mixing_weights(whole, name) for name in BY_DEGREE}
    task = EngineTask(
        method=METHODS["extra"](3),
        weights={"symmetric": weights["lazy-metropolis"]},
        cost=cost,
        start=np.zeros((whole.n_parties, 3)),
    )
    alone = arrived(PlainEngine(task), 40)[0]
    distances = np.linalg.norm(alone - alone.mean(axis=0), axis=1)
    engine = engine_of_own_rank(
        graph,
        method=task.method,
        weights=graph.weights("lazy-metropolis"),
        cost=cost.rows(own),
        start=task.start[own],
    )
    looks = []
    run = iterate_on_all_ranks(
        engine, 40, told=lambda state: looks.append(state.iteration)
    )
    differ = [abs(graph.weights(name) - w[own]).max() for name, w in weights.items()]
    parts = cut_graph_into_parts(weights["metropolis"], COMM.size, in_order=True)
    return {
        "links": np.array_equal(graph.links, links_touching_parties(whole.edges, own)),
        "mapped": np.array_equal(graph.links, mapped.links),
        "degrees": np.array_equal(graph.degrees, whole.degrees[own]),
        "masks": np.array_equal(masks, all_masks[own]),
        "halo": np.array_equal(graph.parts.halo, parts.halo),
        "sum": graph.exact_sums(masks),
        "not a sum of masks": graph.exact_sums(masks + 1)[0] == whole.n_parties,
        "weights": float(max(differ)),
        "away": float(abs(run.own - alone[own]).max()),
        "mean": float(abs(run.mean - alone.mean(axis=0)).max()),
        "apart": abs(run.apart - float(distances.max())),
        "looks": [len(looks), looks[-1], run.iterations],
    }


def refusals():
    """What no rank begins, and numbers that run away on one of them."""
    said = [
        sentence(lambda: RankOwnGraph.of_family("cycles:300:6").weights("metropolis"))
    ]
    graph = RankOwnGraph.of_family("grid:25x8")
    said.append(sentence(lambda: graph.weights("best-constant")))
    own = graph.ranks.own
    theta = np.zeros((own.stop - own.start, 1))
    if COMM.rank == 0:
        theta[0] = np.inf
    cost = EffectiveCost(Affine(1), theta, SquaredNorm(1.0))
    how = {"method": METHODS["tracking"](1), "cost": cost}
    how["weights"] = graph.weights("metropolis")
    with np.errstate(invalid="ignore"):
        engine = engine_of_own_rank(graph, start=np.zeros_like(theta), **how)
        said.append(sentence(lambda: iterate_on_all_ranks(engine, 40)))
    said.append(sentence(lambda: engine_of_own_rank(graph, start=theta[1:], **how)))
    # Every rank says the same.
    hashed = np.frombuffer(blake2b(repr(said[:3]).encode()).digest(), np.uint8)
    everywhere = np.empty((COMM.size, len(hashed)), np.uint8)
    COMM.Allgather(hashed, everywhere)
    return [*said, bool((everywhere == hashed).all())]


def large():
    """The whole job, as one process would do it."""
    spec, n, how = "geometric:300:6", 300, {"iterations": 50, "sigma": 0.5}
    graph, stream = Topology.family(spec), np.random.default_rng((3, 0))
    rows = stream.standard_normal((n, 2))
    reach = max(1.0, float(abs(rows).max()))
    law = Masks("lattice", 0.5, None, 2.0 * reach).on(graph)
    masks = draw_mask_shares(graph, law, CounterStreams(0), size=2).masks()
    theta = law.decode(masks + law.encode(-2.0 * rows))
    lazy, plain = (mixing_weights(graph, f"{one}metropolis") for one in ("lazy-", ""))
    least = 2.0 * float(lazy.diagonal().min()) - 1.0
    methods = {
        "dgd": (Dgd(Box(-reach, reach, dim=2), 0.5, 0.75), plain),
        "gradient-tracking": (GradientTracking(WholeSpace(2), 0.2), plain),
        "extra": (Extra(WholeSpace(2), extra_step(2.0, least)), lazy),
    }
    found = {}
    for name, (method, weights) in methods.items():
        run = large_on_ranks(spec, dim=2, method=name, **how)
        task = EngineTask(
            method=method,
            weights={"symmetric": weights},
            cost=EffectiveCost(Affine(2), theta, SquaredNorm(1.0)),
            start=np.zeros((n, 2)),
        )
        alone = arrived(PlainEngine(task), 50)[0]
        here = slice(run.first, run.first + len(run.own))
        found[name] = {
            "away": float(abs(run.own - alone[here]).max()),
            "mean": float(abs(run.minimiser - alone.mean(axis=0)).max()),
            "answer": float(abs(run.answer - rows.mean(axis=0)).max()),
            "worst": run.max_error - farthest(alone, run.answer),
            "said": [str(run), run.to_dict()],
        }
    again = large_on_ranks(spec, rows, method="extra", **how)
    found["extra"]["given"] = np.array_equal(run.own, again.own)
    return found


def checkpoints():
    """A run that is stopped and goes on, one whose ranks were stopped apart, others."""
    folder = Path(os.environ["SCENE_FOLDER"])
    spec = "grid:12x9"

    def run(iterations, **more):
        how = {"method": "gradient-tracking", "dim": 2, "every": 1e-9, **more}
        path = folder / f"{how['method']}.npz"
        return large_on_ranks(spec, iterations=iterations, checkpoint=path, **how)

    def files():
        COMM.Barrier()
        return sorted(folder.glob(f"gradient-tracking.{COMM.rank}-of-*.npz"))

    whole = large_on_ranks(spec, method="gradient-tracking", dim=2, iterations=45)
    first = run(20)
    (kept,) = files()
    earlier = kept.read_bytes()
    on = run(30)
    # The last rank was stopped before it could write: what both have is taken.
    (newer,) = files()
    other = newer.with_name(newer.name[:-5] + "ba"["ab".index(newer.name[-5])] + ".npz")
    other.write_bytes(earlier)
    if COMM.rank == COMM.size - 1:
        newer.unlink()
    COMM.Barrier()
    both = run(45)
    said = sentence(lambda: run(45, seed=1))
    COMM.Barrier()
    # And here nobody has what the others have.
    (last,) = files()
    if COMM.rank == 0:
        last.write_bytes(earlier)
    COMM.Barrier()
    anew = run(45)
    return {
        "resumed": [one.resumed for one in (first, on, both, anew)],
        "same": [np.array_equal(one.own, whole.own) for one in (both, anew)],
        "another": said,
        "files": len(files()),
        "every": sentence(lambda: run(20, every=0.0)),
    }


def farthest(points, answer):
    return float(np.linalg.norm(points - answer, axis=1).max())


def sentence(call):
    try:
        call()
    except VeilsumError as error:
        return str(error)
    return None


def seeds():
    """A seed that nobody gave, and one that somebody did."""
    fresh, found = CommandRank(COMM).seed(None), np.empty(COMM.size, np.int64)
    COMM.Allgather(np.array([fresh]), found)
    return [len(set(found.tolist())), fresh > 0, CommandRank(COMM).seed(5)]


SCENES = {
    "main methods": lambda: same_as_alone(
        ("geometric", "no order", "grid"),
        ("dgd", "tracking", "extra"),
        ("distances",),
    ),
    "all methods": lambda: same_as_alone(("geometric",), METHODS, engine_tasks.COSTS),
    "gradient": one_gradient_fails,
    "different": different_tasks,
    "sums": sums,
    "own rows": lambda: {spec: own_rows(spec) for spec in OWN},
    "refusals": refusals,
    "large": large,
    "checkpoints": checkpoints,
    "seeds": seeds,
}


if __name__ == "__main__":
    # Blocks of a few rows: each rank has several, most of them inside.
    mpi.BLOCK_BYTES = mpi.FEWEST_ROWS = 40
    played = {name: SCENES[name]() for name in sys.argv[1:]}
    if COMM.rank == 0:
        print(json.dumps(played))
