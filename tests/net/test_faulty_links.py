"""Connections through a proxy that cuts, delays, stalls and splits them."""

import asyncio
import logging
import random
from contextlib import asynccontextmanager

import pytest

from idle_clock import patiently
from net.proxy import Proxy
from net.village import HOST, QUICK, Village, all_connected, until
from veilsum.consortium.consortium import Address
from veilsum.net.handshake import ConnectionLimits

# Signs of life are wanted often, so that a test need not wait long.
NERVOUS = ConnectionLimits(
    **{**vars(QUICK), "ping_interval": 0.2, "ping_timeout": 0.3, "queue_bytes": 1 << 20}
)


@asynccontextmanager
async def behind_proxies(folder, names=("a", "b"), limits=QUICK, **options):
    """Everybody is called through a proxy of its own; nobody falls back."""
    made = {name: Proxy() for name in names}
    for one in made.values():
        await one.open()
    addresses = {name: one.address for name, one in made.items()}
    village = Village(folder, names, addresses=addresses)
    options.setdefault("listen", Address(HOST, 0))
    async with village.stations(limits=limits, **options) as stations:
        for one in stations:
            made[one.name].target = one.network.ports[0]
        try:
            await all_connected(stations)
            yield stations, made
        finally:
            for one in made.values():
                await one.close()


class Talk:
    """Two that send numbers until each has all: as the protocol, ask for what lacks."""

    def __init__(self, stations, count):
        self.stations, self.count = stations, count

    def turn(self):
        for one in self.stations:
            for name in one.network._peers:
                for number in self.missing(name, one.name):
                    one.send(name, b"%d" % number)

    def missing(self, receiver, sender):
        (station,) = [one for one in self.stations if one.name == receiver]
        heard = {frame for who, frame in station.heard if who == sender}
        return [n for n in range(self.count) if b"%d" % n not in heard][:20]

    def is_over(self):
        return not any(
            self.missing(name, one.name)
            for one in self.stations
            for name in one.network._peers
        )


def test_connections_cut_at_random_come_back(tmp_path):
    chance = random.Random(8)

    async def main():
        async with behind_proxies(tmp_path, tuple("abcd")) as (stations, proxies):
            talk = Talk(stations, 200)
            for _ in range(40):
                talk.turn()
                await asyncio.sleep(0.03)
                chance.choice(list(proxies.values())).cut()
            await until(lambda: talk.turn() or talk.is_over(), "the talk")
            assert sum(one.calls for one in proxies.values()) > 10
            await all_connected(stations)
            for one in stations:
                senders = {who for who, _ in one.heard}
                assert senders == set(one.network._peers)

    patiently(main())


def test_half_a_second_of_delay_only_takes_longer(tmp_path):
    async def main():
        async with behind_proxies(tmp_path) as ((a, b), proxies):
            proxies["b"].delay = 0.5
            loop = asyncio.get_running_loop()
            began = loop.time()
            a.send("b", b"ping")
            await until(lambda: b.heard)
            b.send("a", b"pong")
            await until(lambda: a.heard)
            assert loop.time() - began >= 1.0
            proxies["b"].cut()
            await until(lambda: len(a.met) == 2)
            await all_connected([a, b])

    patiently(main())


@pytest.mark.parametrize("ways", [("up", "down"), ("up",), ("down",)], ids="-".join)
def test_a_half_open_connection_is_noticed(tmp_path, ways):
    async def main():
        async with behind_proxies(tmp_path, limits=NERVOUS) as ((a, b), proxies):
            proxies["b"].stall(*ways)
            silent = [one for one, way in ((a, "down"), (b, "up")) if way in ways]
            for one in silent:
                (name,) = one.network._peers
                await until(lambda: not one.is_connected(name))  # noqa: B023
                if "nothing was heard" in one.condition(name):
                    assert "for 0.5 s" in one.condition(name)
            proxies["b"].heal()
            proxies["b"].cut()
            await all_connected([a, b])

    patiently(main())


def test_without_signs_of_life_it_is_not_noticed(tmp_path):
    """The twin: a party that waits for longer than the test takes sees no change."""

    async def main():
        async with behind_proxies(tmp_path) as ((a, b), proxies):
            proxies["b"].stall()
            await asyncio.sleep(3 * NERVOUS.silence)
            assert a.is_connected("b")
            assert b.is_connected("a")

    patiently(main())


