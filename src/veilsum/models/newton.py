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

Two searches go on at once, each a `Climb`: for the model and, with one column, for the
null model.

Separation, coefficients that would grow without end, is judged from sums as well. Where
a direction d tells all responses apart, each Newton step along d has the same length,
the information in it falls by a factor of e, and so does what is left to gain. A
coefficient that is merely large looks so at first; but with less than 1e-4 of an
observation left to gain its steps shrink, and these do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigh

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models.families import Family
from veilsum.models.glm import (
    ClosingStatistics,
    FirstStatistics,
    GlmFit,
    GlmOutcome,
    Request,
    RoundStatistics,
    conclude,
    effective_degrees,
    estimated_dispersion,
)
from veilsum.models.rows import Gram, Sums
from veilsum.models.systems import (
    System,
    check_intercept,
    check_rows,
    column_names,
    penalties,
)
from veilsum.numbers.arrays import Vector, listed

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

# Residuals below 1e-8 of the response's scatter are those of a perfect fit.
PERFECT = 1e-16
TINY = 1e-290

# Separation: information in some direction, over what the first round found there.
FADING = 1e-3
GONE = 1e-9
# What is left to gain, in observations of average weight.
LITTLE = 1e-4
# A step that is at least this much of the one before does not shrink.
STEADY = 0.9
# Columns with at least this share of the greatest part in a direction are named.
PART = 0.3


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

    outcome: GlmOutcome
    dispersion: float
    converged: bool = False

    @property
    def rounds(self) -> int:
        """Totals taken in so far."""
        return self.outcome.rounds


@dataclass(frozen=True)
class Done:
    """No round is needed any more."""

    outcome: GlmOutcome
    closing: ClosingStatistics
    converged: bool = True

    @property
    def rounds(self) -> int:
        """Totals taken in."""
        return self.outcome.rounds


State: TypeAlias = Opening | Running | Closing | Done


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

    def fading_columns(self, state: State) -> list[str]:
        """Return the columns whose coefficients seem to grow without end, if any do."""
        if not isinstance(state, Running) or state.sums is None:
            return []
        reference = self._penalised(state.first.information)
        ratio, direction = _weakest(self._penalised(state.sums.information), reference)
        return [] if ratio > FADING else self._columns(direction, reference)

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
            self._check_separation(state, found)
        null = Evaluation(
            information=np.array([[sums.null_information]]),
            score=np.array([sums.null_score]),
            objective=sums.null_deviance,
            outside=0.0,
            dispersion=max(sums.null_deviance / state.first.n_rows, TINY),
        )
        return replace(
            state,
            rounds=state.rounds + 1,
            model=state.model.advance(found, names=self.labels),
            null=state.null.advance(null, names=["intercept"]),
            sums=sums if accepted else state.sums,
        )

    def _settle(self, state: Running) -> State:
        """Return the state itself, or what follows where both searches are over."""
        first, sums = state.first, state.sums
        if sums is None or not (state.model.settled and state.null.settled):
            if state.rounds < self.max_rounds:
                return state
            step = state.model.trial - state.model.here
            worst = int(np.argmax(np.abs(step)))
            raise NumericalError(
                f"the fit did not converge in {state.rounds} rounds: the coefficient "
                f"of {self.labels[worst]} still moves by {step[worst]:.2g} a round; "
                "scale the columns, use ridge, or allow more rounds"
            )
        outcome = GlmOutcome(
            first=first,
            sums=sums,
            coefficients=state.model.answer,
            null_deviance=state.null.objective,
            rounds=state.rounds,
        )
        if not self.family.closes:
            return Done(outcome, ClosingStatistics(sums.information, first.saturated))
        degrees = effective_degrees(sums, self.penalty, self.labels)
        dispersion = estimated_dispersion(
            self.family, sums.pearson, first.n_rows, degrees
        )
        # A perfect fit has none, but the parties shall not divide by zero.
        return Closing(outcome, max(dispersion, TINY))

    def _evaluation(self, state: Running, sums: RoundStatistics) -> Evaluation:
        """Return what the model's search sees of a total."""
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

    def _check_separation(self, state: Running, found: Evaluation) -> None:
        """Refuse data in which a coefficient grows without end; the error names it."""
        # The first round's information measures directions.
        reference = self._penalised(state.first.information)
        ratio, direction = _weakest(found.information, reference)
        if ratio > FADING:
            return
        if ratio > GONE:
            before, after = state.model, state.model.advance(found, names=self.labels)
            weight = state.first.weight_sum / state.first.n_rows
            if not _runs_away(before, after, reference, weight):
                return
            direction = after.trial - after.here
        culprits = self._columns(direction, reference)
        raise InvalidInputError(
            f"the coefficient of {listed(culprits)} grows without end "
            f"({self.family.endless}), so there is no fit: leave the column out, merge "
            "categories, or use ridge"
        )

    def _columns(self, direction: Vector, reference: Gram) -> list[str]:
        """Return the columns that matter most in a direction, the greatest first."""
        # In units of what each column alone says: its information given all others.
        unit = np.sqrt(np.diag(System.of(reference, names=self.labels).inverse()))
        parts = np.abs(direction) / unit
        if self.intercept is not None and len(parts) > 1:
            # It only makes up for where the other columns have their zero.
            parts[self.intercept] = 0.0
        order = np.argsort(-parts)
        return [self.labels[k] for k in order if parts[k] >= PART * parts.max()]


def _weakest(information: Gram, reference: Gram) -> tuple[float, Vector]:
    """Return the least d'Id / d'Rd over all directions d, and that d."""
    values, vectors = eigh(information, reference, subset_by_index=[0, 0])
    return float(values[0]), vectors[:, 0]


def _runs_away(before: Climb, after: Climb, reference: Gram, weight: float) -> bool:
    """Return whether full steps stay as long as they were with nothing left to gain."""
    if before.step is None or after.step is None or before.halvings:
        return False
    was, now = (
        float(np.sqrt(step @ reference @ step)) for step in (before.step, after.step)
    )
    return now >= STEADY * was and after.size**2 < LITTLE * weight
