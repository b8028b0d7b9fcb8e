"""Analyses of released means and covariances, without further queries.

    found = statistics(data, columns=["wage", "school", "near", "age"])
    path = elastic_net(found, "wage", on=["school", "age"])
    print(two_stage(found, "wage", on=["school", "age"], instruments=["near", "age"]))
    principal_components(found)

Sums of products of columns are all that these methods use of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from veilsum.errors import InvalidInputError, load_extra_package
from veilsum.fits.fitted import INTERCEPT
from veilsum.models.inference import Inference, coefficient_table
from veilsum.models.moments import Moments
from veilsum.models.rows import Gram
from veilsum.numbers.arrays import (
    FloatArray,
    Vector,
    as_floats,
    as_whole_number,
    is_real_number,
    listed_names,
)
from veilsum.showing import Cell, Renderable, Rendering, ShownTable, counted_words
from veilsum.tables.frames import load_pandas

# Directions in which columns vary by less than this much of their sizes are none.
NEGLIGIBLE = 1e-12
# Strengths of a path that are shown.
MOST_LINES = 12


class ReleasedMoments(Protocol):
    """Moments that `statistics` released, and the columns they are of."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def moments(self) -> Moments: ...


@dataclass(frozen=True, repr=False)
class Path(Renderable):
    """Coefficients of an elastic net, one line for each strength of the penalty.

    Attributes:
        names: of the columns; the intercept is not penalised.
        alphas: strengths, the largest first.
        l1_ratio: 1 for the lasso, 0 for a ridge.
        coefficients: by strength and column.
        intercepts: by strength.
        r_squared: by strength, on the rows that were fitted.
    """

    names: tuple[str, ...]
    alphas: Vector
    l1_ratio: float
    coefficients: FloatArray
    intercepts: Vector
    r_squared: Vector

    def at(self, alpha: float) -> dict[str, float]:
        """Return the coefficients at one of the strengths."""
        places = np.flatnonzero(np.isclose(self.alphas, alpha, rtol=1e-9))
        if not places.size:
            raise InvalidInputError(
                f"the path has no alpha {alpha:g}; choose one of "
                f"{listed_names([f'{one:g}' for one in self.alphas])}",
                code="unknown-alpha",
            )
        k = int(places[0])
        found = dict(zip(self.names, self.coefficients[k].tolist(), strict=True))
        return {INTERCEPT: float(self.intercepts[k]), **found}

    def to_frame(self) -> Any:
        """Return a table with one line for each strength."""
        columns = {"alpha": self.alphas, INTERCEPT: self.intercepts}
        columns |= dict(zip(self.names, self.coefficients.T, strict=True))
        return load_pandas().DataFrame(columns | {"r_squared": self.r_squared})

    def showing(self) -> Rendering:
        """Return how many columns are left, from the strongest penalty on."""
        many, few = len(self.alphas), MOST_LINES
        steps = np.unique(np.linspace(0, many - 1, min(many, few)).round().astype(int))
        left = np.count_nonzero(self.coefficients, axis=1)
        rows: list[list[Cell]] = [
            [f"{self.alphas[k]:.4g}", int(left[k]), float(self.r_squared[k])]
            for k in steps
        ]
        last = dict(zip(self.names, self.coefficients[-1].tolist(), strict=True))
        table = ShownTable(
            [INTERCEPT, *last], [[float(self.intercepts[-1]), *last.values()]]
        )
        return Rendering(
            f"Elastic net of {counted_words(len(self.names), 'column')}, {many} "
            "alphas from "
            f"{self.alphas[0]:.4g} to {self.alphas[-1]:.4g}, l1_ratio "
            f"{self.l1_ratio:g}",
            [
                ShownTable(["alpha", "columns left", "R squared"], rows, align=">>."),
                ".at(alpha) has the coefficients of one strength.",
            ],
            {"Coefficients at the weakest penalty": [table]},
        )

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the largest coefficients by strength of the penalty."""
        sizes = np.abs(self.coefficients).max(axis=0)
        largest = np.argsort(-sizes, kind="stable")[: len(figures.PALETTE)]
        curves = {self.names[k]: self.coefficients[:, k] for k in sorted(largest)}
        kind = {1.0: "lasso", 0.0: "ridge"}.get(self.l1_ratio, "elastic net")
        caption = f"l1_ratio {self.l1_ratio:g}" + (
            f"; {len(curves)} largest of {len(self.names)} columns"
            if len(curves) < len(self.names)
            else ""
        )
        return figures.lines_figure(
            self.alphas,
            curves,
            ("strength of the penalty", "coefficient"),
            figures.chosen_title(title, f"Coefficients of a {kind}"),
            caption,
            scales=("log", "linear"),
        )


def elastic_net(
    found: ReleasedMoments,
    response: str,
    *,
    on: Sequence[str] | None = None,
    l1_ratio: float = 1.0,
    alphas: ArrayLike | None = None,
    n_alphas: int = 100,
    standardise: bool = False,
) -> Path:
    """Return the path of an elastic net, by scikit-learn, from released moments.

    It minimises |y - Xb|^2 / (2 n) + alpha (l1_ratio |b|_1 + (1 - l1_ratio) |b|^2 / 2),
    with an intercept that costs nothing, as scikit-learn's `ElasticNet` does.

    Args:
        found: what `statistics` released.
        response: the column that is explained.
        on: the columns that explain it; by default all others.
        l1_ratio: from 0, a ridge, to 1, the lasso.
        alphas: strengths of the penalty, 0 or more; by default `n_alphas` of them,
            from the least that leaves no column down to a thousandth of it.
        n_alphas: how many.
        standardise: whether the penalty is for columns over their deviations;
            coefficients are those of the columns as they are in any case.
    """
    if not (is_real_number(l1_ratio) and 0.0 <= l1_ratio <= 1.0):
        raise InvalidInputError(
            f"l1_ratio must be from 0 (ridge) to 1 (lasso), found {l1_ratio!r}",
            code="ratio-out-of-range",
        )
    linear = load_extra_package(
        "sklearn.linear_model", extra="sklearn", what="elastic nets"
    )
    names, cross, along, square = _parts_of_moment_question(found, response, on)
    count, means = found.moments.count, found.moments.mean
    scale = np.sqrt(np.diag(cross)) if standardise else np.ones(len(names))
    _check_moments_question_columns(names, np.diag(cross))
    design, target = _stand_in_rows_for_question(
        cross / np.outer(scale, scale), along / scale, square
    )
    # Its n is the number of its rows; ours have as much weight as n of them.
    rows = np.sqrt(len(target) * (count - 1) / count)
    if alphas is None:
        # The least strength at which 0 is best, and down from there.
        most = np.abs(along / scale).max() * (count - 1) / count / max(l1_ratio, 1e-3)
        steps = as_whole_number(n_alphas, what="n_alphas", least=1)
        strengths = np.geomspace(most, most / 1000.0, steps)
    else:
        strengths = as_floats(alphas, what="alphas")
        if strengths.ndim != 1 or not strengths.size or strengths.min() < 0.0:
            raise InvalidInputError(
                "alphas must be a list of penalties, each 0 or more, such as "
                f"[1.0, 0.1], found {alphas!r}",
                code="malformed-alphas",
            )
    chosen, coefficients, _ = linear.enet_path(
        design * rows,
        target * rows,
        l1_ratio=l1_ratio,
        alphas=strengths,
        tol=1e-14,
        max_iter=10**6,
    )
    slopes = coefficients.T / scale
    level = means[_places_of_moment_columns(found, [response])[0]]
    explained = 2.0 * slopes @ along - np.einsum("kj,jl,kl->k", slopes, cross, slopes)
    return Path(
        names=names,
        alphas=np.asarray(chosen),
        l1_ratio=l1_ratio,
        coefficients=slopes,
        intercepts=level - slopes @ means[_places_of_moment_columns(found, names)],
        r_squared=explained / square,
    )


@dataclass(frozen=True, repr=False)
class Components(Renderable):
    """Principal components of columns.

    Attributes:
        names: of the columns.
        variances: of the components, the largest first.
        loadings: one line for each component, of length 1.
    """

    names: tuple[str, ...]
    variances: Vector
    loadings: FloatArray

    @property
    def shares(self) -> Vector:
        """Fraction of the total variance that each component has."""
        return np.asarray(self.variances / self.variances.sum())

    def showing(self) -> Rendering:
        """Return variances, and loadings below."""
        each = [f"PC{k}" for k in range(1, 1 + len(self.variances))]
        both = np.stack([self.variances, self.shares, np.cumsum(self.shares)], axis=1)
        parts = [[name, *one] for name, one in zip(each, both.tolist(), strict=True)]
        loadings = zip(self.names, *self.loadings.tolist(), strict=True)
        return Rendering(
            f"{counted_words(len(each), 'principal component')}: the first has "
            f"{self.shares[0]:.1%} of all variance",
            [
                ShownTable(["", "variance", "share", "together"], parts, align="<..."),
                ShownTable(["loadings", *each], [*loadings]),
            ],
        )

    def to_frame(self) -> Any:
        """Return a table with one line for each component."""
        columns = {"variance": self.variances, "share": self.shares}
        columns |= dict(zip(self.names, self.loadings.T, strict=True))
        return load_pandas().DataFrame(columns)

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return each component's share of the variance."""
        shares = self.shares.tolist()[: figures.MOST_SHOWN]
        values = {f"component {k + 1}": 100.0 * one for k, one in enumerate(shares)}
        usual = f"Variance of {counted_words(len(self.names), 'column')} by component"
        caption = f"of {listed_names(self.names)}"
        return figures.values_figure(
            values, "% of all variance", figures.chosen_title(title, usual), caption
        )


