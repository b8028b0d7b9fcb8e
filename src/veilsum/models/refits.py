"""A family that takes rounds, fitted without each of several folds, and tried on them.

    state = refits.start()
    while not state.converged:
        request = refits.propose(state)      # public: what every party evaluates
        total = ...                          # sum of refits.statistics(parts, request)
        state = refits.advance(state, total)

The searches go side by side: one vector has the sums of all of them, each over the rows
outside its fold, and there are as many rounds as the slowest takes. A round is of one
kind: where some search asks first whether all rows have a mean, the others wait. For a
search that has arrived everybody gives zeros.

What comes last is asked of the rows that each fit has never seen: whether all of them
have a mean, unless ranges prove it, and then three sums for each fold (`RefitLosses`).
No sum of squared losses is among them, which would tell more of standard errors: it may
rest on one row, whichever the fit surprises most. Errors are those of folds' means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import nan, sqrt
from typing import Literal, NamedTuple

import numpy as np

from veilsum.errors import InvalidInputError, NumericalError
from veilsum.models import glm
from veilsum.models.fineness import Fineness
from veilsum.models.glm import GlmOutcome, GlmRequest, GlmRowTotals, glm_row_blocks
from veilsum.models.newton import Newton, NewtonClosing, NewtonDone, State
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Vector
from veilsum.numbers.layout import (
    LayoutStatistic,
    NumberLayout,
    layout_array,
    range_within_bits,
)
from veilsum.numbers.units import Integers, power_of_two_unit, sum_bits, total_of_counts

# Bits that are kept of a squared error: a mean may be 2^10 times the responses.
SQUARE_BITS = 72

Stage = Literal["first", "outside", "round", "means", "last", "beyond", "losses"]
# Of a fit, and which goes first where searches are at different ones.
_IN_ORDER: tuple[Stage, ...] = ("first", "outside", "round", "means", "last")


@dataclass(frozen=True)
class FoldsRequest:
    """Next public request to all parties, for each fold.

    Attributes:
        stage: as in a fit; "beyond" and "losses" are about the rows of each fold.
        points: for each fold the coefficients without it and the null model's
            intercept, as in a fit; None for a fold without a request.
        fineness: units and residues of each fold, in rounds with a canonical link.
    """

    stage: Stage
    points: tuple[Vector | None, ...]
    fineness: tuple[Fineness | None, ...] = ()


class RefitLosses(NamedTuple):
    """Losses of a fit without a fold on the rows of that fold."""

    n_rows: int
    deviance: Fraction
    null_deviance: Fraction
    squared: Fraction


@dataclass(frozen=True)
class RefitsState:
    """Where all searches are."""

    fits: tuple[State, ...]
    seen: bool = False
    losses: tuple[RefitLosses, ...] | None = None

    @property
    def converged(self) -> bool:
        return self.losses is not None


@dataclass(frozen=True)
class Refits:
    """Public terms of a cross-validation: a fit and the number of folds."""

    newton: Newton
    n_folds: int

    @cached_property
    def square_unit(self) -> Fraction:
        """Unit of squared errors, each of them rounded separately."""
        scales = self.newton.scales
        ends = np.array([scales.limits.low, scales.limits.high])
        means = np.abs(self.newton.family.inverse_link(ends))
        responses = max(abs(scales.agreed.low), abs(scales.agreed.high))
        return power_of_two_unit((responses + float(means.max())) ** 2, SQUARE_BITS)

    @cached_property
    def layout(self) -> NumberLayout:
        """Positions of a fit's sum, and a sum of squared errors, for each fold."""
        n, each = self.n_folds, self.newton.scales.positions
        units, bits = each.counts.units * n, each.bits
        most = sum_bits([SQUARE_BITS + 1], self.newton.measures.row_bits)
        fits = LayoutStatistic("fits", (n, each.size), units, bits)
        squares = range_within_bits(SQUARE_BITS + 1)
        errors = layout_array("fold_squared_errors", n, self.square_unit, most, squares)
        return NumberLayout((fits, errors))

    # What all parties do alike

    def start(self) -> RefitsState:
        return RefitsState((self.newton.start(),) * self.n_folds)

    def propose(self, state: RefitsState) -> FoldsRequest:
        # Closing is about errors: the coefficients are known by then.
        asked = [
            None
            if isinstance(one, NewtonClosing | NewtonDone)
            else self.newton.propose(one)
            for one in state.fits
        ]
        for stage in _IN_ORDER:
            here = [one is not None and one.stage == stage for one in asked]
            if any(here):
                pairs = zip(asked, here, strict=True)
                chosen = [one if this else None for one, this in pairs]
                return FoldsRequest(
                    stage,
                    tuple(None if one is None else one.point for one in chosen),
                    tuple(None if one is None else one.fineness for one in chosen),
                )
        answers = [self._answer(one) for one in state.fits]
        inside = self.newton.scales.surely_inside
        doubtful = [None if inside(one, None) else one for one in answers]
        if state.seen or all(one is None for one in doubtful):
            return FoldsRequest("losses", tuple(answers))
        return FoldsRequest("beyond", tuple(doubtful))

    def _answer(self, state: State) -> Vector:
        """Return the coefficients of whole numbers, and the null model's intercept."""
        first, (here, step) = (
            _outcome_of_refit(state).first,
            _ends_of_refit_search(state),
        )
        mean = float(first.response_sum / first.weight_sum)
        null = self.newton.family.link(np.array([mean]))
        return np.concatenate([here + step, null])

    def advance(self, state: RefitsState, total: Integers) -> RefitsState:
        request, found = self.propose(state), self.layout.unpack(total)
        parts = found["fits"]
        if request.stage == "beyond":
            for k, one in enumerate(parts):
                if away := self.newton.scales.outside(one).model:
                    raise InvalidInputError(
                        f"{away} rows of fold {k + 1} have no mean that the family "
                        "allows, by the fit without them: try another split, fewer "
                        "folds or fewer columns",
                        code="fold-without-mean",
                    )
            return replace(state, seen=True)
        if request.stage == "losses":
            squares = found["fold_squared_errors"].tolist()
            return replace(state, losses=self._losses(state, parts, squares))
        fits = [
            one if point is None else self._moved(k, one, part)
            for k, (one, point, part) in enumerate(
                zip(state.fits, request.points, parts, strict=True)
            )
        ]
        return replace(state, fits=tuple(fits))

    def _moved(self, fold: int, state: State, total: Integers) -> State:
        try:
            return self.newton.advance(state, total)
        except (InvalidInputError, NumericalError) as error:
            raise type(error)(
                f"without fold {fold + 1}: {error}", code=error.code
            ) from None

    def _losses(
        self, state: RefitsState, parts: Iterable[Integers], squares: Sequence[int]
    ) -> tuple[RefitLosses, ...]:
        # Every row is outside all folds but one.
        others = [int(_outcome_of_refit(one).first.n_rows) for one in state.fits]
        n_rows = sum(others) // (self.n_folds - 1)
        found = []
        for rows, part, square in zip(others, parts, squares, strict=True):
            deviances = self.newton.scales.losses(part)
            squared = int(square) * self.square_unit
            found.append(RefitLosses(n_rows - rows, *deviances, squared))
        return tuple(found)

    def coefficients(self, state: RefitsState) -> tuple[Vector, ...]:
        real = self.newton.scales.real
        return tuple(real(*_ends_of_refit_search(one)) for one in state.fits)

    def real_points(self, request: FoldsRequest) -> tuple[float, ...]:
        found: list[float] = []
        for point in request.points:
            if point is not None:
                found += self.newton.real_point(GlmRequest("round", point)).tolist()
        return tuple(found)

    # What one party adds up

    def statistics(self, parts: Sequence[Rows], request: FoldsRequest) -> Integers:
        """Return one party's answer, from its rows of each fold."""
        fits = np.zeros((self.n_folds, self.newton.scales.size), dtype=object)
        squares = np.zeros(self.n_folds, dtype=object)
        for k, point in enumerate(request.points):
            if point is None:
                continue
            if request.stage == "losses":
                fits[k], squares[k] = self._loss(parts[k], point)
            elif request.stage == "beyond":
                fits[k] = self.newton.statistics(parts[k], GlmRequest("outside", point))
            else:
                asked = GlmRequest(request.stage, point, request.fineness[k])
                others = [one for j, one in enumerate(parts) if j != k]
                fits[k] = self.newton.statistics(_join_refit_rows(others), asked)
        return self.layout.pack(fits=fits, fold_squared_errors=squares)

    def _loss(self, rows: Rows, point: Vector) -> tuple[Integers, int]:
        """Return both deviances, where a round has them, and squared errors.

        Noted weights are the information of the fold's rows, which follows from the
        point alone: of losses themselves one honest outlier may have most.
        """
        scales, family = self.newton.scales, self.newton.family
        totals, squared = GlmRowTotals(scales), 0
        by = float(self.square_unit.denominator) / float(self.square_unit.numerator)
        for block in glm_row_blocks(scales.measures, rows):
            eta = block.predictor(point[:-1])
            glm.check_means_allowed(scales.limits, eta)
            totals.weights.add(block, family.expected(eta))
            null = np.full_like(eta, point[-1])
            totals.number("deviance", family.terms(block.response, eta).deviance)
            null_terms = family.terms(block.response, null)
            totals.number("null_deviance", null_terms.deviance)
            away = block.response - family.inverse_link(eta)
            squared += total_of_counts(np.rint(away * away * by), SQUARE_BITS + 1)
        return totals.vector, squared


