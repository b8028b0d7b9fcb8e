"""A problem solved by real machines: one for each party, on the network in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from veilsum.agent.codec import Codec
from veilsum.agent.messages import Masked, Share
from veilsum.agent.plan import Plan, Policy
from veilsum.agent.rounds import DgdRounds
from veilsum.agent.work import Rounds, SumWork
from veilsum.core.arrays import Vector
from veilsum.core.costs import Cost
from veilsum.core.masking import Shares
from veilsum.core.methods.one_shot import OneShot
from veilsum.core.remainders import stack
from veilsum.core.secrets import Secret
from veilsum.core.spreading import spreading_cost
from veilsum.errors import ProtocolError
from veilsum.sim.engine import Progress
from veilsum.sim.faults import Faults
from veilsum.sim.loopback import World
from veilsum.sim.phase_two import DgdPhase, OneShotPhase, Outcome
from veilsum.sim.problem import Problem
from veilsum.sim.run import Run, finished_run

WATCHED = ("sent/", "masked/", "result")


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
    if len(world.finished) < problem.topology.n_agents:
        raise ProtocolError(_why(world))
    return finished_run(problem, traced_shares(world), _outcome(problem, world))


def world_of(
    problem: Problem, *, seed: int | None = None, faults: Faults | None = None
) -> World:
    """Return the world in which a problem's parties meet."""
    plan = plan_of(problem)
    works = {
        name: work_of(problem, name, cost)
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


def plan_of(problem: Problem) -> Plan:
    """Return what the parties agree on, written out."""
    method, topology = problem.method, problem.topology
    spread = method.spread if isinstance(method, OneShotPhase) else "flooding"
    return Plan(
        terms=json.dumps(_terms(problem), sort_keys=True).encode(),
        topology=topology,
        law=problem.law,
        size=problem.basis.size,
        answer_size=problem.basis.dim,
        tolerance=problem.settings.agreement,
        spread=spread,
        # Nobody can stand in for a part of the cost that never left its owner.
        policy=Policy(
            stand_in=problem.remainder.kind != "local",
            tolerate=len(problem.guarantee.corrupted),
        ),
    )


def _terms(problem: Problem) -> dict[str, Any]:
    settings = problem.settings
    start = np.asarray(settings.start, dtype=np.float64)
    return {
        "basis": _plain(problem.basis),
        "remainder": _plain(problem.remainder),
        "domain": _plain(problem.domain),
        "method": settings.method,
        "iterations": settings.iterations,
        "step": [settings.step, settings.power, settings.mixing],
        "start": start.tolist(),
        "recentring": getattr(problem.method, "rounds", 0),
    }


def _plain(value: Any) -> Any:
    """Return a public value as JSON has it; what is a party's own is only named."""
    name = type(value).__name__
    if isinstance(value, Secret) or not is_dataclass(value):
        return [name]
    parts = {one.name: getattr(value, one.name) for one in fields(value)}
    return [name, {key: np.asarray(part).tolist() for key, part in parts.items()}]


def work_of(problem: Problem, name: str, cost: Cost) -> SumWork:
    """Return one party's part: its own cost, and what all parties know."""
    return SumWork(cost.coefficients, _solver(problem), _rounds(problem, name, cost))


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

    def solve(total: Vector, members: tuple[str, ...]) -> Vector:
        remainder = stack([remainders[name] for name in members])
        return OneShot(basis, remainder, len(members), domain).solve(total)

    return solve


def _no_answer(total: Vector, members: tuple[str, ...]) -> Vector:
    del total, members
    raise ProtocolError("a sum is not the answer where costs have a part of their own")


def _rounds(problem: Problem, name: str, cost: Cost) -> Rounds | None:
    method = problem.method
    if not isinstance(method, DgdPhase):
        return None
    return DgdRounds(
        method=method.method,
        law=problem.law,
        basis=problem.basis,
        remainder=cost.remainder,
        start=method.start[problem.topology.index(name)],
        mixing=problem.settings.mixing,
        recentring=method.rounds,
        iterations=problem.settings.iterations,
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
    spread, rounds = None, 0
    if isinstance(method, OneShotPhase):
        spread = method.spread
        rounds, _ = spreading_cost(problem.topology, method.spread)
    elif isinstance(method, DgdPhase):
        iterations = problem.settings.iterations
        rounds = method.rounds + iterations
    shares = 2 * problem.topology.n_edges * problem.basis.size
    return Outcome(
        times=np.array([iterations]),
        estimates=np.stack(answers)[None],
        iterations=iterations,
        rounds=rounds,
        bytes=world.bytes - shares * problem.law.number_bytes,
        spread=spread,
    )


def _why(world: World) -> str:
    reasons = [
        f"{name}: {abort.reason}, {abort.detail}"
        for name, abort in world.aborted.items()
    ]
    return "the parties gave up; " + "; ".join(reasons)
