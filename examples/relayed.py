"""Five hospitals, four of them dial-only, over a relay that is killed on the way.

    python examples/relayed.py [FOLDER]     made anew; out/relayed by default

First they fit the regression of `hospitals.py` with direct links. Then four of them
have no address, and meet at `veilsum relay serve`, a process of its own. It is killed
with SIGKILL as soon as two have met there, and started again. In the end the two fits
are compared, to the last bit, and the receipts verified.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from veilsum.cli.up import is_one_printed_answer
from veilsum.net.receipt import read_receipt, verify_receipts
from veilsum.net.relay_tokens import TOKEN_FILE, read_token, token_digest
from veilsum.party.local import HOST, LocalPartyRun, free_ports_for_parties, local_run

SCENARIO = Path(__file__).with_name("diabetes.toml")
DIAL_ONLY = ("hospital-2", "hospital-3", "hospital-4", "hospital-5")


class Relay:
    """`veilsum relay serve` as a process, which can be killed and started again."""

    def __init__(self, port: int, digest: str, log: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "veilsum", "relay", "serve", "--behind-proxy"),
            *("--listen", f"{HOST}:{port}", "--admit", digest, "--json"),
        ]
        self._log, self.kills = log, 0
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stderr=log)  # noqa: S603 - ours

    def kill(self) -> None:
        """Kill it, without a word to anybody, and start it again."""
        self.end()
        self.kills += 1
        self._process = self._started()

    def end(self) -> None:
        """Kill it for good."""
        self._process.kill()
        self._process.wait()


def main(folder: Path) -> int:
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    print("with direct links:")
    with local_run(SCENARIO, folder / "direct") as run:
        direct, good = _results(run, lambda: None)
    print(f"\nover a relay, with {', '.join(DIAL_ONLY)} dial-only:")
    (port,) = free_ports_for_parties(1)
    where = f"ws://{HOST}:{port}"
    parties = folder / "relayed"
    with local_run(SCENARIO, parties, relays=[where], dial_only=DIAL_ONLY) as run:
        digest = token_digest(read_token(parties / TOKEN_FILE))
        relay = Relay(port, digest, folder / "relay.log")
        try:
            relayed, verified = _results(run, _watching(run, relay))
        finally:
            relay.end()
    same = bool(direct) and direct == relayed
    print(f"\n{'':14}{'direct':>24}{'over a relay':>24}")
    for name in direct:
        print(f"{name:14}{direct[name]:24.17g}{relayed.get(name, 0.0):24.17g}")
    print(f"the same to the last bit: {'yes' if same else 'NO'}")
    print(f"receipts: {'verified' if good and verified else 'NOT in order'}")
    print(f"the relay was killed {relay.kills} times")
    print(f"\n{time.monotonic() - start:.1f} s; all files are in {folder}")
    return 0 if same and good and verified and relay.kills else 1


def _results(
    run: LocalPartyRun, look: Callable[[], None]
) -> tuple[dict[str, float], bool]:
    """Run everybody; return the coefficients, and whether the receipts verify."""
    run.start_all()
    codes = run.wait(look)
    if any(codes.values()):
        for name, code in codes.items():
            print(f"  {name}: exit {code}, {run.last_words(name)}")
        return {}, False
    outs = [seat.out for seat in run.seats.values()]
    results = [json.loads((out / "result.json").read_text()) for out in outs]
    receipts = [read_receipt(out / "receipt.json") for out in outs]
    good = verify_receipts(receipts, run.consortium).good and is_one_printed_answer(
        results
    )
    print(f"  {len(results)} hospitals have one answer: {'yes' if good else 'NO'}")
    table = results[0]["table"]
    return {row["name"]: row["coefficient"] for row in table}, good


def _watching(run: LocalPartyRun, relay: Relay) -> Callable[[], None]:
    """Tell who meets whom where; kill the relay once, when two have met over it."""
    told = dict.fromkeys(run.seats, 0)

    def look() -> None:
        for name in run.seats:
            lines = run.words(name)
            news, told[name] = lines[told[name] :], len(lines)
            for found in map(json.loads, news):
                if found["event"] != "connected":
                    continue
                way = found.get("relay")
                print(f"  {name} has met {found['party']}: {way or 'directly'}")
                if way and not relay.kills:
                    relay.kill()
                    print("  the relay: KILLED (SIGKILL), and started again")

    return look


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/relayed")))
