"""Regressions of several parties, each with rows of its own, as one pooled fit.

    result = fit("y ~ age + C(sex)", {"north": frame, "south": other, ...})
    print(result.summary())

A `Model` is what is fitted, as all parties know it. Its recipe says what is summed in
each round, and what follows from the sums; a `FormulaJob` turns a table into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError
from veilsum.fits.choices import (
    ChoiceRecipe,
    chances,
    check_choice,
    with_its_order,
)
from veilsum.fits.fitted import (
    Fitted,
    Interval,
    MarginalMeans,
    ReferenceGrid,
    Scale,
    marginal_means,
    predicted,
)
from veilsum.fits.fitting import (
    AbsorbedRecipe,
    ClusterRecipe,
    FittingRecipe,
    LeastSquaresRecipe,
    NewtonRecipe,
    RegressionRecipe,
    RobustRecipe,
    check_parties,
    reserved,
)
from veilsum.fits.nested import in_order, sums_about
from veilsum.fits.score import ScoreRecipe, room_beside
from veilsum.fits.summary import (
    ratio_rows,
    summary_html,
    summary_text,
    table_rows,
)
from veilsum.locale import limit
from veilsum.models import choices, least_squares
from veilsum.models.absorbed import Absorbing
from veilsum.models.choices import (
    Choice,
    ChoiceFit,
    ChoiceSearch,
    Multinomial,
    Ordinal,
)
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
from veilsum.models.glm import GlmFit, Request, Scales
from veilsum.models.hypotheses import (
    Fit,
    TestOfFit,
    f_test,
    likelihood_ratio,
    score_test,
)
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.newton import Newton
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import Errors, Meat, MeatRequest, errors_of
from veilsum.models.systems import check_intercept, column_names
from veilsum.numbers.arrays import Array, Vector, listed, nearest
from veilsum.numbers.secrets import Secret
from veilsum.numbers.units import BITS, ROW_BITS, Integers, Measure
from veilsum.showing import Both, Showing
from veilsum.sums.presence import Cells, Group, Values, Varying, are_few
from veilsum.sums.recipes import Sums
from veilsum.sums.releases import ReleaseLimit
from veilsum.sums.table_job import SAME_ROUNDS, SchemaJob, TableJob, ask, put
from veilsum.sums.terms import Options, Terms, by_name
from veilsum.tables.asked import Question
from veilsum.tables.columns import SchemaError
from veilsum.tables.fingerprints import Source
from veilsum.tables.formula import ModelFormula, new_numbers
from veilsum.tables.formula.reader import read_formula
from veilsum.tables.formula.syntax import Coded, Named, Node, named_in, shown
from veilsum.tables.frames import Frame, as_frame, load_pandas
from veilsum.tables.propensity import Propensity, PropensityWeights
from veilsum.tables.rules import AtHome, Rules, agreed_rows
from veilsum.tables.schema import CheckedTable, Schema

# Totals have 192 bits at most: beyond so many bits of a term, fewer rows have room.
WIDE_BITS, WIDE_ROW_BITS = 72, 32


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
    "multinomial": Multinomial(),
    "ordinal": Ordinal(),
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
        levels: of a response that is a choice among them, in their order.
        tested: columns of the design that are not fitted: their score is tested.
        weighed_by: what weights are a public function of, if they are no column.
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
    levels: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    weighed_by: str | None = None

    def __post_init__(self) -> None:
        self._check_tested()
        if isinstance(self.family, Choice):
            weights, offset = self.measures.weights, self.measures.offset
            given = {
                "weights": weights is not None,
                "offset": offset is not None,
                "ridge": self.ridge,
                "errors": self.errors,
            }
            check_choice(given, self.family)
            if self.intercept is None:
                raise InvalidInputError(
                    f"{self.family.intercepts}, and the formula takes that away: "
                    "leave out 0 + or - 1"
                )
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
        estimated = isinstance(self.family, NegativeBinomialEstimated | Choice)
        if self.ridge or self.errors is not None or self.absorb or estimated:
            raise InvalidInputError(
                "further goes without ridge, robust errors, absorb, a choice among "
                "levels and an alpha that is estimated: leave one of them out"
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
        weighed = "" if self.weighed_by is None else f", weighted by {self.weighed_by}"
        return (
            f"{self.family.name} regression of {self.response} on "
            f"{', '.join(self.slopes)}{within}{weighed}"
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
            **({"levels": self.levels} if self.levels else {}),
        }

    @cached_property
    def choice(self) -> ChoiceSearch | None:
        """The rounds of a choice among levels, if it is one."""
        if not isinstance(self.family, Choice):
            return None
        assert self.intercept is not None
        return ChoiceSearch(
            self.family, self.measures, self.names, self.levels, self.intercept
        )

    @property
    def n_coefficients(self) -> int:
        """How many numbers are fitted: those of all levels, in a choice among them."""
        if self.choice is None:
            return len(self.names)
        return self.choice.scales.size

    @cached_property
    def wide(self) -> Newton:
        """The rounds of a model that has the columns that are tested as well."""
        return Newton(
            self.family, self.measures, names=self.names, intercept=self.intercept
        )

    @cached_property
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
            if not isinstance(self.family, Gaussian | Choice):
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
        if self.errors is not None and rows.weights is not None:
            # Squared residuals are summed with squared weights: what is spread over
            # many rows in a fit may lie on one in its errors.
            squared = replace(rows, weights=rows.weights * rows.weights)
            home.design(squared, self.names, intercept=self.intercept, **columns)

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
        """Refuse what so few parties, or such masks, must not be asked for."""
        if self.absorb:
            least = self.absorbing.least_honest(rules.minimum_rows)
            rules.check_honest(
                least,
                terms.honest,
                "leave out columns with few values, such as 0 and 1, agree on more "
                + agreed_rows(),
            )
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

    def _fitting(self, limit: ReleaseLimit | None) -> FittingRecipe:
        if self.choice is not None:
            return ChoiceRecipe(self.choice, self.words, limit)
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
        if self.choice is not None:
            assert isinstance(request, Request)
            # Rows left out are counted with the levels.
            dropped = dropped if request.stage == "first" else 0
            found = choices.statistics(self.choice.scales, rows, request)
        elif isinstance(request, Request):
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


def _is_constant(values: Array[Any]) -> bool:
    return bool((values == values[:1]).all())


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
    *,
    beside: str | None = None,
) -> Schema:
    """Return a schema that fits all tables, of the columns that the job names.

    What is in C(...) has categories, in the formula or in one beside it.
    """
    formulas = [read_formula(one) for one in (formula, beside) if one is not None]
    words = {*used}.union(*(one.columns for one in formulas))
    coded = set[str]().union(*(one.categories for one in formulas))
    known = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    named = [name for name in known if name in words]
    for name in (one for formula in formulas for one in formula.columns):
        if name not in known and name.lower() != "intercept":  # which has its own words
            raise InvalidInputError(
                f"no table has a column {name!r}; {nearest(name, known)}the tables' "
                f"columns are {listed([*known])}"
            )
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
    seen = dict(frames)
    for party in frames if (levels := coded & set(named)) else ():
        # The other columns are not copied.
        seen[party] = frames[party].copy(deep=False)
        for name in levels:
            seen[party][name] = frames[party][name].astype("category")
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
        """Refuse what so few parties, or such masks, must not be asked for."""
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

    def pooled(self, own: Mapping[str, Rows]) -> Vector:
        """Return the coefficients as one owner of all rows would find them."""
        return self.model.pooled(own)


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
        weights: the column of weights, if rows have them; or a propensity.
        offset: the column of offsets.
        ridge: what each squared coefficient but the intercept's costs.
        bits: what a term keeps of its range that has no unit of its own.
        absorb: whether every party has an intercept of its own, which is not shown.
        stratified: whether every party has a baseline of its own, in a Cox regression.
        measures: how numbers are counted, where ranges alone do not tell.
        errors: robust ones, if any.
        tested: columns of the formula that are not fitted: their score is tested.
    """

    follows = "the coefficients, their standard errors, and tests"

    formula: ModelFormula
    family: Family
    weights: str | Propensity | None = None
    offset: str | None = None
    ridge: float = 0.0
    bits: int = BITS
    absorb: bool = False
    stratified: bool = False
    measures: RowMeasures | None = None
    errors: Errors | None = None
    tested: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        text: str,
        schema: Schema,
        family: Family,
        weights: str | Propensity | None = None,
        offset: str | None = None,
        ridge: float = 0.0,
        bits: int = BITS,
        errors: str | None = None,
        *,
        absorb: bool = False,
        further: str | None = None,
    ) -> FormulaJob:
        """Return the job on those columns that it needs: others may be missing."""
        read = partial(
            ModelFormula.of,
            schema=schema,
            levels="several" if isinstance(family, Choice) else "two",
        )
        formula, tested = read(text), tuple[str, ...]()
        if further is not None:
            few = formula.columns
            formula = read(f"{text} + {further}")
            tested = tuple(one for one in formula.columns if one not in few)
            if not tested or len(tested) + len(few) != len(formula.columns):
                raise InvalidInputError(
                    f"further = {further!r} adds columns to those of the formula, and "
                    f"these stay what they are: found {listed(few)} without it, and "
                    f"{listed(formula.columns)} with it"
                )
        needed = {*formula.variables, offset}
        if isinstance(weights, Propensity):
            needed.update(PropensityWeights.of(weights, schema).formula.variables)
            # Weights that are no trials and no variances say nothing of errors.
            errors = "HC0" if errors is None else errors
        else:
            needed.add(weights)
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
    def weighing(self) -> PropensityWeights | None:
        """The public function of a row that weights are, if they are no column."""
        if not isinstance(self.weights, Propensity):
            return None
        return PropensityWeights.of(self.weights, self.schema)

    @cached_property
    def model(self) -> Model:
        """What is fitted; measures follow from the schema, unless they are given."""
        if self.measures is not None:
            return self.counted(self.measures)
        weights, offset = (
            self.schema.column(column).measure if isinstance(column, str) else None
            for column in (self.weights, self.offset)
        )
        if self.weighing is not None:
            weights = self.weighing.measure
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
            levels=self._levels,
            tested=self.tested,
            weighed_by=None if self.weighing is None else self.weighing.words,
        )

    @property
    def _levels(self) -> tuple[str, ...]:
        several = isinstance(self.family, Choice)
        return self.formula.response_levels if several else ()

    @property
    def n_columns(self) -> int:
        """How wide the design is: a few letters can stand for thousands of columns.

        In a choice every level but the first may have coefficients of its own.
        """
        columns, more = len(self.formula.columns), max(len(self._levels) - 1, 1)
        if isinstance(self.family, Ordinal):
            return columns - 1 + more
        return columns * more

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.model.numbers_in_a_row

    @property
    def agreed(self) -> dict[str, Any]:
        """What parties compare beside how they sum."""
        weights: Any = self._weights_column
        if self.weighing is not None:
            weights = {**self._propensity, "codings": self.weighing.formula.codings}
        return {
            "model": self.model.terms,
            "formula": self.formula.text,
            "codings": self.formula.codings,
            "schema": self.schema.to_table(),
            "columns": [weights, self.offset],
            "bits": self.bits,
        }

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return Question(
            schema=self.asked_about,
            formula=self.formula.text,
            weights=self._weights_column,
            offset=self.offset,
            propensity=self._propensity or None,
        )

    @property
    def _weights_column(self) -> str | None:
        return self.weights if isinstance(self.weights, str) else None

    @property
    def _propensity(self) -> dict[str, Any]:
        """How rows are weighted, in the order of the columns."""
        if self.weighing is None:
            return {}
        known = self.weighing.known.coefficients
        names = self.weighing.formula.columns
        given = self.weighing.asked.given()
        return given | {"coefficients": dict(zip(names, known, strict=True))}

    def check_parties(self, rules: Rules, terms: Terms) -> None:
        """Refuse what so few parties, or such masks, must not be asked for."""
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
        schema = self.schema
        found: list[Group] = []
        for one in schema.columns:
            if one.is_category:
                found.append(Cells((one.name,), (one.categories,)))
            elif are_few(one.measure):
                found.append(Values(one.name, one.measure, one.name))
        found += _made_groups(self.formula, self.model.measures, lambda place: place)
        if self.weighing is not None:
            known, of = self.weighing.known.measures, self.weighing.formula
            # What it makes has no place in the design, and may be there under its name.
            further = _made_groups(of, known, lambda place: (PROPENSITY, place))
            had = {one.name for one in found}
            found += [one for one in further if one.name not in had]
        if self._within_parties:
            found.append(self._varying(found))
        return tuple(found)

    @property
    def _within_parties(self) -> bool:
        """Whether a column that is constant at a party adds nothing there."""
        return self.absorb or self.stratified

    def _varying(self, groups: Sequence[Group]) -> Varying:
        """Return the question in how many parties columns of the design vary."""
        named = set[str]().union(*self.formula.by_variables)
        design = [
            one
            for one in groups
            if (isinstance(one, Cells) and named.issuperset(one.columns))
            or (
                isinstance(one, Values) and (one.at in named or isinstance(one.at, int))
            )
        ]
        if self.stratified:
            return Varying(tuple(design), rows="rows at risk at an event")
        least = self.model.absorbing.least_honest(self.schema.minimum_rows)
        return Varying(tuple(design), least)

    def vary(self, group: Varying, own: Brought, rows: Array[Any]) -> Array[Any]:
        """Return what one party counts for `Varying`, of some of its rows."""
        varying = [
            (shown(node), values[rows])
            for node, values in self.formula.parts(own.table)
            if not self._has_two_values(node)
        ]
        free = {name for name, _ in varying}
        columns = [values for _, values in varying]
        design = zip(self.formula.made_of, self.model.measures.design, strict=True)
        for place, ((coded, numbers), measure) in enumerate(design):
            # Rounded to its unit a number may be constant, or a product of numbers.
            if numbers and not coded and free.issuperset(numbers):
                columns.append(measure.counts(own.rows.design[rows, place]))
        if any(map(_is_constant, columns)):
            return np.zeros(len(group.places), dtype=np.int64)
        return group.sides(
            lambda at: self.look(own, at)[rows], int(np.count_nonzero(rows))
        )

    def _labels(self, node: Node) -> tuple[str, ...]:
        """Return the levels of a category; nothing for a number."""
        if not isinstance(node, Named | Coded):
            return ()
        return self.schema.column(next(named_in(node))).categories

    def _has_two_values(self, node: Node) -> bool:
        """Say whether a part has two values or levels at most, by agreement."""
        if labels := self._labels(node):
            return len(labels) <= 2
        return self.formula.is_two_valued(node)

    def look(
        self, own: Brought, at: str | int | tuple[str, int] | Varying
    ) -> Array[Any]:
        """Return one party's column of its table by name, or of its design by place.

        Or by its place in the design of the propensity.
        """
        if isinstance(at, Varying):
            return self.vary(at, own, np.ones(own.rows.n_rows, dtype=bool))
        if isinstance(at, tuple):
            assert self.weighing is not None
            design, _ = self.weighing.formula.design(own.table)
            return np.asarray(design[:, at[1]])
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

    def pooled(self, own: Mapping[str, Brought]) -> Vector:
        """Return the coefficients as one owner of all rows would find them."""
        return self.model.pooled({party: part.rows for party, part in own.items()})

    def read_off(self, own: Mapping[str, Brought]) -> FormulaJob:
        """Return the job with measures: rows show that each term has a value.

        Ranges alone may not.
        """
        try:
            _ = self.model
        except InvalidInputError:
            rows = {party: part.rows for party, part in own.items()}
            positive = self.family.positive
            measures = RowMeasures.inferred(
                rows, self.formula.intercept, positive=positive
            )
            return replace(self, measures=measures)
        return self

    def check_at_home(self, home: AtHome, own: Brought) -> None:
        """Refuse a table of which columns, or what they make, would show too much."""
        self._check_parts(home, own.table, self.formula)
        if self.absorb:
            home.column(self.formula.response, own.rows.response)
        if self.weighing is not None:
            self._check_parts(home, own.table, self.weighing.formula)
            self._check_weights(home, own)
        self.model.check_at_home(
            home,
            own.rows,
            shaped=self.formula.response_is_shaped,
            groups=self.formula.by_variables,
        )

    def _check_weights(self, home: AtHome, own: Brought) -> None:
        """Refuse weights that lie on few of the treated rows, or of the others.

        Among all rows they may be spread and yet be one row's of its kind.
        """
        assert self.weighing is not None
        assert own.rows.weights is not None
        treated = self.weighing.treated(own.table)
        for some, words in ((treated, "treated"), (~treated, "other")):
            what = f"weights of {words} rows"
            home.column(what, own.rows.weights[some], two_valued=lambda: True)

    def _check_parts(
        self, home: AtHome, table: CheckedTable, formula: ModelFormula
    ) -> None:
        coded: dict[Node, tuple[str, Array[Any], Sequence[Any]]] = {}
        for node, values in formula.parts(table):
            name, labels = shown(node), self._labels(node)
            if labels:
                if not self._within_parties:
                    home.category(name, values, labels)
                home.cells([name], [values], [labels])
                coded[node] = name, values, labels
                continue
            # A constant adds nothing here, and other parties are counted: `Varying`.
            if self._within_parties and _is_constant(values):
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
        for name, flags in formula.summed_with(table):
            home.summed(name, flags)
        if (added := formula.addends(table)) is not None:
            ones = np.ones((len(added), 1))
            names = ["1", *(f"addend {k}" for k in range(1, added.shape[1] + 1))]
            home.design(Rows(np.hstack([ones, added]), ones[:, 0]), names, intercept=0)

    def bring(self, table: CheckedTable) -> Brought:
        """Return a party's table with the rows that the formula makes of it.

        Columns that both have are held once.
        """
        rows = self.rows(table)
        places = self.formula.unchanged(self.bits)
        same = {name: rows.design[:, place] for name, place in places.items()}
        return Brought(table.sharing(same), rows)

    def rows(self, table: CheckedTable) -> Rows:
        """Return one party's rows."""
        design, response = self.formula.design(table, self.bits)
        weights, offset = (
            None if column is None else self.formula.numeric(table, column)
            for column in (self._weights_column, self.offset)
        )
        if self.weighing is not None:
            weights = self.weighing.weights(table)
        try:
            return Rows(design, response, weights, offset)
        except InvalidInputError as error:
            column = self._weights_column
            raise SchemaError(table.party, column, "rows", str(error)) from None


