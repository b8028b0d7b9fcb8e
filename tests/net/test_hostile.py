"""Hostile callers at a party's port, and hostile neighbours behind a good handshake.

After each of them the party is as it was: it has met nobody, nothing was handed to the
protocol, and an honest neighbour is served. Most checks have a twin without the
protection, in which the same caller gets in.
"""

import asyncio
import json
import logging
import ssl
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from idle_clock import patiently
from machines import picture, stopped_at
from net.runs import ONE_SHOT, Company, answers, changed
from net.village import HOST, PLAN, QUICK, Village, all_connected, until
from veilsum.consortium.consortium import Address
from veilsum.errors import PeerProtocolError
from veilsum.net import links
from veilsum.net.handshake import PATH, PROTOCOL, ConnectionClose, ConnectionLimits
from veilsum.net.identity import Identity, make_certificate, new_identity
from veilsum.net.runner import MOST_IN_VAIN
from veilsum.net.trust import tls_client_context, tls_server_context
from veilsum.protocol.codec import MalformedMessageError
from veilsum.protocol.effects import Persist, Send
from veilsum.protocol.messages import Confirm, Record, Share
from worlds import Setting

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

# b is under attack; a is its honest neighbour, c a member it shares no link with.
NAMES, EDGES = ("a", "b", "c"), [["a", "b"], ["a", "c"]]
BROKEN = (OSError, EOFError, InvalidHandshake, ConnectionClosed)


@pytest.fixture
def village(tmp_path):
    return Village(tmp_path, NAMES, EDGES)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "veilsum.net")
    return caplog


def refusals(log):
    """What was refused, under which name or address, and why."""
    events = {"caller refused", "connection refused", "frame refused"}
    found = [one for one in log.records if one.getMessage() in events]
    return [
        (getattr(one, "party", one.__dict__.get("address")), one.reason)
        for one in found
    ]


def untouched(station):
    return (station.met, station.heard, station.left) == ([], [], [])


@asynccontextmanager
async def attacked(village, log, limits=QUICK, honest=True):
    """Open b for an attack; afterwards nothing has changed and a is welcome."""
    async with village.stations("b", limits=limits) as (b,):
        yield b
        assert untouched(b)
        if honest:
            async with village.stations("a", limits=limits) as (a,):
                await all_connected([a, b])


def own_context(village, name="a", **trusted):
    """What a member dials with."""
    certificates = trusted or village.consortium().certificates
    return tls_client_context(village.identities[name], certificates)


