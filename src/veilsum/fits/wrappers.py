"""Wrappers of a fit: one more sum at its answer, and a result with more in it.

Robust errors sum the meat of a sandwich. The request holds the answer and, where
leverages matter, the inverse of the information: both are public by then, and rounded
once, so that all use the same. Score tests sum the score and the expected information
of a wider model, with coefficients of 0 for its further columns, as R's
anova(test = "Rao") has them.

Errors that are clustered by party show more of parties than other sums do. From
M = sum of s s' over parties, whoever colludes takes off its own part, and the sum c of
all honest scores is known as well, for all scores together are 0 at the answer. Of two
honest parties M and c give both scores, up to who has which. Of h honest parties they
leave rotations that keep c; but scores are whole numbers, and each number of M tells
twice the digits of a score: p (p + 1) / 2 of these and p of c are as many digits as the
scores of p + 2 parties have. So there must be `FURTHER_HONEST` honest parties more than
there are columns. Still the sum of squares of every combination of scores is known, and
no party's is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from flint import arb_mat

from veilsum.errors import InvalidInputError
from veilsum.fits.comparisons import TestOfFit
from veilsum.fits.fitting import FitStrategy
from veilsum.models.glm import GlmFit, GlmRequest
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.newton import Newton, NewtonEvaluation
from veilsum.models.rows import Rows
from veilsum.models.sandwich import MeatRequest, SandwichMeat
from veilsum.models.systems import InformationSystem
from veilsum.numbers.arrays import Array, FloatArray, Vector
from veilsum.numbers.layout import NumberLayout, layout_padding
from veilsum.numbers.units import Integers, UnitCounts
from veilsum.sums.recipes import FinalRoundRecipe, Sums
from veilsum.sums.releases import BY_PARTY, SumRelease, SumReleaseLimit
from veilsum.sums.terms import SumTerms
from veilsum.tables.rules import DisclosureError, Rules, how_rules_are_loosened

# Honest parties beyond the columns of a design, where errors are clustered by party.
FURTHER_HONEST = 3

Fitting = Callable[[SumReleaseLimit | None], Any]


class FitWrapper(FitStrategy, FinalRoundRecipe):
    """A fit, and one more sum at its answer."""

    @property
    def fitting(self) -> FitStrategy:
        return self.inner

    @property
    def what(self) -> str:
        return str(self.inner.what)

    def vector(self, rows: Rows, dropped: int, request: Any) -> Integers:
        """Return one party's numbers, filled up to the length of every sum."""
        last = self.last_vector(rows, request)
        found = (
            self.inner.vector(self.fitted_rows(rows), dropped, request)
            if last is None
            else last
        )
        return np.concatenate([found, np.zeros(self.size - len(found), dtype=object)])

    def last_vector(self, rows: Rows, request: Any) -> Integers | None:
        """Return one party's numbers for the last sum; None in rounds of the fit."""
        raise NotImplementedError

    def fitted_rows(self, rows: Rows) -> Rows:
        return rows

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        parts = {party: self.fitted_rows(part) for party, part in rows.items()}
        return self.fitting.pooled(parts)

    def check_rows(self, rows: Rows) -> None:
        """Refuse a party's rows that cannot be fitted."""
        self.inner.check_rows(self.fitted_rows(rows))


