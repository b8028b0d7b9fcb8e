"""A member, or whoever has a relay's token, asks for answers and reads none of them."""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode

import pytest
from websockets.frames import Frame

from idle_clock import patiently
from net.test_relay import TOKEN, relay_at
from net.village import HOST, free_port
from veilsum.net import sockets
from veilsum.net.relay_tokens import RELAY_PATH, RelayPass

PING = bytes([0x89, 0x80 | 125, 0, 0, 0, 0]) + bytes(125)
FLOOD = 60_000


async def flooded():
    """Pings of somebody that never reads; the most that waits for it at the relay."""
    port = free_port()
    shown = RelayPass("1" * 32, "2" * 32, "3" * 32).headers(TOKEN)
    upgrade = {
        "Host": "relay",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": b64encode(bytes(16)).decode(),
    }
    lines = "".join(f"{k}: {v}\r\n" for k, v in {**upgrade, **shown}.items())
    most = 0
    async with relay_at(port) as relay:
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        own.connect((HOST, port))
        own.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=own)
        writer.write(f"GET {RELAY_PATH} HTTP/1.1\r\n{lines}\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()
        try:
            for _ in range(FLOOD // 500):
                writer.write(PING * 500)
                await writer.drain()
                most = max([most, *(half.buffered for half in relay._halves)])
            await asyncio.sleep(1)  # of silence: the relay has read all of it
            most = max([most, *(half.buffered for half in relay._halves)])
        except ConnectionError:
            pass  # it was hung up on
        finally:
            writer.transport.abort()
        return most


def test_what_is_not_read_is_not_answered_for_ever():
    assert patiently(flooded()) < 1 << 20


def test_without_a_bound_it_would_be(monkeypatch):
    monkeypatch.setattr(sockets, "MOST_UNREAD", FLOOD)
    assert patiently(flooded()) > 1 << 20


@pytest.mark.parametrize("paused", [True, False])
def test_who_reads_may_ping_for_ever(paused):
    """Pings count while nothing is read, and no longer."""

    class End(sockets.SocketWire):
        def __init__(self):
            self.paused, self.ended = False, False
            self.pending_pings, self.transport = {}, self

        def abort(self):
            self.ended = True

    end = End()
    for k in range(3 * sockets.MOST_UNREAD):
        end.paused = paused or k % 100 > 0
        end.process_event(Frame(sockets.PING, b""))
    assert end.ended is paused