def bare_context(village):
    """TLS as anybody can have it, with no certificate to show."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def call(village, context, path=PATH, to="b"):
    uri = f"wss://{village.addresses[to]}{path}"
    return connect(uri, ssl=context, proxy=None, compression=None, close_timeout=1)


async def outcome(village, context, *frames, path=PATH):
    """Call b, send frames, and return how b ended it: a close code, or no WebSocket."""
    try:
        async with call(village, context, path) as socket:
            await socket.recv()
            for frame in frames:
                await socket.send(frame)
            while True:
                await socket.recv()
    except ConnectionClosed as error:
        return None if error.rcvd is None else error.rcvd.code
    except BROKEN:
        return None


def hello(village, name="a", **fields):
    agreed = village.consortium()
    content = {
        "protocol": PROTOCOL,
        "name": name,
        "to": "b",
        "run": agreed.run,
        "plan": PLAN.hex(),
        "consortium": agreed.digest.hex(),
        "sections": agreed.section_digests,
        "time": datetime.now(UTC).timestamp(),
        "version": "1",
    }
    return json.dumps({"hello": {**content, **fields}})


@asynccontextmanager
async def welcomed(village, caller="a", text=None, limits=QUICK):
    """Open b, and call it with a hello."""
    async with (
        village.stations("b", limits=limits) as (b,),
        call(village, own_context(village, caller)) as socket,
    ):
        await socket.recv()
        await socket.send(text or hello(village))
        yield b, socket


# A member that says what everybody knows, again and again


@pytest.mark.parametrize("kind", ["known", "asked", "untimely"])
def test_a_member_that_floods_is_cut_off_and_the_run_goes_on(kind, tmp_path, log):
    """Nothing in it is wrong, so that nobody is blamed: there is only too much."""
    company = Company(tmp_path, ONE_SHOT)

    async def flood(company):
        def met():
            runner = getattr(company.drivers.get("d"), "runner", None)
            return runner and "a" in runner.machine._peers.echoed

        await company.until(met, "it meets them")
        runner = company.drivers["d"].runner
        machine = runner.machine
        frame = {
            "known": machine._book.frame(machine._book.joins["d"].id),
            "asked": machine.plan.codec.encode(machine._status("a", reply=True)),
            "untimely": machine.plan.codec.encode(Confirm(77, bytes(32))),
        }[kind]
        for _ in range(100):
            for _ in range(300):
                runner._net.send("a", frame)
            await asyncio.sleep(0)
            if floods(log):
                break
        return await company.start("c")

    def floods(log):
        return [why for who, why in refusals(log) if who == "d" and "floods" in why]

    found = company.run("a", "b", "d", meanwhile=flood)
    assert len(answers(found)) == 4
    assert floods(log)


def test_no_honest_run_is_taken_for_a_flood(tmp_path, log):
    """The twin: eight parties, and records that come by several links."""
    targets = [[float(k), 1.0] for k in range(8)]
    table = changed(ONE_SHOT, graph={"family": "complete:8"}, parties=None)
    cost = {**table["cost"], "targets": targets}
    company = Company(tmp_path, {**table, "cost": cost})
    assert len(answers(company.run())) == 8
    runners = [driver.runner for driver in company.drivers.values()]
    levels = [level for one in runners for level, _ in one._floodings.values()]
    assert max(levels, default=0.0) < MOST_IN_VAIN / 4
    assert refusals(log) == []


# At the TLS handshake: nobody knows who it is


def expired(village, name):
    """Put a member into the consortium whose certificate was good last year."""
    old = village.identities[name]
    key = load_pem_private_key(old.key_file.read_bytes(), None)
    now = datetime.now(UTC)
    start, end = now - timedelta(days=400), now - timedelta(days=35)
    made = make_certificate(key, name, start=start, end=end)
    old.certificate_file.write_text(made)
    village.identities[name] = Identity(name, made, old.key_file, old.certificate_file)


def attack(village, log, context, honest=True):
    async def main():
        async with attacked(village, log, honest=honest):
            assert await outcome(village, context, hello(village)) is None
            await until(lambda: refusals(log))

    patiently(main())
    [(who, why)] = refusals(log)[:1]
    assert who.startswith(f"{HOST}:")
    return why


def test_a_caller_without_a_certificate_is_refused(village, log):
    assert attack(village, log, bare_context(village)) == "it showed no certificate"


def test_a_caller_with_an_unlisted_certificate_is_refused(village, log, tmp_path):
    stranger = new_identity("a", tmp_path / "elsewhere")
    context = tls_client_context(stranger, village.consortium().certificates)
    assert attack(village, log, context) == "its certificate is not a member's"


def test_a_caller_with_an_expired_certificate_is_refused(village, log):
    expired(village, "a")
    why = attack(village, log, own_context(village), honest=False)
    assert why == "its certificate has expired"


def test_a_party_that_calls_itself_is_known_and_gets_nowhere(village, log):
    """Its doctor calls like that; whoever else has its key is no neighbour either."""
    others = {"c": village.identities["b"].certificate}

    async def main():
        async with attacked(village, log):
            context = own_context(village, "b", **others)
            assert (
                await outcome(village, context, hello(village))
                == ConnectionClose.STRANGER
            )

    patiently(main())
    assert refusals(log) == [("b", "'b' is no neighbour")]


def test_a_caller_with_tls_1_2_is_refused(village, log):
    context = own_context(village)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert attack(village, log, context) == "it does not speak TLS 1.3"


def lenient(change):
    """A server's context that lacks one protection."""

    def make(identity, certificates):
        context = tls_server_context(identity, certificates)
        change(context)
        return context

    return make


