"""Scenes that tests of attacks share: every law, on graphs of which much is known."""

from fractions import Fraction

import numpy as np

from veilsum.audit.attack import Scene, play_on_batch
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import Masks
from veilsum.numbers.units import UnitCounts

PETERSEN = Topology.family("petersen")
TRIANGLE = Topology.family("complete:3")
RING = Topology.family("ring:5")

MASKS = {
    "gaussian": Masks("gaussian", sigma=1.0),
    "lattice": Masks("lattice", sigma=1.0, grid=20),
    "coarse lattice": Masks("lattice", sigma=1.0, grid=4),
    "uniform": Masks("uniform", grid=20, largest=1e3),
}
# And residues of two words, for sums of whole numbers.
LAWS = (*MASKS, "counts")
SUMS_ONLY = ("uniform", "counts")


def scene_of(law="gaussian", topology=PETERSEN, width=3, sigma=None):
    if law == "counts":
        counts = UnitCounts((Fraction(1),) * width, 100)
        law = Masks("uniform").for_sums(topology, counts)
    else:
        masks = MASKS[law] if sigma is None else MASKS[law].altered(sigma=sigma)
        law = masks.on(topology)
    return Scene(topology=topology, law=law, width=width)


def coins(count, seed=0):
    return np.random.default_rng(seed).integers(0, 2, size=count)


def rate_of(player, executions=2000, root=7, scene=None):
    """Return how often an attack is right, perhaps in a scene it does not expect."""
    batch = (scene or player.scene).batch(root, executions)
    trials, right = play_on_batch(batch, player, coins(executions, root))
    assert trials > 0
    return right, trials
