"""The doctor on real sockets: each problem planted by itself, and named.

`a` comes before `b` in the village, so that `a` is the one to call.
"""

import asyncio
import errno
import json
import logging
import socket
import ssl
import time
from contextlib import asynccontextmanager, closing
from importlib.util import find_spec

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from idle_clock import patiently
from net.test_handshake import HEARD, LIMITS, OWN
from net.test_hostile import BROKEN, bare_context, call, expired, hello, own_context
from net.village import HOST, PLAN, QUICK, Village, all_connected, free_port, until
from veilsum.consortium.consortium import Address
from veilsum.net.doctor import (
    IN_ORDER,
    ConnectionLook,
    ConnectionStage,
    NeighbourWay,
    NetworkCheck,
    NetworkCheckup,
    NetworkHealth,
    check_network_health,
    network_checks_of_neighbour,
)
from veilsum.net.handshake import (
    ConnectionClose,
    ConnectionLimits,
    HandshakeRefusal,
    encode_hello,
    read_hello,
    refusal_of_hello,
)
from veilsum.net.identity import certificate_fingerprint, new_identity, read_identity
from veilsum.net.sockets import proxy_for_address, socket_connection_failure
from veilsum.net.trust import tls_client_context, tls_server_context

HURRIED = ConnectionLimits(open_timeout=0.3, hello_timeout=0.3, close_timeout=0.2)
HOUR = 3600.0


@pytest.fixture
def village(tmp_path):
    return Village(tmp_path)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "veilsum.net")
    return caplog


@pytest.fixture
def no_proxy(monkeypatch):
    for name in ("all", "https", "http", "wss", "socks", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)


def looks(village, name, *, identity=None, consortium=None, **options):
    options = {"limits": QUICK, "wait": 0.0, **options}
    key_file = (identity or village.identities[name]).key_file
    return check_network_health(key_file, consortium or village.consortium(), **options)


def alone(village, name="a", **options):
    """What a party's doctor finds when nobody else is there."""
    return patiently(looks(village, name, **options))


def beside(village, station="b", name="a", *, doctor=None, **options):
    """What a party's doctor finds while another party runs."""

    async def main():
        async with village.stations(station, **options) as (other,):
            found = await looks(village, name, **(doctor or {}))
            assert (other.met, other.heard, other.left) == ([], [], [])
            return found

    return patiently(main())


def states(found, about=None):
    wanted = [one for one in found.checks if about in {None, one.about}]
    return {one.check: str(one.state) for one in wanted}


def only_problem(found):
    """Return the one check that is bad: whoever plants one finds one."""
    [check] = [one for one in found.checks if one.state is NetworkHealth.BAD]
    assert not found.good
    assert found.summary.startswith("1 problem")
    return check


# Nothing wrong


STEPS = ("direction", "TCP", "certificate", "hello", "agreement", "clock")
HEALTHY = dict.fromkeys(STEPS, "good")


def test_a_party_whose_neighbour_runs_is_in_order(village, log):
    found = beside(village)
    assert states(found, "a") == {"key": "good", "certificate": "good", "port": "good"}
    assert states(found, "b") == HEALTHY
    assert found.good
    assert found.summary == IN_ORDER
    said = {(one.about, one.check): one.detail for one in found.checks}
    assert said["b", "direction"] == f"this party dials it at {village.addresses['b']}"
    assert "36" in said["b", "certificate"]
    assert "days left" in said["a", "certificate"]
    assert str(village.addresses["a"].port) in said["a", "port"]
    assert "mode 0600" in said["a", "key"]
    assert "protocol 5" in said["b", "hello"]
    events = [one.getMessage() for one in log.records]
    assert events == ["listening", "looked at"]


def test_two_doctors_find_each_other(village):
    async def main():
        return await asyncio.gather(*(looks(village, n, wait=1.5) for n in "ab"))

    one, other = patiently(main())
    assert states(one, "b") == states(other, "a") == HEALTHY
    [tcp] = [one for one in other.checks if (one.about, one.check) == ("a", "TCP")]
    assert tcp.detail.startswith(f"it called this party from {HOST}:")


