"""A folder in place of sockets: frames in sealed files, which people or programs carry.

For a party that may open no connection at all. What it has to say to a neighbour since
the last time is one file, a letter. Whoever carries it sees from whom to whom, in which
run, the number and the size. It is sealed to the receiver by HPKE (RFC 9180) and signed
with the sender's identity, which HPKE itself does not show.

The key that letters are sealed to is made for one run and one party. Its public half is
in the party's first letter to each neighbour, number 0, which is signed and not sealed;
the other half is erased when the run is over. Afterwards nobody reads the letters.

Letters are numbered from one party to another, and taken in this order, each once. What
a file is called means nothing. So it does not matter in which order files come, how
often, or under which names; one that is missing is named, and one that was changed is
as good as missing.

A process may end between any two files. What was taken, and what was written and is
not acknowledged, is in the run's store: the machine is told again what it heard, and a
file that was lost is written again, the same to the last bit.

Read from the top: what is in a file, the folder, what is known of one neighbour, all.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from veilsum.errors import (
    InvalidInputError,
    MissingExtraError,
    OutputError,
    PeerProtocolError,
    StoreError,
    WaitingError,
    install_advice,
)
from veilsum.files.output import write_files
from veilsum.files.safe_read import read_file_contents
from veilsum.net.handshake import (
    LONGEST_TEXT,
    ConnectionLimits,
    HandshakeRefusal,
    Name,
    encode_hello,
    hello_to_peer as said_to,
    peer_text_for_log,
    read_hello,
    refusal_of_hello,
)
from veilsum.net.identity import Identity, PartyKeys
from veilsum.net.links import Hear, Tell, own_handshake_hello
from veilsum.net.refusals import ConnectionRefusalLog
from veilsum.net.trust import check_certified_member
from veilsum.numbers.secrets import Secret
from veilsum.protocol.codec import MalformedMessageError
from veilsum.protocol.effects import Persist
from veilsum.protocol.messages import Deposit, Join, Message, Status
from veilsum.protocol.peers import TIMELESS

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
except ImportError:
    raise MissingExtraError(
        "files that parties carry need the package cryptography, version 47 or later: "
        f"{install_advice('net')}",
        code="missing-extra",
    ) from None

if TYPE_CHECKING:
    from veilsum.consortium.consortium import Consortium
    from veilsum.net.store import NetworkRunStore
    from veilsum.protocol.plan import ProtocolPlan

LOG = logging.getLogger("veilsum.net")

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
MAGIC = b"veilsum file drop 1\n"
SIGNATURE = 64
SUFFIX = ".letter"
# Frames that go into one letter, in bytes, before another one is begun.
FULL = 1 << 24
# What a file has beyond its frames, at most; a hello is the longest of that.
AROUND = LONGEST_TEXT + (1 << 12)
# Files in one folder; more are somebody's mistake, or attack.
MOST_FILES = 10_000
# Letters from one party to another in a run: nobody carries as many.
MOST_LETTERS = 10**6
# Refused files that are named; there may be more.
MOST_NAMED = 5
# Seconds between two looks into the folder.
LOOK_EVERY = 1.0
# What stays in the store when a run is over: letters that somebody may still lack. This
# party itself could not read them.
OUT = "drop/out/"
KEY, IN, SENT, SAID = "drop/key", "drop/in/", "drop/sent/", "drop/said/"
MARK_BYTES = 16
# What stands among the marks of frames for a farewell.
BYE_MARK = bytes(MARK_BYTES)
CHANGED = "it was changed on the way, or is not whole yet; have it carried again"

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_LETTERS)]


# What is in a file


class DropEnvelope(msgspec.Struct, frozen=True, array_like=True):
    """Public header of a file, and its sealed body.

    `agreed` is the digest of the plan and consortium file that its sender agreed to.
    """

    run: Name
    agreed: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    sender: Name
    receiver: Name
    number: Number
    body: bytes

    @property
    def name(self) -> str:
        """File name, for people only: no check relies on it."""
        return letter_file_name(self.run, self.sender, self.receiver, self.number)

    @property
    def info(self) -> bytes:
        """HPKE `info` of the seal; with any other value the seal does not open."""
        about = [self.run, self.agreed, self.sender, self.receiver, self.number]
        return MAGIC + msgspec.msgpack.encode(about)


class FirstLetter(msgspec.Struct, frozen=True, array_like=True):
    """Number 0, which anybody can read.

    Attributes:
        hello: as it would be said on a connection.
        key: what letters to the sender are sealed to.
        frames: that it takes part, and what it has; no other kind is written here.
    """

    hello: Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
    key: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    frames: tuple[bytes, ...]


class DropLetter(Secret, msgspec.Struct, frozen=True, array_like=True):
    """Sealed content of every file but the first.

    Attributes:
        heard: number of the last letter accepted from the receiver; -1 for none.
        bye: whether the sender has finished.
        frames: the frames that a connection would carry, in order.
    """

    heard: Annotated[int, msgspec.Meta(ge=-1, lt=MOST_LETTERS)]
    bye: bool
    frames: tuple[bytes, ...]


def letter_file_name(run: str, sender: str, receiver: str, number: int) -> str:
    """Return what a letter is called.

    >>> letter_file_name("survey-0123456789abcdef", "ward-7", "registry", 3)
    'ward-7-to-registry-0003-89abcdef.letter'
    """
    return f"{sender}-to-{receiver}-{number:04d}-{run[-8:]}{SUFFIX}"


def _check_drop_letter_names(consortium: Consortium) -> None:
    """Refuse members of whom two would write over each other's letters."""
    owners: dict[str, tuple[str, str]] = {}
    for pair in consortium.links:
        for sender, receiver in (pair, pair[::-1]):
            # Not every disk tells A from a.
            name = letter_file_name(consortium.run, sender, receiver, 0).casefold()
            other = owners.setdefault(name, (sender, receiver))
            if other != (sender, receiver):
                raise InvalidInputError(
                    f"letters from {sender!r} to {receiver!r} and from {other[0]!r} to "
                    f"{other[1]!r} have the same names, and in one folder one would "
                    "take the other's place: give a member another name",
                    code="letter-names-clash",
                )


