"""Whole runs over bad networks: they complete, or end by policy and say who is missing.

Between all parties is a proxy that cuts, delays, stalls and slows down. That a run
ends in bounded time and leaves no task behind is looked at in every one of them.
"""

import asyncio
import random
import socket
from dataclasses import replace

import numpy as np
import pytest

from net.runs import (
    ITERATED,
    NERVOUS,
    ONE_SHOT,
    TARGETS,
    Company,
    answers,
    changed,
    reasons,
)
from net.village import QUICK, until

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

MEAN = np.mean(TARGETS, axis=0)
ROUNDS = 250
# Long enough that trouble comes in the middle: many rounds.
LONG = changed(ITERATED, stopping=None)
LONG["stopping"] = {"iterations": ROUNDS}


def agrees(found):
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, MEAN, atol=1e-6)


def machine(company, name):
    driver = company.drivers.get(name)
    runner = None if driver is None else driver.runner
    return None if runner is None else runner.machine


async def in_phase(company, phase, *, round_=0):
    """Wait until everybody has come so far."""

    def there():
        found = [machine(company, name) for name in company.names]
        return all(
            one is not None and one.phase == phase and one.round >= round_
            for one in found
        )

    await company.until(there, f"everybody was {phase} in round {round_}")


def test_connections_cut_at_random(tmp_path):
    chance, calls = random.Random(8), {}

    async def cut(company):
        for cut in range(25):
            await in_phase(company, "iterating", round_=5 + 8 * cut)
            chance.choice(list(company.proxies.values())).cut()
        calls.update({name: one.calls for name, one in company.proxies.items()})

    company = Company(tmp_path, LONG)
    found = company.run_behind(meanwhile=cut)
    agrees(found)
    assert company.verdict(found).good
    assert sum(calls.values()) > 12, "connections were made again"


def test_connections_cut_all_the_time_before_the_commit(tmp_path):
    chance = random.Random(9)

    async def cut(company):
        for _ in range(30):
            await asyncio.sleep(chance.uniform(0.0, 0.06))
            chance.choice(list(company.proxies.values())).cut()

    company = Company(tmp_path, ONE_SHOT)
    agrees(company.run_behind(meanwhile=cut))


@pytest.mark.parametrize(
    "seconds", [0.05, pytest.param(0.5, marks=pytest.mark.slow)], ids=["50ms", "500ms"]
)
def test_a_delay_only_takes_longer(seconds, tmp_path):
    async def slow_down(company):
        for one in company.proxies.values():
            one.delay = seconds

    company = Company(tmp_path, ONE_SHOT, limits=replace(QUICK, open_timeout=20.0))
    agrees(company.run_behind(meanwhile=slow_down))


def partition(company, seconds):
    async def stall(company):
        await in_phase(company, "iterating", round_=10)
        for one in company.proxies.values():
            one.stall()
        await asyncio.sleep(seconds)
        stuck = [machine(company, name).round for name in company.names]
        assert max(stuck) < ROUNDS, "nobody went on without the others"
        for one in company.proxies.values():
            one.heal()

    return company.run_behind(meanwhile=stall)


def test_a_short_partition_heals(tmp_path):
    agrees(partition(Company(tmp_path, LONG, limits=NERVOUS), 2.0))


@pytest.mark.slow
def test_a_partition_of_twenty_seconds_heals(tmp_path):
    patient = changed(LONG, policy={"deadline": 30.0, "patience": 4})
    agrees(partition(Company(tmp_path, patient, limits=NERVOUS), 20.0))


def test_a_partition_that_does_not_heal_ends_by_policy(tmp_path):
    """The twin: after the patience that was agreed on, with who was waited for."""

    async def stall(company):
        await in_phase(company, "iterating", round_=10)
        for one in company.proxies.values():
            one.stall()

    hasty = changed(LONG, policy={"deadline": 0.8, "patience": 2})
    company = Company(tmp_path, hasty, limits=NERVOUS)
    told = reasons(company.run_behind(meanwhile=stall))
    ring = {"a": "bd", "b": "ac", "c": "bd", "d": "ac"}
    for name, why in told.items():
        assert "timeout, waited for" in why
        assert any(f"{other} is not connected" in why for other in ring[name])


