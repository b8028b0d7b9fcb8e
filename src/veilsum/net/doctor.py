"""Look at a party's connections before a run, or beside one.

A look is a connection like any other up to the hello. That has no plan, by which the
other end knows that nothing follows: it answers with its own hello and closes. No frame
of the protocol is sent, and no connection of a run loses its place.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import ssl
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from socket import SOCK_STREAM, socket
from typing import Any

from veilsum.agreement.consortium import Address, Consortium, is_anywhere
from veilsum.errors import InvalidInputError
from veilsum.net.checkup import (
    Check,
    Checkup,
    Look,
    Stage,
    State,
    Way,
    neighbour_checks,
)
from veilsum.net.hello import Close, Hello, Refusal, close_reason, refusal, said
from veilsum.net.identity import Identity, out_of_date, read_identity, validity
from veilsum.net.limits import Limits
from veilsum.net.meeting import exchanged
from veilsum.net.proxies import ProxyError, proxy_for
from veilsum.net.reasons import failure
from veilsum.net.sockets import (
    UNANSWERED,
    Answered,
    Door,
    Wire,
    caller,
    certificate,
    dial,
)
from veilsum.net.transport import cannot_listen, own_hello
from veilsum.net.trust import check_member, client_context, owner, server_context
from veilsum.numbers.arrays import listed
from veilsum.numbers.secrets import Secret

# A person waits: shorter than in a run.
LIMITS = Limits(open_timeout=5.0, hello_timeout=5.0, close_timeout=1.0)
# Seconds before somebody who did not answer is called again.
PAUSE = 0.5


async def check_up(
    key_file: Path,
    agreed: Consortium,
    *,
    wait: float = 10.0,
    listen: Address | None = None,
    limits: Limits = LIMITS,
    clock: Callable[[], float] = time.time,
) -> Checkup:
    """Look at everything that a party needs to meet its neighbours.

    Args:
        key_file: the party's key; its certificate is beside it.
        agreed: the consortium.
        wait: seconds to listen for callers, and to try again who does not answer.
        listen: where to listen, if it is not where the others call.
        limits: sizes and waits of one connection.
        clock: the time of day.
    """
    about = {"run": agreed.run, "consortium": agreed.digest.hex()}
    try:
        identity = read_identity(key_file)
    except InvalidInputError as error:
        check = Check(key_file.stem, "key", State.BAD, str(error))
        return Checkup(party=key_file.stem, checks=(check,), **about)
    doctor = Doctor(
        identity=identity,
        agreed=agreed,
        listen=listen,
        wait=wait,
        limits=limits,
        clock=clock,
    )
    checks = await doctor.look()
    return Checkup(party=identity.name, checks=tuple(checks), **about)


@dataclass(eq=False, repr=False, kw_only=True)
class Doctor(Secret):
    """One party's look around; see `check_up`.

    Attributes:
        seen: the neighbours that have called.
        strangers: callers that did not get through TLS: address and reason.
        listening: how it is with this party's own port, for a person.
    """

    identity: Identity
    agreed: Consortium
    listen: Address | None
    wait: float
    limits: Limits
    clock: Callable[[], float]
    seen: dict[str, Look] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    listening: str = "this party does not listen"

    @property
    def me(self) -> str:
        """This party's name."""
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
            if certified.state is State.BAD:
                return found
            called = await self._around(door)
        finally:
            await door.close()
        near = [check for name in called for check in self._about(name, called[name])]
        return [*found, *self._turned_away_checks(near), *near]

    # This party

    def _checked(
        self, check: str, state: State, detail: str, advice: str = ""
    ) -> Check:
        return Check(self.me, check, state, detail, advice)

    def _key(self) -> Check:
        mode = stat.S_IMODE(self.identity.key_file.stat().st_mode)
        words = f"{self.identity.key_file} is its owner's only (mode {mode:04o})"
        return self._checked("key", State.GOOD, words)

    def _certificate(self) -> Check:
        try:
            check_member(self.identity, self.agreed.certificates)
        except InvalidInputError as error:
            return self._checked("certificate", State.BAD, str(error))
        words = (
            f"the one in the consortium file, {_lifetime(self.identity.certificate)}"
        )
        return self._checked("certificate", State.GOOD, words)

    async def _opened(self) -> tuple[Door, Check]:
        """Listen where a run would; return what came of it."""
        context = server_context(self.identity, self.agreed.certificates)
        door = Door(context, self.limits, self._turned_away)
        place = self.listen or self.agreed.member(self.me).address
        if place is None:
            words = "none is needed: this party only dials"
            return door, self._checked("port", State.GOOD, words)
        try:
            await door.open(place, self._answer)
        except OSError as error:
            return door, await self._not_opened(place, error)
        self.listening = f"it has not within {self.wait:g} s"
        words = f"TCP {place.port} can be listened at ({place})"
        return door, self._checked("port", State.GOOD, words)

    async def _not_opened(self, place: Address, error: OSError) -> Check:
        if error.errno == errno.EADDRINUSE and await self._is_own(place):
            self.listening = "the veilsum that runs here already knows whether it has"
            words = f"this party's own veilsum listens at {place} already"
            return self._checked("port", State.GOOD, words)
        self.listening = "this party cannot listen"
        return self._checked("port", State.BAD, str(cannot_listen(place, error)))

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
        calls = await asyncio.gather(*(self._reach(name, end) for name in near))
        if door.ports:
            await asyncio.sleep(end - loop.time())
        return dict(zip(near, calls, strict=True))

    async def _reach(self, name: str, end: float) -> list[Look]:
        """Call a neighbour until it answers or the time is over."""
        member, loop = self.agreed.member(name), asyncio.get_running_loop()
        if member.address is None or out_of_date(member.certificate) is not None:
            return []
        while True:
            look = await self._call(name, member.address)
            if not look.unreached or loop.time() + PAUSE > end:
                return [look]
            await asyncio.sleep(PAUSE)

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
                places = await _looked_up(address)
                stage = Stage.TCP
                over = await _connected(places, self.limits.open_timeout)
            stage = Stage.TLS
            context = client_context(self.identity, self.agreed.certificates)
            return await dial(address, context, self.limits, over=over)
        except UNANSWERED as error:
            raise _EndedError(_stage(stage, error), error) from None

    async def _answer(self, connection: Answered) -> None:
        """Look at a connection that somebody else made."""
        name = self._holder(connection)
        if name not in self.agreed.topology.neighbours(self.me):
            await connection.close(Close.STRANGER, "no neighbour")
            return
        place = caller(connection.transport)
        look = await self._greeted(
            connection, Look(name=name, address=place, dialled=False)
        )
        if name not in self.seen or not self.seen[name].through:
            self.seen[name] = look

    def _holder(self, connection: Wire) -> str:
        """Return whose certificate a connection was made with."""
        return owner(certificate(connection), self.agreed.certificates) or ""

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
        own = said(self.own, to=look.name, time=self.clock())
        heard = await exchanged(connection, own, self.limits)
        own = said(own, to=look.name, time=self.clock())
        found = dataclasses.replace(look, stage=Stage.HELLO, own=own)
        if isinstance(heard, Refusal):
            return dataclasses.replace(found, refusal=heard)
        ended = refusal(heard, own, look.name, self.limits)
        return dataclasses.replace(found, hello=heard, refusal=ended)

    def _turned_away(self, address: str, error: BaseException) -> None:
        """Keep what a caller without a good certificate was told."""
        if (
            isinstance(error, ssl.SSLError)
            and len(self.strangers) < self.limits.refusals
        ):
            self.strangers[failure(error)] = address

    # Conclusions

    def _about(self, name: str, calls: list[Look]) -> list[Check]:
        member = self.agreed.member(name)
        problem = out_of_date(member.certificate)
        if problem is not None:
            advice = f"ask {name} for one, and the organiser for a new consortium file"
            words = f"nobody accepts its certificate: {problem}"
            return [Check(name, "certificate", State.BAD, words, advice)]
        way = Way(
            name=name,
            certificate=member.certificate,
            lifetime=_lifetime(member.certificate),
            calls=self.agreed.dials(self.me, name),
            there=member.address,
            here=self.agreed.member(self.me).address,
            listening=self.listening,
        )
        seen = [self.seen[name]] if name in self.seen else []
        looks = [*calls, *seen] if way.calls else [*seen, *calls]
        return neighbour_checks(way, looks, clock_skew=self.limits.clock_skew)

    def _turned_away_checks(self, near: list[Check]) -> list[Check]:
        """Return who was refused, if somebody who was to call has not come."""
        missing = [one.about for one in near if one.state is State.OPEN]
        if not missing:
            return []
        advice = (
            f"if it was {listed(missing)}, compare fingerprints and the digests of the "
            "files by telephone"
        )
        return [
            self._checked("caller", State.BAD, f"refused {address}: {why}", advice)
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


async def _looked_up(address: Address) -> list[Any]:
    loop = asyncio.get_running_loop()
    return await loop.getaddrinfo(address.host, address.port, type=SOCK_STREAM)


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
    context.load_cert_chain(identity.certificate_file, identity.key_file)
    context.load_verify_locations(cadata=identity.certificate)
    return context


def _lifetime(text: str) -> str:
    end = validity(text)[1]
    left = (end - datetime.now(UTC)).days
    return f"good until {end:%Y-%m-%d} ({left} days left)"
