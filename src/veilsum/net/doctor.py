"""Look at a party's connections before a run, or beside one.

A look is a connection like any other up to the hello. That has no plan, by which the
other end knows that nothing follows: it answers with its own hello and closes. No frame
of the protocol is sent, and no connection of a run loses its place.

What a look means is worked out by pure functions. A problem says what was found and
what to do, and names port and direction, so that it can be passed on to whoever runs
the network.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import ssl
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from socket import SOCK_STREAM, socket
from typing import TYPE_CHECKING, Any

from veilsum.consortium.addresses import Address, ConsortiumRelay, is_any_address
from veilsum.consortium.consortium import Consortium
from veilsum.errors import InvalidInputError
from veilsum.net.entrance import caller_address
from veilsum.net.handshake import (
    ConnectionClose,
    ConnectionLimits,
    HandshakeRefusal,
    Hello,
    connection_close_reason,
    hello_to_peer,
    peer_clock_skew,
    refusal_of_hello,
    sections_unlike_peer,
)
from veilsum.net.identity import (
    Identity,
    certificate_fingerprint,
    certificate_out_of_date,
    certificate_validity,
    read_identity,
)
from veilsum.net.links import (
    connection_listening_refused,
    exchange_hellos,
    own_handshake_hello,
)
from veilsum.net.relay_tokens import TOKEN_FILE
from veilsum.net.sockets import (
    UNANSWERED,
    AnsweredSocket,
    ProxyError,
    SocketDoor,
    SocketWire,
    dial_peer,
    peer_certificate,
    proxy_for_address,
    socket_call_failure,
    socket_connection_failure,
)
from veilsum.net.trust import (
    certificate_owner,
    check_certified_member,
    tls_client_context,
    tls_server_context,
)
from veilsum.net.tunnel import (
    UNJOINED,
    RelayError,
    RelayTunnels,
    answer_through_relay,
    dial_through_relay,
    relay_failure,
)
from veilsum.numbers.arrays import listed_names
from veilsum.numbers.secrets import Secret

if TYPE_CHECKING:
    from veilsum.consortium.addresses import Address


IN_ORDER = "everything that was looked at is in order"
_START = "run veilsum join, or veilsum doctor --network"
_COMPARE = "compare the digests that veilsum consortium show prints, by telephone"
_ONE_FILE = f"{_COMPARE}, and have both take the organiser's file"
_SET_CLOCK = "set the clock that is wrong (NTP), there or here"
_ONE_VERSION = "use the same version of veilsum at both ends"
# What to do after a hello that was refused, by the code of the close frame.
_AFTER_REFUSAL = {
    int(ConnectionClose.MALFORMED): _ONE_VERSION,
    int(ConnectionClose.PROTOCOL): _ONE_VERSION,
    int(ConnectionClose.CERTIFICATE): _ONE_FILE,
    int(ConnectionClose.STRANGER): _ONE_FILE,
    int(ConnectionClose.AGREEMENT): _ONE_FILE,
    int(ConnectionClose.CLOCK): _SET_CLOCK,
}
_WRONG_PARTY = frozenset({ConnectionClose.CERTIFICATE, ConnectionClose.STRANGER})
# What OpenSSL calls a certificate that is not good yet, and one that no longer is.
_DATES = frozenset({9, 10})


class NetworkHealth(StrEnum):
    GOOD = "good"
    BAD = "bad"
    OPEN = "open"  # nothing was seen that says either


@dataclass(frozen=True)
class NetworkCheck:
    """One thing that was looked at.

    Attributes:
        advice: what to do, if something is.
    """

    about: str
    check: str
    state: NetworkHealth
    detail: str
    advice: str = ""


@dataclass(frozen=True)
class NetworkCheckup:
    """Everything that a party's doctor found.

    Attributes:
        party: whose connections they are.
        run: the run's name.
        consortium: digest of the consortium file, hexadecimal.
        checks: what was looked at, this party's own things first.
    """

    party: str
    run: str
    consortium: str
    checks: tuple[NetworkCheck, ...]

    @property
    def good(self) -> bool:
        """Whether nothing is wrong; something may not have been seen."""
        return all(check.state is not NetworkHealth.BAD for check in self.checks)

    @property
    def summary(self) -> str:
        bad = sum(check.state is NetworkHealth.BAD for check in self.checks)
        unseen = {
            one.about: None for one in self.checks if one.state is NetworkHealth.OPEN
        }
        later = f"not seen yet: {listed_names(list(unseen))}" if unseen else ""
        if bad:
            problems = "1 problem" if bad == 1 else f"{bad} problems"
            return f"{problems}; {later}" if later else problems
        return f"nothing is wrong; {later}" if later else IN_ORDER

    def to_dict(self) -> dict[str, Any]:
        return {
            "good": self.good,
            "party": self.party,
            "run": self.run,
            "consortium": self.consortium,
            "checks": [asdict(check) for check in self.checks],
        }


class ConnectionStage(IntEnum):
    """Stage that a connection reached."""

    NAME = 0  # looking up the host
    TCP = 1
    TLS = 2
    HELLO = 3


@dataclass(frozen=True, kw_only=True)
class ConnectionLook:
    """Observations from one connection with a neighbour.

    Attributes:
        address: the address dialled, or the one that the caller dialled from.
        dialled: whether this party dialled.
        stage: the stage at which the connection ended.
        error: the exception that ended it before any hello.
        hello: the neighbour's hello.
        own: this party's hello, when it received the neighbour's.
        refusal: the refusal after TLS; `ConnectionClose.DONE` if nothing was wrong.
        proxied: whether the connection went through a proxy.
        relay: the relay used, if any.
    """

    name: str
    address: str
    dialled: bool
    stage: ConnectionStage = ConnectionStage.NAME
    error: BaseException | None = None
    hello: Hello | None = None
    own: Hello | None = None
    refusal: HandshakeRefusal | None = None
    proxied: bool = False
    relay: str = ""

    @property
    def through(self) -> bool:
        """Whether a run could use such a connection."""
        done = self.refusal is not None and self.refusal.code == ConnectionClose.DONE
        return done and self.hello is not None

    @property
    def unreached(self) -> bool:
        """Whether nobody answered at all."""
        return self.error is not None and self.stage <= ConnectionStage.TCP

    @property
    def place(self) -> str:
        """Where the call went."""
        if self.relay:
            return f"the other end of the relay {self.relay}"
        by = ", through the proxy of the environment" if self.proxied else ""
        return f"{self.address}{by}"

    @property
    def trouble(self) -> str:
        """Why it led to nothing, in one clause."""
        if self.error is None:
            return "" if self.refusal is None else self.refusal.reason
        if self.stage is ConnectionStage.NAME:
            return f"no such host: {self.address}"
        return socket_call_failure(self.error, self.place)


@dataclass(frozen=True, kw_only=True)
class NeighbourWay:
    """Route between a neighbour and this party.

    Attributes:
        certificate: the neighbour's certificate, from the file.
        lifetime: validity period of that certificate, in words.
        there: address at which the neighbour is dialled, if it is.
        here: address at which this party is dialled, if it is.
        listening: current state of that address, in words.
        relayed: current state of the relays, in words, if there are any.
    """

    name: str
    certificate: str
    lifetime: str
    calls: bool
    there: Address | None
    here: Address | None
    listening: str
    relayed: str = ""

    def checked(
        self, check: str, state: NetworkHealth, detail: str, advice: str = ""
    ) -> NetworkCheck:
        return NetworkCheck(self.name, check, state, detail, advice)


def network_checks_of_neighbour(
    way: NeighbourWay, looks: Sequence[ConnectionLook], *, clock_skew: float
) -> list[NetworkCheck]:
    """Return what is known about the way to a neighbour.

    Args:
        way: how the two are to meet.
        looks: the connections there were, in the direction agreed upon first.
        clock_skew: seconds that two clocks may be apart.
    """
    # The look that came furthest, a direct one first.
    best = max(
        looks,
        key=lambda one: (one.through, not one.relay if one.through else one.stage),
        default=None,
    )
    if best is None or (best.unreached and not way.calls):
        return [_check_call_direction(way), _advise_neighbour_not_called(way, best)]
    if best.unreached and way.relayed:
        return [
            _check_call_direction(way),
            *_checks_before_hello(way, best),
            _advise_neighbour_not_met(way, best),
        ]
    if best.hello is None:
        return [
            _check_call_direction(way),
            *_checks_before_hello(way, best),
            _check_ended_connection(way, best),
        ]
    found = [
        _check_call_direction(way),
        *_checks_before_hello(way, best),
        *_checks_of_hello(way, best, clock_skew),
    ]
    if best.through and best.relay:
        found.append(_advise_link_over_relay(way, best, looks))
    elif best.through and best.dialled is not way.calls:
        found.append(_advise_other_connection(way, looks))
    elif best.through and way.relayed:
        found.append(
            way.checked("way", NetworkHealth.GOOD, "direct: no relay is needed")
        )
    return found


def _check_call_direction(way: NeighbourWay) -> NetworkCheck:
    if way.there is None and way.here is None:
        words = "they meet at a relay: neither has an address"
        return way.checked("direction", NetworkHealth.GOOD, words)
    words = (
        f"this party dials it at {way.there}"
        if way.calls
        else f"it dials this party at {way.here}"
    )
    return way.checked("direction", NetworkHealth.GOOD, words)


def _advise_neighbour_not_called(
    way: NeighbourWay, tried: ConnectionLook | None
) -> NetworkCheck:
    """Return what to do about a neighbour that is to call, and has not."""
    if way.here is None:
        return _advise_neighbour_not_met(way, tried)
    detail = f"waits for {way.name} to dial {way.here}; {way.listening}"
    if tried is not None:
        detail += f"; calling it instead: {tried.trouble}"
    if way.relayed:
        detail += f"; {way.relayed}"
    advice = (
        f"ask {way.name} to {_START} now; if it does, ask IT to let inbound TCP "
        f"{way.here.port} through to this machine"
    )
    return way.checked("call", NetworkHealth.OPEN, detail, advice)


def _advise_neighbour_not_met(
    way: NeighbourWay, tried: ConnectionLook | None
) -> NetworkCheck:
    """Return what to do about a neighbour that was nowhere to be met."""
    called = "" if tried is None else f"calling it fails ({tried.trouble}); "
    detail = f"{called}{way.relayed}"
    return way.checked(
        "relay", NetworkHealth.OPEN, detail, f"ask {way.name} to {_START} now"
    )


def _advise_link_over_relay(
    way: NeighbourWay, best: ConnectionLook, looks: Sequence[ConnectionLook]
) -> NetworkCheck:
    """Say why a link is not a direct one."""
    direct = [one.trouble for one in looks if not one.relay]
    why = f"calling it fails ({direct[0]})" if direct else "it has not called"
    if way.there is None and way.here is None:
        why = "neither has an address"
    return way.checked("way", NetworkHealth.GOOD, f"over the relay {best.relay}: {why}")


def _advise_other_connection(
    way: NeighbourWay, looks: Sequence[ConnectionLook]
) -> NetworkCheck:
    failed = next((one.trouble for one in looks if not one.through), "")
    words = (
        f"calling it fails ({failed}), but it reaches this party: that is enough"
        if way.calls
        else "it has not called, but this party reaches it: that is enough"
    )
    return way.checked("way", NetworkHealth.GOOD, words)


def _checks_before_hello(way: NeighbourWay, look: ConnectionLook) -> list[NetworkCheck]:
    """Return what went well before the hello."""
    found = []
    if look.stage > ConnectionStage.TCP:
        words = f"it answers at {look.place}"
        if not look.dialled and not look.relay:
            words = f"it called this party from {look.address}"
        found.append(way.checked("TCP", NetworkHealth.GOOD, words))
    if look.stage > ConnectionStage.TLS:
        words = f"TLS 1.3, the one in the consortium file, {way.lifetime}"
        found.append(way.checked("certificate", NetworkHealth.GOOD, words))
    return found


# What was said


def _checks_of_hello(
    way: NeighbourWay, look: ConnectionLook, clock_skew: float
) -> list[NetworkCheck]:
    """Return what a neighbour's hello shows."""
    hello, own = look.hello, look.own
    assert hello is not None
    assert own is not None
    words = f"protocol {hello.protocol}, version {hello.version}"
    greeted = way.checked("hello", NetworkHealth.GOOD, words)
    if look.refusal is not None and look.refusal.code in _WRONG_PARTY:
        greeted = _check_ended_connection(way, look)
    return [
        greeted,
        _check_same_agreement(way, hello, own),
        _check_neighbour_clock(way, hello, own, clock_skew),
    ]


