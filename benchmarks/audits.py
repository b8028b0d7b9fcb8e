"""Measure an audit beside the drawing of its shares, which no audit can do without.

    python benchmarks/audits.py                      # about a minute
    python benchmarks/audits.py --executions 10000   # seconds
    python benchmarks/audits.py --shared             # one core and two, some minutes

Five parties, everybody with everybody, 132 coefficients, all ten pairs of colluders.
Two guessers for each pair play on all executions; the condition is 20 seconds on two
cores for 100,000 executions, and a time that grows as executions do.

With --shared: a whole audit of examples/average.toml, masks, sums and frames, on one
process and on two, in turn. The condition is an efficiency of at least 0.85: the time
of one, halved, beside that of two. Processor time of all processes says what sharing
costs even where others keep the machine busy.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF

import numpy as np

from clocks import machine, sized
from veilsum.audit.attack import Scene
from veilsum.audit.auditing import (
    _likelihood_guessers,
    audit_question,
    executions_per_batch,
    play_attacks,
    scene_of_audit,
)
from veilsum.audit.likelihood import distance_for_attack_success
from veilsum.audit.question import AuditRehearsal
from veilsum.audit.weak_randomness import _TABLES
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.scale.pieces import map_pieces
from veilsum.scale.workers import workers_on

EXAMPLE = Path(__file__).parents[1] / "examples" / "average.toml"
WIDTH, SUCCESS, WORKERS = 132, 0.51, 2
EXECUTIONS = sized(100_000, 200)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--executions", type=int)
    words.add_argument("--shared", action="store_true")
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--on", default="processes", help="processes or ray")
    chosen = words.parse_args()
    if chosen.shared:
        shared(chosen.executions or 4_000_000, chosen.repeats, chosen.on)
        return
    executions = chosen.executions or EXECUTIONS
    graph = Topology.family("complete:5")
    pairs = list(combinations(graph.parties, 2))
    print(json.dumps({"machine": machine()}))
    for masks in (Masks("gaussian", 1.0), Masks("lattice", 1.0, 20)):
        scene = Scene(topology=graph, law=masks.on(graph), width=WIDTH)
        distance = distance_for_attack_success(scene, pairs[0], SUCCESS)
        players = _likelihood_guessers(scene, pairs, distance, 0)
        found = {}
        for count in (executions // 10, executions):
            with ThreadPoolExecutor(WORKERS) as pool:
                before = time.perf_counter()
                play_attacks(scene, players, count, seed=1, what="play", on=pool)
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
            "batch": executions_per_batch(scene),
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
        print(json.dumps(line), flush=True)


def shared(executions: int, repeats: int, kind: str) -> None:
    """Print how well two processors share an audit, as JSON."""
    question = AuditRehearsal.read(EXAMPLE)
    scene = scene_of_audit(question)
    groups = list(combinations(scene.topology.parties, 1))
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    said = set()
    for _ in range(repeats):
        for count, laps in found.items():
            with workers_on(f"{kind}:{count}") as on:
                # Whoever audits for minutes does not count the seconds of the start.
                list(map_pieces(warmed, range(2 * count), seed=0, on=on))
                _TABLES.clear()
                before = time.perf_counter(), all_processors()
                audit = audit_question(
                    question,
                    scene,
                    groups,
                    executions=executions,
                    on=on,
                    progress=False,
                )
                wall = time.perf_counter() - before[0]
            laps.append((wall, all_processors() - before[1]))
            said.add(json.dumps(audit.to_dict()))
    assert len(said) == 1, "all must find the same"
    one, two = (sorted(laps) for laps in found.values())
    middle = repeats // 2
    line = {
        "executions": executions,
        "one process, s": round(one[middle][0], 2),
        "two processes, s": round(two[middle][0], 2),
        "efficiency": round(one[middle][0] / 2 / two[middle][0], 3),
        "condition": "at least 0.85",
        "processor time, two over one": round(two[middle][1] / one[middle][1], 3),
        "load": os.getloadavg()[0],
    }
    print(json.dumps({"an audit on one core and on two": line}), flush=True)


def all_processors() -> float:
    """Return the seconds of this process and of all that it started and saw end."""
    used = [resource.getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def warmed(key: int, seed: int) -> int:
    """Have a worker import all that it needs."""
    time.sleep(0.3)
    return (
        executions_per_batch(scene_of_audit(AuditRehearsal.read(EXAMPLE)))
        + key
        + seed % 1
    )


if __name__ == "__main__":
    main()
