"""Relays for tests: one token, in this process, with a port of their own."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager

from net.village import HOST
from veilsum.consortium.addresses import Address
from veilsum.net.relay import RelayLimits, RelayServer
from veilsum.net.relay_tokens import RELAY_PATH, RelayPass, token_digest

TOKEN = secrets.token_hex(32)


@asynccontextmanager
async def relay_at(
    port,
    *more_tokens,
    token=TOKEN,
    context=None,
    kind=RelayServer,
    metrics=None,
    **limits,
):
    admitted = {token_digest(one) for one in (token, *more_tokens)}
    server = kind(admitted, RelayLimits(**limits), context)
    await server.start(Address(HOST, port), metrics)
    try:
        yield server
    finally:
        await server.stop(0.0)


def deployment(*ports, scheme="ws", **more):
    return {
        "relay": [f"{scheme}://{HOST}:{port}" for port in ports],
        "relay_token": token_digest(TOKEN),
        **more,
    }


def request(shown=None, *, token=TOKEN, path=RELAY_PATH, upgrade=True):
    """The bytes of a request, as a member would send it."""
    shown = shown or RelayPass(*(secrets.token_hex(16) for _ in range(3)))
    lines = {
        "Host": HOST,
        **({"Upgrade": "websocket", "Connection": "Upgrade"} if upgrade else {}),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        **shown.headers(token),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"GET {path} HTTP/1.1\r\n{head}\r\n".encode()


@asynccontextmanager
async def caller(port, content=b"", **options):
    """A connection that sends `content` first, and is closed even if the test fails."""
    reader, writer = await asyncio.open_connection(HOST, port, **options)
    try:
        writer.write(content)
        yield reader, writer
    finally:
        writer.transport.abort()


async def asked(port, content):
    """The first line of what a relay answers."""
    async with caller(port, content) as (reader, _), asyncio.timeout(30):
        return (await reader.readline()).decode()
