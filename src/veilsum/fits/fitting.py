"""Strategies of a fit: the sums of its rounds, a party's part of them, and the answer.

Least squares are one sum and a solve, with or without an intercept for each party.
Other families take a sum for each of Newton's rounds, as does a choice among levels.
A strategy is a recipe; `wrappers` adds a final round to one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.locale import limit_phrase
from veilsum.models import absorbed, choices, glm, least_squares
from veilsum.models.absorbed import AbsorbedCounting, AbsorbedFit
from veilsum.models.choices import ChoiceSearch, ChoiceState
from veilsum.models.dispersion import DispersedFit
from veilsum.models.glm import FirstStatistics, GlmFit, GlmRequest, Stage
from veilsum.models.least_squares import (
    ExactLeastSquares,
    LeastSquaresCounting,
    LeastSquaresFit,
)
from veilsum.models.newton import Newton, State
from veilsum.models.rows import RowMeasures, Rows
from veilsum.numbers.arrays import Array, FloatArray, Vector, listed_names
from veilsum.numbers.layout import NumberLayout, layout_number
from veilsum.numbers.units import Integers, UnitCounts, triangle_of_matrix
from veilsum.sums.recipes import (
    IterativeRecipe,
    OneRoundRecipe,
    S,
    SumRecipe,
    Sums,
    sums_as_key,
)
from veilsum.sums.releases import BY_PARTY, PossibleRound, SumRelease, SumReleaseLimit
from veilsum.sums.running import SAME_ROUNDS
from veilsum.sums.terms import SumTerms
from veilsum.tables.rules import MORE_SUMS, Rules

# The last number of a sum.
LEFT_OUT = NumberLayout((layout_number("left_out"),))
# The part of the first information in some direction below which an objection to the
# next sum is likely to come from columns that separate responses.
SUSPECT = 0.1
# Larger tables are not proposed.
MOST_ROWS_PROPOSED = 1_000_000


class FitStrategy(SumRecipe):
    """A way to fit a regression, as all parties know it, with a party's part in it.

    The last number of its first sum counts rows that were left out.
    """

    # How the answer without masks is found, in words.
    compared_by: ClassVar[str] = SAME_ROUNDS

    if TYPE_CHECKING:

        @property
        def what(self) -> str:
            """Statistic that the sums are released for."""

        def request(self, sums: Sums) -> Any | None:
            """Return the next request; None when nothing is left."""

        def answer(self, sums: Sums) -> Vector:
            """Return the coefficients."""

        def fit(self, sums: Sums) -> LeastSquaresFit | GlmFit:
            """Return the fit of the pooled rows."""

    @property
    def fitting(self) -> FitStrategy:
        """The fit itself, without wrappers."""
        return self

    def vector(self, rows: Rows, dropped: int, request: Any) -> Integers:
        """Return one party's numbers for a request.

        Args:
            rows: of the party.
            dropped: number of rows that it left out.
            request: of this recipe.
        """
        return np.append(
            self.statistics(rows, request), np.array([dropped], dtype=object)
        )

    def statistics(self, rows: Rows, request: Any) -> Integers:
        """Return the same without the last number."""
        raise NotImplementedError

    def contributions(self, rows: Rows, request: Any) -> FloatArray | None:
        """Return each row's part of `statistics` in units; None if it is not known."""
        del rows, request
        return None

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        """Return the coefficients as the owner of all rows finds them, without masks.

        By the same rounds, unless a strategy has another algorithm.
        """
        everything, sums = joined_fit_rows(rows), list[Integers]()
        while (request := self.request(sums)) is not None:
            sums.append(self.vector(everything, 0, request))
        return self.answer(sums)

    def check_rows(self, rows: Rows) -> None:
        """Refuse a party's rows that cannot be fitted."""

    def check_parties(self, rules: Rules, terms: SumTerms) -> None:
        """Refuse a fit that reveals too much with so few parties, or such masks."""

    def weighings(self, rows: Rows) -> tuple[Rows, ...]:
        """Return a party's rows once for each way in which they are weighted."""
        return (rows,)

    def left_out(self, sums: Sums) -> int:
        """Return how many rows all parties together left out."""
        return int(sums[0][self.size - 1])

    def response_mean(self, sums: Sums) -> float:
        """Return the mean response, from the first sum of a fit in rounds."""
        raise InvalidInputError(
            f"the mean response is known of a fit in rounds, found {self.what}",
            code="mean-not-known",
        )

    def column_means(self, sums: Sums) -> Vector | None:
        """Return the means of the columns, if they follow from the sums."""
        return None

    def about_rows(
        self, sums: Sums, names: Sequence[str], columns: Sequence[str]
    ) -> list[Fraction]:
        """Return the part of the sums that is about rows and some of the columns."""
        return sums_about_fit_columns(names, columns, self.counts, sums[0])

    def notes(self, fit: Any) -> tuple[str, ...]:
        """Return sentences that belong below the table of coefficients."""
        return ()


