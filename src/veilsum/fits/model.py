"""Regressions without their data, and the strategies that fit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError, naming_party_in_error
from veilsum.fits.fitting import (
    AbsorbedFitRecipe,
    ChoiceFitRecipe,
    FitStrategy,
    LeastSquaresFitRecipe,
    NewtonFitRecipe,
)
from veilsum.fits.wrappers import RobustFitRecipe, ScoreFitRecipe
from veilsum.models.absorbed import AbsorbedCounting
from veilsum.models.choices import (
    ChoiceModel,
    ChoiceSearch,
)
from veilsum.models.dispersion import DispersedNewton
from veilsum.models.families import (
    Family,
    NegativeBinomial,
)
from veilsum.models.family_names import (
    FAMILIES,
    NEGATIVE_BINOMIAL,
    canonical_family_name,
)
from veilsum.models.fineness import FEWEST_DIGITS, MOST_DIGITS
from veilsum.models.glm import GlmScales
from veilsum.models.newton import Newton
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import Errors, SandwichMeat
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.units import Integers, UnitMeasure
from veilsum.sums.presence import PresenceGroup, PresenceValues, has_few_values
from veilsum.sums.releases import SumReleaseLimit
from veilsum.sums.table_job import TableJob
from veilsum.sums.terms import SumTerms
from veilsum.tables.fingerprints import FingerprintSource
from veilsum.tables.rules import Rules, TableRulesAtHome


def family_of_fit(name: str | Family, *, alpha: float | None = None) -> Family:
    """Return the family with this name; a negative binomial one may have an alpha."""
    if isinstance(name, Family):
        return name
    name = canonical_family_name(name)
    if alpha is not None:
        if name == NEGATIVE_BINOMIAL:
            return NegativeBinomial(alpha)
        raise InvalidInputError(
            f'alpha belongs to family = "{NEGATIVE_BINOMIAL}", found family = "{name}"',
            code="alpha-without-family",
        )
    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise InvalidInputError(
            f"no family is called {name!r}; choose from {known}", code="unknown-family"
        )
    return FAMILIES[name][0]


@dataclass(frozen=True, kw_only=True)
class FitModel:
    """A regression without its data.

    Attributes:
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
        digits: to which coefficients are right in standard errors, and standard errors
            as a part of them; None for `MOST_DIGITS`.
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
    digits: int | None = None

    def __post_init__(self) -> None:
        for asked, check in (
            (self.digits is not None, _check_fit_digits),
            (self.tested, _check_score_test),
            (self.family.is_choice, _check_choice_fit),
            (self.errors, _check_fit_errors),
            (self.absorb, _check_absorbed_fit),
        ):
            if asked:
                check(self)

    @property
    def fitted(self) -> tuple[int, ...]:
        return tuple(k for k, n in enumerate(self.names) if n not in self.tested)

    @property
    def fineness(self) -> int:
        """The digits of a fit in rounds."""
        return MOST_DIGITS if self.digits is None else self.digits

    @property
    def slopes(self) -> tuple[str, ...]:
        """The columns that the answer has a coefficient of."""
        absorbed = self.intercept if self.absorb else None
        return tuple(self.names[k] for k in self.fitted if k != absorbed)

    @property
    def absorbing(self) -> AbsorbedCounting:
        """Counting of rows after parties subtract their own effects."""
        assert self.intercept is not None
        return AbsorbedCounting(self.measures, self.intercept)

    @property
    def numbers_in_a_row(self) -> int:
        """Largest row width: columns but the ones, response, weight, offset."""
        columns = len(self.names) - (self.intercept is not None)
        further = self.measures.weights, self.measures.offset
        most = columns + 1 + sum(one is not None for one in further)
        return most if self.variables is None else min(most, self.variables)

    @property
    def within(self) -> str:
        """Among which rows columns are compared, if not among all."""
        return " within parties" if self.absorb else ""

    @property
    def words(self) -> str:
        """Name of the statistic to which the numbers of every round belong."""
        weighed = "" if self.weighed_by is None else f", weighted by {self.weighed_by}"
        return (
            f"{self.family.name} regression of {self.response} on "
            f"{', '.join(self.slopes)}{self.within}{weighed}"
        )

    @property
    def terms(self) -> dict[str, Any]:
        """Terms that parties compare before they start."""
        given = {} if self.family.estimates_alpha else asdict(self.family)
        return {
            "response": self.response,
            "names": self.names,
            "intercept": self.intercept,
            "family": [self.family.name, given],
            "measures": self.measures.terms,
            "ridge": self.ridge,
            "variables": self.variables,
            "weighted": self.measures.weights is not None,
            "offset": self.measures.offset is not None,
            "errors": self.errors,
            "absorb": self.absorb,
            "tested": self.tested,
            **({"digits": self.fineness} if self.family.has_digits else {}),
            **({"levels": self.levels} if self.levels else {}),
        }

    @cached_property
    def wide(self) -> Newton:
        """The rounds of a model that has the columns that are tested as well."""
        return Newton(
            self.family,
            self.measures,
            names=self.names,
            intercept=self.intercept,
            digits=self.fineness,
        )

    @cached_property
    def newton(self) -> Newton:
        """The rounds of a family that needs them."""
        kind = DispersedNewton if self.family.estimates_alpha else Newton
        design = tuple(self.measures.design[k] for k in self.fitted)
        ones = self.intercept
        return kind(
            self.family,
            replace(self.measures, design=design),
            names=self.slopes,
            intercept=None if ones is None else self.fitted.index(ones),
            ridge=self.ridge,
            digits=self.fineness,
        )

    def recipe(self, limit: SumReleaseLimit | None = None) -> FitStrategy:
        strategy = "least squares within parties" if self.absorb else ""
        fitting = partial(STRATEGIES[strategy or self.family.fitted_by], self)
        if self.tested:
            return ScoreFitRecipe.around(fitting, self.wide, self.fitted, limit)
        if self.errors is not None:
            scales = GlmScales.of(
                self.family, self.measures, self.intercept, self.fineness
            )
            return RobustFitRecipe.around(
                fitting, SandwichMeat(scales, self.errors), limit
            )
        return fitting(limit)

    @cached_property
    def strategy(self) -> FitStrategy:
        """Strategy of the fit, without a release limit."""
        return self.recipe()

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        return self.strategy.pooled(rows)

    def check(self, party: str, rows: Rows) -> None:
        """Refuse rows that do not have what the model has, or go beyond ranges."""
        for what in ("weights", "offset"):
            if (getattr(rows, what) is None) != (getattr(self.measures, what) is None):
                raise InvalidInputError(
                    f"{party}: all parties' rows have {what}, or none do",
                    code="optional-part-differs",
                )
        if rows.n_columns != len(self.names):
            raise InvalidInputError(
                f"{party}: the model has {len(self.names)} columns, found "
                f"{rows.n_columns}",
                code="wrong-column-count",
            )
        with naming_party_in_error(party):
            self.measures.check(rows, self.names, self.response)
            self.strategy.check_rows(rows)

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        """The values of columns that have one of two, as far as measures tell."""
        found: list[PresenceGroup] = [
            PresenceValues(name, one, place)
            for place, (name, one) in enumerate(
                zip(self.names, self.measures.design, strict=True)
            )
            if has_few_values(one)
        ]
        for name in ("response", "weights", "offset"):
            one = getattr(self.measures, name)
            if one is not None and has_few_values(one):
                found.append(PresenceValues(name, one, name))
        return tuple(found)

    def check_at_home(self, home: TableRulesAtHome, rows: Rows, **columns: Any) -> None:
        """Refuse rows that the fit would show; see `TableRulesAtHome.design`."""
        for what in ("weights", "offset"):
            if (values := getattr(rows, what)) is not None:
                measure = getattr(self.measures, what)
                home.column(what, values, two_valued=partial(_is_two_valued, measure))
        if rows.offset is not None and self.family.grows_with_offset:
            grown = np.exp(rows.offset - rows.offset.max())
            home.column("exp(offset)", grown, two_valued=lambda: True)
        for weighed in self.strategy.weighings(rows):
            home.design(weighed, self.names, intercept=self.intercept, **columns)

    def source(self, rows: Rows) -> FingerprintSource:
        """Return rows as a table of the numbers that they hold."""
        design, first = rows.design[:, 1:], self.intercept == 0  # that is no copy
        if not first:
            columns = range(len(self.names))
            design = rows.design[:, [one for one in columns if one != self.intercept]]
        return FingerprintSource.of_arrays(
            design=design,
            response=rows.response,
            weights=rows.weights,
            offset=rows.offset,
        )


