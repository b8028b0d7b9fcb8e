"""Parties of a made-up consortium, each with a real network, in one event loop."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

from veilsum.consortium.consortium import Address, consortium_from
from veilsum.net.handshake import ConnectionLimits
from veilsum.net.identity import new_identity
from veilsum.net.links import SocketNetwork
from veilsum.party.local import DOORS

HOST = "127.0.0.1"
PLAN = bytes(range(32))
# Short waits: everybody is on this machine. Only one end calls, unless a test is about
# the other one.
QUICK = ConnectionLimits(
    max_frame=1 << 20,
    open_timeout=5.0,
    hello_timeout=5.0,
    close_timeout=1.0,
    first_retry=0.02,
    longest_retry=0.2,
    slow_retry=0.05,
    fallback=30.0,
)
# By the clock on the wall, for what has to happen: what takes so long never does.
PATIENCE = 300.0


_GIVEN = set()


def own_doors():
    """The doors of this process among those that run tests at the same time."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return DOORS[place % count :: count]


def free_port():
    """A port that nobody has, that no outgoing call is given, and nobody here twice."""
    while True:
        port = random.SystemRandom().choice(own_doors())
        with closing(socket.socket()) as found, suppress(OSError):
            found.bind((HOST, port))
            if port not in _GIVEN:
                _GIVEN.add(port)
                return port


def ring(names):
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    return [list(pair) for pair in pairs]


@dataclass
class Village:
    """Identities and a consortium of them; every call of `network` makes a process."""

    folder: object
    names: tuple[str, ...] = ("a", "b")
    edges: list | None = None
    silent: tuple[str, ...] = ()  # parties without an address
    addresses: dict[str, Address] = field(default_factory=dict)
    title: str = "test"

    def __post_init__(self):
        self.identities = {name: new_identity(name, self.folder) for name in self.names}
        for name in self.names:
            self.addresses.setdefault(name, Address(HOST, free_port()))

    def member(self, name):
        address = "" if name in self.silent else str(self.addresses[name])
        certificate = self.identities[name].certificate
        return {"name": name, "certificate": certificate, "address": address}

    def consortium(self, **sections):
        edges = self.edges or ring(self.names)[: None if len(self.names) > 2 else 1]
        return consortium_from(
            {
                "format": 1,
                "run": "test-" + "0" * 32,
                "members": [self.member(name) for name in self.names],
                "title": self.title,
                "graph": {"edges": edges},
                "masks": {"law": "uniform", "largest": 10.0},
                "dispatch": {"prices": [0, 1]},
                **sections,
            }
        )

    def station(self, name, **options):
        return Station(self, name, **options)

    @asynccontextmanager
    async def stations(self, *names, **options):
        """Open these parties' networks, and close them whatever happens."""
        made = [self.station(name, **options) for name in names or self.names]
        try:
            for one in made:
                await one.network.open()
            yield made
        finally:
            await asyncio.gather(*(one.network.close() for one in made))


class Station:
    """A network, and all that it was told."""

    def __init__(self, village, name, *, consortium=None, hear=None, **options):
        self.name, self.heard, self.met, self.left = name, [], [], []
        options.setdefault("limits", QUICK)
        options.setdefault("plan", PLAN)
        options.setdefault("clock", time.time)
        self.network = SocketNetwork(
            village.identities[name],
            consortium or village.consortium(),
            hear=hear or (lambda sender, frame: self.heard.append((sender, frame))),
            met=self.met.append,
            left=self.left.append,
            **options,
        )

    def send(self, to, frame):
        self.network.send(to, frame)

    def condition(self, name):
        return self.network.condition(name)

    def is_connected(self, name):
        return self.condition(name) == "connected"


async def until(true, what="it", patience=PATIENCE):
    """Wait for something, in bounded time."""
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, f"{what} did not happen"
        await asyncio.sleep(0.005)


async def all_connected(stations):
    """Wait until everybody is connected with all its neighbours that are here."""
    here = {one.name for one in stations}
    for one in stations:
        for name in one.network._peers.keys() & here:
            await until(lambda: one.is_connected(name), f"{one.name} meets {name}")  # noqa: B023