def principal_components(
    found: ReleasedMoments,
    columns: Sequence[str] | None = None,
    *,
    correlation: bool = True,
) -> Components:
    """Return principal components of columns, from released moments.

    Args:
        found: what `statistics` released.
        columns: those that are looked at; by default all.
        correlation: whether columns are taken over their deviations, as they should be
            where they have different units.
    """
    names = found.columns if columns is None else tuple(columns)
    places = _places_of_moment_columns(found, names)
    of = found.moments.correlation if correlation else found.moments.covariance
    matrix = of[np.ix_(places, places)]
    _check_moments_question_columns(names, found.moments.variance[places])
    variances, vectors = np.linalg.eigh(matrix)
    loadings = vectors.T[::-1]
    # Either sign would do: what is largest is above 0.
    largest = np.abs(loadings).argmax(axis=1)
    signs = np.sign(loadings[np.arange(len(loadings)), largest])
    return Components(
        names, np.maximum(variances[::-1], 0.0), loadings * signs[:, None]
    )


@dataclass(frozen=True, repr=False)
class TwoStageFit(Renderable, Inference):
    """Least squares in two stages; tests are Student's.

    Attributes:
        n_rows: the number of rows.
        residual_variance: of y about the fitted line, over its degrees of freedom.
    """

    n_rows: int
    residual_variance: float

    def showing(self) -> Rendering:
        """Return the table of coefficients."""
        head = ["name", "coef", "std err", "t", "p", "low", "high"]
        rows = [
            [name, *(f"{value:.5g}" for value in values)]
            for name, *values in (astuple(one) for one in coefficient_table(self))
        ]
        title = f"Least squares in two stages, {self.n_rows} rows"
        return Rendering(title, [ShownTable(head, rows, align="<>>>>>>")])

    def draw_with(self, figures: ModuleType, *, title: str | None = None) -> Any:
        """Return the coefficients with their intervals."""
        rows = counted_words(self.n_rows, "row")
        usual = "Two-stage least squares"
        return figures.inference_figure(
            list(map(vars, coefficient_table(self))),
            figures.chosen_title(title, usual),
            f"{rows} of all parties.",
        )


