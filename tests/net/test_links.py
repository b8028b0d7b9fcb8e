"""Networks of parties on this machine: real sockets, real TLS, real certificates."""

import asyncio
import errno
import gc
import logging
import pickle
import re
import socket
import time
from contextlib import closing

import pytest

from cases import each
from idle_clock import patiently
from net.village import HOST, QUICK, Village, all_connected, free_port, until
from refusals import refused
from veilsum.consortium.consortium import Address
from veilsum.errors import InvalidInputError, PeerProtocolError, SecretError
from veilsum.net import links, sockets
from veilsum.net.handshake import ConnectionClose, ConnectionLimits


@pytest.fixture
def village(tmp_path):
    return Village(tmp_path)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "veilsum.net")
    return caplog


def messages(log, event):
    return [one for one in log.records if one.getMessage() == event]


def others(one):
    return one.network._peers


# Frames


def test_frames_arrive_in_order_both_ways(village):
    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            for number in range(500):
                a.send("b", b"a%d" % number)
                b.send("a", b"b%d" % number)
            await until(lambda: len(a.heard) == len(b.heard) == 500)
            assert a.heard == [("b", b"b%d" % number) for number in range(500)]
            assert b.heard == [("a", b"a%d" % number) for number in range(500)]
            assert a.met == ["b"]
            assert b.met == ["a"]

    patiently(main())


def test_frames_of_one_turn_are_written_at_once_and_before_the_end(village):
    frames = [b"a%d" % number for number in range(20)]

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            link, writes = others(a)["b"].link, []
            transport, write = (
                link.connection.transport,
                link.connection.transport.write,
            )
            transport.write = lambda data: (writes.append(len(data)), write(data))
            for frame in frames:
                a.send("b", frame)
            assert not writes
            assert link.pending >= sum(map(len, frames))  # it counts as waiting
            await until(lambda: len(b.heard) == 20)
            assert len(writes) == 1
            a.send("b", b"last")
            await link.close(ConnectionClose.GOING, "over")
            await until(lambda: len(b.heard) == 21)
            assert [frame for _, frame in b.heard] == [*frames, b"last"]

    patiently(main())


def test_frames_of_all_sizes_arrive_whole(village):
    frames = [bytes([size % 251]) * size for size in (0, 1, 125, 126, 65_535, 1 << 20)]

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            for frame in frames:
                a.send("b", frame)
                b.send("a", frame)
            await until(lambda: len(a.heard) == len(b.heard) == len(frames))
            assert [frame for _, frame in a.heard] == frames
            assert [frame for _, frame in b.heard] == frames

    patiently(main())


def test_what_waits_keeps_its_order_and_drain_waits_for_it(village):
    frames = [bytes([number]) * 100_000 for number in range(100)]

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            for frame in frames:
                a.send("b", frame)
            a.network.say_bye()
            assert a.network.pending > 1_000_000
            await a.network.drain(20.0)
            await until(lambda: b.left)
            assert [frame for _, frame in b.heard] == frames
            await a.network.drain(20.0)
            assert not a.network.unsent

    patiently(main())


def test_a_frame_for_somebody_who_is_not_there_is_dropped_and_counted(village):
    async def main():
        async with village.stations("a") as (a,):
            for _ in range(3):
                a.send("b", b"hello?")
            await a.network.drain(1.0)
            assert a.network.unsent == {"b": 3}
            assert a.network.pending == 0

    patiently(main())


def test_every_edge_of_a_ring_has_one_connection(tmp_path, log):
    village = Village(tmp_path, tuple("abcde"))

    async def main():
        async with village.stations() as all_of_them:
            await all_connected(all_of_them)
            for one in all_of_them:
                for name in others(one):
                    one.send(name, one.name.encode())
            await until(lambda: all(len(one.heard) == 2 for one in all_of_them))
            for one in all_of_them:
                assert all(sender.encode() == frame for sender, frame in one.heard)
                assert sorted(one.met) == sorted(others(one))

    patiently(main())
    assert len(messages(log, "connected")) == 10


# Who calls


def test_a_party_without_an_address_calls(tmp_path):
    village = Village(tmp_path, silent=("a",))

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            assert a.network.ports == ()
            assert b.network._peers["a"].link.dialled is False

    patiently(main())


