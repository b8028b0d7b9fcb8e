"""A relay that does its worst: it learns nothing, and can at most stop the run.

It sees every byte that members exchange over it, and may drop, delay, reorder, cut
short, repeat, change or swap them. Whatever it does, no frame arrives that was not
sent, and no member takes another for its neighbour. Each search has a twin that
succeeds on a link without the members' TLS.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
from contextlib import AsyncExitStack, suppress

import numpy as np
import pytest

from idle_clock import patiently
from net.relays import TOKEN, asked, caller, deployment, relay_at, request
from net.runs import ONE_SHOT, Company, answers, changed, reasons
from net.test_secrets_on_the_network import Witness
from net.village import HOST, Village, all_connected, free_port, until
from veilsum.drivers.driver import GivenUpError
from veilsum.net.identity import new_identity
from veilsum.net.relay import RelayHalf, RelayServer
from veilsum.net.relay_tokens import RelayPass, read_token, relay_pseudonym
from veilsum.net.sockets import ConnectionClosed
from veilsum.net.trust import tls_client_context
from veilsum.net.tunnel import RelayTunnels, dial_through_relay

pytestmark = pytest.mark.usefixtures("unchecked_shapes")


class EvilHalf(RelayHalf):
    """Looks at everything, and does what its relay tells it."""

    def carry(self, data):
        self.entrance.seen += data
        self.entrance.do(self, data)

    def on(self, data):
        super().carry(data)


class EvilRelay(RelayServer):
    """`trick` decides what becomes of a frame: it is given a half, a frame, a number.

    Attributes:
        spare: frames that go untouched first, so that links come about.
    """

    made, trick, spare = EvilHalf, None, 0

    def __init__(self, *args):
        super().__init__(*args)
        self.seen, self.number, self.kept = bytearray(), 0, []

    def do(self, half, data):
        self.number += 1
        if self.trick is None or self.number <= self.spare:
            half.on(data)
        else:
            self.trick(half, data)

    def asked(self, connection, request):
        self.seen += repr(request).encode()
        return super().asked(connection, request)


# Tricks


def drop(relay, half, data):
    if relay.number % 3:
        half.on(data)


def delay(relay, half, data):
    half.loop.call_later(0.02, half.on, data)  # all by as much: in order


def reorder(relay, half, data):
    relay.kept.append((half, data))
    if len(relay.kept) == 2:
        for one, kept in reversed(relay.kept):
            one.on(kept)
        relay.kept.clear()


def truncate(relay, half, data):
    half.on(data[: len(data) // 2])


def replay(relay, half, data):
    half.on(data)
    half.on(data)


def flip(relay, half, data):
    half.on(data[:-1] + bytes([data[-1] ^ 1]))


def swap(relay, half, data):
    """Give it to whoever else is there."""
    others = [one for one in relay._halves if one.other and one is not half.other]
    (others[relay.number % len(others)].other if others else half.other).on(data)


def hang_up(relay, half, data):
    half.transport.abort()


TRICKS = [drop, delay, reorder, truncate, replay, flip, swap, hang_up]


def evil(trick, spare=0):
    def do(self, half, data):
        trick(self, half, data)

    return type("EvilNow", (EvilRelay,), {"trick": do, "spare": spare})


@pytest.mark.parametrize("trick", TRICKS)
def test_no_frame_arrives_that_was_not_sent(trick, tmp_path):
    """Links break, or do not come about; what is heard was said by its sender."""

    async def main():
        port = free_port()
        village = Village(tmp_path, names=("a", "b", "c"), silent=("a", "b", "c"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port, kind=evil(trick, spare=24)) as relay,
            village.stations(consortium=agreed, token=TOKEN) as stations,
        ):
            sent = {one.name: [] for one in stations}
            for k in range(15):
                for one in stations:
                    for other in "abc".replace(one.name, ""):
                        frame = f"{one.name} to {other}: {k} ".encode() * 20
                        sent[other].append((one.name, frame))
                        one.send(other, frame)
                await asyncio.sleep(0.01)
            await until(lambda: relay.number > 30, "the relay is used")
            for one in stations:
                extra = [item for item in one.heard if item not in sent[one.name]]
                assert extra == []
                assert len(set(one.heard)) == len(one.heard), "no frame twice"

    patiently(main())


def test_a_link_survives_delays(tmp_path):
    """The twin of the tricks: what does not harm is let through."""

    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port, kind=evil(delay)),
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
        ):
            await all_connected((a, b))
            a.send("b", b"late")
            await until(lambda: b.heard == [("a", b"late")])

    patiently(main())


def relayed(folder, *ports, table=ONE_SHOT):
    return Company(
        folder,
        table,
        relays=[f"ws://{HOST}:{port}" for port in ports],
        dial_only=["a", "b", "c", "d"],
    )


def token_of(folder):
    return read_token(folder / "parties" / "relay.token")


def test_a_run_over_it_ends_with_names_and_shows_nothing(tmp_path):
    async def main():
        async with relay_at(port, token=token_of(tmp_path), kind=evil(flip)):
            return await company.together()

    port = free_port()
    hasty = changed(ONE_SHOT, policy={"deadline": 0.5, "patience": 1})
    company = relayed(tmp_path, port, table=hasty)
    told = reasons(patiently(main()))
    for name, words in told.items():
        assert "waited for" in words, name
        assert "nothing masked of this party was shown" in words


@pytest.mark.parametrize(
    "trick",
    [truncate]
    + [
        pytest.param(one, marks=pytest.mark.slow)
        for one in (drop, delay, reorder, replay, swap)
    ],
)
def test_a_run_over_it_ends_right_or_names_who_was_waited_for(trick, tmp_path):
    """It begins in the middle, when shares are on their way; what it can do is stop."""

    async def main():
        kind = evil(trick, spare=60)
        async with relay_at(port, token=token_of(tmp_path), kind=kind) as relay:
            found = await company.together()
            assert relay.number > kind.spare, "it came to its trick"
            return found

    port = free_port()
    hasty = changed(ONE_SHOT, policy={"deadline": 1.0, "patience": 1, "resend": 0.2})
    company = relayed(tmp_path, port, table=hasty)
    target = np.mean(ONE_SHOT["cost"]["targets"], axis=0)
    for name, one in patiently(main()).items():
        if isinstance(one, BaseException):
            assert isinstance(one, GivenUpError), name
            assert "waited for" in str(one) or "left" in str(one), str(one)
        else:
            np.testing.assert_allclose(one.answer, target, atol=1e-6)


def test_a_good_relay_beside_an_evil_one_is_enough(tmp_path):
    async def main():
        token = token_of(tmp_path)
        async with (
            relay_at(ports[0], token=token, kind=evil(flip)),
            relay_at(ports[1], token=token),
        ):
            return await company.together()

    ports = free_port(), free_port()
    company = relayed(tmp_path, *ports)
    found = patiently(main())
    assert company.verdict(found).good
    for answer in answers(found).values():
        target = np.mean(ONE_SHOT["cost"]["targets"], axis=0)
        np.testing.assert_allclose(answer, target, atol=1e-6)


def test_nothing_is_found_in_all_that_it_saw(tmp_path):
    """Names, the run, every frame that was sent, in any of its bytes of 16 or more."""

    async def main():
        async with relay_at(
            port, token=token_of(tmp_path), kind=evil(lambda r, h, d: h.on(d))
        ) as relay:
            found = await company.together()
            return found, bytes(relay.seen)

    port = free_port()
    company = relayed(tmp_path, port)
    company.records = witnesses = {name: Witness() for name in company.names}
    found, seen = patiently(main())
    answers(found)
    frames = [frame for one in witnesses.values() for frame in one.frames()]
    assert len(frames) > 30
    assert len(seen) > sum(map(len, frames)), "all of it went over the relay"
    markers = [frame[k : k + 16] for frame in frames for k in range(0, 64, 16)]
    agreed = company.consortium
    markers += [agreed.run.encode(), agreed.digest, agreed.digest.hex().encode()]
    markers += [agreed.run[-32:].encode(), agreed.title.encode() * 2]
    found_there = [one for one in markers if len(one) >= 8 and one in seen]
    assert found_there == []
    # The twin: the same search finds every marker where there is no TLS within.
    plain = b"".join(frames) + agreed.run.encode() + agreed.digest
    assert sum(one in plain for one in markers) > len(frames)


def test_pseudonyms_cannot_be_tried_out_without_the_run_s_name(tmp_path):
    """It knows the token, and may guess all names; not 128 random bits."""
    village = Village(tmp_path, silent=("a", "b"))
    agreed = village.consortium(deployment=deployment(1))
    shown = RelayPass.between(agreed, TOKEN, "a", "b")
    guesses = {
        relay_pseudonym(TOKEN, [f"test-{secrets.token_hex(16)}", "a"])
        for _ in range(999)
    }
    guesses |= {relay_pseudonym(TOKEN, ["a"]), relay_pseudonym(TOKEN, ["", "a"])}
    assert shown.me not in guesses
    # The twin: with the run's name a guess is right.
    assert shown.me == relay_pseudonym(TOKEN, [agreed.run, "a"])


@pytest.mark.parametrize("own", [False, True])
def test_who_has_the_token_and_no_key_is_nobody(own, tmp_path):
    """Whoever answers at the relay in a member's place; the twin has its key."""

    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        (tmp_path / "evil").mkdir()
        mallory = new_identity("a", tmp_path / "evil")  # the name, and another key
        who = village.identities["a"] if own else mallory
        async with (
            relay_at(port),
            village.stations("b", consortium=agreed, token=TOKEN) as (b,),
        ):
            limits = b.network._limits
            ways = RelayTunnels(agreed=agreed, me="a", token=TOKEN, limits=limits)
            passage = await ways.join(ways.places[0], "b", wait=30.0)
            context = tls_client_context(who, agreed.certificates)
            try:
                connection = await dial_through_relay(passage, context, limits)
                hello = await connection.recv()
                connection.transport.abort()
            except (OSError, ConnectionClosed, EOFError):
                hello = None
            return hello, list(b.met)

    hello, met = patiently(main())
    assert (hello is not None) is own
    assert met == []


