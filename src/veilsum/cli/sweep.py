"""`veilsum sweep`: one scenario on many graphs, under many masks, by many methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    FILE,
    LAWS,
    json_option,
    on_option,
    print_json,
    say_on_terminal,
)
from veilsum.minimise.methods.settings import METHODS

if TYPE_CHECKING:
    from veilsum.graphs.topology import Topology
    from veilsum.masks.laws import LawName


@click.command("sweep")
@click.argument("scenario", type=FILE)
@click.option(
    "--graph",
    "graphs",
    multiple=True,
    metavar="SPEC|FILE",
    help="A family such as ring:12, or a graph file; the scenario's own without any.",
)
@click.option(
    "--sigma",
    "sigmas",
    type=float,
    multiple=True,
    help="Standard deviation of one number of a share; the scenario's own without any.",
)
@click.option(
    "--law",
    "laws",
    type=click.Choice(LAWS),
    multiple=True,
    help="How shares are drawn; the scenario's own without any.",
)
@click.option(
    "--method",
    "methods",
    type=click.Choice(METHODS),
    multiple=True,
    help="The scenario's own without any.",
)
@click.option(
    "--seeds",
    type=int,
    default=1,
    show_default=True,
    help="How many runs of each choice: with the seeds 0, 1, ...",
)
@click.option(
    "--tolerate",
    type=int,
    multiple=True,
    default=(1,),
    show_default=True,
    help="How many may collude.",
)
@click.option(
    "--tolerance",
    type=float,
    default=1e-3,
    show_default=True,
    help="How near all parties must be to the exact answer.",
)
@click.option(
    "--distance",
    type=float,
    default=1.0,
    show_default=True,
    help="Of two inputs that an attacker is to tell apart.",
)
@click.option("--iterations", type=int, help="Instead of the scenario's.")
@click.option(
    "--bounds-from-costs",
    is_flag=True,
    help="Read steps off all private costs, as only a simulation can.",
)
@click.option(
    "--out", type=FILE, help="A CSV file; a sweep that was stopped goes on from there."
)
@click.option("--figure", type=FILE, help="A PNG or SVG file: error against epsilon.")
@on_option
@json_option
def command(
    *,
    scenario: Path,
    graphs: tuple[str, ...],
    sigmas: tuple[float, ...],
    laws: tuple[LawName, ...],
    methods: tuple[str, ...],
    seeds: int,
    tolerate: tuple[int, ...],
    tolerance: float,
    distance: float,
    iterations: int | None,
    bounds_from_costs: bool,
    out: Path | None,
    figure: Path | None,
    on: str | None,
    as_json: bool,
) -> None:
    """Simulate a scenario for every choice, into one tidy table.

    Each option may be given several times; runs are made of all combinations. What a
    method or a law cannot do is a line that says why.

    \b
    Example:
      veilsum sweep examples/rendezvous.toml --graph ring:12 --graph complete:12 \\
        --sigma 1 --sigma 10 --method dgd --seeds 5 --out out/sweep.csv
    """
    from dataclasses import replace

    from veilsum.files.output import prepare_output_folder
    from veilsum.files.scenarios import read_scenario
    from veilsum.minimise.sweeps import sweep

    if figure is not None:
        _check_figure_option(figure)
        prepare_output_folder(figure.parent)
    described = read_scenario(scenario)
    for section in described.ignored:
        say_on_terminal(
            f"[{section}] is for real parties: sweep simulates and ignores it"
        )
    changes: dict[str, Any] = {"bounds_from_costs": True} if bounds_from_costs else {}
    if iterations is not None:
        changes["iterations"] = iterations
    found = sweep(
        described,
        graphs={name: _parse_sweep_graph(name) for name in graphs} or None,
        sigmas=sigmas or None,
        laws=laws or None,
        methods=methods or None,
        tolerate=tolerate,
        seeds=seeds,
        tolerance=tolerance,
        distance=distance,
        settings=replace(described.settings, **changes),
        out=out,
        on=on,
    )
    if figure is not None:
        _write_sweep_figure(figure, found)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found))
    if found.interrupted:
        left = found.asked - len(found.rows)
        say_on_terminal(
            f"stopped with {left:,} lines to go: the same command goes on with --out"
        )
        raise click.exceptions.Exit(1)


def _parse_sweep_graph(name: str) -> Topology:
    from veilsum.files.graphs import topology_from

    return topology_from(name)


def _check_figure_option(figure: Path) -> None:
    if figure.suffix.lower() not in (".png", ".svg"):
        raise click.UsageError(f"--figure takes a .png or .svg file, found {figure}")


def _write_sweep_figure(figure: Path, found: Any) -> None:
    from veilsum.files.output import write_files
    from veilsum.report.figures import figure_png_and_svg

    kind = figure.suffix.lower().removeprefix(".")
    write_files(figure.parent, {figure.name: figure_png_and_svg(found.plot())[kind]})