def sums_about_fit_columns(
    names: Sequence[str], columns: Sequence[str], counts: UnitCounts, first: Array[Any]
) -> list[Fraction]:
    """Return the first sum's part about some of a fit's columns, which comes first."""
    pairs = combinations_with_replacement(map(columns.index, names), 2)
    places = [max(pair) * (max(pair) + 1) // 2 + min(pair) for pair in pairs]
    return [int(first[at]) * counts.units[at] for at in places]


def joined_fit_rows(rows: Mapping[str, Rows]) -> Rows:
    """Return all parties' rows, one party after the other."""
    parts = list(rows.values())

    def join(what: str) -> Any:
        columns = [getattr(part, what) for part in parts]
        return None if columns[0] is None else np.concatenate(columns)

    return Rows(*map(join, ("design", "response", "weights", "offset")))


class SolvedOnceFit(FitStrategy, OneRoundRecipe):
    """A fit that follows from one sum."""

    compared_by = "least squares of all rows in one place, by another algorithm"

    if TYPE_CHECKING:

        @property
        def names(self) -> tuple[str, ...]:
            """Names of the columns that have a coefficient."""

    @property
    def answer_size(self) -> int:
        return len(self.names)

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        return {"rows": self.layout.unpack(sums[0])["rows"]}

    def answer(self, sums: Sums) -> Vector:
        return self.fit(sums).coefficients

    @cached_property
    def _fits(self) -> dict[Hashable, LeastSquaresFit]:
        return {}

    def fit(self, sums: Sums) -> LeastSquaresFit:
        """Return the fit of the pooled rows; parties of one process share it."""
        key = sums_as_key(sums)
        if key not in self._fits:
            self._fits[key] = self.solved(sums[0][:-1])
        return self._fits[key]

    def solved(self, total: Array[Any]) -> LeastSquaresFit:
        raise NotImplementedError


@dataclass(frozen=True)
class LeastSquaresFitRecipe(SolvedOnceFit):
    """Ordinary, weighted or ridge regression: one sum of statistics, one solve."""

    asked = "statistics"

    measures: RowMeasures
    names: tuple[str, ...]
    intercept: int | None
    ridge: float
    what: str
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        return LeastSquaresCounting(self.measures).layout + LEFT_OUT

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "names": self.names,
            "intercept": self.intercept,
            "ridge": self.ridge,
        }

    def solved(self, total: Array[Any]) -> LeastSquaresFit:
        return least_squares.fit(total, self.measures, **self._given)

    def statistics(self, rows: Rows, request: Any) -> Integers:
        return least_squares.statistics(rows, self.measures)

    def contributions(self, rows: Rows, request: Any) -> FloatArray:
        del request
        return least_squares.least_squares_contributions(rows, self.measures)

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        """Return the coefficients by an orthogonal decomposition."""
        everything = joined_fit_rows(rows)
        root = np.sqrt(everything.weigh(np.ones(everything.n_rows)))
        penalty = np.full(len(self.names), np.sqrt(self.ridge))
        if self.intercept is not None:
            penalty[self.intercept] = 0.0
        plain = everything.design.astype(np.float64, copy=False)
        design = np.vstack([plain * root[:, None], np.diag(penalty)])
        right = np.append(
            _responses_without_offsets(everything) * root, np.zeros(len(penalty))
        )
        # Columns of one length, so that none is taken for a multiple of rounding.
        scale = np.linalg.norm(design, axis=0)
        found, *_ = np.linalg.lstsq(design / scale, right, rcond=None)
        return np.asarray(found / scale)

    def column_means(self, sums: Sums) -> Vector | None:
        return None if self.intercept is None else self.totals(sums[:1]).means()

    def totals(self, sums: Sums) -> ExactLeastSquares:
        return least_squares.least_squares_totals(
            sums[0][:-1], self.measures, **self._given
        )

    def bread(self, sums: Sums) -> Callable[[], Any]:
        """Return the inverse of X'WX, in balls."""
        return self.totals(sums).inverse_balls


