"""`veilsum solve`: a run described in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from veilsum.cli.output import (
    LAWS,
    json_option,
    print_json,
    say_on_terminal,
    terminal_console,
)
from veilsum.cli.ranks import command_carried_out, ranks_option
from veilsum.minimise.methods.settings import METHODS

if TYPE_CHECKING:
    from veilsum.consortium.scenario import Scenario
    from veilsum.masks.laws import LawName
    from veilsum.minimise.solve import Run


@click.command("solve")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for result.json and the error curve.",
)
@click.option("--law", type=click.Choice(LAWS), help="Instead of the file's mask law.")
@click.option("--sigma", type=float, help="Instead of the file's sigma.")
@click.option(
    "--grid", type=int, metavar="Q", help="For integer masks: multiples of 2^-Q."
)
@click.option(
    "--method", type=click.Choice(METHODS), help="Instead of the file's method."
)
@click.option(
    "--driver",
    type=click.Choice(["vectorised", "loopback"]),
    default="vectorised",
    show_default=True,
    help="All parties as one array, or each as the machine it would run by itself.",
)
@ranks_option
@json_option
def command(
    *,
    scenario: Path,
    out: Path | None,
    law: LawName | None,
    sigma: float | None,
    grid: int | None,
    method: str | None,
    driver: str,
    where: str | None,
    as_json: bool,
) -> None:
    """Simulate the run that a scenario file describes.

    \b
    Example:
      veilsum solve examples/rendezvous.toml --out out/rendezvous
      veilsum solve examples/rendezvous.toml --method one-shot --law lattice --sigma 1e9
    """
    from veilsum.files.output import prepare_output_folder
    from veilsum.files.scenarios import read_scenario
    from veilsum.minimise.solve import run_scenario

    if where is not None and driver != "vectorised":
        raise click.UsageError("--on mpi shares arrays: use --driver vectorised")
    with command_carried_out(where) as here:
        folder = prepare_output_folder(out) if out is not None and here.speaks else None
        described = read_scenario(scenario)
        described = described.altered(
            law=law,
            sigma=sigma,
            grid=grid,
            method=method,
            engine=here.engine,
            seed=here.seed(described.seed),
        )
        for section in described.ignored if here.speaks else ():
            say_on_terminal(
                f"[{section}] is for real parties: solve simulates and ignores it"
            )
        run = run_scenario(described, driver=driver, progress=here.progress)
        if not here.speaks:
            return
        if folder is not None:
            _write_solve_output(folder, described, run)
        if as_json:
            print_json(run.to_dict())
        else:
            terminal_console().print(f"{escape(described.title)}\n")
            click.echo(str(run))


def _write_solve_output(folder: Path, described: Scenario, run: Run) -> None:
    from veilsum.files.output import as_strict_json, write_files
    from veilsum.report.figures import figure_png_and_svg

    # One exchange and a local solve leave no curve to draw.
    drawn = (
        figure_png_and_svg(run.trace.plot(title=described.title))
        if run.iterations
        else {}
    )
    files = {f"errors.{kind}": content for kind, content in drawn.items()}
    write_files(
        folder, {"result.json": as_strict_json(run.to_dict()).encode(), **files}
    )
