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

from veilsum.cli.up import is_one_printed_answer, phase_of_log_line
from veilsum.files.output import write_files
from veilsum.net.receipt import read_receipt, verify_receipts
from veilsum.party.local import LocalPartyRun, local_run
from veilsum.report.figures import coefficients_figure, figure_png_and_svg
from veilsum.report.run_report import report_of_run
from veilsum.sums.job_file import read_job

SCENARIO = Path(__file__).with_name("diabetes.toml")
VICTIM = "hospital-3"


def main(folder: Path) -> int:
    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    with local_run(SCENARIO, folder / "parties") as run:
        print(f"{run.consortium.title}; run {run.consortium.run}")
        print("each as a process of its own, over mutual TLS 1.3:\n")
        run.start_all()
        killed: list[str] = []
        codes = run.wait(_watching(run, killed))
        if any(codes.values()):
            for name in run.seats:
                print(f"{name}: exit {codes[name]}, {run.last_words(name)}")
            return 1
        results = _read(run, "result.json")
        receipts = [seat.out / "receipt.json" for seat in run.seats.values()]
        verdict = verify_receipts([*map(read_receipt, receipts)], run.consortium)
    same = _compare(results, folder)
    print("\nReceipts:")
    for finding in verdict.findings:
        word = "ok" if finding.good else "NOT ok"
        print(f"  {word}: {finding.check}, {finding.detail}")
    if not killed:
        print(f"\n{VICTIM} was to be killed, and had ended before: run this again")
    print(f"\n{time.monotonic() - start:.1f} s; all files are in {folder}")
    made = report_of_run(receipts[0].parent, receipts=receipts)
    write_files(folder, {"report.html": made.content}, private=True)
    print(f"what came of it, on one page: {folder / 'report.html'}")
    return 0 if verdict.good and made.good and same and killed else 1


def _watching(run: LocalPartyRun, killed: list[str]) -> Callable[[], None]:
    """Tell what the parties do; kill one of them once, and note its name."""
    told = dict.fromkeys(run.seats, 0)

    def look() -> None:
        for name in run.seats:
            phases = [
                phase for phase in map(phase_of_log_line, run.words(name)) if phase
            ]
            news, told[name] = phases[told[name] :], len(phases)
            for phase in news:
                print(f"  {name}: {phase}")
                if name == VICTIM and phase != "greeting" and not killed:
                    kill(phase)

    def kill(phase: str) -> None:
        if run.kill(VICTIM):
            killed.append(VICTIM)
            print(f"  {VICTIM}: KILLED (SIGKILL) while {phase}; started again")
            run.start(VICTIM)

    return look


def _read(run: LocalPartyRun, name: str) -> list[dict]:
    return [json.loads((seat.out / name).read_text()) for seat in run.seats.values()]


def _compare(results: list[dict], folder: Path) -> bool:
    """Print what the hospitals found beside the pooled fit, and draw both.

    Return whether all of them found the same.
    """
    private, same = results[0], is_one_printed_answer(results)
    pooled = read_job(SCENARIO, "model").run(driver="vectorised").reference
    assert pooled is not None
    print(f"\n{'':14}{'five hospitals':>18}{'pooled':>18}{'difference':>12}")
    for row, whole in zip(private["table"], pooled, strict=True):
        found = row["coefficient"]
        print(f"{row['name']:14}{found:18.10g}{whole:18.10g}{found - whole:12.1e}")
    print(f"the same at all {len(results)}: {'yes' if same else 'NO'}")
    promise = private["guarantee"]
    print(f"\nGuarantee against any two hospitals that collude: {promise['status']}")
    # It is told from the worst coalition's side, who can take away their own part.
    who = " and ".join(promise["corrupted"])
    view = [f"with what {who} know: {line}" for line in promise["released"]]
    for line in (*view, *promise["limits"]):
        print(f"  - {line}")
    figure = coefficients_figure(
        private["table"],
        pooled.tolist(),
        "Five hospitals under masks, and the pooled fit",
    )
    files = figure_png_and_svg(figure)
    write_files(folder, {f"coefficients.{kind}": files[kind] for kind in files})
    print(f"\nfigure: {folder / 'coefficients.png'}")
    return same


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/hospitals")))
