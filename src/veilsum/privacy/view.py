"""View_C: what a coalition stored, sent and received, as plain arrays (Definition 1).

The model is the proof's: the coalition knows its own costs, every share on an edge that
touches it, and every effective coefficient. Known shares are stripped at once; what is
left of an honest party is alpha_bar_i, its coefficients plus its honest edges' masks.
Under integer laws all of this is in whole grid steps, `uniform` modulo 2^64. A view is
made from a transcript, which has what was really exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, FloatArray, listed
from veilsum.numbers.limbs import total
from veilsum.numbers.masking import MaskRows, ShareArray, Shares, at_both_ends
from veilsum.numbers.shapes import Float, Shaped
from veilsum.showing import Showing, Shown, counted

Estimates = Float[FloatArray, "times heard m"]
ColluderRows = Shaped[Array[Any], "c p"]
HonestRows = Shaped[Array[Any], "h p"]


@dataclass(frozen=True, eq=False, repr=False)
class View(Shown):
    """One sample of what C saw in a run.

    Attributes:
        corrupted: C, by name.
        honest: H, by name, as far as C held masked vectors; the rows of `effective` and
            `stripped`.
        coefficients: C's own private coefficients, (|C|, p).
        known_edges: names of the two ends of every edge that touches C.
        known_shares: the shares on those edges, (edges, 2, p): r_ij then r_ji.
        effective: theta~ of the honest parties, (|H|, p).
        stripped: alpha_bar of the honest parties: effective less the known shares.
        heard: whose estimates C held or received in phase II.
        estimates: those estimates at the recorded iterations, or what was told in every
            round.
        pieces: the components of G[H], as rows of `stripped`.
    """

    corrupted: tuple[str, ...]
    honest: tuple[str, ...]
    coefficients: ColluderRows
    known_edges: tuple[tuple[str, str], ...]
    known_shares: ShareArray
    effective: HonestRows
    stripped: HonestRows
    heard: tuple[str, ...]
    estimates: Estimates
    pieces: tuple[tuple[int, ...], ...]

    def component_sums(self) -> dict[tuple[str, ...], Array[Any]]:
        """Return what any view reveals exactly: each piece's sum of coefficients."""
        return {
            tuple(self.honest[i] for i in piece): total(self.stripped[list(piece)])
            for piece in self.pieces
        }

    def showing(self) -> Showing:
        """Return how much there is in it, and no number of it."""
        return Showing(
            f"View of {listed(self.corrupted) or 'nobody'}: private",
            [
                f"{len(self.known_edges)} known links, masked numbers of "
                f"{counted(len(self.honest), 'honest party')}, estimates heard of "
                f"{len(self.heard)}; none of them is printed"
            ],
        )


def touching(topology: Topology, colluders: frozenset[int]) -> Array[np.bool_]:
    """Return which edges have an end in C."""
    inside = np.isin(topology.edges, list(colluders))
    return inside[:, 0] | inside[:, 1]


def known_masks(shares: Shares, known: Array[np.bool_]) -> MaskRows:
    """Return the part of every mask that comes from known edges."""
    noise = np.asarray(shares.edge_noise()).copy()
    noise[~known] = np.zeros((), dtype=noise.dtype)
    return at_both_ends(shares.topology, noise)