@pytest.mark.slow
def test_neighbours_stand_in_for_who_cannot_be_reached(tmp_path):
    async def isolate(company):
        await in_phase(company, "iterating", round_=10)
        for name in "bc":  # where a calls b, and b calls c
            company.proxies[name].stall()

    hasty = changed(LONG, policy={"deadline": 0.8, "patience": 3})
    company = Company(tmp_path, hasty, limits=NERVOUS)
    found = company.run_behind(meanwhile=isolate)
    lonely = {"b": found.pop("b")}
    agrees(found)
    why = reasons(lonely)["b"]
    assert "waited for a, c while iterating" in why
    assert "a is not connected: " in why
    assert "c is not connected: " in why


@pytest.mark.parametrize("way", ["up", pytest.param("down", marks=pytest.mark.slow)])
def test_a_half_open_connection_is_made_anew(way, tmp_path):
    async def stall(company):
        await in_phase(company, "iterating", round_=10)
        company.proxies["b"].stall(way)
        watched = company.drivers["a" if way == "down" else "b"].runner
        (other,) = {"a", "b"} - {watched.machine.me}
        await until(
            lambda: watched._net.condition(other) != "connected", "it is noticed"
        )
        company.proxies["b"].heal()

    company = Company(tmp_path, LONG, limits=NERVOUS)
    found = company.run_behind(meanwhile=stall)
    agrees(found)
    assert company.proxies["b"].calls > 1
    assert not any(one.released.sums for one in found.values()), "nobody stood in"


@pytest.mark.slow
def test_without_signs_of_life_the_policy_has_to_help(tmp_path):
    """The twin: nobody looks, so that only a deadline brings the answer about."""
    noticed = []

    async def stall(company):
        await in_phase(company, "iterating", round_=10)
        company.proxies["b"].stall()
        await company.over.wait()
        noticed.append(company.proxies["b"].calls)

    deaf = replace(QUICK, ping_interval=60.0, ping_timeout=60.0)
    hasty = changed(LONG, policy={"deadline": 0.8, "patience": 3})
    found = Company(tmp_path, hasty, limits=deaf).run_behind(meanwhile=stall)
    agrees(found)
    assert noticed == [1], "the connection was taken for a good one"
    assert all(one.released.sums for one in found.values()), "neighbours stood in"


def narrow(network):
    """Take away the room below TLS for what is not sent yet, here and in the system."""
    for peer in network._peers.values():
        if peer.link is not None:
            secured = peer.link.connection.transport
            found = secured.get_extra_info("socket")
            if found is not None:  # one that closes has none any more
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 12)
                plain = secured._ssl_protocol._transport
                plain.set_write_buffer_limits(high=1 << 12)


def slow_run(folder, limits):
    """A run with long frames between slow readers: the most that ever waited."""
    size = 4000
    long = np.random.default_rng(8).uniform(-50, 50, size=(4, size)).tolist()
    cost, most = {"kind": "squared-distance", "targets": long}, [0]

    async def slow_down(company):
        for one in company.proxies.values():
            one.chunk, one.pause = 1 << 12, 0.002
            for listening in one._server.sockets:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
        while not company.over.is_set():
            look()
            await asyncio.sleep(0.002)

    def look(*_):
        nets = [getattr(d.runner, "_net", None) for d in company.drivers.values()]
        for net in filter(None, nets):
            narrow(net)
            most[0] = max(most[0], net.pending)

    patient = changed({**ONE_SHOT, "cost": cost}, policy={"deadline": 20.0})
    company = Company(folder, patient, limits=limits)
    company.records = dict.fromkeys(company.names, look)
    found = company.run_behind(meanwhile=slow_down)
    for answer in answers(found).values():
        np.testing.assert_allclose(answer, np.mean(long, axis=0), atol=1e-6)
    # To each of three neighbours: one frame is on its way, one may always wait.
    frame = 8 * size + 2000
    each = limits.queue_bytes + limits.write_bytes + 2 * frame
    return most[0], 3 * each


def test_a_slow_reader_costs_a_bounded_queue(tmp_path):
    """Frames find no room, and are asked for again until they have come through."""
    tight = replace(QUICK, queue_bytes=1 << 15, write_bytes=1 << 14)
    most, bound = slow_run(tmp_path, tight)
    assert 0 < most <= bound
