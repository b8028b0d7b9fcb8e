"""Measure other packages beside ours, each installed in an environment of its own.

    python benchmarks/peers.py FOLDER            # install what is missing, measure
    python benchmarks/peers.py FOLDER --only-install
    python benchmarks/peers.py FOLDER --python /usr/bin/python3.13
    python benchmarks/peers.py FOLDER --quick --json

The folder must not be in this repository. Whatever is in it already is not installed
again; what cannot be installed is left out, and the reason is printed with the table.

A package's folder has a file `peer.json`:

    {"command": ["/.../bin/python", "/.../script.py"],
     "agents": 100, "iterations": 1000, "faster": 15}

The command is run with a workload's file, a file for the answer, and a method's name.
It prints one line of JSON with `form`, `wall_s`, `processor_s` and `version`. A package
that could not be installed has {"left_out": "the reason"} instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import veilsum
from clocks import Lap, Laps, clocked, in_turn, machine
from engines import AGREEMENT, figure, looped, table, yes_or_no
from veilsum.errors import InvalidInputError
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.engines.registry import engine_for
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import solve
from veilsum.numbers.arrays import PartyPoints
from workloads import (
    LOOPS,
    POWER,
    REACH,
    SMOOTH,
    LeastSquares,
    of_least_squares,
    step_sizes,
)

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "peers"

DIM = 50
AGENTS, ITERATIONS = 100, 1_000
# Rounds of all packages, which are slow. A quick run takes this part of the iterations.
REPEATS, QUICK_REPEATS = 3, 1
SHORTER = 10
# The forms that most packages have.
FORMS = {"dgd": "own", "gradient-tracking": "atc"}
OURS, WHOLE, LOOP = "veilsum engine", "veilsum.solve", "numpy loop"


@dataclass(frozen=True)
class Package:
    """What to install, and how to run it.

    Attributes:
        requirements: for pip.
        script: that runs it.
        faster: how many times as fast as it we want to be.
        python: the oldest version that it works with.
        processes: of MPI, one for each agent; 0 where agents are not processes.
        agents: how many it is given.
        iterations: how many it is given.
    """

    requirements: tuple[str, ...]
    script: str
    faster: float
    python: tuple[int, int] = (3, 11)
    processes: int = 0
    agents: int = 100
    iterations: int = 1_000

    def command(self, environment: Path) -> list[str]:
        """Return the words that run the script."""
        words = [str(environment / "bin" / "python"), str(SCRIPTS / self.script)]
        if not self.processes:
            return words
        start = str(environment / "bin" / "mpiexec")
        return [start, "-n", str(self.processes), *words]


PACKAGES = {
    "tvopt": Package(("tvopt==0.2.7",), "peer_tvopt.py", faster=15),
    "decent-bench": Package(
        ("decent-bench==0.3.0",), "peer_decent_bench.py", faster=50, python=(3, 13)
    ),
    # Its agents are processes that wait for each other in a loop: a few, not for long.
    "disropt": Package(
        ("disropt==0.1.9", "mpich", "mpi4py"),
        "peer_disropt.py",
        faster=500,
        processes=8,
        agents=8,
        iterations=50,
    ),
}


class CannotInstallError(Exception):
    """The reason is the message."""


def install(name: str, folder: Path, given: str | None) -> None:
    """Make a package's environment and its peer.json; write down why if it fails."""
    package, environment = PACKAGES[name], folder / name
    described = environment / "peer.json"
    if described.exists() and "left_out" not in json.loads(described.read_text()):
        return
    print(f"installing {name}", file=sys.stderr, flush=True)
    environment.mkdir(parents=True, exist_ok=True)
    try:
        python = find_python(package.python, given)
        call([python, "-m", "venv", "--clear", str(environment)])
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        call([*pip, *package.requirements])
        found: dict[str, object] = {
            "command": package.command(environment),
            "agents": package.agents,
            "iterations": package.iterations,
            "faster": package.faster,
        }
    except CannotInstallError as error:
        found = {"left_out": str(error)}
    described.write_text(json.dumps(found, indent=2) + "\n")


def find_python(oldest: tuple[int, int], given: str | None) -> str:
    """Return an interpreter that is new enough: this one, or any that can be found."""
    for candidate in candidates(oldest, given):
        if version_of(candidate) >= oldest:
            return candidate
    version = ".".join(map(str, oldest))
    raise CannotInstallError(
        f"it needs Python {version} or later, and none was found; name one by --python"
    )


