"""The hello: who speaks to whom about which run. Everything here is pure.

TLS has shown whose certificate the other end holds. The hello says the rest, in both
directions, before anything else: a name, which must be the certificate's; for whom it
is meant; and the digests of what was agreed. The limits on
what a party takes from others, and how long it waits for them, stand here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from time import gmtime, strftime
from typing import Annotated, TypeAlias

import msgspec

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import listed_names


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Bounds of one party's connections: bytes, seconds, counts.

    Attributes:
        max_frame: the longest frame taken from a neighbour; the plan's codec knows.
        queue_bytes: what may wait for one neighbour before frames are dropped.
        write_bytes: what is given to a connection before frames wait.
        inbox_frames: frames read ahead of the one that is looked at.
        strangers: connections at a time that have not said who they are.
        open_timeout: seconds for TCP, TLS and the upgrade to WebSocket.
        hello_timeout: seconds for the hello after that.
        close_timeout: seconds for a connection to end in good order.
        ping_interval: seconds between two signs of life.
        ping_timeout: seconds beyond that before a silent connection is dead.
        first_retry: the longest wait before a first new call; then it doubles.
        longest_retry: where the doubling ends.
        settled: seconds after which a connection counts as a good one.
        slow_retry: seconds between calls to somebody whose hello was refused.
        fallback: seconds without a connection before the end dials that need not.
        relay_wait: seconds at a relay for a neighbour that has not come.
        clock_skew: seconds two clocks may be apart before that is said.
        clock_limit: seconds beyond which a connection is refused for it.
        refusals: lines of the log about one source in `refusals_seconds`.
        refusals_seconds: the time in which these are counted.
    """

    max_frame: int = 1 << 24
    queue_bytes: int = 1 << 24
    write_bytes: int = 1 << 16
    inbox_frames: int = 16
    strangers: int = 64
    open_timeout: float = 10.0
    hello_timeout: float = 10.0
    close_timeout: float = 2.0
    ping_interval: float = 10.0
    ping_timeout: float = 10.0
    first_retry: float = 0.2
    longest_retry: float = 15.0
    settled: float = 30.0
    slow_retry: float = 10.0
    fallback: float = 1.0
    relay_wait: float = 60.0
    clock_skew: float = 300.0
    clock_limit: float = 3600.0
    refusals: int = 5
    refusals_seconds: float = 60.0

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise InvalidInputError(
                    f"a limit must be above 0, found {one.name} = "
                    f"{getattr(self, one.name)}",
                    code="limit-not-positive",
                )

    def within(self, deadline: float) -> ConnectionLimits:
        """Return limits under which a link is tried several times before a deadline.

        After that the protocol takes a party for lost that was only not called yet.
        """
        most = deadline / 4
        return replace(
            self,
            longest_retry=min(self.longest_retry, most),
            slow_retry=min(self.slow_retry, most),
            fallback=min(self.fallback, most),
        )

    def among_questions(self) -> ConnectionLimits:
        """Return limits for members who go from question to question of a study.

        All are about to come, so that whoever comes last is called soon.
        """
        return replace(self, longest_retry=min(self.longest_retry, BETWEEN_CALLS))

    @property
    def silence(self) -> float:
        """Seconds without a sign of life after which a connection is dead."""
        return self.ping_interval + self.ping_timeout


# The longest seconds between two calls of a study.
BETWEEN_CALLS = 2.0
PROTOCOL = 5
# Where a WebSocket is asked for.
PATH = "/veilsum"
# The longest text taken, in characters: a hello needs far less.
LONGEST_TEXT = 1 << 16
BYE = '{"bye":true}'
# What a WebSocket allows for the reason of a close, in bytes.
_REASON_BYTES = 120
# What is kept of a text from the other end, in characters; names have room.
LONGEST_SHOWN = 100

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Hex: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
HexOrNone: TypeAlias = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,64}$")]
Sections: TypeAlias = Annotated[dict[Name, Digest], msgspec.Meta(max_length=64)]


