"""Generalised linear models by rounds of sums: a state machine without any rows.

    state = newton.start()
    while not state.converged:
        request = newton.propose(state)      # public: what every party evaluates
        total = ...                          # sum of statistics(scales, rows, request)
        state = newton.advance(state, total)
    fit = newton.fit(state)

All that it decides, from halving a step to giving up, follows from the totals. These
are whole numbers, and what is made of them is exact or rounded once, by operations that
are the same on every machine: parties with the same totals go the same way, to the last
bit. Steps use the observed information and so are Newton's for every link; standard
errors use the expected one, for which links that are not canonical take a closing
round.

Two searches go on at once, each a `NewtonClimb`: for the model and, with one column,
for the null model.

Separation, coefficients that would grow without end, is judged from sums as well, in
three ways.

The first sum proves it where all responses beyond an end of a column's range are alike:
the sum of (x - least) y is 0 if no row above the least x has an event.

Where a direction tells responses 0 and 1 apart, Newton's steps raise coefficients by a
half, and the information falls by a third each time, to rest on the few rows next to
the border. These rows are open: a probability of p leaves 4 p (1 - p) of a row open. A
search ends before a round at which fewer than `LEAST_OPEN` rows would be open, by how
the information fell last, and if that is little beside the rarer of both responses. A
fit whose answer would leave so few rows open ends as well: its sums would be about
these.

In all other cases each step along such a direction has in the end the same length, the
information in it falls by a factor of e, and so does what is left to gain. A
coefficient that is merely large looks so at first; but with less than 1e-4 of an
observation left to gain its steps shrink, and these do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import fsum, inf, sqrt
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from flint import arb, arb_mat

from veilsum.errors import InvalidInputError, LocalProtocolError, NumericalError
from veilsum.models.families import Binomial, Family
from veilsum.models.fineness import FULL_DIGITS, MOST_DIGITS, Fineness
from veilsum.models.glm import (
    ClosingStatistics,
    FirstStatistics,
    GlmFit,
    GlmOutcome,
    GlmOutsideRows,
    GlmRequest,
    GlmScales,
    ResponseStatistics,
    RoundStatistics,
    estimated_dispersion,
    glm_fit_from_outcome,
    glm_statistics,
)
from veilsum.models.plausible import negative_pivot_of_products
from veilsum.models.round_planner import (
    BLURRED,
    NEAR,
    KnownInformation,
    KnownTotals,
    RoundPlanner,
    improved_model_information,
)
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.systems import (
    InformationSystem,
    check_model_intercept,
    check_model_rows,
    model_column_names,
    nearest_float_solution,
    ridge_penalties_of_model,
)
from veilsum.numbers.arrays import FloatArray, Vector, listed_names
from veilsum.numbers.elementary import exp
from veilsum.numbers.units import Integers

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
# Where weights are in proportion to exp(predictor), a long step puts most of the weight
# on the outermost rows: 49 % on one row of a real table, and 5 % at its answer. A step
# that moves the predictors of two rows further apart, by agreed ranges, is halved: the
# first at most so many times, the next once less, and so on, since agreed ranges may be
# far wider than tables. Weights on the way are then about as even as at the answer.
LONGEST_STEP, STEP_HALVINGS = 4.0, 3

# Residuals below 1e-8 of the response's scatter are those of a perfect fit.
PERFECT = 1e-16
TINY = 1e-290

# A change of the means that may be rounding improves no information. Rounding is far
# less than it may be, where rows are not alike.
KNOWN = 0.125
# An information that rounding hides is asked for again, finer, so many times. Otherwise
# a party that lies has the others' rows summed as finely as it likes.
MOST_COARSE = 2

# Separation: rows that are open, and the information for each of the rarer responses.
LEAST_OPEN = 18.0
OPEN_SHARE = 0.2
# A step that makes coefficients larger by at least this much of them is lengthened.
GROWING = 0.2
# Steps are not expected to shrink by more than this.
LEAST_SHRINKING = 0.05
# With the expected information the next step may be so many times what is foreseen.
FORESEEN = 4.0
# Information in some direction, over what the first round found there.
FADING = 1e-3
GONE = 1e-9
# What is left to gain, in observations of average weight.
LITTLE = 1e-4
# A step that is at least this much of the one before does not shrink.
STEADY = 0.25
# Columns with at least this share of the greatest part in a direction are named.
PART = 0.3

POWER_STEPS = 12


@dataclass(frozen=True)
class NewtonEvaluation:
    """Totals at the trial point, penalties included.

    Attributes:
        system: the information A, for coefficients divided by 2^s.
        powers: s of each coefficient.
        score: the uphill direction; the Newton step is A^-1 score.
        objective: the penalised deviance, to be minimised.
        dispersion: the unit of the objective.
        noise: a negligible change of the objective.
    """

    system: InformationSystem
    powers: tuple[int, ...]
    score: tuple[Fraction, ...]
    objective: Fraction
    dispersion: float
    noise: float = 0.0

    def step(self) -> Vector:
        """Return Newton's step, each number rounded once."""
        scaled = [
            one * Fraction(2) ** s
            for one, s in zip(self.score, self.powers, strict=True)
        ]
        return np.asarray(np.ldexp(self.system.solve(scaled), np.array(self.powers)))

    def gain(self, step: Vector) -> Fraction:
        """Return score times step: twice what the step gains, as far as it is known."""
        parts = zip(self.score, step.tolist(), strict=True)
        return sum((one * Fraction(by) for one, by in parts), Fraction(0))

    def length(self, along: Vector) -> float:
        """Return the length of coefficients, columns scaled."""
        sizes = zip(self.system.diagonal(), along.tolist(), self.powers, strict=True)
        squares = (
            size * (Fraction(one) / Fraction(2) ** s) ** 2 for size, one, s in sizes
        )
        return sqrt(float(sum(squares, Fraction(0))))


