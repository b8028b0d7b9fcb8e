"""`veilsum audit`: an adversary played against an agreement, with controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from veilsum.cli.output import (
    console,
    json_option,
    print_json,
    progress_bar,
    say,
    table,
)

if TYPE_CHECKING:
    from veilsum.audit.attack import Outcome
    from veilsum.audit.auditing import Audit
    from veilsum.audit.record import AuditRecord

COLUMNS = ("attack", "by", "promised", "measured", "interval", "would find")
# More lines than these nobody reads; the rest is in the JSON.
MOST_LINES = 40


@click.command("audit")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--coalitions",
    default="worst",
    show_default=True,
    metavar="WHO",
    help="worst, all:2 for all pairs, or names: a,b;c.",
)
@click.option(
    "--executions",
    type=click.IntRange(min=1),
    help="Simulated runs, shared by all coalitions; by depth, if not said.",
)
@click.option(
    "--depth",
    type=click.Choice(["quick", "standard", "deep"]),
    default="standard",
    show_default=True,
    help="quick tells two inputs apart; standard tries every attack.",
)
@click.option(
    "--distance",
    type=float,
    help="Between the two inputs; where 60% is promised, if not said.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Threads; the result does not depend on how many there are.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for audit.json and figures.",
)
@click.option(
    "--identity",
    "key",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Sign audit.json with this party's key.",
)
@click.option(
    "--transcript",
    "transcripts",
    type=(click.Path(path_type=Path), click.Path(path_type=Path)),
    multiple=True,
    metavar="FILE KEY",
    help="Look at a run of one's own too: what join --transcript wrote, and the key; "
    "once for each member who takes part.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Repeat the audit of an audit.json, and compare every byte.",
)
@json_option
def command(
    *,
    scenario: Path,
    coalitions: str,
    executions: int | None,
    depth: Any,
    distance: float | None,
    seed: int,
    workers: int,
    out: Path | None,
    key: Path | None,
    transcripts: tuple[tuple[Path, Path], ...],
    replay: Path | None,
    as_json: bool,
) -> None:
    """Attack what a scenario or consortium file agrees on, on made-up inputs.

    For every coalition: how often each attack may succeed, how often it did, and which
    excess would have been found. Nobody's data is read. The exit code is 0 if nothing
    was found, 1 if an attack succeeded more often than promised (or a replay differs),
    2 if the file cannot be used, 3 if the audit's own controls failed.

    \b
    Example:
      veilsum audit examples/average.toml --coalitions all:2 --out out/audit
      veilsum audit examples/average.toml --replay out/audit/audit.json
    """
    from veilsum.audit.record import read_record
    from veilsum.files.output import prepare_folder, write_files
    from veilsum.net.identity import read_identity

    folder = None if out is None else prepare_folder(out)
    identity = None if key is None else read_identity(key)
    before = None if replay is None else read_record(replay)
    asked: dict[str, Any] = {
        "coalitions": coalitions,
        "executions": executions,
        "depth": depth,
        "distance": distance,
        "seed": seed,
    }
    if before is not None:
        asked = before.asked
    found, record = _audited(scenario, asked, workers, transcripts)
    if before is not None:
        record = before.repeated(record)
    elif identity is not None:
        record = record.signed_by(identity)
    if folder is not None:
        files = {"audit.json": record.to_json().encode(), **_drawn(found)}
        write_files(folder, files)
    if as_json:
        print_json(record.content)
    else:
        _print(found)
    if before is not None:
        _compare(before, record)
    click.get_current_context().exit(found.exit_code)


def _audited(
    scenario: Path,
    asked: dict[str, Any],
    workers: int,
    transcripts: tuple[tuple[Path, Path], ...],
) -> tuple[Audit, AuditRecord]:
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    from veilsum.audit import own_run
    from veilsum.audit.auditing import (
        audit_question,
        coalitions_of,
        executions_of,
        scene_of,
        work_of,
    )
    from veilsum.audit.question import Rehearsal
    from veilsum.audit.record import AuditRecord
    from veilsum.net.transcript_file import read_transcript
    from veilsum.privacy.transcript import Transcript

    held = [read_transcript(file, key) for file, key in transcripts]
    own = None if not held else Transcript.together(held)
    question = Rehearsal.read(scenario)
    scene = scene_of(question)
    policy = question.consortium.rules
    groups = coalitions_of(
        scene.topology,
        asked["coalitions"],
        policy.summing.get("tolerate", 0),
        named=question.named,
        most_work=work_of(scene, asked["depth"]),
    )
    total = executions_of(scene, asked["depth"], asked["executions"])
    with progress_bar() as open_bar, ThreadPoolExecutor(workers) as pool:
        found = audit_question(
            question,
            scene,
            groups,
            executions=total,
            depth=asked["depth"],
            distance=asked["distance"],
            seed=asked["seed"],
            on=pool,
            progress=open_bar,
        )
    if own is not None:
        found = replace(
            found,
            outcomes=(*found.outcomes, *own_run.look(own)),
            said=(*found.said, *own_run.in_words(own)),
        )
    if found.executions < found.asked:
        say(f"stopped after {found.executions:,} of {found.asked:,} executions")
    record = AuditRecord.of(found, scene, source=scenario.read_bytes(), asked=asked)
    return found, record


def _drawn(found: Audit) -> dict[str, bytes]:
    from veilsum.errors import MissingExtraError
    from veilsum.report.figures import audit_figure, render

    if not found.curves:
        return {}
    try:
        drawn = render(audit_figure(found))
    except MissingExtraError as error:
        say(f"no figure was drawn: {error}")
        return {}
    return {f"audit.{kind}": one for kind, one in drawn.items()}


def _compare(before: AuditRecord, again: AuditRecord) -> None:
    difference = before.difference(again)
    if difference is None:
        say("the replay has the same bytes")
        return
    say(f"the replay differs: {difference}")
    if before.content["made_with"] != again.content["made_with"]:
        say("it was made with other versions, which may be why")
    click.get_current_context().exit(1)


def _print(found: Audit) -> None:
    screen = console()
    screen.print(f"{escape(found.verdict)}\n")
    for line in found.allowed:
        screen.print(f"{escape(line)}\n")
    shown = sorted(found.outcomes, key=lambda one: not one.exceeds(found.alarms))
    rows = [_row(one, found.alarms) for one in shown[:MOST_LINES]]
    screen.print(table(COLUMNS, rows))
    if len(shown) > MOST_LINES:
        screen.print(f"and {len(shown) - MOST_LINES:,} more in audit.json")
    screen.print(
        f"\n{found.executions:,} executions at distance {found.distance:.4g}; all "
        f"statements together are wrong at most 5% of the time. {escape(found.power)}\n"
    )
    marks = {True: "as it must be", False: "NOT as it must be"}
    screen.print(
        table(
            ("control", "found", ""),
            [(one.name, one.found, marks[one.holds]) for one in found.controls],
        )
    )
    for line in (
        *found.said,
        *found.clock,
        *(f"not played: {one}" for one in found.skipped),
    ):
        screen.print(escape(line))


def _row(one: Outcome, alarms: float) -> tuple[str, ...]:
    low, high = one.interval(alarms)
    return (
        one.attack,
        ", ".join(one.coalition) or "anybody",
        _percent(one.promised),
        f"{_percent(one.rate)}{' !' if one.exceeds(alarms) else ''}",
        f"{_percent(low)} to {_percent(high)}",
        _percent(one.findable(alarms)),
    )


def _percent(chance: float) -> str:
    if 0.0 < chance < 5e-5:
        return "<0.01%"
    return f"{100 * chance:.3g}%" if chance in {0.0, 1.0} else f"{100 * chance:.2f}%"
