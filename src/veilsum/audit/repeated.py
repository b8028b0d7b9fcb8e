"""Repeated runs with fresh masks: what a coalition sees of all of them, put together.

Two honest parties hold their numbers, or each other's, in all of T runs. The likelihood
ratio of T views is linear in their sum, so that the best guess is whether

    sum_t d' L_H^+ (y_t - (A + B) / 2)

is positive, d = B - A, and it is right with probability Phi(sqrt(T KL / 2)): one run is
the test of the paper, and enough of them tell everything but `uniform` masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.audit.attack import CoalitionSight, Hits, Scene, Worlds
from veilsum.audit.made_up import (
    attack_numbers_as_floats,
    best_chance,
    honest_pair_easiest_to_attack,
    honest_pieces_of_scene,
    made_up_holdings,
    made_up_numbers,
    sigma_of_scene,
    step_of_scene,
)
from veilsum.errors import InvalidPairError
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.shapes import Float, Int, Shaped
from veilsum.privacy.divergence import DegenerateGaussian

RUNS = 4


@dataclass(frozen=True, eq=False)
class RepeatedRunsAttack:
    """The attack in the hands of one coalition.

    Attributes:
        coalition: by name.
        first: what parties hold in the first world, (n, p), in whole steps.
    """

    scene: Scene
    coalition: tuple[str, ...]
    first: Int[Array[np.int64], "n p"]
    shift: Int[Array[np.int64], "n p"]
    runs: int

    attack = "repeated runs"

    @property
    def about(self) -> str:
        places = np.flatnonzero(self.shift.any(axis=1)).tolist()
        moved = self.scene.topology.names(places)
        return f"what {', '.join(moved)} hold, from {self.runs} runs"

    @cached_property
    def promised(self) -> float:
        """Phi(sqrt(T KL / 2)), or what is proved of the law."""
        return best_chance(self.scene, self.coalition, self.shift, self.runs)

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        worlds = (self.first, self.first + self.shift)
        either = np.stack([made_up_numbers(self.scene, one) for one in worlds])[:, None]
        return np.broadcast_to(either, (2, self.runs, *either.shape[2:]))

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        honest, used = list(sight.honest), len(worlds) * self.runs
        middle = self.shift[honest] * step_of_scene(self.scene) / 2.0
        seen = sight.stripped[:, :used] - self.held[0, 0][honest, None]
        beyond = (
            attack_numbers_as_floats(self.scene, self.scene.law.wrap(seen))
            - middle[:, None]
        )
        weighed = np.einsum("hep,hp->e", beyond, self._weights[honest])
        guess = weighed.reshape(len(worlds), self.runs).sum(axis=1) > 0
        return np.asarray(guess == (worlds == 1), dtype=np.bool_)

    @cached_property
    def _weights(self) -> Float[FloatArray, "n p"]:
        """L_H^+ d / sigma^2, in each piece of G[H]."""
        topology, sigma = self.scene.topology, sigma_of_scene(self.scene)
        apart = self.shift * step_of_scene(self.scene)
        weights = np.zeros_like(apart)
        for piece in map(list, honest_pieces_of_scene(topology, self.coalition)):
            if apart[piece].any():
                unit = DegenerateGaussian(topology.induced(piece), 1.0)
                weights[piece] = unit.apply_pinv(apart[piece].T).T
        return weights if sigma is None else weights / sigma**2


def aim(
    scene: Scene,
    coalition: Sequence[str],
    *,
    runs: int = RUNS,
    pair: tuple[Shaped[Array[Any], "n p"], Shaped[Array[Any], "n p"]] | None = None,
) -> RepeatedRunsAttack | None:
    """Return the attack; None where no two honest parties share masks.

    Args:
        scene: what is promised.
        coalition: who guesses.
        runs: T.
        pair: what parties hold in either world, in whole steps. Without one, a sigma
            goes from one honest party to another, of those that are told apart best.
    """
    topology = scene.topology
    ends = honest_pair_easiest_to_attack(topology, coalition)
    if ends is None or not scene.law.hides:
        return None
    colluders = scene.colluders(coalition)
    if pair is not None:
        first, second = pair
        pieces = honest_pieces_of_scene(topology, coalition)
        if any((second - first)[list(one)].sum(axis=0).any() for one in pieces):
            raise InvalidPairError(
                "the two worlds differ in the sum of honest parties that hang together,"
                " which every view reveals: move numbers from one of these to another",
                code="sums-differ",
            )
        return RepeatedRunsAttack(scene, colluders, first, second - first, runs)
    sigma, shift = (
        sigma_of_scene(scene),
        np.zeros((topology.n_parties, scene.width), int),
    )
    gap = 1 if sigma is None else round(float(sigma[0] / step_of_scene(scene)[0]))
    shift[list(ends), 0] = gap, -gap
    return RepeatedRunsAttack(scene, colluders, made_up_holdings(scene), shift, runs)