class FitInRounds(IterativeRecipe[S]):
    """A fit by a search whose coefficients may grow without end."""

    # What to do where a fit does not converge, and where a coefficient grows.
    remedies: ClassVar[tuple[str, str]]
    # Rounds after the first that every fit takes.
    least_tries: ClassVar[int] = 1

    @property
    def round_layout(self) -> NumberLayout:
        return self.layout

    @property
    def answer_size(self) -> int:
        return len(self.search.labels)

    @property
    def most(self) -> int:
        return int(self.search.max_rounds)

    def growing(self, state: S) -> Sequence[str]:
        """Return columns whose coefficients seem to grow without end."""
        return self.search.endless_columns(state)

    def unfinished(self, state: S) -> str:
        """Return what to say of a fit for which no room is left."""
        told = (
            f"the fit has not converged in {self.most_rounds} sums, and more than "
            f"that there is no room for: {self.remedies[0]}, or {MORE_SUMS}"
        )
        if growing := self.growing(state):
            told = (
                f"the coefficient of {listed_names(growing)} seems to grow without "
                "end, "
                "which takes many rounds to be sure of: "
                f"{self.remedies[1]}. And {told}"
            )
        return told

    def fit(self, sums: Sums) -> Any:
        return self.search.fit(self.state(sums))

    def answer(self, sums: Sums) -> Vector:
        return self.fit(sums).coefficients

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        tries = self.most_rounds - 1
        later = PossibleRound.from_layout(
            "tries", self.round_layout, self.least_tries, tries
        )
        first = PossibleRound.from_layout("first", self.first_layout)
        return (first, later) if tries > 0 else (first,)


def _responses_without_offsets(rows: Rows) -> Vector:
    """Return responses, offsets taken off."""
    target = rows.response.astype(np.float64)
    return target if rows.offset is None else np.asarray(target - rows.offset)


