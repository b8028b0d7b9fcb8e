"""The guard before every page, asked over real sockets by callers of all kinds."""

import asyncio
import http.client
import json
import logging
import socket
import ssl
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from refusals import refused
from veilsum.consortium.consortium import Address
from veilsum.net.identity import new_identity
from veilsum.net.refusals import LogCap
from veilsum.web.pages import (
    HEADERS,
    CallRates,
    PageBounds,
    PageServer,
    WebGuard,
    listening_page_socket,
    web_server_names,
)

HOST = "127.0.0.1"
DAY = timedelta(days=1)
SMALL = PageBounds(body=1_000, seconds=0.4, connections=8, burst=1e6, per_second=1e6)
GIVEN_UP = b"HTTP/1.1 408 Request Timeout\r\n"
TOKEN = "a token of a test"


async def echo(request):
    return JSONResponse({"got": await request.json()})


async def home(_):
    return PlainTextResponse("home")


@contextmanager
def served(bounds=SMALL, tls=None, **options):
    """A server on loopback; its port."""
    listener = listening_page_socket(Address(HOST, 0))
    port = listener.getsockname()[1]
    routes = [Route("/", home), Route("/echo", echo, methods=["POST"])]
    app = WebGuard(
        Starlette(routes=routes),
        web_server_names(Address(HOST, port)),
        bounds=bounds,
        **options,
    )
    server = PageServer(app, listener, bounds=bounds, tls=tls)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        yield port
    finally:
        server.stop()
        thread.join()


def ask(port, method="GET", path="/", body=None, **headers):
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body=body, headers=named)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def own(port):
    return {"Origin": f"http://{HOST}:{port}", "Content_Type": "application/json"}


def test_a_page_is_answered_with_every_header():
    with served() as port:
        answer, text = ask(port)
        assert (answer.status, text) == (200, "home")
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert answer.headers["Server"] is None


def test_the_page_itself_may_post_and_nobody_elses():
    with served() as port:
        answer, text = ask(port, "POST", "/echo", json.dumps([1]), **own(port))
        assert answer.status == 200
        assert json.loads(text) == {"got": [1]}
        for changed in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Content_Type": "text/plain"},
            {"Host": "evil.example"},
        ):
            headers = {**own(port), **changed}
            answer, text = ask(port, "POST", "/echo", "[1]", **headers)
            assert answer.status in (403, 415, 421), changed
            assert "got" not in text
        answer, _ = ask(port, "POST", "/echo", "[1]", Content_Type="application/json")
        assert answer.status == 403, "no origin at all"


def test_a_saved_file_may_post_where_it_is_meant_to():
    with served(open_to_files=["/echo"]) as port:
        headers = {"Origin": "null", "Content_Type": "application/json"}
        answer, _ = ask(port, "OPTIONS", "/echo", **headers)
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "null"
        answer, _ = ask(port, "POST", "/echo", "[1]", **headers)
        assert answer.status == 200
        assert ask(port, "POST", "/", "[1]", **headers)[0].status == 403


def test_a_large_body_is_refused_before_it_is_read():
    with served() as port:
        answer, text = ask(port, "POST", "/echo", "x" * 1_001, **own(port))
        assert answer.status == 413
        assert "1,000 bytes" in text


