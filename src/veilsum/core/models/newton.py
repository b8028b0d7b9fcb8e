"""Generalised linear models by rounds of sums: a state machine without any rows.

    state = newton.start()
    while not state.converged:
        point = newton.propose(state)        # None asks for the first statistics
        total = ...                          # the sum of all parties' statistics
        state = newton.advance(state, total)
    fit = newton.fit(state)

All that it decides, from halving a step to giving up, follows from the totals; parties
with the same totals go the same way. Fisher's information stands for the curvature, so
this is Newton's method for the canonical links and scoring for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilsum.core.arrays import FloatArray, Vector
from veilsum.core.models.climb import Climb, Evaluation
from veilsum.core.models.family import Family
from veilsum.core.models.glm import FirstStatistics, RoundStatistics
from veilsum.core.models.glm_fit import GlmFit, conclude
from veilsum.core.models.rows import Gram
from veilsum.core.models.separation import GONE, fading, refuse, runs_away
from veilsum.core.models.systems import (
    System,
    check_intercept,
    check_rows,
    column_names,
    penalties,
)
from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError

# Residuals below 1e-8 of the response's spread are those of a perfect fit.
PERFECT = 1e-16


@dataclass(frozen=True)
class State:
    """Where the rounds stand; it holds sums and public numbers only.

    Attributes:
        rounds: totals taken in so far.
        first: the first total.
        model: the search for the coefficients.
        null: the search for the null model's intercept.
        sums: the total at `model.here`.
    """

    rounds: int = 0
    first: FirstStatistics | None = None
    model: Climb | None = None
    null: Climb | None = None
    sums: RoundStatistics | None = None

    @property
    def converged(self) -> bool:
        """Whether no round is needed any more."""
        if self.model is None or self.null is None:
            return False
        return self.model.settled and self.null.settled


@dataclass(frozen=True)
class Newton:
    """What all parties agree on before the first round.

    The fit minimises deviance + sum_j ridge_j b_j^2.

    Attributes:
        family: of the response.
        n_columns: the number p of columns.
        names: of the columns, for the table and for errors.
        intercept: which column is all ones, if any.
        ridge: one number for every column but the intercept, or one for each column.
        max_rounds: totals after which the fit is given up.
    """

    family: Family
    n_columns: int
    names: Sequence[str] | None = None
    intercept: int | None = None
    ridge: float | Sequence[float] | Vector = 0.0
    max_rounds: int = 50

    def __post_init__(self) -> None:
        check_intercept(self.intercept, self.n_columns)
        if self.max_rounds < 2:
            raise InvalidInputError(
                f"a fit takes at least 2 rounds, found max_rounds {self.max_rounds}"
            )
        # Both check what they are made of.
        _ = self.labels, self.penalty

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The columns' names, or x0, x1 and so on."""
        return column_names(self.names, self.n_columns)

    @cached_property
    def penalty(self) -> Vector:
        """What each squared coefficient costs."""
        return penalties(
            self.ridge, n_columns=self.n_columns, intercept=self.intercept
        )

    def start(self) -> State:
        """Return the state before anything is known."""
        return State()

    def size(self, state: State) -> int:
        """Return the length of the next total."""
        kind = FirstStatistics if state.first is None else RoundStatistics
        return kind.size(self.n_columns)

    def propose(self, state: State) -> Vector | None:
        """Return the point to evaluate next; None asks for the first statistics."""
        if state.model is None or state.null is None:
            return None
        return np.concatenate([state.model.trial, state.null.trial])

    def advance(self, state: State, total: FloatArray) -> State:
        """Return the state after one more total; raise if there is no fit."""
        if not np.isfinite(total).all():
            raise NumericalError("a total holds nan or inf: the sum went wrong")
        after = self._open(total) if state.first is None else self._go(state, total)
        if after.rounds >= self.max_rounds and not after.converged:
            self._give_up(after)
        return after

    def fit(self, state: State) -> GlmFit:
        """Return the fit of a state that has converged."""
        if not state.converged:
            raise LocalProtocolError("a fit was asked for before its rounds were over")
        first, sums, model, null = state.first, state.sums, state.model, state.null
        assert first and sums and model and null
        ...

    def _open(self, total: FloatArray) -> State:
        """Return the state after the first total: two places to start from."""
        first = FirstStatistics.unpack(total, self.n_columns)
        mean = first.response_sum / first.weight_sum
        self.family.check_mean(mean)
        if not self.penalty.any():
            check_rows(first.n_rows, self.n_columns)
        system = System.of(self._penalised(first.information), names=self.labels)
        middle = self.family.link(np.array([mean])) - first.offset_sum / first.weight_sum
        fallback = np.zeros(self.n_columns)
        if self.intercept is not None:
            fallback[self.intercept] = middle[0]
        model = Climb(here=fallback, trial=system.solve(first.cross))
        return State(1, first, model, Climb(here=middle, trial=middle))