def test_a_later_party_without_an_address_calls_an_earlier_one(tmp_path):
    village = Village(tmp_path, silent=("b",))

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            assert b.network._peers["a"].link.dialled is True

    patiently(main())


def test_the_end_that_need_not_call_does_if_it_must(village):
    """b is not where its address says: a cannot call it, so b calls a."""
    soon = ConnectionLimits(**{**vars(QUICK), "fallback": 0.1})

    async def main():
        a = village.station("a")
        b = village.station("b", listen=Address(HOST, 0), limits=soon)
        try:
            await a.network.open()
            await b.network.open()
            await all_connected([a, b])
            assert b.network._peers["a"].link.dialled is True
            a.send("b", b"there you are")
            await until(lambda: b.heard)
        finally:
            await asyncio.gather(a.network.close(), b.network.close())

    patiently(main())


def test_calls_that_cross_leave_one_connection(tmp_path):
    """Both ends call at once, again and again."""
    eager = ConnectionLimits(**{**vars(QUICK), "fallback": 1e-6, "settled": 1e-6})
    village = Village(tmp_path)

    async def main():
        async with village.stations(limits=eager) as both:
            for _ in range(20):
                await all_connected(both)
                for link in links(both):
                    link.cut("for the test")
            await until(lambda: alike(*both))
            await asyncio.sleep(0.2)
            assert alike(*both)

    def links(both):
        found = [peer.link for one in both for peer in others(one).values()]
        return [link for link in found if link is not None and link.alive]

    def alike(a, b):
        """Both ends hold one and the same connection."""
        one, other = links([a]), links([b])
        ends = [
            (link.connection.local_address, link.connection.remote_address)
            for link in (*one, *other)
        ]
        return len(ends) == 2 and ends[0] == ends[1][::-1]

    patiently(main())


# Leaving


def test_a_bye_is_told_now_and_to_those_who_come_later(village):
    async def main():
        async with village.stations("a") as (a,):
            a.network.say_bye()
            async with village.stations("b") as (b,):
                await until(lambda: b.left == ["a"])
                b.network.say_bye()
                await until(lambda: a.left == ["b"])
            await until(lambda: a.condition("b") == "not connected: it has finished")
            async with village.stations("b") as (b,):
                await until(lambda: b.left == ["a"])

    patiently(main())


def test_nothing_is_left_after_close(village):
    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            a.send("b", b"x" * 1_000_000)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with closing(socket.socket()) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            address = village.addresses["b"]
            found.bind((address.host, address.port))
        await a.network.close()

    patiently(main())


@each("turns", range(6))
def test_a_door_that_is_called_off_while_it_opens_leaves_no_socket(turns):
    async def main():
        port, door = free_port(), sockets.SocketDoor(None, QUICK, lambda *_: None)
        opening = asyncio.ensure_future(door.open(Address(HOST, port), lambda _: None))
        for _ in range(turns):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await door.close()
        with closing(socket.create_server((HOST, port))):
            pass

    patiently(main())
    gc.collect()  # what were left open would be a ResourceWarning, and that an error


def test_a_party_that_comes_back_is_met_again(village):
    async def main():
        async with village.stations("a") as (a,):
            for count in range(1, 4):
                async with village.stations("b") as (b,):
                    await until(lambda: a.met == ["b"] * count)  # noqa: B023
                    await until(lambda: b.met)
                    b.send("a", b"%d" % count)
                    await until(lambda: len(a.heard) == count)  # noqa: B023

    patiently(main())


# Agreement


def test_another_file_is_refused_and_both_ends_say_where_it_differs(village, log):
    other = village.consortium(policy={"tolerate": 1}, masks={"law": "uniform"})

    async def main():
        a = village.station("a")
        b = village.station("b", consortium=other)
        try:
            await a.network.open()
            await b.network.open()
            await until(lambda: a.network.differences() and b.network.differences())
            assert a.network.differences() == {"b": ("masks", "policy")}
            assert b.network.differences() == {"a": ("masks", "policy")}
            said = a.condition("b")
            assert said.startswith("refused: its consortium file differs in masks")
            assert a.met == b.met == []
        finally:
            await asyncio.gather(a.network.close(), b.network.close())

    patiently(main())
    found = messages(log, "connection refused")
    assert {record.party for record in found} == {"a", "b"}


