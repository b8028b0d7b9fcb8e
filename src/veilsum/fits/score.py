"""Score tests: what further columns would add to a fit, by one more sum at its answer.

It stands around a regression, as `RobustRecipe` does. What is asked last holds the
coefficients of the last round, 0 for each further column: the sum is the score and the
expected information of the wider model there, as R's anova(test = "Rao") has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.models.glm import GlmFit, Request
from veilsum.models.hypotheses import TestOfFit
from veilsum.models.newton import Evaluation, Newton
from veilsum.models.systems import System
from veilsum.numbers.arrays import Array
from veilsum.numbers.layout import Layout, padding
from veilsum.sums.recipes import OneSumMore, Sums
from veilsum.sums.releases import Release, ReleaseLimit


@dataclass(frozen=True, eq=False)
class ScoreRecipe(OneSumMore):
    """A regression, and at its answer the score of further columns.

    Attributes:
        inner: the regression; a limit of its own leaves room for the last sum.
        wide: the rounds of the model with the further columns, of which one is taken.
        fitted: where the regression's columns are among those of the wide model.
        limit: how many numbers there is room for in all.
    """

    after = "score"

    inner: Any
    wide: Newton
    fitted: tuple[int, ...]
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Positions of the last sum, the longest one."""
        return self.wide.scales.positions + Layout((padding(1),))

    @property
    def last_shown(self) -> dict[str, int]:
        """Released numbers of the test by key."""
        return self.wide.scales.layout("score").released

    def last_request(self, before: Sums) -> Request:
        """Ask for the score."""
        # Where a round of the fit was: no row is outside there, as everybody knows.
        requests = (self.inner.request(before[:k]) for k in range(len(before)))
        at = [one.point for one in requests if one.stage == "round"][-1]
        point = np.zeros(self.wide.n_columns + 1)
        point[list(self.fitted)] = at[:-1]
        return Request("score", point)

    def check_last(self, before: Sums, last: Array[Any]) -> None:
        """Refuse information and a score that no rows of the fit have."""
        n_rows = self.inner.fit(before).n_rows
        self.wide.scales.check_score(last[:-1], n_rows, self.wide.labels)

    def fit(self, sums: Sums) -> GlmFit:
        """Return the fit of the pooled rows, without the further columns."""
        found: GlmFit = self.inner.fit(self.parts(sums)[0])
        return found

    def last_release(self, before: Sums, job: str) -> Release:
        """Return what the test shows, where the fit is."""
        names = [one for k, one in enumerate(self.wide.labels) if k not in self.fitted]
        job = f"{job}: score test of {', '.join(names)}"
        point = self.wide.real_point(self.last_request(before))[:-1]
        return Release(job, self.last_shown, tuple(point.tolist()))

    def test(self, sums: Sums, chosen: Sequence[str] | None = None) -> TestOfFit:
        """Return the score test of some of the further columns, or of all together."""
        before, last = self.parts(sums)
        assert last is not None
        labels = self.wide.labels
        more = [
            k
            for k, name in enumerate(labels)
            if k not in self.fitted and (chosen is None or name in chosen)
        ]
        places = sorted([*self.fitted, *more])
        information, score = self.wide.scales.score(last[:-1])
        at = Evaluation(
            System.of(
                information[np.ix_(places, places)], names=[labels[k] for k in places]
            ),
            tuple(self.wide.scales.columns[k] for k in places),
            tuple(score[k] for k in places),
            Fraction(0),
            1.0,
        )
        statistic = float(at.gain(at.step())) / self.inner.fit(before).dispersion
        about = [f"{labels[k]} = 0" for k in more]
        return TestOfFit.of("score", statistic, len(more), about=about)


def room_beside(limit: ReleaseLimit | None, size: int) -> ReleaseLimit | None:
    """Return what is left of a limit beside a last sum of so many numbers."""
    if limit is None:
        return None
    return replace(limit, after=size, most_rounds=max(1, limit.most_rounds - 1))
