"""Synthetic inputs of parties, and the chance of guessing them in a sound run.

Inputs are integer multiples of a public step: the rounding step of the law or, under a
law of float64, a millionth of sigma. So a share never looks like one of them, and two
worlds are as near to each other as inputs can be.

An attack that names a number is right only if all of it is right. The chance of a lucky
guess is bounded by the probability of the most likely share: `executions_per_trial`
returns the number of executions in one trial, which makes lucky guesses very rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log, log2
from typing import Any

import numpy as np

from veilsum.audit.attack import Hits, Numbers, Scene
from veilsum.graphs.connectivity import graph_components
from veilsum.graphs.topology import Topology
from veilsum.masks.fixed_point import FixedPointGrid
from veilsum.masks.laws import MaskLaw
from veilsum.numbers.arrays import Array, FloatArray
from veilsum.numbers.limbs import as_python_integers, limbs_to_integers
from veilsum.numbers.shapes import Float, Int, Shaped
from veilsum.privacy.conversions import attacker_success
from veilsum.privacy.divergence import DegenerateGaussian, kl_divergence
from veilsum.privacy.lattice import lattice_excess, lattice_success, smoothness_of_masks

# How often chance alone may name a number in one trial.
LUCK = 1e-9
# Recovered from float64 means: but for this part of it, or of sigma.
EXACT = 1e-10
# Under laws of float64 a step is sigma times 2^-20, or a little less.
FLOAT_BITS = 20

Whole = Int[Array[np.int64], "*batch p"]


def sigma_of_scene(scene: Scene) -> Float[FloatArray, " p"] | None:
    """Return the deviation of a share, as promised; None where there is none."""
    sigma = scene.law.masks.sigma
    return None if sigma is None else np.broadcast_to(sigma, (scene.width,))


def step_of_scene(scene: Scene) -> Float[FloatArray, " p"]:
    law, sigma = scene.law, sigma_of_scene(scene)
    if law.counted is not None:
        return np.array([float(unit) for unit in law.counted.units])
    if law.masks.rounding is not None:
        return np.full(scene.width, float(law.masks.rounding))
    largest = 1.0 if sigma is None else float(sigma.max())
    return np.full(scene.width, 2.0 ** (floor(log2(largest)) - FLOAT_BITS))


def made_up_numbers(scene: Scene, whole: Whole) -> Numbers:
    """Return whole numbers of steps in the law's numbers, limbs as Python integers."""
    if scene.law.exact:
        return limbs_to_integers(scene.encode(scene.law, as_python_integers(whole)))
    return scene.encode(scene.law, whole * step_of_scene(scene))


def made_up_holdings(scene: Scene, seed: int = 0) -> Whole:
    """Return small whole numbers for everybody, (n, p), no two parties alike."""
    n, p = scene.topology.n_parties, scene.width
    chosen = np.random.default_rng(seed).integers(-3, 4, size=(n, p))
    return chosen + 7 * np.arange(n)[:, None]


def attack_numbers_as_floats(scene: Scene, found: Numbers) -> FloatArray:
    """Return numbers of the law, residues with their sign, as float64."""
    law, found = scene.law, scene.law.wrap(found)
    if law.counted is None:
        return np.asarray(law.decode(found))
    # What counts is decoded to Python's own integers, a hundred times slower.
    signed = found.view(np.int64) if found.dtype == np.uint64 else found
    return signed.astype(np.float64) * step_of_scene(scene)


def attack_hits_exactly(scene: Scene, found: Numbers, truth: Numbers) -> Hits:
    """Return in which executions all numbers found are the true ones."""
    if not scene.law.exact:
        return attack_hits_nearly(scene, found, truth)
    equal = np.asarray(scene.law.wrap(found - truth) == 0, dtype=np.bool_)
    return np.asarray(equal.all(axis=-1), dtype=np.bool_)


def attack_hits_nearly(
    scene: Scene,
    found: Float[FloatArray, "*batch p"],
    truth: Float[FloatArray, "*batch p"],
) -> Hits:
    """Return the same of real numbers, which are right but for `EXACT`.

    Never by half a step: two inputs that differ would be the same then.
    """
    sigma, step = sigma_of_scene(scene), step_of_scene(scene)
    size = np.abs(truth) + (0.0 if sigma is None else sigma)
    within = np.minimum(EXACT * np.maximum(size, step), step / 4)
    equal = np.abs(found - truth) <= within
    return np.asarray(equal.all(axis=-1), dtype=np.bool_)