def _least_squares_fit_recipe(
    model: FitModel, limit: SumReleaseLimit | None
) -> FitStrategy:
    return LeastSquaresFitRecipe(
        model.measures, model.names, model.intercept, model.ridge, model.words, limit
    )


def _absorbed_fit_recipe(model: FitModel, limit: SumReleaseLimit | None) -> FitStrategy:
    return AbsorbedFitRecipe(model.absorbing, model.slopes, model.words, limit)


def _newton_fit_recipe(model: FitModel, limit: SumReleaseLimit | None) -> FitStrategy:
    return NewtonFitRecipe(model.newton, model.words, limit)


def _choice_fit_recipe(model: FitModel, limit: SumReleaseLimit | None) -> FitStrategy:
    family, ones = model.family, model.intercept
    assert isinstance(family, ChoiceModel)
    assert ones is not None
    search = ChoiceSearch(family, model.measures, model.names, model.levels, ones)
    return ChoiceFitRecipe(search, model.words, limit)


# Strategies by the name that a family has for its own.
STRATEGIES: dict[str, Callable[[FitModel, SumReleaseLimit | None], FitStrategy]] = {
    "least squares": _least_squares_fit_recipe,
    "least squares within parties": _absorbed_fit_recipe,
    "newton": _newton_fit_recipe,
    "choice": _choice_fit_recipe,
}


