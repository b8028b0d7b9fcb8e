"""Named graphs as short strings: `complete:5`, `circulant:16:4,7`, `petersen`.

networkx builds them; nothing outside `topology` sees its graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx

from veilsum.errors import InvalidGraphError
from veilsum.numbers.arrays import nearest


@dataclass(frozen=True, slots=True)
class GraphFamily:
    """One family: how it is written, and how it is built from its arguments."""

    usage: str
    build: Callable[..., Any]


# Larger graphs than these are typing errors, or take all memory.
MOST_PARTIES, MOST_DIMENSIONS = 1_000_000, 16
# A million parties with four neighbours each, or a complete graph of 2,000; and what
# drawing a random graph may take, which grows with the square of the degree.
MOST_LINKS, MOST_DRAWING = 2_000_000, 20_000_000


def _whole(text: str, most: int = MOST_PARTIES) -> int:
    if not text.strip().isdigit():
        raise ValueError(f"{text!r} is not a whole number")
    if len(text) > 9 or int(text) > most:
        raise ValueError(f"{text} is more than the {most} that fit")
    return int(text)


def _check_links(number: int) -> None:
    """Refuse more links than fit, counted from the arguments before one is made."""
    if number > MOST_LINKS:
        raise ValueError(f"it has {number:,} links, and at most {MOST_LINKS:,} fit")


def _complete(n: str) -> Any:
    _check_links(_whole(n) * (_whole(n) - 1) // 2)
    return nx.complete_graph(_whole(n))


def _circulant(n: str, offsets: str) -> Any:
    steps = offsets.split(",")
    _check_links(_whole(n) * len(steps))
    return nx.circulant_graph(_whole(n), [_whole(part) for part in steps])


def _regular(n: str, degree: str, seed: str = "seed=0") -> Any:
    key, _, value = seed.rpartition("=")
    if key not in {"", "seed"}:
        raise ValueError(f"expected seed=NUMBER, found {seed!r}")
    _check_links(_whole(n) * _whole(degree) // 2)
    if _whole(n) * _whole(degree) ** 2 > MOST_DRAWING:
        raise ValueError(f"{degree} links for each of {n} take too long to draw")
    return nx.random_regular_graph(_whole(degree), _whole(n), seed=_whole(value))


def _grid(shape: str) -> Any:
    rows, by, columns = shape.partition("x")
    if not by:
        raise ValueError(f"{shape!r} is not ROWSxCOLUMNS")
    return nx.grid_2d_graph(_whole(rows, 1000), _whole(columns, 1000))


def _barbell(left: str, right: str) -> Any:
    """Join two complete graphs by one link."""
    a, b = _whole(left), _whole(right)
    _check_links((a * (a - 1) + b * (b - 1)) // 2 + 1)
    if min(a, b) < 1:
        raise ValueError("both sides need a party")
    graph = nx.disjoint_union(nx.complete_graph(a), nx.complete_graph(b))
    graph.add_edge(a - 1, a)
    return graph


FAMILIES: dict[str, GraphFamily] = {
    "complete": GraphFamily("complete:N", _complete),
    "ring": GraphFamily("ring:N", lambda n: nx.cycle_graph(_whole(n))),
    "path": GraphFamily("path:N", lambda n: nx.path_graph(_whole(n))),
    "star": GraphFamily(
        "star:N (hub and N-1 leaves)", lambda n: nx.star_graph(_whole(n) - 1)
    ),
    "wheel": GraphFamily(
        "wheel:N (hub and a ring of N-1)", lambda n: nx.wheel_graph(_whole(n))
    ),
    "petersen": GraphFamily("petersen", nx.petersen_graph),
    "hypercube": GraphFamily(
        "hypercube:D", lambda d: nx.hypercube_graph(_whole(d, MOST_DIMENSIONS))
    ),
    "circulant": GraphFamily("circulant:N:OFFSET,OFFSET", _circulant),
    "regular": GraphFamily("regular:N:DEGREE[:seed=K]", _regular),
    "grid": GraphFamily("grid:ROWSxCOLUMNS", _grid),
    "barbell": GraphFamily("barbell:N:M (two complete graphs, one link)", _barbell),
    "karate": GraphFamily("karate", nx.karate_club_graph),
}


def build(spec: str) -> Any:
    """Return the networkx graph a string names, its nodes numbered from 0."""
    name, *arguments = spec.strip().split(":")
    if name not in FAMILIES:
        known = "; ".join(family.usage for family in FAMILIES.values())
        raise InvalidGraphError(
            f"no graph family or file is called {name!r}; "
            f"{nearest(name, FAMILIES)}families are: {known}"
        )
    family = FAMILIES[name]
    try:
        graph = family.build(*arguments)
    except TypeError:
        raise InvalidGraphError(
            f"cannot build the graph {spec!r}: write it as {family.usage} "
            f"(found {len(arguments)} arguments)"
        ) from None
    except (ValueError, nx.NetworkXException) as error:
        raise InvalidGraphError(
            f"cannot build the graph {spec!r}: write it as {family.usage} ({error})"
        ) from None
    return nx.convert_node_labels_to_integers(graph)
