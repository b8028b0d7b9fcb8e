"""A start or a step made from private costs: masks hide neither.

The theorem lets phase II depend on effective costs and public things only. A party that
starts where its own cost h_i = alpha . x + ||x||^2 is least shows -alpha / 2 in its
first word. One that takes a step of its own, here 1 / (1 + max |alpha|), shows it to
all who know the effective gradient, and with it how large its coefficients are.

The package starts everybody at one public point and takes one public step, so that
these attacks name nothing; the twins that must be named are `own_minimum` and
`own_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.audit.attack import Hits, Scene, Sight, Worlds
from veilsum.audit.made_up import LUCK, near, real, step_of, together
from veilsum.audit.neighbour import (
    Estimates,
    aim as aim_neighbour,
    first_round,
    first_word,
    private_numbers,
    two_worlds,
)
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.shapes import Float, Shaped

# What parties say, from their private coefficients, effective ones and a public start.
Habit = Callable[[Estimates, Estimates, Vector], Estimates]


def public_start(private: Estimates, effective: Estimates, start: Vector) -> Estimates:
    """Say first what the package's method says."""
    del private
    return first_word(start, effective)


def own_minimum(private: Estimates, effective: Estimates, start: Vector) -> Estimates:
    """Say first where the private cost is least."""
    del effective, start
    return -private / 2.0


def public_step(private: Estimates, effective: Estimates, start: Vector) -> Estimates:
    """Say after a round what the package's method says."""
    del private
    return first_round(start, effective)


def own_step(private: Estimates, effective: Estimates, start: Vector) -> Estimates:
    """Go a part of that way, the less the larger the private coefficients are."""
    part = 1.0 / (1.0 + np.abs(private).max(axis=-1, keepdims=True))
    return start + part * (first_round(start, effective) - start)


@dataclass(frozen=True, eq=False)
class PrivateStart:
    """The attack on starts in the hands of one coalition.

    Attributes:
        scene: what is promised.
        coalition: by name.
        heard: the honest parties whose first words it hears, as places.
        habit: how parties really start.
    """

    scene: Scene
    coalition: tuple[str, ...]
    heard: tuple[int, ...]
    habit: Habit = public_start

    attack = "private start"
    promised = LUCK

    @property
    def about(self) -> str:
        """Whose coefficients are named."""
        names = self.scene.topology.names(self.heard)
        return f"the coefficients of {', '.join(names)} from where they start"

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        """Different numbers in the two worlds."""
        return two_worlds(self.scene, together(self.scene, len(self.heard)))

    def play(self, sight: Sight, worlds: Worlds) -> Hits:
        """Return in which trials somebody's coefficients were named."""
        truth, _, _, heard = _heard(self, sight, worlds)
        return _some(self, sight, len(worlds), -2.0 * heard, truth)


@dataclass(frozen=True, eq=False)
class PrivateStep:
    """The attack on steps in the hands of one coalition.

    Attributes:
        scene: what is promised.
        coalition: by name.
        heard: the honest parties whose estimates it hears, as places.
        habit: what they really do.
    """

    scene: Scene
    coalition: tuple[str, ...]
    heard: tuple[int, ...]
    habit: Habit = public_step

    attack = "private step"
    promised = LUCK

    @property
    def about(self) -> str:
        """Whose largest coefficient is named."""
        names = self.scene.topology.names(self.heard)
        return f"the largest coefficient of {', '.join(names)} from a step"

    @cached_property
    def held(self) -> Shaped[Array[Any], "2 together n p"]:
        """Different numbers in the two worlds."""
        return two_worlds(self.scene, together(self.scene, len(self.heard)))

    def play(self, sight: Sight, worlds: Worlds) -> Hits:
        """Return in which trials somebody's largest coefficient was named."""
        truth, effective, start, heard = _heard(self, sight, worlds)
        whole = -(effective + 2.0 * start)
        along = ((heard - start) * whole).sum(axis=-1, keepdims=True)
        length = (whole**2).sum(axis=-1, keepdims=True)
        # A gradient of zero goes no way, whatever the step.
        taken = np.divide(along, length, out=np.ones_like(along), where=length > 0)
        # The whole step is everybody's: it names nothing, also where all is zero.
        own = np.where(np.abs(taken - 1.0) > 1e-9, 1.0 / taken - 1.0, np.nan)
        sizes = np.abs(truth).max(axis=-1, keepdims=True)
        return _some(self, sight, len(worlds), own, sizes)


def _heard(
    player: PrivateStart | PrivateStep, sight: Sight, worlds: Worlds
) -> tuple[Estimates, Estimates, Vector, Estimates]:
    """Return the truth, effective coefficients, the public start, and what was said."""
    scene, used = player.scene, len(worlds) * player.held.shape[1]
    truth = private_numbers(scene, sight, player.held[worlds])
    effective, start = real(scene, sight.effective[:, :used]), step_of(scene)
    return truth, effective, start, player.habit(truth, effective, start)


def _some(
    player: PrivateStart | PrivateStep,
    sight: Sight,
    trials: int,
    named: Float[FloatArray, "h executions k"],
    truth: Float[FloatArray, "h executions k"],
) -> Hits:
    """Return in which trials all that was named of some party was true."""
    right = np.zeros(trials, dtype=np.bool_)
    for row in (sight.honest.index(i) for i in player.heard):
        found = near(player.scene, named[row], truth[row])
        right |= found.reshape(trials, -1).all(axis=1)
    return right


def aim(
    scene: Scene,
    coalition: Sequence[str],
    *,
    habit: Habit = public_start,
) -> PrivateStart | None:
    """Return the attack on starts; None where no estimates are heard, or no masks."""
    listening = aim_neighbour(scene, coalition)
    if listening is None or not scene.law.hides:
        return None
    return PrivateStart(scene, listening.coalition, listening.heard, habit)


def aim_at_steps(
    scene: Scene,
    coalition: Sequence[str],
    *,
    habit: Habit = public_step,
) -> PrivateStep | None:
    """Return the attack on steps; None where no estimates are heard, or no masks."""
    listening = aim_neighbour(scene, coalition)
    if listening is None or not scene.law.hides:
        return None
    return PrivateStep(scene, listening.coalition, listening.heard, habit)
