"""The likelihood ratio: which of two inputs with the same sums was it?

Masks are noise of covariance s sigma^2 L_H around what the honest parties hold, with s
shares on a link. Two inputs are told apart best where that is least, along the
eigenvector v of mu2: the guess is the sign of v'(y - (A + B) / 2), and it is right with
probability Phi(sqrt(KL / 2)), which is what is promised at that distance.

A guesser that has `guesser_from_observations` plays the same game without believing the
promise: its covariance is that of executions which it saw before, and A and B differ
along the weakest direction of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from scipy import linalg

from veilsum.audit.attack import CoalitionSight, Hits, Numbers, Scene, Worlds
from veilsum.audit.made_up import attack_numbers_as_floats, sigma_of_scene
from veilsum.graphs.connectivity import graph_components
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.limbs import limbs_to_integers
from veilsum.numbers.shapes import Float, Shaped
from veilsum.privacy.conversions import divergence_for_success
from veilsum.privacy.guarantee import guarantee_against_coalition

# Below this part of the largest variance, a variance is rounding.
NOTHING = 1e-12
# What inputs have in common is drawn from this seed, so that nothing in them is round;
# without a range that was agreed on, they are up to 2^BASE times sigma.
BASE = 20
BITS = 60

Square = Float[FloatArray, "h h"]
Scores = Float[FloatArray, " executions"]
Places = tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodRatio:
    """A linear form in what is left of the honest parties; its sign is the guess.

    Attributes:
        form: one weight for each honest party and coefficient, of length one.
        spread: the form's standard deviation over executions, as far as believed.
    """

    scene: Scene
    attack: str
    about: str
    coalition: tuple[str, ...]
    promised: float
    held: Shaped[Array[Any], "2 1 n p"]
    form: Float[FloatArray, "h p"]
    spread: float

    @cached_property
    def inputs(self) -> Shaped[Array[Any], "2 h 1 p"]:
        """The honest parties' inputs in either world, for all executions."""
        return self.held[:, 0, self.scene.others(self.coalition), None]

    @cached_property
    def middle(self) -> float:
        """The form half way between the two worlds."""
        zero, one = self.inputs
        return float(
            (self.form * attack_numbers_as_floats(self.scene, one - zero)[:, 0]).sum()
            / 2
        )

    def scores(self, left: Numbers) -> Scores:
        """Return the form by execution, standardised; above zero is for world 1.

        Args:
            left: of each honest party, (h, executions, p): what it showed, less shares
                that the coalition knows, less what it holds in world 0.
        """
        told = np.einsum(
            "hp,hep->e", self.form, attack_numbers_as_floats(self.scene, left)
        )
        return (told - self.middle) / self.spread

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        return (self.scores(sight.stripped - self.inputs[0]) > 0) == (worlds == 1)


def is_attack_target_hidden(scene: Scene, coalition: Iterable[str]) -> bool:
    """Say whether there is something to guess: two honest parties hide each other."""
    honest = scene.topology.induced(scene.others(coalition))
    return any(len(part) > 1 for part in graph_components(honest))


def aim(
    scene: Scene, coalition: Iterable[str], distance: float
) -> LikelihoodRatio | None:
    """Return the best guesser between the two worst inputs at a distance.

    None where there is nothing to guess: no two honest parties hide each other.
    """
    honest = scene.others(coalition)
    laplacian = scene.topology.induced(honest).laplacian.toarray()
    variances = (
        scene.topology.shares_per_edge * _least_sigma_of_scene(scene) ** 2 * laplacian
    )
    return _aim_likelihood_ratio(
        scene, coalition, distance, variances, "likelihood ratio"
    )


def guesser_from_observations(
    scene: Scene, coalition: Iterable[str], distance: float, covariance: Square
) -> LikelihoodRatio | None:
    """Return a guesser that trusts what it saw instead of what is promised.

    `covariance` is of one coefficient of all honest parties, from other executions.
    """
    return _aim_likelihood_ratio(
        scene, coalition, distance, covariance, "learned likelihood ratio"
    )


def covariance_of_attacked_noise(scene: Scene, noise: Numbers) -> Square:
    """Return the second moments of what masks add, over executions and coefficients."""
    columns = _weakly_masked_attack_columns(scene)
    rows = attack_numbers_as_floats(scene, noise)[..., columns].reshape(len(noise), -1)
    return np.asarray(rows @ rows.T / rows.shape[1])


def distance_for_attack_success(
    scene: Scene, coalition: Iterable[str], success: float
) -> float:
    """Return the distance at which a coalition is promised to be right so often.

    Nearer where that is beyond the range that was agreed on. Where masks promise a
    coin's chance at every distance, as far as the range goes.
    """
    honest = scene.others(coalition)
    graph = scene.topology.induced(honest)
    reach = _reach_of_attacked_inputs(scene) / 8
    if sigma_of_scene(scene) is None:
        return reach
    least = min(
        _weakest_masked_direction(graph.induced(part).laplacian.toarray())[0]
        for part in graph_components(graph)
        if len(part) > 1
    )
    spread = sqrt(graph.shares_per_edge * least) * _least_sigma_of_scene(scene)
    return min(reach, spread * sqrt(2.0 * divergence_for_success(success)))


