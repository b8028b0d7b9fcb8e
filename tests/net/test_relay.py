"""Members that meet at a relay: what works directly works there, too."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from cases import each
from idle_clock import patiently
from net.proxy import Proxy
from net.relays import TOKEN, asked, caller, deployment, relay_at, request
from net.runs import ONE_SHOT, Company, answers
from net.village import HOST, QUICK, Village, all_connected, free_port, until
from refusals import refused
from veilsum.consortium.addresses import Address, ConsortiumRelay, ConsortiumRelays
from veilsum.errors import InvalidScenarioError, OutputError
from veilsum.net import relay, tunnel
from veilsum.net.identity import new_identity
from veilsum.net.relay import RelayHalf, RelayLimits, RelayServer, websocket_frame
from veilsum.net.relay_tokens import (
    JOINED,
    MOST_FRAME,
    RELAY_PATH,
    VARIABLE,
    RelayPass,
    new_token,
    own_token,
    read_token,
    relay_admits,
    relay_pseudonym,
    token_digest,
)
from veilsum.net.tunnel import RelayTunnels

# The end that need not call does not wait for long.
PROMPT = replace(QUICK, fallback=0.3)


def link(station, name):
    found = station.network._peers[name].link
    return None if found is None else found.connection.relay


# Ways


@each("size", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_a_frame_that_is_passed_on_is_as_websockets_writes_it(size):
    data = os.urandom(size)
    assert websocket_frame(data) == Frame(Opcode.BINARY, data).serialize(mask=False)


def test_two_parties_without_addresses_meet_at_a_relay(tmp_path):
    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port) as relay,
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
        ):
            await all_connected((a, b))
            frame = os.urandom(900_000)
            a.send("b", frame)
            b.send("a", b"short")
            await until(lambda: b.heard and a.heard)
            assert b.heard == [("a", frame)]
            assert a.heard == [("b", b"short")]
            assert relay.n_links == 1
            assert link(a, "b") == f"ws://{HOST}:{port}"
        assert not relay._halves
        assert not relay._rooms
        assert not relay._runs

    patiently(main())


def test_a_link_is_direct_where_an_address_answers(tmp_path):
    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a",))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port) as relay,
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
        ):
            await all_connected((a, b))
            assert link(a, "b") == link(b, "a") == ""
            assert relay.n_links == 0

    patiently(main())


def test_a_link_is_relayed_where_an_address_does_not_answer(tmp_path):
    async def main():
        port, elsewhere = free_port(), Address(HOST, free_port())
        village = Village(tmp_path, silent=("a",))
        agreed = village.consortium(deployment=deployment(port))
        given = {"consortium": agreed, "token": TOKEN, "limits": PROMPT}
        async with (
            relay_at(port),
            village.stations("a", **given) as (a,),
            village.stations("b", listen=elsewhere, **given) as (b,),
        ):
            await all_connected((a, b))
            assert link(a, "b") == link(b, "a") == f"ws://{HOST}:{port}"

    patiently(main())


class Collecting(asyncio.BufferedProtocol):
    """Keeps what a stream hands over."""

    def __init__(self):
        self.found, self._room = b"", bytearray(3)

    def get_buffer(self, sizehint):
        return self._room

    def buffer_updated(self, nbytes):
        self.found += self._room[:nbytes]


def test_bytes_that_come_with_the_relays_answer_are_kept(tmp_path):
    """The answer, the word that both are there, and the other's bytes: one packet."""

    over = asyncio.Event()

    async def relay(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        key = re.search(rb"Sec-WebSocket-Key: (\S+)", head, re.IGNORECASE)[1].decode()
        lines = ["Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Accept: {accept_key(key)}"]
        answer = "\r\n".join(["HTTP/1.1 101 Switching Protocols", *lines, "", ""])
        frames = [Frame(Opcode.TEXT, JOINED.encode())]
        frames += [Frame(Opcode.BINARY, data) for data in (b"first ", b"bytes")]
        sent = [frame.serialize(mask=False) for frame in frames]
        writer.write(b"".join([answer.encode(), *sent]))
        with suppress(ConnectionResetError):
            await reader.read()
        writer.transport.abort()
        over.set()

    async def main():
        server = await asyncio.start_server(relay, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        ways = RelayTunnels(agreed=agreed, me="a", token=TOKEN, limits=QUICK)
        stream = await ways.join(ways.places[0], "b", wait=20.0)
        within = Collecting()
        stream.set_protocol(within)
        stream.resume_reading()
        async with asyncio.timeout(30):
            await until(lambda: within.found == b"first bytes")
        stream.abort()
        server.close()
        await over.wait()
        await server.wait_closed()

    patiently(main())


async def in_batches(folder, count):
    """Runs over a relay behind a proxy that holds bytes back for up to 150 ms."""
    for k in range(count):
        port, behind = free_port(), free_port()
        company = Company(
            folder / f"{k}",
            ONE_SHOT,
            relays=[f"ws://{HOST}:{port}"],
            dial_only=["b", "c", "d"],
        )
        token = read_token(folder / f"{k}" / "parties" / "relay.token")
        proxy = Proxy(behind, port=port, batch=0.15, draws=Random(k))
        await proxy.open()
        async with relay_at(behind, token=token):
            assert company.verdict(await company.together()).good
        await proxy.close()


@pytest.mark.slow
def test_no_handshake_is_lost_where_a_relays_bytes_come_in_batches(tmp_path, caplog):
    caplog.set_level(logging.INFO, "veilsum.net")
    patiently(in_batches(tmp_path, 40))
    late = [one for one in caplog.records if "in time" in getattr(one, "reason", "")]
    assert not late


def test_one_that_dies_is_replaced_by_the_next(tmp_path):
    async def main():
        first, second = free_port(), free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(first, second))
        async with village.stations(consortium=agreed, token=TOKEN) as (a, b):
            async with relay_at(first):
                await all_connected((a, b))
                assert link(a, "b").endswith(str(first))
            async with relay_at(second):
                await until(lambda: link(a, "b") and link(a, "b").endswith(str(second)))
                await all_connected((a, b))
            async with relay_at(first):  # and back
                await until(lambda: link(a, "b") and link(a, "b").endswith(str(first)))
                b.send("a", b"again")
                await until(lambda: a.heard == [("b", b"again")])

    patiently(main())


def test_of_several_one_serves_and_nobody_yields(tmp_path):
    """Both ends are at all relays at once: the one that dials decides."""

    async def main():
        ports = [free_port() for _ in range(4)]
        village = Village(tmp_path, names=("a", "b", "c"), silent=("a", "b", "c"))
        agreed = village.consortium(deployment=deployment(*ports))
        async with (
            relay_at(ports[0]) as one,
            relay_at(ports[1]) as two,
            relay_at(ports[2]) as three,
            relay_at(ports[3]) as four,
            village.stations(consortium=agreed, token=TOKEN) as stations,
        ):
            await all_connected(stations)
            relays = (one, two, three, four)
            await until(lambda: sum(relay.n_links for relay in relays) == 3)
            await until(lambda: sum(len(relay._halves) for relay in relays) == 6)
            peers = [p for one in stations for p in one.network._peers.values()]
            assert not any(peer.yielded for peer in peers)

    patiently(main())


def test_a_relay_restarts_in_good_order(tmp_path):
    """The port is free at once; links go on meanwhile, then begin anew."""

    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
            relay_at(port) as old,
        ):
            await all_connected((a, b))
            ending = asyncio.ensure_future(old.stop(grace=1.0))
            await asyncio.sleep(0.1)
            async with relay_at(port) as new:
                a.send("b", b"still there")
                await until(lambda: b.heard == [("a", b"still there")])
                assert (old.n_links, new.n_links) == (1, 0)
                await until(lambda: new.n_links == 1)
                await all_connected((a, b))
                await ending

    patiently(main())