def candidates(oldest: tuple[int, int], given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
    yield sys.executable
    for minor in range(oldest[1], oldest[1] + 5):
        found = shutil.which(f"python3.{minor}")
        if found:
            yield found
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(home.glob("versions/3.*/bin/python")))
    uv = shutil.which("uv")
    if uv:
        version = ".".join(map(str, oldest))
        words = [uv, "python", "find", f">={version}"]
        yield from subprocess.run(
            words, check=False, capture_output=True, text=True
        ).stdout.splitlines()


def version_of(python: str) -> tuple[int, int]:
    """Return an interpreter's version, (0, 0) if it does not run."""
    words = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        run = subprocess.run(words, check=True, capture_output=True, text=True)
        major, minor = map(int, run.stdout.split())
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0, 0
    return major, minor


def call(words: list[str]) -> None:
    run = subprocess.run(words, check=False, capture_output=True, text=True)
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise CannotInstallError(f"{' '.join(words[1:4])} ... said: {lines[-1]}")


@dataclass(frozen=True)
class LeftOut:
    """A package that was not measured, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Peer:
    """A package that can be run.

    Attributes:
        name: of the package.
        command: the words that start its script.
        agents: how many it is given; less than others where it cannot have as many.
        iterations: the same.
        faster: how many times as fast we want to be.
    """

    name: str
    command: tuple[str, ...]
    agents: int
    iterations: int
    faster: float


class PeerError(Exception):
    """A package's script that did not answer; the message is the reason."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What a script found.

    Attributes:
        points: all agents' last estimates.
        form: of the method, a key of LOOPS.
        version: of the package.
        lap: its seconds.
    """

    points: PartyPoints
    form: str
    version: str
    lap: Lap


def read_peers(folder: Path, *, shorter: int = 1) -> list[Peer | LeftOut]:
    """Return the packages in a folder; each does its iterations over `shorter`."""
    return [_read(path, shorter) for path in sorted(folder.glob("*/peer.json"))]


def _read(path: Path, shorter: int) -> Peer | LeftOut:
    name = path.parent.name
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if "left_out" in found:
            return LeftOut(name, str(found["left_out"]))
        return Peer(
            name,
            tuple(map(str, found["command"])),
            agents=int(found["agents"]),
            iterations=max(1, int(found["iterations"]) // shorter),
            faster=float(found["faster"]),
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(
            f"{path} does not describe a package: {error!r}; remove {path.parent}, and "
            "it is installed again"
        ) from None


def ask(peer: Peer, method: str, folder: Path) -> Answer:
    """Run a package's script once on its workload, with files in a folder."""
    work, answer = folder / f"{peer.name}-work.npz", folder / f"{peer.name}-answer.npz"
    if not work.exists():
        write_workload(work, agents=peer.agents, iterations=peer.iterations)
    words = [*peer.command, str(work), str(answer), method]
    try:
        run = subprocess.run(words, check=True, capture_output=True, text=True)
        said = json.loads(run.stdout.splitlines()[-1])
        lap = Lap(float(said["wall_s"]), float(said["processor_s"]))
        with np.load(answer) as kept:
            return Answer(kept["points"], _form(said), str(said["version"]), lap)
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise PeerError(last[-1]) from None
    except (OSError, LookupError, ValueError) as error:
        raise PeerError(repr(error)) from None


def _form(said: dict[str, Any]) -> str:
    if said["form"] not in LOOPS:
        raise PeerError(f"form {said['form']!r} is none of {', '.join(LOOPS)}")
    return str(said["form"])


