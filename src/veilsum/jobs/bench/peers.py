"""Other packages on the same least squares, each in an environment of its own.

A folder has one folder for each package, and in that a file `peer.json`:

    {"command": ["/.../bin/python", "/.../script.py"],
     "agents": 100, "iterations": 1000, "faster": 15}

The command is run with a workload's file, a file for the answer, and a method's name.
It prints one line of JSON with `form`, `wall_s`, `processor_s` and `version`. A package
that could not be installed has {"left_out": "the reason"} instead.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.jobs.bench.cases import POWER, step_sizes
from veilsum.jobs.bench.clocks import Lap
from veilsum.jobs.bench.least_squares import LeastSquares
from veilsum.jobs.bench.loops import LOOPS
from veilsum.numbers.arrays import AgentPoints

DIM = 50
HOW_TO_GET_THEM = (
    "in a checkout of the sources, `python benchmarks/peers.py FOLDER` installs other "
    "packages, each in an environment of its own in that folder"
)


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

    points: AgentPoints
    form: str
    version: str
    lap: Lap


def read_peers(folder: Path, *, shorter: int = 1) -> list[Peer | LeftOut]:
    """Return the packages in a folder; each does its iterations over `shorter`."""
    files = sorted(folder.glob("*/peer.json"))
    if not files:
        raise InvalidInputError(f"there are no packages in {folder}: {HOW_TO_GET_THEM}")
    return [_read(path, shorter) for path in files]


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
            f"{HOW_TO_GET_THEM}"
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
