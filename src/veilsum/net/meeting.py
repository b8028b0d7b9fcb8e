"""One connection from its first word to its last, whoever made the call.

TLS has shown which member is at the other end. Both say hello; then the connection
becomes the one with that neighbour, or is closed with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from veilsum.errors import PeerProtocolError
from veilsum.net.hello import (
    BYE,
    REFUSALS,
    Close,
    Hello,
    Refusal,
    close_reason,
    is_bye,
    read_hello,
    refusal,
    said,
    skew,
    written,
)
from veilsum.net.limits import Limits
from veilsum.net.link import Link, last_words
from veilsum.net.peer import Peer
from veilsum.net.refusals import LOG, Refusals
from veilsum.net.sockets import ConnectionClosed, Wire, caller, certificate
from veilsum.net.trust import owner
from veilsum.numbers.secrets import Secret


@dataclass(eq=False, repr=False, kw_only=True)
class Meetings(Secret):
    """What a party does with its connections.

    Attributes:
        own: this party's hello, but for whom and when.
        peers: its neighbours by name.
        certificates: every member's.
        finished: whether it says goodbye to everybody it meets.
    """

    own: Hello
    peers: Mapping[str, Peer]
    certificates: Mapping[str, str]
    limits: Limits
    refusals: Refusals
    clock: Callable[[], float]
    hear: Callable[[str, bytes], None]
    met: Callable[[str], None]
    left: Callable[[str], None]
    finished: bool = False

    async def hold(self, connection: Wire, called: Peer | None) -> float:
        """Say hello, then carry frames to the end; return how long that was.

        Args:
            connection: just made.
            called: whom this party has called, if it has.
        """
        name = owner(certificate(connection), self.certificates)
        peer = self.peers.get(name or "")
        heard = await self._greet(connection, peer, called, f"{name!r}")
        if peer is None or isinstance(heard, Refusal):
            assert isinstance(heard, Refusal)
            await self._refuse(connection, called or peer, str(name), heard)
            return 0.0
        connection.known()
        link = Link(peer.name, connection, self.limits, dialled=called is not None)
        link.said_at = heard.time
        if not self._admits(peer, link):
            await link.close(Close.SURPLUS, "there is a connection already")
            await link.gone()
            return 0.0
        await self._serve(peer, link)
        return asyncio.get_running_loop().time() - link.since

    # The hello

    async def _greet(
        self, connection: Wire, peer: Peer | None, called: Peer | None, name: str
    ) -> Hello | Refusal:
        """Say hello and return the neighbour's, unless something is wrong."""
        if called is not None and peer is not called:
            return Refusal(Close.CERTIFICATE, f"it has the certificate of {name}")
        if peer is None:
            return Refusal(Close.STRANGER, f"{name} is no neighbour")
        own = said(self.own, to=peer.name, time=self.clock())
        heard = await exchanged(connection, own, self.limits)
        if isinstance(heard, Refusal):
            return heard
        return self._checked(peer, heard, said(own, to=peer.name, time=self.clock()))

    def _checked(self, peer: Peer, heard: Hello, own: Hello) -> Hello | Refusal:
        found = refusal(heard, own, peer.name, self.limits)
        if found is not None:
            return found
        if abs(heard.time - own.time) > self.limits.clock_skew and not peer.skewed:
            peer.skewed = True
            about = {"party": peer.name, "reason": skew(heard, own)}
            LOG.warning("clocks differ", extra=about)
        return heard

    async def _refuse(
        self, connection: Wire, peer: Peer | None, name: str, found: Refusal
    ) -> None:
        """End a connection with a reason, noted under the name that TLS has shown."""
        address = caller(connection.transport)
        about = {"party": name, "address": address, "reason": found.reason}
        if found.code == Close.DONE:
            LOG.info("looked at", extra=about)
        elif connection.is_open or found.code in REFUSALS:
            self.refusals.note(name, "connection refused", **about)
        if peer is not None:
            worse = found.code in REFUSALS
            peer.fail(found.reason, refused=worse, sections=found.sections)
        await connection.close(found.code, close_reason(found.reason))

    # The connection

    def _admits(self, peer: Peer, link: Link) -> bool:
        """Say whether a connection takes the place of what there is.

        Calls can cross. Both ends keep the one made by the end that is to call, and of
        several of these the one whose hello was said last.
        """
        old = peer.link
        if old is None or not old.alive:
            return True
        if link.dialled != peer.designated:
            return False
        return old.dialled != peer.designated or link.said_at >= old.said_at

    async def _serve(self, peer: Peer, link: Link) -> None:
        """Make a connection the one with its neighbour, and read it to its end."""
        old = peer.link
        peer.connect(link)
        try:
            if old is not None:
                old.replace()
            about = {"party": peer.name, "address": caller(link.connection.transport)}
            LOG.info("connected", extra=about)
            if self.finished:
                link.send(BYE)
            self.met(peer.name)
            await link.read(self._take)
        except PeerProtocolError as error:
            about = {"party": peer.name, "reason": str(error)}
            self.refusals.note(peer.name, "frame refused", **about)
            await link.close(Close.FRAME, "a frame that no honest party sends")
        except Exception as error:
            # Not the neighbour's fault: whoever runs the event loop has to know.
            context = {"message": "cannot deal with a frame", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
            await link.close(Close.GOING, "this party cannot go on")
        finally:
            await link.gone()
            self._part(peer, link)

    def _take(self, link: Link, item: bytes | str) -> None:
        if isinstance(item, bytes):
            self.hear(link.name, item)
            return
        if not is_bye(item):
            raise PeerProtocolError(link.name, "a text that is no control message")
        if not link.said_bye:
            link.said_bye = self.peers[link.name].finished = True
            self.left(link.name)

    def _part(self, peer: Peer, link: Link) -> None:
        """Draw the conclusions from the end of a connection."""
        if not peer.disconnect(link):
            return
        LOG.info("disconnected", extra={"party": peer.name, "reason": link.ended})
        peer.refused = link.code in REFUSALS
        if link.code == Close.REPLACED and link.dialled and peer.designated:
            peer.yielded = True
            me = self.own.name
            peer.fail(f"another process under the name {me!r} took over", refused=True)
            LOG.error("replaced", extra={"party": peer.name, "reason": peer.trouble})


async def exchanged(connection: Wire, own: Hello, limits: Limits) -> Hello | Refusal:
    """Say hello, and return what the other end says, or why that is no hello."""
    try:
        await connection.send(written(own))
        text = await asyncio.wait_for(connection.recv(), limits.hello_timeout)
    except TimeoutError:
        return Refusal(Close.LATE, "it said no hello in time")
    except ConnectionClosed as error:
        code = error.rcvd.code if error.rcvd is not None else Close.LATE
        return Refusal(code, last_words(error))
    return read_hello(text)
