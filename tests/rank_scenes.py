"""Run by `test_ranks.py` under mpiexec: every rank plays a scene, the first reports.

Prints one line of JSON.
"""

import json
import sys
from hashlib import blake2b
from itertools import product

import numpy as np
from mpi4py import MPI

import engine_tasks
from engine_tasks import METHODS, all_weights, arrived, cost_of
from veilsum.cli.ranks import Here
from veilsum.costs.bases import Affine
from veilsum.costs.effective import EffectiveCost
from veilsum.costs.remainders import LocalGradient, stack
from veilsum.engines import mpi
from veilsum.engines.engine import Task
from veilsum.engines.mpi import MpiEngine, RankEngine, Ranks, rows_of_task
from veilsum.engines.numpy import PlainEngine
from veilsum.errors import VeilsumError
from veilsum.graphs.cutting import even_ends
from veilsum.graphs.topology import Topology

COMM = MPI.COMM_WORLD
# Blocks of a few rows: each rank has several, most of them inside.
mpi.BLOCK_BYTES = mpi.FEWEST_ROWS = 40


def points_in_a_square(parties, degree, *, seed=0):
    """A geometric graph whose parties have no order, each linked to the nearest."""
    places = np.random.default_rng(seed).random((parties, 2))
    apart = ((places[:, None] - places) ** 2).sum(axis=-1)
    near = apart < degree / (np.pi * parties)
    np.put_along_axis(near, np.argsort(apart, axis=1)[:, 1:2], values=True, axis=1)
    first, second = np.nonzero(np.triu(near | near.T, 1))
    ends = zip(first.tolist(), second.tolist(), strict=True)
    return Topology.from_edges(ends, parties=range(parties))


GRAPHS = {
    "geometric": lambda: points_in_a_square(500, 6),
    "grid": lambda: Topology.family("grid:25x8"),
    "ring": lambda: Topology.family("ring:120"),
}


def task_on(topology, method, cost="distances", dim=3, **rest):
    stream = np.random.default_rng(7)
    parties = topology.n_parties
    return Task(
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
        Affine(2), np.zeros((n, 2)), stack([gradient(i) for i in range(n)])
    )
    task = Task(
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
        MpiEngine(Task(**{**vars(task), "cost": cost}))
    except VeilsumError as error:
        return str(error)
    return None


def sums():
    """What is added up or compared over all ranks, from rows of one's own."""
    mpi.PIECE = 16
    rows = np.random.default_rng(5).standard_normal((16 * 64 + 5, 3)) * 1e3
    ends = even_ends(len(rows), COMM.size)
    ends[1:-1] -= ends[1:-1] % 16
    ranks = Ranks(ends, COMM)
    own = rows[ranks.own]
    holes = np.nan if COMM.rank == COMM.size - 1 else 0.0
    return {
        "total": ranks.total(own).tolist(),
        "away": float(np.abs(ranks.total(own) - rows.sum(axis=0)).max()),
        "largest": ranks.largest(float(own.max())) == float(rows.max()),
        "nan": bool(np.isnan(ranks.largest(holes))),
        "gathered": bool(np.array_equal(ranks.gathered(own), rows)),
    }


def own_rows():
    """Ranks that have nothing but their own rows of weights, costs and starts."""
    task = task_on(GRAPHS["grid"](), "extra")
    ranks = Ranks(even_ends(len(task.start), COMM.size), COMM)
    engine = RankEngine(rows_of_task(task, None, ranks.own), ranks=ranks)
    state = engine.advance(engine.advance(engine.begin(), 3), 20)
    alone = arrived(PlainEngine(task), 23)[0]
    here = engine.points(state)
    return [len(here), bool(np.array_equal(here, alone[ranks.own]))]


def seeds():
    """A seed that nobody gave, and one that somebody did."""
    fresh, found = Here(COMM).seed(None), np.empty(COMM.size, np.int64)
    COMM.Allgather(np.array([fresh]), found)
    return [len(set(found.tolist())), fresh > 0, Here(COMM).seed(5)]


SCENES = {
    "main methods": lambda: same_as_alone(
        ("geometric", "grid"), ("dgd", "tracking", "extra"), ("distances",)
    ),
    "all methods": lambda: same_as_alone(("geometric",), METHODS, engine_tasks.COSTS),
    "gradient": one_gradient_fails,
    "different": different_tasks,
    "sums": sums,
    "own rows": own_rows,
    "seeds": seeds,
}


if __name__ == "__main__":
    played = {name: SCENES[name]() for name in sys.argv[1:]}
    if COMM.rank == 0:
        print(json.dumps(played))
