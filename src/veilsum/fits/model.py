"""Regressions without their data: what is fitted, and the sums that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.choices import (
    ChoiceRecipe,
    check_choice,
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
from veilsum.fits.score import ScoreRecipe, room_beside
from veilsum.models import choices, least_squares
from veilsum.models.absorbed import Absorbing
from veilsum.models.choices import (
    Choice,
    ChoiceSearch,
    Multinomial,
    Ordinal,
)
from veilsum.models.dispersion import DispersedNewton
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
from veilsum.models.glm import Request, Scales
from veilsum.models.newton import Newton
from veilsum.models.rows import RowMeasures, Rows
from veilsum.models.sandwich import Errors, Meat, MeatRequest
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.units import Integers, Measure
from veilsum.sums.presence import Group, Values, are_few
from veilsum.sums.releases import ReleaseLimit
from veilsum.sums.terms import Terms
from veilsum.tables.fingerprints import Source
from veilsum.tables.rules import AtHome, Rules, agreed_rows

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
