"""The commands of questions, made from the registry: `veilsum fit`, `stats`, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import message_on_screen, print_json, say_on_terminal
from veilsum.distributions import entry_points
from veilsum.errors import MissingExtraError, printable
from veilsum.locale import command_words
from veilsum.progress import show_progress_activity

if TYPE_CHECKING:
    from veilsum.showing import Rendering

# Spelt out: importing them would load numpy for --help.
DRIVERS = ("vectorised", "loopback")
REHEARSAL = (
    "rehearsal: all tables are on this computer, and the dictionary was inferred from "
    "them; real parties agree on one first (veilsum dictionary draft)"
)


@cache
def question_commands() -> Mapping[str, Mapping[str, Any]]:
    """Return the commands of all questions; built-in ones load no question."""
    found = dict(command_words())
    # Looked up here, without loading the modules that read files.
    if others := entry_points("veilsum.questions"):
        from veilsum.consortium.kinds import BUILT_IN, kind_of_question_heading

        for name in {other.name for other in others} - {*BUILT_IN}:
            found[name] = {**kind_of_question_heading(name).command, "heading": name}
    return found


def question_command(name: str) -> click.Command | None:
    """Return the command of a question; None if there is none of this name."""
    words = command_words().get(name) or question_commands().get(name)
    return None if words is None else build_command(name, words)


def build_command(name: str, words: Mapping[str, Any]) -> click.Command:
    """Return the command that words and options of a question describe."""
    own = tuple(words.get("options", ()))

    def command(
        *,
        files: tuple[Path, ...],
        driver: str,
        out: Path | None,
        as_json: bool,
        limits: bool,
        **given: Any,
    ) -> None:
        shown, instead = dict(words.get("shown", {})), {}
        for option in own:
            key = option["name"].replace("-", "_")
            if not option.get("replaces"):
                shown[key] = given[key]
            elif given[key] is not None:
                instead[key] = _option_value(option, given[key])
        _check_command_files(name, own, files, {**instead, **given})
        _run_question_command(
            files,
            words["heading"],
            party=given.get("party"),
            driver=driver,
            out=out,
            as_json=as_json,
            limits=limits,
            shown=shown,
            instead=instead,
        )

    params = [
        click.Argument(
            ["files"], nargs=-1, required=True, type=click.Path(path_type=Path)
        ),
        click.Option(
            ["--driver"],
            type=click.Choice(DRIVERS),
            default="vectorised",
            show_default=True,
            help="All parties as arrays, or each as the machine that it would run.",
        ),
        click.Option(
            ["--out"], type=click.Path(path_type=Path), help="Folder for result.json."
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON only."),
        click.Option(
            ["--limits"],
            is_flag=True,
            help="Show every limit of the guarantee, not the foremost alone.",
        ),
        *(
            click.Option(
                [f"--{option['name']}"],
                is_flag=option.get("is_flag", False),
                type=click.INT if option.get("kind") == "whole" else None,
                metavar=option.get("metavar"),
                help=option["help"],
            )
            for option in own
        ),
    ]
    if any(option.get("replaces") for option in own):
        use = "Column that divides one table among the parties."
        params.append(click.Option(["--party"], metavar="COLUMN", help=use))
    return click.Command(name, params=params, callback=command, help=words["help"])


def _is_scenario(file: Path) -> bool:
    return file.suffix == ".toml"


def _check_command_files(
    name: str,
    own: Sequence[Mapping[str, Any]],
    files: tuple[Path, ...],
    given: Mapping[str, Any],
) -> None:
    """Reject tables beside a scenario file, and tables without a question."""
    scenario = next(filter(_is_scenario, files), None)
    if scenario is not None:
        if len(files) > 1 or given.get("party") is not None:
            raise click.UsageError(
                f"{scenario} names its tables itself: give no other file, and no "
                "--party"
            )
        return
    if not any(option.get("replaces") for option in own):
        raise click.UsageError(f"{name} takes one scenario file, NAME.toml")
    for option in own:
        if option.get("required") and given.get(option["name"]) is None:
            raise click.UsageError(
                f"--{option['name']} {option['metavar']} is required with tables "
                f"({option['help'].rstrip('.')}); or give a scenario file, NAME.toml"
            )


def _option_value(option: Mapping[str, Any], given: Any) -> Any:
    """Return an option's value; names and numbers are separated by commas."""
    kind = option.get("kind", "text")
    if kind == "names":
        return tuple(one.strip() for one in given.split(","))
    if kind != "numbers":
        return given
    try:
        return tuple(
            int(one) if one.strip().isdigit() else float(one)
            for one in given.split(",")
        )
    except ValueError:
        raise click.UsageError(
            f"--{option['name']} takes numbers separated by commas, such as 90,180; "
            f"found {given!r}"
        ) from None


