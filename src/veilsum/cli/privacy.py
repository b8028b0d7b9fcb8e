"""`veilsum privacy`: the guarantee on a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.padding import Padding

from veilsum.cli.output import (
    LAWS,
    Advance,
    console,
    graph_option,
    json_option,
    print_json,
    progress_bar,
    table,
)
from veilsum.errors import InvalidInputError, printable

if TYPE_CHECKING:
    from veilsum.numbers.laws import LawName
    from veilsum.privacy.guarantee import Guarantee, Worst

MEANING = {
    "private": "inputs of equal honest sum differ by at most epsilon of KL per\n"
    "         squared distance in all that the coalition sees",
    "partial": "the honest parties are in pieces: each piece's sum is exposed",
    "exposed": "every honest party stands alone: its coefficients are known exactly",
    "vacuous": "nobody is honest: nothing is left to protect",
    "no_privacy": "no masks: every coefficient can be reconstructed",
}


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
    from veilsum.numbers.laws import Masks
    from veilsum.privacy.guarantee import against
    from veilsum.privacy.worst_case import against_any

    if corrupted is not None and tolerate is not None:
        raise InvalidInputError(
            "--corrupted names a coalition and --tolerate asks for the worst one: "
            "give one of them"
        )
    topology = topology_from(spec, weight=weight)
    masks = Masks(law, sigma, grid)
    if tolerate is None:
        colluders = names(corrupted)
        found = against(topology, masks, corrupted=colluders, distance=distance)
    else:
        with progress_bar() as open_bar:
            found = against_any(
                topology,
                masks,
                tolerate=tolerate,
                distance=distance,
                progress=steps(open_bar),
            )
    if as_json:
        print_json(found.to_dict())
    else:
        print_guarantee(found)


def names(text: str | None) -> list[str]:
    """Return the names in a comma-separated option."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def steps(open_bar: Callable[[str, int], Advance]) -> Callable[[int, int], None]:
    """Return a report of (done, total) that opens its bar when the total is known."""
    bars: list[Advance] = []

    def report(done: int, total: int) -> None:
        if not bars:
            bars.append(open_bar("coalitions", total))
        bars[0](done)

    return report


def print_guarantee(found: Guarantee) -> None:
    """Print a guarantee for a person: the word, the number, the limits."""
    screen = console()
    screen.print(f"[bold]{found.status}[/bold]: {MEANING[found.status]}")
    screen.print(
        table(
            ("honest parties", "status", "epsilon", "mu2"),
            [
                (
                    escape(_few(part.parties)),
                    part.status,
                    _number(part.epsilon),
                    _number(part.mu2),
                )
                for part in found.components
            ],
        )
    )
    if found.worst is not None and found.status != "no_privacy":
        screen.print(f"\n{escape(_worst(found.worst))}")
    if found.attacker_success is not None:
        screen.print(f"\n{_success(found)}")
    _print_list("Released", found.released)
    _print_list("Limits", found.limits)


def _print_list(title: str, lines: tuple[str, ...]) -> None:
    screen = console()
    screen.print(f"\n{title}:")
    for line in lines:
        screen.print(Padding(escape(printable(line)), (0, 0, 0, 2), expand=False))


def _few(names: tuple[str, ...]) -> str:
    shown = " ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _worst(worst: Worst) -> str:
    who = ", ".join(worst.worst_coalition) or "nobody"
    if worst.cut == ():
        return "The graph is in pieces before anybody colludes. See veilsum doctor."
    if worst.cut is not None:
        return (
            f"This graph does not withstand {worst.tolerate}: without {who} the others "
            "fall apart. See veilsum doctor."
        )
    known = f"Worst coalition of {worst.tolerate}: {who}; epsilon "
    if worst.exact:
        return known + f"{_number(worst.epsilon_upper)}, exactly."
    return known + (
        f"between {_number(worst.epsilon_lower)} (that attack) and "
        f"{_number(worst.epsilon_upper)} (proved for all)."
    )


def _success(found: Guarantee) -> str:
    if found.epsilon is None:
        return "Some inputs at this distance are told apart with certainty."
    return (
        "The best attacker tells two inputs at this distance apart at most "
        f"{100 * (found.attacker_success or 0.0):.2f}% of the time (a coin: 50%)."
    )
