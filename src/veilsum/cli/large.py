"""`veilsum large`: one graph of millions of parties, on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from veilsum.cli.output import (
    FILE,
    json_option,
    print_json,
    say_on_terminal,
    seed_option,
)
from veilsum.cli.privacy import parse_names_option
from veilsum.cli.ranks import CommandRank, command_carried_out, ranks_option

if TYPE_CHECKING:
    from veilsum.minimise.large_graphs import LargeMethod, LargeRun
    from veilsum.minimise.ranks import RanksRun

# Spelt out: importing them would load numpy for --help.
METHODS = ("dgd", "gradient-tracking", "extra")
ENGINES = ("auto", "numpy", "numba", "jax")


@click.command("large")
@click.argument("graph", metavar="SPEC|FILE")
@click.option(
    "--targets",
    type=FILE,
    help="A .npy file with a row for each party; drawn from the seed without it.",
)
@click.option(
    "--dim",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="How many numbers a target has, if targets are drawn.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="dgd",
    show_default=True,
    help="How parties come to the mean; the last two come to it exactly.",
)
@click.option(
    "--iterations",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many.",
)
@click.option(
    "--sigma",
    type=float,
    default=1.0,
    show_default=True,
    help="Standard deviation of one number of a share.",
)
@click.option(
    "--grid",
    type=int,
    metavar="Q",
    help="Masks are multiples of 2^-Q; of the finest that fits without it.",
)
@click.option(
    "--corrupted",
    metavar="A,B",
    help="The colluding parties, by number; default none.",
)
@click.option("--step", type=float, help="The method's step; a usual one without it.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    show_default="numba",
    help="What carries iterations out.",
)
@click.option(
    "--no-certificate",
    is_flag=True,
    help="Leave epsilon out, which mostly takes longest.",
)
@click.option(
    "--checkpoint",
    type=FILE,
    help="A file to write on the way and on Ctrl-C, and to go on from.",
)
@click.option(
    "--every",
    type=float,
    default=10.0,
    show_default=True,
    help="Minutes between checkpoints.",
)
@seed_option
@ranks_option
@json_option
def command(
    *,
    graph: str,
    targets: Path | None,
    dim: int,
    method: LargeMethod,
    iterations: int,
    sigma: float,
    grid: int | None,
    corrupted: str | None,
    step: float | None,
    engine: str | None,
    no_certificate: bool,
    checkpoint: Path | None,
    every: float,
    seed: int,
    where: str | None,
    as_json: bool,
) -> None:
    """Simulate millions of parties that find the mean of their private targets.

    The graph is a family such as regular:10000000:6 or geometric:1000000:6, or a file
    of links (.npy). What does not fit into memory is refused before it is begun. On
    ranks of MPI each process makes its own parties only, and epsilon is left out.

    \b
    Example:
      veilsum large regular:1000000:6 --iterations 100 --checkpoint out/large.npz
      veilsum large geometric:1000000:6 --on mpi:4
    """
    from veilsum.minimise.large_graphs import read_large_graph_targets

    if where is not None and corrupted:
        raise click.UsageError("ranks work out no epsilon: leave --corrupted out")
    if where is not None and engine is not None:
        raise click.UsageError("ranks are an engine themselves: leave --engine out")
    with command_carried_out(where) as here:
        how: dict[str, Any] = {
            "targets": None if targets is None else read_large_graph_targets(targets),
            "dim": dim,
            "method": method,
            "iterations": iterations,
            "sigma": sigma,
            "grid": grid,
            "seed": seed,
            "step": step,
            "checkpoint": checkpoint,
            "every": every,
        }
        if where is None:
            how |= {
                "engine": engine or "numba",
                "corrupted": parse_names_option(corrupted),
            }
            found: Any = _large_run_in_this_process(
                graph, how, certify=not no_certificate
            )
        else:
            found = _large_run_on_ranks(here, graph, how)
        if not here.speaks:
            return
        if as_json:
            print_json(found.to_dict())
        else:
            click.echo(str(found))


def _large_run_in_this_process(
    graph: str, how: dict[str, Any], *, certify: bool
) -> LargeRun:
    from veilsum.minimise.large_graphs import large

    try:
        return large(graph, **how, certify=certify)
    except KeyboardInterrupt as stopped:
        nothing = "nothing is kept; with --checkpoint FILE, iterations are"
        if how["checkpoint"] is not None:
            nothing = "before the first iteration, so there is nothing new to keep"
        say_on_terminal(f"stopped: {str(stopped) or nothing}")
        raise click.exceptions.Exit(1) from None


def _large_run_on_ranks(here: CommandRank, graph: str, how: dict[str, Any]) -> RanksRun:
    from veilsum.files.graphs import topology_from
    from veilsum.minimise.ranks import large_on_ranks

    is_file = Path(graph).is_file()
    return large_on_ranks(
        topology_from(graph) if is_file else graph,
        **how,
        comm=here.comm,
        progress=here.progress,
    )
