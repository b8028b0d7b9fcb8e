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

from veilsum.consortium.addresses import Address, Relay, is_anywhere
from veilsum.consortium.consortium import Consortium
from veilsum.errors import InvalidInputError
from veilsum.net.entrance import caller_address
from veilsum.net.handshake import (
    Close,
    Hello,
    Limits,
    Refusal,
    close_reason,
    hello_to_peer,
    peer_clock_skew,
    refusal_of_hello,
    sections_unlike_peer,
)
from veilsum.net.identity import (
    Identity,
    certificate_out_of_date,
    certificate_validity,
    fingerprint,
    read_identity,
)
from veilsum.net.links import exchange_hellos, listening_refused, own_hello
from veilsum.net.relay_tokens import TOKEN_FILE
from veilsum.net.sockets import (
    UNANSWERED,
    Answered,
    Door,
    ProxyError,
    Wire,
    call_failure,
    connection_failure,
    dial_peer,
    peer_certificate,
    proxy_for,
)
from veilsum.net.trust import (
    certificate_owner,
    check_member,
    client_context,
    server_context,
)
from veilsum.net.tunnel import (
    UNJOINED,
    RelayError,
    Tunnels,
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
    int(Close.MALFORMED): _ONE_VERSION,
    int(Close.PROTOCOL): _ONE_VERSION,
    int(Close.CERTIFICATE): _ONE_FILE,
    int(Close.STRANGER): _ONE_FILE,
    int(Close.AGREEMENT): _ONE_FILE,
    int(Close.CLOCK): _SET_CLOCK,
}
_WRONG_PARTY = frozenset({Close.CERTIFICATE, Close.STRANGER})
# What OpenSSL calls a certificate that is not good yet, and one that no longer is.
_DATES = frozenset({9, 10})


class Health(StrEnum):
    GOOD = "good"
    BAD = "bad"
    OPEN = "open"  # nothing was seen that says either


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        advice: what to do, if something is.
    """

    about: str
    check: str
    state: Health
    detail: str
    advice: str = ""


@dataclass(frozen=True)
class Checkup:
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
    checks: tuple[Check, ...]

    @property
    def good(self) -> bool:
        """Whether nothing is wrong; something may not have been seen."""
        return all(check.state is not Health.BAD for check in self.checks)

    @property
    def summary(self) -> str:
        bad = sum(check.state is Health.BAD for check in self.checks)
        unseen = {one.about: None for one in self.checks if one.state is Health.OPEN}
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


class Stage(IntEnum):
    """How far a connection came."""

    NAME = 0  # looking up the host
    TCP = 1
    TLS = 2
    HELLO = 3


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one connection with a neighbour has shown.

    Attributes:
        address: what was called, or who called from where.
        dialled: whether this party called.
        stage: where it ended.
        error: what it ended with before anything was said.
        hello: what the neighbour said.
        own: what this party said, at the time it heard that.
        refusal: how it ended after TLS; `Close.DONE` if nothing was wrong.
        proxied: whether it went through a proxy.
        relay: the relay that it went over, if it did.
    """

    name: str
    address: str
    dialled: bool
    stage: Stage = Stage.NAME
    error: BaseException | None = None
    hello: Hello | None = None
    own: Hello | None = None
    refusal: Refusal | None = None
    proxied: bool = False
    relay: str = ""

    @property
    def through(self) -> bool:
        """Whether a run could use such a connection."""
        done = self.refusal is not None and self.refusal.code == Close.DONE
        return done and self.hello is not None

    @property
    def unreached(self) -> bool:
        """Whether nobody answered at all."""
        return self.error is not None and self.stage <= Stage.TCP

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
        if self.stage is Stage.NAME:
            return f"no such host: {self.address}"
        return call_failure(self.error, self.place)


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a neighbour and this party are to meet.

    Attributes:
        certificate: the neighbour's, from the file.
        lifetime: how long that is good, in words.
        there: where the neighbour is called, if it is.
        here: where this party is called, if it is.
        listening: how it is with that place just now.
        relayed: how it is with the relays, if there are any.
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
        self, check: str, state: Health, detail: str, advice: str = ""
    ) -> Check:
        return Check(self.name, check, state, detail, advice)


