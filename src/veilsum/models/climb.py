"""Newton's method with step-halving on a deviance, one evaluation after the other.

It knows no rows: somebody evaluates the trial point and hands in what came out. The
same code climbs for the model and, with one column, for the null model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from veilsum.errors import NumericalError
from veilsum.models.rows import Gram
from veilsum.models.systems import System
from veilsum.numbers.arrays import Vector

# The next step, in standard errors, at which standard errors have nine digits.
SMALL = 1e-9
# What the step after that would be; it is known from how fast steps shrink.
SMALLER = 1e-12
# Small steps that shrink no more are rounding; so is what is lost beside a coefficient.
ROUNDING = 1e-6
LOST = 1e-13
# Sums of a deviance are right to this much of it, so less is no rise.
NO_RISE = 1e-10

MAX_HALVINGS = 25


@dataclass(frozen=True)
class Evaluation:
    """What the rows add up to at the trial point, penalties included.

    Attributes:
        information: A, positive definite.
        score: the uphill direction; the Newton step is A^-1 score.
        objective: the penalised deviance, to be made small.
        outside: rows at which the model has no mean.
        dispersion: the unit of the objective.
        noise: a change of the objective that means nothing.
    """

    information: Gram
    score: Vector
    objective: float
    outside: float
    dispersion: float
    noise: float = 0.0


@dataclass(frozen=True)
class Climb:
    """Where the search is and where it looks next.

    Attributes:
        here: the last point that was accepted; at first one to fall back on.
        trial: the point to be evaluated next.
        objective: at `here`.
        step: from `here` to the first trial after it.
        size: of that step in standard errors, Newton's decrement.
        size_before: of the step that led to `here`.
        relative: the step's length over that of `here`, columns scaled.
        halvings: how often the trial was moved back since `here`.
    """

    here: Vector
    trial: Vector
    objective: float = np.inf
    step: Vector | None = None
    size: float = np.inf
    size_before: float = np.inf
    relative: float = np.inf
    halvings: int = 0

    @property
    def settled(self) -> bool:
        """Whether one more step, which needs no evaluation, leaves nothing to gain."""
        if self.step is None or self.halvings:
            return False
        shrinking = self.size / self.size_before if self.size_before > 0.0 else 1.0
        fine = self.size <= SMALL and self.size * min(1.0, shrinking) <= SMALLER
        floor = self.size <= ROUNDING and shrinking >= 0.9
        return fine or floor or self.relative <= LOST

    @property
    def answer(self) -> Vector:
        """The coefficients, the last step included."""
        return self.here if self.step is None else self.here + self.step

    def accepts(self, found: Evaluation) -> bool:
        """Return whether the trial point is no worse than `here`."""
        noise = NO_RISE * abs(found.objective) + found.noise
        return found.outside < 0.5 and found.objective <= self.objective + noise

    def advance(self, found: Evaluation, *, names: Sequence[str]) -> Climb:
        """Return the climb after the trial point was evaluated."""
        if self.accepts(found):
            return self._accept(found, names)
        return self._halve(outside=found.outside)

    def _halve(self, *, outside: float) -> Climb:
        if self.halvings >= MAX_HALVINGS:
            reason = (
                f"{outside:.0f} rows have no fitted mean that the family allows"
                if outside > 0.5
                else "no step lowers the deviance"
            )
            raise NumericalError(
                f"the fit did not converge: {reason}, even after {MAX_HALVINGS} "
                "halvings; try another family, fewer columns or ridge"
            )
        middle = (self.here + self.trial) / 2.0
        return replace(self, trial=middle, halvings=self.halvings + 1)

    def _accept(self, found: Evaluation, names: Sequence[str]) -> Climb:
        system = System.of(found.information, names=names)
        step = system.solve(found.score)
        gain = max(0.0, float(found.score @ step)) / found.dispersion
        moved, length = (
            float(np.linalg.norm(along / system.scale)) for along in (step, self.trial)
        )
        return Climb(
            here=self.trial,
            trial=self.trial + step,
            objective=found.objective,
            step=step,
            size=float(np.sqrt(gain)),
            size_before=self.size,
            relative=moved / max(length, 1e-300),
        )
