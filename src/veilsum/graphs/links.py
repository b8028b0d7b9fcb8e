"""Links of very many parties as arrays: no Python object stands for a party or a link.

Indices have 32 bits. Links are (e, 2), the smaller index first, each once, in order;
they are made piece by piece, and what does not fit is refused before it is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, pi, sqrt
from typing import Any, TypeAlias

import numpy as np

from veilsum.errors import InvalidGraphError
from veilsum.memory import check_memory_room
from veilsum.numbers.arrays import Array
from veilsum.numbers.compiled import compiled_or_plain

MOST_NUMBERED = 2**31 - 1
# A hundred million parties with seven neighbours each; more is a typing error.
MOST_LINKS = 350_000_000
# Links that are worked on at once.
PIECE = 1 << 22
# Drawing is begun anew after so many exchanges that came to nothing.
MOST_TRIES = 1000
# Of united cycles about half the square of the degree has to be exchanged; and where
# half of all pairs are linked, exchanges hardly ever come to an end.
MOST_UNITED, DENSE = 1000, 400


@dataclass(frozen=True, slots=True, eq=False)
class LinkArray:
    """All links of numbered parties."""

    n_parties: int
    ends: Array[np.int32]


# Whose links are wanted, of so many parties: those from one to another.
Only: TypeAlias = Callable[[int], slice]


def links_touching_parties(ends: Array[Any], own: slice) -> Array[np.int32]:
    """Return the links with an end among some parties, read piece by piece.

    >>> links = np.array([[0, 1], [0, 4], [1, 2], [2, 3]])
    >>> links_touching_parties(links, slice(3, 5)).tolist()
    [[0, 4], [2, 3]]
    """
    found = []
    for low in range(0, len(ends), PIECE):
        here = np.asarray(ends[low : low + PIECE])
        is_own = (here >= own.start) & (here < own.stop)
        found.append(here[is_own.any(axis=1)].astype(np.int32, copy=False))
    return np.concatenate(found) if found else np.empty((0, 2), dtype=np.int32)


def graph_links_in_order(n_parties: int, ends: Array[Any]) -> Array[Any]:
    """Return anybody's links as they are wanted here; refuse what are none."""
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise InvalidGraphError(
            "links must be pairs of whole numbers, two columns of one array; found "
            f"shape {ends.shape} of {ends.dtype}",
            code="malformed-links",
        )
    if not 2 <= n_parties <= MOST_NUMBERED:
        raise InvalidGraphError(
            f"expected between 2 and {MOST_NUMBERED:,} parties, found {n_parties:,}",
            code="parties-out-of-range",
        )
    if not len(ends):
        raise InvalidGraphError(
            "found no edges; every party needs a neighbour to exchange shares with",
            code="no-links",
        )
    if not (int(ends.min()) >= 0 and int(ends.max()) < n_parties):
        raise InvalidGraphError(
            f"links of {n_parties:,} parties name indices from 0 to {n_parties - 1:,}, "
            f"found {int(ends.min())} to {int(ends.max())}",
            code="index-out-of-range",
        )
    if (ends[:, 0] == ends[:, 1]).any():
        loop = int(ends[np.argmax(ends[:, 0] == ends[:, 1]), 0])
        raise InvalidGraphError(
            f"found self-loops at {loop}; a party does not mask itself",
            code="self-loops",
        )
    if _are_in_order(ends):
        return ends
    check_room_for_links(len(ends))
    # One whole number for each link is sorted faster than pairs, and in less memory.
    keys = np.empty(len(ends), dtype=np.int64)
    _pack_links(keys, ends[:, 0], ends[:, 1], n_parties)
    return _unpack_links(np.unique(keys), n_parties)


def check_room_for_links(number: int) -> None:
    """Refuse more links than there is memory to put into order."""
    check_memory_room(40 * number, f"sorting {number:,} links")


def _are_in_order(ends: Array[Any]) -> bool:
    """Say it piece by piece: links may be on disk, and more than memory holds."""
    for low in range(0, len(ends), PIECE):
        # One more, so that pieces are compared with each other, too.
        first, second = ends[low : low + PIECE + 1].T
        later = first[1:] > first[:-1]
        later |= (first[1:] == first[:-1]) & (second[1:] > second[:-1])
        if not ((first < second).all() and later.all()):
            return False
    return True


