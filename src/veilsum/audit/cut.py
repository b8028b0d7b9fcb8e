"""A coalition that parts the honest parties learns the sum of each part, exactly.

No share runs between the components of G[H], so that in the sum over one of them only
shares that the coalition knows are left, and it takes these off. Where G[H] is in
pieces, or one party is alone, `aim` names a piece's sum in every execution. Where it is
not, the same is tried all the same: `aim_cut_attack_deeper` takes every single party,
and every part that would be left if one honest edge had no shares, and names nothing if
all edges have what was promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.audit.attack import CoalitionSight, Hits, Scene, Worlds
from veilsum.audit.made_up import (
    LUCK,
    attack_hits_exactly,
    executions_per_trial,
    honest_pieces_of_scene,
    made_up_holdings,
    made_up_numbers,
)
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology
from veilsum.numbers.arrays import Array, frozen_array
from veilsum.numbers.shapes import Shaped

# Parts of honest parties, as places in the topology.
Parts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class PartSums:
    """The attack in the hands of one coalition.

    Attributes:
        coalition: by name.
        parts: whose sums are named; one that is right is enough.
        promised: 1 for a part that no share leaves.
    """

    scene: Scene
    coalition: tuple[str, ...]
    parts: Parts
    promised: float

    @property
    def attack(self) -> str:
        """Its name: whether the cut is one that the graph shows."""
        return "cut" if self.promised == 1.0 else "hidden cut"

    @property
    def about(self) -> str:
        if len(self.parts) > 1:
            return f"the sum of one of {len(self.parts)} parts of the honest parties"
        names = self.scene.topology.names(self.parts[0])
        return f"the sum of {', '.join(names)}"

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        count = executions_per_trial(self.scene, len(self.parts))
        either = [
            made_up_numbers(self.scene, made_up_holdings(self.scene, seed))
            for seed in (0, 1)
        ]
        return np.stack([np.stack([one] * count) for one in either])

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        law, count = self.scene.law, self.held.shape[1]
        used = len(worlds) * count
        values = np.moveaxis(self.held[worlds, 0], 1, 0)
        right = np.zeros(len(worlds), dtype=np.bool_)
        for part in self.parts:
            rows = [sight.honest.index(i) for i in part]
            found = law.wrap(sight.stripped[rows, :used].sum(axis=0))
            truth = law.wrap(values[list(part)].sum(axis=0))
            named = attack_hits_exactly(
                self.scene, found, np.repeat(truth, count, axis=0)
            )
            right |= named.reshape(len(worlds), count).all(axis=1)
        return right


class LonePartyAttack(PartSums):
    """A cut that leaves one party: no law helps, and the sum tells the same."""

    attack = "one honest party"

    @property
    def about(self) -> str:
        return f"what {self.scene.topology.parties[self.parts[0][0]]} holds"


def aim_at_one(scene: Scene, coalition: Sequence[str]) -> LonePartyAttack | None:
    """Return the attack of all others; None unless exactly one party is honest."""
    pieces = honest_pieces_of_scene(scene.topology, coalition)
    if [len(piece) for piece in pieces] != [1]:
        return None
    return LonePartyAttack(scene, scene.colluders(coalition), pieces, 1.0)


def aim(scene: Scene, coalition: Sequence[str]) -> PartSums | None:
    """Return the attack on the smallest piece of G[H]; None where G[H] is whole."""
    pieces = honest_pieces_of_scene(scene.topology, coalition)
    if len(pieces) < 2:
        return None
    smallest = (min(pieces, key=len),)
    return PartSums(scene, scene.colluders(coalition), smallest, 1.0)


def aim_cut_attack_deeper(scene: Scene, coalition: Sequence[str]) -> PartSums | None:
    """Return the attack on parts that have shares with others, if masks are promised.

    None where there is no such part: every honest party is alone already.
    """
    topology = scene.topology
    pieces = honest_pieces_of_scene(topology, coalition)
    parts = {
        part
        for piece in pieces
        for part in _spanning_edges_within_piece(topology, piece)
    }
    if not parts or not scene.law.hides:
        return None
    return PartSums(scene, scene.colluders(coalition), tuple(sorted(parts)), LUCK)


def _spanning_edges_within_piece(
    topology: Topology, piece: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield each party of a piece, and what is left of it without one edge."""
    if len(piece) < 2:
        return
    yield from ((i,) for i in piece)
    inside = topology.induced(piece)
    for ends in np.unique(inside.edges, axis=0):
        # Opposite arcs are one link.
        others = ~np.isin(inside.edges, ends).all(axis=1)
        rest = Topology(
            inside.parties,
            inside.edges[others],
            frozen_array(inside.weights[others]),
            directed=inside.directed,
        )
        parts = graph_components(rest)
        if len(parts) > 1:
            yield from (tuple(piece[i] for i in part) for part in parts)
