"""Numbers by HTTP: on this computer only, and nothing but two pages."""

import http.client
import socket
import threading
from contextlib import ExitStack
from http.server import HTTPServer

import pytest

from cases import each
from net.village import free_port
from refusals import refused
from veilsum.consortium.consortium import Address
from veilsum.errors import InvalidInputError
from veilsum.net import metrics
from veilsum.net.metrics import Metric, MetricsServer, loopback_address, prometheus_text

NUMBERS = [
    Metric("veilsum_runs", "Runs by state.", {"state": "done"}, 2.0),
    Metric("veilsum_up", "Whether.", {}, 1.0),
    Metric("veilsum_runs", "Runs by state.", {"state": 'a"\\\n'}, 1e-3),
]


def test_the_text_is_what_prometheus_reads():
    """Of one name all lines stand together, after its help and its type."""
    assert prometheus_text(NUMBERS).splitlines() == [
        "# HELP veilsum_runs Runs by state.",
        "# TYPE veilsum_runs gauge",
        'veilsum_runs{state="done"} 2',
        'veilsum_runs{state="a\\"\\\\\\n"} 0.001',
        "# HELP veilsum_up Whether.",
        "# TYPE veilsum_up gauge",
        "veilsum_up 1",
    ]


@each(
    "text", ["0.0.0.0:9464", "192.0.2.7:9464", "[::]:9464", "example.org:9464", "9464"]
)
def test_another_address_is_refused(text):
    with pytest.raises(InvalidInputError):
        loopback_address(text)


@each("text", ["127.0.0.1:9464", "127.8.9.1:80", "[::1]:9464"])
def test_an_address_of_this_computer_is_taken(text):
    """The twin."""
    assert str(loopback_address(text)) == text


def ask(port, path, *, host=None, method="GET", timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {} if host is None else {"Host": host}
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_two_pages_and_no_other():
    well = [True]
    port = free_port()
    with MetricsServer(Address("127.0.0.1", port), lambda: NUMBERS, lambda: well[0]):
        assert ask(port, "/metrics") == (200, prometheus_text(NUMBERS))
        assert ask(port, "/metrics", host=f"localhost:{port}")[0] == 200
        assert ask(port, "/healthz") == (200, "ok\n")
        well[0] = False
        assert ask(port, "/healthz")[0] == 503
        for path in ("/", "/metrics/", "/../metrics", "/metrics?x=1"):
            assert ask(port, path)[0] == 404
        assert ask(port, "/metrics", method="POST")[0] == 501
        # A browser that was told that another name is this computer says that name.
        assert ask(port, "/metrics", host=f"evil.example:{port}")[0] == 404
        with (
            refused("cannot-listen"),
            MetricsServer(Address("127.0.0.1", port), list, lambda: True),
        ):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)


def slow(port, stack):
    """Another user of the computer, who never comes to the end of a question."""
    found = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
    found.sendall(b"GET /metrics HTTP/1.1\r\nHost: local")
    return found


def test_who_asks_slowly_is_in_nobodys_way():
    """However many they are: the oldest of them goes first."""
    port, most = free_port(), metrics.MOST_AT_ONCE
    with (
        ExitStack() as stack,
        MetricsServer(Address("127.0.0.1", port), lambda: NUMBERS, lambda: True),
    ):
        first = slow(port, stack)
        for _ in range(2 * most):
            slow(port, stack)
        for _ in range(3):
            assert ask(port, "/healthz") == (200, "ok\n")
        assert first.recv(1) == b"", "hung up on"
        assert ask(port, "/metrics") == (200, prometheus_text(NUMBERS))


def test_one_who_asks_slowly_holds_up_a_server_that_answers_in_turn():
    """The twin."""
    pages = {"/healthz": lambda: (200, "ok\n")}
    with ExitStack() as stack:
        hosts = {"127.0.0.1"}
        handler = type(
            "Handler", (metrics._MetricsHandler,), {"pages": pages, "hosts": hosts}
        )
        server = stack.enter_context(HTTPServer(("127.0.0.1", 0), handler))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        port = server.server_address[1]
        hosts.add(f"127.0.0.1:{port}")
        assert ask(port, "/healthz") == (200, "ok\n")
        one = slow(port, stack)
        with pytest.raises(TimeoutError):
            ask(port, "/healthz", timeout=0.2)
        one.close()
