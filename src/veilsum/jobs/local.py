"""All parties of a scenario as processes of this computer, over mutual TLS.

Each gets a folder with what it would have on a machine of its own: its key, the
consortium file, and its own data; nothing is shared but the network. For trying a
scenario out, and for showing it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from veilsum.core.secrets import Secret
from veilsum.errors import InvalidInputError
from veilsum.files.consortiums import draft_consortium, write_consortium
from veilsum.files.scenarios import read_toml, scenario_parties
from veilsum.jobs.columns import level
from veilsum.jobs.job_file import read_data
from veilsum.jobs.schema import Schema
from veilsum.net.identity import new_identity
from veilsum.scenario.agreement import task_of
from veilsum.scenario.consortium import Address, Consortium
from veilsum.scenario.costs import PRIVATE

# Seconds for a process that was asked to end.
GRACE = 5.0
HOST = "127.0.0.1"


@dataclass(frozen=True, eq=False, repr=False)
class Seat(Secret):
    """One party's place: its folder, and what it takes part with."""

    name: str
    folder: Path
    option: tuple[str, str]

    @property
    def command(self) -> list[str]:
        """The very command that the party would type."""
        return [
            *(sys.executable, "-m", "veilsum", "join", "consortium.toml"),
            *self.option,
            *("--yes", "--json", "--log", "json"),
        ]

    @property
    def out(self) -> Path:
        """Where its result and its receipt go."""
        return self.folder / "out"


@dataclass(eq=False, repr=False)
class LocalRun(Secret):
    """The parties of one run; as a context manager it leaves no process behind.

    Attributes:
        consortium: what they agreed on.
        seats: by party.
        left_out: what of the scenario is not for real parties.
    """

    consortium: Consortium
    seats: Mapping[str, Seat]
    left_out: tuple[str, ...]
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _files: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            _end(process)
        self._files.close()

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a party, or start it again after it was killed."""
        seat = self.seats[name]
        log, out = self._open(seat, "log.jsonl"), self._open(seat, "printed.json")
        self._processes[name] = subprocess.Popen(
            seat.command, cwd=seat.folder, stdin=subprocess.DEVNULL, stdout=out,
            stderr=log, env=_environment(),
        )  # fmt: skip
        return self._processes[name]

    def start_all(self) -> None:
        """Start everybody."""
        for name in self.seats:
            self.start(name)

    def kill(self, name: str) -> None:
        """Kill a party's process as rudely as there is (SIGKILL)."""
        process = self._processes[name]
        process.kill()
        process.wait()

    def wait(self, look: Callable[[], None] = lambda: None) -> dict[str, int]:
        """Wait for everybody; return the exit codes. `look` is called now and then."""
        for process in self._processes.values():
            while True:
                look()
                try:
                    process.wait(timeout=0.02)
                    break
                except subprocess.TimeoutExpired:
                    continue
        return {name: one.returncode for name, one in self._processes.items()}

    def last_words(self, name: str) -> str:
        """Return the last line that a party wrote to its log."""
        lines = self.log(name).splitlines()
        return lines[-1] if lines else "nothing in its log"

    def log(self, name: str) -> str:
        """Return a party's whole log."""
        path = self.seats[name].folder / "log.jsonl"
        return path.read_text("utf-8") if path.exists() else ""

    def _open(self, seat: Seat, name: str) -> IO[bytes]:
        return self._files.enter_context((seat.folder / name).open("ab"))


def local_run(scenario: Path, folder: Path) -> LocalRun:
    """Prepare a folder for every party of a scenario; nothing runs yet."""
    table = read_toml(scenario)
    parts = _own_parts(table, scenario.parent)
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInputError(
            f"{folder} is not empty, and holds perhaps another run's keys: give an "
            "empty folder with --out, or remove it"
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    ports = _free_ports(len(parts))
    identities = {name: new_identity(name, folder / name) for name in parts}
    consortium, left_out = draft_consortium(
        scenario,
        certificates={name: one.certificate for name, one in identities.items()},
        addresses={
            name: Address(HOST, port) for name, port in zip(parts, ports, strict=True)
        },
    )
    seats = {}
    for name, write in parts.items():
        place = folder / name
        write_consortium(place / "consortium.toml", consortium)
        seats[name] = Seat(name, place, write(place))
    return LocalRun(consortium, seats, left_out)


Write = Callable[[Path], tuple[str, str]]


def _own_parts(table: Mapping[str, Any], folder: Path) -> dict[str, Write]:
    """Return, for every party, what writes its own part into its folder."""
    if task_of(table) == "cost":
        return _own_costs(table, folder)
    schema = Schema.from_table(table["schema"]) if "schema" in table else None
    codes = () if schema is None else schema.categorical
    frames = read_data(table.get("data", {}), folder, text=codes)

    def writer(frame: Any) -> Write:
        # As people write codes: 1, and not 1.0.
        written = {code: frame[code].map(level, na_action="ignore") for code in codes}

        def write(place: Path) -> tuple[str, str]:
            with _private(place / "data.csv") as stream:
                stream.write(frame.assign(**written).to_csv(index=False))
            return "--data", "data.csv"

        return write

    return {name: writer(frame) for name, frame in frames.items()}


def _own_costs(table: Mapping[str, Any], folder: Path) -> dict[str, Write]:
    """Return what writes each party's entries of [cost]."""
    import tomli_w

    cost = table["cost"]
    private = [key for key in PRIVATE if key in cost]

    def writer(position: int) -> Write:
        def write(place: Path) -> tuple[str, str]:
            with _private(place / "cost.toml") as stream:
                stream.write(
                    tomli_w.dumps({key: cost[key][position] for key in private})
                )
            return "--cost", "cost.toml"

        return write

    return {name: writer(k) for k, name in enumerate(scenario_parties(table, folder))}


def _private(path: Path) -> IO[str]:
    """Open a new file that only its owner may read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "w", encoding="utf-8")


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at now."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in found]


def _environment() -> dict[str, str]:
    """Return this process's environment; each party computes on one thread."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(threads, "1")}


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
