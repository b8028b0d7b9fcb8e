"""Planted leaks: masks that come about in a wrong way, and who must find that out.

An audit that finds nothing says something only if it would have found these. Each
alters how shares are drawn, or in which numbers, and leaves what is promised as it is;
`coalition` is somebody whose sight shows it on the scene's own graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilsum.audit.attack import Drawing, Scene
from veilsum.audit.made_up import sigma_of_scene
from veilsum.graphs.connectivity import cut_parties
from veilsum.graphs.topology import Topology
from veilsum.masks.laws import GaussianMasks, MaskLaw
from veilsum.masks.masking import MaskShares
from veilsum.numbers.arrays import Array
from veilsum.numbers.limbs import (
    is_wide_integer_type,
    limbs_from_integers,
    limbs_to_integers,
)
from veilsum.numbers.shapes import Bool, Shaped

SEED_BITS = 16

Values = Shaped[Array[Any], "e arcs size"]


@dataclass(frozen=True, kw_only=True)
class PlantedLeak:
    """One leak.

    Attributes:
        found_by: the attacks that must find it, by name, in the hands of `coalition`.
        coalition: who sees it.
        fits: whether it is a leak at all in a scene.
    """

    alter: Callable[[Scene], Scene]
    found_by: tuple[str, ...]
    coalition: Callable[[Topology], tuple[str, ...]]
    fits: Callable[[Scene], bool] = lambda scene: scene.law.hides

    def __call__(self, scene: Scene) -> Scene:
        return self.alter(scene)


@dataclass(frozen=True)
class PlantedShares:
    """Shares drawn as before, and then spoilt; whole, so that workers can take it."""

    drawn: Drawing
    spoil: Callable[[Topology, Values], None]

    def __call__(
        self, topology: Topology, law: MaskLaw, root: int, size: int, epoch: int = 0
    ) -> MaskShares:
        shares = self.drawn(topology, law, root, size, epoch)
        values = limbs_to_integers(shares.values.copy())
        self.spoil(topology, values)
        if is_wide_integer_type(law.dtype):
            values = limbs_from_integers(values, law.dtype.itemsize // 8)
        return MaskShares(topology, values)


@dataclass(frozen=True)
class FewSeeds:
    """Shares drawn from one of few roots."""

    drawn: Drawing
    bits: int = SEED_BITS

    def __call__(
        self, topology: Topology, law: MaskLaw, root: int, size: int, epoch: int = 0
    ) -> MaskShares:
        return self.drawn(topology, law, root % 2**self.bits, size, epoch)


@dataclass(frozen=True)
class PlantedRepetition:
    """One execution's shares in all of them, and in all epochs."""

    drawn: Drawing
    width: int

    def __call__(
        self, topology: Topology, law: MaskLaw, root: int, size: int, epoch: int = 0
    ) -> MaskShares:
        del epoch
        drawn = self.drawn(topology, law, root, size, 0).values
        # One coefficient after the other, each of all executions.
        each = drawn.reshape(*drawn.shape[:2], self.width, -1)
        return MaskShares(
            topology, np.broadcast_to(each[..., :1], each.shape).reshape(drawn.shape)
        )


def _plant_spoilt_shares(
    spoil: Callable[[Topology, Values], None],
) -> Callable[[Scene], Scene]:
    return lambda scene: replace(scene, draw=PlantedShares(scene.draw, spoil))


def _weaken_planted_shares(topology: Topology, values: Values) -> None:
    del topology
    values[:] = values / 10.0 if values.dtype == np.float64 else values // 10


def _keep_a_star(topology: Topology, values: Values) -> None:
    values[~links_at_hub(topology).any(axis=1)] = 0


def _skip_an_edge(topology: Topology, values: Values) -> None:
    values[np.isin(topology.edges, leaf_to_attack(topology)).all(axis=1)] = 0


def _send_one_share_twice(topology: Topology, values: Values) -> None:
    ends = links_at_hub(topology)
    first, second = np.flatnonzero(ends.any(axis=1))[:2]
    # Of an undirected edge's two shares the first is what the first end sends.
    sent = ends[:, 1].astype(np.int64) * (topology.shares_per_edge - 1)
    values[second, sent[second]] = values[first, sent[first]]