@dataclass(frozen=True, eq=False)
class RobustFitRecipe(FitWrapper):
    """A regression, and at its answer the meat of its sandwich.

    Attributes:
        inner: the regression; a limit of its own leaves room for the last sum.
        meat: what is summed then.
        limit: how many numbers there is room for in all.
        n_parties: whose vectors are in the sums.
    """

    after = "errors"

    inner: Any
    meat: SandwichMeat
    limit: SumReleaseLimit | None = None
    n_parties: int = 0

    @classmethod
    def around(
        cls, fitting: Fitting, meat: SandwichMeat, limit: SumReleaseLimit | None
    ) -> RobustFitRecipe:
        room = limit
        if limit is not None:
            if limit.most_rounds < 2:
                raise DisclosureError(
                    "most_rounds",
                    "robust errors take one more sum than the fit, and most_rounds is "
                    f"{limit.most_rounds}: use the errors of the model, or agree "
                    f"openly on {how_rules_are_loosened(most_rounds=2)} or more",
                    code="too-many-rounds",
                )
            size, rounds = fitting(None).size, limit.most_rounds - 1
            room = replace(limit, after=size, most_rounds=rounds)
        kind = ClusterRecipe if meat.by_party else RobustFitRecipe
        return kind(fitting(room), meat, limit)

    def check_parties(self, rules: Rules, terms: SumTerms) -> None:
        """Refuse errors that so few parties, or such masks, must not be asked for.

        Raises:
            DisclosureError: parties' own scores could be computed.
            InvalidInputError: masks are measured in units, and these follow later.
        """
        meat = self.meat
        if terms.law.hides and not terms.law.masks.kind.sums_only:
            raise InvalidInputError(
                f"errors = {meat.errors!r} takes a sum whose units follow from the "
                f"fit, and {terms.law.name} masks are as large as units that are known "
                'before: use law = "uniform", or the errors of the model',
                code="masks-too-large",
            )
        least = meat.scales.n_columns + FURTHER_HONEST
        if meat.by_party and terms.honest < least and not rules.site_terms:
            raise DisclosureError(
                "site_terms",
                f'errors = "cluster" with {meat.scales.n_columns} columns takes '
                f"{least} honest parties, so that nobody's own score can be computed, "
                f"and there may be as few as {terms.honest}: use HC3, leave out "
                "columns, or allow it openly with "
                f"{how_rules_are_loosened(site_terms=True)}",
                code="too-few-honest",
            )

    def weighings(self, rows: Rows) -> tuple[Rows, ...]:
        """Return rows with their weights, and with squared weights.

        Squared residuals are summed with these: a weight that is spread over many rows
        in a fit may lie on one in its errors.
        """
        if rows.weights is None:
            return (rows,)
        return rows, replace(rows, weights=rows.weights * rows.weights)

    @cached_property
    def counts(self) -> UnitCounts:
        found: UnitCounts = self.inner.counts
        return replace(found, bits=max(found.bits, self.meat.layout.bits))

    @cached_property
    def last(self) -> NumberLayout:
        return self.meat.layout.padded(self.size)

    @property
    def last_shown(self) -> dict[str, int]:
        """Released numbers of the meat by key."""
        return self.last.released

    def among(self, members: tuple[str, ...]) -> Self:
        return replace(self, n_parties=len(members))

    def contributions(self, rows: Rows, request: Any) -> FloatArray | None:
        """Return each row's part of the fit's sums; that of the meat is not known."""
        if isinstance(request, MeatRequest):
            return None
        return self.inner.contributions(rows, request)

    def last_vector(self, rows: Rows, request: Any) -> Integers | None:
        if not isinstance(request, MeatRequest):
            return None
        return self.meat.statistics(rows, request)

    def last_request(self, before: Sums) -> MeatRequest:
        coefficients = self.inner.fit(before).coefficients
        return self.meat.request(coefficients, self._bread(before))

    def _bread(self, before: Sums) -> Callable[[], arb_mat]:
        return self.inner.bread(before)

    def check_last(self, before: Sums, last: Array[Any]) -> None:
        """Refuse a meat that no rows of the fit have."""
        self.meat.check(self.last.unpack(last), self.inner.fit(before).n_rows)

    def fit(self, sums: Sums) -> LeastSquaresFit | GlmFit:
        """Return the fit of the pooled rows, with robust errors.

        Tests are Student's where the model's are; those of errors that are clustered
        have a degree less than there are parties.
        """
        before, meat = self.parts(sums)
        assert meat is not None
        found: LeastSquaresFit | GlmFit = self.inner.fit(before)
        covariance = self.meat.covariance(
            self.last.unpack(meat),
            self.last_request(before),
            self._bread(before),
            n_rows=found.n_rows,
            n_parties=self.n_parties,
        )
        degrees = float(self.n_parties - 1) if self.meat.by_party else found.t_degrees
        return replace(
            found, covariance=covariance, t_degrees=degrees, errors=self.meat.errors
        )

    def last_release(self, before: Sums, job: str) -> SumRelease:
        point = tuple(self.inner.fit(before).coefficients.tolist())
        what = f"{job}: {self.meat.errors} errors"
        return SumRelease.from_layout(what, self.last, point)