def sign_drop_letter(envelope: DropEnvelope, sign: Callable[[bytes], bytes]) -> bytes:
    content = msgspec.msgpack.encode(envelope)
    return MAGIC + sign(MAGIC + content) + content


def split_drop_letter(raw: bytes) -> tuple[DropEnvelope, bytes, bytes] | None:
    """Return a file's envelope, its signature and what that is of; None if it has none.

    Nothing is believed yet.
    """
    start = len(MAGIC) + SIGNATURE
    if len(raw) < start or not raw.startswith(MAGIC):
        return None
    content = raw[start:]
    try:
        envelope = msgspec.msgpack.decode(content, type=DropEnvelope)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return envelope, raw[len(MAGIC) : start], MAGIC + content


# The folder


@dataclass(frozen=True)
class DropFolder:
    """Where letters are written and looked for.

    Attributes:
        path: everybody's own, or one that several share.
        once: whether to take what is there and end, rather than wait for more.
    """

    path: Path
    once: bool = False

    def put(self, letters: Iterable[bytes]) -> None:
        """Write letters, each whole or not at all; those that are there stay."""
        for raw in letters:
            found = split_drop_letter(raw)
            assert found is not None
            name = found[0].name
            try:
                if not _drop_letter_is_there(self.path / name, raw):
                    write_files(self.path, {name: raw})
            except OutputError as error:
                raise StoreError(
                    f"{error}; nothing is lost, try again", code=error.code
                ) from None

    def remove(self, name: str) -> None:
        """Take away a letter of one's own that has arrived."""
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            LOG.info("cannot remove", extra={"file": name, "reason": error.strerror})


def _drop_letter_is_there(path: Path, raw: bytes) -> bool:
    try:
        return read_file_contents(path, len(raw), InvalidInputError) == raw
    except InvalidInputError:
        return False