def test_a_party_that_comes_anew_takes_its_place(tmp_path):
    """Its old connection may look alive to the relay for a while."""

    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port) as relay,
            village.stations("b", consortium=agreed, token=TOKEN) as (b,),
            village.stations("a", consortium=agreed, token=TOKEN) as (dead,),
        ):
            await all_connected((dead, b))
            for task in dead.network._tasks:
                task.cancel()  # nothing more is said, and nothing is closed
            async with village.stations("a", consortium=agreed, token=TOKEN) as (a,):
                await all_connected((a, b))
                b.send("a", b"welcome")
                await until(lambda: a.heard == [("b", b"welcome")])
                assert relay.n_links == 1

    patiently(main())


def data_frame(data):
    """A binary frame as a member sends it, with a mask of zeros."""
    return b"\x82\xfe" + len(data).to_bytes(2, "big") + bytes(4) + data


def test_a_slow_reader_keeps_the_sender_waiting_and_not_the_relay(tmp_path):
    async def main():
        port = free_port()
        shown = RelayPass("0" * 32, "1" * 32, "2" * 32)
        there = RelayPass("0" * 32, "2" * 32, "1" * 32)
        async with (
            relay_at(port, buffer=1 << 14) as relay,
            caller(port, request(shown), limit=1 << 14) as (reader, _),
            caller(port, request(there)) as (_, sender),
        ):
            await until(lambda: relay.n_links == 1)
            size = 60_000
            for _ in range(400):  # 24 MB, which nobody reads
                sender.write(data_frame(bytes(size)))
            await until(lambda: any(half._stopped for half in relay._halves))
            held = sum(half.buffered for half in relay._halves)
            assert held < (1 << 14) + 300_000  # what one read brings
            taken = 0
            while taken < 400 * size:
                taken += len(await reader.read(1 << 16))

    patiently(main())


