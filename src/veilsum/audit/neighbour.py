"""The curious neighbour of distributed gradient descent: what its first words tell.

A party's first estimate is made from a public start and step and from its own gradient,

    x_i(1) = x(0) - grad h~_i(x(0)),

so that whoever hears it solves for the gradient, and with a public remainder for the
coefficients (Gade and Vaidya 2016). Without masks these are the private ones, in every
execution. With masks they are alpha~, which is public in the model: known shares are
taken off, and nothing more is named than by chance. The round is done by the package's
own method, on costs alpha . x + ||x||^2.

The theorem lets phase II depend on effective costs and public things only. A party that
starts where its own cost h_i = alpha . x + ||x||^2 is least shows -alpha / 2 in its
first word. One that takes a step of its own, here 1 / (1 + max |alpha|), shows it to
all who know the effective gradient, and with it how large its coefficients are. The
package starts everybody at one public point and takes one public step, so that
`PrivateStart` and `PrivateStep` name nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from veilsum.audit.attack import CoalitionSight, Hits, Scene, Worlds
from veilsum.audit.made_up import (
    LUCK,
    attack_hits_nearly,
    attack_numbers_as_floats,
    executions_per_trial,
    made_up_holdings,
    made_up_numbers,
    step_of_scene,
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
# What parties say, from their private coefficients, effective ones and a public start.
Habit = Callable[[Estimates, Estimates, Vector], Estimates]


def _begin_attacked_dgd(
    start: Vector, effective: Estimates
) -> tuple[Dgd, EffectiveCost, Any]:
    method = Dgd(Box(-REACH, REACH, dim=len(start)))
    cost = EffectiveCost(Affine(effective.shape[-1]), effective, SquaredNorm())
    return method, cost, method.begin(np.broadcast_to(start, effective.shape), cost)


def first_attacked_round(start: Vector, effective: Estimates) -> Estimates:
    method, cost, begun = _begin_attacked_dgd(start, effective)
    # Weights of a row add up to one: estimates that are alike stay so when mixed.
    return method.outgoing(method.advance(begun, method.outgoing(begun), cost))


def attacked_public_start(
    private: Estimates, effective: Estimates, start: Vector
) -> Estimates:
    del private
    method, _, begun = _begin_attacked_dgd(start, effective)
    return method.outgoing(begun)


def attacked_public_step(
    private: Estimates, effective: Estimates, start: Vector
) -> Estimates:
    """Say after a round what the package's method says."""
    del private
    return first_attacked_round(start, effective)


def attack_solves_start(start: Vector, estimates: Estimates) -> Estimates:
    """Return the coefficients that a first round was made with: the step was 1."""
    return start - estimates - 2.0 * start


@dataclass(frozen=True, eq=False)
class NeighbourAttack:
    """The attack on one round in the hands of one coalition.

    Attributes:
        coalition: by name.
        heard: honest neighbours of the coalition that share masks with honest parties,
            as places in the topology.
    """

    scene: Scene
    coalition: tuple[str, ...]
    heard: tuple[int, ...]
    habit: Habit = attacked_public_step

    attack: ClassVar[str] = "neighbour"
    words: ClassVar[str] = "the coefficients of {} from one round of dgd"

    @property
    def about(self) -> str:
        return self.words.format(", ".join(self.scene.topology.names(self.heard)))

    @property
    def promised(self) -> float:
        return LUCK if self.scene.law.hides else 1.0

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        scene, count = self.scene, executions_per_trial(self.scene, len(self.heard))
        either = np.stack(
            [made_up_numbers(scene, made_up_holdings(scene, seed)) for seed in (0, 1)]
        )
        return np.broadcast_to(either[:, None], (2, count, *either.shape[1:]))

    def play(self, sight: CoalitionSight, worlds: Worlds) -> Hits:
        scene, used = self.scene, len(worlds) * self.held.shape[1]
        held = self.held[worlds]
        rows = held.reshape(-1, *held.shape[2:])[:, list(sight.honest)]
        truth = np.moveaxis(attack_numbers_as_floats(scene, rows), 1, 0)
        effective, start = (
            attack_numbers_as_floats(scene, sight.effective[:, :used]),
            step_of_scene(scene),
        )
        told = self.habit(truth, effective, start)
        known = effective - attack_numbers_as_floats(scene, sight.stripped[:, :used])
        named, truth = self._named(told, start, effective, known, truth)
        right = np.zeros(len(worlds), dtype=np.bool_)
        for row in (sight.honest.index(i) for i in self.heard):
            found = attack_hits_nearly(scene, named[row], truth[row])
            right |= found.reshape(len(worlds), -1).all(axis=1)
        return right

    def _named(
        self,
        told: Estimates,
        start: Vector,
        effective: Estimates,
        known: Estimates,
        truth: Estimates,
    ) -> tuple[Estimates, Estimates]:
        """Return what is named of every honest party, and what would be true."""
        del effective
        return attack_solves_start(start, told) - known, truth


N = TypeVar("N", bound=NeighbourAttack)


class PrivateStart(NeighbourAttack):
    """The attack on starts: first words are taken for private minimisers."""

    attack = "private start"
    words = "the coefficients of {} from where they start"

    def _named(self, told: Estimates, *known: Any) -> tuple[Estimates, Estimates]:
        return -2.0 * told, known[-1]


class PrivateStep(NeighbourAttack):
    """The attack on steps: their length is taken for the largest coefficient."""

    attack = "private step"
    words = "the largest coefficient of {} from a step"

    def _named(
        self,
        told: Estimates,
        start: Vector,
        effective: Estimates,
        known: Estimates,
        truth: Estimates,
    ) -> tuple[Estimates, Estimates]:
        del known
        whole = -(effective + 2.0 * start)
        along = ((told - start) * whole).sum(axis=-1, keepdims=True)
        length = (whole**2).sum(axis=-1, keepdims=True)
        # A gradient of zero goes no way, whatever the step.
        taken = np.divide(along, length, out=np.ones_like(along), where=length > 0)
        # The whole step is everybody's: it names nothing, also where all is zero.
        own = np.where(np.abs(taken - 1.0) > 1e-9, 1.0 / taken - 1.0, np.nan)
        return own, np.abs(truth).max(axis=-1, keepdims=True)


def aim(scene: Scene, coalition: Sequence[str]) -> NeighbourAttack | None:
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
    return NeighbourAttack(scene, names, tuple(heard))


def aim_at_starts(
    scene: Scene, coalition: Sequence[str], *, habit: Habit = attacked_public_start
) -> PrivateStart | None:
    """Return the attack on starts; None where no estimates are heard, or no masks."""
    return _aim_neighbour_attack(PrivateStart, scene, coalition, habit)


def aim_at_steps(
    scene: Scene, coalition: Sequence[str], *, habit: Habit = attacked_public_step
) -> PrivateStep | None:
    """Return the attack on steps; None where no estimates are heard, or no masks."""
    return _aim_neighbour_attack(PrivateStep, scene, coalition, habit)


def _aim_neighbour_attack(
    attack: type[N], scene: Scene, coalition: Sequence[str], habit: Habit
) -> N | None:
    found = aim(scene, coalition) if scene.law.hides else None
    if found is None:
        return None
    return attack(scene, found.coalition, found.heard, habit)
