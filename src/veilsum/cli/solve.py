"""`veilsum solve`: a run described in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.output import (
    console,
    json_option,
    print_json,
    progress_bar,
    say,
    table,
)

if TYPE_CHECKING:
    from veilsum.scenario import Scenario
    from veilsum.sim.vectorised import Run


@click.command("solve")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for result.json and the error curve.",
)
@json_option
def command(*, scenario: Path, out: Path | None, as_json: bool) -> None:
    """Simulate the run that a scenario file describes.

    \b
    Example:
      veilsum solve examples/rendezvous.toml --out out/rendezvous
    """
    from veilsum.files.output import prepare_folder
    from veilsum.files.scenarios import read_scenario
    from veilsum.jobs.scenario_run import run_scenario

    folder = None if out is None else prepare_folder(out)
    described = read_scenario(scenario)
    for section in described.ignored:
        say(f"[{section}] is for real parties: solve simulates and ignores it")
    with progress_bar() as open_bar:
        bar = open_bar("iterations", described.settings.iterations)
        run = run_scenario(described, progress=bar)
    if folder is not None:
        _write(folder, described, run)
    if as_json:
        print_json(run.to_dict())
    else:
        _print(described, run)


def _write(folder: Path, described: Scenario, run: Run) -> None:
    from veilsum.files.output import as_json, write_files
    from veilsum.report.figures import error_figure, render

    drawn = render(error_figure(run, described.title))
    files = {f"errors.{kind}": content for kind, content in drawn.items()}
    write_files(folder, {"result.json": as_json(run.to_dict()).encode(), **files})


def _print(described: Scenario, run: Run) -> None:
    from veilsum.cli.privacy import print_guarantee

    screen = console()
    screen.print(f"{described.title}\n")
    screen.print(
        table(
            ("coordinate", "parties found", "pooled answer"),
            [
                (str(k + 1), f"{ours:.8g}", f"{theirs:.8g}")
                for k, (ours, theirs) in enumerate(
                    zip(run.minimiser, run.reference, strict=True)
                )
            ],
        )
    )
    screen.print(
        f"\nworst party's error {run.max_error:.3g} after {run.iterations:,} "
        f"iterations; |sum of masks| {run.sum_of_masks:.2g}; "
        f"{run.rounds:,} rounds, {run.bytes:,} bytes\n"
    )
    print_guarantee(run.guarantee)