def most_likely_share_probability(law: MaskLaw) -> float:
    """Return a bound on how often one number of one share is a given one.

    A discrete Gaussian of S steps has none above 1 / S; a real one is met here if it is
    met but for `EXACT`, by numbers of a few sigma at most.
    """
    if not law.hides:
        return 1.0
    if law.sums_only:
        return 2.0**-64
    masks = law.masks
    if masks.grid is None:
        return 10.0 * EXACT
    least = float(np.asarray(masks.sigma).min())
    return max(
        1.0 / FixedPointGrid(masks.grid, masks.unit).deviation(least), 10.0 * EXACT
    )


def shares_never_repeat(law: MaskLaw, size: int, shares: int) -> bool:
    """Say whether chance hardly ever draws one of so many shares a second time."""
    chance = most_likely_share_probability(law) ** size
    if law.counted is not None and not law.sums_only and law.hides:
        # Coarse units leave few values.
        units = [float(unit) for unit in law.counted.units]
        sigma = np.broadcast_to(np.asarray(law.masks.sigma), size)
        chance = float(np.prod(np.minimum(1.0, np.array(units) / sigma)))
    return shares**2 * chance < LUCK


def executions_per_trial(scene: Scene, tries: int) -> int:
    """Return how many executions make a trial, so that luck is below `LUCK`."""
    chance = most_likely_share_probability(scene.law)
    if chance == 1.0:
        return 1
    return max(1, ceil(log(LUCK / tries) / (scene.width * log(chance))))


def honest_pieces_of_scene(
    topology: Topology, coalition: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Return the components of G[H], each as places in the topology."""
    colluders = topology.indices(coalition)
    honest = [i for i in range(topology.n_parties) if i not in colluders]
    pieces = graph_components(topology.induced(honest))
    return tuple(tuple(honest[i] for i in piece) for piece in pieces)


def honest_pair_easiest_to_attack(
    topology: Topology, coalition: Sequence[str]
) -> tuple[int, int] | None:
    """Return two honest parties that are the told apart best: most resistance.

    None where every honest party is alone.
    """
    piece = max(honest_pieces_of_scene(topology, coalition), key=len, default=())
    if len(piece) < 2:
        return None
    size = len(piece)
    inverse = DegenerateGaussian(topology.induced(piece), 1.0).apply_pinv(
        np.eye(size) - 1.0 / size
    )
    own = np.diag(inverse)
    first, second = divmod(int((own[:, None] + own - 2 * inverse).argmax()), size)
    return piece[first], piece[second]


def best_chance(
    scene: Scene,
    coalition: Sequence[str],
    shift: Shaped[Array[Any], "n p"],
    runs: int = 1,
) -> float:
    """Return the best guesser's chance between two worlds that a sound run allows.

    Phi(sqrt(T KL / 2)) for real shares, the proved bound for those on a lattice, and a
    coin's under `uniform`; 1 if the worlds differ in what every view reveals. Worlds
    differ by `shift` whole steps; T is `runs`, each with fresh masks.
    """
    topology, law = scene.topology, scene.law
    if not shift.any():
        return 0.5
    pieces = honest_pieces_of_scene(topology, coalition)
    outside = shift.copy()
    outside[[i for piece in pieces for i in piece]] = 0
    if not law.hides or outside.any():
        return 1.0
    if any(shift[list(piece)].sum(axis=0).any() for piece in pieces):
        return 1.0
    if law.sums_only:
        return 0.5
    moved, sigma = shift * step_of_scene(scene), sigma_of_scene(scene)
    assert sigma is not None
    told = runs * kl_divergence(
        topology, moved, np.zeros_like(moved), sigma=sigma, corrupted=coalition
    )
    masks = law.masks
    if masks.grid is None:
        return attacker_success(told)
    grid, columns = (
        FixedPointGrid(masks.grid, masks.unit),
        runs * int(shift.any(axis=0).sum()),
    )
    honest = topology.without(topology.indices(coalition))
    least = float(sigma.min())
    steps = [grid.deviation(least, weight) for weight in honest.weights.tolist()]
    told += columns * lattice_excess(honest, steps)
    return lattice_success(
        told, smooth=smoothness_of_masks(honest, steps), moved=columns
    )
