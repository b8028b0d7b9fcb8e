"""A network as a small drawing: who exchanges shares with whom, and who may collude."""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from math import cos, pi, sin

from veilsum.errors import printable
from veilsum.graphs.topology import Topology

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
# Of more parties names would lie on each other; of more links nobody sees one.
MOST_NAMES, MOST_LINKS, NAME_LETTERS = 16, 4_000, 14

# Of links: whether a coalition, or nobody any more, is at one of their ends.
LOOKS = {
    True: f'stroke="{GREY}" stroke-width="1.2" stroke-dasharray="4 4"',
    False: 'stroke="#333333" stroke-width="1.6"',
}


def network_svg(
    topology: Topology,
    *,
    coalition: Collection[str] = (),
    lost: Collection[str] = (),
) -> bytes:
    """Return a drawing of a network, the parties on a circle in the graph's order.

    Members of a coalition are squares, and their links are dashed; parties that were
    lost are rings. So it is read without colours, too.

    Args:
        topology: the network.
        coalition: who is taken to collude.
        lost: who did not stay to the end.
    """
    named = topology.n_parties <= MOST_NAMES
    width, radius = 440.0, 100.0 if named else 140.0
    height = 2 * radius + 60.0
    angles = [
        2 * pi * k / topology.n_parties - pi / 2 for k in range(topology.n_parties)
    ]
    places = [
        (width / 2 + radius * cos(one), height / 2 + radius * sin(one))
        for one in angles
    ]
    apart = {True: list[str](), False: list[str]()}
    if len(topology.edges) <= MOST_LINKS:
        for a, b in topology.edges.tolist():
            ends = {topology.parties[a], topology.parties[b]}
            (x, y), (u, v) = places[a], places[b]
            kind = bool(ends & {*coalition, *lost})
            apart[kind].append(f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}")
    faint = max(0.15, min(1.0, 40 / max(1, len(topology.edges))))
    parts = [
        f'<path d="{" ".join(lines)}" fill="none" stroke-opacity="{faint:.2f}" '
        f"{LOOKS[seen]}/>"
        for seen, lines in apart.items()
        if lines
    ]
    size = 8.0 if named else max(2.5, min(8.0, 200 / topology.n_parties))
    for name, (x, y), angle in zip(topology.parties, places, angles, strict=True):
        parts.append(_draw_report_party(name, x, y, size, coalition, lost))
        if named:
            parts.append(_draw_report_party_name(name, x, y, angle))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="system-ui, sans-serif" '
        f'font-size="13">{"".join(parts)}</svg>'
    ).encode()


def _draw_report_party(
    name: str,
    x: float,
    y: float,
    size: float,
    coalition: Collection[str],
    lost: Collection[str],
) -> str:
    if name in coalition:
        corner = f'x="{x - size:.1f}" y="{y - size:.1f}"'
        sides = f'width="{2 * size:.1f}" height="{2 * size:.1f}"'
        return f'<rect {corner} {sides} fill="{ORANGE}"/>'
    if name in lost:
        look = f'fill="white" stroke="{GREY}" stroke-width="2"'
    else:
        look = f'fill="{BLUE}"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" {look}/>'


def _draw_report_party_name(name: str, x: float, y: float, angle: float) -> str:
    """Return a name beside its party, away from the middle."""
    shown = printable(name)
    if len(shown) > NAME_LETTERS:
        shown = f"{shown[: NAME_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    aside = cos(angle)
    anchor = "middle" if abs(aside) < 0.2 else "start" if aside > 0 else "end"
    x += 0.0 if anchor == "middle" else 14.0 * (1 if aside > 0 else -1)
    y += 22.0 * sin(angle) + 4.0 if anchor == "middle" else 10.0 * sin(angle) + 4.0
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#111111">'
        f"{escape(shown)}</text>"
    )