def neighbour_checks(
    way: Way, looks: Sequence[Look], *, clock_skew: float
) -> list[Check]:
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
        return [_direction(way), _not_called(way, best)]
    if best.unreached and way.relayed:
        return [_direction(way), *_reached(way, best), _not_met(way, best)]
    if best.hello is None:
        return [_direction(way), *_reached(way, best), _ended(way, best)]
    found = [_direction(way), *_reached(way, best), *_said(way, best, clock_skew)]
    if best.through and best.relay:
        found.append(_over_relay(way, best, looks))
    elif best.through and best.dialled is not way.calls:
        found.append(_other_way(way, looks))
    elif best.through and way.relayed:
        found.append(way.checked("way", Health.GOOD, "direct: no relay is needed"))
    return found


def _direction(way: Way) -> Check:
    if way.there is None and way.here is None:
        words = "they meet at a relay: neither has an address"
        return way.checked("direction", Health.GOOD, words)
    words = (
        f"this party dials it at {way.there}"
        if way.calls
        else f"it dials this party at {way.here}"
    )
    return way.checked("direction", Health.GOOD, words)


def _not_called(way: Way, tried: Look | None) -> Check:
    """Return what to do about a neighbour that is to call, and has not."""
    if way.here is None:
        return _not_met(way, tried)
    detail = f"waits for {way.name} to dial {way.here}; {way.listening}"
    if tried is not None:
        detail += f"; calling it instead: {tried.trouble}"
    if way.relayed:
        detail += f"; {way.relayed}"
    advice = (
        f"ask {way.name} to {_START} now; if it does, ask IT to let inbound TCP "
        f"{way.here.port} through to this machine"
    )
    return way.checked("call", Health.OPEN, detail, advice)


def _not_met(way: Way, tried: Look | None) -> Check:
    """Return what to do about a neighbour that was nowhere to be met."""
    called = "" if tried is None else f"calling it fails ({tried.trouble}); "
    detail = f"{called}{way.relayed}"
    return way.checked("relay", Health.OPEN, detail, f"ask {way.name} to {_START} now")


def _over_relay(way: Way, best: Look, looks: Sequence[Look]) -> Check:
    """Say why a link is not a direct one."""
    direct = [one.trouble for one in looks if not one.relay]
    why = f"calling it fails ({direct[0]})" if direct else "it has not called"
    if way.there is None and way.here is None:
        why = "neither has an address"
    return way.checked("way", Health.GOOD, f"over the relay {best.relay}: {why}")


def _other_way(way: Way, looks: Sequence[Look]) -> Check:
    failed = next((one.trouble for one in looks if not one.through), "")
    words = (
        f"calling it fails ({failed}), but it reaches this party: that is enough"
        if way.calls
        else "it has not called, but this party reaches it: that is enough"
    )
    return way.checked("way", Health.GOOD, words)


def _reached(way: Way, look: Look) -> list[Check]:
    """Return what went well before the hello."""
    found = []
    if look.stage > Stage.TCP:
        words = f"it answers at {look.place}"
        if not look.dialled and not look.relay:
            words = f"it called this party from {look.address}"
        found.append(way.checked("TCP", Health.GOOD, words))
    if look.stage > Stage.TLS:
        words = f"TLS 1.3, the one in the consortium file, {way.lifetime}"
        found.append(way.checked("certificate", Health.GOOD, words))
    return found


# What was said


def _said(way: Way, look: Look, clock_skew: float) -> list[Check]:
    """Return what a neighbour's hello shows."""
    hello, own = look.hello, look.own
    assert hello is not None
    assert own is not None
    words = f"protocol {hello.protocol}, version {hello.version}"
    greeted = way.checked("hello", Health.GOOD, words)
    if look.refusal is not None and look.refusal.code in _WRONG_PARTY:
        greeted = _ended(way, look)
    return [greeted, _agreement(way, hello, own), _clock(way, hello, own, clock_skew)]