@runtime_checkable
class NewtonEvaluated(Protocol):
    @property
    def objective(self) -> Fraction: ...
    @property
    def dispersion(self) -> float: ...
    @property
    def noise(self) -> float: ...
    def step(self) -> Vector: ...
    def gain(self, step: Vector) -> Fraction: ...
    def length(self, along: Vector) -> float: ...


@dataclass(frozen=True)
class NewtonClimb:
    """Where the search is and where it looks next.

    Attributes:
        here: the last point that was accepted; at first one to fall back on.
        trial: the point to be evaluated next.
        objective: at `here`; None before any point was accepted.
        step: from `here` to the first trial after it.
        size: of that step in standard errors, Newton's decrement.
        size_before: of the step that led to `here`.
        relative: the step's length over that of `here`, columns scaled.
        halvings: how often the trial was moved back since `here`.
        lengthened: the first trial after `here` over that of Newton's step.
    """

    here: Vector
    trial: Vector
    objective: Fraction | None = None
    step: Vector | None = None
    size: float = inf
    size_before: float = inf
    relative: float = inf
    halvings: int = 0
    lengthened: float = 1.0

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
        return self.here if self.step is None else self.here + self.step

    @property
    def exact_answer(self) -> list[Fraction]:
        step = np.zeros(len(self.here)) if self.step is None else self.step
        pairs = zip(self.here.tolist(), step.tolist(), strict=True)
        return [Fraction(one) + Fraction(by) for one, by in pairs]

    def accepts(self, found: NewtonEvaluated) -> bool:
        if self.objective is None:
            return True
        noise = Fraction(NO_RISE) * abs(found.objective) + Fraction(found.noise)
        return found.objective <= self.objective + noise

    def advance(self, found: NewtonEvaluated) -> NewtonClimb:
        if not self.accepts(found):
            return self.halve("no step lowers the deviance")
        step = found.step()
        gain = max(0.0, float(found.gain(step))) / found.dispersion
        return NewtonClimb(
            here=self.trial,
            trial=self.trial + step,
            objective=found.objective,
            step=step,
            size=sqrt(gain),
            size_before=self.size,
            relative=found.length(step) / max(found.length(self.trial), 1e-300),
        )

    def halve(self, reason: str) -> NewtonClimb:
        """Return the climb with its trial moved half way back."""
        if self.halvings >= MAX_HALVINGS:
            raise NumericalError(
                f"the fit did not converge: {reason}, even after {MAX_HALVINGS} "
                "halvings; try another family, fewer columns or ridge",
                code="not-converged",
            )
        middle = (self.here + self.trial) / 2.0
        return replace(self, trial=middle, halvings=self.halvings + 1)

    def shorten(self, measures: RowMeasures, rounds: int) -> NewtonClimb:
        """Return the climb without a step that is too long for weights like exp."""
        climb = self
        while (
            not climb.settled
            and climb.halvings <= STEP_HALVINGS - rounds
            and measures.apart(climb.trial - climb.here) > LONGEST_STEP
        ):
            climb = climb.halve("steps are too long")
        return climb


@dataclass(frozen=True)
class NewtonOpening:
    """Before the first total: nothing is known."""

    rounds: int = 0
    converged: bool = False


@dataclass(frozen=True)
class NewtonRunning:
    """Both searches are under way.

    Attributes:
        rounds: totals taken in so far; those that ask for rows outside are not counted.
        sums: the total at `model.here`, once there is one.
        anchor: the last point that was asked for and had no row outside, if any.
        course: of a search whose rounds have a fineness.
    """

    rounds: int
    first: FirstStatistics
    model: NewtonClimb
    null: NewtonClimb
    sums: RoundStatistics | None = None
    anchor: Vector | None = None
    converged: bool = False
    course: NewtonCourse | None = None


@dataclass(frozen=True, eq=False)
class NewtonCourse:
    """Course of a search that starts at the null model.

    Attributes:
        planner: chooses units and windows.
        origin: coefficients of the null model, where its information is known.
        known: totals from which the next ones are predicted.
        information: the last information that was summed, if any.
        matrix: the information used for steps.
        blurred: number of consecutive informations that were too coarse.
        coarse: number of informations that were too coarse, in all.
        score: the uphill direction at the current point, penalties included.
        slack: largest error of each part of the score.
        fineness: units and residues of the next round.
        judged: whether the information at `NewtonRunning.sums` was summed, not guessed.
        last: whether the totals at `known.point` are fine enough for the answer.
    """

    planner: RoundPlanner
    origin: Vector | None = None
    known: KnownTotals | None = None
    information: KnownInformation | None = None
    matrix: Integers | None = None
    blurred: int = 0
    coarse: int = 0
    score: tuple[Fraction, ...] | None = None
    slack: tuple[float, ...] = ()
    fineness: Fineness | None = None
    judged: bool = False
    last: bool = False

    @property
    def is_fresh(self) -> bool:
        """Whether the last information is that of the last point."""
        return (
            self.information is not None
            and self.known is not None
            and bool((self.information.point == self.known.point).all())
        )


@dataclass(frozen=True)
class NewtonClosing:
    """The answer is known; one more total is asked for at it.

    Attributes:
        point: the coefficients, and the dispersion with which the parties evaluate; for
            Pearson's sum the point of the last round.
    """

    outcome: GlmOutcome
    point: Vector
    stage: Literal["pearson", "closing"] = "closing"
    anchor: Vector | None = None
    converged: bool = False

    @property
    def rounds(self) -> int:
        return self.outcome.rounds