@dataclass(frozen=True, eq=False)
class NewtonFitRecipe(FitStrategy, FitInRounds[State]):
    """A generalised linear model: one sum for each of Newton's rounds.

    The last number of each sum counts rows that were left out; all sums have the length
    of the longest, so that their shape says nothing.
    """

    remedies = (
        "scale the columns, use ridge or fewer columns",
        "leave the column out, merge categories, or use ridge",
    )

    newton: Newton
    what: str
    limit: SumReleaseLimit | None = None

    @property
    def search(self) -> Newton:
        return self.newton

    @cached_property
    def layout(self) -> NumberLayout:
        return self.newton.scales.positions + LEFT_OUT

    def first(self, sums: Sums) -> FirstStatistics:
        return self.newton.scales.first(sums[0][:-1])

    def row_counts(self, sums: Sums) -> Mapping[str, int]:
        return {} if len(sums) > 1 else {"rows": int(self.first(sums).n_rows)}

    @property
    def most(self) -> int:
        return 2 * self.newton.max_rounds

    def growing(self, state: State) -> Sequence[str]:
        """Return columns whose information has faded."""
        return self.newton.fading_columns(state)

    def statistics(self, rows: Rows, request: GlmRequest) -> Integers:
        return self.newton.statistics(rows, request)

    def contributions(self, rows: Rows, request: GlmRequest) -> FloatArray | None:
        """Return each row's part of a round; None where a dispersion is estimated."""
        if self.newton.family.estimates_alpha:
            return None
        return glm.glm_contributions(self.newton.scales, rows, request)

    def check_rows(self, rows: Rows) -> None:
        """Refuse responses that the family does not have."""
        self.newton.scales.check(rows)

    def response_mean(self, sums: Sums) -> float:
        first = self.first(sums)
        return float(first.response_sum / first.weight_sum)

    def notes(self, fit: DispersedFit) -> tuple[str, ...]:
        family, digits = self.newton.family, self.newton.digits
        if self.newton.scales.has_fineness:
            also = "deviance" if family.estimates_dispersion else "deviance and the AIC"
            return (
                f"digits = {digits}: each coefficient is right to 1e-{digits} of its "
                f"standard error, and the {also} to {fit.deviance_error:.0e}.",
            )
        if not family.estimates_alpha:
            return ()
        return (
            f"theta = 1 / alpha is {fit.theta:.6g}, standard error "
            f"{fit.theta_error:.4g}; errors of coefficients are those at this "
            "theta, as in MASS::glm.nb.",
        )

    def suspected(self, sums: Sums) -> str:
        """Return the columns whose information has faded, if an objection follows."""
        return fading_fit_columns(self.newton, self.state(sums), "The")

    def fit(self, sums: Sums) -> GlmFit:
        return self.newton.fit(self.state(sums))

    def bread(self, sums: Sums) -> Callable[[], Any]:
        """Return the inverse of the expected information, in balls."""
        return self.newton.bread(self.state(sums))

    def release(self, sums: Sums) -> SumRelease:
        request = self.newton.propose(self.state(sums))
        point = self.newton.real_point(request)
        # Pearson's sum is asked for at the point of another sum.
        pearson = f"{self.what}: Pearson's sum"
        job = pearson if request.stage == "pearson" else self.what
        layout = self.newton.scales.layout(request.stage, request.fineness) + LEFT_OUT
        return SumRelease.from_layout(job, layout, tuple(point.tolist()))

    def residues(self, sums: Sums) -> Sequence[int]:
        """Return the released bits of each number of the next sum."""
        fineness = self.newton.propose(self.state(sums)).fineness
        return () if fineness is None else fineness.residues

    def _layout(self, stage: Stage) -> NumberLayout:
        return self.newton.scales.layout(stage) + LEFT_OUT

    @property
    def foreseen(self) -> tuple[PossibleRound, ...]:
        """Possible rounds: first, further and closing ones, and one for checks only."""
        most = self.most_rounds
        scales = self.newton.scales
        closing = int(scales.closes)
        pearson = int(scales.has_fineness and scales.sums_pearson)
        outside = "outside"
        fine = scales.has_fineness
        # Of some families the last of these rounds shows what the others do.
        last = fine and self._layout("last").released != self._layout("round").released
        kinds: tuple[tuple[str, Stage, int, int], ...] = (
            ("first", "first", 1, 1),
            # A run that ends without an answer may end before its closing round.
            ("tries", "round", int(not last), most - 1),
            ("means", "means", 0, most - 2 if fine else 0),
            ("last_tries", "last", 1, most - 1 if last else 0),
            (outside, "outside", 0, most - 2),
            ("pearson", "pearson", pearson, pearson),
            ("closing", "closing", closing, closing),
        )
        return tuple(
            PossibleRound.from_layout(when, self._layout(stage), least, most)
            for when, stage, least, most in kinds
            if most
        )


def fading_fit_columns(newton: Newton, state: State, the: str) -> str:
    """Return a sentence on columns whose information has faded, if some have."""
    fading = newton.fading_columns(state, SUSPECT)
    if not fading:
        return ""
    return (
        f"{the} coefficient of {listed_names(fading)} seems to grow without end: less "
        "than "
        f"{SUSPECT:.0%} of the first information about it was left"
    )


FRACTIONS = limit_phrase("fractions")


