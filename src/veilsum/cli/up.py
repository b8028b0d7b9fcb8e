"""`veilsum up`: all parties of a scenario as processes of this computer."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.markup import escape

from veilsum.cli.app import CommandFailure
from veilsum.cli.output import (
    FILE,
    json_option,
    print_json,
    say_on_terminal,
    terminal_console,
)

if TYPE_CHECKING:
    from veilsum.consortium.consortium import Consortium
    from veilsum.party.local import LocalPartyRun


@click.command("up")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=FILE,
    help="An empty folder for all parties' folders; by default one that is removed.",
)
@json_option
def command(*, scenario: Path, out: Path | None, as_json: bool) -> None:
    """Run a scenario with every party as a process of its own, over mutual TLS.

    Each party gets a key, the consortium file and its own data in a folder of its own,
    and runs veilsum join there. [simulation] is ignored, and that is said. Without
    --out, a kill -9 leaves the folder, with keys and data that only you can read, in
    the system's folder for temporary files under a name that begins with veilsum-.

    \b
    Example:
      veilsum up examples/average.toml
      veilsum up examples/diabetes.toml --out out/hospitals
    """
    if out is not None:
        _run_up_command(scenario, out, as_json=as_json)
        if not as_json:
            place = quote(str(out))
            where = f"{place}/NAME/out; its log is beside"
            say_on_terminal(f"result, receipt and page of a party: {where}")
            say_on_terminal(f"to read it: veilsum report {place} -o report.html")
        return
    with tempfile.TemporaryDirectory(prefix="veilsum-") as place:
        _run_up_command(scenario, Path(place) / "up", as_json=as_json)
    if not as_json:
        say_on_terminal(
            "the parties' folders are gone; --out FOLDER keeps them, with results and "
            "receipts, for veilsum report and veilsum verify"
        )


def _run_up_command(scenario: Path, folder: Path, *, as_json: bool) -> None:
    from veilsum.party.processes import party_process_context

    party_process_context()  # it loads at the same time as what follows
    from veilsum.party.local import local_run

    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave_up_command)
    with local_run(scenario, folder) as run:
        for line in run.left_out:
            say_on_terminal(f"left out: {line}")
        run.start_all()
        codes = run.wait(_print_up_phases(run))
        _check_exit_codes(run, codes)
        _report_up_command(run, as_json=as_json)


def _leave_up_command(number: int, frame: object) -> NoReturn:
    """Be ended in good order: parties first, then their folders."""
    del frame
    sys.exit(128 + number)


def _print_up_phases(run: LocalPartyRun) -> Callable[[], None]:
    seen: dict[str, str] = {}
    read: dict[str, int] = {}

    def look() -> None:
        for name, seat in run.seats.items():
            try:
                size = seat.log.stat().st_size
            except OSError:
                continue  # it has said nothing yet
            if size == read.get(name):
                continue  # nothing new: of many parties most say nothing just now
            read[name] = size
            phase = phase_of_log_line(run.last_words(name))
            if phase and seen.get(name) != phase:
                seen[name] = phase
                say_on_terminal(f"  {name}: {phase}")

    return look


def phase_of_log_line(line: str) -> str | None:
    """Return the phase that a line of a party's log announces, if it does.

    >>> phase_of_log_line('{"event": "phase", "phase": "sharing"}')
    'sharing'
    """
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found.get("phase") if found.get("event") == "phase" else None


def _check_exit_codes(run: LocalPartyRun, codes: dict[str, int]) -> None:
    failed = [name for name, code in codes.items() if code]
    if failed:
        lines = "; ".join(f"{name}: {run.last_words(name)}" for name in failed)
        raise CommandFailure(
            f"{len(failed)} of {len(codes)} parties did not finish; {lines} (all logs "
            "are kept with --out FOLDER)"
        )


def _report_up_command(run: LocalPartyRun, *, as_json: bool) -> None:
    from veilsum.consortium.study import AgreedStudy

    if not isinstance(agreed := run.consortium, AgreedStudy):
        outs = [seat.out for seat in run.seats.values()]
        _print_up_run(run, agreed, outs, as_json=as_json)
        return
    found = {
        name: _print_up_run(
            run,
            one,
            [seat.out / name for seat in run.seats.values()],
            as_json=None if as_json else False,
        )
        for name, one in agreed.questions.items()
    }
    if as_json:
        print_json({"questions": found, "parties": list(run.seats)})


def _print_up_run(
    run: LocalPartyRun, agreed: Consortium, outs: list[Path], *, as_json: bool | None
) -> dict[str, Any]:
    """Print what a run found, or, of several, return it; refuse what is not one."""
    from veilsum.net.receipt import read_receipt, verify_receipts

    results: list[dict[str, Any]] = [
        json.loads((out / "result.json").read_text("utf-8")) for out in outs
    ]
    receipts = [read_receipt(out / "receipt.json") for out in outs]
    verdict = verify_receipts(receipts, agreed)
    same = is_one_printed_answer(results)
    document = {**results[0], "verified": verdict.good and same}
    if as_json:
        print_json({**document, "parties": list(run.seats)})
    elif as_json is False:
        if agreed.title:
            terminal_console().print(f"\n{escape(agreed.title)}")
        if agreed.study:
            terminal_console().print(f"\nquestion {agreed.run[:-33]}")
        _print_up_results(results, same=same, good=verdict.good)
    wrong = [f"{one.check}: {one.detail}" for one in verdict.findings if not one.good]
    if not same:
        wrong.insert(0, "the parties' answers differ")
    if wrong:
        raise CommandFailure(f"do not use this result: {'; '.join(wrong)}")
    return document


def is_one_printed_answer(results: list[dict[str, Any]]) -> bool:
    return all(one["minimiser"] == results[0]["minimiser"] for one in results)


def _print_up_results(results: list[dict[str, Any]], *, same: bool, good: bool) -> None:
    screen = terminal_console()
    screen.print(f"\n{len(results)} parties, {'one answer' if same else 'NOT one'}:")
    names = [row["name"] for row in results[0].get("table", ())]
    for k, number in enumerate(results[0]["minimiser"]):
        name = names[k] if names else f"x[{k}]"
        screen.print(f"  {escape(name):<16}{number:.12g}")
    screen.print(_printed_up_guarantee(results[0]["guarantee"]))
    screen.print("receipts " + ("verified" if good else "NOT in order"))


def _printed_up_guarantee(guarantee: dict[str, Any]) -> str:
    from veilsum.sums.releases import SUM_LIMITS

    most, epsilon = guarantee.get("tolerate") or 0, guarantee["epsilon"]
    told = "no epsilon" if epsilon is None else f"epsilon {epsilon:.3g}"
    who = "any party" if most == 1 else f"any {most} parties together"
    masks = f"masks: {guarantee['status']} against {who}, {told}"
    open_ = [line["text"] for line in guarantee["limits"] if line["text"] in SUM_LIMITS]
    return "\n".join([masks, *(f"sums: {line}" for line in open_)])
