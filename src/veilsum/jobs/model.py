"""What is fitted, as all parties know it; and the same fit where one owner has all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.jobs.recipes import Contribution
from veilsum.jobs.regressions import LeastSquaresRecipe, NewtonRecipe
from veilsum.jobs.releases import ReleaseLimit
from veilsum.models import glm, least_squares
from veilsum.models.families import (
    Binomial,
    Family,
    Gamma,
    GammaInverseLink,
    Gaussian,
    NegativeBinomial,
    Poisson,
)
from veilsum.models.glm import Request
from veilsum.models.newton import Newton
from veilsum.models.rows import Rows
from veilsum.numbers.arrays import Array, Vector

RegressionRecipe = LeastSquaresRecipe | NewtonRecipe

FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian(),
    "logistic": Binomial(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "gamma-inverse": GammaInverseLink(),
}
NEGATIVE_BINOMIAL = "negative-binomial"


def family_of(name: str | Family, *, alpha: float | None = None) -> Family:
    """Return the family with this name; the negative binomial one has an alpha."""
    if isinstance(name, Family):
        return name
    if name == NEGATIVE_BINOMIAL:
        if alpha is None:
            raise InvalidInputError(
                f'family = "{name}" needs alpha, the fixed dispersion: the variance '
                "is mu + alpha mu^2"
            )
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
        ridge: what each squared coefficient but the intercept's costs.
        weighted: whether rows have weights.
        offset: whether they have offsets.
        variables: how many numbers a row holds, if the design has more: powers and
            dummies of a number are no further numbers.
    """

    response: str
    names: tuple[str, ...]
    intercept: int | None
    family: Family
    ridge: float = 0.0
    weighted: bool = False
    offset: bool = False
    variables: int | None = None

    @property
    def numbers_in_a_row(self) -> int:
        """What a row holds at most: columns but the ones, response, weight, offset."""
        columns = len(self.names) - (self.intercept is not None)
        most = columns + 1 + self.weighted + self.offset
        return most if self.variables is None else min(most, self.variables)

    @property
    def words(self) -> str:
        """What is released belongs to this statistic, whatever the round."""
        return f"{self.family.name} regression of {self.response} on " + ", ".join(
            self.names
        )

    @property
    def terms(self) -> dict[str, Any]:
        """What parties compare before they start."""
        return {**asdict(self), "family": [self.family.name, asdict(self.family)]}

    @property
    def newton(self) -> Newton:
        """The rounds of a family that needs them."""
        return Newton(
            self.family,
            len(self.names),
            names=self.names,
            intercept=self.intercept,
            ridge=self.ridge,
        )

    def check(self, party: str, rows: Rows) -> None:
        """Refuse rows that lack what the model has, or have what it lacks."""
        for what, wanted in (("weights", self.weighted), ("offset", self.offset)):
            if (getattr(rows, what) is not None) != wanted:
                raise InvalidInputError(
                    f"{party}: all parties' rows have {what}, or none do"
                )
        if rows.n_columns != len(self.names):
            raise InvalidInputError(
                f"{party}: the model has {len(self.names)} columns, found "
                f"{rows.n_columns}"
            )

    def recipe(self, limit: ReleaseLimit | None = None) -> RegressionRecipe:
        """Return what parties do to fit it."""
        if not isinstance(self.family, Gaussian):
            return NewtonRecipe(self.newton, self.words, limit)
        return LeastSquaresRecipe(
            len(self.names), self.names, self.intercept, self.ridge, self.words, limit
        )

    def contribution(self, rows: Rows, dropped: int, size: int) -> Contribution:
        """Return how one party answers; the last number counts rows left out."""
        answer = partial(self._answer, rows, dropped, size)
        parts = (rows.design, rows.response, rows.weights, rows.offset)
        return Contribution(answer, tuple(part for part in parts if part is not None))

    def _answer(
        self, rows: Rows, dropped: int, size: int, request: Request | str
    ) -> Array[Any]:
        found = self.statistics(rows, request)
        vector = np.zeros(size)
        vector[: len(found)] = found
        vector[-1] = dropped
        return vector

    def statistics(self, rows: Rows, request: Request | str) -> Vector:
        """Return what some rows add up to."""
        if isinstance(request, Request):
            return glm.statistics(self.family, rows, request)
        return least_squares.statistics(rows)

    def pooled(self, rows: Mapping[str, Rows]) -> Vector:
        """Return the coefficients as one owner of all rows would find them.

        Least squares from the rows themselves, by an orthogonal decomposition;
        everything else by the same rounds, without masks.
        """
        everything = _joined(rows)
        if isinstance(self.family, Gaussian):
            return self._by_orthogonal_columns(everything)
        recipe, sums = self.recipe(), list[Vector]()
        while (request := recipe.request(sums)) is not None:
            sums.append(self._answer(everything, 0, recipe.size, request))
        return recipe.answer(sums)

    def _by_orthogonal_columns(self, rows: Rows) -> Vector:
        root = np.sqrt(rows.weigh(np.ones(rows.n_rows)))
        target = rows.response if rows.offset is None else rows.response - rows.offset
        penalty = np.full(len(self.names), np.sqrt(self.ridge))
        if self.intercept is not None:
            penalty[self.intercept] = 0.0
        design = np.vstack([rows.design * root[:, None], np.diag(penalty)])
        right = np.append(target * root, np.zeros(len(penalty)))
        # Columns of one length, so that none is taken for a multiple of rounding.
        scale = np.linalg.norm(design, axis=0)
        found, *_ = np.linalg.lstsq(design / scale, right, rcond=None)
        return np.asarray(found / scale)


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
