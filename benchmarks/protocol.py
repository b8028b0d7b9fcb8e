"""Measure one party's protocol: messages a second, and a small run from end to end.

    python benchmarks/protocol.py            # all
    python benchmarks/protocol.py rounds     # one of them
    python benchmarks/protocol.py frames     # who sends how much of what
    python benchmarks/protocol.py --profile rounds

Everything runs on one core: machines and codec of all parties and the method that they
run, handed on by a plain queue, or by the loopback world with its clock and faults.
Times are targets and depend on the machine.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import statistics
import sys
import time
from collections import Counter, deque

import numpy as np

from clocks import machine, sized
from veilsum.drivers.loopback import LoopbackWorld, loopback_identities
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw, Masks
from veilsum.masks.masking import ShareStreams
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.question import public_facts_of_costs
from veilsum.minimise.rounds import MethodRounds, MethodSchedules
from veilsum.protocol.effects import Effect, Send
from veilsum.protocol.machine import Machine
from veilsum.protocol.plan import ProtocolPlan
from veilsum.protocol.work import SumWork

SIZE = 10
REPEATS = sized(5, 1)


def a_world(graph: str, iterations: int = 0) -> LoopbackWorld:
    """Return parties with vectors of ten numbers, ready to run."""
    topology = Topology.family(graph)
    law = Masks("lattice", sigma=10.0, grid=30).on(topology)
    plan = ProtocolPlan(
        terms=b"benchmark",
        topology=topology,
        law=law,
        size=SIZE,
        answer_size=SIZE,
        tolerance=1.0,
    )
    stream = np.random.default_rng(0)
    works = {
        name: SumWork(
            stream.standard_normal(SIZE),
            lambda total, members: total / len(members),
            dgd(topology, law, iterations) if iterations else None,
        )
        for name in topology.parties
    }
    plan.digest, topology.neighbours("0")  # reckoned once, at the start-up
    return LoopbackWorld(plan, works, ShareStreams(0), record=False)


def dgd(topology: Topology, law: MaskLaw, iterations: int) -> MethodRounds:
    basis, remainder, start = Affine(SIZE), SquaredNorm(1.0), np.zeros(SIZE)
    domain = Box(-100.0, 100.0, dim=SIZE)
    facts = public_facts_of_costs(topology, domain, law, basis, remainder)
    settings = Settings(method="dgd", step=0.5, iterations=iterations)
    schedules = MethodSchedules(settings, facts)
    return MethodRounds(schedules, law, basis, remainder, start)


def per_second(world: LoopbackWorld) -> float:
    spent = timed(world)
    return world.frames / spent


def timed(world: LoopbackWorld) -> float:
    start = time.perf_counter()
    world.run()
    spent = time.perf_counter() - start
    assert len(world.finished) == len(world.nodes), world.aborted
    return spent


def queued_per_second(world: LoopbackWorld) -> float:
    """Return messages a second where nothing but a queue stands between the parties."""
    machines = {name: a_machine(world, name) for name in world.nodes}
    queue: deque[tuple[str, Send]] = deque()
    start, frames = time.perf_counter(), 0
    for name, party in machines.items():
        queue.extend(sends(name, party.start()))
    while queue:
        sender, send = queue.popleft()
        frames += 1
        queue.extend(sends(send.to, machines[send.to].receive(sender, send.frame)))
    return frames / (time.perf_counter() - start)


def a_machine(world: LoopbackWorld, name: str) -> Machine:
    keys = loopback_identities(world.plan.parties, 0)(name, 1)
    work = world.works[name]
    return Machine(world.plan, name, keys=keys, streams=world.streams, work=work)


def sends(name: str, effects: list[Effect]) -> list[tuple[str, Send]]:
    return [(name, effect) for effect in effects if isinstance(effect, Send)]


WAYS = {"queue": queued_per_second, "loopback": per_second}


def rounds() -> dict[str, object]:
    """Messages through machines and codec, DGD with 10 numbers (target: 50,000/s).

    A step of the method follows every time all neighbours were heard, so that messages
    are the cheaper the more neighbours there are.
    """
    found: dict[str, object] = {}
    for graph in sized(("complete:12", "circulant:12:1,3,4", "ring:12"), ("ring:5",)):
        for way, measure in {
            "queue": queued_per_second,
            "loopback": per_second,
        }.items():
            worlds = (a_world(graph, iterations=sized(500, 3)) for _ in range(REPEATS))
            rate = statistics.median(map(measure, worlds))
            found[f"{graph}, {way}, messages/s"] = rate
    return found


def one_shot() -> dict[str, object]:
    """A run of 5 parties from the first greeting to the agreed answer (20 ms)."""
    found: dict[str, object] = {}
    for graph in ("complete:5", "ring:5"):
        timed(a_world(graph))
        times = [timed(a_world(graph)) for _ in range(4 * REPEATS)]
        found[f"{graph}, ms"] = 1000 * statistics.median(times)
        found[f"{graph}, frames"] = timed_frames(graph)
    return found


def frames() -> dict[str, object]:
    """Frames of each kind in a run of one sum, where all start at once."""
    found: dict[str, object] = {}
    for graph in sized(("complete:12", "regular:50:6:seed=0"), ("ring:5",)):
        world = a_world(graph)
        world.record = True
        sent = (e.detail for e in world.run().history if e.what == "send")
        kinds = Counter(type(world.plan.codec.decode(one)).__name__ for one in sent)
        found[graph] = dict(kinds.most_common())
    return found


def timed_frames(graph: str) -> int:
    return a_world(graph).run().frames


BENCHMARKS = {"rounds": rounds, "one_shot": one_shot, "frames": frames}


def profiled(name: str) -> None:
    with cProfile.Profile() as profile:
        BENCHMARKS[name]()
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main(names: list[str]) -> None:
    if names[:1] == ["--profile"]:
        profiled(names[1])
        return
    print(json.dumps({"machine": machine()}))
    for name in names or list(BENCHMARKS):
        found = BENCHMARKS[name]()
        rounded = {
            key: round(value, 3) if isinstance(value, float) else value
            for key, value in found.items()
        }
        print(json.dumps({name: rounded}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