def test_nobody_sends_more_in_a_second_than_is_allowed():
    per_second, size, count = 100_000, 50_000, 12
    # One read of a socket may bring so much more than there was room for.
    one_read = (1 << 18) + size
    looks = []

    class Counted(RelayHalf):
        def look(self):
            looks.append((self, self.loop.time(), self.now))
            super().look()

    class CountingRelay(RelayServer):
        made = Counted

    async def main():
        port = free_port()
        async with (
            relay_at(port, kind=CountingRelay, per_second=per_second) as relay,
            caller(port, request(RelayPass("0" * 32, "1" * 32, "2" * 32))) as (
                reader,
                _,
            ),
            caller(port, request(RelayPass("0" * 32, "2" * 32, "1" * 32))) as (
                _,
                sender,
            ),
            asyncio.timeout(30),
        ):
            await until(lambda: relay.n_links == 1)
            (flood,) = (half for half in relay._halves if half.shown.me == "2" * 32)
            for _ in range(count):
                sender.write(data_frame(bytes(size)))
            taken = 0
            while taken < count * size:
                taken += len(await reader.read(1 << 16))
            sent = [now for half, _, now in looks if half is flood]
            assert max(sent) <= per_second + one_read
            assert sum(sent) + flood.now == flood.sent == count * size
        times = [time for half, time, _ in looks if half is flood]
        assert all(later - sooner >= 0.999 for sooner, later in pairwise(times))
        assert len(times) >= 2

    patiently(main())


# Who is admitted


def test_who_has_another_token_is_told_so(tmp_path, caplog):
    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port, token="0" * 64),
            village.stations(consortium=agreed, token=TOKEN) as (a, _),
        ):
            await until(lambda: "does not admit" in a.condition("b"))

    with caplog.at_level(logging.INFO):
        patiently(main())
    assert TOKEN not in caplog.text


@each(
    ("content", "status"),
    [
        (request(path="/"), "404"),
        (request(token="0" * 64), "401"),
        (request(token=""), "401"),
        (request(token=TOKEN.upper()), "401"),
        (request(RelayPass("0" * 32, "x" * 32, "2" * 32)), "400"),
        (request(RelayPass("0" * 32, "2" * 32, "2" * 32)), "400"),
        (request().replace(b"Veilsum-To", b"Veilsum-Run"), "400"),
        (request(upgrade=False), "426"),
        (request(), "101"),
        (b"GET /veilsum/relay HTTP/1.1\r\n" + b"x: y\r\n" * 1000 + b"\r\n", ""),
        (b"\x16\x03\x01" + bytes(200) + b"\r\n\r\n", ""),
    ],
)
def test_what_is_answered_to_whom(content, status):
    async def main():
        port = free_port()
        async with relay_at(port):
            return await asked(port, content)

    assert status in patiently(main())


