"""What is asked in each round of a regression, and what follows from the sums.

Least squares are one sum and a solve, others a sum for each of Newton's rounds. Robust
errors take one sum more, at the answer: their recipe stands around that of a fit, as
`Screened` stands in front of one. What is asked last holds the answer and, where
leverages matter, the inverse of the information: both are public by then, and rounded
once, so that all use the same.

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

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from flint import arb_mat

from veilsum.errors import InvalidInputError
from veilsum.fits.choices import ChoiceRecipe
from veilsum.fits.score import ScoreRecipe
from veilsum.locale import limit
from veilsum.models import absorbed, least_squares
from veilsum.models.absorbed import AbsorbedFit, Absorbing
from veilsum.models.glm import FirstStatistics, GlmFit, Stage
from veilsum.models.least_squares import Counting, Exact, LeastSquaresFit
from veilsum.models.newton import Newton, State
from veilsum.models.rows import RowMeasures
from veilsum.models.sandwich import Meat, MeatRequest
from veilsum.numbers.arrays import Array, Vector, listed
from veilsum.numbers.layout import Layout, number
from veilsum.numbers.units import Counts
from veilsum.sums.recipes import (
    ManyRounds,
    OneRound,
    OneSumMore,
    Sums,
    by_value,
)
from veilsum.sums.releases import BY_PARTY, Foreseen, Release, ReleaseLimit
from veilsum.sums.terms import Terms
from veilsum.tables.rules import MORE_SUMS, DisclosureError, Rules, openly

# The last number of a sum.
LEFT_OUT = Layout((number("left_out"),))
# Honest parties beyond the columns of a design, where errors are clustered by party.
FURTHER_HONEST = 3
# The part of the first information in some direction below which an objection to the
# next sum is likely to come from columns that separate responses.
SUSPECT = 0.1
# How the round is called in which the meat is summed.
AT_THE_ANSWER = "errors"


class SolvedOnce(OneRound):
    """A fit that follows from one sum; its last number counts rows left out."""

    if TYPE_CHECKING:

        @property
        def names(self) -> tuple[str, ...]:
            """Of the columns that have a coefficient."""

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return len(self.names)

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the number of rows."""
        return {"rows": self.layout.unpack(sums[0])["rows"]}

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    @cached_property
    def _fits(self) -> dict[Hashable, LeastSquaresFit]:
        return {}

    def fit(self, sums: Sums) -> LeastSquaresFit:
        """Return the fit of the pooled rows; parties of one process share it."""
        key = by_value(sums)
        if key not in self._fits:
            self._fits[key] = self.solved(sums[0][:-1])
        return self._fits[key]

    def solved(self, total: Array[Any]) -> LeastSquaresFit:
        """Return what follows from a total."""
        raise NotImplementedError


@dataclass(frozen=True)
class LeastSquaresRecipe(SolvedOnce):
    """Ordinary, weighted or ridge regression: one sum of statistics, one solve."""

    asked = "statistics"

    measures: RowMeasures
    names: tuple[str, ...]
    intercept: int | None
    ridge: float
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Statistics of a fit, and rows left out."""
        return Counting(self.measures).layout + LEFT_OUT

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "names": self.names,
            "intercept": self.intercept,
            "ridge": self.ridge,
        }

    def solved(self, total: Array[Any]) -> LeastSquaresFit:
        """Return what follows from a total."""
        return least_squares.fit(total, self.measures, **self._given)

    def totals(self, sums: Sums) -> Exact:
        """Return the totals in exact numbers."""
        return least_squares.totals(sums[0][:-1], self.measures, **self._given)

    def bread(self, sums: Sums) -> Callable[[], Any]:
        """Return the inverse of X'WX, in balls."""
        return self.totals(sums).inverse_balls