def _share_with_all(topology: Topology, values: Values) -> None:
    del topology
    values[:] = values[:1]


def _plant_zero_shares(topology: Topology, values: Values) -> None:
    sender = topology.edges[0, 0]
    values[topology.edges[:, 0] == sender, 0] = 0
    if not topology.directed:
        values[topology.edges[:, 1] == sender, 1] = 0


def _plant_float_shares(scene: Scene) -> Scene:
    sigma = sigma_of_scene(scene)
    # Without a sigma: one beside which the values are small.
    law = GaussianMasks(np.asarray(1e3 if sigma is None else float(sigma.max())))
    return replace(scene, law=law)


def hub_to_attack(topology: Topology) -> int:
    return int(np.argmax(topology.degrees))


def links_at_hub(topology: Topology) -> Bool[Array[np.bool_], "e 2"]:
    return np.asarray(topology.edges == hub_to_attack(topology))


def leaf_to_attack(topology: Topology) -> tuple[int, int]:
    near = np.where(topology.degrees > 0, topology.degrees, np.inf)
    party = int(np.argmin(near))
    return party, topology.index(topology.neighbours(topology.parties[party])[0])


def bystander_of_attack(topology: Topology) -> tuple[str, ...]:
    """Return one party without which the others still hold together."""
    cuts = set(cut_parties(topology))
    beside = (i for i in range(topology.n_parties) if i not in cuts)
    return topology.names([max(beside, key=lambda i: topology.degrees[i])])


def _around_a_leaf(topology: Topology) -> tuple[str, ...]:
    party, kept = topology.names(leaf_to_attack(topology))
    return tuple(name for name in topology.neighbours(party) if name != kept)


def _all_but_two(topology: Topology) -> tuple[str, ...]:
    kept = set(topology.edges[0].tolist())
    return topology.names(i for i in range(topology.n_parties) if i not in kept)


PLANTED: dict[str, PlantedLeak] = {
    "a tenth of sigma": PlantedLeak(
        alter=_plant_spoilt_shares(_weaken_planted_shares),
        found_by=("repeated runs", "weak randomness"),
        coalition=bystander_of_attack,
        fits=lambda scene: sigma_of_scene(scene) is not None,
    ),
    "a star only": PlantedLeak(
        alter=_plant_spoilt_shares(_keep_a_star),
        found_by=("hidden cut",),
        coalition=lambda topology: topology.names([hub_to_attack(topology)]),
        fits=lambda scene: (
            scene.law.hides and not links_at_hub(scene.topology).any(axis=1).all()
        ),
    ),
    "one share sent twice": PlantedLeak(
        alter=_plant_spoilt_shares(_send_one_share_twice),
        found_by=("weak randomness",),
        coalition=lambda topology: topology.names([hub_to_attack(topology)]),
        fits=lambda scene: (
            scene.law.hides and int(links_at_hub(scene.topology).sum()) > 1
        ),
    ),
    "one share for all edges": PlantedLeak(
        alter=_plant_spoilt_shares(_share_with_all),
        found_by=("reused masks",),
        coalition=bystander_of_attack,
    ),
    "one edge skipped": PlantedLeak(
        alter=_plant_spoilt_shares(_skip_an_edge),
        found_by=("hidden cut",),
        coalition=_around_a_leaf,
    ),
    "masks used again": PlantedLeak(
        alter=lambda scene: replace(
            scene, draw=PlantedRepetition(scene.draw, scene.width)
        ),
        found_by=("reused masks", "weak randomness"),
        coalition=bystander_of_attack,
    ),
    "a seed of 16 bits": PlantedLeak(
        alter=lambda scene: replace(scene, draw=FewSeeds(scene.draw)),
        found_by=("few seeds",),
        coalition=bystander_of_attack,
    ),
    "floats": PlantedLeak(
        alter=_plant_float_shares,
        found_by=("float bits",),
        coalition=_all_but_two,
        fits=lambda scene: scene.law.hides and scene.law.exact,
    ),
    "a party that sends zeros": PlantedLeak(
        alter=_plant_spoilt_shares(_plant_zero_shares),
        found_by=("weak randomness",),
        coalition=lambda topology: topology.names([int(topology.edges[0, 1])]),
    ),
}
