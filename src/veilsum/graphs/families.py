"""Named graphs as short strings: `complete:5`, `circulant:16:4,7`, `petersen`.

networkx builds small ones; nothing outside `topology` sees its graphs. Of very many
parties some families are made as `links`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import log2
from typing import Any

import numpy as np

from veilsum.errors import InvalidGraphError, MemoryShortError
from veilsum.graphs.links import (
    MOST_LINKS as LINKS_THAT_FIT,
    MOST_NUMBERED,
    LinkArray,
    Only,
    circle_graph_links,
    cycle_graph_links,
    geometric_graph_links,
    graph_links_in_order,
    line_graph_links,
    links_touching_parties,
    plane_graph_links,
)
from veilsum.numbers.arrays import nearest_name
from veilsum.showing import counted_words


@dataclass(frozen=True, slots=True)
class GraphFamily:
    """One family: how it is written, and how it is built from its arguments.

    Attributes:
        usage: how a user writes it.
        build: returns a graph of networkx, or links; None where `streamed` makes all.
        streamed: returns links, of more than MANY_PARTIES where there is `build`.
    """

    usage: str
    build: Callable[..., Any] | None
    streamed: Callable[..., LinkArray] | None = None


# Above so many parties families are made as links, where that is known how.
MANY_PARTIES = 100_000
# Larger graphs than these are typing errors, or take all memory.
MOST_PARTIES, MOST_DIMENSIONS = 1_000_000, 16
# A million parties with four neighbours each, or a complete graph of 2,000; and what
# drawing a random graph may take, which grows with the square of the degree.
MOST_LINKS, MOST_DRAWING = 2_000_000, 20_000_000


def _whole_graph_argument(text: str, most: int = MOST_PARTIES) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is not a whole number")
    if len(text) > 10 or int(text) > most:
        raise ValueError(f"{text} is more than the {most:,} that fit")
    return int(text)


def _check_links(number: int) -> None:
    """Refuse more links than fit, counted from the arguments before one is made."""
    if number > MOST_LINKS:
        raise ValueError(f"it has {number:,} links, and at most {MOST_LINKS:,} fit")


def _complete_graph_family(n: str) -> LinkArray:
    count = _whole_graph_argument(n)
    _check_links(count * (count - 1) // 2)
    return LinkArray(count, np.stack(np.triu_indices(count, 1), 1).astype(np.int32))


def _networkx_graph_family(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builder that has networkx first, which takes long to load."""

    def build(*arguments: str) -> Any:
        import networkx as nx

        try:
            return make(nx, *arguments)
        except nx.NetworkXException as error:
            raise ValueError(str(error)) from None

    return build


def _circulant_graph_family(nx: Any, n: str, offsets: str) -> Any:
    steps = offsets.split(",")
    _check_links(_whole_graph_argument(n) * len(steps))
    return nx.circulant_graph(
        _whole_graph_argument(n), [_whole_graph_argument(part) for part in steps]
    )


def _graph_seed_argument(text: str) -> int:
    key, _, value = text.rpartition("=")
    if key not in {"", "seed"}:
        raise ValueError(f"expected seed=NUMBER, found {text!r}")
    return _whole_graph_argument(value, MOST_NUMBERED)


