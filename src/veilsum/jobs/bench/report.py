"""The whole benchmark: floors, engines and, where they are, other packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilsum.jobs.bench.cases import FULL, QUICK
from veilsum.jobs.bench.clocks import Watch
from veilsum.jobs.bench.engines import Line, measure
from veilsum.jobs.bench.machine import machine
from veilsum.jobs.bench.peers import read_peers
from veilsum.jobs.bench.side_by_side import Comparison, compare

# Rounds of all engines and floors, and of all packages, which are slow.
REPEATS, QUICK_REPEATS = 9, 3
PEER_REPEATS, QUICK_PEER_REPEATS = 3, 1
# What each takes in each round, roughly.
SECONDS, QUICK_SECONDS = 0.5, 0.05
# A quick run takes this part of the iterations that packages are compared over.
SHORTER = 10


@dataclass(frozen=True)
class Report:
    """What was measured, where, and how.

    Attributes:
        machine: day, machine, load, versions.
        command: that measured it.
        lines: of engines and floors.
        comparison: with other packages; None if none were asked for.
    """

    machine: dict[str, Any]
    command: str
    lines: tuple[Line, ...]
    comparison: Comparison | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        peers = None if self.comparison is None else self.comparison.to_dict()
        return {
            "machine": self.machine,
            "command": self.command,
            "engines": [line.to_dict() for line in self.lines],
            "peers": peers,
        }


def run_benchmark(
    *, quick: bool, engine: str | None, peers: Path | None, command: str, watch: Watch
) -> Report:
    """Measure everything that was asked for.

    Args:
        quick: small sizes and few repeats.
        engine: only this one; without it all that are installed.
        peers: a folder with other packages' environments.
        command: to be reported.
        watch: told what is being measured.
    """
    shorter = SHORTER if quick else 1
    # First of all: a folder without packages is better known before than after.
    found = None if peers is None else read_peers(peers, shorter=shorter)
    where = machine()
    lines = measure(
        QUICK if quick else FULL,
        engine=engine,
        repeats=QUICK_REPEATS if quick else REPEATS,
        seconds=QUICK_SECONDS if quick else SECONDS,
        watch=watch,
    )
    comparison = None
    if found is not None:
        repeats = QUICK_PEER_REPEATS if quick else PEER_REPEATS
        comparison = compare(found, repeats=repeats, shorter=shorter, watch=watch)
    return Report(where, command, tuple(lines), comparison)
