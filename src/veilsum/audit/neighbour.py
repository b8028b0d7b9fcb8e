"""The curious neighbour of distributed gradient descent: what one round gives away.

A party's first estimate is made from a public start and step and from its own gradient,

    x_i(1) = x(0) - grad h~_i(x(0)),

so that whoever hears it solves for the gradient, and with a public remainder for the
coefficients (Gade and Vaidya 2016). Without masks these are the private ones, in every
execution. With masks they are alpha~, which is public in the model: known shares are
taken off, and nothing more is named than by chance. The round is done by the package's
own method, on costs alpha . x + ||x||^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.audit.attack import Hits, Scene, Sight, Worlds
from veilsum.audit.made_up import (
    LUCK,
    holdings,
    near,
    numbers,
    real,
    step_of,
    together,
)
from veilsum.minimise.costs.bases import Affine
from veilsum.minimise.costs.domains import Box
from veilsum.minimise.costs.effective import EffectiveCost
from veilsum.minimise.costs.remainders import SquaredNorm
from veilsum.minimise.methods.dgd import Dgd
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.shapes import Float, Shaped

# Wide enough that nobody is held back by it, and float64 is far from its end.
REACH = 1e100

Estimates = Float[FloatArray, "h executions p"]


@dataclass(frozen=True, eq=False)
class Neighbour:
    """The attack in the hands of one coalition.

    Attributes:
        scene: what is promised.
        coalition: by name.
        heard: honest neighbours of the coalition that share masks with honest parties,
            as places in the topology.
    """

    scene: Scene
    coalition: tuple[str, ...]
    heard: tuple[int, ...]

    attack = "neighbour"

    @property
    def about(self) -> str:
        """Whose coefficients are named."""
        names = self.scene.topology.names(self.heard)
        return f"the coefficients of {', '.join(names)} from one round of dgd"

    @property
    def promised(self) -> float:
        """All, if nothing hides them."""
        return LUCK if self.scene.law.hides else 1.0

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        """Different numbers in the two worlds."""
        return two_worlds(self.scene, together(self.scene, len(self.heard)))

    def play(self, sight: Sight, worlds: Worlds) -> Hits:
        """Return in which trials somebody's coefficients were named."""
        scene, count = self.scene, self.held.shape[1]
        used = len(worlds) * count
        effective = real(scene, sight.effective[:, :used])
        start = step_of(scene)
        named = solved(start, first_round(start, effective))
        known = effective - real(scene, sight.stripped[:, :used])
        truth = private_numbers(scene, sight, self.held[worlds])
        right = np.zeros(len(worlds), dtype=np.bool_)
        for row in (sight.honest.index(i) for i in self.heard):
            found = near(scene, named[row] - known[row], truth[row])
            right |= found.reshape(len(worlds), count).all(axis=1)
        return right


def aim(scene: Scene, coalition: Sequence[str]) -> Neighbour | None:
    """Return the attack; None where no coefficients are shown, or nobody to be named.

    Under a law for sums only there are no rounds that a neighbour could hear.
    """
    topology = scene.topology
    colluders = topology.indices(coalition)
    names = topology.names(colluders)
    near_by = {topology.index(one) for who in names for one in topology.neighbours(who)}
    heard = sorted(
        i
        for i in near_by - colluders
        if not {*topology.neighbours(topology.parties[i])} <= {*names}
    )
    if scene.law.sums_only or not heard:
        return None
    return Neighbour(scene, names, tuple(heard))


def two_worlds(scene: Scene, count: int) -> Shaped[Array[Any], "2 together n p"]:
    """Return different numbers in two worlds, the same in so many executions."""
    either = np.stack([numbers(scene, holdings(scene, seed)) for seed in (0, 1)])
    return np.broadcast_to(either[:, None], (2, count, *either.shape[1:]))


def first_word(start: Vector, effective: Estimates) -> Estimates:
    """Return what everybody says first, from one public start, by `Dgd`."""
    method, cost = _method(start), _cost(effective)
    return method.outgoing(method.begin(np.broadcast_to(start, effective.shape), cost))


def first_round(start: Vector, effective: Estimates) -> Estimates:
    """Return what everybody says after one round."""
    method, cost = _method(start), _cost(effective)
    begun = method.begin(np.broadcast_to(start, effective.shape), cost)
    # Weights of a row add up to one: estimates that are alike stay so when mixed.
    return method.outgoing(method.advance(begun, method.outgoing(begun), cost))


def _method(start: Vector) -> Dgd:
    return Dgd(Box(-REACH, REACH, dim=len(start)))


def _cost(effective: Estimates) -> EffectiveCost:
    return EffectiveCost(Affine(effective.shape[-1]), effective, SquaredNorm())


def solved(start: Vector, estimates: Estimates) -> Estimates:
    """Return the coefficients that a first round was made with: the step was 1."""
    return start - estimates - 2.0 * start


def private_numbers(
    scene: Scene, sight: Sight, held: Shaped[Array[Any], "trials together n p"]
) -> Estimates:
    """Return what honest parties hold, by execution, to judge by."""
    rows = held.reshape(-1, *held.shape[2:])[:, list(sight.honest)]
    return np.moveaxis(real(scene, rows), 1, 0)
