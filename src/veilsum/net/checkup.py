"""What a look at a party's connections means, in words. Everything here is pure.

A problem says what was found and what to do, and names port and direction, so that it
can be passed on to whoever runs the network.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from veilsum.net.hello import Close, Hello, Refusal, differing, skew
from veilsum.net.identity import fingerprint
from veilsum.net.proxies import ProxyError
from veilsum.net.reasons import call_failure
from veilsum.numbers.arrays import listed

if TYPE_CHECKING:
    from veilsum.agreement.consortium import Address

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


class State(StrEnum):
    """How it is with one thing."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"  # nothing was seen that says either


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        about: the party that it is about.
        check: what was looked at.
        state: what came of it.
        detail: what was found.
        advice: what to do, if something is.
    """

    about: str
    check: str
    state: State
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
        return all(check.state is not State.BAD for check in self.checks)

    @property
    def summary(self) -> str:
        """The last line."""
        bad = sum(check.state is State.BAD for check in self.checks)
        unseen = {one.about: None for one in self.checks if one.state is State.OPEN}
        later = f"not seen yet: {listed(list(unseen))}" if unseen else ""
        if bad:
            problems = "1 problem" if bad == 1 else f"{bad} problems"
            return f"{problems}; {later}" if later else problems
        return f"nothing is wrong; {later}" if later else IN_ORDER

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
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
        name: the neighbour.
        address: what was called, or who called from where.
        dialled: whether this party called.
        stage: where it ended.
        error: what it ended with before anything was said.
        hello: what the neighbour said.
        own: what this party said, at the time it heard that.
        refusal: how it ended after TLS; `Close.DONE` if nothing was wrong.
        proxied: whether it went through a proxy.
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
        name: the neighbour.
        certificate: the neighbour's, from the file.
        lifetime: how long that is good, in words.
        calls: whether this party is the one to call.
        there: where the neighbour is called, if it is.
        here: where this party is called, if it is.
        listening: how it is with that place just now.
    """

    name: str
    certificate: str
    lifetime: str
    calls: bool
    there: Address | None
    here: Address | None
    listening: str

    def checked(self, check: str, state: State, detail: str, advice: str = "") -> Check:
        """Return a check about this neighbour."""
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
    best = _best(looks)
    if best is None or (best.unreached and not way.calls):
        return [_direction(way), _not_called(way, best)]
    if best.hello is None:
        return [_direction(way), *_reached(way, best), _ended(way, best)]
    found = [_direction(way), *_reached(way, best), *_said(way, best, clock_skew)]
    if best.through and best.dialled is not way.calls:
        found.append(_other_way(way, looks))
    return found


def _best(looks: Sequence[Look]) -> Look | None:
    """Return the look that came furthest, the first of several."""
    return max(looks, key=lambda one: (one.through, one.stage), default=None)


def _direction(way: Way) -> Check:
    words = (
        f"this party dials it at {way.there}"
        if way.calls
        else f"it dials this party at {way.here}"
    )
    return way.checked("direction", State.GOOD, words)


def _not_called(way: Way, tried: Look | None) -> Check:
    """Return what to do about a neighbour that is to call, and has not."""
    assert way.here is not None
    detail = f"waits for {way.name} to dial {way.here}; {way.listening}"
    if tried is not None:
        detail += f"; calling it instead: {tried.trouble}"
    advice = (
        f"ask {way.name} to {_START} now; if it does, ask IT to let inbound TCP "
        f"{way.here.port} through to this machine"
    )
    return way.checked("call", State.OPEN, detail, advice)


def _other_way(way: Way, looks: Sequence[Look]) -> Check:
    failed = next((one.trouble for one in looks if not one.through), "")
    words = (
        f"calling it fails ({failed}), but it reaches this party: that is enough"
        if way.calls
        else "it has not called, but this party reaches it: that is enough"
    )
    return way.checked("way", State.GOOD, words)


def _reached(way: Way, look: Look) -> list[Check]:
    """Return what went well before the hello."""
    found = []
    if look.stage > Stage.TCP:
        words = f"it answers at {look.place}"
        if not look.dialled:
            words = f"it called this party from {look.address}"
        found.append(way.checked("TCP", State.GOOD, words))
    if look.stage > Stage.TLS:
        words = f"TLS 1.3, the one in the consortium file, {way.lifetime}"
        found.append(way.checked("certificate", State.GOOD, words))
    return found