@dataclass(frozen=True)
class DropFile:
    """A file in the folder, as it was when it was last read.

    Attributes:
        stamp: what changes when the file does.
        digest: of all its bytes.
        about: its envelope without the body; None if it is nothing of this run.
        problem: why it is not taken, if it never will be as it is.
    """

    name: str
    stamp: tuple[int, ...]
    digest: bytes = b""
    about: DropEnvelope | None = None
    problem: str = ""


# What is known of one neighbour


@dataclass(eq=False, repr=False)
class DropCorrespondent(Secret):
    """A neighbour, and what went to it and came from it.

    Attributes:
        key: what letters to it are sealed to, once its first one was taken.
        taken: digests of its letters, by number: all up to the next one.
        arrived: the number of the last one that it says it has.
        sent: marks of all frames that were written to it.
        said: the last status that was, as if it wanted no answer.
        frames: what it said, but for what it has.
        status: what it said last that it has.
        deaf: whether it has said too much that no honest party says.
        waiting: frames for it that are in no letter yet.
        to_say: the status that goes with them.
        problems: what is wrong with files of its, by file.
    """

    name: str
    key: X25519PublicKey | None = None
    taken: list[bytes] = field(default_factory=list)
    written: int = 0
    arrived: int = -1
    sent: set[bytes] = field(default_factory=set)
    said: bytes = b""
    frames: list[bytes] = field(default_factory=list)
    status: bytes | None = None
    deaf: bool = False
    left: bool = False
    waiting: dict[bytes, bytes] = field(default_factory=dict)
    to_say: bytes | None = None
    problems: dict[str, str] = field(default_factory=dict)


class UnfitError(Exception):
    """A letter of a member that cannot be taken; says why."""