def two_stage(
    found: ReleasedMoments,
    response: str,
    *,
    on: Sequence[str],
    instruments: Sequence[str],
) -> TwoStageFit:
    """Return two-stage least squares with an intercept, from released moments.

    Args:
        found: what `statistics` released.
        response: the column that is explained.
        on: the columns that explain it, those that may be confounded among them.
        instruments: at least as many columns; those of `on` that are not confounded
            stand here as well.
    """
    if len(instruments) < len(on):
        raise InvalidInputError(
            f"{len(on)} columns need at least as many instruments, found "
            f"{len(instruments)}: name columns that are not confounded in both",
            code="too-few-instruments",
        )
    _check_moments_question_response(response, [*on, *instruments])
    count, means = found.moments.count, found.moments.mean
    whole = found.moments.covariance * (count - 1)
    y, x, z = (
        _places_of_moment_columns(found, names)
        for names in ([response], on, instruments)
    )
    inner = whole[np.ix_(z, z)]
    _check_moments_question_columns(tuple(instruments), np.diag(inner))
    scale = 1.0 / np.sqrt(np.diag(inner))
    if np.linalg.cond(inner * np.outer(scale, scale)) > 1.0 / NEGLIGIBLE:
        raise InvalidInputError(
            f"the instruments {listed_names(instruments)} depend on each other: leave "
            "one out",
            code="dependent-instruments",
        )
    first = np.linalg.solve(inner, whole[np.ix_(z, x)])
    system = first.T @ whole[np.ix_(z, x)]
    sizes = 1.0 / np.sqrt(np.diag(system))
    if not np.linalg.cond(system * np.outer(sizes, sizes)) < 1.0 / NEGLIGIBLE:
        raise InvalidInputError(
            f"the instruments {listed_names(instruments)} do not tell the columns "
            f"{listed_names(on)} apart: add one that goes with each",
            code="weak-instruments",
        )
    slopes = np.linalg.solve(system, (first.T @ whole[np.ix_(z, y)])[:, 0])
    left = whole[y[0], y[0]] - 2.0 * slopes @ whole[x, y[0]]
    left += slopes @ whole[np.ix_(x, x)] @ slopes
    degrees = count - len(on) - 1
    if degrees < 1:
        raise InvalidInputError(
            f"{len(on) + 1} coefficients need more rows than {count}",
            code="too-few-rows",
        )
    variance = float(left) / degrees
    spread = variance * np.linalg.inv(system)
    centre = means[x]
    covariance = np.empty((len(on) + 1, len(on) + 1))
    covariance[1:, 1:] = spread
    covariance[0, 1:] = covariance[1:, 0] = -spread @ centre
    covariance[0, 0] = variance / count + centre @ spread @ centre
    return TwoStageFit(
        names=(INTERCEPT, *on),
        coefficients=np.concatenate([means[y] - slopes @ centre, slopes]),
        covariance=covariance,
        t_degrees=float(degrees),
        n_rows=count,
        residual_variance=variance,
    )