@dataclass(frozen=True)
class AbsorbedFitRecipe(SolvedOnceFit):
    """Least squares with an effect for each party: one sum of what is left of rows."""

    asked = "statistics within parties"
    # What a party gives is made of all its rows: its own means are taken off.
    wording = BY_PARTY
    left_open = (FRACTIONS,)

    absorbing: AbsorbedCounting
    names: tuple[str, ...]
    what: str
    limit: SumReleaseLimit | None = None

    @cached_property
    def layout(self) -> NumberLayout:
        """Statistics within parties, and rows left out."""
        return self.absorbing.layout + LEFT_OUT

    def check_sum(self, sums: Sums) -> None:
        """Refuse sums of products within parties that no rows have."""
        super().check_sum(sums)
        self.absorbing.check(sums[0][:-1], self.names)

    def solved(self, total: Array[Any]) -> AbsorbedFit:
        return absorbed.fit(total, self.absorbing, names=self.names)

    def statistics(self, rows: Rows, request: Any) -> Integers:
        """Return products of columns about the party's own means."""
        return self.absorbing.vector(rows)

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        """Return the slopes of columns about each party's own means."""
        parts = []
        for part in rows.values():
            weights = part.weigh(np.ones(part.n_rows))
            design = part.design.astype(np.float64)
            columns = np.column_stack([design, _responses_without_offsets(part)])
            columns -= weights @ columns / weights.sum()
            parts.append(columns * np.sqrt(weights)[:, None])
        columns = np.concatenate(parts)
        slopes = columns[:, self.absorbing.slopes]
        found, *_ = np.linalg.lstsq(slopes, columns[:, -1], rcond=None)
        return np.asarray(found)

    def check_rows(self, rows: Rows) -> None:
        """Refuse a single row, of which its own mean leaves nothing."""
        if rows.n_rows < 2:
            raise InvalidInputError(
                f"nothing is left of {rows.n_rows} row once the party's own mean is "
                "taken off, and absorb = true does that: 2 rows or more",
                code="too-few-rows",
            )

    def check_parties(self, rules: Rules, terms: SumTerms) -> None:
        """Refuse few parties, of which columns with few values tell each one's rows."""
        least, rows = self.absorbing.least_honest, rules.minimum_rows
        while rows < MOST_ROWS_PROPOSED and least(rows) > terms.honest:
            rows *= 2
        rules.check_honest(
            least(rules.minimum_rows),
            terms.honest,
            "leave out columns with few values, such as 0 and 1",
            rows if rows < MOST_ROWS_PROPOSED else None,
        )

    def notes(self, fit: Any) -> tuple[str, ...]:
        return (
            "Each party has an intercept of its own, which it took off at home; "
            "none of them is known. R-squared is that within parties.",
        )


@dataclass(frozen=True, eq=False)
class ChoiceFitRecipe(FitStrategy, FitInRounds[ChoiceState]):
    """A choice among levels: a sum that counts them, then one for each Newton step.

    The last number of the first sum counts rows that were left out.
    """

    remedies = (
        "scale the columns, leave some out, merge levels",
        "leave the column out, or merge levels",
    )

    search: ChoiceSearch
    what: str
    limit: SumReleaseLimit | None = None

    @cached_property
    def first_layout(self) -> NumberLayout:
        """Rows of each level, X'y of a canonical link, and rows left out."""
        return self.search.scales.layouts["first"] + NumberLayout(
            (layout_number("left_out"),)
        )

    @cached_property
    def layout(self) -> NumberLayout:
        """Information, score and log-likelihood at a point."""
        return self.search.scales.layouts["round"].padded(self.first_layout.size)

    def vector(self, rows: Rows, dropped: int, request: GlmRequest) -> Integers:
        """Return one party's numbers; rows left out are counted with the levels."""
        return super().vector(rows, dropped if request.stage == "first" else 0, request)

    def statistics(self, rows: Rows, request: GlmRequest) -> Integers:
        return choices.statistics(self.search.scales, rows, request)

    def notes(self, fit: Any) -> tuple[str, ...]:
        return (self.search.family.reading.format(first=self.search.levels[0]),)

    def about_rows(
        self, sums: Sums, names: Sequence[str], columns: Sequence[str]
    ) -> list[Fraction]:
        """Return counts, and what of the second sum is about some columns alone.

        It is that of the model without columns, wherever a fit goes on from there.
        """
        places = [
            k
            for k, at in enumerate(self.search.scales.columns)
            if self.search.names[at] in names
        ]
        first = self.first_layout.unpack(sums[0])
        information = self.layout.statistics[0]
        units = information.restore(np.array(information.units))
        products = self.layout.unpack(sums[1])[information.key] * units
        counts = [Fraction(int(one)) for one in first["level_rows"]]
        counts.append(Fraction(first["left_out"]))
        return counts + sorted(triangle_of_matrix(products[np.ix_(places, places)]))

    def release(self, sums: Sums) -> SumRelease:
        point = self.search.propose(self.state(sums)).point
        if not len(point):
            return SumRelease.from_layout(self.what, self.first_layout)
        exact = [Fraction(one) for one in point.tolist()]
        real = tuple(float(one) for one in self.search.scales.real(exact))
        return SumRelease.from_layout(self.what, self.layout, real)