def test_a_quiet_connection_is_not_a_dead_one(tmp_path, caplog):
    caplog.set_level(logging.INFO, "veilsum.net")

    async def main():
        async with behind_proxies(tmp_path, limits=NERVOUS) as ((a, b), _):
            await asyncio.sleep(4 * NERVOUS.silence)
            assert a.is_connected("b")
            assert a.met == ["b"]
            assert b.met == ["a"]

    patiently(main())


def test_a_slow_reader_costs_a_bounded_queue(tmp_path):
    patient = ConnectionLimits(**{**vars(QUICK), "queue_bytes": 1 << 20})
    frame = bytes(50_000)

    async def main():
        async with behind_proxies(tmp_path, limits=patient) as ((a, b), proxies):
            proxies["b"].stall("up")
            for _ in range(2000):
                a.send("b", frame)
                await asyncio.sleep(0)
            sent = 2000 - a.network.unsent["b"]
            assert a.network.unsent["b"] > 1000
            bound = patient.queue_bytes + 4 * patient.write_bytes + 4 * len(frame)
            assert a.network.pending <= bound
            assert b.heard == []
            proxies["b"].heal()
            await until(lambda: len(b.heard) == sent)
            await a.network.drain(5.0)
            a.send("b", b"again")
            await until(lambda: b.heard[-1] == ("a", b"again"))

    patiently(main())


def test_a_trickle_is_a_sign_of_life(tmp_path):
    """A long frame on a slow way: pongs wait behind it, and it gets through."""
    frame = bytes(1 << 20)

    async def main():
        async with behind_proxies(tmp_path, limits=NERVOUS) as ((a, b), proxies):
            proxies["b"].chunk, proxies["b"].pause = 1 << 13, 0.01
            a.send("b", frame)
            await until(lambda: b.heard)
            assert b.heard == [("a", frame)]
            assert a.met == ["b"]

    patiently(main())


def partition(folder, seconds, limits):
    async def main():
        async with behind_proxies(folder, tuple("abcd"), limits) as (four, proxies):
            talk = Talk(four, 50)
            for one in proxies.values():
                one.stall()
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            while loop.time() < end:
                talk.turn()
                await asyncio.sleep(0.05)
            for one in proxies.values():
                one.heal()
            await until(lambda: talk.turn() or talk.is_over(), "the talk")
            await all_connected(four)

    patiently(main())


def test_a_short_partition_heals(tmp_path):
    partition(tmp_path, 2.0, NERVOUS)


@pytest.mark.slow
def test_a_long_partition_heals(tmp_path):
    partition(tmp_path, 20.0, ConnectionLimits(max_frame=1 << 20, longest_retry=2.0))


def test_nothing_on_the_way_can_be_read(tmp_path):
    """All bytes between two parties are TLS; the proxy has seen them all."""
    secret = b"a share that only two may know" * 10

    async def main():
        async with behind_proxies(tmp_path) as ((a, b), proxies):
            a.send("b", secret)
            await until(lambda: b.heard)
            seen = bytes(proxies["b"].seen["up"] + proxies["b"].seen["down"])
            assert len(seen) > len(secret)
            assert seen[0] == 0x16  # a TLS handshake
            for part in (secret[:30], b"hello", b'"plan"', b"veilsum", b"websocket"):
                assert part not in seen

    patiently(main())


def test_without_tls_the_proxy_would_read_it():
    """The twin: the same proxy between two that speak plainly."""

    async def echo(reader, writer):
        writer.write(await reader.read(100))
        writer.close()

    async def main():
        server = await asyncio.start_server(echo, HOST, 0)
        proxy = Proxy(server.sockets[0].getsockname()[1])
        await proxy.open()
        where = proxy.address
        reader, writer = await asyncio.open_connection(where.host, where.port)
        writer.write(b"a share")
        assert await reader.read(100) == b"a share"
        writer.close()
        await proxy.close()
        server.close()
        await server.wait_closed()
        assert b"a share" in proxy.seen["up"]

    patiently(main())
