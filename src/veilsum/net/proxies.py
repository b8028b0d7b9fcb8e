"""The proxy that the environment names: which it is, and why it is no way through.

What is said names the proxy by host and port, never by the credentials that its address
may hold.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from veilsum.agreement.consortium import Address

# The proxies of the environment for a call under TLS; the first that there is counts.
_KINDS = ("wss", "socks", "https")


class Hitch(Enum):
    """What can be wrong with a proxy.

    Attributes:
        words: what is said of it; {proxy}, {there} (whom the call was for) and {why}
            are filled in.
        advice: what to do; {name} (whom the call was for), {host} (where it is) and
            {start} (what it is to do) are filled in as well.
    """

    NO_ADDRESS = (
        "HTTPS_PROXY holds no address of a proxy, on the way to {there}",
        "write it as http://HOST:PORT, or as http://USER:PASSWORD@HOST:PORT with "
        "special characters as %XX",
    )
    UNREACHED = (
        "the proxy {proxy} cannot be reached on the way to {there}: {why}",
        "look whether HTTPS_PROXY is right; if it is, ask IT why this machine does not "
        "reach {proxy}; if {host} needs no proxy, name it in NO_PROXY",
    )
    SILENT = (
        "the proxy {proxy} gave no answer in time, on the way to {there}",
        "ask IT whether this machine reaches {proxy}, and whether the proxy reaches "
        "{there}; ask {name} to {start} now",
    )
    NO_TLS = (
        "TLS with the proxy {proxy} failed, on the way to {there}",
        "if the proxy is an HTTP one, write http:// before {proxy} in HTTPS_PROXY; if "
        "not, ask IT for a proxy whose certificate this machine knows",
    )
    NO_HTTP = (
        "the proxy {proxy} does not speak as an HTTP proxy does, on the way to {there}",
        "look whether HTTPS_PROXY is right; ask IT for the address of the HTTP proxy",
    )
    SOCKS = (
        "the proxy {proxy} on the way to {there} is a SOCKS proxy: these need the "
        "package python-socks",
        "pip install python-socks, or name an HTTP proxy in HTTPS_PROXY, or name "
        "{host} in NO_PROXY if it needs no proxy",
    )
    NOT_PASSED_ON = (
        "the proxy {proxy} did not reach {there} ({why})",
        "ask {name} to {start} now; if it does, ask IT to let the proxy reach {there}",
    )
    NO_CREDENTIALS = (
        "the proxy {proxy} wants credentials on the way to {there} ({why}): they go "
        "into its address in HTTPS_PROXY",
        "ask IT for credentials, and set HTTPS_PROXY=http://USER:PASSWORD@{proxy}",
    )
    FORBIDDEN = (
        "the proxy {proxy} did not let this party through to {there} ({why})",
        "ask IT to let the proxy pass CONNECT to {there}",
    )

    def __init__(self, words: str, advice: str) -> None:
        self.words, self.advice = words, advice


# What the answers to CONNECT mean that are not simply a no.
_BY_STATUS = {
    407: Hitch.NO_CREDENTIALS,
    502: Hitch.NOT_PASSED_ON,
    503: Hitch.NOT_PASSED_ON,
    504: Hitch.NOT_PASSED_ON,
}


class ProxyError(Exception):
    """A call that got no further than the proxy; its text says why."""

    def __init__(self, hitch: Hitch, there: Address, *, proxy: str, why: str) -> None:
        self._hitch = hitch
        self._facts = {
            "there": str(there),
            "host": there.host,
            "proxy": "" if hitch is Hitch.NO_ADDRESS else _place(proxy),
            "why": why,
        }
        super().__init__(hitch.words.format(**self._facts))

    def advice(self, name: str, start: str) -> str:
        """Say what to do: who the call was for, and what that party is to do."""
        return self._hitch.advice.format(name=name, start=start, **self._facts)


def after_status(status: int) -> Hitch:
    """Return what an answer to CONNECT means that is no yes."""
    return _BY_STATUS.get(status, Hitch.FORBIDDEN)


def proxy_for(address: Address) -> str | None:
    """Return the proxy for calls to an address, as the environment has it."""
    if _is_loopback(address.host) or proxy_bypass(f"{address.host}:{address.port}"):
        return None
    found = getproxies()
    kind = next((kind for kind in _KINDS if kind in found), None)
    if kind == "socks" and found[kind].startswith("http://"):
        return "socks5h://" + found[kind].removeprefix("http://")
    return None if kind is None else found[kind]


def _place(proxy: str) -> str:
    """Return host and port of a proxy's address that is a good one."""
    found = urlsplit(proxy)
    port = found.port or (443 if found.scheme == "https" else 80)
    return str(Address(found.hostname or "", port))


def _is_loopback(host: str) -> bool:
    """Say whether a host is this machine, which no proxy can reach."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