@dataclass(frozen=True, eq=False)
class NewtonRecipe(ManyRounds[State]):
    """A generalised linear model: one sum for each of Newton's rounds.

    The last number of each sum counts rows that were left out; all sums have the length
    of the longest, so that their shape says nothing.
    """

    newton: Newton
    what: str
    limit: ReleaseLimit | None = None

    @property
    def search(self) -> Newton:
        """Newton's rounds."""
        return self.newton

    @cached_property
    def layout(self) -> Layout:
        """Positions that all rounds share."""
        return self.newton.scales.positions + LEFT_OUT

    def first(self, sums: Sums) -> FirstStatistics:
        """Return the statistics of the first sum."""
        return self.newton.scales.first(sums[0][:-1])

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        """Return the number of rows, which the first sum has."""
        return {} if len(sums) > 1 else {"rows": int(self.first(sums).n_rows)}

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return self.newton.n_columns

    @property
    def most(self) -> int:
        """Those too that ask for rows outside."""
        return 2 * self.newton.max_rounds

    def unfinished(self, state: State) -> str:
        """Return what to say of a fit for which no room is left."""
        told = (
            f"the fit has not converged in {self.most_rounds} sums, and more than "
            "that there is no room for: scale the columns, use ridge or fewer columns, "
            f"or {MORE_SUMS}"
        )
        if fading := self.newton.fading_columns(state):
            told = (
                f"the coefficient of {listed(fading)} seems to grow without end, which "
                "takes many rounds to be sure of: leave the column out, merge "
                f"categories, or use ridge. And {told}"
            )
        return told

    def suspected(self, sums: Sums) -> str:
        """Return the columns whose information has faded, if an objection follows."""
        return suspicion(self.newton, self.state(sums), "The")

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> GlmFit:
        """Return the fit of the pooled rows."""
        return self.newton.fit(self.state(sums))

    def bread(self, sums: Sums) -> Callable[[], Any]:
        """Return the inverse of the expected information, in balls."""
        return self.newton.bread(self.state(sums))

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and where it is evaluated."""
        request = self.newton.propose(self.state(sums))
        point = self.newton.real_point(request)
        # Pearson's sum is asked for at the point of another sum.
        pearson = f"{self.what}: Pearson's sum"
        job = pearson if request.stage == "pearson" else self.what
        return Release(job, self._shown(request.stage), tuple(point.tolist()))

    def _shown(self, stage: Stage) -> dict[str, int]:
        return (self.newton.scales.layout(stage) + LEFT_OUT).released

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What a first, a further, a closing round shows; and one that only asks."""
        most = self.most_rounds
        closing = int(self.newton.family.closes)
        scales = self.newton.scales
        pearson = int(scales.responses_once and scales.sums_pearson)
        outside = "outside"
        kinds: tuple[tuple[str, Stage, int, int], ...] = (
            ("first", "first", 1, 1),
            # A run that ends without an answer may end before its closing round.
            ("tries", "round", 1, most - 1),
            (outside, "outside", 0, most - 2),
            ("pearson", "pearson", pearson, pearson),
            ("closing", "closing", closing, closing),
        )
        return tuple(
            Foreseen(when, self._shown(stage), least, most)
            for when, stage, least, most in kinds
            if most
        )


def suspicion(newton: Newton, state: State, the: str) -> str:
    """Return a sentence on columns whose information has faded, if some have."""
    fading = newton.fading_columns(state, SUSPECT)
    if not fading:
        return ""
    return (
        f"{the} coefficient of {listed(fading)} seems to grow without end: less than "
        f"{SUSPECT:.0%} of the first information about it was left"
    )


FRACTIONS = limit("fractions")


@dataclass(frozen=True)
class AbsorbedRecipe(SolvedOnce):
    """Least squares with an effect for each party: one sum of what is left of rows."""

    asked = "statistics within parties"
    # What a party gives is made of all its rows: its own means are taken off.
    wording = BY_PARTY
    left_open = (FRACTIONS,)

    absorbing: Absorbing
    names: tuple[str, ...]
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def layout(self) -> Layout:
        """Statistics within parties, and rows left out."""
        return self.absorbing.layout + LEFT_OUT

    def check_sum(self, sums: Sums) -> None:
        """Refuse sums of products within parties that no rows have."""
        super().check_sum(sums)
        self.absorbing.check(sums[0][:-1], self.names)

    def solved(self, total: Array[Any]) -> AbsorbedFit:
        """Return what follows from a total."""
        return absorbed.fit(total, self.absorbing, names=self.names)


