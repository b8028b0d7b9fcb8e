"""What a consortium has agreed on before real parties run: one public file.

It names the run and its members with their certificates and addresses, and holds the
sections of a scenario that everybody may know. Nothing in it is private, and everything
in it enters the digest that parties compare before they say anything else.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv6Address, ip_address
from math import isfinite
from typing import Any

from veilsum.agreement.pem import der_of, pem_of
from veilsum.agreement.reading import Table, check_keys, entries, integer, need
from veilsum.agreement.sections import check_agreement
from veilsum.errors import InvalidScenarioError
from veilsum.graphs.topology import Topology

FORMAT = 1
# What a file holds beside the sections.
HEAD = ("format", "run", "members")
# The sections that may be public; which of them go together is in `agreement`.
PUBLIC = (
    *("title", "graph", "masks", "cost", "domain", "method", "stopping"),
    *("model", "statistics", "dispatch", "schema", "policy"),
)
NAME_BYTES = 64  # what a certificate has room for
_RUN = re.compile(r"[a-z0-9-]*[0-9a-f]{32}")
_LAYOUT = {ord("\n"): " ", ord("\t"): " "}
_HOST = re.compile(r"[A-Za-z0-9._-]+")


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
            host = _ipv6(host[1:-1], text)
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


def _ipv6(host: str, text: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError:
        raise _no_address(text) from None


def _no_address(text: str) -> InvalidScenarioError:
    return InvalidScenarioError(
        "an address is host:port with a port from 1 to 65535, such as "
        f"ward7.example.org:8443 or [2001:db8::7]:8443, found {text!r}"
    )


@dataclass(frozen=True)
class Member:
    """A party of the consortium, as the others know it.

    Attributes:
        name: how it is called in the graph.
        certificate: its certificate, PEM.
        address: where others dial it; None if it only dials.
    """

    name: str
    certificate: str
    address: Address | None


@dataclass(frozen=True, eq=False)
class Consortium:
    """An agreement. Build it with `consortium_from`, which checks it.

    Attributes:
        run: the unique name of the run; no two runs share it.
        members: all parties, in the graph's order.
        sections: the public sections of the scenario, as plain values.
    """

    run: str
    members: tuple[Member, ...]
    sections: Mapping[str, Any]

    @cached_property
    def topology(self) -> Topology:
        """Who exchanges shares with whom."""
        graph = self.sections["graph"]
        return Topology.from_edges(
            [(a, b) for a, b in graph["edges"]],
            parties=[member.name for member in self.members],
            weights=graph.get("weights"),
        )

    @property
    def title(self) -> str:
        """What the run is about, in the organiser's words."""
        return str(self.sections.get("title", ""))

    @property
    def certificates(self) -> dict[str, str]:
        """Every member's certificate, PEM."""
        return {member.name: member.certificate for member in self.members}

    def member(self, name: str) -> Member:
        """Return a member by name; an unknown one is refused with the nearest."""
        return self.members[self.topology.index(name)]

    def dials(self, one: str, other: str) -> bool:
        """Say whether of a link's two ends `one` opens the connection.

        Whoever has no address dials; if both have one, the earlier member does.
        """
        caller, called = self.member(one), self.member(other)
        if caller.address is None or called.address is None:
            return caller.address is None
        return self.topology.index(one) < self.topology.index(other)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Every link as who dials and who is dialled."""
        pairs = [self.topology.names(edge) for edge in self.topology.edges.tolist()]
        return tuple((a, b) if self.dials(a, b) else (b, a) for a, b in pairs)

    def to_table(self) -> dict[str, Any]:
        """Return everything as plain values, as the file has it."""
        members = [_row(member) for member in self.members]
        head = {"format": FORMAT, "run": self.run, "members": members}
        return {**head, **self.sections}

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of everything here: who has another one holds another file."""
        content = b"veilsum consortium\0" + canonical(self.to_table())
        return hashlib.sha256(content).digest()

    @cached_property
    def section_digests(self) -> dict[str, str]:
        """A short digest of each section, to say where two files differ."""
        return {
            name: hashlib.sha256(canonical(content)).hexdigest()[:16]
            for name, content in self.to_table().items()
        }