def _run_question_command(
    files: tuple[Path, ...],
    heading: str,
    *,
    party: str | None,
    driver: str,
    out: Path | None,
    as_json: bool,
    limits: bool,
    shown: Mapping[str, Any],
    instead: Mapping[str, Any],
) -> None:
    """Read a question, run it, and show or write its result and figures."""
    with show_progress_activity(f"Reading {printable(files[0].name)}"):
        import msgspec

        from veilsum.files.output import (
            as_strict_json as text,
            prepare_output_folder,
            write_files,
        )
        from veilsum.numbers.arrays import listed_names
        from veilsum.showing import counted_words
        from veilsum.sums.job_file import job_of_tables, read_job
        from veilsum.sums.kinds import question_kind_of

        folder = None if out is None else prepare_output_folder(out)
        if _is_scenario(files[0]):
            job = read_job(files[0], heading, alone=True)
            question = msgspec.structs.replace(job.question, **instead)
            job = replace(job, question=question) if instead else job
        else:
            job = job_of_tables(files, heading, instead, party=party, alone=True)
            say_on_terminal(REHEARSAL)
    for section in job.ignored:
        say_on_terminal(
            f"[{section}] is for real parties: this simulates and ignores it"
        )
    with show_progress_activity(f"Running {counted_words(len(job.tables), 'party')}"):
        result = job.run(driver=driver)
    with show_progress_activity("Searching for the worst coalition"):
        _ = result.guarantee  # kept by the result, which shows it below
    if folder is not None:
        write_files(folder, {"result.json": text(result.to_dict()).encode()})
        try:
            write_files(
                folder,
                _draw_command_figures(
                    question_kind_of(job.question), result, job.title, shown
                ),
            )
        except MissingExtraError as error:
            say_on_terminal(f"no figure was drawn: {error}")
    if as_json:
        print_json(result.to_dict())
        return
    for line in job.changes:
        say_on_terminal(line)
    if refused := job.refused_by_default():
        every = len(refused) == len(job.tables)
        who = f"all {len(refused)} parties" if every else listed_names(refused, most=12)
        say_on_terminal(
            f"this file changes minimum_rows; by default would be refused: {who}"
        )
    if job.title:
        click.echo(f"{message_on_screen(job.title)}\n")
    showing = result.showing(**shown)
    click.echo(
        (
            showing if limits else _briefer_command_output(showing, result.foremost)
        ).text()
    )


def _briefer_command_output(showing: Rendering, first: tuple[str, ...]) -> Rendering:
    """Return the same with some limits only, and a line that says where the rest is."""
    more = len(showing.folded.get("Limits", ())) - len(first)
    if more < 2:
        return showing
    rest = f"and {more} more: --limits shows them, and --json has them"
    return showing.also(folded={"Limits": (*first, rest)})


def _draw_command_figures(
    kind: Any, result: Any, title: str, shown: Mapping[str, Any]
) -> dict[str, bytes]:
    from veilsum.report import figures

    drawn = kind.figures(figures, result, title.partition("\n")[0], **shown)
    rendered = {
        name: figures.figure_png_and_svg(figure) for name, figure in drawn.items()
    }
    return {
        f"{name}.{form}": content
        for name, forms in rendered.items()
        for form, content in forms.items()
    }
