"""Figures as bytes: built without global state, rendered to PNG and SVG.

matplotlib is an extra; it is imported when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from veilsum.audit.auditing import Audit
from veilsum.audit.literature import LiteratureTable
from veilsum.errors import MissingExtraError
from veilsum.jobs.dispatch import DispatchResult
from veilsum.jobs.dispatch_periods import PeriodsResult
from veilsum.jobs.evaluate import ChanceEvaluation
from veilsum.jobs.solve import Run, Trace
from veilsum.jobs.survival import SurvivalResult
from veilsum.models.survival import SurvivalCurve
from veilsum.models.tallies import Quantile
from veilsum.numbers.arrays import FloatArray
from veilsum.paper import SIGMA, A, B, PaperReport

# Okabe and Ito's palette: told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
PURPLE, SKY, GOLD, BLACK = "#CC79A7", "#56B4E9", "#E69F00", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, GOLD, GREY, BLACK)
LINES = ("-", "--", "-.", ":")
AGENT_STYLES = ("-", "--", ":")
MOST_BARS = 18  # of an audit's attacks
MANY_TIMES = 30  # of survival curves, from which on they have steps
DPI = 150


def _figure(
    width: float, height: float, columns: int, *, top: float = 0.65
) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "figures need matplotlib: pip install 'veilsum[report]'"
        ) from None
    # Fixed margins: solving a layout takes longer than drawing the figure.
    margins = {"left": 0.8 / width, "right": 1 - 0.15 / width, "bottom": 0.5 / height}
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(**margins, top=1 - top / height, wspace=0.16)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def render(figure: Any) -> dict[str, bytes]:
    """Return the figure as PNG and SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    files = {}
    with rc_context({"svg.hashsalt": "veilsum"}):
        for kind, metadata in (("png", {}), ("svg", {"Date": None})):
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
            files[kind] = buffer.getvalue()
    return files


def convergence_figure(report: PaperReport) -> Any:
    """Fig. 1: each agent's error, plain DGD beside Function Sharing."""
    figure, axes = _figure(9.0, 3.6, 2)
    runs = (("DGD, no masks", report.plain), ("Function Sharing", report.veiled))
    for axis, (title, run) in zip(axes, runs, strict=True):
        for agent, style in enumerate(AGENT_STYLES):
            axis.plot(
                run.trace.iterations,
                run.trace.errors[:, agent],
                style,
                color=(BLUE, ORANGE, GREEN)[agent],
                label=f"agent {agent + 1}",
            )
        axis.set(title=title, xlabel="iteration")
        _logarithmic(axis, [run.trace for _, run in runs])
    axes[0].set_ylabel(r"$|x_i(k) - x^*|$")
    axes[0].legend(frameon=False)
    axes[0].text(1.1, 1e-3, "agent 2's coefficient is the mean:\nexact from step 2")
    figure.suptitle("Masked or not, every agent's error vanishes like 1/k")
    return figure


def error_figure(run: Run, title: str) -> Any:
    """Return the worst and the median party's error over the iterations of one run."""
    figure, (axis,) = _figure(5.6, 3.6, 1, top=0.35)
    trace = run.trace
    axis.plot(trace.iterations, trace.errors.max(axis=1), color=BLUE, label="worst")
    median = np.median(trace.errors, axis=1)
    axis.plot(trace.iterations, median, "--", color=ORANGE, label="median")
    _logarithmic(axis, [trace])
    axis.set(xlabel="iteration", ylabel="distance from the pooled minimiser")
    axis.set_title(title, fontsize=10)
    axis.legend(frameon=False, title="party")
    return figure


def _logarithmic(axis: Any, traces: Sequence[Trace]) -> None:
    """Draw both axes on logarithmic scales, alike for traces to be compared."""
    worst = np.concatenate([trace.errors.max(axis=1) for trace in traces])
    axis.set_xscale("symlog", linthresh=1.0)
    axis.set_yscale("log")
    axis.minorticks_off()
    if (worst > 0).any():
        axis.set_ylim(max(worst[worst > 0].min(), 1e-12) / 5, worst.max() * 3)
    axis.grid(visible=True, alpha=0.3)