class ConnectionClose(IntEnum):
    """Why a party ends a connection: the code of the WebSocket's close frame."""

    DONE = 1000
    GOING = 1001
    MALFORMED = 4000  # text that is no hello or control message, or out of turn
    PROTOCOL = 4001  # another version of the protocol
    CERTIFICATE = 4002  # a name that is not the certificate's
    STRANGER = 4003  # a member that is no neighbour, or a hello for somebody else
    AGREEMENT = 4004  # another plan or consortium
    CLOCK = 4005  # clocks too far apart
    REPLACED = 4006  # a newer connection of the same neighbour took its place
    SURPLUS = 4007  # there is a connection already
    FRAME = 4008  # a binary frame that no honest party sends
    LATE = 4009  # no hello in time
    ELSEWHERE = 4010  # at another question of the same study


# After these the other end has to change something first.
REFUSALS = frozenset(range(ConnectionClose.MALFORMED, ConnectionClose.CLOCK + 1))
# What two have of whom each is who it says it is: they are about different things.
DISAGREEMENTS = frozenset((ConnectionClose.AGREEMENT, ConnectionClose.ELSEWHERE))


class Hello(msgspec.Struct, frozen=True):
    """First message of both ends of a connection.

    Attributes:
        protocol: version of the wire protocol.
        name: the sender.
        to: the intended receiver.
        plan: digest of the plan; empty if the sender only tests the connection.
        sections: digests of the consortium's sections, to name those that differ.
        time: the sender's clock, in seconds since 1970.
        version: version of the program, for people.
    """

    protocol: int
    name: Name
    to: Name
    run: Name
    plan: HexOrNone
    consortium: Hex
    sections: Sections
    time: float
    version: Name


class _Protocol(msgspec.Struct):
    protocol: int


class _Opening(msgspec.Struct):
    hello: msgspec.Raw


class _Bye(msgspec.Struct, forbid_unknown_fields=True):
    bye: bool


@dataclass(frozen=True)
class HandshakeRefusal:
    """Why a hello is not accepted.

    Attributes:
        code: for the close frame; the other end's, if that closed first.
        reason: one clause, which the other end may read.
        sections: where the two files differ, if they do.
    """

    code: int
    reason: str
    sections: tuple[str, ...] = ()


def hello_to_peer(own: Hello, *, to: str, time: float) -> Hello:
    """Return this party's hello, for somebody and with a time."""
    return msgspec.structs.replace(own, to=to, time=time)


def encode_hello(hello: Hello) -> str:
    return msgspec.json.encode({"hello": hello}).decode()


def read_hello(text: str | bytes) -> Hello | HandshakeRefusal:
    """Return the hello that a first frame is, or why it is none."""
    if isinstance(text, bytes) or len(text) > LONGEST_TEXT:
        return HandshakeRefusal(
            ConnectionClose.MALFORMED, "the first frame was no hello"
        )
    try:
        opening = msgspec.json.decode(text, type=_Opening)
        found = msgspec.json.decode(opening.hello, type=_Protocol).protocol
        if found != PROTOCOL:
            spoken = peer_text_for_log(str(found))
            reason = (
                f"it speaks version {spoken} of the protocol, this party {PROTOCOL}"
            )
            return HandshakeRefusal(ConnectionClose.PROTOCOL, reason)
        return _tidy_hello(msgspec.json.decode(opening.hello, type=Hello))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return HandshakeRefusal(
            ConnectionClose.MALFORMED, "the first frame was no hello"
        )


def peer_text_for_log(text: str) -> str:
    r"""Return a text from the other end as logs and messages may have it.

    On one line, short, and without anything that moves a terminal's cursor.

    >>> peer_text_for_log("1.0\n\x1b[2J")
    '1.0??[2J'
    """
    kept = text[:LONGEST_SHOWN]
    return "".join(letter if letter.isprintable() else "?" for letter in kept)


