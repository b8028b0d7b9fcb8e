"""A problem solved by real machines: one for each party, on the network in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from veilsum.costs.cost import Cost
from veilsum.costs.remainders import stack
from veilsum.drivers.faults import Faults
from veilsum.drivers.iterating import Progress
from veilsum.drivers.loopback import World
from veilsum.drivers.phase_two import IterativePhase, OneShotPhase, Outcome
from veilsum.drivers.problem import Problem
from veilsum.drivers.run import Run, finished_run
from veilsum.errors import InvalidInputError, ProtocolError
from veilsum.graphs.spreading import spreading_cost
from veilsum.methods.one_shot import OneShot
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.masking import Shares
from veilsum.numbers.secrets import Secret
from veilsum.protocol.codec import Codec
from veilsum.protocol.messages import Masked, Share
from veilsum.protocol.plan import Plan, Policy
from veilsum.protocol.rounds import MethodRounds, Schedules, rounds_done
from veilsum.protocol.work import Rounds, SumWork

WATCHED = ("sent/", "masked/", "result", "rounds")
# The settings that all parties must have alike, beside method, iterations and start.
AGREED = (
    *("step", "power", "gradient_at", "mixing", "rounds", "recentre", "convex_locals"),
    *("smooth", "mean_smooth", "mean_convex", "tolerance", "byte_budget"),
)


def solve_in_loopback(
    problem: Problem,
    *,
    seed: int | None = None,
    faults: Faults | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run a checked problem on machines that exchange real frames.

    Raises:
        ProtocolError: the parties gave up; the message says who and why.
    """
    world = world_of(problem, seed=seed, faults=faults)
    world.progress = progress
    world.run()
    if len(world.finished) < problem.topology.n_parties:
        raise ProtocolError(_why(world))
    return finished_run(problem, traced_shares(world), _outcome(problem, world))


def world_of(
    problem: Problem, *, seed: int | None = None, faults: Faults | None = None
) -> World:
    """Return the world in which a problem's parties meet."""
    if problem.faults is not None:
        raise InvalidInputError(
            "faults of links are simulated with all parties in one array: use the "
            "driver vectorised; machines have faults of their own"
        )
    plan, schedules = plan_of(problem), _schedules(problem)
    works = {
        name: work_of(problem, name, cost, schedules)
        for name, cost in zip(plan.parties, problem.costs, strict=True)
    }
    return World(
        plan,
        works,
        problem.streams(seed),
        faults=faults or Faults(),
        seed=0 if seed is None else seed,
        record=faults is not None,
        watch=WATCHED,
    )


def plan_of(problem: Problem, *, run: str = "", policy: Policy | None = None) -> Plan:
    """Return what the parties agree on, written out.

    Args:
        problem: only what all parties know of it matters here.
        run: the run's name, where runs must be told apart.
        policy: waits and losses; the usual ones without it.
    """
    method, topology = problem.method, problem.topology
    spread = method.spread if isinstance(method, OneShotPhase) else "flooding"
    usual = policy or Policy(tolerate=len(problem.guarantee.corrupted))
    terms = {**_terms(problem), **({"run": run} if run else {})}
    return Plan(
        terms=json.dumps(terms, sort_keys=True).encode(),
        topology=topology,
        law=problem.law,
        size=problem.basis.size,
        answer_size=problem.basis.dim,
        round_size=_round_size(problem),
        tolerance=_agreement(problem),
        spread=spread,
        # Nobody can stand in for a part of the cost that never left its owner.
        policy=replace(usual, stand_in=problem.remainder.kind != "local"),
    )


def _agreement(problem: Problem) -> float:
    method = problem.method
    if not isinstance(method, IterativePhase):
        return problem.settings.agreement(iterative=False)
    far = problem.settings.agreement(iterative=True)
    # Two answers that are both so near to the right one may be twice as far apart.
    return far if method.schedule.stopping is None else 2.0 * far


def _round_size(problem: Problem) -> int:
    if not isinstance(problem.method, IterativePhase):
        return 0
    plan = problem.method.schedule
    return plan.message_vectors * problem.basis.dim + (plan.stopping is not None)


def _terms(problem: Problem) -> dict[str, Any]:
    settings = problem.settings
    start = np.asarray(settings.start, dtype=np.float64)
    return {
        "basis": _plain(problem.basis),
        "remainder": _plain(problem.remainder),
        "domain": _plain(problem.domain),
        "method": settings.method,
        "iterations": settings.iterations,
        "start": start.tolist(),
        **{name: getattr(settings, name) for name in AGREED},
    }


