"""`veilsum audit`: an adversary played against an agreement, with controls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    json_option,
    on_option,
    print_json,
    say_on_terminal,
    seed_option,
)

if TYPE_CHECKING:
    from veilsum.audit.auditing import Audit
    from veilsum.party.audit_record import AuditRecord

PATH = click.Path(path_type=Path)
# Of each mechanism of the literature, under A and as many under B, by depth.
RUNS = {"quick": 200, "standard": 1000, "deep": 4000}


@click.command("audit")
@click.argument("what", metavar="SCENARIO|RUN", required=False, type=PATH)
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
@click.option(
    "--question",
    metavar="NAME",
    help="Of a study: this one; all of them, one after the other, if not said.",
)
@seed_option
@on_option
@click.option("--out", type=PATH, help="Folder for audit.json and figures.")
@click.option(
    "--identity",
    "key",
    type=PATH,
    metavar="KEY",
    help="Sign audit.json with this party's key.",
)
@click.option(
    "--transcript",
    "transcripts",
    type=(PATH, PATH),
    multiple=True,
    metavar="FILE KEY",
    help="Look at what another member kept of the run too: what its join --transcript "
    "wrote, and its key; once for each.",
)
@click.option(
    "--literature",
    is_flag=True,
    help="Put the masks beside other mechanisms at the same divergence instead; no "
    "file is needed.",
)
@click.option(
    "--replay",
    type=PATH,
    metavar="FILE",
    help="Repeat the audit of an audit.json, and compare every byte.",
)
@json_option
def command(
    *,
    what: Path | None,
    coalitions: str,
    executions: int | None,
    depth: Any,
    distance: float | None,
    question: str | None,
    seed: int,
    on: str | None,
    out: Path | None,
    key: Path | None,
    transcripts: tuple[tuple[Path, Path], ...],
    replay: Path | None,
    literature: bool,
    as_json: bool,
) -> None:
    """Attack what a scenario or consortium file agrees on, on made-up inputs.

    For every coalition: how often each attack may succeed, how often it did, and which
    excess would have been found. Nobody's data is read. RUN is the folder that veilsum
    join wrote its result to: then its receipt is checked too, and what this party
    received, if it kept a transcript; what is not there is said. Ctrl-C keeps what
    there is. Of a study every question is audited by itself. The exit code is 0 if
    nothing was found, 1 if an attack succeeded more often than promised (or a replay
    differs), 2 if the file cannot be used, 3 if the audit's own controls failed.

    \b
    Example:
      veilsum audit examples/average.toml --coalitions all:2 --out out/audit
      veilsum audit examples/average.toml --replay out/audit/audit.json
      veilsum audit out
      veilsum audit --literature --out out/literature
    """
    from veilsum.audit.question import questions_of
    from veilsum.audit.unfinished import NAME
    from veilsum.errors import InvalidInputError
    from veilsum.files.output import prepare_output_folder, write_files
    from veilsum.net.identity import read_identity
    from veilsum.party.audit_record import check_asked_of_audit, read_audit_record

    if replay is not None and key is not None:
        raise InvalidInputError(
            "--replay repeats a record with the signature that it has, and --identity "
            "signs a new one: give one of them",
            code="replay-with-identity",
        )
    folder = None if out is None else prepare_output_folder(out)
    if literature:
        _beside_the_literature(what, folder, RUNS[depth], seed, as_json=as_json)
        return
    if what is None:
        raise InvalidInputError(
            "say what to audit: a scenario or consortium file, or the folder of a run; "
            "or --literature",
            code="nothing-to-audit",
        )
    identity = None if key is None else read_identity(key)
    before = None if replay is None else read_audit_record(replay)
    asked: dict[str, Any] = {
        "coalitions": coalitions,
        "executions": executions,
        "depth": depth,
        "distance": distance,
        "seed": seed,
    }
    if question is not None:
        asked["question"] = question
    if before is not None:
        asked = before.asked
    check_asked_of_audit(asked, "veilsum audit")
    several = {} if what.is_dir() or "question" in asked else questions_of(what)
    records, worst = {}, 0
    for name in several or [""]:
        if name:
            asked = {**asked, "question": name}
            say_on_terminal(f"question {name}")
        # A replay begins at the beginning, so that it shows what is not so.
        place = (
            None if folder is None or replay else prepare_output_folder(folder / name)
        )
        found, record, members = _run_audit_command(what, asked, on, transcripts, place)
        here = record.content["made_with"]
        if before is not None:
            record = before.repeated(record)
        elif identity is not None:
            record = record.signed_by(identity)
        if folder is not None:
            files = {"audit.json": record.to_json().encode()}
            if found.curves:
                files |= _draw_audit_figure("audit", found.plot)
            write_files(prepare_output_folder(folder / name), files)
            if place is not None and found.is_whole:
                (place / NAME).unlink(missing_ok=True)
        if not as_json:
            click.echo(str(found))
        if before is not None:
            _print_audit_replay(before, record, members, here)
        records[name], worst = record.content, max(worst, found.exit_code)
    if as_json:
        print_json({"questions": records} if several else records[""])
    click.get_current_context().exit(worst)


def _run_audit_command(
    what: Path,
    asked: dict[str, Any],
    on: str | None,
    transcripts: tuple[tuple[Path, Path], ...],
    place: Path | None,
) -> tuple[Audit, AuditRecord, dict[str, str]]:
    import hashlib
    from dataclasses import replace
    from functools import partial

    from veilsum.audit import own_run
    from veilsum.audit.auditing import (
        attack_search_work,
        audit,
        audit_executions,
        audit_question,
        coalitions_of,
        scene_of_audit,
        scene_of_run,
    )
    from veilsum.audit.surveys import AuditedSurvey, rehearse_attack_target
    from veilsum.audit.unfinished import UnfinishedAudit
    from veilsum.errors import InvalidInputError
    from veilsum.files.scenarios import read_toml_file
    from veilsum.party.audit_record import audit_environment
    from veilsum.party.run_folder import RunFolder
    from veilsum.party.transcript_file import read_transcript
    from veilsum.privacy.transcript import Transcript
    from veilsum.scale.workers import workers_on

    ran = RunFolder(what) if what.is_dir() else None
    file = what if ran is None else ran.file
    question = (
        None if file is None else rehearse_attack_target(file, asked.get("question"))
    )
    run = None if question is None else question.consortium.run
    held = [read_transcript(file, key, run=run) for file, key in transcripts]
    held += [] if ran is None else ran.transcripts
    own = None if not held else Transcript.together(held)
    play: Callable[..., Audit] = audit
    if file is not None and question is not None:
        source, named = file.read_bytes(), question.named
        tolerate = question.consortium.rules.policy.tolerate
        if isinstance(question, AuditedSurvey):
            # Masks between members hide shares from fewer than all but two of them.
            tolerate = min(tolerate, len(question.terms.names) - 2)
            scene, play = question.scene, question.audit
        else:
            scene, play = scene_of_audit(question), partial(audit_question, question)
        if own is not None:
            own_run.check_run_audited(own, scene)
    elif own is not None:
        # Without the file that says what was asked: the masks of the run alone.
        scene, source = scene_of_run(own), own.plan
        tolerate, named = 0, own.corrupted
    else:
        raise InvalidInputError(
            f"{what} has nothing to audit: expected the folder that veilsum join wrote "
            "to, with the consortium file in it or beside it, or a transcript and its "
            "key",
            code="nothing-to-audit",
        )
    groups = coalitions_of(
        scene.topology,
        asked["coalitions"],
        tolerate,
        named=named,
        most_work=attack_search_work(scene, asked["depth"]),
    )
    total = audit_executions(scene, asked["depth"], asked["executions"])
    kept = None
    if place is not None:
        file_digest = hashlib.sha256(source).hexdigest()
        agreed = {"asked": asked, "file": file_digest, "made_with": audit_environment()}
        kept = UnfinishedAudit.begun(place, agreed)
    try:
        with workers_on(on or "threads:2") as pool:
            found = play(
                scene,
                groups,
                executions=total,
                depth=asked["depth"],
                distance=asked["distance"],
                seed=asked["seed"],
                on=pool,
                kept=kept,
            )
    except KeyboardInterrupt:
        # Between two attacks there is no answer yet, but what was counted is kept.
        if kept is None or not kept.path.exists():
            raise
        say_on_terminal(
            f"stopped: {kept.path} has what was counted, and the same command goes on"
        )
        raise click.exceptions.Exit(1) from None
    if own is not None:
        found = replace(
            found,
            outcomes=(*found.outcomes, *own_run.audit_shares_received(own)),
            said=(*found.said, *own_run.attack_findings(own)),
        )
    if ran is not None:
        found = replace(
            found,
            outcomes=(*found.outcomes, *own_run.audit_receipt(ran)),
            skipped=(*found.skipped, *ran.missing),
        )
    if not found.is_whole:
        where = f"stopped after {found.executions:,} of {found.asked:,} executions"
        say_on_terminal(
            f"{where}{': the same command goes on from there' if kept else ''}"
        )
    record = found.record(scene, source=source, asked=asked)
    if file is None or question is None or "members" not in read_toml_file(file):
        # A plan has stand-ins for certificates, which are nobody's.
        return found, record, {}
    return found, record, question.consortium.certificates


def _draw_audit_figure(name: str, draw: Callable[[], Any]) -> dict[str, bytes]:
    """Return a figure's files; none, which is said, without the extra that draws."""
    from veilsum.errors import MissingExtraError
    from veilsum.report.figures import figure_png_and_svg

    try:
        drawn = figure_png_and_svg(draw())
    except MissingExtraError as error:
        say_on_terminal(f"no figure was drawn: {error}")
        return {}
    return {f"{name}.{kind}": one for kind, one in drawn.items()}