def test_somebody_who_comes_a_little_later_is_found(village):
    async def main():
        doctor = asyncio.create_task(looks(village, "a", wait=1.5))
        await asyncio.sleep(0.2)
        async with village.stations("b"):
            return await doctor

    assert patiently(main()).good


def test_a_party_that_only_dials_needs_no_port_and_does_not_wait(tmp_path):
    village = Village(tmp_path, silent=("a",))
    # An hour would be noticed.
    found = beside(village, doctor={"wait": HOUR})
    assert found.good
    [port] = [one for one in found.checks if one.check == "port"]
    assert "only dials" in port.detail


# A run is not disturbed


def test_a_look_beside_the_own_run_warns_nobody(village, log):
    """Who asks whether it listens itself is no stranger; a stranger still is one."""

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            found = await looks(village, "b", wait=HOUR)
            # Whoever comes later is heard of later.
            with pytest.raises(BROKEN):
                async with call(village, bare_context(village)) as wire:
                    await wire.recv()
            await until(lambda: warnings(log))
            return found

    def warnings(log):
        return [one for one in log.records if one.levelno >= logging.WARNING]

    assert patiently(main()).good
    [stranger] = warnings(log)
    assert stranger.getMessage() == "caller refused"
    assert stranger.reason == "it showed no certificate"


def test_a_second_doctor_is_no_stranger_to_the_first(tmp_path):
    village = Village(tmp_path, silent=("a",))

    async def main():
        first = asyncio.create_task(looks(village, "b", wait=0.7))
        await until(lambda: is_listening(village.addresses["b"]))
        second = await looks(village, "b")
        return await first, second

    for found in patiently(main()):
        assert found.good, found


def test_a_look_beside_a_run_changes_nothing(village):
    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            links = [
                one.network._peers[other].link for one, other in ((a, "b"), (b, "a"))
            ]
            found = [await looks(village, name, wait=HOUR) for name in "ab"]
            a.send("b", b"still here")
            await until(lambda: b.heard)
            assert [a.network._peers["b"].link, b.network._peers["a"].link] == links
            assert (a.met, b.met) == (["b"], ["a"])
            return found

    for found in patiently(main()):
        assert found.good, found
        [port] = [one for one in found.checks if one.check == "port"]
        assert "own veilsum listens" in port.detail


def test_with_a_plan_the_same_call_takes_the_connection_over(village):
    """The twin: what a second process of the same party does to a run."""

    async def main():
        async with village.stations() as (a, b):
            await all_connected([a, b])
            listen = Address(HOST, free_port())
            async with village.stations("a", listen=listen):
                await until(lambda: b.met == ["a", "a"])

    patiently(main())


def test_a_run_that_calls_a_doctor_goes_on_calling(village):
    async def main():
        async with village.stations("a") as (a,):
            found = await looks(village, "b", wait=1.5)
            assert a.met == []
            assert "doctor" in a.condition("b")
            async with village.stations("b") as (b,):
                await all_connected([a, b])
            return found

    assert states(patiently(main()), "a") == HEALTHY


def test_after_a_look_nothing_is_heard(village):
    async def main():
        async with village.stations("b") as (b,):
            async with call(village, own_context(village)) as wire:
                await wire.recv()
                await wire.send(hello(village, plan=""))
                await wire.send(b"a frame")
                await wire.wait_closed()
                assert wire.close_code == ConnectionClose.DONE
            assert (b.met, b.heard) == ([], [])
            async with call(village, own_context(village)) as wire:
                await wire.recv()
                await wire.send(hello(village))
                await wire.send(b"a frame")
                await until(lambda: b.heard == [("a", b"a frame")])

    patiently(main())


plans = st.sampled_from(["", "11" * 32, "33" * 32])


@given(plans, plans)
def test_only_two_equal_plans_make_a_link(heard, own):
    found = refusal_of_hello(
        replace(HEARD, plan=heard), replace(OWN, plan=own), "a", LIMITS
    )
    assert (found is None) == (heard == own != "")
    if not (heard and own):
        assert found.code == ConnectionClose.DONE


