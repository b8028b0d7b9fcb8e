"""Where the rounds of a model stand: sums and public numbers, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from veilsum.models.climb import Climb
from veilsum.models.glm_fit import Outcome
from veilsum.models.glm_sums import (
    ClosingStatistics,
    FirstStatistics,
    RoundStatistics,
)


@dataclass(frozen=True)
class Opening:
    """Before the first total: nothing is known."""

    rounds: int = 0
    converged: bool = False


@dataclass(frozen=True)
class Running:
    """Both searches are under way.

    Attributes:
        rounds: totals taken in so far.
        first: the first total.
        model: the search for the coefficients.
        null: the search for the null model's intercept.
        sums: the total at `model.here`, once there is one.
    """

    rounds: int
    first: FirstStatistics
    model: Climb
    null: Climb
    sums: RoundStatistics | None = None
    converged: bool = False


@dataclass(frozen=True)
class Closing:
    """The answer is known; one more total is asked for at it.

    Attributes:
        outcome: of the rounds so far.
        dispersion: phi, with which the parties evaluate.
    """

    outcome: Outcome
    dispersion: float
    converged: bool = False

    @property
    def rounds(self) -> int:
        """Totals taken in so far."""
        return self.outcome.rounds


@dataclass(frozen=True)
class Done:
    """No round is needed any more."""

    outcome: Outcome
    closing: ClosingStatistics
    converged: bool = True

    @property
    def rounds(self) -> int:
        """Totals taken in."""
        return self.outcome.rounds


State: TypeAlias = Opening | Running | Closing | Done
