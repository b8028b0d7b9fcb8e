"""`veilsum solve`: a run described in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from veilsum.cli.output import (
    LAWS,
    console,
    json_option,
    print_json,
    progress_bar,
    say,
    table,
)
from veilsum.methods.settings import METHODS

if TYPE_CHECKING:
    from veilsum.agreement.scenario import Scenario
    from veilsum.jobs.solve import Quantisation, Run
    from veilsum.numbers.laws import LawName


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
    as_json: bool,
) -> None:
    """Simulate the run that a scenario file describes.

    \b
    Example:
      veilsum solve examples/rendezvous.toml --out out/rendezvous
      veilsum solve examples/rendezvous.toml --method one-shot --law lattice --sigma 1e9
    """
    from veilsum.files.output import prepare_folder
    from veilsum.files.scenarios import read_scenario
    from veilsum.jobs.solve import run_scenario

    folder = None if out is None else prepare_folder(out)
    described = read_scenario(scenario).altered(
        law=law, sigma=sigma, grid=grid, method=method
    )
    for section in described.ignored:
        say(f"[{section}] is for real parties: solve simulates and ignores it")
    with progress_bar() as open_bar:
        bar = open_bar("iterations", described.settings.expected_iterations)
        run = run_scenario(described, driver=driver, progress=bar)
    if folder is not None:
        _write(folder, described, run)
    if as_json:
        print_json(run.to_dict())
    else:
        _print(described, run)


def _write(folder: Path, described: Scenario, run: Run) -> None:
    from veilsum.files.output import as_json, write_files
    from veilsum.report.figures import error_figure, render

    # One exchange and a local solve leave no curve to draw.
    drawn = render(error_figure(run, described.title)) if run.iterations else {}
    files = {f"errors.{kind}": content for kind, content in drawn.items()}
    write_files(folder, {"result.json": as_json(run.to_dict()).encode(), **files})


def _print(described: Scenario, run: Run) -> None:
    from veilsum.cli.privacy import print_guarantee

    screen = console()
    screen.print(f"{escape(described.title)}\n")
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
    taken = f"after {run.iterations:,} iterations of {run.method}"
    if run.spread is not None:
        taken = f"from one sum by {run.spread}"
    elif run.stopped == "tolerance":
        taken += ", where everybody was near enough"
    screen.print(
        f"\nworst party's error {run.max_error:.3g} {taken}; "
        f"|sum of masks| {run.sum_of_masks:.2g}; "
        f"{run.rounds:,} rounds, {run.bytes:,} bytes"
    )
    if run.tolerance_unused is not None:
        screen.print(f"the tolerance was not used: {escape(run.tolerance_unused)}")
    if run.drowned is not None:
        screen.print(escape(run.drowned))
    if run.quantisation is not None:
        screen.print(_grid_sentence(run.quantisation))
    screen.print()
    print_guarantee(run.guarantee)


def _grid_sentence(grid: Quantisation) -> str:
    bound = "" if grid.bias_bound is None else f", at most {grid.bias_bound:.2g}"
    return (
        f"grid 2^{-grid.bits}: rounding moved the answer by {grid.bias:.2g}{bound}; "
        f"the method's own error is {grid.solver_error:.2g}"
    )