def density_figure(report: PaperReport) -> Any:
    """Fig. 2: agent 1's coefficient under A and under B, in both readings.

    What everybody sees, alpha~_1, has variance 2 sigma^2 d_1 = 4; what the coalition is
    left with after removing the shares it knows, alpha_bar_1, has variance 2.
    """
    figure, axes = _figure(9.0, 3.6, 2)
    readings = (
        (r"as sent: $\tilde\alpha_1$, variance 4", 4.0, "effective"),
        (r"as agent 3 sees it: $\bar\alpha_1$, variance 2", 2.0, "stripped"),
    )
    for axis, (title, variance, kind) in zip(axes, readings, strict=True):
        for label, mean, sample, colour in (
            ("A", A[0], report.under_a, BLUE),
            ("B", B[0], report.under_b, ORANGE),
        ):
            _density(axis, getattr(sample, kind)[:, 0, 0], colour)
            grid = np.linspace(mean - 8, mean + 8, 400)
            curve = _normal(grid, mean, variance * SIGMA**2)
            text = rf"under {label}: $\alpha_1 = {mean:g}$"
            axis.plot(grid, curve, color=colour, label=text)
        axis.set(title=title, xlabel="coefficient", xlim=(-6.5, 9.5), ylim=(0, 0.31))
        axis.legend(frameon=False, loc="upper right")
    axes[0].set_ylabel("density")
    figure.suptitle(
        f"Two inputs with the same sum look alike: KL {report.kl_exact:g}, "
        f"{report.executions:,} executions each (bars) and theory (lines)"
    )
    return figure


def _density(axis: Any, sample: FloatArray, colour: str) -> None:
    heights, bins = np.histogram(sample, np.arange(-12.0, 15.0, 0.25), density=True)
    axis.stairs(heights, bins, fill=True, color=colour, alpha=0.25)


def _normal(x: FloatArray, mean: float, variance: float) -> FloatArray:
    return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def literature_figure(tables: Sequence[LiteratureTable]) -> Any:
    """Return errors over the attacker's success, one line for each mechanism.

    Exact answers are so much better that they have an axis of their own, below. Open
    marks are of mechanisms that hide the sum as well.

    Args:
        tables: of several divergences, or of one.
    """
    figure, (axis,) = _figure(7.4, 4.6, 1, top=0.35)
    axis.remove()
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    figure.subplots_adjust(left=0.11, right=0.7, hspace=0.08)
    marks, untouched = "oDs^vPX", tables[0].untouched
    noisy = [row for one in tables for row in one.rows if not row.exact]
    least = min([row.error for row in noisy], default=untouched)
    for place, rows in enumerate(zip(*(one.rows for one in tables), strict=True)):
        exact = rows[0].exact
        at = np.array([row.measured for row in rows])
        ends = [[row.low for row in rows], [row.high for row in rows]]
        (lower if exact else upper).errorbar(
            at,
            # Nothing is drawn of a zero on such an axis.
            np.maximum([row.error for row in rows], 2.0**-55),
            xerr=np.abs(np.array(ends) - at),
            fmt=marks[place],
            linestyle=LINES[place % len(LINES)],
            linewidth=0.8,
            color=PALETTE[place],
            markerfacecolor=PALETTE[place] if exact else "white",
        )
        upper.plot(
            [],
            [],
            marks[place],
            color=PALETTE[place],
            markerfacecolor=PALETTE[place] if exact else "white",
            label=rows[0].mechanism,
        )
    upper.axhline(untouched, color=GREY, linewidth=0.8)
    upper.text(1.0, untouched * 1.1, "no answer at all", ha="right", color=GREY)
    for one in (upper, lower):
        one.set_yscale("log")
        one.grid(visible=True, alpha=0.3)
    upper.set(ylim=(least / 3.0, 3.0 * untouched), ylabel="error of the answer")
    lower.set(ylim=(1e-17, 1e-14), xlim=(0.48, 1.02))
    lower.set(xlabel="how often the attacker is right, with its 95 % interval")
    title = "At the same divergence of the view: how far answers are from the true one"
    upper.set_title(title, fontsize=10)
    upper.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    note = "filled: the sum is released\nopen: the sum is hidden, too"
    lower.text(1.06, 0.5, note, transform=lower.transAxes, va="center", fontsize=9)
    return figure