# Clients of a good relay that are not


async def slow(port):
    """A request that never ends."""
    async with caller(port, b"GET /veilsum/relay HTTP/1.1\r\n") as (_, writer):
        with suppress(OSError):
            while True:
                writer.write(b"x: y\r\n")
                await asyncio.sleep(0.05)


async def besieged(tmp_path, count, strangers, *, tls=False):
    """A run's link goes on, and a new one comes about, beside all of these."""
    port, context, how = free_port(), None, {}
    if tls:
        (tmp_path / "relay").mkdir()
        made = new_identity("relay", tmp_path / "relay")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate_file, made.key_file)
        how = {"scheme": "wss", "relay_certificate": made.certificate}
    village = Village(tmp_path, names=("a", "b", "c"), silent=("a", "b", "c"))
    agreed = village.consortium(deployment=deployment(port, **how))
    given = {"consortium": agreed, "token": TOKEN}
    async with (
        relay_at(port, strangers=strangers, open_timeout=5.0, context=context) as relay,
        village.stations("a", "b", **given) as (a, b),
        AsyncExitStack() as crowd,
    ):
        await all_connected((a, b))
        slower = [asyncio.ensure_future(slow(port)) for _ in range(5)]
        for _ in range(count):
            await crowd.enter_async_context(caller(port))
        for wrong in (request(token="0" * 64), b"GET / HTTP/1.1\r\n\r\n"):
            for _ in range(20):
                await asked(port, wrong)
        a.send("b", b"on and on")
        await until(lambda: b.heard == [("a", b"on and on")])
        async with village.stations("c", **given) as (c,):
            await all_connected((a, b, c))
        assert relay.n_callers <= strangers
        assert relay.counts["refused_tls" if tls else "refused_401"] >= 20
        for one in slower:
            one.cancel()
        await asyncio.gather(*slower, return_exceptions=True)


@pytest.mark.parametrize("tls", [False, True])
def test_members_go_on_beside_hostile_callers(tls, tmp_path):
    patiently(besieged(tmp_path, count=60, strangers=16, tls=tls))


@pytest.mark.slow
def test_members_go_on_beside_five_thousand_idle_connections(tmp_path):
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < 12_000:
        pytest.skip("this system allows too few open files")
    patiently(besieged(tmp_path, count=5_000, strangers=512))


def test_a_member_that_floods_is_slowed_and_others_go_on(tmp_path):
    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        run = "0" * 32
        async with (
            relay_at(port, per_second=1 << 20) as relay,
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
            caller(port, request(RelayPass(run, "1" * 32, "2" * 32))),
            caller(port, request(RelayPass(run, "2" * 32, "1" * 32))) as (_, flood),
        ):
            await all_connected((a, b))
            await until(lambda: relay.n_links == 2)
            body = os.urandom(60_000)
            frame = b"\x82\xfe" + len(body).to_bytes(2, "big") + bytes(4) + body
            for _ in range(100):
                flood.write(frame)
            await until(lambda: any(half._stopped for half in relay._halves))
            a.send("b", b"still heard")
            await until(lambda: b.heard == [("a", b"still heard")])

    patiently(main())
