"""Where members are called, and where they meet: addresses and relays, as texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from veilsum.consortium.pem import der_of_pem, pem_of_der
from veilsum.errors import InvalidScenarioError, is_seen, printable

_HOST = re.compile(r"[A-Za-z0-9._-]+")
# All of them are called at once when two members look for each other.
MOST_RELAYS = 4
_RELAY_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Address:
    """Where a party can be reached.

    >>> str(Address.of("[::1]:8443"))
    '[::1]:8443'
    """

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Return the address that a text spells: host:port, IPv6 in brackets."""
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = _parse_ipv6_address(host[1:-1], text)
        elif not _HOST.fullmatch(host):
            raise _no_address(text)
        if not colon or not port.isascii() or not port.isdigit():
            raise _no_address(text)
        if not 1 <= int(port[:6]) <= 65535:
            raise _no_address(text)
        return cls(host, int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _parse_ipv6_address(host: str, text: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError:
        raise _no_address(text) from None


def _no_address(text: str) -> InvalidScenarioError:
    return InvalidScenarioError(
        "an address is host:port with a port from 1 to 65535, such as "
        f"ward7.example.org:8443 or [2001:db8::7]:8443, found {text!r}",
        code="malformed-address",
    )


def is_loopback_address(host: str) -> bool:
    """Say whether a host is the machine itself, which no proxy can reach."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_any_address(host: str) -> bool:
    """Say whether a host stands for all addresses of a machine: nobody dials it."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


@dataclass(frozen=True)
class ConsortiumRelay:
    """Where two members meet who do not reach each other.

    Attributes:
        address: host and port.
        secure: whether it is called under TLS; without only on this machine.
        path: where it stands among other things at that address.
    """

    address: Address
    secure: bool
    path: str = ""

    @classmethod
    def of(cls, text: str) -> ConsortiumRelay:
        """Return the relay that a text spells: wss://HOST[:PORT][/PATH].

        >>> str(ConsortiumRelay.of("wss://relay.example.org"))
        'wss://relay.example.org:443'
        """
        if not is_seen(text) or len(text) > 200:
            raise _no_relay_address_error(text)
        try:
            found = urlsplit(text.strip())
            secure = found.scheme == "wss"
            odd = found.query or found.fragment or "@" in found.netloc
            if found.scheme not in {"ws", "wss"} or odd:
                raise _no_relay_address_error(text)
            if not _RELAY_PATH.fullmatch(found.path):
                raise _no_relay_address_error(text)
            port = (443 if secure else 80) if found.port is None else found.port
            host = found.hostname or ""
            address = Address.of(
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            )
        except ValueError:  # what is no address is one of these, too
            raise _no_relay_address_error(text) from None
        if not secure and not is_loopback_address(address.host):
            raise InvalidScenarioError(
                f"a relay is called under TLS, wss://, found {text!r}: without, "
                "everybody on the way would read the token (ws:// is for a relay on "
                "this machine)",
                code="relay-without-tls",
            )
        return cls(address, secure, found.path.rstrip("/"))

    def __str__(self) -> str:
        return f"{'wss' if self.secure else 'ws'}://{self.address}{self.path}"


def _no_relay_address_error(text: str) -> InvalidScenarioError:
    return InvalidScenarioError(
        "a relay is written as wss://HOST, wss://HOST:PORT or wss://HOST:PORT/PATH, "
        f"such as wss://relay.example.org, found {printable(repr(text[:200]))}",
        code="malformed-relay",
    )


@dataclass(frozen=True)
class ConsortiumRelays:
    """Agreed relays between members.

    Attributes:
        places: the relays; the first one that both ends reach is used.
        token: SHA-256 of the token that admits members, hexadecimal.
        certificate: required certificate of a relay, or of its issuer, PEM; None for
            any that the member's own system trusts.
    """

    places: tuple[ConsortiumRelay, ...]
    token: str
    certificate: str | None = None

    @classmethod
    def of(
        cls,
        *,
        relay: str | tuple[str, ...],
        relay_token: str,
        relay_certificate: str | None = None,
    ) -> ConsortiumRelays:
        """Return the relays that a file's [deployment] names."""
        texts = (relay,) if isinstance(relay, str) else relay
        if not 1 <= len(texts) <= MOST_RELAYS:
            raise InvalidScenarioError(
                f"[deployment] relay names 1 to {MOST_RELAYS} relays, found "
                f"{len(texts)}",
                code="relay-count",
            )
        places = tuple(map(ConsortiumRelay.of, texts))
        if len(set(places)) < len(places):
            raise InvalidScenarioError(
                "[deployment] relay names one relay twice", code="duplicate-relay"
            )
        if not _DIGEST.fullmatch(relay_token):
            raise InvalidScenarioError(
                "[deployment] relay_token is the SHA-256 that veilsum relay token "
                "prints, 64 hexadecimal digits; the token itself has no place in a "
                "file that is passed around",
                code="malformed-token-digest",
            )
        text = relay_certificate
        certificate = None if text is None else pem_of_der(der_of_pem(text))
        return cls(places, relay_token, certificate)
