"""Predictions of a regression: means of new rows, and marginal means of levels.

Nothing here needs a further sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.models.families import Family
from veilsum.models.inference import Inference
from veilsum.numbers.arrays import FloatArray, Vector, listed_names, nearest_name
from veilsum.showing import Renderable, Rendering, ShownTable
from veilsum.tables.formula import ModelFormula
from veilsum.tables.frames import Frame, load_pandas

Scale = Literal["response", "link"]
Interval = Literal["confidence", "prediction"]

# Combinations of other categories' levels over which a marginal mean is averaged.
MOST_CELLS = 10_000


def predicted_means(
    fit: Inference,
    design: FloatArray,
    family: Family,
    *,
    offset: Vector | float = 0.0,
    scale: Scale = "response",
    interval: Interval | None = None,
    level: float = 0.95,
    variance: float | None = None,
) -> dict[str, Vector]:
    """Return means of new rows by statsmodels' names, with errors and intervals.

    On the scale of the response standard errors are by the delta method, and an
    interval has the ends of that on the link's scale.

    Args:
        fit: the coefficients.
        design: of the new rows.
        family: whose link leads from one scale to the other.
        offset: of the new rows.
        scale: of what is returned.
        interval: of the mean, or of a new response, which least squares has.
        level: of the interval.
        variance: of responses about their mean, for the second kind.
    """
    if scale not in ("response", "link"):
        raise InvalidInputError(
            f"scale must be response or link, found {scale!r}", code="unknown-scale"
        )
    if interval not in (None, "confidence", "prediction"):
        raise InvalidInputError(
            f"interval must be confidence or prediction, found {interval!r}",
            code="unknown-interval",
        )
    if interval == "prediction" and variance is None:
        raise InvalidInputError(
            'interval = "prediction" is for least squares with one variance: with '
            "weights, robust errors or another family the scatter about a mean is not "
            'one number; use "confidence"',
            code="prediction-interval-unavailable",
        )
    eta = design @ fit.coefficients + offset
    spread = np.einsum("ij,jk,ik->i", design, fit.covariance, design)
    rows = Inference(
        names=tuple(map(str, range(len(eta)))),
        coefficients=eta,
        covariance=np.diag(np.maximum(spread, 0.0)),
        t_degrees=fit.t_degrees,
    )
    ends = rows.confidence_intervals(level).T
    found = {"mean": eta, "mean_se": rows.standard_errors}
    found |= {"mean_ci_lower": ends[0], "mean_ci_upper": ends[1]}
    if scale == "response":
        with np.errstate(all="ignore"):
            mean = family.inverse_link(eta)
            error = np.abs(family.mean_slope(eta)) * rows.standard_errors
            low, high = family.mean_ends(*ends)
        found = {"mean": mean, "mean_se": error}
        found |= {"mean_ci_lower": low, "mean_ci_upper": high}
    if interval == "prediction":
        assert variance is not None
        wide = Inference(
            names=rows.names,
            coefficients=eta,
            covariance=rows.covariance + variance * np.eye(len(eta)),
            t_degrees=fit.t_degrees,
        )
        low, high = wide.confidence_intervals(level).T
        found |= {"obs_ci_lower": low, "obs_ci_upper": high}
    return found


@dataclass(frozen=True, eq=False, repr=False)
class MarginalMeans(Renderable):
    """The mean at each level of a category, all else alike.

    Attributes:
        category: whose levels they are.
        columns: the means by statsmodels' names, with errors and intervals.
        used: what all else was set to, a sentence each.
    """

    category: str
    levels: tuple[str, ...]
    columns: Mapping[str, Vector]
    used: tuple[str, ...]

    def to_frame(self) -> Frame:
        index = load_pandas().Index(self.levels, name=self.category)
        return load_pandas().DataFrame(dict(self.columns), index=index)

    def summary(self) -> str:
        return str(self)

    def showing(self) -> Rendering:
        heads = {
            "mean": "mean",
            "mean_se": "std err",
            "mean_ci_lower": "low",
            "mean_ci_upper": "high",
        }
        rows = [
            {self.category: level}
            | {head: float(self.columns[key][k]) for key, head in heads.items()}
            for k, level in enumerate(self.levels)
        ]
        return Rendering(f"Means by {self.category}", [ShownTable.of(rows), self.used])


@dataclass(frozen=True, eq=False)
class ReferenceGrid:
    """Rows at each level of a category, for the formula to make a design of.

    Attributes:
        formula: what rows are made for.
        category: whose levels are compared.
        at: numbers and levels that were given, by column.
        means: of numbers, as far as they follow from released sums.
    """

    formula: ModelFormula
    category: str
    at: Mapping[str, Any]
    means: Mapping[str, float]

    @classmethod
    def of(
        cls,
        formula: ModelFormula,
        term: str,
        at: Mapping[str, Any] | None,
        means: Mapping[str, float],
    ) -> ReferenceGrid:
        """Return the grid of a term such as "C(sex)"; refuse what is not there."""
        schema, given = formula.schema, dict(at or {})
        known = [one for one in formula.predictors if schema.column(one).is_category]
        inside = term.strip().removeprefix("C(").split(",")[0].removesuffix(")").strip()
        if inside not in known:
            raise InvalidInputError(
                f"marginal means are those of a category in the formula, found "
                f"{term!r}; {nearest_name(inside, known)}its categories are "
                f"{listed_names(known) or 'none'}",
                code="not-a-category",
            )
        for name in given:
            if name not in formula.predictors or name == inside:
                others = [one for one in formula.predictors if one != inside]
                raise InvalidInputError(
                    f"at names columns of the formula beside {inside!r}, found "
                    f"{name!r}; {nearest_name(name, others)}choose from "
                    f"{listed_names(others)}",
                    code="unknown-column",
                )
        return cls(formula, inside, given, means)

    @property
    def levels(self) -> tuple[str, ...]:
        return self.formula.schema.column(self.category).categories

    def _others(self) -> tuple[list[str], list[str]]:
        """Return the other categories that are averaged over, and the numbers."""
        schema = self.formula.schema
        names = [n for n in self.formula.predictors if n != self.category]
        free = [n for n in names if n not in self.at and schema.column(n).is_category]
        return free, [n for n in names if not schema.column(n).is_category]

    def design(self) -> FloatArray:
        """Return one row for each level: the average over other categories' levels."""
        free, _ = self._others()
        schema = self.formula.schema
        crossed = [schema.column(name).categories for name in free]
        if (size := prod(map(len, crossed))) * len(self.levels) > MOST_CELLS:
            raise InvalidInputError(
                f"other categories have {size:,} combinations of levels, and a mean "
                f"is taken over {MOST_CELLS:,} at most: give some of them in at",
                code="too-many-combinations",
            )
        cells = [*product(self.levels, *crossed)]
        made: dict[str, Any] = {
            name: [cell[k] for cell in cells]
            for k, name in enumerate([self.category, *free])
        }
        for name in self.formula.predictors:
            if name not in made:
                value = self.at[name] if name in self.at else self._mean(name)
                made[name] = [value] * len(cells)
        rows = np.asarray(self.formula.design_at(made), dtype=np.float64)
        return rows.reshape(len(self.levels), -1, rows.shape[1]).mean(axis=1)

    def _mean(self, name: str) -> float:
        if name in self.means:
            return self.means[name]
        missing = [one for one in self._others()[1] if one not in self.at]
        example = ", ".join(f'"{one}": ...' for one in missing)
        raise InvalidInputError(
            f"the mean of {name!r} is not among what was released: it is for least "
            "squares with an intercept where the column stands in the formula by "
            f"itself; say at which value, at={{{example}}}",
            code="mean-not-released",
        )

    def used(self) -> Iterator[str]:
        free, numbers = self._others()
        for name in numbers:
            where = "as given" if name in self.at else "its mean, from released sums"
            value = self.at[name] if name in self.at else self._mean(name)
            yield f"{name} is {float(value):.6g}, {where}."
        for name, value in self.at.items():
            if name not in numbers:
                yield f"{name} is {value}, as given."
        for name in free:
            yield f"Levels of {name} count alike, however many rows have them."


def regression_marginal_means(
    fit: Inference,
    family: Family,
    grid: ReferenceGrid,
    *,
    scale: Scale,
    level: float,
    notes: Sequence[str] = (),
) -> MarginalMeans:
    found = predicted_means(
        fit, grid.design(), family, scale=scale, interval="confidence", level=level
    )
    return MarginalMeans(grid.category, grid.levels, found, (*grid.used(), *notes))