async def upgraded(village, context):
    """Say whether b lets a caller through TLS, and speaks WebSocket with it."""
    try:
        async with call(village, context):
            return True
    except BROKEN:
        return False


def test_without_the_demand_for_certificates_it_would_get_through(
    village, monkeypatch, log
):
    """The twin; behind TLS it is still nobody's certificate, and gets no hello."""

    def change(context):
        context.verify_mode = ssl.CERT_NONE

    monkeypatch.setattr(links, "tls_server_context", lenient(change))

    async def main():
        async with village.stations("b") as (b,):
            assert await upgraded(village, bare_context(village))
            found = await outcome(village, bare_context(village), hello(village))
            assert found == ConnectionClose.STRANGER
            assert untouched(b)

    patiently(main())


def test_with_tls_1_2_allowed_it_would_get_through(village, monkeypatch):
    def change(context):
        context.minimum_version = ssl.TLSVersion.TLSv1_2

    monkeypatch.setattr(links, "tls_server_context", lenient(change))
    context = own_context(village)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2

    async def main():
        async with village.stations("b"):
            assert await upgraded(village, context)

    patiently(main())


def test_with_more_anchors_a_stranger_would_get_through(
    village, monkeypatch, tmp_path, log
):
    """The twin of the unlisted certificate; whose it is still counts."""
    stranger = new_identity("mallory", tmp_path / "elsewhere")

    def change(context):
        context.load_verify_locations(cadata=stranger.certificate)

    monkeypatch.setattr(links, "tls_server_context", lenient(change))
    context = tls_client_context(stranger, village.consortium().certificates)

    async def main():
        async with village.stations("b") as (b,):
            assert await upgraded(village, context)
            async with call(village, context) as socket:
                with pytest.raises(ConnectionClosed) as caught:
                    await socket.recv()
            assert caught.value.rcvd.code == ConnectionClose.STRANGER
            assert untouched(b)

    patiently(main())


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
        b"\x00" * 100,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 600,
        b"",
    ],
    ids=["http", "zeros", "ssh", "broken hello", "nothing"],
)
def test_noise_is_refused(village, log, noise):
    async def main():
        async with attacked(village, log):
            port = village.addresses["b"].port
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(noise)
            writer.write_eof()
            with suppress(OSError):
                await reader.read()
            writer.close()
            await until(lambda: refusals(log))

    patiently(main())
    assert refusals(log)[0][0].startswith(f"{HOST}:")


def test_those_who_never_speak_are_few_and_not_for_long(village, log):
    few = ConnectionLimits(**{**vars(QUICK), "strangers": 3, "open_timeout": 0.5})

    async def main():
        async with attacked(village, log, limits=few) as b:
            port = village.addresses["b"].port
            held = [await asyncio.open_connection(HOST, port) for _ in range(10)]
            await until(lambda: len(refusals(log)) >= 5)
            assert b.network._door.n_callers <= 3
            for reader, writer in held:
                with suppress(OSError):
                    assert await reader.read() == b""
                writer.close()
            assert b.network._door.n_callers == 0

    patiently(main())
    reasons = {why for _, why in refusals(log)}
    assert "too many callers at a time" in reasons


def test_silent_strangers_keep_no_member_out(village, log):
    few = ConnectionLimits(**{**vars(QUICK), "strangers": 3, "open_timeout": 600.0})

    async def main():
        async with village.stations("b", limits=few) as (b,):
            port = village.addresses["b"].port
            held = [await asyncio.open_connection(HOST, port) for _ in range(10)]
            await until(lambda: b.network._door.n_callers == 3)
            async with village.stations("a", limits=few) as (a,):
                await all_connected([a, b])
            for _, writer in held:
                writer.close()

    patiently(main())


