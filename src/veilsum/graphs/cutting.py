"""A graph cut into parts, one for each of several processes.

In every round a part hears parties of other parts: its halo. Geometric graphs, grids
and maps can be cut with a small one. Where mu2 is large no cut has a small halo, since
every large set of parties has many neighbours outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import scipy

from veilsum.errors import InvalidInputError
from veilsum.numbers.arrays import Array, Sparse
from veilsum.numbers.shapes import Int

Places: TypeAlias = Int[Array[np.int64], " n"]
Ends: TypeAlias = Int[Array[np.int64], " parts1"]

# Parts end at multiples of this where they are much longer: sums that are taken piece
# by piece are then the same for any number of parts.
PIECE = 1024
# With more than this much of the graph in halos, parts spend their time waiting.
MOST_HALO = 0.5
# A halo this small needs no better order.
SMALL_HALO = 0.01


@dataclass(frozen=True, eq=False, kw_only=True)
class CutParts:
    """Which part has which parties.

    Attributes:
        order: parties, those of a part next to each other; None for their own order.
        ends: part r has those from ends[r] to ends[r + 1] in that order.
        halo: how many parties of others each part hears.
        by: how the order was found: `own order`, `nearness` or `metis`.
    """

    order: Places | None
    ends: Ends
    halo: Int[Array[np.int64], " parts"]
    by: str

    @property
    def share(self) -> float:
        """Parties that cross between parts in a round, relative to all parties."""
        return float(self.halo.sum() / self.ends[-1])

    def check(self) -> None:
        """Refuse a halo that is most of the graph.

        Raises:
            InvalidInputError: the message has the number, and what to use instead.
        """
        parts, parties, heard = len(self.halo), self.ends[-1], self.halo.sum()
        if self.share <= MOST_HALO:
            return
        raise InvalidInputError(
            f"cut into {parts} parts, this graph of {parties:,} parties has a halo of "
            f"{heard:,} ({self.share:.0%}; at most {MOST_HALO:.0%} pays): so many rows "
            "would cross between ranks in every round. Graphs that mix fast cannot be "
            "cut (large mu2 means a large halo), and small ones need not be: use "
            "engine numba on one machine, or jax on a GPU. Ranks are for geometric "
            "graphs, grids and maps",
            code="halo-too-large",
        )


def even_ends_of_graph_parts(parties: int, parts: int) -> Ends:
    """Return where parts of about the same length end.

    >>> even_ends_of_graph_parts(10, 4).tolist()
    [0, 2, 5, 7, 10]
    >>> (even_ends_of_graph_parts(1_000_000, 3) % 1024).tolist()
    [0, 0, 0, 576]
    """
    if not 1 <= parts <= parties:
        raise InvalidInputError(
            f"{parties:,} parties can be cut into 1 to {parties:,} parts, not "
            f"{parts:,}",
            code="parts-out-of-range",
        )
    ends = np.arange(parts + 1, dtype=np.int64) * parties // parts
    if parties >= 64 * PIECE * parts:
        ends[1:-1] -= ends[1:-1] % PIECE
    return ends


def cut_graph_into_parts(
    links: Sparse, parts: int, *, in_order: bool = False
) -> CutParts:
    """Return the cut with the smallest halo of those that are tried.

    Parts are pieces of the parties' own order, or of one in which neighbours are near
    each other, or those that METIS finds, where pymetis is installed.

    Args:
        links: n x n, anything where a party hears another.
        parts: how many.
        in_order: whether parties must stay in their own order.
    """
    csr = scipy.sparse.csr_array(links)
    ends = even_ends_of_graph_parts(csr.shape[0], parts)
    found = [_cut_graph_by_order("own order", csr, None, ends)]
    if found[0].share > SMALL_HALO and not in_order:
        near = np.asarray(
            scipy.sparse.csgraph.reverse_cuthill_mckee(csr), dtype=np.int64
        )
        found.append(_cut_graph_by_order("nearness", csr, near, ends))
        if find_spec("pymetis") is not None:
            found.append(_cut_graph_by_metis(csr, near, parts))
    return min(found, key=lambda one: one.share)


def _cut_graph_by_order(
    by: str, csr: Sparse, order: Places | None, ends: Ends
) -> CutParts:
    part_of = np.repeat(np.arange(len(ends) - 1, dtype=np.int32), np.diff(ends))
    if order is not None:
        by_place, part_of = part_of, np.empty_like(part_of)
        part_of[order] = by_place
    listening = np.repeat(part_of, np.diff(csr.indptr))
    outside = listening != part_of[csr.indices]
    heard = np.unique(
        listening[outside].astype(np.int64) * csr.shape[0] + csr.indices[outside]
    )
    halo = np.bincount(heard // csr.shape[0], minlength=len(ends) - 1)
    return CutParts(order=order, ends=ends, halo=halo.astype(np.int64), by=by)


def _cut_graph_by_metis(csr: Sparse, near: Places, parts: int) -> CutParts:
    """Return METIS's cut, parties of a part in the order given."""
    import pymetis

    coo = scipy.sparse.coo_array(csr + csr.T)
    apart = coo.row != coo.col
    both = scipy.sparse.csr_array(
        (np.ones(int(apart.sum())), (coo.row[apart], coo.col[apart])), csr.shape
    )
    near_ones = pymetis.CSRAdjacency(both.indptr, both.indices)
    found: Any = pymetis.part_graph(parts, near_ones)
    part_of = np.asarray(found[1])
    order = near[np.argsort(part_of[near], kind="stable")]
    ends = np.concatenate([[0], np.cumsum(np.bincount(part_of, minlength=parts))])
    return _cut_graph_by_order("metis", csr, order, ends.astype(np.int64))