def canonical(value: Any) -> bytes:
    """Return plain values as JSON in its one spelling: sorted, without spaces."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def consortium_from(table: Table) -> Consortium:
    """Return the consortium that a parsed file describes; refuse all that is odd."""
    check_keys(table, (*HEAD, *PUBLIC, *NOT_PUBLIC), "the consortium file")
    _refuse_private_sections(table)
    _check_format(table)
    found = Consortium(
        _run(table),
        tuple(_member(row) for row in _rows(table)),
        {name: plain(table[name], name) for name in PUBLIC if name in table},
    )
    _check_differ(found.members)
    check_agreement(found)
    return found


# Sections of a scenario that only one computer can have which plays all parties.
NOT_PUBLIC = {
    "data": "each party gives its own table",
    "simulation": "it is for simulated parties",
    "deployment": "the file itself is what it described",
    "parties": "the members are",
}


def _refuse_private_sections(table: Table) -> None:
    for name, why in NOT_PUBLIC.items():
        if name in table:
            raise InvalidScenarioError(
                f"[{name}] has no place in a consortium file ({why}): remove it, or "
                "run veilsum consortium new, which leaves it out"
            )


def _check_format(table: Table) -> None:
    found = integer(table, "the file", "format", 0)
    if found != FORMAT:
        raise InvalidScenarioError(
            f"the consortium file must say format = {FORMAT}, found "
            f"{table.get('format', 'none')!r}: make it with veilsum consortium new, or "
            "use the version of veilsum that made it"
        )


def _run(table: Table) -> str:
    run = table.get("run")
    if not isinstance(run, str) or not _RUN.fullmatch(run) or len(run) > 100:
        raise InvalidScenarioError(
            "run must be a name that no other run has: small letters, digits and "
            f"dashes, then 32 random hexadecimal digits, found {run!r}; veilsum "
            "consortium new makes one"
        )
    return run


def _rows(table: Table) -> Sequence[Any]:
    return entries(
        need(table, "members", "members", "one [[members]] entry for each party")
    )


def _member(row: object) -> Member:
    if not isinstance(row, Mapping):
        raise InvalidScenarioError(f"[[members]] must be tables, found {row!r}")
    check_keys(row, ("name", "address", "certificate"), "[[members]]")
    name = check_name(need(row, "members", "name", "every party has one"))
    try:
        return Member(name, _certificate(row), _address(row.get("address", "")))
    except InvalidScenarioError as error:
        raise InvalidScenarioError(f"member {name!r}: {error}") from None


def _row(member: Member) -> dict[str, str]:
    address = {} if member.address is None else {"address": str(member.address)}
    return {"name": member.name, **address, "certificate": member.certificate}


def _certificate(row: Table) -> str:
    text = row.get("certificate")
    if not isinstance(text, str):
        raise InvalidScenarioError(
            "it has no certificate: it makes one with veilsum identity new, and sends "
            "the .crt file"
        )
    return pem_of(der_of(text))


def _address(text: object) -> Address | None:
    """Return where a member is dialled; "" says that it only dials."""
    if not isinstance(text, str):
        raise InvalidScenarioError(f"address must be a text, found {text!r}")
    if not text.strip():
        return None
    address = Address.of(text)
    if is_anywhere(address.host):
        raise InvalidScenarioError(
            f"{address} says where to listen, and nobody can dial it: write the "
            "address that the others reach"
        )
    return address


def is_anywhere(host: str) -> bool:
    """Say whether a host stands for all addresses of a machine: nobody dials it."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def check_name(name: object) -> str:
    """Return a party's name; refuse one that files or certificates cannot carry.

    >>> check_name("hospital-1")
    'hospital-1'
    """
    if not isinstance(name, str) or not _is_name(name):
        raise InvalidScenarioError(
            "the name of a real party is made of letters, digits, and, between them, "
            f"spaces, dots, dashes and underscores, {NAME_BYTES} bytes at most, found "
            f"{name!r}"
        )
    return name


def _is_name(name: str) -> bool:
    inner = all(letter.isalnum() or letter in " ._-" for letter in name)
    ends = name[:1].isalnum() and name[-1:].isalnum()
    # One spelling of an accented letter: two parties must not look alike.
    plain_letters = unicodedata.is_normalized("NFKC", name)
    return inner and ends and plain_letters and len(name.encode()) <= NAME_BYTES


def _check_differ(members: Sequence[Member]) -> None:
    """Refuse two members with one name, one certificate or one address."""
    for what in ("name", "certificate", "address"):
        owners: dict[str, str] = {}
        for member in members:
            value = getattr(member, what)
            if value is None:
                continue
            # Names become file names, and not every disk tells A from a.
            key = value if what == "certificate" else str(value).casefold()
            if key in owners:
                raise InvalidScenarioError(
                    f"two members have one {what}: {owners[key]!r} and "
                    f"{member.name!r}; give each its own"
                )
            owners[key] = member.name


def plain(value: Any, where: str) -> Any:
    """Return a TOML value in the one form that is compared: keys sorted, copied.

    The order of keys in a file then means nothing, whoever reads it.
    """
    if isinstance(value, Mapping):
        named = {_text(str(key), where): value[key] for key in sorted(value)}
        return {key: plain(item, f"{where}.{key}") for key, item in named.items()}
    if isinstance(value, list | tuple):
        return [plain(item, where) for item in value]
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise InvalidScenarioError(
        f"[{where}] must be made of texts, finite numbers, true and false, found "
        f"{value!r}"
    )


def _text(value: str, where: str) -> str:
    """Return a text; refuse one that could write over what a terminal shows."""
    text = value.replace("\r\n", "\n")
    shown = text.translate(_LAYOUT)
    if any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in shown):
        raise InvalidScenarioError(
            f"[{where}] has control characters in a text: take them out of {value!r}"
        )
    return text
