"""Generalised linear models by rounds of sums: a state machine without any rows.

    state = newton.start()
    while not state.converged:
        request = newton.propose(state)      # public: what every party evaluates
        total = ...                          # sum of statistics(family, rows, request)
        state = newton.advance(state, total)
    fit = newton.fit(state)

All that it decides, from halving a step to giving up, follows from the totals; parties
with the same totals go the same way. Steps use the observed information and so are
Newton's for every link; standard errors use the expected one, for which links that are
not canonical take a closing round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models.climb import Climb, Evaluation
from veilsum.models.family import Family
from veilsum.models.glm_fit import (
    GlmFit,
    Outcome,
    conclude,
    effective_degrees,
    estimated_dispersion,
)
from veilsum.models.glm_sums import (
    ClosingStatistics,
    FirstStatistics,
    Request,
    RoundStatistics,
)
from veilsum.models.newton_states import Closing, Done, Opening, Running, State
from veilsum.models.rows import Gram, Sums
from veilsum.models.separation import check_separation
from veilsum.models.systems import (
    System,
    check_intercept,
    check_rows,
    column_names,
    penalties,
)
from veilsum.numbers.arrays import Vector

# Residuals below 1e-8 of the response's spread are those of a perfect fit.
PERFECT = 1e-16
TINY = 1e-290


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
        _ = self.labels, self.penalty  # made now, since making them checks them

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The columns' names, or x0, x1 and so on."""
        return column_names(self.names, self.n_columns)

    @cached_property
    def penalty(self) -> Vector:
        """What each squared coefficient costs."""
        return penalties(self.ridge, n_columns=self.n_columns, intercept=self.intercept)

    def start(self) -> State:
        """Return the state before anything is known."""
        return Opening()

    def propose(self, state: State) -> Request:
        """Return what all parties evaluate next."""
        match state:
            case Opening():
                return Request("first", np.empty(0))
            case Running():
                point = np.concatenate([state.model.trial, state.null.trial])
                return Request("round", point)
            case Closing():
                answer = state.outcome.coefficients
                return Request("closing", np.append(answer, state.dispersion))
            case Done():
                raise LocalProtocolError("the fit is done: no round is left")

    def advance(self, state: State, total: Sums) -> State:
        """Return the state after one more total; raise if there is no fit."""
        if not np.isfinite(total).all():
            raise NumericalError("a total holds nan or inf: the sum went wrong")
        match state:
            case Opening():
                return self._open(FirstStatistics.unpack(total, self.n_columns))
            case Running():
                sums = RoundStatistics.unpack(total, self.n_columns)
                return self._settle(self._move(state, sums))
            case Closing():
                closing = ClosingStatistics.unpack(total, self.n_columns)
                outcome = replace(state.outcome, rounds=state.rounds + 1)
                return Done(outcome, closing)
            case Done():
                raise LocalProtocolError("the fit is done: it takes no more totals")

    def fit(self, state: State) -> GlmFit:
        """Return the fit of a state that has converged."""
        if not isinstance(state, Done):
            raise LocalProtocolError("a fit was asked for before its rounds were over")
        return conclude(
            self.family,
            state.outcome,
            state.closing,
            names=self.labels,
            penalty=self.penalty,
        )

    def _open(self, first: FirstStatistics) -> Running:
        """Return the state after the first total: two places to start from."""
        mean = first.response_sum / first.weight_sum
        self.family.check_mean(mean)
        if not self.penalty.any():
            check_rows(first.n_rows, self.n_columns)
        system = System.of(self._penalised(first.information), names=self.labels)
        usual = self.family.link(np.array([mean])) - first.offset_sum / first.weight_sum
        fallback = np.zeros(self.n_columns)
        if self.intercept is not None:
            fallback[self.intercept] = usual.item()
        model = Climb(here=fallback, trial=system.solve(first.cross))
        return Running(1, first, model, Climb(here=usual, trial=usual))

    def _move(self, state: Running, sums: RoundStatistics) -> Running:
        """Return the state after both searches took a step, or half of one back."""
        found = self._evaluation(state, sums)
        accepted = state.model.accepts(found)
        if accepted and self.family.endless:
            check_separation(
                self.family,
                state.model,
                found,
                reference=self._penalised(state.first.information),
                weight=state.first.weight_sum / state.first.n_rows,
                names=self.labels,
                intercept=self.intercept,
            )
        null = state.null.advance(_null_evaluation(state, sums), names=["intercept"])
        return replace(
            state,
            rounds=state.rounds + 1,
            model=state.model.advance(found, names=self.labels),
            null=null,
            sums=sums if accepted else state.sums,
        )

    def _settle(self, state: Running) -> State:
        """Return the state itself, or what follows where both searches are over."""
        sums = state.sums
        if sums is None or not (state.model.settled and state.null.settled):
            if state.rounds >= self.max_rounds:
                raise self._no_convergence(state)
            return state
        outcome = Outcome(
            first=state.first,
            sums=sums,
            coefficients=state.model.answer,
            null_deviance=state.null.objective,
            rounds=state.rounds,
        )
        return self._close(outcome)

    def _close(self, outcome: Outcome) -> State:
        sums, first = outcome.sums, outcome.first
        if not self.family.closes:
            return Done(outcome, ClosingStatistics(sums.information, first.saturated))
        degrees = effective_degrees(sums, self.penalty, self.labels)
        dispersion = estimated_dispersion(
            self.family, sums.pearson, first.n_rows, degrees
        )
        # A perfect fit has none, but the parties shall not divide by zero.
        return Closing(outcome, max(dispersion, TINY))

    def _evaluation(self, state: Running, sums: RoundStatistics) -> Evaluation:
        at, n_rows = state.model.trial, state.first.n_rows
        dispersion = estimated_dispersion(
            self.family, sums.pearson, n_rows, min(self.n_columns, n_rows - 1.0)
        )
        return Evaluation(
            information=self._penalised(sums.information),
            score=sums.score - self.penalty * at,
            objective=sums.deviance + float(self.penalty @ at**2),
            outside=sums.outside,
            dispersion=max(dispersion, PERFECT * sums.null_deviance / n_rows),
            noise=PERFECT * sums.null_deviance,
        )

    def _penalised(self, information: Gram) -> Gram:
        return information + np.diag(self.penalty)

    def _no_convergence(self, state: Running) -> NumericalError:
        step = state.model.trial - state.model.here
        worst = int(np.argmax(np.abs(step)))
        return NumericalError(
            f"the fit did not converge in {state.rounds} rounds: the coefficient of "
            f"{self.labels[worst]} still moves by {step[worst]:.2g} a round; scale the "
            "columns, use ridge, or allow more rounds"
        )


def _null_evaluation(state: Running, sums: RoundStatistics) -> Evaluation:
    return Evaluation(
        information=np.array([[sums.null_information]]),
        score=np.array([sums.null_score]),
        objective=sums.null_deviance,
        outside=0.0,
        dispersion=max(sums.null_deviance / state.first.n_rows, TINY),
    )