def _check_same_agreement(way: NeighbourWay, hello: Hello, own: Hello) -> NetworkCheck:
    if hello.consortium == own.consortium:
        words = "it holds the same consortium file"
        return way.checked("agreement", NetworkHealth.GOOD, words)
    sections = listed_names(sections_unlike_peer(hello.sections, own.sections))
    detail = f"its consortium file differs from this party's in: {sections}"
    return way.checked("agreement", NetworkHealth.BAD, detail, _ONE_FILE)


def _check_neighbour_clock(
    way: NeighbourWay, hello: Hello, own: Hello, clock_skew: float
) -> NetworkCheck:
    # Written so that no number at all is too far as well.
    if (gap := abs(hello.time - own.time)) <= clock_skew:
        words = f"{gap:.1f} s from this party's"
        return way.checked("clock", NetworkHealth.GOOD, words)
    return way.checked(
        "clock", NetworkHealth.BAD, peer_clock_skew(hello, own), _SET_CLOCK
    )


# What failed


def _check_ended_connection(way: NeighbourWay, look: ConnectionLook) -> NetworkCheck:
    """Return why a connection ended before it could be used."""
    if look.error is None:
        assert look.refusal is not None
        if look.stage is ConnectionStage.TLS:
            advice = f"ask {way.name} where it is called: another member answers there"
            return way.checked("certificate", NetworkHealth.BAD, look.trouble, advice)
        advice = _AFTER_REFUSAL.get(look.refusal.code, _advise_asking_again(way))
        return way.checked("hello", NetworkHealth.BAD, look.trouble, advice)
    check = {ConnectionStage.NAME: "name", ConnectionStage.HELLO: "hello"}.get(
        look.stage, look.stage.name
    )
    return way.checked(
        check, NetworkHealth.BAD, look.trouble, _connection_advice(way, look)
    )


