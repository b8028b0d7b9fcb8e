"""Measure a relay: what it costs a round, and what it carries.

    python benchmarks/relay.py            # both, some minutes
    python benchmarks/relay.py rounds     # one of them

rounds   parties on a ring tell both neighbours 1,000 float64 in every round, each in a
         process of its own: directly, and with everybody dial-only over a relay.
carry    a relay with 1,000 links, over which 10,000 frames of 1 kB go in a second: its
         memory, and its share of a core; behind a proxy, and with TLS of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clocks import machine, sized
from network import peak_mb, processes, ring, write_scenario

AGENTS, DIM, ROUNDS, REPEATS = sized((4, 1_000, 400, 3), (3, 10, 5, 1))
LINKS, RATE, SIZE, SECONDS = sized((1_000, 10_000, 1_000, 10), (2, 500, 200, 0.2))
HOST = "127.0.0.1"


class RelayProcess:
    """`veilsum relay serve` as a process, until the end of a with."""

    def __init__(self, port: int, digest: str, tls: tuple[Path, Path] | None = None):
        options = ["--behind-proxy"]
        if tls is not None:
            options = ["--certificate", str(tls[0]), "--key", str(tls[1])]
        self._command = [
            *(sys.executable, "-m", "veilsum", "relay", "serve"),
            *("--listen", f"{HOST}:{port}", "--admit", digest, "--grace", "0"),
            *options,
        ]
        self._port = port

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        self.pid = self._process.pid
        asyncio.run(self._answers())
        return self

    async def _answers(self):
        for _ in range(300):
            try:
                _, writer = await asyncio.open_connection(HOST, self._port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
        raise RuntimeError("the relay does not answer")

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def cpu(self) -> float:
        """Seconds of a core that it has used."""
        parts = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def peak_mb(self) -> float:
        """The most memory that it has had."""
        return peak_mb(Path(f"/proc/{self.pid}/status"))


def free_port() -> int:
    from veilsum.party.local import free_ports_for_parties

    return free_ports_for_parties(1)[0]


def rate(*, relayed: bool) -> float:
    from veilsum.net.relay_tokens import read_token, token_digest
    from veilsum.party.local import local_run

    port, table = free_port(), ring(AGENTS, DIM, ROUNDS)
    with tempfile.TemporaryDirectory() as place:
        scenario = write_scenario(table, Path(place))
        folder = Path(place) / "parties"
        names = [str(k) for k in range(AGENTS)]
        how = {"relays": [f"ws://{HOST}:{port}"], "dial_only": names} if relayed else {}
        with local_run(scenario, folder, **how):
            pass
        if not relayed:
            found = processes("ours", folder)
        else:
            digest = token_digest(read_token(folder / "relay.token"))
            (folder / "relay.token").unlink()  # the parties' folders have copies
            with RelayProcess(port, digest):
                found = processes("ours", folder)
    return min(one["rounds"] / one["seconds"] for one in found)


def rounds() -> object:
    """Rounds a second, direct over relayed (at most 4)."""
    pairs = []
    for _ in range(REPEATS):
        relayed = rate(relayed=True)
        # The direct way has its smoke size in network.py.
        smoke = sized(usual=False, smoke=True)
        pairs.append((relayed if smoke else rate(relayed=False), relayed))
    ratios = [direct / relayed for direct, relayed in pairs]
    return {
        "direct_per_s": statistics.median(one for one, _ in pairs),
        "relayed_per_s": statistics.median(one for _, one in pairs),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "at_most": 4,
    }


# A load: half of all connections send, the other half count.


class End(asyncio.Protocol):
    """A member's end of a link, with no more than the load needs."""

    def __init__(self, request: bytes, joined: asyncio.Queue):
        self._request, self._joined, self._head = request, joined, b""
        self.bytes, self.at = 0, 0.0

    def connection_made(self, transport):
        """Ask to be joined."""
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data):
        """Count, once the other end is there."""
        if self._joined is None:
            self.bytes += len(data)
            self.at = time.perf_counter()
            return
        self._head += data
        if b"\x81\x06joined" in self._head:
            self._joined.put_nowait(self)
            self._joined = None


def request(token: str, run: str, me: str, to: str) -> bytes:
    from veilsum.net.relay_tokens import RELAY_PATH, RelayPass

    lines = {
        "Host": HOST,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        **RelayPass(run, me, to).headers(token),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"GET {RELAY_PATH} HTTP/1.1\r\n{head}\r\n".encode()


async def load(
    relay: RelayProcess, port: int, token: str, context: ssl.SSLContext | None
) -> dict:
    loop, joined = asyncio.get_running_loop(), asyncio.Queue()
    run, senders, takers = secrets.token_hex(16), [], []
    for _ in range(LINKS):
        names = secrets.token_hex(16), secrets.token_hex(16)
        for ends, (me, to) in ((senders, names), (takers, names[::-1])):
            asked = request(token, run, me, to)
            _, end = await loop.create_connection(
                lambda asked=asked: End(asked, joined), HOST, port, ssl=context
            )
            ends.append(end)
        async with asyncio.timeout(60):
            for _ in names:
                await joined.get()
    # Masked with zeros: a frame as a client sends it.
    frame = b"\x82\xfe" + SIZE.to_bytes(2, "big") + bytes(4) + os.urandom(SIZE)
    cpu, began = relay.cpu, time.perf_counter()
    sent, batch = 0, RATE // 100
    while (now := time.perf_counter() - began) < SECONDS:
        due = int(now * RATE) - sent
        for k in range(min(due, batch * 5)):
            senders[(sent + k) % LINKS].transport.write(frame)
        sent += min(due, batch * 5)
        await asyncio.sleep(0.005)
    while (carried := sum(end.bytes for end in takers) // (SIZE + 4)) < sent:
        if time.perf_counter() - began > 3 * SECONDS:
            break
        await asyncio.sleep(0.05)
    # Until the last one came, and not until somebody looked.
    taken = max(end.at for end in takers) - began
    for end in (*senders, *takers):
        end.transport.abort()
    await asyncio.sleep(0)
    return {"sent": sent, "carried": carried, "cpu": relay.cpu - cpu, "s": taken}


def carried(*, tls: bool) -> dict:
    from veilsum.net.relay_tokens import token_digest

    token, port = secrets.token_hex(32), free_port()
    with tempfile.TemporaryDirectory() as place:
        from veilsum.net.identity import new_identity

        context, files = None, None
        if tls:
            made = new_identity("relay", Path(place))
            files = (made.certificate_file, made.key_file)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.load_verify_locations(cadata=made.certificate)
        with RelayProcess(port, token_digest(token), files) as relay:
            found = asyncio.run(load(relay, port, token, context))
            memory = relay.peak_mb
    return {
        "links": LINKS,
        "frames_per_s": found["carried"] / found["s"],
        "lost": found["sent"] - found["carried"],
        "share_of_a_core": found["cpu"] / found["s"],
        "us_per_frame": 1e6 * found["cpu"] / found["carried"],
        "peak_mb": memory,
        "at_most_mb": 200,
    }


def carry() -> object:
    """1,000 links, 10,000 frames a second of 1 kB (one core, 200 MB)."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return {"behind_proxy": carried(tls=False), "own_tls": carried(tls=True)}


BENCHMARKS = {"rounds": rounds, "carry": carry}


def main(names: list[str]) -> None:
    print(json.dumps({"machine": machine()}))
    for name in names or BENCHMARKS:
        print(json.dumps({name: BENCHMARKS[name]()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
