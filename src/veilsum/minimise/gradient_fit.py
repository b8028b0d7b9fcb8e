"""Regressions by gradients: the paper's method, with a party's features in its hands.

Each party's cost is its part of the log-likelihood. Affine masks go on X'W(mu(o) - y),
and all parties step downhill together by projected gradients. Slower than `fit`, which
needs a few exact sums, and with weaker promises: features are not hidden at all.
No party objects to an iteration: estimates pass from neighbour to neighbour, and no sum
of all parties is there to carry an objection.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar, Unpack

import numpy as np

from veilsum.errors import InvalidInputError
from veilsum.fits.model import FitModel, family_of_fit
from veilsum.locale import limit_phrase
from veilsum.minimise.costs.cost import Cost
from veilsum.minimise.costs.domains import Box, Domain
from veilsum.minimise.costs.rows import (
    check_canonical_cost_family,
    curvature_of_rows_cost,
    glm_cost,
)
from veilsum.minimise.methods.settings import Settings
from veilsum.minimise.solve import Run, solve
from veilsum.models.families import Family
from veilsum.models.rows import Gram, RowMeasures, Rows
from veilsum.models.systems import (
    check_model_intercept,
    dependent_model_columns,
    model_column_names,
    ridge_penalties_of_model,
)
from veilsum.numbers.arrays import Vector
from veilsum.privacy.guarantee import Guarantee
from veilsum.showing import Renderable, Rendering, ShownTable
from veilsum.sums.releases import SumRelease, with_releases
from veilsum.sums.terms import SumOptions, parties_data_by_name

# Coefficients of columns with a spread near one are well within.
REACH = 10.0
# How fast steps shrink: where curvature has a bound, and where it grows like exp.
POWER, CAREFUL_POWER = 1.0, 0.55
# Where the domain ends is known to rounding only.
EDGE = 1e-9
# Curvatures in float64 that are so far apart belong to dependent columns.
RANK_TOLERANCE = 1e-12

T = TypeVar("T")

ESTIMATES = limit_phrase("estimates")
STEP = limit_phrase("step_read")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GradientFit(Renderable):
    """A regression fitted by gradient steps under affine masks.

    Attributes:
        model: what was fitted.
        reference: the pooled coefficients, as one owner of all rows would find them.
        run: estimates along the way, rounds, bytes.
        step_was_read: whether the step size is one that only a simulation can know.
    """

    model: FitModel
    reference: Vector
    run: Run = field(repr=False)
    step_was_read: bool = field(default=False, repr=False)

    @property
    def coefficients(self) -> dict[str, float]:
        """The parties' average estimates by column."""
        return dict(zip(self.model.names, self.run.minimiser.tolist(), strict=True))

    @property
    def max_error(self) -> float:
        """The worst party's distance from the pooled coefficients."""
        away = self.run.estimates - self.reference
        return float(np.linalg.norm(away, axis=1).max())

    @cached_property
    def guarantee(self) -> Guarantee:
        """Guarantee of the masks for the regression."""
        promise = self.run.guarantee
        if not promise.kind.hides:
            return promise
        shown = SumRelease(self.model.words, {"gradient": len(self.model.names)})
        listed = with_releases(promise, [shown])
        read = (STEP,) if self.step_was_read else ()
        return replace(
            listed,
            released=(*listed.released, ESTIMATES),
            limits=(*listed.limits, *read),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.run.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "coefficients": self.coefficients,
            "reference": self.reference.tolist(),
            "max_error": self.max_error,
        }

    def showing(self) -> Rendering:
        """Return the coefficients beside the pooled ones, and what they rest on."""
        promise = self.guarantee.showing()
        pairs = zip(self.coefficients.items(), self.reference.tolist(), strict=True)
        rows = [[name, found, pooled] for (name, found), pooled in pairs]
        return Rendering(
            f"By gradient steps: {self.model.words}",
            [
                ShownTable(["", "parties found", "pooled fit"], rows),
                f"worst party's error {self.max_error:.3g} after "
                f"{self.run.iterations} iterations",
                promise.title,
                *promise.blocks,
            ],
            promise.folded,
        )

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the errors of its run."""
        return self.run.draw_with(figures, title=title)


def fit_by_gradients(
    rows: Mapping[str, Rows],
    *,
    family: str | Family = "gaussian",
    names: Sequence[str] | None = None,
    intercept: int | None = None,
    ridge: float = 0.0,
    grid: int | None = None,
    unit: object = None,
    corrupted: Iterable[Hashable] | None = None,
    domain: Domain | None = None,
    iterations: int = 10_000,
    step: float | None = None,
    power: float | None = None,
    **options: Unpack[SumOptions],
) -> GradientFit:
    """Return the pooled fit that parties approach by gradient steps on masked costs.

    What masks hide here is how X'Wy splits among honest parties, and nothing else; see
    the guarantee's limits. Columns should be centred and scaled.

    Args:
        rows: by party; all have the same columns.
        family: gaussian, logistic or poisson.
        names: of the columns.
        intercept: which column is all ones, if any; none is added.
        ridge: what each squared coefficient but the intercept's costs, as for `fit`.
        grid: as for `solve`.
        unit: what each row's term of X'W(mu(o) - y) is rounded to, so that the total
            does not know who has which row; by default a step of the grid.
        corrupted: as for `solve`.
        domain: where coefficients may lie, public; by default up to 10 in size. For
            poisson the smaller the better: means grow like exp towards its corners.
        iterations: how many gradient steps.
        step: the first step's size. Without one it is read off all parties' rows,
            which only a simulation can do.
        power: steps shrink like 1 / (k + 1)^power; by default 1, for poisson 0.55.
        options: as for `solve`. `law` is `lattice` by default; `largest` is the range
            of |X'W(mu(o) - y)|.
    """
    held = parties_data_by_name(rows)
    options.setdefault("law", "lattice")
    model = _gradient_fit_model(held, family_of_fit(family), names, intercept, ridge)
    costs = _glm_costs_of_parties(held, model)
    where = domain or Box(-REACH, REACH, dim=len(model.names))
    reference = _gradient_fit_inside_domain(where, _pooled_gradient_fit(held, model))
    settings = Settings(iterations=iterations, power=_gradient_fit_power(model, power))
    first = (
        _first_gradient_fit_step(held, model, reference, settings)
        if step is None
        else step
    )
    run = solve(
        costs,
        domain=where,
        grid=grid,
        unit=unit,
        corrupted=corrupted,
        settings=replace(settings, step=first),
        **options,
    )
    return GradientFit(
        model=model, reference=reference, run=run, step_was_read=step is None
    )


def _gradient_fit_model(
    rows: Mapping[str, Rows],
    family: Family,
    names: Sequence[str] | None,
    intercept: int | None,
    ridge: float,
) -> FitModel:
    check_canonical_cost_family(family)
    n_columns = _same_of_all_gradient_rows(rows, lambda part: part.n_columns, "columns")
    check_model_intercept(intercept, n_columns)
    _same_of_all_gradient_rows(rows, lambda part: part.weights is not None, "weights")
    _same_of_all_gradient_rows(rows, lambda part: part.offset is not None, "offsets")
    return FitModel(
        response="y",
        names=model_column_names(names, n_columns),
        intercept=intercept,
        family=family,
        measures=RowMeasures.inferred(rows, intercept),
        ridge=ridge,
    )


def _same_of_all_gradient_rows(
    rows: Mapping[str, Rows], ask: Callable[[Rows], T], what: str
) -> T:
    """Return what all parties answer alike; name everybody where they do not."""
    answers = {party: ask(part) for party, part in rows.items()}
    if len(set(answers.values())) == 1:
        return next(iter(answers.values()))
    told = ", ".join(f"{party} {answer}" for party, answer in answers.items())
    raise InvalidInputError(
        f"all parties' rows must be alike in their {what}, found "
        f"{told or 'no party at all'}",
        code="rows-differ",
    )


def _glm_costs_of_parties(rows: Mapping[str, Rows], model: FitModel) -> dict[str, Cost]:
    share = _gradient_fit_penalty(model) / len(rows)
    costs = {}
    for party, part in rows.items():
        try:
            costs[party] = glm_cost(model.family, part, ridge=share)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"party {party!r}: {error}", code=error.code
            ) from None
    return costs


def _gradient_fit_penalty(model: FitModel) -> Vector:
    return ridge_penalties_of_model(
        model.ridge, n_columns=len(model.names), intercept=model.intercept
    )


def _pooled_gradient_fit(rows: Mapping[str, Rows], model: FitModel) -> Vector:
    _check_gradient_fit_columns(
        _gradient_fit_curvature(rows, model, np.zeros(len(model.names))), model.names
    )
    return model.pooled(rows)


def _check_gradient_fit_columns(curvature: Gram, names: Sequence[str]) -> None:
    """Refuse columns that are so near to dependent that no method gets on."""
    scale = 1.0 / np.sqrt(np.diag(curvature))
    values, vectors = np.linalg.eigh(curvature * np.outer(scale, scale))
    null = vectors[:, values <= RANK_TOLERANCE * values[-1]]
    if null.size:
        shares = zip(names, np.linalg.norm(null, axis=1), strict=True)
        raise dependent_model_columns(
            [one for one, share in shares if share > 1e-5], null.shape[1]
        )


def _gradient_fit_curvature(
    rows: Mapping[str, Rows], model: FitModel, at: Vector
) -> Gram:
    parts = [curvature_of_rows_cost(model.family, part, at) for part in rows.values()]
    return np.asarray(np.sum(parts, axis=0) + np.diag(_gradient_fit_penalty(model)))


def _gradient_fit_is_steep(model: FitModel) -> bool:
    """Say whether curvature grows without bound as coefficients do."""
    return model.family.exponential


def _gradient_fit_power(model: FitModel, given: float | None) -> float:
    if given is not None:
        return given
    return CAREFUL_POWER if _gradient_fit_is_steep(model) else POWER


def _first_gradient_fit_step(
    rows: Mapping[str, Rows], model: FitModel, pooled: Vector, settings: Settings
) -> float:
    """Return a first step from which the pooled fit can be reached; or refuse."""
    values = np.linalg.eigvalsh(_gradient_fit_curvature(rows, model, pooled))
    least, ratio = float(values[0]) / len(rows), float(values[-1] / values[0])
    if not _gradient_fit_is_steep(model):
        # Errors shrink like 1 / k only for a step well above 1 / (2 least). It is too
        # long for steeper directions; the domain bounds what goes wrong until k has
        # come to about the ratio of the curvatures.
        _refuse_uneven_gradient_fit(
            ratio, settings.iterations, enough=ratio < settings.iterations
        )
        return 2.0 / least
    step = _careful_gradient_fit_step(rows, model, pooled)
    counts = np.arange(1.0, settings.iterations + 1.0)
    way = step * least * float((counts**-settings.power).sum())
    _refuse_uneven_gradient_fit(
        1.0 / (step * least), settings.iterations, enough=way > 1.0
    )
    return step


def _refuse_uneven_gradient_fit(ratio: float, iterations: int, *, enough: bool) -> None:
    if not enough:
        raise InvalidInputError(
            f"{iterations} gradient steps are too few where one combination of columns "
            f"bends a cost {ratio:.2g} times as much as another: centre and scale the "
            "columns, use ridge, allow more iterations, or use fit",
            code="columns-badly-scaled",
        )


def _careful_gradient_fit_step(
    rows: Mapping[str, Rows], model: FitModel, pooled: Vector
) -> float:
    """Return 1 over the greatest curvature that a party has at 0 or at the answer."""
    # Overshooting once is too much: means in a corner of the domain grow like exp, and
    # steps from there lead to other corners for ever.
    share = np.diag(_gradient_fit_penalty(model)) / len(rows)
    peaks = [
        np.linalg.eigvalsh(curvature_of_rows_cost(model.family, part, at) + share)[-1]
        for part in rows.values()
        for at in (np.zeros(pooled.size), pooled)
    ]
    return 1.0 / float(max(peaks))


def _gradient_fit_inside_domain(domain: Domain, pooled: Vector) -> Vector:
    """Return the pooled coefficients; refuse a domain that cuts them off."""
    if domain.dim != pooled.size:
        raise InvalidInputError(
            f"there are {pooled.size} coefficients, one for each column, but the "
            f"domain has dimension {domain.dim}",
            code="dimension-differs",
        )
    away = float(np.linalg.norm(domain.project(pooled) - pooled))
    if away > EDGE * (1.0 + float(np.linalg.norm(pooled))):
        raise InvalidInputError(
            f"the pooled fit is outside the domain by {away:.3g}, its greatest "
            f"coefficient is {np.abs(pooled).max():.3g} in size: give a wider domain, "
            "or scale the columns",
            code="fit-outside-domain",
        )
    return pooled