def test_a_look_is_checked_like_any_other_hello():
    look = replace(HEARD, plan="")
    assert read_hello(encode_hello(look)) == look
    for change, owner, code in [
        ({}, "c", ConnectionClose.CERTIFICATE),
        ({"to": "c"}, "a", ConnectionClose.STRANGER),
        ({"consortium": "33" * 32}, "a", ConnectionClose.AGREEMENT),
        ({"time": OWN.time + 2 * HOUR}, "a", ConnectionClose.CLOCK),
        ({}, "a", ConnectionClose.DONE),
    ]:
        assert (
            refusal_of_hello(replace(look, **change), OWN, owner, LIMITS).code == code
        )


# This party's own faults


def test_a_key_that_others_may_read_is_named(village):
    village.identities["a"].key_file.chmod(0o644)
    check = only_problem(alone(village))
    assert check.check == "key"
    assert "mode 0644" in check.detail
    assert "chmod 600" in check.detail


def test_an_unlisted_identity_is_named_and_calls_nobody(village, tmp_path):
    zed = new_identity("zed", tmp_path)
    check = only_problem(beside(village, doctor={"identity": zed}))
    assert (check.about, check.check) == ("zed", "certificate")
    assert "'zed' is no member" in check.detail


def test_another_certificate_of_this_party_is_named(village, tmp_path):
    other = new_identity("a", tmp_path / "elsewhere")
    found = beside(village, doctor={"identity": other})
    check = only_problem(found)
    assert certificate_fingerprint(other.certificate) in check.detail
    assert states(found, "b") == {}


def test_an_own_expired_certificate_is_named(village):
    expired(village, "a")
    check = only_problem(beside(village))
    assert (check.about, check.check) == ("a", "certificate")
    assert "has expired on" in check.detail


def test_a_port_in_use_is_named(village):
    place = village.addresses["a"]
    with closing(socket.create_server((place.host, place.port))):
        check = only_problem(beside(village, doctor={"limits": HURRIED}))
    assert (check.about, check.check) == ("a", "port")
    assert f"cannot listen at {place}: another program listens there" in check.detail


def test_a_port_in_use_by_another_member_is_in_use(village, tmp_path):
    """Only this party's own key makes it this party's own program."""
    village = Village(tmp_path / "more", tuple("abc"))
    found = beside(village, "c", listen=village.addresses["a"])
    [port] = [one for one in found.checks if one.check == "port"]
    assert port.state is NetworkHealth.BAD


def test_listening_elsewhere_is_possible(village):
    place = village.addresses["a"]
    with closing(socket.create_server((place.host, place.port))):
        listen = Address("0.0.0.0", free_port())
        assert beside(village, doctor={"listen": listen}).good


def test_the_own_program_is_known_behind_a_general_address(village):
    listen = Address("0.0.0.0", free_port())

    async def main():
        async with village.stations("a", listen=listen), village.stations("b"):
            return await looks(village, "a", listen=listen)

    assert patiently(main()).good


# The way to a neighbour


def test_nobody_listening_is_named_with_port_and_direction(village):
    check = only_problem(alone(village))
    there = village.addresses["b"]
    assert (check.about, check.check) == ("b", "TCP")
    assert check.detail == f"connection refused at {there}"
    assert "ask b to run veilsum join" in check.advice
    assert f"outbound TCP {there.port} to {HOST}" in check.advice


def test_a_host_that_nobody_knows_is_named(village, no_proxy):
    del no_proxy
    village.addresses["b"] = Address("nowhere.invalid", 8443)
    check = only_problem(alone(village))
    assert (check.about, check.check) == ("b", "name")
    assert check.detail == "no such host: nowhere.invalid:8443"
    assert "DNS" in check.advice


@asynccontextmanager
async def answering(village, answer, context=None, place=None):
    """Somebody else at b's address."""
    place = place or village.addresses["b"]
    server = await asyncio.start_server(answer, place.host, place.port, ssl=context)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