def test_there_is_room_for_so_many():
    async def main():
        port, run = free_port(), "0" * 32
        async with relay_at(port, connections=3, per_run=2) as relay:
            async with AsyncExitStack() as callers:
                for k in range(2):
                    shown = RelayPass(run, f"{k}" * 32, "9" * 32)
                    await callers.enter_async_context(caller(port, request(shown)))
                await until(lambda: len(relay._halves) == 2)
                more = RelayPass(run, "5" * 32, "9" * 32)
                assert "429" in await asked(port, request(more))
                look = RelayPass("1" * 32, "0" * 32, "9" * 32)
                await callers.enter_async_context(caller(port, request(look)))
                await until(lambda: len(relay._halves) == 3)
                assert "503" in await asked(port, request())
                here = RelayPass(run, "0" * 32, "9" * 32, look=True)
                assert "503" in await asked(port, request(here))
            await until(lambda: not relay._halves)
            assert "refused_429_total 1" in relay.metrics()
            assert "refused_503_total 2" in relay.metrics()

    patiently(main())


async def crowded_out(**limits):
    """The answer to one token after another asked for all places, a run for each."""
    port, greedy = free_port(), "5" * 64
    async with relay_at(port, greedy, connections=4, **limits) as relay:
        async with AsyncExitStack() as callers:
            for k in range(4):
                shown = RelayPass(f"{k}" * 32, "a" * 32, "b" * 32)
                content = request(shown, token=greedy)
                await callers.enter_async_context(caller(port, content))
            await until(lambda: len(relay._halves) + relay.counts["refused_429"] == 4)
            found = await asked(port, request())
        await until(lambda: not relay._halves)
        assert not relay._tokens.total()
        return found


def test_one_token_does_not_use_up_a_relay_whatever_runs_it_names():
    assert "101" in patiently(crowded_out())


def test_without_a_share_for_each_token_it_would():
    assert "503" in patiently(crowded_out(per_token=4))


def test_a_look_takes_nobodys_place():
    async def main():
        port, run = free_port(), "0" * 32
        shown = RelayPass(run, "1" * 32, "2" * 32)
        async with relay_at(port) as relay, caller(port, request(shown)):
            await until(lambda: len(relay._halves) == 1)
            own = RelayPass(run, "1" * 32, "2" * 32, look=True)
            assert "409" in await asked(port, request(own))
            assert "101" in await asked(
                port, request(RelayPass(run, "2" * 32, "1" * 32))
            )

    patiently(main())


def test_a_frame_before_the_other_is_there_ends_it():
    async def main():
        port = free_port()
        async with relay_at(port) as relay:
            for frame in (b"\x82\x80" + bytes(4), b"\x81\x80" + bytes(4)):
                async with caller(port, request()) as (reader, writer):
                    await until(lambda: len(relay._halves) == 1)
                    writer.write(frame)
                    said = b""
                    while (1008).to_bytes(2, "big") not in said:
                        said += await reader.readexactly(1)
                await until(lambda: not relay._halves)

    patiently(main())


def test_who_waits_or_is_silent_for_too_long_goes(monkeypatch):
    monkeypatch.setattr(relay, "LOOK", 0.1)

    async def main():
        port = free_port()
        for bounds in ({"wait": 0.5}, {"silence": 0.5}, {"longest": 0.5}):
            async with relay_at(port, **bounds) as here:
                async with caller(port, request()) as (reader, _):
                    await until(lambda: len(here._halves) == 1)
                    await reader.readuntil(b"\r\n\r\n")
                    await reader.read(1)  # the close frame, or nothing any more
                await until(lambda: not here._halves)

    patiently(main())


def test_limits_are_above_nothing():
    with refused("limit-not-positive", mentions=("per_run", "0")):
        RelayLimits(per_run=0)


def test_numbers_are_of_nobody_in_particular():
    async def main():
        told = free_port()
        async with relay_at(free_port(), metrics=Address(HOST, told)):
            content = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
            async with caller(told, content) as (reader, _), asyncio.timeout(30):
                text = (await reader.read()).decode()
            assert "veilsum_relay_links 0" in text
            assert "404" in await asked(told, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    patiently(main())


# The relay's own certificate, and proxies


def test_the_relay_has_the_certificate_that_was_agreed_on(tmp_path):
    async def main():
        port = free_port()
        (tmp_path / "relay").mkdir()
        made = new_identity("relay", tmp_path / "relay")
        other = new_identity("other", tmp_path / "relay")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate_file, made.key_file)
        village = Village(tmp_path, silent=("a", "b"))
        right, wrong = (
            village.consortium(
                deployment=deployment(port, scheme="wss", relay_certificate=one)
            )
            for one in (made.certificate, other.certificate)
        )
        async with relay_at(port, context=context):
            async with village.stations(consortium=right, token=TOKEN) as (a, b):
                await all_connected((a, b))
                a.send("b", b"under two")
                await until(lambda: b.heard == [("a", b"under two")])
            async with village.stations(consortium=wrong, token=TOKEN) as (a, _):
                await until(lambda: "its certificate" in a.condition("b"))

    patiently(main())


