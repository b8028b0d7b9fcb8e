"""`veilsum doctor`: why a network fails, what mends it, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.padding import Padding

from veilsum.cli.output import console, graph_option, json_option, print_json, table

if TYPE_CHECKING:
    from veilsum.privacy.allocation import Allocation
    from veilsum.privacy.doctor import Cut, Diagnosis

# What a person reads of a long list; --json prints all of it.
MOST_LINES = 12


@click.command("doctor")
@graph_option
@click.option(
    "--tolerate",
    type=int,
    required=True,
    metavar="T",
    help="How many parties may collude.",
)
@click.option(
    "--allocate", is_flag=True, help="Also say how much noise each link should carry."
)
@json_option
def command(*, spec: str, tolerate: int, allocate: bool, as_json: bool) -> None:
    """Say whether T colluders can cut a network, and which links to add.

    Further advice, and the allocation, are for the network with these links added.

    \b
    Example:
      veilsum doctor --graph karate --tolerate 1
    """
    from veilsum.files.graphs import topology_from
    from veilsum.privacy.allocation import allocate_noise
    from veilsum.privacy.doctor import examine

    found = examine(topology_from(spec), tolerate=tolerate)
    noise = allocate_noise(found.repaired, tolerate=tolerate) if allocate else None
    if as_json:
        allocation = None if noise is None else noise.to_dict()
        print_json({**found.to_dict(), "allocation": allocation})
    else:
        _print(found)
        if noise is not None:
            _print_allocation(noise)


def _print(found: Diagnosis) -> None:
    screen = console()
    screen.print(_verdict(found))
    _print_lines("Cuts:", [_cut_line(cut) for cut in found.cuts])
    if found.links_to_add:
        title = f"Links to add ({_how_few(found)}):"
        _print_lines(title, [_link(link) for link in found.links_to_add])
    lines = [
        f"{_link(helpful.link)}: epsilon times {helpful.epsilon_ratio:.3f}"
        for helpful in found.helpful_links
    ]
    after = " then" if found.links_to_add else ""
    _print_lines(f"One further link that would{after} lower epsilon:", lines)
    if not lines:
        screen.print(f"\nNo single link that was tried would{after} lower epsilon.")


def _verdict(found: Diagnosis) -> str:
    kappa, t = found.vertex_connectivity, found.tolerate
    if found.safe:
        return (
            f"[bold]safe[/bold]: no {t} colluding parties can cut this network; that "
            f"takes {kappa} (vertex connectivity)"
        )
    if kappa == 0:
        return "[bold]not safe[/bold]: the network is in pieces; nobody need collude"
    who = "one party alone" if kappa == 1 else f"{kappa} parties"
    return (
        f"[bold]not safe[/bold]: {who} can cut this network (vertex connectivity "
        f"{kappa}), and {t} may collude"
    )


def _how_few(found: Diagnosis) -> str:
    count = len(found.links_to_add)
    if found.gap == 0:
        return f"{count}, the fewest"
    return f"{count}; at least {count - found.gap} are needed"


def _cut_line(cut: Cut) -> str:
    pieces = " from ".join(f"{{{_few(piece)}}}" for piece in cut.pieces)
    if not cut.parties:
        return f"no link joins {pieces.replace(' from ', ' and ')}"
    verb = "separates" if len(cut.parties) == 1 else "separate"
    return f"{_few(cut.parties)} {verb} {pieces}"


def _link(link: tuple[str, str]) -> str:
    return escape(f"{link[0]} - {link[1]}")


def _few(names: Sequence[str]) -> str:
    from veilsum.core.arrays import listed

    return escape(listed(names, most=5))


def _print_lines(title: str, lines: list[str]) -> None:
    if not lines:
        return
    screen = console()
    screen.print(f"\n{title}")
    more = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"and {more} more (--json)"] if more > 0 else [])]
    for line in shown:
        screen.print(Padding(line, (0, 0, 0, 2), expand=False))


def _print_allocation(noise: Allocation) -> None:
    screen = console()
    screen.print(
        f"\nNoise by link lowers epsilon by a factor of {noise.gain:.3f} against equal "
        f"noise on all (worst mu2 {noise.mu2_uniform:.4f} -> {noise.mu2:.4f}; no "
        f"allocation exceeds {noise.mu2_bound:.4f}):"
    )
    pairs = zip(noise.links, noise.weights, strict=True)
    rows = [
        (_link(link), f"{weight:.4f}", f"{weight**0.5:.4f}") for link, weight in pairs
    ]
    screen.print(table(("link", "variance", "sigma, relative"), rows))
    if noise.unused:
        unused = [_link(link) for link in noise.unused]
        screen.print(f"\nThese links need no messages: {', '.join(unused)}")
