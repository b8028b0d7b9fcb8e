"""Regressions of several parties, each with rows of its own, as one pooled fit.

result = fit("y ~ age + C(sex)", {"north": frame, "south": other, ...})
print(result.summary())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from veilsum.costs.bases import smat
from veilsum.errors import InvalidInputError
from veilsum.jobs.formula_job import FormulaJob, inferred_schema
from veilsum.jobs.model import Model, RegressionRecipe, family_of
from veilsum.jobs.parties import by_name, table_parts
from veilsum.jobs.recipes import Contribution
from veilsum.jobs.releases import FRACTION
from veilsum.jobs.rules import RowRules
from veilsum.jobs.running import JobResult, run_job
from veilsum.jobs.summary import summary_html, summary_text, table_rows
from veilsum.jobs.terms import Options, Terms
from veilsum.models.families import Family
from veilsum.models.glm import GlmFit
from veilsum.models.least_squares import LeastSquaresFit
from veilsum.models.rows import Rows
from veilsum.models.systems import column_names
from veilsum.numbers.arrays import Array, Vector
from veilsum.numbers.fixed_point import Grid
from veilsum.tables.frames import as_frame
from veilsum.tables.schema import MINIMUM_ROWS, Schema

UNLIMITED = (
    "release_fraction is 1 or more: the released sums may be enough to solve for rows"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FitResult(JobResult):
    """A fit of all parties' rows, and what they released for it.

    Attributes:
        model: what was fitted.
        rules: what was agreed about rows.
        reference: the pooled coefficients, where one computer has all rows and was
            asked to compare.
    """

    model: Model
    rules: RowRules
    reference: Vector | None = None

    @property
    def further_limits(self) -> tuple[str, ...]:
        """What the rules about rows leave open."""
        free = self.rules.release_fraction >= 1.0
        return (*super().further_limits, *((UNLIMITED,) if free else ()))

    @cached_property
    def fit(self) -> LeastSquaresFit | GlmFit:
        """Coefficients, their errors, and everything else that follows from sums."""
        return cast("RegressionRecipe", self.recipe).fit(self.released.sums)

    @property
    def coefficients(self) -> dict[str, float]:
        """The estimates by column."""
        return dict(zip(self.fit.names, self.fit.coefficients.tolist(), strict=True))

    @property
    def dropped(self) -> int:
        """Rows that all parties together left out: only this sum is known."""
        return cast("RegressionRecipe", self.recipe).missing(self.released.sums)

    @property
    def tiny_columns(self) -> tuple[str, ...]:
        """Columns whose squares the grid may have rounded beyond the ninth digit."""
        bits = self.terms.law.masks.grid
        if bits is None:
            return ()
        p = len(self.model.names)
        squares = np.diag(smat(self.released.sums[0][: p * (p + 1) // 2], p))
        least = 1e9 * Grid(bits).step * len(self.terms.parties)
        names = zip(self.model.names, squares.tolist(), strict=True)
        return tuple(name for name, square in names if square < least)

    @property
    def max_error(self) -> float | None:
        """How far the coefficients are from the pooled ones; None if not compared."""
        if self.reference is None:
            return None
        return float(np.linalg.norm(self.fit.coefficients - self.reference))

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
        if self.tiny_columns:
            small = ", ".join(self.tiny_columns)
            notes.append(
                f"Columns so small that the grid rounds them: {small}; multiply them "
                "by a power of ten and fit again."
            )
        if self.dropped:
            notes.append(f"{self.dropped} rows with missing values were left out.")
        return {
            "title": f"Pooled {self.model.family.name} regression under masks",
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
            "tiny_columns": list(self.tiny_columns),
            "log_likelihood": _finite(fit.log_likelihood),
            "aic": _finite(fit.aic),
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
    schema: Schema | None = None,
    minimum_rows: int = MINIMUM_ROWS,
    release_fraction: float = FRACTION,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of several parties' tables; only sums leave a party.

    Args:
        formula: such as "y ~ age + C(sex) + bp".
        data: each party's table: pandas, polars, or a mapping of columns.
        family: gaussian, logistic, poisson, gamma, gamma-inverse, negative-binomial.
        alpha: the fixed dispersion of a negative-binomial family.
        weights: the column of weights.
        offset: the column of offsets.
        ridge: what each squared coefficient but the intercept's costs.
        schema: what the tables were agreed to look like. Without one it is read off all
            tables together, which only a simulation can do.
        minimum_rows: without a schema, a party with fewer rows is refused.
        release_fraction: of the numbers in honest rows, how many may be released.
        compare: whether to fit the pooled rows as well, as only a simulation can.
        options: how to sum; see `Options`.
    """
    frames = {party: as_frame(table) for party, table in by_name(data).items()}
    used = (weights, offset)
    agreed = schema or inferred_schema(formula, used, frames, minimum_rows)
    kind = family_of(family, alpha=alpha)
    job = FormulaJob.of(formula, agreed, kind, weights, offset, ridge)
    tables = {party: job.schema.check(party, frame) for party, frame in frames.items()}
    return fit_rows(
        {party: job.rows(table) for party, table in tables.items()},
        job.model,
        sources={party: table_parts(frame) for party, frame in frames.items()},
        rules=RowRules.of(agreed, release_fraction),
        dropped={party: table.n_dropped for party, table in tables.items()},
        agreed=job.agreed,
        compare=compare,
        **options,
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
    rules: RowRules | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of several parties' arrays, which nobody checks first.

    Args:
        data: each party's design and response; float64 arrays are not copied.
        family: as for `fit`.
        alpha: as for `fit`.
        names: of the columns.
        intercept: which column is all ones, if any; none is added.
        weights: by party.
        offset: by party.
        ridge: as for `fit`.
        rules: how many rows a party must have, and how much may be released.
        compare: as for `fit`.
        options: how to sum; see `Options`.
    """
    weighing, shifting = by_name(weights or {}), by_name(offset or {})
    rows = {
        party: Rows.of(*arrays, weights=weighing.get(party), offset=shifting.get(party))
        for party, arrays in by_name(data).items()
    }
    model = Model(
        response="y",
        names=column_names(names, _n_columns(rows)),
        intercept=intercept,
        family=family_of(family, alpha=alpha),
        ridge=ridge,
        weighted=weights is not None,
        offset=offset is not None,
    )
    return fit_rows(rows, model, rules=rules, compare=compare, **options)


def _n_columns(rows: Mapping[str, Rows]) -> int:
    found = {part.n_columns for part in rows.values()}
    if len(found) != 1:
        raise InvalidInputError(
            f"all parties' designs have the same columns, found {sorted(found)} of them"
        )
    return found.pop()


def fit_rows(
    rows: Mapping[str, Rows],
    model: Model,
    *,
    rules: RowRules | None = None,
    dropped: Mapping[str, int] | None = None,
    sources: Mapping[str, tuple[Array[Any], ...]] | None = None,
    agreed: Mapping[str, Any] | None = None,
    compare: bool = False,
    **options: Unpack[Options],
) -> FitResult:
    """Return the pooled fit of a model to parties' rows.

    Args:
        rows: by party; all must have the model's columns.
        model: what is fitted.
        rules: how many rows a party must have, and how much may be released.
        dropped: by party, how many rows were left out.
        sources: by party, the whole table that rows are from, for its ledger.
        agreed: what parties compare beside how they sum.
        compare: whether to fit the pooled rows as well.
        options: how to sum; see `Options`.
    """
    rules = rules or RowRules()
    for party, part in rows.items():
        rules.check(party, part.n_rows)
        model.check(party, part)
    terms = Terms.of(list(rows), options=options)
    recipe = model.recipe(rules.limit(model.numbers_in_a_row, terms))
    missing = dropped or {}
    released = run_job(
        recipe,
        {
            party: _known_as(
                model.contribution(part, missing.get(party, 0), recipe.size),
                (sources or {}).get(party),
            )
            for party, part in rows.items()
        },
        terms,
        agreed={"model": model.terms, "rules": asdict(rules), **(agreed or {})},
    )
    return FitResult(
        terms=terms,
        recipe=recipe,
        released=released,
        model=model,
        rules=rules,
        reference=model.pooled(rows) if compare else None,
    )


def _known_as(
    contribution: Contribution, source: tuple[Array[Any], ...] | None
) -> Contribution:
    """Return the contribution with the whole table as what its ledger knows it by."""
    return contribution if source is None else replace(contribution, data=source)