class NetworkFileDrop(Secret):
    """The way to all neighbours of one party, through files.

    What a runner uses of `links.Network` it finds here too.

    Args:
        identity: this party's key and certificate.
        consortium: who else there is.
        plan: what all parties agreed on.
        store: the run's.
        folder: where the files are.
        hear: takes a neighbour's frame; raises PeerProtocolError to be rid of it.
        met: has this party's status sent to a neighbour.
        left: told when a neighbour need not be waited for.
        passed: never called: letters about another run are not looked at.
    """

    def __init__(
        self,
        identity: Identity,
        consortium: Consortium,
        *,
        plan: ProtocolPlan,
        store: NetworkRunStore,
        folder: DropFolder,
        hear: Hear,
        met: Tell,
        left: Tell,
        passed: Tell | None = None,
    ) -> None:
        check_certified_member(identity, consortium.certificates)
        self._me, self._agreed, self._plan = identity.name, consortium, plan
        self._store, self._folder = store, folder
        self._keys = PartyKeys(identity, consortium.certificates)
        _check_drop_letter_names(consortium)
        self._hear, self._met, self._left = hear, met, left
        both = MAGIC + plan.digest + consortium.digest
        self._digest = hashlib.sha256(both).digest()
        self._own = own_handshake_hello(identity.name, consortium, plan.digest)
        self._longest = FULL + plan.codec.max_frame + AROUND
        self._bye, self._stirred = False, True
        self._refusals = ConnectionRefusalLog(ConnectionLimits())
        self._known: dict[str, DropFile] = {}
        self._told: dict[str, object] = {}
        self._gaps: set[tuple[str, int]] = set()
        neighbours = consortium.topology.neighbours(identity.name)
        self._peers = {name: DropCorrespondent(name) for name in neighbours}
        self._restore(store.read())

    # What earlier starts have kept

    def _restore(self, stored: dict[str, bytes]) -> None:
        if KEY not in stored:
            secret = X25519PrivateKey.generate().private_bytes_raw()
            stored = {**stored, KEY: secret}
            self._store.write([Persist(KEY, secret)])
        elif not all(map(self._is_agreed, _letters_of_drop_store(stored))):
            # Before shares were drawn another file took the place of the first: with
            # that one everybody begins anew.
            old = [key for key in stored if key.startswith((OUT, IN, SENT, SAID))]
            self._store.write([Persist(key, None) for key in old])
            stored = {KEY: stored[KEY]}
        self._secret = X25519PrivateKey.from_private_bytes(stored[KEY])
        for peer in self._peers.values():
            marks = stored.get(SENT + peer.name, b"")
            peer.sent = {
                marks[at : at + MARK_BYTES] for at in range(0, len(marks), MARK_BYTES)
            }
            peer.said = stored.get(SAID + peer.name, b"")
        for key, raw in stored.items():
            # In the order in which they were written and taken.
            if key.startswith(OUT) and (found := split_drop_letter(raw)) is not None:
                peer = self._peers[found[0].receiver]
                peer.written = max(peer.written, found[0].number + 1)
            elif key.startswith(IN) and (found := split_drop_letter(raw)) is not None:
                self._keep(self._peers[found[0].sender], found[0], raw)
        for peer in self._peers.values():
            # What has arrived is not kept.
            peer.written = max(peer.written, peer.arrived + 1)

    def _keep(
        self, peer: DropCorrespondent, envelope: DropEnvelope, raw: bytes
    ) -> None:
        """Know a letter that is taken."""
        if envelope.number == 0:
            peer.key, frames = self._first(peer, envelope)
        else:
            letter = self._unsealed(envelope)
            frames = letter.frames
            peer.arrived = max(peer.arrived, letter.heard)
            peer.left = peer.left or letter.bye
        for frame in frames:
            if isinstance(self._message(frame), Status):
                peer.status = frame
            else:
                peer.frames.append(frame)
        peer.taken.append(hashlib.sha256(raw).digest())

    # Opening and closing

    async def open(self) -> None:
        """Write what may have been lost, and tell the machine again what was heard.

        Raises:
            StoreError: this run's file is an old copy, or the folder cannot be used.
        """
        self._check_not_old()
        for peer in self._peers.values():
            if peer.written == 0:
                self._introduce(peer)
        self._folder.put(unacknowledged_drop_letters(self._store))
        self._tell_again()
        for peer in self._peers.values():
            self._tell_status(peer)
            if peer.left:
                self._left(peer.name)

    def _check_not_old(self) -> None:
        """Refuse to go on from before a letter that this party has written."""
        for found in self._look():
            about = found.about
            if about is None or about.sender != self._me or about.number == 0:
                continue
            if not self._is_agreed(about):
                continue
            peer = self._peers.get(about.receiver)
            if peer is not None and about.number >= peer.written:
                raise self._old(f"{peer_text_for_log(found.name)} is one")

    def _old(self, evidence: str) -> StoreError:
        return StoreError(
            f"{self._store.path} does not know of letters that this party has written, "
            f"and {evidence}: the file is an old copy, or a new one. Put the last one "
            "back. Without it this party cannot go on with this run, and the organiser "
            "makes a new consortium file",
            code="stale-run-file",
        )

    def _introduce(self, peer: DropCorrespondent) -> None:
        """Write the first letter to a neighbour."""
        hello = encode_hello(said_to(self._own, to=peer.name, time=0.0))
        key = self._secret.public_key().public_bytes_raw()
        # Nothing that a party has to say before it knows its neighbours is private.
        joins = [
            one for one in peer.waiting.values() if isinstance(self._message(one), Join)
        ]
        status = [] if peer.to_say is None else [peer.to_say]
        first = FirstLetter(hello, key, (*joins, *status))
        self._store.write([self._out(peer, 0, msgspec.msgpack.encode(first))])
        peer.written = 1
        for one in joins:
            del peer.waiting[self._mark(one)]

    async def until(self, ended: asyncio.Future[None]) -> None:
        """Take and write letters until the run is over for this party.

        Raises:
            WaitingError: nothing is left to do before others' letters come, and this
                party is not to wait for them here.
        """
        while not ended.done():
            moved = self._take_letters()
            if ended.done():
                break  # the last letters are written when it has said goodbye
            if self._write_letters() or moved:
                await asyncio.sleep(0)
            elif self._folder.once:
                raise WaitingError(
                    self._waits(),
                    tuple(one.name for one in self._awaited()),
                    code="waiting-for-files",
                )
            else:
                for peer in self._peers.values():
                    gap = (peer.name, len(peer.taken))
                    if self._lacks(peer) and gap not in self._gaps:
                        self._gaps.add(gap)
                        about = {"party": peer.name, "reason": self._next(peer)}
                        LOG.warning("a letter is missing", extra=about)
                await asyncio.wait({ended}, timeout=LOOK_EVERY)
        await ended

    def say_bye(self) -> None:
        """Tell every neighbour that this party has finished.

        None need be waited for: what they may lack is in letters.
        """
        self._bye = self._stirred = True
        for name in self._peers:
            self._left(name)

    async def drain(self, seconds: float) -> None:
        del seconds
        self._write_letters()

    async def close(self) -> None:
        """Nothing is open."""

    # Sending

    def send(self, to: str, frame: bytes) -> None:
        """Put a frame into the next letter, unless it was in one before."""
        peer = self._peers[to]
        if isinstance(self._message(frame), Status):
            peer.to_say = frame
        elif (mark := self._mark(frame)) not in peer.sent:
            peer.waiting[mark] = frame
            self._stirred = True

    def _mark(self, frame: bytes) -> bytes:
        """Return what a frame is known by; nobody else can compute it."""
        key = self._secret.private_bytes_raw()
        return hashlib.blake2b(frame, digest_size=MARK_BYTES, key=key).digest()

    def _write_letters(self) -> bool:
        """Write a letter to everybody for whom there is something new; say whether."""
        if not self._stirred:
            return False
        moved = self._stirred = False
        for peer in self._peers.values():
            if peer.key is None:
                continue
            self._met(peer.name)  # asks for a status as of now
            said = peer.said if peer.to_say is None else self._silent(peer.to_say)
            bye = self._bye and BYE_MARK not in peer.sent
            if peer.waiting or bye or said != peer.said:
                self._write(peer, said, peer.key)
                moved = True
        return moved

    def _write(
        self, peer: DropCorrespondent, said: bytes, key: X25519PublicKey
    ) -> None:
        """Keep letters with all that waits for a neighbour, then put them out."""
        status = () if peer.to_say is None else (peer.to_say,)
        parts = [*_parts_of_drop_letters(peer.waiting.values())] or [()]
        writes, number = list[Persist](), peer.written
        for part in parts:
            last = part is parts[-1]
            frames = (*part, *status) if last else part
            letter = DropLetter(len(peer.taken) - 1, last and self._bye, frames)
            plain = msgspec.msgpack.encode(letter)
            info = self._envelope(peer, number).info
            writes.append(self._out(peer, number, SUITE.encrypt(plain, key, info)))
            number += 1
        marks = peer.sent | {*peer.waiting, *([BYE_MARK] if self._bye else [])}
        writes.append(Persist(SENT + peer.name, b"".join(sorted(marks))))
        writes.append(Persist(SAID + peer.name, said))
        self._store.write(writes)
        peer.written, peer.sent, peer.said = number, marks, said
        peer.waiting, peer.to_say = {}, None
        files = [one.value for one in writes if one.key.startswith(OUT) and one.value]
        self._folder.put(files)
        LOG.info("letters written", extra={"party": peer.name, "count": len(files)})

    def _out(self, peer: DropCorrespondent, number: int, body: bytes) -> Persist:
        raw = sign_drop_letter(self._envelope(peer, number, body), self._keys.sign)
        return Persist(f"{OUT}{peer.name}/{number}", raw)

    def _envelope(
        self, peer: DropCorrespondent, number: int, body: bytes = b""
    ) -> DropEnvelope:
        run, digest = self._agreed.run, self._digest
        return DropEnvelope(run, digest, self._me, peer.name, number, body)

    def _silent(self, status: bytes) -> bytes:
        """Return a status as if it wanted no answer, to compare it."""
        found = self._plan.codec.decode(status)
        assert isinstance(found, Status)
        return self._plan.codec.encode(msgspec.structs.replace(found, reply=False))

    # Taking

    def _take_letters(self) -> bool:
        """Take all letters that are next; say whether there was one."""
        moved = False
        for found in sorted(self._look(), key=_drop_letter_number):
            about = found.about
            if about is None or about.receiver != self._me or found.problem:
                continue
            peer = self._peers.get(about.sender)
            if peer is None or not self._is_next(peer, about.number, found):
                continue
            try:
                self._take(peer, found)
                moved = True
            except UnfitError as error:
                self._refuse(peer, found, str(error))
        if moved:
            self._stirred = True
            # What came too early for the machine may be in time now.
            self._tell_again()
        return moved

    def _is_next(self, peer: DropCorrespondent, number: int, found: DropFile) -> bool:
        """Say whether a letter is the one to take; note another one in its place."""
        known = number < len(peer.taken) and self._is_agreed(found.about)
        if known and found.digest != peer.taken[number]:
            self._refuse(
                peer,
                found,
                f"{peer.name} wrote another letter of this number, which was taken: "
                "its run's file was lost or is an old copy, or two processes have its "
                "key",
            )
        return number == len(peer.taken)

    def _take(self, peer: DropCorrespondent, found: DropFile) -> None:
        """Keep a letter, then tell the machine what is in it."""
        path = self._folder.path / found.name
        try:
            raw = read_file_contents(path, self._longest, InvalidInputError)
        except InvalidInputError:
            return
        parts = split_drop_letter(raw)
        if parts is None or hashlib.sha256(raw).digest() != found.digest:
            return  # it is being written: the next look finds it as it is then
        envelope, number = parts[0], len(peer.taken)
        if number == 0:
            self._first(peer, envelope)
            arrived = range(0)
        else:
            arrived = range(peer.arrived + 1, self._unsealed(envelope).heard + 1)
        if arrived.stop > peer.written:
            # Before anything is written: two letters of one number prove it to others.
            raise self._old(
                f"{peer_text_for_log(found.name)} says that {peer.name} took one"
            )
        # What has arrived need not be kept.
        gone = [Persist(f"{OUT}{peer.name}/{k}", None) for k in arrived]
        self._store.write([Persist(f"{IN}{peer.name}/{number}", raw), *gone])
        heard, status, left = len(peer.frames), peer.status, peer.left
        self._keep(peer, envelope, raw)
        about = {"party": peer.name, "file": peer_text_for_log(found.name)}
        LOG.info("letter taken", extra=about)
        for frame in peer.frames[heard:]:
            self._tell(peer, frame)
        if peer.status is not status:
            self._tell_status(peer)
        if peer.left and not left:
            self._left(peer.name)
        for k in arrived:
            name = letter_file_name(self._agreed.run, self._me, peer.name, k)
            self._folder.remove(name)

    def _first(
        self, peer: DropCorrespondent, envelope: DropEnvelope
    ) -> tuple[X25519PublicKey, tuple[bytes, ...]]:
        """Return a neighbour's key and frames, if it has agreed to the same."""
        try:
            first = msgspec.msgpack.decode(envelope.body, type=FirstLetter)
            key = X25519PublicKey.from_public_bytes(first.key)
            SUITE.encrypt(b"", key)  # some keys serve nobody
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise UnfitError("it holds no key to answer it with") from None
        hello = read_hello(first.hello)
        if isinstance(hello, HandshakeRefusal):
            raise UnfitError(hello.reason)
        own = said_to(self._own, to=peer.name, time=hello.time)
        found = refusal_of_hello(hello, own, peer.name, ConnectionLimits())
        if found is not None:
            raise UnfitError(found.reason)
        return key, first.frames

    def _unsealed(self, envelope: DropEnvelope) -> DropLetter:
        """Return what is in a letter."""
        try:
            plain = SUITE.decrypt(envelope.body, self._secret, envelope.info)
        except (InvalidTag, ValueError):
            raise UnfitError(
                "it does not open with this party's key of this run: it was sealed to "
                "another one, of a run's file that is no more"
            ) from None
        try:
            letter = msgspec.msgpack.decode(plain, type=DropLetter)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise UnfitError("what it holds is no letter") from None
        return letter

    def _tell_again(self) -> None:
        """Tell the machine all that it may have forgotten, or not been ready for."""
        sums = sum(key.startswith("answer/") for key in self._store.read())
        over = sums * self._plan.epochs_per_sum
        for peer in self._peers.values():
            peer.frames = [one for one in peer.frames if not self._is_over(one, over)]
            for frame in peer.frames:
                self._tell(peer, frame)

    def _tell_status(self, peer: DropCorrespondent) -> None:
        if peer.status is not None:
            self._tell(peer, peer.status)

    def _tell(self, peer: DropCorrespondent, frame: bytes) -> None:
        if peer.deaf:
            return
        try:
            self._hear(peer.name, frame)
        except PeerProtocolError as error:
            peer.deaf = True
            about = {"party": peer.name, "reason": str(error)}
            LOG.warning("letters refused", extra=about)

    def _is_over(self, frame: bytes, epoch: int) -> bool:
        """Say whether a frame is of a sum that is known: nobody asks for it again."""
        message = self._message(frame)
        if isinstance(message, Deposit):
            message = message.masked
        if message is None or type(message).__name__ in TIMELESS:
            return False
        return int(getattr(message, "epoch", epoch)) < epoch

    def _message(self, frame: bytes) -> Message | None:
        """Return what a frame says; None if that is for the machine to complain of."""
        try:
            return self._plan.codec.decode(frame)
        except MalformedMessageError:
            return None

    # Looking

    def _look(self) -> list[DropFile]:
        """Return all files that are of this run, or should be; each is read once."""
        try:
            with os.scandir(self._folder.path) as entries:
                seen = {one.name: one for one in self._ordinary(entries)}
        except OSError as error:
            raise StoreError(
                f"cannot look into {self._folder.path}: {error.strerror}",
                code="cannot-read",
            ) from None
        self._known = {
            name: self._read(name, found)
            for name, found in sorted(seen.items())
            if found.stamp
        }
        # Files that are gone are forgotten: there may be ever new ones.
        self._told = {k: v for k, v in self._told.items() if k in self._known}
        for peer in self._peers.values():
            peer.problems = {k: v for k, v in peer.problems.items() if k in self._known}
        return [one for one in self._known.values() if one.about or one.problem]

    def _ordinary(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[DropFile]:
        """Return what may be a letter, from a folder of bounded size."""
        for count, entry in enumerate(entries):
            if count >= MOST_FILES:
                raise StoreError(
                    f"{self._folder.path} has more than {MOST_FILES:,} files: take out "
                    "what is not of this run, or what is old",
                    code="too-many-files",
                )
            # One that begins with a dot is being written, here or by a carrier.
            if entry.name.startswith(".") or not entry.is_file(follow_symlinks=False):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            yield DropFile(entry.name, stamp)

    def _read(self, name: str, new: DropFile) -> DropFile:
        """Return what is known of a file, read again if it has changed."""
        known = self._known.get(name)
        if known is not None and known.stamp == new.stamp:
            return known
        ours = name.endswith(SUFFIX)
        if new.stamp[0] > self._longest:
            told = f"it has {new.stamp[0]:,} bytes, and {self._longest:,} are the most"
            return self._odd(new, told) if ours else new
        path = self._folder.path / name
        try:
            raw = read_file_contents(path, self._longest, InvalidInputError)
        except InvalidInputError:
            return DropFile(name, ())  # it is gone, or not for this user: look again
        parts = split_drop_letter(raw)
        if parts is None:
            return self._odd(new, CHANGED) if ours else new
        envelope, signature, content = parts
        if envelope.run != self._agreed.run or not self._concerns(envelope):
            return new
        if not self._keys.verify(envelope.sender, content, signature):
            told = f"{envelope.sender} did not sign it as it is: {CHANGED}"
            return self._odd(new, told)
        if envelope.number > 0 and not self._is_agreed(envelope):
            return new  # its first letter says what differs
        about = msgspec.structs.replace(envelope, body=b"")
        return DropFile(name, new.stamp, hashlib.sha256(raw).digest(), about)

    def _is_agreed(self, envelope: DropEnvelope | None) -> bool:
        """Say whether a letter is of somebody who has agreed to the same."""
        return envelope is not None and envelope.agreed == self._digest

    def _concerns(self, envelope: DropEnvelope) -> bool:
        """Say whether a file says that it is between this party and a neighbour."""
        ends = {envelope.sender, envelope.receiver}
        return self._me in ends and any(name in ends for name in self._peers)

    def _odd(self, new: DropFile, problem: str) -> DropFile:
        self._log(new.name, new.stamp, problem)
        return DropFile(new.name, new.stamp, problem=problem)

    def _refuse(self, peer: DropCorrespondent, found: DropFile, problem: str) -> None:
        """Note what is wrong with a letter that a member did sign."""
        peer.problems[found.name] = problem
        self._log(found.name, found.digest, problem)

    def _log(self, name: str, what: object, problem: str) -> None:
        """Say once what is wrong with a file; nobody can fill the log."""
        if self._told.get(name) != what:
            self._told[name] = what
            about = {"file": peer_text_for_log(name), "reason": problem}
            self._refusals.note("folder", "file refused", **about)

    # Saying how things are

    def condition(self, name: str) -> str:
        return f"heard through files: {self._next(self._peers[name])}"

    def _next(self, peer: DropCorrespondent) -> str:
        """Say which letter of a neighbour is wanted, and whether one is missing."""
        name = letter_file_name(self._agreed.run, peer.name, self._me, len(peer.taken))
        if self._lacks(peer):
            return f"{name} is missing, and a later letter is here"
        return f"its next letter is {name}"

    def _lacks(self, peer: DropCorrespondent) -> bool:
        """Say whether a letter of a neighbour is here before one that comes first."""
        found = (one.about for one in self._known.values() if one.about is not None)
        ends, number = (peer.name, self._me), len(peer.taken)
        return any(
            one.number > number and (one.sender, one.receiver) == ends for one in found
        )

    def _awaited(self) -> list[DropCorrespondent]:
        return [one for one in self._peers.values() if not one.left]

    def _waits(self) -> str:
        """Say what is waited for, what is wrong, and what to do."""
        lines = [f"waiting for letters to {self._me}"]
        lines += [f"from {peer.name}: {self._next(peer)}" for peer in self._awaited()]
        odd = {one.name: one.problem for one in self._known.values() if one.problem}
        for peer in self._peers.values():
            odd |= peer.problems
        named = sorted(odd.items())[:MOST_NAMED]
        lines += [f"not taken: {peer_text_for_log(name)}: {why}" for name, why in named]
        if len(odd) > len(named):
            lines.append(f"not taken: {len(odd) - len(named)} more")
        lines.append(
            f"carry the {SUFFIX} files in {self._folder.path} to whom they are for, "
            "and theirs into it; then run the same command again"
        )
        return "\n  ".join(lines)


def unacknowledged_drop_letters(store: NetworkRunStore) -> list[bytes]:
    """Return the letters that this party has written and nobody has acknowledged."""
    return [raw for key, raw in store.read().items() if key.startswith(OUT)]


def _letters_of_drop_store(
    stored: Mapping[str, bytes],
) -> Iterator[DropEnvelope | None]:
    for key, raw in stored.items():
        if key.startswith((OUT, IN)):
            found = split_drop_letter(raw)
            yield None if found is None else found[0]


def _drop_letter_number(found: DropFile) -> int:
    return -1 if found.about is None else found.about.number


def _parts_of_drop_letters(frames: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Return frames in letters that are not too long; a long frame has its own."""
    part, size = list[bytes](), 0
    for frame in frames:
        if part and size + len(frame) > FULL:
            yield tuple(part)
            part, size = [], 0
        part.append(frame)
        size += len(frame)
    if part:
        yield tuple(part)
