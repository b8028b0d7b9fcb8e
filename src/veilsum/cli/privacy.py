"""`veilsum privacy`: the guarantee on a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.padding import Padding

from veilsum.cli.output import console, json_option, print_json, table

if TYPE_CHECKING:
    from veilsum.privacy.guarantee import Guarantee

MEANING = {
    "private": "the coalition learns at most epsilon of KL per squared distance",
    "partial": "the coalition cuts the honest apart: each piece's sum is exposed",
    "exposed": "every honest party stands alone: its coefficients are known exactly",
    "vacuous": "nobody is honest: nothing is left to protect",
    "no_privacy": "no masks: every coefficient can be reconstructed",
}


@click.command("privacy")
@click.option(
    "--graph",
    "spec",
    required=True,
    metavar="SPEC|FILE",
    help="A family such as complete:5, or an edge list, GraphML or JSON file.",
)
@click.option("--sigma", type=float, help="Standard deviation of one share.")
@click.option(
    "--corrupted", default="", metavar="A,B", help="The colluding parties, by name."
)
@click.option(
    "--law",
    type=click.Choice(["gaussian", "none"]),
    default="gaussian",
    show_default=True,
    help="How shares are drawn; none means no masks.",
)
@click.option(
    "--distance", type=float, help="||A - B|| of two inputs an attacker compares."
)
@click.option("--weight", help="Edge attribute with relative noise variances.")
@json_option
def command(
    *,
    spec: str,
    sigma: float | None,
    corrupted: str,
    law: str,
    distance: float | None,
    weight: str | None,
    as_json: bool,
) -> None:
    r"""Say what a coalition can learn: epsilon, or why there is none.

    \b
    Example:
      veilsum privacy --graph petersen --sigma 1 --corrupted 0,1 --distance 1
    """
    from veilsum.files.graphs import topology_from
    from veilsum.privacy.guarantee import guarantee

    found = guarantee(
        topology_from(spec, weight=weight),
        sigma=sigma,
        corrupted=[name.strip() for name in corrupted.split(",") if name.strip()],
        law="none" if law == "none" else "gaussian",
        distance=distance,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print_guarantee(found)


def print_guarantee(found: Guarantee) -> None:
    """Print a guarantee for a person: the word, the number, the limits."""
    screen = console()
    screen.print(f"[bold]{found.status}[/bold]: {MEANING[found.status]}")
    screen.print(
        table(
            ("honest parties", "status", "epsilon", "mu2"),
            [
                (
                    _few(part.parties),
                    part.status,
                    _number(part.epsilon),
                    _number(part.mu2),
                )
                for part in found.components
            ],
        )
    )
    if found.attacker_success is not None:
        screen.print(f"\n{_success(found)}")
    _print_list("Released", found.released)
    _print_list("Limits", found.limits)


def _print_list(title: str, lines: tuple[str, ...]) -> None:
    screen = console()
    screen.print(f"\n{title}:")
    for line in lines:
        screen.print(Padding(line, (0, 0, 0, 2), expand=False))


def _few(names: tuple[str, ...]) -> str:
    shown = " ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _success(found: Guarantee) -> str:
    if found.epsilon is None:
        return "Some inputs at this distance are told apart with certainty."
    return (
        "The best attacker tells two inputs at this distance apart at most "
        f"{100 * (found.attacker_success or 0.0):.2f}% of the time (a coin: 50%)."
    )
