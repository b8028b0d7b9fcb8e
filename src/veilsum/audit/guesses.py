"""Guesses of what a party holds, beside those of somebody who knows the sum only.

Parties hold independent normal numbers of deviation tau. A coalition that strips known
shares sees y = alpha + u on G[H], u of covariance K = s sigma^2 L_H / T after T runs:

    most likely   alpha^ = y                      errors of covariance K
    posterior     alpha^ = tau^2 (tau^2 + K)^-1 y   tau^2 - tau^4 (tau^2 + K)^-1
    sum only      alpha^ = the mean of y            tau^2 (1 - 1/h)

each within a component of G[H] of h parties. The posterior's is the least error that
anybody has, and how often a guess is right within a tolerance follows from the normal
law. Of `uniform` masks the sum is all that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, sqrt

import numpy as np

from veilsum.audit.attack import Outcome, Scene
from veilsum.audit.made_up import (
    attack_numbers_as_floats,
    honest_pieces_of_scene,
    made_up_numbers,
    sigma_of_scene,
    step_of_scene,
)
from veilsum.numbers.arrays import FloatArray, Vector
from veilsum.numbers.shapes import Float

# Of tau: what is called right.
TOLERANCE = 0.5
# Without a sigma tau is so many steps.
FEW_STEPS = 1024

# By name; of the posterior the chance is the highest there is.
Matrices = dict[str, Float[FloatArray, "h h"]]
Deviations = dict[str, Vector]


@dataclass(frozen=True, eq=False)
class LinearGuessAttack:
    """Linear guesses of one coalition.

    Attributes:
        coalition: by name.
        runs: T, of the same numbers under fresh masks.
        matrices: from what is left of honest parties to a guess.
        deviations: of each guess's error at each of them, as predicted.
    """

    scene: Scene
    coalition: tuple[str, ...]
    tau: float
    runs: int
    matrices: Matrices
    deviations: Deviations

    def errors(
        self, *, seed: int, trials: int
    ) -> dict[str, Float[FloatArray, "h trials p"]]:
        """Return how far every guess is from what parties hold."""
        scene, runs = self.scene, self.runs
        shape = (trials, scene.topology.n_parties, scene.width)
        drawn = self.tau * np.random.default_rng(seed).standard_normal(shape)
        whole = np.rint(drawn / step_of_scene(scene)).astype(np.int64)
        held = made_up_numbers(scene, whole)
        sight = scene.batch(seed, trials * runs).sight(
            self.coalition, np.repeat(held, runs, axis=0)
        )
        honest, left = list(sight.honest), sight.stripped.copy()
        truth = np.moveaxis(whole * step_of_scene(scene), 1, 0)[honest]
        if scene.law.sums_only:
            # By itself no residue means anything: a piece's sum, and zeros beside it.
            means = self.matrices["sum only"]
            for some in sorted({tuple(np.flatnonzero(one).tolist()) for one in means}):
                rows = list(some)
                left[rows[0]] = scene.law.wrap(left[rows].sum(axis=0))
                left[rows[1:]] = 0
        seen = (
            attack_numbers_as_floats(scene, left)
            .reshape(len(honest), trials, runs, -1)
            .mean(axis=2)
        )
        return {
            name: np.einsum("gh,htp->gtp", matrix, seen) - truth
            for name, matrix in self.matrices.items()
        }

    def play(self, *, seed: int, trials: int) -> tuple[Outcome, ...]:
        """Return how often each guess is right within a part of tau.

        It is about the first number of the party whose guess is the best.
        """
        found, wide = self.errors(seed=seed, trials=trials), TOLERANCE * self.tau
        pieces = honest_pieces_of_scene(self.scene.topology, self.coalition)
        honest = sorted(i for piece in pieces for i in piece)
        outcomes = []
        for name, spread in self.deviations.items():
            best = int(np.argmin(spread))
            right = np.abs(found[name][best, :, 0]) <= wide
            deviation = float(spread[best])
            party = self.scene.topology.parties[honest[best]]
            outcomes.append(
                Outcome(
                    attack=name,
                    coalition=self.coalition,
                    about=f"what {party} holds, within {TOLERANCE:g} of its deviation",
                    trials=trials,
                    successes=int(np.count_nonzero(right)),
                    promised=erf(wide / (sqrt(2.0) * deviation)) if deviation else 1.0,
                )
            )
        return tuple(outcomes)


def aim(
    scene: Scene, coalition: Sequence[str], *, tau: float | None = None, runs: int = 1
) -> LinearGuessAttack | None:
    """Return the guesses; None if nobody is honest. `tau` is sigma if not given."""
    topology, sigma = scene.topology, sigma_of_scene(scene)
    colluders = topology.indices(coalition)
    pieces = honest_pieces_of_scene(topology, coalition)
    if not pieces:
        return None
    step = float(step_of_scene(scene)[0])
    if tau is None:
        tau = FEW_STEPS * step if sigma is None else float(sigma[0])
    graph = topology.without(colluders)
    size, mean = graph.n_parties, _guessed_piece_means(pieces)
    only = tau * np.sqrt(1.0 - np.diag(mean))
    matrices, deviations = {"sum only": mean}, {"sum only": only}
    if not scene.law.sums_only:
        noise = 0.0 if sigma is None else float(sigma[0])
        spread = graph.shares_per_edge * noise**2 * graph.laplacian.toarray() / runs
        shrunk = tau**2 * np.linalg.inv(tau**2 * np.eye(size) + spread)
        left = tau**2 * np.maximum(1.0 - np.diag(shrunk), 0.0)
        matrices |= {"most likely": np.eye(size), "posterior": shrunk}
        deviations |= {
            "most likely": np.sqrt(np.diag(spread)),
            "posterior": np.sqrt(left),
        }
    return LinearGuessAttack(
        scene, topology.names(colluders), tau, runs, matrices, deviations
    )


def _guessed_piece_means(pieces: Sequence[Sequence[int]]) -> Float[FloatArray, "h h"]:
    """Return what takes means over pieces, by place among honest parties."""
    places = {i: k for k, i in enumerate(sorted(i for one in pieces for i in one))}
    mean = np.zeros((len(places), len(places)))
    for piece in pieces:
        rows = [places[i] for i in piece]
        mean[np.ix_(rows, rows)] = 1.0 / len(piece)
    return mean


def play(
    scene: Scene, coalition: Sequence[str], *, seed: int, trials: int
) -> tuple[Outcome, ...]:
    """Play all guesses of a coalition; none if nobody is honest."""
    guesses = aim(scene, coalition)
    return () if guesses is None else guesses.play(seed=seed, trials=trials)
