"""Regressions of a response with several levels: what parties do, and what it is for.

    result = fit("grade ~ age + dose", tables, family="ordinal", schema=schema)
    result.predict(new_rows)        # the chance of each level

Rows, groups and rules at home are those of every regression: a level of the response is
held by enough parties, and has enough rows at each party that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.choices import Choice, ChoiceFit, ChoiceSearch, ChoiceState, Ordinal
from veilsum.models.families import Family
from veilsum.numbers.arrays import FloatArray, Vector, listed
from veilsum.numbers.layout import Layout, number
from veilsum.numbers.units import triangle
from veilsum.sums.recipes import ManyRounds, Sums
from veilsum.sums.releases import Foreseen, Release, ReleaseLimit
from veilsum.tables.frames import Frame, load_pandas
from veilsum.tables.rules import MORE_SUMS
from veilsum.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class ChoiceRecipe(ManyRounds[ChoiceState]):
    """A choice among levels: a sum that counts them, then one for each Newton step.

    The last number of the first sum counts rows that were left out.
    """

    search: ChoiceSearch
    what: str
    limit: ReleaseLimit | None = None

    @cached_property
    def first_layout(self) -> Layout:
        """Rows of each level, X'y of a canonical link, and rows left out."""
        return self.search.scales.layouts["first"] + Layout((number("left_out"),))

    @cached_property
    def layout(self) -> Layout:
        """Information, score and log-likelihood at a point."""
        return self.search.scales.layouts["round"].padded(self.first_layout.size)

    @property
    def answer_size(self) -> int:
        """One number for each coefficient."""
        return self.search.scales.size

    @property
    def most(self) -> int:
        """As many sums as Newton may take."""
        return self.search.max_rounds

    def unfinished(self, state: ChoiceState) -> str:
        """Return what to say of a fit for which no room is left."""
        told = (
            f"the fit has not converged in {self.most_rounds} sums, and more than "
            "that there is no room for: scale the columns, leave some out, merge "
            f"levels, or {MORE_SUMS}"
        )
        if endless := self.search.endless_columns(state):
            told = (
                f"the coefficient of {listed(endless)} seems to grow without end, "
                "which takes many rounds to be sure of: leave the column out, or merge "
                f"levels. And {told}"
            )
        return told

    def answer(self, sums: Sums) -> Vector:
        """Return the coefficients."""
        return self.fit(sums).coefficients

    def fit(self, sums: Sums) -> ChoiceFit:
        """Return the fit of the pooled rows."""
        return self.search.fit(self.state(sums))

    def about_rows(self, sums: Sums, names: Sequence[str]) -> list[Fraction]:
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
        return counts + sorted(triangle(products[np.ix_(places, places)]))

    def release(self, sums: Sums) -> Release:
        """Return what the next sum shows, and where it is evaluated."""
        point = self.search.propose(self.state(sums)).point
        if not len(point):
            return Release(self.what, self.first_layout.released)
        exact = [Fraction(one) for one in point.tolist()]
        real = tuple(float(one) for one in self.search.scales.real(exact))
        return Release(self.what, self.layout.released, real)

    @property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What the first round shows, which counts levels, and every further one."""
        found = (
            Foreseen("first", self.first_layout.released),
            Foreseen(
                "tries",
                self.layout.released,
                1,
                self.most_rounds - 1,
            ),
        )
        return tuple(one for one in found if one.most > 0)


def check_choice(given: Mapping[str, Any], family: Choice) -> None:
    """Refuse what a choice goes without, by the word that was used for it."""
    for word, value in given.items():
        if value:
            raise InvalidInputError(
                f'family = "{family.name}" goes without {word}, found {word} = '
                f"{value!r}: leave it out"
            )


def with_its_order(
    schema: Schema, response: str, family: Family, frames: Mapping[str, Frame]
) -> Schema:
    """Return a schema that was read off tables, with the order that levels have there.

    That of text is the alphabet's, which is no order of levels: where that matters, it
    is refused.
    """
    if not isinstance(family, Choice) or response not in schema:
        return schema
    column = schema.column(response)
    if not column.is_category:
        return schema
    pandas = load_pandas()
    orders = {
        tuple(map(str, one.categories)) if one.ordered else ()
        for one in (frame[response].dtype for frame in frames.values())
        if isinstance(one, pandas.CategoricalDtype)
    }
    if len(orders) == 1 and set(order := orders.pop()) >= set(column.categories):
        kept = tuple(one for one in order if one in column.categories)
        made = replace(column, categories=kept)
        columns = (made if one is column else one for one in schema.columns)
        return replace(schema, columns=tuple(columns))
    if isinstance(family, Ordinal):
        raise InvalidInputError(
            f"the levels of {response!r} have no order that all tables say: agree on a "
            "schema whose categories are in their order, or give every table the same "
            "ordered pandas Categorical"
        )
    return schema


def chances(fit: ChoiceFit, design: FloatArray, ones: int, index: Any) -> Frame:
    """Return the chance of each level for new rows."""
    family = fit.family
    assert isinstance(family, Choice)
    shape = len(fit.levels) - 1, design.shape[1]
    lines = family.spread(fit.coefficients, shape, ones)
    found = family.probabilities(np.asarray(design, np.float64) @ lines.T)
    return load_pandas().DataFrame(found, index=index, columns=list(fit.levels))
