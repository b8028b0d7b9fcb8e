"""All parties of a scenario as processes of this computer, over mutual TLS.

Each gets a folder with what it would have on a machine of its own: its key, the
consortium file, and its own data; nothing is shared but the network. For trying a
scenario out, and for showing it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any, Self

from veilsum.consortium.addresses import Address
from veilsum.consortium.consortium import Consortium, question_heading
from veilsum.consortium.costs import OWN
from veilsum.consortium.sections import GraphSection, ScenarioFile
from veilsum.consortium.study import AgreedStudy, runs_of_agreement
from veilsum.errors import InvalidInputError
from veilsum.files.consortiums import draft_consortium, write_consortium
from veilsum.files.scenarios import graph_files_beside_scenario, read_scenario_file
from veilsum.net.identity import new_identity
from veilsum.net.relay_tokens import TOKEN_FILE, new_token, read_token
from veilsum.numbers.secrets import Secret
from veilsum.party.own_rules import FILE_NAME, recodings_own_rules_meet, relaxed_rules
from veilsum.party.processes import party_process_context
from veilsum.sums.job_file import read_data_of_job_file
from veilsum.sums.kinds import question_kind_of
from veilsum.tables.columns import category_level_of_cell

# Seconds for a process that was asked to end, and between two looks at all of them.
GRACE, LOOK_SECONDS = 5.0, 0.05
HOST = "127.0.0.1"
# Below what systems number outgoing calls by: a party that dials must not take a door.
DOORS = range(12_000, 32_000)


@dataclass(frozen=True, eq=False, repr=False)
class LocalPartySeat(Secret):
    """One party's place: its folder, and what it takes part with."""

    name: str
    folder: Path
    option: tuple[str, str]

    @property
    def command(self) -> list[str]:
        """The very command that the party would type."""
        options = ("--yes", "--json", "--log", "json")
        return ["veilsum", "join", "consortium.toml", *self.option, *options]

    @property
    def out(self) -> Path:
        """Where its result and its receipt go."""
        return self.folder / "out"

    @property
    def log(self) -> Path:
        """Log of the party's process, one JSON object for each line."""
        return self.folder / "log.jsonl"


@dataclass(eq=False, repr=False)
class LocalPartyRun(Secret):
    """The parties of one run; as a context manager it leaves no process behind.

    Attributes:
        consortium: what they agreed on; of several questions, the study.
        left_out: what of the scenario is not for real parties.
    """

    consortium: Consortium | AgreedStudy
    seats: Mapping[str, LocalPartySeat]
    left_out: tuple[str, ...]
    _processes: dict[str, BaseProcess] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            _end_local_party_process(process)

    def start(self, name: str) -> BaseProcess:
        """Start a party, or start it again after it was killed."""
        seat = self.seats[name]
        process = party_process_context().Process(
            target=_run_local_party_process,
            args=(seat.command, str(seat.folder)),
            name=name,
        )
        # First: to start it takes a while, in which a person may change their mind.
        self._processes[name] = process
        process.start()
        return process

    def start_all(self) -> None:
        """Start everybody, the last member first: the earlier of two members dials."""
        for name in reversed([*self.seats]):
            self.start(name)

    def kill(self, name: str) -> bool:
        """Kill a party's process (SIGKILL); say whether it was still there for that."""
        process = self._processes[name]
        process.kill()
        process.join()
        return (process.exitcode or 0) < 0  # by a signal, and not by itself

    def wait(self, look: Callable[[], None] = lambda: None) -> dict[str, int]:
        """Wait for everybody; return the exit codes. `look` is called now and then."""
        look()
        while ends := [p.sentinel for p in self._processes.values() if p.is_alive()]:
            wait_for(ends, timeout=LOOK_SECONDS)
            look()
        return {name: one.exitcode or 0 for name, one in self._processes.items()}

    def words(self, name: str) -> list[str]:
        """Return all lines that a party wrote to its log."""
        log = self.seats[name].log
        return log.read_text("utf-8").splitlines() if log.exists() else []

    def last_words(self, name: str) -> str:
        """Return the last line that a party wrote to its log."""
        return (self.words(name) or ["nothing in its log"])[-1]


def _run_local_party_process(command: list[str], folder: str) -> None:
    """Be a party's process: its folder, its output, its command, nothing inherited."""
    try:
        _settle_in_party_folder(folder)
    except FileNotFoundError:
        return  # whoever started this has gone, and taken the folder along
    threading.Thread(target=_watch_over_local_party, daemon=True).start()
    sys.argv = command
    runpy.run_module("veilsum", run_name="__main__")


