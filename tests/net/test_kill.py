"""Real processes killed with SIGKILL between any two steps, and started again.

Every run's histories are given to the checker that the loopback world uses: no share
drawn twice, nothing shown before the commit, masks that cancel, the right answer. Each
process kills itself after a chosen number of steps, so that points repeat.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import tomllib

import numpy as np
import pytest
import tomli_w

from histories import broken, read_history
from net.one_party import take_part
from veilsum.files.ledger import read_ledger
from veilsum.minimise.party_cost import PartyCost
from veilsum.net.receipt import read_receipt, verify_receipts
from veilsum.party.local import local_run
from veilsum.sums.recipes import SumPartyWork

# From a process that has loaded everything, so that a party starts at once.
PROCESSES = multiprocessing.get_context("forkserver")
multiprocessing.set_forkserver_preload(["net.one_party"])
TARGETS = [[1.0, 2.0], [3.0, -4.0], [5.0, 6.0], [-7.0, 8.0]]
ONE_SHOT = {
    "title": "four",
    "graph": {"family": "complete:4"},
    "cost": {"kind": "squared-distance", "targets": TARGETS},
    "domain": {"kind": "all"},
    "masks": {"law": "lattice", "sigma": 1000.0, "grid": 24},
    "method": {"name": "one-shot"},
    "policy": {"tolerate": 1},
}
ITERATED = {
    **ONE_SHOT,
    "graph": {"family": "ring:4"},
    "domain": {"kind": "box", "lower": [-20.0] * 2, "upper": [20.0] * 2},
    "method": {
        "name": "gradient-tracking",
        "smooth": 2.0,
        "mean_smooth": 2.0,
        "mean_convex": 2.0,
    },
    "stopping": {"tolerance": 1e-10, "iterations": 500},
}
SCENARIOS = {"one-shot": ONE_SHOT, "iterated": ITERATED}
# By the clock on the wall: what takes so long never ends.
LONGEST = 600.0


class Parties:
    """The processes of one run, in folders under one place."""

    def __init__(self, table, place, **how):
        scenario = place / "scenario.toml"
        scenario.write_text(tomli_w.dumps(table))
        self.run = local_run(scenario, place / "parties", **how)
        self.folders = {n: seat.folder for n, seat in self.run.seats.items()}

    def start(self, name, kill_after=0):
        process = PROCESSES.Process(
            target=take_part, args=(str(self.folders[name]), kill_after)
        )
        process.start()
        return process

    def ended(self, name, process):
        """Wait for a process; return its exit code, 0 or that of SIGKILL."""
        process.join(LONGEST)
        code = process.exitcode
        error = self.folders[name] / "error"
        said = error.read_text() if error.exists() else "nothing"
        assert code in {0, -signal.SIGKILL}, f"{name} ended with {code}: {said}"
        return code

    def finish(self, victim, kill_after):
        """Run everybody; start the victim again after its death. Say if it died."""
        processes = {n: self.start(n) for n in self.folders if n != victim}
        died = self.ended(victim, self.start(victim, kill_after)) != 0
        if died:
            processes[victim] = self.start(victim)
        for name, process in processes.items():
            assert self.ended(name, process) == 0
        return died

    def result(self, name):
        return json.loads((self.folders[name] / "out" / "result.json").read_text())

    def parts(self):
        """The public plan, and everybody's work, as the test alone can know them."""
        owned = {
            name: PartyCost.of(
                self.run.consortium, tomllib.loads((f / "cost.toml").read_text())
            )
            for name, f in self.folders.items()
        }
        plan = next(iter(owned.values())).plan
        assert {one.plan.digest for one in owned.values()} == {plan.digest}
        works = {
            name: SumPartyWork(one.recipe, one.recipe.contribution(name, one.cost))
            for name, one in owned.items()
        }
        return plan, works

    def check(self):
        plan, works = self.parts()
        paths = [folder / "history" for folder in self.folders.values()]
        assert broken(plan, works, paths) == []
        for name in self.folders:
            found = np.array(self.result(name)["minimiser"])
            assert np.abs(found - np.mean(TARGETS, axis=0)).max() < 1e-6
            assert len(read_ledger(self.folders[name] / f"{name}.ledger").charges) == 1
        outs = [folder / "out" / "receipt.json" for folder in self.folders.values()]
        assert verify_receipts(
            [read_receipt(p) for p in outs], self.run.consortium
        ).good


def killed(kind, victim, kill_after, place):
    parties = Parties(SCENARIOS[kind], place)
    with parties.run:
        died = parties.finish(victim, kill_after)
        parties.check()
    return died


@pytest.mark.parametrize(
    ("kind", "victim", "kill_after"),
    [
        ("one-shot", "0", 1),
        ("one-shot", "2", 14),
        ("one-shot", "3", 30),
        ("iterated", "1", 20),
        ("iterated", "2", 120),
    ],
)
def test_a_killed_party_goes_on_and_the_result_is_the_same(
    kind, victim, kill_after, tmp_path
):
    assert killed(kind, victim, kill_after, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kill_after", [*range(2, 60, 4), *range(60, 420, 24)])
def test_thirty_points_of_a_run(kill_after, tmp_path):
    """A run has some 430 steps: from greeting, over the rounds, to the signatures."""
    assert killed("iterated", str(kill_after % 4), kill_after, tmp_path)


def test_secrets_are_erased_by_the_next_start_if_death_came_before(tmp_path):
    parties = Parties(ONE_SHOT, tmp_path)
    with parties.run:
        processes = {n: parties.start(n) for n in ("0", "1", "2")}
        assert parties.ended("3", parties.start("3", "closed")) == -signal.SIGKILL
        for name, process in processes.items():
            assert parties.ended(name, process) == 0
        files = list(parties.folders["3"].glob("state.run*"))
        secrets = [b"masked/0", b"input/0", b"self"]
        held = b"".join(path.read_bytes() for path in files)
        assert all(secret in held for secret in secrets)  # the failing twin
        assert parties.ended("3", parties.start("3")) == 0
        held = b"".join(path.read_bytes() for path in files if path.exists())
        assert not any(secret in held for secret in secrets)
        parties.check()


def test_the_checker_sees_a_share_that_was_drawn_twice(tmp_path):
    """The failing twin: a party that forgets its state draws its shares anew."""
    parties = Parties(ONE_SHOT, tmp_path)
    with parties.run:
        parties.finish("0", 0)
        plan, works = parties.parts()
        history = parties.folders["1"] / "history"
        kept = history.read_bytes()
        assert any(event.what == "send" for event in read_history(history))
        other = Parties(ONE_SHOT, _made(tmp_path / "again"))
        with other.run:
            other.finish("0", 0)
            history.write_bytes(kept + (other.folders["1"] / "history").read_bytes())
        found = broken(plan, works, [f / "history" for f in parties.folders.values()])
    assert any("two shares" in words for words in found)


def _made(folder):
    folder.mkdir()
    return folder