def write_workload(path: Path, *, agents: int, iterations: int) -> None:
    """Write what every script reads: rows, weights, iterations and step sizes."""
    given = LeastSquares.of(agents=agents, dim=DIM)
    given.save(
        path,
        iterations=iterations,
        scale=step_sizes("own", 1)[0],
        power=POWER,
        step=step_sizes("atc", 1)[0],
    )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One package with one method; times are microseconds per agent and iteration.

    Attributes:
        name: of the package.
        version: of it.
        method: dgd or gradient-tracking.
        agents: how many it had.
        iterations: how many it took.
        wall: by the clock.
        processor: of all threads and processes together.
        slower: how many times our engine's wall time.
        slower_processor: the same of processor time.
        wanted: how many times slower it should be at least; None for ourselves.
        met: whether it is, by both clocks.
        difference: between its answer and the plain loop's, the greatest coordinate.
        distance: between its answer and the pooled one's.
    """

    name: str
    version: str
    method: str
    agents: int
    iterations: int
    wall: float
    processor: float
    slower: float
    slower_processor: float
    wanted: float | None
    met: bool | None
    difference: float | None
    distance: float


@dataclass(frozen=True)
class Comparison:
    """All packages that could be run, and those that could not."""

    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class Contestant:
    """Whoever runs a method on the workload.

    Attributes:
        name: of it.
        agents: how many it has.
        iterations: how many it takes.
        run: runs it once.
        wanted: how many times slower than ours it should be.
    """

    name: str
    agents: int
    iterations: int
    run: Callable[[], Answer]
    wanted: float | None = None


def compare(
    peers: Sequence[Peer | LeftOut], *, repeats: int, shorter: int
) -> Comparison:
    """Return times of everybody with every method, taken in turn.

    Args:
        peers: of a folder.
        repeats: how many rounds.
        shorter: our own iterations over this, as the peers' are.
    """
    rows: list[Row] = []
    left_out = [peer for peer in peers if isinstance(peer, LeftOut)]
    able = [peer for peer in peers if isinstance(peer, Peer)]
    with tempfile.TemporaryDirectory() as name:
        for method in FORMS:
            all_of_them = [
                *ourselves(method, ITERATIONS // shorter),
                *(_contestant(peer, method, Path(name)) for peer in able),
            ]
            answers, failed = _first_answers(all_of_them, method)
            left_out += failed
            rows += _measured(all_of_them, answers, method, repeats)
    return Comparison(tuple(rows), tuple(left_out))


def ourselves(method: str, iterations: int) -> list[Contestant]:
    """Return our engine, a whole `solve`, and a plain loop."""
    given = LeastSquares.of(agents=AGENTS, dim=DIM)
    work = of_least_squares(given, form=FORMS[method], iterations=iterations)
    engine, dense = engine_for(work.task), work.weights.toarray()
    settings = _settings(method, iterations)
    runs: dict[str, Callable[[], Any]] = {
        OURS: lambda: engine.points(engine.advance(engine.begin(), iterations)),
        WHOLE: lambda: _solved(given, settings),
        LOOP: lambda: looped(work, dense, iterations),
    }
    # Masks change the way there: `solve` is in the form of no plain loop.
    forms = {OURS: work.form, WHOLE: "", LOOP: work.form}
    versions = {OURS: f"{veilsum.__version__}, {engine.name}", LOOP: np.__version__}
    return [
        Contestant(
            name,
            AGENTS,
            iterations,
            partial(_own, run, forms[name], versions.get(name, veilsum.__version__)),
        )
        for name, run in runs.items()
    ]


def _own(run: Callable[[], Any], form: str, version: str) -> Answer:
    found: list[Any] = []
    lap = clocked(lambda: found.append(run()))
    return Answer(found[0], form, version, lap)


def _settings(method: str, iterations: int) -> Settings:
    if method == "dgd":
        return Settings(
            method=method,
            iterations=iterations,
            step=float(step_sizes("own", 1)[0]),
            power=POWER,
            mixing="metropolis",
            gradient_at="own",
        )
    return Settings(
        method=method,
        iterations=iterations,
        step=float(step_sizes("atc", 1)[0]),
        mixing="metropolis",
        rounds=1,
        smooth=SMOOTH,
        mean_convex=SMOOTH / 100.0,
    )


def _solved(given: LeastSquares, settings: Settings) -> Any:
    run = solve(
        given.costs,
        topology=given.topology,
        corrupted=(),
        domain=Box(-REACH, REACH, dim=DIM),
        sigma=1.0,
        law="lattice",
        seed=0,
        settings=settings,
    )
    return run.estimates


def _contestant(peer: Peer, method: str, folder: Path) -> Contestant:
    run = partial(ask, peer, method, folder)
    return Contestant(peer.name, peer.agents, peer.iterations, run, peer.faster)


def _first_answers(
    everybody: Sequence[Contestant], method: str
) -> tuple[dict[str, Answer], list[LeftOut]]:
    """Run everybody once: whoever fails now is left out."""
    answers, failed = {}, []
    for one in everybody:
        try:
            answers[one.name] = _checked(one)
        except PeerError as error:
            failed.append(LeftOut(one.name, f"{method}: {error}"))
    return answers, failed


def _checked(one: Contestant) -> Answer:
    """Run it once; whoever computes something else is not compared with."""
    found = one.run()
    away = _difference(found, one)
    if away is not None and not away <= AGREEMENT:
        raise PeerError(f"its answer is {away:.3g} away from the plain loop's")
    return found


def _measured(
    everybody: Sequence[Contestant],
    answers: dict[str, Answer],
    method: str,
    repeats: int,
) -> list[Row]:
    able = [one for one in everybody if one.name in answers]
    runs = {one.name: partial(_lap, one) for one in able}
    print(f"measuring {method}", file=sys.stderr, flush=True)
    laps = in_turn(runs, repeats=repeats)
    return [_row(one, answers[one.name], method, laps) for one in able]


def _lap(one: Contestant) -> Lap:
    return one.run().lap.per(one.agents * one.iterations)


def _row(one: Contestant, answer: Answer, method: str, laps: dict[str, Laps]) -> Row:
    slower = laps[one.name].over(laps[OURS])
    given = LeastSquares.of(agents=one.agents, dim=DIM)
    met = None
    if one.wanted is not None:
        met = min(slower.wall, slower.processor) >= one.wanted
    return Row(
        name=one.name,
        version=answer.version,
        method=method,
        agents=one.agents,
        iterations=one.iterations,
        wall=laps[one.name].wall,
        processor=laps[one.name].processor,
        slower=slower.wall,
        slower_processor=slower.processor,
        wanted=one.wanted,
        met=met,
        difference=_difference(answer, one),
        distance=float(np.abs(answer.points - given.answer()).max()),
    )


def _difference(answer: Answer, one: Contestant) -> float | None:
    """Return how far an answer is from the plain loop's in the same form."""
    if not answer.form:
        return None
    given = LeastSquares.of(agents=one.agents, dim=DIM)
    steps = step_sizes(answer.form, one.iterations)
    start = np.zeros(given.linear.shape)
    found = LOOPS[answer.form](given.weights, given.slope, start, steps)
    return float(np.abs(answer.points - found).max())


