"""Low bits: numbers that a coalition rules out for certain, for none could show them.

Two honest parties are left, with one edge between them. Whatever that edge's noise is,
it must explain what both of them showed. The coalition tries whether any noise at all
does so if the two had each other's first number. In float64 often none does, since all
sums are rounded; with whole numbers there always is one. The search over all numbers of
float64 is in `privacy.float_leak`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.audit.attack import (
    CoalitionSight,
    Hits,
    Scene,
    Worlds,
    edge_noise_in_attack,
)
from veilsum.audit.made_up import made_up_numbers
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.shapes import Shaped
from veilsum.privacy.float_leak import rising_float_preimage


@dataclass(frozen=True, eq=False)
class FloatBits:
    """The attack in the hands of all but two parties.

    Attributes:
        coalition: by name.
        pair: the two others, as places in the topology; their edge leads from the first
            to the second.
    """

    scene: Scene
    coalition: tuple[str, ...]
    pair: tuple[int, int]

    attack = "float bits"
    # No whole number is ever ruled out.
    promised = 0.0

    @property
    def about(self) -> str:
        first, second = self.scene.topology.names(self.pair)
        return f"that {first} and {second} hold each other's number, ruled out for sure"

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        """Tenths, or whole steps; in the second world the two have exchanged them."""
        law, (n, p) = self.scene.law, (self.scene.topology.n_parties, self.scene.width)
        whole = np.zeros((2, 1, n, p), dtype=np.int64)
        whole[..., 0] = 1 + np.arange(n)
        whole[1][:, self.pair, 0] = whole[1][:, self.pair[::-1], 0]
        if law.exact:
            return made_up_numbers(self.scene, whole)
        return self.scene.encode(law, whole / 10.0)

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        other = self.held[1 - worlds, 0, :, 0].T[list(self.pair)]
        if self.scene.law.exact:
            rest = sight.stripped[:, : len(worlds), 0].sum(axis=0) - other.sum(axis=0)
            return np.asarray(self.scene.law.wrap(rest) != 0, dtype=np.bool_)
        rows = [sight.honest.index(i) for i in self.pair]
        seen = sight.effective[rows, : len(worlds), 0]
        low, high = self._explained(sight, 0, other[0], seen[0])
        # The second party has the noise with the other sign.
        minus_high, minus_low = self._explained(sight, 1, other[1], seen[1])
        return np.maximum(low, -minus_low) > np.minimum(high, -minus_high)

    def _explained(
        self, sight: CoalitionSight, which: int, value: Vector, seen: Vector
    ) -> Any:
        """Return the first and last noise at a party's end that explain what it showed.

        A mask is added up edge by edge, in the edges' order, and then to the value.
        """
        topology, party = self.scene.topology, self.pair[which]
        places = {int(edge): k for k, edge in enumerate(sight.known_edges)}
        terms: list[Vector | None] = []
        for edge in np.flatnonzero((topology.edges == party).any(axis=1)).tolist():
            if edge not in places:
                terms.append(None)
                continue
            shares = sight.known_shares[places[edge], :, : len(seen), 0]
            noise = edge_noise_in_attack(shares)
            first = topology.edges[edge, 0] == party
            terms.append(noise if first else -noise)

        def shown(noise: Vector) -> Vector:
            mask = np.zeros_like(noise)
            for term in terms:
                mask = mask + (noise if term is None else term)
            return mask + value

        return rising_float_preimage(shown, seen)


def aim(scene: Scene, coalition: Sequence[str]) -> FloatBits | None:
    """Return the attack; None unless two honest parties are left, with one edge."""
    topology = scene.topology
    honest = scene.others(coalition)
    hidden = np.isin(topology.edges, honest).all(axis=1)
    if len(honest) != 2 or hidden.sum() != 1 or not scene.law.hides:
        return None
    first, second = topology.edges[hidden][0].tolist()
    return FloatBits(scene, scene.colluders(coalition), (first, second))