def test_a_busy_address_makes_room_at_its_own_expense(village, log):
    few = ConnectionLimits(**{**vars(QUICK), "strangers": 3, "open_timeout": 600.0})

    async def main():
        async with village.stations("b", limits=few) as (b,):
            place = (HOST, village.addresses["b"].port)
            elsewhere = ("127.0.0.2", 0)
            try:
                early = await asyncio.open_connection(*place, local_addr=elsewhere)
            except OSError:
                pytest.skip("this system has one loopback address")
            await until(lambda: b.network._door.n_callers == 1)
            busy = [await asyncio.open_connection(*place) for _ in range(10)]
            for reader, _ in busy[:8]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
            assert not early[0].at_eof()
            assert not [reader for reader, _ in busy[8:] if reader.at_eof()]
            for _, writer in (early, *busy):
                writer.close()

    patiently(main())


def test_a_flood_does_not_fill_the_log(village, log):
    async def main():
        async with attacked(village, log) as b:
            context = bare_context(village)
            for _ in range(30):
                await outcome(village, context)
            await until(lambda: b.network._refusals.count >= 30)

    patiently(main())
    assert len(refusals(log)) == QUICK.refusals


def has_expired(village):
    expired(village, "b")
    return village.identities["b"]


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        (has_expired, "its certificate has expired at {where}"),
        # c listens where b should: its certificate is listed, and is not b's.
        (lambda village: village.identities["c"], "it has the certificate of 'c'"),
    ],
    ids=["expired", "another member"],
)
def test_a_listener_with_a_wrong_certificate_is_not_spoken_to(
    listener, words, village, log
):
    identity, got = listener(village), []

    async def handler(socket):
        with suppress(ConnectionClosed):
            got.append(await socket.recv())

    async def main():
        context = tls_server_context(identity, village.consortium().certificates)
        where = village.addresses["b"]
        async with (
            serve(handler, where.host, where.port, ssl=context),
            village.stations("a") as (a,),
        ):
            said = f"refused: {words.format(where=where)}"
            await until(lambda: a.condition("b") == said)
            assert untouched(a)

    patiently(main())
    assert got == []


def test_a_redirection_is_not_followed(village):
    """b sends a on to another place, where nobody would know who calls."""
    calls = []

    def answer(connection, request):
        calls.append(request.path)
        response = connection.respond(302, "")
        response.headers["Location"] = f"wss://{village.addresses['b']}/elsewhere"
        return response

    async def main():
        context = tls_server_context(
            village.identities["b"], village.consortium().certificates
        )
        where = village.addresses["b"]
        async with (
            serve(None, where.host, where.port, ssl=context, process_request=answer),
            village.stations("a") as (a,),
        ):
            await until(lambda: "no party" in a.condition("b"))

    patiently(main())
    assert set(calls) == {PATH}


# Behind TLS: the certificate is a member's


def accused(village, log, code, *frames, caller="a", limits=QUICK, path=PATH):
    """Let a member misbehave; return what is said about it."""

    async def main():
        async with attacked(village, log, limits):
            found = await outcome(
                village, own_context(village, caller), *frames, path=path
            )
            assert found == code

    patiently(main())
    said = refusals(log)
    return said[0] if said else None


def test_another_members_name_is_refused(village, log):
    who, why = accused(
        village, log, ConnectionClose.CERTIFICATE, hello(village, name="c")
    )
    assert who == "a"
    assert "'c'" in why


def test_a_member_that_is_no_neighbour_gets_no_hello(village, log):
    async def main():
        async with (
            attacked(village, log),
            call(village, own_context(village, "c")) as socket,
        ):
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd.code == ConnectionClose.STRANGER

    patiently(main())
    assert refusals(log)[0] == ("c", "'c' is no neighbour")