def _connection_advice(way: NeighbourWay, look: ConnectionLook) -> str:
    """Return what to do about a call that nobody, or nobody right, answered."""
    if look.relay or way.there is None:
        return (
            _advise_mending_tls(way, look)
            if look.stage is ConnectionStage.TLS
            else _advise_asking_again(way)
        )
    if look.stage is ConnectionStage.NAME:
        return (
            f"ask {way.name} whether {way.there.host} is right; if it is, ask IT why "
            "this machine cannot look it up (DNS)"
        )
    if look.stage is ConnectionStage.TCP:
        if isinstance(look.error, ProxyError):
            return look.error.advice(way.name, _START)
        host, port = way.there.host, f"TCP {way.there.port}"
        wanted = f"ask IT for: outbound {port} to {host} here, inbound {port} there"
        if isinstance(look.error, ConnectionRefusedError):
            return f"ask {way.name} to {_START} now; if it does, {wanted}"
        return wanted
    return (
        _advise_mending_tls(way, look)
        if look.stage is ConnectionStage.TLS
        else _advise_asking_again(way)
    )


def _advise_mending_tls(way: NeighbourWay, look: ConnectionLook) -> str:
    there = f"the relay {look.relay}" if look.relay else way.there
    error, untouched = look.error, f"ask IT to let TLS to {there} through untouched"
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _DATES:
            return f"set the clocks right, or ask {way.name} for a new certificate"
        right = certificate_fingerprint(way.certificate)
        return f"ask {way.name} whether its certificate is {right}; if so, {untouched}"
    mistaken = f"{way.name} may have another certificate of this party"
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return f"{_COMPARE}: {mistaken}"
    if isinstance(error, ConnectionError | EOFError):
        # What the other end says last is often lost with the connection.
        return f"ask {way.name} what its log says: {mistaken}; if nothing, {untouched}"
    return f"ask {way.name} what listens there, and {untouched}"