def _pack_links(
    into: Array[np.int64], left: Array[Any], right: Array[Any], n: int
) -> None:
    """Write every link as one number, first * n + second."""
    for low in range(0, len(into), PIECE):
        here = slice(low, low + PIECE)
        a, b = left[here].astype(np.int64), right[here].astype(np.int64)
        into[here] = np.minimum(a, b) * n + np.maximum(a, b)


def _unpack_links(keys: Array[np.int64], n: int) -> Array[np.int32]:
    links = np.empty((len(keys), 2), dtype=np.int32)
    for low in range(0, len(keys), PIECE):
        here = slice(low, low + PIECE)
        links[here, 0], links[here, 1] = np.divmod(keys[here], n)
    return links


def fill_adjacency_rows(ends: Any, start: Any, near: Any) -> None:
    """Fill CSR's row starts, all zero before, and neighbours.

    Links are in order, and so every row is. A kernel: see `compiled_or_plain`.
    """
    for e in range(ends.shape[0]):
        start[ends[e, 0] + 1] += 1
        start[ends[e, 1] + 1] += 1
    for i in range(1, start.size):
        start[i] += start[i - 1]
    # Each row's start serves as its next free place, and is set back in the end.
    for e in range(ends.shape[0]):
        i, j = ends[e, 0], ends[e, 1]
        near[start[i]] = j
        start[i] += 1
        near[start[j]] = i
        start[j] += 1
    for i in range(start.size - 1, 0, -1):
        start[i] = start[i - 1]
    start[0] = 0


def fill_balanced_adjacency_rows(
    ends: Any, weight: Any, total: Any, start: Any, near: Any, data: Any
) -> None:
    """Fill CSR's rows, each with its own entry, so that every row adds up to `total`.

    Links are in order, and so every row is; a row's weights are added up in their
    order. A kernel: see `compiled_or_plain`.
    """
    place = start.copy()
    here = 0
    for i in range(start.size - 1):
        # Smaller neighbours have written into this row before.
        own, others = place[i], 0.0
        for k in range(start[i], own):
            others += data[k]
        place[i] += 1
        while here < ends.shape[0] and ends[here, 0] == i:
            j = ends[here, 1]
            near[place[i]], data[place[i]] = j, weight[here]
            near[place[j]], data[place[j]] = i, weight[here]
            place[i] += 1
            place[j] += 1
            others += weight[here]
            here += 1
        near[own], data[own] = i, total - others


def graph_pieces_joined(ends: Any, root: Any) -> None:
    """Give all parties that links join one root: the first of them. A kernel."""
    for i in range(root.size):
        root[i] = i
    for e in range(ends.shape[0]):
        i, j = ends[e, 0], ends[e, 1]
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        while root[j] != j:
            root[j] = root[root[j]]
            j = root[j]
        if i < j:
            root[j] = i
        else:
            root[i] = j
    for i in range(root.size):
        root[i] = root[root[i]]


def _check_bytes(n: int, links: int, each: int, most: int) -> None:
    """Refuse what does not fit; each link takes so many bytes at the worst moment."""
    if links > most:
        raise InvalidGraphError(
            f"a graph of {n:,} parties would have {links:,} links, and at most "
            f"{most:,} fit: ask for fewer parties, or fewer links of each",
            code="too-many-links",
        )
    check_memory_room(
        each * links + 16 * n, f"a graph of {n:,} parties and {links:,} links"
    )


# Families; of more than `most` links none is made


def line_graph_links(n: int, *, most: int = MOST_LINKS) -> LinkArray:
    if n < 2:
        raise ValueError("a path needs two parties")
    _check_bytes(n, n, 24, most)
    i = np.arange(n, dtype=np.int32)
    return LinkArray(n, np.stack([i[:-1], i[1:]], axis=1))