def _check_fit_digits(model: FitModel) -> None:
    family, digits = model.family, model.digits
    assert digits is not None
    if not family.has_digits:
        found = f"digits = {digits} and family = {family.name!r}: leave digits out"
        raise InvalidInputError(
            "digits are agreed for logistic, probit, cloglog, quasi-binomial, poisson, "
            "quasi-poisson, gamma and gamma-inverse regressions, and negative-binomial "
            f"ones with an alpha, found {found}",
            code="digits-without-rounds",
        )
    if not FEWEST_DIGITS <= digits <= MOST_DIGITS:
        raise InvalidInputError(
            f"digits must be {FEWEST_DIGITS} to {MOST_DIGITS}, found {digits}",
            code="digits-out-of-range",
        )


def _check_score_test(model: FitModel) -> None:
    if model.family.fitted_by == "least squares":
        raise InvalidInputError(
            "the score test of least squares follows from two fits: fit both, and "
            "use compare_score; leave out further",
            code="score-test-unavailable",
        )
    estimated = model.family.estimates_alpha or model.family.is_choice
    if model.ridge or model.errors is not None or model.absorb or estimated:
        raise InvalidInputError(
            "further goes without ridge, robust errors, absorb, a choice among "
            "levels and an alpha that is estimated: leave one of them out",
            code="score-test-unavailable",
        )


def _check_choice_fit(model: FitModel) -> None:
    family, measures = model.family, model.measures
    assert isinstance(family, ChoiceModel)
    for word, value in {
        "weights": measures.weights is not None,
        "offset": measures.offset is not None,
        "ridge": model.ridge,
        "errors": model.errors,
    }.items():
        if value:
            raise InvalidInputError(
                f'family = "{family.name}" goes without {word}, found {word} = '
                f"{value!r}: leave it out",
                code="option-without-choice",
            )
    if model.intercept is None:
        raise InvalidInputError(
            f"{family.intercepts}, and the formula takes that away: leave out 0 + or "
            "- 1",
            code="intercept-missing",
        )


