"""SIGKILL for parties and for the relay between them, at random moments.

Four parties, three of them dial-only, meet at one relay or two, processes of their own.
Now and then one of them all is killed and started again. In the end everybody has the
right answer, and its receipt verifies, or has given up and named why; and the histories
of all starts keep the rules: no share drawn twice, one masked vector for an epoch.
"""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from histories import broken
from net.one_party import take_part
from net.test_kill import ITERATED, LONGEST, ONE_SHOT, PROCESSES, TARGETS, Parties
from net.village import HOST, free_port
from veilsum.net.receipt import read_receipt, verify_receipts
from veilsum.net.relay_tokens import read_token, token_digest

# How many moments, and how many of them in one run.
KILLS = int(os.environ.get("VEILSUM_KILLS", "12"))
PER_RUN = 4


def be_a_relay(port, digest):
    """Relay until killed."""
    import asyncio  # in a process of its own

    from veilsum.consortium.addresses import Address
    from veilsum.net.relay import RelayLimits, RelayServer

    async def main():
        server = RelayServer({digest}, RelayLimits())
        while True:
            try:
                await server.start(Address(HOST, port))
                break
            except OSError:  # the one before has not quite gone
                await asyncio.sleep(0.05)
        await asyncio.Event().wait()

    asyncio.run(main())


class Stormy(Parties):
    """A run over a relay, in which anybody may be killed and comes again."""

    def __init__(self, table, place, relays):
        self.ports = {f"relay {k}": free_port() for k in range(relays)}
        where = [f"ws://{HOST}:{port}" for port in self.ports.values()]
        super().__init__(table, place, relays=where, dial_only=["1", "2", "3"])
        self.digest = token_digest(read_token(place / "parties" / "relay.token"))
        self.processes, self.kills = {}, 0

    def begin(self, name):
        if name in self.ports:
            given = (self.ports[name], self.digest)
            made = PROCESSES.Process(target=be_a_relay, args=given)
        else:
            made = PROCESSES.Process(
                target=take_part, args=(str(self.folders[name]), 0)
            )
        made.start()
        self.processes[name] = made

    def running(self):
        return [n for n in self.folders if self.processes[n].is_alive()]

    def kill(self, name):
        process = self.processes[name]
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            self.kills += 1
            self.begin(name)

    def storm(self, chance, kills):
        for name in (*self.ports, *self.folders):
            self.begin(name)
        try:
            while self.running() and self.kills < kills:
                time.sleep(chance.uniform(0.0, 0.7))
                self.kill(chance.choice([*self.ports, *self.folders]))
            for name in self.folders:
                self.processes[name].join(LONGEST)
        finally:
            for process in self.processes.values():
                process.kill()
                process.join()

    def looked_at(self):
        """Whether all found the answer; if not, everybody has named a reason."""
        plan, works = self.parts()
        paths = [folder / "history" for folder in self.folders.values()]
        assert broken(plan, works, [p for p in paths if p.exists()]) == []
        done = {n: f / "out" / "receipt.json" for n, f in self.folders.items()}
        for name, receipt in done.items():
            if not receipt.exists():
                said = (self.folders[name] / "error").read_text()
                assert "GivenUpError" in said, said
                continue
            found = np.array(self.result(name)["minimiser"])
            assert np.abs(found - np.mean(TARGETS, axis=0)).max() < 1e-6
        receipts = [read_receipt(one) for one in done.values() if one.exists()]
        if len(receipts) < len(done):
            return False
        assert verify_receipts(receipts, self.run.consortium).good
        return True


def stormed(seed, kills, place):
    """One run with so many kills; how many there were, and whether it went well."""
    chance = random.Random(seed)
    parties = Stormy(chance.choice([ONE_SHOT, ITERATED]), place, 1 + seed % 2)
    with parties.run:
        parties.storm(chance, kills)
        return parties.kills, parties.looked_at()


@pytest.mark.slow
def test_parties_and_the_relay_are_killed_at_random_moments(tmp_path):
    kills, good, seed = 0, 0, 0
    while kills < KILLS:
        place = tmp_path / str(seed)
        place.mkdir()
        found, right = stormed(seed, min(PER_RUN, KILLS - kills), place)
        kills, good, seed = kills + found, good + right, seed + 1
    print(f"{kills} kills in {seed} runs, {good} of them with the answer")
    assert good > 0
