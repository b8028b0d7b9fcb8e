"""Regressions of several parties, each with rows of its own, as one pooled fit.

    result = fit("y ~ age + C(sex)", {"north": frame, "south": other, ...})
    print(result.summary())

A `Model` is what is fitted, as all parties know it. Its recipe says what is summed in
each round, and what follows from the sums; a `FormulaJob` turns a table into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.jobs.fitted import (
    Fitted,
    Interval,
    MarginalMeans,
    ReferenceGrid,
    Scale,
    marginal_means,
    predicted,
)
from veilsum.jobs.nested import in_order, sums_about
from veilsum.jobs.presence import Cells, Group, Values, are_few
from veilsum.jobs.recipes import Replay, Sums, SumsOnly, by_value
from veilsum.jobs.releases import BY_PARTY, Foreseen, Release, ReleaseLimit
from veilsum.jobs.robust import ClusterRecipe, RobustRecipe, check_parties, reserved
from veilsum.jobs.score import ScoreRecipe, room_beside, shown_by_a_test
from veilsum.jobs.summary import (
    ratio_rows,
    summary_html,
    summary_text,
    table_rows,
)
from veilsum.jobs.table_job import (
    SchemaJob,
    TableAnswer,
    TableJob,
    agreed_schema,
    ask,
    check_width,
    is_simulated,
)
from veilsum.jobs.terms import Options, Terms, by_name
from veilsum.models import absorbed, least_squares
from veilsum.models.absorbed import AbsorbedFit, Absorbing
from veilsum.models.dispersion import DispersedFit, DispersedNewton
from veilsum.models.families import (
    Binomial,
    Cloglog,
    Family,
    Gamma,
    GammaInverseLink,
    Gaussian,
    InverseGaussian,
    LogLink,
    NegativeBinomial,
    NegativeBinomialEstimated,
    Poisson,
    Probit,
    QuasiBinomial,
    QuasiPoisson,
)
from veilsum.models.family_names import canonical
from veilsum.models.glm import GlmFit, Request, Scales, Stage
from veilsum.models.hypotheses import (
    Fit,
    TestOfFit,
    f_test,
    likelihood_ratio,
    score_test,
)
from veilsum.models.least_squares import Counting, Exact, LeastSquaresFit
from veilsum.models.newton import Newton, State
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import Errors, Meat, MeatRequest, errors_of
from veilsum.models.systems import check_intercept, column_names
from veilsum.numbers.arrays import Array, Vector, listed
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import BITS, ROW_BITS, Counts, Integers, Measure
from veilsum.tables.asked import Question
from veilsum.tables.columns import SchemaError
from veilsum.tables.fingerprints import Source
from veilsum.tables.formula import (
    Coded,
    ModelFormula,
    Named,
    Node,
    named_in,
    new_numbers,
    read_formula,
    shown,
)
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.rules import AtHome, Rules
from veilsum.tables.schema import CheckedTable, Schema

# Totals have 192 bits at most: beyond so many bits of a term, fewer rows have room.
WIDE_BITS, WIDE_ROW_BITS = 72, 32
# Nearly every fit that there is ends by then; with room for fewer none is begun.
LEAST_ROUNDS = 8


@dataclass(frozen=True)
class LeastSquaresRecipe(SumsOnly):
    """Ordinary, weighted or ridge regression: one sum of statistics, one solve.

    The last number of the sum counts the rows that were left out.
    """

    measures: RowMeasures
    names: tuple[str, ...]
    intercept: int | None
    ridge: float
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def counts(self) -> Counts:
        """What the numbers are whole numbers of."""
        found = Counting(self.measures).counts
        return replace(found, units=(*found.units, Fraction(1)))

    @property
    def size(self) -> int:
        """The statistics, and how many rows are missing."""
        return len(self.counts.units)

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return len(self.names)

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

    @cached_property
    def _fits(self) -> dict[Hashable, LeastSquaresFit]:
        return {}

    def fit(self, sums: Sums) -> LeastSquaresFit:
        """Return the fit of the pooled rows; parties of one process share it."""
        key = by_value(sums)
        if key not in self._fits:
            self._fits[key] = least_squares.fit(
                sums[0][:-1],
                self.measures,
                names=self.names,
                intercept=self.intercept,
                ridge=self.ridge,
            )
        return self._fits[key]

    def totals(self, sums: Sums) -> Exact:
        """Return the totals in exact numbers."""
        return least_squares.totals(
            sums[0][:-1],
            self.measures,
            names=self.names,
            intercept=self.intercept,
            ridge=self.ridge,
        )

    def bread(self, sums: Sums) -> Callable[[], Any]:
        """Return the inverse of X'WX, in balls."""
        return self.totals(sums).inverse_balls

    def missing(self, sums: Sums) -> int:
        """Return how many rows all parties left out."""
        return int(sums[0][-1])

    def release(self, sums: Sums) -> Release:
        """Return what the sum shows."""
        del sums
        p = len(self.names)
        shown = {
            "X'WX": p * (p + 1) // 2,
            "X'Wy": p,
            "y'Wy, sums of Wy, of the weights and of their logarithms": 4,
            "rows, and rows left out": 2,
        }
        return Release(self.what, shown)