def _settle_in_party_folder(folder: str) -> None:
    """Work in a folder, and speak into files there."""
    os.chdir(folder)
    for number, name, mode in (
        (0, os.devnull, os.O_RDONLY),
        (1, "printed.json", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, "log.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        os.dup2(os.open(name, mode, 0o600), number)


def _watch_over_local_party() -> None:
    """End with whoever started this: no party stays behind alone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def local_run(
    scenario: Path,
    folder: Path,
    *,
    relays: Collection[str] = (),
    dial_only: Collection[str] = (),
) -> LocalPartyRun:
    """Prepare a folder for every party of a scenario; nothing runs yet.

    Args:
        scenario: the plan, with everybody's data.
        folder: for all folders.
        relays: where parties meet that do not reach each other; a token is made for
            them, in a file beside the folders and in each.
        dial_only: parties without an address.
    """
    party_process_context()
    file = read_scenario_file(scenario)
    if file.asked is not None and question_kind_of(file.asked).has_guests:
        raise InvalidInputError(
            "a survey has guests, who are no parties: veilsum collect asks them, and "
            "its delegates join the run of the closed file",
            code="survey-not-local",
        )
    parts = _own_parts_of_local_parties(file, scenario)
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInputError(
            f"{folder} is not empty, and holds perhaps another run's keys: give an "
            "empty folder with --out, or remove it",
            code="folder-not-empty",
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    ports = free_ports_for_parties(len(parts))
    identities = {name: new_identity(name, folder / name) for name in parts}
    consortium, left_out = draft_consortium(
        scenario,
        file=file,
        certificates={name: one.certificate for name, one in identities.items()},
        addresses={
            name: None if name in dial_only else Address(HOST, port)
            for name, port in zip(parts, ports, strict=True)
        },
        relay={"relay": list(relays), "relay_token": new_token(folder / TOKEN_FILE)}
        if relays
        else None,
    )
    seats = dict[str, LocalPartySeat]()
    first = folder / next(iter(parts)) / "consortium.toml"
    write_consortium(first, consortium)
    for name, write in parts.items():
        place = folder / name
        if place != first.parent:
            shutil.copyfile(first, place / first.name)
        _agree_beforehand_for_local_party(place, consortium)
        if relays:
            with _open_private_party_file(place / TOKEN_FILE) as stream:
                stream.write(read_token(folder / TOKEN_FILE))
        seats[name] = LocalPartySeat(name, place, write(place))
    return LocalPartyRun(consortium, seats, left_out)


def _agree_beforehand_for_local_party(
    place: Path, agreed: Consortium | AgreedStudy
) -> None:
    """Write own rules that allow the recodings and the weaker rules of this plan.

    Nobody is asked in a run of one's own, and whoever starts it has written the plan.
    """
    import tomli_w

    runs = runs_of_agreement(agreed)
    weaker = {name: value for name, (value, _) in relaxed_rules(runs[0]).items()}
    rules: dict[str, Any] = {}
    if any(map(recodings_own_rules_meet, runs)):
        rules["recodings"] = [runs[0].members_digest]
    if weaker:
        rules["floors"] = weaker
    if rules:
        with _open_private_party_file(place / FILE_NAME) as stream:
            stream.write(tomli_w.dumps(rules))


Write = Callable[[Path], tuple[str, str]]


def _own_parts_of_local_parties(file: ScenarioFile, scenario: Path) -> dict[str, Write]:
    if file.question is None and question_heading(file.given()) == "cost":
        return _own_costs_of_local_parties(file, scenario)
    schema = None if file.schema is None else file.schema.schema
    codes = () if schema is None else schema.categorical
    frames = read_data_of_job_file(file.data, scenario.parent, schema)

    def writer(frame: Any) -> Write:
        # As people write codes: 1, and not 1.0.
        written = {
            code: frame[code].map(category_level_of_cell, na_action="ignore")
            for code in codes
        }

        def write(place: Path) -> tuple[str, str]:
            with _open_private_party_file(place / "data.csv") as stream:
                stream.write(frame.assign(**written).to_csv(index=False))
            return "--data", "data.csv"

        return write

    return {name: writer(frame) for name, frame in frames.items()}


def _own_costs_of_local_parties(file: ScenarioFile, scenario: Path) -> dict[str, Write]:
    """Return what writes each party's entries of [cost]."""
    import tomli_w

    assert file.cost is not None
    entries = {key: getattr(file.cost, key) for key in OWN[file.cost.kind]}
    names = None if file.parties is None else file.parties.names
    graph = file.graph or GraphSection()
    parties = graph.topology(names, graph_files_beside_scenario(scenario)).parties

    def writer(position: int) -> Write:
        def write(place: Path) -> tuple[str, str]:
            with _open_private_party_file(place / "cost.toml") as stream:
                own = {key: rows[position] for key, rows in entries.items()}
                stream.write(tomli_w.dumps(own))
            return "--cost", "cost.toml"

        return write

    return {name: writer(k) for k, name in enumerate(parties)}


def _open_private_party_file(path: Path) -> IO[str]:
    """Open a new file that only its owner may read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "w", encoding="utf-8")


def free_ports_for_parties(count: int) -> list[int]:
    """Return ports that nobody has now, and that no outgoing call will be given."""
    chance, found = random.SystemRandom(), list[int]()
    with ExitStack() as stack:
        while len(found) < count:
            one, port = socket.socket(), chance.choice(DOORS)
            with suppress(OSError):
                stack.enter_context(one).bind((HOST, port))
                found.append(port)
    return found


def _end_local_party_process(process: BaseProcess) -> None:
    if process.pid is None:
        return  # it was never started, or ends as soon as it finds itself alone
    if process.is_alive():
        process.terminate()
        process.join(GRACE)
    if process.is_alive():
        process.kill()
    process.join()