# Marks columns that a propensity makes.
PROPENSITY = "propensity"


def _made_groups(
    formula: ModelFormula, measures: RowMeasures, at: Callable[[int], Any]
) -> Iterator[Group]:
    """Yield cells of categories that are multiplied, and what else has two values."""
    schema, made, design = formula.schema, formula.made_of, measures.design
    for names in dict.fromkeys(names for names, _ in made if len(names) > 1):
        levels = tuple(schema.column(name).categories for name in names)
        yield Cells(names, levels)
    for place, (names, numbers) in enumerate(made):
        alone = not names and len(numbers) == 1 and numbers[0] in schema
        if numbers and not alone and are_few(design[place]):
            yield Values(formula.columns[place], design[place], at(place))


B = TypeVar("B", bound=Brought)


@dataclass(frozen=True)
class OnFormula(SchemaJob[B]):
    """Another question about the rows that a formula makes of a table.

    Attributes:
        base: the formula, with its rows and its rules.
    """

    base: FormulaJob

    @property
    def schema(self) -> Schema:
        """What the tables were agreed to look like, as far as it matters here."""
        return self.base.schema

    @property
    def n_columns(self) -> int:
        """How wide the design is."""
        return self.base.n_columns

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds."""
        return self.base.numbers_in_a_row

    @property
    def groups(self) -> tuple[Group, ...]:
        """Levels, cells and values that few parties might hold."""
        return self.base.groups

    @property
    def question(self) -> Question:
        """What is asked of a table, for the ledger of its owner."""
        return self.base.question

    def n_rows(self, own: B) -> int:
        """Return how many rows a party has to give."""
        return own.rows.n_rows

    def check(self, party: str, own: B) -> None:
        """Refuse rows that go beyond ranges."""
        self.base.check(party, own)

    def check_at_home(self, home: AtHome, own: B) -> None:
        """Refuse a table of which columns, or what they make, would show too much."""
        self.base.check_at_home(home, own)

    def look(self, own: B, at: str | int) -> Array[Any]:
        """Return a column of the table by name, or of the design by place."""
        return self.base.look(own, at)


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
        if isinstance(column, str):
            row = as_frame({column: [1.0]})
            CheckedTable("", schema, row, 0).numbers(column)
    return job


UNLIMITED = limit("unlimited")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitResult(Fitted[LeastSquaresFit | GlmFit]):
    """A fit of all parties' rows, and what they released for it.

    Attributes:
        job: what was fitted, with its formula unless it was to arrays.
    """

    compared_with: ClassVar[str] = "the pooled fit"

    job: FormulaJob | RowsJob

    @property
    def compared_by(self) -> str:  # type: ignore[override]
        """How the pooled fit was found; see `Model.pooled`."""
        if isinstance(self.model.family, Gaussian):
            return "least squares of all rows in one place, by another algorithm"
        return SAME_ROUNDS

    @property
    def model(self) -> Model:
        """What was fitted."""
        return self.job.model

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What the rules about rows leave open."""
        free: tuple[str, ...] = (
            (UNLIMITED,) if self.rules.release_fraction >= 1.0 else ()
        )
        if (words := self.model.weighed_by) is not None:
            free = (*free, limit("weighed", by=words))
        return (*super().further_limits, *free)

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: the last number of the fit's sum."""
        recipe, (first, *_) = self._fitting
        return int(first[recipe.size - 1])

    @property
    def response_mean(self) -> float:
        """Of a fit in rounds: the mean response, from its first sum."""
        recipe, sums = self._fitting
        if not isinstance(recipe, NewtonRecipe):
            raise InvalidInputError(
                "the mean response is known of a fit in rounds, found "
                f"{self.model.words}"
            )
        first = recipe.first(sums)
        return float(first.response_sum / first.weight_sum)

    @property
    def count(self) -> int:
        """Rows of all parties."""
        return self.fit.n_rows

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
        """Coefficients in effect; intercepts and thresholds are not counted."""
        intercepts = max(len(self.model.levels) - 1, 1)
        return self.fit.model_degrees - intercepts * (self.model.intercept is not None)

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
    def _fitting(self) -> tuple[FittingRecipe, Sums]:
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
        if isinstance(recipe, ChoiceRecipe):
            totals = recipe.about_rows(sums, names)
        else:
            totals = sums_about(names, self.columns, recipe.counts, sums[0])
        job, columns = self.job, None
        if isinstance(job, FormulaJob):
            columns = job.weights, job.offset
        return {
            "response": self.model.response,
            "family": self.model.terms["family"],
            "ridge": self.model.ridge,
            "weights and offset": columns,
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

        Of a choice among levels it is the chance of each of them.

        Args:
            new_data: a table with the columns on the formula's right side, and the
                offset's; its levels are checked. Of a fit of arrays, a design.
            interval: "confidence" for the mean, "prediction" for a new response.
            level: of the interval.
            scale: "response", or "link" for the sum over columns.
        """
        offset: Any = 0.0
        pandas = load_pandas()
        if isinstance(self.job, RowsJob):
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
        if isinstance(fit, ChoiceFit):
            if interval is not None or scale != "response":
                raise InvalidInputError(
                    "the chances of levels come without an interval, and on their own "
                    f"scale, found interval = {interval!r} and scale = {scale!r}: "
                    "leave both out"
                )
            assert self.model.intercept is not None
            return chances(fit, design, self.model.intercept, index)
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
        if isinstance(self.job, RowsJob):
            raise InvalidInputError(
                "marginal means are those of a category in a formula, and this fit is "
                "of arrays: use predict"
            )
        if self.model.tested:
            raise InvalidInputError(
                "marginal means are those of a fit without further columns: fit "
                "without further"
            )
        if self.model.levels:
            raise InvalidInputError(
                "a choice among levels has no mean: use predict for the chance of each"
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
        return self.answered(level, exponentiate=exponentiate).text()

    def answered(self, level: float = 0.95, *, exponentiate: bool = False) -> Showing:
        """Return the same, to be seen."""
        asked = {"level": level, "exponentiate": exponentiate, **self._labels()}
        text, html = (make(self.fit, **asked) for make in (summary_text, summary_html))
        return Showing("", [Both(text, html)])

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
        if isinstance(self.model.family, Choice):
            first = self.model.levels[0]
            notes.append(self.model.family.reading.format(first=first))
        if isinstance(self.fit, DispersedFit):
            notes.append(
                f"theta = 1 / alpha is {self.fit.theta:.6g}, standard error "
                f"{self.fit.theta_error:.4g}; errors of coefficients are those at this "
                "theta, as in MASS::glm.nb."
            )
        if self.model.weighed_by is not None:
            notes.append(
                f"Rows are weighted by {self.model.weighed_by}; errors take its "
                "coefficients as they are."
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
        fit, levels = self.fit, dict[str, Any]()
        if isinstance(fit, ChoiceFit):
            counted = zip(fit.levels, fit.level_counts, strict=True)
            levels = {"levels": dict(counted)}
        return {
            **super().to_dict(),
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
            **levels,
        }


def _finite(value: float) -> float | None:
    """Return None for what a perfect fit makes infinite: JSON has no such number."""
    return value if np.isfinite(value) else None


def fit(
    formula: str,
    data: Mapping[str, Any],
    *,
    family: str | Family = "gaussian",
    alpha: float | None = None,
    weights: str | Propensity | None = None,
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
            negative-binomial, probit, cloglog, quasi-poisson, quasi-binomial; or
            multinomial or ordinal, where the response is one of three levels or more.
        alpha: of a negative-binomial family, whose variance is mu + alpha mu^2; where
            it is not given it is estimated together with the coefficients.
        weights: the column of weights; or a `Propensity`, which makes errors HC0 where
            nothing else is said.
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
    kind = family_of(family, alpha=alpha)

    def job_of(agreed: Schema) -> FormulaJob:
        return FormulaJob.of(
            *(formula, agreed, kind, weights, offset, ridge, bits, errors),
            absorb=absorb,
            further=further,
        )

    return put(
        job_of,
        data,
        FitResult,
        inferred=lambda frames: with_its_order(
            inferred_schema(
                formula if further is None else f"{formula} + {further}",
                (weights if isinstance(weights, str) else None, offset),
                frames,
                minimum_rows,
                beside=weights.formula if isinstance(weights, Propensity) else None,
            ),
            formula.partition("~")[0].strip().strip("`"),
            kind,
            frames,
        ),
        schema=schema,
        rules=rules,
        compare=compare,
        options=options,
    )


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
    if isinstance(kind, Choice):
        raise InvalidInputError(
            f'family = "{kind.name}" is a choice among the levels of a category, and '
            "arrays have none: use fit, with tables"
        )
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
    job = RowsJob(model)
    asked = ask(
        job,
        rows,
        sources={party: model.source(part) for party, part in rows.items()},
        rules=rules or Rules(),
        options=options,
    )
    return asked.made(FitResult, job, rows if compare else None)


def _n_columns(rows: Mapping[str, Rows]) -> int:
    found = {part.n_columns for part in rows.values()}
    if len(found) != 1:
        raise InvalidInputError(
            f"all parties' designs have the same columns, found {sorted(found)} of them"
        )
    return found.pop()