def supply_figure(result: DispatchResult, title: str) -> Any:
    """Return what a dispatch released: the prices tried, and all surpluses there.

    Between two prices nothing is known but that the surplus does not fall: the curve
    is somewhere in the shaded boxes.
    """
    figure, (axis,) = _figure(5.6, 3.6, 1, top=0.35)
    tried = result.tried[np.argsort(result.tried[:, 0], kind="stable")]
    prices, least, most = tried[:, 0], tried[:, 1], tried[:, 2]
    for k in range(len(tried) - 1):
        axis.fill_betweenx(
            prices[k : k + 2],
            [most[k]] * 2,
            [least[k + 1]] * 2,
            color=BLUE,
            alpha=0.15,
            label="" if k else "the curve is in here",
        )
    axis.hlines(prices, least, most, color=BLUE, linewidth=2.5)
    ends, twice = np.concatenate([least, most]), np.concatenate([prices, prices])
    axis.plot(ends, twice, "o", color=BLUE, markersize=4, label="released")
    axis.axvline(0.0, color=GREY, linewidth=0.8)
    found = result.settled
    if found.lowest < found.highest:
        label = f"from {found.lowest:.6g} to {found.highest:.6g} it balances"
        axis.vlines(0.0, found.lowest, found.highest, color=ORANGE, linewidth=4)
    else:
        label = f"it balances at {result.price:.6g}"
    axis.plot([0.0], [result.price], "D", color=ORANGE, markersize=7, label=label)
    # A search sets out from far away: the window is where anything changes.
    low, high = most == most[0], least == least[-1]
    window = prices[max(int(np.argmin(low)) - 1, 0) : int(np.argmax(high)) + 1]
    bottom, top = min(window[0], found.lowest), max(window[-1], found.highest)
    room = 0.06 * (top - bottom) or 1.0
    axis.set(xlabel="output less demand, all parties", ylabel="price")
    axis.set_ylim(bottom - room, top + room)
    axis.set_title(title, fontsize=10)
    axis.grid(visible=True, alpha=0.3)
    axis.legend(frameon=False, loc="upper left")
    return figure


def schedule_figure(result: PeriodsResult, title: str) -> Any:
    """Return the price of every period, and below it who gives what.

    Prices are known to everybody. Bars are of the parties that are known here: all in a
    simulation, one's own in a real run; below zero stores are filled.
    """
    figure, (axis,) = _figure(7.4, 4.6, 1, top=0.35)
    axis.remove()
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    figure.subplots_adjust(right=0.8, hspace=0.1)
    edges = np.arange(len(result.prices) + 1) + 0.5
    upper.stairs(result.prices, edges, baseline=None, color=BLACK, linewidth=1.6)
    upper.set_ylabel("price")
    upper.set_title(title, fontsize=10)
    places = np.arange(1, len(edges))
    above, below = np.zeros((2, len(places)))
    known = {party: one.sum(axis=0) for party, one in result.outputs.items()}
    given = {party: one for party, one in known.items() if one.any()}
    for place, (party, output) in enumerate(given.items()):
        look = {"color": PALETTE[place % len(PALETTE)], "width": 0.8, "label": party}
        base = np.where(output < 0.0, below, above)
        lower.bar(places, output, bottom=base, **look)
        above, below = above + np.maximum(output, 0), below + np.minimum(output, 0)
    lower.axhline(0.0, color=GREY, linewidth=0.8)
    lower.set(xlabel="period", ylabel="output", xlim=(edges[0], edges[-1]))
    lower.xaxis.get_major_locator().set_params(integer=True)
    if given:
        lower.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for one in (upper, lower):
        one.grid(visible=True, alpha=0.3, axis="y")
    return figure