def _check_moments_question_response(response: str, names: Sequence[str]) -> None:
    if response in names:
        raise InvalidInputError(
            f"the response {response!r} cannot explain itself",
            code="response-explains-itself",
        )


def _places_of_moment_columns(
    found: ReleasedMoments, names: Sequence[str]
) -> list[int]:
    if not names:
        raise InvalidInputError(
            f"no column is named: choose from {listed_names(found.columns)}",
            code="no-columns",
        )
    for name in names:
        if name not in found.columns:
            raise InvalidInputError(
                f"nothing was released about {name!r}; there are moments of "
                f"{listed_names(found.columns)}",
                code="column-not-released",
            )
    return [found.columns.index(name) for name in names]


def _parts_of_moment_question(
    found: ReleasedMoments, response: str, on: Sequence[str] | None
) -> tuple[tuple[str, ...], Gram, Vector, float]:
    """Return names, covariances of columns and with the response, and its variance."""
    others = tuple(one for one in found.columns if one != response)
    names = others if on is None else tuple(on)
    _check_moments_question_response(response, names)
    if len(set(names)) < len(names):
        raise InvalidInputError(
            f"a column is in {listed_names(names)} twice: name each column once",
            code="duplicate-column",
        )
    x, (y,) = (
        _places_of_moment_columns(found, names),
        _places_of_moment_columns(found, [response]),
    )
    whole = found.moments.covariance
    return names, whole[np.ix_(x, x)], whole[x, y], float(whole[y, y])


def _check_moments_question_columns(names: Sequence[str], variances: Vector) -> None:
    flat = [one for one, size in zip(names, variances, strict=True) if not size > 0.0]
    if flat:
        raise InvalidInputError(
            f"{listed_names(flat)} is the same in all rows: leave it out",
            code="constant-column",
        )


def _stand_in_rows_for_question(
    cross: Gram, along: Vector, square: float
) -> tuple[FloatArray, Vector]:
    """Return a few rows with these sums of products, for solvers that want rows."""
    values, vectors = np.linalg.eigh(cross)
    kept = values > NEGLIGIBLE * values[-1]
    roots = np.sqrt(values[kept])
    design = roots[:, None] * vectors[:, kept].T
    target = (vectors[:, kept].T @ along) / roots
    # What no column explains stands in a row of its own.
    rest = np.sqrt(max(square - float(target @ target), 0.0))
    design = np.vstack([design, np.zeros(len(cross))])
    return design, np.append(target, rest)
