"""A figure for every kind of result: what `.plot()` of a result draws.

`draw` looks at what it is given and takes the figure that shows it; `figures` has the
figures themselves. Nothing is drawn but what the result holds, so that a real party's
figure shows no more than the party knows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import singledispatch
from inspect import signature
from math import isfinite, isnan
from typing import Any

import numpy as np

from veilsum.audit.auditing import AttackTradeOff, Audit
from veilsum.audit.literature import LiteratureTable
from veilsum.errors import InvalidInputError
from veilsum.fits.fitted import Fitted, FittedCombinations
from veilsum.graphs.connectivity import minimum_vertex_cut
from veilsum.graphs.topology import GraphLike, Topology
from veilsum.minimise.executions import Executions
from veilsum.minimise.gradient_fit import GradientFit
from veilsum.minimise.paper import PaperReport
from veilsum.minimise.quadratic import QuadraticResult
from veilsum.minimise.question import Minimised
from veilsum.minimise.solve import Run, RunRecord, SolveTrace
from veilsum.minimise.sweeps import Sweep
from veilsum.models.choices import ChoiceModel
from veilsum.models.inference import Inference, coefficient_table
from veilsum.numbers.arrays import listed_names, nearest_name
from veilsum.privacy.allocation import Allocation
from veilsum.privacy.conversions import Leakage, attacker_success
from veilsum.privacy.diagnosis import Diagnosis
from veilsum.privacy.divergence import coalition_dangers
from veilsum.privacy.guarantee import Guarantee
from veilsum.privacy.lattice import lattice_success
from veilsum.privacy.planner import NetworkPlan, Plans
from veilsum.privacy.worst_case import worst_mu2
from veilsum.questions.cox.hazards import HazardResult
from veilsum.questions.dispatch import DispatchResult, PeriodsResult
from veilsum.questions.evaluate.bins import ChanceEvaluation
from veilsum.questions.evaluate.concordance import ConcordanceEvaluation
from veilsum.questions.evaluate.errors import NumberEvaluation
from veilsum.questions.evaluate.refits import FoldsEvaluation
from veilsum.questions.from_moments import INTERCEPT, Components, Path, TwoStageFit
from veilsum.questions.meta import PooledResult
from veilsum.questions.regression.result import FitResult
from veilsum.questions.regression.summary import regression_ratio_name
from veilsum.questions.statistics import StatisticsResult
from veilsum.questions.sums import SumResult
from veilsum.questions.survival import SurvivalResult
from veilsum.report import figures
from veilsum.showing import counted_words
from veilsum.sums.running import SumJobResult
from veilsum.surveys.question import SurveyResult

# What a cut is looked for in, and how much work each number of colluders is worth.
MOST_CUT, MOST_WORK = 250, 20_000
# Bars and lines above this many say nothing on a screen.
MOST_SHOWN, MOST_SERIES = 40, 16
# So many times as wide as another, an interval is in other units.
UNITS = 20.0


def draw(shown: object, **options: Any) -> Any:
    """Return a matplotlib figure of a result.

    Args:
        shown: a result, a guarantee, a plan, a diagnosis, a network, an audit, ...
        options: `title` for nearly all; what else there is depends on the kind, and
            stands at `plot` of results.

    >>> from veilsum.privacy.conversions import Leakage
    >>> [axis.get_ylabel() for axis in draw(Leakage(0.25)).axes]
    ['hits']
    """
    way = figure_of_result.dispatch(type(shown))
    if way is not figure_of_result.dispatch(object):
        known = [*signature(way).parameters][1:]
        for name in options:
            if name not in known:
                raise InvalidInputError(
                    f"a figure of a {type(shown).__name__} has no option {name!r}; "
                    f"{nearest_name(name, known)}it takes "
                    f"{listed_names(known) or 'none'}",
                    code="unknown-figure-option",
                )
    return way(shown, **options)


@singledispatch
def figure_of_result(shown: object, **options: Any) -> Any:
    """Return the figure; every kind of result has a function of its own.

    A result of another distribution draws itself, with the module of figures.
    """
    own = getattr(shown, "draw_with", None)
    if own is not None:
        return own(figures, **options)
    kinds = [one.__name__ for one in figure_of_result.registry if one is not object]
    raise InvalidInputError(
        f"there is no figure of a {type(shown).__name__}; figures are drawn of "
        f"{', '.join(sorted(kinds))}",
        code="no-figure",
    )


def _figure_title(given: str | None, usual: str) -> str:
    return usual if given is None else given


def _figure_rests_on(result: SumJobResult, rows: int | None = None) -> str:
    """Return the caption of a job: how much is in it, and who may collude."""
    members = counted_words(len(result.released.members), "party")
    whose = members if rows is None else f"{counted_words(rows, 'row')} of {members}"
    return (
        f"{whose}; {_figure_colluder_words(result.terms.tolerate)}; "
        f"{result.terms.law.name} masks."
    )


def _figure_colluder_words(tolerate: int) -> str:
    if tolerate == 0:
        return "nobody colludes"
    if tolerate == 1:
        return "any one of them may be curious"
    return f"any {tolerate} of them may collude"


# Runs


@figure_of_result.register
def _(run: Run, *, title: str | None = None) -> Any:
    return draw(run.record(), title=title)


@figure_of_result.register
def _(run: RunRecord, *, title: str | None = None) -> Any:
    promise, found = run.guarantee, f"the worst party is {run.max_error:.2g} away"
    who = counted_words(run.topology.n_parties, "party")
    colluders = f"{len(promise.corrupted) or 'nobody'} named as colluding"
    caption = (
        f"{who} on {counted_words(run.topology.n_edges, 'link')}, {colluders}; "
        f"{promise.law} masks: {promise.status.replace('_', ' ')}"
    )
    if promise.epsilon is not None:
        caption += f", epsilon {promise.epsilon:.3g}"
    if not run.iterations:
        usual = f"One exchange and one sum: {found}"
        return figures.answers_figure(run, _figure_title(title, usual), caption)
    usual = f"{run.method}, {counted_words(run.iterations, 'iteration')}: {found}"
    return figures.error_figure(run, _figure_title(title, usual), caption)


@figure_of_result.register
def _(trace: SolveTrace, *, title: str | None = None) -> Any:
    if trace.sent is None:
        raise InvalidInputError(
            "one exchange and a sum leave no curve to draw: draw the run itself, which "
            "shows what was found beside the pooled answer",
            code="no-curve",
        )
    return figures.error_figure(trace, _figure_title(title, "How near everybody is"))


@figure_of_result.register
def _(fit: GradientFit, *, title: str | None = None) -> Any:
    return draw(fit.run, title=title)


@figure_of_result.register
def _(result: Minimised, *, title: str | None = None) -> Any:
    return _draw_coordinates(result, title, "The minimiser of the summed costs")


@figure_of_result.register
def _(result: QuadraticResult, *, title: str | None = None) -> Any:
    return _draw_coordinates(
        result, title, "The minimiser of the summed quadratic costs"
    )


def _draw_coordinates(
    result: Minimised | QuadraticResult, title: str | None, usual: str
) -> Any:
    found = result.minimiser.tolist()
    values = {f"coordinate {k + 1}": one for k, one in enumerate(found[:MOST_SHOWN])}
    caption = _figure_rests_on(result) + _figure_left_out_words(len(found))
    return figures.values_figure(values, "value", _figure_title(title, usual), caption)


def _figure_left_out_words(number: int) -> str:
    left = number - MOST_SHOWN
    return f" {left:,} more {'is' if left == 1 else 'are'} not drawn." * (left > 0)


@figure_of_result.register
def _(report: PaperReport, *, densities: bool = False) -> Any:
    if densities:
        return figures.density_figure(report)
    return figures.convergence_figure(report)


@figure_of_result.register
def _(found: Executions, *, coefficient: int = 0, title: str | None = None) -> Any:
    """Histograms of what a coalition is left with of every honest party."""
    if not 0 <= coefficient < found.stripped.shape[2]:
        raise InvalidInputError(
            f"there are {found.stripped.shape[2]} coefficients, counted from 0; found "
            f"{coefficient}",
            code="index-out-of-range",
        )
    sample = found.stripped[:, :, coefficient]
    edges = np.linspace(sample.min(), sample.max(), 31)
    names = found.honest[: len(figures.PALETTE)]
    curves = {
        name: np.histogram(sample[:, k], edges, density=True)[0]
        for k, name in enumerate(names)
    }
    usual = f"What {counted_words(len(found), 'execution')} leave of each party"
    caption = "the coefficient with its mask, less the shares that the coalition knows"
    places = (edges[1:] + edges[:-1]) / 2.0
    labels = ("effective coefficient", "density")
    return figures.lines_figure(
        places, curves, labels, _figure_title(title, usual), caption
    )


AXES = {
    "sigma": "sigma of one share",
    "epsilon": "epsilon: KL at distance 1, at most",
    "attacker_success": "right guesses of the best attacker: at most",
    "error": "worst party's error",
    "iterations": "iterations",
    "iterations_to_tolerance": "iterations until within {:g}",
    "rounds": "message rounds",
    "bytes": "bytes on all links together",
}


@figure_of_result.register
def _(
    found: Sweep,
    *,
    x: str = "epsilon",
    y: str = "error",
    title: str | None = None,
) -> Any:
    """`x`, `y`: columns of numbers; there is a series for each graph, method, ..."""
    for name in (x, y):
        if name not in AXES:
            raise InvalidInputError(
                f"no numbers are called {name!r}; {nearest_name(name, tuple(AXES))}"
                f"there are {', '.join(AXES)}",
                code="unknown-numbers",
            )
    kept_rows = [row for row in found.rows if row[x] and row[y] is not None]
    # Without masks there is neither sigma nor epsilon: a line over all of them.
    bare = [
        row
        for row in found.rows
        if row["law"] == "none" and row[x] is None and row[y] is not None
    ]
    left = len(found.rows) - len(kept_rows) - len(bare)
    if not kept_rows:
        raise InvalidInputError(
            f"no run has both {x} and {y} above 0: choose others of {', '.join(AXES)}",
            code="nothing-above-zero",
        )
    # What sigma does is along the axis; every other choice that varies has a series.
    choices = ("graph", "law", "method", "tolerate")
    varied = [name for name in choices if len({row[name] for row in kept_rows}) > 1]
    groups: dict[str, dict[float, list[float]]] = {}
    for row in kept_rows:
        words = [str(row[key]) for key in varied if key != "tolerate"]
        if "tolerate" in varied:
            words.append(f"{row['tolerate']} collude")
        at = groups.setdefault(", ".join(words) or row["graph"], {})
        at.setdefault(float(row[x]), []).append(float(row[y]))
    baselines: dict[str, list[float]] = {}
    for row in bare:
        words = [str(row[key]) for key in ("graph", "method") if key in varied]
        at_all = baselines.setdefault(", ".join([*words, "no masks"]), [])
        at_all.append(float(row[y]))
    kept = dict(list(groups.items())[:MOST_SERIES])
    labels = [AXES[name].format(found.tolerance) for name in (x, y)]
    caption = (
        f"{counted_words(len(kept_rows), 'line')}; medians over seeds, from "
        "least to most"
    )
    if left:
        caption += f"; {counted_words(left, 'line')} without these numbers not drawn"
    if len(kept) < len(groups):
        caption += f"; the first {len(kept)} of {len(groups)} series"
    if any(row[y] < figures.LEAST_DRAWN for row in (*kept_rows, *bare)):
        caption += f"; what is 0 or below {figures.LEAST_DRAWN:.1g} is drawn there"
    usual = " against ".join(one.partition(":")[0] for one in reversed(labels))
    return figures.sweep_figure(
        kept,
        (labels[0], labels[1]),
        _figure_title(title, usual[:1].upper() + usual[1:]),
        f"{caption}.",
        baselines=dict(list(baselines.items())[:MOST_SERIES]),
    )


# Coefficients


def _draw_coefficient_forest(
    fit: Inference,
    title: str,
    caption: str,
    *,
    ratio: str = "",
    scaled: bool | None = None,
    left_out: Callable[[str], bool] | None = None,
) -> Any:
    """`ratio`: what exp of a coefficient is; `left_out`: says so of a name."""
    every = [vars(one) for one in coefficient_table(fit)]
    # What there is beside intercepts, or these if there is nothing.
    rows = [one for one in every if left_out is None or not left_out(one["name"])]
    rows = rows or every
    if scaled is None:
        # Columns have units of their own, and one axis does not.
        widths = [one["high"] - one["low"] for one in rows]
        known = [one for one in widths if one > 0.0 and isfinite(one)]
        scaled = not ratio and max(known, default=0.0) > UNITS * min(known, default=0.0)
    said = f"{ratio or 'coefficient'}, 95 % interval"
    return figures.forest_figure(
        rows[:MOST_SHOWN],
        title,
        caption + _figure_left_out_words(len(rows)),
        ratio=bool(ratio),
        scaled=scaled,
        xlabel="coefficient and 95 %, in its standard errors" if scaled else said,
    )


@figure_of_result.register(Fitted)
def _(
    result: Fitted[Any],
    *,
    title: str | None = None,
    exponentiate: bool | None = None,
    intercept: bool = False,
    scaled: bool | None = None,
) -> Any:
    ratio = _figure_ratio_of(result, exponentiate=exponentiate)
    if ratio and scaled:
        raise InvalidInputError(
            "ratios have no units, and are not drawn in standard errors: leave out "
            "scaled, or say exponentiate=False",
            code="ratios-scaled",
        )
    usual = ratio.replace("ratio", "ratios").capitalize() if ratio else "Coefficients"
    rows = getattr(result.fit, "n_rows", None)
    choice = isinstance(getattr(result.fit, "family", None), ChoiceModel)

    def is_intercept(name: str) -> bool:
        # Of each level; and thresholds between two, as R writes these.
        last = name.rpartition(": ")[2] if choice else name
        return last == INTERCEPT or (choice and "|" in name)

    return _draw_coefficient_forest(
        result.inference,
        _figure_title(title, usual),
        _figure_rests_on(result, None if rows is None else int(rows)),
        ratio=ratio,
        scaled=scaled,
        left_out=None if intercept else is_intercept,
    )


def _figure_ratio_of(result: Fitted[Any], *, exponentiate: bool | None) -> str:
    """Return what exp of a coefficient is called, if that is to be drawn."""
    if exponentiate is False:
        return ""
    if isinstance(result, HazardResult):
        return "hazard ratio"
    try:
        if isinstance(result, FitResult):
            return (
                regression_ratio_name(result.fit).partition(" (")[0].partition(" ")[2]
            )
        raise InvalidInputError(
            "exp(coefficient) is no ratio in a linear model: leave out exponentiate",
            code="not-a-ratio",
        )
    except InvalidInputError:
        if exponentiate:
            raise
    return ""


@figure_of_result.register
def _(
    result: PooledResult, *, title: str | None = None, exponentiate: bool = False
) -> Any:
    rows = [vars(one) for pooled in result.pooled for one in coefficient_table(pooled)]
    caption = (
        f"{result.studies}; I^2 = {100.0 * result.fixed.i_squared:.0f} %; no study's "
        f"own estimate is known. {_figure_rests_on(result)}"
    )
    usual = _figure_title(title, result.title)
    xlabel = "ratio, 95 % interval" if exponentiate else "95 % interval"
    return figures.forest_figure(
        rows, usual, caption, ratio=exponentiate, xlabel=xlabel
    )


@figure_of_result.register
def _(fit: TwoStageFit, *, title: str | None = None) -> Any:
    rows = counted_words(fit.n_rows, "row")
    usual = "Two-stage least squares"
    return _draw_coefficient_forest(
        fit, _figure_title(title, usual), f"{rows} of all parties."
    )


@figure_of_result.register
def _(found: FittedCombinations, *, title: str | None = None) -> Any:
    usual = "Combinations of coefficients"
    return _draw_coefficient_forest(found.fit, _figure_title(title, usual), "")


@figure_of_result.register
def _(path: Path, *, title: str | None = None) -> Any:
    sizes = np.abs(path.coefficients).max(axis=0)
    largest = np.argsort(-sizes, kind="stable")[: len(figures.PALETTE)]
    curves = {path.names[k]: path.coefficients[:, k] for k in sorted(largest)}
    kind = {1.0: "lasso", 0.0: "ridge"}.get(path.l1_ratio, "elastic net")
    caption = f"l1_ratio {path.l1_ratio:g}" + (
        f"; {len(curves)} largest of {len(path.names)} columns"
        if len(curves) < len(path.names)
        else ""
    )
    return figures.lines_figure(
        path.alphas,
        curves,
        ("strength of the penalty", "coefficient"),
        _figure_title(title, f"Coefficients of a {kind}"),
        caption,
        scales=("log", "linear"),
    )


@figure_of_result.register
def _(found: Components, *, title: str | None = None) -> Any:
    shares = found.shares.tolist()[:MOST_SHOWN]
    values = {f"component {k + 1}": 100.0 * one for k, one in enumerate(shares)}
    usual = f"Variance of {counted_words(len(found.names), 'column')} by component"
    caption = f"of {listed_names(found.names)}"
    return figures.values_figure(
        values, "% of all variance", _figure_title(title, usual), caption
    )


# Sums and statistics


@figure_of_result.register
def _(result: SumResult, *, title: str | None = None) -> Any:
    found = np.atleast_1d(np.asarray(result.value, dtype=np.float64))
    names = [", ".join(str(k) for k in place) for place in np.ndindex(found.shape)]
    values = dict(zip(names[:MOST_SHOWN], found.ravel().tolist(), strict=False))
    if found.size == 1:
        values = {"all parties": float(found.flat[0])}
    what = getattr(result.inner[0], "what", "a sum")
    return figures.values_figure(
        values,
        f"{what.removeprefix('a ').removeprefix('an ')} over all parties",
        _figure_title(title, what[:1].upper() + what[1:]),
        _figure_rests_on(result) + _figure_left_out_words(found.size),
    )


@figure_of_result.register
def _(result: SurveyResult, *, title: str | None = None) -> Any:
    label, totals = result.survey.label, result.totals.ravel().tolist()
    known = {label(k): one for k, one in enumerate(totals) if not isnan(one)}
    empty = len(totals) - len(known)
    guests = counted_words(result.guests, "guest")
    return figures.values_figure(
        dict([*known.items()][:MOST_SHOWN]),
        f"total of {guests}",
        _figure_title(title, result.survey.title),
        f"{guests}, added up by {counted_words(len(result.survey.names), 'delegate')}; "
        f"too few filled {empty} of {counted_words(len(totals), 'cell')}."
        + _figure_left_out_words(len(known)),
    )


@figure_of_result.register
def _(
    result: StatisticsResult,
    *,
    of: str | tuple[str, str] | None = None,
    title: str | None = None,
) -> Any:
    """`of`: a column, two that were crossed, "means", or "differences" of groups."""
    ways = _drawable_statistics(result)
    wanted = next(iter(ways), None) if of is None else of
    wanted = tuple(wanted) if isinstance(wanted, list) else wanted
    if wanted not in ways:
        names = [one if isinstance(one, str) else " x ".join(one) for one in ways]
        asked = "of" if wanted is None else f"of {wanted!r}"
        raise InvalidInputError(
            f"nothing {asked} can be drawn; "
            f"{nearest_name(str(wanted), tuple(names))}there is "
            f"{listed_names(names) or 'nothing'}",
            code="nothing-to-draw",
        )
    return ways[wanted](title)


def _drawable_statistics(result: StatisticsResult) -> dict[Any, Any]:
    """Return what can be drawn, and by what; the fullest comes first."""
    wishes, caption = result.wishes, _figure_rests_on(result, result.count)
    found: dict[Any, Any] = {}

    def boxes(name: str) -> Any:
        groups = {"all": result.quantiles[name]}
        if (by := wishes.by) is not None:
            parts = result.groups.quantiles[name][1:]
            groups |= dict(
                zip((f"{by.column} = {one}" for one in by.labels), parts, strict=True)
            )
        return lambda title: figures.boxes_figure(
            groups, name, _figure_title(title, f"Quantiles of {name}"), caption
        )

    def counts(names: tuple[str, str]) -> Any:
        axes = wishes.tables[names]
        labels = axes[0].labels, axes[1].labels
        usual = f"Rows by {names[0]} and {names[1]}"
        return lambda title: figures.counts_figure(
            result.tables[names].astype(float),
            names,
            labels,
            _figure_title(title, usual),
            caption,
        )

    def bins(name: str) -> Any:
        held, column = result.histograms[name], result.schema.column(name)
        edges, heights, beyond = held.edges.tolist(), held.counts.tolist(), ""
        before = after = False
        # Open bins end where values do by agreement; without one they have no width.
        if column.minimum is not None and column.minimum < edges[0]:
            before, edges = True, [column.minimum, *edges]
            heights = [held.below, *heights]
        elif held.below:
            beyond += f" {held.below:,.0f} rows are below, not drawn."
        if column.maximum is not None and column.maximum > edges[-1]:
            after, edges = True, [*edges, column.maximum]
            heights = [*heights, held.above]
        elif held.above:
            beyond += f" {held.above:,.0f} rows are above, not drawn."
        return lambda title: figures.histogram_figure(
            edges,
            heights,
            name,
            _figure_title(title, f"Rows by {name}"),
            caption + beyond,
            open_ends=(before, after),
        )

    def means(columns: tuple[str, ...]) -> Any:
        whole = result.marginals
        parts = {"": whole}
        if wishes.by is not None:
            parts = dict(zip(result.groups.names, result.groups.parts, strict=True))
        rows = []
        for k, column in enumerate(columns):
            # In the spread of all rows, so that groups are on one scale.
            unit = float(np.sqrt(whole.variance[k]))
            for label, part in parts.items():
                m, sd = float(part.mean[k]), float(np.sqrt(part.variance[k]))
                name = f"{column}: {label}" if label else column
                ends = {"low": m - sd, "high": m + sd, "standard_error": unit}
                if isfinite(m):
                    rows.append({"name": name, "coefficient": m, **ends})
        of_all = " of all rows" if wishes.by is not None else ""
        return lambda title: figures.forest_figure(
            rows[:MOST_SHOWN],
            _figure_title(title, "Means, and one standard deviation either way"),
            caption + _figure_left_out_words(len(rows)),
            scaled=True,
            xlabel=f"in standard deviations{of_all}",
        )

    def differences(title: str | None) -> Any:
        groups = result.groups
        known = {key: one.largest for key, one in groups.comparisons.items()}
        apart = {key: one for key, one in known.items() if isfinite(one)}
        ranked = dict(sorted(apart.items(), key=lambda one: -one[1])[:MOST_SHOWN])
        which = "of two groups, the largest" if len(groups.names) > 2 else "in size"
        return figures.differences_figure(
            ranked,
            f"standardised difference, {which}",
            _figure_title(title, f"How far groups of {groups.by.column} are apart"),
            caption + _figure_left_out_words(len(apart)),
        )

    if wishes.by is not None and any(
        isfinite(one.largest) for one in result.groups.comparisons.values()
    ):
        found["differences"] = differences
    for name in result.quantiles:
        found[name] = boxes(name)
    for names in wishes.tables:
        if len(names) == 2:
            found[names] = counts((names[0], names[1]))
    for name in result.histograms:
        found.setdefault(name, bins(name))
    if result.columns:
        found["means"] = means(result.columns)
    return found


@figure_of_result.register
def _(
    result: SurvivalResult, *, title: str | None = None, life_table: bool = False
) -> Any:
    usual = _figure_title(title, "Survival")
    caption = _figure_rests_on(result, result.count)
    return figures.survival_figure(result, usual, caption, life_table=life_table)


# How well something predicts


@figure_of_result.register
def _(result: ChanceEvaluation, *, title: str | None = None) -> Any:
    usual = "How well chances are predicted"
    caption = _figure_rests_on(result, result.count)
    return figures.evaluation_figure(result, _figure_title(title, usual), caption)


@figure_of_result.register
def _(result: NumberEvaluation, *, title: str | None = None) -> Any:
    caption = _figure_rests_on(result, result.count)
    if result.folds:
        values = {f"fold {k + 1}": one.rmse for k, one in enumerate(result.folds)}
        words = "root mean squared error, each fold by a fit of the others"
        return figures.values_figure(
            {**values, "all": result.errors.rmse},
            "root mean squared error",
            _figure_title(title, words.capitalize()),
            f"R squared {result.errors.r_squared:.3f}. {caption}",
        )
    intercept, slope = result.errors.calibration
    values = {"R squared": result.errors.r_squared, "slope": slope}
    return figures.values_figure(
        values,
        "1 where predictions are perfect",
        _figure_title(title, "How well numbers are predicted"),
        f"root mean squared error {result.errors.rmse:.4g}, bias "
        f"{result.errors.bias:.4g}, intercept {intercept:.4g}. {caption}",
    )


@figure_of_result.register
def _(result: FoldsEvaluation, *, title: str | None = None) -> Any:
    halves = 2 if result.job.is_chance else 1
    word = "log-loss" if result.job.is_chance else "deviance"
    values = {
        f"fold {k + 1}": float(one.deviance / halves / one.n_rows)
        for k, one in enumerate(result.folds)
        if one.n_rows
    }
    mean = result.log_loss or result.deviance
    return figures.values_figure(
        {**values, "all": mean.value},
        f"mean {word} of a row, by the fit without its fold",
        _figure_title(
            title, f"{result.explained_deviance:.1%} of the deviance is explained"
        ),
        _figure_rests_on(result, result.count),
        ends={
            "all": (mean.value - mean.standard_error, mean.value + mean.standard_error)
        },
    )


@figure_of_result.register
def _(result: ConcordanceEvaluation, *, title: str | None = None) -> Any:
    found = result.concordance
    values = {"concordance": found.value}
    low, high = found.interval(0.95)
    return figures.values_figure(
        values,
        "0.5 by a coin, 1 at best",
        _figure_title(
            title, f"Concordance {found.value:.3f}, 95 % {low:.3f} to {high:.3f}"
        ),
        f"between {found.least:.3f} and {found.largest:.3f} however rows lie within "
        f"their bins. {_figure_rests_on(result, result.count)}",
        ends={"concordance": (low, high)},
    )


# Prices


@figure_of_result.register
def _(result: DispatchResult, *, title: str | None = None) -> Any:
    usual = f"The prices tried: it balances at {result.price:.6g}"
    return figures.supply_figure(
        result, _figure_title(title, usual), _figure_rests_on(result)
    )


@figure_of_result.register
def _(result: PeriodsResult, *, title: str | None = None) -> Any:
    usual = f"Prices of {counted_words(len(result.prices), 'period')}"
    return figures.schedule_figure(
        result, _figure_title(title, usual), _figure_rests_on(result)
    )


# Networks, and what they promise

DANGER = (
    "Darker: an exchange of this party's value with another's shows more; its "
    "divergence is gap^2 R / ({} sigma^2), R at most {:.3g} here."
)


@figure_of_result.register
def _(
    topology: Topology,
    *,
    corrupted: Iterable[Hashable] = (),
    title: str | None = None,
) -> Any:
    bad = topology.names(topology.indices(corrupted))
    found = coalition_dangers(topology, corrupted=bad)
    cut: tuple[str, ...] = ()
    said = ""
    if topology.n_parties <= MOST_CUT:
        smallest = minimum_vertex_cut(topology)
        if smallest is not None:
            cut = topology.names(smallest)
            number = counted_words(len(cut), "party")
            said = f"The loss of {number} can take it apart. "
    links = counted_words(topology.n_edges, "link")
    usual = f"{counted_words(topology.n_parties, 'party')}, {links}"
    if bad:
        usual += f"; {listed_names(bad)} {'colludes' if len(bad) == 1 else 'collude'}"
    return figures.network_figure(
        topology,
        _figure_title(title, usual),
        said + _drawn_danger_words(topology, found),
        corrupted=bad,
        cut=cut,
        dangers=found,
    )


def _drawn_danger_words(topology: Topology, found: Mapping[str, float]) -> str:
    finite = [one for one in found.values() if isfinite(one)]
    alone = len(found) - len(finite)
    are = "is" if alone == 1 else "are"
    said = f"{counted_words(alone, 'party')} {are} known exactly. " * (alone > 0)
    if not finite:
        return said
    return said + DANGER.format(2 * topology.shares_per_edge, max(finite))


@figure_of_result.register
def _(found: Diagnosis, *, title: str | None = None) -> Any:
    added = [tuple(sorted(one)) for one in found.links_to_add]
    graph = found.repaired
    keep = [
        (graph.parties[i], graph.parties[j])
        for i, j in graph.edges.tolist()
        if tuple(sorted((graph.parties[i], graph.parties[j]))) not in added
    ]
    # As it is today; parties that no link reaches are there too.
    today = Topology.from_edges(keep, parties=graph.parties, directed=graph.directed)
    weak = [name for one in found.cuts for name in one.parties]
    safe = "withstands" if found.safe else "does not withstand"
    usual = f"The network {safe} {counted_words(found.tolerate, 'colluder')}"
    caption = (
        f"The loss of {counted_words(found.vertex_connectivity, 'party')} can take "
        "it apart or leave one alone, and of no fewer."
    )
    if added:
        mend = "mends" if len(added) == 1 else "mend"
        caption += f" {counted_words(len(added), 'link')} {mend} it."
    return figures.network_figure(
        today,
        _figure_title(title, usual),
        f"{caption} {_drawn_danger_words(today, coalition_dangers(today))}",
        cut=weak,
        dangers=coalition_dangers(today),
        added=found.links_to_add,
        helpful=[one.link for one in found.helpful_links[:1]],
    )


@figure_of_result.register
def _(found: Allocation, *, title: str | None = None) -> Any:
    usual = f"Noise by link: epsilon falls by a factor of {found.gain:.3g}"
    names = [" - ".join(link) for link in found.links]
    ranked = sorted(zip(found.weights, names, strict=True), key=lambda one: -one[0])
    values = {name: weight for weight, name in ranked[:MOST_SHOWN]}
    caption = (
        "variance of a link's shares in units of sigma^2; "
        f"{_figure_colluder_words(found.tolerate)}.{_figure_left_out_words(len(ranked))}"
    )
    return figures.values_figure(values, "weight", _figure_title(title, usual), caption)


@figure_of_result.register
def _(
    promise: Guarantee, *, topology: GraphLike | None = None, title: str | None = None
) -> Any:
    """`topology`: the network it is about, which is drawn then."""
    if topology is not None:
        return _draw_network_of(promise, Topology.of(topology), title)
    worst = promise.worst
    against = (
        _figure_colluder_words(worst.tolerate)
        if worst is not None
        else f"{listed_names(promise.corrupted) or 'nobody'} colluding"
    )
    if promise.epsilon is None:
        pieces = {
            ", ".join(one.parties): float(len(one.parties))
            for one in promise.components
        }
        usual = f"No number holds: {promise.status.replace('_', ' ')}, {against}"
        caption = "; ".join(promise.released[:3])
        return figures.values_figure(
            pieces or {"nobody": 0.0},
            "honest parties in one piece",
            _figure_title(title, usual),
            caption,
        )
    epsilon = promise.epsilon
    exact = promise.law == "gaussian"
    success = attacker_success if exact else lattice_success
    # As far as somebody is right in 99 of 100 guesses, or anywhere if nothing shows.
    furthest = 4.7 / np.sqrt(2.0 * epsilon) if epsilon > 0.0 else 1.0
    usual = f"What an attacker can tell: epsilon {epsilon:.3g}, {against}"
    caption = (
        "two inputs of equal honest sum, told apart at even odds; "
        f"{'exact for the worst two' if exact else 'proved'} under {promise.law} masks"
    )
    return figures.success_figure(
        lambda far: success(epsilon * far**2),
        furthest,
        _figure_title(title, usual),
        caption,
    )


def _draw_network_of(promise: Guarantee, topology: Topology, title: str | None) -> Any:
    unknown = {*promise.corrupted, *promise.honest} ^ set(topology.parties)
    if unknown:
        raise InvalidInputError(
            f"the guarantee is about another network: {listed_names(sorted(unknown))} "
            "is in "
            "one of them only",
            code="network-differs",
        )
    worst = promise.worst
    found = coalition_dangers(topology, corrupted=promise.corrupted)
    words = promise.status.replace("_", " ")
    if promise.epsilon is not None:
        words += f", epsilon {promise.epsilon:.3g}"
    who = "the worst coalition" if worst is not None else "the coalition"
    return figures.network_figure(
        topology,
        _figure_title(title, f"{who.capitalize()}, and what is left: {words}"),
        _drawn_danger_words(topology, found),
        corrupted=promise.corrupted,
        cut=() if worst is None else worst.cut or (),
        dangers=found,
    )


@figure_of_result.register
def _(found: NetworkPlan, *, title: str | None = None) -> Any:
    return _draw_epsilons(found, len(found.worst_coalition), None, title)


@figure_of_result.register
def _(found: Plans, *, network: bool = False, title: str | None = None) -> Any:
    """`network`: draw the best network instead of what it promises."""
    best = found.best
    if network:
        caption = f"sigma {best.sigma:.4g}" if best.sigma is not None else "no sigma"
        known = coalition_dangers(best.topology, corrupted=best.worst_coalition)
        return figures.network_figure(
            best.topology,
            _figure_title(title, f"{best.graph} against {found.tolerate} colluders"),
            f"{caption}, epsilon {best.epsilon:.3g}. "
            f"{_drawn_danger_words(best.topology, known)}",
            corrupted=best.worst_coalition,
            dangers=known,
        )
    return _draw_epsilons(best, found.tolerate, found.target.epsilon, title)


def _draw_epsilons(
    found: NetworkPlan, tolerate: int, target: float | None, title: str | None
) -> Any:
    if found.sigma is None:
        raise InvalidInputError(
            "uniform masks have no sigma and epsilon 0: there is nothing to draw but "
            "the network, with draw(plans, network=True)",
            code="nothing-to-draw",
        )
    graph = found.topology
    most = min(found.vertex_connectivity - 1, tolerate + 2, graph.n_parties - 2)
    known = {}
    for t in range(max(most, tolerate) + 1):
        least = worst_mu2(graph, tolerate=t, most_work=MOST_WORK).lower
        if least is not None:
            known[t] = least
    usual = (
        f"{found.graph}: with sigma {found.sigma:.4g} epsilon is {found.epsilon:.3g} "
        f"if {tolerate} collude"
    )
    return figures.epsilon_figure(
        known,
        _figure_title(title, usual),
        "epsilon of normal shares, the worst coalition of each size; a lattice adds "
        "millionths",
        shares_per_edge=graph.shares_per_edge,
        chosen=(found.sigma, found.epsilon),
        target=target,
    )


# Attackers


@figure_of_result.register
def _(told: Leakage, *, title: str | None = None) -> Any:
    usual = f"The best attacker is right in {told.attacker_success:.1%} of guesses"
    caption = (
        f"KL divergence {told.divergence:.4g}, area under the curve {told.auc:.3f}"
    )
    return figures.roc_figure(told.divergence, _figure_title(title, usual), caption)


@figure_of_result.register
def _(curve: AttackTradeOff, *, title: str | None = None) -> Any:
    alarms, hits = curve.rates
    places = np.linspace(0.0, 1.0, 201)
    shown = {
        "promised, at most": 1.0 - curve.least_misses(places),
        "measured": np.interp(places, alarms, hits),
        "by a coin": places,
    }
    who = listed_names(curve.coalition) or "anybody"
    return figures.lines_figure(
        places,
        shown,
        ("false alarms", "hits"),
        _figure_title(title, f"{who}: right in {curve.promised:.1%} at most"),
        f"area under the measured curve {curve.area:.3f}",
    )


@figure_of_result.register
def _(found: Audit) -> Any:
    return figures.audit_figure(found)


@figure_of_result.register
def _(compared: LiteratureTable) -> Any:
    return figures.literature_figure([compared])
