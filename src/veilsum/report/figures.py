"""Figures as bytes: built without global state, rendered to PNG and SVG.

matplotlib is an extra; it is imported when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np

from veilsum.errors import MissingExtraError
from veilsum.jobs.dispatch import DispatchResult
from veilsum.jobs.solve import Run, Trace
from veilsum.numbers.arrays import FloatArray
from veilsum.paper import SIGMA, A, B, PaperReport

# Okabe and Ito's palette: told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
PURPLE = "#CC79A7"
AGENT_STYLES = ("-", "--", ":")
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
    axis.set(xlabel="output less demand, all parties", ylabel="price")
    axis.set_title(title, fontsize=10)
    axis.grid(visible=True, alpha=0.3)
    axis.legend(frameon=False, loc="upper left")
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