def test_somebody_who_mends_the_file_is_met(village):
    other = village.consortium(policy={"tolerate": 1})

    async def main():
        async with village.stations("a") as (a,):
            async with village.stations("b", consortium=other) as (b,):
                await until(lambda: a.network.differences())
            await until(lambda: "connection refused" in a.condition("b"))
            assert a.network.differences() == {"b": ("policy",)}
            async with village.stations("b") as (b,):
                await all_connected([a, b])
                assert a.network.differences() == {}

    patiently(main())


def test_another_plan_is_refused(village):
    async def main():
        a = village.station("a")
        b = village.station("b", plan=bytes(32))
        try:
            await a.network.open()
            await b.network.open()
            await until(lambda: a.network.differences() and b.network.differences())
            assert a.network.differences() == {"b": ("plan",)}
            assert "another plan" in b.condition("a")
            assert a.met == b.met == []
        finally:
            await asyncio.gather(a.network.close(), b.network.close())

    patiently(main())


# Questions of a study


def test_who_has_gone_on_to_a_later_question_is_told_of(village, log):
    """And only by who comes before: whoever is ahead waits, and is soon met again."""
    study = {"study": "5" * 64}
    first = village.consortium(**study)
    second = village.consortium(**study, run="next-" + "1" * 32)

    async def main():
        passed, ahead = [], []
        behind = {"consortium": first, "later": {second.run}, "passed": passed.append}
        async with (
            village.stations("a", **behind) as (a,),
            village.stations("b", consortium=second, passed=ahead.append) as (b,),
        ):
            await until(lambda: passed, "a hears where b is")
            assert set(passed) == {"b"}
            assert a.met == b.met == ahead == []
            assert "another question of the same study" in a.condition("b")
            assert not a.condition("b").startswith("refused")

    patiently(main())
    assert messages(log, "elsewhere")
    assert not messages(log, "connection refused")


# Clocks


def test_clocks_minutes_apart_are_said_once(village, log):
    async def main():
        async with village.stations("a") as (a,):
            slow = {"clock": lambda: time.time() - 600}
            for _ in range(2):
                async with village.stations("b", **slow) as (b,):
                    await all_connected([a, b])

    patiently(main())
    said = [one for one in messages(log, "clocks differ") if one.party == "b"]
    assert len(said) == 1
    assert re.search(
        r"its clock is (599|600|601) s behind this party's", said[0].reason
    )
    assert len(re.findall(r"\d\d:\d\d:\d\dZ", said[0].reason)) == 2


def test_clocks_hours_apart_are_refused_with_the_name(village, log):
    async def main():
        async with village.stations("a") as (a,):
            fast = {"clock": lambda: time.time() + 7200}
            async with village.stations("b", **fast) as (b,):
                await until(lambda: "clock" in a.condition("b"))
                await until(lambda: "clock" in b.condition("a"))
                assert "ahead of" in a.condition("b")
                assert "behind" in b.condition("a")
                assert a.met == b.met == []

    patiently(main())
    assert {one.party for one in messages(log, "connection refused")} <= {"a", "b"}


# Two under one name


def test_of_two_processes_under_one_name_the_newest_wins(village, log):
    async def main():
        async with village.stations("a", "b") as (old, b):
            await all_connected([old, b])
            new = village.station("a", listen=Address(HOST, 0))
            try:
                await new.network.open()
                await until(lambda: new.is_connected("b"))
                await until(lambda: "took over" in old.condition("b"))
                new.send("b", b"from the new one")
                await until(lambda: b.heard == [("a", b"from the new one")])
                await asyncio.sleep(0.5)  # many times the longest wait
                assert new.is_connected("b")
                assert not old.is_connected("b")
            finally:
                await new.network.close()

    patiently(main())
    (said,) = messages(log, "replaced")
    assert said.levelno == logging.ERROR
    assert "another process under the name 'a'" in said.reason


# What the user may have done wrong