def test_a_replay_of_anothers_hello_is_refused(tmp_path, log):
    """d is a neighbour, too, and says word for word what a has said to b."""
    village = Village(tmp_path, tuple("abd"), [["a", "b"], ["b", "d"]])
    recorded = hello(village, name="a")
    who, why = accused(village, log, ConnectionClose.CERTIFICATE, recorded, caller="d")
    assert who == "d"
    assert "the certificate of 'd'" in why


def test_without_the_look_at_the_certificate_a_replay_is_believed(
    tmp_path, monkeypatch
):
    """The twin: whoever says a name has it."""
    village = Village(tmp_path, tuple("abd"), [["a", "b"], ["b", "d"]])
    monkeypatch.setattr(links, "certificate_owner", lambda der, certificates: "a")

    async def main():
        async with welcomed(village, "d", hello(village, name="a")) as (b, _):
            await until(lambda: b.met == ["a"])

    patiently(main())


def test_a_hello_for_somebody_else_is_refused(village, log):
    who, why = accused(village, log, ConnectionClose.STRANGER, hello(village, to="c"))
    assert who == "a"
    assert "'c'" in why


def test_another_version_of_the_protocol_is_refused(village, log):
    other = hello(village, protocol=PROTOCOL + 1)
    who, why = accused(village, log, ConnectionClose.PROTOCOL, other)
    assert who == "a"
    assert f"version {PROTOCOL + 1}" in why


@pytest.mark.parametrize(
    "first", ["nonsense", '{"bye":true}', b"VS\x03", "[" * 5000, "{}"], ids=range(5)
)
def test_a_first_frame_that_is_no_hello_is_refused(village, log, first):
    assert accused(village, log, ConnectionClose.MALFORMED, first)[0] == "a"


def test_a_hello_that_never_comes_is_not_waited_for(village, log):
    hasty = ConnectionLimits(**{**vars(QUICK), "hello_timeout": 0.3})
    who, why = accused(village, log, ConnectionClose.LATE, limits=hasty)
    assert who == "a"
    assert "no hello in time" in why


def test_another_path_is_not_here(village, log):
    assert accused(village, log, None, hello(village), path="/admin") is None


# After a good hello


def misbehaved(village, log, code, *frames, limits=QUICK):
    """Let a neighbour be welcomed and then misbehave; nothing reaches the protocol."""

    async def main():
        async with village.stations("b", limits=limits) as (b,):
            found = await outcome(
                village, own_context(village), hello(village), *frames
            )
            assert found == code
            assert b.met == ["a"]
            assert b.heard == b.left == []
            async with village.stations("a", limits=limits) as (a,):
                await all_connected([a, b])
                a.send("b", b"an honest frame")
                await until(lambda: b.heard == [("a", b"an honest frame")])

    patiently(main())


def test_a_frame_beyond_the_limit_is_refused(village, log):
    small = ConnectionLimits(**{**vars(QUICK), "max_frame": 4096})
    misbehaved(village, log, 1009, bytes(4097), limits=small)


def test_a_frame_within_the_limit_is_taken(village):
    """The twin."""
    small = ConnectionLimits(**{**vars(QUICK), "max_frame": 4096})

    async def main():
        async with welcomed(village, limits=small) as (b, socket):
            await socket.send(bytes(4096))
            await until(lambda: b.heard == [("a", bytes(4096))])

    patiently(main())


@pytest.mark.parametrize(
    "text",
    ["nonsense", '{"bye":false}', '{"hello":{}}', "", "{" * 70_000],
    ids=range(5),
)
def test_a_text_that_is_no_control_message_is_refused(village, log, text):
    misbehaved(village, log, ConnectionClose.FRAME, text)
    assert refusals(log)[0] == ("a", "'a': a text that is no control message")


def test_text_that_is_no_unicode_is_refused(village, log):
    async def main():
        async with welcomed(village) as (b, socket):
            await socket.send(b"\xff\xfe\xfd", text=True)
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd.code == 1007
            await until(lambda: not b.is_connected("a"))
            assert b.heard == b.left == []

    patiently(main())


