"""`veilsum paper`: Section V by one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from veilsum.cli.output import (
    json_option,
    on_option,
    print_json,
    seed_option,
)

if TYPE_CHECKING:
    pass


@click.command("paper")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/paper"),
    show_default=True,
    help="Folder for the figures.",
)
@click.option(
    "--executions",
    type=click.IntRange(min=2),
    default=100_000,
    show_default=True,
    help="Executions of phase I for each of the two inputs.",
)
@seed_option
@on_option
@json_option
def command(
    *, out: Path, executions: int, seed: int, on: str | None, as_json: bool
) -> None:
    """Reproduce the paper's Section V and put its Section III-B to work.

    Prints what the paper or its theory says, the value found here and the tolerance,
    and draws both figures as PNG and SVG.

    \b
    Example:
      veilsum paper --out out/paper --executions 100000
    """
    from veilsum.files.output import prepare_output_folder, write_files
    from veilsum.minimise.paper import reproduce
    from veilsum.report.figures import figure_png_and_svg

    folder = prepare_output_folder(out)
    report = reproduce(executions=executions, seed=seed, on=on)
    drawn = {
        "fig1_convergence": report.plot(),
        "fig2_densities": report.plot(densities=True),
    }
    files = {
        f"{name}.{kind}": content
        for name, figure in drawn.items()
        for kind, content in figure_png_and_svg(figure).items()
    }
    paths = [str(path) for path in write_files(folder, files)]
    if as_json:
        print_json({**report.to_dict(), "figures": paths})
    else:
        pictures = ", ".join(path for path in paths if "png" in path)
        click.echo(f"{report}\n\nFigures: {pictures}")