# What was said


def _said(way: Way, look: Look, clock_skew: float) -> list[Check]:
    """Return what a neighbour's hello shows."""
    hello, own = look.hello, look.own
    assert hello is not None
    assert own is not None
    words = f"protocol {hello.protocol}, version {hello.version}"
    greeted = way.checked("hello", State.GOOD, words)
    if look.refusal is not None and look.refusal.code in _WRONG_PARTY:
        greeted = _ended(way, look)
    return [greeted, _agreement(way, hello, own), _clock(way, hello, own, clock_skew)]


def _agreement(way: Way, hello: Hello, own: Hello) -> Check:
    if hello.consortium == own.consortium:
        words = "it holds the same consortium file"
        return way.checked("agreement", State.GOOD, words)
    sections = listed(differing(hello.sections, own.sections))
    detail = f"its consortium file differs from this party's in: {sections}"
    return way.checked("agreement", State.BAD, detail, _ONE_FILE)


def _clock(way: Way, hello: Hello, own: Hello, clock_skew: float) -> Check:
    # Written so that no number at all is too far as well.
    if (gap := abs(hello.time - own.time)) <= clock_skew:
        words = f"{gap:.1f} s from this party's"
        return way.checked("clock", State.GOOD, words)
    return way.checked("clock", State.BAD, skew(hello, own), _SET_CLOCK)


# What failed


def _ended(way: Way, look: Look) -> Check:
    """Return why a connection ended before it could be used."""
    if look.error is None:
        return _refused(way, look)
    check = {Stage.NAME: "name", Stage.HELLO: "hello"}.get(look.stage, look.stage.name)
    return way.checked(check, State.BAD, look.trouble, _advice(way, look))


def _refused(way: Way, look: Look) -> Check:
    """Return what a close frame, or the certificate of somebody else, means."""
    assert look.refusal is not None
    if look.stage is Stage.TLS:
        advice = f"ask {way.name} where it is called: another member answers there"
        return way.checked("certificate", State.BAD, look.trouble, advice)
    advice = _AFTER_REFUSAL.get(look.refusal.code, _ask_again(way))
    return way.checked("hello", State.BAD, look.trouble, advice)


def _advice(way: Way, look: Look) -> str:
    """Return what to do about a call that nobody, or nobody right, answered."""
    assert way.there is not None
    if look.stage is Stage.NAME:
        return (
            f"ask {way.name} whether {way.there.host} is right; if it is, ask IT why "
            "this machine cannot look it up (DNS)"
        )
    if look.stage is Stage.TCP:
        return _open_up(way, way.there, look)
    return _mend_tls(way, look) if look.stage is Stage.TLS else _ask_again(way)


def _open_up(way: Way, there: Address, look: Look) -> str:
    if isinstance(look.error, ProxyError):
        return look.error.advice(way.name, _START)
    port = f"TCP {there.port}"
    wanted = f"ask IT for: outbound {port} to {there.host} here, inbound {port} there"
    if isinstance(look.error, ConnectionRefusedError):
        return f"ask {way.name} to {_START} now; if it does, {wanted}"
    return wanted


def _mend_tls(way: Way, look: Look) -> str:
    error, untouched = look.error, f"ask IT to let TLS to {way.there} through untouched"
    if isinstance(error, ssl.SSLCertVerificationError):
        return _mend_certificate(way, error.verify_code, untouched)
    mistaken = f"{way.name} may have another certificate of this party"
    if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
        return f"{_COMPARE}: {mistaken}"
    if isinstance(error, ConnectionError | EOFError):
        # What the other end says last is often lost with the connection.
        return f"ask {way.name} what its log says: {mistaken}; if nothing, {untouched}"
    return f"ask {way.name} what listens there, and {untouched}"


def _mend_certificate(way: Way, code: int, untouched: str) -> str:
    if code in _DATES:
        return f"set the clocks right, or ask {way.name} for a new certificate"
    right = fingerprint(way.certificate)
    return f"ask {way.name} whether its certificate is {right}; if so, {untouched}"


def _ask_again(way: Way) -> str:
    return f"ask {way.name} what its log says, and to {_START} again"