def float_leak_figure(
    sigmas: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    lattice: Sequence[float],
) -> Any:
    """Return how often float64 masks rule an alternative out, over sigma.

    Args:
        sigmas: standard deviations of one share, ascending.
        curves: for each input, in words, the share of runs at each sigma.
        lattice: for integer masks, the largest of all these inputs.
    """
    figure, (axis,) = _figure(7.4, 3.6, 1, top=0.35)
    figure.subplots_adjust(right=0.73)
    # The lattice comes last, over the others, and lowest where it meets them.
    drawn = {f"values {held}": rates for held, rates in curves.items()}
    drawn["any of them, on a lattice"] = lattice
    colours = (*(BLUE, ORANGE, PURPLE)[: len(curves)], GREEN)
    styles = (*("o-", "s--", "^:")[: len(curves)], "D-")
    for rates, colour, style in zip(drawn.values(), colours, styles, strict=True):
        axis.plot(sigmas, rates, style, color=colour, markersize=5)
    _name_at_end(axis, drawn, colours)
    axis.set(xscale="log", ylim=(-0.06, 1.0), xlabel=r"$\sigma$ of one share")
    axis.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f}%")
    axis.set_ylabel("runs in which the swap is impossible")
    axis.set_title(
        "In float64 more noise helps whole numbers, not decimals", fontsize=10
    )
    axis.grid(visible=True, alpha=0.3)
    return figure


def audit_figure(found: Audit) -> Any:
    """Return what attackers can do: both errors, and promised beside measured success.

    Of many coalitions the left side shows the most successful ones. Points below a
    promised curve would be better than promised.
    """
    figure, (left, right) = _figure(9.0, 3.9, 2, top=0.6)
    curves = sorted(found.curves, key=lambda one: -one.area)[: len(LINES)]
    alarms = np.linspace(0.0, 1.0, 201)
    drawn: set[float] = set()
    for curve, mark, colour in zip(curves, "os^D", PALETTE, strict=False):
        name = ", ".join(curve.coalition) or "anybody"
        if curve.promised not in drawn:
            what = "exact" if curve.gaussian else "proved"
            left.plot(
                alarms,
                curve.least_misses(alarms),
                color=GREY,
                lw=4,
                alpha=0.35,
                zorder=0,
                label=None if drawn else f"promised, {what}",
            )
            drawn.add(curve.promised)
        at = [[one[key] for one in curve.points] for key in ("false_alarms", "misses")]
        left.plot(*at, mark, color=colour, ms=4, mfc="none", label=f"{name}: measured")
    left.plot([0, 1], [1, 0], ":", color=GREY, lw=1, label="by a coin")
    left.set(xlabel="false alarms", ylabel="misses", title="Telling two inputs apart")
    left.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    left.legend(frameon=False, loc="upper right", fontsize=8)
    chosen = [one for one in found.outcomes if one.looked_at == "masks"][:MOST_BARS]
    places = np.arange(len(chosen))[::-1]
    for place, one in zip(places, chosen, strict=True):
        low, high = one.interval(found.alarms)
        colour = ORANGE if one.exceeds(found.alarms) else BLUE
        right.plot([low, high], [place, place], "-", color=colour, lw=2)
        right.plot(one.rate, place, "o", color=colour, ms=4)
        right.plot(one.promised, place, "|", color=BLACK, ms=12)
    names = [f"{one.attack}: {', '.join(one.coalition) or 'anybody'}" for one in chosen]
    right.set_yticks(places, names, fontsize=7)
    right.yaxis.tick_right()
    right.set(xlabel="success", xlim=(-0.03, 1.03), title="Promised |, measured o")
    figure.subplots_adjust(right=0.7)
    figure.suptitle(found.verdict.split(". ")[0].rstrip("."), fontsize=10)
    return figure


def _name_at_end(
    axis: Any, curves: Mapping[str, Sequence[float]], colours: Sequence[str]
) -> None:
    """Write the curves' names in the right margin, where no curve passes."""
    ends = [rates[-1] for rates in curves.values()]
    for name, height, colour in zip(
        curves, _apart(ends, gap=0.07), colours, strict=True
    ):
        axis.text(
            1.02,
            height,
            name,
            transform=axis.get_yaxis_transform(),
            color=colour,
            verticalalignment="center",
            fontsize=9,
        )


def _apart(heights: Sequence[float], *, gap: float) -> list[float]:
    """Return the heights, raised where needed to be at least a gap apart.

    Of equal heights the last stays lowest.
    """
    raised = list(heights)
    order = sorted(range(len(raised)), key=lambda i: (raised[i], -i))
    for below, above in pairwise(order):
        raised[above] = max(raised[above], raised[below] + gap)
    return raised


