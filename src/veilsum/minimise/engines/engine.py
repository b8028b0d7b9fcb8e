"""Inputs and interface of all engines.

An engine carries a method's iterations out for all parties at once. It receives public
and masked numbers only. All engines arrive at the same numbers, except for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from veilsum.errors import NumericalError
from veilsum.minimise.costs.effective import ClosedForm, EffectiveCost
from veilsum.minimise.methods.base import Method, MethodState, Weighting
from veilsum.numbers.arrays import PartyPoints, Sparse

Precision: TypeAlias = Literal["float64", "float32"]
# Nobody's estimate is this far away unless steps are too long.
LOST = 1e30


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineTask:
    """A method on effective costs.

    Attributes:
        method: with its steps, rounds and domain.
        weights: n x n, for each kind of weights that the method names.
        cost: all parties' effective costs by row.
        start: x_i(0) by row.
        precision: of the numbers that parties keep and tell.
    """

    method: Method[Any]
    weights: Mapping[Weighting, Sparse]
    cost: EffectiveCost
    start: PartyPoints
    precision: Precision = "float64"


@runtime_checkable
class Engine(Protocol):
    """Executor of the iterations of one task."""

    @property
    def name(self) -> str:
        """Name of the engine in settings and reports."""
        ...

    def begin(self) -> MethodState:
        """Return all parties at the start."""
        ...

    def advance(self, state: MethodState, count: int) -> MethodState:
        """Return all parties after so many more iterations."""
        ...

    def points(self, state: MethodState) -> PartyPoints:
        """Return estimates in float64, by row."""
        ...

    def aims(self, state: MethodState) -> PartyPoints:
        """Return where parties alone would go next, in float64, by row."""
        ...


def check_bounded_iterates(farthest: float, iteration: int) -> None:
    """Refuse to go on with numbers that ran away.

    Args:
        farthest: the largest coordinate of anybody's estimate; nan counts as lost.
        iteration: after which it was looked at.
    """
    if not farthest < LOST:
        raise NumericalError(
            f"numbers ran away before iteration {iteration:,}: steps are too long, "
            "give a smaller step",
            code="steps-too-long",
        )


def closed_form_of_gradients(cost: EffectiveCost) -> ClosedForm | None:
    """Return all parties' gradients as arrays for compiled loops, or None."""
    return cost._closed_form  # noqa: SLF001 - offered to engines, not to methods
