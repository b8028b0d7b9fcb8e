"""Regressions as recipes: what is summed in each round, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Replay, Sums
from veilsum.jobs.releases import Release, ReleaseLimit
from veilsum.models import least_squares
from veilsum.models.glm import (
    FirstStatistics,
    GlmFit,
    Request,
    RoundStatistics,
    Stage,
    statistics_size,
)
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.newton import Newton, State
from veilsum.numbers.arrays import Array, Vector, listed


@dataclass(frozen=True)
class LeastSquaresRecipe:
    """Ordinary, weighted or ridge regression: one sum of statistics, one solve.

    The last number of the sum counts the rows that were left out.
    """

    n_columns: int
    names: tuple[str, ...]
    intercept: int | None
    ridge: float
    what: str
    limit: ReleaseLimit | None = None

    @property
    def size(self) -> int:
        """The statistics, and how many rows are missing."""
        return least_squares.Statistics.size(self.n_columns) + 1

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return self.n_columns

    def request(self, sums: Sums) -> str | None:
        """Ask for the statistics, once."""
        if sums:
            return None
        if self.limit is not None:
            self.limit.check(self.size)
        return "statistics"

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> LeastSquaresFit:
        """Return the fit of the pooled rows."""
        return least_squares.fit(
            sums[0][:-1],
            self.n_columns,
            names=self.names,
            intercept=self.intercept,
            ridge=self.ridge,
        )

    def missing(self, sums: Sums) -> int:
        """Return how many rows all parties left out."""
        return round(float(sums[0][-1]))

    def release(self, sums: Sums) -> Release:
        """Return what the sum shows."""
        del sums
        p = self.n_columns
        shown = {
            "X'WX": p * (p + 1) // 2,
            "X'Wy": p,
            "y'Wy, sums of Wy, of the weights and of their logarithms": 4,
            "rows, and rows left out": 2,
        }
        return Release(self.what, shown)


@dataclass(frozen=True, eq=False)
class NewtonRecipe:
    """A generalised linear model: one sum for each of Newton's rounds.

    The last number of each sum counts rows that were left out; all sums have the length
    of the longest, so that their shape says nothing.
    """

    newton: Newton
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def _places(self) -> Replay[State]:
        return Replay(self.newton.start, self._advance)

    @property
    def size(self) -> int:
        """The statistics of a round, and how many rows are missing."""
        return RoundStatistics.size(self.newton.n_columns) + 1

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return self.newton.n_columns

    def request(self, sums: Sums) -> Request | None:
        """Ask for statistics at Newton's next point."""
        state = self._state(sums)
        if state.converged:
            return None
        if self.limit is not None:
            self._check_limit(self.limit, state, sums)
        return self.newton.propose(state)

    def _check_limit(self, limit: ReleaseLimit, state: State, sums: Sums) -> None:
        """Refuse one more sum; say so if a coefficient grows without end."""
        try:
            limit.check(self.size * (len(sums) + 1), rows=self._rows(sums))
        except InvalidInputError as error:
            fading = self.newton.fading_columns(state)
            if not fading:
                raise
            raise InvalidInputError(
                f"the coefficient of {listed(fading)} seems to grow without end, which "
                "takes many rounds to be sure of: leave the column out, merge "
                f"categories, or use ridge. And {error}"
            ) from None

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> GlmFit:
        """Return the fit of the pooled rows."""
        return self.newton.fit(self._state(sums))

    def missing(self, sums: Sums) -> int:
        """Return how many rows all parties left out."""
        return round(float(sums[0][-1]))

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and where it is evaluated."""
        request = self.newton.propose(self._state(sums))
        shown = _shown(request.stage, self.newton.n_columns) | {"rows left out": 1}
        return Release(self.what, shown, tuple(request.point.tolist()))

    def _rows(self, sums: Sums) -> float | None:
        if not sums:
            return None
        p = self.newton.n_columns
        return FirstStatistics.unpack(sums[0][: FirstStatistics.size(p)], p).n_rows

    def _state(self, sums: Sums) -> State:
        return self._places.state(sums)

    def _advance(self, before: State, total: Array[Any]) -> State:
        stage = self.newton.propose(before).stage
        asked_for = statistics_size(stage, self.newton.n_columns)
        return self.newton.advance(before, total[:asked_for])


def _shown(stage: Stage, p: int) -> dict[str, int]:
    """Return what a round shows beside rows left out, and how many numbers of each."""
    shown = {"information": p * (p + 1) // 2}
    match stage:
        case "first":
            words = "sums of weights, responses, offsets, saturated log-likelihood"
            return shown | {"X'Vz": p, words: 4, "rows": 1}
        case "round":
            null = "score, information and deviance of the null model"
            others = "deviance, Pearson's sum, rows outside"
            return shown | {"score": p, others: 3, null: 3}
        case "closing":
            return shown | {"saturated log-likelihood": 1}