@dataclass(frozen=True)
class NewtonDone:
    outcome: GlmOutcome
    closing: ClosingStatistics
    converged: bool = True

    @property
    def rounds(self) -> int:
        return self.outcome.rounds


State: TypeAlias = NewtonOpening | NewtonRunning | NewtonClosing | NewtonDone


@dataclass(frozen=True)
class Newton:
    """Public terms of a fit by Newton's method, fixed before the first round."""

    family: Family
    measures: RowMeasures
    names: Sequence[str] | None = None
    intercept: int | None = None
    ridge: float | Sequence[float] | Vector = 0.0
    max_rounds: int = 50
    digits: int = MOST_DIGITS

    def __post_init__(self) -> None:
        check_model_intercept(self.intercept, self.n_columns)
        if self.max_rounds < 2:
            raise InvalidInputError(
                f"a fit takes at least 2 rounds, found max_rounds {self.max_rounds}",
                code="too-few-rounds",
            )
        _ = self.labels, self.scales.counts  # made now, since making them checks them
        if self.intercept is not None and self.penalty[self.intercept]:
            raise InvalidInputError(
                "columns are centred, so a ridge on the intercept would say nothing "
                "about it: leave it free",
                code="ridge-on-intercept",
            )

    @property
    def n_columns(self) -> int:
        return len(self.measures.design)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return model_column_names(self.names, self.n_columns)

    @cached_property
    def penalty(self) -> tuple[Fraction, ...]:
        found = ridge_penalties_of_model(
            self.ridge, n_columns=self.n_columns, intercept=self.intercept
        )
        return tuple(Fraction(one) for one in found.tolist())

    @cached_property
    def scales(self) -> GlmScales:
        return GlmScales.of(self.family, self.measures, self.intercept, self.digits)

    def statistics(self, rows: Rows, request: GlmRequest) -> Integers:
        return glm_statistics(self.scales, rows, request)

    def real_point(self, request: GlmRequest) -> Vector:
        point = request.point
        if not len(point):
            return point
        return np.append(self.scales.real(point[:-1]), point[-1])

    def start(self) -> State:
        return NewtonOpening()

    def propose(self, state: State) -> GlmRequest:
        match state:
            case NewtonOpening():
                return GlmRequest("first", np.empty(0))
            case NewtonRunning():
                point = np.concatenate([state.model.trial, state.null.trial])
                inside = self.scales.surely_inside(point, state.anchor)
                if not inside or state.course is None:
                    return GlmRequest("round" if inside else "outside", point)
                fineness = state.course.fineness
                assert fineness is not None
                return GlmRequest(fineness.stage, point, fineness)
            case NewtonClosing():
                return GlmRequest(state.stage, state.point)
            case NewtonDone():
                raise LocalProtocolError(
                    "the fit is done: no round is left", code="fit-already-done"
                )

    def advance(self, state: State, total: Integers) -> State:
        match state:
            case NewtonOpening():
                opened = self._open(self.scales.first(total))
                return self._planned(self._shorten(opened))
            case NewtonRunning():
                request = self.propose(state)
                if request.stage == "outside":
                    return self._planned(
                        state_after_outside_asked(
                            state, request.point, self.scales.outside(total)
                        )
                    )
                if request.fineness is None:
                    moved = self._move(state, self.scales.round(total))
                else:
                    moved = self._move_by_means(state, request, total)
                return self._settle(self._shorten(moved))
            case NewtonClosing(stage="pearson"):
                sums = replace(state.outcome.sums, pearson=self.scales.pearson(total))
                outcome = replace(state.outcome, sums=sums, rounds=state.rounds + 1)
                return self._close(outcome, state.point, state.anchor)
            case NewtonClosing():
                outcome = replace(state.outcome, rounds=state.rounds + 1)
                closing, n_rows = self.scales.closing(total), outcome.first.n_rows
                if self.scales.has_fineness:  # it is known already
                    known = outcome.sums.information
                    return NewtonDone(outcome, replace(closing, information=known))
                self.scales.check_information(closing.information, n_rows, self.labels)
                return NewtonDone(outcome, closing)
            case NewtonDone():
                raise LocalProtocolError(
                    "the fit is done: it takes no more totals", code="fit-already-done"
                )

    def fit(self, state: State) -> GlmFit:
        if not isinstance(state, NewtonDone):
            raise LocalProtocolError(
                "a fit was asked for before its rounds were over", code="fit-not-done"
            )
        return glm_fit_from_outcome(
            self.scales,
            state.outcome,
            state.closing,
            names=self.labels,
            penalty=self.penalty,
        )

    def bread(self, state: State) -> Callable[[], arb_mat]:
        """Return the inverse of the expected information in balls, once it is known."""
        if not isinstance(state, NewtonDone):
            raise LocalProtocolError(
                "errors were asked for before a fit was there", code="fit-not-done"
            )
        system = self._system(state.closing.information)
        return lambda: self.scales.real_balls(system)

    def fading_columns(self, state: State, most: float = FADING) -> list[str]:
        """Return the columns whose coefficients seem to grow without end, if any do.

        Args:
            state: of a search.
            most: the part of the first information in that direction that is left.
        """
        if not isinstance(state, NewtonRunning) or state.sums is None:
            return []
        reference = self._reference(state.first, state.null.here)
        now = self._system(state.sums.information)
        ratio, direction = weakest_model_information(now, reference)
        return [] if ratio > most else self._columns(direction, reference)

    def _system(self, information: Integers) -> InformationSystem:
        return self.scales.system(information, self.penalty, self.labels)

    def _positive_system(self, information: Integers) -> InformationSystem | None:
        """Return the system of rounded information, unless it has lost a direction."""
        try:
            system = self._system(information)
        except InvalidInputError:
            return None
        # With a ridge: without one, rounding decides the signs of what is 0.
        lines = [[int(one) for one in line] for line in system.matrix.tolist()]
        return system if negative_pivot_of_products(lines) is None else None

    def _open(self, first: FirstStatistics) -> NewtonRunning:
        if first.weight_sum <= 0:
            raise NumericalError(
                "a total holds no weights at all: the sum went wrong",
                code="impossible-total",
            )
        self.scales.check_first(first, self.labels)
        mean = float(first.response_sum / first.weight_sum)
        self.family.check_mean(mean)
        if not any(self.penalty):
            check_model_rows(float(first.n_rows), self.n_columns)
            self._check_ends(first)
        system = self._system(first.information)
        self.scales.check_independent(system, float(first.n_rows))
        usual = self.family.link(np.array([mean])) - float(
            first.offset_sum / first.weight_sum
        )
        fallback = np.zeros(self.n_columns)
        if self.intercept is not None:
            fallback[self.intercept] = usual.item()
        if isinstance(first, ResponseStatistics):
            return self._open_at_means(first, fallback, usual)
        start = NewtonEvaluation(
            system, self.scales.columns, first.cross, Fraction(0), 1.0
        )
        model = NewtonClimb(here=fallback, trial=start.step())
        return NewtonRunning(1, first, model, NewtonClimb(here=usual, trial=usual))

    def _check_ends(self, first: FirstStatistics) -> None:
        """Refuse a column with events, or rows without one, at one end of it only."""
        place = self.intercept
        known_columns = isinstance(first, ResponseStatistics)
        if place is None or not (known_columns and self.family.endless):
            return
        powers, design = self.scales.columns, self.scales.measures.design
        sides = [(first.cross, first.cross[place])]
        unit = Fraction(4) ** powers[place]
        known = first.information[place, place] / unit
        exact = self.measures.weights is None
        if isinstance(self.family, Binomial) and exact:
            # Of rows without an event: the columns' own sums less those of events.
            columns = [
                one * Fraction(2) ** (powers[place] - power) / unit
                for one, power in zip(first.information[place], powers, strict=True)
            ]
            pairs = zip(columns, first.cross, strict=True)
            others = tuple(one - events for one, events in pairs)
            sides.append((others, known - first.cross[place]))
        for k, of in enumerate(design):
            if self.scales.first_fineness.along[k]:
                continue  # products with responses are rounded
            ends = (of.least - of.centre, of.most - of.centre)
            alike = any(
                cross[k] == end * number for cross, number in sides for end in ends
            )
            if k != place and alike:
                raise self._endless([self.labels[k]])

    def _open_at_means(
        self, first: ResponseStatistics, start: Vector, usual: FloatArray
    ) -> NewtonRunning:
        """Return the state after a first total that has X'WX and X'Wy.

        With an intercept and without offsets the first point is the null model, whose
        information and deviance follow: Newton's step from there needs no other sum.
        """
        course = NewtonCourse(RoundPlanner(self.scales, first, self.digits))
        if not self.scales.null_follows:
            null = NewtonClimb(here=usual, trial=usual)
            model = NewtonClimb(here=start, trial=start)
            return NewtonRunning(1, first, model, null, course=course)
        deviance = self.scales.null_deviance(first, usual.item())
        null = NewtonClimb(usual, usual, deviance, np.zeros(1), size=0.0)
        if self.intercept is None:
            model = NewtonClimb(here=start, trial=start)
            return NewtonRunning(1, first, model, null, course=course)
        # Without slopes the score is slope (Z'Wy - mean Z'W1), and Z'W1 times the
        # information of a row is a column of the information.
        mean, each = (
            one(usual).item()
            for one in (self.family.inverse_link, self.family.expected)
        )
        slope = self.family.natural(usual)[1]
        pull = tuple(Fraction(slope) * one for one in first.cross)
        system = self._reference(first, usual)
        at = NewtonEvaluation(system, self.scales.columns, pull, deviance, 1.0)
        step = at.step()
        step[self.intercept] -= slope * (mean / each)
        size = float(system.form(self._scaled(step)) / first.weight_sum)
        factor, shift = self.family.tilt(mean, size / each)
        step *= factor
        step[self.intercept] += shift
        model = NewtonClimb(start, start + step, deviance, lengthened=max(1.0, factor))
        known = course.planner.null_totals(first, start, mean)
        pulls = [
            Fraction(slope) * (one - was)
            for one, was in zip(first.cross, known.means, strict=True)
        ]
        if not self.scales.responses_once:
            known = course.planner.null_scores(first, known, pulls, deviance)
        course = replace(
            course, origin=start, known=known, score=tuple(pulls), slack=known.slack
        )
        return NewtonRunning(1, first, model, null, course=course)

    def _planned(self, state: NewtonRunning) -> NewtonRunning:
        """Return the state with the fineness of its next round."""
        course, model = state.course, state.model
        if course is None:
            return state
        planner, information = course.planner, course.information
        step = model.trial - model.here
        at = course.origin if information is None else information.point
        last, shrank = self._is_near(state), 0.0
        stale = information is not None and not course.is_fresh
        if stale and 0.0 < model.size_before < inf:
            shrank = model.size / model.size_before
        asked = last or bool(course.blurred)
        asked = asked or planner.needs_information(model.trial, step, at, shrank)
        before = None if state.sums is None else state.sums.information
        system = (
            self._reference(state.first, state.null.here)
            if before is None
            else self._system(before)
        )
        dispersion = 1.0
        if state.sums is not None and self.family.estimates_dispersion:
            dispersion = float(state.sums.pearson / state.first.n_rows)
        fineness = planner.fineness(
            system,
            model.size,
            planner.spread(step),
            max(dispersion, TINY),
            information=asked,
            last=last,
            blurred=course.blurred,
            lengthened=model.lengthened,
        )
        fineness = planner.with_residues(
            fineness, model.trial, course.known, information
        )
        return replace(state, course=replace(course, fineness=fineness))

    def _is_near(self, state: NewtonRunning) -> bool:
        """Return whether standard errors may be those at the next point."""
        model, course = state.model, state.course
        if course is None or model.step is None or model.halvings:
            return False
        planner, shrinking = course.planner, 1.0
        if course.is_fresh:
            shrinking = min(4.0 * planner.spread(model.step) + LEAST_SHRINKING, 1.0)
        elif 0.0 < model.size_before < inf:
            shrinking = min(model.size / model.size_before, 1.0)
            shrinking = max(shrinking, LEAST_SHRINKING)
        left = planner.change(model.step) * shrinking
        near = left <= NEAR * planner.point_tolerance
        if not self.scales.responses_once:
            slow = min(model.size / model.size_before, 1.0)
            left = FORESEEN * model.size * max(shrinking, slow)
            near = near and left <= planner.point_tolerance
        return near or self._is_floor(model)

    def _is_over(self, state: NewtonRunning) -> bool:
        """Return whether the answer is known."""
        model, course = state.model, state.course
        if course is None:
            return model.settled
        if model.step is None or model.halvings or not course.last:
            return False
        tolerance = course.planner.point_tolerance
        near = course.planner.change(model.step) <= NEAR * tolerance
        # The expected information leads to the answer by and by.
        near = near and (self.scales.responses_once or model.size <= tolerance)
        return near or self._is_floor(model)

    def _is_null_over(self, state: NewtonRunning) -> bool:
        """Return whether the null model's deviance is known."""
        course, null = state.course, state.null
        if null.settled or course is None or self.scales.responses_once:
            return null.settled
        # The step's size, squared, is what the deviance still falls by.
        return not null.halvings and null.size <= course.planner.point_tolerance

    def _is_floor(self, model: NewtonClimb) -> bool:
        """Return whether steps are rounding, and shrink no more."""
        steady = model.size >= STEADY * model.size_before
        return model.relative <= LOST or (self._is_rounding(model) and steady)

    def _is_rounding(self, model: NewtonClimb) -> bool:
        """Return whether a step is so short that it may be rounding."""
        return model.size <= max(ROUNDING, float(Fraction(1, 10**self.digits)))

    def _reference(self, first: FirstStatistics, null: Vector) -> InformationSystem:
        """Return the information that directions are measured by: the null model's.

        Where the first round has working weights it is that of the first round.
        """
        return self._system(self._reference_matrix(first, null))

    def _reference_matrix(self, first: FirstStatistics, null: Vector) -> Integers:
        if not self.scales.has_fineness:
            return first.information
        matrix = first.information
        if any(self.penalty) and self._positive_system(matrix) is None:
            # More columns than rows, say: what rounding may have lost is put back.
            lost = self.scales.rounding_of_gram(first.n_rows)
            matrix = matrix + np.diag(lost)
        return np.asarray(matrix * Fraction(self.family.expected(null).item()))

    def _move_by_means(
        self, state: NewtonRunning, request: GlmRequest, total: Integers
    ) -> NewtonRunning:
        """Return the state after a round that has a fineness."""
        course, fineness, first = state.course, request.fineness, state.first
        assert course is not None
        assert fineness is not None
        assert isinstance(first, ResponseStatistics)
        scales = self.scales
        decoded = fineness.decoded(total)
        found = scales.means(decoded, fineness)
        scales.check_means(found, fineness, first, self.labels)
        fineness.check(decoded)
        trial, rows = state.model.trial, float(first.n_rows)
        information = course.information
        if found.information is not None:
            information = KnownInformation.of(
                *(trial, found.information, scales.columns),
                course.planner.matrix_errors(fineness, found.information, trial),
            )
        if found.cumulants is not None:
            cumulants = found.cumulants, rows * scales.cumulant_unit / 2.0
        elif course.known is not None:
            cumulants = course.planner.cumulants(
                trial, course.known, course.information
            )
        else:
            cumulants = Fraction(0), inf
        known = KnownTotals(
            *(trial, found.means),
            cumulants[0],
            tuple(rows * float(Fraction(2) ** -one) / 2.0 for one in fineness.along),
            cumulants[1],
        )
        matrix, blurred = found.information, 0
        if matrix is not None and information is not None:
            system = self._positive_system(matrix)
            if system is None or course.planner.blur(system, information) > BLURRED:
                blurred = course.blurred + 1
                information = course.information
                if course.coarse >= MOST_COARSE:
                    raise self._too_coarse()
            if system is None:
                matrix = None
        if matrix is None:
            matrix = self._improved(state, course, trial, found.means, fineness)
        sums = scales.round_of_means(found, first, request.point, matrix, fineness)
        if found.cumulants is not None:
            scales.check_deviance(sums, first)
        at = self._evaluation(state, sums)
        course = replace(
            course,
            known=known,
            information=information,
            matrix=matrix,
            blurred=blurred,
            coarse=course.coarse + (blurred > 0),
            last=fineness.last and not blurred,
        )
        state = replace(state, course=course)
        if not self._rises(state, at):
            model = state.model.halve("no step is short enough")
            return self._moved(state, sums, model, accepted=False)
        judged = found.information is not None and not blurred
        was_judged = course.judged
        course = replace(course, score=at.score, slack=known.slack, judged=judged)
        model = replace(state.model, objective=None).advance(at)
        if judged and self.family.endless and not self._is_rounding(model):
            self._check_separation(state, at.system, model)
            if was_judged:
                model = self._stay_open(state, sums, at, model)
        state = replace(state, course=course)
        return self._moved(state, sums, model, accepted=True)

    def _too_coarse(self) -> NumericalError:
        return NumericalError(
            f"the information was too coarse in {MOST_COARSE + 1} rounds, which honest "
            "parties' rows hardly make it: a party may have sent wrong numbers, or "
            "columns nearly follow from others. Leave these out, agree on ranges "
            f"closer to the data, use ridge{self._or_full_digits}",
            code="information-too-coarse",
        )

    @property
    def _or_full_digits(self) -> str:
        """The change that helps where rounding hides how columns differ."""
        coarse = self.scales.has_fineness and self.digits < MOST_DIGITS
        return f", or agree on {FULL_DIGITS}" if coarse else ""

    def _rises(self, state: NewtonRunning, at: NewtonEvaluation) -> bool:
        """Return whether a trial is no farther than the likelihood rises, about.

        It is concave: where its slope along the step is still above 0 it has risen, and
        a slope that is half as large as at the start, and below 0, is near the top.
        """
        model, course = state.model, state.course
        if course is None or course.score is None or self._is_rounding(model):
            return True
        steps = [
            Fraction(to) - Fraction(start)
            for to, start in zip(model.trial.tolist(), model.here.tolist(), strict=True)
        ]
        before, after = (
            sum((one * by for one, by in zip(score, steps, strict=True)), Fraction(0))
            for score in (course.score, at.score)
        )
        assert course.known is not None
        pairs = zip(course.slack, course.known.slack, steps, strict=True)
        noise = sum(
            (Fraction(one + other) * abs(by) for one, other, by in pairs), Fraction(0)
        )
        return 2 * (after + noise) >= -before

    def _improved(
        self,
        state: NewtonRunning,
        course: NewtonCourse,
        trial: Vector,
        means: Sequence[Fraction],
        fineness: Fineness,
    ) -> Integers:
        """Return the information on the way, where none was asked for."""
        before = (
            self._reference_matrix(state.first, state.null.here)
            if course.matrix is None
            else course.matrix
        )
        if course.known is None:
            return before
        slope = self.scales.slope
        change = [
            slope * (one - was)
            for one, was in zip(means, course.known.means, strict=True)
        ]
        step = trial - course.known.point
        changed = sum(
            (one * Fraction(by) for one, by in zip(change, step.tolist(), strict=True)),
            Fraction(0),
        )
        rounding = [2.0**-power for power in fineness.along]
        pairs = zip(rounding, course.known.slack, step.tolist(), strict=True)
        rows = float(state.first.n_rows)
        lost = sum((rows / 2.0 * own + was) * abs(by) for own, was, by in pairs)
        if float(changed) < KNOWN * lost:
            return before
        found = improved_model_information(before, self.scales.columns, step, change)
        # A ridge may be all that keeps the rounded information positive.
        safe = not any(self.penalty) or self._positive_system(found) is not None
        return found if safe else before

    def _move(self, state: NewtonRunning, sums: RoundStatistics) -> NewtonRunning:
        """Return the state after both searches took a step, or half of one back."""
        self.scales.check_round(sums, state.first, self.labels)
        found = self._evaluation(state, sums)
        accepted = state.model.accepts(found)
        model = state.model.advance(found)
        if accepted and self.family.endless:
            self._check_separation(state, found.system, model)
            model = self._stay_open(state, sums, found, model)
        return self._moved(state, sums, model, accepted=accepted)

    def _moved(
        self,
        state: NewtonRunning,
        sums: RoundStatistics,
        model: NewtonClimb,
        *,
        accepted: bool,
    ) -> NewtonRunning:
        """Return the state after a round, with the null model's search."""
        state = replace(
            state,
            rounds=state.rounds + 1,
            model=model,
            sums=sums if accepted else state.sums,
        )
        if self.scales.null_follows:
            return state
        each = float(sums.null_deviance) / float(state.first.n_rows)
        null = null_newton_evaluation(sums, max(each, TINY))
        return replace(state, null=state.null.advance(null))

    def _shorten(self, state: NewtonRunning) -> NewtonRunning:
        if not self.family.exponential:
            return state
        model = state.model.shorten(self.measures, state.rounds)
        return replace(state, model=model)

    def _settle(self, state: NewtonRunning) -> State:
        first, sums = state.first, state.sums
        step = state.model.step
        over = self._is_over(state) and self._is_null_over(state)
        if sums is None or step is None or not over:
            if state.rounds < self.max_rounds:
                return self._planned(state)
            ends = state.model.trial, state.model.here
            sizes = np.abs(self._scaled(ends[0] - ends[1])) * np.sqrt(
                [float(one) for one in self._system(first.information).diagonal()]
            )
            worst = int(np.argmax(sizes))
            real = self.scales.real(ends[0]) - self.scales.real(ends[1])
            raise NumericalError(
                f"the fit did not converge in {state.rounds} rounds: the coefficient "
                f"of {self.labels[worst]} still moves by {real[worst]:.2g} a round; "
                f"scale columns, use ridge, allow more rounds{self._or_full_digits}",
                code="not-converged",
            )
        # The answer is a step away from where the deviance is known, and the best one
        # as far from the answer as the digits allow.
        missed = (state.model.size + sqrt(self.n_columns) * 0.1**self.digits) ** 2
        if self.family.estimates_dispersion:
            missed *= float(sums.pearson / first.n_rows)
        outcome = GlmOutcome(
            first=first,
            sums=replace(sums, noise=sums.noise + missed),
            here=state.model.here,
            step=step,
            null_deviance=state.null.objective or Fraction(0),
            rounds=state.rounds,
        )
        here = np.concatenate([state.model.here, state.null.here])
        if self.scales.has_fineness and self.scales.sums_pearson:
            return NewtonClosing(outcome, here, "pearson", state.anchor)
        return self._close(outcome, here, state.anchor)

    def _close(
        self, outcome: GlmOutcome, last: Vector, anchor: Vector | None
    ) -> NewtonClosing | NewtonDone:
        """Return what follows once Pearson's sum is known, too."""
        first, sums = outcome.first, outcome.sums
        if not self.scales.closes:
            return NewtonDone(
                outcome, ClosingStatistics(sums.information, first.saturated)
            )
        dispersion = estimated_dispersion(
            self.family,
            sums.pearson,
            float(first.n_rows),
            self._system(sums.information).degrees,
        )
        # The last step is tiny; where it might lead a row outside, the point before it
        # does as well for what is still asked.
        answer = outcome.here + outcome.step
        inside = self.scales.surely_inside(np.append(answer, last[-1]), anchor)
        at = answer if inside else outcome.here
        # A perfect fit has no dispersion, but the parties shall not divide by zero.
        return NewtonClosing(outcome, np.append(at, max(dispersion, TINY)))

    def _evaluation(
        self, state: NewtonRunning, sums: RoundStatistics
    ) -> NewtonEvaluation:
        """Return what the model's search sees of a total."""
        n_rows = float(state.first.n_rows)
        dispersion = estimated_dispersion(
            self.family, sums.pearson, n_rows, min(self.n_columns, n_rows - 1.0)
        )
        # A penalty on real coefficients, per whole number.
        costs = [
            one / (of.unit * of.unit)
            for one, of in zip(self.penalty, self.measures.design, strict=True)
        ]
        at = [Fraction(one) for one in state.model.trial.tolist()]
        paid = [cost * one for cost, one in zip(costs, at, strict=True)]
        scatter = PERFECT * float(sums.null_deviance)
        return NewtonEvaluation(
            system=self._system(sums.information),
            powers=self.scales.columns,
            score=tuple(
                one - other for one, other in zip(sums.score, paid, strict=True)
            ),
            objective=sums.deviance
            + sum(
                (cost * one for cost, one in zip(paid, at, strict=True)), Fraction(0)
            ),
            # Of a perfect fit of responses that are alike both are 0.
            dispersion=max(dispersion, scatter / n_rows, TINY),
            noise=scatter + sums.noise,
        )

    def _check_separation(
        self, state: NewtonRunning, now: InformationSystem, after: NewtonClimb
    ) -> None:
        """Refuse data in which a coefficient grows without end; the error names it."""
        reference = self._reference(state.first, state.null.here)
        weight = float(state.first.weight_sum / state.first.n_rows)
        climbs = state.model, after
        found = endless_newton_direction(
            now, reference, climbs, self.scales.columns, weight
        )
        if found is not None:
            raise self._endless(self._columns(found, reference))

    def _stay_open(
        self,
        state: NewtonRunning,
        sums: RoundStatistics,
        at: NewtonEvaluation,
        model: NewtonClimb,
    ) -> NewtonClimb:
        """Return the climb, its step lengthened where many rows will still be open.

        A search that goes where few rows are open ends here, and the error names the
        column.
        """
        place, largest = self.intercept, self.scales.largest_information
        if place is None or state.sums is None:
            return model
        if self.scales.limits.root > 1.0 or any(self.penalty):
            return model
        first = state.first
        scale = Fraction(4) ** self.scales.columns[place]
        weight = first.weight_sum / first.n_rows
        now, before = (
            float(one.information[place, place] / scale / weight)
            for one in (sums, state.sums)
        )
        events = first.response_sum / weight
        rarer = float(min(events, first.n_rows - events))
        if few_rows_open(now, before / state.model.lengthened, rarer, largest):
            reference = self._reference(first, state.null.here)
            _, direction = weakest_model_information(
                self._system(sums.information), reference
            )
            columns = self._columns(direction, reference)
            raise too_few_open(
                columns, self.family.endless, ", merge categories, or use ridge"
            )
        # Newton's step from b makes b larger by b's / b'Ab, s being the score.
        growth = at.gain(model.here) / at.system.form(self._scaled(model.here))
        factor = longer_newton_step(float(growth), now / largest)
        return replace(model, trial=model.trial * factor, lengthened=factor)

    def _endless(self, culprits: Sequence[str]) -> InvalidInputError:
        way_out = ", merge categories, or use ridge"
        return newton_grows_endlessly(culprits, self.family.endless, way_out)

    def _scaled(self, step: Vector) -> Vector:
        return np.asarray(np.ldexp(step, -np.array(self.scales.columns)))

    def _columns(self, direction: Vector, reference: InformationSystem) -> list[str]:
        ignored = [] if self.intercept is None else [self.intercept]
        return greatest_coefficients_of_model(
            direction, reference, ignored if self.n_columns > 1 else []
        )


