"""Measure real parties on one computer, beside bare WebSockets under the same TLS.

    python benchmarks/network.py                # all of it, some minutes
    python benchmarks/network.py rounds         # some of it
    python benchmarks/network.py up many

rounds   eight agents on a ring tell both neighbours 1,000 float64 in every round, each
         agent a process. Bare: the same frames by `websockets` and nothing else, one
         connection per edge, mutual TLS 1.3. Ours: gradient descent by `veilsum join`'s
         own driver, with its machine, its disk and its checks. The ratio of rates is
         the condition (at least 0.5); both take turns.
up       `veilsum up` of a regression by five parties, from the command to the result
many     `veilsum up` of fifty parties and one sum: seconds, and processor time of all
         processes together (Linux)
memory   the most memory of a party with a table (Linux)
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import tomli_w

from clocks import clock, machine, sized

AGENTS, DIM, ROUNDS, REPEATS = sized((8, 1000, 400, 3), (3, 10, 5, 1))
MANY, DEGREE = sized((50, 6), (4, 3))
EXAMPLES = Path(__file__).parents[1] / "examples"


def ring(agents: int, dim: int, rounds: int) -> dict[str, object]:
    """Return a scenario in which parties iterate on a ring, so many rounds."""
    stream = np.random.default_rng(0)
    return {
        "title": "ring",
        "graph": {"family": f"ring:{agents}"},
        "cost": {
            "kind": "squared-distance",
            "targets": stream.uniform(-1, 1, (agents, dim)).tolist(),
        },
        "domain": {"kind": "box", "lower": -10.0, "upper": 10.0},
        "masks": {"law": "lattice", "sigma": 1.0, "grid": 20},
        "method": {"name": "dgd", "recentre": False, "step": 0.5},
        # After a few rounds parties are still far apart.
        "stopping": {"iterations": rounds, "tolerance": sized(1.0, 1000.0)},
        "policy": {"tolerate": 1, **sized({}, {"minimum_honest": 2})},
    }


def write_scenario(table: dict[str, object], place: Path) -> Path:
    """Return the path of a scenario file with this content."""
    scenario = place / "scenario.toml"
    scenario.write_text(tomli_w.dumps(table))
    return scenario


def prepared(table: dict[str, object], place: Path) -> Path:
    """Make every party's folder; return the folder of them all."""
    from veilsum.party.local import local_run

    with local_run(write_scenario(table, place), place / "parties"):
        return place / "parties"


def processes(kind: str, folder: Path) -> list[dict[str, float]]:
    """Run one process per party of a folder; return what each measured."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--party", kind],
            cwd=party,
            stdout=subprocess.PIPE,
            env=env,
        )
        for party in sorted(folder.iterdir())
    ]
    outputs = [one.communicate(timeout=600)[0] for one in started]
    assert not any(one.returncode for one in started), "a party failed"
    return [json.loads(output) for output in outputs]


def rate(kind: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        folder = prepared(ring(AGENTS, DIM, ROUNDS), Path(place))
        found = processes(kind, folder)
    return {
        "rounds_per_s": min(one["rounds"] / one["seconds"] for one in found),
        "peak_mb": max(one["peak_mb"] for one in found),
    }


def rounds() -> object:
    """Rounds a second of eight agents on a ring (at least half of bare WebSockets)."""
    pairs = [(rate("ours"), rate("bare")) for _ in range(REPEATS)]
    ratios = [a["rounds_per_s"] / b["rounds_per_s"] for a, b in pairs]
    return {
        "ours_per_s": statistics.median(a["rounds_per_s"] for a, _ in pairs),
        "bare_per_s": statistics.median(b["rounds_per_s"] for _, b in pairs),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "at_least": 0.5,
        "peak_mb": max(a["peak_mb"] for a, _ in pairs),
        "at_most_mb": 150,
    }


def up() -> object:
    """Seconds from `veilsum up` to the result, for five parties (about 5)."""
    command = [sys.executable, "-m", "veilsum", "up", str(EXAMPLES / "diabetes.toml")]

    def run() -> None:
        subprocess.run(command, check=True, capture_output=True)

    return {"seconds": statistics.median(clock(run) for _ in range(REPEATS))}


def many() -> object:
    """Seconds of `veilsum up` with fifty parties and one sum, and of processors."""
    table = {
        **ring(MANY, 10, 1),
        "graph": {"family": f"regular:{MANY}:{DEGREE}:seed=0"},
        "method": {"name": "one-shot"},
    }
    with tempfile.TemporaryDirectory() as place:
        scenario = write_scenario(table, Path(place))
        command = [sys.executable, "-m", "veilsum", "up", str(scenario)]
        adopt_orphans()
        earlier = children()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken = time.perf_counter() - start
    for child in children() - earlier:  # what started the parties ends after it
        os.waitpid(child, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": taken,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
    }


def children() -> set[int]:
    """Return the processes that this one waits for, servers of earlier parts too."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(one) for one in listed.split()}