def check_parties(meat: Meat, rules: Rules, terms: Terms) -> None:
    """Refuse errors that so few parties, or such masks, must not be asked for.

    Raises:
        DisclosureError: parties' own scores could be computed.
        InvalidInputError: masks are measured in units, and these follow later.
    """
    kind = terms.law.masks.kind
    if terms.law.hides and not kind.sums_only:
        raise InvalidInputError(
            f"errors = {meat.errors!r} takes a sum whose units follow from the fit, "
            f"and {terms.law.name} masks are as large as units that are known before: "
            'use law = "uniform", or the errors of the model'
        )
    least = meat.scales.n_columns + FURTHER_HONEST
    if meat.by_party and terms.honest < least and not rules.site_terms:
        raise DisclosureError(
            "site_terms",
            f'errors = "cluster" with {meat.scales.n_columns} columns takes {least} '
            f"honest parties, so that nobody's own score can be computed, and there "
            f"may be as few as {terms.honest}: use HC3, leave out columns, or allow "
            f"it openly with {openly(site_terms=True)}",
        )


def reserved(limit: ReleaseLimit | None, size: int) -> ReleaseLimit | None:
    """Return what is left of a limit beside one more sum of so many numbers."""
    if limit is None:
        return None
    if limit.most_rounds < 2:
        raise DisclosureError(
            "most_rounds",
            "robust errors take one more sum than the fit, and most_rounds is "
            f"{limit.most_rounds}: use the errors of the model, or agree openly on "
            f"{openly(most_rounds=2)} or more",
        )
    return replace(limit, after=size, most_rounds=limit.most_rounds - 1)


@dataclass(frozen=True, eq=False)
class RobustRecipe(OneSumMore):
    """A regression, and at its answer the meat of its sandwich.

    Attributes:
        inner: the regression; a limit of its own leaves room for the last sum.
        meat: what is summed then.
        limit: how many numbers there is room for in all.
        n_parties: whose vectors are in the sums.
    """

    after = AT_THE_ANSWER

    inner: Any
    meat: Meat
    limit: ReleaseLimit | None = None
    n_parties: int = 0

    @cached_property
    def counts(self) -> Counts:
        """Units of the fit, which has more numbers than the meat."""
        found: Counts = self.inner.counts
        return replace(found, bits=max(found.bits, self.meat.layout.bits))

    @cached_property
    def last(self) -> Layout:
        """The meat."""
        return self.meat.layout.padded(self.size)

    @property
    def last_shown(self) -> dict[str, int]:
        """Released numbers of the meat by key."""
        return self.last.released

    def among(self, members: tuple[str, ...]) -> Self:
        """Return the recipe for so many parties."""
        return replace(self, n_parties=len(members))

    def last_request(self, before: Sums) -> MeatRequest:
        """Ask for the meat."""
        coefficients = self.inner.fit(before).coefficients
        return self.meat.request(coefficients, self._bread(before))

    def _bread(self, before: Sums) -> Callable[[], arb_mat]:
        found: Callable[[], arb_mat] = self.inner.bread(before)
        return found

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

    def last_release(self, before: Sums, job: str) -> Release:
        """Return what the meat shows, at the coefficients."""
        point = tuple(self.inner.fit(before).coefficients.tolist())
        return Release(f"{job}: {self.meat.errors} errors", self.last_shown, point)


class ClusterRecipe(RobustRecipe):
    """The same with errors clustered by party: its last sum is not one over rows."""

    wording = BY_PARTY


FittingRecipe = LeastSquaresRecipe | AbsorbedRecipe | NewtonRecipe | ChoiceRecipe
RegressionRecipe = FittingRecipe | RobustRecipe | ScoreRecipe