def null_newton_evaluation(
    sums: RoundStatistics, dispersion: float
) -> NewtonEvaluation:
    information = np.array([[sums.null_information]], dtype=object)
    return NewtonEvaluation(
        system=InformationSystem.of(information, names=["intercept"]),
        powers=(0,),
        score=(sums.null_score,),
        objective=sums.null_deviance,
        dispersion=dispersion,
    )


def state_after_outside_asked(
    state: NewtonRunning, point: Vector, outside: GlmOutsideRows
) -> NewtonRunning:
    """Return the state after it was asked how many rows are outside at a point."""
    if not (outside.model or outside.null):
        return replace(state, anchor=point)
    searches = {"model": state.model, "null": state.null}
    for name, found in (("model", outside.model), ("null", outside.null)):
        if found:
            reason = f"{found} rows have no fitted mean that the family allows"
            searches[name] = searches[name].halve(reason)
    return replace(state, model=searches["model"], null=searches["null"])


def fading_newton_direction(
    now: InformationSystem, reference: InformationSystem
) -> Vector | None:
    ratio, direction = weakest_model_information(now, reference)
    return None if ratio > FADING else direction


def endless_newton_direction(
    now: InformationSystem,
    reference: InformationSystem,
    climbs: tuple[NewtonClimb, NewtonClimb],
    powers: Sequence[int],
    weight: float = 1.0,
) -> Vector | None:
    """Return a direction in which coefficients grow without end, if there is one.

    Args:
        now: the information where the search is.
        reference: that by which directions are measured.
        climbs: before and after the step to there.
        powers: of 2, by which coefficients are divided in these systems.
        weight: of an observation.
    """
    ratio, direction = weakest_model_information(now, reference)
    if ratio > FADING:
        return None
    if ratio <= GONE:
        return direction
    before, after = climbs
    if before.step is None or after.step is None or before.halvings:
        return None
    # Full steps that stay as long, with nothing left to gain.
    down = -np.array(powers)
    steps = [np.ldexp(one, down) for one in (before.step, after.step)]
    was, length = (sqrt(float(reference.form(one))) for one in steps)
    gained = after.size * after.size < LITTLE * weight
    return steps[1] if length >= STEADY * was and gained else None