@dataclass(frozen=True, eq=False)
class NewtonRecipe(SumsOnly):
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

    @cached_property
    def counts(self) -> Counts:
        """What the numbers are whole numbers of, in every round."""
        found = self.newton.counts
        return replace(found, units=(*found.units, Fraction(1)))

    @property
    def size(self) -> int:
        """The statistics of a round, and how many rows are missing."""
        return len(self.counts.units)

    @property
    def answer_size(self) -> int:
        """One number for each column."""
        return self.newton.n_columns

    @property
    def most_rounds(self) -> int:
        """As many sums as there is room for, those that ask for rows outside too."""
        if self.limit is None:
            return 2 * self.newton.max_rounds
        return self.limit.rounds(self.size)

    @property
    def most_numbers(self) -> int:
        """Those of all sums that there is room for."""
        return self.size * self.most_rounds

    def request(self, sums: Sums) -> Request | None:
        """Ask for statistics at Newton's next point."""
        if not sums and self.limit is not None:
            least = min(LEAST_ROUNDS, self.limit.most_rounds)
            self.limit.check(self.size, least)
        state = self._state(sums)
        if state.converged:
            return None
        if len(sums) == self.most_rounds:
            raise InvalidInputError(self._unfinished(state))
        return self.newton.propose(state)

    def _unfinished(self, state: State) -> str:
        """Return what to say of a fit for which no room is left."""
        told = (
            f"the fit has not converged in {self.most_rounds} sums, and more than "
            "that there is no room for: scale the columns, use ridge or fewer columns, "
            "or agree on more [schema] minimum_rows, or openly on more [policy] "
            "most_rounds or release_fraction"
        )
        if fading := self.newton.fading_columns(state):
            told = (
                f"the coefficient of {listed(fading)} seems to grow without end, which "
                "takes many rounds to be sure of: leave the column out, merge "
                f"categories, or use ridge. And {told}"
            )
        return told

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> GlmFit:
        """Return the fit of the pooled rows."""
        return self.newton.fit(self._state(sums))

    def bread(self, sums: Sums) -> Callable[[], Any]:
        """Return the inverse of the expected information, in balls."""
        return self.newton.bread(self._state(sums))

    def missing(self, sums: Sums) -> int:
        """Return how many rows all parties left out."""
        return int(sums[0][-1])

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and where it is evaluated."""
        request = self.newton.propose(self._state(sums))
        point = self.newton.real_point(request)
        return Release(self.what, self._shown(request.stage), tuple(point.tolist()))

    def _shown(self, stage: Stage) -> dict[str, int]:
        p = self.newton.n_columns
        shown = _shown(stage, p)
        if stage == "round" and isinstance(self.newton, DispersedNewton):
            shown |= {
                "slope and curvature in log theta, saturated log-likelihood": 3,
                "score's change with log theta": p,
            }
        return shown | {"rows left out": 1}

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What a first, a further, a closing round shows; and one that only asks."""
        most = self.most_rounds
        closing = int(self.newton.family.closes)

        def rounds(when: str, stage: Stage, least: int, most: int) -> Foreseen:
            return Foreseen(when, self._shown(stage), least, most)

        found = (
            rounds("the first round", "first", 1, 1),
            # A run that ends without an answer may end before its closing round.
            rounds("every round that tries coefficients", "round", 1, most - 1),
            rounds(
                "a round that asks whether they may be tried", "outside", 0, most - 2
            ),
            rounds("a last round, at the answer", "closing", closing, closing),
        )
        return tuple(one for one in found if one.most)

    def _state(self, sums: Sums) -> State:
        return self._places.state(sums)

    def _advance(self, before: State, total: Array[Any]) -> State:
        return self.newton.advance(before, total[:-1])


