"""What commands that run jobs on data have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from veilsum.cli.app import on_screen
from veilsum.cli.output import json_option, print_json, say
from veilsum.errors import MissingExtraError, printable
from veilsum.progress import show_activity
from veilsum.showing import counted

if TYPE_CHECKING:
    from veilsum.questions.job_file import JobFile
    from veilsum.showing import Showing

# Whether all limits are to be shown, in what click keeps of a command.
LIMITS = "veilsum.limits"
# Spelt out: importing them would load numpy for --help.
DRIVERS = ("vectorised", "loopback")


def job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every job."""
    options = [
        click.argument("scenario", type=click.Path(path_type=Path)),
        click.option(
            "--driver",
            type=click.Choice(DRIVERS),
            default="vectorised",
            show_default=True,
            help="All parties as arrays, or each as the machine that it would run.",
        ),
        click.option(
            "--out", type=click.Path(path_type=Path), help="Folder for result.json."
        ),
        json_option,
        click.option(
            "--limits",
            is_flag=True,
            expose_value=False,
            callback=_noted,
            help="Show every limit of the guarantee, not the foremost alone.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _noted(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep what no command needs to know of for `run`."""
    del option
    context.meta[LIMITS] = value


def run(
    scenario: Path,
    kind: str,
    *,
    driver: str,
    out: Path | None,
    as_json: bool,
    asked: Mapping[str, Any] | None = None,
    instead: Mapping[str, Any] | None = None,
    draw: Callable[[JobFile, Any], Mapping[str, Any]] | None = None,
) -> None:
    """Read a job, run it, and show or write what came out.

    What is said `instead` of what the file's section has is for simulations only;
    figures that are drawn of a result go to the folder too, by their names. What is
    `asked` of a result is how to show it.
    """
    with show_activity(f"Reading {printable(scenario.name)}"):
        from veilsum.files.output import as_json as text, prepare_folder, write_files
        from veilsum.numbers.arrays import listed
        from veilsum.questions.job_file import read_job
        from veilsum.tables.schema import rounded_words

        folder = None if out is None else prepare_folder(out)
        job = read_job(scenario, kind, alone=True)
    if instead:
        job = replace(job, question=msgspec.structs.replace(job.question, **instead))
    for section in job.ignored:
        say(f"[{section}] is for real parties: this simulates and ignores it")
    with show_activity(f"Running {counted(len(job.tables), 'party')}"):
        result = job.run(driver=driver)
    with show_activity("Searching for the worst coalition"):
        _ = result.guarantee  # kept by the result, which shows it below
    if folder is not None:
        write_files(folder, {"result.json": text(result.to_dict()).encode()})
        if draw is not None:
            try:
                write_files(folder, _rendered(draw(job, result)))
            except MissingExtraError as error:
                say(f"no figure was drawn: {error}")
    if as_json:
        print_json(result.to_dict())
        return
    if job.rounded:
        say(rounded_words(job.rounded))
    if refused := job.refused_by_default():
        every = len(refused) == len(job.tables)
        who = f"all {len(refused)} parties" if every else listed(refused, most=12)
        say(f"this file changes minimum_rows; by default would be refused: {who}")
    if job.title:
        click.echo(f"{on_screen(job.title)}\n")
    showing = result.showing(**(asked or {}))
    if not click.get_current_context().meta[LIMITS]:
        showing = _briefer(showing, result.foremost)
    click.echo(showing.text())


def _briefer(showing: Showing, first: tuple[str, ...]) -> Showing:
    """Return the same with some limits only, and a line that says where the rest is."""
    more = len(showing.folded.get("Limits", ())) - len(first)
    if more < 2:
        return showing
    rest = f"and {more} more: --limits shows them, and --json has them"
    return showing.also(folded={"Limits": (*first, rest)})


def _rendered(figures: Mapping[str, Any]) -> dict[str, bytes]:
    from veilsum.report.figures import render

    drawn = {name: render(figure) for name, figure in figures.items()}
    return {
        f"{n}.{kind}": one for n, ways in drawn.items() for kind, one in ways.items()
    }