def few_rows_open(now: float, before: float, rarer: float, largest: float) -> bool:
    """Return whether fewer than `LEAST_OPEN` rows would be open in the next round.

    Args:
        now: the sum of all rows' information.
        before: the same in the round before.
        rarer: how many rows have the rarer response.
        largest: the information of a row that is wholly open.
    """
    # With the size s of coefficients the loss is about c / s + a s, where a is 0 if
    # responses are separated. Then the information is in proportion to 1 / s.
    growth = max(1.0, before / now)
    if growth < 1.5:
        growth = max(1.0, 1.5 - growth * growth * (1.5 - growth))
    return now / growth < LEAST_OPEN * largest and now < OPEN_SHARE * rarer


def longer_newton_step(growth: float, n_open: float) -> float:
    """Return the factor for a trial whose coefficients are to grow much.

    With the loss c / s + a s of `few_rows_open`, a Newton step makes s at most 1.5
    times as large, and a Newton step of log s at most e times: far fewer rounds, to the
    same answer. In proportion to 1 / s^2, enough rows must stay open.

    Args:
        growth: of s by Newton's step, as a part of s.
        n_open: how many rows are open.
    """
    if growth < GROWING:
        return 1.0
    size = exp(np.array(growth / (1.0 - growth) if growth < 0.5 else 1.0)).item()
    return (
        max(1.0, size / (1.0 + growth)) if n_open >= LEAST_OPEN * size * size else 1.0
    )