def survival_figure(
    result: SurvivalResult, title: str = "", *, life_table: bool = False
) -> Any:
    """Return the curves with their intervals, and below them the numbers at risk.

    Args:
        result: the curves.
        title: what to notice.
        life_table: whether these are life tables; else by Kaplan and Meier.
    """
    curves = result.life_tables if life_table else result.curves
    height = 4.3 + 0.2 * len(curves)
    figure, (axis,) = _figure(7.4, height, 1, top=0.4)
    figure.subplots_adjust(
        left=0.15, right=0.96, bottom=(0.9 + 0.2 * len(curves)) / height
    )
    times = [0.0, *result.times.tolist()]
    # Between few times nothing is known, and no step says so; of many, steps are usual.
    steps = len(times) > MANY_TIMES
    for place, (label, curve) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": PALETTE[place % len(PALETTE)]}
        heights = [1.0, *curve.survival.tolist()]
        low, high = ([1.0, *one.tolist()] for one in curve.interval())
        way = {"step": "post"} if steps else {}
        axis.fill_between(times, low, high, **way, **look, alpha=0.15, linewidth=0)
        look |= {"linestyle": LINES[place % len(LINES)], "label": label}
        look |= {"drawstyle": "steps-post"} if steps else {"marker": "o", "ms": 4}
        axis.plot(times, heights, **look)
    axis.set(xlim=(0.0, 1.02 * times[-1]), ylim=(0.0, 1.02), ylabel="survival")
    axis.set_xlabel(result.job.formula.time)
    axis.grid(visible=True, alpha=0.3)
    words = f"{'life tables' if life_table else 'Kaplan-Meier'}, 95 % log-log intervals"
    if result.log_rank is not None:
        words = f"{words}; log-rank p = {result.log_rank.p:.2g}"
    axis.text(0.02, 0.03, words, transform=axis.transAxes, fontsize=8, color=GREY)
    if result.job.group is not None:
        axis.legend(frameon=False, title=result.job.group)
    axis.set_title(title, fontsize=10)
    _numbers_at_risk(axis, curves)
    return figure


def _numbers_at_risk(axis: Any, curves: Mapping[str, SurvivalCurve]) -> None:
    """Write below the axis how many rows go on after each time that has room."""
    times = [0.0, *next(iter(curves.values())).times.tolist()]
    # A number takes a fourteenth of the width; the first and the last have theirs.
    last, room = len(times) - 1, times[-1] / 14.0
    kept = [0]
    for place in range(1, last):
        if times[kept[-1]] + room <= times[place] <= times[last] - room:
            kept.append(place)
    kept.append(last)
    axis.set_xticks([times[k] for k in kept])
    axis.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}
    side = {"xycoords": "axes fraction", "ha": "right"}
    axis.annotate("at risk", (0.0, 0.0), xytext=(-20, -44), **side, **small)
    for line, (label, curve) in enumerate(curves.items()):
        height, colour = -44 - 14.4 * (line + 1), PALETTE[line % len(PALETTE)]
        name = label if len(label) <= 12 else f"{label[:11]}\u2026"
        where = {"xytext": (-20, height), "color": colour}
        axis.annotate(name, (0.0, 0.0), **where, **side, **small)
        numbers = [*curve.at_risk.tolist(), curve.later]
        for k in kept:
            where = {"xytext": (0, height), "xycoords": ("data", "axes fraction")}
            axis.annotate(
                f"{numbers[k]:,}", (times[k], 0.0), ha="center", **where, **small
            )