def attack_inputs_in_law(scene: Scene, reals: Float[FloatArray, "n p"]) -> Array[Any]:
    """Return what parties hold in the law's numbers, limbs as Python integers."""
    if (counts := scene.law.counted) is None:
        return limbs_to_integers(
            np.stack([scene.encode(scene.law, row) for row in reals])
        )
    units = counts.units
    whole = [
        [round(one / float(unit)) for one, unit in zip(row, units, strict=True)]
        for row in reals.tolist()
    ]
    rows = [scene.encode(scene.law, np.array(row, dtype=object)) for row in whole]
    return limbs_to_integers(np.stack(rows))


def _aim_likelihood_ratio(
    scene: Scene,
    coalition: Iterable[str],
    distance: float,
    variances: Square,
    attack: str,
) -> LikelihoodRatio | None:
    topology, law = scene.topology, scene.law
    coalition = topology.names(topology.indices(coalition))
    honest = scene.others(coalition)
    parts = [p for p in graph_components(topology.induced(honest)) if len(p) > 1]
    if not parts:
        return None
    # Inside one piece of G[H]: another sum of a piece would be told for certain.
    found = [
        (*_weakest_masked_direction(variances[np.ix_(part, part)]), part)
        for part in parts
    ]
    least, direction, part = min(found, key=lambda one: one[0])
    columns = _weakly_masked_attack_columns(scene)
    form = np.zeros((len(honest), scene.width))
    form[np.ix_(part, columns)] = np.outer(direction, np.ones(len(columns)))
    form /= np.linalg.norm(form)
    shift = np.zeros((topology.n_parties, scene.width))
    shift[honest] = distance * form
    place = honest[part[0]]
    held = _two_worlds_of_attack(scene, shift, place)
    really = attack_numbers_as_floats(scene, held[1] - held[0])
    promise = guarantee_against_coalition(
        topology
        if len(parts) == 1 and len(part) == len(honest)
        else topology.induced([honest[i] for i in part]),
        law.masks,
        corrupted=coalition if len(part) == len(honest) else (),
        distance=float(np.linalg.norm(really)),
    )
    least = max(
        least, NOTHING * float(np.trace(variances)), float(np.finfo(float).tiny)
    )
    return LikelihoodRatio(
        scene=scene,
        attack=attack,
        about="two inputs with the same sums",
        coalition=coalition,
        promised=1.0 if promise.attacker_success is None else promise.attacker_success,
        held=held[:, None],
        form=form,
        spread=sqrt(least),
    )


def _two_worlds_of_attack(
    scene: Scene, shift: Float[FloatArray, "n p"], place: int
) -> Shaped[Array[Any], "2 n p"]:
    """Return what parties hold with and without a shift, each column's sum the same.

    What rounding adds to a column's sum is taken from the party at `place`.
    """
    chance = np.random.default_rng(BASE)
    largest = float(np.abs(shift).max()) or 1.0
    zero = attack_inputs_in_law(scene, chance.uniform(-largest, largest, shift.shape))
    moved = attack_inputs_in_law(scene, shift)
    if scene.law.exact:
        moved[place] -= moved.sum(axis=0)
    return np.stack([zero, scene.law.wrap(zero + moved)])


def _weakest_masked_direction(
    variances: Square,
) -> tuple[float, Float[FloatArray, " h"]]:
    """Return the least variance among directions that keep the sum, and which it is."""
    keeping = linalg.null_space(np.ones((1, len(variances))))
    values, vectors = linalg.eigh(keeping.T @ variances @ keeping)
    return float(values[0]), keeping @ vectors[:, 0]


def _least_sigma_of_scene(scene: Scene) -> float:
    """Return the least sigma, which is the one that counts; 1 where there is none."""
    sigma = sigma_of_scene(scene)
    return 1.0 if sigma is None else float(sigma.min())


def _weakly_masked_attack_columns(scene: Scene) -> list[int]:
    """Return the columns whose masks are least: there the promise is attained."""
    sigma = sigma_of_scene(scene)
    if sigma is None:
        return list(range(scene.width))
    return np.flatnonzero(sigma == sigma.min()).tolist()


def _reach_of_attacked_inputs(scene: Scene) -> float:
    if (counts := scene.law.counted) is not None:
        return float(min(counts.units)) * 2.0 ** (counts.bits - 2)
    masks = scene.law.masks
    if masks.largest is not None:
        return masks.largest
    if scene.law.sums_only and masks.rounding is not None:
        # What fits into a word with everybody's.
        return 2.0**BITS * float(masks.rounding) / scene.topology.n_parties
    return 2.0**BASE * _least_sigma_of_scene(scene)