def _tidy_hello(hello: Hello) -> Hello:
    """Return a hello with texts that can be shown; honest ones stay as they are."""
    return msgspec.structs.replace(
        hello,
        name=peer_text_for_log(hello.name),
        to=peer_text_for_log(hello.to),
        run=peer_text_for_log(hello.run),
        version=peer_text_for_log(hello.version),
        sections={
            peer_text_for_log(name): digest for name, digest in hello.sections.items()
        },
    )


def is_bye_frame(text: str) -> bool:
    """Say whether a later text is a farewell; nothing else is allowed."""
    try:
        return msgspec.json.decode(text, type=_Bye).bye
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def refusal_of_hello(
    hello: Hello, own: Hello, owner: str, limits: ConnectionLimits
) -> HandshakeRefusal | None:
    """Say why a hello is refused, if it is.

    Args:
        hello: what was heard.
        own: what this party said, or would have said, to that neighbour at that time.
        owner: whose certificate the connection was made with.
        limits: how far two clocks may be apart.
    """
    if hello.name != owner:
        reason = f"it says it is {hello.name!r} with the certificate of {owner!r}"
        return HandshakeRefusal(ConnectionClose.CERTIFICATE, reason)
    if hello.to != own.name:
        reason = f"it means {hello.to!r}, and this is {own.name!r}"
        return HandshakeRefusal(ConnectionClose.STRANGER, reason)
    return (
        _refuse_other_agreement(hello, own)
        or _refuse_peer_clock(hello, own, limits)
        or _refuse_mere_look(hello, own)
    )


def _refuse_other_agreement(hello: Hello, own: Hello) -> HandshakeRefusal | None:
    study = own.sections.get("study")
    if hello.run != own.run and study and hello.sections.get("study") == study:
        reason = "it is at another question of the same study"
        return HandshakeRefusal(ConnectionClose.ELSEWHERE, reason)
    if hello.consortium != own.consortium:
        sections = sections_unlike_peer(hello.sections, own.sections)
        reason = f"its consortium file differs in {listed_names(sections)}"
        return HandshakeRefusal(ConnectionClose.AGREEMENT, reason, sections)
    if hello.plan and own.plan and hello.plan != own.plan:
        versions = f"it runs version {hello.version}, this party {own.version}"
        reason = f"same consortium file, but another plan; {versions}"
        return HandshakeRefusal(ConnectionClose.AGREEMENT, reason, ("plan",))
    return None


def _refuse_mere_look(hello: Hello, own: Hello) -> HandshakeRefusal | None:
    """End a connection that is in order, but was made to look at it only."""
    if hello.plan and own.plan:
        return None
    return HandshakeRefusal(
        ConnectionClose.DONE, "it only looked whether it can connect (doctor)"
    )


def sections_unlike_peer(
    one: Mapping[str, str], other: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the sections that are not the same in both, sorted."""
    names = sorted(one.keys() | other.keys())
    found = tuple(name for name in names if one.get(name) != other.get(name))
    return found or ("consortium",)


def _refuse_peer_clock(
    hello: Hello, own: Hello, limits: ConnectionLimits
) -> HandshakeRefusal | None:
    # Written so that no number at all is too far as well.
    if abs(hello.time - own.time) <= limits.clock_limit:
        return None
    return HandshakeRefusal(ConnectionClose.CLOCK, peer_clock_skew(hello, own))


def peer_clock_skew(hello: Hello, own: Hello) -> str:
    """Say how far two clocks are apart, and what each shows."""
    gap = hello.time - own.time
    way = "ahead of" if gap > 0 else "behind"
    apart = f"its clock is {abs(gap):,.0f} s {way} this party's"
    return f"{apart} ({_shown_peer_time(hello.time)} and {_shown_peer_time(own.time)})"


def _shown_peer_time(time: float) -> str:
    try:
        return strftime("%Y-%m-%d %H:%M:%SZ", gmtime(time))
    except (OverflowError, OSError, ValueError):
        return "no date"


def connection_close_reason(reason: str) -> str:
    """Return a reason as short as a close frame wants it."""
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore")