def _beside_the_literature(
    what: Path | None, folder: Path | None, runs: int, seed: int, *, as_json: bool
) -> None:
    """Print the table at the middle divergence; write all, with their figure."""
    from veilsum.audit.literature import (
        TARGETS,
        beside_the_literature,
        literature_figure,
    )
    from veilsum.errors import InvalidInputError
    from veilsum.files.output import as_strict_json as text, write_files
    from veilsum.progress import silent_progress, watch_progress
    from veilsum.report import figures

    if what is not None:
        raise InvalidInputError(
            "--literature compares mechanisms, and takes no file",
            code="literature-with-file",
        )
    tables = []
    with watch_progress() as opening:
        bar = (opening or silent_progress)("divergences", len(TARGETS))
        for target in TARGETS:
            tables.append(beside_the_literature(seed, runs, target))
            bar(len(tables))
    middle = tables[len(tables) // 2]
    document = {"seed": seed, "tables": [one.to_dict() for one in tables]}
    if folder is not None:
        files = {
            "literature.json": f"{text(document)}\n".encode(),
            "literature.txt": f"{middle}\n".encode(),
            **_draw_audit_figure(
                "literature", partial(literature_figure, figures, tables)
            ),
        }
        write_files(folder, files)
    if as_json:
        print_json(document)
    else:
        click.echo(str(middle))


def _print_audit_replay(
    before: AuditRecord,
    again: AuditRecord,
    members: dict[str, str],
    here: dict[str, str],
) -> None:
    """Say whether a replay comes to the same, and whose word the record is."""
    good, words = before.signed_words(members)
    say_on_terminal(words)
    there = before.content["made_with"]
    others = [f"{key} {there[key]}" for key in here if there[key] != here[key]]
    if others:
        say_on_terminal(
            f"the record says that it was made with {', '.join(others)}; not so here"
        )
    difference = before.difference(again)
    if difference is None:
        say_on_terminal(
            "the replay has the same bytes; versions and what a clock said are copied"
        )
    else:
        say_on_terminal(f"the replay differs: {difference}")
        first, whole = before.content["audit"], again.content["audit"]
        if first["asked"] == whole["asked"] != first["executions"]:
            say_on_terminal(
                "fewer executions are in it than were asked for: was it stopped?"
            )
    if difference is not None or not good:
        click.get_current_context().exit(1)
