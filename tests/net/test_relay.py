"""Members that meet at a relay: what works directly works there, too."""

from __future__ import annotations

import os
import secrets
from contextlib import asynccontextmanager

from idle_clock import patiently
from net.village import HOST, Village, all_connected, free_port, until
from veilsum.agreement.consortium import Address
from veilsum.net.passes import token_digest
from veilsum.net.relay import RelayLimits, RelayServer

TOKEN = secrets.token_hex(32)


@asynccontextmanager
async def relay_at(port, *, limits=None, token=TOKEN, context=None):
    server = RelayServer({token_digest(token)}, limits or RelayLimits(), context)
    await server.start(Address(HOST, port))
    try:
        yield server
    finally:
        await server.stop(0.0)


def deployment(*ports):
    return {
        "relay": [f"ws://{HOST}:{port}" for port in ports],
        "relay_token": token_digest(TOKEN),
    }


def test_two_parties_without_addresses_meet_at_a_relay(tmp_path):
    async def main():
        port = free_port()
        village = Village(tmp_path, silent=("a", "b"))
        agreed = village.consortium(deployment=deployment(port))
        async with (
            relay_at(port) as relay,
            village.stations(consortium=agreed, token=TOKEN) as (a, b),
        ):
            await all_connected((a, b))
            frame = os.urandom(300_000)
            a.send("b", frame)
            b.send("a", b"short")
            await until(lambda: b.heard and a.heard)
            assert b.heard == [("a", frame)]
            assert a.heard == [("b", b"short")]
            assert relay.n_links == 1

    patiently(main())