def _agreement(way: Way, hello: Hello, own: Hello) -> Check:
    if hello.consortium == own.consortium:
        words = "it holds the same consortium file"
        return way.checked("agreement", Health.GOOD, words)
    sections = listed_names(sections_unlike_peer(hello.sections, own.sections))
    detail = f"its consortium file differs from this party's in: {sections}"
    return way.checked("agreement", Health.BAD, detail, _ONE_FILE)


def _clock(way: Way, hello: Hello, own: Hello, clock_skew: float) -> Check:
    # Written so that no number at all is too far as well.
    if (gap := abs(hello.time - own.time)) <= clock_skew:
        words = f"{gap:.1f} s from this party's"
        return way.checked("clock", Health.GOOD, words)
    return way.checked("clock", Health.BAD, peer_clock_skew(hello, own), _SET_CLOCK)


# What failed


def _ended(way: Way, look: Look) -> Check:
    """Return why a connection ended before it could be used."""
    if look.error is None:
        assert look.refusal is not None
        if look.stage is Stage.TLS:
            advice = f"ask {way.name} where it is called: another member answers there"
            return way.checked("certificate", Health.BAD, look.trouble, advice)
        advice = _AFTER_REFUSAL.get(look.refusal.code, _ask_again(way))
        return way.checked("hello", Health.BAD, look.trouble, advice)
    check = {Stage.NAME: "name", Stage.HELLO: "hello"}.get(look.stage, look.stage.name)
    return way.checked(check, Health.BAD, look.trouble, _advice(way, look))


def _advice(way: Way, look: Look) -> str:
    """Return what to do about a call that nobody, or nobody right, answered."""
    if look.relay or way.there is None:
        return _mend_tls(way, look) if look.stage is Stage.TLS else _ask_again(way)
    if look.stage is Stage.NAME:
        return (
            f"ask {way.name} whether {way.there.host} is right; if it is, ask IT why "
            "this machine cannot look it up (DNS)"
        )
    if look.stage is Stage.TCP:
        if isinstance(look.error, ProxyError):
            return look.error.advice(way.name, _START)
        host, port = way.there.host, f"TCP {way.there.port}"
        wanted = f"ask IT for: outbound {port} to {host} here, inbound {port} there"
        if isinstance(look.error, ConnectionRefusedError):
            return f"ask {way.name} to {_START} now; if it does, {wanted}"
        return wanted
    return _mend_tls(way, look) if look.stage is Stage.TLS else _ask_again(way)


def _mend_tls(way: Way, look: Look) -> str:
    there = f"the relay {look.relay}" if look.relay else way.there
    error, untouched = look.error, f"ask IT to let TLS to {there} through untouched"
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _DATES:
            return f"set the clocks right, or ask {way.name} for a new certificate"
        right = fingerprint(way.certificate)
        return f"ask {way.name} whether its certificate is {right}; if so, {untouched}"
    mistaken = f"{way.name} may have another certificate of this party"
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return f"{_COMPARE}: {mistaken}"
    if isinstance(error, ConnectionError | EOFError):
        # What the other end says last is often lost with the connection.
        return f"ask {way.name} what its log says: {mistaken}; if nothing, {untouched}"
    return f"ask {way.name} what listens there, and {untouched}"


def _ask_again(way: Way) -> str:
    return f"ask {way.name} what its log says, and to {_START} again"


# A person waits: shorter than in a run.
LIMITS = Limits(open_timeout=5.0, hello_timeout=5.0, close_timeout=1.0)
# Seconds before somebody who did not answer is called again.
PAUSE = 0.5