def test_members_come_through_a_proxy(tmp_path, monkeypatch):
    """CONNECT to the relay, then as ever."""

    async def main():
        port, calls = free_port(), []

        async def proxy(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            calls.append(head.partition(b"\r\n")[0])
            far_reader, far_writer = await asyncio.open_connection(HOST, port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

            async def pump(one, other):
                while data := await one.read(1 << 16):
                    other.write(data)
                other.transport.abort()

            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

        server = await asyncio.start_server(proxy, HOST, 0)
        there = server.sockets[0].getsockname()[1]
        monkeypatch.setattr(
            tunnel, "proxy_for_address", lambda _: f"http://{HOST}:{there}"
        )
        (tmp_path / "relay").mkdir()
        made = new_identity("relay", tmp_path / "relay")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate_file, made.key_file)
        village = Village(tmp_path, silent=("a", "b"))
        given = deployment(port, scheme="wss", relay_certificate=made.certificate)
        agreed = village.consortium(deployment=given)
        async with (
            relay_at(port, context=context),
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
        ):
            await all_connected((a, b))
        server.close()
        await asyncio.sleep(0.05)
        assert calls == [f"CONNECT {HOST}:{port} HTTP/1.1".encode()] * 2

    patiently(main())


# Whole runs


def test_a_run_over_a_relay_is_the_direct_one_bit_for_bit(tmp_path):
    async def relayed(company, port):
        async with relay_at(
            port, token=read_token(tmp_path / "far" / "parties" / "relay.token")
        ) as relay:
            found = await company.together()
            return found, relay.counts["joined"]

    near = Company(tmp_path / "near", ONE_SHOT)
    direct = answers(near.run())
    port = free_port()
    far = Company(
        tmp_path / "far",
        ONE_SHOT,
        relays=[f"ws://{HOST}:{port}"],
        dial_only=["b", "c", "d"],
    )
    found, joined = patiently(relayed(far, port))
    assert far.verdict(found).good
    for name, answer in answers(found).items():
        np.testing.assert_array_equal(answer, direct[name])
    assert joined == 3  # b, c and d with each other; a is called directly


def test_without_a_token_a_party_is_told_what_it_lacks(tmp_path):
    far = Company(
        tmp_path, ONE_SHOT, relays=["ws://127.0.0.1:1"], dial_only=["b", "c", "d"]
    )
    for name in "bcd":
        (far.folder(name) / "relay.token").unlink()
    far.options["b"] = {"token": None}

    async def main():
        return far.driver("b")

    with refused("token-missing"):
        asyncio.run(main())


# What is agreed on, and tokens


def test_relays_are_spelt_in_one_way():
    assert (
        str(ConsortiumRelay.of("wss://Relay.example.org/"))
        == "wss://relay.example.org:443"
    )
    assert str(ConsortiumRelay.of("wss://h:8443/a/b")) == "wss://h:8443/a/b"
    assert str(ConsortiumRelay.of("ws://[::1]:80")) == "ws://[::1]:80"
    for text in (
        *("relay.example.org", "https://h", "wss://", "wss://h:0", "wss://h:99999"),
        *("wss://u:p@h", "wss://h/?x=1", "wss://h/#x", "wss://h/a b", "wss://h/\x1b"),
        *("wss://h/" + "a" * 300, "wss://h//x", "wss://[::1", "wss://h_ö"),
    ):
        with refused("malformed-relay", InvalidScenarioError):
            ConsortiumRelay.of(text)
    with refused("relay-without-tls", InvalidScenarioError):
        ConsortiumRelay.of("ws://relay.example.org")


def test_what_is_agreed_about_relays_is_checked():
    digest = token_digest(TOKEN)
    one = "wss://relay.example.org"
    assert len(ConsortiumRelays.of(relay=one, relay_token=digest).places) == 1
    for given, words in (
        ({"relay": ()}, "1 to 4 relays, found 0"),
        ({"relay": (one,) * 5}, "found 5"),
        ({"relay": (one, f"{one}:443")}, "twice"),
        ({"relay_token": TOKEN.upper()}, "64 hexadecimal digits"),
        ({"relay_certificate": "x"}, "expected one certificate"),
    ):
        whole = {"relay": one, "relay_token": digest, **given}
        with pytest.raises(InvalidScenarioError, match=words):
            ConsortiumRelays.of(**whole)


def test_the_file_has_relays_and_nothing_else_of_a_deployment(tmp_path):
    # Where somebody has an address all meet on the network, not through files.
    some = Village(tmp_path / "some", ("a", "b", "c"), silent=("a", "b"))
    with refused("link-without-address", InvalidScenarioError):
        some.consortium()
    village = Village(tmp_path, silent=("a", "b"))
    with refused("section-not-public", InvalidScenarioError):
        village.consortium(deployment={"relay_token": token_digest(TOKEN)})
    with refused("unknown-key", InvalidScenarioError, mentions=("addresses",)):
        village.consortium(deployment={**deployment(1), "addresses": {}})
    agreed = village.consortium(deployment=deployment(1))
    assert agreed.dials("a", "b")
    assert not agreed.dials("b", "a")
    assert agreed.only_relayed("a") == ("b",)
    other = village.consortium(deployment=deployment(2))
    assert agreed.digest != other.digest
    assert agreed.to_table()["deployment"] == deployment(1)


def test_tokens_are_kept_and_compared(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "relay.token"
    digest = new_token(path)
    relays = ConsortiumRelays.of(relay="wss://h", relay_token=digest)
    token = read_token(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert own_token(relays, None, tmp_path) == token
    assert own_token(relays, path, tmp_path / "none") == token
    assert own_token(relays, None, tmp_path / "none") is None
    with refused("file-exists", OutputError):
        new_token(path)
    monkeypatch.setenv(VARIABLE, "0" * 64)
    with refused("other-token"):
        own_token(relays, None, tmp_path)
    monkeypatch.setenv(VARIABLE, "secret")
    with refused("not-a-token") as error:
        own_token(relays, None, tmp_path)
    assert "secret" not in str(error.value)
    path.chmod(0o644)
    with refused("token-file-exposed", mentions=("600",)):
        read_token(path)


def test_admission_is_by_the_whole_token():
    digests = [token_digest("0" * 64), token_digest(TOKEN)]
    assert relay_admits(f"Bearer {TOKEN}", digests) == digests[1]
    for header in ("", "Bearer", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN[:-1]}"):
        assert relay_admits(header, digests) is None
    assert relay_admits(f"Bearer {token_digest(TOKEN)}", digests) is None


def test_pseudonyms_differ_by_run_name_and_token(tmp_path):
    village = Village(tmp_path, silent=("a", "b"))
    agreed = village.consortium(deployment=deployment(1))
    one, other = (
        RelayPass.between(agreed, TOKEN, *pair) for pair in (("a", "b"), ("b", "a"))
    )
    assert (one.run, one.me, one.to) == (other.run, other.to, other.me)
    names = [["r"], ["r", "a"], ["r", "b"], ["s", "a"], ["r", "ab"]]
    assert len({relay_pseudonym(t, n) for t in (TOKEN, "0" * 64) for n in names}) == 10


def test_the_wire_page_says_what_is_sent(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
    (part,) = re.findall(r"### A relay\n(.*?)\n### ", page.read_text(), re.DOTALL)
    village = Village(tmp_path, silent=("a", "b"))
    agreed = village.consortium(deployment=deployment(1))
    shown = RelayPass.between(agreed, TOKEN, "a", "b", look=True)
    for header in shown.headers(TOKEN):
        assert f"`{header}`" in part
    codes = (relay.LEFT, relay.REPLACED, relay.LATE, relay.BREACH, relay.RESTART)
    for number in (*codes, f"{MOST_FRAME:,}", f"`{JOINED}`", f"`{RELAY_PATH}`"):
        assert str(number) in part
    # As it is written there, byte by byte.
    said = b"veilsum relay\0" + TOKEN.encode() + b"\0" + agreed.run.encode()
    assert shown.run == sha256(said).hexdigest()[:32]
    assert shown.me == sha256(said + b"\0a").hexdigest()[:32]
    assert shown.to == sha256(said + b"\0b").hexdigest()[:32]
    whole = sha256(b"veilsum relay token\0" + TOKEN.encode()).hexdigest()
    assert agreed.relays.token == whole