def found_with(village, answer, context=None, place=None, **options):
    async def main():
        async with answering(village, answer, context, place):
            return await looks(village, "a", **options)

    return patiently(main())


async def silence(reader, writer):
    await reader.read()
    writer.close()


async def web_server(reader, writer):
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


def test_another_service_at_the_port_is_named(village):
    check = only_problem(found_with(village, web_server))
    assert check.check == "TLS"
    assert f"does not speak TLS at {village.addresses['b']}" in check.detail
    assert "what listens there" in check.advice


def test_a_port_that_swallows_tls_is_named(village):
    check = only_problem(found_with(village, silence, limits=HURRIED))
    assert check.check == "TLS"
    assert "no answer in time" in check.detail
    assert "through untouched" in check.advice


def test_a_wrong_certificate_is_named_with_the_right_fingerprint(village, tmp_path):
    impostor = new_identity("b", tmp_path / "elsewhere")
    context = tls_server_context(impostor, village.consortium().certificates)
    check = only_problem(found_with(village, silence, context))
    assert check.check == "TLS"
    assert "its certificate is not a member's" in check.detail
    assert certificate_fingerprint(village.identities["b"].certificate) in check.advice


def test_a_neighbour_with_another_certificate_of_this_party_is_named(village, tmp_path):
    mine = village.consortium()
    village.identities["a"] = new_identity("a", tmp_path / "elsewhere")
    theirs = village.consortium()
    doctor = {"consortium": mine, "identity": read_identity(tmp_path / "a.key")}
    found = beside(village, consortium=theirs, doctor=doctor)
    check = only_problem(found)
    assert (check.about, check.check) == ("b", "TLS")
    # What the other end says last is often lost with the connection.
    said = ("it does not know this party's certificate", "it hung up before")
    assert check.detail.startswith(said)
    assert "b may have another certificate of this party" in check.advice


async def hang_up(reader, writer):
    writer.transport.abort()


def test_somebody_who_hangs_up_is_asked_for_the_log(village):
    check = only_problem(found_with(village, hang_up))
    assert check.check == "TLS"
    assert "hung up" in check.detail
    assert "ask b what its log says" in check.advice


def test_another_member_at_the_address_is_named(tmp_path):
    village = Village(tmp_path, tuple("abc"), [["a", "b"], ["b", "c"]])
    check = only_problem(beside(village, "c", listen=village.addresses["b"]))
    assert (check.about, check.check) == ("b", "certificate")
    assert check.detail == "it has the certificate of 'c'"
    assert "another member answers there" in check.advice


def test_an_expired_certificate_of_a_neighbour_is_named(village):
    expired(village, "b")
    check = only_problem(alone(village))
    assert (check.about, check.check) == ("b", "certificate")
    assert "it has expired on" in check.detail
    assert "new consortium file" in check.advice


def test_an_edited_file_is_named_at_both_ends(village):
    theirs = village.consortium(policy={"deadline": 5.0})

    async def main():
        async with village.stations("b", consortium=theirs) as (b,):
            found = await looks(village, "a")
            assert b.network.differences() == {"a": ("policy",)}
            return found

    found = patiently(main())
    check = only_problem(found)
    assert (check.about, check.check) == ("b", "agreement")
    assert check.detail.endswith("differs from this party's in: policy")
    assert "telephone" in check.advice
    assert states(found, "b")["clock"] == "good"


@pytest.mark.parametrize(
    ("gap", "good"),
    [(3 * HOUR, False), (-3 * HOUR, False), (600.0, False), (200.0, True)],
)
def test_clocks_apart_are_named_with_seconds(village, gap, good):
    found = beside(village, clock=lambda: time.time() + gap)
    [clock] = [one for one in found.checks if one.check == "clock"]
    assert (clock.state is NetworkHealth.GOOD) is good
    if not good:
        assert only_problem(found) == clock
        assert (
            f"{abs(gap):,.0f} s {'ahead of' if gap > 0 else 'behind'}" in clock.detail
        )
        assert "NTP" in clock.advice