def test_many_byes_are_one(village):
    async def main():
        async with welcomed(village) as (b, socket):
            for _ in range(50):
                await socket.send('{"bye": true}')
            await socket.send(b"last")
            await until(lambda: b.heard)
            assert b.left == ["a"]

    patiently(main())


# Mutated frames, into a real machine

SETTING = Setting("complete:4")
ME, ATTACKER = "1", "0"


class Defender:
    """A machine in the middle of a run, behind a network's `hear`."""

    def __init__(self):
        self.world = stopped_at(SETTING, ME, "committing")
        self.machine = self.world.nodes[ME].machine
        self.codec = self.world.plan.codec
        self.before = picture(self.machine)
        self.effects, self.refused, self.taken = [], 0, 0

    def hear(self, sender, frame):
        self.taken += 1
        try:
            self.effects += self.machine.receive(sender, frame)
        except PeerProtocolError:
            self.refused += 1

    def pool(self):
        """Frames of a whole run that the attacker cannot make good ones of.

        A well-formed question deserves an answer, and what a neighbour says of itself
        on its own link is believed: neither is an attack.
        """
        done = SETTING.world().run()
        frames = {e.detail for e in done.history if e.what == "send"}
        return sorted(frame for frame in frames if self.is_harmless(frame))

    def is_harmless(self, frame):
        try:
            message = self.codec.decode(frame)
        except MalformedMessageError:
            return True
        others = isinstance(message, Record) and message.party != ATTACKER
        return others or isinstance(message, Share)

    def mutated(self, frame, chance):
        """Damage a frame in one of four ways, so that it is another one."""
        while True:
            content, place = bytearray(frame), chance.randrange(len(frame))
            way = chance.randrange(4)
            if way == 0:
                content[place] ^= 1 << chance.randrange(8)
            elif way == 1:
                del content[place:]
            elif way == 2:
                content[place:place] = chance.randbytes(chance.randrange(1, 9))
            else:
                del content[place : place + chance.randrange(1, 9)]
            if bytes(content) != frame and self.is_harmless(bytes(content)):
                return bytes(content)


def bombard(folder, count, seed):
    """Send a machine so many mutated frames over a connection with a good hello."""
    # All are linked with the attacker, and the defender with nobody else.
    edges = [[ATTACKER, name] for name in SETTING.parties if name != ATTACKER]
    village = Village(folder, SETTING.parties, edges)
    chance, defender = Random(seed), Defender()
    pool = defender.pool()

    async def main():
        b = village.station(ME, hear=defender.hear)
        where = Address(HOST, village.addresses[ME].port)
        await b.network.open()
        try:
            context = own_context(village, ATTACKER)
            async with connect(f"wss://{where}{PATH}", ssl=context, proxy=None) as link:
                await link.recv()
                await link.send(hello(village, name=ATTACKER, to=ME))
                for _ in range(count):
                    await link.send(defender.mutated(chance.choice(pool), chance))
                await until(lambda: defender.taken == count, patience=300)
            assert b.met == [ATTACKER]
            assert b.network.unsent == {}
        finally:
            await b.network.close()

    patiently(main())
    assert defender.effects == []
    assert defender.refused > 0.9 * count
    assert picture(defender.machine) == defender.before


def test_mutated_frames_change_nothing(tmp_path):
    bombard(tmp_path, 2_000, 0)


@pytest.mark.slow
def test_very_many_mutated_frames_change_nothing(tmp_path):
    bombard(tmp_path, 100_000, 1)


def test_the_same_frames_unharmed_change_something():
    """The twin: what was damaged there is what moves a machine here."""
    defender = Defender()
    done = SETTING.world().run()
    told = [
        (event.peer, event.detail)
        for event in done.history
        if event.what == "receive" and event.party == ME
    ]
    for sender, frame in told:
        defender.hear(sender, frame)
    assert any(isinstance(effect, Send) for effect in defender.effects)
    assert any(isinstance(effect, Persist) for effect in defender.effects)
    assert picture(defender.machine) != defender.before
