"""`veilsum privacy`: the guarantee on a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from veilsum.cli.output import LAWS, graph_option, json_option, on_option, print_json
from veilsum.errors import InvalidInputError

if TYPE_CHECKING:
    from veilsum.masks.laws import LawName


@click.command("privacy")
@graph_option
@click.option("--sigma", type=float, help="Standard deviation of one share.")
@click.option(
    "--corrupted", metavar="A,B", help="The colluding parties, by name; default none."
)
@click.option(
    "--tolerate",
    type=int,
    metavar="T",
    help="Instead of naming them: the worst T parties there are.",
)
@click.option(
    "--law",
    type=click.Choice(LAWS),
    default="gaussian",
    show_default=True,
    help="How shares are drawn; none means no masks.",
)
@click.option(
    "--grid", type=int, metavar="Q", help="For lattice: the grid is 2^-Q, such as 40."
)
@click.option(
    "--distance", type=float, help="||A - B|| of two inputs an attacker compares."
)
@click.option("--weight", help="Edge attribute with relative noise variances.")
@on_option
@json_option
def command(
    *,
    spec: str,
    sigma: float | None,
    corrupted: str | None,
    tolerate: int | None,
    law: LawName,
    grid: int | None,
    distance: float | None,
    weight: str | None,
    on: str | None,
    as_json: bool,
) -> None:
    """Say what a coalition can learn: epsilon, or why there is none.

    The coalition is named, or it is the worst one of a given size. A long search can be
    stopped with Ctrl-C: what is known by then is printed.

    \b
    Example:
      veilsum privacy --graph petersen --sigma 1 --corrupted 0,1 --distance 1
      veilsum privacy --graph petersen --sigma 1 --tolerate 2
    """
    from veilsum.files.graphs import topology_from
    from veilsum.masks.laws import Masks
    from veilsum.privacy.guarantee import guarantee_against_coalition
    from veilsum.privacy.worst_case import guarantee_against_any_coalition
    from veilsum.progress import staged_progress, watch_progress
    from veilsum.scale.workers import workers_shared_by

    if corrupted is not None and tolerate is not None:
        raise InvalidInputError(
            "--corrupted names a coalition and --tolerate asks for the worst one: "
            "give one of them",
            code="conflicting-coalition-options",
        )
    topology = topology_from(spec, weight=weight)
    masks = Masks(law, sigma, grid)
    if tolerate is None:
        colluders = parse_names_option(corrupted)
        found = guarantee_against_coalition(
            topology, masks, corrupted=colluders, distance=distance
        )
    else:
        with watch_progress() as opening, workers_shared_by(on) as workers:
            found = guarantee_against_any_coalition(
                topology,
                masks,
                tolerate=tolerate,
                distance=distance,
                on=workers,
                progress=staged_progress(opening, "coalitions"),
            )
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found))


def parse_names_option(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