def circle_graph_links(
    n: int, offsets: Iterable[int], *, most: int = MOST_LINKS
) -> LinkArray:
    """Return the links i - i + offset around a circle.

    >>> circle_graph_links(5, [1]).ends.tolist()
    [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]
    """
    # A step and its opposite are one; a step of zero joins nobody.
    steps = sorted({min(one % n, -one % n) for one in offsets} - {0}) if n > 1 else []
    if not steps:
        raise ValueError("no step joins two parties")
    _check_bytes(n, n * len(steps), 24, most)
    # To parties before the largest step others come around from the end of the circle.
    around = sorted({*steps, *(n - one for one in steps)})
    found = []
    at_once = max(1, PIECE // len(around))
    for low in range(0, n, at_once):
        i = np.arange(low, min(n, low + at_once), dtype=np.int64)
        here = np.array(around if low < steps[-1] else steps)
        first, second = np.repeat(i, len(here)), (i[:, None] + here).ravel()
        later = second < n
        pairs = np.empty((int(later.sum()), 2), dtype=np.int32)
        pairs[:, 0], pairs[:, 1] = first[later], second[later]
        found.append(pairs)
    return LinkArray(n, np.concatenate(found))


def plane_graph_links(
    rows: int, columns: int, *, only: Only | None = None, most: int = MOST_LINKS
) -> LinkArray:
    """Return the links of a grid, numbered row by row; of some parties if asked to."""
    n = rows * columns
    if not 2 <= n <= MOST_NUMBERED:
        raise ValueError(f"it has {n:,} parties, and 2 to {MOST_NUMBERED:,} fit")
    own = slice(0, n) if only is None else only(n)
    _check_bytes(own.stop - own.start, 2 * (own.stop - own.start), 24, most)
    i = np.arange(max(own.start - columns, 0), own.stop, dtype=np.int32)
    pairs = np.empty((len(i), 2, 2), dtype=np.int32)
    pairs[:, :, 0] = i[:, None]
    pairs[:, 0, 1], pairs[:, 1, 1] = i + 1, i + columns
    kept = np.empty((len(i), 2), dtype=bool)
    kept[:, 0], kept[:, 1] = i % columns < columns - 1, i < n - columns
    return LinkArray(
        n, pairs[kept] if only is None else links_touching_parties(pairs[kept], own)
    )


def cycle_graph_links(
    n: int, degree: int, seed: int = 0, *, most: int = MOST_LINKS
) -> LinkArray:
    """Return a random graph in which everybody has `degree` links: united cycles.

    Half as many random cycles through all parties as the degree, and a random matching
    of pairs where it is odd. It is connected, since the first cycle stays as it is. Of
    the others' links those that stand twice are exchanged. What is all but certain of
    such large graphs is so of random regular ones, too, and the other way round
    (Wormald 1999).
    """
    if degree % 2 and n % 2:
        raise ValueError(f"{n} parties cannot have {degree} links each: both are odd")
    if degree < 2 or 2 * degree > n:
        raise ValueError(
            f"cycles are united to at least 2 links each, and to at most half as many "
            f"as there are parties; found {degree} for {n}"
        )
    if degree > MOST_UNITED or (n > DENSE and 3 * degree > n):
        raise ValueError(
            f"{degree} links for each of {n} take too long to draw: at most "
            f"{MOST_UNITED:,}, and a third as many as there are parties"
        )
    _check_bytes(n, n * degree // 2, 40, most)
    stream = np.random.default_rng((n, degree, seed))
    first = np.empty(n, dtype=np.int64)
    walk = stream.permutation(n)
    _pack_links(first, walk, np.roll(walk, -1), n)
    first.sort()
    rest = np.empty(n * degree // 2 - n, dtype=np.int64)
    while True:
        for low in range(0, len(rest), n):
            walk = stream.permutation(n)
            left, right = walk, np.roll(walk, -1)
            if len(rest) - low < n:
                left, right = walk[0::2], walk[1::2]
            _pack_links(rest[low : low + n], left, right, n)
        if _make_graph_links_different(rest, first, n, stream):
            break
    del walk
    keys = np.concatenate([first, rest])
    del first, rest
    keys.sort()
    return LinkArray(n, _unpack_links(keys, n))


def _make_graph_links_different(
    rest: Array[np.int64], first: Array[np.int64], n: int, stream: np.random.Generator
) -> bool:
    """Replace links that stand twice, in place; say whether that came to an end.

    Such a link a - b and any other, c - d, become a - c and b - d: everybody keeps its
    number of links. Links of the first cycle are left alone.
    """
    for _ in range(MOST_TRIES):
        rest.sort()
        again = np.zeros(len(rest), dtype=bool)
        np.equal(rest[1:], rest[:-1], out=again[1:])
        for low in range(0, len(rest), PIECE):
            here = slice(low, low + PIECE)
            again[here] |= _stand_in_for_wanted_links(first, rest[here])
        places = np.flatnonzero(again).tolist()
        if not places:
            return True
        for place in places:
            other = int(stream.integers(len(rest)))
            (a, b), (c, d) = (divmod(int(rest[k]), n) for k in (place, other))
            if stream.integers(2):
                c, d = d, c
            # What becomes a link twice again is found in the next turn.
            if len({a, b, c, d}) == 4:
                rest[place] = min(a, c) * n + max(a, c)
                rest[other] = min(b, d) * n + max(b, d)
    return False


def _stand_in_for_wanted_links(
    keys: Array[np.int64], wanted: Array[np.int64]
) -> Array[np.bool_]:
    places = np.searchsorted(keys, wanted)
    np.minimum(places, len(keys) - 1, out=places)
    return np.asarray(keys[places] == wanted)


def geometric_graph_links(
    n: int,
    degree: int,
    seed: int = 0,
    *,
    only: Only | None = None,
    most: int = MOST_LINKS,
) -> LinkArray:
    """Return parties at random places of a square, linked to all within a radius.

    The radius gives `degree` links on average, but for those at the border. Parties are
    numbered cell by cell along a line that winds through the square, so that near ones
    have near numbers; each is linked to the next along that line as well, and so nobody
    stands alone. Of some parties only, everybody's places are made, and links between
    rows of cells that these are in.
    """
    if not 1 <= degree < n:
        raise ValueError(f"{degree} links each need more than {degree} parties")
    own = slice(0, n) if only is None else only(n)
    many = own.stop - own.start
    _check_bytes(many, many * (degree + 3) // 2, 40, most)
    check_memory_room(50 * n, f"the places of {n:,} parties")
    near = (
        compiled_or_plain(near_vertices_of_geometric_graph)
        or near_vertices_of_geometric_graph
    )
    stream = np.random.default_rng((n, degree, seed))
    radius = min(1.0, sqrt(degree / (pi * n)))
    side = max(1, min(int(1.0 / radius), ceil(sqrt(n))))
    places = stream.random((n, 2))
    row, column = (places * side).astype(np.int64).T
    # Every second row of cells is walked backwards.
    cell = row * side + np.where(row % 2, side - 1 - column, column)
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    start = np.searchsorted(cell, np.arange(side * side + 1))
    # Nobody reaches farther than into the next row, and the line to the next party.
    top, bottom = cell[own.start] // side - 1, cell[own.stop - 1] // side + 2
    low = min(start[max(top, 0) * side], max(own.start - 1, 0))
    high = max(start[min(bottom, side) * side], min(own.stop + 1, n))
    places, start = places[order[low:high]], np.clip(start, low, high) - low
    del row, column, order, cell
    # Once to count each party's links, once to write them down.
    counts, none = np.zeros(high - low, np.int64), np.empty((0, 2), dtype=np.int32)
    near(places, start, side, radius * radius, counts, none)
    ends = np.empty((int(counts.sum()), 2), dtype=np.int32)
    counts[:] = np.cumsum(counts) - counts
    near(places, start, side, radius * radius, counts, ends)
    ends += np.int32(low)
    return LinkArray(n, ends if only is None else links_touching_parties(ends, own))


def near_vertices_of_geometric_graph(
    places: Any, start: Any, side: Any, reach: Any, counts: Any, ends: Any
) -> None:
    """Count each party's later neighbours, or write them where counts say. A kernel."""
    n, writing = places.shape[0], ends.shape[0] > 0
    found = np.empty(64, np.int64)
    for i in range(n):
        row, column = int(places[i, 0] * side), int(places[i, 1] * side)
        many = 0
        if i + 1 < n:
            found[0] = i + 1
            many = 1
        for r in range(max(row - 1, 0), min(row + 2, side)):
            for c in range(max(column - 1, 0), min(column + 2, side)):
                here = r * side + (side - 1 - c if r % 2 else c)
                # The next one is there already.
                for j in range(max(start[here], i + 2), start[here + 1]):
                    down = places[i, 0] - places[j, 0]
                    across = places[i, 1] - places[j, 1]
                    if down * down + across * across <= reach:
                        if many == found.size:
                            found = np.concatenate((found, found))
                        found[many] = j
                        many += 1
        if writing:
            found[:many].sort()
            for k in range(many):
                ends[counts[i] + k, 0] = i
                ends[counts[i] + k, 1] = found[k]
        else:
            counts[i] = many
