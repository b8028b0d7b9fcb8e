"""Another user of a party's computer looks at its runs' states and numbers.

A status is for its owner, metrics are for everybody on the computer. Neither has
anything that depends on rows: the same is asked of tables of very different sizes, and
all that was ever written is the same, by a clock that stands still. When something was
written shows how long the computer worked, as a list of its processes does.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from attacks.catalogue import KINDS, even
from attacks.test_sizes_and_times import uneven
from party.test_agreed import MODEL, agreed
from veilsum.audit.noninterference import InterferenceDriver
from veilsum.party import run_status
from veilsum.party.run_status import (
    EventFeed,
    RunStatus,
    StatusFile,
    read_run_status,
    write_run_status,
)
from veilsum.protocol.effects import Send
from veilsum.protocol.machine import Machine

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


class Told(InterferenceDriver):
    """Machines whose every move is told to a status file, as a runner tells it."""

    def world(self, assignment):
        world, telling = super().world(assignment), self.telling

        class Noting(Machine):
            def receive(self, sender, frame):
                found = super().receive(sender, frame)
                for effect in found:
                    if isinstance(effect, Send):
                        telling[self.me].note("send", effect.frame, effect.to)
                telling[self.me].watch(self)
                return found

        world.make = Noting
        return world


def statuses(name, rows, dealing, folder, monkeypatch, leak=None):
    """All that was ever written about each party's run."""
    kept = {party: [] for party in dealing}
    keep = lambda path, status: kept[path.stem].append(msgspec.json.encode(status))  # noqa: E731
    monkeypatch.setattr(run_status, "write_run_status", keep)
    kind, driver = KINDS[name], Told(seed=1)
    held, asked = kind.deal(dealing, rows), agreed(MODEL)
    driver.__dict__["telling"] = {
        party: EventFeed(
            "run",
            party,
            StatusFile(
                folder / f"{party}.status",
                RunStatus(
                    run=asked.run,
                    party=party,
                    consortium=asked.digest.hex(),
                    state="running",
                ),
                asked.rules.policy,
                clock=lambda: 0.0,
            ),
        )
        for party in dealing
    }
    if leak is not None:
        for party, one in driver.telling.items():
            one.last = leak(one.last, held[party])
    kind.run(held, driver=driver, run="same", law="uniform")
    return kept


def two(*given):
    """What is written of few rows, and of many that are nearly all one party's."""
    make = KINDS["least squares"].rows
    for rows, deal in ((make(0, 300), even), (make(9, 1500), uneven)):
        yield statuses("least squares", rows, deal(rows), *given)


def test_nothing_that_is_written_depends_on_rows(tmp_path, monkeypatch):
    first, second = two(tmp_path, monkeypatch)
    assert first == second
    assert all(len(one) > 4 for one in first.values())
    phases = {msgspec.json.decode(one)["phase"] for one in first["a"]}
    assert {"sharing", "summing", "finished"} <= phases
    assert msgspec.json.decode(first["a"][-1])["sent"] > 0


def test_a_status_with_a_count_of_rows_would_show(tmp_path, monkeypatch):
    """The twin: one number of the table in the reason of an event."""
    leak = lambda event, table: replace(event, reason=str(len(table)))  # noqa: E731
    first, second = two(tmp_path, monkeypatch, leak)
    assert first != second


def test_how_long_the_file_is_says_nothing_of_its_reason(tmp_path):
    """Others may not read it, and see how long it is; a reason names a column."""
    path = tmp_path / "a.status"
    sizes, plain = set(), set()
    for reason in ("", "rule", "column 'hiv' has a value with few rows: " * 20):
        status = RunStatus(
            run="run", party="a", consortium="0", state="refused", reason=reason
        )
        write_run_status(path, status)
        assert read_run_status(path) == status
        assert path.stat().st_mode & 0o077 == 0
        sizes.add(path.stat().st_size)
        plain.add(len(msgspec.json.encode(status)))
    assert len(sizes) == 1
    assert len(plain) == 3, "the twin: as they are, their lengths tell"