def _check_fit_errors(model: FitModel) -> None:
    if model.ridge:
        raise InvalidInputError(
            f"errors = {model.errors!r} are those of a fit without a ridge, found "
            f"ridge = {model.ridge:g}: leave one of them out",
            code="robust-with-ridge",
        )
    if model.family.estimates_alpha:
        raise InvalidInputError(
            f"errors = {model.errors!r} are those of a law that is known, and alpha "
            "is to be estimated: use the errors of the model, or give alpha",
            code="robust-with-alpha",
        )


def _check_absorbed_fit(model: FitModel) -> None:
    if model.family.fitted_by != "least squares":
        raise InvalidInputError(
            "absorb = true takes effects of parties off a gaussian fit, found "
            f"family = {model.family.name!r}: leave absorb out",
            code="absorb-without-gaussian",
        )
    if model.ridge:
        raise InvalidInputError(
            f"absorb = true goes without a ridge, found ridge = {model.ridge:g}",
            code="absorb-with-ridge",
        )
    if model.intercept is None:
        raise InvalidInputError(
            "absorb = true gives every party an intercept of its own: write the "
            "formula without 0 or -1",
            code="intercept-missing",
        )
    if model.errors is not None:
        raise InvalidInputError(
            f"absorb = true goes without robust errors, found errors = "
            f"{model.errors!r}: leave one of them out",
            code="absorb-with-robust",
        )
    if len(model.names) == 1:
        raise InvalidInputError(
            "absorb = true needs a column beside the parties' own intercepts, "
            "found none in the formula",
            code="no-columns-to-fit",
        )


def _is_two_valued(measure: UnitMeasure) -> bool:
    return measure.most - measure.least <= 1


@dataclass(frozen=True)
class FitRowsJob(TableJob[Rows]):
    """A regression of arrays: nothing is known of a column but its numbers."""

    model: FitModel

    @property
    def n_columns(self) -> int:
        return len(self.model.names)

    @property
    def numbers_in_a_row(self) -> int:
        return self.model.numbers_in_a_row

    @property
    def groups(self) -> tuple[PresenceGroup, ...]:
        return self.model.groups

    @property
    def agreed(self) -> dict[str, Any]:
        return {"model": self.model.terms}

    def check_parties(self, rules: Rules, terms: SumTerms) -> None:
        """Refuse what so few parties, or such masks, must not be asked for."""
        self.model.strategy.check_parties(rules, terms)

    def recipe(self, limit: SumReleaseLimit | None = None) -> FitStrategy:
        return self.model.recipe(limit)

    def n_rows(self, own: Rows) -> int:
        return own.n_rows

    def check(self, party: str, own: Rows) -> None:
        """Refuse rows that do not have what the model has, or go beyond ranges."""
        self.model.check(party, own)

    def check_at_home(self, home: TableRulesAtHome, own: Rows) -> None:
        """Refuse columns that point at few rows, or at this party."""
        model = self.model

        def two_valued(column: int) -> bool:
            return _is_two_valued(model.measures.design[column])

        known = partial(_is_two_valued, model.measures.response)
        home.column(model.response, own.response, two_valued=known)
        model.check_at_home(home, own, two_valued=two_valued)

    def look(self, own: Rows, at: str | int) -> Array[Any]:
        return np.asarray(
            own.design[:, at] if isinstance(at, int) else getattr(own, at)
        )

    def answer(self, own: Rows, request: Any) -> Integers:
        return self.model.strategy.vector(own, 0, request)

    def pooled(self, own: Mapping[str, Rows]) -> Vector:
        return self.model.pooled(own)