def evaluation_figure(result: ChanceEvaluation, title: str = "") -> Any:
    """Return the ROC curve, and beside it what was predicted and what happened.

    Args:
        result: an evaluation of chances.
        title: what to notice.
    """
    figure, (left, right) = _figure(8.6, 4.4, 2, top=0.5)
    figure.subplots_adjust(wspace=0.28)
    false, true = result.found.roc()
    # Between two edges the curve may be anywhere in the box that they span.
    for a, b in pairwise(zip(false.tolist(), true.tolist(), strict=True)):
        sides = [a[0], b[0]], [a[1], a[1]], [b[1], b[1]]
        left.fill_between(*sides, color=BLUE, alpha=0.15, linewidth=0)
    left.plot(false, true, color=BLUE, marker="o", ms=4)
    area = result.auc
    words = f"area {area.value:.3f}\nbins allow {area.least:.3f} to {area.largest:.3f}"
    left.text(0.98, 0.04, words, ha="right", fontsize=9, color=BLUE)
    left.set(xlabel="1 - specificity", ylabel="sensitivity")
    lines = result.found.calibration()
    places = [one["predicted"] for one in lines]
    heights = [one["observed"] for one in lines]
    ends = [
        [one["observed"] - one["low"] for one in lines],
        [one["high"] - one["observed"] for one in lines],
    ]
    right.errorbar(places, heights, yerr=ends, color=ORANGE, marker="o", ms=4, lw=1.2)
    words = f"Brier {result.brier:.3f}"
    if result.slope is not None:
        words = f"slope {result.slope[1]:.3f}\nintercept {result.slope[0]:.3f}\n{words}"
    right.text(0.98, 0.04, words, ha="right", fontsize=9, color=ORANGE)
    right.set(xlabel="predicted", ylabel="observed, 95 % by Wilson")
    for axis in (left, right):
        axis.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linestyle=":", linewidth=1.0)
        axis.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axis.grid(visible=True, alpha=0.3)
    figure.suptitle(title, fontsize=10)
    return figure


def coefficients_figure(
    rows: Sequence[Mapping[str, Any]], pooled: Sequence[float], title: str
) -> Any:
    """Return a fit's coefficients with their intervals, beside the pooled ones.

    Args:
        rows: of a fit, with name, coefficient, standard_error, low and high.
        pooled: the coefficients that one owner of all rows would find.
        title: what to notice.
    """
    figure, (axis,) = _figure(7.4, 0.32 * len(rows) + 1.1, 1, top=0.4)
    figure.subplots_adjust(left=0.17, right=0.72)
    places = np.arange(len(rows))[::-1]
    ring: dict[str, Any] = {"color": ORANGE, "markersize": 9, "fillstyle": "none"}
    # In standard errors: coefficients of different units share one axis.
    for place, row, whole in zip(places, rows, pooled, strict=True):
        unit = row["standard_error"]
        axis.plot([row["low"] / unit, row["high"] / unit], [place] * 2, color=BLUE)
        axis.plot(row["coefficient"] / unit, place, "o", color=BLUE, markersize=4)
        axis.plot(whole / unit, place, "o", **ring)
    axis.plot([], [], "o-", color=BLUE, markersize=4, label="under masks, 95 %")
    axis.plot([], [], "o", **ring, label="pooled")
    axis.axvline(0.0, color=GREY, linewidth=0.8)
    axis.set_yticks(places, [str(row["name"]) for row in rows])
    axis.set_xlabel("coefficient, in standard errors")
    axis.set_title(title, fontsize=10)
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def forest_figure(
    rows: Sequence[Mapping[str, Any]], title: str, *, ratio: bool = False
) -> Any:
    """Return estimates with their intervals, one below the other.

    Args:
        rows: of a result's table, with name, coefficient, low and high: hazard ratios
            of a Cox regression, fixed effects of a mixed model, pooled estimates of a
            meta-analysis. No party's own number is among these.
        title: what to notice.
        ratio: whether to show exp of all of them, on a logarithmic axis.
    """
    figure, (axis,) = _figure(7.4, 0.36 * len(rows) + 1.2, 1, top=0.4)
    figure.subplots_adjust(left=0.2, right=0.72)
    shown = np.exp if ratio else np.asarray
    for place, row in zip(range(len(rows))[::-1], rows, strict=True):
        low, middle, high = shown([row[key] for key in ("low", "coefficient", "high")])
        axis.plot([low, high], [place] * 2, color=BLUE, linewidth=1.6)
        axis.plot(middle, place, "s", color=BLUE, markersize=6)
        axis.text(
            1.03,
            place,
            f"{middle:#.3g}  [{low:#.3g}, {high:#.3g}]",
            transform=axis.get_yaxis_transform(),
            verticalalignment="center",
            fontsize=9,
        )
    axis.axvline(1.0 if ratio else 0.0, color=GREY, linewidth=0.8)
    axis.set_yticks(range(len(rows))[::-1], [str(row["name"]) for row in rows])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    if ratio:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
        axis.xaxis.set_minor_formatter(lambda tick, _: f"{tick:g}")
        axis.tick_params(which="both", labelsize=8)
    axis.set_xlabel("ratio, with its 95 % interval" if ratio else "95 % interval")
    axis.grid(visible=True, alpha=0.3, axis="x")
    axis.set_title(title, fontsize=10)
    return figure