def adopt_orphans() -> None:
    """Have this process told of all that its children leave behind (Linux)."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def memory() -> object:
    """The most memory of the parties of a regression, each with its table."""
    return {"peak_mb": table_peak(), "at_most_mb": 180}


# `veilsum join` and nothing else, so that nothing else is measured.
JOIN = """
import pathlib, runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_module("veilsum", run_name="__main__")
finally:
    pathlib.Path("status").write_text(pathlib.Path("/proc/self/status").read_text())
"""


def table_peak() -> float:
    from veilsum.party.local import local_run

    join = [sys.executable, "-c", JOIN]
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # In the smoke size three parties, and no table.
        small = write_scenario(ring(AGENTS, DIM, ROUNDS), place)
        scenario = sized(EXAMPLES / "diabetes.toml", small)
        run = stack.enter_context(local_run(scenario, place / "parties"))
        seats = run.seats.values()
        started = [
            subprocess.Popen(
                [*join, *seat.command],
                cwd=seat.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for seat in seats
        ]
        codes = [one.wait() for one in started]
        assert not any(codes), "a party failed"
        return max(peak_mb(seat.folder / "status") for seat in seats)


# What one process does


def peak_mb(status: Path = Path("/proc/self/status")) -> float:
    """Return the most memory of this very process, or of another, in megabytes.

    `getrusage` would begin with what the process had that started this one.
    """
    lines = status.read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024 / 1e6


def ours() -> dict[str, float]:
    """Take part; time from the first round to the last."""
    from veilsum.files.consortiums import read_consortium
    from veilsum.net.identity import read_identity
    from veilsum.net.relay_tokens import own_token
    from veilsum.party.inputs import party_contribution
    from veilsum.party.networked import NetworkedParty

    times: list[float] = []

    def watch(machine) -> None:
        if machine.round > 0 and len(times) < 2:
            now = time.perf_counter()
            times[len(times) :] = [now] if not times or done(machine) else []

    def done(machine) -> bool:
        return machine.phase in {"agreeing", "finished"}

    (key,) = Path.cwd().glob("*.key")
    agreed = read_consortium(Path("consortium.toml"))
    driver = NetworkedParty(
        identity=read_identity(key),
        consortium=agreed,
        state=Path("state.run"),
        token=agreed.relays and own_token(agreed.relays, None, key.parent),
        watch=watch,
    )
    result = party_contribution(agreed, cost=Path("cost.toml")).run(driver, None)
    first, last = (*times, 0.0, 1.0)[:2]
    return {"rounds": result.released.rounds, "seconds": last - first}


async def links_of(identity, agreed, over: asyncio.Event) -> list:
    """Return plain WebSockets with all neighbours, one per edge, as ours are."""
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve

    from veilsum.net.trust import tls_client_context, tls_server_context

    me, trusted = identity.name, agreed.certificates
    near = agreed.topology.neighbours(me)
    answered: asyncio.Queue = asyncio.Queue()
    plain = {"compression": None, "max_size": None}

    async def answer(link) -> None:
        answered.put_nowait(link)
        await over.wait()

    async def dial(name: str):
        where = f"wss://{agreed.member(name).address}"
        context = tls_client_context(identity, trusted)
        while True:
            try:
                return await connect(where, ssl=context, proxy=None, **plain)
            except OSError:
                await asyncio.sleep(0.05)

    own, context = agreed.member(me).address, tls_server_context(identity, trusted)
    await serve(answer, own.host, own.port, ssl=context, **plain)
    called = [await dial(name) for name in near if agreed.dials(me, name)]
    return [*called, *[await answered.get() for _ in range(len(near) - len(called))]]


async def bare() -> dict[str, float]:
    """Exchange frames with both neighbours, round after round, and nothing else."""
    from veilsum.files.consortiums import read_consortium
    from veilsum.net.identity import read_identity

    (key,) = Path.cwd().glob("*.key")
    over = asyncio.Event()
    agreed = read_consortium(Path("consortium.toml"))
    both = await links_of(read_identity(key), agreed, over)
    frame = np.zeros(DIM + 1).tobytes() + bytes(20)
    start = 0.0
    for k in range(ROUNDS):
        for link in both:
            await link.send(frame)
        for link in both:
            await link.recv()
        start = start if k else time.perf_counter()
    taken = time.perf_counter() - start
    over.set()
    for link in both:
        await link.close()
    return {"rounds": ROUNDS - 1, "seconds": taken}


def party(kind: str) -> None:
    found = ours() if kind == "ours" else asyncio.run(bare())
    print(json.dumps({**found, "peak_mb": peak_mb()}))


BENCHMARKS = {"rounds": rounds, "up": up, "many": many, "memory": memory}
# `veilsum up` itself has tests; what is measured beside it has none.
USUAL = sized([*BENCHMARKS], ["rounds", "memory"])


def main(names: list[str]) -> None:
    if names[:1] == ["--party"]:
        party(names[1])
        return
    print(json.dumps({"machine": machine()}))
    for name in names or USUAL:
        print(json.dumps({name: BENCHMARKS[name]()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
