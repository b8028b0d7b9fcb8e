"""Five hospitals fit one regression: five processes, mutual TLS, one of them killed.

    python examples/hospitals.py [FOLDER]     made anew; out/hospitals by default

Each hospital runs `veilsum join` in a folder of its own, with its own key, data, ledger
and state. One is killed with SIGKILL in the middle and started again. In the end the
fit is printed beside the pooled one, which only this script can make: it has all rows.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from veilsum.cli.up import phase_of
from veilsum.files.output import write_files
from veilsum.jobs.job_file import read_job
from veilsum.jobs.local import LocalRun, local_run
from veilsum.net.receipt import read_receipt
from veilsum.net.verifying import verify_receipts
from veilsum.report.figures import coefficients_figure, render

SCENARIO = Path(__file__).with_name("diabetes.toml")
VICTIM = "hospital-3"


def main(folder: Path) -> int:
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    with local_run(SCENARIO, folder / "parties") as run:
        print(f"{run.consortium.title}; run {run.consortium.run}")
        print("each as a process of its own, over mutual TLS 1.3:\n")
        run.start_all()
        codes = run.wait(_watching(run))
        if any(codes.values()):
            for name in run.seats:
                print(f"{name}: exit {codes[name]}, {run.last_words(name)}")
            return 1
        results = _read(run, "result.json")
        verdict = verify_receipts(
            [read_receipt(seat.out / "receipt.json") for seat in run.seats.values()],
            run.consortium,
        )
    _compare(results, folder)
    print("\nReceipts:")
    for finding in verdict.findings:
        word = "ok" if finding.good else "NOT ok"
        print(f"  {word}: {finding.check}, {finding.detail}")
    print(f"\n{time.monotonic() - start:.1f} s; all files are in {folder}")
    return 0 if verdict.good else 1


def _watching(run: LocalRun) -> Callable[[], None]:
    """Tell what the parties do, and kill one of them once."""
    seen: dict[str, str] = {}
    killed: list[str] = []

    def look() -> None:
        for name in run.seats:
            phase = phase_of(run.last_words(name))
            if phase is None or seen.get(name) == phase:
                continue
            seen[name] = phase
            print(f"  {name}: {phase}")
            if name == VICTIM and phase != "greeting" and not killed:
                run.kill(name)
                killed.append(name)
                print(f"  {name}: KILLED (SIGKILL) while {phase}; started again")
                run.start(name)

    return look


def _read(run: LocalRun, name: str) -> list[dict]:
    return [json.loads((seat.out / name).read_text()) for seat in run.seats.values()]


def _compare(results: list[dict], folder: Path) -> None:
    """Print what the hospitals found beside the pooled fit, and draw both."""
    private = results[0]
    same = all(one["minimiser"] == private["minimiser"] for one in results)
    pooled = read_job(SCENARIO, "model").fit(driver="vectorised").reference
    assert pooled is not None
    print(f"\n{'':14}{'five hospitals':>18}{'pooled':>18}{'difference':>12}")
    for row, whole in zip(private["table"], pooled, strict=True):
        found = row["coefficient"]
        print(f"{row['name']:14}{found:18.10g}{whole:18.10g}{found - whole:12.1e}")
    print(f"the same at all {len(results)}: {'yes' if same else 'NO'}")
    promise = private["guarantee"]
    print(f"\nGuarantee against any two hospitals that collude: {promise['status']}")
    for line in (*promise["released"], *promise["limits"]):
        print(f"  - {line}")
    figure = coefficients_figure(
        private["table"],
        pooled.tolist(),
        "Five hospitals under masks, and the pooled fit",
    )
    files = render(figure)
    write_files(folder, {f"coefficients.{kind}": files[kind] for kind in files})
    print(f"\nfigure: {folder / 'coefficients.png'}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/hospitals")))