HEADS = (
    *("Method", "Package", "Agents", "Iterations", "Wall us", "Processor us"),
    *("Slower", "by processor", "Wanted", "Met", "Difference", "Distance"),
)


def cells(row: Row) -> Sequence[str]:
    """Return a line of the table for people."""
    return (
        row.method,
        f"{row.name} {row.version}",
        f"{row.agents:,}",
        f"{row.iterations:,}",
        figure(row.wall),
        figure(row.processor),
        figure(row.slower),
        figure(row.slower_processor),
        figure(row.wanted),
        yes_or_no(row.met),
        "" if row.difference is None else f"{row.difference:.0e}",
        f"{row.distance:.0e}",
    )


def measure(folder: Path, *, quick: bool) -> Comparison:
    """Compare ourselves with the packages in a folder."""
    shorter = SHORTER if quick else 1
    found = read_peers(folder, shorter=shorter)
    repeats = QUICK_REPEATS if quick else REPEATS
    return compare(found, repeats=repeats, shorter=shorter)


def main(words: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--python", help="for packages that need a newer one")
    options.add_argument("--only-install", action="store_true")
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true", help="print JSON only")
    words = sys.argv[1:] if words is None else words
    given = options.parse_args(words)
    folder = given.folder.resolve()
    if folder.is_relative_to(ROOT):
        options.error(f"{folder} is in the repository: choose a folder outside of it")
    for name in PACKAGES:
        install(name, folder, given.python)
    if given.only_install:
        return
    where, command = machine(), shlex.join(["python", "benchmarks/peers.py", *words])
    found = measure(folder, quick=given.quick)
    if given.json:
        print(json.dumps({"machine": where, "command": command, **asdict(found)}))
        return
    print(f"`{command}`: {json.dumps(where)}\n")
    print("\n".join(table(HEADS, map(cells, found.rows))))
    for one in found.left_out:
        print(f"\nLeft out: {one.name}, {one.reason}")


if __name__ == "__main__":
    main()