def _advise_asking_again(way: NeighbourWay) -> str:
    return f"ask {way.name} what its log says, and to {_START} again"


# A person waits: shorter than in a run.
LIMITS = ConnectionLimits(open_timeout=5.0, hello_timeout=5.0, close_timeout=1.0)
# Seconds before somebody who did not answer is called again.
PAUSE = 0.5


async def check_network_health(
    key_file: Path,
    agreed: Consortium,
    *,
    wait: float = 10.0,
    listen: Address | None = None,
    token: str | None = None,
    limits: ConnectionLimits = LIMITS,
    clock: Callable[[], float] = time.time,
) -> NetworkCheckup:
    """Look at everything that a party needs to meet its neighbours.

    Args:
        key_file: the party's key; its certificate is beside it.
        agreed: the consortium.
        wait: seconds to listen for callers, and to try again who does not answer.
        listen: where to listen, if it is not where the others call.
        token: what admits the party to the consortium's relays.
        limits: sizes and waits of one connection.
        clock: the time of day.
    """
    about = {"run": agreed.run, "consortium": agreed.digest.hex()}
    try:
        identity = read_identity(key_file)
    except InvalidInputError as error:
        check = NetworkCheck(key_file.stem, "key", NetworkHealth.BAD, str(error))
        return NetworkCheckup(party=key_file.stem, checks=(check,), **about)
    doctor = NetworkDoctor(
        identity=identity,
        agreed=agreed,
        listen=listen,
        wait=wait,
        limits=limits,
        clock=clock,
        token=token,
    )
    checks = await doctor.look()
    return NetworkCheckup(party=identity.name, checks=tuple(checks), **about)


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkDoctor(Secret):
    """One party's look around; see `check_network_health`.

    Attributes:
        seen: the neighbours that have called.
        strangers: callers that did not get through TLS: address and reason.
        listening: how it is with this party's own port, for a person.
        relays: what was wrong with a relay; None if it admits this party.
    """

    identity: Identity
    agreed: Consortium
    listen: Address | None
    wait: float
    limits: ConnectionLimits
    clock: Callable[[], float]
    token: str | None = None
    seen: dict[str, ConnectionLook] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    listening: str = "this party does not listen"
    relays: dict[ConsortiumRelay, BaseException | None] = field(default_factory=dict)

    @property
    def me(self) -> str:
        return self.identity.name

    @cached_property
    def own(self) -> Hello:
        """This party's hello, but for whom and when: it has no plan."""
        return own_handshake_hello(self.me, self.agreed, b"")

    async def look(self) -> list[NetworkCheck]:
        """Look at this party's own things, then at its neighbours."""
        certified = self._certificate()
        found = [self._key(), certified]
        if self.me not in self.agreed.certificates:
            return found
        door, port = await self._opened()
        found.append(port)
        try:
            if certified.state is NetworkHealth.BAD:
                return found
            called = await self._around(door)
        finally:
            await door.close()
        near = [check for name in called for check in self._about(name, called[name])]
        relays = self._relay_checks()
        return [*found, *relays, *self._turned_away_checks(near), *near]

    # This party

    def _checked(
        self, check: str, state: NetworkHealth, detail: str, advice: str = ""
    ) -> NetworkCheck:
        return NetworkCheck(self.me, check, state, detail, advice)

    def _key(self) -> NetworkCheck:
        mode = stat.S_IMODE(self.identity.key_file.stat().st_mode)
        words = f"{self.identity.key_file} is its owner's only (mode {mode:04o})"
        return self._checked("key", NetworkHealth.GOOD, words)

    def _certificate(self) -> NetworkCheck:
        try:
            check_certified_member(self.identity, self.agreed.certificates)
        except InvalidInputError as error:
            return self._checked("certificate", NetworkHealth.BAD, str(error))
        words = (
            "the one in the consortium file, "
            f"{_certificate_lifetime_words(self.identity.certificate)}"
        )
        return self._checked("certificate", NetworkHealth.GOOD, words)

    async def _opened(self) -> tuple[SocketDoor, NetworkCheck]:
        """Listen where a run would; return what came of it."""
        context = tls_server_context(self.identity, self.agreed.certificates)
        door = SocketDoor(context, self.limits, self._turned_away)
        place = self.listen or self.agreed.member(self.me).address
        if place is None:
            words = "none is needed: this party only dials"
            return door, self._checked("port", NetworkHealth.GOOD, words)
        try:
            await door.open(place, self._answer)
        except OSError as error:
            return door, await self._not_opened(place, error)
        self.listening = f"it has not within {self.wait:g} s"
        words = f"TCP {place.port} can be listened at ({place})"
        return door, self._checked("port", NetworkHealth.GOOD, words)

    async def _not_opened(self, place: Address, error: OSError) -> NetworkCheck:
        if error.errno == errno.EADDRINUSE and await self._is_own(place):
            self.listening = "the veilsum that runs here already knows whether it has"
            words = f"this party's own veilsum listens at {place} already"
            return self._checked("port", NetworkHealth.GOOD, words)
        self.listening = "this party cannot listen"
        return self._checked(
            "port", NetworkHealth.BAD, str(connection_listening_refused(place, error))
        )

    async def _is_own(self, place: Address) -> bool:
        """Say whether whoever listens at a place holds this party's key."""
        context = _doctor_hello_for_itself(self.identity)
        host = "localhost" if is_any_address(place.host) else place.host
        try:
            async with asyncio.timeout(self.limits.open_timeout):
                opening = asyncio.open_connection(host, place.port, ssl=context)
                _, writer = await opening
        except OSError:
            return False
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    # Calling

    async def _around(self, door: SocketDoor) -> dict[str, list[ConnectionLook]]:
        """Call and be called; return the calls to each neighbour."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.wait
        near = self.agreed.topology.neighbours(self.me)
        direct = asyncio.gather(*(self._reach(name, end) for name in near))
        over = asyncio.gather(*(self._over(name, end, door) for name in near))
        calls = [a + b for a, b in zip(await direct, await over, strict=True)]
        if door.ports:
            await asyncio.sleep(end - loop.time())
        return dict(zip(near, calls, strict=True))

    async def _reach(self, name: str, end: float) -> list[ConnectionLook]:
        """Call a neighbour until it answers or the time is over."""
        member, loop = self.agreed.member(name), asyncio.get_running_loop()
        if (
            member.address is None
            or certificate_out_of_date(member.certificate) is not None
        ):
            return []
        while True:
            look = await self._call(name, member.address)
            if not look.unreached or loop.time() + PAUSE > end:
                return [look]
            await asyncio.sleep(PAUSE)

    async def _over(
        self, name: str, end: float, door: SocketDoor
    ) -> list[ConnectionLook]:
        """Look for a neighbour at every relay, until the time is over."""
        agreed = self.agreed
        if agreed.relays is None or self.token is None:
            return []
        if certificate_out_of_date(agreed.member(name).certificate) is not None:
            return []
        tunnels = RelayTunnels(
            agreed=agreed, me=self.me, token=self.token, limits=self.limits
        )
        tries = (self._met(tunnels, one, name, end, door) for one in tunnels.places)
        return [look for look in await asyncio.gather(*tries) if look is not None]

    async def _met(
        self,
        tunnels: RelayTunnels,
        relay: ConsortiumRelay,
        name: str,
        end: float,
        door: SocketDoor,
    ) -> ConnectionLook | None:
        """Meet a neighbour at one relay, if it comes."""
        wait = max(end - asyncio.get_running_loop().time(), 1.0)
        calls = self.agreed.dials(self.me, name)
        look = ConnectionLook(
            name=name, address=str(relay.address), dialled=calls, relay=str(relay)
        )
        try:
            met = await tunnels.join(
                relay,
                name,
                wait=wait,
                look=True,
                note=lambda _: self.relays.update({relay: None}),
            )
        except UNJOINED as error:
            self.relays.setdefault(relay, error)
            return None
        if not calls:
            found = [
                dataclasses.replace(look, stage=ConnectionStage.TLS, error=EOFError())
            ]

            async def hold(connection: AnsweredSocket) -> float:
                found[:] = [await self._greeted(connection, look)]
                return 0.0

            await answer_through_relay(met, door, self.limits, hold)
            return found[0]
        context = tls_client_context(self.identity, self.agreed.certificates)
        try:
            connection = await dial_through_relay(met, context, self.limits)
        except UNANSWERED as error:
            stage = _stage_of_ended_call(ConnectionStage.TLS, error)
            return dataclasses.replace(look, stage=stage, error=error)
        try:
            return await self._greeted(connection, look)
        finally:
            connection.transport.abort()

    def _relay_checks(self) -> list[NetworkCheck]:
        agreed = self.agreed.relays
        if agreed is None:
            return []
        if self.token is None:
            alone = self.agreed.only_relayed(self.me)
            words = "there is no token here that admits this party to the relay"
            advice = (
                f"ask the organiser for it, and keep it as {TOKEN_FILE} beside the key"
            )
            state = NetworkHealth.BAD if alone else NetworkHealth.OPEN
            return [self._checked("relay", state, words, advice)]
        return [self._relay_check(one, self.relays.get(one)) for one in agreed.places]

    def _relay_check(
        self, relay: ConsortiumRelay, error: BaseException | None
    ) -> NetworkCheck:
        if error is None:
            words = f"{relay} answers, and admits this party"
            return self._checked("relay", NetworkHealth.GOOD, words)
        words, place = relay_failure(relay, error), relay.address
        if isinstance(error, RelayError):
            if error.is_own:
                return self._checked("relay", NetworkHealth.GOOD, words)
            advice = "ask whoever hosts it whether it admits the consortium's token"
        elif isinstance(error, ProxyError):
            advice = error.advice("whoever hosts the relay", "start it")
        else:
            advice = (
                f"ask IT for outbound TCP {place.port} to {place.host}; ask whoever "
                "hosts the relay whether it runs"
            )
        # One is enough.
        others = [one for one, why in self.relays.items() if why is None]
        state = NetworkHealth.OPEN if others else NetworkHealth.BAD
        return self._checked("relay", state, words, advice)

    def _relayed(self, name: str) -> str:
        """Say what came of a neighbour at the relays, if there are any."""
        if self.agreed.relays is None:
            return ""
        there = [str(one) for one, why in self.relays.items() if why is None]
        if not there:
            return "no relay could be used"
        words = f"{name} has not come to the relay {' or '.join(there)}"
        nowhere_else = name in self.agreed.only_relayed(self.me)
        return words if nowhere_else else f"{words} either"

    async def _call(self, name: str, address: Address) -> ConnectionLook:
        """Call once, step by step on one connection."""
        proxied = proxy_for_address(address) is not None
        look = ConnectionLook(
            name=name, address=str(address), dialled=True, proxied=proxied
        )
        try:
            connection = await self._dialled(address, look)
        except _EndedError as ended:
            return dataclasses.replace(look, stage=ended.stage, error=ended.error)
        try:
            return await self._greeted(connection, look)
        finally:
            connection.transport.abort()

    async def _dialled(self, address: Address, look: ConnectionLook) -> SocketWire:
        """Return a connection under TLS, or say in which step that failed."""
        stage, over = ConnectionStage.NAME, None
        try:
            if not look.proxied:
                loop = asyncio.get_running_loop()
                places = await loop.getaddrinfo(
                    address.host, address.port, type=SOCK_STREAM
                )
                stage = ConnectionStage.TCP
                over = await _connect_for_doctor(places, self.limits.open_timeout)
            stage = ConnectionStage.TLS
            context = tls_client_context(self.identity, self.agreed.certificates)
            return await dial_peer(address, context, self.limits, over=over)
        except UNANSWERED as error:
            raise _EndedError(_stage_of_ended_call(stage, error), error) from None

    async def _answer(self, connection: AnsweredSocket) -> None:
        """Look at a connection that somebody else made."""
        name = self._holder(connection)
        if name not in self.agreed.topology.neighbours(self.me):
            await connection.close(ConnectionClose.STRANGER, "no neighbour")
            return
        place = caller_address(connection.transport)
        look = await self._greeted(
            connection, ConnectionLook(name=name, address=place, dialled=False)
        )
        if name not in self.seen or not self.seen[name].through:
            self.seen[name] = look

    def _holder(self, connection: SocketWire) -> str:
        """Return whose certificate a connection was made with."""
        return (
            certificate_owner(peer_certificate(connection), self.agreed.certificates)
            or ""
        )

    async def _greeted(
        self, connection: SocketWire, look: ConnectionLook
    ) -> ConnectionLook:
        """Exchange hellos, close, and return what they showed."""
        holder = self._holder(connection)
        if holder == look.name:
            found = await self._exchanged(connection, look)
        else:
            why = f"it has the certificate of {holder!r}"
            ended = HandshakeRefusal(ConnectionClose.CERTIFICATE, why)
            found = dataclasses.replace(look, stage=ConnectionStage.TLS, refusal=ended)
        assert found.refusal is not None, "without a plan nothing leads to a link"
        reason = connection_close_reason(found.refusal.reason)
        await connection.close(found.refusal.code, reason)
        return found

    async def _exchanged(
        self, connection: SocketWire, look: ConnectionLook
    ) -> ConnectionLook:
        own = hello_to_peer(self.own, to=look.name, time=self.clock())
        heard = await exchange_hellos(connection, own, self.limits)
        own = hello_to_peer(own, to=look.name, time=self.clock())
        found = dataclasses.replace(look, stage=ConnectionStage.HELLO, own=own)
        if isinstance(heard, HandshakeRefusal):
            return dataclasses.replace(found, refusal=heard)
        ended = refusal_of_hello(heard, own, look.name, self.limits)
        return dataclasses.replace(found, hello=heard, refusal=ended)

    def _turned_away(self, address: str, error: BaseException) -> None:
        """Keep what a caller without a good certificate was told."""
        if (
            isinstance(error, ssl.SSLError)
            and len(self.strangers) < self.limits.refusals
        ):
            self.strangers[socket_connection_failure(error)] = address

    # Conclusions

    def _about(self, name: str, calls: list[ConnectionLook]) -> list[NetworkCheck]:
        member = self.agreed.member(name)
        problem = certificate_out_of_date(member.certificate)
        if problem is not None:
            advice = f"ask {name} for one, and the organiser for a new consortium file"
            words = f"nobody accepts its certificate: {problem}"
            return [NetworkCheck(name, "certificate", NetworkHealth.BAD, words, advice)]
        way = NeighbourWay(
            name=name,
            certificate=member.certificate,
            lifetime=_certificate_lifetime_words(member.certificate),
            calls=self.agreed.dials(self.me, name),
            there=member.address,
            here=self.agreed.member(self.me).address,
            listening=self.listening,
            relayed=self._relayed(name),
        )
        seen = [self.seen[name]] if name in self.seen else []
        looks = [*calls, *seen] if way.calls else [*seen, *calls]
        return network_checks_of_neighbour(
            way, looks, clock_skew=self.limits.clock_skew
        )

    def _turned_away_checks(self, near: list[NetworkCheck]) -> list[NetworkCheck]:
        """Return who was refused, if somebody who was to call has not come."""
        missing = [one.about for one in near if one.state is NetworkHealth.OPEN]
        if not missing:
            return []
        advice = (
            f"if it was {listed_names(missing)}, compare fingerprints and the digests "
            "of the "
            "files by telephone"
        )
        return [
            self._checked(
                "caller", NetworkHealth.BAD, f"refused {address}: {why}", advice
            )
            for why, address in self.strangers.items()
        ]


class _EndedError(Exception):
    """A call that ended before anything was said."""

    def __init__(self, stage: ConnectionStage, error: BaseException) -> None:
        super().__init__(stage)
        self.stage, self.error = stage, error


def _stage_of_ended_call(
    stage: ConnectionStage, error: BaseException
) -> ConnectionStage:
    """Return where a call ended, as far as the error tells more than the step."""
    if isinstance(error, ProxyError):
        return ConnectionStage.TCP
    if stage is ConnectionStage.TLS and not isinstance(error, OSError | EOFError):
        return ConnectionStage.HELLO
    return stage


async def _connect_for_doctor(places: list[Any], seconds: float) -> socket:
    """Return a connection with the first place that takes one."""
    failed: OSError | None = None
    for family, kind, protocol, _, place in places:
        made = socket(family, kind, protocol)
        made.settimeout(0.0)  # never waits
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_connect(made, place)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failed or OSError(errno.EHOSTUNREACH, "no address")


def _doctor_hello_for_itself(identity: Identity) -> ssl.SSLContext:
    """Return how a party finds out whether it is itself who listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    # Who shows no certificate is a stranger, and logged as one.
    identity.show_in(context)
    context.load_verify_locations(cadata=identity.certificate)
    return context


def _certificate_lifetime_words(text: str) -> str:
    end = certificate_validity(text)[1]
    left = (end - datetime.now(UTC)).days
    return f"good until {end:%Y-%m-%d} ({left} days left)"