def _shown(stage: Stage, p: int) -> dict[str, int]:
    """Return what a round shows beside rows left out, and how many numbers of each."""
    shown = {"information": p * (p + 1) // 2}
    match stage:
        case "first":
            words = "sums of weights, responses, offsets, saturated log-likelihood"
            return shown | {"X'Vz": p, words: 4, "rows": 1}
        case "round":
            null = "score, information and deviance of the null model"
            others = "deviance, Pearson's sum"
            return shown | {"score": p, others: 2, null: 3}
        case "outside":
            return {"rows outside, of the model and of the null model": 2}
        case "closing":
            return shown | {"saturated log-likelihood": 1}
        case "score":
            return shown_by_a_test(p)


FRACTIONS = (
    "what a party takes off is a fraction of its number of rows: where few honest "
    "parties are in a sum, and a column has few values, such as 0 and 1, trying all "
    "numbers may tell how many rows of a party there are, and with which value; "
    "whose they are is not told"
)


@dataclass(frozen=True)
class AbsorbedRecipe(SumsOnly):
    """Least squares with an effect for each party: one sum of what is left of rows.

    The last number of the sum counts the rows that were left out.
    """

    # What a party gives is made of all its rows: its own means are taken off.
    wording = BY_PARTY
    left_open = (FRACTIONS,)

    absorbing: Absorbing
    names: tuple[str, ...]
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def counts(self) -> Counts:
        """What the numbers are whole numbers of."""
        found = self.absorbing.counts
        return replace(found, units=(*found.units, Fraction(1)))

    @property
    def size(self) -> int:
        """The statistics, and how many rows are missing."""
        return len(self.counts.units)

    @property
    def answer_size(self) -> int:
        """One number for each slope."""
        return len(self.names)

    def request(self, sums: Sums) -> str | None:
        """Ask for the statistics, once."""
        if sums:
            return None
        if self.limit is not None:
            self.limit.check(self.size)
        return "statistics within parties"

    def answer(self, sums: Sums) -> Vector:
        """Return the slopes."""
        return self.fit(sums).coefficients

    @cached_property
    def _fits(self) -> dict[Hashable, AbsorbedFit]:
        return {}

    def fit(self, sums: Sums) -> AbsorbedFit:
        """Return the fit of the pooled rows; parties of one process share it."""
        key = by_value(sums)
        if key not in self._fits:
            total = sums[0][:-1]
            self._fits[key] = absorbed.fit(total, self.absorbing, names=self.names)
        return self._fits[key]

    def missing(self, sums: Sums) -> int:
        """Return how many rows all parties left out."""
        return int(sums[0][-1])

    def release(self, sums: Sums) -> Release:
        """Return what the sum shows."""
        del sums
        p = len(self.names)
        shown = {
            "X'WX within parties": p * (p + 1) // 2,
            "X'Wy within parties": p,
            "y'Wy within parties, and the sum of the logarithms of weights": 2,
            "rows, parties, and rows left out": 3,
        }
        return Release(self.what, shown)


RegressionRecipe = (
    LeastSquaresRecipe | AbsorbedRecipe | NewtonRecipe | RobustRecipe | ScoreRecipe
)

FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian(),
    "logistic": Binomial(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "gamma-inverse": GammaInverseLink(),
    "inverse-gaussian": InverseGaussian(),
    "probit": Probit(),
    "cloglog": Cloglog(),
    "quasi-poisson": QuasiPoisson(),
    "quasi-binomial": QuasiBinomial(),
}
NEGATIVE_BINOMIAL = "negative-binomial"


def family_of(name: str | Family, *, alpha: float | None = None) -> Family:
    """Return the family with this name; a negative binomial one may have an alpha."""
    if isinstance(name, Family):
        return name
    name = canonical(name)
    if name == NEGATIVE_BINOMIAL:
        if alpha is None:
            return NegativeBinomialEstimated(1.0)
        return NegativeBinomial(alpha)
    if alpha is not None:
        raise InvalidInputError(
            f'alpha belongs to family = "{NEGATIVE_BINOMIAL}", found family = "{name}"'
        )
    if name not in FAMILIES:
        known = ", ".join([*FAMILIES, NEGATIVE_BINOMIAL])
        raise InvalidInputError(f"no family is called {name!r}; choose from {known}")
    return FAMILIES[name]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A regression without its data.

    Attributes:
        response: its name.
        names: of the columns.
        intercept: which column is all ones, if any.
        family: of the response; gaussian is solved in one sum.
        measures: how the numbers of a row are counted.
        ridge: what each squared coefficient but the intercept's costs.
        variables: how many numbers a row holds, if the design has more: powers and
            dummies of a number are no further numbers.
        errors: robust ones, which take one more sum; None for the model's own.
        absorb: whether every party has an intercept of its own, which is not shown.
        tested: columns of the design that are not fitted: their score is tested.
    """

    response: str
    names: tuple[str, ...]
    intercept: int | None
    family: Family
    measures: RowMeasures
    ridge: float = 0.0
    variables: int | None = None
    errors: Errors | None = None
    absorb: bool = False
    tested: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_tested()
        if self.errors is not None and self.ridge:
            raise InvalidInputError(
                f"errors = {self.errors!r} are those of a fit without a ridge, found "
                f"ridge = {self.ridge:g}: leave one of them out"
            )
        if self.errors and isinstance(self.family, NegativeBinomialEstimated):
            raise InvalidInputError(
                f"errors = {self.errors!r} are those of a law that is known, and alpha "
                "is to be estimated: use the errors of the model, or give alpha"
            )
        if not self.absorb:
            return
        if not isinstance(self.family, Gaussian):
            raise InvalidInputError(
                "absorb = true takes effects of parties off a gaussian fit, found "
                f"family = {self.family.name!r}: leave absorb out"
            )
        if self.ridge:
            raise InvalidInputError(
                f"absorb = true goes without a ridge, found ridge = {self.ridge:g}"
            )
        if self.intercept is None:
            raise InvalidInputError(
                "absorb = true gives every party an intercept of its own: write the "
                "formula without 0 or -1"
            )
        if self.errors is not None:
            raise InvalidInputError(
                f"absorb = true goes without robust errors, found errors = "
                f"{self.errors!r}: leave one of them out"
            )
        if len(self.names) == 1:
            raise InvalidInputError(
                "absorb = true needs a column beside the parties' own intercepts, "
                "found none in the formula"
            )

    def _check_tested(self) -> None:
        if not self.tested:
            return
        if isinstance(self.family, Gaussian):
            raise InvalidInputError(
                "the score test of least squares follows from two fits: fit both, and "
                "use compare_score; leave out further"
            )
        estimated = isinstance(self.family, NegativeBinomialEstimated)
        if self.ridge or self.errors is not None or self.absorb or estimated:
            raise InvalidInputError(
                "further goes without ridge, robust errors, absorb and an alpha that "
                "is estimated: leave one of them out"
            )

    @property
    def fitted(self) -> tuple[int, ...]:
        """Where the columns are that are fitted."""
        return tuple(k for k, n in enumerate(self.names) if n not in self.tested)

    @property
    def slopes(self) -> tuple[str, ...]:
        """The columns that the answer has a coefficient of."""
        if not self.absorb:
            return tuple(self.names[k] for k in self.fitted)
        return tuple(n for k, n in enumerate(self.names) if k != self.intercept)

    @property
    def absorbing(self) -> Absorbing:
        """How parties take off their own effects."""
        assert self.intercept is not None
        return Absorbing(self.measures, self.intercept)

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds at most: columns but the ones, response, weight, offset."""
        columns = len(self.names) - (self.intercept is not None)
        further = self.measures.weights, self.measures.offset
        most = columns + 1 + sum(one is not None for one in further)
        return most if self.variables is None else min(most, self.variables)

    @property
    def words(self) -> str:
        """What is released belongs to this statistic, whatever the round."""
        within = " within parties" if self.absorb else ""
        return (
            f"{self.family.name} regression of {self.response} on "
            f"{', '.join(self.slopes)}{within}"
        )

    @property
    def terms(self) -> dict[str, Any]:
        """What parties compare before they start."""
        return {
            "response": self.response,
            "names": self.names,
            "intercept": self.intercept,
            "family": [self.family.name, asdict(self.family)],
            "measures": self.measures.terms,
            "ridge": self.ridge,
            "variables": self.variables,
            "weighted": self.measures.weights is not None,
            "offset": self.measures.offset is not None,
            "errors": self.errors,
            "absorb": self.absorb,
            "tested": self.tested,
        }

    @property
    def wide(self) -> Newton:
        """The rounds of a model that has the columns that are tested as well."""
        return Newton(
            self.family, self.measures, names=self.names, intercept=self.intercept
        )

    @property
    def newton(self) -> Newton:
        """The rounds of a family that needs them."""
        estimated = isinstance(self.family, NegativeBinomialEstimated)
        kind = DispersedNewton if estimated else Newton
        return kind(
            self.family,
            replace(
                self.measures,
                design=tuple(self.measures.design[k] for k in self.fitted),
            ),
            names=self.slopes,
            intercept=(
                None if self.intercept is None else self.fitted.index(self.intercept)
            ),
            ridge=self.ridge,
        )

    def check(self, party: str, rows: Rows) -> None:
        """Refuse rows that do not have what the model has, or go beyond ranges."""
        for what in ("weights", "offset"):
            if (getattr(rows, what) is None) != (getattr(self.measures, what) is None):
                raise InvalidInputError(
                    f"{party}: all parties' rows have {what}, or none do"
                )
        if rows.n_columns != len(self.names):
            raise InvalidInputError(
                f"{party}: the model has {len(self.names)} columns, found "
                f"{rows.n_columns}"
            )
        if self.absorb and rows.n_rows < 2:
            raise InvalidInputError(
                f"{party}: nothing is left of {rows.n_rows} row once the party's own "
                "mean is taken off, and absorb = true does that: 2 rows or more"
            )
        try:
            self.measures.check(rows, self.names, self.response)
            if not isinstance(self.family, Gaussian):
                self.wide.scales.check(rows)
        except InvalidInputError as error:
            raise type(error)(f"{party}: {error}", plain=error.plain) from None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The values of columns that have one of two, as far as measures tell."""
        found: list[Group] = [
            Values(name, one, place)
            for place, (name, one) in enumerate(
                zip(self.names, self.measures.design, strict=True)
            )
            if are_few(one)
        ]
        for name in ("response", "weights", "offset"):
            one = getattr(self.measures, name)
            if one is not None and are_few(one):
                found.append(Values(name, one, name))
        return tuple(found)

    def look(self, rows: Rows, at: str | int) -> Array[Any]:
        """Return a column of some rows: of the design by its place."""
        found = rows.design[:, at] if isinstance(at, int) else getattr(rows, at)
        return np.asarray(found)

    def check_at_home(self, home: AtHome, rows: Rows, **columns: Any) -> None:
        """Refuse rows of which the fit would show too much; see `AtHome.design`."""
        for what in ("weights", "offset"):
            if (values := getattr(rows, what)) is not None:
                measure = getattr(self.measures, what)
                home.column(what, values, two_valued=partial(_is_two_valued, measure))
        if rows.offset is not None and isinstance(self.family, LogLink):
            # A row counts as much as its mean, which grows like this.
            grown = np.exp(rows.offset - rows.offset.max())
            home.column("exp(offset)", grown, two_valued=lambda: True)
        home.design(rows, self.names, intercept=self.intercept, **columns)

    def check_columns_at_home(self, home: AtHome, rows: Rows) -> None:
        """Refuse the same where nothing is known of a column but its numbers."""

        def two_valued(column: int) -> bool:
            return _is_two_valued(self.measures.design[column])

        home.column(
            self.response,
            rows.response,
            two_valued=partial(_is_two_valued, self.measures.response),
        )
        self.check_at_home(home, rows, two_valued=two_valued)

    @cached_property
    def meat(self) -> Meat | None:
        """What robust errors are made of, if there are any."""
        if self.errors is None:
            return None
        return Meat(Scales.of(self.family, self.measures, self.intercept), self.errors)

    def check_parties(self, rules: Rules, terms: Terms) -> None:
        """Refuse errors that so few parties, or such masks, must not be asked for."""
        if self.meat is not None:
            check_parties(self.meat, rules, terms)

    def recipe(self, limit: ReleaseLimit | None = None) -> RegressionRecipe:
        """Return what parties do to fit it."""
        if self.tested:
            wide = self.wide
            inner = self._fitting(room_beside(limit, wide.scales.size + 1))
            return ScoreRecipe(inner, wide, self.fitted, limit)
        if self.meat is None:
            return self._fitting(limit)
        size = self._fitting(None).size
        inner = self._fitting(reserved(limit, size))
        kind = ClusterRecipe if self.meat.by_party else RobustRecipe
        return kind(inner, self.meat, limit)

    def _fitting(
        self, limit: ReleaseLimit | None
    ) -> LeastSquaresRecipe | AbsorbedRecipe | NewtonRecipe:
        if not isinstance(self.family, Gaussian):
            return NewtonRecipe(self.newton, self.words, limit)
        if self.absorb:
            return AbsorbedRecipe(self.absorbing, self.slopes, self.words, limit)
        return LeastSquaresRecipe(
            self.measures, self.names, self.intercept, self.ridge, self.words, limit
        )

    def source(self, rows: Rows) -> Source:
        """Return rows as a table of the numbers that they hold."""
        design, first = rows.design[:, 1:], self.intercept == 0  # that is no copy
        if not first:
            columns = range(len(self.names))
            design = rows.design[:, [one for one in columns if one != self.intercept]]
        return Source.of_arrays(
            design=design,
            response=rows.response,
            weights=rows.weights,
            offset=rows.offset,
        )

    def vector(
        self, rows: Rows, dropped: int, request: Request | MeatRequest | str
    ) -> Integers:
        """Return what some rows add up to; the last number counts rows left out."""
        if isinstance(request, MeatRequest):
            assert self.meat is not None
            meat = self.meat.statistics(rows, request)
            filling = np.zeros(self._fitting(None).size - len(meat), dtype=object)
            return np.concatenate([meat, filling])
        if isinstance(request, Request) and self.tested:
            return self._vector_with_test(rows, dropped, request)
        if isinstance(request, Request):
            found = self.newton.statistics(rows, request)
        elif self.absorb:
            found = self.absorbing.vector(rows)
        else:
            found = least_squares.statistics(rows, self.measures)
        return np.append(found, np.array([dropped], dtype=object))

    def _vector_with_test(self, rows: Rows, dropped: int, request: Request) -> Integers:
        """Return the same, filled up to the length of the last sum."""
        vector = np.zeros(self.wide.scales.size + 1, dtype=object)
        if request.stage == "score":
            found = self.wide.statistics(rows, request)
        else:
            few = replace(rows, design=rows.design[:, self.fitted])
            found = np.append(self.newton.statistics(few, request), dropped)
        vector[: len(found)] = found
        return vector

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        """Return the coefficients as one owner of all rows would find them.

        Least squares from the rows themselves, by an orthogonal decomposition;
        everything else by the same rounds, without masks.
        """
        everything = _joined(rows)
        if self.absorb:
            return self._about_means(rows)
        if isinstance(self.family, Gaussian):
            return self._by_orthogonal_columns(everything)
        recipe, sums = self._fitting(None), list[Integers]()
        while (request := recipe.request(sums)) is not None:
            sums.append(self.vector(everything, 0, request)[: recipe.size])
        return recipe.answer(sums)

    def _about_means(self, rows: Mapping[str, Rows]) -> Vector:
        """Return the slopes of columns about each party's own means."""
        parts = []
        for part in rows.values():
            weights = part.weigh(np.ones(part.n_rows))
            target = part.response.astype(np.float64)
            if part.offset is not None:
                target = target - part.offset
            columns = np.column_stack([part.design.astype(np.float64), target])
            columns -= weights @ columns / weights.sum()
            parts.append(columns * np.sqrt(weights)[:, None])
        columns = np.concatenate(parts)
        kept = [k for k in range(len(self.names)) if k != self.intercept]
        found, *_ = np.linalg.lstsq(columns[:, kept], columns[:, -1], rcond=None)
        return np.asarray(found)

    def _by_orthogonal_columns(self, rows: Rows) -> Vector:
        root = np.sqrt(rows.weigh(np.ones(rows.n_rows)))
        target = rows.response.astype(np.float64)
        if rows.offset is not None:
            target = target - rows.offset
        penalty = np.full(len(self.names), np.sqrt(self.ridge))
        if self.intercept is not None:
            penalty[self.intercept] = 0.0
        plain = rows.design.astype(np.float64, copy=False)
        design = np.vstack([plain * root[:, None], np.diag(penalty)])
        right = np.append(target * root, np.zeros(len(penalty)))
        # Columns of one length, so that none is taken for a multiple of rounding.
        scale = np.linalg.norm(design, axis=0)
        found, *_ = np.linalg.lstsq(design / scale, right, rcond=None)
        return np.asarray(found / scale)


def _is_two_valued(measure: Measure) -> bool:
    return measure.most - measure.least <= 1


def _joined(rows: Mapping[str, Rows]) -> Rows:
    parts = list(rows.values())

    def join(what: str) -> Array[np.float64] | None:
        found = [getattr(part, what) for part in parts]
        return None if found[0] is None else np.concatenate(found)

    return Rows(
        np.concatenate([part.design for part in parts]),
        np.concatenate([part.response for part in parts]),
        join("weights"),
        join("offset"),
    )


def inferred_schema(
    formula: str,
    used: Sequence[str | None],
    frames: Mapping[str, Frame],
    minimum_rows: int | None,
) -> Schema:
    """Return a schema that fits all tables, of the columns that the job names.

    What is in C(...) has categories.
    """
    read = read_formula(formula)
    words = {*read.columns, *used}
    known = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    named = [name for name in known if name in words]
    for party, frame in frames.items():
        missing = [name for name in named if name not in frame.columns]
        if missing:
            raise SchemaError(
                party,
                missing[0],
                "column",
                f"there is no column {missing[0]!r}, which other parties have; the "
                f"table has {listed(list(frame.columns))}: rename one of them, or fit "
                "without it",
            )
    levels = dict.fromkeys(set(read.categories) & set(named), "category")
    seen = {party: frame.astype(levels) for party, frame in frames.items()}
    return Schema.inferred(seen, named or None, minimum_rows=minimum_rows)


@dataclass(frozen=True)
class RowsJob(TableJob[Rows]):
    """A regression of arrays: nothing is known of a column but its numbers."""

    model: Model

    @property
    def n_columns(self) -> int:
        """How wide the design is."""
        return len(self.model.names)

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.model.numbers_in_a_row

    @property
    def groups(self) -> tuple[Group, ...]:
        """The values of columns that have few."""
        return self.model.groups

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {"model": self.model.terms}

    def check_parties(self, rules: Rules, terms: Terms) -> None:
        """Refuse errors that so few parties, or such masks, must not be asked for."""
        self.model.check_parties(rules, terms)

    def recipe(self, limit: ReleaseLimit | None = None) -> RegressionRecipe:
        """Return what parties do to fit it."""
        return self.model.recipe(limit)

    def n_rows(self, own: Rows) -> int:
        """Return how many rows a party has to give."""
        return own.n_rows

    def check(self, party: str, own: Rows) -> None:
        """Refuse rows that do not have what the model has, or go beyond ranges."""
        self.model.check(party, own)

    def check_at_home(self, home: AtHome, own: Rows) -> None:
        """Refuse columns that point at few rows, or at this party."""
        self.model.check_columns_at_home(home, own)

    def look(self, own: Rows, at: str | int) -> Array[Any]:
        """Return a column: of the design by its place."""
        return self.model.look(own, at)

    def answer(self, own: Rows, request: Any) -> Integers:
        """Return what one party gives."""
        return self.model.vector(own, 0, request)


@dataclass(frozen=True, eq=False, repr=False)
class Brought(Secret):
    """One party's table, and the rows that a formula makes of it."""

    table: CheckedTable
    rows: Rows


@dataclass(frozen=True)
class FormulaJob(SchemaJob[Brought]):
    """A regression given by a formula over an agreed schema.

    Attributes:
        formula: checked against the schema.
        family: of the response.
        weights: the column of weights, if rows have them.
        offset: the column of offsets.
        ridge: what each squared coefficient but the intercept's costs.
        bits: what a term keeps of its range that has no unit of its own.
        absorb: whether every party has an intercept of its own, which is not shown.
        measures: how numbers are counted, where ranges alone do not tell.
        errors: robust ones, if any.
        tested: columns of the formula that are not fitted: their score is tested.
    """

    follows = "the coefficients, their standard errors, and tests"

    formula: ModelFormula
    family: Family
    weights: str | None = None
    offset: str | None = None
    ridge: float = 0.0
    bits: int = BITS
    absorb: bool = False
    measures: RowMeasures | None = None
    errors: Errors | None = None
    tested: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        text: str,
        schema: Schema,
        family: Family,
        weights: str | None = None,
        offset: str | None = None,
        ridge: float = 0.0,
        bits: int = BITS,
        errors: str | None = None,
        *,
        absorb: bool = False,
        further: str | None = None,
    ) -> FormulaJob:
        """Return the job on those columns that it needs: others may be missing."""
        formula = ModelFormula.of(text, schema)
        tested: tuple[str, ...] = ()
        if further is not None:
            few = formula.columns
            formula = ModelFormula.of(f"{text} + {further}", schema)
            tested = tuple(one for one in formula.columns if one not in few)
            if not tested or len(tested) + len(few) != len(formula.columns):
                raise InvalidInputError(
                    f"further = {further!r} adds columns to those of the formula, and "
                    f"these stay what they are: found {listed(few)} without it, and "
                    f"{listed(formula.columns)} with it"
                )
        needed = {*formula.variables, weights, offset}
        used = tuple(one for one in schema.columns if one.name in needed)
        narrow = replace(formula, schema=replace(schema, columns=used))
        kind = errors_of(errors)
        return cls(
            *(narrow, family, weights, offset, ridge, bits),
            absorb=absorb,
            errors=kind,
            tested=tested,
        )

    @property
    def schema(self) -> Schema:
        """What the tables were agreed to look like, as far as it matters here."""
        return self.formula.schema

    @cached_property
    def model(self) -> Model:
        """What is fitted; measures follow from the schema, unless they are given."""
        if self.measures is not None:
            return self.counted(self.measures)
        weights, offset = (
            None if column is None else self.schema.column(column).measure
            for column in (self.weights, self.offset)
        )
        return self.counted(
            RowMeasures.of(
                self.formula.measures(self.bits),
                self.formula.response_measure(self.bits),
                intercept=self.formula.intercept,
                weights=weights,
                offset=offset,
                # So wide totals leave room for fewer rows.
                row_bits=ROW_BITS if self.bits <= WIDE_BITS else WIDE_ROW_BITS,
            )
        )

    def counted(self, measures: RowMeasures) -> Model:
        """Return what is fitted, with these measures."""
        return Model(
            response=self.formula.response,
            names=self.formula.columns,
            intercept=self.formula.intercept,
            family=self.family,
            measures=measures,
            ridge=self.ridge,
            variables=len(self.schema.columns),
            errors=self.errors,
            absorb=self.absorb,
            tested=self.tested,
        )

    @property
    def n_columns(self) -> int:
        """How wide the design is: a few letters can stand for thousands of columns."""
        return len(self.formula.columns)

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.model.numbers_in_a_row

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        return {
            "model": self.model.terms,
            "formula": self.formula.text,
            "codings": self.formula.codings,
            "schema": self.schema.to_table(),
            "columns": [self.weights, self.offset],
            "bits": self.bits,
        }

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return Question(
            schema=self.asked_about,
            formula=self.formula.text,
            weights=self.weights,
            offset=self.offset,
        )

    def check_parties(self, rules: Rules, terms: Terms) -> None:
        """Refuse errors that so few parties, or such masks, must not be asked for."""
        self.model.check_parties(rules, terms)

    def recipe(self, limit: ReleaseLimit | None = None) -> RegressionRecipe:
        """Return what parties do to fit it."""
        return self.model.recipe(limit)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Levels, cells and values that few parties might hold.

        Of columns of the schema, in its order; then of categories that are multiplied,
        and of what else in the design has two values.
        """
        schema, made = self.schema, self.formula.made_of
        design = self.model.measures.design
        found: list[Group] = []
        for one in schema.columns:
            if one.is_category:
                found.append(Cells((one.name,), (one.categories,)))
            elif are_few(one.measure):
                found.append(Values(one.name, one.measure, one.name))
        for names in dict.fromkeys(names for names, _ in made if len(names) > 1):
            levels = tuple(schema.column(name).categories for name in names)
            found.append(Cells(names, levels))
        for place, (names, numbers) in enumerate(made):
            alone = not names and len(numbers) == 1 and numbers[0] in schema
            if numbers and not alone and are_few(design[place]):
                found.append(Values(self.formula.columns[place], design[place], place))
        return tuple(found)

    def look(self, own: Brought, at: str | int) -> Array[Any]:
        """Return one party's column of its table by name, or of its design by place."""
        return own.rows.design[:, at] if isinstance(at, int) else own.table.look(at)

    def n_rows(self, own: Brought) -> int:
        """Return how many rows a party has to give."""
        return own.rows.n_rows

    def check(self, party: str, own: Brought) -> None:
        """Refuse rows that go beyond ranges."""
        self.model.check(party, own.rows)

    def answer(self, own: Brought, request: Any) -> Integers:
        """Return what one party gives."""
        return self.model.vector(own.rows, own.table.n_dropped, request)

    def check_at_home(self, home: AtHome, own: Brought) -> None:
        """Refuse a table of which columns, or what they make, would show too much."""
        self._check_parts(home, own.table)
        self.model.check_at_home(
            home,
            own.rows,
            shaped=self.formula.response_is_shaped,
            groups=self.formula.by_variables,
        )

    def _check_parts(self, home: AtHome, table: CheckedTable) -> None:
        formula = self.formula
        coded: dict[Node, tuple[str, Array[Any], Sequence[Any]]] = {}
        for node, values in formula.parts(table):
            name = shown(node)
            labels: Sequence[Any] = ()
            if isinstance(node, Named | Coded):
                labels = self.schema.column(next(named_in(node))).categories
            if labels:
                home.category(name, values, labels)
                home.cells([name], [values], [labels])
                coded[node] = name, values, labels
                continue
            home.column(
                name,
                values,
                two_valued=partial(formula.is_two_valued, node),
                agreed=None if isinstance(node, Named) else partial(formula.span, node),
            )
            found = np.unique(values[:1000])
            if len(found) <= 2 and np.isin(values, found).all():
                coded[node] = name, np.searchsorted(found, values), found.tolist()
        for factors in formula.crossed:
            cells = [coded[node] for node in factors if node in coded]
            if len(cells) > 1:
                home.cells(*(list(one) for one in zip(*cells, strict=True)))
        if (added := formula.addends(table)) is not None:
            ones = np.ones((len(added), 1))
            names = ["1", *(f"addend {k}" for k in range(1, added.shape[1] + 1))]
            home.design(Rows(np.hstack([ones, added]), ones[:, 0]), names, intercept=0)

    def bring(self, table: CheckedTable) -> Brought:
        """Return a party's table with the rows that the formula makes of it."""
        return Brought(table, self.rows(table))

    def rows(self, table: CheckedTable) -> Rows:
        """Return one party's rows."""
        design, response = self.formula.design(table, self.bits)
        weights, offset = (
            None if column is None else self.formula.numeric(table, column)
            for column in (self.weights, self.offset)
        )
        try:
            return Rows(design, response, weights, offset)
        except InvalidInputError as error:
            raise SchemaError(table.party, self.weights, "rows", str(error)) from None