async def check_network_health(
    key_file: Path,
    agreed: Consortium,
    *,
    wait: float = 10.0,
    listen: Address | None = None,
    token: str | None = None,
    limits: Limits = LIMITS,
    clock: Callable[[], float] = time.time,
) -> Checkup:
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
        check = Check(key_file.stem, "key", Health.BAD, str(error))
        return Checkup(party=key_file.stem, checks=(check,), **about)
    doctor = Doctor(
        identity=identity,
        agreed=agreed,
        listen=listen,
        wait=wait,
        limits=limits,
        clock=clock,
        token=token,
    )
    checks = await doctor.look()
    return Checkup(party=identity.name, checks=tuple(checks), **about)


@dataclass(eq=False, repr=False, kw_only=True)
class Doctor(Secret):
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
    limits: Limits
    clock: Callable[[], float]
    token: str | None = None
    seen: dict[str, Look] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    listening: str = "this party does not listen"
    relays: dict[Relay, BaseException | None] = field(default_factory=dict)

    @property
    def me(self) -> str:
        return self.identity.name

    @cached_property
    def own(self) -> Hello:
        """This party's hello, but for whom and when: it has no plan."""
        return own_hello(self.me, self.agreed, b"")

    async def look(self) -> list[Check]:
        """Look at this party's own things, then at its neighbours."""
        certified = self._certificate()
        found = [self._key(), certified]
        if self.me not in self.agreed.certificates:
            return found
        door, port = await self._opened()
        found.append(port)
        try:
            if certified.state is Health.BAD:
                return found
            called = await self._around(door)
        finally:
            await door.close()
        near = [check for name in called for check in self._about(name, called[name])]
        relays = self._relay_checks()
        return [*found, *relays, *self._turned_away_checks(near), *near]

    # This party

    def _checked(
        self, check: str, state: Health, detail: str, advice: str = ""
    ) -> Check:
        return Check(self.me, check, state, detail, advice)

    def _key(self) -> Check:
        mode = stat.S_IMODE(self.identity.key_file.stat().st_mode)
        words = f"{self.identity.key_file} is its owner's only (mode {mode:04o})"
        return self._checked("key", Health.GOOD, words)

    def _certificate(self) -> Check:
        try:
            check_member(self.identity, self.agreed.certificates)
        except InvalidInputError as error:
            return self._checked("certificate", Health.BAD, str(error))
        words = (
            f"the one in the consortium file, {_lifetime(self.identity.certificate)}"
        )
        return self._checked("certificate", Health.GOOD, words)

    async def _opened(self) -> tuple[Door, Check]:
        """Listen where a run would; return what came of it."""
        context = server_context(self.identity, self.agreed.certificates)
        door = Door(context, self.limits, self._turned_away)
        place = self.listen or self.agreed.member(self.me).address
        if place is None:
            words = "none is needed: this party only dials"
            return door, self._checked("port", Health.GOOD, words)
        try:
            await door.open(place, self._answer)
        except OSError as error:
            return door, await self._not_opened(place, error)
        self.listening = f"it has not within {self.wait:g} s"
        words = f"TCP {place.port} can be listened at ({place})"
        return door, self._checked("port", Health.GOOD, words)

    async def _not_opened(self, place: Address, error: OSError) -> Check:
        if error.errno == errno.EADDRINUSE and await self._is_own(place):
            self.listening = "the veilsum that runs here already knows whether it has"
            words = f"this party's own veilsum listens at {place} already"
            return self._checked("port", Health.GOOD, words)
        self.listening = "this party cannot listen"
        return self._checked("port", Health.BAD, str(listening_refused(place, error)))

    async def _is_own(self, place: Address) -> bool:
        """Say whether whoever listens at a place holds this party's key."""
        context = _asking_for(self.identity)
        host = "localhost" if is_anywhere(place.host) else place.host
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

    async def _around(self, door: Door) -> dict[str, list[Look]]:
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

    async def _reach(self, name: str, end: float) -> list[Look]:
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

    async def _over(self, name: str, end: float, door: Door) -> list[Look]:
        """Look for a neighbour at every relay, until the time is over."""
        agreed = self.agreed
        if agreed.relays is None or self.token is None:
            return []
        if certificate_out_of_date(agreed.member(name).certificate) is not None:
            return []
        tunnels = Tunnels(
            agreed=agreed, me=self.me, token=self.token, limits=self.limits
        )
        tries = (self._met(tunnels, one, name, end, door) for one in tunnels.places)
        return [look for look in await asyncio.gather(*tries) if look is not None]

    async def _met(
        self, tunnels: Tunnels, relay: Relay, name: str, end: float, door: Door
    ) -> Look | None:
        """Meet a neighbour at one relay, if it comes."""
        wait = max(end - asyncio.get_running_loop().time(), 1.0)
        calls = self.agreed.dials(self.me, name)
        look = Look(
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
            found = [dataclasses.replace(look, stage=Stage.TLS, error=EOFError())]

            async def hold(connection: Answered) -> float:
                found[:] = [await self._greeted(connection, look)]
                return 0.0

            await answer_through_relay(met, door, self.limits, hold)
            return found[0]
        context = client_context(self.identity, self.agreed.certificates)
        try:
            connection = await dial_through_relay(met, context, self.limits)
        except UNANSWERED as error:
            stage = _stage(Stage.TLS, error)
            return dataclasses.replace(look, stage=stage, error=error)
        try:
            return await self._greeted(connection, look)
        finally:
            connection.transport.abort()

    def _relay_checks(self) -> list[Check]:
        agreed = self.agreed.relays
        if agreed is None:
            return []
        if self.token is None:
            alone = self.agreed.only_relayed(self.me)
            words = "there is no token here that admits this party to the relay"
            advice = (
                f"ask the organiser for it, and keep it as {TOKEN_FILE} beside the key"
            )
            state = Health.BAD if alone else Health.OPEN
            return [self._checked("relay", state, words, advice)]
        return [self._relay_check(one, self.relays.get(one)) for one in agreed.places]

    def _relay_check(self, relay: Relay, error: BaseException | None) -> Check:
        if error is None:
            words = f"{relay} answers, and admits this party"
            return self._checked("relay", Health.GOOD, words)
        words, place = relay_failure(relay, error), relay.address
        if isinstance(error, RelayError):
            if error.is_own:
                return self._checked("relay", Health.GOOD, words)
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
        state = Health.OPEN if others else Health.BAD
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

    async def _call(self, name: str, address: Address) -> Look:
        """Call once, step by step on one connection."""
        proxied = proxy_for(address) is not None
        look = Look(name=name, address=str(address), dialled=True, proxied=proxied)
        try:
            connection = await self._dialled(address, look)
        except _EndedError as ended:
            return dataclasses.replace(look, stage=ended.stage, error=ended.error)
        try:
            return await self._greeted(connection, look)
        finally:
            connection.transport.abort()

    async def _dialled(self, address: Address, look: Look) -> Wire:
        """Return a connection under TLS, or say in which step that failed."""
        stage, over = Stage.NAME, None
        try:
            if not look.proxied:
                loop = asyncio.get_running_loop()
                places = await loop.getaddrinfo(
                    address.host, address.port, type=SOCK_STREAM
                )
                stage = Stage.TCP
                over = await _connected(places, self.limits.open_timeout)
            stage = Stage.TLS
            context = client_context(self.identity, self.agreed.certificates)
            return await dial_peer(address, context, self.limits, over=over)
        except UNANSWERED as error:
            raise _EndedError(_stage(stage, error), error) from None

    async def _answer(self, connection: Answered) -> None:
        """Look at a connection that somebody else made."""
        name = self._holder(connection)
        if name not in self.agreed.topology.neighbours(self.me):
            await connection.close(Close.STRANGER, "no neighbour")
            return
        place = caller_address(connection.transport)
        look = await self._greeted(
            connection, Look(name=name, address=place, dialled=False)
        )
        if name not in self.seen or not self.seen[name].through:
            self.seen[name] = look

    def _holder(self, connection: Wire) -> str:
        """Return whose certificate a connection was made with."""
        return (
            certificate_owner(peer_certificate(connection), self.agreed.certificates)
            or ""
        )

    async def _greeted(self, connection: Wire, look: Look) -> Look:
        """Exchange hellos, close, and return what they showed."""
        holder = self._holder(connection)
        if holder == look.name:
            found = await self._exchanged(connection, look)
        else:
            why = f"it has the certificate of {holder!r}"
            ended = Refusal(Close.CERTIFICATE, why)
            found = dataclasses.replace(look, stage=Stage.TLS, refusal=ended)
        assert found.refusal is not None, "without a plan nothing leads to a link"
        reason = close_reason(found.refusal.reason)
        await connection.close(found.refusal.code, reason)
        return found

    async def _exchanged(self, connection: Wire, look: Look) -> Look:
        own = hello_to_peer(self.own, to=look.name, time=self.clock())
        heard = await exchange_hellos(connection, own, self.limits)
        own = hello_to_peer(own, to=look.name, time=self.clock())
        found = dataclasses.replace(look, stage=Stage.HELLO, own=own)
        if isinstance(heard, Refusal):
            return dataclasses.replace(found, refusal=heard)
        ended = refusal_of_hello(heard, own, look.name, self.limits)
        return dataclasses.replace(found, hello=heard, refusal=ended)

    def _turned_away(self, address: str, error: BaseException) -> None:
        """Keep what a caller without a good certificate was told."""
        if (
            isinstance(error, ssl.SSLError)
            and len(self.strangers) < self.limits.refusals
        ):
            self.strangers[connection_failure(error)] = address

    # Conclusions

    def _about(self, name: str, calls: list[Look]) -> list[Check]:
        member = self.agreed.member(name)
        problem = certificate_out_of_date(member.certificate)
        if problem is not None:
            advice = f"ask {name} for one, and the organiser for a new consortium file"
            words = f"nobody accepts its certificate: {problem}"
            return [Check(name, "certificate", Health.BAD, words, advice)]
        way = Way(
            name=name,
            certificate=member.certificate,
            lifetime=_lifetime(member.certificate),
            calls=self.agreed.dials(self.me, name),
            there=member.address,
            here=self.agreed.member(self.me).address,
            listening=self.listening,
            relayed=self._relayed(name),
        )
        seen = [self.seen[name]] if name in self.seen else []
        looks = [*calls, *seen] if way.calls else [*seen, *calls]
        return neighbour_checks(way, looks, clock_skew=self.limits.clock_skew)

    def _turned_away_checks(self, near: list[Check]) -> list[Check]:
        """Return who was refused, if somebody who was to call has not come."""
        missing = [one.about for one in near if one.state is Health.OPEN]
        if not missing:
            return []
        advice = (
            f"if it was {listed_names(missing)}, compare fingerprints and the digests "
            "of the "
            "files by telephone"
        )
        return [
            self._checked("caller", Health.BAD, f"refused {address}: {why}", advice)
            for why, address in self.strangers.items()
        ]


class _EndedError(Exception):
    """A call that ended before anything was said."""

    def __init__(self, stage: Stage, error: BaseException) -> None:
        super().__init__(stage)
        self.stage, self.error = stage, error


def _stage(stage: Stage, error: BaseException) -> Stage:
    """Return where a call ended, as far as the error tells more than the step."""
    if isinstance(error, ProxyError):
        return Stage.TCP
    if stage is Stage.TLS and not isinstance(error, OSError | EOFError):
        return Stage.HELLO
    return stage


async def _connected(places: list[Any], seconds: float) -> socket:
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


def _asking_for(identity: Identity) -> ssl.SSLContext:
    """Return how a party finds out whether it is itself who listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    # Who shows no certificate is a stranger, and logged as one.
    identity.show_in(context)
    context.load_verify_locations(cadata=identity.certificate)
    return context


def _lifetime(text: str) -> str:
    end = certificate_validity(text)[1]
    left = (end - datetime.now(UTC)).days
    return f"good until {end:%Y-%m-%d} ({left} days left)"