class ClusterRecipe(RobustFitRecipe):
    """The same with errors clustered by party: its last sum is not one over rows."""

    wording = BY_PARTY


@dataclass(frozen=True, eq=False)
class ScoreFitRecipe(FitWrapper):
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
    limit: SumReleaseLimit | None = None

    @classmethod
    def around(
        cls,
        fitting: Fitting,
        wide: Newton,
        fitted: tuple[int, ...],
        limit: SumReleaseLimit | None,
    ) -> ScoreFitRecipe:
        room = limit
        if limit is not None:
            size, rounds = wide.scales.size + 1, max(1, limit.most_rounds - 1)
            room = replace(limit, after=size, most_rounds=rounds)
        return cls(fitting(room), wide, fitted, limit)

    @cached_property
    def layout(self) -> NumberLayout:
        return self.wide.scales.positions + NumberLayout((layout_padding(1),))

    @property
    def last_shown(self) -> dict[str, int]:
        """Released numbers of the test by key."""
        return self.wide.scales.layout("score").released

    def fitted_rows(self, rows: Rows) -> Rows:
        return replace(rows, design=rows.design[:, self.fitted])

    def check_rows(self, rows: Rows) -> None:
        """Refuse responses that the family does not have."""
        self.wide.scales.check(rows)

    def last_vector(self, rows: Rows, request: GlmRequest) -> Integers | None:
        at_answer = request.stage == "score"
        return self.wide.statistics(rows, request) if at_answer else None

    def last_request(self, before: Sums) -> GlmRequest:
        # Where a round of the fit was: no row is outside there, as everybody knows.
        requests = (self.inner.request(before[:k]) for k in range(len(before)))
        rounds = {"round", "means", "last"}
        at = [one.point for one in requests if one.stage in rounds][-1]
        point = np.zeros(self.wide.n_columns + 1)
        point[list(self.fitted)] = at[:-1]
        return GlmRequest("score", point)

    def check_last(self, before: Sums, last: Array[Any]) -> None:
        """Refuse information and a score that no rows of the fit have."""
        n_rows = self.inner.fit(before).n_rows
        self.wide.scales.check_score(last[:-1], n_rows, self.wide.labels)

    def fit(self, sums: Sums) -> GlmFit:
        """Return the fit of the pooled rows, without the further columns."""
        return self.inner.fit(self.parts(sums)[0])

    def last_release(self, before: Sums, job: str) -> SumRelease:
        names = [one for k, one in enumerate(self.wide.labels) if k not in self.fitted]
        job = f"{job}: score test of {', '.join(names)}"
        point = self.wide.real_point(self.last_request(before))[:-1]
        layout = self.wide.scales.layout("score")
        return SumRelease.from_layout(job, layout, tuple(point.tolist()))

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
        statistic = score_statistic_of_fit(self.wide, last[:-1], [*self.fitted, *more])
        dispersion = self.inner.fit(before).dispersion
        about = [f"{labels[k]} = 0" for k in more]
        return TestOfFit.of("score", statistic / dispersion, len(more), about=about)


def score_statistic_of_fit(
    wide: Newton, total: Array[Any], places: Sequence[int]
) -> float:
    """Return the score statistic of a model with some of the columns of a wide one.

    Args:
        wide: the rounds of the wide model.
        total: its score and expected information at the answer of a fit.
        places: columns of the fit, and those that are tested.
    """
    information, score = wide.scales.score(total)
    places = sorted(places)
    at = NewtonEvaluation(
        InformationSystem.of(
            information[np.ix_(places, places)], names=[wide.labels[k] for k in places]
        ),
        tuple(wide.scales.columns[k] for k in places),
        tuple(score[k] for k in places),
        Fraction(0),
        1.0,
    )
    return float(at.gain(at.step()))