def formula_job(
    schema: Schema,
    *,
    formula: str,
    family: str = "gaussian",
    alpha: float | None = None,
    **given: Any,
) -> FormulaJob:
    """Return a regression as a file asks for it; refuse a formula beside the schema."""
    job = FormulaJob.of(formula, schema, family_of(family, alpha=alpha), **given)
    for column in (job.weights, job.offset):
        if column is not None:
            row = as_frame({column: [1.0]})
            CheckedTable("", schema, row, 0).numbers(column)
    return job


UNLIMITED = (
    "release_fraction is 1 or more: the released sums may be enough to solve for rows"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitResult(Fitted):
    """A fit of all parties' rows, and what they released for it.

    Attributes:
        model: what was fitted.
        rules: what every party kept to.
        job: the formula and its schema, where there is one.
        reference: the pooled coefficients, where one computer has all rows and was
            asked to compare.
    """

    model: Model
    rules: Rules
    job: FormulaJob | None = None
    reference: Vector | None = None

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What the rules about rows leave open."""
        free = (UNLIMITED,) if self.rules.release_fraction >= 1.0 else ()
        return (*super().further_limits, *self.rules.open, *free)

    @cached_property
    def fit(self) -> LeastSquaresFit | GlmFit:
        """Coefficients, their errors, and everything else that follows from sums."""
        recipe, sums = self.inner
        among = cast("RegressionRecipe", recipe).among(self.released.members)
        return among.fit(sums)

    @property
    def coefficients(self) -> dict[str, float]:
        """The estimates by column."""
        return dict(zip(self.fit.names, self.fit.coefficients.tolist(), strict=True))

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: only this sum is known."""
        recipe, sums = self.inner
        return cast("RegressionRecipe", recipe).missing(sums)

    @property
    def max_error(self) -> float | None:
        """How far the coefficients are from the pooled ones; None if not compared."""
        if self.reference is None:
            return None
        return float(np.linalg.norm(self.fit.coefficients - self.reference))

    @property
    def nobs(self) -> int:
        """Rows of all parties."""
        return self.fit.n_rows

    @property
    def df_resid(self) -> float:
        """Rows less coefficients in effect."""
        return self.fit.residual_degrees

    @property
    def df_model(self) -> float:
        """Coefficients in effect; the intercept is not counted."""
        return self.fit.model_degrees - (self.model.intercept is not None)

    @property
    def llf(self) -> float:
        """The log-likelihood."""
        return self.fit.log_likelihood

    @property
    def aic(self) -> float:
        """-2 llf + 2 coefficients."""
        return self.fit.aic

    @property
    def bic(self) -> float:
        """-2 llf + log(nobs) coefficients."""
        return self.fit.bic

    @property
    def scale(self) -> float:
        """The residual variance of least squares, or the dispersion."""
        fit = self.fit
        if isinstance(fit, LeastSquaresFit):
            return fit.residual_variance
        return fit.dispersion

    @property
    def rsquared(self) -> float:
        """Of least squares: the part of the response's squares that is explained."""
        return self._least_squares("rsquared").r_squared

    @property
    def rsquared_adj(self) -> float:
        """The same, adjusted for the number of columns."""
        return self._least_squares("rsquared_adj").adjusted_r_squared

    def _least_squares(self, what: str) -> LeastSquaresFit:
        if not isinstance(self.fit, LeastSquaresFit):
            raise InvalidInputError(
                f"{what} is for least squares, found {self.model.family.name}: see "
                "deviance and null_deviance of .fit"
            )
        return self.fit

    def ratios(self, level: float = 0.95) -> Frame:
        """Return exp of coefficients, such as odds ratios, with their intervals."""
        rows = ratio_rows(self.fit, level)
        return load_pandas().DataFrame(rows).set_index("name")

    def compare_lr(self, other: FitResult) -> TestOfFit:
        """Return the likelihood-ratio test of two nested fits, in any order."""
        return likelihood_ratio(*self._nested(other))

    def compare_f(self, other: FitResult) -> TestOfFit:
        """Return the F test of two nested fits with an estimated dispersion."""
        return f_test(*self._nested(other))

    def compare_score(self, other: FitResult) -> TestOfFit:
        """Return the score test of two nested least squares fits."""
        return score_test(*self._nested(other))

    def score_test(self, columns: Sequence[str] | None = None) -> TestOfFit:
        """Return the score test of the columns that `further` named, as R's Rao.

        Args:
            columns: some of them, by name; all by default.
        """
        recipe, sums = self.inner
        if not isinstance(recipe, ScoreRecipe):
            raise InvalidInputError(
                "a score test is of columns beside the fit, and takes one more sum: "
                'fit with further="..."'
            )
        for one in columns or ():
            if one not in self.model.tested:
                raise InvalidInputError(
                    f"{one!r} is not among the columns that are tested: "
                    f"{listed(self.model.tested)}"
                )
        return recipe.test(sums, columns)

    @property
    def _fitting(self) -> tuple[LeastSquaresRecipe | NewtonRecipe, Sums]:
        """The recipe of the fit itself, and its sums; one for errors may follow."""
        recipe, sums = self.inner
        wrapped = isinstance(recipe, RobustRecipe | ScoreRecipe)
        return (recipe.inner if wrapped else recipe), sums

    def _nested(self, other: FitResult) -> tuple[Fit, Fit]:
        """Return the larger fit and the smaller; refuse what cannot be compared."""
        large, small = in_order(self, other)
        return large.fit, small.fit

    @property
    def columns(self) -> tuple[str, ...]:
        """What it has coefficients of."""
        return self.model.slopes

    def rows_of_fit(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what tells which rows a fit is of, and by which law, by its name.

        The first sum's part about some columns is one of rows alone, to the last
        digit, whatever other columns there are.
        """
        recipe, sums = self._fitting
        totals = sums_about(names, self.columns, recipe.counts, sums[0])
        job = self.job
        return {
            "response": self.model.response,
            "family": self.model.terms["family"],
            "ridge": self.model.ridge,
            "weights and offset": None if job is None else (job.weights, job.offset),
            "parties": self.released.members,
            "numbers of rows": self.fit.n_rows,
            "intercepts": self.model.intercept is not None,
            "sums over rows": totals,
        }

    def predict(
        self,
        new_data: Any,
        *,
        interval: Interval | None = None,
        level: float = 0.95,
        scale: Scale = "response",
    ) -> Any:
        """Return the mean of new rows; with an interval a table by statsmodels' names.

        Args:
            new_data: a table with the columns on the formula's right side, and the
                offset's; its levels are checked. Of a fit of arrays, a design.
            interval: "confidence" for the mean, "prediction" for a new response.
            level: of the interval.
            scale: "response", or "link" for the sum over columns.
        """
        offset: Any = 0.0
        pandas = load_pandas()
        if self.job is None:
            design = np.asarray(new_data, dtype=np.float64)
            if design.ndim != 2 or design.shape[1] != len(self.model.names):
                raise InvalidInputError(
                    f"a fit of arrays predicts for {len(self.model.names)} columns, "
                    f"found shape {design.shape}"
                )
            if self.model.measures.offset is not None:
                raise InvalidInputError(
                    "a fit of arrays with offsets predicts nothing by itself: add "
                    "offsets to design @ coefficients, and take the inverse link"
                )
            index = pandas.RangeIndex(len(design))
        else:
            frame = as_frame(new_data)
            design = self.job.formula.design_at(frame)[:, self.model.fitted]
            index = frame.index
            if (name := self.job.offset) is not None:
                offset = new_numbers(frame, name)
        fit, variance = self.fit, None
        if isinstance(fit, LeastSquaresFit) and fit.errors == "model":
            weighted = self.model.measures.weights is not None
            variance = None if weighted else fit.residual_variance
        found = predicted(
            fit,
            design,
            self.model.family,
            offset=offset,
            scale=scale,
            interval=interval,
            level=level,
            variance=variance,
        )
        if interval is None:
            return pandas.Series(found["mean"], index=index, name="mean")
        return pandas.DataFrame(found, index=index)

    def marginal_means(
        self,
        term: str,
        *,
        at: Mapping[str, Any] | None = None,
        level: float = 0.95,
        scale: Scale = "response",
    ) -> MarginalMeans:
        """Return the mean at each level of a category, all else alike.

        Numbers are at their means where these follow from released sums, that is of
        least squares with an intercept, and else at values that are given; levels of
        other categories count alike, as in R's emmeans.

        Args:
            term: such as "C(sex)".
            at: values of other columns, by name.
            level: of the intervals.
            scale: "response", or "link" for the sum over columns.
        """
        if self.job is None:
            raise InvalidInputError(
                "marginal means are those of a category in a formula, and this fit is "
                "of arrays: use predict"
            )
        if self.model.tested:
            raise InvalidInputError(
                "marginal means are those of a fit without further columns: fit "
                "without further"
            )
        means: dict[str, float] = {}
        recipe, sums = self._fitting
        if isinstance(recipe, LeastSquaresRecipe) and recipe.intercept is not None:
            found = recipe.totals(sums[:1]).means().tolist()
            means = dict(zip(self.model.names, found, strict=True))
        grid = ReferenceGrid.of(self.job.formula, term, at, means)
        notes = ("The offset is 0.",) if self.job.offset is not None else ()
        return marginal_means(
            self.fit, self.model.family, grid, scale=scale, level=level, notes=notes
        )

    def summary(self, *, level: float = 0.95, exponentiate: bool = False) -> str:
        """Return the table that goes into a paper."""
        return summary_text(
            self.fit, level=level, exponentiate=exponentiate, **self._labels()
        )

    def _repr_html_(self) -> str:
        return summary_html(self.fit, **self._labels())

    def _labels(self) -> dict[str, Any]:
        sums = len(self.released.sums)
        notes = [
            f"Released to every party: {sums} {'sum' if sums == 1 else 'sums'} of "
            f"{self.recipe.size} numbers over all parties.",
        ]
        if self.model.absorb:
            notes.append(
                "Each party has an intercept of its own, which it took off at home; "
                "none of them is known. R-squared is that within parties."
            )
        if isinstance(self.fit, DispersedFit):
            notes.append(
                f"theta = 1 / alpha is {self.fit.theta:.6g}, standard error "
                f"{self.fit.theta_error:.4g}; errors of coefficients are those at this "
                "theta, as in MASS::glm.nb."
            )
        if self.dropped:
            notes.append(f"{self.dropped} rows with missing values were left out.")
        return {
            "title": f"Pooled {self.model.family.name} regression "
            f"{'within parties ' if self.model.absorb else ''}under masks",
            "response": self.model.response,
            "n_parties": len(self.released.members),
            "law": self.terms.law.name,
            "notes": notes,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: those of every run, and the table."""
        fit, reference = self.fit, self.reference
        return {
            **super().to_dict(),
            "reference": None if reference is None else reference.tolist(),
            "max_error": self.max_error,
            "table": table_rows(fit),
            "n_rows": fit.n_rows,
            "dropped": self.dropped,
            "rounding_bound": (
                fit.rounding_bound.tolist()
                if isinstance(fit, LeastSquaresFit)
                else None
            ),
            "log_likelihood": _finite(fit.log_likelihood),
            "aic": _finite(fit.aic),
            "bic": _finite(fit.bic),
            "residual_degrees": fit.residual_degrees,
            "errors": fit.errors,
            "t_degrees": fit.t_degrees,
            "cov_params": fit.covariance.tolist(),
            "score_test": self.score_test().to_dict() if self.model.tested else None,
            "theta": fit.theta if isinstance(fit, DispersedFit) else None,
            "theta_error": fit.theta_error if isinstance(fit, DispersedFit) else None,
        }

    def __repr__(self) -> str:
        return (
            f"<FitResult: {self.model.words}, {len(self.released.members)} parties, "
            f"{self.fit.n_rows} rows, {self.guarantee.status}>"
        )


def _finite(value: float) -> float | None:
    """Return None for what a perfect fit makes infinite: JSON has no such number."""
    return value if np.isfinite(value) else None


def fit(
    formula: str,
    data: Mapping[str, Any],
    *,
    family: str | Family = "gaussian",
    alpha: float | None = None,
    weights: str | None = None,
    offset: str | None = None,
    ridge: float = 0.0,
    bits: int = BITS,
    errors: str | None = None,
    absorb: bool = False,
    further: str | None = None,
    schema: Schema | None = None,
    minimum_rows: int | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of several parties' tables; only sums leave a party.

    Args:
        formula: such as "y ~ age + C(sex) + bp".
        data: each party's table: pandas, polars, or a mapping of columns.
        family: gaussian, logistic, poisson, gamma, gamma-inverse, inverse-gaussian,
            negative-binomial, probit, cloglog, quasi-poisson, quasi-binomial.
        alpha: of a negative-binomial family, whose variance is mu + alpha mu^2; where
            it is not given it is estimated together with the coefficients.
        weights: the column of weights.
        offset: the column of offsets.
        ridge: what each squared coefficient but the intercept's costs.
        bits: what a term keeps of its range that does not fit the unit it follows from;
            beyond 52 terms of arithmetic are computed exactly.
        errors: of coefficients: HC0 to HC3, which rest on residuals, or cluster, by
            party; each takes one more sum. Those of the model by default.
        absorb: whether every party has an intercept of its own, as by a dummy variable
            for each: it is taken off at home, and not shown. Gaussian fits only.
        further: terms such as "C(race) + smoke" that are not fitted: whether they would
            add anything is tested, by `score_test` and one more sum at the answer.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused; by default
            as few as some party has, but no fewer than 5.
        rules: what every party keeps to; those of the schema about row counts hold in
            any case.
        compare: whether to fit the pooled rows as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    frames = {party: as_frame(table) for party, table in by_name(data).items()}
    agreed = agreed_schema(
        schema,
        frames,
        options,
        inferred=lambda: inferred_schema(
            formula if further is None else f"{formula} + {further}",
            (weights, offset),
            frames,
            minimum_rows,
        ),
    )
    kind = family_of(family, alpha=alpha)
    job = FormulaJob.of(
        *(formula, agreed, kind, weights, offset, ridge, bits, errors),
        absorb=absorb,
        further=further,
    )
    kept = agreed.rules(rules or Rules())
    if simulated := is_simulated(options):
        check_width(job, kept, len(frames) - options.get("tolerate", 1))
    tables = {party: job.schema.check(party, frame) for party, frame in frames.items()}
    try:
        _ = job.model
    except InvalidInputError:
        if not simulated:
            raise
        # Ranges alone do not show that each term has a value; the rows do.
        rows = {party: job.rows(table) for party, table in tables.items()}
        measures = RowMeasures.inferred(
            rows, job.formula.intercept, positive=kind.positive
        )
        job = replace(job, measures=measures)
    own = {party: job.bring(table) for party, table in tables.items()}
    asked = ask(
        job,
        own,
        sources={p: Source(frame, job.schema.names) for p, frame in frames.items()},
        rules=kept,
        options=options,
    )
    rows = {party: part.rows for party, part in own.items()}
    return _result(asked, job.model, rows if compare else None, job)


def fit_arrays(
    data: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    family: str | Family = "gaussian",
    alpha: float | None = None,
    names: Sequence[str] | None = None,
    intercept: int | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    offset: Mapping[str, ArrayLike] | None = None,
    ridge: float = 0.0,
    errors: str | None = None,
    measures: RowMeasures | None = None,
    rules: Rules | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of several parties' arrays.

    Args:
        data: each party's design and response; float64 arrays are not copied.
        family: as for `fit`.
        alpha: as for `fit`.
        names: of the columns.
        intercept: which column is all ones, if any; none is added.
        weights: by party.
        offset: by party.
        ridge: as for `fit`.
        errors: as for `fit`.
        measures: how numbers are counted. Without them they are read off all arrays
            together, which only a simulation can do.
        rules: what every party keeps to.
        compare: as for `fit`.
        options: how to sum; see `Options`.
    """
    weighing, shifting = by_name(weights or {}), by_name(offset or {})
    rows = {
        party: Rows.of(*arrays, weights=weighing.get(party), offset=shifting.get(party))
        for party, arrays in by_name(data).items()
    }
    labels = column_names(names, _n_columns(rows))
    check_intercept(intercept, len(labels))
    kind = family_of(family, alpha=alpha)
    model = Model(
        response="y",
        names=labels,
        intercept=intercept,
        family=kind,
        measures=measures
        or RowMeasures.inferred(rows, intercept, positive=kind.positive),
        ridge=ridge,
        errors=errors_of(errors),
    )
    asked = ask(
        RowsJob(model),
        rows,
        sources={party: model.source(part) for party, part in rows.items()},
        rules=rules or Rules(),
        options=options,
    )
    return _result(asked, model, rows if compare else None)


def _result(
    asked: TableAnswer,
    model: Model,
    rows: Mapping[str, Rows] | None,
    job: FormulaJob | None = None,
) -> FitResult:
    return FitResult(
        terms=asked.terms,
        recipe=asked.recipe,
        released=asked.released,
        model=model,
        rules=asked.rules,
        job=job,
        reference=None if rows is None else model.pooled(rows),
    )


def _n_columns(rows: Mapping[str, Rows]) -> int:
    found = {part.n_columns for part in rows.values()}
    if len(found) != 1:
        raise InvalidInputError(
            f"all parties' designs have the same columns, found {sorted(found)} of them"
        )
    return found.pop()