def test_slow_callers_are_given_up_and_keep_nobody_out():
    begun = b"POST /echo HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n"
    with served() as port:
        name = b"127.0.0.1:%d" % port
        body = b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n["
        slow = []
        for text in (b"", b"GET / HT", begun % (name, name) + body) * 6:
            one = socket.create_connection((HOST, port))
            one.sendall(text)
            slow.append(one)
            assert ask(port)[0].status == 200
        for one in slow:
            with one, one.makefile("rb") as answer, suppress(ConnectionResetError):
                assert answer.readline() in (b"", GIVEN_UP)


def test_silent_callers_count_before_tls_and_keep_nobody_out(tmp_path):
    made = new_identity("page", tmp_path)
    trusting = ssl.create_default_context(cafile=made.certificate_file)
    trusting.check_hostname = False
    bounds = replace(SMALL, seconds=600.0)
    files = str(made.certificate_file), str(made.key_file)
    with served(bounds, tls=files) as port, ExitStack() as silent:
        callers = [
            silent.enter_context(socket.create_connection((HOST, port), timeout=20))
            for _ in range(40)
        ]
        asked = http.client.HTTPSConnection(HOST, port, timeout=20, context=trusting)
        with closing(asked):
            asked.request("GET", "/")
            assert asked.getresponse().status == 200
        for caller in callers[: 40 + 1 - bounds.connections]:  # the guest had a place
            with suppress(ConnectionResetError):
                assert caller.recv(1) == b""
        callers[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            callers[-1].recv(1)


@pytest.mark.parametrize(
    ("suite", "admitted"),
    [("ECDHE+AESGCM", True), ("ECDHE+AES:!AESGCM:!AESCCM", False), ("kRSA", False)],
)
def test_of_tls_1_2_only_authenticated_encryption_is_spoken(suite, admitted, tmp_path):
    files = rsa_files(tmp_path)
    old = ssl.create_default_context(cafile=files[0])
    old.check_hostname, old.maximum_version = False, ssl.TLSVersion.TLSv1_2
    old.set_ciphers(suite)
    with served(SMALL, tls=files) as port:
        asked = http.client.HTTPSConnection(HOST, port, timeout=20, context=old)
        with closing(asked):
            if admitted:
                asked.request("GET", "/")
                assert asked.getresponse().status == 200
            else:
                with pytest.raises((ssl.SSLError, ConnectionResetError)):
                    asked.connect()


def rsa_files(folder):
    """A certificate as web servers have it, with which all suites of TLS 1.2 work."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "page")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + DAY)
    certificate, secret = folder / "page.crt", folder / "page.key"
    signed = made.sign(key, hashes.SHA256())
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return str(certificate), str(secret)


def test_who_has_asked_and_asks_no_more_keeps_nobody_out():
    whole = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
    with served() as port:
        held = []
        for more in (b"", b"GET / HT") * 8:
            one = socket.create_connection((HOST, port))
            one.sendall(whole % port)
            assert one.recv(4_000).startswith(b"HTTP/1.1 200")
            one.sendall(more)
            held.append(one)
            assert ask(port)[0].status == 200
        for one in held:  # and none is held for ever
            with one, suppress(ConnectionResetError):
                while one.recv(4_000):
                    pass


def test_who_asks_too_often_waits():
    with served(PageBounds(burst=3, per_second=1e-9)) as port:
        found = [ask(port)[0].status for _ in range(5)]
    assert found == [200, 200, 200, 429, 429]


def test_rates_fill_up_again_and_forget():
    now = 0.0
    rates = CallRates(PageBounds(burst=2, per_second=1, addresses=2), lambda: now)
    assert [rates.takes("a") for _ in range(3)] == [True, True, False]
    now = 1.5
    assert [rates.takes("a") for _ in range(2)] == [True, False]
    for name in "bcd":
        rates.takes(name)
    assert len(rates._left) == 2


def test_a_token_is_shown_once_and_then_a_cookie():
    with served(token=TOKEN) as port:
        assert ask(port)[0].status == 403
        assert ask(port, path="/?token=wrong")[0].status == 403
        answer, _ = ask(port, path=f"/?token={TOKEN.replace(' ', '%20')}")
        assert answer.status == 303
        assert answer.headers["Location"] == "/"
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert ask(port, Cookie=cookie.split(";")[0])[0].status == 200
        assert ask(port, Cookie=f"veilsum-{port}=wrong")[0].status == 403


@pytest.mark.parametrize("name", ["asyncio", "uvicorn.error"])
def test_logs_that_callers_can_fill_are_capped(name):
    listener = listening_page_socket(Address(HOST, 0))
    PageServer(None, listener)
    listener.close()
    found = logging.getLogger(name).filters
    assert [one for one in found if isinstance(one, LogCap)]


def test_an_address_in_use_is_the_users_to_mend():
    with (
        socket.create_server((HOST, 0)) as taken,
        refused("cannot-listen"),
    ):
        listening_page_socket(Address(HOST, taken.getsockname()[1]))