def _regular_graph_family(nx: Any, n: str, degree: str, seed: str = "seed=0") -> Any:
    _check_links(_whole_graph_argument(n) * _whole_graph_argument(degree) // 2)
    if _whole_graph_argument(n) * _whole_graph_argument(degree) ** 2 > MOST_DRAWING:
        raise ValueError(f"{degree} links for each of {n} take too long to draw")
    return nx.random_regular_graph(
        _whole_graph_argument(degree),
        _whole_graph_argument(n),
        seed=_graph_seed_argument(seed),
    )


def _grid_graph_family(nx: Any, shape: str) -> Any:
    rows, by, columns = shape.partition("x")
    if not by:
        raise ValueError(f"{shape!r} is not ROWSxCOLUMNS")
    return nx.grid_2d_graph(
        _whole_graph_argument(rows, 1000), _whole_graph_argument(columns, 1000)
    )


def _barbell_graph_family(nx: Any, left: str, right: str) -> Any:
    a, b = _whole_graph_argument(left), _whole_graph_argument(right)
    _check_links((a * (a - 1) + b * (b - 1)) // 2 + 1)
    if min(a, b) < 1:
        raise ValueError("both sides need a party")
    graph = nx.disjoint_union(nx.complete_graph(a), nx.complete_graph(b))
    graph.add_edge(a - 1, a)
    return graph


# Links as arrays


def _large_graph_argument(text: str) -> int:
    return _whole_graph_argument(text, MOST_NUMBERED)


def _many_in_circle(n: str, offsets: str, **how: Any) -> LinkArray:
    return circle_graph_links(
        _large_graph_argument(n),
        [_large_graph_argument(part) for part in offsets.split(",")],
        **how,
    )


def _many_on_grid(shape: str, **how: Any) -> LinkArray:
    rows, by, columns = shape.partition("x")
    if not by:
        raise ValueError(f"{shape!r} is not ROWSxCOLUMNS")
    return plane_graph_links(
        _large_graph_argument(rows), _large_graph_argument(columns), **how
    )


def _cycles_graph_family(
    n: str, degree: str, seed: str = "seed=0", **how: Any
) -> LinkArray:
    return cycle_graph_links(
        _large_graph_argument(n),
        _large_graph_argument(degree),
        _graph_seed_argument(seed),
        **how,
    )


def _geometric_graph_family(
    n: str, degree: str, seed: str = "seed=0", **how: Any
) -> LinkArray:
    return geometric_graph_links(
        _large_graph_argument(n),
        _large_graph_argument(degree),
        _graph_seed_argument(seed),
        **how,
    )


FAMILIES: dict[str, GraphFamily] = {
    "complete": GraphFamily("complete:N", _complete_graph_family),
    "ring": GraphFamily(
        "ring:N",
        _networkx_graph_family(lambda nx, n: nx.cycle_graph(_whole_graph_argument(n))),
        lambda n, **how: circle_graph_links(_large_graph_argument(n), [1], **how),
    ),
    "path": GraphFamily(
        "path:N",
        _networkx_graph_family(lambda nx, n: nx.path_graph(_whole_graph_argument(n))),
        lambda n, **how: line_graph_links(_large_graph_argument(n), **how),
    ),
    "star": GraphFamily(
        "star:N (hub and N-1 leaves)",
        _networkx_graph_family(
            lambda nx, n: nx.star_graph(_whole_graph_argument(n) - 1)
        ),
    ),
    "wheel": GraphFamily(
        "wheel:N (hub and a ring of N-1)",
        _networkx_graph_family(lambda nx, n: nx.wheel_graph(_whole_graph_argument(n))),
    ),
    "petersen": GraphFamily(
        "petersen", _networkx_graph_family(lambda nx: nx.petersen_graph())
    ),
    "hypercube": GraphFamily(
        "hypercube:D",
        _networkx_graph_family(
            lambda nx, d: nx.hypercube_graph(_whole_graph_argument(d, MOST_DIMENSIONS))
        ),
    ),
    "circulant": GraphFamily(
        "circulant:N:OFFSET,OFFSET",
        _networkx_graph_family(_circulant_graph_family),
        _many_in_circle,
    ),
    "regular": GraphFamily(
        "regular:N:DEGREE[:seed=K]",
        _networkx_graph_family(_regular_graph_family),
        _cycles_graph_family,
    ),
    "cycles": GraphFamily(
        "cycles:N:DEGREE[:seed=K] (random cycles, united)", None, _cycles_graph_family
    ),
    "geometric": GraphFamily(
        "geometric:N:DEGREE[:seed=K] (near ones in a square)",
        None,
        _geometric_graph_family,
    ),
    "grid": GraphFamily(
        "grid:ROWSxCOLUMNS", _networkx_graph_family(_grid_graph_family), _many_on_grid
    ),
    "barbell": GraphFamily(
        "barbell:N:M (two complete graphs, one link)",
        _networkx_graph_family(_barbell_graph_family),
    ),
    "karate": GraphFamily(
        "karate", _networkx_graph_family(lambda nx: nx.karate_club_graph())
    ),
}


# Families of which some parties' links are made without everybody's.
IN_PARTS = ("geometric", "grid")


def build_part_of_graph(spec: str, only: Only) -> LinkArray:
    """Return the links of some parties of the graph a string names.

    Of families that are not made in parts everybody's are made, and then left out.
    """
    if spec.strip().partition(":")[0] in IN_PARTS:
        found: LinkArray = build_graph_family(spec, only)
        return found
    graph = build_graph_family(spec)
    if not isinstance(graph, LinkArray):
        ends = np.array(list(graph.edges), dtype=np.int32).reshape(-1, 2)
        graph = LinkArray(len(graph), graph_links_in_order(len(graph), ends))
    return LinkArray(
        graph.n_parties, links_touching_parties(graph.ends, only(graph.n_parties))
    )


def build_graph_family(
    spec: str, only: Only | None = None, *, most_links: int | None = None
) -> Any:
    """Return the graph a string names, its nodes numbered from 0.

    Links where the family is made of them, else a graph of networkx; of some parties
    only where `build_part_of_graph` asks for them. Where more than `most_links` would
    have to be made, none is.
    """
    name, *arguments = spec.strip().split(":")
    if name not in FAMILIES:
        known = "; ".join(family.usage for family in FAMILIES.values())
        raise InvalidGraphError(
            f"no graph family or file is called {name!r}; "
            f"{nearest_name(name, FAMILIES)}families are: {known}",
            code="unknown-family",
        )
    family = FAMILIES[name]
    made = family.build
    many = family.streamed is not None and _asks_for_many(arguments)
    if made is None or many or only is not None:
        assert family.streamed is not None
        most = LINKS_THAT_FIT if most_links is None else most_links
        made = partial(family.streamed, most=most)
        if only is not None:
            made = partial(made, only=only)
    try:
        graph = made(*arguments)
    except (InvalidGraphError, MemoryShortError):
        raise
    except TypeError:
        raise InvalidGraphError(
            f"cannot build the graph {spec!r}: write it as {family.usage} "
            f"(found {counted_words(len(arguments), 'argument')})",
            code="malformed-family",
        ) from None
    except ValueError as error:
        raise InvalidGraphError(
            f"cannot build the graph {spec!r}: write it as {family.usage} ({error})",
            code="malformed-family",
        ) from None
    if isinstance(graph, LinkArray):
        return graph
    import networkx as nx

    return nx.convert_node_labels_to_integers(graph)


def _asks_for_many(arguments: list[str]) -> bool:
    """Say whether the first argument, N or ROWSxCOLUMNS, is beyond small graphs."""
    sides = arguments[0].split("x") if arguments else []
    if not sides or not all(one.strip().isdecimal() and len(one) < 12 for one in sides):
        return False
    return sum(log2(max(int(one), 1)) for one in sides) > log2(MANY_PARTIES)