def test_an_address_in_use_is_the_users_to_mend(village):
    async def main():
        with closing(socket.create_server((HOST, 0))) as busy:
            taken = Address(HOST, busy.getsockname()[1])
            a = village.station("a", listen=taken)
            with pytest.raises(InvalidInputError) as caught:
                await a.network.open()
            assert str(taken) in str(caught.value)
            assert "another program listens there" in str(caught.value)
            await a.network.close()

    patiently(main())


@pytest.mark.parametrize(
    ("host", "words"),
    [("192.0.2.1", "no such address"), ("no-such-host.invalid", "no such host")],
)
def test_an_address_of_another_machine_is_the_users_to_mend(village, host, words):
    async def main():
        a = village.station("a", listen=Address(host, 8443))
        with pytest.raises(InvalidInputError, match=words) as caught:
            await a.network.open()
        assert "say where to listen" in str(caught.value)
        await a.network.close()

    patiently(main())


@pytest.mark.parametrize(
    ("host", "instead"), [("192.0.2.1", "0.0.0.0:9102"), ("2001:db8::7", "[::]:9102")]
)
def test_where_to_listen_instead_has_the_port_that_others_dial(host, instead):
    error = OSError(errno.EADDRNOTAVAIL, "x")
    found = links.connection_listening_refused(Address(host, 9102), error)
    assert str(found).endswith(f"such as --listen {instead}")


def test_somebody_elses_file_is_refused(village, tmp_path):
    (tmp_path / "new").mkdir()
    renewed = Village(tmp_path / "new")
    with refused("other-certificate"):
        village.station("a", consortium=renewed.consortium())


def test_conditions_are_said_in_words(village):
    async def main():
        async with village.stations("a", "b") as (a, b):
            await all_connected([a, b])
            assert a.condition("b") == "connected"
        assert b.condition("a") == "not connected: this party has left"
        async with village.stations("b") as (b,):
            assert b.condition("a") == "not connected: never called"
        async with village.stations("a") as (a,):
            where = village.addresses["b"]
            said = f"not connected: connection refused at {where}"
            await until(lambda: a.condition("b") == said)

    patiently(main())


# What the party itself finds


def test_a_refused_frame_ends_the_connection_and_names_the_sender(village, log):
    def hear(sender, frame):
        if frame == b"bad":
            raise PeerProtocolError(sender, "is not making sense")
        good.append(frame)

    good = []

    async def main():
        a = village.station("a")
        b = village.station("b", hear=hear)
        try:
            await a.network.open()
            await b.network.open()
            await all_connected([a, b])
            a.send("b", b"bad")
            a.send("b", b"after the bad one")
            await until(lambda: len(b.met) == 2)
            await all_connected([a, b])
            a.send("b", b"good")
            await until(lambda: good)
            assert good == [b"good"]
        finally:
            await asyncio.gather(a.network.close(), b.network.close())

    patiently(main())
    (said,) = messages(log, "frame refused")
    assert said.party == "a"
    assert "not making sense" in said.reason
    ends = [one.reason for one in messages(log, "disconnected") if one.party == "b"]
    assert any(str(int(ConnectionClose.FRAME)) in reason for reason in ends)


def test_a_failure_of_its_own_is_not_swallowed(village):
    """Nor is the frame tried again, though a second time it might do."""
    failures, heard = [], []

    def hear(sender, frame):
        heard.append(frame)
        if len(heard) == 1:
            raise RuntimeError("disk full")

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        a = village.station("a", hear=hear)
        b = village.station("b", hear=hear)
        try:
            await a.network.open()
            await b.network.open()
            await all_connected([a, b])
            a.send("b", b"x")
            a.send("b", b"right after it")
            await until(lambda: failures and len(b.met) == 2)
            await all_connected([a, b])
            a.send("b", b"y")
            await until(lambda: len(heard) == 2)
        finally:
            await asyncio.gather(a.network.close(), b.network.close())

    patiently(main())
    assert [str(one["exception"]) for one in failures] == ["disk full"]
    assert heard == [b"x", b"y"]


# Secrets


def exchange_of(village, frame):
    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            a.send("b", frame)
            b.send("a", frame)
            await until(lambda: a.heard and b.heard)

    patiently(main())