def _plain(value: Any) -> Any:
    """Return a public value as JSON has it; what is a party's own is only named."""
    name = type(value).__name__
    if isinstance(value, Secret) or not is_dataclass(value):
        return [name]
    parts = {one.name: getattr(value, one.name) for one in fields(value)}
    return [name, {key: np.asarray(part).tolist() for key, part in parts.items()}]


def work_of(
    problem: Problem, name: str, cost: Cost, schedules: Schedules | None = None
) -> SumWork:
    """Return one party's part: its own cost, and what all parties know."""
    known = schedules or _schedules(problem)
    rounds = _rounds(problem, name, cost, known)
    return SumWork(cost.coefficients, _solver(problem), rounds)


def _solver(problem: Problem) -> Callable[[Vector, tuple[str, ...]], Vector]:
    """Return how everybody finds the answer from the total: by what all know."""
    if problem.remainder.kind == "local":
        return _no_answer
    remainders = dict(
        zip(
            problem.topology.parties,
            (cost.remainder for cost in problem.costs),
            strict=True,
        )
    )
    basis, domain = problem.basis, problem.domain

    def solve(total: FloatArray, members: tuple[str, ...]) -> Vector:
        remainder = stack([remainders[name] for name in members])
        return OneShot(basis, remainder, len(members), domain).solve(total)

    return solve


def _no_answer(total: Vector, members: tuple[str, ...]) -> Vector:
    del total, members
    raise ProtocolError("a sum is not the answer where costs have a part of their own")


def _schedules(problem: Problem) -> Schedules | None:
    method = problem.method
    if not isinstance(method, IterativePhase):
        return None
    return Schedules(problem.settings, method.facts)


def _rounds(
    problem: Problem, name: str, cost: Cost, schedules: Schedules | None
) -> Rounds | None:
    if schedules is None or not isinstance(problem.method, IterativePhase):
        return None
    return MethodRounds(
        schedules=schedules,
        law=problem.law,
        basis=problem.basis,
        remainder=cost.remainder,
        start=problem.method.start[problem.topology.index(name)],
    )


def traced_shares(world: World) -> Shares:
    """Return every share of the first epoch, as the parties wrote them down."""
    topology, law = world.plan.topology, world.plan.law
    codec = Codec(world.plan.size)
    values = np.empty((topology.n_edges, 2, world.plan.size), dtype=law.dtype)
    for row, (i, j) in zip(values, topology.edges.tolist(), strict=True):
        for arc, (sender, receiver) in enumerate(((i, j), (j, i))):
            key = f"sent/0/{topology.parties[receiver]}"
            share = codec.decode(world.written[topology.parties[sender], key])
            assert isinstance(share, Share)
            row[arc] = share.numbers
    return Shares(topology, values)


def traced_masked(world: World) -> dict[str, Any]:
    """Return every party's masked numbers of the first epoch."""
    codec, found = Codec(world.plan.size), {}
    for name in world.plan.parties:
        masked = codec.decode(world.written[name, "masked/0"])
        assert isinstance(masked, Masked)
        found[name] = masked.numbers
    return found


def _outcome(problem: Problem, world: World) -> Outcome:
    answers = [
        np.frombuffer(world.written[name, "result"]) for name in world.plan.parties
    ]
    method, iterations = problem.method, 0
    spread, rounds, name, stopped = None, 0, "one-shot", None
    if isinstance(method, OneShotPhase):
        spread = method.spread
        rounds, _ = spreading_cost(problem.topology, method.spread)
    elif isinstance(method, IterativePhase):
        iterations, stopped = _how_it_ended(method, world)
        rounds, name = method.rounds(iterations), method.schedule.name
    shares = 2 * problem.topology.n_edges * problem.basis.size
    return Outcome(
        times=np.array([iterations]),
        estimates=np.stack(answers)[None],
        iterations=iterations,
        rounds=rounds,
        bytes=world.bytes - shares * problem.law.number_bytes,
        spread=spread,
        method=name,
        stopped=stopped,
    )


def _how_it_ended(method: IterativePhase, world: World) -> tuple[int, str]:
    """Return after how many iterations, and why."""
    written = world.written[world.plan.parties[0], "rounds"]
    index = rounds_done(written) - method.schedule.recentring
    iterations = index // method.schedule.method.rounds_per_iteration
    early = iterations < method.schedule.iterations
    return iterations, "tolerance" if early else method.schedule.limit


def _why(world: World) -> str:
    reasons = [
        f"{name}: {abort.reason}, {abort.detail}"
        for name, abort in world.aborted.items()
    ]
    return "the parties gave up; " + "; ".join(reasons)