def test_the_doctor_compares_with_this_partys_own_clock(village):
    found = beside(village, doctor={"clock": lambda: time.time() - 2 * HOUR})
    assert "7,200 s ahead of" in only_problem(found).detail


async def rude(reader, writer):
    """A WebSocket of a party from another time."""
    request = await reader.readuntil(b"\r\n\r\n")
    key = request.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0].decode()
    from websockets.utils import accept_key

    text = json.dumps({"hello": {"protocol": 9}}).encode()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept_key(key).encode()
        + b"\r\n\r\n\x81"
        + bytes([len(text)])
        + text
    )
    await reader.read()
    writer.close()


async def no_websocket(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize(
    ("answer", "detail", "advice"),
    [
        (rude, "version 9 of the protocol", "same version of veilsum"),
        (no_websocket, "no party of a run", "what its log says"),
    ],
    ids=["protocol", "no WebSocket"],
)
def test_a_member_that_says_something_else_is_named(village, answer, detail, advice):
    context = tls_server_context(
        village.identities["b"], village.consortium().certificates
    )
    check = only_problem(found_with(village, answer, context, limits=HURRIED))
    assert check.check == "hello"
    assert detail in check.detail
    assert advice in check.advice


# Through a proxy

WARD = Address("ward.example.org", 8443)


@pytest.fixture
def proxied(village, no_proxy, monkeypatch):
    """Return what a's doctor finds when b is behind a proxy, whose secrets it keeps."""
    del no_proxy
    village.addresses["b"] = WARD

    def found(proxy, answer=None, port=None):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        if answer is None:
            check = only_problem(alone(village))
        else:
            place = Address(HOST, port)
            check = only_problem(
                found_with(village, answer, place=place, limits=HURRIED)
            )
        assert check.about == "b"
        assert str(WARD) in check.detail
        assert "secret" not in repr(check)
        return check

    return found


@pytest.mark.parametrize("host", [HOST, "localhost"])
def test_a_proxy_that_is_not_there_is_named(proxied, host):
    port = free_port()
    check = proxied(f"http://user:secret@{host}:{port}")
    assert check.detail == (
        f"the proxy {host}:{port} cannot be reached on the way to {WARD}: "
        "connection refused"
    )
    assert f"does not reach {host}:{port}" in check.advice
    assert "CONNECT" not in check.advice


def test_of_several_addresses_of_a_host_the_first_is_told_of():
    """What asyncio raises for these has no number of its own."""
    each = f"[Errno {errno.ECONNREFUSED}] Connect call failed"
    error = OSError(f"Multiple exceptions: {each} ('::1', 1), {each} ('127.0.0.1', 1)")
    assert socket_connection_failure(error) == "connection refused"


def test_a_proxy_that_nobody_knows_is_named(proxied):
    check = proxied("http://user:secret@nowhere.invalid:3128")
    assert "the proxy nowhere.invalid:3128 cannot be reached" in check.detail
    assert check.detail.endswith(": no such host")


def answers(status):
    """A proxy that says no to everybody."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} Reason\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    return answer


START = "ask b to run veilsum join, or veilsum doctor --network now"
REACH = f"{START}; if it does, ask IT to let the proxy reach {WARD}"
PASS = f"ask IT to let the proxy pass CONNECT to {WARD}"
UNREACHED, NOT_LET = (
    f"did not reach {WARD}",
    f"did not let this party through to {WARD}",
)


@pytest.mark.parametrize(
    ("status", "words", "advice"),
    [
        *((status, UNREACHED, REACH) for status in (502, 503, 504)),
        *((status, NOT_LET, PASS) for status in (302, 403, 405, 500)),
        (407, f"wants credentials on the way to {WARD}", "ask IT for credentials"),
    ],
)
def test_what_a_proxy_answers_is_said(proxied, status, words, advice):
    port = free_port()
    check = proxied(f"http://user:secret@{HOST}:{port}", answers(status), port)
    assert check.check == "TCP"
    assert check.detail.startswith(f"the proxy {HOST}:{port} {words} (HTTP {status})")
    assert check.advice.startswith(advice)


def test_a_proxys_credentials_go_into_its_address(proxied):
    port = free_port()
    check = proxied(f"http://{HOST}:{port}", answers(407), port)
    assert check.detail.endswith("they go into its address in HTTPS_PROXY")
    assert check.advice.endswith(f"HTTPS_PROXY=http://USER:PASSWORD@{HOST}:{port}")


@pytest.mark.parametrize(
    ("answer", "scheme", "words", "advice"),
    [
        (silence, "http", "gave no answer in time", START),
        (web_server, "https", "TLS with the proxy", "write http:// before"),
        (hang_up, "http", "does not speak as an HTTP proxy", "HTTPS_PROXY is right"),
    ],
    ids=["silent", "no TLS", "no HTTP"],
)
def test_a_proxy_that_is_none_is_named(proxied, answer, scheme, words, advice):
    port = free_port()
    check = proxied(f"{scheme}://user:secret@{HOST}:{port}", answer, port)
    assert check.check == "TCP"
    assert f"the proxy {HOST}:{port}" in check.detail
    assert words in check.detail
    assert advice in check.advice


@pytest.mark.skipif(find_spec("python_socks") is not None, reason="it is there")
def test_a_socks_proxy_needs_a_package(proxied):
    check = proxied("socks5h://user:secret@proxy.example:1080")
    assert "the proxy proxy.example:1080" in check.detail
    assert "python-socks" in check.detail
    for way in ("pip install python-socks", "HTTP proxy", f"{WARD.host} in NO_PROXY"):
        assert way in check.advice


@pytest.mark.parametrize(
    "written",
    [
        "user:secret@proxy.example:3128",
        "proxy.example:3128",
        "http://secret:12#3@proxy.example:3128",
        "http://user:secret/@proxy.example:3128",
        "ftp://user:secret@proxy.example",
    ],
)
def test_what_is_no_address_of_a_proxy_is_not_shown(proxied, written):
    check = proxied(written)
    assert check.detail.startswith("HTTPS_PROXY holds no address of a proxy")
    assert "http://HOST:PORT" in check.advice


async def blind(reader, writer):
    """A proxy that lets through, to somebody who hangs up."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await reader.read(100)
    writer.close()


def test_what_happens_behind_a_proxy_is_not_the_proxys_fault(proxied, caplog):
    port = free_port()
    check = proxied(f"http://user:secret@{HOST}:{port}", blind, port)
    assert check.check == "TLS"
    assert "hung up before" in check.detail
    assert f"at {WARD}, through the proxy of the environment" in check.detail
    assert "ask b what its log says" in check.advice
    assert caplog.records == []


def test_proxies_are_those_of_the_environment(no_proxy, monkeypatch):
    del no_proxy
    assert proxy_for_address(WARD) is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert proxy_for_address(WARD) == "http://proxy.example:3128"
    assert proxy_for_address(Address("127.0.0.1", 8443)) is None
    monkeypatch.setenv("SOCKS_PROXY", "http://proxy.example:1080")
    assert proxy_for_address(WARD) == "socks5h://proxy.example:1080"
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert proxy_for_address(WARD) is None


# Neighbours that call


def test_a_neighbour_that_has_not_called_is_waited_for(tmp_path):
    village = Village(tmp_path, silent=("a",))
    found = alone(village, "b", wait=0.1)
    here = village.addresses["b"]
    [check] = [one for one in found.checks if one.state is NetworkHealth.OPEN]
    assert check.detail.startswith(f"waits for a to dial {here}; it has not within 0.1")
    assert f"let inbound TCP {here.port} through" in check.advice
    assert found.good
    assert found.summary == "nothing is wrong; not seen yet: a"


def test_a_neighbour_that_cannot_be_called_instead_is_no_problem_yet(village):
    found = alone(village, "b")
    [check] = [one for one in found.checks if one.state is NetworkHealth.OPEN]
    there = village.addresses["a"]
    assert check.detail.endswith(f"calling it instead: connection refused at {there}")
    assert found.good


def test_with_the_port_in_use_nobody_can_have_called(tmp_path):
    village = Village(tmp_path, silent=("a",))
    place = village.addresses["b"]
    with closing(socket.create_server((place.host, place.port))):
        found = alone(village, "b", limits=HURRIED)
    assert only_problem(found).check == "port"
    [check] = [one for one in found.checks if one.state is NetworkHealth.OPEN]
    assert "this party cannot listen" in check.detail


def refused_caller(village, stranger, *names):
    """What b's doctor finds when a stranger calls, besides these."""

    async def main():
        doctor = asyncio.create_task(looks(village, "b", wait=0.7))
        await until(lambda: is_listening(village.addresses["b"]))
        for name in names:
            await looks(village, name)
        context = tls_client_context(stranger, village.consortium().certificates)
        # Who cannot get in learns it from the first reading, or from the sending.
        with pytest.raises(BROKEN):
            async with call(village, context):
                pass
        return await doctor

    return patiently(main())


def is_listening(place):
    with closing(socket.socket()) as probe:
        return probe.connect_ex((place.host, place.port)) == 0


def test_a_caller_with_a_wrong_certificate_is_told_of_while_one_is_missing(tmp_path):
    village = Village(tmp_path, silent=("a",))
    stranger = new_identity("a", tmp_path / "elsewhere")
    check = only_problem(refused_caller(village, stranger))
    assert (check.about, check.check) == ("b", "caller")
    assert check.detail.startswith(f"refused {HOST}:")
    assert "its certificate is not a member's" in check.detail
    assert "if it was a" in check.advice


def test_once_everybody_was_seen_strangers_do_not_matter(tmp_path):
    village = Village(tmp_path, silent=("a",))
    stranger = new_identity("a", tmp_path / "elsewhere")
    assert refused_caller(village, stranger, "a").good


def test_a_member_that_is_no_neighbour_is_sent_away(tmp_path):
    village = Village(tmp_path, tuple("abc"), [["a", "b"], ["a", "c"]])

    async def main():
        doctor = asyncio.create_task(looks(village, "b", wait=0.5))
        await until(lambda: is_listening(village.addresses["b"]))
        async with call(village, own_context(village, "c")) as wire:
            await wire.wait_closed()
            assert wire.close_code == ConnectionClose.STRANGER
        return await doctor

    assert "c" not in {one.about for one in patiently(main()).checks}


def test_being_called_the_other_way_round_is_enough(village):
    """b is not where the file says; its own call arrives."""
    elsewhere = Address(HOST, free_port())

    async def main():
        soon = ConnectionLimits(**{**vars(QUICK), "fallback": 0.1})
        async with village.stations("b", listen=elsewhere, limits=soon):
            return await looks(village, "a", wait=1.5)

    found = patiently(main())
    [way] = [one for one in found.checks if one.check == "way"]
    assert found.good
    assert way.detail.startswith("calling it fails (connection refused at")


def test_calling_the_other_way_round_is_enough(village):
    elsewhere = Address(HOST, free_port())

    async def main():
        async with village.stations("a"):
            return await looks(village, "b", listen=elsewhere)

    found = patiently(main())
    [way] = [one for one in found.checks if one.check == "way"]
    assert found.good
    assert way.detail == "it has not called, but this party reaches it: that is enough"


# Words


def verification(code):
    error = ssl.SSLCertVerificationError(1, "whatever")
    error.verify_code = code
    return error


ERRORS = {
    "no such host": (ConnectionStage.NAME, socket.gaierror(-2, "unknown")),
    "a host that cannot be": (ConnectionStage.NAME, UnicodeError("label too long")),
    "refused": (ConnectionStage.TCP, ConnectionRefusedError(errno.ECONNREFUSED, "x")),
    "filtered": (ConnectionStage.TCP, TimeoutError()),
    "no route": (ConnectionStage.TCP, OSError(errno.EHOSTUNREACH, "x")),
    "expired": (ConnectionStage.TLS, verification(10)),
    "not yet": (ConnectionStage.TLS, verification(9)),
    "unlisted": (ConnectionStage.TLS, verification(18)),
    "hung up": (ConnectionStage.TLS, ConnectionResetError(errno.ECONNRESET, "x")),
    "no WebSocket": (ConnectionStage.HELLO, ValueError("x")),
}
PLACE = Address("ward.example.org", 8443)


@pytest.mark.parametrize("proxied", [False, True], ids=["straight", "proxied"])
@pytest.mark.parametrize(("stage", "error"), ERRORS.values(), ids=ERRORS)
def test_every_failed_call_says_where_and_what_to_do(stage, error, proxied, village):
    way = way_to(village)
    look = ConnectionLook(
        name="b",
        address=str(PLACE),
        dialled=True,
        stage=stage,
        error=error,
        proxied=proxied,
    )
    last = network_checks_of_neighbour(way, [look], clock_skew=300.0)[-1]
    assert last.state is NetworkHealth.BAD
    assert str(PLACE) in last.detail
    assert last.advice.startswith(("ask ", "set the clocks"))
    assert "ask" in last.advice


def way_to(village):
    return NeighbourWay(
        name="b",
        certificate=village.identities["b"].certificate,
        lifetime="good until next year",
        calls=True,
        there=PLACE,
        here=None,
        listening="",
    )


def test_a_filtered_port_is_a_matter_for_those_who_filter(village):
    look = ConnectionLook(
        name="b",
        address=str(PLACE),
        dialled=True,
        stage=ConnectionStage.TCP,
        error=TimeoutError(),
    )
    last = network_checks_of_neighbour(way_to(village), [look], clock_skew=300.0)[-1]
    assert last.advice == (
        "ask IT for: outbound TCP 8443 to ward.example.org here, inbound TCP 8443 there"
    )


@pytest.mark.parametrize("code", [*map(int, ConnectionClose), 1005, 1011, 4999])
def test_every_way_to_be_refused_has_its_advice(code, village):
    """A close before any hello, whatever its code, is no connection."""
    look = ConnectionLook(
        name="b",
        address=str(PLACE),
        dialled=True,
        stage=ConnectionStage.HELLO,
        refusal=HandshakeRefusal(code, "words"),
    )
    last = network_checks_of_neighbour(way_to(village), [look], clock_skew=300.0)[-1]
    assert (last.check, last.state) == ("hello", NetworkHealth.BAD)
    assert last.advice


def test_a_name_that_is_not_the_certificates_is_a_problem(village):
    own = replace(OWN, plan="")
    heard = replace(HEARD, name="z")
    look = ConnectionLook(
        name="b",
        address=str(PLACE),
        dialled=True,
        stage=ConnectionStage.HELLO,
        hello=heard,
        own=own,
        refusal=refusal_of_hello(heard, own, "b", LIMITS),
    )
    found = network_checks_of_neighbour(way_to(village), [look], clock_skew=300.0)
    assert [one.check for one in found if one.state is NetworkHealth.BAD] == ["hello"]


def test_the_summary_counts_problems_and_names_the_unseen():
    def summary(*checks):
        rows = [NetworkCheck(about, "x", state, "") for about, state in checks]
        return NetworkCheckup("a", "run", "00", tuple(rows)).summary

    bad, unseen, good = NetworkHealth.BAD, NetworkHealth.OPEN, NetworkHealth.GOOD
    assert summary(("a", good)) == IN_ORDER
    assert summary(("a", bad), ("b", bad)) == "2 problems"
    assert summary(("b", bad), ("c", unseen)) == "1 problem; not seen yet: c"


def test_a_checkup_is_plain_json(village):
    found = alone(village)
    document = json.loads(json.dumps(found.to_dict()))
    assert list(document) == ["good", "party", "run", "consortium", "checks"]
    assert document["checks"][0].keys() == {
        *("about", "check", "state", "detail", "advice")
    }
    assert PLAN.hex() not in json.dumps(document)