def boxes_figure(
    groups: Mapping[str, Sequence[Quantile]], name: str, title: str
) -> Any:
    """Return a box for each group, drawn from counts at agreed thresholds.

    A line stands where a quantile is if values are spread evenly between two
    thresholds; the bar across it is where it surely is. There are no dots and no ends:
    the smallest and the largest value are single rows.

    Args:
        groups: the quantiles of each: the quartiles make the box, and the outermost
            ones, if there are any beyond, its whiskers.
        name: what was measured.
        title: what to notice.
    """
    figure, (axis,) = _figure(1.6 + 1.1 * max(len(groups), 3), 3.6, 1, top=0.35)
    for place, found in enumerate(groups.values()):
        known = {one.share: one for one in found if isfinite(one.between)}
        aside = np.linspace(-0.18, 0.18, len(known)) if len(known) > 1 else [0.0]
        for one, at in zip(known.values(), aside, strict=True):
            spot = (place + at - 0.04, one.low), 0.08, one.high - one.low
            axis.add_patch(_box(*spot, color=ORANGE, alpha=0.35, linewidth=0))
        ends = [one.between for one in known.values()]
        middle = [known[share].between for share in (0.25, 0.75) if share in known]
        if len(middle) == 2:
            spot = (place - 0.25, middle[0]), 0.5, middle[1] - middle[0]
            axis.add_patch(_box(*spot, fill=False, edgecolor=BLUE, linewidth=1.2))
        for edge, end in zip(middle, (min, max), strict=False):
            axis.plot([place, place], [edge, end(ends)], color=BLUE, linewidth=1.2)
        for one in known.values():
            width = 0.25 if 0.25 <= one.share <= 0.75 else 0.1
            bold = 2.4 if one.share == 0.5 else 1.2
            line = [place - width, place + width], [one.between] * 2
            axis.plot(*line, color=BLUE, linewidth=bold)
    axis.plot([], [], color=BLUE, linewidth=2.4, label="quantile, if spread evenly")
    axis.plot([], [], color=ORANGE, alpha=0.35, linewidth=7, label="where it surely is")
    axis.set_xticks(range(len(groups)), list(groups))
    axis.set(xlim=(-0.6, len(groups) - 0.4), ylabel=name)
    axis.margins(y=0.25)
    axis.set_title(title, fontsize=10)
    axis.legend(frameon=False, loc="upper left", fontsize=8)
    return figure


def _box(corner: tuple[float, float], width: float, height: float, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, **look)


def counts_figure(
    cells: FloatArray,
    names: tuple[str, str],
    labels: tuple[Sequence[str], Sequence[str]],
    title: str,
) -> Any:
    """Return a table of counts in colours: with bins, a histogram of two columns.

    Args:
        cells: how many rows there are, the first column's places down.
        names: of the two columns.
        labels: of the places of each.
        title: what to notice.
    """
    down, across = cells.shape
    width, height = 1.9 + 0.75 * across, 1.3 + 0.36 * down
    figure, (axis,) = _figure(width, height, 1, top=0.35)
    figure.subplots_adjust(left=1.3 / width, bottom=0.65 / height)
    axis.pcolormesh(cells, cmap="Blues", edgecolors="white", linewidth=1.0)
    most = cells.max()
    for row, column in np.ndindex(cells.shape):
        number = int(cells[row, column])
        dark = "white" if number > 0.55 * most else "black" if number else "#AAAAAA"
        place = column + 0.5, row + 0.5
        axis.text(*place, number, color=dark, ha="center", va="center", fontsize=8)
    axis.set_xticks(np.arange(across) + 0.5, labels[1], fontsize=7)
    axis.set_yticks(np.arange(down) + 0.5, labels[0], fontsize=8)
    axis.set(xlabel=names[1], ylabel=names[0])
    axis.tick_params(length=0)
    axis.set_title(title, fontsize=10)
    return figure