def _join_refit_rows(parts: Sequence[Rows]) -> Rows:
    return Rows(
        np.concatenate([one.design for one in parts]),
        np.concatenate([one.response for one in parts]),
    )


def _outcome_of_refit(state: State) -> GlmOutcome:
    assert isinstance(state, NewtonClosing | NewtonDone)
    return state.outcome


def _ends_of_refit_search(state: State) -> tuple[Vector, Vector]:
    """Return the last point of a search, and the step from there to its answer."""
    found = _outcome_of_refit(state)
    return found.here, found.step


class MeanLoss(NamedTuple):
    """A mean loss over the rows of all folds.

    Attributes:
        standard_error: by how much the means of folds differ, each with the weight of
            its rows, as for means of so many draws; nan with one fold that has rows.
    """

    value: float
    standard_error: float

    @classmethod
    def of(cls, rows: Sequence[int], sums: Sequence[Fraction]) -> MeanLoss:
        """Return the mean of losses, from those of each fold.

        >>> MeanLoss.of([10, 30], [Fraction(10), Fraction(60)])
        MeanLoss(value=1.75, standard_error=0.4330127018922193)
        """
        folds = [(n, one) for n, one in zip(rows, sums, strict=True) if n]
        n_rows = sum(rows)
        mean = sum((one for _, one in folds), Fraction(0)) / n_rows
        if len(folds) < 2:
            return cls(float(mean), nan)
        apart = [n * (one / n - mean) ** 2 for n, one in folds]
        variance = sum(apart, Fraction(0)) / n_rows / (len(folds) - 1)
        return cls(float(mean), sqrt(variance))


def deviance_explained_by_refits(losses: Sequence[RefitLosses]) -> float:
    """Return how much of the null models' deviance is gone; below 0 if none is."""
    whole = sum((one.null_deviance for one in losses), Fraction(0))
    rest = sum((one.deviance for one in losses), Fraction(0))
    return float(1 - rest / whole) if whole > 0 else nan
