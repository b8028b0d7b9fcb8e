"""Numbers for whoever looks after a computer, by HTTP, on that computer only.

`/metrics` is Prometheus' text format, `/healthz` says whether all is well. There is no
other page and nothing to change. Other users of the computer may look: nothing here is
private, and no name is here that a member chose.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import IPv6Address, ip_address
from socket import AF_INET, AF_INET6, SHUT_RDWR
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple, Self

from veilsum.consortium.addresses import Address
from veilsum.errors import InvalidInputError

# Seconds for a question; whoever is slower is not listened to.
PATIENCE = 5.0
# Questions at a time. Who asks one more takes the place of who has taken longest: a
# question of a moment is answered, however many others ask slowly.
MOST_AT_ONCE = 32


class Metric(NamedTuple):
    """One number.

    Attributes:
        name: what is measured.
        meaning: in words.
        labels: of what.
        value: the number.
    """

    name: str
    meaning: str
    labels: dict[str, str]
    value: float


def prometheus_text(metrics: Iterable[Metric]) -> str:
    r"""Return numbers as Prometheus reads them, those of one name together.

    >>> metric = Metric("up", "Whether.", {"state": 'a"b'}, 1.0)
    >>> print(prometheus_text([metric]), end="")
    # HELP up Whether.
    # TYPE up gauge
    up{state="a\"b"} 1
    """
    named: dict[str, list[Metric]] = {}
    for one in metrics:
        named.setdefault(one.name, []).append(one)
    lines = []
    for name, found in named.items():
        lines += [f"# HELP {name} {found[0].meaning}", f"# TYPE {name} gauge"]
        for one in found:
            labels = ",".join(
                f'{k}="{_escape_metric_label(v)}"' for k, v in one.labels.items()
            )
            lines.append(f"{name}{{{labels}}} {one.value:.15g}".replace("{}", ""))
    return "".join(f"{line}\n" for line in lines)


def _escape_metric_label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def loopback_address(text: str) -> Address:
    """Return an address of this computer that no other one reaches; refuse all else.

    >>> str(loopback_address("127.0.0.1:9464"))
    '127.0.0.1:9464'
    """
    address = Address.of(text)
    try:
        own = ip_address(address.host).is_loopback
    except ValueError:
        own = False
    if not own:
        raise InvalidInputError(
            "numbers are shown on this computer only, at an address such as "
            f"127.0.0.1:9464 or [::1]:9464, found {text!r}; to collect them from "
            "elsewhere put a proxy of your own before it, which asks who is there",
            code="address-not-local",
        )
    return address


class MetricsServer:
    """Answers from a thread of its own until it is closed.

    Args:
        address: where, on this computer.
        metrics: what to show; called for each question.
        healthy: whether all is well; called for each question.
    """

    def __init__(
        self,
        address: Address,
        metrics: Callable[[], Iterable[Metric]],
        healthy: Callable[[], bool],
    ) -> None:
        pages = {
            "/metrics": lambda: (200, prometheus_text(metrics())),
            "/healthz": lambda: (200, "ok\n") if healthy() else (503, "not well\n"),
        }
        # A page that a browser here has open must not read this under another name.
        hosts = {
            f"{host}:{address.port}"
            for host in ("localhost", str(address).rpartition(":")[0])
        }
        handler = type("Handler", (_MetricsHandler,), {"pages": pages, "hosts": hosts})
        is_six = isinstance(ip_address(address.host), IPv6Address)
        family = {"address_family": AF_INET6 if is_six else AF_INET}
        server = type("Server", (_MetricsServer,), family)
        try:
            self._server: _MetricsServer = server((address.host, address.port), handler)
        except OSError as error:
            raise InvalidInputError(
                f"cannot show numbers at {address}: {error.strerror}; choose another "
                "port",
                code="cannot-listen",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _MetricsServer(ThreadingMixIn, HTTPServer):
    """A thread for every question, and so many questions at a time."""

    daemon_threads, block_on_close = True, False
    request_queue_size = 128

    def __init__(self, *about: Any) -> None:
        self._asking: OrderedDict[Any, None] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__(*about)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a question, in the place of the oldest if there are too many."""
        with self._lock:
            self._asking[request] = None
            if len(self._asking) > MOST_AT_ONCE:
                oldest, _ = self._asking.popitem(last=False)
                with suppress(OSError):  # it has just left by itself
                    oldest.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a question that is answered."""
        with self._lock:
            self._asking.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about who hangs up, or is hung up on."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        """Hang up on whoever is still asking."""
        super().server_close()
        with self._lock:
            for one in self._asking:
                with suppress(OSError):
                    one.shutdown(SHUT_RDWR)


class _MetricsHandler(BaseHTTPRequestHandler):
    pages: dict[str, Callable[[], tuple[int, str]]]
    hosts: set[str]
    timeout = PATIENCE
    server_version, sys_version = "veilsum", ""

    def do_GET(self) -> None:
        """Answer; a page that is not there, or another host's, is not found."""
        page = self.pages.get(self.path)
        if page is None or self.headers.get("Host") not in self.hosts:
            self._say(404, "there is /metrics and /healthz\n")
            return
        self._say(*page())

    def _say(self, code: int, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: Any) -> None:
        """Log no questions: they are many, and say nothing."""