def newton_grows_endlessly(
    columns: Sequence[str], why: str, way_out: str
) -> InvalidInputError:
    return InvalidInputError(
        f"the coefficient of {listed_names(columns)} grows without end ({why}), so "
        "there is "
        f"no fit: leave the column out{way_out}",
        code="endless-coefficient",
    )


def too_few_open(columns: Sequence[str], why: str, way_out: str) -> InvalidInputError:
    return InvalidInputError(
        f"the coefficient of {listed_names(columns)} seems to grow without end ("
        f"{why}), and "
        f"the next sum would be about fewer than {LEAST_OPEN:.0f} rows: leave the "
        f"column out{way_out}",
        code="endless-coefficient",
    )


def greatest_coefficients_of_model(
    direction: Vector, reference: InformationSystem, ignored: Sequence[int] = ()
) -> list[str]:
    """Return what matters most in a direction, the greatest first.

    Intercepts are ignored: they only make up for where columns have their zero.
    """
    # In units of what each column alone says: its information given all others.
    parts = np.abs(direction) / np.sqrt(np.diag(reference.inverse()))
    parts[list(ignored)] = 0.0
    order = np.argsort(-parts)
    return [reference.names[k] for k in order if parts[k] >= PART * parts.max()]


def weakest_model_information(
    information: InformationSystem, reference: InformationSystem
) -> tuple[float, Vector]:
    """Return about the least d'Id / d'Rd over all directions d, and that d.

    By the power method on I^-1 R, whose entries are exact before they are rounded: the
    same on every machine. Where the least is far below all others it converges in a
    few steps, and where it is not, nothing depends on it.
    """
    p, bottom = len(reference.names), reference.denominator

    def balls() -> list[arb]:
        found = information.inverse_balls() * arb_mat(reference.matrix)
        return [one / bottom for one in found.entries()]

    rows = nearest_float_solution(balls).reshape(p, p).tolist()
    place = max(range(len(rows)), key=lambda k: rows[k][k])
    along = [row[place] for row in rows]
    for _ in range(POWER_STEPS):
        most = max(abs(one) for one in along)
        along = [one / most for one in along]
        along = [
            fsum(one * by for one, by in zip(row, along, strict=True)) for row in rows
        ]
    direction = np.array(along) / max(abs(one) for one in along)
    return float(information.form(direction) / reference.form(direction)), direction