def test_no_log_at_any_level_shows_a_frame(village, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("websockets", "websockets.server", "websockets.client"):
        caplog.set_level(logging.DEBUG, name)
    exchange_of(village, b"the-secret-share")
    assert caplog.records
    assert "secret" not in caplog.text


def test_the_packages_own_log_would(village, caplog, monkeypatch):
    """The twin: with the logger that the package takes by itself, frames show."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(sockets, "_SILENT", logging.getLogger("websockets.test"))
    exchange_of(village, b"the-secret-share")
    assert "the-secret-share" in caplog.text


def test_a_network_shows_and_copies_nothing(village):
    network = village.station("a").network
    assert repr(network) == "<SocketNetwork: private>"
    with pytest.raises(SecretError):
        pickle.dumps(network)


# Proxies of the environment

OUTSIDE = Address("b.consortium.example", 443)


async def connect_proxy(targets, asked):
    """A proxy as companies have it: CONNECT to names that only it can resolve."""

    async def answer(reader, writer):
        line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode()
        asked.append(line)
        far = await asyncio.open_connection(HOST, targets[line.split()[1]])
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source, sink):
            while data := await source.read(1 << 16):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far[1]), pump(far[0], writer))

    return await asyncio.start_server(answer, HOST, 0)


def test_the_environments_proxy_is_used(tmp_path, monkeypatch):
    village = Village(tmp_path, addresses={"b": OUTSIDE}, silent=("a",))
    asked = []

    async def main():
        b = village.station("b", listen=Address(HOST, 0))
        await b.network.open()
        targets = {str(OUTSIDE): b.network.ports[0]}
        proxy = await connect_proxy(targets, asked)
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://{HOST}:{port}")
        monkeypatch.setenv("no_proxy", "")
        a = village.station("a")
        try:
            await a.network.open()
            await all_connected([a, b])
            a.send("b", b"through the proxy")
            await until(lambda: b.heard)
        finally:
            await asyncio.gather(a.network.close(), b.network.close())
            proxy.close()
            await proxy.wait_closed()

    patiently(main())
    assert asked == [f"CONNECT {OUTSIDE} HTTP/1.1"]


def test_this_machine_needs_no_proxy(village, monkeypatch):
    monkeypatch.setenv("https_proxy", f"http://{HOST}:{free_port()}")
    monkeypatch.setenv("no_proxy", "")
    exchange_of(village, b"not through the proxy")


async def said_through(folder, monkeypatch, port, words):
    """Wait until a says these words of b behind a proxy."""
    village = Village(folder, addresses={"b": OUTSIDE}, silent=("a",))
    monkeypatch.setenv("https_proxy", f"http://user:secret@{HOST}:{port}")
    monkeypatch.setenv("no_proxy", "")
    said = f"not connected: the proxy {HOST}:{port} {words}"
    async with village.stations("a") as (a,):
        await until(lambda: a.condition("b") == said, said)


def test_a_proxy_that_is_not_there_is_said(tmp_path, monkeypatch, log):
    words = f"cannot be reached on the way to {OUTSIDE}: connection refused"
    patiently(said_through(tmp_path, monkeypatch, free_port(), words))
    [failed] = messages(log, "call failed")
    assert failed.reason.endswith(words)
    assert "secret" not in failed.reason


def test_what_a_proxy_answers_is_said(tmp_path, monkeypatch):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()

    async def main():
        async with await asyncio.start_server(answer, HOST, 0) as proxy:
            port = proxy.sockets[0].getsockname()[1]
            words = f"did not reach {OUTSIDE} (HTTP 502)"
            await said_through(tmp_path, monkeypatch, port, words)

    patiently(main())


def test_a_call_of_the_other_end_is_taken_where_the_old_connection_is_dead(village):
    """The end that is to call is slow to see that its connection is gone."""

    async def main():
        async with village.stations("a", "b") as both:
            await all_connected(both)
            for one in both:
                (peer,) = others(one).values()
                old = peer.link
                other_way = links.NetworkLink(
                    peer.name, old.connection, QUICK, dialled=not peer.designated
                )
                assert not one.network._meetings._admits(peer, other_way)
                old.ended = "for the test"
                assert one.network._meetings._admits(peer, other_way)
                old.ended = ""
                await other_way.gone()

    patiently(main())
