"""The same masks once more: the difference of two runs is the change of the data.

A party's numbers change by a step between two executions, and either up or down. With
fresh masks that is hidden as well as anything is; with the same masks the difference of
what was seen is the change itself. Masks may be the same in two executions, in two
epochs (`attack_across_epochs`), or on two edges: if all edges had the shares of one
that the coalition knows, all masks would be known.

Where nothing fits the guess is the first world, right in every other trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.audit.attack import (
    CoalitionSight,
    Drawing,
    Hits,
    Numbers,
    Outcome,
    Scene,
    Worlds,
    edge_noise_in_attack,
)
from veilsum.audit.made_up import (
    attack_hits_exactly,
    best_chance,
    honest_pair_easiest_to_attack,
    made_up_holdings,
    made_up_numbers,
)
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import MaskLaw
from veilsum.masks.masking import MaskShares
from veilsum.numbers.arrays import Array
from veilsum.numbers.shapes import Int, Shaped


@dataclass(frozen=True, eq=False)
class ReusedMasksAttack:
    """The attack in the hands of one coalition.

    Attributes:
        coalition: by name.
        change: of the numbers from the first execution to the second, (n, p), in steps;
            in the second world it is the other way round.
    """

    scene: Scene
    coalition: tuple[str, ...]
    change: Int[Array[np.int64], "n p"]

    attack = "reused masks"
    about = "which of two honest parties has a step more than before"

    @cached_property
    def promised(self) -> float:
        """The chance with fresh masks: the second executions are two steps apart."""
        return best_chance(self.scene, self.coalition, 2 * self.change)

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        before = made_up_holdings(self.scene)
        worlds = [[before, before + self.change], [before, before - self.change]]
        return np.stack(
            [
                np.stack([made_up_numbers(self.scene, one) for one in world])
                for world in worlds
            ]
        )

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        seen = sight.effective[:, : 2 * len(worlds)]
        told = self.second(seen[:, 0::2], seen[:, 1::2])
        if len(sight.known_edges):
            found = self._if_edges_were_alike(sight)[:, 1 : 2 * len(worlds) : 2]
            told |= self._all_same(found, self.held[1, 1])
        return np.asarray(told == (worlds == 1), dtype=np.bool_)

    def second(self, before: Numbers, after: Numbers) -> Hits:
        """Return in which trials numbers changed as in the second world, exactly."""
        wrap, held = self.scene.law.wrap, self.held
        return self._all_same(wrap(after - before), wrap(held[1, 1] - held[1, 0]))

    def _all_same(self, found: Numbers, truth: Shaped[Array[Any], "n p"]) -> Hits:
        honest = self.scene.others(self.coalition)
        wanted = np.broadcast_to(truth[honest, None], found.shape)
        return np.asarray(
            attack_hits_exactly(self.scene, found, wanted).all(axis=0), dtype=np.bool_
        )

    def _if_edges_were_alike(self, sight: CoalitionSight) -> Numbers:
        """Return what parties held, had all hidden edges the shares of a known one."""
        topology, noise = (
            self.scene.topology,
            edge_noise_in_attack(sight.known_shares[0]),
        )
        hidden = np.ones(topology.n_edges)
        hidden[sight.known_edges] = 0.0
        # How many of them add that noise to a party, less how many take it off.
        times = (topology.incidence @ hidden)[list(sight.honest)].astype(np.int64)
        masks = times.astype(noise.dtype)[:, None, None] * noise
        return self.scene.law.wrap(sight.stripped - masks)


def aim(scene: Scene, coalition: Sequence[str]) -> ReusedMasksAttack | None:
    """Return the attack; None where no two honest parties share masks."""
    pair = honest_pair_easiest_to_attack(scene.topology, coalition)
    if pair is None or not scene.law.hides:
        return None
    change = np.zeros((scene.topology.n_parties, scene.width), dtype=np.int64)
    change[list(pair)] = [[1], [-1]]
    return ReusedMasksAttack(scene, scene.colluders(coalition), change)


@dataclass(frozen=True)
class InEpoch:
    """Shares of a certain epoch."""

    drawn: Drawing
    epoch: int

    def __call__(
        self, topology: Topology, law: MaskLaw, root: int, size: int, epoch: int = 0
    ) -> MaskShares:
        del epoch
        return self.drawn(topology, law, root, size, self.epoch)


def attack_across_epochs(
    scene: Scene, coalition: Sequence[str], *, seed: int, trials: int = 1000
) -> Outcome | None:
    """Play it on executions of two epochs, drawn from one root.

    None where no two honest parties share masks.
    """
    player = aim(scene, coalition)
    if player is None:
        return None
    worlds = np.random.default_rng(seed).integers(0, 2, size=trials)
    shown = []
    for epoch in (0, 1):
        batch = replace(scene, draw=InEpoch(scene.draw, epoch)).batch(seed, trials)
        values = player.held[worlds, epoch]
        shown.append(batch.sight(coalition, values).effective)
    hits = player.second(shown[0], shown[1]) == (worlds == 1)
    whose, right = (player.coalition, player.about), int(hits.sum())
    return Outcome("masks of another epoch", *whose, trials, right, player.promised)
